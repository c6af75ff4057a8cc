//! Loops that are recorded as one: while such a loop runs, its record is open, and what is known of it, the number of
//! iterations and entries and where the next entry goes, is in machine registers.
//!
//! In between, at a loop's head, all of it may also stand in the context: that is where the interpreter leaves a loop
//! to native code ([`Function::fetch_open_loop`]).

use super::{Function, cell};
use crate::emit::UNALIGNED;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout::{self, FIRST, OWNER, STRIP_BYTES};
use dualvm_vm::native::{IntReg, LoopSite, OutputWord, PushSite, Site};

/// The loop or the region that is being recorded.
#[derive(Clone, Copy)]
pub(super) struct OpenLoop {
    /// 0 if it gets no record.
    pub(super) active: Variable,
    iterations: Variable,
    /// Entries in the current slab.
    entries: Variable,
    /// Where the next entry goes, and the end of the slab.
    pub(super) top: Variable,
    pub(super) end: Variable,
}

impl OpenLoop {
    pub(super) fn new(b: &mut FunctionBuilder<'_>) -> Self {
        let mut variable = || b.declare_var(I64);
        OpenLoop { active: variable(), iterations: variable(), entries: variable(), top: variable(), end: variable() }
    }
}

impl Function<'_, '_> {
    /// Takes over a loop that the interpreter has begun.
    pub(super) fn fetch_open_loop(&mut self) {
        let open = self.open_loop;
        let active = self.emit.b.ins().uload8(I64, UNALIGNED, self.context, layout::LOOP_ACTIVE);
        let iterations = self.emit.load(I64, self.context, layout::LOOP_ITERATIONS);
        let entries = self.emit.b.ins().uload32(UNALIGNED, self.context, layout::LOOP_ENTRIES);
        self.emit.b.def_var(open.active, active);
        self.emit.b.def_var(open.iterations, iterations);
        self.emit.b.def_var(open.entries, entries);
        self.fetch_slab();
    }

    pub(super) fn fetch_slab(&mut self) {
        let top = self.emit.load(I64, self.context, layout::TAPE_TOP);
        let end = self.emit.load(I64, self.context, layout::TAPE_END);
        self.emit.b.def_var(self.open_loop.top, top);
        self.emit.b.def_var(self.open_loop.end, end);
    }

    /// The words and first slots that a loop depends on, in the order of its masks.
    fn loop_inputs(&mut self, site: &LoopSite) -> Vec<Value> {
        let mut inputs: Vec<Value> = site.inputs.iter().map(|&register| self.word(register)).collect();
        for &register in &site.arrays {
            let array = self.reference(register);
            inputs.push(self.emit.load(I64, array, cell(FIRST)));
        }
        inputs
    }

    pub(super) fn loop_begin(&mut self, site: &LoopSite) {
        let activity = self.loop_inputs(site).into_iter().fold(None, |all, input| Some(self.either(all, input)));
        let zero = self.emit.int(0);
        let open = self.open_loop;
        self.emit.b.def_var(open.active, activity.unwrap_or(zero));
        self.emit.b.def_var(open.iterations, zero);
        self.emit.b.def_var(open.entries, zero);
        self.fetch_slab();
    }

    /// Ends an iteration.
    pub(super) fn loop_step(&mut self, condition: IntReg, site: &LoopSite) {
        let open = self.open_loop;
        let entry = site.layout.entry.bytes();
        if entry > 0 {
            let active = self.emit.b.use_var(open.active);
            let (save, done) = (self.emit.b.create_block(), self.emit.b.create_block());
            self.emit.branch(active, save, &[], done, &[]);
            self.emit.enter(save);
            self.loop_room(entry + STRIP_BYTES);
            self.store_entry(site, 0);
            self.add(open.top, entry as i64);
            self.add(open.entries, 1);
            self.emit.b.ins().jump(done, &[]);
            self.emit.enter(done);
        }
        self.add(open.iterations, 1);
        if site.checks_fuel {
            self.charge(site.cost);
        } else {
            self.count(site.cost);
        }
        let condition = self.int(condition.0);
        let (body, end) = (self.target(site.body), self.target(site.end));
        let (then, other) = if site.while_true { (body, end) } else { (end, body) };
        self.emit.branch(condition, then, &[], other, &[]);
    }

