//! Derivatives that are written as code: in the place of the operators that take them, or as functions of their own.
//!
//! An operator costs some hundred nanoseconds: room for arguments at another depth, or a tape of its own. Where its
//! function is a few instructions, that is most of what a derivative costs. So a `jvp` is replaced by the function's
//! code with that of its tangents beside it ([`forward`]), a `vjp` whose function is one straight piece of code by that
//! piece and its adjoint ([`reverse`]). Where there is more of it, a `jvp` becomes a call of a function that gives
//! tangents with its values ([`tangent_functions`]), and so does every call in the code of tangents; a host's
//! derivatives in a direction have such a function, too. What comes out is ordinary bytecode: it is hoisted, cut into
//! records, made into regions and compiled with what stands around it, and the derivatives of outer operators are
//! derived of it like of any other code. An operator in the function was replaced before, so derivatives of any order
//! come about in this way.
//!
//! The rules are those of [`crate::derivation`]; here is only what becomes of registers and of control flow. What is
//! replaced depends on the code alone and is decided once for a module, so that all engines, threads and depths run
//! the same code. The module that its maker sees, prints and encodes is the one without replacements.
//!
//! That perturbations can't be confused needs no argument here: an infinitesimal has become registers that nothing else
//! knows of (Siskind and Pearlmutter 2008, "Nesting forward-mode AD in a functional framework", need a tag where it is
//! a value).

mod call_sites;
mod forward;
mod reverse;
mod tangent_functions;
mod writer;

#[cfg(all(test, not(loom)))]
mod tests;

use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg};
use crate::bytecode::module::{Body, FuncId, Function, Location, ModuleDef, ValueType, assign_registers};
use crate::bytecode::verify::limits;
use crate::preparation::flow::FlowGraph;
use crate::preparation::segmentation::constant_registers;
use crate::running::meter::Watch;
use call_sites::{CallSites, Moved};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tangent_functions::{Builders, Param, Signature, TangentFunctions, Types, Written};
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
/// A function with tangents isn't written of one with more instructions, or of one that would take more than so many to
/// look at.
const TANGENT_CALLEE_MAX: usize = 4096;
const TANGENT_EFFORT_MAX: usize = 1 << 16;
/// What counts as one instruction: an edge for so many registers, and bytes of a name.
const EDGE_REGISTERS: usize = 16;
const NAME_BYTES: usize = 16;

/// A module with derivatives written as code.
pub(crate) struct Expanded {
    pub(crate) def: ModuleDef,
    /// Where functions that are new, or other ones now, are from.
    pub(crate) origins: HashMap<FuncId, Origins>,
}

/// Where a function's code is from: a function of the module that was expanded, and an instruction there for each.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    pub(crate) func: FuncId,
    pub(crate) insts: Vec<u32>,
}

/// Writes derivatives as code; `None` if there are none. What is looked at and what is written is bounded by the size
/// of the module, which must have passed the verifier.
pub(crate) fn expand(def: &ModuleDef) -> Option<Expanded> {
    let mut expansion = Expansion::of(def);
    let has_operator = |function: &Function| function.body.code.iter().any(|inst| is_replaced(inst.op));
    // What is written for the others doesn't depend on what twins there are.
    let in_twins = only_in_twins(def);
    for only in [false, true] {
        if only {
            expansion.left = growth(def, |index| in_twins[index]);
        }
        for (index, function) in def.functions.iter().enumerate().filter(|(index, _)| in_twins[*index] == only) {
            if has_operator(function) {
                expansion.function(FuncId(index as u32), NESTING_MAX);
            }
        }
    }
    expansion.finish()
}

/// By how many instructions a module may grow for some of its functions.
fn growth(def: &ModuleDef, has: impl Fn(usize) -> bool) -> usize {
    let sizes = def.functions.iter().enumerate().filter(|&(index, _)| has(index));
    GROWTH + sizes.map(|(_, function)| size(&function.body)).sum::<usize>()
}

