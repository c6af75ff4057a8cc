//! Calls: of functions and closures, in tail position and not, and recursion.

use super::{CLOSURES, Style, Writer};
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::{FuncId, ValueType};

impl Writer<'_> {
    // Calls.

    /// A register with one less than the counter.
    pub(super) fn less(&mut self) -> Reg {
        let (one, less) = (self.out.int_const(1), self.out.new_int());
        self.out.emit_regs(Op::ISub, &[less.into(), self.counter, one.into()]);
        less.into()
    }

    /// Arguments whose last is the counter of the callee.
    pub(super) fn arguments(&mut self, params: &[ValueType]) -> Vec<Reg> {
        let mut args = self.list(&params[..params.len() - 1]);
        args.push(self.less());
        args
    }

    /// Different registers for results.
    pub(super) fn result_registers(&mut self, types: &[ValueType]) -> Vec<Reg> {
        let mut regs: Vec<Reg> = Vec::new();
        for &ty in types {
            let reg = self.to(ty);
            regs.push(if regs.contains(&reg) {
                let fresh = self.out.new_reg(ty);
                self.adopt(ty, fresh);
                fresh
            } else {
                reg
            });
        }
        regs
    }

    pub(super) fn call(&mut self) {
        if self.operators && self.one_in(2) {
            return self.operator();
        }
        let signatures = self.signatures;
        if self.one_in(3) {
            let which = self.dice.usize(..2);
            let callee = self.from(ValueType::Ref(self.types.closures[which]));
            return self.call_closure(callee, which);
        }
        let func = self.dice.usize(..signatures.len());
        let args = self.arguments(&signatures[func].params);
        let results = self.result_registers(&signatures[func].results);
        self.note(if func as u32 == self.index { "call of itself" } else { "call" });
        self.out.call(FuncId(func as u32), &args, &results);
        self.assigned.extend(results);
    }

    pub(super) fn call_closure(&mut self, callee: Reg, which: usize) {
        let (params, types) = CLOSURES[which];
        // Making an argument may write to any register, but for those that are protected.
        let guarded = self.protected.insert(callee);
        let args = self.arguments(params);
        if guarded {
            self.protected.remove(callee);
        }
        let results = self.result_registers(types);
        self.note("call of a closure");
        self.out.emit(Op::CallClosure, &[Operand::Use(callee), Operand::Uses(args), Operand::Defs(results.clone())]);
        self.assigned.extend(results);
    }

    /// Ends the function: a return, or a tail call if there may be one.
    pub(super) fn leave(&mut self) {
        if self.may_call && self.one_in(3) {
            self.tail_call();
        } else {
            self.ret();
        }
    }

    fn ret(&mut self) {
        if self.index == 0 && (self.style == Style::Loops || self.one_in(2)) {
            // So that more of what was computed matters.
            let sum = self.to(ValueType::Real);
            for n in 0..self.dice.usize(1..5) {
                let (a, b) = (self.from(ValueType::Real), self.from(ValueType::Real));
                let args = if n == 0 { vec![sum, a, b] } else { vec![sum, a, b, sum] };
                self.out.emit_regs(if n == 0 { Op::Add } else { Op::Fma }, &args);
                self.wrote(sum);
            }
            return self.out.ret(&[sum]);
        }
        let regs = self.list(&self.results.clone());
        self.out.ret(&regs);
    }

    fn tail_call(&mut self) {
        let signatures = self.signatures;
        let results = self.results.clone();
        if let Some(which) = (0..2).find(|&which| CLOSURES[which].1 == results)
            && self.one_in(2)
        {
            let callee = self.from(ValueType::Ref(self.types.closures[which]));
            let args = self.arguments(CLOSURES[which].0);
            self.note("tail call of a closure");
            self.out.emit(Op::TailCallClosure, &[Operand::Use(callee), Operand::Uses(args)]);
            return;
        }
        let same: Vec<usize> = (0..signatures.len()).filter(|&f| signatures[f].results == results).collect();
        let func = self.dice.pick(&same);
        let args = self.arguments(&signatures[func].params);
        self.note(if func as u32 == self.index { "tail call of itself" } else { "tail call" });
        self.out.tail_call(FuncId(func as u32), &args);
    }

    /// The end of a function that calls exactly once, so that as many calls are made as the counter says.
    pub(super) fn recursion(&mut self) {
        self.may_call = false;
        for _ in 0..self.dice.usize(0..4) {
            self.straight();
        }
        if self.one_in(3) && !self.conditional(2) {
            return;
        }
        if self.one_in(if self.style == Style::Parallel { 6 } else { 2 }) {
            return self.tail_call();
        }
        if self.style == Style::Parallel {
            self.lopsided_fork();
        } else {
            self.call();
        }
        for _ in 0..self.dice.usize(0..4) {
            self.straight();
        }
        self.ret();
    }
}
