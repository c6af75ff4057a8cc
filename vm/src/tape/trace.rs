//! The way back from a slot to the inputs that it depends on, over tapes whose records are instructions.
//!
//! A record holds the slots of its operands, which were given out before its own. So one walk over a tape from its end
//! backwards finds, for a slot, the record that gives it, for an operand of that the record before, and so on. What a
//! task was given by others leads to their tapes. A task or a level that has not ended knows its beginning only: there
//! the chain waits until control comes back to what is around it ([`Pending`]).

use super::{ForkNode, RerunNode, Tape, TaskNode};
use crate::bytecode::isa::{Bank, Scalar};
use crate::code::{CheckSite, CheckedRecord, Operator, OperatorSite};
use crate::records::import::Import;
use crate::records::pack::Pack;
use crate::records::{Kind, Trailer, link};
use crate::running::checks::step_at;
use crate::running::meter::Account;
use crate::running::program::Program;
use crate::trap::{Followed, NonFinite, Operand, Origin, Pending, Step};
use crate::word::Slot;

/// Steps that a chain shows; the others are counted.
const SHOWN_MAX: usize = 12;
/// Records between two looks at the clock.
const POLLED: u64 = 1 << 14;
/// Records that are looked at for one chain: tasks that import of each other may be walked over more than once.
const RECORDS_MAX: u64 = 1 << 32;

/// A number that an instruction has read, and its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause {
    pub(crate) operand: usize,
    /// Its component.
    pub(crate) part: usize,
    pub(crate) value: f64,
    pub(crate) slot: Slot,
}

impl Cause {
    pub(crate) fn followed(self) -> Followed {
        Followed::new(self.operand, self.part)
    }
}

/// The operand that a chain goes on with: a value before tangents, one that isn't finite before one that is, then the
/// one that is furthest from 1 in magnitude, which is what overflows and divides by zero.
pub(crate) fn foremost(causes: impl Iterator<Item = Cause>) -> Option<Cause> {
    let extent = |cause: &Cause| match cause.value {
        value if !value.is_finite() => f64::INFINITY,
        0.0 => f64::MAX,
        value => value.abs().ln().abs(),
    };
    let is_before = |a: &Cause, b: &Cause| match (a.part == 0, b.part == 0) {
        (true, false) => true,
        (false, true) => false,
        _ => extent(a) > extent(b),
    };
    let causes = causes.filter(|cause| !cause.slot.is_none());
    causes.reduce(|best, cause| if is_before(&cause, &best) { cause } else { best })
}

/// What a chain is made with.
pub(crate) struct Trace<'a> {
    pub(crate) program: &'a Program,
    pub(crate) account: &'a Account,
    /// The task that runs, and where its records end as yet; or one that is swept.
    pub(crate) here: (*const TaskNode, *const u8),
}

/// Where a walk goes on: on a task's tape, from the end of a record backwards.
#[derive(Clone, Copy)]
struct At {
    node: *const TaskNode,
    end: *const u8,
    slot: Slot,
}

impl Tape {
    /// The task that runs, and where its records end as yet.
    pub(crate) fn here(&self) -> (*const TaskNode, *const u8) {
        (self.task.node, self.slabs.top)
    }
}

