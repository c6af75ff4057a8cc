//! Handles: what C holds in place of the library's objects.
//!
//! A handle looks like a pointer and is none. It is a place in a table together with a number that says which of the
//! objects that were ever at that place is meant, and what kind of object that is. So whatever a program in C passes,
//! null, a pointer to something else, a handle of another kind or one that was freed, is found out before anything is
//! read through it, and for as long as the process runs.
//!
//! A place's word says whether something is there and who uses it. Objects that many threads may use are *shared*, the
//! others are *claimed* by one thread at a time; who comes second is told so instead of waiting. What is freed while it
//! is used goes when the last one who uses it is done. No lock is taken but to make and to free handles, so that a
//! signal handler may use one.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Places in the first chunk of a table; each next one has twice as many.
const FIRST: usize = 64;
/// Together they have a place for each index that a handle has room for.
const CHUNKS: usize = INDEX_BITS as usize - FIRST.ilog2() as usize;

// A handle has, from the lowest bit: the kind of its object, the index of its place, and the number of its object.
const KIND_BITS: u32 = 8;
const INDEX_BITS: u32 = 24;
const _: () = assert!(usize::BITS == 64, "handles and the machine's records take 64 bits");

// A place's word has the same number in its upper half, and in the lower one how many share the object, whether
// someone has claimed it, and whether it is there.
const USERS: u64 = 0xffff;
const CLAIMED: u64 = 1 << 16;
const LIVE: u64 = 1 << 17;

/// How many handles there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many handles there are.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// What has handles.
pub(crate) trait Object: Send + Sized + 'static {
    /// The type of its handles in C.
    type Opaque;
    /// Tells its handles from others. Odd, so that no pointer to something aligned looks like one.
    const KIND: u8;
    /// What it is, for messages.
    const NAME: &'static str;
    /// Where its objects are.
    fn table() -> &'static Table<Self>;
}

/// Gives a type handles.
macro_rules! handles {
    ($($ty:ty => $opaque:ident, $kind:literal, $name:literal;)*) => {$(
        impl $crate::handles::Object for $ty {
            type Opaque = $opaque;
            const KIND: u8 = {
                assert!($kind % 2 == 1);
                $kind
            };
            const NAME: &'static str = $name;

            fn table() -> &'static $crate::handles::Table<$ty> {
                static TABLE: $crate::handles::Table<$ty> = $crate::handles::Table::new();
                &TABLE
            }
        }
    )*};
}
pub(crate) use handles;

/// Why a handle leads to nothing that can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It is null.
    Null,
    /// It is none of this kind, or its object was freed.
    Stale,
    /// The object is in use.
    Busy,
}

/// All objects of a kind.
pub(crate) struct Table<T> {
    chunks: [AtomicPtr<Place<T>>; CHUNKS],
    spare: Mutex<Spare>,
}

/// Places that are free. The one that was freed first is used first.
struct Spare {
    freed: VecDeque<u32>,
    /// The first one that was never used.
    next: u32,
}

