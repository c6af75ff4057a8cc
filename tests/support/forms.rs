//! A module in all of its forms: in memory, in text and in binary form it says the same.

use dualvm_vm::isa::Op;
use dualvm_vm::module::{Function, ModuleDef};
use dualvm_vm::verify::{Rule, VerifyError};
use dualvm_vm::{binary, text};

/// Checks the forms of a module of which the verifier says this. A refused one need not have a binary form, but what it
/// has must be as good as the module. `Err` says what is wrong.
pub(crate) fn check(def: &ModuleDef, verdict: &Result<(), Vec<VerifyError>>) -> Result<(), String> {
    if let Err(errors) = verdict
        && (errors.is_empty() || errors.iter().any(|error| error.to_string().is_empty()))
    {
        return Err(format!("refused without saying why: {errors:?}"));
    }
    let accepted = verdict.is_ok();
    let printed = text::print(def);
    // Modules may hold NaN, so they are compared by what they print.
    let same = |what: &str, other: &ModuleDef| match text::print(other) {
        again if again == printed => Ok(()),
        again => Err(format!("{what} comes back as\n{again}\nand was\n{printed}")),
    };
    let is_written = |function: &Function| {
        let body = &function.body;
        body.code.iter().all(|inst| Op::ALL.contains(&inst.op) && body.operands(inst).is_some())
    };
    // Text holds no types that nest more deeply than those of a valid module.
    let deep = |errors: &Vec<VerifyError>| errors.iter().any(|error| error.rule == Rule::InterfaceDepth);
    let is_written = accepted || def.functions.iter().all(is_written) && !verdict.as_ref().is_err_and(deep);
    let parsed = match text::parse(&printed, "module.dvs") {
        Ok(parsed) => Some(parsed),
        Err(errors) if is_written => return Err(format!("printed, but can't be parsed: {}\n{printed}", errors[0])),
        Err(_) => None,
    };
    parsed.as_ref().map_or(Ok(()), |parsed| same("text", parsed))?;
    let bytes = match binary::encode(def) {
        Ok(bytes) => bytes,
        Err(error) if accepted => return Err(format!("accepted, but can't be encoded: {error}")),
        Err(_) => return Ok(()),
    };
    match binary::decode(&bytes) {
        Ok(decoded) => {
            same("binary", &decoded)?;
            if binary::encode(&decoded).as_ref() != Ok(&bytes) {
                return Err("encoded twice to other bytes".into());
            }
        }
        Err(error) if accepted => return Err(format!("accepted, but can't be decoded: {error}")),
        Err(_) => {}
    }
    match parsed.map(|parsed| binary::encode(&parsed)) {
        Some(from_text) if accepted && from_text.as_ref() != Ok(&bytes) => Err("text encodes to other bytes".into()),
        _ => Ok(()),
    }
}
