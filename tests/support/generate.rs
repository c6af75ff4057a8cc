//! Random programs that the verifier accepts and that end soon.
//!
//! Scalar instructions are drawn from the instruction table, so a new one is covered the day it is added. Registers are
//! few and are overwritten all the time: what the engine does with straight-line code depends on who writes which
//! register when. Every function takes a counter as its last integer; a call passes one less, and a function whose
//! counter is used up calls nobody.

use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role};
use dualvm_vm::module::{FuncId, HostType, Interface, ModuleDef, TypeDef, TypeId, ValueType, VariantDef};
use dualvm_vm::value::Value;
use fastrand::Rng;
use std::collections::BTreeSet;

/// What programs are like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Style {
    /// Values stay moderate and generic.
    Tame,
    /// Zeros, infinities and NaN are common, and so are traps.
    Wild,
    /// Tame, in long straight lines over many registers.
    Long,
    /// Tame, with so much garbage that a heap of 400 kB is evacuated all the time.
    Wasteful,
}

/// A generated module with arguments for its function `main`.
pub(crate) struct Program {
    pub(crate) module: ModuleDef,
    pub(crate) args: Vec<Value>,
    pub(crate) style: Style,
}

/// The types that every generated module has.
struct Types {
    pair: TypeId,
    outer: TypeId,
    variant: TypeId,
    reals: TypeId,
    ints: TypeId,
    pairs: TypeId,
    closures: [TypeId; 2],
}

struct Signature {
    params: Vec<ValueType>,
    results: Vec<ValueType>,
}

const CLOSURES: [(&[ValueType], &[ValueType]); 2] = [
    (&[ValueType::Real, ValueType::Int], &[ValueType::Real]),
    (&[ValueType::Real, ValueType::Real, ValueType::Int], &[ValueType::Real, ValueType::Int, ValueType::Real]),
];

/// The program of this seed.
pub(crate) fn program(seed: u64, style: Style) -> Program {
    let mut rng = Rng::with_seed(seed);
    let mut builder = ModuleBuilder::new();
    let types = declare_types(&mut builder);
    let signatures = signatures(&types, &mut rng);
    let functions: Vec<FuncId> = signatures
        .iter()
        .enumerate()
        .map(|(n, signature)| {
            let name = if n == 0 { "main".to_owned() } else { format!("f{n}") };
            builder.declare(&name, &signature.params, &signature.results)
        })
        .collect();
    let message = builder.message("stopped on purpose");
    for (n, signature) in signatures.iter().enumerate() {
        let name = if n == 0 { "main".to_owned() } else { format!("f{n}") };
        let mut function = Writer {
            out: FunctionBuilder::new(&name, &signature.params, &signature.results),
            rng: &mut rng,
            style,
            types: &types,
            signatures: &signatures,
            message,
            regs: [Vec::new(), Vec::new(), Vec::new()],
            ref_types: Vec::new(),
            assigned: BTreeSet::new(),
            protected: BTreeSet::new(),
            counter: Reg::int(0),
            may_call: true,
            results: signature.results.clone(),
        };
        if n == 0 {
            function.out.export(interface(signature, &types));
        }
        function.write(&signature.params);
        let body = function.out.finish().expect("the generator builds what the builder accepts");
        builder.set_function(functions[n], body);
    }
    let args = signatures[0].params.iter().map(|ty| argument(*ty, style, &mut rng)).collect();
    Program { module: builder.finish(), args, style }
}

fn declare_types(builder: &mut ModuleBuilder) -> Types {
    use ValueType::{Int, Real, Ref};
    let pair = builder.intern_type(TypeDef::Struct(vec![Real, Int, Real]));
    let outer = builder.intern_type(TypeDef::Struct(vec![Ref(pair), Real]));
    let reals = builder.intern_type(TypeDef::Array(Real));
    let ints = builder.intern_type(TypeDef::Array(Int));
    let pairs = builder.intern_type(TypeDef::Array(Ref(pair)));
    let variants = [vec![Real], vec![Real, Int, Ref(pair)], vec![Ref(reals), Real], vec![]];
    let variants = variants.into_iter().enumerate();
    let variants = variants.map(|(n, fields)| VariantDef { name: format!("V{n}"), fields }).collect();
    let variant = builder.intern_type(TypeDef::Variant(variants));
    let closures = CLOSURES.map(|(params, results)| {
        builder.intern_type(TypeDef::Closure { params: params.to_vec(), results: results.to_vec() })
    });
    for element in [Real, Int, Ref(pair)] {
        builder.intern_type(TypeDef::Builder(element));
    }
    Types { pair, outer, variant, reals, ints, pairs, closures }
}

