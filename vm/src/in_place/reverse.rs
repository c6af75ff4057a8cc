//! A straight piece of code and its adjoint.
//!
//! What the function computes becomes a graph, whose inputs are its parameters and what it loads; its adjoint is that
//! of [`crate::derivation::adjoint`]. Every node gets a register of its own, since the adjoint reads what the function
//! has computed. The gradient of an array has zeros but where something was loaded.

use super::writer::{Copy, Declined, Writer};
use super::{Bank, HashMap, Inst, Op, Operand, Reg, Site, ValueType};
use crate::bytecode::module::{Location, TypeDef, TypeId};
use crate::derivation::adjoint::adjoint;
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};
use crate::derivation::piece::Piece;
use crate::preparation::flow::FlowGraph;

/// An adjoint of more nodes, or an array that is loaded from at more places, isn't written out.
const NODES_MAX: usize = 512;
const LOADS_MAX: usize = 8;

/// Writes the code of a `vjp`.
pub(super) fn write(writer: &mut Writer, site: &Site<'_>, flow: &FlowGraph) -> Result<(), Declined> {
    let [block] = flow.blocks() else { return Err(Declined) };
    let location = writer.body.locations.last().copied();
    let mut reader = Reader::new(writer, site)?;
    for at in block.start..block.end {
        reader.location = site.location(at);
        reader.read(&site.body.code[at as usize])?;
    }
    let Reader { graph, sources, steps, results, asked_for, active, .. } = reader;
    let code = Code { writer, site, sources, steps, results, asked_for, active, graph, registers: Vec::new() };
    code.write(location)
}

/// Where a real or an integer that the piece doesn't compute comes from.
#[derive(Clone)]
enum Source {
    /// A register of the caller.
    Register(Reg),
    /// An instruction that reads an object: its operands behind the result, with the node of the index if it has one.
    Load { op: Op, operands: Vec<Operand>, index: Option<NodeId> },
}

/// What the function does, in order.
enum Step {
    /// Computes a node, or loads it.
    Node(NodeId),
    /// Gets an object: the caller's register for it, and the rest of the instruction.
    Object { to: Reg, op: Op, operands: Vec<Operand>, index: Option<NodeId> },
    /// Compares two objects: lengths or shapes.
    Alike(Op, Vec<Operand>),
    /// Shows a text.
    Trace { template: Operand, values: Vec<Shown> },
}

/// What is shown.
enum Shown {
    Node(NodeId),
    /// The caller's register for an object.
    Object(Reg),
}

/// An object that the function refers to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Object {
    /// The caller's register.
    register: u16,
    /// The argument that it is, if the derivative is taken with respect to it.
    argument: Option<usize>,
}

/// An argument that the derivative is taken with respect to.
enum AskedFor {
    /// A real, by its number among the graph's inputs.
    Real(u32),
    /// An array of reals: its number among the arguments, the caller's register and the type.
    Array { argument: usize, array: Reg, ty: TypeId },
}

/// A load from such an array: at an index, as an input of the graph.
struct ActiveLoad {
    argument: usize,
    index: NodeId,
    input: u32,
}

/// Reads the function's code.
struct Reader<'a> {
    writer: &'a mut Writer,
    site: &'a Site<'a>,
    graph: Graph,
    /// Real inputs of the graph, and the integer ones.
    sources: [Vec<Source>; 2],
    steps: Vec<(Step, Option<Location>)>,
    reals: HashMap<u16, NodeId>,
    int_nodes: HashMap<u16, NodeId>,
    refs: HashMap<u16, Object>,
    /// What was loaded before: instruction, object, index.
    loaded: HashMap<(Op, Object, Option<NodeId>, u64), NodeId>,
    active: Vec<ActiveLoad>,
    asked_for: Vec<AskedFor>,
    results: Vec<(Bank, NodeId)>,
    location: Option<Location>,
}

