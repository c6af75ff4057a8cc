//! Chains: objects of which each is the last field of the one before, while the last one's is still open.
//!
//! A chain that is not empty is an object with two references, to the first cell and to the last one, and an integer
//! that says where the last one's open field is. The empty chain is the null reference: most recursions that end at
//! once make no object. A cell's open field is null; nobody reads it, because the cells are reached through the chain
//! only until that is finished. From then on its reference to the last cell is null.
//!
//! What is written to a cell is younger than the cell. That needs no care: all references of what moves are followed,
//! and a chain stays in the task that has begun it, so that its cells are above the task's floor.

use super::object::{Fields, LARGE_WORDS, OBJECT_HEADER, OWNER, Ref, fields_of, object_header, owner_of, set_owner};
use crate::bytecode::verify::limits::FIELDS_MAX;
use crate::word::Owner;

/// Words of a chain's object.
pub const CHAIN_WORDS: usize = OBJECT_HEADER + 3;
/// Index of the open field's place, in bytes from the start of the last cell.
pub const CHAIN_OPEN: usize = OBJECT_HEADER;
/// Index of the first cell.
pub const CHAIN_FIRST: usize = OBJECT_HEADER + 1;
/// Index of the last cell; null if the chain is finished.
pub const CHAIN_LAST: usize = OBJECT_HEADER + 2;

// A cell and a chain that are allocated at once are two small objects, which can move apart: an object with memory of
// its own would be followed by one that nobody finds. No field takes more than two words.
const _: () = assert!(OBJECT_HEADER + 2 * FIELDS_MAX + CHAIN_WORDS <= LARGE_WORDS);

/// Word 0 of a chain's object.
pub fn chain_header() -> u64 {
    object_header(Fields { reals: 0, ints: 1, refs: 2 }, 0)
}

/// How many words are to be allocated at once for a cell of so many words: those of the chain too if it begins.
///
/// # Safety
/// `chain` is a chain.
pub(crate) unsafe fn words_to_push(chain: Ref, cell_words: usize) -> usize {
    if chain.is_null() { cell_words + CHAIN_WORDS } else { cell_words }
}

/// Whether a chain is finished.
///
/// # Safety
/// `chain` is a chain.
pub(crate) unsafe fn is_finished(chain: Ref) -> bool {
    // SAFETY: promised by the caller; the empty chain is null.
    unsafe { !chain.is_null() && (*chain.add(CHAIN_LAST).cast::<Ref>()).is_null() }
}

/// Appends a cell to a chain and returns the chain.
///
/// # Safety
/// `chain` is a chain that is not finished. `cell` is an object of `words` words but for its last field, which is the
/// last word; as much memory was allocated with it as [`words_to_push`] says.
pub(crate) unsafe fn push(chain: Ref, cell: Ref, words: usize) -> Ref {
    // SAFETY: promised by the caller.
    unsafe {
        if !chain.is_null() {
            link(chain, cell, words - 1, false);
            return chain;
        }
        let new = cell.add(words);
        *new = chain_header();
        *new.add(OWNER) = 0;
        link(new, cell, words - 1, true);
        new
    }
}

/// A chain's object that has no cell yet, while its first one is made.
///
/// # Safety
/// There is room for it, with its header.
pub(crate) unsafe fn prepare(new: Ref) {
    // SAFETY: promised by the caller.
    unsafe {
        *new.add(CHAIN_FIRST).cast::<Ref>() = std::ptr::null_mut();
        *new.add(CHAIN_LAST).cast::<Ref>() = std::ptr::null_mut();
    }
}

/// Appends a cell to a chain's object, or makes it the first one. Its last field, at the index `open`, becomes the open
/// one.
///
/// # Safety
/// `chain` has an open field, or no cell yet. `cell` is complete but for its last field.
pub(crate) unsafe fn link(chain: Ref, cell: Ref, open: usize, is_first: bool) {
    // SAFETY: promised by the caller.
    unsafe {
        *cell.add(open).cast::<Ref>() = std::ptr::null_mut();
        if is_first {
            *chain.add(CHAIN_FIRST).cast::<Ref>() = cell;
        } else {
            *open_field(chain) = cell;
        }
        *chain.add(CHAIN_OPEN) = 8 * open as u64;
        *chain.add(CHAIN_LAST).cast::<Ref>() = cell;
    }
}

/// Finishes a chain with the object that becomes the last cell's last field, and returns the first object.
///
/// # Safety
/// `chain` is a chain that is not finished.
pub(crate) unsafe fn finish(chain: Ref, tail: Ref) -> Ref {
    if chain.is_null() {
        return tail;
    }
    // SAFETY: promised by the caller.
    unsafe {
        *open_field(chain) = tail;
        let first = *chain.add(CHAIN_FIRST).cast::<Ref>();
        // Whoever still holds the chain must not keep its objects alive.
        *chain.add(CHAIN_FIRST).cast::<Ref>() = std::ptr::null_mut();
        *chain.add(CHAIN_LAST).cast::<Ref>() = std::ptr::null_mut();
        first
    }
}

