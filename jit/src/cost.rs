//! What compiling costs, estimated from the code before Cranelift sees it.
//!
//! Cranelift's time is linear in the instructions that it is given, but for its register allocator: where many values
//! live at a time, each instruction is weighed against them. So an estimate is a sum over instructions and over
//! instructions × live values. What one of ours is in Cranelift's instructions is what `function` and the others write
//! for it; a test holds the numbers here to that. The times were fitted to some 200 functions of all kinds (nests of
//! loops, many blocks with many live values, straight-line code with and without records, the examples), which they
//! tell within a factor of 1.5 up to some 20 ms.

use crate::function::{Constants, Stretch, counted_loops, stretch};
use crate::lenient::{lenient_products, pure};
use crate::loop_adjoint;
use crate::region_adjoint::{self, Outline};
use crate::vectors::machine_has_fma;
use dualvm_vm::isa::{Bank, Op, Role};
use dualvm_vm::native::{
    BlockPressure, BuilderAdjoint, CallSite, Edge, Form, FunctionRequest, Inst, IntReg, LoopCode, LoopSite, ObjectSite,
    OutputWord, Pure, RegList, RegionCode, RegionSite, Request, SaveSite, SegmentCode, SegmentSite, Stream, TextSite,
};
use std::collections::HashSet;
use std::time::Duration;

/// Nanoseconds of a piece, of an instruction, and of an instruction per value that lives there.
const PIECE_NS: f64 = 90_000.0;
const INSTRUCTION_NS: f64 = 1_300.0;
const LIVE_NS: f64 = 20.0;
/// What the first compilation of a module takes besides, and that of a process: shared code, and Cranelift itself, of
/// which the system has loaded nothing.
pub(crate) const MODULE: Duration = Duration::from_micros(60);
pub(crate) const FIRST_MODULE: Duration = Duration::from_micros(1_200);
/// Instructions of Cranelift's that a call of a Rust function counts as.
const CALL: u64 = 5;
/// Charging for fuel: at the end of each block, and before calls.
const CHARGE: u64 = 12;
/// Finding out whether an array has an element.
const ELEMENT_TEST: u64 = 7;
/// Adding the adjoints of a range that a region has appended to those of where it comes from.
const EXTENDED: u64 = 36;
/// Finding where the adjoints of an array begin that a region's trail names.
const BASE_TOLD: u64 = 11;
/// Skipping the rounds of a loop in a region.
const GUARD: u64 = 16;
/// Beginning and ending the sweep of a loop, and finding out whether nothing flows back into what it has pushed.
const WHOLE_LOOP: u64 = 100;
const IDLE_PUSHED: usize = 16;
/// Values that a region's sweep holds all the time: where it is, and where adjoints are.
const HELD: u64 = 6;
/// Having the interpreter compute a stretch of arithmetic where a product is NaN, without the numbers that it is given
/// and gives.
const COMPUTE_AGAIN: u64 = 20;
/// What every function begins and ends with.
const FRAME: u64 = 35;
/// Steps that counting live registers may take: about as long as compiling twenty instructions.
const PRESSURE_STEPS_MAX: u64 = 1 << 14;

/// The estimate for a request. Nothing above `most` is exact.
pub(crate) fn estimate(request: &Request<'_>, most: Duration) -> Duration {
    Duration::from_nanos(work(request, most).ns() as u64)
}

fn work(request: &Request<'_>, most: Duration) -> Work {
    match request {
        Request::Function(request) => function(request, most),
        Request::Segment(code) => segment(code),
        Request::Loop(code) => recorded_loop(code),
        Request::Region(code) => region(code),
    }
}

/// Instructions of Cranelift's, and values that live at them, added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) insts: u64,
    live: f64,
}

impl Work {
    fn ns(self) -> f64 {
        PIECE_NS + self.insts as f64 * INSTRUCTION_NS + self.live * LIVE_NS
    }
}

