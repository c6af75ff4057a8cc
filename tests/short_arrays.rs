//! Short arrays whose length is known: programs that are written with them are as fast as with numbers, and compute
//! what they would with arrays.
//!
//! Random programs are compiled so that arrays become variables, and as they are written, where none does; they must
//! compute the same. `DUALVM_SEEDS=100000` runs more of them.

mod support;

use dualvm::{CallOptions, Function, Jit, Stats, Value};
use support::dice::Dice;
use support::written::function;
use support::{from_environment, same};

/// Each of these goes a number of steps.
const PROGRAMS: &str = "
import linalg
import ode

def literal (n : Int) (a : Real) : Real =
  let f _ y = [| y[1], -a * y[0] |] in
  let y = ode.rk4 f 0 1 n [| 1, 0 |] in
  y[0]

def operators (n : Int) (a : Real) : Real =
  let h = 1 / to_real n in
  let f y = [| y[1], -a * y[0] |] in
  let y =
    loop y = [| 1.0, 0.0 |] for _ < n do
      let k1 = f y in
      let k2 = f (y + (h / 2) *. k1) in
      let k3 = f (y + (h / 2) *. k2) in
      let k4 = f (y + h *. k3) in
      y + (h / 6) *. (k1 + 2 *. k2 + 2 *. k3 + k4) in
  y[0]

-- The steps are of a size that is chosen, so that there are more of them for a longer time.
def adaptive (n : Int) (a : Real) : Real =
  let f _ y = [| y[1], (1 - y[0] * y[0]) * y[1] * a - y[0] |] in
  let y = ode.solve_to f ode.defaults 0 (to_real n / 10) [| 1, 0 |] in
  y[0]

def kalman (n : Int) (a : Real) : Real =
  let f = [| 1, 0.1; 0, 1 |] in
  let (_, _, s) =
    loop (x, p, s) = ([| 0.0, 1.0 |], [| 1.0, 0.0; 0.0, 1.0 |], 0.0) for i < n do
      let x = linalg.matvec f x in
      let p = linalg.matmul (linalg.matmul f p) (transpose f) + [| a, 0; 0, a |] in
      let innovation = sin (to_real i * 0.1) - x[0] in
      let sigma = p[0, 0] + 0.5 in
      let k = [| p[0, 0] / sigma, p[1, 0] / sigma |] in
      let x = x + innovation *. k in
      let p = [| p[i, j] - k[i] * p[0, j] for i < 2, j < 2 |] in
      (x, p, s + innovation * innovation / sigma + log sigma) in
  s

def spin (n : Int) (a : Real) : Real =
  let cross u v = [| u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0] |] in
  let v =
    loop v = [| 1.0, 0.0, 0.3 |] for _ < n do
      let v = v + 0.01 *. cross [| 0, a, 1 |] v in
      (1 / norm2 v) *. v in
  v[0]

def bodies (n : Int) (a : Real) : Real =
  let m = [| a, 2, 3 |] in
  let xs = [| [| 0.0, 0.0 |], [| 1.0, 0.0 |], [| 0.0, 2.0 |] |] in
  let vs = [| [| 0.0, 0.0 |], [| 0.0, 1.0 |], [| -0.5, 0.0 |] |] in
  let (xs, _) =
    loop (xs, vs) = (xs, vs) for _ < n do
      let force i =
        loop f = [| 0.0, 0.0 |] for j < 3 do
          if i == j then f else let d = xs[j] - xs[i] in f + (m[j] / norm2 d ^ 3) *. d in
      let vs = [| vs[i] + 0.001 *. force i for i < 3 |] in
      ([| xs[i] + 0.001 *. vs[i] for i < 3 |], vs) in
  xs[0][0]

def rotations (n : Int) (a : Real) : Real =
  let m =
    loop m = [| 1.0, 0.0, 0.0; 0.0, 1.0, 0.0; 0.0, 0.0, 1.0 |] for _ < n do
      let r = [| cos a, -(sin a), 0; sin a, cos a, 0; 0, 0, 1 |] in
      linalg.matmul r m in
  m[0, 0] + m[1, 0]

def recursive (n : Int) (a : Real) : Real =
  let go k y = if k == 0 then y[0] * y[1] else go (k - 1) (y + 0.01 *. [| y[1], -a * y[0] |]) in
  go n [| 1.0, 0.5 |]

