//! Rounds of an adjoint two at a time, in vectors of two ([`crate::vectors`]).
//!
//! No round asks for what another one has added to adjoints in memory. So what a pair adds to an array is added once,
//! too, and sums keep their order as long as no round adds to an element, of whatever array, that its neighbour adds
//! to. That is found out where the loop begins: all indices go back by one, so that the elements' distances stay.
//! Arrays may be one, and they may share elements, if one was made of the other's.

use crate::emit::Emit;
use crate::lenient::{Leniency, branch_on_nan, branch_on_nan_in_vectors, pure};
use crate::linear::{Linear, Linears};
use crate::segment::Registers;
use crate::vectors::{Both, Lanes, MACHINE_HAS_VECTORS, Way, is_for_vectors, load, splat};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64X2, I8};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::{Inst, Numbers, Pure, Stream};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many rounds with this code run together without tests: 1 if they are so long that what a test costs is little
/// beside them, and that writing them out takes time.
pub(crate) fn rounds_together(code: &[Inst]) -> i64 {
    if code.len() <= 100 { 4 } else { 1 }
}

/// A loop that adds to more arrays isn't written in pairs: it would be asked of too many whether they are the same.
const ARRAYS_MAX: usize = 6;

/// Something that a round adds to an element's adjoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added {
    /// What tells the array.
    pub(crate) array: u16,
    /// The integer register with the element's index.
    pub(crate) index: u16,
    /// The real register with what is added.
    pub(crate) contribution: u16,
}

/// The rounds of a loop, as they are derived.
#[derive(Clone, Copy)]
pub(crate) struct Rounds<'c> {
    /// What has run before them.
    pub(crate) prologue: &'c [Inst],
    pub(crate) code: &'c [Inst],
    pub(crate) moves: &'c [Inst],
    pub(crate) leniency: &'c Leniency,
    /// For each instruction of the code, whether it computes the same in all rounds and has run before them.
    pub(crate) known: &'c [bool],
}

/// What is known before the rounds.
pub(crate) struct BeforeRounds<'h> {
    /// For each array, where the adjoints of its elements begin; 0 if they have none.
    pub(crate) arrays: &'h BTreeMap<u16, Value>,
    /// As [`Pairs::splats`] says.
    pub(crate) splats: &'h HashMap<Both, Value>,
}

/// Rounds that can be written in pairs, with what is known of them.
pub(crate) struct Pairs<'c> {
    rounds: Rounds<'c>,
    added: Vec<Added>,
    /// The arrays that they add to, and how far the index in each is from that in the first one.
    arrays: BTreeMap<u16, Linear>,
    /// What rounds write that the next ones may read.
    changed: BTreeSet<Reg>,
    /// By how much integers among these change from one round to the next.
    steps: BTreeMap<u16, i64>,
    /// The instructions that load elements which stand side by side.
    adjacent: BTreeSet<usize>,
}

