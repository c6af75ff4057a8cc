//! Tokens to syntax tree. This file owns the cursor and recovery; `parser/` has declarations, expressions, patterns and
//! types.
//!
//! A syntax error abandons the declaration that it is in, and parsing goes on at the next one. Recursion is bounded
//! by [`NESTING_MAX`] and runs on a stack that grows, so that no input overflows it. Chains of operators, of `let` and
//! of `else if` are parsed without recursion.

mod atom;
mod block;
mod collection;
mod declaration;
mod expr;
mod foreign;
mod pattern;
mod types;

pub(crate) use expr::{CONS, binary_op};
pub(crate) use foreign::{PARTS, without_text};

use crate::ast::{
    Ast, Counts, DEFINITION_NODES_MAX, ExprId, ExprKind, File, NESTING_MAX, PatternId, PatternKind, TypeExprId,
    TypeExprKind,
};
use crate::diagnostics::{Diagnostic, Sink};
use crate::hash::HashSet;
use crate::imports::is_of_host;
use crate::limits::{Count, Meter};
use crate::load::FileTokens;
use crate::names::{Name, Names};
use crate::source::Span;
use crate::token::{Token, TokenKind};

/// A definition can't be parsed any further; the reason was reported.
#[derive(Debug)]
struct Abandoned;

type Parse<T> = Result<T, Abandoned>;

/// Parses the files of a program and then the prelude. Where there are syntax errors, expressions are
/// [`ExprKind::Error`].
pub(crate) fn parse(
    files: Vec<FileTokens>,
    prelude: &[Token],
    names: &mut Names,
    sink: &mut Sink,
    meter: &Meter,
) -> Ast {
    let mut ast = Ast::default();
    declaration::declare_lists(&mut ast, names);
    let mut incomplete = false;
    for FileTokens { module, interface, imports, missing, tokens } in files {
        let modules = imports.iter().map(|(import, _)| import).chain(&missing);
        let modules = modules.map(|import| import.module).collect();
        (ast, incomplete) = parse_file((&tokens, modules, interface.is_some()), (ast, incomplete), names, sink, meter);
        let end = Counts { defs: ast.defs.len(), datas: ast.datas.len(), aliases: ast.aliases.len() };
        let interface = interface.unwrap_or_default();
        ast.files.push(File { module, interface, imports, missing, end });
    }
    ast.incomplete = incomplete;
    parse_file((prelude, HashSet::default(), false), (ast, incomplete), names, sink, meter).0
}

/// Adds the declarations of a file, in which modules have these names, and which may be the interface of bytecode, to a
/// tree; whether the declaration of a type was abandoned, here or before.
fn parse_file(
    (tokens, modules, is_interface): (&[Token], HashSet<Name>, bool),
    (ast, incomplete): (Ast, bool),
    names: &Names,
    sink: &mut Sink,
    meter: &Meter,
) -> (Ast, bool) {
    let (at, depth, start) = (0, 0, 0);
    let (has_trace, is_private) = (false, false);
    let mut parser = Parser {
        tokens,
        modules,
        is_interface,
        at,
        depth,
        start,
        has_trace,
        is_private,
        names,
        sink,
        meter,
        ast,
        incomplete,
    };
    parser.program();
    (parser.ast, parser.incomplete)
}

struct Parser<'p> {
    tokens: &'p [Token],
    /// The names of modules that the file imports, which nothing else in it may have.
    modules: HashSet<Name>,
    /// Whether the file is the interface of bytecode: then what it imports of that is what others import of it.
    is_interface: bool,
    at: usize,
    depth: u32,
    /// How many expressions there were when the definition started.
    start: usize,
    /// Whether there was a trace in the definition so far.
    has_trace: bool,
    /// Whether the declaration is private.
    is_private: bool,
    names: &'p Names,
    sink: &'p mut Sink,
    meter: &'p Meter,
    ast: Ast,
    /// Whether the declaration of a type was abandoned.
    incomplete: bool,
}