fn function(request: &FunctionRequest<'_>, most: Duration) -> Work {
    let stream = request.stream;
    // Looking at all of it would be too much work already.
    let least = Work { insts: stream.code.len() as u64, live: 0.0 };
    if least.ns() > most.as_nanos() as f64 {
        return least;
    }
    let words = if request.mode.is_recording() { 2 } else { 1 };
    let registers = words * stream.reals + stream.ints;
    let sizes = sizes(request);
    let insts = FRAME + fetched(request) + sizes.iter().sum::<u64>();
    let mut work = Work { insts, live: insts as f64 * registers as f64 };
    // All registers are an upper bound of those that live, good enough for a few, and of no use where there are many.
    const FEW: usize = 16;
    if registers <= FEW || (Work { insts, live: 0.0 }).ns() > most.as_nanos() as f64 {
        return work;
    }
    if let Some(blocks) = request.pressure(PRESSURE_STEPS_MAX * (1 + insts / 1000)) {
        work.live =
            sizes.iter().zip(&stream.origin).map(|(&size, &origin)| size as f64 * live(&blocks, origin, words)).sum();
    }
    work
}

/// How many values live on average in the block that a bytecode instruction is in.
fn live(blocks: &[BlockPressure], origin: u32, words: usize) -> f64 {
    let block = &blocks[blocks.partition_point(|block| block.start <= origin).saturating_sub(1)];
    let all = words as u64 * block.real_instructions + block.int_instructions;
    all as f64 / f64::from(block.instructions)
}

/// Instructions that fetch registers from the frame: parameters, or all registers where code begins at a loop.
fn fetched(request: &FunctionRequest<'_>) -> u64 {
    let stream = request.stream;
    let goes_back =
        |inst: &Inst| matches!(inst, Inst::BackJump { .. } | Inst::BackBranch { .. } | Inst::LoopStep { .. });
    let loops = stream.code.iter().any(goes_back);
    let (reals, ints) = if loops { (stream.reals, stream.ints) } else { (stream.real_params, stream.int_params) };
    let null = stream.refs - stream.ref_params;
    // Every variable costs something, used or not.
    let declared = (stream.reals + stream.ints + stream.refs) / 16;
    (if request.mode.is_recording() { 2 * reals } else { reals } + ints + null + declared) as u64
}

/// What each instruction of a stream is in Cranelift's instructions.
pub(crate) fn sizes(request: &FunctionRequest<'_>) -> Vec<u64> {
    let stream = request.stream;
    let constants = Constants::new(stream);
    let measure = Measure { stream, constants: &constants, recording: request.mode.is_recording() };
    let mut sizes: Vec<u64> = stream.code.iter().map(|inst| measure.inst(inst)).collect();
    for block in stream.blocks() {
        let block = block.start.index()..block.end.index();
        measure.rows(&stream.code[block.clone()], &mut sizes[block.clone()]);
        let mut at = block.start;
        while at < block.end {
            at += match stretch(stream, &stream.code[at..block.end], |_, _| true) {
                Ok(stretch) => {
                    measure_stretch(&stretch, &mut sizes[at..at + stretch.len]);
                    stretch.len
                }
                Err(len) => len,
            };
        }
    }
    for (range, rounds) in counted_loops(stream, &constants, request.mode.depth()) {
        sizes[range].iter_mut().for_each(|size| *size *= rounds);
    }
    sizes
}

/// A stretch of arithmetic, which is written with plain products.
fn measure_stretch(stretch: &Stretch, sizes: &mut [u64]) {
    let waiting = sizes.iter_mut().zip(&stretch.waits).filter_map(|(size, &waits)| waits.then_some(size));
    for ((size, inst), &lenient) in waiting.zip(&stretch.arithmetic).zip(&stretch.leniency.products) {
        *size = pure_size(pure(inst), lenient);
    }
    sizes[stretch.len - 1] += COMPUTE_AGAIN + 2 * (stretch.leniency.tests.len() + stretch.moved()) as u64;
}

struct Measure<'a> {
    stream: &'a Stream,
    constants: &'a Constants,
    recording: bool,
}

