//! Matrices and tensors in flat calls of the machine alone, as a shape and a slice each: what goes in and comes out,
//! what its derivatives are, what is refused, and how deep tensors may nest. The sanitizers and Miri run this.

use dualvm_vm::engine::{Engine, Function, Module, RunError};
use dualvm_vm::flat::{CallFrame, FlatFunction, FlatValue, LeafKind};
use dualvm_vm::text;
use dualvm_vm::value::{ArgumentError, VALUE_DEPTH_MAX, Value};

/// Matrices of reals are `t1`, those of integers `t3`, of which there are tensors `t4`; a tree has trees in matrices.
const PROGRAM: &str = r#"
type t0 = array real
type t1 = shaped { t0, int, int }
type t2 = array int
type t3 = shaped { t2, int, int }
type t4 = shaped { t2, int, int, int }
type t5 = builder real
type t6 = variant { Leaf {}, Node { t8 } }
type t7 = array t6
type t8 = shaped { t7, int, int }
data d0 "Tree" t6 = Leaf () | Node (Tensor (Array (Data "Tree" @d0) @t7) @t8)

func "scaled" (t1, real) -> (t1)
  export (m : Tensor (Array Real @t0) @t1, k : Real) -> Tensor (Array Real @t0) @t1
  regs 2 real, 5 int, t1, t0, t5
{
  pfield p1, p0, 0
  len i0, p1
  build p2, i0
  iconst i1, 0
  iconst i2, 1
  jump test
next:
  elem r1, p1, i1
  mul r1, r1, r0
  push p2, r1
  iadd i1, i1, i2
test:
  ilt i3, i1, i0
  branch i3, next, end
end:
  finish p1, p2
  ifield i3, p0, 1
  ifield i4, p0, 2
  struct_new p0 (p1, i3, i4)
  ret (p0)
}

; The sum of products of elements, for matrices of one size.
func "inner" (t1, t1) -> (real)
  export (a : Tensor (Array Real @t0) @t1, b : Tensor (Array Real @t0) @t1) -> Real
  regs 3 real, 4 int, t1, t1, t0, t0
{
  pfield p2, p0, 0
  pfield p3, p1, 0
  len i0, p2
  iconst i1, 0
  iconst i2, 1
  const r0, 0
  jump test
next:
  elem r1, p2, i1
  elem r2, p3, i1
  mul r1, r1, r2
  add r0, r0, r1
  iadd i1, i1, i2
test:
  ilt i3, i1, i0
  branch i3, next, end
end:
  ret (r0)
}

func "mixed" (int, t1, real, t4, t3) -> (t1, t4, int, t3, real)
  export (n : Int, pairs : Tensor (Array (Real, Real) @t0) @t1,
      r : { x : Real, t : Tensor (Tensor (Array Int @t2) @t3) @t4 }, flags : Tensor (Array Bool @t2) @t3)
    -> (Tensor (Array (Real, Real) @t0) @t1, Tensor (Tensor (Array Int @t2) @t3) @t4, Int,
        Tensor (Array Bool @t2) @t3, Real)
  regs 1 real, 1 int, t1, t4, t3
{
  ret (p0, p1, i0, p2, r0)
}

; A shape that may not be that of the elements: what no language should make.
func "shaped" (t0, int, int) -> (t1)
  export (xs : Array Real @t0, m : Int, n : Int) -> Tensor (Array Real @t0) @t1
  regs 2 int, t0, t1
{
  struct_new p1 (p0, i0, i1)
  ret (p1)
}

; Matrices of one element inside each other.
func "grown" (int) -> (t6)
  export (n : Int) -> Data "Tree" @d0
  regs 4 int, t6, t7, t8
{
  variant_new p0, 0 ()
  iconst i1, 0
  iconst i2, 1
  jump test
next:
  pack p1 (p0)
  struct_new p2 (p1, i2, i2)
  variant_new p0, 1 (p2)
  iadd i1, i1, i2
test:
  ilt i3, i1, i0
  branch i3, next, end
end:
  ret (p0)
}

