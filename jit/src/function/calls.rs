//! Calls: arguments go to the first cells above the bases, results come back in the same places.

use super::{Bases, Function, cell};
use crate::emit::Helper;
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::native::layout;
use dualvm_vm::native::{CallSite, RegList};

impl Function<'_, '_> {
    /// Stores registers to consecutive cells.
    pub(super) fn hand_over(&mut self, list: &RegList, to: Bases) {
        for (n, &register) in list.reals.iter().enumerate() {
            let value = self.real(register);
            self.emit.store(value, to.reals, cell(n));
            if self.request.recording {
                let word = self.word(register);
                self.emit.store(word, to.words, cell(n));
            }
        }
        for (n, &register) in list.ints.iter().enumerate() {
            let value = self.int(register);
            self.emit.store(value, to.ints, cell(n));
        }
        // The cells may be those of the frame itself: all are read before any is written.
        let refs: Vec<Value> = list.refs.iter().map(|&register| self.reference(register)).collect();
        for (n, value) in refs.into_iter().enumerate() {
            self.emit.store(value, to.refs, cell(n));
        }
    }

    /// Takes results from consecutive cells.
    pub(super) fn take_over(&mut self, list: &RegList, from: Bases) {
        for (n, &register) in list.reals.iter().enumerate() {
            let value = self.emit.load(F64, from.reals, cell(n));
            self.set_real(register, value);
            if self.request.recording {
                let word = self.emit.load(I64, from.words, cell(n));
                self.set_word(register, word);
            }
        }
        for (n, &register) in list.ints.iter().enumerate() {
            let value = self.emit.load(I64, from.ints, cell(n));
            self.set_int(register, value);
        }
        for (n, &register) in list.refs.iter().enumerate() {
            let value = self.emit.load(I64, from.refs, cell(n));
            self.set_reference(register, value);
        }
    }

    /// Puts captures and arguments where the callee expects them, and stores which function it is. Returns its code.
    pub(super) fn prepare_call(&mut self, site: &CallSite, closure: Option<u16>, callee: Bases) -> Value {
        let (func, entry) = match closure {
            None => {
                self.hand_over(&site.uses, callee);
                let func = self.emit.b.ins().iconst(I32, i64::from(site.func));
                let entry = self.emit.int(self.request.entries as i64 + 8 * i64::from(site.func));
                (func, entry)
            }
            Some(register) => {
                let closure = self.reference(register);
                let header = self.emit.load(I64, closure, 0);
                // Arguments go after the captures. All are read before captures are written.
                let count = |this: &mut Self, base: Value, shift: i64| {
                    let count = this.emit.b.ins().ushr_imm_u(header, shift);
                    let count = this.emit.b.ins().band_imm_u(count, 0xff);
                    let bytes = this.emit.b.ins().ishl_imm_u(count, 3);
                    this.emit.b.ins().iadd(base, bytes)
                };
                let after = Bases {
                    reals: count(self, callee.reals, 8),
                    words: count(self, callee.words, 8),
                    ints: count(self, callee.ints, 16),
                    refs: count(self, callee.refs, 24),
                };
                self.hand_over(&site.uses, after);
                let captures = self.emit.b.ins().band_imm_u(header, 0xffff_ff00);
                let (unpack, next) = (self.emit.b.create_block(), self.emit.b.create_block());
                self.emit.b.ins().brif(captures, unpack, &[], next, &[]);
                self.emit.b.switch_to_block(unpack);
                let Bases { reals, words, ints, refs } = callee;
                self.emit.call(Helper::Unpack, &[self.context, closure, reals, words, ints, refs]);
                self.emit.b.ins().jump(next, &[]);
                self.emit.b.switch_to_block(next);
                let func = self.emit.b.ins().ushr_imm_u(header, 32);
                let offset = self.emit.b.ins().ishl_imm_u(func, 3);
                let entry = self.emit.b.ins().iadd_imm_s(offset, self.request.entries as i64);
                (self.emit.b.ins().ireduce(I32, func), entry)
            }
        };
        self.emit.store(func, self.context, layout::CALLEE);
        self.put_fuel();
        self.emit.load(I64, entry, 0)
    }

    pub(super) fn call(&mut self, site: &CallSite, closure: Option<u16>) {
        self.charge(site.cost);
        let deepest = self.emit.is_zero(self.remaining);
        self.trap_if(deepest, |this| {
            this.emit.call(Helper::TrapDepth, &[this.context]);
        });
        let callee = Bases { refs: self.roots(), ..self.bases };
        let code = self.prepare_call(site, closure, callee);
        let remaining = self.emit.b.ins().iadd_imm_s(self.remaining, -1);
        let args = [self.context, callee.reals, callee.words, callee.ints, callee.refs, remaining];
        let call = self.emit.b.ins().call_indirect(self.callee, code, &args);
        let status = self.emit.b.inst_results(call)[0];
        self.stop_if(status);
        self.fetch_fuel();
        self.forget_refs();
        self.take_over(&site.defs, callee);
    }

    pub(super) fn tail_call(&mut self, site: &CallSite, closure: Option<u16>) {
        self.charge(site.cost);
        let code = self.prepare_call(site, closure, self.bases);
        let Bases { reals, words, ints, refs } = self.bases;
        let args = [self.context, reals, words, ints, refs, self.remaining];
        self.emit.b.ins().return_call_indirect(self.callee, code, &args);
    }
}
