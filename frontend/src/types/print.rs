//! Types as people write them. Long ones are cut short. Variables are letters: `c` is a kind of collection.

use super::{Class, Con, Node, Ty, Types};
use std::collections::HashMap;

/// No more characters than about this many are written.
const CHARS_MAX: usize = 200;

struct Printer<'t> {
    types: &'t Types,
    letters: HashMap<Ty, String>,
    out: String,
}

impl Types {
    /// The type in the language's syntax; variables are letters.
    pub(crate) fn show(&self, ty: Ty) -> String {
        self.show_function(&[], ty)
    }

    /// The type of a function of these parameters and this result.
    pub(crate) fn show_function(&self, params: &[Ty], result: Ty) -> String {
        let mut printer = Printer { types: self, letters: HashMap::new(), out: String::new() };
        for &param in params {
            let is_function = self.function_parts(param).is_some();
            printer.parenthesised(is_function, |printer| printer.write(param, false));
            printer.out.push_str(" -> ");
        }
        printer.write(result, false);
        if let Some(cut) = printer.out.find('…') {
            printer.out.truncate(cut + '…'.len_utf8());
        }
        printer.out
    }

    /// The type in a message: quoted, or in words where it is not known.
    pub(crate) fn describe(&self, ty: Ty) -> String {
        match self.node(ty) {
            Node::Var { class: Class::Any, .. } => "any type".to_owned(),
            Node::Var { class: Class::Data, .. } => "a type without functions".to_owned(),
            Node::Var { class: Class::Equal, .. } => "a type with equality".to_owned(),
            Node::Con { con: Con::Collection, args, .. } if self.kind_of(ty).is_none() => match self.node(args[1]) {
                Node::Var { class: Class::Any, .. } => "a list or an array".to_owned(),
                _ => format!("a list or an array of {}", self.describe(args[1])),
            },
            Node::Var { .. } => "a number".to_owned(),
            _ => format!("`{}`", self.show(ty)),
        }
    }
}

impl Printer<'_> {
    fn write(&mut self, ty: Ty, as_argument: bool) {
        if self.out.len() > CHARS_MAX {
            if !self.out.ends_with('…') {
                self.out.push('…');
            }
            return;
        }
        let root = self.types.root(ty);
        match self.types.node(root) {
            Node::Con { con, args, .. } => match con {
                Con::Real => self.out.push_str("Real"),
                Con::Int => self.out.push_str("Int"),
                Con::Bool => self.out.push_str("Bool"),
                Con::Tuple => {
                    self.out.push('(');
                    self.list(args, ", ", false);
                    self.out.push(')');
                }
                Con::Collection => self.parenthesised(as_argument, |printer| {
                    printer.write(args[0], true);
                    printer.out.push(' ');
                    printer.write(args[1], true);
                }),
                Con::Kind(kind) => self.out.push_str(kind.name()),
                Con::Function => self.parenthesised(as_argument, |printer| printer.function(root)),
                Con::Data(data) => self.parenthesised(as_argument && !args.is_empty(), |printer| {
                    printer.out.push_str(&printer.types.datas[*data].name);
                    for &arg in args {
                        printer.out.push(' ');
                        printer.write(arg, true);
                    }
                }),
                Con::Record(shape) => {
                    for (i, (field, &ty)) in self.types.fields(*shape).iter().zip(args).enumerate() {
                        self.out.push_str(if i == 0 { "{ " } else { ", " });
                        self.out.push_str(&self.types.texts[field]);
                        self.out.push_str(" : ");
                        crate::stack::grown(|| self.write(ty, false));
                    }
                    self.out.push_str(" }");
                }
            },
            Node::Error => self.out.push('?'),
            Node::Var { .. } | Node::Link(_) => {
                let is_kind = self.types.is_kind(root);
                let next = self.letters.keys().filter(|&&other| self.types.is_kind(other) == is_kind).count();
                let letter = self.letters.entry(root).or_insert_with(|| match u8::try_from(next) {
                    _ if is_kind => {
                        if next == 0 {
                            "c".to_owned()
                        } else {
                            format!("c{}", next + 1)
                        }
                    }
                    Ok(n) if n < 2 => char::from(b'a' + n).to_string(),
                    Ok(n) if n < 25 => char::from(b'b' + n).to_string(),
                    _ => format!("t{next}"),
                });
                self.out.push_str(letter);
            }
        }
    }

    /// A chain of arrows.
    fn function(&mut self, mut ty: Ty) {
        while let Some((param, result)) = self.types.function_parts(ty) {
            if self.out.len() > CHARS_MAX {
                break;
            }
            let is_function = self.types.function_parts(param).is_some();
            self.parenthesised(is_function, |printer| printer.write(param, false));
            self.out.push_str(" -> ");
            ty = result;
        }
        self.write(ty, false);
    }

    fn parenthesised(&mut self, parentheses: bool, write: impl FnOnce(&mut Self)) {
        if parentheses {
            self.out.push('(');
        }
        crate::stack::grown(|| write(self));
        if parentheses {
            self.out.push(')');
        }
    }

    fn list(&mut self, types: &[Ty], separator: &str, as_arguments: bool) {
        for (i, &ty) in types.iter().enumerate() {
            if i > 0 {
                self.out.push_str(separator);
            }
            crate::stack::grown(|| self.write(ty, as_arguments));
        }
    }
}
