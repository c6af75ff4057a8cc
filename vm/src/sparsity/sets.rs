//! Sets of inputs that share what they have in common.
//!
//! A sum over a loop depends on one input more after each round. Written out, these sets are of quadratic size; as
//! unions of earlier sets they take one node each, and only those that somebody asks for are written out.

use crate::running::meter::Watch;
use crate::trap::TrapKind;

/// A set, by its place among the nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Set(u32);

impl Set {
    pub(super) const EMPTY: Set = Set(0);
}

/// Sets of up to so many members are written out, and equal ones that are made soon after each other are one node: what
/// depends on a few neighbours does so after any number of steps.
const SMALL: usize = 8;
/// So many sets are kept in mind, by what they were made of.
const RECENT: usize = 1 << 12;
/// A set with more nodes for each member has become of sets that overlap.
const NODES_OF_MEMBER: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    /// Members in order, and how many.
    Small([u32; SMALL], u8),
    Union(Set, Set),
    /// All inputs.
    All,
}

/// Sets of inputs, which have the numbers below a bound.
#[derive(Debug)]
pub(super) struct IndexSets {
    inputs: u32,
    /// The empty set comes first, then the inputs one by one, then all of them.
    nodes: Vec<Node>,
    /// The last sets that were made, each at the place that its members, or its parts, have by their hash.
    recent: Box<[Set; RECENT]>,
    /// For each node and for each input, the last walk that has met it.
    met: [Vec<u32>; 2],
    walk: u32,
}

impl IndexSets {
    pub(super) fn new(inputs: u32) -> Self {
        let single = |n: u32| Node::Small(members_of(&[n]), 1);
        let empty = Node::Small([0; SMALL], 0);
        let nodes = std::iter::once(empty).chain((0..inputs).map(single)).chain([Node::All]).collect();
        let met = [Vec::new(), vec![0; inputs as usize]];
        IndexSets { inputs, nodes, recent: Box::new([Set::EMPTY; RECENT]), met, walk: 0 }
    }

    /// What the sets take.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
    }

    /// The set of one input.
    pub(super) fn single(&self, input: u32) -> Set {
        debug_assert!(input < self.inputs, "inputs are numbered");
        Set(1 + input)
    }

    /// The set of all inputs.
    pub(super) fn all(&self) -> Set {
        Set(1 + self.inputs)
    }

    pub(super) fn union(&mut self, a: Set, b: Set) -> Set {
        if a == b || b == Set::EMPTY {
            return a;
        }
        if a == Set::EMPTY {
            return b;
        }
        if a == self.all() || b == self.all() {
            return self.all();
        }
        if let Some(merged) = self.merged(a, b) {
            return match merged {
                Node::Small([member, ..], 1) => self.single(member),
                merged => self.node(merged),
            };
        }
        self.node(Node::Union(a.min(b), a.max(b)))
    }

    /// A set of this kind: a recent one, or a new one.
    fn node(&mut self, node: Node) -> Set {
        let recent = &mut self.recent[node.hash()];
        if self.nodes[recent.0 as usize] != node {
            self.nodes.push(node);
            *recent = Set(self.nodes.len() as u32 - 1);
        }
        *recent
    }

    /// The union of two sets that are written out, if it is small enough to be, too.
    fn merged(&self, a: Set, b: Set) -> Option<Node> {
        let (Node::Small(left, left_len), Node::Small(right, right_len)) =
            (self.nodes[a.0 as usize], self.nodes[b.0 as usize])
        else {
            return None;
        };
        let (mut left, mut right) = (&left[..usize::from(left_len)], &right[..usize::from(right_len)]);
        let (mut merged, mut len) = ([0; SMALL], 0);
        while let Some(next) = left.first().into_iter().chain(right.first()).min().copied() {
            *merged.get_mut(len)? = next;
            len += 1;
            left = left.strip_prefix(&[next]).unwrap_or(left);
            right = right.strip_prefix(&[next]).unwrap_or(right);
        }
        Some(Node::Small(merged, len as u8))
    }

    /// Adds the members of a set to a list, each once, in no order.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn members(&mut self, set: Set, into: &mut Vec<u32>, watch: &Watch<'_>) -> Result<(), TrapKind> {
        if let Node::Small(members, len) = self.nodes[set.0 as usize] {
            into.extend(&members[..usize::from(len)]);
            return Ok(());
        }
        self.add_members([set], into, watch).map(|_| ())
    }

    /// [`IndexSets::members`] of a set that will be asked for again: if it takes many more nodes than it has members,
    /// it is written anew.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn members_again(&mut self, set: Set, into: &mut Vec<u32>, watch: &Watch<'_>) -> Result<(), TrapKind> {
        let first = into.len();
        let met = self.add_members([set], into, watch)?;
        let members = &mut into[first..];
        if met > NODES_OF_MEMBER * members.len() {
            watch.tick(4 * members.len())?;
            members.sort_unstable();
            let mut whole = Node::Small([0; SMALL], 0);
            for part in members.chunks(SMALL) {
                self.nodes.extend([whole, Node::Small(members_of(part), part.len() as u8)]);
                let last = self.nodes.len() as u32 - 1;
                whole = Node::Union(Set(last - 1), Set(last));
            }
            self.nodes[set.0 as usize] = whole;
        }
        Ok(())
    }

    /// Adds those members of sets to a list that it doesn't have. It has each once. Returns how many nodes there were.
    ///
    /// # Errors
    /// What the watch says.
    pub(super) fn add_members(
        &mut self,
        sets: impl IntoIterator<Item = Set>,
        into: &mut Vec<u32>,
        watch: &Watch<'_>,
    ) -> Result<usize, TrapKind> {
        self.walk += 1;
        let (walk, [nodes, inputs]) = (self.walk, &mut self.met);
        nodes.resize(self.nodes.len(), 0);
        watch.tick(into.len())?;
        into.iter().for_each(|&n| inputs[n as usize] = walk);
        let (mut waiting, mut met): (Vec<Set>, usize) = (Vec::from_iter(sets), 0);
        while let Some(next) = waiting.pop() {
            watch.tick(2)?;
            if std::mem::replace(&mut nodes[next.0 as usize], walk) == walk {
                continue;
            }
            met += 1;
            let mut new = |n: &u32| std::mem::replace(&mut inputs[*n as usize], walk) != walk;
            match &self.nodes[next.0 as usize] {
                Node::Small(members, len) => into.extend(members[..usize::from(*len)].iter().filter(|n| new(n))),
                Node::Union(a, b) => waiting.extend([b, a]),
                Node::All => {
                    watch.tick(self.inputs as usize)?;
                    into.extend((0..self.inputs).filter(new));
                }
            }
        }
        Ok(met)
    }
}

