//! Memory of flat calls, which a function keeps from call to call.

use dualvm::{CallFrame, CallOptions, Limits};
use std::sync::{Mutex, PoisonError};

/// Frames that no call uses.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "frames are large, and are handed from one to the next")]
pub(crate) struct Frames(Mutex<Vec<Box<CallFrame>>>);

/// Calls side by side that find their memory again.
const KEPT_MAX: usize = 16;
/// A frame that holds more isn't kept, and gives it back to the engine: a program may have many functions.
const KEPT_BYTES_MAX: u64 = 16 << 20;

impl Frames {
    /// A frame for a call with these limits, which are always the same.
    pub(crate) fn take(&self, limits: Option<&Limits>) -> Box<CallFrame> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| {
            let mut options = CallOptions::default();
            options.limits = limits.cloned();
            // Python's code may write to an array at any time, and that must not hurt.
            options.copy_arguments = true;
            Box::new(CallFrame::with_options(options))
        })
    }

    /// Takes a frame back.
    pub(crate) fn put_back(&self, mut frame: Box<CallFrame>) {
        // Of a call that has failed it isn't known.
        let held =
            frame.stats().map_or(u64::MAX, |used| used.heap_peak_bytes + used.tape_bytes + used.sweep_peak_bytes);
        if held > KEPT_BYTES_MAX {
            // With the frame goes what it has copied out, too.
            return;
        }
        // What stops a call and who listens to it are that call's.
        let options = frame.options_mut();
        (options.cancel, options.trace) = (None, None);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push(frame);
        }
    }
}
