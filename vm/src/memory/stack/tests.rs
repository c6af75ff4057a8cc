//! What is beyond a stack ends the process. Each such end happens in a process of its own, this test run again.

use super::system::GUARD_BYTES;
use super::*;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says in the environment of a process what it is to touch.
const TOUCH: &str = "DUALVM_TEST_TOUCH";
/// The exit code of a process that met a guard.
const MET_A_GUARD: i32 = 42;

/// Where guards are expected: what the handler compares addresses with.
static GUARDS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Runs this test again, to touch what `what` says. Returns how that ended.
fn touch(test: &str, what: &str) -> ExitStatus {
    let this = std::env::current_exe().expect("the test runs from a file");
    let name = format!("memory::stack::tests::{test}");
    let mut command = Command::new(this);
    command.args(["--exact", &name, "--test-threads=1", "--nocapture"]).env(TOUCH, what);
    command.output().expect("the test can be run again").status
}

extern "C" fn on_fault(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system hands the fault's description over.
    let address = unsafe { (*info).si_addr() }.addr();
    let met = GUARDS.iter().any(|guard| {
        let start = guard.load(Ordering::Relaxed);
        (start..start + GUARD_BYTES).contains(&address)
    });
    // SAFETY: allowed in a signal handler.
    unsafe { libc::_exit(if met { MET_A_GUARD } else { 1 }) };
}

/// Ends the process on the next fault, with [`MET_A_GUARD`] if that is in a guard of the region.
fn expect_fault(start: *mut u8, bytes: usize) {
    GUARDS[0].store(start.addr() - GUARD_BYTES, Ordering::Relaxed);
    GUARDS[1].store(start.addr() + bytes, Ordering::Relaxed);
    // SAFETY: the handler does nothing but look at two numbers and exit, on the stack that every thread of the standard
    // library has for signals.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()), 0);
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Uses `bytes` of stack and a bit.
#[inline(never)]
fn use_stack(bytes: usize) -> usize {
    let frame = black_box([1u8; 1024]);
    let below = if bytes > frame.len() { use_stack(bytes - frame.len()) } else { 0 };
    below + usize::from(frame[bytes % frame.len()])
}

const SMALL: Reserve = Reserve(RESERVED_BYTES_MIN);

#[test]
fn a_native_stack_that_overflows_meets_its_guard() {
    if std::env::var_os(TOUCH).is_some() {
        let mut stack = NativeStack::new(SMALL);
        let ground = stack.open().expect("there is address space");
        expect_fault(ground.start, ground.bytes);
        // SAFETY: the stack outlives the call; the process ends in it.
        unsafe { ground.run(|| use_stack(ground.bytes + (8 << 20))) };
        return;
    }
    let status = touch("a_native_stack_that_overflows_meets_its_guard", "below");
    assert_eq!(status.code(), Some(MET_A_GUARD), "{status}, signal {:?}", status.signal());
}

#[test]
fn cells_before_and_behind_a_bank_are_guarded() {
    if let Ok(what) = std::env::var(TOUCH) {
        let mut stack: Stack<u64> = Stack::new(SMALL);
        stack.begin();
        let region = stack.region.as_ref().expect("there is address space");
        expect_fault(region.start(), region.bytes());
        let cells = region.bytes() / size_of::<u64>();
        let cell = match &*what {
            "first" => stack.start(),
            "last" => stack.start().wrapping_add(cells - 1),
            "before" => stack.start().wrapping_sub(1),
            "behind" => stack.start().wrapping_add(cells),
            other => panic!("{other}"),
        };
        // SAFETY: a cell, or a place that nobody may touch, and the process ends.
        unsafe { cell.write_volatile(1) };
        return;
    }
    for (what, code) in [("first", 0), ("last", 0), ("before", MET_A_GUARD), ("behind", MET_A_GUARD)] {
        let status = touch("cells_before_and_behind_a_bank_are_guarded", what);
        assert_eq!(status.code(), Some(code), "{what}: {status}");
    }
}

#[test]
fn room_for_runs_ends_above_what_is_the_hosts() {
    let mut stack = NativeStack::new(SMALL);
    let ground = stack.open().expect("there is address space");
    let hosts = ground.start.addr() + HOST_JOB_STACK_BYTES + RED_ZONE;
    assert_eq!(stack.grow(hosts), Ok(()));
    assert_eq!(stack.limit(), hosts);
    assert_eq!(stack.grow(hosts - 1), Err(Limit::LiveBytes));
    // SAFETY: nobody else runs there, and nothing unwinds.
    let used = unsafe { ground.run(|| (ground.is_here(), use_stack(HOST_JOB_STACK_BYTES))) };
    assert!(used.0 && used.1 > 0);
    assert!(!ground.is_here());
}

#[test]
fn what_a_host_asks_for_is_reserved_in_whole_pages() {
    for (asked, given) in [(1, 16 << 20), ((17 << 20) + 5, 16 << 20), (64 << 20, 64 << 20)] {
        let region = Reserve::of(asked).take(Direction::Upwards).expect("there is address space");
        assert_eq!(region.bytes(), given, "{asked}");
    }
    assert!(Reserve::of(usize::MAX).take(Direction::Downwards).is_some());
}