impl Measure<'_> {
    fn inst(&self, inst: &Inst) -> u64 {
        let stream = self.stream;
        let recorded = |primal: u64, more: u64| if self.recording { primal + more } else { primal };
        match inst.form() {
            Form::Pure(pure) => pure_size(pure, false),
            Form::Mov { .. } | Form::Len { .. } | Form::Passive { .. } => 1,
            Form::PMov { .. } | Form::PSelect { .. } | Form::PField { .. } | Form::PPayload { .. } => 2,
            Form::SameLen { .. } => 2,
            Form::SameShape { count, .. } => 4 * u64::from(count),
            Form::Const { .. } => recorded(1, 1),
            Form::IField { .. } | Form::IPayload { .. } | Form::VariantTag { .. } => 1,
            Form::LoopBegin { site } => self.loop_begin(&stream.loops[site]),
            Form::LoopStep { site, .. } => self.loop_step(&stream.loops[site]),
            Form::LoopEnd { site } => self.loop_end(&stream.loops[site]),
            Form::RegionBegin { site } => region_begin(&stream.regions[site]),
            Form::RegionRound { .. } => 1,
            Form::RegionSave { site } => region_save(&stream.saves[site]),
            Form::ArrayBase { .. } | Form::FieldSlot { .. } => 19,
            Form::ArrayCell { .. } => 16,
            Form::ArrayCopy { .. } => 52 + CALL,
            Form::RegionFinish { .. } => 26 + CALL,
            Form::BuilderPack { .. } | Form::BuilderSlots { .. } => 6 + CALL,
            Form::RegionEnd { site } => region_end(&stream.regions[site]),
            Form::SegmentEnd { site } => segment_end(&stream.segments[site]),
            // Only where everything is interpreted.
            Form::Check { .. } => CALL,
            Form::Jump { .. } | Form::Branch { .. } => 2,
            Form::CheckedJump { .. } | Form::CheckedBranch { .. } => CHARGE + 1,
            Form::BackJump { .. } | Form::BackBranch { .. } => CHARGE + 1,
            Form::Switch { site, .. } => CHARGE + 4 + stream.switches[site].targets.len() as u64 / 4,
            Form::Call { site } => CHARGE + 16 + self.call(&stream.calls[site]),
            Form::CallClosure { site, .. } => CHARGE + 60 + self.call(&stream.calls[site]),
            Form::TailCall { site } => CHARGE + 6 + self.call(&stream.calls[site]),
            Form::TailCallClosure { site, .. } => CHARGE + 50 + self.call(&stream.calls[site]),
            Form::Ret { site } => CHARGE + 3 + self.call(&stream.calls[site]),
            Form::Fork { site } => {
                let tasks = stream.forks[site].tasks.iter();
                CHARGE + 24 + tasks.map(|task| 12 + self.list(&task.uses) + self.list(&task.defs)).sum::<u64>()
            }
            Form::ParallelMap { site, .. } => CHARGE + 20 + self.list(&stream.maps[site].uses),
            Form::Operate { site } => {
                let site = &stream.operators[site];
                CHARGE + 24 + self.list(&site.uses) + self.list(&site.defs)
            }
            Form::Trap { .. } => 4 + CALL,
            Form::TrapWith { site } => 10 + CALL + self.shown(&stream.texts[site]),
            Form::Trace { site } => 16 + CALL + self.shown(&stream.texts[site]),
            Form::New { site, .. } => 33 + self.object(&stream.objects[site]),
            Form::Field { .. } | Form::Payload { .. } => recorded(1, 15),
            Form::PrimalField { .. } | Form::PrimalPayload { .. } => 1,
            Form::FieldPart { .. } => recorded(14, 15),
            Form::ElemPart { .. } => recorded(22, 8 + CALL),
            Form::PushPart { .. } => recorded(12, 4),
            Form::NewDeep { site, .. } | Form::PackDeep { site, .. } | Form::ChainPushDeep { site, .. } => {
                16 + CALL + self.list(&stream.objects[site].uses)
            }
            Form::Elem { .. } => recorded(2 + ELEMENT_TEST, 16),
            Form::IElem { .. } | Form::PElem { .. } | Form::PrimalElem { .. } => 3 + ELEMENT_TEST,
            Form::Row { .. } => 9,
            Form::Pack { site, .. } => recorded(37, 4) + self.object(&stream.objects[site]),
            Form::Build { .. } => 6 + CALL,
            Form::PDetach { .. } => 7 + CALL,
            Form::Push { .. } | Form::PrimalPush { .. } | Form::IPush { .. } | Form::PPush { .. } => recorded(23, 4),
            Form::Finish { .. } => 5 + CALL,
            Form::Extend { .. } => 5 + CALL,
            Form::Get { .. } | Form::Put { .. } => recorded(17, 4),
            Form::PrimalGet { .. } | Form::IGet { .. } | Form::PGet { .. } => 17,
            Form::PrimalPut { .. } | Form::IPut { .. } => 17,
            Form::PPut { .. } => recorded(17, 5),
            Form::GetPart { .. } | Form::PutPart { .. } => recorded(12, 4),
            Form::Reserve { .. } => 18 + CALL,
            Form::ChainNew { .. } => 2,
            Form::ChainPush { site, .. } => recorded(58, 2) + self.object(&stream.objects[site]),
            Form::ChainFinish { .. } => recorded(14, 4 + CALL),
        }
    }

    /// Elements of a block that stand in rows of arrays which have been found to be there.
    fn rows(&self, block: &[Inst], sizes: &mut [u64]) {
        // The registers with places in rows, and the arrays that have these rows.
        let (mut places, mut arrays) = (HashSet::new(), HashSet::new());
        for (inst, size) in block.iter().zip(sizes) {
            let is_place = match *inst {
                Inst::Elem { array, index, .. } | Inst::PrimalElem { array, index, .. } => {
                    *size -= if places.contains(&index) && arrays.contains(&array) { ELEMENT_TEST } else { 0 };
                    false
                }
                Inst::Row { array, .. } => {
                    arrays.insert(array);
                    true
                }
                Inst::SameLen { array, other } => {
                    if arrays.contains(&array) {
                        arrays.insert(other);
                    }
                    false
                }
                Inst::IAdd { a, b, .. } => {
                    let is_moved = |from, by: IntReg| places.contains(&from) && self.constants.int(by.0).is_some();
                    is_moved(a, b) || is_moved(b, a)
                }
                _ => false,
            };
            inst.for_each_reg(self.stream, |reg, def| {
                if def && reg.bank == Bank::Int {
                    places.remove(&IntReg(reg.index));
                    places.extend(is_place.then_some(IntReg(reg.index)));
                }
            });
        }
    }

    /// Registers that are stored or loaded one by one.
    fn list(&self, list: &RegList) -> u64 {
        let reals = if self.recording { 2 * list.reals.len() } else { list.reals.len() };
        (reals + list.ints.len() + 2 * list.refs.len()) as u64
    }

    fn shown(&self, site: &TextSite) -> u64 {
        (site.uses.reals.len() + site.uses.ints.len() + 2 * site.uses.refs.len()) as u64
    }

    fn call(&self, site: &CallSite) -> u64 {
        self.list(&site.uses) + self.list(&site.defs)
    }

    fn object(&self, site: &ObjectSite) -> u64 {
        let words = if self.recording { site.uses.reals.len() as u64 } else { 0 };
        self.list(&site.uses) + words
    }

    fn inputs(&self, site: &LoopSite) -> u64 {
        (site.inputs.len() + 2 * site.arrays.len()) as u64
    }

    fn loop_begin(&self, site: &LoopSite) -> u64 {
        4 + 2 * self.inputs(site)
    }

    fn loop_step(&self, site: &LoopSite) -> u64 {
        let entry = site.layout.entry.bytes() as u64 / 8;
        let save = if entry > 0 { entry + 26 } else { 0 };
        CHARGE + 4 + save
    }

    fn loop_end(&self, site: &LoopSite) -> u64 {
        let once = site.layout.once.bytes() as u64 / 8;
        let words: u64 = site.outputs.iter().map(|&(_, output)| word(output)).sum();
        let pushed = if site.push.is_some() { 16 } else { 0 };
        let imports = if site.arrays.is_empty() { 0 } else { 20 + 8 * site.arrays.len() as u64 };
        let kept = if site.kept.is_empty() { 0 } else { 8 + 3 * site.kept.len() as u64 };
        54 + 3 * self.inputs(site) + once + words + pushed + imports + kept
    }
}

