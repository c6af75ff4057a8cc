//! Control flow without loops of its own: straight lines, switches, code that nothing reaches.

use super::{add_to, labels, main_builder, only_main, scale_by, scattered, with_main};
use dualvm_vm::builder::{IntReg, Label, ModuleBuilder, RealReg};
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::ValueType::Real;
use dualvm_vm::module::{ModuleDef, TypeDef};
use dualvm_vm::verify::limits::REGISTERS_MAX;

// Straight lines.

/// One block of `count` scalar instructions on a few reals.
pub(crate) fn straight_line(count: usize) -> ModuleDef {
    const OPS: [Op; 6] = [Op::Mul, Op::Add, Op::Sub, Op::Max, Op::Mul, Op::Div];
    only_main(|f, x, _| {
        let regs: Vec<RealReg> = (0..5).map(|n| f.real_const(1.0 + f64::from(n) / 8.0)).chain([x]).collect();
        for at in 0..count {
            let reg = |n: usize| -> Reg { regs[scattered(3 * at + n) % regs.len()].into() };
            f.emit_regs(OPS[at % OPS.len()], &[reg(0), reg(1), reg(2)]);
        }
        f.ret(&[x.into()]);
    })
}

/// One block of `count` instructions on a few integers.
pub(crate) fn straight_line_of_integers(count: usize) -> ModuleDef {
    const OPS: [Op; 4] = [Op::IAdd, Op::IMul, Op::IXor, Op::ISub];
    only_main(|f, x, n| {
        let regs: Vec<IntReg> = (3..8).map(|n| f.int_const(n)).chain([n]).collect();
        for at in 0..count {
            let reg = |n: usize| -> Reg { regs[scattered(3 * at + n) % regs.len()].into() };
            f.emit_regs(OPS[at % OPS.len()], &[reg(0), reg(1), reg(2)]);
        }
        let result = f.to_real(n);
        add_to(f, result, x);
        f.ret(&[result.into()]);
    })
}

/// One block of `count` scalar instructions whose results are all read in the next one. Beyond what a bank has,
/// registers are written again.
pub(crate) fn straight_line_all_live(count: usize) -> ModuleDef {
    only_main(|f, x, _| {
        let kept = count.min(REGISTERS_MAX as usize - 10);
        let regs: Vec<RealReg> = (0..kept).map(|_| f.new_real()).collect();
        let mut last = x;
        for at in 0..count {
            let reg = regs[at % kept];
            f.emit_regs(if at % 2 == 0 { Op::Sin } else { Op::Neg }, &[reg.into(), last.into()]);
            last = reg;
        }
        let next = f.new_label();
        f.jump(next);
        f.bind(next);
        regs.iter().for_each(|&reg| add_to(f, x, reg));
        f.ret(&[x.into()]);
    })
}

/// `count` blocks of one integer instruction that lead to each other by jumps.
pub(crate) fn blocks_in_a_row(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let sum = f.int_const(0);
        for _ in 0..count {
            f.emit_regs(Op::IAdd, &[sum.into(), sum.into(), n.into()]);
            let next = f.new_label();
            f.jump(next);
            f.bind(next);
        }
        let sum = f.to_real(sum);
        let sum = f.add(sum, x);
        f.ret(&[sum.into()]);
    })
}

// Switches.

/// A switch on `n` with `count` arms that all do something else and meet again.
pub(crate) fn switch_of_arms(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let arms = labels(f, count);
        let join = f.new_label();
        f.switch(n, &arms, join);
        for (at, &arm) in arms.iter().enumerate() {
            f.bind(arm);
            let factor = f.real_const(at as f64);
            scale_by(f, x, factor);
            f.jump(join);
        }
        f.bind(join);
        f.ret(&[x.into()]);
    })
}

