//! What is traced, on its way to the host.
//!
//! The host gets lines in the order of the run from left to right, each once. While an execution is the only one, it
//! shows each line at once: what it has done stays done. While there are several, each keeps its lines; when two halves
//! of a fork are joined, those of the right one go behind those of the left one, unless that has trapped, because the
//! run has ended there then. The outermost fork shows what has come together when it ends, or forgets it if it starts
//! over on one execution. So lines wait in no more executions than there are threads, and count as live memory there.

use super::program::Program;
use super::trace::Place;
use super::worker::Worker;
use crate::bytecode::module::SourcePlace;
use crate::trap::{Limit, TrapKind};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// What a program shows with `trace`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TraceLine<'a> {
    /// The text.
    pub text: &'a str,
    /// Where it was asked for in the source, if the module says.
    pub place: Option<&'a SourcePlace>,
}

/// A host that listens to what programs trace.
///
/// It is called in the middle of a run, by the thread that runs, with 2 MiB of stack or more; lines of a run come one
/// after the other, in the order of the run from left to right, whatever threads there are. If it panics, the run
/// stops, and the panic goes on in who has called.
///
/// ```
/// use dualvm_vm::engine::Listener;
/// use std::sync::{Arc, Mutex};
///
/// let lines = Arc::new(Mutex::new(Vec::new()));
/// let heard = lines.clone();
/// let listener = Listener::new(move |line| heard.lock().unwrap().push(line.text.to_owned()));
/// # drop(listener);
/// ```
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(&TraceLine<'_>) + Send + Sync>);

impl Listener {
    /// A listener that is called with each line.
    pub fn new(listener: impl Fn(&TraceLine<'_>) + Send + Sync + 'static) -> Self {
        Listener(Arc::new(listener))
    }

    /// Tells it a line.
    pub(crate) fn tell(&self, line: &TraceLine<'_>) {
        (self.0)(line);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// A line that was traced.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) place: Place,
}

impl Line {
    fn bytes(&self) -> usize {
        size_of::<Line>() + self.text.capacity()
    }
}

/// Lines that wait, in order.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Line>);

impl Lines {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(Line::bytes).sum()
    }
}

/// A host that listens to a run.
#[derive(Debug)]
pub(crate) struct Listening<'a> {
    listener: &'a Listener,
    /// What it has panicked with.
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
}

impl<'a> Listening<'a> {
    pub(crate) fn to(listener: &'a Listener) -> Self {
        Listening { listener, panicked: Mutex::new(None) }
    }

    /// What the host's listener has panicked with.
    pub(crate) fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        self.panicked.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, program: &Program, line: &Line) -> Result<(), TrapKind> {
        let mut panicked = self.panicked.lock().unwrap_or_else(PoisonError::into_inner);
        if panicked.is_some() {
            return Err(TrapKind::Cancelled);
        }
        let place = program.source_place(line.place);
        let told = TraceLine { text: &line.text, place: place.as_ref() };
        // The run stands on a stack of its own, which nothing may unwind.
        catch_unwind(AssertUnwindSafe(|| self.listener.tell(&told))).map_err(|payload| {
            *panicked = Some(payload);
            TrapKind::Cancelled
        })
    }
}

impl Worker {
    /// Shows a line to the host, or keeps it while there are several executions.
    ///
    /// # Safety
    /// **Running**, as for [`super::worker::Execution::info`].
    pub(super) unsafe fn show(&mut self, line: Line) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        let info = unsafe { self.exec.info() };
        if !(self.exec.forked && info.is_parallel()) {
            return info.listening.map_or(Ok(()), |listening| listening.tell(info.program, &line));
        }
        self.exec.heap.changed(line.bytes() as i64);
        self.exec.lines.0.push(line);
        if self.exec.heap.is_too_much_held() { Err(Limit::LiveBytes.into()) } else { Ok(()) }
    }

    /// Shows the lines that were kept: there is only one execution again.
    ///
    /// # Safety
    /// **Running**, as for [`super::worker::Execution::info`].
    pub(super) unsafe fn show_kept(&mut self) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        let info = unsafe { self.exec.info() };
        let lines = std::mem::take(&mut self.exec.lines);
        let Some(listening) = info.listening else { return Ok(()) };
        lines.0.iter().try_for_each(|line| listening.tell(info.program, line))
    }

    /// Takes over the lines of what has run to the right of all that this execution has run, or forgets them if the run
    /// doesn't come there.
    pub(super) fn take_lines(&mut self, lines: Lines, is_reached: bool) {
        if is_reached {
            self.exec.lines.0.extend(lines.0);
        } else {
            self.exec.heap.changed(-(lines.bytes() as i64));
        }
    }
}
