//! Native code against the interpreter: bit for bit the same values, gradients, fuel and records.

use dualvm::{CallOptions, CodeKind, Config, Engine, Function, Jit, Limits, Module, Stats, Thresholds, Value};
use std::collections::BTreeSet;

/// Engines that run everything natively, or change over in the middle.
fn native_engines() -> Vec<(&'static str, Engine)> {
    let after = |calls, back_edges, records| Jit::After(Thresholds { calls, back_edges, records });
    [
        ("always", Jit::Always),
        ("auto", Jit::Auto),
        // Functions stay interpreted, loops are entered in their third round.
        ("loops only", after(u32::MAX - 1, 3, u32::MAX - 1)),
        // Native code calls the interpreter and is called by it.
        ("mixed", after(2, u32::MAX, 3)),
    ]
    .map(|(name, jit)| (name, engine(jit)))
    .into()
}

fn engine(jit: Jit) -> Engine {
    let mut config = Config::default();
    config.jit = jit;
    Engine::new(config)
}

/// What a call gives and uses, in a form in which NaNs are equal.
fn outcome(function: &Function, args: &[Value]) -> String {
    let used = |stats: &Stats| {
        let Stats { instructions, records, slots, tape_bytes, allocated_bytes, .. } = stats;
        format!("{instructions} {records} {slots} {tape_bytes} {allocated_bytes}")
    };
    let options = CallOptions::default();
    let primal = match function.call_with(args, &options) {
        Ok((value, stats)) => format!("{value:?} {}", used(&stats)),
        Err(error) => error.to_string(),
    };
    let gradient = match function.value_and_grad_with(args, &options) {
        Ok(result) => format!("{:?} {:?} {}", result.value, result.gradient, used(&result.stats)),
        Err(error) => error.to_string(),
    };
    let jacobian = match function.jacobian(args) {
        Ok(result) => format!("{:?} {:?}", result.value, result.rows),
        Err(error) => error.to_string(),
    };
    format!("{primal}\n{gradient}\n{jacobian}")
}

fn pair(x: f64, y: f64) -> Value {
    Value::Tuple(vec![Value::Real(x), Value::Real(y)])
}

fn reals(n: usize) -> Value {
    Value::Reals((0..n).map(|i| (0.7 * i as f64).sin()).collect())
}

/// A program of the examples, a function of it and arguments.
fn cases() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let rows = |n: usize, m: usize| Value::Array((0..n).map(|_| reals(m)).collect());
    vec![
        ("spring", "spring", vec![Value::Int(1000), pair(0.5, 0.1), pair(1.0, 1.0)]),
        ("particles", "particles", {
            let particle = |x| Value::Tuple(vec![pair(x, 0.1), pair(1.0, 1.0)]);
            vec![Value::Int(50), Value::Array((0..4).map(|n| particle(0.5 * f64::from(n))).collect())]
        }),
        ("dotprod", "dotprod", vec![reals(1000), reals(1000)]),
        ("dotprod", "dotprod_list", vec![reals(1000), reals(1000)]),
        ("summatvec", "summatvec", vec![rows(20, 30), reals(30)]),
        ("summatvec", "summatvec_list", vec![rows(20, 30), reals(30)]),
        ("rosenbrock", "rosenbrock", vec![reals(40)]),
        ("newton", "newton", vec![Value::Real(2.0), Value::Real(1e6)]),
        ("neural", "neural", {
            let layer = |n, m| Value::Tuple(vec![rows(m, n), reals(m)]);
            vec![Value::Array(vec![layer(5, 7), layer(7, 3)]), reals(5)]
        }),
    ]
}

