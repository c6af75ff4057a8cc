//! Finding the loops that are recorded as one, and what an iteration of each computes.
//!
//! Such a loop is a cycle of basic blocks with one way out: blocks that lead to each other by jumps, up to a block that
//! ends in a branch back to the first of them or out. A rotated loop is one block; a loop with its test at the head is
//! its body followed by a copy of the head. The *path* is the blocks of an iteration in order. It may hold scalar
//! instructions, copies, constants, and loads from arrays, nothing else: then no iteration allocates, calls, or touches
//! a word that the loop doesn't give anew when it ends.
//!
//! Every value of an iteration is a node of one graph, so that registers may be redefined as one likes. Which loops
//! qualify depends on the code alone, because the order of sums in the sweep follows from it.

use crate::derive::INPUTS_MAX;
use crate::graph::{Graph, Node, NodeId};
use crate::isa::{Bank, Inst, Op, Reg, Role};
use crate::liveness::{Block, RegSet, step_back};
use crate::module::Body;
use std::collections::{BTreeMap, HashMap};

/// A path has at most this many blocks.
const BLOCKS_MAX: usize = 16;
/// A path has at most this many instructions, which bounds the registers that its record takes.
const PATH_MAX: usize = 512;
/// A path has at most this many scalar instructions with a real result.
const REAL_OPS_MAX: usize = 256;

/// Where a real comes from that an iteration doesn't compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RealSource {
    /// A register at the iteration's start.
    Register(u16),
    /// An element of the array in a reference register.
    Element { array: u16, index: NodeId },
}

/// Where an integer comes from that an iteration doesn't compute by pure arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IntSource {
    /// A register at the iteration's start.
    Register(u16),
    /// A load.
    Load,
}

/// A real register that the loop writes and someone reads later, in the next iteration or after the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) reg: u16,
    /// What it holds when an iteration ends.
    pub(crate) node: NodeId,
    /// Whether it is read after the loop.
    pub(crate) live_after: bool,
}

/// An instruction of a path that writes a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// Its position in the path.
    pub(crate) at: u32,
    pub(crate) reg: Reg,
    pub(crate) node: NodeId,
}

/// A loop that is recorded as one.
#[derive(Debug)]
pub(crate) struct Loop {
    /// Where it is entered.
    pub(crate) start: u32,
    /// The blocks of an iteration in order; the last one ends in the branch.
    pub(crate) path: Vec<Block>,
    /// Where it leads to.
    pub(crate) exit: u32,
    /// Whether it goes on while the branch's condition is not 0, or while it is 0.
    pub(crate) while_true: bool,
    /// What an iteration computes.
    pub(crate) graph: Graph,
    pub(crate) real_inputs: Vec<RealSource>,
    pub(crate) int_inputs: Vec<IntSource>,
    /// All writes in order.
    pub(crate) writes: Vec<Write>,
    /// What each register holds that an iteration writes, when it ends.
    pub(crate) ends: BTreeMap<Reg, NodeId>,
    /// Real registers in order.
    pub(crate) state: Vec<State>,
}

/// The loops of a function. `live` are the registers that are live at the end of each block; `None` is everything.
pub(crate) fn find(body: &Body, blocks: &[Block], live: Option<&[RegSet]>, constants: &HashMap<u16, u64>) -> Vec<Loop> {
    let mut loops = Vec::new();
    for &block in blocks {
        let Some(cycle) = cycle(body, blocks, block) else { continue };
        let Some(mut walk) = Walk::run(body, constants, &cycle.path) else { continue };
        let live_at = |target: u32| {
            let index = block_at(blocks, target);
            live.map(|live| live_before(body, blocks[index], &live[index]))
        };
        let (again, after) = (live_at(block.start), live_at(cycle.exit));
        let contains = |live: &Option<RegSet>, reg| live.as_ref().is_none_or(|live| live.contains(reg));
        for (&reg, &node) in walk.found.ends.iter().filter(|(reg, _)| reg.bank == Bank::Real) {
            let live_after = contains(&after, reg.index);
            if live_after || contains(&again, reg.index) {
                walk.found.state.push(State { reg: reg.index, node, live_after });
            }
        }
        if !walk.found.state.is_empty() {
            let Cycle { path, exit, while_true } = cycle;
            loops.push(Loop { start: block.start, path, exit, while_true, ..walk.found });
        }
    }
    loops
}

fn block_at(blocks: &[Block], start: u32) -> usize {
    blocks.binary_search_by_key(&start, |block| block.start).expect("targets are the starts of blocks")
}

fn live_before(body: &Body, block: Block, live_after: &RegSet) -> RegSet {
    let mut live = live_after.clone();
    for inst in body.code[block.start as usize..block.end as usize].iter().rev() {
        step_back(body, inst, &mut live);
    }
    live
}

struct Cycle {
    path: Vec<Block>,
    exit: u32,
    while_true: bool,
}

/// The cycle of blocks that begins with `first`.
fn cycle(body: &Body, blocks: &[Block], first: Block) -> Option<Cycle> {
    let mut path = vec![first];
    while path.len() <= BLOCKS_MAX {
        let block = path[path.len() - 1];
        let last: &Inst = &body.code[block.end as usize - 1];
        let next = match last.op {
            Op::Jump => last.low(),
            Op::Branch => {
                let (then, other) = (last.low(), last.high());
                let len: u32 = path.iter().map(|block| block.end - block.start).sum();
                if (then == first.start) == (other == first.start) || len as usize > PATH_MAX {
                    return None;
                }
                let while_true = then == first.start;
                return Some(Cycle { path, exit: if while_true { other } else { then }, while_true });
            }
            op if op.is_terminator() => return None,
            _ => block.end,
        };
        path.push(blocks[block_at(blocks, next)]);
    }
    None
}

