//! Rules on a function: its signature, its registers, and what operand roles say of its instructions.

use super::{Fault, Report, Rule, assignment, forks, limits, type_of, types, typing};
use crate::bytecode::isa::{Bank, Inst, Operand, Reg};
use crate::bytecode::module::{Body, DebugInfo, Function, Place, ValueType};

/// Checks a function. Later rules are looked at only where the ones that they rely on hold.
pub(super) fn check(function: &Function, report: &mut Report) {
    let errors = report.errors.len();
    if !check_signature(function, report) || !check_registers(function, report) {
        return;
    }
    if let Some(interface) = &function.interface {
        types::check_interface(function, interface, report);
    }
    if !check_length(&function.body, report) {
        return;
    }
    check_instructions(function, report);
    if report.errors.len() == errors {
        forks::check(function, report);
    }
    check_locations(&function.body, report);
    if report.errors.len() == errors {
        assignment::check(function, report);
    }
}

fn check_signature(function: &Function, report: &mut Report) -> bool {
    for (what, count) in [("parameters", function.params.len()), ("results", function.results.len())] {
        if count > limits::PARAMS_MAX {
            let expected = format!("at most {} {what}", limits::PARAMS_MAX);
            report.fail(Rule::ParamCount, expected, count.to_string());
            return false;
        }
    }
    let types = function.params.iter().chain(&function.results).copied();
    report.check_known(types, || "the signature".into())
}

fn check_registers(function: &Function, report: &mut Report) -> bool {
    let body = &function.body;
    let counts =
        [(Bank::Real, u64::from(body.reals)), (Bank::Int, u64::from(body.ints)), (Bank::Ref, body.refs.len() as u64)];
    for (bank, count) in counts {
        let (letter, max) = (bank.letter(), limits::REGISTERS_MAX);
        let params = function.params.iter().filter(|ty| ty.bank() == bank).count() as u64;
        if count > u64::from(max) {
            report.fail(Rule::RegisterCount, format!("at most {max} registers `{letter}`"), count.to_string());
            return false;
        }
        if count < params {
            report.fail(Rule::ParamRegisters, format!("{params} registers `{letter}` or more"), count.to_string());
            return false;
        }
    }
    if !report.check_known(body.refs.iter().map(|&id| ValueType::Ref(id)), || "a register".into()) {
        return false;
    }
    for (&param, reg) in function.params.iter().zip(function.param_regs()) {
        let ty = type_of(function, reg);
        if ty != param {
            report.fail(
                Rule::ParamType,
                format!("{} in {reg}", super::name(param)),
                format!("{reg} of type {}", super::name(ty)),
            );
        }
    }
    true
}

fn check_length(body: &Body, report: &mut Report) -> bool {
    let (count, max) = (body.code.len(), limits::INSTRUCTIONS_MAX);
    let fits = (1..=max).contains(&count);
    if !fits {
        report.fail(Rule::CodeLength, format!("1 to {max} instructions"), count.to_string());
    }
    fits
}

fn check_instructions(function: &Function, report: &mut Report) {
    let mut scan = Scan { function, entries: 0, seen: Vec::new() };
    for (at, inst) in function.body.code.iter().enumerate() {
        if report.is_full() || scan.entries > limits::LIST_ENTRIES_MAX {
            break;
        }
        if let Err(fault) = scan.check(inst, report) {
            report.fail_at(at, fault);
        }
    }
    let last = function.body.code.len() - 1;
    if !function.body.code[last].op.is_terminator() {
        let found = format!("`{}`", function.body.code[last].op.info().mnemonic);
        report.fail_at(last, Fault::new(Rule::FallsOff, "a terminator as the last instruction", found));
    }
}

/// A pass over a function's instructions.
struct Scan<'m> {
    function: &'m Function,
    /// Entries of the operand lists so far.
    entries: usize,
    /// Scratch space for finding duplicates.
    seen: Vec<Reg>,
}

