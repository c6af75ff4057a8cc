//! The loops of a function and how they nest.
//!
//! A *loop* is a block, its head, with all blocks from which control comes back to it without leaving it, where every
//! way into these goes through the head (a natural loop). So two loops are disjoint, or one is a part of the other.
//! What else goes round, with two ways in, is no loop here.

use crate::preparation::flow::{FlowGraph, Predecessors};
use crate::running::meter::Watch;
use crate::trap::TrapKind;

/// A loop of a function. Blocks go by their numbers in the flow graph.
#[derive(Debug)]
pub(crate) struct Natural {
    pub(crate) head: usize,
    /// All blocks, in order, those of inner loops among them.
    pub(crate) blocks: Vec<usize>,
    /// The blocks that lead back to the head.
    pub(crate) latches: Vec<usize>,
    /// The smallest loop around it, by its number.
    pub(crate) parent: Option<usize>,
}

/// More blocks than this in all loops, counted once per loop: the function's loops are not looked for.
const WORK_MAX: usize = 1 << 16;
/// Finding dominators takes at most so many steps.
const STEPS_MAX: usize = 1 << 20;

/// For each block the block that every way to it goes through last, itself left out: its immediate dominator (Cooper,
/// Harvey and Kennedy 2001). The first block's is itself.
pub(crate) struct Dominators {
    parent: Vec<usize>,
    /// The place of each block in reverse postorder.
    place: Vec<usize>,
    /// The place of each block in a preorder of the tree that the dominators are.
    first: Vec<usize>,
    /// How many blocks each one dominates, itself among them: they have the next places.
    size: Vec<usize>,
}

impl Dominators {
    /// `None` if that takes too many steps.
    fn new(flow: &FlowGraph, before: &Predecessors, watch: &Watch<'_>) -> Result<Option<Dominators>, TrapKind> {
        let count = flow.blocks().len();
        let mut place = vec![usize::MAX; count];
        flow.order().iter().enumerate().for_each(|(at, &block)| place[block as usize] = at);
        let mut found =
            Dominators { parent: vec![usize::MAX; count], place, first: vec![0; count], size: vec![1; count] };
        found.parent[0] = 0;
        let mut steps = 0;
        loop {
            let mut changed = false;
            for &block in &flow.order()[1..] {
                let block = block as usize;
                let mut dominator = usize::MAX;
                for &known in before.of(block).iter().filter(|&&known| found.parent[known as usize] != usize::MAX) {
                    let taken = steps;
                    dominator = match dominator {
                        usize::MAX => known as usize,
                        other => found.meet(other, known as usize, &mut steps),
                    };
                    steps += 1;
                    watch.tick(4 * (steps - taken))?;
                    if steps > STEPS_MAX {
                        return Ok(None);
                    }
                }
                if found.parent[block] != dominator {
                    (found.parent[block], changed) = (dominator, true);
                }
            }
            if !changed {
                break;
            }
        }
        found.number(flow);
        Ok(Some(found))
    }

    /// Numbers the tree, so that who dominates whom is told by numbers.
    fn number(&mut self, flow: &FlowGraph) {
        // A block comes after its dominator.
        for &block in flow.order()[1..].iter().rev() {
            self.size[self.parent[block as usize]] += self.size[block as usize];
        }
        let mut next = vec![1; self.parent.len()];
        for &block in &flow.order()[1..] {
            let (block, parent) = (block as usize, self.parent[block as usize]);
            self.first[block] = next[parent];
            next[parent] += self.size[block];
            next[block] = self.first[block] + 1;
        }
    }

    fn meet(&self, mut a: usize, mut b: usize, steps: &mut usize) -> usize {
        while a != b {
            *steps += 1;
            if self.place[a] > self.place[b] {
                a = self.parent[a];
            } else {
                b = self.parent[b];
            }
        }
        a
    }

