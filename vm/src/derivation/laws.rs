//! What tangents and adjoints of straight-line pieces satisfy where these are regular, in any order and to any depth;
//! and pieces at the edges of what a piece can be.

use crate::bytecode::isa::Op;
use crate::derivation::adjoint::adjoint;
use crate::derivation::graph::{Node, NodeId};
use crate::derivation::modes::{Mode, derivative, derive, sequences, shape};
use crate::derivation::oracle::derived;
use crate::derivation::piece::Piece;
use crate::derivation::random_pieces::{Sample, regular, scalar_ops, seeds};
use crate::derivation::tangent::tangent;
use fastrand::Rng;
use std::collections::BTreeSet;

fn random(rng: &mut Rng, len: usize) -> Vec<f64> {
    (0..len).map(|_| rng.f64() * 2.0 - 1.0).collect()
}

/// Values for all inputs of a derived piece: the sample's own, then tangents and adjoints.
fn inputs(sample: &Sample, modes: &[Mode], rng: &mut Rng) -> Vec<f64> {
    let more = shape(&sample.piece, modes).0 - sample.reals.len();
    [&sample.reals[..], &random(rng, more)].concat()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Asserts that numbers are the same but for roundings, which are in proportion to the largest.
#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], what: &dyn Fn() -> String) {
    let size = expected.iter().fold(1.0, |size: f64, x| size.max(x.abs()));
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-10 * size;
    let equal = found.len() == expected.len() && found.iter().zip(expected).all(close);
    assert!(equal, "{}:\nfound {found:?}\nexpected {expected:?}", what());
}

/// Compares derived pieces with nested dual numbers, which know nothing of derived code. Says which instructions have
/// been derived.
fn compare_with_dual_numbers(order: usize, count: u64, len: usize) -> BTreeSet<u8> {
    let mut derived_ops = BTreeSet::new();
    for seed in seeds(count) {
        let mut rng = Rng::with_seed(seed);
        let sample = regular(&mut rng, len);
        let live = sample.piece.live();
        let nodes = sample.piece.graph.iter().filter(|(id, _)| live[id.index()]);
        derived_ops.extend(nodes.filter_map(|(_, node)| match node {
            Node::Op(op, _) => Some(op.code()),
            _ => None,
        }));
        for modes in sequences(order) {
            let reals = inputs(&sample, &modes, &mut rng);
            let piece = derive(&sample.piece, &modes);
            assert_eq!((piece.reals as usize, piece.outputs.len()), shape(&sample.piece, &modes));
            let found = piece.evaluate(&reals, &sample.ints).expect("nothing traps");
            let trees: Vec<Vec<f64>> = reals.iter().map(|&x| vec![x]).collect();
            let expected = derived(&sample.piece, &modes, &trees, &sample.ints).concat();
            assert_close(&found, &expected, &|| format!("seed {seed}, {modes:?} of {sample:?}"));
        }
    }
    derived_ops
}

#[test]
fn tangent_and_adjoint_are_those_of_dual_numbers() {
    let derived = compare_with_dual_numbers(1, 1000, 12);
    let differentiable = scalar_ops().into_iter().filter(|op| op.info().differentiable);
    let missing: Vec<Op> = differentiable.filter(|op| !derived.contains(&op.code())).collect();
    assert!(missing.is_empty() || seeds(1000).count() < 500, "never derived: {missing:?}");
}

#[test]
fn second_derivatives_in_all_orders_of_modes_are_those_of_dual_numbers() {
    compare_with_dual_numbers(2, 500, 10);
}

#[test]
fn third_derivatives_in_all_orders_of_modes_are_those_of_dual_numbers() {
    compare_with_dual_numbers(3, 150, 8);
}

