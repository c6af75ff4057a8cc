//! Which registers may hold one builder, and where, as far as a function tells.
//!
//! A builder is in the register where it was begun, and in those that it was moved to. A register may hold several, one
//! after the other, which have nothing to do with each other: what is linked are *webs*, a register from where it is
//! written to where that is read last, and all such that meet (Muchnick 1997, "Advanced compiler design and
//! implementation", section 16.3). What else is done with a builder than to move it, to finish it, and to append, read
//! and replace elements may leave it anywhere: calls and choices between two of them do.

use super::flow::FlowGraph;
use super::liveness::{self, RegSet};
use super::loop_detection::live_before;
use crate::bytecode::isa::{Bank, Op};
use crate::bytecode::module::{Body, ModuleDef, TypeDef};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::collections::{BTreeMap, BTreeSet};

/// Above so many builders that are alive where blocks begin, nothing is known of a function.
const ALIVE_MAX: usize = 1 << 20;

/// Webs between which builders are moved, by its number.
pub(super) type GroupId = u32;

#[derive(Clone, Debug, Default)]
struct Group {
    /// Where one is begun.
    begun: Vec<u32>,
    /// Whether one may come from somewhere else, or go there.
    is_elsewhere: bool,
    /// Whether the names are those of one builder at any time, once somebody has asked.
    is_one: Option<bool>,
}

/// A register that an instruction names.
#[derive(Clone, Copy, Debug)]
struct Mention {
    inst: u32,
    register: u16,
    group: GroupId,
}

/// The groups of a function's builders.
#[derive(Debug)]
pub(super) struct BuilderNames {
    /// For each block, where what is alive when it begins is in `alive`. One more entry ends the last.
    starts: Vec<usize>,
    /// Registers that hold a builder which anyone reads, in order.
    alive: Vec<(u16, GroupId)>,
    /// In the order of the code; what an instruction reads comes before what it writes.
    mentions: Vec<Mention>,
    groups: Vec<Group>,
}

