//! Functions of lists and arrays alike, and syntax that works on both: `for x in xs`, `xs[i]`, `xs ++ ys`.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Engine, Function, Module};
use dualvm_vm::value::Value;

fn function(text: &str) -> Function {
    let def = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    let module = Module::new(&Engine::default(), def).unwrap_or_else(|errors| panic!("{}", errors[0]));
    module.function("f").expect("the program defines `f`")
}

fn reals(values: &[f64]) -> Value {
    Value::Reals(values.to_vec())
}

/// Calls `f` with a list and with an array of these numbers; the results must be the same.
fn on_both(text: &str, values: &[f64]) -> Value {
    let [list, array] = ["List", "Array"].map(|kind| {
        let f = function(&text.replace("KIND", kind));
        f.call(&[reals(values)]).unwrap_or_else(|error| panic!("{kind}: {error}"))
    });
    assert_eq!(list, array, "{text}");
    array
}

#[test]
fn a_function_of_one_kind_is_one_of_any_kind() {
    let text = "def mean_square xs = sum (map square xs) / to_real (length xs)
def norm (xs : c Real) : Real = sqrt (mean_square xs)
def f (xs : KIND Real) : Real = norm xs";
    assert_eq!(on_both(text, &[3.0, 3.0]), Value::Real(3.0));
    let both = "def twice xs = xs ++ xs
def f (n : Int) : (Int, Int) =
  let pair xs = (length (twice xs), sum (twice xs)) in
  let ((a, b), (c, d)) = (pair [n, 1], pair [| n |]) in (10 * a + c, b + d)";
    assert_eq!(function(both).call(&[Value::Int(5)]), Ok(Value::Tuple(vec![Value::Int(42), Value::Int(22)])));
}

#[test]
fn what_no_use_decides_is_an_array() {
    let f = function("def f (n : Int) = map (* 2) (range 0 n)");
    assert_eq!(f.interface().result.to_string(), "Array Int");
    let f = function("def f xs = sum xs");
    assert_eq!(f.interface().params[0].1.to_string(), "Array Real");
}

#[test]
fn loops_run_over_lists_and_arrays() {
    let text = "def f (xs : KIND Real) : (Real, Int) = loop (s, n) = (0.0, 0) for x in xs do (2 * s + x, n + 1)";
    assert_eq!(on_both(text, &[1.0, 2.0, 4.0]), Value::Tuple(vec![Value::Real(12.0), Value::Int(3)]));
    assert_eq!(on_both(text, &[]), Value::Tuple(vec![Value::Real(0.0), Value::Int(0)]));
    let nested = "def f (xs : KIND Real) : Real =
  let scale k = loop s = 0.0 for x in xs do s + k * x in
  loop total = 0.0 for x in xs do total + scale x";
    assert_eq!(on_both(nested, &[1.0, 2.0]), Value::Real(9.0));
    let element = "def f (xs : KIND Real) : Array Real = [| x * xs[0] for x in xs |]";
    assert_eq!(on_both(element, &[2.0, 3.0]), reals(&[4.0, 6.0]));
    let patterns = "def f (xs : KIND Real) : Real = loop s = 0.0 for (i, x) in enumerate xs do s + to_real i * x";
    assert_eq!(on_both(patterns, &[5.0, 3.0, 1.0]), Value::Real(5.0));
}

#[test]
fn a_loop_over_a_list_needs_no_stack() {
    let text = "def f (n : Int) : Int = loop s = 0 for x in range_list n do s + x
def range_list (n : Int) : List Int = range 0 n";
    assert_eq!(function(text).call(&[Value::Int(1_000_000)]), Ok(Value::Int(499_999_500_000)));
}

