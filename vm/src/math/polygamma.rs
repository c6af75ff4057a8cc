//! Digamma and its derivatives.
//!
//! Positive arguments: digamma is a polynomial around its positive zero, shifted by the recurrence, and the asymptotic
//! series from 10 on; higher orders sum the Hurwitz zeta function by Euler and Maclaurin (Abramowitz and Stegun 1964,
//! 6.3.18, 6.4.10, 23.2.23). Negative arguments: digamma by reflection; higher orders as differences of such sums,
//! which spares the polynomials in the cotangent that the derivatives of the reflection formula lead to.

use std::f64::consts::PI;

/// The highest order that [`polygamma`] knows: `150!` times the largest sum still fits an `f64` for arguments near 1.
const ORDER_MAX: i64 = 150;

/// The digamma function `ψ(x)`, the derivative of `ln |Γ(x)|`.
///
/// `∓∞` at ±0, NaN at the negative integers and `-∞`, `∞` at `∞`.
///
/// Error: 2.9 ulp for `x > 0`, also around the zero at 1.4616…; an absolute error below 1e-15 around the zeros between
/// -20 and 0.
pub fn digamma(x: f64) -> f64 {
    if x > 0.0 {
        return digamma_of_positive(x);
    }
    if x == 0.0 {
        return -1.0 / x;
    }
    if x.is_nan() || x == x.floor() {
        return f64::NAN;
    }
    // ψ(x) = ψ(1 - x) - π cot πx
    digamma_of_positive(1.0 - x) - pi_cot_pi(x)
}

/// The polygamma function `ψ⁽ⁿ⁾(x)`, the `n`-th derivative of [`digamma`], for `0 ≤ n ≤ 150`; NaN for other `n`.
///
/// At ±0 the limit from that side: `∞` for odd `n`, `∓∞` for even `n`. At the negative integers `∞` for odd `n`, NaN
/// for even `n`, whose limits from both sides differ. At `∞`, 0 of the sign of the function; NaN at `-∞`.
///
/// Error for `x > 0`: 4 ulp for `n = 1`, 9 ulp for `n ≤ 6`, growing to 80 ulp (2e-14 relative) at `n = 150`.
/// For `x < 0` that is relative to the larger of two sums over either side of `x`, which cancel near the zeros of even
/// orders; where both overflow, the result is NaN.
pub fn polygamma(n: i64, x: f64) -> f64 {
    if n == 0 {
        return digamma(x);
    }
    if !(1..=ORDER_MAX).contains(&n) || x.is_nan() || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    // ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ Z(x), where Z(x) = n! Σ 1/(x + k)ⁿ⁺¹ over k ≥ 0.
    let order = n as u32;
    let odd = order % 2 == 1;
    let signed = |z: f64| if odd { z } else { -z };
    if x > 0.0 {
        return signed(scaled_zeta(order, x));
    }
    if x == x.floor() {
        return if odd {
            f64::INFINITY
        } else if x == 0.0 {
            -1.0 / x
        } else {
            f64::NAN
        };
    }
    // The terms of Z(x) with x + k > 0 are Z(f), where f is the fractional part of x. Those with x + k < 0 are, up to
    // sign, the terms of Z(1 - f) before Z(1 - x) begins.
    let offset = x - x.round();
    let (above, below) = if offset > 0.0 { (offset, 1.0 - offset) } else { (1.0 + offset, -offset) };
    let (above, below) = (scaled_zeta(order, above), scaled_zeta(order, below));
    let rest = scaled_zeta(order, 1.0 - x);
    // For even n, above - below is 0 halfway between integers, so that the rest keeps its digits.
    signed(if odd { above + (below - rest) } else { (above - below) + rest })
}

/// `π cot πx` for an `x` that is not an integer.
fn pi_cot_pi(x: f64) -> f64 {
    // The distance to the nearest integer is exact.
    let offset = x - x.round();
    if offset.abs() <= 0.25 {
        PI / libm::tan(PI * offset)
    } else {
        (PI * libm::tan(PI * (0.5 - offset.abs()))).copysign(offset)
    }
}

/// The positive zero of digamma, as an unevaluated sum.
const ZERO: [f64; 2] = [1.4616321449683622, 9.549995429965697e-17];

