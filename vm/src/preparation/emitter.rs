//! Writing a stream: bytecode with its operands resolved, segments with their ends, recorded loops as their paths.

mod checks;
mod deep;
mod regions;

pub(super) use regions::PlannedRegion;

use super::checks::Checks;
use super::flow::{Block, FlowGraph, leads_back};
use super::loop_detection::Loop;
use super::segmentation::Segment;
use super::{Grain, Prepared};
use crate::bytecode::isa::{self, Bank, Op, Reg, Structural};
use crate::bytecode::module::{Body, FuncId, Function, ModuleDef, TypeDef};
use crate::code::{
    CallSite, Counts, ForkSite, HostSite, Inst, IntReg, MapSite, Mode, ObjectSite, Operator, OperatorSite, Position,
    RealReg, RefReg, RegList, Site, Stream, SwitchSite, TaskSite, TextSite,
};
use crate::memory::heap::{self, Fields};
use crate::records::recorded_loop::{LoopCode, LoopPlan, LoopSite};
use crate::records::region::RegionCode;
use crate::records::segment::{RecordPlan, SegmentCode, SegmentSite, SegmentStructure};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use checks::NOWHERE;
use std::collections::{HashMap, HashSet};

/// What deriving a segment takes per instruction, and a loop, in the units of [`Watch::tick`].
const SEGMENT_WORK: usize = 100;
const LOOP_WORK: usize = 1 << 14;

pub(super) struct Emitter<'a> {
    module: &'a ModuleDef,
    body: &'a Body,
    watch: &'a Watch<'a>,
    mode: Mode,
    grain: Grain,
    stream: Stream,
    /// The code of the records that the stream writes.
    segments: Vec<SegmentCode>,
    /// Those of the segments, if records are as fine as these.
    structures: Vec<SegmentStructure>,
    /// What is to be looked at, if records are as fine as instructions.
    checks: Option<Checks>,
    /// Where the instructions are looked at that the segments are.
    checked: Vec<Position>,
    loops: Vec<LoopCode>,
    regions: Vec<RegionCode>,
    /// The stream position of each bytecode instruction.
    position: Vec<Position>,
    /// Instructions since fuel was last charged for.
    cost: u32,
    /// The most registers that are handed on at once.
    widest: usize,
    /// All real registers that are handed on somewhere.
    listed: usize,
    /// Bytes of the largest record of a segment at a depth.
    largest_record: usize,
    /// The most registers of a bank that the sweep of such a segment takes.
    swept: usize,
    /// Where instructions stand whose targets are numbers of bytecode instructions as yet ([`unresolved`]).
    unresolved: Vec<Position>,
    /// Switches whose targets are.
    unresolved_switches: Vec<Site<SwitchSite>>,
}

