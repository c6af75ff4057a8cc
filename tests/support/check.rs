//! One program checked in every way: the engines against each other and against the reference, value by value and
//! derivative by derivative, and at limits.

use super::engines::{Engines, Loaded, Mode, Outcome, SMALL_HEAP, limits_within};
use super::generate::Program;
use super::numbers::{Forward, Naive, Taped, TapedGradient};
use super::reference::{Covered, Number, Stop, Val, run, run_and_cover};
use super::{flatten, from_environment, load_into, same, shifted, with_calls, with_jumps};
use dualvm_vm::engine::{Engine, Function, Limits, Stats};
use dualvm_vm::isa::Op;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use dualvm_vm::{binary, text};
use fastrand::Rng;
use std::collections::BTreeMap;

/// Steps that the reference takes.
const STEPS_MAX: u64 = 400_000;
/// Steps up to which a program is also run once per input, and by backpropagators.
const SHORT: u64 = 4_000;
const CALLS_MAX: u64 = 20_000;
/// Tape is made of slabs of so many bytes.
const SLAB_BYTES: u64 = 1 << 16;

/// How often each comparison was made.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    pub(crate) programs: u64,
    pub(crate) too_long: u64,
    pub(crate) trapped: u64,
    pub(crate) gradients: u64,
    pub(crate) nonzero: u64,
    pub(crate) singular: u64,
    pub(crate) singular_different: u64,
    pub(crate) naive: u64,
    pub(crate) finite_differences: u64,
    pub(crate) evacuated: u64,
    /// Runs whose tape takes more than one slab.
    pub(crate) slabs: u64,
    /// Runs that were stopped by each limit.
    pub(crate) limits: BTreeMap<String, u64>,
    /// In how many programs each construct was executed.
    pub(crate) constructs: BTreeMap<&'static str, u64>,
}

/// The arguments for the reference, each real made by `make` from its number and value.
pub(crate) fn arguments<N: Number>(args: &[Value], mut make: impl FnMut(usize, f64) -> N) -> Vec<Val<N>> {
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
            Value::Array(elements) => Val::array_of(elements.iter().map(|element| match element {
                Value::Int(n) => Val::Int(*n),
                other => panic!("no generator makes an array of {other:?}"),
            })),
            other => panic!("no generator makes {other:?}"),
        })
        .collect()
}

pub(crate) fn main_index(module: &ModuleDef) -> usize {
    module.function("main").expect("every generated module has `main`").0.index()
}

fn reference<N: Number>(program: &Program, make: impl FnMut(usize, f64) -> N) -> Result<(N, u64), Stop> {
    let args = arguments(&program.args, make);
    let (results, steps) = run(&program.module, main_index(&program.module), args, STEPS_MAX)?;
    Ok((results[0].real().clone(), steps))
}

