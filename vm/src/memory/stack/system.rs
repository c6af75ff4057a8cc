//! Stacks as the system gives them: reserved address space with guard pages, and running on it.

use super::Direction;
use memmap2::{MmapMut, MmapOptions};

/// What is used of a stack first, in pages of the usual size.
const SMALL_PAGES_BYTES: usize = 2 << 20;
/// What nobody may touch at each end: a multiple of any system's pages. Compiled code touches every page of its frames
/// in turn, so that one page would do.
pub(super) const GUARD_BYTES: usize = 64 << 10;

/// Address space between two guards.
#[derive(Debug)]
pub(super) struct Region {
    map: MmapMut,
}

impl Region {
    /// Address space for a stack that begins at one of its ends, if the system grants it.
    pub(super) fn reserve(bytes: usize, direction: Direction) -> Option<Region> {
        let map = MmapOptions::new().len(bytes + 2 * GUARD_BYTES).no_reserve_swap().map_anon().ok()?;
        let region = Region { map };
        region.guard()?;
        region.prefer_large_pages(direction);
        Some(region)
    }

    /// The first byte above the lower guard, aligned to pages.
    pub(super) fn start(&self) -> *mut u8 {
        // SAFETY: the guard is a part of the map.
        unsafe { self.map.as_ptr().cast_mut().add(GUARD_BYTES) }
    }

    /// Bytes between the guards.
    pub(super) fn bytes(&self) -> usize {
        self.map.len() - 2 * GUARD_BYTES
    }

    /// Takes all rights on the ends away.
    fn guard(&self) -> Option<()> {
        for offset in [0, self.map.len() - GUARD_BYTES] {
            // SAFETY: whole pages of the map, which nothing refers to.
            let outcome = unsafe {
                let start = self.map.as_ptr().add(offset).cast_mut();
                libc::mprotect(start.cast(), GUARD_BYTES, libc::PROT_NONE)
            };
            if outcome != 0 {
                return None;
            }
        }
        Some(())
    }

    /// Deep recursions take large pages, if the system has any: they touch so much memory that most of the time would
    /// go into finding its pages. The beginning of a stack doesn't, because small runs would pay for clearing it.
    #[cfg(target_os = "linux")]
    fn prefer_large_pages(&self, direction: Direction) {
        let offset = GUARD_BYTES + if direction == Direction::Upwards { SMALL_PAGES_BYTES } else { 0 };
        // It is advice: a refusal changes nothing.
        _ = self.map.advise_range(memmap2::Advice::HugePage, offset, self.bytes() - SMALL_PAGES_BYTES);
    }

    #[cfg(not(target_os = "linux"))]
    fn prefer_large_pages(&self, _: Direction) {}
}

/// The stack pointer, more or less.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    psm::stack_pointer().addr()
}

/// Runs `body` on the stack of these bytes, from the top.
///
/// # Safety
/// They are a region's, and nobody else uses them until this returns; `body` doesn't unwind.
#[inline(always)]
pub(super) unsafe fn run_on<R>(start: *mut u8, bytes: usize, body: impl FnOnce() -> R) -> R {
    // SAFETY: promised by the caller; the region is aligned to pages.
    unsafe { psm::on_stack(start, bytes, body) }
}
