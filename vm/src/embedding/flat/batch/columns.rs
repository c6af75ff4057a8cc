//! What goes into a batch: a column for each leaf, with the parts of all items.

use crate::embedding::convert::counted;
use crate::embedding::engine::RunError;
use crate::embedding::flat::signature::{Leaf, LeafKind};
use crate::embedding::flat::value::wrong_kind;
use crate::embedding::flat::{FlatFunction, FlatValue};
use std::fmt;

/// What the items of a batch have at one leaf: arguments, tangents or cotangents.
///
/// A leaf that is one number has one in each item; one that is any number of them has equally many in each item, which
/// stand side by side. Arrays of different lengths don't fit into a column; calls with types of Rust and with values
/// take these.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Column<'a> {
    /// All items have this.
    Same(FlatValue<'a>),
    /// Reals, item by item.
    Reals(&'a [f64]),
    /// Integers, item by item; booleans are 0 or 1.
    Ints(&'a [i64]),
    /// Reals that stand in a larger array, as in some columns of a matrix with a row for each item: the item of number
    /// `n` has the reals from `n · stride` to `n · stride + len`.
    StridedReals {
        /// From the first one of the first item on.
        reals: &'a [f64],
        /// How much further the next item's begin.
        stride: usize,
        /// How many an item has: 1 for a leaf that is one number.
        len: usize,
    },
    /// The same with integers.
    StridedInts {
        /// From the first one of the first item on.
        ints: &'a [i64],
        /// How much further the next item's begin.
        stride: usize,
        /// How many an item has.
        len: usize,
    },
}

impl<'a> From<FlatValue<'a>> for Column<'a> {
    fn from(value: FlatValue<'a>) -> Self {
        Column::Same(value)
    }
}

impl<'a> From<&'a [f64]> for Column<'a> {
    fn from(reals: &'a [f64]) -> Self {
        Column::Reals(reals)
    }
}

impl<'a> From<&'a Vec<f64>> for Column<'a> {
    fn from(reals: &'a Vec<f64>) -> Self {
        Column::Reals(reals)
    }
}

impl<'a, const N: usize> From<&'a [f64; N]> for Column<'a> {
    fn from(reals: &'a [f64; N]) -> Self {
        Column::Reals(reals)
    }
}

impl<'a> From<&'a [i64]> for Column<'a> {
    fn from(ints: &'a [i64]) -> Self {
        Column::Ints(ints)
    }
}

impl<'a> From<&'a Vec<i64>> for Column<'a> {
    fn from(ints: &'a Vec<i64>) -> Self {
        Column::Ints(ints)
    }
}

impl<'a, const N: usize> From<&'a [i64; N]> for Column<'a> {
    fn from(ints: &'a [i64; N]) -> Self {
        Column::Ints(ints)
    }
}

/// Why columns are not those of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ColumnError {
    /// The number of columns is not that of the leaves.
    Count {
        /// What they are columns of: `arguments`, `tangents`, `cotangents`, `results`, `gradient`, …
        of: &'static str,
        /// The places of the leaves.
        expected: Vec<String>,
        /// How many columns there are.
        found: usize,
    },
    /// A column has other numbers than its leaf, or not as many as the items need; or a slice with a row for each item
    /// has no such number of rows.
    Column {
        /// What it is a column of.
        of: &'static str,
        /// The place of the leaf; empty if this is about rows.
        place: String,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// An item gives another number of numbers than there are places for each.
    Item {
        /// The place of the leaf; empty if this is about a row.
        place: String,
        /// How many places there are for each item.
        expected: usize,
        /// How many numbers the item gives.
        found: usize,
    },
}

impl fmt::Display for ColumnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnError::Count { of, expected, found } => {
                let columns = counted(expected.len(), "column");
                write!(f, "{of}: expected {columns}")?;
                if !expected.is_empty() {
                    write!(f, " ({})", expected.join(", "))?;
                }
                write!(f, ", found {found}")
            }
            ColumnError::Column { of, place, expected, found } if place.is_empty() => {
                write!(f, "{of}: expected {expected}, found {found}")
            }
            ColumnError::Column { of, place, expected, found } => {
                write!(f, "{of}, column of {place}: expected {expected}, found {found}")
            }
            ColumnError::Item { place, expected, found } => {
                let (found, place) = (counted(*found, "number"), if place.is_empty() { "a row" } else { place });
                write!(f, "{place}: {found} for {}", counted(*expected, "place"))
            }
        }
    }
}

