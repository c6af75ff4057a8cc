//! What the generated code looks like: which instructions are in it, how often, and where.

use dualvm_frontend::compile;
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::module::{Function, ModuleDef};

fn module(text: &str) -> ModuleDef {
    let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(dualvm_vm::verify::verify(&module).is_ok());
    module
}

fn function(text: &str, name: &str) -> Function {
    module(text).function(name).expect("the program defines the function").1.clone()
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

const SPRING: &str = "def step (k : Real) ((x, v) : (Real, Real)) (dt : Real) = (x + dt * v, v + dt * (-k * x))
def spring (k : Real) (n : Int) : Real =
  let (x, v) = loop s = (1.0, 0.0) for i < n do step k s 0.001 in x + v";

#[test]
fn a_small_step_is_inlined_into_a_loop_without_moves_calls_or_constants() {
    let spring = function(SPRING, "spring");
    let body = loop_body(&spring);
    for op in [Op::Mov, Op::IMov, Op::Call, Op::Const, Op::IConst, Op::StructNew] {
        assert_eq!(count(body, op), 0, "{op:?}");
    }
    // The negation of `k` is before the loop.
    assert_eq!(body.len(), 5 + 3);
}

#[test]
fn loops_test_once_before_and_once_at_the_end() {
    let spring = function(SPRING, "spring");
    assert_eq!(count(&spring.body.code, Op::ILt), 2);
    assert_eq!(count(&spring.body.code, Op::Jump), 0);
}

#[test]
fn constants_in_loops_have_one_definition_each() {
    let text = "def f (n : Int) = loop a = 1.0 for i < n do loop b = a for j < n do b * 0.5 + 0.5 - 2.0 * b";
    let f = function(text, "f");
    assert_eq!(count(loop_body(&f), Op::Const), 0);
    assert_eq!(count(&f.body.code, Op::Const), 3);
}

#[test]
fn self_tail_calls_are_jumps_and_other_tail_calls_keep_no_frame() {
    let text = "def gcd (a : Int) (b : Int) : Int = if b == 0 then a else gcd b (a % b)
    def even (n : Int) : Bool = if n == 0 then true else odd (n - 1)
    def odd n = if n == 0 then false else even (n - 1)";
    let gcd = function(text, "gcd");
    assert_eq!((count(&gcd.body.code, Op::Jump), count(&gcd.body.code, Op::TailCall)), (1, 0));
    // Who calls each other is in one function, but for what hosts call.
    let [even, odd] = ["even", "odd"].map(|name| function(text, name).body.code);
    assert_eq!((count(&even, Op::TailCall), count(&odd, Op::TailCall)), (0, 1));
    assert_eq!(count(&even, Op::Call) + count(&odd, Op::Call), 0);
}

#[test]
fn conditions_are_control_flow_and_not_numbers() {
    let text = "def f (x : Real) (n : Int) : Int = if not (x < 1 || n == 2 && x > 3) then 1 else 2";
    let f = function(text, "f");
    assert_eq!(count(&f.body.code, Op::Branch), 3);
    assert_eq!(count(&f.body.code, Op::IXor) + count(&f.body.code, Op::Jump), 0);
}

#[test]
fn small_powers_are_multiplications() {
    let f = function("def f (x : Real) = x ^ 2 + x ^ 5", "f");
    // The square is a part of the fifth power.
    assert_eq!((count(&f.body.code, Op::Mul), count(&f.body.code, Op::Powi)), (3, 0));
}

#[test]
fn registers_are_reused_after_the_last_use() {
    let mut text = "def f (x0 : Real) : Real =\n".to_owned();
    for i in 0..5_000 {
        text += &format!("let x{} = x{i} + x{i} in\n", i + 1);
    }
    let f = function(&(text + "x5000"), "f");
    assert_eq!(f.body.reals, 1);
    assert_eq!(f.body.code.len(), 5_001);
    let fib = function("def fib (n : Int) : Int = if n < 2 then n else fib (n - 1) + fib (n - 2)", "fib");
    assert!(fib.body.ints <= 10, "{} registers", fib.body.ints);
}

#[test]
fn tuples_take_registers_and_never_the_heap() {
    let text = "def f (n : Int) = loop (a, (b, c)) = (1.0, (2.0, 0)) for i < n do (b, (a + b, c + i))";
    let code = function(text, "f").body.code;
    assert_eq!(count(&code, Op::StructNew), 0);
}

#[test]
fn unused_instances_are_dropped_and_others_are_named_by_their_types() {
    let text = "def twice x = x + x
    def power x n = if n == 0 then 1 else x * power x (n - 1)
    def f (n : Int) : Int = twice n + power n n";
    let module = module(text);
    let names: Vec<&str> = module.functions.iter().map(|function| &*function.name).collect();
    assert_eq!(names, ["twice", "power", "f", "power<Int, Int>"]);
    assert!(module.functions[3].interface.is_none());
}

#[test]
fn interfaces_name_parameters_and_types() {
    let f = function("def f (x : Real) (ps : Array (Int, Bool)) (a, b) = (a + x, b + 1.0, ps)", "f");
    let interface = f.interface.unwrap();
    let params: Vec<String> = interface.params.iter().map(|(name, ty)| format!("{name} : {ty}")).collect();
    assert_eq!(params, ["x : Real", "ps : Array (Int, Bool)", "arg3 : (Real, Real)"]);
    assert_eq!(interface.result.to_string(), "(Real, Real, Array (Int, Bool))");
}

#[test]
fn twenty_thousand_lines_compile_in_seconds() {
    let mut text = String::new();
    for i in 0..5_000 {
        let last = if i == 0 { "y".to_owned() } else { format!("f{} y n", i - 1) };
        text += &format!("def f{i} (x : Real) (n : Int) : Real =\n  let y = x * {i}.0 + sin x in\n");
        text += &format!("  let z = (loop a = y for i < n do a * 0.5 + x) in\n  z + {last}\n");
    }
    let start = std::time::Instant::now();
    assert_eq!(module(&text).functions.len(), 5_000);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

/// Calls of any kind.
fn calls(function: &Function) -> usize {
    count(&function.body.code, Op::Call) + count(&function.body.code, Op::TailCall)
}

#[test]
fn a_recursion_through_helpers_with_one_call_is_one_of_a_function_to_itself() {
    let text = "type Tree = Leaf Real | Node Real (List Tree)
    def weight (tree : Tree) : Real =
      let add sum tree = sum + weight tree in
      match tree with Leaf x -> x | Node x trees -> fold add x trees";
    let module = module(text);
    let names: Vec<&str> = module.functions.iter().map(|function| &*function.name).collect();
    assert_eq!(names, ["weight"]);
}

#[test]
fn tail_calls_through_helpers_are_loops() {
    let text = "def ping (g : Real -> Real) (n : Int) (x : Real) : Real = if n < 1 then x else pong g (n - 1) (g x)
    def pong (g : Real -> Real) (n : Int) (x : Real) : Real = ping g (n - 1) (0.5 * x)
    def f (n : Int) : Real = ping (+ 1) n 1.0";
    let module = module(text);
    let names: Vec<&str> = module.functions.iter().map(|function| &*function.name).collect();
    assert_eq!((&names[..], calls(&module.functions[0])), (&["f"][..], 0));
}

#[test]
fn a_group_without_single_calls_keeps_its_calls() {
    let text = "def f (n : Int) : Int = if n < 2 then 1 else g (n - 1) + g (n - 2)
    def g (n : Int) : Int = if n < 3 then n else f (n - 1) * f (n / 2)";
    assert_eq!((calls(&function(text, "f")), calls(&function(text, "g"))), (2, 2));
}

#[test]
fn an_empty_list_that_is_there_is_not_made_again() {
    let text = "def rest (xs : List Real) : List Real = match xs with [] -> [] | _ :: rest -> rest
    def rest_or (xs : List Real) : List Real = match xs with _ :: rest -> rest | _ -> []
    def both (x : Real) : (List Real, List Real) = ([], [])
    def ints (xs : List Real) : List Int = match xs with [] -> [] | _ -> [1]";
    let made = |name| count(&function(text, name).body.code, Op::VariantNew);
    assert_eq!(["rest", "rest_or", "both"].map(made), [0, 0, 1]);
    assert!(made("ints") >= 2, "of another type");
}

#[test]
fn small_recursive_functions_are_copied_into_themselves() {
    let text = "def total (xs : List Real) : Real = match xs with [] -> 0.0 | x :: rest -> x + total rest
    def fib (n : Int) : Int = if n < 2 then n else fib (n - 1) + fib (n - 2)";
    let total = function(text, "total");
    assert_eq!((calls(&total), count(&total.body.code, Op::Add)), (1, 4));
    let fib = calls(&function(text, "fib"));
    assert!(fib.is_power_of_two() && fib > 2 && fib <= 16, "{fib} calls");
}
