//! Arrays that programs change, element by element: what a copy in each round would give, in time and memory
//! proportional to the rounds where nobody else has the array.
//!
//! Programs are random nests of loops over two arrays and a matrix, whose values are computed here with copies.
//! `DUALVM_SEEDS=100000` runs more of them.

use dualvm::{CallOptions, Config, Engine, Function, Jit, Module, Value};
use fastrand::Rng;
use std::collections::HashMap;

fn function(text: &str, name: &str, jit: Jit) -> Function {
    let mut config = Config::default();
    config.jit = jit;
    let module = Module::from_source(&Engine::new(config), "test.dual", text);
    module.unwrap_or_else(|error| panic!("{text}\n{error}")).function(name).expect("it is there")
}

/// Each of these changes one or several elements in each of n rounds, of arrays of m elements.
const CHANGES: &str = "
def two (n : Int) (m : Int) (x : Real) : Real =
  let (a, b) = loop (a, b) = ([| x for _ < m |], [| 1.0 for _ < m |]) for i < n do
    let next = a[(i + 1) % m] in
    ({ a with [i % m] = x * b[i % m] }, { b with [i % m] = next }) in
  a[0] + b[1]

def record (n : Int) (m : Int) (x : Real) : Real =
  let r = loop r = { a = [| x for _ < m |], b = [| 1.0 for _ < m |] } for i < n do
    { a = { r.a with [i % m] = x }, b = { r.b with [(i + 1) % m] = 2.0 } } in
  r.a[0] + r.b[1]

def either (n : Int) (m : Int) (x : Real) : Real =
  let (a, b) = loop (a, b) = ([| x for _ < m |], [| 1.0 for _ < m |]) for i < n do
    if i % 3 == 0 then ({ a with [i % m] = b[i % m] * x }, b) else (a, { b with [i % m] = a[i % m] + 1 }) in
  a[0] + b[1]

def swaps (n : Int) (m : Int) (x : Real) : Real =
  let a = loop a = [| x * to_real i for i < m |] for i < n do
    let (j, k) = (i % m, i * 7 % m) in { a with [j] = a[k], [k] = a[j] } in
  a[0]

def sift (h : Array Real) (start : Int) : Array Real =
  let n = length h in
  let (h, _, _) = loop (h, i, goes_on) = (h, start, true) while goes_on do
    let child = 2 * i + 1 in
    if child >= n then (h, i, false)
    else if h[child] > h[i] then ({ h with [i] = h[child], [child] = h[i] }, child, true) else (h, i, false) in
  h

def heap (n : Int) (m : Int) (x : Real) : Real =
  let h = loop h = [| sin (x * to_real i) for i < m |] for k < n do sift h (k * 7 % m) in
  h[0]

def thomas (n : Int) (m : Int) (x : Real) : Real =
  let (c, d) = loop (c, d) = ([| 0.0 for _ < m |], [| 0.0 for _ < m |]) for k < n do
    let i = k % m in
    let pivot = if i == 0 then 4 + x else 4 + x - c[i - 1] in
    let before = if i == 0 then 1.0 else d[i - 1] in
    ({ c with [i] = 1 / pivot }, { d with [i] = (to_real i + before) / pivot }) in
  let y = loop y = d for q < m - 1 do let i = m - 2 - q in { y with [i] = d[i] - c[i] * y[i + 1] } in
  y[0]

def square (m : Int) (x : Real) : Matrix Real = [| x / to_real (1 + i + j) for i < m, j < 4 |]

def start (n : Int) (m : Int) (x : Real) : Real =
  let a = loop a = square m x for i < n do
    loop a = { a with [i % m, 0] = x } for j < 2 do { a with [i % m, j] = a[0, j] + 1 } in
  a[0, 0]

def named (n : Int) (m : Int) (x : Real) : Real =
  let l = loop l = square m x for k < n do
    let i = k % m in
    let d = sqrt (1 + l[i, 1] ^ 2) in
    let l = { l with [i, 0] = d } in
    loop l = l for j in 1 .. 3 do { l with [i, j] = (l[i, j] - l[0, j]) / d } in
  l[0, 2] + l[m - 1, 1]

def chosen (n : Int) (m : Int) (x : Real) : Real =
  let l = loop l = square m x for k < n do
    let i = k % m in
    let l = if k % 2 == 0 then { l with [i, 0] = x } else { l with [0, 1] = l[i, 1], [i, 1] = l[0, 1] } in
    { l with [i, 2] = l[i, 0] + l[i, 1] } in
  l[0, 2]