struct Place<T> {
    word: AtomicU64,
    /// The number of an object that was freed while it was used.
    doomed: AtomicU32,
    content: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only the thread that has set the word to a new state reads or writes the content without sharing, and that is
// what the functions below are about; objects are sent to other threads. They are shared only where `T` is `Sync`, as
// `Table::share` asks for.
unsafe impl<T: Send> Sync for Place<T> {}

impl<T> Place<T> {
    fn new() -> Self {
        Place {
            // Numbers begin at 1, so that no handle is small.
            word: AtomicU64::new(1 << 32),
            doomed: AtomicU32::new(0),
            content: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// Where a handle leads to.
struct Found<T: 'static> {
    place: &'static Place<T>,
    index: u32,
    number: u32,
}

impl<T> Clone for Found<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Found<T> {}

impl<T> Found<T> {
    /// The word of the object while nobody uses it.
    fn idle(&self) -> u64 {
        u64::from(self.number) << 32 | LIVE
    }

    /// Whether a word of the place is about the object.
    fn is_there(&self, word: u64) -> bool {
        word >> 32 == u64::from(self.number) && word & LIVE != 0
    }

    fn is_doomed(&self, ordering: Ordering) -> bool {
        self.place.doomed.load(ordering) == self.number
    }
}

/// The number of a place among all, as chunk and place in it.
fn position(index: usize) -> (usize, usize) {
    let chunk = (index + FIRST).ilog2() as usize - FIRST.ilog2() as usize;
    (chunk, index + FIRST - (FIRST << chunk))
}

impl<T: Object> Table<T> {
    pub(crate) const fn new() -> Self {
        Table {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            spare: Mutex::new(Spare { freed: VecDeque::new(), next: 0 }),
        }
    }

    /// The place of this index, if there ever was something.
    #[inline]
    fn place(&self, index: u32) -> Option<&'static Place<T>> {
        let (chunk, offset) = position(index as usize);
        let first = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: chunks are never freed, and this one has `FIRST << chunk` places, of which this is one.
        (!first.is_null()).then(|| unsafe { &*first.add(offset) })
    }

    #[inline]
    fn find(&self, handle: *const T::Opaque) -> Result<Found<T>, Refusal> {
        let bits = handle.addr() as u64;
        if bits as u8 != T::KIND {
            return Err(if bits == 0 { Refusal::Null } else { Refusal::Stale });
        }
        let index = (bits >> KIND_BITS) as u32 & ((1 << INDEX_BITS) - 1);
        let place = self.place(index).ok_or(Refusal::Stale)?;
        Ok(Found { place, index, number: (bits >> 32) as u32 })
    }

    /// A handle for an object; `None` if there are too many.
    pub(crate) fn insert(&self, object: T) -> Option<*mut T::Opaque> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match spare.freed.pop_front() {
            Some(index) => index,
            None => {
                let index = spare.next;
                let (chunk, offset) = position(index as usize);
                let chunk_of = self.chunks.get(chunk)?;
                if offset == 0 {
                    let places: Box<[Place<T>]> = (0..FIRST << chunk).map(|_| Place::new()).collect();
                    chunk_of.store(Box::leak(places).as_mut_ptr(), Ordering::Release);
                }
                spare.next += 1;
                index
            }
        };
        drop(spare);
        let place = self.place(index).expect("its chunk was made before it was given out");
        let number = (place.word.load(Ordering::Relaxed) >> 32) as u32;
        // SAFETY: nothing is there, and nobody else has this place.
        unsafe { (*place.content.get()).write(object) };
        place.word.store(Found { place, index, number }.idle(), Ordering::Release);
        COUNT.fetch_add(1, Ordering::Relaxed);
        let bits = u64::from(number) << 32 | u64::from(index) << KIND_BITS | u64::from(T::KIND);
        Some(std::ptr::without_provenance_mut(bits as usize))
    }