/// For each function, whether none but traced twins leads to it.
fn only_in_twins(def: &ModuleDef) -> Vec<bool> {
    if def.traced.is_empty() {
        return vec![false; def.functions.len()];
    }
    let reached = |from: &mut dyn Iterator<Item = FuncId>| reached(def, from.collect());
    let exported = def.functions.iter().enumerate().filter(|(_, function)| function.interface.is_some());
    let called = reached(&mut exported.map(|(index, _)| FuncId(index as u32)));
    let mut only = reached(&mut def.traced.iter().map(|&(_, twin)| twin));
    only.iter_mut().zip(called).for_each(|(only, called)| *only &= !called);
    only
}

/// For each function, whether it is among these or one of them leads to it.
fn reached(def: &ModuleDef, from: Vec<FuncId>) -> Vec<bool> {
    let mut reached = vec![false; def.functions.len()];
    let mut found = from;
    while let Some(func) = found.pop() {
        if !std::mem::replace(&mut reached[func.index()], true) {
            let body = &def.functions[func.index()].body;
            found.extend(body.code.iter().flat_map(|inst| def.functions_of(body, inst)));
        }
    }
    reached
}

/// A function, and the directions in which tangents are wanted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Directions {
    pub(crate) func: FuncId,
    /// The parameters that may move.
    pub(crate) varied: Box<[bool]>,
    /// How many directions.
    pub(crate) lanes: usize,
}

/// A module in which a function, and what it calls, has a function with tangents, and the number of that: it takes and
/// gives what a `jvp` of the function does, but the tangents of several directions one after the other; of these, an
/// array of reals is the same one in each, with the tangents of all directions for an element side by side. `None` if
/// there is no such function. The module must have been expanded before; functions that aren't reached are gone, but
/// for their types.
pub(crate) fn with_tangents(def: &ModuleDef, directions: &Directions) -> Option<(Expanded, FuncId)> {
    let mut expansion = Expansion::of(def);
    let Directions { func, varied, lanes } = directions.clone();
    let signature = Signature { func, captures: 0, varied, lanes, whole: true };
    let number = [false, true].into_iter().find_map(|dense| {
        let number = expansion.functions.borrow_mut().number(signature.clone()).ok()?;
        let outcome = expansion.complete(0, dense);
        if outcome.is_err() {
            expansion.functions.borrow_mut().truncate(0);
        }
        outcome.ok().map(|()| number)
    })?;
    let mut expanded = expansion.finish()?;
    debug_assert_eq!(crate::bytecode::verify::verify(&expanded.def), Ok(()), "functions with tangents");
    // A host that listens hears the twin first.
    let twin = expanded.def.traced_twin(directions.func);
    keep_reached(&mut expanded.def, [number].into_iter().chain(twin));
    Some((expanded, number))
}

/// Takes the code of all functions away that some don't reach.
fn keep_reached(def: &mut ModuleDef, from: impl Iterator<Item = FuncId>) {
    let reached = reached(def, from.collect());
    for (function, _) in def.functions.iter_mut().zip(reached).filter(|(_, reached)| !reached) {
        function.body = Body::default();
    }
}

/// Takes instructions from those that are left.
fn spend(left: &mut usize, effort: usize) -> Result<(), Declined> {
    let rest = left.checked_sub(effort);
    *left = rest.unwrap_or(0);
    rest.map(|_| ()).ok_or(Declined)
}

/// Instructions, and entries of their lists. What is only shown doesn't count, so that what is written doesn't depend
/// on it.
fn size(body: &Body) -> usize {
    let shown: usize = body.code.iter().map(|inst| body.shown(inst).len()).sum();
    body.computing(0..body.code.len() as u32) + body.regs.len().saturating_sub(shown) + body.targets.len()
}

/// Whether an instruction is one that may be replaced.
fn is_replaced(op: Op) -> bool {
    matches!(op, Op::Jvp | Op::Vjp)
}

/// A function whose derivative is to be written, and where.
struct Site<'a> {
    module: &'a ModuleDef,
    types: &'a Types,
    functions: &'a RefCell<TangentFunctions>,
    /// Where the function's code comes to stand.
    moved: Moved<'a>,
    /// The function, with its own operators replaced.
    callee: &'a Function,
    body: &'a Body,
    captures: usize,
    builders: &'a Builders,
    args: Vec<Reg>,
    results: Vec<Reg>,
    /// What the registers of the caller always hold, by bank.
    constants: &'a Constants,
}

