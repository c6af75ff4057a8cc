//! Cutting a text into tokens.

use super::grammar::{continues_word, starts_word};

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A keyword, mnemonic, register, label or name.
    Word,
    /// Something that starts like a number.
    Number,
    /// A string with its quotes; whether its escapes are good shows when it is read.
    Quoted,
    /// One of `(){}[],:=@|`.
    Mark,
    /// `->`.
    Arrow,
    /// Anything else: one character, or a string without an end.
    Unknown,
    /// The end of the text.
    End,
}

/// A token and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    /// The byte that it starts at.
    pub(super) at: usize,
    /// Whether it is the first of its line.
    pub(super) starts_line: bool,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }

    pub(super) fn is(&self, mark: &str) -> bool {
        matches!(self.kind, Kind::Mark | Kind::Word | Kind::Arrow) && self.text == mark
    }
}

/// All tokens of a text. The last one is an [`Kind::End`].
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut at = 0;
    let mut starts_line = true;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c == '\n' {
            starts_line = true;
            at += 1;
        } else if c.is_whitespace() {
            at += c.len_utf8();
        } else if c == ';' {
            at += rest.find('\n').unwrap_or(rest.len());
        } else {
            let (kind, len) = token(rest, c);
            out.push(Token { kind, text: &rest[..len], at, starts_line });
            starts_line = false;
            at += len;
        }
    }
    out.push(Token { kind: Kind::End, text: "", at: text.len(), starts_line: true });
    out
}

/// Kind and length of the token that a text starts with; `first` is its first character.
fn token(rest: &str, first: char) -> (Kind, usize) {
    let after = |skip: usize, more: fn(char) -> bool| rest[skip..].find(|c| !more(c)).map_or(rest.len(), |n| n + skip);
    match first {
        c if starts_word(c) => (Kind::Word, after(1, continues_word)),
        '0'..='9' => (Kind::Number, number(rest, 0)),
        '-' if rest[1..].starts_with('>') => (Kind::Arrow, 2),
        '-' if rest[1..].starts_with(|c: char| c.is_ascii_alphanumeric()) => (Kind::Number, number(rest, 1)),
        '(' | ')' | '{' | '}' | '[' | ']' | ',' | ':' | '=' | '@' | '|' => (Kind::Mark, 1),
        '"' => quoted(rest),
        c => (Kind::Unknown, c.len_utf8()),
    }
}

/// The length of a number, `from` its first digit on: letters and digits, a point, and a sign after an exponent's `e`.
fn number(rest: &str, from: usize) -> usize {
    let bytes = rest.as_bytes();
    let hex = rest[from..].starts_with("0x");
    let mut end = from;
    while let Some(&byte) = bytes.get(end) {
        let after_exponent = !hex && end > from && matches!(bytes[end - 1], b'e' | b'E');
        let belongs = match byte {
            b'+' | b'-' => after_exponent,
            _ => byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_',
        };
        if !belongs {
            break;
        }
        end += 1;
    }
    end
}

/// A string ends at a quote that no backslash escapes, on the same line.
fn quoted(rest: &str) -> (Kind, usize) {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return (Kind::Unknown, at),
            '"' if !escaped => return (Kind::Quoted, at + 1),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    (Kind::Unknown, rest.len())
}

/// What a string between quotes means, or the byte range of an escape in the token that means nothing.
pub(super) fn unescape(token: &str) -> Result<String, (usize, usize)> {
    let mut out = String::with_capacity(token.len());
    let inner = &token[1..token.len() - 1];
    let mut at = 0;
    while let Some(c) = inner[at..].chars().next() {
        let rest = &inner[at..];
        if c != '\\' {
            out.push(c);
            at += c.len_utf8();
            continue;
        }
        let (meaning, len) = escape(rest).ok_or_else(|| {
            let len = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            (at + 1, at + 1 + len)
        })?;
        out.push(meaning);
        at += len;
    }
    Ok(out)
}

/// The character that an escape at the start of a text means, and the escape's length.
fn escape(rest: &str) -> Option<(char, usize)> {
    let simple = |c| Some((c, 2));
    match rest[1..].chars().next()? {
        '"' => simple('"'),
        '\\' => simple('\\'),
        'n' => simple('\n'),
        't' => simple('\t'),
        'r' => simple('\r'),
        'u' => {
            let digits = rest[2..].strip_prefix('{')?.split_once('}')?.0;
            let plain = digits.len() <= 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| plain)?;
            Some((char::from_u32(code)?, digits.len() + 4))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_arrows_and_strings_are_told_apart() {
        let kinds: Vec<(Kind, &str)> =
            tokens("-1e-5->x -inf \"a\\\"b\" 0x1e-2").iter().map(|token| (token.kind, token.text)).collect();
        let expected = [
            (Kind::Number, "-1e-5"),
            (Kind::Arrow, "->"),
            (Kind::Word, "x"),
            (Kind::Number, "-inf"),
            (Kind::Quoted, "\"a\\\"b\""),
            (Kind::Number, "0x1e"),
            (Kind::Number, "-2"),
            (Kind::End, ""),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn escapes_are_read_and_bad_ones_located() {
        assert_eq!(unescape(r#""a\n\u{3bb}\\""#), Ok("a\nλ\\".into()));
        assert_eq!(unescape(r#""a\q""#), Err((2, 4)));
        assert_eq!(unescape(r#""\u{110000}""#), Err((1, 3)));
    }
}
