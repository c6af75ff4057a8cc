//! Texts with values: what a trap says and a trace shows.
//!
//! The values are those of registers, or what the template's function makes of them. That function runs for the text
//! alone: nothing of it is recorded, and afterwards the heap is what it was before, with every object in its place. So
//! a text may be made in the middle of anything, such as a loop that is being recorded.

use super::lines::Line;
use super::registers::Registers;
use super::trace::Place;
use super::worker::Worker;
use crate::code::{Counts, Mode, TextSite};
use crate::embedding::convert::{Cursor, text_of};
use crate::memory::heap::planes;
use crate::trap::{Limit, TrapKind};

impl Worker {
    /// Why a run stops that stops itself with a text.
    ///
    /// # Safety
    /// As [`Worker::text`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn trap_with(&mut self, site: &TextSite, args: Registers, remaining: usize) -> TrapKind {
        // SAFETY: promised by the caller.
        unsafe { self.text(site, args, remaining) }.map_or_else(|kind| kind, TrapKind::Message)
    }

    /// Shows a text to the host, which listens.
    ///
    /// # Safety
    /// As [`Worker::text`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn trace(
        &mut self,
        site: &TextSite,
        args: Registers,
        place: Place,
        remaining: usize,
    ) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        let (text, account) = unsafe { (self.text(site, args, remaining)?, self.exec.account()) };
        // SAFETY: promised by the caller.
        unsafe { self.show(Line { text, place })? };
        // No fuel was paid for it.
        account.poll()
    }

    /// The text of a template with values of registers, which stand at `args`.
    ///
    /// # Safety
    /// **Running**; the registers are those that the template takes, and nothing above them is in use. `remaining` is
    /// how many frames may nest above.
    unsafe fn text(&mut self, site: &TextSite, args: Registers, remaining: usize) -> Result<String, TrapKind> {
        // SAFETY: promised by the caller; the program outlives its runs, and the values are complete, as the verifier
        // has checked.
        unsafe {
            let def = &(*self.exec.program).def;
            let template = &def.templates[site.template as usize];
            let Some(func) = template.func else {
                let Counts { reals, ints, refs } = site.count;
                let cursor = Cursor::of_registers(
                    std::slice::from_raw_parts(args.reals, reals),
                    std::slice::from_raw_parts(args.ints, ints),
                    std::slice::from_raw_parts(args.refs, refs),
                );
                return Ok(text_of(template, &def.data, cursor));
            };
            let remaining = remaining.checked_sub(1).ok_or(TrapKind::Limit(Limit::Depth))?;
            // What is captured may be a function, which reaches components: an operator in it has to know of them.
            let inner = (0..site.count.refs).map(|n| planes::reach(*args.refs.add(n))).max().unwrap_or(0);
            let results = Counts::of(&def.functions[func.index()].results);
            let base = args.after(&site.count);
            let (rooms, mark) = (self.stacks.rooms(), self.exec.heap.mark());
            let floor = self.exec.heap.raise_floor();
            let roots = std::mem::replace(&mut self.exec.roots, base.refs);
            let mode = std::mem::replace(&mut self.exec.mode, Mode::PRIMAL.at_depth(inner));
            let (tasks, digest) = (self.exec.tasks, self.exec.host_digest);
            let mut outcome = self.room_above(base, (site.count.reals.max(results.reals), inner), false);
            if outcome.is_ok() {
                for n in 0..site.count.reals {
                    for part in 0..1usize << inner {
                        let value = if part == 0 { *args.reals.add(n) } else { 0.0 };
                        *base.reals.add((n << inner) + part) = value;
                    }
                }
                base.ints.copy_from_nonoverlapping(args.ints, site.count.ints);
                base.refs.copy_from_nonoverlapping(args.refs, site.count.refs);
                outcome = self.run_callee(func, base, remaining);
            }
            let text = outcome.map(|()| {
                let reals: Vec<f64> = (0..results.reals).map(|n| *base.reals.add(n << inner)).collect();
                let cursor = Cursor::of_registers(
                    &reals,
                    std::slice::from_raw_parts(base.ints, results.ints),
                    std::slice::from_raw_parts(base.refs, results.refs),
                );
                text_of(template, &def.data, cursor)
            });
            (self.exec.mode, self.exec.roots) = (mode, roots);
            (self.exec.tasks, self.exec.host_digest) = (tasks, digest);
            self.leave_rooms(&rooms);
            let heap = &mut self.exec.heap;
            heap.restore_floor(floor);
            let held = heap.held();
            heap.cut(&mark);
            heap.changed(heap.held() as i64 - held as i64);
            text
        }
    }
}
