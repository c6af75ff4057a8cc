//! What recording a region as one takes: its sites in a recording stream, and the code that sweeps its record.
//!
//! A region is a loop with inner loops and branches ([`crate::preparation::region_detection`]). While it runs, only
//! primals are computed, and what the sweep needs is written in the order of execution, into the region's *trail*: what
//! a block has computed that can't be had otherwise, when the block ends; where control comes together, the number of
//! the edge that it has taken; where a loop is left, how often it went round and what it didn't change. The sweep reads
//! the trail backwards, block by block, with the adjoints of all registers in registers of its own. That is what source
//! transformation does with whole programs (Griewank and Walther 2008, chapter 6), here for the parts of a dynamic one
//! that have no calls.
//!
//! What is saved and what is computed again:
//! - Each block's adjoint is derived from the block alone. Results of costly instructions are saved, others are
//!   computed again from what is at hand, as in a segment.
//! - A register that a block reads is at hand if one of the loops around the block doesn't change it, or, for integers,
//!   changes it by an unchanged amount once per round: the sweep loads it where that loop was left, and steps it back.
//!   Of these loops it is the outermost one. All others are saved by the block.
//! - How often a loop went round, and integers that it doesn't change, aren't written where the sweep can compute them
//!   from others that it has at hand (`region/counted.rs`).
//! - Arrays that are read tell the sweep their first slots in the same way: each has an integer register for it.
//! - An array that is changed in place has one slot per element for the whole region, which stands for whatever is
//!   there at the time: where the sweep comes to a place where an element was replaced, it takes the adjoint for what
//!   was put there, and leaves 0 for what stood there before. So nothing is saved for that but an index that isn't at
//!   hand. What the slots hold in the end is added to those that the elements had when the region began.
//!
//! Sites and [`RegionCode`] are plain data: interpreter and native code write and read the same records.

mod code_writer;
mod counted;
mod layout;
mod plan;

pub use layout::{COPIED_MAX, RegionLayout};
pub(crate) use layout::{FOREIGN_MAX, RegionTail, Trail, copy_bytes, is_copied, padding};
pub(crate) use plan::RegionPlan;

use crate::bytecode::isa::Reg;
use crate::code::{InSite, Inst, Position, Sites, Stream};
use crate::records::segment::OutputWord;
use crate::records::{Kind, Numbers, Writer};
use std::ops::Range;

/// A region in a recording stream: where it begins and where it ends.
#[derive(Debug)]
pub struct RegionSite {
    /// The region's number in the module; `u32::MAX` if it never writes a record.
    pub id: u32,
    /// Real registers whose words the region depends on. Words stand still while it runs.
    pub inputs: Box<[u16]>,
    /// Reference registers whose objects it depends on. Activity masks count them after the inputs.
    pub refs: Box<[u16]>,
    /// The bits of objects whose registers the region writes: what stood in them in the beginning is not known in the
    /// end, and counts as active.
    pub replaced: u64,
    /// The registers that have a word when the region ends; never a `Copy`. Masks cover the inputs, then the objects.
    pub outputs: Box<[(u16, OutputWord)]>,
    /// How many slots the outputs take, without what is pushed.
    pub slots: u32,
    /// What the region pushes, if anything.
    pub push: Option<RegionPush>,
    /// Builders of reals whose elements it reads or replaces. They are objects that it depends on as well.
    pub changed: Box<[ChangedBuilder]>,
    /// Where the parts of a record stand that follow the trail.
    pub layout: RegionLayout,
    /// Where the region stands in the stream.
    pub code: Range<Position>,
}

/// A builder whose elements a region reads or replaces. While the region runs, their words stand still; when it ends,
/// they get consecutive slots, which the sweep takes for those of whatever stood there meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct ChangedBuilder {
    /// The builder's reference register.
    pub builder: u16,
    /// What the region knows of it.
    pub registers: ChangedArray,
    /// Whether an element is replaced.
    pub is_put: bool,
}

