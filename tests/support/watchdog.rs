//! What to do about a program that never ends: say which one it is, and give up.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// So long may one program take, on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(120);

/// A thread that ends the process if it hears nothing for too long. It ends with what holds this.
pub(crate) struct Watchdog(Sender<u64>);

impl Watchdog {
    pub(crate) fn new() -> Watchdog {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut last = None;
            loop {
                match receiver.recv_timeout(PATIENCE) {
                    Ok(seed) => last = Some(seed),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("the program of seed {last:?} has run for {PATIENCE:?}");
                        std::process::abort();
                    }
                }
            }
        });
        Watchdog(sender)
    }

    /// Says that the program of this seed begins, and the one before has ended.
    pub(crate) fn watch(&self, seed: u64) {
        self.0.send(seed).expect("the thread ends with the process, or when there is no sender any more");
    }
}