impl Trace<'_> {
    /// Adds how a number came about that has a slot of the task that runs.
    ///
    /// # Safety
    /// The tapes of the task and of those that it has imported from are there.
    pub(crate) unsafe fn follow(&self, found: &mut NonFinite, slot: Slot) {
        let (node, end) = self.here;
        // SAFETY: promised by the caller.
        unsafe { self.follow_from(found, At { node, end, slot }) }
    }

    /// # Safety
    /// As [`Trace::follow`].
    unsafe fn follow_from(&self, found: &mut NonFinite, mut at: At) {
        let mut seen = 0;
        found.origin = Origin::Given;
        loop {
            seen += 1;
            if seen % POLLED == 0 && (seen > RECORDS_MAX || self.account.poll().is_err()) {
                // Whoever asked for the trap to end in time gets what is known.
                return;
            }
            if at.end.is_null() {
                // SAFETY: promised by the caller.
                match unsafe { self.outside_of_task(found, at) } {
                    Some(outside) => at = outside,
                    None => return,
                }
                continue;
            }
            // SAFETY: promised by the caller: a record ends there.
            match unsafe { self.record(found, at) } {
                Some(before) => at = before,
                None => return,
            }
        }
    }

    /// Adds how a number came about that has a slot of a task, which may run or have ended.
    ///
    /// # Safety
    /// As [`Trace::follow`].
    pub(crate) unsafe fn follow_on_tape_of(&self, found: &mut NonFinite, node: *const TaskNode, slot: Slot) {
        // SAFETY: promised by the caller.
        unsafe {
            if let Some(at) = self.on_tape_of(found, node, slot) {
                self.follow_from(found, at);
            }
        }
    }

    /// Goes over a record. Nothing if the chain ends there.
    ///
    /// # Safety
    /// As [`Trace::follow`]; the tape is written in a program whose records are instructions.
    unsafe fn record(&self, found: &mut NonFinite, at: At) -> Option<At> {
        // SAFETY: promised by the caller: each part of a record stands where its kind says.
        unsafe {
            let Trailer { kind, first, at: trailer } = Trailer::before(at.end);
            // Which of the slots of the record it is, if any.
            let nth = |slots: usize| at.slot.index().checked_sub(first.index()).filter(|&n| n < slots);
            let passed = |end: *const u8| Some(At { end, ..at });
            match kind {
                Kind::Segment(id) => {
                    let start = self.program.segment(id).start(trailer);
                    let Some(given) = nth(self.program.segment(id).slots as usize) else { return passed(start) };
                    let recorded = Recorded { program: self.program, id, start };
                    let (mut step, cause) = (recorded.step(), foremost(recorded.causes().into_iter()));
                    step.component = recorded.component(given);
                    step.followed = cause.map(Cause::followed);
                    add(found, step);
                    let Some(cause) = cause else {
                        found.origin = Origin::Constant;
                        return None;
                    };
                    Some(At { end: start, slot: cause.slot, ..at })
                }
                Kind::Pack => {
                    let Pack { count, slots } = Pack::read(trailer);
                    let slot = nth(count).map_or(at.slot, |n| slots.add(n).read_unaligned());
                    if slot.is_none() {
                        found.origin = Origin::Constant;
                        return None;
                    }
                    Some(At { end: slots.cast(), slot, ..at })
                }
                Kind::Import => {
                    let import = Import::read_single(trailer);
                    if nth(1).is_none() { passed(import.start) } else { self.imported(found, import, 0) }
                }
                Kind::ImportRange => {
                    let import = Import::read_range(trailer);
                    match nth(import.number as usize) {
                        None => passed(import.start),
                        Some(n) => self.imported(found, import, n as u32),
                    }
                }
                Kind::Link => passed(link::read(trailer)),
                Kind::Fork => {
                    let fork = &*link::read::<ForkNode>(trailer);
                    Some(given_by_task(fork, at.slot).unwrap_or(At { end: fork.before, ..at }))
                }
                Kind::Rerun => {
                    let node = &*link::read::<RerunNode>(trailer);
                    if node.outcome.is_none() || at.slot < node.outcome {
                        return passed(node.before);
                    }
                    let slot = self.operator(found, node)?;
                    Some(At { end: node.before, slot, ..at })
                }
                // No program whose records are instructions writes these.
                _ => None,
            }
        }
    }
}

