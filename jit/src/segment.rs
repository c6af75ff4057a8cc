//! The adjoint of a segment as native code: reads a record, adds the contributions.
//!
//! A strong product is written as a plain one. They differ only where the plain one is NaN, and a NaN goes on to a
//! contribution unless nobody asks for it: so one test of the contributions at the end, before any is added, finds out
//! whether it mattered, and then the record is left to the interpreter. That saves a branch per product.

use crate::emit::{Emit, UNALIGNED};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value};
use dualvm_vm::isa::{Bank, Inst, Op, Role};
use dualvm_vm::native::{SegmentCode, StraightCode};

/// Writes the function: see [`dualvm_vm::native::SegmentFn`].
pub(crate) fn write(emit: &mut Emit<'_>, segment: &SegmentCode) {
    let entry = emit.b.create_block();
    emit.b.append_block_params_for_function_params(entry);
    emit.b.switch_to_block(entry);
    let (trailer, adjoints) = (emit.b.block_params(entry)[0], emit.b.block_params(entry)[1]);
    let code = &segment.adjoint;
    let inputs = segment.contributions.len() as i32;
    let (saved_reals, saved_ints) = (segment.saved_reals as i32, segment.saved_ints as i32);

    // If all output adjoints are zero, of either sign, nothing flows back.
    let first = emit.b.ins().uload32(UNALIGNED, trailer, 4);
    let first = emit.b.ins().ishl_imm_u(first, 3);
    let outputs = emit.b.ins().iadd(adjoints, first);
    let mut any = None;
    let mut registers = Registers::new(code);
    for n in 0..segment.slots as i32 {
        let bits = emit.load(I64, outputs, 8 * n);
        any = Some(any.map_or(bits, |any| emit.b.ins().bor(any, bits)));
        registers.reals[(saved_reals + n) as usize] = Some(emit.b.ins().bitcast(F64, MemFlagsData::new(), bits));
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

    // The record ends with slots, after integers, after reals.
    let ints = -4 * inputs - 8 * saved_ints;
    for n in 0..saved_ints {
        registers.ints[n as usize] = Some(emit.b.ins().load(I64, UNALIGNED, trailer, ints + 8 * n));
    }
    for n in 0..saved_reals {
        let at = ints - 8 * saved_reals + 8 * n;
        registers.reals[n as usize] = Some(emit.b.ins().load(F64, UNALIGNED, trailer, at));
    }
    let lenient = lenient_products(code.reals, code.code.iter());
    for (inst, lenient) in code.code.iter().zip(&lenient) {
        registers.run(emit, inst, *lenient);
    }

    let contributions: Vec<Value> = segment.contributions.iter().map(|&reg| registers.real(reg)).collect();
    if lenient.contains(&true) {
        let interpreted = emit.cold_block();
        branch_on_nan(emit, &contributions, interpreted);
        let here = emit.b.current_block();
        emit.b.switch_to_block(interpreted);
        let undone = emit.b.ins().iconst(I32, 1);
        emit.b.ins().return_(&[undone]);
        if let Some(here) = here {
            emit.b.switch_to_block(here);
        }
    }
    for (n, contribution) in (0..).zip(contributions) {
        let slot = emit.b.ins().uload32(UNALIGNED, trailer, 4 * n - 4 * inputs);
        let offset = emit.b.ins().ishl_imm_u(slot, 3);
        let at = emit.b.ins().iadd(adjoints, offset);
        let sum = emit.load(F64, at, 0);
        let sum = emit.b.ins().fadd(sum, contribution);
        emit.store(sum, at, 0);
    }
    emit.b.ins().jump(idle, &[]);
    emit.b.switch_to_block(idle);
    let done = emit.b.ins().iconst(I32, 0);
    emit.b.ins().return_(&[done]);
}

/// Goes to a block if one of the values is NaN.
pub(crate) fn branch_on_nan(emit: &mut Emit<'_>, values: &[Value], target: Block) {
    // One comparison finds a NaN in either of two.
    for pair in values.chunks(2) {
        let nan = emit.b.ins().fcmp(FloatCC::Unordered, pair[0], pair[pair.len() - 1]);
        emit.branch_away(nan, target);
    }
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

    /// Writes one instruction of derived code. A lenient strong product is a plain one.
    pub(crate) fn run(&mut self, emit: &mut Emit<'_>, inst: &Inst, lenient: bool) {
        let result = match inst.op {
            Op::Const => emit.b.ins().f64const(f64::from_bits(inst.imm)),
            Op::IConst => emit.int(inst.imm as i64),
            Op::Mov => self.real(inst.b),
            op => {
                let args: Vec<Value> = operands(inst)
                    .map(|(bank, register)| if bank == Bank::Real { self.real(register) } else { self.int(register) })
                    .collect();
                emit.scalar(if lenient { Op::Mul } else { op }, &args)
            }
        };
        let register = usize::from(inst.a);
        match inst.op.info().operands[0].role {
            Role::Def(Bank::Int) => self.ints[register] = Some(result),
            _ => self.reals[register] = Some(result),
        }
    }
}

/// Banks and registers of a scalar instruction's operands.
pub(crate) fn operands(inst: &Inst) -> impl Iterator<Item = (Bank, u16)> {
    let registers = [inst.b, inst.c, inst.imm as u16];
    inst.op.info().operands.iter().skip(1).zip(registers).filter_map(|(operand, register)| match operand.role {
        Role::Use(bank) => Some((bank, register)),
        _ => None,
    })
}

/// For each instruction, whether it is a strong product whose NaN would show in the results, and which may be written
/// as a plain product therefore. A NaN shows if everything between it and the results hands NaN on, or leaves it out
/// altogether as a selection does.
pub(crate) fn lenient_products<'c>(
    registers: usize,
    code: impl DoubleEndedIterator<Item = &'c Inst> + ExactSizeIterator,
) -> Vec<bool> {
    let mut shows = vec![true; registers];
    let mut lenient: Vec<bool> = code
        .rev()
        .map(|inst| {
            let result_shows = inst.op.info().operands[0].role == Role::Def(Bank::Real) && shows[usize::from(inst.a)];
            let hands_on = matches!(
                inst.op,
                Op::Add
                    | Op::Sub
                    | Op::Mul
                    | Op::Div
                    | Op::Neg
                    | Op::StrongMul
                    | Op::Sqrt
                    | Op::Select
                    | Op::Min
                    | Op::Max
                    | Op::Mov
            );
            for (bank, register) in operands(inst) {
                if bank == Bank::Real {
                    shows[usize::from(register)] &= hands_on && result_shows;
                }
            }
            inst.op == Op::StrongMul && result_shows
        })
        .collect();
    lenient.reverse();
    lenient
}
