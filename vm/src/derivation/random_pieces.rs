//! Random straight-line pieces for tests, with points at which they are regular: differentiable any number of times, at
//! some distance from where they aren't, and of moderate size.

use crate::bytecode::isa::{Bank, Op, Role, Scalar, evaluate};
use crate::derivation::graph::{Node, NodeId, bank_of};
use crate::derivation::piece::Piece;
use crate::math::{SIGMOID_SLOPE_BOUND, TANH_SLOPE_BOUND};
use fastrand::Rng;

/// A piece and values for its inputs.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) piece: Piece,
    pub(crate) reals: Vec<f64>,
    pub(crate) ints: Vec<i64>,
    /// Instructions that the piece was made of, whether or not an output needs them.
    pub(crate) ops: Vec<Op>,
}

/// The seeds of a test: `count` of them, or as the environment says (`DUALVM_SEEDS`, `DUALVM_FIRST_SEED`).
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("DUALVM_FIRST_SEED").unwrap_or(0);
    first..first + number("DUALVM_SEEDS").unwrap_or(if cfg!(miri) { 2 } else { count })
}

pub(crate) fn banks(op: Op) -> Vec<Bank> {
    let bank = |role| match role {
        Role::Use(bank) | Role::Def(bank) => bank,
        role => panic!("{op:?} has a scalar operand of role {role:?}"),
    };
    op.info().operands[1..].iter().map(|operand| bank(operand.role)).collect()
}

/// Scalar instructions, in the order of the table.
pub(crate) fn scalar_ops() -> Vec<Op> {
    Op::ALL.iter().copied().filter(|op| op.is_scalar()).collect()
}

/// A piece of up to `len` instructions that is regular at the sample's point.
pub(crate) fn regular(rng: &mut Rng, len: usize) -> Sample {
    Sampler::new(rng).run(len, &is_regular)
}

/// A piece of up to `len` instructions at a point of special values: zeros of both signs, infinities, NaN, numbers
/// at which functions are singular, and ties of these.
pub(crate) fn special(rng: &mut Rng, len: usize) -> Sample {
    let mut sampler = Sampler::new(rng);
    for n in 0..sampler.sample.reals.len() {
        let value = SPECIAL[sampler.rng.usize(..SPECIAL.len())];
        sampler.sample.reals[n] = value;
        sampler.values[n] = Scalar::Real(value);
    }
    sampler.run(len, &|_, _, _| true)
}

/// Values at which one function or another is singular.
pub(crate) const SPECIAL: [f64; 9] = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

/// Builds a piece and evaluates it as it grows.
struct Sampler<'a> {
    rng: &'a mut Rng,
    sample: Sample,
    nodes: Vec<NodeId>,
    values: Vec<Scalar>,
}

impl<'a> Sampler<'a> {
    fn new(rng: &'a mut Rng) -> Self {
        let reals: Vec<f64> = (0..rng.usize(1..=4)).map(|_| rng.f64() * 4.0 - 2.0).collect();
        let ints: Vec<i64> = (0..rng.usize(0..=2)).map(|_| rng.i64(-3..=4)).collect();
        let mut piece = Piece { reals: reals.len() as u32, ints: ints.len() as u32, ..Piece::default() };
        let mut nodes: Vec<NodeId> = (0..piece.reals).map(|n| piece.graph.add(Node::RealInput(n))).collect();
        nodes.extend((0..piece.ints).map(|n| piece.graph.add(Node::IntInput(n))));
        let values = reals.iter().map(|&x| Scalar::Real(x)).chain(ints.iter().map(|&n| Scalar::Int(n))).collect();
        Sampler { rng, sample: Sample { piece, reals, ints, ops: Vec::new() }, nodes, values }
    }

    fn run(mut self, len: usize, accept: &dyn Fn(Op, &[Scalar], Scalar) -> bool) -> Sample {
        let ops = scalar_ops();
        for _ in 0..40 * len {
            if self.sample.ops.len() == len {
                break;
            }
            let op = ops[self.rng.usize(..ops.len())];
            // Many instructions are integer ones, which derivatives don't see.
            if op.info().differentiable || self.rng.u8(..4) == 0 {
                self.step(op, accept);
            }
        }
        // An output may be an input, a constant or there twice; the last instructions are outputs more often.
        let reals: Vec<NodeId> = self.reals().collect();
        for _ in 0..self.rng.usize(1..=3) {
            let back = self.rng.usize(..reals.len()).min(self.rng.usize(..reals.len()));
            self.sample.piece.outputs.push(reals[reals.len() - 1 - back]);
        }
        self.sample
    }

