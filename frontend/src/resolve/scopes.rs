//! What names mean outside of definitions: in each file of the program, and in the prelude around them.

use super::{Meaning, Resolver, TypeMeaning};
use crate::arena::{Id, Table};
use crate::ast::{AliasId, ConstructorId, Counts, DataId, DefId};
use crate::diagnostics::Diagnostic;
use crate::hash::HashMap;
use crate::imports::{Import, Selected, qualified};
use crate::limits::{Count, Meter};
use crate::names::{Name, Names, closest};
use crate::source::Span;
use std::ops::Range;

/// What the names of the prelude mean, those of builtins that were looked up, and those of the types that are built in.
#[derive(Debug)]
pub(super) struct Globals {
    pub(super) values: Table<Name, Option<Meaning>>,
    pub(super) constructors: Table<Name, Option<ConstructorId>>,
    pub(super) types: Table<Name, Option<TypeMeaning>>,
}

/// What names mean in a file of the program, before they mean anything else.
#[derive(Clone, Default, Debug)]
pub(super) struct FileScope {
    pub(super) values: HashMap<Name, DefId>,
    pub(super) constructors: HashMap<Name, ConstructorId>,
    pub(super) types: HashMap<Name, TypeMeaning>,
}

/// The declarations of a file, or of the prelude.
#[derive(Clone, Debug)]
pub(super) struct Declarations {
    pub(super) defs: Range<usize>,
    pub(super) datas: Range<usize>,
    pub(super) aliases: Range<usize>,
}

impl Declarations {
    pub(super) fn between(start: Counts, end: Counts) -> Self {
        Declarations { defs: start.defs..end.defs, datas: start.datas..end.datas, aliases: start.aliases..end.aliases }
    }

    pub(super) fn defs(&self) -> impl Iterator<Item = DefId> + use<> {
        self.defs.clone().map(DefId::from_index)
    }

    pub(super) fn datas(&self) -> impl Iterator<Item = DataId> + use<> {
        self.datas.clone().map(DataId::from_index)
    }

    pub(super) fn aliases(&self) -> impl Iterator<Item = AliasId> + use<> {
        self.aliases.clone().map(AliasId::from_index)
    }
}

/// The names that imports make, of everything that other files see of a module: with the module's name before them.
pub(super) fn intern_qualified(ast: &crate::ast::Ast, names: &mut Names, meter: &Meter) {
    for file in &ast.files {
        for (import, number) in &file.imports {
            let declared = declarations(ast, *number);
            let defs = declared.defs().map(|id| ast.defs[id].name);
            let constructors = declared.datas().flat_map(|id| &ast.datas[id].constructors);
            let constructors = constructors.map(|&id| ast.constructors[id].name);
            let types = declared.datas().map(|id| ast.datas[id].name);
            let types = types.chain(declared.aliases().map(|id| ast.aliases[id].name));
            let shared = shared_datas(ast, *number).flat_map(|id| {
                let constructors = ast.datas[id].constructors.iter().map(|&id| ast.constructors[id].name);
                constructors.chain([ast.datas[id].name])
            });
            let all: Vec<Name> = defs.chain(constructors).chain(types).chain(shared).collect();
            // Each is a name, and an entry in two scopes.
            if !meter.nodes(Count::Syntax, all.len()) {
                return;
            }
            all.into_iter().for_each(|name| _ = qualified(import.module, name, names));
        }
    }
}

/// The data types that a file has of others.
fn shared_datas(ast: &crate::ast::Ast, file: usize) -> impl Iterator<Item = DataId> {
    let shared = ast.files.get(file).map_or(&[][..], |file| &file.interface.shared);
    let mut of_files: HashMap<usize, HashMap<Name, DataId>> = HashMap::default();
    shared.iter().filter_map(move |&(name, owner)| {
        let of_file = of_files
            .entry(owner)
            .or_insert_with(|| declarations(ast, owner).datas().map(|id| (ast.datas[id].name, id)).collect());
        of_file.get(&name).copied()
    })
}

