//! From a region to its sites and its code: what each block's adjoint needs, and where the sweep has it from.

use super::code_writer::{self, Homes};
use super::counted::{CountedLoop, first_block};
use super::{ChangedBuilder, RegionCode, RegionLayout, RegionPush, RegionSite, SaveSite};
use crate::bytecode::isa::{Bank, Op, Reg};
use crate::code::Position;
use crate::derivation::adjoint::{adjoint, contributions, seeds};
use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::graph::{Graph, Node, NodeId};
use crate::derivation::piece::Piece;
use crate::derivation::plan::Plan;
use crate::preparation::refusal::Refusal;
use crate::preparation::region_detection::{Region, RegionBlock};
use crate::preparation::stretch::{
    Arrays, BuilderStep, EndRegisters, Extension, Push, RealSource, Stretch, StretchCopy,
};
use crate::records::recorded_loop::steps_back;
use crate::records::segment::OutputWord;
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::collections::{BTreeMap, BTreeSet};

/// A mask has so many bits, for inputs and objects together.
const MASK_BITS: usize = 64;

/// Everything about the recording of a region but its numbers and its place in the stream.
#[derive(Debug)]
pub(crate) struct RegionPlan {
    pub(crate) site: RegionSite,
    /// `None` if nothing that is read after the region depends on anything: it never writes a record.
    pub(crate) code: Option<RegionCode>,
    /// For each block what it saves when it ends.
    pub(crate) saves: Vec<SaveSite>,
    /// For each block what it copies before it is overwritten.
    pub(crate) copies: Vec<Vec<StretchCopy>>,
    /// For each loop what counts its rounds.
    pub(crate) counters: Vec<Counter>,
    /// For each loop, the real and integer registers that are saved where it is left.
    pub(crate) left: Vec<[Vec<u16>; 2]>,
    /// The blocks of which the trail doesn't tell which way control came to them, each with a loop that it may have
    /// come from.
    pub(crate) behind: BTreeMap<usize, Counted>,
    /// For each loop, what its sweep costs per round, and once.
    pub(crate) costs: Vec<(u32, u32)>,
    /// The reference registers whose arrays the sweep reads, with the integer registers that say where they are.
    pub(crate) cells: BTreeMap<u16, u16>,
    /// The instructions that finish an array whose cell the sweep reads.
    pub(crate) kept: BTreeSet<u32>,
    /// The reference registers to whose arrays something flows back.
    pub(crate) reached: BTreeSet<u16>,
    /// The builders that it begins whose elements have slots.
    pub(crate) made: BTreeSet<u16>,
    /// The first real and the first integer register that nothing uses.
    pub(crate) free: [u16; 2],
}

/// What counts the rounds of a loop: an integer register that holds how often control has come to its head, where the
/// loop is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    pub(crate) register: u16,
    /// Whether the loop steps it as it is, from 0 by 1, so that nothing else has to count.
    pub(crate) is_index: bool,
    /// Whether the sweep steps it back, because a block reads it.
    pub(crate) is_stepped: bool,
}

/// A loop whose rounds the sweep finds without the trail.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Its number in the region.
    pub(super) number: usize,
    pub(super) found: CountedLoop,
    /// Integer registers that it doesn't change, with the nodes of its entry that they hold.
    pub(super) computed: Vec<(u16, NodeId)>,
}

/// What loops do with integers.
struct LoopInts {
    /// For each loop, the integers that it changes once per round by an unchanged amount, and the block that does it.
    steps: Vec<BTreeMap<u16, usize>>,
    /// The loops from 0 up to a bound, by their numbers.
    counted: BTreeMap<usize, CountedLoop>,
}

/// The adjoint of a block, before it is code.
pub(super) struct BlockPlan {
    /// The adjoint; what is derived stands behind the block's own nodes.
    pub(super) derived: Piece,
    pub(super) primal_len: usize,
    /// The inputs of the adjoint that are adjoints of registers at the block's end.
    pub(super) seeds: Vec<(u16, NodeId)>,
    /// Those that are adjoints of what was pushed, in the order of the pushes; none for what depends on nothing.
    pub(super) pushed: Vec<Option<NodeId>>,
    /// What the adjoints of registers become.
    pub(super) contributions: Vec<(u16, NodeId)>,
    /// Registers whose adjoints become 0.
    pub(super) cleared: Vec<u16>,
    pub(super) elements: Vec<ElementPlan>,
    /// How integers are stepped back that the block steps.
    pub(super) steps: Vec<StepBack>,
    /// What is saved and what is computed again.
    pub(super) plan: Plan,
}

/// A contribution to an element.
pub(super) struct ElementPlan {
    /// The reference register that holds the array.
    pub(super) array: u16,
    pub(super) base: NodeId,
    pub(super) index: NodeId,
    pub(super) contribution: NodeId,
}

