//! Text to tokens. Owns what a name, a number and a symbol look like; reports what is none of them and goes on.

use crate::diagnostics::{Diagnostic, Sink};
use crate::limits::{Count, Meter};
use crate::names::Names;
use crate::source::{SOURCE_BYTES_MAX, Span};
use crate::token::{Token, TokenKind};

/// Names are no longer than this: they are part of messages.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Numbers are no longer than this. The longest one without needless digits has 1,079 characters.
const NUMBER_BYTES_MAX: usize = 10_000;
/// Texts are no longer than this, as strings of modules.
const TEXT_BYTES_MAX: usize = dualvm_vm::verify::limits::STRING_BYTES_MAX;
/// Bytes of white space, names and texts that are one step for the meter.
const BYTES_PER_STEP: usize = 256;

/// Splits a text into tokens; the last one is [`TokenKind::End`]. Spans count from `start`.
pub(crate) fn lex(text: &str, start: u32, names: &mut Names, sink: &mut Sink, meter: &Meter) -> Vec<Token> {
    if text.len() > SOURCE_BYTES_MAX {
        sink.push(Diagnostic::error(Span::default(), "the file is longer than 2 GiB"));
        return vec![Token { kind: TokenKind::End, span: Span::default(), glued: false, first: true }];
    }
    // A byte order mark is no part of the program.
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut lexer = Lexer { text, start, at, names, sink, meter, tokens: Vec::new(), first: true, values: Vec::new() };
    lexer.run();
    lexer.tokens
}

struct Lexer<'t> {
    text: &'t str,
    start: u32,
    at: usize,
    names: &'t mut Names,
    sink: &'t mut Sink,
    meter: &'t Meter,
    tokens: Vec<Token>,
    /// Whether a line began after the last token.
    first: bool,
    /// The values of texts that are open here, each in a text in the one before.
    values: Vec<OpenValue>,
}

/// A value in a text that has begun.
struct OpenValue {
    /// Where its brace stands.
    brace: usize,
    /// The token before it, which ends with the brace.
    token: usize,
    /// Braces in it that are open.
    braces: u32,
}

/// What a piece of a text ends with.
enum PieceEnd {
    Text,
    Value,
}

/// What is to be done about braces that are out of place.
const BRACES: &str = "a value in a text is written `{x}`, a brace `{{` or `}}`";

