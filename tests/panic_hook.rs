//! The panic hook is the host's: engines neither change it nor have anything to say to it. `tests/abort/hostile.rs` is
//! the same with a host that can't catch panics.

mod support;

use support::engines::Engines;
use support::panics::HostHook;
use support::unexpected;
use support::watchdog::Watchdog;

// One test: the hook belongs to the process.
#[test]
fn the_panic_hook_stays_the_hosts_and_is_not_called() {
    let hook = HostHook::set();
    let count = unexpected::run_all(100, &Watchdog::new(), &mut Engines::all());
    hook.check();
    assert!(count.unwrap_or_else(|error| panic!("{error}")) > 200);
}
