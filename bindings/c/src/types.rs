//! What types of parameters and results look like, as a table.

use crate::error::Report;
use crate::memory::c_string;
use crate::status::Failure;
use dualvm::vm::module::DataId;
use dualvm::{DataDef, Function, HostType};
use std::collections::HashMap;
use std::ffi::{CString, c_char};

/// What a type is.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dualvm_type_kind {
    /// A type of a later version, of which this one knows nothing. No children.
    Other = 0,
    /// `Real`. No children.
    Real = 1,
    /// `Int`. No children.
    Int = 2,
    /// `Bool`. No children.
    Bool = 3,
    /// A tuple: its parts are the children. The empty tuple is unit.
    Tuple = 4,
    /// A record: its fields are the children, with their names, in the order of these.
    Record = 5,
    /// An array: its elements' type is the only child.
    Array = 6,
    /// A list: its elements' type is the only child.
    List = 7,
    /// A matrix or a tensor of `rank` dimensions: its elements' type is the only child.
    Tensor = 8,
    /// A data type: its constructors are the children, with their names; each is a tuple or a record of what it takes.
    /// A data type may contain itself: then a child leads back to it.
    Data = 9,
}

/// A type of a function: a row of its table of types.
#[repr(C)]
pub struct dualvm_type {
    /// What it is.
    pub kind: dualvm_type_kind,
    /// How many dimensions a tensor has; 1 for an array, 0 for all else.
    pub rank: u32,
    /// How many children it has.
    pub child_count: usize,
    /// The name of a data type; null for all else. Lives as long as the function.
    pub name: *const c_char,
}

/// A part of a type.
#[repr(C)]
pub struct dualvm_type_child {
    /// The number of its type.
    pub ty: usize,
    /// The name of a field or of a constructor; null for all else. Lives as long as the function.
    pub name: *const c_char,
}

/// The types of a function: those of its parameters, that of its result, and what they are made of.
pub(crate) struct Types(Vec<Row>);

#[derive(Clone)]
struct Row {
    kind: dualvm_type_kind,
    rank: u32,
    name: Option<CString>,
    children: Vec<(usize, Option<CString>)>,
}

impl Types {
    pub(crate) fn of(function: &Function) -> Types {
        let interface = function.interface();
        let roots: Vec<&HostType> = interface.params.iter().map(|(_, ty)| ty).chain([&interface.result]).collect();
        let mut table = Building {
            data: function.data(),
            rows: Vec::new(),
            left: Vec::new(),
            known: HashMap::new(),
            same: Vec::new(),
        };
        for ty in roots {
            table.append(ty);
        }
        while let Some((at, ty)) = table.left.pop() {
            table.expand(at, ty);
        }
        for (at, first) in table.same {
            table.rows[at].children = table.rows[first].children.clone();
        }
        Types(table.rows)
    }

    fn row(&self, ty: usize) -> Result<&Row, Failure> {
        let none = || Report::invalid(format!("there is no type {ty}: the function has {}", self.0.len()));
        self.0.get(ty).ok_or_else(none)
    }

    pub(crate) fn get(&self, ty: usize) -> Result<dualvm_type, Failure> {
        let Row { kind, rank, name, children } = self.row(ty)?;
        Ok(dualvm_type { kind: *kind, rank: *rank, child_count: children.len(), name: pointer(name) })
    }

    pub(crate) fn child(&self, ty: usize, n: usize) -> Result<dualvm_type_child, Failure> {
        let children = &self.row(ty)?.children;
        let Some((child, name)) = children.get(n) else {
            return Err(Report::invalid(format!("type {ty} has no child {n}: it has {}", children.len())));
        };
        Ok(dualvm_type_child { ty: *child, name: pointer(name) })
    }
}

fn pointer(name: &Option<CString>) -> *const c_char {
    name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr())
}

/// A table that is being made.
struct Building<'a> {
    data: &'a [DataDef],
    rows: Vec<Row>,
    /// Rows whose children are to come.
    left: Vec<(usize, &'a HostType)>,
    /// The first row of each data type: children lead there.
    known: HashMap<DataId, usize>,
    /// Other rows of data types, of several parameters, and the first ones.
    same: Vec<(usize, usize)>,
}

impl<'a> Building<'a> {
    fn append(&mut self, ty: &'a HostType) -> usize {
        let (kind, rank) = match ty {
            HostType::Real => (dualvm_type_kind::Real, 0),
            HostType::Int => (dualvm_type_kind::Int, 0),
            HostType::Bool => (dualvm_type_kind::Bool, 0),
            HostType::Tuple(_) => (dualvm_type_kind::Tuple, 0),
            HostType::Record(_) => (dualvm_type_kind::Record, 0),
            HostType::Array { .. } => (dualvm_type_kind::Array, 1),
            HostType::List { .. } => (dualvm_type_kind::List, 0),
            HostType::Tensor { .. } => (dualvm_type_kind::Tensor, ty.rank() as u32),
            HostType::Data { .. } => (dualvm_type_kind::Data, 0),
            _ => (dualvm_type_kind::Other, 0),
        };
        let name = if let HostType::Data { name, .. } = ty { Some(c_string(name)) } else { None };
        self.rows.push(Row { kind, rank, name, children: Vec::new() });
        let at = self.rows.len() - 1;
        match ty {
            HostType::Data { data, .. } if self.known.contains_key(data) => self.same.push((at, self.known[data])),
            HostType::Data { data, .. } => {
                self.known.insert(*data, at);
                self.left.push((at, ty));
            }
            _ => self.left.push((at, ty)),
        }
        at
    }

    /// The row of a child. A data type that is known has one.
    fn child(&mut self, ty: &'a HostType) -> usize {
        let known = if let HostType::Data { data, .. } = ty { self.known.get(data).copied() } else { None };
        known.unwrap_or_else(|| self.append(ty))
    }

    fn expand(&mut self, at: usize, ty: &'a HostType) {
        self.rows[at].children = match ty {
            HostType::Tuple(parts) => parts.iter().map(|part| (self.child(part), None)).collect(),
            HostType::Record(fields) => self.named(fields),
            HostType::Array { element, .. } | HostType::List { element, .. } => vec![(self.child(element), None)],
            HostType::Tensor { slice, .. } => vec![(self.child(ty.element().unwrap_or(slice)), None)],
            HostType::Data { data, .. } => self.named(&self.data[data.index()].variants),
            _ => Vec::new(),
        };
    }

    fn named(&mut self, parts: &'a [(String, HostType)]) -> Vec<(usize, Option<CString>)> {
        parts.iter().map(|(name, ty)| (self.child(ty), Some(c_string(name)))).collect()
    }
}
