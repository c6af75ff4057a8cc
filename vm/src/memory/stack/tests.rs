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

const SMALL: Extent = Extent(EXTENT_MIN);
const ANY: u64 = u64::MAX;

/// A stack of a bank with room for so many cells.
fn bank(extent: Extent, cells: usize) -> Stack<u64> {
    let mut stack: Stack<u64> = Stack::new(extent);
    stack.begin(extent);
    assert_eq!(stack.grow(stack.start().wrapping_add(cells), ANY), Ok(()));
    stack
}

#[test]
fn a_native_stack_that_overflows_meets_its_guard() {
    if let Ok(what) = std::env::var(TOUCH) {
        let mut stack = NativeStack::new(SMALL);
        let ground = stack.open().expect("there is address space");
        if what == "below what has grown" {
            assert_eq!(stack.grow(ground.start.addr() + ground.bytes - (5 << 20), ANY), Ok(()));
        }
        let Ground { start, bytes, .. } = stack.ground();
        expect_fault(start, bytes);
        // SAFETY: the stack outlives the call; the process ends in it.
        unsafe { ground.run(|| use_stack(bytes + (8 << 20))) };
        return;
    }
    for what in ["below", "below what has grown"] {
        let status = touch("a_native_stack_that_overflows_meets_its_guard", what);
        assert_eq!(status.code(), Some(MET_A_GUARD), "{what}: {status}, signal {:?}", status.signal());
    }
}

