//! Builders: how they begin. Pushing to one is the engines' own; what it means for a tape that one ends is said in
//! [`crate::running::recording`].

use super::object::{ARRAY_HEADER, CAPACITY, LEN, Ref, builder_header};
use super::planes::{self, Depth};
use super::{Heap, Roots};
use crate::bytecode::isa::Bank;
use crate::trap::TrapKind;

/// A builder for elements of a bank, for code of a depth. With `words`, which are of reals, it keeps theirs.
#[inline]
pub(crate) fn build(
    heap: &mut Heap,
    capacity: i64,
    (element, words, depth): (Bank, bool, u32),
    reserved: u64,
    roots: Roots<'_>,
) -> Result<Ref, TrapKind> {
    debug_assert!(!words || element == Bank::Real);
    let cells = u64::try_from(capacity).ok().and_then(|n| n.checked_mul(1 + u64::from(words)));
    let Some(unit) = cells.filter(|&n| n < 1 << 48).map(|n| n as usize) else {
        return Err(TrapKind::BadCapacity(capacity));
    };
    let header = builder_header(element, words);
    // What holds integers never reaches a component.
    let deep = depth > 0 && element != Bank::Int;
    let planes = if element == Bank::Real { depth } else { 0 };
    let (header, size) =
        if deep { (planes::deep(header), planes::array_size(unit, planes)) } else { (header, ARRAY_HEADER + unit) };
    let builder = heap.allocate(header, size, reserved, roots)?;
    // SAFETY: the object has a header of four words, and a depth word behind its cells if it is deep.
    unsafe {
        *builder.add(LEN) = 0;
        *builder.add(CAPACITY) = capacity as u64;
        if deep {
            *builder.add(ARRAY_HEADER + unit) = Depth::new(planes, depth, size).bits();
        }
    }
    Ok(builder)
}