/// An integer register that a loop changes once per round by an unchanged amount.
#[derive(Clone)]
pub(super) struct StepBack {
    pub(super) reg: u16,
    /// Its value at the block's start.
    pub(super) start: NodeId,
    /// What leads from its value at the end back to that, in order.
    pub(super) steps: Vec<(Op, NodeId)>,
}

/// What the results of a block depend on.
struct BlockFlow {
    /// Registers with what they hold at the end, and what that depends on.
    outputs: Vec<(u16, NodeId, InputSet)>,
    /// What is pushed, and what it depends on.
    pushes: Vec<(Push, InputSet)>,
}

impl BlockFlow {
    fn new(stretch: &Stretch, useful: &dyn Fn(u16) -> bool) -> BlockFlow {
        let dependence = dependences(&stretch.graph);
        let active = |node: NodeId| -> InputSet {
            dependence[node.index()].iter().filter(|&input| !stretch.passive[input]).collect()
        };
        let written = stretch.ends.iter().filter(|(reg, _)| reg.bank == Bank::Real && useful(reg.index));
        let mut outputs: Vec<(u16, NodeId, InputSet)> =
            written.map(|(reg, &node)| (reg.index, node, active(node))).collect();
        outputs.retain(|(_, _, set)| !set.is_empty());
        let pushes: Vec<(Push, InputSet)> = stretch.pushes.iter().map(|&push| (push, active(push.node))).collect();
        // What is read and not written keeps its adjoint, to which something is added.
        let mut reached = InputSet::default();
        outputs.iter().map(|(_, _, set)| set).chain(pushes.iter().map(|(_, set)| set)).for_each(|set| {
            reached.insert_all(set);
        });
        for (id, node) in stretch.graph.iter() {
            if let Node::RealInput(n) = node
                && let RealSource::Register(reg) = stretch.real_inputs[n as usize]
                && !stretch.ends.contains_key(&Reg::real(reg))
                && reached.iter().any(|input| input == n as usize)
            {
                outputs.push((reg, id, [n as usize].into_iter().collect()));
            }
        }
        BlockFlow { outputs, pushes }
    }
}

/// What a region's real registers depend on, as masks of its inputs and objects.
struct Masks {
    inputs: Vec<u16>,
    refs: Vec<u16>,
    reals: BTreeMap<u16, u64>,
    /// What the elements of arrays depend on, and those of builders.
    objects: BTreeMap<u16, u64>,
}

impl Masks {
    /// `None` if there are too many inputs.
    fn new(
        region: &Region,
        flows: &[BlockFlow],
        adjoints: &BTreeSet<u16>,
        watch: &Watch<'_>,
    ) -> Result<Option<Masks>, TrapKind> {
        let inputs: Vec<u16> = adjoints.iter().copied().filter(|&reg| region.live_before.contains(reg)).collect();
        let of_fields = region.arrays.fields.values().map(|field| field.object);
        let reads: BTreeSet<u16> = region.arrays.bases.keys().copied().chain(of_fields).collect();
        // What elements are read from, and what that comes from.
        let mut sources = reads;
        loop {
            let more: Vec<u16> =
                region.ref_flow.iter().filter(|(to, _)| sources.contains(to)).map(|&(_, from)| from).collect();
            let len = sources.len();
            sources.extend(more);
            if sources.len() == len {
                break;
            }
        }
        let refs: Vec<u16> = region.refs_before.iter().copied().filter(|reg| sources.contains(reg)).collect();
        if inputs.len() + refs.len() > MASK_BITS {
            return Ok(None);
        }
        let mut objects: BTreeMap<u16, u64> =
            refs.iter().enumerate().map(|(n, &reg)| (reg, 1 << (inputs.len() + n))).collect();
        let mut reals: BTreeMap<u16, u64> = inputs.iter().enumerate().map(|(n, &reg)| (reg, 1 << n)).collect();
        let add = |masks: &mut BTreeMap<u16, u64>, reg: u16, more: u64| {
            let mask = masks.entry(reg).or_insert(0);
            let changed = *mask | more != *mask;
            *mask |= more;
            changed
        };
        loop {
            let mut changed = false;
            for &(to, from) in &region.ref_flow {
                let more = objects.get(&from).copied().unwrap_or(0);
                changed |= add(&mut objects, to, more);
            }
            for (block, flow) in region.blocks.iter().zip(flows) {
                let of = |reals: &BTreeMap<u16, u64>, set: &InputSet, objects: &BTreeMap<u16, u64>| {
                    let bits = set.iter().map(|input| match block.stretch.real_inputs[input] {
                        RealSource::Register(reg) => reals.get(&reg).copied().unwrap_or(0),
                        RealSource::Element { array, .. } => objects.get(&array).copied().unwrap_or(0),
                    });
                    bits.fold(0, |all, bits| all | bits)
                };
                for (reg, _, set) in &flow.outputs {
                    watch.tick(4 + 8 * set.iter().count())?;
                    let more = of(&reals, set, &objects);
                    changed |= add(&mut reals, *reg, more);
                }
                for (push, set) in &flow.pushes {
                    let more = of(&reals, set, &objects);
                    changed |= add(&mut objects, push.builder, more);
                }
            }
            if !changed {
                return Ok(Some(Masks { inputs, refs, reals, objects }));
            }
        }
    }

