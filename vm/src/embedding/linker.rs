//! Linking: who gives what a module imports.
//!
//! A [`Linker`] knows functions of the host's and modules by name, for all modules of an engine:
//! [`Config::linker`](crate::engine::Config::linker). A module is made if the linker knows all of its imports, with the
//! types that it asks for. [`crate::host`] has an example with a function of the host's.
//!
//! A module that others call is a [`Library`]: the import `"shapes.area"` is the exported function `area` of what is
//! known as `shapes`. Values of all types that hosts can give and take go from one to the other, without a copy, and so
//! do derivatives, because linking makes one module of both: a call of a library's function is a call like others. What
//! it costs is linear in the size of the module and of what it reaches of libraries. Libraries may import functions of
//! the host's and of other libraries, also of each other.
//!
//! ```
//! use dualvm_vm::engine::{Config, Engine, Module};
//! use dualvm_vm::linker::Library;
//! use dualvm_vm::text;
//!
//! // shapes: def area (r : Real) : Real = 3 * r * r
//! let shapes = text::parse("func \"area\" (real) -> (real) export (r : Real) -> Real
//!     regs 2 real
//!     { mul r1, r0, r0
//!     const r0, 3
//!     mul r0, r0, r1
//!     ret (r0) }", "shapes.dvs").map_err(|errors| errors[0].to_string())?;
//! let shapes = Library::new(shapes).map_err(|errors| errors[0].to_string())?;
//!
//! // import host "shapes.area" as area : Real -> Real
//! // def main (x : Real) : Real = area (x * x)
//! let main = text::parse("import x0 \"shapes.area\" (r : Real) -> Real
//! func \"main\" (real) -> (real) export (x : Real) -> Real
//!     regs 1 real
//!     { mul r0, r0, r0
//!     call_import x0 (r0) -> (r0)
//!     ret (r0) }", "main.dvs").map_err(|errors| errors[0].to_string())?;
//!
//! let mut config = Config::default();
//! config.linker.define_library("shapes", shapes);
//! let module = Module::new(&Engine::new(config), main).map_err(|errors| errors[0].to_string())?;
//! let main = module.function("main").ok_or("no such function")?.typed::<(f64,), f64>()?;
//! assert_eq!(main.value_and_grad((2.0,))?, (48.0, (96.0,)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod library;
mod merge;
mod renumber;
mod tables;
mod types;

pub use library::Library;

use crate::bytecode::module::ModuleDef;
use crate::bytecode::verify::limits::ERRORS_MAX;
use crate::bytecode::verify::{Rule, VerifyError, verify};
use crate::host::{HostFunction, LinkedHost, Misfit};
use crate::similar::similar;
use merge::{ImportFault, Merged, merge};
use std::collections::HashMap;
use std::sync::Arc;

/// Functions and modules by the names that modules import them by. Cheap to clone.
#[derive(Clone, Default, Debug)]
pub struct Linker {
    functions: Arc<HashMap<String, HostFunction>>,
    libraries: Arc<HashMap<String, Library>>,
}

/// Where what is imported by a name comes from.
enum Source<'l> {
    Host(&'l HostFunction),
    /// What is exported under a name by a library that is known under another one.
    Library {
        name: &'l str,
        library: &'l Library,
        export: &'l str,
    },
}

/// What is wrong with an import: the rule, what it asks for, and what is there instead.
struct Fault {
    rule: Rule,
    expected: String,
    found: String,
}

/// A module with all that it imports.
pub(crate) struct Linked {
    pub(crate) def: ModuleDef,
    /// What stands in the place of each import that it still has.
    pub(crate) hosts: Box<[LinkedHost]>,
    /// The module as it was, if it is another one now.
    pub(crate) own: Option<Library>,
}

impl Linker {
    /// A linker that knows nothing.
    pub fn new() -> Self {
        Linker::default()
    }

    /// Gives a function of the host's to whoever imports this name, in place of what had the name before.
    pub fn define(&mut self, name: impl Into<String>, function: impl Into<HostFunction>) -> &mut Self {
        Arc::make_mut(&mut self.functions).insert(name.into(), function.into());
        self
    }

    /// Gives the exported functions of a module to whoever imports them by this name, a dot and their own, in place of
    /// those of the library that had the name before. A function of the host's of such a name comes first.
    pub fn define_library(&mut self, name: impl Into<String>, library: Library) -> &mut Self {
        Arc::make_mut(&mut self.libraries).insert(name.into(), library);
        self
    }

    /// Gives a function that only traps in the place of each import of a module that nobody gives, as far as a host
    /// could give it, and says which these are: for who looks at a module and runs nothing of it.
    ///
    /// ```
    /// use dualvm_vm::linker::Linker;
    ///
    /// let text = r#"import x0 "drag" (v : Real) -> Real"#;
    /// let def = dualvm_vm::text::parse(text, "drag.dvs").unwrap();
    /// let mut linker = Linker::new();
    /// assert_eq!(linker.define_missing(&def), ["drag"]);
    /// assert!(linker.gives("drag") && linker.define_missing(&def).is_empty());
    /// ```
    pub fn define_missing(&mut self, def: &ModuleDef) -> Vec<String> {
        let mut missing = Vec::new();
        for import in &def.imports {
            if self.source(&import.name).is_none()
                && let Some(function) = LinkedHost::missing(import)
            {
                self.define(&import.name, function);
                missing.push(import.name.clone());
            }
        }
        missing
    }

