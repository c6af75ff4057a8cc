//! The memory that heaps and tapes are made of: slabs, and blocks for objects that are too large for a slab.
//!
//! A slab is [`SLAB_BYTES`] of memory at a fixed address, a multiple of its size. Slabs come from a bump arena that is
//! never reset and go back to a free list, so that a second run reuses memory that is already mapped: the first touch
//! of a fresh page costs an order of magnitude more than writing a record.
//!
//! The same goes for blocks, 8 MB of which have 2,000 pages. They come from the system in size classes, eight to each
//! doubling, so that a block is at most an eighth larger than what was asked for. Free ones are kept by class, up to
//! [`KEPT_BYTES_MAX`] together; beyond that they go back to the system.

use crate::memory::stack;
use bumpalo::Bump;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The size of a slab.
pub(crate) const SLAB_BYTES: usize = 64 << 10;
/// The size of a large page. A pool of more than this grows by large pages, if the system has any: who uses so much
/// memory would spend a good part of the time on finding its pages. Smaller ones would pay for clearing what they
/// don't use.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// Free blocks that a pool keeps, in bytes.
pub(crate) const KEPT_BYTES_MAX: usize = 256 << 20;
/// The binary logarithm of the number of block sizes between two powers of two.
const CLASSES_LOG: u32 = 3;

/// Exclusive use of a slab's memory. Belongs to the pool that it came from and must be given back to it.
#[derive(Debug)]
pub(crate) struct Slab(NonNull<u64>);

// SAFETY: a slab is the only handle to its memory; moving it to another thread moves that right.
unsafe impl Send for Slab {}

impl Slab {
    /// The first byte, aligned to the slab's size.
    pub(crate) fn start(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    /// Whoever still refers to an object there finds nothing like one.
    #[cfg(debug_assertions)]
    pub(crate) fn spoil(&self) {
        const PATTERN: u8 = 0xdb;
        // SAFETY: the slab is so large, and nobody else's.
        unsafe { self.start().write_bytes(PATTERN, SLAB_BYTES) };
    }
}

/// Exclusive use of memory for one large object. Belongs to the pool that it came from and must be given back to it.
#[derive(Debug)]
pub(crate) struct Block {
    start: NonNull<u64>,
    /// The size of its class.
    words: usize,
}

// SAFETY: a block is the only handle to its memory; moving it to another thread moves that right.
unsafe impl Send for Block {}

impl Block {
    /// The first word.
    pub(crate) fn start(&self) -> *mut u64 {
        self.start.as_ptr()
    }

    fn new(words: usize) -> Option<Block> {
        let layout = Layout::array::<u64>(words).ok()?;
        // SAFETY: a class has words.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        Some(Block { start: start.cast(), words })
    }

    fn free(self) {
        let layout = Layout::array::<u64>(self.words).expect("the layout was valid when the block was made");
        // SAFETY: allocated with the same layout, and this was the only handle.
        unsafe { dealloc(self.start.as_ptr().cast(), layout) };
    }

    fn bytes(&self) -> usize {
        8 * self.words
    }
}

/// The least class size that holds `words` words, at least 8, and the number of the class: classes are numbered by
/// size.
fn class_of(words: usize) -> Option<(usize, usize)> {
    let words = words.checked_next_multiple_of(1 << (words.ilog2() - CLASSES_LOG))?;
    let log = words.ilog2();
    Some((words, (words >> (log - CLASSES_LOG)) + ((log as usize) << CLASSES_LOG)))
}

/// The blocks of a size.
#[derive(Debug, Default)]
struct Class {
    free: Vec<Block>,
    /// How many there are, in use or free.
    count: usize,
}

/// The lists of what is free have room for all that was made: to give something back allocates nothing.
#[derive(Debug, Default)]
struct Inner {
    arena: Bump,
    free: Vec<Slab>,
    /// How many slabs there are, in use or free.
    slab_count: usize,
    classes: Vec<Class>,
    /// Bytes of the free blocks.
    block_bytes: usize,
}

impl Inner {
    /// A slab that is no part of a large page.
    fn take_small_page(&mut self) -> Option<Slab> {
        let layout = Layout::from_size_align(SLAB_BYTES, SLAB_BYTES).ok()?;
        let start: NonNull<u8> = self.arena.try_alloc_layout(layout).ok()?;
        self.made_slabs(1);
        Some(Slab(start.cast()))
    }

