//! What programs trace: in the order of their text, once, whatever the engine and the threads, and without a change to
//! anything else.

#[path = "support/program.rs"]
mod program;

use dualvm::{CallOptions, Config, Engine, Error, Function, Jit, Listener, Module, Stats, Value};
use program::Workspace;
use std::sync::{Arc, Mutex};

/// A listener, and what it has heard.
fn listener() -> (Listener, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    (Listener::new(move |line| heard.lock().unwrap().push(line.text.to_owned())), lines)
}

fn module(text: &str, jit: Jit, threads: usize) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    Module::from_source(&Engine::new(config), "t.dual", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The same program, with `trace "…"` blanked out in each line that has one, so that places stay what they are.
fn without_traces(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line.split_once("trace \"").and_then(|(before, rest)| Some((before, rest.split_once("\" ")?.1))) {
            Some((before, rest)) => {
                let blanks = line.len() - before.len() - rest.len();
                out += &format!("{before}{}{rest}\n", " ".repeat(blanks));
            }
            None => out += &format!("{line}\n"),
        }
    }
    assert_ne!(out, text);
    out
}

/// What a call gives, as text to the last bit, and what it has used.
fn outcome<T: std::fmt::Debug>(result: Result<(T, Stats), Error>) -> String {
    match result {
        Ok((value, stats)) => format!(
            "{value:?}, {} instructions, {} records, {} tasks, tape of {} bytes, {} bytes allocated",
            stats.instructions, stats.records, stats.tasks, stats.tape_bytes, stats.allocated_bytes
        ),
        // Without lines of the source.
        Err(error) => error.trap().expect("nothing else goes wrong").to_string(),
    }
}

/// Checks what `main` traces on all engines, called and differentiated, and that nothing else differs from the same
/// program without traces.
fn check(text: &str, args: &[Value], expected: &[&str]) {
    for (jit, threads) in [(Jit::Off, 1), (Jit::Always, 1), (Jit::Off, 4), (Jit::Always, 4)] {
        let [traced, plain] = [text.to_owned(), without_traces(text)].map(|text| module(&text, jit, threads));
        let [traced, plain] = [traced, plain].map(|module| module.function("main").expect("there is a `main`"));
        let (listener, lines) = listener();
        let options = CallOptions::default().traced_to(&listener);
        let called = outcome(traced.call_with(args, &options));
        assert_eq!(*lines.lock().unwrap(), expected, "{jit:?}, {threads} threads");
        assert_eq!(called, outcome(plain.call_with(args, &CallOptions::default())), "{jit:?}, {threads} threads");
        assert_eq!(called, outcome(traced.call_with(args, &CallOptions::default())), "{jit:?}, {threads} threads");
        lines.lock().unwrap().clear();
        let gradient = |function: &Function, options: &CallOptions| {
            let found = function.value_and_grad_with(args, options);
            outcome(found.map(|found| ((found.value, found.gradient), found.stats)))
        };
        let unheard = gradient(&traced, &CallOptions::default());
        assert_eq!(gradient(&traced, &options), unheard, "{jit:?}, {threads} threads");
        assert_eq!(*lines.lock().unwrap(), expected, "{jit:?}, {threads} threads, of the gradient");
        assert_eq!(gradient(&plain, &CallOptions::default()), unheard, "{jit:?}, {threads} threads");
    }
}

#[test]
fn lines_come_in_the_order_of_the_text() {
    let text = "def square (x : Real) : Real =
  trace \"square {x}\" (x * x)
def unused (x : Real) : Real =
  let y =
    trace \"unused {x}\" (sin x) in
  x
def main (xs : Array Real) : Real =
  let squares =
    trace \"squares of {xs}\" (map square xs) in
  let picked = if sum squares > 5 then
    trace \"large\" squares[0] else
    trace \"small\" squares[1] in
  picked * unused (square 3)
";
    let expected = ["squares of [1.0, 2.0]", "square 1.0", "square 2.0", "small", "square 3.0", "unused 9.0"];
    check(text, &[Value::Reals(vec![1.0, 2.0])], &expected);
}

#[test]
fn a_loop_that_is_recorded_whole_traces_each_round() {
    let text = "def main (xs : Array Real) : Real =
  loop sum = 0.0 for x in xs do
    trace \"{sum} + {x}^2\" (sum + x * x)
";
    let expected = ["0.0 + 1.0^2", "1.0 + 2.0^2", "5.0 + 3.0^2"];
    check(text, &[Value::Reals(vec![1.0, 2.0, 3.0])], &expected);
}

#[test]
fn tasks_trace_from_left_to_right() {
    let text = "def tree (n : Int) (x : Real) : Real =
  if n == 0 then x else
  let (a, b) = tree (n - 1) (x / 2) |*| tree (n - 1) (x + 1) in
  trace \"{n}: {a} and {b}\" (a * b)
def main (x : Real) : Real = tree 3 x
";
    let mut expected = Vec::new();
    fn tree(n: i64, x: f64, lines: &mut Vec<String>) -> f64 {
        if n == 0 {
            return x;
        }
        let (a, b) = (tree(n - 1, x / 2.0, lines), tree(n - 1, x + 1.0, lines));
        lines.push(format!("{n}: {a:?} and {b:?}"));
        a * b
    }
    tree(3, 3.0, &mut expected);
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(text, &[Value::Real(3.0)], &expected);
}

