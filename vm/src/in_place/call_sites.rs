//! Calls in whose place code of functions comes to stand when their derivatives are written out.

use crate::bytecode::module::{InlinedCall, Location};
use std::cell::RefCell;
use std::collections::HashMap;

/// A module's calls of this kind, and those that come in addition.
pub(super) struct CallSites<'a> {
    given: &'a [InlinedCall],
    new: RefCell<Vec<InlinedCall>>,
}

impl<'a> CallSites<'a> {
    pub(super) fn new(given: &'a [InlinedCall]) -> Self {
        CallSites { given, new: RefCell::default() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.given.len() + self.new.borrow().len()
    }

    /// Takes back what was added since there were so many.
    pub(super) fn truncate(&self, len: usize) {
        self.new.borrow_mut().truncate(len.saturating_sub(self.given.len()));
    }

    /// Those that came in addition.
    pub(super) fn into_new(self) -> Vec<InlinedCall> {
        self.new.into_inner()
    }

    fn get(&self, number: u32) -> InlinedCall {
        let number = number as usize;
        self.given.get(number).cloned().unwrap_or_else(|| self.new.borrow()[number - self.given.len()].clone())
    }

    fn push(&self, call: InlinedCall) -> u32 {
        self.new.borrow_mut().push(call);
        self.len() as u32 - 1
    }
}

/// The code of a function that comes to stand somewhere else.
pub(super) struct Moved<'a> {
    sites: &'a CallSites<'a>,
    /// The call in whose place it stands; `None` where it is a function's own.
    around: Option<u32>,
    /// What calls around its locations are there.
    known: RefCell<HashMap<u32, u32>>,
}

impl<'a> Moved<'a> {
    /// Code that stands in the place of a call at a location.
    pub(super) fn to_call(sites: &'a CallSites<'a>, callee: &str, at: Option<Location>) -> Self {
        let call = |at: Location| sites.push(InlinedCall { callee: callee.into(), place: at.place, within: at.call });
        Moved { sites, around: at.map(call), known: RefCell::default() }
    }

    /// Code that is a function's own.
    pub(super) fn to_function(sites: &'a CallSites<'a>) -> Self {
        Moved { sites, around: None, known: RefCell::default() }
    }

    /// What a location of the code is there.
    pub(super) fn location(&self, location: Location) -> Location {
        if self.around.is_none() {
            return location;
        }
        let mut unknown = Vec::new();
        let mut next = location.call;
        let mut known = self.known.borrow_mut();
        let mut around = loop {
            match next {
                None => break self.around,
                Some(call) if let Some(&moved) = known.get(&call) => break Some(moved),
                Some(call) => {
                    unknown.push(call);
                    next = self.sites.get(call).within;
                }
            }
        };
        for call in unknown.into_iter().rev() {
            let moved = self.sites.push(InlinedCall { within: around, ..self.sites.get(call) });
            known.insert(call, moved);
            around = Some(moved);
        }
        Location { call: around, ..location }
    }
}
