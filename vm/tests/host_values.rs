//! Lists and data types on their way between host and program: arguments, results, gradients, and what is refused.

mod support;

use dualvm_vm::engine::{CallOptions, Engine, Function, Limits, Module, RunError};
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::{ArgumentError, VALUE_DEPTH_MAX, Value};
use support::read;

/// Identity functions over many types, folds, and functions that make deep and shared results.
const PROGRAM: &str = r#"
type t0 = variant { Nil {}, Cons { real, t0 } }
type t1 = variant { Nil {}, Cons { t0, t1 } }
type t2 = variant { Nil {}, Cons { real, int, t2 } }
type t3 = variant { Circle { real }, Rect { real, real }, Point {} }
type t4 = array t3
type t5 = variant { Num { real }, Add { t5, t5 }, Mul { t5, t5 }, Neg { t5 } }
type t6 = variant { Leaf { int }, Node { t7, real } }
type t7 = variant { Empty {}, Trees { t6, t7 } }
type t8 = variant { Nil {}, Cons { t3, t8 } }
type t9 = variant { Scene { t8, int, t4 } }
type t10 = variant { Nil {}, Cons { t10 } }
type t11 = array t0
type t12 = struct { t0, t3 }
type t13 = array t12
data d0 "Shape Real" t3 = Circle (Real) | Rect { width : Real, height : Real } | Point ()
data d1 "Expr" t5 = Num (Real) | Add { left : Data "Expr" @d1, right : Data "Expr" @d1 } | Mul (Data "Expr" @d1, Data "Expr" @d1) | Neg (Data "Expr" @d1)
data d2 "Tree" t6 = Leaf (Int) | Node { children : Data "Forest" @d3, weight : Real }
data d3 "Forest" t7 = Empty () | Trees (Data "Tree" @d2, Data "Forest" @d3)
data d4 "Scene" t9 = Scene { shapes : List (Data "Shape Real" @d0) @t8, visible : Bool, row : Array (Data "Shape Real" @d0) @t4 }

func "reals" (t0) -> (t0)
  export (xs : List Real @t0) -> List Real @t0
  regs t0
{
  ret (p0)
}
func "lists" (t1) -> (t1)
  export (xs : List (List Real @t0) @t1) -> List (List Real @t0) @t1
  regs t1
{
  ret (p0)
}
func "pairs" (t2) -> (t2)
  export (xs : List (Real, Bool) @t2) -> List { re : Real, flag : Int } @t2
  regs t2
{
  ret (p0)
}
func "units" (t10) -> (t10)
  export (xs : List () @t10) -> List () @t10
  regs t10
{
  ret (p0)
}
func "shapes" (t4) -> (t4)
  export (shapes : Array (Data "Shape Real" @d0) @t4) -> Array (Data "Shape Real" @d0) @t4
  regs t4
{
  ret (p0)
}
func "rows" (t11, t13) -> (t11, t13)
  export (rows : Array (List Real @t0) @t11, both : Array (List Real @t0, Data "Shape Real" @d0) @t13)
    -> (Array (List Real @t0) @t11, Array (List Real @t0, Data "Shape Real" @d0) @t13)
  regs t11, t13
{
  ret (p0, p1)
}
func "scene" (int, t9) -> (t9, int)
  export (first : { n : Int, scene : Data "Scene" @d4 }) -> (Data "Scene" @d4, Int)
  regs 1 int, t9
{
  ret (p0, i0)
}
func "tree" (t6) -> (t6)
  export (tree : Data "Tree" @d2) -> Data "Tree" @d2
  regs t6
{
  ret (p0)
}
func "expr" (t5) -> (t5)
  export (e : Data "Expr" @d1) -> Data "Expr" @d1
  regs t5
{
  ret (p0)
}

