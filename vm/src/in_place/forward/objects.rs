//! Instructions that move numbers and make objects: they do the same to tangents.

use super::varied::Parts;
use super::{Forward, Tangent, is_call};
use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg};
use crate::bytecode::module::{TypeDef, ValueType};
use crate::in_place::writer::{Copy, Declined};

/// What stands beside an instruction for its tangents.
enum Beside {
    /// Nothing: its result doesn't vary.
    Nothing,
    /// A copy of the reference: its result holds no reals, and is its own tangent.
    Itself,
    /// The same instruction with these operands.
    Made(Vec<Operand>),
}

impl Forward<'_, '_> {
    /// An instruction and what it does to tangents.
    pub(super) fn inst(&mut self, inst: &Inst) -> Result<(), Declined> {
        let is_constant = |bank: Bank| self.constants[bank as usize].contains_key(&inst.a);
        match inst.op {
            Op::Const if is_constant(Bank::Real) => return Ok(()),
            Op::IConst if is_constant(Bank::Int) => return Ok(()),
            op if op.is_scalar() => return self.scalar(inst),
            op if is_call(op) || matches!(op, Op::Primal | Op::Once) => return self.call(inst),
            Op::Vjp if self.lanes == 1 => return self.vjp(inst),
            Op::Vjp => return Err(Declined),
            Op::Row => return self.row(inst),
            // Once, whatever there are of tangents.
            Op::Trace => return self.emit_own(inst),
            Op::Push | Op::IPush | Op::PPush | Op::Put | Op::IPut | Op::PPut => {
                self.emit_own(inst)?;
                return self.element(inst);
            }
            Op::Extend => {
                self.emit_own(inst)?;
                let lanes = if self.is_interleaved(Reg::reference(inst.a)) { 1 } else { self.lanes };
                return (0..lanes).try_for_each(|lane| self.range(lane, inst));
            }
            Op::Elem | Op::Get if self.is_interleaved(Reg::reference(inst.narrow()[1])) => {
                return self.interleaved_read(inst);
            }
            _ => {}
        }
        // Everything else that has a tangent does the same to tangents. They are read before anything is written: the
        // tangents have registers of their own, but an instruction may write what it reads.
        let mut written = None;
        self.site.body.for_each_reg(inst, |reg, def| {
            if def {
                written = Some(reg);
            }
        });
        let Some(reg) = written else { return self.emit_own(inst) };
        let lanes = if self.is_interleaved(reg) { 1 } else { self.lanes };
        let mut beside = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            beside.push(self.beside(lane, inst)?);
        }
        self.emit_own(inst)?;
        for (lane, beside) in beside.into_iter().enumerate() {
            self.forget(lane, reg);
            match beside {
                Beside::Nothing => {}
                Beside::Itself => {
                    // Not the same register, which the next instruction may write.
                    let (to, own) = (self.tangent(lane, reg)?, self.register(reg)?);
                    self.writer.copy(&[Copy::value(Reg { index: to, ..reg }, Reg { index: own, ..reg })])?;
                    self.note_tangent(lane, reg, to);
                }
                Beside::Made(mut operands) => {
                    let to = self.tangent(lane, reg)?;
                    operands[0] = Operand::Def(Reg { index: to, ..reg });
                    self.writer.emit(inst.op, &operands)?;
                    self.note_tangent(lane, reg, to);
                }
            }
        }
        Ok(())
    }

    /// Notes that a register has no tangent, but 0.
    pub(super) fn forget(&mut self, lane: usize, reg: Reg) {
        match reg.bank {
            Bank::Real => _ = self.state.reals.remove(&(lane, reg.index)),
            Bank::Ref => self.lanes_with(lane, reg).for_each(|lane| _ = self.state.refs.remove(&(lane, reg.index))),
            Bank::Int => {}
        }
    }

    /// Notes where the tangent of a register stands.
    pub(super) fn note_tangent(&mut self, lane: usize, reg: Reg, tangent: u16) {
        match reg.bank {
            Bank::Real => _ = self.state.reals.insert((lane, reg.index), Tangent::Register(tangent)),
            _ => {
                let lanes = self.lanes_with(lane, reg);
                self.state.refs.extend(lanes.map(|lane| ((lane, reg.index), tangent)));
            }
        }
    }

    /// The lanes that have the same tangent of a register.
    fn lanes_with(&self, lane: usize, reg: Reg) -> std::ops::Range<usize> {
        if self.is_interleaved(reg) { 0..self.lanes } else { lane..lane + 1 }
    }

    /// A row's place, which is the same in arrays of tangents. That these have the row is said here, so that its
    /// elements are known to be inside, too.
    fn row(&mut self, inst: &Inst) -> Result<(), Declined> {
        let [_, array, index, _] = inst.narrow();
        let array = Reg::reference(array);
        if self.is_interleaved(array) {
            self.row_of_tangents(array, Reg::int(index), inst.imm)?;
            return self.emit_own(inst);
        }
        self.emit_own(inst)?;
        let own = Reg::reference(self.register(array)?);
        for lane in 0..self.lanes {
            if let Some(&tangents) = self.state.refs.get(&(lane, array.index)) {
                self.writer.emit(Op::SameLen, &[own, Reg::reference(tangents)].map(Operand::Use))?;
            }
        }
        Ok(())
    }

    /// Pushes the tangents of what was pushed, or puts them where that was put.
    fn element(&mut self, inst: &Inst) -> Result<(), Declined> {
        let operands = self.site.body.operands(inst).ok_or(Declined)?;
        let [Operand::Use(builder), between @ .., Operand::Use(element)] = &operands[..] else {
            return Err(Declined);
        };
        let index = match between {
            [] => None,
            [Operand::Use(index)] => Some(Reg::int(self.register(*index)?)),
            _ => return Err(Declined),
        };
        if !self.state.refs.contains_key(&(0, builder.index)) {
            let varies = match element.bank {
                Bank::Real => self.varies(element.index),
                Bank::Ref => self.state.refs.contains_key(&(0, element.index)),
                Bank::Int => false,
            };
            return if varies { Err(Declined) } else { Ok(()) };
        }
        let places = match index {
            Some(index) if self.is_interleaved(*builder) => Some(self.places_of(index)?),
            Some(index) => Some(vec![index; self.lanes]),
            None => None,
        };
        for lane in 0..self.lanes {
            let tangents = Reg { index: self.object_of(lane, builder.index)?, ..*builder };
            let tangent = self.beside_register(lane, *element, (true, false))?;
            let place = places.as_ref().map(|places| places[lane]);
            let operands: Vec<Operand> =
                [Some(tangents), place, Some(tangent)].into_iter().flatten().map(Operand::Use).collect();
            self.writer.emit(inst.op, &operands)?;
        }
        Ok(())
    }

    /// Appends the tangents of what was appended.
    fn range(&mut self, lane: usize, inst: &Inst) -> Result<(), Declined> {
        let [builder, array, from, to] = inst.narrow();
        let has_tangents = self.state.refs.contains_key(&(lane, array));
        let tangents = match self.object_of(lane, builder) {
            Ok(tangents) => Reg::reference(tangents),
            Err(_) if has_tangents => return Err(Declined),
            Err(_) => return Ok(()),
        };
        let array = Reg::reference(array);
        let own = Reg::reference(self.register(array)?);
        let of_reals = self.site.module.types[self.type_of(array).index()] == TypeDef::Array(ValueType::Real);
        let appended = match (has_tangents || !self.holds_reals(array), of_reals) {
            (true, _) => self.beside_register(lane, array, (true, false))?,
            (false, true) => self.zeros_like(own, self.type_of(array))?,
            // Objects of zeros would have to be made.
            (false, false) => return Err(Declined),
        };
        let mut range = [Reg::int(self.register(Reg::int(from))?), Reg::int(self.register(Reg::int(to))?)];
        if self.is_interleaved(array) {
            range = [self.for_all_lanes(range[0])?, self.for_all_lanes(range[1])?];
        }
        let operands = [tangents, appended, range[0], range[1]].map(Operand::Use);
        self.writer.emit(Op::Extend, &operands)
    }

    /// What an instruction does to tangents; the register that it writes is still its own.
    fn beside(&mut self, lane: usize, inst: &Inst) -> Result<Beside, Declined> {
        let mut operands = self.site.body.operands(inst).ok_or(Declined)?;
        let Some(Operand::Def(made)) = operands.first() else { return Ok(Beside::Nothing) };
        let holds = self.holds_reals(*made);
        // Objects have tangents in all lanes or in none.
        let lanes = if inst.op == Op::Mov { lane..lane + 1 } else { 0..self.lanes };
        let varies = |reg: Reg| match reg.bank {
            Bank::Real => lanes.clone().any(|lane| self.state.reals.contains_key(&(lane, reg.index))),
            Bank::Ref => self.state.refs.contains_key(&(lane, reg.index)),
            Bank::Int => false,
        };
        let parts = Parts::of(&self.rules, self.site.body, inst, varies);
        let makes = matches!(inst.op, Op::StructNew | Op::VariantNew | Op::Pack);
        let beside = match inst.op {
            Op::Build => self.activity.builders.contains(&inst.a) || self.rules.dense,
            Op::ChainNew => true,
            Op::Mov | Op::PMov | Op::PSelect | Op::Finish | Op::ChainPush | Op::ChainFinish => parts.vary,
            Op::Get | Op::PGet | Op::Reserve => parts.vary,
            Op::Field | Op::PField | Op::Payload | Op::PPayload | Op::Elem | Op::PElem => parts.vary,
            _ => makes && self.rules.object_varies(&parts),
        };
        if !beside || !holds {
            return Ok(Beside::Nothing);
        }
        if makes && parts.is_empty() {
            return Ok(Beside::Itself);
        }
        if self.is_interleaved(*made)
            && let Some(made) = self.interleaved_parts(inst.op, &operands)?
        {
            return Ok(Beside::Made(made));
        }
        let makes = makes || inst.op == Op::ChainPush;
        let shaped = inst.op == Op::StructNew
            && matches!(self.site.module.types[self.type_of(*made).index()], TypeDef::Shaped(_));
        for operand in &mut operands[1..] {
            match operand {
                Operand::Use(reg) => *reg = self.beside_register(lane, *reg, (makes, shaped))?,
                Operand::Uses(regs) => {
                    for reg in regs {
                        *reg = self.beside_register(lane, *reg, (makes, shaped))?;
                    }
                }
                _ => {}
            }
        }
        Ok(Beside::Made(operands))
    }

    /// What stands beside an operand: its tangent, and integers as they are unless they are part of an object. Those of
    /// a shape stay as they are in an object, too.
    pub(super) fn beside_register(
        &mut self,
        lane: usize,
        reg: Reg,
        (is_part, shaped): (bool, bool),
    ) -> Result<Reg, Declined> {
        let index = match reg.bank {
            Bank::Real if is_part => self.normalised(lane, reg.index)?,
            Bank::Real => self.tangent_of(lane, reg.index)?,
            Bank::Int if is_part && !shaped => self.writer.constant(Bank::Int, 0)?,
            Bank::Int => self.register(reg)?,
            // An object of no reals is its own tangent.
            Bank::Ref if !self.holds_reals(reg) => self.register(reg)?,
            Bank::Ref => self.object_of(lane, reg.index)?,
        };
        Ok(Reg { index, ..reg })
    }

    /// The tangent of a real as objects hold it, without -0.0.
    pub(super) fn normalised(&mut self, lane: usize, reg: u16) -> Result<u16, Declined> {
        match self.state.reals.get(&(lane, reg)) {
            Some(&Tangent::Register(from)) => {
                let to = self.writer.temporary(Bank::Real)?;
                self.writer.copy(&[Copy::derivative(Reg::real(to), Reg::real(from))])?;
                Ok(to)
            }
            Some(&Tangent::Constant(bits)) => {
                let bits = (f64::from_bits(bits) + 0.0).to_bits();
                self.writer.constant(Bank::Real, bits)
            }
            None => self.writer.constant(Bank::Real, 0),
        }
    }
}
