//! The hyperbolic functions that are hot or for which the `libm` crate is off by more than 2 ulp, and the logistic
//! function.

use std::f64::consts::LN_2;

use super::{exp, log, log1p};

/// Chebyshev interpolation of `(tanh x - x) / x³` in powers of `x²` for `|x| ≤` [`NEAR_BOUND`]. The relative error it
/// causes in `tanh x` is below 2⁻⁵⁷.
pub const TANH_POLYNOMIAL: [f64; 11] = [
    -0.3333333333333333,
    0.13333333333332714,
    -0.05396825396743333,
    0.021869488493635535,
    -0.00886323439708993,
    0.003592110369136933,
    -0.001455661753739356,
    0.0005889356755666889,
    -0.0002346336232753106,
    8.511130450065171e-05,
    -2.060149214083168e-05,
];

/// Up to this size of its argument, `tanh` is computed with [`TANH_POLYNOMIAL`].
pub const NEAR_BOUND: f64 = 0.55;

/// From this size of its argument on, `tanh` is ±1.
pub const FAR_BOUND: f64 = 22.0;

/// `tanh x`; see [`super::tanh`]. A generator of native code may write it out, operation by operation; what it takes
/// for that is public here.
#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    let size = x.abs();
    let result = if size <= NEAR_BOUND {
        let x2 = x * x;
        let x4 = x2 * x2;
        let x8 = x4 * x4;
        let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10] = TANH_POLYNOMIAL;
        let lower = (c0 + x2 * c1) + x4 * (c2 + x2 * c3);
        let middle = (c4 + x2 * c5) + x4 * (c6 + x2 * c7);
        let upper = (c8 + x2 * c9) + x4 * c10;
        size + size * (x2 * (lower + x8 * (middle + x8 * upper)))
    } else if size <= FAR_BOUND {
        1.0 - 2.0 / (exp(2.0 * size) + 1.0)
    } else if size.is_nan() {
        size
    } else {
        1.0
    };
    result.copysign(x)
}

/// See [`super::tanh_slope`].
#[inline(always)]
pub(super) fn tanh_slope(x: f64, t: f64) -> f64 {
    if t.abs() <= super::TANH_SLOPE_BOUND { (1.0 - t) * (1.0 + t) } else { sech_squared(x) }
}

/// `1/cosh² x`.
#[cold]
#[inline(never)]
fn sech_squared(x: f64) -> f64 {
    let e = exp(-2.0 * x.abs());
    let sum = 1.0 + e;
    4.0 * e / (sum * sum)
}

/// See [`super::sigmoid`]. A generator of native code may write it out, operation by operation.
#[inline(always)]
pub(super) fn sigmoid(x: f64) -> f64 {
    let e = exp(-x.abs());
    // NaN goes on as the numerator that it has become.
    (if x >= 0.0 { 1.0 } else { e }) / (1.0 + e)
}

/// See [`super::sigmoid_slope`].
#[inline(always)]
pub(super) fn sigmoid_slope(x: f64, s: f64) -> f64 {
    if s <= super::SIGMOID_SLOPE_BOUND { s * (1.0 - s) } else { sigmoid_slope_by_exp(x) }
}

/// `e⁻ˣ / (1 + e⁻ˣ)²`, which is the same for `-x`.
#[cold]
#[inline(never)]
fn sigmoid_slope_by_exp(x: f64) -> f64 {
    let e = exp(-x.abs());
    let sum = 1.0 + e;
    e / (sum * sum)
}

/// `acosh x`; see [`super::acosh`].
pub(super) fn acosh(x: f64) -> f64 {
    if x < 2.0 {
        if x < 1.0 {
            return f64::NAN;
        }
        // ln (1 + t + √(t (t + 2))), with a correction for the rounding of the inner sum; t ≤ √(t (t + 2)).
        let t = x - 1.0;
        let root = (t * (t + 2.0)).sqrt();
        let sum = root + t;
        let sum_error = (root - sum) + t;
        log1p(sum) + sum_error / (1.0 + sum)
    } else if x < 1e9 {
        log(2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt()))
    } else {
        // 1/x² is lost in rounding, and 2x could overflow. NaN comes here.
        log(x) + LN_2
    }
}
