//! Limits of the compiler: what it stops for, how soon, and what it holds until then; and that it has no need of them
//! for programs that are long and otherwise harmless.

#[path = "../../tests/support/hostile/sources.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use what this one does not")]
mod sources;

use dualvm_frontend::{CompileLimits, CompileOptions, Compiled, Diagnostics, Stopped, compile_with};
use dualvm_vm::engine::CancelHandle;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Counts what each thread holds.
struct Counting;

#[derive(Clone, Copy)]
struct Held {
    now: isize,
    peak: isize,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { now: 0, peak: 0 }) };
}

fn count(bytes: isize) {
    HELD.with(|held| {
        let now = held.get().now + bytes;
        held.set(Held { now, peak: held.get().peak.max(now) });
    });
}

// SAFETY: all that it does is what the system's allocator does, and count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above; every block is the system allocator's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Compiles, and says how many bytes were held at most.
fn held_by(text: &str, options: &CompileOptions) -> (Result<Compiled, Diagnostics>, u64) {
    let before = HELD.get().now;
    HELD.set(Held { now: before, peak: before });
    let result = compile_with("held.dual", text, options);
    (result, u64::try_from(HELD.get().peak - before).expect("a peak is no valley"))
}

fn compile_within(limits: CompileLimits, text: &str) -> Result<Compiled, Diagnostics> {
    compile_with("limited.dual", text, &CompileOptions::with_limits(limits))
}

#[test]
fn each_limit_says_its_name_the_place_and_what_helps() {
    let text = sources::long_sum(1_000);
    let default = CompileLimits::default();
    let cases = [
        (
            CompileLimits { source_bytes: 100, ..default.clone() },
            Stopped::SourceBytes,
            "the limit `source_bytes` is 100",
        ),
        (
            CompileLimits { syntax_nodes: 100, ..default.clone() },
            Stopped::SyntaxNodes,
            "the limit `syntax_nodes` is 100",
        ),
        (CompileLimits { type_nodes: 10, ..default.clone() }, Stopped::TypeNodes, "the limit `type_nodes` is 10"),
        (CompileLimits { code_nodes: 100, ..default.clone() }, Stopped::CodeNodes, "the limit `code_nodes` is 100"),
        (CompileLimits { memory_bytes: 99_999, ..default.clone() }, Stopped::MemoryBytes, "`memory_bytes` is 99999"),
        (CompileLimits { deadline: Some(Duration::ZERO), ..default }, Stopped::Deadline, "the limit `deadline` is 0ns"),
    ];
    for (limits, stopped, note) in cases {
        let errors = compile_within(limits, &text).unwrap_err();
        assert_eq!((errors.stopped(), errors.list().len()), (Some(stopped), 1));
        let message = errors.to_string();
        assert!(message.contains(note) && message.contains("= help: "), "{message}");
        assert!(stopped == Stopped::SourceBytes || message.contains("limited.dual:"), "{message}");
        assert!(message.len() < 1_000, "{message}");
    }
    let errors = compile_within(CompileLimits::default(), "def f = y").unwrap_err();
    assert_eq!(errors.stopped(), None);
}

#[test]
fn texts_are_as_long_as_the_limit_and_no_longer() {
    let text = "def f (x : Real) = x";
    let of = |source_bytes| CompileLimits { source_bytes, ..CompileLimits::untrusted() };
    assert!(compile_within(of(text.len()), text).is_ok());
    assert_eq!(compile_within(of(text.len() - 1), text).unwrap_err().stopped(), Some(Stopped::SourceBytes));
}

/// Texts of all families, of growing sizes, none longer than 256 KiB.
fn hostile_texts(mut visit: impl FnMut(&str, String)) {
    for family in sources::ALL {
        let mut size = family.small;
        loop {
            let text = (family.write)(size);
            if text.len() > 256 << 10 {
                break;
            }
            visit(&format!("{} of size {size}", family.name), text);
            size *= 4;
        }
    }
}

