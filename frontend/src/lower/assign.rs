//! Parallel assignment: several values into several registers that the values themselves may read.

use super::Lowerer;
use super::registers::Held;
use crate::core::{Binding, ExprId, ExprKind, Var};
use crate::hash::{HashMap, HashSet};
use dualvm_vm::isa::{Op, Reg};
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

/// A last instruction that waits until every operand of every part was computed.
struct Write {
    dst: Reg,
    ty: ValueType,
    /// `None` copies the only operand.
    op: Option<Op>,
    srcs: Vec<Reg>,
    place: ExprId,
}

impl Write {
    /// The operands that are other registers than the destination.
    fn others(&self) -> impl Iterator<Item = Reg> + '_ {
        let is_first = |i: usize| !self.srcs[..i].contains(&self.srcs[i]);
        (0..self.srcs.len()).filter(move |&i| is_first(i) && self.srcs[i] != self.dst).map(|i| self.srcs[i])
    }

    /// Which of some writes read a register.
    fn readers(writes: &[Write]) -> HashMap<Reg, Vec<usize>> {
        let mut readers: HashMap<Reg, Vec<usize>> = HashMap::default();
        for (at, write) in writes.iter().enumerate() {
            write.srcs.iter().for_each(|&src| readers.entry(src).or_default().push(at));
        }
        readers
    }
}

impl Lowerer<'_, '_> {
    /// A register that nobody reads yet.
    pub(super) fn fresh_target(&mut self, ty: ValueType) -> Target {
        Target { reg: self.registers.allocate(ty, &mut self.out), ty, owner: None }
    }

    /// Computes the values of `parts`, one after the other, into `targets`. A part is computed directly into its
    /// targets if nothing that is still to come reads what was in them. Of the others, all but the last instruction
    /// is computed, and the last ones follow together.
    pub(super) fn assign(&mut self, parts: &[ExprId], targets: &[Target]) {
        let mut flat = Vec::new();
        self.flatten(parts, &mut flat);
        let mut rest = targets;
        let mut writes: Vec<Write> = Vec::new();
        let mut held: Vec<Held> = Vec::new();
        let mut pending: HashSet<Reg> = HashSet::default();
        let Some(&last) = flat.last() else { return };
        for &part in &flat {
            let (own, others) = rest.split_at(self.types(part).len());
            rest = others;
            let is_read_later = |target: &Target| {
                let later = |owner| self.live.is_used_between(owner, part, last);
                target.owner.is_some_and(|owner| pending.contains(&target.reg) || later(owner))
            };
            let is_copy = matches!(self.kind(part), ExprKind::Var(_));
            if !is_copy && !own.iter().any(is_read_later) {
                self.write(part, own);
                continue;
            }
            let (op, operands) = self.split_last(part);
            let srcs: Vec<Reg> = operands.iter().map(|&value| self.registers.reg(value)).collect();
            held.extend(operands);
            pending.extend(&srcs);
            match op {
                Some(_) => writes.push(Write { dst: own[0].reg, ty: own[0].ty, op, srcs, place: part }),
                None => writes.extend(own.iter().zip(srcs).map(|(target, src)| Write {
                    dst: target.reg,
                    ty: target.ty,
                    op: None,
                    srcs: vec![src],
                    place: part,
                })),
            }
        }
        self.write_all(writes);
        held.into_iter().for_each(|value| self.registers.release(value));
    }

    /// Computes a part up to its last instruction, if that one can't trap and may so be moved past other parts.
    fn split_last(&mut self, part: ExprId) -> (Option<Op>, Vec<Held>) {
        match self.kind(part) {
            ExprKind::Scalar(op, args) if !op.info().traps => {
                (Some(*op), args.iter().flat_map(|&arg| self.values(arg)).collect())
            }
            _ => (None, self.values(part)),
        }
    }