/// The declarations of a file; those of the prelude have the number after the last.
pub(super) fn declarations(ast: &crate::ast::Ast, file: usize) -> Declarations {
    // Nobody declares lists, which come first.
    let start = match file.checked_sub(1) {
        Some(before) => ast.files[before].end,
        None => Counts { datas: 1, ..Counts::default() },
    };
    let all = Counts { defs: ast.defs.len(), datas: ast.datas.len(), aliases: ast.aliases.len() };
    Declarations::between(start, ast.files.get(file).map_or(all, |file| file.end))
}

impl Resolver<'_> {
    /// What a name of a value means in the file that is being resolved.
    pub(super) fn global_value(&self, name: Name) -> Option<Meaning> {
        let own = self.files.get(self.file).and_then(|scope| scope.values.get(&name));
        own.map(|&def| Meaning::Def(def)).or_else(|| {
            let is_seen = |meaning: &Meaning| match *meaning {
                Meaning::Def(def) => !self.ast.defs[def].is_private || self.file == self.files.len(),
                _ => true,
            };
            self.globals.values[name].filter(is_seen)
        })
    }

    pub(super) fn global_constructor(&self, name: Name) -> Option<ConstructorId> {
        let own = self.files.get(self.file).and_then(|scope| scope.constructors.get(&name));
        own.copied().or(self.globals.constructors[name])
    }

    pub(super) fn global_type(&self, name: Name) -> Option<TypeMeaning> {
        let own = self.files.get(self.file).and_then(|scope| scope.types.get(&name));
        own.copied().or(self.globals.types[name])
    }

    /// Whether a name would be something of a module that isn't there, which was reported.
    pub(super) fn is_missing(&self, name: Name) -> bool {
        let missing = self.ast.files.get(self.file).map_or(&[][..], |file| &file.missing);
        missing.iter().any(|import| import.brings(name, self.names))
    }

    pub(super) fn declare_value(&mut self, name: Name, def: DefId) {
        match self.files.get_mut(self.file) {
            Some(scope) => _ = scope.values.insert(name, def),
            None => self.globals.values[name] = Some(Meaning::Def(def)),
        }
    }

    pub(super) fn declare_constructor(&mut self, name: Name, constructor: ConstructorId) {
        match self.files.get_mut(self.file) {
            Some(scope) => _ = scope.constructors.insert(name, constructor),
            None => self.globals.constructors[name] = Some(constructor),
        }
    }

    pub(super) fn declare_type_name(&mut self, name: Name, meaning: TypeMeaning) {
        match self.files.get_mut(self.file) {
            Some(scope) => _ = scope.types.insert(name, meaning),
            None => self.globals.types[name] = Some(meaning),
        }
    }

    /// Puts the data types that files have of others into their scopes, with their constructors.
    pub(super) fn share_types(&mut self) {
        let ast = self.ast;
        for number in 0..self.files.len() {
            for data in shared_datas(ast, number) {
                let scope = &mut self.files[number];
                scope.types.insert(ast.datas[data].name, TypeMeaning::Data(data));
                let constructors = ast.datas[data].constructors.iter().map(|&id| (ast.constructors[id].name, id));
                scope.constructors.extend(constructors);
            }
        }
    }

    /// Puts what the files import into their scopes. All of them have declared their own names.
    pub(super) fn import_all(&mut self) {
        let ast = self.ast;
        // What a file imports, others don't get from it.
        let mut scopes = self.files.clone();
        for (number, scope) in scopes.iter_mut().enumerate() {
            for (import, target) in &ast.files[number].imports {
                let all = &self.files[*target];
                let steps = all.values.len() + all.constructors.len() + all.types.len();
                if !self.meter.steps(1 + steps) {
                    return;
                }
                let public = self.public(*target);
                self.qualify(import.module, &public, scope);
                for selected in &import.selected {
                    self.select(*selected, (import, *target), &public, scope);
                }
            }
        }
        self.files = scopes;
    }

    /// What other files see of a file.
    fn public(&self, file: usize) -> FileScope {
        let ast = self.ast;
        let mut scope = self.files[file].clone();
        scope.values.retain(|_, def| !ast.defs[*def].is_private);
        scope.constructors.retain(|_, constructor| !ast.datas[ast.constructors[*constructor].data].is_private);
        scope.types.retain(|_, meaning| match meaning {
            TypeMeaning::Data(data) => !ast.datas[*data].is_private,
            TypeMeaning::Alias(alias) => !ast.aliases[*alias].is_private,
            _ => true,
        });
        scope
    }

    /// Adds a module's names with the module's own before them.
    fn qualify(&self, module: Name, public: &FileScope, scope: &mut FileScope) {
        // All such names are there already.
        let qualified = |name: &Name| {
            let text = format!("{}.{}", self.names.text(module), self.names.text(*name));
            self.names.known(&text).expect("names of modules were interned")
        };
        scope.values.extend(public.values.iter().map(|(name, &def)| (qualified(name), def)));
        scope.constructors.extend(public.constructors.iter().map(|(name, &id)| (qualified(name), id)));
        scope.types.extend(public.types.iter().map(|(name, &meaning)| (qualified(name), meaning)));
    }

    /// Adds something of a module, which is the file of this number, under a name without the module's.
    fn select(
        &mut self,
        selected: Selected,
        (import, target): (&Import, usize),
        public: &FileScope,
        scope: &mut FileScope,
    ) {
        let Selected { name, known_as, span, is_type } = selected;
        let text = self.names.text(name);
        let is_new = match is_type {
            true => public.types.get(&name).map(|&meaning| scope.types.insert(known_as, meaning).is_none()),
            false => public.values.get(&name).map(|&def| scope.values.insert(known_as, def).is_none()),
        };
        let module = self.names.text(import.module);
        match is_new {
            Some(true) => {}
            Some(false) => {
                let text = self.names.text(known_as);
                let error = Diagnostic::error(span, format!("`{text}` is defined twice"));
                let help =
                    format!("give it another name, `{text} as {}`, or write `{module}.{text}`", other_name(text));
                self.sink.push(error.label("imported here, and known already").help(help));
            }
            None => {
                let known: Vec<&str> = match is_type {
                    true => public.types.keys().map(|&name| self.names.text(name)).collect(),
                    false => public.values.keys().map(|&name| self.names.text(name)).collect(),
                };
                let error = Diagnostic::error(span, format!("the module `{module}` has no `{text}`"));
                let error = error.label(if is_type { "no such type" } else { "no such definition" });
                let meant = closest(text, known.into_iter());
                let all = &self.files[target];
                let is_private = if is_type { all.types.contains_key(&name) } else { all.values.contains_key(&name) };
                if let Some(why) = self.why_left_out(target, text) {
                    return self.sink.push(error.note(why));
                }
                self.sink.push(match meant {
                    _ if is_private => error.help("it is private there"),
                    Some(meant) => error.help(format!("there is `{meant}` with a similar name")),
                    None => error,
                });
            }
        }
        if let (true, Some(TypeMeaning::Data(data))) = (is_type, public.types.get(&name)) {
            for &constructor in &self.ast.datas[*data].constructors {
                let name = self.ast.constructors[constructor].name;
                if scope.constructors.insert(name, constructor).is_some() {
                    let text = self.names.text(name);
                    let error = Diagnostic::error(span, format!("the constructor `{text}` is declared twice"));
                    let help = format!("write `{module}.{text}`, and don't select the type");
                    self.sink.push(error.label("its type is imported here").help(help));
                }
            }
        }
    }

    /// Reports a second declaration of a name.
    pub(super) fn declared_twice(&mut self, what: &str, name: Name, span: Span, first: Span) {
        let message = format!("the {what} `{}` is declared twice", self.names.text(name));
        let error = Diagnostic::error(span, message).label("declared again here");
        self.sink.push(error.also(first, "first declared here"));
    }
}

/// A name that something may have besides the one that it has.
fn other_name(text: &str) -> String {
    if text.starts_with(|first: char| first.is_uppercase()) { format!("Other{text}") } else { format!("other_{text}") }
}
