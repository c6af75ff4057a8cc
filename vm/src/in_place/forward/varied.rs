//! Which registers vary with the arguments, where each block begins.

use crate::bytecode::isa::{Bank, Inst, Op, Reg};
use crate::bytecode::module::Body;
use crate::in_place::tangent_functions::Types;
use crate::in_place::writer::Declined;
use crate::preparation::flow::{Block, FlowGraph};
use crate::preparation::liveness::{RegSet, live_out};
use crate::preparation::loop_detection::live_before;
use crate::running::meter::Watch;
use std::collections::BTreeSet;

/// Blocks are looked at so many times, on average, before a function is given up.
const STEPS_MAX: usize = 16;

/// Registers that vary, of both banks that have tangents.
#[derive(Clone)]
pub(super) struct Varied {
    pub(super) reals: RegSet,
    pub(super) refs: RegSet,
}

impl Varied {
    pub(super) fn none(body: &Body) -> Varied {
        Varied { reals: RegSet::new(body.reals), refs: RegSet::new(body.refs.len() as u32) }
    }

    pub(super) fn reals(&self, body: &Body) -> impl Iterator<Item = u16> {
        (0..body.reals as u16).filter(|&reg| self.reals.contains(reg))
    }

    pub(super) fn refs(&self, body: &Body) -> impl Iterator<Item = u16> {
        (0..body.refs.len() as u16).filter(|&reg| self.refs.contains(reg))
    }
}

/// What varies in a function.
pub(super) struct Activity {
    /// At the start of each block.
    pub(super) varied_in: Vec<Varied>,
    /// Registers of builders that get something that varies.
    pub(super) builders: BTreeSet<u16>,
}

/// What tangents are written of.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) types: &'a Types,
    /// Whether there may be calls.
    pub(super) calls: bool,
    /// Whether all objects that are made and may hold reals have objects of tangents, wherever these can be made. If
    /// not, those have them that are made of what varies.
    pub(super) dense: bool,
}

impl Rules<'_> {
    /// Whether a register holds reals, or objects that may.
    pub(super) fn hold_reals(&self, body: &Body, reg: Reg) -> bool {
        match reg.bank {
            Bank::Real => true,
            Bank::Int => false,
            Bank::Ref => self.types.object_holds_reals(body.refs[usize::from(reg.index)]),
        }
    }

    /// Whether an object that is made of these has one of tangents, by what varies. One that holds no reals, of a type
    /// that may, is its own.
    pub(super) fn object_varies(&self, parts: &Parts) -> bool {
        parts.vary || parts.is_empty() || self.dense && parts.objects == parts.varied_objects
    }
}

/// What an object is made of.
#[derive(Default)]
pub(super) struct Parts {
    /// Whether anything varies.
    pub(super) vary: bool,
    reals: usize,
    /// Those that may hold reals, and those of them that vary.
    objects: usize,
    varied_objects: usize,
}

impl Parts {
    /// The parts of an object that an instruction makes.
    pub(super) fn of(rules: &Rules<'_>, body: &Body, inst: &Inst, varies: impl Fn(Reg) -> bool) -> Parts {
        let mut parts = Parts::default();
        body.for_each_reg(inst, |reg, def| {
            if !def && rules.hold_reals(body, reg) {
                let varies = varies(reg);
                parts.vary |= varies;
                parts.reals += usize::from(reg.bank == Bank::Real);
                parts.objects += usize::from(reg.bank == Bank::Ref);
                parts.varied_objects += usize::from(reg.bank == Bank::Ref && varies);
            }
        });
        parts
    }

    /// Whether there is nothing that has a tangent.
    pub(super) fn is_empty(&self) -> bool {
        self.reals + self.objects == 0
    }
}

/// Finds what varies, from what does at the function's start. Declines what there is no tangent of.
pub(super) fn find(body: &Body, flow: &FlowGraph, first: Varied, rules: Rules<'_>) -> Result<Activity, Declined> {
    let mut search = Search::new(body, flow, first, rules)?;
    search.run()?;
    Ok(search.found)
}

struct Search<'a> {
    body: &'a Body,
    flow: &'a FlowGraph,
    rules: Rules<'a>,
    /// What is live at the start of each block: reals, references.
    live_in: Vec<[RegSet; 2]>,
    found: Activity,
}

impl<'a> Search<'a> {
    fn new(body: &'a Body, flow: &'a FlowGraph, first: Varied, rules: Rules<'a>) -> Result<Self, Declined> {
        let live = |bank| live_out(body, bank, flow, &Watch::none()).ok().flatten().ok_or(Declined);
        let (reals, refs) = (live(Bank::Real)?, live(Bank::Ref)?);
        let blocks = flow.blocks().iter().zip(reals.iter().zip(&refs));
        let before = |(&block, (reals, refs)): (&Block, (&RegSet, &RegSet))| {
            [live_before(body, Bank::Real, block, reals), live_before(body, Bank::Ref, block, refs)]
        };
        let live_in = blocks.map(before).collect();
        let mut varied_in = vec![Varied::none(body); flow.blocks().len()];
        varied_in[0] = first;
        Ok(Search { body, flow, rules, live_in, found: Activity { varied_in, builders: BTreeSet::new() } })
    }

