//! Which reals are written: those of the arguments, or their tangents.

/// Arguments are written twice if they have tangents: the second time for their shape, with the tangents in the place
/// of their reals.
pub(crate) struct Source<'a> {
    /// What is written in the place of active reals, and 0 in the place of others, if not the reals themselves.
    tangents: Option<&'a [f64]>,
    active: bool,
}

impl<'a> Source<'a> {
    /// The reals of the arguments.
    pub(crate) const ARGUMENTS: Source<'static> = Source { tangents: None, active: true };

    /// From now on these are written in the place of active reals.
    pub(crate) fn set_tangents(&mut self, tangents: &'a [f64]) {
        self.tangents = Some(tangents);
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
        let Some(tangents) = &mut self.tangents else { return x };
        match tangents.split_first() {
            Some((&tangent, left)) if self.active => {
                *tangents = left;
                tangent
            }
            _ => 0.0,
        }
    }

    /// What is written for the next reals, so many, if these aren't the arguments' own. Behind it are zeros.
    pub(crate) fn tangents(&mut self, count: usize) -> &'a [f64] {
        let Some(tangents) = self.tangents.as_mut().filter(|_| self.active) else { return &[] };
        let (taken, left) = tangents.split_at(count.min(tangents.len()));
        *tangents = left;
        taken
    }
}
