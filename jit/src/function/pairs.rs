//! Rounds of a counted loop two at a time, in vectors of two ([`crate::vectors`]).
//!
//! In the rounds of a group nothing traps and nothing is asked for that another round has written to memory, so that it
//! makes no difference in which order they compute: first what two of them do alike, then, round by round, what depends
//! on the round before.

use super::Function;
use super::cell;
use super::constants::Constants;
use super::tight::{Counted, TightLoop};
use crate::emit::UNALIGNED;
use crate::vectors::{Both, Lanes, MACHINE_HAS_VECTORS, Way, is_for_vectors, splat};
use cranelift_codegen::ir::types::F64X2;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::layout::ARRAY_HEADER;
use dualvm_vm::native::{Form, Inst, LoopSite, Numbers, Pure, ScalarInst, Stream};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is known of rounds that are computed in pairs.
#[derive(Clone, Debug)]
pub(super) struct Paired {
    /// The registers that a round reads as the round before left them, but for the index.
    handed_on: BTreeSet<Reg>,
    /// The registers that rounds write.
    written: BTreeSet<Reg>,
    /// Registers that are the same in all rounds, and operands of vectors.
    splatted: BTreeSet<u16>,
}

/// Two rounds of a group.
struct Pair<'p> {
    counted: &'p Counted,
    paired: &'p Paired,
    /// The number of the first round in its group.
    first_round: i64,
    /// The index in the group's first round.
    first: Value,
    /// How many elements the builder has before the group.
    first_len: Value,
    builder: Option<Value>,
    site: Option<&'p LoopSite>,
    lanes: Lanes,
}

/// What a round writes to memory.
#[derive(Default)]
struct Written {
    pushed: Vec<Both>,
    /// To the trail.
    saved: Vec<Saved>,
    /// As the entry of an iteration.
    entry: Vec<Both>,
}

struct Saved {
    numbers: Numbers,
    values: Vec<Both>,
    edge: Option<u8>,
}

impl Saved {
    fn bytes(&self) -> i64 {
        self.numbers.bytes() as i64 + i64::from(self.edge.is_some())
    }
}

/// What registers hold in the rounds of a pair, where they have been written.
type Held = BTreeMap<Reg, Option<Both>>;

impl Paired {
    /// `None` if a loop's rounds can't be computed in pairs, or if that wouldn't pay.
    pub(super) fn new(
        stream: &Stream,
        constants: &Constants,
        code: &[Inst],
        (index, near): (u16, &BTreeMap<u16, i64>),
    ) -> Option<Paired> {
        let is_near = |register: u16| near.contains_key(&register);
        let may_stand = |inst: &Inst| match inst.form() {
            Form::Pure(Pure::Scalar(inst)) => !inst.op.info().traps && inst.op != Op::StrongMul,
            Form::Pure(Pure::PrimalMov { .. } | Pure::PrimalConst { .. } | Pure::IMov { .. } | Pure::IConst { .. }) => {
                true
            }
            Form::PrimalElem { index, .. } => is_near(index.0),
            Form::PrimalPush { .. } | Form::RegionRound { .. } | Form::RegionSave { .. } => true,
            _ => false,
        };
        if !MACHINE_HAS_VECTORS || !code.iter().all(may_stand) {
            return None;
        }
        let mut written = BTreeSet::new();
        let mut handed_on = BTreeSet::new();
        let results: BTreeSet<Reg> = code.iter().filter_map(|inst| result(stream, inst)).collect();
        for inst in code {
            handed_on.extend(
                operands(stream, inst).into_iter().filter(|reg| results.contains(reg) && !written.contains(reg)),
            );
            written.extend(result(stream, inst));
        }
        handed_on.remove(&Reg::int(index));
        // Some are written what they always hold.
        handed_on.retain(|reg| match reg.bank {
            Bank::Real => constants.real(reg.index).is_none(),
            _ => constants.int(reg.index).is_none(),
        });
        let mut depends = handed_on.clone();
        let (mut alike, mut apart) = (0, 0);
        let mut splatted = BTreeSet::new();
        for inst in code {
            let operands = operands(stream, inst);
            let Some(result) = result(stream, inst) else { continue };
            if operands.iter().any(|reg| depends.contains(reg)) {
                depends.insert(result);
                continue;
            }
            depends.remove(&result);
            match inst.pure() {
                Some(Pure::Scalar(ScalarInst { op, .. })) if is_for_vectors(op) => {
                    alike += 1;
                    let same = |reg: &Reg| !written.contains(reg) && constants.real(reg.index).is_none();
                    splatted.extend(operands.iter().filter(|reg| same(reg)).map(|reg| reg.index));
                }
                Some(Pure::Scalar(_)) if result.bank == Bank::Real => apart += 1,
                _ => {}
            }
        }
        (alike > apart).then_some(Paired { handed_on, written, splatted })
    }
}

