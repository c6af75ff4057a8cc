//! What a flat call takes and gives: the leaves of parameters and result, in order.

use crate::bytecode::module::{HostType, Interface};
use crate::embedding::convert::registers;
use crate::embedding::engine::Function;
use crate::memory::heap::Fields;
use std::fmt;
use std::sync::OnceLock;

/// What a [`Leaf`] is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeafKind {
    /// A real.
    Real,
    /// An integer.
    Int,
    /// A boolean: an integer that is 0 or 1.
    Bool,
    /// Any number of reals.
    Reals,
    /// Any number of integers.
    Ints,
    /// Any number of integers that are 0 or 1.
    Bools,
    /// The shape of a tensor, whose elements are the next leaf: an integer for each dimension, from the first one on.
    Shape,
}

impl LeafKind {
    /// Whether this is [`LeafKind::Real`] or [`LeafKind::Reals`]: what has a derivative.
    pub const fn is_real(self) -> bool {
        matches!(self, LeafKind::Real | LeafKind::Reals)
    }

    /// Whether this is any number of something.
    pub const fn is_sequence(self) -> bool {
        matches!(self, LeafKind::Reals | LeafKind::Ints | LeafKind::Bools)
    }
}

/// A part of a parameter or of the result that is one number, an array or a list of numbers, an array of tuples of
/// numbers, or the shape or the elements of a matrix or a tensor of one of these.
/// [`FlatFunction::place`](super::FlatFunction::place) says where it is.
#[derive(Clone, Debug)]
pub struct Leaf {
    kind: LeafKind,
    /// How many numbers an element is.
    width: usize,
    ty: HostType,
    /// The parameter that it is a part of; `None`: of the result.
    parameter: Option<usize>,
    /// Numbers of parts, from the outside in. Names would take more memory than the interface itself.
    path: Box<[usize]>,
    /// How many dimensions the tensor has that it is the shape or the elements of; 0 if it is of none.
    rank: usize,
    /// Where it is in the bank of its kind.
    pub(super) register: usize,
    /// Its number among the lists of parameters or of the result, if it is one.
    pub(super) list: Option<usize>,
    /// Whether derivatives are with respect to it, if it has any.
    pub(super) active: bool,
}

impl Leaf {
    /// Whether a gradient has derivatives with respect to it: it is of reals, and a part of a parameter that the
    /// function was made [with respect to](Function::wrt).
    pub fn has_derivative(&self) -> bool {
        self.active && self.kind.is_real() && self.parameter.is_some()
    }

    /// What it is.
    pub fn kind(&self) -> LeafKind {
        self.kind
    }

    /// How many numbers make an element, one after the other: 3 for an `Array (Real, Real, Real)`, of which there are
    /// as many numbers as 3 divides. 1 for all else.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of the parameter that it is a part of; `None` if it is a part of the result.
    pub fn parameter(&self) -> Option<usize> {
        self.parameter
    }

    /// How many dimensions the matrix or the tensor has that it is the shape or the elements of; 0 if it is of none.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Its type in the program, which the shape and the elements of a tensor have in common. Whether numbers are an
    /// array or a list there makes no difference to those who call.
    pub fn ty(&self) -> &HostType {
        &self.ty
    }
}

/// The leaves of a function's parameters and of its result.
#[derive(Debug)]
pub(super) struct FlatSignature {
    pub(super) function: Function,
    pub(super) params: Box<[Leaf]>,
    pub(super) results: Box<[Leaf]>,
    /// The registers of the result.
    pub(super) result_registers: Fields,
    /// The function with code for tangents, once it was asked for.
    pub(super) with_tangents: OnceLock<Function>,
    /// How many of the results are lists.
    pub(super) result_lists: usize,
    /// Whether one of the results is a tensor.
    pub(super) gives_tensors: bool,
    /// Whether all arguments are single reals.
    pub(super) only_reals: bool,
    /// Whether an argument may be any number of reals, so that there aren't as many in every call.
    pub(super) takes_sequences: bool,
}

