//! Where the files come from that programs import.

use dualvm_vm::linker::Library;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a program's `import` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ImportRequest<'a> {
    /// The name of the file that imports, as it was given or found.
    pub from: &'a str,
    /// What is imported: `linalg` in `import linalg`, `models/gp` in `import "models/gp"`.
    pub name: &'a str,
    /// Whether it is in quotes: a path, and never a part of the language's library.
    pub is_path: bool,
    /// Whether only bytecode is of use: it is asked for by bytecode that imports.
    pub for_bytecode: bool,
}

impl<'a> ImportRequest<'a> {
    /// What an import of bytecode asks for: for `"models/gp.fit"` that is bytecode called `models/gp`.
    pub fn of_bytecode(from: &'a str, name: &'a str) -> Self {
        ImportRequest { from, name, is_path: name.contains('/'), for_bytecode: true }
    }
}

/// A file that a program imports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportedFile {
    /// The file's name in messages. Imports that lead to one name are one file.
    pub name: String,
    /// What it holds.
    pub content: ImportedContent,
}

/// What a file holds that a program imports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ImportedContent {
    /// A program in the language, which is compiled together with the one that imports it.
    Text(Arc<str>),
    /// A module that was compiled before, by this compiler or another one. What the program calls of it becomes
    /// imports of its bytecode, `"shapes.area"` for a module that is imported as `shapes`, and whoever runs that links
    /// it with the module: [`Compiled::libraries`](crate::Compiled::libraries).
    Bytecode(Library),
}

/// A module of bytecode that a program imports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportedLibrary {
    /// What the program's bytecode calls it.
    pub name: String,
    /// The file that it is in.
    pub file: String,
    /// The module.
    pub module: Library,
}

impl ImportedFile {
    /// A file with a text.
    pub fn text(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        ImportedFile { name: name.into(), content: ImportedContent::Text(text.into()) }
    }

    /// A file with bytecode.
    pub fn bytecode(name: impl Into<String>, module: Library) -> Self {
        ImportedFile { name: name.into(), content: ImportedContent::Bytecode(module) }
    }
}

/// Finds the files that programs import: on disk, in memory, wherever the host keeps them.
///
/// It may be asked by several threads at once, and more than once for a file.
pub trait Importer: fmt::Debug + Send + Sync {
    /// The file, or `None` if there is none of that name; then the language's library is looked at.
    ///
    /// # Errors
    /// Why the file can't be had, although there is one.
    fn find(&self, request: ImportRequest<'_>) -> Result<Option<ImportedFile>, String>;
}

/// Files in memory, by the names that programs import them by.
///
/// ```
/// use dualvm_frontend::{CompileOptions, MemoryImporter, compile_with};
/// use std::sync::Arc;
///
/// let mut files = MemoryImporter::default();
/// files.insert("shapes", "def circle (r : Real) : Real = pi * r ^ 2");
/// let options = CompileOptions::default().importing(Arc::new(files));
/// let text = "import shapes\ndef area (r : Real) : Real = shapes.circle r / 2";
/// assert!(compile_with("area.dual", text, &options).is_ok());
/// ```
#[derive(Clone, Default, Debug)]
pub struct MemoryImporter(BTreeMap<String, ImportedContent>);

impl MemoryImporter {
    /// Adds a program, or replaces what had the name.
    pub fn insert(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) {
        self.0.insert(name.into(), ImportedContent::Text(text.into()));
    }

    /// Adds a module of bytecode, or replaces what had the name.
    pub fn insert_bytecode(&mut self, name: impl Into<String>, module: Library) {
        self.0.insert(name.into(), ImportedContent::Bytecode(module));
    }
}

impl Importer for MemoryImporter {
    fn find(&self, request: ImportRequest<'_>) -> Result<Option<ImportedFile>, String> {
        Ok(self.0.get(request.name).and_then(|content| {
            let ending = match content {
                ImportedContent::Text(_) if request.for_bytecode => return None,
                ImportedContent::Text(_) => "dual",
                ImportedContent::Bytecode(_) => "dvbc",
            };
            Some(ImportedFile { name: format!("{}.{ending}", request.name), content: content.clone() })
        }))
    }
}