/// Checks one program; `Err` says what is wrong.
pub(crate) fn check(seed: u64, program: &Program, engines: &mut Engines, counts: &mut Counts) -> Result<(), String> {
    counts.programs += 1;
    let mut rng = Rng::with_seed(!seed);
    let loaded =
        engines.load(&program.module, seed).map_err(|errors| format!("the verifier refuses: {}", errors[0]))?;
    let args = arguments(&program.args, |_, x| x);
    let covered: Covered<f64> = run_and_cover(&program.module, main_index(&program.module), args, STEPS_MAX, false);
    let mut constructs: Vec<&str> = program
        .notes
        .iter()
        .filter(|(_, func, inst)| covered.executed[*func as usize][*inst as usize])
        .map(|(what, ..)| *what)
        .collect();
    constructs.sort_unstable();
    constructs.dedup();
    constructs.into_iter().for_each(|what| *counts.constructs.entry(what).or_default() += 1);

    let all = |mode, limits: &Limits| loaded.run("main", &program.args, mode, limits);
    let steps = covered.steps;
    match &covered.results {
        Err(Stop::TooLong) => {
            counts.too_long += 1;
            let limits = Limits { fuel: STEPS_MAX, ..Limits::default() };
            all(Mode::Call, &limits)?;
            all(Mode::Gradient, &limits)?;
            Ok(())
        }
        Err(Stop::Trap(expected)) => {
            counts.trapped += 1;
            let found = all(Mode::Call, &Limits::default())?;
            let Outcome::Trap(trap) = &found else { return Err(format!("expected {expected:?}, found {found:?}")) };
            if format!("{expected:?}") != format!("{:?}", trap.kind) {
                return Err(format!("expected {expected:?}, found {trap:?}"));
            }
            match all(Mode::Gradient, &Limits::default())? {
                Outcome::Trap(recording) if recording.to_string() == trap.to_string() => {}
                other => return Err(format!("expected {trap:?} while recording, found {other:?}")),
            }
            let mut used = Stats::default();
            used.instructions = steps;
            at_limits(&loaded, program, &used, &mut rng, counts)
        }
        Ok(results) => {
            let expected = *results[0].real();
            let found = all(Mode::Call, &Limits::default())?;
            match &found {
                Outcome::Done { value: Value::Real(found), stats, .. } => {
                    if !same(expected, *found) {
                        return Err(format!("value: expected {expected:e}, found {found:e}"));
                    }
                    if steps != stats.instructions {
                        return Err(format!("expected {steps} instructions, found {}", stats.instructions));
                    }
                }
                // A parallel map whose tasks all return the array of the one before makes gigabytes in a few steps.
                Outcome::Trap(trap) if matches!(trap.kind, TrapKind::Limit(Limit::LiveBytes)) => {
                    counts.too_long += 1;
                    return Ok(());
                }
                other => return Err(format!("expected {expected:e}, found {other:?}")),
            }
            whole_run(seed, program, &loaded, expected, steps, &mut rng, counts)
        }
    }
}

