//! What a compilation may use: the limits that a host sets, and the meter that counts against them.
//!
//! A stage that runs into a limit stops where it is: from then on [`Meter::go_on`] is false, every walk returns at
//! once with something that has the right shape, and no later stage begins. The error says where that was.

use crate::diagnostics::Diagnostic;
use crate::importer::Importer;
use crate::source::Span;
use dualvm_vm::engine::CancelHandle;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a compilation may use. Every limit but that on time is on by default; the defaults are meant for trusted
/// programs on a workstation, and [`CompileLimits::untrusted`] for programs from strangers. What compiling to native
/// code may use is said for each call, by the machine's `Limits`.
///
/// ```
/// # use dualvm_frontend::{CompileLimits, CompileOptions, compile_with};
/// let limits = CompileLimits { code_nodes: 100, ..CompileLimits::untrusted() };
/// let text = "def power (x : Real) : Real = x ^ 15 + x ^ 14 + x ^ 13 + x ^ 12 + x ^ 11 + x ^ 10 + x ^ 9 + x ^ 8";
/// let error = compile_with("power.dual", text, &CompileOptions::with_limits(limits)).unwrap_err();
/// assert!(error.stopped().is_some());
/// assert!(error.to_string().contains("`code_nodes` is 100"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileLimits {
    /// Bytes of the program's text. Default: 16 MiB.
    pub source_bytes: usize,
    /// Wall-clock time. Default: none. It is looked at often enough that a compilation ends within 10 ms and 5 % after
    /// it.
    pub deadline: Option<Duration>,
    /// Tokens, and nodes of the syntax tree. Default: 50,000,000.
    pub syntax_nodes: u64,
    /// Nodes of inferred types, and rows of patterns in the check of cases. Default: 100,000,000.
    pub type_nodes: u64,
    /// Expressions of all instances of all definitions, before and after inlining, and the instructions that they
    /// become. Default: 100,000,000.
    pub code_nodes: u64,
    /// Bytes that the compilation may hold at one time, by a cautious estimate: all nodes that were ever made, each
    /// with the most that one of its kind takes in the stages that look at it. Default: 4 GiB.
    pub memory_bytes: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        CompileLimits {
            source_bytes: 16 << 20,
            deadline: None,
            syntax_nodes: 50_000_000,
            type_nodes: 100_000_000,
            code_nodes: 100_000_000,
            memory_bytes: 4 << 30,
        }
    }
}

impl CompileLimits {
    /// Limits for programs from strangers: a second of time, a text of 256 KiB, 128 MiB of memory.
    ///
    /// Whether nodes and memory suffice depends on the program only, and not on the machine that compiles it.
    pub fn untrusted() -> Self {
        CompileLimits {
            source_bytes: 256 << 10,
            deadline: Some(Duration::from_secs(1)),
            syntax_nodes: 300_000,
            type_nodes: 1_000_000,
            code_nodes: 500_000,
            memory_bytes: 128 << 20,
        }
    }
}

/// How a program is compiled.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompileOptions {
    /// What the compilation may use.
    pub limits: CompileLimits,
    /// Lets another thread stop the compilation.
    pub cancel: Option<CancelHandle>,
    /// Whether code computes only what the text asks for, where it asks for it. If not, which is the default, cheap
    /// branches of loops may both be computed, what doesn't change in a loop is computed before it, even if no round
    /// needs it, and operations on constants are done by the compiler. (Those that give NaN or infinity aren't, then,
    /// but for quotients: the prelude's `infinity` is `1.0 / 0.0`.) None of that changes a result; but who looks for
    /// the first number that isn't finite doesn't want to find one that nobody has asked for, or to miss one.
    ///
    /// ```
    /// # use dualvm_frontend::{CompileOptions, compile_with};
    /// let text = "def f (x : Real) : Real = x * (0 / 0)";
    /// let mut options = CompileOptions::default();
    /// let folded = compile_with("f.dual", text, &options)?.module;
    /// options.as_written = true;
    /// let as_written = compile_with("f.dual", text, &options)?.module;
    /// assert!(as_written.functions[0].body.code.len() > folded.functions[0].body.code.len());
    /// # Ok::<(), dualvm_frontend::Diagnostics>(())
    /// ```
    pub as_written: bool,
    /// Where the files come from that the program imports. By default there are none but those of the language's
    /// library, so that compiling opens no file.
    pub importer: Option<Arc<dyn Importer>>,
}

