//! Rounds of a loop of one block in pairs ([`crate::adjoint_pairs`]).

use super::{Group, Hoisted, Trailing, Writer, is_pushing_only};
use crate::adjoint_pairs::{self, Added, BeforeRounds, Pairs, Rounds};
use crate::vectors::{self, Both};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I8;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::{BlockAdjoint, BuilderAdjoint, ElementAdjoint};
use std::collections::HashMap;

impl Writer<'_, '_> {
    /// How rounds of a loop of one block are written in pairs, if they are.
    pub(super) fn find_pairs<'c>(
        &self,
        number: usize,
        block: &'c BlockAdjoint,
        hoisted: &'c Hoisted,
    ) -> Option<Pairs<'c>>
    where
        Self: 'c,
    {
        if !(block.builders.is_empty() || is_pushing_only(block)) || !block.puts.is_empty() {
            return None;
        }
        let added: Vec<Added> = block
            .elements
            .iter()
            .map(|&ElementAdjoint { base, index, contribution, .. }| Added { array: base, index, contribution })
            .collect();
        // What a round adds to, the round before it may have pushed.
        let is_pushed = |base: u16| block.builders.iter().any(|step| step.builder().first == base);
        if !added.iter().all(|added| hoisted.arrays.contains_key(&added.array) && !is_pushed(added.array)) {
            return None;
        }
        let [real, int] = block.saved_at.map(usize::from);
        let reals = (real..real + block.saved.reals).map(|n| Reg::real(n as u16));
        let ints = (int..int + block.saved.ints).map(|n| Reg::int(n as u16));
        let pushed = block.builders.iter().flat_map(|step| match step {
            BuilderAdjoint::Push { adjoints, .. } => &adjoints[..],
            BuilderAdjoint::Finish { .. } | BuilderAdjoint::Extend { .. } | BuilderAdjoint::Begin(_) => &[],
        });
        let loaded: Vec<Reg> = reals.chain(ints).chain(pushed.map(|&register| Reg::real(register))).collect();
        if loaded.iter().any(|&reg| self.lasts(reg)) {
            return None;
        }
        let rounds = block.rounds.filter(|rounds| !rounds.stepped).map(|rounds| rounds.register);
        let counters = block.builders.iter().map(|step| step.builder().left).chain(rounds);
        let saved = loaded.into_iter().chain(counters.map(Reg::int));
        let leniency = &self.lenient[number];
        let known = &hoisted.unchanged;
        let rounds = Rounds { prologue: &[], code: &block.code, moves: &block.moves, leniency, known };
        Pairs::new(rounds, added, |reg| self.lasts(reg), saved)
    }

    /// Whether the arrays that rounds in pairs add to are apart, if there are several: found out where there are enough
    /// rounds for a group.
    pub(super) fn are_apart(
        &mut self,
        pairs: &Pairs<'_>,
        (rounds, together): (u16, i64),
        hoisted: &Hoisted,
    ) -> Option<Variable> {
        if pairs.arrays() == 1 {
            return None;
        }
        let no = self.emit.b.ins().iconst(I8, 0);
        let apart = self.emit.variable(no);
        let left = self.emit.b.use_var(self.lasting_ints[usize::from(rounds)]);
        let enough = self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, left, together);
        let (check, ready) = (self.emit.b.create_block(), self.emit.b.create_block());
        self.emit.branch(enough, check, &[], ready, &[]);
        self.emit.enter(check);
        let found = pairs.are_apart(self.emit, &hoisted.arrays, &hoisted.known);
        self.emit.b.def_var(apart, found);
        self.emit.b.ins().jump(ready, &[]);
        self.emit.enter(ready);
        Some(apart)
    }

    /// Writes two rounds of a group.
    pub(super) fn pair(
        &mut self,
        number: usize,
        block: &BlockAdjoint,
        pairs: &Pairs<'_>,
        (group, hoisted, splats): (Group<'_>, &Hoisted, &HashMap<Both, Value>),
    ) {
        let Group { at, done, pushed, .. } = group;
        // What rounds don't change is named as it was before the loop.
        let mut registers = hoisted.known.clone();
        for &Reg { bank, index } in self.live.at(number).iter().filter(|&&reg| pairs.changes(reg)) {
            let n = usize::from(index);
            match bank {
                Bank::Real => registers.reals[n] = Some(self.emit.b.use_var(self.lasting_reals[n])),
                _ => registers.ints[n] = Some(self.emit.b.use_var(self.lasting_ints[n])),
            }
        }
        let bytes = block.saved.bytes() as i64;
        let saved_at = block.saved_at.map(usize::from);
        let mut loaded = adjoint_pairs::saved(self.emit, block.saved, (at, -done * bytes), saved_at);
        let mut lefts = Vec::new();
        for step in &block.builders {
            let BuilderAdjoint::Push { builder, adjoints } = step else { continue };
            let (left, count) = (pushed[&builder.left], adjoints.len() as i64);
            let before = [-(done + 1) * count, -(done + 2) * count];
            let offset = self.emit.b.ins().ishl_imm_u(left, 3);
            let address = self.emit.b.ins().iadd(hoisted.pushed[&builder.first], offset);
            for (n, &register) in (0..).zip(adjoints.iter().rev()) {
                let both = vectors::load(self.emit, Bank::Real, address, before.map(|before| 8 * (before + n)));
                loaded.push((Reg::real(register), both));
            }
            lefts.push((builder.left, self.emit.b.ins().iadd_imm_s(left, before[1])));
        }
        let failed = self.emit.cold_block();
        let before = BeforeRounds { arrays: &hoisted.arrays, splats };
        let after = pairs.write(self.emit, &registers, &loaded, &before, failed);
        if !self.lenient[number].tests.is_empty() {
            let here = self.emit.b.current_block().expect("a block is being written");
            self.emit.enter(failed);
            self.leave_to_interpreter(number, block, Trailing::Group(group));
            self.emit.b.switch_to_block(here);
        }
        self.set_lasting(&after, &registers);
        for (register, left) in lefts {
            self.emit.b.def_var(self.lasting_ints[usize::from(register)], left);
        }
    }
}