    /// Whether every way to `block` goes through `over`.
    pub(crate) fn dominates(&self, over: usize, block: usize) -> bool {
        (self.first[over]..self.first[over] + self.size[over]).contains(&self.first[block])
    }

    /// Whether an edge is part of a cycle that no loop has.
    pub(crate) fn is_irreducible(&self, from: usize, to: usize) -> bool {
        self.place[to] <= self.place[from] && !self.dominates(to, from)
    }
}

/// The loops of a function, each after those that it is a part of; `None` if finding them takes too many steps.
///
/// # Errors
/// What the watch says.
pub(crate) fn loops(
    flow: &FlowGraph,
    before: &Predecessors,
    watch: &Watch<'_>,
) -> Result<Option<(Vec<Natural>, Dominators)>, TrapKind> {
    let Some(dominators) = Dominators::new(flow, before, watch)? else { return Ok(None) };
    let mut found: Vec<Natural> = Vec::new();
    // In reverse postorder heads come before what is in their loops, so outer loops come first.
    let mut work = 0;
    let mut inside = vec![usize::MAX; flow.blocks().len()];
    for &head in flow.order() {
        let head = head as usize;
        let latches: Vec<usize> = before.of(head).iter().map(|&block| block as usize).collect();
        let latches: Vec<usize> = latches.into_iter().filter(|&block| dominators.dominates(head, block)).collect();
        watch.tick(8)?;
        if latches.is_empty() {
            continue;
        }
        // Backwards from the latches.
        let number = found.len();
        let mut blocks = vec![head];
        let parent = Some(inside[head]).filter(|&parent| parent != usize::MAX);
        inside[head] = number;
        let mut pending: Vec<usize> = latches.clone();
        while let Some(block) = pending.pop() {
            watch.tick(4)?;
            if std::mem::replace(&mut inside[block], number) != number {
                blocks.push(block);
                pending.extend(before.of(block).iter().map(|&block| block as usize));
            }
        }
        work += blocks.len();
        if work > WORK_MAX {
            return Ok(None);
        }
        blocks.sort_unstable();
        found.push(Natural { head, blocks, latches, parent });
    }
    Ok(Some((found, dominators)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops_of(code: &str) -> Vec<(Vec<usize>, Option<usize>)> {
        let source = format!("func f0 \"f\" (real, int) -> (real)\n regs 4 real, 4 int\n{{\n{code}\n}}");
        let def = crate::bytecode::text::parse(&source, "test.dvs").expect("the code is well-formed");
        let watch = Watch::none();
        let flow = FlowGraph::of(&def.functions[0].body, &watch).expect("nobody stops it");
        let (found, _) =
            loops(&flow, &flow.predecessors(), &watch).expect("nobody stops it").expect("it is little work");
        found.into_iter().map(|found| (found.blocks, found.parent)).collect()
    }

    #[test]
    fn loops_nest() {
        let code =
            "jump outer\n outer:\n sin r0, r0\n jump inner\n inner:\n cos r0, r0\n branch i0, inner, test\n test:
            branch i1, outer, other\n other:\n exp r0, r0\n branch i0, other, done\n done:\n ret (r0)";
        let code = format!("iconst i1, 0\n {code}");
        assert_eq!(loops_of(&code), [(vec![1, 2, 3], None), (vec![2], Some(0)), (vec![4], None)]);
    }

    #[test]
    fn a_loop_with_two_ways_back_is_one() {
        let code =
            "jump head\n head:\n sin r0, r0\n branch i0, one, two\n one:\n jump head\n two:\n branch i0, head, done
            done:\n ret (r0)";
        assert_eq!(loops_of(code), [(vec![1, 2, 3], None)]);
    }

    #[test]
    fn what_has_two_ways_in_is_no_loop() {
        let code =
            "branch i0, one, two\n one:\n sin r0, r0\n jump two\n two:\n branch i0, one, done\n done:\n ret (r0)";
        assert_eq!(loops_of(code), []);
    }
}