    /// What the elements of a builder depend on, those that are put there and those from before.
    fn pushed(&self, builder: u16) -> u64 {
        self.objects.get(&builder).copied().unwrap_or(0)
    }
}

/// Where the sweep has the registers from that blocks read.
struct Wanted<'a> {
    region: &'a Region,
    /// For each loop, the integers that it changes once per round by an unchanged amount, and the block that does it.
    steps: Vec<BTreeMap<u16, usize>>,
    /// For each loop, what is loaded where it was left.
    left: Vec<BTreeSet<Reg>>,
}

impl<'a> Wanted<'a> {
    fn new(region: &'a Region, steps: Vec<BTreeMap<u16, usize>>) -> Self {
        Wanted { region, steps, left: vec![BTreeSet::new(); region.loops.len()] }
    }

    /// The outermost of the loops around a block where a register, if it is loaded when that is left, is at hand
    /// throughout.
    fn home(&self, block: usize, reg: Reg) -> Option<usize> {
        self.region.loops_around(block).into_iter().find(|&number| {
            let steps = reg.bank == Bank::Int && self.steps[number].contains_key(&reg.index);
            steps || !self.region.loops[number].writes.contains(&reg)
        })
    }

    /// Asks for what a block's plan has at hand. Says whether that is new.
    fn ask(&mut self, block: usize, plan: &BlockPlan) -> bool {
        let stretch = &self.region.blocks[block].stretch;
        let mut new = false;
        for (id, node) in plan.derived.graph.iter().take(plan.primal_len) {
            if plan.plan.needed[id.index()]
                && let Some(reg) = stretch.input_register(node)
                && let Some(home) = self.home(block, reg)
                && self.region.arrays.made_at(reg).is_none()
            {
                new |= self.left[home].insert(reg);
            }
        }
        new
    }

    /// From which integers at hand something is computed again that the entry of a loop has computed.
    fn made_of(&self, found: &CountedLoop, node: NodeId) -> Option<BTreeSet<u16>> {
        found.made_of(self.region, node, &|reg| self.home(found.entry, reg).is_some())
    }

    /// Asks for what the rounds of a loop are found from, and what it reads and doesn't change. Says whether that is
    /// new.
    fn ask_counted(&mut self, number: usize, found: &CountedLoop) -> bool {
        let nodes = self.computed(number, found).into_iter().map(|(_, node)| node).chain([found.bound]);
        let registers: BTreeSet<u16> = nodes.filter_map(|node| self.made_of(found, node)).flatten().collect();
        let mut new = false;
        for reg in registers.into_iter().map(Reg::int) {
            let home = self.home(found.entry, reg).expect("it is at hand");
            new |= self.left[home].insert(reg);
        }
        new
    }

    /// What is wanted where a loop is left that can be computed again. What it steps holds something else there than
    /// where it was entered.
    fn computed(&self, number: usize, found: &CountedLoop) -> Vec<(u16, NodeId)> {
        let unchanged = self.left[number].difference(&self.region.loops[number].writes);
        let ints = unchanged.filter(|reg| reg.bank == Bank::Int).map(|reg| reg.index);
        let nodes = ints.filter_map(|reg| Some((reg, found.computed(self.region, reg)?)));
        nodes.filter(|&(_, node)| self.made_of(found, node).is_some()).collect()
    }

    /// The integers that a block has to step back.
    fn steps_back(&self, block: usize) -> Vec<StepBack> {
        let stretch = &self.region.blocks[block].stretch;
        let number = self.region.blocks[block].inside;
        let steps = self.steps[number].iter();
        let mine = steps.filter(|&(&reg, &by)| by == block && self.left[number].contains(&Reg::int(reg)));
        mine.map(|(&reg, _)| step_back_of(self.region, number, stretch, reg).expect("it was found to step")).collect()
    }
}

/// The integers that a loop changes once per round by an unchanged amount, each with the block that does it.
fn steps_of(region: &Region, number: usize) -> BTreeMap<u16, usize> {
    let mut found = BTreeMap::new();
    for reg in region.loops[number].writes.iter().filter(|reg| reg.bank == Bank::Int) {
        let inside = (0..region.blocks.len()).filter(|&block| region.loops[number].blocks[block]);
        let mut writers = inside.filter(|&block| region.blocks[block].stretch.ends.contains_key(reg));
        let (Some(writer), None) = (writers.next(), writers.next()) else { continue };
        let block = &region.blocks[writer];
        if block.inside == number && block.steady && step_back_of(region, number, &block.stretch, reg.index).is_some() {
            found.insert(reg.index, writer);
        }
    }
    found
}

