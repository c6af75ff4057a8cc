//! The instruction table: the one declaration of every instruction.
//!
//! `for_each_instruction!` holds the table and hands it to a consumer macro. The opcode enum, operand roles,
//! builder methods, verifier signatures, encoder, printer, assembler, the interpreter's dispatch, the derivative rules
//! and the reference page are all expansions of it or loops over [`Op::info`]. What the table does *not* hold is
//! how an instruction with effects on control flow or the heap is executed: that is the interpreter's.
//!
//! Two families:
//! - **scalar** instructions are pure functions of one to three registers. Their primal semantics is the Rust
//!   expression in braces and their derivative the list after `diff`, one partial per real
//!   operand, written in terms of other scalar instructions; `r` is the result. `passive` says that the derivative
//!   is zero wherever it exists.
//! - **structural** instructions move values, branch, call, and work on heap objects. Operands carry roles.
//!
//! Every instruction reads all its operands before it writes any: a result may take an operand's register, and the
//! results of a call may take those of its arguments.
//!
//! To add a scalar instruction, add one entry here, then follow the compiler (`CONTRIBUTING.md` shows it done once).

use std::fmt;

pub use super::evaluate::{Scalar, evaluate};

/// A register bank. Every register holds values of its bank's type only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bank {
    /// Dual reals: an `f64` primal and a word that says how the number depends on the inputs.
    Real,
    /// 64-bit two's complement integers; booleans are 0 and 1.
    Int,
    /// References to immutable heap objects.
    Ref,
}

impl Bank {
    /// The letter that names the bank in text: `r3`, `i0`, `p2`.
    pub const fn letter(self) -> char {
        match self {
            Bank::Real => 'r',
            Bank::Int => 'i',
            Bank::Ref => 'p',
        }
    }
}

/// A register: a bank and an index into the bank of the current frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reg {
    /// The bank that the register lives in.
    pub bank: Bank,
    /// The register's number within its bank.
    pub index: u16,
}

impl Reg {
    /// The real register `r{index}`.
    pub const fn real(index: u16) -> Self {
        Reg { bank: Bank::Real, index }
    }
    /// The integer register `i{index}`.
    pub const fn int(index: u16) -> Self {
        Reg { bank: Bank::Int, index }
    }
    /// The reference register `p{index}`.
    pub const fn reference(index: u16) -> Self {
        Reg { bank: Bank::Ref, index }
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.bank.letter(), self.index)
    }
}

/// What an operand is and does. The packing of operands into an [`Inst`] follows from the roles alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A register of the bank that the instruction writes.
    Def(Bank),
    /// A register of the bank that the instruction reads.
    Use(Bank),
    /// A 64-bit floating-point immediate.
    Real,
    /// A 64-bit integer immediate.
    Int,
    /// A field number of a struct, or of a variant's payload.
    Field,
    /// A variant's tag.
    Tag,
    /// How many of the registers that are read count as something else than the rest.
    Count,
    /// The number of an instruction of the same function.
    Target,
    /// A list of instruction numbers.
    Targets,
    /// A function of the module.
    Func,
    /// A string of the module.
    Message,
    /// A text with values of the module.
    Template,
    /// A function that the module imports.
    Import,
    /// A list of registers, of any bank, that the instruction reads.
    Uses,
    /// A list of registers, of any bank, that the instruction writes.
    Defs,
}

/// Spells a role in the table: `def real` is `Role::Def(Bank::Real)`.
macro_rules! role {
    (def real) => {
        Role::Def(Bank::Real)
    };
    (def int) => {
        Role::Def(Bank::Int)
    };
    (def ref) => {
        Role::Def(Bank::Ref)
    };
    (use real) => {
        Role::Use(Bank::Real)
    };
    (use int) => {
        Role::Use(Bank::Int)
    };
    (use ref) => {
        Role::Use(Bank::Ref)
    };
    (real) => {
        Role::Real
    };
    (int) => {
        Role::Int
    };
    (field) => {
        Role::Field
    };
    (tag) => {
        Role::Tag
    };
    (count) => {
        Role::Count
    };
    (target) => {
        Role::Target
    };
    (targets) => {
        Role::Targets
    };
    (func) => {
        Role::Func
    };
    (message) => {
        Role::Message
    };
    (template) => {
        Role::Template
    };
    (import) => {
        Role::Import
    };
    (uses) => {
        Role::Uses
    };
    (defs) => {
        Role::Defs
    };
}

/// Spells a scalar operand's bank in the table.
macro_rules! bank {
    (real) => {
        Bank::Real
    };
    (int) => {
        Bank::Int
    };
}

