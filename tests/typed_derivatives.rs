//! Typed `jvp`, `vjp` and `hvp`: what functions give that are called with values, to the last bit, interpreted and
//! compiled, with the same fuel and tape; against finite differences; and what doesn't fit is refused with its place.

mod support;
#[path = "support/typed_calls.rs"]
mod typed_calls;

use dualvm::vm::typed::{Arguments, Output};
use dualvm::{CallOptions, Engine, Error, ErrorKind, Function, Limits, Matrix, Value};
use std::fmt::Debug;
use support::flatten;
use typed_calls::{engines, function_of, used};

const PROGRAM: &str = "
    def wave (xs : Array Real) (k : Real) (n : Int) : Real =
      loop s = 0.0 for i < length xs do s + sin (k * xs[i]) * to_real (i + n)
    def rows (m : Array (Array Real)) (ps : List (Real, Int)) (on : Bool) =
      let total = sum (map (\\(x, n) -> x * to_real n) ps) in
      ([| [| x * x * total for x in row |] for row in m |], map (\\(x, n) -> (exp x, n)) ps,
       [| if on then length row else 0 for row in m |], on)
    def points (ps : Array (Real, Real, Real)) (ns : Array Int) (u : (Real, (Int, Real))) =
      let (a, (n, b)) = u in
      ([| let (x, y, z) = p in (x * y * a, z / b, sqrt (x + y + z)) for p in ps |], to_real (length ns + n) * a)
    def unused (x : Real) (ys : Array Real) (flags : List Bool) : Real = 3.0 * x
    def spin (x : Real) : Real = loop s = x for i < 1000000000 do sin s";

fn function(engine: &Engine, name: &str) -> Function {
    function_of(PROGRAM, engine, name)
}

/// All NaN are one: text doesn't tell them apart.
fn bits(xs: &[f64]) -> Vec<u64> {
    xs.iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// The reals of a value that was read from `Debug` output: the numbers with a point or an exponent, and those that are
/// none. Types of Rust of any shape have these in the order in which they stand there.
fn reals(shown: &impl Debug) -> Vec<f64> {
    let text = format!("{shown:?}");
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || ".-+".contains(c)));
    let is_real = |word: &&str| word.contains('.') || word.contains("e-") || ["NaN", "inf", "-inf"].contains(word);
    words.filter(is_real).map(|word| word.parse().unwrap_or_else(|_| panic!("{word} in {text}"))).collect()
}

/// Compares typed products with those of a function that takes the same as values.
fn check<Args, Ret>(
    function: &Function,
    (args, values): (Args, &[Value]),
    (tangents, tangent_values): (Args::Tangent, &[Value]),
    (cotangent, cotangent_value): (&Ret::Tangent, &Value),
) where
    Args: Arguments<Tangent: Clone, Gradient: Debug> + Clone,
    Ret: Output<Tangent: Debug> + Debug,
{
    let (name, options) = (function.name(), CallOptions::default());
    let typed = function.typed::<Args, Ret>().unwrap_or_else(|error| panic!("{error}"));
    let same = |found: &[f64], expected: &[Value]| assert_eq!(bits(found), bits(&flatten(expected)), "{name}");

    let expected = function.jvp_with(values, tangent_values, &options).unwrap();
    let (value, tangent, stats) = typed.jvp_with(args.clone(), tangents.clone(), &options).unwrap();
    same(&reals(&value), std::slice::from_ref(&expected.value));
    same(&reals(&tangent), std::slice::from_ref(&expected.tangent));
    assert_eq!(used(&stats), used(&expected.stats), "{name}");
    let again = typed.jvp(args.clone(), tangents).unwrap();
    assert_eq!((format!("{value:?}"), format!("{tangent:?}")), (format!("{:?}", again.0), format!("{:?}", again.1)));

    let expected = function.vjp_with(values, cotangent_value, &options).unwrap();
    let (value, gradient, stats) = typed.vjp_with(args.clone(), cotangent, &options).unwrap();
    same(&reals(&value), std::slice::from_ref(&expected.value));
    same(&reals(&gradient), &expected.gradient);
    assert_eq!(used(&stats), used(&expected.stats), "{name}");
    let again = typed.vjp(args, cotangent).unwrap();
    assert_eq!(format!("{gradient:?}"), format!("{:?}", again.1));
}