#[test]
fn cells_before_and_behind_a_bank_are_guarded() {
    if let Ok(what) = std::env::var(TOUCH) {
        let (what, room) = what.split_once(' ').expect("the place and the room");
        let mut stack = bank(SMALL, if room == "small" { 1 } else { 1 << 20 });
        if room == "given back" {
            stack.shrink();
        }
        let region = stack.region.as_ref().expect("there is address space");
        expect_fault(region.start(), region.bytes());
        let cells = region.bytes() / size_of::<u64>();
        assert_eq!(room == "large", cells > 1 << 20);
        let cell = match what {
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
        for room in ["small", "large", "given back"] {
            let status = touch("cells_before_and_behind_a_bank_are_guarded", &format!("{what} {room}"));
            assert_eq!(status.code(), Some(code), "{what} {room}: {status}");
        }
    }
}

#[test]
fn room_for_runs_ends_above_what_is_the_hosts() {
    let mut stack = NativeStack::new(SMALL);
    let ground = stack.open().expect("there is address space");
    let hosts = ground.start.addr() + ground.bytes - EXTENT_MIN + HOST_JOB_STACK_BYTES + RED_ZONE;
    assert_eq!(stack.grow(hosts, ANY), Ok(()));
    assert_eq!(stack.limit(), hosts);
    assert_eq!(stack.grow(hosts - 1, ANY), Err(Limit::StackBytes));
    assert_eq!(stack.ground().bytes, EXTENT_MIN);
    // SAFETY: nobody else runs there, and nothing unwinds.
    let used = unsafe { ground.run(|| (ground.is_here(), use_stack(HOST_JOB_STACK_BYTES))) };
    assert!(used.0 && used.1 > 0);
    assert!(!ground.is_here());
}

#[test]
fn jobs_of_the_host_have_their_room_below_any_limit() {
    let mut stack = NativeStack::new(Extent::of(0));
    let top = stack.open().map(|ground| ground.start.addr() + ground.bytes).expect("there is address space");
    for used in [1, 1 << 18, 1 << 20, 3 << 20, 100 << 20] {
        assert_eq!(stack.grow(top - used, ANY), Ok(()));
        assert!(stack.limit() <= top - used && stack.ground().start.addr() + BELOW <= stack.limit(), "{used}");
    }
}

#[test]
fn a_stack_grows_where_it_is_and_keeps_what_is_on_it() {
    let mut stack = bank(Extent::of(0), 1);
    let start = stack.start();
    for log in 0..28 {
        let cell = start.wrapping_add((1 << log) - 1);
        if cell >= stack.end() {
            assert_eq!(stack.grow(cell.wrapping_add(1), ANY), Ok(()));
        }
        // SAFETY: there is room for it.
        unsafe { cell.write(log) };
    }
    assert_eq!(stack.start(), start);
    for log in 0..28 {
        // SAFETY: written above.
        assert_eq!(unsafe { start.wrapping_add((1 << log) - 1).read() }, log);
    }
    stack.shrink();
    assert_eq!((stack.start(), stack.end(), stack.bytes()), (start, start, 0));
    stack.begin(stack.extent());
    assert_eq!(stack.grow(start.wrapping_add(1 << 20), ANY), Ok(()));
    // SAFETY: there is room for it.
    assert_eq!(unsafe { start.wrapping_add((1 << 20) - 1).read() }, 0, "it was given back");
}

#[test]
fn what_a_run_may_hold_bounds_its_stacks_before_they_grow() {
    let mut stack: Stack<u64> = Stack::new(Extent::of(0));
    for live_bytes in [1 << 20, 64 << 20, 0] {
        stack.begin(stack.extent().within(live_bytes));
        let cells = live_bytes as usize / size_of::<u64>();
        let end = stack.start().wrapping_add(cells);
        assert_eq!(stack.grow(end, live_bytes), Ok(()));
        assert_eq!(stack.grow(end.wrapping_add(1), live_bytes), Err(Limit::LiveBytes));
    }
    let most = stack.region.as_ref().map(Region::bytes_max);
    assert!(most.is_some_and(|most| (64 << 20..80 << 20).contains(&most)), "{most:?}");
}

#[test]
fn a_stack_with_a_neighbour_is_refused_more_and_the_next_run_has_another_place() {
    let mut stack = bank(Extent::of(0), 1);
    let start = stack.start();
    let behind = start.wrapping_byte_add(64 << 20);
    // SAFETY: nothing that is there is replaced.
    let neighbour = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        libc::mmap(behind.cast(), 1 << 20, libc::PROT_NONE, flags, -1, 0)
    };
    assert_eq!(neighbour, behind.cast());
    // What fits before the neighbour is there, whatever doubling would come to.
    assert_eq!(stack.grow(start.wrapping_byte_add(40 << 20), ANY), Ok(()));
    assert_eq!(stack.grow(start.wrapping_byte_add(60 << 20), ANY), Ok(()));
    assert!(stack.end() < behind && stack.bytes() == 80 << 20);
    assert_eq!(stack.grow(start.wrapping_byte_add(70 << 20), ANY), Err(Limit::AddressSpace));
    stack.begin(stack.extent());
    assert_eq!(stack.grow(stack.start().wrapping_byte_add(70 << 20), ANY), Ok(()));
    // SAFETY: it was mapped here.
    unsafe { libc::munmap(neighbour, 1 << 20) };
}

#[test]
fn where_stacks_have_no_choice_they_are_as_large_as_they_will_be() {
    for direction in [Direction::Upwards, Direction::Downwards] {
        let mut region = Region::fixed(EXTENT_MIN + (1 << 20), direction).expect("there is address space");
        assert_eq!((region.bytes(), region.bytes_max()), (EXTENT_MIN, EXTENT_MIN));
        assert!(region.grow(EXTENT_MIN, EXTENT_MIN) && !region.grow(EXTENT_MIN + 1, EXTENT_MIN + 1));
        region.shrink();
        for cell in [region.start(), region.start().wrapping_add(region.bytes() - 1)] {
            // SAFETY: inside of the region.
            unsafe { cell.write_volatile(1) };
        }
    }
}

#[test]
fn what_a_host_asks_for_is_what_its_stacks_grow_to_in_whole_pages() {
    for (asked, given) in [(1, 16 << 20), ((17 << 20) + 5, 16 << 20), (64 << 20, 64 << 20)] {
        let mut region = Region::open(Extent::of(asked).0, Direction::Upwards).expect("there is address space");
        assert_eq!(region.bytes_max(), given, "{asked}");
        assert!(region.grow(given, given) && region.bytes() == given && !region.grow(given + 1, given + 1), "{asked}");
    }
    assert!(Region::open(Extent::of(usize::MAX).0, Direction::Downwards).is_some());
}