#[test]
fn parallel_maps_trace_from_front_to_back() {
    let text = "def main (x : Real) : Real =
  sum (pmap (\\i ->
    trace \"element {i}\" (x * to_real i)) [| i for i < 50 |])
";
    let expected: Vec<String> = (0..50).map(|i| format!("element {i}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(text, &[Value::Real(0.5)], &expected);
}

#[test]
fn what_is_evaluated_again_is_not_traced_again() {
    let text = "def inner (x : Real) : Real =
  trace \"inner {x}\" (x * x * x)
def main (x : Real) : Real =
  let slope = derivative inner x in
  slope + checkpoint inner (2 * x)
";
    check(text, &[Value::Real(1.5)], &["inner 1.5", "inner 3.0"]);
}

#[test]
fn before_a_trap_stands_what_was_evaluated_before_it() {
    let text = "def main (xs : Array Real) : Real =
  loop sum = 0.0 for i < 4 do
    trace \"round {i}\" (sum + xs[i])
";
    check(text, &[Value::Reals(vec![1.0, 2.0])], &["round 0", "round 1", "round 2"]);
}

#[test]
fn a_text_that_traps_ends_the_call_only_if_it_is_that_of_an_error() {
    // After that of a trace nothing more is heard: the call's outcome is that of the program without traces.
    let text = "def main (xs : Array Real) : Real =
    trace \"{xs[5]}\" xs[0]
";
    let ended = "nothing more is traced: index 5 is out of bounds of an array of length 1";
    check(text, &[Value::Reals(vec![1.0])], &[ended]);
}

#[test]
fn matrices_records_and_data_are_shown() {
    let text = "type Shape = Circle Real | Point
def main (x : Real) : Real =
  let m = [| x, 2; 3, 4 |] in
  let shapes = [Circle x, Point] in
  trace \"{m} {shapes} {{ x = {x} }} {(x, true)} { { x = x, n = 1 } }\" x
";
    let expected = ["[[0.5, 2.0], [3.0, 4.0]] [Circle 0.5, Point] { x = 0.5 } (0.5, true) { n = 1.0, x = 0.5 }"];
    check(text, &[Value::Real(0.5)], &expected);
}

#[test]
fn a_listener_that_panics_stops_the_call() {
    let module = module("def main (x : Real) : Real = trace \"x\" x\n", Jit::Off, 1);
    let options = CallOptions::default().traced_to(&Listener::new(|_| panic!("enough")));
    let main = module.function("main").unwrap();
    let call = std::panic::AssertUnwindSafe(|| main.call_with(&[Value::Real(1.0)], &options));
    let payload = std::panic::catch_unwind(call).expect_err("the panic goes on");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"enough"));
    assert_eq!(main.call(&[Value::Real(1.0)]).expect("nobody listens"), Value::Real(1.0));
}

#[test]
fn listeners_run_on_the_stack_of_their_thread() {
    let text = "def down (n : Int) (x : Real) : Real = if n == 0 then trace \"x\" x else 1 + down (n - 1) x\n\
                def main (x : Real) : Real = down 20000 x\n";
    for jit in [Jit::Off, Jit::Always] {
        let places = Arc::new(Mutex::new(Vec::new()));
        let heard = places.clone();
        let listener = Listener::new(move |_| {
            let there = 0u8;
            heard.lock().expect("nobody panics").push((&raw const there).addr());
        });
        let here = 0u8;
        let options = CallOptions::default().traced_to(&listener);
        let main = module(text, jit, 1).function("main").unwrap();
        main.call_with(&[Value::Real(1.0)], &options).unwrap_or_else(|error| panic!("{error}"));
        let places = places.lock().expect("nobody panics");
        assert_eq!(places.len(), 1);
        assert!((&raw const here).addr().abs_diff(places[0]) < 1 << 20, "it is the thread's own");
    }
}

#[test]
fn the_command_traces_to_stderr() {
    let workspace = Workspace::new("traces");
    workspace.write("t.dual", "def f (x : Real) : Real =\n  trace \"x = {x}\" (x * x)\n");
    for command in ["run", "grad"] {
        let finished = workspace.run(&[command, "t.dual", "f", "3"]);
        assert_eq!((finished.code, &*finished.stderr), (Some(0), "t.dual:2:3: x = 3.0\n"), "{command}");
        let quiet = workspace.run(&[command, "t.dual", "f", "3", "--no-trace"]);
        assert_eq!((quiet.stdout, &*quiet.stderr), (finished.stdout, ""), "{command}");
    }
    let with_stats = workspace.run(&["grad", "t.dual", "f", "3", "--stats", "--warn-kinks"]);
    assert_eq!(with_stats.stderr.matches("x = 3.0").count(), 1, "{}", with_stats.stderr);
}