/// The integer registers that tell of a builder's elements while they are changed: while a region runs, element `i` has
/// the slot `first + i`, whatever it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChangedArray {
    /// Holds the slot that the first element had before; 0: all were constants.
    pub before: u16,
    /// Holds the slot of the first element while the region runs: the same as `before` if no element is replaced.
    pub first: u16,
    /// Holds how many elements there are.
    pub len: u16,
}

/// A builder that the region appends reals to. When the region ends, these get consecutive slots.
#[derive(Clone, Copy, Debug)]
pub struct RegionPush {
    /// The builder's reference register.
    pub builder: u16,
    /// The inputs and objects that the elements depend on. If it is empty, they are constants.
    pub mask: u64,
    /// The integer register that holds the builder's length when the region begins.
    pub len_before: u16,
}

impl InSite for RegionSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.regions
    }

    /// What the two instructions read. The last one writes words, but none writes a primal.
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.inputs.iter().for_each(|&index| visit(Reg::real(index), false));
        self.outputs.iter().for_each(|&(index, _)| visit(Reg::real(index), false));
        let builder = self.push.iter().map(|push| &push.builder);
        self.changed.iter().for_each(|ChangedBuilder { registers, .. }| {
            for register in [registers.before, registers.first, registers.len] {
                visit(Reg::int(register), false);
            }
        });
        self.refs.iter().chain(builder).for_each(|&index| visit(Reg::reference(index), false));
        self.push.iter().for_each(|push| visit(Reg::int(push.len_before), false));
    }
}

impl RegionSite {
    /// What a record's trailer says of it.
    pub fn number(&self) -> u32 {
        Kind::Region(self.id).number()
    }
}

/// What is appended to the trail at one place.
#[derive(Clone, Debug, Default)]
pub struct SaveSite {
    /// Real registers.
    pub reals: Box<[u16]>,
    /// Integer registers, after the reals.
    pub ints: Box<[u16]>,
    /// The number of the edge that is taken, a byte behind them.
    pub edge: Option<u8>,
    /// What the sweep costs: of a loop that is left here the integer register that holds its number of rounds, the
    /// instructions of a round, and those of all; of a range that was appended the one that holds how many elements it
    /// has, each an instruction.
    pub costs: Box<[(u16, u32, u32)]>,
}

impl SaveSite {
    /// What is saved in 8 bytes each.
    pub fn numbers(&self) -> Numbers {
        Numbers { reals: self.reals.len(), ints: self.ints.len() }
    }

    /// The size of it all.
    pub fn bytes(&self) -> usize {
        self.numbers().bytes() + usize::from(self.edge.is_some())
    }

    /// Whether nothing is saved or counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0 && self.costs.is_empty()
    }

    /// Writes it.
    ///
    /// # Safety
    /// There is room for it; the frame has the site's registers.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, start: *mut u8, reals: *const f64, ints: *const i64) {
        // SAFETY: promised by the caller.
        unsafe {
            let mut writer = Writer::new(start);
            writer.numbers([&self.reals, &self.ints], reals, ints);
            if let Some(edge) = self.edge {
                writer.byte(edge);
            }
        }
    }
}

impl InSite for SaveSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.saves
    }

    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.reals.iter().for_each(|&index| visit(Reg::real(index), false));
        self.ints.iter().for_each(|&index| visit(Reg::int(index), false));
        self.costs.iter().for_each(|&(index, _, _)| visit(Reg::int(index), false));
    }
}