impl BuilderNames {
    /// `live` are the reference registers that are live at the ends of blocks. `None` if it is too much. Takes time in
    /// proportion to the function and to the builders that are alive where its blocks begin and end.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn of(
        module: &ModuleDef,
        (body, flow, live): (&Body, &FlowGraph, &[RegSet]),
        watch: &Watch<'_>,
    ) -> Result<Option<BuilderNames>, TrapKind> {
        let is_builder =
            |register: u16| matches!(module.types[body.refs[usize::from(register)].index()], TypeDef::Builder(_));
        let builders: Vec<u16> = (0..body.refs.len() as u16).filter(|&register| is_builder(register)).collect();
        let mut webs = Webs::default();
        let (mut starts, mut alive) = (vec![0], Vec::new());
        for (&block, live) in flow.blocks().iter().zip(live) {
            watch.tick((block.end - block.start) as usize + body.refs.len() / 16 + builders.len())?;
            let live = live_before(body, Bank::Ref, block, live);
            alive.extend(builders.iter().filter(|&&builder| live.contains(builder)).map(|&it| (it, webs.add())));
            starts.push(alive.len());
            if alive.len() > ALIVE_MAX {
                return Ok(None);
            }
        }
        let (mut mentions, mut begun, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
        for (number, block) in flow.blocks().iter().enumerate() {
            let mut held: BTreeMap<u16, u32> = alive[starts[number]..starts[number + 1]].iter().copied().collect();
            watch.tick(4 * held.len() + (block.end - block.start) as usize)?;
            for at in block.start..block.end {
                let inst = &body.code[at as usize];
                let first = mentions.len();
                for defines in [false, true] {
                    body.for_each_reg(inst, |reg, def| {
                        if def == defines && reg.bank == Bank::Ref && is_builder(reg.index) {
                            let web = match held.get(&reg.index) {
                                Some(&web) if !def => web,
                                _ => webs.add(),
                            };
                            held.insert(reg.index, web);
                            mentions.push(Mention { inst: at, register: reg.index, group: web });
                        }
                    });
                }
                match (inst.op, &mentions[first..]) {
                    (Op::PMov, &[from, to]) => webs.link(from.group, to.group),
                    (Op::Build, &[of]) => begun.push((of.group, at)),
                    (op, all) if !stays(op) => elsewhere.extend(all.iter().map(|mention| mention.group)),
                    _ => {}
                }
            }
            for &to in flow.successors(number) {
                let alive = &alive[starts[to as usize]..starts[to as usize + 1]];
                watch.tick(4 * alive.len())?;
                let met = alive.iter().filter_map(|&(register, web)| Some((web, *held.get(&register)?)));
                met.for_each(|(web, held)| webs.link(web, held));
            }
        }
        let number = webs.groups();
        alive.iter_mut().for_each(|(_, web)| *web = number[*web as usize]);
        mentions.iter_mut().for_each(|mention| mention.group = number[mention.group as usize]);
        let mut groups = vec![Group::default(); number.iter().max().map_or(0, |&last| last as usize + 1)];
        begun.into_iter().for_each(|(web, at)| groups[number[web as usize] as usize].begun.push(at));
        elsewhere.into_iter().for_each(|web| groups[number[web as usize] as usize].is_elsewhere = true);
        Ok(Some(BuilderNames { starts, alive, mentions, groups }))
    }

    /// The group of the builder in a register that an instruction names.
    pub(super) fn group(&self, inst: u32, register: u16) -> GroupId {
        let first = self.mentions.partition_point(|mention| mention.inst < inst);
        let mut all = self.mentions[first..].iter().take_while(|mention| mention.inst == inst);
        all.find(|mention| mention.register == register).expect("it holds a builder").group
    }

    /// Whether it is known of the builders of a group where they are.
    pub(super) fn is_known(&self, group: GroupId) -> bool {
        !self.groups[group as usize].is_elsewhere
    }

    /// The registers that hold builders which anyone reads when a block begins, with their groups.
    pub(super) fn alive(&self, block: usize) -> &[(u16, GroupId)] {
        &self.alive[self.starts[block]..self.starts[block + 1]]
    }

    /// Whether those registers that hold a builder of a group which anyone reads hold the same one at any time.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn is_one(
        &mut self,
        group: GroupId,
        known: (&Body, &FlowGraph, &[RegSet]),
        watch: &Watch<'_>,
    ) -> Result<bool, TrapKind> {
        if let Some(known) = self.groups[group as usize].is_one {
            return Ok(known);
        }
        let begun = std::mem::take(&mut self.groups[group as usize].begun);
        let is_one = self.are_one(&[group].into(), &begun, known, watch)?;
        self.groups[group as usize] = Group { begun, is_one: Some(is_one), ..self.groups[group as usize] };
        Ok(is_one)
    }

    /// The same of several groups: wherever one of these is begun, nobody reads any more what other registers hold of
    /// them.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn are_one(
        &self,
        groups: &BTreeSet<GroupId>,
        begun: &[u32],
        (body, flow, live): (&Body, &FlowGraph, &[RegSet]),
        watch: &Watch<'_>,
    ) -> Result<bool, TrapKind> {
        for &at in begun {
            let number = flow.blocks().partition_point(|block| block.end <= at);
            let block = flow.blocks()[number];
            watch.tick((block.end - block.start) as usize + body.refs.len() / 16 + self.alive(number).len())?;
            let mut live = live[number].clone();
            let behind = &body.code[at as usize + 1..block.end as usize];
            behind.iter().rev().for_each(|inst| liveness::step_back(body, Bank::Ref, inst, &mut live));
            let mut held: BTreeMap<u16, GroupId> = self.alive(number).iter().copied().collect();
            let first = self.mentions.partition_point(|mention| mention.inst < block.start);
            let before = self.mentions[first..].iter().take_while(|mention| mention.inst <= at);
            held.extend(before.map(|mention| (mention.register, mention.group)));
            held.remove(&body.code[at as usize].a);
            if held.iter().any(|(&register, group)| groups.contains(group) && live.contains(register)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether an instruction leaves a builder where it is known to be.
fn stays(op: Op) -> bool {
    matches!(
        op,
        Op::Build
            | Op::PMov
            | Op::Finish
            | Op::Push
            | Op::IPush
            | Op::PPush
            | Op::Extend
            | Op::Len
            | Op::Get
            | Op::IGet
            | Op::PGet
            | Op::Put
            | Op::IPut
            | Op::PPut
    )
}

/// Webs, and which ones belong together.
#[derive(Default)]
struct Webs {
    /// For each web one that it is linked to, with a lower number, or itself.
    near: Vec<u32>,
}

impl Webs {
    fn add(&mut self) -> u32 {
        self.near.push(self.near.len() as u32);
        self.near.len() as u32 - 1
    }

    fn link(&mut self, a: u32, b: u32) {
        let [a, b] = [a, b].map(|web| self.first_of(web));
        self.near[a.max(b) as usize] = a.min(b);
    }

    /// The web that stands for all that one is linked to. The way there becomes shorter.
    fn first_of(&mut self, web: u32) -> u32 {
        let mut at = web as usize;
        while self.near[at] as usize != at {
            self.near[at] = self.near[self.near[at] as usize];
            at = self.near[at] as usize;
        }
        at as u32
    }

    /// For each web the number of its group. Groups are numbered from 0.
    fn groups(mut self) -> Vec<GroupId> {
        let (mut number, mut count) = (vec![0; self.near.len()], 0);
        for web in 0..self.near.len() as u32 {
            let first = self.first_of(web);
            if first == web {
                number[web as usize] = count;
                count += 1;
            } else {
                number[web as usize] = number[first as usize];
            }
        }
        number
    }
}
