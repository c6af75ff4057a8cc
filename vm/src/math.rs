//! The primal semantics of the scalar instructions that are more than one operation of the machine.
//!
//! Interpreter, JIT and sweep call these same functions, so that they agree bit for bit, and results are the same bits
//! on every platform and in every build: nothing here calls a function of the system whose result isn't exact, and
//! nothing depends on whether the target has a fused multiply-add. Most elementary functions are those of the `libm`
//! crate (a port of musl and CORE-MATH), whose version the workspace pins; those that are hot or were off by more than
//! 2 ulp are ours. The one thing left open is the sign and payload of a NaN result.
//!
//! Special values follow C99 Annex F unless a function says otherwise. The errors quoted, in units in the last place
//! (ulp) of the exact result, are the worst seen against values of 34 to 50 digits at random arguments of all sizes, at
//! least 12 000 for each function; fewer for polygamma of high orders.

pub mod exp;
pub mod hyperbolic;
mod log;
mod polygamma;
mod pow;

pub use polygamma::{digamma, polygamma};

use crate::trap::TrapKind;

#[cfg(all(target_arch = "x86", not(target_feature = "sse2")))]
compile_error!("dualvm needs SSE2 on x86: the x87 unit rounds twice, and results would differ from other platforms");

/// `1`, `-1` or `0` as `a` is positive, negative or zero of either sign; NaN if `a` is NaN.
#[inline]
pub fn sign(a: f64) -> f64 {
    if a > 0.0 {
        1.0
    } else if a < 0.0 {
        -1.0
    } else if a == 0.0 {
        0.0
    } else {
        a
    }
}

/// The lesser of `a` and `b`: `a` if `a ≤ b`, `b` if `b < a`, NaN if either is NaN. Zeros of both signs tie.
#[inline(always)]
pub fn min(a: f64, b: f64) -> f64 {
    // Two selects without branches: the first is `a` where `b` is NaN.
    let least = if b < a { b } else { a };
    if b.is_nan() { b } else { least }
}

/// The greater of `a` and `b`: `a` if `a ≥ b`, `b` if `b > a`, NaN if either is NaN. Zeros of both signs tie.
#[inline(always)]
pub fn max(a: f64, b: f64) -> f64 {
    let greatest = if b > a { b } else { a };
    if b.is_nan() { b } else { greatest }
}

/// `a · b`, but 0 where the product is NaN and a factor is zero: `0 · ∞` and `0 · NaN` are 0.
#[inline(always)]
pub fn strong_mul(a: f64, b: f64) -> f64 {
    let product = a * b;
    if product.is_nan() { strong_mul_of_nan(a, b, product) } else { product }
}

/// The rare case of [`strong_mul`], out of line so that the branch to it is laid out as not taken.
#[cold]
#[inline(never)]
fn strong_mul_of_nan(a: f64, b: f64, product: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0.0 } else { product }
}

/// `a · b + c` with a single rounding. Exact on every platform: `libm` uses the processor's instruction where it finds
/// one at run time, and integers elsewhere.
pub fn fma(a: f64, b: f64, c: f64) -> f64 {
    libm::fma(a, b, c)
}

/// `∛a`, correctly rounded; of the sign of `a`.
pub fn cbrt(a: f64) -> f64 {
    libm::cbrt(a)
}

/// `eᵃ`; 0 at `-∞`, `∞` at `∞` and on overflow.
///
/// Error: 0.506 ulp, found in 700 000 arguments.
pub fn exp(a: f64) -> f64 {
    exp::exp(a)
}

/// `2ᵃ`; 0 at `-∞`, `∞` at `∞` and on overflow. Exact for integers.
///
/// Error: 0.501 ulp; 0.75 ulp where the result is subnormal.
pub fn exp2(a: f64) -> f64 {
    libm::exp2(a)
}

/// `eᵃ - 1`, accurate near 0; ±0 at ±0, -1 at `-∞`.
///
/// Error: 0.75 ulp.
pub fn expm1(a: f64) -> f64 {
    libm::expm1(a)
}

/// Natural logarithm; `-∞` at ±0, NaN below.
///
/// Error: 0.502 ulp, found in 500 000 arguments.
pub fn log(a: f64) -> f64 {
    log::log(a)
}

/// Base-2 logarithm; `-∞` at ±0, NaN below. Exact for powers of two.
///
/// Error: 0.504 ulp, found in 500 000 arguments.
pub fn log2(a: f64) -> f64 {
    log::log2(a)
}

