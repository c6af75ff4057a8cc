//! Constants: functions without parameters whose results a run computes once. None of them calls anything but constants
//! after it, so that none leads back to itself.

use super::{Signature, Types, Writer};
use dualvm_vm::isa::{Op, Operand};
use dualvm_vm::module::ValueType;

/// What the constants of a program give.
pub(super) fn signatures(types: &Types, dice: &mut super::Dice) -> Vec<Signature> {
    use ValueType::{Int, Real, Ref};
    if !dice.one_in(3) {
        return Vec::new();
    }
    let any = [Real, Real, Int, Ref(types.reals), Ref(types.ints), Ref(types.pair), Ref(types.table)];
    let any = [&any[..], &[Ref(types.variant), Ref(types.list), Ref(types.links), Ref(types.rows)]].concat();
    let of = |dice: &mut super::Dice| (0..dice.usize(0..5)).map(|_| dice.pick(&any)).collect();
    (0..dice.usize(1..5)).map(|_| Signature { params: Vec::new(), results: of(dice) }).collect()
}

impl Writer<'_> {
    /// Asks for a constant, if there is one that may be asked for here.
    pub(super) fn ask_for_constant(&mut self) {
        let own = (self.index as usize + 1).saturating_sub(self.first_constant);
        if own >= self.constants.len() {
            return self.scalar();
        }
        let which = self.dice.usize(own..self.constants.len());
        let defs = self.result_registers(&self.constants[which].results);
        self.note("once");
        let func = (self.first_constant + which) as u32;
        self.out.emit(Op::Once, &[Operand::Func(func), Operand::Defs(defs.clone())]);
        self.assigned.extend(defs);
    }

    /// Writes the function of a constant.
    pub(super) fn write_constant(&mut self) {
        self.registers();
        self.may_call = false;
        for _ in 0..self.dice.usize(0..8) {
            match self.dice.u32(..8) {
                0 | 1 => self.ask_for_constant(),
                2 => self.mov(),
                3 => _ = self.make(ValueType::Ref(self.types.list)),
                _ => self.scalar(),
            }
        }
        if self.traps && self.one_in(3) {
            self.note("constant that traps");
            return self.out.trap(self.message);
        }
        self.leave();
    }
}