/// For each loop the blocks from which it is left.
fn leaving_blocks(region: &Region, watch: &Watch<'_>) -> Result<Vec<BTreeSet<usize>>, TrapKind> {
    let mut leaving = vec![BTreeSet::new(); region.loops.len()];
    let mut edge = |from: usize, to: Option<usize>| {
        watch.tick(16)?;
        region.loops_left(from, to).into_iter().for_each(|number| _ = leaving[number].insert(from));
        Ok::<(), TrapKind>(())
    };
    for (to, block) in region.blocks.iter().enumerate() {
        block.before.iter().try_for_each(|&from| edge(from, Some(to)))?;
    }
    for found in &region.loops {
        found.latches.iter().try_for_each(|&from| edge(from, Some(found.head)))?;
    }
    region.exits.iter().try_for_each(|&(from, _)| edge(from, None))?;
    Ok(leaving)
}

/// An integer that is 0 where a loop begins, and the number of its rounds where it is left. `steps` are those that the
/// loop steps, `leaving` the blocks from which it is left.
fn index_of(region: &Region, number: usize, steps: &BTreeMap<u16, usize>, leaving: &BTreeSet<usize>) -> Option<u16> {
    // How control comes to the region's own loop is not known here.
    if number == 0 || leaving.len() != 1 {
        return None;
    }
    let is = |stretch: &Stretch, node: NodeId, value: i64| stretch.graph.node(node) == Node::Int(value);
    let from_zero = |reg: u16| {
        region.blocks[region.loops[number].head].before.iter().all(|&into| {
            // What leads from the test to the loop may leave the index as it is.
            let leaves_it = |block: usize| !region.blocks[block].stretch.ends.contains_key(&Reg::int(reg));
            let from = match first_block(region, into) {
                Some((entry, first)) if leaves_it(first) => entry,
                _ => into,
            };
            let RegionBlock { stretch, idle, .. } = &region.blocks[from];
            idle.is_none() && stretch.ends.get(&Reg::int(reg)).is_some_and(|&node| is(stretch, node, 0))
        })
    };
    let by_one = |reg: u16, block: usize| {
        let stretch = &region.blocks[block].stretch;
        let steps = step_back_of(region, number, stretch, reg).map(|step| step.steps);
        matches!(steps.as_deref(), Some(&[(Op::ISub, by)]) if is(stretch, by, 1))
    };
    let mut steps = steps.iter();
    let found = steps.find(|&(&reg, &block)| leaving.contains(&block) && from_zero(reg) && by_one(reg, block));
    found.map(|(&reg, _)| reg)
}

/// How a register is stepped back that a block steps, if it does.
fn step_back_of(region: &Region, number: usize, stretch: &Stretch, reg: u16) -> Option<StepBack> {
    let start = stretch.graph.iter().find(|&(_, node)| stretch.input_register(node) == Some(Reg::int(reg)))?.0;
    let end = *stretch.ends.get(&Reg::int(reg))?;
    let unchanged = unchanged_in(region, number, stretch);
    let steps = steps_back(&stretch.graph, &unchanged, start, end)?;
    Some(StepBack { reg, start, steps })
}

/// For each node of a block, whether it is an integer that a loop doesn't change.
fn unchanged_in(region: &Region, number: usize, stretch: &Stretch) -> Vec<bool> {
    let mut unchanged = vec![false; stretch.graph.len()];
    for (id, node) in stretch.graph.iter() {
        unchanged[id.index()] = match node {
            Node::Int(_) => true,
            Node::IntInput(_) => {
                stretch.input_register(node).is_some_and(|reg| !region.loops[number].writes.contains(&reg))
            }
            Node::Op(op @ (Op::IAdd | Op::ISub | Op::IMul | Op::INeg), _) => {
                !op.info().traps && stretch.graph.args(id).all(|arg| unchanged[arg.index()])
            }
            _ => false,
        };
    }
    unchanged
}

/// Which elements that a block reads are read one after the other by a loop that doesn't change the array. What is
/// loaded again keeps the whole array alive, or has it copied: that is worth it if many of its elements are read.
struct Scans<'a> {
    region: &'a Region,
    number: usize,
    wanted: &'a Wanted<'a>,
    /// For each node that is made of integers which are at hand, how many of the loops around the block change one of
    /// them.
    changing: Vec<Option<usize>>,
}

impl<'a> Scans<'a> {
    fn new(region: &'a Region, number: usize, wanted: &'a Wanted<'a>) -> Self {
        let stretch = &region.blocks[number].stretch;
        let graph = &stretch.graph;
        let around = region.loops_around(number);
        let mut changing: Vec<Option<usize>> = Vec::with_capacity(graph.len());
        for (id, node) in graph.iter() {
            changing.push(match node {
                Node::Int(_) => Some(0),
                Node::Op(..) => {
                    graph.args(id).try_fold(0, |most, arg| changing[arg.index()].map(|count| most.max(count)))
                }
                _ => {
                    let at_hand = stretch.input_register(node).and_then(|reg| {
                        wanted.home(number, reg)?;
                        // What an inner loop changes, those around it do as well.
                        Some(around.iter().take_while(|&&at| region.loops[at].writes.contains(&reg)).count())
                    });
                    at_hand.or_else(|| changing[stretch.same(node)?.index()])
                }
            });
        }
        Scans { region, number, wanted, changing }
    }

