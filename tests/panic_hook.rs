//! The panic hook is the host's: engines neither change it nor have anything to say to it. Every panic calls the hook,
//! whether or not somebody catches it, so that a host in which none can be caught survives all this, too.

mod support;

use support::engines::Engines;
use support::panics::HostHook;
use support::watchdog::Watchdog;
use support::{from_environment, unexpected};

// One test: the hook belongs to the process.
#[test]
fn the_panic_hook_stays_the_hosts_and_is_not_called() {
    let hook = HostHook::set();
    let mutants = from_environment("DUALVM_SEEDS").unwrap_or(100);
    let count = unexpected::run_all(mutants, &Watchdog::new(), &mut Engines::all());
    hook.check();
    assert!(count.unwrap_or_else(|error| panic!("{error}")) > 200);
}
