//! Tight loops: no reference changes in them and nothing allocates, so that arrays, their lengths and builders are
//! loaded once, in a block of its own before the loop's head.
//!
//! A *counted* one reads elements at an index that counts up by one to a bound, or near it. Where the bound, the
//! arrays' lengths, fuel and the slab of tape leave room for it, it runs some rounds at a time ([`Counted::group`])
//! that test nothing of that, and the rest as any other loop: what each round does, and in which order, is the same.

use super::constants::Constants;
use super::deep::Plane;
use super::pairs::Paired;
use super::{Function, cell};
use crate::scalar;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Variable;
use dualvm_vm::native::layout::{CAPACITY, LEN};
use dualvm_vm::native::{Form, Inst, IntReg, LoopSite, Position, Pure, RefReg, Site, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// Rounds of a counted loop that run together.
const GROUP: i64 = 4;
/// So many if they compute long functions: what a test per round costs is little beside these.
const GROUP_WITH_FUNCTIONS: i64 = 2;
/// Elements are so near to the index at most.
const NEAR_MAX: i64 = 1 << 10;
/// A round of a counted loop has at most so many instructions; twice as many at a depth.
const COUNTED_MAX: u32 = 40;

/// A loop that counts.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// The integer register that counts.
    index: u16,
    /// The stream position of the instruction that counts.
    step: Position,
    /// The integer register that it counts to.
    bound: u16,
    /// The arrays that are read at the index or so far from it, and how many elements are a row.
    arrays: Vec<(u16, i64, u32)>,
    /// The integer registers that hold the index, with what is added to it, until the next round.
    near: BTreeMap<u16, i64>,
    /// The integer register that says whether there is another round.
    condition: u16,
    /// Where the loop leads to.
    exit: Position,
    /// How many rounds run together.
    group: i64,
    /// Fuel of a round.
    cost: u32,
    /// What a round leaves on the tape, for a recorded loop.
    site: Option<Site<LoopSite>>,
    /// Bytes that a round appends to the trail of the open region.
    trail: usize,
    /// Elements that it pushes.
    pushed: usize,
    /// How rounds are computed in pairs, if they are.
    paired: Option<Paired>,
}

impl Counted {
    /// The integer register that counts.
    pub(super) fn index(&self) -> u16 {
        self.index
    }

    /// How far from the index what a register holds is.
    pub(super) fn near(&self, register: u16) -> Option<i64> {
        self.near.get(&register).copied()
    }

    /// The recorded loop.
    pub(super) fn site(&self) -> Option<Site<LoopSite>> {
        self.site
    }
}

/// What a tight loop pushes to, if it is one builder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pushes {
    pub(super) builder: Value,
    /// How many elements it has room for; 0 if it is finished.
    pub(super) room: Value,
    /// How many it has.
    pub(super) len: Variable,
}

/// A builder whose elements a tight loop reads or replaces, and that gets no others in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) builder: Value,
    /// How many elements it has; 0 if it is finished.
    pub(super) len: Value,
    pub(super) capacity: Value,
}

/// One of the rounds of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupRound {
    /// The length of the builder before the group, if it pushes to one.
    pub(super) first_len: Value,
    /// How many elements the group has pushed so far.
    pub(super) pushed: usize,
    /// The index in the first round. All arrays that are read at the index have room for the group.
    pub(super) first: Value,
    /// The number of the round: in it, the index is so much more.
    pub(super) round: usize,
}

/// A tight loop: its code stands between its head and the instruction that goes back there.
#[derive(Clone, Debug)]
pub(super) struct TightLoop {
    start: Position,
    end: Position,
    /// Whether its code has no ways of its own.
    is_one_block: bool,
    /// References that are read in the loop, and whether as arrays.
    refs: BTreeMap<u16, bool>,
    /// The components of elements that it reads, by array and component, and what is known of them when it is written.
    parts: BTreeSet<(u16, u16)>,
    planes: BTreeMap<(u16, u16), Plane>,
    /// The builder that it pushes to, if it is one, and what is known of it when the loop is written.
    builder: Option<u16>,
    pushes: Option<Pushes>,
    /// Builders whose elements it reads or replaces, if it doesn't push to any.
    builders: BTreeSet<u16>,
    held: Vec<(u16, Held)>,
    /// The block that rounds begin with, and what is known in it, when it is written.
    head: Option<Block>,
    loaded: Vec<(u16, Option<Value>)>,
    counted: Option<Counted>,
}

