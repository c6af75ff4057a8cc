//! What may be written at a place. The word there is replaced by a name that nothing has, the program is looked at once
//! more, and what the compiler knows where that name stands is what may stand there.

use super::{Tree, repair};
use crate::arena::Id;
use crate::ast::{DataId, DefId, ExprKind, TypeExprKind};
use crate::diagnostics::Sink;
use crate::hash::{HashMap, HashSet};
use crate::lexer::is_name_part;
use crate::limits::{CompileOptions, Meter};
use crate::names::Name;
use crate::resolve::{LocalId, Meaning, PROBE};
use crate::source::{Source, SourceMap};
use crate::types::{Con, Kind, Node, Ty};
use std::rc::Rc;

/// Something that may be written.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Completion {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: CompletionKind,
    /// Its type, or the head of its definition; may be empty.
    pub detail: String,
    /// What is said about it where it is declared; may be empty.
    pub documentation: String,
}

/// What may be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum CompletionKind {
    /// A field of the record before the dot.
    Field,
    /// A variable, or a function that a `let` defines.
    Variable,
    /// A definition.
    Definition,
    /// A constructor.
    Constructor,
    /// A type.
    Type,
    /// A module that the file imports.
    Module,
}

/// What may stand in place of the word at a byte of a text, or before that byte: names in scope; behind a dot, fields
/// of a record or what a module has. What the word begins with makes no difference. Ordered by kind, then by name.
///
/// The text may be unfinished. Takes the time that checking it takes, twice where it is unfinished.
///
/// ```
/// use dualvm_frontend::{CompileOptions, analysis::completions};
///
/// let text = "def norm (v : { x : Real, y : Real }) = sqrt (v.";
/// let found = completions("norm.dual", text, text.len() as u32, &CompileOptions::default());
/// assert_eq!(found.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
/// assert_eq!(found[0].detail, "Real");
/// ```
pub fn completions(file_name: &str, text: &str, offset: u32, options: &CompileOptions) -> Vec<Completion> {
    if text.len() > options.limits.source_bytes {
        return Vec::new();
    }
    let offset = text.floor_char_boundary(offset as usize);
    let before = text[..offset].trim_end_matches(is_name_part);
    let start = before.len();
    let after = text[offset..].trim_start_matches(is_name_part);
    let end = text.len() - after.len();
    let meter = Meter::new(options);
    let Some(closed) = repair::closed(text, start, end, &meter) else { return Vec::new() };
    let probed = repair::with_probe(text, start, end);
    let mut found = Vec::new();
    for text in [probed, closed] {
        found = crate::stack::on_callers_stack(|| Place::of(file_name, &text, start, options).completions());
        if !found.is_empty() {
            break;
        }
    }
    found.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    found.dedup_by(|a, b| a.kind == b.kind && a.name == b.name);
    found
}

/// The place of the probe in a program.
struct Place<'p> {
    text: &'p str,
    start: usize,
    sources: SourceMap,
    tree: Option<Tree>,
}