impl CompileOptions {
    /// The same options, with what finds the files that the program imports.
    pub fn importing(mut self, importer: Arc<dyn Importer>) -> Self {
        self.importer = Some(importer);
        self
    }

    /// Options with these limits.
    pub fn with_limits(limits: CompileLimits) -> Self {
        CompileOptions { limits, ..CompileOptions::default() }
    }

    /// The same options, with a handle that cancels the compilation.
    pub fn cancelled_by(mut self, handle: &CancelHandle) -> Self {
        self.cancel = Some(handle.clone());
        self
    }
}

/// Why a compilation was stopped before its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Stopped {
    /// The text is longer than [`CompileLimits::source_bytes`].
    SourceBytes,
    /// [`CompileLimits::deadline`] has passed.
    Deadline,
    /// There are more than [`CompileLimits::syntax_nodes`].
    SyntaxNodes,
    /// There are more than [`CompileLimits::type_nodes`].
    TypeNodes,
    /// There are more than [`CompileLimits::code_nodes`].
    CodeNodes,
    /// It may hold more than [`CompileLimits::memory_bytes`].
    MemoryBytes,
    /// The host has cancelled it.
    Cancelled,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    /// See [`CompileLimits::syntax_nodes`].
    Syntax,
    /// See [`CompileLimits::type_nodes`].
    Types,
    /// See [`CompileLimits::code_nodes`].
    Code,
}

/// What the compiler does, for the message of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// From text to a syntax tree.
    Parse,
    /// Names.
    Resolve,
    /// Types, and the cases of matches.
    Check,
    /// Instances of definitions.
    Specialise,
    /// Inlining, and what comes after it.
    Optimise,
    /// Bytecode.
    Lower,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Parse => "reading",
            Stage::Resolve => "looking up the names in",
            Stage::Check => "checking the types in",
            Stage::Specialise => "compiling",
            Stage::Optimise => "optimising",
            Stage::Lower => "making instructions of",
        })
    }
}

/// The most that a node takes in all stages that look at it, with room for tables that grow by doubling.
const SYNTAX_NODE_BYTES: u64 = 250;
const TYPE_NODE_BYTES: u64 = 150;
const CODE_NODE_BYTES: u64 = 300;

/// Steps between two looks at the clock; a step takes far less than 10 µs.
const STEPS: u32 = 512;

/// Counts what a compilation uses.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: CompileLimits,
    began: Instant,
    cancel: Option<CancelHandle>,
    counts: [Cell<u64>; 3],
    /// Bytes that all that was counted may take.
    bytes: Cell<u64>,
    /// Steps until the next look at the clock.
    steps_left: Cell<u32>,
    /// The bytes of all texts so far.
    source_bytes: Cell<usize>,
    /// See [`CompileOptions::as_written`].
    pub(crate) as_written: bool,
    stage: Cell<Stage>,
    /// Where the last step was.
    place: Cell<Span>,
    stopped: Cell<Option<(Reason, Span)>>,
}

/// Why the compiler stops, by a limit or of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    Stopped(Stopped),
    /// Inference takes far longer than in proportion to its types.
    Types,
}

