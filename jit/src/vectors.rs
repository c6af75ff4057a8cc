//! Two rounds of a loop at a time, in vectors of two.
//!
//! Rounds that go along arrays one element at a time do the same to two elements side by side. What both compute alike
//! is computed once, on vectors; lane by lane that gives the same numbers. What a round hands to the next one stays
//! scalar.

use crate::emit::{Emit, UNALIGNED};
use cranelift_codegen::ir::types::{F64, F64X2, I64};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Value};
use dualvm_vm::isa::{Bank, Op};
use std::collections::HashMap;

/// Whether every machine of this kind has vectors of two reals. Code is for the machine that it is written on.
pub(crate) const MACHINE_HAS_VECTORS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Whether this machine multiplies and adds with a single rounding.
pub(crate) fn machine_has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// What a register holds in the two rounds of a pair, the round that runs first before the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Both {
    /// The same in both, or that of the one round that is asked for.
    Same(Value),
    /// By round.
    Each([Value; 2]),
    /// A vector, in which they stand as their elements do in memory.
    Vector(Value),
}

/// Whether a scalar instruction of reals can be one of vectors.
pub(crate) fn is_for_vectors(op: Op) -> bool {
    use Op::*;
    matches!(op, Add | Sub | Mul | Div | Neg | Abs | Sqrt | Exp | Tanh | Sigmoid) || op == Fma && machine_has_fma()
}

/// Which way rounds go along arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Forwards,
    Backwards,
}

/// Values that were taken out of vectors and put into them, each once.
pub(crate) struct Lanes {
    way: Way,
    taken: HashMap<(Value, u8), Value>,
    put: HashMap<Both, Value>,
}

impl Lanes {
    /// `put`: vectors that are there already.
    pub(crate) fn new(way: Way, put: HashMap<Both, Value>) -> Lanes {
        Lanes { way, taken: HashMap::new(), put }
    }

    /// The value in the first round or the second one.
    pub(crate) fn of_round(&mut self, emit: &mut Emit<'_>, both: Both, round: usize) -> Value {
        match both {
            Both::Same(value) => value,
            Both::Each(values) => values[round],
            Both::Vector(vector) => {
                let lane = if self.way == Way::Forwards { round } else { 1 - round } as u8;
                *self.taken.entry((vector, lane)).or_insert_with(|| emit.b.ins().extractlane(vector, lane))
            }
        }
    }

    /// The reals of both rounds as a vector.
    pub(crate) fn vector(&mut self, emit: &mut Emit<'_>, both: Both) -> Value {
        let way = self.way;
        *self.put.entry(both).or_insert_with(|| match both {
            Both::Vector(vector) => vector,
            Both::Same(value) => splat(emit, value),
            Both::Each([first, second]) => {
                emit.vector(if way == Way::Forwards { [first, second] } else { [second, first] })
            }
        })
    }
}

/// A real as both lanes of a vector.
pub(crate) fn splat(emit: &mut Emit<'_>, value: Value) -> Value {
    let dfg = &emit.b.func.dfg;
    let constant = match dfg.value_def(value).inst().map(|inst| dfg.insts[inst]) {
        Some(InstructionData::UnaryIeee64 { imm, .. }) => Some(imm.as_f64()),
        _ => None,
    };
    match constant {
        Some(constant) => emit.real_constant(F64X2, constant),
        None => emit.b.ins().splat(F64X2, value),
    }
}

/// What stands at these offsets from an address for the two rounds of a pair.
pub(crate) fn load(emit: &mut Emit<'_>, bank: Bank, address: Value, [first, second]: [i64; 2]) -> Both {
    let mut at = |ty, offset: i64| emit.b.ins().load(ty, UNALIGNED, address, offset as i32);
    match bank {
        Bank::Real if first.abs_diff(second) == 8 => Both::Vector(at(F64X2, first.min(second))),
        Bank::Real => Both::Each([at(F64, first), at(F64, second)]),
        _ => Both::Each([at(I64, first), at(I64, second)]),
    }
}
