//! What a `match` chooses, compared with trying one case after the other: random patterns, many cases, and cases that
//! no decision tree of a reasonable size tells apart.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Engine, Function, Module};
use dualvm_vm::value::Value;
use std::fmt::{self, Write};

fn function(text: &str) -> Function {
    let def = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let module = Module::new(&Engine::default(), def);
    let module = module.unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]));
    module.function("f").expect("the program defines `f`")
}

fn int(f: &Function, args: &[Value]) -> i64 {
    match f.call(args) {
        Ok(Value::Int(n)) => n,
        other => panic!("{other:?}"),
    }
}

/// A value of the types that the random matches have.
#[derive(Clone, Debug)]
enum Datum {
    Int(i64),
    Bool(bool),
    /// A constructor of [`TYPE`], with its fields.
    Made(usize, Vec<Datum>),
    List(Vec<Datum>),
    Tuple(Vec<Datum>),
}

/// `T` has constants and constructors with fields, one of them a `T` again; more than a table of jumps is made for.
const TYPE: [&[Kind]; 60] = {
    let mut all: [&[Kind]; 60] = [&[]; 60];
    all[1] = &[Kind::Int];
    all[7] = &[Kind::Int, Kind::Made];
    all[12] = &[Kind::Bool, Kind::List];
    all
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Bool,
    Made,
    List,
    /// Of an `Int`, a `T` and a list of `Int`s.
    Tuple,
}

#[derive(Clone)]
enum Pattern {
    Any,
    /// The number of the variable.
    Name(usize),
    Int(i64),
    Bool(bool),
    Made(usize, Vec<Pattern>),
    List(Vec<Pattern>),
    Cons(Box<Pattern>, Box<Pattern>),
    Tuple(Vec<Pattern>),
    Or(Vec<Pattern>),
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Pattern], ends: [&str; 2], between: &str| {
            f.write_str(ends[0])?;
            for (i, part) in parts.iter().enumerate() {
                write!(f, "{}{part}", if i > 0 { between } else { "" })?;
            }
            f.write_str(ends[1])
        };
        match self {
            Pattern::Any => f.write_str("_"),
            Pattern::Name(n) => write!(f, "v{n}"),
            Pattern::Int(n) => write!(f, "({n})"),
            Pattern::Bool(b) => write!(f, "{b}"),
            Pattern::Made(n, parts) if parts.is_empty() => write!(f, "C{n}"),
            Pattern::Made(n, parts) => list(f, parts, [&format!("(C{n} "), ")"], " "),
            Pattern::List(parts) => list(f, parts, ["[", "]"], ", "),
            Pattern::Cons(head, tail) => write!(f, "({head} :: {tail})"),
            Pattern::Tuple(parts) => list(f, parts, ["(", ")"], ", "),
            Pattern::Or(parts) => list(f, parts, ["(", ")"], " | "),
        }
    }
}

