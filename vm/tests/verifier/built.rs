//! Modules that break a rule and can't be written as text.

use super::code::with_code;
use super::support::read;
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::{
    Body, DataDef, Function, HostType, Import, InlinedCall, Interface, Location, ModuleDef, Piece, Place, Template,
    TypeDef, TypeId, ValueType, VariantDef,
};
use dualvm_vm::verify::{Rule, limits};

fn located(source: u32, line: u32, column: u32, call: Option<u32>) -> Location {
    Location { inst: 1, place: Place { source, line, column }, call }
}

/// Rules that only a module of a size or with bits that text doesn't have can break.
pub(crate) fn built_cases() -> Vec<(Rule, ModuleDef, &'static str)> {
    let ret = || function("f", |body| push(body, Op::Ret, &[Operand::Uses(vec![])]));
    let types = |count| ModuleDef { types: vec![TypeDef::Array(ValueType::Real); count], ..ModuleDef::default() };
    let a_type = |def| ModuleDef { types: vec![def], ..ModuleDef::default() };
    let reals = |count| vec![ValueType::Real; count];
    let deep = (0..limits::HOST_TYPE_DEPTH_MAX).fold(HostType::Real, |inner, _| HostType::Tuple(vec![inner]));
    let unused = |edit: fn(&mut Body)| {
        let mut module = with_code("mov r1, r0\nppayload p7, p4, 1, 1\ncall f0 (r0, p0) -> (r1, i1)\nret (r1)");
        edit(&mut module.functions[2].body);
        module
    };
    let inlined = |calls: Vec<(u32, Option<u32>)>| {
        let mut module = unused(|_| {});
        let call =
            |(source, within)| InlinedCall { callee: "f".into(), place: Place { source, line: 1, column: 1 }, within };
        module.debug.calls = calls.into_iter().map(call).collect();
        module
    };
    let template = |pieces| Template { pieces, func: None };
    let import = |result| Import { name: "f".into(), interface: Interface { params: vec![], result } };
    let with_template = |pieces| ModuleDef { templates: vec![template(pieces)], ..a_module(ret()) };
    vec![
        (
            Rule::ModuleSize,
            types(limits::TYPES_MAX + 1),
            "the module is too large: expected at most 1048576 types, found 1048577",
        ),
        (
            Rule::ModuleSize,
            ModuleDef { messages: vec![String::new(); limits::MESSAGES_MAX + 1], ..ModuleDef::default() },
            "expected at most 1048576 messages, found 1048577",
        ),
        (
            Rule::ModuleSize,
            ModuleDef { templates: vec![template(vec![]); limits::TEMPLATES_MAX + 1], ..ModuleDef::default() },
            "expected at most 1048576 templates, found 1048577",
        ),
        (
            Rule::ModuleSize,
            ModuleDef { imports: vec![import(HostType::Real); limits::IMPORTS_MAX + 1], ..ModuleDef::default() },
            "expected at most 1048576 imports, found 1048577",
        ),
        (
            Rule::ParamCount,
            ModuleDef { imports: vec![import(HostType::Tuple(vec![HostType::Int; 4097]))], ..ModuleDef::default() },
            "expected at most 4096 registers in x0, found 4097",
        ),
        (
            Rule::StringLength,
            with_template(vec![Piece::Text("x".repeat(65536))]),
            "a string is too long: expected at most 65535 bytes, found 65536",
        ),
        (
            Rule::TemplateSize,
            with_template(vec![Piece::Text("x".into()); limits::PIECES_MAX + 1]),
            "a template is too large: expected at most 65536 pieces and parts in s0, found 65537",
        ),
        (
            // 65,535 parts, which aren't even numbers, and the piece that they are.
            Rule::TemplateSize,
            with_template(vec![Piece::Value(HostType::Tuple(vec![HostType::Tuple(vec![]); limits::PIECES_MAX]))]),
            "expected at most 65536 pieces and parts in s0, found 65537",
        ),
        (
            Rule::TemplateSize,
            with_template(vec![Piece::Value(HostType::Real); limits::PARAMS_MAX + 1]),
            "expected values of at most 4096 registers in s0, found 4097",
        ),
        (
            Rule::InterfaceDepth,
            with_template(vec![Piece::Value(deep.clone())]),
            "expected at most 64 levels, found more",
        ),
        (
            Rule::ModuleSize,
            ModuleDef { data: vec![no_data(""); limits::DATA_MAX + 1], ..ModuleDef::default() },
            "expected at most 1048576 data types, found 1048577",
        ),
        (
            Rule::StringLength,
            ModuleDef {
                types: vec![TypeDef::Variant(vec![])],
                data: vec![no_data(&"x".repeat(65536))],
                ..ModuleDef::default()
            },
            "expected at most 65535 bytes, found 65536",
        ),
        (
            Rule::InterfaceDepth,
            ModuleDef {
                types: vec![TypeDef::Variant(vec![VariantDef { name: "A".into(), fields: reals(1) }])],
                data: vec![DataDef { variants: vec![("A".into(), deep.clone())], ..no_data("D") }],
                ..ModuleDef::default()
            },
            "expected at most 64 levels, found more",
        ),
        (
            Rule::StringLength,
            ModuleDef { messages: vec!["x".repeat(65536)], ..ModuleDef::default() },
            "a string is too long: expected at most 65535 bytes, found 65536",
        ),
        (
            Rule::StringLength,
            a_module(Function { name: "x".repeat(65536), ..ret() }),
            "expected at most 65535 bytes, found 65536",
        ),
        (Rule::FieldCount, a_type(TypeDef::Struct(reals(256))), "expected at most 255 fields in t0, found 256"),
        (
            Rule::ParamCount,
            a_type(TypeDef::Closure { params: vec![], results: reals(4097) }),
            "expected at most 4096 results in t0, found 4097",
        ),
        (
            Rule::ParamCount,
            a_module(Function { params: reals(4097), ..ret() }),
            "expected at most 4096 parameters, found 4097",
        ),
        (
            Rule::InterfaceDepth,
            a_module(Function { interface: Some(Interface { params: vec![], result: deep }), ..ret() }),
            "expected at most 64 levels, found more",
        ),
        (
            Rule::ListBounds,
            unused(|body| body.regs.truncate(3)),
            "instruction 2 (`call <outside of the pool>`): an operand list is outside of its pool: \
             expected lists in 3 registers and 0 targets, found a list that reaches outside",
        ),
        (Rule::ListBounds, unused(|body| body.code[3].imm = u64::from(u32::MAX)), "a list that reaches outside"),
        (Rule::UnusedBits, unused(|body| body.code[0].c = 1), "Inst { op: Mov, a: 1, b: 0, c: 1, imm: 0 }"),
        (Rule::UnusedBits, unused(|body| body.code[1].imm |= 1 << 16), "imm: 65537 }"),
        (Rule::UnusedBits, unused(|body| body.code[3].imm |= 1 << 40), "zero in fields without an operand"),
        (Rule::Locations, unused(|body| body.locations.push(located(0, 1, 0, None))), "found 1:0"),
        (
            Rule::Locations,
            unused(|body| body.locations.push(located(1, 1, 1, None))),
            "expected a source below 1, found 1",
        ),
        (
            Rule::Locations,
            unused(|body| body.locations.push(located(0, 1, 1, Some(0)))),
            "an inlined call below 0, found 0",
        ),
        (Rule::Locations, inlined(vec![(0, Some(0))]), "expected an inlined call below 0, found 0"),
        (Rule::Locations, inlined(vec![(0, None), (0, Some(1))]), "expected an inlined call below 1, found 1"),
        (Rule::Locations, inlined(vec![(1, None)]), "expected a source below 1, found 1"),
        (
            Rule::ForkRegisters,
            wide_fork(5, 4096, 0),
            "expected at most 16384 registers `r` as arguments of a fork's tasks, found more",
        ),
        (
            Rule::ForkRegisters,
            wide_fork(5, 0, 4096),
            "expected at most 16384 registers `r` as results of a fork's tasks, found more",
        ),
        (Rule::ListEntries, shared_lists(), "expected at most 67108864 entries in the function, found more"),
        (
            Rule::FlowLimit,
            long_lives(),
            "expected at most 1073741824 steps to check assignment in the module, found more",
        ),
    ]
}

