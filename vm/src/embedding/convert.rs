//! Host values to registers and heap objects, and back.
//!
//! `write` turns arguments into registers, which `store` gathers, and objects, which `maker` makes; `read` turns
//! results into values, `shown` what a text shows, `gradient` gives adjoints the arguments' shape, and `flatten` takes
//! the reals out of tangents and cotangents. All follow the host type, which the verifier has matched with the heap
//! types. [`crate::flat`] and [`crate::typed`] do without values, and write to the registers themselves.
//!
//! What is in order costs what it weighs: long arrays of numbers stay where they are, places are put together when an
//! error needs one, and nothing is allocated but objects and the values that are handed out.
//!
//! Lists are followed in loops. Other nesting is followed by recursion, at most [`crate::value::VALUE_DEPTH_MAX`] parts
//! deep; functions on that path are kept small, and errors are boxed, so that frames of builds without optimisation
//! are small as well.

mod again;
mod flatten;
mod gradient;
mod maker;
mod read;
mod row;
mod shown;
mod source;
mod store;
mod write;

pub(crate) use again::write_zeros;
pub(crate) use flatten::{FlattenError, Flattener, Misshapen, counted};
pub(crate) use gradient::read_gradient;
pub(crate) use maker::{Cells, Maker, REAL_CELL};
pub(crate) use read::{Cursor, ReadError, Reader, ResultSlot};
pub(crate) use shown::text_of;
pub(crate) use source::Source;
pub(crate) use store::Store;
pub(crate) use write::{WriteError, write_argument, write_arguments, write_tangents};

use crate::bytecode::module::HostType;
use crate::memory::heap::Fields;

/// How many registers of each bank a value of this type takes: [`HostType::flatten`], counted.
pub(crate) fn registers(ty: &HostType) -> Fields {
    let mut fields = Fields::default();
    count_registers(ty, &mut fields);
    fields
}

fn count_registers(ty: &HostType, fields: &mut Fields) {
    match ty {
        HostType::Real => fields.reals += 1,
        HostType::Int | HostType::Bool => fields.ints += 1,
        HostType::Tuple(parts) => parts.iter().for_each(|part| count_registers(part, fields)),
        HostType::Record(parts) => parts.iter().for_each(|(_, part)| count_registers(part, fields)),
        HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } | HostType::Data { .. } => {
            fields.refs += 1;
        }
    }
}
