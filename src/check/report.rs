//! What a check of derivatives has found.

use super::ridders::Estimate;
use super::verdict::{Reason, Verdict};
use crate::Value;
use std::fmt;

/// What [`Function::check_gradient`](crate::Function::check_gradient) has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GradientCheck {
    /// The given point, then those near it.
    pub points: Vec<PointCheck>,
    /// How many reals derivatives are with respect to.
    pub reals: usize,
    /// How many of them were checked one by one.
    pub checked: usize,
    /// How many reals the result has at the given point.
    pub outputs: usize,
    /// Whether there was native code to compare with the interpreter. There is none on machines that the generator
    /// doesn't know, and for functions that are too large for it.
    pub native: bool,
}

/// How many comparisons came to what.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// [`Verdict::Agrees`].
    pub agree: usize,
    /// [`Verdict::Wrong`], and points at which the engines differ.
    pub wrong: usize,
    /// [`Verdict::Kink`].
    pub kinks: usize,
    /// [`Verdict::CannotTell`].
    pub cannot_tell: usize,
}

/// What was found at a point.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PointCheck {
    /// The arguments.
    pub args: Vec<Value>,
    /// The value there; `None` if the program traps there, which it can't at the given point.
    pub value: Option<Value>,
    /// The trap, in one line.
    pub trap: Option<String>,
    /// How many reals of the result are not finite. They are left out, unless all are.
    pub not_finite: usize,
    /// The interpreter against native code.
    pub engines: Engines,
    /// Derivatives of first order, of single reals and along a direction, then those of second order.
    pub comparisons: Vec<Comparison>,
}

/// The interpreter against native code, on value and reverse gradient.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Engines {
    /// The same bits; all NaN are one number.
    Same,
    /// There is no native code to compare with.
    NoNativeCode,
    /// They differ here: in `value`, in `gradient.x[3]`, or in what they end with.
    Differ(String),
}

/// What is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Quantity {
    /// The derivative with respect to the real at this place, as in `x[3].width`.
    Partial(String),
    /// The derivative along a random direction in which all reals move.
    Directional,
    /// How the derivative with respect to the real at this place changes along a random direction.
    Second {
        /// The number of the direction, from 1 on.
        direction: usize,
        /// The place.
        place: String,
    },
    /// ⟨u, H v⟩ and ⟨v, H u⟩ of two random directions; they stand for the two modes.
    Symmetry,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Partial(place) => f.write_str(place),
            Quantity::Directional => f.write_str("all together"),
            Quantity::Second { direction, place } => write!(f, "{place}, direction {direction}"),
            Quantity::Symmetry => f.write_str("symmetry"),
        }
    }
}

/// A derivative, found in several ways.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// Of what.
    pub quantity: Quantity,
    /// By reverse mode; of second order, by forward over reverse.
    pub reverse: f64,
    /// By forward mode; `None` of second order.
    pub forward: Option<f64>,
    /// By differences from both sides; of second order, those of the reverse gradient.
    pub difference: Option<Estimate>,
    /// By differences from the left and from the right.
    pub one_sided: [Option<Estimate>; 2],
    /// What that comes to.
    pub verdict: Verdict,
    /// And why.
    pub reason: Reason,
    /// The trap at arguments that differences asked for, in one line, if there was one.
    pub trap: Option<String>,
}

impl Comparison {
    /// How far the derivatives are apart, relative to the larger one, beyond the error bar of differences.
    pub fn relative_error(&self) -> f64 {
        let forward = self.forward.map(|forward| (forward, 0.0));
        let difference = self.difference.map(|Estimate { value, error }| (value, error));
        let error = |(other, bar): (f64, f64)| {
            let off = (self.reverse - other).abs() - bar;
            // Neither is NaN an error, nor what infinities leave: what they come to is the verdict's.
            if off > 0.0 && off.is_finite() { off / self.reverse.abs().max(other.abs()) } else { 0.0 }
        };
        [forward, difference].into_iter().flatten().map(error).fold(0.0, f64::max)
    }
}

impl PointCheck {
    /// How many comparisons came to what.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { wrong: usize::from(matches!(self.engines, Engines::Differ(_))), ..Counts::default() };
        for comparison in &self.comparisons {
            *match comparison.verdict {
                Verdict::Agrees => &mut counts.agree,
                Verdict::Wrong => &mut counts.wrong,
                Verdict::Kink => &mut counts.kinks,
                Verdict::CannotTell => &mut counts.cannot_tell,
            } += 1;
        }
        counts
    }

    /// Of the comparisons that agree, the one whose derivatives are the furthest apart; the first of several.
    pub fn worst(&self) -> Option<&Comparison> {
        let agreeing = self.comparisons.iter().filter(|comparison| comparison.verdict == Verdict::Agrees);
        agreeing.reduce(|worst, next| if next.relative_error() > worst.relative_error() { next } else { worst })
    }
}

impl GradientCheck {
    /// How many comparisons came to what, at all points.
    pub fn counts(&self) -> Counts {
        self.points.iter().map(PointCheck::counts).fold(Counts::default(), |sum, counts| Counts {
            agree: sum.agree + counts.agree,
            wrong: sum.wrong + counts.wrong,
            kinks: sum.kinks + counts.kinks,
            cannot_tell: sum.cannot_tell + counts.cannot_tell,
        })
    }

    /// Whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        self.counts().wrong > 0
    }

    /// What it all comes to: wrong, if anything is; then agreement, if anything agrees or there is nothing to compare;
    /// then kinks.
    pub fn verdict(&self) -> Verdict {
        match self.counts() {
            Counts { wrong: 1.., .. } => Verdict::Wrong,
            Counts { agree: 1.., .. } | Counts { kinks: 0, cannot_tell: 0, .. } => Verdict::Agrees,
            Counts { kinks: 1.., .. } => Verdict::Kink,
            _ => Verdict::CannotTell,
        }
    }
}
