//! An explanation as text: a line for each loop and each call, with its source line where the text is at hand.

use super::{
    CallExplanation, CallKind, CopyExplanation, Explanation, FunctionExplanation, LoopExplanation, Obstacle, Place,
    Recording,
};
use crate::excerpt::SourceTexts;
use std::collections::HashSet;
use std::fmt;

/// An explanation with the texts of the source files that its places are in: see [`Explanation::with_sources`].
#[derive(Clone, Copy, Debug)]
pub struct WithSources<'a> {
    explanation: &'a Explanation,
    texts: Option<&'a SourceTexts>,
}

impl Explanation {
    /// What shows the explanation with the source lines and a caret at each place.
    pub fn with_sources<'a>(&'a self, texts: &'a SourceTexts) -> WithSources<'a> {
        WithSources { explanation: self, texts: Some(texts) }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WithSources { explanation: self, texts: None }.fmt(f)
    }
}

impl fmt::Display for WithSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.explanation.functions.iter().map(|function| function.name.as_str()).collect();
        writeln!(
            f,
            "Loops and calls of `{}` as compiled; what was fused, unrolled or copied into its caller is not listed.",
            names.first().copied().unwrap_or_default()
        )?;
        if self.explanation.functions.iter().any(has_several_at_a_place) {
            writeln!(
                f,
                "Several loops have one place if a function of the prelude has them, if their function was copied into \
                 several\ncallers, or if one is for arrays of a likely length or for a row that is changed where it is, and \
                 one for others."
            )?;
        }
        self.explanation.functions.iter().try_for_each(|function| self.function(f, function))
    }
}

