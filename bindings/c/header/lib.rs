//! Nothing: `tests/header.rs` makes `include/dualvm.h` of the sources of `dualvm-capi`, and sees that it is current.
