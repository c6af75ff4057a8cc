//! Rounds of an outer loop side by side: what an inner loop does in each of several, lane by lane.
//!
//! In `[| sum [| a[i, k] * b[k, j] for k < n |] for i < m, j < p |]` the rounds of the inner loop wait for each other,
//! as the sum has an order. Those of different `j` don't, and what they read of `b` stands side by side. So eight
//! rounds of the outer loop go through the inner one together, as vectors of two: each of them computes what it would
//! alone.

use crate::emit::{Emit, UNALIGNED};
use crate::vectors::{Way, is_for_vectors, splat};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F64, F64X2, I32, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::{Inst, Pure, ScalarInst, Stream};
use std::collections::BTreeMap;

/// How many rounds of the outer loop go together.
pub(crate) const LANES: usize = 2 * VECTORS;
const VECTORS: usize = 4;

/// How an integer changes with the rounds of the inner loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum InRounds {
    /// Not at all.
    Same,
    /// By the same amount from each to the next.
    Evenly,
    /// Somehow.
    Anyhow,
}

/// By how much an integer goes on from lane to lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// By this.
    By(i64),
    /// By the same amount each time, which isn't known before the code runs.
    Evenly,
}

/// The same in all lanes.
pub(crate) const NO_STEP: Step = Step::By(0);

/// What is known of a register in the rounds of the inner loop, before code is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// An integer.
    Int {
        /// From lane to lane.
        step: Step,
        /// How it goes on in a lane.
        in_rounds: InRounds,
    },
    /// A real: whether it differs from lane to lane.
    Real(bool),
    /// An integer of which nothing is known.
    Unknown,
}

/// An integer that is the same in all lanes and rounds.
pub(crate) const SAME: Shape = Shape::Int { step: NO_STEP, in_rounds: InRounds::Same };

/// What is known of registers.
#[derive(Default)]
pub(crate) struct Shapes(BTreeMap<Reg, Shape>);

impl Shapes {
    pub(crate) fn set(&mut self, reg: Reg, shape: Shape) {
        self.0.insert(reg, shape);
    }

    /// Of a register that nothing was said of: an integer or a real that is the same everywhere.
    pub(crate) fn of(&self, reg: Reg) -> Shape {
        let same = match reg.bank {
            Bank::Real => Shape::Real(false),
            _ => SAME,
        };
        self.0.get(&reg).copied().unwrap_or(same)
    }

    /// What a register is copied to another one of.
    pub(crate) fn copy(&mut self, dst: Reg, src: Reg) {
        self.set(dst, self.of(src));
    }

    /// An element of an array that is the same in all lanes and rounds is loaded, whose index goes on by `step`. `None`
    /// if it is an integer that differs from lane to lane.
    pub(crate) fn load(&mut self, dst: Reg, index: Reg) -> Option<()> {
        let Shape::Int { step, in_rounds } = self.of(index) else { return None };
        let shape = match dst.bank {
            Bank::Real => Shape::Real(step != NO_STEP),
            _ if step != NO_STEP => return None,
            _ if in_rounds == InRounds::Same => SAME,
            _ => Shape::Int { step, in_rounds: InRounds::Anyhow },
        };
        self.set(dst, shape);
        Some(())
    }

    /// By how much an integer goes on from lane to lane.
    pub(crate) fn step(&self, reg: Reg) -> Option<Step> {
        match self.of(reg) {
            Shape::Int { step, .. } => Some(step),
            _ => None,
        }
    }

