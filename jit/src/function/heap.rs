//! Objects: making them in the current slab, reading fields and elements.

use super::{Function, cell};
use crate::emit::TRUSTED;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::Bank;
use dualvm_vm::native::helpers::{Helper, NO_WORD};
use dualvm_vm::native::layout::{self, ARRAY_HEADER, FIRST, LEN, OWNER};
use dualvm_vm::native::{IntReg, ObjectSite, RealReg, RefReg, RegList};
use std::ops::Range;

/// How many words an object of these registers has.
pub(super) fn words_of(uses: &RegList) -> usize {
    layout::OBJECT_HEADER + 2 * uses.reals.len() + uses.ints.len() + uses.refs.len()
}

impl Function<'_, '_> {
    /// The end of the frame's references, and of all that are in use.
    pub(super) fn roots(&mut self) -> Value {
        self.emit.b.ins().iadd_imm_s(self.bases.refs, 8 * self.stream.refs as i64)
    }

    pub(super) fn stop_if_null(&mut self, object: Value) {
        let null = self.emit.is_zero(object);
        self.trap_if(null, |_| ());
    }

    /// Memory for an object: from the current slab, or else by the heap itself.
    pub(super) fn allocate(&mut self, header: u64, words: usize) -> Value {
        let bytes = self.emit.int(8 * words as i64);
        if words <= layout::LARGE_WORDS {
            let nobody = self.emit.int(0);
            return self.allocate_small(header, bytes, nobody);
        }
        let made = self.allocate_by_heap(header, bytes);
        self.forget_references();
        made
    }

