//! Texts that code generators write: long, deep and regular, where people would use a loop or an array.
//!
//! Each text defines `main (x : Real) (n : Int) : Real`. Its length is linear in the size, and so should be the time
//! that the compiler takes; where a text means exponentially much, its description says so.

use std::fmt::Write;

/// A family of texts.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// The text of this size; 1 is the smallest.
    pub(crate) write: fn(usize) -> String,
    /// A size at which compiling takes milliseconds.
    pub(crate) small: usize,
}

/// Every family.
pub(crate) const ALL: &[Family] = &[
    Family { name: "selections", write: selections, small: 60 },
    Family { name: "branches", write: branches, small: 30 },
    Family { name: "chain of lets", write: chain_of_lets, small: 60 },
    Family { name: "lets in lets", write: lets_in_lets, small: 40 },
    Family { name: "long sum", write: long_sum, small: 60 },
    Family { name: "deep application", write: deep_application, small: 40 },
    Family { name: "deep parentheses", write: deep_parentheses, small: 40 },
    Family { name: "chain of else", write: chain_of_else, small: 40 },
    Family { name: "conditions in conditions", write: conditions_in_conditions, small: 20 },
    Family { name: "match of constructors", write: match_of_constructors, small: 30 },
    Family { name: "match of numbers", write: match_of_numbers, small: 30 },
    Family { name: "match of columns", write: match_of_columns, small: 6 },
    Family { name: "list literal", write: list_literal, small: 60 },
    Family { name: "array literal", write: array_literal, small: 60 },
    Family { name: "record of many fields", write: wide_record, small: 30 },
    Family { name: "records in records", write: records_in_records, small: 12 },
    Family { name: "chain of definitions", write: chain_of_definitions, small: 40 },
    Family { name: "definitions that double", write: doubling_definitions, small: 6 },
    Family { name: "definition of many parameters", write: many_parameters, small: 40 },
    Family { name: "lambdas in lambdas", write: lambdas_in_lambdas, small: 12 },
    Family { name: "pipeline", write: pipeline, small: 30 },
    Family { name: "tower of twice", write: tower_of_twice, small: 4 },
    Family { name: "tower of pairs", write: tower_of_pairs, small: 5 },
    Family { name: "loops in loops", write: loops_in_loops, small: 5 },
    Family { name: "loop of a wide state", write: wide_state, small: 30 },
    Family { name: "tasks in tasks", write: tasks_in_tasks, small: 6 },
];

const HEAD: &str = "def main (x : Real) (n : Int) : Real =\n";

/// The body of `main` between what comes before each of `count` parts and what comes after all of them.
fn main_of(count: usize, part: impl Fn(usize) -> String, end: &str) -> String {
    let parts: String = (0..count).map(part).collect();
    format!("{HEAD}{parts}  {end}\n")
}

/// The names with this letter and the numbers below `count`, with something between.
fn names(letter: char, count: usize, between: &str) -> String {
    (0..count).map(|at| format!("{letter}{at}")).collect::<Vec<_>>().join(between)
}

/// Names for values that one of two cases gives, each independent of the others, and their sum.
pub(crate) fn selections(count: usize) -> String {
    let part = |at| format!("  let b{at} = if n > {at} then x * {at}.5 else x in\n");
    main_of(count, part, &names('b', count, " + "))
}

/// As [`selections`], with cases that are too much to be computed both, each with the ones before.
pub(crate) fn branches(count: usize) -> String {
    let part = |at: usize| {
        let before = at.checked_sub(1).map_or("x".to_owned(), |before| format!("b{before}"));
        format!("  let b{at} = if {before} > {at}.5 then sin {before} * exp x else log (1 + {before} ^ 2) in\n")
    };
    main_of(count, part, &names('b', count, " + "))
}

/// Names for values, each computed from the one before and from one far before it.
pub(crate) fn chain_of_lets(count: usize) -> String {
    let part = |at: usize| match at {
        0 => "  let v0 = x in\n".to_owned(),
        _ => format!("  let v{at} = v{} * 0.5 + v{} in\n", at - 1, at / 2),
    };
    main_of(count, part, &format!("v{}", count - 1))
}

/// A name in the value of a name, `depth` deep.
pub(crate) fn lets_in_lets(depth: usize) -> String {
    let open: String = (0..depth).map(|at| format!("let v{at} = ")).collect();
    let close: String = (0..depth).rev().map(|at| format!(" in v{at} * 0.5 + x")).collect();
    format!("{HEAD}  {open}x{close}\n")
}

/// One sum of `count` products.
pub(crate) fn long_sum(count: usize) -> String {
    let terms: Vec<String> = (0..count).map(|at| format!("{at}.25 * x")).collect();
    format!("{HEAD}  {}\n", terms.join(" + "))
}

