//! Modules that are easy to write and hard to run: for each way to make a verifier, a code generator or a sweep slow, a
//! function from a size to a module that the verifier accepts.
//!
//! Each module exports `main (x : Real, n : Int) -> Real`, whose value depends on `x` where that makes sense. [`ALL`]
//! lists them with a size at which they are small, for tests that run all of them on all engines. How long the code is
//! depends on the size alone; how long it runs depends on `n`, which is 0 or small for a short run. Where a module has
//! loops, `n` is what their branches test: with 0 no loop goes back, with anything else many never end, and the limits
//! have to stop them.
//!
//! [`sources`] has texts of the language of the same kind, as programs write them rather than people.

pub(crate) mod sources;

use super::export_all;
use dualvm_vm::builder::{FunctionBuilder, IntReg, Label, ModuleBuilder, RealReg};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::ValueType::{self, Int, Real, Ref};
use dualvm_vm::module::{FuncId, ModuleDef, TypeDef};
use dualvm_vm::verify::limits::REGISTERS_MAX;

/// A family of modules.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// The module of this size; 1 is the smallest.
    pub(crate) make: fn(usize) -> ModuleDef,
    /// A size at which a run on every engine takes milliseconds.
    pub(crate) small: usize,
}

/// Every family.
pub(crate) const ALL: &[Family] = &[
    Family { name: "nested loops", make: nested_loops, small: 8 },
    Family { name: "nested loops of reals", make: nested_loops_of_reals, small: 6 },
    Family { name: "loops in a row", make: loops_in_a_row, small: 8 },
    Family { name: "self loops", make: self_loops, small: 8 },
    Family { name: "jumps to the first instruction", make: jumps_to_the_start, small: 8 },
    Family { name: "two-headed loops", make: two_headed_loops, small: 6 },
    Family { name: "tangle", make: tangle, small: 12 },
    Family { name: "wide branches on integers", make: |n| wide_branches(Int, n, n / 3 + 1), small: 60 },
    Family { name: "wide branches on reals", make: |n| wide_branches(Real, n, n / 3 + 1), small: 60 },
    Family { name: "wide loop on integers", make: |n| wide_loop(Int, n), small: 60 },
    Family { name: "wide loop on reals", make: |n| wide_loop(Real, n), small: 60 },
    Family { name: "straight line", make: straight_line, small: 600 },
    Family { name: "straight line of integers", make: straight_line_of_integers, small: 600 },
    Family { name: "straight line with all values live", make: straight_line_all_live, small: 300 },
    Family { name: "blocks in a row", make: blocks_in_a_row, small: 60 },
    Family { name: "records by blocks", make: records_by_blocks, small: 60 },
    Family { name: "records by objects", make: records_by_objects, small: 60 },
    Family { name: "loop of many real operations", make: |n| loop_body(n, 0, 0), small: 255 },
    Family { name: "loop of many instructions", make: |n| loop_body(1, n, 0), small: 505 },
    Family { name: "loop of many inputs", make: |n| loop_body(n, 0, n), small: 62 },
    Family { name: "loop of many blocks", make: loop_of_blocks, small: 15 },
    Family { name: "switch of many arms", make: switch_of_arms, small: 40 },
    Family { name: "switch of many targets", make: switch_of_targets, small: 400 },
    Family { name: "switches to everywhere", make: switches_to_everywhere, small: 8 },
    Family { name: "chain of calls", make: |n| chain_of_calls(n, 30), small: 12 },
    Family { name: "many arguments", make: |n| chain_of_calls(2, n), small: 200 },
    Family { name: "recursion with many arguments", make: recursion, small: 60 },
    Family { name: "tail calls around a ring", make: ring_of_tail_calls, small: 8 },
    Family { name: "calls that double", make: doubling_calls, small: 6 },
    Family { name: "small functions", make: small_functions, small: 40 },
    Family { name: "dead blocks", make: dead_blocks, small: 20 },
    Family { name: "dead code in loops", make: dead_code_in_loops, small: 6 },
    Family { name: "dead loops", make: dead_loops, small: 8 },
    Family { name: "large packs", make: large_packs, small: 300 },
    Family { name: "objects in objects", make: objects_in_objects, small: 60 },
    Family { name: "chain of closures", make: chain_of_closures, small: 40 },
    Family { name: "wide fork", make: wide_fork, small: 30 },
    Family { name: "forks that double", make: doubling_forks, small: 5 },
    Family { name: "chain of forks", make: chain_of_forks, small: 12 },
    Family { name: "nested parallel maps", make: nested_maps, small: 2 },
];

