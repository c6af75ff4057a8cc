//! From the adjoints of a region's blocks to the code of the sweep.

use super::plan::{BlockPlan, Counted, RegionPlan};
use super::{
    BlockAdjoint, BuilderAdjoint, ChangedArray, Edge, ElementAdjoint, Guard, PushedTo, PutAdjoint, RegionCode,
    RoundsLeft, WayBack,
};
use crate::bytecode::isa::{Bank, Reg};
use crate::code::{Inst, IntReg, RealReg};
use crate::derivation::assembler::Assembler;
use crate::derivation::graph::NodeId;
use crate::derivation::plan::Plan;
use crate::preparation::region_detection::Region;
use crate::preparation::stretch::{BuilderStep, Place, Stretch};
use crate::records::Numbers;
use std::collections::{BTreeMap, BTreeSet};

/// The registers of the sweep's frame that last from block to block.
pub(super) struct Homes {
    /// Adjoints of real registers.
    adjoints: BTreeMap<u16, u16>,
    reals: BTreeMap<u16, u16>,
    ints: BTreeMap<u16, u16>,
    /// What is known of builders whose elements have slots.
    builders: BTreeMap<u16, PushedTo>,
}

impl Homes {
    /// `left` is what is loaded where loops were left.
    pub(super) fn new(adjoints: &BTreeSet<u16>, left: &[BTreeSet<Reg>], plan: &RegionPlan) -> Homes {
        let of = |bank: Bank| left.iter().flatten().filter(move |reg| reg.bank == bank).map(|reg| reg.index);
        let numbered = |registers: BTreeSet<u16>, from: usize| -> BTreeMap<u16, u16> {
            registers.into_iter().enumerate().map(|(n, reg)| (reg, (from + n) as u16)).collect()
        };
        let adjoints = numbered(adjoints.clone(), 0);
        let reals = numbered(of(Bank::Real).collect(), adjoints.len());
        let ints = numbered(of(Bank::Int).collect(), 0);
        let outer = plan.site.push.filter(|push| push.mask != 0).map(|push| push.builder);
        let place = |n: usize| PushedTo { first: (ints.len() + 2 * n) as u16, left: (ints.len() + 2 * n) as u16 + 1 };
        let all = plan.made.iter().copied().chain(outer).enumerate();
        let builders = all.map(|(n, builder)| (builder, place(n))).collect();
        Homes { adjoints, reals, ints, builders }
    }
}

/// Writes the code. The slots of the outputs are those of the registers in `outputs`. `None` if there are too many
/// registers.
pub(super) fn write(
    region: &Region,
    plan: &RegionPlan,
    blocks: &[BlockPlan],
    homes: &Homes,
    outputs: &[u16],
) -> Option<RegionCode> {
    let lasting_reals = homes.adjoints.len() + homes.reals.len();
    let lasting_ints = homes.ints.len() + 2 * homes.builders.len();
    let (mut reals, mut ints) = (lasting_reals, lasting_ints);
    let mut written = Vec::with_capacity(blocks.len());
    for (number, block) in blocks.iter().enumerate().filter(|&(number, _)| region.known_as(number) == number) {
        let mut writer =
            BlockWriter { region, homes, block, assembler: Assembler::new(block.graph(), lasting_reals, lasting_ints) };
        let mut adjoint = writer.write(number, plan);
        reals = reals.max(writer.assembler.reals);
        ints = ints.max(writer.assembler.ints);
        if let Some(found) = plan.behind.get(&number) {
            let (way_back, frame) = way_back(region, plan, homes, found, lasting_ints);
            ints = ints.max(frame);
            adjoint.way_back = Some(way_back);
        }
        written.push(adjoint);
    }
    if reals.max(ints) > usize::from(u16::MAX) {
        return None;
    }
    let home = |reg: &u16| homes.adjoints[reg];
    let layout = plan.site.layout;
    let changed = region.arrays.changed.values().filter(|changed| changed.is_put).map(|changed| {
        let ChangedArray { before, first, len } = changed.registers;
        let [before, first, len] = [before, first, len].map(|register| homes.ints[&register]);
        ChangedArray { before, first, len }
    });
    let exits = region.exits.iter().map(|&(from, _)| edge(region, plan, homes, Some(from), None)).collect();
    Some(RegionCode {
        reals,
        ints,
        cleared: homes.adjoints.len(),
        lasting_reals,
        lasting_ints,
        blocks: written.into(),
        exits,
        outputs: outputs.iter().map(home).collect(),
        contributions: plan.site.inputs.iter().map(home).collect(),
        pushed: plan.site.push.and_then(|push| homes.builders.get(&push.builder).copied()),
        made: plan.made.iter().map(|builder| homes.builders[builder]).collect(),
        changed: changed.collect(),
        layout,
    })
}

