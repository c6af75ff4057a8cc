//! The hyperbolic functions for which the `libm` crate is off by more than 2 ulp.

use std::f64::consts::LN_2;

use super::{exp, log, log1p};

/// `tanh x`; see [`super::tanh`].
pub(super) fn tanh(x: f64) -> f64 {
    let size = x.abs();
    let result = if size > 22.0 {
        1.0
    } else if size > 0.55 {
        1.0 - 2.0 / (exp(2.0 * size) + 1.0)
    } else {
        // t / (t + 2), with a correction for the rounding of t + 2. NaN comes here.
        let t = libm::expm1(2.0 * size);
        let sum = t + 2.0;
        let sum_error = (2.0 - sum) + t;
        let quotient = t / sum;
        quotient - quotient * (sum_error / sum)
    };
    result.copysign(x)
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