impl Place<'_> {
    fn of<'p>(file_name: &str, text: &'p str, start: usize, options: &CompileOptions) -> Place<'p> {
        let meter = Rc::new(Meter::new(options));
        let mut sources = SourceMap::of(Source::new(file_name, text));
        let tree = match meter.another_source(text.len()) {
            true => Tree::of(&mut sources, options, &mut Sink::default(), &meter),
            false => None,
        };
        Place { text, start, sources, tree }
    }

    fn completions(&self) -> Vec<Completion> {
        let Some(tree) = &self.tree else { return Vec::new() };
        let before = &self.text[..self.start];
        if let Some(qualified) = before.strip_suffix('.').filter(|before| !before.ends_with('.')) {
            let word = &qualified[qualified.trim_end_matches(is_name_part).len()..];
            return self.members(tree, word).unwrap_or_else(|| self.fields(tree));
        }
        let probe = tree.names.known(PROBE);
        let is_probe = |ty: &TypeExprKind| matches!(ty, TypeExprKind::Var(name) if Some(*name) == probe);
        let is_type = tree.ast.types.iter().any(|(_, ty)| is_probe(&ty.kind));
        if is_type { self.types(tree) } else { self.names(tree) }
    }

    /// What the module with a name in the main file has, if there is such a module.
    fn members(&self, tree: &Tree, module: &str) -> Option<Vec<Completion>> {
        let ast = &tree.ast;
        let mut imports = ast.files.first()?.imports.iter();
        let (_, target) = imports.find(|(import, _)| tree.names.text(import.module) == module)?;
        let [start, end] = tree.counts(*target)?;
        let mut found = Vec::new();
        for id in (start.defs..end.defs).map(DefId::from_index).filter(|&id| !ast.defs[id].is_private) {
            found.push(self.definition(tree, ast.defs[id].name, id));
        }
        for data in (start.datas..end.datas).map(|index| &ast.datas[DataId::from_index(index)]) {
            if !data.is_private {
                found.push(named(tree, data.name, CompletionKind::Type));
                let names = data.constructors.iter().map(|&id| ast.constructors[id].name);
                found.extend(names.map(|name| named(tree, name, CompletionKind::Constructor)));
            }
        }
        for (_, alias) in ast.aliases.iter().take(end.aliases).skip(start.aliases) {
            if !alias.is_private {
                found.push(named(tree, alias.name, CompletionKind::Type));
            }
        }
        Some(found)
    }

    /// The fields of the record before the dot.
    fn fields(&self, tree: &Tree) -> Vec<Completion> {
        let (ast, types) = (&tree.ast, &tree.inferred.types);
        let Some(probe) = tree.names.known(PROBE) else { return Vec::new() };
        let record = ast.exprs.iter().find_map(|(_, expr)| match expr.kind {
            ExprKind::Access(record, name, _) if name == probe => Some(tree.inferred.exprs[record]),
            _ => None,
        });
        let Some(record) = record else { return Vec::new() };
        let Node::Con { con, args, .. } = types.node(record) else { return Vec::new() };
        let field = |name: Name, ty: Option<&Ty>| Completion {
            detail: ty.map_or(String::new(), |&ty| types.show(ty)),
            ..named(tree, name, CompletionKind::Field)
        };
        match con {
            Con::Record(shape) => {
                let fields = types.fields(*shape).iter().enumerate();
                fields.filter(|(_, name)| **name != probe).map(|(at, &name)| field(name, args.get(at))).collect()
            }
            Con::Data(data) => match ast.datas[*data].constructors[..] {
                [single] => {
                    let names = ast.constructors[single].field_names.iter().flatten();
                    let tys = &tree.inferred.constructors[single];
                    names.enumerate().map(|(at, &(name, _))| field(name, tys.get(at))).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The names of values that are in scope.
    fn names(&self, tree: &Tree) -> Vec<Completion> {
        let in_scope = &tree.resolved.in_scope;
        if in_scope.is_empty() {
            return Vec::new();
        }
        let mut types: HashMap<LocalId, Ty> = HashMap::default();
        for id in tree.ast.patterns.ids() {
            types.extend(tree.resolved.bound[id].map(|local| (local, tree.inferred.patterns[id])));
        }
        let mut found: Vec<Completion> = Vec::new();
        // What has a module's name before it is found behind that.
        for &(name, meaning) in in_scope.iter().filter(|(name, _)| !tree.names.text(*name).contains('.')) {
            let shown = |ty: Ty| match tree.inferred.types.is_error(ty) {
                true => String::new(),
                false => tree.inferred.types.show(ty),
            };
            found.push(match meaning {
                Meaning::Def(def) => self.definition(tree, name, def),
                Meaning::Constructor(_) => named(tree, name, CompletionKind::Constructor),
                Meaning::Local(local) => {
                    let detail = types.get(&local).map_or(String::new(), |&ty| shown(ty));
                    Completion { detail, ..named(tree, name, CompletionKind::Variable) }
                }
                Meaning::Function(function) => {
                    let ty = &tree.inferred.functions[function];
                    let detail = tree.inferred.types.show_function(&ty.params, ty.result);
                    Completion { detail, ..named(tree, name, CompletionKind::Variable) }
                }
                Meaning::Builtin(_) => named(tree, name, CompletionKind::Definition),
            });
        }
        let own: HashSet<String> = found.iter().map(|completion| completion.name.clone()).collect();
        let prelude = crate::prelude_doc::prelude_definitions().map(|(name, detail, documentation)| Completion {
            name: name.to_owned(),
            kind: CompletionKind::Definition,
            detail,
            documentation,
        });
        found.extend(prelude.filter(|completion| !own.contains(&completion.name)));
        let imports = tree.ast.files.first().into_iter().flat_map(|main| &main.imports);
        found.extend(imports.map(|(import, _)| named(tree, import.module, CompletionKind::Module)));
        found
    }

    /// The names of types that are in scope, and modules that may have others.
    fn types(&self, tree: &Tree) -> Vec<Completion> {
        let ast = &tree.ast;
        let basic = ["Real", "Int", "Bool"].into_iter().chain(Kind::ALL.map(Kind::name));
        let mut found: Vec<Completion> = basic.map(|name| simple(name.to_owned(), CompletionKind::Type)).collect();
        let Some([start, end]) = tree.counts(0) else { return found };
        let own = start.datas..end.datas;
        // Those of the prelude come last.
        let of_prelude = ast.own().datas..ast.datas.len();
        let datas = own.chain(of_prelude).map(|index| ast.datas[DataId::from_index(index)].name);
        let aliases = ast.aliases.iter().take(end.aliases).map(|(_, alias)| alias.name);
        let imports = &ast.files[0].imports;
        let selected = imports.iter().flat_map(|(import, _)| &import.selected);
        let selected = selected.filter(|selected| selected.is_type).map(|selected| selected.known_as);
        let all = datas.chain(aliases).chain(selected);
        found.extend(all.map(|name| named(tree, name, CompletionKind::Type)));
        found.extend(imports.iter().map(|(import, _)| named(tree, import.module, CompletionKind::Module)));
        found
    }

    fn definition(&self, tree: &Tree, name: Name, def: DefId) -> Completion {
        let ty = &tree.inferred.defs[def];
        let documentation = super::documentation(&self.sources, tree.ast.defs[def].name_span);
        let detail = tree.inferred.types.show_function(&ty.params, ty.result);
        Completion { detail, documentation, ..named(tree, name, CompletionKind::Definition) }
    }
}

fn named(tree: &Tree, name: Name, kind: CompletionKind) -> Completion {
    simple(tree.names.text(name).to_owned(), kind)
}

fn simple(name: String, kind: CompletionKind) -> Completion {
    Completion { name, kind, detail: String::new(), documentation: String::new() }
}
