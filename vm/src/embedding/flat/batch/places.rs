//! Where a batch writes what its items give: a column for each leaf, or a row for each item.

use super::columns::{self, ColumnError, Source};
use crate::embedding::convert::counted;
use crate::embedding::engine::RunError;
use crate::embedding::flat::signature::{Leaf, LeafKind};
use crate::embedding::flat::{FlatFunction, FlatValue};

/// Places for what all items of a batch give at one leaf: equally many for each item, which stand side by side.
#[derive(Debug, Default)]
pub enum ColumnMut<'p> {
    /// It isn't wanted, or there is nothing: the derivative of what is discrete.
    #[default]
    Null,
    /// Places for reals.
    Reals(&'p mut [f64]),
    /// Places for integers.
    Ints(&'p mut [i64]),
}

/// Where a batch writes what its items give. It is made of
///
/// - [`ColumnMut`]s, one for each leaf;
/// - reals: a row for each item, with all of its reals in the order of the leaves;
/// - `()`, if nothing of it is wanted;
/// - an `Option` of these.
#[derive(Debug)]
pub struct Places<'p>(Kind<'p>);

#[derive(Debug)]
enum Kind<'p> {
    None,
    /// The second is how many there are for each item, once it is known.
    Rows(&'p mut [f64], usize),
    Columns(Vec<Sink<'p>>),
}

/// Places at one leaf, so many for each item, once it is known.
#[derive(Debug)]
pub(super) enum Sink<'p> {
    Null,
    Reals(&'p mut [f64], usize),
    Ints(&'p mut [i64], usize),
}

impl From<()> for Places<'_> {
    fn from((): ()) -> Self {
        Places::none()
    }
}

impl<'p, T: Into<Places<'p>>> From<Option<T>> for Places<'p> {
    fn from(places: Option<T>) -> Self {
        places.map_or_else(Places::none, T::into)
    }
}

impl<'p> From<&'p mut [f64]> for Places<'p> {
    fn from(rows: &'p mut [f64]) -> Self {
        Places(Kind::Rows(rows, 0))
    }
}

impl<'p> From<&'p mut Vec<f64>> for Places<'p> {
    fn from(rows: &'p mut Vec<f64>) -> Self {
        Places(Kind::Rows(rows, 0))
    }
}

impl<'p, const N: usize> From<&'p mut [f64; N]> for Places<'p> {
    fn from(rows: &'p mut [f64; N]) -> Self {
        Places(Kind::Rows(rows, 0))
    }
}

impl<'p> From<&'p mut [ColumnMut<'_>]> for Places<'p> {
    fn from(columns: &'p mut [ColumnMut<'_>]) -> Self {
        let sink = |column: &'p mut ColumnMut<'_>| match column {
            ColumnMut::Null => Sink::Null,
            ColumnMut::Reals(reals) => Sink::Reals(reals, 0),
            ColumnMut::Ints(ints) => Sink::Ints(ints, 0),
        };
        Places(Kind::Columns(columns.iter_mut().map(sink).collect()))
    }
}

impl<'p, const N: usize> From<&'p mut [ColumnMut<'_>; N]> for Places<'p> {
    fn from(columns: &'p mut [ColumnMut<'_>; N]) -> Self {
        Places::from(&mut columns[..])
    }
}

/// What an item gives has no places.
pub(super) struct Misfit {
    /// The leaf; `None` if there are rows.
    leaf: Option<usize>,
    expected: usize,
    found: usize,
}

impl Misfit {
    #[cold]
    pub(super) fn of(self, function: &FlatFunction, leaves: &[Leaf]) -> ColumnError {
        let Misfit { leaf, expected, found } = self;
        ColumnError::Item { place: leaf.map_or_else(String::new, |n| function.place(&leaves[n])), expected, found }
    }
}

impl<'p> Places<'p> {
    pub(super) const fn none() -> Self {
        Places(Kind::None)
    }

    /// Places for the result, a real for each item.
    pub(super) fn of_values(self, function: &FlatFunction, items: usize) -> Result<Self, RunError> {
        match self.0 {
            Kind::Rows(values, _) if values.len() == items => Ok(Places(Kind::Rows(values, 1))),
            Kind::Rows(values, _) => {
                let expected = columns::expected(&function.results()[0], items);
                let found = counted(values.len(), "place");
                Err(ColumnError::Column { of: "values", place: String::new(), expected, found }.into())
            }
            _ => self.of_results(function, items, "values"),
        }
    }

