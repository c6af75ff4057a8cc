//! What recording a loop as one takes: its site in a recording stream, and the code that sweeps its record.
//!
//! Let the *state* be the real registers that an iteration leaves to the next one or to the code after the loop. The
//! adjoint of an iteration maps the adjoints of the state after it, and what is saved of it, to the adjoints of the
//! state before it and to contributions to reals that the loop doesn't change and to elements of arrays. The sweep runs
//! it once per iteration, from the last to the first, with the adjoints of the state in registers.
//!
//! What doesn't change in the loop is saved once per record, and so is an *induction* register, one that an iteration
//! changes by an amount that the loop doesn't change: its value at the end tells all others. Elements of arrays through
//! which these lead are loaded again: the record keeps the arrays. What the adjoint needs besides, and can't compute
//! from these, is saved per iteration.
//!
//! Both [`LoopSite`] and [`LoopCode`] are plain data: interpreter and native code write and read the same records.

mod classes;
mod code_writer;
mod flow;
mod interface;
mod layout;
mod plan;
mod saved;

pub(crate) use classes::steps_back;
pub(crate) use layout::LoopTail;
pub use layout::{LoopFrame, LoopLayout};
pub(crate) use plan::LoopPlan;

use crate::bytecode::isa::{Bank, Reg};
use crate::code::{InSite, Inst, Leads, Position, Sites, Stream};
use crate::memory::heap::Ref;
use crate::records::segment::OutputWord;
use crate::records::{Kind, Writer};
use crate::word::Slot;

/// A loop in a recording stream. Three instructions refer to it: `LoopBegin` where the loop is entered, `LoopStep` in
/// place of the branch that ends an iteration, `LoopEnd` after the last.
#[derive(Debug)]
pub struct LoopSite {
    /// The loop's number in the module.
    pub id: u32,
    /// Real registers whose words the loop depends on. Words stand still while the loop runs, so they can be read
    /// before it and after it alike.
    pub inputs: Box<[u16]>,
    /// Reference registers of the arrays whose elements it depends on. Activity masks count them after the inputs.
    pub arrays: Box<[u16]>,
    /// Real registers that are saved when an iteration ends.
    pub entry_reals: Box<[u16]>,
    /// Integer registers that are saved when an iteration ends, after the reals.
    pub entry_ints: Box<[u16]>,
    /// Real registers that are saved when the loop ends: those that it doesn't change.
    pub once_reals: Box<[u16]>,
    /// Integer registers that are saved when the loop ends: induction registers, then those that it doesn't change.
    pub once_ints: Box<[u16]>,
    /// Reference registers of arrays that the record keeps: the sweep loads elements again. Their cells are saved once,
    /// after the integers.
    pub kept: Box<[u16]>,
    /// Where the parts of a record stand.
    pub layout: LoopLayout,
    /// The registers that have a word when the loop ends; never a `Copy`. Masks cover the inputs, then the arrays.
    pub outputs: Box<[(u16, OutputWord)]>,
    /// How many slots the outputs take, without what is pushed.
    pub slots: u32,
    /// What each iteration pushes, if anything.
    pub push: Option<PushSite>,
    /// Instructions that the sweep runs per iteration.
    pub iteration_cost: u32,
    /// Instructions that the sweep runs once per record.
    pub once_cost: u32,
    /// Whether a condition that is not 0 leads to the next iteration; if not, 0 does.
    pub while_true: bool,
    /// The stream position of the next iteration.
    pub body: Position,
    /// The stream position after the last iteration, where `LoopEnd` stands.
    pub end: Position,
    /// Fuel of what `LoopStep` ends.
    pub cost: u32,
    /// Whether fuel is looked at there, and not elsewhere in the path: a branch in the bytecode is there that may go
    /// back.
    pub checks_fuel: bool,
}

impl InSite for LoopSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.loops
    }

    /// What any of the three instructions reads. The last one writes words, but none writes a primal.
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        let reals = self.inputs.iter().chain(&self.entry_reals).chain(&self.once_reals);
        reals.for_each(|&index| visit(Reg::real(index), false));
        self.outputs.iter().for_each(|&(index, _)| visit(Reg::real(index), false));
        self.entry_ints.iter().chain(&self.once_ints).for_each(|&index| visit(Reg::int(index), false));
        let builder = self.push.iter().map(|push| &push.builder);
        self.arrays.iter().chain(&self.kept).chain(builder).for_each(|&index| visit(Reg::reference(index), false));
    }
}