impl Trace<'_> {
    /// Goes on with a slot of the owner of what was imported.
    ///
    /// # Safety
    /// As [`Trace::follow`].
    unsafe fn imported(&self, found: &mut NonFinite, import: Import, n: u32) -> Option<At> {
        // SAFETY: promised by the caller.
        unsafe { self.on_tape_of(found, import.owner.task(), import.slot.offset(n)) }
    }

    /// Goes on at the end of the tape of a task, or leaves that to when it runs again.
    ///
    /// # Safety
    /// As [`Trace::follow`].
    unsafe fn on_tape_of(&self, found: &mut NonFinite, node: *const TaskNode, slot: Slot) -> Option<At> {
        // SAFETY: promised by the caller.
        let end = if node == self.here.0 { self.here.1 } else { unsafe { (*node).end } };
        if end.is_null() && node != self.here.0 {
            found.pending = Some(Pending { node: node.expose_provenance(), slot: slot.0, from_start: false });
            return None;
        }
        Some(At { node, end, slot })
    }

    /// Goes on with what a task was given when it began.
    ///
    /// # Safety
    /// As [`Trace::follow`].
    unsafe fn outside_of_task(&self, found: &mut NonFinite, At { node, slot, .. }: At) -> Option<At> {
        // SAFETY: promised by the caller.
        unsafe {
            if slot.index() <= (*node).captures_len as usize {
                let outside = *(*node).captures.add(slot.index() - 1);
                return self.on_tape_of(found, (*node).parent, outside);
            }
        }
        found.pending = Some(Pending { node: node.expose_provenance(), slot: slot.0, from_start: true });
        None
    }

    /// Adds what has come out of an operator that was recorded, and goes on with one of its arguments that are reals.
    ///
    /// # Safety
    /// As [`Trace::follow`].
    pub(crate) unsafe fn operator(&self, found: &mut NonFinite, node: &RerunNode) -> Option<Slot> {
        // SAFETY: promised by the caller; the lists have the lengths that the site says.
        unsafe {
            let reals = (*node.site).handed().reals;
            let number = |n: usize| (*node.reals.add(n << node.depth), (*node.words.add(n << node.depth)).slot());
            self.operator_with(found, &*node.site, (0..reals).map(number))
        }
    }

    /// The same of one that was given these reals, which have slots here.
    pub(crate) fn operator_with(
        &self,
        found: &mut NonFinite,
        site: &OperatorSite,
        reals: impl Iterator<Item = (f64, Slot)>,
    ) -> Option<Slot> {
        let reals: Vec<(f64, Slot)> = reals.collect();
        let causes = reals.iter().enumerate().map(|(operand, &(value, slot))| Cause { operand, part: 0, value, slot });
        let cause = foremost(causes);
        let operand = |&(value, _): &(f64, Slot)| Operand { value: Scalar::Real(value), tangents: Vec::new() };
        let step = Step {
            operation: name_of(site.operator),
            function: self.program.def.functions[site.func.index()].name.clone(),
            place: None,
            operands: reals.iter().map(operand).collect(),
            result: None,
            rounds: Vec::new(),
            component: 0,
            followed: cause.map(Cause::followed),
        };
        add(found, step);
        cause.map(|cause| cause.slot)
    }
}

/// What a message calls an operator.
fn name_of(operator: Operator) -> &'static str {
    match operator {
        Operator::Jvp => "jvp",
        Operator::Vjp => "vjp",
        Operator::Checkpoint => "checkpoint",
        Operator::Primal => "primal",
        Operator::Once => "once",
        Operator::CustomVjp => "custom_vjp",
        Operator::CustomJvp => "custom_jvp",
        Operator::Host => "call_import",
    }
}

/// Adds a step to a chain, if it is to be shown.
fn add(found: &mut NonFinite, step: Step) {
    match found.chain.len() {
        SHOWN_MAX.. => found.omitted += 1,
        _ => found.chain.push(step),
    }
}

/// The place on the tape of a fork's task of what is a slot of the task that forked.
///
/// # Safety
/// As [`Trace::follow`]; the fork has ended.
unsafe fn given_by_task(fork: &ForkNode, slot: Slot) -> Option<At> {
    // SAFETY: promised by the caller.
    unsafe {
        for node in fork.tasks() {
            let single = node.results().iter().find(|[_, parent]| *parent == slot).map(|&[child, _]| child);
            let of_range = slot.index().checked_sub(node.range.parent.index()).filter(|&n| n < node.range.len as usize);
            let range = of_range.filter(|_| !node.range.child.is_none()).map(|n| node.range.child.offset(n as u32));
            if let Some(child) = single.or(range) {
                return Some(At { node, end: node.end, slot: child });
            }
        }
    }
    None
}

/// The record of an instruction.
#[derive(Clone, Copy)]
pub(crate) struct Recorded<'a> {
    pub(crate) program: &'a Program,
    /// The number of the segment that the instruction is.
    pub(crate) id: u32,
    /// Where the record begins.
    pub(crate) start: *const u8,
}

