//! The derivatives of a function's straight-line code as formulas, for people to read: tangent and adjoint of each
//! segment, as `derivation` gives them to the rest of the machine.
//!
//! Derived code is code, so that printing it is all there is to symbolic differentiation ("Forward- or Reverse-Mode
//! Automatic Differentiation: What's the Difference?", section 2.5): the graph of values is the algebra of formulas,
//! and equal nodes are one, which is why formulas don't grow exponentially. What several of them need has a name.

mod names;
mod writer;

use crate::bytecode::isa::Bank;
use crate::bytecode::module::{FuncId, Function, ModuleDef, SourcePlace};
use crate::derivation::adjoint::adjoint;
use crate::derivation::graph::{Graph, Node, NodeId};
use crate::derivation::piece::Piece;
use crate::derivation::tangent::tangent;
use crate::preparation::segmentation::{Segment, constant_registers};
use crate::preparation::straight_line;
use crate::running::meter::Watch;
use names::{Name, Names};
use std::collections::HashMap;
use std::fmt;
use writer::Writer;

/// The derivatives of a function's straight-line code, as compiled. `Display` writes all of them.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Formulas {
    /// The function.
    pub name: String,
    /// Parameters and result, as a host sees them or by their registers.
    pub signature: String,
    /// The pieces that real numbers leave, in the order of the code.
    pub pieces: Vec<PieceFormulas>,
}

/// A piece of straight-line code and its derivatives.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PieceFormulas {
    /// Its first instruction, by its number in the bytecode, and the one behind its last.
    pub instructions: (u32, u32),
    /// Where they are in the source, if the module says.
    pub source: Option<SourcePlace>,
    /// What it computes.
    pub primal: Vec<Formula>,
    /// The tangents of what it computes. They go on with names that the primal has introduced.
    pub tangent: Vec<Formula>,
    /// What it contributes to the adjoints of what it reads. They go on with names of both.
    pub adjoint: Vec<Formula>,
}

/// A line: a name and what it stands for.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Formula {
    /// The name.
    pub name: String,
    /// Whether it is a contribution to an adjoint that may have others.
    pub adds: bool,
    /// What it stands for, or what is added.
    pub value: String,
}

impl Formulas {
    pub(crate) fn of(module: &ModuleDef, func: FuncId) -> Self {
        let (original, unstopped) = (&module.functions[func.index()], "nobody stops it");
        let watch = Watch::none();
        let code = straight_line(original, &watch).expect(unstopped);
        let params = original.params.iter().filter(|ty| ty.bank() == Bank::Int).count();
        let ints = constant_registers(&code.function.body, &code.flow, Bank::Int, params, &watch).expect(unstopped);
        let names = Names::new(module, original, (&code.function.body, &code.flow), &ints);
        let body = &code.function.body;
        let source = |segment: &Segment| Some(module.debug.own_place(body.location(segment.start)?));
        let pieces = code.segments.iter().filter(|segment| !segment.outputs.is_empty());
        let pieces = pieces.map(|segment| PieceFormulas::of(segment, source(segment), &names, &ints)).collect();
        Formulas { name: original.name.clone(), signature: signature(original), pieces }
    }
}

fn signature(function: &Function) -> String {
    let list = |types: Vec<String>| format!("({})", types.join(", "));
    match &function.interface {
        Some(interface) => {
            let params = interface.params.iter().map(|(name, ty)| format!("{name} : {ty}")).collect();
            format!("{} -> {}", list(params), interface.result)
        }
        None => {
            let shown = |ty: &crate::bytecode::module::ValueType| match ty.bank() {
                Bank::Real => "real".to_owned(),
                Bank::Int => "int".to_owned(),
                Bank::Ref => "ref".to_owned(),
            };
            let [params, results] =
                [&function.params, &function.results].map(|types| types.iter().map(shown).collect());
            format!("{} -> {}", list(params), list(results))
        }
    }
}