/// Whether a value matches, trying alternatives from left to right. Binds integers to the names.
fn matches(pattern: &Pattern, value: &Datum, bound: &mut Vec<(usize, i64)>) -> bool {
    let all = |patterns: &[Pattern], values: &[Datum], bound: &mut Vec<(usize, i64)>| {
        patterns.len() == values.len() && patterns.iter().zip(values).all(|(p, v)| matches(p, v, bound))
    };
    match (pattern, value) {
        (Pattern::Any, _) => true,
        (Pattern::Name(n), Datum::Int(value)) => {
            bound.push((*n, *value));
            true
        }
        (Pattern::Int(a), Datum::Int(b)) => a == b,
        (Pattern::Bool(a), Datum::Bool(b)) => a == b,
        (Pattern::Made(a, patterns), Datum::Made(b, values)) => a == b && all(patterns, values, bound),
        (Pattern::List(patterns), Datum::List(values)) | (Pattern::Tuple(patterns), Datum::Tuple(values)) => {
            all(patterns, values, bound)
        }
        (Pattern::Cons(head, tail), Datum::List(values)) => match values.split_first() {
            Some((first, rest)) => matches(head, first, bound) && matches(tail, &Datum::List(rest.to_vec()), bound),
            None => false,
        },
        (Pattern::Or(parts), value) => {
            let mark = bound.len();
            parts.iter().any(|part| {
                bound.truncate(mark);
                matches(part, value, bound)
            })
        }
        _ => unreachable!("patterns have the types of values"),
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn value(&mut self, kind: Kind, depth: usize) -> Datum {
        match kind {
            Kind::Int => Datum::Int(self.below(12) as i64 - 1),
            Kind::Bool => Datum::Bool(self.below(2) == 0),
            Kind::Made => {
                let n = if depth == 0 { 2 } else { [1, 7, 12, self.below(60)][self.below(4)] };
                Datum::Made(n, TYPE[n].iter().map(|&kind| self.value(kind, depth.saturating_sub(1))).collect())
            }
            Kind::List => Datum::List((0..self.below(4)).map(|_| self.value(Kind::Int, 0)).collect()),
            Kind::Tuple => Datum::Tuple(PARTS.iter().map(|&kind| self.value(kind, 2)).collect()),
        }
    }

    /// A pattern without names, or with the one that all patterns of an alternative must have.
    fn pattern(&mut self, kind: Kind, depth: usize, names: &mut Option<usize>) -> Pattern {
        if depth == 0 || self.below(4) == 0 {
            return match names {
                Some(n) if kind == Kind::Int && self.below(2) == 0 => {
                    *n += 1;
                    Pattern::Name(*n - 1)
                }
                _ => Pattern::Any,
            };
        }
        if self.below(5) == 0 {
            let parts = (0..2 + self.below(3)).map(|_| self.pattern(kind, depth - 1, &mut None)).collect();
            return Pattern::Or(parts);
        }
        let mut parts = |dice: &mut Dice, kinds: &[Kind]| -> Vec<Pattern> {
            kinds.iter().map(|&kind| dice.pattern(kind, depth - 1, names)).collect()
        };
        match kind {
            Kind::Int => Pattern::Int(self.below(12) as i64 - 1),
            Kind::Bool => Pattern::Bool(self.below(2) == 0),
            Kind::Made => {
                let n = [1, 7, 12, self.below(60)][self.below(4)];
                Pattern::Made(n, parts(self, TYPE[n]))
            }
            Kind::List if self.below(2) == 0 => {
                let count = self.below(4);
                Pattern::List(parts(self, &vec![Kind::Int; count]))
            }
            Kind::List => {
                let mut both = parts(self, &[Kind::Int, Kind::List]);
                let tail = both.pop().expect("there are two");
                Pattern::Cons(Box::new(both.remove(0)), Box::new(tail))
            }
            Kind::Tuple => Pattern::Tuple(parts(self, &PARTS)),
        }
    }
}

const PARTS: [Kind; 3] = [Kind::Int, Kind::Made, Kind::List];

fn declaration() -> String {
    let field = |kind: &Kind| match kind {
        Kind::Int => " Int",
        Kind::Bool => " Bool",
        Kind::Made => " T",
        Kind::List | Kind::Tuple => " (List Int)",
    };
    let constructor = |(n, fields): (usize, &&[Kind])| format!("C{n}{}", fields.iter().map(field).collect::<String>());
    let all: Vec<String> = TYPE.iter().enumerate().map(constructor).collect();
    format!("type T = {}\n", all.join(" | "))
}

fn host(value: &Datum) -> Value {
    match value {
        Datum::Int(n) => Value::Int(*n),
        Datum::Bool(b) => Value::Bool(*b),
        Datum::Made(n, fields) => Value::variant(format!("C{n}"), Value::Tuple(fields.iter().map(host).collect())),
        Datum::List(items) => Value::Array(items.iter().map(host).collect()),
        Datum::Tuple(parts) => Value::Tuple(parts.iter().map(host).collect()),
    }
}

/// A case: its pattern, how many names it binds, and a number that its first name must be below.
struct Case {
    pattern: Pattern,
    names: usize,
    below: Option<i64>,
}

fn random_cases(dice: &mut Dice, count: usize) -> Vec<Case> {
    let cases = (0..count).map(|_| {
        let mut names = Some(0);
        let pattern = dice.pattern(Kind::Tuple, 4, &mut names);
        let names = names.expect("it was given");
        let below = (names > 0 && dice.below(2) == 0).then(|| dice.below(8) as i64);
        Case { pattern, names, below }
    });
    cases.collect()
}

/// Each case gives its number and its names. Lines of text from the third on are the cases.
fn program(cases: &[Case]) -> String {
    let mut text = declaration() + "def f (x : (Int, T, List Int)) : Int = match x with\n";
    for (n, case) in cases.iter().enumerate() {
        let guard = case.below.map_or(String::new(), |below| format!(" if v0 < {below}"));
        let names: String = (0..case.names).map(|n| format!(" + {} * v{n}", 3 + n)).collect();
        writeln!(text, "  | {}{guard} -> {}{names}", case.pattern, 1000 * n).expect("writing to a string succeeds");
    }
    text + "  | _ -> -1\n"
}

fn expected(cases: &[Case], value: &Datum) -> i64 {
    for (n, case) in cases.iter().enumerate() {
        let mut bound = Vec::new();
        if matches(&case.pattern, value, &mut bound) {
            let of = |name: usize| bound.iter().find(|(n, _)| *n == name).expect("it is bound").1;
            if case.below.is_none_or(|below| of(0) < below) {
                return 1000 * n as i64 + (0..case.names).map(|n| (3 + n as i64) * of(n)).sum::<i64>();
            }
        }
    }
    -1
}

/// Leaves out cases that are never reached, which is an error; the program with the others.
fn without_unreached(cases: &mut Vec<Case>) -> String {
    loop {
        let text = program(cases);
        let Err(errors) = compile("cases.dual", &text) else { return text };
        if errors.list()[0].message == "the cases of this `match` are too complicated to be checked" {
            cases.truncate(cases.len() / 2);
            continue;
        }
        let line = |error: &dualvm_frontend::Diagnostic| {
            assert_eq!(error.message, "this case is never reached", "{errors}");
            let (source, span) = errors.file(error.primary.span);
            source.line_and_column(span.start).0 as usize
        };
        let mut lines: Vec<usize> = errors.list().iter().map(line).collect();
        lines.dedup();
        // If it is the last one, the cases before it match everything.
        if lines == [3 + cases.len()] {
            cases.pop();
        }
        lines.retain(|&line| line < 3 + cases.len());
        lines.into_iter().rev().for_each(|line| _ = cases.remove(line - 3));
    }
}

#[test]
fn random_matches_choose_the_first_case_that_matches() {
    let mut dice = Dice(7);
    let mut done = 0;
    for round in 0..150 {
        let count = if round % 10 == 0 { 60 } else { 1 + dice.below(12) };
        let mut cases = random_cases(&mut dice, count);
        let text = without_unreached(&mut cases);
        if cases.is_empty() {
            continue;
        }
        let f = function(&text);
        for _ in 0..60 {
            let value = dice.value(Kind::Tuple, 2);
            assert_eq!(int(&f, &[host(&value)]), expected(&cases, &value), "{value:?}\n{text}");
        }
        done += 1;
    }
    assert!(done > 80, "{done}");
}

#[test]
fn cases_that_would_multiply_are_tried_one_after_the_other() {
    // Each case tests one of three columns: a tree would have a copy of every other case for each of them.
    let mut cases = Vec::new();
    for n in 0..120 {
        let mut parts = vec![Pattern::Any, Pattern::Any, Pattern::Any];
        parts[n % 3] = [
            Pattern::Int(n as i64 % 11),
            Pattern::Made(n % 60, TYPE[n % 60].iter().map(|_| Pattern::Any).collect()),
            Pattern::Cons(Box::new(Pattern::Int(n as i64 % 13)), Box::new(Pattern::Any)),
        ]
        .into_iter()
        .nth(n % 3)
        .expect("there are three");
        // A second test that often fails, so that later cases are reached.
        parts[(n + 1) % 3] = match (n + 1) % 3 {
            0 => Pattern::Or(vec![Pattern::Int(n as i64 % 7), Pattern::Int(n as i64 % 5 + 1)]),
            2 => Pattern::List(vec![Pattern::Any; n % 4]),
            _ => Pattern::Made(7, vec![Pattern::Int(n as i64 % 12), Pattern::Any]),
        };
        cases.push(Case { pattern: Pattern::Tuple(parts), names: 0, below: None });
    }
    let text = without_unreached(&mut cases);
    assert!(cases.len() > 60, "{}", cases.len());
    let f = function(&text);
    let mut dice = Dice(3);
    for _ in 0..3000 {
        let value = dice.value(Kind::Tuple, 2);
        assert_eq!(int(&f, &[host(&value)]), expected(&cases, &value), "{value:?}");
    }
}

#[test]
fn alternatives_that_match_anything_need_no_test() {
    let f = function(
        "def f (x : Int) (n : Int) : Int =
           match (x, n) with | ((_ | _), 1) -> 10 | ((_ | 3), 2) -> 20 | (((a | a) | a), 3) -> a | _ -> 40",
    );
    for (x, n, expected) in [(7, 1, 10), (3, 2, 20), (4, 2, 20), (5, 3, 5), (5, 4, 40)] {
        assert_eq!(int(&f, &[Value::Int(x), Value::Int(n)]), expected, "{x} {n}");
    }
}

#[test]
fn many_literals_are_told_apart() {
    let literals: Vec<i64> = (0..500).map(|n| (n - 250) * (n - 250) * (n - 250)).chain([i64::MIN, i64::MAX]).collect();
    let mut text = "def f (n : Int) : Int = match n with\n".to_owned();
    for (at, pair) in literals.chunks(2).enumerate() {
        let alternatives = pair.iter().map(i64::to_string).collect::<Vec<_>>().join(" | ");
        writeln!(text, "  | ({alternatives}) -> {at}").expect("writing to a string succeeds");
    }
    let f = function(&(text + "  | _ -> -1\n"));
    for (at, &literal) in literals.iter().enumerate() {
        assert_eq!(int(&f, &[Value::Int(literal)]), at as i64 / 2);
        for near in [literal.wrapping_sub(1), literal.wrapping_add(1)] {
            let expected = literals.iter().position(|&known| known == near).map_or(-1, |at| at as i64 / 2);
            assert_eq!(int(&f, &[Value::Int(near)]), expected);
        }
    }
}

#[test]
fn reals_are_matched_as_they_compare() {
    let mut text = "def f (x : Real) : Int = match x with\n".to_owned();
    for n in -20..20 {
        writeln!(text, "  | {}.5 -> {n}", n).expect("writing to a string succeeds");
    }
    let f = function(&(text + "  | 0.0 -> 100\n  | _ -> -100\n"));
    for (x, expected) in [(3.5, 3), (-3.5, -3), (-0.0, 100), (0.0, 100), (f64::NAN, -100), (1e300, -100), (0.5, 0)] {
        assert_eq!(int(&f, &[Value::Real(x)]), expected, "{x}");
    }
    // Both zeros are one literal, in every column.
    let f = function(
        "def f (x : Real) (n : Int) : Int =
           match (x, n) with | (0.0, 1) -> 10 | (-0.0, 2) -> 20 | (1.5, 2) -> 30 | _ -> 40",
    );
    for (x, n, expected) in [(0.0, 1, 10), (-0.0, 1, 10), (0.0, 2, 20), (-0.0, 2, 20), (1.5, 2, 30), (0.0, 3, 40)] {
        assert_eq!(int(&f, &[Value::Real(x), Value::Int(n)]), expected, "{x} {n}");
    }
}

#[test]
fn long_chains_of_guards_and_conditions_choose_the_first() {
    let count = 300;
    let guards: String = (0..count).map(|n| format!("  | x if x * {n} == n -> {n}\n")).collect();
    let f = function(&format!("def f (x : Int) (n : Int) : Int = match x with\n{guards}  | _ -> -1\n"));
    let conditions: String = (0..count).map(|n| format!("if x * {n} == n then {n}\n else ")).collect();
    let g = function(&format!("def f (x : Int) (n : Int) : Int = {conditions}-1\n"));
    for (x, n) in [(1, 0), (1, 63), (1, 64), (1, 65), (2, 2 * 128), (1, 299), (1, 300), (7, 3), (0, 5)] {
        let expected = (0..count).find(|at| x * at == n).unwrap_or(-1);
        assert_eq!(int(&f, &[Value::Int(x), Value::Int(n)]), expected, "{x} {n}");
        assert_eq!(int(&g, &[Value::Int(x), Value::Int(n)]), expected, "{x} {n}");
    }
}

#[test]
fn guards_may_read_what_earlier_guards_have_read() {
    // What is read for one guard is known in the others, also where the chain is cut.
    let guards: String = (0..200).map(|n| format!("  | Pair a b if a + b * {n} < 0 -> a * {n}\n")).collect();
    let f = function(&format!(
        "type P = Pair Int Int | None\ndef f (a : Int) (b : Int) : Int =\n  match Pair a b with\n  | None -> -7\n\
         {guards}  | Pair a b -> b\n"
    ));
    for (a, b) in [(5, -1), (100, -1), (199, -1), (3, 3), (-1, 5)] {
        let expected = (0..200).find(|n| a + b * n < 0).map_or(b, |n| a * n);
        assert_eq!(int(&f, &[Value::Int(a), Value::Int(b)]), expected, "{a} {b}");
    }
}
