//! Tables indexed by newtypes: what the syntax tree, the types and the core IR live in.
//!
//! Trees are tables of nodes that name each other by index, so that building, walking and dropping them never recurses
//! and never chases boxes.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An index into a [`Table`].
pub(crate) trait Id: Copy {
    /// The index for a position.
    fn from_index(index: usize) -> Self;
    /// The position in the table.
    fn index(self) -> usize;
}

/// Declares index newtypes.
macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub(crate) struct $name(u32);
        impl $crate::arena::Id for $name {
            fn from_index(index: usize) -> Self {
                $name(u32::try_from(index).expect("sources are shorter than 4 GiB, so tables have fewer entries"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )* };
}
pub(crate) use id_types;

/// A growing list of `T`, indexed by `I`.
#[derive(Clone, Debug)]
pub(crate) struct Table<I, T> {
    entries: Vec<T>,
    index: PhantomData<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Table { entries: Vec::new(), index: PhantomData }
    }
}

impl<I: Id, T> Table<I, T> {
    /// A table with `len` equal entries.
    pub(crate) fn filled(value: T, len: usize) -> Self
    where
        T: Clone,
    {
        Table { entries: vec![value; len], index: PhantomData }
    }

    /// Takes all entries out of it, into a table without room for more, and keeps its own room.
    pub(crate) fn drain(&mut self) -> Self {
        let mut entries = Vec::with_capacity(self.entries.len());
        entries.append(&mut self.entries);
        Table { entries, index: PhantomData }
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, entry: T) -> I {
        self.entries.push(entry);
        I::from_index(self.entries.len() - 1)
    }

    /// The index of the entry that is added next.
    pub(crate) fn next_id(&self) -> I {
        I::from_index(self.entries.len())
    }

    /// Removes the last entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.entries.pop()
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries with their indices, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.entries.iter().enumerate().map(|(index, entry)| (I::from_index(index), entry))
    }

    /// The entries, in order, for changing them.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut()
    }

    /// The entries with their indices, in order.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (I, T)> {
        self.entries.into_iter().enumerate().map(|(index, entry)| (I::from_index(index), entry))
    }

    /// The indices, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.entries.len()).map(I::from_index)
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.entries[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id.index()]
    }
}
