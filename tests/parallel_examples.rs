//! The examples with tasks: value and gradient are the same bits on any number of threads, in every run, interpreted
//! and compiled. That they are those of the programs without tasks is in `examples.rs`.

mod support;

use dualvm::{Config, Engine, Jit, Module, Value};
use serde::de::DeserializeSeed;
use serde_json::{Value as Json, json};
use std::path::Path;
use support::flatten;

const THREADS: [usize; 5] = [1, 2, 3, 8, 64];
const RUNS: usize = 20;

/// File, function, arguments: small, but with more tasks than there are threads where that is the program's nature.
fn cases() -> Vec<(&'static str, &'static str, Json)> {
    let particle = |n: i32| json!([[0.5 * f64::from(n), 0.1], [1, 1.0 / f64::from(n)]]);
    let particles: Vec<Json> = (1..=4).map(particle).collect();
    let numbers: Vec<f64> = (0..300).map(|n| (0.1 * f64::from(n)).sin()).collect();
    vec![
        ("particles_par", "particles_par", json!([300, particles])),
        ("particles_par", "particles_pairs", json!([300, particles])),
        ("uneven_map", "uneven_map", json!([20, 100, -2.1, -1.3, 2.7])),
        ("tree_sum", "tree_sum", json!([numbers])),
        ("monte_carlo", "monte_carlo", json!([2_000, [[100, 0.2], [90, 0.3], [110, 0.25]], [0.03, 1, 98, 0.4]])),
        ("shared_array", "shared_array", json!([150, numbers])),
        ("deep_fork", "deep_fork", json!([400, 0.5])),
    ]
}

/// The bits of value and gradient of a function, run a number of times on an engine.
fn runs(engine: &Engine, (file, function, args): &(&str, &str, Json), times: usize) -> Vec<Vec<u64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file).with_extension("dual");
    let source = std::fs::read_to_string(path).expect("the example is there");
    let module = Module::from_source(engine, file, &source).unwrap_or_else(|error| panic!("{error}"));
    let function = module.function(function).expect("the example defines the function");
    let args: Vec<Value> = function.arguments_seed().deserialize(args).expect("the arguments fit");
    let run = |_| {
        let (value, gradient) = function.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
        [value].into_iter().chain(flatten(&gradient)).map(f64::to_bits).collect()
    };
    (0..times).map(run).collect()
}

fn engine(jit: Jit, threads: usize) -> Engine {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    Engine::new(config)
}

#[track_caller]
fn assert_same_bits(jit: Jit) {
    let expected: Vec<_> = cases().iter().map(|case| runs(&engine(Jit::Off, 1), case, 1).remove(0)).collect();
    for threads in THREADS {
        let engine = engine(jit, threads);
        for (case, expected) in cases().iter().zip(&expected) {
            for (run, found) in runs(&engine, case, RUNS).iter().enumerate() {
                assert_eq!(found, expected, "{}, {jit:?}, {threads} threads, run {run}", case.1);
            }
        }
    }
}

#[test]
fn interpreted_examples_give_the_same_bits_on_any_number_of_threads() {
    assert_same_bits(Jit::Off);
}

#[test]
fn compiled_examples_give_the_same_bits_on_any_number_of_threads() {
    assert_same_bits(Jit::Always);
}

/// Pieces of code are compiled by one thread while others run, and which run first differs.
#[test]
fn examples_that_are_compiled_on_the_way_give_the_same_bits() {
    assert_same_bits(Jit::Auto);
}
