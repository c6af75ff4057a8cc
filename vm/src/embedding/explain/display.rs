//! An explanation as text: a line for each loop and each call, with its source line where the text is at hand.

use super::{CallExplanation, CallKind, Explanation, FunctionExplanation, LoopExplanation, Obstacle, Place, Recording};
use crate::excerpt;
use std::fmt;

/// An explanation with the text of the source file that its places are in: see [`Explanation::with_source`].
#[derive(Clone, Debug)]
pub struct WithSource<'a> {
    explanation: &'a Explanation,
    /// The lines of the file; none if it isn't at hand.
    lines: Vec<&'a str>,
}

impl Explanation {
    /// What shows the explanation with the source lines and a caret at each place. `text` is the source file's.
    pub fn with_source<'a>(&'a self, text: &'a str) -> WithSource<'a> {
        WithSource { explanation: self, lines: text.lines().collect() }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WithSource { explanation: self, lines: Vec::new() }.fmt(f)
    }
}

impl fmt::Display for WithSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.explanation.functions.iter().map(|function| function.name.as_str()).collect();
        writeln!(
            f,
            "Loops and calls of `{}` as compiled; what was fused, unrolled or copied into its caller is not listed.",
            names.first().copied().unwrap_or_default()
        )?;
        self.explanation.functions.iter().try_for_each(|function| self.function(f, function))
    }
}

/// What a line is about.
enum Item<'a> {
    Loop(&'a LoopExplanation),
    Call(&'a CallExplanation),
}

impl Item<'_> {
    fn place(&self) -> Place {
        match self {
            Item::Loop(found) => found.place,
            Item::Call(call) => call.place,
        }
    }
}

impl WithSource<'_> {
    fn function(&self, f: &mut fmt::Formatter<'_>, function: &FunctionExplanation) -> fmt::Result {
        writeln!(f, "\n{}:", function.name)?;
        let loops = function.loops.as_deref().unwrap_or_default();
        let calls = function.calls.iter().map(Item::Call);
        let mut items: Vec<Item<'_>> = loops.iter().map(Item::Loop).chain(calls).collect();
        items.sort_by_key(|item| {
            let Place { inst, line_and_column } = item.place();
            (line_and_column, inst)
        });
        if function.loops.is_none() {
            writeln!(f, "  there is too much code to look for loops")?;
        } else if items.is_empty() {
            writeln!(f, "  no loops and no calls")?;
        }
        for item in &items {
            write!(f, "  {}  ", self.place(item.place()))?;
            match item {
                Item::Loop(found) => self.recording(f, function, &found.recording)?,
                Item::Call(call) => self.call(f, call)?,
            }
            writeln!(f)?;
            self.excerpt(f, item.place())?;
        }
        Ok(())
    }

    fn place(&self, place: Place) -> String {
        match place.line_and_column {
            Some((line, column)) => {
                format!("{}:{line}:{column}", self.explanation.source.as_deref().unwrap_or("<module>"))
            }
            None => format!("instruction {}", place.inst),
        }
    }

    fn recording(
        &self,
        f: &mut fmt::Formatter<'_>,
        function: &FunctionExplanation,
        recording: &Recording,
    ) -> fmt::Result {
        match recording {
            Recording::Straight => write!(f, "loop: recorded whole, one record"),
            Recording::Region => write!(f, "loop: recorded whole with all that is in it, one record"),
            Recording::InRegion(region) => {
                let around = function.loops.as_ref().map(|loops| self.place(loops[*region].place));
                write!(f, "loop: part of the record of the loop at {}", around.unwrap_or_default())
            }
            Recording::Nothing => write!(f, "loop: no record, no real that it computes depends on an argument"),
            Recording::Rounds(obstacle) => {
                write!(f, "loop: records in each round, because ")?;
                self.obstacle(f, function, obstacle)
            }
        }
    }

    fn obstacle(
        &self,
        f: &mut fmt::Formatter<'_>,
        function: &FunctionExplanation,
        Obstacle { refusal, place, call }: &Obstacle,
    ) -> fmt::Result {
        let call = call.map(|number| &function.calls[number]);
        match call {
            Some(CallExplanation { kind: CallKind::Function, callee: Some(callee), .. }) => {
                write!(f, "it calls `{callee}`")?;
            }
            _ => write!(f, "{refusal}")?,
        }
        if let Some(place) = place {
            write!(f, " ({})", self.place(*place))?;
        }
        match call.and_then(|call| call.reason.as_deref()) {
            Some(reason) => write!(f, ", which {reason}"),
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

    /// The source line of a place, and a caret under it.
    fn excerpt(&self, f: &mut fmt::Formatter<'_>, place: Place) -> fmt::Result {
        place.line_and_column.map_or(Ok(()), |place| excerpt::write(f, &self.lines, place))
    }
}
