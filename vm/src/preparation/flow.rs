//! A function's control flow: basic blocks and the edges between them.
//!
//! Only what the function's start reaches is there. Instructions that no path reaches obey the verifier, but they are
//! no part of any block: nothing that is derived from a function, its streams, its segments, its native code, ever
//! sees them.

use crate::bytecode::isa::Op;
use crate::bytecode::module::Body;
use crate::code::{Position, Stream};
use crate::preparation::stretch::loads_reference;
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::collections::BTreeSet;
use std::ops::Range;

/// Code that a flow graph can be made of: bytecode and prepared code. Targets are in range, and the last instruction is
/// one behind which control never goes on.
pub(crate) trait ControlFlow {
    /// How many instructions there are.
    fn len(&self) -> usize;
    /// Whether control never reaches the instruction after this one.
    fn ends_block(&self, at: usize) -> bool;
    /// Shows every instruction that this one names.
    fn for_each_target(&self, at: usize, visit: impl FnMut(u32));
}

impl ControlFlow for Body {
    fn len(&self) -> usize {
        self.code.len()
    }

    fn ends_block(&self, at: usize) -> bool {
        self.code[at].op.is_terminator()
    }

    fn for_each_target(&self, at: usize, mut visit: impl FnMut(u32)) {
        let inst = &self.code[at];
        match inst.op {
            Op::Jump => visit(inst.low()),
            Op::Branch => {
                visit(inst.low());
                visit(inst.high());
            }
            Op::Switch => {
                let start = inst.low() as usize;
                self.targets[start..start + usize::from(inst.b)].iter().for_each(|&target| visit(target));
                visit(inst.high());
            }
            op => debug_assert!(!op.has_targets(), "{op:?} leads somewhere"),
        }
    }
}

/// A block of a recording run changes at most so many elements of arrays in place: for each two of them the sweep asks
/// whether they are one.
pub(super) const PUTS_MAX: usize = 8;

/// Whether an instruction may lead to itself or back. Fuel is looked at where one does, and wherever functions are
/// called and return; so nothing goes on forever, and where fuel runs out is the same for every stream of a body.
pub(super) fn leads_back(body: &Body, at: u32) -> bool {
    let mut back = false;
    body.for_each_target(at as usize, |target| back |= target <= at);
    back
}

impl Stream {
    /// The basic blocks that control may come to from the start, in the order of the code.
    pub fn blocks(&self) -> Vec<Range<Position>> {
        let blocks = reached_blocks(self, |_, _| false, &Watch::none()).expect("nobody stops it");
        blocks.into_iter().map(|block| Position(block.start)..Position(block.end)).collect()
    }
}

impl ControlFlow for Stream {
    fn len(&self) -> usize {
        self.code.len()
    }

    fn ends_block(&self, at: usize) -> bool {
        self.code[at].ends_block()
    }

    fn for_each_target(&self, at: usize, mut visit: impl FnMut(u32)) {
        self.code[at].for_each_target(self, |target| visit(target.0));
    }
}

/// A basic block: the range of its instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// The control flow of a function whose targets are in range and whose last instruction is a terminator. Blocks go by
/// their index in the order of the code.
#[derive(Debug)]
pub(crate) struct FlowGraph {
    blocks: Vec<Block>,
    /// Where each block's successors begin in `successors`; one more entry ends the last.
    starts: Vec<u32>,
    successors: Vec<u32>,
    /// All blocks in reverse postorder: but for loops, each comes before its successors.
    order: Vec<u32>,
}

impl FlowGraph {
    /// Linear in the number of instructions and targets.
    ///
    /// # Errors
    /// What the watch says.
    pub(crate) fn of(code: &impl ControlFlow, watch: &Watch<'_>) -> Result<FlowGraph, TrapKind> {
        FlowGraph::cut(code, |_, _| false, watch)
    }

    /// The same for recording runs. No block reads an element of an array that is changed in place behind one that it
    /// changes, nor reads or changes one of an array behind what it appends: so the adjoint of a block takes the
    /// adjoints of what it has appended, then of what it has put, before it adds to those of what it has read. For the
    /// same reason none reads an array that it has appended to or changed, and finished.
    ///
    /// # Errors
    /// What the watch says.
    pub(crate) fn of_recording(body: &Body, watch: &Watch<'_>) -> Result<FlowGraph, TrapKind> {
        let mut puts = 0;
        // The registers of builders that have been appended to, and of arrays that were such.
        let (mut appended, mut finished): (BTreeSet<u16>, BTreeSet<u16>) = Default::default();
        let cut = |at: usize, begins: bool| {
            let inst = &body.code[at];
            let behind = match inst.op {
                Op::Get => puts > 0 || appended.contains(&inst.b),
                Op::Put => puts == PUTS_MAX || appended.contains(&inst.a),
                Op::Elem => finished.contains(&inst.b),
                _ => false,
            };
            let cuts = !begins && behind;
            if begins || cuts {
                puts = 0;
                appended.clear();
                finished.clear();
            }
            match inst.op {
                Op::Put => puts += 1,
                Op::Push | Op::Extend => _ = appended.insert(inst.a),
                Op::Finish if puts > 0 || appended.contains(&inst.b) => _ = finished.insert(inst.a),
                Op::PMov if appended.contains(&inst.b) => _ = appended.insert(inst.a),
                Op::PMov if finished.contains(&inst.b) => _ = finished.insert(inst.a),
                // Nobody knows which one.
                op if op != Op::PMov && loads_reference(op) && !finished.is_empty() => _ = finished.insert(inst.a),
                _ => {}
            }
            cuts
        };
        FlowGraph::cut(body, cut, watch)
    }

