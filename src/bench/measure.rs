//! Measuring: a warm-up, then rounds in which the measurements alternate, so that a machine that gets slower or
//! faster in between does so for all of them alike. The result is the median over the rounds.

use std::time::{Duration, Instant};

/// How long a measurement may take.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Time that each measurement runs before anything counts.
    pub(crate) warm_up: Duration,
    /// Time of a sample, at least; short programs are repeated to fill it.
    pub(crate) sample: Duration,
    /// Samples of each measurement.
    pub(crate) rounds: usize,
}

impl Effort {
    /// For figures that are worth keeping.
    pub(crate) const FULL: Effort =
        Effort { warm_up: Duration::from_millis(100), sample: Duration::from_millis(5), rounds: 51 };

    /// For a first look, and for tests.
    pub(crate) const QUICK: Effort =
        Effort { warm_up: Duration::from_millis(10), sample: Duration::from_millis(1), rounds: 5 };
}

/// Medians of the time of one run in nanoseconds, in the order of what is measured. `time` says how long a number of
/// runs take together.
pub(crate) fn medians<T, E>(
    measured: &[T],
    effort: &Effort,
    time: impl Fn(&T, u64) -> Result<Duration, E>,
    mut round: impl FnMut(),
) -> Result<Vec<f64>, E> {
    let repeats = measured.iter().map(|what| warm_up(|times| time(what, times), effort));
    let repeats = repeats.collect::<Result<Vec<u64>, E>>()?;
    let mut samples = vec![Vec::new(); measured.len()];
    for _ in 0..effort.rounds {
        for ((what, samples), &times) in measured.iter().zip(&mut samples).zip(&repeats) {
            samples.push(time(what, times)?.as_secs_f64() * 1e9 / times as f64);
        }
        round();
    }
    Ok(samples.into_iter().map(median).collect())
}

/// Runs until the warm-up is over; gives how many runs fill a sample. What was held up by something else looks long
/// enough too early, so that every sample is looked at.
fn warm_up<E>(time: impl Fn(u64) -> Result<Duration, E>, effort: &Effort) -> Result<u64, E> {
    let began = Instant::now();
    let mut times = 1;
    loop {
        // By the clock on the wall: part of a call is all that some measurements count.
        let sampled = Instant::now();
        time(times)?;
        if sampled.elapsed() < effort.sample {
            times *= 2;
        } else if began.elapsed() >= effort.warm_up {
            return Ok(times);
        }
    }
}

pub(super) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let (low, high) = (samples[(samples.len() - 1) / 2], samples[samples.len() / 2]);
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn median_of_an_even_number_is_the_middle_of_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