/// The edge that leads to a block, or out of the region, from a block, or into the region.
fn edge(region: &Region, plan: &RegionPlan, homes: &Homes, from: Option<usize>, to: Option<usize>) -> Edge {
    let left = from.map_or_else(Vec::new, |from| region.loops_left(from, to));
    let lists = |bank: usize| left.iter().flat_map(move |&number| &plan.left[number][bank]);
    let leaves = from.is_some_and(|from| left.iter().any(|&number| region.loops[number].head == from));
    Edge {
        leaves,
        from: from.map(|from| (0..from).filter(|&block| region.known_as(block) == block).count() as u16),
        reals: lists(0).map(|reg| homes.reals[reg]).collect(),
        ints: lists(1).map(|reg| homes.ints[reg]).collect(),
    }
}

/// How the sweep finds the way back from behind a loop, and how many integer registers its frame has for that.
fn way_back(
    region: &Region,
    plan: &RegionPlan,
    homes: &Homes,
    counted: &Counted,
    lasting_ints: usize,
) -> (WayBack, usize) {
    let Counted { number, found, computed } = counted;
    let stretch = &region.blocks[found.entry].stretch;
    let rounds = plan.counters[*number].register;
    let results: Vec<(u16, NodeId)> = computed.iter().copied().chain([(rounds, found.bound)]).collect();
    let mut assembler = Assembler::new(&stretch.graph, 0, lasting_ints);
    let mut needed = vec![false; stretch.graph.len()];
    results.iter().for_each(|&(_, node)| needed[node.index()] = true);
    for (id, node) in stretch.graph.iter().rev() {
        if !needed[id.index()] {
            continue;
        }
        stretch.graph.args(id).for_each(|arg| needed[arg.index()] = true);
        if let Some(reg) = stretch.input_register(node) {
            assembler.place_at(id, homes.ints[&reg.index]);
        }
    }
    let mut code = Vec::new();
    stretch.graph.iter().filter(|(id, _)| needed[id.index()]).for_each(|(id, _)| assembler.compute(id, &mut code));
    for (register, node) in results {
        let (dst, src) = (IntReg(homes.ints[&register]), IntReg(assembler.register(node)));
        code.push(Inst::IMov { dst, src });
    }
    (WayBack { code, rounds: homes.ints[&rounds], edge: found.edge as u8 }, assembler.ints)
}

/// The registers of the arrays that a block has looked at, by those of their cells.
type Objects = BTreeMap<u16, u16>;

struct BlockWriter<'a> {
    region: &'a Region,
    homes: &'a Homes,
    block: &'a BlockPlan,
    assembler: Assembler<'a>,
}

