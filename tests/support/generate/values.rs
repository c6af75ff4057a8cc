//! Registers of a function that is being written, and values to put in them.

use super::chains::cells_of_links;
use super::{CLOSURES, TABLE, VARIANT, Writer, number};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{TypeId, ValueType};

impl Writer<'_> {
    // Registers.

    /// A register of this type to write to.
    pub(super) fn to(&mut self, ty: ValueType) -> Reg {
        let candidates: Vec<Reg> = match ty {
            ValueType::Ref(id) => self.ref_types.iter().filter(|(ty, _)| *ty == id).map(|(_, reg)| *reg).collect(),
            _ => self.regs[ty.bank() as usize].clone(),
        };
        let candidates: Vec<Reg> = candidates.into_iter().filter(|&reg| !self.protected.contains(reg)).collect();
        let enough = if ty.bank() == Bank::Ref { 2 } else { 1 };
        if candidates.len() < enough || self.one_in(40) {
            let reg = self.out.new_reg(ty);
            self.adopt(ty, reg);
            return reg;
        }
        candidates[self.dice.usize(..candidates.len())]
    }

    /// A register that was just written.
    pub(super) fn wrote(&mut self, reg: Reg) -> Reg {
        self.assigned.insert(reg);
        reg
    }

    /// An assigned register of this type; makes a value if there is none.
    pub(super) fn from(&mut self, ty: ValueType) -> Reg {
        let assigned: Vec<Reg> = match ty {
            ValueType::Ref(id) => self.ref_types.iter().filter(|(ty, _)| *ty == id).map(|(_, reg)| *reg).collect(),
            _ => self.regs[ty.bank() as usize].clone(),
        };
        let assigned: Vec<Reg> = assigned.into_iter().filter(|&reg| self.assigned.contains(reg)).collect();
        if assigned.is_empty() || (ty.bank() == Bank::Ref && self.one_in(4)) {
            return self.make(ty);
        }
        assigned[self.dice.usize(..assigned.len())]
    }

    pub(super) fn list(&mut self, types: &[ValueType]) -> Vec<Reg> {
        types.iter().map(|&ty| self.from(ty)).collect()
    }

    // Values.

    pub(super) fn make(&mut self, ty: ValueType) -> Reg {
        use ValueType::{Int, Real, Ref};
        let types = self.types;
        match ty {
            Real => {
                let value = match self.dice.u8(..6) {
                    0 => 0.0,
                    1 => 1.0,
                    2 => -1.0,
                    _ => number(self.style, self.dice),
                };
                let dst = self.to(ty);
                let dst = if self.one_in(3) {
                    // A register with one definition, which the engine may treat as a literal.
                    let fresh = self.out.new_reg(ty);
                    self.adopt(ty, fresh);
                    self.protected.insert(fresh);
                    fresh
                } else {
                    dst
                };
                self.out.emit(Op::Const, &[Operand::Def(dst), Operand::Real(value)]);
                self.wrote(dst)
            }
            Int => {
                let value = if self.one_in(20) { self.dice.i64(..) } else { self.dice.i64(-2..5) };
                let dst = self.to(ty);
                self.out.emit(Op::IConst, &[Operand::Def(dst), Operand::Int(value)]);
                self.wrote(dst)
            }
            Ref(id) if id == types.pair => self.object(id, Op::StructNew, None, &[Real, Int, Real]),
            Ref(id) if id == types.outer => self.object(id, Op::StructNew, None, &[Ref(types.pair), Real]),
            Ref(id) if id == types.table => {
                self.object(id, Op::StructNew, None, &TABLE.map(|field| field.of(types.reals)))
            }
            Ref(id) if id == types.variant => {
                let tag = self.dice.usize(..VARIANT.len());
                let fields = VARIANT[tag].fields(types.pair, types.reals);
                self.object(id, Op::VariantNew, Some(Operand::Tag(tag as u16)), &fields)
            }
            Ref(id) if id == types.list => {
                let (tag, fields): (u16, &[ValueType]) = if self.one_in(2) { (0, &[]) } else { (1, &[Real, Int, ty]) };
                self.object(id, Op::VariantNew, Some(Operand::Tag(tag)), fields)
            }
            Ref(id) if id == types.links => {
                let tag = if self.one_in(2) { 0 } else { self.dice.usize(1..4) };
                let mut fields = Vec::new();
                if tag > 0 {
                    fields.extend(cells_of_links(types.pair, types.reals, id)[tag - 1].iter().copied().chain([ty]));
                }
                self.object(id, Op::VariantNew, Some(Operand::Tag(tag as u16)), &fields)
            }
            _ if let Some(&kind) = types.chains.iter().find(|kind| kind.ty() == ty) => self.make_chain(kind),
            Ref(id) if id == types.closure_box => {
                self.object(id, Op::StructNew, None, &[Int, Ref(types.closures[0]), Real])
            }
            Ref(id) if id == types.holder => {
                let [first, second] = types.closures.map(Ref);
                let (tag, fields): (u16, &[ValueType]) = match self.dice.u8(..5) {
                    0 => (0, &[]),
                    1 | 2 => (1, &[first, Real]),
                    _ => (2, &[second, Int, first]),
                };
                self.object(id, Op::VariantNew, Some(Operand::Tag(tag)), fields)
            }
            Ref(id) if id == types.closures[0] || id == types.closures[1] => {
                let which = usize::from(id == types.closures[1]);
                let params = &self.signatures[1 + which].params;
                let captures = params.len() - CLOSURES[which].0.len();
                let captures = &params[..captures];
                let func = Operand::Func(1 + which as u32);
                self.note(if captures.is_empty() { "closure without captures" } else { "closure" });
                self.object(id, Op::ClosureNew, Some(func), captures)
            }
            Ref(id) => {
                let element = self.element_of(id);
                if self.one_in(2) {
                    return self.built(id, element);
                }
                let len = if self.one_in(6) { 0 } else { self.dice.usize(1..6) };
                self.object(id, Op::Pack, None, &vec![element; len])
            }
        }
    }

    pub(super) fn object(&mut self, ty: TypeId, op: Op, middle: Option<Operand>, fields: &[ValueType]) -> Reg {
        let regs = self.list(fields);
        let dst = self.to(ValueType::Ref(ty));
        let operands: Vec<Operand> =
            [Some(Operand::Def(dst)), middle, Some(Operand::Uses(regs))].into_iter().flatten().collect();
        self.out.emit(op, &operands);
        self.wrote(dst)
    }

    /// The elements of an array type.
    pub(super) fn element_of(&self, array: TypeId) -> ValueType {
        let types = self.types;
        match array {
            id if id == types.reals => ValueType::Real,
            id if id == types.ints => ValueType::Int,
            id if id == types.pairs => ValueType::Ref(types.pair),
            id if id == types.rows => ValueType::Ref(types.reals),
            id if id == types.handlers => ValueType::Ref(types.closures[0]),
            id => panic!("{id:?} is no array"),
        }
    }

    /// An array by way of a builder.
    pub(super) fn built(&mut self, array: TypeId, element: ValueType) -> Reg {
        let builder = ValueType::Ref(self.builder_of(element));
        let len = self.dice.i64(0..6);
        let spare = if self.traps && self.one_in(12) { -1 } else { self.dice.i64(0..3) };
        let capacity = self.out.int_const(len + spare);
        let reg = self.to(builder);
        self.out.emit(Op::Build, &[Operand::Def(reg), Operand::Use(capacity.into())]);
        let push = [Op::Push, Op::IPush, Op::PPush][element.bank() as usize];
        for _ in 0..len {
            let value = self.from(element);
            self.out.emit(push, &[Operand::Use(reg), Operand::Use(value)]);
            if element == ValueType::Real && self.one_in(2) {
                self.scalar();
            }
        }
        let dst = self.to(ValueType::Ref(array));
        self.out.emit(Op::Finish, &[Operand::Def(dst), Operand::Use(reg)]);
        self.wrote(dst)
    }
}
