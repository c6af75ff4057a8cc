//! What a file imports: the declarations at its beginning, and the names in it that they qualify.
//!
//! A name of an imported module, such as `linalg.solve`, becomes one token. So for all later stages it is a name like
//! any other, which stands in the file's scope.

use crate::diagnostics::{Diagnostic, Sink};
use crate::hash::{HashMap, HashSet};
use crate::lexer::is_name_part;
use crate::limits::Meter;
use crate::names::{Name, Names};
use crate::source::Span;
use crate::token::{Token, TokenKind};

/// `import linalg as la (solve, Matrix)`.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    /// What is imported, and where that stands.
    pub(crate) target: (Name, Span),
    /// Whether that is in quotes.
    pub(crate) is_path: bool,
    /// The module's name in the file.
    pub(crate) module: Name,
    /// The name that the module has of its own: the last part of a path.
    pub(crate) title: Name,
    /// What is known without the module's name: the name there, the name here, the place.
    pub(crate) selected: Vec<Selected>,
}

/// `solve as linear_solve` in an import.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selected {
    /// The name in the module.
    pub(crate) name: Name,
    /// The name in the file.
    pub(crate) known_as: Name,
    /// Where it stands.
    pub(crate) span: Span,
    /// Whether it is a type's, which brings its constructors along.
    pub(crate) is_type: bool,
}

/// Takes the imports away from the beginning of a file's tokens.
pub(crate) fn take_imports(tokens: &mut Vec<Token>, names: &mut Names, sink: &mut Sink, meter: &Meter) -> Vec<Import> {
    let mut reader = Reader { tokens, at: 0, names, sink };
    let mut imports: Vec<Import> = Vec::new();
    let mut modules: HashMap<Name, Span> = HashMap::default();
    // Imports from the host, which stand among the others.
    let mut others: Vec<Token> = Vec::new();
    while reader.peek() == TokenKind::Import && meter.step(reader.span()) {
        if reader.is_of_host() {
            let start = reader.at;
            reader.advance();
            reader.skip();
            others.extend(&reader.tokens[start..reader.at]);
            continue;
        }
        let Some(import) = reader.import() else {
            reader.skip();
            continue;
        };
        match modules.get(&import.module) {
            Some(&first) => {
                let message = format!("`{}` is imported twice", reader.names.text(import.module));
                let error = Diagnostic::error(import.target.1, message).label("imported again here");
                let error = error.also(first, "first imported here");
                reader.sink.push(error.help("give one of them another name: `import shapes as more_shapes`"));
            }
            None => {
                modules.insert(import.module, import.target.1);
                imports.push(import);
            }
        }
    }
    let rest = reader.at;
    tokens.splice(..rest, others);
    imports
}

struct Reader<'r> {
    tokens: &'r [Token],
    at: usize,
    names: &'r mut Names,
    sink: &'r mut Sink,
}

