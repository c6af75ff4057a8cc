//! What recording a loop as one takes: its site in a recording stream, and the code that sweeps its record.
//!
//! Let the *state* be the real registers that an iteration leaves to the next one or to the code after the loop. The
//! adjoint of an iteration maps the adjoints of the state after it, and what is saved of it, to the adjoints of the
//! state before it and to contributions to reals that the loop doesn't change and to elements of arrays. The sweep runs
//! it once per iteration, from the last to the first, with the adjoints of the state in registers.
//!
//! What doesn't change in the loop is saved once per record, and so is an *induction* register, one that an iteration
//! changes by an amount that the loop doesn't change: its value at the end tells all others. What the adjoint needs
//! besides, and can't compute from these, is saved per iteration.
//!
//! Both [`LoopSite`] and [`LoopCode`] are plain data: interpreter and native code write and read the same records.

use crate::bytecode::isa::{Bank, Inst, Op, Reg};
use crate::derivation::adjoint::Adjoints;
use crate::derivation::dependence::{InputSet, dependences};
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};
use crate::derivation::plan::Plan;
use crate::native::Piece;
use crate::preparation::loop_detection::{IntSource, Loop, RealSource};
use crate::records::segment::OutputWord;
use crate::tape;

/// A loop in a recording stream. Three instructions refer to it: `LoopBegin` where the loop is entered, `LoopStep` in
/// place of the branch that ends an iteration, `LoopEnd` after the last.
#[derive(Debug)]
pub struct LoopSite {
    /// The loop's number in the module, with the bit that tells loops from segments.
    pub id: u32,
    /// Real registers whose words the loop depends on. Words stand still while the loop runs, so they can be read
    /// before it and after it alike.
    pub inputs: Box<[u16]>,
    /// Reference registers of the arrays whose elements it depends on. Activity masks count them after the inputs.
    pub arrays: Box<[u16]>,
    /// Real registers that are saved when an iteration ends.
    pub entry_reals: Box<[u16]>,
    /// Integer registers that are saved when an iteration ends, after the reals.
    pub entry_ints: Box<[u16]>,
    /// The size of what is saved of an iteration.
    pub entry_bytes: u32,
    /// Real registers that are saved when the loop ends: those that it doesn't change.
    pub once_reals: Box<[u16]>,
    /// Integer registers that are saved when the loop ends: induction registers, then those that it doesn't change.
    pub once_ints: Box<[u16]>,
    /// Bytes of a record without its entries.
    pub tail_bytes: u32,
    /// The registers that have a word when the loop ends; never a `Copy`. Masks cover the inputs, then the arrays.
    pub outputs: Box<[(u16, OutputWord)]>,
    /// How many slots the outputs take, without what is pushed.
    pub slots: u32,
    /// What each iteration pushes, if anything.
    pub push: Option<PushSite>,
    /// Instructions that the sweep runs per iteration.
    pub iteration_cost: u32,
    /// Instructions that the sweep runs once per record.
    pub once_cost: u32,
    /// Whether a condition that is not 0 leads to the next iteration; if not, 0 does.
    pub while_true: bool,
    /// The stream position of the next iteration.
    pub body: u32,
    /// The stream position after the last iteration, where `LoopEnd` stands.
    pub end: u32,
    /// Fuel of what `LoopStep` ends.
    pub cost: u32,
}

/// A builder that each iteration appends a real to. When the loop ends, the appended elements get consecutive slots.
#[derive(Clone, Copy, Debug)]
pub struct PushSite {
    /// The builder's reference register.
    pub builder: u16,
    /// The inputs and arrays that the elements depend on. If it is empty, they are constants, and the record doesn't
    /// say where their slots begin.
    pub mask: u64,
}

