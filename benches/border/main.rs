//! What a call spends at the border between host and program, beside the run itself, with Criterion.
//!
//! `cargo bench --bench border` prints for each program and size how long whole calls take, with values, through a flat
//! and through a typed handle, primal and gradient; group `run` has the parts of such calls that are no border: the
//! forward run, and the sweep. The difference is the border's. `copy` is what copying as many reals takes by itself.
//! With `--features ndarray` there are calls with arrays of that crate, too. Group `fit` has the gradient of a fit's
//! loss by two parameters: with the points as a value in each call, and with the points bound to the function. Group
//! `host` calls a function of the host's [`HOST_CALLS`] times, which takes so many reals and gives twice as much of
//! each, as an array, a matrix and a list.

use criterion::{Bencher, BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use dualvm::flat::LeafKind::{self, Reals, Shape};
use dualvm::{CallFrame, CallOptions, Config, Engine, FlatValue, Function, HostFunction, Matrix, Module, Stats, Value};
use std::hint::black_box;
use std::time::Duration;

const PROGRAM: &str = "
    def dotprod (xs : Array Real) (ys : Array Real) : Real =
      loop sum = 0.0 for i < length xs do sum + xs[i] * ys[i]
    def points (ps : Array (Real, Real, Real)) : Real =
      loop sum = 0.0 for i < length ps do let (x, y, z) = ps[i] in sum + x * y * z
    def fit (a : Real) (b : Real) (ps : Array (Real, Real, Real)) : Real =
      sum [| w * (a + b * x - y) ^ 2 for (w, x, y) in ps |]
    def rows (m : Array (Array Real)) : Real =
      loop sum = 0.0 for i < length m do
        let row = m[i] in loop sum = sum for j < length row do sum + row[j] * row[j]";

const HOSTED: &str = "
    import host \"array\" as of_array : Array Real -> Array Real
    import host \"matrix\" as of_matrix : Matrix Real -> Matrix Real
    import host \"list\" as of_list : List Real -> List Real
    def array (xs : Array Real) (n : Int) : Real = loop sum = 0.0 for i < n do sum + (of_array xs)[i]
    def matrix (m : Matrix Real) (n : Int) : Real = loop sum = 0.0 for i < n do sum + (of_matrix m)[0, i]
    def list (xs : List Real) (n : Int) : Real = loop sum = 0.0 for i < n do sum + head (of_list xs)";

/// How often a program calls a function of the host's.
const HOST_CALLS: usize = 100;

const SIZES: [usize; 2] = [10_000, 1_000_000];

/// Reals in a row of a matrix.
const COLUMNS: usize = 100;

fn function(name: &str) -> Function {
    let module = Module::from_source(&Engine::default(), "border.dual", PROGRAM).expect("the program has no errors");
    module.function(name).expect("the program has the function")
}

fn reals(count: usize) -> Vec<f64> {
    (0..count).map(|n| (n % 17) as f64 - 8.5).collect()
}

/// Adds up what a call says of itself.
fn parts(b: &mut Bencher<'_>, mut call: impl FnMut() -> Stats) {
    b.iter_custom(|times| {
        let stats = (0..times).map(|_| call());
        stats.map(|stats| stats.forward + stats.sweep).sum::<Duration>()
    });
}

/// Calls with values, and the parts of calls that are no border.
fn values(group: &mut BenchmarkGroup<'_, WallTime>, function: &Function, args: &[Value]) {
    let options = CallOptions::default();
    group.bench_function("run/primal", |b| parts(b, || function.call_with(args, &options).expect("runs").1));
    group.bench_function("run/gradient", |b| {
        parts(b, || function.value_and_grad_with(args, &options).expect("runs").stats)
    });
    group.bench_function("values/primal", |b| b.iter(|| function.call(black_box(args)).expect("runs")));
    group.bench_function("values/gradient", |b| b.iter(|| function.value_and_grad(black_box(args)).expect("runs")));
}

fn dotprod(c: &mut Criterion) {
    for size in SIZES {
        let mut group = c.benchmark_group(format!("dotprod/{size}"));
        let (function, xs, ys) = (function("dotprod"), reals(size), reals(size));
        values(&mut group, &function, &[Value::Reals(xs.clone()), Value::Reals(ys.clone())]);

        let (flat, mut frame) = (function.flat().expect("it is flat"), CallFrame::new());
        let args = [FlatValue::Reals(&xs), FlatValue::Reals(&ys)];
        group.bench_function("flat/primal", |b| b.iter(|| _ = flat.call(&mut frame, black_box(&args)).expect("runs")));
        group.bench_function("flat/gradient", |b| {
            b.iter(|| _ = flat.value_and_grad(&mut frame, black_box(&args)).expect("runs"));
        });

        let typed = function.typed::<(&[f64], &[f64]), f64>().expect("its types");
        let args = (&xs[..], &ys[..]);
        group.bench_function("typed/primal", |b| b.iter(|| typed.call(black_box(args)).expect("runs")));
        group.bench_function("typed/gradient", |b| b.iter(|| typed.value_and_grad(black_box(args)).expect("runs")));
        let mut gradient = (Vec::new(), Vec::new());
        group.bench_function("typed/value_and_grad_into", |b| {
            b.iter(|| typed.value_and_grad_into(black_box(args), &mut gradient))
        });
        let (mut by_xs, mut by_ys) = (vec![0.0; size], vec![0.0; size]);
        group.bench_function("typed/value_and_grad_into_slices", |b| {
            b.iter(|| typed.value_and_grad_into_slices(black_box(args), [&mut by_xs, &mut by_ys]).expect("runs"));
        });
        #[cfg(feature = "ndarray")]
        arrays(&mut group, &function, [&xs, &ys]);
        group.bench_function("copy", |b| {
            b.iter(|| {
                by_xs.copy_from_slice(black_box(&xs));
                by_ys.copy_from_slice(black_box(&ys));
                black_box((&mut by_xs, &mut by_ys));
            });
        });
        group.finish();
    }
}

/// The same with views of ndarray: side by side in memory, and every second element of twice as many, backwards.
#[cfg(feature = "ndarray")]
fn arrays(group: &mut BenchmarkGroup<'_, WallTime>, function: &Function, of: [&[f64]; 2]) {
    use ndarray::{Array1, ArrayView1, s};
    let typed = function.typed::<(ArrayView1<'_, f64>, ArrayView1<'_, f64>), f64>().expect("its types");
    let views = of.map(ArrayView1::from);
    let apart = of.map(|xs| Array1::from_iter(xs.iter().flat_map(|&x| [x, x])));
    let [xs, ys] = apart.each_ref().map(|xs| xs.slice(s![..;-2]));
    for (name, args) in [("ndarray", views.into()), ("ndarray strided", (xs, ys))] {
        group.bench_function(format!("{name}/primal"), |b| b.iter(|| typed.call(black_box(args)).expect("runs")));
        let mut gradient = Default::default();
        group.bench_function(format!("{name}/value_and_grad_into"), |b| {
            b.iter(|| typed.value_and_grad_into(black_box(args), &mut gradient))
        });
    }
}

/// Points, as a vector and as a value.
fn some_points(size: usize) -> (Vec<(f64, f64, f64)>, Value) {
    let ps: Vec<(f64, f64, f64)> = reals(3 * size).chunks(3).map(|p| (p[0], p[1], p[2])).collect();
    let tuples = ps.iter().map(|&(x, y, z)| Value::Tuple(vec![x.into(), y.into(), z.into()]));
    let value = Value::Array(tuples.collect());
    (ps, value)
}

fn fit(c: &mut Criterion) {
    for size in SIZES {
        let mut group = c.benchmark_group(format!("fit/{size}"));
        let (function, (_, points)) = (function("fit").wrt(&["a", "b"]).expect("it has them"), some_points(size));
        let (a, b) = (Value::Real(0.5), Value::Real(0.25));
        let args = [a.clone(), b.clone(), points.clone()];
        group.bench_function("values", |b| b.iter(|| function.value_and_grad(black_box(&args)).expect("runs")));
        let (bound, args) = (function.bind("ps", &points).expect("it has it"), [a, b]);
        group.bench_function("bound", |b| b.iter(|| bound.value_and_grad(black_box(&args)).expect("runs")));
        let typed = bound.typed::<(f64, f64), f64>().expect("its types");
        group.bench_function("bound, typed", |b| b.iter(|| typed.value_and_grad(black_box((0.5, 0.25)))));
        group.finish();
    }
}

fn points(c: &mut Criterion) {
    for size in SIZES {
        let mut group = c.benchmark_group(format!("points/{size}"));
        let (function, (ps, value)) = (function("points"), some_points(size));
        values(&mut group, &function, &[value]);

        let typed = function.typed::<(&[(f64, f64, f64)],), f64>().expect("its types");
        group.bench_function("typed/primal", |b| b.iter(|| typed.call((black_box(&ps),)).expect("runs")));
        group.bench_function("typed/gradient", |b| b.iter(|| typed.value_and_grad((black_box(&ps),)).expect("runs")));
        let mut gradient = (Vec::new(),);
        group.bench_function("typed/value_and_grad_into", |b| {
            b.iter(|| typed.value_and_grad_into((black_box(&ps),), &mut gradient))
        });
        let mut by_ps = vec![0.0; 3 * size];
        group.bench_function("typed/value_and_grad_into_slices", |b| {
            b.iter(|| typed.value_and_grad_into_slices((black_box(&ps),), [&mut by_ps]).expect("runs"));
        });
        group.finish();
    }
}

fn rows(c: &mut Criterion) {
    for size in SIZES {
        let mut group = c.benchmark_group(format!("rows/{size}"));
        let (function, xs) = (function("rows"), reals(size));
        let vectors: Vec<Vec<f64>> = xs.chunks(COLUMNS).map(<[f64]>::to_vec).collect();
        values(&mut group, &function, &[Value::Array(vectors.iter().cloned().map(Value::Reals).collect())]);

        let nested = function.typed::<(&[Vec<f64>],), f64>().expect("its types");
        group.bench_function("nested/primal", |b| b.iter(|| nested.call((black_box(&vectors),)).expect("runs")));
        group.bench_function("nested/gradient", |b| {
            b.iter(|| nested.value_and_grad((black_box(&vectors),)).expect("runs"));
        });
        let shaped = function.typed::<(Matrix<'_>,), f64>().expect("its types");
        let m = Matrix::new(&xs, [size / COLUMNS, COLUMNS]).expect("rows are whole");
        group.bench_function("matrix/primal", |b| b.iter(|| shaped.call((black_box(m),)).expect("runs")));
        group.bench_function("matrix/gradient", |b| b.iter(|| shaped.value_and_grad((black_box(m),)).expect("runs")));
        let mut by_m = vec![0.0; size];
        group.bench_function("matrix/value_and_grad_into_slices", |b| {
            b.iter(|| shaped.value_and_grad_into_slices((black_box(m),), [&mut by_m]).expect("runs"));
        });
        group.finish();
    }
}

/// Twice as much of all reals that it takes, with its vjp.
fn twice(form: &'static [LeafKind]) -> HostFunction {
    let of = |params: &[LeafKind]| {
        HostFunction::flat(params, form, move |call| {
            // The last arguments: what there is twice as much of, or a cotangent of that.
            let args = call.args();
            let (first, xs) = (args.len() - form.len(), call.reals(args.len() - 1));
            if form.len() > 1 {
                call.give(args[first])?;
            }
            call.give_reals(xs.len(), |to| to.iter_mut().zip(xs).for_each(|(to, x)| *to = 2.0 * x))
        })
    };
    of(form).with_vjp(of(&form.repeat(2))).expect("it is of this type")
}

fn host(c: &mut Criterion) {
    let (size, shape) = (10_000, [100, 100]);
    let forms: [(&str, &'static [LeafKind]); 3] =
        [("array", &[Reals]), ("matrix", &[Shape, Reals]), ("list", &[Reals])];
    let mut config = Config::default();
    for (name, form) in forms {
        config.linker.define(name, twice(form));
    }
    let module = Module::from_source(&Engine::new(config), "border.dual", HOSTED).expect("the program has no errors");
    let (mut group, xs) = (c.benchmark_group(format!("host/{size}")), reals(size));
    for (name, form) in forms {
        let flat = module.function(name).expect("the program has it").flat().expect("it is flat");
        let mut args = vec![FlatValue::Reals(&xs), FlatValue::Int(HOST_CALLS as i64)];
        if form.len() > 1 {
            args.insert(0, FlatValue::Ints(&shape));
        }
        let mut frame = CallFrame::new();
        group.bench_function(format!("{name}/primal"), |b| {
            b.iter(|| _ = flat.call(&mut frame, black_box(&args)).expect("runs"));
        });
        group.bench_function(format!("{name}/gradient"), |b| {
            b.iter(|| _ = flat.value_and_grad(&mut frame, black_box(&args)).expect("runs"));
        });
    }
    group.finish();
}

criterion_group!(benches, dotprod, points, fit, rows, host);
criterion_main!(benches);
