//! Values of a function of one real at both sides of a point, in steps that are halved, and the slopes that they show.

use super::ridders::{Estimate, Tableau};

/// The largest step, as a part of the scale of what moves: 2⁻³ of it.
const LARGEST: f64 = 0.125;
/// The smallest scale of what moves: near 0, steps are not much smaller than for reals of this size.
const SCALE_MIN: f64 = 0.0625;
/// Steps: each is half of the one before, and the last 2⁻²⁶ of the scale.
const STEPS: i32 = 24;
/// Steps of reals that are smaller than [`SCALE_MIN`], whose own scale may be what counts.
const STEPS_MAX: i32 = 64;
/// How many of the smallest steps say what is beside the point.
const NEAREST: usize = 4;
/// How often the error bar a difference may be off: bars are estimates.
pub(super) const BARS: f64 = 8.0;
/// How far derivatives may be from differences beside the error bar, relative to the larger one.
pub(super) const DIFFERENCE_TOLERANCE: f64 = 1e-6;

/// A side of the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Below.
    Left,
    /// Above.
    Right,
}

/// What is known of a function near a point.
pub(super) struct Ladder {
    /// The value at the point.
    base: f64,
    /// The steps, with the values to the left and to the right.
    values: Vec<(f64, [f64; 2])>,
    central: Tableau,
    left: Tableau,
    right: Tableau,
    /// Right minus left: what it tends to is a kink.
    gap: Tableau,
    /// Changes of the value to the left and to the right. NaN where there is none.
    rises: Vec<[f64; 2]>,
    /// The largest magnitude of a value.
    magnitude: f64,
    /// The largest step.
    reach: f64,
    /// Slopes to the left and to the right across larger steps, if small ones change nothing.
    secants: Vec<[f64; 2]>,
}

/// The scale of a real that is moved.
pub(super) fn scale_of(x: f64) -> f64 {
    let scale = x.abs().clamp(SCALE_MIN, 2.0_f64.powi(1000));
    // A power of 2, so that steps are exact.
    if scale.is_finite() { scale.log2().floor().exp2() } else { 1.0 }
}

/// The steps for a real, from the largest on. Each is half of the one before, but for those of a tiny real: between
/// steps of its own scale and others there may be a gap.
pub(super) fn steps_of(x: f64) -> impl Iterator<Item = f64> {
    let scale = scale_of(x);
    let own = if x == 0.0 { scale } else { x.abs().min(scale) };
    let own = own.log2().floor().exp2();
    let steps = |scale: f64, count: i32| (0..count).map(move |n| scale * LARGEST * 2.0_f64.powi(-n));
    let between = (scale / own).log2() as i32;
    let (first, more) = if between <= STEPS_MAX - STEPS { (STEPS + between, 0) } else { (STEPS, STEPS) };
    steps(scale, first).chain(steps(own, more)).filter(|&step| step > 0.0)
}

impl Ladder {
    pub(super) fn new(base: f64) -> Self {
        Ladder {
            base,
            values: Vec::new(),
            central: Tableau::of_even_powers(),
            left: Tableau::of_all_powers(),
            right: Tableau::of_all_powers(),
            gap: Tableau::of_all_powers(),
            rises: Vec::new(),
            magnitude: base.abs(),
            reach: 0.0,
            secants: Vec::new(),
        }
    }

    /// Adds values a step to the left and to the right; what isn't finite is none.
    pub(super) fn push(&mut self, step: f64, [below, above]: [f64; 2]) {
        if self.values.last().is_some_and(|&(before, _)| before != 2.0 * step) {
            [&mut self.central, &mut self.left, &mut self.right, &mut self.gap].into_iter().for_each(Tableau::restart);
        }
        self.values.push((step, [below, above]));
        let finite = |x: &f64| x.is_finite();
        for value in [below, above].iter().filter(|x| finite(x)) {
            self.magnitude = self.magnitude.max(value.abs());
        }
        self.reach = self.reach.max(step);
        // Of two values with an error of an ulp each.
        let rounding = 2.0 * f64::EPSILON * self.base.abs().max(largest([below, above])) / step;
        let [fall, rise] = [self.base - below, above - self.base];
        self.rises.push([fall, rise]);
        self.central.push((above - below) / (2.0 * step), rounding);
        self.left.push(fall / step, rounding);
        self.right.push(rise / step, rounding);
        self.gap.push((rise - fall) / step, 2.0 * rounding);
    }

    pub(super) fn base(&self) -> f64 {
        self.base
    }

    /// The slope, from both sides.
    pub(super) fn central(&self) -> Option<Estimate> {
        self.central.estimate()
    }

    /// The slope from one side.
    pub(super) fn slope(&self, side: Side) -> Option<Estimate> {
        match side {
            Side::Left => self.left.estimate(),
            Side::Right => self.right.estimate(),
        }
    }

