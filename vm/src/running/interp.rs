//! The interpreter: runs the streams of [`crate::preparation`], in primal and in recording mode.
//!
//! Frames live on stacks of the VM ([`crate::memory::stack`]), one per bank, so that the native stack doesn't grow with
//! the program's recursion. Registers are addressed through raw pointers without checks: the verifier has checked every
//! register, target, field and function of the code, and each call makes room for the callee's frame. Modes are
//! instances of one function: those that record also move words and write records, and those at a depth, whichever it
//! is, know components. So programs without derivative operators run in instances that ask nothing for them.

use super::deep::component_word;
use super::recording::{element_word, finish, is_active, load_word, segment_end};
use super::recording_loops::{loop_begin, loop_end, loop_step};
use super::recording_regions::{
    array_base, array_cell, array_copy, builder_pack, builder_slots, field_slot, region_begin, region_end,
    region_finish, region_save,
};
use super::registers::{
    Registers, copy_registers, gather, move_to_front, return_registers, roots, scatter, unpack_captures, unpack_results,
};
use super::structures::other_shape;
use super::trace::Place;
use super::worker::Worker;
use crate::bytecode::isa::Bank;
use crate::bytecode::module::FuncId;
use crate::code::{Inst, Mode, Position, align_dispatch, align_function, cell, choose, for_each_inst, value_of};
use crate::math;
use crate::memory::heap::{self, ARRAY_HEADER, CAPACITY, LEN, Ref, Roots, chain, planes};
use crate::memory::kept;
use crate::native::{Code, Tier};
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot, Word};

/// What a caller needs to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    func: FuncId,
    /// The instruction after the call.
    resume_at: Position,
    base: Registers,
}

impl Worker {
    /// Leaves the frames of an activation behind after a trap. Returns what the interpreter does.
    #[cold]
    #[inline(never)]
    fn stop<T>(
        &mut self,
        kind: TrapKind,
        (func, position): (FuncId, Position),
        floor: usize,
        fuel: i64,
    ) -> Result<T, TrapKind> {
        self.exec.trace.push(Place { func, mode: self.exec.mode, position });
        let mut kind = kind;
        if matches!(kind, TrapKind::NonFinite(_)) {
            for Caller { func, resume_at, base } in self.callers[floor..].iter().rev() {
                // SAFETY: **Running**; the callers' frames are there.
                unsafe { self.add_rounds(&mut kind, (*func, Position(resume_at.0 - 1)), base.ints) };
            }
        }
        self.unwind_callers(floor);
        self.exec.fuel = fuel;
        Err(kind)
    }

