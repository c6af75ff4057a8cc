//! Rows of arrays that loops change: no round copies one, and programs do what they would as they are written, traps
//! included.
//!
//! Random programs are nests of loops that change elements of an array of rows, and read others of it before, between
//! and after. `DUALVM_SEEDS=100000` runs more of them.

mod support;

use dualvm::{CallOptions, Jit, Limits, Value};
use support::dice::Dice;
use support::written::function;
use support::{from_environment, same};

/// Each of these changes an element of a row of m elements in each of n rounds.
const CHANGES: &str = "
def plain (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 3 |] for i < n do
    { t with [1] = { t[1] with [i % m] = t[0][i % m] * x + t[1][(i + 1) % m] } } in
  t[1][0] + t[0][1]

def nested (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 5 |] for i in 1 .. 5 do
    loop t = t for j < n / 4 do { t with [i] = { t[i] with [j % m] = t[i - 1][j % m] * 0.9 + t[i][0] } } in
  t[4][0]

-- Which row is read is known when it is.
def unknown (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 3 |] for i < n do
    { t with [1] = { t[1] with [i % m] = t[i % 3][i % m] * x } } in
  t[1][0]

def pairs (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| (x, 1.0) for _ < m |] for _ < 3 |] for i < n do
    let (a, b) = t[1][i % m] in { t with [1] = { t[1] with [i % m] = (b * x, a + 1) } } in
  fst t[1][0]

def ints (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| j for j < m |] for _ < 3 |] for i < n do
    { t with [2] = { t[2] with [i % m] = t[2][i % m] + t[0][i % m] } } in
  x * to_real t[2][1]

def deep (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| [| x for _ < m |] for _ < 3 |] for _ < 3 |] for i < n do
    { t with [1] = { t[1] with [2] = { t[1][2] with [i % m] = t[1][2][0] * x } } } in
  t[1][2][1]

def named (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 3 |] for i < n do
    let row = t[1] in
    let next = { row with [i % m] = row[0] * x } in
    { t with [1] = { next with [(i + 1) % m] = next[i % m] } } in
  t[1][1]

def chosen (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 3 |] for i < n do
    if i % 3 == 0 then t else { t with [1] = { t[1] with [i % m] = x * to_real (length t[1]) } } in
  t[1][1]

def carried (n : Int) (m : Int) (x : Real) : Real =
  let (s, t) = loop (s, t) = (0.0, [| [| x for _ < m |] for _ < 3 |]) for i < n do
    (s + t[1][i % m], { t with [1] = { t[1] with [i % m] = s } }) in
  s + t[1][1]

def before (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 5 |] for i < 5 do
    loop t = t for j < n / 4 do
      { t with [i] = { t[i] with [j % m] = (loop s = 0.0 for k < i do s + t[k][j % m] * t[i][0]) } } in
  t[4][0]

-- The row that is read may be the one that is changed.
def here (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 4 |] for i < 4 do
    loop t = t for k in i .. 4 do
      loop t = t for j < n / 4 do { t with [k] = { t[k] with [j % m] = t[i][(j + 1) % m] * 0.9 + t[k][0] } } in
  t[3][0] + t[2][1]

def behind (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 4 |] for i < 4 do
    loop t = t for k in i + 1 .. 4 do
      loop t = t for j < n / 4 do { t with [k] = { t[k] with [j % m] = t[i][(j + 1) % m] * 0.9 + t[k][0] } } in
  t[3][0] + t[2][1]
";
const NAMES: &str = "plain nested unknown pairs ints deep named chosen carried before here behind";

fn args(n: i64, m: i64) -> [Value; 3] {
    [Value::Int(n), Value::Int(m), Value::Real(0.7)]
}

