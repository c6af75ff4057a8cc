//! References that records hold: cells that outlive the frames of who made them, and that the heap's evacuation visits.
//!
//! A record holds the address of a cell, which doesn't move. What is in it is a root: the object lives as long as the
//! tape, and when it moves, the cell follows. Only objects above the floor of the task that runs move
//! ([`Heap::raise_floor`](super::heap::Heap::raise_floor)), so only the cells that were made since then are visited,
//! and an evacuation costs what the task itself has kept.
//!
//! What a record reads of an array that is borrowed of the host are its elements, which stay where they are. Its cell
//! is no root: it holds the address where the array would begin if its elements followed its header, marked by
//! [`NO_OBJECT`].

use super::heap::{self, ARRAY_HEADER, Ref};
use std::mem::offset_of;
use std::ptr::NonNull;

/// Cells of a chunk: so many a record may ask for at once.
pub(crate) const CHUNK: usize = 512;
/// So many chunks, 256 KiB, are kept for the next run.
const SPARE_MAX: usize = 64;

/// The bit of a cell's content that says that no object is there. Addresses leave it free.
pub(crate) const NO_OBJECT: u32 = 63;

/// What a cell holds for a record that reads elements of an array.
///
/// # Safety
/// `array` is a complete array.
#[inline(always)]
pub(crate) unsafe fn content_for(array: Ref) -> Ref {
    // SAFETY: promised by the caller.
    unsafe {
        match heap::is_borrowed(*array) {
            false => array,
            true => heap::base_of(array).map_addr(|address| address | 1 << NO_OBJECT),
        }
    }
}

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
        debug_assert!(n <= CHUNK);
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
#[derive(Debug)]
pub(crate) struct Kept {
    /// Each with how many of its cells are in use; for the last one, `top` says that.
    chunks: Vec<(Chunk, usize)>,
    /// Where the next cell goes, and the end of the last chunk. Native code moves the first.
    top: *mut Ref,
    end: *mut Ref,
    /// The cells that the running task's evacuations visit begin here.
    floor: Place,
    /// Chunks of earlier runs.
    spare: Vec<Chunk>,
}

// SAFETY: the pointers lead into its chunks.
unsafe impl Send for Kept {}

impl Default for Kept {
    fn default() -> Self {
        let null = std::ptr::null_mut();
        Kept { chunks: Vec::new(), top: null, end: null, floor: Place::default(), spare: Vec::new() }
    }
}

impl Kept {
    // Where native code finds fields.
    pub(crate) const TOP: usize = offset_of!(Kept, top);
    pub(crate) const END: usize = offset_of!(Kept, end);

    /// A cell with this object, which lives as long as the tape; `None` if there is no room for it.
    #[inline(always)]
    pub(crate) fn keep(&mut self, object: Ref) -> Option<*const Ref> {
        if self.top == self.end {
            return None;
        }
        let cell = self.top;
        // SAFETY: the cell is one of the last chunk, and nobody's.
        unsafe {
            *cell = object;
            self.top = cell.add(1);
        }
        Some(cell)
    }

    /// Whether there is room for so many cells.
    #[inline(always)]
    pub(crate) fn has_room(&self, cells: usize) -> bool {
        self.end.addr() - self.top.addr() >= cells * size_of::<Ref>()
    }

    /// Makes room for [`CHUNK`] more cells.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self) {
        self.close();
        let chunk = self.spare.pop().unwrap_or_else(Chunk::new);
        self.chunks.push((chunk, 0));
        // So that the next run finds room for it there.
        self.spare.reserve(self.chunks.len().min(SPARE_MAX));
        self.open();
    }

    /// Forgets all cells. Some memory is kept for the next run.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.floor = Place::default();
        // Most small runs keep nothing.
        if !self.chunks.is_empty() {
            self.spare_chunks();
        }
    }

    #[inline(never)]
    fn spare_chunks(&mut self) {
        let room = SPARE_MAX.saturating_sub(self.spare.len());
        self.chunks.truncate(room);
        self.spare.extend(self.chunks.drain(..).map(|(chunk, _)| chunk));
        self.open();
    }

    /// Notes how much of the last chunk is in use.
    fn close(&mut self) {
        let used = self.used();
        if let Some((_, last)) = self.chunks.last_mut() {
            *last = used;
        }
    }

    /// Goes on in the last chunk.
    fn open(&mut self) {
        let null = std::ptr::null_mut();
        let place = |(chunk, used): &(Chunk, usize)| (chunk.cell(*used), chunk.cell(CHUNK));
        (self.top, self.end) = self.chunks.last().map_or((null, null), place);
    }

    /// Cells of the last chunk in use.
    fn used(&self) -> usize {
        CHUNK - (self.end.addr() - self.top.addr()) / size_of::<Ref>()
    }

    /// Memory that cells take.
    pub(crate) fn bytes(&self) -> u64 {
        (self.chunks.len() * size_of::<[Ref; CHUNK]>()) as u64
    }

    /// Memory that cells take which were made since the running task began.
    pub(crate) fn young_bytes(&self) -> u64 {
        let Place { chunks, cells } = self.place();
        let made = (chunks * CHUNK + cells).saturating_sub(self.floor.chunks * CHUNK + self.floor.cells);
        (made * size_of::<Ref>()) as u64
    }

    /// Where the next cell goes.
    pub(crate) fn place(&self) -> Place {
        self.chunks.len().checked_sub(1).map_or(Place::default(), |chunks| Place { chunks, cells: self.used() })
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

    /// The cells that were made since the running task began and hold objects.
    pub(crate) fn young(&mut self) -> impl Iterator<Item = &mut Ref> {
        self.close();
        let Place { chunks, cells } = self.floor;
        self.chunks.iter_mut().enumerate().skip(chunks).flat_map(move |(n, (chunk, used))| {
            let first = if n == chunks { cells } else { 0 };
            // SAFETY: so many cells of the chunk are in use; nobody else accesses them while the iterator lives.
            (first..*used).map(|n| unsafe { &mut *chunk.cell(n) }).filter(|cell| cell.addr() >> NO_OBJECT == 0)
        })
    }

    /// Forgets the cells that were made since.
    pub(crate) fn cut(&mut self, place: Place) {
        let Place { chunks, cells } = place;
        self.chunks.truncate(if cells == 0 { chunks } else { chunks + 1 });
        if let Some((_, used)) = self.chunks.get_mut(chunks) {
            *used = cells;
        }
        self.open();
    }

    /// Takes the cells of an execution that has ended.
    pub(crate) fn absorb(&mut self, mut other: Kept) {
        self.close();
        other.close();
        self.chunks.append(&mut other.chunks);
        self.open();
    }
}