impl TightLoop {
    /// How many rounds of the loop are written out, if any are: those of a group and a single one. Much of a pair is
    /// written once.
    pub(super) fn rounds_written(&self) -> Option<u64> {
        let rounds = |counted: &Counted| match counted.paired {
            Some(_) => counted.group as u64 * 3 / 4 + 1,
            None => counted.group as u64 + 1,
        };
        self.counted.as_ref().map(rounds)
    }

    /// Where it stands.
    pub(super) fn range(&self) -> RangeInclusive<usize> {
        self.start.index()..=self.end.index()
    }

    /// The instruction that goes back.
    pub(super) fn end(&self) -> Position {
        self.end
    }

    /// What stands before it.
    pub(super) fn body(&self) -> Range<usize> {
        self.start.index()..self.end.index()
    }

    /// What it pushes to, if that is one builder.
    pub(super) fn pushes(&self) -> Option<Pushes> {
        self.pushes
    }

    /// What is known of a component of an array's elements.
    pub(super) fn plane(&self, array: u16, part: u16) -> Option<Plane> {
        self.planes.get(&(array, part)).copied()
    }

    /// What is known of a builder, if it is the one that the loop pushes to.
    pub(super) fn pushes_to(&self, register: u16) -> Option<Pushes> {
        self.pushes.filter(|_| self.builder == Some(register))
    }

    /// What is known of a builder whose elements the loop reads or replaces, if it pushes nothing.
    pub(super) fn held(&self, register: u16) -> Option<Held> {
        self.held.iter().find(|&&(held, _)| held == register).map(|&(_, held)| held)
    }
}

/// The tight loops of a stream, by their heads.
pub(super) fn loops(
    stream: &Stream,
    leaders: &BTreeSet<Position>,
    constants: &Constants,
    depth: u32,
) -> BTreeMap<Position, TightLoop> {
    let mut found = BTreeMap::new();
    let entries = Entries::new(stream);
    let mut inner = Position::default();
    for (end, inst) in (0..).map(Position).zip(&stream.code) {
        let mut starts = Vec::new();
        inst.for_each_target(stream, |target| starts.extend((target <= end).then_some(target)));
        let innermost = starts.iter().all(|&start| inner <= start);
        if !starts.is_empty() {
            inner = end;
        }
        for start in starts.into_iter().filter(|_| innermost) {
            let is_one_block = leaders.range(start..=end).nth(1).is_none();
            if (is_one_block || entries.has_one_way_in(start, end))
                && let Some(refs) = references(stream, start, end)
                && let Some(builders) = builders(stream, start, end)
            {
                let most = COUNTED_MAX << depth.min(1);
                let short = is_one_block && end.0 - start.0 <= most;
                found.insert(
                    start,
                    TightLoop {
                        start,
                        end,
                        is_one_block,
                        refs,
                        parts: parts(stream, start, end),
                        planes: BTreeMap::new(),
                        builder: builder(stream, start, end),
                        pushes: None,
                        builders,
                        held: Vec::new(),
                        head: None,
                        loaded: Vec::new(),
                        counted: if short { counted(stream, constants, start, end) } else { None },
                    },
                );
            }
        }
    }
    found
}

/// From where control comes to instructions other than from the one before.
struct Entries(BTreeMap<Position, [Position; 2]>);

impl Entries {
    fn new(stream: &Stream) -> Entries {
        let mut found: BTreeMap<Position, [Position; 2]> = BTreeMap::new();
        for (at, inst) in (0..).map(Position).zip(&stream.code) {
            inst.for_each_target(stream, |target| {
                let [first, last] = found.entry(target).or_insert([at; 2]);
                (*first, *last) = ((*first).min(at), (*last).max(at));
            });
        }
        Entries(found)
    }

    /// Whether control comes to a stretch of code at its start only, from outside and going round.
    fn has_one_way_in(&self, start: Position, end: Position) -> bool {
        let mut inside = self.0.range(start..=end).filter(|&(&target, _)| target != start);
        inside.all(|(&target, &[first, last])| start <= first && last < target)
    }
}

