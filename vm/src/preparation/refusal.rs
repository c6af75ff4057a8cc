//! Why a loop is not recorded as one, and what is kept of such decisions if somebody asks.

use super::flow::FlowGraph;
use super::nesting::{self, Natural};
use super::region_detection::Region;
use crate::bytecode::isa::Op;
use crate::bytecode::module::{Body, ModuleDef, TypeDef};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use std::fmt;

/// Why a loop is not recorded as one, with all that is in it.
///
/// `Display` says it in the terms of programs, as what follows "because". Numbers are limits of the machine's, which
/// say what a record may hold; `inst` is the instruction that is in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// It holds an instruction that no loop holds which is recorded as one.
    Holds {
        /// The first one.
        inst: u32,
        /// What it is.
        op: Op,
        /// Whether it makes an object that has a shape, such as a matrix.
        of_shape: bool,
    },
    /// Which of several arrays under construction this instruction is about can't be told.
    BuilderUnknown {
        /// It.
        inst: u32,
    },
    /// It appends to several arrays that are under construction before it begins.
    Builders,
    /// It finishes an array that is under construction before it begins.
    BuilderFromOutside,
    /// Something that is under construction in it is in use before it or after it.
    BuilderInUse,
    /// It changes an array in place that it also appends to, and that is under construction before it begins.
    ChangedWhereMade {
        /// The first instruction that reads or replaces an element.
        inst: u32,
    },
    /// It changes an array in place that it may leave unfinished.
    ChangedUnfinished {
        /// The first instruction that reads or replaces an element.
        inst: u32,
    },
    /// It changes an array in place that has been under construction since before a loop around it, or that another
    /// function has begun.
    ChangedAround {
        /// The first instruction that reads or replaces an element.
        inst: u32,
    },
    /// It reads an element of what may be an array that it has just made, as one of several has been chosen; or reads
    /// or replaces one of what may be an array that it has just appended to.
    ElementBehindFinish {
        /// The load.
        inst: u32,
    },
    /// It has too many basic blocks.
    Blocks {
        /// The limit.
        max: usize,
    },
    /// It has too many instructions.
    Instructions {
        /// The limit.
        max: usize,
    },
    /// It has too many operations on reals.
    RealOps {
        /// The limit.
        max: usize,
    },
    /// The function has too many registers.
    Registers {
        /// The limit, per bank.
        max: usize,
    },
    /// Loops nest too deeply in it.
    Depth {
        /// The limit.
        max: usize,
    },
    /// There are too many ways out.
    Exits {
        /// The limit.
        max: usize,
    },
    /// There is no way out.
    NoExit,
    /// Control goes round in it in a way that is no loop: with two ways in.
    Irreducible,
    /// Nothing that it computes of reals is read after it.
    NothingRead,
    /// Its record would have too many inputs: reals from before it, and arrays.
    Inputs {
        /// The limit.
        max: usize,
    },
    /// Its sweep would have too many registers.
    SweepRegisters,
    /// A loop around it seemed to be one that is recorded as a whole, but is not, and it was not tried on its own.
    Around,
    /// The function is too large for its loops to be looked at.
    FunctionSize,
}

impl Refusal {
    /// That a loop holds this instruction.
    pub(crate) fn holds(module: &ModuleDef, body: &Body, inst: u32) -> Refusal {
        let code = &body.code[inst as usize];
        let type_of = |object: u16| &module.types[body.refs[usize::from(object)].index()];
        let of_shape = code.op == Op::StructNew && matches!(type_of(code.a), TypeDef::Shaped(_));
        Refusal::Holds { inst, op: code.op, of_shape }
    }