def changed (n : Int) (a : Real) : Real =
  let y = loop y = [| 1.0, 0.5 |] for _ < n do { y with [0] = y[0] + 0.1 * y[1], [1] = y[1] - a * y[0] } in
  y[0]

def tuples (n : Int) (a : Real) : Real =
  let ps =
    loop ps = [| (1.0, 0.0), (0.0, 1.0) |] for _ < n do
      [| let (x, y) = ps[i] in let (u, v) = ps[1 - i] in (x + a * v, y - a * u) for i < 2 |] in
  let (x, y) = ps[0] in
  x * y
";
const NAMES: &str = "literal operators adaptive kalman spin bodies rotations recursive changed tuples";

/// The value of a function on a number of steps and a real, and its derivative by that.
fn derivative(f: &Function, n: i64, a: f64) -> (f64, f64, Stats) {
    let args = [Value::Int(n), Value::Real(a)];
    let found = f.value_and_grad_with(&args, &CallOptions::default()).expect("it ends");
    let Value::Real(derivative) = found.gradient[1] else { panic!("{:?}", found.gradient) };
    (found.value, derivative, found.stats)
}

/// Whether two derivatives are the same but for the order in which contributions were added.
fn close(a: f64, b: f64, size: f64) -> bool {
    same(a, b) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-12 * size
}

#[test]
fn steps_make_neither_arrays_nor_records() {
    for name in NAMES.split(' ') {
        let written = function(PROGRAMS, name, Jit::Off, true);
        for jit in [Jit::Off, Jit::Always] {
            let f = function(PROGRAMS, name, jit, false);
            let [few, many] = [20, 200].map(|n| derivative(&f, n, 0.7));
            assert!(few.2.records < 8, "{name} with {jit:?}: {:?}", few.2);
            assert_eq!(few.2.records, many.2.records, "{name} with {jit:?}");
            assert_eq!(few.2.allocated_bytes, many.2.allocated_bytes, "{name} with {jit:?}");
            let expected = derivative(&written, 200, 0.7);
            assert!(same(many.0, expected.0), "{name} with {jit:?}: {}, {}", many.0, expected.0);
            assert!(close(many.1, expected.1, 1.0), "{name} with {jit:?}: {}, {}", many.1, expected.1);
            let h = 1e-6;
            let difference = (derivative(&f, 20, 0.7 + h).0 - derivative(&f, 20, 0.7 - h).0) / (2.0 * h);
            // The sizes of adaptive steps are constants for derivatives.
            let tolerance = if name == "adaptive" { 1e-3 } else { 1e-6 };
            let distance = (difference - few.1).abs() / few.1.abs().max(1.0);
            assert!(distance < tolerance, "{name} with {jit:?}: {}, differences give {difference}", few.1);
        }
    }
}

/// The state that the host gives may have any length.
const FROM_HOST: &str = "
import ode

def solution (a : Real) (y : Array Real) : Array Real =
  let f _ y = [| y[1], -a * y[0] |] in
  ode.rk4 f 0 1 50 y

def two (a : Real) (y : Array Real) (z : Array Real) : Real =
  let (y, z) = loop (y, z) = (y, z) for _ < 50 do ([| y[1] + a, z[0] * 0.5 |], [| z[1], y[0] * a |]) in
  sum y + 3 * sum z

def distance (a : Real) (y : Array Real) : Real = let d = y - [| a, 2.0 |] in sum (d * d)

def asserted (a : Real) (y : Array Real) (z : Array Real) : Real =
  let (n, m) = (length y, length z) in
  let () = assert (n == m && n == 2) \"{n} and {m} numbers\" in
  let both = [| a, 1.0 |] + [| y[i] * a + z[i] for i < n |] in
  if length z != 3 then both[0] * both[1] * norm2 (both + z) else 0

def one (a : Real) (y : Array Real) : Real = a * y[0]
def both (a : Real) (y : Array Real) (z : Array Real) : Real = a * y[0] + z[0]
";

