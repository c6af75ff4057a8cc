//! The suite's messages, and the answers to them.

use crate::gradbench::{Answer, NoAnswer};
use dualvm::Json;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::time::Duration;

/// What the suite says.
pub(super) struct Message<'a> {
    pub(super) id: i64,
    pub(super) ask: Ask<'a>,
}

/// What it asks for.
pub(super) enum Ask<'a> {
    Start,
    Define {
        module: String,
    },
    Evaluate {
        module: String,
        function: String,
        input: &'a RawValue,
    },
    /// Nothing that a tool has to do something for.
    Nothing,
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Message<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with `id` and `kind`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Message<'de>, A::Error> {
                let (mut id, mut kind, mut module, mut function, mut input) = (None, None, None, None, None);
                while let Some(key) = entries.next_key::<String>()? {
                    match key.as_str() {
                        "id" => id = Some(entries.next_value()?),
                        "kind" => kind = Some(entries.next_value::<String>()?),
                        "module" => module = Some(entries.next_value()?),
                        "function" => function = Some(entries.next_value()?),
                        "input" => input = Some(entries.next_value()?),
                        _ => _ = entries.next_value::<IgnoredAny>()?,
                    }
                }
                let missing = A::Error::missing_field;
                let ask = match kind.ok_or_else(|| missing("kind"))?.as_str() {
                    "start" => Ask::Start,
                    "define" => Ask::Define { module: module.ok_or_else(|| missing("module"))? },
                    "evaluate" => Ask::Evaluate {
                        module: module.ok_or_else(|| missing("module"))?,
                        function: function.ok_or_else(|| missing("function"))?,
                        input: input.ok_or_else(|| missing("input"))?,
                    },
                    _ => Ask::Nothing,
                };
                Ok(Message { id: id.ok_or_else(|| missing("id"))?, ask })
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// An answer to the message of this id.
pub(super) struct Reply {
    pub(super) id: i64,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// Which tool this is.
    Tool,
    /// Nothing.
    Nothing,
    /// The module is there.
    Defined,
    Evaluated(Answer),
    Failed(NoAnswer),
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reply = serializer.serialize_map(None)?;
        reply.serialize_entry("id", &self.id)?;
        match &self.content {
            Content::Nothing => {}
            Content::Tool => reply.serialize_entry("tool", "dualvm")?,
            Content::Defined => reply.serialize_entry("success", &true)?,
            Content::Evaluated(answer) => {
                reply.serialize_entry("success", &true)?;
                reply.serialize_entry("output", &Json(&answer.output))?;
                reply.serialize_entry("timings", &Timings(answer))?;
            }
            Content::Failed(why) => {
                reply.serialize_entry("success", &false)?;
                reply.serialize_entry("error", &why.to_string())?;
            }
        }
        reply.end()
    }
}

/// How long each run took, and what came before.
struct Timings<'a>(&'a Answer);

impl Serialize for Timings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let prepare = Timing { name: "prepare", time: self.0.prepare };
        let runs = self.0.runs.iter().map(|&time| Timing { name: "evaluate", time });
        serializer.collect_seq([prepare].into_iter().chain(runs))
    }
}

struct Timing {
    name: &'static str,
    time: Duration,
}

impl Serialize for Timing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut timing = serializer.serialize_map(Some(2))?;
        timing.serialize_entry("name", self.name)?;
        timing.serialize_entry("nanoseconds", &self.time.as_nanos())?;
        timing.end()
    }
}
