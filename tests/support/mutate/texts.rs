//! Mutations of texts with values, and whole programs with traces in them.

use super::code::{assigned_before, new_reg, pack, set, splice, type_of};
use super::{Dice, INSTRUCTIONS_MAX, Mutator};
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::{Body, FuncId, Function, HostType, ModuleDef, Piece, Template, TypeDef, TypeId, ValueType};

/// The types that the text of an instruction at this place may show, with registers that hold something there.
fn shown(def: &ModuleDef, function: &Function, at: usize, dice: &mut Dice) -> Vec<(HostType, Reg)> {
    let mut regs = assigned_before(function, at);
    regs.truncate(65_000);
    let wanted = dice.usize(0..4).min(regs.len());
    let some = (0..wanted).map(|_| dice.pick(&regs)).collect::<Vec<_>>();
    some.into_iter().filter_map(|reg| Some((host_type(def, type_of(&function.body, reg)?)?, reg))).collect()
}

/// What hosts see in a register of this type, of those types that say it themselves.
fn host_type(def: &ModuleDef, ty: ValueType) -> Option<HostType> {
    let id = match ty {
        ValueType::Real => return Some(HostType::Real),
        ValueType::Int => return Some(HostType::Int),
        ValueType::Ref(id) => id,
    };
    let scalar = |ty: &ValueType| match ty {
        ValueType::Real => Some(HostType::Real),
        ValueType::Int => Some(HostType::Int),
        ValueType::Ref(_) => None,
    };
    match def.types.get(id.index())? {
        TypeDef::Array(element) => Some(HostType::Array { element: Box::new(scalar(element)?), array: id }),
        TypeDef::Variant(variants) => {
            let [nil, cons] = &variants[..] else { return None };
            let (tail, element) = cons.fields.split_last()?;
            let mut element = element.iter().map(scalar).collect::<Option<Vec<HostType>>>()?;
            let element = if element.len() == 1 { element.remove(0) } else { HostType::Tuple(element) };
            let list = HostType::List { element: Box::new(element), list: id };
            (nil.fields.is_empty() && *tail == ValueType::Ref(id)).then_some(list)
        }
        _ => None,
    }
}

/// A text of these values in some order of pieces; `by` may make them of the registers.
fn template(def: &mut ModuleDef, values: &[(HostType, Reg)], by: bool, dice: &mut Dice) -> Operand {
    let mut pieces = Vec::new();
    for (ty, _) in values {
        if dice.bool() {
            pieces.push(Piece::Text(dice.pick(&["x = ", "{", "}\n", ", ", "λ"]).into()));
        }
        pieces.push(Piece::Value(ty.clone()));
    }
    let types: Vec<ValueType> = values.iter().flat_map(|(ty, _)| ty.flatten(&def.data)).collect();
    let func = by.then(|| {
        let name = format!("shown {}", def.functions.len());
        def.functions.push(maker(name, &types, dice));
        FuncId(def.functions.len() as u32 - 1)
    });
    let template = Template { pieces, func };
    let known = def.templates.iter().position(|other| *other == template);
    let number = known.unwrap_or_else(|| {
        def.templates.push(template);
        def.templates.len() - 1
    });
    Operand::Template(number as u32)
}

/// A function that makes values of registers of the same types: itself with other numbers, unless it traps.
fn maker(name: String, types: &[ValueType], dice: &mut Dice) -> Function {
    let mut body = Body::default();
    let regs: Vec<Reg> = types.iter().map(|&ty| new_reg(&mut body, ty)).collect();
    let three = new_reg(&mut body, ValueType::Int);
    let constant = if dice.one_in(8) { 0 } else { 3 };
    let mut code = vec![pack(&mut body, Op::IConst, &[Operand::Def(three), Operand::Int(constant)])];
    for (&ty, &reg) in types.iter().zip(&regs) {
        let (op, other) = match ty {
            ValueType::Real => (Op::Mul, reg),
            ValueType::Int => (Op::IRem, three),
            ValueType::Ref(_) => continue,
        };
        code.push(pack(&mut body, op, &[Operand::Def(reg), Operand::Use(reg), Operand::Use(other)]));
    }
    code.push(pack(&mut body, Op::Ret, &[Operand::Uses(regs.clone())]));
    body.code = code;
    Function { name, params: types.to_vec(), results: types.to_vec(), interface: None, body }
}

