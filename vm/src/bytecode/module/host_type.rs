//! Types as a host sees them.

use super::{DataDef, DataId, TypeId, ValueType};
use crate::nest::{self, DebugWriter, Nest, Visit};
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};

/// How a host sees a parameter or a result: a tree that is flattened into registers.
///
/// Tuples and records have no representation of their own: their parts stand side by side ([`HostType::flatten`]).
/// Only data types are recursive: they refer to each other through the module's table.
///
/// Unverified types may nest as deep as memory allows. Because a type is taken apart when it is dropped, its parts
/// can't be moved out by a pattern: match on a reference.
#[non_exhaustive]
pub enum HostType {
    /// One real register.
    Real,
    /// One integer register.
    Int,
    /// One integer register that holds 0 or 1.
    Bool,
    /// The parts' registers in order. The empty tuple is unit and takes no register.
    Tuple(Vec<HostType>),
    /// Like a tuple, with a name for each part.
    Record(Vec<(String, HostType)>),
    /// One reference to an object of type `array`, whose elements are of type `element`. What flattens to some real
    /// registers, or to some integer registers, and nothing else, stands in the array itself, register after register:
    /// an array of n pairs of reals has 2 n elements (`Row` finds its way there). Other elements, if they don't flatten
    /// to one register, are references to structs of their registers.
    Array {
        /// The element's type as the host sees it.
        element: Box<HostType>,
        /// The heap type of the array.
        array: TypeId,
    },
    /// One reference to a linked list: an object of the variant type `list`, whose first variant is the empty list and
    /// has no fields, and whose second is a cell of the element's registers and then the rest of the list.
    List {
        /// The element's type as the host sees it.
        element: Box<HostType>,
        /// The heap type of the list.
        list: TypeId,
    },
    /// One reference to an object of the shaped type `tensor`: the array of all elements, those of the last dimension
    /// side by side (row-major order), and then an integer for each dimension, how many slices there are along it.
    Tensor {
        /// The type of what stands at an index of the first dimension: an array, if there are two dimensions, or else a
        /// tensor of one dimension less.
        slice: Box<HostType>,
        /// The heap type of the tensor.
        tensor: TypeId,
    },
    /// One reference to an object of a data type of the module's table.
    Data {
        /// The data type's name: [`DataDef::name`], repeated here for messages.
        name: String,
        /// The data type.
        data: DataId,
    },
}

impl HostType {
    /// Whether this is [`HostType::Real`]: what conversions ask for every value.
    #[inline]
    pub const fn is_real(&self) -> bool {
        matches!(self, HostType::Real)
    }

    /// The registers that a value of this type takes, in order. `data` is the module's table of data types.
    ///
    /// # Panics
    /// If the type refers to a data type that is not in the table.
    pub fn flatten(&self, data: &[DataDef]) -> Vec<ValueType> {
        let mut out = Vec::new();
        let mut left = vec![self];
        while let Some(ty) = left.pop() {
            match ty {
                HostType::Real => out.push(ValueType::Real),
                HostType::Int | HostType::Bool => out.push(ValueType::Int),
                HostType::Tuple(parts) => left.extend(parts.iter().rev()),
                HostType::Record(parts) => left.extend(parts.iter().rev().map(|(_, part)| part)),
                HostType::Array { array: ty, .. }
                | HostType::List { list: ty, .. }
                | HostType::Tensor { tensor: ty, .. } => {
                    out.push(ValueType::Ref(*ty));
                }
                HostType::Data { data: id, .. } => out.push(ValueType::Ref(data[id.index()].ty)),
            }
        }
        out
    }

    /// How many dimensions an array or a tensor has; 0 for everything else.
    pub fn rank(&self) -> usize {
        let (mut rank, mut ty) = (0, self);
        loop {
            match ty {
                HostType::Tensor { slice, .. } => ty = slice,
                HostType::Array { .. } => return rank + 1,
                _ => return rank,
            }
            rank += 1;
        }
    }

