//! The reference pages of the prelude and of the library, made from the comments in their sources, and the examples in
//! them.
//!
//! A file opens with a comment that says what it is about. Every declaration is a paragraph: its comment, in which
//! lines indented by three spaces are examples that are true, and the declaration.

use crate::library;
use crate::prelude::FILES;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# The prelude

Made from the comments in `frontend/prelude/`; change those, then run
`DUALVM_BLESS=1 cargo test -p dualvm-frontend --test prelude`. [language.md](language.md) describes the language.

These definitions are in scope in every program. A program may use their names for something else. They are written in
the language itself, and are differentiated like any other definition. Lines after a signature are true.
";

const LIBRARY: &str = "\
# The library

Made from the comments in `frontend/library/`; change those, then run
`DUALVM_BLESS=1 cargo test -p dualvm-frontend --test library`.

These modules are part of the compiler. A program [imports](language.md#modules) what it uses: after `import stats` it
has `stats.normal_logpdf`, after `import stats (normal_logpdf)` that without the module's name, too. A file of the
program that has the name of a module comes first. They are written in the language itself, and are differentiated like
any other definition. Lines after a signature are true.
";

/// A declaration with its comment.
struct Entry<'t> {
    name: &'t str,
    /// What is shown: a definition's head, or the declaration of a type or an alias.
    signature: String,
    text: Vec<&'t str>,
    examples: Vec<&'t str>,
}

/// The reference page in Markdown: every declaration with its type, its comment and its examples.
pub fn prelude_markdown() -> String {
    let sections = FILES.iter().map(|file| (opening(file), *file));
    markdown(INTRODUCTION, sections)
}

/// The reference page of the library in Markdown: as that of the prelude, module by module.
pub fn library_markdown() -> String {
    let sections = library::MODULES.iter().map(|(name, file)| {
        let (title, about) = opening(file);
        ((format!("`{name}`"), format!("{title}. {about}")), *file)
    });
    markdown(LIBRARY, sections)
}

fn markdown<'t>(introduction: &str, sections: impl Iterator<Item = ((String, String), &'t str)>) -> String {
    let mut out = String::from(introduction);
    for ((title, about), file) in sections {
        write!(out, "\n## {title}\n").expect("writing to a string succeeds");
        if !about.is_empty() {
            write!(out, "\n{about}\n").expect("writing to a string succeeds");
        }
        entries(file).for_each(|entry| print(&mut out, &entry));
    }
    out
}

/// All examples in the library: the module, the declaration that an expression is an example of, and the expression,
/// which is true in a program that imports the module.
pub fn library_examples() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    library::MODULES.iter().flat_map(|&(module, file)| {
        entries(file).flat_map(move |entry: Entry<'static>| {
            entry.examples.into_iter().map(move |example| (module, entry.name, example))
        })
    })
}

/// All examples: the declaration that an expression is an example of, and the expression, which is true.
pub fn prelude_examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_entry = |entry: Entry<'static>| entry.examples.into_iter().map(move |example| (entry.name, example));
    FILES.iter().flat_map(move |file| entries(file).flat_map(of_entry))
}

/// All definitions of the prelude that programs see: the name, the head of the definition, and what is said about it.
pub(crate) fn prelude_definitions() -> impl Iterator<Item = (&'static str, String, String)> {
    let all = FILES.iter().flat_map(|file| entries(file));
    let definitions = all.filter(|entry| !entry.signature.starts_with("type "));
    definitions.map(|entry| (entry.name, entry.signature, entry.text.join("\n")))
}

fn print(out: &mut String, entry: &Entry<'_>) {
    let Entry { name, signature, text, examples } = entry;
    let mut code = signature.clone();
    if !examples.is_empty() {
        code = format!("{code}\n\n{}", examples.join("\n"));
    }
    write!(out, "\n### `{name}`\n\n```text\n{code}\n```\n\n{}\n", text.join("\n"))
        .expect("writing to a string succeeds");
}

fn paragraphs(file: &str) -> impl Iterator<Item = &str> {
    file.split("\n\n").map(|paragraph| paragraph.trim_matches('\n'))
}

/// The title of a file and what else its first comment says.
fn opening(file: &str) -> (String, String) {
    let first = paragraphs(file).next().expect("there is always a first paragraph");
    let lines: Vec<&str> = first.lines().map(comment).collect();
    let text = lines.join("\n");
    let end = text.find(['.', ':']).expect("the comment has a sentence");
    let about = text[end + 1..].trim_start();
    let mut letters = about.chars();
    let about = letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect());
    (text[..end].to_owned(), about)
}

fn entries(file: &str) -> impl Iterator<Item = Entry<'_>> {
    paragraphs(file).skip(1).filter_map(|paragraph| {
        let mut declaration = paragraph;
        let (mut text, mut examples) = (Vec::new(), Vec::new());
        while declaration.starts_with("--") {
            let (line, rest) = declaration.split_once('\n')?;
            match comment(line).strip_prefix("  ") {
                Some(example) => examples.push(example),
                None => text.push(comment(line)),
            }
            declaration = rest;
        }
        let (kind, rest) = declaration.split_once(' ')?;
        let name = rest.split(' ').next()?;
        let signature = match kind {
            "def" => rest.split_once(" =").map_or(rest, |(signature, _)| signature).to_owned(),
            "type" | "alias" => declaration.to_owned(),
            _ => return None,
        };
        Some(Entry { name, signature, text, examples })
    })
}

/// The text of a line of comment.
fn comment(line: &str) -> &str {
    let text = line.trim_start_matches('-');
    text.strip_prefix(' ').unwrap_or(text)
}
