//! Arrays that are changed in place, with Criterion: rounds that each replace an element, of an array or of a row of a
//! table, and what it takes to make a builder of an array and an array of it again.
//!
//! `cargo bench --bench in_place` prints the time of a round, or of an element, in both engines: of primal runs, and of
//! recording runs with their sweeps, without the host's border.

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use dualvm::{CallOptions, Config, Engine, Function, Jit, Module, Stats, Value};
use std::time::Duration;

const PROGRAM: &str = r#"
type t0 = array real
type t1 = builder real

; i0 rounds, each of which replaces an element of the array; the first one in the end
func "updates" (t0, int, real) -> (real)
  export (xs : Array Real @t0, n : Int, x : Real) -> Real
  regs 2 real, 8 int, t0, t1
{
  iconst i1, 0
  iconst i2, 1
  iconst i4, 1009
  len i3, p0
  build p1, i3
  extend p1, p0, i1, i3
  iconst i5, 0
next:
  get r1, p1, i1
  fma r1, r1, r0, r0
  put p1, i1, r1
  iadd i1, i1, i4
  isub i6, i1, i3
  ilt i7, i1, i3
  iselect i1, i7, i1, i6
  iadd i5, i5, i2
  ilt i6, i5, i0
  branch i6, next, end
end:
  finish p0, p1
  iconst i1, 0
  elem r1, p0, i1
  ret (r1)
}

; i0 times a builder of the array, an array of that, and so on
func "thaws" (t0, int, real) -> (real)
  export (xs : Array Real @t0, n : Int, x : Real) -> Real
  regs 2 real, 4 int, t0, t1
{
  iconst i1, 0
  iconst i2, 1
  len i3, p0
next:
  build p1, i3
  extend p1, p0, i1, i3
  finish p0, p1
  isub i0, i0, i2
  branch i0, next, end
end:
  elem r1, p0, i1
  mul r1, r1, r0
  ret (r1)
}
"#;

/// A table of n rows of n numbers, each of which is computed from the one above it.
const TABLE: &str = "
def rows (xs : Array Real) (n : Int) (x : Real) : Real =
  let table = [| [| xs[(7 * i + j) % length xs] for j < n |] for i < n |] in
  let table =
    loop t = table for i in 1 .. n do
      loop t = t for j < n do { t with [i] = { t[i] with [j] = x * (t[i][j] + t[i - 1][j]) } } in
  table[n - 1][n / 2]
";

fn function(jit: Jit, name: &str) -> Function {
    let mut config = Config::default();
    config.jit = jit;
    let engine = Engine::new(config);
    let module = match name {
        "rows" => Module::from_source(&engine, "table.dual", TABLE).expect("it compiles"),
        _ => Module::from_assembly(&engine, "in_place.dvs", PROGRAM).expect("it is well-formed"),
    };
    module.function(name).expect("the program has the function")
}

/// Adds up what a call says of itself.
fn parts(b: &mut Bencher<'_>, mut call: impl FnMut() -> Stats) {
    b.iter_custom(|times| {
        let stats = (0..times).map(|_| call());
        stats.map(|stats| stats.forward + stats.sweep).sum::<Duration>()
    });
}

fn measure(c: &mut Criterion) {
    let cases = [("updates", 5_000, 100_000), ("rows", 5_000, 100), ("thaws", 1_000, 1_000), ("thaws", 1_000_000, 4)];
    for (name, len, times) in cases {
        let mut group = c.benchmark_group(format!("{name}/{len}"));
        let elements = match name {
            "thaws" => len as u64,
            "rows" => times,
            _ => 1,
        };
        group.throughput(Throughput::Elements(times * elements));
        for (engine, jit) in [("interpreter", Jit::Off), ("native", Jit::Always)] {
            let (function, options) = (function(jit, name), CallOptions::default());
            let xs = Value::Reals((0..len).map(|n| f64::from(n % 17) - 8.5).collect());
            let args = [xs, Value::Int(times as i64), Value::Real(0.5)];
            group.bench_function(format!("{engine}/primal"), |b| {
                parts(b, || function.call_with(&args, &options).expect("runs").1);
            });
            group.bench_function(format!("{engine}/gradient"), |b| {
                parts(b, || function.value_and_grad_with(&args, &options).expect("runs").stats);
            });
        }
    }
}

criterion_group!(benches, measure);
criterion_main!(benches);