impl Parser<'_> {
    fn program(&mut self) {
        while self.meter.step(self.span()) {
            let private = self.span();
            self.is_private = self.eat(TokenKind::Private);
            match self.peek() {
                TokenKind::Def => self.def(),
                TokenKind::Type => self.data(),
                TokenKind::Alias => self.alias(),
                TokenKind::End if !self.is_private => return,
                TokenKind::Import if is_of_host(&self.tokens[self.at..], self.names) => self.host_import(),
                TokenKind::Import => {
                    let error = Diagnostic::error(self.span(), "imports stand at the beginning of a file");
                    self.sink.push(error.help("move it before the first definition"));
                    self.advance();
                    self.skip_to_declaration();
                }
                _ if self.is_private => {
                    let error = self.unexpected_error("`def`, `type` or `alias`").also(private, "what is private?");
                    self.sink.push(error.help("`private` stands before a declaration: `private def helper x = ..`"));
                    self.skip_to_declaration();
                }
                _ => {
                    if let TokenKind::Lower(name) = self.peek()
                        && matches!(self.names.text(name), "data" | "newtype")
                        && matches!(self.peek_next(), TokenKind::Upper(_))
                    {
                        let help = "a data type is declared with `type`";
                        let _ = self.unexpected::<()>("`def`, `type` or `alias`", Some(help));
                        // It is known then, and whatever is of it.
                        self.data();
                        continue;
                    }
                    let help = match self.peek() {
                        TokenKind::Lower(name)
                            if ["from", "open", "using", "use", "include"].contains(&self.names.text(name)) =>
                        {
                            "what another file defines is there after `import file`; functions such as `sin` and \
                             `sum` need no import"
                        }
                        TokenKind::Let => "a definition of the program starts with `def`",
                        _ => "a program is a list of definitions: `def name x = ..`, `type Name = ..`",
                    };
                    let _ = self.unexpected::<()>("`def`, `type` or `alias`", Some(help));
                    self.skip_to_declaration();
                }
            }
        }
    }

    /// Whether a declaration can't go on here.
    fn starts_declaration(&self) -> bool {
        self.peek().starts_declaration()
    }

    /// Reports what binds a name that something in a module has, or a module itself.
    fn check_binding(&mut self, name: Name, span: Span) {
        let text = self.names.text(name);
        if text.contains('.') {
            let error = Diagnostic::error(span, format!("`{text}` is the name of something in a module"));
            self.sink.push(error.label("a name without a dot is needed here"));
        } else if self.modules.contains(&name) {
            let error = Diagnostic::error(span, format!("`{text}` is the name of an imported module"));
            let help = format!("give it or the module another name: `import {text} as {}`", &text[..1]);
            self.sink.push(error.label("nothing else can have it in this file").help(help));
        }
    }

    fn skip_to_declaration(&mut self) {
        // In the middle of a line it is a keyword in a wrong place.
        while !(self.starts_declaration() && (self.token().first || self.peek() == TokenKind::End)) {
            self.advance();
        }
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn peek(&self) -> TokenKind {
        self.token().kind
    }

    fn peek_next(&self) -> TokenKind {
        self.peek_three()[1]
    }

    /// The current token and the two after it; the last one, the end, stays.
    fn peek_three(&self) -> [TokenKind; 3] {
        [0, 1, 2].map(|ahead| self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].kind)
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The span of the token before the current one.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Goes on to the next token; the last one, the end, stays.
    fn advance(&mut self) -> Token {
        let token = self.token();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind, expected: &str) -> Parse<Span> {
        if self.peek() == kind { Ok(self.advance().span) } else { self.unexpected(expected, None) }
    }

    /// Closes what was opened at `open`.
    fn close(&mut self, kind: TokenKind, expected: &str, open: Span) -> Parse<Span> {
        if self.peek() == kind {
            return Ok(self.advance().span);
        }
        let is_bracket = matches!(
            kind,
            TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightArray | TokenKind::RightBrace
        );
        let label = if is_bracket { "opened here" } else { "starts here" };
        let error = self.unexpected_error(expected).also(open, label);
        self.fail(error)
    }

    fn lower_name(&mut self, expected: &str) -> Parse<(Name, Span)> {
        match self.peek() {
            TokenKind::Lower(name) if !self.names.text(name).contains('.') => Ok((name, self.advance().span)),
            TokenKind::Upper(name) => {
                let help =
                    format!("`{}` is capitalised: names of values start with a small letter", self.names.text(name));
                self.unexpected(expected, Some(&help))
            }
            _ => self.unexpected(expected, None),
        }
    }

    fn unexpected_error(&self, expected: &str) -> Diagnostic {
        let found = self.peek();
        let error = Diagnostic::error(self.span(), format!("expected {expected}, found {found}"))
            .label(format!("expected {expected}"));
        match self.foreign_hint(expected) {
            Some(hint) => error.help(hint),
            None if found == TokenKind::Equals && expected.contains("operator") => {
                error.help("equality is written `==`")
            }
            None if found == TokenKind::Semicolon => error.help("nothing ends a line; after `let x = ..` comes `in`"),
            None => error,
        }
    }

    fn unexpected<T>(&mut self, expected: &str, help: Option<&str>) -> Parse<T> {
        let error = self.unexpected_error(expected);
        self.fail(match help {
            Some(help) => error.help(help),
            None => error,
        })
    }

    fn fail<T>(&mut self, error: Diagnostic) -> Parse<T> {
        // What doesn't go on at a stray character was reported with it.
        if self.peek() != TokenKind::Stray {
            self.sink.push(error);
        }
        Err(Abandoned)
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= NESTING_MAX {
            return self.too_deep(self.span());
        }
        if !self.meter.step(self.span()) {
            return Err(Abandoned);
        }
        self.depth += 1;
        let result = crate::stack::grown(|| parse(self));
        self.depth -= 1;
        result
    }

    fn too_deep<T>(&mut self, span: Span) -> Parse<T> {
        let error = Diagnostic::error(span, "the expression is nested too deeply")
            .label(format!("more than {NESTING_MAX} levels, of which a pair of parentheses is two"))
            .help("give parts of it names with `let`, or compute it with `loop`");
        self.fail(error)
    }

    /// Adds an expression, unless its tree gets too high.
    fn make(&mut self, kind: ExprKind, span: Span) -> Parse<ExprId> {
        if !self.meter.node(Count::Syntax, span) {
            return Err(Abandoned);
        }
        if self.ast.exprs.len() - self.start > DEFINITION_NODES_MAX {
            let error = Diagnostic::error(span, "the definition is too long");
            let error = error.label(format!("more than {DEFINITION_NODES_MAX} expressions"));
            return self.fail(error.help("split it into several, or pass long data as an argument"));
        }
        let expr = self.ast.expr(kind, span);
        if self.ast.exprs[expr].height > NESTING_MAX {
            let end = Span::new(span.end.saturating_sub(1).max(span.start), span.end);
            return self.too_deep(end);
        }
        Ok(expr)
    }

    fn make_pattern(&mut self, kind: PatternKind, span: Span) -> Parse<PatternId> {
        match self.meter.node(Count::Syntax, span) {
            true => Ok(self.ast.pattern(kind, span)),
            false => Err(Abandoned),
        }
    }

    fn make_type(&mut self, kind: TypeExprKind, span: Span) -> Parse<TypeExprId> {
        match self.meter.node(Count::Syntax, span) {
            true => Ok(self.ast.type_expr(kind, span)),
            false => Err(Abandoned),
        }
    }
}
