//! Tight loops: no reference changes in them and nothing allocates, so that arrays, their lengths and builders are
//! loaded once, in a block of its own before the loop's head.
//!
//! A *counted* one reads elements at an index that counts up by one to a bound. Where the bound, the arrays' lengths,
//! fuel and the slab of tape leave room for it, it runs [`GROUP`] rounds at a time that test nothing of that, and the
//! rest as any other loop: what each round does, and in which order, is the same.

use super::Function;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use dualvm_vm::isa::Bank;
use dualvm_vm::native::{Form, Inst, IntReg, LoopSite, Position, Site, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Rounds of a counted loop that run together.
const GROUP: i64 = 4;
/// A round of a counted loop has at most so many instructions.
const COUNTED_MAX: u32 = 40;

/// A loop that counts.
#[derive(Clone, Debug)]
struct Counted {
    /// The integer register that counts.
    index: u16,
    /// The stream position of the instruction that counts.
    step: Position,
    /// The integer register that it counts to.
    bound: u16,
    /// The arrays that are read at the index.
    arrays: Vec<u16>,
    /// The integer register that says whether there is another round.
    condition: u16,
    /// Where the loop leads to.
    exit: Position,
    /// Fuel of a round.
    cost: u32,
    /// What a round leaves on the tape, for a recorded loop.
    site: Option<Site<LoopSite>>,
    /// Bytes that a round appends to the trail of the open region.
    trail: usize,
}

/// One of the rounds of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupRound {
    /// The integer register that counts, until the round counts.
    pub(super) index: u16,
    /// Its value in the first round. All arrays that are read at the index have room for the group.
    pub(super) first: Value,
    /// The number of the round: in it, the register is so much more.
    pub(super) round: usize,
}

/// A tight loop: its code stands between its head and the instruction that goes back there.
#[derive(Clone, Debug)]
pub(super) struct TightLoop {
    start: Position,
    end: Position,
    /// References that are read in the loop, and whether as arrays.
    refs: BTreeMap<u16, bool>,
    /// The block that rounds begin with, and what is known in it, when it is written.
    head: Option<Block>,
    loaded: Vec<(u16, Value, Option<Value>)>,
    counted: Option<Counted>,
}

impl TightLoop {
    /// Where the loop stands, if rounds of it are written out, and how many: those of a group and a single one.
    pub(super) fn rounds_written(&self) -> Option<(RangeInclusive<usize>, u64)> {
        self.counted.as_ref().map(|_| (self.start.index()..=self.end.index(), GROUP as u64 + 1))
    }
}

/// The tight loops of a stream, by their heads.
pub(super) fn loops(stream: &Stream, leaders: &BTreeSet<Position>) -> BTreeMap<Position, TightLoop> {
    let mut found = BTreeMap::new();
    let ones = ones(stream);
    for (end, inst) in (0..).map(Position).zip(&stream.code) {
        let mut starts = Vec::new();
        inst.for_each_target(stream, |target| starts.extend((target <= end).then_some(target)));
        for start in starts {
            let one_block = leaders.range(start..=end).nth(1).is_none();
            // The path of a recorded loop has one way in.
            if (one_block || matches!(inst, Inst::LoopStep { .. }))
                && let Some(refs) = references(stream, start, end)
            {
                let counted = if one_block { counted(stream, &ones, start, end) } else { None };
                found.insert(start, TightLoop { start, end, refs, head: None, loaded: Vec::new(), counted });
            }
        }
    }
    found
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
            | Form::IElem { array, .. } => {
                refs.insert(array.0, true);
            }
            Form::Push { builder: object, .. }
            | Form::IPush { builder: object, .. }
            | Form::Field { object, .. }
            | Form::IField { object, .. } => {
                refs.entry(object.0).or_insert(false);
            }
            Form::Pure(_) | Form::Mov { .. } | Form::Const { .. } | Form::Passive { .. } => {}
            Form::Jump { .. } | Form::BackJump { .. } | Form::BackBranch { .. } => {}
            Form::LoopStep { .. } | Form::SegmentEnd { .. } => {}
            Form::RegionRound { .. } | Form::RegionSave { .. } => {}
            // Another way out of the block, a reference that changes, or objects that move.
            Form::Branch { .. } | Form::Switch { .. } | Form::Ret { .. } | Form::Trap { .. } => return None,
            Form::TailCall { .. } | Form::TailCallClosure { .. } => return None,
            Form::Call { .. } | Form::CallClosure { .. } | Form::Fork { .. } | Form::ParallelMap { .. } => return None,
            Form::PMov { .. } | Form::PSelect { .. } | Form::PField { .. } | Form::PElem { .. } => return None,
            Form::New { .. } | Form::Pack { .. } | Form::Build { .. } | Form::Finish { .. } => return None,
            Form::LoopBegin { .. } | Form::LoopEnd { .. } => return None,
            Form::RegionBegin { .. } | Form::ArrayBase { .. } | Form::RegionEnd { .. } => return None,
            Form::RegionFinish { .. } => return None,
            // Rare in loops of reals.
            Form::Payload { .. } | Form::IPayload { .. } | Form::PPayload { .. } => return None,
            Form::VariantTag { .. } | Form::PPush { .. } => return None,
        }
    }
    Some(refs)
}

