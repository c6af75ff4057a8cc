//! Jobs of the host's own that a thread takes up while a run waits on it: they stand on the stack of the run, deep
//! down, and have there what the documentation says.

#![cfg(unix)]

mod support;

use dualvm_jit::Cranelift;
use dualvm_vm::engine::{
    CallOptions, CancelHandle, Config, Engine, Function, HOST_JOB_STACK_BYTES, Jit, Limits, Module, RunError,
};
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::Cell;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// `n` calls in each other, and in the innermost one two tasks that count down.
const SOURCE: &str = r#"
func "count" (int) -> (int)
 regs 2 int
{
 iconst i1, 1
head:
 isub i0, i0, i1
 branch i0, head, end
end:
 ret (i1)
}
func "deep" (int, int, int) -> (int)
 export (n : Int, left : Int, right : Int) -> Int
 regs 5 int
{
 iconst i3, 1
 branch i0, more, bottom
more:
 isub i0, i0, i3
 call "deep" (i0, i1, i2) -> (i4)
 iadd i4, i4, i3
 ret (i4)
bottom:
 fork 2
 task "count" (i1) -> (i3)
 task "count" (i2) -> (i4)
 iadd i4, i4, i3
 ret (i4)
}
"#;

/// What the pool's threads have of stack: less than what jobs use.
const THREAD_STACK_BYTES: usize = 1 << 20;
/// Of the address space of a run's stacks, only the least.
const STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// Where the thread's own stack begins, about.
    static OWN_STACK: Cell<usize> = const { Cell::new(0) };
}

/// The place of the frame that calls this.
#[inline(always)]
fn here() -> usize {
    let place = 0u8;
    std::ptr::from_ref(black_box(&place)).addr()
}

/// A pool of two threads that know where their stacks are, and the function `deep` on it, in native code.
fn deep() -> (Arc<ThreadPool>, Function) {
    let builder = ThreadPoolBuilder::new().num_threads(2).stack_size(THREAD_STACK_BYTES);
    let builder = builder.start_handler(|_| OWN_STACK.set(here()));
    let pool = Arc::new(builder.build().expect("threads can be started"));
    let mut config = Config::default();
    (config.jit, config.generator) = (Jit::Always, Some(Arc::new(Cranelift) as _));
    (config.pool, config.stack_bytes) = (Some(pool.clone()), STACK_BYTES);
    let module = Module::new(&Engine::new(config), support::assemble(SOURCE));
    let module = module.unwrap_or_else(|errors| panic!("{}", errors[0]));
    (pool, module.function("deep").expect("it is exported"))
}

/// As many calls in each other as the stack has room for.
fn deepest(deep: &Function) -> i64 {
    let fits = |n: i64| match deep.call(&[Value::Int(n), Value::Int(1), Value::Int(1)]) {
        Ok(value) => {
            assert_eq!(value, Value::Int(n + 2));
            true
        }
        Err(RunError::Trap(trap)) if trap.kind == TrapKind::Limit(Limit::StackBytes) => false,
        Err(error) => panic!("{error}"),
    };
    let (mut most, mut too_many) = (0, 1 << 20);
    assert!(!fits(too_many), "the stack is no smaller than others");
    while most + 1 < too_many {
        let middle = (most + too_many) / 2;
        *(if fits(middle) { &mut most } else { &mut too_many }) = middle;
    }
    most
}

/// Runs `job` on the stack of a run, as deep as one can wait: one thread of the pool is busy with one of the innermost
/// tasks, and the other one, which waits for it, has nothing else to do. Returns what the job returns.
fn at_the_bottom<T: Send + 'static>(job: impl Fn() -> T + Clone + Send + 'static) -> T {
    let (pool, deep) = deep();
    // With room for what a fork takes down to where it waits, some kilobytes: a call takes less than a hundred bytes.
    let n = deepest(&deep) - 500;
    let (sender, receiver) = mpsc::channel();
    // The left task lasts long enough for the other thread to take the right one, which doesn't end.
    let arguments = [n, 50_000_000, i64::MAX].map(Value::Int);
    for _ in 0..100 {
        let cancel = CancelHandle::new();
        let options = CallOptions::with_limits(Limits::default()).cancelled_by(&cancel);
        let found = std::thread::scope(|scope| {
            let run = scope.spawn(|| deep.call_with(&arguments, &options));
            std::thread::sleep(Duration::from_millis(100));
            let (sender, job) = (sender.clone(), job.clone());
            pool.spawn(move || {
                let own = OWN_STACK.get();
                let is_own = (own - THREAD_STACK_BYTES..own + THREAD_STACK_BYTES).contains(&here());
                sender.send((!is_own).then(&job)).expect("somebody waits");
            });
            // Where the thread that waits did both tasks itself, the job came to the other one's own stack.
            let found = receiver.recv_timeout(Duration::from_secs(60)).expect("a thread waits and has nothing to do");
            cancel.cancel();
            match run.join().expect("a run doesn't panic") {
                Err(RunError::Trap(trap)) => assert_eq!(trap.kind, TrapKind::Cancelled),
                other => panic!("{other:?}"),
            }
            found
        });
        if let Some(found) = found {
            return found;
        }
    }
    panic!("no job came to the stack of a run");
}

/// Uses so much stack, frame by frame.
#[inline(never)]
fn use_stack(bytes: usize) -> usize {
    fn down(last: usize) -> usize {
        let frame = black_box([1u8; 256]);
        let below = if here() > last { down(last) } else { 0 };
        below + usize::from(frame[below % frame.len()])
    }
    down(here() - bytes)
}

#[test]
fn a_job_of_the_host_has_the_room_that_is_documented_however_deep_the_run_is() {
    assert!(at_the_bottom(|| use_stack(HOST_JOB_STACK_BYTES)) > 0);
}

#[test]
fn a_job_of_the_host_may_call_a_program() {
    let job = || {
        let square =
            support::function("func \"square\" (real) -> (real) regs 1 real { mul r0, r0, r0\n ret (r0) }", "square");
        square.value_and_grad(&[Value::Real(3.0)])
    };
    assert_eq!(at_the_bottom(job), Ok((9.0, vec![Value::Real(6.0)])));
}

#[test]
fn a_job_of_the_host_that_needs_more_meets_a_guard_page() {
    const NAME: &str = "a_job_of_the_host_that_needs_more_meets_a_guard_page";
    const INSIDE: &str = "DUALVM_TEST_OVERFLOW";
    if std::env::var_os(INSIDE).is_some() {
        // What is below belongs to somebody else, or to nobody.
        let used = at_the_bottom(|| use_stack(HOST_JOB_STACK_BYTES + (512 << 10)));
        println!("used {used}");
        return;
    }
    let this = std::env::current_exe().expect("the test runs from a file");
    let output = Command::new(this).args(["--exact", NAME, "--nocapture"]).env(INSIDE, "1").output();
    let output = output.expect("the test can be run again");
    const SIGSEGV: i32 = 11;
    // Some systems say that there is nothing at the address.
    const SIGBUS: i32 = if cfg!(target_vendor = "apple") { 10 } else { 7 };
    let signal = output.status.signal();
    assert!(signal == Some(SIGSEGV) || signal == Some(SIGBUS), "{output:?}");
}