/// What the sweep knows of a loop.
///
/// The frame's real registers are, in this order: adjoints of the state; sums of the contributions to inputs that the
/// loop doesn't change; reals saved once; reals saved per iteration; what the code computes. Integer registers:
/// integers saved once, induction registers first; integers saved per iteration; what the code computes. The first two
/// groups of reals, and what was saved once and computed by the prologue, last from one iteration to the next.
#[derive(Debug)]
pub struct LoopCode {
    /// Real registers of the frame.
    pub reals: usize,
    /// Integer registers of the frame.
    pub ints: usize,
    /// Runs once per record, after what is saved once was loaded: what doesn't change in the loop.
    pub prologue: Vec<Inst>,
    /// Runs per iteration, after its entry was loaded: steps the induction registers back, computes the contributions,
    /// and adds those to unchanged inputs to their sums.
    pub body: Vec<Inst>,
    /// Added to adjoints in memory after the body, one after the other.
    pub elements: Box<[ElementCode]>,
    /// Runs per iteration after that: turns the state's adjoints into those of the iteration before.
    pub moves: Vec<Inst>,
    /// How many real registers begin at zero.
    pub cleared: u32,
    /// For each slot of the outputs, the register of the state that begins with its adjoint.
    pub outputs: Box<[u16]>,
    /// How many reals are saved once.
    pub once_reals: u32,
    /// How many integers are saved once.
    pub once_ints: u32,
    /// How many reals are saved per iteration.
    pub entry_reals: u32,
    /// How many integers are saved per iteration.
    pub entry_ints: u32,
    /// How many arrays the record has first slots of.
    pub arrays: u32,
    /// The real register that begins each iteration with the adjoint of what it pushed. The record then has the first
    /// of these slots behind the arrays'; 0 if all are constants.
    pub pushed: Option<u16>,
    /// For each input, the register that holds its contribution when all iterations are done.
    pub contributions: Box<[u16]>,
    /// The iterations as native code.
    pub(crate) native: Piece,
}

impl LoopCode {
    /// Slots of the outputs.
    pub fn slots(&self) -> usize {
        self.outputs.len()
    }

    /// Bytes that are saved of an iteration.
    pub fn entry_bytes(&self) -> usize {
        8 * (self.entry_reals + self.entry_ints) as usize
    }
}

/// The parts of a loop's record but its entries, found from its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopTail {
    pub(crate) iterations: u64,
    /// Entries in the same slab, which stand before the reals.
    pub(crate) entries: u32,
    pub(crate) reals: *const f64,
    pub(crate) ints: *const i64,
    /// Slots of inputs, first slots of arrays, first slot of what was pushed. Nothing of this is aligned.
    pub(crate) slots: *const u32,
}

impl LoopTail {
    /// # Safety
    /// `trailer` is that of a record of this loop.
    pub(crate) unsafe fn read(code: &LoopCode, trailer: *const u32) -> LoopTail {
        // SAFETY: the record's parts stand in this order before the trailer.
        unsafe {
            let counts = trailer.sub(3);
            let [low, high, entries] = [0, 1, 2].map(|n| counts.add(n).read_unaligned());
            let pushed = usize::from(code.pushed.is_some());
            let slots = counts.sub(code.contributions.len() + code.arrays as usize + pushed);
            let ints = slots.cast::<i64>().sub(code.once_ints as usize);
            let reals = ints.cast::<f64>().sub(code.once_reals as usize);
            LoopTail { iterations: u64::from(low) | u64::from(high) << 32, entries, reals, ints, slots }
        }
    }
}

/// A contribution to an element of an array.
#[derive(Clone, Copy, Debug)]
pub struct ElementCode {
    /// Which of the record's arrays.
    pub array: u16,
    /// The integer register that holds the element's number.
    pub index: u16,
    /// The real register that holds what is added.
    pub contribution: u16,
    /// Whether the index changes by the same amount from iteration to iteration.
    pub linear: bool,
}