#[test]
fn arrays_of_the_host_have_any_length() {
    let reals = |values: &[f64]| Value::Reals(values.to_vec());
    for jit in [Jit::Off, Jit::Always] {
        let of = |name: &str, as_written| function(FROM_HOST, name, jit, as_written);
        for (name, params) in [("solution", 2), ("two", 3), ("distance", 2), ("asserted", 3)] {
            let (f, written) = (of(name, false), of(name, true));
            for y in [&[][..], &[1.0], &[1.0, 0.5], &[1.0, 0.5, 2.0], &[f64::NAN, 1.0], &[f64::INFINITY, 0.0]] {
                for z in [&[0.25, -1.0][..], &[0.25, -1.0, 3.0], &[4.0]] {
                    let args = &[Value::Real(0.7), reals(y), reals(z)][..params];
                    let text = |f: &Function| match f.call(args) {
                        Ok(value) => value.to_string(),
                        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
                    };
                    assert_eq!(text(&f), text(&written), "{name} of {args:?} with {jit:?}");
                }
            }
        }
        // What is as long as a short array is one.
        let used = |name: &str, params: usize| {
            let args = [Value::Real(0.7), reals(&[1.0, 0.5]), reals(&[0.25, -1.0])];
            let found = of(name, false).value_and_grad_with(&args[..params], &CallOptions::default());
            found.expect("it ends").stats.allocated_bytes
        };
        assert_eq!(used("distance", 2), used("one", 2), "with {jit:?}");
        assert_eq!(used("asserted", 3), used("both", 3), "with {jit:?}");
        let (f, written) = (of("two", false), of("two", true));
        // The same array twice.
        for z in [reals(&[1.0, 0.5]), reals(&[0.1, 0.5])] {
            let args = [Value::Real(0.7), reals(&[1.0, 0.5]), z];
            let [found, expected] = [&f, &written].map(|f| f.value_and_grad(&args).expect("it ends"));
            assert!(same(found.0, expected.0), "with {jit:?}");
            let parts = |gradient: &[Value]| -> Vec<f64> {
                gradient
                    .iter()
                    .flat_map(|part| match part {
                        Value::Real(x) => vec![*x],
                        Value::Reals(xs) => xs.clone(),
                        _ => panic!("{part:?}"),
                    })
                    .collect()
            };
            for (found, expected) in parts(&found.1).into_iter().zip(parts(&expected.1)) {
                assert!(close(found, expected, 1.0), "with {jit:?}: {found}, {expected}");
            }
        }
    }
}

/// What stays an array, and what is at the edge of becoming variables.
const EDGES: &str = "
def beyond (n : Int) (a : Real) : Real = let y = [| a, 2.0 |] in if n > 100 then y[2] else y[0] * y[1]

def negative (n : Int) (a : Real) : Real = let y = [| a, 2.0 |] in if n > 100 then y[-1] else y[0] * y[1]

def unknown (n : Int) (a : Real) : Real =
  loop s = 0.0 for i < n do let y = [| a, s, 3.0 |] in s + y[i % 3] * y[0]

def whole (n : Int) (a : Real) : Real =
  let y = [| a, 2.0 |] in loop s = 0.0 for i < n do s + deep y i * y[0]

private def deep (y : Array Real) (i : Int) : Real = if i > 50 then deep (y ++ y) (i - 50) else y[i % 2]

def once (n : Int) (a : Real) : Real =
  let y = loop y = [| a, 2.0 |] for _ < n do [| y[1], y[0] * a |] in deep y n

def empty (n : Int) (a : Real) : Real =
  let y = loop y = [||] for i < n do [| y[i] * a for i < length y |] in sum y + a

def single (n : Int) (a : Real) : Real = (loop y = [| a |] for _ < n do [| sin y[0] |])[0]

def constants (n : Int) (_ : Real) : Real = (loop y = [| 1.0, 2.0 |] for _ < n do [| y[1], y[0] |])[0]

def unused (n : Int) (a : Real) : Real = (loop y = [| a, log a |] for _ < n do [| y[0] * a, y[1] / 0 |])[0]

def infinite (n : Int) (a : Real) : Real =
  let y = loop y = [| a, 0.0 |] for _ < n do [| y[0] * 0.5, 1 / (y[1] * 0) |] in y[0] + detach y[1] * 0

def untaken (n : Int) (a : Real) : Real =
  loop s = 0.0 for i < n do
    let y = if i < 1000 then [| a, s |] else [| s / 0, 0 / 0 |] in s + y[0] * (if i < 2000 then y[0] else y[1])

def twice (n : Int) (a : Real) : Real =
  let y = [| a, a |] in loop s = 0.0 for _ < n do let z = y + y in s + z[0] * y[1] + z[0]

