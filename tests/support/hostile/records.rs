//! Records, of blocks, of objects, and of whole loops.

use super::{add_to, main_builder, only_main, scale_by, with_main};
use dualvm_vm::builder::{ModuleBuilder, RealReg};
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::ValueType::Real;
use dualvm_vm::module::{ModuleDef, TypeDef};

/// `count` records in one function, a block for each.
pub(crate) fn records_by_blocks(count: usize) -> ModuleDef {
    only_main(|f, x, _| {
        let half = f.real_const(0.5);
        for _ in 0..count {
            scale_by(f, x, half);
            add_to(f, x, half);
            let next = f.new_label();
            f.jump(next);
            f.bind(next);
        }
        f.ret(&[x.into()]);
    })
}

/// `count` records in one block, which objects in between keep apart.
pub(crate) fn records_by_objects(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let object = module.intern_type(TypeDef::Struct(vec![Real]));
    let (mut f, x, _) = main_builder();
    let held: Reg = f.new_ref(object).into();
    for _ in 0..count {
        f.emit_regs(Op::Sin, &[x.into(), x.into()]);
        f.emit(Op::StructNew, &[Operand::Def(held), Operand::Uses(vec![x.into()])]);
        f.emit(Op::Field, &[Operand::Def(x.into()), Operand::Use(held), Operand::Field(0)]);
    }
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// A loop of one block and `n` rounds, one at least, with so many scalar instructions on reals and on integers; the
/// first ones read `inputs` reals that the loop doesn't change. It is recorded as one up to 256 real operations, 512
/// instructions and 64 inputs, what counts the rounds included.
pub(crate) fn loop_body(real_ops: usize, int_ops: usize, inputs: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let outside: Vec<RealReg> = (0..inputs).map(|_| f.cos(x)).collect();
        let (left, zero, one, scratch) = (f.new_int(), f.int_const(0), f.int_const(1), f.int_const(5));
        f.mov(left, n);
        let (head, after) = (f.new_label(), f.new_label());
        f.bind(head);
        for at in 0..real_ops {
            let factor = outside.get(at).copied().unwrap_or(x);
            f.emit_regs(if at % 2 == 0 { Op::Mul } else { Op::Add }, &[x.into(), x.into(), factor.into()]);
        }
        for _ in 0..int_ops {
            f.emit_regs(Op::IXor, &[scratch.into(), scratch.into(), left.into()]);
        }
        f.emit_regs(Op::ISub, &[left.into(), left.into(), one.into()]);
        let more = f.ilt(zero, left);
        f.branch(more, head, after);
        f.bind(after);
        f.ret(&[x.into()]);
    })
}

/// A loop of `count` blocks that lead to each other by jumps. It is recorded as one up to 16.
pub(crate) fn loop_of_blocks(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let (half, zero, one) = (f.real_const(0.5), f.int_const(0), f.int_const(1));
        let (head, after) = (f.new_label(), f.new_label());
        f.bind(head);
        for _ in 1..count {
            scale_by(f, x, half);
            add_to(f, x, half);
            let next = f.new_label();
            f.jump(next);
            f.bind(next);
        }
        f.emit_regs(Op::ISub, &[n.into(), n.into(), one.into()]);
        let more = f.ilt(zero, n);
        f.branch(more, head, after);
        f.bind(after);
        f.ret(&[x.into()]);
    })
}