/// The builder to which a stretch of code pushes, if it is one: two registers could hold the same one.
fn builder(stream: &Stream, start: Position, end: Position) -> Option<u16> {
    let mut builders = BTreeSet::new();
    for inst in &stream.code[start.index()..=end.index()] {
        if let Inst::Push { builder, .. } | Inst::PrimalPush { builder, .. } | Inst::IPush { builder, .. } = *inst {
            builders.insert(builder.0);
        }
    }
    let first = builders.pop_first();
    first.filter(|_| builders.is_empty())
}

/// The builders whose elements a stretch of code reads or replaces, if it pushes to none. If it does, it must not be to
/// another register than the one with these: that could hold the same builder. `None` if it is.
fn builders(stream: &Stream, start: Position, end: Position) -> Option<BTreeSet<u16>> {
    let code = &stream.code[start.index()..=end.index()];
    let found: BTreeSet<u16> =
        code.iter().filter_map(|inst| pushed_before(inst).map(|(builder, _)| builder.0)).collect();
    if !code.iter().any(is_push) {
        return Some(found);
    }
    let own = builder(stream, start, end);
    found.iter().all(|&register| Some(register) == own).then(BTreeSet::new)
}

/// The builder and the index of an element that an instruction reads or replaces which was pushed before.
fn pushed_before(inst: &Inst) -> Option<(RefReg, IntReg)> {
    match *inst {
        Inst::Get { builder, index, .. }
        | Inst::PrimalGet { builder, index, .. }
        | Inst::IGet { builder, index, .. }
        | Inst::Put { builder, index, .. }
        | Inst::PrimalPut { builder, index, .. }
        | Inst::IPut { builder, index, .. } => Some((builder, index)),
        _ => None,
    }
}

fn is_push(inst: &Inst) -> bool {
    matches!(inst, Inst::Push { .. } | Inst::PrimalPush { .. } | Inst::IPush { .. })
}

/// The components of elements that a stretch of code reads, by array and component.
fn parts(stream: &Stream, start: Position, end: Position) -> BTreeSet<(u16, u16)> {
    let part = |inst: &Inst| match *inst {
        Inst::ElemPart { array, part, .. } => Some((array.0, part)),
        _ => None,
    };
    stream.code[start.index()..=end.index()].iter().filter_map(part).collect()
}

