//! Arrays of reals that have one array of tangents for all lanes: those of the first element, lane by lane, then those
//! of the next.
//!
//! Lanes do the same to their tangents. Where these stand side by side, an element of all lanes is found once, and
//! native code reads two of them with an instruction. Element i of lane l is i · lanes + l; to the machine that is a
//! row. Objects of other types have one of tangents in each lane; all of these lead to the same arrays.

use super::{Declined, Forward};
use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg};
use crate::bytecode::module::{TypeId, ValueType};
use crate::bytecode::verify::limits;

impl Forward<'_, '_> {
    /// Whether a register of the function holds an array of reals, or a builder of such, with one array of tangents for
    /// all lanes.
    pub(super) fn is_interleaved(&self, reg: Reg) -> bool {
        self.lanes > 1 && reg.bank == Bank::Ref && {
            let id = self.type_of(reg);
            self.site.types.is_array_of_reals(ValueType::Ref(id)) || self.site.builders.are_of_reals(id)
        }
    }

    /// Whether the tangent of a register is one of this lane's: what is for all of them is of the first.
    pub(super) fn is_in_lane(&self, lane: usize, reg: Reg) -> bool {
        lane == 0 || !self.is_interleaved(reg)
    }

    /// Reads an element, and its tangents if its array has some.
    pub(super) fn interleaved_read(&mut self, inst: &Inst) -> Result<(), Declined> {
        let [dst, array, index, _] = inst.narrow();
        // What tangents are read from is found before the instruction itself, which may write what it reads.
        let places = match self.state.refs.get(&(0, array)).copied() {
            Some(tangents) => {
                let (tangents, index) = (Reg::reference(tangents), Reg::int(self.register(Reg::int(index))?));
                let places = match inst.op {
                    Op::Elem => {
                        let first = Reg::int(self.writer.temporary(Bank::Int)?);
                        self.writer.row(first, tangents, index, self.lanes as u64)?;
                        self.places(first)?
                    }
                    _ => self.places_of(index)?,
                };
                Some((tangents, places))
            }
            None => None,
        };
        self.emit_own(inst)?;
        let dst = Reg::real(dst);
        for lane in 0..self.lanes {
            self.forget(lane, dst);
            if let Some((tangents, places)) = &places {
                let to = self.tangent(lane, dst)?;
                let operands = [Operand::Def(Reg::real(to)), Operand::Use(*tangents), Operand::Use(places[lane])];
                self.writer.emit(inst.op, &operands)?;
                self.note_tangent(lane, dst, to);
            }
        }
        Ok(())
    }

    /// Looks whether the array of tangents has the row that an array has at an index, if there are any.
    pub(super) fn row_of_tangents(&mut self, array: Reg, index: Reg, width: u64) -> Result<(), Declined> {
        let width = width * self.lanes as u64;
        if let Some(&tangents) = self.state.refs.get(&(0, array.index))
            && width <= limits::ROW_WIDTH_MAX as u64
        {
            let index = Reg::int(self.register(index)?);
            let place = Reg::int(self.writer.temporary(Bank::Int)?);
            self.writer.row(place, Reg::reference(tangents), index, width)?;
        }
        Ok(())
    }

    /// What an instruction that gives an array, or a builder, takes to give that of tangents, where that is more than
    /// the tangents of what it takes.
    pub(super) fn interleaved_parts(&mut self, op: Op, operands: &[Operand]) -> Result<Option<Vec<Operand>>, Declined> {
        Ok(Some(match (op, operands) {
            (Op::Build, [made, Operand::Use(capacity)]) => {
                let capacity = Reg::int(self.register(*capacity)?);
                vec![made.clone(), Operand::Use(self.for_all_lanes(capacity)?)]
            }
            (Op::Reserve, [made, Operand::Use(builder), Operand::Use(count)]) => {
                let builder = Reg::reference(self.object_of(0, builder.index)?);
                let count = Reg::int(self.register(*count)?);
                vec![made.clone(), Operand::Use(builder), Operand::Use(self.for_all_lanes(count)?)]
            }
            (Op::Pack, [made, Operand::Uses(elements)]) => {
                let mut tangents = Vec::with_capacity(elements.len() * self.lanes);
                for &element in elements {
                    for lane in 0..self.lanes {
                        tangents.push(self.beside_register(lane, element, (true, false))?);
                    }
                }
                vec![made.clone(), Operand::Uses(tangents)]
            }
            _ => return Ok(None),
        }))
    }

    /// The places of all lanes, of which this is the first.
    fn places(&mut self, first: Reg) -> Result<Vec<Reg>, Declined> {
        let mut places = vec![first];
        for lane in 1..self.lanes {
            let by = Reg::int(self.writer.constant(Bank::Int, lane as u64)?);
            let place = self.writer.temporary(Bank::Int)?;
            self.writer.scalar(Op::IAdd, place, &[first, by])?;
            places.push(Reg::int(place));
        }
        Ok(places)
    }

    /// An integer times the number of lanes.
    pub(super) fn for_all_lanes(&mut self, count: Reg) -> Result<Reg, Declined> {
        let lanes = Reg::int(self.writer.constant(Bank::Int, self.lanes as u64)?);
        let product = self.writer.temporary(Bank::Int)?;
        self.writer.scalar(Op::IMul, product, &[count, lanes])?;
        Ok(Reg::int(product))
    }

    /// The places in a builder of tangents that belong to an element's.
    pub(super) fn places_of(&mut self, index: Reg) -> Result<Vec<Reg>, Declined> {
        let first = self.for_all_lanes(index)?;
        self.places(first)
    }

    /// Zeros for the elements of an array, in all lanes.
    pub(super) fn zeros_like(&mut self, array: Reg, ty: TypeId) -> Result<Reg, Declined> {
        let zero = Reg::real(self.writer.constant(Bank::Real, 0)?);
        let len = Reg::int(self.writer.int()?);
        self.writer.emit(Op::Len, &[Operand::Def(len), Operand::Use(array)])?;
        let len = if self.lanes > 1 { self.for_all_lanes(len)? } else { len };
        self.writer.array_of(len, ty, self.site.builders.of(ValueType::Real)?, |_, _| Ok(zero))
    }
}