impl Scan<'_> {
    fn check(&mut self, inst: &Inst, report: &Report) -> Result<(), Fault> {
        let body = &self.function.body;
        let Some(operands) = body.operands(inst) else {
            let expected = format!("lists in {} registers and {} targets", body.regs.len(), body.targets.len());
            return Err(Fault::new(Rule::ListBounds, expected, "a list that reaches outside"));
        };
        let bits = Body::operand_bits(inst.op);
        if (inst.a & !bits.a, inst.b & !bits.b, inst.c & !bits.c, inst.imm & !bits.imm) != (0, 0, 0, 0) {
            return Err(Fault::new(Rule::UnusedBits, "zero in fields without an operand", format!("{inst:?}")));
        }
        for operand in &operands {
            self.check_operand(operand, report)?;
        }
        typing::check(self.function, inst.op, &operands, report)
    }

    /// Checks what the operand's role says. Whether the instruction's operands fit together is `typing`'s.
    fn check_operand(&mut self, operand: &Operand, report: &Report) -> Result<(), Fault> {
        match operand {
            Operand::Def(reg) | Operand::Use(reg) => self.check_reg(*reg),
            Operand::Uses(list) => {
                self.count(list.len())?;
                list.iter().try_for_each(|&reg| self.check_reg(reg))
            }
            Operand::Defs(list) => {
                self.count(list.len())?;
                list.iter().try_for_each(|&reg| self.check_reg(reg))?;
                self.check_distinct(list)
            }
            Operand::Target(target) => self.check_target(*target),
            Operand::Targets(list) => {
                self.count(list.len())?;
                list.iter().try_for_each(|&target| self.check_target(target))
            }
            Operand::Func(func) => {
                let count = report.module.functions.len();
                check_below(Rule::FunctionBounds, 'f', *func, count)
            }
            Operand::Message(message) => {
                let count = report.module.messages.len();
                check_below(Rule::MessageBounds, 'm', *message, count)
            }
            Operand::Template(template) => {
                let count = report.module.templates.len();
                check_below(Rule::TemplateBounds, 's', *template, count)
            }
            Operand::Import(import) => {
                let count = report.module.imports.len();
                check_below(Rule::ImportBounds, 'x', *import, count)
            }
            Operand::Real(_) | Operand::Int(_) | Operand::Field(_) | Operand::Tag(_) | Operand::Count(_) => Ok(()),
        }
    }

    fn check_reg(&self, reg: Reg) -> Result<(), Fault> {
        let body = &self.function.body;
        let count = match reg.bank {
            Bank::Real => body.reals as usize,
            Bank::Int => body.ints as usize,
            Bank::Ref => body.refs.len(),
        };
        check_below(Rule::RegisterBounds, reg.bank.letter(), u32::from(reg.index), count)
    }

    fn check_target(&self, target: u32) -> Result<(), Fault> {
        let count = self.function.body.code.len();
        if (target as usize) < count {
            return Ok(());
        }
        let expected = format!("an instruction below {count}");
        Err(Fault::new(Rule::TargetBounds, expected, target.to_string()))
    }

    fn check_distinct(&mut self, regs: &[Reg]) -> Result<(), Fault> {
        self.seen.clear();
        self.seen.extend_from_slice(regs);
        self.seen.sort_unstable();
        match self.seen.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => {
                let found = format!("{} twice", pair[0]);
                Err(Fault::new(Rule::DuplicateResult, "a register of its own for each result", found))
            }
        }
    }

    fn count(&mut self, entries: usize) -> Result<(), Fault> {
        self.entries += entries;
        if self.entries <= limits::LIST_ENTRIES_MAX {
            return Ok(());
        }
        let expected = format!("at most {} entries in the function", limits::LIST_ENTRIES_MAX);
        Err(Fault::new(Rule::ListEntries, expected, "more"))
    }
}

/// Checks that the thing with this letter and number is one of `count`.
fn check_below(rule: Rule, letter: char, number: u32, count: usize) -> Result<(), Fault> {
    if (number as usize) < count {
        return Ok(());
    }
    let expected = match count {
        0 => format!("none, for there is no `{letter}`"),
        _ => format!("one of {letter}0 to {letter}{}", count - 1),
    };
    Err(Fault::new(rule, expected, format!("{letter}{number}")))
}

fn check_locations(body: &Body, report: &mut Report) {
    let mut next = 0;
    for location in &body.locations {
        if !(next..body.code.len()).contains(&(location.inst as usize)) {
            let expected = format!("ascending instructions below {}", body.code.len());
            return report.fail(Rule::Locations, expected, location.inst.to_string());
        }
        let calls = report.module.debug.calls.len();
        if let Err((expected, found)) =
            check_place(location.place, &report.module.debug).and_then(|()| check_call(location.call, calls))
        {
            return report.fail(Rule::Locations, expected, found);
        }
        next = location.inst as usize + 1;
    }
}

/// The tables that locations refer to.
pub(super) fn check_debug(report: &mut Report) {
    let debug = &report.module.debug;
    for (number, call) in debug.calls.iter().enumerate() {
        let checked = check_place(call.place, debug).and_then(|()| check_call(call.within, number));
        if let Err((expected, found)) = checked {
            return report.fail(Rule::Locations, expected, found);
        }
    }
}

/// What was expected of a place, and what was found; a place without a source is in the only one, which has no name.
fn check_place(place: Place, debug: &DebugInfo) -> Result<(), (String, String)> {
    let Place { source, line, column } = place;
    let sources = debug.sources.len().max(1);
    if source as usize >= sources {
        return Err((format!("a source below {sources}"), source.to_string()));
    }
    if line == 0 || column == 0 {
        return Err(("line and column counted from 1".into(), format!("{line}:{column}")));
    }
    Ok(())
}

/// The same of a call, of which there are so many.
fn check_call(call: Option<u32>, calls: usize) -> Result<(), (String, String)> {
    match call {
        Some(call) if call as usize >= calls => Err((format!("an inlined call below {calls}"), call.to_string())),
        _ => Ok(()),
    }
}