def lengths (n : Int) (a : Real) : Real =
  loop s = 0.0 for i < n do
    let y = if i % 2 == 0 then [| a |] else [| a, s |] in s + sum y * to_real (length y)

def swapped (n : Int) (a : Real) : Real =
  let (y, z) = loop (y, z) = ([| a, 1.0 |], [| 2.0, a |]) for _ < n do (z, y) in y[0] + 2 * z[1]

def left (n : Int) (a : Real) : Real =
  let (_, y) = loop (i, y) = (0, [| a, 1.0 |]) while i < n && y[0] < 1000 do (i + 1, [| y[0] * 1.5, y[0] + y[1] |]) in
  y[0] + y[1]

def integers (n : Int) (a : Real) : Real =
  let k = loop k = [| 0, 1 |] for _ < n % 40 do [| k[1], k[0] + k[1] |] in a * to_real (k[0] % 1000)

def filtered (n : Int) (a : Real) : Real =
  loop s = 0.0 for k < n do let y = [| a * to_real i for i < 4 if i != k % 4 |] in s + y[0] * y[2]

def row (n : Int) (a : Real) : Real =
  let xs = [| [| a, 2.0 |], [| 3.0, a |] |] in
  let r = loop r = xs[0] for i < n do [| r[1], r[0] * a |] in
  r[0]

def other_row (n : Int) (a : Real) : Real =
  let xs = [| [| a, 2.0 |], [| 3.0, a |] |] in
  loop s = 0.0 for i < n do let r = if i % 2 == 0 then xs[1] else [| s, a |] in s + r[0] * r[1]

def short_row (n : Int) (a : Real) : Real =
  let xs = [| [| a |], [| 3.0 |] |] in
  let r = if n > 0 then xs[0] else [| a * a |] in
  r[0]

def rows_by_recursion (n : Int) (a : Real) : Real =
  let go i r xs = if i == 0 then r[0] + r[1] else go (i - 1) xs[1] [| r, [| r[0] * 0.5, xs[0][1] |] |] in
  go n [| 1.0, a |] [| [| a, 2.0 |], [| 3.0, a |] |]

def handed (n : Int) (a : Real) : Real =
  loop s = 0.0 for i < n do
    let g = grad (\\y -> y[0] * y[0] * y[1]) [| a, s * 0.001 |] in s + g[0] + 0.1 * g[1]
";
const EDGE_NAMES: &str = "beyond negative unknown whole once empty single constants unused infinite untaken twice \
                          lengths swapped left integers filtered row \
                          other_row short_row rows_by_recursion handed";

#[test]
fn what_stays_an_array_computes_the_same() {
    for name in EDGE_NAMES.split_whitespace() {
        let written = function(EDGES, name, Jit::Off, true);
        let [off, always] = [Jit::Off, Jit::Always].map(|jit| function(EDGES, name, jit, false));
        for n in [0, 1, 2, 7, 120] {
            for a in [0.7, 0.0, -1.5, f64::INFINITY, f64::NAN] {
                let args = [Value::Int(n), Value::Real(a)];
                let of = |f: &Function| f.value_and_grad(&args).map_err(|error| error.to_string());
                let [expected, found, native] = [&written, &off, &always].map(of);
                match (expected, found, native) {
                    (Ok(expected), Ok(found), Ok(native)) => {
                        let part = |(_, gradient): &(f64, Vec<Value>)| match gradient[1] {
                            Value::Real(x) => x,
                            _ => panic!("{gradient:?}"),
                        };
                        let all = [&expected, &found, &native].map(|found| (found.0, part(found)));
                        let [expected, found, native] = all;
                        assert!(same(found.0, native.0) && same(found.1, native.1), "{name} {args:?}: {all:?}");
                        assert!(same(expected.0, found.0), "{name} {args:?}: {all:?}");
                        assert!(close(expected.1, found.1, expected.0.abs()), "{name} {args:?}: {all:?}");
                    }
                    (Err(expected), Err(found), Err(native)) => {
                        let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
                        assert_eq!(first(&expected), first(&found), "{name} {args:?}");
                        assert_eq!(found, native, "{name} {args:?}");
                    }
                    all => panic!("{name} {args:?}: {all:?}"),
                }
            }
        }
    }
}

/// What is handed on as a whole, and what is changed in place.
const HANDED_ON: &str = "
private def deep (k : Int) (y : Array Real) : Real = if k > 90 then y[0] + deep (k - 1) (y ++ y) else y[k % 2]

