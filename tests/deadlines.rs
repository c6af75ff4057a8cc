//! How long a call goes on after its deadline: whatever it is doing then, at most 10 ms and a twentieth of the time
//! that it was given.

use dualvm::{CallOptions, Config, Engine, ErrorKind, Function, Jit, Limits, Module, Value};
use dualvm_vm::trap::{Limit, TrapKind};
use std::time::{Duration, Instant};

const SOURCE: &str = "
def grow (n : Int) (x : Real) : List Real = if n == 0 then [] else x * 1.0000001 :: grow (n - 1) (x * 0.999)
def total (xs : List Real) : Real = match xs with | [] -> 0.0 | x :: r -> x + total r
-- Recursion that is not a loop: frames and cells.
def list_recursion (n : Int) (x : Real) : Real = loop acc = 0.0 for i < 1000 do acc + total (grow n (x + acc))
def deep (n : Int) (x : Real) : Real = if n == 0 then x else sin (deep (n - 1) (x * 1.001)) + x
def deep_recursion (n : Int) (x : Real) : Real = loop acc = 0.0 for i < 1000 do acc + deep n (x + acc)
-- Tasks.
def chain (n : Int) (x : Real) : Real =
  if n == 0 then x else let (a, b) = chain (n - 1) (x * 1.001) |*| sin x in a + b
def fork_chain (n : Int) (x : Real) : Real = loop acc = 0.0 for i < 1000 do acc + chain n (x + acc)
def tree (n : Int) (x : Real) : Real =
  if n == 0 then sin x else let (a, b) = tree (n - 1) (x * 1.001) |*| tree (n - 1) (x * 0.999) in a + b
def fork_tree (n : Int) (x : Real) : Real = loop acc = 0.0 for i < 1000 do acc + tree n (x + acc)
-- A heap that keeps much.
def keep (n : Int) (x : Real) : Real =
  let xs = loop xs = [] for i < n do x :: xs in
  loop acc = 0.0 for i < 1000000000 do
    acc + (match xs with | [] -> 0.0 | y :: _ -> (match [y * acc] with | [] -> 0.0 | z :: _ -> sin z))
-- Large arrays.
def arrays (n : Int) (x : Real) : Real =
  loop acc = 0.0 for i < 1000 do
    let xs = build n (\\j -> x * to_real j + acc) in xs[n - 1] + acc
def parallel_arrays (n : Int) (x : Real) : Real =
  loop acc = 0.0 for i < 1000 do
    let xs = pbuild n (\\j -> x * to_real j + acc) in xs[n - 1] + acc
-- One short loop.
def sums (n : Int) (x : Real) : Real = loop acc = x for i < n do sin acc * x
-- Large arguments and results.
def make (n : Int) (x : Real) : List (Int, Real) = loop xs = [] for i < n do (i, x) :: xs
def first (xs : List (Int, Real)) : Real = match xs with | [] -> 0.0 | (i, x) :: _ -> x
";

struct Case {
    name: &'static str,
    n: i64,
}

const CASES: &[Case] = &[
    Case { name: "list_recursion", n: 1_000_000 },
    Case { name: "deep_recursion", n: 1_900_000 },
    Case { name: "fork_chain", n: 100_000 },
    Case { name: "fork_tree", n: 18 },
    Case { name: "keep", n: 20_000_000 },
    Case { name: "arrays", n: 20_000_000 },
    Case { name: "parallel_arrays", n: 20_000_000 },
    Case { name: "sums", n: 1_000_000_000 },
];

fn function(jit: Jit, threads: usize, name: &str) -> Function {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    let module = Module::from_source(&Engine::new(config), "deadlines.dual", SOURCE).unwrap_or_else(|e| panic!("{e}"));
    module.function(name).unwrap_or_else(|e| panic!("{e}"))
}

/// How long a call may go on after its deadline.
fn overrun_max(deadline: Duration) -> Duration {
    Duration::from_millis(10) + deadline / 20
}

/// Other processes take the processor away now and then.
const TRIES: usize = 25;

/// Asserts that a call ends in time, with a trap or without: in one of a few tries.
fn assert_in_time(name: &str, function: &Function, args: &[Value], gradient: bool) {
    for deadline in [60, 250].map(Duration::from_millis) {
        let options = CallOptions::with_limits(Limits { deadline: Some(deadline), ..Limits::default() });
        let late = |_| {
            let began = Instant::now();
            let error = if gradient {
                function.value_and_grad_with(args, &options).err()
            } else {
                function.call_with(args, &options).err()
            };
            let late = began.elapsed().saturating_sub(deadline);
            if let Some(error) = error {
                let ErrorKind::Trap(trap) = error.kind() else { panic!("{name}: {error}") };
                assert_eq!(trap.kind, TrapKind::Limit(Limit::Deadline), "{name}");
            }
            late
        };
        let mut tries = Vec::new();
        while tries.iter().all(|&late| late > overrun_max(deadline)) {
            assert!(tries.len() < TRIES, "{name}, with {deadline:?}: late by {tries:?}");
            if !tries.is_empty() {
                // Whoever has the processor may be done soon.
                std::thread::sleep(Duration::from_millis(50));
            }
            tries.push(late(()));
        }
    }
}

// One test, so that nothing runs beside it.
#[test]
fn no_call_goes_on_for_long_after_its_deadline() {
    for case in CASES {
        let args = [Value::Int(case.n), Value::Real(0.5)];
        for (jit, threads) in [(Jit::Off, 1), (Jit::Auto, 1), (Jit::Off, 2), (Jit::Auto, 2)] {
            let function = function(jit, threads, case.name);
            for gradient in [false, true] {
                let name = format!("{}, {jit:?}, {threads} threads, gradient: {gradient}", case.name);
                assert_in_time(&name, &function, &args, gradient);
            }
        }
    }
    let make = function(Jit::Off, 1, "make");
    assert_in_time("make", &make, &[Value::Int(4_000_000), Value::Real(0.5)], false);
    let first = function(Jit::Off, 1, "first");
    let items = (0..1_500_000).map(|n| Value::Tuple(vec![Value::Int(n), Value::Real(0.5)]));
    assert_in_time("first", &first, &[Value::Array(items.collect())], true);
}
