//! The memory of runs: stacks, the heap, slabs that heaps and tapes are made of, and what is kept between runs.

pub(crate) mod heap;
pub(crate) mod idle;
pub(crate) mod kept;
pub(crate) mod pool;
pub(crate) mod prefetch;
pub(crate) mod stack;