/// What registers hold that always hold the same, reals and integers.
type Constants = [HashMap<u16, u64>; 2];

/// The registers of a function that always hold the same.
fn constants_of(params: &[ValueType], body: &Body, flow: &FlowGraph) -> Constants {
    [Bank::Real, Bank::Int].map(|bank| {
        let params = params.iter().filter(|ty| ty.bank() == bank).count();
        constant_registers(body, flow, bank, params, &Watch::none()).unwrap_or_default()
    })
}

impl Site<'_> {
    /// Where an instruction of the function comes from, as it is said where its code comes to stand.
    fn location(&self, inst: u32) -> Option<Location> {
        self.body.location(inst).map(|location| self.moved.location(location))
    }

    /// What a register of the caller holds, if it is always the same.
    fn constant(&self, reg: Reg) -> Option<u64> {
        match reg.bank {
            Bank::Ref => None,
            bank => self.constants[bank as usize].get(&reg.index).copied(),
        }
    }

    /// The parameters of the function: type, its register there, and the caller's register with the argument.
    fn params(&self) -> impl Iterator<Item = (ValueType, Reg, Reg)> {
        let regs = self.callee.param_regs().into_iter().zip(self.args.clone());
        self.callee.params.clone().into_iter().zip(regs).map(|(ty, (own, given))| (ty, own, given))
    }
}

/// How a derivative is written.
#[derive(Clone, Copy)]
enum Way {
    InPlace,
    /// As a call. Objects that don't vary have none of tangents, unless functions are `dense`.
    Call {
        dense: bool,
    },
}

struct Expansion<'a> {
    def: &'a ModuleDef,
    builders: Builders,
    types: Types,
    /// For each function that was looked at, its new code and where that is from, if it has any.
    bodies: HashMap<FuncId, Option<(Body, Vec<u32>)>>,
    /// Functions whose operators were replaced, and those of all functions that they call.
    reached: HashSet<FuncId>,
    functions: RefCell<TangentFunctions>,
    sites: CallSites<'a>,
    /// Functions that an operator isn't written out for. They aren't tried again, which bounds what a module costs.
    declined: HashSet<(FuncId, Op)>,
    /// The names of all functions, once they are asked for, and how many were tried for each function with tangents.
    names: Option<HashSet<Cow<'a, str>>>,
    names_tried: HashMap<String, u32>,
    /// How many instructions may still be added.
    left: usize,
}

impl<'a> Expansion<'a> {
    fn of(def: &'a ModuleDef) -> Self {
        let in_twins = only_in_twins(def);
        Expansion {
            def,
            builders: Builders::of_module(def),
            types: Types::of(def),
            bodies: HashMap::new(),
            reached: HashSet::new(),
            functions: RefCell::new(TangentFunctions::new(def)),
            sites: CallSites::new(&def.debug.calls),
            declined: HashSet::new(),
            names: None,
            names_tried: HashMap::new(),
            left: growth(def, |index| !in_twins[index]),
        }
    }

