//! Derivatives with respect to some parameters: those of all, bit for bit, and no tape for the rest.

#[path = "../src/bench/tiering/data.rs"]
mod data;
#[path = "support/program.rs"]
mod program;
#[path = "../src/bench/tiering/programs.rs"]
mod programs;
mod support;

use dualvm::{CallFrame, CallOptions, Config, Engine, ErrorKind, FlatValue, Function, Jit, Module, Value};
use program::Workspace;
use programs::PROGRAMS;
use serde::de::DeserializeSeed;
use support::flatten;

fn module(jit: Jit, source: &str) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, 1);
    Module::from_source(&Engine::new(config), "test.dual", source).unwrap()
}

fn bits(value: &Value) -> Vec<u64> {
    flatten(std::slice::from_ref(value)).iter().map(|x| x.to_bits()).collect()
}

fn names(function: &Function) -> Vec<String> {
    function.interface().params.iter().map(|(name, _)| name.clone()).collect()
}

#[test]
fn each_parameter_alone_has_its_part_of_the_gradient() {
    for program in PROGRAMS {
        for jit in [Jit::Off, Jit::Always] {
            let function = module(jit, program.source).function(program.function).unwrap();
            let size = &program.sizes[0];
            let (what, json) = (format!("{} {}", program.name, size.label), (size.args)());
            let args = &mut serde_json::Deserializer::from_str(&json);
            let args = function.arguments_seed().deserialize(args).unwrap();
            let all = function.value_and_grad_with(&args, &CallOptions::default()).unwrap();
            for (n, name) in names(&function).iter().enumerate() {
                let alone = function.wrt(&[name]).unwrap().value_and_grad_with(&args, &CallOptions::default()).unwrap();
                assert_eq!(alone.value.to_bits(), all.value.to_bits());
                assert_eq!(bits(&alone.gradient[n]), bits(&all.gradient[n]), "{what}, {name}");
                let others = alone.gradient.iter().enumerate().filter(|&(other, _)| other != n);
                others.for_each(|(_, gradient)| assert_eq!(*gradient, Value::Null));
                assert!(alone.stats.slots <= all.stats.slots && alone.stats.records <= all.stats.records);
            }
            let none = function.wrt::<&str>(&[]).unwrap().value_and_grad_with(&args, &CallOptions::default()).unwrap();
            assert_eq!((none.stats.records, none.stats.slots), (0, 0), "{what}");
            assert!(none.gradient.iter().all(|gradient| *gradient == Value::Null));
        }
    }
}

const SHAPES: &str = "
    type Shape = Circle Real | Square { side : Real }
    def area (shape : Shape) : Real = match shape with Circle r -> 3 * r * r | Square { side } -> side * side
    def f (a : Real) (xs : Array Real) (ys : List Real) (p : (Real, Int)) (shape : Shape)
          (rows : List (Array Real)) : Real =
      let (q, n) = p in
      a * sum xs * sum ys * q * to_real n * area shape * sum (map sum rows)
    def pair (x : Real) (y : Real) (zs : Array Real) : (Real, Array Real) = (x * y, map (\\z -> z * x * y) zs)";

fn shapes() -> Vec<Value> {
    let rows = vec![Value::Reals(vec![1.0, 2.0]), Value::Reals(vec![]), Value::Reals(vec![0.5])];
    vec![
        Value::Real(2.0),
        Value::Reals(vec![1.0, 4.0]),
        Value::Reals(vec![0.25, 3.0]),
        Value::Tuple(vec![Value::Real(-1.5), Value::Int(2)]),
        Value::variant("Circle", Value::Tuple(vec![Value::Real(1.25)])),
        Value::Array(rows),
    ]
}

#[test]
fn arguments_of_any_shape_are_left_out_or_in() {
    for jit in [Jit::Off, Jit::Always] {
        let f = module(jit, SHAPES).function("f").unwrap();
        let names = names(&f);
        let (value, all) = f.value_and_grad(&shapes()).unwrap();
        for chosen in 0..1u32 << names.len() {
            let is_chosen = |n: usize| chosen >> n & 1 == 1;
            let some: Vec<&String> = names.iter().enumerate().filter(|(n, _)| is_chosen(*n)).map(|(_, x)| x).collect();
            let (found, gradient) = f.wrt(&some).unwrap().value_and_grad(&shapes()).unwrap();
            assert_eq!(found.to_bits(), value.to_bits());
            for (n, (found, expected)) in gradient.iter().zip(&all).enumerate() {
                assert_eq!(*found, if is_chosen(n) { expected.clone() } else { Value::Null }, "{chosen:b}");
            }
        }
    }
}