impl<'c> Pairs<'c> {
    /// `None` if rounds can't be written in pairs, or if that wouldn't pay. `lasts`: whether a register is one whose
    /// value the next round finds; `saved`: the registers of which nothing is known when a round begins, because what
    /// they hold is loaded then, or because they count something.
    pub(crate) fn new(
        rounds: Rounds<'c>,
        added: Vec<Added>,
        lasts: impl Fn(Reg) -> bool,
        saved: impl IntoIterator<Item = Reg>,
    ) -> Option<Pairs<'c>> {
        let all = || rounds.code.iter().chain(rounds.moves);
        let changed: BTreeSet<Reg> = all().filter_map(Inst::pure_result).filter(|&reg| lasts(reg)).collect();
        let saved: BTreeSet<Reg> = saved.into_iter().collect();
        let mut linears = Linears::new(|register| !saved.contains(&Reg::int(register)));
        rounds.prologue.iter().for_each(|inst| linears.follow(pure(inst), true));
        let mut loads = Vec::new();
        for (n, inst) in rounds.code.iter().enumerate() {
            if let Pure::KeptElem { index, .. } = pure(inst) {
                loads.push((n, linears.of(index.0)));
            }
            linears.follow(pure(inst), rounds.known[n]);
        }
        let indexes: Vec<Option<Linear>> = added.iter().map(|added| linears.of(added.index)).collect();
        rounds.moves.iter().for_each(|inst| linears.follow(pure(inst), false));
        let ints = changed.iter().filter(|reg| reg.bank == Bank::Int).map(|reg| reg.index);
        let steps: BTreeMap<u16, i64> =
            ints.clone().filter_map(|register| Some((register, linears.of(register)?.above(register)?))).collect();
        let stepped: BTreeMap<u16, Option<i64>> = ints.map(|int| (int, steps.get(&int).copied())).collect();
        let goes_back = |index: &Option<Linear>| index.as_ref().and_then(|index| index.change(&stepped)) == Some(-1);
        // Elements of one array that a pair adds to are the same ones, one after the other.
        let mut index_of: BTreeMap<u16, &Option<Linear>> = BTreeMap::new();
        let side_by_side = added
            .iter()
            .zip(&indexes)
            .all(|(added, index)| goes_back(index) && *index_of.entry(added.array).or_insert(index) == index);
        let first = index_of.values().next().and_then(|index| index.as_ref())?;
        let distance = |index: &Option<Linear>| index.as_ref()?.minus(first);
        let arrays: BTreeMap<u16, Linear> =
            index_of.iter().map(|(&array, &index)| Some((array, distance(index)?))).collect::<Option<_>>()?;
        let few = arrays.len() <= ARRAYS_MAX;
        let adjacent = loads.iter().filter(|(_, index)| goes_back(index)).map(|&(n, _)| n).collect();
        let pairs = Pairs { rounds, added, arrays, changed, steps, adjacent };
        let pays = MACHINE_HAS_VECTORS && side_by_side && few && pairs.are_mostly_alike();
        pays.then_some(pairs)
    }

    /// Whether most of what rounds compute doesn't depend on the rounds before.
    fn are_mostly_alike(&self) -> bool {
        let mut handed_on = self.changed.clone();
        self.steps.keys().for_each(|&register| _ = handed_on.remove(&Reg::int(register)));
        let (mut alike, mut others) = (0, 0);
        for (n, inst) in self.rounds.code.iter().enumerate().filter(|&(n, _)| !self.rounds.known[n]) {
            let mut depends = false;
            inst.for_each_reg(&Stream::default(), |reg, def| depends |= !def && handed_on.contains(&reg));
            let result = inst.pure_result().expect("derived code touches registers only");
            if depends {
                handed_on.insert(result);
            } else {
                handed_on.remove(&result);
            }
            if result.bank == Bank::Real {
                let is_vector = !depends && self.is_vector(n, inst);
                *(if is_vector { &mut alike } else { &mut others }) += 1;
            }
        }
        let vectors = self.added.iter().filter(|added| !handed_on.contains(&Reg::real(added.contribution))).count();
        others < alike + vectors && vectors == self.added.len()
    }

    /// Whether the result of an instruction is a vector, if any operand is one.
    fn is_vector(&self, number: usize, inst: &Inst) -> bool {
        match pure(inst) {
            Pure::Scalar(inst) => self.op(number, inst.op).is_some(),
            Pure::KeptElem { .. } => self.adjacent.contains(&number),
            _ => true,
        }
    }

    /// What a scalar instruction is on vectors, if there is such a thing.
    fn op(&self, number: usize, op: Op) -> Option<Op> {
        match op {
            Op::StrongMul if self.rounds.leniency.products[number] => Some(Op::Mul),
            op => is_for_vectors(op).then_some(op),
        }
    }

    /// To how many arrays rounds add.
    pub(crate) fn arrays(&self) -> usize {
        self.arrays.len()
    }

    /// Whether no two elements that a round adds to are one or neighbours. Those of constant arrays don't count:
    /// nothing is added there. `registers` are as a round finds them.
    pub(crate) fn are_apart(&self, emit: &mut Emit<'_>, arrays: &BTreeMap<u16, Value>, registers: &Registers) -> Value {
        const BYTES: i64 = size_of::<f64>() as i64;
        let mut elements = Vec::new();
        for (array, distance) in &self.arrays {
            let distance = distance.value(emit, registers);
            let place = match emit.constant(distance) {
                Some(distance) => emit.plus(arrays[array], distance.wrapping_mul(BYTES)),
                None => {
                    let offset = emit.b.ins().ishl_imm_u(distance, 3);
                    emit.b.ins().iadd(arrays[array], offset)
                }
            };
            let constant = emit.is_zero(arrays[array]);
            elements.push((place, constant));
        }
        let mut apart = emit.b.ins().iconst(I8, 1);
        for (n, &(a, constant)) in elements.iter().enumerate() {
            for &(b, _) in &elements[n + 1..] {
                let distance = emit.b.ins().isub(a, b);
                let distance = emit.b.ins().iadd_imm_s(distance, BYTES);
                let far = emit.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, distance, 2 * BYTES);
                let fine = emit.b.ins().bor(far, constant);
                apart = emit.b.ins().band(apart, fine);
            }
        }
        apart
    }

    /// Whether rounds write a register for the next ones.
    pub(crate) fn changes(&self, reg: Reg) -> bool {
        self.changed.contains(&reg)
    }

    /// Before the rounds: the vectors of what is the same in all of them. `registers` hold that.
    pub(crate) fn splats(&self, emit: &mut Emit<'_>, registers: &Registers) -> HashMap<Both, Value> {
        let mut differs = self.changed.clone();
        let mut splats = HashMap::new();
        for (n, inst) in self.rounds.code.iter().enumerate().filter(|&(n, _)| !self.rounds.known[n]) {
            if matches!(pure(inst), Pure::Scalar(inst) if self.op(n, inst.op).is_some()) {
                inst.for_each_reg(&Stream::default(), |reg, def| {
                    let value = registers.reals.get(usize::from(reg.index)).copied().flatten();
                    if !def
                        && !differs.contains(&reg)
                        && let Some(value) = value
                    {
                        splats.entry(Both::Same(value)).or_insert_with(|| splat(emit, value));
                    }
                });
            }
            differs.extend(inst.pure_result());
        }
        splats
    }

    /// Writes two rounds. `registers` are as the first one finds them, `loaded` is what each of them loads first.
    /// Goes to `failed` before anything is added to memory if strong products have to be looked at. Returns what lasts
    /// as the second round leaves it.
    pub(crate) fn write(
        &self,
        emit: &mut Emit<'_>,
        registers: &Registers,
        loaded: &[(Reg, Both)],
        hoisted: &BeforeRounds<'_>,
        failed: Block,
    ) -> Registers {
        let scratch = Registers::new(registers.reals.len(), registers.ints.len());
        let mut lanes = PairLanes { lanes: Lanes::new(Way::Backwards, hoisted.splats.clone()), scratch };
        let alike = self.alike(emit, &mut lanes, registers, loaded);
        let mut registers = registers.clone();
        let mut tests = [const { Vec::new() }; 2];
        let mut added = [const { Vec::new() }; 2];
        for round in 0..2 {
            let mut held = Held::of(&registers);
            loaded.iter().for_each(|&(reg, both)| *held.at(reg) = Some(both));
            let step = |held: &mut Held, lanes: &mut PairLanes, emit: &mut Emit<'_>, (inst, lenient, done)| {
                let result = Inst::pure_result(inst).expect("derived code touches registers only");
                let both = match done {
                    Some(both) => both,
                    None => Both::Same(lanes.run(emit, held, (inst, lenient), round)),
                };
                *held.at(result) = Some(both);
            };
            for (n, inst) in self.rounds.code.iter().enumerate().filter(|&(n, _)| !self.rounds.known[n]) {
                step(&mut held, &mut lanes, emit, (inst, self.rounds.leniency.products[n], alike[n]));
            }
            tests[round] = self.rounds.leniency.tests.iter().map(|&n| held.real(n)).collect();
            added[round] = self.added.iter().map(|each| (held.int(each.index), held.real(each.contribution))).collect();
            for inst in self.rounds.moves {
                step(&mut held, &mut lanes, emit, (inst, false, None));
            }
            for &reg in &self.changed {
                let both = held.at(reg).expect("what lasts has a value");
                let value = lanes.lanes.of_round(emit, both, round);
                match reg.bank {
                    Bank::Real => registers.reals[usize::from(reg.index)] = Some(value),
                    _ => registers.ints[usize::from(reg.index)] = Some(value),
                }
            }
        }
        branch_if_nan(emit, &mut lanes.lanes, &tests, failed);
        let [_, second] = added;
        self.add(emit, &mut lanes.lanes, second, hoisted);
        registers
    }

    /// For each instruction of the code its results, unless they depend on what the first round hands to the second.
    fn alike(
        &self,
        emit: &mut Emit<'_>,
        lanes: &mut PairLanes,
        registers: &Registers,
        loaded: &[(Reg, Both)],
    ) -> Vec<Option<Both>> {
        let mut held = Held::of(registers);
        for &reg in &self.changed {
            let step = (reg.bank == Bank::Int).then(|| self.steps.get(&reg.index)).flatten();
            *held.at(reg) = step.map(|&step| {
                let first = registers.int(reg.index);
                Both::Each([first, emit.plus(first, step)])
            });
        }
        loaded.iter().for_each(|&(reg, both)| *held.at(reg) = Some(both));
        let mut results = Vec::with_capacity(self.rounds.code.len());
        for (n, inst) in self.rounds.code.iter().enumerate() {
            if self.rounds.known[n] {
                results.push(None);
                continue;
            }
            let result = self.in_both(emit, lanes, &mut held, (n, inst));
            *held.at(inst.pure_result().expect("derived code touches registers only")) = result;
            results.push(result);
        }
        results
    }

    /// The results of an instruction in both rounds, if its operands are known in both.
    fn in_both(
        &self,
        emit: &mut Emit<'_>,
        lanes: &mut PairLanes,
        held: &mut Held,
        (number, inst): (usize, &Inst),
    ) -> Option<Both> {
        let mut operands = Vec::new();
        inst.for_each_reg(&Stream::default(), |reg, def| {
            if !def {
                operands.push(*held.at(reg));
            }
        });
        let operands: Vec<Both> = operands.into_iter().collect::<Option<_>>()?;
        let lenient = self.rounds.leniency.products[number];
        let differs = operands.iter().any(|both| !matches!(both, Both::Same(_)));
        Some(match pure(inst) {
            Pure::PrimalMov { src, .. } => held.real(src.0),
            Pure::IMov { src, .. } => held.int(src.0),
            _ if !differs => Both::Same(lanes.run(emit, held, (inst, lenient), 0)),
            Pure::Scalar(inst) if let Some(op) = self.op(number, inst.op) => {
                let args: Vec<Value> = operands.iter().map(|&both| lanes.lanes.vector(emit, both)).collect();
                Both::Vector(emit.scalar(op, &args))
            }
            Pure::KeptElem { object, index, .. }
                if self.adjacent.contains(&number)
                    && let Both::Same(object) = held.int(object.0) =>
            {
                let second = lanes.lanes.of_round(emit, held.int(index.0), 1);
                Both::Vector(emit.kept_element(F64X2, object, second))
            }
            _ => Both::Each([0, 1].map(|round| lanes.run(emit, held, (inst, lenient), round))),
        })
    }

    /// Adds what the rounds contribute to elements.
    fn add(&self, emit: &mut Emit<'_>, lanes: &mut Lanes, second: Vec<(Both, Both)>, hoisted: &BeforeRounds<'_>) {
        let mut by_array: BTreeMap<u16, Vec<(Both, Both)>> = BTreeMap::new();
        for (added, parts) in self.added.iter().zip(second) {
            by_array.entry(added.array).or_default().push(parts);
        }
        for (array, parts) in by_array {
            // Before the branch: what is computed behind it is not there for other arrays.
            let added: Vec<(Value, Value)> =
                parts.iter().map(|&(index, both)| (lanes.of_round(emit, index, 1), lanes.vector(emit, both))).collect();
            emit.add_to_elements(hoisted.arrays[&array], &added);
        }
    }
}