/// One list of 65,535 registers that more than a thousand instructions share.
fn shared_lists() -> ModuleDef {
    let mut module = read("type t0 = array real\nfunc \"f\" (real) -> ()\nregs 1 real, t0\n{\nret ()\n}");
    let body = &mut module.functions[0].body;
    let elems = Operand::Uses(vec![Reg::real(0); 65535]);
    let pack = body.pack(Op::Pack, &[Operand::Def(Reg::reference(0)), elems]).expect("the list is short enough");
    body.code.splice(0..0, vec![pack; 1025]);
    module
}

/// 61,440 registers that live through a million blocks.
fn long_lives() -> ModuleDef {
    let regs = |index: u16| (index..=index + 4095).map(Reg::real).collect::<Vec<_>>();
    let starts = || (0..15).map(|n| n * 4096u16);
    let mut module = read("func \"f\" () -> ()\nregs 61440 real\n{\nret ()\n}");
    let callee = |name: &str, params: usize, results: usize| Function {
        params: vec![ValueType::Real; params],
        results: vec![ValueType::Real; results],
        ..function(name, |body| {
            body.reals = 4096;
            push(body, Op::Jump, &[Operand::Target(0)]);
        })
    };
    module.functions.push(callee("take", 4096, 0));
    module.functions.push(callee("give", 0, 4095));
    let body = &mut module.functions[0].body;
    body.code.clear();
    for start in starts() {
        // `give` has a result too few for the last register of each range, which is assigned alone.
        let results = regs(start)[..4095].to_vec();
        push(body, Op::Call, &[Operand::Func(2), Operand::Uses(vec![]), Operand::Defs(results)]);
        push(body, Op::Const, &[Operand::Def(Reg::real(start + 4095)), Operand::Real(0.0)]);
    }
    for _ in 0..1 << 20 {
        let next = body.code.len() as u32 + 1;
        push(body, Op::Jump, &[Operand::Target(next)]);
    }
    for start in starts() {
        push(body, Op::Call, &[Operand::Func(1), Operand::Uses(regs(start)), Operand::Defs(vec![])]);
    }
    push(body, Op::Ret, &[Operand::Uses(vec![])]);
    module
}