    /// The type of the elements of an array, a list or a tensor.
    pub fn element(&self) -> Option<&HostType> {
        let mut ty = self;
        while let HostType::Tensor { slice, .. } = ty {
            ty = slice;
        }
        match ty {
            HostType::Array { element, .. } | HostType::List { element, .. } => Some(element),
            _ => None,
        }
    }

    /// The type of what stands at an index of an array, a list or a tensor: an element, or a slice.
    pub fn item(&self) -> Option<&HostType> {
        match self {
            HostType::Array { element, .. } | HostType::List { element, .. } => Some(element),
            HostType::Tensor { slice, .. } => Some(slice),
            _ => None,
        }
    }

    /// Whether an array in the type holds rows: several numbers to an element.
    pub(crate) fn has_rows(&self) -> bool {
        let mut left = vec![self];
        while let Some(ty) = left.pop() {
            match ty {
                HostType::Tuple(parts) => left.extend(parts),
                HostType::Record(parts) => left.extend(parts.iter().map(|(_, part)| part)),
                HostType::List { element, .. } | HostType::Tensor { slice: element, .. } => left.push(element),
                HostType::Array { element, .. } if element.is_row() => return true,
                HostType::Array { element, .. } => left.push(element),
                HostType::Real | HostType::Int | HostType::Bool | HostType::Data { .. } => {}
            }
        }
        false
    }

    /// Whether a value of the type is several reals, or several integers, and nothing else.
    fn is_row(&self) -> bool {
        let mut left = vec![self];
        let [mut reals, mut ints] = [0, 0];
        while let Some(ty) = left.pop() {
            match ty {
                HostType::Real => reals += 1,
                HostType::Int | HostType::Bool => ints += 1,
                HostType::Tuple(parts) => left.extend(parts),
                HostType::Record(parts) => left.extend(parts.iter().map(|(_, part)| part)),
                HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } | HostType::Data { .. } => {
                    return false;
                }
            }
        }
        matches!((reals, ints), (2.., 0) | (0, 2..))
    }

    /// Whether the type's name has several words, and so takes parentheses as an argument of another type.
    fn is_applied(&self) -> bool {
        match self {
            HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } => true,
            HostType::Data { name, .. } => name.contains(' '),
            _ => false,
        }
    }
}

impl Nest for HostType {
    type Parts = std::vec::IntoIter<HostType>;

    fn part(&self, n: usize) -> Option<&Self> {
        match self {
            HostType::Tuple(parts) => parts.get(n),
            HostType::Record(parts) => parts.get(n).map(|(_, part)| part),
            HostType::Array { element, .. }
            | HostType::List { element, .. }
            | HostType::Tensor { slice: element, .. }
                if n == 0 =>
            {
                Some(element)
            }
            _ => None,
        }
    }

    fn has_parts(&self) -> bool {
        self.part(0).is_some()
    }

    #[inline]
    fn nests(&self) -> bool {
        match self {
            HostType::Tuple(parts) => parts.iter().any(HostType::has_parts),
            HostType::Record(parts) => parts.iter().any(|(_, part)| part.has_parts()),
            HostType::Array { element, .. } | HostType::List { element, .. } => element.has_parts(),
            HostType::Tensor { slice, .. } => slice.has_parts(),
            _ => false,
        }
    }

