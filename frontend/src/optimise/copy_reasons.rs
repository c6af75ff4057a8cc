//! Why arrays are copied to change elements of them: what is said of the updates that are left when others have become
//! changes in place. Nothing of the program changes here.
//!
//! What an update changes is followed back to where it comes from: by names, choices and updates before it. Where that
//! is an accumulator of the loop that the update is in, `in_place` has said what is in the way.

use super::in_place::Refusal;
use crate::copied::{Copied, CopyReason};
use crate::core::{ExprId, ExprKind, Function, Origin, Step, TypeLists, Var};
use crate::hash::{HashMap, HashSet};
use crate::limits::Meter;

/// To find out where an array comes from, so many expressions are looked at.
const SOURCES_MAX: usize = 256;

/// The arrays that a function copies, where it is known why. The refusals are those of arrays that its loops carry.
pub(super) fn find(
    function: &Function,
    lists: &TypeLists,
    refusals: &HashMap<Var, Refusal>,
    meter: &Meter,
) -> Vec<Copied> {
    let finder = Finder::new(function, lists, meter);
    let mut found = Vec::new();
    for (expr, node) in function.nodes(meter) {
        let source = match &node.kind {
            // Of several updates in a row one copy is made, in which all of them are.
            &ExprKind::Replace(_, [source, ..]) if !finder.continued.contains(&expr) => source,
            // Where a loop changes the copy in place, and is in a loop itself.
            ExprKind::Builder(_, Step::Extend, parts) if finder.around.contains_key(&expr) => parts[1],
            _ => continue,
        };
        if let Some((reason, cause)) = finder.reason(refusals, expr, source) {
            found.push(Copied { function: function.id, origin: node.origin, reason, cause });
        }
    }
    found
}

/// Where an array comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The loop carries it in this variable.
    Carried(Var),
    /// It was there before the loop, or the function, began.
    Before,
    /// It is made here.
    Made,
    /// It is an element of another array.
    Element,
    /// It is a part of an object of a data type.
    Part,
    /// Nobody looks.
    Unknown,
}

struct Finder<'f> {
    function: &'f Function,
    lists: &'f TypeLists,
    meter: &'f Meter,
    /// What variables are bound to: values of expressions.
    bound: HashMap<Var, (ExprId, usize)>,
    /// What loops carry, with the loop.
    carried: HashMap<Var, ExprId>,
    /// The loop that an expression is a part of, of all that stand in one.
    around: HashMap<ExprId, ExprId>,
    /// Updates of which another one changes the result at once.
    continued: HashSet<ExprId>,
    /// Where an array is changed in place.
    in_place: HashSet<Origin>,
    /// Whether the function calls itself.
    is_recursive: bool,
}

impl<'f> Finder<'f> {
    fn new(function: &'f Function, lists: &'f TypeLists, meter: &'f Meter) -> Self {
        let mut finder = Finder {
            function,
            lists,
            meter,
            bound: HashMap::default(),
            carried: HashMap::default(),
            around: HashMap::default(),
            continued: HashSet::default(),
            in_place: HashSet::default(),
            is_recursive: false,
        };
        for (expr, node) in function.nodes(meter) {
            finder.note(expr);
            let around = finder.around.get(&expr).copied();
            // What is evaluated once, before the first round, is outside.
            let before: &[ExprId] = match &node.kind {
                ExprKind::Loop(repeat) => &[repeat.init],
                ExprKind::Repeat(repeat) => &[repeat.init],
                _ => &[],
            };
            let is_loop = matches!(node.kind, ExprKind::Loop(_) | ExprKind::Repeat(_) | ExprKind::Collect(..));
            node.for_each_child(|child| {
                let inside = if is_loop && !before.contains(&child) { Some(expr) } else { around };
                finder.around.extend(inside.map(|inside| (child, inside)));
            });
        }
        finder
    }

    /// Notes what an expression says of others.
    fn note(&mut self, expr: ExprId) {
        let node = &self.function.body.exprs[expr];
        match &node.kind {
            ExprKind::Block(bindings, _) => {
                for binding in bindings {
                    self.bound.extend((0..).zip(&binding.vars).map(|(at, &var)| (var, (binding.value, at))));
                }
            }
            ExprKind::Loop(repeat) => {
                self.carried.extend(repeat.vars.iter().map(|&var| (var, expr)));
            }
            ExprKind::Repeat(repeat) => {
                self.carried.extend(repeat.params.iter().map(|&var| (var, expr)));
            }
            &ExprKind::Replace(_, [source, ..]) => _ = self.continued.insert(source),
            ExprKind::Builder(_, Step::Put, _) => _ = self.in_place.insert(node.origin),
            ExprKind::Call(function, _) => self.is_recursive |= *function == self.function.id,
            _ => {}
        }
    }