def last (n : Int) (m : Int) (x : Real) : Real =
  let l = loop l = square m x for k < n do
    let l = { l with [k % m, 1] = x } in
    if k % 2 == 0 then l else let l = { l with [k % m, 2] = l[0, 1] } in l in
  l[0, 2]

def nested (n : Int) (m : Int) (x : Real) : Real =
  let s = loop s = { l = square m x, k = 0 } for i < n do
    let l = loop l = s.l for j < 2 do { l with [i % m, j] = x } in
    let l = loop l = l for j < 2 do { l with [j, j] = l[i % m, j] } in
    { k = s.k + 1, l } in
  s.l[0, 0]

def matrices (n : Int) (m : Int) (x : Real) : Real =
  let (a, k, b) = loop (a, k, b) = (square m x, 0, square (m + 1) x) for i < n do
    let (here, first) = (a[i % m, 2], a[0, 0]) in
    ({ a with [i % m, 0] = b[i % m, 1] * x }, k + 1, { b with [i % m, k % 4] = here, [m, 0] = first }) in
  a[0, 0] + a[1, 1] + b[m, 0] + b[0, 3] + to_real k

def matrices_inside (n : Int) (m : Int) (x : Real) : Real =
  let s = loop s = { l = square m x, u = square m 1.0 } for i < n do
    let (l, u) = loop (l, u) = (s.l, s.u) for j < 2 do
      let half = l[i % m, j] / 2 in
      ({ l with [i % m, j] = u[j, 0] + x }, { u with [j, 0] = half }) in
    { l, u = loop u = u for j < 2 do { u with [i % m, 2 + j] = l[i % m, j] } } in
  sum s.l + sum s.u

def tensors (n : Int) (m : Int) (x : Real) : Real =
  let cube k = [| x * to_real k for _ < m, _ < 2, _ < 2 |] in
  let (a, l, b) = loop (a, l, b) = (cube 1, square m x, cube 2) for i < n do
    let first = a[0, 0, 0] in
    let l = { l with [i % m, 3] = a[i % m, 1, 0] } in
    ({ a with [i % m, 0, 1] = l[i % m, 2] }, l, if i % 2 == 0 then b else { b with [i % m, 1, 1] = x * first }) in
  sum a + sum l + sum b

def parts (n : Int) (m : Int) (x : Real) : Real =
  let l = loop l = square m x for i < n do
    let l = { l with [i % m, ..] = l[i % m, ..] - x *. l[0, ..] } in
    { l with [i % m, 1 ..] = [| x + l[m - 1, j] for j < 3 |], [0, 0] = l[i % m, 3] } in
  sum l

def range_of (n : Int) (m : Int) (x : Real) : Real =
  let a = loop a = [| x for _ < m |] for i < n do
    let j = i % (m - 4) in { a with [j .. j + 2] = a[j + 1 .. j + 3] .* x, [m - 2 ..] = a[j .. j + 2] } in
  sum a

def list (n : Int) (m : Int) (x : Real) : Real =
  let a = loop a = [| x for _ < m |] for k in [i * i % m for i < n] do { a with [k] = a[k] + x } in
  a[0] + a[1]

def list_of_two (n : Int) (m : Int) (x : Real) : Real =
  let (a, l) = loop (a, l) = ([| x for _ < m |], square m x) for k in [i * i % m for i < n] do
    let l = { l with [k, 1] = a[k] } in
    if k % 3 == 0 then (a, l) else ({ a with [k] = l[k, 1] + x }, l) in
  sum a + l[1, 1]

def recursive (n : Int) (m : Int) (x : Real) : Real =
  let go i a = if i < n then go (i + 1) { a with [i % m] = a[(i + 1) % m] * x } else if i == 0 then 0 else sum a in
  go 0 [| x for _ < m |]
";

#[test]
fn rounds_change_arrays_where_they_are() {
    let names = "two record either swaps heap thomas start named chosen last nested matrices matrices_inside tensors \
                 parts range_of list list_of_two recursive";
    for name in names.split(' ') {
        for jit in [Jit::Off, Jit::Always] {
            let f = function(CHANGES, name, jit);
            let used = |n: i64, m: i64| {
                let args = [Value::Int(n), Value::Int(m), Value::Real(0.7)];
                let stats = f.call_with(&args, &CallOptions::default()).expect("it ends").1;
                let recorded = f.value_and_grad_with(&args, &CallOptions::default()).expect("it ends").stats;
                [stats.allocated_bytes, recorded.allocated_bytes]
            };
            // A copy in each of 500 more rounds would be 8 MB at least.
            let [few, many] = [used(500, 2000), used(1000, 2000)];
            for (few, many) in few.into_iter().zip(many) {
                assert!(many < few + 400_000, "{name}: {few} bytes, {many} of twice as many rounds");
            }
        }
    }
}