def seldom (n : Int) (m : Int) (a : Real) : Real =
  let (_, s) =
    loop (y, s) = ([| a, 2.0 |], 0.0) for i < n do
      let s = s + deep (i % 7) y in
      (if i % m == 0 then [| y[1], y[0] + s * 1e-9 |] else y, s) in
  s

def outside (n : Int) (m : Int) (a : Real) : Real =
  let p = [| a, 2.0 |] in
  loop s = 0.0 for k < n do
    let y = loop y = p for i < (if k % m == 0 then 1 else 0) do [| y[0] * 0.5, y[1] * a |] in
    s + deep (k % 5) y

def comprehension (n : Int) (_ : Int) (a : Real) : Real =
  let y = [| a, 2.0 |] in sum [| deep (k % 5) y * y[0] for k < n |]

def kept (n : Int) (m : Int) (a : Real) : Real =
  let y = [| a, 2.0 |] in
  loop s = 0.0 for k < n do
    let z = if k % m == 0 then [| s, a |] else y in
    s * 0.5 + deep (k % 5) z + deep (k % 3) z + y[0]

def in_place (n : Int) (m : Int) (a : Real) : Real =
  let y = [| a * to_real i for i < m |] in
  let y = loop y = y for i < n do
    let y = { y with [i % m] = y[i % m] + 1.0 } in
    loop y = y for j < i % 3 do
      let c = [| 1.0, y[0] * 1e-3 |] in
      { y with [1] = c[1] + y[0] * c[0] } in
  y[0] + y[1]
";

#[test]
fn what_is_handed_on_is_not_made_again() {
    for name in ["seldom", "outside", "comprehension", "kept", "in_place"] {
        for jit in [Jit::Off, Jit::Always] {
            let f = function(HANDED_ON, name, jit, false);
            let args = [Value::Int(5_000), Value::Int(1_000), Value::Real(0.7)];
            let (value, stats) = f.call_with(&args, &CallOptions::default()).expect("it ends");
            // An array of two numbers takes 48 bytes, and one of as many as there are rounds 40,000.
            assert!(stats.allocated_bytes < 60_000, "{name} with {jit:?}: {value}, {stats:?}");
        }
    }
}

#[test]
fn long_conditions_are_read_once() {
    let mut condition = "k == 1000".to_owned();
    for k in 0..60 {
        condition = format!("k == {k} && ({condition})");
    }
    let text = format!(
        "def f (n : Int) (a : Real) : Real =
           let y = [| a, 2.0 |] in
           loop s = 0.0 for k < n do if {condition} then s else if not ({condition}) then s + y[0] else y[1]"
    );
    let (value, derivative, _) = derivative(&function(&text, "f", Jit::Off, false), 10, 0.5);
    assert_eq!((value, derivative), (5.0, 10.0));
}

/// Writes random expressions. What there is to read is named.
struct Writer<'w> {
    dice: &'w mut Dice,
    names: usize,
}

/// What expressions may read.
#[derive(Clone, Default)]
struct Scope {
    reals: Vec<String>,
    ints: Vec<String>,
    /// Arrays, with their lengths.
    arrays: Vec<(String, usize)>,
    matrices: Vec<String>,
    /// Arrays of two arrays of two numbers.
    nested: Vec<String>,
}

/// What a variable is.
#[derive(Clone, Copy)]
enum Kind {
    Real,
    Array(usize),
    Matrix,
    Nested,
}

impl Scope {
    fn with(&self, kind: Kind, name: &str) -> Scope {
        let mut scope = self.clone();
        match kind {
            Kind::Real => scope.reals.push(name.to_owned()),
            Kind::Array(length) => scope.arrays.push((name.to_owned(), length)),
            Kind::Matrix => scope.matrices.push(name.to_owned()),
            Kind::Nested => scope.nested.push(name.to_owned()),
        }
        scope
    }

    fn with_int(&self, name: &str) -> Scope {
        let mut scope = self.clone();
        scope.ints.push(name.to_owned());
        scope
    }
}