; The sum of w · x² over a list of pairs, pairs without the flag left out.
func "weighted" (t2, real) -> (real)
  export (xs : List (Real, Bool) @t2, w : Real) -> Real
  regs 3 real, 1 int, t2
{
  const r1, 0
next:
  variant_tag i0, p0
  branch i0, cons, nil
cons:
  ipayload i0, p0, 1, 1
  branch i0, take, rest
take:
  payload r2, p0, 1, 0
  mul r2, r2, r2
  fma r1, r0, r2, r1
rest:
  ppayload p0, p0, 1, 2
  jump next
nil:
  ret (r1)
}
; The sum of x².
func "squares" (t0) -> (real)
  export (xs : List Real @t0) -> Real
  regs 2 real, 1 int, t0
{
  const r0, 0
next:
  variant_tag i0, p0
  branch i0, cons, nil
cons:
  payload r1, p0, 1, 0
  fma r0, r1, r1, r0
  ppayload p0, p0, 1, 1
  jump next
nil:
  ret (r0)
}
func "eval" (t5) -> (real)
  export (e : Data "Expr" @d1) -> Real
  regs 2 real, 1 int, t5, t5
{
  variant_tag i0, p0
  switch i0, [num, plus, times], minus
num:
  payload r0, p0, 0, 0
  ret (r0)
plus:
  ppayload p1, p0, 1, 0
  call "eval" (p1) -> (r0)
  ppayload p1, p0, 1, 1
  call "eval" (p1) -> (r1)
  add r0, r0, r1
  ret (r0)
times:
  ppayload p1, p0, 2, 0
  call "eval" (p1) -> (r0)
  ppayload p1, p0, 2, 1
  call "eval" (p1) -> (r1)
  mul r0, r0, r1
  ret (r0)
minus:
  ppayload p1, p0, 3, 0
  call "eval" (p1) -> (r0)
  neg r0, r0
  ret (r0)
}
; A number under n negations.
func "deep" (int, real) -> (t5)
  export (n : Int, x : Real) -> Data "Expr" @d1
  regs 1 real, 2 int, t5
{
  variant_new p0, 0 (r0)
  iconst i1, -1
next:
  branch i0, more, done
more:
  variant_new p0, 3 (p0)
  iadd i0, i0, i1
  jump next
done:
  ret (p0)
}
; A number added to itself, that added to itself, and so on n times: n + 1 objects, 2ⁿ⁺¹ - 1 values.
func "shared" (int, real) -> (t5)
  export (n : Int, x : Real) -> Data "Expr" @d1
  regs 1 real, 2 int, t5
{
  variant_new p0, 0 (r0)
  iconst i1, -1
next:
  branch i0, more, done
more:
  variant_new p0, 1 (p0, p0)
  iadd i0, i0, i1
  jump next
done:
  ret (p0)
}
; The area of a shape, and of the shapes in a scene.
func "area" (t3) -> (real)
  export (shape : Data "Shape Real" @d0) -> Real
  regs 2 real, 1 int, t3
{
  variant_tag i0, p0
  switch i0, [circle, rect], point
circle:
  payload r0, p0, 0, 0
  mul r0, r0, r0
  const r1, 3
  mul r0, r0, r1
  ret (r0)
rect:
  payload r0, p0, 1, 0
  payload r1, p0, 1, 1
  mul r0, r0, r1
  ret (r0)
point:
  const r0, 0
  ret (r0)
}
func "scene_area" (real, t9, real) -> (real)
  export (before : Real, scene : Data "Scene" @d4, after : Real) -> Real
  regs 4 real, 3 int, t9, t8, t4, t3
{
  mul r2, r0, r1
  ppayload p1, p0, 0, 0
next:
  variant_tag i0, p1
  branch i0, cons, nil
cons:
  ppayload p3, p1, 1, 0
  call "area" (p3) -> (r3)
  add r2, r2, r3
  ppayload p1, p1, 1, 1
  jump next
nil:
  ppayload p2, p0, 0, 2
  len i0, p2
  iconst i1, 0
  iconst i2, 1
again:
  ilt i0, i1, i0
  branch i0, item, end
item:
  pelem p3, p2, i1
  call "area" (p3) -> (r3)
  fma r2, r3, r1, r2
  iadd i1, i1, i2
  len i0, p2
  jump again
end:
  ret (r2)
}
"#;

