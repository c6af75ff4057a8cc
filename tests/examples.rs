//! Every program in `examples/`: values and gradients are those of an independent implementation, of central
//! differences and of the reference implementations.

mod support;

use dualvm::{Config, Engine, Function, Module, Value};
use dualvm_vm::module::{HostType, ModuleDef};
use serde::de::DeserializeSeed;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use support::numbers::{Naive, Taped};
use support::reference::{Number, Object, Val, run};
use support::{assert_all_close, assert_close, close, flatten, shifted};

/// How far from the independent implementation values and derivatives may be.
const RELATIVE: f64 = 1e-10;

/// A function of an example with arguments. Of those that an oracle states, value and gradient are compared with it.
struct Case {
    file: &'static str,
    function: &'static str,
    args: Json,
    oracle: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let with_oracle = |file, function, oracle, first: Option<i64>| {
        let mut args = oracle_case(oracle)["args"].as_array().expect("the case has arguments").clone();
        args.splice(0..0, first.map(Json::from));
        Case { file, function, args: Json::from(args), oracle: Some(oracle) }
    };
    let own = |file, args| Case { file, function: file, args, oracle: None };
    let part = |file, function, args| Case { file, function, args, oracle: None };
    vec![
        with_oracle("mult", "mult", "mult", None),
        with_oracle("dotprod", "dotprod", "dotprod", None),
        with_oracle("dotprod", "dotprod_list", "dotprod", None),
        with_oracle("summatvec", "summatvec", "summatvec", None),
        with_oracle("summatvec", "summatvec_list", "summatvec", None),
        with_oracle("particles", "particles", "particles_10", Some(10)),
        with_oracle("particles", "particles", "particles_100", Some(100)),
        with_oracle("particles", "particles", "particles_1000", Some(1000)),
        with_oracle("particles_par", "particles_par", "particles_10", Some(10)),
        with_oracle("particles_par", "particles_par", "particles_1000", Some(1000)),
        with_oracle("particles_par", "particles_pairs", "particles_1000", Some(1000)),
        own("uneven_map", json!([4, 50, -2.1, -1.3, 2.7])),
        own("tree_sum", json!([[1, -2, 3, -4, 5, 0.5, 7]])),
        own("monte_carlo", json!([40, [[100, 0.2], [90, 0.3], [110, 0.25]], [0.03, 1, 98, 0.4]])),
        own("shared_array", json!([7, [1, -2, 3, -4, 5, 0.5, 7]])),
        own("deep_fork", json!([20, 0.5])),
        with_oracle("rosenbrock", "rosenbrock", "rosenbrock5", None),
        own("newton", json!([2, 1])),
        part("implicit_root", "equation", json!([3, 0.7])),
        own("newton_sweep", json!([[2, 9, 0.25], 1])),
        own("branchy", json!([20, 1.5, 0.2, 0.3, 0.105])),
        own("saddle", json!([1.5])),
        part("particle", "landing", json!([0.5])),
        own("physics_informed", net_and_times()),
        part("minimax", "payoff", json!([[1, -2], [0.5, 3]])),
        part("newton_hessian", "loss", samples_and_weights()),
        own("spring", json!([20, [0.5, 0.1], [1, 1]])),
        own("neural", json!([[[[[0.5, -0.2], [0.1, 0.3]], [0.1, 0.2]], [[[0.7, 0.4]], [-0.3]]], [1, 2]])),
        own("logistic", json!([[0.1, -0.2], 0.5, [[[1, 2], true], [[-1, 0.5], false], [[30, -20], true]]])),
        own(
            "expression",
            json!([{"Mul": [
                {"Add": [{"Leaf": 3}, {"Apply": ["Sin", {"Leaf": 1}]}]},
                {"Apply": ["Sqrt", {"Mul": [{"Leaf": 2}, {"Apply": ["Log", {"Apply": ["Exp", {"Leaf": 1.5}]}]}]}]},
            ]}]),
        ),
    ]
}

