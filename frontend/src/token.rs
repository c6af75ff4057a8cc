//! Tokens: what the lexer makes and the parser reads.

use crate::names::Name;
use crate::source::Span;
use std::fmt;

macro_rules! fixed_tokens {
    ($($text:literal $name:ident,)*) => {
        /// What a token is.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub(crate) enum TokenKind {
            /// A name that starts with a small letter or `_`.
            Lower(Name),
            /// A name that starts with a capital letter.
            Upper(Name),
            /// An integer literal; `-2⁶³` needs its absolute value.
            Int(u64),
            /// A real literal.
            Real(f64),
            /// A text in quotes, without values.
            Text(Name),
            /// The beginning of a text with values, up to the first: `"x = {`.
            TextStart(Name),
            /// What stands between two values of a text: `}, y = {`.
            TextNext(Name),
            /// The rest of a text after its last value: `}"`.
            TextEnd(Name),
            /// Characters that mean nothing, which was reported.
            Stray,
            /// The end of the text.
            End,
            $(#[doc = $text] $name,)*
        }

        impl TokenKind {
            /// The token's text, if it always has the same.
            fn fixed(self) -> Option<&'static str> {
                match self {
                    $(TokenKind::$name => Some($text),)*
                    _ => None,
                }
            }

            /// The keyword or symbol with this text.
            pub(crate) fn from_fixed(text: &str) -> Option<TokenKind> {
                match text {
                    $($text => Some(TokenKind::$name),)*
                    _ => None,
                }
            }
        }
    };
}

fixed_tokens! {
    "def" Def,
    "type" Type,
    "alias" Alias,
    "import" Import,
    "private" Private,
    "let" Let,
    "and" AndAlso,
    "in" In,
    "match" Match,
    "with" With,
    "if" If,
    "then" Then,
    "else" Else,
    "loop" Loop,
    "for" For,
    "while" While,
    "do" Do,
    "par" Par,
    "true" True,
    "false" False,
    "_" Underscore,
    "(" LeftParen,
    ")" RightParen,
    "[" LeftBracket,
    "]" RightBracket,
    "[|" LeftArray,
    "|]" RightArray,
    "{" LeftBrace,
    "}" RightBrace,
    "," Comma,
    ":" Colon,
    "=" Equals,
    ".." DotDot,
    "." Dot,
    "|" Bar,
    "->" Arrow,
    "\\" Backslash,
    "+" Plus,
    "-" Minus,
    "*" Star,
    "/" Slash,
    "%" Percent,
    "^" Caret,
    "==" EqualEqual,
    "!=" NotEqual,
    "<" Less,
    "<=" LessEqual,
    ">" Greater,
    ">=" GreaterEqual,
    "&&" And,
    "||" Or,
    "::" Cons,
    "++" Append,
    "|>" Pipe,
    "|*|" Beside,
    ">>" ComposeRight,
    "<<" ComposeLeft,
    "@" At,
    ";" Semicolon,
    ".+" DotPlus,
    ".-" DotMinus,
    ".*" DotStar,
    "./" DotSlash,
    "+." PlusDot,
    "-." MinusDot,
    "*." StarDot,
    "/." SlashDot,
}

impl TokenKind {
    /// The text of a keyword.
    pub(crate) fn keyword(self) -> Option<&'static str> {
        self.fixed().filter(|text| text.starts_with(|first: char| first.is_ascii_lowercase()))
    }

    /// Whether a declaration can't go on here.
    pub(crate) fn starts_declaration(self) -> bool {
        use TokenKind::{Alias, Def, End, Import, Private, Type};
        matches!(self, Def | Type | Alias | Import | Private | End)
    }
}

impl fmt::Display for TokenKind {
    /// Describes the token in a message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenKind::Lower(_) => write!(f, "a name"),
            TokenKind::Upper(_) => write!(f, "a capitalised name"),
            TokenKind::Int(_) | TokenKind::Real(_) => write!(f, "a number"),
            TokenKind::Text(_) | TokenKind::TextStart(_) => write!(f, "a text"),
            TokenKind::TextNext(_) | TokenKind::TextEnd(_) => write!(f, "the end of a value in a text"),
            TokenKind::Stray => write!(f, "a stray character"),
            TokenKind::End => write!(f, "the end of the file"),
            fixed => write!(f, "`{}`", fixed.fixed().unwrap_or_default()),
        }
    }
}

/// A token and its place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: TokenKind,
    /// Where it is.
    pub(crate) span: Span,
    /// Whether it directly follows the token before, without space: `a[i]` is an index, `a [i]` an argument.
    pub(crate) glued: bool,
    /// Whether it is the first on its line.
    pub(crate) first: bool,
}
