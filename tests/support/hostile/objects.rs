//! Objects and closures.

use super::{add_to, main_builder, scale_by, with_main};
use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::ValueType::{Real, Ref};
use dualvm_vm::module::{ModuleDef, TypeDef};

/// An array of `count` elements out of one instruction, read by a loop of `n` rounds.
pub(crate) fn large_packs(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let array = module.intern_type(TypeDef::Array(Real));
    let (mut f, x, n) = main_builder();
    let half = f.real_const(0.5);
    let y = f.mul(x, half);
    let elements: Vec<Reg> = (0..count.min(0xffff)).map(|at| if at % 3 == 0 { x.into() } else { y.into() }).collect();
    let packed = f.new_ref(array);
    f.emit(Op::Pack, &[Operand::Def(packed.into()), Operand::Uses(elements)]);
    let (len, bound, at, one, element) = (f.new_int(), f.new_int(), f.int_const(0), f.int_const(1), f.new_real());
    f.emit_regs(Op::Len, &[len.into(), packed.into()]);
    f.emit_regs(Op::IMin, &[bound.into(), len.into(), n.into()]);
    let (head, body, after) = (f.new_label(), f.new_label(), f.new_label());
    f.bind(head);
    let more = f.ilt(at, bound);
    f.branch(more, body, after);
    f.bind(body);
    f.emit_regs(Op::Elem, &[element.into(), packed.into(), at.into()]);
    add_to(&mut f, x, element);
    f.emit_regs(Op::IAdd, &[at.into(), at.into(), one.into()]);
    f.jump(head);
    f.bind(after);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `depth` types, each a struct of the one before and a real: an object in an object, made inside out and taken apart
/// again.
pub(crate) fn objects_in_objects(depth: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut types = vec![module.intern_type(TypeDef::Struct(vec![Real]))];
    for at in 1..depth {
        types.push(module.intern_type(TypeDef::Struct(vec![Real, Ref(types[at - 1])])));
    }
    let (mut f, x, _) = main_builder();
    let held: Vec<Reg> = types.iter().map(|&ty| f.new_ref(ty).into()).collect();
    for at in 0..depth {
        let mut fields = vec![x.into()];
        fields.extend(at.checked_sub(1).map(|before| held[before]));
        f.emit(Op::StructNew, &[Operand::Def(held[at]), Operand::Uses(fields)]);
    }
    let y = f.new_real();
    for at in (0..depth).rev() {
        f.emit(Op::Field, &[Operand::Def(y.into()), Operand::Use(held[at]), Operand::Field(0)]);
        scale_by(&mut f, x, y);
        if at > 0 {
            f.emit(Op::PField, &[Operand::Def(held[at - 1]), Operand::Use(held[at]), Operand::Field(1)]);
        }
    }
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `count` closures, each of which captures the one before and calls it.
pub(crate) fn chain_of_closures(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let closure = module.intern_type(TypeDef::Closure { params: vec![Real], results: vec![Real] });
    let mut first = FunctionBuilder::new("first", &[Real], &[Real]);
    let y = first.sin(first.real_param(0));
    first.ret(&[y.into()]);
    let first = module.define(first.finish().expect("the code can be packed"));
    let mut next = FunctionBuilder::new("next", &[Ref(closure), Real, Real], &[Real]);
    let (inner, factor, x) = (next.param(0), next.real_param(1), next.real_param(2));
    next.emit(Op::CallClosure, &[Operand::Use(inner), Operand::Uses(vec![x.into()]), Operand::Defs(vec![x.into()])]);
    scale_by(&mut next, x, factor);
    next.ret(&[x.into()]);
    let next = module.define(next.finish().expect("the code can be packed"));
    let (mut f, x, _) = main_builder();
    let held: Reg = f.new_ref(closure).into();
    f.emit(Op::ClosureNew, &[Operand::Def(held), Operand::Func(first.0), Operand::Uses(vec![])]);
    for _ in 0..count {
        let captures = Operand::Uses(vec![held, x.into()]);
        f.emit(Op::ClosureNew, &[Operand::Def(held), Operand::Func(next.0), captures]);
    }
    f.emit(Op::TailCallClosure, &[Operand::Use(held), Operand::Uses(vec![x.into()])]);
    with_main(module, f)
}