/// The same of second order.
fn check_second<Args>(
    function: &Function,
    (args, values): (Args, &[Value]),
    (tangents, tangent_values): (Args::Tangent, &[Value]),
) where
    Args: Arguments<Tangent: Clone, Gradient: Debug> + Clone,
{
    let (name, options) = (function.name(), CallOptions::default());
    let typed = function.typed::<Args, f64>().unwrap_or_else(|error| panic!("{error}"));
    let expected = function.hvp_with(values, tangent_values, &options).unwrap();
    let (value, gradient, product, stats) = typed.hvp_with(args.clone(), tangents.clone(), &options).unwrap();
    assert_eq!(value.to_bits(), expected.value.to_bits(), "{name}");
    assert_eq!(bits(&reals(&gradient)), bits(&flatten(&expected.gradient)), "{name}");
    assert_eq!(bits(&reals(&product)), bits(&flatten(&expected.product)), "{name}");
    assert_eq!(used(&stats), used(&expected.stats), "{name}");
    let again = typed.hvp(args, tangents).unwrap();
    assert_eq!(format!("{:?}", (value, gradient, product)), format!("{again:?}"));
}

fn tuple<const N: usize>(parts: [Value; N]) -> Value {
    Value::Tuple(parts.into())
}

fn array<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}

#[test]
fn products_of_arrays_and_numbers_are_those_of_values() {
    for engine in engines() {
        let wave = function(&engine, "wave");
        let cases: [(&[f64], &[f64]); 4] = [
            (&[0.5, -2.0, 3.0], &[1.0, 0.25, -1.5]),
            (&[], &[]),
            (&[f64::NAN, f64::INFINITY, 1.0], &[1.0, 0.0, f64::NAN]),
            (&[0.0, -0.0], &[f64::INFINITY, -0.0]),
        ];
        for (xs, by) in cases {
            let values = [xs.to_vec().into(), 0.75.into(), Value::Int(2)];
            let tangents = [by.to_vec().into(), 0.5.into(), Value::Null];
            let (args, directions) = ((xs, 0.75, 2), (by, 0.5, ()));
            check::<(&[f64], f64, i64), f64>(&wave, (args, &values), (directions, &tangents), (&3.0, &3.0.into()));
            check_second::<(&[f64], f64, i64)>(&wave, (args, &values), (directions, &tangents));
        }
    }
}