#[test]
fn no_round_copies_a_row() {
    for name in NAMES.split(' ') {
        let written = function(CHANGES, name, Jit::Off, true);
        for jit in [Jit::Off, Jit::Always] {
            let f = function(CHANGES, name, jit, false);
            let used = |n: i64| {
                let stats = f.call_with(&args(n, 2000), &CallOptions::default()).expect("it ends").1;
                let recorded = f.value_and_grad_with(&args(n, 2000), &CallOptions::default()).expect("it ends").stats;
                [stats.allocated_bytes, recorded.allocated_bytes]
            };
            // A copy in each of 1,000 more rounds would be 16 MB.
            let [few, many] = [used(1000), used(2000)];
            for (few, many) in few.into_iter().zip(many) {
                assert!(many < few + 400_000, "{name}: {few} bytes, {many} of twice as many rounds");
            }
            for (n, m) in [(0, 3), (1, 2), (9, 4), (40, 7)] {
                let [found, expected] = [&f, &written].map(|f| f.value_and_grad(&args(n, m)).expect("it ends"));
                assert!(same(found.0, expected.0), "{name} of {n} and {m}: {found:?}, {expected:?}");
                let [found, expected] = [found, expected].map(|(_, gradient)| flat(&gradient[2])[0]);
                let is_near = (found - expected).abs() <= 1e-12 * expected.abs();
                assert!(is_near, "{name} of {n} and {m}: {found}, {expected}");
            }
        }
    }
}

/// Few rounds that may change a long row take no longer than they would without: nobody copies it.
#[test]
fn a_long_row_is_not_copied_for_a_few_rounds() {
    let text = "
def f (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 3 |] for i < n do
    loop t = t for j < 2 do if j < 0 then { t with [1] = { t[1] with [j] = x } } else t in
  t[1][1]";
    let f = function(text, "f", Jit::Off, false);
    let used = |n| f.call_with(&args(n, 2000), &CallOptions::default()).expect("it ends").1.allocated_bytes;
    assert!(used(1000) < used(10) + 200_000, "{} bytes", used(1000));
}

/// Loops in loops over the same row: what is carried around all of them isn't worth its copy where the outer loop has
/// few rounds, and the inner loop carries the row then.
#[test]
fn inner_loops_carry_a_row_where_outer_ones_do_not() {
    let text = "
def f (n : Int) (m : Int) (x : Real) : Real =
  let t = loop t = [| [| x for _ < m |] for _ < 3 |] for _ < n do
    loop t = t for j < m do { t with [1] = { t[1] with [j] = t[1][j] * 0.9 + t[0][j] } } in
  t[1][1]";
    let f = function(text, "f", Jit::Off, false);
    let written = function(text, "f", Jit::Off, true);
    for (n, m) in [(2, 1000), (3, 7), (1, 2)] {
        let [(found, stats), (expected, _)] =
            [&f, &written].map(|f| f.call_with(&args(n, m), &CallOptions::default()).expect("it ends"));
        assert_eq!(found, expected);
        // A copy in each round would be 16 MB.
        assert!(stats.allocated_bytes < 100_000, "{} bytes", stats.allocated_bytes);
    }
}

/// Parts of changes that once were taken for something else.
#[test]
fn what_stands_in_a_change_is_evaluated_as_it_is_written() {
    let head = "(n : Int) (m : Int) (x : Real) : Real =
  let g = [| 1, 2, 0, 2, 1, 0 |] in
  let t = loop t = [| [| x * to_real (i + 2 * j) for j < 6 |] for i < 3 |] for j < n do";
    for (number, body) in [
        // An index of what is bound where the row is read, and of a function that is copied there.
        "{ t with [1] = { t[1] with [j] = (let k = g[j] in t[k * k % 3])[j] * x } }",
        "{ t with [m] = { t[m] with [j] = (wrap t (g[j] - 1))[j] * x + (wrap t (j + 1))[j] } }",
        // Branches that all stop the program.
        "let u = if g[j] > m then (if g[j] > 1 then error \"a\" else error \"b\") else t in
            { u with [1] = { u[1] with [j] = u[m][j] + x } }",
        "let u = if g[j] > m then (let k = g[j] * m in error \"x {k}\") else t in
            { u with [1] = { u[1] with [j] = u[m][j] + x } }",
        "let u = if g[j] > m then (if n == n then error \"a\" else t) else t in
            { u with [1] = { u[1] with [j] = u[m][j] + x } }",
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!(
            "def wrap (t : Array (Array Real)) (k : Int) = let n = length t in t[(k + n) % n]
def f {head} {body} in
  sum [| sum row * to_real (1 + length row) for row in t |]"
        );
        let fs = [(Jit::Off, true), (Jit::Off, false), (Jit::Always, false)]
            .map(|(jit, as_written)| function(&text, "f", jit, as_written));
        for (n, m) in [(6, 2), (6, 1), (1, 0), (3, 0), (6, 3), (7, 2), (0, 1)] {
            let outcomes = fs.each_ref().map(|f| match f.call(&args(n, m)) {
                Ok(value) => value.to_string(),
                Err(error) => text_of(&error),
            });
            assert_eq!(outcomes, outcomes.each_ref().map(|_| outcomes[0].clone()), "{number} of {n} and {m}");
        }
    }
}

