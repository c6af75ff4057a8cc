//! The reals of tangents and cotangents that are types of Rust: compared with the shape of what they belong to, and
//! taken one after the other.

use super::types::{Argument, Matrix};
use crate::embedding::convert::{FlattenError, Flattener, counted};
use crate::memory::heap::shape_text;

/// The tangents of several arguments side by side: a slice, a vector or a matrix of them; or nothing, `()`, if the
/// arguments are discrete.
pub trait Several<T> {
    /// The tangents, and rows and columns if they are a matrix.
    #[doc(hidden)]
    fn several(&self) -> Option<(&[T], [usize; 2])>;
}

impl<T> Several<T> for () {
    fn several(&self) -> Option<(&[T], [usize; 2])> {
        None
    }
}

impl<T> Several<T> for &[T] {
    fn several(&self) -> Option<(&[T], [usize; 2])> {
        Some((self, [1, self.len()]))
    }
}

impl<T> Several<T> for Vec<T> {
    fn several(&self) -> Option<(&[T], [usize; 2])> {
        Some((self, [1, self.len()]))
    }
}

impl<T> Several<T> for Matrix<'_, T> {
    fn several(&self) -> Option<(&[T], [usize; 2])> {
        Some((self.elements(), self.shape()))
    }
}

/// Takes the reals of tangents.
pub struct Tangents<'a> {
    to: Flattener<'a>,
    /// Whether derivatives are with respect to the argument. Else it doesn't move: its tangent is 0, or empty, and
    /// nothing is taken.
    active: bool,
}

impl<'a> Tangents<'a> {
    /// Nothing was taken as yet.
    pub(super) fn new(to: Flattener<'a>) -> Self {
        Tangents { to, active: true }
    }

    /// All reals so far.
    pub(super) fn into_reals(self) -> Vec<f64> {
        self.to.into_reals()
    }

    /// Takes those of the tangent of an argument, whose name this is.
    pub(super) fn argument<T: Argument>(
        &mut self,
        (name, active): (&str, bool),
        argument: &T,
        tangent: &T::Tangent,
    ) -> Result<(), FlattenError> {
        self.active = active;
        argument.tangent(tangent, self).map_err(|error| error.inside(name))
    }

    /// Those of the n-th part of a tuple.
    #[inline]
    pub(super) fn part<T: Argument>(&mut self, n: usize, part: &T, tangent: &T::Tangent) -> Result<(), FlattenError> {
        part.tangent(tangent, self).map_err(|error| error.inside(&format!(".{n}")))
    }

    /// Those of an array or a list.
    pub(super) fn sequence<T: Argument>(&mut self, items: &[T], tangents: &[T::Tangent]) -> Result<(), FlattenError> {
        if !self.takes(&[items.len()], &[tangents.len()])? {
            return Ok(());
        }
        T::tangents(items, tangents, self)
    }

    /// Those of a matrix.
    pub(super) fn matrix<T: Argument>(
        &mut self,
        matrix: &Matrix<'_, T>,
        tangents: &[T::Tangent],
        shape: [usize; 2],
    ) -> Result<(), FlattenError> {
        if !self.takes(&matrix.shape(), &shape)? {
            return Ok(());
        }
        T::tangents(matrix.elements(), tangents, self)
    }

    /// Those of elements, of which there are as many as tangents.
    pub(super) fn elements<T: Argument>(&mut self, items: &[T], tangents: &[T::Tangent]) -> Result<(), FlattenError> {
        // Nothing in what takes no memory has a derivative, however many they are.
        let items = if size_of::<T>() == 0 { &[] } else { items };
        for (n, (item, tangent)) in items.iter().zip(tangents).enumerate() {
            self.to.tick()?;
            item.tangent(tangent, self).map_err(|error| error.inside(&format!("[{n}]")))?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn real(&mut self, tangent: f64) -> Result<(), FlattenError> {
        if self.active {
            self.to.push(tangent);
            return Ok(());
        }
        if tangent == 0.0 { Ok(()) } else { Err(moving(tangent)) }
    }

    pub(super) fn reals(&mut self, tangents: &[f64]) -> Result<(), FlattenError> {
        self.to.time_for(tangents)?;
        if self.active {
            self.to.extend(tangents);
            return Ok(());
        }
        match tangents.iter().position(|&tangent| tangent != 0.0) {
            None => Ok(()),
            Some(n) => Err(moving(tangents[n]).inside(&format!("[{n}]"))),
        }
    }

    /// The same of so many reals that don't stand side by side.
    pub(super) fn reals_one_by_one(
        &mut self,
        count: usize,
        mut tangents: impl Iterator<Item = f64>,
    ) -> Result<(), FlattenError> {
        if self.active {
            self.to.reserve(count)?;
        }
        for n in 0..count {
            self.to.tick()?;
            let tangent = tangents.next().expect("there are so many");
            self.real(tangent).map_err(|error| error.inside(&format!("[{n}]")))?;
        }
        Ok(())
    }

    /// Whether tangents of these extents are to be taken, which are those of an array or a list of such extents: there
    /// may be none if nobody asks for any.
    pub(super) fn takes(&self, extents: &[usize], found: &[usize]) -> Result<bool, FlattenError> {
        if !self.active && found.contains(&0) {
            return Ok(false);
        }
        if extents != found {
            return Err(FlattenError::misshapen(expected_shape(extents), found_shape(found)));
        }
        Ok(true)
    }
}

/// An array of these extents, as what was expected.
#[cold]
pub(super) fn expected_shape(extents: &[usize]) -> String {
    match extents {
        [len] => counted(*len, "element"),
        [_, _] => format!("a matrix of {}", shape_text(extents)),
        _ => format!("a tensor of {}", shape_text(extents)),
    }
}

/// The same as what was found instead.
#[cold]
pub(super) fn found_shape(extents: &[usize]) -> String {
    match extents {
        [len] => len.to_string(),
        _ => format!("one of {}", shape_text(extents)),
    }
}

#[cold]
fn moving(tangent: f64) -> FlattenError {
    let expected = "0, because derivatives are not with respect to it".to_owned();
    FlattenError::misshapen(expected, format!("{tangent:?}"))
}
