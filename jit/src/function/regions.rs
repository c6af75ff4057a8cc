//! Regions: while one runs, its record is open. Whether there is one and where its trail goes on is in machine
//! registers, everything else of it in the context.
//!
//! At the heads of loops all of it may also stand in the context: that is where the interpreter leaves a region to
//! native code ([`Function::fetch_open_region`]).

use super::{Function, cell};
use crate::emit::UNALIGNED;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout::{self, FIRST, LEN, OWNER, TRAIL_END_BYTES};
use dualvm_vm::native::{IntReg, OutputWord, RefReg, RegionSite, SaveSite, Site};

impl Function<'_, '_> {
    /// Takes over a region that the interpreter has begun.
    pub(super) fn fetch_open_region(&mut self) {
        let active = self.emit.b.ins().uload8(I64, UNALIGNED, self.context, layout::REGION_ACTIVE);
        self.emit.b.def_var(self.open_loop.active, active);
        self.fetch_slab();
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
        let active = match any.filter(|_| site.id != u32::MAX) {
            Some(any) => {
                let active = self.emit.b.ins().icmp_imm_s(IntCC::NotEqual, any, 0);
                self.emit.truth(active)
            }
            None => zero,
        };
        self.emit.b.ins().istore8(UNALIGNED, active, self.context, layout::REGION_ACTIVE);
        self.emit.b.def_var(self.open_loop.active, active);
        self.fetch_slab();
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
        let open = self.open_loop;
        let active = self.emit.b.use_var(open.active);
        let (save, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        self.emit.b.ins().brif(active, save, &[], done, &[]);
        self.emit.b.switch_to_block(save);
        let bytes = site.bytes();
        if bytes > 0 {
            self.trail_room(bytes);
            self.append_to_trail(site);
        }
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
        self.emit.b.switch_to_block(done);
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

    /// Whether `room` is there, and also room for so many bytes of a trail that is written.
    pub(super) fn room_for_trail(&mut self, bytes: usize, room: Value) -> Value {
        let open = self.open_loop;
        let (top, end) = (self.emit.b.use_var(open.top), self.emit.b.use_var(open.end));
        let free = self.emit.b.ins().isub(end, top);
        let needed = (bytes + TRAIL_END_BYTES) as i64;
        let fits = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, free, needed);
        let active = self.emit.b.use_var(open.active);
        let active = self.emit.b.ins().icmp_imm_s(IntCC::NotEqual, active, 0);
        let both = self.emit.b.ins().band(fits, active);
        self.emit.b.ins().band(room, both)
    }

    /// Makes sure that there is room for so many bytes of the trail, in another slab if need be.
    fn trail_room(&mut self, bytes: usize) {
        let open = self.open_loop;
        let (top, end) = (self.emit.b.use_var(open.top), self.emit.b.use_var(open.end));
        let free = self.emit.b.ins().isub(end, top);
        let needed = (bytes + TRAIL_END_BYTES) as i64;
        let full = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, free, needed);
        let (slow, ready) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.b.ins().brif(full, slow, &[], ready, &[]);
        self.emit.b.switch_to_block(slow);
        self.put_top();
        let status = self.emit.call_cold(Helper::NextTrail, &[self.context]);
        self.trap_if(status, |_| ());
        self.fetch_slab();
        self.emit.b.ins().jump(ready, &[]);
        self.emit.b.switch_to_block(ready);
    }

    fn put_top(&mut self) {
        let top = self.emit.b.use_var(self.open_loop.top);
        self.emit.store(top, self.context, layout::TAPE_TOP);
    }

    /// The first slot of an array, as the trail tells it.
    pub(super) fn array_base(&mut self, dst: IntReg, array: RefReg) {
        let array = self.reference(array.0);
        let owner = self.emit.load(I64, array, cell(OWNER));
        let task = self.emit.load(I64, self.context, layout::TASK);
        let own = self.emit.b.ins().icmp(IntCC::Equal, owner, task);
        let first = self.emit.load(I64, array, cell(FIRST));
        let zero = self.emit.int(0);
        let base = self.emit.select(own, first, zero);
        let (others, done) = (self.emit.cold_block(), self.emit.b.create_block());
        let result = self.emit.b.append_block_param(done, I64);
        let foreign = self.emit.select(own, zero, owner);
        self.emit.b.ins().brif(foreign, others, &[], done, &[base.into()]);
        self.emit.b.switch_to_block(others);
        // Its only sign of trouble is a number that is no base.
        self.put_top();
        let name = self.emit.call_cold(Helper::ForeignBase, &[self.context, array]);
        let stopped = self.emit.b.ins().icmp_imm_s(IntCC::Equal, name, i64::MIN);
        self.trap_if(stopped, |_| ());
        self.emit.b.ins().jump(done, &[name.into()]);
        self.emit.b.switch_to_block(done);
        self.set_int(dst.0, result);
    }

    /// Turns a builder that the region has begun into an array.
    pub(super) fn region_finish(&mut self, (dst, builder): (RefReg, RefReg), first: IntReg, len: IntReg, active: bool) {
        let array = self.reference(builder.0);
        self.put_top();
        let active = self.emit.int(i64::from(active));
        let slot = self.emit.value_of(Helper::RegionFinish, &[self.context, array, active]);
        let stopped = self.emit.b.ins().icmp_imm_s(IntCC::SignedLessThan, slot, 0);
        self.trap_if(stopped, |_| ());
        self.set_int(first.0, slot);
        let count = self.emit.load(I64, array, cell(LEN));
        self.set_int(len.0, count);
        self.set_reference(dst.0, array);
    }

    /// Completes the record of a region, and gives the outputs and what was pushed their words. Words are handed over
    /// in the first cells of the frame.
    pub(super) fn region_end(&mut self, number: Site<RegionSite>) {
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
        let status = self.emit.value_of(Helper::EndRegion, &args);
        self.trap_if(status, |_| ());
        for (n, &(register, output)) in site.outputs.iter().enumerate() {
            let word = match output {
                OutputWord::Slot { .. } => self.emit.load(I64, self.bases.words, cell(n)),
                OutputWord::Copy(_) | OutputWord::Zero => self.emit.int(0),
            };
            self.set_word(register, word);
        }
    }
}