/// Base-10 logarithm; `-∞` at ±0, NaN below.
///
/// Error: 0.62 ulp.
pub fn log10(a: f64) -> f64 {
    libm::log10(a)
}

/// `ln(1 + a)`, accurate near 0; ±0 at ±0, `-∞` at -1, NaN below.
///
/// Error: 0.75 ulp.
pub fn log1p(a: f64) -> f64 {
    libm::log1p(a)
}

/// `aᵇ`. 1 for `b = 0` and for `a = 1`, even if the other is NaN; NaN for `a < 0` and a `b` that is not an integer; the
/// limits at zeros and infinities as in C99 Annex F.9.4.4.
///
/// Error: 0.508 ulp, found in 500 000 arguments.
pub fn pow(a: f64, b: f64) -> f64 {
    pow::pow(a, b)
}

/// `aⁿ` by binary powering: the result starts as 1; from the lowest bit of `|n|` upwards, it is multiplied by the
/// current square where the bit is 1, and the square is squared while bits are left. For `n < 0` it is the reciprocal
/// of `a` to the `|n|`, so that a result below `2⁻¹⁰²⁴` can come out as 0. `a⁰ = 1`, even for NaN.
///
/// The relative error is at most about `|n|` times 2⁻⁵³.
pub fn powi(a: f64, n: i64) -> f64 {
    let mut bits = n.unsigned_abs();
    let mut square = a;
    let mut power = 1.0;
    loop {
        if bits & 1 == 1 {
            power *= square;
        }
        bits >>= 1;
        if bits == 0 {
            break;
        }
        square *= square;
    }
    if n < 0 { 1.0 / power } else { power }
}

/// Sine of `a` radians, with exact reduction of every finite `a`; NaN at ±∞.
///
/// Error: 0.76 ulp.
pub fn sin(a: f64) -> f64 {
    libm::sin(a)
}

/// Cosine of `a` radians, with exact reduction of every finite `a`; NaN at ±∞.
///
/// Error: 0.73 ulp.
pub fn cos(a: f64) -> f64 {
    libm::cos(a)
}

/// Tangent of `a` radians, with exact reduction of every finite `a`; NaN at ±∞.
///
/// Error: 0.79 ulp.
pub fn tan(a: f64) -> f64 {
    libm::tan(a)
}

/// Arc sine, in `[-π/2, π/2]`; NaN outside of `[-1, 1]`.
///
/// Error: 0.77 ulp.
pub fn asin(a: f64) -> f64 {
    libm::asin(a)
}

/// Arc cosine, in `[0, π]`; NaN outside of `[-1, 1]`.
///
/// Error: 0.82 ulp.
pub fn acos(a: f64) -> f64 {
    libm::acos(a)
}

/// Arc tangent, in `[-π/2, π/2]`; ±π/2 at ±∞.
///
/// Error: 0.73 ulp.
pub fn atan(a: f64) -> f64 {
    libm::atan(a)
}

/// The angle of the point with ordinate `a` and abscissa `b`, in `[-π, π]`. Zeros and infinities of either sign as in
/// C99 Annex F.9.1.4: `atan2(±0, b)` is ±0 for `b = +0` or `b > 0`, and ±π for `b = -0` or `b < 0`.
///
/// Error: 1.31 ulp.
pub fn atan2(a: f64, b: f64) -> f64 {
    libm::atan2(a, b)
}

/// Hyperbolic sine; ±∞ at ±∞ and on overflow.
///
/// Error: 1.68 ulp.
pub fn sinh(a: f64) -> f64 {
    libm::sinh(a)
}

/// Hyperbolic cosine; `∞` at ±∞ and on overflow.
///
/// Error: 1.17 ulp.
pub fn cosh(a: f64) -> f64 {
    libm::cosh(a)
}

/// Hyperbolic tangent; ±1 at ±∞.
///
/// Error: 1.48 ulp, found in 500 000 arguments.
pub fn tanh(a: f64) -> f64 {
    hyperbolic::tanh(a)
}

/// Up to this `|t|`, the slope of the hyperbolic tangent is found from `t` alone.
pub const TANH_SLOPE_BOUND: f64 = 63.0 / 64.0;

