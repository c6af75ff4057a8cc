//! Random programs: the engine against the reference, value by value and derivative by derivative.
//!
//! `DUALVM_SEEDS=n` runs n seeds instead of 1,000, `DUALVM_FIRST_SEED=s` begins at another one. A failure prints the
//! seed and the program.

mod support;

use dualvm_vm::binary;
use dualvm_vm::engine::{CallOptions, Engine, Function, Limits, RunError};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::text;
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use fastrand::Rng;
use support::generate::{Program, Style, program};
use support::numbers::{Forward, Naive, Taped, TapedGradient};
use support::reference::{Number, Stop, Val, run};
use support::{flatten, from_environment, load, load_into, same, shifted, with_jumps};

const STEPS_MAX: u64 = 4000;
const CALLS_MAX: u64 = 20_000;
const SMALL_HEAP: u64 = 400_000;

/// How often each comparison was made.
#[derive(Default, Debug)]
struct Counts {
    programs: u64,
    too_long: u64,
    trapped: u64,
    gradients: u64,
    nonzero: u64,
    singular: u64,
    singular_different: u64,
    naive: u64,
    finite_differences: u64,
    evacuated: u64,
    too_large: u64,
}

fn main_index(module: &ModuleDef) -> usize {
    module.function("main").expect("every generated module has `main`").0.index()
}

/// The arguments for the reference, each real made by `make` from its number and value.
fn arguments<N: Number>(args: &[Value], mut make: impl FnMut(usize, f64) -> N) -> Vec<Val<N>> {
    let mut next = 0;
    let mut real = |x: f64| {
        next += 1;
        make(next - 1, x)
    };
    args.iter()
        .map(|arg| match arg {
            Value::Real(x) => Val::Real(real(*x)),
            Value::Int(n) => Val::Int(*n),
            Value::Reals(xs) => Val::reals(xs.iter().map(|&x| real(x)).collect::<Vec<_>>()),
            other => panic!("the generator makes no {other:?}"),
        })
        .collect()
}

fn reference<N: Number>(program: &Program, make: impl FnMut(usize, f64) -> N) -> Result<(N, u64), Stop> {
    let args = arguments(&program.args, make);
    let (results, steps) = run(&program.module, main_index(&program.module), args, STEPS_MAX)?;
    Ok((results[0].real().clone(), steps))
}

/// Checks one program; `Err` says what is wrong.
fn check(seed: u64, program: &Program, counts: &mut Counts) -> Result<(), String> {
    counts.programs += 1;
    let engine = Engine::default();
    let main = |def: &ModuleDef| load_into(&engine, def.clone()).function("main").expect("main is exported");
    let function = main(&program.module);

    let expected = reference::<f64>(program, |_, x| x);
    if expected == Err(Stop::TooLong) {
        counts.too_long += 1;
        return Ok(());
    }
    let found = function.call_with(&program.args, &CallOptions::default());
    let value = match (&expected, &found) {
        (Ok((expected, steps)), Ok((Value::Real(found), stats))) => {
            if !same(*expected, *found) {
                return Err(format!("value: expected {expected:e}, found {found:e}"));
            }
            if *steps != stats.instructions {
                return Err(format!("expected {steps} instructions, found {}", stats.instructions));
            }
            *found
        }
        (Err(Stop::Trap(expected)), Err(RunError::Trap(trap)))
            if format!("{expected:?}") == format!("{:?}", trap.kind) =>
        {
            counts.trapped += 1;
            return match function.value_and_grad(&program.args) {
                Err(RunError::Trap(recording)) if format!("{recording:?}") == format!("{trap:?}") => Ok(()),
                other => Err(format!("expected {trap:?} while recording, found {other:?}")),
            };
        }
        _ => return Err(format!("expected {expected:?}, found {found:?}")),
    };
    let mut rng = Rng::with_seed(!seed);
    gradients(program, &function, value, &mut rng, counts)?;
    if seed.is_multiple_of(3) {
        round_trips(program, &main, value)?;
    }

    let expected = gradient_of(&function, &program.args)?.1;
    // The order of sums depends on the code alone, and garbage and evacuations change nothing.
    let options = CallOptions::with_limits(Limits { live_bytes: SMALL_HEAP, ..Limits::default() });
    let repeated = load(program.module.clone()).function("main").expect("main is exported");
    match repeated.grad_with(&program.args, &options) {
        Ok(found) if flatten(&found.gradient).into_iter().zip(&expected).all(|(a, b)| same(a, *b)) => {
            counts.evacuated += u64::from(found.stats.allocated_bytes > SMALL_HEAP);
        }
        Err(RunError::Trap(trap)) if trap.kind == TrapKind::Limit(Limit::LiveBytes) => counts.too_large += 1,
        other => return Err(format!("a second module and a small heap: expected {expected:?}, found {other:?}")),
    }
    let density = rng.usize(1..8);
    let cut = with_jumps(&program.module, |_, _| rng.usize(..8) < density);
    let (cut_value, found) = gradient_of(&main(&cut), &program.args).map_err(|error| format!("with jumps: {error}"))?;
    if !same(cut_value, value) {
        return Err(format!("with jumps: expected value {value:e}, found {cut_value:e}"));
    }
    let taped = taped(program)?;
    if regular(&taped) {
        compare("with jumps", &expected, &found, &taped)?;
    }
    Ok(())
}

