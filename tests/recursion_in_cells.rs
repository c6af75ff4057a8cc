//! Functions that call themselves for the last field of what they give are loops, which append to a chain: which ones,
//! what they give and in which order, that they need no stack, and how they stop.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use support::engines::{Engines, Loaded, Mode, Outcome};
use support::{assert_close, flatten};

fn compiled(source: &str) -> ModuleDef {
    dualvm_frontend::compile("cells.dual", source).unwrap_or_else(|errors| panic!("{errors}"))
}

fn loaded(source: &str) -> Loaded {
    Engines::all().load(&compiled(source), 0).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]))
}

fn run(loaded: &Loaded, args: &[Value], mode: Mode, limits: &Limits) -> Outcome {
    loaded.run("f", args, mode, limits).unwrap_or_else(|error| panic!("{error}"))
}

fn value(outcome: &Outcome) -> f64 {
    match outcome {
        Outcome::Done { value, .. } => flatten(std::slice::from_ref(value))[0],
        other => panic!("{other:?}"),
    }
}

/// How many instructions of a function are these.
fn count(module: &ModuleDef, name: &str, is_one: impl Fn(Op) -> bool) -> usize {
    let (_, function) = module.function(name).expect("the function is exported");
    function.body.code.iter().filter(|inst| is_one(inst.op)).count()
}

const TYPES: &str = "type Tree = Leaf | Node Real Tree Tree
type Signal = Silent | Tone Real Int Signal | Pause Int Signal
";

/// Functions that become loops: how many calls are left, and how many places append.
const LOOPS: &[(&str, &str, usize, usize)] = &[
    ("map", "def f (xs : List Real) : List Real = match xs with | [] -> [] | x :: rest -> x * x :: f rest", 0, 1),
    (
        "a filter",
        "def f (xs : List Int) : List Int =
           match xs with | [] -> [] | x :: rest -> if x > 0 then x :: f rest else f rest",
        0,
        1,
    ),
    (
        "two cells",
        "def f (xs : List Real) : List Real = match xs with | [] -> [] | x :: rest -> x :: 2.0 * x :: f rest",
        0,
        2,
    ),
    (
        "a call that is bound",
        "def f (xs : List Int) : List Int = match xs with | [] -> [] | x :: rest -> let more = f rest in x :: more",
        0,
        1,
    ),
    (
        "constructors of several kinds",
        "def f (s : Signal) : Signal =
           match s with
           | Silent -> Silent
           | Tone x n rest -> Tone (sin x) (n + 1) (f rest)
           | Pause n rest -> if n > 3 then Pause 3 (f rest) else f rest",
        0,
        2,
    ),
    (
        "a tree, to the right",
        "def f (t : Tree) : Tree = match t with | Leaf -> Leaf | Node x l r -> Node (x + 1.0) (f l) (f r)",
        // What is small is copied into itself.
        usize::MAX,
        1,
    ),
    (
        "an insertion",
        "def f (x : Real) (xs : List Real) : List Real =
           match xs with | [] -> [x] | y :: rest -> if x < y then x :: xs else y :: f x rest",
        0,
        1,
    ),
];

#[test]
fn calls_in_last_fields_become_loops() {
    for &(what, source, calls, pushes) in LOOPS {
        let module = compiled(&format!("{TYPES}{source}"));
        let left = count(&module, "f", |op| matches!(op, Op::Call | Op::TailCall));
        assert!(left == calls || calls == usize::MAX && left > 0, "{what}: {left} calls");
        let found = count(&module, "f", |op| op == Op::ChainPush);
        assert!(found == pushes || calls == usize::MAX && found >= pushes, "{what}: {found} places append");
    }
}