/// What the sweep knows of a region. Its frame begins with the adjoints of the region's real registers, then reals that
/// loops don't change; and with integers that loops don't change or step, the numbers of rounds among them, and what it
/// knows of builders. These last from block to block.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct RegionCode {
    /// Real registers of the frame.
    pub reals: usize,
    /// Integer registers of the frame.
    pub ints: usize,
    /// How many real registers are adjoints, which begin at zero.
    pub cleared: usize,
    /// How many real registers last from block to block.
    pub lasting_reals: usize,
    /// How many integer registers do.
    pub lasting_ints: usize,
    /// The adjoints of the blocks.
    pub blocks: Box<[BlockAdjoint]>,
    /// How the region is left.
    pub exits: Box<[Edge]>,
    /// For each slot of the outputs, the register that begins with its adjoint.
    pub outputs: Box<[u16]>,
    /// For each input, the register that holds its contribution in the end.
    pub contributions: Box<[u16]>,
    /// What it knows of the builder that was begun before the region.
    pub pushed: Option<PushedTo>,
    /// What it knows of those that are begun in it: 0 in the beginning.
    pub made: Box<[PushedTo]>,
    /// What it knows of those whose elements the region replaces, throughout.
    pub changed: Box<[ChangedArray]>,
    /// Where the parts of a record stand that follow the trail.
    pub layout: RegionLayout,
}

impl RegionCode {
    /// Instructions of all blocks together.
    pub(crate) fn len(&self) -> usize {
        self.blocks.iter().map(BlockAdjoint::len).sum()
    }
}

/// Integer registers that say where the adjoints of a builder's elements are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PushedTo {
    /// The first slot of the array that it became; 0: it is constant, or became none.
    pub first: u16,
    /// How many of its elements the sweep has not come to.
    pub left: u16,
}

/// What the sweep does where a block has done something with a builder.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum BuilderAdjoint {
    /// It became an array.
    Finish {
        /// The builder.
        builder: PushedTo,
        /// The integer register that holds the array's first slot.
        first: u16,
        /// The integer register that holds its length.
        len: u16,
        /// Whether a copy of it stands in the trail, if it is no longer than [`COPIED_MAX`].
        copied: bool,
    },
    /// Reals were pushed.
    Push {
        /// The builder.
        builder: PushedTo,
        /// Real registers that take the adjoints of the elements, those of the last one first.
        adjoints: Vec<u16>,
    },
    /// A range of an array was appended.
    Extend {
        /// The builder.
        builder: PushedTo,
        /// Whose elements they are: the integer register that holds the array's first slot; see [`ElementAdjoint`].
        base: u16,
        /// The integer register that holds the first one's number.
        from: u16,
        /// The integer register that holds how many there are.
        count: u16,
    },
    /// It was begun: what was pushed before to one in the same register, without an array that came of it, has none.
    Begin(PushedTo),
}

impl BuilderAdjoint {
    /// Which builder it is about.
    pub fn builder(&self) -> PushedTo {
        match self {
            BuilderAdjoint::Finish { builder, .. }
            | BuilderAdjoint::Push { builder, .. }
            | BuilderAdjoint::Extend { builder, .. }
            | BuilderAdjoint::Begin(builder) => *builder,
        }
    }

    /// How many instructions it counts as.
    fn cost(&self) -> usize {
        match self {
            BuilderAdjoint::Finish { .. } => 2,
            // Each element counts besides, where the block has ended.
            BuilderAdjoint::Extend { .. } => 2,
            BuilderAdjoint::Push { adjoints, .. } => adjoints.len(),
            BuilderAdjoint::Begin(_) => 1,
        }
    }
}

/// The adjoint of a block.
#[derive(PartialEq, Eq, Hash, Debug, Default)]
pub struct BlockAdjoint {
    /// What the block has saved.
    pub saved: Numbers,
    /// The real and the integer register where that is loaded to.
    pub saved_at: [u16; 2],
    /// Steps integers back and computes the contributions.
    pub code: Vec<Inst>,
    /// How many instructions of the code come before what follows. They compute integers.
    pub before_steps: usize,
    /// What it did with builders, from the last step to the first.
    pub builders: Box<[BuilderAdjoint]>,
    /// The elements that it has put, from the last one to the first.
    pub puts: Box<[PutAdjoint]>,
    /// Added to adjoints in memory after all of the code, one after the other.
    pub elements: Box<[ElementAdjoint]>,
    /// Turns the adjoints at the block's end into those at its start.
    pub moves: Vec<Inst>,
    /// What counts how often control still comes to the block, if it is the head of a loop.
    pub rounds: Option<RoundsLeft>,
    /// How control came to the block, from outside of the loop if it is the head of one. If there are several ways, the
    /// trail says which, or [`BlockAdjoint::way_back`] does.
    pub before: Box<[Edge]>,
    /// How it came to the block from inside of the loop.
    pub again: Box<[Edge]>,
    /// When all rounds of the loop that the block is are skipped, if ever.
    pub guard: Option<Guard>,
    /// How the sweep knows by which way control came to the block, if the trail doesn't tell that.
    pub way_back: Option<WayBack>,
}

