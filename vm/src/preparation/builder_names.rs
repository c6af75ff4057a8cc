//! Which registers may hold one builder, as far as a function tells.
//!
//! A builder is in the register where it was begun, and in those that it was moved to. What else is done with it than
//! to move it, to finish it, and to append, read and replace elements may leave it anywhere: calls and choices between
//! two of them do.

use super::flow::{Block, FlowGraph};
use super::liveness::RegSet;
use super::loop_detection::live_before;
use crate::bytecode::isa::{Bank, Op};
use crate::bytecode::module::Body;
use crate::running::meter::Watch;
use crate::trap::TrapKind;

/// Registers between which builders are moved.
#[derive(Debug, Default)]
struct Group {
    names: Vec<u16>,
    /// Where one is begun.
    begun: Vec<u32>,
    /// Whether one may come from somewhere else, or go there.
    is_elsewhere: bool,
    /// Whether the names are those of one builder at any time, once somebody has asked.
    is_one: Option<bool>,
}

/// The groups of a function's reference registers.
#[derive(Debug)]
pub(super) struct BuilderNames {
    /// For each register the number of its group.
    group: Vec<u16>,
    groups: Vec<Group>,
}

impl BuilderNames {
    /// Takes time in proportion to the function.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn of(body: &Body, watch: &Watch<'_>) -> Result<BuilderNames, TrapKind> {
        watch.tick(2 * body.code.len() + body.refs.len())?;
        let mut near: Vec<u16> = (0..body.refs.len()).map(|register| register as u16).collect();
        for inst in body.code.iter().filter(|inst| inst.op == Op::PMov) {
            let [a, b] = [inst.a, inst.b].map(|register| first_of(&mut near, register));
            near[usize::from(a.max(b))] = a.min(b);
        }
        let group: Vec<u16> = (0..near.len()).map(|register| first_of(&mut near, register as u16)).collect();
        let mut groups: Vec<Group> = group.iter().map(|_| Group::default()).collect();
        for (name, &number) in group.iter().enumerate() {
            groups[usize::from(number)].names.push(name as u16);
        }
        for (at, inst) in (0..).zip(&body.code) {
            let stays = match inst.op {
                Op::Build => {
                    groups[usize::from(group[usize::from(inst.a)])].begun.push(at);
                    true
                }
                Op::PMov | Op::Finish | Op::Push | Op::IPush | Op::PPush | Op::Extend | Op::Len => true,
                Op::Get | Op::IGet | Op::PGet | Op::Put | Op::IPut | Op::PPut => true,
                _ => false,
            };
            if !stays {
                body.for_each_reg(inst, |reg, _| {
                    if reg.bank == Bank::Ref {
                        groups[usize::from(group[usize::from(reg.index)])].is_elsewhere = true;
                    }
                });
            }
        }
        Ok(BuilderNames { group, groups })
    }

    /// The number of the group that a register is of: what is in another one's is another builder, if it is known of
    /// this one's where they are.
    pub(super) fn group(&self, register: u16) -> usize {
        usize::from(self.group[usize::from(register)])
    }

    /// The registers of a group, if it is known of its builders where they are.
    pub(super) fn known(&self, group: usize) -> Option<&[u16]> {
        Some(&*self.groups[group].names).filter(|_| !self.groups[group].is_elsewhere)
    }

    /// Whether those registers of a group that hold a builder which anyone reads hold the same one at any time:
    /// wherever one is begun, nobody reads any more what the others hold. `live` are the reference registers that are
    /// live at the ends of blocks.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn is_one(
        &mut self,
        group: usize,
        (body, flow, live): (&Body, &FlowGraph, &[RegSet]),
        watch: &Watch<'_>,
    ) -> Result<bool, TrapKind> {
        let Group { names, begun, is_one, .. } = &mut self.groups[group];
        if let Some(known) = *is_one {
            return Ok(known);
        }
        let mut found = true;
        for &at in begun.iter().filter(|_| names.len() > 1) {
            let number = flow.blocks().partition_point(|block| block.end <= at);
            // Where control never comes nothing is begun.
            let Some(block) = flow.blocks().get(number).filter(|block| block.start <= at) else { continue };
            watch.tick((block.end - at) as usize + body.refs.len() / 16 + names.len())?;
            let behind = Block { start: at + 1, end: block.end };
            let live = live_before(body, Bank::Ref, behind, &live[number]);
            let builder = body.code[at as usize].a;
            found &= !names.iter().any(|&name| name != builder && live.contains(name));
        }
        *is_one = Some(found);
        Ok(found)
    }
}

/// The register that stands for all that one is linked to. The way there becomes shorter.
fn first_of(near: &mut [u16], register: u16) -> u16 {
    let mut at = usize::from(register);
    while usize::from(near[at]) != at {
        near[at] = near[usize::from(near[at])];
        at = usize::from(near[at]);
    }
    at as u16
}