#[test]
fn no_more_is_held_than_the_limit_on_memory() {
    // What a program that needs nothing holds.
    const BASE_BYTES: u64 = 256 << 10;
    let mut stopped = 0;
    hostile_texts(|name, text| {
        let memory_bytes = 4 << 20;
        let limits = CompileLimits { memory_bytes, ..CompileLimits::default() };
        let (result, held) = held_by(&text, &CompileOptions::with_limits(limits));
        assert!(held <= memory_bytes + BASE_BYTES, "{name}: {held} bytes");
        stopped += usize::from(result.is_err_and(|errors| errors.stopped() == Some(Stopped::MemoryBytes)));
    });
    assert!(stopped >= 20, "{stopped}");
}

#[test]
fn strangers_programs_end_within_their_limits() {
    let limits = CompileLimits::untrusted();
    hostile_texts(|name, text| {
        let (result, held) = held_by(&text, &CompileOptions::with_limits(limits.clone()));
        assert!(held <= limits.memory_bytes, "{name}: {held} bytes");
        if let Err(errors) = result {
            assert!(errors.to_string().len() < 10_000, "{name}");
        }
    });
}

#[test]
fn a_compilation_ends_soon_after_its_deadline() {
    const DEADLINE: Duration = Duration::from_millis(5);
    // Far more than the promise, for machines that do something else at the same time; of several tries the best.
    const LATE_MAX: Duration = Duration::from_millis(100);
    hostile_texts(|name, text| {
        let limits = CompileLimits { deadline: Some(DEADLINE), ..CompileLimits::default() };
        let late = (0..5).map(|_| {
            let began = Instant::now();
            // Some of the texts are compiled by then, or have errors.
            _ = compile_within(limits.clone(), &text);
            began.elapsed().saturating_sub(DEADLINE)
        });
        let late = late.take_while(|&late| late > LATE_MAX).collect::<Vec<_>>();
        assert!(late.len() < 5, "{name}: {late:?}");
    });
}

/// Where the compiler stops depends on how many nodes it may make, and it may be anywhere.
#[test]
fn a_compilation_may_be_stopped_anywhere() {
    let text = "
        def square (x : Real) : Real = x * x
        def twice (f : Real -> Real) (x : Real) : Real = f (f x)
        def norm (xs : Array Real) : Real = sqrt (sum (map (twice square) (filter (\\x -> x > 0) xs)))
        def grown (xs : List Real) : List Real = match xs with | [] -> [] | x :: rest -> x + norm [| x |] :: grown rest
        def f (xs : Array Real) : Real = norm xs + sum (to_array (grown (to_list xs)))";
    let compile = |nodes| compile_within(CompileLimits { code_nodes: nodes, ..CompileLimits::default() }, text);
    let mut stopped = 0;
    for nodes in 1.. {
        match compile(nodes) {
            Ok(_) => break,
            Err(errors) => assert_eq!(errors.stopped(), Some(Stopped::CodeNodes), "{errors}"),
        }
        stopped += 1;
    }
    assert!(stopped > 100, "{stopped}");
}

#[test]
fn a_handle_that_is_cancelled_lets_nothing_begin() {
    let handle = CancelHandle::new();
    let options = CompileOptions::default().cancelled_by(&handle);
    assert!(compile_with("f.dual", "def f (x : Real) = x", &options).is_ok());
    handle.cancel();
    let errors = compile_with("f.dual", "def f (x : Real) = x", &options).unwrap_err();
    assert_eq!(errors.stopped(), Some(Stopped::Cancelled));
    assert!(errors.to_string().contains("the compilation was cancelled"));
}