    /// A slab from a new large page; its other slabs are free then.
    fn take_large_page(&mut self) -> Option<Slab> {
        let layout = Layout::from_size_align(LARGE_PAGE_BYTES, LARGE_PAGE_BYTES).ok()?;
        let start: NonNull<u8> = self.arena.try_alloc_layout(layout).ok()?;
        self.made_slabs(LARGE_PAGE_BYTES / SLAB_BYTES);
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the memory is the arena's, in whole pages. It is advice: a refusal changes nothing.
        unsafe {
            libc::madvise(start.as_ptr().cast(), LARGE_PAGE_BYTES, libc::MADV_HUGEPAGE);
        }
        // SAFETY: inside of the page. The last one is handed out first, so that the first is now.
        let slabs = (0..LARGE_PAGE_BYTES / SLAB_BYTES).rev().map(|n| Slab(unsafe { start.add(n * SLAB_BYTES) }.cast()));
        self.free.extend(slabs);
        self.free.pop()
    }

    /// There are so many more slabs.
    fn made_slabs(&mut self, count: usize) {
        self.slab_count += count;
        self.free.reserve(self.slab_count - self.free.len());
    }

    /// The class of this number.
    fn class(&mut self, number: usize) -> &mut Class {
        if self.classes.len() <= number {
            self.classes.resize_with(number + 1, Class::default);
        }
        &mut self.classes[number]
    }

