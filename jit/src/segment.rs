//! The adjoint of a segment as native code: reads records, adds the contributions.
//!
//! A fold over a list and a recursion that only adds up write records of one segment, one behind the other: the code
//! goes on to the record before as long as that is of the same segment. What follows after a record is then known
//! before it has been read.
//!
//! Strong products are written as plain ones ([`crate::lenient`]). The test for NaN comes before any contribution is
//! added; if it fails, the record is left to the interpreter.

use crate::deferred::Deferred;
use crate::emit::{Emit, UNALIGNED};
use crate::lenient::{Leniency, branch_on_nan, pure};
use crate::scalar::is_slope;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::layout::TRAILER_BYTES;
use dualvm_vm::native::{Inst, Pure, SegmentCode};
use std::ops::Range;

/// Writes the function: see [`dualvm_vm::native::SegmentFn`].
pub(crate) fn write(emit: &mut Emit<'_>, segment: &SegmentCode) {
    let entry = emit.b.create_block();
    emit.b.append_block_params_for_function_params(entry);
    emit.enter(entry);
    let (last, adjoints) = (emit.b.block_params(entry)[0], emit.b.block_params(entry)[1]);
    let code = &segment.adjoint;
    let layout = segment.layout;
    // Everything is found from the trailer.
    let offset = |from_start: usize| from_start as i32 - layout.trailer() as i32;
    // Segments with the same adjoint share this code, so which one it is stands in the record only.
    let number = emit.b.ins().load(I32, UNALIGNED, last, 0);
    let record = emit.b.create_block();
    let trailer = emit.b.append_block_param(record, I64);
    emit.b.ins().jump(record, &[last.into()]);
    emit.b.switch_to_block(record);
    let swept = emit.b.create_block();

    // If all output adjoints are zero, of either sign, nothing flows back.
    let first = emit.b.ins().uload32(UNALIGNED, trailer, 4);
    let outputs = emit.adjoints_at(adjoints, first);
    let mut any = None;
    let mut registers = Registers::new(code.reals, code.ints);
    for n in 0..segment.slots as usize {
        let bits = emit.load(I64, outputs, 8 * n as i32);
        any = Some(any.map_or(bits, |any| emit.b.ins().bor(any, bits)));
        registers.reals[segment.output(n)] = Some(emit.b.ins().bitcast(F64, MemFlagsData::new(), bits));
    }
    let any = any.unwrap_or_else(|| emit.int(0));
    let magnitude = emit.b.ins().ishl_imm_u(any, 1);
    let nothing = emit.is_zero(magnitude);
    emit.branch_away(nothing, swept);

    for n in 0..layout.numbers.ints {
        let at = offset(layout.numbers.int(n));
        registers.ints[n] = Some(emit.b.ins().load(I64, UNALIGNED, trailer, at));
    }
    for n in 0..layout.numbers.reals {
        let at = offset(layout.numbers.real(n));
        registers.reals[n] = Some(emit.b.ins().load(F64, UNALIGNED, trailer, at));
    }
    let lenient = Leniency::new(code.reals, &code.code, segment.contributions.iter().copied());
    registers.run_all(emit, &code.code, &lenient, |_| false);

    if !lenient.tests.is_empty() {
        let interpreted = emit.cold_block();
        let tests: Vec<Value> = lenient.tests.iter().map(|&reg| registers.real(reg)).collect();
        branch_on_nan(emit, &tests, interpreted);
        let here = emit.b.current_block();
        emit.enter(interpreted);
        let end = emit.plus(trailer, TRAILER_BYTES as i64);
        emit.b.ins().return_(&[end]);
        if let Some(here) = here {
            emit.b.switch_to_block(here);
        }
    }
    for (n, &contribution) in segment.contributions.iter().enumerate() {
        let slot = emit.b.ins().uload32(UNALIGNED, trailer, offset(layout.slot(n)));
        emit.add_to_slot(adjoints, slot, registers.real(contribution));
    }
    emit.b.ins().jump(swept, &[]);

    // There is a record before: each stretch of a task's records begins with one that leads on.
    emit.enter(swept);
    let before = emit.plus(trailer, i64::from(offset(0)) - TRAILER_BYTES as i64);
    let other = emit.b.ins().load(I32, UNALIGNED, before, 0);
    let same = emit.b.ins().icmp(IntCC::Equal, other, number);
    let done = emit.b.create_block();
    emit.branch(same, record, &[before.into()], done, &[]);
    emit.b.seal_block(record);
    emit.enter(done);
    let end = emit.plus(before, TRAILER_BYTES as i64);
    emit.b.ins().return_(&[end]);
}

