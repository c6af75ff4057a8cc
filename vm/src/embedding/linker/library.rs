//! Modules that other modules call.

use crate::bytecode::module::{FuncId, ModuleDef};
use crate::bytecode::verify::{VerifyError, verify};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A verified module whose exported functions other modules may call. Cheap to clone, and of no engine: one is enough
/// for a whole process.
///
/// [`Module::library`](crate::engine::Module::library) makes one of a module that an engine has verified.
#[derive(Clone)]
pub struct Library(Arc<Inner>);

struct Inner {
    def: ModuleDef,
    /// The exported functions.
    exports: HashMap<Box<str>, FuncId>,
}

impl Library {
    /// Verifies a module. What it imports itself is looked for where it is linked.
    ///
    /// # Errors
    /// Everything that the verifier finds wrong, up to 100 errors.
    pub fn new(def: ModuleDef) -> Result<Library, Vec<VerifyError>> {
        verify(&def)?;
        Ok(Library::verified(def))
    }

    /// A library of a module that was verified.
    pub(crate) fn verified(def: ModuleDef) -> Library {
        let functions = def.functions.iter().enumerate();
        let exported = functions.filter(|(_, function)| function.interface.is_some());
        let exports = exported.map(|(index, function)| (function.name.as_str().into(), FuncId(index as u32))).collect();
        Library(Arc::new(Inner { def, exports }))
    }

    /// The code.
    pub fn def(&self) -> &ModuleDef {
        &self.0.def
    }

    /// The names of the functions that others may call, in the module's order.
    pub fn exports(&self) -> impl Iterator<Item = &str> {
        let exported = self.def().functions.iter().filter(|function| function.interface.is_some());
        exported.map(|function| function.name.as_str())
    }

    /// What others call under a name: the function, or its traced twin if it has one. A caller has no part in when
    /// that is run, so it is run always, and shows what it shows where it stands.
    pub(super) fn export(&self, name: &str) -> Option<(FuncId, FuncId)> {
        let func = *self.0.exports.get(name)?;
        Some((func, self.def().traced_twin(func).unwrap_or(func)))
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Library").field(&self.exports().collect::<Vec<_>>()).finish()
    }
}
