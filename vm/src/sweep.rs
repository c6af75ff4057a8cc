//! The reverse sweep: from the adjoint of the output to the adjoints of all slots.
//!
//! Records are read backwards, each once. A segment's record gives its saved primals and the adjoints of its outputs to
//! the derived code, and the contributions that come back are added one after the other, because two inputs may hold
//! the same slot. This is the loop that Smeding and Vákár (2024, section 10) arrive at, with a segment in place of a
//! scalar operation.

mod loops;

use loops::OpenLoop;

use crate::isa::{Inst, Op, for_each_instruction};
use crate::math;
use crate::meter::Meter;
use crate::program::Program;
use crate::record::SegmentCode;
use crate::tape::{LOOP, PACK, STRIP, TRAILER_BYTES, Tape};
use crate::trap::{Limit, TrapKind};

/// The memory of a sweep, kept between runs.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The adjoint of each slot.
    pub(crate) adjoints: Vec<f64>,
    reals: Vec<f64>,
    ints: Vec<i64>,
}

impl Sweep {
    /// Sets all adjoints to zero, for a tape of `slots` slots.
    pub(crate) fn begin(&mut self, slots: u64) -> Result<(), Limit> {
        let len = slots as usize + 1;
        self.adjoints.clear();
        self.adjoints.try_reserve_exact(len).map_err(|_| Limit::TapeBytes)?;
        self.adjoints.resize(len, 0.0);
        Ok(())
    }

    /// Sweeps the tape. The fuel was charged for before; `meter` is asked for deadline and cancellation now and then.
    pub(crate) fn run(&mut self, tape: &Tape, program: &Program, meter: &Meter) -> Result<(), TrapKind> {
        let mut open = None;
        for (start, len) in tape.chunks().rev() {
            meter.poll()?;
            // SAFETY: a chunk holds complete records only; a loop's strips are followed by its record.
            unsafe { self.chunk(start, start.add(len), program, &mut open, meter)? };
        }
        Ok(())
    }

    /// Sweeps the records between `start` and `at`.
    ///
    /// # Safety
    /// Complete records stand between the two, all slots in them are below the number given to [`Sweep::begin`]. If the
    /// first ones are the last strip of a loop, it is `open`.
    unsafe fn chunk<'a>(
        &mut self,
        start: *const u8,
        mut at: *const u8,
        program: &'a Program,
        open: &mut Option<OpenLoop<'a>>,
        meter: &Meter,
    ) -> Result<(), TrapKind> {
        while at > start {
            // SAFETY: `at` is the end of a record, which ends with its number and its first slot.
            unsafe {
                let trailer: *const u32 = at.sub(TRAILER_BYTES).cast();
                let (id, first) = (trailer.read_unaligned(), trailer.add(1).read_unaligned());
                at = if id < LOOP {
                    let code = program.segment(id);
                    let native = program.tier.as_ref().and_then(|tier| tier.segment(id, code));
                    match native {
                        Some(native) if native(trailer, self.adjoints.as_mut_ptr()) == 0 => record_start(trailer, code),
                        _ => self.segment(trailer, first, code),
                    }
                } else if id == PACK {
                    self.pack(trailer, first)
                } else if id == STRIP {
                    self.strip(trailer, open, meter)?
                } else {
                    self.recorded_loop(trailer, program, open, meter)?
                };
            }
        }
        Ok(())
    }

    /// Hands the adjoints of a pack's elements back to the slots that they came from. Returns the record's start.
    ///
    /// # Safety
    /// `trailer` is that of a pack.
    unsafe fn pack(&mut self, trailer: *const u32, first: u32) -> *const u8 {
        // SAFETY: the count stands before the trailer, the elements before the count.
        unsafe {
            let count = trailer.sub(1).read_unaligned() as usize;
            let slots = trailer.sub(1 + count);
            for n in 0..count {
                let adjoint = self.adjoints[first as usize + n];
                self.adjoints[slots.add(n).read_unaligned() as usize] += adjoint;
            }
            slots.cast()
        }
    }

    /// Runs the adjoint of a segment's record. Returns the record's start.
    ///
    /// # Safety
    /// `trailer` is that of a record of this segment.
    #[inline(always)]
    unsafe fn segment(&mut self, trailer: *const u32, first: u32, code: &SegmentCode) -> *const u8 {
        let (saved_reals, saved_ints) = (code.saved_reals as usize, code.saved_ints as usize);
        let inputs = code.contributions.len();
        // SAFETY: the record's parts stand in this order before the trailer.
        let (slots, ints, reals) = unsafe {
            let slots = trailer.sub(inputs);
            let ints = slots.cast::<i64>().sub(saved_ints);
            (slots, ints, ints.cast::<f64>().sub(saved_reals))
        };
        let outputs = &self.adjoints[first as usize..first as usize + code.slots as usize];
        // One level is open, so every adjoint is a constant: all zero means that nothing flows back.
        if outputs.iter().all(|&adjoint| adjoint == 0.0) {
            return reals.cast();
        }
        if self.reals.len() < code.adjoint.reals {
            self.reals.resize(code.adjoint.reals, 0.0);
        }
        if self.ints.len() < code.adjoint.ints {
            self.ints.resize(code.adjoint.ints, 0);
        }
        let frame = &mut self.reals[..code.adjoint.reals];
        frame[saved_reals..saved_reals + outputs.len()].copy_from_slice(outputs);
        // SAFETY: the record holds these numbers, unaligned; the frame is large enough, and derived code stays in it.
        unsafe {
            for (n, register) in frame[..saved_reals].iter_mut().enumerate() {
                *register = reals.add(n).read_unaligned();
            }
            for (n, register) in self.ints[..saved_ints].iter_mut().enumerate() {
                *register = ints.add(n).read_unaligned();
            }
            run_straight(&code.adjoint.code, frame.as_mut_ptr(), self.ints.as_mut_ptr());
            let adjoints = self.adjoints.as_mut_ptr();
            for (n, &register) in code.contributions.iter().enumerate() {
                let slot = slots.add(n).read_unaligned() as usize;
                debug_assert!(slot < self.adjoints.len());
                *adjoints.add(slot) += *self.reals.as_ptr().add(usize::from(register));
            }
        }
        reals.cast()
    }
}