#[test]
fn rows_of_a_jacobian_flat_calls_and_types_of_rust_leave_out_the_same() {
    let pair = module(Jit::Auto, SHAPES).function("pair").unwrap();
    let args = [Value::Real(2.0), Value::Real(3.0), Value::Reals(vec![5.0, 7.0])];
    let by_y = pair.wrt(&["y"]).unwrap();
    let jacobian = by_y.jacobian(&args).unwrap();
    let rows: Vec<&[Value]> = jacobian.rows.iter().map(|row| &**row).collect();
    let row = |x| [Value::Null, Value::Real(x), Value::Null];
    assert_eq!(rows, [&row(2.0), &row(10.0), &row(14.0)]);

    // What was chosen before doesn't matter.
    let by_zs = by_y.wrt(&["zs", "x"]).unwrap();
    assert_eq!([0, 1, 2, 3].map(|n| by_zs.is_wrt(n)), [true, false, true, false]);
    let (flat, mut frame) = (by_zs.flat().unwrap(), CallFrame::new());
    let args = [FlatValue::Real(2.0), FlatValue::Real(3.0), FlatValue::Reals(&[5.0, 7.0])];
    let cotangents = [FlatValue::Real(1.0), FlatValue::Reals(&[10.0, 100.0])];
    let (_, gradient) = flat.vjp(&mut frame, &args, &cotangents).unwrap();
    assert_eq!(gradient.get(0), Some(FlatValue::Real(3.0 + 10.0 * 15.0 + 100.0 * 21.0)));
    assert_eq!(gradient.get(1), Some(FlatValue::Null));
    assert_eq!(gradient.get(2), Some(FlatValue::Reals(&[60.0, 600.0])));
    assert_eq!(gradient.reals(), [3.0 + 10.0 * 15.0 + 100.0 * 21.0, 60.0, 600.0]);
    assert!(flat.params()[0].has_derivative() && !flat.params()[1].has_derivative());

    let source = "def g (x : Real) (t : (Real, Real)) (zs : Array Real) : Real = let (a, b) = t in x * a * b * sum zs";
    let g = module(Jit::Auto, source).function("g").unwrap();
    let typed = |names: &[&str]| g.wrt(names).unwrap().typed::<(f64, [f64; 2], &[f64]), f64>().unwrap();
    let args = (2.0, [3.0, 5.0], &[7.0, 11.0][..]);
    let found = |names: &[&str]| typed(names).value_and_grad(args).unwrap().1;
    assert_eq!(found(&["x"]), (270.0, [0.0, 0.0], vec![]));
    assert_eq!(found(&["t", "zs"]), (0.0, [180.0, 108.0], vec![30.0, 30.0]));
    let mut gradient = (1.0, [1.0, 1.0], vec![1.0; 5]);
    typed(&["x"]).value_and_grad_into(args, &mut gradient).unwrap();
    assert_eq!(gradient, (270.0, [0.0, 0.0], vec![]));
}

#[test]
fn a_parameter_that_there_is_not_is_an_error_with_those_that_there_are() {
    let f = module(Jit::Off, SHAPES).function("pair").unwrap();
    let error = f.wrt(&["x", "theta"]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSuchParameter(_)));
    assert_eq!(error.to_string(), "`pair` has no parameter `theta`; it has x, y, zs");
}

#[test]
fn the_command_takes_names() {
    let w = Workspace::new("wrt");
    w.write("f.dual", "def f (x : Real) (n : Int) (y : Real) : Real = x * y * to_real n\n");
    assert_eq!(w.stdout(&["grad", "f.dual", "2", "3", "5", "--wrt", "y"]), "value  = 30.0\ngradient:\n  y    = 6.0\n");
    let json = w.stdout(&["grad", "f.dual", "2", "3", "5", "--wrt", "y,x", "--format", "json"]);
    assert_eq!(json, "{\"value\":30.0,\"gradient\":[15.0,null,6.0]}\n");
    assert!(w.stdout(&["tape", "f.dual", "2", "3", "5", "--wrt", "n"]).contains("records     = 0\n"));
    let finished = w.run(&["grad", "f.dual", "2", "3", "5", "--wrt", "z"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("`f` has no parameter `z`; it has x, n, y"), "{finished:#?}");
}
