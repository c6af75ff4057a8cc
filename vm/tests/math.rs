//! The scalar functions against values computed without dualvm, at special values, and against their identities.

use dualvm_vm::math;
use dualvm_vm::trap::TrapKind;
use serde_json::Value;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

type Unary = fn(f64) -> f64;
type Binary = fn(f64, f64) -> f64;

/// The functions of one real argument, by their names in the oracle files.
const UNARY: &[(&str, Unary)] = &[
    ("cbrt", math::cbrt),
    ("exp", math::exp),
    ("exp2", math::exp2),
    ("expm1", math::expm1),
    ("log", math::log),
    ("log2", math::log2),
    ("log10", math::log10),
    ("log1p", math::log1p),
    ("sin", math::sin),
    ("cos", math::cos),
    ("tan", math::tan),
    ("asin", math::asin),
    ("acos", math::acos),
    ("atan", math::atan),
    ("sinh", math::sinh),
    ("cosh", math::cosh),
    ("tanh", math::tanh),
    ("sigmoid", math::sigmoid),
    ("asinh", math::asinh),
    ("acosh", math::acosh),
    ("atanh", math::atanh),
    ("erf", math::erf),
    ("erfc", math::erfc),
    ("lgamma", math::lgamma),
    ("digamma", math::digamma),
];

/// The functions of two real arguments.
const BINARY: &[(&str, Binary)] =
    &[("min", math::min), ("max", math::max), ("pow", math::pow), ("atan2", math::atan2), ("hypot", math::hypot)];

fn unary(op: &str) -> Unary {
    UNARY.iter().find(|entry| entry.0 == op).unwrap_or_else(|| panic!("no function {op}")).1
}

/// Evaluates a row of an oracle file; `None` for the operations that are the machine's own and not in `math`.
fn evaluate(op: &str, n: i64, x: &[f64]) -> Option<f64> {
    match (op, x) {
        ("neg" | "abs" | "sqrt" | "add" | "sub" | "mul" | "div", _) => None,
        ("polygamma", &[a]) => Some(math::polygamma(n, a)),
        (_, &[a]) => Some(unary(op)(a)),
        (_, &[a, b]) => BINARY.iter().find(|entry| entry.0 == op).map(|entry| entry.1(a, b)),
        _ => panic!("{op} has {} arguments", x.len()),
    }
}

/// How many doubles `b` is away from `a`, counting through zero.
fn ulps(a: f64, b: f64) -> u64 {
    let order = |v: f64| {
        let magnitude = v.abs().to_bits() as i64;
        if v.is_sign_negative() { -magnitude } else { magnitude }
    };
    if a.is_nan() || b.is_nan() { u64::MAX } else { order(a).abs_diff(order(b)) }
}

/// Whether `found` is as close to the exact value as the oracles' README demands of the function.
fn close(op: &str, found: f64, expected: f64) -> bool {
    let error = (found - expected).abs();
    match op {
        "lgamma" | "digamma" | "erf" | "erfc" | "pow" => error <= 1e-15 || error <= 1e-14 * expected.abs(),
        "polygamma" => error <= 1e-13 * expected.abs(),
        _ => ulps(found, expected) <= 2,
    }
}

