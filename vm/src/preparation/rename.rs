//! Renames loaded reals within a block, so that reusing a register doesn't cut a segment.
//!
//! A segment reads the words of its inputs at its end, so a load into a register that the segment has read before would
//! have to end it. Frontends reuse registers all the time. Here each load whose value dies in its block gets a register
//! of its own, for recording only. Like the cut itself, this depends on the code alone.

use crate::bytecode::isa::{Bank, Inst, Reg, Role};
use crate::bytecode::module::Body;
use crate::preparation::flow::Block;
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::collections::HashMap;

/// More registers than this are not added to a function.
const ADDED_MAX: usize = 200;

/// A loaded value: where it is defined and read, by instruction.
#[derive(Default)]
struct Web {
    def: u32,
    uses: Vec<u32>,
    /// Where it is shown. A text has a list of its own when it gets another register.
    shown: Vec<u32>,
    /// A register list names it: lists may be shared between instructions, so they are left alone.
    listed: bool,
}

/// Renames loads in all blocks. Blocks share the added registers.
///
/// # Errors
/// What the watch says.
pub(crate) fn rename_loads(body: &mut Body, blocks: &[Block], watch: &Watch<'_>) -> Result<(), TrapKind> {
    let first_added = body.reals as usize;
    let mut added_max = 0;
    for &block in blocks {
        let webs = contained_webs(body, block, watch)?;
        for (added, (reg, web)) in webs.into_iter().take(ADDED_MAX).enumerate() {
            let new = (first_added + added) as u16;
            let swap = |inst: &mut Inst, def: bool| {
                Body::rename_regs(inst, |r, d| if r == reg && d == def { new } else { r.index });
            };
            swap(&mut body.code[web.def as usize], true);
            web.uses.iter().for_each(|&at| swap(&mut body.code[at as usize], false));
            for &at in &web.shown {
                let shown = body.shown(&body.code[at as usize]).iter();
                let shown: Vec<Reg> = shown.map(|&r| if r == reg { Reg::real(new) } else { r }).collect();
                body.set_shown(at, &shown);
            }
            added_max = added_max.max(added + 1);
        }
    }
    body.reals += added_max as u32;
    Ok(())
}

/// Loaded values that another definition of their register replaces in the same block, in order.
fn contained_webs(body: &Body, block: Block, watch: &Watch<'_>) -> Result<Vec<(Reg, Web)>, TrapKind> {
    let mut open: HashMap<Reg, Web> = HashMap::new();
    let mut contained = Vec::new();
    for at in block.start..block.end {
        watch.tick(4)?;
        let inst = &body.code[at as usize];
        let (uses, _) = body.reg_lists(inst);
        for reg in uses {
            match open.get_mut(reg) {
                Some(web) if !inst.op.shows() => web.listed = true,
                Some(web) if web.shown.last() != Some(&at) => web.shown.push(at),
                _ => {}
            }
        }
        body.for_each_reg(inst, |reg, def| {
            if let Some(web) = open.get_mut(&reg)
                && !def
                && web.uses.last() != Some(&at)
            {
                web.uses.push(at);
            }
        });
        body.for_each_reg(inst, |reg, def| {
            if def && reg.bank == Bank::Real {
                contained.extend(open.remove(&reg).filter(|web| !web.listed).map(|web| (reg, web)));
            }
        });
        let loads =
            !inst.op.is_scalar() && inst.op.info().operands.first().map(|o| o.role) == Some(Role::Def(Bank::Real));
        if loads && inst.op.info().operands.iter().any(|operand| operand.role == Role::Use(Bank::Ref)) {
            open.insert(Reg::real(inst.a), Web { def: at, ..Web::default() });
        }
    }
    Ok(contained)
}