/// A value that is saved but overwritten before its iteration ends: it is copied first.
#[derive(Debug)]
pub(crate) struct LoopCopy {
    /// The position in the path of the instruction that overwrites it.
    pub(crate) before: u32,
    pub(crate) bank: Bank,
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// Everything about the recording of a loop but its number and its place in the stream.
#[derive(Debug)]
pub(crate) struct LoopPlan {
    pub(crate) site: LoopSite,
    /// `None` if nothing that is read after the loop depends on anything: it never writes a record.
    pub(crate) code: Option<LoopCode>,
    pub(crate) copies: Vec<LoopCopy>,
}

impl LoopPlan {
    /// Derives the adjoint of an iteration and finds the registers of what a record holds. Copies go to the registers
    /// from `free_reals` and `free_ints` on.
    pub(crate) fn new(mut source: Loop, free_reals: u16, free_ints: u16) -> Self {
        let flow = Flow::new(&source);
        let primal_len = source.graph.len();
        let (graph, reals) = (std::mem::take(&mut source.graph), source.real_inputs.len() as u32);
        let adjoints = Adjoints::new(graph, reals, &flow.nodes, &flow.sets);
        let mut interface = Interface::new(&source, &flow, &adjoints);
        let graph = adjoints.graph;
        let outputs = interface.outputs(&source, &flow);
        let slots: Vec<u16> = outputs.iter().filter_map(|output| output.2).collect();
        let words = outputs.iter().map(|&(reg, word, _)| (reg, word)).collect();
        let push = source.push.map(|push| PushSite { builder: push.builder, mask: interface.push_mask });
        let pushes = interface.push_mask != 0;
        if slots.is_empty() && !pushes {
            return LoopPlan { site: inactive_site(source.while_true, words, push), code: None, copies: Vec::new() };
        }
        let classes = Classes::new(&source, &graph, primal_len);
        let saved = Saved::new(&graph, primal_len, &interface, &classes);
        let mut registers =
            RegisterFinder { source: &source, graph: &graph, copies: Vec::new(), free_reals, free_ints };
        let entry_reals: Box<[u16]> = saved.entry_reals.iter().map(|&id| registers.find(id)).collect();
        let entry_ints: Box<[u16]> = saved.entry_ints.iter().map(|&id| registers.find(id)).collect();
        let copies = registers.copies;
        let base = |&id: &NodeId| match graph.node(id) {
            Node::RealInput(n) => match source.real_inputs[n as usize] {
                RealSource::Register(reg) => reg,
                RealSource::Element { .. } => unreachable!("elements may differ from iteration to iteration"),
            },
            Node::IntInput(n) => match source.int_inputs[n as usize] {
                IntSource::Register(reg) => reg,
                IntSource::Load => unreachable!("what is loaded is saved per iteration"),
            },
            node => unreachable!("only inputs are saved once, found {node:?}"),
        };
        let once_reals: Box<[u16]> = saved.once_reals.iter().map(base).collect();
        let once_ints: Box<[u16]> = saved.once_ints.iter().map(base).collect();

        let code = Assembler::assemble(&graph, &interface, &classes, &saved, slots);
        let inputs: Box<[u16]> = interface.inputs.iter().map(|input| input.reg).collect();
        let tail_slots = inputs.len() + interface.arrays.len() + usize::from(pushes);
        let site = LoopSite {
            id: u32::MAX,
            tail_bytes: tape::loop_tail_bytes(once_reals.len(), once_ints.len(), tail_slots),
            inputs,
            arrays: interface.arrays.clone().into(),
            entry_bytes: code.entry_bytes() as u32,
            entry_reals,
            entry_ints,
            once_reals,
            once_ints,
            outputs: words,
            slots: code.outputs.len() as u32,
            push,
            iteration_cost: (code.body.len() + code.elements.len() + code.moves.len() + usize::from(pushes)) as u32 + 1,
            once_cost: code.prologue.len() as u32 + 1,
            while_true: source.while_true,
            body: 0,
            end: 0,
            cost: 0,
        };
        LoopPlan { site, code: Some(code), copies }
    }
}

/// The site of a loop that never writes a record.
fn inactive_site(while_true: bool, outputs: Box<[(u16, OutputWord)]>, push: Option<PushSite>) -> LoopSite {
    let none = || Box::<[u16]>::default();
    LoopSite {
        id: u32::MAX,
        inputs: none(),
        arrays: none(),
        entry_reals: none(),
        entry_ints: none(),
        entry_bytes: 0,
        once_reals: none(),
        once_ints: none(),
        tail_bytes: 0,
        outputs,
        slots: 0,
        push,
        iteration_cost: 0,
        once_cost: 0,
        while_true,
        body: 0,
        end: 0,
        cost: 0,
    }
}

/// Which reals an iteration's results depend on, and which of these results matter.
struct Flow {
    /// For each register of the state whether what is read after the loop can depend on it.
    used: Vec<bool>,
    /// What the used registers hold when an iteration ends, in the state's order; then what is pushed.
    nodes: Vec<NodeId>,
    /// The real inputs that each of these depends on in one iteration.
    sets: Vec<InputSet>,
    /// For each real input, the register of the state that it is the start value of.
    carried: Vec<Option<usize>>,
}

impl Flow {
    fn new(source: &Loop) -> Flow {
        let dependence = dependences(&source.graph);
        let carried: Vec<Option<usize>> = source
            .real_inputs
            .iter()
            .map(|&input| source.state.iter().position(|state| input == RealSource::Register(state.reg)))
            .collect();
        let mut used: Vec<bool> = source.state.iter().map(|state| state.live_after).collect();
        let live = source.state.iter().filter(|state| state.live_after).map(|state| state.node);
        let mut work: Vec<NodeId> = live.chain(source.push.map(|push| push.node)).collect();
        while let Some(node) = work.pop() {
            for before in dependence[node.index()].iter().filter_map(|input| carried[input]) {
                if !used[before] {
                    used[before] = true;
                    work.push(source.state[before].node);
                }
            }
        }
        let held = source.state.iter().zip(&used).filter(|(_, used)| **used).map(|(state, _)| state.node);
        let nodes: Vec<NodeId> = held.chain(source.push.map(|push| push.node)).collect();
        let sets = nodes.iter().map(|node| dependence[node.index()].clone()).collect();
        Flow { used, nodes, sets, carried }
    }
}

/// An input that is a register, with its contribution.
struct InputAdjoint {
    reg: u16,
    contribution: NodeId,
    /// The register of the state that it is the start value of.
    carried: Option<usize>,
}

/// A contribution to an element.
struct ElementAdjoint {
    array: u16,
    index: NodeId,
    contribution: NodeId,
}

/// How the adjoint of an iteration meets the world.
struct Interface {
    inputs: Vec<InputAdjoint>,
    elements: Vec<ElementAdjoint>,
    /// The arrays that have contributions.
    arrays: Vec<u16>,
    /// The inputs of derived code that are the state's adjoints, by register.
    seeds: Vec<NodeId>,
    /// For each register of the state, its adjoint's register in derived code.
    state_registers: Vec<Option<u16>>,
    /// How many of these there are, that of what is pushed among them.
    states: u16,
    /// The register of what is pushed.
    pushed: Option<u16>,
    /// The activity of what is pushed.
    push_mask: u64,
    /// For each real input the bit that says whether it is active; 0 if it has no contribution.
    activity: Vec<u64>,
}

impl Interface {
    fn new(source: &Loop, flow: &Flow, adjoints: &Adjoints) -> Self {
        let mut interface = Interface {
            inputs: Vec::new(),
            elements: Vec::new(),
            arrays: Vec::new(),
            seeds: adjoints.seeds.clone(),
            state_registers: vec![None; source.state.len()],
            states: adjoints.seeds.len() as u16,
            pushed: None,
            push_mask: 0,
            activity: vec![0; source.real_inputs.len()],
        };
        // In the order of the seeds.
        let used = (0..source.state.len()).filter(|&n| flow.used[n]);
        let with_adjoint = used.zip(&flow.sets).filter(|(_, set)| !set.is_empty());
        for (register, (n, _)) in with_adjoint.enumerate() {
            interface.state_registers[n] = Some(register as u16);
        }
        if source.push.is_some() && flow.sets.last().is_some_and(|set| !set.is_empty()) {
            interface.pushed = Some(interface.states - 1);
        }
        let contributions = adjoints.graph.iter().zip(&adjoints.of).filter_map(|((_, node), adjoint)| match node {
            Node::RealInput(n) => Some((n as usize, (*adjoint)?)),
            _ => None,
        });
        for (n, contribution) in contributions {
            match source.real_inputs[n] {
                RealSource::Register(reg) => {
                    let carried = flow.carried[n];
                    if let Some(state) = carried
                        && interface.state_registers[state].is_none()
                    {
                        // Nothing flows into it from the end of an iteration, but something does out of its start.
                        interface.state_registers[state] = Some(interface.states);
                        interface.states += 1;
                    }
                    interface.activity[n] = activity_bit(interface.inputs.len());
                    interface.inputs.push(InputAdjoint { reg, contribution, carried });
                }
                RealSource::Element { array, index } => {
                    if !interface.arrays.contains(&array) {
                        interface.arrays.push(array);
                    }
                    interface.elements.push(ElementAdjoint { array, index, contribution });
                }
            }
        }
        for (n, &input) in source.real_inputs.iter().enumerate() {
            if let RealSource::Element { array, .. } = input
                && let Some(at) = interface.arrays.iter().position(|&known| known == array)
            {
                interface.activity[n] = activity_bit(interface.inputs.len() + at);
            }
        }
        interface
    }