    /// The module with all that was written; `None` if nothing was.
    fn finish(self) -> Option<Expanded> {
        let Expansion { def, builders, bodies, functions, sites, .. } = self;
        let functions = functions.into_inner();
        if functions.len() == 0 && !bodies.values().any(Option::is_some) {
            return None;
        }
        let mut expanded = def.clone();
        expanded.debug.calls.extend(sites.into_new());
        expanded.types.extend(builders.into_added());
        let mut origins: HashMap<FuncId, Origins> = HashMap::new();
        for (func, (body, insts)) in bodies.into_iter().filter_map(|(func, body)| Some((func, body?))) {
            expanded.functions[func.index()].body = body;
            origins.insert(func, Origins { func, insts });
        }
        for (of, Written { function, insts }) in functions.into_functions() {
            let number = FuncId(expanded.functions.len() as u32);
            // Its function may be a new one, too, or have got new code.
            let from = match origins.get(&of) {
                Some(Origins { func, insts: before }) => {
                    Origins { func: *func, insts: insts.iter().map(|&inst| before[inst as usize]).collect() }
                }
                None => Origins { func: of, insts },
            };
            origins.insert(number, from);
            expanded.functions.push(Rc::unwrap_or_clone(function));
        }
        Some(Expanded { def: expanded, origins })
    }

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
                self.reach(callee, nesting - 1);
            }
        }
        let body = self.replaced(function);
        self.bodies.insert(func, body);
    }

    /// Replaces the operators of a function and of all that it calls.
    fn reach(&mut self, func: FuncId, nesting: usize) {
        let def = self.def;
        let mut found = vec![func];
        while let Some(func) = found.pop() {
            if self.reached.insert(func) {
                self.function(func, nesting);
                let body = &def.functions[func.index()].body;
                let calls = body.code.iter().filter(|inst| forward::is_call(inst.op));
                found.extend(calls.filter_map(|inst| callee_of(body, inst)));
            }
        }
    }

    /// The code of a function with its operators replaced; `None` if none of them is.
    fn replaced(&mut self, function: &Function) -> Option<(Body, Vec<u32>)> {
        let body = &function.body;
        if !body.code.iter().any(|inst| is_replaced(inst.op)) {
            return None;
        }
        let flow = FlowGraph::of(body, &Watch::none()).ok()?;
        let constants = constants_of(&function.params, body, &flow);
        let mut writer = Writer::over(body);
        let mut any = false;
        let mut left = FUNCTION_MAX;
        for (at, &inst) in body.code.iter().enumerate() {
            writer.begin_old();
            let location = body.location(at as u32);
            writer.set_location(location);
            if is_replaced(inst.op) && left > 0 {
                writer.begin_site();
                let before = writer.here();
                if self.replace(&mut writer, body, at as u32, &constants).is_ok() {
                    left = left.saturating_sub(writer.body.computing(before..writer.here()));
                    any = true;
                    continue;
                }
                writer.set_location(location);
            }
            writer.keep(inst);
        }
        any.then(|| writer.finish().ok()).flatten()
    }

    /// Writes the derivative that an operator, an instruction of a function's code, takes.
    fn replace(&mut self, writer: &mut Writer, body: &Body, at: u32, constants: &Constants) -> Result<(), Declined> {
        let inst = &body.code[at as usize];
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
        let ways: &[Way] = match inst.op {
            Op::Jvp => &[Way::InPlace, Way::Call { dense: false }, Way::Call { dense: true }],
            _ => &[Way::InPlace],
        };
        for &way in ways {
            let callee = &self.def.functions[func.index()];
            let new_body = self.bodies.get(&func).and_then(Option::as_ref);
            let sites = self.sites.len();
            let site = Site {
                module: self.def,
                types: &self.types,
                functions: &self.functions,
                moved: Moved::to_call(&self.sites, &callee.name, body.location(at)),
                callee,
                body: new_body.map_or(&callee.body, |(body, _)| body),
                captures: usize::from(*captures),
                builders: &self.builders,
                args: args.clone(),
                results: results.clone(),
                constants,
            };
            let (mark, before) = (writer.mark(), writer.here());
            let functions = self.functions.borrow().len();
            let outcome = match way {
                Way::InPlace => write(writer, &site, inst.op),
                Way::Call { .. } => forward::write_call(writer, &site, func),
            };
            let written = writer.body.computing(before..writer.here());
            // The function was read, even if little of it is needed.
            let effort = written.max(size(site.body).min(CALLEE_MAX));
            let outcome = if written > SITE_MAX { Err(Declined) } else { outcome };
            let dense = matches!(way, Way::Call { dense: true });
            let outcome = spend(&mut self.left, effort).and(outcome).and_then(|()| self.complete(functions, dense));
            if outcome.is_ok() {
                return Ok(());
            }
            self.functions.borrow_mut().truncate(functions);
            self.sites.truncate(sites);
            writer.back_to(&mark);
        }
        self.declined.insert((func, inst.op));
        Err(Declined)
    }

    /// Writes the functions with tangents that were asked for, but for the first so many, and those that these ask for.
    fn complete(&mut self, from: usize, dense: bool) -> Result<(), Declined> {
        let mut index = from;
        while index < self.functions.borrow().len() {
            let signature = self.functions.borrow().signature(index).clone();
            let written = self.tangent_function(&signature, dense);
            let mut functions = self.functions.borrow_mut();
            if written.is_err() && dense {
                functions.decline(index);
            }
            functions.set(index, written?);
            index += 1;
        }
        Ok(())
    }

    /// Writes a function with tangents.
    fn tangent_function(&mut self, signature: &Signature, dense: bool) -> Result<Written, Declined> {
        let known = self.functions.borrow().written(signature.func);
        let callee = match &known {
            Some(function) => function,
            None => &self.def.functions[signature.func.index()],
        };
        let body = self.bodies.get(&signature.func).and_then(Option::as_ref).map_or(&callee.body, |(body, _)| body);
        let registers = body.reals as usize + body.ints as usize + body.refs.len();
        let layout = signature.layout(callee, &self.types);
        let params: Vec<ValueType> = layout.iter().map(|param| callee.params[param.parameter()]).collect();
        let results = signature.results(callee, &self.types);
        if body.computing(0..body.code.len() as u32) > TANGENT_CALLEE_MAX
            || params.len().max(results.len()) > limits::PARAMS_MAX
        {
            return Err(Declined);
        }
        let flow = FlowGraph::of(body, &Watch::none()).map_err(|_| Declined)?;
        // What it takes to look at the function, and to bring tangents to where each edge leads.
        let edges = flow.edge_count().saturating_mul(1 + registers / EDGE_REGISTERS);
        let effort = size(body).saturating_add(edges).saturating_add(callee.name.len() / NAME_BYTES);
        if effort > TANGENT_EFFORT_MAX {
            return Err(Declined);
        }
        spend(&mut self.left, effort)?;
        let registers = assign_registers(&params);
        let constants = Constants::default();
        let values = layout.iter().zip(&registers).filter(|(param, _)| matches!(param, Param::Value(_)));
        let args: Vec<Reg> = values.map(|(_, &reg)| reg).collect();
        let site = Site {
            module: self.def,
            types: &self.types,
            functions: &self.functions,
            moved: Moved::to_function(&self.sites),
            callee,
            body,
            captures: 0,
            builders: &self.builders,
            args,
            results: Vec::new(),
            constants: &constants,
        };
        let mut writer = Writer::of_params(&registers, &params);
        let given: Vec<_> = layout.iter().copied().zip(registers.iter().copied()).collect();
        let written = forward::write_function(&mut writer, &site, &flow, signature, &given, dense);
        let effort = size(&writer.body);
        let finished = written.and_then(|()| writer.finish());
        spend(&mut self.left, effort)?;
        let (body, insts) = finished?;
        let name = self.name_for(&callee.name)?;
        let function = Function { name, params, results, interface: None, body };
        Ok(Written { function: Rc::new(function), insts })
    }

    /// A name that no function has.
    fn name_for(&mut self, name: &str) -> Result<String, Declined> {
        let def = self.def;
        let taken = self.names.get_or_insert_with(|| def.functions.iter().map(|f| Cow::from(&f.name)).collect());
        let first = format!("jvp of {name}");
        // Numbers that were tried for this name are taken, so all names together take linear time.
        let tried = self.names_tried.entry(first.clone()).or_insert(0);
        loop {
            *tried += 1;
            let new = if *tried == 1 { first.clone() } else { format!("{first} ({tried})") };
            if new.len() > limits::STRING_BYTES_MAX {
                return Err(Declined);
            }
            if taken.insert(new.clone().into()) {
                return Ok(new);
            }
        }
    }
}

/// Writes the derivative that an operator takes of its function.
fn write(writer: &mut Writer, site: &Site<'_>, op: Op) -> Result<(), Declined> {
    let registers = site.body.reals as usize + site.body.ints as usize + site.body.refs.len();
    if site.body.computing(0..site.body.code.len() as u32) > CALLEE_MAX || registers > REGISTERS_MAX {
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

/// The function that an instruction names.
fn callee_of(body: &Body, inst: &Inst) -> Option<FuncId> {
    body.operands(inst)?.iter().find_map(|operand| match operand {
        Operand::Func(func) => Some(FuncId(*func)),
        _ => None,
    })
}