fn region_begin(site: &RegionSite) -> u64 {
    10 + (2 * site.inputs.len() + 3 * site.refs.len()) as u64
}

fn region_save(site: &SaveSite) -> u64 {
    let save = if site.bytes() > 0 { 20 + site.bytes() as u64 / 8 } else { 0 };
    4 + save + 4 * site.costs.len() as u64
}

fn region_end(site: &RegionSite) -> u64 {
    let words: u64 = site.outputs.iter().map(|&(_, output)| word(output)).sum();
    let by_helper = 14 + CALL + (site.inputs.len() + site.outputs.len()) as u64;
    let changed = (6 + CALL) * site.changed.len() as u64;
    if site.push.is_some() {
        return by_helper + changed;
    }
    36 + by_helper + words + changed + (site.inputs.len() + site.refs.len()) as u64
}

fn segment_end(site: &SegmentSite) -> u64 {
    if site.inputs.is_empty() {
        return 1;
    }
    let saved = (site.layout.numbers.bytes() / 8 + 2 * site.inputs.len()) as u64;
    let words: u64 = site.outputs.iter().map(|&(_, output)| word(output)).sum();
    36 + saved + words
}

/// What giving an output its word takes: a mask that doesn't cover all inputs is put together from those that it
/// covers.
fn word(output: OutputWord) -> u64 {
    match output {
        OutputWord::Slot { mask, .. } => 3 + u64::from(mask.count_ones()),
        OutputWord::Copy(_) | OutputWord::Zero => 0,
    }
}

