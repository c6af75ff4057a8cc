//! Which registers go into a segment's record, and where its outputs' words come from.
//!
//! The adjoint of a segment says which nodes it needs; this file says in which registers these are when the segment
//! ends, and which values must be copied before the segment itself overwrites them.

use super::adjoint::SegmentAdjoint;
use super::{OutputWord, SegmentCode, SegmentSite, SegmentStructure};
use crate::code::CheckedRecord;
use crate::derivation::adjoint::adjoint;
use crate::derivation::dependence::InputSet;
use crate::derivation::graph::{Graph, Node, NodeId};
use crate::derivation::piece::Piece;
use crate::preparation::Grain;
use crate::preparation::segmentation::Segment;

/// A primal that is saved but overwritten before its segment ends: it is copied first.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The instruction that overwrites it.
    pub(crate) before: u32,
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// Finds the registers in which a segment's real values are when it ends.
pub(crate) struct EndRegisters<'a> {
    graph: &'a Graph,
    real_inputs: &'a [u16],
    /// Where the segment writes registers: instruction, register, node.
    writes: &'a [(u32, u16, NodeId)],
}

impl<'a> EndRegisters<'a> {
    pub(crate) fn new(graph: &'a Graph, real_inputs: &'a [u16], writes: &'a [(u32, u16, NodeId)]) -> Self {
        EndRegisters { graph, real_inputs, writes }
    }

    /// The register that a value is in; if the segment overwrites it, the instruction before which it is to be copied.
    pub(crate) fn of(&self, id: NodeId) -> (u16, Option<u32>) {
        let (register, born) = match self.graph.node(id) {
            Node::RealInput(n) => (self.real_inputs[n as usize], None),
            _ => {
                let write = self.writes.iter().find(|write| write.2 == id).expect("the value was computed");
                (write.1, Some(write.0))
            }
        };
        let overwrites = |write: &&(u32, u16, NodeId)| {
            write.1 == register && write.2 != id && born.is_none_or(|born| write.0 > born)
        };
        (register, self.writes.iter().find(overwrites).map(|write| write.0))
    }
}

/// Everything about the recording of a segment but its number.
#[derive(Debug)]
pub(crate) struct RecordPlan {
    pub(crate) site: SegmentSite,
    pub(crate) code: SegmentCode,
    /// If records are as fine as segments.
    pub(crate) structure: Option<SegmentStructure>,
    /// If they are as fine as instructions.
    pub(crate) checked: Option<CheckedRecord>,
    pub copies: Vec<Copy>,
}

impl RecordPlan {
    /// Derives the segment's adjoint and finds the registers of what its record holds. Copies go to registers from
    /// `free` on.
    pub(crate) fn new(segment: Segment, free: u16, grain: Grain) -> Self {
        let Segment { graph, real_inputs, int_inputs, outputs, writes, .. } = segment;
        let computed = computed_outputs(&graph, &outputs);
        let (reals, ints) = (real_inputs.len() as u32, int_inputs.len() as u32);
        let piece = Piece { graph, reals, ints, outputs: computed };
        let derived = adjoint(&piece);
        let adjoint = match grain {
            Grain::Instruction => SegmentAdjoint::saving_inputs(&piece, &derived, piece.reals),
            Grain::Region | Grain::Segment => SegmentAdjoint::of(&piece, &derived, piece.reals),
        };
        let structure = (grain == Grain::Segment).then(|| SegmentStructure::new(&piece, &derived, &adjoint));
        let checked = (grain == Grain::Instruction).then(|| checked_record(&piece, &adjoint, reals));

        let mut copies = Vec::new();
        let ends = EndRegisters::new(&piece.graph, &real_inputs, &writes);
        let mut register_of = |&id: &NodeId| match ends.of(id) {
            (register, None) => register,
            (from, Some(before)) => {
                let to = free + copies.len() as u16;
                copies.push(Copy { before, from, to });
                to
            }
        };
        let saved_reals: Box<[u16]> = adjoint.saved_reals.iter().map(&mut register_of).collect();
        let int_register = |id: &NodeId| match piece.graph.node(*id) {
            Node::IntInput(n) => int_inputs[n as usize],
            node => unreachable!("a segment computes reals only, found {node:?}"),
        };
        let saved_ints: Box<[u16]> = adjoint.saved_ints.iter().map(int_register).collect();

        let words = slot_words(&adjoint);
        let outputs: Box<[(u16, OutputWord)]> = outputs
            .iter()
            .map(|&(reg, id)| match piece.graph.node(id) {
                Node::RealInput(n) => (reg, OutputWord::Copy(real_inputs[n as usize])),
                Node::Op(..) => (
                    reg,
                    words[piece.outputs.iter().position(|&node| node == id).expect("every computed output is listed")],
                ),
                _ => (reg, OutputWord::Zero),
            })
            .collect();
        let inputs = adjoint.inputs.iter().map(|&n| real_inputs[n as usize]).collect();
        let site = SegmentSite::new(&adjoint, 0, inputs, (saved_reals, saved_ints), outputs);
        let code = SegmentCode {
            layout: site.layout,
            slots: site.slots,
            contributions: adjoint.contributions.into(),
            adjoint: adjoint.code,
        };
        RecordPlan { site, code, structure, checked, copies }
    }
}

/// What stands where in the records of an instruction, whose piece has this adjoint.
pub(crate) fn checked_record(piece: &Piece, adjoint: &SegmentAdjoint, real_inputs: u32) -> CheckedRecord {
    let input = |id: &NodeId| match piece.graph.node(*id) {
        Node::RealInput(n) | Node::IntInput(n) => n,
        _ => u32::MAX,
    };
    CheckedRecord {
        saved_reals: adjoint.saved_reals.iter().map(input).collect(),
        saved_ints: adjoint.saved_ints.iter().map(input).collect(),
        slots: adjoint.inputs.clone().into(),
        components: (0..).zip(&adjoint.sets).filter(|(_, set)| set.is_some()).map(|(component, _)| component).collect(),
        real_inputs,
    }
}

/// The outputs that the segment computes, each once: several registers may hold one node.
pub(crate) fn computed_outputs(graph: &Graph, outputs: &[(u16, NodeId)]) -> Vec<NodeId> {
    let mut computed: Vec<NodeId> =
        outputs.iter().map(|&(_, id)| id).filter(|&id| matches!(graph.node(id), Node::Op(..))).collect();
    computed.sort_unstable();
    computed.dedup();
    computed
}

/// The word of each computed output: slots are given out in order to those that depend on an input.
pub(crate) fn slot_words(adjoint: &SegmentAdjoint) -> Vec<OutputWord> {
    let mut offset = 0;
    let word = |set: &Option<InputSet>| match set {
        Some(set) => {
            offset += 1;
            let mask = set.word().expect("a segment was cut where it had as many inputs as a word has bits");
            OutputWord::Slot { offset: offset - 1, mask }
        }
        None => OutputWord::Zero,
    };
    adjoint.sets.iter().map(word).collect()
}
