//! Declarations of types and types as written.

use super::scopes::Declarations;
use super::{Resolver, TypeMeaning};
use crate::arena::Table;
use crate::ast::{AliasId, Constructor, TypeExprId, TypeExprKind};
use crate::diagnostics::Diagnostic;
use crate::hash::{HashMap, HashSet};
use crate::names::Name;
use crate::source::Span;

impl Resolver<'_> {
    /// Gives the types and constructors of a file their names.
    pub(super) fn declare_types(&mut self, declared: &Declarations) {
        let ast = self.ast;
        let mut types: HashMap<Name, Span> = HashMap::default();
        let mut constructors: HashMap<Name, Span> = HashMap::default();
        for id in declared.datas() {
            let data = &ast.datas[id];
            self.declare_type(&mut types, data.name, data.name_span, TypeMeaning::Data(id));
            self.once(&data.params, "parameter");
            for &constructor in &data.constructors {
                let Constructor { name, name_span, ref field_names, .. } = ast.constructors[constructor];
                match constructors.get(&name) {
                    Some(&first) => self.declared_twice("constructor", name, name_span, first),
                    None => {
                        constructors.insert(name, name_span);
                        self.declare_constructor(name, constructor);
                    }
                }
                field_names.iter().for_each(|fields| self.once(fields, "field"));
            }
        }
        for id in declared.aliases() {
            let alias = &ast.aliases[id];
            self.declare_type(&mut types, alias.name, alias.name_span, TypeMeaning::Alias(id));
            self.once(&alias.params, "parameter");
        }
    }

    fn declare_type(&mut self, types: &mut HashMap<Name, Span>, name: Name, span: Span, meaning: TypeMeaning) {
        let text = self.names.text(name);
        // Programs may give the other names a meaning of their own.
        if matches!(text, "Real" | "Int" | "Bool" | "Array" | "List") {
            self.sink.push(Diagnostic::error(span, format!("the type `{text}` is built in")).label("declared again"));
        } else if let Some(&first) = types.get(&name) {
            self.declared_twice("type", name, span, first);
        } else {
            types.insert(name, span);
            self.declare_type_name(name, meaning);
        }
    }

    fn once(&mut self, names: &[(Name, Span)], what: &str) {
        let mut seen = HashMap::default();
        for &(name, span) in names {
            if let Some(first) = seen.insert(name, span) {
                self.declared_twice(what, name, span, first);
            }
        }
    }

    /// Resolves the declarations of types of some files, the first of which has this number.
    pub(super) fn resolve_types(&mut self, files: &[Declarations], first: usize) {
        let ast = self.ast;
        let mut uses: Table<AliasId, Vec<AliasId>> = Table::filled(Vec::new(), ast.aliases.len());
        for (declared, file) in files.iter().zip(first..) {
            self.file = file;
            for data in declared.datas().map(|id| &ast.datas[id]) {
                let params: HashSet<Name> = data.params.iter().map(|param| param.0).collect();
                for &constructor in &data.constructors {
                    ast.constructors[constructor].fields.iter().for_each(|&field| self.type_expr(field, Some(&params)));
                }
            }
            for id in declared.aliases() {
                let alias = &ast.aliases[id];
                let params = alias.params.iter().map(|param| param.0).collect();
                self.type_expr(alias.ty, Some(&params));
                self.aliases_in(alias.ty, &mut uses[id]);
            }
        }
        for group in crate::graph::groups(&uses, self.meter) {
            let first = group[0];
            if group.len() == 1 && !uses[first].contains(&first) {
                continue;
            }
            let alias = &ast.aliases[first];
            let message = format!("the abbreviation `{}` would contain itself", self.names.text(alias.name));
            let error = Diagnostic::error(alias.name_span, message);
            self.sink.push(error.help("a recursive type is declared with `type` and a constructor"));
            group.into_iter().for_each(|id| self.resolved.expandable[id] = false);
        }
        for (id, uses) in uses.into_entries().filter(|(_, uses)| !uses.is_empty()) {
            self.resolved.alias_uses[id] = uses;
        }
    }

    fn aliases_in(&self, ty: TypeExprId, found: &mut Vec<AliasId>) {
        if let Some(TypeMeaning::Alias(alias)) = self.resolved.types[ty] {
            found.push(alias);
        }
        crate::stack::grown(|| self.ast.types[ty].kind.for_each_child(|child| self.aliases_in(child, found)));
    }

    /// Resolves a type as written; `params` are the type variables that there are, if not any may be used.
    pub(super) fn type_expr(&mut self, ty: TypeExprId, params: Option<&HashSet<Name>>) {
        let ast = self.ast;
        let node = &ast.types[ty];
        if !self.meter.step(node.span) {
            return;
        }
        match &node.kind {
            TypeExprKind::Named(name, args) => {
                self.resolved.types[ty] = self.type_name(*name, args.len(), node.span);
                if self.resolved.types[ty].is_none() {
                    return;
                }
            }
            TypeExprKind::Var(name) => {
                if params.is_some_and(|params| !params.contains(name)) {
                    let text = self.names.text(*name);
                    let error = Diagnostic::error(node.span, format!("unknown type variable `{text}`"));
                    let help = format!("make it a parameter of the type: `type Name {text} = ..`");
                    self.sink.push(error.label("not a parameter of the type").help(help));
                }
            }
            TypeExprKind::Collection(name, _) => {
                if params.is_some() {
                    let text = self.names.text(*name);
                    let error = Diagnostic::error(node.span, format!("the kind of collection `{text}` is not known"));
                    let error = error.label("expected `List` or `Array`");
                    self.sink.push(error.note("the kind is open in the types of functions only"));
                    return;
                }
                self.resolved.types[ty] = Some(TypeMeaning::Collection(None));
            }
            TypeExprKind::Record(fields) => {
                let names: Vec<(Name, Span)> = fields.iter().map(|field| (field.name, field.name_span)).collect();
                self.once(&names, "field");
            }
            TypeExprKind::Error | TypeExprKind::Tuple(_) | TypeExprKind::Function(_) => {}
        }
        crate::stack::grown(|| node.kind.for_each_child(|child| self.type_expr(child, params)));
    }

    fn type_name(&mut self, name: Name, found: usize, span: Span) -> Option<TypeMeaning> {
        let text = self.names.text(name);
        let Some(meaning) = self.global_type(name) else {
            if !self.ast.incomplete {
                self.unknown_type(name, span);
            }
            return None;
        };
        let arity = match meaning {
            TypeMeaning::Real | TypeMeaning::Int | TypeMeaning::Bool => 0,
            TypeMeaning::Collection(_) => 1,
            TypeMeaning::Data(data) => self.ast.datas[data].params.len(),
            TypeMeaning::Alias(alias) => self.ast.aliases[alias].params.len(),
        };
        if found == arity {
            return Some(meaning);
        }
        let takes = match arity {
            0 => "no argument".to_owned(),
            1 => "1 argument".to_owned(),
            _ => format!("{arity} arguments"),
        };
        let error = Diagnostic::error(span, format!("the type `{text}` takes {takes}, found {found}"));
        let nested = arity >= 1 && found > arity;
        self.sink.push(match nested {
            true => error.help(format!("use parentheses: `{text} ({} ..)`", if arity == 1 { text } else { "List" })),
            false => error,
        });
        None
    }

    fn unknown_type(&mut self, name: Name, span: Span) {
        if self.is_missing(name) {
            return;
        }
        let text = self.names.text(name);
        let meant = match text {
            "Float" | "Double" | "Number" | "F64" => Some("Real"),
            "Integer" | "Nat" => Some("Int"),
            "Boolean" => Some("Bool"),
            "Unit" => Some("()"),
            "Vec" | "Vector" => Some("Array"),
            "Option" | "Optional" => Some("Maybe"),
            _ => self.closest_of(name, std::iter::empty(), |known| self.global_type(known).is_some()),
        };
        let error = Diagnostic::error(span, format!("unknown type `{text}`"));
        let error = match meant {
            Some(meant) => error.help(format!("there is a type `{meant}`")),
            None if self.global_constructor(name).is_some() => {
                error.help(format!("`{text}` is a constructor, not a type"))
            }
            None => error.help("declare it with `type`, or use `Real`, `Int`, `Bool`, `()`, `List T` or `Array T`"),
        };
        self.sink.push(error);
    }
}
