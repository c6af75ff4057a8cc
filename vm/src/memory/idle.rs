//! Things that are kept for whoever needs one next.
//!
//! One stands in a slot that is taken and filled with one atomic operation each, so that calls from one thread, one
//! after the other, neither lock nor wait. The others are behind a lock.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, Ordering};
use std::ptr;
use std::sync::PoisonError;

/// More things than this are not kept: who needs so many at a time hardly notices that they have to be made.
const KEPT_MAX: usize = 32;

/// What is not in use.
#[derive(Debug)]
pub(crate) struct Idle<T> {
    /// Null, or a box that this owns.
    slot: AtomicPtr<T>,
    more: Mutex<Vec<Box<T>>>,
}

impl<T: Send> Default for Idle<T> {
    fn default() -> Self {
        Idle { slot: AtomicPtr::new(ptr::null_mut()), more: Mutex::default() }
    }
}

// That only `Send` things go in is what makes this `Sync`: `AtomicPtr` and `Mutex` hand each to one thread at a time.
impl<T: Send> Idle<T> {
    /// One of the idle things.
    #[inline]
    pub(crate) fn take(&self) -> Option<Box<T>> {
        let one = self.slot.swap(ptr::null_mut(), Ordering::Acquire);
        if one.is_null() {
            return self.more.lock().unwrap_or_else(PoisonError::into_inner).pop();
        }
        // SAFETY: whatever is in the slot came out of a box, and the swap took it out of the slot for good.
        Some(unsafe { Box::from_raw(one) })
    }

    /// Keeps one more.
    #[inline]
    pub(crate) fn put(&self, one: Box<T>) {
        let one = Box::into_raw(one);
        if self.slot.compare_exchange(ptr::null_mut(), one, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: the slot holds another one, so this is the only pointer to what was in the box.
            let one = unsafe { Box::from_raw(one) };
            let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
            if more.len() < KEPT_MAX {
                more.push(one);
            } else {
                drop(more);
                drop(one);
            }
        }
    }
}

impl<T> Drop for Idle<T> {
    fn drop(&mut self) {
        let one = self.slot.load(Ordering::Relaxed);
        if !one.is_null() {
            // SAFETY: the slot owns it, and nobody else is left to take it.
            drop(unsafe { Box::from_raw(one) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Idle;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_is_put_is_taken_once_by_any_number_of_threads() {
        const ROUNDS: usize = if cfg!(miri) { 50 } else { 1000 };
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        struct Counted(usize);
        impl Drop for Counted {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (idle, made) = (Idle::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut held = [(); 2].map(|()| {
                            idle.take().unwrap_or_else(|| {
                                made.fetch_add(1, Ordering::Relaxed);
                                Box::new(Counted(0))
                            })
                        });
                        held.iter_mut().for_each(|one| one.0 += 1);
                        held.into_iter().for_each(|one| idle.put(one));
                    }
                });
            }
        });
        let mut uses = 0;
        while let Some(one) = idle.take() {
            uses += one.0;
        }
        assert_eq!(uses, 4 * 2 * ROUNDS);
        let made = made.into_inner();
        assert!(made <= 8);
        assert_eq!(DROPPED.load(Ordering::Relaxed), made);
        idle.put(Box::new(Counted(0)));
        drop(idle);
        assert_eq!(DROPPED.load(Ordering::Relaxed), made + 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Idle;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Uses one thing: the one that is idle, or a new one.
    fn borrow(idle: &Idle<UnsafeCell<u32>>) -> u32 {
        let (one, new) = idle.take().map_or_else(|| (Box::default(), 1), |one| (one, 0));
        // SAFETY: it is nobody else's now, which loom checks.
        one.with_mut(|uses: *mut u32| unsafe { *uses += 1 });
        idle.put(one);
        new
    }

    #[test]
    fn loom_what_is_idle_is_taken_by_one_thread_at_a_time() {
        loom::model(|| {
            let idle: Arc<Idle<UnsafeCell<u32>>> = Arc::new(Idle::default());
            idle.put(Box::default());
            let threads = [(); 2].map(|()| {
                let idle = idle.clone();
                thread::spawn(move || borrow(&idle))
            });
            let new: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            let all: Vec<Box<UnsafeCell<u32>>> = std::iter::from_fn(|| idle.take()).collect();
            assert_eq!(all.len() as u32, 1 + new);
            // SAFETY: the other threads have ended.
            let uses: u32 = all.iter().map(|one| one.with(|uses| unsafe { *uses })).sum();
            assert_eq!(uses, 2);
        });
    }
}
