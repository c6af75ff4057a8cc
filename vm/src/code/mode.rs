//! How a function's code runs.

use std::fmt;
use std::sync::OnceLock;

/// The highest order of derivatives in forward mode that nest.
pub const DEPTH_MAX: u32 = 8;

/// What an activation of a function does beside computing primals. A function has a stream and native code of its own
/// for each mode that it runs in. The mode belongs to the state of an execution; an operator that runs a function in
/// another mode restores it afterwards.
///
/// ```
/// use dualvm_vm::native::Mode;
/// assert_eq!((Mode::PRIMAL.to_string(), Mode::RECORDING.to_string()), ("primal".into(), "recording".into()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mode {
    /// Twice the depth, which is at most [`DEPTH_MAX`], and 1 more in a recording run.
    index: u8,
}

impl Mode {
    /// Computes primals.
    pub const PRIMAL: Mode = Mode { index: 0 };
    /// Computes primals and words, and appends records to a tape.
    pub const RECORDING: Mode = Mode { index: 1 };

    /// How many modes there are.
    pub(crate) const COUNT: usize = 2 * (DEPTH_MAX as usize + 1);
    /// How many of them are of depth 0. They come first.
    pub(crate) const SHALLOW: usize = 2;

    /// Whether reals have words and records are written.
    #[inline(always)]
    pub const fn is_recording(self) -> bool {
        self.index & 1 != 0
    }

    /// How many forward derivatives are nested: a real has 2^depth components, indexed by the subsets of so many
    /// infinitesimals.
    #[inline(always)]
    pub const fn depth(self) -> u32 {
        (self.index >> 1) as u32
    }

    /// The same at another depth, which is at most [`DEPTH_MAX`].
    pub(crate) const fn at_depth(self, depth: u32) -> Mode {
        assert!(depth <= DEPTH_MAX);
        Mode { index: 2 * depth as u8 + (self.index & 1) }
    }

    /// The place of what there is for each mode, below [`Mode::COUNT`].
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_recording() { "recording" } else { "primal" };
        if self.depth() == 0 { f.pad(name) } else { f.pad(&format!("{name} at depth {}", self.depth())) }
    }
}

/// Something for each mode. What there is for depths beyond 0 is made when it is first asked for.
#[derive(Debug)]
pub(crate) struct ByMode<T> {
    shallow: [T; Mode::SHALLOW],
    deep: Box<[OnceLock<T>; Mode::COUNT - Mode::SHALLOW]>,
}

impl<T> ByMode<T> {
    pub(crate) fn new(make: impl Fn() -> T) -> Self {
        ByMode { shallow: [(); Mode::SHALLOW].map(|()| make()), deep: Box::default() }
    }

    /// What there is for a mode.
    #[inline(always)]
    pub(crate) fn get(&self, mode: Mode, make: impl FnOnce() -> T) -> &T {
        match mode.index().checked_sub(Mode::SHALLOW) {
            None => &self.shallow[mode.index()],
            Some(index) => self.deep[index].get_or_init(make),
        }
    }

    /// What there is for a mode, if that was ever asked for.
    pub(crate) fn known(&self, mode: Mode) -> Option<&T> {
        match mode.index().checked_sub(Mode::SHALLOW) {
            None => Some(&self.shallow[mode.index()]),
            Some(index) => self.deep[index].get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_places_of_their_own() {
        let modes = [Mode::PRIMAL, Mode::RECORDING];
        let all = (0..=DEPTH_MAX).flat_map(|depth| modes.map(|mode| mode.at_depth(depth)));
        assert!(all.map(Mode::index).eq(0..Mode::COUNT));
        assert!(modes.iter().all(|mode| mode.index() < Mode::SHALLOW));
        assert_eq!(Mode::RECORDING.at_depth(2).to_string(), "recording at depth 2");
    }
}
