//! The prelude: definitions in the language itself that every program knows. Its sources are part of the compiler.
//!
//! Of its definitions a compilation reads only those that it may need: what the program's names mean, and in turn what
//! the names in their texts mean. Where each stands in the sources is found when the compiler is built.

use crate::arena::Id;
use crate::builtins::Builtin;
use crate::diagnostics::Sink;
use crate::lexer::lex;
use crate::limits::Meter;
use crate::names::{Name, Names};
use crate::source::{Source, Span};
use crate::token::{Token, TokenKind};
use crate::types::Kind;
use std::sync::LazyLock;

/// The files, in the order of the documentation.
pub(crate) const FILES: [&str; 7] = [
    include_str!("../prelude/collections.dual"),
    include_str!("../prelude/arrays.dual"),
    include_str!("../prelude/parallel.dual"),
    include_str!("../prelude/derivatives.dual"),
    include_str!("../prelude/maths.dual"),
    include_str!("../prelude/functions.dual"),
    include_str!("../prelude/maybe.dual"),
];

/// The names that messages have for the files.
pub(crate) const FILE_NAMES: [&str; FILES.len()] = [
    "prelude/collections.dual",
    "prelude/arrays.dual",
    "prelude/parallel.dual",
    "prelude/derivatives.dual",
    "prelude/maths.dual",
    "prelude/functions.dual",
    "prelude/maybe.dual",
];

/// The files with the tables of their lines.
static SOURCES: LazyLock<[Source; FILES.len()]> =
    LazyLock::new(|| std::array::from_fn(|file| Source::new(FILE_NAMES[file], FILES[file])));

/// A definition that syntax stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Implied {
    /// `xs ++ ys`.
    Append,
    /// `loop … for x in list`.
    Fold,
    /// `[| … for x in list |]`, which runs over an array.
    ToArray,
    /// `xs[i]` of a list.
    Element,
    /// `m[i, j]`.
    Element2,
    /// `t[i, j, k]`.
    Element3,
    /// `t[i, j, k, l]`.
    Element4,
    /// `xs[i .. j]`.
    Slice,
    /// `xs[i ..]`.
    SliceFrom,
    /// The index of `m[i, ..]`.
    CheckIndex,
    /// The bounds of `m[i .. j, k .. l]`.
    CheckRange,
    /// The size of what takes the place of `m[i .. j]`.
    CheckPart,
    /// `{ xs with [i] = e }`.
    Replace,
    /// `{ m with [i, j] = e }`.
    Replace2,
    /// `{ t with [i, j, k] = e }`.
    Replace3,
    /// `{ t with [i, j, k, l] = e }`.
    Replace4,
    /// `xs + ys` of arrays.
    Elementwise,
    /// `xs .+ y`, `x +. ys` and `-xs` of arrays.
    Map,
    /// `[e for …]`.
    ToList,
    /// `-xs` of an array.
    Negate,
    /// How much room `[| e for i < n, j < m |]` takes.
    Room,
    /// `x % y` of reals.
    Remainder,
}

impl Implied {
    /// All of them.
    pub(crate) const ALL: [Implied; 22] = [
        Implied::Append,
        Implied::Fold,
        Implied::ToArray,
        Implied::Element,
        Implied::Element2,
        Implied::Element3,
        Implied::Element4,
        Implied::Slice,
        Implied::SliceFrom,
        Implied::CheckIndex,
        Implied::CheckRange,
        Implied::CheckPart,
        Implied::Replace,
        Implied::Replace2,
        Implied::Replace3,
        Implied::Replace4,
        Implied::Elementwise,
        Implied::Map,
        Implied::ToList,
        Implied::Negate,
        Implied::Room,
        Implied::Remainder,
    ];

