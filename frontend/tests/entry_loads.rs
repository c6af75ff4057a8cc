//! Loads that don't change in a loop are done where it is entered: what the generated code looks like, and that values
//! and traps stay what they were.

#[path = "support/compiled.rs"]
mod compiled;

use compiled::compiled;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::value::Value;

/// The loads in each loop of `f` that has no loop inside, in the order of the code.
fn loads(text: &str) -> Vec<Vec<Op>> {
    let module = compiled(text);
    let f = module.functions.iter().find(|function| function.name == "f").expect("the program defines `f`");
    let code = &f.body.code;
    let is_back = |at: &usize| matches!(code[*at].op, Op::Branch | Op::Jump) && code[*at].low() as usize <= *at;
    let ends: Vec<usize> = (0..code.len()).filter(is_back).collect();
    let start = |end: usize| code[end].low() as usize;
    let innermost = ends.iter().filter(|&&end| !ends.iter().any(|&other| start(end) <= other && other < end));
    let is_load = |inst: &&Inst| matches!(inst.op, Op::Elem | Op::IElem | Op::PElem);
    innermost.map(|&end| code[start(end)..end].iter().filter(is_load).map(|inst| inst.op).collect()).collect()
}

fn run(text: &str, args: &[Value]) -> Result<(f64, Vec<Value>), String> {
    let module = Module::new(&Engine::new(Config::default()), compiled(text)).expect("it verifies");
    module.function("f").expect("the program defines `f`").value_and_grad(args).map_err(|error| error.to_string())
}

fn reals(values: &[f64]) -> Value {
    Value::Reals(values.to_vec())
}

fn rows(rows: &[&[f64]]) -> Value {
    Value::Array(rows.iter().map(|row| reals(row)).collect())
}

#[test]
fn elements_and_rows_at_an_outer_index_leave_the_inner_loop() {
    let text = "def f (xs : Array Real) : Real =
        loop s = 0.0 for i < length xs do loop s = s for j < length xs do s + (xs[i] - xs[j]) ^ 2";
    assert_eq!(loads(text), [[Op::Elem]]);
    let found = run(text, &[reals(&[1.0, 2.0, 4.0])]);
    assert_eq!(found, Ok((28.0, vec![reals(&[-16.0, -4.0, 20.0])])));
    // Of the other matrix, each round reads another row.
    let text = "def f (a : Array (Array Real)) (b : Array (Array Real)) (n : Int) : Real =
        sum [| sum [| sum [| a[i][k] * b[k][j] for k < n |] for j < n |] for i < n |]";
    assert_eq!(loads(text), [[Op::Elem, Op::PElem, Op::Elem]]);
    let (a, b) = (rows(&[&[1.0, 2.0], &[3.0, 4.0]]), rows(&[&[5.0, 6.0], &[7.0, 8.0]]));
    let found = run(text, &[a, b, Value::Int(2)]);
    let expected = [rows(&[&[11.0, 15.0], &[11.0, 15.0]]), rows(&[&[4.0, 4.0], &[6.0, 6.0]]), Value::Null];
    assert_eq!(found, Ok((134.0, expected.to_vec())));
    // A loop with a condition.
    let text = "def f (xs : Array Real) : Real =
        loop s = 0.0 for i < length xs do
          snd (loop (j, s) = (0, s) while j < length xs do (j + 1, s + xs[i] * xs[j]))";
    assert_eq!(loads(text), [[Op::Elem]]);
    let found = run(text, &[reals(&[1.0, 2.0, 4.0])]);
    assert_eq!(found, Ok((49.0, vec![reals(&[14.0, 14.0, 14.0])])));
    // An element of several values, its index, and an array that a loop makes.
    let text = "def f (ps : Array (Real, Real)) (at : Array Int) : Real =
        loop s = 0.0 for i < length at do
          sum [| let (x, y) = ps[at[i]] in let (u, v) = ps[j] in s + x * u + y * v for j < length ps |]";
    assert_eq!(loads(text), [[Op::Elem, Op::Elem]]);
    let built = "def f (xs : Array Real) : Array (Array Real) =
        [| [| xs[i] * xs[j] for j < length xs |] for i < length xs |]";
    assert_eq!(loads(built), [[Op::Elem]]);
}

#[test]
fn what_does_not_move() {
    let at = |body: &str| {
        loads(&format!(
            "def f (xs : Array Real) (ns : Array Int) (n : Int) : Real =
               loop s = 0.0 for i < n do loop s = s for j < n do {body}"
        ))
    };
    // What comes before it may trap.
    assert_eq!(at("s + to_real ns[j] * xs[i]"), [[Op::IElem, Op::Elem]]);
    assert_eq!(at("s + to_real (i / j) * xs[i]"), [[Op::Elem]]);
    assert_eq!(at("s + xs[i] / to_real (i / j)"), [[]] as [[Op; 0]; 1]);
    // It isn't read in each round.
    assert_eq!(at("if j > 2 then s + xs[i] else s"), [[Op::Elem]]);
    assert_eq!(at("if xs[i] > 2 then s + 1 else s"), [[]] as [[Op; 0]; 1]);
    // Its index or its array changes.
    assert_eq!(at("s + xs[i + j]"), [[Op::Elem]]);
    let text = "def f (xs : Array Real) (n : Int) : Real =
        sum (loop ys = xs for j < n do [| ys[0] + y for y in ys |])";
    // In the loop that makes the next array, and in the sum.
    assert_eq!(loads(text), [[Op::Elem], [Op::Elem]]);
    // So many take registers; the others stay, where they are bound first, too.
    let bound: String = (0..14).map(|at| format!("let x{at} = xs[i + {at}] in ")).collect();
    let sum: String = (0..14).map(|at| format!(" + x{at}")).collect();
    assert_eq!(at(&format!("{bound}s{sum}"))[0].len(), 14 - 8);
    let sum: String = (0..10).map(|at| format!(" + xs[{at}] * xs[i + {at}]")).collect();
    let found = at(&format!("s + to_real j{sum}"));
    assert_eq!(found[0].len(), 20 - 8);
}

#[test]
fn a_loop_without_rounds_loads_nothing() {
    let text = "def f (rows : Array (Array Real)) (n : Int) (m : Int) : Real =
        loop s = 1.0 for i < n do loop s = s for j < m do s * rows[i][j]";
    assert_eq!(loads(text), [[Op::Elem]]);
    let some = || rows(&[&[2.0, 3.0], &[5.0]]);
    assert_eq!(run(text, &[some(), Value::Int(9), Value::Int(0)]).map(|found| found.0), Ok(1.0));
    assert_eq!(run(text, &[some(), Value::Int(2), Value::Int(1)]).map(|found| found.0), Ok(10.0));
    for (n, m, message) in [(3, 1, "index 2 is out of bounds"), (2, 2, "index 1 is out of bounds")] {
        let error = run(text, &[some(), Value::Int(n), Value::Int(m)]).expect_err(message);
        assert!(error.contains(message), "{error}");
    }
}