/// What a line is about.
enum Item<'a> {
    Loop(&'a LoopExplanation),
    Call(&'a CallExplanation),
    Copy(&'a CopyExplanation),
}

impl Item<'_> {
    fn place(&self) -> &Place {
        match self {
            Item::Loop(found) => &found.place,
            Item::Call(call) => &call.place,
            Item::Copy(copy) => &copy.place,
        }
    }

    /// Whether both are at one place of the source: loops, or calls or copies of which the same is to be said.
    fn is_beside(&self, other: &Item<'_>) -> bool {
        let alike = match (self, other) {
            (Item::Loop(_), Item::Loop(_)) => true,
            (Item::Call(a), Item::Call(b)) => (a.kind, &a.callee, &a.reason) == (b.kind, &b.callee, &b.reason),
            (Item::Copy(a), Item::Copy(b)) => {
                let is_one = (a.parent.is_some(), a.before_loop) == (b.parent.is_some(), b.before_loop);
                is_one && (&a.reason, &a.cause) == (&b.reason, &b.cause)
            }
            _ => false,
        };
        alike && self.place().source.is_some() && self.place().source == other.place().source
    }
}

/// Whether several loops are at one place of the source.
fn has_several_at_a_place(function: &FunctionExplanation) -> bool {
    let mut places = HashSet::new();
    let loops = function.loops.as_deref().unwrap_or_default();
    loops.iter().filter_map(|found| found.place.source.as_ref()).any(|place| !places.insert(place))
}

impl WithSources<'_> {
    fn function(&self, f: &mut fmt::Formatter<'_>, function: &FunctionExplanation) -> fmt::Result {
        writeln!(f, "\n{}:", function.name)?;
        let loops = function.loops.as_deref().unwrap_or_default();
        let calls = function.calls.iter().map(Item::Call);
        let copies = function.copies.iter().map(Item::Copy);
        let mut items: Vec<Item<'_>> = loops.iter().map(Item::Loop).chain(calls).chain(copies).collect();
        // Of loops at one place of the source the outer ones come first, as they are.
        items.sort_by_key(|item| {
            let Place { inst, source } = item.place().clone();
            let inst = if source.is_some() { 0 } else { inst };
            (source, inst)
        });
        if function.loops.is_none() {
            writeln!(f, "  there is too much code to look for loops")?;
        } else if items.is_empty() {
            writeln!(f, "  no loops and no calls")?;
        }
        for at_place in items.chunk_by(|a, b| a.is_beside(b)) {
            let count = at_place.len();
            for (n, item) in (1..).zip(at_place) {
                write!(f, "  {}  ", shown(item.place()))?;
                match item {
                    Item::Loop(found) => {
                        match count {
                            1 => write!(f, "loop: ")?,
                            _ => write!(f, "loop {n} of {count} here: ")?,
                        }
                        self.recording(f, function, found, at_place)?;
                        writeln!(f)?;
                        continue;
                    }
                    Item::Call(call) => self.call(f, call)?,
                    Item::Copy(copy) => self.copy(f, copy)?,
                }
                // One line stands for all.
                match count {
                    1 => writeln!(f)?,
                    _ => writeln!(f, " ({count} times in the code)")?,
                }
                break;
            }
            if let Some((texts, place)) = self.texts.zip(at_place[0].place().source.as_ref()) {
                write!(f, "{}", texts.excerpt(place))?;
            }
        }
        Ok(())
    }

    fn recording(
        &self,
        f: &mut fmt::Formatter<'_>,
        function: &FunctionExplanation,
        found: &LoopExplanation,
        at_place: &[Item<'_>],
    ) -> fmt::Result {
        match &found.recording {
            Recording::Straight => write!(f, "recorded whole, one record"),
            Recording::Region => write!(f, "recorded whole with all that is in it, one record"),
            Recording::InRegion(region) => {
                let Some(around) = function.loops.as_ref().map(|loops| &loops[*region]) else { return Ok(()) };
                let is_around = |item: &Item<'_>| matches!(item, Item::Loop(found) if std::ptr::eq(*found, around));
                match at_place.iter().position(is_around) {
                    Some(number) => write!(f, "part of the record of loop {}", number + 1),
                    None => write!(f, "part of the record of the loop at {}", shown(&around.place)),
                }
            }
            Recording::Nothing => write!(f, "no record, because it computes no real that a derivative goes through"),
            Recording::Rounds(obstacle) => {
                write!(f, "records in each round, because ")?;
                self.obstacle(f, function, obstacle)?;
                for obstacle in &obstacle.more {
                    write!(f, ",\n    and because ")?;
                    self.obstacle(f, function, obstacle)?;
                }
                Ok(())
            }
        }
    }

    fn obstacle(
        &self,
        f: &mut fmt::Formatter<'_>,
        function: &FunctionExplanation,
        Obstacle { refusal, place, call, .. }: &Obstacle,
    ) -> fmt::Result {
        let call = call.map(|number| &function.calls[number]);
        match call {
            Some(CallExplanation { kind: CallKind::Function, callee: Some(callee), .. }) => {
                write!(f, "it calls `{callee}`")?;
            }
            _ => write!(f, "{refusal}")?,
        }
        if let Some(place) = place {
            write!(f, " ({})", shown(place))?;
        }
        match call.and_then(|call| call.reason.as_deref()) {
            Some(reason) => write!(f, ", which {reason}"),
            None => Ok(()),
        }
    }

    fn copy(&self, f: &mut fmt::Formatter<'_>, copy: &CopyExplanation) -> fmt::Result {
        let CopyExplanation { parent, before_loop, reason, cause, .. } = copy;
        write!(f, "copy of an array, ")?;
        match (before_loop, parent) {
            (true, _) => write!(f, "in each round of the outer loop, for an inner one to change it in place")?,
            (false, Some(_)) => write!(f, "in each round, to change an element")?,
            (false, None) => write!(f, "to change an element")?,
        }
        if let Some(reason) = reason {
            write!(f, ", because {reason}")?;
        }
        match cause {
            Some(cause) => write!(f, " ({cause})"),
            None => Ok(()),
        }
    }

    fn call(&self, f: &mut fmt::Formatter<'_>, call: &CallExplanation) -> fmt::Result {
        match (call.kind, &call.callee) {
            (CallKind::Function, Some(callee)) => write!(f, "call of `{callee}`")?,
            (CallKind::Task, Some(callee)) => write!(f, "task `{callee}`, with a tape of its own")?,
            (CallKind::Derivative, Some(callee)) => write!(f, "derivative of `{callee}`")?,
            _ => write!(f, "call of a function value, which is known at run time only")?,
        }
        match &call.reason {
            Some(reason) => write!(f, ", which {reason}"),
            None => Ok(()),
        }
    }
}

fn shown(place: &Place) -> String {
    match &place.source {
        Some(source) => source.to_string(),
        None => format!("instruction {}", place.inst),
    }
}
