//! Stacks as the system gives them: address space with guard pages, which grows where it is; and running on it.

use super::{Direction, EXTENT_MIN, EXTENT_STEP, OwnStack, places};
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What is used of a stack first, in pages of the usual size.
const SMALL_PAGES_BYTES: usize = 2 << 20;
/// What nobody may touch at each end: a multiple of any system's pages. Compiled code touches every page of its frames
/// in turn, so that one page would do.
pub(super) const GUARD_BYTES: usize = 64 << 10;
/// What has to be left for others when a run takes more: one that has used up the address space of its process has
/// to end well, and that takes memory, too.
const SPARE_BYTES: usize = 16 << 20;
/// A stack looks for another place so often if somebody else is in the one that it was given.
const PLACES_TRIED: usize = 8;
/// Address space of a stack that can't grow where it is.
const FIXED_BYTES_MAX: usize = 1 << 30;
/// What all stacks of the process together may have beyond what they begin with, and still be kept as they are when
/// nobody uses them; or this part of what the process may have, where that is limited.
const KEPT_BYTES_MAX: usize = 4 << 30;
const KEPT_SHARE: usize = 8;

/// What the stacks of this process have beyond what they began with.
static GROWN_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Whether the system has refused some.
static IS_SCARCE: AtomicBool = AtomicBool::new(false);

/// Address space between two guards. It stands at one end of its place and grows towards the other.
#[derive(Debug)]
pub(super) struct Region {
    direction: Direction,
    /// Where nobody else's stack is; `None` if it stands where the system put it, and can't grow.
    place: Option<Range<usize>>,
    /// Whether somebody else is in the place, too.
    is_shared: bool,
    /// What is mapped, guards and all.
    start: *mut u8,
    mapped: usize,
    /// How much was mapped first.
    first: usize,
    /// How much may be.
    mapped_max: usize,
}

impl Region {
    /// More than a host may ask for: no system has it.
    pub(super) const BYTES_MAX: usize = 1 << 46;

    /// Address space for a stack that begins at one of its ends, as much as every stack has, if the system grants it.
    /// It may grow to `most` bytes if there is a place for that.
    pub(super) fn open(most: usize, direction: Direction) -> Option<Region> {
        let first = match direction {
            Direction::Upwards => SMALL_PAGES_BYTES,
            // Calls out of native code and jobs of the host have their room from the beginning.
            Direction::Downwards => 2 * SMALL_PAGES_BYTES,
        };
        for _ in 0..PLACES_TRIED {
            let Some(place) = places::take(most + EXTENT_STEP, is_granted) else { break };
            let at = match direction {
                Direction::Upwards => place.start,
                Direction::Downwards => place.end - first,
            };
            match map(at, first) {
                Mapped::There(start) => {
                    let mapped_max = place.len().min(most + 2 * GUARD_BYTES);
                    let place = Some(place);
                    let region = Region { direction, place, is_shared: false, start, mapped: first, first, mapped_max };
                    return region.guarded();
                }
                // It stays somebody else's: nobody looks there again.
                Mapped::Elsewhere => {}
                Mapped::Refused => {
                    places::give_back(place);
                    return None;
                }
            }
        }
        Region::fixed(most, direction)
    }

    /// Address space that can't grow, where the system wants it: half as much as before while the system refuses.
    pub(super) fn fixed(most: usize, direction: Direction) -> Option<Region> {
        let mut bytes = most.min(FIXED_BYTES_MAX);
        while bytes >= EXTENT_MIN {
            let mapped = (bytes - bytes % EXTENT_STEP) + 2 * GUARD_BYTES;
            if let Mapped::There(start) = map(0, mapped) {
                let (first, mapped_max) = (mapped, mapped);
                let region = Region { direction, place: None, is_shared: false, start, mapped, first, mapped_max };
                return region.guarded();
            }
            bytes /= 2;
        }
        None
    }

    /// The same, which may be used but for its ends.
    fn guarded(self) -> Option<Region> {
        let usable = self.start.addr() + GUARD_BYTES..self.end() - GUARD_BYTES;
        set_rights(&usable, READ_AND_WRITE)?;
        self.prefer_large_pages(usable);
        Some(self)
    }

