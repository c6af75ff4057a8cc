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
                return (0..self.lanes).try_for_each(|lane| self.element(lane, inst));
            }
            Op::Extend => {
                self.emit_own(inst)?;
                return (0..self.lanes).try_for_each(|lane| self.range(lane, inst));
            }
            _ => {}
        }
        // Everything else that has a tangent does the same to tangents. They are read before anything is written: the
        // tangents have registers of their own, but an instruction may write what it reads.
        let mut beside = Vec::with_capacity(self.lanes);
        for lane in 0..self.lanes {
            beside.push(self.beside(lane, inst)?);
        }
        self.emit_own(inst)?;
        let mut written = None;
        self.site.body.for_each_reg(inst, |reg, def| {
            if def {
                written = Some(reg);
            }
        });
        let Some(reg) = written else { return Ok(()) };
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
            Bank::Ref => _ = self.state.refs.remove(&(lane, reg.index)),
            Bank::Int => {}
        }
    }

    /// Notes where the tangent of a register stands.
    pub(super) fn note_tangent(&mut self, lane: usize, reg: Reg, tangent: u16) {
        match reg.bank {
            Bank::Real => _ = self.state.reals.insert((lane, reg.index), Tangent::Register(tangent)),
            _ => _ = self.state.refs.insert((lane, reg.index), tangent),
        }
    }

    /// A row's place, which is the same in arrays of tangents. That these are as long is said here, so that their
    /// elements are known to be inside, too.
    fn row(&mut self, inst: &Inst) -> Result<(), Declined> {
        self.emit_own(inst)?;
        let [_, array, ..] = inst.narrow();
        let own = Reg::reference(self.register(Reg::reference(array))?);
        for lane in 0..self.lanes {
            if let Some(&tangents) = self.state.refs.get(&(lane, array)) {
                self.writer.emit(Op::SameLen, &[own, Reg::reference(tangents)].map(Operand::Use))?;
            }
        }
        Ok(())
    }

    /// Pushes the tangent of what was pushed, or puts it where that was put.
    fn element(&mut self, lane: usize, inst: &Inst) -> Result<(), Declined> {
        let mut operands = self.site.body.operands(inst).ok_or(Declined)?;
        let [Operand::Use(builder), between @ .., Operand::Use(element)] = &mut operands[..] else {
            return Err(Declined);
        };
        let varies = match element.bank {
            Bank::Real => self.state.reals.contains_key(&(lane, element.index)),
            Bank::Ref => self.state.refs.contains_key(&(lane, element.index)),
            Bank::Int => false,
        };
        match self.object_of(lane, builder.index) {
            Ok(tangents) => builder.index = tangents,
            Err(_) if varies => return Err(Declined),
            Err(_) => return Ok(()),
        }
        for operand in between {
            let Operand::Use(index) = operand else { return Err(Declined) };
            index.index = self.register(*index)?;
        }
        *element = self.beside_register(lane, *element, (true, false))?;
        self.writer.emit(inst.op, &operands)
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
            (false, true) => {
                let zero = Reg::real(self.writer.constant(Bank::Real, 0)?);
                self.writer
                    .array_like(own, self.type_of(array), self.site.builders.of(ValueType::Real)?, |_, _| Ok(zero))?
            }
            // Objects of zeros would have to be made.
            (false, false) => return Err(Declined),
        };
        let range = [Reg::int(self.register(Reg::int(from))?), Reg::int(self.register(Reg::int(to))?)];
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
    fn beside_register(&mut self, lane: usize, reg: Reg, (is_part, shaped): (bool, bool)) -> Result<Reg, Declined> {
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