    /// A side that has values near the point, if the other has none.
    pub(super) fn only_side(&self) -> Option<Side> {
        let near = || self.rises.iter().rev().take(NEAREST);
        match [0, 1].map(|side| near().any(|rises| rises[side].is_finite())) {
            [true, false] => Some(Side::Left),
            [false, true] => Some(Side::Right),
            _ => None,
        }
    }

    /// The estimate of the slope that counts: from both sides, or from the only one there is.
    pub(super) fn deciding(&self) -> Option<Estimate> {
        self.deciding_tableau().estimate()
    }

    fn deciding_tableau(&self) -> &Tableau {
        match self.only_side() {
            None => &self.central,
            Some(Side::Left) => &self.left,
            Some(Side::Right) => &self.right,
        }
    }

    /// The smaller steps alone, if they say that the larger ones see something else than what is at the point.
    pub(super) fn nearer(&self) -> Option<Ladder> {
        let row = self.deciding_tableau().contradicted()?;
        let mut nearer = Ladder::new(self.base);
        self.values[row + 1..].iter().for_each(|&(step, values)| nearer.push(step, values));
        Some(nearer)
    }

    /// The slopes from the left and from the right, if they differ by more than their errors.
    pub(super) fn kink(&self) -> Option<[Estimate; 2]> {
        let (gap, left, right) = (self.gap.estimate()?, self.left.estimate()?, self.right.estimate()?);
        let scale = left.value.abs().max(right.value.abs());
        let differs = (right.value - left.value).abs() > BARS * (left.error + right.error);
        let is_open = gap.value.abs() > BARS * gap.error + DIFFERENCE_TOLERANCE * scale;
        (differs && is_open).then_some([left, right])
    }

    /// Whether the value jumps beside the point: however small the step, it changes by the same.
    pub(super) fn jumps(&self, side: Side) -> bool {
        let index = usize::from(side == Side::Right);
        let near: Vec<f64> = self.rises.iter().rev().take(NEAREST).map(|rises| rises[index]).collect();
        let Some(&nearest) = near.first() else { return false };
        let same = near.iter().all(|rise| (rise - nearest).abs() <= 0.05 * nearest.abs());
        near.len() == NEAREST && nearest.abs() > 16.0 * f64::EPSILON * self.magnitude && same
    }

    /// Whether nothing more is to be known: differences agree with the derivative closely, and there is no kink. This
    /// is where Ridders' method ends, with the first estimate that is good enough.
    pub(super) fn confirms(&self, derivative: f64) -> bool {
        let (Some(central), Some(gap)) = (self.central(), self.gap.estimate()) else { return false };
        let scale = derivative.abs();
        let off = (central.value - derivative).abs();
        let is_smooth = gap.value.abs() <= BARS * gap.error && gap.error <= 1e-4 * scale;
        central.error <= 1e-8 * scale && off <= BARS * central.error && is_smooth
    }

    /// Whether the value is the same wherever it was asked for.
    pub(super) fn is_constant(&self) -> bool {
        !self.rises.is_empty() && self.rises.iter().flatten().all(|&rise| rise == 0.0)
    }

    /// Adds the slope across a step that is larger than all others.
    pub(super) fn push_secant(&mut self, step: f64, [below, above]: [f64; 2]) {
        self.secants.push([(self.base - below) / step, (above - self.base) / step]);
    }

    /// Whether small steps change nothing at all.
    pub(super) fn is_flat(&self) -> bool {
        let nearest = self.rises.iter().rev().take(NEAREST);
        self.rises.len() >= NEAREST && nearest.flatten().all(|&rise| rise == 0.0)
    }

    /// The steps for [`Ladder::push_secant`].
    pub(super) fn wide_steps(&self) -> impl Iterator<Item = f64> + use<> {
        let reach = self.reach;
        (1..=20).map(move |n| reach * 2.0_f64.powi(n))
    }

    /// Whether larger steps than those that count have about this slope, to both sides: no kink does that.
    pub(super) fn is_seen_from_afar(&self, derivative: f64) -> bool {
        let near = |slope: &f64| (slope - derivative).abs() <= 0.25 * derivative.abs();
        self.central.turns_from(derivative) || self.secants.windows(2).any(|pair| pair.iter().flatten().all(near))
    }

    /// How large a slope is that changes the value by as much as it is, on the way of the largest step.
    pub(super) fn steepness(&self) -> f64 {
        if self.reach > 0.0 { self.magnitude / self.reach } else { 0.0 }
    }
}

fn largest(values: [f64; 2]) -> f64 {
    values.into_iter().filter(|x| x.is_finite()).fold(0.0, |largest, x| largest.max(x.abs()))
}
