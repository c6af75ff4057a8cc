//! Writing a region into a recording stream: its blocks with what they save, and for its edges what is done there.

use super::Emitter;
use crate::bytecode::isa::{Bank, Op};
use crate::code::{Inst, IntReg, Position, RealReg, RefReg, Site, SwitchSite};
use crate::preparation::flow::{Block, leads_back};
use crate::preparation::region_detection::Region;
use crate::preparation::stretch::{FieldRead, loads_reference};
use crate::records::region::{ChangedBuilder, RegionPlan, RegionSite, SaveSite};
use std::collections::BTreeMap;

/// A region with what recording it takes.
#[derive(Debug)]
pub(crate) struct PlannedRegion {
    pub(crate) region: Region,
    pub(crate) plan: RegionPlan,
}

impl PlannedRegion {
    /// The block that it begins with, by its number in the flow graph.
    pub(in crate::preparation) fn head(&self) -> usize {
        self.region.blocks[self.region.head()].parts[0]
    }

    /// All basic blocks, by their numbers in the flow graph.
    pub(in crate::preparation) fn blocks(&self) -> impl Iterator<Item = usize> + '_ {
        self.region.blocks.iter().flat_map(|block| block.parts.iter().copied())
    }
}

/// Where an edge of a region leads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Target {
    /// To a block of the region.
    Block(usize),
    /// Out of the region, to an instruction of the bytecode.
    Out(u32),
    /// To one from which on nothing happens but a trap.
    Trap(u32),
}

/// What is done where control takes an edge.
struct EdgeCode {
    save: SaveSite,
    /// Registers that count the rounds of a loop that begins here.
    begun: Option<u16>,
}

/// A region that is written.
struct Writing {
    region: Region,
    plan: RegionPlan,
    /// The starts and ends in the bytecode of the basic blocks that each block is.
    code: Vec<Vec<(u32, u32)>>,
    site: Site<RegionSite>,
    /// Whether it writes records.
    records: bool,
    /// Where each block stands in the stream.
    positions: Vec<Position>,
    /// Where instructions stand whose targets are numbers of blocks or of stubs as yet.
    open: Vec<Position>,
    /// Where the stubs stand: code of edges that leave a block by a branch, and of what it goes on with.
    stubs: Vec<Position>,
}

impl Writing {
    fn edge(&self, from: usize, to: Target) -> EdgeCode {
        let Writing { region, plan, .. } = self;
        let inside = match to {
            Target::Block(to) => Some(to),
            Target::Out(_) => None,
            Target::Trap(_) => return EdgeCode { save: SaveSite::default(), begun: None },
        };
        // Of what happens inside of an idle loop the sweep knows nothing.
        let from = region.known_as(from);
        let inside = inside.map(|to| region.known_as(to));
        let is_idle = inside == Some(from) && region.blocks[from].idle.is_some();
        if !self.records || is_idle {
            return EdgeCode { save: SaveSite::default(), begun: None };
        }
        let left = region.loops_left(from, inside);
        let lists = |bank: usize| left.iter().flat_map(move |&number| plan.left[number][bank].iter().copied());
        let begun = inside.and_then(|to| region.loop_at(to)).filter(|&number| !region.loops[number].blocks[from]);
        let number = |at: Option<usize>, len: usize| {
            let at = at.expect("it is one of the edges");
            (len > 1).then_some(at as u8)
        };
        let edge = match to {
            Target::Out(start) => {
                number(region.exits.iter().position(|&exit| exit == (from, start)), region.exits.len())
            }
            _ => {
                let to = inside.expect("it is a block's");
                let again = region.loop_at(to).filter(|&number| region.loops[number].blocks[from]);
                let before = again.map_or(&region.blocks[to].before, |number| &region.loops[number].latches);
                let told = !plan.behind.contains_key(&to);
                number(before.iter().position(|&known| known == from), before.len()).filter(|_| told)
            }
        };
        let cost = |&number: &usize| {
            let (round, once) = plan.costs[number];
            (plan.counters[number].register, round, once)
        };
        let save = SaveSite {
            reals: lists(0).collect(),
            ints: lists(1).collect(),
            edge,
            costs: left.iter().map(cost).collect(),
        };
        EdgeCode { save, begun: begun.and_then(|number| counted(plan, number)) }
    }

    /// What a target is called until all positions are known: the number of a block, or behind those of a stub.
    fn name(&self, block: usize) -> Position {
        Position(block as u32)
    }

    fn resolve(&self, name: Position) -> Position {
        let blocks = self.positions.len();
        if name.index() < blocks { self.positions[name.index()] } else { self.stubs[name.index() - blocks] }
    }
}