    /// Cuts blocks further where `cut` says so, which is told of each instruction whether a block begins with it.
    fn cut(
        code: &impl ControlFlow,
        cut: impl FnMut(usize, bool) -> bool,
        watch: &Watch<'_>,
    ) -> Result<FlowGraph, TrapKind> {
        let blocks = reached_blocks(code, cut, watch)?;
        let mut flow = FlowGraph { blocks, starts: vec![0], successors: Vec::new(), order: Vec::new() };
        let mut targets = Vec::new();
        for index in 0..flow.blocks.len() {
            let end = flow.blocks[index].end;
            let last = end as usize - 1;
            targets.clear();
            code.for_each_target(last, |target| targets.push(target));
            if !code.ends_block(last) {
                targets.push(end);
            }
            watch.tick(4 + 8 * targets.len())?;
            targets.sort_unstable();
            targets.dedup();
            for &target in &targets {
                let successor = flow.block_at(target);
                flow.successors.push(successor as u32);
            }
            flow.starts.push(flow.successors.len() as u32);
        }
        flow.order = flow.postorder();
        flow.order.reverse();
        Ok(flow)
    }

    /// All blocks, in the order of the code. The first one begins the function.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The index of the block that begins at an instruction.
    pub(crate) fn block_at(&self, start: u32) -> usize {
        self.blocks
            .binary_search_by_key(&start, |block| block.start)
            .expect("targets of reached instructions are the starts of blocks")
    }

    /// The blocks that control may go to from a block, each once.
    pub(crate) fn successors(&self, block: usize) -> &[u32] {
        &self.successors[self.starts[block] as usize..self.starts[block + 1] as usize]
    }

    /// How many edges there are.
    pub(crate) fn edge_count(&self) -> usize {
        self.successors.len()
    }

    /// All blocks in reverse postorder.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The blocks that lead to each block.
    pub(crate) fn predecessors(&self) -> Predecessors {
        let mut starts = vec![0u32; self.blocks.len() + 1];
        for &successor in &self.successors {
            starts[successor as usize + 1] += 1;
        }
        for block in 0..self.blocks.len() {
            starts[block + 1] += starts[block];
        }
        let mut next = starts.clone();
        let mut blocks = vec![0; self.successors.len()];
        for block in 0..self.blocks.len() {
            for &successor in self.successors(block) {
                let place = &mut next[successor as usize];
                blocks[*place as usize] = block as u32;
                *place += 1;
            }
        }
        Predecessors { starts, blocks }
    }

    fn postorder(&self) -> Vec<u32> {
        let mut seen = vec![false; self.blocks.len()];
        let mut postorder = Vec::with_capacity(self.blocks.len());
        // The path from the start, with the successors of each block that are still to be visited.
        let mut path = vec![(0u32, self.starts[1])];
        seen[0] = true;
        while let Some((block, left)) = path.last_mut() {
            if *left == self.starts[*block as usize] {
                postorder.push(*block);
                path.pop();
                continue;
            }
            *left -= 1;
            let successor = self.successors[*left as usize];
            if !std::mem::replace(&mut seen[successor as usize], true) {
                path.push((successor, self.starts[successor as usize + 1]));
            }
        }
        postorder
    }
}

/// The blocks that lead to each block of a [`FlowGraph`].
#[derive(Debug)]
pub(crate) struct Predecessors {
    starts: Vec<u32>,
    blocks: Vec<u32>,
}

impl Predecessors {
    pub(crate) fn of(&self, block: usize) -> &[u32] {
        &self.blocks[self.starts[block] as usize..self.starts[block + 1] as usize]
    }
}