    /// Frees blocks, the smallest first, until `bytes` more may be kept.
    fn make_room(&mut self, bytes: usize) {
        for class in &mut self.classes {
            while self.block_bytes + bytes > KEPT_BYTES_MAX {
                let Some(block) = class.free.pop() else { break };
                self.block_bytes -= block.bytes();
                class.count -= 1;
                block.free();
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.classes.drain(..).flat_map(|class| class.free).for_each(Block::free);
    }
}

/// Hands out slabs and blocks. Shared by all runs of an engine; must outlive every slab that it handed out.
#[derive(Debug, Default)]
pub(crate) struct SlabPool(Mutex<Inner>);

impl SlabPool {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slab, or `None` if the system has no memory. Its content is arbitrary.
    pub(crate) fn take(&self) -> Option<Slab> {
        let mut inner = self.lock();
        if let Some(slab) = inner.free.pop() {
            return Some(slab);
        }
        if inner.arena.allocated_bytes() < LARGE_PAGE_BYTES {
            return inner.take_small_page();
        }
        let take = || inner.take_large_page().or_else(|| inner.take_small_page());
        stack::leaving_some(take)
    }

    /// Gives slabs back.
    pub(crate) fn give_back(&self, slabs: impl ExactSizeIterator<Item = Slab>) {
        if slabs.len() > 0 {
            self.lock().free.extend(slabs);
        }
    }

    /// A block of at least `words` words, of which there must be at least 8, or `None` if the system has no memory. Its
    /// content is arbitrary.
    pub(crate) fn take_block(&self, words: usize) -> Option<Block> {
        let (words, class) = class_of(words)?;
        let mut inner = self.lock();
        let of_size = inner.class(class);
        if let Some(block) = of_size.free.pop() {
            inner.block_bytes -= block.bytes();
            return Some(block);
        }
        of_size.count += 1;
        of_size.free.reserve(of_size.count);
        drop(inner);
        let block =
            if 8 * words < LARGE_PAGE_BYTES { Block::new(words) } else { stack::leaving_some(|| Block::new(words)) };
        if block.is_none() {
            self.lock().class(class).count -= 1;
        }
        block
    }

    /// Gives a block back.
    pub(crate) fn give_back_block(&self, block: Block) {
        let (_, class) = class_of(block.words).expect("the block is of a class");
        let mut inner = self.lock();
        if block.bytes() > KEPT_BYTES_MAX {
            inner.class(class).count -= 1;
            drop(inner);
            return block.free();
        }
        inner.make_room(block.bytes());
        inner.block_bytes += block.bytes();
        inner.class(class).free.push(block);
    }

    /// Gives back to the system what nobody uses: free blocks, and all slabs if all are free.
    pub(crate) fn shrink(&self) {
        let mut inner = self.lock();
        inner.make_room(KEPT_BYTES_MAX);
        if inner.free.len() == inner.slab_count {
            inner.free = Vec::new();
            (inner.arena, inner.slab_count) = (Bump::new(), 0);
        }
    }

    /// Bytes of free slabs and blocks.
    pub(crate) fn free_bytes(&self) -> u64 {
        let inner = self.lock();
        (inner.free.len() * SLAB_BYTES + inner.block_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_at_most_an_eighth_larger_and_the_next_one_has_the_next_number() {
        let mut last = class_of(2048).expect("small");
        assert_eq!(last.0, 2048);
        for words in 2049..if cfg!(miri) { 3000 } else { 40_000 } {
            let class = class_of(words).expect("small");
            assert!(class.0 >= words && class.0 - words <= words / 8, "{words}: {class:?}");
            assert_eq!(class_of(class.0), Some(class));
            assert!(class == last || (class.0 > last.0 && class.1 == last.1 + 1), "{last:?} {class:?}");
            last = class;
        }
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn a_block_that_was_given_back_is_taken_again_by_objects_of_its_class_only() {
        let pool = SlabPool::default();
        let block = pool.take_block(10_000).expect("memory");
        let (start, words) = (block.start(), block.words);
        pool.give_back_block(block);
        assert_eq!(pool.free_bytes(), 8 * words as u64);
        let other = pool.take_block(2 * words).expect("memory");
        let same = pool.take_block(words).expect("memory");
        assert_eq!((same.start(), pool.free_bytes()), (start, 0));
        pool.give_back_block(other);
        pool.give_back_block(same);
    }

    #[test]
    fn slabs_go_back_to_the_system_when_all_are_free() {
        let pool = SlabPool::default();
        let mut slabs: Vec<Slab> = (0..200).map(|_| pool.take().expect("memory")).collect();
        let last = slabs.pop().expect("200 are there");
        let block = pool.take_block(10_000).expect("memory");
        pool.give_back_block(block);
        pool.give_back(slabs.into_iter());
        let held = || {
            let inner = pool.lock();
            (inner.arena.allocated_bytes(), inner.block_bytes)
        };
        let before = held().0;
        pool.shrink();
        assert_eq!(held(), (before, 0));
        pool.give_back([last].into_iter());
        pool.shrink();
        assert_eq!(held(), (0, 0));
        let slab = pool.take().expect("memory");
        pool.give_back([slab].into_iter());
        assert_eq!(pool.free_bytes(), SLAB_BYTES as u64);
    }

    #[test]
    fn kept_blocks_are_bounded_and_the_smallest_go_first() {
        let pool = SlabPool::default();
        // Not touched, so the system need not find this memory.
        let taken: Vec<Block> = [1, 3, 2, 3].map(|n| pool.take_block(n * KEPT_BYTES_MAX / 64).expect("memory")).into();
        taken.into_iter().for_each(|block| pool.give_back_block(block));
        assert_eq!(pool.free_bytes(), KEPT_BYTES_MAX as u64);
        let huge = pool.take_block(KEPT_BYTES_MAX / 4).expect("memory");
        pool.give_back_block(huge);
        assert_eq!(pool.free_bytes(), KEPT_BYTES_MAX as u64, "larger than the bound");
    }
}
