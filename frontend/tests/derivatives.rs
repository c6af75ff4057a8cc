//! What derivative operators look like in the generated code: which functions they are of, what is handed to these in
//! registers, and what becomes of parts that have no derivative.

use dualvm_frontend::compile;
use dualvm_vm::module::ValueType;
use dualvm_vm::text::print;

/// The code of some functions of a program, without places and what is before the first instruction.
fn codes(text: &str, names: &[&str]) -> Vec<Vec<String>> {
    let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(dualvm_vm::verify::verify(&module).is_ok());
    let printed = print(&module);
    let code = |name: &&str| {
        let head = format!(" \"{name}\" ");
        let from = printed.find(&head).unwrap_or_else(|| panic!("no {name} in {printed}"));
        let body = &printed[from..][printed[from..].find("{\n").expect("functions have a body") + 2..];
        let body = &body[..body.find("\n}").expect("functions end")];
        let is_place = |line: &&str| line.trim_start().starts_with('@');
        body.lines().filter(|line| !is_place(line)).map(|line| line.trim().to_owned()).collect()
    };
    names.iter().map(code).collect()
}

fn code(text: &str, name: &str) -> Vec<String> {
    codes(text, &[name]).remove(0)
}

#[test]
fn the_function_of_an_operator_has_its_captures_first() {
    let found = codes("def f (x : Real) (a : Real) = jvp (\\y -> y * a) (x + 1.0) 2.0", &["f", "f.lambda"]);
    assert_eq!(found[0][2..], ["const r5, 2.0", "jvp f1, 1 (r1, r0, r5) -> (r3, r4)", "ret (r3, r4)"]);
    assert_eq!(found[1], ["mul r0, r1, r0", "ret (r0)"]);
}

#[test]
fn a_definition_is_differentiated_itself_and_what_it_was_given_is_captured() {
    let text = "def slow (n : Int) (x : Real) : Real = if n == 0 then x else 1.0 + slow (n - 1) (sin x)
def f (x : Real) = derivative (slow 9) x
def g (x : Real) = grad (slow 9) x";
    let found = codes(text, &["f", "g"]);
    assert_eq!(found[0], ["iconst i0, 9", "const r3, 1.0", "jvp f0, 1 (i0, r0, r3) -> (r1, r2)", "ret (r2)"]);
    assert_eq!(found[1], ["iconst i0, 9", "const r3, 1.0", "vjp f0, 1 (i0, r0, r3) -> (r1, r2)", "ret (r2)"]);
}

#[test]
fn integers_have_no_tangents_and_keep_their_places() {
    let text = "def f (x : Real) (n : Int) (t : Bool) =
  jvp (\\(x, n, t) -> if t then ([x], n, x, t) else ([sin x], n + 1, 2.0, t)) (x, n, t) (3.0, n + 7, true)
def g (x : Real) (n : Int) = grad (\\{ x, n } -> x ^ n) { x = x, n = n }";
    let found = codes(text, &["f", "g"]);
    let jvp = found[0].iter().find(|line| line.starts_with("jvp")).expect("there is one");
    assert_eq!(jvp, "jvp f2, 0 (r0, i0, i1, r3) -> (p0, i2, r1, i3, p1, r2)");
    assert_eq!(found[0][found[0].len() - 2..], ["iconst i4, 0", "ret (p0, i2, r1, i3, p1, i4, r2, i4)"]);
    // A record's fields are in the order of their names.
    let last = &found[1][found[1].len() - 3..];
    assert_eq!(last, ["vjp f3, 0 (i0, r0, r3) -> (r1, r2)", "iconst i1, 0", "ret (i1, r2)"]);
}

#[test]
fn a_function_that_is_not_known_is_captured_as_a_value() {
    let text = "def f (fs : Array (Real -> Real)) (i : Int) (x : Real) = derivative fs[i] x
def g (i : Int) (x : Real) = f [| sin, cos |] i x";
    let found = code(text, "g");
    let jvp = found.iter().position(|line| line.starts_with("jvp")).expect("there is one");
    assert_eq!(found[jvp - 2..jvp - 1], ["pelem p1, p2, i0"]);
    assert!(found[jvp].ends_with(", 1 (p1, r0, r3) -> (r1, r2)"), "{}", found[jvp]);
}