impl<'a> Reader<'a> {
    fn new(writer: &'a mut Writer, site: &'a Site<'a>) -> Result<Self, Declined> {
        let mut reader = Reader {
            writer,
            site,
            graph: Graph::default(),
            sources: [Vec::new(), Vec::new()],
            steps: Vec::new(),
            reals: HashMap::new(),
            int_nodes: HashMap::new(),
            refs: HashMap::new(),
            loaded: HashMap::new(),
            active: Vec::new(),
            asked_for: Vec::new(),
            results: Vec::new(),
            location: None,
        };
        for (n, (ty, own, arg)) in site.params().enumerate() {
            let is_active = n >= site.captures;
            match ty {
                ValueType::Ref(id) => {
                    let argument = is_active.then_some(n);
                    if is_active {
                        if site.module.types[id.index()] != TypeDef::Array(ValueType::Real) {
                            return Err(Declined);
                        }
                        reader.asked_for.push(AskedFor::Array { argument: n, array: arg, ty: id });
                    }
                    reader.refs.insert(own.index, Object { register: arg.index, argument });
                }
                // What a derivative is taken with respect to is no constant, whatever it is known to be.
                ValueType::Real => {
                    let node = match site.constant(arg).filter(|_| !is_active) {
                        Some(bits) => reader.graph.add(Node::Real(bits)),
                        None => reader.input(Source::Register(arg), Bank::Real),
                    };
                    if is_active {
                        reader.asked_for.push(AskedFor::Real(reader.sources[0].len() as u32 - 1));
                    }
                    reader.reals.insert(own.index, node);
                }
                ValueType::Int => {
                    let node = match site.constant(arg) {
                        Some(bits) => reader.graph.add(Node::Int(bits as i64)),
                        None => reader.input(Source::Register(arg), Bank::Int),
                    };
                    reader.int_nodes.insert(own.index, node);
                }
            }
        }
        Ok(reader)
    }

    fn input(&mut self, source: Source, bank: Bank) -> NodeId {
        let sources = &mut self.sources[bank as usize];
        let n = sources.len() as u32;
        sources.push(source);
        self.graph.add(if bank == Bank::Real { Node::RealInput(n) } else { Node::IntInput(n) })
    }

    fn node(&self, reg: Reg) -> Result<NodeId, Declined> {
        let nodes = if reg.bank == Bank::Real { &self.reals } else { &self.int_nodes };
        nodes.get(&reg.index).copied().ok_or(Declined)
    }

    fn object(&self, register: u16) -> Result<Object, Declined> {
        self.refs.get(&register).copied().ok_or(Declined)
    }

    fn set(&mut self, reg: Reg, node: NodeId) {
        let nodes = if reg.bank == Bank::Real { &mut self.reals } else { &mut self.int_nodes };
        nodes.insert(reg.index, node);
    }

    fn step(&mut self, step: Step) {
        self.steps.push((step, self.location));
    }

    fn read(&mut self, inst: &Inst) -> Result<(), Declined> {
        let operands = self.site.body.operands(inst).ok_or(Declined)?;
        match (inst.op, &operands[..]) {
            (op, [Operand::Def(to), args @ ..]) if op.is_scalar() => {
                let mut nodes = Vec::with_capacity(3);
                for arg in args {
                    let Operand::Use(reg) = arg else { return Err(Declined) };
                    nodes.push(self.node(*reg)?);
                }
                let known = self.graph.len();
                let node = self.graph.op(op, &nodes);
                if self.graph.len() > known {
                    self.step(Step::Node(node));
                }
                self.set(*to, node);
            }
            (Op::Mov | Op::IMov, [Operand::Def(to), Operand::Use(from)]) => {
                let node = self.node(*from)?;
                self.set(*to, node);
            }
            (Op::Const, [Operand::Def(to), Operand::Real(value)]) => {
                let node = self.graph.real(*value);
                self.set(*to, node);
            }
            (Op::IConst, [Operand::Def(to), Operand::Int(value)]) => {
                let node = self.graph.add(Node::Int(*value));
                self.set(*to, node);
            }
            (Op::PMov, [Operand::Def(to), Operand::Use(from)]) => {
                let object = self.object(from.index)?;
                self.refs.insert(to.index, object);
            }
            (
                Op::Len
                | Op::Elem
                | Op::IElem
                | Op::Row
                | Op::Field
                | Op::IField
                | Op::VariantTag
                | Op::Payload
                | Op::IPayload,
                [Operand::Def(to), Operand::Use(object), rest @ ..],
            ) => self.load(inst.op, *to, object.index, rest)?,
            (Op::PElem | Op::PField | Op::PPayload, [Operand::Def(to), Operand::Use(object), rest @ ..]) => {
                let object = self.object(object.index)?;
                let (rest, index) = self.indexed(rest)?;
                let ty = self.site.body.refs[usize::from(to.index)];
                let register = self.writer.reference(ty)?;
                let mut operands = vec![Operand::Use(Reg::reference(object.register))];
                operands.extend(rest);
                self.step(Step::Object { to: Reg::reference(register), op: inst.op, operands, index });
                self.refs.insert(to.index, Object { register, argument: None });
            }
            (Op::PDetach, [Operand::Def(to), Operand::Use(object)]) => {
                let object = self.object(object.index)?;
                let ty = self.site.body.refs[usize::from(to.index)];
                let register = self.writer.reference(ty)?;
                let operands = vec![Operand::Use(Reg::reference(object.register))];
                self.step(Step::Object { to: Reg::reference(register), op: inst.op, operands, index: None });
                self.refs.insert(to.index, Object { register, argument: None });
            }
            (Op::SameLen | Op::SameShape, [Operand::Use(a), Operand::Use(b)]) => {
                let pair = [self.object(a.index)?, self.object(b.index)?];
                let pair = pair.map(|object| Operand::Use(Reg::reference(object.register)));
                self.step(Step::Alike(inst.op, pair.to_vec()));
            }
            (Op::Trace, [template, Operand::Uses(values)]) => {
                let shown = |&reg: &Reg| match reg.bank {
                    Bank::Ref => self.object(reg.index).map(|object| Shown::Object(Reg::reference(object.register))),
                    _ => self.node(reg).map(Shown::Node),
                };
                let values = values.iter().map(shown).collect::<Result<_, _>>()?;
                self.step(Step::Trace { template: template.clone(), values });
            }
            (Op::Ret, [Operand::Uses(values)]) => {
                for reg in values {
                    if reg.bank == Bank::Ref {
                        return Err(Declined);
                    }
                    self.results.push((reg.bank, self.node(*reg)?));
                }
            }
            _ => return Err(Declined),
        }
        Ok(())
    }

