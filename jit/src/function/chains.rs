//! Chains under construction: appending to them, and finishing them.

use super::heap::words_of;
use super::{Function, cell};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout::{self, CHAIN_FIRST, CHAIN_LAST, CHAIN_OPEN, CHAIN_WORDS, OWNER};
use dualvm_vm::native::{ObjectSite, RefReg};

impl Function<'_, '_> {
    /// Appends an object to a chain; a chain that was empty becomes an object with it.
    pub(super) fn chain_push(&mut self, dst: RefReg, chain: RefReg, site: &ObjectSite) {
        let words = words_of(&site.uses) + 1;
        let before = self.reference(chain.0);
        let (known, ready) = (self.emit.b.create_block(), self.emit.b.create_block());
        let bytes = self.emit.b.append_block_param(ready, I64);
        let [of_cell, of_both] = [words, words + CHAIN_WORDS].map(|words| self.emit.int(8 * words as i64));
        self.emit.branch(before, known, &[], ready, &[of_both.into()]);
        self.emit.enter(known);
        self.last_cell(before);
        self.emit.b.ins().jump(ready, &[of_cell.into()]);

        self.emit.enter(ready);
        let object = self.allocate_small(site.header, bytes);
        self.fill(object, &site.uses);
        let open = self.emit.int(0);
        self.emit.store(open, object, cell(words - 1));
        if self.request.mode.is_recording() {
            // What will be appended is not known yet.
            let task = self.emit.load(I64, self.context, layout::TASK);
            self.emit.store(task, object, cell(OWNER));
        }

        // The chain may have moved.
        let before = self.reference(chain.0);
        let (begins, goes_on) = (self.emit.b.create_block(), self.emit.b.create_block());
        let done = self.emit.b.create_block();
        let after = self.emit.b.append_block_param(done, I64);
        self.emit.branch(before, goes_on, &[], begins, &[]);
        self.emit.enter(goes_on);
        let last = self.emit.load(I64, before, cell(CHAIN_LAST));
        self.fill_open_field(before, last, object);
        self.emit.b.ins().jump(done, &[before.into()]);
        self.emit.enter(begins);
        let new = self.emit.b.ins().iadd_imm_s(object, 8 * words as i64);
        let header = self.emit.int(layout::chain_header() as i64);
        self.emit.store(header, new, 0);
        let nobody = self.emit.int(0);
        self.emit.store(nobody, new, cell(OWNER));
        self.emit.store(object, new, cell(CHAIN_FIRST));
        self.emit.b.ins().jump(done, &[new.into()]);

        self.emit.enter(done);
        let open_at = self.emit.int(8 * (words as i64 - 1));
        self.emit.store(open_at, after, cell(CHAIN_OPEN));
        self.emit.store(object, after, cell(CHAIN_LAST));
        self.set_reference(dst.0, after);
    }

    /// Ends a chain; what an empty one gives is its tail.
    pub(super) fn chain_finish(&mut self, dst: RefReg, chain: RefReg, tail: RefReg) {
        let (chain, tail) = (self.reference(chain.0), self.reference(tail.0));
        let (known, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let first = self.emit.b.append_block_param(done, I64);
        self.emit.branch(chain, known, &[], done, &[tail.into()]);
        self.emit.enter(known);
        let last = self.last_cell(chain);
        self.fill_open_field(chain, last, tail);
        let first_cell = self.emit.load(I64, chain, cell(CHAIN_FIRST));
        let null = self.emit.int(0);
        [CHAIN_FIRST, CHAIN_LAST].into_iter().for_each(|at| self.emit.store(null, chain, cell(at)));
        self.emit.b.ins().jump(done, &[first_cell.into()]);
        self.emit.enter(done);
        self.set_reference(dst.0, first);
    }

    /// The last cell of a chain that is not empty. Stops if the chain is finished.
    fn last_cell(&mut self, chain: Value) -> Value {
        let last = self.emit.load(I64, chain, cell(CHAIN_LAST));
        let finished = self.emit.is_zero(last);
        self.trap_if(finished, |this| {
            this.emit.call(Helper::TrapFinished, &[this.context]);
        });
        last
    }

    fn fill_open_field(&mut self, chain: Value, last: Value, next: Value) {
        let open_at = self.emit.load(I64, chain, cell(CHAIN_OPEN));
        let open = self.emit.b.ins().iadd(last, open_at);
        self.emit.store(next, open, 0);
    }
}
