//! A function's code with that of its tangents beside it.
//!
//! The control flow is the function's own. Each real register gets a second one for its tangent, each reference one for
//! the object of tangents, where they vary with the arguments; what doesn't vary has a tangent of 0 and no code. Which
//! registers vary where a block begins is found by dataflow; where an edge leads from a block that knows more, zeros
//! and constants are put into registers.
//!
//! The tangents of several directions are computed side by side, in *lanes*. So the gradient of a function of few reals
//! is found where the function has loops and no straight piece has its adjoint: a lane for each real.
//!
//! A call becomes a call of a function with tangents ([`super::tangent_functions`]), if any argument varies.

mod calls;
mod given;
mod interleaved;
mod objects;
mod scalars;
mod varied;

use super::tangent_functions::{Param, Signature};
use super::writer::{Copy, Declined, Writer};
use super::{Bank, Constants, FuncId, HashMap, Inst, Op, Operand, Reg, Site, ValueType, constants_of};
use crate::bytecode::module::{TypeDef, TypeId};
use crate::preparation::flow::{Block, FlowGraph};
pub(super) use calls::{is_call, write_call};
use given::{GivenTangent, gives_reals_only};
use std::collections::BTreeSet;
use varied::{Activity, Rules, Varied};

/// A `vjp` with respect to more reals isn't computed in lanes.
const LANES_MAX: usize = 4;

/// Writes the code of a `jvp`.
pub(super) fn write(writer: &mut Writer, site: &Site<'_>, flow: &FlowGraph) -> Result<(), Declined> {
    let mut forward = Forward::new(writer, site, flow, 1, End::Site(Forward::return_tangents));
    forward.give_values()?;
    for given in GivenTangent::all(site)? {
        given.check_shape(forward.writer, site)?;
        forward.give_tangent(0, given.ty, given.own, given.tangent);
    }
    forward.run()
}

/// Writes the code of a `vjp` of a function of a few reals.
pub(super) fn write_lanes(writer: &mut Writer, site: &Site<'_>, flow: &FlowGraph) -> Result<(), Declined> {
    let asked_for = &site.callee.params[site.captures..];
    let lanes = asked_for.iter().filter(|&&ty| ty == ValueType::Real).count();
    let are_numbers = |types: &[ValueType]| types.iter().all(|ty| ty.bank() != Bank::Ref);
    if lanes > LANES_MAX || !are_numbers(asked_for) || !are_numbers(&site.callee.results) {
        return Err(Declined);
    }
    let mut forward = Forward::new(writer, site, flow, lanes, End::Site(Forward::return_gradient));
    forward.give_values()?;
    forward.give_directions();
    forward.run()
}

/// Writes a function with tangents. The site's arguments are those of its parameters that are values; `given` says
/// where all of them stand.
pub(super) fn write_function(
    writer: &mut Writer,
    site: &Site<'_>,
    flow: &FlowGraph,
    signature: &Signature,
    given: &[(Param, Reg)],
    dense: bool,
) -> Result<(), Declined> {
    let mut forward = Forward::new(writer, site, flow, signature.lanes, End::Function { whole: signature.whole });
    (forward.rules.calls, forward.rules.dense) = (true, dense);
    forward.give_values()?;
    let params: Vec<_> = site.params().collect();
    for &(param, tangent) in given {
        if let Param::Tangent { parameter, lane } = param
            && signature.varied[parameter]
        {
            let (ty, own, _) = params[parameter];
            if forward.is_in_lane(lane, own) {
                forward.give_tangent(lane, ty, own, tangent);
            }
        }
    }
    forward.run()
}

/// The tangent of a real register.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Tangent {
    /// By its bits.
    Constant(u64),
    /// In a register of the caller.
    Register(u16),
}

/// What is known where the code stands that is being written.
#[derive(Default)]
struct State {
    /// By lane and register. What isn't there is 0.
    reals: HashMap<(usize, u16), Tangent>,
    /// The objects of tangents, of all lanes or of none.
    refs: HashMap<(usize, u16), u16>,
}