/// What the registers hold in the rounds of a pair, as far as it is known.
struct Held {
    reals: Vec<Option<Both>>,
    ints: Vec<Option<Both>>,
}

impl Held {
    fn of(registers: &Registers) -> Held {
        let same = |list: &[Option<Value>]| list.iter().map(|value| value.map(Both::Same)).collect();
        Held { reals: same(&registers.reals), ints: same(&registers.ints) }
    }

    fn at(&mut self, reg: Reg) -> &mut Option<Both> {
        let list = if reg.bank == Bank::Real { &mut self.reals } else { &mut self.ints };
        &mut list[usize::from(reg.index)]
    }

    fn get(&self, reg: Reg) -> Both {
        let list = if reg.bank == Bank::Real { &self.reals } else { &self.ints };
        list[usize::from(reg.index)].expect("derived code assigns before it reads")
    }

    fn real(&self, register: u16) -> Both {
        self.get(Reg::real(register))
    }

    fn int(&self, register: u16) -> Both {
        self.get(Reg::int(register))
    }
}

/// The lanes of a pair, and where an instruction of one round finds its operands and leaves its result.
struct PairLanes {
    lanes: Lanes,
    scratch: Registers,
}

impl PairLanes {
    /// Writes an instruction in one round. Returns its result.
    fn run(&mut self, emit: &mut Emit<'_>, held: &Held, (inst, lenient): (&Inst, bool), round: usize) -> Value {
        inst.for_each_reg(&Stream::default(), |reg, def| {
            if !def {
                let value = self.lanes.of_round(emit, held.get(reg), round);
                self.scratch.set(reg, value);
            }
        });
        self.scratch.run(emit, inst, lenient);
        let result = inst.pure_result().expect("derived code touches registers only");
        self.scratch.get(result)
    }
}

