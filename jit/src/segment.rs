//! The adjoint of a segment as native code: reads a record, adds the contributions.
//!
//! Strong products are written as plain ones ([`crate::lenient`]). The test for NaN comes before any contribution is
//! added; if it fails, the record is left to the interpreter.

use crate::emit::{Emit, UNALIGNED};
use crate::lenient::{Leniency, branch_on_nan, pure};
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::{Inst, Pure, SegmentCode, StraightCode};

/// Writes the function: see [`dualvm_vm::native::SegmentFn`].
pub(crate) fn write(emit: &mut Emit<'_>, segment: &SegmentCode) {
    let entry = emit.b.create_block();
    emit.b.append_block_params_for_function_params(entry);
    emit.enter(entry);
    let (trailer, adjoints) = (emit.b.block_params(entry)[0], emit.b.block_params(entry)[1]);
    let code = &segment.adjoint;
    let layout = segment.layout;
    // Everything is found from the trailer.
    let offset = |from_start: usize| from_start as i32 - layout.trailer() as i32;

    // If all output adjoints are zero, of either sign, nothing flows back.
    let first = emit.b.ins().uload32(UNALIGNED, trailer, 4);
    let outputs = emit.adjoints_at(adjoints, first);
    let mut any = None;
    let mut registers = Registers::new(code);
    for n in 0..segment.slots as usize {
        let bits = emit.load(I64, outputs, 8 * n as i32);
        any = Some(any.map_or(bits, |any| emit.b.ins().bor(any, bits)));
        registers.reals[segment.output(n)] = Some(emit.b.ins().bitcast(F64, MemFlagsData::new(), bits));
    }
    let Some(any) = any else {
        let done = emit.b.ins().iconst(I32, 0);
        emit.b.ins().return_(&[done]);
        return;
    };
    let idle = emit.cold_block();
    let magnitude = emit.b.ins().ishl_imm_u(any, 1);
    let nothing = emit.is_zero(magnitude);
    emit.branch_away(nothing, idle);

    for n in 0..layout.numbers.ints {
        let at = offset(layout.numbers.int(n));
        registers.ints[n] = Some(emit.b.ins().load(I64, UNALIGNED, trailer, at));
    }
    for n in 0..layout.numbers.reals {
        let at = offset(layout.numbers.real(n));
        registers.reals[n] = Some(emit.b.ins().load(F64, UNALIGNED, trailer, at));
    }
    let lenient = Leniency::new(code.reals, &code.code, segment.contributions.iter().copied());
    for (inst, lenient) in code.code.iter().zip(&lenient.products) {
        registers.run(emit, inst, *lenient);
    }

    if !lenient.tests.is_empty() {
        let interpreted = emit.cold_block();
        let tests: Vec<Value> = lenient.tests.iter().map(|&reg| registers.real(reg)).collect();
        branch_on_nan(emit, &tests, interpreted);
        let here = emit.b.current_block();
        emit.enter(interpreted);
        let undone = emit.b.ins().iconst(I32, 1);
        emit.b.ins().return_(&[undone]);
        if let Some(here) = here {
            emit.b.switch_to_block(here);
        }
    }
    for (n, &contribution) in segment.contributions.iter().enumerate() {
        let slot = emit.b.ins().uload32(UNALIGNED, trailer, offset(layout.slot(n)));
        emit.add_to_slot(adjoints, slot, registers.real(contribution));
    }
    emit.b.ins().jump(idle, &[]);
    emit.enter(idle);
    let done = emit.b.ins().iconst(I32, 0);
    emit.b.ins().return_(&[done]);
}

/// The values of derived code's registers.
#[derive(Clone)]
pub(crate) struct Registers {
    pub(crate) reals: Vec<Option<Value>>,
    pub(crate) ints: Vec<Option<Value>>,
}

impl Registers {
    pub(crate) fn new(code: &StraightCode) -> Self {
        Registers { reals: vec![None; code.reals], ints: vec![None; code.ints] }
    }

    pub(crate) fn real(&self, register: u16) -> Value {
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
        let bank = if reg.bank == Bank::Real { &mut self.reals } else { &mut self.ints };
        bank[usize::from(reg.index)] = Some(value);
    }

    /// Writes one instruction of derived code. A lenient strong product is a plain one.
    pub(crate) fn run(&mut self, emit: &mut Emit<'_>, inst: &Inst, lenient: bool) {
        match pure(inst) {
            Pure::PrimalConst { dst, value } => {
                self.reals[dst.index()] = Some(emit.b.ins().f64const(f64::from_bits(value)));
            }
            Pure::IConst { dst, value } => self.ints[dst.index()] = Some(emit.int(value)),
            Pure::PrimalMov { dst, src } => self.reals[dst.index()] = Some(self.real(src.0)),
            Pure::IMov { dst, src } => self.ints[dst.index()] = Some(self.int(src.0)),
            Pure::KeptObject { dst, cell } => {
                self.ints[dst.index()] = Some(emit.kept_object(self.int(cell.0)));
            }
            Pure::KeptElem { dst, object, index } => {
                let element = emit.kept_element(F64, self.int(object.0), self.int(index.0));
                self.reals[dst.index()] = Some(element);
            }
            Pure::KeptIElem { dst, object, index } => {
                let element = emit.kept_element(I64, self.int(object.0), self.int(index.0));
                self.ints[dst.index()] = Some(element);
            }
            Pure::Scalar(inst) => {
                let args: Vec<Value> = inst.args().iter().map(|&reg| self.get(reg)).collect();
                let result = emit.scalar(if lenient { Op::Mul } else { inst.op }, &args);
                self.set(inst.dst, result);
            }
        }
    }
}