/// The object in a cell, as an address: both are integers where derived code handles them. Cells in a tape need not be
/// aligned, nor need arrays. Of an array only the elements need be there.
///
/// # Safety
/// The cell is there, and nothing moves as long as the address is used.
#[inline(always)]
pub(crate) unsafe fn object_in(cell: i64) -> i64 {
    let cell = std::ptr::with_exposed_provenance::<Ref>(cell as usize);
    // SAFETY: promised by the caller.
    let object = unsafe { cell.read_unaligned() }.expose_provenance();
    (object & !(1 << NO_OBJECT)) as i64
}

/// An element of the array of reals or of integers at an address: of a real the primal, as bits.
///
/// # Safety
/// It is there, and has the element.
#[inline(always)]
pub(crate) unsafe fn element_at(object: i64, index: i64) -> u64 {
    let element = (object as usize).wrapping_add(8 * (ARRAY_HEADER + index as usize));
    // SAFETY: promised by the caller.
    unsafe { std::ptr::with_exposed_provenance::<u64>(element).read_unaligned() }
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

    fn keep(kept: &mut Kept, n: usize) -> *const Ref {
        kept.keep(object(n)).unwrap_or_else(|| {
            kept.make_room();
            kept.keep(object(n)).expect("there is room now")
        })
    }

    #[test]
    fn cells_stay_and_tasks_see_their_own() {
        let mut kept = Kept::default();
        let cells: Vec<_> = (1..=1000).map(|n| keep(&mut kept, n)).collect();
        assert_eq!(contents(&mut kept), (1..=1000).collect::<Vec<_>>());
        let before = kept.raise_floor();
        (1001..1600).for_each(|n| _ = keep(&mut kept, n));
        assert_eq!(contents(&mut kept), (1001..1600).collect::<Vec<_>>());
        kept.young().for_each(|cell| *cell = object(5));
        kept.restore_floor(before);
        assert_eq!(contents(&mut kept), (1..=1000).chain([5; 599]).collect::<Vec<_>>());
        // SAFETY: the cells are there.
        assert!(cells.iter().zip(1..).all(|(&cell, n)| unsafe { *cell } == object(n)));
    }

    #[test]
    fn cells_for_which_a_chunk_has_no_room_left_stand_in_the_next_one() {
        let mut kept = Kept::default();
        (1..CHUNK).for_each(|n| _ = keep(&mut kept, n));
        assert!(kept.has_room(1) && !kept.has_room(2));
        let place = kept.place();
        kept.make_room();
        assert!(kept.has_room(CHUNK));
        let cells = [2001, 2002].map(|n| keep(&mut kept, n));
        assert_eq!(cells[0].wrapping_add(1), cells[1]);
        let all = |rest: &[usize]| (1..CHUNK).chain(rest.iter().copied()).collect::<Vec<_>>();
        assert_eq!(contents(&mut kept), all(&[2001, 2002]));
        let mut other = Kept::default();
        _ = keep(&mut other, 3000);
        kept.absorb(other);
        assert_eq!(contents(&mut kept), all(&[2001, 2002, 3000]));
        kept.cut(place);
        assert_eq!(contents(&mut kept), all(&[]));
        _ = keep(&mut kept, 4000);
        assert_eq!(contents(&mut kept), all(&[4000]));
    }

    #[test]
    fn what_is_given_up_is_forgotten() {
        for before in [0, 1, 511, 512, 513, 1024] {
            let mut kept = Kept::default();
            (1..=before).for_each(|n| _ = keep(&mut kept, n));
            let place = kept.place();
            (2000..4000).for_each(|n| _ = keep(&mut kept, n));
            kept.cut(place);
            assert_eq!(contents(&mut kept), (1..=before).collect::<Vec<_>>());
            _ = keep(&mut kept, 9000);
            let mut other = Kept::default();
            _ = keep(&mut other, 9001);
            kept.absorb(other);
            _ = keep(&mut kept, 9002);
            assert_eq!(contents(&mut kept), (1..=before).chain(9000..=9002).collect::<Vec<_>>());
            kept.clear();
            assert_eq!((contents(&mut kept), kept.bytes(), kept.place()), (Vec::new(), 0, Place::default()));
            _ = keep(&mut kept, 9003);
            assert_eq!(contents(&mut kept), [9003]);
        }
    }
}
