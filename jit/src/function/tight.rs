//! Tight loops: no reference changes in them and nothing allocates, so that arrays, their lengths and builders are
//! loaded once, in a block of its own before the loop's head.
//!
//! A *counted* one reads elements at an index that counts up by one to a bound. Where the bound, the arrays' lengths,
//! fuel and the slab of tape leave room for it, it runs [`GROUP`] rounds at a time that test nothing of that, and the
//! rest as any other loop: what each round does, and in which order, is the same.

use super::Function;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use dualvm_vm::isa::{Bank, Inst, Op, Role};
use dualvm_vm::native::Stream;
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
    step: u32,
    /// The integer register that it counts to.
    bound: u16,
    /// The arrays that are read at the index.
    arrays: Vec<u16>,
    /// The integer register that says whether there is another round.
    condition: u16,
    /// Where the loop leads to.
    exit: u32,
    /// Fuel of a round.
    cost: u32,
    /// What a round leaves on the tape, for a recorded loop.
    site: Option<usize>,
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
    start: u32,
    end: u32,
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
        self.counted.as_ref().map(|_| (self.start as usize..=self.end as usize, GROUP as u64 + 1))
    }
}

/// The tight loops of a stream, by their heads.
pub(super) fn loops(stream: &Stream, leaders: &BTreeSet<u32>) -> BTreeMap<u32, TightLoop> {
    let mut found = BTreeMap::new();
    let ones = ones(stream);
    for (end, inst) in (0..).zip(&stream.code) {
        let starts = match inst.op {
            // The path of a recorded loop has one way in.
            Op::LoopStep => [Some(stream.loops[inst.imm as usize].body), None],
            Op::BackJump => [Some(inst.low()), None],
            Op::BackBranch => [Some(inst.low()), Some(inst.high())],
            _ => continue,
        };
        for start in starts.into_iter().flatten().filter(|&start| start <= end) {
            let one_block = leaders.range(start..=end).nth(1).is_none();
            if (one_block || inst.op == Op::LoopStep)
                && let Some(refs) = references(stream, start, end)
            {
                let counted = if one_block { counted(stream, &ones, start, end) } else { None };
                found.insert(start, TightLoop { start, end, refs, head: None, loaded: Vec::new(), counted });
            }
        }
    }
    found
}

/// The references that stretch of code reads; `None` if it changes any or allocates.
fn references(stream: &Stream, start: u32, end: u32) -> Option<BTreeMap<u16, bool>> {
    let mut refs = BTreeMap::new();
    for inst in &stream.code[start as usize..=end as usize] {
        match inst.op {
            Op::Len | Op::Elem | Op::IElem | Op::PrimalElem => {
                refs.insert(inst.b, true);
            }
            Op::Push | Op::IPush => {
                refs.entry(inst.a).or_insert(false);
            }
            Op::Field | Op::IField => {
                refs.entry(inst.b).or_insert(false);
            }
            Op::Mov | Op::IMov | Op::Const | Op::IConst | Op::PrimalMov | Op::PrimalConst | Op::PrimalToReal => {}
            Op::Jump | Op::BackJump | Op::BackBranch | Op::LoopStep | Op::SegmentEnd => {}
            op if op.is_scalar() => {}
            _ => return None,
        }
    }
    Some(refs)
}

/// What a loop of one block counts, if it does.
fn counted(stream: &Stream, ones: &BTreeSet<u16>, start: u32, end: u32) -> Option<Counted> {
    let code = &stream.code[start as usize..end as usize];
    let last = stream.code[end as usize];
    let (site, exit, cost) = match last.op {
        Op::LoopStep => {
            let site = &stream.loops[last.imm as usize];
            site.while_true.then_some((Some(last.imm as usize), site.end, site.cost))?
        }
        Op::BackBranch if last.low() == start => (None, last.high(), u32::from(last.b) | u32::from(last.c) << 16),
        _ => return None,
    };
    if end - start > COUNTED_MAX || code.iter().any(|inst| inst.op == Op::SegmentEnd) {
        return None;
    }
    let condition = last.a;
    let writes = |register: u16| code.iter().enumerate().filter(move |(_, inst)| int_result(inst) == Some(register));
    let only = |register: u16| {
        let mut found = writes(register);
        found.next().filter(|_| found.next().is_none())
    };
    let (test_at, test) = only(condition).filter(|(_, inst)| inst.op == Op::ILt)?;
    let (index, bound) = (test.b, test.c);
    let (step_at, step) = only(index).filter(|(_, inst)| inst.op == Op::IAdd)?;
    let by = if step.b == index { step.c } else { step.b };
    let counts_by_one = (step.b == index || step.c == index) && ones.contains(&by);
    if !counts_by_one || step_at > test_at || writes(bound).next().is_some() {
        return None;
    }
    let mut arrays = Vec::new();
    for (at, inst) in code.iter().enumerate() {
        if matches!(inst.op, Op::Elem | Op::IElem | Op::PrimalElem) && inst.c == index {
            if at > step_at {
                return None;
            }
            arrays.push(inst.b);
        }
    }
    let step = start + step_at as u32;
    (!arrays.is_empty()).then_some(Counted { index, step, bound, arrays, condition, exit, cost, site })
}

/// The integer register that an instruction of a tight loop writes.
fn int_result(inst: &Inst) -> Option<u16> {
    let writes = match inst.op {
        Op::IMov | Op::IConst | Op::Len | Op::IElem | Op::IField => true,
        op => op.is_scalar() && op.info().operands[0].role == Role::Def(Bank::Int),
    };
    writes.then_some(inst.a)
}

/// The integer registers that are 1 throughout a function.
fn ones(stream: &Stream) -> BTreeSet<u16> {
    let (mut ones, mut others) = (BTreeSet::new(), BTreeSet::new());
    others.extend(0..stream.int_params as u16);
    for inst in &stream.code {
        match inst.op {
            Op::IConst if inst.imm == 1 => _ = ones.insert(inst.a),
            Op::Call | Op::CallClosure => others.extend(&stream.calls[inst.imm as usize].defs.ints),
            Op::Fork => {
                let tasks = stream.forks[inst.imm as usize].tasks.iter();
                others.extend(tasks.flat_map(|task| &task.defs.ints));
            }
            Op::VariantTag | Op::IPayload => _ = others.insert(inst.a),
            _ => others.extend(int_result(inst)),
        }
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
        self.emit.b.ins().brif(room, group, &[], single, &[]);

        self.emit.b.switch_to_block(group);
        for round in 0..GROUP {
            self.group = Some(GroupRound { index: counted.index, first: index, round: round as usize });
            for at in tight.start..tight.end {
                self.at = at;
                if at == counted.step {
                    // From the first round's index, so that the rounds' addresses don't depend on each other.
                    let next = self.emit.b.ins().iadd_imm_s(index, 1 + round);
                    self.set_int(counted.index, next);
                } else {
                    self.inst(&self.stream.code[at as usize]);
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
    pub(super) fn target(&self, position: u32) -> Block {
        match &self.inside {
            Some(TightLoop { start, end, head: Some(head), .. }) if position == *start && self.at <= *end => *head,
            _ => self.blocks[&position],
        }
    }
}
