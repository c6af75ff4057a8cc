//! First rounds that are done before the others: what the generated code looks like, and that values, traps, their
//! order and the number of rounds stay what they were.

#[path = "support/compiled.rs"]
mod compiled;

use compiled::compiled;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::value::Value;

/// How often an instruction stands in a program.
fn count(text: &str, op: Op) -> usize {
    let module = compiled(text);
    let code = || module.functions.iter().flat_map(|function| &function.body.code);
    code().filter(|inst: &&Inst| inst.op == op).count()
}

/// What `f` of a program gives, or how it traps.
fn run(text: &str, args: &[Value]) -> Result<Value, String> {
    let engine = Engine::new(Config::default());
    let module = Module::new(&engine, compiled(text)).unwrap();
    let f = module.function("f").expect("the program defines `f`");
    f.call(args).map_err(|error| error.to_string())
}

fn traps_with(text: &str, args: &[Value], message: &str) {
    let error = run(text, args).expect_err(message);
    assert!(error.contains(message), "{error}");
}

fn ints(values: &[i64]) -> Value {
    Value::Array(values.iter().map(|&value| Value::Int(value)).collect())
}

fn reals(values: &[f64]) -> Value {
    Value::Reals(values.to_vec())
}

/// A comprehension over `from .. to`, and its elements.
fn shown(body: &str, from: &str, to: i64, k: i64) -> Value {
    let text = format!("def f (to : Int) (k : Int) : Array Int = [| {body} for i in {from} .. to |]");
    run(&text, &[Value::Int(to), Value::Int(k)]).unwrap()
}

#[test]
fn the_rest_of_the_rounds_tests_nothing() {
    // A test before the first round, one before the others, and one at the end of each; two rounds that push.
    for (body, branches, pushes) in [
        ("[| if i == 0 then a[0] else a[i] * a[i - 1] for i < length a |]", 3, 2),
        ("[| if i > 0 then a[i] * a[i - 1] else a[0] for i < length a |]", 3, 2),
        ("[| if i - 1 < 0 then a[0] else a[i] * a[k] for i < length a |]", 3, 2),
        ("[| if i > 0 then (if 1 <= i then a[i] * a[i - 1] else a[k]) else a[0] for i < length a |]", 3, 2),
        ("[| (if i == 0 then a[0] else a[i - 1]) * (if i != 0 then a[i - 1] else a[k]) for i < length a |]", 3, 2),
        ("[| if i == k then a[k] else a[i] * a[i - 1] for i in k .. length a |]", 3, 2),
        // What is bound in a condition, by the program or since it is computed once, is read in what it chooses.
        ("[| if i - 1 < 0 then a[0] else a[i] * a[i - 1] for i < length a |]", 3, 2),
        ("[| if i - 1 >= 0 && a[i - 1] > 0 then a[i] else a[0] for i < length a |]", 4, 2),
        ("[| if not (let j = i + 1 in j == 1) then a[i] * a[i - 1] else a[0] for i < length a |]", 3, 2),
        (
            "[| let x = a[i] in let b = (let y = x * x in i == 0) in if b then x else x * a[i - 1] for i < length a |]",
            3,
            2,
        ),
        // One outcome in all rounds.
        ("[| if i < 0 then a[k] else a[i] for i < length a |]", 2, 1),
        // Nobody knows in which round: a test before the loop, one in each round and one at its end.
        ("[| if i == k then a[0] else a[i] for i < length a |]", 3, 1),
        ("[| if i < 2 then a[0] else a[i - 2] for i < length a |]", 3, 1),
    ] {
        let text = format!("def f (a : Array Real) (k : Int) : Array Real = {body}");
        assert_eq!((count(&text, Op::Branch), count(&text, Op::Push)), (branches, pushes), "{body}");
    }
    // What is cheap is selected, and nothing copied.
    let text = "def f (n : Int) : Array Real = [| if i == 0 then 1.0 else 2.0 for i < n |]";
    assert_eq!((count(text, Op::Push), count(text, Op::Select)), (1, 1));
    // Of nested loops the inner one.
    let text = "def f (a : Array Real) (n : Int) : Array (Array Real) =
        [| [| if i == 0 then a[j] else if j == 0 then a[0] else a[j - 1] for j < n |] for i < n |]";
    assert_eq!(count(text, Op::Push), 2);
}

#[test]
fn ranges_of_no_and_of_one_round() {
    let body = "if i == 0 then k else k / i + 10";
    for (to, elements) in [(0, &[][..]), (-3, &[]), (1, &[12]), (2, &[12, 22]), (4, &[12, 22, 16, 14])] {
        assert_eq!(shown(body, "0", to, 12), ints(elements), "{to}");
    }
    let body = "if i == -2 then k else k / (i + 2) + 10";
    for (to, elements) in [(-2, &[][..]), (-7, &[]), (-1, &[12]), (1, &[12, 22, 16])] {
        assert_eq!(shown(body, "-2", to, 12), ints(elements), "{to}");
    }
    let body = "if i > k then 10 / (i - k) else 7";
    for (to, k, elements) in [(0, 0, &[][..]), (1, 0, &[7]), (7, 5, &[7, 10]), (3, 5, &[]), (-3, -5, &[7, 10])] {
        assert_eq!(shown(body, "k", to, k), ints(elements), "{k} .. {to}");
    }
    // No index is greater than the greatest integer.
    let greatest = i64::MAX;
    assert_eq!(shown(body, "k", greatest, greatest), ints(&[]));
    assert_eq!(shown(body, "k", i64::MIN, greatest), ints(&[]));
    assert_eq!(shown(body, "k", greatest, greatest - 2), ints(&[7, 10]));
}