#[test]
fn products_of_nested_types_are_those_of_values() {
    for engine in engines() {
        let rows = function(&engine, "rows");
        let reals = |xs: &[f64]| Value::from(xs.to_vec());
        let pair = |x: f64, n: Value| tuple([x.into(), n]);
        let elements = [1.0, -2.0, 3.0, 0.5, 0.25, 8.0];
        let moved = [0.5, 1.0, 0.0, 2.0, -1.0, 0.125];
        let (ps, by_ps) = (vec![(0.5, 2), (1.5, -3)], vec![(1.0, ()), (-2.0, ())]);
        let values = [
            array([reals(&elements[..3]), reals(&elements[3..])]),
            array([pair(0.5, Value::Int(2)), pair(1.5, Value::Int(-3))]),
            Value::Bool(true),
        ];
        let tangents = [
            array([reals(&moved[..3]), reals(&moved[3..])]),
            array([pair(1.0, Value::Null), pair(-2.0, Value::Null)]),
            Value::Null,
        ];
        let by_rows = vec![vec![1.0, 2.0, 3.0], vec![-1.0, 0.0, 0.5]];
        let cotangent_value = tuple([
            array([reals(&by_rows[0]), reals(&by_rows[1])]),
            array([pair(4.0, Value::Null), pair(-0.5, Value::Null)]),
            Value::Null,
            Value::Null,
        ]);
        let cotangent = (by_rows, vec![(4.0, ()), (-0.5, ())], (), ());
        let cotangent = (&cotangent, &cotangent_value);
        type Rows = (Vec<Vec<f64>>, Vec<(f64, i64)>, Vec<i64>, bool);

        let (m, by_m) = (Matrix::new(&elements, [2, 3]).unwrap(), Matrix::new(&moved, [2, 3]).unwrap());
        let (args, directions) = ((m, &ps[..], true), (by_m, &by_ps[..], ()));
        type Shaped<'a> = (Matrix<'a>, &'a [(f64, i64)], bool);
        check::<Shaped<'_>, Rows>(&rows, (args, &values), (directions, &tangents), cotangent);

        let (m, by_m) = ([&elements[..3], &elements[3..]], [&moved[..3], &moved[3..]]);
        let (args, directions) = ((&m[..], ps.clone(), true), (&by_m[..], by_ps.clone(), ()));
        type Slices<'a> = (&'a [&'a [f64]], Vec<(f64, i64)>, bool);
        check::<Slices<'_>, Rows>(&rows, (args, &values), (directions, &tangents), cotangent);

        let (m, by_m) =
            (vec![elements[..3].to_vec(), elements[3..].to_vec()], vec![moved[..3].to_vec(), moved[3..].to_vec()]);
        let (args, directions) = ((&m, ps, true), (&by_m[..], by_ps, ()));
        type Vectors<'a> = (&'a Vec<Vec<f64>>, Vec<(f64, i64)>, bool);
        check::<Vectors<'_>, Rows>(&rows, (args, &values), (directions, &tangents), cotangent);

        // Nothing in them.
        let values = [array([reals(&[]), reals(&[])]), array([]), Value::Bool(false)];
        let tangents = [values[0].clone(), array([]), Value::Null];
        let empty = Matrix::new(&[], [2, 0]).unwrap();
        let (args, directions) = ((empty, &[][..], false), (empty, &[][..], ()));
        let cotangent = (vec![vec![], vec![]], vec![], (), ());
        let cotangent_value = tuple([values[0].clone(), array([]), Value::Null, Value::Null]);
        check::<Shaped<'_>, Rows>(&rows, (args, &values), (directions, &tangents), (&cotangent, &cotangent_value));
    }
}

#[test]
fn products_of_arrays_of_tuples_are_those_of_values() {
    for engine in engines() {
        let points = function(&engine, "points");
        let triple = |p: [f64; 3]| tuple(p.map(Value::from));
        let (ps, by) = ([[1.0, 2.0, 3.0], [4.0, 0.5, 0.25]], [[1.0, 0.0, -1.0], [0.5, 2.0, 3.0]]);
        let values = [
            array(ps.map(triple)),
            array([Value::Int(7), Value::Int(8)]),
            tuple([2.0.into(), tuple([Value::Int(3), 5.0.into()])]),
        ];
        let tangents = [array(by.map(triple)), Value::Null, tuple([1.0.into(), tuple([Value::Null, (-0.5).into()])])];
        let (args, directions) = ((&ps[..], &[7, 8][..], (2.0, (3, 5.0))), (&by[..], (), (1.0, ((), -0.5))));
        let cotangent = (vec![(1.0, 2.0, 3.0), (-1.0, 0.5, 0.0)], 4.0);
        let cotangent_value = tuple([array([triple([1.0, 2.0, 3.0]), triple([-1.0, 0.5, 0.0])]), 4.0.into()]);
        type Points<'a> = (&'a [[f64; 3]], &'a [i64], (f64, (i64, f64)));
        type Moved = (Vec<(f64, f64, f64)>, f64);
        check::<Points<'_>, Moved>(&points, (args, &values), (directions, &tangents), (&cotangent, &cotangent_value));
    }
}