impl PieceFormulas {
    fn of(segment: &Segment, source: Option<SourcePlace>, names: &Names<'_>, constants: &HashMap<u16, u64>) -> Self {
        let read = names.read_by(segment);
        let written = Names::written_by(segment, &read);
        let piece = piece_of(segment, constants);
        let (tangent, adjoint) = (tangent(&piece), adjoint(&piece));
        // Both in one graph, so that what they have in common is one node. Inputs are followed by their tangents, and
        // these by the adjoints of outputs.
        let (reals, outputs) = (piece.reals, piece.outputs.len());
        let mut all = tangent.clone();
        let contributions = all.adopt(&adjoint, |n| if n < reals { n } else { n + reals });
        let mut inputs: Vec<String> = read.iter().map(Name::value).collect();
        inputs.extend(read.iter().map(Name::tangent));
        inputs.extend(written.iter().map(Name::adjoint));

        let named = |nodes: &[NodeId], names: &[Name], name: fn(&Name) -> String| -> Vec<(NodeId, String)> {
            nodes.iter().copied().zip(names.iter().map(name)).collect()
        };
        let values = named(&tangent.outputs[..outputs], &written, Name::value);
        let tangents = named(&tangent.outputs[outputs..], &written, Name::tangent);
        let mut contributions = named(&contributions, &read, Name::adjoint);
        contributions.retain(|(node, _)| all.graph.constant(*node).is_none());
        let integers = segment.int_inputs.iter().map(|&reg| names.int(reg, segment.start)).collect();
        let mut writer = Writer::new(&all.graph, inputs, integers);
        writer.count(values.iter().chain(&tangents).chain(&contributions).map(|(node, _)| *node));
        writer.call(&values);
        writer.call(&tangents);
        PieceFormulas {
            instructions: (segment.start, segment.end),
            source,
            primal: writer.definitions(&values),
            tangent: writer.definitions(&tangents),
            adjoint: writer.contributions(&contributions),
        }
    }
}

/// What a segment computes, with the values of constant integer registers in place of these.
fn piece_of(segment: &Segment, constants: &HashMap<u16, u64>) -> Piece {
    let mut graph = Graph::default();
    let mut here: Vec<NodeId> = Vec::with_capacity(segment.graph.len());
    for (id, node) in segment.graph.iter() {
        here.push(match node {
            Node::Op(op, _) => {
                let args: Vec<NodeId> = segment.graph.args(id).map(|arg| here[arg.index()]).collect();
                graph.op(op, &args)
            }
            Node::IntInput(n) => match constants.get(&segment.int_inputs[n as usize]) {
                Some(&bits) => graph.add(Node::Int(bits as i64)),
                None => graph.add(node),
            },
            node => graph.add(node),
        });
    }
    Piece {
        graph,
        reals: segment.real_inputs.len() as u32,
        ints: segment.int_inputs.len() as u32,
        outputs: segment.outputs.iter().map(|(_, node)| here[node.index()]).collect(),
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, if self.adds { "+=" } else { "=" }, self.value)
    }
}

impl fmt::Display for Formulas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.name, self.signature)?;
        if self.pieces.is_empty() {
            writeln!(f, "  no real is computed here")?;
        }
        for (n, piece) in self.pieces.iter().enumerate() {
            let (first, last) = (piece.instructions.0, piece.instructions.1 - 1);
            write!(f, "\n  piece {}: instruction", n + 1)?;
            if first == last { write!(f, " {first}") } else { write!(f, "s {first} to {last}") }?;
            if let Some(SourcePlace { line, column, .. }) = &piece.source {
                write!(f, ", line {line}, column {column}")?;
            }
            writeln!(f)?;
            for (what, lines) in [("primal", &piece.primal), ("tangent", &piece.tangent), ("adjoint", &piece.adjoint)] {
                writeln!(f, "    {what}")?;
                if lines.is_empty() {
                    writeln!(f, "      nothing")?;
                }
                lines.iter().try_for_each(|line| writeln!(f, "      {line}"))?;
            }
        }
        Ok(())
    }
}
