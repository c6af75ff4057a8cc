//! The iterations of a loop's adjoint as native code: the adjoints of the loop's state stay in machine registers.
//!
//! Strong products are written as plain ones, as in [`crate::lenient`]. The test for NaN comes before anything of an
//! iteration is added to memory; if it fails, the iteration is left to the interpreter.

use crate::adjoint_pairs::{self, Added, BeforeRounds, Pairs, Rounds, rounds_together};
use crate::emit::{Emit, TRUSTED, UNALIGNED};
use crate::lenient::{Leniency, branch_on_nan, moved};
use crate::segment::Registers;
use crate::vectors::{self, Both};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Variable;
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::{Inst, LoopCode, LoopRun};
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
    let mut field = |offset: usize| emit.load(I64, run, offset as i32);
    let (reals, ints) = (field(offset_of!(LoopRun, reals)), field(offset_of!(LoopRun, ints)));
    let (slots, adjoints) = (field(offset_of!(LoopRun, slots)), field(offset_of!(LoopRun, adjoints)));
    let entries_end = field(offset_of!(LoopRun, entries_end));
    let (last, count) = (field(offset_of!(LoopRun, last)), field(offset_of!(LoopRun, count)));

    // What lasts: the first reals and the induction registers change, the rest of it doesn't.
    let (layout, frame) = (code.layout, code.frame);
    let [first_once_real, first_once_int] = frame.once();
    let mut registers = Registers { reals: vec![None; code.reals], ints: vec![None; code.ints] };
    let mut lasting = Vec::new();
    for n in 0..frame.cleared {
        let value = emit.load(F64, reals, 8 * n as i32);
        registers.reals[n] = Some(value);
        lasting.push((Bank::Real, n, emit.variable(value)));
    }
    let steps = |n: usize| code.body.iter().any(|inst| written(inst) == Reg::int(n as u16));
    for n in first_once_int..first_once_int + layout.once.ints {
        let value = emit.load(I64, ints, 8 * n as i32);
        registers.ints[n] = Some(value);
        if steps(n) {
            lasting.push((Bank::Int, n, emit.variable(value)));
        }
    }
    let computed = code.prologue.iter().map(written);
    let once = (first_once_real..first_once_real + layout.once.reals).map(|n| Reg::real(n as u16));
    for Reg { bank, index: n } in once.chain(computed) {
        let at = 8 * i32::from(n);
        match bank {
            Bank::Real => registers.reals[usize::from(n)] = Some(emit.load(F64, reals, at)),
            _ => registers.ints[usize::from(n)] = Some(emit.load(I64, ints, at)),
        }
    }
    // The first slot of an array of which a part was imported may be negative.
    let arrays: Vec<Value> = (0..layout.arrays)
        .map(|n| {
            let first = emit.b.ins().sload32(UNALIGNED, slots, 4 * layout.array(n) as i32);
            emit.adjoints_from(adjoints, first)
        })
        .collect();
    let pushed = code.pushed.zip(layout.pushed()).map(|(register, slot)| {
        let first = emit.b.ins().uload32(UNALIGNED, slots, 4 * slot as i32);
        let before = emit.b.ins().isub(last, count);
        let start = emit.b.ins().iadd(first, before);
        let offset = emit.b.ins().ishl_imm_u(start, 3);
        Pushed { register, first, base: emit.b.ins().iadd(adjoints, offset) }
    });
    let (left, at) = (emit.variable(count), emit.variable(entries_end));

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

    // After the test failed the variables still are as the iteration found them.
    emit.enter(failed);
    emit.b.ins().jump(exit, &[]);
    emit.enter(exit);
    for &(bank, n, variable) in &lasting {
        let value = emit.b.use_var(variable);
        emit.b.ins().store(TRUSTED, value, if bank == Bank::Real { reals } else { ints }, 8 * n as i32);
    }
    let left = emit.b.use_var(left);
    let done = emit.b.ins().isub(count, left);
    emit.b.ins().return_(&[done]);
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
    /// Registers that change and last: bank, number, variable.
    lasting: &'a [(Bank, usize, Variable)],
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
        let lasts = |reg: Reg| self.lasting.iter().any(|&(bank, n, _)| bank == reg.bank && n == usize::from(reg.index));
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
        for &(bank, n, variable) in self.lasting {
            let (list, reg) = match bank {
                Bank::Real => (&mut registers.reals, Reg::real(n as u16)),
                _ => (&mut registers.ints, Reg::int(n as u16)),
            };
            if changes(reg) {
                list[n] = Some(emit.b.use_var(variable));
            }
        }
    }

    /// Goes on after so many iterations.
    fn go_on(&self, emit: &mut Emit<'_>, registers: &Registers, iterations: i64) {
        for &(bank, n, variable) in self.lasting {
            let value = if bank == Bank::Real { registers.real(n as u16) } else { registers.int(n as u16) };
            emit.b.def_var(variable, value);
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
        for (inst, &lenient) in code.body.iter().zip(&lenient.products) {
            registers.run(emit, inst, lenient);
        }
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