    /// Whether the loop that an array lasts for changes the index.
    fn holds(&self, cell: NodeId, index: NodeId) -> bool {
        let stretch = &self.region.blocks[self.number].stretch;
        let home = stretch.input_register(stretch.graph.node(cell)).and_then(|reg| self.wanted.home(self.number, reg));
        let (Some(home), Some(changing)) = (home, self.changing[index.index()]) else { return false };
        let outside = self.region.loops_around(self.number).iter().take_while(|&&at| at != home).count();
        changing > outside
    }
}

impl BlockPlan {
    fn new(
        region: &Region,
        number: usize,
        flow: &BlockFlow,
        wanted: &Wanted<'_>,
        adjoints: &BTreeSet<u16>,
        has_slots: &dyn Fn(u16) -> bool,
    ) -> Self {
        let stretch = &region.blocks[number].stretch;
        let pushed = flow.pushes.iter().filter(|(_, set)| !set.is_empty()).map(|(push, _)| push.node);
        let block = Piece {
            graph: stretch.graph.clone(),
            reals: stretch.real_inputs.len() as u32,
            ints: stretch.int_inputs.len() as u32,
            outputs: flow.outputs.iter().map(|&(_, node, _)| node).chain(pushed).collect(),
        };
        let derived = adjoint(&block);
        let mut inputs = seeds(&block, &derived).into_iter();
        let seeds: Vec<(u16, NodeId)> = flow.outputs.iter().map(|&(reg, _, _)| reg).zip(inputs.by_ref()).collect();
        let pushed = flow.pushes.iter().map(|(_, set)| if set.is_empty() { None } else { inputs.next() }).collect();
        let (mut to_registers, mut elements) = (Vec::new(), Vec::new());
        for (n, contribution) in contributions(&block, &derived) {
            if stretch.passive[n as usize] {
                continue;
            }
            match stretch.real_inputs[n as usize] {
                RealSource::Register(reg) => to_registers.push((reg, contribution)),
                // What stands in a builder of constants is none's.
                RealSource::Element { array, .. } if region.arrays.made.contains_key(&array) && !has_slots(array) => {}
                RealSource::Element { array, index } => {
                    let base = stretch.bases[n as usize].expect("arrays that a region reads have a base");
                    elements.push(ElementPlan { array, base, index, contribution });
                }
            }
        }
        let written = stretch.ends.keys().filter(|reg| reg.bank == Bank::Real).map(|reg| reg.index);
        let cleared = written
            .filter(|reg| adjoints.contains(reg) && !to_registers.iter().any(|(known, _)| known == reg))
            .collect();
        let steps = wanted.steps_back(number);
        let to_elements = elements.iter().flat_map(|element| [element.base, element.index, element.contribution]);
        let mut results: Vec<NodeId> = to_registers.iter().map(|&(_, node)| node).chain(to_elements).collect();
        for step in &stretch.builder_steps {
            match step {
                BuilderStep::Finish(finish) if has_slots(finish.builder) => results.extend([finish.first, finish.len]),
                BuilderStep::Extend(Extension { builder, base, from, count, .. }) if has_slots(*builder) => {
                    results.extend([base, from, count]);
                }
                _ => {}
            }
        }
        let puts = stretch.pushes.iter().filter(|push| has_slots(push.builder)).filter_map(|push| push.place);
        results.extend(puts.flat_map(|place| [place.base, place.index]));
        for step in &steps {
            results.push(step.start);
            results.extend(step.steps.iter().map(|&(_, by)| by));
        }
        let primal_len = block.graph.len();
        let free = |id: NodeId| {
            id.index() < primal_len
                && stretch.input_register(derived.graph.node(id)).is_some_and(|reg| wanted.home(number, reg).is_some())
        };
        let scans = Scans::new(region, number, wanted);
        let loads = |id: NodeId| {
            let load = if id.index() < primal_len { stretch.load(derived.graph.node(id)) } else { None };
            let load = load.filter(|&&[cell, index]| scans.holds(cell, index)).map(<[_; 2]>::as_slice);
            load.or_else(|| stretch.same(derived.graph.node(id)).map(std::slice::from_ref))
        };
        let plan = Plan::with_loads(&derived.graph, primal_len, &results, &free, &loads);
        BlockPlan { derived, primal_len, seeds, pushed, contributions: to_registers, cleared, elements, steps, plan }
    }

    /// The graph of the adjoint.
    pub(super) fn graph(&self) -> &Graph {
        &self.derived.graph
    }
}