/// A fork of tasks with so many arguments and results each.
pub(crate) fn wide_fork(tasks: usize, params: usize, results: usize) -> ModuleDef {
    let regs = |start: usize, count: usize| (start..start + count).map(|n| Reg::real(n as u16)).collect::<Vec<_>>();
    let callee = Function {
        params: vec![ValueType::Real; params],
        results: vec![ValueType::Real; results],
        ..function("callee", |body| {
            body.reals = 4096;
            push(body, Op::Jump, &[Operand::Target(0)]);
        })
    };
    let caller = Function {
        params: vec![ValueType::Real; params],
        ..function("caller", |body| {
            body.reals = (params + tasks * results) as u32;
            push(body, Op::Fork, &[Operand::Int(tasks as i64)]);
            for task in 0..tasks {
                let defs = regs(params + task * results, results);
                push(body, Op::Task, &[Operand::Func(0), Operand::Uses(regs(0, params)), Operand::Defs(defs)]);
            }
            push(body, Op::Ret, &[Operand::Uses(vec![])]);
        })
    };
    ModuleDef { functions: vec![callee, caller], ..ModuleDef::default() }
}

/// A data type without values.
fn no_data(name: &str) -> DataDef {
    DataDef { name: name.into(), ty: TypeId(0), variants: vec![] }
}

pub(crate) fn function(name: &str, code: impl FnOnce(&mut Body)) -> Function {
    let mut body = Body::default();
    code(&mut body);
    Function { name: name.into(), params: vec![], results: vec![], interface: None, body }
}

pub(crate) fn a_module(function: Function) -> ModuleDef {
    ModuleDef { functions: vec![function], ..ModuleDef::default() }
}

pub(crate) fn push(body: &mut Body, op: Op, operands: &[Operand]) {
    body.push(op, operands).expect("the operands have the table's roles");
}
