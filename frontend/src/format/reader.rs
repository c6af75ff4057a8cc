//! Tokens to their structure. The text has passed the parser, so nothing is said about mistakes here; what is read
//! need only be as fine as the layout. A new form of the language is one more arm here and one in `layout`: where it is
//! missing, the reader stops, and the formatter refuses the text.

use super::shape::{
    Arm, Brackets, Declaration, Entry, Equation, Node, NodeId, Shape, Step, Structure, Suffix, TokenId,
};
use crate::arena::Id;
use crate::limits::{Count, Meter};
use crate::parser::{CONS, binary_op};
use crate::token::{Token, TokenKind};

/// The binding strength of `^`.
const POWER: u8 = 8;

/// What kind of part is read. They share their brackets and differ in their operators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Expr,
    Pattern,
    Type,
}

/// The token at which the reader has stopped.
#[derive(Debug)]
pub(super) struct Unread(pub(super) usize);

type Read<T> = Result<T, Unread>;

/// Reads the structure of a text from all of its tokens.
pub(super) fn read(tokens: &[Token], meter: &Meter) -> Read<Structure> {
    let mut reader = Reader { tokens, at: 0, meter, structure: Structure::default() };
    reader.text()?;
    Ok(reader.structure)
}

struct Reader<'r> {
    tokens: &'r [Token],
    at: usize,
    meter: &'r Meter,
    structure: Structure,
}