fn operands(stream: &Stream, inst: &Inst) -> Vec<Reg> {
    let mut found = Vec::new();
    inst.for_each_reg(stream, |reg, def| found.extend((!def && reg.bank != Bank::Ref).then_some(reg)));
    found
}

fn result(stream: &Stream, inst: &Inst) -> Option<Reg> {
    let mut found = None;
    inst.for_each_reg(stream, |reg, def| found = found.or(def.then_some(reg)));
    found
}

impl Function<'_, '_> {
    /// The vectors of what is the same in all rounds.
    pub(super) fn splats(&mut self, paired: &Paired) -> BTreeMap<u16, Value> {
        let splats = paired.splatted.iter().map(|&register| {
            let value = self.real(register);
            (register, splat(self.emit, value))
        });
        splats.collect()
    }

    /// Writes the rounds of a group. The index is `first` in the first one, the builder has `first_len` elements.
    pub(super) fn pairs(
        &mut self,
        (tight, counted, paired): (&TightLoop, &Counted, &Paired),
        [first, first_len]: [Value; 2],
        splats: &BTreeMap<u16, Value>,
        rounds: i64,
    ) {
        self.load_late();
        let stream = self.stream;
        let site = counted.site().map(|site| &stream.loops[site]);
        let builder = tight.pushes().map(|pushes| pushes.builder);
        for first_round in (0..rounds).step_by(2) {
            let put: HashMap<Both, Value> =
                splats.iter().map(|(&register, &vector)| (Both::Same(self.real(register)), vector)).collect();
            let lanes = Lanes::new(Way::Forwards, put);
            self.pair(tight, Pair { counted, paired, first_round, first, first_len, builder, site, lanes });
        }
    }

    fn pair(&mut self, tight: &TightLoop, mut pair: Pair<'_>) {
        let code = &self.stream.code[tight.body()];
        let indices = [0, 1].map(|round| self.emit.plus(pair.first, pair.first_round + round));
        let index = (Reg::int(pair.counted.index()), Some(Both::Each(indices)));

        // What both do alike.
        let mut held: Held = pair.paired.handed_on.iter().map(|&reg| (reg, None)).chain([index]).collect();
        let mut alike = Vec::with_capacity(code.len());
        for inst in code {
            let both = self.in_both(&mut pair, &held, inst);
            held.extend(result(self.stream, inst).map(|reg| (reg, both)));
            alike.push(both);
        }

        // The rest of it, one after the other.
        let mut held = Held::from([index]);
        for &reg in &pair.paired.handed_on {
            let value = self.operand(reg.bank, reg.index);
            held.insert(reg, Some(Both::Same(value)));
        }
        let first = self.round(&mut pair, (code, &alike), &mut held, 0);
        for &reg in &pair.paired.handed_on {
            let both = self.both(&held, reg);
            let value = pair.lanes.of_round(self.emit, both, 0);
            held.insert(reg, Some(Both::Same(value)));
        }
        held.extend([index]);
        let second = self.round(&mut pair, (code, &alike), &mut held, 1);
        for &reg in &pair.paired.written {
            let both = self.both(&held, reg);
            let value = pair.lanes.of_round(self.emit, both, 1);
            match reg.bank {
                Bank::Real => self.set_real(reg.index, value),
                _ => self.set_int(reg.index, value),
            }
        }

        self.push_both(&mut pair, [&first.pushed, &second.pushed]);
        self.append_both(&mut pair, [&first.saved, &second.saved]);
        if let Some(site) = pair.site {
            let (top, bytes) = (self.emit.b.use_var(self.open_loop.top), site.layout.entry.bytes() as i64);
            let at = [pair.first_round, pair.first_round + 1].map(|round| round * bytes);
            self.store_both(&mut pair, (top, at), site.layout.entry, [&first.entry, &second.entry]);
        }
    }