/// A program that changes arrays, as text and as what it does.
#[derive(Clone, Debug)]
enum Array {
    Name(usize),
    /// The array with other elements, which are computed first.
    With(Box<Array>, Vec<Change>),
    If(Number, Box<Array>, Box<Array>),
    Let(usize, Box<Array>, Box<Array>),
    /// A loop over an array, of so many rounds, whose number has a name.
    Loop {
        name: usize,
        init: Box<Array>,
        round: usize,
        rounds: i64,
        body: Box<Array>,
    },
}

#[derive(Clone, Debug)]
enum Change {
    /// An element, by its index.
    Element(Number, Number),
    /// A row or a column, by its number, takes what stands in another one of an array, with something added.
    Line { is_row: bool, at: Number, of: usize, from: Number, plus: Number },
}

#[derive(Clone, Debug)]
enum Number {
    Constant(i64),
    Round(usize),
    Read(usize, Box<Number>),
    Sum(Box<Number>, Box<Number>),
    Product(Box<Number>, Box<Number>),
}

/// Elements are below this.
const MODULUS: i64 = 1009;
const ROWS: usize = 3;
const COLUMNS: usize = 2;
const LEN: usize = ROWS * COLUMNS;

struct Generator {
    dice: Rng,
    names: usize,
    arrays: Vec<usize>,
    rounds: Vec<usize>,
}

impl Generator {
    fn name(&mut self) -> usize {
        self.names += 1;
        self.names
    }

    /// Mostly the newest one, so that arrays are changed in place.
    fn array_name(&mut self) -> usize {
        let newest = self.arrays.len() - 1;
        let n = if self.dice.usize(..4) > 0 { newest } else { self.dice.usize(..self.arrays.len()) };
        self.arrays[n]
    }

    fn number(&mut self, depth: usize) -> Number {
        match self.dice.usize(..if depth == 0 { 3 } else { 6 }) {
            0 => Number::Constant(self.dice.usize(..50) as i64),
            1 if !self.rounds.is_empty() => Number::Round(self.rounds[self.dice.usize(..self.rounds.len())]),
            1..=3 => Number::Read(self.array_name(), Box::new(Number::Constant(self.dice.usize(..20) as i64))),
            4 => Number::Sum(Box::new(self.number(depth - 1)), Box::new(self.number(depth - 1))),
            _ if depth > 1 => Number::Read(self.array_name(), Box::new(self.number(depth - 1))),
            _ => Number::Product(Box::new(self.number(depth - 1)), Box::new(self.number(depth - 1))),
        }
    }

    fn array(&mut self, depth: usize) -> Array {
        match self.dice.usize(..if depth == 0 { 3 } else { 8 }) {
            0 => Array::Name(self.array_name()),
            1 | 2 if depth == 0 => Array::With(Box::new(Array::Name(self.array_name())), self.places()),
            1..=3 => {
                let source = self.array(depth - 1);
                Array::With(Box::new(source), self.places())
            }
            4 => Array::If(self.number(1), Box::new(self.array(depth - 1)), Box::new(self.array(depth - 1))),
            5 | 6 => {
                let (name, value) = (self.name(), self.array(depth - 1));
                self.arrays.push(name);
                let body = self.array(depth - 1);
                self.arrays.pop();
                Array::Let(name, Box::new(value), Box::new(body))
            }
            _ => {
                let (name, round, init) = (self.name(), self.name(), self.array(depth - 1));
                self.arrays.push(name);
                self.rounds.push(round);
                let body = self.array(depth - 1);
                self.arrays.pop();
                self.rounds.pop();
                let rounds = self.dice.usize(..4) as i64;
                Array::Loop { name, init: Box::new(init), round, rounds, body: Box::new(body) }
            }
        }
    }

    fn places(&mut self) -> Vec<Change> {
        (0..1 + self.dice.usize(..2)).map(|_| self.change()).collect()
    }

    fn change(&mut self) -> Change {
        let (at, value) = (self.number(1), self.number(2));
        match self.dice.usize(..6) {
            0..4 => Change::Element(at, value),
            n => Change::Line { is_row: n == 4, at, of: self.array_name(), from: self.number(1), plus: value },
        }
    }
}

