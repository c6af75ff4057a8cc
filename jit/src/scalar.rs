//! Scalar instructions: those that the machine has as instructions of its own are written out, all others are calls of
//! the function that the instruction table defines. So a new instruction needs nothing here.

use crate::emit::Emit;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::F64;
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Value};
use dualvm_vm::isa::Op;
use dualvm_vm::math::TANH_SLOPE_BOUND;

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
            Op::Select | Op::ISelect => self.select(a, b, c),
            Op::Eq => self.compare_reals(FloatCC::Equal, a, b),
            Op::Ne => self.compare_reals(FloatCC::NotEqual, a, b),
            Op::Lt => self.compare_reals(FloatCC::LessThan, a, b),
            Op::Le => self.compare_reals(FloatCC::LessThanOrEqual, a, b),
            Op::IEq => self.compare_ints(IntCC::Equal, a, b),
            Op::INe => self.compare_ints(IntCC::NotEqual, a, b),
            Op::ILt => self.compare_ints(IntCC::SignedLessThan, a, b),
            Op::ILe => self.compare_ints(IntCC::SignedLessThanOrEqual, a, b),
            Op::IAdd => self.b.ins().iadd(a, b),
            Op::ISub => self.b.ins().isub(a, b),
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
    fn constant(&self, value: Value) -> Option<i64> {
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
        let sign = self.b.ins().sshr_imm_u(a, 63);
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
        self.b.ins().brif(nan, rare, &[], done, &[product.into()]);
        self.b.switch_to_block(rare);
        let zero = self.b.ins().f64const(0.0);
        let (a_is_zero, b_is_zero) =
            (self.b.ins().fcmp(FloatCC::Equal, a, zero), self.b.ins().fcmp(FloatCC::Equal, b, zero));
        let either = self.b.ins().bor(a_is_zero, b_is_zero);
        let exact = self.b.ins().select(either, zero, product);
        self.b.ins().jump(done, &[exact.into()]);
        self.b.switch_to_block(done);
        result
    }

    /// `1 - t²`; where too few of its digits would be left, what the function of the table gives.
    fn tanh_slope(&mut self, a: Value, t: Value) -> Value {
        let (near, far, done) = (self.b.create_block(), self.cold_block(), self.b.create_block());
        let result = self.b.append_block_param(done, F64);
        let size = self.b.ins().fabs(t);
        let bound = self.b.ins().f64const(TANH_SLOPE_BOUND);
        let is_near = self.b.ins().fcmp(FloatCC::LessThanOrEqual, size, bound);
        self.b.ins().brif(is_near, near, &[], far, &[]);
        self.b.switch_to_block(far);
        let exact = self.call_scalar(Op::TanhSlope, &[a, t]);
        self.b.ins().jump(done, &[exact.into()]);
        self.b.switch_to_block(near);
        let one = self.b.ins().f64const(1.0);
        let (less, more) = (self.b.ins().fsub(one, t), self.b.ins().fadd(one, t));
        let product = self.b.ins().fmul(less, more);
        self.b.ins().jump(done, &[product.into()]);
        self.b.switch_to_block(done);
        result
    }
}
