//! The adjoint of a loop as native code: all that it takes is found from the record's trailer, and the adjoints of the
//! loop's state stay in machine registers.
//!
//! Strong products are written as plain ones, as in [`crate::lenient`]. The test for NaN comes before anything of an
//! iteration is added to memory; if it fails, the iteration is left to the interpreter.

use crate::adjoint_pairs::{self, Added, BeforeRounds, Pairs, Rounds, rounds_together};
use crate::emit::{Emit, UNALIGNED};
use crate::lenient::{Leniency, branch_on_nan, moved};
use crate::segment::Registers;
use crate::vectors::{self, Both};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Variable;
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::{Inst, LOOP_UNBEGUN, LOOP_WHOLE_MAX, LoopCode, LoopRun};
use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::mem::offset_of;

/// How many iterations are written out.
pub(crate) fn iterations_written(code: &LoopCode) -> u64 {
    match rounds_together(&code.body) {
        1 => 1,
        rounds => rounds as u64 + 1,
    }
}

/// The register that an instruction of derived code writes.
fn written(inst: &Inst) -> Reg {
    inst.pure_result().expect("derived code touches registers only")
}

/// How an iteration is written: its results are what it adds to elements and leaves to the next one.
fn leniency(code: &LoopCode) -> Leniency {
    let contributions = code.elements.iter().map(|element| element.contribution);
    let moved = code.moves.iter().filter_map(moved);
    let lasts = |reg: &Reg| reg.bank == Bank::Real && usize::from(reg.index) < code.frame.cleared;
    let kept = code.body.iter().map(written).filter(lasts).map(|reg| reg.index);
    Leniency::new(code.reals, &code.body, contributions.chain(moved).chain(kept))
}