    #[cold]
    #[inline(never)]
    fn unwind_callers(&mut self, floor: usize) {
        let mode = self.exec.mode;
        // A call stands before the instruction that follows it.
        let place = |caller: Caller| Place { func: caller.func, mode, position: Position(caller.resume_at.0 - 1) };
        self.exec.trace.extend(self.callers.drain(floor..).rev().map(place));
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

/// Expands to the interpreter's only dispatch: pure instructions from the tables, the rest by hand below.
macro_rules! define_execute {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($($arg:ident : $bank:ident),+) -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
        pure { $( $(#[doc = $pdoc:literal])+ $pname:ident
            ($($poperand:ident ($($prole:tt)+)),*) -> $pbank:ident $pbody:block ; )* }
        effects $effects:tt
    ) => {
        impl Worker {
            /// See [`Worker::activate`].
            ///
            /// # Safety
            /// **Running**; the arguments are of the parameters' types, in a frame at `base`; the code is that of a
            /// module which the verifier has accepted, so control, registers, fields and types are right.
            pub(super) unsafe fn execute<const RECORD: bool, const DEEP: bool>(
                &mut self,
                entry: FuncId,
                base: Registers,
                remaining: usize,
            ) -> Result<Option<Code>, TrapKind> {
                // SAFETY: **Running**.
                let (program, account) = unsafe { (&*self.exec.program, self.exec.account()) };
                let mode = match (DEEP, RECORD) {
                    (false, false) => Mode::PRIMAL,
                    (false, true) => Mode::RECORDING,
                    (true, _) => self.exec.mode,
                };
                debug_assert_eq!(mode, self.exec.mode);
                let depth = if DEEP { mode.depth() } else { 0 };
                let tier = program.tier.as_ref();
                let period = tier.map_or(u32::MAX, Tier::back_edge_period);
                let mut countdown = period;
                self.exec.rounds = period;
                let mut remaining = remaining;
                let floor = self.callers.len();
                let mut fuel = self.exec.fuel;
                // What the fuel was when what this frame ran was last counted.
                let mut counted = fuel;
                let mut stream = program.prepare(entry, mode, account)?;
                let mut frame = Caller { func: entry, resume_at: Position(0), base };
                let mut pc = stream.code.as_ptr();
                self.reserve::<RECORD>(&frame.base, stream)?;
                let Registers { mut reals, mut words, mut ints, mut refs } = base;

                // Points the locals at the current frame, for which room was made.
                macro_rules! enter {
                    () => {
                        Registers { reals, words, ints, refs } = frame.base;
                    };
                }
                macro_rules! trap {
                    ($kind:expr) => {{
                        let kind: TrapKind = $kind;
                        let position = Position(pc.offset_from(stream.code.as_ptr()) as u32);
                        return self.stop(kind, (frame.func, position), floor, fuel);
                    }};
                }
                // Counts what the current frame has run. That costs nothing before it calls or returns.
                macro_rules! count_run {
                    () => {
                        if let Some(tier) = tier {
                            tier.ran(frame.func, mode, counted.wrapping_sub(fuel));
                            counted = fuel;
                        }
                    };
                }
                // Makes the caller's frame the current one again. The call site says where results go.
                macro_rules! resume_caller {
                    () => {{
                        frame = self.callers.pop().unwrap_unchecked();
                        remaining += 1;
                        stream = program.stream(frame.func, mode);
                        enter!();
                        pc = stream.code.as_ptr().add(frame.resume_at.index());
                        let (Inst::Call { site } | Inst::CallClosure { site, .. }) = *pc.sub(1) else {
                            unreachable!("a frame is left behind by a call")
                        };
                        stream.calls.at(site)
                    }};
                }
                // Goes on in the caller after native code has run the current frame to its end.
                macro_rules! leave {
                    ($outcome:expr) => {{
                        let outcome: Result<(), TrapKind> = $outcome;
                        fuel = self.exec.fuel;
                        counted = fuel;
                        if let Err(kind) = outcome {
                            self.unwind_callers(floor);
                            return Err(kind);
                        }
                        if self.callers.len() == floor {
                            return Ok(None);
                        }
                        let from = frame.base;
                        let results = resume_caller!();
                        unpack_results::<RECORD>(from, &results.defs, frame.base);
                        continue;
                    }};
                }
                // Native code takes over the current frame.
                macro_rules! take_over {
                    ($tier:expr, $code:expr) => {{
                        self.exec.fuel = fuel;
                        if self.callers.len() == floor {
                            return Ok(Some($code));
                        }
                        leave!(self.enter($tier, $code, frame.base, remaining));
                    }};
                }
                // Code that begins at a loop of this function is entered in the first round.
                macro_rules! enter_loops {
                    () => {
                        if let Some(tier) = tier
                            && tier.is_entered(frame.func, mode)
                        {
                            (countdown, self.exec.rounds) = (1, 1);
                        }
                    };
                }
                enter_loops!();
                // Counts a round of a loop whose head `pc` has gone to, and goes on natively if it is worth it.
                macro_rules! back_edge {
                    () => {{
                        countdown -= 1;
                        if countdown == 0 {
                            let rounds = std::mem::replace(&mut self.exec.rounds, period);
                            countdown = period;
                            count_run!();
                            if let Some(tier) = tier {
                                let header = Position(pc.offset_from(stream.code.as_ptr()) as u32);
                                if let Some(code) = tier.looped(program, (frame.func, mode), header, rounds, account) {
                                    take_over!(tier, code);
                                }
                            }
                        }
                        continue;
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
                macro_rules! prepare {
                    ($func:expr) => {
                        match program.prepare($func, mode, account) {
                            Ok(stream) => stream,
                            Err(kind) => trap!(kind),
                        }
                    };
                }
                macro_rules! charge {
                    ($cost:expr) => {
                        fuel -= $cost as i64;
                        if fuel < 0 {
                            match self.refill(fuel) {
                                Ok(slice) => {
                                    counted = counted.wrapping_add(slice.wrapping_sub(fuel));
                                    fuel = slice;
                                }
                                Err(kind) => trap!(kind),
                            }
                        }
                    };
                }
                macro_rules! go {
                    ($target:expr) => {{
                        pc = stream.code.as_ptr().add($target.index());
                        continue;
                    }};
                }
                // The first places above the current frame.
                macro_rules! window {
                    () => {
                        Registers {
                            reals: reals.add(stream.reals),
                            words: if RECORD { words.add(stream.reals) } else { words },
                            ints: ints.add(stream.ints),
                            refs: refs.add(stream.refs),
                        }
                    };
                }
                macro_rules! allocate {
                    ($header:expr, $words:expr) => {{
                        let reserved = self.stacks.bytes;
                        // The references of all frames are initialised; `refs` is not used while the slice lives.
                        let frames = roots(self.exec.roots, refs.add(stream.refs));
                        let roots = Roots { frames, kept: Some(self.exec.tape.kept()) };
                        limit!(self.exec.heap.allocate($header, $words, reserved, roots))
                    }};
                }

                // Runs functions inside of an instruction. What they are handed fits in the margin above the room.
                macro_rules! run_inside {
                    ($site:ident, $hand_over:ident, $run:expr) => {{
                        charge!($site.cost);
                        if remaining == 0 {
                            trap!(TrapKind::Limit(Limit::Depth));
                        }
                        $hand_over();
                        self.exec.fuel = fuel;
                        let outcome = $run;
                        counted = counted.wrapping_add(self.exec.fuel.wrapping_sub(fuel));
                        fuel = self.exec.fuel;
                        match outcome {
                            Ok(given) => given,
                            Err(mut kind) => {
                                let position = Position(pc.offset_from(stream.code.as_ptr()) as u32);
                                self.add_rounds(&mut kind, (frame.func, position), ints);
                                trap!(kind)
                            }
                        }
                    }};
                }

                // Calls a function, or a closure that is not null: natively, or in a frame of its own.
                macro_rules! call {
                    ($site:expr, $closure:expr) => {{
                        charge!($site.cost);
                        let closure: Ref = $closure;
                        let func = if closure.is_null() { $site.func } else { FuncId(heap::tag_of(*closure)) };
                        if remaining == 0 {
                            trap!(TrapKind::Limit(Limit::Depth));
                        }
                        let window = window!();
                        // What is handed on fits in the margin above the room.
                        let to = limit!(unpack_captures::<RECORD>(closure, depth, window, &mut self.exec.tape));
                        copy_registers::<RECORD>(&$site.uses, frame.base, to);
                        count_run!();
                        if let Some(tier) = tier
                            && let Some(code) = tier.called(program, func, mode, account)
                        {
                            self.exec.fuel = fuel;
                            let outcome = self.enter(tier, code, window, remaining - 1);
                            fuel = self.exec.fuel;
                            counted = fuel;
                            if let Err(kind) = outcome {
                                trap!(kind);
                            }
                            unpack_results::<RECORD>(window, &$site.defs, frame.base);
                        } else {
                            let callee = prepare!(func);
                            if let Err(limit) = self.reserve::<RECORD>(&window, callee) {
                                trap!(TrapKind::Limit(limit));
                            }
                            let position = Position(pc.offset_from(stream.code.as_ptr()) as u32);
                            if let Err(limit) = self.push_caller(Caller { resume_at: position.next(), ..frame }) {
                                trap!(TrapKind::Limit(limit));
                            }
                            remaining -= 1;
                            frame = Caller { func, resume_at: Position(0), base: window };
                            stream = callee;
                            enter!();
                            for n in stream.ref_params..stream.refs {
                                *refs.add(n) = std::ptr::null_mut();
                            }
                            pc = stream.code.as_ptr();
                            enter_loops!();
                            continue;
                        }
                    }};
                }
                // The same in place of the current frame.
                macro_rules! tail_call {
                    ($site:expr, $closure:expr) => {{
                        charge!($site.cost);
                        let closure: Ref = $closure;
                        let func = if closure.is_null() { $site.func } else { FuncId(heap::tag_of(*closure)) };
                        gather::<RECORD>(&$site.uses, frame.base, &mut self.scratch);
                        let callee = prepare!(func);
                        limit!(self.reserve::<RECORD>(&frame.base, callee));
                        let to = limit!(unpack_captures::<RECORD>(closure, depth, frame.base, &mut self.exec.tape));
                        scatter::<RECORD>(&self.scratch, to);
                        count_run!();
                        if let Some(tier) = tier
                            && let Some(code) = tier.called(program, func, mode, account)
                        {
                            take_over!(tier, code);
                        }
                        frame.func = func;
                        stream = callee;
                        for n in stream.ref_params..stream.refs {
                            *refs.add(n) = std::ptr::null_mut();
                        }
                        pc = stream.code.as_ptr();
                        enter_loops!();
                        continue;
                    }};
                }
                macro_rules! real_field {
                    ($dst:ident, $object:ident, $primal:ident, $word:ident) => {{
                        *reals.add($dst.index()) = *$object.add($primal as usize).cast();
                        if RECORD {
                            *words.add($dst.index()) = limit!(load_word(&mut self.exec.tape, $object, $word as usize));
                        }
                    }};
                }
                // An object that has this tag.
                macro_rules! tagged {
                    ($object:ident, $tag:ident) => {{
                        let object = *refs.add($object.index());
                        let found = heap::tag_of(*object);
                        if found != u32::from($tag) {
                            trap!(TrapKind::WrongTag { expected: $tag, found: found as u16 });
                        }
                        object
                    }};
                }
                // An array and an index that it has.
                macro_rules! element {
                    ($array:ident, $index:ident) => {{
                        let array = *refs.add($array.index());
                        let (index, len) = (*ints.add($index.index()), *array.add(LEN));
                        if index as u64 >= len {
                            trap!(TrapKind::IndexOutOfBounds { index, len });
                        }
                        (array, index as usize)
                    }};
                }
                // A builder, the place of its next element, and its capacity.
                macro_rules! room {
                    ($builder:ident) => {{
                        let builder = *refs.add($builder.index());
                        if !heap::is_builder(*builder) {
                            trap!(TrapKind::BuilderFinished);
                        }
                        let (len, capacity) = (*builder.add(LEN), *builder.add(CAPACITY));
                        if len >= capacity {
                            trap!(TrapKind::BuilderFull { capacity });
                        }
                        (builder, builder.add(ARRAY_HEADER + len as usize), capacity)
                    }};
                }

                // A builder, the place of an element that it has, and its capacity.
                macro_rules! pushed {
                    ($builder:ident, $index:ident) => {{
                        let builder = *refs.add($builder.index());
                        if !heap::is_builder(*builder) {
                            trap!(TrapKind::BuilderFinished);
                        }
                        let (index, len) = (*ints.add($index.index()), *builder.add(LEN));
                        if index as u64 >= len {
                            trap!(TrapKind::IndexOutOfBounds { index, len });
                        }
                        (builder, builder.add(ARRAY_HEADER + index as usize), *builder.add(CAPACITY) as usize)
                    }};
                }
                // The place of a component of an element that a builder has.
                macro_rules! pushed_part {
                    ($builder:ident, $index:ident, $part:ident) => {{
                        let builder = *refs.add($builder.index());
                        let index = *ints.add($index.index()) as usize;
                        let at = planes::element_at(planes::unit(builder), usize::from($part), index);
                        (builder.add(at), *builder.add(CAPACITY) as usize)
                    }};
                }

                align_function();
                // SAFETY: room was made for the frame; the parameters are its first registers.
                unsafe {
                    for n in stream.ref_params..stream.refs {
                        *refs.add(n) = std::ptr::null_mut();
                    }
                }

                loop {
                    align_dispatch();
                    // SAFETY: control stays inside the stream: every path ends in a terminator and targets are in
                    // range. Registers, fields and tables are those that the verifier has checked.
                    unsafe {
                        match *pc {
                            $( Inst::$sname { dst, $($arg),+ } => {
                                $( let $arg = cell!(reals, ints, $bank, $arg); )+
                                let result = trapping!(trap, ($($try)?) $body);
                                cell!(reals, ints, $rbank, dst) = result;
                            } )*
                            $( Inst::$pname { dst, $($poperand),* } => {
                                $( let $poperand = value_of!(reals, ints, $poperand, $($prole)+); )*
                                cell!(reals, ints, $pbank, dst) = $pbody;
                            } )*
                            Inst::Mov { dst, src } => {
                                *reals.add(dst.index()) = *reals.add(src.index());
                                if RECORD {
                                    *words.add(dst.index()) = *words.add(src.index());
                                }
                            }
                            Inst::PMov { dst, src } => *refs.add(dst.index()) = *refs.add(src.index()),
                            Inst::PDetach { dst, src } => {
                                match self.detach(*refs.add(src.index()), window!()) {
                                    Ok(object) => *refs.add(dst.index()) = object,
                                    Err(kind) => trap!(kind),
                                }
                            }
                            Inst::Const { dst, value } => {
                                *reals.add(dst.index()) = f64::from_bits(value);
                                if RECORD {
                                    *words.add(dst.index()) = Word::CONSTANT;
                                }
                            }
                            Inst::Passive { dst } => {
                                if RECORD {
                                    *words.add(dst.index()) = Word::CONSTANT;
                                }
                            }
                            Inst::PSelect { dst, c, a, b } => {
                                let chosen = if *ints.add(c.index()) != 0 { a } else { b };
                                *refs.add(dst.index()) = *refs.add(chosen.index());
                            }
                            Inst::SegmentEnd { site } => {
                                let site = stream.segments.at(site);
                                let (tape, scratch) = (&mut self.exec.tape, &mut self.scratch.words);
                                limit!(segment_end::<DEEP>(site, tape, scratch, reals, words, ints));
                            }
                            Inst::Check { site } => {
                                let registers = Registers { reals, words, ints, refs };
                                if let Err(kind) = self.check(stream.checks.at(site), frame.func, registers) {
                                    trap!(kind);
                                }
                            }
                            Inst::LoopBegin { site } => {
                                loop_begin(stream.loops.at(site), &mut self.exec.tape, words, refs);
                            }
                            Inst::LoopStep { cond, site } => {
                                let site = stream.loops.at(site);
                                limit!(loop_step(site, &mut self.exec.tape, reals, ints));
                                if site.checks_fuel {
                                    charge!(site.cost);
                                } else {
                                    fuel -= i64::from(site.cost);
                                }
                                if (*ints.add(cond.index()) != 0) != site.while_true {
                                    go!(site.end);
                                }
                                pc = stream.code.as_ptr().add(site.body.index());
                                back_edge!();
                            }
                            Inst::LoopEnd { site } => {
                                let frame = Registers { reals, words, ints, refs };
                                limit!(loop_end(program, stream.loops.at(site), &mut self.exec.tape, frame));
                            }
                            Inst::RegionBegin { site } if RECORD => {
                                let frame = Registers { reals, words, ints, refs };
                                region_begin(stream.regions.at(site), &mut self.exec.tape, frame);
                            }
                            Inst::RegionRound { dst, before } if RECORD => {
                                *ints.add(dst.index()) = *ints.add(before.index()) + 1;
                            }
                            Inst::RegionSave { site } if RECORD => {
                                limit!(region_save(stream.saves.at(site), &mut self.exec.tape, reals, ints));
                            }
                            Inst::ArrayBase { dst, array } if RECORD => {
                                let array = *refs.add(array.index());
                                *ints.add(dst.index()) = limit!(array_base(&mut self.exec.tape, array));
                            }
                            Inst::FieldSlot { dst, object, word } if RECORD => {
                                let object = *refs.add(object.index());
                                *ints.add(dst.index()) = limit!(field_slot(&mut self.exec.tape, object, word));
                            }
                            Inst::ArrayCell { dst, array } if RECORD => {
                                let array = *refs.add(array.index());
                                *ints.add(dst.index()) = limit!(array_cell(&mut self.exec.tape, array));
                            }
                            Inst::ArrayCopy { dst, array } if RECORD => {
                                let array = *refs.add(array.index());
                                *ints.add(dst.index()) = limit!(array_copy(&mut self.exec.tape, array));
                            }
                            Inst::RegionFinish { dst, builder, first, len, active } if RECORD => {
                                let array = *refs.add(builder.index());
                                match region_finish(array, &mut self.exec.tape, active) {
                                    Ok(slot) => *ints.add(first.index()) = slot.index() as i64,
                                    Err(kind) => trap!(kind),
                                }
                                *ints.add(len.index()) = *array.add(LEN) as i64;
                                *refs.add(dst.index()) = array;
                            }
                            Inst::BuilderPack { before, builder } if RECORD => {
                                let builder = *refs.add(builder.index());
                                let slot = limit!(builder_pack(builder, &mut self.exec.tape));
                                *ints.add(before.index()) = slot.index() as i64;
                            }
                            Inst::BuilderSlots { first, len, builder } if RECORD => {
                                let builder = *refs.add(builder.index());
                                let slot = limit!(builder_slots(builder, &mut self.exec.tape));
                                *ints.add(first.index()) = slot.index() as i64;
                                *ints.add(len.index()) = *builder.add(LEN) as i64;
                            }
                            Inst::RegionEnd { site } if RECORD => {
                                let frame = Registers { reals, words, ints, refs };
                                limit!(region_end(stream.regions.at(site), &mut self.exec.tape, frame));
                            }
                            Inst::RegionBegin { .. }
                            | Inst::RegionRound { .. }
                            | Inst::RegionSave { .. }
                            | Inst::ArrayBase { .. }
                            | Inst::FieldSlot { .. }
                            | Inst::ArrayCell { .. }
                            | Inst::ArrayCopy { .. }
                            | Inst::RegionFinish { .. }
                            | Inst::BuilderPack { .. }
                            | Inst::BuilderSlots { .. }
                            | Inst::RegionEnd { .. } => unreachable!("streams for primal runs have no regions"),

                            // Fuel is looked at where code goes round, calls or returns.
                            Inst::Jump { target, cost } => {
                                fuel -= i64::from(cost);
                                go!(target);
                            }
                            Inst::Branch { cond, then, other, cost } => {
                                fuel -= i64::from(cost);
                                go!(choose(*ints.add(cond.index()) != 0, then, other));
                            }
                            Inst::CheckedJump { target, cost } => {
                                charge!(cost);
                                go!(target);
                            }
                            Inst::CheckedBranch { cond, then, other, cost } => {
                                charge!(cost);
                                go!(if *ints.add(cond.index()) != 0 { then } else { other });
                            }
                            Inst::BackJump { target, cost } => {
                                charge!(cost);
                                pc = stream.code.as_ptr().add(target.index());
                                back_edge!();
                            }
                            Inst::BackBranch { cond, then, other, cost } => {
                                charge!(cost);
                                let target = if *ints.add(cond.index()) != 0 { then } else { other };
                                let target = stream.code.as_ptr().add(target.index());
                                let forward = target > pc;
                                pc = target;
                                if forward {
                                    continue;
                                }
                                back_edge!();
                            }
                            Inst::Switch { index, site } => {
                                let site = stream.switches.at(site);
                                charge!(site.cost);
                                let index = *ints.add(index.index());
                                let target = usize::try_from(index).ok().and_then(|n| site.targets.get(n));
                                go!(target.copied().unwrap_or(site.default));
                            }
                            Inst::Call { site } => {
                                let site = stream.calls.at(site);
                                call!(site, std::ptr::null_mut());
                            }
                            Inst::CallClosure { callee, site } => {
                                let site = stream.calls.at(site);
                                call!(site, *refs.add(callee.index()));
                            }
                            Inst::TailCall { site } => {
                                let site = stream.calls.at(site);
                                tail_call!(site, std::ptr::null_mut());
                            }
                            Inst::TailCallClosure { callee, site } => {
                                let site = stream.calls.at(site);
                                tail_call!(site, *refs.add(callee.index()));
                            }
                            Inst::Ret { site } => {
                                let site = stream.calls.at(site);
                                charge!(site.cost);
                                count_run!();
                                if self.callers.len() == floor {
                                    move_to_front::<RECORD>(&site.uses, frame.base, &mut self.scratch);
                                    self.exec.fuel = fuel;
                                    return Ok(None);
                                }
                                let from = frame.base;
                                let results = resume_caller!();
                                return_registers::<RECORD>(&site.uses, from, &results.defs, frame.base);
                                continue;
                            }
                            Inst::Fork { site } => {
                                let (site, args) = (stream.forks.at(site), window!());
                                let hand_over = || {
                                    for task in &site.tasks {
                                        copy_registers::<RECORD>(&task.uses, frame.base, args.after(&task.args_at));
                                    }
                                };
                                run_inside!(site, hand_over, self.fork(site, args, remaining - 1));
                                let results = args.after(&site.args);
                                for task in &site.tasks {
                                    let from = results.after(&task.results_at);
                                    unpack_results::<RECORD>(from, &task.defs, frame.base);
                                }
                            }
                            Inst::ParallelMap { dst, count, site } => {
                                let (site, args) = (stream.maps.at(site), window!());
                                let hand_over = || copy_registers::<RECORD>(&site.uses, frame.base, args);
                                let count = *ints.add(count.index());
                                let array =
                                    run_inside!(site, hand_over, self.parallel_map(site, count, args, remaining - 1));
                                *refs.add(dst.index()) = array;
                            }
                            Inst::Operate { site } => {
                                let (site, args) = (stream.operators.at(site), window!());
                                let hand_over = || copy_registers::<RECORD>(&site.uses, frame.base, args);
                                run_inside!(site, hand_over, self.operate(site, args, remaining - 1));
                                unpack_results::<RECORD>(args.after(&site.uses_count), &site.defs, frame.base);
                            }
                            Inst::Trap { message } => trap!(TrapKind::Message(program.message(message).to_owned())),
                            Inst::TrapWith { site } => {
                                let (site, args) = (stream.texts.at(site), window!());
                                copy_registers::<false>(&site.uses, frame.base, args);
                                self.exec.fuel = fuel;
                                let mut kind = self.trap_with(site, args, remaining);
                                fuel = self.exec.fuel;
                                let position = Position(pc.offset_from(stream.code.as_ptr()) as u32);
                                self.add_rounds(&mut kind, (frame.func, position), ints);
                                trap!(kind)
                            }
                            Inst::Trace { site } => if self.exec.listens {
                                let (site, args) = (stream.texts.at(site), window!());
                                copy_registers::<false>(&site.uses, frame.base, args);
                                self.exec.fuel = fuel;
                                let position = Position(pc.offset_from(stream.code.as_ptr()) as u32);
                                let place = Place { func: frame.func, mode, position };
                                let outcome = self.trace(site, args, place, remaining);
                                counted = counted.wrapping_add(self.exec.fuel.wrapping_sub(fuel));
                                fuel = self.exec.fuel;
                                if let Err(mut kind) = outcome {
                                    self.add_rounds(&mut kind, (frame.func, position), ints);
                                    trap!(kind)
                                }
                            },

                            Inst::New { dst, site } => {
                                let site = stream.objects.at(site);
                                let fields = heap::fields_of(site.header);
                                let object = allocate!(site.header, fields.size());
                                let from = Registers { reals, words, ints, refs };
                                copy_registers::<RECORD>(&site.uses, from, Registers::in_object(object, fields));
                                if RECORD && is_active(object, fields) {
                                    heap::set_owner(object, self.exec.tape.owner());
                                }
                                *refs.add(dst.index()) = object;
                            }
                            Inst::NewDeep { dst, site } if DEEP => {
                                let site = stream.objects.at(site);
                                let args = window!();
                                copy_registers::<RECORD>(&site.uses, frame.base, args);
                                *refs.add(dst.index()) = limit!(self.new_deep(site.header, args));
                            }
                            Inst::FieldPart { dst, object, depth, primal, word } if DEEP => {
                                let object = *refs.add(object.index());
                                let there = planes::has(object, depth as usize, primal as usize);
                                *reals.add(dst.index()) = if there { *object.add(primal as usize).cast() } else { 0.0 };
                                if RECORD {
                                    *words.add(dst.index()) = if there {
                                        limit!(load_word(&mut self.exec.tape, object, word as usize))
                                    } else {
                                        Word::CONSTANT
                                    };
                                }
                            }
                            Inst::Field { dst, object, primal, word } => {
                                let object = *refs.add(object.index());
                                real_field!(dst, object, primal, word);
                            }
                            Inst::PrimalField { dst, object, primal } => {
                                *reals.add(dst.index()) = *(*refs.add(object.index())).add(primal as usize).cast();
                            }
                            Inst::IField { dst, object, at } => {
                                *ints.add(dst.index()) = *(*refs.add(object.index())).add(at as usize) as i64;
                            }
                            Inst::PField { dst, object, at } => {
                                *refs.add(dst.index()) = *(*refs.add(object.index())).add(at as usize).cast();
                            }
                            Inst::VariantTag { dst, object, .. } => {
                                *ints.add(dst.index()) = i64::from(heap::tag_of(**refs.add(object.index())));
                            }
                            Inst::Payload { dst, object, tag, primal, word } => {
                                let object = tagged!(object, tag);
                                real_field!(dst, object, primal, word);
                            }
                            Inst::PrimalPayload { dst, object, tag, primal } => {
                                *reals.add(dst.index()) = *tagged!(object, tag).add(primal as usize).cast();
                            }
                            Inst::IPayload { dst, object, tag, at } => {
                                *ints.add(dst.index()) = *tagged!(object, tag).add(at as usize) as i64;
                            }
                            Inst::PPayload { dst, object, tag, at } => {
                                *refs.add(dst.index()) = *tagged!(object, tag).add(at as usize).cast();
                            }

                            Inst::Len { dst, array } => *ints.add(dst.index()) = *(*refs.add(array.index())).add(LEN) as i64,
                            Inst::Elem { dst, array, index } => {
                                let (array, index) = element!(array, index);
                                *reals.add(dst.index()) = *heap::elements(array).add(index).cast();
                                if RECORD {
                                    *words.add(dst.index()) =
                                        limit!(element_word(&mut self.exec.tape, array, index as u64));
                                }
                            }
                            Inst::ElemPart { dst, array, index, part } if DEEP => {
                                let array = *refs.add(array.index());
                                let (index, part) = (*ints.add(index.index()) as usize, usize::from(part));
                                if part > 0 {
                                    *reals.add(dst.index()) = planes::element(array, part, index);
                                }
                                if RECORD {
                                    let word = component_word(&mut self.exec.tape, array, part, index);
                                    *words.add(dst.index()) = limit!(word);
                                }
                            }
                            Inst::PrimalElem { dst, array, index } => {
                                let (array, index) = element!(array, index);
                                *reals.add(dst.index()) = *heap::elements(array).add(index).cast();
                            }
                            Inst::IElem { dst, array, index } => {
                                let (array, index) = element!(array, index);
                                *ints.add(dst.index()) = *heap::elements(array).add(index) as i64;
                            }
                            Inst::PElem { dst, array, index } => {
                                let (array, index) = element!(array, index);
                                *refs.add(dst.index()) = *array.add(ARRAY_HEADER + index).cast();
                            }
                            Inst::Row { dst, array, index, width } => {
                                let array = *refs.add(array.index());
                                let (index, len) = (*ints.add(index.index()), *array.add(LEN));
                                let rows = len / u64::from(width);
                                if index as u64 >= rows {
                                    trap!(TrapKind::IndexOutOfBounds { index, len: rows });
                                }
                                *ints.add(dst.index()) = index * i64::from(width);
                            }
                            Inst::SameLen { array, other } => {
                                let pair = [*refs.add(array.index()), *refs.add(other.index())];
                                if *pair[0].add(LEN) != *pair[1].add(LEN) {
                                    trap!(other_shape(pair));
                                }
                            }
                            Inst::SameShape { object, other, .. } => {
                                let pair = [*refs.add(object.index()), *refs.add(other.index())];
                                if !heap::are_alike(pair[0], pair[1]) {
                                    trap!(other_shape(pair));
                                }
                            }
                            Inst::Pack { dst, site } => {
                                let site = stream.objects.at(site);
                                let len = site.uses.reals.len() + site.uses.ints.len() + site.uses.refs.len();
                                let array = allocate!(site.header, ARRAY_HEADER + len);
                                *array.add(LEN) = len as u64;
                                heap::set_first(array, Slot::NONE);
                                let elements = array.add(ARRAY_HEADER);
                                self.scratch.words.clear();
                                self.scratch.words.resize(if RECORD { site.uses.reals.len() } else { 0 }, Word::CONSTANT);
                                let to = Registers {
                                    reals: elements.cast(),
                                    words: self.scratch.words.as_mut_ptr(),
                                    ints: elements.cast(),
                                    refs: elements.cast(),
                                };
                                copy_registers::<RECORD>(&site.uses, Registers { reals, words, ints, refs }, to);
                                *refs.add(dst.index()) = array;
                                if RECORD {
                                    let active = match site.element {
                                        Bank::Real => {
                                            let first = limit!(self.exec.tape.pack(&self.scratch.words));
                                            heap::set_first(array, first);
                                            !first.is_none()
                                        }
                                        Bank::Int => false,
                                        Bank::Ref => (0..len).any(|n| !heap::owner_of(*elements.add(n).cast()).is_nobody()),
                                    };
                                    heap::set_owner(array, if active { self.exec.tape.owner() } else { Owner::NOBODY });
                                }
                            }
                            Inst::PackDeep { dst, site } if DEEP => {
                                let site = stream.objects.at(site);
                                let args = window!();
                                copy_registers::<RECORD>(&site.uses, frame.base, args);
                                let uses = &site.uses;
                                let len = (uses.reals.len() >> depth) + uses.ints.len() + uses.refs.len();
                                *refs.add(dst.index()) = limit!(self.pack_deep(site.element, len, args));
                            }
                            Inst::Build { dst, capacity, element, words, depth } => {
                                let capacity = *ints.add(capacity.index());
                                let frames = roots(self.exec.roots, refs.add(stream.refs));
                                let roots = Roots { frames, kept: Some(self.exec.tape.kept()) };
                                let built = heap::build(
                                    &mut self.exec.heap,
                                    capacity,
                                    (element, words, if DEEP { u32::from(depth) } else { 0 }),
                                    self.stacks.bytes,
                                    roots,
                                );
                                match built {
                                    Ok(builder) => *refs.add(dst.index()) = builder,
                                    Err(kind) => trap!(kind),
                                }
                            }
                            Inst::Push { .. } if !RECORD => unreachable!("streams for primal runs have no words"),
                            Inst::Push { builder, value } => {
                                let (builder, to, capacity) = room!(builder);
                                *to.cast() = *reals.add(value.index());
                                *to.add(capacity as usize).cast() = *words.add(value.index());
                                *builder.add(LEN) += 1;
                            }
                            Inst::PrimalPush { builder, value } => {
                                let (builder, to, _) = room!(builder);
                                *to.cast() = *reals.add(value.index());
                                *builder.add(LEN) += 1;
                            }
                            Inst::PushPart { builder, value, part } if DEEP => {
                                let builder = *refs.add(builder.index());
                                let index = *builder.add(LEN) as usize - 1;
                                let to = builder.add(planes::element_at(planes::unit(builder), usize::from(part), index));
                                *to.cast() = *reals.add(value.index()) + 0.0;
                                if RECORD {
                                    *to.add(*builder.add(CAPACITY) as usize).cast() = *words.add(value.index());
                                }
                            }
                            Inst::IPush { builder, value } => {
                                let (builder, to, _) = room!(builder);
                                *to = *ints.add(value.index()) as u64;
                                *builder.add(LEN) += 1;
                            }
                            Inst::PPush { builder, value } => {
                                let (builder, to, _) = room!(builder);
                                let object = *refs.add(value.index());
                                *to.cast() = object;
                                if RECORD && !heap::owner_of(object).is_nobody() {
                                    heap::set_owner(builder, self.exec.tape.owner());
                                }
                                *builder.add(LEN) += 1;
                            }
                            Inst::Finish { dst, builder } => {
                                let array = *refs.add(builder.index());
                                if let Err(kind) = finish(array, &mut self.exec.tape) {
                                    trap!(kind);
                                }
                                *refs.add(dst.index()) = array;
                            }
                            Inst::Extend { builder, array, from, to, words } => {
                                let (builder, array) = (*refs.add(builder.index()), *refs.add(array.index()));
                                let (from, to) = (*ints.add(from.index()), *ints.add(to.index()));
                                if let Err(kind) = self.extend(builder, array, (from, to), words) {
                                    trap!(kind);
                                }
                            }
                            Inst::Get { .. } | Inst::Put { .. } if !RECORD => {
                                unreachable!("streams for primal runs have no words")
                            }
                            Inst::Get { dst, builder, index } => {
                                let (_, from, capacity) = pushed!(builder, index);
                                *reals.add(dst.index()) = *from.cast();
                                *words.add(dst.index()) = *from.add(capacity).cast();
                            }
                            Inst::PrimalGet { dst, builder, index } => {
                                let (_, from, _) = pushed!(builder, index);
                                *reals.add(dst.index()) = *from.cast();
                            }
                            Inst::GetPart { dst, builder, index, part } if DEEP => {
                                let (from, capacity) = pushed_part!(builder, index, part);
                                *reals.add(dst.index()) = *from.cast();
                                if RECORD {
                                    *words.add(dst.index()) = *from.add(capacity).cast();
                                }
                            }
                            Inst::IGet { dst, builder, index } => {
                                let (_, from, _) = pushed!(builder, index);
                                *ints.add(dst.index()) = *from as i64;
                            }
                            Inst::PGet { dst, builder, index } => {
                                let (_, from, _) = pushed!(builder, index);
                                *refs.add(dst.index()) = *from.cast();
                            }
                            Inst::Put { builder, index, value } => {
                                let (_, to, capacity) = pushed!(builder, index);
                                *to.cast() = *reals.add(value.index());
                                *to.add(capacity).cast() = *words.add(value.index());
                            }
                            Inst::PrimalPut { builder, index, value } => {
                                let (_, to, _) = pushed!(builder, index);
                                *to.cast() = *reals.add(value.index());
                            }
                            Inst::PutPart { builder, index, value, part } if DEEP => {
                                let (to, capacity) = pushed_part!(builder, index, part);
                                *to.cast() = *reals.add(value.index()) + 0.0;
                                if RECORD {
                                    *to.add(capacity).cast() = *words.add(value.index());
                                }
                            }
                            Inst::IPut { builder, index, value } => {
                                let (_, to, _) = pushed!(builder, index);
                                *to = *ints.add(value.index()) as u64;
                            }
                            Inst::PPut { builder, index, value } => {
                                let (builder, to, _) = pushed!(builder, index);
                                let object = *refs.add(value.index());
                                *to.cast() = object;
                                if RECORD && !heap::owner_of(object).is_nobody() {
                                    heap::set_owner(builder, self.exec.tape.owner());
                                }
                            }
                            Inst::Reserve { dst, builder, count } => {
                                let (place, count) = (refs.add(builder.index()), *ints.add(count.index()));
                                match self.make_room(place, count, refs.add(stream.refs)) {
                                    Ok(builder) => *refs.add(dst.index()) = builder,
                                    Err(kind) => trap!(kind),
                                }
                            }
                            Inst::ChainNew { dst } => *refs.add(dst.index()) = std::ptr::null_mut(),
                            Inst::ChainPush { dst, chain, site } => {
                                let site = stream.objects.at(site);
                                let before = *refs.add(chain.index());
                                if chain::is_finished(before) {
                                    trap!(TrapKind::BuilderFinished);
                                }
                                let fields = heap::fields_of(site.header);
                                let cell = allocate!(site.header, chain::words_to_push(before, fields.size()));
                                let from = Registers { reals, words, ints, refs };
                                copy_registers::<RECORD>(&site.uses, from, Registers::in_object(cell, fields));
                                // What will be appended is not known yet.
                                let known = heap::Fields { refs: fields.refs - 1, ..fields };
                                if RECORD && is_active(cell, known) {
                                    heap::set_owner(cell, self.exec.tape.owner());
                                }
                                // The chain may have moved.
                                *refs.add(dst.index()) = chain::push(*refs.add(chain.index()), cell, fields.size());
                            }
                            Inst::ChainPushDeep { dst, chain, site } if DEEP => {
                                let site = stream.objects.at(site);
                                let args = window!();
                                copy_registers::<RECORD>(&site.uses, frame.base, args);
                                *args.refs.add(site.uses.refs.len()) = *refs.add(chain.index());
                                match self.chain_push_deep(site.header, args) {
                                    Ok(chain) => *refs.add(dst.index()) = chain,
                                    Err(kind) => trap!(kind),
                                }
                            }
                            Inst::ChainFinish { dst, chain, tail } => {
                                let chain = *refs.add(chain.index());
                                if chain::is_finished(chain) {
                                    trap!(TrapKind::BuilderFinished);
                                }
                                let tail = *refs.add(tail.index());
                                let first = chain::finish(chain, tail);
                                if RECORD {
                                    chain::settle(first, tail, self.exec.tape.owner());
                                }
                                *refs.add(dst.index()) = first;
                            }
                            Inst::NewDeep { .. }
                            | Inst::FieldPart { .. }
                            | Inst::ElemPart { .. }
                            | Inst::PackDeep { .. }
                            | Inst::PushPart { .. }
                            | Inst::GetPart { .. }
                            | Inst::PutPart { .. }
                            | Inst::ChainPushDeep { .. } => unreachable!("streams at depth 0 have no components"),
                        }
                        pc = pc.add(1);
                    }
                }
            }
        }
    };
}
for_each_inst!(define_execute);
