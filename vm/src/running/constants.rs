//! The constants of a run: what functions that run once (`once`) have given, kept until the call of the host's ends.
//!
//! Whoever needs a constant first computes it, and whoever needs it meanwhile waits. Nobody waits for ever: who
//! computes waits for nobody but for other constants, and these never lead back to the first (the verifier's
//! `OnceCycle`). What a constant refers to is moved to memory of the constants' own, where it stays. So it makes no
//! difference which execution has computed it: all have the same objects, and none of them frees them.
//!
//! Limits are those of who computes, and say nothing of the constant, so nobody keeps them: a run that starts over on
//! one execution has forgotten what it has computed since, and computes it again where that execution comes to it.

use super::lines::Lines;
use super::program::Program;
use super::registers::Gathered;
use super::trace::Trace;
use crate::memory::heap::{self, Heap};
use crate::memory::pool::SlabPool;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::trap::{Limit, TrapKind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

/// A constant that was computed.
#[derive(Debug)]
pub(super) struct Constant {
    /// The results of its function. They have no words: nothing is recorded.
    pub(super) values: Gathered,
    /// Why there are none, and the frames of the function that has trapped.
    pub(super) trapped: Option<(TrapKind, Trace)>,
    /// What its function has traced.
    pub(super) lines: Lines,
    /// Whether the host has been told that.
    pub(super) is_told: AtomicBool,
}

// SAFETY: the references lead to memory that the constants own, and to nothing that changes.
unsafe impl Send for Constant {}
// SAFETY: as for `Send`.
unsafe impl Sync for Constant {}

/// The constants of a run.
#[derive(Debug)]
pub(crate) struct Constants {
    /// The program whose constants these are, or were when there were any. It may be gone by now.
    program: *const Program,
    /// For each of them, where it is; null until it was computed.
    there: Box<[AtomicPtr<Constant>]>,
    state: Mutex<State>,
    /// Told whenever a computation has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    /// Those that somebody computes.
    open: Vec<usize>,
    /// Those that were computed, in that order.
    kept: Vec<(usize, Arc<Constant>)>,
    /// What they refer to.
    memory: Heap,
    /// Bytes of what they have traced.
    line_bytes: u64,
}

/// What there was of constants at some time.
#[derive(Debug)]
pub(super) struct Mark {
    kept: usize,
    memory: heap::Mark,
    line_bytes: u64,
}

// SAFETY: the program is compared, and not looked into.
unsafe impl Send for Constants {}
// SAFETY: as for `Send`; all else is.
unsafe impl Sync for Constants {}

impl Constants {
    /// Constants of no run, which get their memory from a pool.
    pub(crate) fn new(slabs: &Arc<SlabPool>) -> Self {
        let (open, kept) = (Vec::new(), Vec::new());
        let state = State { open, kept, memory: Heap::new(slabs.clone()), line_bytes: 0 };
        let (program, there) = (std::ptr::null(), Box::default());
        Constants { program, there, state: Mutex::new(state), ended: Condvar::new() }
    }

    /// Begins a run of a call, or goes on with the next one: the constants stay, if it is the same program's.
    #[inline]
    pub(crate) fn begin(&mut self, program: &Program) {
        if program.constants() > 0 && !(std::ptr::eq(self.program, program) && self.there.len() == program.constants())
        {
            self.clear();
            self.program = program;
            self.there = (0..program.constants()).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
        }
    }

    /// Forgets all constants. Nothing refers to them.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.there.is_empty() {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let Constants { there, state, .. } = self;
        let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(state.open.is_empty(), "a run has ended that computes a constant");
        for (number, _) in state.kept.drain(..) {
            there[number] = AtomicPtr::new(std::ptr::null_mut());
        }
        state.memory.release();
        state.line_bytes = 0;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A constant, if it was computed.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Constant> {
        // SAFETY: it is kept until the run ends, or until nobody knows it any more ([`Constants::cut`]).
        unsafe { self.there[number].load(Ordering::Acquire).as_ref() }
    }

    /// A constant that was not there. `None`: whoever asks is to compute it, and to end that with [`Constants::keep`]
    /// or [`Constants::give_up`].
    pub(super) fn claim(&self, number: usize) -> Option<&Constant> {
        let mut state = self.state();
        loop {
            if let Some(constant) = self.get(number) {
                return Some(constant);
            }
            if !state.open.contains(&number) {
                state.open.push(number);
                return None;
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keeps a constant that was claimed, with what it leads to in a heap. Returns by how many bytes more memory is
    /// held than before.
    ///
    /// # Errors
    /// There is no memory, or no time; the constant is still to be computed.
    pub(super) fn keep(&self, number: usize, mut constant: Constant, from: &mut Heap) -> Result<u64, Limit> {
        let mut state = self.state();
        let before = state.held();
        state.memory.adopt(from, &mut constant.values.refs)?;
        state.line_bytes += constant.lines.bytes();
        state.open.retain(|&open| open != number);
        let constant = Arc::new(constant);
        self.there[number].store(Arc::as_ptr(&constant).cast_mut(), Ordering::Release);
        state.kept.push((number, constant));
        self.ended.notify_all();
        Ok(state.held().saturating_sub(before))
    }

    /// Leaves a constant that was claimed to whoever needs it next.
    pub(super) fn give_up(&self, number: usize) {
        self.state().open.retain(|&open| open != number);
        self.ended.notify_all();
    }

    /// Bytes that they hold.
    #[inline]
    pub(crate) fn held(&self) -> u64 {
        if self.there.is_empty() { 0 } else { self.state().held() }
    }

    /// What there is now, to which [`Constants::cut`] goes back.
    pub(super) fn mark(&self) -> Option<Mark> {
        if self.there.is_empty() {
            return None;
        }
        let state = self.state();
        Some(Mark { kept: state.kept.len(), memory: state.memory.mark(), line_bytes: state.line_bytes })
    }

    /// Forgets what was computed since.
    ///
    /// # Safety
    /// Nothing refers to that, and nobody else asks for constants meanwhile.
    pub(super) unsafe fn cut(&self, mark: &Option<Mark>) {
        let Some(mark) = mark else { return };
        let mut state = self.state();
        for (number, _) in &state.kept[mark.kept..] {
            self.there[*number].store(std::ptr::null_mut(), Ordering::Release);
        }
        state.kept.truncate(mark.kept);
        state.memory.cut(&mark.memory);
        state.line_bytes = mark.line_bytes;
    }
}

impl State {
    fn held(&self) -> u64 {
        self.memory.held() + self.line_bytes
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc as LoomArc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A constant that nobody has asked for, and how often it was computed.
    fn unknown() -> (LoomArc<(Constants, AtomicUsize)>, Arc<SlabPool>) {
        let slabs = Arc::new(SlabPool::default());
        let mut constants = Constants::new(&slabs);
        constants.there = Box::new([AtomicPtr::new(std::ptr::null_mut())]);
        (LoomArc::new((constants, AtomicUsize::new(0))), slabs)
    }

    /// Asks for it, and computes it if that is asked for.
    fn ask((constants, computed): &(Constants, AtomicUsize), slabs: &Arc<SlabPool>) -> f64 {
        let constant = match constants.get(0).or_else(|| constants.claim(0)) {
            Some(constant) => constant,
            None => {
                computed.fetch_add(1, Ordering::Relaxed);
                let values = Gathered { reals: vec![0.5], ..Gathered::default() };
                let (trapped, lines, is_told) = (None, Lines::default(), AtomicBool::new(false));
                let constant = Constant { values, trapped, lines, is_told };
                constants.keep(0, constant, &mut Heap::new(slabs.clone())).expect("there is memory");
                constants.get(0).expect("it was kept")
            }
        };
        constant.values.reals[0]
    }

    #[test]
    fn loom_a_constant_is_computed_by_one_execution_and_known_to_all() {
        loom::model(|| {
            let (constants, slabs) = unknown();
            let other = thread::spawn({
                let (constants, slabs) = (constants.clone(), slabs.clone());
                move || ask(&constants, &slabs)
            });
            assert_eq!(ask(&constants, &slabs), 0.5);
            assert_eq!(other.join().unwrap(), 0.5);
            assert_eq!(constants.1.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn loom_who_waits_computes_what_was_given_up() {
        loom::model(|| {
            let (constants, slabs) = unknown();
            assert!(constants.0.claim(0).is_none());
            let other = thread::spawn({
                let (constants, slabs) = (constants.clone(), slabs.clone());
                move || ask(&constants, &slabs)
            });
            constants.0.give_up(0);
            assert_eq!(ask(&constants, &slabs), 0.5);
            assert_eq!(other.join().unwrap(), 0.5);
            assert_eq!(constants.1.load(Ordering::Relaxed), 1);
        });
    }
}
