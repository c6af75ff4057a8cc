//! Arbitrary bytes as a module: whatever decodes and verifies must run alike on all engines.

#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use support::engines::Engines;

thread_local! {
    static ENGINES: RefCell<Engines> = RefCell::new(Engines::for_fuzzing());
}

fuzz_target!(|bytes: &[u8]| {
    ENGINES.with_borrow_mut(|engines| support::bytes::decode(bytes, engines).unwrap_or_else(|error| panic!("{error}")));
});
