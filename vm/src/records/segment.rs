//! What recording a segment takes: which registers go into its record, and where its outputs' words come from.
//!
//! The graph of a segment says what its adjoint needs; this file says in which registers that is when the segment ends,
//! and which values must be copied before the segment itself overwrites them.

use crate::derivation::dependence::InputSet;
use crate::derivation::derive::{Adjoint, StraightCode, derive_adjoint};
use crate::derivation::graph::{Node, NodeId};
use crate::derivation::piece::Piece;
use crate::native;
use crate::preparation::segmentation::Segment;
use crate::tape;

/// Where an output of a segment gets its word from.
#[derive(Clone, Copy, Debug)]
pub enum OutputWord {
    /// A new slot if one of the inputs in the mask is active.
    Slot {
        /// Counted from the record's first slot.
        offset: u32,
        /// Bits of the site's inputs.
        mask: u64,
    },
    /// The word that this register had before the segment.
    Copy(u16),
    /// The output is constant.
    Zero,
}

/// The end of a segment in a recording stream.
#[derive(Debug)]
pub struct SegmentSite {
    /// The number of the segment in the module.
    pub id: u32,
    /// Registers whose words say what the segment depends on.
    pub inputs: Box<[u16]>,
    /// Registers whose primals go into the record.
    pub saved_reals: Box<[u16]>,
    /// Integer registers that go into the record.
    pub saved_ints: Box<[u16]>,
    /// Registers that get new words.
    pub outputs: Box<[(u16, OutputWord)]>,
    /// Whether an output is a `Copy`: words are then read before any is written.
    pub copies: bool,
    /// How many slots the outputs take.
    pub slots: u32,
    /// The size of a record.
    pub record_bytes: u32,
    /// Instructions that the sweep runs for a record.
    pub sweep_cost: u32,
}

/// What the sweep knows of a segment.
#[derive(Debug)]
pub struct SegmentCode {
    /// How many reals a record holds.
    pub saved_reals: u32,
    /// How many integers a record holds.
    pub saved_ints: u32,
    /// How many slots the outputs have.
    pub slots: u32,
    /// For each input, the register that holds its contribution.
    pub contributions: Box<[u16]>,
    /// From saved primals and output adjoints to contributions.
    pub adjoint: StraightCode,
    /// The same as native code.
    pub(crate) native: native::Piece,
}

/// A primal that is saved but overwritten before its segment ends: it is copied first.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The instruction that overwrites it.
    pub(crate) before: u32,
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// Everything about the recording of a segment but its number.
#[derive(Debug)]
pub(crate) struct RecordPlan {
    pub(crate) site: SegmentSite,
    pub(crate) code: SegmentCode,
    pub copies: Vec<Copy>,
}

impl RecordPlan {
    /// Derives the segment's adjoint and finds the registers of what its record holds. Copies go to registers from
    /// `free` on.
    pub(crate) fn new(segment: Segment, free: u16) -> Self {
        let Segment { graph, real_inputs, int_inputs, outputs, writes, .. } = segment;
        let nodes: Vec<Node> = graph.iter().map(|(_, node)| node).collect();
        let computed = computed_outputs(&nodes, &outputs);
        let (reals, ints) = (real_inputs.len() as u32, int_inputs.len() as u32);
        let adjoint = derive_adjoint(Piece { graph, reals, ints, outputs: computed.clone() });

        let mut copies = Vec::new();
        let mut register_of = |&id: &NodeId| {
            let (from, born) = match nodes[id.index()] {
                Node::RealInput(n) => (real_inputs[n as usize], None),
                _ => {
                    let write = writes.iter().find(|write| write.2 == id).expect("a saved node was computed");
                    (write.1, Some(write.0))
                }
            };
            let overwritten =
                writes.iter().find(|write| write.1 == from && write.2 != id && born.is_none_or(|born| write.0 > born));
            overwritten.map_or(from, |&(before, ..)| {
                let to = free + copies.len() as u16;
                copies.push(Copy { before, from, to });
                to
            })
        };
        let saved_reals: Box<[u16]> = adjoint.saved_reals.iter().map(&mut register_of).collect();
        let int_register = |id: &NodeId| match nodes[id.index()] {
            Node::IntInput(n) => int_inputs[n as usize],
            node => unreachable!("a segment computes reals only, found {node:?}"),
        };
        let saved_ints: Box<[u16]> = adjoint.saved_ints.iter().map(int_register).collect();

        let words = slot_words(&adjoint);
        let outputs: Box<[(u16, OutputWord)]> = outputs
            .iter()
            .map(|&(reg, id)| match nodes[id.index()] {
                Node::RealInput(n) => (reg, OutputWord::Copy(real_inputs[n as usize])),
                Node::Op(..) => {
                    (reg, words[computed.iter().position(|&node| node == id).expect("every computed output is listed")])
                }
                _ => (reg, OutputWord::Zero),
            })
            .collect();
        let site = SegmentSite {
            id: u32::MAX,
            inputs: adjoint.inputs.iter().map(|&n| real_inputs[n as usize]).collect(),
            record_bytes: tape::record_bytes(saved_reals.len(), saved_ints.len(), adjoint.inputs.len()),
            copies: outputs.iter().any(|(_, word)| matches!(word, OutputWord::Copy(_))),
            slots: adjoint.slots,
            sweep_cost: adjoint.code.code.len() as u32 + 1,
            saved_reals,
            saved_ints,
            outputs,
        };
        let code = SegmentCode {
            saved_reals: site.saved_reals.len() as u32,
            saved_ints: site.saved_ints.len() as u32,
            slots: site.slots,
            contributions: adjoint.contributions.into(),
            adjoint: adjoint.code,
            native: native::Piece::default(),
        };
        RecordPlan { site, code, copies }
    }
}

/// The outputs that the segment computes, each once: several registers may hold one node.
fn computed_outputs(nodes: &[Node], outputs: &[(u16, NodeId)]) -> Vec<NodeId> {
    let mut computed: Vec<NodeId> =
        outputs.iter().map(|&(_, id)| id).filter(|id| matches!(nodes[id.index()], Node::Op(..))).collect();
    computed.sort_unstable();
    computed.dedup();
    computed
}

/// The word of each computed output: slots are given out in order to those that depend on an input.
fn slot_words(adjoint: &Adjoint) -> Vec<OutputWord> {
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