/// Writes the function: see [`dualvm_vm::native::LoopFn`].
pub(crate) fn write(emit: &mut Emit<'_>, code: &LoopCode) {
    let entry = emit.b.create_block();
    emit.b.append_block_params_for_function_params(entry);
    emit.enter(entry);
    let run = emit.b.block_params(entry)[0];
    let record = Record { code, trailer: emit.load(I64, run, offset_of!(LoopRun, trailer) as i32), run };
    let adjoints = emit.load(I64, run, offset_of!(LoopRun, adjoints) as i32);
    let entries_end = emit.load(I64, run, offset_of!(LoopRun, entries_end) as i32);
    let [last, count, at] = [(); 3].map(|()| emit.b.declare_var(I64));
    let [whole, part, fresh, begun] = [(); 4].map(|()| emit.b.create_block());
    emit.branch(entries_end, part, &[], whole, &[]);

    emit.enter(whole);
    let iterations = record.iterations_at_one_go(emit);
    emit.b.def_var(last, iterations);
    emit.b.def_var(count, iterations);
    let entries = record.entries_end(emit);
    emit.b.def_var(at, entries);
    record.leave_if_idle(emit, adjoints, iterations, fresh);

    emit.enter(part);
    for (variable, offset) in [(last, offset_of!(LoopRun, last)), (count, offset_of!(LoopRun, count))] {
        let value = emit.load(I64, run, offset as i32);
        emit.b.def_var(variable, value);
    }
    emit.b.def_var(at, entries_end);
    let resumed = emit.load(I64, run, offset_of!(LoopRun, resumed) as i32);
    let again = emit.cold_block();
    emit.branch(resumed, again, &[], fresh, &[]);

    let lasting = lasting(emit, code);
    emit.enter(fresh);
    record.begin(emit, adjoints, &lasting);
    emit.b.ins().jump(begun, &[]);
    emit.enter(again);
    let bases = record.frame(emit);
    for &Lasting { reg, variable } in &lasting {
        let ty = if reg.bank == Bank::Real { F64 } else { I64 };
        let value = emit.load(ty, bases.of(reg.bank), 8 * i32::from(reg.index));
        emit.b.def_var(variable, value);
    }
    emit.b.ins().jump(begun, &[]);

    emit.enter(begun);
    let mut registers = record.saved_once(emit);
    for inst in &code.prologue {
        registers.run(emit, inst, false);
    }
    for &Lasting { reg, variable } in &lasting {
        registers.set(reg, emit.b.use_var(variable));
    }
    let [last, count] = [last, count].map(|variable| emit.b.use_var(variable));
    let layout = code.layout;
    // The first slot of an array of which a part was imported may be negative.
    let arrays: Vec<Value> = (0..layout.arrays)
        .map(|n| {
            let first = emit.b.ins().sload32(UNALIGNED, record.trailer, record.slot(layout.array(n)));
            emit.adjoints_from(adjoints, first)
        })
        .collect();
    let pushed = code.pushed.zip(layout.pushed()).map(|(register, n)| {
        let first = emit.b.ins().uload32(UNALIGNED, record.trailer, record.slot(n));
        let before = emit.b.ins().isub(last, count);
        let start = emit.b.ins().iadd(first, before);
        Pushed { register, first, base: emit.adjoints_at(adjoints, start) }
    });
    let left = emit.variable(count);

    let (lenient, none_known) = (leniency(code), vec![false; code.body.len()]);
    let iteration =
        Iteration { code, lenient: &lenient, lasting: &lasting, arrays: &arrays, pushed, adjoints, left, at };
    let pairs = (iterations_written(code) > 1).then(|| iteration.find_pairs(&none_known)).flatten();
    let apart = pairs.as_ref().map(|pairs| iteration.are_apart(emit, pairs, &registers));
    let splats = pairs.as_ref().map(|pairs| pairs.splats(emit, &registers)).unwrap_or_default();
    let failed = emit.cold_block();
    let [group, single, one, exit] = [(); 4].map(|()| emit.b.create_block());

    // Groups of iterations, as long as there are enough, then one by one.
    let together = rounds_together(&code.body);
    if together > 1 {
        let enough = iteration.has_left(emit, together);
        let room: Vec<Value> = iter::once(enough).chain(apart).collect();
        emit.branch_if_all(&room, group, single);
        emit.b.switch_to_block(group);
        match &pairs {
            Some(pairs) => {
                (0..together / 2).for_each(|_| iteration.pair(emit, registers.clone(), (pairs, &splats), failed));
            }
            None => (0..together).for_each(|_| iteration.write(emit, registers.clone(), failed)),
        }
        let enough = iteration.has_left(emit, together);
        emit.branch(enough, group, &[], single, &[]);
        emit.b.seal_block(group);
    } else {
        emit.b.ins().jump(single, &[]);
    }
    emit.b.switch_to_block(single);
    let more = emit.b.use_var(left);
    emit.branch(more, one, &[], exit, &[]);
    emit.enter(one);
    iteration.write(emit, registers, failed);
    emit.b.ins().jump(single, &[]);
    emit.b.seal_block(single);

    emit.enter(exit);
    let first_has_run = emit.b.ins().icmp(IntCC::Equal, last, count);
    let (contribute, unfinished) = (emit.b.create_block(), emit.cold_block());
    emit.branch(first_has_run, contribute, &[], unfinished, &[]);
    emit.enter(contribute);
    for (n, &register) in code.contributions.iter().enumerate() {
        let contribution = emit.b.use_var(lasting[usize::from(register)].variable);
        let slot = emit.b.ins().uload32(UNALIGNED, record.trailer, record.slot(n));
        emit.add_to_slot(adjoints, slot, contribution);
    }
    return_int(emit, 0);

    // After the test failed the variables still are as the iteration found them.
    emit.enter(failed);
    emit.b.ins().jump(unfinished, &[]);
    emit.enter(unfinished);
    let bases = record.frame(emit);
    for &Lasting { reg, variable } in &lasting {
        let value = emit.b.use_var(variable);
        emit.store(value, bases.of(reg.bank), 8 * i32::from(reg.index));
    }
    let left = emit.b.use_var(left);
    emit.b.ins().return_(&[left]);
}

fn return_int(emit: &mut Emit<'_>, value: u64) {
    let value = emit.int(value as i64);
    emit.b.ins().return_(&[value]);
}

/// A record of the loop. All of it is found from the trailer.
struct Record<'c> {
    code: &'c LoopCode,
    trailer: Value,
    /// Where the [`LoopRun`] is.
    run: Value,
}

