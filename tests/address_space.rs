//! Address space: how much of it runs take, and what happens where the system gives no more. It is limited in processes
//! of their own: the command, or one test of these run again.

#![cfg(target_os = "linux")]

#[path = "support/program.rs"]
mod program;

use dualvm::{Config, Engine, Jit, Limit, Module, TrapKind, TypedFunction};
use program::{Finished, Workspace};
use std::process::Command;
use std::sync::Barrier;

const SOURCE: &str = "
def squares (xs : Array Real) : Real = sum (map (\\x -> x * x) xs)

def deep (n : Int) (x : Real) : Real = if n == 0 then x else x + deep (n - 1) x

def tree (n : Int) (x : Real) : Real =
  if n == 0 then x * x
  else
    let (left, right) = tree (n - 1) x |*| tree (n - 1) (2 * x) in
    left + right
";

/// What a run says that needs more than the system gives, and where it was.
const REFUSED: &str = "trap: the system gives the run no more address space\n";

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
/// Says in the environment of a process that it is the limited one.
const LIMITED: &str = "DUALVM_TEST_LIMITED";

/// A program whose process may have so many KiB of address space.
fn limited(kib: u64, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v $0 && exec \"$@\"", &kib.to_string(), program]).args(args);
    command
}

/// Runs the test of this name again with so much address space, and expects it to pass.
#[track_caller]
fn again(test: &str, kib: u64) {
    let this = std::env::current_exe().expect("the test runs from a file");
    let this = this.to_str().expect("its path is UTF-8");
    let args = ["--exact", test, "--test-threads=1", "--nocapture"];
    let mut command = limited(kib, this, &args);
    // Else the allocator takes 64 MiB for each thread, if it is quick enough.
    command.env(LIMITED, "1").env("MALLOC_ARENA_MAX", "1");
    let output = command.output().expect("the test can be run again");
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

fn is_again() -> bool {
    std::env::var_os(LIMITED).is_some()
}

fn engine(jit: Jit, threads: usize) -> Engine {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    Engine::new(config)
}

fn module(engine: &Engine) -> Module {
    Module::from_source(engine, "space.dual", SOURCE).unwrap_or_else(|error| panic!("{error}"))
}

type Squares = TypedFunction<(Vec<f64>,), f64>;
type Recursion = TypedFunction<(i64, f64), f64>;

fn squares(module: &Module) -> Squares {
    module.function("squares").and_then(|f| f.typed()).unwrap_or_else(|error| panic!("{error}"))
}

fn recursion(module: &Module, name: &str) -> Recursion {
    module.function(name).and_then(|f| f.typed()).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_squares(f: &Squares) {
    let gradient = f.value_and_grad((vec![1.0, 2.0, 3.0],)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(gradient, (14.0, (vec![2.0, 4.0, 6.0],)));
}

#[track_caller]
fn assert_deep(f: &Recursion, n: i64) {
    let (value, (_, x_adj)) = f.value_and_grad((n, 0.5)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((value, x_adj), (0.5 * (n + 1) as f64, (n + 1) as f64));
}

/// A line of what the system says about this process, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or_else(|| panic!("{name}: {status}")) * KIB
}

#[test]
fn whatever_the_system_gives_a_call_has_its_result_or_says_what_is_missing() {
    let w = Workspace::new("address_space");
    w.write("space.dual", SOURCE);
    let calls: [(&str, &[&str], &str); 4] = [
        ("squares", &["[1, 2, 3]"], "value  = 14.0\n"),
        ("deep", &["100000", "0.5"], "value  = 50000.5\n"),
        ("deep", &["1900000", "0.5"], "value  = 950000.5\n"),
        ("tree", &["8", "0.5"], "value  = 97656.25\n"),
    ];
    let program = env!("CARGO_BIN_EXE_dualvm");
    let sizes =
        [20_000_000, 4_000_000, 2_000_000, 1_000_000, 500_000, 250_000, 125_000, 64_000, 48_000, 32_000, 16_000];
    for kib in sizes {
        let run = |args: &[&str]| w.finished(limited(kib, program, args));
        if run(&["--version"]).code != Some(0) {
            assert!(kib < 64_000, "the program starts");
            continue;
        }
        for (function, args, value) in calls {
            for jit in ["off", "always"] {
                let mut all = vec!["grad", "space.dual", function, "--jit", jit, "--threads", "2"];
                all.extend(args);
                let found = run(&all);
                let what = format!("{function}, --jit {jit}, {kib} KiB: {found:#?}");
                let Finished { code, stdout, stderr } = found;
                // `deep` takes as much as it gets.
                let enough = if function == "deep" { 2_000_000 } else { 250_000 };
                if kib >= enough {
                    assert_eq!(code, Some(0), "{what}");
                }
                match code {
                    Some(0) => assert!(stdout.starts_with(value) && stderr.is_empty(), "{what}"),
                    Some(1) => {
                        assert!(stderr.starts_with(REFUSED) && stderr.contains("ulimit -v"), "{what}");
                        // A sweep is outside of the program's code, and there is nothing to trace.
                        assert!(
                            !stderr.contains("  in ") || stderr.contains(&format!("  in {function} at ")),
                            "{what}"
                        );
                    }
                    _ => panic!("{what}"),
                }
            }
        }
    }
}

/// Sixteen arenas of 64 MiB don't fit, and one that is being asked for may leave nothing for the other threads.
#[test]
fn the_allocator_takes_no_arena_for_each_thread_of_the_command() {
    let w = Workspace::new("arenas");
    w.write("space.dual", SOURCE);
    for _ in 0..10 {
        let args = ["grad", "space.dual", "tree", "--jit", "always", "--threads", "16", "8", "0.5"];
        let Finished { code, stdout, stderr } = w.finished(limited(400_000, env!("CARGO_BIN_EXE_dualvm"), &args));
        assert!(code == Some(0) && stdout.starts_with("value  = 97656.25\n"), "{code:?} {stdout} {stderr}");
    }
}

#[test]
fn a_thousand_engines_that_have_run_hold_little() {
    let before = status("VmSize");
    let modules: Vec<Module> = (0..1000)
        .map(|_| {
            let module = module(&engine(Jit::Auto, 1));
            assert_squares(&squares(&module));
            assert_deep(&recursion(&module, "deep"), 1000);
            module
        })
        .collect();
    let held = status("VmSize") - before;
    assert!(held < 20 * GIB, "{} MiB each", (held >> 20) / 1000);
    // They still work, and take no more.
    modules.iter().for_each(|module| assert_squares(&squares(module)));
    assert!(status("VmSize") - before < 20 * GIB);
}

#[test]
fn sixty_four_threads_at_once_have_stacks_of_their_own() {
    let shared = module(&engine(Jit::Auto, 1));
    let barrier = Barrier::new(64);
    std::thread::scope(|scope| {
        for n in 0..64 {
            let (shared, barrier) = (&shared, &barrier);
            scope.spawn(move || {
                let own = module(&engine(Jit::Auto, 1));
                let module = if n % 2 == 0 { shared } else { &own };
                let (squares, deep) = (squares(module), recursion(module, "deep"));
                barrier.wait();
                for round in 1..4 {
                    assert_deep(&deep, 10_000 * round + n);
                    assert_squares(&squares);
                }
            });
        }
    });
}

#[test]
fn a_second_call_maps_nothing() {
    if !is_again() {
        return again("a_second_call_maps_nothing", u64::MAX >> 11);
    }
    let maps = || std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    for jit in [Jit::Off, Jit::Always] {
        let module = module(&engine(jit, 1));
        let (squares, deep) = (squares(&module), recursion(&module, "deep"));
        let run = || {
            assert_squares(&squares);
            assert_deep(&deep, 100_000);
        };
        run();
        run();
        let before = maps();
        (0..10).for_each(|_| run());
        assert_eq!(maps(), before, "{jit:?}");
    }
}

#[test]
fn what_deep_runs_took_is_there_for_the_next_engine_where_it_is_scarce() {
    const TEST: &str = "what_deep_runs_took_is_there_for_the_next_engine_where_it_is_scarce";
    const KIB_MAX: u64 = 1_000_000;
    if !is_again() {
        return again(TEST, KIB_MAX);
    }
    // Each has calls in 128 MiB of a stack.
    let modules: Vec<Module> = (0..20).map(|_| module(&engine(Jit::Always, 1))).collect();
    for module in modules.iter().chain(&modules) {
        let before = status("VmSize");
        assert_eq!(recursion(module, "deep").call((1_900_000, 0.5)).ok(), Some(950_000.5));
        println!("{} and {} KiB", before / KIB, status("VmSize") / KIB);
        assert_squares(&squares(module));
    }
}

#[test]
fn a_run_that_is_refused_stops_alone_and_its_engine_goes_on() {
    const TEST: &str = "a_run_that_is_refused_stops_alone_and_its_engine_goes_on";
    if !is_again() {
        return again(TEST, 250_000);
    }
    for (jit, threads) in [(Jit::Off, 1), (Jit::Always, 1), (Jit::Always, 2)] {
        let module = module(&engine(jit, threads));
        let (squares, deep, tree) = (squares(&module), recursion(&module, "deep"), recursion(&module, "tree"));
        for _ in 0..3 {
            let error = deep.value_and_grad((7_600_000, 0.5)).expect_err("there is not so much");
            let trap = error.trap().unwrap_or_else(|| panic!("{error}"));
            assert_eq!(trap.kind, TrapKind::Limit(Limit::AddressSpace), "{error}");
            assert_eq!(trap.innermost[0].function, "deep");
            assert_deep(&deep, 10_000);
            assert_squares(&squares);
            let (value, (_, x_adj)) = tree.value_and_grad((10, 0.5)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((value, x_adj), (0.25 * 5.0f64.powi(10), 5.0f64.powi(10)));
        }
    }
}