    /// The words that registers have after the loop, and for those with a slot their adjoints' registers. Notes what
    /// the pushed elements depend on.
    fn outputs(&mut self, source: &Loop, flow: &Flow) -> Vec<(u16, OutputWord, Option<u16>)> {
        let used: Vec<usize> = (0..source.state.len()).filter(|&n| flow.used[n]).collect();
        // What each depends on after any number of iterations.
        let mut masks = vec![0u64; source.state.len()];
        loop {
            let before = masks.clone();
            for (&n, set) in used.iter().zip(&flow.sets) {
                for input in set.iter() {
                    masks[n] |= self.activity[input] | flow.carried[input].map_or(0, |state| masks[state]);
                }
            }
            if masks == before {
                break;
            }
        }
        if self.pushed.is_some() {
            let inputs = flow.sets.last().into_iter().flat_map(InputSet::iter);
            let masks = inputs.map(|input| self.activity[input] | flow.carried[input].map_or(0, |state| masks[state]));
            self.push_mask = masks.fold(0, |all, mask| all | mask);
        }
        let mut slots = 0;
        let live = (0..source.state.len()).filter(|&n| source.state[n].live_after);
        live.map(|n| {
            let reg = source.state[n].reg;
            match self.state_registers[n] {
                Some(register) if masks[n] != 0 => {
                    slots += 1;
                    (reg, OutputWord::Slot { offset: slots - 1, mask: masks[n] }, Some(register))
                }
                _ => (reg, OutputWord::Zero, None),
            }
        })
        .collect()
    }
}

/// The n-th bit of an activity mask.
fn activity_bit(n: usize) -> u64 {
    1u64.checked_shl(n as u32).expect("a loop is recorded as one if it has no more inputs than a word has bits")
}

/// How often the value of a node changes.
struct Classes {
    /// For each node, whether it is the same in every iteration.
    unchanged: Vec<bool>,
    inductions: Vec<Induction>,
}

/// An integer register that an iteration changes by an unchanged amount.
struct Induction {
    /// Its value at the iteration's start.
    start: NodeId,
    /// What leads from its value at the end back to that, in order.
    steps_back: Vec<(Op, NodeId)>,
}

impl Classes {
    fn new(source: &Loop, graph: &Graph, primal_len: usize) -> Classes {
        let mut unchanged = vec![false; graph.len()];
        for (id, node) in graph.iter() {
            unchanged[id.index()] = match node {
                Node::Real(_) | Node::Int(_) => true,
                // What is no input of the loop is an adjoint.
                Node::RealInput(n) => match source.real_inputs.get(n as usize) {
                    Some(&RealSource::Register(reg)) => !source.ends.contains_key(&Reg::real(reg)),
                    Some(RealSource::Element { .. }) | None => false,
                },
                Node::IntInput(n) => match source.int_inputs[n as usize] {
                    IntSource::Register(reg) => !source.ends.contains_key(&Reg::int(reg)),
                    IntSource::Load => false,
                },
                Node::Op(op, _) => !op.info().traps && graph.args(id).all(|arg| unchanged[arg.index()]),
            };
        }
        let start_values = graph.iter().take(primal_len).filter_map(|(start, node)| match node {
            Node::IntInput(n) => match source.int_inputs[n as usize] {
                IntSource::Register(reg) => Some((start, *source.ends.get(&Reg::int(reg))?)),
                IntSource::Load => None,
            },
            _ => None,
        });
        let inductions = start_values
            .filter_map(|(start, end)| {
                let steps_back = steps_back(graph, &unchanged, start, end)?;
                Some(Induction { start, steps_back })
            })
            .collect();
        Classes { unchanged, inductions }
    }