impl Record<'_> {
    /// Where a part of the record stands that is so many bytes behind the entries.
    fn at(&self, offset: usize) -> i32 {
        offset as i32 - self.code.layout.trailer() as i32
    }

    /// The end of the entries in the slab of the record's end.
    fn entries_end(&self, emit: &mut Emit<'_>) -> Value {
        emit.b.ins().iadd_imm_s(self.trailer, i64::from(self.at(0)))
    }

    /// Where the n-th slot stands.
    fn slot(&self, n: usize) -> i32 {
        self.at(self.code.layout.slot(n))
    }

    /// Where the adjoints of the outputs begin.
    fn outputs(&self, emit: &mut Emit<'_>, adjoints: Value) -> Value {
        let first = emit.b.ins().uload32(UNALIGNED, self.trailer, 4);
        emit.adjoints_at(adjoints, first)
    }

    /// How many iterations the record has. Returns if that is a number that isn't run at one go.
    fn iterations_at_one_go(&self, emit: &mut Emit<'_>) -> Value {
        let layout = self.code.layout;
        let iterations = emit.b.ins().load(I64, UNALIGNED, self.trailer, self.at(layout.iterations()));
        let unbegun = emit.cold_block();
        let others = emit.b.ins().iadd_imm_s(iterations, -1);
        let other = emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, others, LOOP_WHOLE_MAX as i64);
        emit.branch_away(other, unbegun);
        if self.code.entry_bytes() > 0 {
            let entries = emit.b.ins().uload32(UNALIGNED, self.trailer, self.at(layout.entries()));
            let elsewhere = emit.b.ins().icmp(IntCC::NotEqual, entries, iterations);
            emit.branch_away(elsewhere, unbegun);
        }
        let here = emit.b.current_block().expect("a block is being written");
        emit.enter(unbegun);
        return_int(emit, LOOP_UNBEGUN);
        emit.b.switch_to_block(here);
        iterations
    }

    /// Goes to `active` if any adjoint of an output or of what was pushed is not zero, of either sign. Else nothing
    /// flows back, and it returns.
    fn leave_if_idle(&self, emit: &mut Emit<'_>, adjoints: Value, iterations: Value, active: Block) {
        let code = self.code;
        let idle = emit.b.create_block();
        let flows = |emit: &mut Emit<'_>, bits: Value, idle: Block| {
            let magnitude = emit.b.ins().ishl_imm_u(bits, 1);
            emit.branch(magnitude, active, &[], idle, &[]);
        };
        if code.slots() > 0 {
            let outputs = self.outputs(emit, adjoints);
            let all: Vec<Value> = (0..code.slots()).map(|n| emit.load(I64, outputs, 8 * n as i32)).collect();
            let any = all.into_iter().reduce(|any, bits| emit.b.ins().bor(any, bits)).expect("there are outputs");
            let next = emit.b.create_block();
            flows(emit, any, next);
            emit.enter(next);
        }
        let Some(n) = code.layout.pushed() else {
            emit.b.ins().jump(idle, &[]);
            emit.enter(idle);
            return return_int(emit, 0);
        };
        let first = emit.b.ins().uload32(UNALIGNED, self.trailer, self.slot(n));
        let has_slots = emit.b.create_block();
        emit.branch(first, has_slots, &[], idle, &[]);
        emit.enter(has_slots);
        // What was pushed last is likely to be what was read later, and what has adjoints.
        let start = emit.adjoints_at(adjoints, first);
        let left = emit.variable(iterations);
        let [test, next] = [(); 2].map(|()| emit.b.create_block());
        emit.b.ins().jump(test, &[]);
        emit.b.switch_to_block(test);
        let before = emit.b.use_var(left);
        let before = emit.b.ins().iadd_imm_s(before, -1);
        emit.b.def_var(left, before);
        let (address, at) = emit.element_at(start, before, 0);
        let bits = emit.load(I64, address, at);
        flows(emit, bits, next);
        emit.enter(next);
        emit.branch(before, test, &[], idle, &[]);
        emit.b.seal_block(test);
        emit.enter(idle);
        return_int(emit, 0);
    }

    /// The registers with what was saved once.
    fn saved_once(&self, emit: &mut Emit<'_>) -> Registers {
        let code = self.code;
        let mut registers = Registers::new(code.reals, code.ints);
        let (once, [first_real, first_int]) = (code.layout.once, code.frame.once());
        for n in 0..once.reals {
            let value = emit.b.ins().load(F64, UNALIGNED, self.trailer, self.at(once.real(n)));
            registers.reals[first_real + n] = Some(value);
        }
        for n in 0..once.ints {
            let value = emit.b.ins().load(I64, UNALIGNED, self.trailer, self.at(once.int(n)));
            registers.ints[first_int + n] = Some(value);
        }
        registers
    }

    /// Gives what changes from iteration to iteration its values after the last one: the adjoints of the outputs, and
    /// what was saved of induction registers.
    fn begin(&self, emit: &mut Emit<'_>, adjoints: Value, lasting: &[Lasting]) {
        let code = self.code;
        let outputs = self.outputs(emit, adjoints);
        let none = emit.b.ins().f64const(0.0);
        let [_, first_int] = code.frame.once();
        for &Lasting { reg, variable } in lasting {
            let output = code.outputs.iter().position(|&register| Reg::real(register) == reg);
            let value = match (reg.bank, output) {
                (Bank::Real, Some(output)) => emit.load(F64, outputs, 8 * output as i32),
                (Bank::Real, None) => none,
                _ => {
                    let place = self.at(code.layout.once.int(usize::from(reg.index) - first_int));
                    emit.b.ins().load(I64, UNALIGNED, self.trailer, place)
                }
            };
            emit.b.def_var(variable, value);
        }
    }

    /// Where the registers of the frame are.
    fn frame(&self, emit: &mut Emit<'_>) -> Bases {
        let [reals, ints] = [offset_of!(LoopRun, reals), offset_of!(LoopRun, ints)];
        let [reals, ints] = [reals, ints].map(|offset| emit.load(I64, self.run, offset as i32));
        Bases { reals, ints }
    }
}

