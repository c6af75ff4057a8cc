//! The reference page of the instruction set, made from the table.

use crate::bytecode::isa::{Bank, Op, OpInfo, OperandInfo, Role};
use crate::bytecode::text::synopsis;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Instructions

Made from the table in `vm/src/bytecode/isa.rs`; change that, then run
`DUALVM_BLESS=1 cargo test -p dualvm-vm --test reference`. The forms that instructions take
in files are in [bytecode.md](bytecode.md).

An instruction is shown as the text form writes it. Its operands are registers that it reads (a `real`, an `int` or a
`ref`) or writes (`out real` and so on), lists of registers of any kind, and constants.
";

const SCALAR: &str = "
## Scalar instructions

Pure functions of registers. The last column has, for each real operand in order, what the adjoint of the result `r`
contributes to the adjoint of the operand: `Pass` it as it is, `Negate` it, `Scale(x)` it by the partial `x`, or keep it
where a condition holds (`KeepIf`) or doesn't (`KeepUnless`). `passive` instructions have derivative zero.

| code | instruction | operands | meaning | derivative |
|---|---|---|---|---|
";

const STRUCTURAL: &str = "
## Structural instructions

They move values with their derivatives, branch, call, and work on heap objects. Lists of registers have the types
that the function, the closure or the object's type declares.

| code | instruction | operands | meaning |
|---|---|---|---|
";

/// The reference page in Markdown: every instruction with its code, operands, meaning and derivative.
pub fn instructions_markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    out.push_str(SCALAR);
    for op in Op::ALL.iter().filter(|op| op.is_scalar()) {
        let info = op.info();
        let derivative = match info.derivative.trim().trim_end_matches(';') {
            "" => "passive".to_owned(),
            partials => {
                partials.split("; ").map(|partial| format!("`{}`", cell(partial))).collect::<Vec<_>>().join(", ")
            }
        };
        row(&mut out, info, &[&derivative]);
    }
    out.push_str(STRUCTURAL);
    for op in Op::ALL.iter().filter(|op| !op.is_scalar()) {
        row(&mut out, op.info(), &[]);
    }
    out
}

fn row(out: &mut String, info: &OpInfo, more: &[&str]) {
    let operands: Vec<String> = info.operands.iter().map(operand).collect();
    let (synopsis, doc) = (synopsis(info.op), cell(info.doc.trim()));
    write!(out, "| `0x{:02x}` | `{synopsis}` | {} | {doc} |", info.op.code(), operands.join(", "))
        .expect("writing to a string succeeds");
    for cell in more {
        write!(out, " {cell} |").expect("writing to a string succeeds");
    }
    out.push('\n');
}

fn operand(operand: &OperandInfo) -> String {
    let bank = |bank| match bank {
        Bank::Real => "real",
        Bank::Int => "int",
        Bank::Ref => "ref",
    };
    let kind = match operand.role {
        Role::Def(written) => format!("out {}", bank(written)),
        Role::Use(read) => bank(read).into(),
        Role::Real => "real constant".into(),
        Role::Int => "int constant".into(),
        Role::Field => "field number".into(),
        Role::Tag => "tag".into(),
        Role::Count => "number of registers".into(),
        Role::Target => "target".into(),
        Role::Targets => "targets".into(),
        Role::Func => "function".into(),
        Role::Message => "message".into(),
        Role::Template => "template".into(),
        Role::Import => "import".into(),
        Role::Uses => "registers".into(),
        Role::Defs => "out registers".into(),
    };
    format!("{kind} `{}`", operand.name)
}

/// Text for a cell of a table, where a bar would start the next one.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
