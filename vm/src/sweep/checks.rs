//! Sweeping in programs that are looked at: the first contribution that isn't finite, out of a finite adjoint other
//! than zero, is a trap, and so is a sum of finite ones that isn't.
//!
//! A record is an instruction, so a contribution is an adjoint times a partial derivative of it. Strong products are as
//! they are: what an adjoint of zero meets isn't looked at.

use super::tasks::SweepRun;
use super::{OpenTask, Sweep};
use crate::code::run_straight;
use crate::records::segment::SegmentCode;
use crate::running::checks::is_new;
use crate::running::trace::Place;
use crate::tape::trace::{Recorded, Trace, foremost};
use crate::trap::{NonFinite, Origin, Role, TrapKind};
use crate::word::Slot;

/// A number of a sweep that isn't finite, of the record of an instruction.
struct Found {
    role: Role,
    number: f64,
    adjoint: f64,
    /// Which contribution of the record it is.
    contribution: usize,
}

impl Sweep {
    /// Runs the adjoint of the record of an instruction. Returns the record's start.
    ///
    /// # Safety
    /// `trailer` is that of a record of the segment of this number, in a program that is looked at.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn checked_segment(
        &mut self,
        run: &SweepRun<'_>,
        frame: &mut OpenTask<'_>,
        trailer: *const u32,
        (id, first): (u32, Slot),
    ) -> Result<*const u8, TrapKind> {
        let code = run.program.segment(id);
        // SAFETY: promised by the caller.
        let start = unsafe { code.start(trailer) };
        let outputs = frame.adjoints()[first.index()..first.index() + code.slots as usize].to_vec();
        if outputs.iter().all(|&adjoint| adjoint == 0.0) {
            return Ok(start);
        }
        let recorded = Recorded { program: run.program, id, start };
        // SAFETY: promised by the caller; derived code stays in its frame.
        unsafe {
            self.run_adjoint(code, &outputs, start);
            let slots = start.add(code.layout.slot(0)).cast::<Slot>();
            for (n, &register) in code.contributions.iter().enumerate() {
                let (slot, number) = (slots.add(n).read_unaligned(), self.reals[usize::from(register)]);
                let others = recorded.numbers().chain(outputs.iter().copied());
                // The first of the components that isn't zero.
                let adjoint = outputs.iter().copied().find(|&adjoint| adjoint != 0.0).unwrap_or_default();
                // Nobody asks for the adjoint of a constant.
                if !slot.is_none() && is_new(number, others) {
                    let found = Found { role: Role::Adjoint, number, adjoint, contribution: n };
                    return Err(self.non_finite(run, frame, recorded, found));
                }
                let before = frame.adjoints()[slot.index()];
                frame.add(slot, number);
                let sum = frame.adjoints()[slot.index()];
                if !slot.is_none() && is_new(sum, [before, number].into_iter()) {
                    let found = Found { role: Role::AdjointSum, number: sum, adjoint, contribution: n };
                    return Err(self.non_finite(run, frame, recorded, found));
                }
            }
        }
        Ok(start)
    }

    /// Runs the adjoint of a segment, whose outputs have these adjoints.
    ///
    /// # Safety
    /// `start` is that of a record of the segment.
    unsafe fn run_adjoint(&mut self, code: &SegmentCode, outputs: &[f64], start: *const u8) {
        if self.reals.len() < code.adjoint.reals {
            self.reals.resize(code.adjoint.reals, 0.0);
        }
        if self.ints.len() < code.adjoint.ints {
            self.ints.resize(code.adjoint.ints, 0);
        }
        self.reals[code.output(0)..code.output(outputs.len())].copy_from_slice(outputs);
        let (reals, ints) = (self.reals.as_mut_ptr(), self.ints.as_mut_ptr());
        // SAFETY: promised by the caller; the frame is large enough, and derived code stays in it.
        unsafe {
            code.layout.numbers.load(start, reals, ints);
            run_straight(&code.adjoint.code, reals, ints);
        }
    }

    /// The trap of a number, with the place of the instruction as its only frame.
    ///
    /// # Safety
    /// As [`Sweep::checked_segment`].
    unsafe fn non_finite(
        &mut self,
        run: &SweepRun<'_>,
        frame: &OpenTask<'_>,
        recorded: Recorded<'_>,
        Found { role, number, adjoint, contribution }: Found,
    ) -> TrapKind {
        let operand = recorded.operand_of(contribution);
        let mut found = NonFinite {
            role,
            number,
            step: recorded.step(),
            adjoint: Some(adjoint),
            operand,
            around: Vec::new(),
            chain: Vec::new(),
            omitted: 0,
            origin: Origin::Constant,
            pending: None,
        };
        if let Some(cause) = foremost(recorded.causes().into_iter()) {
            found.step.followed = Some(cause.followed());
            let here = (std::ptr::from_ref(frame.node), recorded.start);
            let trace = Trace { program: run.program, account: run.account, here };
            // SAFETY: promised by the caller: the tapes are there while they are swept.
            unsafe { trace.follow(&mut found, cause.slot) };
        }
        let (func, (mode, position), _) = run.program.checked(recorded.id);
        if self.trace.is_empty() {
            self.trace.push(Place { func, mode, position });
        }
        TrapKind::NonFinite(Box::new(found))
    }
}
