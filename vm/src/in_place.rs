//! Derivatives of small functions, written out in the place of the operators that take them.
//!
//! An operator costs some hundred nanoseconds: room for arguments at another depth, or a tape of its own. Where its
//! function is a few instructions, that is most of what a derivative costs. So a `jvp` whose function calls nothing is
//! replaced by the function's code with that of its tangents beside it ([`forward`]), a `vjp` whose function is one
//! straight piece of code by that piece and its adjoint ([`reverse`]). What comes out is ordinary bytecode: it is
//! hoisted, cut into records, made into regions and compiled with what stands around it, and the derivatives of outer
//! operators are derived of it like of any other code. An operator in the function was replaced before, so derivatives
//! of any order come about in place.
//!
//! The rules are those of [`crate::derivation`]; here is only what becomes of registers and of control flow. What is
//! replaced depends on the code alone and is decided once for a module, so that all engines, threads and depths run
//! the same code. The module that its maker sees, prints and encodes is the one without replacements.
//!
//! That perturbations can't be confused needs no argument here: an infinitesimal has become registers that nothing else
//! knows of (Siskind and Pearlmutter 2008, "Nesting forward-mode AD in a functional framework", need a tag where it is
//! a value).

mod forward;
mod reverse;
mod writer;

#[cfg(all(test, not(loom)))]
mod tests;

use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg};
use crate::bytecode::module::{Body, FuncId, Function, ModuleDef, TypeDef, TypeId, ValueType};
use crate::preparation::flow::FlowGraph;
use crate::preparation::segmentation::constant_registers;
use crate::running::meter::Watch;
use std::collections::{HashMap, HashSet};
use writer::{Declined, Writer};

/// A function with more instructions isn't written out in place of an operator, and neither is a derivative that would
/// take more.
const CALLEE_MAX: usize = 256;
const SITE_MAX: usize = 1024;
/// A function gets no more instructions than this in place of its operators: at a depth there are many of each.
const FUNCTION_MAX: usize = 2048;
const REGISTERS_MAX: usize = 1024;
/// Operators in functions of operators are followed so deep.
const NESTING_MAX: usize = 16;
/// A module grows by no more than so many instructions, and as many as it has. What is done to find out what to write
/// counts, too, whether or not it is written.
const GROWTH: usize = 1 << 14;
/// A function with more edges in its control flow, times registers, isn't written out.
const EDGES_MAX: usize = 1 << 14;

/// A module with small derivatives written out.
pub(crate) struct Expanded {
    pub(crate) def: ModuleDef,
    /// For each function that is another one now, the numbers that its instructions had.
    pub(crate) origins: HashMap<FuncId, Vec<u32>>,
}

/// Writes small derivatives out; `None` if there are none. Linear in the size of the module, which must have passed the
/// verifier.
pub(crate) fn expand(def: &ModuleDef) -> Option<Expanded> {
    let of_reals = TypeDef::Builder(ValueType::Real);
    let builder = def.types.iter().position(|ty| *ty == of_reals);
    let new = TypeId(builder.unwrap_or(def.types.len()) as u32);
    let mut expansion = Expansion { def, builder: new, bodies: HashMap::new(), declined: HashSet::new(), left: GROWTH };
    let has_operator = |function: &Function| function.body.code.iter().any(|inst| is_replaced(inst.op));
    expansion.left += def.functions.iter().map(|function| function.body.code.len()).sum::<usize>();
    for (index, _) in def.functions.iter().enumerate().filter(|(_, function)| has_operator(function)) {
        expansion.function(FuncId(index as u32), NESTING_MAX);
    }
    let bodies = expansion.bodies;
    bodies.values().any(Option::is_some).then(|| {
        let mut expanded = def.clone();
        if builder.is_none() {
            expanded.types.push(of_reals);
        }
        let mut all = HashMap::new();
        for (func, replaced) in bodies {
            if let Some((body, origins)) = replaced {
                expanded.functions[func.index()].body = body;
                all.insert(func, origins);
            }
        }
        Expanded { def: expanded, origins: all }
    })
}

/// Whether an instruction is one that may be replaced.
fn is_replaced(op: Op) -> bool {
    matches!(op, Op::Jvp | Op::Vjp)
}

/// An operator that is to be replaced.
struct Site<'a> {
    module: &'a ModuleDef,
    /// The function, with its own operators replaced.
    callee: &'a Function,
    body: &'a Body,
    captures: usize,
    /// The type of builders of reals.
    builder: TypeId,
    args: Vec<Reg>,
    results: Vec<Reg>,
    /// What the registers of the caller always hold, by bank.
    constants: [&'a HashMap<u16, u64>; 2],
}

impl Site<'_> {
    /// What a register of the caller holds, if it is always the same.
    fn constant(&self, reg: Reg) -> Option<u64> {
        match reg.bank {
            Bank::Real => self.constants[0].get(&reg.index).copied(),
            Bank::Int => self.constants[1].get(&reg.index).copied(),
            Bank::Ref => None,
        }
    }

    /// The parameters of the function: type, its register there, and the caller's register with the argument.
    fn params(&self) -> impl Iterator<Item = (ValueType, Reg, Reg)> {
        let regs = self.callee.param_regs().into_iter().zip(self.args.clone());
        self.callee.params.clone().into_iter().zip(regs).map(|(ty, (own, given))| (ty, own, given))
    }
}