/// Gives the cells of what a chain has become their owner, from the first one to its tail: all before one that has an
/// owner have one, too. Until then each one tells of itself alone.
///
/// # Safety
/// The tail is the last field of the last of some objects of which each is the last field of the one before.
pub(crate) unsafe fn settle(first: Ref, tail: Ref, owner: Owner) {
    // SAFETY: promised by the caller; the last field of an object is its last word.
    unsafe {
        let next = |cell: Ref| *cell.add(fields_of(*cell).size() - 1).cast::<Ref>();
        let (mut owned, mut cell) = (std::ptr::null_mut(), first);
        while cell != tail {
            let after = next(cell);
            if !owner_of(cell).is_nobody() || (after == tail && !owner_of(tail).is_nobody()) {
                owned = cell;
            }
            cell = after;
        }
        let mut cell = first;
        while !owned.is_null() {
            set_owner(cell, owner);
            if cell == owned {
                break;
            }
            cell = next(cell);
        }
    }
}

/// The last cell's open field.
///
/// # Safety
/// `chain` is a chain that is neither empty nor finished.
unsafe fn open_field(chain: Ref) -> *mut Ref {
    // SAFETY: promised by the caller.
    unsafe { (*chain.add(CHAIN_LAST).cast::<Ref>()).byte_add(*chain.add(CHAIN_OPEN) as usize).cast() }
}

#[cfg(test)]
mod tests {
    use super::super::{Heap, Roots, fields_of};
    use super::*;
    use crate::memory::pool::SlabPool;
    use std::sync::Arc;

    /// A cell of a number and the next cell.
    const CELL: Fields = Fields { reals: 0, ints: 1, refs: 1 };
    const NULL: Ref = std::ptr::null_mut();

    fn heap() -> Heap {
        Heap::new(Arc::new(SlabPool::default()))
    }

    /// Allocates without an evacuation, as native code and the interpreter do as long as there is room.
    fn cell(heap: &mut Heap, fields: Fields, words: usize) -> Ref {
        heap.allocate(object_header(fields, 1), words, 0, Roots::none()).expect("there is room")
    }

    /// Appends a number to a chain.
    fn push_number(heap: &mut Heap, chain: Ref, number: u64) -> Ref {
        // SAFETY: it is a chain of this heap, and `words_to_push` says how much a cell needs.
        unsafe {
            assert!(!is_finished(chain));
            let cell = cell(heap, CELL, words_to_push(chain, CELL.size()));
            *cell.add(CELL.int_at(0)) = number;
            push(chain, cell, CELL.size())
        }
    }

    /// The numbers of cells up to a null reference.
    fn numbers(mut cell: Ref) -> Vec<u64> {
        let mut found = Vec::new();
        while !cell.is_null() {
            // SAFETY: it is a cell that is finished.
            unsafe {
                found.push(*cell.add(CELL.int_at(0)));
                cell = *cell.add(CELL.ref_at(0)).cast();
            }
        }
        found
    }

    fn evacuate(heap: &mut Heap, frames: &mut [Ref]) {
        heap.evacuate(Roots { frames, kept: None }).expect("there is room");
    }

    /// Words that objects take in the heap's last slab.
    fn used(heap: &Heap) -> usize {
        let slab = heap.slabs.last().expect("there are objects");
        (heap.top.addr() - slab.objects().addr()) / 8
    }

    #[test]
    fn cells_follow_each_other_in_the_order_of_pushes() {
        let mut heap = heap();
        let mut chain = NULL;
        for number in 0..20 {
            let before = chain;
            chain = push_number(&mut heap, chain, number);
            assert!(before.is_null() || before == chain);
        }
        // SAFETY: it is a chain.
        let list = unsafe { finish(chain, NULL) };
        assert_eq!(numbers(list), (0..20).collect::<Vec<_>>());
        // SAFETY: it is a chain.
        assert!(unsafe { is_finished(chain) });
        let other = push_number(&mut heap, NULL, 20);
        // SAFETY: it is a chain that is not finished.
        assert_eq!(numbers(unsafe { finish(other, list) })[..3], [20, 0, 1]);
    }

    #[test]
    fn an_empty_chain_is_its_tail() {
        let mut heap = heap();
        // SAFETY: the null reference is the empty chain.
        unsafe {
            assert!(!is_finished(NULL));
            assert_eq!(finish(NULL, NULL), NULL);
            let tail = finish(push_number(&mut heap, NULL, 7), NULL);
            assert_eq!(finish(NULL, tail), tail);
        }
    }