impl Meter {
    /// A meter for a compilation that begins now.
    pub(crate) fn new(options: &CompileOptions) -> Self {
        Meter {
            limits: options.limits.clone(),
            began: Instant::now(),
            cancel: options.cancel.clone(),
            counts: [const { Cell::new(0) }; 3],
            bytes: Cell::new(0),
            steps_left: Cell::new(STEPS),
            source_bytes: Cell::new(0),
            as_written: options.as_written,
            stage: Cell::new(Stage::Parse),
            place: Cell::new(Span::default()),
            stopped: Cell::new(None),
        }
    }

    /// A meter without limits, for texts that are not programs.
    pub(crate) fn unlimited() -> Self {
        let limits = CompileLimits {
            source_bytes: usize::MAX,
            deadline: None,
            syntax_nodes: u64::MAX,
            type_nodes: u64::MAX,
            code_nodes: u64::MAX,
            memory_bytes: u64::MAX,
        };
        Meter::new(&CompileOptions::with_limits(limits))
    }

    /// Begins a stage; whether it may.
    pub(crate) fn enter(&self, stage: Stage) -> bool {
        self.stage.set(stage);
        self.poll();
        self.go_on()
    }

    /// Whether nothing has stopped the compilation.
    pub(crate) fn go_on(&self) -> bool {
        self.stopped.get().is_none()
    }

    /// Counts a step of work at a place; whether to go on.
    #[inline]
    pub(crate) fn step(&self, place: Span) -> bool {
        self.place.set(place);
        self.steps(1)
    }

    /// Counts several steps of work where the last one was; whether to go on.
    #[inline]
    pub(crate) fn steps(&self, steps: usize) -> bool {
        match self.steps_left.get().checked_sub(u32::try_from(steps).unwrap_or(u32::MAX)) {
            Some(left) => self.steps_left.set(left),
            None => self.poll(),
        }
        self.go_on()
    }

    /// Counts a node at a place, which is a step; whether to go on.
    #[inline]
    pub(crate) fn node(&self, count: Count, place: Span) -> bool {
        self.place.set(place);
        self.nodes(count, 1)
    }

    /// Counts nodes where the last step was, each of which is a step; whether to go on.
    #[inline]
    pub(crate) fn nodes(&self, count: Count, nodes: usize) -> bool {
        let all = &self.counts[count as usize];
        all.set(all.get() + nodes as u64);
        let (max, stopped, bytes_each) = match count {
            Count::Syntax => (self.limits.syntax_nodes, Stopped::SyntaxNodes, SYNTAX_NODE_BYTES),
            Count::Types => (self.limits.type_nodes, Stopped::TypeNodes, TYPE_NODE_BYTES),
            Count::Code => (self.limits.code_nodes, Stopped::CodeNodes, CODE_NODE_BYTES),
        };
        if all.get() > max {
            self.stop(stopped);
        }
        self.hold(nodes as u64 * bytes_each);
        self.steps(nodes)
    }

    /// Counts bytes that the compilation may hold.
    fn hold(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        if self.bytes.get() > self.limits.memory_bytes {
            self.stop(Stopped::MemoryBytes);
        }
    }

