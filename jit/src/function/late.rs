//! Loads of reals that wait for the first instruction that reads the register.
//!
//! A program takes objects apart where it names the parts: all of a tuple is read, and then there is arithmetic. Loaded
//! in that order, more numbers than there are machine registers would be stored on the stack, only to be loaded from
//! there. What stands in an object never changes, and whether an element is there was looked at in the program's order;
//! so a number may as well be fetched from where it is. That holds until something may allocate, which moves objects,
//! and within a block of the stream, behind which it isn't known by which way the register was written.

use super::Function;
use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::types::F64;
use dualvm_vm::native::Form;

/// For each real register, where its number is to be loaded from: address and offset.
#[derive(Default, Debug)]
pub(super) struct LateLoads {
    places: Vec<Option<(Value, i32)>>,
    /// The registers that were written in this way.
    registers: Vec<u16>,
}

impl LateLoads {
    pub(super) fn new(reals: usize) -> LateLoads {
        LateLoads { places: vec![None; reals], registers: Vec::new() }
    }

    /// Where a register's number is to be loaded from, if it has waited.
    pub(super) fn place(&self, register: u16) -> Option<(Value, i32)> {
        self.places[usize::from(register)]
    }

    /// Whether a register's number stands right behind another's, and both have waited.
    pub(super) fn are_adjacent(&self, first: u16, second: u16) -> bool {
        match [first, second].map(|register| self.place(register)) {
            [Some((place, at)), Some((other, other_at))] => place == other && at + 8 == other_at,
            _ => false,
        }
    }

    /// Something else is written to a register.
    pub(super) fn forget(&mut self, register: u16) {
        self.places[usize::from(register)] = None;
    }
}

/// Whether an instruction neither moves objects nor leads anywhere, and reads reals before all else.
pub(super) fn may_wait(form: &Form) -> bool {
    matches!(
        form,
        Form::Pure(_)
            | Form::Mov { .. }
            | Form::Const { .. }
            | Form::Passive { .. }
            | Form::Elem { .. }
            | Form::PrimalElem { .. }
            | Form::IElem { .. }
            | Form::PElem { .. }
            | Form::Field { .. }
            | Form::PrimalField { .. }
            | Form::IField { .. }
            | Form::PField { .. }
            | Form::Len { .. }
            | Form::SameLen { .. }
            | Form::SameShape { .. }
            | Form::Row { .. }
            | Form::RegionRound { .. }
    )
}

impl Function<'_, '_> {
    /// Writes a register with a number that an object holds.
    pub(super) fn set_real_late(&mut self, register: u16, place: Value, at: i32) {
        self.twins.part(register);
        self.late.places[usize::from(register)] = Some((place, at));
        self.late.registers.push(register);
    }

    /// Loads what a register holds, if that has waited.
    pub(super) fn load_if_late(&mut self, register: u16) {
        if let Some((place, at)) = self.late.places[usize::from(register)].take() {
            let value = self.emit.load(F64, place, at);
            self.set_real(register, value);
        }
    }

    /// Loads all that has waited.
    pub(super) fn load_late(&mut self) {
        while let Some(register) = self.late.registers.pop() {
            self.load_if_late(register);
        }
    }
}
