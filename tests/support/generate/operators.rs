//! Derivative operators on calls of the program's functions: with captures or without, in each other by way of what
//! they call, as deep as the counter lets calls nest.

use super::Writer;
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::ValueType;

impl Writer<'_> {
    /// Whether values of this type may be or lead to functions.
    fn leads_to_function(&self, ty: ValueType) -> bool {
        let types = self.types;
        let all = [types.closures[0], types.closures[1], types.closure_box, types.holder, types.handlers];
        matches!(ty, ValueType::Ref(id) if all.contains(&id))
    }

    /// Whether values of this type are under construction.
    fn is_chain(&self, ty: ValueType) -> bool {
        self.types.chains.iter().any(|kind| kind.ty() == ty)
    }

    /// A call of some function by an operator.
    pub(super) fn operator(&mut self) {
        let op = self.dice.pick(&[Op::Jvp, Op::Jvp, Op::Vjp, Op::Vjp, Op::Checkpoint, Op::Primal]);
        let signatures = self.signatures;
        let fits = |func: &usize| {
            let (params, results) = (&signatures[*func].params, &signatures[*func].results);
            let known = params.iter().chain(results).all(|&ty| !self.is_chain(ty));
            // Of what shape an object will be that a call returns, nobody knows before.
            let pulled = op != Op::Vjp || results.iter().all(|ty| !matches!(ty, ValueType::Ref(_)));
            known && pulled && results.iter().all(|&ty| !self.leads_to_function(ty))
        };
        // `main` fits.
        let all: Vec<usize> = (0..signatures.len()).filter(fits).collect();
        let func = self.dice.pick(&all);
        let (params, results) = (signatures[func].params.clone(), signatures[func].results.clone());
        let least = params.iter().rposition(|&ty| self.leads_to_function(ty)).map_or(0, |last| last + 1);
        let captures = if self.one_in(3) { self.dice.usize(least..=params.len()) } else { least };
        let mut uses = self.arguments(&params);
        let has_tangent = |ty: &ValueType| *ty != ValueType::Int;
        let (given, found): (Vec<Reg>, Vec<ValueType>) = match op {
            Op::Jvp => {
                let args: Vec<(ValueType, Reg)> = params.iter().copied().zip(uses.iter().copied()).collect();
                let moving = args[captures..].iter().filter(|(ty, _)| has_tangent(ty));
                // An object is a tangent of itself: it has the shape, and reals in the places of reals.
                let tangents = moving.map(|&(ty, arg)| if ty == ValueType::Real { self.from(ty) } else { arg });
                (tangents.collect(), results.iter().copied().filter(has_tangent).collect())
            }
            Op::Vjp => {
                let cotangents: Vec<ValueType> = results.iter().copied().filter(has_tangent).collect();
                (self.list(&cotangents), params[captures..].iter().copied().filter(has_tangent).collect())
            }
            _ => Default::default(),
        };
        uses.extend(given);
        let defs = self.result_registers(&[results, found].concat());
        self.note(op.info().mnemonic);
        let mut operands = vec![Operand::Func(func as u32)];
        operands.extend((op != Op::Checkpoint).then_some(Operand::Count(captures as u16)));
        operands.extend([Operand::Uses(uses), Operand::Defs(defs.clone())]);
        self.out.emit(op, &operands);
        self.assigned.extend(defs);
    }
}
