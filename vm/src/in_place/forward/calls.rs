//! Calls: of functions with tangents, where anything varies that they are given.

use super::{Bank, End, Forward, FuncId, GivenTangent, HashMap, Inst, Op, Operand, Reg, Signature, Site, ValueType};
use super::{Declined, gives_reals_only};
use crate::in_place::writer::{Copy, Writer};

/// Whether an instruction is a call that becomes one of a function with tangents.
pub(crate) fn is_call(op: Op) -> bool {
    matches!(op, Op::Call | Op::TailCall | Op::Checkpoint)
}

/// Writes a `jvp` as a call of a function with tangents.
pub(crate) fn write_call(writer: &mut Writer, site: &Site<'_>, func: FuncId) -> Result<(), Declined> {
    let given_back = |ty: &ValueType| !matches!(ty, ValueType::Ref(id) if !gives_reals_only(site, *id));
    if !site.callee.results.iter().all(given_back) {
        return Err(Declined);
    }
    let params = site.callee.params.len();
    let mut varied = vec![false; params];
    let mut args = site.args[..params].to_vec();
    for given in GivenTangent::all(site)? {
        given.check_shape(writer, site)?;
        let is_zero = site.constant(given.tangent).is_some_and(|bits| f64::from_bits(bits) == 0.0);
        if site.types.hold_reals(given.ty) && !is_zero {
            varied[given.parameter] = true;
            args.push(given.as_given_back(writer, site)?);
        }
    }
    let signature = Signature { func, captures: 0, varied: varied.into(), lanes: 1, whole: false };
    let function = site.functions.borrow_mut().number(signature)?;
    let (values, tangents) = site.results.split_at(site.callee.results.len());
    let mut results = values.to_vec();
    let mut copies = Vec::new();
    let given = site.callee.results.iter().filter(|&&ty| ty != ValueType::Int);
    for (ty, &to) in given.zip(tangents) {
        match *ty {
            ValueType::Ref(_) => results.push(to),
            _ => {
                let from = Reg::real(writer.real()?);
                results.push(from);
                copies.push(Copy::derivative(to, from));
            }
        }
    }
    writer.emit(Op::Call, &[Operand::Func(function.0), Operand::Uses(args), Operand::Defs(results)])?;
    writer.copy(&copies)
}

impl Forward<'_, '_> {
    /// A call and what it does to tangents.
    pub(super) fn call(&mut self, inst: &Inst) -> Result<(), Declined> {
        let operands = self.site.body.operands(inst).ok_or(Declined)?;
        let called = match &operands[..] {
            [Operand::Func(func), Operand::Uses(args), Operand::Defs(results)] => {
                self.with_tangents(FuncId(*func), args)?.map(|called| (called, results.clone()))
            }
            _ => None,
        };
        let Some(((function, args), results)) = called else {
            return self.unvaried(inst);
        };
        let mut given = Vec::new();
        for &reg in &results {
            given.push(Reg { index: self.register(reg)?, ..reg });
        }
        let mut tangents = Vec::new();
        let with_tangents: Vec<Reg> = results.iter().copied().filter(|&reg| self.holds_reals(reg)).collect();
        for lane in 0..self.lanes {
            for &reg in &with_tangents {
                if !self.is_in_lane(lane, reg) {
                    continue;
                }
                let tangent = self.tangent(lane, reg)?;
                given.push(Reg { index: tangent, ..reg });
                tangents.push((lane, reg, tangent));
            }
        }
        self.writer.emit(inst.op, &[Operand::Func(function.0), Operand::Uses(args), Operand::Defs(given)])?;
        tangents.into_iter().for_each(|(lane, reg, tangent)| self.note_tangent(lane, reg, tangent));
        Ok(())
    }

    /// A call that is given nothing that varies.
    fn unvaried(&mut self, inst: &Inst) -> Result<(), Declined> {
        self.emit_own(inst)?;
        let mut written = Vec::new();
        self.site.body.for_each_reg(inst, |reg, def| written.extend(def.then_some(reg)));
        for lane in 0..self.lanes {
            written.iter().for_each(|&reg| self.forget(lane, reg));
        }
        Ok(())
    }

    fn register_varies(&self, reg: &Reg) -> bool {
        match reg.bank {
            Bank::Real => self.varies(reg.index),
            Bank::Ref => self.state.refs.contains_key(&(0, reg.index)),
            Bank::Int => false,
        }
    }

