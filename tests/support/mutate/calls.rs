//! Mutations of calls, tasks, functions and signatures.

use super::Mutator;
use super::code::{edit, jump, new_reg, pack, reads_and_writes, regs_mut, set, splice, type_of};
use dualvm_vm::isa::{Bank, Inst, Op, Operand, Reg};
use dualvm_vm::module::{Body, Function, HostType, Interface, TypeDef, ValueType};

/// Functions of a module at most; more are not added.
const FUNCTIONS_MAX: usize = 40;

/// A call, a task and the like goes to another function, of the same signature if there is one.
pub(super) fn another_callee(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op.names_function())?;
    let functions = &this.def.functions;
    let signature = |function: &Function| (function.params.clone(), function.results.clone());
    let body = &functions[function].body;
    let operands = body.operands(&body.code[at])?;
    let callee = operands.iter().find_map(|operand| match operand {
        Operand::Func(func) => functions.get(*func as usize),
        _ => None,
    })?;
    let wanted = signature(callee);
    let any = this.dice.one_in(6);
    let numbers = (0..functions.len()).filter(|&n| any || signature(&functions[n]) == wanted);
    let numbers: Vec<u32> = numbers.map(|n| n as u32).collect();
    let other = this.pick(&numbers)?;
    edit(&mut this.def.functions[function].body, at, |operands| {
        operands.iter_mut().filter(|o| matches!(o, Operand::Func(_))).for_each(|o| *o = Operand::Func(other));
        Some(())
    })
}

fn fork(body: &mut Body, count: usize) -> Inst {
    pack(body, Op::Fork, &[Operand::Int(count as i64)])
}

/// A call becomes a fork of one task.
pub(super) fn fork_from_call(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Call)?;
    let body = &mut this.def.functions[function].body;
    body.code[at].op = Op::Task;
    let inst = fork(body, 1);
    splice(body, at..at, &[inst], true);
    Some(())
}

/// Two calls in a row become a fork, whether the second one needs what the first one returns or not.
pub(super) fn fork_from_calls(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Call)?;
    let body = &mut this.def.functions[function].body;
    let rest = at + 1..body.code.len().min(at + 12);
    let next = rest.clone().find(|&next| body.code[next].op == Op::Call)?;
    if rest.start < next && body.code[at..next].iter().any(|inst| inst.op.is_terminator()) {
        return None;
    }
    let mut second = body.code[next];
    second.op = Op::Task;
    splice(body, next..next + 1, &[], true);
    body.code[at].op = Op::Task;
    splice(body, at + 1..at + 1, &[second], false);
    let inst = fork(body, 2);
    splice(body, at..at, &[inst], true);
    Some(())
}

/// A fork becomes a jump, and its tasks calls.
pub(super) fn calls_from_fork(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Fork)?;
    let body = &mut this.def.functions[function].body;
    body.code[at] = jump(body, at + 1);
    body.code[at + 1..].iter_mut().take_while(|inst| inst.op == Op::Task).for_each(|inst| inst.op = Op::Call);
    Some(())
}

/// The number of tasks that follow a fork.
fn tasks(body: &Body, fork: usize) -> usize {
    body.code[fork + 1..].iter().take_while(|inst| inst.op == Op::Task).count()
}

/// A fork has copies of one of its tasks, each with results of its own.
pub(super) fn task_more(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Fork)?;
    let count = tasks(&this.def.functions[function].body, at);
    if count == 0 {
        return None;
    }
    let copied = at + 1 + this.dice.usize(..count);
    let more = if this.dice.one_in(8) { this.dice.usize(250..258) } else { this.dice.usize(1..4) };
    let body = &mut this.def.functions[function].body;
    let operands = body.operands(&body.code[copied])?;
    let mut new = Vec::new();
    for _ in 0..more {
        let mut operands = operands.clone();
        for operand in &mut operands {
            if let Operand::Defs(list) = operand {
                for reg in list {
                    let ty = type_of(body, *reg)?;
                    *reg = new_reg(body, ty);
                }
            }
        }
        new.push(body.pack(Op::Task, &operands).ok()?);
    }
    splice(body, copied + 1..copied + 1, &new, false);
    set(body, at, Op::Fork, &[Operand::Int((count + more) as i64)])
}