/// A target that is to become the place of a block.
struct Missing {
    at: u32,
    /// Where its list of targets begins in the pool, and how many they are.
    list: Option<(usize, usize)>,
}

/// What a `ret` becomes.
#[derive(Clone, Copy)]
enum End<'w, 's> {
    /// The values go to the results of an operator, and so does what else it gives, which is found from their
    /// registers.
    Site(fn(&mut Forward<'w, 's>, &[Reg]) -> Result<Vec<Reg>, Declined>),
    /// A `ret` of a function with tangents.
    Function { whole: bool },
}

struct Forward<'w, 's> {
    writer: &'w mut Writer,
    site: &'s Site<'s>,
    flow: &'s FlowGraph,
    /// What registers of the function always hold.
    constants: Constants,
    /// Until the arguments have tangents, what of them varies.
    activity: Activity,
    /// The caller's registers, by those of the function.
    registers: HashMap<Reg, u16>,
    /// Those of tangents.
    tangents: HashMap<(usize, Reg), u16>,
    lanes: usize,
    end: End<'w, 's>,
    rules: Rules<'s>,
    /// Tangents of parameters that nothing is written to; `None` is 0.
    fixed: HashMap<(usize, u16), Option<Tangent>>,
    /// The function's registers that something is written to.
    written: BTreeSet<Reg>,
    state: State,
    missing: Vec<Missing>,
    /// Jumps behind the code.
    returns: Vec<u32>,
}

impl<'w, 's> Forward<'w, 's> {
    fn new(writer: &'w mut Writer, site: &'s Site<'s>, flow: &'s FlowGraph, lanes: usize, end: End<'w, 's>) -> Self {
        let body = site.body;
        let constants = constants_of(&site.callee.params, body, flow);
        let mut written = BTreeSet::new();
        for block in flow.blocks() {
            for inst in &body.code[block.start as usize..block.end as usize] {
                body.for_each_reg(inst, |reg, def| {
                    if def {
                        written.insert(reg);
                    }
                });
            }
        }
        let activity = Activity { varied_in: vec![Varied::none(body)], builders: BTreeSet::new() };
        Forward {
            writer,
            site,
            flow,
            constants,
            activity,
            registers: HashMap::new(),
            tangents: HashMap::new(),
            lanes,
            end,
            rules: Rules { types: site.types, calls: false, dense: false },
            fixed: HashMap::new(),
            written,
            state: State::default(),
            missing: Vec::new(),
            returns: Vec::new(),
        }
    }

    /// Hands the arguments over.
    fn give_values(&mut self) -> Result<(), Declined> {
        for (_, own, arg) in self.site.params() {
            if self.written.contains(&own) {
                let to = Reg { index: self.register(own)?, ..own };
                self.writer.copy(&[Copy::value(to, arg)])?;
                continue;
            }
            self.registers.insert(own, arg.index);
            if let Some(bits) = self.site.constant(arg) {
                self.constants[own.bank as usize].insert(own.index, bits);
            }
        }
        Ok(())
    }

    /// Hands the tangent of a parameter over.
    fn give_tangent(&mut self, lane: usize, ty: ValueType, own: Reg, tangent: Reg) {
        if ty == ValueType::Real {
            let constant = self.site.constant(tangent);
            let is_zero = constant.is_some_and(|bits| f64::from_bits(bits) == 0.0);
            let tangent = constant.map_or(Tangent::Register(tangent.index), Tangent::Constant);
            self.begin_real(lane, own.index, (!is_zero).then_some(tangent));
        } else if self.site.types.hold_reals(ty) {
            self.note_tangent(lane, own, tangent.index);
            self.activity.varied_in[0].refs.insert(own.index);
            if !self.written.contains(&own) {
                self.tangents.insert((lane, own), tangent.index);
            }
        }
    }

