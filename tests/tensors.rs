//! Matrices and tensors at the border: as values, as JSON and in typed calls, with their gradients; what is refused,
//! and what bytecode can do wrong.

use dualvm::{CheckOptions, Engine, ErrorKind, Function, Matrix, Module, Value};
use serde::de::DeserializeSeed;

const PROGRAM: &str = "
import linalg
def trace_of_square (m : Matrix Real) : Real = linalg.trace (linalg.matmul m m)
def bilinear (a : Matrix Real) (b : Matrix Real) : Real = sum (elements (linalg.matmul a b)) + a[0, 0] * b[0, 0]
def same (m : Matrix Real) : Matrix Real = m
def sizes (m : Matrix Real) : (Int, Int) = (rows m, columns m)
def hilbert (n : Int) : Matrix Real = [| 1 / to_real (i + j + 1) for i < n, j < n |]
def cube (a : Int) (b : Int) (c : Int) : Tensor3 Real = [| to_real (100 * i + 10 * j + k) for i < a, j < b, k < c |]
def weighted (t : Tensor3 Real) : Real =
  loop sum = 0.0 for i < length (elements t) do sum + to_real i * (elements t)[i] ^ 2
def pairs (m : Matrix (Real, Real)) : Matrix (Real, Int) =
  [| (fst m[i, j] * snd m[i, j], i - j) for i < rows m, j < columns m |]
def nested (m : Matrix (Array Real)) : Real = sum [| sum x ^ 2 for x in elements m |]
type Holder = Holder (Matrix Real) | Empty
def inside (h : Holder) (l : List (Matrix Real)) (r : { m : Matrix Int, x : Real })
    : (Holder, List (Matrix Int), Real) =
  let total = match h with Holder m -> sum (elements m) ^ 2 | Empty -> 0 in
  (h, [r.m, transpose r.m], total * r.x + sum (map (\\m -> sum (elements m)) l))
def weigh (h : Holder) (l : List (Matrix Real)) (r : { m : Matrix Int, x : Real }) : Real =
  let (_, _, weight) = inside h l r in weight
";

fn module() -> Module {
    Module::from_source(&Engine::default(), "tensors.dual", PROGRAM).unwrap_or_else(|error| panic!("{error}"))
}

fn function(name: &str) -> Function {
    module().function(name).expect("it is exported")
}

/// Arguments in JSON.
fn args(function: &Function, text: &str) -> Vec<Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    function.arguments_seed().deserialize(&mut json).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What a function gives, in JSON.
fn called(name: &str, given: &str) -> String {
    let function = function(name);
    let value = function.call(&args(&function, given)).unwrap_or_else(|error| panic!("{name} {given}: {error}"));
    value.to_string()
}

/// A value and a gradient, as they are shown.
fn gradient(name: &str, given: &str) -> (f64, Vec<String>) {
    let function = function(name);
    let (value, gradient) = function.value_and_grad(&args(&function, given)).unwrap_or_else(|error| panic!("{error}"));
    (value, gradient.iter().map(Value::to_string).collect())
}

#[test]
fn types_are_those_of_the_language() {
    let module = module();
    let signature = |name: &str| {
        let function = module.function(name).expect("it is exported");
        let params: Vec<String> = function.interface().params.iter().map(|(_, ty)| ty.to_string()).collect();
        format!("{} -> {}", params.join(", "), function.interface().result)
    };
    assert_eq!(signature("pairs"), "Matrix (Real, Real) -> Matrix (Real, Int)");
    assert_eq!(signature("nested"), "Matrix (Array Real) -> Real");
    assert_eq!(signature("cube"), "Int, Int, Int -> Tensor3 Real");
}

#[test]
fn values_are_arrays_of_slices() {
    assert_eq!(called("same", "[[[1, 2, 3], [4, 5, 6]]]"), "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]");
    assert_eq!(called("cube", "[2, 1, 3]"), "[[[0.0, 1.0, 2.0]], [[100.0, 101.0, 102.0]]]");
    assert_eq!(called("pairs", "[[[[1, 2], [3, 4]]]]"), "[[(2.0, 0), (12.0, -1)]]");
    assert_eq!(called("nested", "[[[[1, 2], []], [[3], [4, 5]]]]"), (9.0 + 9.0 + 81.0).to_string() + ".0");
    let rows = Value::Array(vec![Value::Reals(vec![1.0, 2.0]), Value::Array(vec![Value::Int(3), Value::Real(4.0)])]);
    assert_eq!(function("sizes").call(&[rows]).expect("it is a matrix"), Value::Tuple(vec![2.into(), 2.into()]));
    // NaN and infinity go through as they are.
    let odd = Value::Array(vec![Value::Reals(vec![f64::NAN, f64::NEG_INFINITY])]);
    assert_eq!(function("same").call(&[odd]).expect("it is a matrix").to_string(), "[[nan, -inf]]");
}