/// Chebyshev interpolation of `ψ(x) / (x - zero)` on `[1, 2]`, in powers of `2x - 3`. Truncated at 1.4e-17.
const AROUND_ZERO: [f64; 23] = [
    0.9510558760318328,
    -0.2118137106407303,
    0.06013562106019684,
    -0.018550615381735008,
    0.005936795278301761,
    -0.0019350666648613071,
    0.0006368880303865817,
    -0.00021074841138175561,
    6.995018825112794e-05,
    -2.3258242519113285e-05,
    7.741234508636364e-06,
    -2.578093954045772e-06,
    8.589060721930695e-07,
    -2.863161166883193e-07,
    9.543298288278275e-08,
    -3.162911147408454e-08,
    1.0527692435026686e-08,
    -3.7083753242807277e-09,
    1.2469984616707403e-09,
    -2.7580994814377e-10,
    8.734528429142953e-11,
    -8.50550766013261e-11,
    2.918622732168261e-11,
];

/// `B₂ₖ / 2k` for `k` from 1.
const DIGAMMA_ASYMPTOTIC: [f64; 8] = [
    0.08333333333333333,
    -0.008333333333333333,
    0.003968253968253968,
    -0.004166666666666667,
    0.007575757575757576,
    -0.021092796092796094,
    0.08333333333333333,
    -0.4432598039215686,
];

/// `ψ(x)` for `x > 0`.
fn digamma_of_positive(x: f64) -> f64 {
    if x >= 10.0 {
        let inverse = 1.0 / x;
        let inverse_square = inverse * inverse;
        return super::log(x) - (0.5 * inverse + inverse_square * horner(&DIGAMMA_ASYMPTOTIC, inverse_square));
    }
    if x < 1.0 {
        return digamma_around_zero(x + 1.0) - 1.0 / x;
    }
    // ψ(x) = ψ(x - 1) + 1/(x - 1), down to [1, 2); the subtractions are exact.
    let mut shifted = x;
    let mut sum = 0.0;
    while shifted >= 2.0 {
        shifted -= 1.0;
        sum += 1.0 / shifted;
    }
    digamma_around_zero(shifted) + sum
}

/// `ψ(x)` for `1 ≤ x ≤ 2`.
fn digamma_around_zero(x: f64) -> f64 {
    let distance = (x - ZERO[0]) - ZERO[1];
    distance * horner(&AROUND_ZERO, 2.0 * x - 3.0)
}

/// `B₂ₖ / (2k)!` for `k` from 1.
const EULER_MACLAURIN: [f64; 15] = [
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
    3.534707039629467e-21,
    -8.953517427037546e-23,
    2.267952452337683e-24,
];

/// `n! ζ(n + 1, x)`, that is `n! Σ 1/(x + k)ⁿ⁺¹` over `k ≥ 0`, for `x > 0` and `n ≥ 1`.
fn scaled_zeta(n: u32, x: f64) -> f64 {
    let order = f64::from(n);
    // From here on, each term of the Euler-Maclaurin series is at most about a fifteenth of the one before.
    let start = 12.0 + 0.5 * order;
    if x >= start {
        // (n - 1)!/xⁿ, the factors paired against overflow and underflow on the way.
        let leading = (1..n).fold(1.0 / x, |product, j| product * (f64::from(j) / x));
        return leading * euler_maclaurin(order, x);
    }
    // The terms below `start` one by one, in units of the first, n!/xⁿ⁺¹.
    let first = (1..=n).fold(1.0, |product, j| product * (f64::from(j) / x)) * (1.0 / x);
    let power = i64::from(n) + 1;
    let terms = (start - x).ceil() as u32;
    let end = x + f64::from(terms);
    let tail = super::powi(x / end, power) * (end / order) * euler_maclaurin(order, end);
    // Smallest first.
    let sum = (1..terms).rev().fold(tail, |sum, k| sum + super::powi(x / (x + f64::from(k)), power));
    first * (1.0 + sum)
}

/// `n xⁿ ζ(n + 1, x)` by the Euler-Maclaurin series, for an `x` that is large beside `n`.
fn euler_maclaurin(n: f64, x: f64) -> f64 {
    let mut sum = 0.0;
    // n (n + 1) … (n + 2k - 1) / x²ᵏ
    let mut factor = 1.0;
    for (k, coefficient) in EULER_MACLAURIN.iter().enumerate() {
        let rising = n + 2.0 * k as f64;
        factor *= (rising / x) * ((rising + 1.0) / x);
        let term = coefficient * factor;
        sum += term;
        if term.abs() < 1e-18 {
            break;
        }
    }
    1.0 + (0.5 * (n / x) + sum)
}

/// The polynomial with these coefficients, lowest first.
fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}