/// Examples with derivative operators, which the independent implementation doesn't have.
const WITH_OPERATORS: [&str; 3] = ["saddle", "particle", "physics_informed"];

fn net_and_times() -> Json {
    json!([[[1, 0.5, 0.3], [-2, 0.1, 0.4], [0.5, -0.7, -1.1]], [0, 0.25, 0.5, 1]])
}

fn samples_and_weights() -> Json {
    json!([[[[1, 2], true], [[-1, 0.5], false], [[0.3, -2], false], [[-0.4, -0.1], true]], [0.1, -0.2]])
}

fn oracle_case(name: &str) -> Json {
    let text = include_str!("oracles/programs.json");
    let all: Json = serde_json::from_str(text).expect("the oracle is JSON");
    let cases = all["cases"].as_array().expect("the oracle has cases");
    cases.iter().find(|case| case["case"] == name).unwrap_or_else(|| panic!("no case {name}")).clone()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn source(file: &str) -> String {
    let path = folder().join(file).with_extension("dual");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn module(file: &str, text: &str) -> Module {
    Module::from_source(&Engine::default(), file, text).unwrap_or_else(|error| panic!("{error}"))
}

fn example(file: &str, function: &str) -> Function {
    module(file, &source(file)).function(function).unwrap_or_else(|error| panic!("{error}"))
}

fn arguments(function: &Function, args: &Json) -> Vec<Value> {
    let args = args.to_string();
    let mut json = serde_json::Deserializer::from_str(&args);
    function.arguments_seed().deserialize(&mut json).unwrap_or_else(|error| panic!("{}: {error}", function.name()))
}

/// All numbers in JSON, in order.
fn numbers(json: &Json) -> Vec<f64> {
    match json {
        Json::Number(x) => vec![x.as_f64().expect("numbers of the oracle are reals")],
        Json::Array(items) => items.iter().flat_map(numbers).collect(),
        other => panic!("not numbers: {other}"),
    }
}

/// Compares components `checked` of a gradient with central differences.
fn compare_with_differences(
    function: &Function,
    args: &[Value],
    gradient: &[f64],
    checked: impl Iterator<Item = usize>,
) {
    let at = |n, change| match function.call(&shifted(args, n, change)) {
        Ok(Value::Real(x)) => x,
        other => panic!("{other:?}"),
    };
    for n in checked {
        let slope = |h: f64| (at(n, h) - at(n, -h)) / (2.0 * h);
        let (coarse, fine) = (slope(2e-4), slope(1e-4));
        let estimate = (4.0 * fine - coarse) / 3.0;
        let scale = gradient.iter().fold(1.0, |scale: f64, x| scale.max(x.abs()));
        let error = (estimate - gradient[n]).abs();
        assert!(error <= 1e-6 * scale, "{}: {n}: {} and differences {estimate}", function.name(), gradient[n]);
    }
}

#[test]
fn every_example_has_a_case() {
    let covered: BTreeSet<String> = cases().iter().map(|case| case.file.to_owned()).collect();
    // Their results are not one real; they have tests of their own.
    let covered = covered.into_iter().chain(["rotate_vec_by_quat", "rotations"].map(str::to_owned));
    // Those that import the library are checked with it, in `tests/library.rs`.
    let oracle: Json = serde_json::from_str(include_str!("oracles/examples.json")).expect("the oracle is JSON");
    let with_library = oracle["cases"].as_array().expect("the oracle has cases").iter();
    let covered = covered.chain(with_library.map(|case| case["example"].as_str().expect("a name").to_owned()));
    let there = std::fs::read_dir(folder()).expect("examples can be listed").filter_map(|entry| {
        let path = entry.expect("entries can be read").path();
        let is_program = path.extension().is_some_and(|extension| extension == "dual");
        is_program.then(|| path.file_stem().expect("files have names").to_string_lossy().into_owned())
    });
    assert_eq!(covered.collect::<BTreeSet<_>>(), there.collect());
}

#[test]
fn values_and_gradients_are_those_of_the_oracle_and_of_central_differences() {
    for case in cases() {
        let function = example(case.file, case.function);
        let args = arguments(&function, &case.args);
        let (value, gradient) = function.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(function.call(&args).expect("it ran before"), Value::Real(value));
        let gradient = flatten(&gradient);
        if let Some(oracle) = case.oracle {
            let oracle = oracle_case(oracle);
            assert_close(value, oracle["value"].as_f64().expect("the case has a value"), RELATIVE);
            assert_all_close(&gradient, &numbers(&oracle["gradient"]), RELATIVE);
        }
        compare_with_differences(&function, &args, &gradient, 0..gradient.len());
    }
}

#[test]
fn the_rotation_has_the_oracles_jacobian() {
    let oracle = oracle_case("rotate_vec_by_quat");
    let rotate = example("rotate_vec_by_quat", "rotate_vec_by_quat");
    let args = arguments(&rotate, &oracle["args"]);
    let jacobian = rotate.jacobian(&args).unwrap_or_else(|error| panic!("{error}"));
    assert_all_close(&flatten(std::slice::from_ref(&jacobian.value)), &numbers(&oracle["value"]), RELATIVE);
    let [by_v, by_q] = [0, 1].map(|part| &oracle["jacobian"][part]);
    for (n, row) in jacobian.rows.iter().enumerate() {
        let expected = [numbers(&by_v[n]), numbers(&by_q[n])].concat();
        assert_all_close(&flatten(row), &expected, RELATIVE);
        // The same as the gradient of one component.
        let name = ["x", "y", "z"][n];
        let text = format!(
            "{}\ndef component (v : Vec3) (q : Quaternion) : Real =\n  let (x, y, z) = rotate_vec_by_quat v q in {name}",
            source("rotate_vec_by_quat")
        );
        let component = module("component", &text).function("component").expect("it was just defined");
        let (_, gradient) = component.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(gradient, *row);
        compare_with_differences(&component, &args, &expected, 0..expected.len());
    }
    assert_eq!(jacobian.rows.len(), 3);
}

#[test]
fn the_players_can_do_no_better() {
    let args = |numbers: &[f64]| numbers.iter().map(|&x| Value::Real(x)).collect::<Vec<_>>();
    let players = flatten(&[example("saddle", "players").call(&args(&[1.5])).expect("nothing traps")]);
    let (payment, answer) = (example("saddle", "payment"), example("saddle", "answer"));
    let (value, gradient) = payment.value_and_grad(&args(&[1.5, players[0], players[1]])).expect("nothing traps");
    // By the stake the derivative is -x; by x and y it is 0.
    assert_all_close(&flatten(&gradient), &[-players[0], 0.0, 0.0], 1e-12);
    let paid = |x: f64, y: f64| payment.call(&args(&[1.5, x, y])).expect("nothing traps").as_real().expect("a real");
    for h in [-0.01, 0.01] {
        assert!(paid(players[0], players[1] + h) < value);
        let x = players[0] + h;
        let y = answer.call(&args(&[1.5, x])).expect("nothing traps").as_real().expect("a real");
        assert!(paid(x, y) > value);
    }
}

#[test]
fn gradients_of_searches_by_gradients_lead_to_the_minimax() {
    let point = |x: f64, y: f64| Value::Tuple(vec![Value::Real(x), Value::Real(y)]);
    for (x, y) in [(point(1.0, 1.0), point(1.0, 1.0)), (point(1.0, 2.0), point(-1.0, 0.3))] {
        let chosen = example("minimax", "saddle").call(&[x, y]).expect("nothing traps");
        let chosen = flatten(&[chosen]);
        assert!(chosen.len() == 4 && chosen.iter().all(|x| x.abs() <= 1e-6), "{chosen:?}");
    }
}

#[test]
fn the_particle_lands_at_the_origin() {
    let call = |function: &str, x: f64| {
        let found = example("particle", function).call(&[Value::Real(x)]).expect("nothing traps");
        found.as_real().expect("a real")
    };
    let w = call("particle", 0.0);
    assert!(call("landing", w).abs() <= 1e-12);
    // Where it lands depends on w steeply, so GradBench's descent ends a little before.
    assert!((w - 0.207_191_87).abs() < 1e-4);
    assert_close(call("particle", 0.4), w, 1e-12);
    // Newton's method forgets where it has begun.
    let (_, gradient) = example("particle", "particle").value_and_grad(&[Value::Real(0.4)]).expect("nothing traps");
    assert!(flatten(&gradient)[0].abs() < 1e-6);
}

#[test]
fn the_implicit_root_has_the_derivatives_of_the_closed_form() {
    let root = example("implicit_root", "implicit_root");
    let curvature = example("implicit_root", "curvature");
    let value = |a: f64| root.call(&[Value::Real(a)]).expect("nothing traps").as_real().expect("a real");
    for a in [0.1, 1.0, 3.0, 20.0] {
        let (z, gradient) = root.value_and_grad(&[Value::Real(a)]).expect("nothing traps");
        assert_close(z * z.exp(), a, 1e-13);
        let slope = flatten(&gradient)[0];
        assert_close(slope, z / (a * (1.0 + z)), 1e-13);
        let h = 1e-4 * a;
        assert_close(slope, (value(a + h) - value(a - h)) / (2.0 * h), 1e-7);
        let second = -(-2.0 * z).exp() * (z + 2.0) / (1.0 + z).powi(3);
        assert_close(second, (value(a + h) - 2.0 * z + value(a - h)) / (h * h), 1e-5);
        let found = flatten(&[curvature.call(&[Value::Real(a)]).expect("nothing traps")]);
        assert_all_close(&found, &[second; 4], 1e-12);
    }
}

#[test]
fn the_network_is_fitted_to_the_equation_by_its_own_derivatives() {
    let [loss, trained] = ["physics_informed", "trained"].map(|function| example("physics_informed", function));
    let args = arguments(&loss, &net_and_times());
    let json = net_and_times();
    let (units, times) = (json[0].as_array().expect("units"), numbers(&json[1]));
    // Position, speed and acceleration, with the derivatives of tanh written out.
    let motion = |t: f64| {
        let units = units.iter().map(|unit| {
            let [w, b, s] = *numbers(unit) else { panic!("a unit has three numbers") };
            let y = (w * t + b).tanh();
            let slope = 1.0 - y * y;
            [s * y, s * w * slope, -2.0 * s * w * w * y * slope]
        });
        units.fold([0.0; 3], |sum, part| std::array::from_fn(|n| sum[n] + part[n]))
    };
    let residuals = times.iter().map(|&t| {
        let [x, speed, acceleration] = motion(t);
        (acceleration + 0.4 * speed + 4.0 * x).powi(2)
    });
    let [x, speed, _] = motion(0.0);
    let expected = residuals.sum::<f64>() / times.len() as f64 + 10.0 * ((x - 1.0).powi(2) + speed * speed);
    let value = loss.call(&args).expect("nothing traps").as_real().expect("a real");
    assert_close(value, expected, 1e-13);

    let steps = [&[Value::Int(500)], &*args].concat();
    let [before, after] = *flatten(&[trained.call(&steps).expect("nothing traps")]) else { panic!("two losses") };
    assert_close(before, value, 1e-13);
    assert!(after < before / 5.0, "{before} and {after}");
}

#[test]
fn the_regression_ends_where_the_loss_is_flat() {
    let [regression, loss] = ["newton_hessian", "loss"].map(|function| example("newton_hessian", function));
    let args = arguments(&regression, &samples_and_weights());
    let weights = regression.call(&args).expect("nothing traps");
    let (least, gradient) = loss.value_and_grad(&[args[0].clone(), weights.clone()]).expect("nothing traps");
    assert!(flatten(&gradient[1..]).iter().all(|slope| slope.abs() <= 1e-10), "{gradient:?}");
    assert!(least < loss.value_and_grad(&args).expect("nothing traps").0);
}

#[test]
fn rotations_have_the_jacobian_of_their_components() {
    let rotations = example("rotations", "rotations");
    let args = arguments(&rotations, &json!([25, [1, 2, 3], [0.1, 0.5, 0.7, 0.5]]));
    let jacobian = rotations.jacobian(&args).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(jacobian.rows.len(), 3);
    // A rotation keeps the length.
    let length: f64 = flatten(std::slice::from_ref(&jacobian.value)).iter().map(|x| x * x).sum();
    assert_close(length, 14.0, RELATIVE);
    for (row, name) in jacobian.rows.iter().zip(["x", "y", "z"]) {
        let text = format!(
            "{}\ndef component (n : Int) (v : Vec3) (q : Quaternion) : Real =\n  \
             let (x, y, z) = rotations n v q in {name}",
            source("rotations")
        );
        let component = module("component", &text).function("component").expect("it was just defined");
        let (_, gradient) = component.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
        assert_all_close(&flatten(&gradient), &flatten(row), 1e-13);
        compare_with_differences(&component, &args, &flatten(row), 0..7);
    }
}

/// The layers 50 → 100 → 50 and the input that the oracle's note describes.
fn oracle_network() -> Vec<Value> {
    let wave = |n: usize| (0..n).map(|i| (0.41 * i as f64).sin()).collect::<Vec<f64>>();
    let layer = |rows: usize, columns: usize| {
        let row = |i: usize| Value::Reals((0..columns).map(|j| ((i + j) as f64).sin()).collect());
        Value::Tuple(vec![Value::Array((0..rows).map(row).collect()), Value::Reals(wave(rows))])
    };
    vec![Value::Array(vec![layer(100, 50), layer(50, 100)]), Value::Reals(wave(50))]
}

#[test]
fn the_neural_network_has_the_oracles_value_and_gradient() {
    let oracle = oracle_case("neural");
    let args = oracle_network();
    let (value, gradient) = example("neural", "neural").value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
    assert_close(value, oracle["value_sum"].as_f64().expect("a number"), RELATIVE);
    assert!(flatten(&gradient).iter().all(|x| x.abs() < 1e-13));

    let text = source("neural")
        + "\ndef weighted (layers : List Layer) (x : Array Real) : Real =
  let y = network layers x in
  loop total = 0.0 for i < length y do total - cos (to_real i) * log y[i]\n";
    let weighted = module("weighted", &text).function("weighted").expect("it was just defined");
    let (value, gradient) = weighted.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
    assert_close(value, oracle["value_weighted"].as_f64().expect("a number"), RELATIVE);

    let gradient = flatten(&gradient);
    let (w1, rest) = gradient.split_at(100 * 50);
    let (b1, rest) = rest.split_at(100);
    let (w2, rest) = rest.split_at(50 * 100);
    let (b2, x) = rest.split_at(50);
    let expected = &oracle["gradient_weighted"];
    let part = |name: &str, found: &[f64]| {
        let expected = numbers(&expected[name]);
        let scale = expected.iter().fold(0.0, |scale: f64, x| scale.max(x.abs()));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let near = (found - expected).abs() <= 1e-3 * RELATIVE * scale;
            assert!(near || close(*found, expected, RELATIVE), "{name}: found {found:e}, expected {expected:e}");
        }
    };
    part("W1_row0", &w1[..50]);
    part("b1", b1);
    part("W2_row3", &w2[300..400]);
    part("b2", b2);
    part("x", x);
    for (name, w) in [("W1", w1), ("W2", w2)] {
        let sums = [w.iter().sum(), w.iter().map(|x| x.abs()).sum::<f64>()];
        let expected = ["sum", "abs_sum"].map(|sum| &expected[format!("{name}_{sum}")]);
        // The sum cancels: it is as exact as the terms are large.
        assert!((sums[0] - expected[0].as_f64().expect("a number")).abs() <= RELATIVE * sums[1]);
        assert_close(sums[1], expected[1].as_f64().expect("a number"), RELATIVE);
    }
    compare_with_differences(&weighted, &args, &gradient, (0..gradient.len()).step_by(97));
}

/// The functions of examples that have the same arithmetic without tasks beside them, as `NAME_sequential`, with larger
/// arguments than in the other cases.
fn parallel_cases() -> Vec<Case> {
    let case = |file, function, args| Case { file, function, args, oracle: None };
    let particle = |n: i32| json!([[0.5 * f64::from(n), 0.1], [1, 1.0 / f64::from(n)]]);
    let particles: Vec<Json> = (1..=4).map(particle).collect();
    let numbers: Vec<f64> = (0..10_000).map(|n| (0.1 * f64::from(n)).sin()).collect();
    vec![
        case("particles_par", "particles_par", json!([2_000, particles])),
        case("particles_par", "particles_pairs", json!([2_000, particles])),
        case("uneven_map", "uneven_map", json!([60, 200, -2.1, -1.3, 2.7])),
        case("tree_sum", "tree_sum", json!([numbers])),
        case("monte_carlo", "monte_carlo", json!([20_000, [[100, 0.2], [90, 0.3], [110, 0.25]], [0.03, 1, 98, 0.4]])),
        case("shared_array", "shared_array", json!([1_000, numbers])),
        case("deep_fork", "deep_fork", json!([10_000, 0.5])),
    ]
}

#[test]
fn tasks_change_no_value_and_no_gradient() {
    for case in parallel_cases() {
        let parallel = example(case.file, case.function);
        let sequential = example(case.file, &format!("{}_sequential", case.function));
        let args = arguments(&parallel, &case.args);
        let [(value, gradient), (expected, expected_gradient)] = [parallel, sequential]
            .map(|function| function.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(value, expected, "{}", case.function);
        // The order in which adjoints are added is another one.
        assert_all_close(&flatten(&gradient), &flatten(&expected_gradient), 1e-11);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for case in parallel_cases() {
        let mut first = None;
        for threads in [1, 2, 3] {
            let mut config = Config::default();
            config.threads = threads;
            let module = Module::from_source(&Engine::new(config), case.file, &source(case.file));
            let function =
                module.and_then(|module| module.function(case.function)).unwrap_or_else(|error| panic!("{error}"));
            let args = arguments(&function, &case.args);
            let found = function.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
            let bits: Vec<u64> = flatten(&found.1).into_iter().chain([found.0]).map(f64::to_bits).collect();
            assert_eq!(*first.get_or_insert_with(|| bits.clone()), bits, "{}, {threads} threads", case.function);
        }
    }
}

/// Turns arguments into what the reference implementation takes; reals are inputs, numbered in order.
struct Inputs<'a, N> {
    def: &'a ModuleDef,
    reals: Vec<f64>,
    input: fn(usize, f64) -> N,
}

impl<N: Number> Inputs<'_, N> {
    fn real(&mut self, x: f64) -> Val<N> {
        self.reals.push(x);
        Val::Real((self.input)(self.reals.len() - 1, x))
    }

    fn fields(tag: u16, fields: Vec<Val<N>>) -> Val<N> {
        Val::Ref(Rc::new(Object::Fields(tag, fields)))
    }

    fn items(&mut self, element: &HostType, value: &Value) -> Vec<Vec<Val<N>>> {
        match value {
            Value::Reals(xs) => xs.iter().map(|&x| vec![self.real(x)]).collect(),
            Value::Array(items) => items.iter().map(|item| self.flat(element, item)).collect(),
            other => panic!("not a sequence: {other:?}"),
        }
    }

    /// The registers of a value.
    fn flat(&mut self, ty: &HostType, value: &Value) -> Vec<Val<N>> {
        match (ty, value) {
            (HostType::Real, Value::Real(x)) => vec![self.real(*x)],
            (HostType::Int, Value::Int(n)) => vec![Val::Int(*n)],
            (HostType::Bool, Value::Bool(b)) => vec![Val::Int(i64::from(*b))],
            (HostType::Tuple(types), Value::Tuple(parts)) => {
                types.iter().zip(parts).flat_map(|(ty, part)| self.flat(ty, part)).collect()
            }
            (HostType::Record(types), Value::Record(parts)) => {
                types.iter().zip(parts).flat_map(|((_, ty), (_, part))| self.flat(ty, part)).collect()
            }
            (HostType::Array { element, .. }, value) => {
                let elements = self.items(element, value).into_iter().flat_map(Val::element);
                vec![Val::array_of(elements.collect::<Vec<_>>())]
            }
            (HostType::List { element, .. }, value) => {
                let mut list = Self::fields(0, Vec::new());
                for mut item in self.items(element, value).into_iter().rev() {
                    item.push(list);
                    list = Self::fields(1, item);
                }
                vec![list]
            }
            (HostType::Data { data, .. }, Value::Variant(name, payload)) => {
                let variants = &self.def.data[data.index()].variants;
                let tag = variants.iter().position(|(known, _)| known == name).expect("the constructor is known");
                let fields = self.flat(&variants[tag].1, payload);
                vec![Self::fields(tag as u16, fields)]
            }
            other => panic!("not of its type: {other:?}"),
        }
    }
}

/// Runs a function in the reference implementation; gives its result and the number of inputs.
fn reference<N: Number>(
    module: &Module,
    function: &Function,
    args: &[Value],
    input: fn(usize, f64) -> N,
) -> (N, usize) {
    let def = module.def();
    let mut inputs = Inputs { def, reals: Vec::new(), input };
    let types = function.interface().params.iter().map(|(_, ty)| ty);
    let args = types.zip(args).flat_map(|(ty, arg)| inputs.flat(ty, arg)).collect();
    let index = def.function(function.name()).expect("the function is there").0.index();
    let (results, _) = run(def, index, args, 10_000_000).unwrap_or_else(|stop| panic!("{stop:?}"));
    (results[0].real().clone(), inputs.reals.len())
}

#[test]
fn gradients_are_those_of_naive_and_of_taped_dual_numbers() {
    for case in cases() {
        // The naive implementation takes exponential time where values are shared, as the paper says.
        if matches!(case.oracle, Some("particles_100" | "particles_1000")) || case.file == "uneven_map" {
            continue;
        }
        if WITH_OPERATORS.contains(&case.file) {
            continue;
        }
        let module = module(case.file, &source(case.file));
        let function = module.function(case.function).expect("the example has the function");
        let mut args = arguments(&function, &case.args);
        if let (Some("particles_10"), Some(steps)) = (case.oracle, args.first_mut()) {
            *steps = Value::Int(3);
        }
        if case.file == "spring" {
            args[0] = Value::Int(5);
        }
        let (value, gradient) = function.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
        let gradient = flatten(&gradient);

        Taped::begin();
        let (taped, count) = reference(&module, &function, &args, |_, x| Taped::input(x));
        assert_eq!(taped.primal(), value, "{}", case.function);
        assert_all_close(&taped.gradient(count).gradient, &gradient, 1e-12);

        let (naive, count) = reference(&module, &function, &args, Naive::input);
        let naive = naive.gradient(count, 20_000_000).expect("a small program");
        let scale = naive.iter().fold(1e-3, |scale: f64, x| scale.max(x.abs()));
        for (found, expected) in naive.iter().zip(&gradient) {
            assert!((found - expected).abs() <= 1e-13 * scale, "{}: {found:e} and {expected:e}", case.function);
        }
    }
}
