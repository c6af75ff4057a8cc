//! Jacobians: results of every shape, each row against the gradient of a function that picks that part.

use dualvm::{CallOptions, Config, Engine, JacobianMode, Jit, Limits, Module, Value};

fn module(text: &str) -> Module {
    Module::from_source(&Engine::default(), "test.dual", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of the Jacobian of `name`, each with one entry per argument.
fn rows(text: &str, name: &str, args: &[Value]) -> Vec<Vec<Value>> {
    module(text).function(name).expect("the function is exported").jacobian(args).expect("the call succeeds").rows
}

#[test]
fn each_row_is_the_gradient_of_its_output() {
    let text = "
        def f (x : Real) (v : Array Real) = (x * v[0], [| sin x * v[i] for i < length v |], (v[1], 2.0, x))
        def part (k : Int) (x : Real) (v : Array Real) : Real =
          let (a, b, (c, d, e)) = f x v in
          if k == 0 then a else if k == 1 then b[0] else if k == 2 then b[1] else if k == 3 then c else
          if k == 4 then d else e";
    let args = [Value::Real(0.7), Value::Reals(vec![1.5, -2.0])];
    let rows = rows(text, "f", &args);
    assert_eq!(rows.len(), 6);
    let part = module(text).function("part").expect("the function is exported");
    for (k, row) in rows.iter().enumerate() {
        let args = [Value::Int(k as i64), args[0].clone(), args[1].clone()];
        let (_, gradient) = part.value_and_grad(&args).expect("the call succeeds");
        assert_eq!(row[..], gradient[1..], "row {k}");
    }
}

#[test]
fn arrays_of_tuples_and_arrays_of_inputs_have_rows_too() {
    let text = "def f (x : Real) (y : Real) = [| (x, x * y), (3.0, y) |]
                def g (v : Array Real) = [| v[1], v[0], 1.0 |]
                def h (v : Array Real) = v";
    let row = |x: f64, y: f64| vec![Value::Real(x), Value::Real(y)];
    let args = [Value::Real(2.0), Value::Real(5.0)];
    assert_eq!(rows(text, "f", &args), [row(1.0, 0.0), row(5.0, 2.0), row(0.0, 0.0), row(0.0, 1.0)]);
    let reals = |xs: &[f64]| vec![Value::Reals(xs.to_vec())];
    let args = [Value::Reals(vec![4.0, 5.0])];
    assert_eq!(rows(text, "g", &args), [reals(&[0.0, 1.0]), reals(&[1.0, 0.0]), reals(&[0.0, 0.0])]);
    assert_eq!(rows(text, "h", &args), [reals(&[1.0, 0.0]), reals(&[0.0, 1.0])]);
    assert!(rows(text, "h", &[Value::Reals(vec![])]).is_empty());
}

#[test]
fn discrete_results_have_no_rows_and_fuel_counts_every_sweep() {
    let text = "def f (n : Int) (x : Real) = (n + 1, x > 0)
                def g (x : Real) = (x * x, x + x, x)";
    assert!(rows(text, "f", &[Value::Int(1), Value::Real(1.0)]).is_empty());
    let g = module(text).function("g").expect("the function is exported");
    let used = g.jacobian(&[Value::Real(3.0)]).expect("the call succeeds").stats.instructions;
    let limits = |fuel| CallOptions::with_limits(Limits { fuel, ..Limits::default() });
    assert!(g.jacobian_with(&[Value::Real(3.0)], &limits(used)).is_ok());
    assert!(g.jacobian_with(&[Value::Real(3.0)], &limits(used - 1)).is_err_and(|error| error.is_limit()));
}

/// Runs with tangents in several directions have their arguments in common, which are written once: nothing that a run
/// does to its heap may show in the next one.
#[test]
fn each_column_is_the_tangent_of_a_run_of_its_own() {
    let text = "
        type Shape = Circle Real | Box (Array Real) Int
        def area (shape : Shape) : Real = match shape with
          | Circle r -> pi * r * r
          | Box sides n -> to_real n * product sides
        def f (x : Array Real) (numbers : List Int) (shapes : List Shape) (table : Array (Array Real)) (k : Real) =
          let waves n = sort (map (\\i -> sin (k * to_real (i * n)) * x[i % length x]) (range 0 200)) in
          let of_number n = (head (waves n), [| sum (map (* x[i]) table[i]) for i < length x |]) in
          (sum (map area shapes) * x[0], map of_number numbers)";
    let shape = |n: i64| match n % 2 {
        0 => Value::variant("Circle", Value::Tuple(vec![Value::Real(0.1 * n as f64)])),
        _ => Value::variant("Box", Value::Tuple(vec![Value::Reals(vec![0.5; n as usize]), Value::Int(n)])),
    };
    let reals = |n: usize| Value::Reals((0..n).map(|i| (0.3 * i as f64).cos()).collect());
    let x = 9;
    let args = [
        reals(x),
        Value::Array((1..40).map(Value::Int).collect()),
        Value::Array((1..6).map(shape).collect()),
        Value::Array((0..x).map(|n| reals(10 * n)).collect()),
        Value::Real(0.7),
    ];
    // The heap is evacuated in each run.
    const LIVE: u64 = 2_000_000;
    let options = CallOptions::with_limits(Limits { live_bytes: LIVE, ..Limits::default() });
    for jit in [Jit::Off, Jit::Always] {
        let mut config = Config::default();
        config.jit = jit;
        let module = Module::from_source(&Engine::new(config), "test.dual", text).unwrap_or_else(|e| panic!("{e}"));
        for wrt in [["x", "k"], ["table", "k"], ["shapes", "x"]] {
            let f = module.function("f").unwrap().wrt(&wrt).unwrap();
            let jacobian = f.jacobian_by(JacobianMode::Forward, &args, &options).unwrap_or_else(|e| panic!("{e}"));
            assert!(jacobian.stats.allocated_bytes > 8 * LIVE, "{:?}", jacobian.stats);
            let column = |axis: usize| jacobian.rows.iter().map(move |row| flat(row)[axis]).collect::<Vec<u64>>();
            let inputs = flat(&jacobian.rows[0]).len();
            assert!(inputs > 8);
            let axes: Vec<Vec<Value>> = (0..inputs).map(|axis| tangents(&jacobian.rows[0], axis)).collect();
            let (value, all) = f.jvps(&args, &axes).unwrap();
            assert_eq!(value, jacobian.value);
            for axis in (0..inputs).step_by(3) {
                let (value, tangent) = f.jvp(&args, &axes[axis]).unwrap();
                assert_eq!(value, jacobian.value);
                assert_eq!(flat(std::slice::from_ref(&tangent)), column(axis), "{wrt:?}, {axis}");
                assert_eq!(flat(std::slice::from_ref(&all[axis])), column(axis), "{wrt:?}, {axis}");
            }
        }
    }
}

/// The bits of all reals.
fn flat(values: &[Value]) -> Vec<u64> {
    let mut reals = Vec::new();
    values.iter().for_each(|value| each_real(&mut value.clone(), &mut |x| reals.push(x.to_bits())));
    reals
}

/// Values of this shape, with a 1 in one place.
fn tangents(shape: &[Value], axis: usize) -> Vec<Value> {
    let (mut values, mut at) = (shape.to_vec(), 0);
    let mut one = |x: &mut f64| (*x, at) = (if at == axis { 1.0 } else { 0.0 }, at + 1);
    values.iter_mut().for_each(|value| each_real(value, &mut one));
    values
}

fn each_real(value: &mut Value, visit: &mut impl FnMut(&mut f64)) {
    match value {
        Value::Real(x) => visit(x),
        Value::Reals(xs) => xs.iter_mut().for_each(visit),
        Value::Tuple(parts) | Value::Array(parts) => parts.iter_mut().for_each(|part| each_real(part, visit)),
        Value::Variant(_, payload) => each_real(payload, visit),
        _ => {}
    }
}
