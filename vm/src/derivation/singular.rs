//! Derivatives of straight-line pieces at singular points: which ways to the same derivative differ there, and why.
//!
//! A derivative of order k can be found by 2ᵏ sequences of tangents and adjoints, by its inputs in any order. At a
//! singular point a partial derivative p is infinite or NaN. By the zero rule a product with a zero factor is 0, in
//! whichever order several factors are multiplied; so most ways agree, and all do at first order for a single
//! instruction. What remains is the distributive law. Where p is met by a sum, one way forms p · (s + t) and the other
//! p · s + p · t, and if s + t is 0 or p · s and p · t are infinities of both signs, then one is a NaN and the other
//! isn't: `∞ - ∞` on the one side, `∞ · 0` on the other. So it takes a NaN. Two ways find two different numbers only by
//! rounding, overflow or underflow.

use crate::bytecode::isa::{Bank, Op};
use crate::derivation::graph::{Node, NodeId};
use crate::derivation::modes::{derivative, sequences};
use crate::derivation::piece::Piece;
use crate::derivation::random_pieces::{SPECIAL, banks, scalar_ops, seeds, special};
use fastrand::Rng;
use std::collections::BTreeSet;

const INF: f64 = f64::INFINITY;

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-10 * a.abs().max(b.abs()).max(1.0)
}

/// All lists of so many choices.
fn lists<T: Copy>(choices: &[T], len: usize) -> Vec<Vec<T>> {
    let extended =
        |list: Vec<T>| choices.iter().map(move |&choice| [&list[..], &[choice]].concat()).collect::<Vec<_>>();
    (0..len).fold(vec![Vec::new()], |all, _| all.into_iter().flat_map(extended).collect())
}

/// A piece of one instruction.
fn single(op: Op) -> Piece {
    let mut piece = Piece::default();
    let mut arg = |bank| {
        let (count, node) = match bank {
            Bank::Real => (&mut piece.reals, Node::RealInput as fn(u32) -> Node),
            _ => (&mut piece.ints, Node::IntInput as fn(u32) -> Node),
        };
        *count += 1;
        piece.graph.add(node(*count - 1))
    };
    let args: Vec<NodeId> = banks(op).into_iter().map(&mut arg).collect();
    piece.outputs = vec![piece.graph.op(op, &args)];
    piece
}

/// The points at which an instruction is tried: reals, and the integer, if it takes one.
fn points(piece: &Piece) -> Vec<(Vec<f64>, Vec<i64>)> {
    let few = [0.0, -0.0, 1.0, INF, f64::NAN];
    let reals = if piece.reals == 3 { &few[..] } else { &SPECIAL };
    let ints = lists(&[-2, -1, 0, 1, 2, 3, i64::MAX, i64::MIN], piece.ints as usize);
    let reals = lists(reals, piece.reals as usize);
    reals.iter().flat_map(|reals| ints.iter().map(|ints| (reals.clone(), ints.clone()))).collect()
}

/// All that is found for the derivatives of the first output by these inputs in any order, in all modes.
fn ways(piece: &Piece, directions: &[usize], reals: &[f64], ints: &[i64]) -> Vec<f64> {
    let orders = lists(&(0..directions.len()).collect::<Vec<_>>(), directions.len());
    let orders = orders.into_iter().filter(|order| order.iter().collect::<BTreeSet<_>>().len() == order.len());
    let directions: BTreeSet<Vec<usize>> = orders.map(|order| order.iter().map(|&n| directions[n]).collect()).collect();
    let in_modes = |directions: &Vec<usize>| -> Vec<f64> {
        let modes = sequences(directions.len()).into_iter();
        modes.map(|modes| derivative(piece, &modes, directions, reals, ints)).collect()
    };
    directions.iter().flat_map(in_modes).collect()
}

/// Where the ways to a derivative of this order differ, for one instruction alone.
fn is_exception(op: Op, order: usize, reals: &[f64]) -> bool {
    match (op, reals) {
        // The norm is infinite: one partial is 0, and the other, ∞ / ∞, is NaN. Each can be the one to begin with.
        (Op::Atan2, [a, b]) => order >= 2 && a.is_infinite() != b.is_infinite() && !(a.is_nan() || b.is_nan()),
        // By base and exponent it is aᵇ⁻¹ + b aᵇ⁻¹ log a, where infinities of both signs meet, or, by the exponent
        // first, b aᵇ⁻¹ log a + aᵇ / a, where the last term is 0 · ∞, which is 0.
        (Op::Pow, [0.0, b]) if *b == 0.5 => order >= 2,
        // The same, one order higher.
        (Op::Pow, [0.0, b]) if *b == 1.0 => order == 3,
        // Here aᵇ / a is an infinity, and because of 1 / -0 not of the sign of the other.
        (Op::Pow, [0.0, b]) if *b == -INF => order >= 2 && reals[0].is_sign_negative(),
        // The derivative of aᵇ / a by the base is b aᵇ⁻¹ / a - aᵇ / a².
        (Op::Pow, [a, b]) => order == 3 && *a == 2.0 && *b == INF,
        _ => false,
    }
}

fn compare_instructions(order: usize) {
    let mut wrong = Vec::new();
    for op in scalar_ops().into_iter().filter(|op| op.info().differentiable) {
        let piece = single(op);
        let inputs: Vec<usize> = (0..piece.reals as usize).collect();
        for (reals, ints) in points(&piece) {
            let directions = lists(&inputs, order).into_iter().filter(|directions| directions.is_sorted());
            let differ = directions.map(|directions| ways(&piece, &directions, &reals, &ints));
            let differ: Vec<Vec<f64>> = differ.filter(|found| !found.iter().all(|&x| same(x, found[0]))).collect();
            if differ.is_empty() == is_exception(op, order, &reals) {
                wrong.push(format!("{op:?} {reals:?} {ints:?}: {differ:?}"));
            }
            assert!(
                differ.iter().all(|found| found.iter().any(|x| x.is_nan())),
                "{op:?} {reals:?} {ints:?}: {differ:?}"
            );
        }
    }
    assert!(wrong.is_empty(), "order {order}:\n{}", wrong.join("\n"));
}

