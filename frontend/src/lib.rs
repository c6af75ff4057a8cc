//! The dualvm language frontend.