    /// The object of a handle, which others may use at the same time.
    pub(crate) fn share(&self, handle: *const T::Opaque) -> Result<Shared<T>, Refusal>
    where
        T: Sync,
    {
        let found = self.find(handle)?;
        let mut word = found.place.word.load(Ordering::Relaxed);
        loop {
            if !found.is_there(word) || found.is_doomed(Ordering::Relaxed) {
                return Err(Refusal::Stale);
            }
            if word & CLAIMED != 0 || word & USERS == USERS {
                return Err(Refusal::Busy);
            }
            match found.place.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Shared(found)),
                Err(now) => word = now,
            }
        }
    }

    /// The object of a handle, which nobody else uses meanwhile.
    #[inline]
    pub(crate) fn claim(&self, handle: *const T::Opaque) -> Result<Claimed<T>, Refusal> {
        let found = self.find(handle)?;
        let idle = found.idle();
        match found.place.word.compare_exchange(idle, idle | CLAIMED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Claimed { found, unwinds: std::thread::panicking() }),
            Err(word) if found.is_there(word) => Err(Refusal::Busy),
            Err(_) => Err(Refusal::Stale),
        }
    }

    /// Frees the object of a handle, now or as soon as nobody uses it any more. Of what is no handle, or was freed,
    /// nothing happens.
    pub(crate) fn remove(&self, handle: *const T::Opaque) {
        let Ok(found) = self.find(handle) else { return };
        if self.take_away(found) {
            return;
        }
        if found.is_there(found.place.word.load(Ordering::Relaxed)) {
            found.place.doomed.store(found.number, Ordering::SeqCst);
            // Whoever used it may have looked for that just before.
            self.take_away(found);
        }
    }

    /// Frees the object if nobody uses it, and says whether it has.
    fn take_away(&self, found: Found<T>) -> bool {
        let next = u64::from(found.number.wrapping_add(1)) << 32;
        let word = &found.place.word;
        if word.compare_exchange(found.idle(), next, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        // SAFETY: the object was there, and from now on nobody finds it: this thread is the one that has freed it.
        let object = unsafe { (*found.place.content.get()).assume_init_read() };
        COUNT.fetch_sub(1, Ordering::Relaxed);
        // The place of the last number is not used again.
        if next != 0 {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            spare.freed.push_back(found.index);
        }
        drop(object);
        true
    }
}

/// An object that others may use, too.
pub(crate) struct Shared<T: Object + Sync>(Found<T>);

impl<T: Object + Sync> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the object is there as long as it is counted as used, and nobody changes it meanwhile.
        unsafe { (*self.0.place.content.get()).assume_init_ref() }
    }
}

impl<T: Object + Sync> Shared<T> {
    /// The object, for as long as its handle is not freed.
    ///
    /// # Safety
    /// What is made of it isn't used after that: it is handed to C, where that is the rule.
    pub(crate) unsafe fn lend(&self) -> &'static T {
        // SAFETY: promised by the caller.
        unsafe { (*self.0.place.content.get()).assume_init_ref() }
    }
}

impl<T: Object + Sync> Drop for Shared<T> {
    fn drop(&mut self) {
        let before = self.0.place.word.fetch_sub(1, Ordering::SeqCst);
        if before & USERS == 1 && self.0.is_doomed(Ordering::SeqCst) {
            T::table().take_away(self.0);
        }
    }
}

/// An object that nobody else uses.
pub(crate) struct Claimed<T: Object> {
    found: Found<T>,
    /// Whether the thread was unwinding when the object was claimed: then it isn't this use of it that panics.
    unwinds: bool,
}

impl<T: Object> Deref for Claimed<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the object is there as long as it is claimed, and it is claimed by this value only.
        unsafe { (*self.found.place.content.get()).assume_init_ref() }
    }
}

impl<T: Object> DerefMut for Claimed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { (*self.found.place.content.get()).assume_init_mut() }
    }
}