struct Expansion<'a> {
    def: &'a ModuleDef,
    builder: TypeId,
    /// For each function that was looked at, its new code and where that is from, if it has any.
    bodies: HashMap<FuncId, Option<(Body, Vec<u32>)>>,
    /// Functions that an operator isn't written out for. They aren't tried again, which bounds what a module costs.
    declined: HashSet<(FuncId, Op)>,
    /// How many instructions may still be added.
    left: usize,
}

impl Expansion<'_> {
    /// Replaces the operators of a function.
    fn function(&mut self, func: FuncId, nesting: usize) {
        if self.bodies.contains_key(&func) {
            return;
        }
        // Meanwhile it is what it was, for functions that are applied to themselves.
        self.bodies.insert(func, None);
        let function = &self.def.functions[func.index()];
        for inst in function.body.code.iter().filter(|inst| is_replaced(inst.op)) {
            if let Some(callee) = callee_of(&function.body, inst)
                && nesting > 0
            {
                self.function(callee, nesting - 1);
            }
        }
        let body = self.replaced(function);
        self.bodies.insert(func, body);
    }

    /// The code of a function with its operators replaced; `None` if none of them is.
    fn replaced(&mut self, function: &Function) -> Option<(Body, Vec<u32>)> {
        let body = &function.body;
        let watch = Watch::none();
        let flow = FlowGraph::of(body, &watch).ok()?;
        let constants = [Bank::Real, Bank::Int].map(|bank| {
            let params = function.params.iter().filter(|ty| ty.bank() == bank).count();
            constant_registers(body, &flow, bank, params, &watch).unwrap_or_default()
        });
        let mut writer = Writer::new(body);
        let mut any = false;
        let mut left = FUNCTION_MAX;
        for (at, &inst) in body.code.iter().enumerate() {
            writer.begin_old();
            let location = body.location(at as u32);
            writer.set_location(location);
            if is_replaced(inst.op) && left > 0 {
                writer.begin_site();
                let (mark, before) = (writer.mark(), writer.here());
                if self.replace(&mut writer, body, &inst, [&constants[0], &constants[1]]).is_ok() {
                    left = left.saturating_sub((writer.here() - before) as usize);
                    any = true;
                    continue;
                }
                writer.back_to(&mark);
                writer.set_location(location);
            }
            writer.keep(inst);
        }
        any.then(|| writer.finish().ok()).flatten()
    }

    /// Writes the derivative that an operator takes.
    fn replace(
        &mut self,
        writer: &mut Writer,
        body: &Body,
        inst: &Inst,
        constants: [&HashMap<u16, u64>; 2],
    ) -> Result<(), Declined> {
        let operands = body.operands(inst).ok_or(Declined)?;
        let [Operand::Func(func), Operand::Count(captures), Operand::Uses(args), Operand::Defs(results)] =
            &operands[..]
        else {
            return Err(Declined);
        };
        let func = FuncId(*func);
        if self.declined.contains(&(func, inst.op)) {
            return Err(Declined);
        }
        let callee = &self.def.functions[func.index()];
        let new_body = self.bodies.get(&func).and_then(Option::as_ref);
        let site = Site {
            module: self.def,
            callee,
            body: new_body.map_or(&callee.body, |(body, _)| body),
            captures: usize::from(*captures),
            builder: self.builder,
            args: args.clone(),
            results: results.clone(),
            constants,
        };
        let before = writer.here();
        let outcome = write(writer, &site, inst.op);
        let written = (writer.here() - before) as usize;
        // The function was read, even if little of it is needed.
        let effort = written.max(site.body.code.len().min(CALLEE_MAX));
        let left = self.left.checked_sub(effort);
        self.left = left.unwrap_or(0);
        if outcome.is_err() || written > SITE_MAX || left.is_none() {
            self.declined.insert((func, inst.op));
            return Err(Declined);
        }
        Ok(())
    }
}

/// Writes the derivative that an operator takes of its function.
fn write(writer: &mut Writer, site: &Site<'_>, op: Op) -> Result<(), Declined> {
    let registers = site.body.reals as usize + site.body.ints as usize + site.body.refs.len();
    if site.body.code.len() > CALLEE_MAX || registers > REGISTERS_MAX {
        return Err(Declined);
    }
    let flow = FlowGraph::of(site.body, &Watch::none()).map_err(|_| Declined)?;
    if flow.edge_count().saturating_mul(registers) > EDGES_MAX {
        return Err(Declined);
    }
    if op == Op::Jvp {
        return forward::write(writer, site, &flow);
    }
    let mark = writer.mark();
    reverse::write(writer, site, &flow).or_else(|Declined| {
        writer.back_to(&mark);
        forward::write_lanes(writer, site, &flow)
    })
}

/// The function that an operator is applied to.
fn callee_of(body: &Body, inst: &Inst) -> Option<FuncId> {
    match body.operands(inst)?.first() {
        Some(Operand::Func(func)) => Some(FuncId(*func)),
        _ => None,
    }
}