/// The references that a stretch of code reads, and whether as arrays; `None` if it changes any, or if objects may
/// move.
fn references(stream: &Stream, start: Position, end: Position) -> Option<BTreeMap<u16, bool>> {
    let mut refs = BTreeMap::new();
    for inst in &stream.code[start.index()..=end.index()] {
        match inst.form() {
            Form::Len { array, .. }
            | Form::Elem { array, .. }
            | Form::PrimalElem { array, .. }
            | Form::ElemPart { array, .. }
            | Form::IElem { array, .. }
            | Form::Row { array, .. } => {
                refs.insert(array.0, true);
            }
            Form::SameLen { array, other } => {
                refs.insert(array.0, true);
                refs.insert(other.0, true);
            }
            Form::SameShape { object, other, .. } => {
                refs.entry(object.0).or_insert(false);
                refs.entry(other.0).or_insert(false);
            }
            Form::Push { builder: object, .. }
            | Form::PrimalPush { builder: object, .. }
            | Form::IPush { builder: object, .. }
            | Form::Get { builder: object, .. }
            | Form::PrimalGet { builder: object, .. }
            | Form::GetPart { builder: object, .. }
            | Form::IGet { builder: object, .. }
            | Form::Put { builder: object, .. }
            | Form::PrimalPut { builder: object, .. }
            | Form::PutPart { builder: object, .. }
            | Form::IPut { builder: object, .. }
            | Form::Field { object, .. }
            | Form::PrimalField { object, .. }
            | Form::FieldPart { object, .. }
            | Form::IField { object, .. } => {
                refs.entry(object.0).or_insert(false);
            }
            Form::Pure(_) | Form::Mov { .. } | Form::Const { .. } | Form::Passive { .. } => {}
            Form::Jump { .. } | Form::Branch { .. } | Form::BackJump { .. } | Form::BackBranch { .. } => {}
            Form::CheckedJump { .. } | Form::CheckedBranch { .. } => {}
            Form::Trap { .. } | Form::TrapWith { .. } => {}
            // Objects stay where they are, but its function takes fuel, which is reckoned for several rounds at once.
            Form::Trace { site } if !stream.texts[site].calls => {}
            Form::Trace { .. } => return None,
            Form::LoopStep { .. } | Form::SegmentEnd { .. } => {}
            Form::RegionRound { .. } | Form::RegionSave { .. } => {}
            // A reference that changes, or objects that move, or rare.
            Form::Switch { .. } | Form::Ret { .. } => return None,
            Form::TailCall { .. } | Form::TailCallClosure { .. } => return None,
            Form::Call { .. } | Form::CallClosure { .. } | Form::Operate { .. } => return None,
            Form::Fork { .. } | Form::ParallelMap { .. } => return None,
            Form::PDetach { .. } => return None,
            Form::PMov { .. } | Form::PSelect { .. } | Form::PField { .. } | Form::PElem { .. } => return None,
            Form::NewDeep { .. } | Form::PackDeep { .. } | Form::ChainPushDeep { .. } => return None,
            // The number of elements is in memory.
            Form::PushPart { .. } => return None,
            Form::New { .. } | Form::Pack { .. } | Form::Build { .. } | Form::Finish { .. } => return None,
            Form::Extend { .. } | Form::Reserve { .. } | Form::PGet { .. } | Form::PPut { .. } => return None,
            Form::ChainNew { .. } | Form::ChainPush { .. } | Form::ChainFinish { .. } => return None,
            Form::LoopBegin { .. } | Form::LoopEnd { .. } => return None,
            Form::FieldSlot { .. } | Form::PrimalPayload { .. } => return None,
            Form::RegionBegin { .. } | Form::ArrayBase { .. } | Form::RegionEnd { .. } => return None,
            Form::RegionFinish { .. } | Form::ArrayCell { .. } | Form::ArrayCopy { .. } => return None,
            Form::BuilderPack { .. } | Form::BuilderSlots { .. } => return None,
            // Only where everything is interpreted.
            Form::Check { .. } => return None,
            // Rare in loops of reals.
            Form::Payload { .. } | Form::IPayload { .. } | Form::PPayload { .. } => return None,
            Form::VariantTag { .. } | Form::PPush { .. } => return None,
        }
    }
    Some(refs)
}

