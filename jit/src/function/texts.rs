//! Texts that are shown: why a run stops, and what it traces for a host that listens.

use super::{Bases, Function, cell};
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout;
use dualvm_vm::native::{Site, TextSite};

impl Function<'_, '_> {
    /// Stops with a text.
    pub(super) fn trap_with(&mut self, number: Site<TextSite>) {
        let params = self.shown(number);
        self.emit.call(Helper::TrapWith, &params);
        self.stop();
    }

    /// Shows a text, if the host listens.
    pub(super) fn trace(&mut self, number: Site<TextSite>) {
        let listens = self.emit.b.ins().uload8(I64, super::TRUSTED, self.context, layout::LISTENS);
        let (heard, next) = (self.emit.cold_block(), self.emit.b.create_block());
        self.emit.branch(listens, heard, &[], next, &[]);
        self.emit.enter(heard);
        let mut params = self.shown(number);
        params.push(self.emit.b.ins().iconst(I32, i64::from(self.at.0)));
        let status = self.emit.value_of(Helper::Trace, &params);
        self.stop_if(status);
        self.fetch_fuel();
        self.emit.b.ins().jump(next, &[]);
        self.emit.enter(next);
    }

    /// Hands over what a text shows. Returns what its helper takes.
    fn shown(&mut self, number: Site<TextSite>) -> Vec<Value> {
        let site = &self.stream.texts[number];
        let Bases { reals, words, ints, refs } = self.above();
        for (n, &register) in site.uses.reals.iter().enumerate() {
            let value = self.real(register);
            self.emit.store(value, reals, cell(n));
        }
        for (n, &register) in site.uses.ints.iter().enumerate() {
            let value = self.int(register);
            self.emit.store(value, ints, cell(n));
        }
        for (n, &register) in site.uses.refs.iter().enumerate() {
            // What is loaded here is known in this block only.
            let value = self.emit.load(I64, self.bases.refs, cell(usize::from(register)));
            self.emit.store(value, refs, cell(n));
        }
        self.put_fuel();
        let mut params = vec![self.context, reals, words, ints, refs, self.remaining];
        params.extend(self.numbers(number.index()));
        params
    }
}