    /// For each node, whether it is an integer that changes by the same amount from iteration to iteration.
    fn linear(&self, graph: &Graph) -> Vec<bool> {
        let mut linear = vec![false; graph.len()];
        for (id, node) in graph.iter() {
            let all = |linear: &[bool]| graph.args(id).all(|arg| linear[arg.index()]);
            linear[id.index()] = self.unchanged[id.index()]
                || self.is_induction(id)
                || match node {
                    Node::Op(Op::IAdd | Op::ISub | Op::INeg, _) => all(&linear),
                    Node::Op(Op::IMul, [a, b, _]) => {
                        let unchanged = self.unchanged[a.index()] || self.unchanged[b.index()];
                        unchanged && all(&linear)
                    }
                    _ => false,
                };
        }
        linear
    }

    fn is_induction(&self, id: NodeId) -> bool {
        self.inductions.iter().any(|induction| induction.start == id)
    }
}

/// What undoes an iteration's change of a register, if it only adds and subtracts unchanged amounts.
fn steps_back(graph: &Graph, unchanged: &[bool], start: NodeId, end: NodeId) -> Option<Vec<(Op, NodeId)>> {
    let mut steps = Vec::new();
    let mut at = end;
    while at != start {
        let Node::Op(op, [a, b, _]) = graph.node(at) else { return None };
        let (before, step) = match op {
            Op::IAdd if unchanged[a.index()] => (b, (Op::ISub, a)),
            Op::IAdd if unchanged[b.index()] => (a, (Op::ISub, b)),
            Op::ISub if unchanged[b.index()] => (a, (Op::IAdd, b)),
            _ => return None,
        };
        steps.push(step);
        at = before;
    }
    Some(steps)
}

/// What a record holds, as nodes.
struct Saved {
    once_reals: Vec<NodeId>,
    /// Induction registers first.
    once_ints: Vec<NodeId>,
    entry_reals: Vec<NodeId>,
    entry_ints: Vec<NodeId>,
    /// Nodes that the derived code computes or loads.
    needed: Vec<bool>,
}

impl Saved {
    fn new(graph: &Graph, primal_len: usize, interface: &Interface, classes: &Classes) -> Saved {
        let contributions = interface.inputs.iter().map(|input| input.contribution);
        let elements = interface.elements.iter().flat_map(|element| [element.contribution, element.index]);
        let results: Vec<NodeId> = contributions.chain(elements).collect();
        let free = |id: NodeId| classes.unchanged[id.index()] || classes.is_induction(id);
        let mut needed = Plan::new(graph, primal_len, &results, &free).needed;
        let mut results = results;
        for induction in classes.inductions.iter().filter(|induction| needed[induction.start.index()]) {
            results.extend(induction.steps_back.iter().map(|&(_, step)| step));
        }
        let plan = Plan::new(graph, primal_len, &results, &free);
        needed = plan.needed;
        let (mut once_reals, mut invariant_ints) = (Vec::new(), Vec::new());
        for (id, node) in graph.iter().take(primal_len) {
            if needed[id.index()] && classes.unchanged[id.index()] {
                match node {
                    Node::RealInput(_) => once_reals.push(id),
                    Node::IntInput(_) => invariant_ints.push(id),
                    _ => {}
                }
            }
        }
        let inductions = classes.inductions.iter().map(|induction| induction.start);
        let once_ints = inductions.filter(|start| needed[start.index()]).chain(invariant_ints).collect();
        Saved { once_reals, once_ints, entry_reals: plan.saved_reals, entry_ints: plan.saved_ints, needed }
    }
}

/// Finds the registers of values when an iteration ends.
struct RegisterFinder<'a> {
    source: &'a Loop,
    graph: &'a Graph,
    copies: Vec<LoopCopy>,
    free_reals: u16,
    free_ints: u16,
}