    /// The function with tangents that is called in place of one, and what it is given; `None` if nothing of that
    /// varies.
    fn with_tangents(&mut self, func: FuncId, args: &[Reg]) -> Result<Option<(FuncId, Vec<Reg>)>, Declined> {
        let varied: Box<[bool]> = args.iter().map(|reg| self.register_varies(reg)).collect();
        if !varied.contains(&true) {
            return Ok(None);
        }
        let mut given = Vec::new();
        for &reg in args {
            given.push(Reg { index: self.register(reg)?, ..reg });
        }
        for lane in 0..self.lanes {
            for (&reg, _) in args.iter().zip(&varied).filter(|(_, varies)| **varies) {
                if !self.is_in_lane(lane, reg) {
                    continue;
                }
                let tangent = match reg.bank {
                    Bank::Real => self.tangent_of(lane, reg.index)?,
                    _ => self.object_of(lane, reg.index)?,
                };
                given.push(Reg { index: tangent, ..reg });
            }
        }
        let signature = Signature { func, captures: 0, varied, lanes: self.lanes, whole: false };
        let function = self.site.functions.borrow_mut().number(signature)?;
        Ok(Some((function, given)))
    }

    /// A `vjp` and what it does to tangents.
    ///
    /// With x̄ = Jᵀȳ for y = f x, the tangent of x̄ is that of the gradient of ⟨ȳ, f x⟩. Let F be f with tangents. The
    /// gradient of ⟨ẏ, ȳ⟩ + ⟨y, ȳ_tan⟩ by x is this tangent, and by ẋ it is x̄: one `vjp` of F gives both. So there
    /// is one tape, of ordinary code.
    pub(super) fn vjp(&mut self, inst: &Inst) -> Result<(), Declined> {
        let operands = self.site.body.operands(inst).ok_or(Declined)?;
        let [Operand::Func(func), Operand::Count(captures), Operand::Uses(uses), Operand::Defs(defs)] = &operands[..]
        else {
            return Err(Declined);
        };
        if !uses.iter().any(|reg| self.register_varies(reg)) {
            return self.unvaried(inst);
        }
        let captures = usize::from(*captures);
        let is_real_or_object = |reg: &&Reg| reg.bank != Bank::Int;
        // Cotangents are as many as the results that have some; what is left of each list are these results, and the
        // cotangents of arguments.
        let results = self.site.functions.borrow().result_count(self.site.module, FuncId(*func))?;
        let (values, gradients) = defs.split_at_checked(results).ok_or(Declined)?;
        let cotangent_count = values.iter().filter(is_real_or_object).count();
        let params = uses.len().checked_sub(cotangent_count).ok_or(Declined)?;
        let (args, cotangents) = uses.split_at(params);
        let (captured, args) = args.split_at_checked(captures).ok_or(Declined)?;

        let mut varied: Vec<bool> = captured.iter().map(|reg| self.register_varies(reg)).collect();
        varied.extend(args.iter().map(|&reg| self.holds_reals(reg)));
        let signature =
            Signature { func: FuncId(*func), captures, varied: varied.clone().into(), lanes: 1, whole: false };
        let function = self.site.functions.borrow_mut().number(signature)?;

        let mut given = Vec::new();
        for (group, varied) in [(captured, &varied[..captures]), (args, &varied[captures..])] {
            for &reg in group {
                given.push(Reg { index: self.register(reg)?, ..reg });
            }
            for (&reg, _) in group.iter().zip(varied).filter(|(_, varied)| **varied) {
                given.push(self.tangent_register(reg)?);
            }
        }
        let captures = captures + varied[..captures].iter().filter(|varied| **varied).count();
        for &reg in cotangents {
            let holds = self.holds_reals(reg);
            given.push(if holds { self.tangent_register(reg)? } else { Reg { index: self.register(reg)?, ..reg } });
        }
        for &reg in cotangents {
            if self.holds_reals(reg) {
                given.push(Reg { index: self.register(reg)?, ..reg });
            }
        }

        let mut taken = Vec::new();
        let mut tangents = Vec::new();
        let own = |this: &mut Self, reg: Reg| this.register(reg).map(|index| Reg { index, ..reg });
        let mut tangent = |this: &mut Self, reg: Reg| {
            let index = this.tangent(0, reg)?;
            tangents.push((reg, index));
            Ok(Reg { index, ..reg })
        };
        for &reg in values {
            taken.push(own(self, reg)?);
        }
        for &reg in values {
            if self.holds_reals(reg) {
                taken.push(tangent(self, reg)?);
            }
        }
        for &reg in gradients {
            taken.push(if self.holds_reals(reg) { tangent(self, reg)? } else { own(self, reg)? });
        }
        for &reg in gradients {
            if self.holds_reals(reg) {
                taken.push(own(self, reg)?);
            }
        }
        let captures = u16::try_from(captures).map_err(|_| Declined)?;
        let operands =
            [Operand::Func(function.0), Operand::Count(captures), Operand::Uses(given), Operand::Defs(taken)];
        self.writer.emit(Op::Vjp, &operands)?;
        tangents.into_iter().for_each(|(reg, index)| self.note_tangent(0, reg, index));
        Ok(())
    }

