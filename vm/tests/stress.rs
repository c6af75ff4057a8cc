//! The same calls on any number of threads, many times: with traps, limits and deadlines, and cancelled at any moment.
//! They end as on one thread, always, and leave nothing behind.

use dualvm_vm::engine::{CallOptions, CancelHandle, Config, Engine, Function, Jit, Limits, Module, RunError};
use dualvm_vm::text;
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use std::sync::mpsc;
use std::time::Duration;

/// A tree of forks with imports, a parallel map at each inner node, garbage, and a trap in the leaf `stop`.
const SOURCE: &str = r#"
type t0 = array real
type t1 = builder real
message m0 "left"
message m1 "right"
func "range" (int, int, t0, real) -> (t0)
 regs 3 real, 4 int, t0, t1, t0
 {
 isub i2, i1, i0
 build p1, i2
 iconst i3, 1
head:
 ilt i2, i0, i1
 branch i2, body, end
body:
 elem r1, p0, i0
 mul r1, r1, r0
 push p1, r1
 iadd i0, i0, i3
 jump head
end:
 finish p2, p1
 ret (p2) }
func "leaf" (t0, int, int) -> (real)
 regs 3 real, 5 int, t0, t0
 {
 isub i2, i0, i1
 branch i2, work, stop
stop:
 trap m0
work:
 iconst i3, 600
 iconst i4, 1
 elem r0, p0, i0
head:
 pack p1 (r0, r0, r0)
 sin r1, r0
 add r0, r0, r1
 isub i3, i3, i4
 branch i3, head, end
end:
 ret (r0) }
func "tree" (t0, int, int, int) -> (real)
 export (xs : Array Real @t0, lo : Int, hi : Int, stop : Int) -> Real
 regs 5 real, 6 int, t0, t0
 {
 isub i3, i1, i0
 iconst i4, 1
 ile i5, i3, i4
 branch i5, leaf, node
leaf:
 call "leaf" (p0, i0, i2) -> (r0)
 ret (r0)
node:
 iadd i3, i0, i1
 ishr i3, i3, i4
 elem r2, p0, i0
 len i5, p0
 pmap p1, "range", i5 (p0, r2)
 fork 3
 task "tree" (p1, i0, i3, i2) -> (r0)
 task "leaf" (p0, i0, i2) -> (r3)
 task "tree" (p0, i3, i1, i2) -> (r1)
 add r0, r0, r1
 elem r4, p1, i0
 mul r0, r0, r4
 add r0, r0, r3
 ret (r0) }
"#;

const LEN: i64 = 24;

fn tree(threads: usize) -> (Engine, Function) {
    let mut config = Config::default();
    (config.jit, config.threads) = (Jit::Off, threads);
    let engine = Engine::new(config);
    let def = text::parse(SOURCE, "stress.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = Module::new(&engine, def).unwrap_or_else(|errors| panic!("{}", errors[0]));
    (engine, module.function("tree").expect("the function is exported"))
}

/// Arguments of a tree that traps at the leaf of this number.
fn arguments(stop: i64) -> [Value; 4] {
    let xs = (0..LEN).map(|n| 0.3 + n as f64 / 50.0).collect();
    [Value::Reals(xs), Value::Int(0), Value::Int(LEN), Value::Int(stop)]
}

/// All that a gradient says but for times and peaks; of tape, only how many bytes there may be depends on threads.
fn outcome(function: &Function, stop: i64, options: &CallOptions) -> Result<String, TrapKind> {
    match function.value_and_grad_with(&arguments(stop), options) {
        Ok(found) => {
            let stats = found.stats;
            let counts = (stats.instructions, stats.span, stats.records, stats.slots, stats.allocated_bytes);
            let bits = format!("{:x} {:?}", found.value.to_bits(), found.gradient);
            Ok(format!("{bits} {counts:?} {} {}", stats.tasks, stats.imports))
        }
        Err(RunError::Trap(trap)) => match trap.kind {
            // Cancelled runs end anywhere.
            TrapKind::Cancelled | TrapKind::Limit(Limit::Deadline) => Err(trap.kind),
            _ => Ok(format!("{trap:?}")),
        },
        Err(error) => panic!("{error}"),
    }
}

/// Runs `body` on a thread of its own; fails if that hasn't ended in time.
fn within(time: Duration, body: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        done.send(()).expect("the watch is waiting");
    });
    if ended.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("no end after {time:?}");
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn next(dice: &mut u64, below: u64) -> u64 {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*dice >> 33) % below
}