/// An instruction, its reals, its integer if it takes one, inputs to differentiate by, the derivative.
type Choice = (Op, &'static [f64], &'static [i64], &'static [usize], f64);

/// What the instruction table says of singular points, and what follows from it at higher orders.
const CHOICES: &[Choice] = &[
    (Op::Abs, &[0.0], &[], &[0], 0.0),
    (Op::Abs, &[0.0], &[], &[0, 0], 0.0),
    (Op::Min, &[2.0, 2.0], &[], &[0], 1.0),
    (Op::Min, &[2.0, 2.0], &[], &[1], 0.0),
    (Op::Min, &[2.0, f64::NAN], &[], &[0], 0.0),
    (Op::Max, &[0.0, -0.0], &[], &[0], 1.0),
    (Op::Max, &[f64::NAN, 2.0], &[], &[1], 1.0),
    (Op::Div, &[1.0, 0.0], &[], &[0], INF),
    (Op::Div, &[1.0, 0.0], &[], &[1], -INF),
    (Op::Div, &[1.0, 0.0], &[], &[0, 0], 0.0),
    (Op::Sqrt, &[0.0], &[], &[0], INF),
    (Op::Sqrt, &[-0.0], &[], &[0], -INF),
    (Op::Sqrt, &[0.0], &[], &[0, 0], -INF),
    (Op::Cbrt, &[0.0], &[], &[0], INF),
    (Op::Log, &[0.0], &[], &[0], INF),
    (Op::Log, &[0.0], &[], &[0, 0], -INF),
    (Op::Asin, &[1.0], &[], &[0], INF),
    (Op::Acosh, &[1.0], &[], &[0], INF),
    (Op::Pow, &[0.0, 2.0], &[], &[0, 0], 2.0),
    (Op::Pow, &[0.0, 2.0], &[], &[0, 0, 0], 0.0),
    (Op::Pow, &[0.0, 2.0], &[], &[1], 0.0),
    (Op::Pow, &[0.0, 2.0], &[], &[1, 1], 0.0),
    (Op::Pow, &[f64::NAN, 0.0], &[], &[0], 0.0),
    (Op::Pow, &[-2.0, 2.0], &[], &[1], f64::NAN),
    (Op::Powi, &[0.0], &[0], &[0], 0.0),
    (Op::Powi, &[0.0], &[1], &[0], 1.0),
    (Op::Powi, &[0.0], &[1], &[0, 0], 0.0),
    (Op::Powi, &[0.0], &[2], &[0, 0], 2.0),
    (Op::Powi, &[0.0], &[2], &[0, 0, 0], 0.0),
    (Op::Powi, &[0.0], &[3], &[0, 0, 0], 6.0),
    (Op::Atan2, &[0.0, 0.0], &[], &[0], f64::NAN),
    (Op::Polygamma, &[1.0], &[-1], &[0], f64::NAN),
    (Op::Polygamma, &[1.0], &[150], &[0], f64::NAN),
    (Op::Hypot, &[0.0, 0.0], &[], &[0], 0.0),
    (Op::Hypot, &[0.0, 0.0], &[], &[0, 1], 0.0),
    (Op::Hypot, &[0.0, 0.0], &[], &[0, 0, 0], 0.0),
];

#[test]
fn what_the_table_chooses_holds_in_all_modes() {
    for &(op, reals, ints, directions, expected) in CHOICES {
        let found = ways(&single(op), directions, reals, ints);
        assert!(found.iter().all(|&x| same(x, expected)), "{op:?} {reals:?} {ints:?} by {directions:?}: {found:?}");
    }
}

#[test]
fn tangent_and_adjoint_of_every_instruction_agree_everywhere() {
    compare_instructions(1);
}

#[test]
#[cfg_attr(miri, ignore = "too many points")]
fn second_derivatives_of_instructions_agree_but_where_listed() {
    compare_instructions(2);
}

#[test]
#[cfg_attr(miri, ignore = "too many points")]
fn third_derivatives_of_instructions_agree_but_where_listed() {
    compare_instructions(3);
}

#[test]
fn in_random_pieces_few_ways_differ_and_only_by_a_nan() {
    let [mut differ, mut singular, mut all] = [0; 3];
    for seed in seeds(2000) {
        let mut rng = Rng::with_seed(seed);
        let sample = special(&mut rng, 6);
        for order in 1..=3 {
            let directions: Vec<usize> = (0..order).map(|_| rng.usize(..sample.reals.len())).collect();
            let modes = sequences(order).into_iter();
            let found: Vec<f64> = modes
                .map(|modes| derivative(&sample.piece, &modes, &directions, &sample.reals, &sample.ints))
                .collect();
            all += 1;
            singular += u32::from(found.iter().any(|x| !x.is_finite()));
            if !found.iter().all(|&x| same(x, found[0])) {
                differ += 1;
                assert!(found.iter().any(|x| x.is_nan()), "seed {seed}, by {directions:?} of {sample:?}: {found:?}");
            }
        }
    }
    let usual = singular * 20 > all && differ * 100 <= all;
    assert!(usual || all < 1000, "of {all}, {singular} are singular and {differ} differ");
}