/// A fork says another number of tasks than it has, or a task is something else.
pub(super) fn tasks_miscounted(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| matches!(inst.op, Op::Fork | Op::Task))?;
    let body = &mut this.def.functions[function].body;
    if body.code[at].op == Op::Fork {
        let count = this.dice.pick(&[-1, 0, 1, 2, 3, 256, 257, i64::MAX, i64::MIN]);
        return set(body, at, Op::Fork, &[Operand::Int(count)]);
    }
    let inst = jump(body, at + 1);
    let replaced = if this.dice.bool() { at + 1 } else { at };
    splice(body, at..replaced, &[inst], true);
    Some(())
}

/// A call becomes a tail call; what followed it is dead.
pub(super) fn tail_call_from_call(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| matches!(inst.op, Op::Call | Op::CallClosure))?;
    let body = &mut this.def.functions[function].body;
    let mut operands = body.operands(&body.code[at])?;
    operands.pop();
    let op = if body.code[at].op == Op::Call { Op::TailCall } else { Op::TailCallClosure };
    set(body, at, op, &operands)
}

/// A tail call becomes a call whose results are returned.
pub(super) fn call_from_tail_call(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| matches!(inst.op, Op::TailCall | Op::TailCallClosure))?;
    let function = &mut this.def.functions[function];
    let body = &mut function.body;
    let results: Vec<Reg> = function.results.iter().map(|&ty| new_reg(body, ty)).collect();
    let mut operands = body.operands(&body.code[at])?;
    operands.push(Operand::Defs(results.clone()));
    let op = if body.code[at].op == Op::TailCall { Op::Call } else { Op::CallClosure };
    set(body, at, op, &operands)?;
    let ret = pack(body, Op::Ret, &[Operand::Uses(results)]);
    splice(body, at + 1..at + 1, &[ret], false);
    Some(())
}

/// Instructions in a row become a function that takes what they read and gives what they write.
pub(super) fn outlined(this: &mut Mutator<'_>) -> Option<()> {
    let (function, range) = this.straight(16)?;
    if this.def.functions.len() >= FUNCTIONS_MAX {
        return None;
    }
    let func = this.def.functions.len() as u32;
    let body = &mut this.def.functions[function].body;
    let (mut params, mut results): (Vec<Reg>, Vec<Reg>) = (Vec::new(), Vec::new());
    for at in range.clone() {
        let (reads, writes) = reads_and_writes(body, &body.code[at]);
        for reg in reads {
            if !params.contains(&reg) && !results.contains(&reg) {
                params.push(reg);
            }
        }
        results.extend(writes.iter().filter(|reg| !results.contains(reg)).copied().collect::<Vec<_>>());
    }
    let types = |regs: &[Reg]| regs.iter().map(|&reg| type_of(body, reg)).collect::<Option<Vec<ValueType>>>();
    let mut new = Function {
        name: format!("outlined{func}"),
        params: types(&params)?,
        results: types(&results)?,
        interface: None,
        body: Body::default(),
    };
    // Each register's place in the new function: parameters first.
    let mut places: Vec<(Reg, Reg)> = Vec::new();
    for &reg in params.iter().chain(&results) {
        if !places.iter().any(|(known, _)| *known == reg) {
            let ty = type_of(body, reg)?;
            places.push((reg, new_reg(&mut new.body, ty)));
        }
    }
    let place = |reg: Reg| places.iter().find(|(known, _)| *known == reg).map_or(reg, |(_, place)| *place);
    for at in range.clone() {
        let mut operands = body.operands(&body.code[at])?;
        regs_mut(&mut operands).into_iter().for_each(|reg| *reg = place(*reg));
        new.body.push(body.code[at].op, &operands).ok()?;
    }
    let returned = results.iter().map(|&reg| place(reg)).collect();
    new.body.push(Op::Ret, &[Operand::Uses(returned)]).ok()?;
    let call = pack(body, Op::Call, &[Operand::Func(func), Operand::Uses(params), Operand::Defs(results)]);
    splice(body, range, &[call], true);
    this.def.functions.push(new);
    Some(())
}

/// A function is there twice, and one of its calls goes to the copy.
pub(super) fn function_copied(this: &mut Mutator<'_>) -> Option<()> {
    let copied = this.function()?;
    if this.def.functions.len() >= FUNCTIONS_MAX {
        return None;
    }
    let number = this.def.functions.len() as u32;
    let mut copy = this.def.functions[copied].clone();
    copy.name = format!("{} {number}", copy.name);
    this.def.functions.push(copy);
    let names = |function: &Function, inst: &Inst| {
        inst.op.names_function()
            && function.body.operands(inst).is_some_and(|o| o.contains(&Operand::Func(copied as u32)))
    };
    let Some((function, at)) = this.place_of(names) else { return Some(()) };
    edit(&mut this.def.functions[function].body, at, |operands| {
        let func = operands.iter_mut().find(|operand| **operand == Operand::Func(copied as u32));
        *func? = Operand::Func(number);
        Some(())
    })
}

