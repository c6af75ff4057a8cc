//! The example programs of the papers, with functions and data types: their values and gradients are those of an
//! independent implementation (`tests/oracles/programs.json`), and their loops are those that one would write by hand.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::module::{Function, ModuleDef};
use dualvm_vm::value::Value;

const LISTS: &str = "def my_map g xs = match xs with | [] -> [] | x :: rest -> g x :: my_map g rest
def my_sum xs = match xs with | [] -> 0 | x :: rest -> x + my_sum rest
def my_zip_with g xs ys = match (xs, ys) with | (x :: xs, y :: ys) -> g x y :: my_zip_with g xs ys | _ -> []
def my_fold g init xs = match xs with | [] -> init | x :: rest -> my_fold g (g init x) rest
";

const PARTICLES: &str = "alias Pair = (Real, Real)
def add2 ((a, b) : Pair) ((c, d) : Pair) : Pair = (a + c, b + d)
def scale (k : Real) ((a, b) : Pair) : Pair = (k * a, k * b)
def step (force : Pair -> Pair) (friction : Pair -> Pair) (p : Pair) (v : Pair) : (Pair, Pair) =
  let (mass, dt) = (1.0, 0.05) in
  let a = scale (1 / mass) (add2 (force p) (friction v)) in
  (add2 p (scale dt v), add2 v (scale dt a))
def simulate (n : Int) (p : Pair) (v : Pair) : Real =
  let ((px, py), _) = loop (p, v) = (p, v) for i < n do step (scale (-0.5)) (scale (-0.2)) p v in
  px * py
def particles (n : Int) (ps : List (Pair, Pair)) : Real = my_sum (my_map (\\(p, v) -> simulate n p v) ps)
";

const ROTATE: &str = "alias Vec3 = (Real, Real, Real)
def dot3 ((a, b, c) : Vec3) ((d, e, f) : Vec3) : Real = a * d + b * e + c * f
def cross ((a, b, c) : Vec3) ((d, e, f) : Vec3) : Vec3 = (b * f - c * e, c * d - a * f, a * e - b * d)
def scale (k : Real) ((a, b, c) : Vec3) : Vec3 = (k * a, k * b, k * c)
def add3 ((a, b, c) : Vec3) ((d, e, f) : Vec3) : Vec3 = (a + d, b + e, c + f)
def rotate (v : Vec3) (q : { x : Real, y : Real, z : Real, w : Real }) : Vec3 =
  let u = (q.x, q.y, q.z) in
  add3 (add3 (scale (2 * dot3 u v) u) (scale (q.w * q.w - dot3 u u) v)) (scale (2 * q.w) (cross u v))
";

fn definition(text: &str) -> ModuleDef {
    compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn function(text: &str, name: &str) -> Function {
    definition(text).function(name).expect("the program defines it").1.clone()
}

fn module(text: &str) -> Module {
    Module::new(&Engine::new(Config::default()), definition(text)).expect("what is compiled is verified")
}

fn count(code: &[Inst], op: Op) -> usize {
    code.iter().filter(|inst| inst.op == op).count()
}

/// The instructions from the target of the function's last backward branch to that branch.
fn loop_body(function: &Function) -> &[Inst] {
    let code = &function.body.code;
    let is_back = |at: &usize| matches!(code[*at].op, Op::Branch | Op::Jump) && (code[*at].low() as usize) <= *at;
    let end = (0..code.len()).rev().find(is_back).expect("the function has a loop");
    &code[code[end].low() as usize..=end]
}

const HEAP: [Op; 4] = [Op::ClosureNew, Op::VariantNew, Op::StructNew, Op::Pack];
const CALLS: [Op; 4] = [Op::Call, Op::TailCall, Op::CallClosure, Op::TailCallClosure];

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-10 * expected.abs().max(1e-300), "{found} is not {expected}");
}

fn tuple(values: &[f64]) -> Value {
    Value::Tuple(values.iter().map(|&x| Value::Real(x)).collect())
}

#[test]
fn particles_have_the_value_and_gradient_of_the_reference() {
    let text = format!("{LISTS}{PARTICLES}");
    let particle = |i: f64| Value::Tuple(vec![tuple(&[0.5 * i, 0.1]), tuple(&[1.0, 1.0])]);
    let list = Value::Array((1..=4).map(|i| particle(f64::from(i))).collect());
    let function = module(&text).function("particles").unwrap();
    for (n, expected) in [(10, 3.7381040176478475), (100, 1.8063056402697404), (1000, 0.0010676233512900797)] {
        assert_close(function.call(&[Value::Int(n), list.clone()]).unwrap().as_real().unwrap(), expected);
    }
    let (_, gradient) = function.value_and_grad(&[Value::Int(1000), list]).unwrap();
    let Value::Array(gradient) = &gradient[1] else { panic!("a list's gradient is a list: {gradient:?}") };
    let Value::Tuple(first) = &gradient[0] else { panic!("a pair's gradient is a pair: {gradient:?}") };
    let (Value::Tuple(p), Value::Tuple(v)) = (&first[0], &first[1]) else { panic!("{first:?}") };
    let expected = [1.2431228919874122e-4, 1.7418386977980952e-4, 1.1151547632409458e-4, 1.5625323394548334e-4];
    for (found, expected) in p.iter().chain(v).zip(expected) {
        assert_close(found.as_real().unwrap(), expected);
    }
}

