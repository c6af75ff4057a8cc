//! Matrices and tensors that closures of the host's take and give.

use super::{HostCall, HostError, HostValue};
use crate::flat::LeafKind;
use crate::memory::heap::shape_text;
use crate::typed::Tensor;

/// Defines how tensors of numbers are read and given: as the vectors of their elements, behind their shapes.
macro_rules! tensors {
    ($( $number:ty, $tangent:ty; )*) => { $(
        impl<const RANK: usize> HostValue for Tensor<$number, RANK> {
            type Tangent = $tangent;

            fn kinds(out: &mut Vec<LeafKind>) {
                out.push(LeafKind::Shape);
                Vec::<$number>::kinds(out);
            }

            fn read(call: &HostCall<'_>, next: &mut usize) -> Result<Self, HostError> {
                let shape = read_shape(call.ints(*next))?;
                *next += 1;
                Ok(Tensor::new(Vec::read(call, next)?, shape)?)
            }

            fn give(self, call: &mut HostCall<'_>) -> Result<(), HostError> {
                // An extent that is larger than any of the machine's becomes negative, which none is.
                call.give(&self.shape().map(|extent| extent as i64))?;
                self.into_elements().give(call)
            }
        }
    )* };
}
tensors! {
    f64, Self;
    i64, ();
    bool, ();
}

/// The extents of so many dimensions.
fn read_shape<const RANK: usize>(extents: &[i64]) -> Result<[usize; RANK], HostError> {
    let shape: Option<Vec<usize>> = extents.iter().map(|&extent| usize::try_from(extent).ok()).collect();
    shape.and_then(|shape| shape.try_into().ok()).ok_or_else(|| {
        let shape = shape_text(extents);
        HostError::new(format_args!("it takes a tensor of {RANK} dimensions, not one of shape {shape}"))
    })
}