    /// Why an update copies, and what is in the way.
    fn reason(
        &self,
        refusals: &HashMap<Var, Refusal>,
        update: ExprId,
        source: ExprId,
    ) -> Option<(CopyReason, Option<Origin>)> {
        let around = self.around.get(&update).copied();
        let root = self.root(source, around)?;
        let reason = match root {
            Root::Carried(var) => {
                return refusals.get(&var).map(|refusal| (refusal.reason, Some(refusal.cause)));
            }
            // There is another loop, for many rounds, which changes the row in place.
            Root::Element if self.is_in_place(update) => CopyReason::RowOfFewRounds,
            Root::Element => CopyReason::Row,
            Root::Part => CopyReason::InObject,
            Root::Before if around.is_some() => CopyReason::NotCarried,
            Root::Made if around.is_some() => CopyReason::MadeInRound,
            Root::Before if self.is_recursive => CopyReason::Argument,
            Root::Before | Root::Made | Root::Unknown => return None,
        };
        Some((reason, None))
    }

    /// Whether the same update is done in place elsewhere in the function.
    fn is_in_place(&self, update: ExprId) -> bool {
        let node = &self.function.body.exprs[update];
        matches!(node.kind, ExprKind::Replace(..)) && self.in_place.contains(&node.origin)
    }

    /// Where an array comes from, seen from inside of a loop. Of several places it is an accumulator of that loop, if
    /// there is one among them, or else the first one.
    fn root(&self, source: ExprId, around: Option<ExprId>) -> Option<Root> {
        let mut first = None;
        let mut pending = vec![(source, 0)];
        let mut seen = HashSet::default();
        while let Some((expr, at)) = pending.pop() {
            // What two choices may give is looked at once.
            if !seen.insert((expr, at)) {
                continue;
            }
            if seen.len() > SOURCES_MAX || !self.meter.step(self.function.body.exprs[expr].origin.span) {
                return None;
            }
            match self.step(expr, at, around) {
                Ok(root @ Root::Carried(..)) => return Some(root),
                Ok(root) => first = first.or(Some(root)),
                Err(further) => pending.extend(further.into_iter().rev()),
            }
        }
        first
    }

    /// Where a value comes from, or values that it may be.
    fn step(&self, expr: ExprId, at: usize, around: Option<ExprId>) -> Result<Root, Vec<(ExprId, usize)>> {
        Err(match &self.function.body.exprs[expr].kind {
            ExprKind::Var(var) => {
                if let Some(&repeat) = self.carried.get(var) {
                    return Ok(if around == Some(repeat) { Root::Carried(*var) } else { Root::Before });
                }
                match self.bound.get(var) {
                    // A name that was given in the same round, or where there is no loop.
                    Some(&(value, at)) if self.is_inside(value, around) => vec![(value, at)],
                    None if !self.function.params.contains(var) => return Ok(Root::Unknown),
                    _ => return Ok(Root::Before),
                }
            }
            &ExprKind::Replace(_, [source, ..]) => vec![(source, 0)],
            &ExprKind::If([_, then, other]) => vec![(then, at), (other, at)],
            ExprKind::Block(_, value) => vec![(*value, at)],
            ExprKind::Values(parts) => self.function.body.part(self.lists, parts, at).into_iter().collect(),
            ExprKind::Switch(switch) => {
                switch.arms.iter().map(|arm| (arm.1, at)).chain(switch.default.map(|arm| (arm, at))).collect()
            }
            ExprKind::Loop(repeat) => vec![(repeat.init, at)],
            ExprKind::Builder(_, Step::Finish | Step::Put, parts) => vec![(parts[0], 0)],
            ExprKind::Builder(_, Step::Extend, parts) => vec![(parts[1], 0)],
            ExprKind::Payload(field, object) if field.is_of_shape() => vec![(*object, 0)],
            ExprKind::Construct(_, fields) => fields.iter().take(1).map(|&field| (field, 0)).collect(),
            ExprKind::Payload(..) => return Ok(Root::Part),
            ExprKind::Element(..) | ExprKind::Builder(_, Step::Get, _) => return Ok(Root::Element),
            ExprKind::Constant { .. } => return Ok(Root::Before),
            _ => return Ok(Root::Made),
        })
    }

    /// Whether an expression is evaluated in each round of a loop, if there is one.
    fn is_inside(&self, expr: ExprId, around: Option<ExprId>) -> bool {
        let mut loops = std::iter::successors(self.around.get(&expr), |repeat| self.around.get(repeat));
        around.is_none_or(|around| loops.any(|&repeat| repeat == around))
    }
}
