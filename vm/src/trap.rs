//! Why a run stopped before its end, and where.

mod non_finite;

pub(crate) use non_finite::Pending;
pub use non_finite::{Followed, NonFinite, Operand, Origin, Role, Round, Step};

use crate::bytecode::module::SourcePlace;
use crate::code::{DEPTH_MAX, Mode};
use crate::excerpt::SourceTexts;
use crate::host::Owned;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A limit of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// Instructions executed, in the forward run and in the sweep.
    Fuel,
    /// Wall-clock time.
    Deadline,
    /// Bytes allocated since the run began, whether they are still in use or not.
    AllocatedBytes,
    /// Bytes that live heap objects and frames hold at one time.
    LiveBytes,
    /// Bytes of tape and of adjoints.
    TapeBytes,
    /// Frames; or runs that the host begins in the middle of others, of which a thread may have 64, as far as its stack
    /// suffices.
    Depth,
    /// Bytes of one stack of the run, as far as [`Config::stack_bytes`](crate::engine::Config::stack_bytes) lets it
    /// grow.
    StackBytes,
    /// Addresses for the stacks, the heap and the tape of the run, of which the system gives the process no more:
    /// because of `ulimit -v`, a quota, or because it has no more memory to back them. Others in the process may be who
    /// took them.
    AddressSpace,
}

/// An error that a function of the host's has returned, as it was. Two of them are equal, whatever they are: what they
/// say is compared with the trap.
///
/// ```
/// # use dualvm_vm::{engine::{Config, Engine, Module, RunError}, host::HostFunction, text, value::Value};
/// use dualvm_vm::flat::LeafKind;
/// use dualvm_vm::trap::TrapKind;
/// use std::num::ParseIntError;
///
/// let count = HostFunction::flat(&[], &[LeafKind::Int], |call| call.give("12 a".parse::<i64>()?));
/// # let def = text::parse("import x0 \"count\" () -> Int
/// #     func \"main\" () -> (int) export () -> Int
/// #     regs 1 int
/// #     { call_import x0 () -> (i0)
/// #     ret (i0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
/// # let engine = Engine::new(Config::default().with_host_function("count", count));
/// # let module = Module::new(&engine, def).map_err(|errors| errors[0].to_string())?;
/// let RunError::Trap(trap) = module.function("main").ok_or("no such function")?.call(&[]).unwrap_err() else {
///     unreachable!("the host's function gives an error")
/// };
/// let TrapKind::Host(failure) = &trap.kind else { unreachable!("it is the function that has failed") };
/// assert_eq!(failure.message, "invalid digit found in string");
/// let cause = failure.cause.as_ref().ok_or("it is one of Rust's")?;
/// assert!(cause.downcast_ref::<ParseIntError>().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostCause(Owned<Arc<dyn Error + Send + Sync>>);

impl HostCause {
    pub(crate) fn new(error: impl Error + Send + Sync + 'static) -> HostCause {
        HostCause(Owned::new(Arc::new(error)))
    }

    /// The error.
    pub fn get(&self) -> &(dyn Error + Send + Sync + 'static) {
        &**self.0
    }

    /// The error, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl PartialEq for HostCause {
    fn eq(&self, _: &HostCause) -> bool {
        true
    }
}

/// What a function of the host's has failed with.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct HostFailure {
    /// What the program calls the function.
    pub function: String,
    /// What it says.
    pub message: String,
    /// The host's own error, if it is one of Rust's.
    pub cause: Option<HostCause>,
}

impl HostFailure {
    #[cold]
    pub(crate) fn trap(function: &str, message: String, cause: Option<HostCause>) -> TrapKind {
        TrapKind::Host(Box::new(HostFailure { function: function.to_owned(), message, cause }))
    }
}

/// Two shapes that should be the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherShape {
    /// That of what a tangent or a cotangent belongs to.
    pub expected: String,
    /// That of the tangent or the cotangent.
    pub found: String,
}

impl OtherShape {
    #[cold]
    pub(crate) fn trap(expected: String, found: String) -> TrapKind {
        TrapKind::OtherShape(Box::new(OtherShape { expected, found }))
    }
}

