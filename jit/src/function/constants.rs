//! Registers that hold one number throughout a function: code uses the number itself, which takes no machine register.
//!
//! Where code begins in the middle of a function, registers come from the frame, so Cranelift alone would not see that
//! a register has the same number there as where the function begins.

use dualvm_vm::isa::Reg;
use dualvm_vm::native::{Inst, Stream};
use std::collections::{BTreeMap, BTreeSet};

/// The registers of a stream that hold one number.
#[derive(Default)]
pub(crate) struct Constants {
    /// As bits.
    reals: BTreeMap<u16, u64>,
    ints: BTreeMap<u16, i64>,
}

impl Constants {
    /// Registers that only constants of the same bits are written to.
    pub(crate) fn new(stream: &Stream) -> Constants {
        let mut found = Constants::default();
        let reals = (0..stream.real_params as u16).map(Reg::real);
        let mut others: BTreeSet<Reg> = reals.chain((0..stream.int_params as u16).map(Reg::int)).collect();
        for inst in &stream.code {
            let same = match *inst {
                Inst::IConst { dst, value } => *found.ints.entry(dst.0).or_insert(value) == value,
                Inst::Const { dst, value } | Inst::PrimalConst { dst, value } => {
                    *found.reals.entry(dst.0).or_insert(value) == value
                }
                _ => false,
            };
            if !same {
                inst.for_each_reg(stream, |reg, def| {
                    if def {
                        others.insert(reg);
                    }
                });
            }
        }
        found.ints.retain(|&register, _| !others.contains(&Reg::int(register)));
        found.reals.retain(|&register, _| !others.contains(&Reg::real(register)));
        found
    }

    pub(crate) fn int(&self, register: u16) -> Option<i64> {
        self.ints.get(&register).copied()
    }

    pub(super) fn real(&self, register: u16) -> Option<f64> {
        self.reals.get(&register).copied().map(f64::from_bits)
    }
}
