//! Parallel assignment: several values into several registers that the values themselves may read.

use super::Lowerer;
use super::registers::Held;
use crate::core::{ExprId, ExprKind, Var};
use dualvm_vm::isa::Reg;
use dualvm_vm::module::ValueType;

/// A register to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// The register.
    pub(super) reg: Reg,
    /// What it holds.
    pub(super) ty: ValueType,
    /// The variable that is in it now and may still be read.
    pub(super) owner: Option<Var>,
}

/// A move that waits until everything was computed.
struct Move {
    dst: Reg,
    src: Reg,
    ty: ValueType,
    place: ExprId,
}

impl Lowerer<'_> {
    /// A register that nobody reads yet.
    pub(super) fn fresh_target(&mut self, ty: ValueType) -> Target {
        Target { reg: self.registers.allocate(ty, &mut self.out), ty, owner: None }
    }

    /// Computes the values of `parts`, one after the other, into `targets`. A part is computed directly into its targets
    /// if no later part reads what was in them; plain copies come last, all at once.
    pub(super) fn assign(&mut self, parts: &[ExprId], targets: &[Target]) {
        let mut flat = Vec::new();
        self.flatten(parts, &mut flat);
        let copied: Vec<Option<Var>> = flat.iter().map(|&part| self.as_var(part)).collect();
        let mut rest = targets;
        let mut moves: Vec<Move> = Vec::new();
        let mut held: Vec<Held> = Vec::new();
        for (i, &part) in flat.iter().enumerate() {
            let (own, others) = rest.split_at(self.types(part).len());
            rest = others;
            if copied[i].is_some() {
                let value = self.value(part);
                moves.push(Move { dst: own[0].reg, src: self.registers.reg(value), ty: own[0].ty, place: part });
                held.push(value);
                continue;
            }
            let is_read_later = |owner: Var| {
                let later = flat[i + 1..].iter().any(|&later| self.live.is_used_in(owner, later));
                later || copied.contains(&Some(owner))
            };
            if own.iter().any(|target| target.owner.is_some_and(is_read_later)) {
                for (value, target) in self.values(part).into_iter().zip(own) {
                    moves.push(Move { dst: target.reg, src: self.registers.reg(value), ty: target.ty, place: part });
                    held.push(value);
                }
            } else {
                self.write(part, own);
            }
        }
        self.move_all(moves);
        held.into_iter().for_each(|value| self.registers.release(value));
    }

    fn flatten(&self, parts: &[ExprId], flat: &mut Vec<ExprId>) {
        for &part in parts {
            match self.kind(part) {
                ExprKind::Values(inner) => crate::stack::grown(|| self.flatten(inner, flat)),
                _ => flat.push(part),
            }
        }
    }

    fn as_var(&self, part: ExprId) -> Option<Var> {
        match self.kind(part) {
            ExprKind::Var(var) => Some(*var),
            _ => None,
        }
    }

    /// Performs moves as if all happened at the same time.
    fn move_all(&mut self, mut moves: Vec<Move>) {
        moves.retain(|one| one.dst != one.src);
        while !moves.is_empty() {
            let is_read = |dst: Reg| moves.iter().any(|other| other.src == dst);
            match moves.iter().position(|one| !is_read(one.dst)) {
                Some(ready) => {
                    let one = moves.remove(ready);
                    self.emit_mov(one.place, one.dst, one.src);
                }
                None => {
                    // Only cycles are left: save one register, which makes its writer ready.
                    let (saved, ty, place) = (moves[0].dst, moves[0].ty, moves[0].place);
                    let copy = self.registers.allocate(ty, &mut self.out);
                    self.emit_mov(place, copy, saved);
                    moves.iter_mut().filter(|one| one.src == saved).for_each(|one| one.src = copy);
                    self.registers.free(copy, ty);
                }
            }
        }
    }
}
