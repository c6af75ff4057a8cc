//! Random programs in the interpreter: on one thread and on several, on a new engine and on one in use, and with so
//! little memory that the heap is evacuated all the time, they come to the same.
//!
//! `tests/random_programs.rs` of the workspace checks more, and native code. These are programs for tools that are too
//! slow for that or know no native code, Miri and the thread sanitizer above all: see `.ci/sanitize`.
//! `DUALVM_SEEDS=n` runs n seeds of each style, `DUALVM_FIRST_SEED=s` begins at another one.

#[path = "../../tests/support"]
#[allow(dead_code, reason = "the workspace's tests use more of it")]
mod programs {
    pub(crate) mod dice;
    pub(crate) mod generate;
}

use dualvm_vm::engine::{CallOptions, Config, Engine, Function, Jit, Limits, Module, RunError, Stats};
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use programs::generate::{Program, Style, program};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;

/// Seeds of each style, and instructions of a run.
const SEEDS: u64 = if cfg!(miri) { 12 } else { 60 };
const FUEL: u64 = if cfg!(miri) { 1_500 } else { 50_000 };

/// A heap of so many bytes is evacuated early.
const SMALL_HEAP: u64 = 400_000;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number: {text:?}")))
}

/// An engine that interprets, with the threads of a pool if there is one.
fn engine(pool: Option<&Arc<ThreadPool>>) -> Engine {
    let mut config = Config::default();
    (config.jit, config.threads, config.pool) = (Jit::Off, 1, pool.cloned());
    Engine::new(config)
}

fn main_of(engine: &Engine, program: &Program) -> Function {
    let module = Module::new(engine, program.module.clone()).unwrap_or_else(|errors| panic!("{}", errors[0]));
    module.function("main").expect("every generated module has `main`")
}

/// All that a run is to agree on, as text; NaN is one value. `None` if it ran out of the memory that it may hold, which
/// depends on where it stood then.
fn shown<T: std::fmt::Debug>(outcome: Result<(T, Stats), RunError>) -> Option<String> {
    match outcome {
        Err(RunError::Trap(trap)) if trap.kind == TrapKind::Limit(Limit::LiveBytes) => None,
        Ok((value, stats)) => {
            let Stats { instructions, records, slots, allocated_bytes, tasks, imports, span, .. } = stats;
            let counts = (instructions, records, slots, allocated_bytes, tasks, imports, span);
            Some(format!("{value:?} {counts:?}"))
        }
        Err(error) => Some(format!("{error:?}")),
    }
}

/// Value, gradient and Jacobian.
fn run(function: &Function, args: &[Value], limits: &Limits) -> [Option<String>; 3] {
    let options = CallOptions::with_limits(limits.clone());
    [
        shown(function.call_with(args, &options)),
        shown(function.value_and_grad_with(args, &options).map(|found| ((found.value, found.gradient), found.stats))),
        shown(function.jacobian_with(args, &options).map(|found| ((found.value, found.rows), found.stats))),
    ]
}

/// Checks programs on engines in use: one without threads, or one with a pool of so many. It runs on a thread of the
/// pool, because what others have done on behalf of this one is then ordered before what follows by atomics alone, not
/// by locks and conditions of a standard library that the thread sanitizer may not see into.
fn check(style: Style, threads: usize) {
    if threads == 1 {
        return check_on(style, &engine(None));
    }
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started"));
    let engine = engine(Some(&pool));
    pool.install(|| check_on(style, &engine));
}

fn check_on(style: Style, used: &Engine) {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(SEEDS);
    let limits = Limits { fuel: FUEL, depth: 200, ..Limits::default() };
    let small = Limits { live_bytes: SMALL_HEAP, ..limits.clone() };
    let mut came_to_an_end = 0;
    for seed in first..first + seeds {
        let program = program(seed, style);
        let function = main_of(used, &program);
        // To make streams again takes Miri longer than to run them.
        let expected = if cfg!(miri) {
            run(&function, &program.args, &limits)
        } else {
            run(&main_of(&engine(None), &program), &program.args, &limits)
        };
        assert!(expected.iter().all(Option::is_some), "{style:?}, seed {seed}: 4 GiB are not enough");
        came_to_an_end += u64::from(expected[0].as_ref().is_some_and(|text| text.contains("Real")));
        for limits in [&limits, &small].into_iter().skip(usize::from(cfg!(miri))) {
            let found = run(&function, &program.args, limits);
            for (found, expected) in found.iter().zip(&expected) {
                let (same, threads) = (found.is_none() || found == expected, used.threads());
                assert!(same, "{style:?}, seed {seed}, {threads} threads: {found:?}, expected {expected:?}");
            }
        }
    }
    assert!(seeds < 8 || came_to_an_end * 4 > seeds, "{style:?}: {came_to_an_end} of {seeds} programs came to an end");
}

#[test]
fn tame_programs_come_to_the_same() {
    check(Style::Tame, 1);
}

#[test]
fn wild_programs_come_to_the_same() {
    check(Style::Wild, 1);
}

#[test]
#[cfg_attr(miri, ignore = "they are about thousands of instructions")]
fn long_programs_come_to_the_same() {
    check(Style::Long, 1);
}

#[test]
fn wasteful_programs_come_to_the_same() {
    check(Style::Wasteful, 1);
}

#[test]
fn programs_with_loops_come_to_the_same() {
    check(Style::Loops, 1);
}

#[test]
fn recursive_programs_come_to_the_same() {
    check(Style::Recursive, 1);
}

#[test]
fn programs_on_data_come_to_the_same() {
    check(Style::Data, 1);
}

#[test]
fn parallel_programs_come_to_the_same_on_one_thread() {
    check(Style::Parallel, 1);
}

#[test]
fn parallel_programs_come_to_the_same_on_several_threads() {
    check(Style::Parallel, 2);
    check(Style::Parallel, 3);
}
