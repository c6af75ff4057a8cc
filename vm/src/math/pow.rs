//! The power with a real exponent.

use super::exp::exp_of_sum;
use super::log::{bits_of_subnormal, is_ordinary, log_as_sum};

/// Exponents at least this large in magnitude take every `x ≠ ±1` out of range, and are even.
const EXPONENT_MAX: f64 = 9_223_372_036_854_775_808.0;

/// Below this, `aᵇ` rounds to 1 for every positive finite `a`.
const EXPONENT_MIN: f64 = 1.0 / (4.0 * EXPONENT_MAX);

/// `aᵇ`; see [`super::pow()`].
#[inline(always)]
pub(super) fn pow(a: f64, b: f64) -> f64 {
    // NaN is in neither range.
    if is_ordinary(a) && (EXPONENT_MIN..EXPONENT_MAX).contains(&b.abs()) {
        of_bits(a.to_bits(), b)
    } else {
        pow_at_edges(a, b)
    }
}

/// `aᵇ` for a base that is negative or subnormal, and for special values.
#[cold]
fn pow_at_edges(a: f64, b: f64) -> f64 {
    let size = a.abs();
    if size == 0.0 || !size.is_finite() || !(EXPONENT_MIN..EXPONENT_MAX).contains(&b.abs()) {
        return libm::pow(a, b);
    }
    let bits = if size < f64::MIN_POSITIVE { bits_of_subnormal(size) } else { size.to_bits() };
    if a > 0.0 {
        return of_bits(bits, b);
    }
    if b != b.trunc() {
        return f64::NAN;
    }
    // Halves of odd integers are not integers; doubles beyond 2⁵³ are even.
    let is_odd = b * 0.5 != (b * 0.5).trunc();
    if is_odd { -of_bits(bits, b) } else { of_bits(bits, b) }
}

/// `aᵇ = e^(b ln a)` for the bits of `a`, with the product as the sum of two doubles.
#[inline(always)]
fn of_bits(a_bits: u64, b: f64) -> f64 {
    let [log_high, log_low] = log_as_sum(a_bits);
    // Dekker's product, without a fused operation: halves of at most 26 bits multiply exactly.
    let upper_half = |x: f64| f64::from_bits(x.to_bits() & !0x7ff_ffff);
    let (b_upper, log_upper) = (upper_half(b), upper_half(log_high));
    let (b_lower, log_lower) = (b - b_upper, (log_high - log_upper) + log_low);
    exp_of_sum(b_upper * log_upper, b_lower * log_upper + b * log_lower)
}
