//! What a comparison comes to.

use super::ladder::{BARS, DIFFERENCE_TOLERANCE, Ladder, Side};
use super::ridders::Estimate;
use std::fmt;

/// How far forward and reverse mode may be apart, relative to the larger of the two.
const MODES_TOLERANCE: f64 = 1e-9;
/// The same relative to the largest part of the gradient: sums that cancel leave as much.
const CANCELLED_TOLERANCE: f64 = 1e-12;
/// How small an error bar, relative to the derivative, says something.
const TELLING: f64 = 1e-3;
/// What is 0 beside the largest part of the gradient, or beside the slope that the value itself would be.
const NEGLIGIBLE: f64 = 1e-9;

/// What a comparison comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All that was compared agrees.
    Agrees,
    /// Something is wrong, and neither a kink nor rounding explains it.
    Wrong,
    /// The function has no derivative here: slopes from the left and from the right differ, or it jumps. Which
    /// derivative counts is a matter of choice.
    Kink,
    /// Differences say too little: their error bar is too large, or they are not finite.
    CannotTell,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Agrees => "agrees",
            Verdict::Wrong => "wrong",
            Verdict::Kink => "kink",
            Verdict::CannotTell => "can't tell",
        })
    }
}

/// Why a comparison comes to its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Agrees: differences from both sides.
    Differences,
    /// Agrees: differences from this side, where alone the function is defined.
    OneSided(Side),
    /// Agrees: two derivatives with each other.
    Modes,
    /// Wrong: forward and reverse mode differ, or the two sides of the symmetry of second derivatives.
    ModesDiffer,
    /// Wrong: differences with a small error bar are something else.
    DifferencesDiffer,
    /// Wrong: at a kink, but neither one of the two slopes nor between them.
    OutsideOfKink,
    /// Wrong: the derivative is NaN or infinite where differences are not.
    NotFinite,
    /// Kink: the derivative is the slope from this side.
    SlopeFrom(Side),
    /// Kink: the derivative is between the slopes from the two sides.
    BetweenSlopes,
    /// Kink: the value jumps on this side, and the derivative is the slope from the other.
    Jump(Side),
    /// Kink: the value jumps, and there is no slope to compare with.
    Isolated,
    /// Kink: along the direction; single reals are at kinks, too.
    KinksOfReals,
    /// Can't tell: the value is NaN or infinite.
    ValueNotFinite,
    /// Can't tell: there are differences on neither side.
    NoDifferences,
    /// Can't tell: the derivative is NaN or infinite, and differences have no limit.
    Unbounded,
    /// Can't tell: the error bar is too large.
    LargeError,
    /// Can't tell: forward and reverse differ by no more than rounding changes differences.
    Rounding,
    /// Can't tell: larger steps agree with the derivative, smaller ones with something else, as where reals cancel.
    Steps,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Differences | Reason::Modes => "",
            Reason::OneSided(Side::Left) => "with differences from the left; there is no value on the right",
            Reason::OneSided(Side::Right) => "with differences from the right; there is no value on the left",
            Reason::ModesDiffer => "forward and reverse mode differ",
            Reason::DifferencesDiffer => "differences have another value",
            Reason::OutsideOfKink => "at a kink, but not between the slopes of its sides",
            Reason::NotFinite => "not finite, but differences are",
            Reason::SlopeFrom(Side::Left) => "the derivative is the slope from the left",
            Reason::SlopeFrom(Side::Right) => "the derivative is the slope from the right",
            Reason::BetweenSlopes => "the derivative is between the slopes of the two sides",
            Reason::Jump(Side::Left) => "the value jumps on the left; the derivative is the slope from the right",
            Reason::Jump(Side::Right) => "the value jumps on the right; the derivative is the slope from the left",
            Reason::Isolated => "the value jumps, and no slope is the derivative",
            Reason::KinksOfReals => "some of the reals are at kinks",
            Reason::ValueNotFinite => "the value is not finite",
            Reason::NoDifferences => "the function has no finite values on either side, or too few",
            Reason::Unbounded => "the derivative is not finite, and differences have no limit",
            Reason::LargeError => "the error bar is too large",
            Reason::Rounding => "forward and reverse mode differ as much as rounding makes differences do",
            Reason::Steps => "differences depend on the step, as where reals cancel",
        })
    }
}

/// Whether two derivatives are the same up to rounding, in a gradient whose largest part is `size`. NaN is NaN.
pub(super) fn modes_agree(a: f64, b: f64, size: f64) -> bool {
    let bound = MODES_TOLERANCE * a.abs().max(b.abs()) + CANCELLED_TOLERANCE * size;
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound
}

/// What a comparison comes to, why, and by which steps.
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) reason: Reason,
    pub(super) ladder: Ladder,
}