    /// Writes what one round computes from what the one before hands on. Returns what it writes to memory.
    fn round(
        &mut self,
        pair: &mut Pair<'_>,
        (code, alike): (&[Inst], &[Option<Both>]),
        held: &mut Held,
        round: usize,
    ) -> Written {
        let mut written = Written::default();
        for (inst, &both) in code.iter().zip(alike) {
            match inst.form() {
                Form::PrimalPush { value, .. } => written.pushed.push(self.both(held, value.into())),
                Form::RegionSave { site } => {
                    let site = &self.stream.saves[site];
                    let values = self.values(held, [&site.reals, &site.ints]);
                    written.saved.push(Saved { numbers: site.numbers(), values, edge: site.edge });
                }
                _ => {
                    let value = both.unwrap_or_else(|| Both::Same(self.in_one(pair, held, inst, round)));
                    held.extend(result(self.stream, inst).map(|reg| (reg, Some(value))));
                }
            }
        }
        if let Some(site) = pair.site {
            written.entry = self.values(held, [&site.entry_reals, &site.entry_ints]);
        }
        written
    }

    /// What a register holds in both rounds.
    fn both(&mut self, held: &Held, reg: Reg) -> Both {
        match held.get(&reg) {
            Some(both) => both.expect("what is read has a value"),
            None => Both::Same(self.operand(reg.bank, reg.index)),
        }
    }

    fn values(&mut self, held: &Held, [reals, ints]: [&[u16]; 2]) -> Vec<Both> {
        let registers = reals.iter().map(|&n| Reg::real(n)).chain(ints.iter().map(|&n| Reg::int(n)));
        registers.map(|reg| self.both(held, reg)).collect()
    }

    /// The results of an instruction in both rounds, if it has one and its operands are known in both.
    fn in_both(&mut self, pair: &mut Pair<'_>, held: &Held, inst: &Inst) -> Option<Both> {
        if let Form::PrimalElem { array, index, .. } = inst.form() {
            // The index is known by how far it is from that of the group's first round.
            let by = pair.counted.near(index.0)? + pair.first_round;
            let base = self.base_of_elements(array.0);
            let place = self.element_of(base, pair.first);
            let at = cell(ARRAY_HEADER) + 8 * by as i32;
            return Some(Both::Vector(self.emit.b.ins().load(F64X2, UNALIGNED, place, at)));
        }
        let registers = operands(self.stream, inst);
        if registers.iter().any(|reg| held.get(reg).is_some_and(Option::is_none)) {
            return None;
        }
        let operands: Vec<Both> = registers.iter().map(|&reg| self.both(held, reg)).collect();
        let differs = operands.iter().any(|both| !matches!(both, Both::Same(_)));
        Some(match inst.form() {
            Form::Pure(Pure::PrimalMov { .. } | Pure::IMov { .. }) => operands[0],
            Form::Pure(Pure::Scalar(scalar)) if differs && is_for_vectors(scalar.op) => {
                let args: Vec<Value> = operands.iter().map(|&both| pair.lanes.vector(self.emit, both)).collect();
                Both::Vector(self.emit.scalar(scalar.op, &args))
            }
            Form::Pure(_) | Form::RegionRound { .. } => match differs {
                false => Both::Same(self.in_one(pair, held, inst, 0)),
                true => Both::Each([0, 1].map(|round| self.in_one(pair, held, inst, round))),
            },
            _ => return None,
        })
    }