/// What every `main` takes and gives.
const MAIN: (&[ValueType], &[ValueType]) = (&[Real, Int], &[Real]);

/// The function `main`, with the registers of its real and its integer.
fn main_builder() -> (FunctionBuilder, RealReg, IntReg) {
    let f = FunctionBuilder::new("main", MAIN.0, MAIN.1);
    let (x, n) = (f.real_param(0), f.int_param(1));
    (f, x, n)
}

/// A module of `main` alone.
fn only_main(write: impl FnOnce(&mut FunctionBuilder, RealReg, IntReg)) -> ModuleDef {
    let (mut f, x, n) = main_builder();
    write(&mut f, x, n);
    with_main(ModuleBuilder::new(), f)
}

/// The module with `main` as its last function, which it exports.
fn with_main(mut module: ModuleBuilder, main: FunctionBuilder) -> ModuleDef {
    module.define(main.finish().expect("the code can be packed"));
    let mut def = module.finish();
    export_all(&mut def);
    let main = def.functions.len() - 1;
    def.functions[..main].iter_mut().for_each(|function| function.interface = None);
    def
}

fn add_to(f: &mut FunctionBuilder, sum: RealReg, x: RealReg) {
    f.emit_regs(Op::Add, &[sum.into(), sum.into(), x.into()]);
}

fn scale_by(f: &mut FunctionBuilder, x: RealReg, factor: RealReg) {
    f.emit_regs(Op::Mul, &[x.into(), x.into(), factor.into()]);
}

/// Counts down by 1.
fn count_down(f: &mut FunctionBuilder, counter: IntReg) {
    let one = f.int_const(1);
    f.emit_regs(Op::ISub, &[counter.into(), counter.into(), one.into()]);
}

fn labels(f: &mut FunctionBuilder, count: usize) -> Vec<Label> {
    (0..count).map(|_| f.new_label()).collect()
}

/// A sequence that looks random and is always the same.
fn scattered(n: usize) -> usize {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) & 0xffff_ffff
}

