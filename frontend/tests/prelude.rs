//! The prelude: its documentation is up to date, its examples are true, and its derivatives hold where they are hard.

use dualvm_frontend::{compile, prelude_examples, prelude_markdown, prelude_traps};
use dualvm_vm::engine::{Engine, Function, Module};
use dualvm_vm::value::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/prelude.md");

fn module(text: &str) -> Module {
    let def = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    Module::new(&Engine::default(), def).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn function(text: &str) -> Function {
    module(text).function("f").expect("the program defines `f`")
}

#[test]
fn the_reference_page_is_up_to_date() {
    if std::env::var_os("DUALVM_BLESS").is_some_and(|value| value == "1") {
        fs::write(PAGE, prelude_markdown()).expect("the page can be written");
    }
    let page = fs::read_to_string(PAGE).expect("the page is in the repository");
    assert_eq!(page, prelude_markdown(), "run DUALVM_BLESS=1 cargo test -p dualvm-frontend --test prelude");
}

#[test]
fn every_definition_has_an_example() {
    let with_example: BTreeSet<&str> = prelude_examples().map(|(name, _)| name).collect();
    let mut count = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/prelude")).expect("the prelude can be listed") {
        let path = entry.expect("entries can be read").path();
        let text = fs::read_to_string(&path).expect("the prelude is UTF-8");
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("def ") {
                let name = rest.split(' ').next().expect("there is always a first word");
                assert!(with_example.contains(name), "{}: `{name}` has no example", path.display());
                count += 1;
            }
        }
    }
    assert_eq!(count, with_example.len());
    assert!(count > 50);
}