#[test]
fn the_first_values_are_evaluated_before_the_collection() {
    for list in ["[]", "[||]"] {
        let text = format!(
            "def f (n : Int) : Int = loop s = (if n > 0 then error \"first\" else n)
  for x in (if n > 0 then error \"collection\" else {list}) do s + x"
        );
        let error = function(&text).call(&[Value::Int(1)]).expect_err("both trap");
        assert!(error.to_string().starts_with("first"), "{error}");
    }
}

#[test]
fn elements_are_found_by_index() {
    let text = "def f (xs : KIND Real) : Real = xs[1] + 10 * (map (+ 1) xs)[0]";
    assert_eq!(on_both(text, &[1.0, 2.0]), Value::Real(22.0));
    let rows = "def f (xs : KIND Real) : Real = let rows = [xs, reverse xs] in rows[1][0] - rows[0][0]";
    assert_eq!(on_both(rows, &[1.0, 2.0, 5.0]), Value::Real(4.0));
    for index in ["2", "-1"] {
        let f = function(&format!("def f (xs : List Real) : Real = xs[{index}]"));
        let error = f.call(&[reals(&[1.0, 2.0])]).expect_err("there is no such element").to_string();
        assert!(error.contains("out of bounds"), "{error}");
    }
}

#[test]
fn gradients_are_the_same_for_both() {
    let text = "def f (xs : KIND Real) : Real =
  let parts = zip (scan (+) 0 xs) (sort_by negate xs) in
  loop s = 1.0 for (a, b) in parts ++ reverse parts do s * sin (a * b + maximum xs) + last xs * xs[1]";
    let values = [0.5, -1.5, 2.0];
    let [list, array] = ["List", "Array"].map(|kind| {
        let f = function(&text.replace("KIND", kind));
        f.value_and_grad(&[reals(&values)]).unwrap_or_else(|error| panic!("{kind}: {error}"))
    });
    // What is recorded together differs, and with it how contributions are grouped.
    assert_eq!(list.0, array.0);
    let f = function(&text.replace("KIND", "Array"));
    let at = |x: &[f64]| match f.call(&[reals(x)]) {
        Ok(Value::Real(value)) => value,
        other => panic!("{other:?}"),
    };
    let [Value::Reals(of_list), Value::Reals(of_array)] = [&list.1[0], &array.1[0]] else { panic!("{list:?}") };
    for (i, (derivative, other)) in of_array.iter().zip(of_list).enumerate() {
        assert!((derivative - other).abs() < 1e-13 * other.abs(), "{i}: {derivative}, {other}");
        let moved = |h: f64| at(&std::array::from_fn::<f64, 3, _>(|k| values[k] + if k == i { h } else { 0.0 }));
        let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        assert!((difference - derivative).abs() < 1e-7, "{i}: {derivative}, {difference}");
    }
}

#[test]
fn sorting_is_stable_and_keeps_all_elements() {
    let text = "def f (xs : KIND Real) = (sort xs, sort_by floor xs, sort_by negate xs, argmax xs, argmin xs)";
    let value = on_both(text, &[2.5, 1.0, 2.25, -1.0, 2.75]);
    let Value::Tuple(parts) = &value else { panic!("{value:?}") };
    assert_eq!(parts[0], reals(&[-1.0, 1.0, 2.25, 2.5, 2.75]));
    assert_eq!(parts[1], reals(&[-1.0, 1.0, 2.5, 2.25, 2.75]));
    assert_eq!(parts[2], reals(&[2.75, 2.5, 2.25, 1.0, -1.0]));
    assert_eq!(parts[3..], [Value::Int(4), Value::Int(3)]);
    assert_eq!(on_both("def f (xs : KIND Real) = sort xs", &[]), reals(&[]));
}

/// Arrays of all small lengths, with many equal elements, and a long one.
#[test]
fn sorted_elements_are_those_of_a_stable_sort() {
    let text = "def f (xs : KIND Real) = (sort xs, argsort xs, sort_by (\\x -> floor (x / 4)) xs)";
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 28)
    };
    for len in (0..40).chain([1000]) {
        let xs: Vec<f64> = (0..len).map(|_| next()).collect();
        let value = on_both(text, &xs);
        let Value::Tuple(parts) = &value else { panic!("{value:?}") };
        let by = |key: &dyn Fn(f64) -> f64| {
            let mut indices: Vec<usize> = (0..xs.len()).collect();
            indices.sort_by(|&a, &b| key(xs[a]).total_cmp(&key(xs[b])));
            indices
        };
        let gathered = |indices: &[usize]| reals(&indices.iter().map(|&i| xs[i]).collect::<Vec<f64>>());
        let indices = by(&|x| x);
        assert_eq!(parts[0], gathered(&indices), "{xs:?}");
        assert_eq!(parts[1], Value::Array(indices.into_iter().map(|i| Value::Int(i as i64)).collect()), "{xs:?}");
        assert_eq!(parts[2], gathered(&by(&|x| (x / 4.0).floor())), "{xs:?}");
    }
    // With NaN in any order, but all of them.
    let xs = [2.0, f64::NAN, 1.0, f64::NAN, -3.0, 0.5, f64::NAN];
    let sorted = function("def f (xs : Array Real) = sort xs").call(&[reals(&xs)]).expect("it is sorted");
    let Value::Reals(sorted) = &sorted else { panic!("{sorted:?}") };
    let in_order = |xs: &[f64]| {
        let mut bits: Vec<u64> = xs.iter().map(|x| x.to_bits()).collect();
        bits.sort_unstable();
        bits
    };
    assert_eq!(in_order(sorted), in_order(&xs));
}

#[test]
fn captured_variables_reach_loops_over_lists() {
    let text = "def f (xs : KIND Real) : Real =
  let g k = loop s = k for x in xs do
    let h = \\y -> loop t = s for z in xs do t + y * z * k in
    s + h x in
  g 1.0 + fold (\\s x -> s + g x) 0.0 xs";
    on_both(text, &[1.0, 2.0, 0.5]);
    let tasks = "def f (xs : KIND Real) : Real =
  let (a, b) = (loop s = 0.0 for x in xs do s + x) |*| (loop s = 1.0 for x in xs do s * x) in a + b";
    assert_eq!(on_both(tasks, &[2.0, 3.0]), Value::Real(11.0));
    let task = "def f (xs : KIND Real) : Real =
  let (a, b) = par (loop s = (match (xs, 2.0) with | (_, y) -> y) for x in xs do s * x, 1.0) in a + b";
    assert_eq!(on_both(task, &[2.0, 3.0]), Value::Real(13.0));
}
