//! What is compared at a point.

use super::engines::Pair;
use super::ladder::{Ladder, Side, steps_of};
use super::probe::{Direction, Line, Probe, Weights, climb};
use super::random::Random;
use super::reals::{Reals, flattened};
use super::report::{Comparison, PointCheck, Quantity};
use super::verdict::{Judgement, Reason, Verdict, judge};
use super::{CheckOptions, purpose, second};
use crate::places::some_places;
use crate::{Error, Function, Value};

/// A function, and what of it is checked.
pub(super) struct Checker<'a> {
    pub(super) function: &'a Function,
    pub(super) options: &'a CheckOptions,
    pair: &'a Pair,
    pub(super) reals: &'a Reals,
    /// The reals that are checked one by one, in order.
    pub(super) sample: &'a [usize],
    /// Where these are in the arguments.
    pub(super) places: Vec<String>,
}

/// A function with a direction of tangents, or none.
struct Slope<'a> {
    quantity: Quantity,
    line: Line<'a>,
    /// The tangent of each real.
    tangent: Vec<f64>,
    reverse: f64,
}

impl<'a> Checker<'a> {
    pub(super) fn new(
        function: &'a Function,
        options: &'a CheckOptions,
        pair: &'a Pair,
        reals: &'a Reals,
        sample: &'a [usize],
    ) -> Self {
        let places = some_places(reals.named(function), sample);
        Checker { function, options, pair, reals, sample, places }
    }

    /// Compares everything at a point, which is given by its reals.
    pub(super) fn point(&self, xs: Vec<f64>, random: impl Fn(u64) -> Random) -> Result<PointCheck, Error> {
        let (args, call) = (self.reals.args_at(&xs), &self.options.call);
        let (value, _) = self.function.call_with(&args, call)?;
        let weights = Weights::new(&self.function.interface().result, &value, random(purpose::COTANGENT));
        let cotangent = weights.cotangent(&value);
        let gradient = flattened(&self.function.vjp_with(&args, &cotangent, call)?.gradient);
        let engines = self.pair.compare(&args, &cotangent, call)?;
        let probe = Probe::new(self.function, call, self.reals);
        let size = largest(&gradient);
        let mut comparisons = Vec::with_capacity(self.sample.len() + 1);
        for (&n, place) in self.sample.iter().zip(&self.places) {
            let mut tangent = vec![0.0; xs.len()];
            tangent[n] = 1.0;
            let quantity = Quantity::Partial(place.clone());
            let line = Line { origin: &xs, direction: Direction::One(n) };
            comparisons.push(compare(&probe, &weights, Slope { quantity, line, tangent, reverse: gradient[n] }, size)?);
        }
        if xs.len() > 1 {
            let direction = self.direction(&xs, random(purpose::DIRECTION));
            let reverse = product(&gradient, &direction);
            let line = Line { origin: &xs, direction: Direction::All(&direction) };
            let size = gradient.iter().zip(&direction).map(|(a, b)| (a * b).abs()).filter(|x| x.is_finite());
            let (size, tangent) = (size.fold(0.0, f64::max), direction.clone());
            let slope = Slope { quantity: Quantity::Directional, line, tangent, reverse };
            let found = compare(&probe, &weights, slope, size)?;
            comparisons.push(excused(found, &comparisons));
        }
        if self.options.second {
            let directions = random(purpose::SECOND);
            comparisons.extend(second::compare(self, &probe, &xs, &gradient, directions)?);
        }
        let not_finite = weights.not_finite;
        Ok(PointCheck { args, value: Some(value), trap: None, not_finite, engines, comparisons })
    }

    /// A random direction in which each real moves by as much as its magnitude, or less.
    pub(super) fn direction(&self, xs: &[f64], mut random: Random) -> Vec<f64> {
        xs.iter().map(|x| random.factor() * direction_scale(*x)).collect()
    }
}

/// How far a real moves along a direction.
fn direction_scale(x: f64) -> f64 {
    if x.is_finite() { 0.5 * x.abs() + 0.05 } else { 0.0 }
}

/// Compares the derivatives of one function of one real.
fn compare(probe: &Probe<'_>, weights: &Weights, slope: Slope<'_>, size: f64) -> Result<Comparison, Error> {
    let Slope { quantity, line, tangent, reverse } = slope;
    let args = probe.reals.args_at(line.origin);
    let moved = probe.function.jvp_with(&args, &probe.reals.tangents(&tangent), probe.options)?;
    let forward = weights.product(&moved.tangent);
    let mut ladders = [Ladder::new(weights.product(&moved.value))];
    let scale = match line.direction {
        Direction::One(n) => line.origin[n],
        Direction::All(_) => 1.0,
    };
    let value_at = |step| {
        let value = probe.call(&line.at(step))?;
        Ok(vec![value.map_or(f64::NAN, |value: Value| weights.product(&value))])
    };
    climb(&mut ladders, &[reverse], steps_of(scale), value_at)?;
    let [ladder] = ladders;
    let judgement = judge(reverse, Some(forward), ladder, size);
    Ok(comparison(quantity, (reverse, Some(forward)), &judgement, probe.take_trap()))
}

pub(super) fn comparison(
    quantity: Quantity,
    (reverse, forward): (f64, Option<f64>),
    &Judgement { verdict, reason, ref ladder }: &Judgement,
    trap: Option<String>,
) -> Comparison {
    let one_sided = [Side::Left, Side::Right].map(|side| ladder.slope(side));
    Comparison { quantity, reverse, forward, difference: ladder.central(), one_sided, verdict, reason, trap }
}

/// Along a direction, kinks of single reals add up to slopes that need not be those of a side.
fn excused(mut directional: Comparison, of_reals: &[Comparison]) -> Comparison {
    let by_differences = matches!(directional.reason, Reason::DifferencesDiffer | Reason::OutsideOfKink);
    if by_differences && of_reals.iter().any(|comparison| comparison.verdict == Verdict::Kink) {
        (directional.verdict, directional.reason) = (Verdict::Kink, Reason::KinksOfReals);
    }
    directional
}

pub(super) fn product(xs: &[f64], ys: &[f64]) -> f64 {
    // A real that doesn't move adds nothing, whatever its derivative.
    xs.iter().zip(ys).filter(|(_, y)| **y != 0.0).fold(0.0, |sum, (x, y)| sum + x * y)
}

/// The largest magnitude of those that are finite.
pub(super) fn largest(xs: &[f64]) -> f64 {
    xs.iter().filter(|x| x.is_finite()).fold(0.0, |largest, x| largest.max(x.abs()))
}