/// A target that is the number of a bytecode instruction, until [`Emitter::resolve_targets`].
fn unresolved(target: u32) -> Position {
    Position(target)
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        module: &'a ModuleDef,
        function: &'a Function,
        (mode, grain): (Mode, Grain),
        watch: &'a Watch<'a>,
    ) -> Self {
        let body = &function.body;
        let params = |bank| function.params.iter().filter(|ty| ty.bank() == bank).count();
        let stream = Stream {
            reals: (body.reals as usize) << mode.depth(),
            ints: body.ints as usize,
            refs: body.refs.len(),
            real_params: params(Bank::Real) << mode.depth(),
            int_params: params(Bank::Int),
            ref_params: params(Bank::Ref),
            ..Stream::default()
        };
        Emitter {
            module,
            body,
            watch,
            mode,
            grain,
            stream,
            segments: Vec::new(),
            structures: Vec::new(),
            checks: None,
            checked: Vec::new(),
            loops: Vec::new(),
            regions: Vec::new(),
            position: vec![NOWHERE; body.code.len()],
            cost: 0,
            widest: 0,
            listed: 0,
            largest_record: 0,
            swept: 0,
            unresolved: Vec::new(),
            unresolved_switches: Vec::new(),
        }
    }

    pub(super) fn run(
        mut self,
        flow: &FlowGraph,
        segments: Vec<Segment>,
        loops: Vec<Loop>,
        regions: Vec<PlannedRegion>,
    ) -> Result<Prepared, TrapKind> {
        // Before anything is written: registers have 16 bits.
        self.check_size()?;
        let mut segments = segments.into_iter().peekable();
        let mut loops = loops.into_iter().peekable();
        // Regions by their heads, and all of their blocks.
        let inside: HashSet<usize> = regions.iter().flat_map(PlannedRegion::blocks).collect();
        let mut regions: HashMap<usize, PlannedRegion> =
            regions.into_iter().map(|found| (found.head(), found)).collect();
        for (index, &Block { start, end }) in flow.blocks().iter().enumerate() {
            self.cost = 0;
            self.begin_block(index, start);
            if inside.contains(&index) {
                if let Some(found) = regions.remove(&index) {
                    self.region(found, flow.blocks());
                }
                continue;
            }
            if let Some(found) = loops.next_if(|found| found.start == start) {
                self.watch.tick(LOOP_WORK)?;
                self.whole_loop(found, end);
                continue;
            }
            let mut at = start;
            while at < end {
                if at + 1 == end && self.body.code[at as usize].op.is_terminator() {
                    self.reset_counters(index, at);
                }
                match segments.next_if(|segment| segment.start == at) {
                    Some(segment) => {
                        self.copy_operand(at);
                        self.watch.tick(SEGMENT_WORK * (segment.end - at) as usize)?;
                        at = segment.end;
                        if self.mode.depth() > 0 { self.deep_segment(segment)? } else { self.segment(segment) }
                    }
                    None => {
                        self.watch.tick(8)?;
                        self.inst(at, self.mode.is_recording());
                        self.check_comparison(at);
                        at += 1;
                    }
                }
                self.check_length()?;
            }
            if !self.body.code[end as usize - 1].op.is_terminator() {
                self.reset_counters(index, end - 1);
                // Control falls into the next block, whose cost is its own.
                self.jump(end - 1, end, self.cost);
            }
        }
        self.resolve_targets()?;
        self.check_size()?;
        let Emitter { stream, segments, structures, checked: checks, loops, regions, .. } = self;
        Ok(Prepared { stream, segments, structures, checks, loops, regions })
    }

    fn here(&self) -> Position {
        Position(self.stream.code.len() as u32)
    }

    fn push(&mut self, origin: u32, inst: Inst) {
        self.stream.code.push(inst);
        self.stream.origin.push(origin);
    }

    /// A jump to a bytecode instruction.
    fn jump(&mut self, origin: u32, target: u32, cost: u32) {
        self.unresolved.push(self.here());
        self.push(origin, Inst::Jump { target: unresolved(target), cost });
    }

    /// Emits one instruction where control may come to. `words`: reals have words, which move with them.
    fn inst(&mut self, at: u32, words: bool) {
        self.arrive(at);
        if self.mode.depth() > 0 { self.lower_deep(at) } else { self.lower(at, words) }
    }

    /// Registers that are handed on, with their components.
    fn list(&mut self, regs: &[Reg]) -> RegList {
        let list = RegList::at_depth(regs, self.mode.depth(), false);
        self.widest = self.widest.max(list.reals.len());
        self.listed += list.reals.len();
        list
    }

    /// Every instruction of the bytecode in prepared code.
    fn lower(&mut self, at: u32, words: bool) {
        let inst = &self.body.code[at as usize];
        let [a, b, c, d] = inst.narrow();
        let Some(structural) = inst.op.structural() else {
            self.cost += 1;
            let count = inst.op.info().operands.len() - 1;
            let scalar = Inst::scalar(inst.op, a, &[b, c, d][..count]);
            self.push(at, scalar.expect("the instruction is a scalar one, with its operands"));
            if words && inst.op.makes_constant() {
                self.push(at, Inst::Passive { dst: RealReg(a) });
            }
            return;
        };
        if structural == Structural::Task {
            // Its fork has it.
            return;
        }
        if structural == Structural::Trace {
            // It costs what its function does, if anyone listens.
            let site = self.text_site(inst);
            return self.push(at, Inst::Trace { site });
        }
        self.cost += 1;
        let cost = self.cost;
        let lowered = match structural {
            Structural::Mov if words => Inst::Mov { dst: RealReg(a), src: RealReg(b) },
            Structural::Mov => Inst::PrimalMov { dst: RealReg(a), src: RealReg(b) },
            Structural::IMov => Inst::IMov { dst: IntReg(a), src: IntReg(b) },
            Structural::PMov => Inst::PMov { dst: RefReg(a), src: RefReg(b) },
            // Nothing that a primal run meets has derivatives.
            Structural::PDetach if self.mode == Mode::PRIMAL => Inst::PMov { dst: RefReg(a), src: RefReg(b) },
            Structural::PDetach => Inst::PDetach { dst: RefReg(a), src: RefReg(b) },
            Structural::Const if words => Inst::Const { dst: RealReg(a), value: inst.imm },
            Structural::Const => Inst::PrimalConst { dst: RealReg(a), value: inst.imm },
            Structural::IConst => Inst::IConst { dst: IntReg(a), value: inst.imm as i64 },
            Structural::PSelect => Inst::PSelect { dst: RefReg(a), c: IntReg(b), a: RefReg(c), b: RefReg(d) },

            Structural::Jump => {
                self.unresolved.push(self.here());
                Inst::Jump { target: unresolved(inst.low()), cost }
            }
            Structural::Branch => {
                self.unresolved.push(self.here());
                Inst::Branch { cond: IntReg(a), then: unresolved(inst.low()), other: unresolved(inst.high()), cost }
            }
            Structural::Switch => Inst::Switch { index: IntReg(a), site: self.switch_site(inst) },
            Structural::Call => Inst::Call { site: self.call_site(inst) },
            Structural::TailCall => Inst::TailCall { site: self.call_site(inst) },
            Structural::CallClosure => Inst::CallClosure { callee: RefReg(a), site: self.call_site(inst) },
            Structural::TailCallClosure => Inst::TailCallClosure { callee: RefReg(a), site: self.call_site(inst) },
            Structural::Ret => Inst::Ret { site: self.call_site(inst) },
            Structural::Trap => Inst::Trap { message: inst.low() },
            Structural::TrapWith => Inst::TrapWith { site: self.text_site(inst) },
            Structural::Trace => unreachable!("it was emitted above"),
            Structural::Fork => Inst::Fork { site: self.fork_site(at, inst.imm as u32) },
            Structural::Task => unreachable!("a task stands in its fork's site"),
            Structural::ParallelMap => {
                Inst::ParallelMap { dst: RefReg(a), count: IntReg(b), site: self.map_site(inst) }
            }
            Structural::Jvp => Inst::Operate { site: self.operator_site(inst, Operator::Jvp) },
            Structural::Vjp => Inst::Operate { site: self.operator_site(inst, Operator::Vjp) },
            // It is to be traced.
            Structural::Checkpoint if self.grain == Grain::Instruction => Inst::Call { site: self.call_site(inst) },
            Structural::Checkpoint => Inst::Operate { site: self.operator_site(inst, Operator::Checkpoint) },
            // A primal run computes nothing but values.
            Structural::Primal if self.mode == Mode::PRIMAL => Inst::Call { site: self.call_site(inst) },
            Structural::Primal => Inst::Operate { site: self.operator_site(inst, Operator::Primal) },
            Structural::Once => Inst::Operate { site: self.operator_site(inst, Operator::Once) },
            Structural::CallImport => Inst::Operate { site: self.import_site(inst) },
            Structural::CustomVjp => Inst::Operate { site: self.operator_site(inst, Operator::CustomVjp) },
            Structural::CustomJvp => Inst::Operate { site: self.operator_site(inst, Operator::CustomJvp) },

            Structural::StructNew => Inst::New { dst: RefReg(a), site: self.object_site(inst, 0) },
            Structural::VariantNew => Inst::New { dst: RefReg(a), site: self.object_site(inst, u32::from(b)) },
            Structural::ClosureNew => Inst::New { dst: RefReg(a), site: self.object_site(inst, inst.low()) },
            Structural::Pack => Inst::Pack { dst: RefReg(a), site: self.array_site(inst) },
            Structural::Field => {
                let (primal, word) = self.real_field(b, 0, c);
                let (dst, object) = (RealReg(a), RefReg(b));
                match words {
                    true => Inst::Field { dst, object, primal, word },
                    false => Inst::PrimalField { dst, object, primal },
                }
            }
            Structural::IField => Inst::IField { dst: IntReg(a), object: RefReg(b), at: self.int_field(b, 0, c) },
            Structural::PField => Inst::PField { dst: RefReg(a), object: RefReg(b), at: self.ref_field(b, 0, c) },
            Structural::VariantTag => {
                let TypeDef::Variant(tags) = self.type_of(b) else {
                    unreachable!("the verifier checks that tags are those of variants");
                };
                Inst::VariantTag { dst: IntReg(a), object: RefReg(b), tags: tags.len() as u16 }
            }
            Structural::Payload => {
                let (primal, word) = self.real_field(b, c, d);
                let (dst, object, tag) = (RealReg(a), RefReg(b), c);
                match words {
                    true => Inst::Payload { dst, object, tag, primal, word },
                    false => Inst::PrimalPayload { dst, object, tag, primal },
                }
            }
            Structural::IPayload => {
                Inst::IPayload { dst: IntReg(a), object: RefReg(b), tag: c, at: self.int_field(b, c, d) }
            }
            Structural::PPayload => {
                Inst::PPayload { dst: RefReg(a), object: RefReg(b), tag: c, at: self.ref_field(b, c, d) }
            }
            Structural::Len => Inst::Len { dst: IntReg(a), array: RefReg(b) },
            Structural::SameLen => Inst::SameLen { array: RefReg(a), other: RefReg(b) },
            Structural::SameShape => {
                let (at, count) = self.shape(a);
                Inst::SameShape { object: RefReg(a), other: RefReg(b), at, count }
            }
            Structural::Elem if words => Inst::Elem { dst: RealReg(a), array: RefReg(b), index: IntReg(c) },
            Structural::Elem => Inst::PrimalElem { dst: RealReg(a), array: RefReg(b), index: IntReg(c) },
            Structural::IElem => Inst::IElem { dst: IntReg(a), array: RefReg(b), index: IntReg(c) },
            Structural::PElem => Inst::PElem { dst: RefReg(a), array: RefReg(b), index: IntReg(c) },
            Structural::Row => Inst::Row { dst: IntReg(a), array: RefReg(b), index: IntReg(c), width: inst.imm as u32 },
            Structural::Build => {
                let element = self.element(a);
                let words = words && element == Bank::Real;
                let depth = self.mode.depth() as u16;
                Inst::Build { dst: RefReg(a), capacity: IntReg(b), element, words, depth }
            }
            Structural::Push if words => Inst::Push { builder: RefReg(a), value: RealReg(b) },
            Structural::Push => Inst::PrimalPush { builder: RefReg(a), value: RealReg(b) },
            Structural::IPush => Inst::IPush { builder: RefReg(a), value: IntReg(b) },
            Structural::PPush => Inst::PPush { builder: RefReg(a), value: RefReg(b) },
            Structural::Finish => Inst::Finish { dst: RefReg(a), builder: RefReg(b) },
            Structural::Extend => {
                Inst::Extend { builder: RefReg(a), array: RefReg(b), from: IntReg(c), to: IntReg(d), words }
            }
            Structural::Get if words => Inst::Get { dst: RealReg(a), builder: RefReg(b), index: IntReg(c) },
            Structural::Get => Inst::PrimalGet { dst: RealReg(a), builder: RefReg(b), index: IntReg(c) },
            Structural::IGet => Inst::IGet { dst: IntReg(a), builder: RefReg(b), index: IntReg(c) },
            Structural::PGet => Inst::PGet { dst: RefReg(a), builder: RefReg(b), index: IntReg(c) },
            Structural::Put if words => Inst::Put { builder: RefReg(a), index: IntReg(b), value: RealReg(c) },
            Structural::Put => Inst::PrimalPut { builder: RefReg(a), index: IntReg(b), value: RealReg(c) },
            Structural::IPut => Inst::IPut { builder: RefReg(a), index: IntReg(b), value: IntReg(c) },
            Structural::PPut => Inst::PPut { builder: RefReg(a), index: IntReg(b), value: RefReg(c) },
            Structural::Reserve => Inst::Reserve { dst: RefReg(a), builder: RefReg(b), count: IntReg(c) },
            Structural::ChainNew => Inst::ChainNew { dst: RefReg(a) },
            Structural::ChainPush => {
                Inst::ChainPush { dst: RefReg(a), chain: RefReg(b), site: self.cell_site(inst, u32::from(c)) }
            }
            Structural::ChainFinish => Inst::ChainFinish { dst: RefReg(a), chain: RefReg(b), tail: RefReg(c) },
        };
        self.push(at, lowered);
    }

    fn switch_site(&mut self, inst: &isa::Inst) -> Site<SwitchSite> {
        let start = inst.low() as usize;
        let targets = self.body.targets[start..start + usize::from(inst.b)].iter().copied().map(unresolved).collect();
        let site = SwitchSite { targets, default: unresolved(inst.high()), cost: self.cost };
        let site = self.stream.switches.push(site);
        self.unresolved_switches.push(site);
        site
    }

    fn call_site(&mut self, inst: &isa::Inst) -> Site<CallSite> {
        let (uses, defs) = self.body.reg_lists(inst);
        let (uses, defs) = (self.list(uses), self.list(defs));
        let cost = std::mem::take(&mut self.cost);
        self.stream.calls.push(CallSite { func: FuncId(inst.low()), uses, defs, cost })
    }

    fn text_site(&mut self, inst: &isa::Inst) -> Site<TextSite> {
        let depth = self.mode.depth();
        let primal =
            |reg: &Reg| Reg { index: if reg.bank == Bank::Real { reg.index << depth } else { reg.index }, ..*reg };
        let uses: Vec<Reg> = self.body.shown(inst).iter().map(primal).collect();
        let uses = RegList::new(&uses);
        let count = uses.counts();
        self.widest = self.widest.max(count.reals);
        self.listed += count.reals;
        let template = inst.low();
        let calls = self.module.templates[template as usize].func.is_some();
        self.stream.texts.push(TextSite { template, uses, count, calls })
    }

    /// Makes the site of a fork from the instructions of its tasks.
    fn fork_site(&mut self, at: u32, count: u32) -> Site<ForkSite> {
        let body = self.body;
        let (mut args, mut results) = (Counts::default(), Counts::default());
        let task = |inst: &isa::Inst| {
            let (uses, defs) = body.reg_lists(inst);
            let (uses, defs) = (self.list(uses), self.list(defs));
            let site = TaskSite { func: FuncId(inst.low()), uses, defs, args_at: args, results_at: results };
            args.add(site.uses.counts());
            results.add(site.defs.counts());
            site
        };
        let tasks: Box<[TaskSite]> = body.code[at as usize + 1..][..count as usize].iter().map(task).collect();
        self.widest = self.widest.max(args.reals + results.reals);
        let cost = std::mem::take(&mut self.cost) + count;
        self.stream.forks.push(ForkSite { tasks, args, results, cost })
    }

    fn map_site(&mut self, inst: &isa::Inst) -> Site<MapSite> {
        let (uses, _) = self.body.reg_lists(inst);
        let uses = self.list(uses);
        let (args, element) = (uses.counts(), self.element(inst.a));
        let cost = std::mem::take(&mut self.cost);
        self.stream.maps.push(MapSite { func: FuncId(inst.low()), uses, args, element, cost })
    }

    fn operator_site(&mut self, inst: &isa::Inst, operator: Operator) -> Site<OperatorSite> {
        let (uses, defs) = self.body.reg_lists(inst);
        let (uses, defs) = (self.list(uses), self.list(defs));
        self.widest = self.widest.max(2 * (uses.reals.len() + defs.reals.len()));
        let func = FuncId(inst.low());
        let callee = &self.module.functions[func.index()];
        let captures = match operator {
            Operator::Checkpoint | Operator::Once => callee.params.len(),
            _ => usize::from(inst.a),
        };
        let (captures, args) = callee.params.split_at(captures);
        let (captures, mut args) = (Counts::of(captures), Counts::of(args));
        let (uses_count, defs_count) = (uses.counts(), defs.counts());
        let mut results = Counts::of(&callee.results);
        let is_custom = matches!(operator, Operator::CustomVjp | Operator::CustomJvp);
        if is_custom {
            // The arguments are what the instruction takes but for captures and value.
            let depth = self.mode.depth();
            results = Counts { reals: defs_count.reals >> depth, ..defs_count };
            args = Counts {
                reals: (uses_count.reals >> depth) - captures.reals - results.reals,
                ints: uses_count.ints - captures.ints - results.ints,
                refs: uses_count.refs - captures.refs - results.refs,
            };
        }
        let mut site = OperatorSite {
            operator,
            func,
            captures,
            args,
            results,
            depth: self.mode.depth(),
            uses_count,
            uses,
            defs_count,
            defs,
            transposed: None,
            host: None,
            cost: std::mem::take(&mut self.cost),
        };
        if is_custom {
            site.transposed = Some(Box::new(site.transposed()));
        }
        self.stream.operators.push(site)
    }

    /// The site of a call of a function of the host's.
    fn import_site(&mut self, inst: &isa::Inst) -> Site<OperatorSite> {
        let (uses, defs) = self.body.reg_lists(inst);
        let (uses, defs) = (self.list(uses), self.list(defs));
        self.widest = self.widest.max(2 * (uses.reals.len() + defs.reals.len()));
        let (depth, uses_count, defs_count) = (self.mode.depth(), uses.counts(), defs.counts());
        let without_depth = |counts: Counts| Counts { reals: counts.reals >> depth, ..counts };
        self.stream.operators.push(OperatorSite {
            operator: Operator::Host,
            // None of the module's.
            func: FuncId(u32::MAX),
            captures: Counts::default(),
            args: without_depth(uses_count),
            results: without_depth(defs_count),
            depth,
            uses_count,
            uses,
            defs_count,
            defs,
            transposed: None,
            host: Some(Box::new(HostSite::new(inst.low()))),
            cost: std::mem::take(&mut self.cost),
        })
    }

    /// The site of an object of fields, with a tag or the number of a function.
    fn object_site(&mut self, inst: &isa::Inst, tag: u32) -> Site<ObjectSite> {
        self.site_with_open_fields(inst, tag, 0)
    }

    /// The site of an object that a chain goes on with.
    fn cell_site(&mut self, inst: &isa::Inst, tag: u32) -> Site<ObjectSite> {
        self.site_with_open_fields(inst, tag, 1)
    }

    /// The site of an object that has so many references behind those that the instruction gives it.
    fn site_with_open_fields(&mut self, inst: &isa::Inst, tag: u32, open: usize) -> Site<ObjectSite> {
        let (uses, _) = self.body.reg_lists(inst);
        let uses = RegList::new(uses);
        let counts = Fields { reals: uses.reals.len(), ints: uses.ints.len(), refs: uses.refs.len() + open };
        let header = self.header(inst, counts, tag);
        self.stream.objects.push(ObjectSite { header, uses, element: Bank::Ref })
    }

    /// The header of the objects that an instruction makes.
    fn header(&self, inst: &isa::Inst, fields: Fields, tag: u32) -> u64 {
        let is_shaped = inst.op == Op::StructNew && matches!(self.type_of(inst.a), TypeDef::Shaped(_));
        if is_shaped { heap::shaped_header(fields) } else { heap::object_header(fields, tag) }
    }

    fn array_site(&mut self, inst: &isa::Inst) -> Site<ObjectSite> {
        let (uses, _) = self.body.reg_lists(inst);
        let (uses, element) = (RegList::new(uses), self.element(inst.a));
        self.stream.objects.push(ObjectSite { header: heap::array_header(element), uses, element })
    }

    fn type_of(&self, reference: u16) -> &'a TypeDef {
        &self.module.types[self.body.refs[usize::from(reference)].index()]
    }

    /// The bank of the elements of an array or a builder.
    fn element(&self, reference: u16) -> Bank {
        match self.type_of(reference) {
            TypeDef::Array(element) | TypeDef::Builder(element) => element.bank(),
            _ => unreachable!("the verifier checks that array instructions work on arrays"),
        }
    }

    /// The layout of the object in a reference register, a struct or a variant's payload, and how many fields of the
    /// same bank stand before the one of this number.
    fn field(&self, object: u16, tag: u16, number: u16) -> (Fields, usize) {
        let fields = match self.type_of(object) {
            TypeDef::Struct(fields) | TypeDef::Shaped(fields) => fields,
            TypeDef::Variant(variants) => &variants[usize::from(tag)].fields,
            _ => unreachable!("the verifier checks that fields are read from structs and variants"),
        };
        let bank = fields[usize::from(number)].bank();
        let nth = fields[..usize::from(number)].iter().filter(|field| field.bank() == bank).count();
        (Fields::of(fields), nth)
    }

    /// Where a field's primal and its word stand.
    fn real_field(&self, object: u16, tag: u16, number: u16) -> (u32, u32) {
        let (layout, nth) = self.field(object, tag, number);
        (layout.real_at(nth) as u32, layout.word_at(nth) as u32)
    }

    /// Where the word of a real field stands that an instruction reads.
    fn word_of_field(&self, at: u32) -> u32 {
        let inst = &self.body.code[at as usize];
        let [_, object, b, c] = inst.narrow();
        let (tag, number) = if inst.op == Op::Payload { (b, c) } else { (0, b) };
        self.real_field(object, tag, number).1
    }

    fn int_field(&self, object: u16, tag: u16, number: u16) -> u32 {
        let (layout, nth) = self.field(object, tag, number);
        layout.int_at(nth) as u32
    }

    /// Where the integers of a shape stand, and how many there are.
    fn shape(&self, object: u16) -> (u32, u32) {
        let TypeDef::Shaped(fields) = self.type_of(object) else {
            unreachable!("the verifier checks that shapes are those of shaped types");
        };
        let layout = Fields::of(fields);
        (layout.int_at(0) as u32, layout.ints as u32)
    }

    fn ref_field(&self, object: u16, tag: u16, number: u16) -> u32 {
        let (layout, nth) = self.field(object, tag, number);
        layout.ref_at(nth) as u32
    }

    /// Emits a segment: its instructions as they stand, copies of reals as copies of primals, then its end.
    fn segment(&mut self, segment: Segment) {
        let (start, end) = (segment.start, segment.end);
        let check = self.check_of(&segment);
        let plan = RecordPlan::new(segment, self.body.reals as u16, self.grain);
        self.stream.reals = self.stream.reals.max(self.body.reals as usize + plan.copies.len());
        for at in start..end {
            self.arrive(at);
            for copy in plan.copies.iter().filter(|copy| copy.before == at) {
                self.push(at, Inst::PrimalMov { dst: RealReg(copy.to), src: RealReg(copy.from) });
            }
            self.lower(at, self.body.code[at as usize].op != Op::Mov);
        }
        let has_record = !plan.site.outputs.is_empty() && !plan.site.inputs.is_empty() && self.mode.is_recording();
        if let Some(check) = check {
            self.check(check, 1, plan.checked.filter(|_| has_record));
        }
        if plan.site.outputs.is_empty() || !self.mode.is_recording() {
            return;
        }
        // A segment without inputs never writes a record; its end makes its outputs constants.
        let id = if plan.site.inputs.is_empty() {
            u32::MAX
        } else {
            self.segments.push(plan.code);
            self.structures.extend(plan.structure);
            self.segments.len() as u32 - 1
        };
        let site = self.stream.segments.push(SegmentSite { id, ..plan.site });
        self.push(end - 1, Inst::SegmentEnd { site });
    }

    /// Emits a loop that is recorded as one. The blocks of its path but the first may be entered from elsewhere, so
    /// they stand in the stream a second time, as ordinary blocks. `next` is where the bytecode's next block begins.
    fn whole_loop(&mut self, found: Loop, next: u32) {
        let (start, exit, path) = (found.start, found.exit, found.path.clone());
        let LoopPlan { mut site, code, copies } = LoopPlan::new(found, self.body.reals as u16, self.body.ints as u16);
        for copy in &copies {
            let frame = if copy.bank == Bank::Real { &mut self.stream.reals } else { &mut self.stream.ints };
            *frame = (*frame).max(usize::from(copy.to) + 1);
        }
        if let Some(code) = code {
            site.id = self.loops.len() as u32;
            self.loops.push(code);
        }
        let number = self.stream.loops.next();
        self.position[start as usize] = self.here();
        self.push(start, Inst::LoopBegin { site: number });
        site.body = self.here();
        let mut position_in_path = 0;
        for (n, block) in path.iter().enumerate() {
            for at in block.start..block.end {
                for copy in copies.iter().filter(|copy| copy.before == position_in_path) {
                    let (dst, src) = (copy.to, copy.from);
                    let inst = match copy.bank {
                        Bank::Real => Inst::PrimalMov { dst: RealReg(dst), src: RealReg(src) },
                        _ => Inst::IMov { dst: IntReg(dst), src: IntReg(src) },
                    };
                    self.push(at, inst);
                }
                self.path_inst(at, number);
                position_in_path += 1;
            }
            if n + 1 < path.len() {
                // Fuel is charged where a primal run charges it.
                let cost = std::mem::take(&mut self.cost);
                let target = self.here().next();
                let back = leads_back(self.body, block.end - 1);
                let inst = if back { Inst::CheckedJump { target, cost } } else { Inst::Jump { target, cost } };
                self.push(block.end - 1, inst);
            }
        }
        site.cost = self.cost;
        site.end = self.here();
        let last = path.last().expect("a path has blocks").end - 1;
        site.checks_fuel = leads_back(self.body, last);
        self.push(last, Inst::LoopEnd { site: number });
        if exit != next {
            self.jump(last, exit, 0);
        }
        let pushed = self.stream.loops.push(site);
        debug_assert_eq!(pushed, number);
    }

    /// Emits an instruction of a loop's path, which leaves words alone. A jump within the path comes with the block's
    /// end, and the branch that ends the path is the end of an iteration.
    fn path_inst(&mut self, at: u32, site: Site<LoopSite>) {
        let inst = &self.body.code[at as usize];
        match inst.op {
            Op::Jump => self.cost += 1,
            Op::Branch => {
                self.cost += 1;
                self.push(at, Inst::LoopStep { cond: IntReg(inst.a), site });
            }
            _ => self.lower(at, false),
        }
    }

    /// Targets become positions in the stream.
    fn resolve_targets(&mut self) -> Result<(), TrapKind> {
        let (position, watch) = (&self.position, self.watch);
        watch.tick(self.stream.code.len())?;
        for &here in &self.unresolved {
            watch.tick(1)?;
            let inst = &mut self.stream.code[here.index()];
            inst.for_each_target_mut(|target| *target = position[target.index()]);
            match *inst {
                Inst::Jump { target, cost } if target <= here => *inst = Inst::BackJump { target, cost },
                Inst::Branch { cond, then, other, cost } if then.min(other) <= here => {
                    *inst = Inst::BackBranch { cond, then, other, cost };
                }
                _ => {}
            }
        }
        for &site in &self.unresolved_switches {
            let site = &mut self.stream.switches[site];
            watch.tick(site.targets.len())?;
            site.targets.iter_mut().for_each(|target| *target = position[target.index()]);
            site.default = position[site.default.index()];
        }
        Ok(())
    }
}