impl Writer<'_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn kind(&mut self) -> Kind {
        match self.dice.usize(0..8) {
            0 => Kind::Real,
            1 => Kind::Matrix,
            2 => Kind::Nested,
            _ => Kind::Array(self.dice.usize(1..5)),
        }
    }

    fn value(&mut self, scope: &Scope, kind: Kind, depth: usize) -> String {
        match kind {
            Kind::Real => self.real(scope, depth),
            Kind::Array(length) => self.array(scope, length, depth),
            Kind::Matrix => self.matrix(scope, depth),
            Kind::Nested => self.nested(scope, depth),
        }
    }

    fn index(&mut self, scope: &Scope, length: usize) -> String {
        match self.dice.usize(0..100) {
            0 => format!("{length}"),
            1..35 if !scope.ints.is_empty() => {
                format!("({} + {}) % {length}", self.dice.pick(&scope.ints), self.dice.usize(0..4))
            }
            _ => format!("{}", self.dice.usize(0..length)),
        }
    }

    fn condition(&mut self, scope: &Scope) -> String {
        match self.dice.usize(0..8) {
            0..4 if !scope.ints.is_empty() => {
                format!("{} % 3 == {}", self.dice.pick(&scope.ints), self.dice.usize(0..2))
            }
            4 if !scope.arrays.is_empty() => {
                let (array, _) = self.dice.pick(&scope.arrays);
                format!("length {array} == {}", self.dice.usize(1..5))
            }
            _ => format!("{} > {}", self.real(scope, 3), self.real(scope, 3)),
        }
    }

    fn real(&mut self, scope: &Scope, depth: usize) -> String {
        if depth > 3 {
            return self.dice.pick(&["0.5", "1.25", "(-0.75)", "2.0"]).to_owned();
        }
        match self.dice.usize(0..13) {
            0 | 1 => self.dice.pick(&scope.reals),
            2..5 if !scope.arrays.is_empty() => {
                let (array, length) = self.dice.pick(&scope.arrays);
                format!("{array}[{}]", self.index(scope, length))
            }
            5 if !scope.matrices.is_empty() => {
                let matrix = self.dice.pick(&scope.matrices);
                format!("{matrix}[{}, {}]", self.index(scope, 2), self.index(scope, 2))
            }
            6 if !scope.nested.is_empty() => {
                let array = self.dice.pick(&scope.nested);
                format!("{array}[{}][{}]", self.index(scope, 2), self.index(scope, 2))
            }
            7 => format!("sin ({})", self.real(scope, depth + 1)),
            8 => {
                let condition = self.condition(scope);
                let (then, other) = (self.real(scope, depth + 1), self.real(scope, depth + 1));
                format!("(if {condition} then {then} else {other})")
            }
            9 => {
                let reader = self.dice.pick(&["sum", "norm2", "opaque", "ends"]);
                let length = self.dice.usize(1..5);
                format!("{reader} ({})", self.array(scope, length, depth + 1))
            }
            10 if depth < 2 => {
                let (index, sum) = (self.name(), self.name());
                let init = self.real(scope, depth + 1);
                let next = self.real(&scope.with_int(&index).with(Kind::Real, &sum), depth + 2);
                format!("(loop {sum} = {init} for {index} < {} do {next})", self.dice.usize(1..5))
            }
            _ => {
                let operator = self.dice.pick(&["+", "-", "*"]);
                format!("({} {operator} {})", self.real(scope, depth + 1), self.real(scope, depth + 1))
            }
        }
    }

    fn literal(&mut self, scope: &Scope, length: usize, depth: usize) -> String {
        let elements: Vec<String> = (0..length).map(|_| self.real(scope, depth)).collect();
        format!("[| {} |]", elements.join(", "))
    }

    fn array(&mut self, scope: &Scope, length: usize, depth: usize) -> String {
        if depth > 3 {
            return self.literal(scope, length, 3);
        }
        let alike: Vec<String> =
            scope.arrays.iter().filter(|(_, other)| *other == length).map(|(name, _)| name.clone()).collect();
        match self.dice.usize(0..13) {
            0..3 if !alike.is_empty() => self.dice.pick(&alike),
            3 | 4 => {
                let index = self.name();
                let mut element = self.real(&scope.with_int(&index), depth + 1);
                let mut count = length.to_string();
                if !alike.is_empty() {
                    element = format!("{}[{index}] + {element}", self.dice.pick(&alike));
                    count = format!("length {}", self.dice.pick(&alike));
                }
                format!("[| {element} for {index} < {count} |]")
            }
            5 => format!("({} + {})", self.array(scope, length, depth + 1), self.array(scope, length, depth + 1)),
            6 => format!("({} *. {})", self.real(scope, depth + 2), self.array(scope, length, depth + 1)),
            7 => {
                let condition = self.condition(scope);
                let (then, other) = (self.array(scope, length, depth + 1), self.array(scope, length, depth + 1));
                format!("(if {condition} then {then} else {other})")
            }
            8 if !alike.is_empty() => {
                let (index, element) = (self.index(scope, length), self.real(scope, depth + 1));
                format!("{{ {} with [{index}] = {element} }}", self.dice.pick(&alike))
            }
            9 if depth < 2 => {
                let (index, array) = (self.name(), self.name());
                let init = self.array(scope, length, depth + 1);
                let next = self.array(&scope.with_int(&index).with(Kind::Array(length), &array), length, depth + 1);
                format!("(loop {array} = {init} for {index} < {} do {next})", self.dice.pick(&["2", "3", "n"]))
            }
            10 => format!("flip ({})", self.array(scope, length, depth + 1)),
            11 if length == 2 && !scope.nested.is_empty() => {
                let array = self.dice.pick(&scope.nested);
                format!("{array}[{}]", self.index(scope, 2))
            }
            _ => self.literal(scope, length, depth + 1),
        }
    }

    fn matrix(&mut self, scope: &Scope, depth: usize) -> String {
        match self.dice.usize(0..5) {
            0 if !scope.matrices.is_empty() => self.dice.pick(&scope.matrices),
            1 => {
                let (i, j) = (self.name(), self.name());
                let mut element = self.real(&scope.with_int(&i).with_int(&j), depth + 1);
                if !scope.matrices.is_empty() {
                    element = format!("{}[{j}, {i}] * {element}", self.dice.pick(&scope.matrices));
                }
                format!("[| {element} for {i} < 2, {j} < 2 |]")
            }
            2 if !scope.matrices.is_empty() => {
                let (a, b) = (self.dice.pick(&scope.matrices), self.dice.pick(&scope.matrices));
                format!("linalg.matmul {a} {b}")
            }
            3 if depth < 2 => {
                let condition = self.condition(scope);
                format!(
                    "(if {condition} then {} else {})",
                    self.matrix(scope, depth + 1),
                    self.matrix(scope, depth + 1)
                )
            }
            _ => {
                let [a, b, c, d] = [(); 4].map(|()| self.real(scope, 2));
                format!("[| {a}, {b}; {c}, {d} |]")
            }
        }
    }

    fn nested(&mut self, scope: &Scope, depth: usize) -> String {
        match self.dice.usize(0..4) {
            0 if !scope.nested.is_empty() => self.dice.pick(&scope.nested),
            1 => {
                let index = self.name();
                let mut element = self.array(&scope.with_int(&index), 2, depth + 2);
                if !scope.nested.is_empty() {
                    element = format!("{}[{index}] + {element}", self.dice.pick(&scope.nested));
                }
                format!("[| {element} for {index} < 2 |]")
            }
            _ => format!("[| {}, {} |]", self.array(scope, 2, 2), self.array(scope, 2, 2)),
        }
    }

    /// Values of these kinds, perhaps behind a branch.
    fn state(&mut self, scope: &Scope, kinds: &[Kind]) -> String {
        let mut scope = scope.clone();
        let mut text = String::new();
        for _ in 0..self.dice.usize(0..3) {
            let (kind, name) = (self.kind(), self.name());
            text += &format!("let {name} = {} in ", self.value(&scope, kind, 0));
            scope = scope.with(kind, &name);
        }
        let all = |writer: &mut Self| {
            let values: Vec<String> = kinds.iter().map(|&kind| writer.value(&scope, kind, 1)).collect();
            format!("({})", values.join(", "))
        };
        match self.dice.usize(0..3) {
            0 => {
                let condition = self.condition(&scope);
                format!("({text}if {condition} then {} else {})", all(self), all(self))
            }
            _ => format!("({text}{})", all(self)),
        }
    }
}