impl<T: Object> Drop for Claimed<T> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() != self.unwinds {
            // Nobody knows in which state the object is, so nobody gets it any more: it stays claimed.
            return;
        }
        // A plain store, because nobody else changes the word of what is claimed. Who frees the object at this very
        // moment may be missed, and then it is never freed; that is what it costs to free what another thread uses.
        self.found.place.word.store(self.found.idle(), Ordering::Release);
        if self.found.is_doomed(Ordering::Relaxed) {
            T::table().take_away(self.found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Opaque;
    struct Other;
    /// What is counted lives as long as this.
    struct Thing {
        _counted: Arc<()>,
    }
    struct Stress(AtomicUsize);

    handles! {
        Thing => Opaque, 0x71, "thing";
        Stress => Other, 0x73, "stress";
    }

    static FREED: AtomicUsize = AtomicUsize::new(0);

    impl Drop for Stress {
        fn drop(&mut self) {
            assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 7, "an object is freed once");
            FREED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Objects of the tests below are counted.
    fn thing() -> (*mut Opaque, Arc<()>) {
        let counted = Arc::new(());
        (Thing::table().insert(Thing { _counted: counted.clone() }).expect("there is room"), counted)
    }

    fn is_freed(counted: &Arc<()>) -> bool {
        Arc::strong_count(counted) == 1
    }

    #[test]
    fn what_is_no_handle_is_refused_unread() {
        let share = |bits: usize| Thing::table().share(std::ptr::without_provenance(bits)).err();
        let (handle, _) = thing();
        assert_eq!(share(0), Some(Refusal::Null));
        assert_eq!(share(handle.addr()), None);
        for bits in [1, 0x71, usize::MAX, handle.addr() ^ 0x2, handle.addr() ^ 1 << 33, handle.addr() | 0xff_ff00] {
            assert_eq!(share(bits), Some(Refusal::Stale), "{bits:#x}");
        }
        let on_stack = 0u64;
        assert_eq!(Thing::table().share((&raw const on_stack).cast()).err(), Some(Refusal::Stale));
        Thing::table().remove(handle);
    }

    #[test]
    fn a_freed_handle_stays_refused_when_its_place_is_used_again() {
        let (handle, counted) = thing();
        Thing::table().remove(handle);
        assert!(is_freed(&counted));
        // More than all places that are free, so that this one is used again.
        let others: Vec<_> = (0..1000).map(|_| thing().0).collect();
        assert_eq!(Thing::table().share(handle).err(), Some(Refusal::Stale));
        assert_eq!(Thing::table().claim(handle).err(), Some(Refusal::Stale));
        Thing::table().remove(handle);
        for other in others {
            assert!(Thing::table().share(other).is_ok());
            Thing::table().remove(other);
        }
    }

    #[test]
    fn claims_and_shares_exclude_each_other() {
        let (handle, _) = thing();
        let shared = Thing::table().share(handle).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        assert!(Thing::table().share(handle).is_ok());
        assert_eq!(Thing::table().claim(handle).err(), Some(Refusal::Busy));
        drop(shared);
        let claimed = Thing::table().claim(handle).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        assert_eq!(Thing::table().claim(handle).err(), Some(Refusal::Busy));
        assert_eq!(Thing::table().share(handle).err(), Some(Refusal::Busy));
        drop(claimed);
        assert!(Thing::table().claim(handle).is_ok());
        Thing::table().remove(handle);
    }

    #[test]
    fn what_is_freed_while_it_is_used_goes_with_its_last_user() {
        let (handle, counted) = thing();
        let users = [Thing::table().share(handle), Thing::table().share(handle)];
        Thing::table().remove(handle);
        assert!(!is_freed(&counted));
        assert_eq!(Thing::table().share(handle).err(), Some(Refusal::Stale));
        drop(users);
        assert!(is_freed(&counted));

        let (handle, counted) = thing();
        let claimed = Thing::table().claim(handle);
        Thing::table().remove(handle);
        assert!(!is_freed(&counted));
        drop(claimed);
        assert!(is_freed(&counted));
    }

    #[test]
    fn what_a_panic_has_left_half_done_is_never_used_again() {
        let (handle, counted) = thing();
        let panic = std::panic::catch_unwind(|| {
            let _claimed = Thing::table().claim(handle);
            panic!("on purpose");
        });
        assert!(panic.is_err());
        assert_eq!(Thing::table().claim(handle).err(), Some(Refusal::Busy));
        Thing::table().remove(handle);
        assert!(!is_freed(&counted));
    }

    #[test]
    fn threads_that_use_and_free_the_same_handles_free_each_once() {
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 5000 };
        let all: Vec<usize> = (0..ROUNDS)
            .map(|_| Stress::table().insert(Stress(AtomicUsize::new(7))).expect("there is room").addr())
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let all = &all;
                scope.spawn(move || {
                    for &bits in all {
                        let handle: *const Other = std::ptr::without_provenance(bits);
                        if let Ok(object) = Stress::table().share(handle) {
                            assert_eq!((*object).0.load(Ordering::Relaxed), 7);
                            if thread % 2 == 0 {
                                Stress::table().remove(handle);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(FREED.load(Ordering::Relaxed), ROUNDS);
    }
}