#[test]
fn examples_are_true() {
    let mut program = String::new();
    for (n, (_, example)) in prelude_examples().enumerate() {
        writeln!(program, "def example_{n} = {example}").expect("writing to a string succeeds");
    }
    let module = module(&program);
    let mut wrong = Vec::new();
    for (n, (name, example)) in prelude_examples().enumerate() {
        let value = module.function(&format!("example_{n}")).expect("all examples are exported").call(&[]);
        if value.as_ref().ok() != Some(&Value::Bool(true)) {
            wrong.push(format!("{name}: {example}: {value:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn examples_of_traps_trap() {
    let mut count = 0;
    for (name, example) in prelude_traps() {
        let error = function(&format!("def f = {example}")).call(&[]).expect_err(name);
        assert!(error.to_string().contains("f at test.dual:1:"), "{name}: {error}");
        count += 1;
    }
    assert!(count > 1);
}

/// Value and derivative of `f` at a point.
fn at(function: &Function, x: f64) -> (f64, f64) {
    let (value, gradient) = function.value_and_grad(&[Value::Real(x)]).unwrap_or_else(|error| panic!("{error}"));
    (value, gradient[0].as_real().expect("the derivative of a real is one"))
}

#[track_caller]
fn close(found: f64, expected: f64) {
    let near = (found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs();
    assert!(near || found == expected, "found {found:e}, expected {expected:e}");
}

#[test]
fn sigmoid_and_softplus_are_accurate_with_their_derivatives() {
    let sigmoid = function("def f (x : Real) = sigmoid x");
    let softplus = function("def f (x : Real) = softplus x");
    for x in [0.0, -0.0, 1.0, -1.0, 30.0, -30.0, 700.0, -700.0, 1e-10] {
        // With u = exp (-|x|), both sides of each formula are free of cancellation.
        let u = f64::exp(-f64::abs(x));
        let (above, below) = (1.0 / (1.0 + u), u / (1.0 + u));
        let expected = if x >= 0.0 { above } else { below };
        let (value, derivative) = at(&sigmoid, x);
        close(value, expected);
        close(derivative, above * below);
        let (value, derivative) = at(&softplus, x);
        close(value, f64::max(x, 0.0) + u.ln_1p());
        close(derivative, expected);
    }
    assert_eq!(at(&sigmoid, f64::INFINITY), (1.0, 0.0));
    assert_eq!(at(&sigmoid, f64::NEG_INFINITY), (0.0, 0.0));
    assert_eq!(at(&softplus, f64::NEG_INFINITY), (0.0, 0.0));
    assert_eq!(at(&softplus, f64::INFINITY), (f64::INFINITY, 1.0));
    assert!(at(&sigmoid, f64::NAN).0.is_nan() && at(&softplus, f64::NAN).0.is_nan());
}

#[test]
fn the_derivatives_of_relu_and_clamp_at_their_bounds_are_as_documented() {
    let relu = function("def f (x : Real) = relu x");
    assert_eq!([-1.0, 0.0, 1.0].map(|x| at(&relu, x)), [(0.0, 0.0), (0.0, 0.0), (1.0, 1.0)]);
    assert!(at(&relu, f64::NAN).0.is_nan());
    let clamp = function("def f (x : Real) = clamp 0 1 x");
    let expected = [(0.0, 0.0), (0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (1.0, 0.0)];
    assert_eq!([-1.0, 0.0, 0.5, 1.0, 2.0].map(|x| at(&clamp, x)), expected);
}

/// The gradient of `f`, a function of an array or a list.
fn gradient(function: &Function, xs: &[f64]) -> (f64, Vec<f64>) {
    let (value, gradient) = function.value_and_grad(&[xs.to_vec().into()]).unwrap_or_else(|error| panic!("{error}"));
    (value, gradient[0].as_reals().expect("the gradient of reals is reals").to_vec())
}

#[test]
fn logsumexp_has_the_softmax_as_its_gradient() {
    let infinity = f64::INFINITY;
    for text in ["def f (x : List Real) = logsumexp x", "def f (x : Array Real) = logsumexp x"] {
        let function = function(text);
        assert_eq!(gradient(&function, &[2.0, 2.0]), (2.0 + 2f64.ln(), vec![0.5, 0.5]));
        assert_eq!(gradient(&function, &[1e300, 1e300]), (1e300, vec![0.5, 0.5]));
        assert_eq!(gradient(&function, &[-1000.0; 4]), (-1000.0 + 4f64.ln(), vec![0.25; 4]));
        assert_eq!(gradient(&function, &[-infinity, 3.0]), (3.0, vec![0.0, 1.0]));
        assert_eq!(gradient(&function, &[-infinity; 2]).0, -infinity);
        assert_eq!(gradient(&function, &[infinity, 1.0]), (infinity, vec![1.0, 0.0]));
        assert_eq!(gradient(&function, &[]), (-infinity, vec![]));
        assert!(gradient(&function, &[f64::NAN, 1.0]).0.is_nan() && gradient(&function, &[1.0, f64::NAN]).0.is_nan());
        let (value, found) = gradient(&function, &[0.0, -40.0]);
        let small = f64::exp(-40.0);
        close(value, small.ln_1p());
        close(found[0], 1.0);
        close(found[1], small);
    }
}

#[test]
fn log_softmax_has_all_digits_with_its_gradient() {
    let infinity = f64::INFINITY;
    for text in ["def f (x : List Real) = (log_softmax x)[1]", "def f (x : Array Real) = (log_softmax x)[1]"] {
        let function = function(text);
        assert_eq!(gradient(&function, &[1e5, 1e5]), (-2f64.ln(), vec![-0.5, 0.5]));
        assert_eq!(gradient(&function, &[0.0, -800.0]), (-800.0, vec![-1.0, 1.0]));
        assert_eq!(gradient(&function, &[3.0, -infinity]), (-infinity, vec![-1.0, 1.0]));
        assert!(gradient(&function, &[infinity, 1.0]).0.is_nan());
        let (value, found) = gradient(&function, &[-40.0, 0.0]);
        let small = f64::exp(-40.0);
        close(value, -small.ln_1p());
        close(found[0], -small);
        // What is left of 1 - 1.
        assert!((found[1] - small).abs() < 1e-16);
    }
}

#[test]
fn logaddexp_is_logsumexp_of_two_with_its_gradient() {
    let infinity = f64::INFINITY;
    let [two, many] =
        ["logaddexp x[0] x[1]", "logsumexp x"].map(|call| function(&format!("def f (x : Array Real) = {call}")));
    for (a, b) in [(2.0, 2.0), (0.0, -40.0), (-1.5, 0.25), (800.0, -800.0), (1e300, 1e300), (-infinity, 3.0)] {
        for xs in [[a, b], [b, a]] {
            let ((value, found), (expected, derivatives)) = (gradient(&two, &xs), gradient(&many, &xs));
            close(value, expected);
            found.iter().zip(derivatives).for_each(|(&found, expected)| close(found, expected));
        }
    }
    assert_eq!(gradient(&two, &[2.0, 2.0]).1, [0.5, 0.5]);
    assert_eq!(gradient(&two, &[infinity, 1.0]), (infinity, vec![1.0, 0.0]));
    assert_eq!(gradient(&two, &[-infinity, infinity]), (infinity, vec![0.0, 1.0]));
    assert_eq!(gradient(&two, &[-infinity, -infinity]).0, -infinity);
    for xs in [[f64::NAN, 1.0], [1.0, f64::NAN], [infinity, f64::NAN], [f64::NAN, infinity]] {
        assert!(gradient(&two, &xs).0.is_nan(), "{xs:?}");
    }
}

#[test]
fn the_standard_deviation_has_derivative_zero_where_all_are_equal() {
    for text in ["def f (x : List Real) = std x", "def f (x : Array Real) = std x"] {
        let function = function(text);
        assert_eq!(gradient(&function, &[3.0, 3.0, 3.0]), (0.0, vec![0.0; 3]));
        let (value, found) = gradient(&function, &[1.0, 5.0]);
        assert_eq!((value, found), (2.0, vec![-0.5, 0.5]));
        assert!(gradient(&function, &[]).0.is_nan());
    }
}

#[test]
fn both_ends_of_linspace_have_their_derivatives() {
    for (at, n, expected) in [(0, 5, [1.0, 0.0]), (1, 5, [0.75, 0.25]), (4, 5, [0.0, 1.0]), (0, 1, [1.0, 0.0])] {
        let function = function(&format!("def f (x : Array Real) = (linspace x[0] x[1] {n})[{at}]"));
        assert_eq!(gradient(&function, &[2.0, 10.0]), (2.0 * expected[0] + 10.0 * expected[1], expected.to_vec()));
    }
    let rounded = function("def f (x : Array Real) = (linspace x[0] x[1] 11)[10]");
    assert_eq!(gradient(&rounded, &[0.0, 0.7]), (0.7, vec![0.0, 1.0]), "the last one is what was given");
    let one = function("def f (x : Array Real) = (linspace x[0] x[1] 1)[0]");
    assert_eq!(gradient(&one, &[1.0, f64::INFINITY]), (1.0, vec![1.0, 0.0]));
    let ends = function("def f (x : Array Real) = (linspace x[0] x[1] 3)[0]");
    assert_eq!(gradient(&ends, &[-1e308, 1e308]), (-1e308, vec![1.0, 0.0]), "though the step is infinite");
}

#[test]
fn softmax_has_its_derivatives_at_ties_and_far_apart() {
    let list = "def f (x : List Real) = match softmax x with | y :: _ -> y | [] -> 0";
    for text in [list, "def f (x : Array Real) = (softmax x)[0]"] {
        let function = function(text);
        assert_eq!(gradient(&function, &[0.0, 0.0]), (0.5, vec![0.25, -0.25]));
        assert_eq!(gradient(&function, &[-1e9, -1e9]), (0.5, vec![0.25, -0.25]));
        let small = f64::exp(-40.0);
        let (value, found) = gradient(&function, &[0.0, -40.0]);
        assert_eq!(value, 1.0);
        close(found[0], small);
        close(found[1], -small);
        let (value, found) = gradient(&function, &[-800.0, 0.0]);
        assert_eq!((value, found), (0.0, vec![0.0, 0.0]));
        assert_eq!(gradient(&function, &[3.0, f64::NEG_INFINITY]), (1.0, vec![0.0, 0.0]));
    }
}

#[test]
fn the_norm_has_derivative_zero_at_the_origin() {
    let norm = function("def f (x : Array Real) = norm2 x");
    assert_eq!(gradient(&norm, &[0.0, 0.0]), (0.0, vec![0.0, 0.0]));
    let (value, found) = gradient(&norm, &[3e200, 0.0, 4e200]);
    close(value, 5e200);
    close(found[0], 0.6);
    close(found[2], 0.8);
    assert_eq!(found[1], 0.0);
}

#[test]
fn norms_and_deviations_have_finite_derivatives_where_squares_underflow() {
    let norm = function("def f (x : Array Real) = norm2 x");
    for size in [1e-162, 1e-310] {
        let (value, found) = gradient(&norm, &[3.0 * size, 4.0 * size]);
        assert!((value / (5.0 * size) - 1.0).abs() < 1e-9, "{value:e}");
        close(found[0], 0.6);
        close(found[1], 0.8);
    }
    for text in ["def f (x : List Real) = std x", "def f (x : Array Real) = std x"] {
        let deviation = function(text);
        assert_eq!(gradient(&deviation, &[1e-163, 3e-163]), (0.0, vec![0.0; 2]));
        assert_eq!(gradient(&deviation, &[2.0, 2.0, 2.0]), (0.0, vec![0.0; 3]));
    }
}

#[test]
fn ties_of_the_maximum_belong_to_the_first() {
    for text in ["def f (x : List Real) = maximum x", "def f (x : Array Real) = maximum x"] {
        assert_eq!(gradient(&function(text), &[1.0, 3.0, 3.0]), (3.0, vec![0.0, 1.0, 0.0]));
    }
    for text in ["def f (x : List Real) = minimum x", "def f (x : Array Real) = minimum x"] {
        assert_eq!(gradient(&function(text), &[4.0, 3.0, 3.0]), (3.0, vec![0.0, 1.0, 0.0]));
    }
}

#[test]
fn sums_are_left_folds() {
    let xs = [1e16, -1e16, 1.0];
    assert_ne!(xs[0] + (xs[1] + xs[2]), 1.0, "a right fold would show");
    for text in ["def f (x : List Real) = sum x", "def f (x : Array Real) = sum x"] {
        assert_eq!(function(text).call(&[xs.to_vec().into()]).expect("sums don't trap"), Value::Real(1.0));
    }
}

#[test]
fn partial_functions_say_which_they_are() {
    let cases = [
        ("head []", "head: the list is empty"),
        ("to_real (length (tail []))", "tail: the list is empty"),
        ("last []", "last: the list is empty"),
        ("maximum []", "maximum: the list is empty"),
        ("minimum []", "minimum: the list is empty"),
        ("maximum [||]", "maximum: the array is empty"),
        ("minimum [||]", "minimum: the array is empty"),
        ("[0.5][1]", "index 1 is out of bounds of a list of length 1"),
        ("[0.5][-1]", "index -1 is out of bounds of a list of length 1"),
        ("dot [| 1 |] [| 1, 2 |]", "dot: the arrays have different lengths, 1 and 2"),
        ("sum (zip_with (+) [| 1 |] [||])", "zip_with: the arrays have different lengths, 1 and 0"),
    ];
    for (expression, message) in cases {
        let error = function(&format!("def f : Real = {expression}")).call(&[]).expect_err(expression);
        assert!(error.to_string().starts_with(message), "{expression}: {error}");
    }
}

#[test]
fn lists_of_a_hundred_thousand_elements_pass_through() {
    let text = "def f (n : Int) : Int =
      let xs = range 0 n |> map (* 2) |> filter (>= 0) in
      let (ys, zs) = unzip (zip xs (reverse xs)) in
      let array = to_array (concat [take n ys, drop n zs, append ys zs]) in
      length (to_list array) + sum (map (\\_ -> 1) ys) + foldr (\\_ k -> k + 1) 0 zs + length array
        + length (fst (partition (> 4) xs)) + length (iterate n (+ 1) 0) + length (concat_map (\\x -> [x]) xs)";
    let n = 100_000;
    let expected = 3 * n + n + n + 3 * n + (n - 3) + n + n;
    assert_eq!(function(text).call(&[Value::Int(n)]).expect("nothing traps"), Value::Int(expected));
}
