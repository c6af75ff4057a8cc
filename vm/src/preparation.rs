//! From verified bytecode to the streams that the interpreter runs: one for primal runs, one for recording runs.
//!
//! A stream is what a function's start reaches of its code, with operands resolved: register lists split by bank, field
//! numbers turned into offsets, jump targets into stream positions, and the fuel of a stretch of code put on the
//! instruction that ends it. The recording stream also holds the segment ends, and loops that are recorded as one as
//! their paths, each on its own ([`crate::preparation::loop_detection`]). Both are made on first use and belong to the
//! module.
//!
//! In a stream, `imm` (and spare 16-bit operands) mean:
//! - `Jump`: target low, cost high. `Branch`: both targets; cost in `b` (low) and `c` (high). `BackJump` and
//!   `BackBranch` are the same where a target is not further on.
//! - `Switch`, calls, `Ret`, `Fork`, `ParallelMap`, object instructions, `SegmentEnd`, `LoopBegin`, `LoopStep`,
//!   `LoopEnd`: an index into the stream's table of that name. `LoopStep`: condition in `a`. A fork's site holds its
//!   tasks, so there is no `Task` in a stream. `ParallelMap`: count in `b`.
//! - `Field`: word offset of the primal low, of the derivative word high. `IField`, `PField`: word offset. Payloads:
//!   the same, tag in `c`.
//! - `Build`: element bank in `c`. `PrimalMov`, `PrimalConst`, `PrimalToReal`, `PrimalElem`: like `Mov` and so on.

pub(crate) mod flow;
mod liveness;
pub(crate) mod loop_detection;
pub(crate) mod pressure;
mod rename;
pub(crate) mod segmentation;

use crate::bytecode::isa::{Bank, Inst, Op, Reg};
use crate::bytecode::module::{Body, Function, ModuleDef, TypeDef};
use crate::memory::heap::{self, Fields};
use crate::preparation::flow::{Block, FlowGraph};
use crate::records::recorded_loop::{LoopCode, LoopPlan, LoopSite};
use crate::records::segment::{RecordPlan, SegmentCode, SegmentSite};
use crate::running::meter::Watch;
use crate::trap::TrapKind;
use loop_detection::Loop;
use segmentation::Segment;

/// Registers by bank, each in order.
#[derive(Debug, Default)]
pub struct RegList {
    /// Real registers.
    pub reals: Box<[u16]>,
    /// Integer registers.
    pub ints: Box<[u16]>,
    /// Reference registers.
    pub refs: Box<[u16]>,
}

impl RegList {
    fn new(regs: &[Reg]) -> Self {
        let of = |bank| regs.iter().filter(|reg| reg.bank == bank).map(|reg| reg.index).collect();
        RegList { reals: of(Bank::Real), ints: of(Bank::Int), refs: of(Bank::Ref) }
    }

    /// How many registers there are.
    pub fn counts(&self) -> Counts {
        Counts { reals: self.reals.len(), ints: self.ints.len(), refs: self.refs.len() }
    }
}

/// A call, a tail call or a return.
#[derive(Debug)]
pub struct CallSite {
    /// The function that is called, if it is known.
    pub func: u32,
    /// Arguments, or the returned registers.
    pub uses: RegList,
    /// The registers that take the results.
    pub defs: RegList,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

/// Numbers of registers by bank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Real registers.
    pub reals: usize,
    /// Integer registers.
    pub ints: usize,
    /// Reference registers.
    pub refs: usize,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.reals += other.reals;
        self.ints += other.ints;
        self.refs += other.refs;
    }
}

/// A task of a fork.
#[derive(Debug)]
pub struct TaskSite {
    /// The function that is called.
    pub func: u32,
    /// Arguments.
    pub uses: RegList,
    /// The registers that take the results.
    pub defs: RegList,
    /// Where the arguments begin among those of all tasks.
    pub args_at: Counts,
    /// Where the results begin among those of all tasks.
    pub results_at: Counts,
}

