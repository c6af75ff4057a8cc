//! Rows of arrays: once an index is checked, all elements of its row are inside.
//!
//! Within a block, [`Rows`] knows which integer registers are places in a row that was checked, and how much of the row
//! lies behind them; an element that is read there isn't tested again, and its address is the row's plus a constant.

use super::{Function, cell};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::Bank;
use dualvm_vm::native::helpers::Helper;
use dualvm_vm::native::layout::ARRAY_HEADER;
use dualvm_vm::native::{Inst, IntReg, RefReg};
use std::collections::HashMap;

/// Rows whose index is at least this are outside of every array: the heap makes no object of so many words. An index is
/// taken down to it, unsigned, so that where the row would end can be computed without wrapping: a row has fewer than
/// 2¹⁶ elements.
const INDEX_OUTSIDE: i64 = 1 << 46;

/// Which row of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    /// Its number is this, and so many more.
    index: Value,
    by: i64,
    width: i64,
}

/// A place in a row.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The integer register that holds it.
    register: u16,
    array: u16,
    /// It is this, and so many elements more.
    from: Value,
    offset: i64,
    /// How many elements of the row there are from here on.
    left: i64,
    row: Row,
}

/// A row that an array is known to have.
#[derive(Clone, Copy, Debug)]
struct Checked {
    array: u16,
    row: Row,
    /// As for a place.
    from: Value,
}

/// The places that are known.
#[derive(Default, Debug)]
pub(super) struct Rows {
    places: Vec<Place>,
    checked: Vec<Checked>,
    /// Arrays, each with one that is as long: what is inside of the one is inside of the other.
    as_long: Vec<[u16; 2]>,
    /// The addresses that have been computed, by where an array's elements are counted from, and place.
    addresses: HashMap<[Value; 2], Value>,
    /// Numbers of rows, taken down to what is outside of every array.
    low: HashMap<Value, Value>,
}

/// No more places, and no more arrays that are as long as others, are known at a time: all are looked at for each
/// instruction.
const KNOWN_MAX: usize = 256;

impl Rows {
    pub(super) fn forget(&mut self) {
        self.places.clear();
        self.checked.clear();
        self.as_long.clear();
        self.addresses.clear();
        self.low.clear();
    }

    /// Notes that an array is as long as one in which there may be rows.
    pub(super) fn are_as_long(&mut self, array: u16, other: u16) {
        if !self.places.is_empty() && self.as_long.len() < KNOWN_MAX {
            self.as_long.push([other, array]);
        }
    }

    fn add(&mut self, places: impl IntoIterator<Item = Place>) {
        let room = KNOWN_MAX - self.places.len();
        self.places.extend(places.into_iter().take(room));
    }

    /// The elements of an array that belong to one of another array's, whose place is in a register: to each of these
    /// so many. That is known where both arrays were checked for the same row.
    fn of_element(&self, register: u16, array: u16, width: i64) -> Option<(Value, i64)> {
        self.places.iter().filter(|place| place.register == register).find_map(|place| {
            let row = Row { width: place.row.width * width, ..place.row };
            let checked = self.checked.iter().find(|checked| (checked.array, checked.row) == (array, row))?;
            let element = place.row.width - place.left;
            Some((checked.from, row.by * row.width + element * width))
        })
    }

    fn of(&self, register: u16, array: u16) -> Option<Place> {
        let inside_of =
            |array: u16| self.places.iter().copied().find(|place| (place.register, place.array) == (register, array));
        let as_long = || self.as_long.iter().find(|[other, _]| *other == array);
        inside_of(array).or_else(|| as_long().and_then(|&[_, array]| inside_of(array)))
    }
}

impl Function<'_, '_> {
    /// The place of a row's first element. Stops if the array doesn't have the row.
    pub(super) fn row(&mut self, dst: IntReg, array: RefReg, index: IntReg, width: u32) {
        let width = i64::from(width);
        let near = self.near_first(index.0);
        let (number, by) = near.unwrap_or_else(|| (self.int(index.0), 0));
        let row = Row { index: number, by, width };
        let of_element = self.rows.of_element(index.0, array.0, width);
        let (from, offset) = match (of_element, near) {
            (Some(place), _) => place,
            // In the rounds of a group the index is inside, and places are counted from that of the first round.
            (None, Some((first, by))) => (self.emit.b.ins().imul_imm_s(first, width), by * width),
            (None, None) => {
                let (index, len) = (number, self.len(array.0));
                let low = *self.rows.low.entry(index).or_insert_with(|| {
                    let outside = self.emit.int(INDEX_OUTSIDE);
                    self.emit.b.ins().umin(index, outside)
                });
                let from = self.emit.b.ins().imul_imm_s(low, width);
                let end = self.emit.b.ins().iadd_imm_s(from, width);
                let outside = self.emit.b.ins().icmp(IntCC::UnsignedGreaterThan, end, len);
                self.trap_if(outside, |this| {
                    let rows = this.emit.b.ins().udiv_imm_u(len, width);
                    this.emit.call_cold(Helper::TrapIndex, &[this.context, index, rows]);
                });
                (from, 0)
            }
        };
        let place = self.emit.b.ins().iadd_imm_s(from, offset);
        self.set_int(dst.0, place);
        if of_element.is_none() && self.rows.checked.len() < KNOWN_MAX {
            self.rows.checked.push(Checked { array: array.0, row, from });
        }
        self.rows.add([Place { register: dst.0, array: array.0, from, offset, left: width, row }]);
    }

    /// Where an element stands that is known to be inside: address and offset.
    pub(super) fn place_in_row(&mut self, bank: Bank, array: RefReg, index: IntReg) -> Option<(Value, i32)> {
        let place = self.rows.of(index.0, array.0)?;
        let base = self.elements_base(bank, array);
        let address = *self.rows.addresses.entry([base, place.from]).or_insert_with(|| {
            let bytes = self.emit.b.ins().ishl_imm_u(place.from, 3);
            self.emit.b.ins().iadd(base, bytes)
        });
        Some((address, cell(ARRAY_HEADER) + 8 * place.offset as i32))
    }

    /// Notes what an instruction does to the places that are known, before it is written.
    pub(super) fn follow_rows(&mut self, inst: &Inst) {
        if self.rows.places.is_empty() && self.rows.checked.is_empty() && self.rows.as_long.is_empty() {
            return;
        }
        let next: Vec<Place> = match *inst {
            Inst::IAdd { dst, a, b } => {
                let constants = &self.constants;
                let step = |from: IntReg, by: IntReg| {
                    let by = constants.int(by.0)?;
                    (by >= 0).then_some((from, by))
                };
                let moved = step(a, b).or_else(|| step(b, a));
                let places = self.rows.places.iter().filter_map(|place| {
                    let (from, by) = moved?;
                    let inside = place.register == from.0 && by < place.left;
                    inside.then(|| Place {
                        register: dst.0,
                        offset: place.offset + by,
                        left: place.left - by,
                        ..*place
                    })
                });
                places.collect()
            }
            _ => Vec::new(),
        };
        let Rows { places, checked, as_long, .. } = &mut self.rows;
        inst.for_each_reg(self.stream, |reg, def| {
            if def {
                if reg.bank == Bank::Ref {
                    as_long.retain(|pair| !pair.contains(&reg.index));
                    checked.retain(|checked| checked.array != reg.index);
                }
                places.retain(|place| match reg.bank {
                    Bank::Int => place.register != reg.index,
                    Bank::Ref => place.array != reg.index,
                    Bank::Real => true,
                });
            }
        });
        self.rows.add(next);
    }
}