    fn take_parts(&mut self) -> Self::Parts {
        let parts = match self {
            HostType::Tuple(parts) => std::mem::take(parts),
            HostType::Record(parts) => std::mem::take(parts).into_iter().map(|(_, part)| part).collect(),
            HostType::Array { element, .. }
            | HostType::List { element, .. }
            | HostType::Tensor { slice: element, .. } => {
                vec![std::mem::replace(&mut **element, HostType::Real)]
            }
            _ => Vec::new(),
        };
        parts.into_iter()
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (HostType::Real, HostType::Real) | (HostType::Int, HostType::Int) | (HostType::Bool, HostType::Bool) => {
                true
            }
            (HostType::Tuple(a), HostType::Tuple(b)) => a.len() == b.len(),
            (HostType::Record(a), HostType::Record(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b)
            }
            (HostType::Array { array: a, .. }, HostType::Array { array: b, .. })
            | (HostType::List { list: a, .. }, HostType::List { list: b, .. })
            | (HostType::Tensor { tensor: a, .. }, HostType::Tensor { tensor: b, .. }) => a == b,
            (HostType::Data { name: a, data: x }, HostType::Data { name: b, data: y }) => a == b && x == y,
            _ => false,
        }
    }

    fn with_parts(&self, copy: &mut dyn FnMut(&Self) -> Self) -> Self {
        match self {
            HostType::Real => HostType::Real,
            HostType::Int => HostType::Int,
            HostType::Bool => HostType::Bool,
            HostType::Tuple(parts) => HostType::Tuple(parts.iter().map(copy).collect()),
            HostType::Record(parts) => {
                HostType::Record(parts.iter().map(|(name, part)| (name.clone(), copy(part))).collect())
            }
            HostType::Array { element, array } => HostType::Array { element: Box::new(copy(element)), array: *array },
            HostType::List { element, list } => HostType::List { element: Box::new(copy(element)), list: *list },
            HostType::Tensor { slice, tensor } => HostType::Tensor { slice: Box::new(copy(slice)), tensor: *tensor },
            HostType::Data { name, data } => HostType::Data { name: name.clone(), data: *data },
        }
    }
}

impl Drop for HostType {
    #[inline]
    fn drop(&mut self) {
        if self.nests() {
            nest::drop_parts(self);
        }
    }
}

impl Clone for HostType {
    fn clone(&self) -> Self {
        nest::clone(self)
    }
}

impl PartialEq for HostType {
    fn eq(&self, other: &Self) -> bool {
        nest::equal(self, other)
    }
}

impl Eq for HostType {}

impl Hash for HostType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Ok(()) = nest::walk(self, &mut Hashed(state));
    }
}

/// Hashes all that types are compared by.
struct Hashed<'h, H>(&'h mut H);

impl<H: Hasher> Visit<'_, HostType> for Hashed<'_, H> {
    type Stop = Infallible;

    fn enter(&mut self, ty: &HostType) -> Result<(), Infallible> {
        let Hashed(state) = self;
        std::mem::discriminant(ty).hash(state);
        match ty {
            HostType::Real | HostType::Int | HostType::Bool => {}
            HostType::Tuple(parts) => parts.len().hash(state),
            HostType::Record(parts) => {
                parts.len().hash(state);
                parts.iter().for_each(|(name, _)| name.hash(state));
            }
            HostType::Array { array: ty, .. }
            | HostType::List { list: ty, .. }
            | HostType::Tensor { tensor: ty, .. } => {
                ty.hash(state);
            }
            HostType::Data { name, data } => (name, data).hash(state),
        }
        Ok(())
    }
}

impl fmt::Debug for HostType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        nest::walk(self, &mut Debugged(DebugWriter::new(f)))
    }
}

/// Writes a type as `#[derive(Debug)]` does.
struct Debugged<'f, 'b>(DebugWriter<'f, 'b>);

