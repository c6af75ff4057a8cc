//! Calls: arguments go to the first cells above the bases, results come back in the same places.

use super::{Bases, Function, cell};
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout;
use dualvm_vm::native::{CallSite, Counts, ForkSite, IntReg, MapSite, OperatorSite, RefReg, RegList, Site};

impl Function<'_, '_> {
    /// Stores registers to consecutive cells.
    pub(super) fn hand_over(&mut self, list: &RegList, to: Bases) {
        for (n, &register) in list.reals.iter().enumerate() {
            let value = self.real(register);
            self.emit.store(value, to.reals, cell(n));
            if self.request.mode.is_recording() {
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
            if self.request.mode.is_recording() {
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
    pub(super) fn prepare_call(&mut self, site: &CallSite, closure: Option<RefReg>, callee: Bases) -> Value {
        let (func, entry) = match closure {
            None => {
                self.hand_over(&site.uses, callee);
                let func = self.emit.b.ins().iconst(I32, i64::from(site.func.0));
                let entry = self.emit.int(self.request.entries as i64 + 8 * i64::from(site.func.0));
                (func, entry)
            }
            Some(register) => {
                let closure = self.reference(register.0);
                let header = self.emit.load(I64, closure, 0);
                // Arguments go after the captures. All are read before captures are written.
                let count = |this: &mut Self, base: Value, shift: i64| {
                    let count = this.emit.b.ins().ushr_imm_u(header, shift);
                    let count = this.emit.b.ins().band_imm_u(count, 0xff);
                    let bytes = this.emit.b.ins().ishl_imm_u(count, 3);
                    (this.emit.b.ins().iadd(base, bytes), bytes)
                };
                // Each real has its components.
                let reals = |this: &mut Self, base: Value| {
                    let bytes = count(this, base, 8).1;
                    let bytes = this.emit.b.ins().ishl_imm_u(bytes, i64::from(this.request.mode.depth()));
                    this.emit.b.ins().iadd(base, bytes)
                };
                let after = Bases {
                    reals: reals(self, callee.reals),
                    words: reals(self, callee.words),
                    ints: count(self, callee.ints, 16).0,
                    refs: count(self, callee.refs, 24).0,
                };
                self.hand_over(&site.uses, after);
                let captures = self.emit.b.ins().band_imm_u(header, 0xffff_ff00);
                let (unpack, next) = (self.emit.b.create_block(), self.emit.b.create_block());
                self.emit.branch(captures, unpack, &[], next, &[]);
                self.emit.enter(unpack);
                let Bases { reals, words, ints, refs } = callee;
                let status = self.emit.value_of(Helper::Unpack, &[self.context, closure, reals, words, ints, refs]);
                self.trap_if(status, |_| ());
                self.emit.b.ins().jump(next, &[]);
                self.emit.enter(next);
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

    /// Charges for what ends with a call. Returns how many calls may be nested in the callee.
    fn begin_call(&mut self, cost: u32) -> Value {
        self.charge(cost);
        let deepest = self.emit.is_zero(self.remaining);
        self.trap_if(deepest, |this| {
            this.emit.call(Helper::TrapDepth, &[this.context]);
        });
        self.emit.b.ins().iadd_imm_s(self.remaining, -1)
    }

    /// The first cells above the frame.
    pub(super) fn above(&mut self) -> Bases {
        Bases { refs: self.roots(), ..self.bases }
    }

    /// The cells after so many.
    fn after(&mut self, bases: Bases, counts: Counts) -> Bases {
        let mut after = |base: Value, count: usize| self.emit.b.ins().iadd_imm_s(base, 8 * count as i64);
        Bases {
            reals: after(bases.reals, counts.reals),
            words: after(bases.words, counts.reals),
            ints: after(bases.ints, counts.ints),
            refs: after(bases.refs, counts.refs),
        }
    }

    /// Goes on after a call that may have run anything, unless it has stopped.
    fn returned(&mut self, status: Value) {
        self.stop_if(status);
        self.fetch_fuel();
        self.forget_references();
    }

    /// Runs tasks, whose arguments and results stand side by side.
    pub(super) fn fork(&mut self, number: Site<ForkSite>) {
        let site = &self.stream.forks[number];
        let remaining = self.begin_call(site.cost);
        let args = self.above();
        for task in &site.tasks {
            let to = self.after(args, task.args_at);
            self.hand_over(&task.uses, to);
        }
        let mut params = self.helper_params(args, remaining);
        params.extend(self.numbers(number.index()));
        let status = self.emit.value_of(Helper::Fork, &params);
        self.returned(status);
        let results = self.after(args, site.args);
        for task in &site.tasks {
            let from = self.after(results, task.results_at);
            self.take_over(&task.defs, from);
        }
    }

    /// Runs the tasks of a parallel map.
    pub(super) fn parallel_map(&mut self, dst: RefReg, count: IntReg, number: Site<MapSite>) {
        let site = &self.stream.maps[number];
        let remaining = self.begin_call(site.cost);
        let args = self.above();
        self.hand_over(&site.uses, args);
        let mut params = self.helper_params(args, remaining);
        params.extend(self.numbers(number.index()));
        params.push(self.int(count.0));
        let array = self.emit.value_of(Helper::ParallelMap, &params);
        let stopped = self.emit.is_zero(array);
        self.returned(stopped);
        self.set_reference(dst.0, array);
    }

    /// Takes the derivative of a call.
    pub(super) fn operate(&mut self, number: Site<OperatorSite>) {
        let site = &self.stream.operators[number];
        let remaining = self.begin_call(site.cost);
        let args = self.above();
        self.hand_over(&site.uses, args);
        let mut params = self.helper_params(args, remaining);
        params.extend(self.numbers(number.index()));
        let status = self.emit.value_of(Helper::Operate, &params);
        self.returned(status);
        let results = self.after(args, site.uses_count);
        self.take_over(&site.defs, results);
    }

    /// The parameters of a helper that runs functions; puts fuel back.
    fn helper_params(&mut self, args: Bases, remaining: Value) -> Vec<Value> {
        self.put_fuel();
        vec![self.context, args.reals, args.words, args.ints, args.refs, remaining]
    }

    /// This function's number and that of something in it.
    pub(super) fn numbers(&mut self, number: u32) -> [Value; 2] {
        [self.request.func.0, number].map(|number| self.emit.b.ins().iconst(I32, i64::from(number)))
    }

    pub(super) fn call(&mut self, site: &CallSite, closure: Option<RefReg>) {
        let remaining = self.begin_call(site.cost);
        let callee = self.above();
        let code = self.prepare_call(site, closure, callee);
        let args = [self.context, callee.reals, callee.words, callee.ints, callee.refs, remaining];
        let call = self.emit.b.ins().call_indirect(self.callee, code, &args);
        let status = self.emit.b.inst_results(call)[0];
        self.returned(status);
        self.take_over(&site.defs, callee);
    }

    pub(super) fn tail_call(&mut self, site: &CallSite, closure: Option<RefReg>) {
        self.charge(site.cost);
        let code = self.prepare_call(site, closure, self.bases);
        let Bases { reals, words, ints, refs } = self.bases;
        let args = [self.context, reals, words, ints, refs, self.remaining];
        self.emit.b.ins().return_call_indirect(self.callee, code, &args);
    }
}
