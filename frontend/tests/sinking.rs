//! Arithmetic that waits for calls: what the generated code looks like, and that values and traps stay what they were.

#[path = "support/compiled.rs"]
mod compiled;

use compiled::compiled;
use dualvm_vm::engine::{CallOptions, Config, Engine, Module};
use dualvm_vm::isa::Op;
use dualvm_vm::value::Value;

/// The calls and some instructions of the function `f`, in the order of the code.
fn order(text: &str, ops: &[Op]) -> Vec<Op> {
    let module = compiled(text);
    let f = module.functions.iter().find(|function| function.name == "f").expect("the program defines `f`");
    f.body.code.iter().map(|inst| inst.op).filter(|op| *op == Op::Call || ops.contains(op)).collect()
}

/// The value of `f`, its gradient, and how many records there were.
fn gradient(text: &str, args: &[Value]) -> (f64, Vec<Value>, u64) {
    let module = Module::new(&Engine::new(Config::default()), compiled(text)).expect("it verifies");
    let f = module.function("f").expect("the program defines `f`");
    let result = f.value_and_grad_with(args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    (result.value, result.gradient, result.stats.records)
}

fn list(values: &[f64]) -> Value {
    Value::Array(values.iter().map(|&value| Value::Real(value)).collect())
}

/// A function that isn't inlined.
const CALLED: &str = "def g (x : Real) (n : Int) : Real = if n == 0 then x else 2 * g x (n - 1)\n";

fn with_call(body: &str) -> String {
    format!("{CALLED}def f (x : Real) (y : Real) (z : Real) (n : Int) : Real =\n  {body}")
}

#[test]
fn an_element_of_a_recursion_has_one_record() {
    let text = "def f (xs : List Real) : Real = match xs with | [] -> 0 | x :: rest -> x * x + 0.5 * f rest";
    let values: Vec<f64> = (0..30).map(f64::from).collect();
    let (value, slopes, records) = gradient(text, &[list(&values)]);
    assert_eq!(value, values.iter().rfold(0.0, |sum, x| x * x + 0.5 * sum));
    let expected = values.iter().scan(1.0, |weight, x| Some(std::mem::replace(weight, *weight * 0.5) * 2.0 * x));
    assert_eq!(slopes, [Value::Reals(expected.collect())]);
    assert_eq!(records, 30);
    // The same with names.
    let named = "def f (xs : List Real) : Real = match xs with | [] -> 0 | x :: rest ->
        let y = x * 1 in let square = y * y in let s = f rest in square + 0.5 * s";
    let (again, _, records) = gradient(named, &[list(&values)]);
    assert_eq!((again, records), (value, 30));
}

#[test]
fn operands_and_bindings_wait() {
    let text = with_call("sin x + g y n");
    assert_eq!(order(&text, &[Op::Sin]), [Op::Call, Op::Sin]);
    // An argument waits for the call in the next one.
    let text = with_call("1 + g (exp x * g y n) n");
    assert_eq!(order(&text, &[Op::Exp]), [Op::Call, Op::Exp, Op::Call]);
    // A value that is read twice.
    let text = with_call("let t = sin x in let r = g y n in t * r + t");
    assert_eq!(order(&text, &[Op::Sin]), [Op::Call, Op::Sin]);
    // What is read between two calls waits for the first.
    let text = with_call("let t = sin x in let r = g y n in let s = g (t + r) n in r + s");
    assert_eq!(order(&text, &[Op::Sin]), [Op::Call, Op::Sin, Op::Call]);
    // One that a branch reads only.
    let text = with_call("let t = sin x in if z > 0 then g y n + t else y");
    assert_eq!(order(&text, &[Op::Sin]), [Op::Call, Op::Sin]);
}

#[test]
fn what_is_made_of_one_call_waits_for_the_next() {
    let text = with_call("x * g x n + sin x * g y n");
    assert_eq!(order(&text, &[Op::Mul, Op::Sin]), [Op::Call, Op::Call, Op::Mul, Op::Sin, Op::Mul]);
    // Up to two variables.
    let text = with_call("g x n + g y n + g z n + g 1 n + g 2 n");
    assert_eq!(
        order(&text, &[Op::Add]),
        [Op::Call, Op::Call, Op::Call, Op::Add, Op::Add, Op::Call, Op::Call, Op::Add, Op::Add]
    );
}

#[test]
fn what_reads_more_than_it_makes_stays() {
    let text = with_call("sin (x * y + z) + g (x - y) n");
    assert_eq!(order(&text, &[Op::Sin]), [Op::Sin, Op::Call]);
    // However it is cut into parts.
    let text = with_call("let a = x * y in let b = sin (a * z) in let r = g 2 n in r + b");
    assert_eq!(order(&text, &[Op::Sin, Op::Mul]), [Op::Mul, Op::Call, Op::Mul, Op::Sin]);
    // So does what the call needs, what a loop reads, and what may trap.
    let text = with_call("let t = sin x in g t n + t");
    assert_eq!(order(&text, &[Op::Sin]), [Op::Sin, Op::Call]);
    let text = with_call("let t = sin x in loop s = y for i < n do t * g s i");
    assert_eq!(order(&text, &[Op::Sin]), [Op::Sin, Op::Call]);
    let text = with_call("to_real (n / (n - 1)) + g y n");
    assert_eq!(order(&text, &[Op::IDiv]), [Op::IDiv, Op::Call]);
}

#[test]
fn calls_stay_in_their_order() {
    let text =
        "def g (x : Real) (n : Int) : Real = if n < 0 then error \"a {n}\" else if n == 0 then x else 2 * g x (n - 1)
    def f (x : Real) (m : Int) (n : Int) : Real = sin x * g x m + (cos x + g x n)";
    assert_eq!(order(text, &[Op::Sin, Op::Cos]), [Op::Call, Op::Call, Op::Sin, Op::Cos]);
    let module = Module::new(&Engine::new(Config::default()), compiled(text)).expect("it verifies");
    let f = module.function("f").expect("the program defines `f`");
    let message = |m, n| f.call(&[Value::Real(1.0), Value::Int(m), Value::Int(n)]).unwrap_err().to_string();
    assert!(message(-1, -2).contains("a -1") && message(3, -2).contains("a -2"));
    let (value, _, _) = gradient(text, &[Value::Real(1.0), Value::Int(2), Value::Int(3)]);
    assert_eq!(value, 1f64.sin() * 4.0 + (1f64.cos() + 8.0));
}