/// Goes through a path once.
struct Walk<'a> {
    body: &'a Body,
    constants: &'a HashMap<u16, u64>,
    found: Loop,
    /// What each register holds.
    current: HashMap<Reg, NodeId>,
    /// Elements and lengths that were loaded; arrays don't change, so a second load finds the same.
    loads: HashMap<(Op, u16, Option<NodeId>), NodeId>,
    real_ops: usize,
}

impl<'a> Walk<'a> {
    /// `None` if the path holds something that a loop's record doesn't cover.
    fn run(body: &'a Body, constants: &'a HashMap<u16, u64>, path: &[Block]) -> Option<Self> {
        let found = Loop {
            start: 0,
            path: Vec::new(),
            exit: 0,
            while_true: true,
            graph: Graph::default(),
            real_inputs: Vec::new(),
            int_inputs: Vec::new(),
            writes: Vec::new(),
            ends: BTreeMap::new(),
            state: Vec::new(),
        };
        let mut walk = Walk { body, constants, found, current: HashMap::new(), loads: HashMap::new(), real_ops: 0 };
        for (at, inst) in path.iter().flat_map(|block| block.start..block.end).enumerate() {
            walk.step(at as u32, body.code[inst as usize])?;
        }
        Some(walk)
    }

    fn step(&mut self, at: u32, inst: Inst) -> Option<()> {
        let result = |bank| Reg { bank, index: inst.a };
        match inst.op {
            Op::Mov => {
                let node = self.read(Reg::real(inst.b));
                self.write(at, result(Bank::Real), node);
            }
            Op::IMov => {
                let node = self.read(Reg::int(inst.b));
                self.write(at, result(Bank::Int), node);
            }
            Op::Const => {
                let node = self.found.graph.add(Node::Real(inst.imm));
                self.write(at, result(Bank::Real), node);
            }
            Op::IConst => {
                let node = self.found.graph.add(Node::Int(inst.imm as i64));
                self.write(at, result(Bank::Int), node);
            }
            Op::Len => {
                let node = self.load(Op::Len, inst.b, None);
                self.write(at, result(Bank::Int), node);
            }
            Op::Elem | Op::IElem => {
                let index = self.read(Reg::int(inst.c));
                let node = self.load(inst.op, inst.b, Some(index));
                self.write(at, result(if inst.op == Op::Elem { Bank::Real } else { Bank::Int }), node);
            }
            Op::Jump | Op::Branch => {}
            op if op.is_scalar() => self.scalar(at, inst),
            _ => return None,
        }
        (self.found.real_inputs.len() <= INPUTS_MAX && self.real_ops <= REAL_OPS_MAX).then_some(())
    }

    fn scalar(&mut self, at: u32, inst: Inst) {
        let mut args = Vec::with_capacity(3);
        self.body.for_each_reg(&inst, |reg, def| {
            if !def {
                args.push(reg);
            }
        });
        let args: Vec<NodeId> = args.into_iter().map(|reg| self.read(reg)).collect();
        let node = self.found.graph.op(inst.op, &args);
        let bank = match inst.op.info().operands[0].role {
            Role::Def(bank) => bank,
            role => unreachable!("a scalar instruction begins with its result, found {role:?}"),
        };
        self.real_ops += usize::from(bank == Bank::Real);
        self.write(at, Reg { bank, index: inst.a }, node);
    }

    fn read(&mut self, reg: Reg) -> NodeId {
        if let Some(&node) = self.current.get(&reg) {
            return node;
        }
        let found = &mut self.found;
        let constant = (reg.bank == Bank::Real).then(|| self.constants.get(&reg.index)).flatten();
        let node = match (constant, reg.bank) {
            (Some(&bits), _) => found.graph.add(Node::Real(bits)),
            (None, Bank::Real) => {
                found.real_inputs.push(RealSource::Register(reg.index));
                found.graph.add(Node::RealInput(found.real_inputs.len() as u32 - 1))
            }
            _ => {
                found.int_inputs.push(IntSource::Register(reg.index));
                found.graph.add(Node::IntInput(found.int_inputs.len() as u32 - 1))
            }
        };
        self.current.insert(reg, node);
        node
    }

    fn load(&mut self, op: Op, array: u16, index: Option<NodeId>) -> NodeId {
        let found = &mut self.found;
        *self.loads.entry((op, array, index)).or_insert_with(|| match index {
            Some(index) if op == Op::Elem => {
                found.real_inputs.push(RealSource::Element { array, index });
                found.graph.add(Node::RealInput(found.real_inputs.len() as u32 - 1))
            }
            _ => {
                found.int_inputs.push(IntSource::Load);
                found.graph.add(Node::IntInput(found.int_inputs.len() as u32 - 1))
            }
        })
    }

    fn write(&mut self, at: u32, reg: Reg, node: NodeId) {
        self.current.insert(reg, node);
        self.found.ends.insert(reg, node);
        self.found.writes.push(Write { at, reg, node });
    }
}