impl Recorded<'_> {
    /// The instruction, and what of it stands where in the record.
    fn site(&self) -> (&CheckSite, &CheckedRecord) {
        let site = self.program.checked(self.id).2;
        (site, site.record.as_ref().expect("an instruction that has a record says what is in it"))
    }

    /// A component of a real input, if it was saved.
    fn real(&self, input: u32) -> Option<f64> {
        let (_, record) = self.site();
        let nth = record.saved_reals.iter().position(|&saved| saved == input)?;
        let numbers = self.program.segment(self.id).layout.numbers;
        // SAFETY: it is a record of the segment.
        Some(unsafe { self.start.add(numbers.real(nth)).cast::<f64>().read_unaligned() })
    }

    /// An integer input, if it was saved.
    fn int(&self, input: u32) -> Option<i64> {
        let (_, record) = self.site();
        let nth = record.saved_ints.iter().position(|&saved| saved == input)?;
        let numbers = self.program.segment(self.id).layout.numbers;
        // SAFETY: it is a record of the segment.
        Some(unsafe { self.start.add(numbers.int(nth)).cast::<i64>().read_unaligned() })
    }

    /// Everything that the instruction was given.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> + Clone {
        let (_, record) = self.site();
        let numbers = self.program.segment(self.id).layout.numbers;
        let saved = record.saved_reals.iter().enumerate().filter(|&(_, &input)| input != u32::MAX);
        let start = self.start;
        // SAFETY: it is a record of the segment.
        saved.map(move |(nth, _)| unsafe { start.add(numbers.real(nth)).cast::<f64>().read_unaligned() })
    }

    /// The operands that have slots.
    pub(crate) fn causes(&self) -> Vec<Cause> {
        let (site, record) = self.site();
        let layout = self.program.segment(self.id).layout;
        let mut causes = Vec::new();
        for (nth, &input) in record.slots.iter().enumerate() {
            // SAFETY: it is a record of the segment.
            let slot = unsafe { self.start.add(layout.slot(nth)).cast::<Slot>().read_unaligned() };
            let (real, part) = (input % record.real_inputs, (input / record.real_inputs) as usize);
            let is_it = |register: Bank, number| register == Bank::Real && number == Some(real);
            let operand = site.operands.iter().position(|operand| is_it(operand.register.bank, operand.input));
            if let Some(operand) = operand {
                causes.push(Cause { operand, part, value: self.real(input).unwrap_or(1.0), slot });
            }
        }
        causes.sort_by_key(|cause| (cause.part, cause.operand));
        causes
    }

    /// Which component of the result has the n-th slot that the record gives.
    fn component(&self, n: usize) -> usize {
        self.site().1.components.get(n).map_or(0, |&component| component as usize)
    }

    /// The operand that a contribution of the adjoint goes to.
    pub(crate) fn operand_of(&self, contribution: usize) -> Option<usize> {
        let (site, record) = self.site();
        let real = record.slots[contribution] % record.real_inputs;
        site.operands.iter().position(|operand| operand.register.bank == Bank::Real && operand.input == Some(real))
    }

    /// What the instruction was given and has computed.
    pub(crate) fn step(&self) -> Step {
        let (site, record) = self.site();
        let (func, _, _) = self.program.checked(self.id);
        let operands: Vec<Operand> = site
            .operands
            .iter()
            .map(|operand| match (operand.register.bank, operand.input) {
                (Bank::Real, None) => {
                    Operand { value: Scalar::Real(f64::from_bits(operand.constant)), tangents: Vec::new() }
                }
                (Bank::Real, Some(input)) => {
                    let parts = (1..site.operand_parts).map(|part| self.real(input + part * record.real_inputs));
                    let tangents = parts.collect::<Option<Vec<f64>>>().unwrap_or_default();
                    Operand { value: Scalar::Real(self.real(input).unwrap_or(f64::NAN)), tangents }
                }
                (_, input) => {
                    let value = input.and_then(|input| self.int(input)).unwrap_or_default();
                    Operand { value: Scalar::Int(value), tangents: Vec::new() }
                }
            })
            .collect();
        let values: Vec<Scalar> = operands.iter().map(|operand| operand.value).collect();
        let result = match crate::bytecode::isa::evaluate(site.op, &values) {
            Some(Scalar::Real(result)) => result,
            _ => f64::NAN,
        };
        let rounds = site.loops.iter().filter_map(|counted| Some((counted.head, self.int(counted.input)?))).collect();
        step_at(self.program, (func, site.inst), (site.op.info().mnemonic, operands, result), rounds)
    }
}