fn gradient_of(function: &Function, args: &[Value]) -> Result<(f64, Vec<f64>), String> {
    let (value, gradient) = function.value_and_grad(args).map_err(|error| error.to_string())?;
    Ok((value, flatten(&gradient)))
}

fn taped(program: &Program) -> Result<TapedGradient, String> {
    Taped::begin();
    let (result, _) = reference(program, |_, x| Taped::input(x)).map_err(|stop| format!("{stop:?}"))?;
    Ok(result.gradient(flatten(&program.args).len()))
}

/// Whether rounding errors are all that two correct gradients differ by.
fn regular(taped: &TapedGradient) -> bool {
    !taped.singular && taped.largest < 1e250
}

/// Equal but for rounding: errors are in proportion to the terms that were added.
fn compare(what: &str, expected: &[f64], found: &[f64], taped: &TapedGradient) -> Result<(), String> {
    for (n, (&expected, &found)) in expected.iter().zip(found).enumerate() {
        let scale = taped.magnitude[n];
        let equal = if scale == 0.0 { expected == found } else { (expected - found).abs() <= 1e-10 * scale + 1e-290 };
        if !equal {
            return Err(format!("{what}, derivative {n}: expected {expected:e}, found {found:e} (terms of {scale:e})"));
        }
    }
    Ok(())
}

fn gradients(
    program: &Program,
    function: &Function,
    value: f64,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Result<(), String> {
    let inputs = flatten(&program.args).len();
    let (recorded, found) = gradient_of(function, &program.args)?;
    if !same(recorded, value) {
        return Err(format!("value while recording: expected {value:e}, found {recorded:e}"));
    }
    if found.len() != inputs {
        return Err(format!("{inputs} inputs, {} derivatives", found.len()));
    }
    counts.gradients += 1;
    counts.nonzero += u64::from(found.iter().any(|&x| x != 0.0));
    let taped = taped(program)?;
    if !regular(&taped) {
        counts.singular += 1;
        let differs = taped
            .gradient
            .iter()
            .zip(&found)
            .any(|(&expected, &found)| expected.is_nan() != found.is_nan() || (expected == 0.0) != (found == 0.0));
        counts.singular_different += u64::from(differs);
        return Ok(());
    }
    compare("reverse mode", &taped.gradient, &found, &taped)?;
    for (n, &derivative) in found.iter().enumerate() {
        let (result, _) = reference(program, |at, primal| Forward { primal, tangent: f64::from(u8::from(at == n)) })
            .map_err(|stop| format!("{stop:?}"))?;
        compare(
            "forward mode",
            &[result.tangent],
            &[derivative],
            &TapedGradient { gradient: Vec::new(), magnitude: vec![taped.magnitude[n]], ..taped },
        )?;
    }
    let (result, _) = reference(program, Naive::input).map_err(|stop| format!("{stop:?}"))?;
    if let Some(expected) = result.gradient(inputs, CALLS_MAX) {
        counts.naive += 1;
        compare("naive backpropagators", &expected, &found, &taped)?;
    }
    if inputs > 0 && program.style != Style::Wild {
        finite_differences(program, function, rng.usize(..inputs), &found, &taped, counts)?;
    }
    Ok(())
}

/// Compares one derivative with differences, where four of them say that the function is smooth there.
fn finite_differences(
    program: &Program,
    function: &Function,
    n: usize,
    found: &[f64],
    taped: &TapedGradient,
    counts: &mut Counts,
) -> Result<(), String> {
    if taped.largest > 1e3 || flatten(&program.args)[n].abs() > 10.0 {
        return Ok(());
    }
    let at = |change: f64| match function.call(&shifted(&program.args, n, change)) {
        Ok(Value::Real(x)) => x,
        _ => f64::NAN,
    };
    let here = at(0.0);
    let slopes: Vec<f64> = [1e-4, 3e-5].iter().flat_map(|h| [(at(*h) - here) / h, (here - at(-*h)) / h]).collect();
    let (low, high) = slopes.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x)));
    let scale = 1.0 + low.abs().max(high.abs());
    if !here.is_finite() || here.abs() > 1e3 || high - low > 1e-2 * scale || slopes.iter().any(|x| x.is_nan()) {
        return Ok(());
    }
    counts.finite_differences += 1;
    let middle = (slopes[2] + slopes[3]) / 2.0;
    if (middle - found[n]).abs() > 2e-2 * scale {
        return Err(format!("finite differences, derivative {n}: expected {middle:e}, found {:e}", found[n]));
    }
    Ok(())
}

