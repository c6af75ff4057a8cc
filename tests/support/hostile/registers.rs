//! Many live registers.

use super::{add_to, only_main, scattered};
use dualvm_vm::builder::{FunctionBuilder, IntReg, RealReg};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::module::ValueType::{self, Real};

/// `live` registers of a bank that are assigned at the beginning and read at the end; in between `branches` branches on
/// `n`, one side of which changes one of the registers.
pub(crate) fn wide_branches(ty: ValueType, live: usize, branches: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let wide = Wide::new(f, ty, live, x, n);
        for branch in 0..branches {
            let (then, join) = (f.new_label(), f.new_label());
            f.branch(n, then, join);
            f.bind(then);
            wide.change(f, scattered(branch) % live);
            f.bind(join);
        }
        wide.sum(f);
    })
}

/// A loop that changes `live` registers of a bank in each of its `n` rounds, one at least.
pub(crate) fn wide_loop(ty: ValueType, live: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let wide = Wide::new(f, ty, live, x, n);
        let (left, zero, one) = (f.new_int(), f.int_const(0), f.int_const(1));
        f.mov(left, n);
        let (head, after) = (f.new_label(), f.new_label());
        f.bind(head);
        (0..live).for_each(|at| wide.change(f, at));
        f.emit_regs(Op::ISub, &[left.into(), left.into(), one.into()]);
        let more = f.ilt(zero, left);
        f.branch(more, head, after);
        f.bind(after);
        wide.sum(f);
    })
}

/// Registers of one bank.
struct Wide {
    regs: Vec<Reg>,
    x: RealReg,
    n: IntReg,
}

impl Wide {
    /// Assigns `live` registers.
    fn new(f: &mut FunctionBuilder, ty: ValueType, live: usize, x: RealReg, n: IntReg) -> Wide {
        let mut last: Reg = if ty == Real { x.into() } else { n.into() };
        let mut regs = Vec::with_capacity(live);
        for _ in 0..live {
            let reg = f.new_reg(ty);
            f.mov(reg, last);
            regs.push(reg);
            last = reg;
        }
        let wide = Wide { regs, x, n };
        (0..live).for_each(|at| wide.change(f, at));
        wide
    }

    /// Computes a register from itself and the parameters.
    fn change(&self, f: &mut FunctionBuilder, at: usize) {
        let reg = self.regs[at];
        if reg.bank == Bank::Real {
            f.emit_regs(Op::Mul, &[reg, reg, self.x.into()]);
        } else {
            f.emit_regs(Op::IXor, &[reg, reg, self.n.into()]);
        }
    }

    /// Returns `x` and the sum of all registers.
    fn sum(&self, f: &mut FunctionBuilder) {
        let op = if self.regs[0].bank == Bank::Real { Op::Add } else { Op::IAdd };
        for pair in self.regs.windows(2) {
            f.emit_regs(op, &[pair[1], pair[1], pair[0]]);
        }
        let last = *self.regs.last().expect("there is a register");
        if last.bank == Bank::Real {
            f.emit_regs(Op::Add, &[self.x.into(), self.x.into(), last]);
        } else {
            let sum = f.new_real();
            f.emit_regs(Op::ToReal, &[sum.into(), last]);
            add_to(f, self.x, sum);
        }
        f.ret(&[self.x.into()]);
    }
}