    #[test]
    fn cells_before_one_with_an_owner_get_one() {
        let mut heap = heap();
        let task = Owner::of(std::ptr::without_provenance(64));
        // Which of four cells have an owner when they are made, whether the tail has, and how many have in the end.
        for (owned, is_tail_owned, expected) in [
            (&[][..], false, 0),
            (&[0], false, 1),
            (&[2], false, 3),
            (&[0, 3], false, 4),
            (&[1], true, 4),
            (&[], true, 4),
        ] {
            // SAFETY: they are cells of this heap, in chains that are not finished.
            unsafe {
                let tail = cell(&mut heap, CELL, CELL.size());
                set_owner(tail, if is_tail_owned { task } else { Owner::NOBODY });
                let mut chain = NULL;
                for number in 0..4 {
                    chain = push_number(&mut heap, chain, number);
                    let last = *chain.add(CHAIN_LAST).cast::<Ref>();
                    set_owner(last, if owned.contains(&number) { task } else { Owner::NOBODY });
                }
                let first = finish(chain, tail);
                settle(first, tail, task);
                let mut at = first;
                for number in 0..4 {
                    assert_eq!(!owner_of(at).is_nobody(), number < expected, "{owned:?}, {is_tail_owned}: {number}");
                    at = *at.add(CELL.ref_at(0)).cast();
                }
                assert_eq!((at, !owner_of(tail).is_nobody()), (tail, is_tail_owned));
                settle(tail, tail, task);
            }
        }
    }

    #[test]
    fn chains_move_between_pushes() {
        let mut heap = heap();
        // The chain by two names, a cell in the middle, and another chain, which nobody finishes.
        let mut frames = [NULL; 4];
        for number in 0..if cfg!(miri) { 12 } else { 300 } {
            frames[0] = push_number(&mut heap, frames[0], number);
            frames[1] = frames[0];
            if number % 5 == 1 {
                frames[3] = push_number(&mut heap, frames[3], number);
            }
            if number == 4 {
                // SAFETY: the chain has cells.
                frames[2] = unsafe { *frames[0].add(CHAIN_LAST).cast::<Ref>() };
            }
            push_number(&mut heap, NULL, 1_000);
            if number % 3 == 0 {
                evacuate(&mut heap, &mut frames);
                assert_eq!(frames[0], frames[1]);
            }
        }
        // SAFETY: it is a chain that is not finished.
        let list = unsafe { finish(frames[1], NULL) };
        let expected: Vec<u64> = (0..if cfg!(miri) { 12 } else { 300 }).collect();
        assert_eq!(numbers(list), expected);
        assert_eq!(numbers(frames[2]), expected[4..]);
        // What is finished can be moved, too.
        let mut frames = [list, frames[0]];
        evacuate(&mut heap, &mut frames);
        assert_eq!(numbers(frames[0]), expected);
        // SAFETY: it is a chain.
        assert!(unsafe { is_finished(frames[1]) });
    }

    #[test]
    fn a_finished_chain_keeps_nothing_alive() {
        let mut heap = heap();
        let chain = (0..50).fold(NULL, |chain, number| push_number(&mut heap, chain, number));
        let mut frames = [chain];
        evacuate(&mut heap, &mut frames);
        assert_eq!(used(&heap), 50 * CELL.size() + CHAIN_WORDS);
        // SAFETY: it is a chain that is not finished.
        unsafe { finish(frames[0], NULL) };
        evacuate(&mut heap, &mut frames);
        assert_eq!(used(&heap), CHAIN_WORDS);
    }

    #[test]
    fn open_fields_are_where_their_cells_have_them() {
        let mut heap = heap();
        // Cells of several sizes, the largest of which an object can be: references first, then the open one.
        let sizes = [(0, 0, 1), (3, 1, 1), (0, 0, 2), (254, 0, 1), (0, 254, 1), (1, 0, 254)];
        let fields = sizes.map(|(reals, ints, refs)| Fields { reals, ints, refs });
        let mut frames = [NULL];
        for fields in fields {
            // SAFETY: it is a chain of this heap; the cell's references are null but for the open one.
            unsafe {
                let words = words_to_push(frames[0], fields.size());
                let cell = cell(&mut heap, fields, words);
                (OBJECT_HEADER..fields.size() - 1).for_each(|at| *cell.add(at) = 0);
                frames[0] = push(frames[0], cell, fields.size());
            }
            evacuate(&mut heap, &mut frames);
        }
        // SAFETY: it is a chain that is not finished.
        let mut at = unsafe { finish(frames[0], NULL) };
        for fields in fields {
            // SAFETY: it is a cell with these fields.
            unsafe {
                assert_eq!(fields_of(*at), fields);
                at = *at.add(fields.ref_at(fields.refs - 1)).cast();
            }
        }
        assert!(at.is_null());
    }

    #[test]
    fn a_task_appends_to_its_own_chain_only() {
        let mut heap = heap();
        let outer = push_number(&mut heap, NULL, 1);
        let floor = heap.raise_floor();
        let mut frames = [outer, push_number(&mut heap, NULL, 2)];
        evacuate(&mut heap, &mut frames);
        assert_eq!(frames[0], outer);
        frames[1] = push_number(&mut heap, frames[1], 3);
        evacuate(&mut heap, &mut frames);
        // SAFETY: it is a chain that is not finished.
        frames[1] = unsafe { finish(frames[1], NULL) };
        heap.restore_floor(floor);
        // The task's list is a part of what it was called for.
        frames[0] = push_number(&mut heap, frames[0], 4);
        // SAFETY: it is a chain that is not finished.
        frames[0] = unsafe { finish(frames[0], frames[1]) };
        evacuate(&mut heap, &mut frames);
        assert_eq!(numbers(frames[0]), [1, 4, 2, 3]);
    }
}