    /// Begins with a direction for each real that a `vjp` is taken with respect to.
    fn give_directions(&mut self) {
        let params: Vec<Reg> = self.site.params().skip(self.site.captures).map(|(_, own, _)| own).collect();
        for (lane, own) in params.into_iter().filter(|own| own.bank == Bank::Real).enumerate() {
            let one = Tangent::Constant(1f64.to_bits());
            (0..self.lanes).for_each(|n| self.begin_real(n, own.index, (n == lane).then_some(one)));
        }
    }

    /// Gives a parameter its tangent in a lane.
    fn begin_real(&mut self, lane: usize, reg: u16, tangent: Option<Tangent>) {
        if !self.written.contains(&Reg::real(reg)) {
            self.fixed.insert((lane, reg), tangent);
        }
        if let Some(tangent) = tangent {
            self.state.reals.insert((lane, reg), tangent);
            self.activity.varied_in[0].reals.insert(reg);
        }
    }

    /// Writes all blocks.
    fn run(&mut self) -> Result<(), Declined> {
        let first = self.activity.varied_in[0].clone();
        self.activity = varied::find(self.site.body, self.flow, first, self.rules)?;
        self.settle(0)?;
        let mut places = HashMap::new();
        let last = self.flow.blocks().len() - 1;
        for (index, &Block { start, end }) in self.flow.blocks().iter().enumerate() {
            places.insert(start, self.writer.here());
            self.enter(index)?;
            for at in start..end {
                self.writer.begin_inst();
                self.writer.set_location(self.site.location(at));
                if let End::Function { .. } = self.end {
                    self.writer.set_origin(at);
                }
                let inst = self.site.body.code[at as usize];
                if inst.op.is_terminator() {
                    self.leave(index)?;
                    self.terminator(&inst, index == last)?;
                } else {
                    self.inst(&inst)?;
                }
            }
            if !self.site.body.code[end as usize - 1].op.is_terminator() {
                self.leave(index)?;
            }
        }
        let body = &mut self.writer.body;
        for missing in &self.missing {
            let place = |target: u32| places[&target];
            if let Some((start, len)) = missing.list {
                body.targets[start..start + len].iter_mut().for_each(|target| *target = place(*target));
            }
            Writer::retarget(&mut body.code[missing.at as usize], place);
        }
        let end = body.code.len() as u32;
        for &at in &self.returns {
            body.code[at as usize].imm = u64::from(end);
        }
        Ok(())
    }

    /// What is known at the start of a block.
    fn enter(&mut self, block: usize) -> Result<(), Declined> {
        let varied = self.activity.varied_in[block].clone();
        let mut state = State::default();
        for lane in 0..self.lanes {
            for reg in varied.reals(self.site.body) {
                let tangent = match self.fixed.get(&(lane, reg)) {
                    Some(&fixed) => fixed,
                    None => Some(Tangent::Register(self.tangent(lane, Reg::real(reg))?)),
                };
                state.reals.extend(tangent.map(|tangent| ((lane, reg), tangent)));
            }
            for reg in varied.refs(self.site.body) {
                state.refs.insert((lane, reg), self.tangent(lane, Reg::reference(reg))?);
            }
        }
        self.state = state;
        Ok(())
    }

    /// Brings tangents to where the blocks after this one expect them.
    fn leave(&mut self, block: usize) -> Result<(), Declined> {
        let mut successors = self.flow.successors(block).to_vec();
        successors.sort_unstable();
        successors.dedup();
        successors.into_iter().try_for_each(|successor| self.settle(successor as usize))
    }

    fn settle(&mut self, block: usize) -> Result<(), Declined> {
        let varied = self.activity.varied_in[block].clone();
        for lane in 0..self.lanes {
            for reg in
                varied.reals(self.site.body).filter(|&reg| !self.fixed.contains_key(&(lane, reg))).collect::<Vec<_>>()
            {
                let to = self.tangent(lane, Reg::real(reg))?;
                let from = self.tangent_of(lane, reg)?;
                self.writer.copy(&[Copy::value(Reg::real(to), Reg::real(from))])?;
                self.state.reals.insert((lane, reg), Tangent::Register(to));
            }
            for reg in varied.refs(self.site.body) {
                if !self.is_in_lane(lane, Reg::reference(reg)) {
                    continue;
                }
                let to = self.tangent(lane, Reg::reference(reg))?;
                // An object of zeros would have to be made here.
                let from = self.object_of(lane, reg)?;
                self.writer.copy(&[Copy::value(Reg::reference(to), Reg::reference(from))])?;
                self.note_tangent(lane, Reg::reference(reg), to);
            }
        }
        Ok(())
    }

