//! The files of a program: the main one, and those that are imported, by it and by each other.

use crate::ast::Interface;
use crate::diagnostics::{Diagnostic, Sink};
use crate::hash::HashMap;
use crate::importer::{ImportRequest, ImportedContent, ImportedFile, ImportedLibrary, Importer};
use crate::imports::{Import, qualify, take_imports};
use crate::interface::{InterfaceText, SharedTypes, can_be_named, interface_text};
use crate::lexer::lex;
use crate::library;
use crate::limits::Meter;
use crate::names::{Name, Names};
use crate::source::{Author, Source, SourceMap, Span};
use crate::token::Token;

/// A program imports at most so many files.
const FILES_MAX: usize = 10_000;

/// The endings of files with bytecode, which aren't part of a module's name.
const BYTECODE_ENDINGS: [&str; 2] = [".dvbc", ".dvs"];

/// A file of a program, as tokens.
#[derive(Debug)]
pub(crate) struct FileTokens {
    /// The module's own name; the main file is no module.
    pub(crate) module: Option<Name>,
    /// If it is bytecode, what its interface has beside the tokens.
    pub(crate) interface: Option<Interface>,
    /// What it imports, and the numbers of these files.
    pub(crate) imports: Vec<(Import, usize)>,
    /// What it would import, but what isn't there.
    pub(crate) missing: Vec<Import>,
    /// The rest of it.
    pub(crate) tokens: Vec<Token>,
}

/// The files of a program.
pub(crate) struct Files {
    /// Their tokens, by the numbers that they have in the map.
    pub(crate) tokens: Vec<FileTokens>,
    /// Those that are bytecode, by the names of the modules.
    pub(crate) libraries: Vec<ImportedLibrary>,
}

/// Reads the main file, which is in the map already, and all that it imports, into the map.
pub(crate) fn load(
    sources: &mut SourceMap,
    importer: Option<&dyn Importer>,
    names: &mut Names,
    sink: &mut Sink,
    meter: &Meter,
) -> Files {
    let (files, imports, libraries) = (Vec::new(), Vec::new(), Vec::new());
    let shared_types = SharedTypes::default();
    let mut loader = Loader { sources, importer, names, sink, meter, files, imports, libraries, shared_types };
    loader.add(0, None, None);
    loader.run();
    Files { tokens: loader.files, libraries: loader.libraries }
}

struct Loader<'l> {
    sources: &'l mut SourceMap,
    importer: Option<&'l dyn Importer>,
    names: &'l mut Names,
    sink: &'l mut Sink,
    meter: &'l Meter,
    files: Vec<FileTokens>,
    /// The imports of each file that weren't looked at yet, in the order of the text.
    imports: Vec<std::vec::IntoIter<Import>>,
    libraries: Vec<ImportedLibrary>,
    shared_types: SharedTypes,
}

