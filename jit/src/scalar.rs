//! Scalar instructions: those that the machine has as instructions of its own are written out, and what is frequent and
//! short; all others are calls of the function that the instruction table defines. So a new instruction needs nothing
//! here.

use crate::emit::Emit;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, F64X2, I32, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, InstructionData, MemFlagsData, Opcode, Value};
use dualvm_vm::isa::Op;
use dualvm_vm::math::{TANH_SLOPE_BOUND, exp};

impl Emit<'_> {
    /// The result of a scalar instruction that can't trap.
    pub(crate) fn scalar(&mut self, op: Op, args: &[Value]) -> Value {
        let a = args[0];
        let b = args.get(1).copied().unwrap_or(a);
        let c = args.get(2).copied().unwrap_or(a);
        match op {
            Op::Detach => a,
            Op::Neg => self.b.ins().fneg(a),
            Op::Abs => self.b.ins().fabs(a),
            Op::Add => self.b.ins().fadd(a, b),
            Op::Sub => self.b.ins().fsub(a, b),
            Op::Mul => self.b.ins().fmul(a, b),
            Op::Div => self.b.ins().fdiv(a, b),
            Op::Sqrt => self.b.ins().sqrt(a),
            Op::Floor => self.b.ins().floor(a),
            Op::Ceil => self.b.ins().ceil(a),
            Op::Round => self.b.ins().nearest(a),
            Op::Trunc => self.b.ins().trunc(a),
            Op::Min => self.extreme(FloatCC::LessThan, a, b),
            Op::Max => self.extreme(FloatCC::GreaterThan, a, b),
            Op::StrongMul => self.strong_mul(a, b),
            Op::TanhSlope => self.tanh_slope(a, b),
            Op::Exp => self.exp(a),
            Op::Select | Op::ISelect => self.select(a, b, c),
            Op::Eq => self.compare_reals(FloatCC::Equal, a, b),
            Op::Ne => self.compare_reals(FloatCC::NotEqual, a, b),
            Op::Lt => self.compare_reals(FloatCC::LessThan, a, b),
            Op::Le => self.compare_reals(FloatCC::LessThanOrEqual, a, b),
            Op::IEq => self.compare_ints(IntCC::Equal, a, b),
            Op::INe => self.compare_ints(IntCC::NotEqual, a, b),
            Op::ILt => self.compare_ints(IntCC::SignedLessThan, a, b),
            Op::ILe => self.compare_ints(IntCC::SignedLessThanOrEqual, a, b),
            Op::IAdd => match (self.constant(a), self.constant(b)) {
                (_, Some(more)) => self.plus(a, more),
                (Some(more), None) => self.plus(b, more),
                (None, None) => self.b.ins().iadd(a, b),
            },
            Op::ISub => match self.constant(b) {
                Some(less) => self.plus(a, less.wrapping_neg()),
                None => self.b.ins().isub(a, b),
            },
            Op::IMul => self.b.ins().imul(a, b),
            Op::INeg => self.b.ins().ineg(a),
            Op::IAnd => self.b.ins().band(a, b),
            Op::IOr => self.b.ins().bor(a, b),
            Op::IXor => self.b.ins().bxor(a, b),
            // Shifts count modulo 64 here and there.
            Op::IShl => self.b.ins().ishl(a, b),
            Op::IShr => self.b.ins().sshr(a, b),
            Op::IPopcnt => self.b.ins().popcnt(a),
            Op::IClz => self.b.ins().clz(a),
            Op::IMin => self.b.ins().smin(a, b),
            Op::IMax => self.b.ins().smax(a, b),
            Op::ToReal => self.b.ins().fcvt_from_sint(F64, a),
            // Divisors of what can't trap are positive constants, which may have been loaded.
            Op::IDiv | Op::IRem => {
                let divisor = self.constant(b);
                self.divide(op, a, (b, divisor))
            }
            _ => self.call_scalar(op, args),
        }
    }

    fn compare_reals(&mut self, cc: FloatCC, a: Value, b: Value) -> Value {
        // Whether it is NaN takes the machine a test less.
        let cc = if cc == FloatCC::NotEqual && a == b { FloatCC::Unordered } else { cc };
        let holds = self.b.ins().fcmp(cc, a, b);
        self.truth(holds)
    }

    fn compare_ints(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        let holds = self.b.ins().icmp(cc, a, b);
        self.truth(holds)
    }

    pub(crate) fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        self.b.ins().select(condition, a, b)
    }

    /// The number that a value is, if it is a constant.
    pub(crate) fn constant(&self, value: Value) -> Option<i64> {
        let dfg = &self.b.func.dfg;
        match dfg.insts[dfg.value_def(value).inst()?] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        }
    }

    /// Integer division by a positive constant, whether it is known here or not: rounds towards zero.
    pub(crate) fn divide(&mut self, op: Op, a: Value, (b, divisor): (Value, Option<i64>)) -> Value {
        let Some(divisor) = divisor.filter(|&divisor| divisor > 0 && (divisor as u64).is_power_of_two()) else {
            return if op == Op::IDiv { self.b.ins().sdiv(a, b) } else { self.b.ins().srem(a, b) };
        };
        let shift = i64::from(divisor.trailing_zeros());
        if shift == 0 {
            return if op == Op::IDiv { a } else { self.int(0) };
        }
        // Negative numbers are moved up by one less than the divisor.
        let sign = if shift == 1 { a } else { self.b.ins().sshr_imm_u(a, 63) };
        let less = self.b.ins().ushr_imm_u(sign, 64 - shift);
        let moved = self.b.ins().iadd(a, less);
        let quotient = self.b.ins().sshr_imm_u(moved, shift);
        if op == Op::IDiv {
            return quotient;
        }
        let multiple = self.b.ins().ishl_imm_u(quotient, shift);
        self.b.ins().isub(a, multiple)
    }

    /// `b` if it compares so with `a` or is NaN, else `a`: NaN if either is.
    fn extreme(&mut self, cc: FloatCC, a: Value, b: Value) -> Value {
        let better = self.b.ins().fcmp(cc, b, a);
        let value = self.b.ins().select(better, b, a);
        let nan = self.b.ins().fcmp(FloatCC::Unordered, b, b);
        self.b.ins().select(nan, b, value)
    }

    /// The product; where it is NaN and a factor is zero, 0.
    fn strong_mul(&mut self, a: Value, b: Value) -> Value {
        let product = self.b.ins().fmul(a, b);
        let nan = self.b.ins().fcmp(FloatCC::Unordered, product, product);
        let (rare, done) = (self.cold_block(), self.b.create_block());
        let result = self.b.append_block_param(done, F64);
        self.branch(nan, rare, &[], done, &[product.into()]);
        self.enter(rare);
        let zero = self.b.ins().f64const(0.0);
        let [a_is_zero, b_is_zero] = [a, b].map(|factor| self.b.ins().fcmp(FloatCC::Equal, factor, zero));
        let either = self.b.ins().bor(a_is_zero, b_is_zero);
        let exact = self.b.ins().select(either, zero, product);
        self.b.ins().jump(done, &[exact.into()]);
        self.enter(done);
        result
    }

    /// `1 - t²`; where too few of its digits would be left, what the function of the table gives.
    fn tanh_slope(&mut self, a: Value, t: Value) -> Value {
        let (near, far, done) = (self.b.create_block(), self.cold_block(), self.b.create_block());
        let result = self.b.append_block_param(done, F64);
        let size = self.b.ins().fabs(t);
        let bound = self.b.ins().f64const(TANH_SLOPE_BOUND);
        let is_near = self.b.ins().fcmp(FloatCC::LessThanOrEqual, size, bound);
        self.branch(is_near, near, &[], far, &[]);
        self.enter(far);
        let exact = self.call_scalar_rarely(Op::TanhSlope, &[a, t]);
        self.b.ins().jump(done, &[exact.into()]);
        self.enter(near);
        let one = self.b.ins().f64const(1.0);
        let (less, more) = (self.b.ins().fsub(one, t), self.b.ins().fadd(one, t));
        let product = self.b.ins().fmul(less, more);
        self.b.ins().jump(done, &[product.into()]);
        self.enter(done);
        result
    }

    /// `eᵃ`, operation by operation as [`dualvm_vm::math::exp()`]: a call would cost as much as it computes. Of a
    /// vector it is computed in both lanes.
    fn exp(&mut self, a: Value) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        let (ordinary, edge, done) = (self.b.create_block(), self.cold_block(), self.b.create_block());
        let result = self.b.append_block_param(done, ty);
        let is_ordinary = self.is_ordinary_for_exp(a);
        self.branch(is_ordinary, ordinary, &[], edge, &[]);
        self.enter(edge);
        let exact = if ty == F64 {
            self.call_scalar_rarely(Op::Exp, &[a])
        } else {
            let lanes = [0, 1].map(|lane| self.b.ins().extractlane(a, lane));
            let lanes = lanes.map(|lane| self.call_scalar_rarely(Op::Exp, &[lane]));
            self.vector(lanes)
        };
        self.b.ins().jump(done, &[exact.into()]);

        self.enter(ordinary);
        let [steps_per_unit, magic] = [exp::STEPS_PER_UNIT, exp::ROUND_TO_INTEGER].map(|c| self.real_constant(ty, c));
        let steps = self.b.ins().fmul(a, steps_per_unit);
        let shifted = self.b.ins().fadd(steps, magic);
        let k = self.b.ins().fsub(shifted, magic);
        let [high, low] = exp::STEP.map(|step| {
            let step = self.real_constant(ty, step);
            self.b.ins().fmul(k, step)
        });
        let r = self.b.ins().fsub(a, high);
        let r = self.b.ins().fsub(r, low);
        let [c2, c3, c4, c5] = exp::POLYNOMIAL.map(|c| self.real_constant(ty, c));
        let mut linear = |c0: Value, c1: Value| {
            let product = self.b.ins().fmul(r, c1);
            self.b.ins().fadd(product, c0)
        };
        let (first, second) = (linear(c2, c3), linear(c4, c5));
        let r2 = self.b.ins().fmul(r, r);
        let r4 = self.b.ins().fmul(r2, r2);
        let (first, second) = (self.b.ins().fmul(r2, first), self.b.ins().fmul(r4, second));
        let rest = self.b.ins().fadd(r, first);
        let rest = self.b.ins().fadd(rest, second);

        let bits_type = if ty == F64 { I64 } else { I64X2 };
        let k = self.b.ins().bitcast(bits_type, MemFlagsData::new(), shifted);
        let (bits, correction) = if ty == F64 {
            let power = self.power(k);
            (self.load(I64, power, 0), self.load(F64, power, 8))
        } else {
            let powers = [0, 1].map(|lane| {
                let k = self.b.ins().extractlane(k, lane);
                self.power(k)
            });
            let bits = powers.map(|power| self.load(F64, power, 0));
            let bits = self.vector(bits);
            let corrections = powers.map(|power| self.load(F64, power, 8));
            (self.b.ins().bitcast(I64X2, MemFlagsData::new(), bits), self.vector(corrections))
        };
        let exponent = self.b.ins().ishl_imm_u(k, i64::from(exp::EXPONENT_SHIFT));
        let bits = self.b.ins().iadd(bits, exponent);
        let scale = self.b.ins().bitcast(ty, MemFlagsData::new(), bits);
        let rest = self.b.ins().fadd(correction, rest);
        let rest = self.b.ins().fmul(scale, rest);
        let power = self.b.ins().fadd(scale, rest);
        self.b.ins().jump(done, &[power.into()]);
        self.enter(done);
        result
    }

    /// Whether a real is so small that [`Emit::exp`] may compute with it as it does, or both lanes of a vector are.
    fn is_ordinary_for_exp(&mut self, a: Value) -> Value {
        if self.b.func.dfg.value_type(a) != F64 {
            let (size, bound) = (self.b.ins().fabs(a), self.real_constant(F64X2, exp::ORDINARY_BOUND));
            let is_less = self.b.ins().fcmp(FloatCC::LessThan, size, bound);
            let lanes = self.b.ins().vhigh_bits(I32, is_less);
            return self.b.ins().icmp_imm_u(IntCC::Equal, lanes, 0b11);
        }
        // The exponent says whether it is less than a power of two.
        const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
        const {
            assert!(exp::ORDINARY_BOUND.to_bits() << (u64::BITS - MANTISSA_BITS) == 0);
        }
        let bits = self.b.ins().bitcast(I64, MemFlagsData::new(), a);
        let exponent = self.b.ins().ushr_imm_u(bits, i64::from(MANTISSA_BITS));
        let exponent = self.b.ins().band_imm_u(exponent, 0x7ff);
        let bound = (exp::ORDINARY_BOUND.to_bits() >> MANTISSA_BITS) as i64;
        self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, exponent, bound)
    }

    /// Where the table has a power of two and its correction, by the low bits of a number of steps.
    fn power(&mut self, k: Value) -> Value {
        let index = self.b.ins().band_imm_u(k, exp::POWERS_LEN as i64 - 1);
        let offset = self.b.ins().ishl_imm_u(index, i64::from(size_of::<[u64; 2]>().ilog2()));
        let powers = self.int(exp::POWERS.as_ptr() as i64);
        self.b.ins().iadd(powers, offset)
    }
}
