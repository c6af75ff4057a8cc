//! What is traced, on its way to the host.
//!
//! The host gets lines in the order of the run from left to right, each once. While an execution is the only one, it
//! shows each line at once: what it has done stays done. While there are several, each keeps its lines; when two halves
//! of a fork are joined, those of the right one go behind those of the left one, unless that has trapped, because the
//! run has ended there then. The outermost fork shows what has come together when it ends, or forgets it if it starts
//! over on one execution. So lines wait in no more executions than there are threads, and count as live memory there.
//!
//! What the function of a constant traces belongs to the constant ([`super::constants`]), because another execution may
//! ask for it earlier in the order of the run than the one that has computed it. It is shown where the constant is
//! asked for first in that order.

use super::constants::{Constant, Constants};
use super::program::Program;
use super::trace::Place;
use super::worker::Worker;
use crate::bytecode::module::SourcePlace;
use crate::host::{Panic, run_guarded};
use crate::trap::{Limit, TrapKind};
use std::any::Any;
use std::fmt;
use std::sync::atomic::Ordering;
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
/// It is called in the middle of a run, by the thread that runs, on that thread's own stack; lines of a run come one
/// after the other, in the order of the run from left to right, whatever threads there are. What it calls of the
/// machine stays on the thread, if that is one of a pool. If it panics, the run stops, and the panic goes on in who has
/// called.
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

/// What waits to be shown.
#[derive(Debug)]
enum Entry {
    Line(Line),
    /// What the function of this constant has traced, unless it was shown before.
    Constant(usize),
}

impl Entry {
    fn bytes(&self) -> u64 {
        let text = if let Entry::Line(line) = self { line.text.capacity() } else { 0 };
        (size_of::<Entry>() + text) as u64
    }
}

/// Lines that wait, in order.
#[derive(Debug, Default)]
pub(super) struct Lines {
    entries: Vec<Entry>,
    bytes: u64,
}

impl Lines {
    pub(super) fn clear(&mut self) {
        self.truncate(0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all but the first ones.
    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes -= self.entries[len..].iter().map(Entry::bytes).sum::<u64>();
        self.entries.truncate(len);
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.push(entry);
    }

    fn append(&mut self, mut more: Lines) {
        self.bytes += more.bytes;
        self.entries.append(&mut more.entries);
    }
}

/// A host that listens to a run.
#[derive(Debug)]
pub(crate) struct Listening<'a> {
    listener: &'a Listener,
    /// What it has panicked with.
    panicked: Mutex<Option<Panic>>,
}

impl<'a> Listening<'a> {
    pub(crate) fn to(listener: &'a Listener) -> Self {
        Listening { listener, panicked: Mutex::new(None) }
    }

    /// What the host's listener has panicked with.
    pub(crate) fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        self.panicked.into_inner().unwrap_or_else(PoisonError::into_inner).map(Panic::into_payload)
    }

    fn tell(&self, program: &Program, line: &Line) -> Result<(), TrapKind> {
        let mut panicked = self.panicked.lock().unwrap_or_else(PoisonError::into_inner);
        if panicked.is_some() {
            return Err(TrapKind::Cancelled);
        }
        let place = program.source_place(line.place);
        let told = TraceLine { text: &line.text, place: place.as_ref() };
        run_guarded(|| self.listener.tell(&told)).map_err(|panic| {
            *panicked = Some(panic);
            TrapKind::Cancelled
        })
    }
}

impl Listening<'_> {
    /// Tells lines, and those of constants where these are first asked for.
    fn tell_all(&self, program: &Program, constants: &Constants, lines: &Lines) -> Result<(), TrapKind> {
        let mut open = vec![lines.entries.iter()];
        while let Some(entries) = open.last_mut() {
            match entries.next() {
                None => _ = open.pop(),
                Some(Entry::Line(line)) => self.tell(program, line)?,
                Some(&Entry::Constant(number)) => {
                    let constant =
                        constants.get(number).filter(|constant| !constant.is_told.swap(true, Ordering::Relaxed));
                    open.extend(constant.map(|constant| constant.lines.entries.iter()));
                }
            }
        }
        Ok(())
    }
}

impl Worker {
    /// Whether lines wait: there are other executions, or they belong to a constant.
    ///
    /// # Safety
    /// **Running**, as for [`super::worker::Execution::info`].
    unsafe fn keeps_lines(&self) -> bool {
        // SAFETY: promised by the caller.
        self.exec.computes || self.exec.forked && unsafe { self.exec.info() }.is_parallel()
    }

    /// Shows a line to the host, or keeps it while it has to wait.
    ///
    /// # Safety
    /// **Running**, as for [`super::worker::Execution::info`].
    pub(super) unsafe fn show(&mut self, line: Line) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        let (info, keeps) = unsafe { (self.exec.info(), self.keeps_lines()) };
        if !keeps {
            return info.listening.map_or(Ok(()), |listening| listening.tell(info.program, &line));
        }
        self.keep_line(Entry::Line(line))
    }

    fn keep_line(&mut self, entry: Entry) -> Result<(), TrapKind> {
        self.exec.heap.hold(entry.bytes());
        self.exec.lines.push(entry);
        if self.exec.heap.is_too_much_held() { Err(Limit::LiveBytes.into()) } else { Ok(()) }
    }

    /// Shows what the function of a constant has traced, which is asked for here.
    ///
    /// # Safety
    /// **Running**, as for [`super::worker::Execution::info`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn show_of_constant(&mut self, number: usize, constant: &Constant) -> Result<(), TrapKind> {
        // What is told was asked for to the left of all that runs now.
        if constant.is_told.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: promised by the caller.
        if unsafe { self.keeps_lines() } {
            let is_it = |entry: &Entry| matches!(entry, Entry::Constant(other) if *other == number);
            return if self.exec.lines.entries.iter().any(is_it) {
                Ok(())
            } else {
                self.keep_line(Entry::Constant(number))
            };
        }
        let mut lines = Lines::default();
        lines.push(Entry::Constant(number));
        // SAFETY: promised by the caller.
        unsafe { self.show_all(lines) }
    }

    /// Shows lines that were kept, or keeps them where they still have to wait.
    ///
    /// # Safety
    /// **Running**, as for [`super::worker::Execution::info`].
    pub(super) unsafe fn show_all(&mut self, lines: Lines) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        let (info, keeps) = unsafe { (self.exec.info(), self.keeps_lines()) };
        if keeps {
            self.exec.lines.append(lines);
            return Ok(());
        }
        info.listening.map_or(Ok(()), |listening| listening.tell_all(info.program, info.constants, &lines))
    }

    /// Shows the lines that were kept while there were several executions, now that there is only one again.
    ///
    /// # Safety
    /// **Running**, as for [`super::worker::Execution::info`].
    pub(super) unsafe fn show_kept(&mut self) -> Result<(), TrapKind> {
        let lines = std::mem::take(&mut self.exec.lines);
        // SAFETY: promised by the caller.
        unsafe { self.show_all(lines) }
    }

    /// Takes over the lines of what has run to the right of all that this execution has run, or forgets them if the run
    /// doesn't come there.
    pub(super) fn take_lines(&mut self, lines: Lines, is_reached: bool) {
        if is_reached {
            self.exec.lines.append(lines);
        } else {
            self.exec.heap.changed((lines.bytes() as i64).wrapping_neg());
        }
    }
}
