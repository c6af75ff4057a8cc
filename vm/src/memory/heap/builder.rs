//! Builders: how they begin. Pushing to one is the engines' own; what it means for a tape that one ends is said in
//! [`crate::running::recording`].

use super::object::{ARRAY_HEADER, CAPACITY, LEN, Ref, builder_header};
use super::{Heap, Roots};
use crate::bytecode::isa::Bank;
use crate::trap::TrapKind;

/// A builder for elements of a bank. With `words`, which are of reals, it keeps theirs.
#[inline]
pub(crate) fn build(
    heap: &mut Heap,
    capacity: i64,
    element: Bank,
    words: bool,
    reserved: u64,
    roots: Roots<'_>,
) -> Result<Ref, TrapKind> {
    debug_assert!(!words || element == Bank::Real);
    let cells = u64::try_from(capacity).ok().and_then(|n| n.checked_mul(1 + u64::from(words)));
    let Some(size) = cells.filter(|&n| n < 1 << 48).map(|n| n as usize + ARRAY_HEADER) else {
        return Err(TrapKind::BadCapacity(capacity));
    };
    let builder = heap.allocate(builder_header(element, words), size, reserved, roots)?;
    // SAFETY: the object has a header of four words.
    unsafe {
        *builder.add(LEN) = 0;
        *builder.add(CAPACITY) = capacity as u64;
    }
    Ok(builder)
}