impl Lexer<'_> {
    fn run(&mut self) {
        loop {
            let glued = !self.skip_space();
            let start = self.at;
            let first = self.peek(0).filter(|_| self.meter.go_on());
            // A text with its values stands on one line.
            while !self.values.is_empty() && (self.first || first.is_none()) {
                self.unfinished_value();
            }
            let Some(first) = first else {
                self.push(TokenKind::End, start, glued);
                return;
            };
            match first {
                b'{' | b'}' if let Some(value) = self.values.last_mut() => {
                    match (first, value.braces) {
                        (b'{', _) => value.braces += 1,
                        (_, 0) => {
                            self.values.pop();
                            self.at += 1;
                            self.piece(start, glued, false);
                            continue;
                        }
                        _ => value.braces -= 1,
                    }
                    self.symbol(glued);
                }
                b'0'..=b'9' => self.number(glued),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(glued),
                _ if self.text[start..].starts_with(char::is_alphabetic) => self.word(glued),
                b'"' => self.text(glued),
                _ => self.symbol(glued),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn push(&mut self, kind: TokenKind, start: usize, glued: bool) {
        let span = self.span_from(start);
        self.meter.node(Count::Syntax, span);
        self.meter.steps((self.at - start) / BYTES_PER_STEP);
        let first = std::mem::take(&mut self.first);
        self.tokens.push(Token { kind, span, glued, first });
    }

    fn error(&mut self, start: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.span_from(start), message)
    }

    fn span_from(&self, start: usize) -> Span {
        Span::new(self.start + start as u32, self.start + self.at as u32)
    }

    /// Skips white space and comments; whether there were any, or the text starts here.
    fn skip_space(&mut self) -> bool {
        let start = self.at;
        loop {
            self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
            if self.peek(0) == Some(b'{') && self.peek(1) == Some(b'-') {
                self.skip_block();
                continue;
            }
            if self.peek(0) != Some(b'-') || self.peek(1) != Some(b'-') {
                self.first |= self.text.as_bytes()[start..self.at].contains(&b'\n');
                self.meter.steps((self.at - start) / BYTES_PER_STEP);
                return self.at > start || start == 0;
            }
            self.at = self.text[self.at..].find('\n').map_or(self.text.len(), |end| self.at + end);
        }
    }

    /// Skips a comment `{- … -}`.
    fn skip_block(&mut self) {
        let open = Span::new(self.start + self.at as u32, self.start + self.at as u32 + 2);
        self.at = block_comment_end(self.text, self.at).unwrap_or_else(|| {
            self.sink.push(Diagnostic::error(open, "this comment has no end").label("expected `-}` after it"));
            self.text.len()
        });
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|&byte| !accept(byte)).unwrap_or(rest.len());
    }

    fn word(&mut self, glued: bool) {
        let start = self.at;
        let rest = &self.text[start..];
        self.at = start + rest.find(|c: char| !is_name_part(c)).unwrap_or(rest.len());
        let mut text = &self.text[start..self.at];
        if text.len() > NAME_BYTES_MAX {
            let error = self.error(start, "this name is too long").label(format!("more than {NAME_BYTES_MAX} letters"));
            self.sink.push(error);
            text = &text[..text.floor_char_boundary(NAME_BYTES_MAX)];
        }
        let kind = TokenKind::from_fixed(text).unwrap_or_else(|| {
            let name = self.names.intern(text);
            if text.starts_with(char::is_uppercase) { TokenKind::Upper(name) } else { TokenKind::Lower(name) }
        });
        self.push(kind, start, glued);
    }

    /// The base of the number that begins here, if it says one: `0x` and `0b` say 16 and 2.
    fn base(&self) -> Option<u32> {
        let base = match (self.peek(0)?, self.peek(1)?) {
            (b'0', b'x') => 16,
            (b'0', b'o') => 8,
            (b'0', b'b') => 2,
            _ => return None,
        };
        self.peek(2).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(base)
    }

    /// An integer to this base, from its prefix on.
    fn based_number(&mut self, base: u32, glued: bool) {
        let start = self.at;
        self.at += 2;
        let first = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let digits = &self.text[first..self.at];
        if self.at - start > NUMBER_BYTES_MAX {
            return self.long_number(start, glued);
        }
        if digits.starts_with('_') || digits.ends_with('_') {
            let error = self.error(start, "an underscore in a number stands between digits");
            self.sink.push(error.help("write `0xff_ff`, `0b1_0000`"));
            return self.push(TokenKind::Int(0), start, glued);
        }
        let text: String = digits.chars().filter(|&c| c != '_').collect();
        let value = match text.chars().find(|digit| !digit.is_digit(base)) {
            Some(wrong) => {
                let error = self.error(start, format!("`{wrong}` is no digit of a number to base {base}"));
                self.sink.push(error.help("hexadecimal numbers begin with `0x`, octal with `0o`, binary with `0b`"));
                0
            }
            None => u64::from_str_radix(&text, base).unwrap_or_else(|_| {
                let error = self.out_of_range(start);
                self.sink.push(error);
                0
            }),
        };
        self.push(TokenKind::Int(value), start, glued);
    }

    fn long_number(&mut self, start: usize, glued: bool) {
        let error = self.error(start, "this number is too long");
        self.sink.push(error.label(format!("more than {NUMBER_BYTES_MAX} characters")));
        self.push(TokenKind::Int(0), start, glued);
    }

    fn out_of_range(&mut self, start: usize) -> Diagnostic {
        let error = self.error(start, "integer literal out of range");
        error.label(format!("the largest `Int` is {}", i64::MAX))
    }

    fn number(&mut self, glued: bool) {
        if let Some(base) = self.base() {
            return self.based_number(base, glued);
        }
        let start = self.at;
        let digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
        self.skip_while(digit);
        let mut real = false;
        if self.peek(0) == Some(b'.') && self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) {
            real = true;
            self.at += 1;
            self.skip_while(digit);
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self.peek(1 + sign).is_some_and(|byte| byte.is_ascii_digit()) {
                real = true;
                self.at += 1 + sign;
                self.skip_while(digit);
            }
        }
        if self.at - start > NUMBER_BYTES_MAX {
            return self.long_number(start, glued);
        }
        let mut digits = self.text[start..self.at].split(['.', 'e', 'E', '+', '-']);
        if digits.any(|digits| digits.starts_with('_') || digits.ends_with('_')) {
            let error = self.error(start, "an underscore in a number stands between digits");
            self.sink.push(error.help("write `1_000`, `0.000_001`"));
        }
        let text: String = self.text[start..self.at].chars().filter(|&c| c != '_').collect();
        let kind = if real {
            let value: f64 = text.parse().expect("digits with a dot or an exponent are a float");
            if value.is_infinite() {
                let error = self.error(start, "this number is too large for a `Real`");
                let error = error.label(format!("the largest is {:?}", f64::MAX));
                self.sink.push(error.help("write `infinity` for infinity"));
            }
            TokenKind::Real(value)
        } else {
            TokenKind::Int(text.parse().unwrap_or_else(|_| {
                let error = self.out_of_range(start);
                self.sink.push(error.help("write it with a dot or an exponent to make it a `Real`: `1e20`"));
                0
            }))
        };
        self.push(kind, start, glued);
        if !real && self.peek(0) == Some(b'.') && self.peek(1) != Some(b'.') {
            self.at += 1;
            let error = self.error(start, "a real literal needs a digit after the dot");
            self.sink.push(error.help(format!("write `{text}.0`")));
        }
    }

    /// A text in quotes, on one line.
    fn text(&mut self, glued: bool) {
        let start = self.at;
        self.at += 1;
        self.piece(start, glued, true);
    }

    /// A text from its quote or from the end of a value on, up to its end or to the next value. `\"`, `\\` and `\n`
    /// stand for a quote, a backslash and a new line, `{{` and `}}` for braces.
    fn piece(&mut self, start: usize, glued: bool, is_first: bool) {
        let mut value = String::new();
        let end = loop {
            let plain = self.at;
            self.skip_while(|byte| !matches!(byte, b'"' | b'\\' | b'\n' | b'{' | b'}'));
            value.push_str(&self.text[plain..self.at]);
            match (self.peek(0), self.peek(1)) {
                (Some(b'"'), _) => {
                    self.at += 1;
                    break PieceEnd::Text;
                }
                (Some(brace @ (b'{' | b'}')), Some(other)) if brace == other => {
                    value.push(char::from(brace));
                    self.at += 2;
                }
                (Some(b'{'), _) => {
                    self.at += 1;
                    break PieceEnd::Value;
                }
                (Some(b'}'), _) => {
                    self.at += 1;
                    let error = self.error(self.at - 1, "this brace closes nothing");
                    self.sink.push(error.label("no value begins before it").help(BRACES));
                }
                (Some(b'\\'), escaped) if self.meter.step(self.span_from(self.at)) => {
                    self.at += 1;
                    match escaped {
                        Some(b'n') => value.push('\n'),
                        Some(byte @ (b'"' | b'\\')) => value.push(char::from(byte)),
                        _ => {
                            let error = self.error(self.at - 1, "unknown escape in a text");
                            self.sink.push(error.help("the escapes are `\\n`, `\\\"` and `\\\\`"));
                            continue;
                        }
                    }
                    self.at += 1;
                }
                // What looks like a text in a value is the end of the text around it.
                _ if is_first && !self.values.is_empty() => {
                    self.at = start + 1;
                    return self.unfinished_value();
                }
                _ => {
                    let error = self.error(start, "this text has no end").label("expected `\"` on the same line");
                    self.sink.push(error);
                    break PieceEnd::Text;
                }
            }
        };
        if value.len() > TEXT_BYTES_MAX {
            let error = self.error(start, "this text is too long");
            self.sink.push(error.label(format!("{} bytes, at most {TEXT_BYTES_MAX} fit", value.len())));
        }
        let name = self.names.intern(&value);
        if let PieceEnd::Value = end {
            self.values.push(OpenValue { brace: self.at - 1, token: self.tokens.len(), braces: 0 });
        }
        let kind = match (is_first, end) {
            (true, PieceEnd::Text) => TokenKind::Text(name),
            (true, PieceEnd::Value) => TokenKind::TextStart(name),
            (false, PieceEnd::Value) => TokenKind::TextNext(name),
            (false, PieceEnd::Text) => TokenKind::TextEnd(name),
        };
        self.push(kind, start, glued);
    }

    /// Reports that the value has no end in which the text goes on. The text is taken to end there, without the value.
    fn unfinished_value(&mut self) {
        let Some(OpenValue { brace, token, .. }) = self.values.pop() else { return };
        let span = Span::new(self.start + brace as u32, self.start + brace as u32 + 1);
        let error = Diagnostic::error(span, "this value in a text has no end").label("expected `}` on the same line");
        self.sink.push(error.help(BRACES));
        self.tokens.truncate(token + 1);
        if let Some(last) = self.tokens.last_mut() {
            last.kind = match last.kind {
                TokenKind::TextStart(text) => TokenKind::Text(text),
                TokenKind::TextNext(text) => TokenKind::TextEnd(text),
                other => other,
            };
        }
    }

    fn symbol(&mut self, glued: bool) {
        let start = self.at;
        for len in [3, 2, 1] {
            let Some(text) = self.text.get(start..start + len) else { continue };
            if let Some(kind) = TokenKind::from_fixed(text) {
                self.at += len;
                self.push(kind, start, glued);
                return;
            }
        }
        let unknown = self.text[start..].chars().next().expect("the caller saw a byte here");
        self.at += unknown.len_utf8();
        // One report for a run of the same character, so that a line of them is one mistake.
        while self.text[self.at..].starts_with(unknown) {
            self.at += unknown.len_utf8();
        }
        let error = self.error(start, format!("unexpected character `{unknown}`"));
        if let Some((_, typed)) = TYPESET.iter().find(|(characters, _)| characters.contains(unknown)) {
            self.sink.push(error.help(format!("write `{typed}`")));
            return self.push(TokenKind::from_fixed(typed).unwrap_or(TokenKind::Stray), start, glued);
        }
        self.sink.push(match unknown {
            '!' => error.help("negation is `not`, inequality is `!=`"),
            '&' => error.help("logical and is `&&`, that of bits `bit_and a b`"),
            '~' => error.help("negation is `not`, that of bits `bit_not a`"),
            _ if is_exponent(unknown) => error.help("a power is written `x ^ 2`"),
            '?' => error.help("a choice is written `if condition then a else b`"),
            '#' => error.help("comments start with `--`"),
            '$' => error.help("an argument follows its function: `f (g x)`; or it stands before it: `g x |> f`"),
            '\'' => error.help("a text stands in double quotes; a type variable is a small letter"),
            _ => error,
        });
        self.push(TokenKind::Stray, start, glued);
    }
}

