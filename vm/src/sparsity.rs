//! Sparsity: which entries of a Jacobian or a Hessian can be other than zero, and in how few products all of them can
//! be had.
//!
//! A recorded run knows what depends on what. It is repeated with records that are no coarser than segments
//! ([`Program::structured`]), and its tapes are walked twice: back from the results, to find out which slots lead to
//! one, and forwards, with the inputs that each slot depends on ([`sets`]). Where inputs of a segment meet in a way
//! that isn't linear, the Hessian has entries for all inputs that the one depends on with all those of the other: the
//! nonlinear interaction domains of Walther (2008), of a whole segment at once. The pattern is that of the rules of the
//! instruction table: an entry outside of it is zero for all values that take the same branches, an entry inside may
//! happen to be zero.
//!
//! What the walk doesn't know is what a derivative operator has computed whose record is run again ([`Kind::Rerun`]).
//! It counts as depending on all inputs, in any way. An operator that was written out in place is ordinary code.

pub(crate) mod coloring;
pub(crate) mod pattern;
mod sets;
mod walk;

use crate::records::Kind;
use crate::running::meter::Watch;
use crate::running::program::Program;
use crate::tape::TaskNode;
use crate::trap::{Limit, TrapKind};
use crate::word::{Owner, Slot};
use pattern::Pattern;
use sets::{IndexSets, Set};
use walk::{Event, Events};

/// What an entry takes: in lists, in the pattern, and in what is read off by it.
const ENTRY_BYTES: usize = 16;
/// Pairs that are kept before those that are there twice are dropped.
const PAIRS_MIN: usize = 1 << 16;
/// Sets that are kept for rows before these are filled with them.
const KEPT_MIN: usize = 1 << 16;
/// So many sets are kept for an entry, on average and at most, where entries are limited.
const KEPT_OF_ENTRY: usize = 4;

/// How large what is known of a run may be, and its pattern.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    /// Entries of the pattern, and of one of its rows.
    pub(crate) entries: usize,
    pub(crate) in_row: usize,
}

impl Room {
    /// So many bytes, and as many entries as they have room for.
    pub(crate) fn of(bytes: u64) -> Room {
        Room { bytes, entries: usize::MAX, in_row: usize::MAX }
    }
}

/// A real of a result: the task whose slot it has, and the slot.
type ResultSlot = (Owner, Slot);

/// A derivative flows to the slot.
const REACHED: u8 = 1;
/// The inputs that the slot depends on are asked for.
const WANTED: u8 = 2;
/// A record gives the slot.
const GIVEN: u8 = 4;

/// The pattern of the Jacobian of these results by the first so many slots, the run's inputs.
///
/// # Errors
/// What the watch says, and [`Limit::LiveBytes`] if there is no room.
///
/// # Safety
/// `root` is the tree of a run of this program that has ended, with its tapes; the results are slots of it. The program
/// is a structured one.
pub(crate) unsafe fn of_jacobian(
    program: &Program,
    root: *mut TaskNode,
    inputs: u32,
    results: &[ResultSlot],
    room: &Room,
    watch: &Watch<'_>,
) -> Result<Pattern, TrapKind> {
    // SAFETY: promised by the caller.
    let mut trace = unsafe { Trace::new(program, root, inputs, room, watch) }?;
    for &result in results {
        trace.ask(result, WANTED);
    }
    trace.back(watch)?;
    trace.forwards(watch)?;
    let (mut rows, mut entries) = (Vec::with_capacity(results.len()), 0);
    for &(owner, slot) in results {
        let mut row = Vec::new();
        if !slot.is_none() {
            let set = trace.set(trace.events.cell(owner, slot));
            trace.sets.members(set, &mut row, watch)?;
            watch.tick(row.len())?;
        }
        entries += row.len();
        trace.fits_entries(entries, row.len())?;
        rows.push(row);
    }
    Ok(Pattern::from_rows(inputs as usize, rows))
}