    /// The index of a load as a node, and what else it has.
    fn indexed(&self, rest: &[Operand]) -> Result<(Vec<Operand>, Option<NodeId>), Declined> {
        match rest {
            [Operand::Use(index), rest @ ..] => Ok((rest.to_vec(), Some(self.node(*index)?))),
            _ => Ok((rest.to_vec(), None)),
        }
    }

    /// A load, which is an input of the graph.
    fn load(&mut self, op: Op, to: Reg, object: u16, rest: &[Operand]) -> Result<(), Declined> {
        let object = self.object(object)?;
        let (rest, index) = self.indexed(rest)?;
        let tag = rest.iter().fold(0, |tag, operand| match operand {
            Operand::Field(n) | Operand::Tag(n) => (tag << 16) | (u64::from(*n) + 1),
            Operand::Int(width) => *width as u64,
            _ => tag,
        });
        let key = (op, object, index, tag);
        if let Some(&node) = self.loaded.get(&key) {
            self.set(to, node);
            return Ok(());
        }
        let mut operands = vec![Operand::Use(Reg::reference(object.register))];
        operands.extend(rest);
        let node = self.input(Source::Load { op, operands, index }, to.bank);
        self.step(Step::Node(node));
        self.loaded.insert(key, node);
        self.set(to, node);
        if let (Some(argument), Op::Elem, Some(index)) = (object.argument, op, index) {
            self.active.push(ActiveLoad { argument, index, input: self.sources[0].len() as u32 - 1 });
            if self.active.iter().filter(|load| load.argument == argument).count() > LOADS_MAX {
                return Err(Declined);
            }
        }
        Ok(())
    }
}

/// Writes what was read, and the adjoint.
struct Code<'a> {
    writer: &'a mut Writer,
    site: &'a Site<'a>,
    sources: [Vec<Source>; 2],
    steps: Vec<(Step, Option<Location>)>,
    results: Vec<(Bank, NodeId)>,
    asked_for: Vec<AskedFor>,
    active: Vec<ActiveLoad>,
    /// The function and its adjoint.
    graph: Graph,
    /// The caller's register for each node that has one.
    registers: Vec<Option<Reg>>,
}