/// The values of derived code's registers.
#[derive(Clone)]
pub(crate) struct Registers {
    pub(crate) reals: Vec<Option<Value>>,
    pub(crate) ints: Vec<Option<Value>>,
    /// What is written where it is read.
    deferred: Deferred,
}

impl Registers {
    /// So many, which have no values yet.
    pub(crate) fn new(reals: usize, ints: usize) -> Self {
        Registers { reals: vec![None; reals], ints: vec![None; ints], deferred: Deferred::default() }
    }

    pub(crate) fn real(&self, register: u16) -> Value {
        debug_assert!(self.deferred.result(Reg::real(register)).is_none(), "it is read in more than one place");
        self.reals[usize::from(register)].expect("derived code assigns before it reads")
    }

    pub(crate) fn int(&self, register: u16) -> Value {
        self.ints[usize::from(register)].expect("derived code assigns before it reads")
    }

    /// The value of a real or an integer register.
    pub(crate) fn get(&self, reg: Reg) -> Value {
        if reg.bank == Bank::Real { self.real(reg.index) } else { self.int(reg.index) }
    }

    pub(crate) fn set(&mut self, reg: Reg, value: Value) {
        self.deferred.forget(reg);
        let bank = if reg.bank == Bank::Real { &mut self.reals } else { &mut self.ints };
        bank[usize::from(reg.index)] = Some(value);
    }

    /// Writes one instruction of derived code. A lenient strong product is a plain one.
    pub(crate) fn run(&mut self, emit: &mut Emit<'_>, inst: &Inst, lenient: bool) {
        let operand = |emit: &mut Emit<'_>, reg: Reg| match self.deferred.result(reg) {
            Some(number) => self.deferred.write(emit, number),
            None => self.get(reg),
        };
        let value = value_of(emit, inst, lenient, operand);
        self.set(inst.pure_result().expect("derived code touches registers only"), value);
    }

    /// Writes derived code, but for those instructions whose results are there.
    pub(crate) fn run_all(
        &mut self,
        emit: &mut Emit<'_>,
        code: &[Inst],
        leniency: &Leniency,
        is_known: impl Fn(usize) -> bool,
    ) {
        self.run_some(emit, (code, 0..code.len()), leniency, is_known);
    }

    /// The same for some of the instructions.
    pub(crate) fn run_some(
        &mut self,
        emit: &mut Emit<'_>,
        (code, range): (&[Inst], Range<usize>),
        leniency: &Leniency,
        is_known: impl Fn(usize) -> bool,
    ) {
        for n in range.filter(|&n| !is_known(n)) {
            let inst = &code[n];
            if leniency.deferred[n] {
                self.defer(inst);
            } else {
                self.run(emit, inst, leniency.products[n]);
            }
        }
    }

    /// Leaves an instruction of derived code for where its result is read.
    fn defer(&mut self, inst: &Inst) {
        let Registers { reals, ints, deferred } = self;
        let bank = |reg: Reg| if reg.bank == Bank::Real { &*reals } else { &*ints };
        deferred.push(*inst, |reg| bank(reg)[usize::from(reg.index)]);
    }
}

/// Writes one instruction of derived code with these operands. Returns its result. A lenient strong product is a plain
/// one. The first operand of a slope is asked for where it is needed, which is rare.
pub(crate) fn value_of(
    emit: &mut Emit<'_>,
    inst: &Inst,
    lenient: bool,
    operand: impl Fn(&mut Emit<'_>, Reg) -> Value,
) -> Value {
    match pure(inst) {
        Pure::PrimalConst { value, .. } => emit.b.ins().f64const(f64::from_bits(value)),
        Pure::IConst { value, .. } => emit.int(value),
        Pure::PrimalMov { src, .. } => operand(emit, src.into()),
        Pure::IMov { src, .. } => operand(emit, src.into()),
        Pure::KeptObject { cell, .. } => {
            let cell = operand(emit, cell.into());
            emit.kept_object(cell)
        }
        Pure::KeptElem { object, index, .. } => {
            let [object, index] = [object, index].map(|reg| operand(emit, reg.into()));
            emit.kept_element(F64, object, index)
        }
        Pure::KeptIElem { object, index, .. } => {
            let [object, index] = [object, index].map(|reg| operand(emit, reg.into()));
            emit.kept_element(I64, object, index)
        }
        Pure::Scalar(inst) if is_slope(inst.op) => {
            let [rare, result] = [inst.args()[0], inst.args()[1]];
            let result = operand(emit, result);
            emit.slope(inst.op, |emit| operand(emit, rare), result)
        }
        Pure::Scalar(inst) => {
            let args: Vec<Value> = inst.args().iter().map(|&reg| operand(emit, reg)).collect();
            emit.scalar(if lenient { Op::Mul } else { inst.op }, &args)
        }
    }
}