/// The derivative of the hyperbolic tangent at `a`, where it is `t`: `1 - t²` for `|t| ≤ 63/64`, and `1/cosh² a`
/// elsewhere, where too few digits of `1 - t` would be left.
///
/// Relative error for `t = tanh a`: 3.7e-15, found in 500 000 arguments.
pub fn tanh_slope(a: f64, t: f64) -> f64 {
    hyperbolic::tanh_slope(a, t)
}

/// Logistic function, `1 / (1 + e⁻ᵃ)`; 0 at -∞, 1 at ∞.
///
/// Error: 2.26 ulp, found in 500 000 arguments.
pub fn sigmoid(a: f64) -> f64 {
    hyperbolic::sigmoid(a)
}

/// Up to this `s`, the slope of the logistic function is found from `s` alone.
pub const SIGMOID_SLOPE_BOUND: f64 = 31.0 / 32.0;

/// The derivative of the logistic function at `a`, where it is `s`: `s (1 - s)` for `s ≤ 31/32`, and `e⁻ᵃ / (1 + e⁻ᵃ)²`
/// elsewhere, where too few digits of `1 - s` would be left.
///
/// Relative error for `s = sigmoid a`: 5.0e-15, found in 500 000 arguments.
pub fn sigmoid_slope(a: f64, s: f64) -> f64 {
    hyperbolic::sigmoid_slope(a, s)
}

/// Inverse hyperbolic sine; ±∞ at ±∞.
///
/// Error: 1.65 ulp.
pub fn asinh(a: f64) -> f64 {
    libm::asinh(a)
}

/// Inverse hyperbolic cosine; NaN below 1.
///
/// Error: 1.69 ulp.
pub fn acosh(a: f64) -> f64 {
    hyperbolic::acosh(a)
}

/// Inverse hyperbolic tangent; ±∞ at ±1, NaN outside.
///
/// Error: 1.41 ulp.
pub fn atanh(a: f64) -> f64 {
    libm::atanh(a)
}

/// Error function; ±1 at ±∞.
///
/// Error: 0.85 ulp.
pub fn erf(a: f64) -> f64 {
    libm::erf(a)
}

/// Complementary error function `1 - erf a`, accurate for large `a`; 2 at `-∞`, 0 at `∞`.
///
/// Error: 2.4 ulp.
pub fn erfc(a: f64) -> f64 {
    libm::erfc(a)
}

/// `ln |Γ(a)|`; `∞` at ±∞, ±0 and the negative integers.
///
/// Error: 2.4 ulp for `a > 0`. For `a < 0`, where the terms of the reflection cancel, it is a few ulp of the larger
/// term: about 2e-16 near the zeros between -4 and -2.
pub fn lgamma(a: f64) -> f64 {
    libm::lgamma(a)
}

/// `√(a² + b²)` without overflow on the way; `∞` if either is infinite, even if the other is NaN.
///
/// Error: 0.94 ulp.
pub fn hypot(a: f64, b: f64) -> f64 {
    libm::hypot(a, b)
}

/// The quotient of `a` and `b`, rounded towards zero.
///
/// # Errors
/// [`TrapKind::DivisionByZero`] for `b = 0`, [`TrapKind::DivisionOverflow`] for `-2⁶³ / -1`.
#[inline]
pub fn int_div(a: i64, b: i64) -> Result<i64, TrapKind> {
    a.checked_div(b).ok_or_else(|| no_division(a, b, false))
}

/// The remainder of [`int_div`], with the sign of `a`.
///
/// # Errors
/// As for [`int_div`]: the remainder of `-2⁶³` and `-1` is refused with its quotient.
#[inline]
pub fn int_rem(a: i64, b: i64) -> Result<i64, TrapKind> {
    a.checked_rem(b).ok_or_else(|| no_division(a, b, true))
}

/// Why integers can't be divided.
#[cold]
fn no_division(dividend: i64, divisor: i64, is_remainder: bool) -> TrapKind {
    match divisor {
        0 => TrapKind::DivisionByZero { dividend, is_remainder },
        _ => TrapKind::DivisionOverflow { is_remainder },
    }
}

/// The integer part of `a`, rounded towards zero.
///
/// # Errors
/// [`TrapKind::NotAnInteger`] for NaN and outside of `[-2⁶³, 2⁶³)`.
#[inline]
pub fn to_int(a: f64) -> Result<i64, TrapKind> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    // Every f64 from 2⁵³ on is an integer, so no value in between rounds into or out of the range; NaN fails the test.
    if (-BOUND..BOUND).contains(&a) { Ok(a as i64) } else { Err(TrapKind::NotAnInteger(a)) }
}
