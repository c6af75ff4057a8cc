//! Linking: who gives what a module imports.
//!
//! A [`Linker`] knows functions of the host's by name, for all modules of an engine:
//! [`Config::linker`](crate::engine::Config::linker). A module is made if the linker knows all of its imports, with the
//! types that it asks for. [`crate::host`] has an example.

use crate::bytecode::module::{Import, ModuleDef};
use crate::bytecode::verify::limits::ERRORS_MAX;
use crate::bytecode::verify::{Rule, VerifyError};
use crate::host::{HostFunction, LinkedHost, Misfit};
use crate::similar::similar;
use std::collections::HashMap;
use std::sync::Arc;

/// Functions by the names that modules import them by. Cheap to clone.
#[derive(Clone, Default, Debug)]
pub struct Linker {
    given: Arc<HashMap<String, HostFunction>>,
}

impl Linker {
    /// A linker that knows nothing.
    pub fn new() -> Self {
        Linker::default()
    }

    /// Gives a function of the host's to whoever imports this name, in place of what had the name before.
    pub fn define(&mut self, name: impl Into<String>, function: impl Into<HostFunction>) -> &mut Self {
        Arc::make_mut(&mut self.given).insert(name.into(), function.into());
        self
    }

    /// The names that are given, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<&str> = self.given.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.into_iter()
    }

    /// What stands in the place of each import of a module that was verified.
    pub(crate) fn resolve(&self, def: &ModuleDef) -> Result<Box<[LinkedHost]>, Vec<VerifyError>> {
        let (mut hosts, mut errors) = (Vec::new(), Vec::new());
        for (number, import) in def.imports.iter().enumerate() {
            match self.host(import) {
                Ok(host) => hosts.push(host),
                Err((rule, expected, found)) => {
                    let expected = format!("{expected} in x{number}");
                    errors.push(VerifyError { rule, function: None, inst: None, printed: None, expected, found });
                }
            }
            if errors.len() == ERRORS_MAX {
                break;
            }
        }
        if errors.is_empty() { Ok(hosts.into()) } else { Err(errors) }
    }

    fn host(&self, import: &Import) -> Result<LinkedHost, (Rule, String, String)> {
        let Some(function) = self.given.get(&import.name) else {
            let near = similar(&import.name, self.names()).map(|name| format!(" (there is {name:?})"));
            let found = format!("{:?}{}", import.name, near.unwrap_or_default());
            let expected = match self.given.len() {
                0 => "no imports, since nothing is given".to_owned(),
                count => format!("one of {count} functions that are given"),
            };
            return Err((Rule::ImportMissing, expected, found));
        };
        LinkedHost::new(import, function).map_err(|misfit| match misfit {
            Misfit::Import(expected, found) => (Rule::ImportHost, expected, found),
            Misfit::Function(expected, found) => (Rule::ImportMismatch, expected, found),
        })
    }
}
