//! What tasks look like in the generated code: which functions they are and what is handed to them in registers.

use dualvm_frontend::compile;
use dualvm_vm::text::print;

/// The code of a program's function, without places and what is before the first instruction.
fn code(text: &str, name: &str) -> Vec<String> {
    let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(dualvm_vm::verify::verify(&module).is_ok());
    let printed = print(&module);
    let head = format!(" \"{name}\" ");
    let from = printed.find(&head).unwrap_or_else(|| panic!("no {name} in {printed}"));
    let body = &printed[from..][printed[from..].find("{\n").expect("functions have a body") + 2..];
    let body = &body[..body.find("\n}").expect("functions end")];
    let is_place = |line: &&str| line.trim_start().starts_with('@');
    body.lines().filter(|line| !is_place(line)).map(|line| line.trim().to_owned()).collect()
}

/// The code of several functions, one after the other.
fn codes(text: &str, names: &[&str]) -> Vec<Vec<String>> {
    names.iter().map(|name| code(text, name)).collect()
}

#[test]
fn branches_are_functions_of_the_registers_that_they_mention() {
    let text = "def f (x : Real) (y : Real) (n : Int) = let (a, b) = x * y |*| (x, to_real n) in (b, a)";
    let found = codes(text, &["f", "f.task", "f.task#2"]);
    assert_eq!(found[0][..3], ["fork 2", "task f1 (r0, r1) -> (r2)", "task f2 (r0, i0) -> (r3, r4)"]);
    assert_eq!(found[0][3..], ["ret (r3, r4, r2)"]);
    assert_eq!(found[1], ["mul r1, r0, r1", "ret (r1)"]);
    assert_eq!(found[2], ["to_real r1, i0", "ret (r0, r1)"]);
}

#[test]
fn a_branch_that_is_a_call_is_a_task_of_the_called_function() {
    let text = "def fib (n : Int) : Int =
  if n < 2 then n
  else let (a, b) = fib (n - 1) |*| fib (n - 2) in a + b";
    let fib = code(text, "fib");
    assert_eq!(fib.iter().filter(|line| line.starts_with("task f0 ")).count(), 2, "{fib:?}");
}

#[test]
fn arguments_that_take_time_or_may_trap_are_computed_in_the_task() {
    let text = "def slow (n : Int) (x : Real) : Real = if n == 0 then x else 1 + slow (n - 1) x
def f (n : Int) (x : Real) = slow n (sin (exp x)) |*| slow (n / (n - 1)) x";
    let found = codes(text, &["f", "f.task", "f.task#2"]);
    assert_eq!(found[0], ["fork 2", "task f2 (i0, r0) -> (r1)", "task f3 (i0, r0) -> (r2)", "ret (r1, r2)"]);
    assert!(found[1].contains(&"sin r0, r0".to_owned()) && found[2].iter().any(|line| line.starts_with("idiv")));
}

#[test]
fn variables_and_constants_are_tasks_too() {
    let found = codes("def f (x : Real) = par (x, 1.5, true)", &["f", "f.task#2"]);
    assert_eq!(
        found[0],
        ["fork 3", "task f1 (r0) -> (r1)", "task f2 () -> (r2)", "task f3 () -> (i0)", "ret (r1, r2, i0)"]
    );
    assert_eq!(found[1], ["const r0, 1.5", "ret (r0)"]);
}

#[test]
fn no_result_of_a_task_is_an_argument_of_a_later_one() {
    let text = "def f (n : Int) (x : Real) = loop (a, b) = (x, x) for _ < n do sin b |*| cos a";
    let code = code(text, "f");
    let at = code.iter().position(|line| line == "fork 2").expect("the loop forks");
    assert_eq!(code[at + 1..at + 4], ["task f1 (r2) -> (r0)", "task f2 (r1) -> (r2)", "mov r1, r0"]);
}

#[test]
fn tasks_are_handed_the_registers_that_they_read() {
    let text = "def f (p : { x : Real, y : Real, z : Real }) (n : Int) =
  let q = (n, p) in
  let scale k = k * p.y in
  par (p.x, scale (to_real (fst q)), pbuild n (\\i -> (snd q).z))";
    let found = codes(text, &["f", "f.task#3"]);
    assert_eq!(found[0][1..4], ["task f1 (r0) -> (r3)", "task f2 (r1, i0) -> (r4)", "task f3 (i0, r2) -> (p0)"]);
    assert!(found[1].contains(&"pmap p0, f4, i0 (r0)".to_owned()), "{:?}", found[1]);
}

#[test]
fn arguments_of_tasks_that_begin_together_are_bounded() {
    let tuple = vec!["Real"; 100].join(", ");
    let program = |tasks: usize| {
        let branches: Vec<String> = (0..tasks).map(|n| format!("g (t, {n})")).collect();
        format!(
            "def g (t : (({tuple}), Int)) : Real = if snd t == 0 then 1 else g (fst t, snd t - 1)
def f (t : ({tuple})) = par ({})",
            branches.join(", ")
        )
    };
    assert!(compile("test.dual", &program(163)).is_ok());
    let errors = compile("test.dual", &program(164)).expect_err("16,400 arguments").to_string();
    assert!(errors.contains("more than 16384 arguments of tasks that begin together"), "{errors}");
}

#[test]
fn tasks_that_do_nothing_are_left_in_as_calls_are() {
    let code = code("def f (x : Real) = let (_, b) = error \"no\" |*| x in b", "f");
    assert_eq!(code, ["fork 2", "task f1 () -> ()", "task f2 (r0) -> (r1)", "ret (r1)"]);
}

#[test]
fn functions_that_are_known_go_through_tasks_as_their_captures() {
    let text = "def f (k : Real) (x : Real) = let (g, h) = (\\y -> k * y) |*| (+ x) in g (h x)";
    let found = code(text, "f");
    assert_eq!(found[..3], ["fork 2", "task f1 (r0) -> (r2)", "task f2 (r1) -> (r3)"]);
    assert!(!found.iter().any(|line| line.contains("closure")), "{found:?}");
}

#[test]
fn a_part_of_pbuild_is_one_loop_with_its_free_variables_in_registers() {
    let text = "def f (n : Int) (a : Real) (xs : Array Real) = pbuild n (\\i -> a * xs[i] + to_real n)";
    let found = codes(text, &["f", "f.lambda.part"]);
    assert_eq!(found[0][2..], ["pmap p0, f1, i2 (i0, r0, p0)", "ret (p0)"]);
    let calls = found[1].iter().filter(|line| line.starts_with("call")).count();
    let branches = found[1].iter().filter(|line| line.starts_with("branch")).count();
    assert_eq!((calls, branches), (0, 2), "{:?}", found[1]);
}

#[test]
fn pmap_and_preduce_are_told_apart_by_their_collections() {
    let arrays = "def f (xs : Array Real) = preduce (+) 0 (pmap (* 2) xs)";
    assert!(!code(arrays, "f").iter().any(|line| line.contains("variant")));
    // What is known later counts too: here from the result, and from a call of a local function.
    let later = "def f (xs : Array Real) =
  let doubled ys = pmap (* 2) ys in
  let total g = preduce (+) 0 (g xs) in
  total doubled
def g (n : Int) : List Real = let empty = pmap sin in (empty << to_list) n
def to_list (n : Int) = [to_real n]";
    assert!(compile("test.dual", later).is_ok());
}