func "same" (t6) -> (t6)
  export (tree : Data "Tree" @d0) -> Data "Tree" @d0
  regs t6
{
  ret (p0)
}
"#;

fn function(name: &str) -> Function {
    let def = text::parse(PROGRAM, "tensors.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = Module::new(&Engine::default(), def).unwrap_or_else(|errors| panic!("{}", errors[0]));
    module.function(name).expect("the program has the function")
}

fn flat(name: &str) -> FlatFunction {
    function(name).flat().expect("it is flat")
}

fn ints(ns: &[i64]) -> FlatValue<'_> {
    ns.into()
}

fn reals(xs: &[f64]) -> FlatValue<'_> {
    xs.into()
}

/// What an error says.
fn refused<T: std::fmt::Debug>(name: &str, called: Result<T, RunError>) -> String {
    called.map(|value| panic!("{name} gives {value:?}")).unwrap_or_else(|error: RunError| error.to_string())
}

fn rows(rows: &[&[f64]]) -> Value {
    Value::Array(rows.iter().map(|&row| row.into()).collect())
}

#[test]
fn a_tensor_is_two_leaves() {
    let mixed = flat("mixed");
    let places = |leaves: &[dualvm_vm::flat::Leaf]| -> Vec<(String, LeafKind, usize, usize)> {
        leaves.iter().map(|leaf| (mixed.place(leaf), leaf.kind(), leaf.rank(), leaf.width())).collect()
    };
    let leaf = |place: &str, kind, rank, width| (place.to_owned(), kind, rank, width);
    let expected = [
        leaf("n", LeafKind::Int, 0, 1),
        leaf("pairs.shape", LeafKind::Shape, 2, 1),
        leaf("pairs", LeafKind::Reals, 2, 2),
        leaf("r.x", LeafKind::Real, 0, 1),
        leaf("r.t.shape", LeafKind::Shape, 3, 1),
        leaf("r.t", LeafKind::Ints, 3, 1),
        leaf("flags.shape", LeafKind::Shape, 2, 1),
        leaf("flags", LeafKind::Bools, 2, 1),
    ];
    assert_eq!(places(mixed.params()), expected);
    assert_eq!(
        places(mixed.results())[..2],
        [leaf("result.0.shape", LeafKind::Shape, 2, 1), leaf("result.0", LeafKind::Reals, 2, 2),]
    );
    assert_eq!(mixed.params()[1].ty().to_string(), "Matrix (Real, Real)");
    assert_eq!(mixed.params()[4].ty().to_string(), "Tensor3 Int");
    // A matrix of trees has no numbers.
    let error = function("same").flat().unwrap_err().to_string();
    assert!(error.contains("a matrix or a tensor of what an array may be of"), "{error}");
}

#[test]
fn what_goes_in_comes_out() {
    let (mixed, mut frame) = (flat("mixed"), CallFrame::new());
    for odd in [1.5, -0.0, f64::NAN, f64::INFINITY] {
        let pairs = [1.0, 2.0, 3.0, odd];
        let args = [
            7.into(),
            ints(&[2, 1]),
            reals(&pairs),
            0.5.into(),
            ints(&[1, 2, 3]),
            ints(&[1, 2, 3, 4, 5, 6]),
            ints(&[1, 3]),
            ints(&[1, 0, 1]),
        ];
        let results = mixed.call(&mut frame, &args).expect("these are its types");
        let found: Vec<FlatValue<'_>> = results.iter().collect();
        let bits = |xs: &[f64]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(found[1].as_reals().expect("reals")), bits(&pairs));
        assert_eq!(found[0], ints(&[2, 1]));
        assert_eq!(found[2..], [args[4], args[5], args[0], args[6], args[7], args[3]]);
    }
}

