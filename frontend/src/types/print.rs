//! Types as people write them, with abbreviations where they were written so. Of long ones what is deep inside is left
//! out. Variables are letters: `c` is a kind of collection.

use super::{Class, Con, Node, Ty, Types, Written};
use crate::hash::HashMap;

/// No more characters than about this many are written.
const CHARS_MAX: usize = 200;
/// How deep types are shown, if that makes them short enough.
const DEPTHS: [usize; 7] = [32, 8, 5, 4, 3, 2, 1];

struct Printer<'t> {
    types: &'t Types,
    letters: HashMap<Ty, String>,
    /// How many levels may follow.
    depth: usize,
    out: String,
}

impl Types {
    /// The type in the language's syntax; variables are letters.
    pub(crate) fn show(&self, ty: Ty) -> String {
        self.show_function(&[], ty)
    }

    /// The type of a function of these parameters and this result.
    pub(crate) fn show_function(&self, params: &[Ty], result: Ty) -> String {
        let mut text = String::new();
        for depth in DEPTHS {
            let mut printer = Printer { types: self, letters: HashMap::default(), depth, out: String::new() };
            for &param in params {
                let is_arrow = printer.is_arrow(param);
                printer.parenthesised(is_arrow, |printer| printer.write(param, false));
                printer.out.push_str(" -> ");
            }
            printer.write(result, false);
            text = printer.out;
            if text.len() <= CHARS_MAX {
                break;
            }
        }
        text
    }

    /// The type with texts for some of its variables; nothing if it is too long to be shown whole.
    pub(crate) fn show_whole(&self, ty: Ty, variables: &[(Ty, &str)]) -> Option<String> {
        let letters = variables.iter().map(|&(var, text)| (self.root(var), text.to_owned())).collect();
        let mut printer = Printer { types: self, letters, depth: DEPTHS[0], out: String::new() };
        printer.write(ty, false);
        Some(printer.out).filter(|text| !text.contains('…'))
    }

    /// What an abbreviation stands for, in a message about a type that is shown as one.
    pub(crate) fn meaning(&self, ty: Ty) -> Option<String> {
        let root = self.root(ty);
        self.written.get(&root)?;
        let mut printer = Printer { types: self, letters: HashMap::default(), depth: DEPTHS[0], out: String::new() };
        printer.expansion(root, false);
        (printer.out.len() <= CHARS_MAX).then(|| format!("`{}` is `{}`", self.show(ty), printer.out))
    }

    /// The type in a message: quoted, or in words where it is not known.
    pub(crate) fn describe(&self, ty: Ty) -> String {
        match self.node(ty) {
            Node::Var { class: Class::Any, .. } => "any type".to_owned(),
            Node::Var { class: Class::Data, .. } => "a type without functions".to_owned(),
            Node::Var { class: Class::Equal, .. } => "a type with equality".to_owned(),
            Node::Con { con: Con::Collection, args, .. } if let Class::Kind(kinds) = self.class_of(args[0]) => {
                match self.node(args[1]) {
                    Node::Var { class: Class::Any, .. } => kinds.noun().to_owned(),
                    _ => format!("{} of {}", kinds.noun(), self.describe(args[1])),
                }
            }
            Node::Var { class: Class::Arithmetic, .. } => "a number or an array of numbers".to_owned(),
            Node::Var { .. } => "a number".to_owned(),
            _ => format!("`{}`", self.show(ty)),
        }
    }
}

impl Printer<'_> {
    fn write(&mut self, ty: Ty, as_argument: bool) {
        let root = self.types.root(ty);
        if let Some(Written { name, args }) = self.types.written.get(&root) {
            self.applied(&self.types.texts[name], args, as_argument);
        } else {
            self.expansion(root, as_argument);
        }
    }

    /// A type in full, but for abbreviations in its parts.
    fn expansion(&mut self, root: Ty, as_argument: bool) {
        match self.types.node(root) {
            Node::Con { con, args, .. } => match con {
                Con::Real => self.out.push_str("Real"),
                Con::Int => self.out.push_str("Int"),
                Con::Bool => self.out.push_str("Bool"),
                Con::Tuple if args.is_empty() => self.out.push_str("()"),
                Con::Tuple => self.deeper(|printer| {
                    printer.out.push('(');
                    printer.list(args, |printer, ty| printer.write(ty, false));
                    printer.out.push(')');
                }),
                Con::Collection => self.parenthesised(as_argument, |printer| {
                    printer.write(args[0], true);
                    printer.out.push(' ');
                    printer.deeper(|printer| printer.write(args[1], true));
                }),
                Con::Kind(kind) => self.out.push_str(kind.name()),
                Con::Function => self.parenthesised(as_argument, |printer| printer.function(root)),
                Con::Data(data) => self.applied(&self.types.datas[*data].name, args, as_argument),
                Con::Record(shape) => self.deeper(|printer| {
                    let names = printer.types.fields(*shape);
                    let order = &printer.types.orders[*shape];
                    printer.out.push_str("{ ");
                    printer.list(order, |printer, place| {
                        printer.out.push_str(&printer.types.texts[&names[place]]);
                        printer.out.push_str(" : ");
                        printer.write(args[place], false);
                    });
                    printer.out.push_str(" }");
                }),
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

    /// A name and arguments.
    fn applied(&mut self, name: &str, args: &[Ty], as_argument: bool) {
        self.parenthesised(as_argument && !args.is_empty(), |printer| {
            printer.out.push_str(name);
            for &arg in args {
                printer.out.push(' ');
                printer.deeper(|printer| printer.write(arg, true));
            }
        });
    }

    /// Whether a type is written with an arrow.
    fn is_arrow(&self, ty: Ty) -> bool {
        let root = self.types.root(ty);
        self.types.function_parts(root).is_some() && !self.types.written.contains_key(&root)
    }

    /// A chain of arrows.
    fn function(&mut self, mut ty: Ty) {
        let mut is_first = true;
        while let Some((param, result)) = self.types.function_parts(ty)
            && (is_first || self.is_arrow(ty))
        {
            is_first = false;
            if self.is_long() {
                return self.out.push('…');
            }
            match self.is_arrow(param) {
                true => self.parenthesised(true, |printer| printer.deeper(|printer| printer.write(param, false))),
                false => self.write(param, false),
            }
            self.out.push_str(" -> ");
            ty = result;
        }
        self.write(ty, false);
    }

    fn is_long(&self) -> bool {
        self.out.len() > CHARS_MAX
    }

    /// What is a level deeper, if that may be shown.
    fn deeper(&mut self, write: impl FnOnce(&mut Self)) {
        if self.depth == 0 || self.is_long() {
            return self.out.push('…');
        }
        self.depth -= 1;
        crate::stack::grown(|| write(self));
        self.depth += 1;
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

    /// Parts with commas between them, the first of many.
    fn list<T: Copy>(&mut self, parts: &[T], mut write: impl FnMut(&mut Self, T)) {
        for (i, &part) in parts.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            if self.is_long() {
                return self.out.push('…');
            }
            write(self, part);
        }
    }
}
