//! Scalar instructions: the tangents of their results, by the rules of the instruction table.

use super::{Forward, Tangent};
use crate::bytecode::isa::{Bank, Inst, Op, Reg, Role};
use crate::derivation::graph::{Graph, Node, NodeId, bank_of, rules};
use crate::in_place::writer::{Copy, Declined};
use std::cell::RefCell;

/// Inputs from here on are tangents, by their registers.
const TANGENTS: u32 = 1 << 16;

/// A scalar instruction and the tangents of its result.
struct Piece {
    graph: Graph,
    /// Its arguments, each register once.
    inputs: Vec<(Reg, NodeId)>,
    result: NodeId,
    /// One for each lane, if it isn't 0.
    tangents: Vec<Option<NodeId>>,
}

impl Piece {
    /// For each node, whether a tangent is computed from it, if the result is there.
    fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.graph.len()];
        self.tangents.iter().flatten().for_each(|tangent| live[tangent.index()] = true);
        for (id, _) in self.graph.iter().rev().filter(|&(id, _)| id != self.result) {
            if live[id.index()] {
                self.graph.args(id).for_each(|arg| live[arg.index()] = true);
            }
        }
        live
    }
}

impl Forward<'_, '_> {
    /// A scalar instruction and the tangent of its result.
    pub(super) fn scalar(&mut self, inst: &Inst) -> Result<(), Declined> {
        let (op, dst) = (inst.op, inst.a);
        let is_real = op.info().operands[0].role == Role::Def(Bank::Real);
        let mut args = Vec::with_capacity(3);
        self.site.body.for_each_reg(inst, |reg, def| {
            if !def {
                args.push(reg);
            }
        });
        let varies = |reg: &Reg| reg.bank == Bank::Real && self.varies(reg.index);
        if !is_real || !op.info().differentiable || !args.iter().any(varies) {
            self.emit_own(inst)?;
            if is_real {
                self.note(dst, Vec::new());
            }
            return Ok(());
        }
        let piece = self.derive(op, &args);
        let live = piece.live();
        let overwritten = piece.inputs.iter().find(|(reg, _)| *reg == Reg::real(dst));
        let overwrites = overwritten.is_some_and(|(_, node)| live[node.index()]);
        if !live[piece.result.index()] {
            let tangents = self.piece(&piece, None, dst)?;
            self.emit_own(inst)?;
            self.note(dst, tangents);
        } else if !overwrites {
            self.emit_own(inst)?;
            let result = self.register(Reg::real(dst))?;
            let tangents = self.piece(&piece, Some(result), dst)?;
            self.note(dst, tangents);
        } else {
            let mut given = Vec::with_capacity(3);
            for reg in &args {
                given.push(Reg { index: self.register(*reg)?, ..*reg });
            }
            let result = self.writer.temporary(Bank::Real)?;
            self.writer.scalar(op, result, &given)?;
            let tangents = self.piece(&piece, Some(result), dst)?;
            let to = Reg::real(self.register(Reg::real(dst))?);
            self.writer.copy(&[Copy::value(to, Reg::real(result))])?;
            self.note(dst, tangents);
        }
        Ok(())
    }

    /// Whether a real register has a tangent in any lane.
    pub(super) fn varies(&self, reg: u16) -> bool {
        (0..self.lanes).any(|lane| self.state.reals.contains_key(&(lane, reg)))
    }

    /// Notes the tangents of a register that was written, by lanes.
    fn note(&mut self, dst: u16, tangents: Vec<Option<Tangent>>) {
        for lane in 0..self.lanes {
            match tangents.get(lane) {
                Some(&Some(tangent)) => _ = self.state.reals.insert((lane, dst), tangent),
                _ => _ = self.state.reals.remove(&(lane, dst)),
            }
        }
    }

