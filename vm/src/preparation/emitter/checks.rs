//! What code has besides where every instruction is looked at: the checks, copies of operands, and the rounds of loops.

use super::Emitter;
use crate::bytecode::isa::{Bank, Reg};
use crate::code::{CheckSite, CheckedOperand, CheckedRecord, CountedLoop, Inst, IntReg, Position, RealReg};
use crate::preparation::checks::Checks;
use crate::preparation::segmentation::Segment;
use crate::running::kinks::has_kinks;

/// The position of an instruction that was not emitted yet.
pub(super) const NOWHERE: Position = Position(u32::MAX);

/// A counter before the first round of its loop.
const BEFORE: i64 = -1;

/// What is known of an instruction before it is emitted.
pub(super) struct Check {
    at: u32,
    operands: Box<[CheckedOperand]>,
    loops: Box<[CountedLoop]>,
}

impl Emitter<'_> {
    /// The same emitter, of code that is looked at.
    pub(in crate::preparation) fn with_checks(mut self, checks: Checks) -> Self {
        self.checks = Some(checks);
        self
    }

    /// Control may come to an instruction: here, or before what was put in front of it.
    pub(super) fn arrive(&mut self, at: u32) {
        let here = self.here();
        let position = &mut self.position[at as usize];
        if self.checks.is_none() || *position == NOWHERE {
            *position = here;
        }
    }

    /// Counts a round of the loop that a block begins, if it does. All counters begin with the function.
    pub(super) fn begin_block(&mut self, block: usize, start: u32) {
        let Some(checks) = &self.checks else { return };
        let (counter, one) = (checks.counter_of(block), checks.one);
        if block == 0 {
            let counters: Vec<u16> = checks.counters().collect();
            for counter in counters {
                self.push(start, Inst::IConst { dst: IntReg(counter), value: BEFORE });
            }
        }
        if let Some(counter) = counter {
            self.arrive(start);
            self.push(start, Inst::IConst { dst: IntReg(one), value: 1 });
            let (dst, a, b) = (IntReg(counter), IntReg(counter), IntReg(one));
            self.push(start, Inst::IAdd { dst, a, b });
        }
    }

    /// Control leaves a block at an instruction: loops that it may enter begin.
    pub(super) fn reset_counters(&mut self, block: usize, at: u32) {
        let Some(checks) = &self.checks else { return };
        let counters = checks.entered_from(block).to_vec();
        if !counters.is_empty() {
            self.arrive(at);
        }
        for counter in counters {
            self.push(at, Inst::IConst { dst: IntReg(counter), value: BEFORE });
        }
    }

    /// Copies what an instruction reads and writes.
    pub(super) fn copy_operand(&mut self, at: u32) {
        let Some(checks) = &self.checks else { return };
        let (copied, copy, depth) = (checks.copied(at), checks.copy, self.mode.depth());
        let Some(copied) = copied else { return };
        self.arrive(at);
        for part in 0..1u16 << depth {
            let (dst, src) = (RealReg((copy << depth) + part), RealReg((copied << depth) + part));
            let recording = self.mode.is_recording();
            self.push(at, if recording { Inst::Mov { dst, src } } else { Inst::PrimalMov { dst, src } });
        }
    }

    /// What is to be known of the instruction that a segment is, if it is looked at.
    pub(super) fn check_of(&self, segment: &Segment) -> Option<Check> {
        let checks = self.checks.as_ref()?;
        let (operands, loops) = checks.site(self.body, segment);
        Some(Check { at: segment.start, operands, loops })
    }

    /// Looks at an instruction that has just computed an integer out of reals.
    pub(super) fn check_comparison(&mut self, at: u32) {
        let (Some(_), body) = (&self.checks, self.body) else { return };
        let inst = &body.code[at as usize];
        if !inst.op.is_scalar() || !has_kinks(inst.op) {
            return;
        }
        let mut operands = Vec::with_capacity(2);
        body.for_each_reg(inst, |register, def| {
            if !def {
                operands.push(CheckedOperand { register, input: None, constant: 0 });
            }
        });
        self.check(Check { at, operands: operands.into(), loops: Box::default() }, 0, None);
    }

    /// Looks at the instruction, so many components of whose result were computed.
    pub(super) fn check(&mut self, check: Check, parts: u32, record: Option<CheckedRecord>) {
        let Check { at, mut operands, loops } = check;
        let (inst, depth) = (self.body.code[at as usize], self.mode.depth());
        let lowest = |register: Reg| match register.bank {
            Bank::Real => Reg { index: register.index << depth, ..register },
            _ => register,
        };
        operands.iter_mut().for_each(|operand| operand.register = lowest(operand.register));
        if record.is_some() {
            self.checked.push(self.here());
        }
        let result = if parts == 0 { Reg::int(inst.a) } else { lowest(Reg::real(inst.a)) };
        let operand_parts = 1 << depth;
        let site = CheckSite { op: inst.op, inst: at, operands, result, parts, operand_parts, loops, record };
        let site = self.stream.checks.push(site);
        self.push(at, Inst::Check { site });
    }
}
