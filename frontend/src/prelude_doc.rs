//! The reference pages of the prelude and of the library, made from the comments in their sources, and the examples in
//! them.
//!
//! A file opens with a comment that says what it is about. Every declaration is a paragraph: its comment, in which
//! lines indented by three spaces are examples that are true, and the declaration. An example may also be an expression
//! that `is NaN` or `traps`. A last line of the comment may say what the same function is called in Python, with its
//! arguments. Built-in functions are described in a file of the same form, in which definitions have heads only.

use crate::library;
use crate::prelude::FILES;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# The prelude

Made from the comments in `frontend/prelude/`; change those, then run
`DUALVM_BLESS=1 cargo test -p dualvm-frontend --test prelude`. [language.md](language.md) describes the language.

These definitions are in scope in every program, and so are the [built-in functions](#built-in-functions). A program may
use their names for something else. They are written in the language itself, and are differentiated like any other
definition. Lines after a signature are true. The [last table](#names-in-python) has what NumPy and SciPy call the same.
";

/// The functions that have no definition: their heads, with comments.
const BUILTIN: &str = include_str!("../prelude/builtin.txt");

const IN_PYTHON: &str = "
## Names in Python

Functions of NumPy, SciPy and Python that compute the same; arguments have the names that they have here.

| here | in Python | order of the arguments |
|---|---|---|
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

/// What an example may say of an expression, other than that it is true.
const IS_NAN: &str = " is NaN";
const TRAPS: &str = " traps";

/// A declaration with its comment.
struct Entry<'t> {
    name: &'t str,
    /// What is shown: a definition's head, or the declaration of a type or an alias.
    signature: String,
    text: Vec<&'t str>,
    examples: Vec<&'t str>,
    /// The same function in Python.
    python: Option<&'t str>,
}

impl Entry<'_> {
    /// Whether it is no type and no alias.
    fn is_function(&self) -> bool {
        !["type ", "alias "].iter().any(|kind| self.signature.starts_with(kind))
    }

    /// The parameters' names.
    fn params(&self) -> impl Iterator<Item = &str> {
        let head = self.signature.split(" (").skip(1);
        head.filter_map(|param| param.split_once(" : ").map(|(name, _)| name))
    }

    /// A row of the table of names in Python.
    fn in_python(&self) -> Option<String> {
        let python = self.python?;
        let args = python.split_once('(').map(|(_, args)| args.trim_end_matches([')', '`']));
        let is_same = args.is_none_or(|args| args.split(", ").eq(self.params()));
        let order = if is_same { "the same" } else { "**another one**" };
        let call = [self.name].into_iter().chain(self.params()).collect::<Vec<_>>().join(" ");
        Some(format!("| `{call}` | {python} | {order} |\n"))
    }
}

/// The reference page in Markdown: every declaration with its type, its comment and its examples.
pub fn prelude_markdown() -> String {
    let sections = described().map(|file| (opening(file), file));
    let mut out = markdown(INTRODUCTION, sections);
    out.push_str(IN_PYTHON);
    out.extend(described().flat_map(entries).filter_map(|entry| entry.in_python()));
    out
}

/// The files that describe what is in scope in every program.
fn described() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().chain([BUILTIN])
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

/// All examples that have a value: the declaration that an expression is an example of, and the expression, which is
/// true.
pub fn prelude_examples() -> impl Iterator<Item = (&'static str, String)> {
    examples().filter(|(_, example)| !example.ends_with(TRAPS)).map(|(name, example)| {
        let nan = example.strip_suffix(IS_NAN).map(|real| format!("(\\x -> x != x) ({real})"));
        (name, nan.unwrap_or_else(|| example.to_owned()))
    })
}

/// All other examples: the declaration that an expression is an example of, and the expression, which traps.
pub fn prelude_traps() -> impl Iterator<Item = (&'static str, &'static str)> {
    examples().filter_map(|(name, example)| Some((name, example.strip_suffix(TRAPS)?)))
}

fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_entry = |entry: Entry<'static>| entry.examples.into_iter().map(move |example| (entry.name, example));
    described().flat_map(move |file| entries(file).flat_map(of_entry))
}

/// All functions that every program sees, built in or not: the name, the head of the definition, and what is said about
/// it.
pub(crate) fn prelude_definitions() -> impl Iterator<Item = (&'static str, String, String)> {
    let all = described().flat_map(entries);
    let definitions = all.filter(Entry::is_function);
    definitions.map(|entry| (entry.name, entry.signature, entry.text.join("\n")))
}