    /// Goes on by a scalar instruction. `None` if it isn't for vectors.
    pub(crate) fn scalar(&mut self, inst: &ScalarInst) -> Option<()> {
        let args: Vec<Shape> = inst.args().iter().map(|&reg| self.of(reg)).collect();
        let result = match (inst.op, &args[..]) {
            (Op::IAdd | Op::ISub, &[Shape::Int { step: a, in_rounds: x }, Shape::Int { step: b, in_rounds: y }]) => {
                let step = match (a, b) {
                    (Step::By(a), Step::By(b)) if inst.op == Op::IAdd => a.checked_add(b).map(Step::By),
                    (Step::By(a), Step::By(b)) => a.checked_sub(b).map(Step::By),
                    _ => Some(Step::Evenly),
                };
                step.map_or(Shape::Unknown, |step| Shape::Int { step, in_rounds: x.max(y) })
            }
            (Op::IMul, &[Shape::Int { step: a, in_rounds: x }, Shape::Int { step: b, in_rounds: y }]) => {
                let in_rounds = match (x, y) {
                    (InRounds::Same, other) | (other, InRounds::Same) => other,
                    _ => InRounds::Anyhow,
                };
                // What a lane is multiplied by has to be the same in all rounds.
                match ((a, x), (b, y)) {
                    ((NO_STEP, _), (NO_STEP, _)) => Shape::Int { step: NO_STEP, in_rounds },
                    ((NO_STEP, InRounds::Same), _) | (_, (NO_STEP, InRounds::Same)) => {
                        Shape::Int { step: Step::Evenly, in_rounds }
                    }
                    _ => Shape::Unknown,
                }
            }
            _ => {
                let same_everywhere = args.iter().all(|shape| matches!(*shape, Shape::Real(false) | SAME));
                let same_in_lanes =
                    args.iter().all(|shape| matches!(*shape, Shape::Real(false) | Shape::Int { step: NO_STEP, .. }));
                let reals = args.iter().all(|shape| matches!(shape, Shape::Real(_)));
                match inst.dst.bank {
                    Bank::Real if same_in_lanes => Shape::Real(false),
                    Bank::Real if reals && (is_for_vectors(inst.op) || inst.op == Op::StrongMul) => Shape::Real(true),
                    Bank::Real => return None,
                    // What is computed from reals differs from round to round, too.
                    _ if same_everywhere && !reals => SAME,
                    _ if same_in_lanes => Shape::Int { step: NO_STEP, in_rounds: InRounds::Anyhow },
                    _ => Shape::Unknown,
                }
            }
        };
        self.set(inst.dst, result);
        Some(())
    }
}

/// Which way the lanes go along arrays: all the same one.
#[derive(Default)]
pub(crate) struct OneWay(Option<Way>);

impl OneWay {
    /// Whether lanes whose index goes on by this much stand side by side, and go this way.
    pub(crate) fn is(&mut self, step: Step) -> bool {
        let way = match step {
            Step::By(1) => Way::Forwards,
            Step::By(-1) => Way::Backwards,
            _ => return false,
        };
        *self.0.get_or_insert(way) == way
    }

    /// `None` if none goes along any.
    pub(crate) fn found(&self) -> Option<Way> {
        self.0
    }
}

/// A real in all lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WideReal {
    /// The same.
    Same(Value),
    /// Two lanes in each, which stand as their elements do in memory.
    Vectors([Value; VECTORS]),
}

/// An integer in all lanes: in the first one, and by how much it goes on from lane to lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WideInt {
    pub(crate) first: Value,
    pub(crate) step: WideStep,
}

/// By how much an integer goes on from lane to lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WideStep {
    By(i64),
    Each(Value),
}

impl WideStep {
    pub(crate) fn value(self, emit: &mut Emit<'_>) -> Value {
        match self {
            WideStep::By(step) => emit.int(step),
            WideStep::Each(step) => step,
        }
    }

    pub(crate) fn times(self, emit: &mut Emit<'_>, factor: i64) -> Value {
        match self {
            WideStep::By(step) => emit.int(step.wrapping_mul(factor)),
            WideStep::Each(step) => emit.b.ins().imul_imm_s(step, factor),
        }
    }
}

/// What registers hold in all lanes.
#[derive(Clone)]
pub(crate) struct Wide {
    way: Way,
    reals: BTreeMap<u16, WideReal>,
    ints: BTreeMap<u16, WideInt>,
    /// Real registers whose numbers are neither zero nor infinite nor NaN: a strong product with one is a plain one.
    factors: Vec<u16>,
}

impl Wide {
    pub(crate) fn new(way: Way) -> Wide {
        Wide { way, reals: BTreeMap::new(), ints: BTreeMap::new(), factors: Vec::new() }
    }

    pub(crate) fn set_real(&mut self, register: u16, value: WideReal) {
        self.factors.retain(|&factor| factor != register);
        self.reals.insert(register, value);
    }