    /// The names that are given, in order: of functions, those of libraries among them.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let functions = self.functions.keys().cloned();
        let exports = self.libraries.iter().flat_map(|(name, library)| library.exports().map(move |f| (name, f)));
        let mut names: Vec<String> = functions.chain(exports.map(|(name, f)| format!("{name}.{f}"))).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// The library of this name.
    pub fn library(&self, name: &str) -> Option<&Library> {
        self.libraries.get(name)
    }

    /// Whether somebody gives a function of this name.
    pub fn gives(&self, name: &str) -> bool {
        match self.source(name) {
            Some(Source::Host(_)) => true,
            Some(Source::Library { library, export, .. }) => library.export(export).is_some(),
            None => false,
        }
    }

    /// Puts what is imported in the place of the imports of a module that was verified.
    ///
    /// # Errors
    /// What is wrong with imports, and what the verifier has against the module with the libraries that it calls.
    pub(crate) fn link(&self, def: ModuleDef) -> Result<Linked, Vec<VerifyError>> {
        let from_library = |name: &str| matches!(self.source(name), Some(Source::Library { .. }));
        if !def.imports.iter().any(|import| from_library(&import.name)) {
            let hosts = self.hosts(&def)?;
            return Ok(Linked { def, hosts, own: None });
        }
        let own = Library::verified(def);
        let Merged { def, hosts } =
            merge(self, &own).map_err(|faults| faults.into_iter().map(ImportFault::into_error).collect::<Vec<_>>())?;
        // So it is not for the linker to know what of several modules that are safe may be wrong with one of them all,
        // such as a constant that leads back to itself by way of another module.
        verify(&def)?;
        Ok(Linked { def, hosts: hosts.into(), own: Some(own) })
    }

    /// The functions of the host's in the places of all imports.
    fn hosts(&self, def: &ModuleDef) -> Result<Box<[LinkedHost]>, Vec<VerifyError>> {
        let (mut hosts, mut errors) = (Vec::new(), Vec::new());
        for (number, import) in (0..).zip(&def.imports) {
            let host = match self.functions.get(&import.name) {
                Some(function) => LinkedHost::new(import, function).map_err(Fault::from),
                None => Err(self.missing(&import.name)),
            };
            match host {
                Ok(host) => hosts.push(host),
                Err(fault) => errors.push(ImportFault { library: None, import: number, fault }.into_error()),
            }
            if errors.len() == ERRORS_MAX {
                break;
            }
        }
        if errors.is_empty() { Ok(hosts.into()) } else { Err(errors) }
    }

    /// Where what is imported by a name comes from. That a library has such a function isn't said.
    fn source<'l>(&'l self, import: &'l str) -> Option<Source<'l>> {
        if let Some(function) = self.functions.get(import) {
            return Some(Source::Host(function));
        }
        // Names may have dots of their own.
        let mut splits = import.rmatch_indices('.').map(|(at, _)| (&import[..at], &import[at + 1..]));
        splits.find_map(|(name, export)| {
            let (name, library) = self.libraries.get_key_value(name)?;
            Some(Source::Library { name, library, export })
        })
    }

    #[cold]
    fn missing(&self, import: &str) -> Fault {
        let names: Vec<String> = self.names().collect();
        let near = similar(import, names.iter().map(String::as_str)).map(|name| format!(" (there is {name:?})"));
        let expected = match names.len() {
            0 => "no imports, since nothing is given".to_owned(),
            count => format!("one of {count} functions that are given"),
        };
        Fault { rule: Rule::ImportMissing, expected, found: format!("{import:?}{}", near.unwrap_or_default()) }
    }
}

impl Fault {
    #[cold]
    fn not_exported(name: &str, library: &Library, export: &str) -> Fault {
        let near = similar(export, library.exports()).map(|near| format!(" (there is {near:?})"));
        let private = library.def().function(export).map(|_| " (it has one, but doesn't export it)".to_owned());
        let found = format!("{export:?}{}", private.or(near).unwrap_or_default());
        Fault { rule: Rule::ImportMissing, expected: format!("a function that {name:?} exports"), found }
    }
}

impl From<Misfit> for Fault {
    fn from(misfit: Misfit) -> Self {
        let (rule, expected, found) = match misfit {
            Misfit::Import(expected, found) => (Rule::ImportHost, expected, found),
            Misfit::Function(expected, found) => (Rule::ImportMismatch, expected, found),
        };
        Fault { rule, expected, found }
    }
}

impl ImportFault {
    fn into_error(self) -> VerifyError {
        let ImportFault { library, import, fault: Fault { rule, expected, found } } = self;
        let (import, expected) = match library {
            None => (Some(import), expected),
            Some(library) => (None, format!("{expected} in x{import} of the library {library:?}")),
        };
        VerifyError { rule, function: None, inst: None, printed: None, import, expected, found }
    }
}
