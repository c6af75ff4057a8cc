//! dualvm.