    fn run(&mut self) -> Result<(), Declined> {
        let blocks = self.flow.blocks();
        let mut work: Vec<usize> = (0..blocks.len()).rev().collect();
        let mut steps = 0;
        while let Some(index) = work.pop() {
            steps += 1;
            if steps > STEPS_MAX * blocks.len() {
                return Err(Declined);
            }
            let mut varied = self.found.varied_in[index].clone();
            let Block { start, end } = blocks[index];
            let builders = self.found.builders.len();
            for inst in &self.body.code[start as usize..end as usize] {
                self.vary(inst, &mut varied)?;
            }
            if self.found.builders.len() > builders {
                // Builders were begun elsewhere.
                work = (0..blocks.len()).rev().collect();
                continue;
            }
            for &successor in self.flow.successors(index) {
                let [reals, refs] = &self.live_in[successor as usize];
                let into = &mut self.found.varied_in[successor as usize];
                let more = [into.reals.union(&varied.reals.and(reals)), into.refs.union(&varied.refs.and(refs))];
                if more.contains(&true) {
                    work.push(successor as usize);
                }
            }
        }
        Ok(())
    }

    /// What varies after an instruction.
    fn vary(&mut self, inst: &Inst, varied: &mut Varied) -> Result<(), Declined> {
        let mut reads = false;
        let mut writes = None;
        self.body.for_each_reg(inst, |reg, def| match (def, reg.bank) {
            (true, _) => writes = Some(reg),
            (false, Bank::Real) => reads |= varied.reals.contains(reg.index),
            (false, Bank::Ref) => reads |= varied.refs.contains(reg.index),
            (false, Bank::Int) => {}
        });
        let holds = |reg| self.rules.hold_reals(self.body, reg);
        let varies = match inst.op {
            op if op.is_scalar() => reads && op.info().differentiable,
            Op::Mov | Op::PMov | Op::PSelect => reads,
            Op::Field | Op::PField | Op::Payload | Op::PPayload | Op::Elem | Op::PElem | Op::Finish => {
                reads && writes.is_some_and(holds)
            }
            Op::Get | Op::PGet => reads && writes.is_some_and(holds),
            Op::Reserve => {
                // What is pushed to what it gives may as well have been pushed before.
                if self.found.builders.contains(&inst.a) && !varied.refs.contains(inst.b) {
                    self.found.builders.insert(inst.b);
                }
                reads
            }
            Op::StructNew | Op::VariantNew | Op::Pack => {
                let contains = |reg: Reg| match reg.bank {
                    Bank::Real => varied.reals.contains(reg.index),
                    Bank::Ref => varied.refs.contains(reg.index),
                    Bank::Int => false,
                };
                let parts = Parts::of(&self.rules, self.body, inst, contains);
                writes.is_some_and(holds) && self.rules.object_varies(&parts)
            }
            Op::ChainNew => writes.is_some_and(holds),
            Op::ChainPush | Op::ChainFinish => reads,
            Op::Build => self.found.builders.contains(&inst.a) || self.rules.dense && writes.is_some_and(holds),
            Op::Push | Op::PPush | Op::Put | Op::PPut | Op::Extend => {
                let varies = match inst.op {
                    Op::Push => varied.reals.contains(inst.b),
                    Op::Put => varied.reals.contains(inst.c),
                    Op::PPut => varied.refs.contains(inst.c),
                    _ => varied.refs.contains(inst.b),
                };
                if varies && !varied.refs.contains(inst.a) {
                    self.found.builders.insert(inst.a);
                }
                return Ok(());
            }
            Op::Call | Op::Checkpoint | Op::Primal | Op::Once | Op::Vjp if self.rules.calls => {
                let varies = reads && inst.op != Op::Primal;
                self.body.for_each_reg(inst, |reg, def| {
                    let set = match reg.bank {
                        Bank::Real => &mut varied.reals,
                        Bank::Ref => &mut varied.refs,
                        Bank::Int => return,
                    };
                    match def {
                        true if varies && holds(reg) => set.insert(reg.index),
                        true => set.remove(reg.index),
                        false => {}
                    }
                });
                return Ok(());
            }
            Op::TailCall if self.rules.calls => return Ok(()),
            Op::IMov | Op::Const | Op::IConst | Op::PDetach => false,
            Op::IField | Op::IPayload | Op::IElem | Op::IGet | Op::VariantTag | Op::Len | Op::Row => false,
            Op::IPush | Op::IPut | Op::SameLen | Op::SameShape | Op::Jump | Op::Branch | Op::Switch | Op::Ret => {
                return Ok(());
            }
            Op::Trap | Op::TrapWith | Op::Trace => return Ok(()),
            _ => return Err(Declined),
        };
        if let Some(reg) = writes {
            let set = match reg.bank {
                Bank::Real => &mut varied.reals,
                Bank::Ref => &mut varied.refs,
                Bank::Int => return Ok(()),
            };
            if varies { set.insert(reg.index) } else { set.remove(reg.index) }
        }
        Ok(())
    }
}
