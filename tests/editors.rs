//! The grammar for editors knows the language's words and symbols.

use serde_json::Value;
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// All texts under a key.
fn texts<'j>(json: &'j Value, key: &str, found: &mut Vec<&'j str>) {
    match json {
        Value::Object(entries) => {
            for (name, value) in entries {
                match value {
                    Value::String(text) if name == key => found.push(text),
                    other => texts(other, key, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| texts(value, key, found)),
        _ => {}
    }
}

#[test]
fn the_grammar_has_all_keywords_and_no_loose_ends() {
    let grammar: Value = serde_json::from_str(&read("docs/editors/dualvm.tmLanguage.json")).unwrap();
    let mut patterns = Vec::new();
    texts(&grammar, "match", &mut patterns);
    let words: Vec<&str> = patterns
        .iter()
        .filter_map(|pattern| pattern.strip_prefix(r"\b")?.strip_suffix(r"\b"))
        .flat_map(|words| words.trim_matches(['(', ')']).split('|'))
        .collect();
    let reference = read("docs/language.md");
    let (_, keywords) = reference.split_once("- Keywords: `").expect("the reference lists them");
    let (keywords, _) = keywords.split_once('`').expect("the list ends");
    for keyword in keywords.split_whitespace() {
        assert!(words.contains(&keyword), "{keyword} isn't in {words:?}");
    }
    for token in fixed_tokens().iter().filter(|token| token.starts_with(|first: char| first.is_ascii_lowercase())) {
        assert!(words.contains(&token.as_str()), "{token} isn't in {words:?}");
    }
    let mut includes = Vec::new();
    texts(&grammar, "include", &mut includes);
    for include in includes {
        let name = include.strip_prefix('#').expect("only its own parts are included");
        assert!(grammar["repository"].get(name).is_some(), "{include}");
    }
}

/// The texts of the lexer's keywords and symbols.
fn fixed_tokens() -> Vec<String> {
    let source = read("frontend/src/token.rs");
    let (_, table) = source.split_once("\nfixed_tokens! {").expect("the lexer has a table of them");
    let (table, _) = table.split_once("\n}").expect("the table ends");
    let texts = table.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" "));
    texts.map(|(text, _)| text.replace("\\\\", "\\")).collect()
}

#[test]
fn the_grammar_has_all_operators_the_longest_first() {
    let grammar: Value = serde_json::from_str(&read("docs/editors/dualvm.tmLanguage.json")).unwrap();
    let pattern = grammar["repository"]["operators"]["patterns"][0]["match"].as_str().expect("one pattern has all");
    // Alternatives in which a backslash stands before what would mean something else.
    let (mut operators, mut is_escaped) = (vec![String::new()], false);
    for c in pattern.chars() {
        match c {
            '|' if !is_escaped => operators.push(String::new()),
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            _ => operators.last_mut().expect("there is always one").push(c),
        }
        is_escaped = false;
    }
    for (number, operator) in operators.iter().enumerate() {
        let shorter = operators[..number].iter().find(|before| operator.starts_with(before.as_str()));
        assert_eq!(shorter, None, "it hides {operator}");
    }
    let is_operator = |token: &String| {
        token.starts_with(|first: char| !first.is_alphanumeric() && first != '_')
            && !["(", ")", "[", "]", "[|", "|]", "{", "}", ",", "."].contains(&token.as_str())
    };
    let mut expected: Vec<String> = fixed_tokens().into_iter().filter(is_operator).collect();
    expected.sort();
    operators.sort();
    assert_eq!(operators, expected);
}
