//! Which types of several modules are the same one.
//!
//! Types are nominal in a module, and the numbers of two modules say nothing about each other. Where one calls a
//! function of the other, the types of what goes over have to be the same: these, and what they are made of, are
//! *identified* if they look alike. Types may lead back to themselves, so that is a greatest fixed point: two are taken
//! for the same until something differs (Amadio and Cardelli 1993, section 4), with classes of types that are the same
//! (Hopcroft and Karp 1971) in place of a set of pairs, which makes it almost linear.

use crate::bytecode::module::{DataId, HostType, Interface, ModuleDef, TypeDef, TypeId, ValueType};
use std::collections::HashSet;

/// Classes of the types of a table.
pub(super) struct Classes {
    /// For each type another one of its class that is nearer to its representative, or itself.
    next: Vec<TypeId>,
}

impl Classes {
    /// Each type of a table of so many is alone in its class.
    pub(super) fn of(len: usize) -> Self {
        Classes { next: (0..len as u32).map(TypeId).collect() }
    }

    /// The type that stands for all of its class: the one with the smallest number.
    pub(super) fn representative(&mut self, ty: TypeId) -> TypeId {
        let mut at = ty;
        while self.next[at.index()] != at {
            // Halves the way for whoever comes next.
            self.next[at.index()] = self.next[self.next[at.index()].index()];
            at = self.next[at.index()];
        }
        at
    }

    /// Identifies two types of a table with all that they are made of. False if they don't look alike; the classes are
    /// of no use then.
    #[must_use]
    pub(super) fn identify(&mut self, a: ValueType, b: ValueType, types: &[TypeDef]) -> bool {
        let mut pending = vec![(a, b)];
        while let Some(pair) = pending.pop() {
            let (a, b) = match pair {
                (ValueType::Ref(a), ValueType::Ref(b)) => (self.representative(a), self.representative(b)),
                (a, b) if a == b => continue,
                _ => return false,
            };
            if a == b {
                continue;
            }
            self.next[a.max(b).index()] = a.min(b);
            if !pair_parts(&types[a.index()], &types[b.index()], &mut pending) {
                return false;
            }
        }
        true
    }
}

/// Adds the parts of two types that have to be the same if these are. False if the types are of different shapes. What
/// variants are called doesn't matter to a machine; hosts see the names of data types.
fn pair_parts(a: &TypeDef, b: &TypeDef, pairs: &mut Vec<(ValueType, ValueType)>) -> bool {
    let mut lists = |a: &[ValueType], b: &[ValueType]| {
        pairs.extend(a.iter().copied().zip(b.iter().copied()));
        a.len() == b.len()
    };
    match (a, b) {
        (TypeDef::Struct(a), TypeDef::Struct(b)) | (TypeDef::Shaped(a), TypeDef::Shaped(b)) => lists(a, b),
        (TypeDef::Variant(a), TypeDef::Variant(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| lists(&a.fields, &b.fields))
        }
        (TypeDef::Array(a), TypeDef::Array(b)) | (TypeDef::Builder(a), TypeDef::Builder(b)) => lists(&[*a], &[*b]),
        (TypeDef::Chain(a), TypeDef::Chain(b)) => lists(&[ValueType::Ref(*a)], &[ValueType::Ref(*b)]),
        (TypeDef::Closure { params, results }, TypeDef::Closure { params: other_params, results: other_results }) => {
            lists(params, other_params) && lists(results, other_results)
        }
        _ => false,
    }
}

/// Which data types of which modules were found to be the same.
#[derive(Default)]
pub(super) struct Alike {
    seen: HashSet<[(usize, DataId); 2]>,
}

impl Alike {
    /// Whether interfaces of two modules, which have numbers, are the same to a host: but for what data types and
    /// parameters are called, which is for each module to say. Once they aren't, this is of no use any more.
    pub(super) fn are(
        &mut self,
        ((a_module, a_def), a): ((usize, &ModuleDef), &Interface),
        ((b_module, b_def), b): ((usize, &ModuleDef), &Interface),
    ) -> bool {
        if a.params.len() != b.params.len() {
            return false;
        }
        let mut pending: Vec<(&HostType, &HostType)> = vec![(&a.result, &b.result)];
        pending.extend(a.params.iter().zip(&b.params).map(|((_, a), (_, b))| (a, b)));
        while let Some((a, b)) = pending.pop() {
            let is_same = match (a, b) {
                (HostType::Real, HostType::Real)
                | (HostType::Int, HostType::Int)
                | (HostType::Bool, HostType::Bool) => true,
                (HostType::Tuple(a), HostType::Tuple(b)) => {
                    pending.extend(a.iter().zip(b));
                    a.len() == b.len()
                }
                (HostType::Record(a), HostType::Record(b)) => {
                    pending.extend(a.iter().zip(b).map(|((_, a), (_, b))| (a, b)));
                    a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b)
                }
                (HostType::Array { element: a, .. }, HostType::Array { element: b, .. })
                | (HostType::List { element: a, .. }, HostType::List { element: b, .. })
                | (HostType::Tensor { slice: a, .. }, HostType::Tensor { slice: b, .. }) => {
                    pending.push((a, b));
                    true
                }
                (HostType::Data { data: a, .. }, HostType::Data { data: b, .. }) => {
                    if !self.seen.insert([(a_module, *a), (b_module, *b)]) {
                        continue;
                    }
                    let (a, b) = (&a_def.data[a.index()].variants, &b_def.data[b.index()].variants);
                    pending.extend(a.iter().zip(b).map(|((_, a), (_, b))| (a, b)));
                    a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b)
                }
                _ => false,
            };
            if !is_same {
                return false;
            }
        }
        true
    }
}