/// Where the record of a segment begins.
///
/// # Safety
/// `trailer` is that of a record of this segment.
unsafe fn record_start(trailer: *const u32, code: &SegmentCode) -> *const u8 {
    // SAFETY: the record's parts stand before the trailer.
    unsafe {
        let saved = 8 * (code.saved_reals + code.saved_ints) as usize;
        trailer.sub(code.contributions.len()).cast::<u8>().sub(saved)
    }
}

macro_rules! read {
    ($reals:ident, $ints:ident, real, $index:expr) => {
        *$reals.add($index as usize)
    };
    ($reals:ident, $ints:ident, int, $index:expr) => {
        *$ints.add($index as usize)
    };
}
pub(crate) use read;

/// Executes a scalar instruction on register banks: binds the operands by the names that the table gives them.
macro_rules! scalar_arm {
    ($inst:ident, $reals:ident, $ints:ident, ($a:ident : $ab:ident) -> $rb:ident, $body:expr) => {{
        let $a = read!($reals, $ints, $ab, $inst.b);
        let result = $body;
        read!($reals, $ints, $rb, $inst.a) = result;
    }};
    ($inst:ident, $reals:ident, $ints:ident, ($a:ident : $ab:ident, $b:ident : $bb:ident) -> $rb:ident, $body:expr) => {{
        let $a = read!($reals, $ints, $ab, $inst.b);
        let $b = read!($reals, $ints, $bb, $inst.c);
        let result = $body;
        read!($reals, $ints, $rb, $inst.a) = result;
    }};
    ($inst:ident, $reals:ident, $ints:ident,
        ($a:ident : $ab:ident, $b:ident : $bb:ident, $c:ident : $cb:ident) -> $rb:ident, $body:expr) => {{
        let $a = read!($reals, $ints, $ab, $inst.b);
        let $b = read!($reals, $ints, $bb, $inst.c);
        let $c = read!($reals, $ints, $cb, $inst.imm as u16);
        let result = $body;
        read!($reals, $ints, $rb, $inst.a) = result;
    }};
}
pub(crate) use scalar_arm;

/// A scalar that can trap is not derived code: its result stays what it was.
macro_rules! without_trap {
    (() $body:block) => {
        $body
    };
    ((try) $body:block) => {{
        let result: Result<_, TrapKind> = $body;
        match result {
            Ok(value) => value,
            Err(_) => unreachable!("derived code has no instructions that trap"),
        }
    }};
}

macro_rules! define_run_straight {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            $args:tt -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $costly:ident)? ; )* }
        structural $structural:tt
        internal $internal:tt
    ) => {
        /// Runs derived code.
        ///
        /// # Safety
        /// The frames have the registers that the code names.
        unsafe fn run_straight(code: &[Inst], reals: *mut f64, ints: *mut i64) {
            for inst in code {
                let inst: &Inst = inst;
                // SAFETY: derived code names registers of its frame only.
                unsafe {
                    match inst.op {
                        $( Op::$sname => scalar_arm!(inst, reals, ints, $args -> $rbank, without_trap!(($($try)?) $body)), )*
                        Op::Mov => *reals.add(inst.a as usize) = *reals.add(inst.b as usize),
                        Op::Const => *reals.add(inst.a as usize) = f64::from_bits(inst.imm),
                        Op::IConst => *ints.add(inst.a as usize) = inst.imm as i64,
                        _ => unreachable!("derived code is straight-line arithmetic"),
                    }
                }
            }
        }
    };
}
for_each_instruction!(define_run_straight);
