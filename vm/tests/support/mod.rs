//! Modules and random numbers that several tests use.
#![allow(dead_code, reason = "each test file uses a part")]

use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role};
use dualvm_vm::module::{
    Body, DataId, DebugInfo, FuncId, Function, HostType, Import, InlinedCall, Interface, Location, ModuleDef, Piece,
    Place, SourceFile, Template,
};
use dualvm_vm::text::parse;

/// A module with every instruction that the verifier accepts.
pub(crate) fn verified() -> ModuleDef {
    read(include_str!("../data/every_instruction.dvs"))
}

/// The module that a text stands for.
pub(crate) fn read(text: &str) -> ModuleDef {
    parse(text, "test.dvs").unwrap_or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}", errors.join("\n\n"))
    })
}

/// A module with every instruction, made from operand roles alone, with operands at the edges of what can be written.
/// Most of it makes no sense, so the verifier refuses it; all forms can write it.
pub(crate) fn from_roles() -> ModuleDef {
    let mut body = Body { reals: 65536, ints: 65536, ..Body::default() };
    for edge in [false, true] {
        for &op in Op::ALL {
            let operands: Vec<Operand> = op.info().operands.iter().map(|info| operand(info.role, edge)).collect();
            body.push(op, &operands).expect("the operands have the table's roles");
        }
    }
    body.locations = vec![
        Location { inst: 0, place: place(0, 1, 1), call: None },
        Location { inst: 7, place: place(u32::MAX, u32::MAX, u32::MAX), call: Some(u32::MAX) },
        Location { inst: 8, place: place(1, 3, 1), call: Some(0) },
    ];
    let function =
        Function { name: "every \"instruction\"\n".into(), params: vec![], results: vec![], interface: None, body };
    let sources = [("λ.dual", false), ("list.dual", true)];
    let sources = sources
        .map(|(name, is_library)| SourceFile { name: name.into(), is_library, digest: is_library.then_some([7; 32]) })
        .into();
    let calls = vec![
        InlinedCall { callee: "f".into(), place: place(0, 1, 2), within: None },
        InlinedCall { callee: "λ \"g\"".into(), place: place(u32::MAX, u32::MAX, 1), within: Some(u32::MAX) },
    ];
    let debug = DebugInfo { sources, calls };
    let text = |text: &str| Piece::Text(text.into());
    let data = HostType::Data { name: "by".into(), data: DataId(u32::MAX) };
    let templates = vec![
        Template { pieces: vec![], func: Some(FuncId(u32::MAX)) },
        Template { pieces: vec![text(""), text("{λ}\"\n"), Piece::Value(data), text("")], func: None },
    ];
    let traced = vec![(FuncId(u32::MAX), FuncId(0)), (FuncId(0), FuncId(u32::MAX)), (FuncId(0), FuncId(0))];
    let interface = Interface { params: vec![("λ".into(), HostType::Int)], result: HostType::Tuple(vec![]) };
    let imports = vec![Import { name: "\"λ\n".into(), interface }];
    ModuleDef { debug, templates, imports, traced, functions: vec![function], ..ModuleDef::default() }
}

fn place(source: u32, line: u32, column: u32) -> Place {
    Place { source, line, column }
}

fn operand(role: Role, edge: bool) -> Operand {
    let index = if edge { u16::MAX } else { 1 };
    let wide = if edge { u32::MAX } else { 0 };
    let reg = |bank| Reg { bank, index };
    let regs = || if edge { vec![] } else { [Bank::Ref, Bank::Real, Bank::Int].map(reg).to_vec() };
    match role {
        Role::Def(bank) => Operand::Def(reg(bank)),
        Role::Use(bank) => Operand::Use(reg(bank)),
        Role::Real => Operand::Real(if edge { f64::from_bits(0x7ff0_0000_0000_0001) } else { -0.0 }),
        Role::Int => Operand::Int(if edge { i64::MIN } else { 1 }),
        Role::Field => Operand::Field(index),
        Role::Tag => Operand::Tag(index),
        Role::Count => Operand::Count(index),
        Role::Target => Operand::Target(wide),
        Role::Targets => Operand::Targets(if edge { vec![wide; 3] } else { vec![0, 9, 5] }),
        Role::Func => Operand::Func(wide),
        Role::Message => Operand::Message(wide),
        Role::Template => Operand::Template(wide),
        Role::Import => Operand::Import(wide),
        Role::Uses => Operand::Uses(regs()),
        Role::Defs => Operand::Defs(regs()),
    }
}

/// A small generator of random numbers (Marsaglia 2003, xorshift64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }
}
