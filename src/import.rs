//! Files that programs import, on disk.

use crate::frontend::{ImportRequest, ImportedFile, Importer};
use crate::kind::FileKind;
use crate::read_def;
use crate::vm::linker::Library;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Finds the files that programs import on disk: beside the file that imports, and then in folders.
///
/// `import shapes` is the file `shapes.dual`, or bytecode in `shapes.dvbc` or `shapes.dvs` where that isn't there;
/// `import "../models/gp"` is that path with such an ending, counted from the folder of the file that imports, or else
/// from the given ones. The files may be anywhere that such a path leads to: don't give it to programs that nobody
/// vouches for.
///
/// ```
/// use dualvm::{CompileOptions, Engine, Error, FolderImporter, Module};
/// use std::sync::Arc;
///
/// let options = CompileOptions::default().importing(Arc::new(FolderImporter::default()));
/// let text = "import dotprod\ndef squared (xs : Array Real) : Real = dotprod.dotprod xs xs";
/// let module = Module::from_source_with(&Engine::default(), "examples/squared.dual", text, &options)?;
/// assert!(module.function("squared").is_ok());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FolderImporter {
    folders: Vec<PathBuf>,
}

impl FolderImporter {
    /// An importer that looks into these folders where there is no such file beside the one that imports: into the
    /// first one first.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        FolderImporter { folders }
    }

    /// The paths at which the file may be that a program asks for, the first choice first.
    pub fn candidates(&self, request: ImportRequest<'_>) -> Vec<PathBuf> {
        const KINDS: [&str; 3] = ["dual", "dvbc", "dvs"];
        let kinds = &KINDS[usize::from(request.for_bytecode)..];
        let names: Vec<String> = match FileKind::of_name(request.name) {
            Some(_) => vec![request.name.to_owned()],
            None => kinds.iter().map(|kind| format!("{}.{kind}", request.name)).collect(),
        };
        let beside = Path::new(request.from).parent().unwrap_or(Path::new("")).to_owned();
        let folders = std::iter::once(&beside).chain(&self.folders);
        folders.flat_map(|folder| names.iter().map(|name| simplified(&folder.join(name)))).collect()
    }
}

impl Importer for FolderImporter {
    fn find(&self, request: ImportRequest<'_>) -> Result<Option<ImportedFile>, String> {
        for path in self.candidates(request) {
            match std::fs::read(&path) {
                Ok(bytes) => return imported(path.display().to_string(), bytes).map(Some),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        Ok(None)
    }
}

/// A file that was found, by what it holds.
fn imported(name: String, bytes: Vec<u8>) -> Result<ImportedFile, String> {
    if FileKind::detect(&name, &bytes) == FileKind::Source {
        let text = String::from_utf8(bytes).map_err(|error| format!("{name}: {error}"))?;
        return Ok(ImportedFile::text(name, text));
    }
    let def = read_def(&name, &bytes).map_err(|error| format!("{name}: {error}"))?;
    let module = Library::new(def).map_err(|errors| format!("{name}: {}", errors[0]))?;
    Ok(ImportedFile::bytecode(name, module))
}

/// The same path without `.` and without folders that it leaves again, so that a file has one name. Links are not
/// followed.
fn simplified(path: &Path) -> PathBuf {
    let mut simple = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(simple.components().next_back(), Some(Component::Normal(_))) => {
                simple.pop();
            }
            other => simple.push(other),
        }
    }
    simple
}
