//! Finding the modules whose functions a module imports.

use crate::frontend::{ImportRequest, ImportedContent, ImportedLibrary, Importer};
use crate::vm::linker::{Library, Linker};
use crate::vm::module::ModuleDef;
use crate::{Error, ErrorKind};
use std::collections::{HashMap, HashSet};

/// An importer is asked for so many modules at most.
const ASKED_MAX: usize = 256;

/// What gives a module's imports: a linker, the modules that the compiler has found, and those that an importer finds
/// for what neither gives. The import `"shapes.area"` asks it for bytecode called `shapes`, which may import in turn.
pub(crate) fn linker(
    given: &Linker,
    (file, def): (&str, &ModuleDef),
    imported: Vec<ImportedLibrary>,
    importer: Option<&dyn Importer>,
) -> Result<Linker, Error> {
    let (files, modules, asked, pending) = Default::default();
    let mut search = Search { given, linker: given.clone(), files, modules, asked, pending };
    for ImportedLibrary { name, file, module, .. } in imported {
        search.link(file, &name, module)?;
    }
    if let Some(importer) = importer {
        search.find_all(importer, file, def)?;
        while let Some((file, module)) = search.pending.pop() {
            search.find_all(importer, &file, module.def())?;
        }
    }
    Ok(search.linker)
}

struct Search<'g> {
    given: &'g Linker,
    linker: Linker,
    /// The files of the modules that are linked by a name.
    files: HashMap<String, String>,
    /// The modules of files: one that has two names is there once.
    modules: HashMap<String, Library>,
    /// Who was asked for which name.
    asked: HashSet<(String, String)>,
    /// Modules whose own imports weren't looked at yet, and their files.
    pending: Vec<(String, Library)>,
}

impl Search<'_> {
    /// Looks for the modules that a module in a file imports from, but for those that are given.
    fn find_all(&mut self, importer: &dyn Importer, from: &str, def: &ModuleDef) -> Result<(), Error> {
        for import in &def.imports {
            let Some((name, _)) = import.name.rsplit_once('.') else { continue };
            let is_given = self.given.library(name).is_some() || self.given.gives(&import.name);
            if is_given || !self.asked.insert((from.to_owned(), name.to_owned())) {
                continue;
            }
            if self.asked.len() > ASKED_MAX {
                return Err(failed(name, format!("the program asks for more than {ASKED_MAX} modules")));
            }
            let found = importer.find(ImportRequest::of_bytecode(from, name)).map_err(|why| failed(name, why))?;
            // A text is the compiler's to read. The linker says what is missing.
            if let Some((file, ImportedContent::Bytecode(module))) = found.map(|found| (found.name, found.content)) {
                self.link(file, name, module)?;
            }
        }
        Ok(())
    }

    /// Links the module in a file by a name. Names are for all modules of a program together.
    fn link(&mut self, file: String, name: &str, module: Library) -> Result<(), Error> {
        if let Some(known) = self.files.get(name) {
            let why = || format!("it would be {file}, and is {known} elsewhere in the program; give one another name");
            return if *known == file { Ok(()) } else { Err(failed(name, why())) };
        }
        let module = match self.modules.get(&file) {
            Some(known) => known.clone(),
            None => {
                self.modules.insert(file.clone(), module.clone());
                self.pending.push((file.clone(), module.clone()));
                module
            }
        };
        if self.given.library(name).is_some_and(|given| given.def() != module.def()) {
            return Err(failed(name, format!("it would be {file}, and the engine has another module of this name")));
        }
        self.files.insert(name.to_owned(), file);
        self.linker.define_library(name, module);
        Ok(())
    }
}

fn failed(name: &str, why: String) -> Error {
    ErrorKind::Import { name: name.to_owned(), why }.into()
}