/// A fork. Arguments of all tasks are handed over side by side, and so are the results, behind them.
#[derive(Debug)]
pub struct ForkSite {
    /// The tasks in order.
    pub tasks: Box<[TaskSite]>,
    /// Arguments of all tasks.
    pub args: Counts,
    /// Results of all tasks.
    pub results: Counts,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

/// A parallel map.
#[derive(Debug)]
pub struct MapSite {
    /// The function that is called for each range.
    pub func: u32,
    /// Arguments that all calls get after the range.
    pub uses: RegList,
    /// How many there are.
    pub args: Counts,
    /// The bank of the elements.
    pub element: Bank,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

/// A jump by index.
#[derive(Debug)]
pub struct SwitchSite {
    /// Stream positions by index.
    pub targets: Box<[u32]>,
    /// Where any other index leads.
    pub default: u32,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

/// An instruction that makes an object from registers.
#[derive(Debug)]
pub struct ObjectSite {
    /// The object's first header word.
    pub header: u64,
    /// What goes into it.
    pub uses: RegList,
    /// The bank of the elements, for arrays.
    pub element: Bank,
}

/// A function's code, ready to run in one mode.
#[derive(Debug, Default)]
pub struct Stream {
    /// The instructions.
    pub code: Vec<Inst>,
    /// The bytecode instruction that each entry of `code` comes from.
    pub origin: Vec<u32>,
    /// Calls and returns.
    pub calls: Vec<CallSite>,
    /// Forks.
    pub forks: Vec<ForkSite>,
    /// Parallel maps.
    pub maps: Vec<MapSite>,
    /// Jumps by index.
    pub switches: Vec<SwitchSite>,
    /// Instructions that make objects of registers.
    pub objects: Vec<ObjectSite>,
    /// Ends of segments.
    pub segments: Vec<SegmentSite>,
    /// Loops that are recorded as one.
    pub loops: Vec<LoopSite>,
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

/// A stream with the records that it writes.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Records go by their numbers in the lists below.
    pub(crate) stream: Stream,
    pub(crate) segments: Vec<SegmentCode>,
    pub(crate) loops: Vec<LoopCode>,
}

/// Makes the stream for primal runs.
///
/// # Errors
/// What the watch says.
pub(crate) fn primal(module: &ModuleDef, function: &Function, watch: &Watch<'_>) -> Result<Prepared, TrapKind> {
    let flow = FlowGraph::of(&function.body, watch)?;
    Emitter::new(module, function, watch).run(&flow, Vec::new(), Vec::new())
}

/// Makes the stream for recording runs.
///
/// # Errors
/// What the watch says.
pub(crate) fn recording(module: &ModuleDef, function: &Function, watch: &Watch<'_>) -> Result<Prepared, TrapKind> {
    let mut function = function.clone();
    let flow = FlowGraph::of(&function.body, watch)?;
    rename::rename_loads(&mut function.body, flow.blocks(), watch)?;
    let body = &function.body;
    let constants_of = |bank| {
        let params = function.params.iter().filter(|ty| ty.bank() == bank).count();
        segmentation::constant_registers(body, &flow, bank, params, watch)
    };
    let constants = constants_of(Bank::Real)?;
    let live = liveness::live_out(body, &flow, watch)?;
    let constants_of_loops = loop_detection::Constants { reals: &constants, ints: &constants_of(Bank::Int)? };
    let loops = loop_detection::find(body, &flow, live.as_deref(), &constants_of_loops, watch)?;
    let is_loop = |block: &Block| loops.binary_search_by_key(&block.start, |found| found.start).is_ok();
    let mut segments = Vec::new();
    for (index, &block) in flow.blocks().iter().enumerate().filter(|(_, block)| !is_loop(block)) {
        let live = live.as_ref().map(|live| &live[index]);
        segments.extend(segmentation::cut(body, block, live, &constants, watch)?);
    }
    Emitter::new(module, &function, watch).run(&flow, segments, loops)
}

/// What deriving a segment takes per instruction, and a loop, in the units of [`Watch::tick`].
const SEGMENT_WORK: usize = 100;
const LOOP_WORK: usize = 1 << 14;

struct Emitter<'a> {
    module: &'a ModuleDef,
    body: &'a Body,
    watch: &'a Watch<'a>,
    stream: Stream,
    /// The code of the records that the stream writes.
    segments: Vec<SegmentCode>,
    loops: Vec<LoopCode>,
    /// The stream position of each bytecode instruction.
    position: Vec<u32>,
    /// Instructions since fuel was last charged for.
    cost: u32,
    /// Jumps within the path of a loop: where they stand and where they lead, in the stream.
    path_jumps: Vec<(u32, u32)>,
}

impl<'a> Emitter<'a> {
    fn new(module: &'a ModuleDef, function: &'a Function, watch: &'a Watch<'a>) -> Self {
        let body = &function.body;
        let params = |bank| function.params.iter().filter(|ty| ty.bank() == bank).count();
        let stream = Stream {
            reals: body.reals as usize,
            ints: body.ints as usize,
            refs: body.refs.len(),
            real_params: params(Bank::Real),
            int_params: params(Bank::Int),
            ref_params: params(Bank::Ref),
            ..Stream::default()
        };
        Emitter {
            module,
            body,
            watch,
            stream,
            segments: Vec::new(),
            loops: Vec::new(),
            position: vec![0; body.code.len()],
            cost: 0,
            path_jumps: Vec::new(),
        }
    }

