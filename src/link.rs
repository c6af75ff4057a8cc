//! Finding the modules whose functions a module imports.

use crate::frontend::{ImportRequest, ImportedContent, ImportedLibrary, Importer};
use crate::vm::linker::{Library, Linker};
use crate::vm::module::ModuleDef;
use crate::{Error, ErrorKind};

/// What gives a module's imports: a linker, the modules that the compiler has found, and those that an importer finds
/// for what neither gives. The import `"shapes.area"` asks it for bytecode called `shapes`, which may import in turn.
pub(crate) fn linker(
    given: &Linker,
    (file, def): (&str, &ModuleDef),
    imported: Vec<ImportedLibrary>,
    importer: Option<&dyn Importer>,
) -> Result<Linker, Error> {
    let (mut linker, mut pending) = (given.clone(), Vec::new());
    for ImportedLibrary { name, file, module, .. } in imported {
        linker.define_library(name, module.clone());
        pending.push((file, module));
    }
    if let Some(importer) = importer {
        find(importer, (file, def), &mut linker, &mut pending)?;
        while let Some((file, module)) = pending.pop() {
            find(importer, (&file, module.def()), &mut linker, &mut pending)?;
        }
    }
    Ok(linker)
}

/// Looks for the modules that a module imports from and that nobody has given. Adds them to the linker, and to those
/// whose own imports are to be looked for.
fn find(
    importer: &dyn Importer,
    (from, def): (&str, &ModuleDef),
    linker: &mut Linker,
    pending: &mut Vec<(String, Library)>,
) -> Result<(), Error> {
    for import in &def.imports {
        let Some((name, _)) = import.name.rsplit_once('.') else { continue };
        if linker.library(name).is_some() || linker.gives(&import.name) {
            continue;
        }
        let found = importer.find(ImportRequest::named(from, name));
        let found = found.map_err(|why| ErrorKind::Import { name: name.to_owned(), why })?;
        // A text is the compiler's to read. The linker says what is missing.
        if let Some((file, ImportedContent::Bytecode(module))) = found.map(|found| (found.name, found.content)) {
            linker.define_library(name, module.clone());
            pending.push((file, module));
        }
    }
    Ok(())
}