/// What a loop of one block counts, if it does.
fn counted(stream: &Stream, constants: &Constants, start: Position, end: Position) -> Option<Counted> {
    let code = &stream.code[start.index()..end.index()];
    let (condition, site, exit, cost) = match stream.code[end.index()] {
        Inst::LoopStep { cond, site: number } => {
            let site = &stream.loops[number];
            site.while_true.then_some((cond, Some(number), site.end, site.cost))?
        }
        Inst::BackBranch { cond, then, other, cost } if then == start && other != start => (cond, None, other, cost),
        _ => return None,
    };
    if code.iter().any(|inst| matches!(inst, Inst::SegmentEnd { .. })) {
        return None;
    }
    let writes = |register: IntReg| (0..code.len()).filter(move |&at| writes_int(stream, &code[at], register));
    let only = |register: IntReg| {
        let mut found = writes(register);
        found.next().filter(|_| found.next().is_none())
    };
    // The register of the test may have been another one's before.
    let test_at = writes(condition).next_back()?;
    let until_the_test = |register| register == condition && writes(register).count() == 2;
    let Inst::ILt { a: index, b: bound, .. } = code[test_at] else { return None };
    let step_at = only(index)?;
    let Inst::IAdd { a, b, .. } = code[step_at] else { return None };
    let by = if a == index { b } else { a };
    let counts_by_one = (a == index || b == index) && constants.int(by.0) == Some(1);
    if !counts_by_one || step_at > test_at || writes(bound).next().is_some() {
        return None;
    }
    let pushed = code.iter().filter(|inst| is_push(inst)).count();
    let (mut arrays, mut near) = (Vec::new(), BTreeMap::from([(index.0, 0)]));
    // Indices of other elements; that of one may be set later in the round.
    let mut others = BTreeSet::new();
    for (at, inst) in code.iter().enumerate() {
        let shift = match *inst {
            Inst::IAdd { dst, a, b } if a == index => constants.int(b.0).map(|by| (dst, by)),
            Inst::IAdd { dst, a, b } if b == index => constants.int(a.0).map(|by| (dst, by)),
            Inst::ISub { dst, a, b } if a == index => constants.int(b.0).map(|by| (dst, by.saturating_neg())),
            _ => None,
        };
        if let Some((register, by)) = shift
            && at < step_at
            && (-NEAR_MAX..=NEAR_MAX).contains(&by)
            && (only(register).is_some() || until_the_test(register))
            && !others.contains(&register.0)
        {
            near.insert(register.0, by);
        }
        let (array, read_at, width) = match *inst {
            Inst::Elem { array, index, .. }
            | Inst::PrimalElem { array, index, .. }
            | Inst::IElem { array, index, .. } => (array, index, 1),
            Inst::Row { array, index, width, .. } => (array, index, width),
            // A builder that doesn't change its length is as an array.
            _ => match pushed_before(inst).filter(|_| pushed == 0) {
                Some((builder, index)) => (builder, index, 1),
                None => continue,
            },
        };
        match near.get(&read_at.0) {
            Some(_) if at > step_at && read_at == index || at > test_at && read_at == condition => return None,
            Some(&by) => arrays.push((array.0, by, width)),
            None => _ = others.insert(read_at.0),
        }
    }
    let step = Position(start.0 + step_at as u32);
    let (index, bound, condition) = (index.0, bound.0, condition.0);
    let saves = code.iter().map(|inst| match *inst {
        Inst::RegionSave { site } => stream.saves[site].bytes(),
        _ => 0,
    });
    let trail = saves.sum();
    if pushed > 0 && builder(stream, start, end).is_none() || arrays.is_empty() && pushed == 0 {
        return None;
    }
    let paired = Paired::new(stream, constants, code, (index, &near));
    let is_long = |inst: &Inst| matches!(inst.form(), Form::Pure(Pure::Scalar(inst)) if scalar::is_long(inst.op));
    let group = if code.iter().any(is_long) { GROUP_WITH_FUNCTIONS } else { GROUP };
    Some(Counted { index, step, bound, arrays, near, condition, exit, group, cost, site, trail, pushed, paired })
}

fn writes_int(stream: &Stream, inst: &Inst, register: IntReg) -> bool {
    let mut writes = false;
    inst.for_each_reg(stream, |reg, def| writes |= def && reg == register.into());
    writes
}

impl Function<'_, '_> {
    /// Begins the block of the current position. At the head of a tight loop, what lasts is loaded first.
    pub(super) fn enter_block(&mut self, number: usize) {
        self.references.enter(number);
        self.known = self.known_at.remove(&number).unwrap_or_default();
        self.rows.forget();
        self.last_push = None;
        self.twins.clear();
        if self.inside.as_ref().is_some_and(|inside| self.at > inside.end) {
            self.inside = None;
        }
        self.note_outer_loops(number);
        if let Some(mut tight) = self.tight.get(&self.at).cloned() {
            for (&register, &is_array) in &tight.refs {
                self.reference(register);
                let len = is_array.then(|| self.len(register));
                tight.loaded.push((register, len));
            }
            for &(array, part) in &tight.parts {
                tight.planes.insert((array, part), self.plane(array, part));
            }
            if let Some(builder) = tight.builder {
                let builder = self.reference(builder);
                let header = self.emit.load(I64, builder, 0);
                let finished = self.is_finished(header);
                let capacity = self.emit.load(I64, builder, cell(CAPACITY));
                let none = self.emit.int(0);
                let room = self.emit.select(finished, none, capacity);
                let len = self.emit.load(I64, builder, cell(LEN));
                tight.pushes = Some(Pushes { builder, room, len: self.emit.variable(len) });
            }
            for &register in &tight.builders {
                let builder = self.reference(register);
                let header = self.emit.load(I64, builder, 0);
                let finished = self.is_finished(header);
                let len = self.emit.load(I64, builder, cell(LEN));
                let none = self.emit.int(0);
                let len = self.emit.select(finished, none, len);
                let capacity = self.emit.load(I64, builder, cell(CAPACITY));
                tight.held.push((register, Held { builder, len, capacity }));
            }
            self.take_ahead();
            if tight.is_one_block && tight.counted.as_ref().is_none_or(|counted| counted.paired.is_none()) {
                self.begin_twins(&tight);
            }
            let head = self.emit.b.create_block();
            tight.head = Some(head);
            self.inside = Some(tight.clone());
            match &tight.counted {
                Some(counted) => self.groups(&tight, counted, head),
                None => {
                    self.emit.b.ins().jump(head, &[]);
                    self.emit.b.switch_to_block(head);
                }
            }
        }
        self.recall_loaded();
    }

