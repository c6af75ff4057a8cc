//! Asking for memory before it is read.

/// A line of the cache, in bytes.
const LINE: usize = 64;

/// Tells the processor that so many bytes from `at` on will be read soon, where that can be said: it goes on without
/// them. Nothing is read, so nothing has to be there.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(LINE) {
        let line = at.wrapping_add(offset);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: it reads nothing.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = line;
    }
}
