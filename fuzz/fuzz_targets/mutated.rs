//! Bytes as a valid module and changes of its structure: what the verifier still accepts must come back from text and
//! bytes as it is and run alike on all engines.

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
        .with_borrow_mut(|engines| support::bytes::mutated(bytes, engines).unwrap_or_else(|error| panic!("{error}")));
});
