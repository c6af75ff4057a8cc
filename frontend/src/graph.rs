//! The order in which definitions are worked on: strongly connected components of the graph of mentions, callees first
//! (Tarjan 1972, without recursion: a chain of definitions may be long).

use crate::arena::{Id, Table};
use crate::limits::Meter;
use crate::source::Span;

/// Groups of mutually recursive definitions; a group comes after all that it mentions. Fewer if the compilation is
/// stopped.
pub(crate) fn groups<I: Id + Ord>(mentions: &Table<I, Vec<I>>, meter: &Meter) -> Vec<Vec<I>> {
    const NEW: usize = usize::MAX;
    let mut groups = Vec::new();
    let mut order = vec![NEW; mentions.len()];
    let mut lowest = vec![NEW; mentions.len()];
    let mut grouped = vec![false; mentions.len()];
    let mut open: Vec<I> = Vec::new();
    let mut visited = 0;
    for start in mentions.ids() {
        let mut path = vec![(start, 0)];
        while let Some(&mut (def, ref mut next)) = path.last_mut() {
            if !meter.step(Span::default()) {
                return groups;
            }
            let at = def.index();
            if order[at] == NEW {
                order[at] = visited;
                lowest[at] = visited;
                visited += 1;
                open.push(def);
            } else if *next == 0 {
                // Only a start that an earlier walk has seen comes here twice.
                path.pop();
                continue;
            }
            if let Some(&callee) = mentions[def].get(*next) {
                *next += 1;
                if order[callee.index()] == NEW {
                    path.push((callee, 0));
                } else if !grouped[callee.index()] {
                    lowest[at] = lowest[at].min(order[callee.index()]);
                }
                continue;
            }
            if lowest[at] == order[at] {
                let first = open.iter().rposition(|&other| other == def).expect("a definition is open until grouped");
                let mut group = open.split_off(first);
                group.sort_unstable();
                group.iter().for_each(|other| grouped[other.index()] = true);
                groups.push(group);
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                lowest[parent.index()] = lowest[parent.index()].min(lowest[at]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::DefId;

    #[test]
    fn callees_come_first_and_cycles_together() {
        let mut mentions = Table::default();
        let ids: Vec<DefId> = (0..5).map(DefId::from_index).collect();
        for list in [vec![1, 4], vec![2], vec![1, 3], vec![3], vec![]] {
            mentions.push(list.into_iter().map(|i| ids[i]).collect());
        }
        let groups = groups(&mentions, &Meter::unlimited());
        assert_eq!(groups, [vec![ids[3]], vec![ids[1], ids[2]], vec![ids[4]], vec![ids[0]]]);
    }
}