impl FlatSignature {
    pub(super) fn of(function: &Function) -> Result<FlatSignature, NotFlat> {
        let Interface { params, result } = function.interface();
        let mut leaves = Leaves::default();
        for (index, (_, ty)) in params.iter().enumerate() {
            leaves.add(Some(index), ty, &mut Vec::new()).map_err(|not| not.of(function))?;
        }
        let mut params = std::mem::take(&mut leaves).leaves;
        for leaf in &mut params {
            leaf.active = leaf.parameter.is_some_and(|parameter| function.wrt.has(parameter));
        }
        leaves.add(None, result, &mut Vec::new()).map_err(|not| not.of(function))?;
        let (results, result_lists) = (leaves.leaves.into(), leaves.lists);
        let only_reals =
            params.iter().all(|leaf| leaf.kind == LeafKind::Real) && function.wrt.is_all() && function.bound.is_none();
        let takes_sequences = params.iter().any(|leaf| leaf.kind == LeafKind::Reals);
        let (function, params, results): (_, _, Box<[Leaf]>) = (function.clone(), params.into(), results);
        let gives_tensors = results.iter().any(|leaf| leaf.rank > 0);
        Ok(FlatSignature {
            function,
            params,
            results,
            result_registers: leaves.registers,
            with_tangents: OnceLock::new(),
            result_lists,
            gives_tensors,
            only_reals,
            takes_sequences,
        })
    }

    /// Where a leaf is.
    pub(super) fn place(&self, leaf: &Leaf) -> String {
        let mut place = place(&self.function, leaf.parameter, &leaf.path);
        if leaf.kind == LeafKind::Shape {
            place.push_str(".shape");
        }
        place
    }
}

/// The parameter's name or `result`, then numbers of parts and names of fields; not all of it if that is very long.
fn place(function: &Function, parameter: Option<usize>, path: &[usize]) -> String {
    /// All leaves of one type may be at the end of a path of long names.
    const BYTES_MAX: usize = 1000;
    let Interface { params, result } = function.interface();
    let (mut place, mut ty) = match parameter {
        Some(index) => (params[index].0.clone(), &params[index].1),
        None => ("result".to_owned(), result),
    };
    for &n in path {
        if place.len() > BYTES_MAX {
            break;
        }
        place.push('.');
        match ty {
            HostType::Tuple(parts) => {
                place.push_str(&n.to_string());
                ty = &parts[n];
            }
            HostType::Record(parts) => {
                place.push_str(&parts[n].0);
                ty = &parts[n].1;
            }
            _ => unreachable!("a path leads through tuples and records"),
        }
    }
    if place.len() > BYTES_MAX {
        place.truncate(place.floor_char_boundary(BYTES_MAX));
        place.push('…');
    }
    place
}

/// Leaves so far, and how much of each bank they take.
#[derive(Default)]
struct Leaves {
    leaves: Vec<Leaf>,
    registers: Fields,
    lists: usize,
}

impl Leaves {
    /// Adds the leaves of a type. The verifier bounds how deep types nest.
    fn add(&mut self, parameter: Option<usize>, ty: &HostType, path: &mut Vec<usize>) -> Result<(), Misfit> {
        let mut add_part = |n: usize, part: &HostType| {
            path.push(n);
            self.add(parameter, part, path)?;
            path.pop();
            Ok(())
        };
        match ty {
            HostType::Tuple(parts) => parts.iter().enumerate().try_for_each(|(n, part)| add_part(n, part)),
            HostType::Record(parts) => parts.iter().enumerate().try_for_each(|(n, (_, part))| add_part(n, part)),
            ty => match kind_of(ty) {
                Some((kind, width)) => {
                    if let HostType::Tensor { .. } = ty {
                        // Of one object, to which the elements belong, too.
                        self.leaf(LeafKind::Shape, 1, ty, parameter, path);
                        self.registers.refs -= 1;
                    }
                    self.leaf(kind, width, ty, parameter, path);
                    Ok(())
                }
                None => Err(Misfit { parameter, path: std::mem::take(path), found: ty.clone() }),
            },
        }
    }

