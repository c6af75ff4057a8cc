//! Memory for tapes: slabs that an execution fills from one end to the other, and what it costs of what the run may
//! use.

use crate::host::{Saved, SavedCell};
use crate::memory::kept::{self, Kept};
use crate::memory::pool::{SLAB_BYTES, Slab, SlabPool};
use crate::running::meter::Account;
use crate::trap::Limit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Lists of more bytes than this get memory of their own.
const LIST_BYTES_MAX: usize = SLAB_BYTES / 4;
/// A rest of a slab of fewer bytes than this is not worth keeping.
const REST_BYTES_MIN: usize = 2 << 10;

/// Writes to slabs, one after the other. All tapes of an execution stand in what it writes, whichever is being
/// recorded.
#[derive(Debug)]
pub(super) struct SlabWriter {
    pool: Arc<SlabPool>,
    /// All slabs that the execution has written to.
    slabs: Vec<Slab>,
    /// Lists that are too long for a slab.
    lists: Vec<Box<[u64]>>,
    /// References that records hold.
    pub(super) kept: Kept,
    /// What functions of the host's have left for their derivatives.
    saved: Vec<SavedCell>,
    /// Kept from the last run, for the first slab of the next: small runs leave the pool alone.
    spare: Option<Slab>,
    /// Where the next byte goes, and the end of the slab. Native code moves the first.
    pub(super) top: *mut u8,
    pub(super) end: *mut u8,
    bytes_max: u64,
    /// Bytes of adjoints of tasks that this execution has run to their end or suspended.
    pub(super) ended_bytes: u64,
    /// What other executions know of this one's bytes.
    published: u64,
    /// That of the run, while there is one.
    account: *const Account,
    /// Whether other executions draw on the account, too.
    shared: bool,
}

impl SlabWriter {
    pub(super) fn new(pool: Arc<SlabPool>) -> Self {
        let null = std::ptr::null_mut();
        SlabWriter {
            pool,
            slabs: Vec::new(),
            lists: Vec::new(),
            kept: Kept::default(),
            saved: Vec::new(),
            spare: None,
            top: null,
            end: null,
            bytes_max: u64::MAX,
            ended_bytes: 0,
            published: 0,
            account: std::ptr::null(),
            shared: false,
        }
    }

    /// Begins a run, or an execution of one that has several.
    pub(super) fn begin(&mut self, bytes_max: u64, account: &Account, shared: bool) {
        self.bytes_max = bytes_max;
        (self.account, self.shared) = (account, shared);
    }

    /// Says where the run's account is.
    pub(super) fn attach(&mut self, account: &Account) {
        self.account = account;
    }

    /// Whether a run has begun here, or an execution of one, that [`SlabWriter::release`] hasn't ended.
    #[inline(always)]
    pub(super) fn is_in_use(&self) -> bool {
        !self.account.is_null()
    }

    /// Gives all memory back but a slab.
    pub(super) fn release(&mut self) {
        if !self.slabs.is_empty() {
            if self.spare.is_none() {
                self.spare = self.slabs.pop();
            }
            if !self.slabs.is_empty() {
                self.pool.give_back(self.slabs.drain(..));
            }
        }
        self.lists.clear();
        self.kept.clear();
        self.saved.clear();
        self.close();
        (self.ended_bytes, self.published) = (0, 0);
        (self.account, self.shared) = (std::ptr::null(), false);
    }

    /// Writes no more to the current slab.
    fn close(&mut self) {
        (self.top, self.end) = (std::ptr::null_mut(), std::ptr::null_mut());
    }

