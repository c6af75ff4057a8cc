//! What recording a segment takes: which registers go into its record, and where its outputs' words come from.
//!
//! The graph of a segment says what its adjoint needs; this file says in which registers that is when the segment ends,
//! and which values must be copied before the segment itself overwrites them.

use crate::bytecode::isa::Reg;
use crate::code::{InSite, Sites, Stream};
use crate::derivation::assembler::StraightCode;
use crate::derivation::derive::{Adjoint, derive_adjoint};
use crate::derivation::graph::{Node, NodeId};
use crate::native::Piece;
use crate::preparation::segmentation::Segment;
use crate::records::{Kind, Numbers, TRAILER_BYTES, Writer};
use crate::word::slot;

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

/// Where the parts of a segment's record stand, in bytes from its start:
///
/// ```text
/// saved reals (8 bytes each) │ saved integers (8) │ slots of the inputs (4) │ trailer
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentLayout {
    /// What is saved.
    pub numbers: Numbers,
    /// How many inputs there are.
    pub inputs: usize,
}

impl SegmentLayout {
    /// Where the slot of the n-th input stands.
    pub const fn slot(self, n: usize) -> usize {
        self.numbers.bytes() + 4 * n
    }

    /// Where the trailer stands: the segment's number, then the first slot of the outputs 4 bytes on.
    pub const fn trailer(self) -> usize {
        self.slot(self.inputs)
    }

    /// The size of a record.
    pub const fn bytes(self) -> usize {
        self.trailer() + TRAILER_BYTES
    }
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
    /// Where the parts of a record stand.
    pub layout: SegmentLayout,
    /// Instructions that the sweep runs for a record.
    pub sweep_cost: u32,
}

impl SegmentSite {
    /// What a record's trailer says of it.
    pub fn number(&self) -> u32 {
        Kind::Segment(self.id).number()
    }

    /// Writes a record.
    ///
    /// # Safety
    /// There is room for it from `start` on; the frame has the site's registers.
    #[inline(always)]
    pub(crate) unsafe fn write(
        &self,
        start: *mut u8,
        first: u32,
        reals: *const f64,
        words: *const u64,
        ints: *const i64,
    ) {
        // SAFETY: promised by the caller: the layout is that of the lists.
        unsafe {
            let mut writer = Writer::new(start);
            writer.numbers([&self.saved_reals, &self.saved_ints], reals, ints);
            self.inputs.iter().for_each(|&reg| writer.narrow(slot(*words.add(usize::from(reg)))));
            writer.trailer(Kind::Segment(self.id), first);
        }
    }
}

impl InSite for SegmentSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.segments
    }

    /// Words of inputs are read and words of outputs written, but no primal is.
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.inputs.iter().chain(&self.saved_reals).for_each(|&index| visit(Reg::real(index), false));
        self.saved_ints.iter().for_each(|&index| visit(Reg::int(index), false));
        self.outputs.iter().for_each(|&(index, _)| visit(Reg::real(index), false));
    }
}

/// What the sweep knows of a segment.
#[derive(Debug)]
pub struct SegmentCode {
    /// Where the parts of a record stand.
    pub layout: SegmentLayout,
    /// How many slots the outputs have.
    pub slots: u32,
    /// For each input, the register that holds its contribution.
    pub contributions: Box<[u16]>,
    /// From saved primals and output adjoints to contributions.
    pub adjoint: StraightCode,
    /// The same as native code.
    pub(crate) native: Piece,
}

impl SegmentCode {
    /// Where a record begins.
    ///
    /// # Safety
    /// `trailer` is that of a record of this segment.
    #[inline(always)]
    pub(crate) unsafe fn start(&self, trailer: *const u32) -> *const u8 {
        // SAFETY: promised by the caller.
        unsafe { trailer.cast::<u8>().sub(self.layout.trailer()) }
    }

    /// The real register of the adjoint's frame that begins with the adjoint of the n-th output: behind what was saved.
    pub const fn output(&self, n: usize) -> usize {
        self.layout.numbers.reals + n
    }
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
        let adjoint = derive_adjoint(graph, &computed);

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
            layout: SegmentLayout {
                numbers: Numbers { reals: saved_reals.len(), ints: saved_ints.len() },
                inputs: adjoint.inputs.len(),
            },
            copies: outputs.iter().any(|(_, word)| matches!(word, OutputWord::Copy(_))),
            slots: adjoint.slots,
            sweep_cost: adjoint.code.code.len() as u32 + 1,
            saved_reals,
            saved_ints,
            outputs,
        };
        let code = SegmentCode {
            layout: site.layout,
            slots: site.slots,
            contributions: adjoint.contributions.into(),
            adjoint: adjoint.code,
            native: Piece::default(),
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
    let word = |mask: &Option<u64>| match *mask {
        Some(mask) => {
            offset += 1;
            OutputWord::Slot { offset: offset - 1, mask }
        }
        None => OutputWord::Zero,
    };
    adjoint.masks.iter().map(word).collect()
}