    /// What was loaded before the loop is known in all its blocks.
    fn recall_loaded(&mut self) {
        if let Some(inside) = &self.inside {
            for &(register, len) in &inside.loaded {
                self.references.recall(register);
                len.into_iter().for_each(|len| self.known.set_len(register, len));
            }
        }
    }

    /// Writes the part of a counted loop that runs rounds in groups, from the block before the loop. `head` decides
    /// before the first group and before each single round whether there is room for a group; a group's end decides on
    /// the next one. How many elements a builder has is in memory behind the groups. The current block then is the one
    /// of single rounds.
    fn groups(&mut self, tight: &TightLoop, counted: &Counted, head: Block) {
        // The index stays below this minus a group's length; it counts up, so only its first value can be
        // less than that of the first elements.
        let (first, mut limit) = (self.int(counted.index), self.int(counted.bound));
        for &(array, by, width) in &counted.arrays {
            let held = tight.held(array).map(|held| held.len);
            let len = held.unwrap_or_else(|| self.len(array));
            let rows = if width == 1 { len } else { self.emit.b.ins().udiv_imm_u(len, i64::from(width)) };
            let end = if by == 0 { rows } else { self.emit.b.ins().iadd_imm_s(rows, -by) };
            limit = self.emit.b.ins().smin(limit, end);
        }
        if let Some(pushes) = tight.pushes.filter(|_| counted.pushed == 1) {
            // The builder gets an element as the index goes up by one.
            let len = self.emit.b.use_var(pushes.len);
            let free = self.emit.b.ins().isub(pushes.room, len);
            let end = self.emit.b.ins().iadd(first, free);
            limit = self.emit.b.ins().smin(limit, end);
        }
        let zero = self.emit.int(0);
        let limit = self.emit.b.ins().smax(limit, zero);
        let rounds = counted.group;
        let limit = self.emit.b.ins().iadd_imm_s(limit, 1 - rounds);
        let least = counted.arrays.iter().map(|&(_, by, _)| -by).fold(0, i64::max);
        let limit = match self.emit.constant(first) {
            Some(first) if first >= least => limit,
            _ => {
                let before = self.emit.b.ins().icmp_imm_s(IntCC::SignedLessThan, first, least);
                let never = self.emit.int(i64::MIN);
                self.emit.select(before, never, limit)
            }
        };
        let splats = counted.paired.as_ref().map(|paired| self.splats(paired)).unwrap_or_default();
        self.emit.b.ins().jump(head, &[]);

        let [group, behind, single] = [(); 3].map(|()| self.emit.b.create_block());
        self.emit.b.switch_to_block(head);
        let room = self.room_for_group(tight, counted, limit);
        self.emit.branch_if_all(&room, group, single);

        let (held, known) = (self.references.held(), self.known.clone());
        self.emit.b.switch_to_block(group);
        let index = self.int(counted.index);
        let first_len = tight.pushes.map_or(index, |pushes| self.emit.b.use_var(pushes.len));
        match &counted.paired {
            Some(paired) => self.pairs((tight, counted, paired), [index, first_len], &splats, rounds),
            None => self.rounds(tight, counted, [index, first_len]),
        }
        if let Some(site) = counted.site {
            self.count_entries(&self.stream.loops[site], rounds);
        }
        if let Some(pushes) = &tight.pushes {
            let len = self.emit.b.ins().iadd_imm_s(first_len, rounds * counted.pushed as i64);
            self.emit.b.def_var(pushes.len, len);
        }
        let fuel = self.emit.b.use_var(self.fuel);
        let fuel = self.emit.b.ins().iadd_imm_s(fuel, -rounds * i64::from(counted.cost));
        self.emit.b.def_var(self.fuel, fuel);
        let again = self.int(counted.condition);
        // Where there is room for a group there is another round.
        let room = self.room_for_group(tight, counted, limit);
        self.emit.branch_if_all(&room, group, behind);
        self.emit.b.seal_block(group);

        self.emit.enter(behind);
        self.take_apart();
        if let Some(pushes) = &tight.pushes {
            let len = self.emit.b.use_var(pushes.len);
            self.emit.store(len, pushes.builder, cell(LEN));
        }
        self.hold_for(counted.exit);
        let exit = self.blocks[&counted.exit];
        self.emit.branch(again, single, &[], exit, &[]);

        self.at = tight.start;
        self.rows.forget();
        self.last_push = None;
        self.references.resume(held);
        self.known = known;
        self.emit.enter(single);
    }

