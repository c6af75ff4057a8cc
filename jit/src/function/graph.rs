//! How control flows between the blocks of a stream.

use dualvm_vm::native::{Position, Stream};
use std::collections::HashMap;
use std::ops::Range;

/// A stream's blocks, in its order, and from which of them control comes to each.
pub(super) struct Graph {
    pub(super) blocks: Vec<Range<Position>>,
    /// By number of the block.
    pub(super) before: Vec<Vec<usize>>,
}

impl Graph {
    pub(super) fn new(stream: &Stream) -> Graph {
        let blocks = stream.blocks();
        let numbers: HashMap<Position, usize> =
            blocks.iter().enumerate().map(|(number, block)| (block.start, number)).collect();
        let mut before = vec![Vec::new(); blocks.len()];
        for (number, block) in blocks.iter().enumerate() {
            let code = &stream.code[block.start.index()..block.end.index()];
            for inst in code {
                inst.for_each_target(stream, |target| before[numbers[&target]].push(number));
            }
            if code.last().is_some_and(|last| !last.ends_block()) {
                before[number + 1].push(number);
            }
        }
        Graph { blocks, before }
    }

    /// To which blocks control goes from each, by number.
    pub(super) fn after(&self) -> Vec<Vec<usize>> {
        let mut after = vec![Vec::new(); self.blocks.len()];
        for (number, before) in self.before.iter().enumerate() {
            before.iter().for_each(|&earlier| after[earlier].push(number));
        }
        after
    }

    /// The number of the block that a position is in.
    pub(super) fn number(&self, at: Position) -> usize {
        self.blocks.partition_point(|block| block.start <= at) - 1
    }

    /// The positions of a block.
    pub(super) fn positions(&self, number: usize) -> impl DoubleEndedIterator<Item = Position> + use<> {
        let Range { start, end } = self.blocks[number];
        (start.0..end.0).map(Position)
    }
}
