//! Scalar instructions: those that the machine has as instructions of its own are written out, and what is frequent and
//! short; all others are calls of the function that the instruction table defines. So a new instruction needs nothing
//! here.

use crate::emit::Emit;
use crate::vectors::{MACHINE_HAS_VECTORS, machine_has_fma};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, F64X2, I32, I64, I64X2};
use cranelift_codegen::ir::{Block, InstBuilder, InstructionData, MemFlagsData, Opcode, Value};
use dualvm_vm::isa::Op;
use dualvm_vm::math::{SIGMOID_SLOPE_BOUND, TANH_SLOPE_BOUND, exp, hyperbolic};

/// Whether an instruction is a function that is written out and takes more than fifty instructions.
pub(crate) fn is_long(op: Op) -> bool {
    matches!(op, Op::Tanh | Op::Sigmoid)
}

/// Whether an instruction finds a slope from the second operand, the function's result, and rarely reads the first one.
pub(crate) fn is_slope(op: Op) -> bool {
    matches!(op, Op::TanhSlope | Op::SigmoidSlope)
}

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
            Op::Add => {
                let [a, b] = self.constant_last([a, b]);
                self.b.ins().fadd(a, b)
            }
            Op::Sub => self.b.ins().fsub(a, b),
            Op::Mul => {
                let [a, b] = self.constant_last([a, b]);
                self.b.ins().fmul(a, b)
            }
            Op::Div => self.b.ins().fdiv(a, b),
            Op::Fma if machine_has_fma() => self.b.ins().fma(a, b, c),
            Op::Sqrt => self.b.ins().sqrt(a),
            Op::Floor => self.b.ins().floor(a),
            Op::Ceil => self.b.ins().ceil(a),
            Op::Round => self.b.ins().nearest(a),
            Op::Trunc => self.b.ins().trunc(a),
            Op::Min => self.extreme([b, a], a, b),
            Op::Max => self.extreme([a, b], a, b),
            Op::StrongMul => self.strong_mul(a, b),
            op if is_slope(op) => self.slope(op, |_| a, b),
            Op::Sigmoid => self.sigmoid(a),
            Op::Exp => self.exp(a),
            Op::Tanh => self.tanh(a),
            Op::Select => self.select_real(a, [b, c]),
            Op::ISelect => self.select(a, b, c),
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
            Op::IDiv | Op::IRem => match self.constant(b) {
                None if op == Op::IRem => self.remainder_again([a, b]),
                divisor => self.divide(op, a, (b, divisor)),
            },
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

    /// One of two reals. What Cranelift makes of a `select` of reals is a branch. Those after comparisons of reals are
    /// the ones that nobody can predict.
    fn select_real(&mut self, condition: Value, choices: [Value; 2]) -> Value {
        match self.compared_reals(condition) {
            Some((cc, compared)) => self.blend(cc, compared, choices),
            None => self.select(condition, choices[0], choices[1]),
        }
    }

    /// The first of two reals if others compare so, else the second one, without a branch where the machine has
    /// vectors; of vectors, lane by lane.
    fn blend(&mut self, cc: FloatCC, compared: [Value; 2], choices: [Value; 2]) -> Value {
        let is_vector = self.b.func.dfg.value_type(choices[0]) != F64;
        if !is_vector && !MACHINE_HAS_VECTORS {
            let holds = self.b.ins().fcmp(cc, compared[0], compared[1]);
            return self.select(holds, choices[0], choices[1]);
        }
        // In the second lanes of what isn't one is whatever it may be.
        let [[x, y], [a, b]] = [compared, choices]
            .map(|pair| pair.map(|real| if is_vector { real } else { self.b.ins().scalar_to_vector(F64X2, real) }));
        let holds = self.b.ins().fcmp(cc, x, y);
        let mask = self.b.ins().bitcast(F64X2, MemFlagsData::new(), holds);
        let both = self.b.ins().bitselect(mask, a, b);
        if is_vector { both } else { self.b.ins().extractlane(both, 0) }
    }

    /// How the reals compare that a condition is about, if it is [`Emit::compare_reals`]'s.
    fn compared_reals(&self, condition: Value) -> Option<(FloatCC, [Value; 2])> {
        let dfg = &self.b.func.dfg;
        let inst_of = |value: Value| Some(dfg.insts[dfg.value_def(value).inst()?]);
        let InstructionData::Unary { opcode: Opcode::Uextend, arg } = inst_of(condition)? else { return None };
        match inst_of(arg)? {
            InstructionData::FloatCompare { args, cond, .. } => Some((cond, args)),
            _ => None,
        }
    }

    /// The operands of an instruction for which their order doesn't matter. A constant real that is the second operand
    /// is taken from memory, and needs no register.
    fn constant_last(&self, [a, b]: [Value; 2]) -> [Value; 2] {
        let dfg = &self.b.func.dfg;
        let inst = dfg.value_def(a).inst();
        let is_constant = inst.is_some_and(|inst| matches!(dfg.insts[inst], InstructionData::UnaryIeee64 { .. }));
        if is_constant { [b, a] } else { [a, b] }
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

    /// Goes to `done` with the remainder if that takes no division: of what isn't below 0 and less than twice the
    /// divisor, such as an index that goes round, `(i + 1) % n`. A division takes the machine several times as long.
    pub(crate) fn remainder_nearby(&mut self, [a, b]: [Value; 2], done: Block) {
        let round = self.b.ins().isub(a, b);
        let is_less = self.b.ins().icmp(IntCC::SignedLessThan, a, b);
        let found = self.select(is_less, a, round);
        // With a divisor below 1 it is none of these.
        let below = self.b.ins().icmp(IntCC::SignedLessThan, found, b);
        let above = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, found, 0);
        let is_found = self.b.ins().band(below, above);
        let far = self.b.create_block();
        self.branch(is_found, done, &[found.into()], far, &[]);
        self.enter(far);
    }

    /// A remainder that has been computed before, so that it is known not to trap.
    fn remainder_again(&mut self, [a, b]: [Value; 2]) -> Value {
        let done = self.b.create_block();
        let result = self.b.append_block_param(done, I64);
        self.remainder_nearby([a, b], done);
        // There the machine's instruction may trap; the remainder for -1 is that for 1.
        let shifted = self.b.ins().iadd_imm_s(b, 1);
        let is_rare = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, shifted, 2);
        let one = self.int(1);
        let divisor = self.select(is_rare, one, b);
        let value = self.b.ins().srem(a, divisor);
        self.b.ins().jump(done, &[value.into()]);
        self.enter(done);
        result
    }

    /// `b` if the first of a pair is less or it is NaN, else `a`: NaN if either is.
    fn extreme(&mut self, [less, more]: [Value; 2], a: Value, b: Value) -> Value {
        // There are instructions for these two, which have no branches; Cranelift knows them by `LessThan`.
        let better = self.b.ins().fcmp(FloatCC::LessThan, less, more);
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

    /// The slope of `tanh` or `sigmoid` where that is `result`: `1 - t²` or `s (1 - s)`; where too few digits of these
    /// would be left, what the function of the table gives, which takes the operand, too.
    pub(crate) fn slope(&mut self, op: Op, operand: impl FnOnce(&mut Self) -> Value, result: Value) -> Value {
        let (size, bound) = match op {
            Op::TanhSlope => (self.b.ins().fabs(result), TANH_SLOPE_BOUND),
            _ => (result, SIGMOID_SLOPE_BOUND),
        };
        let (near, far, done) = (self.b.create_block(), self.cold_block(), self.b.create_block());
        let slope = self.b.append_block_param(done, F64);
        let bound = self.b.ins().f64const(bound);
        let is_near = self.b.ins().fcmp(FloatCC::LessThanOrEqual, size, bound);
        self.branch(is_near, near, &[], far, &[]);
        self.enter(far);
        let operand = operand(self);
        let exact = self.call_scalar_rarely(op, &[operand, result]);
        self.b.ins().jump(done, &[exact.into()]);
        self.enter(near);
        let one = self.b.ins().f64const(1.0);
        let less = self.b.ins().fsub(one, result);
        let product = match op {
            Op::TanhSlope => {
                let more = self.b.ins().fadd(result, one);
                self.b.ins().fmul(less, more)
            }
            _ => self.b.ins().fmul(result, less),
        };
        self.b.ins().jump(done, &[product.into()]);
        self.enter(done);
        slope
    }

    /// `eᵃ`, operation by operation as [`dualvm_vm::math::exp()`]: a call would cost as much as it computes. Of a
    /// vector it is computed in both lanes.
    fn exp(&mut self, a: Value) -> Value {
        self.unless_at_edges(Op::Exp, a, |emit| emit.exp_of_ordinary(a))
    }

    /// What is computed where [`Emit::exp_of_ordinary`] may be asked for `eᵃ` and `e⁻ᵃ`; elsewhere what the function of
    /// the table gives, for both lanes of a vector.
    fn unless_at_edges(&mut self, op: Op, a: Value, compute: impl FnOnce(&mut Self) -> Value) -> Value {
        let (ordinary, edge, done) = (self.b.create_block(), self.cold_block(), self.b.create_block());
        let ty = self.b.func.dfg.value_type(a);
        let result = self.b.append_block_param(done, ty);
        let is_ordinary = self.is_ordinary_for_exp(a);
        self.branch(is_ordinary, ordinary, &[], edge, &[]);
        self.enter(edge);
        let exact = self.call_for_lanes(op, a);
        self.b.ins().jump(done, &[exact.into()]);
        self.enter(ordinary);
        let value = compute(self);
        self.b.ins().jump(done, &[value.into()]);
        self.enter(done);
        result
    }

    /// The result of a rare call, of both lanes of a vector.
    fn call_for_lanes(&mut self, op: Op, a: Value) -> Value {
        if self.b.func.dfg.value_type(a) == F64 {
            return self.call_scalar_rarely(op, &[a]);
        }
        let lanes = [0, 1].map(|lane| self.b.ins().extractlane(a, lane));
        let lanes = lanes.map(|lane| self.call_scalar_rarely(op, &[lane]));
        self.vector(lanes)
    }

    /// `eᵃ` where `a` is not at the edges.
    fn exp_of_ordinary(&mut self, a: Value) -> Value {
        let ty = self.b.func.dfg.value_type(a);
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
        let (first, second) = (self.linear(c2, c3, r), self.linear(c4, c5, r));
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
        self.b.ins().fadd(scale, rest)
    }

    /// `tanh a`, operation by operation as [`dualvm_vm::math::tanh()`]. The lanes of a vector are computed by both
    /// formulas.
    fn tanh(&mut self, a: Value) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        let (middle, edge) = (self.b.create_block(), self.cold_block());
        let (signed, done) = (self.b.create_block(), self.b.create_block());
        let size = self.b.ins().fabs(a);
        let value = self.b.append_block_param(signed, ty);
        let result = self.b.append_block_param(done, ty);
        let [near, far] = [hyperbolic::NEAR_BOUND, hyperbolic::FAR_BOUND].map(|bound| self.real_constant(ty, bound));
        if ty == F64 {
            let (close, beyond) = (self.b.create_block(), self.b.create_block());
            let is_near = self.b.ins().fcmp(FloatCC::LessThanOrEqual, size, near);
            self.branch(is_near, close, &[], beyond, &[]);
            self.enter(close);
            let by_polynomial = self.tanh_by_polynomial(a, size);
            self.b.ins().jump(signed, &[by_polynomial.into()]);
            self.enter(beyond);
        }
        let is_ordinary = self.b.ins().fcmp(FloatCC::LessThanOrEqual, size, far);
        let is_ordinary = self.in_all_lanes(is_ordinary);
        self.branch(is_ordinary, middle, &[], edge, &[]);
        self.enter(edge);
        let exact = self.call_for_lanes(Op::Tanh, a);
        self.b.ins().jump(done, &[exact.into()]);

        self.enter(middle);
        let mut found = self.tanh_by_exp(size);
        if ty != F64 {
            let by_polynomial = self.tanh_by_polynomial(a, size);
            found = self.blend(FloatCC::LessThanOrEqual, [size, near], [by_polynomial, found]);
        }
        self.b.ins().jump(signed, &[found.into()]);
        // What differs between a number and its size is the sign.
        self.enter(signed);
        let sign = self.b.ins().bxor(a, size);
        let value = self.b.ins().bor(value, sign);
        self.b.ins().jump(done, &[value.into()]);
        self.enter(done);
        result
    }

    fn tanh_by_polynomial(&mut self, a: Value, size: Value) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10] =
            hyperbolic::TANH_POLYNOMIAL.map(|c| self.real_constant(ty, c));
        let x2 = self.b.ins().fmul(a, a);
        let x4 = self.b.ins().fmul(x2, x2);
        let x8 = self.b.ins().fmul(x4, x4);
        let [c0, c2, c4, c6, c8] =
            [(c0, c1), (c2, c3), (c4, c5), (c6, c7), (c8, c9)].map(|(c0, c1)| self.linear(c0, c1, x2));
        let [lower, middle, upper] = [(c0, c2), (c4, c6), (c8, c10)].map(|(c0, c1)| self.linear(c0, c1, x4));
        let higher = self.linear(middle, upper, x8);
        let sum = self.linear(lower, higher, x8);
        let rest = self.b.ins().fmul(x2, sum);
        self.linear(size, rest, size)
    }

    /// `c0 + c1 x`, with operands as in [`Emit::constant_last`].
    fn linear(&mut self, c0: Value, c1: Value, x: Value) -> Value {
        let product = self.b.ins().fmul(x, c1);
        self.b.ins().fadd(product, c0)
    }

    fn tanh_by_exp(&mut self, size: Value) -> Value {
        const {
            assert!(2.0 * hyperbolic::FAR_BOUND < exp::ORDINARY_BOUND);
        }
        let ty = self.b.func.dfg.value_type(size);
        let [one, two] = [1.0, 2.0].map(|c| self.real_constant(ty, c));
        let twice = self.b.ins().fmul(size, two);
        let power = self.exp_of_ordinary(twice);
        let sum = self.b.ins().fadd(power, one);
        let quotient = self.b.ins().fdiv(two, sum);
        self.b.ins().fsub(one, quotient)
    }

    /// `1 / (1 + e⁻ᵃ)`, operation by operation as [`dualvm_vm::math::sigmoid()`]. Of a vector it is computed in both
    /// lanes.
    fn sigmoid(&mut self, a: Value) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        self.unless_at_edges(Op::Sigmoid, a, |emit| {
            let [zero, minus_zero, one] = [0.0, -0.0, 1.0].map(|c| emit.real_constant(ty, c));
            let minus_size = emit.b.ins().bor(a, minus_zero);
            let power = emit.exp_of_ordinary(minus_size);
            let sum = emit.b.ins().fadd(power, one);
            let numerator = emit.blend(FloatCC::GreaterThanOrEqual, [a, zero], [one, power]);
            emit.b.ins().fdiv(numerator, sum)
        })
    }

    /// Whether what was compared holds, in both lanes of a vector.
    fn in_all_lanes(&mut self, holds: Value) -> Value {
        if self.b.func.dfg.value_type(holds) != I64X2 {
            return holds;
        }
        let lanes = self.b.ins().vhigh_bits(I32, holds);
        self.b.ins().icmp_imm_u(IntCC::Equal, lanes, 0b11)
    }

    /// Whether a real is so small that [`Emit::exp`] may compute with it as it does, or both lanes of a vector are.
    fn is_ordinary_for_exp(&mut self, a: Value) -> Value {
        if self.b.func.dfg.value_type(a) != F64 {
            let (size, bound) = (self.b.ins().fabs(a), self.real_constant(F64X2, exp::ORDINARY_BOUND));
            let is_less = self.b.ins().fcmp(FloatCC::LessThan, size, bound);
            return self.in_all_lanes(is_less);
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
