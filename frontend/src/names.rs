//! Interned names, and the search for a name that was meant.

use crate::arena::{Table, id_types};
use crate::hash::HashMap;

id_types! {
    /// An interned name.
    Name;
}

/// All names of a program.
#[derive(Default, Debug)]
pub(crate) struct Names {
    ids: HashMap<String, Name>,
    texts: Table<Name, String>,
}

impl Names {
    /// The name with this text.
    pub(crate) fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.ids.get(text) {
            return name;
        }
        let name = self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), name);
        name
    }

    /// The name with this text, if there is one.
    pub(crate) fn known(&self, text: &str) -> Option<Name> {
        self.ids.get(text).copied()
    }

    /// The name's text.
    pub(crate) fn text(&self, name: Name) -> &str {
        &self.texts[name]
    }

    /// All names.
    pub(crate) fn all(&self) -> impl Iterator<Item = Name> + use<> {
        self.texts.ids()
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }
}

/// The candidate closest to a misspelt name, if one is close enough: at most one edit per three letters.
pub(crate) fn closest<'c>(wanted: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = (wanted.chars().count() / 3).max(1);
    candidates
        // Every edit changes the number of characters by one at most.
        .filter(|candidate| candidate.chars().count().abs_diff(wanted.chars().count()) <= allowed)
        .map(|candidate| (strsim::osa_distance(wanted, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= allowed && distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_refuses_far_names() {
        assert_eq!(closest("lenght", ["length", "let", "lgamma"].into_iter()), Some("length"));
        assert_eq!(closest("y", ["x"].into_iter()), None);
        assert_eq!(closest("velocity", ["position"].into_iter()), None);
    }
}
