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

use crate::bytecode::isa::{Bank, Op, Reg};
use crate::code::{InSite, Inst, Leads, Position, RealReg, Sites, Stream};
use crate::derivation::assembler::Assembler;
use crate::derivation::derive::{Plan, accumulate, bank_of, dependences};
use crate::derivation::graph::{Graph, Node, NodeId};
use crate::native::Piece;
use crate::preparation::loop_detection::{IntSource, Loop, RealSource};
use crate::records::segment::OutputWord;
use crate::records::{Kind, Numbers, TRAILER_BYTES, Writer};
use std::cell::RefCell;

/// Where the parts of a loop's record stand that follow the entries in its last slab, in bytes from the first of them:
///
/// ```text
/// entries of the iterations │ saved reals (8 bytes each) │ saved integers (8) │ slots of the inputs (4)
///     │ first slots of the arrays (4) │ first slot of what was pushed (4)
///     │ iterations in all (8) │ entries here (4) │ trailer
/// ```
///
/// An entry is what is saved of one iteration; all entries of a loop have one size, which may be 0, and then there are
/// none. The first slot of what was pushed is there if the loop pushes anything that can be active, and 0 if it isn't.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoopLayout {
    /// What is saved of an iteration.
    pub entry: Numbers,
    /// What is saved once.
    pub once: Numbers,
    /// How many inputs there are.
    pub inputs: usize,
    /// How many arrays there are.
    pub arrays: usize,
    /// Whether there is a first slot of what was pushed.
    pub pushed: bool,
}

impl LoopLayout {
    /// Where the n-th slot stands: those of inputs, first ones of arrays, that of what was pushed.
    pub const fn slot(self, n: usize) -> usize {
        self.once.bytes() + 4 * n
    }

    /// Which of the slots is the first one of the n-th array.
    pub const fn array(self, n: usize) -> usize {
        self.inputs + n
    }

    /// Which of the slots is the first one of what was pushed.
    pub const fn pushed(self) -> Option<usize> {
        if self.pushed { Some(self.inputs + self.arrays) } else { None }
    }

    /// Where the number of iterations stands.
    pub const fn iterations(self) -> usize {
        self.slot(self.inputs + self.arrays + self.pushed as usize)
    }

    /// Where the number of entries in this slab stands.
    pub const fn entries(self) -> usize {
        self.iterations() + 8
    }

    /// Where the trailer stands.
    pub const fn trailer(self) -> usize {
        self.entries() + 4
    }

    /// The size of it all.
    pub const fn tail_bytes(self) -> usize {
        self.trailer() + TRAILER_BYTES
    }
}

/// The frame that a loop's adjoint runs on. Its real registers are, in this order: adjoints of the state; sums of the
/// contributions to inputs that the loop doesn't change; reals saved once; reals saved per iteration; what the code
/// computes. Integer registers: integers saved once, induction registers first; integers saved per iteration; what the
/// code computes. The first two groups of reals, and what was saved once and computed by the prologue, last from one
/// iteration to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopFrame {
    /// How many real registers begin at zero: the first two groups.
    pub cleared: usize,
    once: Numbers,
}

impl LoopFrame {
    /// Where what was saved once begins: real and integer register.
    pub const fn once(self) -> [usize; 2] {
        [self.cleared, 0]
    }

    /// Where what was saved of an iteration begins: real and integer register.
    pub const fn entry(self) -> [usize; 2] {
        [self.cleared + self.once.reals, self.once.ints]
    }
}

/// A loop in a recording stream. Three instructions refer to it: `LoopBegin` where the loop is entered, `LoopStep` in
/// place of the branch that ends an iteration, `LoopEnd` after the last.
#[derive(Debug)]
pub struct LoopSite {
    /// The loop's number in the module.
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
    /// Real registers that are saved when the loop ends: those that it doesn't change.
    pub once_reals: Box<[u16]>,
    /// Integer registers that are saved when the loop ends: induction registers, then those that it doesn't change.
    pub once_ints: Box<[u16]>,
    /// Where the parts of a record stand.
    pub layout: LoopLayout,
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
    pub body: Position,
    /// The stream position after the last iteration, where `LoopEnd` stands.
    pub end: Position,
    /// Fuel of what `LoopStep` ends.
    pub cost: u32,
}

