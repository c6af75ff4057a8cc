//! What a loop does with builders, and what those of reals go by in a region.

use super::{Facts, Finder, INSTRUCTIONS_MAX, may_hold};
use crate::bytecode::isa::Op;
use crate::bytecode::module::{TypeDef, ValueType};
use crate::preparation::builder_names::{BuilderNames, GroupId};
use crate::preparation::nesting::Natural;
use crate::preparation::refusal::Refusal;
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::collections::{BTreeMap, BTreeSet};

/// What a loop does with the builders of a group.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// The registers that hold one where instructions of the loop name it.
    pub(super) registers: BTreeSet<u16>,
    pub(super) of_reals: bool,
    /// Where one is begun.
    pub(super) begun: Vec<u32>,
    pub(super) is_pushed: bool,
    pub(super) is_finished: bool,
    /// The first instruction that gives one another name.
    pub(super) moved: Option<u32>,
    /// The first instruction that reads or replaces a real of one.
    pub(super) changed: Option<u32>,
    pub(super) is_put: bool,
}

impl Uses {
    fn first_register(&self) -> u16 {
        *self.registers.first().expect("an instruction names one")
    }
}

/// What a loop does with builders.
#[derive(Debug, Default)]
pub(super) struct Builders {
    /// Whether it does nothing but to append: then nobody asks for groups, and registers stand for these.
    only_appends: bool,
    /// By their groups.
    pub(super) uses: BTreeMap<GroupId, Uses>,
    /// The reference register that those of reals go by. It holds the builder where the loop begins and ends, if that
    /// was begun before.
    pub(super) names: BTreeMap<GroupId, u16>,
    /// The instructions that deal with builders, each with the group.
    pub(super) insts: BTreeMap<u32, GroupId>,
}