#[test]
fn an_adjoint_is_the_transpose_of_the_tangent_of_derived_pieces_too() {
    for seed in seeds(300) {
        let mut rng = Rng::with_seed(seed);
        let sample = regular(&mut rng, 10);
        for modes in (0..=2).flat_map(sequences) {
            let piece = derive(&sample.piece, &modes);
            let x = inputs(&sample, &modes, &mut rng);
            let (v, w) = (random(&mut rng, x.len()), random(&mut rng, piece.outputs.len()));
            let run =
                |piece: Piece, more: &[f64]| piece.evaluate(&[&x, more].concat(), &sample.ints).expect("no traps");
            let pushed = run(tangent(&piece), &v);
            let pulled = run(adjoint(&piece), &w);
            let (forward, reverse) = (dot(&w, &pushed[w.len()..]), dot(&pulled, &v));
            let size = pulled.iter().fold(1.0, |size: f64, x| size.max(x.abs()));
            let close = (forward - reverse).abs() <= 1e-10 * size;
            assert!(close, "seed {seed}, {modes:?} of {sample:?}: {forward} and {reverse}");
        }
    }
}

#[test]
fn derivatives_of_all_orders_are_limits_of_difference_quotients() {
    let (mut converged, mut all) = (0, 0);
    for seed in seeds(200) {
        let mut rng = Rng::with_seed(seed);
        let sample = regular(&mut rng, 8);
        let Sample { piece, reals, ints, .. } = &sample;
        for modes in (1..=3).flat_map(sequences) {
            let directions: Vec<usize> = modes.iter().map(|_| rng.usize(..reals.len())).collect();
            let found = derivative(piece, &modes, &directions, reals, ints);
            let (last, before) = directions.split_last().expect("there is a direction");
            let quotient = |step: f64| {
                let at = |step: f64| {
                    let mut reals = reals.clone();
                    reals[*last] += step;
                    derivative(piece, &modes[..before.len()], before, &reals, ints)
                };
                (at(step) - at(-step)) / (2.0 * step)
            };
            let (coarse, fine) = (quotient(2e-5), quotient(1e-5));
            let size = fine.abs().max(1.0);
            all += 1;
            // Where the quotients differ, the next derivatives are too large.
            if (coarse - fine).abs() <= 1e-6 * size {
                converged += 1;
                let close = (found - fine).abs() <= 1e-5 * size;
                assert!(close, "seed {seed}, {modes:?} by {directions:?} of {sample:?}: {found} and {fine}");
            }
        }
    }
    assert!(converged * 10 > all * 9 || all < 500, "{converged} of {all} have converged");
}

/// A piece of so many real inputs and one integer input. `outputs` makes the outputs from the inputs.
fn piece(reals: u32, outputs: impl FnOnce(&mut Piece, &[NodeId]) -> Vec<NodeId>) -> Piece {
    let mut piece = Piece { reals, ints: 1, ..Piece::default() };
    let inputs: Vec<NodeId> = (0..reals).map(|n| piece.graph.add(Node::RealInput(n))).collect();
    piece.outputs = outputs(&mut piece, &inputs);
    piece
}

#[track_caller]
fn assert_value(piece: &Piece, reals: &[f64], expected: &[f64]) {
    let found = piece.evaluate(reals, &[1]).expect("nothing traps");
    let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(same), "{found:?}, not {expected:?}");
}

#[test]
fn a_piece_without_outputs_has_derivatives_without_a_sum() {
    let nothing = piece(2, |_, _| Vec::new());
    assert_value(&tangent(&nothing), &[1.0; 4], &[]);
    assert_value(&adjoint(&nothing), &[1.0; 2], &[0.0, 0.0]);
    for modes in (2..=3).flat_map(sequences) {
        let derived = derive(&nothing, &modes);
        let (reals, outputs) = shape(&nothing, &modes);
        assert_value(&derived, &vec![1.0; reals], &vec![0.0; outputs]);
    }
    assert_value(&adjoint(&Piece { ints: 1, ..Piece::default() }), &[], &[]);
}

#[test]
fn constants_have_no_derivatives() {
    let constants = piece(1, |piece, _| {
        let (two, nan) = (piece.graph.real(2.0), piece.graph.real(f64::NAN));
        let sine = piece.graph.op(Op::Sin, &[two]);
        let int = piece.graph.add(Node::IntInput(0));
        vec![sine, nan, piece.graph.op(Op::ToReal, &[int])]
    });
    assert_value(&tangent(&constants), &[5.0, 7.0], &[2f64.sin(), f64::NAN, 1.0, 0.0, 0.0, 0.0]);
    assert_value(&adjoint(&constants), &[5.0, 1.0, 1.0, f64::NAN], &[0.0]);
}