/// So many arrays in one loop don't make as many copies of it.
#[test]
fn code_grows_in_proportion() {
    let size = |arrays: usize| {
        let all = |part: &dyn Fn(usize) -> String| (0..arrays).map(part).collect::<Vec<_>>().join(", ");
        let names = all(&|at| format!("a{at}"));
        let text = format!(
            "def f (t : Array (Array Real)) (i : Int) (n : Int) : Array (Array Real) =
              let ({names}) = loop ({names}) = ({}) for j < n do ({}) in a0",
            all(&|_| "t".to_owned()),
            all(&|at| format!("{{ a{at} with [i] = {{ a{at}[i] with [j] = 2.0 }} }}")),
        );
        let module = dualvm_frontend::compile("rows.dual", &text).expect("it compiles");
        module.functions.iter().map(|function| function.body.code.len()).sum::<usize>()
    };
    let (few, many) = (size(10), size(40));
    assert!(many < 6 * few, "{few} and {many} instructions");
}

/// The numbers in a value, one after the other.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Real(x) => vec![*x],
        Value::Reals(xs) => xs.clone(),
        Value::Null => Vec::new(),
        _ => panic!("{value:?}"),
    }
}

/// What rows hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reals,
    Pairs,
    Ints,
    /// Rows of reals: the array has one level more.
    Rows,
}

struct Writer<'w> {
    dice: &'w mut Dice,
    kind: Kind,
    names: usize,
    /// Integers and reals that are known.
    ints: Vec<String>,
    reals: Vec<String>,
    /// Arrays that are known, the newest one last.
    arrays: Vec<String>,
    /// Rows of reals or of others that are.
    rows: Vec<String>,
}

