//! Segments: what their records hold, what writes them, and the code that sweeps them.
//!
//! Both [`SegmentSite`] and [`SegmentCode`] are plain data: interpreter and native code write and read the same
//! records. [`RecordPlan`] makes them of a segment.

mod adjoint;
mod plan;
mod structure;

pub(crate) use adjoint::SegmentAdjoint;
pub(crate) use plan::{EndRegisters, RecordPlan, checked_record, computed_outputs, slot_words};
pub(crate) use structure::SegmentStructure;

use crate::bytecode::isa::Reg;
use crate::code::{InSite, Sites, Stream};
use crate::derivation::assembler::StraightCode;
use crate::records::{Kind, Numbers, TRAILER_BYTES, Writer};
use crate::word::{Slot, Word};

/// Where an output of a segment gets its word from.
#[derive(Clone, Copy, Debug)]
pub enum OutputWord {
    /// A new slot if one of the inputs in the mask is active.
    Slot {
        /// Counted from the record's first slot.
        offset: u32,
        /// Bits of the reals that the site's inputs are.
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
    /// There are 2^`depth` of these for each real that the code reads, side by side: its components.
    pub depth: u32,
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
    /// The end of a segment with this adjoint, which has no number yet: where its inputs, what it saves and its outputs
    /// are.
    pub(crate) fn new(
        adjoint: &SegmentAdjoint,
        depth: u32,
        inputs: Box<[u16]>,
        (saved_reals, saved_ints): (Box<[u16]>, Box<[u16]>),
        outputs: Box<[(u16, OutputWord)]>,
    ) -> Self {
        let numbers = Numbers { reals: saved_reals.len(), ints: saved_ints.len() };
        SegmentSite {
            id: u32::MAX,
            layout: SegmentLayout { numbers, inputs: inputs.len() },
            inputs,
            depth,
            copies: outputs.iter().any(|(_, word)| matches!(word, OutputWord::Copy(_))),
            slots: adjoint.slots,
            sweep_cost: adjoint.code.code.len() as u32 + 1,
            saved_reals,
            saved_ints,
            outputs,
        }
    }

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
        first: Slot,
        reals: *const f64,
        words: *const Word,
        ints: *const i64,
    ) {
        // SAFETY: promised by the caller: the layout is that of the lists.
        unsafe {
            let mut writer = Writer::new(start);
            writer.numbers([&self.saved_reals, &self.saved_ints], reals, ints);
            self.inputs.iter().for_each(|&reg| writer.slot((*words.add(usize::from(reg))).slot()));
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
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct SegmentCode {
    /// Where the parts of a record stand.
    pub layout: SegmentLayout,
    /// How many slots the outputs have.
    pub slots: u32,
    /// For each input, the register that holds its contribution.
    pub contributions: Box<[u16]>,
    /// From saved primals and output adjoints to contributions.
    pub adjoint: StraightCode,
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
