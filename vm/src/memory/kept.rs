//! References that records hold: cells that outlive the frames of who made them, and that the heap's evacuation visits.
//!
//! A record holds the address of a cell, which doesn't move. What is in it is a root: the object lives as long as the
//! tape, and when it moves, the cell follows. Only objects above the floor of the task that runs move
//! ([`Heap::raise_floor`](super::heap::Heap::raise_floor)), so only the cells that were made since then are visited,
//! and an evacuation costs what the task itself has kept.

use super::heap::Ref;
use std::ptr::NonNull;

/// Cells of a chunk.
const CHUNK: usize = 512;

/// A chunk of cells, from a box. Records keep pointers to cells, which a box that moves would make invalid.
#[derive(Debug)]
struct Chunk(NonNull<[Ref; CHUNK]>);

// SAFETY: it owns its cells.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new() -> Self {
        Chunk(NonNull::from(Box::leak(Box::new([std::ptr::null_mut(); CHUNK]))))
    }

    fn cell(&self, n: usize) -> *mut Ref {
        debug_assert!(n < CHUNK);
        self.0.as_ptr().cast::<Ref>().wrapping_add(n)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: it came out of a box, and the tape whose records had pointers to it is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A place among the cells: all before it were made earlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    /// Chunks before the one that is being filled.
    chunks: usize,
    /// Cells of that one.
    cells: usize,
}

/// The references that the tapes of an execution hold.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    chunks: Vec<(Chunk, usize)>,
    /// The cells that the running task's evacuations visit begin here.
    floor: Place,
}

impl Kept {
    /// A cell with this object, which lives as long as the tape. The object that was kept last has one already.
    #[cfg_attr(not(test), expect(dead_code, reason = "no kind of record refers to objects yet"))]
    pub(crate) fn keep(&mut self, object: Ref) -> *const Ref {
        if let Some((chunk, used)) = self.chunks.last_mut() {
            // SAFETY: the chunk has so many cells in use, one at least.
            if unsafe { *chunk.cell(*used - 1) } == object {
                return chunk.cell(*used - 1);
            }
            if *used < CHUNK {
                let cell = chunk.cell(*used);
                // SAFETY: the cell is one of the chunk's.
                unsafe { *cell = object };
                *used += 1;
                return cell;
            }
        }
        let chunk = Chunk::new();
        let cell = chunk.cell(0);
        // SAFETY: the cell is the first of the chunk, which is new.
        unsafe { *cell = object };
        self.chunks.push((chunk, 1));
        cell
    }

    /// Memory that cells take.
    pub(crate) fn bytes(&self) -> u64 {
        (self.chunks.len() * size_of::<[Ref; CHUNK]>()) as u64
    }

    /// Where the next cell goes.
    pub(crate) fn place(&self) -> Place {
        self.chunks.last().map_or(Place::default(), |(_, used)| Place { chunks: self.chunks.len() - 1, cells: *used })
    }

    /// Begins a task: the objects of the cells that there are stay where they are until it ends. Returns what is to be
    /// restored then.
    pub(crate) fn raise_floor(&mut self) -> Place {
        let floor = self.place();
        std::mem::replace(&mut self.floor, floor)
    }

    /// Ends a task.
    pub(crate) fn restore_floor(&mut self, floor: Place) {
        self.floor = floor;
    }

    /// The cells that were made since the running task began.
    pub(crate) fn young(&mut self) -> impl Iterator<Item = &mut Ref> {
        let Place { chunks, cells } = self.floor;
        self.chunks.iter_mut().enumerate().skip(chunks).flat_map(move |(n, (chunk, used))| {
            let first = if n == chunks { cells } else { 0 };
            // SAFETY: so many cells of the chunk are in use; nobody else accesses them while the iterator lives.
            (first..*used).map(|n| unsafe { &mut *chunk.cell(n) })
        })
    }

    /// Forgets the cells that were made since.
    pub(crate) fn cut(&mut self, place: Place) {
        let Place { chunks, cells } = place;
        self.chunks.truncate(if cells == 0 { chunks } else { chunks + 1 });
        if let Some((_, used)) = self.chunks.get_mut(chunks) {
            *used = cells;
        }
    }

    /// Takes the cells of an execution that has ended.
    pub(crate) fn absorb(&mut self, other: Kept) {
        self.chunks.extend(other.chunks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(n: usize) -> Ref {
        std::ptr::without_provenance_mut(8 * n)
    }

    fn contents(kept: &mut Kept) -> Vec<usize> {
        kept.young().map(|cell| cell.addr() / 8).collect()
    }

    #[test]
    fn cells_stay_and_tasks_see_their_own() {
        let mut kept = Kept::default();
        let cells: Vec<_> = (1..=1000).map(|n| kept.keep(object(n))).collect();
        assert_eq!(kept.keep(object(1000)), cells[999], "an object that is kept twice in a row has one cell");
        assert_eq!(contents(&mut kept), (1..=1000).collect::<Vec<_>>());
        let before = kept.raise_floor();
        (1001..1600).for_each(|n| _ = kept.keep(object(n)));
        assert_eq!(contents(&mut kept), (1001..1600).collect::<Vec<_>>());
        kept.young().for_each(|cell| *cell = object(5));
        kept.restore_floor(before);
        assert_eq!(contents(&mut kept), (1..=1000).chain([5; 599]).collect::<Vec<_>>());
        // SAFETY: the cells are there.
        assert!(cells.iter().zip(1..).all(|(&cell, n)| unsafe { *cell } == object(n)));
    }

    #[test]
    fn what_is_given_up_is_forgotten() {
        for before in [0, 1, 511, 512, 513, 1024] {
            let mut kept = Kept::default();
            (1..=before).for_each(|n| _ = kept.keep(object(n)));
            let place = kept.place();
            (2000..4000).for_each(|n| _ = kept.keep(object(n)));
            kept.cut(place);
            assert_eq!(contents(&mut kept), (1..=before).collect::<Vec<_>>());
            _ = kept.keep(object(9000));
            let mut other = Kept::default();
            _ = other.keep(object(9001));
            kept.absorb(other);
            _ = kept.keep(object(9002));
            assert_eq!(contents(&mut kept), (1..=before).chain(9000..=9002).collect::<Vec<_>>());
        }
    }
}