    #[cold]
    fn poll(&self) {
        self.steps_left.set(STEPS);
        if self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled) {
            self.stop(Stopped::Cancelled);
        }
        if self.limits.deadline.is_some_and(|time| self.began.elapsed() >= time) {
            self.stop(Stopped::Deadline);
        }
    }

    #[cold]
    fn stop(&self, why: Stopped) {
        self.end(Reason::Stopped(why));
    }

    #[cold]
    fn end(&self, reason: Reason) {
        if self.go_on() {
            self.stopped.set(Some((reason, self.place.get())));
        }
    }

    /// Stops because types are too complicated.
    pub(crate) fn refuse_types(&self) {
        self.end(Reason::Types);
    }

    /// Looks at the length of one more text; whether to read it.
    pub(crate) fn another_source(&self, bytes: usize) -> bool {
        let all = self.source_bytes.get().saturating_add(bytes);
        self.source_bytes.set(all);
        if all > self.limits.source_bytes {
            self.stop(Stopped::SourceBytes);
        } else {
            self.hold(bytes as u64);
        }
        self.go_on()
    }

    /// What is said about the end of the compilation, if there was one, and by which limit it was.
    pub(crate) fn stopped(&self) -> Option<(Diagnostic, Option<Stopped>)> {
        let (reason, place) = self.stopped.get()?;
        let Reason::Stopped(why) = reason else {
            let error = Diagnostic::error(place, "the types of this are too complicated");
            return Some((error.help("declare the types of parameters and results"), None));
        };
        let limits = &self.limits;
        let nodes = |name: &str, max: u64, what: &str, help: &str| {
            let error = Diagnostic::error(place, format!("the program is too large: too many {what}"));
            error.note(format!("the limit `{name}` is {max}")).help(help)
        };
        let error = match why {
            Stopped::Cancelled => Diagnostic::error(place, "the compilation was cancelled"),
            Stopped::Deadline => {
                let deadline = limits.deadline.unwrap_or_default();
                Diagnostic::error(place, "the compilation takes too long")
                    .note(format!("the limit `deadline` is {deadline:?}"))
                    .help("make the program smaller, or allow more time")
            }
            Stopped::SourceBytes => Diagnostic::error(place, "the program's text is too long")
                .note(format!("the limit `source_bytes` is {}", limits.source_bytes))
                .help("pass data as arguments, or allow a longer text"),
            Stopped::MemoryBytes => {
                Diagnostic::error(place, "the program is too large: compiling it takes too much memory")
                    .note(format!("the limit `memory_bytes` is {}", limits.memory_bytes))
                    .help("pass data as arguments, or allow more memory")
            }
            Stopped::SyntaxNodes => nodes(
                "syntax_nodes",
                limits.syntax_nodes,
                "tokens and expressions",
                "pass data as arguments, or allow more nodes",
            ),
            Stopped::TypeNodes => nodes(
                "type_nodes",
                limits.type_nodes,
                "types",
                "tuples of tuples and functions of functions have large types: name them with `type`, \
                 or allow more nodes",
            ),
            Stopped::CodeNodes => nodes(
                "code_nodes",
                limits.code_nodes,
                "instances and expressions",
                "a definition is compiled again for each type and each function that it is used with; \
                 allow more nodes if that is meant",
            ),
        };
        let error = match why {
            Stopped::SourceBytes => error,
            _ => error.label(format!("while {} this", self.stage.get())),
        };
        Some((error, Some(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_to_stop_counts() {
        let limits = CompileLimits { syntax_nodes: 10, type_nodes: 5, ..CompileLimits::default() };
        let meter = Meter::new(&CompileOptions::with_limits(limits));
        assert!(meter.nodes(Count::Syntax, 10));
        assert!(!meter.node(Count::Syntax, Span::new(3, 4)));
        assert!(!meter.step(Span::new(5, 6)) && !meter.nodes(Count::Types, 100));
        let (error, why) = meter.stopped().expect("it has");
        assert_eq!((why, error.primary.span), (Some(Stopped::SyntaxNodes), Span::new(3, 4)));
    }

    #[test]
    fn time_and_handles_are_looked_at_now_and_then() {
        let handle = CancelHandle::new();
        let limits = CompileLimits { deadline: Some(Duration::ZERO), ..CompileLimits::default() };
        let timed = Meter::new(&CompileOptions::with_limits(limits));
        let cancelled = Meter::new(&CompileOptions::default().cancelled_by(&handle));
        handle.cancel();
        for (meter, why) in [(timed, Stopped::Deadline), (cancelled, Stopped::Cancelled)] {
            let steps = (0..).take_while(|_| meter.step(Span::default())).count();
            assert!(steps <= STEPS as usize);
            assert_eq!(meter.stopped().expect("it has").1, Some(why));
        }
    }
}