fn rows(file: &str) -> Vec<Value> {
    let path = format!("{}/../tests/oracles/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let json: Value = serde_json::from_str(&text).expect("an oracle file is JSON");
    json["rows"].as_array().expect("an oracle file has rows").clone()
}

fn arguments(row: &Value) -> Vec<f64> {
    let x = row["x"].as_array().expect("a row has arguments");
    x.iter().map(|v| v.as_f64().expect("arguments are numbers")).collect()
}

fn check_values(file: &str, rows_min: usize) {
    let mut failures = Vec::new();
    let mut checked = 0;
    for row in rows(file) {
        let op = row["op"].as_str().expect("a row has an op");
        let (n, x) = (row["n"].as_i64().unwrap_or(0), arguments(&row));
        let expected = row["value"].as_f64().expect("a row has a value");
        let Some(found) = evaluate(op, n, &x) else { continue };
        checked += 1;
        if !close(op, found, expected) {
            failures.push(format!("{op} n={n} {x:?}: found {found:e}, expected {expected:e}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(checked >= rows_min, "only {checked} rows were checked");
}

#[test]
fn values_agree_with_the_scalar_oracle() {
    check_values("scalar_ops.json", 240);
}

#[test]
fn values_agree_with_mpmath_at_awkward_points() {
    check_values("math_points.json", 350);
}

#[test]
fn derivative_of_digamma_agrees_with_the_scalar_oracle() {
    let rows = rows("scalar_ops.json");
    let digamma_rows: Vec<_> = rows.iter().filter(|row| row["op"] == "digamma").collect();
    assert_eq!(digamma_rows.len(), 11);
    for row in digamma_rows {
        let x = arguments(row)[0];
        let expected = row["partials"][0].as_f64().expect("a partial is a number");
        let found = math::polygamma(1, x);
        assert!((found - expected).abs() <= 1e-13 * expected.abs(), "{x}: found {found:e}, expected {expected:e}");
    }
}

/// Whether two results are the same bits; NaN is NaN.
fn same(found: f64, expected: f64) -> bool {
    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
}

fn assert_exactly(op: &str, cases: &[(f64, f64)]) {
    for &(x, expected) in cases {
        let found = unary(op)(x);
        assert!(same(found, expected), "{op} {x:?}: found {found:?}, expected {expected:?}");
    }
}

#[test]
fn nan_gives_nan() {
    for (op, _) in UNARY {
        assert_exactly(op, &[(NAN, NAN)]);
    }
}

#[test]
fn zeros_and_infinities_follow_annex_f() {
    for op in ["cbrt", "expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf"] {
        assert_exactly(op, &[(0.0, 0.0), (-0.0, -0.0)]);
    }
    assert_exactly("sigmoid", &[(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (1e300, 1.0), (-1e300, 0.0)]);
    for op in ["exp", "exp2", "cosh", "cos"] {
        assert_exactly(op, &[(0.0, 1.0), (-0.0, 1.0), (5e-324, 1.0), (-5e-324, 1.0)]);
    }
    for op in ["log", "log2", "log10"] {
        assert_exactly(op, &[(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (-INF, NAN)]);
        assert_exactly(op, &[(-5e-324, NAN), (-1e300, NAN)]);
    }
    for op in ["sin", "cos", "tan", "asin", "acos"] {
        assert_exactly(op, &[(INF, NAN), (-INF, NAN)]);
    }
    for op in ["cbrt", "sinh", "asinh"] {
        assert_exactly(op, &[(INF, INF), (-INF, -INF)]);
    }
    for op in ["tanh", "erf"] {
        assert_exactly(op, &[(INF, 1.0), (-INF, -1.0), (1e300, 1.0), (-1e300, -1.0)]);
    }
}

#[test]
fn edges_of_domain_and_overflow_are_exact() {
    let half_pi = std::f64::consts::FRAC_PI_2;
    let beyond_one = 1.0f64.next_up();
    assert_exactly("exp", &[(INF, INF), (-INF, 0.0), (709.7827128933841, INF), (1e300, INF), (-1e300, 0.0)]);
    assert_exactly("exp", &[(-745.1332191019412, 0.0), (-745.1332191019411, 5e-324)]);
    assert_exactly(
        "exp2",
        &[(INF, INF), (-INF, 0.0), (1024.0, INF), (-1076.0, 0.0), (-1074.0, 5e-324), (10.0, 1024.0)],
    );
    assert_exactly("expm1", &[(INF, INF), (-INF, -1.0), (709.7827128933841, INF), (-1e300, -1.0)]);
    assert_exactly("log1p", &[(-1.0, -INF), (-1.5, NAN), (INF, INF), (-INF, NAN)]);
    assert_exactly("log2", &[(5e-324, -1074.0), (1024.0, 10.0)]);
    assert_exactly("log10", &[(1000.0, 3.0)]);
    assert_exactly("asin", &[(1.0, half_pi), (-1.0, -half_pi), (beyond_one, NAN), (-beyond_one, NAN)]);
    assert_exactly("acos", &[(1.0, 0.0), (-1.0, std::f64::consts::PI), (beyond_one, NAN), (-beyond_one, NAN)]);
    assert_exactly("atan", &[(INF, half_pi), (-INF, -half_pi)]);
    assert_exactly("cosh", &[(INF, INF), (-INF, INF), (710.475860073944, INF), (-1e300, INF)]);
    assert_exactly("sinh", &[(710.475860073944, INF), (-710.475860073944, -INF)]);
    assert_exactly("acosh", &[(1.0, 0.0), (1.0f64.next_down(), NAN), (INF, INF), (-INF, NAN), (-1e300, NAN)]);
    assert_exactly("atanh", &[(1.0, INF), (-1.0, -INF), (beyond_one, NAN), (INF, NAN)]);
    assert_exactly("erfc", &[(INF, 0.0), (-INF, 2.0), (0.0, 1.0)]);
    assert_exactly("lgamma", &[(1.0, 0.0), (2.0, 0.0), (0.0, INF), (-0.0, INF), (-3.0, INF), (INF, INF), (-INF, INF)]);
    assert_exactly("digamma", &[(0.0, -INF), (-0.0, INF), (-1.0, NAN), (INF, INF), (-INF, NAN), (-1e300, NAN)]);
}

#[test]
fn pow_has_the_special_values_of_annex_f() {
    let cases = [
        (0.0, 3.0, 0.0),
        (-0.0, 3.0, -0.0),
        (-0.0, 2.0, 0.0),
        (0.0, -3.0, INF),
        (-0.0, -3.0, -INF),
        (-0.0, -2.5, INF),
        (0.0, INF, 0.0),
        (0.0, -INF, INF),
        (-1.0, INF, 1.0),
        (-1.0, -INF, 1.0),
        (1.0, NAN, 1.0),
        (NAN, 0.0, 1.0),
        (NAN, -0.0, 1.0),
        (INF, 0.0, 1.0),
        (-8.0, 0.5, NAN),
        (0.5, -INF, INF),
        (2.0, -INF, 0.0),
        (0.5, INF, 0.0),
        (2.0, INF, INF),
        (-INF, -3.0, -0.0),
        (-INF, -2.0, 0.0),
        (-INF, 3.0, -INF),
        (-INF, 2.5, INF),
        (INF, -1.0, 0.0),
        (INF, 1.0, INF),
        (NAN, 1.0, NAN),
        (2.0, NAN, NAN),
        (NAN, NAN, NAN),
        (10.0, 309.0, INF),
        (-10.0, 309.0, -INF),
        (10.0, -400.0, 0.0),
        (-10.0, -401.0, -0.0),
        (2.0, 1e300, INF),
        (0.5, 1e300, 0.0),
        (-2.0, 1e300, INF),
        (2.0, 1e-300, 1.0),
        (3.0, 2.0, 9.0),
        (2.0, 1023.0, 2f64.powi(1023)),
        (2.0, -1074.0, 5e-324),
        (-2.0, -1073.0, -1e-323),
        (5e-324, 1.0, 5e-324),
        (-5e-324, 1.0, -5e-324),
    ];
    for (a, b, expected) in cases {
        let found = math::pow(a, b);
        assert!(same(found, expected), "{a:?} {b:?}: found {found:?}, expected {expected:?}");
    }
}

#[test]
fn atan2_and_hypot_have_the_special_values_of_annex_f() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    let angles = [
        (0.0, -0.0, PI),
        (-0.0, -0.0, -PI),
        (0.0, 0.0, 0.0),
        (-0.0, 0.0, -0.0),
        (0.0, -1.0, PI),
        (-0.0, 1.0, -0.0),
        (-1.0, 0.0, -FRAC_PI_2),
        (1.0, -0.0, FRAC_PI_2),
        (1.0, -INF, PI),
        (-1.0, INF, -0.0),
        (INF, 1.0, FRAC_PI_2),
        (-INF, -INF, -3.0 * FRAC_PI_4),
        (INF, INF, FRAC_PI_4),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
    ];
    for (a, b, expected) in angles {
        assert!(same(math::atan2(a, b), expected), "atan2 {a:?} {b:?}: {:?}", math::atan2(a, b));
    }
    let norms = [
        (INF, NAN, INF),
        (NAN, -INF, INF),
        (NAN, 1.0, NAN),
        (-0.0, -0.0, 0.0),
        (-3.0, 0.0, 3.0),
        (1.7e308, 1.7e308, INF),
    ];
    for (a, b, expected) in norms {
        assert!(same(math::hypot(a, b), expected), "hypot {a:?} {b:?}: {:?}", math::hypot(a, b));
    }
}

#[test]
fn min_and_max_give_the_first_argument_in_a_tie_and_nan_for_nan() {
    for (a, b, least, greatest) in [
        (1.0, 2.0, 1.0, 2.0),
        (2.0, 1.0, 1.0, 2.0),
        (0.0, -0.0, 0.0, 0.0),
        (-0.0, 0.0, -0.0, -0.0),
        (NAN, 1.0, NAN, NAN),
        (1.0, NAN, NAN, NAN),
        (-INF, NAN, NAN, NAN),
        (INF, NAN, NAN, NAN),
        (-INF, INF, -INF, INF),
    ] {
        assert!(same(math::min(a, b), least), "min {a:?} {b:?}: {:?}", math::min(a, b));
        assert!(same(math::max(a, b), greatest), "max {a:?} {b:?}: {:?}", math::max(a, b));
    }
}

#[test]
fn sign_keeps_nan_and_takes_both_zeros_to_zero() {
    for (a, expected) in [(3.0, 1.0), (INF, 1.0), (-1e-310, -1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, 0.0), (NAN, NAN)] {
        assert!(same(math::sign(a), expected), "{a:?}");
    }
}

#[test]
fn strong_product_is_zero_where_a_zero_meets_infinity_or_nan() {
    for zero in [0.0, -0.0] {
        for other in [INF, -INF, NAN] {
            assert!(same(math::strong_mul(zero, other), 0.0));
            assert!(same(math::strong_mul(other, zero), 0.0));
        }
    }
    assert!(math::strong_mul(2.0, NAN).is_nan() && math::strong_mul(NAN, INF).is_nan());
    assert_eq!(math::strong_mul(3.0, -4.0), -12.0);
    assert!(same(math::strong_mul(-0.0, 4.0), -0.0));
    assert_eq!(math::strong_mul(INF, -2.0), -INF);
}

#[test]
fn fma_rounds_once() {
    let a = 1.0 + f64::EPSILON;
    assert_eq!(math::fma(a, a, -(1.0 + 2.0 * f64::EPSILON)), f64::EPSILON * f64::EPSILON);
    assert_eq!(math::fma(1e200, 1e200, -INF), -INF);
    assert_eq!(math::fma(1e200, 1e200, -f64::MAX), INF);
    assert!(math::fma(0.0, INF, 1.0).is_nan());
    assert_eq!(math::fma(5e-324, 0.5, 0.0), 0.0);
    assert_eq!(math::fma(5e-324, 0.75, 0.0), 5e-324);
    assert_eq!(math::fma(5e-324, 0.25, 1.0), 1.0);
}

#[test]
fn integer_powers_multiply_from_the_lowest_bit() {
    let cases = [
        (NAN, 0, 1.0),
        (0.0, -1, INF),
        (-0.0, -1, -INF),
        (-0.0, 3, -0.0),
        (-2.0, 5, -32.0),
        (2.0, -3, 0.125),
        (1.0, i64::MIN, 1.0),
        (-1.0, i64::MIN, 1.0),
        (-1.0, i64::MAX, -1.0),
        (2.0, i64::MIN, 0.0),
        (0.5, i64::MIN, INF),
        (1e200, 1, 1e200),
    ];
    for (a, n, expected) in cases {
        assert!(same(math::powi(a, n), expected), "{a:?} {n}: {:?}", math::powi(a, n));
    }
    let a = 1.1;
    let (a2, a4) = (a * a, (a * a) * (a * a));
    assert!(same(math::powi(a, 7), (a * a2) * a4));
    assert!(same(math::powi(a, -7), 1.0 / ((a * a2) * a4)));
}

#[test]
fn integer_division_truncates_and_traps() {
    assert_eq!(math::int_div(-7, 2), Ok(-3));
    assert_eq!(math::int_rem(-7, 2), Ok(-1));
    assert_eq!(math::int_rem(7, -2), Ok(1));
    assert_eq!(math::int_div(i64::MIN, 1), Ok(i64::MIN));
    type Division = fn(i64, i64) -> Result<i64, TrapKind>;
    for (divide, is_remainder) in [(math::int_div as Division, false), (math::int_rem, true)] {
        for dividend in [1, 0, i64::MIN] {
            assert_eq!(divide(dividend, 0), Err(TrapKind::DivisionByZero { dividend, is_remainder }));
        }
        assert_eq!(divide(i64::MIN, -1), Err(TrapKind::DivisionOverflow { is_remainder }));
    }
}

#[test]
fn conversion_to_an_integer_truncates_and_traps_out_of_range() {
    let bound = 9_223_372_036_854_775_808.0f64;
    assert_eq!(math::to_int(-2.9), Ok(-2));
    assert_eq!(math::to_int(-0.0), Ok(0));
    assert_eq!(math::to_int(-bound), Ok(i64::MIN));
    assert_eq!(math::to_int(bound.next_down()), Ok(i64::MAX - 1023));
    for out in [bound, (-bound).next_down(), INF, -INF] {
        assert_eq!(math::to_int(out), Err(TrapKind::NotAnInteger(out)));
    }
    assert!(matches!(math::to_int(NAN), Err(TrapKind::NotAnInteger(x)) if x.is_nan()));
}

/// A fixed sequence of numbers in `[0, 1)`: Knuth's linear congruential generator with seed 1.
fn uniform() -> impl FnMut() -> f64 {
    let mut state = 1u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn odd_and_even_functions_are_symmetric_bit_for_bit() {
    let mut next = uniform();
    for _ in 0..10_000 {
        let x = (next() - 0.5) * math::exp2(next() * 12.0 - 6.0);
        for op in ["cbrt", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf"] {
            assert!(same(unary(op)(-x), -unary(op)(x)), "{op} {x:e}");
        }
        for op in ["cos", "cosh"] {
            assert!(same(unary(op)(-x), unary(op)(x)), "{op} {x:e}");
        }
        let y = next() * 3.0;
        assert!(same(math::atan2(-y, x), -math::atan2(y, x)), "atan2 {y:e} {x:e}");
        assert!(same(math::hypot(-x, y), math::hypot(y, x)), "hypot {x:e} {y:e}");
        assert!(same(math::pow(-y, 3.0), -math::pow(y, 3.0)), "pow {y:e}");
    }
}

#[test]
fn increasing_functions_do_not_step_back_by_more_than_an_ulp() {
    // An error of a table or at the edge of a branch would.
    let mut next = uniform();
    for op in
        ["exp", "exp2", "expm1", "log", "log2", "log1p", "sinh", "tanh", "sigmoid", "asinh", "atan", "erf", "cbrt"]
    {
        for _ in 0..5_000 {
            let x = next() * 20.0 + 1e-3;
            let (low, high) = (unary(op)(x), unary(op)(x.next_up()));
            assert!(low <= high || ulps(low, high) <= 1, "{op} {x:e}: {low:e}, then {high:e}");
        }
    }
}

#[test]
fn polygamma_functions_satisfy_the_recurrence() {
    // ψ⁽ⁿ⁾(x + 1) - ψ⁽ⁿ⁾(x) = (-1)ⁿ n! / xⁿ⁺¹, at multiples of 2⁻²⁰, where x + 1 is exact.
    let factorial_over_power = |n: i64, x: f64| (1..=n).fold(1.0 / x, |product, j| product * (j as f64 / x));
    let mut next = uniform();
    for n in [0, 1, 2, 3, 4, 5, 6, 10, 25, 60, 100] {
        for _ in 0..200 {
            let x = (next() * 40.0 - 6.0) * 1_048_576.0;
            let x = x.round() / 1_048_576.0;
            let to_integer = (x - x.round()).abs();
            if to_integer < 0.1 {
                continue;
            }
            let (here, there) = (math::polygamma(n, x), math::polygamma(n, x + 1.0));
            let step = factorial_over_power(n, x) * if n % 2 == 0 { 1.0 } else { -1.0 };
            // For negative arguments, even orders cancel terms that grow with the nearness of an integer.
            let cancelled = if x < 0.0 { factorial_over_power(n, to_integer) } else { 0.0 };
            let scale = here.abs() + there.abs() + step.abs() + cancelled;
            assert!((there - here - step).abs() <= 2e-14 * scale, "n={n} x={x}: {here:e} {there:e} {step:e}");
        }
    }
}

#[test]
fn polygamma_has_its_poles_and_limits() {
    for n in [1, 2, 3, 4, 149, 150] {
        let odd = n % 2 == 1;
        let cases = [
            (0.0, if odd { INF } else { -INF }),
            (-0.0, INF),
            (1e-300, if odd { INF } else { -INF }),
            (-4.0, if odd { INF } else { NAN }),
            (-1e300, if odd { INF } else { NAN }),
            (INF, if odd { 0.0 } else { -0.0 }),
            (-INF, NAN),
            (NAN, NAN),
        ];
        for (x, expected) in cases {
            assert!(same(math::polygamma(n, x), expected), "n={n} {x:?}: {:?}", math::polygamma(n, x));
        }
    }
    for n in [-1, 151, i64::MIN, i64::MAX] {
        assert!(math::polygamma(n, 1.5).is_nan());
    }
    assert!(same(math::polygamma(0, 1.5), math::digamma(1.5)));
}
