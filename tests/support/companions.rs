//! Functions that apply a derivative operator to another one of their module.

use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{Body, Function, HostType, Interface, ModuleDef, ValueType};

/// Registers by bank, given out one after the other.
#[derive(Default)]
struct Registers {
    body: Body,
}

impl Registers {
    fn one(&mut self, ty: ValueType) -> Reg {
        match ty {
            ValueType::Real => {
                self.body.reals += 1;
                Reg::real(self.body.reals as u16 - 1)
            }
            ValueType::Int => {
                self.body.ints += 1;
                Reg::int(self.body.ints as u16 - 1)
            }
            ValueType::Ref(id) => {
                self.body.refs.push(id);
                Reg::reference(self.body.refs.len() as u16 - 1)
            }
        }
    }

    fn all(&mut self, types: &[ValueType]) -> Vec<Reg> {
        types.iter().map(|&ty| self.one(ty)).collect()
    }
}

/// Whether operators have a tangent for values of this type.
pub(crate) fn has_tangent(ty: &ValueType) -> bool {
    ty.bank() != Bank::Int
}

/// A function that applies an operator to the n-th one. Its own parameters are those of that one, and then tangents, or
/// cotangents of all results but the first, for which it is 1. `kept` says which results it returns, by number and by
/// how many the other function has.
pub(crate) fn companion(
    module: &mut ModuleDef,
    name: &str,
    (op, func): (Op, usize),
    kept: impl Fn(usize, usize) -> bool,
) -> usize {
    let Function { params, results, interface, .. } = module.functions[func].clone();
    let interface = interface.expect("what has companions is exported");
    let with_tangents = |types: &[ValueType]| types.iter().copied().filter(has_tangent).collect::<Vec<_>>();
    let mut registers = Registers::default();
    let args = registers.all(&params);
    let (more, given_back) = match op {
        Op::Jvp => (with_tangents(&params), with_tangents(&results)),
        _ => (with_tangents(&results[1..]), with_tangents(&params)),
    };
    let mut uses = args;
    let given = registers.all(&more);
    if op == Op::Vjp {
        let cotangent = registers.one(ValueType::Real);
        let one = [Operand::Def(cotangent), Operand::Real(1.0)];
        registers.body.push(Op::Const, &one).expect("the operands fit");
        uses.push(cotangent);
    }
    uses.extend(given);
    let defs = [registers.all(&results), registers.all(&given_back)].concat();
    let operands = [Operand::Func(func as u32), Operand::Count(0), Operand::Uses(uses), Operand::Defs(defs.clone())];
    let mut body = registers.body;
    body.push(op, &operands).expect("the operands fit");
    let types = [results.clone(), given_back].concat();
    let kept: Vec<usize> = (0..types.len()).filter(|&n| kept(n, results.len())).collect();
    let returned = kept.iter().map(|&n| defs[n]).collect();
    body.push(Op::Ret, &[Operand::Uses(returned)]).expect("the operands fit");
    // The parameters of each interface are single registers.
    let hosts: Vec<HostType> = interface.params.iter().map(|(_, ty)| ty.clone()).collect();
    let derivatives = || hosts.iter().zip(&params).filter(|(_, ty)| has_tangent(ty)).map(|(host, _)| host.clone());
    let own: Vec<HostType> = match &interface.result {
        HostType::Tuple(parts) => parts.clone(),
        single => vec![single.clone()],
    };
    let all: Vec<HostType> = match op {
        Op::Jvp => [own.clone(), own.clone()].concat(),
        _ => own.iter().cloned().chain(derivatives()).collect(),
    };
    let result = match kept.len() {
        1 => all[kept[0]].clone(),
        _ => HostType::Tuple(kept.iter().map(|&n| all[n].clone()).collect()),
    };
    let given: Vec<HostType> = match op {
        Op::Jvp => derivatives().collect(),
        _ => own[1..].to_vec(),
    };
    let mut taken: Vec<(String, HostType)> = interface.params;
    taken.extend(given.into_iter().enumerate().map(|(n, host)| (format!("{name}{n}"), host)));
    module.functions.push(Function {
        name: name.to_owned(),
        params: [params, more].concat(),
        results: kept.iter().map(|&n| types[n]).collect(),
        interface: Some(Interface { params: taken, result }),
        body,
    });
    module.functions.len() - 1
}
