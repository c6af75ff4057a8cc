//! The account of a run, which all of its executions draw on: fuel, the deadline, what the host wants, and what may
//! still be compiled or allocated. It takes no part in who gets what: that is for the [`super::Meter`] of each
//! execution.
//!
//! An account that is exhausted while several executions run says nothing yet, because slices that nobody has used
//! count as used: the run then goes back to where it forked first, and goes on with one execution, whose outcome
//! counts.

use crate::memory::pool::KEPT_BYTES_MAX;
use crate::running::limits::Limits;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::trap::{Limit, TrapKind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// What it takes to leave a KiB of frames, some ten calls or a fifth of a fork, most of it waiting for memory: between
/// 350 and 500 on machines that were tried.
const UNWINDING_NS_PER_KIB: u64 = 600;
/// What it takes to give a KiB back to the system.
const FREEING_NS_PER_KIB: u64 = 80;
/// What it takes to write a KiB, on pages that the system has to find and clear first.
const FILLING_NS_PER_KIB: u64 = 400;
/// Smaller blocks take no time to speak of to be freed.
const BLOCK_BYTES_MIN: usize = 1 << 20;
/// Bytes of objects that an execution may allocate between two looks at the account, if it isn't the only one.
const ALLOCATION_SLICE: u64 = 1 << 20;

/// Stops runs from another thread.
///
/// ```
/// # use dualvm_vm::engine::CancelHandle;
/// let handle = CancelHandle::new();
/// let other = handle.clone();
/// std::thread::spawn(move || other.cancel()).join().unwrap();
/// assert!(handle.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<AtomicBool>);

impl CancelHandle {
    /// A handle that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every run that was given this handle, now and later.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`CancelHandle::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What all executions of a run share.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(super) fuel_max: u64,
    /// Fuel handed out in slices.
    pub(super) granted: AtomicU64,
    deadline: Option<Instant>,
    cancel: Option<CancelHandle>,
    /// Nanoseconds that compiling may still take; 0: nothing more is compiled in this run.
    compiling_left: AtomicU64,
    /// How long compiling a piece may take at most, if the run has no deadline.
    piece_max: Duration,
    /// Bytes of native code that the module may have.
    pub(crate) code_bytes_max: u64,
    /// Bytes of native stack that an execution has used at most, while there are several.
    deepest: AtomicU64,
    /// Bytes of blocks that heaps hold, small ones left out.
    block_bytes: AtomicU64,
    /// One of the constants below.
    stop: AtomicU8,
    /// Why the host's wishes end the run, if they do.
    abandoned: Mutex<Option<TrapKind>>,
    /// Bytes of objects that executions may still ask for, while there are several.
    allocation_left: AtomicU64,
    /// Bytes of objects that reruns have allocated. No heap that outlives them knows of it.
    rerun_allocated: AtomicU64,
    /// Bytes of heaps and stacks, while there are several executions.
    pub(crate) live_bytes: AtomicU64,
    /// Bytes of tapes and adjoints, while there are several executions.
    pub(crate) tape_bytes: AtomicU64,
    /// Rests of the tape slabs of executions that have ended.
    rests: Mutex<Vec<Rest>>,
}

/// The rest of a slab that nobody writes to.
#[derive(Debug)]
struct Rest(*mut u8, *mut u8);

// SAFETY: it is the only right to write there; the slab lives until the run ends.
unsafe impl Send for Rest {}

// What tells the executions to stop only rises while there are several.
/// The run goes on.
const GO_ON: u8 = 0;
/// A limit was hit while there were several executions: all stop, and the run goes back to its first fork.
const START_OVER: u8 = 1;
/// The host has cancelled the run, or its time is up.
const ABANDON: u8 = 2;

/// The longest that compiling a piece may take in any run, and in one with limits on time.
pub(crate) const PIECE_MAX: Duration = Duration::from_millis(60);
const SHORT_PIECE: Duration = Duration::from_millis(20);
/// A piece may take such a part of the time for compiling.
const PIECES: u32 = 25;

impl Account {
    /// Begins a run.
    pub(crate) fn begin(&mut self, limits: &Limits, cancel: Option<&CancelHandle>) {
        self.start_clock(limits.deadline);
        self.fuel_max = limits.fuel;
        if self.cancel.is_some() || cancel.is_some() {
            self.cancel = cancel.cloned();
        }
        let compiling = u64::try_from(limits.compile_time.as_nanos()).unwrap_or(u64::MAX);
        self.compiling_left.store(compiling, Ordering::Relaxed);
        self.piece_max = (limits.compile_time / PIECES).clamp(SHORT_PIECE, PIECE_MAX);
        self.code_bytes_max = limits.code_bytes;
        self.granted.store(0, Ordering::Relaxed);
        self.stop.store(GO_ON, Ordering::Relaxed);
        self.forget_memory();
    }

    /// The account of a run beside this one, which ends when this one has to.
    pub(crate) fn beside(&self, limits: &Limits) -> Account {
        let mut account = Account::default();
        account.begin(limits, self.cancel.as_ref());
        account.deadline = self.deadline;
        account
    }

    /// Ends a run that another one of the same call follows, which has what is left of fuel and time. Its memory was
    /// given back, and of its last slice so much is left.
    pub(crate) fn go_on(&mut self, left: i64) {
        self.granted.fetch_sub(left as u64, Ordering::Relaxed);
        self.forget_memory();
    }

    /// Forgets what there was of a run's memory.
    fn forget_memory(&mut self) {
        self.deepest.store(0, Ordering::Relaxed);
        self.block_bytes.store(0, Ordering::Relaxed);
        self.rerun_allocated.store(0, Ordering::Relaxed);
        self.rests.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The time that there is begins now.
    pub(crate) fn start_clock(&mut self, time: Option<Duration>) {
        self.deadline = time.and_then(|after| Instant::now().checked_add(after));
    }

    /// There is no time beyond this.
    pub(crate) fn end_by(&mut self, at: Instant) {
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
    }

    /// The rest of a slab, for an execution that begins.
    pub(crate) fn take_rest(&self) -> Option<(*mut u8, *mut u8)> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).pop().map(|Rest(top, end)| (top, end))
    }

    /// Leaves the rest of a slab, which lives until the run ends, to an execution that begins later.
    pub(crate) fn leave_rest(&self, top: *mut u8, end: *mut u8) {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).push(Rest(top, end));
    }

    /// Fuel used, given what is left of the only execution's slice.
    pub(crate) fn used(&self, left: i64) -> u64 {
        self.granted.load(Ordering::Relaxed).wrapping_sub(left as u64)
    }

    /// Fuel that is left, given what is left of the only execution's slice. Where there are several, the slices of the
    /// others count as used.
    pub(crate) fn fuel_left(&self, left: i64) -> u64 {
        self.fuel_max.saturating_sub(self.used(left))
    }

    /// What cancels the run, if anything does.
    pub(crate) fn cancel_handle(&self) -> Option<&CancelHandle> {
        self.cancel.as_ref()
    }

    /// When the run has to have ended.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.deadline
    }

    /// Time that the run may still spend on compiling.
    pub(crate) fn compile_time_left(&self) -> Duration {
        Duration::from_nanos(self.compiling_left.load(Ordering::Relaxed))
    }

    /// Whether the host has cancelled the run or its time is up.
    #[inline]
    pub(crate) fn poll(&self) -> Result<(), TrapKind> {
        self.poll_ahead(Duration::ZERO)
    }

    /// [`Account::poll`], of a run that can't stop sooner than `ahead` from now.
    #[inline]
    pub(crate) fn poll_ahead(&self, ahead: Duration) -> Result<(), TrapKind> {
        // A small program takes hardly longer than a look at the clock.
        if self.cancel.is_none() && self.deadline.is_none() { Ok(()) } else { self.ask(ahead) }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, ahead: Duration) -> Result<(), TrapKind> {
        if self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled) {
            return Err(TrapKind::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() + ahead + self.freeing() >= deadline) {
            return Err(TrapKind::Limit(Limit::Deadline));
        }
        Ok(())
    }

    /// A heap holds a block of so many bytes.
    pub(crate) fn block_taken(&self, bytes: usize) {
        if bytes >= BLOCK_BYTES_MIN {
            self.block_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// A heap has given a block of so many bytes back.
    pub(crate) fn block_freed(&self, bytes: usize) {
        if bytes >= BLOCK_BYTES_MIN {
            self.block_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
    }

    /// How long it takes to give all blocks back to the system, unless the pool keeps them.
    fn freeing(&self) -> Duration {
        let bytes = self.block_bytes.load(Ordering::Relaxed);
        let freed = if bytes > KEPT_BYTES_MAX as u64 { bytes } else { 0 };
        Duration::from_nanos(freed / 1024 * FREEING_NS_PER_KIB)
    }

    /// How long it takes to leave the frames on a native stack, of which so many bytes are in use. Each is looked at
    /// once more, whether its function returns or is given up, so this is time that the run needs in any case. While
    /// there are several executions, that is as long as it takes in the deepest one so far: all end together.
    #[inline]
    pub(crate) fn unwinding(&self, stack_bytes: impl FnOnce() -> usize, executions: bool) -> Duration {
        if self.deadline.is_none() {
            return Duration::ZERO;
        }
        let mut bytes = stack_bytes() as u64;
        if executions {
            bytes = bytes.max(self.deepest.fetch_max(bytes, Ordering::Relaxed));
        }
        Duration::from_nanos(bytes / 1024 * UNWINDING_NS_PER_KIB)
    }

    /// Asks whether the run may go on, which is about to fill so many bytes in one go, on fresh pages of the system's
    /// for all that is known. Who asks for memory hears of limits only; [`Account::verdict`] knows better at the end.
    #[inline]
    pub(crate) fn time_to_fill(&self, bytes: usize) -> Result<(), Limit> {
        /// Less is filled without asking.
        const BYTES_MIN: usize = 64 << 10;
        if bytes < BYTES_MIN {
            return Ok(());
        }
        self.poll_ahead(Duration::from_nanos(bytes as u64 / 1024 * FILLING_NS_PER_KIB)).map_err(out_of_time)
    }

    /// Why the run has ended, which says that it was for this reason.
    pub(crate) fn verdict(&self, kind: TrapKind) -> TrapKind {
        match kind {
            TrapKind::Limit(Limit::Deadline) => self.poll().err().unwrap_or(kind),
            kind => kind,
        }
    }

    /// Whether anything may still be compiled in this run.
    #[inline]
    pub(crate) fn compiles(&self) -> bool {
        self.compiling_left.load(Ordering::Relaxed) > 0
    }

    /// How long compiling may take in one piece, where nobody can stop it. Estimates of code that was written to be
    /// hard to compile are too low: with limits on time, pieces are short.
    pub(crate) fn piece_max(&self) -> Duration {
        if self.deadline.is_some() { SHORT_PIECE } else { self.piece_max }
    }

    /// Whether the run can afford to compile something that takes `estimate`: no more than it may spend on compiling,
    /// and no more than a quarter of the time until its deadline, because the rest of the run needs some, too, and
    /// machines may be slower than the estimate thinks. If not, nothing more is compiled in this run: what has been
    /// asked for once would be asked for again and again.
    pub(crate) fn affords(&self, estimate: Duration) -> bool {
        let left = Duration::from_nanos(self.compiling_left.load(Ordering::Relaxed));
        let time = self.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let cancelled = self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled);
        let affords = !cancelled && !self.is_stopped() && estimate <= left && 4 * estimate <= time;
        if !affords {
            self.compile_no_more();
        }
        affords
    }

    /// From now on this run compiles nothing.
    pub(crate) fn compile_no_more(&self) {
        self.compiling_left.store(0, Ordering::Relaxed);
    }

    /// Compiling has taken so long.
    pub(crate) fn spent_compiling(&self, time: Duration) {
        let spend = |left: u64| Some(left.saturating_sub(time.as_nanos() as u64));
        _ = self.compiling_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
    }

    /// Begins a stretch with several executions. The one that there is now may allocate `allocation` bytes more.
    pub(crate) fn open(&self, allocation: u64, live_bytes: u64, tape_bytes: u64) {
        self.allocation_left.store(allocation, Ordering::Relaxed);
        self.live_bytes.store(live_bytes, Ordering::Relaxed);
        self.tape_bytes.store(tape_bytes, Ordering::Relaxed);
    }

    /// Bytes of objects that reruns have allocated.
    pub(crate) fn rerun_allocated(&self) -> u64 {
        self.rerun_allocated.load(Ordering::Relaxed)
    }

    /// Ends a rerun that has allocated so much, of what was `drawn`.
    pub(crate) fn rerun_ended(&self, allocated: u64, drawn: u64) {
        self.rerun_allocated.fetch_add(allocated, Ordering::Relaxed);
        self.return_allocation(drawn.saturating_sub(allocated));
    }

    /// Draws on what may be allocated: `bytes` or more.
    pub(crate) fn draw_allocation(&self, bytes: u64) -> Option<u64> {
        let drawn = |left: u64| bytes.max(ALLOCATION_SLICE).min(left);
        let take = |left: u64| (left >= bytes).then(|| left - drawn(left));
        self.allocation_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(drawn)
    }

    /// Gives back what was drawn and not allocated.
    pub(crate) fn return_allocation(&self, bytes: u64) {
        self.allocation_left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes why an execution stops while there are several, if that concerns all of them.
    pub(crate) fn stop_all(&self, kind: &TrapKind) {
        match kind {
            // An execution that was told to stop says one of these, too, so what the host wants is asked again.
            TrapKind::Limit(Limit::Deadline) | TrapKind::Cancelled => {
                if let Err(wish) = self.poll() {
                    self.abandon(wish);
                } else if *kind == TrapKind::Limit(Limit::Deadline) && !self.is_stopped() {
                    // The time is not up yet, but there is not enough left.
                    self.abandon(kind.clone());
                }
            }
            // How deep calls are nested doesn't depend on who else runs.
            TrapKind::Limit(Limit::Depth) => {}
            TrapKind::Limit(_) => {
                self.stop.fetch_max(START_OVER, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn abandon(&self, wish: TrapKind) {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(wish);
        self.stop.fetch_max(ABANDON, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != GO_ON
    }

    /// Why the host's wishes have ended the run, if they have.
    pub(crate) fn abandoned(&self) -> Option<TrapKind> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Goes on with one execution, which had used `used` when it forked and has nothing left of its slice.
    pub(crate) fn start_over(&self, used: u64, rerun_allocated: u64) {
        self.rerun_allocated.store(rerun_allocated, Ordering::Relaxed);
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.stop.store(GO_ON, Ordering::Relaxed);
        self.granted.store(used, Ordering::Relaxed);
    }
}

/// What those hear who ask for memory when a run has to stop: [`Account::verdict`].
pub(crate) fn out_of_time(_: TrapKind) -> Limit {
    Limit::Deadline
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_execution_that_was_told_to_stop_does_not_hide_that_time_is_up() {
        let mut account = Account::default();
        account.begin(&Limits { deadline: Some(Duration::ZERO), ..Limits::default() }, None);
        account.stop_all(&TrapKind::Cancelled);
        assert_eq!(account.abandoned(), Some(TrapKind::Limit(Limit::Deadline)));
    }
}

#[cfg(all(test, loom))]
pub(super) mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// An account of a run that has begun.
    pub(in crate::running::meter) fn account(fuel_max: u64, cancel: Option<&CancelHandle>) -> Arc<Account> {
        let mut account = Account::default();
        account.begin(&Limits { fuel: fuel_max, ..Limits::default() }, cancel);
        Arc::new(account)
    }

    #[test]
    fn loom_starting_over_never_takes_the_place_of_giving_up() {
        loom::model(|| {
            let handle = CancelHandle::new();
            let account = account(10, Some(&handle));
            let executions = [TrapKind::Limit(Limit::Fuel), TrapKind::Cancelled].map(|kind| {
                let account = account.clone();
                thread::spawn(move || account.stop_all(&kind))
            });
            handle.cancel();
            for execution in executions {
                execution.join().unwrap();
            }
            assert!(account.is_stopped());
            let abandoned = account.stop.load(Ordering::Relaxed) == ABANDON;
            // The execution that says that it was cancelled may have looked before that was so.
            assert_eq!(account.abandoned(), abandoned.then_some(TrapKind::Cancelled));
        });
    }

    #[test]
    fn loom_each_rest_of_a_slab_goes_to_one_execution() {
        loom::model(|| {
            let account = account(0, None);
            let place = |n: usize| std::ptr::without_provenance_mut::<u8>(n);
            account.leave_rest(place(1), place(10));
            let executions = [20, 30].map(|n| {
                let account = account.clone();
                thread::spawn(move || {
                    let taken = account.take_rest();
                    account.leave_rest(place(n), place(n + 1));
                    taken.map(|(top, _)| top as usize)
                })
            });
            let mut seen: Vec<usize> =
                executions.into_iter().filter_map(|execution| execution.join().unwrap()).collect();
            seen.extend(std::iter::from_fn(|| account.take_rest()).map(|(top, _)| top as usize));
            seen.sort_unstable();
            assert_eq!(seen, [1, 20, 30]);
        });
    }

    #[test]
    fn loom_no_more_is_allocated_than_was_opened() {
        loom::model(|| {
            let account = account(0, None);
            account.open(ALLOCATION_SLICE + 100, 0, 0);
            let executions = [60, 70].map(|bytes| {
                let account = account.clone();
                thread::spawn(move || match account.draw_allocation(bytes) {
                    Some(drawn) => {
                        assert!(drawn >= bytes);
                        account.return_allocation(drawn - bytes);
                        bytes
                    }
                    None => 0,
                })
            });
            let drawn: u64 = executions.into_iter().map(|execution| execution.join().unwrap()).sum();
            assert_eq!(account.allocation_left.load(Ordering::Relaxed), ALLOCATION_SLICE + 100 - drawn);
        });
    }
}
