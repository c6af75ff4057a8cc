//! A verified program with everything that is derived from it on demand: streams, segments and loops.

use crate::isa::{Op, Operand};
use crate::loop_record::LoopCode;
use crate::module::ModuleDef;
use crate::native::Tier;
use crate::prepare::{self, Stream};
use crate::record::{RecordCode, SegmentCode};
use crate::tape::LOOP;
use std::sync::OnceLock;

/// A module that has passed the verifier, and its streams. Streams are made when a function first runs in a mode, and
/// shared by all threads.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) def: ModuleDef,
    primal: Vec<OnceLock<Stream>>,
    recording: Vec<OnceLock<Stream>>,
    segments: boxcar::Vec<SegmentCode>,
    loops: boxcar::Vec<LoopCode>,
    /// For each function, whether it or one that it may call runs tasks.
    forks: Box<[bool]>,
    /// Native code; `None` if everything is interpreted.
    pub(crate) tier: Option<Tier>,
}

impl Program {
    /// `def` must have passed the verifier.
    pub(crate) fn new(def: ModuleDef, tier: Option<Tier>) -> Self {
        let empty = || def.functions.iter().map(|_| OnceLock::new()).collect();
        Program {
            primal: empty(),
            recording: empty(),
            segments: boxcar::Vec::new(),
            loops: boxcar::Vec::new(),
            forks: forking_functions(&def),
            tier,
            def,
        }
    }

    /// A function's stream, for recording runs or for primal ones.
    #[inline]
    pub(crate) fn stream(&self, func: u32, recording: bool) -> &Stream {
        let func = func as usize;
        if recording {
            self.recording[func].get_or_init(|| {
                let mut register = |code| match code {
                    RecordCode::Segment(code) => self.segments.push(code) as u32,
                    RecordCode::Loop(code) => self.loops.push(code) as u32 | LOOP,
                };
                prepare::recording(&self.def, &self.def.functions[func], &mut register)
            })
        } else {
            self.primal[func].get_or_init(|| prepare::primal(&self.def, &self.def.functions[func]))
        }
    }

    /// Whether a run of a function may run tasks.
    pub(crate) fn forks(&self, func: u32) -> bool {
        self.forks[func as usize]
    }

    /// A segment's code by the number that its records carry.
    #[inline]
    pub(crate) fn segment(&self, id: u32) -> &SegmentCode {
        &self.segments[id as usize]
    }

    /// A loop's code by the number that its records carry.
    #[inline]
    pub(crate) fn recorded_loop(&self, id: u32) -> &LoopCode {
        &self.loops[(id & !LOOP) as usize]
    }

    /// A string of the module.
    pub(crate) fn message(&self, number: u32) -> &str {
        &self.def.messages[number as usize]
    }
}

/// For each function, whether it has a fork or names a function that has: a closure is called by code that was called
/// by who made it, or by its maker's callers.
fn forking_functions(def: &ModuleDef) -> Box<[bool]> {
    let mut forks = vec![false; def.functions.len()];
    let mut named_by = vec![Vec::new(); def.functions.len()];
    let mut found = Vec::new();
    for (index, function) in def.functions.iter().enumerate() {
        for inst in &function.body.code {
            if matches!(inst.op, Op::Fork | Op::ParallelMap) && !forks[index] {
                forks[index] = true;
                found.push(index);
            }
            if inst.op.names_function() {
                let operands = function.body.operands(inst).unwrap_or_default();
                let names = operands.iter().filter_map(|operand| match operand {
                    Operand::Func(func) => Some(*func as usize),
                    _ => None,
                });
                names.for_each(|func| named_by[func].push(index));
            }
        }
    }
    while let Some(func) = found.pop() {
        for caller in std::mem::take(&mut named_by[func]) {
            if !std::mem::replace(&mut forks[caller], true) {
                found.push(caller);
            }
        }
    }
    forks.into()
}
