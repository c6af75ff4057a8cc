//! Noticing where a derivative is about to change: instructions whose operands are near a tie or a jump, in runs that
//! ask for it. What looks is what looks for numbers that aren't finite ([`super::checks`]).

use crate::bytecode::isa::Op;
use crate::bytecode::module::FuncId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What one instruction has met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub(crate) op: Op,
    pub(crate) count: u64,
    /// The least distance.
    pub(crate) nearest: f64,
}

/// Where a run was near a tie or a jump, by functions and instructions.
#[derive(Debug)]
pub(crate) struct KinkTable {
    epsilon: f64,
    met: Mutex<BTreeMap<(FuncId, u32), Met>>,
}

impl KinkTable {
    /// What is nearer than this, relative to its operands if they are larger than 1, counts.
    pub(crate) fn new(epsilon: f64) -> Self {
        KinkTable { epsilon, met: Mutex::default() }
    }

    /// Counts an execution of an instruction on these reals, if they are near.
    pub(super) fn meet(&self, (func, inst): (FuncId, u32), op: Op, reals: &[f64]) {
        let Some(distance) = distance(op, reals) else { return };
        let scale = reals.iter().fold(1.0f64, |scale, x| scale.max(x.abs()));
        // Of numbers that aren't finite none is near another one.
        if distance.partial_cmp(&(self.epsilon * scale)).is_some_and(|order| order.is_le()) && scale.is_finite() {
            let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
            let met = met.entry((func, inst)).or_insert(Met { op, count: 0, nearest: f64::INFINITY });
            met.count += 1;
            met.nearest = met.nearest.min(distance);
        }
    }

    /// All of them, in the order of the code.
    pub(crate) fn into_met(self) -> BTreeMap<(FuncId, u32), Met> {
        self.met.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an instruction has ties or jumps.
pub(crate) fn has_kinks(op: Op) -> bool {
    let rounds = matches!(op, Op::Floor | Op::Ceil | Op::Trunc | Op::Round | Op::ToInt);
    rounds || matches!(op, Op::Min | Op::Max | Op::Abs | Op::Sign | Op::Eq | Op::Ne | Op::Lt | Op::Le)
}

/// How far operands are from the nearest tie or jump of an instruction; `None` if it has none.
fn distance(op: Op, reals: &[f64]) -> Option<f64> {
    let to = |x: f64, jump: f64| (x - jump).abs();
    Some(match (op, reals) {
        (Op::Min | Op::Max | Op::Eq | Op::Ne | Op::Lt | Op::Le, &[a, b]) => to(a, b),
        (Op::Abs | Op::Sign, &[a]) => a.abs(),
        (Op::Floor | Op::Ceil, &[a]) => to(a, a.round()),
        // Towards zero: there is no jump at 0.
        (Op::Trunc | Op::ToInt, &[a]) if a.abs() < 0.5 => 1.0 - a.abs(),
        (Op::Trunc | Op::ToInt, &[a]) => to(a, a.round()),
        (Op::Round, &[a]) => to(a, a.floor() + 0.5),
        _ => return None,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn distances_are_to_the_nearest_tie_or_jump() {
        let near = |op, reals: &[f64]| distance(op, reals).expect("it has some");
        assert_eq!(near(Op::Max, &[2.0, 1.5]), 0.5);
        assert_eq!(near(Op::Abs, &[-0.25]), 0.25);
        assert_eq!(near(Op::Floor, &[1.75]), 0.25);
        assert_eq!(near(Op::Ceil, &[-1.125]), 0.125);
        assert_eq!(near(Op::Trunc, &[0.25]), 0.75);
        assert_eq!(near(Op::ToInt, &[-1.25]), 0.25);
        assert_eq!(near(Op::Round, &[1.25]), 0.25);
        assert_eq!(near(Op::Round, &[-1.5]), 0.0);
        for &op in Op::ALL {
            let known = [&[0.5][..], &[0.5, 0.25]].iter().any(|reals| distance(op, reals).is_some());
            assert_eq!(known, has_kinks(op), "{op:?}");
        }
    }

    #[test]
    fn what_is_not_finite_is_near_nothing() {
        let table = KinkTable::new(1e-9);
        for reals in [[f64::INFINITY; 2], [f64::NAN, 1.0], [1.0, f64::INFINITY]] {
            table.meet((FuncId(0), 0), Op::Max, &reals);
        }
        table.meet((FuncId(0), 1), Op::Max, &[1e12, 1e12 + 100.0]);
        table.meet((FuncId(0), 1), Op::Max, &[1e12, 1e12]);
        let met = table.into_met();
        assert_eq!(met.len(), 1);
        assert_eq!((met[&(FuncId(0), 1)].count, met[&(FuncId(0), 1)].nearest), (2, 0.0));
    }
}
