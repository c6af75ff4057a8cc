//! The memory of sweeps that nobody uses: where a sweep gets some from for a part that another thread takes.

use super::Sweep;
use crate::memory::idle::Idle;
use crate::memory::stack::Extent;

/// Memory for sweeps.
#[derive(Debug)]
pub(crate) struct Sweeps {
    idle: Idle<Sweep>,
    extent: Extent,
}

impl Sweeps {
    pub(crate) fn new(extent: Extent) -> Self {
        Sweeps { idle: Idle::default(), extent }
    }

    /// Memory for a sweep, which goes back with [`Sweeps::put_back`].
    pub(super) fn take(&self) -> Box<Sweep> {
        self.idle.take().unwrap_or_else(|| Box::new(Sweep::new(self.extent)))
    }

    /// Keeps memory for later.
    pub(super) fn put_back(&self, mut sweep: Box<Sweep>) {
        sweep.trim();
        self.idle.put(sweep);
    }
}
