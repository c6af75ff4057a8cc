//! The library's modules against independent implementations, and their derivatives against differences.

use dualvm::{CheckOptions, Engine, Module, Value};
use serde_json::Value as Json;
use std::path::Path;

fn value(json: &Json) -> Value {
    match json {
        Json::Array(items) => Value::Reals(items.iter().map(|item| item.as_f64().unwrap()).collect()),
        Json::Number(number) if number.is_i64() => Value::Int(number.as_i64().unwrap()),
        number => Value::Real(number.as_f64().unwrap()),
    }
}

#[test]
fn distributions_are_those_of_scipy_and_their_gradients_those_of_differences() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles/stats.json");
    let oracle: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = oracle["cases"].as_array().unwrap();
    assert!(cases.len() > 200);
    let parameters = |args: &[Json], name: &str| -> (String, String) {
        let types = args.iter().enumerate().map(|(n, arg)| match arg {
            Json::Array(_) => "Array Real",
            // Numbers of events and trials.
            _ if name.ends_with("_logpmf") && (n == 0 || n == 1 && name.starts_with("binomial")) => "Int",
            _ => "Real",
        });
        let names: Vec<String> = (0..args.len()).map(|n| format!("a{n}")).collect();
        let declared = types.zip(&names).map(|(ty, name)| format!("({name} : {ty})")).collect::<Vec<_>>().join(" ");
        (declared, names.join(" "))
    };
    let engine = Engine::default();
    let mut module: Option<(String, Module)> = None;
    for case in cases {
        let (name, args) = (case["function"].as_str().unwrap(), case["args"].as_array().unwrap());
        if module.as_ref().is_none_or(|(known, _)| known != name) {
            let (declared, names) = parameters(args, name);
            let text = format!("import stats\ndef f {declared} : Real = stats.{name} {names}");
            module = Some((name.to_owned(), Module::from_source(&engine, "f.dual", &text).unwrap()));
        }
        let function = module.as_ref().unwrap().1.function("f").unwrap();
        let params = &function.interface().params;
        let real = |(arg, (_, ty)): (&Json, &(String, dualvm::HostType))| match (value(arg), ty) {
            (Value::Int(n), dualvm::HostType::Real) => Value::Real(n as f64),
            (value, _) => value,
        };
        let values: Vec<Value> = args.iter().zip(params).map(real).collect();
        let found = function.call(&values).unwrap().as_real().unwrap();
        let expected = case["value"].as_f64().unwrap();
        assert!((found - expected).abs() <= 2e-13 * expected.abs().max(1.0), "{name} {args:?}: {found} {expected}");
        let mut options = CheckOptions::default();
        options.points = 0;
        let check = function.check_gradient(&values, &options).unwrap();
        assert!(!check.is_wrong(), "{name} {args:?}: {check:#?}");
    }
}

#[test]
fn outside_of_the_support_derivatives_are_0() {
    let text = "import stats
        def f (x : Real) : Real = stats.gamma_logpdf x 2 3
        def g (x : Real) : Real = stats.beta_logpdf x 0.5 0.5
        def h (p : Real) : Real = stats.binomial_logpmf 0 3 p + stats.binomial_logpmf 3 3 (1 - p)";
    let module = Module::from_source(&Engine::default(), "f.dual", text).unwrap();
    for (name, x) in [("f", -1.0), ("f", 0.0), ("g", 0.0), ("g", 1.0), ("g", 2.0)] {
        let (value, gradient) = module.function(name).unwrap().value_and_grad(&[Value::Real(x)]).unwrap();
        assert_eq!((value, &gradient[..]), (f64::NEG_INFINITY, &[Value::Real(0.0)][..]), "{name} {x}");
    }
    let (value, gradient) = module.function("h").unwrap().value_and_grad(&[Value::Real(0.0)]).unwrap();
    assert_eq!((value, &gradient[..]), (0.0, &[Value::Real(-6.0)][..]));
}
