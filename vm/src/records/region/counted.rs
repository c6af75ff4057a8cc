//! Loops of which the trail needn't tell how often they went round, because integers do that the sweep has at hand.
//!
//! Such a loop counts from 0 up to a bound. What stands before it asks whether it is entered at all, by the same
//! comparison by which it is left, and one block is behind both ways:
//!
//! ```text
//! entry:   j = 0; if j < n then first else behind
//! first:   …
//! head:    …
//! last:    j = j + 1; if j < n then head else behind
//! behind:  …
//! ```
//!
//! There may be no first block; if there is one, nothing else leads to it, it doesn't branch, and leaves index and
//! bound alone. Where the sweep comes to the block behind, n says by which of the two ways control came, and how many
//! rounds there were. Other integers that the loop reads and doesn't change are computed again, too, if the entry has
//! computed them from what is at hand, and the first block doesn't write them. The rest is written where the loop is
//! left: reals, other integers, and those that the loop steps besides its index.

use crate::bytecode::isa::{Bank, Op, Reg};
use crate::derivation::graph::{Node, NodeId};
use crate::preparation::region_detection::{Region, RegionBlock};
use crate::preparation::stretch::Stretch;
use std::collections::BTreeSet;

/// What is computed again has at most so many nodes.
const NODES_MAX: usize = 8;

/// A loop from 0 up to a bound.
#[derive(Debug)]
pub(super) struct CountedLoop {
    /// The block that asks whether control goes into the loop, or past it.
    pub(super) entry: usize,
    /// The block between that one and the loop, if there is one.
    first: Option<usize>,
    /// The block that both ways lead to.
    pub(super) behind: usize,
    /// The bound, in the graph of the entry.
    pub(super) bound: NodeId,
    /// Which of the ways to the block behind leads from the loop, among those that lead there.
    pub(super) edge: usize,
}

impl CountedLoop {
    /// `index` counts the rounds from 0; the loop is left from the blocks in `leaving`.
    pub(super) fn new(region: &Region, number: usize, index: u16, leaving: &BTreeSet<usize>) -> Option<CountedLoop> {
        let found = &region.loops[number];
        let &[into] = &region.blocks[found.head].before[..] else { return None };
        let first = first_block(region, into);
        let (entry, first) = first.map_or((into, None), |(entry, first)| (entry, Some(first)));
        let (&last, parent) = (leaving.first().filter(|_| leaving.len() == 1)?, found.parent?);
        let (before, after) = (&region.blocks[entry], &region.blocks[last]);
        let (way_in, way_on) = (before.branch?, after.branch?);
        let behind = way_in.other.filter(|_| way_in.then == Some(first.unwrap_or(found.head)))?;
        let goes_round = way_on.then.is_some_and(|then| found.blocks[then]);
        if !goes_round || way_on.other != Some(behind) {
            return None;
        }
        let ways = &region.blocks[behind].before;
        let edge = ways.iter().position(|&from| from == last)?;
        let here = |block: &RegionBlock| block.inside == parent && block.idle.is_none();
        let both = ways.len() == 2 && ways.contains(&entry);
        let is_plain = both && region.loop_at(behind).is_none() && after.idle.is_none();
        if !is_plain || !here(before) || !here(&region.blocks[behind]) {
            return None;
        }
        let is_kept = |reg: Reg| first.is_none_or(|first| !region.blocks[first].stretch.ends.contains_key(&reg));
        let bound = less(&before.stretch, way_in.cond, |node| node == Node::Int(0))?;
        let stepped = *after.stretch.ends.get(&Reg::int(index))?;
        let limit = less(&after.stretch, way_on.cond, |node| node == after.stretch.graph.node(stepped))?;
        let is_same = match (before.stretch.graph.node(bound), after.stretch.graph.node(limit)) {
            (Node::Int(a), Node::Int(b)) => a == b,
            (_, node) => after
                .stretch
                .input_register(node)
                .is_some_and(|reg| !found.writes.contains(&reg) && is_kept(reg) && holds(&before.stretch, reg, bound)),
        };
        is_same.then_some(CountedLoop { entry, first, behind, bound, edge })
    }

    /// The integer registers from which a node of the entry is computed again, if it can be: each has to be `at_hand`.
    /// What the entry writes is not, because it holds something else when the loop is entered.
    pub(super) fn made_of(
        &self,
        region: &Region,
        node: NodeId,
        at_hand: &dyn Fn(Reg) -> bool,
    ) -> Option<BTreeSet<u16>> {
        let stretch = &region.blocks[self.entry].stretch;
        let (mut registers, mut seen, mut waiting) = (BTreeSet::new(), BTreeSet::new(), vec![node]);
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) {
                continue;
            }
            match stretch.graph.node(id) {
                Node::Int(_) => {}
                Node::Op(Op::IAdd | Op::ISub | Op::IMul | Op::INeg, _) => waiting.extend(stretch.graph.args(id)),
                node => {
                    let reg = stretch.input_register(node).filter(|reg| reg.bank == Bank::Int)?;
                    let lasts = !stretch.ends.contains_key(&reg) && region.is_of_program(reg.index) && at_hand(reg);
                    registers.insert(Some(reg.index).filter(|_| lasts)?);
                }
            }
            if seen.len() > NODES_MAX {
                return None;
            }
        }
        Some(registers)
    }

    /// The node that an integer register holds when the loop is entered, if the entry has computed it last.
    pub(super) fn computed(&self, region: &Region, register: u16) -> Option<NodeId> {
        let is_of_first = |first: usize| region.blocks[first].stretch.ends.contains_key(&Reg::int(register));
        if self.first.is_some_and(is_of_first) {
            return None;
        }
        let ends = &region.blocks[self.entry].stretch.ends;
        ends.get(&Reg::int(register)).copied().filter(|_| region.is_of_program(register))
    }
}

/// The block that branches to one that leads into a loop, and that one, if it doesn't branch and nothing else leads to
/// it.
pub(super) fn first_block(region: &Region, into: usize) -> Option<(usize, usize)> {
    let first = &region.blocks[into];
    let &[entry] = &first.before[..] else { return None };
    let is_between = first.branch.is_none() && first.idle.is_none() && region.loop_at(into).is_none();
    (is_between && region.blocks[entry].inside == first.inside).then_some((entry, into))
}

/// What an integer is compared with, if a condition says that it is less.
fn less(stretch: &Stretch, cond: u16, is_left: impl Fn(Node) -> bool) -> Option<NodeId> {
    let &condition = stretch.ends.get(&Reg::int(cond))?;
    let Node::Op(Op::ILt, [left, right, _]) = stretch.graph.node(condition) else { return None };
    is_left(stretch.graph.node(left)).then_some(right)
}

/// Whether a register holds a node at the end of a stretch.
fn holds(stretch: &Stretch, reg: Reg, node: NodeId) -> bool {
    match stretch.ends.get(&reg) {
        Some(&end) => end == node,
        None => stretch.input_register(stretch.graph.node(node)) == Some(reg),
    }
}