#[test]
fn loops_carry_on_from_their_first_round() {
    let text = "def f (a : Array Real) : (Real, Int) =
        loop (s, last) = (-1.0, 7) for i < length a do
            if i == 0 then (a[0] - s, i) else (s * a[i] + a[i - 1] + to_real last, i)";
    let expected = |values: &[f64]| {
        let (mut sum, mut last) = (-1.0, 7);
        for (at, &value) in values.iter().enumerate() {
            sum = if at == 0 { value - sum } else { sum * value + values[at - 1] + f64::from(last) };
            last = at as i32;
        }
        Value::Tuple(vec![Value::Real(sum), Value::Int(last.into())])
    };
    assert_eq!(count(text, Op::Branch), 3);
    for values in [&[][..], &[2.0], &[2.0, 3.0], &[2.0, 3.0, -1.0, 0.5]] {
        assert_eq!(run(text, &[reals(values)]), Ok(expected(values)), "{values:?}");
    }
    // The bounds are evaluated after the first values.
    let text = "def f (a : Array Real) (k : Int) : Real =
        loop s = a[k] for i < 6 / k do if i == 0 then s + a[0] else s * a[i] + a[i - 1]";
    traps_with(text, &[reals(&[1.0]), Value::Int(4)], "index");
    traps_with(text, &[reals(&[1.0]), Value::Int(0)], "zero");
    assert_eq!(run(text, &[reals(&[1.0, 2.0, 3.0, 4.0]), Value::Int(3)]), Ok(Value::Real(11.0)));
}

#[test]
fn rounds_trap_in_their_order() {
    let text = "def f (a : Array Int) (k : Int) : Array Int =
        [| if i == 0 then 1 / a[0] else if a[i] < 0 then error \"negative\" else a[i] / a[i - 1] for i < k |]";
    assert_eq!(run(text, &[ints(&[2, 4, 8]), Value::Int(3)]), Ok(ints(&[0, 2, 2])));
    assert_eq!(run(text, &[ints(&[]), Value::Int(0)]), Ok(ints(&[])));
    traps_with(text, &[ints(&[0, -4, 8]), Value::Int(3)], "zero");
    traps_with(text, &[ints(&[1, 0, 8, -1]), Value::Int(4)], "zero");
    traps_with(text, &[ints(&[1, -4, 8]), Value::Int(5)], "negative");
    traps_with(text, &[ints(&[1, 4, 8]), Value::Int(4)], "index");
    traps_with(text, &[ints(&[]), Value::Int(1)], "index");
}

#[test]
fn what_conditions_bind_stays() {
    // What traps in a condition traps, though the outcome is known and nobody reads what is bound.
    let text = "def f (a : Array Int) (k : Int) : Array Int =
        [| if (let y = 12 / a[i] in i == 0) then 1 else a[i - 1] for i < k |]";
    assert_eq!(count(text, Op::IPush), 2);
    assert_eq!(run(text, &[ints(&[2, 3, 4]), Value::Int(3)]), Ok(ints(&[1, 2, 3])));
    traps_with(text, &[ints(&[0, 3, 4]), Value::Int(3)], "zero");
    traps_with(text, &[ints(&[1, 3, 0]), Value::Int(3)], "zero");
    // And what is computed in both is there for both.
    for (condition, elements) in [
        ("let y = 12 / a[i] in i < 1", [6, 6, 6]),
        ("let y = 12 / a[i] in not (i >= 1)", [6, 6, 6]),
        ("(let y = 12 / a[i] in i - 1 < 0) || 12 / a[i] > 3", [6, 4, 6]),
        ("(let y = 12 / a[i] in i <= 0) && (let z = 12 / a[i] in 1 > i)", [6, 6, 6]),
        ("(let y = 12 / a[i] in i < 0) || i == 0", [6, 6, 6]),
    ] {
        let text = format!(
            "def f (a : Array Int) (k : Int) : Array Int =
                [| if {condition} then 12 / a[i] else 12 / a[i] + a[i - 1] for i < k |]"
        );
        assert_eq!(count(&text, Op::IPush), 2, "{condition}");
        assert_eq!(run(&text, &[ints(&[2, 3, 4]), Value::Int(3)]), Ok(ints(&elements)), "{condition}");
        traps_with(&text, &[ints(&[2, 0, 4]), Value::Int(3)], "zero");
    }
}

#[test]
fn both_sides_of_logic_keep_their_order() {
    for (condition, first, rest) in [
        ("i == 0 || a[i - 1] > 1.0", 1, 0),
        ("i > 0 && a[i - 1] > 1.0", 0, 1),
        ("not (i > 0) || a[i - 1] > 1.0", 1, 0),
        ("a[i] > 1.0 && i == 0", 0, 0),
        ("a[i] > 1.0 || i == 0", 0, 0),
    ] {
        let text = format!(
            "def f (a : Array Real) : Array Real = [| if {condition} then exp a[i] else sin a[i] for i < length a |]"
        );
        let values = [0.5, 2.0, 1.5, 0.25];
        let holds = |at: usize| match (first, rest) {
            (1, _) => at == 0 || values[at - 1] > 1.0,
            (_, 1) => at > 0 && values[at - 1] > 1.0,
            _ if condition.contains("&&") => values[at] > 1.0 && at == 0,
            _ => values[at] > 1.0 || at == 0,
        };
        let Ok(Value::Reals(ref found)) = run(&text, &[reals(&values)]) else { panic!("{condition}") };
        for (at, (value, element)) in values.iter().zip(found).enumerate() {
            let expected = if holds(at) { value.exp() } else { value.sin() };
            assert!((element - expected).abs() < 1e-14, "{condition} at {at}");
        }
    }
}
