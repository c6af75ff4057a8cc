//! `explain`: what is recorded as one of a function's loops, and why the rest isn't.

use super::failure::{Failure, Outcome};
use super::input::{default_function, load_unlinked, shown};
use super::{Format, Program, output};
use dualvm::vm::module::SourcePlace;
use dualvm::{
    CallExplanation, CallKind, CopyExplanation, Explanation, FunctionExplanation, LoopExplanation, Obstacle, Place,
    Recording,
};
use serde::ser::{Serialize, SerializeMap, Serializer};

pub(crate) const HELP: &str = "\
When derivatives are asked for, a run leaves records for the sweep back. A loop that is recorded whole leaves one,
however many rounds it has; in other loops each round leaves some. The list is of loops and calls as compiled: loops
that were fused, unrolled or removed, and calls of functions that were copied into their callers, are not there. A loop
of the prelude has the place of what uses it.

Where an array is copied to change an element, there is a line for that, with the reason; there is none where it is
changed in place.

  dualvm explain examples/rosenbrock.dual rosenbrock

Of assembly and bytecode the places are those that the module carries, or else the numbers of instructions.
`dualvm grad --stats` says how much each loop has written in a run.

Exit codes: 0 success, 2 bad input.";

pub(crate) fn explain(program: &Program, name: Option<&str>, format: Format) -> Outcome {
    let shown = shown(&program.file);
    let module = load_unlinked(program)?;
    let explained = match name {
        Some(name) => module.explain(name),
        None => module.explain(default_function(&program.file, &module)?.name()),
    };
    let explanation = explained.map_err(|error| Failure::name(&shown, &module, &error))?;
    output::with_stdout(|out| match format {
        Format::Text => write!(out, "{}", explanation.with_sources(module.source_texts())),
        Format::Json => {
            serde_json::to_writer(&mut *out, &Json(&explanation))?;
            writeln!(out)
        }
    })
}

/// A part of an explanation, in JSON.
struct Json<T>(T);

/// An object with these entries; a value that isn't there is null.
macro_rules! object {
    ($serializer:ident, $($name:literal: $value:expr),* $(,)?) => {{
        let mut map = $serializer.serialize_map(None)?;
        $(map.serialize_entry($name, &$value)?;)*
        map.end()
    }};
}

impl Serialize for Json<&Explanation> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let functions: Vec<_> = self.0.functions.iter().map(Json).collect();
        object!(serializer, "functions": functions)
    }
}

impl Serialize for Json<&FunctionExplanation> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let loops: Option<Vec<_>> = self.0.loops.as_ref().map(|loops| loops.iter().map(Json).collect());
        let calls: Vec<_> = self.0.calls.iter().map(Json).collect();
        let copies: Vec<_> = self.0.copies.iter().map(Json).collect();
        object!(serializer, "name": self.0.name, "loops": loops, "calls": calls, "copies": copies)
    }
}

impl Serialize for Json<&Place> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let source = self.0.source.as_ref();
        let file = source.map(|place| &*place.file);
        let (line, column) = source.map(|place| (place.line, place.column)).unzip();
        object!(serializer, "file": file, "line": line, "column": column, "instruction": self.0.inst)
    }
}

impl Serialize for Json<&SourcePlace> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SourcePlace { file, line, column } = self.0;
        object!(serializer, "file": **file, "line": line, "column": column)
    }
}

impl Serialize for Json<&LoopExplanation> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LoopExplanation { place, parent, recording, .. } = self.0;
        let (kind, region, obstacle) = match recording {
            Recording::Straight => ("straight", None, None),
            Recording::Region => ("region", None, None),
            Recording::InRegion(region) => ("in region", Some(region), None),
            Recording::Nothing => ("nothing", None, None),
            Recording::Rounds(obstacle) => ("rounds", None, Some(obstacle)),
            // The machine's next version may know more.
            _ => ("other", None, None),
        };
        let obstacle = obstacle.map(Json);
        let place = Json(place);
        object!(serializer, "place": place, "parent": parent, "recording": kind, "region": region, "obstacle": obstacle)
    }
}

impl Serialize for Json<&Obstacle> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Obstacle { refusal, place, call, more, .. } = self.0;
        let because = refusal.to_string();
        let more: Vec<_> = more.iter().map(Json).collect();
        object!(serializer, "because": because, "place": place.as_ref().map(Json), "call": call, "more": more)
    }
}

impl Serialize for Json<&CopyExplanation> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CopyExplanation { place, parent, before_loop, reason, cause, .. } = self.0;
        let (place, cause) = (Json(place), cause.as_ref().map(Json));
        object!(
            serializer,
            "place": place,
            "parent": parent,
            "before_loop": before_loop,
            "because": reason,
            "cause": cause,
        )
    }
}

impl Serialize for Json<&CallExplanation> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CallExplanation { place, kind, callee, parent, reason, .. } = self.0;
        let kind = match kind {
            CallKind::Function => "function",
            CallKind::Value => "value",
            CallKind::Task => "task",
            CallKind::Derivative => "derivative",
            _ => "other",
        };
        let place = Json(place);
        object!(serializer, "place": place, "kind": kind, "callee": callee, "parent": parent, "reason": reason)
    }
}