    /// Derives the tangents of an instruction's result.
    fn derive(&self, op: Op, args: &[Reg]) -> Piece {
        let mut graph = Graph::default();
        let mut inputs: Vec<(Reg, NodeId)> = Vec::with_capacity(3);
        for &reg in args {
            if inputs.iter().all(|&(known, _)| known != reg) {
                let n = inputs.len() as u32;
                // What varies is no constant, whatever it is known to be.
                let varies = reg.bank == Bank::Real && self.varies(reg.index);
                let known = self.constants[reg.bank as usize].get(&reg.index).copied();
                let node = match (reg.bank, known.filter(|_| !varies)) {
                    (Bank::Real, Some(bits)) => Node::Real(bits),
                    (Bank::Real, None) => Node::RealInput(n),
                    (_, Some(bits)) => Node::Int(bits as i64),
                    (_, None) => Node::IntInput(n),
                };
                inputs.push((reg, graph.add(node)));
            }
        }
        let node_of = |reg: Reg| inputs.iter().find(|(known, _)| *known == reg).map(|&(_, node)| node);
        let nodes: Vec<NodeId> = args.iter().filter_map(|&reg| node_of(reg)).collect();
        let result = graph.op(op, &nodes);
        let mut given = Vec::with_capacity(self.lanes);
        for lane in 0..self.lanes {
            let mut tangents = Vec::with_capacity(3);
            for &(reg, node) in inputs.iter().filter(|(reg, _)| reg.bank == Bank::Real) {
                let tangent = match self.state.reals.get(&(lane, reg.index)) {
                    None => continue,
                    Some(&Tangent::Constant(bits)) => Node::Real(bits),
                    Some(&Tangent::Register(register)) => Node::RealInput(TANGENTS + u32::from(register)),
                };
                tangents.push((node, graph.add(tangent)));
            }
            given.push(tangents);
        }
        let graph = RefCell::new(graph);
        let rules = rules(&graph, result);
        let tangent = |given: &Vec<(NodeId, NodeId)>| {
            let of_node = |node: NodeId| given.iter().find(|(known, _)| *known == node).map(|&(_, tangent)| tangent);
            let terms = rules.iter().filter_map(|(arg, partial)| partial.apply(&graph, of_node(*arg)?));
            let sum = terms.reduce(|sum, term| graph.borrow_mut().op(Op::Add, &[sum, term]));
            // An instruction that gives back what it is given is that node, of which there are no rules.
            sum.or_else(|| of_node(result))
        };
        let tangents = given.iter().map(tangent).collect();
        drop(rules);
        Piece { graph: graph.into_inner(), inputs, result, tangents }
    }

    /// Writes what tangents are made of; the last instruction of each writes its register.
    fn piece(&mut self, piece: &Piece, result: Option<u16>, dst: u16) -> Result<Vec<Option<Tangent>>, Declined> {
        let live = piece.live();
        let mut registers: Vec<Option<Reg>> = vec![None; piece.graph.len()];
        let mut made: Vec<bool> = vec![false; self.lanes];
        for (id, node) in piece.graph.iter().filter(|(id, _)| live[id.index()]) {
            let given = piece.inputs.iter().find(|(_, input)| *input == id).map(|&(reg, _)| reg);
            let register = match node {
                Node::Real(bits) => Reg::real(self.writer.constant(Bank::Real, bits)?),
                Node::Int(value) => Reg::int(self.writer.constant(Bank::Int, value as u64)?),
                Node::RealInput(n) if n >= TANGENTS => Reg::real((n - TANGENTS) as u16),
                _ if given.is_some() => {
                    let reg = given.ok_or(Declined)?;
                    Reg { index: self.register(reg)?, ..reg }
                }
                Node::Op(..) if id == piece.result => Reg::real(result.ok_or(Declined)?),
                Node::Op(op, _) => {
                    let args: Vec<Reg> = piece.graph.args(id).filter_map(|arg| registers[arg.index()]).collect();
                    let lane = piece.tangents.iter().position(|tangent| *tangent == Some(id));
                    let index = match (lane, bank_of(node)) {
                        (Some(lane), _) => {
                            made[lane] = true;
                            self.tangent(lane, Reg::real(dst))?
                        }
                        (None, bank) => self.writer.temporary(bank)?,
                    };
                    self.writer.scalar(op, index, &args)?;
                    Reg { bank: bank_of(node), index }
                }
                Node::RealInput(_) | Node::IntInput(_) => return Err(Declined),
            };
            registers[id.index()] = Some(register);
        }
        let mut tangents = Vec::with_capacity(self.lanes);
        for (lane, tangent) in piece.tangents.iter().enumerate() {
            tangents.push(match tangent {
                None => None,
                Some(tangent) => match piece.graph.node(*tangent) {
                    Node::Real(bits) => (f64::from_bits(bits) != 0.0).then_some(Tangent::Constant(bits)),
                    _ => {
                        let register = self.tangent(lane, Reg::real(dst))?;
                        if !made[lane] {
                            // The tangent of an argument or of another lane, as it is.
                            let from = registers[tangent.index()].ok_or(Declined)?;
                            self.writer.copy(&[Copy::value(Reg::real(register), from)])?;
                        }
                        Some(Tangent::Register(register))
                    }
                },
            });
        }
        Ok(tangents)
    }
}
