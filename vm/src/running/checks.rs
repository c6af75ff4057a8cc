//! Looking at what instructions have computed, in programs that are made for it ([`crate::preparation`], "checks"), and
//! the trap of the first number that isn't finite.

use super::kinks::has_kinks;
use super::program::Program;
use super::registers::Registers;
use super::worker::Worker;
use crate::bytecode::isa::{Bank, Scalar};
use crate::bytecode::module::FuncId;
use crate::code::{CheckSite, CheckedOperand, OperatorSite, Position};
use crate::tape::trace::{self, Cause, Trace};
use crate::tape::{RerunNode, TaskNode};
use crate::trap::{NonFinite, Operand, Origin, Role, Round, Step, TrapKind};
use crate::word::Slot;

/// Rounds of loops around calls that are told: the innermost ones.
const AROUND_MAX: usize = 16;

/// Whether a number that came out of others is one that the run looks for: NaN out of none, or infinite out of finite
/// ones.
pub(crate) fn is_new(number: f64, others: impl Iterator<Item = f64> + Clone) -> bool {
    match number {
        _ if number.is_finite() => false,
        _ if number.is_nan() => !others.clone().any(f64::is_nan),
        _ => others.clone().all(f64::is_finite),
    }
}

impl CheckSite {
    /// The components of an operand, the lowest first. An integer has one.
    ///
    /// # Safety
    /// The frame has the registers.
    unsafe fn parts_of(&self, operand: &CheckedOperand, frame: Registers) -> impl Iterator<Item = f64> + Clone {
        let parts = if operand.register.bank == Bank::Real { self.operand_parts as usize } else { 0 };
        let first = usize::from(operand.register.index);
        // SAFETY: promised by the caller.
        (first..first + parts).map(move |register| unsafe { *frame.reals.add(register) })
    }

    /// Whether the reals that it has read are active, and not the same one.
    ///
    /// # Safety
    /// The frame has the registers, and words.
    unsafe fn is_active(&self, frame: Registers) -> bool {
        let reals = self.operands.iter().filter(|operand| operand.register.bank == Bank::Real);
        // SAFETY: promised by the caller.
        let slot = |register: usize| unsafe { (*frame.words.add(register)).slot() };
        let slots: Vec<Slot> = reals
            .flat_map(|operand| (0..self.operand_parts as usize).map(|part| usize::from(operand.register.index) + part))
            .map(slot)
            .collect();
        let (first, second) = slots.split_at(slots.len().min(self.operand_parts as usize));
        slots.iter().any(|slot| !slot.is_none()) && first != second
    }

    /// The component of the result that the run looks for.
    ///
    /// # Safety
    /// The instruction was executed just now, in a frame that has the registers.
    #[inline]
    unsafe fn found(&self, frame: Registers) -> Option<usize> {
        // SAFETY: promised by the caller.
        unsafe {
            let result = |part: usize| *frame.reals.add(usize::from(self.result.index) + part);
            let others = self.operands.iter().flat_map(|operand| self.parts_of(operand, frame));
            (0..self.parts as usize).find(|&part| is_new(result(part), others.clone()))
        }
    }

    /// What the instruction was given and has computed.
    ///
    /// # Safety
    /// As [`CheckSite::found`].
    unsafe fn step(&self, program: &Program, func: FuncId, frame: Registers) -> Step {
        // SAFETY: promised by the caller.
        unsafe {
            let operand = |operand: &CheckedOperand| match operand.register.bank {
                Bank::Real => {
                    let mut parts = self.parts_of(operand, frame);
                    let value = Scalar::Real(parts.next().unwrap_or_default());
                    Operand { value, tangents: parts.collect() }
                }
                _ => {
                    let value = Scalar::Int(*frame.ints.add(usize::from(operand.register.index)));
                    Operand { value, tangents: Vec::new() }
                }
            };
            let operands = self.operands.iter().map(operand).collect();
            let round = |register: u16| *frame.ints.add(usize::from(register));
            let rounds = self.loops.iter().map(|counted| (counted.head, round(counted.rounds))).collect();
            let result = *frame.reals.add(usize::from(self.result.index));
            step_at(program, (func, self.inst), (self.op.info().mnemonic, operands, result), rounds)
        }
    }
}