    fn leaf(&mut self, kind: LeafKind, width: usize, ty: &HostType, parameter: Option<usize>, path: &[usize]) {
        let next = match kind {
            LeafKind::Real => &mut self.registers.reals,
            LeafKind::Int | LeafKind::Bool => &mut self.registers.ints,
            LeafKind::Reals | LeafKind::Ints | LeafKind::Bools | LeafKind::Shape => &mut self.registers.refs,
        };
        let register = *next;
        *next += 1;
        let list = matches!(ty, HostType::List { .. }).then_some(self.lists);
        self.lists += usize::from(list.is_some());
        let rank = if let HostType::Tensor { .. } = ty { ty.rank() } else { 0 };
        let (ty, path) = (ty.clone(), path.into());
        self.leaves.push(Leaf { kind, width, ty, parameter, path, rank, register, list, active: true });
    }
}

/// What a type is as a leaf, if it is one, and how many numbers an element is.
pub(crate) fn kind_of(ty: &HostType) -> Option<(LeafKind, usize)> {
    let kind = match ty {
        HostType::Real => LeafKind::Real,
        HostType::Int => LeafKind::Int,
        HostType::Bool => LeafKind::Bool,
        HostType::Array { .. } | HostType::Tensor { .. } => return row_of(ty.element()?),
        HostType::List { element, .. } => match **element {
            HostType::Real => LeafKind::Reals,
            HostType::Int => LeafKind::Ints,
            HostType::Bool => LeafKind::Bools,
            _ => return None,
        },
        HostType::Tuple(_) | HostType::Record(_) | HostType::Data { .. } => return None,
    };
    Some((kind, 1))
}

/// What numbers an element is, if these are of one kind, and how many.
pub(crate) fn row_of(element: &HostType) -> Option<(LeafKind, usize)> {
    let (_, width) = registers(element).row()?;
    Some((elements(element)?, width))
}

/// What numbers of one kind an element is, or a part of it that isn't empty.
fn elements(element: &HostType) -> Option<LeafKind> {
    let all = |parts: &mut dyn Iterator<Item = &HostType>| {
        let mut kinds = parts.filter(|part| registers(part) != Fields::default()).map(elements);
        let first = kinds.next()??;
        kinds.all(|kind| kind == Some(first)).then_some(first)
    };
    match element {
        HostType::Real => Some(LeafKind::Reals),
        HostType::Int => Some(LeafKind::Ints),
        HostType::Bool => Some(LeafKind::Bools),
        HostType::Tuple(parts) => all(&mut parts.iter()),
        HostType::Record(parts) => all(&mut parts.iter().map(|(_, part)| part)),
        HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. } | HostType::Data { .. } => None,
    }
}

/// Why a function has no flat calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFlat {
    function: String,
    place: String,
    found: HostType,
}

/// A part of an interface that is no leaf.
struct Misfit {
    parameter: Option<usize>,
    path: Vec<usize>,
    found: HostType,
}

impl Misfit {
    #[cold]
    fn of(self, function: &Function) -> NotFlat {
        let Misfit { parameter, path, found } = self;
        let side = if parameter.is_some() { "parameter " } else { "" };
        let place = format!("{side}{}", place(function, parameter, &path));
        NotFlat { function: function.name().to_owned(), place, found }
    }
}

impl NotFlat {
    /// The function.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// What is not flat: `parameter` and a name, or `result`, then numbers of parts and names of fields.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The type there.
    pub fn found(&self) -> &HostType {
        &self.found
    }
}

impl fmt::Display for NotFlat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotFlat { function, place, found } = self;
        write!(
            f,
            "{place} of `{function}` is not flat: expected Real, Int, Bool, an array or a list of one of these, an \
             array of tuples of one of these, a matrix or a tensor of what an array may be of, or a tuple or a record \
             of such, found {found}"
        )
    }
}

impl std::error::Error for NotFlat {}
