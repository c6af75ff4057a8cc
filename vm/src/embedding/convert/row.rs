//! Rows: elements of arrays that are numbers of one bank, and stand in the array itself.
//!
//! Most arrays of the host's are of such. What is the same for all elements is asked once for the array, so that an
//! element costs what its numbers do.

use super::registers;
use super::write::{Step, WriteError, field, found, mismatch, number};
use crate::bytecode::isa::Bank;
use crate::bytecode::module::HostType;
use crate::embedding::value::Value;
use std::mem::MaybeUninit;

/// The type of a row.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    ty: &'t HostType,
    /// The bank of its numbers: reals or integers.
    pub(super) bank: Bank,
    /// How many numbers it has.
    pub(super) width: usize,
    /// How many parts deep its deepest number is.
    pub(super) depth: usize,
    /// The bytes that a value of it takes beside the [`Value`] itself.
    pub(super) bytes: usize,
}

/// The cells of a row that are to be written.
type Cells<'a> = std::slice::IterMut<'a, MaybeUninit<u64>>;

impl<'t> Row<'t> {
    /// The row that values of a type are stored as, if they are.
    pub(super) fn of(ty: &'t HostType) -> Option<Row<'t>> {
        let (bank, width) = registers(ty).row()?;
        if bank == Bank::Ref {
            return None;
        }
        let (depth, bytes) = size_of_value(ty);
        Some(Row { ty, bank, width, depth, bytes })
    }

    /// Writes a value's numbers to its cells, of which there are as many.
    #[inline]
    pub(super) fn write(&self, value: &Value, cells: &mut [MaybeUninit<u64>]) -> Result<(), WriteError> {
        debug_assert_eq!(cells.len(), self.width, "a row has a cell for each number");
        write(self.ty, value, &mut cells.iter_mut())
    }

    /// The value whose numbers these are.
    #[inline]
    pub(super) fn value(&self, mut cells: impl Iterator<Item = u64>) -> Value {
        read(self.ty, &mut cells)
    }

    /// The value of a derivative's row: adjoints or tangents, which these are, or what stands for integers.
    #[inline]
    pub(super) fn derivative(&self, reals: impl Iterator<Item = f64>) -> Value {
        if self.bank == Bank::Real { self.value(reals.map(f64::to_bits)) } else { nothing(self.ty) }
    }
}

/// How many parts deep a row is, and the bytes of its parts.
fn size_of_value(ty: &HostType) -> (usize, usize) {
    let inside = |parts: &mut dyn Iterator<Item = (&HostType, usize)>| {
        let sizes = parts.map(|(part, own)| (size_of_value(part), own));
        let (depth, bytes) = sizes.fold((0, 0), |(depth, bytes), ((part_depth, part_bytes), own)| {
            (depth.max(part_depth), bytes + part_bytes + own)
        });
        (depth + 1, bytes)
    };
    match ty {
        HostType::Tuple(types) => inside(&mut types.iter().map(|ty| (ty, size_of::<Value>()))),
        HostType::Record(types) => {
            inside(&mut types.iter().map(|(name, ty)| (ty, size_of::<(String, Value)>() + name.len())))
        }
        _ => (0, 0),
    }
}

fn write(ty: &HostType, value: &Value, cells: &mut Cells<'_>) -> Result<(), WriteError> {
    let bits = match (ty, value) {
        (HostType::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
            for (n, (ty, part)) in types.iter().zip(parts).enumerate() {
                write(ty, part, cells).map_err(|error| error.inside(Step::Part(n)))?;
            }
            return Ok(());
        }
        (HostType::Record(types), Value::Record(parts)) if types.len() == parts.len() => {
            for (n, (name, ty)) in types.iter().enumerate() {
                let part = field(parts, n, name, ty)?;
                write(ty, part, cells).map_err(|error| error.inside(Step::Field(name)))?;
            }
            return Ok(());
        }
        (HostType::Real, _) => number(value)?.to_bits(),
        (HostType::Int, Value::Int(n)) => *n as u64,
        (HostType::Bool, Value::Bool(b)) => u64::from(*b),
        _ => return Err(mismatch(ty, found(value))),
    };
    cells.next().expect("a row has a cell for each number").write(bits);
    Ok(())
}

fn read(ty: &HostType, cells: &mut impl Iterator<Item = u64>) -> Value {
    let mut next = || cells.next().expect("a row has a cell for each number");
    match ty {
        HostType::Real => Value::Real(f64::from_bits(next())),
        HostType::Int => Value::Int(next() as i64),
        HostType::Bool => Value::Bool(next() != 0),
        HostType::Tuple(types) => {
            let mut parts = Vec::with_capacity(types.len());
            types.iter().for_each(|ty| parts.push(read(ty, cells)));
            Value::Tuple(parts)
        }
        HostType::Record(types) => {
            let mut parts = Vec::with_capacity(types.len());
            types.iter().for_each(|(name, ty)| parts.push((name.clone(), read(ty, cells))));
            Value::Record(parts)
        }
        HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } | HostType::Data { .. } => {
            unreachable!("rows are of numbers")
        }
    }
}

/// What stands for a row of integers in a derivative.
fn nothing(ty: &HostType) -> Value {
    match ty {
        HostType::Tuple(types) => Value::Tuple(types.iter().map(nothing).collect()),
        HostType::Record(types) => Value::Record(types.iter().map(|(name, ty)| (name.clone(), nothing(ty))).collect()),
        _ => Value::Null,
    }
}