/// A pure instruction. A lenient strong product is a plain one.
fn pure_size(inst: Pure, lenient: bool) -> u64 {
    match inst {
        Pure::PrimalMov { .. } | Pure::PrimalConst { .. } | Pure::IMov { .. } | Pure::IConst { .. } => 1,
        Pure::KeptObject { .. } => 1,
        Pure::KeptElem { .. } | Pure::KeptIElem { .. } => 3,
        Pure::Scalar(inst) => scalar(inst.op, lenient),
    }
}

fn scalar(op: Op, lenient: bool) -> u64 {
    match op {
        Op::Neg | Op::Abs | Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Sqrt => 1,
        Op::Fma if machine_has_fma() => 1,
        Op::Detach => 0,
        Op::Floor | Op::Ceil | Op::Round | Op::Trunc | Op::Select | Op::ISelect | Op::ToReal => 1,
        Op::Min | Op::Max => 4,
        Op::StrongMul => {
            if lenient {
                1
            } else {
                9
            }
        }
        Op::TanhSlope | Op::SigmoidSlope => 8 + CALL,
        Op::Exp => 45 + CALL,
        Op::Tanh => 100 + CALL,
        Op::Sigmoid => 55 + CALL,
        Op::IDiv => 15 + CALL,
        Op::IRem => 20 + CALL,
        op if op.info().traps => 10 + CALL,
        op if op.info().operands[0].role == Role::Def(Bank::Int) => 2,
        _ => CALL,
    }
}

fn segment(code: &SegmentCode) -> Work {
    let saved = code.layout.numbers.bytes() as u64 / 8 + 3 * u64::from(code.slots);
    let fixed = 20 + saved + 8 * code.contributions.len() as u64;
    straight(&code.adjoint.code, code.adjoint.reals, fixed)
}

fn recorded_loop(code: &LoopCode) -> Work {
    let layout = code.layout;
    let entry = (layout.entry.bytes() / 8 + 8 * code.elements.len()) as u64;
    let lasting = (code.frame.cleared + layout.once.ints) as u64;
    let iteration = straight(&code.body, code.reals, 8 + entry + 2 * lasting + code.moves.len() as u64);
    let copies = loop_adjoint::iterations_written(code);
    let ends = 6 * code.contributions.len() + 2 * code.outputs.len() + IDLE_PUSHED * usize::from(layout.pushed);
    let prologue: u64 = code.prologue.iter().map(|inst| pure_size(pure(inst), false)).sum();
    let once = WHOLE_LOOP + 3 * lasting + (layout.once.reals + 7 * layout.arrays + ends) as u64 + prologue;
    let values = code.prologue.len() as f64 + lasting as f64 + layout.once.reals as f64;
    let insts = once + copies * iteration.insts;
    Work { insts, live: copies as f64 * iteration.live + insts as f64 * values }
}

