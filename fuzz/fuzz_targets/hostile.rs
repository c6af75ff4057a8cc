//! Bytes as a family of modules that are hard to compile and to run, and a size: a call ends soon after its deadline,
//! and all engines run the module alike.

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
    ENGINES
        .with_borrow_mut(|engines| support::hostile::run::from_bytes(bytes, engines).unwrap_or_else(|error| panic!("{error}")));
});
