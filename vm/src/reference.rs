//! The reference page of the instruction set, made from the table.

use crate::isa::{Op, OpInfo, Role};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Instructions

Made from the table in `vm/src/isa.rs`; change that, then run `DUALVM_BLESS=1 cargo test -p dualvm-vm --test reference`.
The forms that instructions take in files are in [bytecode.md](bytecode.md).

Registers are `r` (reals), `i` (integers) and `p` (references). An operand is written `name: kind`, and a register
that the instruction writes has an arrow before it.
";

const SCALAR: &str = "
## Scalar instructions

Pure functions of registers. The last column has, for each real operand in order, what the adjoint of the result `r`
contributes to the adjoint of the operand: `Pass` it as it is, `Negate` it, `Scale(x)` it by the partial `x`, or keep it
where a condition holds (`KeepIf`) or doesn't (`KeepUnless`). `passive` instructions have derivative zero.

| code | instruction | meaning | derivative |
|---|---|---|---|
";

const STRUCTURAL: &str = "
## Structural instructions

They move values with their derivatives, branch, call, and work on heap objects. Lists of registers have the types
that the function, the closure or the object's type declares.

| code | instruction | meaning |
|---|---|---|
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
    let operands: Vec<String> =
        info.operands.iter().map(|operand| format!("{}: {}", operand.name, kind(operand.role))).collect();
    let doc = cell(info.doc.trim());
    write!(out, "| `0x{:02x}` | `{}` {} | {doc} |", info.op.code(), info.mnemonic, operands.join(", "))
        .expect("writing to a string succeeds");
    for cell in more {
        write!(out, " {cell} |").expect("writing to a string succeeds");
    }
    out.push('\n');
}

fn kind(role: Role) -> String {
    match role {
        Role::Def(bank) => format!("→ `{}`", bank.letter()),
        Role::Use(bank) => format!("`{}`", bank.letter()),
        Role::Real => "real constant".into(),
        Role::Int => "integer constant".into(),
        Role::Field => "field number".into(),
        Role::Tag => "tag".into(),
        Role::Target => "target".into(),
        Role::Targets => "list of targets".into(),
        Role::Func => "function".into(),
        Role::Message => "message".into(),
        Role::Uses => "list of registers".into(),
        Role::Defs => "→ list of registers".into(),
    }
}

/// Text for a cell of a table, where a bar would start the next one.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