/// The instructions that finish an array whose cell the sweep reads: registers may hold other arrays, too, one after
/// the other, and what is copied for the sweep takes room. `left` are those that are saved where loops are left.
///
/// # Errors
/// What the watch says.
fn kept(
    region: &Region,
    plans: &[BlockPlan],
    left: &[[Vec<u16>; 2]],
    watch: &Watch<'_>,
) -> Result<BTreeSet<u32>, TrapKind> {
    let finishes = |block: usize| {
        let steps = region.blocks[block].stretch.builder_steps.iter();
        steps.filter_map(|step| if let BuilderStep::Finish(finish) = step { Some(finish) } else { None })
    };
    let cells: BTreeSet<u16> = region.arrays.cells.values().copied().collect();
    // Which cells each block reads that it hasn't written.
    let reads = plans.iter().zip(&region.blocks).map(|(plan, block)| {
        let nodes = plan.derived.graph.iter().take(plan.primal_len).filter(|(id, _)| plan.plan.needed[id.index()]);
        let registers = nodes.filter_map(|(_, node)| block.stretch.input_register(node));
        registers.filter(|reg| reg.bank == Bank::Int && cells.contains(&reg.index)).map(|reg| reg.index).collect()
    });
    let mut before: Vec<BTreeSet<u16>> = reads.collect();
    let mut behind = vec![BTreeSet::new(); region.blocks.len()];
    let latches = region.loops.iter().flat_map(|found| found.latches.iter().map(|&from| (from, Some(found.head))));
    let edges =
        region.blocks.iter().enumerate().flat_map(|(to, block)| block.before.iter().map(move |&from| (from, Some(to))));
    let edges: Vec<(usize, Option<usize>)> =
        edges.chain(latches).chain(region.exits.iter().map(|&(from, _)| (from, None))).collect();
    loop {
        let mut changed = false;
        for &(from, to) in edges.iter().rev() {
            let saved = region.loops_left(from, to).into_iter().flat_map(|number| &left[number][1]);
            let mut live: BTreeSet<u16> = saved.copied().filter(|register| cells.contains(register)).collect();
            live.extend(to.iter().flat_map(|&to| &before[to]));
            watch.tick(8 + 8 * live.len())?;
            let len = behind[from].len();
            behind[from].extend(live);
            if behind[from].len() != len {
                changed = true;
                let ends = &region.blocks[from].stretch.ends;
                let through = behind[from].iter().filter(|&&register| !ends.contains_key(&Reg::int(register)));
                before[from].extend(through);
            }
        }
        if !changed {
            break;
        }
    }
    let is_kept = |block: usize, cell: NodeId| {
        let ends = &region.blocks[block].stretch.ends;
        plans[block].plan.needed[cell.index()]
            || behind[block].iter().any(|&register| ends.get(&Reg::int(register)) == Some(&cell))
    };
    let kept = (0..region.blocks.len())
        .flat_map(|block| finishes(block).map(move |finish| (block, finish)))
        .filter(|(block, finish)| finish.cell.is_some_and(|cell| is_kept(*block, cell)))
        .map(|(_, finish)| finish.inst);
    Ok(kept.collect())
}

