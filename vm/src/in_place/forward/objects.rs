//! Instructions that move numbers and make objects: they do the same to tangents.

use super::{Forward, Tangent};
use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg};
use crate::in_place::writer::{Copy, Declined};

impl Forward<'_, '_> {
    /// An instruction and what it does to tangents.
    pub(super) fn inst(&mut self, inst: &Inst) -> Result<(), Declined> {
        let is_constant = |bank: Bank| self.constants[bank as usize].contains_key(&inst.a);
        match inst.op {
            Op::Const if is_constant(Bank::Real) => return Ok(()),
            Op::IConst if is_constant(Bank::Int) => return Ok(()),
            op if op.is_scalar() => return self.scalar(inst),
            Op::Push | Op::IPush | Op::PPush => {
                self.emit_own(inst)?;
                return (0..self.lanes).try_for_each(|lane| self.push(lane, inst));
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
        for (lane, operands) in beside.into_iter().enumerate() {
            match reg.bank {
                Bank::Real => _ = self.state.reals.remove(&(lane, reg.index)),
                Bank::Ref => _ = self.state.refs.remove(&(lane, reg.index)),
                Bank::Int => {}
            }
            if let Some(mut operands) = operands {
                let to = self.tangent(lane, reg)?;
                operands[0] = Operand::Def(Reg { index: to, ..reg });
                self.writer.emit(inst.op, &operands)?;
                match reg.bank {
                    Bank::Real => _ = self.state.reals.insert((lane, reg.index), Tangent::Register(to)),
                    _ => _ = self.state.refs.insert((lane, reg.index), to),
                }
            }
        }
        Ok(())
    }

    /// Pushes the tangent of what was pushed.
    fn push(&mut self, lane: usize, inst: &Inst) -> Result<(), Declined> {
        let varies = match inst.op {
            Op::Push => self.state.reals.contains_key(&(lane, inst.b)),
            Op::PPush => self.state.refs.contains_key(&(lane, inst.b)),
            _ => false,
        };
        match self.object_of(lane, inst.a) {
            Ok(builder) => {
                let pushed = match inst.op {
                    Op::Push => Reg::real(self.normalised(lane, inst.b)?),
                    Op::IPush => Reg::int(self.writer.constant(Bank::Int, 0)?),
                    _ => Reg::reference(self.object_of(lane, inst.b)?),
                };
                self.writer.emit(inst.op, &[Operand::Use(Reg::reference(builder)), Operand::Use(pushed)])
            }
            Err(_) if varies => Err(Declined),
            Err(_) => Ok(()),
        }
    }

    /// The operands of what an instruction does to tangents; the register that it writes is still its own. `None` if it
    /// makes nothing that varies.
    fn beside(&mut self, lane: usize, inst: &Inst) -> Result<Option<Vec<Operand>>, Declined> {
        let mut operands = self.site.body.operands(inst).ok_or(Declined)?;
        let varies = |reg: &Reg, lane: usize, this: &Self| match reg.bank {
            Bank::Real => this.state.reals.contains_key(&(lane, reg.index)),
            Bank::Ref => this.state.refs.contains_key(&(lane, reg.index)),
            Bank::Int => false,
        };
        // Objects have tangents in all lanes or in none.
        let lanes = if inst.op == Op::Mov { lane..lane + 1 } else { 0..self.lanes };
        let any = lanes.into_iter().any(|lane| {
            operands.iter().any(|operand| match operand {
                Operand::Use(reg) => varies(reg, lane, self),
                Operand::Uses(regs) => regs.iter().any(|reg| varies(reg, lane, self)),
                _ => false,
            })
        });
        let makes = matches!(inst.op, Op::StructNew | Op::VariantNew | Op::Pack);
        let beside = match inst.op {
            Op::Build => self.activity.builders.contains(&inst.a),
            Op::Mov | Op::PMov | Op::PSelect | Op::Finish => any,
            Op::Field | Op::PField | Op::Payload | Op::PPayload | Op::Elem | Op::PElem => any,
            _ => makes && any,
        };
        if !beside {
            return Ok(None);
        }
        for operand in &mut operands[1..] {
            match operand {
                Operand::Use(reg) => *reg = self.beside_register(lane, *reg, makes)?,
                Operand::Uses(regs) => {
                    for reg in regs {
                        *reg = self.beside_register(lane, *reg, makes)?;
                    }
                }
                _ => {}
            }
        }
        Ok(Some(operands))
    }

    /// What stands beside an operand: its tangent, and integers as they are unless they are part of an object.
    fn beside_register(&mut self, lane: usize, reg: Reg, is_part: bool) -> Result<Reg, Declined> {
        let index = match reg.bank {
            Bank::Real if is_part => self.normalised(lane, reg.index)?,
            Bank::Real => self.tangent_of(lane, reg.index)?,
            Bank::Int if is_part => self.writer.constant(Bank::Int, 0)?,
            Bank::Int => self.register(reg)?,
            Bank::Ref => self.object_of(lane, reg.index)?,
        };
        Ok(Reg { index, ..reg })
    }

    /// The tangent of a real as objects hold it, without -0.0.
    fn normalised(&mut self, lane: usize, reg: u16) -> Result<u16, Declined> {
        match self.state.reals.get(&(lane, reg)) {
            Some(&Tangent::Register(from)) => {
                let to = self.writer.real()?;
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
