//! Which real registers may depend on an input at the beginnings of a function's blocks, whatever its arguments are.
//!
//! What is made of integers and constants alone never does, such as the weights of a sum that are computed from its
//! index. A loop's adjoint leaves it out: no adjoints for it, and nothing saved for them. Forward dataflow over bit
//! sets, bounded as [`super::liveness`] is.

use crate::bytecode::isa::{Bank, Inst, Op};
use crate::bytecode::module::Body;
use crate::preparation::flow::{Block, FlowGraph};
use crate::preparation::liveness::{Effort, RegSet};
use crate::running::meter::Watch;
use crate::trap::TrapKind;

/// The real registers that may be active at the beginning of each block, of a function with so many real parameters;
/// `None` if that takes too many steps: then all may be.
///
/// # Errors
/// What the watch says.
pub(crate) fn active_in(
    body: &Body,
    params: usize,
    flow: &FlowGraph,
    watch: &Watch<'_>,
) -> Result<Option<Vec<RegSet>>, TrapKind> {
    let blocks = flow.blocks();
    let Some(mut effort) = Effort::new(body.reals, flow) else { return Ok(None) };
    let mut active_in = vec![RegSet::new(body.reals); blocks.len()];
    let Some(first) = blocks.first() else { return Ok(None) };
    debug_assert_eq!(first.start, 0, "blocks are in the order of the code");
    (0..params).for_each(|reg| active_in[0].insert(reg as u16));
    let mut queued = vec![true; blocks.len()];
    // But for loops, each block comes after what leads to it.
    let mut work: Vec<usize> = flow.order().iter().rev().map(|&block| block as usize).collect();
    while let Some(index) = work.pop() {
        queued[index] = false;
        let mut active = active_in[index].clone();
        let Block { start, end } = blocks[index];
        let after = flow.successors(index);
        if !effort.spend(end - start, after.len(), watch)? {
            return Ok(None);
        }
        for inst in &body.code[start as usize..end as usize] {
            step(body, inst, &mut active);
        }
        for after in after.iter().map(|&after| after as usize) {
            if active_in[after].union(&active) && !queued[after] {
                queued[after] = true;
                work.push(after);
            }
        }
    }
    Ok(Some(active_in))
}

/// Steps a set of active registers over one instruction.
fn step(body: &Body, inst: &Inst, active: &mut RegSet) {
    let made = match inst.op {
        Op::Const | Op::Once => false,
        op if op == Op::Mov || (op.is_scalar() && op.info().differentiable) => {
            let mut any = false;
            body.for_each_reg(inst, |reg, def| any |= !def && reg.bank == Bank::Real && active.contains(reg.index));
            any
        }
        // A comparison writes no real.
        op => !op.is_scalar(),
    };
    body.for_each_reg(inst, |reg, def| {
        if def && reg.bank == Bank::Real {
            if made { active.insert(reg.index) } else { active.remove(reg.index) }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preparation::loop_detection::tests::body_of;

    /// The active registers at the beginning of the block that the last instruction is in.
    fn active_at_the_end(code: &str) -> Vec<u16> {
        let (body, flow) = body_of(code);
        let (body, watch) = (&body, Watch::none());
        let active = active_in(body, 2, &flow, &watch).expect("nobody stops it").expect("it is little work");
        let last = &active[flow.block_at(body.code.len() as u32 - 1)];
        (0..8).filter(|&reg| last.contains(reg)).collect()
    }

    #[test]
    fn what_is_made_of_integers_and_constants_is_not_active() {
        let code = "to_real r2, i0\n const r3, 2\n mul r4, r2, r3\n add r5, r4, r0\n floor r6, r0\n elem r7, p0, i0
            jump on\n on:\n ret (r0)";
        assert_eq!(active_at_the_end(code), [0, 1, 5, 7]);
    }

    #[test]
    fn what_a_call_gives_is_active_unless_it_is_a_constant_of_the_run() {
        let code = "call f0 (r0, r1, p0, i0) -> (r2)\n once f0 -> (r3)\n add r4, r3, r3\n jump on\n on:\n ret (r0)";
        assert_eq!(active_at_the_end(code), [0, 1, 2]);
    }

    #[test]
    fn a_register_is_active_where_it_is_on_one_way() {
        let code = "const r2, 1\n const r3, 1\n branch i0, one, on\n one:\n mov r2, r0\n jump on\n on:\n ret (r0)";
        assert_eq!(active_at_the_end(code), [0, 1, 2]);
    }

    #[test]
    fn what_a_loop_carries_is_active_if_an_iteration_makes_it_so() {
        let loop_with = |body: &str| {
            let code = format!(
                "const r2, 1\n const r3, 1\n iconst i1, 0\n jump body\n body:\n {body}\n iadd i1, i1, i0\n ilt i3, i1, i0
                 branch i3, body, done\n done:\n ret (r0)"
            );
            active_at_the_end(&code)
        };
        // A power of a number that is made of the counter; then one that something active comes into.
        assert_eq!(loop_with("to_real r4, i1\n mul r2, r2, r4"), [0, 1]);
        assert_eq!(loop_with("mul r2, r2, r3\n add r3, r3, r1"), [0, 1, 2, 3]);
    }

    #[test]
    fn a_parameter_that_is_overwritten_is_what_it_becomes() {
        assert_eq!(active_at_the_end("const r0, 1\n jump on\n on:\n ret (r0)"), [1]);
    }
}
