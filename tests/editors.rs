//! The grammar for editors knows the language's words.

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
    let mut includes = Vec::new();
    texts(&grammar, "include", &mut includes);
    for include in includes {
        let name = include.strip_prefix('#').expect("only its own parts are included");
        assert!(grammar["repository"].get(name).is_some(), "{include}");
    }
}