fn function(name: &str) -> Function {
    let module = Module::new(&Engine::default(), read(PROGRAM)).unwrap_or_else(|errors| panic!("{}", errors[0]));
    module.function(name).expect("the program has the function")
}

fn real(x: f64) -> Value {
    Value::Real(x)
}

fn tuple<const N: usize>(parts: [Value; N]) -> Value {
    Value::Tuple(parts.into())
}

fn record<const N: usize>(parts: [(&str, Value); N]) -> Value {
    Value::Record(parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn con<const N: usize>(name: &str, parts: [Value; N]) -> Value {
    Value::variant(name, tuple(parts))
}

fn num(x: f64) -> Value {
    con("Num", [real(x)])
}

fn add(left: Value, right: Value) -> Value {
    Value::variant("Add", record([("left", left), ("right", right)]))
}

fn rect(width: f64, height: f64) -> Value {
    Value::variant("Rect", record([("width", real(width)), ("height", real(height))]))
}

/// A number under negations, `steps` parts deep.
fn chain(steps: usize) -> Value {
    (1..steps).fold(num(2.0), |inner, _| con("Neg", [inner]))
}

#[track_caller]
fn assert_round_trip(name: &str, value: Value) {
    assert_eq!(function(name).call(std::slice::from_ref(&value)), Ok(value));
}

#[test]
fn lists_come_back_as_they_went() {
    assert_round_trip("reals", Value::Reals(vec![]));
    assert_round_trip("reals", Value::Reals(vec![1.0, -0.5, f64::INFINITY]));
    assert_round_trip("lists", Value::Array(vec![]));
    assert_round_trip("lists", Value::Array(vec![vec![].into(), vec![1.0, 2.0].into(), vec![3.0].into()]));
    assert_round_trip("units", Value::Array(vec![Value::UNIT; 3]));
}

#[test]
fn a_list_may_be_written_in_other_ways_than_it_is_read() {
    let reals = function("reals");
    assert_eq!(reals.call(&[Value::Array(vec![])]), Ok(Value::Reals(vec![])));
    assert_eq!(reals.call(&[Value::Array(vec![real(1.5), Value::Int(2)])]), Ok(Value::Reals(vec![1.5, 2.0])));
    let pairs = function("pairs");
    assert_eq!(pairs.call(&[Value::Reals(vec![])]), Ok(Value::Array(vec![])));
    let rows = Value::Array(vec![tuple([real(1.0), true.into()]), tuple([real(2.0), false.into()])]);
    let back = |re: f64, flag: i64| record([("re", real(re)), ("flag", flag.into())]);
    assert_eq!(pairs.call(&[rows]), Ok(Value::Array(vec![back(1.0, 1), back(2.0, 0)])));
}

#[test]
fn data_values_come_back_as_they_went() {
    let shapes = || vec![con("Circle", [real(1.5)]), rect(1.0, 2.0), con("Point", [])];
    assert_round_trip("shapes", Value::Array(shapes()));
    assert_round_trip("expr", add(num(1.0), con("Mul", [num(2.0), con("Neg", [num(3.0)])])));
    let leaf = |n: i64| con("Leaf", [n.into()]);
    let empty = || con("Empty", []);
    let node = |children: Value| Value::variant("Node", record([("children", children), ("weight", real(0.5))]));
    let forest = con("Trees", [leaf(1), con("Trees", [node(empty()), con("Trees", [leaf(-3), empty()])])]);
    assert_round_trip("tree", node(forest));
    let fields =
        [("shapes", Value::Array(shapes())), ("visible", true.into()), ("row", Value::Array(vec![rect(3.0, 4.0)]))];
    let scene = Value::variant("Scene", record(fields));
    let argument = record([("scene", scene.clone()), ("n", Value::Int(7))]);
    assert_eq!(function("scene").call(&[argument]), Ok(tuple([scene, Value::Int(7)])));
    let lists = Value::Array(vec![vec![].into(), vec![1.0, 2.0].into()]);
    let both = Value::Array(vec![tuple([vec![3.0].into(), rect(1.0, 1.0)]), tuple([vec![].into(), con("Point", [])])]);
    assert_eq!(function("rows").call(&[lists.clone(), both.clone()]), Ok(tuple([lists, both])));
}

#[test]
fn a_million_cells_go_both_ways_and_have_a_gradient() {
    let count = 1_000_000;
    let xs: Vec<f64> = (0..count).map(f64::from).collect();
    assert_round_trip("reals", Value::Reals(xs.clone()));
    let (_, gradient) = function("squares").value_and_grad(&[xs.clone().into()]).expect("the list is finite");
    assert_eq!(gradient, [Value::Reals(xs.iter().map(|x| 2.0 * x).collect())]);
    let pairs = Value::Array((0..count).map(|n| tuple([real(f64::from(n)), (n % 2 == 0).into()])).collect());
    let (value, gradient) = function("weighted").value_and_grad(&[pairs, real(1.0)]).expect("the list is finite");
    // The sweep adds in another order than the run.
    let weight_adj = gradient[1].as_real().expect("the weight is a real");
    assert!((weight_adj / value - 1.0).abs() < 1e-9, "{weight_adj} {value}");
    let Value::Array(items) = &gradient[0] else { panic!("{:?}", gradient[0]) };
    assert_eq!(items.len(), xs.len());
    let part = |x: f64| tuple([real(x), Value::Null]);
    assert_eq!(items[999_997..], [part(0.0), part(1_999_996.0), part(0.0)]);
}

#[test]
fn a_fold_over_a_list_has_the_gradient_of_its_elements() {
    let weighted = function("weighted");
    let item = |x: f64, taken: bool| tuple([real(x), taken.into()]);
    let xs = Value::Array(vec![item(1.0, true), item(2.0, false), item(3.0, true)]);
    let (value, gradient) = weighted.value_and_grad(&[xs, real(0.5)]).expect("the list is finite");
    assert_eq!(value, 5.0);
    let part = |x: f64| tuple([real(x), Value::Null]);
    assert_eq!(gradient, [Value::Array(vec![part(1.0), part(0.0), part(3.0)]), real(10.0)]);
    let empty = weighted.value_and_grad(&[Value::Array(vec![]), real(2.0)]);
    assert_eq!(empty, Ok((0.0, vec![Value::Array(vec![]), real(0.0)])));
}

#[test]
fn a_fold_over_an_expression_has_the_gradient_of_its_numbers() {
    // (2 + 3) · -(4 · 5)
    let e = con("Mul", [add(num(2.0), num(3.0)), con("Neg", [con("Mul", [num(4.0), num(5.0)])])]);
    let expected = con("Mul", [add(num(-20.0), num(-20.0)), con("Neg", [con("Mul", [num(-25.0), num(-20.0)])])]);
    assert_eq!(function("eval").value_and_grad(&[e]), Ok((-100.0, vec![expected])));
}

#[test]
fn slots_of_arguments_stand_in_order_across_lists_arrays_and_data() {
    let circle = |x: f64| con("Circle", [real(x)]);
    let point = || con("Point", []);
    let scene = |shapes: Vec<Value>, visible: Value, row: Vec<Value>| {
        // Fields in another order than the type's.
        let mut fields = vec![("row", Value::Array(row)), ("visible", visible), ("shapes", Value::Array(shapes))];
        if fields[1].1 == Value::Null {
            fields.reverse();
        }
        Value::variant("Scene", Value::Record(fields.into_iter().map(|(name, part)| (name.into(), part)).collect()))
    };
    let argument = scene(vec![circle(1.0), rect(2.0, 3.0)], true.into(), vec![point(), rect(4.0, 5.0), circle(6.0)]);
    let result = function("scene_area").value_and_grad(&[real(7.0), argument, real(10.0)]);
    let (value, gradient) = result.expect("the scene is finite");
    assert_eq!(value, 70.0 + 3.0 + 6.0 + 10.0 * (20.0 + 108.0));
    let parts = scene(vec![circle(6.0), rect(3.0, 2.0)], Value::Null, vec![point(), rect(50.0, 40.0), circle(360.0)]);
    assert_eq!(gradient, [real(10.0), parts, real(7.0 + 128.0)]);
}

#[test]
fn arguments_at_the_depth_limit_are_taken_and_above_it_refused() {
    let (expr, eval) = (function("expr"), function("eval"));
    let deepest = chain(VALUE_DEPTH_MAX);
    assert_eq!(expr.call(std::slice::from_ref(&deepest)), Ok(deepest.clone()));
    let (value, gradient) = eval.value_and_grad(&[deepest]).expect("the value is in the limit");
    assert_eq!((value, gradient[0] == chain(VALUE_DEPTH_MAX)), (-2.0, false));
    for function in [expr, eval] {
        let error = function.call(&[chain(VALUE_DEPTH_MAX + 1)]).unwrap_err();
        assert_eq!(error, RunError::Argument(ArgumentError::Depth { parameter: "e".into() }));
        assert_eq!(error.to_string(), "argument e: expected at most 640 levels of nesting, found more");
    }
}

#[test]
fn results_at_the_depth_limit_are_given_and_above_it_refused() {
    let deep = function("deep");
    let most = VALUE_DEPTH_MAX as i64 - 1;
    assert_eq!(deep.call(&[Value::Int(most), real(2.0)]), Ok(chain(VALUE_DEPTH_MAX)));
    for negations in [most + 1, 1_000_000] {
        let error = deep.call(&[Value::Int(negations), real(2.0)]).unwrap_err();
        assert_eq!(error, RunError::ResultDepth { function: "deep".into() });
        let message = "the result of `deep` nests more than 640 levels deep, the most that a host value may \
                       (a list is one level, however long it is)";
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn values_of_the_greatest_depth_take_about_half_of_a_stack_of_2_mib() {
    let run = || {
        let records = (0..VALUE_DEPTH_MAX - 1).fold(num(1.0), |inner, _| add(num(0.0), inner));
        for value in [chain(VALUE_DEPTH_MAX), records] {
            let copy = function("expr").call(std::slice::from_ref(&value)).expect("the value is in the limit");
            assert!(copy == value);
            assert!(function("eval").value_and_grad(std::slice::from_ref(&copy)).is_ok());
            assert!(copy.clone().to_string().len() > VALUE_DEPTH_MAX);
            assert!(format!("{value:?}").len() > VALUE_DEPTH_MAX);
        }
    };
    let thread = std::thread::Builder::new().stack_size(5 << 18).spawn(run).expect("a thread starts");
    assert!(thread.join().is_ok());
}

#[test]
fn a_result_whose_sharing_makes_it_huge_is_a_limit_and_not_the_end_of_the_host() {
    let shared = function("shared");
    let limits = Limits { live_bytes: 16 << 20, ..Limits::default() };
    let options = CallOptions::with_limits(limits);
    assert!(shared.call_with(&[Value::Int(10), real(1.0)], &options).is_ok());
    let Err(RunError::Trap(trap)) = shared.call_with(&[Value::Int(600), real(1.0)], &options) else {
        panic!("a value of 2⁶⁰⁰ numbers was made");
    };
    assert_eq!(trap.kind, TrapKind::Limit(Limit::LiveBytes));
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let circle = || con("Circle", [real(1.0)]);
    let shapes = |shape: Value| Value::Array(vec![circle(), circle(), shape]);
    let bad_rect = Value::variant("Rect", record([("width", true.into()), ("height", real(1.0))]));
    let misspelt = Value::variant("Rect", record([("width", real(1.0)), ("heigth", real(1.0))]));
    let thin = Value::variant("Rect", record([("width", real(1.0))]));
    let product = |factor: Value| add(con("Neg", [con("Mul", [num(1.0), factor])]), num(2.0));
    let cases = [
        (
            "shapes",
            shapes(con("Sqare", [])),
            "argument shapes[2]: no constructor `Sqare` in `Shape Real`; it has Circle, Rect, Point",
        ),
        (
            "shapes",
            shapes(con("Circel", [])),
            "argument shapes[2]: no constructor `Circel` in `Shape Real`; it has Circle, Rect, Point \
             (did you mean `Circle`?)",
        ),
        ("shapes", shapes(bad_rect), "argument shapes[2].width: expected Real, found a boolean (true)"),
        ("shapes", shapes(misspelt), "argument shapes[2].height: expected Real, found no such field"),
        (
            "shapes",
            shapes(thin),
            "argument shapes[2]: `Rect` takes { width : Real, height : Real }, found a record of width",
        ),
        ("shapes", shapes(con("Circle", [])), "argument shapes[2]: `Circle` takes (Real), found unit"),
        (
            "shapes",
            shapes(Value::variant("Circle", real(1.0))),
            "argument shapes[2]: `Circle` takes (Real), found a real (1.0)",
        ),
        ("shapes", shapes(con("Point", [real(1.0)])), "argument shapes[2]: `Point` takes (), found a tuple of 1 part"),
        ("shapes", shapes(real(1.0)), "argument shapes[2]: expected Shape Real, found a real (1.0)"),
        ("shapes", circle(), "argument shapes: expected Array (Shape Real), found constructor `Circle`"),
        ("expr", product(Value::Null), "argument e.left.0.1: expected Expr, found null"),
        ("expr", product(con("Num", [vec![1.0].into()])), "argument e.left.0.1.0: expected Real, found an array"),
        ("reals", Value::Array(vec![real(1.0), circle()]), "argument xs[1]: expected Real, found constructor `Circle`"),
        ("reals", real(1.0), "argument xs: expected List Real, found a real (1.0)"),
        ("lists", Value::Reals(vec![1.0]), "argument xs: expected List (List Real), found an array"),
        (
            "pairs",
            Value::Array(vec![tuple([real(1.0)])]),
            "argument xs[0]: expected (Real, Bool), found a tuple of 1 part",
        ),
    ];
    for (name, value, message) in cases {
        let error = function(name).call(&[value]).expect_err(message);
        assert!(matches!(error, RunError::Argument(_)));
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn values_print_as_the_language_writes_them() {
    let cases = [
        (con("Circle", [real(1.5)]), "Circle 1.5"),
        (con("Circle", [real(-1.5)]), "Circle (-1.5)"),
        (con("Nil", []), "Nil"),
        (rect(1.0, 2.0), "Rect { width = 1.0, height = 2.0 }"),
        (con("Mul", [num(1.0), con("Nil", [])]), "Mul (Num 1.0) Nil"),
        (con("Both", [tuple([real(1.0), num(2.0)]), Value::Int(-3)]), "Both (1.0, Num 2.0) (-3)"),
        (con("Some", [rect(1.0, 2.0)]), "Some (Rect { width = 1.0, height = 2.0 })"),
        (con("Rows", [vec![1.0, -2.0].into()]), "Rows [1.0, -2.0]"),
        (con("Node", [con("Leaf", [Value::Null])]), "Node (Leaf null)"),
        (Value::variant("Odd", real(1.0)), "Odd 1.0"),
        (record([]), "{}"),
    ];
    for (value, text) in cases {
        assert_eq!(value.to_string(), text);
    }
    assert_eq!(con("Nil", []).kind(), "a data value");
}
