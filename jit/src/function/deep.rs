//! Objects at a depth: components of reals above the lowest, which an object may have or not.

use super::{Function, cell};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use dualvm_vm::native::helpers::{Helper, NO_WORD};
use dualvm_vm::native::layout::{self, ARRAY_HEADER, CAPACITY, LEN};
use dualvm_vm::native::{IntReg, ObjectSite, RealReg, RefReg};

impl Function<'_, '_> {
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
        self.forget_refs();
        made
    }

    /// Makes an object a constant.
    pub(super) fn detach(&mut self, dst: RefReg, object: Value) {
        let above = self.above();
        let params = [self.context, object, above.reals, above.words, above.ints, above.refs];
        let object = self.emit.value_of(Helper::Detach, &params);
        self.stop_if_null(object);
        self.forget_refs();
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
        self.emit.b.switch_to_block(there);
        let depth = self.emit.load(I64, object, cell(depth.into()));
        let size = self.emit.b.ins().ushr_imm_u(depth, 16);
        let has = self.emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, size, i64::from(primal));
        let read = self.emit.b.create_block();
        self.emit.b.ins().brif(has, read, &[], missing, &[]);
        self.emit.b.switch_to_block(read);
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
    pub(super) fn element_part(&mut self, dst: RealReg, array: RefReg, index: IntReg, part: u16) {
        let (object, index) = (self.reference(array.0), self.int(index.0));
        if part > 0 {
            let len = self.len(array.0);
            let (there, missing, done) = self.if_deep(object);
            self.emit.b.switch_to_block(there);
            let end = self.element_of(object, len);
            let depth = self.emit.load(I64, end, cell(ARRAY_HEADER));
            let planes = self.emit.b.ins().band_imm_u(depth, 0xff);
            let part = self.emit.int(part.into());
            let beyond = self.emit.b.ins().ushr(part, planes);
            let read = self.emit.b.create_block();
            self.emit.b.ins().brif(beyond, missing, &[], read, &[]);
            self.emit.b.switch_to_block(read);
            let before = self.emit.b.ins().imul(part, len);
            let at = self.emit.b.ins().iadd(before, index);
            let place = self.element_of(object, at);
            let value = self.emit.load(F64, place, cell(ARRAY_HEADER + 1));
            self.set_real(dst.0, value);
            self.emit.b.ins().jump(done, &[]);
            self.zero(dst, missing, done);
        }
        if self.request.mode.is_recording() {
            let part = self.emit.int(part.into());
            let word = self.emit.call_cold(Helper::ComponentWord, &[self.context, object, part, index]);
            let stopped = self.emit.b.ins().icmp_imm_s(IntCC::Equal, word, NO_WORD as i64);
            self.trap_if(stopped, |_| ());
            self.set_word(dst.0, word);
        }
    }

    /// Where control goes if an object is deep, where if not, and where both meet.
    fn if_deep(&mut self, object: Value) -> (Block, Block, Block) {
        let [there, missing, done] = [(); 3].map(|()| self.emit.b.create_block());
        let header = self.emit.load(I64, object, 0);
        let deep = self.emit.b.ins().band_imm_u(header, layout::DEEP as i64);
        self.emit.b.ins().brif(deep, there, &[], missing, &[]);
        (there, missing, done)
    }

    /// What isn't there is 0.
    fn zero(&mut self, dst: RealReg, missing: Block, done: Block) {
        self.emit.b.switch_to_block(missing);
        let zero = self.emit.b.ins().f64const(0.0);
        self.set_real(dst.0, zero);
        self.set_constant(dst.0);
        self.emit.b.ins().jump(done, &[]);
        self.emit.b.switch_to_block(done);
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