impl InSite for LoopSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.loops
    }

    /// What any of the three instructions reads. The last one writes words, but none writes a primal.
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        let reals = self.inputs.iter().chain(&self.entry_reals).chain(&self.once_reals);
        reals.for_each(|&index| visit(Reg::real(index), false));
        self.outputs.iter().for_each(|&(index, _)| visit(Reg::real(index), false));
        self.entry_ints.iter().chain(&self.once_ints).for_each(|&index| visit(Reg::int(index), false));
        let builder = self.push.iter().map(|push| &push.builder);
        self.arrays.iter().chain(builder).for_each(|&index| visit(Reg::reference(index), false));
    }
}

impl Leads for LoopSite {
    fn for_each_target(&self, visit: &mut dyn FnMut(Position)) {
        visit(self.body);
        visit(self.end);
    }
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
    /// What stands where in the frame.
    pub frame: LoopFrame,
    /// For each slot of the outputs, the register of the state that begins with its adjoint.
    pub outputs: Box<[u16]>,
    /// Where the parts of a record stand.
    pub layout: LoopLayout,
    /// The real register that begins each iteration with the adjoint of what it pushed.
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
        self.layout.entry.bytes()
    }
}

/// The parts of a loop's record but its entries, found from its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopTail {
    pub(crate) iterations: u64,
    /// Entries in the same slab.
    pub(crate) entries: u32,
    /// What was saved once. The entries end here.
    pub(crate) once: *const u8,
    /// Slots of inputs, first slots of arrays, first slot of what was pushed. Nothing of this is aligned.
    pub(crate) slots: *const u32,
}

impl LoopTail {
    /// # Safety
    /// `trailer` is that of a record of this loop.
    pub(crate) unsafe fn read(code: &LoopCode, trailer: *const u32) -> LoopTail {
        let layout = code.layout;
        // SAFETY: promised by the caller: the record's parts stand where the layout says.
        unsafe {
            let once = trailer.cast::<u8>().sub(layout.trailer());
            let iterations = once.add(layout.iterations()).cast::<u64>().read_unaligned();
            let entries = once.add(layout.entries()).cast::<u32>().read_unaligned();
            LoopTail { iterations, entries, once, slots: once.add(layout.slot(0)).cast() }
        }
    }
}

impl LoopSite {
    /// What a record's trailer says of it.
    pub fn number(&self) -> u32 {
        Kind::Loop(self.id).number()
    }

    /// Writes the entry of an iteration.
    ///
    /// # Safety
    /// There is room for it; the frame has the site's registers.
    #[inline(always)]
    pub(crate) unsafe fn write_entry(&self, start: *mut u8, reals: *const f64, ints: *const i64) {
        // SAFETY: promised by the caller.
        unsafe { Writer::new(start).numbers([&self.entry_reals, &self.entry_ints], reals, ints) };
    }