// Loops.

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
        let (half, one, left) = (f.real_const(0.5), f.int_const(1), f.new_int());
        for _ in 0..count {
            let (head, after) = (f.new_label(), f.new_label());
            f.mov(left, n);
            f.bind(head);
            scale_by(f, x, half);
            add_to(f, x, half);
            f.emit_regs(Op::ISub, &[left.into(), left.into(), one.into()]);
            let zero = f.int_const(0);
            let more = f.ilt(zero, left);
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

// Many live registers.

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

// Records.

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

// Calls.

/// `count` functions of `args` reals, as many integers and `n`, each of which calls the next one with all of them.
pub(crate) fn chain_of_calls(count: usize, args: usize) -> ModuleDef {
    let params: Vec<ValueType> = [Real, Int].into_iter().cycle().take(2 * args).collect();
    let mut module = ModuleBuilder::new();
    let links: Vec<FuncId> = (0..count).map(|at| module.declare(&format!("link{at}"), &params, &[Real])).collect();
    for (at, &link) in links.iter().enumerate() {
        let mut f = FunctionBuilder::new(&format!("link{at}"), &params, &[Real]);
        let args: Vec<Reg> = (0..params.len()).map(|at| f.param(at)).collect();
        let (x, y) = (f.real_param(0), f.real_param(params.len() - 2));
        f.emit_regs(Op::Mul, &[x.into(), x.into(), y.into()]);
        if let Some(&next) = links.get(at + 1) {
            f.call(next, &args, &[y.into()]);
            add_to(&mut f, x, y);
        }
        f.ret(&[x.into()]);
        module.set_function(link, f.finish().expect("the code can be packed"));
    }
    let (mut f, x, n) = main_builder();
    let args: Vec<Reg> = params.iter().map(|ty| if *ty == Real { x.into() } else { n.into() }).collect();
    f.call(links[0], &args, &[x.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// A function of `args` reals that calls itself `n` times, not in tail position, with its arguments moved on by one.
pub(crate) fn recursion(args: usize) -> ModuleDef {
    let params: Vec<ValueType> = std::iter::repeat_n(Real, args).chain([Int]).collect();
    let mut module = ModuleBuilder::new();
    let deep = module.declare("deep", &params, &[Real]);
    let mut f = FunctionBuilder::new("deep", &params, &[Real]);
    let (x, left) = (f.real_param(0), f.int_param(args));
    let (more, done, zero) = (f.new_label(), f.new_label(), f.int_const(0));
    let go_on = f.ilt(zero, left);
    f.branch(go_on, more, done);
    f.bind(more);
    count_down(&mut f, left);
    let mut moved: Vec<Reg> = (0..args).map(|at| f.param((at + 1) % args)).collect();
    moved.push(left.into());
    let below = f.new_real();
    f.call(deep, &moved, &[below.into()]);
    add_to(&mut f, x, below);
    f.bind(done);
    f.ret(&[x.into()]);
    module.set_function(deep, f.finish().expect("the code can be packed"));
    let (mut f, x, n) = main_builder();
    let args: Vec<Reg> = std::iter::repeat_n(x.into(), args).chain([n.into()]).collect();
    f.call(deep, &args, &[x.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `count` functions that call each other in tail position, around and around, `n` times.
pub(crate) fn ring_of_tail_calls(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let links: Vec<FuncId> = (0..count).map(|at| module.declare(&format!("link{at}"), MAIN.0, MAIN.1)).collect();
    for (at, &link) in links.iter().enumerate() {
        let mut f = FunctionBuilder::new(&format!("link{at}"), MAIN.0, MAIN.1);
        let (x, left) = (f.real_param(0), f.int_param(1));
        let (more, done, zero) = (f.new_label(), f.new_label(), f.int_const(0));
        f.emit_regs(Op::Sin, &[x.into(), x.into()]);
        let go_on = f.ilt(zero, left);
        f.branch(go_on, more, done);
        f.bind(more);
        count_down(&mut f, left);
        f.tail_call(links[(at + 1) % count], &[x.into(), left.into()]);
        f.bind(done);
        f.ret(&[x.into()]);
        module.set_function(link, f.finish().expect("the code can be packed"));
    }
    let (mut f, x, n) = main_builder();
    f.tail_call(links[0], &[x.into(), n.into()]);
    with_main(module, f)
}

/// `depth` functions each of which calls the next one twice: 2 to the power of `depth` calls.
pub(crate) fn doubling_calls(depth: usize) -> ModuleDef {
    doubling(depth, |f, next, x| {
        let (a, b) = (f.new_real(), f.new_real());
        f.call(next, &[x.into()], &[a.into()]);
        f.call(next, &[a.into()], &[b.into()]);
        f.add(a, b)
    })
}

/// `depth` functions each of which forks into two tasks of the next one.
pub(crate) fn doubling_forks(depth: usize) -> ModuleDef {
    doubling(depth, |f, next, x| {
        let (a, b) = (f.new_real(), f.new_real());
        f.fork(&[(next, &[x.into()], &[a.into()]), (next, &[x.into()], &[b.into()])]);
        f.add(a, b)
    })
}

/// `depth` functions of a real, each of which calls the next one by `call`; the last one takes the sine.
fn doubling(depth: usize, call: impl Fn(&mut FunctionBuilder, FuncId, RealReg) -> RealReg) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut sine = FunctionBuilder::new("sine", &[Real], &[Real]);
    let y = sine.sin(sine.real_param(0));
    sine.ret(&[y.into()]);
    let mut next = module.define(sine.finish().expect("the code can be packed"));
    for at in 0..depth {
        let mut f = FunctionBuilder::new(&format!("level{at}"), &[Real], &[Real]);
        let x = f.real_param(0);
        let y = call(&mut f, next, x);
        f.ret(&[y.into()]);
        next = module.define(f.finish().expect("the code can be packed"));
    }
    let (mut f, x, _) = main_builder();
    f.call(next, &[x.into()], &[x.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `count` functions of one instruction, which `main` calls one after the other.
pub(crate) fn small_functions(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let (mut main, x, _) = main_builder();
    for at in 0..count {
        let mut f = FunctionBuilder::new(&format!("f{at}"), &[Real], &[Real]);
        let y = if at % 2 == 0 { f.sin(f.real_param(0)) } else { f.cos(f.real_param(0)) };
        f.ret(&[y.into()]);
        let small = module.define(f.finish().expect("the code can be packed"));
        main.call(small, &[x.into()], &[x.into()]);
    }
    main.ret(&[x.into()]);
    with_main(module, main)
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

/// `count` counted loops along an array, each with a block that nothing reaches between its body and its branch: it
/// reads the array, changes the counter and leads into the loop.
pub(crate) fn dead_code_in_loops(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let array = module.intern_type(TypeDef::Array(Real));
    let (mut f, x, n) = main_builder();
    let elements = f.new_ref(array);
    f.emit(Op::Pack, &[Operand::Def(elements.into()), Operand::Uses(vec![x.into(); 8])]);
    let (one, len, bound, at, element) = (f.int_const(1), f.new_int(), f.new_int(), f.new_int(), f.new_real());
    f.emit_regs(Op::Len, &[len.into(), elements.into()]);
    f.emit_regs(Op::IMin, &[bound.into(), len.into(), n.into()]);
    for _ in 0..count {
        let (body, head, dead, after) = (f.new_label(), f.new_label(), f.new_label(), f.new_label());
        let start = f.int_const(0);
        f.mov(at, start);
        f.jump(head);
        f.bind(body);
        f.emit_regs(Op::Elem, &[element.into(), elements.into(), at.into()]);
        add_to(&mut f, x, element);
        f.emit_regs(Op::IAdd, &[at.into(), at.into(), one.into()]);
        f.jump(head);
        f.bind(dead);
        f.emit_regs(Op::Elem, &[element.into(), elements.into(), at.into()]);
        f.emit_regs(Op::ISub, &[at.into(), at.into(), one.into()]);
        scale_by(&mut f, x, element);
        f.bind(head);
        let more = f.ilt(at, bound);
        f.branch(more, body, after);
        f.bind(after);
    }
    f.ret(&[x.into()]);
    with_main(module, f)
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

// Objects.

/// An array of `count` elements out of one instruction, read by a loop of `n` rounds.
pub(crate) fn large_packs(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let array = module.intern_type(TypeDef::Array(Real));
    let (mut f, x, n) = main_builder();
    let half = f.real_const(0.5);
    let y = f.mul(x, half);
    let elements: Vec<Reg> = (0..count.min(0xffff)).map(|at| if at % 3 == 0 { x.into() } else { y.into() }).collect();
    let packed = f.new_ref(array);
    f.emit(Op::Pack, &[Operand::Def(packed.into()), Operand::Uses(elements)]);
    let (len, bound, at, one, element) = (f.new_int(), f.new_int(), f.int_const(0), f.int_const(1), f.new_real());
    f.emit_regs(Op::Len, &[len.into(), packed.into()]);
    f.emit_regs(Op::IMin, &[bound.into(), len.into(), n.into()]);
    let (head, body, after) = (f.new_label(), f.new_label(), f.new_label());
    f.bind(head);
    let more = f.ilt(at, bound);
    f.branch(more, body, after);
    f.bind(body);
    f.emit_regs(Op::Elem, &[element.into(), packed.into(), at.into()]);
    add_to(&mut f, x, element);
    f.emit_regs(Op::IAdd, &[at.into(), at.into(), one.into()]);
    f.jump(head);
    f.bind(after);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `depth` types, each a struct of the one before and a real: an object in an object, made inside out and taken apart
/// again.
pub(crate) fn objects_in_objects(depth: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut types = vec![module.intern_type(TypeDef::Struct(vec![Real]))];
    for at in 1..depth {
        types.push(module.intern_type(TypeDef::Struct(vec![Real, Ref(types[at - 1])])));
    }
    let (mut f, x, _) = main_builder();
    let held: Vec<Reg> = types.iter().map(|&ty| f.new_ref(ty).into()).collect();
    for at in 0..depth {
        let mut fields = vec![x.into()];
        fields.extend(at.checked_sub(1).map(|before| held[before]));
        f.emit(Op::StructNew, &[Operand::Def(held[at]), Operand::Uses(fields)]);
    }
    let y = f.new_real();
    for at in (0..depth).rev() {
        f.emit(Op::Field, &[Operand::Def(y.into()), Operand::Use(held[at]), Operand::Field(0)]);
        scale_by(&mut f, x, y);
        if at > 0 {
            f.emit(Op::PField, &[Operand::Def(held[at - 1]), Operand::Use(held[at]), Operand::Field(1)]);
        }
    }
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `count` closures, each of which captures the one before and calls it.
pub(crate) fn chain_of_closures(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let closure = module.intern_type(TypeDef::Closure { params: vec![Real], results: vec![Real] });
    let mut first = FunctionBuilder::new("first", &[Real], &[Real]);
    let y = first.sin(first.real_param(0));
    first.ret(&[y.into()]);
    let first = module.define(first.finish().expect("the code can be packed"));
    let mut next = FunctionBuilder::new("next", &[Ref(closure), Real, Real], &[Real]);
    let (inner, factor, x) = (next.param(0), next.real_param(1), next.real_param(2));
    next.emit(Op::CallClosure, &[Operand::Use(inner), Operand::Uses(vec![x.into()]), Operand::Defs(vec![x.into()])]);
    scale_by(&mut next, x, factor);
    next.ret(&[x.into()]);
    let next = module.define(next.finish().expect("the code can be packed"));
    let (mut f, x, _) = main_builder();
    let held: Reg = f.new_ref(closure).into();
    f.emit(Op::ClosureNew, &[Operand::Def(held), Operand::Func(first.0), Operand::Uses(vec![])]);
    for _ in 0..count {
        let captures = Operand::Uses(vec![held, x.into()]);
        f.emit(Op::ClosureNew, &[Operand::Def(held), Operand::Func(next.0), captures]);
    }
    f.emit(Op::TailCallClosure, &[Operand::Use(held), Operand::Uses(vec![x.into()])]);
    with_main(module, f)
}

// Tasks.

/// `n` rounds, one at least, of a fork of `count` tasks, 256 at most, of which the first runs long.
pub(crate) fn wide_fork(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut work = FunctionBuilder::new("work", &[Real, Int], &[Real]);
    let (x, left) = (work.real_param(0), work.int_param(1));
    let (zero, one) = (work.int_const(0), work.int_const(1));
    let (head, after) = (work.new_label(), work.new_label());
    work.bind(head);
    work.emit_regs(Op::Sin, &[x.into(), x.into()]);
    work.emit_regs(Op::ISub, &[left.into(), left.into(), one.into()]);
    let more = work.ilt(zero, left);
    work.branch(more, head, after);
    work.bind(after);
    work.ret(&[x.into()]);
    let work = module.define(work.finish().expect("the code can be packed"));

    let (mut f, x, n) = main_builder();
    let (zero, long, short) = (f.int_const(0), f.int_const(200), f.int_const(1));
    let results: Vec<[Reg; 1]> = (0..count.min(256)).map(|_| [f.new_real().into()]).collect();
    let args = [[x.into(), long.into()], [x.into(), short.into()]];
    let (head, after) = (f.new_label(), f.new_label());
    f.bind(head);
    let tasks: Vec<(FuncId, &[Reg], &[Reg])> =
        results.iter().enumerate().map(|(at, result)| (work, &args[at.min(1)][..], &result[..])).collect();
    f.fork(&tasks);
    for result in &results {
        f.emit_regs(Op::Add, &[x.into(), x.into(), result[0]]);
    }
    f.emit_regs(Op::ISub, &[n.into(), n.into(), short.into()]);
    let more = f.ilt(zero, n);
    f.branch(more, head, after);
    f.bind(after);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `depth` functions, each of which forks into a short task and one of the next function: as deep as there are
/// functions, and nothing to run side by side.
pub(crate) fn chain_of_forks(depth: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut sine = FunctionBuilder::new("sine", &[Real], &[Real]);
    let y = sine.sin(sine.real_param(0));
    sine.ret(&[y.into()]);
    let sine = module.define(sine.finish().expect("the code can be packed"));
    let mut next = sine;
    for at in 0..depth {
        let mut f = FunctionBuilder::new(&format!("level{at}"), &[Real], &[Real]);
        let x = f.real_param(0);
        let (a, b) = (f.new_real(), f.new_real());
        f.fork(&[(sine, &[x.into()], &[a.into()]), (next, &[x.into()], &[b.into()])]);
        let y = f.mul(a, b);
        f.ret(&[y.into()]);
        next = module.define(f.finish().expect("the code can be packed"));
    }
    let (mut f, x, _) = main_builder();
    f.tail_call(next, &[x.into()]);
    with_main(module, f)
}

/// Parallel maps in parallel maps, `depth` deep, each over `n` numbers.
pub(crate) fn nested_maps(depth: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let array = module.intern_type(TypeDef::Array(Real));
    let builder = module.intern_type(TypeDef::Builder(Real));
    let params = [Int, Int, Real, Int];
    let mut inner = None;
    for at in 0..depth {
        let mut f = FunctionBuilder::new(&format!("range{at}"), &params, &[Ref(array)]);
        let (low, high, x, n) = (f.int_param(0), f.int_param(1), f.real_param(2), f.int_param(3));
        let (out, done, one, len) = (f.new_ref(builder), f.new_ref(array), f.int_const(1), f.isub(high, low));
        f.emit_regs(Op::Build, &[out.into(), len.into()]);
        let (head, after) = (f.new_label(), f.new_label());
        f.bind(head);
        let y = f.to_real(low);
        f.emit_regs(Op::Mul, &[y.into(), y.into(), x.into()]);
        if let Some(inner) = inner {
            f.pmap(done, inner, n, &[y.into(), n.into()]);
            let zero = f.int_const(0);
            f.emit_regs(Op::Elem, &[y.into(), done.into(), zero.into()]);
        }
        f.emit_regs(Op::Push, &[out.into(), y.into()]);
        f.emit_regs(Op::IAdd, &[low.into(), low.into(), one.into()]);
        let more = f.ilt(low, high);
        f.branch(more, head, after);
        f.bind(after);
        f.emit_regs(Op::Finish, &[done.into(), out.into()]);
        f.ret(&[done.into()]);
        inner = Some(module.define(f.finish().expect("the code can be packed")));
    }
    let (mut f, x, n) = main_builder();
    let one = f.int_const(1);
    f.emit_regs(Op::IMax, &[n.into(), n.into(), one.into()]);
    let elements = f.new_ref(array);
    f.pmap(elements, inner.expect("there is a function"), n, &[x.into(), n.into()]);
    let last = f.isub(n, one);
    f.emit_regs(Op::Elem, &[x.into(), elements.into(), last.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}