impl RegisterFinder<'_> {
    fn find(&mut self, id: NodeId) -> u16 {
        let node = self.graph.node(id);
        let bank = bank_of(node);
        if let Some((reg, _)) = self.source.ends.iter().find(|(reg, end)| reg.bank == bank && **end == id) {
            return reg.index;
        }
        let start = match node {
            Node::RealInput(n) => match self.source.real_inputs[n as usize] {
                RealSource::Register(reg) => Some(reg),
                RealSource::Element { .. } => None,
            },
            Node::IntInput(n) => match self.source.int_inputs[n as usize] {
                IntSource::Register(reg) => Some(reg),
                IntSource::Load => None,
            },
            _ => None,
        };
        let (reg, born) = match start {
            Some(index) => (Reg { bank, index }, None),
            None => {
                let write = self.source.writes.iter().find(|write| write.node == id && write.reg.bank == bank);
                let write = write.expect("a saved value was computed or loaded");
                (write.reg, Some(write.at))
            }
        };
        let overwrites = |at: u32| born.is_none_or(|born| at > born);
        let overwritten =
            self.source.writes.iter().find(|write| write.reg == reg && write.node != id && overwrites(write.at));
        overwritten.map_or(reg.index, |write| {
            let free = if bank == Bank::Real { &mut self.free_reals } else { &mut self.free_ints };
            let to = *free;
            *free += 1;
            self.copies.push(LoopCopy { before: write.at, bank, from: reg.index, to });
            to
        })
    }
}