    /// Whether there is room for the entries of so many iterations, and whether the loop gets a record at all.
    pub(super) fn room_for_entries(&mut self, site: &LoopSite, iterations: i64) -> Vec<Value> {
        let entry = site.layout.entry.bytes() as i64;
        if entry == 0 {
            return Vec::new();
        }
        let open = self.open_loop;
        let (top, end) = (self.emit.b.use_var(open.top), self.emit.b.use_var(open.end));
        let free = self.emit.b.ins().isub(end, top);
        let needed = iterations * entry + STRIP_BYTES as i64;
        let fits = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, free, needed);
        let active = self.emit.b.use_var(open.active);
        vec![fits, self.emit.is_nonzero(active)]
    }

    /// Writes the entry of an iteration, the `n`-th of those for which there is room.
    pub(super) fn store_entry(&mut self, site: &LoopSite, n: i64) {
        let entry = site.layout.entry;
        if entry.bytes() > 0 {
            let top = self.emit.b.use_var(self.open_loop.top);
            self.store_numbers(top, n as i32 * entry.bytes() as i32, entry, [&site.entry_reals, &site.entry_ints]);
        }
    }

    /// Counts iterations whose entries have been written.
    pub(super) fn count_entries(&mut self, site: &LoopSite, iterations: i64) {
        self.add(self.open_loop.iterations, iterations);
        let entry = site.layout.entry.bytes() as i64;
        if entry > 0 {
            self.add(self.open_loop.top, iterations * entry);
            self.add(self.open_loop.entries, iterations);
        }
    }

    fn add(&mut self, variable: Variable, amount: i64) {
        let before = self.emit.b.use_var(variable);
        let after = self.emit.b.ins().iadd_imm_s(before, amount);
        self.emit.b.def_var(variable, after);
    }

    /// Makes sure that there is room for so many bytes of the open record, in a new strip if need be.
    fn loop_room(&mut self, bytes: usize) {
        let open = self.open_loop;
        let (top, end) = (self.emit.b.use_var(open.top), self.emit.b.use_var(open.end));
        let free = self.emit.b.ins().isub(end, top);
        let full = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, free, bytes as i64);
        let (slow, ready) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(full, slow, &[], ready, &[]);
        self.emit.enter(slow);
        let entries = self.emit.b.use_var(open.entries);
        self.emit.store(top, self.context, layout::TAPE_TOP);
        self.emit.b.ins().istore32(UNALIGNED, entries, self.context, layout::LOOP_ENTRIES);
        let status = self.emit.call_cold(Helper::NextStrip, &[self.context]);
        self.trap_if(status, |_| ());
        self.fetch_slab();
        let none = self.emit.int(0);
        self.emit.b.def_var(open.entries, none);
        self.emit.b.ins().jump(ready, &[]);
        self.emit.enter(ready);
    }

    /// Completes the record of a loop, and gives the outputs and what was pushed their words.
    pub(super) fn loop_end(&mut self, number: Site<LoopSite>) {
        let site = &self.stream.loops[number];
        let inputs = self.loop_inputs(site);
        let kept: Vec<Value> = site.kept.iter().map(|&register| self.reference(register)).collect();
        let activity = inputs.iter().fold(None, |all, &input| Some(self.either(all, input)));
        let zero = self.emit.int(0);
        let (record, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        // Where both ways meet: the words of the outputs, then the first slot of what was pushed.
        let slots: Vec<(u16, u32, u64)> = site
            .outputs
            .iter()
            .filter_map(|&(register, output)| match output {
                OutputWord::Slot { offset, mask } => Some((register, offset, mask)),
                OutputWord::Copy(_) | OutputWord::Zero => None,
            })
            .collect();
        let count = slots.len() + usize::from(site.push.is_some());
        let params: Vec<Value> = (0..count).map(|_| self.emit.b.append_block_param(done, I64)).collect();
        let constants = vec![zero.into(); count];
        self.emit.branch(activity.unwrap_or(zero), record, &[], done, &constants);

        self.emit.enter(record);
        let (first, pushed) = self.complete_record(site, &inputs, &kept);
        self.import_arrays(site, &inputs, number.index());
        let mut words: Vec<BlockArg> = Vec::with_capacity(count);
        for &(_, offset, mask) in &slots {
            let slot = self.emit.b.ins().iadd_imm_s(first, i64::from(offset));
            let word = self.word_if_active(&inputs, mask, slot);
            words.push(word.into());
        }
        if site.push.is_some() {
            words.push(pushed.unwrap_or(zero).into());
        }
        self.emit.b.ins().jump(done, &words);

        self.emit.enter(done);
        for &(register, output) in &site.outputs {
            if !matches!(output, OutputWord::Slot { .. }) {
                self.set_word(register, zero);
            }
        }
        for (&(register, _, _), &word) in slots.iter().zip(&params) {
            self.set_word(register, word);
        }
        if let Some(PushSite { builder, .. }) = site.push {
            let builder = self.reference(builder);
            let iterations = self.emit.b.use_var(self.open_loop.iterations);
            self.emit.call(Helper::Pushed, &[self.context, builder, params[count - 1], iterations]);
        }
    }

    /// Keeps arrays of numbers for the open record. Returns their cells.
    pub(super) fn keep(&mut self, arrays: &[Value]) -> Vec<Value> {
        if arrays.is_empty() {
            return Vec::new();
        }
        let bytes = (size_of::<u64>() * arrays.len()) as i64;
        let place = self.bump([layout::KEPT_TOP, layout::KEPT_END], bytes, Helper::KeepRoom);
        let cell_of = |(n, &array): (usize, &Value)| {
            let content = self.content_for(array);
            self.emit.store(content, place, (size_of::<u64>() * n) as i32);
            self.emit.b.ins().iadd_imm_s(place, (size_of::<u64>() * n) as i64)
        };
        arrays.iter().enumerate().map(cell_of).collect()
    }

    /// What a cell holds for a record that reads elements of an array: the array, or where the host has them.
    fn content_for(&mut self, array: Value) -> Value {
        let (away, base) = (self.emit.away(array), self.emit.base_of(array));
        let is_borrowed = self.emit.is_nonzero(away);
        let is_borrowed = self.emit.truth(is_borrowed);
        let no_object = self.emit.b.ins().ishl_imm_u(is_borrowed, i64::from(layout::NO_OBJECT));
        self.emit.b.ins().bor(base, no_object)
    }

    /// Writes what follows the entries of a loop's record. Returns the first output slot, and the first slot of what
    /// was pushed if that depends on anything.
    fn complete_record(&mut self, site: &LoopSite, inputs: &[Value], kept: &[Value]) -> (Value, Option<Value>) {
        let open = self.open_loop;
        let layout = site.layout;
        let cells = self.keep(kept);
        self.loop_room(layout.tail_bytes());
        let start = self.emit.b.use_var(open.top);
        let top = self.emit.b.ins().iadd_imm_s(start, layout.tail_bytes() as i64);
        self.emit.store(top, self.context, layout::TAPE_TOP);
        let first = self.add_to_counter(layout::TAPE_NEXT_SLOT, i64::from(site.slots));
        self.add_to_counter(layout::TAPE_RECORDS, 1);
        let iterations = self.emit.b.use_var(open.iterations);
        let cost = self.emit.b.ins().imul_imm_s(iterations, i64::from(site.iteration_cost));
        let cost = self.emit.b.ins().iadd_imm_s(cost, i64::from(site.once_cost));
        let before = self.emit.load(I64, self.context, layout::TAPE_SWEEP_COST);
        let after = self.emit.b.ins().iadd(before, cost);
        self.emit.store(after, self.context, layout::TAPE_SWEEP_COST);
        let pushed = site.push.filter(|push| push.mask != 0).map(|push| self.pushed_slots(push, inputs, iterations));

        self.store_numbers(start, 0, layout.once, [&site.once_reals, &site.once_ints]);
        for (n, &cell) in (site.once_ints.len()..).zip(&cells) {
            self.emit.b.ins().store(UNALIGNED, cell, start, layout.once.int(n) as i32);
        }
        for (n, value) in inputs.iter().copied().chain(pushed).enumerate() {
            self.emit.b.ins().istore32(UNALIGNED, value, start, layout.slot(n) as i32);
        }
        self.emit.b.ins().store(UNALIGNED, iterations, start, layout.iterations() as i32);
        let entries = self.emit.b.use_var(open.entries);
        self.emit.b.ins().istore32(UNALIGNED, entries, start, layout.entries() as i32);
        let id = self.emit.int(i64::from(site.number()));
        self.store_trailer(start, layout.trailer(), id, first);
        (first, pushed)
    }

    /// Imports what a loop has read of other tasks' arrays, right after its record.
    fn import_arrays(&mut self, site: &LoopSite, inputs: &[Value], number: u32) {
        if site.arrays.is_empty() {
            return;
        }
        let task = self.emit.load(I64, self.context, layout::TASK);
        let mut any = None;
        for (&register, &first) in site.arrays.iter().zip(&inputs[site.inputs.len()..]) {
            let array = self.reference(register);
            let owner = self.emit.load(I64, array, cell(OWNER));
            let others = self.emit.b.ins().icmp(IntCC::NotEqual, owner, task);
            let active = self.emit.is_nonzero(first);
            let foreign = self.emit.b.ins().band(others, active);
            any = Some(self.either(any, foreign));
        }
        let Some(any) = any else { return };
        let (import, done) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(any, import, &[], done, &[]);
        self.emit.enter(import);
        let [func, number] = self.numbers(number);
        let status = self.emit.call_cold(Helper::ImportLoop, &[self.context, self.bases.refs, func, number]);
        self.trap_if(status, |_| ());
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(done);
    }

    /// Slots for what was pushed, if it is active; else 0.
    fn pushed_slots(&mut self, push: PushSite, inputs: &[Value], iterations: Value) -> Value {
        let Some(activity) = self.activity_of(inputs, push.mask) else { return self.emit.int(0) };
        let (reserve, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let slots = self.emit.b.append_block_param(done, I64);
        let zero = self.emit.int(0);
        self.emit.branch(activity, reserve, &[], done, &[zero.into()]);
        self.emit.enter(reserve);
        let reserved = self.emit.value_of(Helper::ReserveSlots, &[self.context, iterations]);
        self.stop_if_null(reserved);
        self.emit.b.ins().jump(done, &[reserved.into()]);
        self.emit.enter(done);
        slots
    }

    /// The inputs of a mask, or-ed.
    pub(super) fn activity_of(&mut self, inputs: &[Value], mask: u64) -> Option<Value> {
        let chosen = inputs.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1);
        chosen.fold(None, |all, (_, &input)| Some(self.either(all, input)))
    }

    /// A slot if an input of the mask is active, which at least one of all is; else 0.
    pub(super) fn word_if_active(&mut self, inputs: &[Value], mask: u64, slot: Value) -> Value {
        let all = if inputs.len() == 64 { u64::MAX } else { (1 << inputs.len()) - 1 };
        if mask & all == all {
            return slot;
        }
        let zero = self.emit.int(0);
        match self.activity_of(inputs, mask) {
            Some(activity) => self.emit.select(activity, slot, zero),
            None => zero,
        }
    }
}