    fn run(mut self, flow: &FlowGraph, segments: Vec<Segment>, loops: Vec<Loop>) -> Result<Prepared, TrapKind> {
        let mut segments = segments.into_iter().peekable();
        let mut loops = loops.into_iter().peekable();
        for &Block { start, end } in flow.blocks() {
            self.cost = 0;
            if let Some(found) = loops.next_if(|found| found.start == start) {
                self.watch.tick(LOOP_WORK)?;
                self.whole_loop(found, end);
                continue;
            }
            let mut at = start;
            while at < end {
                match segments.next_if(|segment| segment.start == at) {
                    Some(segment) => {
                        self.watch.tick(SEGMENT_WORK * (segment.end - at) as usize)?;
                        at = segment.end;
                        self.segment(segment);
                    }
                    None => {
                        self.watch.tick(8)?;
                        self.inst(at);
                        at += 1;
                    }
                }
            }
            if !self.body.code[end as usize - 1].op.is_terminator() {
                // Control falls into the next block, whose cost is its own.
                let imm = u64::from(end) | u64::from(self.cost) << 32;
                self.push(end - 1, Inst { op: Op::Jump, a: 0, b: 0, c: 0, imm });
            }
        }
        self.resolve_targets()?;
        let Emitter { stream, segments, loops, .. } = self;
        Ok(Prepared { stream, segments, loops })
    }

    fn push(&mut self, origin: u32, inst: Inst) {
        self.stream.code.push(inst);
        self.stream.origin.push(origin);
    }

    /// Emits one instruction outside of a segment's body.
    fn inst(&mut self, at: u32) {
        self.position[at as usize] = self.stream.code.len() as u32;
        let body = self.body;
        let mut inst = body.code[at as usize];
        if inst.op == Op::Task {
            // Its fork has it.
            return;
        }
        self.cost += 1;
        match inst.op {
            Op::Jump => inst.imm = u64::from(inst.low()) | u64::from(self.cost) << 32,
            Op::Branch => (inst.b, inst.c) = (self.cost as u16, (self.cost >> 16) as u16),
            Op::Switch => {
                let start = inst.low() as usize;
                let targets = body.targets[start..start + usize::from(inst.b)].into();
                self.stream.switches.push(SwitchSite { targets, default: inst.high(), cost: self.cost });
                inst.imm = self.stream.switches.len() as u64 - 1;
            }
            Op::Call | Op::TailCall | Op::CallClosure | Op::TailCallClosure | Op::Ret => {
                let (uses, defs) = body.reg_lists(&inst);
                let site =
                    CallSite { func: inst.low(), uses: RegList::new(uses), defs: RegList::new(defs), cost: self.cost };
                self.stream.calls.push(site);
                self.cost = 0;
                if inst.op == Op::CallClosure || inst.op == Op::TailCallClosure {
                    inst.c = inst.a;
                }
                inst.imm = self.stream.calls.len() as u64 - 1;
            }
            Op::Fork => {
                self.fork(at, inst.imm as u32);
                inst.imm = self.stream.forks.len() as u64 - 1;
            }
            Op::ParallelMap => {
                let (uses, _) = body.reg_lists(&inst);
                let uses = RegList::new(uses);
                let (args, element) = (uses.counts(), self.element(inst.a));
                self.stream.maps.push(MapSite { func: inst.low(), uses, args, element, cost: self.cost });
                self.cost = 0;
                inst.imm = self.stream.maps.len() as u64 - 1;
            }
            Op::StructNew | Op::VariantNew | Op::ClosureNew | Op::Pack => self.object(&mut inst),
            Op::Field | Op::IField | Op::PField | Op::Payload | Op::IPayload | Op::PPayload => self.field(&mut inst),
            Op::Build => inst.c = self.element(inst.a) as u16,
            _ => {}
        }
        self.push(at, inst);
    }

