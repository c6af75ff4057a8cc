//! The programs in `docs/language.md` and `docs/debugging.md` compile, and give what the pages say.
//!
//! In a block of code, `-- f 1 2 => 3.0` says what a call gives, with arguments as on the command line; `-- grad f 1 2
//! =>` what its gradient is; `=> error: …` how it fails; and `def x = … -- => 3.0` what a constant is. A block of code
//! with a mistake has the first line of the message in a comment. In a block for the console, `$ dualvm …` has below it
//! what that prints, stderr first; the program that it names is the block of code before. `DUALVM_BLESS=1` rewrites
//! what is said.

#[path = "support/commands.rs"]
mod commands;
#[path = "support/program.rs"]
mod program;

use commands::words;
use program::Workspace;
use std::fs;
use std::path::Path;

const LANGUAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/language.md");
const DEBUGGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/debugging.md");

/// The page with what its programs really give, and how many things it says.
fn corrected(page: &str, path: &str) -> (String, usize) {
    let name = Path::new(path).file_stem().expect("a page has a name").to_string_lossy();
    let workspace = Workspace::new(&format!("docs_{name}"));
    let mut out = String::new();
    let mut said = 0;
    let mut lines = page.lines();
    let mut program = String::new();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(kind @ ("dual" | "dual-error" | "console")) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if kind == "console" {
            for command in block.iter().filter(|line| line.starts_with("$ ")) {
                out.push_str(&transcript(&workspace, command, &program));
                said += 1;
            }
            out.push_str("```\n");
            continue;
        }
        program = block.join("\n") + "\n";
        workspace.write("page.dual", &program);
        for line in &block {
            let found = if kind == "dual" { says(&workspace, line) } else { refused(&workspace, line) };
            said += usize::from(found.is_some());
            out.push_str(found.as_deref().unwrap_or(line));
            out.push('\n');
        }
        let accepted = workspace.run(&["check", "page.dual"]);
        assert_eq!(accepted.code == Some(0), kind == "dual", "{}\n{}", block.join("\n"), accepted.stderr);
        out.push_str("```\n");
    }
    (out, said)
}

/// A line that says what something gives, with what it does give.
fn says(workspace: &Workspace, line: &str) -> Option<String> {
    let (before, _) = line.split_once("=> ")?;
    let call = match before.strip_prefix("-- ") {
        Some(call) => call,
        None => before.strip_suffix("-- ")?.split_whitespace().nth(1).expect("a constant has a name"),
    };
    Some(format!("{before}=> {}", result(workspace, call)))
}

/// What a call gives, on one line.
fn result(workspace: &Workspace, call: &str) -> String {
    let words = words(call);
    let (command, rest) = match words.split_first() {
        Some((first, rest)) if first == "grad" => ("grad", rest),
        _ => ("run", &words[..]),
    };
    let mut args = vec![command, "page.dual"];
    args.extend(rest.iter().map(String::as_str));
    let finished = workspace.run(&args);
    if finished.code != Some(0) {
        return finished.stderr.lines().next().unwrap_or_default().to_owned();
    }
    let text = finished.stdout.trim_end();
    match text.split_once("gradient:\n") {
        None => text.strip_prefix("value  = ").unwrap_or(text).to_owned(),
        Some((_, gradient)) => {
            let entries = gradient.lines().filter_map(|line| line.trim().split_once('='));
            let entries: Vec<String> = entries.map(|(name, x)| format!("{} = {}", name.trim(), x.trim())).collect();
            entries.join(", ")
        }
    }
}

/// A command as it is typed, and what it prints, with a program in the file that it names.
fn transcript(workspace: &Workspace, command: &str, program: &str) -> String {
    let words = words(command.strip_prefix("$ dualvm ").expect("the page's commands are of this program"));
    let file = words.iter().find(|word| word.ends_with(".dual")).expect("the command has a program");
    workspace.write(file, program);
    // As on a terminal: in the order in which it is written.
    let screen = fs::File::create(workspace.path("screen")).expect("test files can be written");
    let mut run = workspace.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    run.stdout(screen.try_clone().expect("there are enough descriptors")).stderr(screen);
    run.status().expect("the program starts");
    format!("{command}\n{}", String::from_utf8_lossy(&workspace.read("screen")))
}

/// The message of a program with a mistake, in place of a comment.
fn refused(workspace: &Workspace, line: &str) -> Option<String> {
    line.strip_prefix("-- ")?;
    let finished = workspace.run(&["check", "page.dual"]);
    Some(format!("-- {}", finished.stderr.lines().next().unwrap_or_default()))
}

#[test]
fn the_programs_on_the_language_page_do_what_it_says() {
    check(LANGUAGE, 60);
}

#[test]
fn the_programs_on_the_page_on_debugging_do_what_it_says() {
    check(DEBUGGING, 2);
}

/// A page says more than so many things, all of which are so.
fn check(path: &str, least: usize) {
    let page = fs::read_to_string(path).expect("the page is in the repository");
    let (corrected, said) = corrected(&page, path);
    assert!(said > least, "the page has programs");
    if std::env::var_os("DUALVM_BLESS").is_some_and(|value| value == "1") {
        fs::write(path, &corrected).expect("the page can be written");
        return;
    }
    let wrong: Vec<String> = page
        .lines()
        .zip(corrected.lines())
        .filter(|(said, found)| said != found)
        .map(|(said, found)| format!("page:  {said}\nfound: {found}"))
        .collect();
    assert!(wrong.is_empty() && page.len() == corrected.len(), "\n{}", wrong.join("\n"));
}