impl Reader<'_> {
    fn text(&mut self) -> Read<()> {
        while self.peek() != TokenKind::End {
            let mut words = Vec::new();
            if self.peek() == TokenKind::Private {
                words.push(self.advance());
            }
            let declaration = match self.peek() {
                TokenKind::Import => self.import()?,
                TokenKind::Def => Declaration::Equation(self.equation(words, Kind::Expr)?),
                TokenKind::Alias => Declaration::Equation(self.equation(words, Kind::Type)?),
                TokenKind::Type => self.data(words)?,
                _ => return self.unread(),
            };
            self.structure.declarations.push(declaration);
        }
        self.structure.end = Some(self.advance());
        Ok(())
    }

    fn peek(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    fn peek_next(&self) -> TokenKind {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    fn next_is_glued(&self) -> bool {
        self.tokens[self.at].glued
    }

    fn advance(&mut self) -> TokenId {
        let token = TokenId::from_index(self.at);
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn expect(&mut self, kind: TokenKind) -> Read<TokenId> {
        if self.peek() == kind { Ok(self.advance()) } else { self.unread() }
    }

    fn eat(&mut self, kind: TokenKind) -> Option<TokenId> {
        (self.peek() == kind).then(|| self.advance())
    }

    fn unread<T>(&self) -> Read<T> {
        Err(Unread(self.at))
    }

    fn make(&mut self, shape: Shape, first: TokenId) -> Read<NodeId> {
        if !self.meter.node(Count::Syntax, self.tokens[first.index()].span) {
            return self.unread();
        }
        let last = TokenId::from_index(self.at.saturating_sub(1));
        Ok(self.structure.nodes.push(Node { shape, first, last }))
    }

    fn first(&self, node: NodeId) -> TokenId {
        self.structure.nodes[node].first
    }

    /// Parts side by side, at least one.
    fn make_words(&mut self, parts: Vec<NodeId>) -> Read<NodeId> {
        let first = self.first(parts[0]);
        self.make(Shape::Words(parts), first)
    }

    fn token(&mut self) -> Read<NodeId> {
        let token = self.advance();
        self.make(Shape::Token(token), token)
    }

    /// `word head : T = value`.
    fn equation(&mut self, mut words: Vec<TokenId>, value: Kind) -> Read<Equation> {
        words.push(self.advance());
        let head = self.part(Kind::Pattern)?;
        let annotation = match self.eat(TokenKind::Colon) {
            Some(colon) => Some((colon, self.part(Kind::Type)?)),
            None => None,
        };
        let equals = self.expect(TokenKind::Equals)?;
        Ok(Equation { words, head, annotation, equals, value: self.part(value)? })
    }

    /// `import m as n (f, g)`, or `import host "f" as g : T`.
    fn import(&mut self) -> Read<Declaration> {
        let mut parts = vec![self.token()?];
        while self.starts_atom() {
            parts.push(self.postfix(Kind::Expr)?);
        }
        if self.peek() == TokenKind::Colon {
            parts.push(self.token()?);
            parts.push(self.part(Kind::Type)?);
        }
        Ok(Declaration::Import(self.make_words(parts)?))
    }

    fn data(&mut self, mut words: Vec<TokenId>) -> Read<Declaration> {
        words.push(self.advance());
        let head = self.row(Kind::Type)?;
        let equals = self.expect(TokenKind::Equals)?;
        let mut constructors = vec![(self.eat(TokenKind::Bar), self.row(Kind::Type)?)];
        while let Some(bar) = self.eat(TokenKind::Bar) {
            constructors.push((Some(bar), self.row(Kind::Type)?));
        }
        Ok(Declaration::Data { words, head, equals, constructors })
    }

    /// An expression, a pattern or a type.
    fn part(&mut self, kind: Kind) -> Read<NodeId> {
        self.binding(kind, 0)
    }

    /// How strongly the operator here binds, unless it is the last thing in a section.
    fn strength(&self, kind: Kind) -> Option<u8> {
        if self.peek_next() == TokenKind::RightParen {
            return None;
        }
        match (kind, self.peek()) {
            (Kind::Expr, TokenKind::Beside) | (Kind::Pattern, TokenKind::Bar) | (Kind::Type, TokenKind::Arrow) => {
                Some(0)
            }
            (Kind::Expr, TokenKind::Caret) => Some(POWER),
            (Kind::Expr, TokenKind::Cons | TokenKind::Append) | (Kind::Pattern, TokenKind::Cons) => Some(CONS),
            (Kind::Expr, other) => binary_op(other).map(|(_, strength)| strength),
            _ => None,
        }
    }

    /// Operators that bind at least as strongly, and what they stand between.
    fn binding(&mut self, kind: Kind, weakest: u8) -> Read<NodeId> {
        if !self.meter.step(self.tokens[self.at].span) {
            return self.unread();
        }
        crate::stack::grown(|| {
            /// A chain whose last operand is still to come.
            struct Open {
                strength: u8,
                first: NodeId,
                rest: Vec<(TokenId, NodeId)>,
                operator: TokenId,
            }
            let mut open: Vec<Open> = Vec::new();
            let mut operand = self.operand(kind)?;
            loop {
                let strength = self.strength(kind).filter(|&strength| strength >= weakest);
                // What binds more strongly than the operator here is an operand of it.
                while let Some(mut chain) = open.pop_if(|chain| strength.is_none_or(|here| chain.strength > here)) {
                    chain.rest.push((chain.operator, operand));
                    let first = self.first(chain.first);
                    operand = self.make(Shape::Chain(chain.first, chain.rest), first)?;
                }
                let Some(strength) = strength else { return Ok(operand) };
                let operator = self.advance();
                match open.last_mut() {
                    Some(chain) if chain.strength == strength => {
                        chain.rest.push((chain.operator, operand));
                        chain.operator = operator;
                    }
                    _ => open.push(Open { strength, first: operand, rest: Vec::new(), operator }),
                }
                operand = self.operand(kind)?;
            }
        })
    }

    fn operand(&mut self, kind: Kind) -> Read<NodeId> {
        match self.peek() {
            TokenKind::Minus => {
                let mut signs = vec![self.advance()];
                while let Some(sign) = self.eat(TokenKind::Minus) {
                    signs.push(sign);
                }
                let (first, operand) = (signs[0], self.binding(kind, POWER)?);
                self.make(Shape::Minus(signs, operand), first)
            }
            TokenKind::Let | TokenKind::If => self.steps(),
            TokenKind::Loop => self.accumulation(),
            TokenKind::Match => self.matching(),
            TokenKind::Backslash => {
                let backslash = self.advance();
                let mut params = Vec::new();
                while self.peek() != TokenKind::Arrow {
                    params.push(self.postfix(Kind::Pattern)?);
                }
                let (arrow, body) = (self.advance(), self.part(Kind::Expr)?);
                self.make(Shape::Lambda { backslash, params, arrow, body }, backslash)
            }
            _ => self.row(kind),
        }
    }

    /// `f a b`.
    fn row(&mut self, kind: Kind) -> Read<NodeId> {
        let mut parts = vec![self.postfix(kind)?];
        while self.starts_atom() {
            parts.push(self.postfix(kind)?);
        }
        match parts[..] {
            [single] => Ok(single),
            _ => {
                let first = self.first(parts[0]);
                self.make(Shape::Row(parts), first)
            }
        }
    }

    fn starts_atom(&self) -> bool {
        use TokenKind::{False, Int, Lower, Par, Real, Text, True, Underscore, Upper};
        matches!(self.peek(), Lower(_) | Upper(_) | Int(_) | Real(_) | Text(_) | True | False | Par | Underscore)
            || closing(self.peek()).is_some()
    }

    fn postfix(&mut self, kind: Kind) -> Read<NodeId> {
        if !self.starts_atom() {
            return self.unread();
        }
        let atom = match closing(self.peek()) {
            Some(close) => self.brackets(kind, close)?,
            None => self.token()?,
        };
        let mut suffixes = Vec::new();
        loop {
            suffixes.push(match (self.peek(), self.peek_next()) {
                (TokenKind::LeftBracket, _) if self.next_is_glued() => {
                    Suffix::Index(self.brackets(kind, TokenKind::RightBracket)?)
                }
                (TokenKind::Dot, TokenKind::Lower(_) | TokenKind::Upper(_)) if self.next_is_glued() => {
                    Suffix::Field(self.advance(), self.advance())
                }
                _ => break,
            });
        }
        let first = self.first(atom);
        let value = if suffixes.is_empty() { atom } else { self.make(Shape::Postfix(atom, suffixes), first)? };
        match self.eat(TokenKind::At) {
            Some(at) => {
                let inner = crate::stack::grown(|| self.postfix(kind))?;
                self.make(Shape::Chain(value, vec![(at, inner)]), first)
            }
            None => Ok(value),
        }
    }

    fn brackets(&mut self, kind: Kind, closing: TokenKind) -> Read<NodeId> {
        crate::stack::grown(|| {
            let open = self.advance();
            let (mut head, mut entries) = (None, Vec::new());
            while self.peek() != closing {
                let node = self.entry(kind)?;
                if entries.is_empty()
                    && head.is_none()
                    && let Some(with) = self.eat(TokenKind::With)
                {
                    head = Some((node, with));
                    continue;
                }
                let comma = self.eat(TokenKind::Comma).or_else(|| self.eat(TokenKind::Semicolon));
                entries.push(Entry { node, comma });
                if comma.is_none() {
                    break;
                }
            }
            let close = self.expect(closing)?;
            self.make(Shape::Brackets(Brackets { open, head, entries, close }), open)
        })
    }

    /// An entry in brackets: a part with what only stands there.
    fn entry(&mut self, kind: Kind) -> Read<NodeId> {
        // `..` at the end of a pattern of a record, `.. b` or `..` in an index.
        if self.peek() == TokenKind::DotDot {
            return self.range(Vec::new());
        }
        let is_section = is_operator(self.peek()) && self.peek() != TokenKind::Minus;
        if is_section || self.peek_next() == TokenKind::RightParen && is_operator(self.peek()) {
            let mut parts = vec![self.token()?];
            if self.peek() != TokenKind::RightParen {
                parts.push(self.part(kind)?);
            }
            return self.make_words(parts);
        }
        let node = self.part(kind)?;
        let first = self.first(node);
        match self.peek() {
            TokenKind::Equals => {
                let (mark, value) = (self.advance(), self.part(kind)?);
                self.make(Shape::Pair(node, mark, value), first)
            }
            TokenKind::Colon => {
                let (mark, ty) = (self.advance(), self.part(Kind::Type)?);
                let typed = self.make(Shape::Pair(node, mark, ty), first)?;
                self.alternatives(typed)
            }
            TokenKind::DotDot => self.range(vec![node]),
            TokenKind::For | TokenKind::Loop => {
                let mut clauses = Vec::new();
                loop {
                    clauses.push(match self.peek() {
                        TokenKind::For => self.dimensions()?,
                        TokenKind::If => {
                            let condition = vec![self.token()?, self.part(kind)?];
                            self.make_words(condition)?
                        }
                        TokenKind::Loop => self.accumulation()?,
                        _ => break,
                    });
                }
                self.make(Shape::Comprehension(node, clauses), first)
            }
            other if is_operator(other) => {
                let operator = self.token()?;
                self.make_words(vec![node, operator])
            }
            _ => Ok(node),
        }
    }

    /// The rest of `a .. b`, of which both may be missing in an index.
    fn range(&mut self, mut parts: Vec<NodeId>) -> Read<NodeId> {
        parts.push(self.token()?);
        if !matches!(self.peek(), TokenKind::Comma | TokenKind::RightBracket | TokenKind::RightBrace) {
            parts.push(self.part(Kind::Expr)?);
        }
        self.make_words(parts)
    }

    /// `for i < n`, or `for i < n, j < m` in a matrix.
    fn dimensions(&mut self) -> Read<NodeId> {
        let mut node = self.driver()?;
        let first = self.first(node);
        let mut dimensions = Vec::new();
        while let Some(comma) = self.eat(TokenKind::Comma) {
            dimensions.push(Entry { node, comma: Some(comma) });
            let words = self.generator(Vec::new())?;
            node = self.make_words(words)?;
        }
        if dimensions.is_empty() {
            return Ok(node);
        }
        dimensions.push(Entry { node, comma: None });
        self.make(Shape::Dimensions(dimensions), first)
    }

    /// The rest of `p : T | q : T`.
    fn alternatives(&mut self, first: NodeId) -> Read<NodeId> {
        let mut rest = Vec::new();
        while let Some(bar) = self.eat(TokenKind::Bar) {
            let mut next = self.part(Kind::Pattern)?;
            if let Some(colon) = self.eat(TokenKind::Colon) {
                let (token, ty) = (self.first(next), self.part(Kind::Type)?);
                next = self.make(Shape::Pair(next, colon, ty), token)?;
            }
            rest.push((bar, next));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let token = self.first(first);
        self.make(Shape::Chain(first, rest), token)
    }

    /// `let … in`, `if … then … else`, without recursion.
    fn steps(&mut self) -> Read<NodeId> {
        let first = TokenId::from_index(self.at);
        let mut steps = Vec::new();
        loop {
            steps.push(match self.peek() {
                TokenKind::Let => {
                    let mut equations = vec![self.equation(Vec::new(), Kind::Expr)?];
                    while self.peek() == TokenKind::AndAlso {
                        equations.push(self.equation(Vec::new(), Kind::Expr)?);
                    }
                    Step::Let(equations, self.expect(TokenKind::In)?)
                }
                TokenKind::If => Step::If {
                    if_token: self.advance(),
                    condition: self.part(Kind::Expr)?,
                    then_token: self.expect(TokenKind::Then)?,
                    value: self.part(Kind::Expr)?,
                    else_token: self.expect(TokenKind::Else)?,
                },
                _ => break,
            });
        }
        let last = self.part(Kind::Expr)?;
        self.make(Shape::Steps(steps, last), first)
    }

    fn accumulation(&mut self) -> Read<NodeId> {
        let start = self.equation(Vec::new(), Kind::Expr)?;
        let first = start.words[0];
        let driver = self.driver()?;
        let (do_token, body) = (self.expect(TokenKind::Do)?, self.part(Kind::Expr)?);
        self.make(Shape::Loop { start, driver, do_token, body }, first)
    }

    /// `for i < n`, `for i in a .. b`, `for x in xs`, `while e`.
    fn driver(&mut self) -> Read<NodeId> {
        let is_while = self.peek() == TokenKind::While;
        let mut parts = vec![self.token()?];
        if is_while {
            parts.push(self.part(Kind::Expr)?);
        } else {
            parts = self.generator(parts)?;
        }
        self.make_words(parts)
    }

    /// `i < n`, `i in a .. b` or `x in xs`, behind other words.
    fn generator(&mut self, mut parts: Vec<NodeId>) -> Read<Vec<NodeId>> {
        parts.push(self.postfix(Kind::Pattern)?);
        parts.push(match self.peek() {
            TokenKind::Less | TokenKind::In => self.token()?,
            _ => return self.unread(),
        });
        parts.push(self.part(Kind::Expr)?);
        if self.peek() == TokenKind::DotDot {
            parts.push(self.token()?);
            parts.push(self.part(Kind::Expr)?);
        }
        Ok(parts)
    }

    fn matching(&mut self) -> Read<NodeId> {
        let match_token = self.advance();
        let value = self.part(Kind::Expr)?;
        let with_token = self.expect(TokenKind::With)?;
        let mut arms = Vec::new();
        loop {
            let bar = self.eat(TokenKind::Bar);
            if bar.is_none() && !arms.is_empty() {
                break;
            }
            let pattern = self.part(Kind::Pattern)?;
            let guard = match self.eat(TokenKind::If) {
                Some(word) => Some((word, self.part(Kind::Expr)?)),
                None => None,
            };
            let (arrow, body) = (self.expect(TokenKind::Arrow)?, self.part(Kind::Expr)?);
            arms.push(Arm { bar, pattern, guard, arrow, body });
        }
        self.make(Shape::Match { match_token, value, with_token, arms }, match_token)
    }
}

/// Whether sections are made of a token.
fn is_operator(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Caret | TokenKind::Cons | TokenKind::Append) || binary_op(kind).is_some()
}

/// The bracket that closes the one here, if it is one.
fn closing(kind: TokenKind) -> Option<TokenKind> {
    match kind {
        TokenKind::LeftParen => Some(TokenKind::RightParen),
        TokenKind::LeftBracket => Some(TokenKind::RightBracket),
        TokenKind::LeftArray => Some(TokenKind::RightArray),
        TokenKind::LeftBrace => Some(TokenKind::RightBrace),
        _ => None,
    }
}