    /// The result of an instruction in one round.
    fn in_one(&mut self, pair: &mut Pair<'_>, held: &Held, inst: &Inst, round: usize) -> Value {
        let mut args = Vec::new();
        for reg in operands(self.stream, inst) {
            let both = self.both(held, reg);
            args.push(pair.lanes.of_round(self.emit, both, round));
        }
        match inst.form() {
            Form::Pure(Pure::Scalar(scalar)) => self.emit.scalar(scalar.op, &args),
            Form::Pure(Pure::PrimalConst { value, .. }) => self.emit.b.ins().f64const(f64::from_bits(value)),
            Form::Pure(Pure::IConst { value, .. }) => self.emit.int(value),
            Form::RegionRound { .. } => self.emit.plus(args[0], 1),
            Form::Pure(Pure::PrimalMov { .. } | Pure::IMov { .. }) => args[0],
            form => unreachable!("{form:?} computes nothing, or the same in pairs"),
        }
    }

    /// Writes what the rounds push.
    fn push_both(&mut self, pair: &mut Pair<'_>, pushed: [&[Both]; 2]) {
        let Some(builder) = pair.builder else { return };
        let each = pushed[0].len();
        let place = self.element_of(builder, pair.first_len);
        let at = [0, 1].map(|round| i64::from(cell(ARRAY_HEADER + (pair.first_round as usize + round) * each)));
        self.store_both(pair, (place, at), Numbers { reals: each, ints: 0 }, pushed);
    }

    /// Appends to the trail what the rounds save.
    fn append_both(&mut self, pair: &mut Pair<'_>, [first, second]: [&[Saved]; 2]) {
        let all: i64 = first.iter().map(Saved::bytes).sum();
        let top = self.emit.b.use_var(self.open_loop.top);
        let mut at = [0, all];
        for (first, second) in first.iter().zip(second) {
            self.store_both(pair, (top, at), first.numbers, [&first.values, &second.values]);
            if let Some(edge) = first.edge {
                let edge = self.emit.int(i64::from(edge));
                for start in at {
                    let offset = start + first.numbers.bytes() as i64;
                    self.emit.b.ins().istore8(UNALIGNED, edge, top, offset as i32);
                }
            }
            at = at.map(|start| start + first.bytes());
        }
        if all > 0 {
            let top = self.emit.b.ins().iadd_imm_s(top, 2 * all);
            self.emit.b.def_var(self.open_loop.top, top);
        }
    }

    /// Writes numbers of both rounds so many bytes from an address, as a vector if they stand side by side.
    fn store_both(
        &mut self,
        pair: &mut Pair<'_>,
        (address, at): (Value, [i64; 2]),
        numbers: Numbers,
        values: [&[Both]; 2],
    ) {
        if at[1] - at[0] == 8
            && let ([first @ Both::Vector(_)], [second]) = (values[0], values[1])
            && first == second
        {
            let vector = pair.lanes.vector(self.emit, *first);
            self.emit.b.ins().store(UNALIGNED, vector, address, (at[0] + numbers.real(0) as i64) as i32);
            return;
        }
        for round in 0..2 {
            for (n, &both) in values[round].iter().enumerate() {
                let value = pair.lanes.of_round(self.emit, both, round);
                let offset = if n < numbers.reals { numbers.real(n) } else { numbers.int(n - numbers.reals) };
                self.emit.b.ins().store(UNALIGNED, value, address, (at[round] + offset as i64) as i32);
            }
        }
    }
}