#[test]
fn another_thread_cancels_a_compilation() {
    // Larger and larger, until a compilation isn't over before it is cancelled.
    let cancelled = (0..6).any(|doublings| {
        let text = sources::match_of_numbers(10_000 << doublings);
        let handle = CancelHandle::new();
        let options = CompileOptions::default().cancelled_by(&handle);
        let result = std::thread::scope(|scope| {
            let compilation = scope.spawn(|| compile_with("cancelled.dual", &text, &options));
            std::thread::sleep(Duration::from_millis(10));
            handle.cancel();
            compilation.join().expect("the compiler doesn't panic")
        });
        match result {
            Err(errors) if errors.stopped() == Some(Stopped::Cancelled) => true,
            Err(errors) => panic!("{errors}"),
            Ok(_) => false,
        }
    });
    assert!(cancelled);
}

/// `x + x + …`, with any operator.
fn chain(operator: &str, operand: &str, end: &str, count: usize) -> String {
    format!("def main (x : Real) (n : Int) = {}{end}\n", format!("{operand} {operator} ").repeat(count))
}

/// A family of texts: its name, and the text of a size.
type Family = (&'static str, fn(usize) -> String);

/// What goes on and on.
const CHAINS: &[Family] = &[
    ("+", |count| chain("+", "x", "x", count)),
    ("*", |count| chain("*", "x", "x", count)),
    ("^", |count| chain("^", "x", "x", count)),
    ("&&", |count| chain("&&", "x > 0.0", "true", count)),
    ("::", |count| chain("::", "x", "[]", count)),
    ("++", |count| chain("++", "[x]", "[x]", count)),
    (":: and ++", |count| chain("::", "x :: [x] ++ x", "[]", count / 3)),
    ("<<", |count| format!("def main (x : Real) = ({}cos) x", "sin << ".repeat(count))),
    (">>", |count| format!("def main (x : Real) = ({}cos) x", "sin >> ".repeat(count))),
    ("|>", |count| format!("def main (x : Real) = x{}", " |> sin".repeat(count))),
    ("-", |count| format!("def main (x : Real) = {}x", "- ".repeat(count))),
    ("let", sources::chain_of_lets),
    ("else", sources::chain_of_else),
];

#[test]
fn chains_are_as_long_as_a_definition_may_be() {
    for (name, write) in CHAINS {
        let compiled = compile_within(CompileLimits::default(), &write(20_000));
        assert!(compiled.is_ok(), "{name}: {}", compiled.unwrap_err());
        let errors =
            compile_within(CompileLimits { source_bytes: 1 << 30, ..CompileLimits::default() }, &write(600_000))
                .unwrap_err();
        assert_eq!(errors.list()[0].message, "the definition is too long", "{name}");
    }
}

/// Time that the best of a few compilations takes.
fn time_of(text: &str) -> Duration {
    let times = (0..3).map(|_| {
        let began = Instant::now();
        let compiled = compile_within(CompileLimits::default(), text);
        assert!(compiled.is_ok(), "{}", compiled.unwrap_err());
        began.elapsed()
    });
    times.min().expect("there are some")
}

#[test]
fn long_programs_take_time_and_memory_in_proportion() {
    const FACTOR: usize = 8;
    let matches: [Family; 3] = [
        ("match of constructors", sources::match_of_constructors),
        ("match of numbers", sources::match_of_numbers),
        ("chain of definitions", sources::chain_of_definitions),
    ];
    for (name, write) in CHAINS.iter().chain(&matches) {
        let size = 1_000;
        let [short, long] = [write(size), write(FACTOR * size)];
        let (_, held_by_short) = held_by(&short, &CompileOptions::default());
        let (_, held_by_long) = held_by(&long, &CompileOptions::default());
        let growth = held_by_long as f64 / held_by_short as f64;
        assert!(growth < 1.5 * FACTOR as f64, "{name}: memory grows by {growth}");
        // Quadratic time would grow by 64; caches that are too small make it more than 8. What else the machine does
        // may spoil a try.
        let ratios: Vec<f64> = (0..12)
            .map(|_| time_of(&long).as_secs_f64() / time_of(&short).as_secs_f64())
            .take_while(|&ratio| ratio > 4.5 * FACTOR as f64)
            .collect();
        assert!(ratios.len() < 12, "{name}: time grows by {ratios:?}");
    }
}