/// Follows all paths from the function's start, and cuts what they reach into blocks.
fn reached_blocks(
    code: &impl ControlFlow,
    mut cut: impl FnMut(usize, bool) -> bool,
    watch: &Watch<'_>,
) -> Result<Vec<Block>, TrapKind> {
    let mut reached = vec![false; code.len()];
    let mut leader = vec![false; code.len()];
    leader[0] = true;
    let mut pending = vec![0u32];
    while let Some(start) = pending.pop() {
        let mut at = start as usize;
        while !std::mem::replace(&mut reached[at], true) {
            watch.tick(1)?;
            code.for_each_target(at, |target| {
                if !std::mem::replace(&mut leader[target as usize], true) {
                    pending.push(target);
                }
            });
            if code.ends_block(at) {
                break;
            }
            at += 1;
        }
    }
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = None;
    for at in 0..code.len() {
        watch.tick(1)?;
        let begins = leader[at] || open.is_none();
        if reached[at]
            && (cut(at, begins) || begins)
            && let Some(start) = open.take()
        {
            blocks.push(Block { start, end: at as u32 });
        }
        if reached[at] && open.is_none() {
            open = Some(at as u32);
        }
        if code.ends_block(at)
            && let Some(start) = open.take()
        {
            blocks.push(Block { start, end: at as u32 + 1 });
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::isa::{Operand, Reg, Role};
    use crate::bytecode::module::TypeId;

    /// Code of jumps and branches on `i0`.
    fn body(code: &[(Op, &[u32])]) -> Body {
        let mut body = Body { ints: 1, ..Body::default() };
        for (op, targets) in code {
            let mut operands: Vec<Operand> = targets.iter().map(|&target| Operand::Target(target)).collect();
            match op {
                Op::Branch => operands.insert(0, Operand::Use(Reg::int(0))),
                Op::Ret => operands.push(Operand::Uses(vec![])),
                _ => {}
            }
            body.push(*op, &operands).expect("the operands have the table's roles");
        }
        body
    }

    fn starts(flow: &FlowGraph, blocks: &[u32]) -> Vec<u32> {
        blocks.iter().map(|&block| flow.blocks()[block as usize].start).collect()
    }

    #[test]
    fn blocks_come_before_their_successors_but_for_loops() {
        let code = [(Op::Branch, &[1, 3][..]), (Op::Jump, &[3]), (Op::Ret, &[]), (Op::Branch, &[0, 4]), (Op::Ret, &[])];
        let flow = FlowGraph::of(&body(&code), &Watch::none()).expect("nobody stops it");
        assert_eq!(starts(&flow, flow.order()), [0, 1, 3, 4], "instruction 2 can't be reached");
        assert_eq!(starts(&flow, flow.successors(2)), [0, 4]);
        assert_eq!(starts(&flow, flow.predecessors().of(2)), [0, 1]);
    }

    #[test]
    fn code_that_no_path_reaches_neither_makes_blocks_nor_cuts_any() {
        let code = [(Op::Jump, &[3][..]), (Op::Jump, &[4]), (Op::Branch, &[2, 4]), (Op::Ret, &[]), (Op::Ret, &[])];
        let flow = FlowGraph::of(&body(&code), &Watch::none()).expect("nobody stops it");
        assert_eq!(flow.blocks(), [Block { start: 0, end: 1 }, Block { start: 3, end: 4 }]);
    }

    #[test]
    fn recorded_blocks_read_no_element_behind_one_that_they_change() {
        let mut body = Body { ints: 1, reals: 1, refs: vec![TypeId(0)], ..Body::default() };
        let [real, int, builder] = [Reg::real(0), Reg::int(0), Reg::reference(0)];
        let put = |body: &mut Body| {
            let operands = [Operand::Use(builder), Operand::Use(int), Operand::Use(real)];
            body.push(Op::Put, &operands).expect("the operands have the table's roles");
        };
        let get = |body: &mut Body| {
            let operands = [Operand::Def(real), Operand::Use(builder), Operand::Use(int)];
            body.push(Op::Get, &operands).expect("the operands have the table's roles");
        };
        get(&mut body);
        put(&mut body);
        get(&mut body);
        get(&mut body);
        (0..=PUTS_MAX).for_each(|_| put(&mut body));
        body.push(Op::Ret, &[Operand::Uses(vec![])]).expect("the operands have the table's roles");
        let flow = FlowGraph::of_recording(&body, &Watch::none()).expect("nobody stops it");
        let starts: Vec<u32> = flow.blocks().iter().map(|block| block.start).collect();
        assert_eq!(starts, [0, 2, 4 + PUTS_MAX as u32]);
        assert_eq!((flow.successors(0), flow.successors(1), flow.successors(2)), (&[1][..], &[2][..], &[][..]));
        assert_eq!(FlowGraph::of(&body, &Watch::none()).expect("nobody stops it").blocks().len(), 1);
    }

    #[test]
    fn every_instruction_with_targets_is_a_terminator_that_flow_knows() {
        for &op in Op::ALL {
            let has_targets =
                op.info().operands.iter().any(|operand| matches!(operand.role, Role::Target | Role::Targets));
            let known = matches!(op, Op::Jump | Op::Branch | Op::Switch);
            assert_eq!((has_targets, op.is_terminator() && known), (known, known), "{op:?}");
        }
    }
}