    /// The caller's register for one of the function.
    fn register(&mut self, reg: Reg) -> Result<u16, Declined> {
        if let Some(&register) = self.registers.get(&reg) {
            return Ok(register);
        }
        let constant = match reg.bank {
            Bank::Ref => None,
            bank => self.constants[bank as usize].get(&reg.index).copied(),
        };
        let register = match constant {
            Some(bits) => self.writer.constant(reg.bank, bits)?,
            None => self.fresh(reg)?,
        };
        self.registers.insert(reg, register);
        Ok(register)
    }

    fn fresh(&mut self, reg: Reg) -> Result<u16, Declined> {
        match reg.bank {
            Bank::Real => self.writer.real(),
            Bank::Int => self.writer.int(),
            Bank::Ref => self.writer.reference(self.type_of(reg)),
        }
    }

    fn type_of(&self, reg: Reg) -> TypeId {
        self.site.body.refs[usize::from(reg.index)]
    }

    /// The caller's register for the tangent of one of the function.
    fn tangent(&mut self, lane: usize, reg: Reg) -> Result<u16, Declined> {
        let lane = if self.is_interleaved(reg) { 0 } else { lane };
        if let Some(&register) = self.tangents.get(&(lane, reg)) {
            return Ok(register);
        }
        let register = self.fresh(reg)?;
        self.tangents.insert((lane, reg), register);
        Ok(register)
    }

    /// The object of tangents that belongs to one of the function.
    fn object_of(&self, lane: usize, reg: u16) -> Result<u16, Declined> {
        self.state.refs.get(&(lane, reg)).copied().ok_or(Declined)
    }

    /// Whether a register holds reals, or objects that may.
    fn holds_reals(&self, reg: Reg) -> bool {
        self.rules.hold_reals(self.site.body, reg)
    }

    fn terminator(&mut self, inst: &Inst, is_last: bool) -> Result<(), Declined> {
        match inst.op {
            Op::Ret => return self.ret(inst, is_last),
            Op::TailCall => return self.tail_call(inst),
            _ => {}
        }
        let at = self.writer.here();
        let first = self.writer.body.targets.len();
        self.emit_own(inst)?;
        let list = (inst.op == Op::Switch).then(|| (first, self.writer.body.targets.len() - first));
        if inst.op.has_targets() {
            self.missing.push(Missing { at, list });
        }
        Ok(())
    }

    /// An instruction of the function on the caller's registers.
    fn emit_own(&mut self, inst: &Inst) -> Result<(), Declined> {
        let mut operands = self.site.body.operands(inst).ok_or(Declined)?;
        for operand in &mut operands {
            match operand {
                Operand::Def(reg) | Operand::Use(reg) => reg.index = self.register(*reg)?,
                Operand::Uses(regs) | Operand::Defs(regs) => {
                    for reg in regs {
                        reg.index = self.register(*reg)?;
                    }
                }
                _ => {}
            }
        }
        self.writer.emit(inst.op, &operands)
    }

    fn ret(&mut self, inst: &Inst, is_last: bool) -> Result<(), Declined> {
        let operands = self.site.body.operands(inst);
        let Some([Operand::Uses(values)]) = operands.as_deref() else { return Err(Declined) };
        let ret = match self.end {
            End::Site(ret) => ret,
            End::Function { whole } => return self.return_from_function(values, whole),
        };
        let mut given = Vec::new();
        for reg in values {
            given.push((Reg { index: self.register(*reg)?, ..*reg }, false));
        }
        for reg in ret(self, values)? {
            given.push((reg, true));
        }
        let copy = |(&to, (from, is_derivative))| match is_derivative {
            true => Copy::derivative(to, from),
            false => Copy::value(to, from),
        };
        let copies: Vec<Copy> = self.site.results.iter().zip(given).map(copy).collect();
        self.writer.copy(&copies)?;
        if !is_last {
            self.returns.push(self.writer.here());
            self.writer.emit(Op::Jump, &[Operand::Target(0)])?;
        }
        Ok(())
    }

