//! Objects at a depth: components of reals above the lowest, which an object may have or not.

use super::{Function, cell};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value};
use dualvm_vm::native::helpers::{Helper, NO_WORD};
use dualvm_vm::native::layout::{self, ARRAY_HEADER, CAPACITY, FIRST, LEN, OWNER};
use dualvm_vm::native::{IntReg, ObjectSite, RealReg, RefReg};

/// What is known of a component of an array's elements, of {} what its words are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    /// An address that the component's elements stand at as those of {} stand at the array's, one word further on. If
    /// the component isn't there: one at which the elements of {} stand.
    base: Value,
    /// What is read there counts by so many bits: all or none.
    mask: Value,
    words: Option<Words>,
}

/// The words of a component of an array's elements.
#[derive(Clone, Copy, Debug)]
struct Words {
    /// The first slot; 0 if the component is constant, or another task's.
    first: Value,
    /// Whether it is another task's.
    foreign: Value,
}

impl Function<'_, '_> {
    /// Finds out what reads of a component of an array's elements have in common.
    pub(super) fn plane(&mut self, array: u16, part: u16) -> Plane {
        let (object, len) = (self.reference(array), self.len(array));
        let none = self.emit.int(0);
        if part == 0 {
            let first = self.emit.load(I64, object, cell(FIRST));
            return Plane { base: object, mask: none, words: self.words_of(object, first) };
        }
        let (there, missing, done) = self.if_deep(object);
        let [base, mask, first] = [(); 3].map(|()| self.emit.b.append_block_param(done, I64));
        self.emit.enter(there);
        let (place, firsts) = self.plane_at(object, len, part, missing);
        let slot = self.emit.load(I64, firsts, cell(ARRAY_HEADER + usize::from(part)));
        let all = self.emit.int(-1);
        self.emit.b.ins().jump(done, &[place.into(), all.into(), slot.into()]);
        self.emit.enter(missing);
        let lowest = self.emit.base_of(object);
        let lowest = self.emit.b.ins().iadd_imm_s(lowest, -8);
        self.emit.b.ins().jump(done, &[lowest.into(), none.into(), none.into()]);
        self.emit.enter(done);
        Plane { base, mask, words: self.words_of(object, first) }
    }

    /// Where the elements of a component stand, and the first slots, of an array that is deep; goes to `missing` if it
    /// doesn't have the component.
    fn plane_at(&mut self, object: Value, len: Value, part: u16, missing: Block) -> (Value, Value) {
        let end = self.element_of(object, len);
        let depth = self.emit.load(I64, end, cell(ARRAY_HEADER));
        let planes = self.emit.b.ins().band_imm_u(depth, 0xff);
        let part = self.emit.int(part.into());
        let beyond = self.emit.b.ins().ushr(part, planes);
        let read = self.emit.b.create_block();
        self.emit.branch(beyond, missing, &[], read, &[]);
        self.emit.enter(read);
        let before = self.emit.b.ins().imul(part, len);
        let place = self.element_of(object, before);
        // First slots stand behind all elements.
        let elements = self.emit.b.ins().ishl(len, planes);
        (place, self.element_of(object, elements))
    }

    /// What there is to know of words, if there are any.
    fn words_of(&mut self, object: Value, first: Value) -> Option<Words> {
        if !self.request.mode.is_recording() {
            return None;
        }
        let owner = self.emit.load(I64, object, cell(OWNER));
        let task = self.emit.load(I64, self.context, layout::TASK);
        let constant = self.emit.int(0);
        let is_own = self.emit.b.ins().icmp(IntCC::Equal, owner, task);
        let first = self.emit.select(is_own, first, constant);
        let foreign = self.emit.select(is_own, constant, owner);
        Some(Words { first, foreign })
    }

