//! Tangents that a `jvp` is given: their shapes, and the form in which they may come out again.

use super::{Bank, Op, Operand, Reg, Site, TypeDef, TypeId, ValueType};
use crate::in_place::writer::{Copy, Declined, Writer};
use std::collections::BTreeSet;

/// Objects in objects are looked at so deep. A type that leads back to itself has no bound.
const NESTING_MAX: usize = 6;
/// What is given and what comes out are made of so many parts at most, by their types.
const PARTS_MAX: usize = 4096;

/// A tangent that a `jvp` is given.
pub(super) struct GivenTangent {
    /// The parameter: its number, its type, and its register in the function.
    pub(super) parameter: usize,
    pub(super) ty: ValueType,
    pub(super) own: Reg,
    /// The caller's registers.
    arg: Reg,
    pub(super) tangent: Reg,
}

impl GivenTangent {
    pub(super) fn all(site: &Site<'_>) -> Result<Vec<GivenTangent>, Declined> {
        let mut given = site.args[site.callee.params.len()..].iter();
        let params = site.params().enumerate().skip(site.captures).filter(|(_, (ty, ..))| *ty != ValueType::Int);
        params
            .map(|(parameter, (ty, own, arg))| {
                given.next().map(|&tangent| GivenTangent { parameter, ty, own, arg, tangent }).ok_or(Declined)
            })
            .collect()
    }

    /// Traps unless the tangent has the shape of the argument.
    pub(super) fn check_shape(&self, writer: &mut Writer, site: &Site<'_>) -> Result<(), Declined> {
        match self.ty {
            ValueType::Ref(id) => check_shape(writer, site, id, [self.arg, self.tangent], 0),
            _ => Ok(()),
        }
    }

    /// The tangent in the form that it has when it comes out of an operator, if it may come out of this one.
    pub(super) fn as_given_back(&self, writer: &mut Writer, site: &Site<'_>) -> Result<Reg, Declined> {
        let ValueType::Ref(id) = self.ty else { return Ok(self.tangent) };
        let results = objects_in(site, site.callee.results.iter().copied())?;
        let is_of_reals = |id: &TypeId| site.module.types[id.index()] == TypeDef::Array(ValueType::Real);
        let gives_reals = results.iter().any(is_of_reals);
        // What is appended to an array of reals may be one of another type.
        let may_come_out = |id: &TypeId| results.contains(id) || gives_reals && is_of_reals(id);
        match objects_in(site, [self.ty])?.iter().any(may_come_out) {
            true => without_negative_zeros(writer, site, id, self.tangent, 0),
            false => Ok(self.tangent),
        }
    }
}

/// The types of the objects that values of these types are made of.
fn objects_in(site: &Site<'_>, types: impl IntoIterator<Item = ValueType>) -> Result<BTreeSet<TypeId>, Declined> {
    let (mut found, mut looked_at) = (BTreeSet::new(), 0);
    let mut next: Vec<ValueType> = types.into_iter().collect();
    while let Some(ty) = next.pop() {
        looked_at += 1;
        if looked_at > PARTS_MAX {
            return Err(Declined);
        }
        if let ValueType::Ref(id) = ty
            && found.insert(id)
        {
            next.extend(site.module.types[id.index()].parts().take(PARTS_MAX + 1));
        }
    }
    Ok(found)
}

/// Whether an operator's tangents of results of this type are what functions with tangents give: integers in them are 0
/// unless they are those of a shape.
pub(super) fn gives_reals_only(site: &Site<'_>, id: TypeId) -> bool {
    let is_of_reals = |id: &TypeId| match &site.module.types[id.index()] {
        TypeDef::Array(ty) => *ty != ValueType::Int,
        TypeDef::Struct(fields) => !fields.contains(&ValueType::Int),
        TypeDef::Shaped(_) => true,
        _ => false,
    };
    objects_in(site, [ValueType::Ref(id)]).is_ok_and(|found| found.iter().all(is_of_reals))
}