#[test]
fn extents_of_nothing_are_kept() {
    let (scaled, mut frame) = (flat("scaled"), CallFrame::new());
    for shape in [[0, 0], [3, 0], [0, 5], [0, i64::MAX]] {
        let args = [ints(&shape), reals(&[]), 2.0.into()];
        let results = scaled.call(&mut frame, &args).expect("no elements");
        assert_eq!(results.iter().collect::<Vec<_>>(), [ints(&shape), reals(&[])]);
        let (_, gradient) = scaled.vjp(&mut frame, &args, &[FlatValue::Null, reals(&[])]).expect("no elements");
        assert_eq!(gradient.iter().collect::<Vec<_>>(), [FlatValue::Null, reals(&[]), 0.0.into()]);
    }
}

#[test]
fn derivatives_are_those_of_calls_with_values() {
    let (inner, mut frame) = (flat("inner"), CallFrame::new());
    let (a, b) = ([1.0, -2.0, 0.5, 3.0, 1.0, 4.0], [2.0, 0.0, -1.0, 1.0, 0.25, 8.0]);
    let args = [ints(&[2, 3]), reals(&a), ints(&[2, 3]), reals(&b)];
    let (value, gradient) = inner.value_and_grad(&mut frame, &args).expect("it is real");
    assert_eq!(gradient.iter().collect::<Vec<_>>(), [FlatValue::Null, reals(&b), FlatValue::Null, reals(&a)]);
    let values = [rows(&[&a[..3], &a[3..]]), rows(&[&b[..3], &b[3..]])];
    let expected = function("inner").value_and_grad(&values).expect("it is real");
    assert_eq!(expected, (value, vec![values[1].clone(), values[0].clone()]));

    // One matrix as both arguments: by each of them alone.
    let args = [ints(&[3, 2]), reals(&a), ints(&[3, 2]), reals(&a)];
    let (_, gradient) = inner.value_and_grad(&mut frame, &args).expect("it is real");
    assert_eq!(gradient.reals(), [a, a].concat());

    let scaled = flat("scaled");
    let mut recorded = scaled.record(&mut frame, &[ints(&[2, 3]), reals(&a), 10.0.into()]).expect("it is flat");
    for weight in [1.0, -0.5] {
        let gradient = recorded.pullback(&[FlatValue::Null, reals(&b.map(|x| weight * x))]).expect("its cotangent");
        assert_eq!(gradient.get(0), Some(FlatValue::Null));
        assert_eq!(gradient.get(1), Some(reals(&b.map(|x| 10.0 * weight * x))));
        assert_eq!(gradient.get(2), Some((weight * value).into()));
    }
    let wrong = recorded.pullback(&[FlatValue::Null, reals(&a[..4])]).map(|_| ());
    assert_eq!(refused("scaled", wrong), "cotangent of result: expected 6 reals, found 4");
    let wrong = recorded.pullback(&[ints(&[2, 3]), reals(&a)]).map(|_| ());
    let expected = "cotangent of result.shape: expected null, because it is discrete, found 2 integers";
    assert_eq!(refused("scaled", wrong), expected);

    // With respect to one of two matrices.
    let by_b = function("inner").wrt(&["b"]).expect("it has the parameter").flat().expect("it is flat");
    let args = [ints(&[2, 3]), reals(&a), ints(&[2, 3]), reals(&b)];
    let (_, gradient) = by_b.value_and_grad(&mut frame, &args).expect("it is real");
    assert_eq!(gradient.iter().collect::<Vec<_>>()[1..], [FlatValue::Null, FlatValue::Null, reals(&a)]);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let (scaled, mut frame) = (flat("scaled"), CallFrame::new());
    let mut error = |shape: FlatValue<'_>, elements: FlatValue<'_>| {
        refused("scaled", scaled.call(&mut frame, &[shape, elements, 1.0.into()]).map(|_| ()))
    };
    let xs = reals(&[1.0, 2.0, 3.0]);
    let expected = "argument m: expected Matrix Real, found 3 reals, for the shape 2 × 2";
    assert_eq!(error(ints(&[2, 2]), xs), expected);
    let expected = "argument m: expected Matrix Real, found 1 real, for the shape 0 × 1";
    assert_eq!(error(ints(&[0, 1]), reals(&[1.0])), expected);
    let expected = format!("argument m: expected Matrix Real, found 0 reals, for the shape {0} × {0}", i64::MAX);
    assert_eq!(error(ints(&[i64::MAX, i64::MAX]), reals(&[])), expected);
    let expected = "argument m.shape: expected Matrix Real, found the shape -1 × -3";
    assert_eq!(error(ints(&[-1, -3]), xs), expected);
    let expected = "argument m.shape: expected Matrix Real, found a shape of 1 dimension";
    assert_eq!(error(ints(&[3]), xs), expected);
    let expected = "argument m.shape: expected Matrix Real, found 3 reals in the place of its shape";
    assert_eq!(error(xs, ints(&[1, 3])), expected);
    let expected = "argument m: expected Matrix Real, found 3 integers";
    assert_eq!(error(ints(&[1, 3]), ints(&[1, 2, 3])), expected);

    let mixed = flat("mixed");
    let mut error = |pairs: &[f64], flags: &[i64]| {
        let (shape, flags) = (ints(&[1, 2]), ints(flags));
        let args = [0.into(), shape, reals(pairs), 0.0.into(), ints(&[0, 0, 0]), ints(&[]), shape, flags];
        refused("mixed", mixed.call(&mut frame, &args).map(|_| ()))
    };
    let expected = "argument pairs: expected Matrix (Real, Real), found 2 reals, 2 to an element, for the shape 1 × 2";
    assert_eq!(error(&[1.0, 2.0], &[0, 1]), expected);
    let expected = "argument flags[1]: expected Bool, found an integer (2)";
    assert_eq!(error(&[1.0, 2.0, 3.0, 4.0], &[0, 2]), expected);
}