    /// Where the tangents of what is returned stand.
    fn return_tangents(&mut self, values: &[Reg]) -> Result<Vec<Reg>, Declined> {
        let mut tangents = Vec::new();
        for (reg, ty) in values.iter().zip(&self.site.callee.results) {
            tangents.push(match ty {
                ValueType::Int => continue,
                ValueType::Real => Reg::real(self.tangent_of(0, reg.index)?),
                ValueType::Ref(id) => {
                    // Tangents that come out have no -0.0, and their integers are 0, whatever those that went in are.
                    if self.may_be_given(reg.index) {
                        return Err(Declined);
                    }
                    if !gives_reals_only(self.site, *id) {
                        return Err(Declined);
                    }
                    Reg::reference(self.object_of(0, reg.index)?)
                }
            });
        }
        Ok(tangents)
    }

    /// Whether a reference may be an argument, as it is, or hold elements of one: what objects hold besides are numbers
    /// that were put into them one by one.
    fn may_be_given(&self, reg: u16) -> bool {
        let mut given: BTreeSet<u16> =
            self.site.params().filter(|(_, own, _)| own.bank == Bank::Ref).map(|(_, own, _)| own.index).collect();
        loop {
            let before = given.len();
            for inst in &self.site.body.code {
                let [to, a, b, c] = inst.narrow();
                let from_given = match inst.op {
                    Op::PMov | Op::Extend | Op::Reserve | Op::Finish => given.contains(&a),
                    Op::PSelect => given.contains(&b) || given.contains(&c),
                    _ => false,
                };
                if from_given {
                    given.insert(to);
                }
            }
            if given.len() == before {
                return given.contains(&reg);
            }
        }
    }

    /// Where the gradient stands: for each lane, the sum of the tangents of what is returned times their cotangents.
    fn return_gradient(&mut self, values: &[Reg]) -> Result<Vec<Reg>, Declined> {
        let cotangents = &self.site.args[self.site.callee.params.len()..];
        let reals: Vec<u16> = values.iter().filter(|reg| reg.bank == Bank::Real).map(|reg| reg.index).collect();
        let mut gradient = Vec::new();
        for lane in 0..self.lanes {
            let mut sum = None;
            for (&reg, &cotangent) in reals.iter().zip(cotangents) {
                if !self.state.reals.contains_key(&(lane, reg)) {
                    continue;
                }
                let tangent = Reg::real(self.tangent_of(lane, reg)?);
                let term = match self.site.constant(cotangent).map(f64::from_bits) {
                    Some(1.0) => tangent,
                    _ => {
                        let term = self.writer.real()?;
                        self.writer.scalar(Op::StrongMul, term, &[cotangent, tangent])?;
                        Reg::real(term)
                    }
                };
                sum = Some(match sum {
                    None => term,
                    Some(before) => {
                        let after = self.writer.real()?;
                        self.writer.scalar(Op::Add, after, &[before, term])?;
                        Reg::real(after)
                    }
                });
            }
            let zero = Reg::real(self.writer.constant(Bank::Real, 0)?);
            gradient.push(sum.unwrap_or(zero));
        }
        Ok(gradient)
    }

    /// A register with the tangent of a real.
    fn tangent_of(&mut self, lane: usize, reg: u16) -> Result<u16, Declined> {
        match self.state.reals.get(&(lane, reg)) {
            Some(&Tangent::Register(register)) => Ok(register),
            Some(&Tangent::Constant(bits)) => self.writer.constant(Bank::Real, bits),
            None => self.writer.constant(Bank::Real, 0),
        }
    }
}