impl RegionPlan {
    /// Derives the adjoints of all blocks. Registers from `free_real` and from the region's `free_int` on are free.
    /// Or says why the region is too large for a record.
    ///
    /// # Errors
    /// What the watch says.
    pub(crate) fn new(
        region: &mut Region,
        free_real: u16,
        watch: &Watch<'_>,
    ) -> Result<Result<RegionPlan, Refusal>, TrapKind> {
        let flow = |n: usize| {
            let block = &region.blocks[n];
            BlockFlow::new(&block.stretch, &|reg| block.useful.contains(reg))
        };
        let mut flows: Vec<BlockFlow> = (0..region.blocks.len()).map(flow).collect();
        let mut adjoints: BTreeSet<u16> = flows.iter().flat_map(|flow| &flow.outputs).map(|&(reg, _, _)| reg).collect();
        for (flow, block) in flows.iter().zip(&region.blocks) {
            let sets = flow.outputs.iter().map(|(_, _, set)| set).chain(flow.pushes.iter().map(|(_, set)| set));
            adjoints.extend(sets.flat_map(InputSet::iter).filter_map(|input| match block.stretch.real_inputs[input] {
                RealSource::Register(reg) => Some(reg),
                RealSource::Element { .. } => None,
            }));
        }
        // What the region may hand on as it was before.
        let is_useful = |reg: u16| region.exits.iter().any(|&(from, _)| region.blocks[from].useful.contains(reg));
        let handed_on = region.live_after.iter().filter(|&&reg| region.live_before.contains(reg) && is_useful(reg));
        adjoints.extend(handed_on);
        let Some(masks) = Masks::new(region, &flows, &adjoints, watch)? else {
            return Ok(Err(Refusal::Inputs { max: MASK_BITS }));
        };
        for (push, set) in flows.iter_mut().flat_map(|flow| &mut flow.pushes) {
            if masks.pushed(push.builder) == 0 {
                *set = InputSet::default();
            }
        }
        let is_idle = |(block, flow): (&RegionBlock, &BlockFlow)| {
            let is_written = |&reg: &u16| block.stretch.ends.contains_key(&Reg::real(reg));
            let does_nothing = flow.outputs.is_empty() && block.stretch.builder_steps.is_empty();
            does_nothing && !adjoints.iter().any(is_written)
        };
        let idle: Vec<bool> = region.blocks.iter().zip(&flows).map(is_idle).collect();
        region.leave_out(&idle);
        let region = &*region;
        let mut free_int = region.free_int;
        let mut fresh = || {
            let register = free_int;
            free_int += 1;
            register
        };
        let steps: Vec<BTreeMap<u16, usize>> = (0..region.loops.len()).map(|number| steps_of(region, number)).collect();
        let leaving = leaving_blocks(region, watch)?;
        let counter = |number: usize| match index_of(region, number, &steps[number], &leaving[number]) {
            Some(register) => Counter { register, is_index: true, is_stepped: false },
            None => Counter { register: fresh(), is_index: false, is_stepped: false },
        };
        let counters: Vec<Counter> = (0..region.loops.len()).map(counter).collect();
        let indices = counters.iter().enumerate().filter(|(_, counter)| counter.is_index);
        let counted = indices.filter_map(|(number, counter)| {
            Some((number, CountedLoop::new(region, number, counter.register, &leaving[number])?))
        });
        let counted = counted.collect();
        let made = region.arrays.made.keys().copied();
        let made: BTreeSet<u16> = made.filter(|&builder| masks.pushed(builder) != 0).collect();
        let appended = region.blocks.iter().flat_map(|block| {
            let Stretch { pushes, builder_steps, .. } = &block.stretch;
            let extended = builder_steps.iter().filter_map(BuilderStep::extension).map(|extension| extension.builder);
            pushes.iter().map(|push| push.builder).chain(extended)
        });
        let Arrays { made: arrays_made, changed, .. } = &region.arrays;
        let outer = { appended }.find(|builder| !arrays_made.contains_key(builder) && !changed.contains_key(builder));
        let len_before = fresh();
        let push = outer.map(|builder| RegionPush { builder, mask: masks.pushed(builder), len_before });
        let mut slots = 0;
        let mut outputs = Vec::new();
        let mut slot_registers = Vec::new();
        for &reg in &region.live_after {
            let mask = masks.reals.get(&reg).copied().unwrap_or(0);
            let word = if mask != 0 {
                slots += 1;
                slot_registers.push(reg);
                OutputWord::Slot { offset: slots - 1, mask }
            } else {
                OutputWord::Zero
            };
            outputs.push((reg, word));
        }
        let pushed = push.is_some_and(|push| push.mask != 0);
        let makes = !made.is_empty() || changed.values().any(|changed| changed.is_put);
        let layout = RegionLayout { inputs: masks.inputs.len(), pushed, makes };
        let is_written =
            |register: u16| changed.contains_key(&register) || region.ref_flow.iter().any(|&(to, _)| to == register);
        let written = masks.refs.iter().enumerate().filter(|&(_, &register)| is_written(register));
        let replaced = written.map(|(n, _)| 1 << (masks.inputs.len() + n)).sum();
        let site = RegionSite {
            id: u32::MAX,
            inputs: masks.inputs.clone().into(),
            refs: masks.refs.into(),
            replaced,
            outputs: outputs.into(),
            slots,
            push,
            changed: changed.values().copied().collect(),
            layout,
            code: Position::default()..Position::default(),
        };
        let mut plan = RegionPlan {
            site,
            code: None,
            saves: vec![SaveSite::default(); region.blocks.len()],
            copies: region.blocks.iter().map(|_| Vec::new()).collect(),
            counters,
            left: vec![Default::default(); region.loops.len()],
            behind: BTreeMap::new(),
            costs: vec![(0, 0); region.loops.len()],
            cells: BTreeMap::new(),
            kept: BTreeSet::new(),
            reached: BTreeSet::new(),
            made,
            free: [free_real, free_int],
        };
        if slots > 0 || pushed || layout.makes {
            let derived =
                plan.derive(region, (&flows, &adjoints), LoopInts { steps, counted }, &slot_registers, watch)?;
            return Ok(derived.map(|()| plan).ok_or(Refusal::SweepRegisters));
        }
        plan.site.changed = Box::default();
        Ok(Ok(plan))
    }

    /// Whether what is appended to a builder, or put there, has slots.
    pub(super) fn has_slots(&self, region: &Region, builder: u16) -> bool {
        let is_outer = || self.site.push.is_some_and(|push| push.builder == builder && push.mask != 0);
        self.made.contains(&builder) || region.arrays.changed.contains_key(&builder) || is_outer()
    }