/// Goes to a block if one of the values is NaN in one of the rounds.
fn branch_if_nan(emit: &mut Emit<'_>, lanes: &mut Lanes, tests: &[Vec<Both>; 2], target: Block) {
    let (mut vectors, mut scalars) = (Vec::new(), Vec::new());
    for (&first, &second) in tests[0].iter().zip(&tests[1]) {
        match first == second && matches!(first, Both::Vector(_)) {
            true => vectors.push(lanes.vector(emit, first)),
            false => scalars.extend([lanes.of_round(emit, first, 0), lanes.of_round(emit, second, 1)]),
        }
    }
    branch_on_nan(emit, &scalars, target);
    branch_on_nan_in_vectors(emit, &vectors, target);
}

/// What two rounds have saved, which ends so many bytes before an address for the first one, and what registers it goes
/// to.
pub(crate) fn saved(
    emit: &mut Emit<'_>,
    numbers: Numbers,
    (at, before): (Value, i64),
    [real, int]: [usize; 2],
) -> Vec<(Reg, Both)> {
    let bytes = numbers.bytes() as i64;
    let starts = [before - bytes, before - 2 * bytes];
    let reals: Vec<(Reg, Both)> = (0..numbers.reals)
        .map(|n| {
            let offsets = starts.map(|start| start + numbers.real(n) as i64);
            (Reg::real((real + n) as u16), load(emit, Bank::Real, at, offsets))
        })
        .collect();
    let ints = (0..numbers.ints).map(|n| {
        let offsets = starts.map(|start| start + numbers.int(n) as i64);
        (Reg::int((int + n) as u16), load(emit, Bank::Int, at, offsets))
    });
    reals.into_iter().chain(ints).collect()
}