/// Two functions change places; calls keep their numbers.
pub(super) fn functions_swapped(this: &mut Mutator<'_>) -> Option<()> {
    let (a, b) = (this.function()?, this.function()?);
    this.def.functions.swap(a, b);
    (a != b).then_some(())
}

/// A function gets one more parameter, a number, and all calls one more argument.
pub(super) fn parameter_more(this: &mut Mutator<'_>) -> Option<()> {
    let changed = this.function()?;
    let ty = this.dice.pick(&[ValueType::Real, ValueType::Int]);
    let function = &mut this.def.functions[changed];
    function.params.push(ty);
    let of_bank = function.params.iter().filter(|param| param.bank() == ty.bank()).count() as u32;
    let count = if ty == ValueType::Real { &mut function.body.reals } else { &mut function.body.ints };
    *count = (*count).max(of_bank);
    if let Some(interface) = &mut function.interface {
        let host = if ty == ValueType::Real { HostType::Real } else { HostType::Int };
        interface.params.push((format!("more {}", interface.params.len()), host));
    }
    for caller in 0..this.def.functions.len() {
        for at in 0..this.def.functions[caller].body.code.len() {
            let body = &this.def.functions[caller].body;
            let inst = body.code[at];
            if !inst.op.names_function() || inst.op == Op::ClosureNew {
                continue;
            }
            let Some(operands) = body.operands(&inst) else { continue };
            if !operands.contains(&Operand::Func(changed as u32)) {
                continue;
            }
            let arg = this.readable(caller, at, ty).unwrap_or(Reg { bank: ty.bank(), index: 0 });
            edit(&mut this.def.functions[caller].body, at, |operands| {
                let list = operands.iter_mut().find_map(|operand| match operand {
                    Operand::Uses(list) => Some(list),
                    _ => None,
                })?;
                list.push(arg);
                Some(())
            })?;
        }
    }
    Some(())
}

/// The types of a function's parameters or results change, and nothing else does.
pub(super) fn signature_changed(this: &mut Mutator<'_>) -> Option<()> {
    let function = this.function()?;
    let mut choices = vec![ValueType::Real, ValueType::Int];
    choices.extend((0..this.def.types.len() as u32).map(|id| ValueType::Ref(dualvm_vm::module::TypeId(id))));
    let ty = this.dice.pick(&choices);
    let function = &mut this.def.functions[function];
    let list = if this.dice.bool() { &mut function.params } else { &mut function.results };
    match this.dice.u8(..4) {
        0 => list.push(ty),
        1 => drop(list.pop()?),
        2 if !list.is_empty() => {
            let (a, b) = (this.dice.usize(..list.len()), this.dice.usize(..list.len()));
            list.swap(a, b);
        }
        _ => *list.last_mut()? = ty,
    }
    if this.dice.bool() {
        // What a host can call fits again, if it can be called at all.
        let types = &this.def.types;
        let function = &mut *function;
        function.interface = interface_of(function, types);
    }
    Some(())
}

/// An interface of numbers and arrays of numbers.
fn interface_of(function: &Function, types: &[TypeDef]) -> Option<Interface> {
    let host = |ty: &ValueType| match ty {
        ValueType::Real => Some(HostType::Real),
        ValueType::Int => Some(HostType::Int),
        ValueType::Ref(id) => match types.get(id.index())? {
            TypeDef::Array(element) if element.bank() != Bank::Ref => {
                let element = if element.bank() == Bank::Real { HostType::Real } else { HostType::Int };
                Some(HostType::Array { element: Box::new(element), array: *id })
            }
            _ => None,
        },
    };
    let params = function.params.iter().enumerate().map(|(n, ty)| Some((format!("x{n}"), host(ty)?)));
    let mut results = function.results.iter().map(host).collect::<Option<Vec<HostType>>>()?;
    let result = if results.len() == 1 { results.remove(0) } else { HostType::Tuple(results) };
    Some(Interface { params: params.collect::<Option<_>>()?, result })
}
