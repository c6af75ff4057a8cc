//! Guessing what a misspelt name stands for.

/// The candidate that a misspelt word most likely stands for.
pub(crate) fn similar<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LEN_MAX: usize = 40;
    if word.len() > LEN_MAX {
        return None;
    }
    let distance = |candidate: &'a str| (strsim::osa_distance(word, candidate), candidate);
    let near = candidates.into_iter().filter(|candidate| candidate.len() <= LEN_MAX).map(distance);
    let (distance, candidate) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + word.len() / 4).then_some(candidate)
}