/// How elements are told: in an array or in a matrix.
#[derive(Clone, Copy)]
enum Form {
    Array,
    Matrix,
}

impl Form {
    fn subscript(self, index: &Number) -> String {
        let index = index.text(self);
        match self {
            Form::Array => format!("abs ({index}) % {LEN}"),
            Form::Matrix => format!("abs ({index}) % {LEN} / {COLUMNS}, abs ({index}) % {LEN} % {COLUMNS}"),
        }
    }
}

impl Change {
    fn text(&self, form: Form) -> String {
        let (is_row, at, of, from, plus) = match self {
            Change::Element(index, value) => return format!("[{}] = {}", form.subscript(index), value.text(form)),
            Change::Line { is_row, at, of, from, plus } => (*is_row, at, of, from, plus.text(form)),
        };
        let count = if is_row { ROWS } else { COLUMNS };
        let [at, from] = [at, from].map(|number| format!("abs ({}) % {count}", number.text(form)));
        let line = |line: &str| match (form, is_row) {
            (Form::Matrix, true) => format!("{line}, .."),
            (Form::Matrix, false) => format!(".., {line}"),
            (Form::Array, _) => format!("{line} * {COLUMNS} .. {line} * {COLUMNS} + {COLUMNS}"),
        };
        match (form, is_row) {
            // An array has no columns: its elements stand apart.
            (Form::Array, false) => {
                let elements = (0..ROWS).map(|row| {
                    let [at, from] = [&at, &from].map(|line| format!("{} + {line}", row * COLUMNS));
                    format!("[{at}] = (a{of}[{from}] + {plus}) % {MODULUS}")
                });
                elements.collect::<Vec<_>>().join(", ")
            }
            _ => format!("[{}] = [| (x + {plus}) % {MODULUS} for x in a{of}[{}] |]", line(&at), line(&from)),
        }
    }

    /// The elements that it changes, and what they become.
    fn values(&self, env: &Environment) -> Vec<(usize, i64)> {
        match self {
            Change::Element(index, value) => vec![(place(index.value(env)), value.value(env))],
            Change::Line { is_row, at, of, from, plus } => {
                let count = if *is_row { ROWS } else { COLUMNS };
                let [at, from] = [at, from].map(|number| number.value(env).unsigned_abs() as usize % count);
                let plus = plus.value(env);
                let place = |line: usize, n: usize| if *is_row { line * COLUMNS + n } else { n * COLUMNS + line };
                let all = 0..LEN / count;
                all.map(|n| (place(at, n), (env.arrays[of][place(from, n)] + plus) % MODULUS)).collect()
            }
        }
    }
}

impl Number {
    fn text(&self, form: Form) -> String {
        match self {
            Number::Constant(n) => n.to_string(),
            Number::Round(name) => format!("r{name}"),
            Number::Read(name, index) => format!("a{name}[{}]", form.subscript(index)),
            Number::Sum(a, b) => format!("({} + {}) % {MODULUS}", a.text(form), b.text(form)),
            Number::Product(a, b) => format!("({}) * ({}) % {MODULUS}", a.text(form), b.text(form)),
        }
    }

    fn value(&self, env: &Environment) -> i64 {
        match self {
            Number::Constant(n) => *n,
            Number::Round(name) => env.rounds[name],
            Number::Read(name, index) => env.arrays[name][place(index.value(env))],
            Number::Sum(a, b) => (a.value(env) + b.value(env)) % MODULUS,
            Number::Product(a, b) => a.value(env) * b.value(env) % MODULUS,
        }
    }
}

fn place(index: i64) -> usize {
    index.unsigned_abs() as usize % LEN
}

#[derive(Clone, Default)]
struct Environment {
    arrays: HashMap<usize, Vec<i64>>,
    rounds: HashMap<usize, i64>,
}

impl Array {
    fn text(&self, form: Form) -> String {
        match self {
            Array::Name(name) => format!("a{name}"),
            Array::With(source, places) => {
                let places = places.iter().map(|change| change.text(form));
                format!("{{ {} with {} }}", source.text(form), places.collect::<Vec<_>>().join(", "))
            }
            Array::If(number, then, other) => {
                format!("(if ({}) % 3 == 0 then {} else {})", number.text(form), then.text(form), other.text(form))
            }
            Array::Let(name, value, body) => format!("(let a{name} = {} in {})", value.text(form), body.text(form)),
            Array::Loop { name, init, round, rounds, body } => {
                // Some loops run over a list.
                let range = match round % 3 {
                    0 => format!("in [i for i < {rounds}]"),
                    _ => format!("< {rounds}"),
                };
                format!("(loop a{name} = {} for r{round} {range} do {})", init.text(form), body.text(form))
            }
        }
    }