impl Loader<'_> {
    /// Splits a file of the map into tokens.
    fn add(&mut self, number: usize, module: Option<Name>, interface: Option<Interface>) {
        let file = &self.sources.files()[number];
        let mut tokens = lex(file.source.text(), file.start, self.names, self.sink, self.meter);
        let imports = take_imports(&mut tokens, self.names, self.sink, self.meter);
        qualify(&mut tokens, &imports, self.names, self.meter);
        self.files.push(FileTokens { module, interface, imports: Vec::new(), missing: Vec::new(), tokens });
        self.imports.push(imports.into_iter());
    }

    /// Looks at the imports of all files, depth first, so that a cycle is on the way to where it is found.
    fn run(&mut self) {
        let mut numbers: HashMap<String, usize> = HashMap::default();
        numbers.insert(self.sources.files()[0].source.name().to_owned(), 0);
        let mut way: Vec<(usize, Span)> = vec![(0, Span::default())];
        let mut is_open = vec![true];
        while let Some(&(from, _)) = way.last() {
            let Some(import) = self.imports[from].next() else {
                is_open[from] = false;
                way.pop();
                continue;
            };
            let span = import.target.1;
            if !self.meter.step(span) {
                return;
            }
            let Some((found, author)) = self.find(from, &import) else {
                self.files[from].missing.push(import);
                continue;
            };
            let known = numbers.get(&found.name).copied();
            if let Some(number) = known.filter(|&number| is_open[number]) {
                self.cycle(&way, number, span);
                self.files[from].missing.push(import);
                continue;
            }
            let number = match known {
                Some(number) => number,
                None => {
                    let Some((number, interface)) = self.read(&found, from, &import, author) else {
                        if self.files.len() > FILES_MAX || !self.meter.go_on() {
                            return;
                        }
                        self.files[from].missing.push(import);
                        continue;
                    };
                    numbers.insert(found.name, number);
                    is_open.push(true);
                    self.add(number, Some(import.title), interface);
                    way.push((number, span));
                    number
                }
            };
            self.files[from].imports.push((import, number));
        }
    }

    /// Adds a file to the map, and says what an interface has beside its text. `None` if there are too many, or they
    /// are too long.
    fn read(
        &mut self,
        found: &ImportedFile,
        from: usize,
        import: &Import,
        author: Author,
    ) -> Option<(usize, Option<Interface>)> {
        let span = import.target.1;
        if self.files.len() > FILES_MAX {
            let error = Diagnostic::error(span, "the program has too many files");
            self.sink.push(error.label(format!("more than {FILES_MAX} are imported")));
            return None;
        }
        let interface: String;
        let mut outcome = None;
        let text = match &found.content {
            ImportedContent::Text(text) => text,
            ImportedContent::Bytecode(library) => {
                let name = self.library_name(import, from, span)?;
                let (known, file) = (&mut self.shared_types, self.sources.files().len());
                let InterfaceText { text, left_out, shared } =
                    interface_text((&name, library), (known, file), self.meter, span);
                let shared = shared.into_iter().map(|(name, file)| (self.names.intern(&name), file));
                outcome = Some(Interface { left_out, shared: shared.collect() });
                interface = text;
                self.libraries.push(ImportedLibrary { name, file: found.name.clone(), module: library.clone() });
                &*interface
            }
        };
        if !self.meter.another_source(text.len()) {
            return None;
        }
        let number = self.sources.add(Source::new(&found.name, text), author);
        if number.is_none() {
            self.sink.push(Diagnostic::error(span, "the program's files are longer than 2 GiB"));
        }
        Some((number?, outcome))
    }

    /// What a module of bytecode is linked by: its path as it is written, if the main file imports it, so that it can
    /// be found again from where that is; otherwise its name.
    fn library_name(&mut self, import: &Import, from: usize, span: Span) -> Option<String> {
        let written = if from == 0 { import.target.0 } else { import.title };
        let written = self.names.text(written);
        let name = BYTECODE_ENDINGS.iter().find_map(|&ending| written.strip_suffix(ending)).unwrap_or(written);
        if !can_be_named(name) {
            let error = Diagnostic::error(span, "a module of bytecode can't be called so");
            let error = error.label("its functions are linked by this name");
            self.sink.push(error.help("give the file a name without quotes, backslashes, braces and line ends"));
            return None;
        }
        if self.libraries.iter().any(|known| known.name == name) {
            let error = Diagnostic::error(span, format!("there are two modules of bytecode called `{name}`"));
            let error = error.label("another one is imported elsewhere");
            self.sink.push(error.help("give one of the files another name: that is what its functions are linked by"));
            return None;
        }
        Some(name.to_owned())
    }

    /// The file that an import names, and who has written it.
    fn find(&mut self, from: usize, import: &Import) -> Option<(ImportedFile, Author)> {
        let name = self.names.text(import.target.0);
        let from = &self.sources.files()[from];
        let request = ImportRequest { from: from.source.name(), name, is_path: import.is_path, for_bytecode: false };
        let span = import.target.1;
        // The library's files don't see the program's.
        let found = match self.importer.filter(|_| from.is_own()) {
            Some(importer) => importer.find(request),
            None => Ok(None),
        };
        let error = match found {
            Ok(Some(found)) => {
                let author = match found.content {
                    ImportedContent::Text(_) => Author::Program,
                    ImportedContent::Bytecode(_) => Author::Compiler,
                };
                return Some((found, author));
            }
            Ok(None) => match library::text(name).filter(|_| !import.is_path) {
                Some(text) => {
                    let name = library::file_name(name);
                    return Some((ImportedFile::text(name, text), Author::Library));
                }
                None => self.not_found(name, import.is_path, span),
            },
            Err(why) => Diagnostic::error(span, format!("can't read the module `{name}`: {why}")),
        };
        self.sink.push(error);
        None
    }

    fn not_found(&self, name: &str, is_path: bool, span: Span) -> Diagnostic {
        let error = Diagnostic::error(span, format!("there is no module `{name}`")).label("not found");
        let meant = crate::names::closest(name, library::names()).filter(|_| !is_path);
        match (meant, self.importer) {
            (Some(meant), _) => error.help(format!("there is a module `{meant}` in the library")),
            _ if let Some(hint) = library::foreign_hint(name) => error.help(hint),
            (None, None) => error.help("no files are at hand here: only modules of the library can be imported"),
            (None, Some(_)) if is_path => error.help("a path counts from the folder of the file that imports"),
            (None, Some(_)) => error.help(format!(
                "it would be the file `{name}.dual`, or bytecode in `{name}.dvbc`, beside the one that imports, in a \
                 folder given by `--path`, or a module of the library"
            )),
        }
    }

    fn cycle(&mut self, way: &[(usize, Span)], number: usize, span: Span) {
        let name = |number: usize| self.sources.files()[number].source.name();
        let start = way.iter().position(|&(open, _)| open == number).unwrap_or(0);
        let mut chain: Vec<&str> = way[start..].iter().map(|&(open, _)| name(open)).collect();
        chain.push(name(number));
        let error = Diagnostic::error(span, "files import each other in a circle").label("the circle closes here");
        let error = error.note(format!("{} imports {}", chain[0], chain[1..].join(", which imports ")));
        self.sink.push(error.help("move what both need into a file of its own"));
    }
}
