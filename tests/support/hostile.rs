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

mod blocks;
mod calls;
mod loops;
mod objects;
mod records;
mod registers;
pub(crate) mod run;
pub(crate) mod sources;

use super::export_all;
use blocks::{
    blocks_in_a_row, dead_blocks, dead_code_in_loops, straight_line, straight_line_all_live, straight_line_of_integers,
    switch_of_arms, switch_of_targets, switches_to_everywhere,
};
pub(crate) use calls::{
    chain_of_calls, chain_of_forks, doubling_calls, doubling_forks, nested_maps, recursion, ring_of_tail_calls,
    small_functions, wide_fork,
};
use dualvm_vm::builder::{FunctionBuilder, IntReg, Label, ModuleBuilder, RealReg};
use dualvm_vm::isa::Op;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::module::ValueType::{self, Int, Real};
use loops::{
    dead_loops, jumps_to_the_start, loops_in_a_row, nested_loops, nested_loops_of_reals, self_loops, tangle,
    two_headed_loops,
};
use objects::{chain_of_closures, large_packs, objects_in_objects};
use records::{loop_body, loop_of_blocks, records_by_blocks, records_by_objects};
use registers::{wide_branches, wide_loop};

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
