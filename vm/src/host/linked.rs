//! A host function in the place of an import: what registers it reads and writes, and the same of its derivatives.

use super::{HostError, HostFunction, Kinds};
use crate::bytecode::isa::Bank;
use crate::bytecode::module::{HostType, Import, Interface};
use crate::flat::{LeafKind, kind_of, row_of};
use crate::memory::heap::elements_of_shape;
use std::sync::OnceLock;

/// A register that a call reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) form: Form,
    /// The number in it, or the elements of what it refers to.
    pub(crate) kind: LeafKind,
    /// How many numbers an element is.
    pub(crate) width: usize,
    /// Whether the host sees it. It doesn't see tangents and cotangents of integers, which say nothing.
    pub(crate) is_shown: bool,
}

/// What is in a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Number,
    Array,
    List,
    /// A tensor of so many dimensions.
    Tensor(usize),
}

impl Part {
    /// What the host sees of it.
    fn leaves(self) -> impl Iterator<Item = LeafKind> {
        let shape = matches!(self.form, Form::Tensor(_)).then_some(LeafKind::Shape);
        shape.into_iter().chain([self.kind]).filter(move |_| self.is_shown)
    }

    /// Whether it is a reference: whose tangents and cotangents are one as well.
    pub(crate) fn is_reference(self) -> bool {
        self.form != Form::Number
    }

    /// How many numbers a tensor of this shape has; `None` if there can be no such.
    pub(crate) fn numbers_of_shape(self, shape: &[i64]) -> Option<usize> {
        elements_of_shape(shape)?.checked_mul(self.width)
    }

    /// An element as numbers in objects: their bank, and how many there are.
    pub(crate) fn row(self) -> (Bank, usize) {
        (if self.kind.is_real() { Bank::Real } else { Bank::Int }, self.width)
    }
}

/// A host function with the registers of its calls.
#[derive(Debug)]
pub(crate) struct LinkedHost {
    /// What programs call the function that this is, or that this is a derivative of.
    pub(crate) name: Box<str>,
    /// Of which order of derivatives.
    pub(crate) order: u32,
    pub(crate) function: HostFunction,
    pub(crate) args: Box<[Part]>,
    pub(crate) results: Box<[Part]>,
    /// Of the references among the arguments, whether they are of reals.
    differentiable: Box<[bool]>,
    /// The vjp and the jvp, once they were asked for.
    derivatives: OnceLock<Option<Box<[LinkedHost; 2]>>>,
}

/// Why a host function can't be called in the place of an import: what was expected and what was found.
pub(crate) enum Misfit {
    /// The import is of a type that no host function has.
    Import(String, String),
    /// The function is of another one.
    Function(String, String),
}

impl LinkedHost {
    pub(crate) fn new(import: &Import, function: &HostFunction) -> Result<LinkedHost, Misfit> {
        let (mut args, mut results) = (Vec::new(), Vec::new());
        for (name, ty) in &import.interface.params {
            add_parts(ty, &mut args).map_err(|found| unfit(&format!("parameter {name}"), found))?;
        }
        add_parts(&import.interface.result, &mut results).map_err(|found| unfit("the result", found))?;
        let shown = |parts: &[Part]| parts.iter().flat_map(|part| part.leaves()).collect::<Vec<_>>();
        for (what, parts, given) in [("taking", &args, function.params()), ("giving", &results, function.results())] {
            let expected = shown(parts);
            if expected != given {
                let expected = format!("one {what} {} for {:?}", Kinds(&expected), import.name);
                return Err(Misfit::Function(expected, format!("one {what} {}", Kinds(given))));
            }
        }
        Ok(LinkedHost::of(&import.name, 0, function.clone(), args, results))
    }

    /// A function for an import that nobody gives: its calls trap. `None` if no host function has the import's type.
    pub(crate) fn missing(import: &Import) -> Option<HostFunction> {
        let leaves = |types: &mut dyn Iterator<Item = &HostType>| {
            let mut parts = Vec::new();
            for ty in types {
                add_parts(ty, &mut parts).ok()?;
            }
            Some(parts.iter().flat_map(|part| part.leaves()).collect::<Vec<_>>())
        };
        let Interface { params, result } = &import.interface;
        let (params, results) = (leaves(&mut params.iter().map(|(_, ty)| ty))?, leaves(&mut [result].into_iter())?);
        Some(HostFunction::flat(&params, &results, |_| Err(HostError::new("nobody gives it"))))
    }

    fn of(name: &str, order: u32, function: HostFunction, args: Vec<Part>, results: Vec<Part>) -> LinkedHost {
        let references = args.iter().filter(|part| part.is_reference());
        let differentiable = references.map(|part| part.kind.is_real()).collect();
        let (args, results, derivatives) = (args.into(), results.into(), OnceLock::new());
        LinkedHost { name: name.into(), order, function, args, results, differentiable, derivatives }
    }

    /// The vjp and the jvp, if it has derivatives.
    pub(crate) fn derivatives(&self) -> Option<&[LinkedHost; 2]> {
        let make = || {
            let [vjp, jvp] = self.function.derivatives()?;
            let [tangents, cotangents] = [tangents(&self.args), tangents(&self.results)];
            let derivative = |function, more: &[Part], results: &[Part]| {
                let args = self.args.iter().chain(more).copied().collect();
                LinkedHost::of(&self.name, self.order + 1, function, args, results.to_vec())
            };
            Some(Box::new([derivative(vjp, &cotangents, &tangents), derivative(jvp, &tangents, &cotangents)]))
        };
        self.derivatives.get_or_init(make).as_deref()
    }

    /// Whether it has derivatives.
    pub(crate) fn is_differentiable(&self) -> bool {
        self.function.is_differentiable()
    }

    /// Whether the n-th reference among the arguments has tangents and cotangents that say anything.
    pub(crate) fn has_tangents(&self, n: usize) -> bool {
        self.differentiable[n]
    }
}

/// What belongs to some parts as tangents or cotangents: one for each register but integers.
fn tangents(parts: &[Part]) -> Vec<Part> {
    let parts = parts.iter().filter(|part| part.kind.is_real() || part.is_reference());
    parts.map(|part| Part { is_shown: part.is_shown && part.kind.is_real(), ..*part }).collect()
}

fn add_parts(ty: &HostType, parts: &mut Vec<Part>) -> Result<(), HostType> {
    let (form, leaf) = match ty {
        HostType::Tuple(types) => return types.iter().try_for_each(|ty| add_parts(ty, parts)),
        HostType::Record(types) => return types.iter().try_for_each(|(_, ty)| add_parts(ty, parts)),
        // Of rows, too, which are no leaves of flat calls.
        HostType::List { element, .. } => (Form::List, row_of(element)),
        HostType::Array { .. } => (Form::Array, kind_of(ty)),
        HostType::Tensor { .. } => (Form::Tensor(ty.rank()), kind_of(ty)),
        HostType::Real | HostType::Int | HostType::Bool | HostType::Data { .. } => (Form::Number, kind_of(ty)),
    };
    let (kind, width) = leaf.ok_or_else(|| ty.clone())?;
    parts.push(Part { form, kind, width, is_shown: true });
    Ok(())
}

#[cold]
fn unfit(place: &str, found: HostType) -> Misfit {
    let expected = format!(
        "Real, Int, Bool, an array, a list, a matrix or a tensor of one of these or of tuples of one, or a tuple or a \
         record of such, for {place}"
    );
    Misfit::Import(expected, found.to_string())
}