/// Judges a derivative by reverse mode, and by forward mode if it was asked, in a gradient whose largest part is
/// `size`.
pub(super) fn judge(reverse: f64, forward: Option<f64>, ladder: Ladder, size: f64) -> Judgement {
    let (verdict, reason) = by_modes(reverse, forward, &ladder, size);
    let mut found = Judgement { verdict, reason, ladder };
    // Larger steps may reach across a pole, so that what they say is wrong is judged by smaller ones.
    let mut is_nearer = false;
    while found.verdict == Verdict::Wrong
        && found.reason != Reason::ModesDiffer
        && let Some(ladder) = found.ladder.nearer()
    {
        let (verdict, reason) = by_modes(reverse, forward, &ladder, size);
        found = Judgement { verdict, reason, ladder };
        is_nearer = true;
    }
    let has_digits = || found.ladder.deciding().is_some_and(Estimate::has_digits);
    if is_nearer && found.verdict == Verdict::Wrong && !has_digits() {
        (found.verdict, found.reason) = (Verdict::CannotTell, Reason::LargeError);
    }
    found
}

fn by_modes(reverse: f64, forward: Option<f64>, ladder: &Ladder, size: f64) -> (Verdict, Reason) {
    if !ladder.base().is_finite() {
        return (Verdict::CannotTell, Reason::ValueNotFinite);
    }
    if let Some(forward) = forward
        && !modes_agree(reverse, forward, size)
    {
        let noise = ladder.central().map_or(0.0, |central| central.error);
        let by_rounding = (reverse - forward).abs() <= noise
            && [reverse, forward].iter().all(|&mode| by_differences(mode, ladder, size).0 != Verdict::Wrong);
        return match by_rounding {
            true => (Verdict::CannotTell, Reason::Rounding),
            false => (Verdict::Wrong, Reason::ModesDiffer),
        };
    }
    by_differences(reverse, ladder, size)
}

/// Judges a derivative by differences.
fn by_differences(derivative: f64, ladder: &Ladder, size: f64) -> (Verdict, Reason) {
    match [Side::Left, Side::Right].map(|side| ladder.jumps(side)) {
        [false, false] => {}
        [true, true] => return (Verdict::Kink, Reason::Isolated),
        [left, _] => {
            let (side, other) = if left { (Side::Left, Side::Right) } else { (Side::Right, Side::Left) };
            let is_slope = ladder.slope(other).is_some_and(|slope| is_near(derivative, slope, size));
            return (Verdict::Kink, if is_slope { Reason::Jump(side) } else { Reason::Isolated });
        }
    }
    if let Some(slopes) = ladder.kink() {
        return at_kink(derivative, slopes, size);
    }
    let only = ladder.only_side();
    let Some(slope) = only.map_or_else(|| ladder.central(), |side| ladder.slope(side)) else {
        return (Verdict::CannotTell, Reason::NoDifferences);
    };
    let scale = slope.value.abs();
    if !derivative.is_finite() {
        return match slope.error <= TELLING * scale {
            true => (Verdict::Wrong, Reason::NotFinite),
            false => (Verdict::CannotTell, Reason::Unbounded),
        };
    }
    let scale = scale.max(derivative.abs());
    if is_near(derivative, slope, size) {
        let size = if derivative == 0.0 { size.max(ladder.steepness()) } else { size };
        let is_telling = slope.error <= TELLING * scale + NEGLIGIBLE * size;
        return match is_telling {
            true => (Verdict::Agrees, only.map_or(Reason::Differences, Reason::OneSided)),
            false => (Verdict::CannotTell, Reason::LargeError),
        };
    }
    if ladder.is_seen_from_afar(derivative) {
        return (Verdict::CannotTell, Reason::Steps);
    }
    // A bar that is no small part of the distance is no proof.
    match slope.error <= 0.02 * (slope.value - derivative).abs() {
        true => (Verdict::Wrong, Reason::DifferencesDiffer),
        false => (Verdict::CannotTell, Reason::LargeError),
    }
}

fn at_kink(derivative: f64, [left, right]: [Estimate; 2], size: f64) -> (Verdict, Reason) {
    let (low, high) = (left.value.min(right.value), left.value.max(right.value));
    if is_near(derivative, left, size) {
        (Verdict::Kink, Reason::SlopeFrom(Side::Left))
    } else if is_near(derivative, right, size) {
        (Verdict::Kink, Reason::SlopeFrom(Side::Right))
    } else if low <= derivative && derivative <= high {
        (Verdict::Kink, Reason::BetweenSlopes)
    } else {
        (Verdict::Wrong, Reason::OutsideOfKink)
    }
}

/// Whether differences allow for this derivative.
fn is_near(derivative: f64, slope: Estimate, size: f64) -> bool {
    let scale = derivative.abs().max(slope.value.abs());
    let bound = BARS * slope.error + DIFFERENCE_TOLERANCE * scale + 0.1 * CANCELLED_TOLERANCE * size;
    (slope.value - derivative).abs() <= bound
}