    /// A real that is neither zero nor infinite nor NaN, in no lane.
    pub(crate) fn set_factor(&mut self, register: u16, value: WideReal) {
        self.set_real(register, value);
        self.factors.push(register);
    }

    fn set_constant(&mut self, emit: &mut Emit<'_>, register: u16, constant: f64) {
        let value = WideReal::Same(emit.b.ins().f64const(constant));
        match constant.is_finite() && constant != 0.0 {
            true => self.set_factor(register, value),
            false => self.set_real(register, value),
        }
    }

    /// What is known of an integer register.
    pub(crate) fn known(&self, register: u16) -> Option<WideInt> {
        self.ints.get(&register).copied()
    }

    fn copy(&mut self, dst: Reg, src: Reg) {
        match src.bank {
            Bank::Real if self.factors.contains(&src.index) => self.set_factor(dst.index, self.reals[&src.index]),
            Bank::Real => self.set_real(dst.index, self.reals[&src.index]),
            _ => _ = self.ints.insert(dst.index, self.ints[&src.index]),
        }
    }

    /// An integer that is the same in all lanes.
    pub(crate) fn set_same(&mut self, register: u16, value: Value) {
        self.set_int(register, value, WideStep::By(0));
    }

    pub(crate) fn set_int(&mut self, register: u16, first: Value, step: WideStep) {
        self.ints.insert(register, WideInt { first, step });
    }

    pub(crate) fn real(&self, register: u16) -> WideReal {
        self.reals[&register]
    }

    pub(crate) fn int(&self, register: u16) -> WideInt {
        self.ints[&register]
    }

    /// A real of which each lane has been computed.
    pub(crate) fn of_lanes(&self, emit: &mut Emit<'_>, lanes: &[Value; LANES]) -> WideReal {
        let pair = |n: usize| match self.way {
            Way::Forwards => [lanes[2 * n], lanes[2 * n + 1]],
            Way::Backwards => [lanes[2 * n + 1], lanes[2 * n]],
        };
        WideReal::Vectors(std::array::from_fn(|n| emit.vector(pair(n))))
    }

    /// The lanes of a real, one by one.
    pub(crate) fn lanes(&self, emit: &mut Emit<'_>, value: WideReal) -> [Value; LANES] {
        std::array::from_fn(|lane| match value {
            WideReal::Same(value) => value,
            WideReal::Vectors(vectors) => {
                let place = if self.way == Way::Forwards { lane % 2 } else { 1 - lane % 2 };
                emit.b.ins().extractlane(vectors[lane / 2], place as u8)
            }
        })
    }

    /// Whether a real is neither zero nor infinite nor NaN in all lanes.
    pub(crate) fn is_factor(emit: &mut Emit<'_>, value: WideReal) -> Value {
        let vectors = match value {
            WideReal::Same(value) => vec![splat(emit, value)],
            WideReal::Vectors(vectors) => vectors.to_vec(),
        };
        // Times zero, such a number is zero, and others are NaN; but for zeros.
        let zero = emit.real_constant(F64X2, 0.0);
        let others = vectors.into_iter().map(|vector| {
            let product = emit.b.ins().fmul(vector, zero);
            let nan = emit.b.ins().fcmp(FloatCC::Unordered, product, product);
            let none = emit.b.ins().fcmp(FloatCC::Equal, vector, zero);
            emit.b.ins().bor(nan, none)
        });
        let others: Vec<Value> = others.collect();
        let any = others.into_iter().reduce(|any, other| emit.b.ins().bor(any, other)).expect("there is a vector");
        let any = emit.b.ins().vhigh_bits(I32, any);
        emit.is_zero(any)
    }

    /// A real as vectors.
    pub(crate) fn vectors(emit: &mut Emit<'_>, value: WideReal) -> [Value; VECTORS] {
        match value {
            WideReal::Same(value) => [splat(emit, value); VECTORS],
            WideReal::Vectors(vectors) => vectors,
        }
    }

    /// By how much the index is higher than in the first lane where the elements of each vector begin in memory, if
    /// lanes are side by side there.
    fn places(&self) -> [i64; VECTORS] {
        std::array::from_fn(|n| match self.way {
            Way::Forwards => 2 * n as i64,
            Way::Backwards => -(2 * n as i64 + 1),
        })
    }

