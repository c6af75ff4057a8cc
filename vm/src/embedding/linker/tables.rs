//! The tables of a merged module: which entry of which module an entry is.

use crate::bytecode::module::FuncId;
use std::collections::HashMap;

/// A table of the merged module. An entry gets its number where it is first met, and is copied later.
#[derive(Default)]
pub(super) struct Table {
    numbers: HashMap<Origin, u32>,
    entries: Vec<Origin>,
    /// How many were copied.
    copied: usize,
}

/// An entry of a table of a module among those that are merged.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    /// The module's number.
    pub(super) part: usize,
    /// The entry's number there.
    pub(super) number: u32,
}

impl Table {
    /// The number of an entry of a module.
    pub(super) fn number(&mut self, part: usize, number: u32) -> u32 {
        let origin = Origin { part, number };
        *self.numbers.entry(origin).or_insert_with(|| {
            self.entries.push(origin);
            self.entries.len() as u32 - 1
        })
    }

    /// Whether an entry of a module was met.
    pub(super) fn has(&self, part: usize, number: u32) -> bool {
        self.numbers.contains_key(&Origin { part, number })
    }

    /// Gives the first entries of the module itself the numbers that they have.
    pub(super) fn keep(&mut self, count: usize) {
        (0..count as u32).for_each(|number| _ = self.number(0, number));
    }

    /// The next entry that is to be copied.
    pub(super) fn next(&mut self) -> Option<Origin> {
        let next = self.entries.get(self.copied).copied();
        self.copied += usize::from(next.is_some());
        next
    }
}

/// All tables whose entries have numbers of their own in the merged module.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) functions: Table,
    pub(super) types: Table,
    pub(super) data: Table,
    pub(super) messages: Table,
    pub(super) templates: Table,
    pub(super) sources: Table,
    pub(super) calls: Table,
}

impl Tables {
    /// The number of a function of a module.
    pub(super) fn function(&mut self, part: usize, func: FuncId) -> FuncId {
        FuncId(self.functions.number(part, func.0))
    }
}