#[test]
fn calls_on_any_number_of_threads_end_as_on_one() {
    within(Duration::from_secs(300), || {
        let (_, one) = tree(1);
        let whole =
            one.value_and_grad_with(&arguments(-1), &CallOptions::default()).expect("it comes to its end").stats;
        assert!(whole.slots > 50_000, "other threads help with long sweeps only: {whole:?}");
        let mut dice = 1;
        let cases: Vec<(i64, CallOptions, _)> = (0..24)
            .map(|n| {
                // In turns: to the end, a trap, and each limit that the schedule must not show in, with traps.
                let stop = if n % 2 == 0 { -1 } else { next(&mut dice, LEN as u64) as i64 };
                let mut limits = Limits::default();
                match n % 8 {
                    2 | 3 => limits.fuel = next(&mut dice, whole.instructions),
                    4 | 5 => limits.allocated_bytes = next(&mut dice, whole.allocated_bytes),
                    6 => limits.depth = 1 + next(&mut dice, 6) as usize,
                    _ => {}
                }
                let options = CallOptions::with_limits(limits);
                let expected = outcome(&one, stop, &options);
                (stop, options, expected)
            })
            .collect();
        for threads in [2, 3, 8, 64] {
            let (engine, function) = tree(threads);
            let mut kept = 0;
            for time in 0..8 {
                for (stop, options, expected) in &cases {
                    let found = outcome(&function, *stop, options);
                    assert_eq!(found, *expected, "{threads} threads, time {time}, stop {stop}, {options:?}");
                }
                if time == 2 {
                    kept = engine.kept_bytes();
                }
            }
            let more = engine.kept_bytes().saturating_sub(kept);
            assert!(more <= kept + (64 << 20), "{threads} threads: {kept} bytes, then {more} more");
        }
    });
}

#[test]
fn calls_that_are_cancelled_at_any_moment_end_as_such_or_as_if_they_were_not() {
    within(Duration::from_secs(300), || {
        let (_, one) = tree(1);
        let mut dice = 7;
        for threads in [2, 3, 8, 64] {
            let (engine, function) = tree(threads);
            let mut cancelled = 0;
            let mut kept = 0;
            for time in 0..100 {
                let stop = if time % 3 == 0 { next(&mut dice, LEN as u64) as i64 } else { -1 };
                let handle = CancelHandle::new();
                let mut limits = Limits::default();
                let after = Duration::from_micros(next(&mut dice, 9000));
                let by_deadline = time % 4 == 0;
                if by_deadline {
                    limits.deadline = Some(after);
                }
                let options = CallOptions::with_limits(limits).cancelled_by(&handle);
                let other = std::thread::spawn(move || {
                    std::thread::sleep(after);
                    if !by_deadline {
                        handle.cancel();
                    }
                });
                match outcome(&function, stop, &options) {
                    Ok(found) => assert_eq!(Ok(found), outcome(&one, stop, &CallOptions::default()), "{threads}"),
                    Err(kind) => {
                        let expected = if by_deadline { TrapKind::Limit(Limit::Deadline) } else { TrapKind::Cancelled };
                        assert_eq!(kind, expected, "{threads} threads, time {time}");
                        cancelled += 1;
                    }
                }
                other.join().expect("it only cancels");
                if time == 30 {
                    kept = engine.kept_bytes();
                }
            }
            let more = engine.kept_bytes().saturating_sub(kept);
            assert!(more <= kept + (64 << 20), "{threads} threads: {kept} bytes, then {more} more");
            assert!(cancelled > 0, "{threads} threads: no call was cancelled");
            // The engine is as good as new.
            let whole = outcome(&function, -1, &CallOptions::default());
            assert_eq!(whole, outcome(&one, -1, &CallOptions::default()));
        }
    });
}

#[test]
fn calls_from_many_threads_share_the_threads_of_one_engine() {
    within(Duration::from_secs(300), || {
        let (_, one) = tree(1);
        let (_, function) = tree(3);
        let expected = [-1, 5].map(|stop| outcome(&one, stop, &CallOptions::default()));
        std::thread::scope(|scope| {
            for n in 0..6 {
                let (function, expected) = (&function, &expected);
                scope.spawn(move || {
                    for time in 0..8 {
                        let which = (n + time) % 2;
                        let found = outcome(function, [-1, 5][which], &CallOptions::default());
                        assert_eq!(found, expected[which]);
                    }
                });
            }
        });
    });
}
