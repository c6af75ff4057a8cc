//! How programs are laid out: each `format/*.input` becomes the `.expected` beside it. What holds for all programs is
//! tested in `tests/format.rs` of the repository.
//!
//! `UPDATE_EXPECTED=1 cargo test -p dualvm-frontend --test format` rewrites them; read the difference.

use dualvm_frontend::format;
use std::fs;
use std::path::Path;

#[test]
fn programs_are_laid_out_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format");
    let entries = fs::read_dir(folder).expect("the folder of programs is beside this test");
    let mut programs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    programs.retain(|path| path.extension().is_some_and(|extension| extension == "input"));
    programs.sort();
    assert!(programs.len() >= 3);
    let mut different = Vec::new();
    for path in programs {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let found = format(&name, &fs::read_to_string(&path).unwrap()).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(format(&name, &found).as_ref(), Ok(&found), "{name} changes the second time");
        let expected = path.with_extension("expected");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&expected, &found).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != found {
            different.push(format!("{name}:\n{found}"));
        }
    }
    assert!(different.is_empty(), "layouts differ from what is expected:\n\n{}", different.join("\n"));
}

#[test]
fn programs_with_mistakes_in_their_syntax_are_refused() {
    let errors = format("f.dual", "def f x = (x\ndef g = 1").unwrap_err();
    assert!(errors.to_string().contains("f.dual:2:1"), "{errors}");
    // What names mean, and types, make no difference.
    let text = "import nowhere\ndef f = 1+true+unknown";
    assert_eq!(format("f.dual", text).unwrap(), "import nowhere\ndef f = 1 + true + unknown\n");
}

#[test]
fn empty_texts_and_texts_of_comments_are_programs() {
    assert_eq!(format("f.dual", "").unwrap(), "");
    assert_eq!(format("f.dual", " \n\n").unwrap(), "");
    assert_eq!(format("f.dual", "\n-- a\n\n\n--b").unwrap(), "-- a\n\n--b\n");
}

#[test]
fn line_ends_are_those_of_the_text() {
    assert_eq!(
        format("f.dual", "def f = 1 -- one\r\ndef g =\r\n 2").unwrap(),
        "def f = 1 -- one\r\ndef g =\r\n  2\r\n"
    );
    // A byte order mark is no part of a program.
    assert_eq!(format("f.dual", "\u{feff}def f = 1\n").unwrap(), "def f = 1\n");
}

#[test]
fn columns_are_counted_in_characters() {
    let line = format!("def fg = [{}]\n", vec!["σ"; 37].join(", "));
    assert_eq!(line.trim_end().chars().count(), 120);
    assert_eq!(format("f.dual", &line).unwrap(), line);
    assert!(format("f.dual", &line.replace("fg =", "fgh =")).unwrap().lines().count() > 1);
}
