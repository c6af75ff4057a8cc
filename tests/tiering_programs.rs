//! The programs of the suite tiering: the same to the last bit on all tiers, and right.

#[path = "../src/bench/tiering/data.rs"]
mod data;
#[path = "../src/bench/tiering/programs.rs"]
mod programs;
mod support;

use dualvm::{Config, Engine, Function, Jit, Module, Value};
use programs::{PROGRAMS, Program};
use serde::de::DeserializeSeed;
use support::{flatten, shifted};

fn function(program: &Program, jit: Jit) -> Function {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, 1);
    let module = Module::from_source(&Engine::new(config), program.name, program.source);
    let module = module.unwrap_or_else(|error| panic!("{}: {error}", program.name));
    module.function(program.function).unwrap()
}

fn arguments(function: &Function, json: &str) -> Vec<Value> {
    function.arguments_seed().deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap()
}

#[test]
fn the_tiers_agree_and_gradients_are_right() {
    for program in PROGRAMS {
        let [small, some, _] = &program.sizes;
        let functions = [Jit::Off, Jit::Auto, Jit::Always].map(|jit| function(program, jit));
        for size in [small, some] {
            let args = arguments(&functions[0], &(size.args)());
            // The second call meets what the first one has compiled.
            let all = functions.iter().flat_map(|function| [function, function]);
            let mut found = all.map(|function| function.value_and_grad(&args).unwrap());
            let (value, gradient) = found.next().unwrap();
            for (other, derivatives) in found {
                assert_eq!(other.to_bits(), value.to_bits(), "{} {}", program.name, size.label);
                let bits = |values: &[Value]| flatten(values).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&derivatives), bits(&gradient), "{} {}", program.name, size.label);
            }
        }
        let args = arguments(&functions[0], &(small.args)());
        let (_, gradient) = functions[0].value_and_grad(&args).unwrap();
        for (n, &found) in flatten(&gradient).iter().enumerate().step_by(3) {
            let at = |change: f64| functions[0].call(&shifted(&args, n, change)).unwrap().as_real().unwrap();
            let slope = |h: f64| (at(h) - at(-h)) / (2.0 * h);
            let expected = (4.0 * slope(1e-4) - slope(2e-4)) / 3.0;
            let error = (found - expected).abs() / expected.abs().max(1.0);
            assert!(error < 1e-5, "{}, derivative {n}: expected {expected:e}, found {found:e}", program.name);
        }
    }
}
