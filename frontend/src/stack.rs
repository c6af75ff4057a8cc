//! Recursion over trees of bounded height, on a stack that grows when it must.

/// Left on the stack when a new piece is taken; no function of the compiler needs more between two calls of [`grown`].
const RED_ZONE_BYTES: usize = 128 * 1024;
const PIECE_BYTES: usize = 2 * 1024 * 1024;

/// Runs `work` with enough stack for one more level of recursion.
pub(crate) fn grown<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE_BYTES, PIECE_BYTES, work)
}
