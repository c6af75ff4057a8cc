//! Which reals are written: those of the arguments, or their tangents.

/// Arguments are written twice if they have tangents: the second time for their shape, with the tangents in the place
/// of their reals.
pub(crate) struct Source<'a> {
    /// What is written in the place of active reals, and 0 in the place of others, if not the reals themselves.
    tangents: Option<&'a [f64]>,
    /// How many of these were written.
    at: usize,
    /// The tangents of all directions, if they are several, and which of them is written.
    lanes: &'a [Vec<f64>],
    lane: usize,
    active: bool,
}

impl<'a> Source<'a> {
    /// The reals of the arguments.
    pub(crate) const ARGUMENTS: Source<'static> = Source { tangents: None, at: 0, lanes: &[], lane: 0, active: true };

    /// From now on these are written in the place of active reals.
    pub(crate) fn set_tangents(&mut self, tangents: &'a [f64]) {
        (self.tangents, self.at) = (Some(tangents), 0);
    }

    /// The same for one of several directions.
    pub(crate) fn set_lane(&mut self, lanes: &'a [Vec<f64>], lane: usize) {
        (self.lanes, self.lane) = (if lanes.len() > 1 { lanes } else { &[] }, lane);
        self.set_tangents(&lanes[lane]);
    }

    /// Whether derivatives are with respect to the reals from now on.
    #[inline]
    pub(crate) fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    /// Whether these are the arguments' own reals.
    #[inline]
    pub(crate) fn is_arguments(&self) -> bool {
        self.tangents.is_none()
    }

    /// What is written for the next real.
    #[inline]
    pub(crate) fn real(&mut self, x: f64) -> f64 {
        match self.tangents {
            None => x,
            Some(tangents) if self.active => {
                self.at += 1;
                tangents.get(self.at - 1).copied().unwrap_or(0.0)
            }
            Some(_) => 0.0,
        }
    }

    /// What is written for the next reals, so many, if these aren't the arguments' own. Behind it are zeros.
    pub(crate) fn tangents(&mut self, count: usize) -> &'a [f64] {
        let Some(tangents) = self.tangents.filter(|_| self.active) else { return &[] };
        self.at += count;
        part(tangents, self.at - count, count)
    }

    /// If tangents of several directions are written side by side: which direction's turn it is, and those of the last
    /// reals in all of them, so many. Behind them are zeros.
    pub(crate) fn side_by_side(&self, count: usize) -> Option<(usize, Vec<&'a [f64]>)> {
        if self.lanes.is_empty() || !self.active {
            return None;
        }
        let from = self.at - count;
        Some((self.lane, self.lanes.iter().map(|tangents| part(tangents, from, count)).collect()))
    }
}

/// So many numbers from a place on, or those of them that there are.
fn part(tangents: &[f64], from: usize, count: usize) -> &[f64] {
    &tangents[from.min(tangents.len())..(from + count).min(tangents.len())]
}