#[test]
fn a_particle_is_one_loop_over_registers() {
    let simulate = function(&format!("{LISTS}{PARTICLES}"), "simulate");
    let body = loop_body(&simulate);
    for op in HEAP.into_iter().chain(CALLS).chain([Op::Mov, Op::IMov, Op::PMov, Op::Const, Op::IConst, Op::Jump]) {
        assert_eq!(count(body, op), 0, "{op:?}");
    }
    // Eight products, six sums; counting and the test.
    assert_eq!(body.len(), 8 + 6 + 3);
    let module = definition(&format!("{LISTS}{PARTICLES}"));
    for function in &module.functions {
        for op in [Op::ClosureNew, Op::CallClosure, Op::TailCallClosure] {
            assert_eq!(count(&function.body.code, op), 0, "{op:?} in {}", function.name);
        }
    }
}

#[test]
fn rotation_is_straight_line_code() {
    let rotate = function(ROTATE, "rotate");
    for op in HEAP.into_iter().chain(CALLS).chain([Op::Branch, Op::Jump, Op::Mov]) {
        assert_eq!(count(&rotate.body.code, op), 0, "{op:?}");
    }
    let q = ["w", "x", "y", "z"].into_iter().zip([7.0, 4.0, 5.0, 6.0]);
    let q = Value::Record(q.map(|(name, x)| (name.to_owned(), Value::Real(x))).collect());
    let found = module(ROTATE).function("rotate").unwrap().call(&[tuple(&[1.0, 2.0, 3.0]), q]).unwrap();
    assert_eq!(found, tuple(&[270.0, 180.0, 342.0]));
}

#[test]
fn products_of_lists_have_the_gradients_of_the_reference() {
    let text = format!(
        "{LISTS}def dot (a : List Real) (b : List Real) : Real = my_sum (my_zip_with (*) a b)
        def sum_mat_vec (m : List (List Real)) (v : List Real) : Real =
          my_sum (my_map (\\row -> my_sum (my_zip_with (*) row v)) m)"
    );
    let a: Vec<f64> = (1..=16).map(f64::from).collect();
    let b: Vec<f64> = (1..=16).map(|i| f64::from(2 * i + 1)).collect();
    let args = [Value::Reals(a.clone()), Value::Reals(b.clone())];
    let (value, gradient) = module(&text).function("dot").unwrap().value_and_grad(&args).unwrap();
    assert_eq!((value, gradient), (3128.0, vec![Value::Reals(b), Value::Reals(a)]));
    let row = |i: i32| Value::Reals((1..=5).map(|j| f64::from(5 * i + j)).collect());
    let v = vec![3.0, 5.0, 7.0, 9.0, 11.0];
    let args = [Value::Array((0..5).map(row).collect()), Value::Reals(v.clone())];
    let (value, gradient) = module(&text).function("sum_mat_vec").unwrap().value_and_grad(&args).unwrap();
    assert_eq!(value, 2375.0);
    assert_eq!(gradient[0], Value::Array(vec![Value::Reals(v); 5]));
    assert_eq!(gradient[1], Value::Reals(vec![55.0, 60.0, 65.0, 70.0, 75.0]));
}

#[test]
fn an_expression_tree_is_differentiated_with_respect_to_its_leaves() {
    let text = "type Function = Sin | Exp | Log | Sqrt
    type Expr = Leaf Real | Add Expr Expr | Mul Expr Expr | Apply Function Expr
    def call (f : Function) (x : Real) : Real =
      match f with | Sin -> sin x | Exp -> exp x | Log -> log x | Sqrt -> sqrt x
    def expression (e : Expr) : Real = match e with
      | Leaf x -> x | Add a b -> expression a + expression b | Mul a b -> expression a * expression b
      | Apply f a -> call f (expression a)";
    let leaf = |x| Value::variant("Leaf", Value::Tuple(vec![Value::Real(x)]));
    let node = |name: &str, parts: [Value; 2]| Value::variant(name, Value::Tuple(parts.to_vec()));
    let tree = |a, b, c| {
        let sine = node("Apply", [Value::variant("Sin", Value::UNIT), leaf(c)]);
        node("Mul", [leaf(a), node("Add", [leaf(b), sine])])
    };
    let function = module(text).function("expression").unwrap();
    let (value, gradient) = function.value_and_grad(&[tree(3.0, 4.0, 1.0)]).unwrap();
    assert_close(value, 3.0 * (4.0 + 1f64.sin()));
    assert_eq!(gradient[0].to_string(), tree(4.0 + 1f64.sin(), 3.0, 3.0 * 1f64.cos()).to_string());
}

#[test]
fn branches_in_loops_are_selections_and_invariants_are_outside() {
    let text = "def relu x = if x >= 0 then x else 0
    def f (k : Real) (xs : Array Real) : Real = loop acc = 0.0 for x in xs do acc + relu (x * sqrt k)";
    let f = function(text, "f");
    let body = loop_body(&f);
    assert_eq!((count(body, Op::Select), count(body, Op::Branch), count(body, Op::Sqrt)), (1, 1, 0));
    let args = [Value::Real(0.0), Value::Reals(vec![1.0, -1.0])];
    let (value, gradient) = module(text).function("f").unwrap().value_and_grad(&args).unwrap();
    assert_eq!(value, 0.0);
    assert_eq!(gradient[1], Value::Reals(vec![0.0, 0.0]));
    // Division of integers and reads of arrays can trap: they stay behind their condition and in their loop.
    let trapping = "def f (n : Int) (xs : Array Real) : Real =
      loop acc = 0.0 for i < n do if n > 5 then acc + xs[7] else acc + to_real (i / n)";
    let body = function(trapping, "f");
    let body = loop_body(&body);
    assert_eq!((count(body, Op::Elem), count(body, Op::IDiv)), (1, 1));
}