/// `sin (cos (sin (… x)))`.
pub(crate) fn deep_application(depth: usize) -> String {
    let open: String = (0..depth).map(|at| if at % 2 == 0 { "sin (" } else { "cos (" }).collect();
    format!("{HEAD}  {open}x{}\n", ")".repeat(depth))
}

/// `((((x))))`.
pub(crate) fn deep_parentheses(depth: usize) -> String {
    format!("{HEAD}  {}x{}\n", "(".repeat(depth), ")".repeat(depth))
}

/// `if n == 0 then … else if n == 1 then … else …`.
pub(crate) fn chain_of_else(count: usize) -> String {
    main_of(count, |at| format!("  if n == {at} then x * {at}.5 else\n"), "sin x")
}

/// A condition that a condition gives, `depth` deep.
pub(crate) fn conditions_in_conditions(depth: usize) -> String {
    let close: String = (0..depth).map(|at| format!(" then n > {at} else n < {at}")).collect();
    format!("{HEAD}  if {}x > 0.0{close} then x else sin x\n", "if ".repeat(depth))
}

/// A type of `count` constructors, and a match with an arm for each.
pub(crate) fn match_of_constructors(count: usize) -> String {
    let constructors: Vec<String> = (0..count).map(|at| format!("C{at} Real")).collect();
    let mut out = format!("type Choice = {}\n", constructors.join(" | "));
    let cases: String = (0..count - 1).map(|at| format!("  if n == {at} then C{at} x else\n")).collect();
    let _ = writeln!(out, "def choose (x : Real) (n : Int) : Choice =\n{cases}  C{} x", count - 1);
    let arms: String = (0..count).map(|at| format!("  | C{at} y -> y * {at}.5\n")).collect();
    let _ = write!(out, "{HEAD}  match choose x n with\n{arms}");
    out
}

/// A match with `count` arms for numbers.
pub(crate) fn match_of_numbers(count: usize) -> String {
    let arms: String = (0..count).map(|at| format!("  | {at} -> x * {at}.5\n")).collect();
    format!("{HEAD}  match n with\n{arms}  | _ -> sin x\n")
}

/// A match on `count` booleans, whose n-th arm looks at the n-th and at the one after: trees of decisions that are not
/// shared are exponential.
pub(crate) fn match_of_columns(count: usize) -> String {
    let scrutinees: Vec<String> = (0..=count).map(|at| format!("n > {at}")).collect();
    let arm = |at: usize| {
        let columns: Vec<&str> = (0..=count).map(|c| if c == at || c == at + 1 { "true" } else { "_" }).collect();
        format!("  | ({}) -> x * {at}.5\n", columns.join(", "))
    };
    let arms: String = (0..count).map(arm).collect();
    format!("{HEAD}  match ({}) with\n{arms}  | _ -> sin x\n", scrutinees.join(", "))
}

fn elements(count: usize) -> String {
    (0..count).map(|at| format!("x * {at}.5")).collect::<Vec<_>>().join(", ")
}

/// The sum of a list of `count` elements that is written out.
pub(crate) fn list_literal(count: usize) -> String {
    format!("{HEAD}  fold (+) 0.0 [{}]\n", elements(count))
}

/// The sum of an array of `count` elements that is written out.
pub(crate) fn array_literal(count: usize) -> String {
    format!("{HEAD}  loop total = 0.0 for y in [| {} |] do total + y\n", elements(count))
}

/// A record of `count` fields that a function takes and gives.
pub(crate) fn wide_record(count: usize) -> String {
    let fields: Vec<String> = (0..count).map(|at| format!("f{at} : Real")).collect();
    let values: Vec<String> = (0..count).map(|at| format!("f{at} = x * {at}.5")).collect();
    let reads: Vec<String> = (0..count).map(|at| format!("r.f{at}")).collect();
    format!(
        "alias Wide = {{ {} }}\ndef first (r : Wide) : Wide = {{ r with f0 = 1.5 }}\n{HEAD}  \
         let r = first {{ {} }} in\n  {}\n",
        fields.join(", "),
        values.join(", "),
        reads.join(" + ")
    )
}

/// `depth` types, each with two fields of the one before: a value has 2 to the power of `depth` reals.
pub(crate) fn records_in_records(depth: usize) -> String {
    let mut out = "type T0 = T0 { a : Real, b : Real }\n".to_owned();
    for at in 1..depth {
        let before = at - 1;
        let _ = writeln!(out, "type T{at} = T{at} {{ a : T{before}, b : T{before} }}");
    }
    let lets = |at: usize| match at {
        0 => "  let t0 = T0 { a = x, b = x * 0.5 } in\n".to_owned(),
        _ => format!("  let t{at} = T{at} {{ a = t{0}, b = t{0} }} in\n", at - 1),
    };
    out + &main_of(depth, lets, &format!("t{}{}", depth - 1, ".b".repeat(depth)))
}