/// An execution of the instruction at a place, with the rounds of loops, which are told by instructions.
pub(crate) fn step_at(
    program: &Program,
    (func, inst): (FuncId, u32),
    (operation, operands, result): (&'static str, Vec<Operand>, f64),
    rounds: Vec<(u32, i64)>,
) -> Step {
    let function = &program.def.functions[func.index()];
    let place = |inst| function.body.location(inst).map(|location| program.def.debug.own_place(location));
    let rounds = rounds.into_iter().map(|round| round_at(program, func, round)).collect();
    let (function, place) = (function.name.clone(), place(inst));
    Step { operation, function, place, operands, result: Some(result), rounds, component: 0, followed: None }
}

/// A round of a loop, which is told by an instruction.
fn round_at(program: &Program, func: FuncId, (head, round): (u32, i64)) -> Round {
    let place = program.def.functions[func.index()].body.location(head);
    Round { place: place.map(|location| program.def.debug.own_place(location)), round: round.max(0) as u64 }
}

impl Worker {
    /// Looks at what an instruction has computed.
    ///
    /// # Safety
    /// **Running**; the site is of the running function's code, whose frame it is.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn check(&mut self, site: &CheckSite, func: FuncId, frame: Registers) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller; **Running**, so that the program is there.
        unsafe {
            if let Some(kinks) = self.exec.info().kinks
                && has_kinks(site.op)
                && self.exec.mode.is_recording()
                && site.is_active(frame)
            {
                let reals: Vec<f64> =
                    site.operands.iter().filter_map(|operand| site.parts_of(operand, frame).next()).collect();
                kinks.meet((func, site.inst), site.op, &reals);
            }
            if !(*self.exec.program).traps_non_finite() {
                return Ok(());
            }
            match site.found(frame) {
                None => Ok(()),
                Some(part) => Err(self.non_finite(&*self.exec.program, site, (func, part), frame)),
            }
        }
    }

    /// Adds the rounds of the loops around a call, or what runs functions inside, that a trap of a number has left.
    ///
    /// # Safety
    /// **Running**; `ints` are the integers of the frame of this function, which is at this place.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn add_rounds(&self, kind: &mut TrapKind, (func, at): (FuncId, Position), ints: *const i64) {
        let TrapKind::NonFinite(found) = kind else { return };
        if found.around.len() >= AROUND_MAX {
            return;
        }
        // SAFETY: promised by the caller; **Running**.
        unsafe {
            let program = &*self.exec.program;
            let stream = program.stream(func, self.exec.mode);
            let inst = stream.origin[at.index()];
            let around = stream.counted.iter().find(|counted| counted.block.contains(&inst));
            for counted in around.iter().flat_map(|counted| counted.loops.iter().rev()) {
                if found.around.len() < AROUND_MAX {
                    let round = (counted.head, *ints.add(usize::from(counted.rounds)));
                    found.around.push(round_at(program, func, round));
                }
            }
        }
    }

    /// The trap of a component of what an instruction has computed.
    ///
    /// # Safety
    /// As [`Worker::check`].
    unsafe fn non_finite(
        &self,
        program: &Program,
        site: &CheckSite,
        (func, part): (FuncId, usize),
        frame: Registers,
    ) -> TrapKind {
        // SAFETY: promised by the caller.
        unsafe {
            let mut found = NonFinite {
                role: if part == 0 { Role::Primal } else { Role::Tangent },
                number: *frame.reals.add(usize::from(site.result.index) + part),
                step: site.step(program, func, frame),
                adjoint: None,
                operand: None,
                around: Vec::new(),
                chain: Vec::new(),
                omitted: 0,
                origin: Origin::Constant,
                pending: None,
            };
            if self.exec.mode.is_recording() {
                let word = |at: usize| (*frame.words.add(at)).slot();
                let causes =
                    site.operands.iter().enumerate().filter(|(_, operand)| operand.register.bank == Bank::Real);
                let causes = causes.flat_map(|(number, operand)| {
                    let first = usize::from(operand.register.index);
                    let numbers = site.parts_of(operand, frame).enumerate();
                    numbers.map(move |(part, value)| Cause { operand: number, part, value, slot: word(first + part) })
                });
                if let Some(cause) = trace::foremost(causes) {
                    found.step.followed = Some(cause.followed());
                    self.trace_from(self.exec.tape.here().1).follow(&mut found, cause.slot);
                }
            }
            TrapKind::NonFinite(Box::new(found))
        }
    }

    /// Goes on with the chain of a trap that has left a fork or an operator, in the task that runs now, whose records
    /// end at `end`. `outside` says of a slot that was there when a level began which slot of which task that was
    /// outside.
    ///
    /// # Safety
    /// **Running**, and recording; the tapes of all tasks that have run are there.
    pub(super) unsafe fn follow_outwards(
        &self,
        kind: &mut TrapKind,
        end: *const u8,
        outside: impl Fn(*const TaskNode, Slot) -> Option<(*const TaskNode, Slot)>,
    ) {
        let TrapKind::NonFinite(found) = kind else { return };
        let Some(pending) = found.pending else { return };
        let (node, slot) = (std::ptr::with_exposed_provenance(pending.node), Slot(pending.slot));
        // SAFETY: promised by the caller; **Running**.
        unsafe {
            let (own, _) = self.exec.tape.here();
            let place = if node == own && !pending.from_start { Some((node, slot)) } else { outside(node, slot) };
            let Some((node, slot)) = place else { return };
            found.pending = None;
            if slot.is_none() {
                found.origin = Origin::Constant;
            } else {
                self.trace_from(end).follow_on_tape_of(found, node, slot);
            }
        }
    }

    /// What follows numbers of the task that runs, whose records end at `end`.
    ///
    /// # Safety
    /// **Running**.
    unsafe fn trace_from(&self, end: *const u8) -> Trace<'_> {
        // SAFETY: promised by the caller.
        let (program, account) = unsafe { (&*self.exec.program, self.exec.account()) };
        Trace { program, account, here: (self.exec.tape.here().0, end) }
    }

    /// Says of a trap in what an operator runs without recording it which of the operator's arguments are real.
    ///
    /// # Safety
    /// **Running**; `args` are what the operator takes, in the mode that runs.
    #[cold]
    pub(super) unsafe fn outside_of_operator(&self, kind: &mut TrapKind, site: &OperatorSite, args: Registers) {
        let TrapKind::NonFinite(found) = kind else { return };
        let mode = self.exec.mode;
        if !mode.is_recording() || !found.chain.is_empty() || found.step.followed.is_some() {
            return;
        }
        // SAFETY: promised by the caller.
        unsafe {
            let number = |n: usize| (*args.reals.add(n << mode.depth()), (*args.words.add(n << mode.depth())).slot());
            let trace = self.trace_from(self.exec.tape.here().1);
            if let Some(slot) = trace.operator_with(found, site, (0..site.handed().reals).map(number)) {
                trace.follow(found, slot);
            }
        }
    }

    /// The same of the sweep of an operator's record, on the tape of this task.
    ///
    /// # Safety
    /// **Running**; the task has ended, and its tape is there.
    #[cold]
    pub(super) unsafe fn outside_of_rule(&self, kind: &mut TrapKind, node: &RerunNode, task: *const TaskNode) {
        let TrapKind::NonFinite(found) = kind else { return };
        if !found.chain.is_empty() || found.step.followed.is_some() {
            return;
        }
        // SAFETY: promised by the caller.
        unsafe {
            let (program, account) = (&*self.exec.program, self.exec.account());
            let trace = Trace { program, account, here: (task, node.before) };
            if let Some(slot) = trace.operator(found, node) {
                trace.follow(found, slot);
            }
        }
    }
}
