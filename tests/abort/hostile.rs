//! All that is hard to compile and to run, in a program in which a panic is the end of the process. Nothing may panic
//! in there: a host that is built so couldn't catch it. `cargo test` builds for unwinding whatever a profile says, so
//! this is an example:
//!
//!     cargo run --profile abort --example hostile
//!
//! With debug assertions on, Cranelift checks what it is given.

#[path = "../support/mod.rs"]
mod support;

use support::engines::Engines;
use support::panics::HostHook;
use support::watchdog::Watchdog;
use support::{from_environment, unexpected};

fn main() {
    let mutants = from_environment("DUALVM_SEEDS").unwrap_or(400);
    let watchdog = Watchdog::new();
    let hook = HostHook::set();
    let count = unexpected::run_all(mutants, &watchdog, &mut Engines::all()).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    });
    hook.check();
    let built = if cfg!(panic = "abort") { "abort" } else { "unwind" };
    let checked = if cfg!(debug_assertions) { "with" } else { "without" };
    println!("{count} modules ran alike on all engines: panic = \"{built}\", {checked} Cranelift's verifier");
}