/// Whether a flag is in the list of an entry, here or in the table of prepared code, which alone has `moves`. Flags
/// that nobody knows don't compile.
macro_rules! has_flag {
    ($wanted:ident, []) => {
        false
    };
    (ends, [ends $($more:ident)*]) => {
        true
    };
    (calls, [calls $($more:ident)*]) => {
        true
    };
    (moves, [moves $($more:ident)*]) => {
        true
    };
    (v2, [v2 $($more:ident)*]) => {
        true
    };
    (v3, [v3 $($more:ident)*]) => {
        true
    };
    (v4, [v4 $($more:ident)*]) => {
        true
    };
    (v6, [v6 $($more:ident)*]) => {
        true
    };
    (v7, [v7 $($more:ident)*]) => {
        true
    };
    (v8, [v8 $($more:ident)*]) => {
        true
    };
    (v9, [v9 $($more:ident)*]) => {
        true
    };
    (v10, [v10 $($more:ident)*]) => {
        true
    };
    (shows, [shows $($more:ident)*]) => {
        true
    };
    (costly, [costly $($more:ident)*]) => {
        true
    };
    ($wanted:ident, [ends $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [calls $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [moves $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v2 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v3 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v4 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v6 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v7 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v8 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v9 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [v10 $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [shows $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
    ($wanted:ident, [costly $($more:ident)*]) => {
        has_flag!($wanted, [$($more)*])
    };
}
pub(crate) use has_flag;

/// Calls `$consumer!` with the whole instruction table, and with what else it is given behind that.
///
/// Scalar entries: `CODE Variant mnemonic (operand: bank, …) -> bank { primal } derivative;` where `derivative` is
/// `passive`, or `diff |r| [partial, …]`. An entry whose primal can trap says `try` before the braces, and its
/// expression is a `Result<_, TrapKind>`. `@costly` marks what takes several times as long as an addition, `@v4` and
/// `@v10` what modules have of this format version or later.
///
/// Structural entries: `CODE Variant mnemonic (operand(role), …) [flag …];`. Flags: `ends`, control never reaches the
/// next instruction; `calls`, runs other functions and then goes on with the next instruction; `shows`, reads its
/// registers for a text only, which nothing that is computed depends on; `v2` to `v9`, modules that have it are of this
/// format version at least.
#[rustfmt::skip]
macro_rules! for_each_instruction {
    ($consumer:ident $($more:tt)*) => { $consumer! {
        scalar {
            /// Negation: `r = -a`.
            0x01 Neg neg (a: real) -> real { -a } diff |_r| [Negate];
            /// Absolute value: `r = |a|`. The derivative at 0 is 0.
            0x02 Abs abs (a: real) -> real { a.abs() } diff |_r| [Scale(a.sign())];
            /// Sign: `r = 1, -1, 0 or NaN` as `a > 0, a < 0, a = 0 or a is NaN`. The derivative is 0 everywhere.
            0x03 Sign sign (a: real) -> real { math::sign(a) } passive;
            /// Minimum: `r = a` if `a ≤ b`, `b` if `b < a`, NaN if either is NaN. In a tie the derivative belongs to
            /// `a`, with a NaN to `b`.
            0x04 Min min (a: real, b: real) -> real { math::min(a, b) }
                diff |_r| [KeepIf(a.le(b)), KeepUnless(a.le(b))];
            /// Maximum: `r = a` if `a ≥ b`, `b` if `b > a`, NaN if either is NaN. In a tie the derivative belongs to
            /// `a`, with a NaN to `b`.
            0x05 Max max (a: real, b: real) -> real { math::max(a, b) }
                diff |_r| [KeepIf(b.le(a)), KeepUnless(b.le(a))];
            /// Sum: `r = a + b`.
            0x06 Add add (a: real, b: real) -> real { a + b } diff |_r| [Pass, Pass];
            /// Difference: `r = a - b`.
            0x07 Sub sub (a: real, b: real) -> real { a - b } diff |_r| [Pass, Negate];
            /// Product: `r = a · b`.
            0x08 Mul mul (a: real, b: real) -> real { a * b } diff |_r| [Scale(b), Scale(a)];
            /// Quotient: `r = a / b`.
            0x09 Div div (a: real, b: real) -> real { a / b } diff |r| [Scale(1.0 / b), Scale(-(r / b))] @costly;
            /// Strong product: `r = a · b`, but 0 where the product is NaN and a factor is zero (`0 · ∞ = 0`). All
            /// derived code multiplies with it, so that an infinite partial meets a zero adjoint harmlessly.
            0x0a StrongMul smul (a: real, b: real) -> real { math::strong_mul(a, b) } diff |_r| [Scale(b), Scale(a)];
            /// Fused multiply-add with a single rounding: `r = a · b + c`.
            0x0b Fma fma (a: real, b: real, c: real) -> real { math::fma(a, b, c) } diff |_r| [Scale(b), Scale(a), Pass];
            /// Square root: `r = √a`. The derivative at 0 is infinite, at -0 negatively.
            0x0c Sqrt sqrt (a: real) -> real { a.sqrt() } diff |r| [Scale(0.5 / r)] @costly;
            /// Cube root: `r = ∛a`. The derivative at 0 is infinite.
            0x0d Cbrt cbrt (a: real) -> real { math::cbrt(a) } diff |r| [Scale(1.0 / (3.0 * (r * r)))] @costly;
            /// Exponential: `r = eᵃ`.
            0x0e Exp exp (a: real) -> real { math::exp(a) } diff |r| [Scale(r)] @costly;
            /// Base-2 exponential: `r = 2ᵃ`.
            0x0f Exp2 exp2 (a: real) -> real { math::exp2(a) } diff |r| [Scale(r * LN_2)] @costly;
            /// `r = eᵃ - 1`, accurate near 0.
            0x10 Expm1 expm1 (a: real) -> real { math::expm1(a) } diff |_r| [Scale(a.exp())] @costly;
            /// Natural logarithm: `r = ln a`.
            0x11 Log log (a: real) -> real { math::log(a) } diff |_r| [Scale(1.0 / a)] @costly;
            /// Base-2 logarithm: `r = log₂ a`.
            0x12 Log2 log2 (a: real) -> real { math::log2(a) } diff |_r| [Scale(1.0 / (a * LN_2))] @costly;
            /// Base-10 logarithm: `r = log₁₀ a`.
            0x13 Log10 log10 (a: real) -> real { math::log10(a) } diff |_r| [Scale(1.0 / (a * LN_10))] @costly;
            /// `r = ln(1 + a)`, accurate near 0.
            0x14 Log1p log1p (a: real) -> real { math::log1p(a) } diff |_r| [Scale(1.0 / (1.0 + a))] @costly;
            /// Power with a real exponent: `r = aᵇ`. The derivative with respect to `a` is 0 where `b = 0`; with
            /// respect to `b` it is 0 where `a = 0` and `b > 0` or the power underflows, and NaN for another
            /// negative base.
            0x15 Pow pow (a: real, b: real) -> real { math::pow(a, b) }
                diff |r| [Scale(b.smul(a.pow(b - 1.0))), Scale(r.smul(a.log()))] @costly;
            /// Power with an integer exponent: `r = aⁿ`, by repeated squaring. The derivative is 0 where `n = 0`. At
            /// the smallest integer, which has none before it, `n + 1` stands for `n - 1`: that power is the same.
            0x16 Powi powi (a: real, n: int) -> real { math::powi(a, n) }
                diff |_r| [Scale(n.to_real().smul(a.powi(n.before())))] @costly;
            /// Sine: `r = sin a`, `a` in radians.
            0x17 Sin sin (a: real) -> real { math::sin(a) } diff |_r| [Scale(a.cos())] @costly;
            /// Cosine: `r = cos a`, `a` in radians.
            0x18 Cos cos (a: real) -> real { math::cos(a) } diff |_r| [Scale(-a.sin())] @costly;
            /// Tangent: `r = tan a`, `a` in radians.
            0x19 Tan tan (a: real) -> real { math::tan(a) } diff |r| [Scale(1.0 + r * r)] @costly;
            /// Arc sine: `r = asin a`, in radians. The derivative at ±1 is infinite.
            0x1a Asin asin (a: real) -> real { math::asin(a) } diff |_r| [Scale(1.0 / (-a).fma(a, 1.0).sqrt())] @costly;
            /// Arc cosine: `r = acos a`, in radians. The derivative at ±1 is infinite.
            0x1b Acos acos (a: real) -> real { math::acos(a) } diff |_r| [Scale(-1.0 / (-a).fma(a, 1.0).sqrt())] @costly;
            /// Arc tangent: `r = atan a`, in radians.
            0x1c Atan atan (a: real) -> real { math::atan(a) } diff |_r| [Scale(1.0 / (1.0 + a * a))] @costly;
            /// Angle of the point `(b, a)`: `r = atan2(a, b)`, in radians. The derivative at the origin is NaN.
            0x1d Atan2 atan2 (a: real, b: real) -> real { math::atan2(a, b) }
                diff |_r| [Scale((b / a.hypot(b)) / a.hypot(b)), Scale(-((a / a.hypot(b)) / a.hypot(b)))] @costly;
            /// Hyperbolic sine: `r = sinh a`.
            0x1e Sinh sinh (a: real) -> real { math::sinh(a) } diff |_r| [Scale(a.cosh())] @costly;
            /// Hyperbolic cosine: `r = cosh a`.
            0x1f Cosh cosh (a: real) -> real { math::cosh(a) } diff |_r| [Scale(a.sinh())] @costly;
            /// Hyperbolic tangent: `r = tanh a`.
            0x20 Tanh tanh (a: real) -> real { math::tanh(a) } diff |r| [Scale(a.tanh_slope(r))] @costly;
            /// Inverse hyperbolic sine: `r = asinh a`.
            0x21 Asinh asinh (a: real) -> real { math::asinh(a) } diff |_r| [Scale(1.0 / a.hypot(1.0))] @costly;
            /// Inverse hyperbolic cosine: `r = acosh a`. The derivative at 1 is infinite.
            0x22 Acosh acosh (a: real) -> real { math::acosh(a) } diff |_r| [Scale(1.0 / ((a - 1.0).sqrt() * (a + 1.0).sqrt()))] @costly;
            /// Inverse hyperbolic tangent: `r = atanh a`.
            0x23 Atanh atanh (a: real) -> real { math::atanh(a) } diff |_r| [Scale(1.0 / (-a).fma(a, 1.0))] @costly;
            /// Error function: `r = erf a`.
            0x24 Erf erf (a: real) -> real { math::erf(a) } diff |_r| [Scale(FRAC_2_SQRT_PI * (-(a * a)).exp())] @costly;
            /// Complementary error function: `r = 1 - erf a`, accurate for large `a`.
            0x25 Erfc erfc (a: real) -> real { math::erfc(a) } diff |_r| [Scale(-FRAC_2_SQRT_PI * (-(a * a)).exp())] @costly;
            /// Logarithm of the absolute value of the gamma function: `r = ln |Γ(a)|`.
            0x26 Lgamma lgamma (a: real) -> real { math::lgamma(a) } diff |_r| [Scale(a.digamma())] @costly;
            /// Digamma function: `r = ψ(a)`, the derivative of `ln Γ`.
            0x27 Digamma digamma (a: real) -> real { math::digamma(a) } diff |_r| [Scale(a.polygamma(1))] @costly;
            /// Polygamma function: `r = ψ⁽ⁿ⁾(a)`, the `n`-th derivative of digamma; NaN for `n < 0` or `n > 150`. So
            /// the derivative is NaN for `n < 0` and for `n ≥ 150`.
            0x28 Polygamma polygamma (a: real, n: int) -> real { math::polygamma(n, a) }
                diff |_r| [Scale(a.polygamma(n.order_after()))] @costly;
            /// Euclidean norm without overflow: `r = √(a² + b²)`. The derivative at the origin is 0.
            0x29 Hypot hypot (a: real, b: real) -> real { math::hypot(a, b) }
                diff |r| [Scale((a / r).zero_where(r)), Scale((b / r).zero_where(r))] @costly;
            /// Largest integer not above `a`. The derivative is 0 everywhere.
            0x2a Floor floor (a: real) -> real { a.floor() } passive;
            /// Smallest integer not below `a`. The derivative is 0 everywhere.
            0x2b Ceil ceil (a: real) -> real { a.ceil() } passive;
            /// Nearest integer, ties to even. The derivative is 0 everywhere.
            0x2c Round round (a: real) -> real { a.round_ties_even() } passive;
            /// Integer part, towards zero. The derivative is 0 everywhere.
            0x2d Trunc trunc (a: real) -> real { a.trunc() } passive;
            /// Selection: `r = a` if `c ≠ 0`, else `b`. The condition carries no derivative.
            0x2e Select select (c: int, a: real, b: real) -> real { if c != 0 { a } else { b } }
                diff |_r| [KeepIf(c), KeepUnless(c)];
            /// Slope of the hyperbolic tangent at `a`, where its value is `t`: `r = 1 - t²` if `|t| ≤ 63/64`, else
            /// `1/cosh² a`. What counts for the derivative is the operand that the result is found from.
            0x2f TanhSlope tanh_slope (a: real, t: real) -> real { math::tanh_slope(a, t) }
                diff |r| [
                    Scale(t.abs().le(math::TANH_SLOPE_BOUND).select(0.0, -2.0 * (a.tanh() * r))),
                    Scale(t.abs().le(math::TANH_SLOPE_BOUND).select(-2.0 * t, 0.0))
                ] @costly;
            /// Logistic function: `r = 1 / (1 + exp (-a))`.
            0x38 Sigmoid sigmoid (a: real) -> real { math::sigmoid(a) } diff |r| [Scale(a.sigmoid_slope(r))]
                @costly @v10;
            /// Slope of the logistic function at `a`, where its value is `s`: `r = s (1 - s)` if `s ≤ 31/32`, else
            /// `exp (-a) / (1 + exp (-a))²`. What counts for the derivative is the operand that the result is found
            /// from.
            0x39 SigmoidSlope sigmoid_slope (a: real, s: real) -> real { math::sigmoid_slope(a, s) }
                diff |r| [
                    Scale(s.le(math::SIGMOID_SLOPE_BOUND).select(0.0, (1.0 - 2.0 * a.sigmoid()) * r)),
                    Scale(s.le(math::SIGMOID_SLOPE_BOUND).select(1.0 - 2.0 * s, 0.0))
                ] @costly @v10;

            /// Equality of reals (IEEE 754: NaN equals nothing, `-0 = 0`).
            0x30 Eq eq (a: real, b: real) -> int { i64::from(a == b) } passive;
            /// Inequality of reals: `r = 1` if `a ≠ b` or either is NaN.
            0x31 Ne ne (a: real, b: real) -> int { i64::from(a != b) } passive;
            /// Order of reals: `r = 1` if `a < b`.
            0x32 Lt lt (a: real, b: real) -> int { i64::from(a < b) } passive;
            /// Order of reals: `r = 1` if `a ≤ b`.
            0x33 Le le (a: real, b: real) -> int { i64::from(a <= b) } passive;
            /// Equality of integers.
            0x34 IEq ieq (a: int, b: int) -> int { i64::from(a == b) } passive;
            /// Inequality of integers.
            0x35 INe ine (a: int, b: int) -> int { i64::from(a != b) } passive;
            /// Signed order of integers: `r = 1` if `a < b`.
            0x36 ILt ilt (a: int, b: int) -> int { i64::from(a < b) } passive;
            /// Signed order of integers: `r = 1` if `a ≤ b`.
            0x37 ILe ile (a: int, b: int) -> int { i64::from(a <= b) } passive;

            /// Sum, wrapping at 2⁶⁴.
            0x40 IAdd iadd (a: int, b: int) -> int { a.wrapping_add(b) } passive;
            /// Difference, wrapping at 2⁶⁴.
            0x41 ISub isub (a: int, b: int) -> int { a.wrapping_sub(b) } passive;
            /// Product, wrapping at 2⁶⁴.
            0x42 IMul imul (a: int, b: int) -> int { a.wrapping_mul(b) } passive;
            /// Quotient towards zero. Traps if `b = 0`, and for `-2⁶³ / -1`.
            0x43 IDiv idiv (a: int, b: int) -> int try { math::int_div(a, b) } passive @costly;
            /// Remainder with the sign of `a`. Traps if `b = 0`, and for `-2⁶³ / -1`.
            0x44 IRem irem (a: int, b: int) -> int try { math::int_rem(a, b) } passive @costly;
            /// Negation, wrapping.
            0x45 INeg ineg (a: int) -> int { a.wrapping_neg() } passive;
            /// Bitwise and.
            0x46 IAnd iand (a: int, b: int) -> int { a & b } passive;
            /// Bitwise or.
            0x47 IOr ior (a: int, b: int) -> int { a | b } passive;
            /// Bitwise exclusive or.
            0x48 IXor ixor (a: int, b: int) -> int { a ^ b } passive;
            /// Left shift by `b` modulo 64.
            0x49 IShl ishl (a: int, b: int) -> int { a.wrapping_shl(b as u32) } passive;
            /// Arithmetic right shift by `b` modulo 64.
            0x4a IShr ishr (a: int, b: int) -> int { a.wrapping_shr(b as u32) } passive;
            /// The smaller of two integers.
            0x4b IMin imin (a: int, b: int) -> int { a.min(b) } passive;
            /// The larger of two integers.
            0x4c IMax imax (a: int, b: int) -> int { a.max(b) } passive;
            /// Selection: `r = a` if `c ≠ 0`, else `b`.
            0x4d ISelect iselect (c: int, a: int, b: int) -> int { if c != 0 { a } else { b } } passive;
            /// The number of bits that are 1.
            0x4e IPopcnt ipopcnt (a: int) -> int { i64::from(a.count_ones()) } passive;
            /// The number of leading bits that are 0: 64 for `a = 0`.
            0x4f IClz iclz (a: int) -> int { i64::from(a.leading_zeros()) } passive;

            /// The real nearest to an integer. A constant: its derivative is 0.
            0x50 ToReal to_real (a: int) -> real { a as f64 } passive;
            /// The integer part of a real, towards zero. Traps on NaN and outside of `[-2⁶³, 2⁶³)`.
            0x51 ToInt to_int (a: real) -> int try { math::to_int(a) } passive;
            /// The same real as a constant: `r = a`, and the derivative is 0.
            0x52 Detach detach (a: real) -> real { a } passive @v4;
        }
        structural {
            /// Copies a real with its derivative.
            0x60 Mov mov (dst(def real), src(use real)) [];
            /// Copies an integer.
            0x61 IMov imov (dst(def int), src(use int)) [];
            /// Copies a reference.
            0x62 PMov pmov (dst(def ref), src(use ref)) [];
            /// A real constant.
            0x63 Const const (dst(def real), value(real)) [];
            /// An integer constant.
            0x64 IConst iconst (dst(def int), value(int)) [];
            /// Selection of references of one type: `dst = a` if `c ≠ 0`, else `b`.
            0x65 PSelect pselect (dst(def ref), c(use int), a(use ref), b(use ref)) [];
            /// The same object as a constant, with all that it refers to: no real in it has a derivative.
            0x66 PDetach pdetach (dst(def ref), src(use ref)) [v4];

            /// Continues at `target`.
            0x70 Jump jump (target(target)) [ends];
            /// Continues at `then` if `cond ≠ 0`, else at `other`.
            0x71 Branch branch (cond(use int), then(target), other(target)) [ends];
            /// Continues at `targets[index]`, or at `default` if `index` is not in the list.
            0x72 Switch switch (index(use int), targets(targets), default(target)) [ends];
            /// Calls a function: arguments in the order of its parameters, results in the order of its results.
            0x73 Call call (func(func), args(uses), results(defs)) [calls];
            /// Returns what the call returns, in constant stack space. The callee's results are the caller's.
            0x74 TailCall tail_call (func(func), args(uses)) [ends];
            /// Calls a closure.
            0x75 CallClosure call_closure (callee(use ref), args(uses), results(defs)) [calls];
            /// Calls a closure in constant stack space.
            0x76 TailCallClosure tail_call_closure (callee(use ref), args(uses)) [ends];
            /// Returns from the function.
            0x77 Ret ret (results(uses)) [ends];
            /// Stops the program with a message of the module.
            0x78 Trap trap (message(message)) [ends];

            /// Makes a struct of `dst`'s type, fields in order.
            0x80 StructNew struct_new (dst(def ref), fields(uses)) [];
            /// Reads a real field.
            0x81 Field field (dst(def real), obj(use ref), index(field)) [];
            /// Reads an integer field.
            0x82 IField ifield (dst(def int), obj(use ref), index(field)) [];
            /// Reads a reference field.
            0x83 PField pfield (dst(def ref), obj(use ref), index(field)) [];
            /// Makes a value of variant `tag` of `dst`'s type, fields in order.
            0x84 VariantNew variant_new (dst(def ref), tag(tag), fields(uses)) [];
            /// The tag of a tagged variant.
            0x85 VariantTag variant_tag (dst(def int), obj(use ref)) [];
            /// Reads a real field of variant `tag`. Traps if the object has another tag.
            0x86 Payload payload (dst(def real), obj(use ref), tag(tag), index(field)) [];
            /// Reads an integer field of variant `tag`. Traps if the object has another tag.
            0x87 IPayload ipayload (dst(def int), obj(use ref), tag(tag), index(field)) [];
            /// Reads a reference field of variant `tag`. Traps if the object has another tag.
            0x88 PPayload ppayload (dst(def ref), obj(use ref), tag(tag), index(field)) [];
            /// Makes a closure of `dst`'s type: a call passes the captures before the arguments.
            0x89 ClosureNew closure_new (dst(def ref), func(func), captures(uses)) [];

            /// The number of elements of an array.
            0x90 Len len (dst(def int), arr(use ref)) [];
            /// Reads an element of an array of reals. Traps unless `0 ≤ index < len`.
            0x91 Elem elem (dst(def real), arr(use ref), index(use int)) [];
            /// Reads an element of an array of integers. Traps unless `0 ≤ index < len`.
            0x92 IElem ielem (dst(def int), arr(use ref), index(use int)) [];
            /// Reads an element of an array of references. Traps unless `0 ≤ index < len`.
            0x93 PElem pelem (dst(def ref), arr(use ref), index(use int)) [];
            /// The place of a row's first element in an array of rows, each of them `width` elements: `index · width`.
            /// Traps unless `0 ≤ index < len / width`. The width is at least 1 and at most 65535.
            0x9a Row row (dst(def int), arr(use ref), index(use int), width(int)) [v3];
            /// Traps unless two arrays have the same length, as a tangent and what it belongs to must.
            0x9b SameLen same_len (arr(use ref), other(use ref)) [v4];
            /// Traps unless two objects of a shaped type have the same shape, as a tangent and what it belongs to must.
            0x9c SameShape same_shape (obj(use ref), other(use ref)) [v9];
            /// Makes an array of `dst`'s type from registers.
            0x94 Pack pack (dst(def ref), elems(uses)) [];
            /// Makes an empty builder of `dst`'s type with room for `capacity` elements. Traps if `capacity < 0`.
            0x95 Build build (dst(def ref), capacity(use int)) [];
            /// Appends a real to a builder. Traps if the builder is full or finished.
            0x96 Push push (builder(use ref), value(use real)) [];
            /// Appends an integer to a builder. Traps if the builder is full or finished.
            0x97 IPush ipush (builder(use ref), value(use int)) [];
            /// Appends a reference to a builder. Traps if the builder is full or finished.
            0x98 PPush ppush (builder(use ref), value(use ref)) [];
            /// Turns a builder into an array of the elements pushed so far. Traps if it is finished already.
            0x99 Finish finish (dst(def ref), builder(use ref)) [];
            /// Appends the elements of an array from `from` on and before `to` to a builder. Traps if the builder is
            /// finished, unless `0 ≤ from ≤ to ≤ len`, and if the builder has no room for all of them.
            0xc0 Extend extend (builder(use ref), array(use ref), from(use int), to(use int)) [v6];
            /// Reads an element of a builder of reals, which was pushed before. Traps if the builder is finished, and
            /// unless `0 ≤ index < n` where it has `n` elements.
            0xc1 Get get (dst(def real), builder(use ref), index(use int)) [v6];
            /// Reads an element of a builder of integers. Traps as `get`.
            0xc2 IGet iget (dst(def int), builder(use ref), index(use int)) [v6];
            /// Reads an element of a builder of references. Traps as `get`.
            0xc3 PGet pget (dst(def ref), builder(use ref), index(use int)) [v6];
            /// Replaces an element of a builder of reals. Traps as `get`.
            0xc4 Put put (builder(use ref), index(use int), value(use real)) [v6];
            /// Replaces an element of a builder of integers. Traps as `get`.
            0xc5 IPut iput (builder(use ref), index(use int), value(use int)) [v6];
            /// Replaces an element of a builder of references. Traps as `get`.
            0xc6 PPut pput (builder(use ref), index(use int), value(use ref)) [v6];
            /// Makes room for at least `count` more elements in a builder. `dst` is the same object as `builder` if
            /// that has the room; else it is a new one with the same elements and twice the capacity, or with room for
            /// exactly `count` more if that is more, and `builder` is finished. Traps if the builder is finished, if
            /// `count < 0`, and if so many elements can't be.
            0xc7 Reserve reserve (dst(def ref), builder(use ref), count(use int)) [v6];

            /// The empty chain of `dst`'s type: no object yet of its variant type.
            0xa8 ChainNew chain_new (dst(def ref)) [v3];
            /// Appends an object of variant `tag` to a chain. Its fields are `fields` and then the object that will be
            /// appended after it. `dst` is the chain with it: the same object as `chain`, unless that was empty. Traps
            /// if the chain is finished.
            0xa9 ChainPush chain_push (dst(def ref), chain(use ref), tag(tag), fields(uses)) [v3];
            /// Ends a chain with `tail`, which becomes the last field of its last object. `dst` is its first object, or
            /// `tail` if the chain is empty. Traps if it is finished already.
            0xaa ChainFinish chain_finish (dst(def ref), chain(use ref), tail(use ref)) [v3];

            /// Runs the calls of the following `task` instructions, `count` of them, as tasks that may run at the same
            /// time. All arguments are read before any task begins, and results are there when all have ended. The
            /// outcome is that of running them one after the other: if several trap, the first one's trap counts.
            0xa0 Fork fork (count(int)) [calls v2];
            /// A task of the `fork` before it: calls a function. It stands nowhere else.
            0xa1 Task task (func(func), args(uses), results(defs)) [calls v2];
            /// Builds an array in parallel. Splits the numbers from 0 below `count` into ranges, at most 256, that
            /// depend on `count` only; calls the function once for each range, as a task, with the range's start, its
            /// end (which is not part of it) and the arguments; joins the arrays that the calls return to one. Traps
            /// if `count` is negative.
            0xa2 ParallelMap pmap (dst(def ref), func(func), count(use int), args(uses)) [calls v2];

            /// Forward derivative: calls a function and pushes tangents forward through the call. The arguments are
            /// those of the call, the first `captures` of which are constants for this derivative, and then a tangent
            /// for each other one that is a real or a reference; the results are those of the call, and then a tangent
            /// for each that is a real or a reference. A tangent has the type and the shape of its value. Its integers
            /// say nothing: those of tangents that are given are not looked at, those of tangents that come out are 0.
            0xb0 Jvp jvp (func(func), captures(count), args(uses), results(defs)) [calls v4];
            /// Reverse derivative: calls a function and pulls cotangents back through the call. The arguments are those
            /// of the call, the first `captures` of which are constants for this derivative, and then a cotangent for
            /// each result that is a real or a reference; the results are those of the call, and then a cotangent for
            /// each argument but the captures that is a real or a reference. Cotangents have types, shapes and
            /// integers as tangents do.
            0xb1 Vjp vjp (func(func), captures(count), args(uses), results(defs)) [calls v4];
            /// Calls a function without recording what it does. If derivatives are asked for, the call runs again when
            /// they are computed: that takes the time of a further call, and in between no memory for its records.
            0xb2 Checkpoint checkpoint (func(func), args(uses), results(defs)) [calls v4];
            /// Calls a function for its value alone: the results are constants for all derivatives, and nothing of the
            /// call is recorded. The first `captures` of the arguments may be functions or lead to some.
            0xb3 Primal primal (func(func), captures(count), args(uses), results(defs)) [calls v4];
            /// A value with a derivative that the program gives, in reverse. The arguments are `captures` of the
            /// function, then what the value was computed of, then the value, which is also the result. The function
            /// takes the captures, the arguments, and a cotangent for each register of the value that is a real or a
            /// reference; it gives a cotangent for each such argument, and is linear in the cotangents. The captures
            /// are constants for the derivative that it is asked for.
            0xb4 CustomVjp custom_vjp (func(func), captures(count), args(uses), results(defs)) [calls v4];
            /// A value with a derivative that the program gives, forward: as `custom_vjp`, but the function takes a
            /// tangent for each argument that is a real or a reference, gives a tangent for each such register of the
            /// value, and is linear in the tangents.
            0xb5 CustomJvp custom_jvp (func(func), captures(count), args(uses), results(defs)) [calls v4];
            /// The results of a function without parameters, which are constants of the run: the function runs where
            /// they are first asked for, and never again in the same call of the host's. They are constants for all
            /// derivatives, and nothing of the function is recorded. If it traps, everyone who asks has the trap.
            0xb6 Once once (func(func), results(defs)) [calls v7];
            /// Calls a function that the module imports. If the host has it from another module, this is a `call`. If
            /// it is a function of the host's own, it has the derivatives that the host gives with it; where others are
            /// asked for, the call traps.
            0xb7 CallImport call_import (import(import), args(uses), results(defs)) [calls v8];

            /// Stops the program with a text: a template of the module, with values of registers, or with what the
            /// template's function makes of them. Traps or limits of that function are the program's.
            0xd0 TrapWith trap_with (template(template), values(uses)) [ends shows v6];
            /// Shows a text to the host, if it wants to know: a template of the module, with values of registers, or
            /// with what the template's function makes of them. Otherwise it does nothing, and the function isn't
            /// called. It changes no result and no derivative, and takes no fuel but its function's.
            0xd1 Trace trace (template(template), values(uses)) [shows v6];
        }
        $($more)*
    } };
}
pub(crate) use for_each_instruction;

/// A scalar instruction or a structural one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// A pure function of registers.
    Scalar,
    /// Everything else.
    Structural,
}

/// One operand as the table declares it.
#[derive(Clone, Copy, Debug)]
pub struct OperandInfo {
    /// The operand's name in the documentation.
    pub name: &'static str,
    /// What it is and does.
    pub role: Role,
}

/// What the table says of one instruction.
#[derive(Debug)]
pub struct OpInfo {
    /// The opcode.
    pub op: Op,
    /// The name in text.
    pub mnemonic: &'static str,
    /// One line of documentation, or more.
    pub doc: &'static str,
    /// Scalar or structural.
    pub family: Family,
    /// All operands, the result first.
    pub operands: &'static [OperandInfo],
    /// Whether a derivative flows through the instruction.
    pub differentiable: bool,
    /// Whether a scalar instruction can trap.
    pub traps: bool,
    /// Whether a scalar instruction takes several times as long as an addition: its result is worth 8 bytes of tape.
    pub costly: bool,
    /// The derivative rule as written in the table, for the reference page.
    pub derivative: &'static str,
    /// Whether control never reaches the next instruction.
    pub ends_block: bool,
    /// Whether it runs other functions and then goes on with the next instruction.
    pub calls: bool,
    /// Whether it reads its registers for a text only.
    pub shows: bool,
    /// The first version of the binary format that has it.
    pub since: u16,
}

/// Expands to the opcodes and the table of their facts.
macro_rules! define_ops {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($($arg:ident : $bank:ident),+) -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural { $( $(#[doc = $tdoc:literal])+ $tcode:literal $tname:ident $tmnem:ident
            ($($oname:ident ($($role:tt)+)),*) [$($flag:ident)*] ; )* }
    ) => { define_ops!{ @roles
        scalar { $( $(#[doc = $sdoc])+ $scode $sname $smnem ($($arg : $bank),+) -> $rbank
            ($(stringify!($try))?) ($($(stringify!($partial)),+)?) [$($mark)*] ; )* }
        structural { $( $(#[doc = $tdoc])+ $tcode $tname $tmnem ($($oname ($($role)+)),*) [$($flag)*] ; )* }
    } };
    (@roles
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($($arg:ident : $bank:ident),+) -> $rbank:ident ($($try:expr)?) ($($partial:expr),*) [$($mark:ident)*] ; )* }
        structural { $( $(#[doc = $tdoc:literal])+ $tcode:literal $tname:ident $tmnem:ident
            ($($oname:ident ($($role:tt)+)),*) [$($flag:ident)*] ; )* }
    ) => {
        /// The instructions that are not scalar, for who has something to say of each of them.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Structural { $($tname),* }

        /// An opcode. The discriminant is its code in the binary format.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Op {
            $( $(#[doc = $sdoc])+ $sname = $scode, )*
            $( $(#[doc = $tdoc])+ $tname = $tcode, )*
        }

        impl Op {
            /// Every instruction that a module can hold, in the order of the table.
            pub const ALL: &'static [Op] = &[$(Op::$sname,)* $(Op::$tname,)*];

            /// The instruction among those that are not scalar; `None` if it is a scalar one.
            pub(crate) fn structural(self) -> Option<Structural> {
                match self {
                    $( Op::$sname => None, )*
                    $( Op::$tname => Some(Structural::$tname), )*
                }
            }

            /// The table's entry for this instruction.
            pub fn info(self) -> &'static OpInfo {
                match self {
                    $( Op::$sname => const { &OpInfo {
                        op: Op::$sname,
                        mnemonic: stringify!($smnem),
                        doc: concat!($($sdoc),+),
                        family: Family::Scalar,
                        operands: &[
                            OperandInfo { name: "r", role: Role::Def(bank!($rbank)) },
                            $( OperandInfo { name: stringify!($arg), role: Role::Use(bank!($bank)) } ),+
                        ],
                        differentiable: matches!(&[$($partial),*] as &[&str], [_, ..]),
                        traps: matches!(&[$($try),*] as &[&str], [_, ..]),
                        costly: has_flag!(costly, [$($mark)*]),
                        derivative: concat!("" $(, $partial, "; ")*),
                        ends_block: false,
                        calls: false,
                        shows: false,
                        since: if has_flag!(v10, [$($mark)*]) {
                            10
                        } else if has_flag!(v4, [$($mark)*]) {
                            4
                        } else {
                            1
                        },
                    } }, )*
                    $( Op::$tname => const { &OpInfo {
                        op: Op::$tname,
                        mnemonic: stringify!($tmnem),
                        doc: concat!($($tdoc),+),
                        family: Family::Structural,
                        operands: &[$( OperandInfo { name: stringify!($oname), role: role!($($role)+) } ),*],
                        differentiable: false,
                        traps: false,
                        costly: false,
                        derivative: "",
                        ends_block: has_flag!(ends, [$($flag)*]),
                        calls: has_flag!(calls, [$($flag)*]),
                        shows: has_flag!(shows, [$($flag)*]),
                        since: if has_flag!(v9, [$($flag)*]) {
                            9
                        } else if has_flag!(v8, [$($flag)*]) {
                            8
                        } else if has_flag!(v7, [$($flag)*]) {
                            7
                        } else if has_flag!(v6, [$($flag)*]) {
                            6
                        } else if has_flag!(v4, [$($flag)*]) {
                            4
                        } else if has_flag!(v3, [$($flag)*]) {
                            3
                        } else if has_flag!(v2, [$($flag)*]) {
                            2
                        } else {
                            1
                        },
                    } }, )*
                }
            }
        }
    };
}
for_each_instruction!(define_ops);

impl Op {
    /// The instruction with this code in the binary format.
    pub fn from_code(code: u8) -> Option<Op> {
        Op::ALL.iter().copied().find(|op| op.code() == code)
    }

    /// The instruction with this name in text.
    pub fn from_mnemonic(mnemonic: &str) -> Option<Op> {
        Op::ALL.iter().copied().find(|op| op.info().mnemonic == mnemonic)
    }

    /// The instruction's code in the binary format.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether control never reaches the next instruction.
    pub fn is_terminator(self) -> bool {
        self.info().ends_block
    }

    /// Whether the instruction says where control goes on.
    pub fn has_targets(self) -> bool {
        self.info().operands.iter().any(|operand| matches!(operand.role, Role::Target | Role::Targets))
    }

    /// Whether an instruction runs other functions and then goes on with the next instruction.
    pub fn calls(self) -> bool {
        self.info().calls
    }

    /// Whether an instruction reads its registers for a text only: nothing that is computed depends on that.
    pub fn shows(self) -> bool {
        self.info().shows
    }

    /// Whether a function is one of the operands.
    pub fn names_function(self) -> bool {
        self.info().operands.iter().any(|operand| operand.role == Role::Func)
    }

    /// Whether a scalar instruction makes a real out of no real: its result is a constant whatever is recorded.
    pub fn makes_constant(self) -> bool {
        let operands = self.info().operands;
        let reads_real = operands.iter().any(|operand| operand.role == Role::Use(Bank::Real));
        self.is_scalar() && operands[0].role == Role::Def(Bank::Real) && !reads_real
    }

    /// Whether the instruction is a scalar one.
    pub fn is_scalar(self) -> bool {
        self.info().family == Family::Scalar
    }

    /// Whether the instruction changes an element of an array under construction.
    pub(crate) fn is_put(self) -> bool {
        matches!(self, Op::Put | Op::IPut | Op::PPut)
    }
}

/// One instruction. Operands are packed by role, in the order in which the table declares them:
/// - registers, fields, tags and counts take the next of `a`, `b`, `c`, and after these the low half of `imm`;
/// - a list puts its length there and its offset in the function's pool into the next half of `imm`; the second list
///   of an instruction follows the first in the pool;
/// - targets, functions, messages and templates take the next half of `imm`, low half first;
/// - a 64-bit immediate takes `imm`.
///
/// [`crate::module::Body::operands`] unpacks an instruction, [`crate::module::Body::push`] packs one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inst {
    /// The opcode.
    pub op: Op,
    /// The first 16-bit operand.
    pub a: u16,
    /// The second 16-bit operand.
    pub b: u16,
    /// The third 16-bit operand.
    pub c: u16,
    /// Wide operands.
    pub imm: u64,
}

impl Inst {
    /// The low half of the wide operand.
    pub const fn low(&self) -> u32 {
        self.imm as u32
    }
    /// The high half of the wide operand.
    pub const fn high(&self) -> u32 {
        (self.imm >> 32) as u32
    }
    /// The operands that stand one after the other where registers, fields, tags and counts do.
    pub(crate) const fn narrow(&self) -> [u16; 4] {
        [self.a, self.b, self.c, self.imm as u16]
    }
}

/// An unpacked operand.
#[derive(Clone, PartialEq, Debug)]
pub enum Operand {
    /// A register that is written.
    Def(Reg),
    /// A register that is read.
    Use(Reg),
    /// A real immediate.
    Real(f64),
    /// An integer immediate.
    Int(i64),
    /// A field number.
    Field(u16),
    /// A variant's tag.
    Tag(u16),
    /// How many of the registers that are read count as something else than the rest.
    Count(u16),
    /// An instruction number.
    Target(u32),
    /// Instruction numbers.
    Targets(Vec<u32>),
    /// A function's number.
    Func(u32),
    /// A string's number.
    Message(u32),
    /// A template's number.
    Template(u32),
    /// The number of an import.
    Import(u32),
    /// Registers that are read.
    Uses(Vec<Reg>),
    /// Registers that are written.
    Defs(Vec<Reg>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_mnemonics_are_unique_and_found() {
        for &op in Op::ALL {
            assert_eq!(Op::from_code(op.code()), Some(op));
            assert_eq!(Op::from_mnemonic(op.info().mnemonic), Some(op));
            assert!(!op.info().doc.trim().is_empty());
        }
    }

    #[test]
    fn an_instruction_is_sixteen_bytes() {
        assert_eq!(size_of::<Inst>(), 16);
    }
}