/// `count` definitions, each of which calls the one before.
pub(crate) fn chain_of_definitions(count: usize) -> String {
    let mut out = "def f0 (x : Real) (n : Int) : Real = sin x\n".to_owned();
    for at in 1..count {
        let _ = writeln!(
            out,
            "def f{at} (x : Real) (n : Int) : Real = if n > {at} then f{0} (x * 0.5) n else f{0} x (n + 1)",
            at - 1
        );
    }
    out + &format!("{HEAD}  f{} x n\n", count - 1)
}

/// `depth` definitions, each of which calls the one before twice: it takes 2 to the power of `depth` calls, and as much
/// code if all are inlined.
pub(crate) fn doubling_definitions(depth: usize) -> String {
    let mut out = "def f0 (x : Real) : Real = sin x\n".to_owned();
    for at in 1..depth {
        let _ = writeln!(out, "def f{at} (x : Real) : Real = f{0} (x * 0.5) + f{0} (x + 1.0)", at - 1);
    }
    out + &format!("{HEAD}  f{} x\n", depth - 1)
}

/// A recursive definition of `count` parameters that it moves on by one.
pub(crate) fn many_parameters(count: usize) -> String {
    let params: String = (0..count).map(|at| format!(" (a{at} : Real)")).collect();
    let moved: String = (0..count).map(|at| format!(" a{}", (at + 1) % count)).collect();
    let args: String = (0..count).map(|at| format!(" (x * {at}.5)")).collect();
    format!(
        "def wide (n : Int){params} : Real =\n  if n <= 0 then {} else a0 * 0.5 + wide (n - 1){moved}\n\
         {HEAD}  wide n{args}\n",
        names('a', count, " + ")
    )
}

/// Functions that return functions, `depth` deep, each of which uses the parameters of all outer ones.
pub(crate) fn lambdas_in_lambdas(depth: usize) -> String {
    let open: String = (0..depth).map(|at| format!("\\a{at} -> ")).collect();
    let applied: String = (0..depth).map(|at| format!(" (x * {at}.5)")).collect();
    format!("{HEAD}  let f = {open}{} in\n  f{applied}\n", names('a', depth, " + "))
}

/// `x |> f |> g |> …`.
pub(crate) fn pipeline(count: usize) -> String {
    main_of(count, |at| format!("  {} |>\n", if at == 0 { "x" } else { "(\\y -> sin y * 0.5)" }), "cos")
}

/// `twice (twice (… sin)) x`: the sine 2 to the power of `depth` times, and as much code if all is inlined.
pub(crate) fn tower_of_twice(depth: usize) -> String {
    let open = "twice (".repeat(depth);
    format!("def twice f x = f (f x)\n{HEAD}  {open}sin{} x\n", ")".repeat(depth))
}

/// Functions that pair, each made of the one before: a type of 2 to the power of `depth` parts.
pub(crate) fn tower_of_pairs(depth: usize) -> String {
    let lets = |at: usize| match at {
        0 => "  let p0 y = (y, y) in\n".to_owned(),
        _ => format!("  let p{at} y = p0 (p{} y) in\n", at - 1),
    };
    let firsts = "let (y, _) = y in ".repeat(depth - 1);
    main_of(depth, lets, &format!("let y = p{} x in {firsts}let (y, _) = y in y", depth - 1))
}

/// Loops in loops, `depth` deep, of `n` rounds each.
pub(crate) fn loops_in_loops(depth: usize) -> String {
    let open: String = (0..depth).map(|at| format!("  loop y{at} = x for i{at} < n do\n")).collect();
    let inner = names('y', depth, " * 0.5 + ");
    format!("{HEAD}{open}  {inner}\n")
}

/// A loop with an accumulator of `count` reals, which it moves on by one.
pub(crate) fn wide_state(count: usize) -> String {
    let start = vec!["x"; count].join(", ");
    let moved: Vec<String> = (0..count).map(|at| format!("a{} * 0.5", (at + 1) % count)).collect();
    let state = names('a', count, ", ");
    format!(
        "{HEAD}  let ({state}) = loop ({state}) = ({start}) for i < n do ({}) in\n  {}\n",
        moved.join(", "),
        names('a', count, " + ")
    )
}

/// Tasks in tasks, `depth` deep.
pub(crate) fn tasks_in_tasks(depth: usize) -> String {
    let open: String = (0..depth).map(|at| format!("let (a{at}, b{at}) = sin (x * {at}.5) |*| (")).collect();
    let close: String = (0..depth).rev().map(|at| format!(") in a{at} + b{at}")).collect();
    format!("{HEAD}  {open}x{close}\n")
}
