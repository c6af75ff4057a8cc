//! Derivatives from differences with error bars (Ridders 1982).
//!
//! Differences are taken with steps that are halved, and extrapolated to the step 0 by a Neville tableau. Halves of a
//! power of 2 are exact, so that arguments move by what is divided by. An entry's error is the larger of its distances
//! from its two predecessors, plus the rounding of the values that were subtracted. Ridders stops where errors begin to
//! grow; here the tableau goes on if that estimate doesn't confirm what it is compared with, because a kink beside the
//! point spoils large steps and cancellation spoils small ones.

/// A number with an error bar.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// How far off it may be, by an estimate that is mostly on the safe side.
    pub error: f64,
}

impl Estimate {
    /// Whether it says more than an order of magnitude.
    pub(super) fn has_digits(self) -> bool {
        self.error <= 0.25 * self.value.abs()
    }
}

/// Extrapolations of one kind of difference.
pub(super) struct Tableau {
    /// By how much a halved step divides the first term of the error, and each further one more.
    factor: f64,
    /// The last row.
    row: Vec<f64>,
    /// The best entry of each row.
    best: Vec<Option<Estimate>>,
    /// What rounding may have done to the difference of each row.
    rounding: Vec<f64>,
}

/// By how many bars estimates differ for certain.
const CERTAIN_BARS: f64 = 8.0;
/// Columns of a tableau: more would only add rounding.
const COLUMNS_MAX: usize = 8;

impl Tableau {
    /// For differences whose error has all powers of the step.
    pub(super) fn of_all_powers() -> Self {
        Tableau { factor: 2.0, row: Vec::new(), best: Vec::new(), rounding: Vec::new() }
    }

    /// For differences whose error has the even powers of the step.
    pub(super) fn of_even_powers() -> Self {
        Tableau { factor: 4.0, row: Vec::new(), best: Vec::new(), rounding: Vec::new() }
    }

    /// Begins anew: the next difference is not of half the step of the one before.
    pub(super) fn restart(&mut self) {
        self.row.clear();
    }

    /// Adds a difference of half the step of the one before, and what rounding may have done to it. A tableau begins
    /// anew behind one that isn't finite.
    pub(super) fn push(&mut self, difference: f64, rounding: f64) {
        self.rounding.push(rounding);
        if !difference.is_finite() {
            self.row.clear();
            self.best.push(None);
            return;
        }
        let mut row = vec![difference];
        let mut best: Option<Estimate> = None;
        let mut power = 1.0;
        for (column, &above) in self.row.iter().enumerate().take(COLUMNS_MAX - 1) {
            power *= self.factor;
            let beside = row[column];
            let value = beside + (beside - above) / (power - 1.0);
            let error = (value - beside).abs().max((value - above).abs()) + rounding;
            if value.is_finite() && error.is_finite() && best.is_none_or(|best| error < best.error) {
                best = Some(Estimate { value, error });
            }
            row.push(value);
        }
        self.row = row;
        self.best.push(best);
    }

    /// The estimate with the smallest error bar. An error that is small by chance is no good, so it is at least the
    /// distance from the estimate of the step before or of that after.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        self.located().map(|(_, estimate)| estimate)
    }

    /// The same with its row.
    fn located(&self) -> Option<(usize, Estimate)> {
        let mut found: Option<(usize, Estimate)> = None;
        for (n, Estimate { value, error }) in self.rows() {
            let distance = |row: Option<&Option<Estimate>>| {
                row.copied().flatten().map_or(f64::INFINITY, |other| (other.value - value).abs())
            };
            let before = n.checked_sub(1).map_or(f64::INFINITY, |before| distance(self.best.get(before)));
            let error = error.max(before.min(distance(self.best.get(n + 1))));
            if error.is_finite() && found.is_none_or(|(_, found)| error < found.error) {
                found = Some((n, Estimate { value, error }));
            }
        }
        found
    }

    /// Whether larger steps than those of the best estimate contradict it, and agree with this value instead: as where
    /// reals that cancel make a staircase of a slope.
    pub(super) fn turns_from(&self, value: f64) -> bool {
        let Some((at, best)) = self.located() else { return false };
        self.rows().take_while(|(n, _)| *n < at).any(|(_, row)| {
            let precise = row.error <= 0.05 * row.value.abs().max(value.abs());
            precise && (row.value - value).abs() <= 2.0 * row.error && (row.value - best.value).abs() > 4.0 * row.error
        })
    }

    /// The row of the best estimate, if that has no digit and smaller steps say something else, which rounding doesn't
    /// explain: as where larger steps reach across a pole.
    pub(super) fn contradicted(&self) -> Option<usize> {
        let (at, best) = self.located().filter(|(_, best)| !best.has_digits())?;
        let contradicts = |(n, row): (usize, Estimate)| {
            (row.value - best.value).abs() > CERTAIN_BARS * (best.error + self.rounding[n])
        };
        self.rows().skip_while(|(n, _)| *n <= at).any(contradicts).then_some(at)
    }

    fn rows(&self) -> impl Iterator<Item = (usize, Estimate)> + '_ {
        self.best.iter().enumerate().filter_map(|(n, row)| row.map(|row| (n, row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tableau: Tableau, levels: i32, difference: impl Fn(f64) -> f64) -> Option<Estimate> {
        let mut tableau = tableau;
        for step in (0..levels).map(|level| 0.5_f64.powi(level + 3)) {
            // That of values of about 3.
            tableau.push(difference(step), 6.0 * f64::EPSILON / step);
        }
        tableau.estimate()
    }

    #[test]
    fn error_bars_hold_the_derivative() {
        let central = |h: f64| ((1.0 + h).exp() - (1.0 - h).exp()) / (2.0 * h);
        let forward = |h: f64| ((1.0 + h).exp() - 1.0_f64.exp()) / h;
        for levels in 3..24 {
            for (tableau, bound, found) in [
                (Tableau::of_even_powers(), 1e-10, &central as &dyn Fn(f64) -> f64),
                (Tableau::of_all_powers(), 1e-9, &forward),
            ] {
                let Estimate { value, error } = of(tableau, levels, found).unwrap();
                assert!((value - 1.0_f64.exp()).abs() <= 2.0 * error, "{levels}: {value} ± {error}");
                assert!(levels < 9 || error <= bound, "{levels}: {value} ± {error}");
            }
        }
    }

    #[test]
    fn smaller_steps_contradict_what_has_no_digits() {
        let pushed = |difference: &dyn Fn(f64) -> f64| {
            let mut tableau = Tableau::of_even_powers();
            for step in (0..24).map(|level| 0.5_f64.powi(level + 3)) {
                tableau.push(difference(step), 6.0 * f64::EPSILON / step);
            }
            tableau
        };
        // 1 / x beside 0, the constant 3 with the rounding that it may have, and an exponential.
        assert!(pushed(&|h| 1.0 / (h * h)).contradicted().is_some());
        assert_eq!(pushed(&|h| (1e9 * h).sin() * 3.0 * f64::EPSILON / h).contradicted(), None);
        assert_eq!(pushed(&|h| ((1.0 + h).exp() - (1.0 - h).exp()) / (2.0 * h)).contradicted(), None);
    }

    #[test]
    fn what_grows_or_is_noise_has_no_small_error() {
        let root = of(Tableau::of_all_powers(), 24, |h| h.powf(-0.5)).unwrap();
        assert!(root.error > 0.2 * root.value.abs(), "{root:?}");
        assert_eq!(of(Tableau::of_even_powers(), 24, |_| f64::NAN), None);
    }
}