#[test]
fn what_is_not_used_has_no_derivative() {
    for engine in engines() {
        let unused = function(&engine, "unused");
        let values = [2.0.into(), vec![1.0, f64::NAN].into(), array([Value::Bool(true)])];
        let tangents = [1.0.into(), vec![f64::NAN, 1.0].into(), Value::Null];
        let (args, directions) = ((2.0, &[1.0, f64::NAN][..], vec![true]), (1.0, &[f64::NAN, 1.0][..], ()));
        type Args<'a> = (f64, &'a [f64], Vec<bool>);
        check::<Args<'_>, f64>(
            &unused,
            (args.clone(), &values),
            (directions, &tangents),
            (&f64::NAN, &f64::NAN.into()),
        );
        check_second::<Args<'_>>(&unused, (args, &values), (directions, &tangents));
    }
}

#[test]
fn derivatives_are_with_respect_to_what_was_asked_for() {
    let engine = Engine::default();
    let by_k = function(&engine, "wave").wrt(&["k"]).unwrap();
    let (values, tangents) =
        ([vec![0.5, 2.0].into(), 0.75.into(), Value::Int(1)], [Value::Null, 2.0.into(), Value::Null]);
    let expected = by_k.hvp(&values, &tangents).unwrap();
    let typed = by_k.typed::<(&[f64], f64, i64), f64>().unwrap();
    let args = (&[0.5, 2.0][..], 0.75, 1);
    for xs in [&[][..], &[0.0, -0.0]] {
        let (value, (by_xs, gradient, ()), (_, product, ())) = typed.hvp(args, (xs, 2.0, ())).unwrap();
        assert_eq!(
            (value, Value::Real(gradient), Value::Real(product)),
            (expected.0, expected.1[1].clone(), expected.2[1].clone())
        );
        assert_eq!(by_xs, []);
        let (_, tangent) = typed.jvp(args, (xs, 2.0, ())).unwrap();
        assert_eq!(Value::Real(tangent), by_k.jvp(&values, &tangents).unwrap().1);
    }
    assert_eq!(Value::Real(typed.vjp(args, &3.0).unwrap().1.1), by_k.vjp(&values, &3.0.into()).unwrap().1[1]);
    let error = typed.jvp(args, (&[0.0, 1.0], 2.0, ())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tangent of xs[1]: expected 0, because derivatives are not with respect to it, found 1.0"
    );
    let by_xs = function(&engine, "wave").wrt(&["xs"]).unwrap().typed::<(&[f64], f64, i64), f64>().unwrap();
    let error = by_xs.jvp(args, (&[0.0, 1.0], f64::NAN, ())).unwrap_err();
    assert!(error.to_string().starts_with("tangent of k: expected 0, because"), "{error}");
}

#[test]
fn products_agree_with_finite_differences() {
    let (xs, by) = ([0.5, -2.0, 3.0], [1.0, 0.25, -1.5]);
    for engine in engines() {
        let wave = function(&engine, "wave").typed::<(&[f64], f64, i64), f64>().unwrap();
        let at = |h: f64| (Vec::from_iter(xs.iter().zip(by).map(|(x, d)| x + h * d)), 0.75 + h * 0.5);
        let h = 1e-5;
        let ((ahead, k_ahead), (behind, k_behind)) = (at(h), at(-h));
        let along =
            |value: &dyn Fn(&[f64], f64) -> f64| (value(&ahead, k_ahead) - value(&behind, k_behind)) / (2.0 * h);
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-7, "{found} and {expected}");

        let (_, tangent) = wave.jvp((&xs, 0.75, 2), (&by, 0.5, ())).unwrap();
        close(tangent, along(&|xs, k| wave.call((xs, k, 2)).unwrap()));
        let (_, (by_xs, by_k, ()), (product, product_k, ())) = wave.hvp((&xs, 0.75, 2), (&by, 0.5, ())).unwrap();
        for (n, &product) in product.iter().enumerate() {
            close(product, along(&|xs, k| wave.value_and_grad((xs, k, 2)).unwrap().1.0[n]));
        }
        close(product_k, along(&|xs, k| wave.value_and_grad((xs, k, 2)).unwrap().1.1));
        // ⟨∇f, v⟩ is the tangent, and a cotangent scales the gradient.
        close(by_xs.iter().zip(by).map(|(x, d)| x * d).sum::<f64>() + by_k * 0.5, tangent);
        let (_, (scaled, _, ())) = wave.vjp((&xs, 0.75, 2), &2.0).unwrap();
        scaled.iter().zip(by_xs).for_each(|(scaled, x)| close(*scaled, 2.0 * x));
    }
}

