//! Values that are in a heap, written once more to another one.

use super::maker::Cells;
use super::read::{Cursor, Elements};
use super::registers;
use super::row::Row;
use super::store::Store;
use crate::bytecode::isa::Bank;
use crate::bytecode::module::{HostType, ModuleDef, TypeDef};
use crate::memory::heap::{self, Fields, Ref};
use crate::trap::Limit;
use std::mem::MaybeUninit;

/// Writes the tangent of a constant, whose registers those of the cursor are: the same with zeros for reals. The store
/// writes tangents.
///
/// # Safety
/// What the references lead to are complete objects, as the type says, and stay where they are.
pub(crate) unsafe fn write_zeros(
    module: &ModuleDef,
    ty: &HostType,
    from: &mut Cursor<'_>,
    store: &mut Store<'_>,
) -> Result<(), Limit> {
    store.set_active(false);
    // SAFETY: promised by the caller.
    unsafe { Copier { module, store }.value(ty, from) }
}

struct Copier<'a, 's> {
    module: &'a ModuleDef,
    store: &'a mut Store<'s>,
}

impl Copier<'_, '_> {
    /// # Safety
    /// The registers are those of a value of this type, which is complete.
    unsafe fn value(&mut self, ty: &HostType, from: &mut Cursor<'_>) -> Result<(), Limit> {
        // SAFETY: promised by the caller: references lead to objects of the types that the verifier has compared.
        unsafe {
            match ty {
                HostType::Real => self.store.real(from.primal()),
                HostType::Int | HostType::Bool => {
                    self.store.int(from.int());
                    Ok(())
                }
                HostType::Tuple(types) => types.iter().try_for_each(|ty| self.value(ty, from)),
                HostType::Record(types) => types.iter().try_for_each(|(_, ty)| self.value(ty, from)),
                HostType::Array { element, .. } => self.array(element, from.object()),
                HostType::Tensor { .. } => {
                    let (shape, array) = heap::tensor(from.object());
                    self.array(ty.element().expect("a tensor has elements"), array)?;
                    shape.iter().for_each(|&extent| self.store.int(extent));
                    self.store.tensor(shape.len())
                }
                HostType::List { element, list } => {
                    let TypeDef::Variant(variants) = &self.module.types[list.index()] else {
                        unreachable!("the verifier refuses lists whose heap types are not variants")
                    };
                    let (mut cells, mut cell) = (Cells::new(Fields::of(&variants[1].fields)), from.object());
                    while heap::tag_of(*cell) != 0 {
                        let mut fields = Cursor::of(cell, false);
                        self.value(element, &mut fields)?;
                        self.store.cell(&mut cells)?;
                        cell = fields.object();
                    }
                    self.store.end(cells)
                }
                HostType::Data { data, .. } => {
                    let object = from.object();
                    let (tag, fields) = (heap::tag_of(*object), heap::fields_of(*object));
                    let payload = &self.module.data[data.index()].variants[tag as usize].1;
                    self.value(payload, &mut Cursor::of(object, false))?;
                    self.store.object(tag, fields)
                }
            }
        }
    }

    /// # Safety
    /// It is a complete array of elements of this type.
    unsafe fn array(&mut self, element: &HostType, array: Ref) -> Result<(), Limit> {
        // SAFETY: promised by the caller.
        unsafe {
            let elements = Elements::of(array, element);
            let len = elements.len(array);
            if let Some(row) = Row::of(element) {
                let cells: *const MaybeUninit<u64> = heap::elements(array).cast();
                let cells = std::slice::from_raw_parts(cells, len * row.width);
                return self.store.rows(row.bank, (len, row.width), |n, to| {
                    to.copy_from_slice(&cells[n * row.width..][..row.width]);
                    Ok(())
                });
            }
            let fields = registers(element);
            for n in 0..len {
                self.store.tick()?;
                self.value(element, &mut elements.at(n, false))?;
                if fields.row().is_none() {
                    self.store.object(0, fields)?;
                }
            }
            self.store.elements(Bank::Ref, len)
        }
    }
}