fn load(engine: &Engine, program: &str) -> Module {
    let file = format!("examples/{program}.dual");
    let text = std::fs::read(&file).expect("the example is there");
    Module::load(engine, &file, &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn examples_are_the_same_to_the_last_bit() {
    for (program, name, args) in cases() {
        let function = load(&engine(Jit::Off), program).function(name).expect("the example has the function");
        let expected = outcome(&function, &args);
        for (tier, engine) in native_engines() {
            let module = load(&engine, program);
            let function = module.function(name).expect("the example has the function");
            for round in 0..3 {
                assert_eq!(outcome(&function, &args), expected, "{name}, {tier}, round {round}");
            }
            assert_eq!(module.compile_failures(), [""; 0], "{name}, {tier}");
            assert!(tier != "always" || !module.compiled().is_empty(), "{name}, {tier}: nothing was compiled");
        }
    }
}

#[test]
fn products_of_zero_and_infinity_in_a_run_of_records_are_left_out() {
    // Each element is a record of one segment, and native code goes from one to the next. Where x is 0, the slope of
    // the root is infinite, and what flows back into it is 0: there the interpreter takes over, and hands back.
    let text = b"def f (k : Real) (xs : List Real) : Real = fold (\\s x -> s * 0.5 + k * sqrt x) 1 xs";
    let xs: Vec<Value> = (0..1_000).map(|n| Value::Real(f64::from(n % 7 % 3))).collect();
    let gradient = |jit: Jit| {
        let module = Module::load(&engine(jit), "f.dual", text).unwrap_or_else(|error| panic!("{error}"));
        let function = module.function("f").expect("it is exported");
        let found = (0..3).map(|_| function.value_and_grad(&[Value::Real(0.0), Value::Array(xs.clone())]).unwrap());
        let found: Vec<(f64, Vec<Value>)> = found.collect();
        assert!(jit == Jit::Off || module.compiled().iter().any(|code| code.kind == CodeKind::Adjoint));
        assert!(found.iter().all(|again| *again == found[0]));
        found[0].clone()
    };
    let expected = gradient(Jit::Off);
    assert_eq!(expected.1[1], Value::Reals(vec![0.0; xs.len()]));
    assert_eq!(gradient(Jit::Always), expected);
}

#[test]
fn functions_that_are_written_out_are_the_same_to_the_last_bit() {
    // Native code writes them out where they are neither rare nor at an edge; in maps for two numbers at a time.
    let text = b"def exponentials (xs : Array Real) : Array Real = map exp xs
        def total (xs : Array Real) : Real = loop sum = 0.0 for x in xs do sum + exp x
        def tanhs (xs : Array Real) : Array Real = map tanh xs
        def sigmoids (xs : Array Real) : Array Real = map sigmoid xs
        def total_sigmoid (xs : Array Real) : Real = loop sum = 0.0 for x in xs do sum + sigmoid x
        def total_tanh (xs : Array Real) : Real = loop sum = 0.0 for x in xs do sum + tanh x
        def chained (xs : Array Real) : Real = loop sum = 0.0 for x in xs do tanh (sum + x)";
    let edges = [0.55, 22.0, 512.0, 708.0, 709.782712893384, 709.7827128933841, 745.1332191019411, 745.1332191019412];
    let near = |x: f64| [x.next_down(), x, x.next_up()];
    let special = [0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324, f64::MAX, 0.5_f64.ln() / 128.0];
    let mut xs: Vec<f64> =
        edges.into_iter().chain([1024.0]).flat_map(near).chain(special).flat_map(|x| [x, -x]).collect();
    let mut state = 1_u64;
    xs.extend((0..100_000).map(|n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        (unit - 0.5) * [1e-3, 2.0, 10.0, 60.0, 1_500.0][n % 5]
    }));
    let bits = |name: &str, jit: Jit, xs: &[f64]| -> Vec<u64> {
        let module = Module::load(&engine(jit), "exp.dual", text).unwrap_or_else(|error| panic!("{error}"));
        let function = module.function(name).expect("it is exported");
        let args = [Value::Reals(xs.to_vec())];
        let reals_of = |value: Value| match &value {
            Value::Reals(xs) => xs.clone(),
            value => panic!("{value:?}"),
        };
        let reals = match name {
            "total" | "total_tanh" | "total_sigmoid" | "chained" => {
                let (value, gradients) = function.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
                gradients.into_iter().flat_map(reals_of).chain([value]).collect()
            }
            _ => reals_of(function.call(&args).unwrap_or_else(|error| panic!("{error}"))),
        };
        reals.into_iter().map(f64::to_bits).collect()
    };
    for name in ["exponentials", "total", "tanhs", "total_tanh", "sigmoids", "total_sigmoid", "chained"] {
        assert_eq!(bits(name, Jit::Off, &xs), bits(name, Jit::Always, &xs), "{name}");
    }
    // A sum of numbers only has no NaN to hide behind.
    let finite: Vec<f64> = xs.iter().copied().filter(|x| x.abs() < 700.0).collect();
    for name in ["total", "total_tanh", "total_sigmoid", "chained"] {
        assert_eq!(bits(name, Jit::Off, &finite), bits(name, Jit::Always, &finite), "{name}");
    }
}

#[test]
fn tangents_with_products_of_zeros_and_infinities_are_the_same_to_the_last_bit() {
    // Native code tests sums for NaN in place of products, and computes them once more where one is.
    let text = b"def energy (xs : Array (Real, Real, Real, Real)) (w : Real) : Real =
          loop sum = 0.0 for (a, b, c, d) in xs do
            let near = (a * b + c * d) * (b * c + w * a) in
            sum + (if a < b then near else near * d + tanh b) + a * d * w
        def along (xs : Array (Real, Real, Real, Real)) (w : Real) (xs_tan : Array (Real, Real, Real, Real))
            (w_tan : Real) : (Real, Real) =
          jvp (\\(xs, w) -> energy xs w) (xs, w) (xs_tan, w_tan)";
    let [off, always] = [Jit::Off, Jit::Always]
        .map(|jit| Module::load(&engine(jit), "energy.dual", text).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(always.compile_failures(), [""; 0]);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut finite = 0;
    for _ in 0..2_000 {
        let rare = rng.usize(1..20);
        let mut real = || match rng.usize(..3 * rare) {
            0 => rng.choice([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300]).expect("there are some"),
            n if n < 2 * rare => rng.choice([0.0, -0.0, 1.0]).expect("there are some"),
            _ => rng.f64() - 0.5,
        };
        let mut point = |len: usize| {
            let rows = (0..len).map(|_| Value::Tuple((0..4).map(|_| Value::Real(real())).collect())).collect();
            [Value::Array(rows), Value::Real(real())]
        };
        let (args, directions) = (point(5), [(); 3].map(|()| point(5)));
        let of_both =
            |found: [(Value, Vec<Value>); 2]| found.map(|(value, tangents)| format!("{value:?} {tangents:?}"));
        let [interpreted, native] = of_both([&off, &always].map(|module| {
            let along = module.function("along").expect("it is exported");
            let given = [&args[..], &directions[0]].concat();
            let along = along.call(&given).unwrap_or_else(|error| panic!("{error}"));
            let energy = module.function("energy").expect("it is exported");
            let (value, tangents) = energy.jvps(&args, &directions).unwrap_or_else(|error| panic!("{error}"));
            (Value::Tuple(vec![along, value]), tangents)
        }));
        assert_eq!(native, interpreted, "{args:?} {directions:?}");
        finite += usize::from(!native.contains("NaN"));
    }
    assert!((200..1_900).contains(&finite), "{finite}");
}

#[test]
fn tangents_of_matrices_have_the_shape_of_matrices() {
    let text = b"def loss (x : Array Real) (w : Matrix Real) : Real =
          loop sum = 0.0 for i < rows w do
            let z = loop z = 0.0 for j < length x do z + w[i, j] * x[j] in
            sum + tanh z ^ 2
        def product (x : Array Real) (w : Matrix Real) (w_tan : Matrix Real) : Matrix Real =
          snd (jvp (grad (loss x)) w w_tan)
        def twice (x : Array Real) (w : Matrix Real) (w_tan : Matrix Real) : Real =
          snd (jvp (\\w -> snd (jvp (loss x) w w_tan)) w w_tan)";
    let matrix = |n: usize, m: usize| Value::Array((0..n).map(|_| reals(m)).collect());
    let shapes = [(2, 3), (3, 2), (1, 6), (2, 4), (0, 0)];
    let [off, always] = [Jit::Off, Jit::Always]
        .map(|jit| Module::load(&engine(jit), "matrices.dual", text).unwrap_or_else(|error| panic!("{error}")));
    for name in ["product", "twice"] {
        let [off, always] = [&off, &always].map(|module| module.function(name).expect("it is exported"));
        for (n, (rows, columns)) in shapes.into_iter().enumerate() {
            let args = [reals(3), matrix(2, 3), matrix(rows, columns)];
            let expected = outcome(&off, &args);
            assert_eq!(outcome(&always, &args), expected, "{name} {rows} x {columns}");
            let said = format!("of shape {rows} × {columns}");
            assert!((n == 0) != expected.contains(&said), "{name} {rows} x {columns}: {expected}");
        }
    }
    assert_eq!(always.compile_failures(), [""; 0]);
}

#[test]
fn what_nobody_reads_any_more_lives_no_longer_than_in_the_interpreter() {
    // A list is stored in the frame for a call, and walked to its end without another one. Then nothing of it is left.
    let text = b"
type t0 = variant { Nil {}, Cons { int, t0 } }
func f0 \"numbers\" (int) -> (t0)
  regs 0 real, 3 int, t0
{
  variant_new p0, 0 ()
  iconst i1, 1
next:
  variant_new p0, 1 (i0, p0)
  isub i0, i0, i1
  ilt i2, i1, i0
  branch i2, next, end
end:
  ret (p0)
}
func f1 \"main\" (int, int) -> (int)
  export (n : Int, m : Int) -> Int
  regs 0 real, 4 int, t0, t0
{
  iconst i2, 0
  call f0 (i0) -> (p0)
  call f0 (i2) -> (p1)
walk:
  variant_tag i3, p0
  branch i3, more, done
more:
  ppayload p0, p0, 1, 1
  jump walk
done:
  call f0 (i1) -> (p1)
  ret (i2)
}";
    let peak = |engine: &Engine| {
        let module = Module::load(engine, "walk.dvs", text).unwrap_or_else(|error| panic!("{error}"));
        let main = module.function("main").expect("the module has it");
        let args = [Value::Int(300_000), Value::Int(500_000)];
        let (value, stats) = main.call_with(&args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(value, Value::Int(0));
        stats.heap_peak_bytes
    };
    let interpreted = peak(&engine(Jit::Off));
    assert!(interpreted < 24 << 20, "{interpreted} bytes");
    for (tier, engine) in native_engines() {
        let native = peak(&engine);
        assert!(native <= interpreted, "{tier}: {native} bytes, {interpreted} interpreted");
    }
}

#[test]
fn places_in_rows_are_counted_once_among_products() {
    let text = b"type t0 = array real
        func f0 \"f\" (t0, real) -> (real)
          export (xs : Array Real @t0, a : Real) -> Real
          regs 6 real, 3 int, t0
        {
          iconst i0, 0
          iconst i1, 1
          row i2, p0, i0, 4
          elem r1, p0, i2
          iadd i2, i2, i1
          smul r2, r0, r1
          smul r3, r2, r0
          smul r4, r3, r0
          add r5, r4, r3
          elem r1, p0, i2
          add r5, r5, r1
          ret (r5)
        }";
    for jit in [Jit::Off, Jit::Always] {
        let module = Module::load(&engine(jit), "rows.dvs", text).unwrap_or_else(|error| panic!("{error}"));
        let function = module.function("f").expect("it is exported");
        let args = [Value::Reals(vec![1.0, 10.0, 100.0, 1000.0]), Value::Real(2.0)];
        assert_eq!(function.call(&args).unwrap_or_else(|error| panic!("{error}")), Value::Real(22.0), "{jit:?}");
    }
}

/// Checks that a call with too little fuel, of any amount, ends at the same place in all engines and modes.
fn check_fuel(file: &str, text: &str, args: &[Value]) {
    let load = |jit| Module::load(&engine(jit), file, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let [off, always] = [Jit::Off, Jit::Always].map(|jit| load(jit).function("f").expect("it is exported"));
    let (_, stats) = off.call_with(args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut places = BTreeSet::new();
    for fuel in 0..stats.instructions {
        let options = CallOptions::with_limits(Limits { fuel, ..Limits::default() });
        let expected = off.call_with(args, &options).expect_err("there is too little").to_string();
        assert!(expected.contains("out of fuel"), "{fuel}: {expected}");
        let others = [
            always.call_with(args, &options).map(|_| ()),
            off.value_and_grad_with(args, &options).map(|_| ()),
            always.value_and_grad_with(args, &options).map(|_| ()),
        ];
        for (n, other) in others.into_iter().enumerate() {
            assert_eq!(other.expect_err("there is too little").to_string(), expected, "{file}, {fuel}, {n}");
        }
        places.insert(expected);
    }
    assert!(places.len() > 2, "{places:?}");
}

#[test]
fn fuel_runs_out_at_the_same_place_in_all_engines_and_modes() {
    let xs = Value::Reals((0..12).map(|i| (0.9 * f64::from(i)).sin().abs()).collect());
    // A region with loops and branches in it.
    let nest = "def f (xs : Array Real) : Real =
  loop sum = 0.0 for i < length xs do
    if xs[i] > 0.5 then
      sum +
        (loop product = 1.0 for j < i do
          if j % 3 == 0
          then product * xs[j]
          else product + sin xs[j])
    else
      fst
        (loop (rest, k) = (sum, i) while k > 0 do
          (rest - xs[k], k / 2))";
    check_fuel("nest.dual", nest, std::slice::from_ref(&xs));
    // One whose rounds say which way they go back, so that what a branch leads to stands behind it in the stream.
    let two_ways = "
type t0 = array real
func f0 \"f\" (t0, int) -> (real)
  export (xs : Array Real @t0, n : Int) -> Real
  regs 3 real, 4 int, t0
{
  const r0, 1.0
  const r2, 0.5
  iconst i1, 0
  iconst i2, 1
  jump L5
L5:
  elem r1, p0, i1
  lt i3, r1, r2
  iadd i1, i1, i2
  branch i3, L9, L12
L9:
  add r0, r0, r1
  ilt i3, i1, i0
  branch i3, L5, L15
L12:
  mul r0, r0, r1
  ilt i3, i1, i0
  branch i3, L5, L15
L15:
  mul r0, r0, r0
  ret (r0)
}";
    check_fuel("two_ways.dvs", two_ways, &[xs, Value::Int(12)]);
}

#[test]
fn adjoints_that_are_the_same_are_compiled_once() {
    const SOURCE: &str = "
def f (x : Array Real) (y : Array Real) (rows : Array (Array Real)) : Real =
  let a = loop s = 0.0 for i < length x do s + sin x[i] * y[i] in
  let b = loop s = 0.0 for i < length y do s + sin y[i] * x[i] in
  let c = loop s = 0.0 for i < length x do s + cos x[i] * y[i] in
  let d = loop s = 0.0 for row in rows do loop s = s for r in row do s + r * x[0] * s in
  let e = loop s = 0.0 for row in rows do loop s = s for r in row do s + r * y[0] * s in
  a * b + b * c + c * d + d * e
";
    let rows = Value::Array(vec![vec![1.0, 2.0].into(), vec![3.0].into()]);
    let args = [Value::from(vec![0.5, -0.25, 2.0]), Value::from(vec![1.5, 0.75, -3.0]), rows];
    let [off, always] =
        [Jit::Off, Jit::Always].map(|jit| Module::from_source(&engine(jit), "test.dual", SOURCE).unwrap());
    let [expected, found] = [&off, &always].map(|module| outcome(&module.function("f").unwrap(), &args));
    assert_eq!(found, expected);
    let adjoints = always.compiled().into_iter().filter(|code| code.kind == CodeKind::Adjoint);
    let names: Vec<String> = adjoints.map(|code| code.name).collect();
    let count = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
    assert_eq!((count("loop"), count("region")), (2, 1), "{names:?}");
}

#[test]
fn a_region_s_sweep_stops_in_the_middle() {
    const SOURCE: &str = "
def f (n : Int) (x : Array Real) : Real =
  loop s = 0.0 for _ < n do loop s = s for xi in x do s + sin (xi * s)
";
    let module = Module::from_source(&engine(Jit::Always), "test.dual", SOURCE).unwrap();
    let f = module.function("f").unwrap();
    let args = [Value::Int(100_000), reals(10)];
    let expected = f.value_and_grad(&args).unwrap();
    assert!(module.compiled().iter().any(|code| code.kind == CodeKind::Adjoint && code.name.starts_with("region")));
    let mut stopped = 0;
    // Some end before they are to stop, some before they begin to go back: then the trap has a place.
    for try_number in 0..100 {
        let Stats { forward, sweep, .. } = f.value_and_grad_with(&args, &CallOptions::default()).unwrap().stats;
        let deadline = forward + sweep.mul_f64(f64::from(try_number % 8) / 10.0);
        let options = CallOptions::with_limits(Limits { deadline: Some(deadline), ..Limits::default() });
        match f.value_and_grad_with(&args, &options) {
            Ok(result) => assert_eq!((result.value, result.gradient), expected),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("deadline"), "{error}");
                stopped += i32::from(!error.contains("in f"));
            }
        }
        if stopped == 5 {
            break;
        }
    }
    assert!(stopped > 0);
    assert_eq!(f.value_and_grad(&args).unwrap(), expected);
}