fn region(code: &RegionCode) -> Work {
    let outline = Outline::new(code);
    let edges = |edges: &[Edge]| -> u64 {
        let size = |edge: &Edge| {
            let guard = if edge.leaves { GUARD } else { 0 };
            6 + edge.numbers().bytes() as u64 / 8 + BASE_TOLD * outline.bases_told(edge) as u64 + guard
        };
        edges.iter().map(size).sum()
    };
    let lasting = (code.lasting_reals + code.lasting_ints) as u64;
    let ends = (code.outputs.len() + 6 * code.contributions.len()) as u64;
    let mut work = Work { insts: 24 + 2 * lasting + ends + edges(&code.exits), live: 0.0 };
    let written = region_adjoint::rounds_written(code);
    for (number, (block, rounds)) in code.blocks.iter().zip(written).enumerate() {
        let puts = block.puts.len();
        let around = block.saved.bytes() as u64 / 8 + (12 * block.elements.len() + 6 * puts + 4 * puts * puts) as u64;
        let around = around + (4 * block.steps() + block.moves.len()) as u64;
        let is_extended = |step: &&BuilderAdjoint| matches!(step, BuilderAdjoint::Extend { .. });
        let around = around + EXTENDED * block.builders.iter().filter(is_extended).count() as u64;
        let live = HELD + outline.live(number) as u64;
        let round = straight(&block.code, code.reals, around);
        // Between blocks; and what is live goes back to the frame where the interpreter may take over.
        let exit = if outline.may_leave(number) { live } else { 0 };
        let way_back = block.way_back.as_ref().map_or(0, |way| way.code.len() as u64);
        let once = 16 + edges(&block.before) + edges(&block.again) + way_back + exit;
        work.insts += rounds * round.insts + once;
        work.live += rounds as f64 * round.live + ((rounds * round.insts + once) * live) as f64;
    }
    work
}