/// A switch on `n` with `count` targets, of which only a few are different.
pub(crate) fn switch_of_targets(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let arms = labels(f, 3);
        let targets: Vec<Label> = (0..count.min(0xffff)).map(|at| arms[scattered(at) % arms.len()]).collect();
        f.switch(n, &targets, arms[0]);
        for &arm in &arms {
            f.bind(arm);
            f.emit_regs(Op::Sin, &[x.into(), x.into()]);
        }
        f.ret(&[x.into()]);
    })
}

/// `count` blocks that each end in a switch to all of them, until `n` is used up.
pub(crate) fn switches_to_everywhere(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let blocks = labels(f, count);
        let end = f.new_label();
        let (zero, one, to) = (f.int_const(0), f.int_const(1), f.new_int());
        for (at, &block) in blocks.iter().enumerate() {
            f.bind(block);
            f.emit_regs(Op::Sin, &[x.into(), x.into()]);
            f.emit_regs(Op::ISub, &[n.into(), n.into(), one.into()]);
            let (more, go_on) = (f.ilt(zero, n), f.new_label());
            f.branch(more, go_on, end);
            f.bind(go_on);
            let step = f.int_const(at as i64 * 3 + 1);
            f.emit_regs(Op::IXor, &[to.into(), n.into(), step.into()]);
            f.switch(to, &blocks, end);
        }
        f.bind(end);
        f.ret(&[x.into()]);
    })
}

// Code that nothing reaches.

/// `count` blocks that nothing reaches: they lead to each other and to the block that returns, which is also reached by
/// the way that is taken.
pub(crate) fn dead_blocks(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let blocks = labels(f, count);
        let end = f.new_label();
        f.jump(end);
        let never = (f.new_real(), f.new_int());
        for (at, &block) in blocks.iter().enumerate() {
            f.bind(block);
            scale_by(f, x, never.0);
            match at % 4 {
                0 => f.jump(blocks[scattered(at) % count]),
                1 => f.branch(never.1, blocks[scattered(at) % count], end),
                2 => f.switch(n, &[end, block], blocks[scattered(at) % count]),
                _ => f.ret(&[never.0.into()]),
            }
        }
        f.bind(end);
        f.emit_regs(Op::Sin, &[x.into(), x.into()]);
        f.ret(&[x.into()]);
    })
}

/// `count` counted loops along an array, each with a block that nothing reaches between its body and its end: it reads
/// the array, changes the counter and leads into the loop, by falling into its end or by a branch of its own.
pub(crate) fn dead_code_in_loops(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let array = module.intern_type(TypeDef::Array(Real));
    let (mut f, x, n) = main_builder();
    let elements = f.new_ref(array);
    f.emit(Op::Pack, &[Operand::Def(elements.into()), Operand::Uses(vec![x.into(); 8])]);
    let (zero, one, len, bound) = (f.int_const(0), f.int_const(1), f.new_int(), f.new_int());
    let (at, more, element) = (f.new_int(), f.new_int(), f.new_real());
    f.emit_regs(Op::Len, &[len.into(), elements.into()]);
    f.emit_regs(Op::IMin, &[bound.into(), len.into(), n.into()]);
    for number in 0..count {
        let (body, end, after) = (f.new_label(), f.new_label(), f.new_label());
        f.mov(at, zero);
        f.emit_regs(Op::ILt, &[more.into(), at.into(), bound.into()]);
        f.branch(more, body, after);
        f.bind(body);
        f.emit_regs(Op::Elem, &[element.into(), elements.into(), at.into()]);
        add_to(&mut f, x, element);
        f.jump(end);
        // Nothing leads here.
        f.emit_regs(Op::Elem, &[element.into(), elements.into(), at.into()]);
        f.emit_regs(Op::ISub, &[at.into(), at.into(), one.into()]);
        scale_by(&mut f, x, element);
        if number % 2 == 0 {
            f.branch(more, body, after);
        }
        f.bind(end);
        f.emit_regs(Op::IAdd, &[at.into(), at.into(), one.into()]);
        f.emit_regs(Op::ILt, &[more.into(), at.into(), bound.into()]);
        f.branch(more, body, after);
        f.bind(after);
    }
    f.ret(&[x.into()]);
    with_main(module, f)
}