impl Reader<'_> {
    fn peek(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn advance(&mut self) -> Span {
        let span = self.span();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        span
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.advance();
        }
        found
    }

    /// Whether what begins here is `import host "name"`: the word is a name elsewhere.
    fn is_of_host(&self) -> bool {
        is_of_host(&self.tokens[self.at..], self.names)
    }

    /// Whether the word `as`, which is a name elsewhere, stands here.
    fn eat_as(&mut self) -> bool {
        let found = matches!(self.peek(), TokenKind::Lower(name) if self.names.text(name) == "as");
        if found {
            self.advance();
        }
        found
    }

    fn unexpected<T>(&mut self, expected: &str, help: &str) -> Option<T> {
        // A stray character was reported already.
        if self.peek() != TokenKind::Stray {
            let error = Diagnostic::error(self.span(), format!("expected {expected}, found {}", self.peek()));
            self.sink.push(error.label(format!("expected {expected}")).help(help));
        }
        None
    }

    /// Goes on at the next declaration.
    fn skip(&mut self) {
        while !self.peek().starts_declaration() {
            self.advance();
        }
    }

    fn import(&mut self) -> Option<Import> {
        let help = "a module is imported by its name, `import linalg`, or by a path, `import \"models/gp\"`";
        self.advance();
        let (target, is_path) = match self.peek() {
            TokenKind::Lower(name) => ((name, self.advance()), false),
            TokenKind::Text(name) => ((name, self.advance()), true),
            _ => return self.unexpected("the name of a module", help),
        };
        let text = self.names.text(target.0).to_owned();
        let stem = text.rsplit('/').next().unwrap_or_default();
        let stem = [".dual", ".dvbc", ".dvs"].iter().find_map(|&kind| stem.strip_suffix(kind)).unwrap_or(stem);
        let title = self.names.intern(stem);
        let module = if self.eat_as() {
            let TokenKind::Lower(module) = self.peek() else { return self.unexpected("a name for the module", help) };
            self.advance();
            module
        } else if is_path && !is_name(stem) {
            let error = Diagnostic::error(target.1, format!("`{stem}` can't be the name of a module"));
            self.sink.push(error.help(format!("give it one: `import \"{text}\" as models`")));
            return None;
        } else {
            title
        };
        let selected = if self.peek() == TokenKind::LeftParen { self.selected()? } else { Vec::new() };
        if !self.peek().starts_declaration() {
            return self.unexpected("`as`, `(` or the next declaration", help);
        }
        Some(Import { target, is_path, module, title, selected })
    }

    /// `(solve, det as determinant, Matrix)`
    fn selected(&mut self) -> Option<Vec<Selected>> {
        let help = "what is selected is a list of names: `import linalg (solve, det as determinant, Matrix)`";
        self.advance();
        let mut selected = Vec::new();
        while self.peek() != TokenKind::RightParen {
            let (name, is_type) = match self.peek() {
                TokenKind::Lower(name) => (name, false),
                TokenKind::Upper(name) => (name, true),
                _ => return self.unexpected("a name of the module", help),
            };
            let span = self.advance();
            let mut known_as = name;
            if self.eat_as() {
                known_as = match (self.peek(), is_type) {
                    (TokenKind::Lower(known_as), false) | (TokenKind::Upper(known_as), true) => known_as,
                    _ => return self.unexpected("another name of the same kind", help),
                };
                self.advance();
            }
            selected.push(Selected { name, known_as, span, is_type });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        match self.eat(TokenKind::RightParen) {
            true => Some(selected),
            false => self.unexpected("`,` or `)`", help),
        }
    }
}

impl Import {
    /// Whether a name in the file would be something of the module.
    pub(crate) fn brings(&self, name: Name, names: &Names) -> bool {
        let qualifier = names.text(name).split_once('.').map(|(qualifier, _)| qualifier);
        qualifier == Some(names.text(self.module)) || self.selected.iter().any(|selected| selected.known_as == name)
    }
}

/// Whether tokens begin with `import host "name"`.
pub(crate) fn is_of_host(tokens: &[Token], names: &Names) -> bool {
    let kind = |at: usize| tokens.get(at).map(|token| token.kind);
    kind(0) == Some(TokenKind::Import)
        && matches!(kind(1), Some(TokenKind::Lower(word)) if names.text(word) == "host")
        && matches!(kind(2), Some(TokenKind::Text(_)))
}

/// Whether a text is a name of a value, and no keyword.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first == '_' || first.is_alphabetic() && !first.is_uppercase())
        && text.chars().all(is_name_part)
        && TokenKind::from_fixed(text).is_none()
}

/// The name of something in a module that is known by a name of its own.
pub(crate) fn qualified(module: Name, name: Name, names: &mut Names) -> Name {
    let text = format!("{}.{}", names.text(module), names.text(name));
    names.intern(&text)
}

/// Makes one token of each name that begins with a module's, as in `linalg.solve`.
pub(crate) fn qualify(tokens: &mut Vec<Token>, imports: &[Import], names: &mut Names, meter: &Meter) {
    if imports.is_empty() {
        return;
    }
    let modules: HashSet<Name> = imports.iter().map(|import| import.module).collect();
    let mut joined: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.iter().copied().peekable();
    while let Some(token) = rest.next() {
        let is_module = matches!(token.kind, TokenKind::Lower(name) if modules.contains(&name));
        // A field may have the name of a module.
        let is_field = token.glued && joined.last().is_some_and(|last| last.kind == TokenKind::Dot);
        let dot = rest.peek().copied().filter(|next| next.kind == TokenKind::Dot && next.glued);
        let (TokenKind::Lower(module), true, false, Some(dot)) = (token.kind, is_module, is_field, dot) else {
            joined.push(token);
            continue;
        };
        rest.next();
        let Some(next) = rest.next_if(|next| next.glued && meter.step(next.span)) else {
            joined.extend([token, dot]);
            continue;
        };
        let kind = match next.kind {
            TokenKind::Lower(name) => TokenKind::Lower(qualified(module, name, names)),
            TokenKind::Upper(name) => TokenKind::Upper(qualified(module, name, names)),
            _ => {
                joined.extend([token, dot, next]);
                continue;
            }
        };
        joined.push(Token { kind, span: token.span.to(next.span), ..token });
    }
    *tokens = joined;
}