/// Functions that are left as they are, and why.
const LEFT: &[(&str, &str)] = &[
    (
        "the other field traps after the call",
        "def f (xs : List Int) : List Int = match xs with | [] -> [] | x :: rest -> let more = f rest in 6 / x :: more",
    ),
    (
        "a tail call may come back",
        "def f (go : Int -> List Int) (n : Int) : List Int =
           if n == 0 then go 7 else if n % 2 == 0 then go n else n :: f go (n - 1)
         type Step = Step (Int -> List Int)
         def g (s : Step) (n : Int) : List Int =
           match s with Step go -> if n == 0 then [] else if n % 2 == 0 then go n else n :: g s (n - 1)
         def h (n : Int) : List Int = g (if n > 3 then Step (\\k -> [k]) else Step (\\k -> [k, k])) n",
    ),
    (
        "a tail call may come back by way of a function value that another function calls",
        "type Step = Step (Int -> Step -> List Int) | Stop
         def pick (s : Step) (n : Int) (k : Int) : List Int =
           if k < 0 then (match pick s n (k + 1) with | [] -> [] | x :: r -> pick s (n - x) 1)
           else match s with | Stop -> [] | Step go -> go n s
         def f (n : Int) (s : Step) : List Int =
           if n < 0 then [n] else if n == 5 then n :: f (n - 1) s else pick s (n - 1) 2
         def main (n : Int) : Int = length (f n (Step f))",
    ),
    (
        "the call is not the last field",
        "def f (t : Tree) : Tree = match t with | Leaf -> Leaf | Node x l r -> Node x (f l) r",
    ),
];

#[test]
fn other_calls_are_left_alone() {
    for &(what, source) in LEFT {
        let module = compiled(&format!("{TYPES}{source}"));
        let pushes = module.functions.iter().flat_map(|function| &function.body.code);
        assert_eq!(pushes.filter(|inst| inst.op == Op::ChainPush).count(), 0, "{what}");
    }
}