    /// Makes the code of the sweep.
    fn derive(
        &mut self,
        region: &Region,
        (flows, adjoints): (&[BlockFlow], &BTreeSet<u16>),
        LoopInts { steps, mut counted }: LoopInts,
        outputs: &[u16],
        watch: &Watch<'_>,
    ) -> Result<Option<()>, TrapKind> {
        // What one block needs of a loop makes others step it back, which may need more.
        let mut wanted = Wanted::new(region, steps);
        for ChangedBuilder { registers, .. } in region.arrays.changed.values().filter(|changed| changed.is_put) {
            wanted.left[0].extend([registers.before, registers.first, registers.len].map(Reg::int));
        }
        counted.retain(|_, found| wanted.made_of(found, found.bound).is_some());
        let has_slots = |builder: u16| self.has_slots(region, builder);
        let plans = loop {
            let mut plans = Vec::with_capacity(region.blocks.len());
            for (n, flow) in flows.iter().enumerate() {
                watch.tick(64 * (16 + region.blocks[n].stretch.graph.len()))?;
                plans.push(BlockPlan::new(region, n, flow, &wanted, adjoints, &has_slots));
            }
            let mut new = false;
            for (block, plan) in plans.iter().enumerate() {
                new |= wanted.ask(block, plan);
            }
            for (&number, found) in &counted {
                new |= wanted.ask_counted(number, found);
            }
            if !new {
                break plans;
            }
        };
        for (counter, left) in self.counters.iter_mut().zip(&mut wanted.left) {
            counter.is_stepped = !left.insert(Reg::int(counter.register));
        }
        let [free_reals, free_ints] = self.free;
        for (block, plan) in plans.iter().enumerate() {
            let stretch = &region.blocks[block].stretch;
            let mut registers =
                EndRegisters { stretch, graph: plan.graph(), copies: Vec::new(), free_reals, free_ints };
            let reals = plan.plan.saved_reals.iter().map(|&id| registers.of(id)).collect();
            let ints = plan.plan.saved_ints.iter().map(|&id| registers.of(id)).collect();
            let extensions = stretch.builder_steps.iter().filter_map(BuilderStep::extension);
            let extensions = extensions.filter(|extension| self.has_slots(region, extension.builder));
            let costs = extensions.map(|extension| (registers.of(extension.count), 1, 0)).collect();
            self.saves[block] = SaveSite { reals, ints, edge: None, costs };
            // What another block copies may stand in the same registers.
            let [reals, ints] = &mut self.free;
            (*reals, *ints) = ((*reals).max(registers.free_reals), (*ints).max(registers.free_ints));
            self.copies[block] = registers.copies;
        }
        for (number, left) in wanted.left.iter().enumerate() {
            let of = |bank: Bank| left.iter().filter(move |reg| reg.bank == bank).map(|reg| reg.index);
            self.left[number] = [of(Bank::Real).collect(), of(Bank::Int).collect()];
        }
        for (number, found) in counted {
            let index = self.counters[number].register;
            let computed = wanted.computed(number, &found);
            // Where the loop is left, the index is the bound.
            self.left[number][1].retain(|&reg| reg != index && computed.iter().all(|&(known, _)| known != reg));
            self.behind.insert(found.behind, Counted { number, found, computed });
        }
        let is_wanted = |cell: &u16| wanted.left.iter().any(|left| left.contains(&Reg::int(*cell)));
        let cells = region.arrays.cells.iter().filter(|(_, cell)| is_wanted(cell));
        self.cells = cells.map(|(&array, &cell)| (array, cell)).collect();
        self.kept = kept(region, &plans, &self.left, watch)?;
        let copied = region.blocks.iter().flat_map(|block| &block.stretch.builder_steps);
        let copied = copied.filter_map(BuilderStep::extension);
        let copied = copied.filter(|extension| self.has_slots(region, extension.builder));
        let read = plans.iter().flat_map(|plan| &plan.elements).map(|element| element.array);
        self.reached = read.chain(copied.map(|extension| extension.array)).collect();
        let homes = Homes::new(adjoints, &wanted.left, self);
        let Some(code) = code_writer::write(region, self, &plans, &homes, outputs) else { return Ok(None) };
        for number in 0..region.loops.len() {
            let known = region.blocks.iter().enumerate().filter(|&(block, _)| region.known_as(block) == block);
            let own = code.blocks.iter().zip(known).filter(|(_, (_, block))| block.inside == number);
            // The way on, and a round that is counted if none of the instructions does that.
            let cost =
                |block: &super::BlockAdjoint| block.len() + 2 - usize::from(block.rounds.is_some_and(|r| r.stepped));
            let round: usize = own.map(|(block, _)| cost(block)).sum();
            let once = self.left[number].iter().map(Vec::len).sum::<usize>() + 1;
            self.costs[number] = (round as u32, once as u32);
        }
        self.code = Some(code);
        Ok(Some(()))
    }
}