    fn is_side_by_side(&self, step: WideStep) -> bool {
        step == WideStep::By(if self.way == Way::Forwards { 1 } else { -1 })
    }

    /// Loads an element of an array of reals that begins so many words behind an address.
    pub(crate) fn load(&self, emit: &mut Emit<'_>, start: Value, index: WideInt, words: i64) -> WideReal {
        if index.step == WideStep::By(0) {
            let (address, at) = emit.element_at(start, index.first, words);
            return WideReal::Same(emit.b.ins().load(F64, UNALIGNED, address, at));
        }
        if self.is_side_by_side(index.step) {
            return WideReal::Vectors(self.places().map(|by| {
                let index = emit.plus(index.first, by);
                let (address, at) = emit.element_at(start, index, words);
                emit.b.ins().load(F64X2, UNALIGNED, address, at)
            }));
        }
        let (address, at) = emit.element_at(start, index.first, words);
        let step = index.step.times(emit, size_of::<f64>() as i64);
        // Four lanes from each of two addresses, with the step times what machines multiply by in one, and three.
        let [twice, four_times] = [1, 2].map(|shift| emit.b.ins().ishl_imm_u(step, shift));
        let three_times = emit.b.ins().iadd(step, twice);
        let half = emit.b.ins().iadd(address, four_times);
        let lanes = std::array::from_fn(|lane| {
            let start = if lane < LANES / 2 { address } else { half };
            let place = match lane % 4 {
                0 => start,
                1 => emit.b.ins().iadd(start, step),
                2 => emit.b.ins().iadd(start, twice),
                _ => emit.b.ins().iadd(start, three_times),
            };
            emit.b.ins().load(F64, UNALIGNED, place, at)
        });
        self.of_lanes(emit, &lanes)
    }

    /// Adds to adjoints of elements in all lanes, one after the other where that is one element. They begin here.
    pub(crate) fn add(&self, emit: &mut Emit<'_>, start: Value, index: WideInt, contribution: WideReal) {
        if index.step == WideStep::By(0) {
            let (address, at) = emit.element_at(start, index.first, 0);
            let mut sum = emit.load(F64, address, at);
            for lane in self.lanes(emit, contribution) {
                sum = emit.b.ins().fadd(sum, lane);
            }
            emit.store(sum, address, at);
            return;
        }
        debug_assert!(self.is_side_by_side(index.step));
        let vectors = Wide::vectors(emit, contribution);
        for (by, vector) in self.places().into_iter().zip(vectors) {
            let index = emit.plus(index.first, by);
            let (address, at) = emit.element_at(start, index, 0);
            let sum = emit.b.ins().load(F64X2, UNALIGNED, address, at);
            let sum = emit.b.ins().fadd(sum, vector);
            emit.b.ins().store(UNALIGNED, sum, address, at);
        }
    }

    /// Writes an instruction that computes.
    pub(crate) fn run(&mut self, emit: &mut Emit<'_>, inst: Pure) {
        match inst {
            Pure::Scalar(inst) => self.scalar(emit, &inst),
            Pure::PrimalMov { dst, src } => self.copy(dst.into(), src.into()),
            Pure::IMov { dst, src } => self.copy(dst.into(), src.into()),
            Pure::PrimalConst { dst, value } => self.set_constant(emit, dst.0, f64::from_bits(value)),
            Pure::IConst { dst, value } => {
                let value = emit.int(value);
                self.set_same(dst.0, value);
            }
            Pure::KeptObject { .. } | Pure::KeptElem { .. } | Pure::KeptIElem { .. } => unreachable!("it is no load"),
        }
    }

    /// Writes an instruction if it computes an integer from integers.
    pub(crate) fn count(&mut self, emit: &mut Emit<'_>, inst: &Inst) {
        let Some(pure) = inst.pure() else { return };
        let counts = match pure {
            Pure::Scalar(inst) => inst.dst.bank == Bank::Int && !inst.op.info().traps,
            pure => matches!(pure, Pure::IMov { .. } | Pure::IConst { .. }),
        };
        let mut known = true;
        inst.for_each_reg(&Stream::default(), |reg, def| {
            known &= def || reg.bank == Bank::Int && self.ints.contains_key(&reg.index)
        });
        if counts && known {
            self.run(emit, pure);
        }
    }