#[test]
fn inputs_that_nobody_reads_have_adjoint_zero() {
    let mut second = piece(3, |_, inputs| vec![inputs[1]]);
    assert_value(&adjoint(&second), &[1.0, 2.0, 3.0, 5.0], &[0.0, 5.0, 0.0]);
    // They may have no node at all.
    second.reals = 5;
    assert_value(&adjoint(&second), &[1.0, 2.0, 3.0, 0.0, 0.0, 5.0], &[0.0, 5.0, 0.0, 0.0, 0.0]);
    assert_value(&tangent(&second), &[1.0, 2.0, 3.0, 0.0, 0.0, 6.0, 7.0, 8.0, 9.0, 9.0], &[2.0, 7.0]);
}

#[test]
fn an_argument_that_is_there_twice_gets_both_contributions() {
    let square = piece(1, |piece, x| vec![piece.graph.op(Op::Mul, &[x[0], x[0]])]);
    assert_value(&tangent(&square), &[3.0, 2.0], &[9.0, 12.0]);
    assert_value(&adjoint(&square), &[3.0, 2.0], &[12.0]);
    // x_adj = 2 x y_adj: by x, then by y_adj.
    assert_value(&adjoint(&adjoint(&square)), &[3.0, 2.0, 1.0], &[4.0, 6.0]);
    let cube = piece(1, |piece, x| vec![piece.graph.op(Op::Fma, &[x[0], x[0], x[0]])]);
    assert_value(&adjoint(&cube), &[3.0, 2.0], &[14.0]);
}

#[test]
fn an_output_may_be_an_input_and_outputs_may_be_equal() {
    let same = piece(2, |piece, x| {
        let sum = piece.graph.op(Op::Add, x);
        vec![x[0], sum, x[0], sum]
    });
    assert_value(&adjoint(&same), &[0.0, 0.0, 1.0, 2.0, 4.0, 8.0], &[15.0, 10.0]);
    assert_value(&tangent(&same), &[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 1.0, 3.0, 3.0, 7.0, 3.0, 7.0]);
    for modes in sequences(2) {
        let derived = derive(&same, &modes);
        let (reals, outputs) = shape(&same, &modes);
        assert_eq!(derived.evaluate(&vec![0.0; reals], &[1]), Some(vec![0.0; outputs]));
    }
}

#[test]
fn any_number_of_inputs_can_be_derived_by() {
    const INPUTS: u32 = 200;
    // Products of neighbours, so that second derivatives are 1 for neighbours.
    let sum = piece(INPUTS, |piece, x| {
        let products: Vec<NodeId> = x.windows(2).map(|pair| piece.graph.op(Op::Mul, pair)).collect();
        vec![products.into_iter().reduce(|sum, product| piece.graph.op(Op::Add, &[sum, product])).expect("there are")]
    });
    let x: Vec<f64> = (0..INPUTS).map(f64::from).collect();
    let neighbours = |v: &[f64], n: usize| n.checked_sub(1).map_or(0.0, |m| v[m]) + v.get(n + 1).unwrap_or(&0.0);
    let gradient: Vec<f64> = (0..x.len()).map(|n| 2.0 * neighbours(&x, n)).collect();
    assert_value(&adjoint(&sum), &[&x[..], &[2.0]].concat(), &gradient);
    let v: Vec<f64> = x.iter().map(|x| (x * 0.7).floor()).collect();
    let mut expected: Vec<f64> = (0..x.len()).map(|n| 2.0 * neighbours(&v, n)).collect();
    expected.push(dot(&v, &gradient) / 2.0);
    assert_value(&adjoint(&adjoint(&sum)), &[&x[..], &[2.0], &v[..]].concat(), &expected);
}