    fn flatten(&self, parts: &[ExprId], flat: &mut Vec<ExprId>) {
        for &part in parts {
            match self.kind(part) {
                ExprKind::Values(inner) => crate::stack::grown(|| self.flatten(inner, flat)),
                _ => flat.push(part),
            }
        }
    }

    /// The variables of a block whose values only go into targets: they may live there from the start.
    pub(super) fn wanted(&self, value: ExprId, targets: &[Target]) -> HashMap<Var, Target> {
        let mut wanted = HashMap::default();
        if targets.iter().all(|target| target.owner.is_none()) {
            return wanted;
        }
        let mut flat = Vec::new();
        self.flatten(&[value], &mut flat);
        let mut rest = targets;
        for part in flat {
            let (own, others) = rest.split_at(self.types(part).len());
            rest = others;
            if let ExprKind::Var(var) = self.kind(part) {
                wanted.entry(*var).or_insert(own[0]);
            }
        }
        wanted
    }

    /// Lowers a binding of a block, straight into the register where its variable is wanted if nothing after it in the
    /// block reads what was there. What reads the variable after the block would find what has become of the register
    /// there.
    pub(super) fn binding(&mut self, block: ExprId, binding: &Binding, wanted: &HashMap<Var, Target>) {
        if let [var] = *binding.vars
            && let Some(&target) = wanted.get(&var)
            && !target.owner.is_some_and(|owner| self.live.is_used_between(owner, binding.value, block))
            && !self.live.is_used_after(var, block)
        {
            self.write(binding.value, &[target]);
            return self.registers.define(var, target.reg, true);
        }
        self.bindings(std::slice::from_ref(binding));
    }

    /// Performs writes as if all happened at the same time.
    fn write_all(&mut self, mut writes: Vec<Write>) {
        writes.retain(|write| write.op.is_some() || write.srcs[0] != write.dst);
        let by_dst: HashMap<Reg, usize> = writes.iter().enumerate().map(|(i, write)| (write.dst, i)).collect();
        let mut readers: HashMap<Reg, usize> = HashMap::default();
        for src in writes.iter().flat_map(Write::others) {
            *readers.entry(src).or_default() += 1;
        }
        let mut done = vec![false; writes.len()];
        let mut saved = Vec::new();
        let mut read_by = None;
        let mut ready: Vec<usize> =
            (0..writes.len()).rev().filter(|&i| !readers.contains_key(&writes[i].dst)).collect();
        let mut next = 0;
        loop {
            while let Some(i) = ready.pop() {
                done[i] = true;
                self.write_one(&writes[i]);
                for src in writes[i].others() {
                    let count = readers.get_mut(&src).expect("every operand was counted");
                    *count -= 1;
                    if *count == 0
                        && let Some(&freed) = by_dst.get(&src)
                        && !done[freed]
                    {
                        ready.push(freed);
                    }
                }
            }
            while done.get(next) == Some(&true) {
                next += 1;
            }
            let Some(blocked) = writes.get(next) else { break };
            // Only cycles are left: what one register holds is saved for its readers, which frees it.
            let (old, ty, place) = (blocked.dst, blocked.ty, blocked.place);
            let copy = self.registers.allocate(ty, &mut self.out);
            self.emit_mov(place, copy, old);
            saved.push((copy, ty));
            let read_by = read_by.get_or_insert_with(|| Write::readers(&writes));
            for &reader in read_by.get(&old).into_iter().flatten().filter(|&&reader| reader != next) {
                writes[reader].srcs.iter_mut().filter(|src| **src == old).for_each(|src| *src = copy);
            }
            let count = readers.insert(old, 0).unwrap_or_default();
            readers.insert(copy, count);
            ready.push(next);
        }
        saved.into_iter().for_each(|(reg, ty)| self.registers.free(reg, ty));
    }

    fn write_one(&mut self, write: &Write) {
        match write.op {
            Some(op) => self.emit_regs(write.place, op, write.dst, &write.srcs),
            None => self.emit_mov(write.place, write.dst, write.srcs[0]),
        }
    }
}