/// What a loop of one block counts, if it does.
fn counted(stream: &Stream, ones: &BTreeSet<u16>, start: Position, end: Position) -> Option<Counted> {
    let code = &stream.code[start.index()..end.index()];
    let (condition, site, exit, cost) = match stream.code[end.index()] {
        Inst::LoopStep { cond, site: number } => {
            let site = &stream.loops[number];
            site.while_true.then_some((cond, Some(number), site.end, site.cost))?
        }
        Inst::BackBranch { cond, then, other, cost } if then == start => (cond, None, other, cost),
        _ => return None,
    };
    if end.0 - start.0 > COUNTED_MAX || code.iter().any(|inst| matches!(inst, Inst::SegmentEnd { .. })) {
        return None;
    }
    let writes = |register: IntReg| (0..code.len()).filter(move |&at| writes_int(stream, &code[at], register));
    let only = |register: IntReg| {
        let mut found = writes(register);
        found.next().filter(|_| found.next().is_none())
    };
    let test_at = only(condition)?;
    let Inst::ILt { a: index, b: bound, .. } = code[test_at] else { return None };
    let step_at = only(index)?;
    let Inst::IAdd { a, b, .. } = code[step_at] else { return None };
    let by = if a == index { b } else { a };
    let counts_by_one = (a == index || b == index) && ones.contains(&by.0);
    if !counts_by_one || step_at > test_at || writes(bound).next().is_some() {
        return None;
    }
    let mut arrays = Vec::new();
    for (at, inst) in code.iter().enumerate() {
        if let Inst::Elem { array, index: read_at, .. }
        | Inst::PrimalElem { array, index: read_at, .. }
        | Inst::IElem { array, index: read_at, .. } = *inst
            && read_at == index
        {
            if at > step_at {
                return None;
            }
            arrays.push(array.0);
        }
    }
    let step = Position(start.0 + step_at as u32);
    let (index, bound, condition) = (index.0, bound.0, condition.0);
    let saves = code.iter().map(|inst| match *inst {
        Inst::RegionSave { site } => stream.saves[site].bytes(),
        _ => 0,
    });
    let trail = saves.sum();
    (!arrays.is_empty()).then_some(Counted { index, step, bound, arrays, condition, exit, cost, site, trail })
}

fn writes_int(stream: &Stream, inst: &Inst, register: IntReg) -> bool {
    let mut writes = false;
    inst.for_each_reg(stream, |reg, def| writes |= def && reg == register.into());
    writes
}

/// The integer registers that are 1 throughout a function.
fn ones(stream: &Stream) -> BTreeSet<u16> {
    let (mut ones, mut others) = (BTreeSet::new(), BTreeSet::new());
    others.extend(0..stream.int_params as u16);
    for inst in &stream.code {
        if let Inst::IConst { dst, value: 1 } = *inst {
            ones.insert(dst.0);
            continue;
        }
        inst.for_each_reg(stream, |reg, def| {
            if def && reg.bank == Bank::Int {
                others.insert(reg.index);
            }
        });
    }
    ones.retain(|register| !others.contains(register));
    ones
}

