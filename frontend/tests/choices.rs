//! Objects that are made in one choice and taken apart by the next are never made: what the generated code looks like,
//! and that values, derivatives and traps stay what they were.

#[path = "support/compiled.rs"]
mod compiled;

use compiled::compiled;
use dualvm_vm::engine::{CallOptions, Config, Engine, Module};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::value::Value;

/// How many objects the function `f` makes or asks for their tags, at how many places.
fn objects(text: &str) -> usize {
    let module = compiled(text);
    let f = module.functions.iter().find(|function| function.name == "f").expect("the program defines `f`");
    let touches = |inst: &&Inst| matches!(inst.op, Op::VariantNew | Op::VariantTag | Op::Payload);
    f.body.code.iter().filter(touches).count()
}

/// The value of `f` and its gradient, or how it traps.
fn gradient(text: &str, args: &[Value]) -> Result<(f64, Vec<Value>), String> {
    let module = Module::new(&Engine::new(Config::default()), compiled(text)).expect("it verifies");
    let f = module.function("f").expect("the program defines `f`");
    let result = f.value_and_grad_with(args, &CallOptions::default()).map_err(|error| error.to_string())?;
    Ok((result.value, result.gradient))
}

fn reals(values: &[f64]) -> Value {
    Value::Reals(values.to_vec())
}

const SAFE: &str = "\
def safe_div (a : Real) (b : Real) : Maybe Real = if b == 0 then Nothing else Just (a / b)
def or_else (d : Real) (m : Maybe Real) : Real = match m with | Just x -> x | Nothing -> d
";

const SHAPE: &str = "\
type Shape = Circle Real | Rect Real Real | Square Real | Dot
def area (s : Shape) : Real = match s with | Circle r -> 3 * r * r | Rect a b -> a * b | Square a -> a * a | Dot -> 0
";

#[test]
fn an_answer_that_may_be_missing_is_no_object() {
    let text =
        format!("{SAFE}def f (xs : Array Real) (y : Real) : Real = sum (map (\\x -> or_else 7 (safe_div y x)) xs)");
    assert_eq!(objects(&text), 0);
    let found = gradient(&text, &[reals(&[2.0, 0.0, 4.0]), Value::Real(6.0)]);
    assert_eq!(found, Ok((3.0 + 7.0 + 1.5, vec![reals(&[-1.5, 0.0, -0.375]), Value::Real(0.75)])));
    // The answer is asked for in one place and used in another.
    let text = format!(
        "{SAFE}def f (x : Real) (y : Real) : Real =
        let half = match safe_div x y with | Just q -> Just (q / 2) | Nothing -> Nothing in
        match half with | Just q -> q * q | Nothing -> x"
    );
    assert_eq!(objects(&text), 0);
    assert_eq!(gradient(&text, &[6.0.into(), 1.0.into()]), Ok((9.0, vec![3.0.into(), (-18.0).into()])));
    assert_eq!(gradient(&text, &[6.0.into(), 0.0.into()]), Ok((6.0, vec![1.0.into(), 0.0.into()])));
}

#[test]
fn a_choice_by_a_choice_by_a_choice_is_one() {
    let text = "def f (x : Real) : Real =
      let m = if x > 1 then Just (x / 2) else Nothing in
      let n = (match m with | Just y -> if y > 2 then Just (y + 1) else Nothing | Nothing -> Just (x * 1.5)) in
      match n with | Just y -> y * y | Nothing -> cos x";
    assert_eq!(objects(text), 0);
    let by_hand = |x: f64| match x {
        x if x <= 1.0 => (x * 1.5).powi(2),
        x if x / 2.0 > 2.0 => (x / 2.0 + 1.0).powi(2),
        x => x.cos(),
    };
    for x in [0.5, 3.0, 6.0] {
        assert_eq!(gradient(text, &[x.into()]).expect("it doesn't trap").0, by_hand(x));
    }
}

#[test]
fn arms_that_several_objects_come_to_are_there_once() {
    let text = "type Shape = Circle Real | Rect Real Real | Square Real
    def f (x : Real) : Real =
      let s = if x > 3 then Rect (sin x) (cos x) else if x > 2 then Square x
              else if x > 1 then Rect x 2 else Circle x in
      match s with | Rect a b -> exp (a * b) - tanh (a - b) | _ -> atan x";
    assert_eq!(objects(text), 0);
    let module = compiled(text);
    let count = |op| module.functions[0].body.code.iter().filter(|inst| inst.op == op).count();
    assert_eq!((count(Op::Exp), count(Op::Tanh), count(Op::Atan)), (1, 1, 1));
    let by_hand = |x: f64| match x {
        x if x > 3.0 => (x.sin() * x.cos()).exp() - (x.sin() - x.cos()).tanh(),
        x if x > 2.0 => x.atan(),
        x if x > 1.0 => (x * 2.0).exp() - (x - 2.0).tanh(),
        x => x.atan(),
    };
    for x in [0.5, 1.5, 2.5, 3.5] {
        let (value, slope) = gradient(text, &[Value::Real(x)]).expect("it doesn't trap");
        let [Value::Real(slope)] = slope[..] else { panic!("one real") };
        let h = 1e-6;
        assert!((value - by_hand(x)).abs() < 1e-12, "{x}: {value}");
        assert!((slope - (by_hand(x + h) - by_hand(x - h)) / (2.0 * h)).abs() < 1e-6, "{x}: {slope}");
    }
}

#[test]
fn loops_over_shapes_make_none() {
    let text = format!(
        "{SHAPE}def f (xs : Array Real) : Real = loop t = 0.0 for i < length xs do
        t + area (if i % 4 == 0 then Circle xs[i] else if i % 4 == 1 then Rect xs[i] 2 else if i % 4 == 2 then Dot
                  else Square xs[i])"
    );
    assert_eq!(objects(&text), 0);
    let found = gradient(&text, &[reals(&[1.0, 2.0, 3.0, 4.0])]);
    assert_eq!(found, Ok((3.0 + 4.0 + 16.0, vec![reals(&[6.0, 2.0, 0.0, 8.0])])));
}

#[test]
fn an_object_with_another_use_is_made() {
    let text = format!(
        "{SHAPE}def f (x : Real) : Real = let s = if x > 0 then Circle x else Dot in
        (match s with | Circle r -> r | _ -> x) + sum (map area [s, s])"
    );
    assert_ne!(objects(&text), 0);
    assert_eq!(gradient(&text, &[2.0.into()]), Ok((2.0 + 24.0, vec![25.0.into()])));
}

#[test]
fn the_trap_that_comes_first_is_the_same() {
    let text = "def f (x : Real) (n : Int) : Real =
      match (if x > 1 then Just (to_real (10 / n)) else if x > 0 then error \"made\" else Nothing) with
      | Just y -> if y > 5 then error \"taken {y}\" else y * x
      | Nothing -> error \"nothing\"";
    assert_eq!(objects(text), 0);
    let message = |x: f64, n| gradient(text, &[Value::Real(x), Value::Int(n)]).unwrap_err();
    assert!(message(2.0, 0).contains("zero"));
    assert!(message(2.0, 1).contains("taken 10"));
    assert!(message(0.5, 1).contains("made"));
    assert!(message(-1.0, 1).contains("nothing"));
    assert_eq!(gradient(text, &[2.0.into(), Value::Int(5)]).map(|found| found.0), Ok(4.0));
}