impl std::error::Error for ColumnError {}

impl From<ColumnError> for RunError {
    fn from(error: ColumnError) -> Self {
        RunError::Column(error)
    }
}

/// A column that fits its leaf and the number of items.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Same(FlatValue<'a>),
    Real { reals: &'a [f64], stride: usize },
    Reals { reals: &'a [f64], stride: usize, len: usize },
    Int { ints: &'a [i64], stride: usize },
    Ints { ints: &'a [i64], stride: usize, len: usize },
}

impl<'a> Source<'a> {
    /// How many numbers an item has.
    pub(super) fn len(&self) -> usize {
        match self {
            Source::Same(FlatValue::Reals(reals)) => reals.len(),
            Source::Same(FlatValue::Ints(ints)) => ints.len(),
            Source::Same(FlatValue::Null) => 0,
            Source::Same(FlatValue::Real(_) | FlatValue::Int(_)) | Source::Real { .. } | Source::Int { .. } => 1,
            Source::Reals { len, .. } | Source::Ints { len, .. } => *len,
        }
    }

    /// What an item has. There is one.
    #[inline]
    pub(super) fn at(&self, item: usize) -> FlatValue<'a> {
        match *self {
            Source::Same(value) => value,
            Source::Real { reals, stride } => FlatValue::Real(reals[item * stride]),
            Source::Reals { reals, stride, len } => FlatValue::Reals(&reals[item * stride..][..len]),
            Source::Int { ints, stride } => FlatValue::Int(ints[item * stride]),
            Source::Ints { ints, stride, len } => FlatValue::Ints(&ints[item * stride..][..len]),
        }
    }

    pub(super) fn of_arguments(
        function: &FlatFunction,
        items: usize,
        columns: &[Column<'a>],
    ) -> Result<Vec<Self>, RunError> {
        let leaves = function.params();
        // One value for all is an argument like any other.
        let misfit = leaves.iter().zip(columns).find_map(|(leaf, column)| match *column {
            Column::Same(value) if !is_of_kind(leaf.kind(), value) => Some((leaf, value)),
            _ => None,
        });
        match misfit {
            Some((leaf, value)) if leaves.len() == columns.len() => {
                Err(RunError::Argument(wrong_kind(function.signature(), leaf, value)))
            }
            _ => all_of(("arguments", function, leaves), items, columns, |_| true),
        }
    }

    pub(super) fn of_tangents(
        function: &FlatFunction,
        items: usize,
        columns: &[Column<'a>],
    ) -> Result<Vec<Self>, RunError> {
        all_of(("tangents", function, function.params()), items, columns, Leaf::has_derivative)
    }

    pub(super) fn of_cotangents(
        function: &FlatFunction,
        items: usize,
        columns: &[Column<'a>],
    ) -> Result<Vec<Self>, RunError> {
        all_of(("cotangents", function, function.results()), items, columns, |leaf| leaf.kind().is_real())
    }

    /// A column that has something at each item.
    fn of(leaf: &Leaf, items: usize, column: Column<'a>) -> Option<Self> {
        match column {
            Column::Same(_) => None,
            Column::Reals(reals) => {
                let len = part(items, reals.len())?;
                Source::of(leaf, items, Column::StridedReals { reals, stride: len, len })
            }
            Column::Ints(ints) => {
                let len = part(items, ints.len())?;
                Source::of(leaf, items, Column::StridedInts { ints, stride: len, len })
            }
            Column::StridedReals { reals, stride, len } => {
                let is_there = reaches(items, stride, len)? <= reals.len();
                match leaf.kind() {
                    LeafKind::Real => (is_there && (len == 1 || items == 0)).then_some(Source::Real { reals, stride }),
                    LeafKind::Reals => is_there.then_some(Source::Reals { reals, stride, len }),
                    _ => None,
                }
            }
            Column::StridedInts { ints, stride, len } => {
                let is_there = reaches(items, stride, len)? <= ints.len();
                match leaf.kind() {
                    LeafKind::Int | LeafKind::Bool => {
                        (is_there && (len == 1 || items == 0)).then_some(Source::Int { ints, stride })
                    }
                    LeafKind::Shape if len != leaf.rank() && items > 0 => None,
                    LeafKind::Ints | LeafKind::Bools | LeafKind::Shape => {
                        is_there.then_some(Source::Ints { ints, stride, len })
                    }
                    _ => None,
                }
            }
        }
    }
}

/// How many numbers each of so many items has, of equally many; `None` if they can't be.
pub(super) fn part(items: usize, count: usize) -> Option<usize> {
    match items {
        0 => (count == 0).then_some(0),
        _ => count.is_multiple_of(items).then(|| count / items),
    }
}

/// How long an array is in which so many items have so many numbers each; `None` if that is more than there can be.
fn reaches(items: usize, stride: usize, len: usize) -> Option<usize> {
    let Some(others) = items.checked_sub(1) else { return Some(0) };
    others.checked_mul(stride)?.checked_add(len)
}

/// Sources of all leaves; only null where there `is` nothing.
fn all_of<'a>(
    (of, function, leaves): (&'static str, &FlatFunction, &[Leaf]),
    items: usize,
    columns: &[Column<'a>],
    is: impl Fn(&Leaf) -> bool,
) -> Result<Vec<Source<'a>>, RunError> {
    if columns.len() != leaves.len() {
        let expected = leaves.iter().map(|leaf| function.place(leaf)).collect();
        return Err(ColumnError::Count { of, expected, found: columns.len() }.into());
    }
    let source = |(leaf, &column): (&Leaf, &Column<'a>)| {
        let known = match (column, is(leaf)) {
            (Column::Same(FlatValue::Null), false) => Some(Source::Same(FlatValue::Null)),
            (_, false) => None,
            (Column::Same(value), true) if is_of_kind(leaf.kind(), value) => Some(Source::Same(value)),
            (column, true) => Source::of(leaf, items, column),
        };
        known.ok_or_else(|| {
            let expected = if is(leaf) { expected(leaf, items) } else { "null for all items".to_owned() };
            RunError::from(ColumnError::Column { of, place: function.place(leaf), expected, found: column.found() })
        })
    };
    leaves.iter().zip(columns).map(source).collect()
}

/// Whether this may be what stands at a leaf.
fn is_of_kind(kind: LeafKind, value: FlatValue<'_>) -> bool {
    match kind {
        LeafKind::Real => matches!(value, FlatValue::Real(_)),
        LeafKind::Int | LeafKind::Bool => matches!(value, FlatValue::Int(_)),
        LeafKind::Reals => matches!(value, FlatValue::Reals(_)),
        LeafKind::Ints | LeafKind::Bools | LeafKind::Shape => matches!(value, FlatValue::Ints(_)),
    }
}

/// What a column of a leaf has, for messages.
#[cold]
pub(super) fn expected(leaf: &Leaf, items: usize) -> String {
    match leaf.kind() {
        LeafKind::Real => format!("{}, one for each item", counted(items, "real")),
        LeafKind::Int | LeafKind::Bool => format!("{}, one for each item", counted(items, "integer")),
        LeafKind::Reals => format!("equally many reals for each of {}", counted(items, "item")),
        LeafKind::Ints | LeafKind::Bools => format!("equally many integers for each of {}", counted(items, "item")),
        LeafKind::Shape => {
            format!("{}, {} for each item", counted(items.saturating_mul(leaf.rank()), "integer"), leaf.rank())
        }
    }
}

impl Column<'_> {
    #[cold]
    fn found(self) -> String {
        match self {
            Column::Same(value) => value.found(),
            Column::Reals(reals) => counted(reals.len(), "real"),
            Column::Ints(ints) => counted(ints.len(), "integer"),
            Column::StridedReals { reals, stride, len } => {
                format!("{len} of each {stride} of {}", counted(reals.len(), "real"))
            }
            Column::StridedInts { ints, stride, len } => {
                format!("{len} of each {stride} of {}", counted(ints.len(), "integer"))
            }
        }
    }
}