/// Derived code, with so many instructions around it.
fn straight(code: &[Inst], reals: usize, around: u64) -> Work {
    let lenient = lenient_products(reals, code);
    let none = Stream::default();
    let mut work = Work { insts: around, live: 0.0 };
    // Registers that are read further on.
    let mut wanted = HashSet::new();
    for (inst, &lenient) in code.iter().zip(&lenient).rev() {
        let size = pure_size(pure(inst), lenient);
        work.insts += size;
        work.live += (size * wanted.len() as u64) as f64;
        inst.for_each_reg(&none, |reg, def| {
            if def {
                wanted.remove(&reg);
            }
        });
        inst.for_each_reg(&none, |reg, def| {
            if !def {
                wanted.insert(reg);
            }
        });
    }
    work.live += around as f64 * wanted.len() as f64 / 2.0;
    work
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::CodeUnit;
    use dualvm_vm::engine::{CallOptions, Config, Engine, Jit, Limits, Module};
    use dualvm_vm::native::{Compiled, Generator, Listing, Refusal, SharedCode, Unit};
    use dualvm_vm::text;
    use dualvm_vm::value::Value;
    use std::sync::{Arc, Mutex};

    /// Generates code as usual, and notes for each piece what it was expected to be and what it is, in Cranelift's
    /// instructions.
    #[derive(Clone, Default, Debug)]
    struct Watch(Arc<Mutex<Vec<(String, u64, u64)>>>);

    #[derive(Debug)]
    struct WatchUnit(CodeUnit, Watch);

    impl Generator for Watch {
        fn unit(&self) -> Result<Box<dyn Unit>, String> {
            Ok(Box::new(WatchUnit(CodeUnit::new()?, self.clone())))
        }

        fn estimate(&self, _: &Request<'_>, _: Duration) -> Duration {
            Duration::from_nanos(1)
        }

        fn opening(&self) -> Duration {
            Duration::ZERO
        }
    }

    // SAFETY: all code is the code unit's.
    unsafe impl Unit for WatchUnit {
        fn shared(&self) -> SharedCode {
            self.0.shared()
        }

        fn compile(&mut self, request: &Request<'_>) -> Result<Compiled, Refusal> {
            let expected = work(request, Duration::MAX).insts;
            let compiled = self.0.compile(request);
            let name = format!("{request:?}");
            let (what, _) = name.split_at(60.min(name.len()));
            self.1.0.lock().unwrap().push((what.to_owned(), expected, self.0.instructions()));
            compiled
        }

        fn listing(&mut self, request: &FunctionRequest<'_>) -> Result<Listing, Refusal> {
            self.0.listing(request)
        }
    }

    /// What was expected of each piece of code that a function takes, and what it came to.
    fn pieces(source: &str, args: &[Value]) -> Vec<(String, u64, u64)> {
        let watch = Watch::default();
        let mut config = Config::default();
        config.jit = Jit::Always;
        config.generator = Some(Arc::new(watch.clone()));
        let def = text::parse(source, "test.dvs").unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
        let module = Module::new(&Engine::new(config), def).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
        let options = CallOptions::with_limits(Limits { fuel: 10_000, ..Limits::default() });
        for function in module.functions() {
            // How they end doesn't matter.
            _ = function.call_with(args, &options);
            _ = function.value_and_grad_with(args, &options);
        }
        assert_eq!(module.compile_failures(), Vec::<String>::new());
        watch.0.lock().unwrap().clone()
    }

    const HEAD: &str = "
        type t0 = array real
        type t1 = struct { real, int, t0 }
        type t2 = variant { A {}, B { real, int, t0 } }
        type t3 = closure (real, int) -> (real)
        type t4 = builder real
        type t5 = array t0
        func f0 \"g\" (real, int) -> (real) regs 1 real, 1 int {
         ret (r0) }
        func f1 \"m\" (int, int) -> (t0) regs 2 int, t0 {
         pack p0 ()
         ret (p0) }
        func f2 \"f\" (real, int) -> (real) export (x : Real, n : Int) -> Real
         regs 40 real, 40 int, t0, t1, t2, t3, t4, t5 {
         mov r1, r0
         mov r2, r0
         iconst i1, 1
         iconst i2, 2
         pack p0 (r0, r1)
         struct_new p1 (r0, i0, p0)
         variant_new p2, 1 (r0, i0, p0)
         closure_new p3, f0 ()
         build p4, i0
         pack p5 (p0, p0)\n";

    fn assert_expected(code: &str, what: &str) {
        let source = format!("{HEAD}{code}\n ret (r1) }}");
        for (name, expected, found) in pieces(&source, &[Value::Real(1.5), Value::Int(3)]) {
            assert!(expected <= 2 * found + 100 && found <= 2 * expected, "{what}, {name}: {expected} for {found}");
        }
    }

    #[test]
    fn every_instruction_is_as_large_as_expected() {
        let many = [
            "add r3, r1, r2",
            "smul r3, r1, r2",
            "min r3, r1, r2",
            "lt i3, r1, r2",
            "tanh_slope r3, r1, r2",
            "tanh r3, r1",
            "sigmoid r3, r1",
            "sigmoid_slope r3, r1, r2",
            "ipopcnt i3, i1",
            "idiv i3, i1, i2",
            "to_int i3, r1",
            "const r3, 1.5",
            "pselect p0, i1, p0, p0",
            "jump a%\na%:",
            "branch i1, a%, a%\na%:",
            "switch i1, [a%, a%], a%\na%:",
            "call f0 (r1, i1) -> (r3)",
            "call_closure p3 (r1, i1) -> (r3)",
            "fork 2\n task f0 (r1, i1) -> (r3)\n task f0 (r1, i1) -> (r4)",
            "pmap p0, f1, i1 ()",
            "struct_new p1 (r1, i1, p0)",
            "variant_new p2, 1 (r1, i1, p0)",
            "closure_new p3, f0 ()",
            "field r3, p1, 0",
            "payload r3, p2, 1, 0",
            "elem r3, p0, i1",
            "pelem p0, p5, i1",
            "pack p0 (r1, r2, r1, r2, r1, r2, r1, r2)",
            "build p4, i1",
            "push p4, r1",
            "build p4, i1\n finish p0, p4",
            // A segment and its record.
            "mul r3, r1, r2\n add r4, r3, r1\n div r5, r4, r3\n call f0 (r5, i1) -> (r3)",
        ];
        for inst in many {
            let code: Vec<String> = (0..40).map(|n| inst.replace('%', &n.to_string())).collect();
            assert_expected(&code.join("\n"), inst);
        }
    }

    #[test]
    fn loops_are_as_large_as_expected() {
        let bodies = [
            "elem r3, p0, i3\n fma r1, r3, r2, r1",
            "mul r1, r1, r2",
            "div r1, r1, r2\n sqrt r4, r1\n div r1, r4, r1",
            "push p4, r1\n sin r1, r1",
            "struct_new p1 (r1, i1, p0)\n field r3, p1, 0\n mul r1, r1, r3",
        ];
        for body in bodies {
            let body: Vec<&str> = std::iter::repeat_n(body, 4).collect();
            let tail = "iadd i3, i3, i1\n ilt i4, i3, i0\n branch i4, head, end\nend:";
            assert_expected(&format!("iconst i3, 0\n jump head\nhead:\n {}\n {tail}", body.join("\n")), body[0]);
        }
    }

    #[test]
    fn regions_are_as_large_as_expected() {
        for (inner_loops, body) in
            [(1, "mul r1, r1, r3"), (8, "mul r1, r1, r3"), (8, "smul r4, r3, r1\n add r1, r4, r3")]
        {
            let inner = |n: usize| {
                let step = format!("iadd i5, i5, i1\n ilt i6, i5, i2\n branch i6, inner{n}, after{n}\nafter{n}:");
                format!("iconst i5, 0\n jump inner{n}\ninner{n}:\n elem r3, p0, i5\n {body}\n {step}")
            };
            let inner: Vec<String> = (0..inner_loops).map(inner).collect();
            let tail = "iadd i3, i3, i1\n ilt i4, i3, i2\n branch i4, outer, end\nend:";
            let code = format!("iconst i3, 0\n jump outer\nouter:\n pelem p0, p5, i3\n {}\n {tail}", inner.join("\n"));
            assert_expected(&code, &format!("{inner_loops} loops in a loop of {body}"));
            let source = format!("{HEAD}{code}\n ret (r1) }}");
            let pieces = pieces(&source, &[Value::Real(1.5), Value::Int(3)]);
            assert!(pieces.iter().any(|(name, ..)| name.starts_with("Region")), "{pieces:?}");
        }
    }

    /// The estimate of the first piece.
    fn estimated(source: &str) -> Duration {
        #[derive(Debug)]
        struct First(Mutex<Option<Duration>>);
        impl Generator for First {
            fn unit(&self) -> Result<Box<dyn Unit>, String> {
                Err("there is none".into())
            }
            fn estimate(&self, request: &Request<'_>, most: Duration) -> Duration {
                *self.0.lock().unwrap().get_or_insert(estimate(request, most))
            }
            fn opening(&self) -> Duration {
                Duration::ZERO
            }
        }
        let first = Arc::new(First(Mutex::new(None)));
        let mut config = Config::default();
        config.jit = Jit::Always;
        config.generator = Some(first.clone());
        let def = text::parse(source, "test.dvs").unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
        let module = Module::new(&Engine::new(config), def).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
        let options = CallOptions::with_limits(Limits { fuel: 10_000, ..Limits::default() });
        let function = module.functions().next().unwrap();
        _ = function.call_with(&[Value::Int(1)], &options);
        first.0.lock().unwrap().unwrap()
    }

    #[test]
    fn values_that_live_long_make_code_dear_and_wide_banks_do_not() {
        // So many values, summed up at once or after so many branches.
        let function = |values: usize, branches: usize| {
            let mut code = format!("func f0 \"f\" (int) -> (int) export (n : Int) -> Int regs {} int {{\n", values + 1);
            (0..values).for_each(|n| code += &format!("iadd i{}, i{n}, i0\n", n + 1));
            (0..branches).for_each(|n| code += &format!("branch i0, a{n}, a{n}\na{n}:\n"));
            (0..values).for_each(|n| code += &format!("ixor i0, i0, i{}\n", n + 1));
            code + "ret (i0) }"
        };
        let (few, many) = (estimated(&function(10, 50)), estimated(&function(100, 50)));
        assert!(many > 2 * few, "{few:?} {many:?}");
        // Registers of which few live at a time.
        let mut code = "func f0 \"f\" (int) -> (int) export (n : Int) -> Int regs 101 int {\n".to_owned();
        (0..100).for_each(|n| code += &format!("iadd i{}, i{n}, i0\nbranch i0, a{n}, a{n}\na{n}:\n", n + 1));
        let short = estimated(&(code + "ret (i100) }"));
        assert!(short < many, "{short:?} {many:?}");
    }
}