    /// The name of the definition.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Implied::Append => "append",
            Implied::Fold => "fold_list",
            Implied::ToArray => "to_array_list",
            Implied::Element => "element_list",
            Implied::Element2 => "element_2",
            Implied::Element3 => "element_3",
            Implied::Element4 => "element_4",
            Implied::Slice => "slice",
            Implied::SliceFrom => "slice_from",
            Implied::CheckIndex => "check_index",
            Implied::CheckRange => "check_range",
            Implied::CheckPart => "check_part",
            Implied::Replace => "replace",
            Implied::Replace2 => "replace_2",
            Implied::Replace3 => "replace_3",
            Implied::Replace4 => "replace_4",
            Implied::Elementwise => "elementwise",
            Implied::Map => "map",
            Implied::ToList => "to_list_array",
            Implied::Negate => "negate_elements",
            Implied::Room => "room",
            Implied::Remainder => "remainder",
        }
    }

    /// What the first of some tokens may stand for, which the others follow, besides what any program with collections
    /// may need.
    fn of(tokens: &[Token]) -> &'static [Implied] {
        match tokens {
            [Token { kind: TokenKind::Append, .. }, ..] => &[Implied::Append],
            [Token { kind: TokenKind::Percent, .. }, ..] => &[Implied::Remainder],
            // `for i < n` stands for nothing.
            [Token { kind: TokenKind::For, .. }, _, Token { kind: TokenKind::Less, .. }, ..] => &[],
            [Token { kind: TokenKind::For, .. }, ..] => &[Implied::Fold, Implied::ToArray],
            [Token { kind: TokenKind::LeftBracket, glued: true, .. }, ..] => {
                &[Implied::Element, Implied::Element2, Implied::Element3, Implied::Element4]
            }
            [Token { kind: TokenKind::DotDot, .. }, ..] => {
                &[Implied::Slice, Implied::SliceFrom, Implied::CheckIndex, Implied::CheckRange, Implied::CheckPart]
            }
            [Token { kind: TokenKind::With, .. }, Token { kind: TokenKind::LeftBracket, .. }, ..] => {
                &[Implied::Replace, Implied::Replace2, Implied::Replace3, Implied::Replace4]
            }
            _ => &[],
        }
    }

    /// What a program may need if it has collections: arithmetic may be that of arrays.
    const OF_COLLECTIONS: [Implied; 5] =
        [Implied::Elementwise, Implied::Map, Implied::ToList, Implied::Negate, Implied::Room];
}

/// The definitions that take derivatives.
pub(crate) const DERIVATIVES: [&str; 6] = ["derivative", "grad", "vjp", "hvp", "jacobian", "hessian"];

/// Where a declaration stands. In every file a declaration is the end of a paragraph, after its comment.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The file's number.
    file: usize,
    /// The bytes of the declaration in the file.
    start: usize,
    end: usize,
    /// The bytes of its name in the file.
    name: (usize, usize),
}

impl Place {
    const NOWHERE: Place = Place { file: 0, start: 0, end: 0, name: (0, 0) };

    fn name(&self) -> &'static str {
        &FILES[self.file][self.name.0..self.name.1]
    }
}

const DEF: &[u8] = b"def ";
/// What other definitions of the prelude use, and programs don't see.
const PRIVATE: &[u8] = b"private def ";
const DEFS_BEGIN: &[&[u8]] = &[DEF, PRIVATE];
const TYPES_BEGIN: &[&[u8]] = &[b"type "];

/// All definitions, sorted by name.
static DEFS: [Place; count(DEFS_BEGIN)] = sorted(places(DEFS_BEGIN));
/// All types, in the order of the files.
static TYPES: [Place; count(TYPES_BEGIN)] = places(TYPES_BEGIN);