/// Puts a trace of what is known there before an instruction that isn't a task of a fork.
fn trace_before(def: &mut ModuleDef, function: usize, at: usize, by: bool, dice: &mut Dice) -> Option<()> {
    if def.functions[function].body.code.get(at)?.op == Op::Task {
        return None;
    }
    let values = shown(def, &def.functions[function], at, dice);
    let template = template(def, &values, by, dice);
    let regs = values.iter().map(|(_, reg)| *reg).collect();
    let body = &mut def.functions[function].body;
    let trace = body.pack(Op::Trace, &[template, Operand::Uses(regs)]).ok()?;
    splice(body, at..at, &[trace], dice.bool());
    Some(())
}

/// The same program with traces between its instructions, one in `every`, which change nothing that it computes; `by`
/// some with functions that make the values.
pub(crate) fn with_traces(def: &ModuleDef, every: usize, by: bool, dice: &mut Dice) -> ModuleDef {
    let mut def = def.clone();
    for function in 0..def.functions.len() {
        for at in (0..def.functions[function].body.code.len()).rev() {
            if dice.usize(..every) == 0 {
                let by = by && dice.one_in(3);
                let _ = trace_before(&mut def, function, at, by, dice);
            }
        }
    }
    def
}

/// A trace of what is known somewhere.
pub(super) fn trace_more(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.gap()?;
    let by = this.dice.one_in(3);
    trace_before(&mut this.def, function, at, by, this.dice)
}

/// A trap says what is known there.
pub(super) fn trap_with_values(this: &mut Mutator<'_>) -> Option<()> {
    let (function, at) = this.place_of(|_, inst| inst.op == Op::Trap)?;
    let values = shown(&this.def, &this.def.functions[function], at, this.dice);
    let by = this.dice.one_in(3);
    let template = template(&mut this.def, &values, by, this.dice);
    let regs = values.iter().map(|(_, reg)| *reg).collect();
    set(&mut this.def.functions[function].body, at, Op::TrapWith, &[template, Operand::Uses(regs)])
}

/// A text has other pieces, or another function makes its values, or there is one more.
pub(super) fn template_changed(this: &mut Mutator<'_>) -> Option<()> {
    let functions = this.def.functions.len() as u32;
    let dice = &mut *this.dice;
    let func = (!dice.one_in(3)).then(|| FuncId(dice.u32(..=functions)));
    let ty = match dice.u8(..6) {
        0 => HostType::Real,
        1 => HostType::Int,
        2 => HostType::Bool,
        3 => HostType::Tuple(vec![HostType::Int, HostType::Real]),
        4 => HostType::Array { element: Box::new(HostType::Real), array: TypeId(dice.u32(..8)) },
        _ => HostType::Data { name: "D".into(), data: dualvm_vm::module::DataId(dice.u32(..3)) },
    };
    let which = dice.usize(..=this.def.templates.len());
    let Some(template) = this.def.templates.get_mut(which) else {
        this.def.templates.push(Template { pieces: vec![Piece::Value(ty)], func: None });
        return Some(());
    };
    let piece = dice.usize(..=template.pieces.len());
    match dice.u8(..5) {
        0 => template.func = func,
        1 if piece < template.pieces.len() => drop(template.pieces.remove(piece)),
        2 => template.pieces.insert(piece, Piece::Value(ty)),
        3 => template.pieces.insert(piece, Piece::Text("; \"".into())),
        _ => *template.pieces.get_mut(piece)? = Piece::Value(ty),
    }
    Some(())
}

/// An exported function has a traced twin: itself with traces, or another function.
pub(super) fn twin_more(this: &mut Mutator<'_>) -> Option<()> {
    let exported = |function: &Function| function.interface.is_some() || function.params.is_empty();
    let places: Vec<usize> = (0..this.def.functions.len()).filter(|&n| exported(&this.def.functions[n])).collect();
    let of = this.pick(&places)?;
    let twin = if this.dice.one_in(4) {
        this.function()?
    } else {
        if this.def.functions[of].body.code.len() > INSTRUCTIONS_MAX {
            return None;
        }
        let name = format!("{}.traced {}", this.def.functions[of].name, this.def.functions.len());
        let twin = Function { name, interface: None, ..this.def.functions[of].clone() };
        this.def.functions.push(twin);
        let twin = this.def.functions.len() - 1;
        for _ in 0..this.dice.usize(1..4) {
            let at = this.dice.usize(..this.def.functions[twin].body.code.len());
            let _ = trace_before(&mut this.def, twin, at, false, this.dice);
        }
        twin
    };
    let traced = &mut this.def.traced;
    let (of, twin) = (FuncId(of as u32), FuncId(twin as u32));
    let at = if this.dice.one_in(8) { 0 } else { traced.partition_point(|&(other, _)| other < of) };
    if traced.get(at).is_some_and(|&(other, _)| other == of) && !this.dice.one_in(4) {
        traced[at].1 = twin;
    } else {
        traced.insert(at, (of, twin));
    }
    Some(())
}