impl BlockWriter<'_> {
    fn write(&mut self, number: usize, plan: &RegionPlan) -> BlockAdjoint {
        let block = self.block;
        let source = &self.region.blocks[number];
        for &(reg, seed) in &block.seeds {
            self.assembler.place_at(seed, self.homes.adjoints[&reg]);
        }
        // What lasts.
        for (id, node) in block.graph().iter().take(block.primal_len) {
            let Some(reg) = source.stretch.input_register(node) else { continue };
            let told = if reg.bank == Bank::Real { &self.homes.reals } else { &self.homes.ints };
            let made = self.region.arrays.made_at(reg).and_then(|builder| self.homes.builders.get(&builder));
            let home = told.get(&reg.index).copied().or(made.map(|made| made.first));
            let Plan { saved_reals, saved_ints, loaded, needed } = &block.plan;
            let is_elsewhere = [saved_reals, saved_ints, loaded].iter().any(|list| list.contains(&id));
            if let Some(home) = home.filter(|_| !is_elsewhere && needed[id.index()]) {
                self.assembler.place_at(id, home);
            }
        }
        let saved_at = [self.assembler.reals as u16, self.assembler.ints as u16];
        let saved = Numbers { reals: block.plan.saved_reals.len(), ints: block.plan.saved_ints.len() };
        block.plan.saved_reals.iter().chain(&block.plan.saved_ints).for_each(|&id| _ = self.assembler.place(id));

        let mut code = Vec::new();
        let mut objects = Objects::new();
        self.steps_back(&source.stretch, &mut objects, &mut code);
        let Stretch { builder_steps, pushes, .. } = &source.stretch;
        let has_slots = |builder: u16| plan.has_slots(self.region, builder);
        let extensions = builder_steps.iter().filter_map(BuilderStep::extension);
        let copied = extensions.filter(|extension| has_slots(extension.builder));
        let put = pushes.iter().rev().filter(|push| has_slots(push.builder)).filter_map(|push| push.place);
        let told = copied.flat_map(|copied| [copied.base, copied.from, copied.count]);
        let told: Vec<NodeId> = told.chain(put.map(|place| place.index)).collect();
        for node in told {
            self.compute_all(&source.stretch, node, &mut objects, &mut code);
        }
        let before_steps = code.len();
        let (builders, puts) = self.builders(&source.stretch, plan);
        let puts = puts.iter().map(|&(place, adjoint)| PutAdjoint {
            base: self.assembler.register(place.base),
            index: self.assembler.register(place.index),
            adjoint,
        });
        let puts = puts.collect();
        for (id, _) in block.graph().iter().filter(|(id, _)| block.plan.needed[id.index()]) {
            self.compute(&source.stretch, id, &mut objects, &mut code);
        }
        let elements = block.elements.iter().map(|element| ElementAdjoint {
            base: self.assembler.register(element.base),
            index: self.assembler.register(element.index),
            contribution: self.assembler.register(element.contribution),
        });
        let elements = elements.collect();
        let moves = self.moves();
        let edges = |from: &[usize]| -> Box<[Edge]> {
            from.iter().map(|&from| edge(self.region, plan, self.homes, Some(from), Some(number))).collect()
        };
        let (mut before, mut again) = (edges(&source.before), Box::default());
        let mut rounds = None;
        if let Some(started) = self.region.loop_at(number) {
            again = edges(&self.region.loops[started].latches);
            let counter = plan.counters[started];
            rounds = Some(RoundsLeft { register: self.homes.ints[&counter.register], stepped: counter.is_stepped });
        }
        if number == self.region.head() {
            before = [edge(self.region, plan, self.homes, None, Some(number))].into();
        }
        let guard = self.guard(number, saved);
        let way_back = None;
        BlockAdjoint {
            saved,
            saved_at,
            code,
            before_steps,
            builders,
            puts,
            elements,
            moves,
            rounds,
            before,
            again,
            guard,
            way_back,
        }
    }

    /// Computes a node or loads it again, unless that was done.
    fn compute(&mut self, stretch: &Stretch, id: NodeId, objects: &mut Objects, code: &mut Vec<Inst>) {
        if !self.block.plan.loaded.contains(&id) {
            self.assembler.compute(id, code);
        } else if !self.assembler.is_placed(id) {
            self.load(stretch, id, objects, code);
        }
    }

    /// Loads an element again, or takes an integer that was computed again.
    fn load(&mut self, stretch: &Stretch, id: NodeId, objects: &mut Objects, code: &mut Vec<Inst>) {
        let node = self.block.graph().node(id);
        if let Some(&same) = stretch.same(node) {
            self.assembler.place_at(id, self.assembler.register(same));
            return;
        }
        let told = stretch.load(node).expect("it can be loaded");
        let [cell, index] = told.map(|node| self.assembler.register(node));
        let object = *objects.entry(cell).or_insert_with(|| {
            let object = self.assembler.fresh(Bank::Int);
            code.push(Inst::KeptObject { dst: IntReg(object), cell: IntReg(cell) });
            object
        });
        code.push(self.assembler.load(id, (object, index)));
    }

    /// What was done with builders whose elements have slots, from the last step to the first; and what was put into
    /// those that are changed, with the registers for the adjoints.
    fn builders(&mut self, stretch: &Stretch, plan: &RegionPlan) -> (Box<[BuilderAdjoint]>, Vec<(Place, u16)>) {
        let has_slots = |builder: u16| plan.has_slots(self.region, builder);
        let (mut steps, mut puts) = (Vec::new(), Vec::new());
        let mut pushes = stretch.pushes.iter().zip(&self.block.pushed).rev();
        for step in stretch.builder_steps.iter().rev() {
            let of = match step {
                BuilderStep::Begin(builder) => *builder,
                BuilderStep::Extend(extension) => extension.builder,
                BuilderStep::Finish(finish) => finish.builder,
                BuilderStep::Push => {
                    let (push, seed) = pushes.next().expect("each of these steps is a push");
                    if !has_slots(push.builder) {
                        continue;
                    }
                    let adjoint = match seed {
                        Some(seed) => self.assembler.place(*seed),
                        None => self.assembler.fresh(Bank::Real),
                    };
                    if let Some(place) = push.place {
                        puts.push((place, adjoint));
                        continue;
                    }
                    let builder = self.homes.builders[&push.builder];
                    match steps.last_mut() {
                        Some(BuilderAdjoint::Push { builder: same, adjoints }) if *same == builder => {
                            adjoints.push(adjoint)
                        }
                        _ => steps.push(BuilderAdjoint::Push { builder, adjoints: vec![adjoint] }),
                    }
                    continue;
                }
            };
            let Some(&builder) = self.homes.builders.get(&of) else { continue };
            steps.push(match step {
                BuilderStep::Finish(finish) => {
                    let [first, len] = [finish.first, finish.len].map(|node| self.assembler.register(node));
                    BuilderAdjoint::Finish { builder, first, len, copied: plan.kept.contains(&finish.inst) }
                }
                BuilderStep::Extend(extension) => {
                    let nodes = [extension.base, extension.from, extension.count];
                    let [base, from, count] = nodes.map(|node| self.assembler.register(node));
                    BuilderAdjoint::Extend { builder, base, from, count }
                }
                _ => BuilderAdjoint::Begin(builder),
            });
        }
        (steps.into(), puts)
    }

    /// When the rounds of the loop that a block is are skipped.
    fn guard(&self, number: usize, saved: Numbers) -> Option<Guard> {
        let found = &self.region.loops[self.region.loop_at(number)?];
        let alone = found.latches == [number] && found.blocks.iter().filter(|inside| **inside).count() == 1;
        // What is done with builders is undone even if nothing flows back.
        let builds = !self.region.blocks[number].stretch.builder_steps.is_empty();
        if !alone || builds || number == self.region.head() {
            return None;
        }
        // Those that contributions are made of, and those that a round would change.
        let known = self.block.seeds.iter().chain(&self.block.contributions).map(|(reg, _)| reg);
        let adjoints: BTreeSet<u16> = known.chain(&self.block.cleared).map(|reg| self.homes.adjoints[reg]).collect();
        let guard = Guard { adjoints: adjoints.into_iter().collect(), bytes: saved.bytes() };
        (!guard.adjoints.is_empty()).then_some(guard)
    }

    /// Steps integers back that the block steps. What they are stepped by is computed before; it is unchanged.
    fn steps_back(&mut self, stretch: &Stretch, objects: &mut Objects, code: &mut Vec<Inst>) {
        for step in &self.block.steps {
            let register = self.homes.ints[&step.reg];
            for &(op, by) in &step.steps {
                self.compute_all(stretch, by, objects, code);
                let by = self.assembler.register(by);
                code.push(Inst::scalar(op, register, &[register, by]).expect("a step back is a sum"));
            }
        }
    }

    /// Computes an integer and what it needs.
    fn compute_all(&mut self, stretch: &Stretch, id: NodeId, objects: &mut Objects, code: &mut Vec<Inst>) {
        let graph = self.block.graph();
        let mut wanted = BTreeSet::from([id]);
        for (id, node) in graph.iter().take(id.index() + 1).rev() {
            if wanted.contains(&id) && !self.assembler.is_placed(id) {
                wanted.extend(graph.args(id));
                if self.block.plan.loaded.contains(&id) {
                    wanted.extend(stretch.load(node).into_iter().flatten());
                    wanted.extend(stretch.same(node));
                }
            }
        }
        wanted.into_iter().for_each(|id| self.compute(stretch, id, objects, code));
    }

    /// The adjoints at the block's end become those at its start, all at once.
    fn moves(&mut self) -> Vec<Inst> {
        let copy = |to: u16, from: u16| Inst::PrimalMov { dst: RealReg(to), src: RealReg(from) };
        let lasting = self.homes.adjoints.len() as u16;
        let (mut moves, mut copies) = (Vec::new(), Vec::new());
        for &(reg, contribution) in &self.block.contributions {
            let (to, from) = (self.homes.adjoints[&reg], self.assembler.register(contribution));
            if from == to {
                continue;
            }
            if from < lasting {
                // Another adjoint, which may be overwritten first.
                let aside = self.assembler.fresh(Bank::Real);
                moves.push(copy(aside, from));
                copies.push(copy(to, aside));
            } else {
                copies.push(copy(to, from));
            }
        }
        moves.extend(copies);
        let zero = |reg: &u16| Inst::PrimalConst { dst: RealReg(self.homes.adjoints[reg]), value: 0 };
        moves.extend(self.block.cleared.iter().map(zero));
        moves
    }
}
