//! Tensors: shaped structs of the array of all elements and an integer for each dimension, as hosts see them.

use super::object::{Ref, fields_of, integers};

/// The shape of a tensor, and the array of its elements.
///
/// # Safety
/// It is a complete tensor, and stays where it is while the shape is in use.
pub(crate) unsafe fn tensor<'a>(object: Ref) -> (&'a [i64], Ref) {
    // SAFETY: promised by the caller.
    unsafe { (integers(object), *array_of_tensor(object)) }
}

/// Where a tensor refers to the array of its elements.
///
/// # Safety
/// As [`tensor`].
pub(crate) unsafe fn array_of_tensor(object: Ref) -> *mut Ref {
    // SAFETY: promised by the caller; the array is the only reference.
    unsafe { object.add(fields_of(*object).ref_at(0)).cast() }
}

/// How many elements a tensor of this shape has; `None` if there can be no such.
pub(crate) fn elements_of_shape(shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(1, |count: usize, &extent| count.checked_mul(usize::try_from(extent).ok()?))
}

/// A shape as it is written: `2 × 3`.
pub(crate) fn shape_text<T: ToString>(shape: &[T]) -> String {
    let extents: Vec<String> = shape.iter().map(T::to_string).collect();
    extents.join(" × ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_are_none_have_no_elements() {
        assert_eq!(elements_of_shape(&[2, 3, 4]), Some(24));
        assert_eq!(elements_of_shape(&[0, i64::MAX]), Some(0));
        assert_eq!(elements_of_shape(&[-1, -2]), None);
        assert_eq!(elements_of_shape(&[i64::MAX, i64::MAX, 0]), None);
    }
}