/// Characters of typeset text, and what is typed instead.
const TYPESET: [(&str, &str); 9] = [
    ("\u{2010}\u{2011}\u{2012}–—−", "-"),
    ("×·∙⋅", "*"),
    ("÷∕", "/"),
    ("≤", "<="),
    ("≥", ">="),
    ("≠", "!="),
    ("→", "->"),
    ("“”„", "\""),
    ("∞", "infinity"),
];

/// The byte after the comment `{- … -}` that begins at a place, which may have others in it. Nothing if it has no end.
pub(crate) fn block_comment_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (start, 0u32);
    loop {
        at += bytes[at..].iter().position(|byte| matches!(byte, b'{' | b'-'))?;
        match (bytes[at], bytes.get(at + 1)?) {
            (b'{', b'-') => depth += 1,
            (b'-', b'}') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Whether a name may have this character in it, though not always at its beginning.
pub(crate) fn is_name_part(c: char) -> bool {
    (c.is_alphanumeric() || c == '_' || c == '\'') && !is_exponent(c)
}

/// Whether a character is a raised digit, which would be taken for a power.
fn is_exponent(c: char) -> bool {
    matches!(c, '¹' | '²' | '³' | '⁰'..='⁹')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<TokenKind>, bool) {
        let mut sink = Sink::default();
        let tokens = lex(text, 0, &mut Names::default(), &mut sink, &Meter::unlimited());
        (tokens.iter().map(|token| token.kind).collect(), sink.has_errors())
    }

    #[test]
    fn numbers_with_dot_or_exponent_are_real() {
        use TokenKind::{DotDot, End, Int, Real};
        assert_eq!(
            kinds("1 1.5 1e-12 1_000 2.5E3"),
            (vec![Int(1), Real(1.5), Real(1e-12), Int(1000), Real(2500.0), End], false)
        );
        assert_eq!(kinds("0..3"), (vec![Int(0), DotDot, Int(3), End], false));
    }

    #[test]
    fn prefixes_say_the_base() {
        use TokenKind::{DotDot, End, Int, Lower, Real};
        let large = 0x7fff_ffff_ffff_ffff;
        assert_eq!(
            kinds("0xff 0b1010 0o17 0xDead_Beef 0x7fff_ffff_ffff_ffff 0b0..0x2"),
            ([255, 10, 15, 0xdead_beef, large, 0].map(Int).into_iter().chain([DotDot, Int(2), End]).collect(), false)
        );
        // Without a digit behind it the letter is a name.
        assert!(matches!(kinds("0x 0.5").0[..], [Int(0), Lower(_), Real(0.5), End]));
        for text in ["0b12", "0o8", "0xfg", "0x1_", "0x_1", "0x1ffffffffffffffff"] {
            assert!(kinds(text).1, "{text}");
        }
    }

    #[test]
    fn underscores_stand_between_digits() {
        for text in ["1_000", "1_0.0_1", "1e1_0", "1.5e-1_0", "1__0", "0xff_ff"] {
            assert!(!kinds(text).1, "{text}");
        }
        for text in ["1_", "1_.5", "1.5_", "1e5_", "1_e5", "1_..3"] {
            assert!(kinds(text).1, "{text}");
        }
    }

    #[test]
    fn comments_run_to_the_end_of_the_line() {
        assert_eq!(kinds("1 -- 2 # é\n3").0, vec![TokenKind::Int(1), TokenKind::Int(3), TokenKind::End]);
    }

    #[test]
    fn comments_in_braces_nest() {
        use TokenKind::{End, Int, LeftBrace, Minus, RightBrace};
        assert_eq!(kinds("1 {- 2 {- 3 -} - {4} -} 5{--}6"), (vec![Int(1), Int(5), Int(6), End], false));
        assert_eq!(kinds("{ - 1 }"), (vec![LeftBrace, Minus, Int(1), RightBrace, End], false));
        assert!(kinds("1 {- {- -}").1 && kinds("{-").1 && kinds("{-}").1);
    }

    #[test]
    fn names_have_letters_of_any_alphabet() {
        let mut names = Names::default();
        let tokens = lex("σ₂ Δx été' ψ_1 Ω 中", 0, &mut names, &mut Sink::default(), &Meter::unlimited());
        let shown = |token: &Token| match token.kind {
            TokenKind::Lower(name) => format!("lower {}", names.text(name)),
            TokenKind::Upper(name) => format!("upper {}", names.text(name)),
            other => other.to_string(),
        };
        let shown: Vec<String> = tokens.iter().map(shown).collect();
        let last = "the end of the file";
        assert_eq!(shown, ["lower σ₂", "upper Δx", "lower été'", "lower ψ_1", "upper Ω", "lower 中", last]);
    }

    #[test]
    fn a_bracket_knows_whether_it_follows_directly() {
        let tokens = lex("a[0] a [0]", 0, &mut Names::default(), &mut Sink::default(), &Meter::unlimited());
        let glued: Vec<bool> =
            tokens.iter().filter(|token| token.kind == TokenKind::LeftBracket).map(|token| token.glued).collect();
        assert_eq!(glued, [true, false]);
    }

    #[test]
    fn strange_characters_are_reported_once() {
        let mut sink = Sink::default();
        lex("???? §", 0, &mut Names::default(), &mut sink, &Meter::unlimited());
        assert!(sink.has_errors());
        assert!(kinds("99999999999999999999").1);
        assert!(kinds("1.").1);
    }
}