#[test]
fn what_is_captured_and_not_read_is_dropped() {
    let text = "def f (p : { a : Real, b : Real, c : List Real }) (q : (Int, Real)) (x : Real) =
  let scale k = k * p.b + snd q in
  grad (\\(z, n) -> scale z * 2.0) (x, fst q)";
    let found = codes(text, &["f", "f.lambda"]);
    // The argument stays as it is, whether it is read or not.
    assert_eq!(found[0][1], "vjp f1, 2 (r1, r2, r3, i0, r5) -> (r0, r4)");
    assert_eq!(found[1].len(), 5, "{:?}", found[1]);
}

#[test]
fn operators_stand_in_functions_of_operators_and_in_tasks() {
    let text = "def f (x : Real) = derivative (\\y -> y * derivative (\\z -> z * z * y) x) x
def g (x : Real) = derivative sin x |*| grad (\\y -> let (a, b) = y * x |*| y in a * b) x
def h (n : Int) (x : Real) : Real = if n == 0 then x else derivative (\\y -> y * h (n - 1) y) x";
    let found = codes(text, &["f", "f.lambda", "g", "g.task.lambda", "h", "h.lambda"]);
    let holds = |n: usize, start: &str| assert!(found[n].iter().any(|line| line.starts_with(start)), "{:?}", found[n]);
    ["jvp", "jvp", "fork 2", "fork 2", "jvp", "jvp"].into_iter().enumerate().for_each(|(n, start)| holds(n, start));
    // A captured variable of the operator around is one of this operator's captures.
    assert!(found[1].iter().any(|line| line.contains(", 1 (r1, r0, ")), "{:?}", found[1]);
}

#[test]
fn an_operator_stays_where_it_is_though_nobody_reads_what_it_gives() {
    let found = code("def f (x : Real) = let _ = jvp (\\y -> y / x) x x in x", "f");
    assert!(found.iter().any(|line| line.starts_with("jvp")), "{found:?}");
}

#[test]
fn what_is_detached_is_so_part_by_part() {
    let text = "def f (x : Real) (n : Int) (xs : List Real) = detach (x, n, xs)
def g (x : Real) = let y = x * x in detach y * y + detach (y + 1.0)";
    let found = codes(text, &["f", "g"]);
    assert_eq!(found[0], ["detach r0, r0", "pdetach p0, p0", "ret (r0, i0, p0)"]);
    assert_eq!(found[1].iter().filter(|line| line.starts_with("detach")).count(), 2, "{:?}", found[1]);
}

#[test]
fn lists_and_arrays_are_told_apart_in_functions_that_are_differentiated() {
    let text = "def f = grad (\\xs -> sum xs) [1.0]
def g (xs : Array Real) = grad (\\xs -> sum (map sin xs)) xs
def h (xs : Array Real) = jvp (\\xs -> preduce (+) 0.0 xs) xs xs";
    codes(text, &["f", "g", "h"]);
}

#[test]
fn a_derivative_of_the_program_is_given_to_a_value() {
    let text = "def f (x : Real) (n : Int) (k : Real) =
  custom_vjp (\\(x, n : Int) -> (k * x ^ n, n)) (\\(x, n) (c, m) -> (c * x, m + n)) (x, n)";
    let code = code(text, "f");
    assert_eq!(code[..2], ["primal f2, 1 (r1, r0, i0) -> (r2, i1)", "custom_vjp f1, 0 (r0, i0, r2, i1) -> (r1, i2)"]);
    // It takes no cotangent of an integer, and gives none.
    let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    let rule = &module.functions[1];
    assert_eq!(rule.params, [ValueType::Real, ValueType::Int, ValueType::Real]);
    assert_eq!(rule.results, [ValueType::Real]);
}