    /// Bytes that are left of the slab.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.end.addr() - self.top.addr()
    }

    /// Goes on in another slab.
    ///
    /// # Errors
    /// As [`SlabWriter::check`], and if the run has no time left to fill a slab.
    #[cold]
    pub(super) fn open_slab(&mut self, slots: u64) -> Result<(), Limit> {
        self.ask_for_time(SLAB_BYTES)?;
        let slab = self.spare.take().or_else(|| self.pool.take()).ok_or(Limit::AddressSpace)?;
        self.top = slab.start();
        // SAFETY: one past the slab's memory.
        self.end = unsafe { self.top.add(SLAB_BYTES) };
        self.slabs.push(slab);
        self.check(slots)
    }

    /// Memory for `count` values, for a task that has `slots` slots.
    #[inline]
    pub(super) fn list<T>(&mut self, count: usize, slots: u64) -> Result<*mut T, Limit> {
        let bytes = (count * size_of::<T>()).next_multiple_of(8);
        if bytes > LIST_BYTES_MAX {
            let mut list = vec![0; (bytes + align_of::<T>()) / 8].into_boxed_slice();
            let start: *mut u8 = list.as_mut_ptr().cast();
            let start = start.wrapping_add(start.align_offset(align_of::<T>()));
            self.lists.push(list);
            self.ended_bytes += bytes as u64;
            return Ok(start.cast());
        }
        let mut padding = self.top.align_offset(align_of::<T>().max(8));
        if bytes + padding > self.room() {
            self.open_slab(slots)?;
            padding = self.top.align_offset(align_of::<T>().max(8));
        }
        // SAFETY: there is room: no such list is larger than a slab.
        unsafe {
            let start = self.top.add(padding);
            self.top = start.add(bytes);
            Ok(start.cast())
        }
    }

    /// Keeps what belongs to a record as long as the tape. Returns where it is, which doesn't move.
    pub(super) fn save(&mut self, cell: SavedCell) -> *const Saved {
        let place = cell.place();
        self.saved.push(cell);
        place
    }

    /// Whether the run has the time to fill so many bytes.
    pub(super) fn ask_for_time(&self, bytes: usize) -> Result<(), Limit> {
        // SAFETY: the account lives as long as the run.
        unsafe { self.account.as_ref() }.map_or(Ok(()), |account| account.time_to_fill(bytes))
    }

    /// Bytes of slabs and adjoints of this execution, whose task has `slots` slots.
    pub(super) fn held(&self, slots: u64) -> u64 {
        let slabs = (self.slabs.len() * SLAB_BYTES) as u64;
        slabs.saturating_add(self.kept.bytes()).saturating_add(self.ended_bytes).saturating_add(slots.saturating_mul(8))
    }

    /// Whether all tapes of the run together are within its limit.
    pub(super) fn check(&mut self, slots: u64) -> Result<(), Limit> {
        let mut held = self.held(slots);
        // SAFETY: the account lives as long as the run.
        if let Some(account) = unsafe { self.account.as_ref() }.filter(|_| self.shared) {
            let more = held.wrapping_sub(self.published);
            self.published = held;
            held = account.tape_bytes.fetch_add(more, Ordering::Relaxed).wrapping_add(more);
        }
        if held > self.bytes_max { Err(Limit::TapeBytes) } else { Ok(()) }
    }

    /// Begins or ends a stretch of time in which other executions run.
    pub(super) fn share(&mut self, shared: bool, slots: u64) {
        self.shared = shared;
        self.published = self.held(slots);
    }

    /// Begins in such a stretch, or outside of one: nothing of this execution's is known yet.
    pub(super) fn begin_shared(&mut self, shared: bool) {
        (self.shared, self.published) = (shared, 0);
    }

    /// Bytes that may still be written, if a run has begun here; else as many as `limit`.
    pub(super) fn left(&self, slots: u64, limit: u64) -> u64 {
        if self.is_in_use() { self.bytes_max.saturating_sub(self.held(slots)) } else { limit }
    }

    /// Bytes that others hold of as many as `limit`, outside of what may be written here.
    pub(super) fn held_outside(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.bytes_max)
    }

    /// Goes on in the rest of a slab that an execution of the same run has left, if there is one.
    pub(super) fn take_rest(&mut self, account: &Account) {
        if let Some((top, end)) = account.take_rest() {
            (self.top, self.end) = (top, end);
        }
    }

    /// Leaves the rest of the slab to another execution of the same run, if there is an account to leave it with.
    pub(super) fn leave_rest(&mut self, account: Option<&Account>) {
        if let Some(account) = account
            && self.room() >= REST_BYTES_MIN
        {
            account.leave_rest(self.top, self.end);
        }
        self.close();
    }

    /// Tells other executions that what this one has written is gone.
    pub(super) fn take_back(&mut self) {
        // SAFETY: the account lives as long as the run.
        if let Some(account) = unsafe { self.account.as_ref() }.filter(|_| self.shared) {
            account.tape_bytes.fetch_sub(self.published, Ordering::Relaxed);
        }
    }

    /// Ends an execution: what it has written is for the one that forked it.
    pub(super) fn leave(&mut self, account: Option<&Account>) -> Written {
        self.leave_rest(account);
        Written {
            slabs: std::mem::take(&mut self.slabs),
            lists: std::mem::take(&mut self.lists),
            kept: std::mem::take(&mut self.kept),
            saved: std::mem::take(&mut self.saved),
            ended_bytes: std::mem::take(&mut self.ended_bytes),
            published: std::mem::take(&mut self.published),
        }
    }

    /// Takes over what an execution that has ended has written.
    pub(super) fn absorb(&mut self, mut written: Written) {
        self.slabs.append(&mut written.slabs);
        self.lists.append(&mut written.lists);
        self.kept.absorb(written.kept);
        self.saved.append(&mut written.saved);
        self.ended_bytes += written.ended_bytes;
        self.published += written.published;
    }

    /// The state of the memory, to which [`SlabWriter::cut`] goes back.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            slabs: self.slabs.len(),
            lists: self.lists.len(),
            kept: self.kept.place(),
            saved: self.saved.len(),
            top: self.top,
            end: self.end,
            ended_bytes: self.ended_bytes,
        }
    }

    /// Frees what was written since, all of it by tasks that were given up.
    pub(super) fn cut(&mut self, mark: &Mark) {
        self.pool.give_back(self.slabs.drain(mark.slabs..));
        self.lists.truncate(mark.lists);
        self.kept.cut(mark.kept);
        self.saved.truncate(mark.saved);
        (self.top, self.end) = (mark.top, mark.end);
        self.ended_bytes = mark.ended_bytes;
    }
}

impl Drop for SlabWriter {
    fn drop(&mut self) {
        self.release();
        self.pool.give_back(self.spare.take().into_iter());
    }
}

/// What an execution that has ended has written.
#[derive(Debug)]
pub(crate) struct Written {
    slabs: Vec<Slab>,
    lists: Vec<Box<[u64]>>,
    kept: Kept,
    saved: Vec<SavedCell>,
    ended_bytes: u64,
    published: u64,
}

/// How much memory tapes use, and where they go on.
#[derive(Debug)]
pub(crate) struct Mark {
    slabs: usize,
    lists: usize,
    kept: kept::Place,
    saved: usize,
    top: *mut u8,
    end: *mut u8,
    ended_bytes: u64,
}
