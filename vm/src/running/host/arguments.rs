//! What the host sees of arguments.

use crate::code::Counts;
use crate::embedding::convert::Maker;
use crate::flat::{FlatValue, LeafKind};
use crate::host::{Form, HostError, Part};
use crate::memory::heap::{self, LEN, Ref};
use crate::running::registers::Registers;
use smallvec::SmallVec;

/// The leaves of arguments. Numbers of arrays and tensors are where they stand; those of a list are copied into an
/// array, which nobody refers to when the call has ended.
///
/// # Safety
/// The registers are there, of that depth, and hold what the parts say. Objects stay where they are.
pub(super) unsafe fn shown<'a>(
    parts: &[Part],
    args: Registers,
    depth: u32,
    maker: &mut Maker<'_>,
) -> Result<SmallVec<[FlatValue<'a>; 8]>, HostError> {
    let mut next = Counts::default();
    let mut shown = SmallVec::new();
    for part in parts {
        // SAFETY: promised by the caller.
        unsafe {
            match (part.form, part.kind) {
                (Form::Number, LeafKind::Real) => {
                    shown.push(FlatValue::Real(*args.reals.add(next.reals << depth)));
                    next.reals += 1;
                }
                (Form::Number, _) => {
                    shown.push(FlatValue::Int(*args.ints.add(next.ints)));
                    next.ints += 1;
                }
                (form, _) => {
                    let object = *args.refs.add(next.refs);
                    next.refs += 1;
                    if !part.is_shown {
                        continue;
                    }
                    let array = match form {
                        Form::List => maker.array_of_list(object, part.row()).map_err(HostError::stop)?,
                        Form::Tensor(_) => {
                            let (shape, array) = heap::tensor(object);
                            check_elements(*part, shape, array)?;
                            shown.push(FlatValue::Ints(shape));
                            array
                        }
                        Form::Array | Form::Number => object,
                    };
                    shown.push(numbers(*part, array));
                }
            }
        }
    }
    Ok(shown)
}

/// Sees that a tensor has as many elements as its shape says: a program of bytecode may have made another one.
///
/// # Safety
/// The array is a complete one.
unsafe fn check_elements(part: Part, shape: &[i64], array: Ref) -> Result<(), HostError> {
    // SAFETY: promised by the caller.
    let len = unsafe { *array.add(LEN) as usize };
    match part.numbers_of_shape(shape) == Some(len) {
        true => Ok(()),
        false => Err(HostError::new(format_args!(
            "it is given a tensor of shape {} with {} elements",
            heap::shape_text(shape),
            len / part.width
        ))),
    }
}

/// The numbers in an array.
///
/// # Safety
/// It is a complete one of the part's elements, and stays where it is.
unsafe fn numbers<'a>(part: Part, array: Ref) -> FlatValue<'a> {
    // SAFETY: promised by the caller.
    unsafe {
        let (elements, len) = (heap::elements(array), *array.add(LEN) as usize);
        match part.kind.is_real() {
            true => FlatValue::Reals(std::slice::from_raw_parts(elements.cast(), len)),
            false => FlatValue::Ints(std::slice::from_raw_parts(elements.cast(), len)),
        }
    }
}
