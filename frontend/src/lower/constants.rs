//! Constants: each has a register of its own with a single definition, so that the recorder knows it as a constant.
//!
//! A constant is defined where it is first needed and reused wherever that definition dominates; what a loop needs is
//! defined before the outermost one.

use super::Lowerer;
use super::arrays::ROOM_MAX;
use super::registers::Held;
use crate::core::{ExprId, ExprKind, Iteration, Layout};
use crate::hash::{HashMap, HashSet};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::ValueType;

/// No more registers than this are spent on constants; the rest are loaded again at every use.
const REGISTERS_MAX: usize = 1_024;

/// A constant, told apart by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Constant {
    bank: Bank,
    bits: u64,
}

impl Constant {
    pub(super) fn real(value: f64) -> Self {
        Constant { bank: Bank::Real, bits: value.to_bits() }
    }

    pub(super) fn int(value: i64) -> Self {
        Constant { bank: Bank::Int, bits: value as u64 }
    }

    fn ty(self) -> ValueType {
        if self.bank == Bank::Real { ValueType::Real } else { ValueType::Int }
    }
}

/// The constants that are in registers here.
#[derive(Default, Debug)]
pub(super) struct Constants {
    available: HashMap<Constant, Reg>,
    /// In the order of definition, to be forgotten where control flow joins.
    defined: Vec<Constant>,
    registers: usize,
}

impl Constants {
    /// The constants so far; what is defined after this is forgotten by [`Constants::back_to`].
    pub(super) fn mark(&self) -> usize {
        self.defined.len()
    }

    /// Forgets what was defined since a mark: it may not have been executed.
    pub(super) fn back_to(&mut self, mark: usize) {
        for constant in self.defined.drain(mark..) {
            self.available.remove(&constant);
        }
    }
}

impl Lowerer<'_, '_> {
    /// A constant in a register.
    pub(super) fn constant(&mut self, place: ExprId, constant: Constant) -> Held {
        if let Some(&reg) = self.constants.available.get(&constant) {
            return Held::Constant(reg);
        }
        let ty = constant.ty();
        if self.constants.registers >= REGISTERS_MAX {
            let reg = self.registers.allocate(ty, &mut self.out);
            self.define_constant(place, reg, constant);
            return Held::Temp(reg, ty);
        }
        let reg = self.out.new_reg(ty);
        self.define_constant(place, reg, constant);
        self.constants.registers += 1;
        if self.flow.reachable {
            self.constants.available.insert(constant, reg);
            self.constants.defined.push(constant);
        }
        Held::Constant(reg)
    }

    /// Puts a constant into a given register.
    pub(super) fn load_constant(&mut self, place: ExprId, dst: Reg, constant: Constant) {
        match self.constants.available.get(&constant) {
            Some(&reg) => self.emit_mov(place, dst, reg),
            None => self.define_constant(place, dst, constant),
        }
    }

    fn define_constant(&mut self, place: ExprId, dst: Reg, constant: Constant) {
        match constant.bank {
            Bank::Real => {
                let value = f64::from_bits(constant.bits);
                self.emit(place, Op::Const, &[Operand::Def(dst), Operand::Real(value)]);
            }
            _ => self.emit(place, Op::IConst, &[Operand::Def(dst), Operand::Int(constant.bits as i64)]),
        }
    }

    /// Defines the constants that instructions in some subtrees, which are about to be repeated, read from registers.
    pub(super) fn hoist_constants(&mut self, subtrees: &[ExprId]) {
        let mut pending: Vec<ExprId> = subtrees.iter().rev().copied().collect();
        let mut bound: HashSet<ExprId> = HashSet::default();
        while let Some(expr) = pending.pop() {
            let mut operands: Vec<ExprId> = Vec::new();
            match self.kind(expr) {
                ExprKind::Scalar(_, args)
                | ExprKind::Call(_, args)
                | ExprKind::CallClosure(_, args)
                | ExprKind::CallImport(_, args)
                | ExprKind::Closure(_, args)
                | ExprKind::Construct(_, args) => operands.extend(args),
                ExprKind::Extend(extend) => operands.extend(extend.cells.iter().flat_map(|cell| &cell.fields)),
                ExprKind::Derivative(derivative) => operands.extend(derivative.parts()),
                ExprKind::Compare(_, pair) | ExprKind::Element(_, pair, _) => operands.extend(pair),
                ExprKind::Loop(repeat) => {
                    if let Iteration::Range(range) = repeat.iteration {
                        operands.push(range.to);
                        self.hoist(expr, Constant::int(1));
                    }
                }
                ExprKind::Collect(array, collect) => {
                    operands.push(collect.range.to);
                    if let (Some(_), &ExprKind::Int(from)) = (collect.first, self.kind(collect.range.from)) {
                        self.hoist(expr, Constant::int(from + 1));
                    }
                    self.hoist(expr, Constant::int(1));
                    if array.width() > 1 {
                        self.hoist(expr, Constant::int(array.width().into()));
                    }
                    if self.may_have_no_room(collect.range, array.width()) {
                        self.hoist(expr, Constant::int(ROOM_MAX));
                    }
                }
                ExprKind::Length(array, _) if array.width() > 1 => {
                    self.hoist(expr, Constant::int(array.width().into()));
                }
                _ => {}
            }
            for operand in operands {
                match self.kind(operand) {
                    ExprKind::Real(value) => self.hoist(operand, Constant::real(*value)),
                    ExprKind::Int(value) => self.hoist(operand, Constant::int(*value)),
                    _ => {}
                }
            }
            match self.kind(expr) {
                // Of what is bound only the parts that are read.
                ExprKind::Block(bindings, _) => {
                    for binding in bindings {
                        if self.row_width(binding.value).is_none() {
                            continue;
                        }
                        bound.insert(binding.value);
                        for (part, &var) in (0..).zip(&binding.vars).skip(1) {
                            if !self.live.is_unused(var) {
                                self.hoist(expr, Constant::int(part));
                            }
                        }
                    }
                }
                ExprKind::Element(..) if !bound.contains(&expr) => {
                    (1..self.row_width(expr).unwrap_or(1)).for_each(|part| self.hoist(expr, Constant::int(part)));
                }
                _ => {}
            }
            let first = pending.len();
            self.function.body.exprs[expr].for_each_child(|child| pending.push(child));
            pending[first..].reverse();
        }
    }

    /// How many values are in a row, if an expression reads one.
    fn row_width(&self, expr: ExprId) -> Option<i64> {
        match self.kind(expr) {
            ExprKind::Element(array, ..) => match array.layout {
                Layout::Row(width) => Some(width.into()),
                Layout::Struct => None,
            },
            _ => None,
        }
    }

    fn hoist(&mut self, place: ExprId, constant: Constant) {
        if self.constants.registers < REGISTERS_MAX {
            self.constant(place, constant);
        }
    }
}