    /// Hands registers to a helper that makes something of them.
    fn make(&mut self, helper: Helper, site: &ObjectSite, first: Value, chain: Option<RefReg>) -> Value {
        let args = self.above();
        let chain = chain.map(|chain| self.reference(chain.0));
        self.hand_over(&site.uses, args);
        if let Some(chain) = chain {
            self.emit.store(chain, args.refs, cell(site.uses.refs.len()));
        }
        let mut params = vec![self.context, first];
        if helper == Helper::PackDeep {
            let len =
                (site.uses.reals.len() >> self.request.mode.depth()) + site.uses.ints.len() + site.uses.refs.len();
            params.push(self.emit.int(len as i64));
        }
        params.extend([args.reals, args.words, args.ints, args.refs]);
        let made = self.emit.value_of(helper, &params);
        self.stop_if_null(made);
        self.forget_references();
        made
    }

    /// Makes an object a constant.
    pub(super) fn detach(&mut self, dst: RefReg, object: Value) {
        let above = self.above();
        let params = [self.context, object, above.reals, above.words, above.ints, above.refs];
        let object = self.emit.value_of(Helper::Detach, &params);
        self.stop_if_null(object);
        self.forget_references();
        self.set_reference(dst.0, object);
    }

    pub(super) fn new_deep(&mut self, dst: RefReg, site: &ObjectSite) {
        let header = self.emit.int(site.header as i64);
        let object = self.make(Helper::NewDeep, site, header, None);
        self.set_reference(dst.0, object);
    }

    pub(super) fn pack_deep(&mut self, dst: RefReg, site: &ObjectSite) {
        let element = self.emit.int(site.element as i64);
        let array = self.make(Helper::PackDeep, site, element, None);
        self.set_reference(dst.0, array);
    }

    pub(super) fn chain_push_deep(&mut self, dst: RefReg, chain: RefReg, site: &ObjectSite) {
        let header = self.emit.int(site.header as i64);
        let chain = self.make(Helper::ChainPushDeep, site, header, Some(chain));
        self.set_reference(dst.0, chain);
    }

