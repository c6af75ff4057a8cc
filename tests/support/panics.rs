//! The panic hook of the host: nobody but the host sets it, and nothing but a bug calls it.

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A hook that a host has set, which counts panics and shows them.
pub(crate) struct HostHook {
    panics: Arc<AtomicU32>,
    /// Where the hook is; two that are there at the same time are never at the same place.
    address: usize,
}

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

fn address(hook: &Hook) -> usize {
    std::ptr::from_ref(hook).cast::<()>().addr()
}

impl HostHook {
    pub(crate) fn set() -> HostHook {
        let panics = Arc::new(AtomicU32::new(0));
        let before = take_hook();
        let counter = Arc::clone(&panics);
        let hook: Box<Hook> = Box::new(move |info| {
            counter.fetch_add(1, Ordering::Relaxed);
            before(info);
        });
        let address = address(&*hook);
        set_hook(hook);
        HostHook { panics, address }
    }

    /// Asserts that the hook is still this one, and that nothing has called it. The hook is taken away.
    pub(crate) fn check(self) {
        let hook = take_hook();
        assert_eq!(address(&*hook), self.address, "somebody else has set the panic hook");
        assert_eq!(self.panics.load(Ordering::Relaxed), 0, "the panic hook was called");
    }
}
