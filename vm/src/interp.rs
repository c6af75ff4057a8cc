//! The interpreter: runs the streams of [`crate::prepare`], in primal and in recording mode.
//!
//! Frames live on stacks of this module's own, one per bank, so that the native stack doesn't grow with the program's
//! recursion. Registers are addressed through raw pointers without checks: the verifier has checked every register,
//! target, field and function of the code, and each call makes room for the callee's frame. The two modes are two
//! instances of one function; the recording one also moves words and writes records.

mod recording;
mod registers;

use recording::{is_active, segment_end};
use registers::{Registers, copy_registers, gather, return_registers, scatter, unpack_captures};

use crate::heap::{self, ARRAY_HEADER, CAPACITY, FIRST, Heap, LEN, OWNER, Ref};
use crate::isa::{Bank, Inst, Op, for_each_instruction};
use crate::math;
use crate::meter::Meter;
use crate::prepare::Stream;
use crate::program::Program;
use crate::sweep::{read, scalar_arm};
use crate::tape::Tape;
use crate::trap::{Limit, TrapKind};
use crate::word::CONSTANT;

/// The context of a run that records: what owns objects that are not constant.
const CONTEXT: u64 = 1;

/// What a caller needs to go on.
#[derive(Clone, Copy, Debug)]
struct Frame {
    func: u32,
    /// Position of the instruction after the call.
    pc: u32,
    reals: usize,
    ints: usize,
    refs: usize,
}

/// A bank's stack. The memory is kept for later runs, but what a run may use starts at nothing, so that its limits
/// don't depend on what ran before.
#[derive(Debug)]
struct Stack<T> {
    cells: Vec<T>,
    /// How many of the cells this run may use.
    room: usize,
}

impl<T: Copy> Stack<T> {
    fn new() -> Self {
        Stack { cells: Vec::new(), room: 0 }
    }

    /// Makes room for `len` cells.
    #[cold]
    fn grow(&mut self, len: usize, fill: T) -> Result<(), Limit> {
        let target = len.max(2 * self.room).max(256);
        if target > self.cells.len() {
            self.cells.try_reserve_exact(target - self.cells.len()).map_err(|_| Limit::LiveBytes)?;
            self.cells.resize(target, fill);
        }
        self.room = target;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        (self.room * size_of::<T>()) as u64
    }
}

/// Results of a run, by bank.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) reals: Vec<f64>,
    pub(crate) words: Vec<u64>,
    pub(crate) ints: Vec<i64>,
    pub(crate) refs: Vec<Ref>,
}

/// Arguments of a run, by bank.
pub(crate) type Arguments = Results;

/// The state of a run, reused by the next.
#[derive(Debug)]
pub(crate) struct Interp {
    reals: Stack<f64>,
    words: Stack<u64>,
    ints: Stack<i64>,
    refs: Stack<Ref>,
    frames: Vec<Frame>,
    pub(crate) heap: Heap,
    pub(crate) tape: Tape,
    /// Arguments of a tail call, new words of a segment.
    scratch: Results,
    pub(crate) results: Results,
    /// Function and stream position of the instruction that runs, when the run has stopped.
    at: (u32, u32),
    live_bytes_max: u64,
    depth_max: usize,
    stack_bytes: u64,
    /// What is left of the meter's last slice.
    pub(crate) fuel: i64,
}

// SAFETY: the references lead to objects of the heap, which belongs to the same value.
unsafe impl Send for Interp {}

impl Interp {
    pub(crate) fn new(heap: Heap, tape: Tape) -> Self {
        Interp {
            reals: Stack::new(),
            words: Stack::new(),
            ints: Stack::new(),
            refs: Stack::new(),
            frames: Vec::new(),
            heap,
            tape,
            scratch: Results::default(),
            results: Results::default(),
            at: (0, 0),
            live_bytes_max: u64::MAX,
            depth_max: usize::MAX,
            stack_bytes: 0,
            fuel: 0,
        }
    }