fn print(out: &mut String, entry: &Entry<'_>) {
    let Entry { name, signature, text, examples, .. } = entry;
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
        let (mut text, mut examples, mut python) = (Vec::new(), Vec::new(), None);
        while declaration.starts_with("--") {
            let (line, rest) = declaration.split_once('\n')?;
            let said = comment(line);
            if let Some(example) = said.strip_prefix("  ") {
                examples.push(example);
            } else if let Some(name) = said.strip_prefix("Python: ") {
                python = Some(name);
            } else {
                text.push(said);
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
        Some(Entry { name, signature, text, examples, python })
    })
}

/// The text of a line of comment.
fn comment(line: &str) -> &str {
    let text = line.trim_start_matches('-');
    text.strip_prefix(' ').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analysis;
    use crate::builtins::Builtin;
    use crate::limits::CompileOptions;
    use crate::prelude;
    use std::collections::BTreeSet;

    /// The type that a head of a definition writes down: of each parameter, and of the result.
    fn written(head: &str) -> String {
        let mut types = Vec::new();
        let mut rest = head.split_once(' ').expect("a head has a name and a type").1;
        while let Some(param) = rest.strip_prefix('(') {
            let mut depth = 1;
            let inside = |c: char| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            };
            let end = param.find(inside).expect("parentheses are closed");
            let (_, ty) = param[..end].split_once(" : ").expect("all parameters have types");
            types.push(if ty.contains("->") { format!("({ty})") } else { ty.to_owned() });
            rest = param[end + 1..].trim_start();
        }
        types.push(rest.strip_prefix(": ").expect("the result has a type").to_owned());
        types.join(" -> ")
    }

    /// A type with its variables called by the order in which they come.
    fn renamed(ty: &str) -> String {
        let mut known: Vec<&str> = Vec::new();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut out = String::new();
        let mut rest = ty;
        while let Some(first) = rest.chars().next() {
            let end = if is_part(first) { rest.find(|c| !is_part(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
            let (word, after) = rest.split_at(end);
            if first.is_lowercase() {
                let at = known.iter().position(|name| *name == word).unwrap_or(known.len());
                if at == known.len() {
                    known.push(word);
                }
                write!(out, "t{at}").expect("writing to a string succeeds");
            } else {
                out.push_str(word);
            }
            rest = after;
        }
        out
    }

    /// What the compiler says that the type of a name is, which is the last one in a program.
    fn inferred(program: &str, name: &str) -> String {
        let analysis = Analysis::new("type.dual", program, &CompileOptions::default());
        let hover = analysis.hover(program.len() as u32).unwrap_or_else(|| panic!("{name}"));
        let (_, ty) = hover.text.split_once(" : ").unwrap_or_else(|| panic!("{name} has no type"));
        ty.to_owned()
    }

    #[test]
    fn every_function_in_scope_is_described_once() {
        let mut described: Vec<&str> = prelude_definitions().map(|(name, ..)| name).collect();
        let mut known: Vec<&str> = prelude::names().chain(Builtin::all().map(|(name, _)| name)).collect();
        described.sort_unstable();
        known.sort_unstable();
        assert_eq!(described, known);
    }

    #[test]
    fn signatures_are_what_the_compiler_infers() {
        for (name, head, _) in prelude_definitions() {
            let found = inferred(&format!("def f = {name}"), name);
            assert_eq!(renamed(&written(&head)), renamed(&found), "{head}");
        }
        for (module, file) in library::MODULES {
            for entry in entries(file).filter(Entry::is_function) {
                let found = inferred(&format!("import {module}\ndef f = {module}.{}", entry.name), entry.name);
                assert_eq!(renamed(&written(&entry.signature)), renamed(&found), "{module}: {}", entry.signature);
            }
        }
    }

    /// So that it can be said whether the order is the same.
    #[test]
    fn functions_of_python_have_the_arguments_of_those_here() {
        let mut count = 0;
        for entry in described().flat_map(entries) {
            let Some(python) = entry.python else { continue };
            let call = python.strip_prefix('`').and_then(|text| text.strip_suffix('`')).expect("it is code");
            let args = call.split_once('(').map_or("", |(_, args)| args.strip_suffix(')').expect("a call"));
            let args: BTreeSet<&str> = args.split(", ").filter(|arg| !arg.is_empty()).collect();
            assert_eq!(args, entry.params().collect(), "{}", entry.name);
            count += 1;
        }
        assert!(count > 40);
        let page = prelude_markdown();
        assert!(page.contains("| `polygamma x n` | `scipy.special.polygamma(n, x)` | **another one** |"));
        assert!(page.contains("| `atan2 y x` | `numpy.arctan2(y, x)` | the same |"));
    }
}
