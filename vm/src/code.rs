//! Prepared code: what runs, natively or interpreted, and what derivation gives.
//!
//! - `check`: what is known of instructions that are looked at;
//! - `inst`: the instruction set, with operands resolved and typed;
//! - `mode`, `position`: how code runs, and where it is;
//! - `site`: operands that don't fit into an instruction;
//! - `straight`: running pure instructions.
//!
//! [`Stream`] is a function's code for one mode. Nothing here knows how code is made ([`crate::preparation`]).

mod check;
mod inst;
mod mode;
mod position;
mod site;
mod straight;

pub use check::{CheckSite, CheckedOperand, CheckedRecord, CountedBlock, CountedLoop};
pub(crate) use inst::for_each_inst;
pub use inst::{Form, Inst, IntReg, Pure, RealReg, RefReg, ScalarInst};
pub(crate) use mode::ByMode;
pub use mode::{DEPTH_MAX, Mode};
pub use position::Position;
pub use site::{
    CallSite, Counts, ForkSite, MapSite, ObjectSite, Operator, OperatorSite, RegList, Site, Sites, SwitchSite,
    TaskSite, TextSite,
};
pub(crate) use site::{HostSite, InSite, Leads};
pub(crate) use straight::{align_dispatch, align_function, cell, choose, run_straight, value_of};

use crate::records::recorded_loop::LoopSite;
use crate::records::region::{RegionSite, SaveSite};
use crate::records::segment::SegmentSite;

/// A function's code, ready to run in one mode.
#[derive(Debug, Default)]
pub struct Stream {
    /// The instructions.
    pub code: Vec<Inst>,
    /// The bytecode instruction that each entry of `code` comes from.
    pub origin: Vec<u32>,
    /// Calls and returns.
    pub calls: Sites<CallSite>,
    /// Forks.
    pub forks: Sites<ForkSite>,
    /// Parallel maps.
    pub maps: Sites<MapSite>,
    /// Derivatives of calls.
    pub operators: Sites<OperatorSite>,
    /// Texts that are shown.
    pub texts: Sites<TextSite>,
    /// Jumps by index.
    pub switches: Sites<SwitchSite>,
    /// Instructions that make objects of registers.
    pub objects: Sites<ObjectSite>,
    /// Ends of segments.
    pub segments: Sites<SegmentSite>,
    /// Loops that are recorded as one.
    pub loops: Sites<LoopSite>,
    /// Regions that are recorded as one.
    pub regions: Sites<RegionSite>,
    /// What regions append to their trails.
    pub saves: Sites<SaveSite>,
    /// Instructions that are looked at.
    pub checks: Sites<CheckSite>,
    /// Where instructions are looked at, the loops around ranges of the bytecode.
    pub counted: Box<[CountedBlock]>,
    /// Real registers of a frame.
    pub reals: usize,
    /// Integer registers of a frame.
    pub ints: usize,
    /// Reference registers of a frame.
    pub refs: usize,
    /// How many of the real registers are parameters.
    pub real_params: usize,
    /// How many of the integer registers are parameters.
    pub int_params: usize,
    /// How many of the reference registers are parameters. The others start as null.
    pub ref_params: usize,
}

impl Stream {
    /// The instructions from a loop's head to where its last round comes back from, 1 at least.
    pub(crate) fn round(&self, header: Position) -> u32 {
        let goes_back = |inst: &Inst| {
            let mut found = false;
            inst.for_each_target(self, |target| found |= target == header);
            found
        };
        let last = self.code[header.index()..].iter().rposition(goes_back).unwrap_or(0);
        last as u32 + 1
    }
}