/// Checks a program that comes to its end.
fn whole_run(
    seed: u64,
    program: &Program,
    loaded: &Loaded,
    value: f64,
    steps: u64,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Result<(), String> {
    let engine = Engine::default();
    let main = |def: &ModuleDef| load_into(&engine, def.clone()).function("main").expect("main is exported");
    let outcome = loaded.run("main", &program.args, Mode::Gradient, &Limits::default())?;
    let Outcome::Done { stats, .. } = &outcome else {
        return Err(format!("expected value {value:e} while recording, found {outcome:?}"));
    };
    counts.evacuated += u64::from(stats.allocated_bytes > SMALL_HEAP);
    counts.slabs += u64::from(stats.tape_bytes > SLAB_BYTES);
    let function = loaded.function("main").expect("main is exported");
    gradients(program, &function, &outcome, value, steps, rng, counts)?;
    loaded.run("main", &program.args, Mode::Jacobian, &Limits::default())?;
    at_limits(loaded, program, stats, rng, counts)?;
    if seed.is_multiple_of(3) {
        round_trips(program, &main, value)?;
    }
    let density = rng.usize(1..8);
    let mut others = vec![("with jumps", with_jumps(&program.module, |_, _| rng.usize(..8) < density))];
    if program.module.functions.iter().flat_map(|function| &function.body.code).any(|inst| inst.op == Op::Fork) {
        others.push(("with calls for forks", with_calls(&program.module)));
    }
    let taped = taped(program)?;
    for (what, other) in others {
        let (other_value, found) =
            gradient_of(&main(&other), &program.args).map_err(|error| format!("{what}: {error}"))?;
        if !same(other_value, value) {
            return Err(format!("{what}: expected value {value:e}, found {other_value:e}"));
        }
        if regular(&taped) {
            compare(what, &outcome.gradient(), &found, &taped)?;
        }
    }
    Ok(())
}

/// Stops the run in the middle; all engines must stop at the same place.
fn at_limits(
    loaded: &Loaded,
    program: &Program,
    used: &Stats,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Result<(), String> {
    let deep = match program.args.last() {
        Some(Value::Int(n)) => usize::try_from(*n).unwrap_or(0) + 3,
        _ => 3,
    };
    for limits in limits_within(used, deep, |n| if n == 0 { 0 } else { rng.u64(..n) }) {
        for mode in [Mode::Call, Mode::Gradient] {
            if let Outcome::Trap(trap) = loaded.run("main", &program.args, mode, &limits)?
                && let TrapKind::Limit(limit) = trap.kind
            {
                *counts.limits.entry(format!("{limit:?}")).or_default() += 1;
                if limit == Limit::Fuel && limits.fuel >= used.instructions && used.records > 0 {
                    return Err(format!("{mode:?}: out of fuel with as much as is used, {}", used.instructions));
                }
            }
        }
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
        // Where all terms underflow, one order of products may still be the smallest number there is.
        let nothing = |x: f64| x.abs() < 1e-300;
        let equal = if scale == 0.0 {
            expected == found || nothing(expected) && nothing(found)
        } else {
            (expected - found).abs() <= 1e-10 * scale + 1e-290
        };
        if !equal {
            return Err(format!("{what}, derivative {n}: expected {expected:e}, found {found:e} (terms of {scale:e})"));
        }
    }
    Ok(())
}

fn gradients(
    program: &Program,
    function: &Function,
    outcome: &Outcome,
    value: f64,
    steps: u64,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Result<(), String> {
    let inputs = flatten(&program.args).len();
    let found = outcome.gradient();
    match outcome {
        Outcome::Done { value: Value::Real(recorded), .. } if same(*recorded, value) => {}
        other => return Err(format!("value while recording: expected {value:e}, found {other:?}")),
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
    // Of a long run one derivative, picked at random; of a short one all.
    let chosen = if steps <= SHORT { None } else { Some(rng.usize(..inputs.max(1))) };
    for (n, &derivative) in found.iter().enumerate().filter(|(n, _)| chosen.is_none_or(|chosen| chosen == *n)) {
        let (result, _) = reference(program, |at, primal| Forward { primal, tangent: f64::from(u8::from(at == n)) })
            .map_err(|stop| format!("{stop:?}"))?;
        compare(
            "forward mode",
            &[result.tangent],
            &[derivative],
            &TapedGradient { gradient: Vec::new(), magnitude: vec![taped.magnitude[n]], ..taped },
        )?;
    }
    if steps <= SHORT {
        let (result, _) = reference(program, Naive::input).map_err(|stop| format!("{stop:?}"))?;
        if let Some(expected) = result.gradient(inputs, CALLS_MAX) {
            counts.naive += 1;
            compare("naive backpropagators", &expected, &found, &taped)?;
        }
    }
    // Differences see what derivatives are told not to see.
    let mut code = program.module.functions.iter().flat_map(|function| &function.body.code);
    let detaches = code.any(|inst| matches!(inst.op, Op::Detach | Op::PDetach));
    if inputs > 0 && program.tame && !detaches {
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

/// Checks the programs of many seeds. `DUALVM_SEEDS=n` runs n seeds instead of as many as the test says,
/// `DUALVM_FIRST_SEED=s` begins at another one. A failure prints seed and program.
pub(crate) fn check_seeds(what: &str, seeds: u64, make: impl Fn(u64) -> Program + Sync) -> Counts {
    on_a_deep_stack(|| check_seeds_here(what, seeds, &make))
}

/// Runs what asks the reference: that recurses as deep as programs, and so do its lists when they are dropped.
pub(crate) fn on_a_deep_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    const STACK_BYTES: usize = 1 << 30;
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, run).expect("a thread can be started");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn check_seeds_here(what: &str, seeds: u64, make: &dyn Fn(u64) -> Program) -> Counts {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(seeds);
    let mut counts = Counts::default();
    let mut engines = Engines::new();
    for seed in first..first + seeds {
        let program = make(seed);
        let check = || check(seed, &program, &mut engines, &mut counts);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        let outcome = outcome.unwrap_or_else(|_| Err("a panic".into()));
        if let Err(error) = outcome {
            let args: Vec<String> = program.args.iter().map(ToString::to_string).collect();
            panic!("seed {seed}, {what}: {error}\narguments: {}\n{}", args.join(", "), program.shown());
        }
    }
    println!("{what}, seeds {first}..{}: {counts:#?}", first + seeds);
    counts
}