/// Which of two ways led to a block: from a loop, or past it. How often the loop went round tells that, and that is
/// computed from integers that last.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct WayBack {
    /// Computes the number of rounds, and integers that the loop doesn't change, from others that last.
    pub code: Vec<Inst>,
    /// The integer register that holds the number of rounds then. If it is not above 0, control has gone past the loop.
    pub rounds: u16,
    /// Which of the edges leads from the loop: 0 or 1.
    pub edge: u8,
}

impl WayBack {
    /// The number of the edge, once the code has run.
    pub(crate) fn edge(&self, rounds: i64) -> usize {
        usize::from(self.edge ^ u8::from(rounds <= 0))
    }
}

impl BlockAdjoint {
    /// How many instructions it counts as.
    pub(crate) fn len(&self) -> usize {
        let way_back = self.way_back.as_ref().map_or(0, |way| way.code.len());
        self.steps() + self.code.len() + self.puts.len() + self.elements.len() + self.moves.len() + way_back
    }

    /// Whether copies of arrays may stand in its part of the trail.
    pub fn copies(&self) -> bool {
        self.builders.iter().any(|step| matches!(step, BuilderAdjoint::Finish { copied: true, .. }))
    }

    /// Whether it adds to elements of which copies were appended, which is done among its steps.
    pub fn extends(&self) -> bool {
        self.builders.iter().any(|step| matches!(step, BuilderAdjoint::Extend { .. }))
    }

    /// How many instructions its steps with builders count as.
    pub fn steps(&self) -> usize {
        self.builders.iter().map(BuilderAdjoint::cost).sum()
    }
}

/// The integer register that counts how often control still comes to the head of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RoundsLeft {
    /// The register.
    pub register: u16,
    /// Whether the code of one of the loop's blocks steps it back, because it is an index of the program.
    pub stepped: bool,
}

/// When the rounds of a loop of one block are skipped: if nothing flows back into them, because it flowed another way
/// where control came together, or lost against another one in a minimum. That is a part of the derived code, so that
/// it doesn't depend on who runs it; but rounds whose trail begins in another slab are run.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    /// Real registers, adjoints, that all have to be zero.
    pub adjoints: Box<[u16]>,
    /// Bytes that a round has left in the trail.
    pub bytes: usize,
}

/// How control came to a block, or left the region.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    /// The block that it came from; none where the region begins.
    pub from: Option<u16>,
    /// Real registers that are loaded from the trail.
    pub reals: Box<[u16]>,
    /// Integer registers that are, after the reals.
    pub ints: Box<[u16]>,
    /// Whether it leads out of the loop whose head it comes from.
    pub leaves: bool,
}

impl Edge {
    /// What is loaded.
    pub fn numbers(&self) -> Numbers {
        Numbers { reals: self.reals.len(), ints: self.ints.len() }
    }
}

/// What the sweep does where an element of a builder was replaced: what was put there takes its adjoint, and what stood
/// there before has none as yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PutAdjoint {
    /// The integer register that holds the slot of the builder's first element, one that lasts. The trail has told it,
    /// or it is [`PushedTo::first`].
    pub base: u16,
    /// The integer register that holds the element's number.
    pub index: u16,
    /// The real register that takes the adjoint.
    pub adjoint: u16,
}

/// A contribution to an element of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ElementAdjoint {
    /// The integer register that holds the array's first slot; 0: it is constant; below: see [`RegionLayout`].
    pub base: u16,
    /// The integer register that holds the element's number.
    pub index: u16,
    /// The real register that holds what is added.
    pub contribution: u16,
}
