//! Builders: appending to them, reading and replacing what was appended, making room.

use super::tight::{Held, Pushes};
use super::{Function, cell};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout::{self, ARRAY_HEADER, CAPACITY, LEN, OWNER};
use dualvm_vm::native::{Form, IntReg, RealReg, RefReg};

/// A builder that an element was just pushed to: nothing but arithmetic and loads has followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastPush {
    /// The reference register.
    register: u16,
    builder: Value,
    /// How many elements it has now.
    len: Value,
    capacity: Value,
}

/// Whether an instruction appends an element to a builder.
pub(super) fn pushes(form: &Form) -> bool {
    matches!(form, Form::Push { .. } | Form::PrimalPush { .. } | Form::IPush { .. } | Form::PPush { .. })
}

impl Function<'_, '_> {
    /// Makes sure that a builder has room for an element.
    fn push_room(&mut self, register: RefReg) -> Room {
        if let Some(pushes) = self.inside.as_ref().and_then(|inside| inside.pushes_to(register.0)) {
            return self.tight_room(pushes);
        }
        let (builder, len, capacity) = match self.last_push.filter(|last| last.register == register.0) {
            // Tangents of several directions are pushed one after the other. The length, loaded from where it was just
            // stored, would make each wait for the one before.
            Some(LastPush { builder, len, capacity, .. }) => (builder, len, capacity),
            None => {
                let builder = self.reference(register.0);
                let header = self.emit.load(I64, builder, 0);
                let finished = self.is_finished(header);
                self.trap_if(finished, |this| {
                    this.emit.call(Helper::TrapFinished, &[this.context]);
                });
                let len = self.emit.load(I64, builder, cell(LEN));
                (builder, len, self.emit.load(I64, builder, cell(CAPACITY)))
            }
        };
        let full = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, len, capacity);
        self.trap_if(full, |this| {
            this.emit.call_cold(Helper::TrapFull, &[this.context, capacity]);
        });
        let place = self.element_of(builder, len);
        Room { builder, place, at: cell(ARRAY_HEADER), len, capacity, pushes: None }
    }

    /// The same in a tight loop, whose builder's length is in a register.
    fn tight_room(&mut self, pushes: Pushes) -> Room {
        let Pushes { builder, room: capacity, len: variable, .. } = pushes;
        if let Some(group) = &mut self.group {
            // There is room for what all rounds push.
            let (first, pushed) = (group.first_len, group.pushed);
            group.pushed += 1;
            let place = self.element_of(builder, first);
            let len = self.emit.b.ins().iadd_imm_s(first, pushed as i64);
            return Room { builder, place, at: cell(ARRAY_HEADER + pushed), len, capacity, pushes: Some(variable) };
        }
        let len = self.emit.b.use_var(variable);
        let full = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, len, capacity);
        self.trap_if(full, |this| {
            this.finished_or(builder, |this| {
                this.emit.call_cold(Helper::TrapFull, &[this.context, capacity]);
            });
        });
        let place = self.element_of(builder, len);
        Room { builder, place, at: cell(ARRAY_HEADER), len, capacity, pushes: Some(variable) }
    }

    /// Notes that a builder is finished, if it is, or else what `note` notes.
    fn finished_or(&mut self, builder: Value, note: impl FnOnce(&mut Self)) {
        let header = self.emit.load(I64, builder, 0);
        let finished = self.is_finished(header);
        let (of_finished, of_other, done) = (self.emit.cold_block(), self.emit.cold_block(), self.emit.cold_block());
        self.emit.branch(finished, of_finished, &[], of_other, &[]);
        self.emit.enter(of_finished);
        self.emit.call(Helper::TrapFinished, &[self.context]);
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(of_other);
        note(self);
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(done);
    }

    /// Whether something with this header is no builder any more.
    pub(super) fn is_finished(&mut self, header: Value) -> Value {
        let kind = self.emit.b.ins().band_imm_u(header, layout::KIND as i64);
        self.emit.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, kind, layout::BUILDER as i64)
    }

    /// Puts an element into its place.
    fn append(&mut self, room: &Room, value: Value) {
        self.emit.store(value, room.place, room.at);
    }

    fn count_element(&mut self, register: RefReg, room: &Room) {
        let len = self.emit.b.ins().iadd_imm_s(room.len, 1);
        match room.pushes {
            // A group counts its elements when all have been pushed.
            Some(_) if self.group.is_some() => return,
            Some(variable) => self.emit.b.def_var(variable, len),
            None => {
                let Room { builder, capacity, .. } = *room;
                self.last_push = Some(LastPush { register: register.0, builder, len, capacity });
            }
        }
        self.emit.store(len, room.builder, cell(LEN));
    }

    /// Pushes a real, with its word if the builder keeps words.
    pub(super) fn push_real(&mut self, builder: RefReg, value: RealReg, with_word: bool) {
        let room = self.push_room(builder);
        let primal = self.real(value.0);
        self.append(&room, primal);
        if with_word {
            let word = self.word(value.0);
            let elements = self.emit.b.ins().ishl_imm_u(room.capacity, 3);
            let place = self.emit.b.ins().iadd(room.place, elements);
            self.emit.store(word, place, room.at);
        }
        self.count_element(builder, &room);
    }

    pub(super) fn push_int(&mut self, builder: RefReg, value: IntReg) {
        let room = self.push_room(builder);
        let value = self.int(value.0);
        self.append(&room, value);
        self.count_element(builder, &room);
    }

    pub(super) fn push_reference(&mut self, builder: RefReg, value: RefReg) {
        let room = self.push_room(builder);
        let value = self.reference(value.0);
        self.append(&room, value);
        self.own_if_active(room.builder, value);
        self.count_element(builder, &room);
    }

    /// Makes the task the owner of a builder that refers to something from now on, if that is not constant.
    fn own_if_active(&mut self, builder: Value, value: Value) {
        if self.request.mode.is_recording() {
            let activity = self.emit.load(I64, value, cell(OWNER));
            let before = self.emit.load(I64, builder, cell(OWNER));
            let task = self.emit.load(I64, self.context, layout::TASK);
            let owner = self.emit.select(activity, task, before);
            self.emit.store(owner, builder, cell(OWNER));
        }
    }

    /// Where an element stands that was pushed before. Stops if the builder is finished or doesn't have it.
    fn pushed(&mut self, register: RefReg, index: IntReg) -> Pushed {
        if let Some(held) = self.inside.as_ref().and_then(|inside| inside.held(register.0)) {
            return self.tight_pushed(held, index);
        }
        let builder = self.reference(register.0);
        let pushes = self.inside.as_ref().and_then(|inside| inside.pushes_to(register.0));
        let index = self.int(index.0);
        match pushes {
            Some(Pushes { builder, room, len }) => {
                let len = match &self.group {
                    Some(group) => {
                        let (first, pushed) = (group.first_len, group.pushed as i64);
                        self.emit.b.ins().iadd_imm_s(first, pushed)
                    }
                    None => self.emit.b.use_var(len),
                };
                // There is no room if it is finished.
                let len = self.emit.b.ins().umin(len, room);
                self.check_pushed(builder, index, len);
            }
            None => {
                let header = self.emit.load(I64, builder, 0);
                let finished = self.is_finished(header);
                self.trap_if(finished, |this| {
                    this.emit.call(Helper::TrapFinished, &[this.context]);
                });
                let len = self.emit.load(I64, builder, cell(LEN));
                let outside = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, len);
                self.trap_if(outside, |this| {
                    this.emit.call_cold(Helper::TrapIndex, &[this.context, index, len]);
                });
            }
        }
        Pushed { builder, place: self.element_of(builder, index), at: cell(ARRAY_HEADER), capacity: None }
    }

    /// The same in a tight loop that doesn't push, in which the number of elements is known.
    fn tight_pushed(&mut self, held: Held, index: IntReg) -> Pushed {
        let Held { builder, len, capacity } = held;
        // In the rounds of a group the index is inside, and addresses are counted from that of the first round.
        let near = self.near_first(index.0);
        let (index, by) = near.unwrap_or_else(|| (self.int(index.0), 0));
        if near.is_none() {
            self.check_pushed(builder, index, len);
        }
        let at = cell(ARRAY_HEADER) + 8 * by as i32;
        Pushed { builder, place: self.element_of(builder, index), at, capacity: Some(capacity) }
    }

    /// Stops if a builder has only so many elements, or 0 if it is finished.
    fn check_pushed(&mut self, builder: Value, index: Value, len: Value) {
        let outside = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, len);
        self.trap_if(outside, |this| {
            this.finished_or(builder, |this| {
                this.emit.call_cold(Helper::TrapIndex, &[this.context, index, len]);
            });
        });
    }

    /// Where the word of an element stands, as its own place is told.
    fn place_of_word(&mut self, pushed: &Pushed) -> Value {
        let capacity = match pushed.capacity {
            Some(capacity) => capacity,
            None => self.emit.load(I64, pushed.builder, cell(CAPACITY)),
        };
        self.element_of(pushed.place, capacity)
    }

    /// Reads an element of a builder of reals, with its word if the builder keeps words.
    pub(super) fn get_real(&mut self, dst: RealReg, builder: RefReg, index: IntReg, with_word: bool) {
        let pushed = self.pushed(builder, index);
        let primal = self.emit.load(F64, pushed.place, pushed.at);
        self.set_real(dst.0, primal);
        if with_word {
            let place = self.place_of_word(&pushed);
            let word = self.emit.load(I64, place, pushed.at);
            self.set_word(dst.0, word);
        }
    }

    /// The value of an element of a builder of integers or of references.
    pub(super) fn plain_get(&mut self, builder: RefReg, index: IntReg) -> Value {
        let pushed = self.pushed(builder, index);
        self.emit.load(I64, pushed.place, pushed.at)
    }

    /// Replaces an element of a builder of reals, and its word if the builder keeps words.
    pub(super) fn put_real(&mut self, builder: RefReg, index: IntReg, value: RealReg, with_word: bool) {
        let pushed = self.pushed(builder, index);
        let primal = self.real(value.0);
        self.emit.store(primal, pushed.place, pushed.at);
        if with_word {
            let place = self.place_of_word(&pushed);
            let word = self.word(value.0);
            self.emit.store(word, place, pushed.at);
        }
    }

    pub(super) fn put_int(&mut self, builder: RefReg, index: IntReg, value: IntReg) {
        let pushed = self.pushed(builder, index);
        let value = self.int(value.0);
        self.emit.store(value, pushed.place, pushed.at);
    }

    pub(super) fn put_reference(&mut self, builder: RefReg, index: IntReg, value: RefReg) {
        let pushed = self.pushed(builder, index);
        let value = self.reference(value.0);
        self.emit.store(value, pushed.place, pushed.at);
        self.own_if_active(pushed.builder, value);
    }

    /// Where a component above the lowest stands of an element that a builder has, and its word.
    fn pushed_part(&mut self, builder: RefReg, index: IntReg, part: u16) -> (Value, Value) {
        let recording = self.request.mode.is_recording();
        let builder = self.reference(builder.0);
        let capacity = self.emit.load(I64, builder, cell(CAPACITY));
        // A builder keeps words if the run does.
        let cells = i64::from(part) << u32::from(recording);
        let before = self.emit.b.ins().imul_imm_u(capacity, cells);
        let index = self.int(index.0);
        let at = self.emit.b.ins().iadd(before, index);
        let place = self.element_of(builder, at);
        (place, self.element_of(place, capacity))
    }

    /// Reads a component of an element of a builder.
    pub(super) fn get_part(&mut self, dst: RealReg, builder: RefReg, index: IntReg, part: u16) {
        let (place, words) = self.pushed_part(builder, index, part);
        // The depth word stands before the components.
        let component = self.emit.load(F64, place, cell(ARRAY_HEADER + 1));
        self.set_real(dst.0, component);
        if self.request.mode.is_recording() {
            let word = self.emit.load(I64, words, cell(ARRAY_HEADER + 1));
            self.set_word(dst.0, word);
        }
    }

    /// Replaces a component of an element of a builder.
    pub(super) fn put_part(&mut self, builder: RefReg, index: IntReg, value: RealReg, part: u16) {
        let (place, words) = self.pushed_part(builder, index, part);
        let value_of = self.real(value.0);
        let zero = self.emit.b.ins().f64const(0.0);
        let component = self.emit.b.ins().fadd(value_of, zero);
        self.emit.store(component, place, cell(ARRAY_HEADER + 1));
        if self.request.mode.is_recording() {
            let word = self.word(value.0);
            self.emit.store(word, words, cell(ARRAY_HEADER + 1));
        }
    }

    /// Appends a range of an array to a builder, of reals with their words or without.
    pub(super) fn extend(&mut self, (builder, array): (RefReg, RefReg), (from, to): (IntReg, IntReg), words: bool) {
        let (builder, array) = (self.reference(builder.0), self.reference(array.0));
        let (from, to) = (self.int(from.0), self.int(to.0));
        let words = self.emit.int(i64::from(words));
        let status = self.emit.value_of(Helper::Extend, &[self.context, builder, array, from, to, words]);
        self.trap_if(status, |_| ());
    }

    /// The same builder if it has room for so many elements more, or what takes its place.
    pub(super) fn reserve(&mut self, dst: RefReg, register: RefReg, count: IntReg) {
        let done = self.emit.b.create_block();
        let with_room = self.emit.b.append_block_param(done, I64);
        let slow = self.emit.cold_block();
        let (builder, count) = (self.reference(register.0), self.int(count.0));
        let header = self.emit.load(I64, builder, 0);
        let finished = self.is_finished(header);
        let len = self.emit.load(I64, builder, cell(LEN));
        let capacity = self.emit.load(I64, builder, cell(CAPACITY));
        let room = self.emit.b.ins().isub(capacity, len);
        // A number below 0 is too many, too.
        let full = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThan, count, room);
        let either = self.emit.b.ins().bor(finished, full);
        self.emit.branch(either, slow, &[], done, &[builder.into()]);
        self.emit.enter(slow);
        let place = self.emit.b.ins().iadd_imm_s(self.bases.refs, i64::from(cell(usize::from(register.0))));
        let roots = self.roots();
        let made = self.emit.call_cold(Helper::MakeRoom, &[self.context, place, count, roots]);
        self.stop_if_null(made);
        // All references have been stored before the instruction.
        let stores = self.forget_references_rarely();
        debug_assert!(stores.is_empty());
        self.fetch_references();
        self.emit.b.ins().jump(done, &[made.into()]);
        self.emit.enter(done);
        self.set_reference(dst.0, with_room);
    }
}

/// Room for an element of a builder.
struct Room {
    builder: Value,
    /// Where the element goes: an address and an offset from there.
    place: Value,
    at: i32,
    len: Value,
    capacity: Value,
    /// Where the builder's length is in a register, that one.
    pushes: Option<Variable>,
}

/// The place of an element that a builder has.
struct Pushed {
    builder: Value,
    /// An address and an offset from there.
    place: Value,
    at: i32,
    /// The builder's capacity, if it is known.
    capacity: Option<Value>,
}
