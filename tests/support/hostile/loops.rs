//! Loops: in each other, side by side, those that no structured language has, and those that nothing reaches.

use super::{add_to, count_down, labels, only_main, scale_by, scattered};
use dualvm_vm::builder::{FunctionBuilder, IntReg, Label};
use dualvm_vm::isa::Op;
use dualvm_vm::module::ModuleDef;

/// A nest of `depth` loops: heads one after the other, then a branch back to each, innermost first. Each head moves
/// integers around, and nothing else is there.
pub(crate) fn nested_loops(depth: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let (a, b) = (f.new_int(), f.new_int());
        f.mov(a, n);
        f.mov(b, n);
        let heads = labels(f, depth);
        for &head in &heads {
            f.bind(head);
            let moved = f.new_int();
            f.mov(moved, a);
            f.mov(a, b);
            f.mov(b, moved);
        }
        close_loops(f, a, &heads);
        f.ret(&[x.into()]);
    })
}

/// A nest of `depth` loops, each with a counter of its own that goes from `n` to 0, and a real that all of them scale.
/// It takes (n + 1) to the power of `depth` rounds.
pub(crate) fn nested_loops_of_reals(depth: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let (half, one) = (f.real_const(0.5), f.int_const(1));
        let heads: Vec<(Label, IntReg)> = (0..depth).map(|_| (f.new_label(), f.new_int())).collect();
        for &(head, counter) in &heads {
            f.mov(counter, n);
            f.bind(head);
            scale_by(f, x, half);
        }
        for &(head, counter) in heads.iter().rev() {
            let after = f.new_label();
            f.emit_regs(Op::ISub, &[counter.into(), counter.into(), one.into()]);
            let zero = f.int_const(0);
            let more = f.ile(zero, counter);
            f.branch(more, head, after);
            f.bind(after);
            add_to(f, x, half);
        }
        f.ret(&[x.into()]);
    })
}

/// Branches back to each head, the last one first.
fn close_loops(f: &mut FunctionBuilder, cond: IntReg, heads: &[Label]) {
    for &head in heads.iter().rev() {
        let after = f.new_label();
        f.branch(cond, head, after);
        f.bind(after);
    }
}

/// `count` loops of one block one after the other, each of which is recorded as one and takes `n` rounds, but one at
/// least.
pub(crate) fn loops_in_a_row(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let (half, zero, one, left) = (f.real_const(0.5), f.int_const(0), f.int_const(1), f.new_int());
        let more = f.new_int();
        for _ in 0..count {
            let (head, after) = (f.new_label(), f.new_label());
            f.mov(left, n);
            f.bind(head);
            scale_by(f, x, half);
            add_to(f, x, half);
            f.emit_regs(Op::ISub, &[left.into(), left.into(), one.into()]);
            f.emit_regs(Op::ILt, &[more.into(), zero.into(), left.into()]);
            f.branch(more, head, after);
            f.bind(after);
        }
        f.ret(&[x.into()]);
    })
}

/// `count` blocks of one instruction that branch to themselves while `n` isn't 0.
pub(crate) fn self_loops(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        for _ in 0..count {
            let (this, next) = (f.new_label(), f.new_label());
            f.bind(this);
            f.branch(n, this, next);
            f.bind(next);
        }
        f.ret(&[x.into()]);
    })
}

/// `count` branches back to the first instruction, so that the parameters are redefined by a loop.
pub(crate) fn jumps_to_the_start(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let start = f.new_label();
        f.bind(start);
        f.emit_regs(Op::Sin, &[x.into(), x.into()]);
        let (zero, one, low) = (f.int_const(0), f.int_const(1), f.new_int());
        f.emit_regs(Op::ISub, &[n.into(), n.into(), one.into()]);
        f.emit_regs(Op::ILt, &[low.into(), zero.into(), n.into()]);
        for _ in 0..count {
            let next = f.new_label();
            f.branch(low, start, next);
            f.bind(next);
            add_to(f, x, x);
        }
        f.ret(&[x.into()]);
    })
}

/// `count` loops that are entered at two places, so that control flow is irreducible; each has one of the next inside.
pub(crate) fn two_headed_loops(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let (half, odd) = (f.real_const(0.5), f.new_int());
        let one = f.int_const(1);
        f.emit_regs(Op::IAnd, &[odd.into(), n.into(), one.into()]);
        let mut ends = Vec::new();
        for _ in 0..count {
            let (first, second) = (f.new_label(), f.new_label());
            f.branch(odd, second, first);
            f.bind(first);
            scale_by(f, x, half);
            f.bind(second);
            add_to(f, x, half);
            ends.push(first);
            ends.push(second);
        }
        count_down(f, n);
        let zero = f.int_const(0);
        let more = f.ilt(zero, n);
        close_loops(f, more, &ends);
        f.ret(&[x.into()]);
    })
}

/// `count` blocks, each of which counts down and branches to two blocks anywhere; the last round goes to the end.
pub(crate) fn tangle(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let blocks = labels(f, count);
        let end = f.new_label();
        let (zero, one) = (f.int_const(0), f.int_const(1));
        let (more, low) = (f.new_int(), f.new_int());
        for (at, &block) in blocks.iter().enumerate() {
            f.bind(block);
            f.emit_regs(if at % 3 == 0 { Op::Sin } else { Op::Cos }, &[x.into(), x.into()]);
            f.emit_regs(Op::ISub, &[n.into(), n.into(), one.into()]);
            f.emit_regs(Op::ILt, &[more.into(), zero.into(), n.into()]);
            let go_on = f.new_label();
            f.branch(more, go_on, end);
            f.bind(go_on);
            f.emit_regs(Op::IAnd, &[low.into(), n.into(), one.into()]);
            f.branch(low, blocks[scattered(2 * at) % count], blocks[scattered(2 * at + 1) % count]);
        }
        f.bind(end);
        f.ret(&[x.into()]);
    })
}

/// `count` loops that nothing reaches, in each other, of a kind that is recorded as one.
pub(crate) fn dead_loops(count: usize) -> ModuleDef {
    only_main(|f, x, n| {
        let end = f.new_label();
        f.jump(end);
        let heads = labels(f, count);
        for &head in &heads {
            f.bind(head);
            scale_by(f, x, x);
            count_down(f, n);
        }
        close_loops(f, n, &heads);
        f.bind(end);
        f.ret(&[x.into()]);
    })
}