/// `f x n`, and the same in Rust.
type Oracle = (&'static str, fn(f64, i64) -> f64);

const VALUES: &[Oracle] = &[
    (
        "def squares (x : Real) (n : Int) : List Real = if n == 0 then [] else x * x :: squares (x * 0.9) (n - 1)
         def f (x : Real) (n : Int) : Real = fold (\\sum y -> 0.5 * sum + y) 1.0 (squares x n)",
        |mut x, n| {
            (0..n).fold(1.0, |sum, _| {
                let y = x * x;
                x *= 0.9;
                0.5 * sum + y
            })
        },
    ),
    (
        "def sift (x : Real) (xs : List Real) : List Real =
           match xs with
           | [] -> [x]
           | y :: rest -> if y > x then y :: sift (x + 0.1) rest else if y > 0.0 then sift (x * y) rest else sift y rest
         def waves (n : Int) : List Real = map (\\k -> sin (to_real k)) (range 0 n)
         def f (x : Real) (n : Int) : Real = fold (\\sum y -> 0.5 * sum + y) 1.0 (sift x (waves n))",
        |mut x, n| {
            let mut sum = 1.0;
            for y in (0..n).map(|k| (k as f64).sin()) {
                if y > x {
                    sum = 0.5 * sum + y;
                    x += 0.1;
                } else if y > 0.0 {
                    x *= y;
                } else {
                    x = y;
                }
            }
            0.5 * sum + x
        },
    ),
    (
        "type Tree = Leaf | Node Real Tree Tree
         def grow (n : Int) (x : Real) : Tree =
           if n <= 0 then Leaf else Node x (grow (n - 3) (0.5 * x)) (grow (n - 1) (x + 1.0))
         def scale (a : Real) (t : Tree) : Tree =
           match t with | Leaf -> Leaf | Node x l r -> Node (a * x) (scale (a + 0.1) l) (scale (a * 0.5) r)
         def total (t : Tree) : Real = match t with | Leaf -> 1.0 | Node x l r -> x * total l + 0.3 * total r
         def f (x : Real) (n : Int) : Real = total (scale x (grow n x))",
        |x, n| {
            fn total(n: i64, x: f64, a: f64) -> f64 {
                if n <= 0 {
                    return 1.0;
                }
                a * x * total(n - 3, 0.5 * x, a + 0.1) + 0.3 * total(n - 1, x + 1.0, a * 0.5)
            }
            total(n, x, x)
        },
    ),
];

#[test]
fn values_and_derivatives_are_those_of_the_recursion() {
    for &(source, oracle) in VALUES {
        let loaded = loaded(source);
        for (x, n) in [(0.7, 0), (0.7, 1), (1.3, 2), (0.7, 9), (0.4, 14)] {
            let args = [Value::Real(x), Value::Int(n)];
            assert_eq!(value(&run(&loaded, &args, Mode::Call, &Limits::default())), oracle(x, n), "{source} {x} {n}");
            let outcome = run(&loaded, &args, Mode::Gradient, &Limits::default());
            let h = 1e-6;
            let expected = (oracle(x + h, n) - oracle(x - h, n)) / (2.0 * h);
            let found = outcome.gradient()[0];
            assert!(
                (found - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                "{source} {x} {n}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn a_map_over_a_million_elements_needs_no_stack() {
    let loaded = loaded(
        "def f (x : Real) (n : Int) : Real =
           let list = map (\\k -> x + to_real k) (range 0 n) in
           fold max 0.0 list + 0.5 * fold min 0.0 (map (\\y -> x - y) list)",
    );
    let n = 1_000_000;
    let limits = Limits { depth: 10, ..Limits::default() };
    let outcome = run(&loaded, &[Value::Real(0.5), Value::Int(n)], Mode::Gradient, &limits);
    assert_eq!(value(&outcome), 0.5 + (n - 1) as f64 - 0.5 * (n - 1) as f64);
    // In the minimum x is subtracted from itself.
    assert_close(outcome.gradient()[0], 1.0, 0.0);
}

#[test]
fn limits_stop_a_chain_anywhere() {
    let loaded = loaded(
        "def halves (x : Real) (n : Int) : List Real = if n == 0 then [] else x * x :: halves (0.5 * x) (n - 1)
         def f (x : Real) (n : Int) : Real = fold (+) 0.0 (halves x n)",
    );
    let args = [Value::Real(1.0), Value::Int(100)];
    for mode in [Mode::Call, Mode::Gradient] {
        for fuel in (0..600).step_by(41) {
            let outcome = run(&loaded, &args, mode, &Limits { fuel, ..Limits::default() });
            assert!(
                matches!(&outcome, Outcome::Trap(trap) if trap.kind == TrapKind::Limit(Limit::Fuel)),
                "{outcome:?}"
            );
        }
        // The chain, cells, and the empty list.
        for allocated_bytes in [0, 39, 79, 80, 119, 120, 2000, 40 + 100 * 40 + 15] {
            let outcome = run(&loaded, &args, mode, &Limits { allocated_bytes, ..Limits::default() });
            let is_limit = |kind: &TrapKind| *kind == TrapKind::Limit(Limit::AllocatedBytes);
            assert!(matches!(&outcome, Outcome::Trap(trap) if is_limit(&trap.kind)), "{allocated_bytes}: {outcome:?}");
        }
        let limits = Limits { allocated_bytes: 40 + 100 * 40 + 16, ..Limits::default() };
        assert!(value(&run(&loaded, &args, mode, &limits)) > 1.0);
    }
}

#[test]
fn a_trap_in_a_field_comes_before_one_in_the_rest() {
    let loaded = loaded(
        "def quotients (xs : List Int) : List Int =
           match xs with
           | [] -> error \"the end\"
           | x :: rest -> 60 / x :: quotients (if x == 5 then error \"five\" else rest)
         def f (xs : List Int) : Int = fold (+) 0 (quotients xs)",
    );
    let by_zero = "integer division by zero: 60 / 0";
    for (list, message) in [(&[3, 0, 5][..], by_zero), (&[5, 0], "five"), (&[1, 2], "the end")] {
        let list = Value::Array(list.iter().map(|&n| Value::Int(n)).collect());
        let Outcome::Trap(trap) = run(&loaded, &[list], Mode::Call, &Limits::default()) else { panic!("{message}") };
        assert_eq!(trap.kind.to_string(), message);
        // An iteration has no frame, and the function stands in the place of its call.
        let frames = trap.innermost.iter().map(|frame| (&*frame.function, frame.is_inlined));
        assert_eq!(frames.collect::<Vec<_>>(), [("quotients", true), ("f", false)], "{trap}");
    }
}
