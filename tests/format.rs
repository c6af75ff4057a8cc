//! The formatter changes nothing but white space, and nothing at all the second time: on all programs of the
//! repository, on random ones, on programs with changed tokens, with other white space, and with comments between any
//! two tokens.
//!
//! `DUALVM_SEEDS` is the number of random programs, `DUALVM_MUTATIONS` that of changed ones, `DUALVM_SEED` the seed.

#[path = "support/corpus.rs"]
mod corpus;
mod support;

use corpus::{mutate, programs, tokens};
use dualvm::frontend::{CompileLimits, CompileOptions, Stopped, format, format_with};
use std::path::Path;
use std::time::Instant;
use support::dice::Dice;
use support::from_environment;

/// Formats a text that has no mistakes in its syntax and checks what came out; nothing if it has some.
fn checked(text: &str) -> Option<String> {
    let formatted = match format("a.dual", text) {
        Ok(formatted) => formatted,
        Err(errors) => {
            assert!(!errors.to_string().contains("a mistake in dualvm"), "{errors}\n{text}");
            return None;
        }
    };
    let (before, after) = (comments(text), comments(&formatted));
    assert!(before == after, "comments differ: {:?}\n{text}\n\n{formatted}", first_difference(&before, &after));
    let again = format("a.dual", &formatted).unwrap_or_else(|errors| panic!("{errors}\n{text}\n\n{formatted}"));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let difference = first_difference(&lines(&formatted), &lines(&again));
    assert!(formatted == again, "the second time differs:\n{difference:#?}\n{text}\n\n{formatted}\n\n{again}");
    for line in formatted.lines() {
        assert!(line.trim_end() == line && !line.contains('\r'), "`{line}` ends in white space\n{text}");
    }
    assert!(!formatted.contains("\n\n\n") && !formatted.starts_with('\n') && !formatted.ends_with("\n\n"), "{text}");
    Some(formatted)
}

/// Some entries around the first that differs.
fn first_difference(before: &[String], after: &[String]) -> Option<[Vec<String>; 2]> {
    let at = before.iter().zip(after).position(|(before, after)| before != after)?;
    let around = |list: &[String]| list[at.saturating_sub(3)..(at + 3).min(list.len())].to_vec();
    Some([around(before), around(after)])
}

/// All comments of a program, without white space at the ends of their lines. Quotes don't matter: programs have no
/// texts with comments in them.
fn comments(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['-', '{', '"']) {
        let from = &rest[start..];
        let length = if from.starts_with("--") {
            from.find('\n').unwrap_or(from.len())
        } else if from.starts_with("{-") {
            let (mut at, mut depth) = (0, 0);
            loop {
                match from.get(at..at + 2) {
                    Some("{-") => (at, depth) = (at + 2, depth + 1),
                    Some("-}") => (at, depth) = (at + 2, depth - 1),
                    _ if at >= from.len() => break,
                    _ => at += 1,
                }
                if depth == 0 {
                    break;
                }
            }
            at
        } else {
            // A text, or a token of one character.
            rest = match from.strip_prefix('"') {
                Some(text) => text.split_once('"').map_or("", |(_, after)| after),
                None => &from[1..],
            };
            continue;
        };
        found.push(from[..length].lines().map(str::trim_end).collect::<Vec<_>>().join("\n"));
        rest = &from[length..];
    }
    found
}

#[test]
fn programs_of_the_repository_are_formatted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut unformatted = Vec::new();
    let mut count = 0;
    for (path, text) in corpus::files() {
        // These are as somebody writes them who makes mistakes, or who doesn't format.
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if shown.starts_with("frontend/tests") {
            checked(&text);
            continue;
        }
        count += 1;
        if checked(&text).as_ref() != Some(&text) {
            unformatted.push(shown);
        }
    }
    assert!(count > 60, "only {count} programs were found");
    assert!(unformatted.is_empty(), "`dualvm fmt` formats these:\n{}", unformatted.join(" \\\n"));
}

#[test]
fn programs_of_the_documentation_can_be_formatted() {
    let accepted = programs().iter().filter(|program| checked(program).is_some()).count();
    assert!(accepted > 150, "only {accepted} programs were formatted");
}

