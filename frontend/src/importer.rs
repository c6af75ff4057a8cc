//! Where the files come from that programs import.

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
}

/// A file that a program imports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedFile {
    /// The file's name in messages. Imports that lead to one name are one file.
    pub name: String,
    /// Its text.
    pub text: Arc<str>,
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
/// use dualvm_frontend::{CompileOptions, TextImporter, compile_with};
/// use std::sync::Arc;
///
/// let mut files = TextImporter::default();
/// files.insert("shapes", "def circle (r : Real) : Real = pi * r ^ 2");
/// let options = CompileOptions::default().importing(Arc::new(files));
/// let text = "import shapes\ndef area (r : Real) : Real = shapes.circle r / 2";
/// assert!(compile_with("area.dual", text, &options).is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TextImporter(BTreeMap<String, Arc<str>>);

impl TextImporter {
    /// Adds a file, or replaces it.
    pub fn insert(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) {
        self.0.insert(name.into(), text.into());
    }
}

impl Importer for TextImporter {
    fn find(&self, request: ImportRequest<'_>) -> Result<Option<ImportedFile>, String> {
        let found = self.0.get(request.name);
        Ok(found.map(|text| ImportedFile { name: format!("{}.dual", request.name), text: text.clone() }))
    }
}
