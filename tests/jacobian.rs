//! Jacobians: results of every shape, each row against the gradient of a function that picks that part.

use dualvm::{Engine, Module, Value};

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
    let limits = |fuel| dualvm::CallOptions::with_limits(dualvm::Limits { fuel, ..dualvm::Limits::default() });
    assert!(g.jacobian_with(&[Value::Real(3.0)], &limits(used)).is_ok());
    assert!(g.jacobian_with(&[Value::Real(3.0)], &limits(used - 1)).is_err_and(|error| error.is_limit()));
}
