//! How a function's code runs.

use std::fmt;

/// What an activation of a function does beside computing primals. A function has a stream and native code of its own
/// for each mode that it runs in. The mode belongs to the state of an execution; all of its activations run in the same
/// one as yet.
///
/// ```
/// use dualvm_vm::native::Mode;
/// assert_eq!((Mode::PRIMAL.to_string(), Mode::RECORDING.to_string()), ("primal".into(), "recording".into()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mode {
    /// A real has 2^depth components. No function runs at another depth than 0 as yet.
    depth: u8,
    recording: bool,
}

impl Mode {
    /// Computes primals.
    pub const PRIMAL: Mode = Mode { depth: 0, recording: false };
    /// Computes primals and words, and appends records to a tape.
    pub const RECORDING: Mode = Mode { depth: 0, recording: true };

    /// All modes, in the order of [`Mode::index`].
    pub(crate) const ALL: [Mode; 2] = [Mode::PRIMAL, Mode::RECORDING];

    /// Whether reals have words and records are written.
    #[inline(always)]
    pub const fn is_recording(self) -> bool {
        self.recording
    }

    /// The place of what there is for each mode, among [`Mode::ALL`].
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        2 * self.depth as usize + self.recording as usize
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.recording { "recording" } else { "primal" })?;
        if self.depth == 0 { Ok(()) } else { write!(f, " at depth {}", self.depth) }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn modes_stand_in_their_places() {
        for (index, mode) in Mode::ALL.into_iter().enumerate() {
            assert_eq!(mode.index(), index);
        }
    }
}