    /// The instruction that is in the way, if it is a single one.
    pub fn inst(&self) -> Option<u32> {
        match *self {
            Refusal::Holds { inst, .. }
            | Refusal::BuilderUnknown { inst }
            | Refusal::ChangedWhereMade { inst }
            | Refusal::ChangedUnfinished { inst }
            | Refusal::ChangedAround { inst }
            | Refusal::ElementBehindFinish { inst } => Some(inst),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Holds { of_shape: true, .. } => {
                write!(f, "it makes a matrix or tensor that stands in an array or list, or that a call takes or gives")
            }
            Refusal::Holds { op, .. } => match op {
                Op::Call | Op::TailCall => write!(f, "it calls a function"),
                Op::CallClosure | Op::TailCallClosure => write!(f, "it calls a function value"),
                Op::Fork | Op::Task | Op::ParallelMap => write!(f, "it runs tasks"),
                Op::PDetach => write!(f, "it cuts a value off from derivatives"),
                Op::Jvp | Op::Vjp | Op::CustomVjp | Op::CustomJvp => write!(f, "it takes the derivative of a function"),
                Op::Checkpoint | Op::Primal => write!(f, "it calls a function that isn't recorded"),
                Op::Once => write!(f, "it asks for a constant that may trap"),
                Op::VariantNew | Op::ChainNew | Op::ChainPush | Op::ChainFinish => {
                    write!(f, "it makes a value of a data type, such as a list")
                }
                Op::ClosureNew => write!(f, "it makes a function value"),
                Op::Pack => write!(f, "it makes an array from single elements, as in `[| x, y |]`"),
                Op::StructNew => write!(f, "it makes a tuple or record of not only reals that stands in an array"),
                Op::PGet => write!(f, "it reads an array that is changed in place and whose elements are no numbers"),
                Op::PPut => write!(f, "it changes an array in place whose elements are no numbers"),
                Op::Reserve => write!(f, "it makes an array whose length isn't known when it begins"),
                op => write!(f, "it holds the instruction `{}`", op.info().mnemonic),
            },
            Refusal::BuilderUnknown { .. } => write!(f, "which of several arrays it makes can't be told"),
            Refusal::Builders => write!(f, "it appends to several arrays that are begun before it"),
            Refusal::BuilderFromOutside => write!(f, "it finishes an array that is begun before it"),
            Refusal::BuilderInUse => write!(f, "an array that it begins is under construction before it or after it"),
            Refusal::ChangedWhereMade { .. } => {
                write!(f, "it appends to an array that it changes in place and that is begun before it")
            }
            Refusal::ChangedUnfinished { .. } => {
                write!(f, "it changes an array in place that it may leave unfinished")
            }
            Refusal::ChangedAround { .. } => {
                write!(f, "it changes an array in place that a loop around it changes as well")
            }
            Refusal::ElementBehindFinish { .. } => write!(f, "it may read an array right where it makes it"),
            Refusal::Blocks { max } => write!(f, "it has more than {max} basic blocks"),
            Refusal::Instructions { max } => write!(f, "it has more than {max} instructions"),
            Refusal::RealOps { max } => write!(f, "it has more than {max} operations on reals"),
            Refusal::Registers { max } => write!(f, "the function has more than {max} registers of a kind"),
            Refusal::Depth { max } => write!(f, "loops nest in it to a depth of more than {max}"),
            Refusal::Exits { max } => write!(f, "it has more than {max} ways out"),
            Refusal::NoExit => write!(f, "it has no way out"),
            Refusal::Irreducible => write!(f, "control goes round in it in a way that is no loop"),
            Refusal::NothingRead => write!(f, "no real that it computes is read after it"),
            Refusal::Inputs { max } => write!(f, "it reads more than {max} reals and arrays from before it"),
            Refusal::SweepRegisters => write!(f, "its sweep would take too many registers"),
            Refusal::Around => write!(f, "it is part of a loop that is too much for one record"),
            Refusal::FunctionSize => write!(f, "the function is too large for its loops to be looked at"),
        }
    }
}

/// What becomes of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// It is straight-line code, and recorded as such.
    Straight,
    /// It is a region.
    Region,
    /// It is part of one.
    Inside,
    /// Its rounds are recorded by segments.
    Refused(Refusal),
}

impl Decision {
    /// Whether it is recorded with all that is in it.
    pub(crate) fn takes_all(self) -> bool {
        matches!(self, Decision::Region | Decision::Inside)
    }
}

/// A loop and what becomes of it.
#[derive(Debug)]
pub(crate) struct LoopNote {
    pub(crate) found: Natural,
    pub(crate) decision: Decision,
}

/// What is kept of the decisions on a function's loops.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The loops, each after those that it is a part of; `None` if finding them takes too long.
    pub(crate) loops: Option<Vec<LoopNote>>,
}

impl Notes {
    /// Says that what was found to be a region is none after all.
    pub(crate) fn refuse(&mut self, region: &Region, refusal: Refusal) {
        let blocks = || region.blocks.iter().map(|block| block.parts[0]);
        for note in self.loops.iter_mut().flatten().filter(|note| blocks().any(|block| block == note.found.head)) {
            let refusal = if note.decision == Decision::Region { refusal } else { Refusal::Around };
            note.decision = Decision::Refused(refusal);
        }
    }

    /// Says that nothing could be found out about the function.
    ///
    /// # Errors
    /// What the watch says.
    pub(crate) fn refuse_all(&mut self, flow: &FlowGraph, watch: &Watch<'_>) -> Result<(), TrapKind> {
        let refused = |found| LoopNote { found, decision: Decision::Refused(Refusal::FunctionSize) };
        let nest = nesting::loops(flow, &flow.predecessors(), watch)?;
        self.loops = nest.map(|(nest, _)| nest.into_iter().map(refused).collect());
        Ok(())
    }

    /// Says which loops are recorded as straight-line code in the end.
    pub(crate) fn keep_straight(&mut self, is_recorded: impl Fn(&Natural) -> bool) {
        for note in self.loops.iter_mut().flatten().filter(|note| is_recorded(&note.found)) {
            note.decision = Decision::Straight;
        }
    }
}