    /// The first byte above the lower guard, aligned to pages.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.wrapping_add(GUARD_BYTES)
    }

    /// Bytes between the guards.
    pub(super) fn bytes(&self) -> usize {
        self.mapped - 2 * GUARD_BYTES
    }

    /// Bytes that may come to be between the guards.
    pub(super) fn bytes_max(&self) -> usize {
        self.mapped_max - 2 * GUARD_BYTES
    }

    fn end(&self) -> usize {
        self.start.addr() + self.mapped
    }

    /// Grows to `wanted` bytes between the guards, or to less if the system refuses that. Returns whether there are
    /// `least`.
    pub(super) fn grow(&mut self, least: usize, wanted: usize) -> bool {
        if least > self.bytes_max() {
            return false;
        }
        let with_guards = |bytes: usize| bytes.saturating_add(2 * GUARD_BYTES).min(self.mapped_max);
        let (least, mut wanted) =
            (with_guards(least), with_guards(wanted).next_multiple_of(EXTENT_STEP).min(self.mapped_max));
        while wanted > self.mapped.max(least) && !self.extend(wanted - self.mapped) {
            wanted = self.mapped + (wanted - self.mapped) / 2 / GUARD_BYTES * GUARD_BYTES;
        }
        least <= self.mapped || self.extend((least - self.mapped).next_multiple_of(GUARD_BYTES))
    }

    /// Maps more at the end that grows.
    fn extend(&mut self, more: usize) -> bool {
        if self.place.is_none() {
            return false;
        }
        // The old guard becomes a part of what may be used, and there is a new one behind it.
        let (at, guard, usable) = match self.direction {
            Direction::Upwards => {
                let guard = self.end() - GUARD_BYTES..self.end();
                (self.end(), guard.clone(), guard.start..guard.start + more)
            }
            Direction::Downwards => {
                let guard = self.start.addr()..self.start.addr() + GUARD_BYTES;
                (guard.start - more, guard.clone(), guard.end - more..guard.end)
            }
        };
        let piece = match map(at, more) {
            Mapped::There(piece) => piece,
            Mapped::Elsewhere => {
                self.is_shared = true;
                return false;
            }
            Mapped::Refused => return false,
        };
        if set_rights(&usable, READ_AND_WRITE).is_none() {
            // It may have got a part of them.
            _ = set_rights(&guard, libc::PROT_NONE);
            unmap(piece, more);
            return false;
        }
        self.mapped += more;
        if self.direction == Direction::Downwards {
            self.start = piece;
        }
        GROWN_BYTES.fetch_add(more, Ordering::Relaxed);
        self.prefer_large_pages(usable);
        true
    }

    /// Gives back what the stack didn't have in the beginning, with what is on it.
    pub(super) fn shrink(&mut self) {
        let more = self.mapped - self.first;
        if more == 0 {
            return;
        }
        let (gone, guard) = match self.direction {
            Direction::Upwards => (self.start.wrapping_add(self.first), self.start.addr() + self.first - GUARD_BYTES),
            Direction::Downwards => (self.start, self.start.addr() + more),
        };
        if set_rights(&(guard..guard + GUARD_BYTES), libc::PROT_NONE).is_none() {
            return;
        }
        unmap(gone, more);
        self.mapped = self.first;
        if self.direction == Direction::Downwards {
            self.start = self.start.wrapping_add(more);
        }
        GROWN_BYTES.fetch_sub(more, Ordering::Relaxed);
    }

    /// Deep recursions take large pages, if the system has any: they touch so much memory that most of the time would
    /// go into finding its pages. The beginning of a stack doesn't, because small runs would pay for clearing it.
    fn prefer_large_pages(&self, usable: Range<usize>) {
        let (start, end) = match self.direction {
            Direction::Upwards => (usable.start.max(self.start.addr() + SMALL_PAGES_BYTES), usable.end),
            Direction::Downwards => (usable.start, usable.end.min(self.end() - SMALL_PAGES_BYTES)),
        };
        if start < end {
            advise_large_pages(start..end);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        unmap(self.start, self.mapped);
        GROWN_BYTES.fetch_sub(self.mapped - self.first, Ordering::Relaxed);
        // Who is in the place will be in the way of the next stack, too.
        if let Some(place) = self.place.take().filter(|_| !self.is_shared) {
            places::give_back(place);
        }
    }
}

/// Whether stacks that nobody uses are to give back what they didn't have in the beginning.
pub(super) fn is_much_kept() -> bool {
    static MAX: OnceLock<usize> = OnceLock::new();
    let grown = GROWN_BYTES.load(Ordering::Relaxed);
    let is_more = |grown| grown > *MAX.get_or_init(|| (address_space() / KEPT_SHARE).min(KEPT_BYTES_MAX));
    is_scarce() || (grown > 0 && is_more(grown))
}

/// Whether the system has refused something.
pub(super) fn is_scarce() -> bool {
    IS_SCARCE.load(Ordering::Relaxed)
}

