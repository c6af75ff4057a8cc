//! The ends of segments: records on the tape, words of the outputs.

use super::Function;
use crate::emit::UNALIGNED;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout;
use dualvm_vm::native::{Numbers, OutputWord, SegmentSite};

impl Function<'_, '_> {
    /// Ends a segment: writes its record if an input is active, and gives the outputs their words.
    pub(super) fn segment_end(&mut self, site: &SegmentSite) {
        let inputs: Vec<Value> = site.inputs.iter().map(|&register| self.word(register)).collect();
        let outputs = &site.outputs;
        let copies: Vec<Option<Value>> = outputs
            .iter()
            .map(|&(_, output)| match output {
                OutputWord::Copy(from) => Some(self.word(from)),
                OutputWord::Slot { .. } | OutputWord::Zero => None,
            })
            .collect();
        let mut activity = None;
        for &word in &inputs {
            activity = Some(self.either(activity, word));
        }
        let zero = self.emit.int(0);
        let Some(activity) = activity else {
            for (&(register, _), copy) in outputs.iter().zip(copies) {
                self.set_word(register, copy.unwrap_or(zero));
            }
            return;
        };
        // The new words are parameters of the block where both ways meet.
        let (record, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let slots: Vec<(u16, u32, u64)> = outputs
            .iter()
            .filter_map(|&(register, output)| match output {
                OutputWord::Slot { offset, mask } => Some((register, offset, mask)),
                OutputWord::Copy(_) | OutputWord::Zero => None,
            })
            .collect();
        let constants = vec![zero.into(); slots.len()];
        let params: Vec<Value> = slots.iter().map(|_| self.emit.b.append_block_param(done, I64)).collect();
        self.emit.branch(activity, record, &[], done, &constants);

        self.emit.enter(record);
        let first = self.append_record(site, &inputs);
        // Components of one real have one bit.
        let mut reals = Vec::new();
        for components in inputs.chunks(1 << site.depth) {
            let activity = components.iter().fold(None, |activity, &word| Some(self.either(activity, word)));
            reals.extend(activity);
        }
        let words: Vec<_> = slots
            .iter()
            .map(|&(_, offset, mask)| {
                let slot = self.emit.b.ins().iadd_imm_s(first, i64::from(offset));
                self.word_if_active(&reals, mask, slot).into()
            })
            .collect();
        self.emit.b.ins().jump(done, &words);

        self.emit.enter(done);
        for (&(register, _, _), word) in slots.iter().zip(params) {
            self.set_word(register, word);
        }
        for (&(register, output), copy) in outputs.iter().zip(copies) {
            match output {
                OutputWord::Copy(_) => self.set_word(register, copy.unwrap_or(zero)),
                OutputWord::Zero => self.set_word(register, zero),
                OutputWord::Slot { .. } => {}
            }
        }
    }

    /// Room on the tape for a record. Returns its address.
    pub(super) fn record_room(&mut self, bytes: i64) -> Value {
        self.bump([layout::TAPE_TOP, layout::TAPE_END], bytes, Helper::OpenChunk)
    }

    /// Takes so many bytes from where the context says that the top and the end are. Where there aren't so many, `more`
    /// is called for new ones, and says whether the run has to stop. Returns the address.
    pub(super) fn bump(&mut self, [top_at, end_at]: [i32; 2], bytes: i64, more: Helper) -> Value {
        let top = self.emit.load(I64, self.context, top_at);
        let end = self.emit.load(I64, self.context, end_at);
        let free = self.emit.b.ins().isub(end, top);
        let full = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, free, bytes);
        let (slow, ready) = (self.emit.cold_block(), self.emit.b.create_block());
        let start = self.emit.b.append_block_param(ready, I64);
        self.emit.branch(full, slow, &[], ready, &[top.into()]);
        self.emit.enter(slow);
        let status = self.emit.call_cold(more, &[self.context]);
        self.trap_if(status, |_| ());
        let top = self.emit.load(I64, self.context, top_at);
        self.emit.b.ins().jump(ready, &[top.into()]);
        self.emit.enter(ready);
        let new_top = self.emit.b.ins().iadd_imm_s(start, bytes);
        self.emit.store(new_top, self.context, top_at);
        start
    }

    pub(super) fn add_to_counter(&mut self, offset: i32, amount: i64) -> Value {
        let before = self.emit.load(I64, self.context, offset);
        let after = self.emit.b.ins().iadd_imm_s(before, amount);
        self.emit.store(after, self.context, offset);
        before
    }

    /// Writes a segment's record. Returns its first output slot.
    pub(super) fn append_record(&mut self, site: &SegmentSite, inputs: &[Value]) -> Value {
        let layout = site.layout;
        let start = self.record_room(layout.bytes() as i64);
        let first = self.add_to_counter(layout::TAPE_NEXT_SLOT, i64::from(site.slots));
        self.add_to_counter(layout::TAPE_RECORDS, 1);
        self.add_to_counter(layout::TAPE_SWEEP_COST, i64::from(site.sweep_cost));
        self.store_numbers(start, 0, layout.numbers, [&site.saved_reals, &site.saved_ints]);
        for (n, &word) in inputs.iter().enumerate() {
            self.emit.b.ins().istore32(UNALIGNED, word, start, layout.slot(n) as i32);
        }
        let id = self.emit.int(i64::from(site.number()));
        self.store_trailer(start, layout.trailer(), id, first);
        first
    }

    /// Writes registers to a record, whose numbers begin `at` bytes from an address.
    pub(super) fn store_numbers(&mut self, to: Value, at: i32, numbers: Numbers, [reals, ints]: [&[u16]; 2]) {
        for (n, &register) in reals.iter().enumerate() {
            let value = self.real(register);
            self.emit.b.ins().store(UNALIGNED, value, to, at + numbers.real(n) as i32);
        }
        for (n, &register) in ints.iter().enumerate() {
            let value = self.int(register);
            self.emit.b.ins().store(UNALIGNED, value, to, at + numbers.int(n) as i32);
        }
    }

    /// Ends a record: its number and its first slot.
    pub(super) fn store_trailer(&mut self, record: Value, at: usize, number: Value, first: Value) {
        self.emit.b.ins().istore32(UNALIGNED, number, record, at as i32);
        self.emit.b.ins().istore32(UNALIGNED, first, record, at as i32 + 4);
    }
}