/// Where the registers of the frame are.
struct Bases {
    reals: Value,
    ints: Value,
}

impl Bases {
    fn of(&self, bank: Bank) -> Value {
        if bank == Bank::Real { self.reals } else { self.ints }
    }
}

/// The registers that change from iteration to iteration, the reals first, by their numbers.
fn lasting(emit: &mut Emit<'_>, code: &LoopCode) -> Vec<Lasting> {
    let ints = code.stepped().map(Reg::int);
    let reals = (0..code.frame.cleared).map(|n| Reg::real(n as u16));
    let ty = |reg: Reg| if reg.bank == Bank::Real { F64 } else { I64 };
    reals.chain(ints).map(|reg| Lasting { reg, variable: emit.b.declare_var(ty(reg)) }).collect()
}

/// A register that changes from iteration to iteration, and lasts.
#[derive(Clone, Copy)]
struct Lasting {
    reg: Reg,
    variable: Variable,
}

/// What the loop pushes.
#[derive(Clone, Copy)]
struct Pushed {
    /// The register of its adjoint.
    register: u16,
    /// The first slot; 0 if what is pushed is constant.
    first: Value,
    /// The adjoint of what an iteration has pushed stands so many words behind this address as iterations are still to
    /// run after it.
    base: Value,
}

/// What writing an iteration takes.
struct Iteration<'a> {
    code: &'a LoopCode,
    lenient: &'a Leniency,
    lasting: &'a [Lasting],
    /// For each array where its adjoints begin.
    arrays: &'a [Value],
    pushed: Option<Pushed>,
    adjoints: Value,
    /// How many iterations are still to run.
    left: Variable,
    at: Variable,
}

