//! The adjoints of one kind of record, by the numbers that records carry.
//!
//! Each place in a program has adjoint code of its own, and where the compiler in front has written a function in place
//! of its calls, there are many places with the same code. Such pieces share what they have of native code, and what
//! is counted until there is some: it is compiled once, for all of them, as soon as all of them together are worth it.

use crate::native::Candidate;
use rustc_hash::FxHashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Deref;
use std::sync::Arc;

/// An adjoint.
#[derive(Debug)]
pub(crate) struct Adjoint<C> {
    code: C,
    /// The same as native code.
    pub(crate) native: Arc<Candidate>,
}

impl<C> Deref for Adjoint<C> {
    type Target = C;

    #[inline(always)]
    fn deref(&self) -> &C {
        &self.code
    }
}

/// Adjoints by number.
#[derive(Debug)]
pub(crate) struct Adjoints<C>(boxcar::Vec<Adjoint<C>>);

/// The numbers of those that differ, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    // Code may come from somebody who wants hashes to be the same.
    hasher: RandomState,
    by_hash: FxHashMap<u64, Vec<u32>>,
}

impl<C: Eq + Hash> Adjoints<C> {
    pub(crate) fn new() -> Self {
        Adjoints(boxcar::Vec::new())
    }

    /// How many there are: the number of the next one.
    pub(crate) fn count(&self) -> u32 {
        self.0.count() as u32
    }

    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> &Adjoint<C> {
        &self.0[number as usize]
    }

    /// Adds one, to be compiled with those whose code is the same.
    pub(crate) fn push(&self, code: C, distinct: &mut Distinct) {
        let numbers = distinct.by_hash.entry(distinct.hasher.hash_one(&code)).or_default();
        let native = match numbers.iter().map(|&number| self.get(number)).find(|other| other.code == code) {
            Some(same) => same.native.clone(),
            None => {
                numbers.push(self.count());
                Arc::default()
            }
        };
        self.0.push(Adjoint { code, native });
    }
}