    fn reals(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().copied().filter(|&id| bank_of(self.sample.piece.graph.node(id)) == Bank::Real)
    }

    fn step(&mut self, op: Op, accept: &dyn Fn(Op, &[Scalar], Scalar) -> bool) {
        let args: Vec<usize> = banks(op).into_iter().map(|bank| self.argument(bank)).collect();
        let values: Vec<Scalar> = args.iter().map(|&at| self.values[at]).collect();
        let Some(value) = evaluate(op, &values).filter(|&value| accept(op, &values, value)) else { return };
        let args: Vec<NodeId> = args.iter().map(|&at| self.nodes[at]).collect();
        let id = self.sample.piece.graph.op(op, &args);
        self.sample.ops.push(op);
        self.nodes.push(id);
        self.values.push(value);
    }

    /// The position of a value of the bank: mostly one that is there, sometimes a new constant.
    fn argument(&mut self, bank: Bank) -> usize {
        let fits = |at: &usize| bank_of(self.sample.piece.graph.node(self.nodes[*at])) == bank;
        let candidates: Vec<usize> = (0..self.nodes.len()).filter(fits).collect();
        if candidates.is_empty() || self.rng.u8(..8) == 0 {
            let value = match bank {
                Bank::Real if self.rng.bool() => Scalar::Real([0.0, -0.0, 1.0, -1.0, 2.0][self.rng.usize(..5)]),
                Bank::Real => Scalar::Real(self.rng.f64() * 4.0 - 2.0),
                _ => Scalar::Int(self.rng.i64(-2..=3)),
            };
            let node = match value {
                Scalar::Real(x) => Node::Real(x.to_bits()),
                Scalar::Int(n) => Node::Int(n),
            };
            self.nodes.push(self.sample.piece.graph.add(node));
            self.values.push(value);
            return self.nodes.len() - 1;
        }
        let back = self.rng.usize(..candidates.len()).min(self.rng.usize(..candidates.len()));
        candidates[candidates.len() - 1 - back]
    }
}

/// Whether an instruction is regular at its arguments, and its result of moderate size.
fn is_regular(op: Op, args: &[Scalar], result: Scalar) -> bool {
    let real = |n: usize| match args[n] {
        Scalar::Real(x) => x,
        Scalar::Int(n) => n as f64,
    };
    let moderate = match result {
        Scalar::Real(x) => x.abs() <= 8.0,
        Scalar::Int(n) => n.unsigned_abs() <= 1000,
    };
    let from_half_integers = |x: f64| (2.0 * x - (2.0 * x).round()).abs() > 0.1;
    moderate
        && match op {
            // Its derivative isn't that of its value.
            Op::Detach => false,
            Op::Sqrt | Op::Log | Op::Log2 | Op::Log10 | Op::Lgamma | Op::Digamma => real(0) > 0.4,
            Op::Polygamma => real(0) > 0.4 && (0.0..=3.0).contains(&real(1)),
            Op::Abs | Op::Sign | Op::Cbrt => real(0).abs() > 0.3,
            Op::Log1p => real(0) > -0.6,
            Op::Asin | Op::Acos | Op::Atanh => real(0).abs() < 0.7,
            Op::Acosh => real(0) > 1.3,
            Op::TanhSlope => (real(1).abs() - TANH_SLOPE_BOUND).abs() > 0.01,
            Op::SigmoidSlope => (real(1) - SIGMOID_SLOPE_BOUND).abs() > 0.01,
            Op::Pow => real(0) > 0.3 && real(1).abs() < 4.0,
            Op::Powi => real(0).abs() > 0.3 && real(1).abs() < 5.0,
            Op::Div => real(1).abs() > 0.4,
            Op::Min | Op::Max | Op::Eq | Op::Ne | Op::Lt | Op::Le => (real(0) - real(1)).abs() > 0.1,
            Op::Atan2 | Op::Hypot => real(0).hypot(real(1)) > 0.4,
            Op::Tan => real(0).cos().abs() > 0.4,
            Op::Floor | Op::Ceil | Op::Round | Op::Trunc | Op::ToInt => from_half_integers(real(0)),
            _ => true,
        }
}