#[test]
fn random_programs_can_be_formatted() {
    for seed in 0..from_environment("DUALVM_SEEDS").unwrap_or(150) {
        let (source, _) = support::sources::source(seed, seed % 4 == 3);
        let formatted = checked(&source).expect("random programs have no mistakes");
        // The parser makes the same of both.
        let compiled = |text: &str| dualvm::frontend::compile("random.dual", text).expect("a valid program").functions;
        assert_eq!(compiled(&source).len(), compiled(&formatted).len(), "seed {seed}");
    }
}

#[test]
fn programs_with_changed_tokens_can_be_formatted() {
    let seed = from_environment("DUALVM_SEED").unwrap_or(1);
    let programs = programs();
    let all: Vec<Vec<&str>> = programs.iter().map(|program| tokens(program)).collect();
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = from_environment("DUALVM_MUTATIONS").unwrap_or(3_000);
    let accepted = (0..count).filter(|_| checked(&mutate(&all[rng.usize(..all.len())], &all, &mut rng)).is_some());
    let accepted = accepted.count() as u64;
    assert!(accepted > count / 20, "only {accepted} of {count} programs still have a valid syntax");
}

/// White space of a program, in which lines end elsewhere than in the original.
#[test]
fn programs_with_other_lines_can_be_formatted() {
    let mut dice = Dice::with_seed(from_environment("DUALVM_SEED").unwrap_or(1));
    let programs = programs();
    let mut accepted = 0;
    for program in &programs {
        for style in 0..4 {
            let mut text = String::new();
            for line in program.lines().filter(|line| !line.contains("--")) {
                for token in tokens(line) {
                    // Texts stay on their lines.
                    let ends_line = !line.contains('"')
                        && match style {
                            0 => false,
                            1 => token == " ",
                            2 => dice.one_in(4),
                            _ => dice.one_in(20),
                        };
                    match (ends_line, token.starts_with(' ')) {
                        (true, true) => text.push('\n'),
                        (_, true) => text.push(' '),
                        // A token stays in one piece, and what is glued to it.
                        (_, false) => text.push_str(token),
                    }
                }
                text.push(if style == 0 || dice.one_in(2) && style > 1 { ' ' } else { '\n' });
            }
            accepted += usize::from(checked(&text).is_some());
        }
    }
    assert!(accepted > 2 * programs.len(), "only {accepted} texts were formatted");
}

#[test]
fn comments_may_stand_anywhere() {
    const COMMENTS: [&str; 8] = [
        " -- to the end of the line\n",
        "\n-- on a line\n",
        "\n\n  -- on a line, between empty ones\n\n",
        " {- within a line -} ",
        "\n{- on a line -}\n",
        " {- of several\n     lines -} ",
        "{- glued -}",
        "\n{- before -} -- and behind\n",
    ];
    let mut dice = Dice::with_seed(from_environment("DUALVM_SEED").unwrap_or(1));
    let mut accepted = 0;
    for program in programs() {
        let parts = tokens(&program);
        let is_code = |at: usize| {
            let line = parts[..at].iter().rposition(|part| part.contains('\n')).map_or(0, |line| line + 1);
            !parts[line..at].iter().any(|part| part.starts_with("--") || part.contains('"'))
        };
        let places: Vec<usize> = (1..parts.len()).filter(|&at| is_code(at)).collect();
        let with = |comment: &mut dyn FnMut(usize) -> Option<&'static str>| {
            let parts = parts.iter().enumerate();
            parts.flat_map(|(at, part)| [comment(at).unwrap_or_default(), *part]).collect::<String>()
        };
        // One at a place, for some places, and one at some places each.
        for _ in 0..20 {
            let (at, comment) = (places[dice.usize(..places.len())], COMMENTS[dice.usize(..COMMENTS.len())]);
            accepted += usize::from(checked(&with(&mut |place| (place == at).then_some(comment))).is_some());
        }
        for comment in COMMENTS {
            let every = dice.usize(1..6) as u32;
            let mut some = |at: usize| {
                // Before and after white space, where it glues nothing that wasn't, and parts nothing that was.
                let is_free = parts[at].starts_with(' ') && places.contains(&at);
                (is_free && dice.one_in(every)).then_some(comment)
            };
            accepted += usize::from(checked(&with(&mut some)).is_some());
        }
    }
    assert!(accepted > 2_000, "only {accepted} programs were formatted");
}