/// A program with a function of a number of steps, a real and an array.
fn random_program(dice: &mut Dice) -> String {
    let mut writer = Writer { dice, names: 0 };
    let kinds: Vec<Kind> = (0..writer.dice.usize(1..4)).map(|_| writer.kind()).collect();
    let names: Vec<String> = (0..kinds.len()).map(|at| format!("s{at}")).collect();
    let pattern = format!("({})", names.join(", "));
    let outside = Scope::default().with(Kind::Real, "a").with(Kind::Array(2), "h");
    let init = writer.state(&outside, &kinds);
    let mut inside = outside;
    for (&kind, name) in kinds.iter().zip(&names) {
        inside = inside.with(kind, name);
    }
    let next = writer.state(&inside.with_int("k"), &kinds);
    let steps = match writer.dice.usize(0..3) {
        0 => format!(
            "let go k {} = if k >= n then {pattern} else let {pattern} = {next} in go (k + 1) {} in
  let {pattern} = {init} in
  let {pattern} = go 0 {} in",
            names.join(" "),
            names.join(" "),
            names.join(" ")
        ),
        1 => format!(
            "let (_, {0}) = loop (k, {0}) = (let {pattern} = {init} in (0, {0}))
    while k < n && {1} < 50 do (let {pattern} = {next} in (k + 1, {0})) in",
            names.join(", "),
            writer.real(&inside, 2)
        ),
        _ => format!("let {pattern} = loop {pattern} = {init} for k < n do {next} in"),
    };
    let result = writer.real(&inside, 0);
    format!(
        "import linalg
private def opaque (x : Array Real) : Real =
  if length x > 7 then opaque (x ++ x) + 1 else loop s = 0.0 for i < length x do s * 0.5 + x[i] * x[i]
private def ends (x : Array Real) : Real = x[0] * x[length x - 1]
private def flip (x : Array Real) : Array Real = [| x[length x - 1 - i] for i < length x |]
def main (n : Int) (a : Real) (h : Array Real) : Real =
  {steps}
  {result}
"
    )
}

