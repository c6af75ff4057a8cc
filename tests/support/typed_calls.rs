//! Engines on which typed calls must agree, and what a call has used.

use dualvm::{Config, Engine, Function, Jit, Module, Stats};

/// One that interprets, and two that compile everything, with and without threads.
pub(crate) fn engines() -> Vec<Engine> {
    let engine = |(jit, threads)| Engine::new(Config::default().with_jit(jit).with_threads(threads));
    [(Jit::Off, 1), (Jit::Always, 1), (Jit::Always, 3)].into_iter().map(engine).collect()
}

/// A function of a program.
pub(crate) fn function_of(program: &str, engine: &Engine, name: &str) -> Function {
    let module = Module::from_source(engine, "typed.dual", program).unwrap_or_else(|error| panic!("{error}"));
    module.function(name).unwrap_or_else(|error| panic!("{error}"))
}

/// All that a run has used but times, and but live memory: objects may be made in another order.
pub(crate) fn used(stats: &Stats) -> [u64; 7] {
    let Stats { instructions, records, slots, tape_bytes, allocated_bytes, tasks, span, .. } = *stats;
    [instructions, records, slots, tape_bytes, allocated_bytes, tasks, span]
}