    /// Makes the site of a fork from the instructions of its tasks.
    fn fork(&mut self, at: u32, count: u32) {
        let body = self.body;
        let (mut args, mut results) = (Counts::default(), Counts::default());
        let task = |inst: &Inst| {
            let (uses, defs) = body.reg_lists(inst);
            let (uses, defs) = (RegList::new(uses), RegList::new(defs));
            let site = TaskSite { func: inst.low(), uses, defs, args_at: args, results_at: results };
            args.add(site.uses.counts());
            results.add(site.defs.counts());
            site
        };
        let tasks: Box<[TaskSite]> = body.code[at as usize + 1..][..count as usize].iter().map(task).collect();
        self.stream.forks.push(ForkSite { tasks, args, results, cost: self.cost + count });
        self.cost = 0;
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

    fn object(&mut self, inst: &mut Inst) {
        let (uses, _) = self.body.reg_lists(inst);
        let uses = RegList::new(uses);
        let counts = Fields { reals: uses.reals.len(), ints: uses.ints.len(), refs: uses.refs.len() };
        let (header, element) = match inst.op {
            Op::StructNew => (heap::object_header(counts, 0), Bank::Ref),
            Op::VariantNew => (heap::object_header(counts, u32::from(inst.b)), Bank::Ref),
            Op::ClosureNew => (heap::object_header(counts, inst.low()), Bank::Ref),
            _ => {
                let element = self.element(inst.a);
                (heap::array_header(element), element)
            }
        };
        self.stream.objects.push(ObjectSite { header, uses, element });
        inst.imm = self.stream.objects.len() as u64 - 1;
    }

    fn field(&mut self, inst: &mut Inst) {
        let (fields, number) = match (self.type_of(inst.b), inst.op) {
            (TypeDef::Struct(fields), _) => (fields, usize::from(inst.c)),
            (TypeDef::Variant(variants), _) => (&variants[usize::from(inst.c)].fields, usize::from(inst.imm as u16)),
            _ => unreachable!("the verifier checks that fields are read from structs and variants"),
        };
        let counts = Fields::of(fields);
        let bank = fields[number].bank();
        let nth = fields[..number].iter().filter(|field| field.bank() == bank).count();
        inst.imm = match bank {
            Bank::Real => counts.real_at(nth) as u64 | (counts.word_at(nth) as u64) << 32,
            Bank::Int => counts.int_at(nth) as u64,
            Bank::Ref => counts.ref_at(nth) as u64,
        };
    }

    /// Emits a segment: its instructions as they stand, copies of reals as copies of primals, then its end.
    fn segment(&mut self, segment: Segment) {
        let (start, end) = (segment.start, segment.end);
        let plan = RecordPlan::new(segment, self.body.reals as u16);
        self.stream.reals = self.stream.reals.max(self.body.reals as usize + plan.copies.len());
        for at in start..end {
            let here = self.stream.code.len() as u32;
            for copy in plan.copies.iter().filter(|copy| copy.before == at) {
                self.push(at, Inst { op: Op::PrimalMov, a: copy.to, b: copy.from, c: 0, imm: 0 });
            }
            self.inst(at);
            self.position[at as usize] = here;
            let last = self.stream.code.last_mut().expect("an instruction was pushed");
            if last.op == Op::Mov {
                last.op = Op::PrimalMov;
            }
        }
        if plan.site.outputs.is_empty() {
            return;
        }
        // A segment without inputs never writes a record; its end makes its outputs constants.
        let id = if plan.site.inputs.is_empty() {
            u32::MAX
        } else {
            self.segments.push(plan.code);
            self.segments.len() as u32 - 1
        };
        self.stream.segments.push(SegmentSite { id, ..plan.site });
        let imm = self.stream.segments.len() as u64 - 1;
        self.push(end - 1, Inst { op: Op::SegmentEnd, a: 0, b: 0, c: 0, imm });
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
        let imm = self.stream.loops.len() as u64;
        let instruction = |op, a| Inst { op, a, b: 0, c: 0, imm };
        let begin = self.stream.code.len() as u32;
        self.push(start, instruction(Op::LoopBegin, 0));
        site.body = begin + 1;
        let mut last = start;
        for (n, at) in path.iter().flat_map(|block| block.start..block.end).enumerate() {
            if n > 0 && path.iter().any(|block| block.start == at) {
                self.path_jump(last);
            }
            for copy in copies.iter().filter(|copy| copy.before == n as u32) {
                let op = if copy.bank == Bank::Real { Op::PrimalMov } else { Op::IMov };
                self.push(at, Inst { op, a: copy.to, b: copy.from, c: 0, imm: 0 });
            }
            self.path_inst(at);
            last = at;
        }
        let branch = self.stream.code.last_mut().expect("a path ends in a branch");
        *branch = instruction(Op::LoopStep, branch.a);
        site.cost = self.cost;
        self.position[start as usize] = begin;
        site.end = self.stream.code.len() as u32;
        self.push(last, instruction(Op::LoopEnd, 0));
        if exit != next {
            self.push(last, Inst { op: Op::Jump, a: 0, b: 0, c: 0, imm: u64::from(exit) });
        }
        self.stream.loops.push(site);
    }

    /// Emits an instruction of a loop's path, which leaves words alone.
    fn path_inst(&mut self, at: u32) {
        let position = self.position[at as usize];
        self.inst(at);
        self.position[at as usize] = position;
        let last = self.stream.code.last_mut().expect("an instruction was pushed");
        last.op = match last.op {
            Op::Mov => Op::PrimalMov,
            Op::Const => Op::PrimalConst,
            Op::ToReal => Op::PrimalToReal,
            Op::Elem => Op::PrimalElem,
            op => op,
        };
    }

    /// Goes on with the next block of a path after the instruction `last`: with its jump, or one that is added as
    /// between other blocks. Fuel is charged where a primal run charges it.
    fn path_jump(&mut self, last: u32) {
        if self.body.code[last as usize].op != Op::Jump {
            let imm = u64::from(last + 1) | u64::from(self.cost) << 32;
            self.push(last, Inst { op: Op::Jump, a: 0, b: 0, c: 0, imm });
        }
        let here = self.stream.code.len() as u32;
        self.path_jumps.push((here - 1, here));
        self.cost = 0;
    }

    fn resolve_targets(&mut self) -> Result<(), TrapKind> {
        let (position, watch) = (&self.position, self.watch);
        let at = |target: u32| position[target as usize];
        for (here, inst) in (0..).zip(&mut self.stream.code) {
            watch.tick(1)?;
            match inst.op {
                Op::Jump => {
                    let target = at(inst.low());
                    inst.imm = u64::from(target) | u64::from(inst.high()) << 32;
                    if target <= here {
                        inst.op = Op::BackJump;
                    }
                }
                Op::Branch => {
                    let (then, other) = (at(inst.low()), at(inst.high()));
                    inst.imm = u64::from(then) | u64::from(other) << 32;
                    if then <= here || other <= here {
                        inst.op = Op::BackBranch;
                    }
                }
                _ => {}
            }
        }
        for &(from, to) in &self.path_jumps {
            let jump = &mut self.stream.code[from as usize];
            jump.op = Op::Jump;
            jump.imm = u64::from(to) | u64::from(jump.high()) << 32;
        }
        for site in &mut self.stream.switches {
            watch.tick(site.targets.len())?;
            site.targets.iter_mut().for_each(|target| *target = at(*target));
            site.default = at(site.default);
        }
        Ok(())
    }
}