impl Visit<'_, HostType> for Debugged<'_, '_> {
    type Stop = fmt::Error;

    fn enter(&mut self, ty: &HostType) -> fmt::Result {
        let Debugged(out) = self;
        match ty {
            HostType::Real => out.leaf(&format_args!("Real")),
            HostType::Int => out.leaf(&format_args!("Int")),
            HostType::Bool => out.leaf(&format_args!("Bool")),
            HostType::Tuple(_) | HostType::Record(_) => {
                out.open(if let HostType::Tuple(_) = ty { "Tuple(" } else { "Record(" })?;
                out.item()?;
                out.open("[")
            }
            HostType::Array { .. } => out.open_fields("Array"),
            HostType::List { .. } => out.open_fields("List"),
            HostType::Tensor { .. } => out.open_fields("Tensor"),
            HostType::Data { name, data } => {
                out.open_fields("Data")?;
                out.field("name")?;
                out.leaf(name)?;
                out.field("data")?;
                out.leaf(data)
            }
        }
    }

    fn before(&mut self, ty: &HostType, n: usize) -> fmt::Result {
        let Debugged(out) = self;
        match ty {
            HostType::Array { .. } | HostType::List { .. } => out.field("element"),
            HostType::Tensor { .. } => out.field("slice"),
            HostType::Record(parts) => {
                out.item()?;
                out.open("(")?;
                out.item()?;
                out.leaf(&parts[n].0)?;
                out.item()
            }
            _ => out.item(),
        }
    }

    fn behind(&mut self, ty: &HostType, _: usize) -> fmt::Result {
        if let HostType::Record(_) = ty { self.0.close(")") } else { Ok(()) }
    }

    fn leave(&mut self, ty: &HostType) -> fmt::Result {
        let Debugged(out) = self;
        match ty {
            HostType::Real | HostType::Int | HostType::Bool => Ok(()),
            HostType::Tuple(_) | HostType::Record(_) => {
                out.close("]")?;
                out.close(")")
            }
            HostType::Array { array: id, .. }
            | HostType::List { list: id, .. }
            | HostType::Tensor { tensor: id, .. } => {
                out.field(match ty {
                    HostType::Array { .. } => "array",
                    HostType::List { .. } => "list",
                    _ => "tensor",
                })?;
                out.leaf(id)?;
                out.close_fields()
            }
            HostType::Data { .. } => out.close_fields(),
        }
    }
}

impl fmt::Display for HostType {
    /// Writes the type in the language's syntax.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        nest::walk(self, &mut Displayed { f, inside: 0 })
    }
}

/// Writes a type in the language's syntax.
struct Displayed<'f, 'b> {
    f: &'f mut fmt::Formatter<'b>,
    /// How many slices of a tensor the next type is inside of: what a tensor is called says them.
    inside: usize,
}

impl Displayed<'_, '_> {
    /// Whether a type is a slice of a tensor whose name was written; its elements come next.
    fn is_slice(&mut self) -> bool {
        let is_slice = self.inside > 0;
        self.inside = self.inside.saturating_sub(1);
        is_slice
    }
}

impl Visit<'_, HostType> for Displayed<'_, '_> {
    type Stop = fmt::Error;

    fn enter(&mut self, ty: &HostType) -> fmt::Result {
        if self.is_slice() {
            return Ok(());
        }
        self.f.write_str(match ty {
            HostType::Real => "Real",
            HostType::Int => "Int",
            HostType::Bool => "Bool",
            HostType::Tuple(_) => "(",
            HostType::Record(_) => "{",
            HostType::Array { .. } => "Array ",
            HostType::List { .. } => "List ",
            HostType::Tensor { .. } => {
                let rank = ty.rank();
                self.inside = rank - 1;
                return if rank == 2 { self.f.write_str("Matrix ") } else { write!(self.f, "Tensor{rank} ") };
            }
            HostType::Data { name, .. } => name,
        })
    }

    fn before(&mut self, ty: &HostType, n: usize) -> fmt::Result {
        match ty {
            HostType::Record(parts) => write!(self.f, "{}{} : ", if n > 0 { ", " } else { " " }, parts[n].0),
            HostType::Array { element, .. } | HostType::List { element, .. } if element.is_applied() => {
                self.f.write_str("(")
            }
            _ => self.f.write_str(if n > 0 { ", " } else { "" }),
        }
    }

    fn behind(&mut self, ty: &HostType, _: usize) -> fmt::Result {
        match ty {
            HostType::Array { element, .. } | HostType::List { element, .. } if element.is_applied() => {
                self.f.write_str(")")
            }
            _ => Ok(()),
        }
    }

    fn leave(&mut self, ty: &HostType) -> fmt::Result {
        self.f.write_str(match ty {
            HostType::Tuple(_) => ")",
            HostType::Record(_) => " }",
            _ => "",
        })
    }
}