/// Why a run stopped.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TrapKind {
    /// An integer was divided by zero.
    DivisionByZero {
        /// What was divided.
        dividend: i64,
        /// Whether for the remainder.
        is_remainder: bool,
    },
    /// The quotient of `-2⁶³` and `-1` is not an integer of 64 bits.
    DivisionOverflow {
        /// Whether it was divided for the remainder.
        is_remainder: bool,
    },
    /// A real that is NaN or out of range was converted to an integer.
    NotAnInteger(f64),
    /// An array was read outside of its bounds.
    IndexOutOfBounds {
        /// The index asked for.
        index: i64,
        /// The array's length.
        len: u64,
    },
    /// Elements were taken of an array that are not all in it, or end before they begin.
    RangeOutOfBounds {
        /// The first one.
        from: i64,
        /// The first one behind them.
        to: i64,
        /// The array's length.
        len: u64,
    },
    /// A builder was asked for with this capacity, which is negative or beyond what memory can hold.
    BadCapacity(i64),
    /// More elements were pushed than the builder has room for.
    BuilderFull {
        /// The room that was asked for.
        capacity: u64,
    },
    /// A finished builder was used.
    BuilderFinished,
    /// A variant's payload was read under another tag.
    WrongTag {
        /// The tag that the instruction expects.
        expected: u16,
        /// The tag of the object.
        found: u16,
    },
    /// Forward derivatives were nested more than [`DEPTH_MAX`] deep.
    OrderTooHigh,
    /// A function has too many registers, or too long a piece of arithmetic, to be differentiated so many times.
    TooLargeToDerive {
        /// How many times.
        order: u32,
    },
    /// A tangent or a cotangent is not of the shape of what it belongs to.
    OtherShape(Box<OtherShape>),
    /// The program stopped itself, with this message.
    Message(String),
    /// A function of the host's gave an error, or panicked.
    Host(Box<HostFailure>),
    /// A derivative was asked for of a function of the host's that has none of this order.
    HostDerivative {
        /// What the program calls it.
        function: String,
        /// The order of the derivative: 1 is the first.
        order: u32,
    },
    /// Functions of the host's gave something else when they were called again, with the same arguments, to compute
    /// derivatives. They must be pure.
    ImpureHost,
    /// A number became NaN or infinite, in an engine that [stops there](crate::engine::Config::trap_nan).
    NonFinite(Box<NonFinite>),
    /// A limit was reached.
    Limit(Limit),
    /// The host cancelled the run.
    Cancelled,
}

// Whatever may stop a run has room for one on its stack, the interpreter in some thirty places.
const _: () = assert!(size_of::<TrapKind>() <= 32);

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrapKind::DivisionByZero { dividend, is_remainder } => {
                write!(f, "integer division by zero: {dividend} {} 0", division(*is_remainder))
            }
            TrapKind::DivisionOverflow { is_remainder } => {
                write!(f, "integer division overflows: {} {} -1", i64::MIN, division(*is_remainder))
            }
            // `Debug` has an exponent where `Display` would have up to 309 digits.
            TrapKind::NotAnInteger(x) => write!(f, "{x:?} can't be converted to an integer"),
            TrapKind::IndexOutOfBounds { index, len } => {
                write!(f, "index {index} is out of bounds of an array of length {len}")
            }
            TrapKind::RangeOutOfBounds { from, to, len } if from > to => {
                write!(f, "a range of an array of length {len} begins at {from} and ends before it, at {to}")
            }
            TrapKind::RangeOutOfBounds { from, to, len } => {
                write!(f, "the range from {from} to {to} is out of bounds of an array of length {len}")
            }
            TrapKind::BadCapacity(n) => write!(f, "an array of length {n} can't be built"),
            TrapKind::BuilderFull { capacity } => write!(f, "more than {capacity} elements were pushed to a builder"),
            TrapKind::BuilderFinished => write!(f, "a finished builder or chain was used"),
            TrapKind::WrongTag { expected, found } => {
                write!(f, "a payload of variant {expected} was read from a value of variant {found}")
            }
            TrapKind::OrderTooHigh => write!(f, "derivatives are nested more than {DEPTH_MAX} deep"),
            TrapKind::TooLargeToDerive { order } => {
                write!(f, "a function is too large to be differentiated {order} times in forward mode")
            }
            TrapKind::OtherShape(shapes) => {
                write!(
                    f,
                    "a tangent or cotangent must have the shape of what it belongs to: it is {}, and that is {}",
                    shapes.found, shapes.expected
                )
            }
            TrapKind::Message(text) => write!(f, "{text}"),
            TrapKind::Host(failure) => write!(f, "the host's function `{}`: {}", failure.function, failure.message),
            TrapKind::HostDerivative { function, order: 1 } => {
                write!(f, "the host's function `{function}` has no derivative, and one is asked for")
            }
            TrapKind::HostDerivative { function, order } => {
                write!(f, "the host's function `{function}` has no derivative of order {order}, and one is asked for")
            }
            TrapKind::ImpureHost => write!(
                f,
                "a function of the host's gave something else when it was called again for a derivative: it must be pure"
            ),
            TrapKind::NonFinite(found) => found.fmt(f),
            TrapKind::Limit(limit) => match limit {
                Limit::Fuel => write!(f, "out of fuel"),
                Limit::Deadline => write!(f, "the deadline has passed"),
                Limit::AllocatedBytes => write!(f, "the limit on allocated bytes was reached"),
                Limit::LiveBytes => write!(f, "the limit on live memory was reached"),
                Limit::TapeBytes => write!(f, "the limit on tape memory was reached"),
                Limit::Depth => write!(f, "the recursion is too deep"),
                Limit::StackBytes => write!(f, "a stack of the run may not grow any further"),
                Limit::AddressSpace => write!(f, "the system gives the run no more address space"),
            },
            TrapKind::Cancelled => write!(f, "the run was cancelled"),
        }
    }
}

