//! Patterns as rows of a matrix, and missing values as text.

use super::{Head, Matcher, Pat, PatId};
use crate::ast::{CONS, ConstructorId, FieldPattern, NIL, PatternId, PatternKind};
use crate::hash::HashMap;
use crate::limits::Count;
use crate::names::Name;
use crate::types::{Con, Node};

/// Missing values are written no longer than about this.
const CHARS_MAX: usize = 100;

impl Matcher<'_> {
    /// A pattern without names, types and sugar; nothing if there is an error in it.
    pub(super) fn pattern(&mut self, pattern: PatternId) -> Option<PatId> {
        crate::stack::grown(|| self.pattern_here(pattern))
    }

    fn pattern_here(&mut self, pattern: PatternId) -> Option<PatId> {
        let (ast, inferred) = (self.program.ast, self.program.inferred);
        self.meter.node(Count::Types, ast.patterns[pattern].span);
        let ty = inferred.patterns[pattern];
        if inferred.types.is_error(ty) {
            return None;
        }
        let (head, args) = match &ast.patterns[pattern].kind {
            PatternKind::Var(_) | PatternKind::Wildcard => return Some(self.wild),
            PatternKind::Ascribe(inner, _) | PatternKind::As(_, inner) => return self.pattern(*inner),
            PatternKind::Or(parts) => {
                let parts = self.all(parts)?;
                return Some(self.pats.push(Pat::Or(parts.into())));
            }
            PatternKind::List(parts) => {
                let parts = self.all(parts)?;
                let end = self.pats.push(Pat::Head(Head::Constructor(NIL), Box::default()));
                return Some(self.cons(&parts, end));
            }
            PatternKind::Cons(heads, tail) => {
                let heads = self.all(heads)?;
                let tail = self.pattern(*tail)?;
                return Some(self.cons(&heads, tail));
            }
            PatternKind::Bool(value) => (Head::Bool(*value), Vec::new()),
            PatternKind::Int(value) if inferred.types.con_of(ty) == Some(Con::Int) => (Head::Int(*value), Vec::new()),
            PatternKind::Int(value) => (real(*value as f64), Vec::new()),
            PatternKind::Real(value) => (real(*value), Vec::new()),
            PatternKind::Tuple(parts) => (Head::Tuple(parts.len()), self.all(parts)?),
            PatternKind::Constructor(_, args) => {
                let constructor = self.program.resolved.constructors[pattern]?;
                let names = &ast.constructors[constructor].field_names;
                let args = match (names, &args[..]) {
                    (Some(names), [single]) => {
                        let PatternKind::Record(fields) = &ast.patterns[*single].kind else { return None };
                        let names: Vec<Name> = names.iter().map(|name| name.0).collect();
                        self.fields(fields, &names)?
                    }
                    (Some(_), _) => return None,
                    (None, args) => self.all(args)?,
                };
                (Head::Constructor(constructor), args)
            }
            PatternKind::Record(fields) => match inferred.types.node(ty) {
                Node::Con { con: Con::Record(shape), .. } => {
                    (Head::Record(*shape), self.fields(fields, inferred.types.fields(*shape))?)
                }
                // The fields of a data type with a single constructor.
                Node::Con { con: Con::Data(data), .. } => {
                    let [constructor] = ast.datas[*data].constructors[..] else { return None };
                    let names = ast.constructors[constructor].field_names.as_ref()?;
                    let names: Vec<Name> = names.iter().map(|name| name.0).collect();
                    (Head::Constructor(constructor), self.fields(fields, &names)?)
                }
                _ => return None,
            },
        };
        Some(self.pats.push(Pat::Head(head, args.into())))
    }

    fn all(&mut self, patterns: &[PatternId]) -> Option<Vec<PatId>> {
        patterns.iter().map(|&pattern| self.pattern(pattern)).collect()
    }

    fn cons(&mut self, heads: &[PatId], tail: PatId) -> PatId {
        heads
            .iter()
            .rev()
            .fold(tail, |tail, &head| self.pats.push(Pat::Head(Head::Constructor(CONS), Box::new([head, tail]))))
    }

    /// The fields of a record in the order of its type.
    fn fields(&mut self, fields: &[FieldPattern], names: &[Name]) -> Option<Vec<PatId>> {
        let places: HashMap<Name, usize> = names.iter().enumerate().map(|(place, &name)| (name, place)).collect();
        let mut pats = vec![self.wild; names.len()];
        for field in fields {
            pats[*places.get(&field.name)?] = self.pattern(field.pattern)?;
        }
        Some(pats)
    }

    /// A missing value as a pattern.
    pub(super) fn show(&self, pat: PatId) -> String {
        let mut out = String::new();
        self.write(pat, false, &mut out);
        out
    }

    fn write(&self, pat: PatId, as_argument: bool, out: &mut String) {
        let Pat::Head(head, args) = &self.pats[pat] else { return out.push('_') };
        if out.len() > CHARS_MAX {
            return out.push('_');
        }
        match *head {
            Head::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            Head::Int(value) => out.push_str(&value.to_string()),
            Head::Real(bits) => out.push_str(&format!("{:?}", f64::from_bits(bits))),
            Head::Tuple(_) => {
                out.push('(');
                for (i, &arg) in args.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    self.write(arg, false, out);
                }
                out.push(')');
            }
            Head::Record(shape) => self.write_fields(self.program.inferred.types.fields(shape), args, out),
            Head::Constructor(constructor) => {
                let parentheses = as_argument && !args.is_empty();
                out.push_str(if parentheses { "(" } else { "" });
                self.write_constructor(constructor, args, out);
                out.push_str(if parentheses { ")" } else { "" });
            }
        }
    }

    fn write_constructor(&self, constructor: ConstructorId, args: &[PatId], out: &mut String) {
        let declared = &self.program.ast.constructors[constructor];
        if constructor == CONS {
            self.write(args[0], true, out);
            out.push_str(" :: ");
            let is_cons = matches!(self.pats[args[1]], Pat::Head(Head::Constructor(CONS), _));
            return self.write(args[1], !is_cons, out);
        }
        out.push_str(self.program.names.text(declared.name));
        if let Some(names) = &declared.field_names {
            let names: Vec<Name> = names.iter().map(|name| name.0).collect();
            out.push(' ');
            return self.write_fields(&names, args, out);
        }
        for &arg in args {
            out.push(' ');
            self.write(arg, true, out);
        }
    }

    fn write_fields(&self, names: &[Name], args: &[PatId], out: &mut String) {
        for (i, (&name, &arg)) in names.iter().zip(args).enumerate() {
            out.push_str(if i == 0 { "{ " } else { ", " });
            out.push_str(self.program.names.text(name));
            out.push_str(" = ");
            self.write(arg, false, out);
        }
        out.push_str(" }");
    }
}

/// Equal reals have equal bits here.
fn real(value: f64) -> Head {
    Head::Real(if value == 0.0 { 0 } else { value.to_bits() })
}