    /// What has to hold for a group of rounds to run. `limit` is what the index has to be less than.
    fn room_for_group(&mut self, tight: &TightLoop, counted: &Counted, limit: Value) -> Vec<Value> {
        let rounds = counted.group;
        let index = self.int(counted.index);
        let mut room = vec![self.emit.b.ins().icmp(IntCC::SignedLessThan, index, limit)];
        let fuel = self.emit.b.use_var(self.fuel);
        let cost = rounds * i64::from(counted.cost);
        room.push(self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, fuel, cost));
        if let Some(site) = counted.site {
            room.extend(self.room_for_entries(&self.stream.loops[site], rounds));
        }
        if counted.trail > 0 {
            room.push(self.room_for_trail(rounds as usize * counted.trail));
        }
        if let Some(pushes) = tight.pushes.filter(|_| counted.pushed > 1) {
            let len = self.emit.b.use_var(pushes.len);
            let free = self.emit.b.ins().isub(pushes.room, len);
            let needed = rounds * counted.pushed as i64;
            room.push(self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, free, needed));
        }
        room
    }

    /// Writes the rounds of a group, one after the other. The index is `first` in the first one, the builder has
    /// `first_len` elements.
    fn rounds(&mut self, tight: &TightLoop, counted: &Counted, [first, first_len]: [Value; 2]) {
        for round in 0..counted.group {
            let pushed = round as usize * counted.pushed;
            self.group = Some(GroupRound { first_len, pushed, first, round: round as usize });
            self.insts(tight.start, counted.step);
            // From the first round's index, so that the rounds' addresses don't depend on each other.
            let next = self.emit.plus(first, 1 + round);
            self.set_int(counted.index, next);
            self.insts(counted.step.next(), tight.end);
            if let Some(site) = counted.site {
                self.store_entry(&self.stream.loops[site], round);
            }
        }
        self.load_late();
        self.end_round();
        self.group = None;
    }

    /// How far from the group's first index the element is that a register is the index of, in the rounds of a group.
    pub(super) fn near_first(&self, index: u16) -> Option<(Value, i64)> {
        let group = self.group?;
        let counted = self.inside.as_ref()?.counted.as_ref()?;
        let by = counted.near.get(&index)?;
        Some((group.first, by + group.round as i64))
    }

    /// Notes that all jumps from before a position are written: nothing else leads to the head of a tight loop.
    pub(super) fn seal_tight(&mut self, end: Position) {
        if let Some(TightLoop { end: last, head, .. }) = &mut self.inside
            && *last < end
            && let Some(head) = head.take()
        {
            self.emit.b.seal_block(head);
        }
    }

    /// The block that a jump from here goes to: the next round of a tight loop loads nothing again.
    pub(super) fn target(&mut self, position: Position) -> Block {
        match &self.inside {
            Some(TightLoop { start, end, head: Some(head), .. }) if position == *start && self.at <= *end => *head,
            _ => self.way_out(position).unwrap_or_else(|| self.blocks[&position]),
        }
    }
}
