//! Sets of real inputs, and which of them the nodes of a graph depend on.

use crate::derivation::graph::{Graph, Node, real_arguments};

/// A set of real inputs, by their numbers. A set of the first 64 is a word and takes no memory of its own; there is no
/// limit.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct InputSet {
    /// Inputs 0 to 63.
    first: u64,
    /// 64 inputs each, up to the last word that is not 0.
    rest: Vec<u64>,
}

impl InputSet {
    pub(crate) fn is_empty(&self) -> bool {
        // The last word of `rest` is not 0.
        self.first == 0 && self.rest.is_empty()
    }

    pub(crate) fn insert(&mut self, input: usize) {
        let bit = 1 << (input % 64);
        match (input / 64).checked_sub(1) {
            None => self.first |= bit,
            Some(word) => {
                self.rest.resize(self.rest.len().max(word + 1), 0);
                self.rest[word] |= bit;
            }
        }
    }

    /// Inserts all members of another set.
    pub(crate) fn insert_all(&mut self, other: &InputSet) {
        self.first |= other.first;
        self.rest.resize(self.rest.len().max(other.rest.len()), 0);
        self.rest.iter_mut().zip(&other.rest).for_each(|(word, other)| *word |= other);
    }

    /// The members in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let words = std::iter::once(self.first).chain(self.rest.iter().copied()).enumerate();
        words.flat_map(|(at, word)| {
            // Each step clears the lowest bit.
            let left = std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
            left.take_while(|word| *word != 0).map(move |word| 64 * at + word.trailing_zeros() as usize)
        })
    }

    /// The set as bits of a word, if all members are below 64.
    pub(crate) fn word(&self) -> Option<u64> {
        self.rest.is_empty().then_some(self.first)
    }
}

impl FromIterator<usize> for InputSet {
    fn from_iter<I: IntoIterator<Item = usize>>(inputs: I) -> Self {
        let mut set = InputSet::default();
        inputs.into_iter().for_each(|input| set.insert(input));
        set
    }
}

/// For each node, the real inputs that it depends on through partial derivatives.
pub(crate) fn dependences(graph: &Graph) -> Vec<InputSet> {
    let mut sets: Vec<InputSet> = vec![InputSet::default(); graph.len()];
    for (id, node) in graph.iter() {
        match node {
            Node::RealInput(n) => sets[id.index()].insert(n as usize),
            Node::Op(op, _) if op.info().differentiable => {
                let (before, from) = sets.split_at_mut(id.index());
                for (arg, _) in graph.args(id).zip(real_arguments(op)).filter(|(_, real)| *real) {
                    from[0].insert_all(&before[arg.index()]);
                }
            }
            _ => {}
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::isa::Op;

    #[test]
    fn members_of_all_sizes_are_kept_in_order() {
        let members = [0, 63, 64, 127, 128, 1000];
        let set: InputSet = members.iter().rev().copied().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), members);
        assert!(InputSet::default().is_empty() && !set.is_empty());
        assert_eq!(InputSet::default().iter().count(), 0);
    }

    #[test]
    fn only_a_set_of_the_first_inputs_is_a_word() {
        let set = |members: &[usize]| members.iter().copied().collect::<InputSet>();
        assert_eq!(set(&[]).word(), Some(0));
        assert_eq!(set(&[0, 5, 63]).word(), Some(1 << 63 | 1 << 5 | 1));
        assert_eq!(set(&[0, 64]).word(), None);
    }

    #[test]
    fn a_union_has_the_members_of_both_whichever_is_longer() {
        let (short, long): (InputSet, InputSet) = ([1, 70].into_iter().collect(), [2, 70, 300].into_iter().collect());
        let mut union = short.clone();
        union.insert_all(&long);
        let mut other = long;
        other.insert_all(&short);
        assert_eq!(union, other);
        assert_eq!(union.iter().collect::<Vec<_>>(), [1, 2, 70, 300]);
    }

    #[test]
    fn a_condition_and_a_rounding_carry_no_dependence() {
        let mut graph = Graph::default();
        let inputs: Vec<_> = (0..70).map(|n| graph.add(Node::RealInput(n))).collect();
        let less = graph.op(Op::Lt, &[inputs[0], inputs[1]]);
        let rounded = graph.op(Op::Floor, &[inputs[2]]);
        let chosen = graph.op(Op::Select, &[less, inputs[69], rounded]);
        let sum = graph.op(Op::Add, &[chosen, inputs[3]]);
        assert_eq!(dependences(&graph)[sum.index()].iter().collect::<Vec<_>>(), [3, 69]);
    }
}
