//! Records: fields of known records, and of those that become known later.

use super::{Infer, Why};
use crate::ast::{ConstructorId, ExprId, Field, TypeExprKind};
use crate::builtins::Builtin;
use crate::diagnostics::Diagnostic;
use crate::hash::{HashMap, HashSet};
use crate::names::{Name, closest};
use crate::parser::PARTS;
use crate::prelude;
use crate::source::Span;
use crate::types::{Class, Con, Node, Ty};

/// A field of a record whose type is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldUse {
    pub(super) record: Ty,
    pub(super) name: Name,
    pub(super) span: Span,
    pub(super) field: Ty,
}

impl Infer<'_> {
    /// `{ x = a }`; the expected type, if there is one, is handed down to the fields.
    pub(super) fn record(&mut self, fields: &[Field], expected: Option<Ty>) -> Ty {
        self.once(fields);
        let mut wanted = HashMap::default();
        if let Some(Node::Con { con: Con::Record(shape), args, .. }) = expected.map(|ty| self.out.types.node(ty)) {
            wanted.extend(self.out.types.fields(*shape).iter().copied().zip(args.iter().copied()));
        }
        let (mut found, mut seen) = (Vec::new(), HashSet::default());
        for field in fields {
            let ty = match wanted.get(&field.name) {
                Some(&ty) => {
                    self.check(field.value, ty, Why::Field(field.name));
                    ty
                }
                None => self.infer(field.value),
            };
            if seen.insert(field.name) {
                found.push((field.name, ty));
            }
        }
        self.out.types.record(found, self.names)
    }

    fn once(&mut self, fields: &[Field]) {
        let mut seen: HashMap<Name, Span> = HashMap::default();
        for field in fields {
            if let Some(first) = seen.insert(field.name, field.name_span) {
                let message = format!("the field `{}` is given twice", self.names.text(field.name));
                let error = Diagnostic::error(field.name_span, message).label("given again here");
                self.sink.push(error.also(first, "first given here"));
            }
        }
    }

    /// The arguments of a constructor with named fields.
    pub(super) fn named_arguments(
        &mut self,
        constructor: ConstructorId,
        types: &[Ty],
        record: ExprId,
        fields: &[Field],
    ) {
        self.once(fields);
        let declared = &self.ast.constructors[constructor];
        let names = declared.field_names.as_deref().unwrap_or_default();
        let places: HashMap<Name, usize> = names.iter().enumerate().map(|(at, known)| (known.0, at)).collect();
        let what = self.names.text(declared.name);
        for field in fields {
            match places.get(&field.name) {
                Some(&index) => self.check(field.value, types[index], Why::Field(field.name)),
                None => {
                    let known: Vec<Name> = names.iter().map(|known| known.0).collect();
                    self.unknown_field(field.name, field.name_span, &format!("`{what}`"), &known);
                    self.infer(field.value);
                }
            }
        }
        let given: HashSet<Name> = fields.iter().map(|field| field.name).collect();
        let missing: Vec<Name> = names.iter().map(|known| known.0).filter(|known| !given.contains(known)).collect();
        if !missing.is_empty() {
            let list = self.list_names(&missing);
            let message = match missing.len() {
                1 => format!("the field {list} of `{what}` is missing"),
                _ => format!("the fields {list} of `{what}` are missing"),
            };
            let error = Diagnostic::error(self.ast.exprs[record].span, message);
            self.sink.push(error.also(declared.name_span, "declared here"));
        }
    }

    /// `{ r with x = a }`.
    pub(super) fn update(&mut self, record: ExprId, fields: &[Field]) -> Ty {
        self.once(fields);
        let ty = self.infer(record);
        for field in fields {
            let wanted = self.field(ty, field.name, field.name_span);
            self.check(field.value, wanted, Why::Field(field.name));
        }
        ty
    }

    /// The type of a field; if the record is not known yet, it is found out later.
    pub(super) fn field(&mut self, record: Ty, name: Name, span: Span) -> Ty {
        let field = self.out.types.var(Class::Any);
        let usage = FieldUse { record, name, span, field };
        if !self.solve(usage) {
            self.fields.push(usage);
        }
        field
    }

    /// Looks at all records again that were not known: all but the first few of them.
    pub(super) fn solve_fields(&mut self, fields: usize) {
        loop {
            let before = self.fields.len();
            for usage in self.fields.split_off(fields) {
                if !self.out.types.walk_on() || !self.solve(usage) {
                    self.fields.push(usage);
                }
            }
            if self.fields.len() == before || self.fields.len() == fields {
                return;
            }
        }
    }

    /// Finds out the type of a field; false if the record is not known yet.
    fn solve(&mut self, usage: FieldUse) -> bool {
        let types = &self.out.types;
        let error = types.error;
        let found = match types.node(usage.record) {
            Node::Var { .. } | Node::Link(_) => return false,
            Node::Error => error,
            Node::Con { con: Con::Record(shape), args, .. } => match types.field_place(*shape, usage.name) {
                Some(index) => args[index],
                None => {
                    let known = types.fields(*shape).to_vec();
                    let record = types.describe(usage.record);
                    self.unknown_field(usage.name, usage.span, &record, &known);
                    error
                }
            },
            Node::Con { con: Con::Data(data), args, .. } => {
                let (data, args) = (*data, args.to_vec());
                match self.data_field(usage, data) {
                    Some((constructor, index)) => {
                        let ty = self.out.constructors[constructor][index];
                        let mut replaced = self.out.datas[data].iter().copied().zip(args).collect();
                        self.out.types.instantiate(ty, &mut replaced)
                    }
                    None => error,
                }
            }
            Node::Con { .. } => {
                let error = Diagnostic::error(usage.span, "only records have fields");
                let found = self.out.types.describe(usage.record);
                let error = error.label(format!("this is a field of {found}"));
                let name = match self.names.text(usage.name) {
                    "len" | "size" | "count" => "length",
                    name => name,
                };
                let mut functions = Builtin::all().map(|(text, _)| text).chain(prelude::names());
                self.sink.push(if functions.any(|known| known == name) {
                    error.help(format!("`{name}` is a function, which stands before its argument: `{name} x`"))
                } else if self.out.types.con_of(usage.record) == Some(Con::Tuple) {
                    error.help(PARTS)
                } else {
                    error
                });
                self.out.types.error
            }
        };
        self.unify_at(usage.span, usage.field, found, Why::Field(usage.name));
        true
    }

    /// A field of a data type's only constructor.
    fn data_field(&mut self, usage: FieldUse, data: crate::ast::DataId) -> Option<(ConstructorId, usize)> {
        let declared = &self.ast.datas[data];
        let what = format!("`{}`", self.names.text(declared.name));
        let [constructor] = declared.constructors[..] else {
            let error = Diagnostic::error(usage.span, format!("{what} has several constructors"));
            let help =
                "find out which one it is with `match`: only a single constructor's fields can be named like this";
            self.sink.push(error.help(help));
            return None;
        };
        let names = self.ast.constructors[constructor].field_names.as_deref().unwrap_or_default();
        let index = names.iter().position(|known| known.0 == usage.name);
        if index.is_none() {
            let known: Vec<Name> = names.iter().map(|known| known.0).collect();
            self.unknown_field(usage.name, usage.span, &what, &known);
        }
        index.map(|index| (constructor, index))
    }

    pub(super) fn unknown_field(&mut self, name: Name, span: Span, record: &str, known: &[Name]) {
        let text = self.names.text(name);
        let error = Diagnostic::error(span, format!("{record} has no field `{text}`"));
        // Looking through all fields takes time: only for problems that are shown.
        let shown = if self.sink.is_full() { &[] } else { known };
        let meant = closest(text, shown.iter().map(|&known| self.names.text(known)));
        let error = match meant {
            Some(meant) => error.help(format!("there is a field `{meant}`")),
            None if known.is_empty() => error.note("its constructor has no named fields"),
            None => error.note(format!("the fields are {}", self.list_names(known))),
        };
        self.sink.push(error);
    }

    /// Names in a message, separated by commas; the first ones of many.
    pub(super) fn list_names(&self, names: &[Name]) -> String {
        const SHOWN: usize = 20;
        let shown: Vec<String> = names.iter().take(SHOWN).map(|&name| format!("`{}`", self.names.text(name))).collect();
        match names.len().saturating_sub(SHOWN) {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }

    /// At the end of a definition, every record must be known.
    pub(super) fn refuse_unknown_records(&mut self) {
        for usage in std::mem::take(&mut self.fields) {
            let unknown = self.out.types.error;
            if !self.out.types.is_error(usage.record) {
                let text = self.names.text(usage.name);
                let message = format!("the type of the record with the field `{text}` is not known");
                let error = Diagnostic::error(usage.span, message);
                let example = self.type_with_field(usage.name).unwrap_or_else(|| format!("{{ {text} : Real }}"));
                self.sink.push(error.help(format!("say which type it has, for example `(r : {example})`")));
            }
            // Whatever else is unknown about this record was said with this.
            let both = [usage.record, usage.field];
            both.into_iter()
                .for_each(|ty| self.out.types.unify(ty, unknown).expect("the error type goes with everything"));
        }
    }

    /// A type of the program that has a field.
    fn type_with_field(&self, name: Name) -> Option<String> {
        let has_field = |names: &[Name]| names.contains(&name);
        let aliases = self.ast.aliases.iter().filter(|(_, alias)| match &self.ast.types[alias.ty].kind {
            TypeExprKind::Record(fields) => has_field(&fields.iter().map(|field| field.name).collect::<Vec<_>>()),
            _ => false,
        });
        let datas = self.ast.datas.iter().filter(|(_, data)| match data.constructors[..] {
            [single] => match &self.ast.constructors[single].field_names {
                Some(fields) => has_field(&fields.iter().map(|field| field.0).collect::<Vec<_>>()),
                None => false,
            },
            _ => false,
        });
        let mut found = aliases.map(|(_, alias)| (alias.name, alias.params.len()));
        let (name, params) = found.next().or_else(|| datas.map(|(_, data)| (data.name, data.params.len())).next())?;
        Some(format!("{}{}", self.names.text(name), " _".repeat(params).replace('_', "Real")))
    }
}