/// How divisions of integers are written.
fn division(is_remainder: bool) -> char {
    if is_remainder { '%' } else { '/' }
}

/// One frame of a backtrace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceFrame {
    /// The function's name.
    pub function: String,
    /// How it ran.
    pub mode: Mode,
    /// The instruction that was being executed.
    pub inst: u32,
    /// Where that was in the source, if the module says.
    pub place: Option<SourcePlace>,
    /// Whether this is a call in whose place the code of what was called stands: then it has no frame of its own, and
    /// `inst` is an instruction of the function around it.
    pub is_inlined: bool,
}

impl TraceFrame {
    /// The function's name as it is written: what tells apart those that a compiler makes of one, as in `area<Real>`
    /// and `area#2`, is left out.
    fn written_name(&self) -> &str {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'');
        let mark = self.function.find(['<', '#']).map(|at| self.function.split_at(at).0);
        mark.filter(|name| name.ends_with(is_word)).unwrap_or(&self.function)
    }
}

/// A trap and the calls that led to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Trap {
    /// Why the run stopped.
    pub kind: TrapKind,
    /// The innermost frames, innermost first.
    pub innermost: Vec<TraceFrame>,
    /// How many frames between `innermost` and `outermost` are left out.
    pub omitted: usize,
    /// The outermost frames, if they are not in `innermost` already.
    pub outermost: Vec<TraceFrame>,
}

/// So many frames are shown at each end, those of calls whose code stands elsewhere included.
const FRAMES_MAX: usize = 64;

impl Trap {
    /// A trap with the frames at both ends; of more than are shown, those in the middle are left out.
    pub(crate) fn new(
        kind: TrapKind,
        mut innermost: Vec<TraceFrame>,
        mut omitted: usize,
        mut outermost: Vec<TraceFrame>,
    ) -> Trap {
        if innermost.len() > FRAMES_MAX {
            let rest = innermost.split_off(FRAMES_MAX);
            match omitted {
                0 => outermost.splice(0..0, rest).for_each(drop),
                _ => omitted += rest.len(),
            }
        }
        let passed_over = outermost.len().saturating_sub(FRAMES_MAX);
        outermost.drain(..passed_over);
        Trap { kind, innermost, omitted: omitted + passed_over, outermost }
    }

    /// The trap as text, with the line of the innermost place whose text is there, and a caret under it.
    pub fn with_sources<'a>(&'a self, texts: &'a SourceTexts) -> WithSources<'a> {
        WithSources { trap: self, texts: Some(texts) }
    }

    /// The innermost frames, innermost first, and then the outermost ones.
    pub fn frames(&self) -> impl Iterator<Item = &TraceFrame> {
        self.innermost.iter().chain(&self.outermost)
    }
}

/// A trap with the texts of the source files that its places are in: see [`Trap::with_sources`].
#[derive(Clone, Copy, Debug)]
pub struct WithSources<'a> {
    trap: &'a Trap,
    texts: Option<&'a SourceTexts>,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WithSources { trap: self, texts: None }.fmt(f)
    }
}

impl fmt::Display for WithSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WithSources { trap, texts } = *self;
        write!(f, "{}", trap.kind)?;
        // A number has its own line.
        let mut texts_to_show = texts;
        if let TrapKind::NonFinite(found) = &trap.kind {
            found.write_details(f, texts_to_show.take())?;
        }
        let mut frame = |f: &mut fmt::Formatter<'_>, frame: &TraceFrame| {
            let Some(place) = &frame.place else {
                return write!(f, "\n  in {} at instruction {}", frame.function, frame.inst);
            };
            write!(f, "\n  in {} at {place}", frame.written_name())?;
            let excerpt = texts_to_show.map(|texts| texts.excerpt(place)).unwrap_or_default();
            if !excerpt.is_empty() {
                texts_to_show = None;
                write!(f, "\n{}", excerpt.trim_end())?;
            }
            Ok(())
        };
        trap.innermost.iter().try_for_each(|entry| frame(f, entry))?;
        if trap.omitted > 0 {
            write!(f, "\n  … {} more frames …", trap.omitted)?;
        }
        trap.outermost.iter().try_for_each(|entry| frame(f, entry))
    }
}

impl Error for Trap {}

#[cfg(test)]
mod tests {
    use super::TrapKind;

    #[test]
    fn numbers_without_an_integer_are_short() {
        let shown = |x: f64| TrapKind::NotAnInteger(x).to_string();
        assert_eq!(shown(-1e300), "-1e300 can't be converted to an integer");
        assert_eq!(shown(9.3e18), "9.3e18 can't be converted to an integer");
        assert_eq!(shown(f64::NAN), "NaN can't be converted to an integer");
        assert_eq!(shown(f64::INFINITY), "inf can't be converted to an integer");
    }
}
