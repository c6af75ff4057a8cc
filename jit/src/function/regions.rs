//! Regions: while one runs, its record is open. Whether there is one and where its trail goes on is in machine
//! registers, everything else of it in the context.
//!
//! At the heads of loops all of it may also stand in the context: that is where the interpreter leaves a region to
//! native code ([`Function::fetch_open_region`]).

use super::{Function, cell};
use crate::emit::UNALIGNED;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout::{self, ARRAY_HEADER, FIRST, LEN, OWNER, TRAIL_END_BYTES, UNCHECKED_MAX};
use dualvm_vm::native::{IntReg, OutputWord, RefReg, RegionSite, SaveSite, Site};

/// What fills a trail up takes fewer bytes.
const PADDING_MAX: usize = 4;
/// Arrays of more elements are finished and copied by helpers.
const SHORT_MAX: i64 = UNCHECKED_MAX as i64;
/// So many elements of an array are copied at a time, if there are as many.
const TOGETHER: i64 = 4;

impl Function<'_, '_> {
    /// Takes over a region that the interpreter has begun.
    pub(super) fn fetch_open_region(&mut self) {
        let active = self.emit.b.ins().uload8(I64, UNALIGNED, self.context, layout::REGION_ACTIVE);
        self.emit.b.def_var(self.open_loop.active, active);
        self.fetch_slab();
        self.close_if_inactive(active);
    }

    /// Without a record there is no room, either: so what writes to the trail asks for room only.
    fn close_if_inactive(&mut self, active: Value) {
        let (top, end) = (self.emit.b.use_var(self.open_loop.top), self.emit.b.use_var(self.open_loop.end));
        let end = self.emit.select(active, end, top);
        self.emit.b.def_var(self.open_loop.end, end);
    }

    pub(super) fn region_begin(&mut self, site: &RegionSite) {
        let mut any = None;
        for &register in &site.inputs {
            let word = self.word(register);
            any = Some(self.either(any, word));
        }
        for &register in &site.refs {
            let object = self.reference(register);
            let owner = self.emit.load(I64, object, cell(OWNER));
            any = Some(self.either(any, owner));
        }
        let zero = self.emit.int(0);
        for changed in &site.changed {
            let before = self.int(changed.registers.before);
            any = Some(self.either(any, before));
        }
        let active = match any.filter(|_| site.id != u32::MAX) {
            Some(any) => {
                let active = self.emit.is_nonzero(any);
                self.emit.truth(active)
            }
            None => zero,
        };
        self.emit.b.ins().istore8(UNALIGNED, active, self.context, layout::REGION_ACTIVE);
        self.emit.b.def_var(self.open_loop.active, active);
        self.fetch_slab();
        self.close_if_inactive(active);
        let top = self.emit.b.use_var(self.open_loop.top);
        self.emit.store(top, self.context, layout::REGION_START);
        self.emit.store(zero, self.context, layout::REGION_COST);
        if site.layout.makes {
            self.emit.store(zero, self.context, layout::REGION_MADE);
        }
    }

    /// Appends to the trail.
    pub(super) fn region_save(&mut self, site: &SaveSite) {
        if self.group.is_some() {
            // There is room, and there is a record.
            return self.append_to_trail(site);
        }
        let done = self.emit.b.create_block();
        if site.bytes() > 0 {
            self.trail_room(site.bytes(), done);
            self.append_to_trail(site);
        }
        // Where no record is open, nobody asks for the cost.
        if !site.costs.is_empty() {
            let mut cost = self.emit.load(I64, self.context, layout::REGION_COST);
            for &(rounds, round, once) in &site.costs {
                let rounds = self.int(rounds);
                let more = self.emit.b.ins().imul_imm_s(rounds, i64::from(round));
                let more = self.emit.b.ins().iadd_imm_s(more, i64::from(once));
                cost = self.emit.b.ins().iadd(cost, more);
            }
            self.emit.store(cost, self.context, layout::REGION_COST);
        }
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(done);
    }