impl Iteration<'_> {
    /// How iterations are written in pairs, if they are.
    fn find_pairs<'c>(&'c self, none_known: &'c [bool]) -> Option<Pairs<'c>> {
        let code = self.code;
        let added = code.elements.iter();
        let added = added.map(|element| Added {
            array: element.array,
            index: element.index,
            contribution: element.contribution,
        });
        let (leniency, known) = (self.lenient, none_known);
        let rounds = Rounds { prologue: &code.prologue, code: &code.body, moves: &code.moves, leniency, known };
        let [_, first_int] = code.frame.entry();
        let saved = (first_int..first_int + code.layout.entry.ints).map(|n| Reg::int(n as u16));
        let lasts = |reg: Reg| self.lasting.iter().any(|lasting| lasting.reg == reg);
        Pairs::new(rounds, added.collect(), lasts, saved)
    }

    /// The arrays' adjoints, by what tells them in pairs.
    fn arrays(&self) -> BTreeMap<u16, Value> {
        (0..).zip(self.arrays.iter().copied()).collect()
    }

    /// Whether iterations can run in pairs: the arrays that they add to are apart, and what they have pushed has
    /// adjoints.
    fn are_apart(&self, emit: &mut Emit<'_>, pairs: &Pairs<'_>, registers: &Registers) -> Value {
        let apart = pairs.are_apart(emit, &self.arrays(), registers);
        let Some(Pushed { first, .. }) = self.pushed else { return apart };
        let active = emit.is_nonzero(first);
        emit.b.ins().band(apart, active)
    }

    /// Whether so many iterations are still to run.
    fn has_left(&self, emit: &mut Emit<'_>, needed: i64) -> Value {
        let left = emit.b.use_var(self.left);
        emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, left, needed)
    }

    /// What lasts, where an iteration begins. Registers that don't change may keep what they have.
    fn fetch_lasting(&self, emit: &mut Emit<'_>, registers: &mut Registers, changes: impl Fn(Reg) -> bool) {
        for &Lasting { reg, variable } in self.lasting {
            if changes(reg) {
                registers.set(reg, emit.b.use_var(variable));
            }
        }
    }

    /// Goes on after so many iterations.
    fn go_on(&self, emit: &mut Emit<'_>, registers: &Registers, iterations: i64) {
        for &Lasting { reg, variable } in self.lasting {
            emit.b.def_var(variable, registers.get(reg));
        }
        let entries = emit.b.use_var(self.at);
        let entries = emit.plus(entries, -iterations * self.code.entry_bytes() as i64);
        emit.b.def_var(self.at, entries);
        let left = emit.b.use_var(self.left);
        let left = emit.plus(left, -iterations);
        emit.b.def_var(self.left, left);
    }

    /// Where the adjoint stands of what the next iteration has pushed, if that has one: address and offset.
    fn pushed_adjoint(&self, emit: &mut Emit<'_>, pushed: Pushed) -> (Value, i32) {
        let left = emit.b.use_var(self.left);
        emit.element_at(pushed.base, left, -1)
    }

    /// Writes two iterations. `registers` hold what doesn't change in the loop.
    fn pair(
        &self,
        emit: &mut Emit<'_>,
        mut registers: Registers,
        (pairs, splats): (&Pairs<'_>, &HashMap<Both, Value>),
        failed: Block,
    ) {
        self.fetch_lasting(emit, &mut registers, |reg| pairs.changes(reg));
        let entries = emit.b.use_var(self.at);
        let mut loaded = adjoint_pairs::saved(emit, self.code.layout.entry, (entries, 0), self.code.frame.entry());
        if let Some(pushed) = self.pushed {
            let (address, at) = self.pushed_adjoint(emit, pushed);
            let at = i64::from(at);
            loaded.push((Reg::real(pushed.register), vectors::load(emit, Bank::Real, address, [at, at - 8])));
        }
        let hoisted = BeforeRounds { arrays: &self.arrays(), splats };
        let registers = pairs.write(emit, &registers, &loaded, &hoisted, failed);
        self.go_on(emit, &registers, 2);
    }

    /// Writes one iteration. `registers` hold what doesn't change in the loop.
    fn write(&self, emit: &mut Emit<'_>, mut registers: Registers, failed: Block) {
        let Iteration { code, lenient, arrays, pushed, adjoints, at, .. } = *self;
        let [first_real, first_int] = code.frame.entry();
        let entry = code.layout.entry;
        self.fetch_lasting(emit, &mut registers, |_| true);
        if let Some(pushed @ Pushed { register, first, .. }) = pushed {
            let (address, at) = self.pushed_adjoint(emit, pushed);
            // Without slots of their own, the constants' adjoint is read: it is 0 for them.
            let address = emit.b.ins().iadd_imm_s(address, i64::from(at));
            let address = emit.select(first, address, adjoints);
            let adjoint = emit.load(F64, address, 0);
            let none = emit.b.ins().f64const(0.0);
            registers.reals[usize::from(register)] = Some(emit.select(first, adjoint, none));
        }
        let entries = emit.b.use_var(at);
        let start = -(entry.bytes() as i32);
        for n in 0..entry.reals {
            let value = emit.b.ins().load(F64, UNALIGNED, entries, start + entry.real(n) as i32);
            registers.reals[first_real + n] = Some(value);
        }
        for n in 0..entry.ints {
            let value = emit.b.ins().load(I64, UNALIGNED, entries, start + entry.int(n) as i32);
            registers.ints[first_int + n] = Some(value);
        }
        registers.run_all(emit, &code.body, lenient, |_| false);
        let tests: Vec<Value> = lenient.tests.iter().map(|&n| registers.real(n)).collect();
        branch_on_nan(emit, &tests, failed);
        for of_array in code.elements.chunk_by(|a, b| a.array == b.array) {
            let start = arrays[usize::from(of_array[0].array)];
            let added: Vec<(Value, Value)> = of_array
                .iter()
                .map(|element| (registers.int(element.index), registers.real(element.contribution)))
                .collect();
            emit.add_to_elements(start, &added);
        }
        for inst in &code.moves {
            registers.run(emit, inst, false);
        }
        self.go_on(emit, &registers, 1);
    }
}
