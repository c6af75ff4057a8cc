//! What a call may use.

use std::time::Duration;

/// What a run may use; one that the host begins in the middle of another has limits of its own, see
/// [`HostCall::nested_options`](crate::host::HostCall::nested_options). Every limit is on; the defaults are meant for a
/// trusted program on a workstation, and [`Limits::untrusted`] for programs from strangers.
///
/// ```
/// # use dualvm_vm::engine::Limits;
/// let strict = Limits { fuel: 1_000_000, ..Limits::default() };
/// assert_eq!(strict.depth, 2_000_000);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Instructions that may be executed, in the forward run and in the sweep together. Default: 10¹⁵.
    pub fuel: u64,
    /// Wall-clock time that a call may take, from the conversion of its arguments to that of its result. Default: none.
    ///
    /// The call ends at most 10 ms and a twentieth of this time later, on any number of threads, whatever it is doing;
    /// for calls that share threads with others see [`Config::pool`](crate::engine::Config::pool). The clock is looked
    /// at about every 100 µs, and before what can't be interrupted: a call ends early if it couldn't leave a deep
    /// recursion, fill an array or give memory back in the time that is left.
    pub deadline: Option<Duration>,
    /// Bytes of heap objects that may be allocated, whether they stay in use or not. Default: 2⁶³.
    pub allocated_bytes: u64,
    /// Bytes that heap and frames may hold at one time, and about how many a result may take as a
    /// [`Value`](crate::value::Value). Default: 4 GiB.
    ///
    /// This and [`Limits::tape_bytes`] count memory as it is taken, in slabs of 64 KiB. Where tasks run on several
    /// threads, each of these begins slabs of its own, so a limit may be met some slabs earlier or later than on one.
    pub live_bytes: u64,
    /// Bytes that tape and adjoints may hold. Default: 8 GiB.
    pub tape_bytes: u64,
    /// Frames of calls that have not returned; that of the function which the host calls is one. Default: 2,000,000.
    pub depth: usize,
    /// Time that the call may spend on compiling to native code, on all its threads together. What would take longer
    /// stays interpreted; that is no error, and no result depends on it. One piece of code takes some 60 ms
    /// at most, or a 25th of this time but at least 20 ms; with a deadline it takes 20 ms, and none is begun that would
    /// take more than a quarter of the time until then. Default: one minute.
    pub compile_time: Duration,
    /// Bytes that the module's native code may take, with what belongs to it, for this call to add to it. Beyond,
    /// code stays interpreted, as for [`Limits::compile_time`]. Default: 256 MiB.
    pub code_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            fuel: 1_000_000_000_000_000,
            deadline: None,
            allocated_bytes: 1 << 63,
            live_bytes: 4 << 30,
            tape_bytes: 8 << 30,
            depth: 2_000_000,
            compile_time: Duration::from_secs(60),
            code_bytes: 256 << 20,
        }
    }
}

impl Limits {
    /// Limits for programs from strangers: seconds of time, tens of megabytes of memory, little code.
    ///
    /// | | |
    /// |---|---|
    /// | fuel | 10¹⁰ instructions |
    /// | deadline | 5 s |
    /// | allocated bytes | 16 GiB |
    /// | live bytes | 64 MiB |
    /// | tape bytes | 64 MiB |
    /// | depth | 100,000 |
    /// | compile time | 0.5 s |
    /// | code bytes | 16 MiB |
    ///
    /// Whether fuel, allocation, depth and tape suffice depends on program and arguments only, and not on the machine
    /// that it runs on: a program that is to end in the same way everywhere has to be stopped by these.
    ///
    /// ```
    /// # use dualvm_vm::engine::Limits;
    /// use std::time::Duration;
    ///
    /// let limits = Limits { deadline: Some(Duration::from_millis(200)), ..Limits::untrusted() };
    /// assert!(limits.live_bytes < Limits::default().live_bytes);
    /// ```
    pub fn untrusted() -> Self {
        Limits {
            fuel: 10_000_000_000,
            deadline: Some(Duration::from_secs(5)),
            allocated_bytes: 16 << 30,
            live_bytes: 64 << 20,
            tape_bytes: 64 << 20,
            depth: 100_000,
            compile_time: Duration::from_millis(500),
            code_bytes: 16 << 20,
        }
    }
}
