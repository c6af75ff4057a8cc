//! Bytes as the choices of the generator of programs, which must run alike on all engines.

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
    ENGINES.with_borrow_mut(|engines| {
        support::bytes::structured(bytes, engines).unwrap_or_else(|error| panic!("{error}"))
    });
});