impl Code<'_> {
    fn write(mut self, location: Option<Location>) -> Result<(), Declined> {
        let primal_len = self.graph.len();
        let gradients = self.add_adjoint()?;
        let live = self.live(&gradients);
        if live.iter().filter(|live| **live).count() > NODES_MAX {
            return Err(Declined);
        }
        self.registers = vec![None; self.graph.len()];
        for (step, location) in std::mem::take(&mut self.steps) {
            self.writer.set_location(location);
            match step {
                Step::Node(node) if live[node.index()] => self.compute(node)?,
                Step::Node(_) => {}
                Step::Object { to, op, operands, index } => self.load(op, to, &operands, index)?,
                Step::Alike(op, operands) => self.writer.emit(op, &operands)?,
                Step::Trace { template, values } => {
                    let register = |shown| match shown {
                        Shown::Node(node) => self.register(node),
                        Shown::Object(register) => Ok(register),
                    };
                    let values = values.into_iter().map(register).collect::<Result<_, _>>()?;
                    self.writer.emit(Op::Trace, &[template, Operand::Uses(values)])?;
                }
            }
        }
        self.writer.set_location(location);
        let derived: Vec<NodeId> = self.graph.iter().skip(primal_len).map(|(id, _)| id).collect();
        for node in derived.into_iter().filter(|node| live[node.index()]) {
            self.compute(node)?;
        }

        let mut copies = Vec::new();
        let mut results = self.site.results.iter().copied();
        for (_, node) in std::mem::take(&mut self.results) {
            copies.push(Copy::value(results.next().ok_or(Declined)?, self.register(node)?));
        }
        for asked_for in std::mem::take(&mut self.asked_for) {
            let from = match asked_for {
                AskedFor::Real(input) => match gradients.get(&input) {
                    Some(&node) => self.register(node)?,
                    None => Reg::real(self.writer.constant(Bank::Real, 0)?),
                },
                AskedFor::Array { argument, array, ty } => self.gradient_of_array(argument, array, ty, &gradients)?,
            };
            copies.push(Copy::derivative(results.next().ok_or(Declined)?, from));
        }
        self.writer.copy(&copies)
    }

    /// Adds the adjoint to the graph, as far as it is asked for. The adjoint of each real input that has one.
    fn add_adjoint(&mut self) -> Result<HashMap<u32, NodeId>, Declined> {
        let outputs = self.results.iter().filter(|(bank, _)| *bank == Bank::Real).map(|&(_, node)| node).collect();
        let [reals, ints] = [0, 1].map(|bank| self.sources[bank].len() as u32);
        let primal = Piece { graph: self.graph.clone(), reals, ints, outputs };
        let adjoint = adjoint(&primal);
        let loads = self.active.iter().map(|load| load.input);
        let whole = self.asked_for.iter().filter_map(|asked_for| match asked_for {
            AskedFor::Real(input) => Some(*input),
            AskedFor::Array { .. } => None,
        });
        let wanted: Vec<u32> = whole.chain(loads).collect();
        let outputs = wanted.iter().map(|&input| adjoint.outputs[input as usize]).collect();
        let adjoint = Piece { outputs, ..adjoint };
        let live = adjoint.live();
        let cotangents = &self.site.args[self.site.callee.params.len()..];
        let mut here: Vec<Option<NodeId>> = vec![None; adjoint.graph.len()];
        for (id, node) in adjoint.graph.iter().filter(|(id, _)| live[id.index()]) {
            here[id.index()] = Some(match node {
                _ if id.index() < primal.graph.len() => id,
                Node::RealInput(n) => {
                    let cotangent = *cotangents.get((n - reals) as usize).ok_or(Declined)?;
                    match self.site.constant(cotangent) {
                        Some(bits) => self.graph.add(Node::Real(bits)),
                        None => {
                            self.sources[0].push(Source::Register(cotangent));
                            self.graph.add(Node::RealInput(self.sources[0].len() as u32 - 1))
                        }
                    }
                }
                Node::Op(op, _) => {
                    let args: Vec<NodeId> = adjoint.graph.args(id).filter_map(|arg| here[arg.index()]).collect();
                    self.graph.op(op, &args)
                }
                constant_or_int => self.graph.add(constant_or_int),
            });
        }
        let outputs = adjoint.outputs.iter().map(|id| here[id.index()].expect("outputs are live"));
        Ok(wanted.into_iter().zip(outputs).collect())
    }

    /// The nodes that are needed: for what the operator gives and for what is shown, and because they may trap.
    fn live(&self, gradients: &HashMap<u32, NodeId>) -> Vec<bool> {
        let mut live = vec![false; self.graph.len()];
        let mut need = |node: NodeId| live[node.index()] = true;
        self.results.iter().for_each(|&(_, node)| need(node));
        gradients.values().for_each(|&node| need(node));
        self.active.iter().for_each(|load| need(load.index));
        for (step, _) in &self.steps {
            match step {
                Step::Node(node) if self.may_trap(*node) => need(*node),
                Step::Object { index: Some(index), .. } => need(*index),
                Step::Trace { values, .. } => values.iter().for_each(|shown| match shown {
                    Shown::Node(node) => need(*node),
                    Shown::Object(_) => {}
                }),
                _ => {}
            }
        }
        for (id, _) in self.graph.iter().rev() {
            if live[id.index()] {
                self.graph.args(id).for_each(|arg| live[arg.index()] = true);
                if let Some(Source::Load { index: Some(index), .. }) = self.source(id) {
                    live[index.index()] = true;
                }
            }
        }
        live
    }

    /// Where an input comes from.
    fn source(&self, node: NodeId) -> Option<&Source> {
        match self.graph.node(node) {
            Node::RealInput(n) => self.sources[0].get(n as usize),
            Node::IntInput(n) => self.sources[1].get(n as usize),
            _ => None,
        }
    }

    fn may_trap(&self, node: NodeId) -> bool {
        match (self.graph.node(node), self.source(node)) {
            (Node::Op(op, _), _) => op.info().traps,
            (_, Some(Source::Load { op, .. })) => !matches!(op, Op::Len | Op::Field | Op::IField | Op::VariantTag),
            _ => false,
        }
    }

    /// Writes the instruction that computes a node or loads it.
    fn compute(&mut self, node: NodeId) -> Result<(), Declined> {
        let bank = bank_of(self.graph.node(node));
        match (self.graph.node(node), self.source(node).cloned()) {
            (Node::Op(op, _), _) => {
                let args: Vec<NodeId> = self.graph.args(node).collect();
                let args = args.into_iter().map(|arg| self.register(arg)).collect::<Result<Vec<_>, _>>()?;
                let to = self.fresh(bank)?;
                self.writer.scalar(op, to.index, &args)?;
                self.registers[node.index()] = Some(to);
            }
            (_, Some(Source::Load { op, operands, index })) => {
                let to = self.fresh(bank)?;
                self.load(op, to, &operands, index)?;
                self.registers[node.index()] = Some(to);
            }
            // A constant, or what the caller has.
            _ => {}
        }
        Ok(())
    }

    fn load(&mut self, op: Op, to: Reg, operands: &[Operand], index: Option<NodeId>) -> Result<(), Declined> {
        let mut all = vec![Operand::Def(to), operands[0].clone()];
        if let Some(index) = index {
            all.push(Operand::Use(self.register(index)?));
        }
        all.extend_from_slice(&operands[1..]);
        self.writer.emit(op, &all)
    }

    fn fresh(&mut self, bank: Bank) -> Result<Reg, Declined> {
        let index = if bank == Bank::Real { self.writer.real()? } else { self.writer.int()? };
        Ok(Reg { bank, index })
    }

    /// The register of a node that was computed before, or is a constant, or is the caller's.
    fn register(&mut self, node: NodeId) -> Result<Reg, Declined> {
        if let Some(register) = self.registers[node.index()] {
            return Ok(register);
        }
        let register = match (self.graph.node(node), self.source(node)) {
            (_, Some(&Source::Register(register))) => register,
            (Node::Real(bits), _) => Reg::real(self.writer.constant(Bank::Real, bits)?),
            (Node::Int(value), _) => Reg::int(self.writer.constant(Bank::Int, value as u64)?),
            _ => return Err(Declined),
        };
        self.registers[node.index()] = Some(register);
        Ok(register)
    }

    /// An array of zeros but where the function has loaded something.
    fn gradient_of_array(
        &mut self,
        argument: usize,
        array: Reg,
        ty: TypeId,
        gradients: &HashMap<u32, NodeId>,
    ) -> Result<Reg, Declined> {
        let zero = Reg::real(self.writer.constant(Bank::Real, 0)?);
        let mut parts = Vec::new();
        for load in std::mem::take(&mut self.active) {
            if load.argument == argument {
                let gradient = gradients.get(&load.input).copied().ok_or(Declined)?;
                parts.push((self.register(load.index)?, self.register(gradient)?));
            } else {
                self.active.push(load);
            }
        }
        self.writer.array_like(array, ty, self.site.builders.of(ValueType::Real)?, |writer, at| {
            let here = Reg::int(writer.int()?);
            let (sum, part) = (Reg::real(writer.real()?), Reg::real(writer.real()?));
            let mut total = zero;
            for (index, value) in parts {
                writer.scalar(Op::IEq, here.index, &[index, at])?;
                writer.scalar(Op::Select, part.index, &[here, value, zero])?;
                writer.scalar(Op::Add, sum.index, &[total, part])?;
                total = sum;
            }
            Ok(total)
        })
    }
}