impl Emitter<'_> {
    /// Emits a region. Nothing but its head is entered from elsewhere.
    pub(super) fn region(&mut self, found: PlannedRegion, blocks: &[Block]) {
        let PlannedRegion { region, mut plan } = found;
        let part = |&part: &usize| (blocks[part].start, blocks[part].end);
        let code: Vec<Vec<(u32, u32)>> =
            region.blocks.iter().map(|block| block.parts.iter().map(part).collect()).collect();
        let [free_real, free_int] = plan.free;
        self.stream.reals = self.stream.reals.max(usize::from(free_real));
        self.stream.ints = self.stream.ints.max(usize::from(free_int));
        let records = plan.code.is_some();
        if let Some(code) = plan.code.take() {
            plan.site.id = self.regions.len() as u32;
            self.regions.push(code);
        }
        let head = region.head();
        let start = code[head][0].0;
        let site = self.stream.regions.next();
        let begins = self.here();
        self.position[start as usize] = self.here();
        for changed in &plan.site.changed {
            let (before, builder) = (IntReg(changed.registers.before), RefReg(changed.builder));
            self.push(start, Inst::BuilderPack { before, builder });
        }
        self.push(start, Inst::RegionBegin { site });
        if let Some(push) = plan.site.push {
            self.push(start, Inst::Len { dst: IntReg(push.len_before), array: RefReg(push.builder) });
        }
        if records {
            for &ChangedBuilder { builder, registers, is_put } in region.arrays.changed.values() {
                let [before, first, len] = [registers.before, registers.first, registers.len].map(IntReg);
                let slots = match is_put {
                    true => Inst::BuilderSlots { first, len, builder: RefReg(builder) },
                    false => Inst::IMov { dst: first, src: before },
                };
                self.push(start, slots);
                self.push(start, Inst::IMov { dst: IntReg(region.arrays.bases[&builder]), src: first });
            }
            let changed = &region.arrays.changed;
            let reached = region.arrays.bases.iter();
            let is_builder = |array: &u16| changed.contains_key(array) || region.arrays.made.contains_key(array);
            let reached = reached.filter(|(array, _)| plan.reached.contains(array) && !is_builder(array));
            for (&array, &base) in reached.filter(|(array, _)| region.refs_before.contains(array)) {
                self.push(start, Inst::ArrayBase { dst: IntReg(base), array: RefReg(array) });
            }
            for (&array, &cell) in plan.cells.iter().filter(|(array, _)| region.refs_before.contains(array)) {
                self.push(start, Inst::ArrayCell { dst: IntReg(cell), array: RefReg(array) });
            }
            if let Some(rounds) = counted(&plan, 0) {
                self.push(start, Inst::IConst { dst: IntReg(rounds), value: 0 });
            }
        }
        let positions = vec![Position::default(); region.blocks.len()];
        let mut writing = Writing { region, plan, code, site, records, positions, open: Vec::new(), stubs: Vec::new() };
        if head != 0 {
            let target = writing.name(head);
            writing.open.push(self.here());
            self.push(start, Inst::Jump { target, cost: 0 });
        }
        for block in 0..writing.code.len() {
            self.region_block(&mut writing, block);
        }
        for &at in &writing.open {
            let inst = &mut self.stream.code[at.index()];
            inst.for_each_target_mut(|target| *target = writing.resolve(*target));
            match *inst {
                Inst::Jump { target, cost } | Inst::CheckedJump { target, cost } if target <= at => {
                    *inst = Inst::BackJump { target, cost };
                }
                Inst::Branch { cond, then, other, cost } | Inst::CheckedBranch { cond, then, other, cost }
                    if then.min(other) <= at =>
                {
                    *inst = Inst::BackBranch { cond, then, other, cost };
                }
                Inst::Switch { site, .. } => {
                    let site = &mut self.stream.switches[site];
                    site.targets.iter_mut().for_each(|target| *target = writing.resolve(*target));
                    site.default = writing.resolve(site.default);
                }
                _ => {}
            }
        }
        writing.plan.site.code = begins..self.here();
        let pushed = self.stream.regions.push(writing.plan.site);
        debug_assert_eq!(pushed, site);
    }

    fn region_block(&mut self, writing: &mut Writing, block: usize) {
        let parts = writing.code[block].clone();
        let start = parts[0].0;
        self.cost = 0;
        writing.positions[block] = self.here();
        let started = writing.region.loop_at(block).filter(|_| writing.records);
        if let Some(rounds) = started.and_then(|number| counted(&writing.plan, number)).map(IntReg) {
            self.push(start, Inst::RegionRound { dst: rounds, before: rounds });
        }
        let mut before = 0;
        for (n, &(start, end)) in parts.iter().enumerate() {
            self.region_code(writing, block, (start, end), before);
            before += end - start;
            if let Some(&(next, _)) = parts.get(n + 1) {
                self.go_on(writing, end - 1, next);
            }
        }
        let end = parts[parts.len() - 1].1;
        let last = self.body.code[end as usize - 1];
        let save = writing.plan.saves[block].clone();
        match last.op {
            Op::Branch | Op::Switch => {
                self.region_save(save, end - 1);
                self.ways_on(writing, block);
            }
            Op::Jump => {
                self.cost += 1;
                self.take_edge(writing, (block, save), last.low(), end - 1);
            }
            _ => self.take_edge(writing, (block, save), end, end - 1),
        }
    }

    /// Writes the end of a basic block that goes on with another one of its block, or traps.
    fn go_on(&mut self, writing: &mut Writing, at: u32, next: u32) {
        let inst = self.body.code[at as usize];
        self.cost += 1;
        if inst.op == Op::Jump {
            return;
        }
        let stub = |n: usize| Position((writing.positions.len() + writing.stubs.len() + n) as u32);
        let [then, other] = [inst.low(), inst.high()].map(|target| stub(usize::from(target == next)));
        let (cond, cost) = (IntReg(inst.a), std::mem::take(&mut self.cost));
        writing.open.push(self.here());
        let branch = match leads_back(self.body, at) {
            true => Inst::CheckedBranch { cond, then, other, cost },
            false => Inst::Branch { cond, then, other, cost },
        };
        self.push(at, branch);
        // Both ways may lead on.
        writing.stubs.push(self.here());
        if let Some(trap) = [inst.low(), inst.high()].into_iter().find(|&target| target != next) {
            self.jump(at, trap, 0);
        }
        writing.stubs.push(self.here());
    }

    /// Writes the code of a basic block, but for its end. So many instructions of its block stand before it.
    fn region_code(&mut self, writing: &Writing, block: usize, (start, end): (u32, u32), before: u32) {
        let last = self.body.code[end as usize - 1];
        let code_end = if last.op.is_terminator() { end - 1 } else { end };
        for at in start..code_end {
            for copy in writing.plan.copies[block].iter().filter(|copy| copy.before == before + at - start) {
                let (dst, src) = (copy.to, copy.from);
                let inst = match copy.bank {
                    Bank::Real => Inst::PrimalMov { dst: RealReg(dst), src: RealReg(src) },
                    _ => Inst::IMov { dst: IntReg(dst), src: IntReg(src) },
                };
                self.push(at, inst);
            }
            let inst = &self.body.code[at as usize];
            let base = writing.region.arrays.bases.get(&inst.a).filter(|_| writing.records).map(|&base| IntReg(base));
            let name = writing.region.arrays.names.get(&at);
            if inst.op == Op::Finish
                && let Some(name) = name
            {
                let made = &writing.region.arrays.made[name];
                let (dst, builder, active) = (RefReg(inst.a), RefReg(inst.b), writing.plan.made.contains(name));
                let (first, len) = (IntReg(made.first), IntReg(made.len));
                self.cost += 1;
                self.push(at, Inst::RegionFinish { dst, builder, first, len, active });
                if let Some(dst) = base {
                    self.push(at, Inst::IMov { dst, src: first });
                }
                if let Some(&cell) = writing.plan.cells.get(&inst.a) {
                    let (dst, array) = (IntReg(cell), dst);
                    let inst = match writing.plan.kept.contains(&at) {
                        false => Inst::IConst { dst, value: 0 },
                        true if active => Inst::ArrayCopy { dst, array },
                        // What has no slots the sweep doesn't come by.
                        true => Inst::ArrayCell { dst, array },
                    };
                    self.push(at, inst);
                }
                continue;
            }
            self.lower(at, false);
            if let Some(&count) = writing.region.arrays.counts.get(&at).filter(|_| writing.records) {
                let [_, _, from, to] = inst.narrow().map(IntReg);
                self.push(at, Inst::ISub { dst: IntReg(count), a: to, b: from });
            }
            let is_name = name.is_some();
            if let Some(&FieldRead { object, slot }) = writing.region.arrays.fields.get(&at)
                && writing.records
                && writing.plan.reached.contains(&object)
            {
                let word = self.word_of_field(at);
                self.push(at, Inst::FieldSlot { dst: IntReg(slot), object: RefReg(object), word });
            }
            if loads_reference(inst.op) && !is_name {
                let array = RefReg(inst.a);
                if let Some(dst) = base.filter(|_| writing.plan.reached.contains(&inst.a)) {
                    self.push(at, Inst::ArrayBase { dst, array });
                }
                if let Some(&cell) = writing.plan.cells.get(&inst.a) {
                    self.push(at, Inst::ArrayCell { dst: IntReg(cell), array });
                }
            }
        }
    }

    fn region_save(&mut self, save: SaveSite, origin: u32) {
        if !save.is_empty() {
            let site = self.stream.saves.push(save);
            self.push(origin, Inst::RegionSave { site });
        }
    }

    /// Writes a branch or a switch, and behind it what is done where its edges are taken.
    fn ways_on(&mut self, writing: &mut Writing, block: usize) {
        let at = writing.code[block].last().expect("it has a part").1 - 1;
        let inst = self.body.code[at as usize];
        self.cost += 1;
        // Targets as bytecode knows them, and what they are called here.
        let mut names: BTreeMap<u32, Position> = BTreeMap::new();
        let mut stubs = Vec::new();
        let name = |writing: &Writing, stubs: &mut Vec<u32>, target: u32| {
            let to = target_of(writing, target);
            let edge = writing.edge(block, to);
            match to {
                Target::Block(to) if edge.save.is_empty() && edge.begun.is_none() => writing.name(to),
                _ => {
                    stubs.push(target);
                    Position((writing.positions.len() + writing.stubs.len() + stubs.len() - 1) as u32)
                }
            }
        };
        let mut of =
            |writing: &Writing, target: u32| *names.entry(target).or_insert_with(|| name(writing, &mut stubs, target));
        writing.open.push(self.here());
        let cost = self.cost;
        match inst.op {
            Op::Branch => {
                let (then, other) = (of(writing, inst.low()), of(writing, inst.high()));
                let cond = IntReg(inst.a);
                let inst = match leads_back(self.body, at) {
                    true => Inst::CheckedBranch { cond, then, other, cost },
                    false => Inst::Branch { cond, then, other, cost },
                };
                self.push(at, inst);
            }
            _ => {
                let first = inst.low() as usize;
                let targets = &self.body.targets[first..first + usize::from(inst.b)];
                let targets = targets.iter().map(|&target| of(writing, target)).collect();
                let default = of(writing, inst.high());
                let site = self.stream.switches.push(SwitchSite { targets, default, cost });
                self.push(at, Inst::Switch { index: IntReg(inst.a), site });
            }
        }
        self.cost = 0;
        for target in stubs {
            writing.stubs.push(self.here());
            self.take_edge(writing, (block, SaveSite::default()), target, at);
        }
    }

    /// Writes what is done where an edge of a block is taken, and a jump along it. What the block itself saves may be
    /// left to do: it is one place if the edge saves its number only.
    fn take_edge(&mut self, writing: &mut Writing, (block, before): (usize, SaveSite), target: u32, origin: u32) {
        let to = target_of(writing, target);
        let EdgeCode { save, begun } = writing.edge(block, to);
        if save.numbers().bytes() == 0 {
            let costs = [before.costs, save.costs].concat().into();
            self.region_save(SaveSite { edge: save.edge, costs, ..before }, origin);
        } else {
            self.region_save(before, origin);
            self.region_save(save, origin);
        }
        if let Some(rounds) = begun {
            self.push(origin, Inst::IConst { dst: IntReg(rounds), value: 0 });
        }
        let cost = std::mem::take(&mut self.cost);
        let goes_back = self.body.code[origin as usize].op == Op::Jump && leads_back(self.body, origin);
        match to {
            Target::Block(to) => {
                let target = writing.name(to);
                writing.open.push(self.here());
                let inst = if goes_back { Inst::CheckedJump { target, cost } } else { Inst::Jump { target, cost } };
                self.push(origin, inst);
            }
            Target::Out(target) => {
                self.push(origin, Inst::RegionEnd { site: writing.site });
                self.jump(origin, target, cost);
            }
            Target::Trap(target) => self.jump(origin, target, cost),
        }
    }
}

/// The register in which the rounds of a loop have to be counted, if no index of it does that.
fn counted(plan: &RegionPlan, number: usize) -> Option<u16> {
    Some(plan.counters[number]).filter(|counter| !counter.is_index).map(|counter| counter.register)
}

/// What the start of a block of the bytecode is for a region.
fn target_of(writing: &Writing, start: u32) -> Target {
    let block = writing.code.iter().position(|parts| parts[0].0 == start);
    let outside = if writing.region.traps.contains(&start) { Target::Trap(start) } else { Target::Out(start) };
    block.map_or(outside, Target::Block)
}
