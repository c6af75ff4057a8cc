//! Functions that call each other or themselves: which are copied into which, and how often into themselves.

use super::size;
use crate::arena::Table;
use crate::copy::{Chooser, InPlace, Surroundings, copy_function};
use crate::core::{Body, CallSite, Function, FunctionId, InlinedCall, TypeLists};
use crate::kept::KeptReason;
use crate::limits::Meter;

/// A function is copied into itself at most so deep.
const LEVELS_MAX: u32 = 3;
/// By that it grows to at most this many nodes.
const UNROLLED_NODES_MAX: usize = 200;

/// The functions of a group, each after those that are to be copied into it, and whether it is a breaker. `into` says
/// for the others which function of the group has their only call.
pub(super) fn copying_order(
    group: &[FunctionId],
    into: impl Fn(FunctionId) -> Option<FunctionId>,
) -> Vec<(FunctionId, bool)> {
    if let [only] = *group {
        return vec![(only, true)];
    }
    let place = |id: FunctionId| group.binary_search(&id).expect("who calls each other is in one group");
    let mut into: Vec<Option<usize>> = group.iter().map(|&id| into(id).map(place)).collect();
    if into.iter().all(Option::is_some) {
        // Each calls the next one, and the last one the first: a group has no other cycle of only calls.
        into[0] = None;
    }
    let mut waiting = vec![0; group.len()];
    into.iter().flatten().for_each(|&caller| waiting[caller] += 1);
    let mut ready: Vec<usize> = (0..group.len()).rev().filter(|&at| waiting[at] == 0).collect();
    let mut order = Vec::with_capacity(group.len());
    while let Some(at) = ready.pop() {
        order.push((group[at], into[at].is_none()));
        if let Some(caller) = into[at] {
            waiting[caller] -= 1;
            if waiting[caller] == 0 {
                ready.push(caller);
            }
        }
    }
    order
}

/// Copies a small function, which has so many calls of itself, into itself: a call in native code costs as much as some
/// dozens of other instructions, and what is known of an argument is known in the copy.
pub(super) fn unroll(
    function: Function,
    calls: usize,
    lists: &mut TypeLists,
    sites: &mut Table<CallSite, InlinedCall>,
    spare: &mut Body,
    meter: &Meter,
) -> Function {
    let Ok(size) = size(&function, UNROLLED_NODES_MAX) else { return function };
    // One more level makes each of the innermost calls a copy.
    let (mut levels, mut innermost, mut nodes) = (0, calls, size);
    while calls > 0 && levels < LEVELS_MAX && nodes + innermost * size <= UNROLLED_NODES_MAX {
        levels += 1;
        nodes += innermost * size;
        innermost *= calls;
    }
    if levels == 0 {
        return function;
    }
    // Why the calls stay that it has is known already.
    let mut kept = Vec::new();
    copy_function(&function, &Unroller { function: &function, levels }, lists, sites, &mut kept, spare, meter)
}

struct Unroller<'u> {
    function: &'u Function,
    levels: u32,
}

impl Chooser for Unroller<'_> {
    fn choose(&self, callee: FunctionId, around: Surroundings) -> Result<&Function, KeptReason> {
        let copied = callee == self.function.id && around.depth < self.levels;
        copied.then_some(self.function).ok_or(KeptReason::Recursive)
    }

    fn constant(&self, _: FunctionId, is_total: bool) -> InPlace<'_> {
        InPlace::Constant { is_total }
    }

    fn forwards(&self, _: FunctionId) -> Option<&Function> {
        None
    }
}