    /// Memory for an object of this owner, of so many bytes that it has none of its own.
    pub(super) fn allocate_small(&mut self, header: u64, bytes: Value, owner: Value) -> Value {
        let done = self.emit.b.create_block();
        let object = self.emit.b.append_block_param(done, I64);
        let slow = self.emit.cold_block();
        let top = self.emit.load(I64, self.context, layout::HEAP_TOP);
        let new_top = self.emit.b.ins().iadd(top, bytes);
        let end = self.emit.load(I64, self.context, layout::HEAP_END);
        let full = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThan, new_top, end);
        let stores = self.forget_references_rarely();
        self.emit.branch_away(full, slow);
        self.emit.store(new_top, self.context, layout::HEAP_TOP);
        let word = self.emit.int(header as i64);
        self.emit.store(word, top, 0);
        self.emit.store(owner, top, cell(OWNER));
        self.emit.b.ins().jump(done, &[top.into()]);
        self.emit.enter(slow);
        self.store_rarely(&stores);
        let made = self.allocate_by_heap(header, bytes);
        self.emit.store(owner, made, cell(OWNER));
        self.fetch_references();
        self.emit.b.ins().jump(done, &[made.into()]);
        self.emit.enter(done);
        object
    }

    fn allocate_by_heap(&mut self, header: u64, bytes: Value) -> Value {
        let header = self.emit.int(header as i64);
        let words = self.emit.b.ins().ushr_imm_u(bytes, 3);
        let roots = self.roots();
        let made = self.emit.call_cold(Helper::Allocate, &[self.context, header, words, roots]);
        self.stop_if_null(made);
        made
    }

    /// Makes the task the owner of an object that it has made if the value is not 0.
    pub(super) fn set_owner(&mut self, object: Value, activity: Value) {
        let task = self.emit.load(I64, self.context, layout::TASK);
        let constant = self.emit.int(0);
        let owner = self.emit.select(activity, task, constant);
        self.emit.store(owner, object, cell(OWNER));
    }

    /// A word of an object: what the object says if the task owns it, a constant if nobody does, and else what
    /// `foreign` imports. The owner is asked first: an object without one may hold no words. Most active objects are
    /// the task's own.
    pub(super) fn owned_word(
        &mut self,
        object: Value,
        own: impl FnOnce(&mut Self) -> Value,
        foreign: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let done = self.emit.b.create_block();
        let word = self.emit.b.append_block_param(done, I64);
        let (mine, other) = (self.emit.b.create_block(), self.emit.b.create_block());
        let import = self.emit.cold_block();
        let owner = self.emit.load(I64, object, cell(OWNER));
        let task = self.emit.load(I64, self.context, layout::TASK);
        let is_own = self.emit.b.ins().icmp(IntCC::Equal, owner, task);
        self.emit.branch(is_own, mine, &[], other, &[]);
        self.emit.enter(mine);
        let own = own(self);
        self.emit.b.ins().jump(done, &[own.into()]);
        self.emit.enter(other);
        let constant = self.emit.int(0);
        self.emit.branch(owner, import, &[], done, &[constant.into()]);
        self.emit.enter(import);
        let imported = foreign(self);
        let stopped = self.emit.b.ins().icmp_imm_s(IntCC::Equal, imported, NO_WORD as i64);
        self.trap_if(stopped, |_| ());
        self.emit.b.ins().jump(done, &[imported.into()]);
        self.emit.enter(done);
        word
    }

    /// The owners of objects, or-ed.
    pub(super) fn owners(&mut self, refs: &[u16], mut activity: Option<Value>) -> Option<Value> {
        for &register in refs {
            let object = self.reference(register);
            let owner = self.emit.load(I64, object, cell(OWNER));
            activity = Some(self.either(activity, owner));
        }
        activity
    }

    pub(super) fn either(&mut self, a: Option<Value>, b: Value) -> Value {
        a.map_or(b, |a| self.emit.b.ins().bor(a, b))
    }

    pub(super) fn object(&mut self, result: u16, site: &ObjectSite) {
        let object = self.allocate(site.header, words_of(&site.uses));
        self.fill(object, &site.uses);
        self.own_if_it_holds_any(object, &site.uses);
        self.set_reference(result, object);
    }

    /// Makes the task the owner of an object that it has made of these if any of them is active.
    pub(super) fn own_if_it_holds_any(&mut self, object: Value, uses: &RegList) {
        if self.request.mode.is_recording()
            && let Some(activity) = self.activity(uses)
        {
            self.set_owner(object, activity);
        }
    }

    /// Writes the fields of a new object: reals, their words, integers, references.
    pub(super) fn fill(&mut self, object: Value, uses: &RegList) {
        let RegList { reals, ints, refs } = uses;
        let mut at = layout::OBJECT_HEADER;
        for &register in reals {
            let value = self.real(register);
            self.emit.store(value, object, cell(at));
            at += 1;
        }
        if self.request.mode.is_recording() {
            for &register in reals {
                let word = self.word(register);
                self.emit.store(word, object, cell(at));
                at += 1;
            }
        } else {
            at += reals.len();
        }
        for &register in ints {
            let value = self.int(register);
            self.emit.store(value, object, cell(at));
            at += 1;
        }
        for &register in refs {
            let value = self.reference(register);
            self.emit.store(value, object, cell(at));
            at += 1;
        }
    }

    /// What is not 0 if an object of these registers is not constant.
    fn activity(&mut self, uses: &RegList) -> Option<Value> {
        let mut activity = None;
        for &register in &uses.reals {
            let word = self.word(register);
            activity = Some(self.either(activity, word));
        }
        self.owners(&uses.refs, activity)
    }

    pub(super) fn pack(&mut self, result: u16, site: &ObjectSite) {
        let RegList { reals, ints, refs } = &site.uses;
        let len = reals.len() + ints.len() + refs.len();
        let array = self.allocate(site.header, ARRAY_HEADER + len);
        let count = self.emit.int(len as i64);
        self.emit.store(count, array, cell(LEN));
        let none = self.emit.int(0);
        self.emit.store(none, array, cell(FIRST));
        let values = reals.iter().map(|&r| (Bank::Real, r));
        let values = values.chain(ints.iter().map(|&r| (Bank::Int, r))).chain(refs.iter().map(|&r| (Bank::Ref, r)));
        for (n, (bank, register)) in values.enumerate() {
            let value = self.operand(bank, register);
            self.emit.store(value, array, cell(ARRAY_HEADER + n));
        }
        if self.request.mode.is_recording() {
            match site.element {
                Bank::Real => {
                    // The words go where a callee's would.
                    for (n, &register) in reals.iter().enumerate() {
                        let word = self.word(register);
                        self.emit.store(word, self.bases.words, cell(n));
                    }
                    let status = self.emit.value_of(Helper::Pack, &[self.context, array, self.bases.words]);
                    self.trap_if(status, |_| ());
                }
                Bank::Int => {}
                Bank::Ref => {
                    if let Some(activity) = self.owners(refs, None) {
                        self.set_owner(array, activity);
                    }
                }
            }
        }
        self.set_reference(result, array);
    }

    /// Stops if an object has another tag than `expected`.
    pub(super) fn check_tag(&mut self, register: u16, expected: u16) {
        if self.known.tag(register) == Some(expected) {
            return;
        }
        let object = self.reference(register);
        let found = self.emit.b.ins().uload32(TRUSTED, object, 4);
        let wrong = self.emit.b.ins().icmp_imm_s(IntCC::NotEqual, found, i64::from(expected));
        self.trap_if(wrong, |this| {
            let expected = this.emit.int(i64::from(expected));
            this.emit.call_cold(Helper::TrapTag, &[this.context, expected, found]);
        });
        self.known.set_tag(register, expected);
    }

    /// Reads a real field, without its word.
    pub(super) fn primal_field(&mut self, dst: RealReg, object: RefReg, primal: u32) {
        let object = self.reference(object.0);
        self.set_real_late(dst.0, object, 8 * primal as i32);
    }

    /// Reads a real field, and its word.
    pub(super) fn real_field(&mut self, dst: RealReg, object: RefReg, primal: u32, word: u32) {
        self.primal_field(dst, object, primal);
        let object = self.reference(object.0);
        if self.request.mode.is_recording() {
            let at = self.emit.int(i64::from(word));
            let word = self.owned_word(
                object,
                |this| this.emit.load(I64, object, 8 * word as i32),
                |this| this.emit.call_cold(Helper::Import, &[this.context, object, at]),
            );
            self.set_word(dst.0, word);
        }
    }

    /// The value of an integer field or of a reference field.
    pub(super) fn plain_field(&mut self, object: RefReg, at: u32) -> Value {
        let object = self.reference(object.0);
        self.emit.load(I64, object, 8 * at as i32)
    }

    /// Stops unless two arrays have the same length.
    pub(super) fn same_length(&mut self, array: RefReg, other: RefReg) {
        let lens = [self.len(array.0), self.len(other.0)];
        let pair = [self.reference(array.0), self.reference(other.0)];
        let differ = self.emit.b.ins().icmp(IntCC::NotEqual, lens[0], lens[1]);
        self.trap_if(differ, |this| {
            this.emit.call_cold(Helper::TrapShape, &[this.context, pair[0], pair[1]]);
        });
        self.rows.are_as_long(array.0, other.0);
    }

    /// Stops unless the integers at these places are the same in two objects.
    pub(super) fn same_shape(&mut self, objects: [RefReg; 2], places: Range<u32>) {
        let pair = objects.map(|object| self.reference(object.0));
        let mut differ = None;
        for at in places {
            let [size, other] = pair.map(|object| self.emit.load(I64, object, 8 * at as i32));
            let other = self.emit.b.ins().bxor(size, other);
            differ = Some(self.either(differ, other));
        }
        if let Some(differ) = differ {
            self.trap_if(differ, |this| {
                this.emit.call_cold(Helper::TrapShape, &[this.context, pair[0], pair[1]]);
            });
        }
    }

    /// Where an element stands: address and offset. Stops if the array doesn't have it.
    fn element_place(&mut self, bank: Bank, array: RefReg, index: IntReg) -> (Value, i32) {
        if let Some(place) = self.place_in_row(bank, array, index) {
            return place;
        }
        let base = self.elements_base(bank, array);
        // In the rounds of a group the index is inside, and addresses are counted from that of the first round.
        let near = self.near_first(index.0);
        let (index, by) = near.unwrap_or_else(|| (self.int(index.0), 0));
        if near.is_none() {
            let len = self.len(array.0);
            let outside = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, len);
            self.trap_if(outside, |this| {
                this.emit.call_cold(Helper::TrapIndex, &[this.context, index, len]);
            });
        }
        let offset = self.emit.b.ins().ishl_imm_u(index, 3);
        let place = self.emit.b.ins().iadd(base, offset);
        (place, cell(ARRAY_HEADER) + 8 * by as i32)
    }

    /// Where an array of elements of this bank would have to begin for them to stand behind its header: those of
    /// references always do.
    pub(super) fn elements_base(&mut self, bank: Bank, array: RefReg) -> Value {
        match bank {
            Bank::Real | Bank::Int => self.base_of_elements(array.0),
            Bank::Ref => self.reference(array.0),
        }
    }

    /// Reads the primal of an element of an array of reals.
    pub(super) fn primal_element(&mut self, dst: RealReg, array: RefReg, index: IntReg) {
        let (place, at) = self.element_place(Bank::Real, array, index);
        self.set_real_late(dst.0, place, at);
    }

    /// Reads an element of an array of reals, and its word.
    pub(super) fn real_element(&mut self, dst: RealReg, array: RefReg, index: IntReg) {
        self.primal_element(dst, array, index);
        if self.request.mode.is_recording() {
            let (array, index) = (self.reference(array.0), self.int(index.0));
            // Arrays of reals that have an owner have slots.
            let own = |this: &mut Self| {
                let first = this.emit.load(I64, array, cell(FIRST));
                this.emit.b.ins().iadd(first, index)
            };
            let word = self.owned_word(array, own, |this| {
                this.emit.call_cold(Helper::ImportElement, &[this.context, array, index])
            });
            self.set_word(dst.0, word);
        }
    }

    /// The value of an element of an array of integers or of references.
    pub(super) fn plain_element(&mut self, bank: Bank, array: RefReg, index: IntReg) -> Value {
        let (place, at) = self.element_place(bank, array, index);
        self.emit.load(I64, place, at)
    }

    /// Where an element stands, but for the header.
    pub(super) fn element_of(&mut self, array: Value, index: Value) -> Value {
        let offset = self.emit.b.ins().ishl_imm_u(index, 3);
        self.emit.b.ins().iadd(array, offset)
    }
}