/// The pattern of the Hessian of a weighted sum of these results by the first so many slots, the run's inputs, whatever
/// the weights. It is symmetric.
///
/// # Errors
/// As [`of_jacobian`].
///
/// # Safety
/// As [`of_jacobian`].
pub(crate) unsafe fn of_hessian(
    program: &Program,
    root: *mut TaskNode,
    inputs: u32,
    results: &[ResultSlot],
    room: &Room,
    watch: &Watch<'_>,
) -> Result<Pattern, TrapKind> {
    // SAFETY: promised by the caller.
    let mut trace = unsafe { Trace::new(program, root, inputs, room, watch) }?;
    for &result in results {
        trace.ask(result, REACHED);
    }
    trace.back(watch)?;
    trace.forwards(watch)?;
    if trace.is_open() {
        let all = trace.sets.all();
        trace.pairs = vec![[all, all]];
    }
    watch.tick(4 * trace.pairs.len())?;
    trace.pairs.sort_unstable();
    trace.pairs.dedup();
    Ok(Pattern::from_rows(inputs as usize, trace.rows(inputs, watch)?))
}

/// What is known of the slots of a run.
struct Trace<'a> {
    program: &'a Program,
    events: Events<'a>,
    /// What is known of each slot.
    flags: Vec<u8>,
    /// The inputs that slots depend on, where that is wanted.
    of_slots: Vec<Set>,
    sets: IndexSets,
    /// What meets in a way that isn't linear.
    pairs: Vec<[Set; 2]>,
    /// When there are so many, those that are there twice are dropped.
    pairs_max: usize,
    room: &'a Room,
}

impl<'a> Trace<'a> {
    /// # Safety
    /// As [`of_jacobian`].
    unsafe fn new(
        program: &'a Program,
        root: *mut TaskNode,
        inputs: u32,
        room: &'a Room,
        watch: &Watch<'_>,
    ) -> Result<Self, TrapKind> {
        // SAFETY: promised by the caller.
        let events = unsafe { Events::of(program, root, room.bytes, watch) }?;
        watch.tick(events.cells / 16 + inputs as usize)?;
        let (mut flags, sets) = (vec![0; events.cells], IndexSets::new(inputs));
        let mut of_slots = vec![Set::EMPTY; events.cells];
        // Slot 0 stands for constants.
        events.bases.iter().for_each(|&base| flags[base] = GIVEN);
        // The slots of the inputs are the first ones of the first task, behind what stands for constants.
        for input in 0..inputs {
            flags[1 + input as usize] = GIVEN;
            of_slots[1 + input as usize] = sets.single(input);
        }
        Ok(Trace { program, events, flags, of_slots, sets, pairs: Vec::new(), pairs_max: PAIRS_MIN, room })
    }

    /// Whether there is room for a pattern with so many entries, so many of them in one row. They are numbered in 32
    /// bits.
    fn fits_entries(&self, count: usize, in_row: usize) -> Result<(), TrapKind> {
        if count >= 1 << 32 || count > self.room.entries || in_row > self.room.in_row {
            return Err(Limit::LiveBytes.into());
        }
        self.fits(ENTRY_BYTES * count)
    }

    /// Whether there is room for so many bytes more.
    fn fits(&self, bytes: usize) -> Result<(), TrapKind> {
        let pairs = self.pairs.len() * size_of::<[Set; 2]>();
        if (self.events.bytes() + self.sets.bytes() + pairs + bytes) as u64 > self.room.bytes {
            return Err(Limit::LiveBytes.into());
        }
        Ok(())
    }

    fn ask(&mut self, (owner, slot): ResultSlot, flag: u8) {
        if !slot.is_none() {
            let cell = self.events.cell(owner, slot);
            self.flags[cell] |= flag;
        }
    }

