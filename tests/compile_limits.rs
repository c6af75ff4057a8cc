//! Compiling to native code within the limits of a call: modules that are hard to compile, at sizes at which compiling
//! all of them would take seconds to hours and gigabytes, in calls that have a tenth of a second.
//!
//! An allocator that counts stands in for the system's.

mod support;

use dualvm::{CallOptions, Config, Engine, ErrorKind, Jit, Limits, Module, Value};
use dualvm_vm::module::ModuleDef;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};
use support::hostile;

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most that there were.
    static NOW: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: i64) {
    let now = NOW.get() + bytes;
    NOW.set(now);
    PEAK.set(PEAK.get().max(now));
}

// SAFETY: everything is passed on to the system's allocator as it comes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that `run` takes beyond what there was before.
fn peak(run: impl FnOnce()) -> i64 {
    let before = NOW.get();
    PEAK.set(before);
    run();
    PEAK.get() - before
}

const DEADLINE: Duration = Duration::from_millis(100);
/// How long a call may go on after its deadline: 10 ms and a twentieth.
const OVERRUN_MAX: Duration = Duration::from_millis(15);
/// Other processes take the processor away now and then.
const TRIES: usize = 25;
const CODE_BYTES: u64 = 4 << 20;
/// What compiling may take besides: the code, and the generator's own memory for the largest piece that it is given.
const COMPILER_BYTES: i64 = 16 << 20;

fn limits() -> Limits {
    Limits { deadline: Some(DEADLINE), code_bytes: CODE_BYTES, ..Limits::untrusted() }
}

fn load(def: &ModuleDef, jit: Jit) -> Option<Module> {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, 1);
    Module::new(&Engine::new(config), def.clone()).ok()
}

/// Calls `main`, or takes its gradient. Whatever stops it is a limit, if something does.
fn run(name: &str, module: &Module, n: i64, gradient: bool, limits: Limits) {
    let main = module.function("main").unwrap_or_else(|error| panic!("{name}: {error}"));
    let (args, options) = ([Value::Real(0.7), Value::Int(n)], CallOptions::with_limits(limits));
    let error =
        if gradient { main.value_and_grad_with(&args, &options).err() } else { main.call_with(&args, &options).err() };
    if let Some(error) = error {
        assert!(matches!(error.kind(), ErrorKind::Trap(_)), "{name}: {error}");
    }
}

/// A size at which the module is large, as far as such modules can be.
fn large(family: &hostile::Family) -> Option<(usize, ModuleDef)> {
    const INSTRUCTIONS_MAX: usize = 40_000;
    let mut found = None;
    for size in [8, 64, 512].map(|factor| family.small * factor) {
        let def = (family.make)(size);
        let instructions = def.functions.iter().map(|function| function.body.code.len()).sum::<usize>();
        if instructions > INSTRUCTIONS_MAX || load(&def, Jit::Off).is_none() {
            break;
        }
        found = Some((size, def));
        if 8 * instructions > INSTRUCTIONS_MAX {
            break;
        }
    }
    found
}

#[test]
fn hard_modules_end_at_their_deadline_whatever_is_compiled() {
    let mut found = 0;
    for family in hostile::ALL {
        let Some((size, def)) = large(family) else { continue };
        found += 1;
        for jit in [Jit::Auto, Jit::Always] {
            for (n, gradient) in [(0, false), (0, true), (3, false), (3, true)] {
                let name = format!("{} of size {size}, {jit:?}, n = {n}, gradient: {gradient}", family.name);
                let late = (0..TRIES).find_map(|_| {
                    // A new one: what an earlier call has compiled is there.
                    let module = load(&def, jit).expect("it was accepted before");
                    let began = Instant::now();
                    run(&name, &module, n, gradient, limits());
                    let late = began.elapsed().saturating_sub(DEADLINE);
                    let bytes: u64 = module.compiled().iter().map(|code| code.bytes as u64).sum();
                    assert!(bytes <= CODE_BYTES, "{name}: {bytes} bytes of code");
                    assert!(module.compile_failures().is_empty(), "{name}: {:?}", module.compile_failures());
                    (late <= OVERRUN_MAX).then_some(())
                });
                assert!(late.is_some(), "{name}: goes on after its deadline");
            }
        }
    }
    assert!(found > hostile::ALL.len() - 3, "only {found} families were large enough");
}

#[test]
fn hard_modules_take_little_more_memory_than_interpreted() {
    for family in hostile::ALL {
        let Some((size, def)) = large(family) else { continue };
        for (n, gradient) in [(0, true), (3, true)] {
            let name = format!("{} of size {size}, n = {n}", family.name);
            // Fuel in place of a deadline, so that all do the same.
            let limits = Limits { fuel: 1_000_000, deadline: None, ..limits() };
            let [interpreted, native] = [Jit::Off, Jit::Always].map(|jit| {
                peak(|| run(&name, &load(&def, jit).expect("it was accepted before"), n, gradient, limits.clone()))
            });
            let more = native - interpreted;
            assert!(more <= COMPILER_BYTES, "{name}: {more} bytes more than the interpreter's {interpreted}");
        }
    }
}

#[test]
fn a_call_compiles_no_more_than_it_may() {
    let def = hostile::small_functions(2000);
    let compiled = |limits: Limits| {
        let module = load(&def, Jit::Always).expect("it is valid");
        run("small functions", &module, 0, false, Limits { deadline: None, ..limits });
        let code = module.compiled();
        (code.iter().map(|code| code.bytes as u64).sum::<u64>(), code.iter().map(|code| code.time).sum::<Duration>())
    };
    let (all, all_time) = compiled(Limits::default());
    assert!(all > 0);
    assert_eq!(compiled(Limits { compile_time: Duration::ZERO, ..Limits::default() }).0, 0);
    // What counts is memory: whole pages.
    let (half, _) = compiled(Limits { code_bytes: all / 2, ..Limits::default() });
    assert!(half <= all / 2 && half > 0, "{half} of {all} bytes");
    let (part, time) = compiled(Limits { compile_time: all_time / 4, ..Limits::default() });
    assert!(part < all && time < all_time, "{part} of {all} bytes in {time:?} of {all_time:?}");
}

/// What a generator of code writes: thousands of conditional definitions, then their sum.
#[test]
fn long_functions_of_ordinary_source_run_at_once() {
    for family in hostile::sources::ALL.iter().filter(|family| ["selections", "branches"].contains(&family.name)) {
        let text = (family.write)(1500);
        for gradient in [false, true] {
            let time = |jit| {
                let times = (0..3).map(|_| {
                    let mut config = Config::default();
                    (config.jit, config.threads) = (jit, 1);
                    let module = Module::from_source(&Engine::new(config), "long.dual", &text);
                    let module = module.unwrap_or_else(|error| panic!("{error}"));
                    let began = Instant::now();
                    run("long", &module, 3, gradient, Limits::default());
                    began.elapsed()
                });
                times.min().expect("three tries")
            };
            let (interpreted, native) = (time(Jit::Off), time(Jit::Auto));
            let allowed = 4 * interpreted + Duration::from_millis(50);
            assert!(native < allowed, "{}: {native:?}, interpreted {interpreted:?}", family.name);
        }
    }
}