/// Text and binary forms come back as the same module and run to the same bits.
fn round_trips(program: &Program, main: &dyn Fn(&ModuleDef) -> Function, value: f64) -> Result<(), String> {
    let printed = text::print(&program.module);
    let from_text = text::parse(&printed, "random.dvasm").map_err(|error| format!("text: {error:?}"))?;
    let bytes = binary::encode(&program.module).map_err(|error| format!("binary: {error}"))?;
    let from_binary = binary::decode(&bytes).map_err(|error| format!("binary: {error}"))?;
    // Not by `==`: a module may hold NaN.
    for (what, module) in [("text", &from_text), ("binary", &from_binary)] {
        if text::print(module) != printed {
            return Err(format!("{what} comes back as\n{}", text::print(module)));
        }
        let found = main(module).call(&program.args);
        match found {
            Ok(Value::Real(found)) if same(found, value) => {}
            other => return Err(format!("{what}: expected {value:e}, found {other:?}")),
        }
    }
    Ok(())
}

fn check_seeds(style: Style, seeds: u64) -> Counts {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(seeds);
    let mut counts = Counts::default();
    for seed in first..first + seeds {
        let program = program(seed, style);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(seed, &program, &mut counts)));
        let outcome = outcome.unwrap_or_else(|_| Err("a panic".into()));
        if let Err(error) = outcome {
            let args: Vec<String> = program.args.iter().map(ToString::to_string).collect();
            panic!("seed {seed}, {style:?}: {error}\narguments: {}\n{}", args.join(", "), text::print(&program.module));
        }
    }
    println!("{style:?}, seeds {first}..{}: {counts:?}", first + seeds);
    assert!(counts.too_long * 4 < counts.programs + 40, "too many programs are too long to be of use: {counts:?}");
    counts
}

#[test]
fn tame_programs_agree_with_the_reference() {
    let counts = check_seeds(Style::Tame, 700);
    assert!(counts.nonzero * 3 > counts.programs, "too few gradients are not zero: {counts:?}");
    assert!(counts.finite_differences * 5 > counts.programs, "too few differences could be taken: {counts:?}");
}

#[test]
fn long_programs_agree_with_the_reference() {
    check_seeds(Style::Long, 60);
}

#[test]
fn wasteful_programs_agree_with_the_reference() {
    let counts = check_seeds(Style::Wasteful, 200);
    assert!(counts.evacuated * 20 > counts.programs, "too few heaps were evacuated: {counts:?}");
}

#[test]
fn wild_programs_agree_with_the_reference() {
    let counts = check_seeds(Style::Wild, 300);
    assert!(counts.singular_different * 20 <= counts.singular + 20, "{counts:?}");
}