/// Builders come after the other types, in the order of their elements.
fn builder_of(types: &Types, element: Bank) -> TypeId {
    TypeId(types.closures[1].0 + 1 + element as u32)
}

fn signatures(types: &Types, rng: &mut Rng) -> Vec<Signature> {
    use ValueType::{Int, Real, Ref};
    let mut main = vec![Real; rng.usize(1..5)];
    if rng.bool() {
        main.push(Ref(types.reals));
    }
    main.push(Int);
    let mut all = vec![Signature { params: main, results: vec![Real] }];
    let any = [Real, Real, Real, Int, Ref(types.pair), Ref(types.variant), Ref(types.reals), Ref(types.closures[0])];
    for (which, (params, results)) in CLOSURES.into_iter().enumerate() {
        // Closures of the second type may capture one of the first, so that each can be made.
        let kinds = any.len() - 1 + which;
        let captures = (0..rng.usize(0..4)).map(|_| any[rng.usize(..kinds)]);
        all.push(Signature { params: captures.chain(params.iter().copied()).collect(), results: results.to_vec() });
    }
    for _ in 0..rng.usize(0..3) {
        let mut params: Vec<ValueType> = (0..rng.usize(0..5)).map(|_| any[rng.usize(..any.len())]).collect();
        params.push(Int);
        let results = (0..rng.usize(0..4)).map(|_| any[rng.usize(..any.len())]).collect();
        all.push(Signature { params, results });
    }
    all
}

fn interface(signature: &Signature, types: &Types) -> Interface {
    let params = signature.params.iter().enumerate().map(|(n, ty)| {
        let host = match ty {
            ValueType::Real => HostType::Real,
            ValueType::Int => HostType::Int,
            ValueType::Ref(_) => HostType::Array { element: Box::new(HostType::Real), array: types.reals },
        };
        (format!("x{n}"), host)
    });
    Interface { params: params.collect(), result: HostType::Real }
}

fn argument(ty: ValueType, style: Style, rng: &mut Rng) -> Value {
    match ty {
        ValueType::Real => Value::Real(number(style, rng)),
        ValueType::Int => Value::Int(rng.i64(0..3)),
        ValueType::Ref(_) => Value::Reals((0..rng.usize(0..5)).map(|_| number(style, rng)).collect()),
    }
}

fn number(style: Style, rng: &mut Rng) -> f64 {
    const SPECIAL: [f64; 12] =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e-300];
    if style == Style::Wild && rng.u8(..3) == 0 { SPECIAL[rng.usize(..SPECIAL.len())] } else { 4.0 * rng.f64() - 2.0 }
}

/// Writes one function.
struct Writer<'a> {
    out: FunctionBuilder,
    rng: &'a mut Rng,
    style: Style,
    types: &'a Types,
    signatures: &'a [Signature],
    message: u32,
    /// Registers by bank.
    regs: [Vec<Reg>; 3],
    /// Reference registers with their types.
    ref_types: Vec<(TypeId, Reg)>,
    /// Registers that are assigned on every path to here.
    assigned: BTreeSet<Reg>,
    /// Registers that must not be written now: counters.
    protected: BTreeSet<Reg>,
    counter: Reg,
    may_call: bool,
    results: Vec<ValueType>,
}