    /// From the results to the inputs: what is reached and what is wanted.
    fn back(&mut self, watch: &Watch<'_>) -> Result<(), TrapKind> {
        let events = std::mem::take(&mut self.events.list);
        for event in &events {
            watch.tick(4)?;
            // SAFETY: the events are of a run that has ended, with its tapes.
            unsafe { self.back_over(event, watch) }?;
        }
        self.events.list = events;
        Ok(())
    }

    /// # Safety
    /// The event is one of the trace's.
    unsafe fn back_over(&mut self, event: &Event<'a>, watch: &Watch<'_>) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let Event::Record { base, kind: Kind::Segment(id), first, trailer } = *event else {
                let Trace { events, flags, .. } = self;
                return events.each_copy(event, watch, |to, from| {
                    flags[to] |= GIVEN;
                    flags[from] |= flags[to] & (REACHED | WANTED);
                });
            };
            let structure = self.program.structure(id);
            let given = base + first.index()..base + first.index() + structure.outputs.len();
            let together = self.flags[given.clone()].iter().fold(0, |all, flags| all | flags);
            self.flags[given.clone()].iter_mut().for_each(|flags| *flags |= GIVEN);
            if together & (REACHED | WANTED) == 0 {
                return Ok(());
            }
            let input = self.inputs_of(id, trailer);
            for (output, inputs) in given.zip(&structure.outputs) {
                let flags = self.flags[output] & (REACHED | WANTED);
                for &n in inputs {
                    self.flags[base + input(n)] |= flags;
                }
            }
            if together & REACHED != 0 {
                for &n in structure.pairs.iter().flatten() {
                    self.flags[base + input(n)] |= WANTED;
                }
            }
        }
        Ok(())
    }

    /// The slots of the inputs of a record.
    ///
    /// # Safety
    /// It is the trailer of a record of this segment.
    unsafe fn inputs_of(&self, id: u32, trailer: *const u32) -> impl Fn(u32) -> usize + use<> {
        let code = self.program.segment(id);
        // SAFETY: promised by the caller: the slots stand where the layout says.
        unsafe {
            let slots = code.start(trailer).add(code.layout.slot(0)).cast::<Slot>();
            move |n| slots.add(n as usize).read_unaligned().index()
        }
    }

    /// From the inputs to the results: what wanted slots depend on, and what meets.
    fn forwards(&mut self, watch: &Watch<'_>) -> Result<(), TrapKind> {
        let events = std::mem::take(&mut self.events.list);
        for event in events.iter().rev() {
            watch.tick(4)?;
            // SAFETY: the events are of a run that has ended, with its tapes.
            unsafe { self.forwards_over(event, watch) }?;
        }
        self.events.list = events;
        Ok(())
    }

    /// # Safety
    /// The event is one of the trace's.
    unsafe fn forwards_over(&mut self, event: &Event<'a>, watch: &Watch<'_>) -> Result<(), TrapKind> {
        // SAFETY: promised by the caller.
        unsafe {
            let Event::Record { base, kind: Kind::Segment(id), first, trailer } = *event else {
                let Trace { events, flags, of_slots, sets, .. } = self;
                return events.each_copy(event, watch, |to, from| {
                    if flags[to] & WANTED != 0 {
                        of_slots[to] = known(flags, of_slots, sets, from);
                    }
                });
            };
            let structure = self.program.structure(id);
            let given = base + first.index()..base + first.index() + structure.outputs.len();
            let together = self.flags[given.clone()].iter().fold(0, |all, flags| all | flags);
            if together & (REACHED | WANTED) == 0 {
                return Ok(());
            }
            let input = self.inputs_of(id, trailer);
            for (output, inputs) in given.zip(&structure.outputs) {
                if self.flags[output] & WANTED != 0 {
                    watch.tick(4 * inputs.len())?;
                    let mut set = Set::EMPTY;
                    for &n in inputs {
                        let of_input = self.set(base + input(n));
                        set = self.sets.union(set, of_input);
                    }
                    self.of_slots[output] = set;
                }
            }
            self.fits(0)?;
            if together & REACHED != 0 {
                watch.tick(structure.pairs.len())?;
                for pair in &structure.pairs {
                    let [a, b] = pair.map(|n| self.set(base + input(n)));
                    let pair = [a.min(b), a.max(b)];
                    if a != Set::EMPTY && b != Set::EMPTY && self.pairs.last() != Some(&pair) {
                        self.pairs.push(pair);
                    }
                }
                self.drop_doubles(watch)?;
            }
        }
        Ok(())
    }

    /// Drops pairs that are there twice, when there are many.
    fn drop_doubles(&mut self, watch: &Watch<'_>) -> Result<(), TrapKind> {
        if self.pairs.len() >= self.pairs_max {
            watch.tick(4 * self.pairs.len())?;
            self.pairs.sort_unstable();
            self.pairs.dedup();
            self.pairs_max = (2 * self.pairs.len()).max(PAIRS_MIN);
        }
        Ok(())
    }

    /// The rows of a Hessian with entries for all members of one set and all of the other, of each pair.
    ///
    /// What meets often has much in common, as the sums before and after a term have. So pairs aren't multiplied out: a
    /// row collects the sets that its input meets, of which the common parts are then looked at once.
    fn rows(&mut self, inputs: u32, watch: &Watch<'_>) -> Result<Vec<Vec<u32>>, TrapKind> {
        let (mut rows, mut entries) = (vec![Vec::new(); inputs as usize], 0);
        let (mut kept, mut members, mut kept_max) = (Vec::new(), Vec::new(), KEPT_MIN);
        for n in 0..self.pairs.len() {
            let [a, b] = self.pairs[n];
            for (set, other) in [(a, b), (b, a)].into_iter().take(if a == b { 1 } else { 2 }) {
                members.clear();
                self.sets.members_again(set, &mut members, watch)?;
                watch.tick(members.len())?;
                kept.extend(members.iter().map(|&row| (row, other)));
            }
            if kept.len() / KEPT_OF_ENTRY > self.room.entries {
                return Err(Limit::LiveBytes.into());
            }
            if kept.len() >= kept_max {
                self.fill(&mut rows, &mut entries, &mut kept, watch)?;
                kept_max = (2 * entries).max(KEPT_MIN);
            }
        }
        self.fill(&mut rows, &mut entries, &mut kept, watch)?;
        watch.tick(4 * entries)?;
        Ok(rows)
    }

    /// Adds the members of sets to the rows that they are kept for.
    fn fill(
        &mut self,
        rows: &mut [Vec<u32>],
        entries: &mut usize,
        kept: &mut Vec<(u32, Set)>,
        watch: &Watch<'_>,
    ) -> Result<(), TrapKind> {
        watch.tick(4 * kept.len())?;
        kept.sort_unstable();
        kept.dedup();
        for of_row in kept.chunk_by(|a, b| a.0 == b.0) {
            let row = &mut rows[of_row[0].0 as usize];
            *entries -= row.len();
            self.sets.add_members(of_row.iter().map(|&(_, set)| set), row, watch)?;
            *entries += row.len();
            let in_row = row.len();
            self.fits_entries(*entries, in_row)?;
        }
        kept.clear();
        Ok(())
    }

    /// What a slot depends on.
    fn set(&self, cell: usize) -> Set {
        known(&self.flags, &self.of_slots, &self.sets, cell)
    }

    /// Whether a derivative flows to what nobody knows how it was computed.
    fn is_open(&self) -> bool {
        self.flags.iter().any(|flags| flags & (REACHED | GIVEN) == REACHED)
    }
}

/// What a slot depends on: all inputs, if no record gives it that the walk knows.
fn known(flags: &[u8], of_slots: &[Set], sets: &IndexSets, cell: usize) -> Set {
    if flags[cell] & GIVEN == 0 { sets.all() } else { of_slots[cell] }
}
