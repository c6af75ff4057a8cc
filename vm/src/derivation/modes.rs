//! Tangents and adjoints one after the other, for tests.

use crate::derivation::adjoint::adjoint;
use crate::derivation::piece::Piece;
use crate::derivation::tangent::tangent;

/// A derivation that maps pieces to pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Tangent,
    Adjoint,
}

/// All sequences of so many derivations.
pub(crate) fn sequences(order: usize) -> Vec<Vec<Mode>> {
    let extended = |modes: Vec<Mode>| [Mode::Tangent, Mode::Adjoint].map(|mode| [&modes[..], &[mode]].concat());
    (0..order).fold(vec![Vec::new()], |all, _| all.into_iter().flat_map(extended).collect())
}

/// The piece that these derivations, the first one first, make of another.
pub(crate) fn derive(piece: &Piece, modes: &[Mode]) -> Piece {
    modes.iter().fold(piece.clone(), |piece, mode| match mode {
        Mode::Tangent => tangent(&piece),
        Mode::Adjoint => adjoint(&piece),
    })
}

/// How many real inputs and outputs that piece has.
pub(crate) fn shape(piece: &Piece, modes: &[Mode]) -> (usize, usize) {
    let start = (piece.reals as usize, piece.outputs.len());
    modes.iter().fold(start, |(inputs, outputs), mode| match mode {
        Mode::Tangent => (2 * inputs, 2 * outputs),
        Mode::Adjoint => (inputs + outputs, inputs),
    })
}

/// A derivative of the first output: by one input after the other, found by a derivation for each.
///
/// What has been found so far is one output, as a function of the piece's own inputs. Its derivative by one of these is
/// its tangent where that input's tangent is 1 and all others are 0, or that input's adjoint where its own is 1.
pub(crate) fn derivative(piece: &Piece, modes: &[Mode], directions: &[usize], reals: &[f64], ints: &[i64]) -> f64 {
    let mut piece = piece.clone();
    let mut reals = reals.to_vec();
    let mut output = 0;
    for (mode, &direction) in modes.iter().zip(directions) {
        let (inputs, outputs) = (reals.len(), piece.outputs.len());
        piece = derive(&piece, &[*mode]);
        reals.resize(piece.reals as usize, 0.0);
        match mode {
            Mode::Tangent => {
                reals[inputs + direction] = 1.0;
                output += outputs;
            }
            Mode::Adjoint => {
                reals[inputs + output] = 1.0;
                output = direction;
            }
        }
    }
    piece.evaluate(&reals, ints).expect("nothing traps")[output]
}
