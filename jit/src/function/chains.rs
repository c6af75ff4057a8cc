//! Chains under construction: appending to them, and finishing them.
//!
//! A chain that only one register of one function ever holds needs no object that says where its first and its last
//! cell are: the register holds the last cell, whose open field leads to the first one.

use super::heap::words_of;
use super::liveness::Liveness;
use super::{Function, cell};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::Bank;
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout::{self, CHAIN_FIRST, CHAIN_LAST, CHAIN_OPEN, CHAIN_WORDS, OWNER};
use dualvm_vm::native::{Form, ObjectSite, Position, RefReg, Stream};
use std::collections::BTreeMap;

/// The registers that hold chains which no other one holds, with the words of their cells. All cells of such a register
/// are of one size, and what is finished is not read again.
pub(super) fn own_chains(stream: &Stream, live: &mut Liveness<'_>) -> BTreeMap<u16, usize> {
    let mut words = BTreeMap::new();
    for inst in &stream.code {
        if let Form::ChainPush { dst, chain, site } = inst.form()
            && dst == chain
        {
            words.insert(chain.0, words_of(&stream.objects[site].uses) + 1);
        }
    }
    (0..stream.ref_params as u16).for_each(|param| _ = words.remove(&param));
    if words.is_empty() {
        return words;
    }
    let mut finished: Vec<(Position, u16)> = Vec::new();
    for (at, inst) in (0..).map(Position).zip(&stream.code) {
        let own = match inst.form() {
            Form::ChainNew { dst } => Some(dst.0),
            Form::ChainPush { dst, chain, site } => {
                let of_site = words_of(&stream.objects[site].uses) + 1;
                (dst == chain && words.get(&chain.0) == Some(&of_site)).then_some(dst.0)
            }
            Form::ChainFinish { chain, tail, dst } if chain != tail && chain != dst => {
                finished.push((at, chain.0));
                Some(chain.0)
            }
            _ => None,
        };
        inst.for_each_reg(stream, |reg, _| {
            if reg.bank == Bank::Ref && own != Some(reg.index) {
                words.remove(&reg.index);
            }
        });
    }
    finished.retain(|(_, chain)| words.contains_key(chain));
    for (at, chain) in finished {
        if live.is_live(at, Position(at.0 + 1), chain) {
            words.remove(&chain);
        }
    }
    words
}

impl Function<'_, '_> {
    /// Appends an object to a chain; a chain that was empty becomes an object with it.
    pub(super) fn chain_push(&mut self, dst: RefReg, chain: RefReg, site: &ObjectSite) {
        let words = words_of(&site.uses) + 1;
        if self.own_chains.contains_key(&chain.0) {
            return self.own_chain_push(chain, site, words);
        }
        let before = self.reference(chain.0);
        let (known, ready) = (self.emit.b.create_block(), self.emit.b.create_block());
        let bytes = self.emit.b.append_block_param(ready, I64);
        let [of_cell, of_both] = [words, words + CHAIN_WORDS].map(|words| self.emit.int(8 * words as i64));
        self.emit.branch(before, known, &[], ready, &[of_both.into()]);
        self.emit.enter(known);
        self.last_cell(before);
        self.emit.b.ins().jump(ready, &[of_cell.into()]);

        self.emit.enter(ready);
        let object = self.chain_cell(site, bytes);
        let open = self.emit.int(0);
        self.emit.store(open, object, cell(words - 1));

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

    /// The same of a chain that its register alone holds.
    fn own_chain_push(&mut self, chain: RefReg, site: &ObjectSite, words: usize) {
        let before = self.reference(chain.0);
        // As much is taken as for a chain with an object of its own, so that limits are reached at the same place.
        let [of_cell, of_both] = [words, words + CHAIN_WORDS].map(|words| self.emit.int(8 * words as i64));
        let bytes = self.emit.select(before, of_cell, of_both);
        let object = self.chain_cell(site, bytes);
        // The last cell may have moved. What begins a chain is its own first cell.
        let before = self.reference(chain.0);
        let open = cell(words - 1);
        self.emit.store(object, object, open);
        let last = self.emit.select(before, before, object);
        let first = self.emit.load(I64, last, open);
        self.emit.store(first, object, open);
        self.emit.store(object, last, open);
        self.set_reference(chain.0, object);
    }

    /// A new cell of a chain, but for its open field.
    fn chain_cell(&mut self, site: &ObjectSite, bytes: Value) -> Value {
        let nobody = self.emit.int(0);
        let object = self.allocate_small(site.header, bytes, nobody);
        self.fill(object, &site.uses);
        // What will be appended is not known yet.
        self.own_if_it_holds_any(object, &site.uses);
        object
    }

    /// Gives the cells of what a chain has become their owner.
    fn own_cells(&mut self, first: Value, tail: Value) {
        if self.request.mode.is_recording() {
            self.emit.call(Helper::ChainSettle, &[self.context, first, tail]);
        }
    }

    /// Ends a chain; what an empty one gives is its tail.
    pub(super) fn chain_finish(&mut self, dst: RefReg, chain: RefReg, tail: RefReg) {
        if let Some(&words) = self.own_chains.get(&chain.0) {
            return self.own_chain_finish(dst, chain, tail, words);
        }
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
        self.own_cells(first_cell, tail);
        self.emit.b.ins().jump(done, &[first_cell.into()]);
        self.emit.enter(done);
        self.set_reference(dst.0, first);
    }

    /// The same of a chain that its register alone holds.
    fn own_chain_finish(&mut self, dst: RefReg, chain: RefReg, tail: RefReg, words: usize) {
        let (last, tail) = (self.reference(chain.0), self.reference(tail.0));
        let (known, done) = (self.emit.b.create_block(), self.emit.b.create_block());
        let result = self.emit.b.append_block_param(done, I64);
        self.emit.branch(last, known, &[], done, &[tail.into()]);
        self.emit.enter(known);
        let open = cell(words - 1);
        let first = self.emit.load(I64, last, open);
        self.emit.store(tail, last, open);
        self.own_cells(first, tail);
        self.emit.b.ins().jump(done, &[first.into()]);
        self.emit.enter(done);
        self.references.retire(chain.0);
        self.set_reference(dst.0, result);
    }

    /// Takes over from the interpreter, which goes by a chain's object, what is open at a position.
    pub(super) fn fetch_own_chains(&mut self, entry: Position) {
        for (register, words) in self.own_chains.clone() {
            if self.references.liveness().is_none_or(|live| !live.is_live(entry, entry, register)) {
                continue;
            }
            let at = cell(register.into());
            let chain = self.emit.load(I64, self.bases.refs, at);
            let (known, done) = (self.emit.b.create_block(), self.emit.b.create_block());
            self.emit.branch(chain, known, &[], done, &[]);
            self.emit.enter(known);
            let [first, last] = [CHAIN_FIRST, CHAIN_LAST].map(|end| self.emit.load(I64, chain, cell(end)));
            self.emit.store(first, last, cell(words - 1));
            self.emit.store(last, self.bases.refs, at);
            self.emit.b.ins().jump(done, &[]);
            self.emit.enter(done);
        }
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