impl Function<'_, '_> {
    /// Begins the block of the current position. At the head of a tight loop, what lasts is loaded first.
    pub(super) fn enter_block(&mut self) {
        self.forget_refs();
        self.lens.fill(None);
        self.tags.fill(None);
        if self.inside.as_ref().is_some_and(|inside| self.at > inside.end) {
            self.inside = None;
        }
        if let Some(mut tight) = self.tight.get(&self.at).cloned() {
            for (&register, &is_array) in &tight.refs {
                let value = self.reference(register);
                let len = is_array.then(|| self.len(register));
                tight.loaded.push((register, value, len));
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
            for &(register, value, len) in &inside.loaded {
                let index = usize::from(register);
                (self.refs[index], self.lens[index]) = (Some(value), len);
            }
        }
    }

    /// Writes the part of a counted loop that runs rounds in groups, from the block before the loop. `head` decides
    /// before each round whether there is room for a group. The current block then is the one of single rounds.
    fn groups(&mut self, tight: &TightLoop, counted: &Counted, head: Block) {
        // The index stays below this minus a group's length; it counts up, so only its first value can be negative.
        let bound = self.int(counted.bound);
        let lens: Vec<Value> = counted.arrays.iter().map(|&array| self.len(array)).collect();
        let limit = lens.into_iter().fold(bound, |limit, len| self.emit.b.ins().smin(limit, len));
        let zero = self.emit.int(0);
        let limit = self.emit.b.ins().smax(limit, zero);
        let limit = self.emit.b.ins().iadd_imm_s(limit, 1 - GROUP);
        let first = self.int(counted.index);
        let negative = self.emit.b.ins().icmp_imm_s(IntCC::SignedLessThan, first, 0);
        let never = self.emit.int(i64::MIN);
        let limit = self.emit.select(negative, never, limit);
        self.emit.b.ins().jump(head, &[]);

        let (group, single) = (self.emit.b.create_block(), self.emit.b.create_block());
        self.emit.b.switch_to_block(head);
        let index = self.int(counted.index);
        let mut room = self.emit.b.ins().icmp(IntCC::SignedLessThan, index, limit);
        let cost = GROUP * i64::from(counted.cost);
        let fuel = self.emit.b.use_var(self.fuel);
        let fueled = self.emit.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, fuel, cost);
        room = self.emit.b.ins().band(room, fueled);
        let site = counted.site.map(|site| &self.stream.loops[site]);
        if let Some(site) = site {
            room = self.room_for_entries(site, GROUP, room);
        }
        if counted.trail > 0 {
            room = self.room_for_trail(GROUP as usize * counted.trail, room);
        }
        self.emit.b.ins().brif(room, group, &[], single, &[]);

        self.emit.b.switch_to_block(group);
        for round in 0..GROUP {
            self.group = Some(GroupRound { index: counted.index, first: index, round: round as usize });
            for at in tight.start.to(tight.end) {
                self.at = at;
                if at == counted.step {
                    // From the first round's index, so that the rounds' addresses don't depend on each other.
                    let next = self.emit.b.ins().iadd_imm_s(index, 1 + round);
                    self.set_int(counted.index, next);
                } else {
                    self.inst(&self.stream.code[at.index()]);
                }
            }
            if let Some(site) = site {
                self.store_entry(site, round);
            }
        }
        self.group = None;
        if let Some(site) = site {
            self.count_entries(site, GROUP);
        }
        let fuel = self.emit.b.use_var(self.fuel);
        let fuel = self.emit.b.ins().iadd_imm_s(fuel, -cost);
        self.emit.b.def_var(self.fuel, fuel);
        let again = self.int(counted.condition);
        let exit = self.blocks[&counted.exit];
        self.emit.b.ins().brif(again, head, &[], exit, &[]);

        self.at = tight.start;
        self.emit.b.switch_to_block(single);
    }

    /// The block that a jump from here goes to: the next round of a tight loop loads nothing again.
    pub(super) fn target(&self, position: Position) -> Block {
        match &self.inside {
            Some(TightLoop { start, end, head: Some(head), .. }) if position == *start && self.at <= *end => *head,
            _ => self.blocks[&position],
        }
    }
}