#[test]
fn results_whose_shape_is_not_theirs_are_errors() {
    let (shaped, mut frame) = (flat("shaped"), CallFrame::new());
    let xs = [1.0, 2.0];
    let mut call = |m: i64, n: i64| {
        let results = shaped.call(&mut frame, &[reals(&xs), m.into(), n.into()])?;
        Ok::<_, RunError>(format!("{:?}", results.iter().collect::<Vec<_>>()))
    };
    assert_eq!(call(2, 1).expect("two elements"), "[Ints([2, 1]), Reals([1.0, 2.0])]");
    for (m, n) in [(2, 2), (0, 7), (-1, -2), (i64::MAX, 2), (i64::MIN, i64::MIN)] {
        let expected = format!("a tensor in the result of `shaped` is of shape {m} × {n} and has 2 elements");
        assert_eq!(refused("shaped", call(m, n)), expected);
        let values = [Value::Reals(xs.to_vec()), m.into(), n.into()];
        assert_eq!(refused("shaped", function("shaped").call(&values)), expected);
    }
    // What is left of a call that has failed is nothing.
    assert!(frame.results().is_none());
}

#[test]
fn each_dimension_is_a_step_into_a_value() {
    // A tree is three steps inside the one around it: the field, the row and the element.
    let levels = VALUE_DEPTH_MAX / 3;
    let deep = function("grown").call(&[(levels as i64).into()]).expect("it is not too deep");
    assert_eq!(function("same").call(std::slice::from_ref(&deep)).expect("it is not too deep"), deep);
    let error = function("grown").call(&[(levels as i64 + 1).into()]).unwrap_err();
    assert!(matches!(error, RunError::ResultDepth { .. }), "{error}");
    let deeper = Value::variant("Node", Value::Tuple(vec![Value::Array(vec![Value::Array(vec![deep])])]));
    match function("same").call(&[deeper]) {
        Err(RunError::Argument(ArgumentError::Depth { .. })) => {}
        other => panic!("{other:?}"),
    }
}