    /// The register of a tangent. Of an object, there has to be one.
    fn tangent_register(&mut self, reg: Reg) -> Result<Reg, Declined> {
        let index = match reg.bank {
            Bank::Real => self.tangent_of(0, reg.index)?,
            _ => self.object_of(0, reg.index)?,
        };
        Ok(Reg { index, ..reg })
    }

    /// A call that the function ends with.
    pub(super) fn tail_call(&mut self, inst: &Inst) -> Result<(), Declined> {
        let End::Function { whole } = self.end else { return Err(Declined) };
        let operands = self.site.body.operands(inst);
        let Some([Operand::Func(func), Operand::Uses(args)]) = operands.as_deref() else { return Err(Declined) };
        let types = &self.site.callee.results;
        let called = self.with_tangents(FuncId(*func), args)?;
        if let (Some((function, args)), false) = (&called, whole) {
            return self.writer.emit(Op::TailCall, &[Operand::Func(function.0), Operand::Uses(args.clone())]);
        }
        // It gives less than this function does, or in another form.
        let varies = called.is_some();
        let (function, args) = match called {
            Some(called) => called,
            None => {
                let mut given = Vec::new();
                for &reg in args {
                    given.push(Reg { index: self.register(reg)?, ..reg });
                }
                (FuncId(*func), given)
            }
        };
        let mut values = Vec::new();
        for &ty in types {
            values.push(self.fresh_of(ty)?);
        }
        let (mut results, mut returned, mut copies) = (values.clone(), values.clone(), Vec::new());
        // By the results that they belong to.
        let mut interleaved: HashMap<Reg, Reg> = HashMap::new();
        for _ in 0..self.lanes {
            for (&ty, &value) in types.iter().zip(&values).filter(|(ty, _)| **ty != ValueType::Int) {
                let holds = self.site.types.hold_reals(ty);
                if varies && self.lanes > 1 && self.site.types.is_array_of_reals(ty) {
                    let tangents = match interleaved.get(&value) {
                        Some(&tangents) => tangents,
                        None => {
                            let tangents = self.fresh_of(ty)?;
                            results.push(tangents);
                            *interleaved.entry(value).or_insert(tangents)
                        }
                    };
                    returned.push(tangents);
                } else if varies && holds {
                    let tangent = self.fresh_of(ty)?;
                    results.push(tangent);
                    returned.push(tangent);
                    copies.extend((whole && ty == ValueType::Real).then_some(Copy::derivative(tangent, tangent)));
                } else if ty == ValueType::Real {
                    returned.push(Reg::real(self.writer.constant(Bank::Real, 0)?));
                } else if holds {
                    return Err(Declined);
                } else if whole {
                    returned.push(value);
                }
            }
        }
        self.writer.emit(Op::Call, &[Operand::Func(function.0), Operand::Uses(args), Operand::Defs(results)])?;
        copies.iter().try_for_each(|&copy| self.writer.copy(&[copy]))?;
        self.writer.emit(Op::Ret, &[Operand::Uses(returned)])
    }

    fn fresh_of(&mut self, ty: ValueType) -> Result<Reg, Declined> {
        Ok(match ty {
            ValueType::Real => Reg::real(self.writer.real()?),
            ValueType::Int => Reg::int(self.writer.int()?),
            ValueType::Ref(id) => Reg::reference(self.writer.reference(id)?),
        })
    }

    /// Returns values and their tangents from a function that gives both.
    pub(super) fn return_from_function(&mut self, values: &[Reg], whole: bool) -> Result<(), Declined> {
        let mut returned = Vec::new();
        for &reg in values {
            returned.push(Reg { index: self.register(reg)?, ..reg });
        }
        for lane in 0..self.lanes {
            for &reg in values {
                if !whole && !self.is_in_lane(lane, reg) {
                    continue;
                }
                let tangent = match reg.bank {
                    Bank::Int => continue,
                    Bank::Real if whole => self.normalised(lane, reg.index)?,
                    Bank::Real => self.tangent_of(lane, reg.index)?,
                    Bank::Ref if self.holds_reals(reg) => self.object_of(lane, reg.index)?,
                    Bank::Ref if whole => self.register(reg)?,
                    Bank::Ref => continue,
                };
                returned.push(Reg { index: tangent, ..reg });
            }
        }
        self.writer.emit(Op::Ret, &[Operand::Uses(returned)])
    }
}