    fn value(&self, env: &Environment) -> Vec<i64> {
        match self {
            Array::Name(name) => env.arrays[name].clone(),
            Array::With(source, places) => {
                let mut array = source.value(env);
                let places = places.iter().flat_map(|change| change.values(env));
                places.for_each(|(at, value)| array[at] = value);
                array
            }
            Array::If(number, then, other) => {
                if number.value(env) % 3 == 0 {
                    then.value(env)
                } else {
                    other.value(env)
                }
            }
            Array::Let(name, value, body) => {
                let mut env = env.clone();
                env.arrays.insert(*name, value.value(&env));
                body.value(&env)
            }
            Array::Loop { name, init, round, rounds, body } => {
                let mut env = env.clone();
                let mut array = init.value(&env);
                for n in 0..*rounds {
                    env.arrays.insert(*name, array);
                    env.rounds.insert(*round, n);
                    array = body.value(&env);
                }
                array
            }
        }
    }
}

/// A loop of two accumulators, each of which may read the other, and what its rounds are.
fn program(dice: Rng, form: Form, rounds: &str) -> (String, Vec<i64>) {
    let mut generator = Generator { dice, names: 2, arrays: vec![1, 2], rounds: vec![0] };
    let bodies = [generator.array(3), generator.array(3)];
    let array = match form {
        Form::Array => format!("[| i * 5 for i < {LEN} |]"),
        Form::Matrix => format!("[| i * {COLUMNS} * 5 + j * 5 for i < {ROWS}, j < {COLUMNS} |]"),
    };
    let all = match form {
        Form::Array => "a ++ b",
        Form::Matrix => "elements a ++ elements b",
    };
    let [a, b] = bodies.each_ref().map(|body| body.text(form));
    let text = format!(
        "def f (n : Int) : Array Int =\n  let (a, b) = loop (a1, a2) = ({array}, {array}) for r0 {rounds} do\n    \
         ({a},\n     {b}) in\n  {all}"
    );
    let begin: Vec<i64> = (0..LEN as i64).map(|i| 5 * i).collect();
    let mut env = Environment::default();
    let mut pair = [begin.clone(), begin];
    for round in 0..5 {
        let [a, b] = pair;
        env.arrays.extend([(1, a), (2, b)]);
        env.rounds.insert(0, round);
        pair = [bodies[0].value(&env), bodies[1].value(&env)];
    }
    (text, pair.concat())
}

#[test]
fn changed_arrays_are_what_copies_are() {
    let seeds = std::env::var("DUALVM_SEEDS").map_or(300, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        for form in [Form::Array, Form::Matrix] {
            let rounds = if seed % 2 == 0 { "< n" } else { "in [i for i < n]" };
            let (text, expected) = program(Rng::with_seed(seed), form, rounds);
            let expected = Value::Array(expected.into_iter().map(Value::Int).collect());
            let f = function(&text, "f", Jit::Off);
            assert_eq!(f.call(&[Value::Int(5)]).ok(), Some(expected), "seed {seed}\n{text}");
        }
    }
}

/// A test stands between where an element is put and where the same one is read: what is read adds to the adjoint that
/// what was put takes.
#[test]
fn what_was_put_is_read_behind_a_test() {
    let program = "
        def f (a : Array Real) (at : Array Int) : Real =
          let c =
            loop c = [| 0 * a[i] for i < length a |] for i < length at do
              let c = { c with [i] = 2 * a[i] } in
              if at[i] < 3 then { c with [0] = c[0] + c[at[i]] * c[at[i]] } else error \"outside\" in
          c[0]";
    for jit in [Jit::Off, Jit::Always] {
        let engine = Engine::new(Config::default().with_jit(jit));
        let module = Module::from_source(&engine, "put.dual", program).unwrap();
        let reals = [1.0, 2.0, 3.0].map(Value::Real);
        let places = [0, 1, 2].map(Value::Int);
        let args = [reals, places].map(|array| Value::Array(array.into_iter().collect()));
        // 2 a + 4 a² of the first one, and 4 b² of each of the others.
        let function = module.function("f").unwrap().wrt(&["a"]).unwrap();
        let gradient = format!("{:?}", function.value_and_grad(&args).unwrap());
        assert!(gradient.contains("[10.0, 16.0, 24.0]"), "{gradient}");
    }
}