    /// Writes what follows the entries: `slots` are those of the inputs, first ones of the arrays, and that of what was
    /// pushed.
    ///
    /// # Safety
    /// There is room for it; the frame has the site's registers.
    pub(crate) unsafe fn write_tail(
        &self,
        start: *mut u8,
        slots: impl Iterator<Item = u32>,
        (iterations, entries): (u64, u32),
        first: u32,
        (reals, ints): (*const f64, *const i64),
    ) {
        // SAFETY: promised by the caller: the layout is that of the lists.
        unsafe {
            let mut writer = Writer::new(start);
            writer.numbers([&self.once_reals, &self.once_ints], reals, ints);
            slots.for_each(|slot| writer.narrow(slot));
            writer.wide(iterations);
            writer.narrow(entries);
            writer.trailer(Kind::Loop(self.id), first);
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
        let graph = RefCell::new(std::mem::take(&mut source.graph));
        let (adjoints, adjoint_count) = accumulate(&graph, &flow.nodes, &flow.masks, primal_len);
        let graph = graph.into_inner();
        let mut interface = Interface::new(&source, &graph, &flow, &adjoints, adjoint_count);
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

        let code = CodeWriter::write(&graph, &interface, &classes, &saved, slots);
        let inputs: Box<[u16]> = interface.inputs.iter().map(|input| input.reg).collect();
        let site = LoopSite {
            id: u32::MAX,
            layout: code.layout,
            inputs,
            arrays: interface.arrays.clone().into(),
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
            body: Position::default(),
            end: Position::default(),
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
        once_reals: none(),
        once_ints: none(),
        layout: LoopLayout::default(),
        outputs,
        slots: 0,
        push,
        iteration_cost: 0,
        once_cost: 0,
        while_true,
        body: Position::default(),
        end: Position::default(),
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
    masks: Vec<u64>,
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
            for before in bits(dependence[node.index()]).filter_map(|input| carried[input]) {
                if !used[before] {
                    used[before] = true;
                    work.push(source.state[before].node);
                }
            }
        }
        let held = source.state.iter().zip(&used).filter(|(_, used)| **used).map(|(state, _)| state.node);
        let nodes: Vec<NodeId> = held.chain(source.push.map(|push| push.node)).collect();
        let masks = nodes.iter().map(|node| dependence[node.index()]).collect();
        Flow { used, nodes, masks, carried }
    }
}

/// The members of a set, in order.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        next
    })
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
    fn new(source: &Loop, graph: &Graph, flow: &Flow, adjoints: &[Option<NodeId>], adjoint_count: u32) -> Self {
        let mut interface = Interface {
            inputs: Vec::new(),
            elements: Vec::new(),
            arrays: Vec::new(),
            state_registers: vec![None; source.state.len()],
            states: adjoint_count as u16,
            pushed: None,
            push_mask: 0,
            activity: vec![0; source.real_inputs.len()],
        };
        // As `accumulate` numbers the outputs' adjoints.
        let with_adjoint = (0..source.state.len()).filter(|&n| flow.used[n]).zip(&flow.masks).filter(|(_, m)| **m != 0);
        for (register, (n, _)) in with_adjoint.enumerate() {
            interface.state_registers[n] = Some(register as u16);
        }
        if source.push.is_some() && flow.masks.last().is_some_and(|&mask| mask != 0) {
            interface.pushed = Some(interface.states - 1);
        }
        let contributions = graph.iter().take(adjoints.len()).filter_map(|(id, node)| match node {
            Node::RealInput(n) => Some((n as usize, adjoints[id.index()]?)),
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
                    interface.activity[n] = 1 << interface.inputs.len();
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
                interface.activity[n] = 1 << (interface.inputs.len() + at);
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
            for (&n, &mask) in used.iter().zip(&flow.masks) {
                for input in bits(mask) {
                    masks[n] |= self.activity[input] | flow.carried[input].map_or(0, |state| masks[state]);
                }
            }
            if masks == before {
                break;
            }
        }
        if self.pushed.is_some() {
            let inputs = bits(flow.masks.last().copied().unwrap_or(0));
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
                Node::RealInput(n) => match source.real_inputs[n as usize] {
                    RealSource::Register(reg) => !source.ends.contains_key(&Reg::real(reg)),
                    RealSource::Element { .. } => false,
                },
                Node::IntInput(n) => match source.int_inputs[n as usize] {
                    IntSource::Register(reg) => !source.ends.contains_key(&Reg::int(reg)),
                    IntSource::Load => false,
                },
                Node::OutputAdjoint(_) => false,
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

/// Turns an iteration's adjoint into the code of the sweep.
struct CodeWriter<'a> {
    assembler: Assembler<'a>,
    prologue: Vec<Inst>,
    body: Vec<Inst>,
}

impl<'a> CodeWriter<'a> {
    fn write(
        graph: &'a Graph,
        interface: &Interface,
        classes: &'a Classes,
        saved: &Saved,
        outputs: Vec<u16>,
    ) -> LoopCode {
        let states = usize::from(interface.states);
        let sums = interface.inputs.iter().filter(|input| input.carried.is_none()).count();
        let assembler = Assembler::new(graph, states + sums, 0);
        let mut this = CodeWriter { assembler, prologue: Vec::new(), body: Vec::new() };
        let once = saved.once_reals.iter().chain(&saved.entry_reals);
        once.chain(&saved.once_ints).chain(&saved.entry_ints).for_each(|&id| _ = this.assembler.place(id));
        // Steps are unchanged, so their code goes to the prologue, and the body begins with the induction registers.
        for (id, node) in graph.iter() {
            if let Node::OutputAdjoint(n) = node {
                this.assembler.place_at(id, n as u16);
            } else if saved.needed[id.index()] && classes.unchanged[id.index()] {
                this.assembler.compute(id, &mut this.prologue);
            }
        }
        for induction in classes.inductions.iter().filter(|induction| saved.needed[induction.start.index()]) {
            let register = this.register(induction.start);
            for &(op, step) in &induction.steps_back {
                let step = this.register(step);
                this.body.push(Inst::scalar(op, register, &[register, step]).expect("a step back is a sum"));
            }
        }
        for (id, _) in graph.iter() {
            if saved.needed[id.index()] && !classes.unchanged[id.index()] {
                this.assembler.compute(id, &mut this.body);
            }
        }
        let contributions = this.sums(interface, states);
        let linear = classes.linear(graph);
        let element = |element: &ElementAdjoint| ElementCode {
            array: interface.arrays.iter().position(|&array| array == element.array).expect("every array is listed")
                as u16,
            index: this.register(element.index),
            contribution: this.register(element.contribution),
            linear: linear[element.index.index()],
        };
        let elements = interface.elements.iter().map(element).collect();
        let moves = this.moves(interface);
        let once = Numbers { reals: saved.once_reals.len(), ints: saved.once_ints.len() };
        let pushed = interface.pushed.filter(|_| interface.push_mask != 0);
        LoopCode {
            reals: this.assembler.reals,
            ints: this.assembler.ints,
            prologue: this.prologue,
            body: this.body,
            elements,
            moves,
            frame: LoopFrame { cleared: states + sums, once },
            outputs: outputs.into(),
            layout: LoopLayout {
                entry: Numbers { reals: saved.entry_reals.len(), ints: saved.entry_ints.len() },
                once,
                inputs: interface.inputs.len(),
                arrays: interface.arrays.len(),
                pushed: pushed.is_some(),
            },
            pushed,
            contributions,
            native: Piece::default(),
        }
    }

    fn register(&self, id: NodeId) -> u16 {
        self.assembler.register(id)
    }

    /// Adds contributions to unchanged inputs to their sums. Returns the registers of all inputs' contributions.
    fn sums(&mut self, interface: &Interface, states: usize) -> Box<[u16]> {
        let mut sum = states as u16;
        let contribution = |input: &InputAdjoint| match input.carried {
            Some(state) => interface.state_registers[state].expect("a carried input has an adjoint"),
            None => {
                let (register, from) = (RealReg(sum), RealReg(self.register(input.contribution)));
                self.body.push(Inst::Add { dst: register, a: register, b: from });
                sum += 1;
                register.0
            }
        };
        interface.inputs.iter().map(contribution).collect()
    }

    /// The state's adjoints become those before the iteration, all at once.
    fn moves(&mut self, interface: &Interface) -> Vec<Inst> {
        let copy = |to: u16, from: u16| Inst::PrimalMov { dst: RealReg(to), src: RealReg(from) };
        let mut before: Vec<Option<u16>> = vec![None; usize::from(interface.states)];
        for input in &interface.inputs {
            if let Some(state) = input.carried {
                let register = interface.state_registers[state].expect("a carried input has an adjoint");
                before[usize::from(register)] = Some(self.register(input.contribution));
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
                    let aside = self.assembler.fresh(Bank::Real);
                    moves.push(copy(aside, from));
                    copies.push(copy(to, aside));
                }
                Some(from) => copies.push(copy(to, from)),
                None => copies.push(Inst::PrimalConst { dst: RealReg(to), value: 0 }),
            }
        }
        moves.extend(copies);
        moves
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
            (site.layout.entry.bytes(), &*site.once_ints, &*site.inputs, &*site.arrays),
            (0, &[1][..], &[0][..], &[0][..])
        );
        assert!(copies.is_empty() && code.moves.is_empty());
        // The step is a constant; the sum's adjoint is each element's contribution.
        assert!(matches!(*code.prologue, [Inst::IConst { .. }]), "{:?}", code.prologue);
        assert!(matches!(*code.body, [Inst::ISub { .. }]), "{:?}", code.body);
        assert_eq!((code.elements[0].index, code.elements[0].contribution), (0, 0));
        assert_eq!(&*code.contributions, [0]);
    }

    #[test]
    fn what_does_not_change_is_computed_once() {
        let code = plan("div r0, r0, r1").code.expect("it depends on its inputs");
        // 1 / r1 in the prologue; the quotient is what the divisor's derivative reads.
        assert!(code.prologue.iter().any(|inst| matches!(inst, Inst::Div { .. })));
        assert_eq!((code.layout.entry.reals, code.layout.once.reals), (1, 1));
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