/// Traps unless two objects of a type are alike, as the operator does: at the first difference from left to right.
fn check_shape(
    writer: &mut Writer,
    site: &Site<'_>,
    id: TypeId,
    pair: [Reg; 2],
    nesting: usize,
) -> Result<(), Declined> {
    if nesting == NESTING_MAX {
        return Err(Declined);
    }
    match &site.module.types[id.index()] {
        TypeDef::Array(element) => {
            writer.emit(Op::SameLen, &pair.map(Operand::Use))?;
            let ValueType::Ref(element) = *element else { return Ok(()) };
            if !has_shape(site, element) {
                return Ok(());
            }
            let len = Reg::int(writer.int()?);
            writer.emit(Op::Len, &[Operand::Def(len), Operand::Use(pair[0])])?;
            writer.for_each_index(len, |writer, at| {
                let mut elements = pair;
                for reg in &mut elements {
                    let loaded = Reg::reference(writer.reference(element)?);
                    writer.emit(Op::PElem, &[Operand::Def(loaded), Operand::Use(*reg), Operand::Use(at)])?;
                    *reg = loaded;
                }
                check_shape(writer, site, element, elements, nesting + 1)
            })
        }
        TypeDef::Struct(fields) => check_parts(writer, site, fields, pair, nesting),
        TypeDef::Shaped(fields) => {
            writer.emit(Op::SameShape, &pair.map(Operand::Use))?;
            check_parts(writer, site, fields, pair, nesting)
        }
        _ => Err(Declined),
    }
}

/// Traps unless what two objects with these fields are made of is alike.
fn check_parts(
    writer: &mut Writer,
    site: &Site<'_>,
    fields: &[ValueType],
    pair: [Reg; 2],
    nesting: usize,
) -> Result<(), Declined> {
    for (index, &ty) in fields.iter().enumerate() {
        let ValueType::Ref(field) = ty else { continue };
        let mut parts = pair;
        for reg in &mut parts {
            *reg = part(writer, *reg, index, ty)?;
        }
        check_shape(writer, site, field, parts, nesting + 1)?;
    }
    Ok(())
}

/// Whether two objects of a type may be of different shapes.
fn has_shape(site: &Site<'_>, id: TypeId) -> bool {
    match &site.module.types[id.index()] {
        TypeDef::Struct(fields) => fields.iter().any(|ty| ty.bank() == Bank::Ref),
        _ => true,
    }
}

/// Loads a field of an object.
fn part(writer: &mut Writer, object: Reg, index: usize, ty: ValueType) -> Result<Reg, Declined> {
    let (op, to) = match ty {
        ValueType::Real => (Op::Field, Reg::real(writer.real()?)),
        ValueType::Int => (Op::IField, Reg::int(writer.int()?)),
        ValueType::Ref(id) => (Op::PField, Reg::reference(writer.reference(id)?)),
    };
    let index = u16::try_from(index).map_err(|_| Declined)?;
    writer.emit(op, &[Operand::Def(to), Operand::Use(object), Operand::Field(index)])?;
    Ok(to)
}

/// A copy of an object of tangents, in the form that tangents have when they come out of an operator.
fn without_negative_zeros(
    writer: &mut Writer,
    site: &Site<'_>,
    id: TypeId,
    object: Reg,
    nesting: usize,
) -> Result<Reg, Declined> {
    if nesting == NESTING_MAX {
        return Err(Declined);
    }
    if !site.types.object_holds_reals(id) {
        return Ok(object);
    }
    // What is loaded, as it is to be in the copy.
    let copied = |writer: &mut Writer, loaded: Reg, ty: ValueType| match ty {
        ValueType::Real => {
            let to = Reg::real(writer.real()?);
            writer.copy(&[Copy::derivative(to, loaded)])?;
            Ok(to)
        }
        ValueType::Int => Ok(loaded),
        ValueType::Ref(id) => without_negative_zeros(writer, site, id, loaded, nesting + 1),
    };
    match &site.module.types[id.index()] {
        &TypeDef::Array(ty) => writer.array_like(object, id, site.builders.of(ty)?, |writer, at| {
            let (op, loaded) = match ty {
                ValueType::Ref(element) => (Op::PElem, Reg::reference(writer.reference(element)?)),
                _ => (Op::Elem, Reg::real(writer.real()?)),
            };
            writer.emit(op, &[Operand::Def(loaded), Operand::Use(object), Operand::Use(at)])?;
            copied(writer, loaded, ty)
        }),
        TypeDef::Struct(fields) | TypeDef::Shaped(fields) => {
            let mut parts = Vec::new();
            for (index, &ty) in fields.iter().enumerate() {
                let loaded = part(writer, object, index, ty)?;
                parts.push(copied(writer, loaded, ty)?);
            }
            let made = Reg::reference(writer.reference(id)?);
            writer.emit(Op::StructNew, &[Operand::Def(made), Operand::Uses(parts)])?;
            Ok(made)
        }
        _ => Err(Declined),
    }
}