#[test]
fn random_programs_compute_what_they_would_with_arrays() {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let count = from_environment("DUALVM_SEEDS").unwrap_or(150);
    let (mut ended, mut trapped, mut fewer) = (0, 0, 0);
    for seed in first..first + count {
        let text = random_program(&mut Dice::with_seed(seed));
        let written = function(&text, "main", Jit::Off, true);
        let [off, always] = [Jit::Off, Jit::Always].map(|jit| function(&text, "main", jit, false));
        for (n, h) in [(3, &[0.3, -1.1][..]), (0, &[0.3, -1.1]), (2, &[0.3]), (2, &[0.3, 0.2, 0.9])] {
            let args = [Value::Int(n), Value::Real(0.7), Value::Reals(h.to_vec())];
            let options = CallOptions::default();
            let of = |f: &Function| f.value_and_grad_with(&args, &options).map_err(|error| error.to_string());
            let context = || format!("seed {seed}, {args:?}\n{text}");
            match [&written, &off, &always].map(of) {
                [Ok(expected), Ok(found), Ok(native)] => {
                    ended += 1;
                    let [allocated, before] = [&found, &expected].map(|found| found.stats.allocated_bytes);
                    // What comes out of a loop of which there is a version is made for that.
                    assert!(allocated <= before + 200, "{allocated} bytes for {before}\n{}", context());
                    fewer += u64::from(found.stats.allocated_bytes < expected.stats.allocated_bytes);
                    let all = [&expected, &found, &native].map(|found| {
                        let (Value::Real(a), Value::Reals(h)) = (&found.gradient[1], &found.gradient[2]) else {
                            panic!("{:?}", found.gradient)
                        };
                        std::iter::once(*a).chain(h.iter().copied()).collect::<Vec<f64>>()
                    });
                    assert!(same(expected.value, found.value), "{}\n{expected:?}\n{found:?}", context());
                    assert!(same(found.value, native.value), "{}\n{found:?}\n{native:?}", context());
                    let size = all[0].iter().fold(expected.value.abs(), |size, x| size.max(x.abs()));
                    for ((expected, found), native) in all[0].iter().zip(&all[1]).zip(&all[2]) {
                        assert!(same(*found, *native), "{}\n{all:?}", context());
                        assert!(close(*expected, *found, size), "{}\n{all:?}", context());
                    }
                }
                [Err(expected), Err(found), Err(native)] => {
                    trapped += 1;
                    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
                    assert_eq!(first(&expected), first(&found), "{}", context());
                    assert_eq!(found, native, "{}", context());
                }
                all => panic!("{}\n{all:?}", context()),
            }
        }
    }
    assert!(fewer * 2 > ended, "of {ended} runs only {fewer} make fewer arrays");
    assert!(trapped < ended, "{trapped} runs trapped, {ended} ended");
}