fn refused(error: &Error, expected: &str) {
    assert!(matches!(error.kind(), ErrorKind::Tangent(_) | ErrorKind::Cotangent(_)), "{error}");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn other_shapes_are_refused_with_their_place() {
    let engine = Engine::default();
    let wave = function(&engine, "wave").typed::<(&[f64], f64, i64), f64>().unwrap();
    let error = wave.jvp((&[1.0, 2.0], 3.0, 1), (&[1.0], 0.0, ())).unwrap_err();
    refused(&error, "tangent of xs: expected 2 elements, found 1");
    let error = wave.hvp((&[1.0], 3.0, 1), (&[], 0.0, ())).unwrap_err();
    refused(&error, "tangent of xs: expected 1 element, found 0");

    let rows = function(&engine, "rows");
    type Rows = (Vec<Vec<f64>>, Vec<(f64, i64)>, Vec<i64>, bool);
    let nested = rows.typed::<(&[&[f64]], Vec<(f64, i64)>, bool), Rows>().unwrap();
    let m: [&[f64]; 2] = [&[1.0], &[2.0, 3.0]];
    let error = nested.jvp((&m, vec![], true), (&[&[1.0], &[2.0]], vec![], ())).unwrap_err();
    refused(&error, "tangent of m[1]: expected 2 elements, found 1");
    let error = nested.jvp((&m, vec![], true), (&m, vec![(1.0, ())], ())).unwrap_err();
    refused(&error, "tangent of ps: expected 0 elements, found 1");
    let cotangent = (vec![vec![1.0], vec![2.0]], vec![], (), ());
    refused(
        &nested.vjp((&m, vec![], true), &cotangent).unwrap_err(),
        "cotangent of result.0[1]: expected 2 elements, found 1",
    );
    let shaped = rows.typed::<(Matrix<'_>, Vec<(f64, i64)>, bool), Rows>().unwrap();
    let elements = [1.0; 6];
    let shape = |shape| Matrix::new(&elements, shape).unwrap();
    let error = shaped.jvp((shape([2, 3]), vec![], true), (shape([3, 2]), vec![], ())).unwrap_err();
    refused(&error, "tangent of m: expected a matrix of 2 × 3, found one of 3 × 2");
}

#[test]
fn limits_hold() {
    let spin = function(&Engine::default(), "spin").typed::<(f64,), f64>().unwrap();
    let options = CallOptions::with_limits(Limits { fuel: 10_000, ..Limits::default() });
    let errors = [
        spin.jvp_with((1.0,), (1.0,), &options).unwrap_err(),
        spin.vjp_with((1.0,), &1.0, &options).unwrap_err(),
        spin.hvp_with((1.0,), (1.0,), &options).unwrap_err(),
    ];
    errors.iter().for_each(|error| assert!(error.to_string().contains("out of fuel"), "{error}"));

    // Long arguments are borrowed, and tangents copied.
    let wave = function(&Engine::default(), "wave").typed::<(&[f64], f64, i64), f64>().unwrap();
    let xs = vec![1.0; 10_000];
    let with = |limits| wave.jvp_with((&xs, 1.0, 0), (&xs, 0.0, ()), &CallOptions::with_limits(limits));
    let bytes = with(Limits::default()).unwrap().2.allocated_bytes;
    assert!(bytes >= 8 * xs.len() as u64, "{bytes}");
    assert!(with(Limits { allocated_bytes: bytes, ..Limits::default() }).is_ok());
    let error = with(Limits { allocated_bytes: bytes - 1, ..Limits::default() }).unwrap_err();
    assert!(error.is_limit(), "{error}");
}