impl Finder<'_> {
    /// What a loop does with builders, or what it holds that a region doesn't.
    pub(super) fn builders(
        &mut self,
        found: &Natural,
        watch: &Watch<'_>,
    ) -> Result<Result<Builders, Refusal>, TrapKind> {
        let Facts { module, body, flow, .. } = self.facts;
        let mut instructions = 0;
        // With the register of the builder.
        let mut insts: Vec<(u32, u16)> = Vec::new();
        let mut only_appends = true;
        for &block in &found.blocks {
            let block = flow.blocks()[block];
            instructions += body.computing(block.start..block.end);
            if instructions > INSTRUCTIONS_MAX {
                return Ok(Err(Refusal::Instructions { max: INSTRUCTIONS_MAX }));
            }
            for (at, inst) in (block.start..).zip(&body.code[block.start as usize..block.end as usize]) {
                watch.tick(1)?;
                let builder = match inst.op {
                    // One of two builders, of which nobody knows here.
                    Op::PSelect if self.is_builder(inst.a) => return Ok(Err(Refusal::BuilderUnknown { inst: at })),
                    Op::PMov if self.is_builder(inst.a) => inst.a,
                    Op::Build | Op::Push | Op::IPush | Op::PPush | Op::Extend | Op::Put | Op::IPut => inst.a,
                    Op::Finish | Op::Get | Op::IGet => inst.b,
                    op if may_hold(op) => continue,
                    _ => return Ok(Err(Refusal::holds(module, body, at))),
                };
                only_appends &= matches!(inst.op, Op::Push | Op::IPush | Op::PPush | Op::Extend);
                insts.push((at, builder));
            }
        }
        if !only_appends && !self.find_names(watch)? {
            return Ok(Err(Refusal::FunctionSize));
        }
        let mut builders = Builders { only_appends, ..Builders::default() };
        for (at, builder) in insts {
            let names = self.names.as_ref().and_then(Option::as_ref).filter(|_| !only_appends);
            let group = names.map_or(GroupId::from(builder), |names| names.group(at, builder));
            builders.insts.insert(at, group);
            let uses = builders.uses.entry(group).or_default();
            uses.registers.insert(builder);
            uses.of_reals = self.is_builder_of_reals(builder);
            let inst = body.code[at as usize];
            match inst.op {
                Op::PMov => {
                    uses.registers.insert(inst.b);
                    uses.moved = uses.moved.or(Some(at));
                }
                Op::Build => uses.begun.push(at),
                Op::Push | Op::Extend => uses.is_pushed = true,
                Op::Finish => uses.is_finished = true,
                Op::Get | Op::Put => {
                    uses.changed = uses.changed.or(Some(at));
                    uses.is_put |= inst.op == Op::Put;
                }
                _ => {}
            }
        }
        let from_before = || builders.uses.values().filter(|uses| uses.begun.is_empty());
        Ok(if from_before().filter(|uses| uses.is_pushed).count() > 1 {
            // Those of two registers could be one.
            Err(Refusal::Builders)
        } else if from_before().any(|uses| uses.is_finished) {
            Err(Refusal::BuilderFromOutside)
        } else {
            Ok(builders)
        })
    }

    fn is_builder(&self, reference: u16) -> bool {
        let Facts { body, module, .. } = self.facts;
        matches!(module.types[body.refs[usize::from(reference)].index()], TypeDef::Builder(_))
    }

    fn is_builder_of_reals(&self, reference: u16) -> bool {
        let Facts { body, module, .. } = self.facts;
        module.types[body.refs[usize::from(reference)].index()] == TypeDef::Builder(ValueType::Real)
    }

    /// Finds which registers may hold one builder, unless that was done. Says whether it is known.
    fn find_names(&mut self, watch: &Watch<'_>) -> Result<bool, TrapKind> {
        self.find_live_refs(watch)?;
        let Facts { module, body, flow, .. } = self.facts;
        if self.names.is_none() {
            self.names = Some(match &self.live_refs {
                Some(Some(live)) => BuilderNames::of(module, (body, flow, live), watch)?,
                _ => None,
            });
        }
        Ok(self.names.as_ref().is_some_and(Option::is_some))
    }

    /// Gives names to the builders of reals of a loop, if it may be a region that does with them what it does.
    ///
    /// The elements of an array that is changed in place get slots of their own where the region begins, which takes
    /// time in proportion to their number: so the array has to have been begun since the head of any loop around was
    /// passed, which took as much. What the loop begins is nobody's before it and after it.
    pub(super) fn name(
        &mut self,
        number: usize,
        builders: &mut Builders,
        refs_before: &[u16],
        watch: &Watch<'_>,
    ) -> Result<Result<(), Refusal>, TrapKind> {
        if builders.only_appends {
            let of_reals = builders.uses.iter().filter(|(_, uses)| uses.of_reals);
            builders.names = of_reals.map(|(&group, uses)| (group, uses.first_register())).collect();
            return Ok(Ok(()));
        }
        let mut names = self.names.take().flatten().expect("they were asked for");
        let named = self.name_by(&mut names, number, builders, refs_before, watch);
        self.names = Some(Some(names));
        named
    }

    fn name_by(
        &mut self,
        names: &mut BuilderNames,
        number: usize,
        builders: &mut Builders,
        refs_before: &[u16],
        watch: &Watch<'_>,
    ) -> Result<Result<(), Refusal>, TrapKind> {
        if let Some(inst) = builders.uses.values().find_map(|uses| uses.changed)
            && self.goes_round_otherwise(watch)?
        {
            return Ok(Err(Refusal::ChangedAround { inst }));
        }
        let found = &self.nest[number];
        let is_begun = |group: &GroupId| builders.uses.get(group).is_some_and(|uses| !uses.begun.is_empty());
        for block in self.blocks_after(found).into_iter().chain([found.head]) {
            let alive = names.alive(block);
            watch.tick(4 * alive.len())?;
            if alive.iter().any(|(_, group)| is_begun(group)) {
                return Ok(Err(Refusal::BuilderInUse));
            }
        }
        match self.name_those_from_before(names, number, builders, refs_before, watch)? {
            Ok(()) => self.name_those_begun(names, number, builders, watch),
            refused => Ok(refused),
        }
    }

    fn name_those_from_before(
        &self,
        names: &mut BuilderNames,
        number: usize,
        builders: &mut Builders,
        refs_before: &[u16],
        watch: &Watch<'_>,
    ) -> Result<Result<(), Refusal>, TrapKind> {
        let Facts { body, flow, .. } = self.facts;
        let Some(Some(live)) = &self.live_refs else { return Ok(Err(Refusal::FunctionSize)) };
        let Builders { uses: all, names: named, .. } = builders;
        // A register that holds several builders, one after the other, says nothing of one of them.
        let holds_no_other = |group: GroupId, register: u16| {
            all.iter().all(|(&other, uses)| other == group || !uses.registers.contains(&register))
        };
        for (&group, uses) in all.iter().filter(|(_, uses)| uses.begun.is_empty() && uses.of_reals) {
            if let Some(inst) = uses.changed {
                // Elements that are pushed have no slots yet.
                if uses.is_pushed {
                    return Ok(Err(Refusal::ChangedWhereMade { inst }));
                }
                let parents = std::iter::successors(self.nest[number].parent, |&around| self.nest[around].parent);
                for head in parents.map(|around| self.nest[around].head).chain([0]) {
                    let alive = names.alive(head);
                    watch.tick(alive.len())?;
                    if !names.is_known(group) || alive.iter().any(|&(_, other)| other == group) {
                        return Ok(Err(Refusal::ChangedAround { inst }));
                    }
                }
            }
            let Some(inst) = uses.changed.or(uses.moved) else {
                // It appends to what is in one register, which then has nothing else: control comes back to the head.
                let name = uses.first_register();
                if !holds_no_other(group, name) {
                    return Ok(Err(Refusal::BuilderInUse));
                }
                named.insert(group, name);
                continue;
            };
            let alive = names.alive(self.nest[number].head).iter();
            let mut registers = alive.filter(|&&(_, other)| other == group).map(|&(register, _)| register);
            let name = registers.find(|&register| refs_before.contains(&register) && holds_no_other(group, register));
            match name.filter(|_| names.is_known(group)) {
                Some(name) if names.is_one(group, (body, flow, live), watch)? => named.insert(group, name),
                _ => return Ok(Err(Refusal::BuilderUnknown { inst })),
            };
        }
        Ok(Ok(()))
    }

    fn name_those_begun(
        &self,
        names: &BuilderNames,
        number: usize,
        builders: &mut Builders,
        watch: &Watch<'_>,
    ) -> Result<Result<(), Refusal>, TrapKind> {
        let Facts { body, flow, .. } = self.facts;
        let Some(Some(live)) = &self.live_refs else { return Ok(Err(Refusal::FunctionSize)) };
        let Builders { uses: all, names: named, insts, .. } = builders;
        let begun = || all.iter().filter(|(_, uses)| !uses.begun.is_empty() && uses.of_reals);
        // Those of one register go by it, if none of them has another one: there is one of them at a time.
        let has_several = |uses: &Uses| uses.registers.len() > 1;
        for (&group, uses) in begun().filter(|(_, uses)| !has_several(uses)) {
            named.insert(group, uses.first_register());
        }
        for (&group, uses) in begun().filter(|(_, uses)| has_several(uses)) {
            let is_free = |register: &&u16| !named.values().any(|name| name == *register);
            let free = uses.registers.iter().find(is_free).copied();
            named.insert(group, free.unwrap_or(uses.first_register()));
        }
        for (group, uses) in begun() {
            if let Some(inst) = uses.changed
                && !self.is_finished_always(number, insts, *group, watch)?
            {
                return Ok(Err(Refusal::ChangedUnfinished { inst }));
            }
            let name = named[group];
            let same: BTreeSet<GroupId> =
                named.iter().filter(|&(_, other)| *other == name).map(|(&group, _)| group).collect();
            let is_simple = same.iter().all(|group| !has_several(&all[group]));
            if !is_simple && !names.are_one(&same, &uses.begun, (body, flow, live), watch)? {
                let inst = uses.moved.unwrap_or(uses.begun[0]);
                return Ok(Err(Refusal::BuilderUnknown { inst }));
            }
        }
        Ok(Ok(()))
    }

    /// Whether an array comes of each builder of a group, wherever an element of it is read or replaced: its elements
    /// have slots from then on, which the sweep knows when it comes there. Traps don't count.
    fn is_finished_always(
        &self,
        number: usize,
        insts: &BTreeMap<u32, GroupId>,
        group: GroupId,
        watch: &Watch<'_>,
    ) -> Result<bool, TrapKind> {
        let Facts { body, flow, .. } = self.facts;
        let found = &self.nest[number];
        // Back through a block from what is so at its end. Says whether it is so at its start, and wherever one has to
        // be finished.
        let back = |own: usize, at_end: bool| {
            let block = flow.blocks()[found.blocks[own]];
            let mut of_group = insts.range(block.start..block.end).rev().filter(|&(_, &known)| known == group);
            of_group.try_fold(at_end, |later, (&at, _)| match body.code[at as usize].op {
                Op::Finish => Ok(true),
                Op::Build => Ok(false),
                Op::Get | Op::Put if !later => Err(()),
                _ => Ok(later),
            })
        };
        let mut at_start = vec![true; found.blocks.len()];
        let at_end = |own: usize, at_start: &[bool]| {
            flow.successors(found.blocks[own]).iter().all(|&to| match found.blocks.binary_search(&(to as usize)) {
                Ok(to) => at_start[to],
                Err(_) => self.only_traps(to as usize),
            })
        };
        loop {
            let mut changed = false;
            for own in (0..found.blocks.len()).rev() {
                watch.tick(4 + flow.successors(found.blocks[own]).len())?;
                let is_finished = back(own, at_end(own, &at_start)) == Ok(true);
                changed |= std::mem::replace(&mut at_start[own], is_finished) != is_finished;
            }
            if !changed {
                break;
            }
        }
        Ok((0..found.blocks.len()).all(|own| back(own, at_end(own, &at_start)).is_ok()))
    }
}