impl Leads for LoopSite {
    fn for_each_target(&self, visit: &mut dyn FnMut(Position)) {
        visit(self.body);
        visit(self.end);
    }
}

impl LoopSite {
    /// What a record's trailer says of it.
    pub fn number(&self) -> u32 {
        Kind::Loop(self.id).number()
    }

    /// Writes the entry of an iteration.
    ///
    /// # Safety
    /// There is room for it; the frame has the site's registers.
    #[inline(always)]
    pub(crate) unsafe fn write_entry(&self, start: *mut u8, reals: *const f64, ints: *const i64) {
        // SAFETY: promised by the caller.
        unsafe { Writer::new(start).numbers([&self.entry_reals, &self.entry_ints], reals, ints) };
    }

    /// Writes what follows the entries: `cells` are those of the kept arrays, `slots` those of the inputs, first ones
    /// of the arrays, and that of what was pushed.
    ///
    /// # Safety
    /// There is room for it; the frame has the site's registers.
    pub(crate) unsafe fn write_tail(
        &self,
        start: *mut u8,
        cells: impl Iterator<Item = *const Ref>,
        slots: impl Iterator<Item = Slot>,
        (iterations, entries): (u64, u32),
        first: Slot,
        (reals, ints): (*const f64, *const i64),
    ) {
        // SAFETY: promised by the caller: the layout is that of the lists.
        unsafe {
            let mut writer = Writer::new(start);
            writer.numbers([&self.once_reals, &self.once_ints], reals, ints);
            cells.for_each(|cell| writer.wide(cell.expose_provenance() as u64));
            slots.for_each(|slot| writer.slot(slot));
            writer.wide(iterations);
            writer.narrow(entries);
            writer.trailer(Kind::Loop(self.id), first);
        }
    }
}

/// A builder that each iteration appends a real to. When the loop ends, the appended elements get consecutive slots.
#[derive(Clone, Copy, Debug)]
pub struct PushSite {
    /// The builder's reference register.
    pub builder: u16,
    /// The inputs and arrays that the elements depend on. If it is empty, they are constants, and the record doesn't
    /// say where their slots begin.
    pub mask: u64,
}

/// What the sweep knows of a loop.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct LoopCode {
    /// Real registers of the frame.
    pub reals: usize,
    /// Integer registers of the frame.
    pub ints: usize,
    /// Runs once per record, after what is saved once was loaded: what doesn't change in the loop.
    pub prologue: Vec<Inst>,
    /// Runs per iteration, after its entry was loaded: steps the induction registers back, computes the contributions,
    /// and adds those to unchanged inputs to their sums.
    pub body: Vec<Inst>,
    /// Added to adjoints in memory after the body, one after the other.
    pub elements: Box<[ElementCode]>,
    /// Runs per iteration after that: turns the state's adjoints into those of the iteration before.
    pub moves: Vec<Inst>,
    /// What stands where in the frame.
    pub frame: LoopFrame,
    /// For each slot of the outputs, the register of the state that begins with its adjoint.
    pub outputs: Box<[u16]>,
    /// Where the parts of a record stand.
    pub layout: LoopLayout,
    /// The real register that begins each iteration with the adjoint of what it pushed.
    pub pushed: Option<u16>,
    /// For each input, the register that holds its contribution when all iterations are done.
    pub contributions: Box<[u16]>,
}

impl LoopCode {
    /// Slots of the outputs.
    pub fn slots(&self) -> usize {
        self.outputs.len()
    }

    /// The integer registers that were saved once and change from iteration to iteration, like the first real ones:
    /// induction registers.
    pub fn stepped(&self) -> impl Iterator<Item = u16> {
        let written = self.body.iter().filter_map(Inst::pure_result).filter(|reg| reg.bank == Bank::Int);
        written.map(|reg| reg.index).filter(|&register| usize::from(register) < self.layout.once.ints)
    }

    /// Bytes that are saved of an iteration.
    pub fn entry_bytes(&self) -> usize {
        self.layout.entry.bytes()
    }
}

/// A contribution to an element of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ElementCode {
    /// Which of the record's arrays.
    pub array: u16,
    /// The integer register that holds the element's number.
    pub index: u16,
    /// The real register that holds what is added.
    pub contribution: u16,
    /// Whether the index changes by the same amount from iteration to iteration.
    pub linear: bool,
}