impl Node {
    /// Where it stands among the recent ones.
    fn hash(&self) -> usize {
        let of = |numbers: &[u32]| {
            let mix = |hash: u64, &n: &u32| (hash ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            (numbers.iter().fold(numbers.len() as u64, mix) >> 20) as usize % RECENT
        };
        match self {
            Node::Small(members, len) => of(&members[..usize::from(*len)]),
            Node::Union(a, b) => of(&[a.0, b.0]),
            Node::All => 0,
        }
    }
}

fn members_of(members: &[u32]) -> [u32; SMALL] {
    let mut all = [0; SMALL];
    all[..members.len()].copy_from_slice(members);
    all
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn members(sets: &mut IndexSets, set: Set) -> Vec<u32> {
        let mut members = Vec::new();
        sets.members(set, &mut members, &Watch::none()).expect("nobody stops it");
        members.sort_unstable();
        members
    }

    #[test]
    fn equal_small_sets_are_one_node() {
        let mut sets = IndexSets::new(20);
        let [a, b, c] = [3, 7, 5].map(|n| sets.single(n));
        let ab = sets.union(a, b);
        assert_eq!(sets.union(b, a), ab);
        assert_eq!(sets.union(ab, a), ab);
        let (ab_c, bc) = (sets.union(ab, c), sets.union(b, c));
        assert_eq!(sets.union(a, bc), ab_c);
        assert_eq!(members(&mut sets, ab_c), [3, 5, 7]);
        assert_eq!(sets.union(a, a), a);
        assert!(members(&mut sets, Set::EMPTY).is_empty());
    }

    #[test]
    fn a_running_sum_takes_a_node_for_each_round() {
        let inputs = 1000;
        let mut sets = IndexSets::new(inputs);
        let mut sum = Set::EMPTY;
        for n in 0..inputs {
            let single = sets.single(n);
            sum = sets.union(sum, single);
        }
        assert!(sets.nodes.len() < 2 * inputs as usize + 10);
        assert_eq!(members(&mut sets, sum), (0..inputs).collect::<Vec<_>>());
        let (one, all) = (sets.single(5), sets.all());
        assert_eq!(sets.union(sum, all), all);
        assert_eq!(members(&mut sets, all).len(), inputs as usize);
        let again = sets.union(sum, one);
        assert_eq!(members(&mut sets, again), (0..inputs).collect::<Vec<_>>());
    }

    #[test]
    fn unions_are_those_of_sets() {
        let mut dice = fastrand::Rng::with_seed(1);
        let mut sets = IndexSets::new(40);
        let mut known: Vec<(Set, std::collections::BTreeSet<u32>)> =
            (0..40).map(|n| (sets.single(n), [n].into())).collect();
        for _ in 0..400 {
            let [a, b] = [(); 2].map(|()| known[dice.usize(..known.len())].clone());
            let union = sets.union(a.0, b.0);
            let expected: std::collections::BTreeSet<u32> = a.1.union(&b.1).copied().collect();
            assert_eq!(members(&mut sets, union), expected.iter().copied().collect::<Vec<_>>());
            known.push((union, expected));
        }
    }

    #[test]
    fn sets_of_what_overlaps_are_written_anew() {
        let mut sets = IndexSets::new(20);
        let mut window: Vec<Set> = (0..20).map(|n| sets.single(n)).collect();
        for _ in 0..40 {
            window = (0..20).map(|n| sets.union(window[n], window[(n + 1) % 20])).collect();
        }
        let (set, all) = (window[0], (0..20).collect::<Vec<_>>());
        let nodes =
            |sets: &mut IndexSets| sets.add_members([set], &mut Vec::new(), &Watch::none()).expect("it goes on");
        assert!(nodes(&mut sets) > 20 * NODES_OF_MEMBER);
        let mut found = Vec::new();
        sets.members_again(set, &mut found, &Watch::none()).expect("nobody stops it");
        assert_eq!(found, all);
        assert_eq!((nodes(&mut sets), members(&mut sets, set)), (7, all.clone()));
        // What a list has is not added again.
        let mut list = vec![7, 3];
        sets.add_members([set, window[1]], &mut list, &Watch::none()).expect("nobody stops it");
        assert_eq!(list[..2], [7, 3]);
        list.sort_unstable();
        assert_eq!(list, all);
    }
}