#[test]
fn extents_may_be_zero() {
    assert_eq!(called("sizes", "[[]]"), "(0, 0)");
    assert_eq!(called("sizes", "[[[], [], []]]"), "(3, 0)");
    assert_eq!(called("same", "[[[], []]]"), "[[], []]");
    assert_eq!(called("cube", "[2, 0, 5]"), "[[], []]");
    assert_eq!(called("cube", "[0, 3, 5]"), "[]");
    assert_eq!(gradient("trace_of_square", "[[]]"), (0.0, vec!["[]".to_owned()]));
}

#[test]
fn gradients_are_of_the_shape_of_their_arguments() {
    let (value, by_m) = gradient("trace_of_square", "[[[1, 2], [3, 4]]]");
    assert_eq!((value, by_m), (29.0, vec!["[[2.0, 6.0], [4.0, 8.0]]".to_owned()]));
    let (value, by_t) = gradient("weighted", "[[[[1, 2]], [[3, 4]]]]");
    assert_eq!((value, by_t), (4.0 + 18.0 + 48.0, vec!["[[[0.0, 4.0]], [[12.0, 24.0]]]".to_owned()]));
    let (_, by) = gradient("weigh", r#"[{"Holder": [[1, 2]]}, [[[3]], []], {"m": [[5], [6]], "x": 0.5}]"#);
    assert_eq!(by, ["Holder [[3.0, 3.0]]", "[[[1.0]], []]", "{ m = [[null], [null]], x = 9.0 }"]);
    let holder = called("inside", r#"["Empty", [], {"m": [[5], [6]], "x": 0.5}]"#);
    assert_eq!(holder, "(Empty, [[[5], [6]], [[5, 6]]], 0.0)");
}

#[test]
fn one_matrix_may_be_two_arguments() {
    let m = Value::Array(vec![Value::Reals(vec![1.0, -2.0]), Value::Reals(vec![0.5, 3.0])]);
    let (_, both) = function("bilinear").value_and_grad(&[m.clone(), m]).expect("it is real");
    assert_eq!(both[0].to_string(), "[[0.0, 3.5], [-1.0, 3.5]]");
    assert_eq!(both[1].to_string(), "[[2.5, 1.5], [1.0, 1.0]]");
}

#[test]
fn derivatives_of_all_kinds_agree_with_differences() {
    for (name, given) in [
        ("trace_of_square", "[[[1, 2, -1], [3, 4, 0.5], [0, 1, 1]]]"),
        ("weighted", "[[[[1, 2], [3, 4]], [[0.5, -1], [2, 1]]]]"),
        ("nested", "[[[[1, 2], []], [[3], [4, 5]]]]"),
        ("weigh", r#"[{"Holder": [[1, 2]]}, [[[3]], []], {"m": [[5], [6]], "x": 0.5}]"#),
    ] {
        let function = function(name);
        let mut options = CheckOptions::default();
        options.second = true;
        let check =
            function.check_gradient(&args(&function, given), &options).unwrap_or_else(|error| panic!("{error}"));
        assert!(!check.is_wrong(), "{name}: {check:#?}");
    }
    let same = function("same");
    let at = args(&same, "[[[1, 2], [3, 4]]]");
    let (_, columns) = same.jvp(&at, &args(&same, "[[[1, 0], [0, 5]]]")).expect("a tangent of its shape");
    assert_eq!(columns.to_string(), "[[1.0, 0.0], [0.0, 5.0]]");
    let error = same.jvp(&at, &args(&same, "[[[1], [0]]]")).unwrap_err().to_string();
    assert_eq!(error, "tangent of m[0]: expected 2 reals, found 1");
}

#[test]
fn ragged_slices_are_refused_with_their_place() {
    let ragged = |name: &str, given: &str| {
        let function = function(name);
        function.call(&args(&function, given)).unwrap_err().to_string()
    };
    let expected = "argument m[1]: expected 2 elements, as many as the first slice has, found 1";
    assert_eq!(ragged("same", "[[[1, 2], [3]]]"), expected);
    let expected = "argument t[1]: expected 1 elements, as many as the first slice has, found 2";
    assert_eq!(ragged("weighted", "[[[[1]], [[1], [2]]]]"), expected);
    let expected = "argument t[1][0]: expected 1 elements, as many as the first slice has, found 0";
    assert_eq!(ragged("weighted", "[[[[1]], [[]]]]"), expected);
    let error = function("same").call(&[Value::Reals(vec![1.0])]).unwrap_err().to_string();
    assert_eq!(error, "argument m: expected Matrix Real, found an array");
}

#[test]
fn typed_calls_take_slices_with_a_shape() {
    let bilinear = function("bilinear").typed::<(Matrix, Matrix), f64>().expect("these are its types");
    let (a, b) = ([1.0, -2.0, 0.5, 3.0, 1.0, 1.0], [1.0, 2.0]);
    let (a, b) = (Matrix::new(&a, [3, 2]).expect("six"), Matrix::new(&b, [2, 1]).expect("two"));
    let (value, (by_a, by_b)) = bilinear.value_and_grad((a, b)).expect("it is real");
    assert_eq!(value, -3.0 + 6.5 + 3.0 + 1.0);
    assert_eq!((&by_a[..], &by_b[..]), (&[2.0, 2.0, 1.0, 2.0, 1.0, 2.0][..], &[3.5, 2.0][..]));
}

#[test]
fn a_matrix_of_more_rows_than_integers_count_is_refused() {
    let sizes = function("sizes").typed::<(Matrix,), (i64, i64)>().expect("these are its types");
    let of_shape = |shape| sizes.call((Matrix::new(&[], shape).expect("it has no elements"),));
    assert_eq!(of_shape([0, i64::MAX as usize]).expect("they are counted"), (0, i64::MAX));
    for shape in [[1 << 63, 0], [0, usize::MAX]] {
        let error = Matrix::<f64>::new(&[], shape).expect_err("no program counts so far").to_string();
        assert!(error.contains("no extent can be more than 9223372036854775807"), "{error}");
    }
}

#[test]
fn a_shape_that_is_not_that_of_the_elements_is_an_error() {
    // What the language never makes.
    let text = "type t0 = array real
type t1 = shaped { t0, int, int }
func \"odd\" (t0, int, int) -> (t1)
  export (xs : Array Real @t0, m : Int, n : Int) -> Tensor (Array Real @t0) @t1
  regs 2 int, t0, t1
{
  struct_new p1 (p0, i0, i1)
  ret (p1)
}
";
    let def = dualvm::vm::text::parse(text, "odd.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = Module::new(&Engine::default(), def).unwrap_or_else(|error| panic!("{error}"));
    let odd = module.function("odd").expect("it is exported");
    let call = |m: i64, n: i64| odd.call(&[Value::Reals(vec![1.0, 2.0]), m.into(), n.into()]);
    assert_eq!(call(1, 2).expect("two elements").to_string(), "[[1.0, 2.0]]");
    for (m, n) in [(2, 2), (-1, -2), (0, 7), (i64::MAX, i64::MAX)] {
        let error = call(m, n).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ResultShape { .. }), "{error}");
        assert!(error.to_string().contains(&format!("is of shape {m} × {n} and has 2 elements")), "{error}");
    }
    // No elements, but more slices than there is memory for.
    let empty = odd.call(&[Value::Reals(vec![]), i64::MAX.into(), 0.into()]).unwrap_err();
    assert!(empty.is_limit(), "{empty}");
}

#[test]
fn rules_that_use_each_other_end_in_forward_mode() {
    // The zero that stands for a cotangent which is an object of an array has no components, or each rule would ask the
    // other for those of the next one.
    let text = "
def down (u : Matrix Real) (b : Matrix Real) : Matrix Real =
  let rule (u, b) c = let b_bar = up (transpose u) c in ([| -(b_bar[0, 0] * (down u b)[0, 0]); |], b_bar) in
  custom_vjp (\\(u, b) -> [| b[0, 0] / u[0, 0]; |]) rule (u, b)
def up (l : Matrix Real) (b : Matrix Real) : Matrix Real =
  let rule (l, b) c = let b_bar = down (transpose l) c in ([| -(b_bar[0, 0] * (up l b)[0, 0]); |], b_bar) in
  custom_vjp (\\(l, b) -> [| b[0, 0] / l[0, 0]; |]) rule (l, b)
def quotient (u : Matrix Real) (b : Matrix Real) : Real = (down u b)[0, 0]
";
    let quotient = Module::from_source(&Engine::default(), "quotient.dual", text).and_then(|m| m.function("quotient"));
    let quotient = quotient.unwrap_or_else(|error| panic!("{error}"));
    let matrix = |x: f64| Value::Array(vec![Value::Reals(vec![x])]);
    let (at, along) = ([matrix(2.0), matrix(3.0)], [matrix(1.0), matrix(0.0)]);
    let (value, tangent) = quotient.jvp(&at, &along).expect("it ends");
    assert_eq!((value, tangent), (1.5.into(), (-0.75).into()));
    let (_, _, product) = quotient.hvp(&at, &along).expect("it ends");
    assert_eq!(product, [matrix(0.75), matrix(-0.25)]);
}
