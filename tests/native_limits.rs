//! Native code at its limits: the errors that the interpreter gives, at the same places, on stacks that are bounded,
//! and memory that goes back. All of this is measured, or done by a host; what the programs give is in their file.

mod support;

use dualvm_jit::Cranelift;
use dualvm_vm::engine::{CallOptions, CancelHandle, Config, Engine, Function, Jit, Limits, Module, RunError};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::native::{CodeKind, Mode, Refusal, Thresholds};
use dualvm_vm::trap::{Limit, Trap, TrapKind};
use dualvm_vm::value::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{assemble, assert_limit, export_all, load_into, trap};

/// A loop of sines; recursion; objects that pass and objects that stay; what never ends; functions that call each
/// other.
const PROGRAMS: &str = include_str!("filetests/calls/programs_of_every_kind_end_or_run_out_of_fuel.dvs");

fn after(calls: u32, back_edges: u32, records: u32) -> Jit {
    Jit::After(Thresholds { calls, back_edges, records })
}

/// All native; native and interpreted code calling each other; loops that are entered in the middle; the default.
fn native() -> [(&'static str, Jit); 4] {
    [
        ("always", Jit::Always),
        ("mixed", after(2, u32::MAX, 3)),
        ("loops", after(u32::MAX - 1, 3, u32::MAX - 1)),
        ("auto", Jit::Auto),
    ]
}

fn engine(jit: Jit) -> Engine {
    let mut config = Config::default();
    config.jit = jit;
    config.generator = Some(Arc::new(Cranelift));
    Engine::new(config)
}

fn def() -> ModuleDef {
    let mut def = assemble(PROGRAMS);
    export_all(&mut def);
    def
}

fn load(jit: Jit) -> Module {
    load_into(&engine(jit), def())
}

fn get(module: &Module, name: &str) -> Function {
    module.function(name).unwrap_or_else(|| panic!("no function {name}"))
}

fn args(x: f64, n: i64) -> [Value; 2] {
    [Value::Real(x), Value::Int(n)]
}

fn with(limits: Limits) -> CallOptions {
    CallOptions::with_limits(limits)
}

fn run(f: &Function, args: &[Value], options: &CallOptions, recording: bool) -> Result<(f64, u64), RunError> {
    if recording {
        return f.value_and_grad_with(args, options).map(|found| (found.value, found.stats.instructions));
    }
    match f.call_with(args, options)? {
        (Value::Real(value), stats) => Ok((value, stats.instructions)),
        other => panic!("{other:?}"),
    }
}

/// Asserts that functions were compiled, all that were asked for.
fn assert_compiled(module: &Module) {
    assert_eq!(module.compile_failures(), [""; 0]);
    assert!(!module.compiled().is_empty());
}

/// The programs that end, with a number of rounds.
const ENDING: [(&str, i64); 7] = [
    ("sines", 70_000),
    ("deep", 300),
    ("boxes", 5000),
    ("list", 3000),
    ("even", 201),
    ("ping", 5001),
    ("closures", 3000),
];

/// Asserts that runs with these limits end as the interpreter's do, at the same place.
fn assert_same_stops(name: &str, n: i64, limits: &[Limits], limit: Limit) {
    let interpreted = load(Jit::Off);
    let f = get(&interpreted, name);
    let mut stops: Vec<(&Limits, bool, Trap)> = Vec::new();
    for limits in limits {
        for recording in [false, true] {
            if let Err(error) = run(&f, &args(0.5, n), &with(limits.clone()), recording) {
                stops.push((limits, recording, assert_limit::<()>(Err(error), limit)));
            }
        }
    }
    assert!(!stops.is_empty(), "{name}");
    for (tier, jit) in native() {
        let module = load(jit);
        let f = get(&module, name);
        for (limits, recording, expected) in &stops {
            for _ in 0..2 {
                let found = trap(run(&f, &args(0.5, n), &with((*limits).clone()), *recording));
                assert_eq!(&found, expected, "{name}, {tier}, {limits:?}, recording: {recording}");
            }
        }
        assert_eq!(module.compile_failures(), [""; 0]);
    }
}

#[test]
fn fuel_runs_out_at_the_same_instruction() {
    for (name, n) in ENDING {
        let module = load(Jit::Off);
        let f = get(&module, name);
        let mut all = Vec::new();
        for recording in [false, true] {
            let expected = run(&f, &args(0.5, n), &CallOptions::default(), recording).unwrap();
            let used = expected.1;
            for (tier, jit) in native() {
                let module = load(jit);
                let native = get(&module, name);
                for _ in 0..2 {
                    let exact = with(Limits { fuel: used, ..Limits::default() });
                    let found = run(&native, &args(0.5, n), &exact, recording).unwrap();
                    assert_eq!((found.0.to_bits(), found.1), (expected.0.to_bits(), used), "{name}, {tier}");
                }
            }
            all.extend([used - 1, used - 2, used - 3, used - 4, used / 2, used / 2 + 1, used / 2 + 2, 65_536, 65_537]);
            all.extend([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, 101, 102]);
        }
        let limits: Vec<Limits> = all.into_iter().map(|fuel| Limits { fuel, ..Limits::default() }).collect();
        assert_same_stops(name, n, &limits, Limit::Fuel);
    }
}

#[test]
fn allocation_and_tape_run_out_at_the_same_instruction() {
    for (name, n) in [("boxes", 5000), ("list", 5000), ("even", 300), ("closures", 5000)] {
        let f = get(&load(Jit::Off), name);
        let used = f.call_with(&args(0.5, n), &CallOptions::default()).unwrap().1.allocated_bytes;
        let limits = [0, 1, 16, 24, 100, used / 3, used / 2 + 8, used - 8, used - 1]
            .map(|allocated_bytes| Limits { allocated_bytes, ..Limits::default() });
        assert_same_stops(name, n, &limits, Limit::AllocatedBytes);
    }
    for (name, n) in [("sines", 200_000), ("deep", 50_000), ("boxes", 50_000), ("even", 50_000)] {
        let f = get(&load(Jit::Off), name);
        let stats = f.value_and_grad_with(&args(0.5, n), &CallOptions::default()).unwrap().stats;
        let used = stats.tape_bytes;
        let limits = [0, 8, 100, 65_536, 65_537, 1 << 18, used / 2, used - 1]
            .map(|tape_bytes| Limits { tape_bytes, ..Limits::default() });
        assert_same_stops(name, n, &limits, Limit::TapeBytes);
    }
}

#[test]
fn live_bytes_bound_objects_and_stacks() {
    let small = with(Limits { live_bytes: 1 << 20, ..Limits::default() });
    for (tier, jit) in native() {
        let module = load(jit);
        for _ in 0..2 {
            for recording in [false, true] {
                for (name, n) in [("list", 1_000_000), ("deep", 1_000_000), ("even", 500_000)] {
                    let outcome = run(&get(&module, name), &args(0.5, n), &small, recording);
                    let trap = assert_limit(outcome, Limit::LiveBytes);
                    assert!(!trap.innermost.is_empty(), "{name}, {tier}");
                }
                run(&get(&module, "boxes"), &args(0.5, 1_000_000), &small, recording).unwrap();
                run(&get(&module, "deep"), &args(0.5, 500), &small, recording).unwrap();
            }
        }
        // Not even the first frame has room.
        for live_bytes in [0, 1, 1000, 5000, 70_000] {
            let tiny = with(Limits { live_bytes, ..Limits::default() });
            for recording in [false, true] {
                let outcome = run(&get(&module, "deep"), &args(0.5, 1_000_000), &tiny, recording);
                let trap = assert_limit(outcome, Limit::LiveBytes);
                assert!(!trap.innermost.is_empty(), "{tier}, {live_bytes}");
            }
        }
        assert_eq!(get(&module, "deep").call(&args(0.5, 1)).unwrap(), Value::Real(1.0));
    }
}

#[test]
fn deadlines_and_cancellation_end_native_loops() {
    for (tier, jit) in native() {
        let module = load(jit);
        for name in ["forever", "forever_in_turns"] {
            let f = get(&module, name);
            for recording in [false, true] {
                let began = Instant::now();
                let options = with(Limits {
                    deadline: Some(Duration::from_millis(20)),
                    tape_bytes: u64::MAX,
                    ..Limits::default()
                });
                let outcome = match recording {
                    // What is constant leaves no tape behind, so that only time can be the limit.
                    true => f.jacobian_with(&[Value::Real(1.0)], &options).map(|_| ()),
                    false => f.call_with(&[Value::Real(1.0)], &options).map(|_| ()),
                };
                let stopped = trap(outcome);
                let TrapKind::Limit(limit) = stopped.kind else { panic!("{stopped}") };
                assert!(limit == Limit::Deadline, "{name}, {tier}: {stopped}");
                assert!(began.elapsed() < Duration::from_secs(1), "{name}, {tier}: {:?}", began.elapsed());

                let handle = CancelHandle::new();
                let options = CallOptions::default().cancelled_by(&handle);
                let cancelled = std::thread::scope(|scope| {
                    let run = scope.spawn(|| match recording {
                        true => f.value_and_grad_with(&[Value::Real(1.0)], &options).map(|_| ()),
                        false => f.call_with(&[Value::Real(1.0)], &options).map(|_| ()),
                    });
                    std::thread::sleep(Duration::from_millis(20));
                    handle.cancel();
                    let began = Instant::now();
                    let outcome = run.join().expect("a run doesn't panic");
                    assert!(began.elapsed() < Duration::from_secs(1), "{name}, {tier}: {:?}", began.elapsed());
                    outcome
                });
                assert_eq!(trap(cancelled).kind, TrapKind::Cancelled, "{name}, {tier}");
            }
        }
    }
}

/// The module in which a function is so long that compiling it takes more than 20 ms.
fn with_long(name: &str) -> ModuleDef {
    let filling = "  neg r0, r0\n".repeat(30_000);
    let head = format!("func \"{name}\"");
    let (before, rest) = PROGRAMS.split_once(&head).expect("there is such a function");
    // At `done` the number is zero.
    let done = format!("done:\n  branch i0, never, out\nnever:\n{filling}  jump out\nout:\n");
    let rest = rest.replacen("done:\n", &done, 1);
    let mut def = assemble(&format!("{before}{head}{rest}"));
    export_all(&mut def);
    def
}

#[test]
fn native_and_interpreted_code_call_each_other() {
    let deep = args(0.5, 100_000);
    for def in [def(), with_long("odd"), with_long("even")] {
        let interpreted = load_into(&engine(Jit::Off), def.clone());
        let expected = run(&get(&interpreted, "even"), &deep, &CallOptions::default(), true).unwrap();
        for (tier, jit) in native() {
            let def = def.clone();
            let module = load_into(&engine(jit), def);
            let f = get(&module, "even");
            for _ in 0..3 {
                assert_eq!(run(&f, &deep, &CallOptions::default(), false).unwrap().0, expected.0, "{tier}");
                assert_eq!(run(&f, &deep, &CallOptions::default(), true).unwrap(), expected, "{tier}");
            }
            assert_eq!(module.compile_failures(), [""; 0]);
        }
    }
    // How long a piece may take depends on how much time there is.
    for (compile_time, compiles_odd) in [(Duration::from_millis(500), false), (Duration::from_secs(60), true)] {
        let module = load_into(&engine(Jit::Always), with_long("odd"));
        let limits = Limits { compile_time, ..Limits::default() };
        run(&get(&module, "even"), &deep, &CallOptions::with_limits(limits), true).unwrap();
        let compiled =
            |name: &str| module.compiled().iter().any(|code| code.name == name && code.kind != CodeKind::Adjoint);
        assert_eq!((compiled("even"), compiled("odd")), (true, compiles_odd));
    }
}

#[test]
fn tail_calls_take_no_stack() {
    let small = with(Limits { live_bytes: 9 << 20, ..Limits::default() });
    for (tier, jit) in native() {
        for (def, long) in
            [(def(), "nothing"), (with_long("ping"), "ping"), (with_long("pong"), "pong"), (with_long("step"), "step")]
        {
            let module = load_into(&engine(jit), def);
            for (name, n) in [("ping", 1_000_001), ("closures", 1_000_001)] {
                let f = get(&module, name);
                for recording in [false, true, false] {
                    let outcome = run(&f, &args(0.5, n), &small, recording);
                    let (value, _) = outcome.unwrap_or_else(|error| panic!("{name}, {tier}, {long} is long: {error}"));
                    assert_eq!(value, -0.5, "{name}, {tier}");
                }
            }
            assert_eq!(module.compile_failures(), [""; 0]);
        }
    }
}

#[test]
fn threads_run_and_compile_the_same_module() {
    let expected: Vec<(f64, u64)> = ENDING
        .map(|(name, n)| run(&get(&load(Jit::Off), name), &args(0.5, n), &CallOptions::default(), true).unwrap())
        .into();
    for (tier, jit) in native() {
        let module = load(jit);
        std::thread::scope(|scope| {
            for first in 0..8 {
                let (module, expected) = (&module, &expected);
                scope.spawn(move || {
                    for at in (0..3 * ENDING.len()).map(|at| (at + first) % ENDING.len()) {
                        let (name, n) = ENDING[at];
                        let found = run(&get(module, name), &args(0.5, n), &CallOptions::default(), true).unwrap();
                        let (value, used) = expected[at];
                        assert_eq!((found.0.to_bits(), found.1), (value.to_bits(), used), "{name}, {tier}");
                    }
                });
            }
        });
        assert_compiled(&module);
    }
}

/// Pages of address space and of memory that the process has.
#[cfg(target_os = "linux")]
fn pages() -> (u64, u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let mut fields = statm.split_whitespace().map(|field| field.parse().expect("a number"));
    (fields.next().expect("address space"), fields.next().expect("memory"))
}

/// In a process of its own: other tests take memory, too.
#[test]
#[cfg(target_os = "linux")]
fn code_goes_back_with_its_module() {
    const INSIDE: &str = "DUALVM_NATIVE_LIMITS_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let this = std::env::current_exe().expect("the test has a file");
        let inside = std::process::Command::new(this)
            .args(["--exact", "code_goes_back_with_its_module", "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .expect("the test can be started");
        assert!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stdout));
        return;
    }
    let shared = engine(Jit::Always);
    let mut before = (0, 0);
    for time in 0..1000 {
        // Every other one on an engine of its own.
        let engine = if time % 2 == 0 { shared.clone() } else { engine(Jit::Always) };
        let module = load_into(&engine, def());
        let f = get(&module, ["sines", "boxes", "even", "closures"][time % 4]);
        f.value_and_grad(&args(0.5, 10)).unwrap();
        f.call(&args(0.5, 10)).unwrap();
        assert_compiled(&module);
        if time == 100 {
            before = pages();
        }
    }
    let (space, memory) = pages();
    let grown = (4 * space.saturating_sub(before.0), 4 * memory.saturating_sub(before.1));
    println!("900 modules: {} kB of address space, {} kB of memory", grown.0, grown.1);
    assert!(grown.0 < 64 << 10 && grown.1 < 8 << 10, "kB grown by: {grown:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn no_memory_is_writable_and_executable() {
    let module = load(Jit::Always);
    for (name, n) in ENDING {
        get(&module, name).value_and_grad(&args(0.5, n)).unwrap();
        get(&module, name).call(&args(0.5, n)).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells");
        for line in maps.lines() {
            let rights = line.split_whitespace().nth(1).expect("a mapping has rights");
            assert!(!(rights.contains('w') && rights.contains('x')), "{line}");
        }
    }
    assert_compiled(&module);
}

#[test]
fn what_is_interpreted_is_what_counts() {
    // The way through six tests is what calls take, though code alone would say that one in 64 does.
    let tests: String = (0..6).map(|n| format!("  branch i0, on{n}, out\non{n}:\n  neg r0, r0\n")).collect();
    let long = "  neg r0, r0\n".repeat(500);
    let head = |name: &str| format!("func \"{name}\" (real, int) -> (real)\n  regs 1 real, 1 int\n{{\n");
    let (f, g) = (head("f"), head("g"));
    let rest = "  jump out\nout:\n  ret (r0)\n}\n";
    let leaf = format!("{f}{tests}{long}{rest}");
    let calling = format!("{f}{tests}{long}  call \"g\" (r0, i0) -> (r0)\n{rest}{g}  ret (r0)\n}}\n");
    for code in [leaf, calling] {
        let mut def = assemble(&code);
        export_all(&mut def);
        let module = load_into(&engine(Jit::Auto), def);
        let f = get(&module, "f");
        let mut instructions = 0;
        let compiled = loop {
            instructions += run(&f, &args(0.5, 1), &CallOptions::default(), false).unwrap().1;
            if let Some(code) = module.compiled().into_iter().find(|code| code.name == "f") {
                break code;
            }
            assert!(instructions < 100_000_000, "it is never compiled");
        };
        // 2 ns for each, and some time for what a first compilation makes; not 64 times as long.
        let interpreting = Duration::from_nanos(2 * instructions);
        let due = compiled.estimate + Duration::from_millis(2);
        assert!(interpreting >= compiled.estimate && interpreting < 3 * due, "{interpreting:?}, {due:?}");
    }
}

/// Both modes of every function, and the adjoints of those that run on small arguments.
#[test]
fn every_example_is_compiled() {
    let (mut functions, mut gradients) = (0, 0);
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).expect("there are examples") {
        let path = entry.expect("an example").path();
        let text = std::fs::read(&path).expect("examples can be read");
        let mut config = Config::default();
        config.jit = Jit::Always;
        let module = dualvm::Module::load(&Engine::new(config), &path.display().to_string(), &text)
            .unwrap_or_else(|error| panic!("{error}"));
        let def = module.def().clone();
        let module = load_into(&engine(Jit::Always), def.clone());
        assert!(module.native_listing(dualvm_vm::module::FuncId(u32::MAX), Mode::PRIMAL).is_none());
        for n in 0..def.functions.len() as u32 {
            for mode in [Mode::PRIMAL, Mode::RECORDING] {
                let listing = module.native_listing(dualvm_vm::module::FuncId(n), mode).expect("there is native code");
                match listing {
                    Ok(_) => functions += 1,
                    // Eight products of matrices in a loop: the interpreter records it.
                    Err(Refusal::TooLarge) if path.ends_with("lstm.dual") => {}
                    Err(refusal) => panic!("{}, {n}: {refusal}", path.display()),
                }
            }
        }
        for function in module.functions() {
            let mut dice = support::dice::Dice::with_seed(7);
            let params = &function.interface().params;
            let args: Option<Vec<Value>> =
                params.iter().map(|(_, ty)| support::bytes::argument(ty, &def.data, &mut dice, 0)).collect();
            let Some(args) = args else { continue };
            // Some of them iterate until they have converged, which such arguments may never do.
            let options = with(Limits { fuel: 1_000_000, ..Limits::default() });
            let _ = function.call_with(&args, &options);
            gradients += u32::from(function.jacobian_with(&args, &options).is_ok());
        }
        assert_eq!(module.compile_failures(), [""; 0], "{}", path.display());
    }
    println!("{functions} functions, {gradients} Jacobians");
    assert!(gradients >= 15, "{gradients}");
}