#[test]
fn the_formatter_obeys_limits() {
    let text = "def f (x : Real) : Real = x + 1\n".repeat(1_000);
    let stopped = |limits: CompileLimits| {
        let error = format_with("f.dual", &text, &CompileOptions::with_limits(limits)).unwrap_err();
        error.stopped().expect("a limit is reached")
    };
    assert_eq!(stopped(CompileLimits { source_bytes: 100, ..CompileLimits::default() }), Stopped::SourceBytes);
    assert_eq!(stopped(CompileLimits { memory_bytes: 1_000_000, ..CompileLimits::default() }), Stopped::MemoryBytes);
    // Wherever it ends, in any of the stages.
    for nodes in (1_000..60_000).step_by(3_000) {
        assert_eq!(stopped(CompileLimits { syntax_nodes: nodes, ..CompileLimits::default() }), Stopped::SyntaxNodes);
    }
    let limits = CompileLimits { deadline: Some(std::time::Duration::ZERO), ..CompileLimits::default() };
    assert_eq!(stopped(limits), Stopped::Deadline);
}

/// Deep, long and wide programs take time in proportion to their length.
#[test]
fn the_formatter_takes_linear_time() {
    let n = 50_000;
    let deep = 900;
    let programs = [
        format!("def f (x : Real) = {}x", "x + ".repeat(n)),
        format!("def f (x : Real) = {}x", "x * 2 + ".repeat(n)),
        format!("def f (x : Real) = {}x", "x ^ ".repeat(n)),
        format!("def f (x : Real) = {}x", "- ".repeat(n)),
        format!("def f (x : Real) = {}[]", "x :: ".repeat(n)),
        format!("def f x = x{}", "[0]".repeat(n)),
        format!("def f x = x{}", ".a".repeat(n)),
        format!("def f x = {}x", "let y = x in ".repeat(n)),
        format!("def f x = {}x", "if x > 0 then 1 else ".repeat(n)),
        format!("def f x = {}x", "if x > 0 then 1 else let y = x in ".repeat(n / 2)),
        format!("def f x = [{}]", "x, ".repeat(n)),
        format!("def f x = g{}", " x".repeat(n)),
        format!("def f x = match x with {}", "| 1 -> x ".repeat(n)),
        format!("def f = {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("def f = {}1{}", "[1, ".repeat(deep), "]".repeat(deep)),
        format!("def f = {}0", "\\x -> ".repeat(deep)),
        format!("def f x = {}x{}", "let y = ".repeat(deep), " in y".repeat(deep)),
        format!("def f x = {}x{}", "g (\\x -> ".repeat(deep), ")".repeat(deep)),
        format!("def f x = {}x{}", "g (\\x ->\n".repeat(deep), ")".repeat(deep)),
        format!("def f x = {}x{}", "(x + x * x ^ ".repeat(deep), ")".repeat(deep)),
        format!("def f x = {}x{}", "{ a = ".repeat(deep), " }".repeat(deep)),
        format!("def f (x : {}Real{}) = x", "Array (".repeat(deep), ")".repeat(deep)),
        format!("def f x = {}1", "match x with y -> ".repeat(deep)),
        format!("def f x = {}x", "loop y = x for i < 2 do ".repeat(deep)),
        format!("def f x = {}x", "-- a comment\n".repeat(n)),
        format!("def f x = x{}", " {- a comment -}".repeat(n)),
        format!("def f x = x -- {}", "word ".repeat(n)),
        "def f x = x\n".repeat(n / 10),
        "\n".repeat(n),
    ];
    for program in programs {
        let began = Instant::now();
        if let Err(errors) = format("a.dual", &program) {
            panic!("{errors}");
        }
        let formatted = checked(&program).unwrap_or_else(|| panic!("{}", &program[..40]));
        // Without optimisation everything takes many times longer.
        let seconds_max = if cfg!(debug_assertions) { 40 } else { 4 };
        assert!(began.elapsed().as_secs() < seconds_max, "{:?}: {}", began.elapsed(), &program[..100]);
        assert!(formatted.len() < 100 * program.len().max(1));
    }
}