impl Writer<'_> {
    fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// An index, which may be out of bounds once in a while.
    fn index(&mut self) -> String {
        let known = self.dice.pick(&self.ints);
        match self.dice.usize(..24) {
            0..=1 => "0".to_owned(),
            2 => "1".to_owned(),
            3 => format!("({known} + 1)"),
            4 => format!("({known} - 1)"),
            5..=7 => format!("(({known} + 1) % n)"),
            8..=9 => format!("(abs ({known} - 1) % n)"),
            10 => format!("(abs ({known} * 2 - 1) % n)"),
            11..=14 => self.ints.last().cloned().unwrap_or_default(),
            _ => known,
        }
    }

    fn array(&mut self) -> String {
        let newest = self.arrays.len() - 1;
        let n = if self.dice.usize(..5) > 0 { newest } else { self.dice.usize(..=newest) };
        self.arrays[n].clone()
    }

    fn row(&mut self) -> String {
        if !self.rows.is_empty() && self.dice.one_in(3) {
            return self.dice.pick(&self.rows);
        }
        if self.dice.one_in(6) {
            let (name, value) = (self.name("k"), self.index());
            self.ints.push(name.clone());
            let row = format!("{}[{}]", self.array(), self.index());
            self.ints.pop();
            return format!("(let {name} = {value} in {row})");
        }
        format!("{}[{}]", self.array(), self.index())
    }

    /// A real made of an element of a row.
    fn element(&mut self, row: &str) -> String {
        let element = format!("{row}[{}]", self.index());
        match self.kind {
            Kind::Reals => element,
            Kind::Pairs => format!("(fst {element} - snd {element})"),
            Kind::Ints => format!("to_real {element}"),
            Kind::Rows => format!("{element}[{}]", self.index()),
        }
    }

    fn real(&mut self, depth: usize) -> String {
        match self.dice.usize(..if depth == 0 { 4 } else { 14 }) {
            0 => self.dice.pick(&self.reals),
            1 => format!("to_real {}", self.index()),
            2..=3 | 9.. => {
                let row = self.row();
                self.element(&row)
            }
            4 => format!("({} + 0.5 * {})", self.real(depth - 1), self.real(depth - 1)),
            5 => format!("sin ({} * {})", self.real(depth - 1), self.real(depth - 1)),
            6 => format!("to_real (length {})", self.row()),
            7 => {
                let (round, sum) = (self.name("i"), self.name("s"));
                let count = self.index();
                self.ints.push(round.clone());
                self.reals.push(sum.clone());
                let term = self.real(depth - 1);
                self.ints.pop();
                self.reals.pop();
                format!("(loop {sum} = 0.0 for {round} < {count} do 0.5 * {sum} + {term})")
            }
            8 => format!("(if {} < {} then {} else 1.5)", self.index(), self.index(), self.real(depth - 1)),
        }
    }

    /// A row with another element.
    fn changed_row(&mut self, row: &str) -> String {
        let (index, value) = (self.index(), self.real(2));
        let value = match self.kind {
            Kind::Reals => value,
            Kind::Pairs => format!("({value}, 0.5)"),
            Kind::Ints => format!("to_int (clamp (-99) 99 (trunc ({value})))"),
            Kind::Rows => format!("{{ {row}[{index}] with [{}] = {value} }}", self.index()),
        };
        let changed = format!("{{ {row} with [{index}] = {value} }}");
        if self.dice.one_in(6) { self.changed_row(&changed) } else { changed }
    }

    /// An array with a changed row. Mostly it is the one at an index that the loop inside doesn't change.
    fn change(&mut self) -> String {
        let (array, place) = (self.array(), self.outer_index());
        match self.dice.usize(..4) {
            0 => {
                let (name, index) = (self.name("r"), if self.dice.one_in(3) { self.index() } else { place.clone() });
                let row = format!("{array}[{index}]");
                self.rows.push(name.clone());
                let changed = self.changed_row(&name);
                self.rows.pop();
                format!("(let {name} = {row} in {{ {array} with [{place}] = {changed} }})")
            }
            1 if self.dice.one_in(4) => {
                let row = self.row();
                format!("{{ {array} with [{place}] = {} }}", self.changed_row(&row))
            }
            _ => {
                let row = format!("{array}[{place}]");
                format!("{{ {array} with [{place}] = {} }}", self.changed_row(&row))
            }
        }
    }

    fn outer_index(&mut self) -> String {
        if self.ints.len() < 2 || self.dice.one_in(8) {
            return self.index();
        }
        let innermost = self.ints.pop().expect("there are two");
        let index = self.index();
        self.ints.push(innermost);
        index
    }

    /// What the newest array becomes.
    fn next(&mut self, depth: usize) -> String {
        match self.dice.usize(..if depth == 0 { 4 } else { 9 }) {
            0..=2 => self.change(),
            3 => {
                let (first, second, array) = (self.index(), self.index(), self.array());
                let change = self.change();
                format!("(if {first} < {second} then {change} else {array})")
            }
            4 => {
                let (name, value) = (self.name("t"), self.next(depth - 1));
                self.arrays.push(name.clone());
                let body = self.next(depth - 1);
                self.arrays.pop();
                format!("(let {name} = {value} in {body})")
            }
            5 => {
                let (name, sum) = (self.name("t"), self.name("s"));
                let (init, first) = (self.array(), self.real(1));
                let (round, range) = self.range();
                self.arrays.push(name.clone());
                self.reals.push(sum.clone());
                self.ints.push(round.clone());
                let (next, real) = (self.next(depth - 1), self.real(1));
                self.ints.pop();
                self.reals.pop();
                self.arrays.pop();
                format!(
                    "(let ({name}, {sum}) = (loop ({name}, {sum}) = ({init}, {first}) for {round} {range} do \
                     ({next}, {real})) in if {sum} < 0.25 then {name} else {init})"
                )
            }
            _ => {
                let (name, init) = (self.name("t"), self.array());
                let (round, range) = self.range();
                self.arrays.push(name.clone());
                self.ints.push(round.clone());
                let next = self.next(depth - 1);
                self.ints.pop();
                self.arrays.pop();
                format!("(loop {name} = {init} for {round} {range} do {next})")
            }
        }
    }

    fn range(&mut self) -> (String, String) {
        let name = self.name("i");
        let known = self.dice.pick(&self.ints);
        let range = match self.dice.usize(..7) {
            0 => format!("in {known} .. n"),
            1 => format!("in {known} + 1 .. n"),
            2 => format!("< {known}"),
            3 => format!("< {known} + 1"),
            4 => "in 1 .. n".to_owned(),
            _ => "< n".to_owned(),
        };
        (name, range)
    }
}

