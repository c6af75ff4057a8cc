//! Second derivatives: products of the Hessian and random directions, against differences of the gradient, and the
//! Hessian's symmetry.

use super::ladder::{Ladder, steps_of};
use super::point::{Checker, comparison, largest, product};
use super::probe::{Direction, Line, Probe, climb};
use super::random::Random;
use super::reals::flattened;
use super::report::{Comparison, Quantity};
use super::verdict::{Reason, Verdict, judge, modes_agree};
use crate::Error;

/// How many directions there are.
const DIRECTIONS: usize = 2;

/// A direction, and the product of the Hessian and it.
struct Product {
    direction: Vec<f64>,
    product: Vec<f64>,
}

/// Compares the second derivatives at a point.
pub(super) fn compare(
    checker: &Checker<'_>,
    probe: &Probe<'_>,
    xs: &[f64],
    gradient: &[f64],
    mut random: Random,
) -> Result<Vec<Comparison>, Error> {
    let mut found = Vec::new();
    let mut products = Vec::with_capacity(DIRECTIONS);
    for number in 1..=DIRECTIONS {
        let direction = checker.direction(xs, random.split());
        let args = checker.reals.args_at(xs);
        let hvp = checker.function.hvp_with(&args, &checker.reals.tangents(&direction), probe.options)?;
        let product = flattened(&hvp.product);
        found.extend(along(checker, probe, (xs, gradient), (&direction, &product, number))?);
        products.push(Product { direction, product });
    }
    if let [u, v] = &*products
        && !xs.is_empty()
    {
        found.push(symmetry(u, v, gradient));
    }
    Ok(found)
}

/// The product along one direction, part by part.
fn along(
    checker: &Checker<'_>,
    probe: &Probe<'_>,
    (xs, gradient): (&[f64], &[f64]),
    (direction, product, number): (&[f64], &[f64], usize),
) -> Result<Vec<Comparison>, Error> {
    let chosen = |of: &[f64]| -> Vec<f64> { checker.sample.iter().map(|&n| of[n]).collect() };
    let line = Line { origin: xs, direction: Direction::All(direction) };
    let mut ladders: Vec<Ladder> = chosen(gradient).into_iter().map(Ladder::new).collect();
    let derivatives = chosen(product);
    climb(&mut ladders, &derivatives, steps_of(1.0), |step| {
        let gradient = probe.gradient(&line.at(step))?;
        Ok(gradient.map_or_else(|| vec![f64::NAN; checker.sample.len()], |gradient| chosen(&gradient)))
    })?;
    let (trap, size) = (probe.take_trap(), largest(product));
    let each = checker.places.iter().zip(ladders).zip(&derivatives);
    let compared = each.map(|((place, ladder), &derivative)| {
        let quantity = Quantity::Second { direction: number, place: place.clone() };
        comparison(quantity, (derivative, None), &judge(derivative, None, ladder, size), trap.clone())
    });
    Ok(compared.collect())
}

fn symmetry(u: &Product, v: &Product, gradient: &[f64]) -> Comparison {
    let (uhv, vhu) = (product(&v.product, &u.direction), product(&u.product, &v.direction));
    let terms = |xs: &[f64], ys: &[f64]| -> f64 {
        xs.iter().zip(ys).map(|(x, y)| (x * y).abs()).filter(|x| x.is_finite()).sum()
    };
    // Sums may cancel, so that their terms are the scale. Those inside of the products are not known: where these are 0
    // but for rounding, that is small beside what the value changes by, as directions are as long as the point.
    let products = terms(&u.product, &v.direction) + terms(&v.product, &u.direction);
    let changes = terms(gradient, &u.direction) + terms(gradient, &v.direction);
    let (verdict, reason) = match uhv.is_finite() && vhu.is_finite() {
        false => (Verdict::CannotTell, Reason::Unbounded),
        true if modes_agree(uhv, vhu, 1e3 * products + changes) => (Verdict::Agrees, Reason::Modes),
        true => (Verdict::Wrong, Reason::ModesDiffer),
    };
    Comparison {
        quantity: Quantity::Symmetry,
        reverse: uhv,
        forward: Some(vhu),
        difference: None,
        one_sided: [None; 2],
        verdict,
        reason,
        trap: None,
    }
}