/// Whether a line starts at a place, with these bytes.
const fn starts_line(text: &[u8], at: usize, with: &[u8]) -> bool {
    if at > 0 && text[at - 1] != b'\n' || text.len() - at < with.len() {
        return false;
    }
    let mut i = 0;
    while i < with.len() {
        if text[at + i] != with[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// How many bytes the first of some beginnings has that a line starts with at a place; 0 if it starts with none.
const fn begins(text: &[u8], at: usize, beginnings: &[&[u8]]) -> usize {
    let mut i = 0;
    while i < beginnings.len() {
        if starts_line(text, at, beginnings[i]) {
            return beginnings[i].len();
        }
        i += 1;
    }
    0
}

/// How many lines start with one of some beginnings.
const fn count(beginnings: &[&[u8]]) -> usize {
    let (mut file, mut count) = (0, 0);
    while file < FILES.len() {
        let text = FILES[file].as_bytes();
        let mut at = 0;
        while at < text.len() {
            count += (begins(text, at, beginnings) > 0) as usize;
            at += 1;
        }
        file += 1;
    }
    count
}

/// The declarations that start with one of some beginnings.
const fn places<const N: usize>(beginnings: &[&[u8]]) -> [Place; N] {
    let mut places = [Place::NOWHERE; N];
    let (mut file, mut found) = (0, 0);
    while file < FILES.len() {
        let text = FILES[file].as_bytes();
        let mut at = 0;
        while at < text.len() {
            let begins = begins(text, at, beginnings);
            if begins > 0 {
                let first = at + begins;
                let mut last = first;
                while text[last] != b' ' {
                    last += 1;
                }
                let mut end = last;
                while end < text.len() && !starts_line(text, end, b"\n") {
                    end += 1;
                }
                places[found] = Place { file, start: at, end, name: (first, last) };
                found += 1;
                at = end;
            } else {
                at += 1;
            }
        }
        file += 1;
    }
    places
}

const fn sorted<const N: usize>(mut places: [Place; N]) -> [Place; N] {
    let mut i = 1;
    while i < N {
        let mut at = i;
        while at > 0 && is_before(&places[at], &places[at - 1]) {
            (places[at], places[at - 1]) = (places[at - 1], places[at]);
            at -= 1;
        }
        i += 1;
    }
    places
}

/// Whether a name comes before another one, byte by byte.
const fn is_before(left: &Place, right: &Place) -> bool {
    let (a, b) = (FILES[left.file].as_bytes(), FILES[right.file].as_bytes());
    let (mut i, mut j) = (left.name.0, right.name.0);
    while i < left.name.1 && j < right.name.1 {
        if a[i] != b[j] {
            return a[i] < b[j];
        }
        i += 1;
        j += 1;
    }
    j < right.name.1
}

/// The names of all definitions that programs see.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let is_public = |place: &&Place| starts_line(FILES[place.file].as_bytes(), place.start, DEF);
    DEFS.iter().filter(is_public).map(Place::name)
}

/// Whether every program knows something by this name, which no module exports: a builtin or a definition of the
/// prelude.
///
/// ```
/// assert!(dualvm_frontend::is_predefined("sin") && dualvm_frontend::is_predefined("sum"));
/// assert!(!dualvm_frontend::is_predefined("main"));
/// ```
pub fn is_predefined(name: &str) -> bool {
    Builtin::all().map(|(known, _)| known).chain(names()).any(|known| known == name)
}

fn position_of(name: &str) -> Option<usize> {
    DEFS.binary_search_by(|place| place.name().cmp(name)).ok()
}

/// The tokens of the types and of all definitions that the tokens of a program may mention, in the order of the files.
/// A name may also be the program's own. Spans count from `start`.
pub(crate) fn lex_needed<'t>(
    program: impl Iterator<Item = &'t [Token]>,
    start: u32,
    names: &mut Names,
    sink: &mut Sink,
    meter: &Meter,
) -> Vec<Token> {
    let mut needed: [Option<Vec<Token>>; DEFS.len()] = [const { None }; DEFS.len()];
    let mut pending: Vec<usize> = Vec::new();
    let (mut has_collections, mut has_all) = (false, false);
    for tokens in program {
        pending.extend(implied_in(tokens));
        has_collections |= tokens.iter().any(|token| match token.kind {
            TokenKind::LeftArray | TokenKind::LeftBracket => true,
            TokenKind::Upper(name) => Kind::ALL.iter().any(|kind| kind.name() == names.text(name)),
            _ => false,
        });
    }
    let mut looked_up = 0;
    loop {
        while looked_up < names.len() && meter.step(Span::default()) {
            pending.extend(position_of(names.text(Name::from_index(looked_up))));
            looked_up += 1;
        }
        let Some(position) = pending.pop() else {
            // Where there are no collections in the text, they come of definitions of the prelude.
            has_collections |= needed.iter().any(Option::is_some);
            if !std::mem::take(&mut has_collections) || has_all {
                break;
            }
            has_all = true;
            pending.extend(Implied::OF_COLLECTIONS.iter().filter_map(|implied| position_of(implied.name())));
            continue;
        };
        if needed[position].is_none() {
            let tokens = lex_place(&DEFS[position], start, names, sink, meter);
            pending.extend(implied_in(&tokens));
            needed[position] = Some(tokens);
        }
    }
    let found = DEFS.iter().zip(needed).filter_map(|(place, tokens)| Some((place, tokens?)));
    let mut all: Vec<(&Place, Vec<Token>)> = found.collect();
    all.extend(TYPES.iter().map(|place| (place, lex_place(place, start, names, sink, meter))));
    all.sort_unstable_by_key(|(place, _)| (place.file, place.start));
    let mut tokens: Vec<Token> = all.into_iter().flat_map(|(_, tokens)| tokens).collect();
    tokens.push(Token { kind: TokenKind::End, span: Span::new(start, start), glued: false, first: true });
    tokens
}

/// The positions of what some tokens stand for.
fn implied_in(tokens: &[Token]) -> impl Iterator<Item = usize> {
    let mut found = [false; Implied::ALL.len()];
    for at in 0..tokens.len() {
        Implied::of(&tokens[at..]).iter().for_each(|&implied| found[implied as usize] = true);
    }
    let implied = Implied::ALL.into_iter().filter(move |&implied| found[implied as usize]);
    implied.filter_map(|implied| position_of(implied.name()))
}

/// The file, line and column of a byte, counted from the first one of the first file.
pub(crate) fn located(offset: u32) -> (usize, (u32, u32)) {
    let (mut file, mut before) = (0, 0);
    while offset - before >= FILES[file].len() as u32 {
        before += FILES[file].len() as u32;
        file += 1;
    }
    (file, SOURCES[file].line_and_column(offset - before))
}

/// The file that a byte is in, counted from the first one of the first file, and the byte in it.
pub(crate) fn text_at(offset: u32) -> Option<(&'static str, usize)> {
    let mut before = 0;
    for file in FILES {
        if (offset as usize) < before + file.len() {
            return Some((file, offset as usize - before));
        }
        before += file.len();
    }
    None
}

/// The tokens of a declaration, without an end.
fn lex_place(place: &Place, start: u32, names: &mut Names, sink: &mut Sink, meter: &Meter) -> Vec<Token> {
    let before: usize = FILES[..place.file].iter().map(|file| file.len()).sum();
    let text = &FILES[place.file][place.start..place.end];
    let mut tokens = lex(text, start + (before + place.start) as u32, names, sink, meter);
    tokens.pop();
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Diagnostics;
    use crate::source::SourceMap;
    use std::rc::Rc;

    #[test]
    fn every_declaration_has_a_place() {
        let (mut names, mut sink) = (Names::default(), Sink::default());
        let meter = Meter::unlimited();
        let whole = lex(&FILES.concat(), 0, &mut names, &mut sink, &meter);
        let mut places: Vec<&Place> = DEFS.iter().chain(&TYPES).collect();
        places.sort_unstable_by_key(|place| (place.file, place.start));
        let mut found: Vec<Token> =
            places.into_iter().flat_map(|place| lex_place(place, 0, &mut names, &mut sink, &meter)).collect();
        found.push(*whole.last().expect("the end"));
        // Space before the first token of a declaration is no part of it.
        let of = |tokens: &[Token]| tokens.iter().map(|token| (token.kind, token.span)).collect::<Vec<_>>();
        assert_eq!(of(&found), of(&whole));
        assert!(DEFS.is_sorted_by_key(Place::name) && DEFS.len() > 60 && TYPES.len() == 2);
        assert_eq!(names.all().filter(|&name| position_of(names.text(name)).is_some()).count(), DEFS.len());
    }

    /// A program that mentions all that programs see, so that every definition is inferred.
    #[test]
    fn the_whole_prelude_is_free_of_errors() {
        let program: String = names().enumerate().map(|(n, name)| format!("def f{n} = {name}\n")).collect();
        let mut sources = SourceMap::of(Source::new("prelude.dual", &program));
        let (mut names, mut sink) = (Names::default(), Sink::default());
        let meter = Rc::new(Meter::unlimited());
        let (ast, _) = crate::read(&mut sources, None, &mut names, &mut sink, &meter);
        let resolved = crate::resolve::resolve(&ast, &mut names, &mut sink, &meter);
        crate::infer::infer(&ast, &sources, &names, &resolved, &mut sink, &meter);
        assert!(!sink.has_errors(), "{}", Diagnostics::new(sources, sink, None));
    }

    #[test]
    fn what_syntax_stands_for_is_there() {
        assert!(Implied::ALL.iter().all(|implied| position_of(implied.name()).is_some()));
        assert!(names().any(|name| name == "map") && names().all(|name| name != "map_list"));
    }

    #[test]
    fn only_what_a_program_may_mention_is_read() {
        let defs = |text: &str| {
            let (mut names, mut sink) = (Names::default(), Sink::default());
            let meter = Meter::unlimited();
            let mut sources = SourceMap::of(Source::new("defs.dual", text));
            let (ast, _) = crate::read(&mut sources, None, &mut names, &mut sink, &meter);
            let read = ast.defs.iter().filter(|(def, _)| !ast.is_own(*def));
            read.map(|(_, def)| names.text(def.name).to_owned()).collect::<Vec<_>>()
        };
        assert!(defs("def f (x : Real) = x * x").is_empty());
        let has = |text: &str, name: &str| defs(text).iter().any(|def| def == name);
        assert!(has("def f xs = xs ++ xs", "append_array") && !has("def f xs = xs ++ xs", "sort"));
        // Arithmetic may be that of arrays where there are any.
        assert!(has("def f = is_empty", "is_empty_list") && has("def f = is_empty", "elementwise_tensor"));
        assert!(has("def f (xs : Array Real) = xs + xs", "elementwise_array"));
    }
}