    fn scalar(&mut self, emit: &mut Emit<'_>, inst: &ScalarInst) {
        if inst.dst.bank == Bank::Real {
            let value = self.real_scalar(emit, inst);
            return self.set_real(inst.dst.index, value);
        }
        let args: Vec<Value> = inst.args().iter().map(|&reg| self.first(reg)).collect();
        let first = emit.scalar(inst.op, &args);
        let step = |n: usize| match inst.args()[n] {
            Reg { bank: Bank::Int, index } => self.ints[&index].step,
            _ => WideStep::By(0),
        };
        let step = match inst.op {
            Op::IAdd | Op::ISub => match (step(0), step(1)) {
                (WideStep::By(a), WideStep::By(b)) => {
                    WideStep::By(if inst.op == Op::IAdd { a.wrapping_add(b) } else { a.wrapping_sub(b) })
                }
                (a, b) => {
                    let args = [a, b].map(|step| step.value(emit));
                    WideStep::Each(emit.scalar(inst.op, &args))
                }
            },
            Op::IMul => match (step(0), step(1)) {
                (WideStep::By(0), WideStep::By(0)) => WideStep::By(0),
                (WideStep::By(0), b) => {
                    let b = b.value(emit);
                    WideStep::Each(emit.b.ins().imul(args[0], b))
                }
                (a, _) => {
                    let a = a.value(emit);
                    WideStep::Each(emit.b.ins().imul(a, args[1]))
                }
            },
            _ => WideStep::By(0),
        };
        self.set_int(inst.dst.index, first, step);
    }

    fn real_scalar(&self, emit: &mut Emit<'_>, inst: &ScalarInst) -> WideReal {
        let varies = inst
            .args()
            .iter()
            .any(|reg| reg.bank == Bank::Real && matches!(self.reals[&reg.index], WideReal::Vectors(_)));
        let is_factor = |reg: &Reg| self.factors.contains(&reg.index);
        let is_plain = inst.op == Op::StrongMul && inst.args().iter().any(is_factor);
        let op = if is_plain { Op::Mul } else { inst.op };
        if !varies {
            let args: Vec<Value> = inst.args().iter().map(|&reg| self.first(reg)).collect();
            return WideReal::Same(emit.scalar(op, &args));
        }
        let args: Vec<[Value; VECTORS]> =
            inst.args().iter().map(|reg| Wide::vectors(emit, self.reals[&reg.index])).collect();
        WideReal::Vectors(std::array::from_fn(|n| {
            let args: Vec<Value> = args.iter().map(|vectors| vectors[n]).collect();
            if op == Op::StrongMul { strong_product(emit, [args[0], args[1]]) } else { emit.scalar(op, &args) }
        }))
    }

    /// What a register holds in the first lane; in all, if it is a real.
    fn first(&self, reg: Reg) -> Value {
        match reg.bank {
            Bank::Real => match self.reals[&reg.index] {
                WideReal::Same(value) => value,
                WideReal::Vectors(_) => unreachable!("it is the same in all lanes"),
            },
            _ => self.ints[&reg.index].first,
        }
    }
}

/// The products of two vectors; where one is NaN and a factor is zero, 0.
fn strong_product(emit: &mut Emit<'_>, [a, b]: [Value; 2]) -> Value {
    let product = emit.b.ins().fmul(a, b);
    let zero = emit.real_constant(F64X2, 0.0);
    let nan = emit.b.ins().fcmp(FloatCC::Unordered, product, product);
    let [first, second] = [a, b].map(|factor| emit.b.ins().fcmp(FloatCC::Equal, factor, zero));
    let either = emit.b.ins().bor(first, second);
    let vanishes = emit.b.ins().band(nan, either);
    let bits = emit.b.ins().bitcast(I64X2, MemFlagsData::new(), product);
    let bits = emit.b.ins().band_not(bits, vanishes);
    emit.b.ins().bitcast(F64X2, MemFlagsData::new(), bits)
}