/// Turns nodes into the code of the sweep.
struct Assembler<'a> {
    graph: &'a Graph,
    registers: Vec<u16>,
    reals: usize,
    ints: usize,
    prologue: Vec<Inst>,
    body: Vec<Inst>,
    unchanged: &'a [bool],
}

impl<'a> Assembler<'a> {
    fn assemble(
        graph: &'a Graph,
        interface: &Interface,
        classes: &'a Classes,
        saved: &Saved,
        outputs: Vec<u16>,
    ) -> LoopCode {
        let states = usize::from(interface.states);
        let sums = interface.inputs.iter().filter(|input| input.carried.is_none()).count();
        let mut this = Assembler {
            graph,
            registers: vec![u16::MAX; graph.len()],
            reals: states + sums,
            ints: 0,
            prologue: Vec::new(),
            body: Vec::new(),
            unchanged: &classes.unchanged,
        };
        for (register, id) in interface.seeds.iter().enumerate() {
            this.registers[id.index()] = register as u16;
        }
        for &id in saved.once_reals.iter().chain(&saved.entry_reals) {
            this.registers[id.index()] = this.fresh(Bank::Real);
        }
        for &id in saved.once_ints.iter().chain(&saved.entry_ints) {
            this.registers[id.index()] = this.fresh(Bank::Int);
        }
        // Steps are unchanged, so their code goes to the prologue, and the body begins with the induction registers.
        for (id, _) in graph.iter() {
            if saved.needed[id.index()] && classes.unchanged[id.index()] {
                this.node(id);
            }
        }
        for induction in classes.inductions.iter().filter(|induction| saved.needed[induction.start.index()]) {
            let register = this.registers[induction.start.index()];
            for &(op, step) in &induction.steps_back {
                let step = this.registers[step.index()];
                this.body.push(Inst { op, a: register, b: register, c: step, imm: 0 });
            }
        }
        for (id, _) in graph.iter() {
            if saved.needed[id.index()] && !classes.unchanged[id.index()] {
                this.node(id);
            }
        }
        let contributions = this.sums(interface, states);
        let linear = classes.linear(graph);
        let element = |element: &ElementAdjoint| ElementCode {
            array: interface.arrays.iter().position(|&array| array == element.array).expect("every array is listed")
                as u16,
            index: this.registers[element.index.index()],
            contribution: this.registers[element.contribution.index()],
            linear: linear[element.index.index()],
        };
        let elements = interface.elements.iter().map(element).collect();
        let moves = this.moves(interface);
        LoopCode {
            reals: this.reals,
            ints: this.ints,
            prologue: this.prologue,
            body: this.body,
            elements,
            moves,
            cleared: (states + sums) as u32,
            outputs: outputs.into(),
            once_reals: saved.once_reals.len() as u32,
            once_ints: saved.once_ints.len() as u32,
            entry_reals: saved.entry_reals.len() as u32,
            entry_ints: saved.entry_ints.len() as u32,
            arrays: interface.arrays.len() as u32,
            pushed: interface.pushed.filter(|_| interface.push_mask != 0),
            contributions,
            native: Piece::default(),
        }
    }

    /// Adds contributions to unchanged inputs to their sums. Returns the registers of all inputs' contributions.
    fn sums(&mut self, interface: &Interface, states: usize) -> Box<[u16]> {
        let mut sum = states as u16;
        let contribution = |input: &InputAdjoint| match input.carried {
            Some(state) => interface.state_registers[state].expect("a carried input has an adjoint"),
            None => {
                let from = self.registers[input.contribution.index()];
                self.body.push(Inst { op: Op::Add, a: sum, b: sum, c: from, imm: 0 });
                sum += 1;
                sum - 1
            }
        };
        interface.inputs.iter().map(contribution).collect()
    }