    /// Begins a run.
    pub(crate) fn begin(&mut self, live_bytes_max: u64, depth_max: usize) {
        self.frames.clear();
        (self.live_bytes_max, self.depth_max, self.fuel) = (live_bytes_max, depth_max, 0);
        (self.reals.room, self.words.room, self.ints.room, self.refs.room, self.stack_bytes) = (0, 0, 0, 0, 0);
    }

    /// Bytes of the stacks that this run has used.
    pub(crate) fn stack_bytes(&self) -> u64 {
        self.stack_bytes
    }

    fn measure_stacks(&self) -> u64 {
        let frames = (self.frames.len().next_power_of_two() * size_of::<Frame>()) as u64;
        self.reals.bytes() + self.words.bytes() + self.ints.bytes() + self.refs.bytes() + frames
    }

    /// The function and bytecode instruction of every frame, innermost first, after a trap.
    pub(crate) fn backtrace<'a>(
        &'a self,
        code: &'a Program,
        recording: bool,
    ) -> impl ExactSizeIterator<Item = (u32, u32)> + 'a {
        (0..self.frames.len() + 1).map(move |depth| {
            let (func, position) = match depth.checked_sub(1) {
                None => self.at,
                Some(n) => {
                    let frame = self.frames[self.frames.len() - 1 - n];
                    (frame.func, frame.pc - 1)
                }
            };
            (func, code.stream(func, recording).origin[position as usize])
        })
    }

    /// Frames that a run that has stopped was in.
    pub(crate) fn depth(&self) -> usize {
        self.frames.len() + 1
    }

    /// Makes room for a frame that begins at `base`. `spare` are the stacks' sizes beyond it.
    #[inline(always)]
    fn reserve<const RECORD: bool>(&mut self, base: &Frame, stream: &Stream) -> Result<(), Limit> {
        let reals = base.reals + stream.reals;
        let ints = base.ints + stream.ints;
        let refs = base.refs + stream.refs;
        if reals > self.reals.room
            || ints > self.ints.room
            || refs > self.refs.room
            || (RECORD && reals > self.words.room)
        {
            self.grow::<RECORD>(reals, ints, refs)?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow<const RECORD: bool>(&mut self, reals: usize, ints: usize, refs: usize) -> Result<(), Limit> {
        if reals > self.reals.room {
            self.reals.grow(reals, 0.0)?;
        }
        if RECORD && reals > self.words.room {
            let target = self.reals.room;
            self.words.grow(target, CONSTANT)?;
        }
        if ints > self.ints.room {
            self.ints.grow(ints, 0)?;
        }
        if refs > self.refs.room {
            self.refs.grow(refs, std::ptr::null_mut())?;
        }
        self.stack_bytes = self.measure_stacks();
        if self.stack_bytes > self.live_bytes_max {
            return Err(Limit::LiveBytes);
        }
        Ok(())
    }

    /// Runs a function to its end. Results are in `self.results`.
    pub(crate) fn run(
        &mut self,
        code: &Program,
        func: u32,
        args: &Arguments,
        recording: bool,
        meter: &mut Meter,
    ) -> Result<(), TrapKind> {
        // What the last run left there is not of this program.
        self.at = (func, 0);
        self.fuel = meter.refill(0)?;
        if recording {
            self.execute::<true>(code, func, args, meter)
        } else {
            self.execute::<false>(code, func, args, meter)
        }
    }
}

/// Wraps the body of a scalar instruction that can trap.
macro_rules! trapping {
    ($trap:ident, () $body:block) => {
        $body
    };
    ($trap:ident, (try) $body:block) => {{
        let result: Result<_, TrapKind> = $body;
        match result {
            Ok(value) => value,
            Err(kind) => $trap!(kind),
        }
    }};
}

/// Expands to the interpreter's only dispatch: scalar instructions from the table, the rest by hand below.
macro_rules! define_execute {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            $args:tt -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $costly:ident)? ; )* }
        structural $structural:tt
        internal $internal:tt
    ) => {
        impl Interp {
            fn execute<const RECORD: bool>(
                &mut self,
                program: &Program,
                entry: u32,
                args: &Arguments,
                meter: &mut Meter,
            ) -> Result<(), TrapKind> {
                let mut fuel = self.fuel;
                let mut stream = program.stream(entry, RECORD);
                let mut frame = Frame { func: entry, pc: 0, reals: 0, ints: 0, refs: 0 };
                let mut pc = stream.code.as_ptr();
                if let Err(limit) = self.reserve::<RECORD>(&frame, stream) {
                    self.at = (entry, 0);
                    return Err(TrapKind::Limit(limit));
                }
                let (mut reals, mut words, mut ints, mut refs);

                // Points the locals at the current frame, for which room was made.
                macro_rules! enter {
                    () => {
                        reals = self.reals.cells.as_mut_ptr().add(frame.reals);
                        words = if RECORD { self.words.cells.as_mut_ptr().add(frame.reals) } else { std::ptr::null_mut() };
                        ints = self.ints.cells.as_mut_ptr().add(frame.ints);
                        refs = self.refs.cells.as_mut_ptr().add(frame.refs);
                    };
                }
                macro_rules! trap {
                    ($kind:expr) => {{
                        let kind: TrapKind = $kind;
                        let position = pc.offset_from(stream.code.as_ptr());
                        self.at = (frame.func, position as u32);
                        self.fuel = fuel;
                        return Err(kind);
                    }};
                }
                macro_rules! limit {
                    ($result:expr) => {
                        match $result {
                            Ok(value) => value,
                            Err(limit) => trap!(TrapKind::Limit(limit)),
                        }
                    };
                }
                macro_rules! charge {
                    ($cost:expr) => {
                        fuel -= $cost as i64;
                        if fuel < 0 {
                            match meter.refill(fuel) {
                                Ok(slice) => fuel = slice,
                                Err(kind) => trap!(kind),
                            }
                        }
                    };
                }
                macro_rules! go {
                    ($target:expr) => {{
                        pc = stream.code.as_ptr().add($target as usize);
                        continue;
                    }};
                }
                macro_rules! allocate {
                    ($header:expr, $words:expr) => {{
                        let reserved = self.stack_bytes;
                        let top = frame.refs + stream.refs;
                        // The references of all frames are initialised; `refs` is not used while the slice lives.
                        let roots = std::slice::from_raw_parts_mut(refs.sub(frame.refs), top);
                        limit!(self.heap.allocate($header, $words, reserved, roots))
                    }};
                }

                // SAFETY: room was made for the frame; the parameters are its first registers.
                unsafe {
                    enter!();
                    for (n, &x) in args.reals.iter().enumerate() {
                        *reals.add(n) = x;
                        if RECORD {
                            *words.add(n) = args.words[n];
                        }
                    }
                    for (n, &x) in args.ints.iter().enumerate() {
                        *ints.add(n) = x;
                    }
                    for n in 0..stream.refs {
                        *refs.add(n) = args.refs.get(n).copied().unwrap_or(std::ptr::null_mut());
                    }
                }

                loop {
                    // SAFETY: control stays inside the stream: every path ends in a terminator and targets are in
                    // range. Registers, fields and tables are those that the verifier has checked.
                    unsafe {
                        let inst: &Inst = &*pc;
                        match inst.op {
                            $( Op::$sname => {
                                scalar_arm!(inst, reals, ints, $args -> $rbank, trapping!(trap, ($($try)?) $body));
                                if RECORD && Op::$sname.makes_constant() {
                                    *words.add(inst.a as usize) = CONSTANT;
                                }
                            } )*
                            Op::Mov => {
                                *reals.add(inst.a as usize) = *reals.add(inst.b as usize);
                                if RECORD {
                                    *words.add(inst.a as usize) = *words.add(inst.b as usize);
                                }
                            }
                            Op::PrimalMov => *reals.add(inst.a as usize) = *reals.add(inst.b as usize),
                            Op::IMov => *ints.add(inst.a as usize) = *ints.add(inst.b as usize),
                            Op::PMov => *refs.add(inst.a as usize) = *refs.add(inst.b as usize),
                            Op::Const => {
                                *reals.add(inst.a as usize) = f64::from_bits(inst.imm);
                                if RECORD {
                                    *words.add(inst.a as usize) = CONSTANT;
                                }
                            }
                            Op::IConst => *ints.add(inst.a as usize) = inst.imm as i64,
                            Op::PSelect => {
                                let chosen = if *ints.add(inst.b as usize) != 0 { inst.c } else { inst.imm as u16 };
                                *refs.add(inst.a as usize) = *refs.add(chosen as usize);
                            }
                            Op::SegmentEnd => {
                                let site = &*stream.segments.as_ptr().add(inst.imm as usize);
                                limit!(segment_end(site, &mut self.tape, &mut self.scratch.words, reals, words, ints));
                            }

                            Op::Jump => {
                                charge!(inst.high());
                                go!(inst.low());
                            }
                            Op::Branch => {
                                charge!(u32::from(inst.b) | u32::from(inst.c) << 16);
                                go!(if *ints.add(inst.a as usize) != 0 { inst.low() } else { inst.high() });
                            }
                            Op::Switch => {
                                let site = &stream.switches[inst.imm as usize];
                                charge!(site.cost);
                                let index = *ints.add(inst.a as usize);
                                let target = usize::try_from(index).ok().and_then(|n| site.targets.get(n));
                                go!(target.copied().unwrap_or(site.default));
                            }
                            Op::Call | Op::CallClosure => {
                                let site = &*stream.calls.as_ptr().add(inst.imm as usize);
                                charge!(site.cost);
                                let closure = if inst.op == Op::CallClosure { *refs.add(inst.c as usize) } else { std::ptr::null_mut() };
                                let func = if closure.is_null() { site.func } else { heap::tag_of(*closure) };
                                let callee = program.stream(func, RECORD);
                                if self.frames.len() + 1 >= self.depth_max {
                                    trap!(TrapKind::Limit(Limit::Depth));
                                }
                                let position = pc.offset_from(stream.code.as_ptr()) as u32;
                                self.frames.push(Frame { pc: position + 1, ..frame });
                                let next = Frame {
                                    func,
                                    pc: 0,
                                    reals: frame.reals + stream.reals,
                                    ints: frame.ints + stream.ints,
                                    refs: frame.refs + stream.refs,
                                };
                                if let Err(limit) = self.reserve::<RECORD>(&next, callee) {
                                    self.frames.pop();
                                    trap!(TrapKind::Limit(limit));
                                }
                                enter!();
                                let to = Registers {
                                    reals: reals.add(stream.reals),
                                    words: if RECORD { words.add(stream.reals) } else { words },
                                    ints: ints.add(stream.ints),
                                    refs: refs.add(stream.refs),
                                };
                                let to = unpack_captures::<RECORD>(closure, to);
                                copy_registers::<RECORD>(&site.uses, Registers { reals, words, ints, refs }, to);
                                frame = next;
                                stream = callee;
                                enter!();
                                for n in stream.ref_params..stream.refs {
                                    *refs.add(n) = std::ptr::null_mut();
                                }
                                pc = stream.code.as_ptr();
                                continue;
                            }
                            Op::TailCall | Op::TailCallClosure => {
                                let site = &*stream.calls.as_ptr().add(inst.imm as usize);
                                charge!(site.cost);
                                let closure = if inst.op == Op::TailCallClosure { *refs.add(inst.c as usize) } else { std::ptr::null_mut() };
                                let func = if closure.is_null() { site.func } else { heap::tag_of(*closure) };
                                let callee = program.stream(func, RECORD);
                                gather::<RECORD>(site, Registers { reals, words, ints, refs }, &mut self.scratch);
                                limit!(self.reserve::<RECORD>(&frame, callee));
                                frame.func = func;
                                stream = callee;
                                enter!();
                                let to = unpack_captures::<RECORD>(closure, Registers { reals, words, ints, refs });
                                scatter::<RECORD>(&self.scratch, to);
                                for n in stream.ref_params..stream.refs {
                                    *refs.add(n) = std::ptr::null_mut();
                                }
                                pc = stream.code.as_ptr();
                                continue;
                            }
                            Op::Ret => {
                                let site = &*stream.calls.as_ptr().add(inst.imm as usize);
                                charge!(site.cost);
                                let from = Registers { reals, words, ints, refs };
                                let Some(caller) = self.frames.pop() else {
                                    gather::<RECORD>(site, from, &mut self.results);
                                    self.fuel = fuel;
                                    return Ok(());
                                };
                                frame = caller;
                                stream = program.stream(frame.func, RECORD);
                                enter!();
                                pc = stream.code.as_ptr().add(frame.pc as usize);
                                let call = &*pc.sub(1);
                                let results = &*stream.calls.as_ptr().add(call.imm as usize);
                                let to = Registers { reals, words, ints, refs };
                                return_registers::<RECORD>(&site.uses, from, &results.defs, to);
                                continue;
                            }
                            Op::Trap => trap!(TrapKind::Message(program.message(inst.low()).to_owned())),

                            Op::StructNew | Op::VariantNew | Op::ClosureNew => {
                                let site = &*stream.objects.as_ptr().add(inst.imm as usize);
                                let fields = heap::fields_of(site.header);
                                let object = allocate!(site.header, fields.size());
                                let to = Registers {
                                    reals: object.add(fields.real_at(0)).cast(),
                                    words: object.add(fields.word_at(0)),
                                    ints: object.add(fields.int_at(0)).cast(),
                                    refs: object.add(fields.ref_at(0)).cast(),
                                };
                                copy_registers::<RECORD>(&site.uses, Registers { reals, words, ints, refs }, to);
                                if RECORD && is_active(object, fields) {
                                    *object.add(OWNER) = CONTEXT;
                                }
                                *refs.add(inst.a as usize) = object;
                            }
                            Op::Field => {
                                let object = *refs.add(inst.b as usize);
                                *reals.add(inst.a as usize) = *object.add(inst.low() as usize).cast();
                                if RECORD {
                                    *words.add(inst.a as usize) = *object.add(inst.high() as usize);
                                }
                            }
                            Op::IField => *ints.add(inst.a as usize) = *(*refs.add(inst.b as usize)).add(inst.low() as usize) as i64,
                            Op::PField => *refs.add(inst.a as usize) = *(*refs.add(inst.b as usize)).add(inst.low() as usize) as Ref,
                            Op::VariantTag => {
                                *ints.add(inst.a as usize) = i64::from(heap::tag_of(**refs.add(inst.b as usize)));
                            }
                            Op::Payload | Op::IPayload | Op::PPayload => {
                                let object = *refs.add(inst.b as usize);
                                let found = heap::tag_of(*object);
                                if found != u32::from(inst.c) {
                                    trap!(TrapKind::WrongTag { expected: inst.c, found: found as u16 });
                                }
                                let value = object.add(inst.low() as usize);
                                match inst.op {
                                    Op::Payload => {
                                        *reals.add(inst.a as usize) = *value.cast();
                                        if RECORD {
                                            *words.add(inst.a as usize) = *object.add(inst.high() as usize);
                                        }
                                    }
                                    Op::IPayload => *ints.add(inst.a as usize) = *value as i64,
                                    _ => *refs.add(inst.a as usize) = *value as Ref,
                                }
                            }

                            Op::Len => *ints.add(inst.a as usize) = *(*refs.add(inst.b as usize)).add(LEN) as i64,
                            Op::Elem | Op::IElem | Op::PElem => {
                                let array = *refs.add(inst.b as usize);
                                let (index, len) = (*ints.add(inst.c as usize), *array.add(LEN));
                                if index as u64 >= len {
                                    trap!(TrapKind::IndexOutOfBounds { index, len });
                                }
                                let value = array.add(ARRAY_HEADER + index as usize);
                                match inst.op {
                                    Op::Elem => {
                                        *reals.add(inst.a as usize) = *value.cast();
                                        if RECORD {
                                            let first = *array.add(FIRST);
                                            *words.add(inst.a as usize) = if first == 0 { CONSTANT } else { first + index as u64 };
                                        }
                                    }
                                    Op::IElem => *ints.add(inst.a as usize) = *value as i64,
                                    _ => *refs.add(inst.a as usize) = *value as Ref,
                                }
                            }
                            Op::Pack => {
                                let site = &*stream.objects.as_ptr().add(inst.imm as usize);
                                let len = site.uses.reals.len() + site.uses.ints.len() + site.uses.refs.len();
                                let array = allocate!(site.header, ARRAY_HEADER + len);
                                *array.add(LEN) = len as u64;
                                *array.add(FIRST) = 0;
                                let elements = array.add(ARRAY_HEADER);
                                self.scratch.words.clear();
                                self.scratch.words.resize(if RECORD { site.uses.reals.len() } else { 0 }, CONSTANT);
                                let to = Registers {
                                    reals: elements.cast(),
                                    words: self.scratch.words.as_mut_ptr(),
                                    ints: elements.cast(),
                                    refs: elements.cast(),
                                };
                                copy_registers::<RECORD>(&site.uses, Registers { reals, words, ints, refs }, to);
                                *refs.add(inst.a as usize) = array;
                                if RECORD {
                                    let active = match site.element {
                                        Bank::Real => {
                                            let first = limit!(self.tape.pack(&self.scratch.words));
                                            *array.add(FIRST) = u64::from(first);
                                            first != 0
                                        }
                                        Bank::Int => false,
                                        Bank::Ref => (0..len).any(|n| *(*elements.add(n) as Ref).add(OWNER) != 0),
                                    };
                                    *array.add(OWNER) = if active { CONTEXT } else { 0 };
                                }
                            }
                            Op::Build => {
                                let capacity = *ints.add(inst.b as usize);
                                let with_words = RECORD && inst.c == Bank::Real as u16;
                                let cells = u64::try_from(capacity).ok().and_then(|n| n.checked_mul(1 + u64::from(with_words)));
                                let Some(size) = cells.filter(|&n| n < 1 << 48).map(|n| n as usize + ARRAY_HEADER) else {
                                    trap!(TrapKind::BadCapacity(capacity));
                                };
                                let element = match inst.c {
                                    0 => Bank::Real,
                                    1 => Bank::Int,
                                    _ => Bank::Ref,
                                };
                                let builder = allocate!(heap::builder_header(element, with_words), size);
                                *builder.add(LEN) = 0;
                                *builder.add(CAPACITY) = capacity as u64;
                                *refs.add(inst.a as usize) = builder;
                            }
                            Op::Push | Op::IPush | Op::PPush => {
                                let builder = *refs.add(inst.a as usize);
                                if !heap::is_builder(*builder) {
                                    trap!(TrapKind::BuilderFinished);
                                }
                                let (len, capacity) = (*builder.add(LEN), *builder.add(CAPACITY));
                                if len >= capacity {
                                    trap!(TrapKind::BuilderFull { capacity });
                                }
                                let to = builder.add(ARRAY_HEADER + len as usize);
                                match inst.op {
                                    Op::Push => {
                                        *to.cast() = *reals.add(inst.b as usize);
                                        if RECORD {
                                            *to.add(capacity as usize) = *words.add(inst.b as usize);
                                        }
                                    }
                                    Op::IPush => *to = *ints.add(inst.b as usize) as u64,
                                    _ => {
                                        let object = *refs.add(inst.b as usize);
                                        *to = object as u64;
                                        if RECORD && *object.add(OWNER) != 0 {
                                            *builder.add(OWNER) = CONTEXT;
                                        }
                                    }
                                }
                                *builder.add(LEN) = len + 1;
                            }
                            Op::Finish => {
                                let array = *refs.add(inst.b as usize);
                                let header = *array;
                                if !heap::is_builder(header) {
                                    trap!(TrapKind::BuilderFinished);
                                }
                                let (len, capacity) = (*array.add(LEN) as usize, *array.add(CAPACITY) as usize);
                                let mut first = 0;
                                if heap::has_words(header) {
                                    let words = std::slice::from_raw_parts(array.add(ARRAY_HEADER + capacity), len);
                                    first = limit!(self.tape.pack(words));
                                    *array.add(OWNER) = if first == 0 { 0 } else { CONTEXT };
                                }
                                *array = heap::finished(header);
                                *array.add(FIRST) = u64::from(first);
                                *refs.add(inst.a as usize) = array;
                            }
                        }
                        pc = pc.add(1);
                    }
                }
            }
        }
    };
}
for_each_instruction!(define_execute);