    /// Reads a component of a real field.
    pub(super) fn field_part(&mut self, dst: RealReg, object: RefReg, depth: u16, primal: u32, word: u32) {
        let object = self.reference(object.0);
        let (there, missing, done) = self.if_deep(object);
        self.emit.enter(there);
        let depth = self.emit.load(I64, object, cell(depth.into()));
        let size = self.emit.b.ins().ushr_imm_u(depth, 16);
        let has = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, size, i64::from(primal));
        let read = self.emit.b.create_block();
        self.emit.branch(has, read, &[], missing, &[]);
        self.emit.enter(read);
        let value = self.emit.load(F64, object, cell(primal as usize));
        self.set_real(dst.0, value);
        if self.request.mode.is_recording() {
            let at = self.emit.int(i64::from(word));
            let word = self.owned_word(
                object,
                |this| this.emit.load(I64, object, cell(word as usize)),
                |this| this.emit.call_cold(Helper::Import, &[this.context, object, at]),
            );
            self.set_word(dst.0, word);
        }
        self.emit.b.ins().jump(done, &[]);
        self.zero(dst, missing, done);
    }

    /// Reads a component of an element; of the lowest one the word only.
    pub(super) fn element_part(&mut self, dst: RealReg, array: RefReg, index: IntReg, number: u16) {
        if let Some(plane) = self.inside.as_ref().and_then(|inside| inside.plane(array.0, number)) {
            return self.element_of_plane(dst, (array, index, number), plane);
        }
        let (object, index) = (self.reference(array.0), self.int(index.0));
        if number == 0 {
            self.element_part_word(dst, (object, index, number), (object, FIRST));
        } else {
            let len = self.len(array.0);
            let (there, missing, done) = self.if_deep(object);
            self.emit.enter(there);
            let (plane, firsts) = self.plane_at(object, len, number, missing);
            let place = self.element_of(plane, index);
            let value = self.emit.load(F64, place, cell(ARRAY_HEADER + 1));
            self.set_real(dst.0, value);
            self.element_part_word(dst, (object, index, number), (firsts, ARRAY_HEADER + usize::from(number)));
            self.emit.b.ins().jump(done, &[]);
            self.zero(dst, missing, done);
        }
    }

    /// The same in a loop before which the component was looked up.
    fn element_of_plane(&mut self, dst: RealReg, (array, register, part): (RefReg, IntReg, u16), plane: Plane) {
        if part > 0 {
            // The index is one that the array has: the lowest component was read.
            let (index, by) = self.near_first(register.0).unwrap_or_else(|| (self.int(register.0), 0));
            let place = self.element_of(plane.base, index);
            let bits = self.emit.load(I64, place, cell(ARRAY_HEADER + 1) + 8 * by as i32);
            let bits = self.emit.b.ins().band(bits, plane.mask);
            let value = self.emit.b.ins().bitcast(F64, MemFlagsData::new(), bits);
            self.set_real(dst.0, value);
        }
        let Some(Words { first, foreign }) = plane.words else { return };
        let (object, index) = (self.reference(array.0), self.int(register.0));
        let (import, done) = (self.emit.cold_block(), self.emit.b.create_block());
        let word = self.emit.b.append_block_param(done, I64);
        let constant = self.emit.int(0);
        let slot = self.emit.b.ins().iadd(first, index);
        let own = self.emit.select(first, slot, constant);
        self.emit.branch(foreign, import, &[], done, &[own.into()]);
        self.emit.enter(import);
        let part = self.emit.int(part.into());
        let imported = self.emit.call_cold(Helper::ComponentWord, &[self.context, object, part, index]);
        let stopped = self.emit.b.ins().icmp_imm_s(IntCC::Equal, imported, NO_WORD as i64);
        self.trap_if(stopped, |_| ());
        self.emit.b.ins().jump(done, &[imported.into()]);
        self.emit.enter(done);
        self.set_word(dst.0, word);
    }

    /// The word of a component of an element, if there are words. The first slot of the component stands at a place.
    fn element_part_word(
        &mut self,
        dst: RealReg,
        (object, index, part): (Value, Value, u16),
        (place, at): (Value, usize),
    ) {
        if !self.request.mode.is_recording() {
            return;
        }
        let own = |this: &mut Self| {
            // Other components may be what isn't constant.
            let first = this.emit.load(I64, place, cell(at));
            let constant = this.emit.int(0);
            let slot = this.emit.b.ins().iadd(first, index);
            this.emit.b.ins().select(first, slot, constant)
        };
        let word = self.owned_word(object, own, |this| {
            let part = this.emit.int(part.into());
            this.emit.call_cold(Helper::ComponentWord, &[this.context, object, part, index])
        });
        self.set_word(dst.0, word);
    }

    /// Where control goes if an object is deep, where if not, and where both meet.
    fn if_deep(&mut self, object: Value) -> (Block, Block, Block) {
        let [there, missing, done] = [(); 3].map(|()| self.emit.b.create_block());
        let header = self.emit.load(I64, object, 0);
        let deep = self.emit.b.ins().band_imm_u(header, layout::DEEP as i64);
        self.emit.branch(deep, there, &[], missing, &[]);
        (there, missing, done)
    }

    /// What isn't there is 0.
    fn zero(&mut self, dst: RealReg, missing: Block, done: Block) {
        self.emit.enter(missing);
        let zero = self.emit.b.ins().f64const(0.0);
        self.set_real(dst.0, zero);
        self.set_constant(dst.0);
        self.emit.b.ins().jump(done, &[]);
        self.emit.enter(done);
    }

    /// Gives the last element of a builder a component.
    pub(super) fn push_part(&mut self, builder: RefReg, value: RealReg, part: u16) {
        let recording = self.request.mode.is_recording();
        let builder = self.reference(builder.0);
        let len = self.emit.load(I64, builder, cell(LEN));
        let capacity = self.emit.load(I64, builder, cell(CAPACITY));
        // A builder keeps words if the run does.
        let cells = i64::from(part) << u32::from(recording);
        let before = self.emit.b.ins().imul_imm_u(capacity, cells);
        let at = self.emit.b.ins().iadd(before, len);
        let place = self.element_of(builder, at);
        // The element has been counted.
        let offset = cell(ARRAY_HEADER);
        let value_of = self.real(value.0);
        let zero = self.emit.b.ins().f64const(0.0);
        let component = self.emit.b.ins().fadd(value_of, zero);
        self.emit.store(component, place, offset);
        if recording {
            let place = self.element_of(place, capacity);
            let word = self.word(value.0);
            self.emit.store(word, place, offset);
        }
    }
}