    /// The state's adjoints become those before the iteration, all at once.
    fn moves(&mut self, interface: &Interface) -> Vec<Inst> {
        let copy = |to: u16, from: u16| Inst { op: Op::Mov, a: to, b: from, c: 0, imm: 0 };
        let mut before: Vec<Option<u16>> = vec![None; usize::from(interface.states)];
        for input in &interface.inputs {
            if let Some(state) = input.carried {
                let register = interface.state_registers[state].expect("a carried input has an adjoint");
                before[usize::from(register)] = Some(self.registers[input.contribution.index()]);
            }
        }
        let mut moves = Vec::new();
        let mut copies = Vec::new();
        for (to, from) in before.into_iter().enumerate() {
            let to = to as u16;
            match from {
                // Loaded in each iteration.
                _ if interface.pushed == Some(to) => {}
                Some(from) if from == to => {}
                // Another adjoint of the state, which may be overwritten first.
                Some(from) if from < interface.states => {
                    let aside = self.fresh(Bank::Real);
                    moves.push(copy(aside, from));
                    copies.push(copy(to, aside));
                }
                Some(from) => copies.push(copy(to, from)),
                None => copies.push(Inst { op: Op::Const, a: to, b: 0, c: 0, imm: 0 }),
            }
        }
        moves.extend(copies);
        moves
    }

    fn fresh(&mut self, bank: Bank) -> u16 {
        let count = if bank == Bank::Real { &mut self.reals } else { &mut self.ints };
        *count += 1;
        (*count - 1) as u16
    }

    fn node(&mut self, id: NodeId) {
        if self.registers[id.index()] != u16::MAX {
            return;
        }
        let node = self.graph.node(id);
        let dst = self.fresh(bank_of(node));
        let args: Vec<u16> = self.graph.args(id).map(|arg| self.registers[arg.index()]).collect();
        let at = |i: usize| args.get(i).copied().unwrap_or(0);
        let inst = match node {
            Node::Real(bits) => Inst { op: Op::Const, a: dst, b: 0, c: 0, imm: bits },
            Node::Int(value) => Inst { op: Op::IConst, a: dst, b: 0, c: 0, imm: value as u64 },
            Node::Op(op, _) => Inst { op, a: dst, b: at(0), c: at(1), imm: u64::from(at(2)) },
            node => unreachable!("an input is saved if it is needed, found {node:?}"),
        };
        self.registers[id.index()] = dst;
        let code = if self.unchanged[id.index()] { &mut self.prologue } else { &mut self.body };
        code.push(inst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preparation::loop_detection::tests::{loops_of, rotated};

    fn plan(body: &str) -> LoopPlan {
        let mut loops = loops_of(&rotated(body));
        LoopPlan::new(loops.remove(0), 8, 8)
    }

    #[test]
    fn a_linear_iteration_saves_nothing_and_steps_its_counter_back() {
        let LoopPlan { site, code, copies } = plan("elem r2, p0, i1\n add r0, r0, r2");
        let code = code.expect("it depends on its inputs");
        assert_eq!(
            (site.entry_bytes, &*site.once_ints, &*site.inputs, &*site.arrays),
            (0, &[1][..], &[0][..], &[0][..])
        );
        assert!(copies.is_empty() && code.moves.is_empty());
        // The step is a constant; the sum's adjoint is each element's contribution.
        assert_eq!(code.prologue.iter().map(|inst| inst.op).collect::<Vec<_>>(), [Op::IConst]);
        assert_eq!(code.body.iter().map(|inst| inst.op).collect::<Vec<_>>(), [Op::ISub]);
        assert_eq!((code.elements[0].index, code.elements[0].contribution), (0, 0));
        assert_eq!(&*code.contributions, [0]);
    }

    #[test]
    fn what_does_not_change_is_computed_once() {
        let code = plan("div r0, r0, r1").code.expect("it depends on its inputs");
        // 1 / r1 in the prologue; the quotient is what the divisor's derivative reads.
        assert!(code.prologue.iter().any(|inst| inst.op == Op::Div));
        assert_eq!((code.entry_reals, code.once_reals), (1, 1));
    }

    #[test]
    fn a_value_that_is_overwritten_is_copied_before() {
        let plan = plan("mul r0, r0, r0");
        assert_eq!((&*plan.site.entry_reals, plan.copies.len(), plan.copies[0].before), (&[8][..], 1, 0));
    }

    #[test]
    fn a_swap_moves_adjoints_by_way_of_other_registers() {
        let code = plan("mov r2, r0\n mov r0, r1\n mov r1, r2").code.expect("it depends on its inputs");
        assert_eq!((code.entry_bytes(), code.body.len(), code.moves.len()), (0, 0, 4));
    }

    #[test]
    fn a_loop_of_constants_has_no_code() {
        let plan = plan("to_real r0, i1");
        assert!(plan.code.is_none() && matches!(*plan.site.outputs, [(0, OutputWord::Zero)]));
    }
}