#[test]
fn constants_are_told_apart_by_their_bits() {
    // 1 / (x · 0) and 1 / (x · -0): nothing may take the zeros for one.
    let zeros = piece(1, |piece, x| {
        let scaled = [0.0, -0.0].map(|zero| {
            let zero = piece.graph.real(zero);
            piece.graph.op(Op::Mul, &[x[0], zero])
        });
        let one = piece.graph.real(1.0);
        scaled.map(|zero| piece.graph.op(Op::Div, &[one, zero])).to_vec()
    });
    assert_value(&zeros, &[2.0], &[f64::INFINITY, f64::NEG_INFINITY]);
    for modes in (1..=2).flat_map(sequences) {
        // By the zero rule.
        let (reals, outputs) = shape(&zeros, &modes);
        let found = derive(&zeros, &modes).evaluate(&vec![1.0; reals], &[1]).expect("nothing traps");
        assert_eq!(found.len(), outputs);
        let derivatives = if modes.iter().all(|&mode| mode == Mode::Tangent) { &found[2..] } else { &found[..] };
        assert!(derivatives.iter().all(|x| *x == 0.0), "{modes:?}: {found:?}");
    }
}

#[test]
fn a_factor_that_is_nan_is_silenced_by_zero_at_every_order() {
    let product = piece(1, |piece, x| {
        let nan = piece.graph.real(f64::NAN);
        vec![piece.graph.op(Op::Mul, &[x[0], nan])]
    });
    assert_value(&tangent(&product), &[3.0, 0.0], &[f64::NAN, 0.0]);
    assert_value(&tangent(&product), &[3.0, 1.0], &[f64::NAN, f64::NAN]);
    assert_value(&adjoint(&product), &[3.0, 0.0], &[0.0]);
    // Linear, so the second derivatives are zeros that are known.
    for modes in sequences(2) {
        assert_eq!(derivative(&product, &modes, &[0, 0], &[3.0], &[1]), 0.0, "{modes:?}");
    }
}

#[test]
fn a_selection_between_constants_and_by_constants_is_derived() {
    let chosen = |condition: Option<i64>| {
        piece(1, move |piece, x| {
            let condition = piece.graph.add(condition.map_or(Node::IntInput(0), Node::Int));
            let [nan, sine] = [piece.graph.real(f64::NAN), piece.graph.op(Op::Sin, x)];
            let (either, root) = (piece.graph.op(Op::Select, &[condition, sine, nan]), piece.graph.op(Op::Sqrt, x));
            vec![either, piece.graph.op(Op::Select, &[condition, root, x[0]])]
        })
    };
    for piece in [chosen(None), chosen(Some(1)), chosen(Some(i64::MIN))] {
        assert_value(&tangent(&piece), &[0.0, 1.0], &[0.0, 0.0, 1.0, f64::INFINITY]);
        assert_value(&adjoint(&piece), &[0.0, 1.0, 0.0], &[1.0]);
        for modes in sequences(2) {
            assert_eq!(derivative(&piece, &modes, &[0, 0], &[0.5], &[1]), -0.5f64.sin(), "{modes:?}");
        }
    }
    let not = chosen(Some(0));
    assert_value(&tangent(&not), &[0.0, 1.0], &[f64::NAN, 0.0, 0.0, 1.0]);
    assert_value(&adjoint(&not), &[0.0, 1.0, 1.0], &[1.0]);
    for modes in (1..=3).flat_map(sequences) {
        let directions = vec![0; modes.len()];
        assert_eq!(derivative(&not, &modes, &directions, &[0.0], &[1]), 0.0, "{modes:?}");
    }
}

#[test]
fn what_no_output_needs_is_not_derived() {
    let unused = piece(1, |piece, x| {
        let mut chain = x[0];
        for _ in 0..20 {
            chain = piece.graph.op(Op::Tan, &[chain]);
        }
        vec![piece.graph.op(Op::Neg, x)]
    });
    let added = |modes: &[Mode]| derive(&unused, modes).graph.len() - unused.graph.len();
    for modes in sequences(2) {
        assert!(added(&modes) < 10, "{modes:?} adds {} nodes", added(&modes));
    }
}
