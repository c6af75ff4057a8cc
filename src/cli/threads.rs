//! Threads on the command line: how many there are, and how busy they were.

use dualvm::Engine;
use std::time::{Duration, Instant};

/// More than any machine has that we know of; each costs a stack.
const THREADS_MAX: usize = 1024;

/// Reads a number of threads; 0 stands for one per core.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let count = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).and_then(|n| n.parse().ok());
    let count = count.filter(|&count: &usize| count <= THREADS_MAX);
    count.ok_or_else(|| format!("expected a whole number from 0, which stands for one per core, to {THREADS_MAX}"))
}

/// Measures a call by the clock on the wall and by the processor time of the threads.
pub(crate) struct Clock<'a> {
    engine: &'a Engine,
    before: Vec<Duration>,
    began: Instant,
}

/// What a call took.
pub(crate) struct Busy {
    /// On the clock on the wall, with the conversion of arguments and results.
    pub(crate) call: Duration,
    /// Processor time of each thread; empty where the system doesn't tell.
    pub(crate) threads: Vec<Duration>,
}

impl<'a> Clock<'a> {
    pub(crate) fn start(engine: &'a Engine) -> Self {
        Clock { engine, before: engine.thread_times(), began: Instant::now() }
    }

    pub(crate) fn stop(&self) -> Busy {
        let call = self.began.elapsed();
        // Threads that the call has started had no time before.
        let before = self.before.iter().copied().chain(std::iter::repeat(Duration::ZERO));
        let threads = self.engine.thread_times().into_iter().zip(before);
        Busy { call, threads: threads.map(|(after, before)| after.saturating_sub(before)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_bounds() {
        assert_eq!(count("0"), Ok(0));
        assert_eq!(count(" 1024"), Ok(1024));
        for bad in ["", "-1", "+1", "1.5", "two", "1025", "99999999999999999999"] {
            assert!(count(bad).is_err(), "{bad:?}");
        }
    }
}