impl Writer<'_> {
    fn write(&mut self, params: &[ValueType]) {
        for (n, &ty) in params.iter().enumerate() {
            let reg = self.out.param(n);
            self.adopt(ty, reg);
            self.assigned.insert(reg);
            if ty == ValueType::Int {
                self.counter = reg;
            }
        }
        self.protected.insert(self.counter);
        let reals = if self.style == Style::Long { self.rng.usize(20..120) } else { self.rng.usize(2..6) };
        for (ty, count) in [(ValueType::Real, reals), (ValueType::Int, self.rng.usize(2..4))] {
            for _ in 0..count {
                let reg = self.out.new_reg(ty);
                self.adopt(ty, reg);
            }
        }
        // Literals, from which the engine knows partial derivatives before it runs anything.
        for value in [0.0, 1.0, -1.0, 0.5] {
            if self.one_in(6) {
                let reg = self.out.real_const(value).into();
                self.adopt(ValueType::Real, reg);
                self.protected.insert(reg);
                self.assigned.insert(reg);
            }
        }
        let zero = self.out.int_const(0);
        let cond = self.out.new_int();
        self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), self.counter]);
        let (more, leaf) = (self.out.new_label(), self.out.new_label());
        self.out.branch(cond, more, leaf);

        self.out.bind(more);
        let before = self.assigned.clone();
        let size = self.rng.usize(1..16);
        if self.style == Style::Long {
            for _ in 0..self.rng.usize(0..500) {
                self.straight();
            }
        }
        if self.statements(size, 0) {
            self.leave();
        }
        self.out.bind(leaf);
        self.assigned = before;
        self.may_call = false;
        let size = self.rng.usize(0..10);
        if self.statements(size, 0) {
            self.leave();
        }
    }

    fn adopt(&mut self, ty: ValueType, reg: Reg) {
        self.regs[reg.bank as usize].push(reg);
        if let ValueType::Ref(id) = ty {
            self.ref_types.push((id, reg));
        }
    }

    /// One chance in `n`.
    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(..n) == 0
    }

    // Registers.

    /// A register of this type to write to.
    fn to(&mut self, ty: ValueType) -> Reg {
        let candidates: Vec<Reg> = match ty {
            ValueType::Ref(id) => self.ref_types.iter().filter(|(ty, _)| *ty == id).map(|(_, reg)| *reg).collect(),
            _ => self.regs[ty.bank() as usize].iter().copied().filter(|reg| !self.protected.contains(reg)).collect(),
        };
        let enough = if ty.bank() == Bank::Ref { 2 } else { 1 };
        if candidates.len() < enough || self.one_in(40) {
            let reg = self.out.new_reg(ty);
            self.adopt(ty, reg);
            return reg;
        }
        candidates[self.rng.usize(..candidates.len())]
    }

    /// A register that was just written.
    fn wrote(&mut self, reg: Reg) -> Reg {
        self.assigned.insert(reg);
        reg
    }

    /// An assigned register of this type; makes a value if there is none.
    fn from(&mut self, ty: ValueType) -> Reg {
        let assigned: Vec<Reg> = match ty {
            ValueType::Ref(id) => self.ref_types.iter().filter(|(ty, _)| *ty == id).map(|(_, reg)| *reg).collect(),
            _ => self.regs[ty.bank() as usize].clone(),
        };
        let assigned: Vec<Reg> = assigned.into_iter().filter(|reg| self.assigned.contains(reg)).collect();
        if assigned.is_empty() || (ty.bank() == Bank::Ref && self.one_in(4)) {
            return self.make(ty);
        }
        assigned[self.rng.usize(..assigned.len())]
    }

    fn list(&mut self, types: &[ValueType]) -> Vec<Reg> {
        types.iter().map(|&ty| self.from(ty)).collect()
    }

    // Values.

    fn make(&mut self, ty: ValueType) -> Reg {
        use ValueType::{Int, Real, Ref};
        let types = self.types;
        match ty {
            Real => {
                let value = match self.rng.u8(..6) {
                    0 => 0.0,
                    1 => 1.0,
                    2 => -1.0,
                    _ => number(self.style, self.rng),
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
                let value = if self.one_in(20) { self.rng.i64(..) } else { self.rng.i64(-2..5) };
                let dst = self.to(ty);
                self.out.emit(Op::IConst, &[Operand::Def(dst), Operand::Int(value)]);
                self.wrote(dst)
            }
            Ref(id) if id == types.pair => self.object(id, Op::StructNew, None, &[Real, Int, Real]),
            Ref(id) if id == types.outer => self.object(id, Op::StructNew, None, &[Ref(types.pair), Real]),
            Ref(id) if id == types.variant => {
                let (tag, fields): (u16, &[ValueType]) = match self.rng.u8(..4) {
                    0 => (0, &[Real]),
                    1 => (1, &[Real, Int, Ref(types.pair)]),
                    2 => (2, &[Ref(types.reals), Real]),
                    _ => (3, &[]),
                };
                self.object(id, Op::VariantNew, Some(Operand::Tag(tag)), fields)
            }
            Ref(id) if id == types.closures[0] || id == types.closures[1] => {
                let which = usize::from(id == types.closures[1]);
                let params = &self.signatures[1 + which].params;
                let captures = params.len() - CLOSURES[which].0.len();
                let captures = &params[..captures];
                let func = Operand::Func(1 + which as u32);
                self.object(id, Op::ClosureNew, Some(func), captures)
            }
            Ref(id) => {
                let element = match id {
                    id if id == types.reals => Real,
                    id if id == types.ints => Int,
                    _ => Ref(types.pair),
                };
                if self.one_in(2) {
                    return self.built(id, element);
                }
                let len = if self.one_in(6) { 0 } else { self.rng.usize(1..6) };
                self.object(id, Op::Pack, None, &vec![element; len])
            }
        }
    }

    fn object(&mut self, ty: TypeId, op: Op, middle: Option<Operand>, fields: &[ValueType]) -> Reg {
        let regs = self.list(fields);
        let dst = self.to(ValueType::Ref(ty));
        let operands: Vec<Operand> =
            [Some(Operand::Def(dst)), middle, Some(Operand::Uses(regs))].into_iter().flatten().collect();
        self.out.emit(op, &operands);
        self.wrote(dst)
    }

    /// An array by way of a builder.
    fn built(&mut self, array: TypeId, element: ValueType) -> Reg {
        let builder = ValueType::Ref(builder_of(self.types, element.bank()));
        let len = self.rng.i64(0..6);
        let spare = if self.style == Style::Wild && self.one_in(12) { -1 } else { self.rng.i64(0..3) };
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

    // Statements.

    /// Writes statements; says whether control reaches their end.
    fn statements(&mut self, count: usize, depth: u32) -> bool {
        (0..count).all(|_| self.statement(depth))
    }

    /// A statement that stays in its block.
    fn straight(&mut self) {
        match self.rng.u32(..100) {
            0..60 => self.scalar(),
            60..80 => self.mov(),
            80..85 => self.swap(),
            85..90 => {
                self.make(ValueType::Real);
            }
            90..95 => {
                let pair = ValueType::Ref(self.types.pair);
                let reg = self.from(pair);
                let dst = self.to(ValueType::Real);
                self.out.emit(Op::Field, &[Operand::Def(dst), Operand::Use(reg), Operand::Field(2)]);
                self.wrote(dst);
            }
            _ => {
                self.make(ValueType::Ref(self.types.reals));
            }
        }
    }

    /// Allocates 16 KB and forgets them.
    fn waste(&mut self) {
        let capacity = self.out.int_const(2000);
        let dst = self.out.new_ref(builder_of(self.types, Bank::Int));
        self.out.emit(Op::Build, &[Operand::Def(dst.into()), Operand::Use(capacity.into())]);
    }

    fn statement(&mut self, depth: u32) -> bool {
        if self.style == Style::Wasteful && self.one_in(3) {
            self.waste();
        }
        match self.rng.u32(..100) {
            0..40 => self.scalar(),
            40..46 => self.mov(),
            46..50 => self.swap(),
            50..54 => {
                let ty = if self.one_in(3) { ValueType::Int } else { ValueType::Real };
                self.make(ty);
            }
            54..60 if depth < 3 => return self.conditional(depth),
            60..67 if depth < 2 => return self.repeat(depth),
            67..70 if depth < 3 => return self.switch(depth),
            70..78 if self.may_call => self.call(),
            78..82 => self.load_from_struct(),
            82..86 => self.load_from_variant(),
            86..93 => self.load_from_array(),
            93..95 => self.pselect(),
            95 => {
                let next = self.out.new_label();
                self.out.jump(next);
                self.out.bind(next);
            }
            96 if depth > 0 && self.one_in(2) => {
                self.leave();
                return false;
            }
            97 if depth > 0 && self.style == Style::Wild && self.one_in(4) => {
                self.out.trap(self.message);
                return false;
            }
            _ => self.scalar(),
        }
        true
    }

    fn scalar(&mut self) {
        const COMMON: [Op; 12] = [
            Op::Add,
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Mul,
            Op::Mul,
            Op::Neg,
            Op::Select,
            Op::Sin,
            Op::Max,
            Op::Lt,
            Op::Fma,
        ];
        let scalars: Vec<Op> = Op::ALL.iter().copied().filter(|op| op.is_scalar()).collect();
        let mut op = if self.one_in(2) {
            COMMON[self.rng.usize(..COMMON.len())]
        } else {
            scalars[self.rng.usize(..scalars.len())]
        };
        if op.info().traps && !(self.style == Style::Wild && self.one_in(3)) {
            op = Op::IAdd;
        }
        let roles: Vec<Role> = op.info().operands.iter().map(|operand| operand.role).collect();
        let mut args = Vec::new();
        for &role in &roles[1..] {
            match role {
                Role::Use(Bank::Int) => args.push(self.from(ValueType::Int)),
                Role::Use(_) if self.one_in(6) && args.first().is_some_and(|arg: &Reg| arg.bank == Bank::Real) => {
                    args.push(args[0]);
                }
                Role::Use(_) => args.push(self.from(ValueType::Real)),
                role => panic!("{op:?} has a scalar operand of role {role:?}"),
            }
        }
        let dst = match roles[0] {
            Role::Def(Bank::Int) => self.to(ValueType::Int),
            _ => self.to(ValueType::Real),
        };
        self.out.emit_regs(op, &[&[dst], &args[..]].concat());
        self.wrote(dst);
        let taming = if self.style == Style::Wild { 12 } else { 3 };
        if dst.bank == Bank::Real && self.one_in(taming) {
            let op = [Op::Sin, Op::Tanh, Op::Atan][self.rng.usize(..3)];
            let to = self.to(ValueType::Real);
            self.out.emit_regs(op, &[to, dst]);
            self.wrote(to);
        }
    }

    fn mov(&mut self) {
        let ty =
            [ValueType::Real, ValueType::Real, ValueType::Int, ValueType::Ref(self.types.reals)][self.rng.usize(..4)];
        let src = self.from(ty);
        let dst = self.to(ty);
        self.out.mov(dst, src);
        self.wrote(dst);
    }

    /// `a, b = b, a` by way of a third register.
    fn swap(&mut self) {
        let [a, b] = [(); 2].map(|()| {
            loop {
                let reg = self.from(ValueType::Real);
                if !self.protected.contains(&reg) {
                    break reg;
                }
                let to = self.to(ValueType::Real);
                self.out.mov(to, reg);
                self.wrote(to);
            }
        });
        let third = self.to(ValueType::Real);
        self.out.mov(third, a);
        self.out.mov(a, b);
        self.out.mov(b, third);
        self.wrote(third);
    }

    fn pselect(&mut self) {
        let id = [self.types.reals, self.types.pair, self.types.variant][self.rng.usize(..3)];
        let ty = ValueType::Ref(id);
        let (c, a, b) = (self.from(ValueType::Int), self.from(ty), self.from(ty));
        let dst = self.to(ty);
        self.out.emit_regs(Op::PSelect, &[dst, c, a, b]);
        self.wrote(dst);
    }

    /// An integer to branch on.
    fn condition(&mut self) -> Reg {
        if self.one_in(3) {
            return self.from(ValueType::Int);
        }
        let op = [Op::Lt, Op::Le, Op::Eq, Op::Ne][self.rng.usize(..4)];
        let (a, b) = (self.from(ValueType::Real), self.from(ValueType::Real));
        let dst = self.to(ValueType::Int);
        self.out.emit_regs(op, &[dst, a, b]);
        self.wrote(dst)
    }

    fn conditional(&mut self, depth: u32) -> bool {
        let cond = self.condition();
        let (then, other) = (self.out.new_label(), self.out.new_label());
        self.out.branch(dualvm_vm::builder::IntReg(cond.index), then, other);
        self.arms(&[then, other], depth)
    }

    fn switch(&mut self, depth: u32) -> bool {
        let index = self.from(ValueType::Int);
        let labels: Vec<_> = (0..self.rng.usize(1..4)).map(|_| self.out.new_label()).collect();
        let targets: Vec<_> = (0..self.rng.usize(0..4)).map(|_| labels[self.rng.usize(..labels.len())]).collect();
        let default = labels[self.rng.usize(..labels.len())];
        self.out.switch(dualvm_vm::builder::IntReg(index.index), &targets, default);
        self.arms(&labels, depth)
    }

    /// Binds each label to statements of its own; all meet after the last.
    fn arms(&mut self, labels: &[dualvm_vm::builder::Label], depth: u32) -> bool {
        let before = self.assigned.clone();
        let end = self.out.new_label();
        let mut after: Option<BTreeSet<Reg>> = None;
        for &label in labels {
            self.out.bind(label);
            self.assigned = before.clone();
            let size = self.rng.usize(0..5);
            if self.statements(size, depth + 1) {
                self.out.jump(end);
                after = Some(match after {
                    Some(after) => after.intersection(&self.assigned).copied().collect(),
                    None => self.assigned.clone(),
                });
            }
        }
        self.out.bind(end);
        match after {
            Some(after) => {
                self.assigned = after;
                true
            }
            None => {
                // A label needs an instruction to stand on.
                self.out.trap(self.message);
                false
            }
        }
    }

    /// A counted loop, with the test before or after the body.
    fn repeat(&mut self, depth: u32) -> bool {
        let (index, limit) = (self.out.new_int(), self.out.new_int());
        let (one, cond) = (self.out.int_const(1), self.out.new_int());
        self.out.emit(Op::IConst, &[Operand::Def(index.into()), Operand::Int(0)]);
        let limit_value = self.rng.i64(0..4);
        self.out.emit(Op::IConst, &[Operand::Def(limit.into()), Operand::Int(limit_value)]);
        let (head, body, exit) = (self.out.new_label(), self.out.new_label(), self.out.new_label());
        let foot = self.one_in(3);
        self.out.bind(head);
        if !foot {
            self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
            self.out.branch(cond, body, exit);
            self.out.bind(body);
        }
        let before = self.assigned.clone();
        // The index may be read in the body.
        self.regs[Bank::Int as usize].push(index.into());
        self.protected.insert(index.into());
        self.assigned.insert(index.into());
        let size = self.rng.usize(1..7);
        let falls = self.statements(size, depth + 1);
        self.regs[Bank::Int as usize].retain(|&reg| reg != index.into());
        self.assigned.remove(&index.into());
        if falls {
            self.out.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
            if foot {
                self.out.emit_regs(Op::ILt, &[cond.into(), index.into(), limit.into()]);
                self.out.branch(cond, head, exit);
            } else {
                self.out.jump(head);
            }
        }
        if foot && !falls {
            return false;
        }
        self.out.bind(exit);
        if !foot {
            self.assigned = before;
        }
        true
    }

    fn load_from_struct(&mut self) {
        let (pair, outer) = (ValueType::Ref(self.types.pair), ValueType::Ref(self.types.outer));
        if self.one_in(3) {
            let src = self.from(outer);
            let dst = self.to(pair);
            self.out.emit(Op::PField, &[Operand::Def(dst), Operand::Use(src), Operand::Field(0)]);
            self.wrote(dst);
            let dst = self.to(ValueType::Real);
            self.out.emit(Op::Field, &[Operand::Def(dst), Operand::Use(src), Operand::Field(1)]);
            self.wrote(dst);
            return;
        }
        let src = self.from(pair);
        let (op, ty, field) = match self.rng.u8(..3) {
            0 => (Op::Field, ValueType::Real, 0),
            1 => (Op::IField, ValueType::Int, 1),
            _ => (Op::Field, ValueType::Real, 2),
        };
        let dst = self.to(ty);
        self.out.emit(op, &[Operand::Def(dst), Operand::Use(src), Operand::Field(field)]);
        self.wrote(dst);
    }

    /// Reads all fields of a variant, after a look at its tag or, seldom, without.
    fn load_from_variant(&mut self) {
        use ValueType::{Int, Real, Ref};
        let src = self.from(Ref(self.types.variant));
        let fields: [&[ValueType]; 4] =
            [&[Real], &[Real, Int, Ref(self.types.pair)], &[Ref(self.types.reals), Real], &[]];
        let tag = self.rng.u16(..3);
        let end = self.out.new_label();
        let before = self.assigned.clone();
        if !(self.style == Style::Wild && self.one_in(10)) {
            let (found, expected) = (self.to(Int), self.out.int_const(i64::from(tag)));
            self.out.emit(Op::VariantTag, &[Operand::Def(found), Operand::Use(src)]);
            let cond = self.out.new_int();
            self.out.emit_regs(Op::IEq, &[cond.into(), found, expected.into()]);
            let same = self.out.new_label();
            self.out.branch(cond, same, end);
            self.out.bind(same);
        }
        for (n, &field) in fields[usize::from(tag)].iter().enumerate() {
            let op = [Op::Payload, Op::IPayload, Op::PPayload][field.bank() as usize];
            let dst = loop {
                let dst = self.to(field);
                if dst != src {
                    break dst;
                }
            };
            self.out.emit(op, &[Operand::Def(dst), Operand::Use(src), Operand::Tag(tag), Operand::Field(n as u16)]);
            self.wrote(dst);
        }
        self.out.bind(end);
        self.assigned = before;
    }

    fn load_from_array(&mut self) {
        use ValueType::{Int, Real, Ref};
        let types = self.types;
        let (array, element, op) = match self.rng.u8(..5) {
            0 => (types.ints, Int, Op::IElem),
            1 => (types.pairs, Ref(types.pair), Op::PElem),
            _ => (types.reals, Real, Op::Elem),
        };
        let src = self.from(Ref(array));
        let (index, len, zero) = (self.out.new_int(), self.out.new_int(), self.out.int_const(0));
        self.out.emit(Op::Len, &[Operand::Def(len.into()), Operand::Use(src)]);
        let wanted = self.from(Int);
        let end = self.out.new_label();
        let before = self.assigned.clone();
        if self.style == Style::Wild && self.one_in(10) {
            self.out.mov(index, wanted);
        } else {
            let (some, cond, mask) = (self.out.new_label(), self.out.new_int(), self.out.int_const(7));
            self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), len.into()]);
            self.out.branch(cond, some, end);
            self.out.bind(some);
            self.out.emit_regs(Op::IAnd, &[index.into(), wanted, mask.into()]);
            self.out.emit_regs(Op::IRem, &[index.into(), index.into(), len.into()]);
        }
        let dst = self.to(element);
        self.out.emit_regs(op, &[dst, src, index.into()]);
        self.wrote(dst);
        self.out.bind(end);
        self.assigned = before;
    }

    // Calls.

    /// A register with one less than the counter.
    fn less(&mut self) -> Reg {
        let (one, less) = (self.out.int_const(1), self.out.new_int());
        self.out.emit_regs(Op::ISub, &[less.into(), self.counter, one.into()]);
        less.into()
    }

    /// Arguments whose last is the counter of the callee.
    fn arguments(&mut self, params: &[ValueType]) -> Vec<Reg> {
        let mut args = self.list(&params[..params.len() - 1]);
        args.push(self.less());
        args
    }

    /// Different registers for results.
    fn result_registers(&mut self, types: &[ValueType]) -> Vec<Reg> {
        let mut regs: Vec<Reg> = Vec::new();
        for &ty in types {
            let reg = self.to(ty);
            regs.push(if regs.contains(&reg) {
                let fresh = self.out.new_reg(ty);
                self.adopt(ty, fresh);
                fresh
            } else {
                reg
            });
        }
        regs
    }

    fn call(&mut self) {
        let signatures = self.signatures;
        let results;
        if self.one_in(3) {
            let which = self.rng.usize(..2);
            let callee = self.from(ValueType::Ref(self.types.closures[which]));
            let (params, types) = CLOSURES[which];
            let args = self.arguments(params);
            results = self.result_registers(types);
            let operands = [Operand::Use(callee), Operand::Uses(args), Operand::Defs(results.clone())];
            self.out.emit(Op::CallClosure, &operands);
        } else {
            let func = self.rng.usize(..signatures.len());
            let args = self.arguments(&signatures[func].params);
            results = self.result_registers(&signatures[func].results);
            self.out.call(FuncId(func as u32), &args, &results);
        }
        self.assigned.extend(results);
    }

    /// Ends the function: a return, or a tail call if there may be one.
    fn leave(&mut self) {
        let signatures = self.signatures;
        let results = self.results.clone();
        if self.may_call && self.one_in(3) {
            if let Some(which) = (0..2).find(|&which| CLOSURES[which].1 == results)
                && self.one_in(2)
            {
                let callee = self.from(ValueType::Ref(self.types.closures[which]));
                let args = self.arguments(CLOSURES[which].0);
                self.out.emit(Op::TailCallClosure, &[Operand::Use(callee), Operand::Uses(args)]);
                return;
            }
            let same: Vec<usize> = (0..signatures.len()).filter(|&f| signatures[f].results == results).collect();
            let func = same[self.rng.usize(..same.len())];
            let args = self.arguments(&signatures[func].params);
            self.out.tail_call(FuncId(func as u32), &args);
            return;
        }
        let regs = self.list(&results);
        self.out.ret(&regs);
    }
}
