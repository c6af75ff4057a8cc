//! Loops of one block: groups of rounds, and single ones.

use super::{Group, Hoisted, Trailing, Writer, is_pushing_only};
use crate::adjoint_pairs::rounds_together;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use dualvm_vm::isa::Reg;
use dualvm_vm::native::{BlockAdjoint, PushedTo, Stream};
use std::collections::{BTreeMap, BTreeSet};

impl Writer<'_, '_> {
    /// Writes a loop of one block. What its rounds don't change is computed where it begins. They run in groups, which
    /// test nothing but for NaN, as long as there are so many and their part of the trail stands in this slab, and else
    /// one by one. Groups are a loop of their own, so that they come first where registers are given away.
    pub(super) fn loop_of_one_block(&mut self, number: usize, block: &BlockAdjoint) {
        let rounds = block.rounds.expect("a loop counts its rounds");
        let hoisted = self.hoisted(number, block);
        let pairs = self.find_pairs(number, block, &hoisted);
        let together = rounds_together(&block.code);
        let counted = (rounds.register, together);
        let apart = pairs.as_ref().and_then(|pairs| self.are_apart(pairs, counted, &hoisted));
        let splats = pairs.as_ref().map(|pairs| pairs.splats(self.emit, &hoisted.known)).unwrap_or_default();
        let [head, group, behind, single] = [(); 4].map(|()| self.emit.b.create_block());
        self.emit.b.ins().jump(head, &[]);

        self.emit.b.switch_to_block(head);
        let counter = self.lasting_ints[usize::from(rounds.register)];
        let left = self.emit.b.use_var(counter);
        let mut room = vec![self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, left, together)];
        let each = block.saved.bytes() as i64;
        let bytes = together * each;
        room.extend(self.room_in_part(bytes));
        for &first in hoisted.pushed.values() {
            room.push(self.emit.is_nonzero(first));
        }
        if let Some(apart) = apart {
            room.push(self.emit.b.use_var(apart));
        }
        let ready = self.emit.b.create_block();
        self.emit.branch_if_all(&room, ready, single);

        // The budget goes down as the rounds do, so one test is for both: so many rounds are left where it is used up.
        // It is found again behind the groups.
        self.emit.enter(ready);
        let budget = self.emit.b.use_var(self.budget);
        let left_at_poll = self.emit.b.ins().isub(left, budget);
        let least = self.emit.b.ins().iadd_imm_s(left_at_poll, 1);
        let needed = self.emit.int(together);
        let least = self.emit.b.ins().smax(least, needed);
        self.emit.b.ins().jump(group, &[]);

        self.emit.b.switch_to_block(group);
        let (at, left) = (self.emit.b.use_var(self.at), self.emit.b.use_var(counter));
        let lefts = block.builders.iter().map(|step| step.builder().left);
        let pushed: BTreeMap<u16, Value> =
            lefts.map(|left| (left, self.emit.b.use_var(self.lasting_ints[usize::from(left)]))).collect();
        // How far the rounds are is written where they end only.
        let mut done = 0;
        while done < together {
            let written = Group { at, left, done, pushed: &pushed };
            if let Some(pairs) = &pairs {
                self.pair(number, block, pairs, (written, &hoisted, &splats));
                done += 2;
            } else {
                self.round(number, block, (at, -(done + 1) * each), Trailing::Group(written), Some(&hoisted));
                done += 1;
            }
        }
        let (at, left) = self.after((at, left), together, each);
        self.emit.b.def_var(self.at, at);
        self.emit.b.def_var(counter, left);
        let mut room = vec![self.emit.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, left, least)];
        room.extend(self.room_in_part(bytes));
        self.emit.branch_if_all(&room, group, behind);
        self.emit.b.seal_block(group);
        self.emit.enter(behind);
        let budget = self.emit.b.ins().isub(left, left_at_poll);
        self.emit.b.def_var(self.budget, budget);
        self.rounds_on(number, left, (0, head));

        self.emit.enter(single);
        self.single(number, block, Some(&hoisted));
        let left = self.count_round(rounds);
        self.rounds_on(number, left, (1, head));
        self.emit.b.seal_block(head);
    }

    /// Whether so many bytes of the trail stand in this part of it.
    pub(super) fn room_in_part(&mut self, bytes: i64) -> Option<Value> {
        if bytes == 0 {
            return None;
        }
        let (at, start) = (self.emit.b.use_var(self.at), self.emit.b.use_var(self.start));
        let here = self.emit.b.ins().isub(at, start);
        Some(self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, here, bytes))
    }

    /// Goes on with the rounds of a loop of one block, if there are any left. So many have run that the budget doesn't
    /// know of yet.
    fn rounds_on(&mut self, number: usize, left: Value, (done, head): (i64, Block)) {
        let again = self.emit.b.create_block();
        self.emit.branch(left, again, &[], self.starts[number], &[]);
        self.emit.enter(again);
        self.spend(done, head);
    }

    /// Computes what the rounds of a loop of one block don't change.
    fn hoisted(&mut self, number: usize, block: &BlockAdjoint) -> Hoisted {
        let mut arrays = BTreeMap::new();
        for base in block.elements.iter().map(|element| element.base) {
            if let Some(&array) = self.arrays.get(&base) {
                arrays.insert(base, self.emit.b.use_var(array));
            }
        }
        let unchanged = self.unchanged(block);
        let mut known = self.registers(number);
        for n in (0..block.code.len()).filter(|&n| unchanged[n]) {
            known.run(self.emit, &block.code[n], self.lenient[number].products[n]);
        }
        let pushed = match is_pushing_only(block) {
            true => block.builders.iter().map(|step| self.pushed_to(step.builder())).collect(),
            false => BTreeMap::new(),
        };
        Hoisted { arrays, known, unchanged, pushed }
    }

    /// Where the adjoints begin of what was pushed to a builder, with the register that says so.
    fn pushed_to(&mut self, builder: PushedTo) -> (u16, Value) {
        let first = self.emit.b.use_var(self.lasting_ints[usize::from(builder.first)]);
        (builder.first, self.emit.adjoints_from(self.adjoints, first))
    }

    /// For each instruction of a block, whether it computes the same in all rounds.
    pub(super) fn unchanged(&self, block: &BlockAdjoint) -> Vec<bool> {
        let mut writes: BTreeMap<Reg, usize> = BTreeMap::new();
        for inst in block.code.iter().chain(&block.moves) {
            inst.for_each_reg(&Stream::default(), |reg, def| *writes.entry(reg).or_default() += usize::from(def));
        }
        let lasts = |reg: Reg| self.lasts(reg);
        let mut changes: BTreeSet<Reg> = block.rounds.iter().map(|rounds| Reg::int(rounds.register)).collect();
        for step in &block.builders {
            let builder = step.builder();
            changes.extend([builder.first, builder.left].map(Reg::int));
        }
        let mut computed = BTreeSet::new();
        let mut unchanged = Vec::with_capacity(block.code.len());
        for inst in &block.code {
            let (mut same, mut result) = (true, None);
            inst.for_each_reg(&Stream::default(), |reg, def| {
                if def {
                    result = Some(reg);
                } else {
                    let stands = lasts(reg) && writes[&reg] == 0 && !changes.contains(&reg);
                    same &= stands || computed.contains(&reg);
                }
            });
            let result = result.filter(|&reg| same && !lasts(reg) && writes[&reg] == 1);
            computed.extend(result);
            unchanged.push(result.is_some());
        }
        unchanged
    }
}