fn program(dice: &mut Dice) -> String {
    let kind = dice.pick(&[Kind::Reals, Kind::Reals, Kind::Reals, Kind::Pairs, Kind::Ints, Kind::Rows]);
    let width = dice.pick(&["n", "n", "n + i % 2", "n - i"]);
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let mut writer =
        Writer { dice, kind, names: 0, ints: list(&["k"]), reals: list(&["x"]), arrays: list(&["t"]), rows: list(&[]) };
    let next = writer.next(4);
    let (element, total) = match kind {
        Kind::Reals => ("xs[(i * 3 + j) % length xs]", "sum [| v * to_real (i + 1) for v in t[i] |]"),
        Kind::Pairs => ("(xs[(i * 3 + j) % length xs], to_real j)", "sum [| a + b * x for (a, b) in t[i] |]"),
        Kind::Ints => ("i * 3 + j", "x * to_real (sum t[i])"),
        Kind::Rows => ("[| xs[(i + j + l) % length xs] for l < 3 |]", "sum [| sum r for r in t[i] |]"),
    };
    format!(
        "def f (n : Int) (k : Int) (x : Real) (xs : Array Real) : Real =\n  \
         let t = [| [| {element} for j < {width} |] for i < n |] in\n  \
         let t = {next} in\n  sum [| {total} for i < length t |]"
    )
}

/// What an error says, and the place in the program.
fn text_of(error: &dualvm::Error) -> String {
    error.to_string().lines().take(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn random_programs_compute_what_they_would_as_they_are_written() {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(200);
    let (mut ended, mut trapped) = (0, 0);
    for seed in first..first + seeds {
        let text_of_program = program(&mut Dice::with_seed(seed));
        let fs = [(Jit::Off, true), (Jit::Off, false), (Jit::Always, false)]
            .map(|(jit, as_written)| function(&text_of_program, "f", jit, as_written));
        let xs = Value::Reals(vec![0.5, 1.25, -0.75, 2.0, 0.1]);
        for (n, k) in [(3, 1), (4, 0), (4, 3), (1, 0), (0, 0), (6, 5)] {
            let args = [Value::Int(n), Value::Int(k), Value::Real(0.7), xs.clone()];
            let mut options = CallOptions::default();
            options.limits = Some(Limits { fuel: 2_000_000, ..Limits::default() });
            let [expected, found, native] = fs.each_ref().map(|f| f.call_with(&args, &options).map(|(value, _)| value));
            let expected = match expected {
                Ok(value) => flat(&value)[0],
                Err(error) => {
                    // It runs longer than the others.
                    let expected = text_of(&error);
                    if !expected.contains("fuel") && !expected.contains("instruction") {
                        for found in [found, native] {
                            let found = found.as_ref().map_err(text_of).err();
                            assert_eq!(found.as_ref(), Some(&expected), "seed {seed} of {n}, {k}\n{text_of_program}");
                        }
                        trapped += 1;
                    }
                    continue;
                }
            };
            ended += 1;
            for found in [found, native] {
                let found = flat(&found.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text_of_program}")))[0];
                assert!(same(found, expected), "seed {seed} of {n}, {k}: {found}, {expected}\n{text_of_program}");
            }
            let [expected, found, native] = fs.each_ref().map(|f| {
                let gradient = f.value_and_grad(&args).expect("it ends").1;
                gradient.iter().flat_map(flat).collect::<Vec<f64>>()
            });
            let size = expected.iter().fold(1.0, |size: f64, x| if x.is_finite() { size.max(x.abs()) } else { size });
            for ((&expected, &found), &native) in expected.iter().zip(&found).zip(&native) {
                let is_near = same(expected, found) || (expected - found).abs() <= 1e-9 * size;
                let is_near = is_near || !expected.is_finite() || !found.is_finite();
                assert!(is_near, "seed {seed} of {n}, {k}: {found}, {expected}\n{text_of_program}");
                assert!(same(found, native), "seed {seed} of {n}, {k}: {found}, {native}\n{text_of_program}");
            }
        }
    }
    assert!(seeds < 100 || (ended > 2 * seeds && trapped > seeds / 10), "{ended} ended, {trapped} trapped");
}
