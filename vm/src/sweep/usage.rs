//! What the records of a run amount to, by the sites that have written them: how many there are, their bytes, and the
//! time that sweeping them takes.
//!
//! Counts and bytes come from a walk over the tape that has nothing to do with the sweep. They add up to what the tape
//! says of itself, which leaves out the links between slabs, and what regions leave at the ends of these.

use crate::records::import::Import;
use crate::records::pack::Pack;
use crate::records::recorded_loop::LoopTail;
use crate::records::region::{RegionTail, Trail, padding};
use crate::records::{Kind, Trailer, link, strip};
use crate::running::program::Program;
use crate::tape::{ForkNode, RerunNode, TaskNode};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What the records of a site amount to, imports among them.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Usage {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) sweep: Duration,
}

/// By the numbers that records end with.
pub(crate) type Usages = HashMap<u32, Usage>;

/// Takes the time of each record of a sweep.
#[derive(Debug)]
pub(crate) struct Clock {
    /// When the last record was done.
    last: Instant,
    /// Whose the next strips are.
    whole: Kind,
    times: HashMap<u32, Duration>,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { last: Instant::now(), whole: Kind::Strip, times: HashMap::new() }
    }

    /// A record of this kind is done. What its own tasks took, if it is a fork, was taken by their records.
    pub(crate) fn lap(&mut self, kind: Kind) {
        let time = self.last.elapsed();
        if matches!(kind, Kind::Loop(_) | Kind::Region(_)) {
            self.whole = kind;
        }
        let kind = if kind == Kind::Strip { self.whole } else { kind };
        if kind != Kind::Link {
            *self.times.entry(kind.number()).or_default() += time;
        }
        self.last = Instant::now();
    }
}

/// What the records of a run amount to whose sweep the clock has timed.
///
/// # Safety
/// `root` is the tree of a run that has ended, and its tapes are there.
pub(crate) unsafe fn of(root: &TaskNode, program: &Program, clock: Clock) -> Usages {
    let mut usages = Usages::new();
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        // SAFETY: promised by the caller.
        unsafe { count(node, program, &mut usages, &mut waiting) };
    }
    for (number, time) in clock.times {
        usages.entry(number).or_default().sweep += time;
    }
    usages
}

/// Counts the records of a task. Adds the tasks that it has forked to those that wait.
///
/// # Safety
/// As [`of`].
unsafe fn count(node: &TaskNode, program: &Program, usages: &mut Usages, waiting: &mut Vec<&TaskNode>) {
    // The loop or region whose strips come next.
    let mut whole = Kind::Strip;
    let mut at = node.end;
    while !at.is_null() {
        // SAFETY: promised by the caller: `at` is the end of a record, of which each part stands where its kind says.
        unsafe {
            let Trailer { kind, at: trailer, .. } = Trailer::before(at);
            let end = at;
            // Bytes that the tape doesn't count.
            let mut uncounted = 0;
            at = match kind {
                Kind::Segment(id) => program.segment(id).start(trailer),
                Kind::Loop(id) => {
                    whole = kind;
                    let code = program.recorded_loop(id);
                    let tail = LoopTail::read(code, trailer);
                    tail.once.sub(code.entry_bytes() * tail.entries as usize)
                }
                Kind::Region(id) => {
                    whole = kind;
                    let trail = RegionTail::read(program.region(id).layout, trailer).trail;
                    uncounted = padding(trail.end.addr() - trail.start.addr());
                    trail.start
                }
                Kind::Strip => {
                    let (count, tail) = strip::read(trailer);
                    let start = match whole {
                        Kind::Loop(id) => tail.sub(program.recorded_loop(id).entry_bytes() * count as usize),
                        _ => {
                            uncounted = end.addr() - tail.addr() + padding(count as usize);
                            Trail::before(tail, count as usize).start
                        }
                    };
                    let usage = usages.entry(whole.number()).or_default();
                    usage.bytes += (end.addr() - start.addr() - uncounted) as u64;
                    at = start;
                    continue;
                }
                Kind::Pack => Pack::read(trailer).slots.cast(),
                Kind::Link => {
                    at = link::read(trailer);
                    continue;
                }
                Kind::Fork => {
                    let fork = &*link::read::<ForkNode>(trailer);
                    waiting.extend(fork.tasks());
                    at = fork.before;
                    continue;
                }
                Kind::Rerun => {
                    let node = &*link::read::<RerunNode>(trailer);
                    let usage = usages.entry(kind.number()).or_default();
                    usage.records += 1;
                    usage.bytes += node.bytes;
                    at = node.before;
                    continue;
                }
                Kind::Import => Import::read_single(trailer).start,
                Kind::ImportRange | Kind::LoopImport | Kind::LoopScatter => Import::read_range(trailer).start,
                #[cfg(all(test, not(loom)))]
                Kind::Scale => crate::records::scale::Scale::read(trailer).start,
            };
            let usage = usages.entry(kind.number()).or_default();
            usage.records += 1;
            usage.bytes += (end.addr() - at.addr() - uncounted) as u64;
        }
    }
}