    /// Places for what is given at the leaves of the result.
    pub(super) fn of_results(self, function: &FlatFunction, items: usize, of: &'static str) -> Result<Self, RunError> {
        self.of((of, function, function.results()), items, |_| true, None)
    }

    /// Places for tangents of the result.
    pub(super) fn of_tangents(self, function: &FlatFunction, items: usize) -> Result<Self, RunError> {
        self.of(("tangents of results", function, function.results()), items, |leaf| leaf.kind().is_real(), None)
    }

    /// Places for derivatives by the parameters, which are as large as the arguments.
    pub(super) fn of_params(
        self,
        function: &FlatFunction,
        items: usize,
        of: &'static str,
        args: &[Source<'_>],
    ) -> Result<Self, RunError> {
        self.of((of, function, function.params()), items, Leaf::has_derivative, Some(args))
    }

    fn of(
        self,
        (of, function, leaves): (&'static str, &FlatFunction, &[Leaf]),
        items: usize,
        is: impl Fn(&Leaf) -> bool,
        args: Option<&[Source<'_>]>,
    ) -> Result<Self, RunError> {
        let part = |count: usize| columns::part(items, count);
        // How many reals an item has at a leaf, if that is known.
        let reals_at = |(n, leaf): (usize, &Leaf)| match leaf.kind() {
            _ if !is(leaf) => Some(0),
            LeafKind::Real => Some(1),
            LeafKind::Reals => args.map(|args| args[n].len()),
            _ => Some(0),
        };
        match self.0 {
            Kind::None => Ok(Places(Kind::None)),
            Kind::Rows(rows, _) => {
                let (len, row) = (rows.len(), leaves.iter().enumerate().map(reals_at).sum::<Option<usize>>());
                let known = part(len).filter(|&width| items == 0 || row.is_none_or(|row| row == width));
                known.map(|width| Places(Kind::Rows(rows, width))).ok_or_else(|| {
                    let rows = row.map_or_else(|| "one length".to_owned(), |row| counted(row, "place"));
                    let expected = format!("rows of {rows} for {}", counted(items, "item"));
                    ColumnError::Column { of, place: String::new(), expected, found: counted(len, "place") }.into()
                })
            }
            Kind::Columns(sinks) if sinks.len() != leaves.len() => {
                let expected = leaves.iter().map(|leaf| function.place(leaf)).collect();
                Err(ColumnError::Count { of, expected, found: sinks.len() }.into())
            }
            Kind::Columns(sinks) => {
                let sized = |((n, leaf), sink): ((usize, &Leaf), Sink<'p>)| {
                    let (found, of_leaf, known_width) = (sink.found(), is(leaf), reals_at((n, leaf)));
                    let known = match sink {
                        Sink::Null => Some(Sink::Null),
                        _ if !of_leaf => None,
                        Sink::Reals(reals, _) => part(reals.len()).and_then(|width| match leaf.kind() {
                            LeafKind::Real if width == 1 || items == 0 => Some(Sink::Reals(reals, 1)),
                            LeafKind::Reals if items == 0 || known_width.is_none_or(|known| known == width) => {
                                Some(Sink::Reals(reals, width))
                            }
                            _ => None,
                        }),
                        Sink::Ints(ints, _) => part(ints.len()).and_then(|width| match leaf.kind() {
                            LeafKind::Int | LeafKind::Bool if width == 1 || items == 0 => Some(Sink::Ints(ints, 1)),
                            LeafKind::Ints | LeafKind::Bools => Some(Sink::Ints(ints, width)),
                            LeafKind::Shape if width == leaf.rank() || items == 0 => {
                                Some(Sink::Ints(ints, leaf.rank()))
                            }
                            _ => None,
                        }),
                    };
                    known.ok_or_else(|| {
                        let expected = match known_width {
                            _ if !of_leaf => "null".to_owned(),
                            Some(width) if leaf.kind() == LeafKind::Reals => {
                                format!("{}, {width} for each item", counted(items.saturating_mul(width), "real"))
                            }
                            _ => columns::expected(leaf, items),
                        };
                        RunError::from(ColumnError::Column { of, place: function.place(leaf), expected, found })
                    })
                };
                let sinks: Result<Vec<Sink<'p>>, RunError> = leaves.iter().enumerate().zip(sinks).map(sized).collect();
                Ok(Places(Kind::Columns(sinks?)))
            }
        }
    }

    /// Those of the first so many items, and those of the others.
    pub(super) fn split(self, at: usize) -> (Self, Self) {
        match self.0 {
            Kind::None => (Places(Kind::None), Places(Kind::None)),
            Kind::Rows(rows, width) => {
                let (left, right) = rows.split_at_mut(at * width);
                (Places(Kind::Rows(left, width)), Places(Kind::Rows(right, width)))
            }
            Kind::Columns(sinks) => {
                let (left, right) = sinks.into_iter().map(|sink| sink.split(at)).unzip();
                (Places(Kind::Columns(left)), Places(Kind::Columns(right)))
            }
        }
    }

    /// Sees that what an item gives has as many places.
    #[inline]
    pub(super) fn fit<'f>(&self, values: impl Iterator<Item = FlatValue<'f>>) -> Result<(), Misfit> {
        match &self.0 {
            Kind::None => Ok(()),
            &Kind::Rows(_, expected) => {
                let found = values.map(|value| reals_of(&value).len()).sum();
                if found == expected { Ok(()) } else { Err(Misfit { leaf: None, expected, found }) }
            }
            Kind::Columns(sinks) => {
                for (n, (sink, value)) in sinks.iter().zip(values).enumerate() {
                    let (expected, found) = match (sink, value) {
                        (Sink::Reals(_, width), value) => (*width, reals_of(&value).len()),
                        (Sink::Ints(_, width), FlatValue::Ints(ns)) => (*width, ns.len()),
                        _ => continue,
                    };
                    if found != expected {
                        return Err(Misfit { leaf: Some(n), expected, found });
                    }
                }
                Ok(())
            }
        }
    }

    /// Writes what an item gives, which fits.
    #[inline]
    pub(super) fn write<'f>(&mut self, item: usize, values: impl Iterator<Item = FlatValue<'f>>) {
        match &mut self.0 {
            Kind::None => {}
            Kind::Rows(rows, width) => {
                let mut left = &mut rows[item * *width..][..*width];
                for value in values {
                    let reals = reals_of(&value);
                    let (to, rest) = left.split_at_mut(reals.len());
                    to.copy_from_slice(reals);
                    left = rest;
                }
            }
            Kind::Columns(sinks) => {
                for (sink, value) in sinks.iter_mut().zip(values) {
                    match (sink, value) {
                        (Sink::Reals(to, width), value) => {
                            to[item * *width..][..*width].copy_from_slice(reals_of(&value));
                        }
                        (Sink::Ints(to, width), FlatValue::Ints(ns)) => {
                            to[item * *width..][..*width].copy_from_slice(ns);
                        }
                        (Sink::Ints(to, _), FlatValue::Int(n)) => to[item] = n,
                        _ => {}
                    }
                }
            }
        }
    }
}

/// The reals of a value, side by side.
#[inline]
fn reals_of<'v>(value: &'v FlatValue<'_>) -> &'v [f64] {
    match value {
        FlatValue::Real(x) => std::slice::from_ref(x),
        FlatValue::Reals(xs) => xs,
        _ => &[],
    }
}

impl Sink<'_> {
    fn split(self, at: usize) -> (Self, Self) {
        match self {
            Sink::Null => (Sink::Null, Sink::Null),
            Sink::Reals(reals, width) => {
                let (left, right) = reals.split_at_mut(at * width);
                (Sink::Reals(left, width), Sink::Reals(right, width))
            }
            Sink::Ints(ints, width) => {
                let (left, right) = ints.split_at_mut(at * width);
                (Sink::Ints(left, width), Sink::Ints(right, width))
            }
        }
    }

    #[cold]
    fn found(&self) -> String {
        match self {
            Sink::Null => "null".to_owned(),
            Sink::Reals(reals, _) => format!("{} for reals", counted(reals.len(), "place")),
            Sink::Ints(ints, _) => format!("{} for integers", counted(ints.len(), "place")),
        }
    }
}