/// How much address space the process may have.
fn address_space() -> usize {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: it writes to the structure that it is given. If it fails, nothing is known of a limit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

const READ_AND_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// How the system answers who asks for address space.
enum Mapped {
    There(*mut u8),
    /// There is some, but not at this address.
    Elsewhere,
    Refused,
}

/// Asks for address space at an address, or anywhere if that is 0. Nobody may touch it yet. What the system doesn't
/// grant as it was asked for is given back.
fn ask(at: usize, bytes: usize) -> Mapped {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
    // SAFETY: without `MAP_FIXED` nothing that is there is replaced.
    let start = unsafe { libc::mmap(ptr::without_provenance_mut(at), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Mapped::Refused;
    }
    _ = start.expose_provenance();
    if at != 0 && start.addr() != at {
        unmap(start.cast(), bytes);
        return Mapped::Elsewhere;
    }
    Mapped::There(start.cast())
}

/// As [`ask`], if something is left for others.
fn map(at: usize, bytes: usize) -> Mapped {
    let taken = leaving_some(|| match ask(at, bytes) {
        Mapped::Refused => None,
        mapped => Some(mapped),
    });
    taken.unwrap_or(Mapped::Refused)
}

/// Runs what takes memory from the system, and may be refused. It can't take the last that there is.
pub(super) fn leaving_some<R>(take: impl FnOnce() -> Option<R>) -> Option<R> {
    let Mapped::There(spare) = ask(0, SPARE_BYTES) else {
        IS_SCARCE.store(true, Ordering::Relaxed);
        return None;
    };
    let taken = take();
    unmap(spare, SPARE_BYTES);
    if taken.is_none() {
        IS_SCARCE.store(true, Ordering::Relaxed);
    }
    taken
}

/// Whether stacks may have this address.
fn is_granted(at: usize) -> bool {
    match ask(at, EXTENT_STEP) {
        Mapped::There(start) => {
            unmap(start, EXTENT_STEP);
            true
        }
        Mapped::Elsewhere => false,
        // It's not the address that is wrong.
        Mapped::Refused => true,
    }
}

/// Gives address space back, which nobody uses any more.
fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: whole pages that were mapped here, and nothing refers to them. If the system can't do it, they are lost.
    unsafe { libc::munmap(start.cast(), bytes) };
}

/// Says what may be done with pages of a region.
fn set_rights(pages: &Range<usize>, rights: libc::c_int) -> Option<()> {
    // SAFETY: whole pages that were mapped here. Nothing refers to those that become guards.
    let outcome = unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(pages.start), pages.len(), rights) };
    (outcome == 0).then_some(())
}

#[cfg(target_os = "linux")]
fn advise_large_pages(pages: Range<usize>) {
    // SAFETY: whole pages that were mapped here. It is advice: a refusal changes nothing.
    unsafe { libc::madvise(ptr::with_exposed_provenance_mut(pages.start), pages.len(), libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_large_pages(_: Range<usize>) {}

/// The stack pointer, more or less.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    psm::stack_pointer().addr()
}

thread_local! {
    /// Where the thread's own stack was left for one of a run; 0 while the thread is on its own.
    static LEFT_AT: Cell<usize> = const { Cell::new(0) };
}

/// The thread's own stack, if it is known where that is, and the running function stands there: a host may have stacks
/// of its own, for coroutines.
pub(crate) fn own_stack() -> Option<OwnStack> {
    thread_local!(static PLACE: OnceCell<Option<Range<usize>>> = const { OnceCell::new() });
    let here = stack_pointer();
    let of_place =
        |place: &Range<usize>| place.contains(&here).then(|| OwnStack { bytes: place.len(), left: here - place.start });
    PLACE.with(|place| place.get_or_init(place_of_own_stack).as_ref().and_then(of_place))
}

/// Where the system has put the stack of this thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn place_of_own_stack() -> Option<Range<usize>> {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let (mut start, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the first call writes the attributes of a thread that runs, or fails. Then they are read and given back.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let outcome = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (outcome == 0).then(|| start.addr()..start.addr() + bytes)
    }
}

/// Others don't say, or not of the first thread, whose stack grows.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn place_of_own_stack() -> Option<Range<usize>> {
    None
}

/// Runs `body` on the stack of these bytes, from the top.
///
/// # Safety
/// They are a region's, and nobody else uses them until this returns; `body` doesn't unwind.
#[inline(always)]
pub(super) unsafe fn run_on<R>(start: *mut u8, bytes: usize, body: impl FnOnce() -> R) -> R {
    let left_at = LEFT_AT.get();
    if left_at == 0 {
        LEFT_AT.set(stack_pointer());
    }
    // SAFETY: promised by the caller; the region is aligned to pages.
    let outcome = unsafe { psm::on_stack(start, bytes, body) };
    LEFT_AT.set(left_at);
    outcome
}

/// Runs `body` on the thread's own stack, below what stands there.
///
/// # Safety
/// `body` doesn't unwind.
pub(crate) unsafe fn run_outside<R>(body: impl FnOnce() -> R) -> R {
    /// What the function that has left the stack may use of it below where it has looked.
    const BELOW: usize = 1 << 10;
    /// How much is said to be there: only its end counts, from which the stack is used.
    const BYTES: usize = 1 << 12;
    let left_at = LEFT_AT.replace(0);
    if left_at == 0 {
        return body();
    }
    let start = (left_at - BELOW - BYTES) & !(BYTES - 1);
    // SAFETY: promised by the caller; nothing stands below, for the frames that do are on other stacks, and what is
    // called returns before they go on.
    let outcome = unsafe { psm::on_stack(ptr::with_exposed_provenance_mut(start), BYTES, body) };
    LEFT_AT.set(left_at);
    outcome
}
