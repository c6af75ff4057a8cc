//! Where a run has stopped: its frames, as far as anyone will look at them. A run may be millions of calls deep, and it
//! stops because it has no time left, or no memory.

use crate::bytecode::module::FuncId;
use crate::code::{Mode, Position};
use std::collections::VecDeque;

/// So many frames are kept at each end.
const SHOWN: usize = 12;

/// Where an activation stands in its code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) func: FuncId,
    pub(crate) mode: Mode,
    pub(crate) position: Position,
}

/// The frames of a run that has stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// The innermost ones, innermost first.
    innermost: Vec<Place>,
    /// The last ones that were added, without those above.
    outermost: VecDeque<Place>,
    depth: usize,
}

impl Trace {
    pub(crate) fn clear(&mut self) {
        self.innermost.clear();
        self.outermost.clear();
        self.depth = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// Adds the frame that called the last one.
    pub(crate) fn push(&mut self, place: Place) {
        self.depth += 1;
        if self.innermost.len() < SHOWN {
            self.innermost.push(place);
            return;
        }
        if self.outermost.len() == SHOWN {
            self.outermost.pop_front();
        }
        self.outermost.push_back(place);
    }

    /// Adds frames, each of which called the one before.
    pub(crate) fn extend(&mut self, mut places: impl ExactSizeIterator<Item = Place>) {
        while self.innermost.len() < SHOWN
            && let Some(place) = places.next()
        {
            self.push(place);
        }
        let passed_over = places.len().saturating_sub(SHOWN);
        self.depth += passed_over;
        if passed_over > 0 {
            self.outermost.clear();
        }
        places.skip(passed_over).for_each(|place| self.push(place));
    }

    /// The innermost frames, how many are left out, and the outermost frames.
    pub(crate) fn shown(&self) -> (impl Iterator<Item = Place>, usize, impl Iterator<Item = Place>) {
        let omitted = self.depth - self.innermost.len() - self.outermost.len();
        (self.innermost.iter().copied(), omitted, self.outermost.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(n: u32) -> Place {
        Place { func: FuncId(n), mode: Mode::PRIMAL, position: Position(0) }
    }

    fn shown(trace: &Trace) -> (Vec<u32>, usize, Vec<u32>) {
        let (innermost, omitted, outermost) = trace.shown();
        (innermost.map(|place| place.func.0).collect(), omitted, outermost.map(|place| place.func.0).collect())
    }

    #[test]
    fn both_ends_are_kept_however_the_frames_come() {
        for depth in [1, 11, 12, 13, 23, 24, 25, 1000] {
            let mut one_by_one = Trace::default();
            (0..depth).for_each(|n| one_by_one.push(place(n)));
            for cut in [0, 1, 12, 20, depth].into_iter().filter(|&cut| cut <= depth) {
                let mut in_parts = Trace::default();
                in_parts.extend((0..cut).map(place));
                in_parts.extend((cut..depth).map(place));
                assert_eq!(shown(&in_parts), shown(&one_by_one), "{depth} {cut}");
            }
            let (innermost, omitted, outermost) = shown(&one_by_one);
            assert_eq!(innermost, (0..depth.min(12)).collect::<Vec<_>>());
            assert_eq!(innermost.len() + omitted + outermost.len(), depth as usize);
            assert!(depth < 24 || outermost == (depth - 12..depth).collect::<Vec<_>>());
            one_by_one.clear();
            assert!(one_by_one.is_empty());
        }
    }
}
