//! Places in the address space for stacks that grow where they are.
//!
//! A stack can't move, so it can only grow into what follows it. The system puts what comes without an address at the
//! ends of the address space, one beside the other; a stack there would have a neighbour at once. So stacks say where
//! they want to be, as the heaps of other runtimes do (Go, mimalloc): in the wide middle, each with nothing behind it
//! for as far as it may grow. A place is a range of addresses that this library hands out once at a time. It is no
//! memory and no reservation: the system knows nothing of it, and who else asks for addresses there may get them. Then
//! the stack has to do with what it has, or the next run looks for another place.

use super::{EXTENT_MIN, EXTENT_STEP};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A place takes at most this part of what is free, so that there are always more.
const SHARE: usize = 64;

const GIB: usize = 1 << 30;
const TIB: usize = 1 << 40;
/// Where systems put nothing of their own: not near the ends, not where programs are loaded, and not around a quarter
/// and a third of the address space, from where some go on if stacks are not limited. The second list is for systems
/// that give a process no more than 39 bits.
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges")]
const AREAS: [&[Range<usize>]; 2] =
    [&[22 * TIB..40 * TIB, 44 * TIB..62 * TIB, 66 * TIB..84 * TIB], &[64 * GIB..320 * GIB]];

/// What is free.
#[derive(Debug)]
pub(super) struct Places {
    /// Sorted, and with something between them; `None` before the first place.
    free: Option<Vec<Range<usize>>>,
}

static PLACES: Mutex<Places> = Mutex::new(Places { free: None });

/// A place of `bytes` bytes; of less, if there isn't so much left; none if stacks can't have addresses of their choice.
/// `is_granted` says whether they may have this address.
pub(super) fn take(bytes: usize, is_granted: impl Fn(usize) -> bool) -> Option<Range<usize>> {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    places.free.get_or_insert_with(|| look_around(is_granted));
    places.take(bytes)
}

/// Gives a place back that nothing is in.
pub(super) fn give_back(place: Range<usize>) {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner).give_back(place);
}

/// The areas that the system lets stacks have. They begin somewhere, so that addresses can't be guessed and two copies
/// of this library in a process don't meet.
fn look_around(is_granted: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let chance = RandomState::new().hash_one(0) as usize;
    let areas = AREAS.iter().map(|areas| {
        let later =
            areas.iter().map(|area| area.start + chance % (area.len() / 4) / EXTENT_STEP * EXTENT_STEP..area.end);
        later.filter(|area| is_granted(area.start)).collect::<Vec<_>>()
    });
    areas.into_iter().find(|areas| !areas.is_empty()).unwrap_or_default()
}

impl Places {
    fn take(&mut self, bytes: usize) -> Option<Range<usize>> {
        let free = self.free.as_mut()?;
        let left: usize = free.iter().map(Range::len).sum();
        let mut bytes = bytes.min(left / SHARE);
        while bytes >= EXTENT_MIN {
            bytes -= bytes % EXTENT_STEP;
            if let Some(range) = free.iter_mut().find(|range| range.len() >= bytes) {
                let start = range.start;
                range.start += bytes;
                return Some(start..start + bytes);
            }
            bytes /= 2;
        }
        None
    }

    fn give_back(&mut self, place: Range<usize>) {
        let free = self.free.as_mut().expect("the place came from here");
        free.push(place);
        free.sort_unstable_by_key(|range| range.start);
        free.dedup_by(|next, range| {
            let is_next = range.end == next.start;
            if is_next {
                range.end = next.end;
            }
            is_next
        });
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges")]
mod tests {
    use super::*;

    fn places(bytes: usize) -> Places {
        Places { free: Some(vec![TIB..TIB + bytes]) }
    }

    #[test]
    fn places_do_not_overlap_and_become_one_when_they_are_given_back() {
        let mut places = places(SHARE * GIB);
        let mut taken: Vec<Range<usize>> =
            (0..20).map(|n| places.take((n + 20) * EXTENT_STEP).expect("it's free")).collect();
        for (n, place) in taken.iter().enumerate() {
            assert_eq!((place.len(), place.start % EXTENT_STEP), ((n + 20) * EXTENT_STEP, 0));
            assert!(taken[..n].iter().all(|other| other.end <= place.start || place.end <= other.start));
        }
        // Every third first, in and against their order.
        taken.sort_by_key(|place| place.start / EXTENT_STEP % 3);
        taken.into_iter().for_each(|place| places.give_back(place));
        assert_eq!(places.free, Some(vec![TIB..TIB + SHARE * GIB]));
    }

    #[test]
    fn there_are_always_more_places_until_they_are_of_no_use() {
        let mut places = places(256 * GIB);
        let sizes: Vec<usize> = std::iter::from_fn(|| places.take(16 * GIB)).map(|place| place.len()).collect();
        assert_eq!(sizes[0], 4 * GIB);
        assert!(sizes.is_sorted_by(|one, next| one >= next));
        assert!(sizes.len() > 300 && sizes.iter().all(|&bytes| bytes >= EXTENT_MIN), "{}", sizes.len());
    }

    #[test]
    fn areas_are_those_that_are_granted() {
        let all = look_around(|_| true);
        assert_eq!(all.len(), 3);
        let inside = |area: &Range<usize>, of: &Range<usize>| of.start <= area.start && area.end == of.end;
        assert!(all.iter().zip(AREAS[0]).all(|(area, of)| inside(area, of) && area.len() > of.len() / 2));
        let low = look_around(|start| start < 512 * GIB);
        assert!(low.len() == 1 && inside(&low[0], &AREAS[1][0]), "{low:?}");
        assert!(look_around(|_| false).is_empty());
    }
}