    /// Writes to the trail, where there is room.
    fn append_to_trail(&mut self, site: &SaveSite) {
        let top = self.emit.b.use_var(self.open_loop.top);
        self.store_numbers(top, 0, site.numbers(), [&site.reals, &site.ints]);
        if let Some(edge) = site.edge {
            let edge = self.emit.int(i64::from(edge));
            self.emit.b.ins().istore8(UNALIGNED, edge, top, site.numbers().bytes() as i32);
        }
        let top = self.emit.b.ins().iadd_imm_s(top, site.bytes() as i64);
        self.emit.b.def_var(self.open_loop.top, top);
    }

    /// Whether there is room for so many bytes of a trail that is written.
    pub(super) fn room_for_trail(&mut self, bytes: usize) -> Value {
        let open = self.open_loop;
        let (top, end) = (self.emit.b.use_var(open.top), self.emit.b.use_var(open.end));
        let after = self.emit.b.ins().iadd_imm_s(top, (bytes + TRAIL_END_BYTES) as i64);
        self.emit.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, after, end)
    }

    /// Makes sure that there is room for so many bytes of the trail, in another slab if need be. Goes to `done` if
    /// there is no record.
    fn trail_room(&mut self, bytes: usize, done: Block) {
        let open = self.open_loop;
        let (top, end) = (self.emit.b.use_var(open.top), self.emit.b.use_var(open.end));
        let after = self.emit.b.ins().iadd_imm_s(top, (bytes + TRAIL_END_BYTES) as i64);
        let full = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThan, after, end);
        let (slow, ready) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(full, slow, &[], ready, &[]);
        self.emit.enter(slow);
        let next = self.emit.cold_block();
        let active = self.emit.b.use_var(open.active);
        self.emit.branch(active, next, &[], done, &[]);
        self.emit.enter(next);
        self.put_top();
        let status = self.emit.call_cold(Helper::NextTrail, &[self.context]);
        self.trap_if(status, |_| ());
        self.fetch_slab();
        self.emit.b.ins().jump(ready, &[]);
        self.emit.enter(ready);
    }

    fn put_top(&mut self) {
        let top = self.emit.b.use_var(self.open_loop.top);
        self.emit.store(top, self.context, layout::TAPE_TOP);
    }

    /// The first slot of an array, as the trail tells it.
    pub(super) fn array_base(&mut self, dst: IntReg, array: RefReg) {
        let array = self.reference(array.0);
        let found =
            self.slot_at(array, cell(FIRST), |this| this.emit.call_cold(Helper::ForeignBase, &[this.context, array]));
        self.set_int(dst.0, found);
    }

    /// The slot of a real field, as the trail tells it.
    pub(super) fn field_slot(&mut self, dst: IntReg, object: RefReg, word: u32) {
        let object = self.reference(object.0);
        let at = self.emit.int(i64::from(word));
        let found = self.slot_at(object, cell(word as usize), |this| {
            this.emit.call_cold(Helper::FieldSlot, &[this.context, object, at])
        });
        self.set_int(dst.0, found);
    }

    /// A slot that stands in an object, as the trail tells it. `foreign` is for those of other tasks; its only sign of
    /// trouble is a number that is no slot.
    fn slot_at(&mut self, object: Value, at: i32, foreign: impl FnOnce(&mut Self) -> Value) -> Value {
        let owner = self.emit.load(I64, object, cell(OWNER));
        let task = self.emit.load(I64, self.context, layout::TASK);
        let is_own = self.emit.b.ins().icmp(IntCC::Equal, owner, task);
        let (own, other, others) = (self.emit.b.create_block(), self.emit.b.create_block(), self.emit.cold_block());
        let done = self.emit.b.create_block();
        let result = self.emit.b.append_block_param(done, I64);
        self.emit.branch(is_own, own, &[], other, &[]);
        self.emit.enter(own);
        let first = self.emit.load(I64, object, at);
        self.emit.b.ins().jump(done, &[first.into()]);
        self.emit.enter(other);
        let constant = self.emit.int(0);
        self.emit.branch(owner, others, &[], done, &[constant.into()]);
        self.emit.enter(others);
        self.put_top();
        let name = foreign(self);
        let stopped = self.emit.b.ins().icmp_imm_s(IntCC::Equal, name, i64::MIN);
        self.trap_if(stopped, |_| ());
        self.emit.b.ins().jump(done, &[name.into()]);
        self.emit.enter(done);
        result
    }

    /// A cell with an array, for the trail.
    pub(super) fn array_cell(&mut self, dst: IntReg, array: RefReg) {
        let array = self.reference(array.0);
        let (keep, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let cell = self.emit.b.append_block_param(done, I64);
        let none = self.emit.int(0);
        let active = self.emit.b.use_var(self.open_loop.active);
        self.emit.branch(active, keep, &[], done, &[none.into()]);
        self.emit.enter(keep);
        let kept = self.keep(&[array])[0];
        self.emit.b.ins().jump(done, &[kept.into()]);
        self.emit.enter(done);
        self.set_int(dst.0, cell);
    }

    /// A cell with a copy of an array in the trail. Short ones are copied here.
    pub(super) fn array_copy(&mut self, dst: IntReg, array: RefReg) {
        let len = self.len(array.0);
        let array = self.reference(array.0);
        let (copy, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let result = self.emit.b.append_block_param(done, I64);
        let none = self.emit.int(0);
        let active = self.emit.b.use_var(self.open_loop.active);
        self.emit.branch(active, copy, &[], done, &[none.into()]);

        self.emit.enter(copy);
        let (here, slow) = (self.emit.b.create_block(), self.emit.cold_block());
        let (top, end) = (self.emit.b.use_var(self.open_loop.top), self.emit.b.use_var(self.open_loop.end));
        let bytes = self.emit.b.ins().ishl_imm_u(len, 3);
        let free = self.emit.b.ins().isub(end, top);
        let needed = self.emit.b.ins().iadd_imm_s(bytes, (8 + TRAIL_END_BYTES) as i64);
        let fits = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, free, needed);
        let short = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, len, SHORT_MAX);
        let both = self.emit.b.ins().band(fits, short);
        self.emit.branch(both, here, &[], slow, &[]);

        self.emit.enter(slow);
        self.put_top();
        let cell_of_copy = self.emit.call_cold(Helper::ArrayCopy, &[self.context, array]);
        let stopped = self.emit.b.ins().icmp_imm_s(IntCC::Equal, cell_of_copy, i64::MIN);
        self.trap_if(stopped, |_| ());
        self.fetch_slab();
        self.emit.b.ins().jump(done, &[cell_of_copy.into()]);

        self.emit.enter(here);
        let (elements, header) = (self.emit.b.ins().iadd_imm_s(top, 8), i64::from(cell(ARRAY_HEADER)));
        let object = self.emit.b.ins().iadd_imm_s(elements, -header);
        self.emit.b.ins().store(UNALIGNED, object, top, 0);
        let base = self.emit.base_of(array);
        let (few, many, copied) = (self.emit.b.create_block(), self.emit.b.create_block(), self.emit.b.create_block());
        let is_many = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, bytes, 8 * TOGETHER);
        self.emit.branch(is_many, many, &[], few, &[]);
        self.emit.enter(many);
        // The last ones may be copied twice.
        let last = self.emit.b.ins().iadd_imm_s(bytes, -8 * TOGETHER);
        let rest = self.emit.b.create_block();
        self.copy_elements((base, elements), TOGETHER, last, rest);
        self.copy_some((base, elements), TOGETHER, last);
        self.emit.b.ins().jump(copied, &[]);
        self.emit.enter(few);
        let one = self.emit.b.create_block();
        self.emit.branch(bytes, one, &[], copied, &[]);
        self.emit.enter(one);
        self.copy_elements((base, elements), 1, bytes, copied);
        let after = self.emit.b.ins().iadd(elements, bytes);
        self.emit.b.def_var(self.open_loop.top, after);
        self.emit.b.ins().jump(done, &[top.into()]);
        self.emit.enter(done);
        self.set_int(dst.0, result);
    }

    /// Copies elements from the first one on, so many at a time, until the next offset is no longer below `end`. Goes
    /// on at `done`.
    fn copy_elements(&mut self, places: (Value, Value), together: i64, end: Value, done: Block) {
        // One block, which asks at its end: from one that asks at its beginning, all registers would be loaded again in
        // each round.
        let round = self.emit.b.create_block();
        let offset = self.emit.b.append_block_param(round, I64);
        let none = self.emit.int(0);
        self.emit.b.ins().jump(round, &[none.into()]);
        self.emit.b.switch_to_block(round);
        self.copy_some(places, together, offset);
        let next = self.emit.b.ins().iadd_imm_s(offset, 8 * together);
        let more = self.emit.b.ins().icmp(IntCC::UnsignedLessThan, next, end);
        self.emit.branch(more, round, &[next.into()], done, &[]);
        self.emit.b.seal_block(round);
        self.emit.enter(done);
    }

    /// Copies so many elements at an offset, from those of an object to where others begin.
    fn copy_some(&mut self, (object, to): (Value, Value), count: i64, offset: Value) {
        let from = self.emit.b.ins().iadd(object, offset);
        let to = self.emit.b.ins().iadd(to, offset);
        let elements: Vec<Value> =
            (0..count).map(|n| self.emit.load(I64, from, cell(ARRAY_HEADER) + 8 * n as i32)).collect();
        for (n, element) in elements.into_iter().enumerate() {
            self.emit.b.ins().store(UNALIGNED, element, to, 8 * n as i32);
        }
    }

    /// Turns a builder that the region has begun into an array. Slots for a short one are given out here.
    pub(super) fn region_finish(&mut self, (dst, builder): (RefReg, RefReg), first: IntReg, len: IntReg, active: bool) {
        let array = self.reference(builder.0);
        let count = self.emit.load(I64, array, cell(LEN));
        let done = self.emit.b.create_block();
        let slot = self.emit.b.append_block_param(done, I64);
        if active {
            let (here, slow) = (self.emit.b.create_block(), self.emit.cold_block());
            let header = self.emit.load(I64, array, 0);
            let finished = self.is_finished(header);
            let recorded = self.emit.b.use_var(self.open_loop.active);
            let less = self.emit.b.ins().iadd_imm_s(count, -1);
            let short = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, less, SHORT_MAX);
            let unfinished = self.emit.b.ins().bxor_imm_u(finished, 1);
            let plain = self.emit.b.ins().band(short, unfinished);
            let plain = self.emit.truth(plain);
            let plain = self.emit.b.ins().band(plain, recorded);
            self.emit.branch(plain, here, &[], slow, &[]);
            self.emit.enter(here);
            let slot = self.emit.load(I64, self.context, layout::TAPE_NEXT_SLOT);
            let end = self.emit.b.ins().iadd(slot, count);
            self.emit.store(end, self.context, layout::TAPE_NEXT_SLOT);
            let before = self.emit.b.ins().uload32(UNALIGNED, self.context, layout::REGION_MADE);
            let from = self.emit.select(before, before, slot);
            self.emit.b.ins().istore32(UNALIGNED, from, self.context, layout::REGION_MADE);
            self.emit.b.ins().istore32(UNALIGNED, end, self.context, layout::REGION_MADE + 4);
            let task = self.emit.load(I64, self.context, layout::TASK);
            self.emit.store(task, array, cell(OWNER));
            let header = self.emit.b.ins().iadd_imm_s(header, -(layout::BUILDER_LESS_ARRAY as i64));
            self.emit.store(header, array, 0);
            self.emit.store(slot, array, cell(FIRST));
            self.emit.b.ins().jump(done, &[slot.into()]);
            self.emit.enter(slow);
        }
        self.put_top();
        let is_active = self.emit.int(i64::from(active));
        let params = [self.context, array, is_active];
        let found = match active {
            true => self.emit.call_cold(Helper::RegionFinish, &params),
            false => self.emit.value_of(Helper::RegionFinish, &params),
        };
        let stopped = self.emit.is_negative(found);
        self.trap_if(stopped, |_| ());
        self.emit.b.ins().jump(done, &[found.into()]);
        self.emit.enter(done);
        self.set_int(first.0, slot);
        self.set_int(len.0, count);
        self.set_reference(dst.0, array);
    }

    /// The first slot of the elements of a builder, from a helper that gives them some.
    pub(super) fn slots_of(&mut self, helper: Helper, builder: RefReg) -> Value {
        let builder = self.reference(builder.0);
        let slot = self.emit.value_of(helper, &[self.context, builder]);
        let stopped = self.emit.is_negative(slot);
        self.trap_if(stopped, |_| ());
        slot
    }

    /// Completes the record of a region, and gives the outputs their words, and what was pushed or changed.
    pub(super) fn region_end(&mut self, number: Site<RegionSite>) {
        self.complete_region(number);
        let site = &self.stream.regions[number];
        for changed in site.changed.iter().filter(|changed| changed.is_put) {
            let (first, len) = (self.int(changed.registers.first), self.int(changed.registers.len));
            let builder = self.reference(changed.builder);
            let (give, done) = (self.emit.b.create_block(), self.emit.b.create_block());
            self.emit.branch(first, give, &[], done, &[]);
            self.emit.enter(give);
            self.emit.call(Helper::Pushed, &[self.context, builder, first, len]);
            self.emit.b.ins().jump(done, &[]);
            self.emit.enter(done);
        }
    }

    /// Completes the record of a region, and gives the outputs and what was pushed their words.
    fn complete_region(&mut self, number: Site<RegionSite>) {
        let site = &self.stream.regions[number];
        if site.push.is_some() {
            let words = self.end_by_helper(number);
            return self.set_outputs(site, &words);
        }
        let (inputs, slots) = self.what_outputs_depend_on(site);
        let (record, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let words: Vec<Value> = slots.iter().map(|_| self.emit.b.append_block_param(done, I64)).collect();
        let zero = self.emit.int(0);
        let constants = vec![zero.into(); slots.len()];
        let active = self.emit.b.use_var(self.open_loop.active);
        self.emit.branch(active, record, &[], done, &constants);

        self.emit.enter(record);
        let (top, end) = (self.emit.b.use_var(self.open_loop.top), self.emit.b.use_var(self.open_loop.end));
        let free = self.emit.b.ins().isub(end, top);
        let needed = site.layout.tail_bytes(0) + PADDING_MAX;
        let full = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, free, needed as i64);
        let full = self.emit.truth(full);
        let foreign = self.emit.b.ins().uload8(I64, UNALIGNED, self.context, layout::REGION_READS_FOREIGN);
        let other = self.emit.b.ins().bor(full, foreign);
        let (slow, here) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(other, slow, &[], here, &[]);
        self.emit.enter(here);
        let first = self.complete_trail(site, top);
        let found: Vec<BlockArg> = slots
            .iter()
            .map(|&(offset, mask)| {
                let slot = self.emit.b.ins().iadd_imm_s(first, i64::from(offset));
                self.word_if_active(&inputs, mask, slot).into()
            })
            .collect();
        self.emit.b.ins().jump(done, &found);

        self.emit.enter(slow);
        let found: Vec<BlockArg> = self.end_by_helper(number).into_iter().map(BlockArg::from).collect();
        self.emit.b.ins().jump(done, &found);
        self.emit.enter(done);
        self.set_outputs(site, &words);
    }

    /// The words and owners that the outputs of a region depend on, in the order of its masks; then the offsets and
    /// masks of those that may have slots.
    fn what_outputs_depend_on(&mut self, site: &RegionSite) -> (Vec<Value>, Vec<(u32, u64)>) {
        let slots: Vec<(u32, u64)> = site
            .outputs
            .iter()
            .filter_map(|&(_, output)| match output {
                OutputWord::Slot { offset, mask } => Some((offset, mask)),
                OutputWord::Copy(_) | OutputWord::Zero => None,
            })
            .collect();
        let mut inputs: Vec<Value> = site.inputs.iter().map(|&register| self.word(register)).collect();
        // A mask of all of them asks for none.
        let count = site.inputs.len() + site.refs.len();
        let all = if count == 64 { u64::MAX } else { (1 << count) - 1 };
        for (n, &register) in site.refs.iter().enumerate() {
            let bit = 1u64 << (site.inputs.len() + n);
            let known = site.replaced & bit == 0;
            let tells = known && slots.iter().any(|(_, mask)| mask & bit != 0 && mask & all != all);
            let owner = if tells {
                let object = self.reference(register);
                self.emit.load(I64, object, cell(OWNER))
            } else {
                self.context
            };
            inputs.push(owner);
        }
        (inputs, slots)
    }

    /// Writes what follows the trail of a region that pushes nothing and has read no arrays of other tasks, where there
    /// is room. Returns the first output slot.
    fn complete_trail(&mut self, site: &RegionSite, top: Value) -> Value {
        let layout = site.layout;
        let zero = self.emit.int(0);
        let begin = self.emit.load(I64, self.context, layout::REGION_START);
        let len = self.emit.b.ins().isub(top, begin);
        let negative = self.emit.b.ins().ineg(len);
        let padding = self.emit.b.ins().band_imm_s(negative, 3);
        // What comes behind the padding is written after it.
        self.emit.b.ins().istore32(UNALIGNED, zero, top, 0);
        let start = self.emit.b.ins().iadd(top, padding);
        let bytes = self.emit.load(I64, self.context, layout::TAPE_BYTES);
        let bytes = self.emit.b.ins().isub(bytes, padding);
        self.emit.store(bytes, self.context, layout::TAPE_BYTES);
        let top = self.emit.b.ins().iadd_imm_s(start, layout.tail_bytes(0) as i64);
        self.emit.store(top, self.context, layout::TAPE_TOP);
        let first = self.add_to_counter(layout::TAPE_NEXT_SLOT, i64::from(site.slots));
        self.add_to_counter(layout::TAPE_RECORDS, 1);
        let cost = self.emit.load(I64, self.context, layout::REGION_COST);
        let more = self.emit.b.ins().iadd_imm_s(cost, 1);
        let before = self.emit.load(I64, self.context, layout::TAPE_SWEEP_COST);
        let after = self.emit.b.ins().iadd(before, more);
        self.emit.store(after, self.context, layout::TAPE_SWEEP_COST);
        for (n, &register) in site.inputs.iter().enumerate() {
            let word = self.word(register);
            self.emit.b.ins().istore32(UNALIGNED, word, start, 4 * n as i32);
        }
        let most = self.emit.int(i64::from(u32::MAX));
        let large = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThan, cost, most);
        let cost = self.emit.select(large, most, cost);
        if layout.makes {
            let made = self.emit.load(I64, self.context, layout::REGION_MADE);
            self.emit.b.ins().store(UNALIGNED, made, start, 4 * site.inputs.len() as i32);
        }
        let at = layout.numbers();
        for (n, value) in [zero, cost, len].into_iter().enumerate() {
            self.emit.b.ins().istore32(UNALIGNED, value, start, (at + 4 * n) as i32);
        }
        let id = self.emit.int(i64::from(site.number()));
        self.store_trailer(start, at + 12, id, first);
        first
    }

    /// Completes the record of a region, and gives what was pushed its words. Words are handed over in the first cells
    /// of the frame. Returns those of the outputs that may have slots.
    fn end_by_helper(&mut self, number: Site<RegionSite>) -> Vec<Value> {
        let site = &self.stream.regions[number];
        for (n, &register) in site.inputs.iter().enumerate() {
            let word = self.word(register);
            self.emit.store(word, self.bases.words, cell(n));
        }
        self.put_top();
        let len_before = match site.push {
            Some(push) => self.int(push.len_before),
            None => self.emit.int(0),
        };
        let [func, number] = self.numbers(number.index());
        let args: [Value; 6] = [self.context, self.bases.words, self.bases.refs, len_before, func, number];
        // Without pushes it is called where the slab is full and in tasks that read what others own.
        let rarely = site.push.is_none();
        let status = if rarely {
            self.emit.call_cold(Helper::EndRegion, &args)
        } else {
            self.emit.value_of(Helper::EndRegion, &args)
        };
        self.trap_if(status, |_| ());
        let mut words = Vec::new();
        for (n, (_, output)) in site.outputs.iter().enumerate() {
            if let OutputWord::Slot { .. } = output {
                words.push(self.emit.load(I64, self.bases.words, cell(n)));
            }
        }
        words
    }

    /// Gives the outputs of a region their words: those that may have slots these.
    fn set_outputs(&mut self, site: &RegionSite, words: &[Value]) {
        let mut words = words.iter();
        for &(register, output) in &site.outputs {
            let word = match output {
                OutputWord::Slot { .. } => words.next().copied(),
                OutputWord::Copy(_) | OutputWord::Zero => None,
            };
            let word = word.unwrap_or_else(|| self.emit.int(0));
            self.set_word(register, word);
        }
    }
}
