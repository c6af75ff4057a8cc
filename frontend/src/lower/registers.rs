//! Which register holds which variable, and which registers are free.

use crate::arena::Table;
use crate::core::Var;
use crate::hash::HashMap;
use dualvm_vm::builder::FunctionBuilder;
use dualvm_vm::isa::Reg;
use dualvm_vm::module::ValueType;

/// A computed value that an instruction will read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held {
    /// It is a variable's.
    Var(Var),
    /// It is nobody else's.
    Temp(Reg, ValueType),
    /// It is a constant's, for the whole function.
    Constant(Reg),
}

/// Where a variable lives.
#[derive(Clone, Copy, Default, Debug)]
struct Home {
    reg: Option<Reg>,
    /// Operands that are evaluated but not read yet.
    holds: u32,
    /// No use is left to be evaluated.
    dead: bool,
    /// The register stays the variable's until it is taken away.
    pinned: bool,
}

/// The registers of a function.
#[derive(Debug)]
pub(super) struct Registers<'r> {
    types: &'r Table<Var, ValueType>,
    homes: Table<Var, Home>,
    /// Free registers, the one freed last on top.
    free: HashMap<ValueType, Vec<Reg>>,
}

impl<'r> Registers<'r> {
    pub(super) fn new(types: &'r Table<Var, ValueType>) -> Self {
        Registers { types, homes: Table::filled(Home::default(), types.len()), free: HashMap::default() }
    }

    /// A free register, or a new one.
    pub(super) fn allocate(&mut self, ty: ValueType, out: &mut FunctionBuilder) -> Reg {
        self.free.get_mut(&ty).and_then(Vec::pop).unwrap_or_else(|| out.new_reg(ty))
    }

    /// Gives a register back.
    pub(super) fn free(&mut self, reg: Reg, ty: ValueType) {
        self.free.entry(ty).or_default().push(reg);
    }

    /// Makes a register a variable's. A pinned one survives the variable's last use.
    pub(super) fn define(&mut self, var: Var, reg: Reg, pinned: bool) {
        self.homes[var] = Home { reg: Some(reg), holds: 0, dead: false, pinned };
    }

    /// Ends a variable that is not read any more, and frees its register.
    pub(super) fn forget(&mut self, var: Var) {
        if let Some(reg) = std::mem::take(&mut self.homes[var]).reg {
            self.free(reg, self.types[var]);
        }
    }

    /// Ends a pinned variable whose register goes on to be someone else's.
    pub(super) fn detach(&mut self, var: Var) {
        self.homes[var] = Home::default();
    }

    /// Holds a variable's value for an instruction to come; `last` if no use comes after this one.
    pub(super) fn hold(&mut self, var: Var, last: bool) -> Held {
        let home = &mut self.homes[var];
        home.holds += 1;
        home.dead |= last;
        Held::Var(var)
    }

    /// Says that a variable's last use was evaluated.
    pub(super) fn end(&mut self, var: Var) {
        self.homes[var].dead = true;
        self.free_if_done(var);
    }

    /// The register of a value.
    pub(super) fn reg(&self, held: Held) -> Reg {
        match held {
            Held::Var(var) => self.homes[var].reg.expect("a variable is bound before it is used"),
            Held::Temp(reg, _) | Held::Constant(reg) => reg,
        }
    }

    /// A value was read, or is about to be by an instruction that reads before it writes.
    pub(super) fn release(&mut self, held: Held) {
        match held {
            Held::Var(var) => {
                self.homes[var].holds -= 1;
                self.free_if_done(var);
            }
            Held::Temp(reg, ty) => self.free(reg, ty),
            Held::Constant(_) => {}
        }
    }

    /// The register of a value that nobody else needs, for the caller to keep.
    pub(super) fn take(&mut self, held: Held) -> Option<Reg> {
        match held {
            Held::Temp(reg, _) => Some(reg),
            Held::Var(var) => {
                let home = &mut self.homes[var];
                let last = home.dead && home.holds == 1 && !home.pinned;
                if last { std::mem::take(home).reg } else { None }
            }
            Held::Constant(_) => None,
        }
    }

    fn free_if_done(&mut self, var: Var) {
        let home = self.homes[var];
        if home.dead
            && home.holds == 0
            && !home.pinned
            && let Some(reg) = self.homes[var].reg.take()
        {
            self.free(reg, self.types[var]);
        }
    }
}
