//! `dualvm fmt`: files in place, stdin, `--check`, and what it says of files that it can't format.

#[path = "support/program.rs"]
mod program;

use program::Workspace;

const MESSY: &str = "def f (x:Real)=x^2   -- a square\n\n\n\ndef g=1";
const TIDY: &str = "def f (x : Real) = x ^ 2 -- a square\n\ndef g = 1\n";

#[test]
fn files_are_formatted_in_place() {
    let workspace = Workspace::new("fmt_in_place");
    workspace.write("a.dual", MESSY);
    workspace.write("b.dual", TIDY);
    let untouched = std::fs::metadata(workspace.path("b.dual")).unwrap().modified().unwrap();
    assert_eq!(workspace.stdout(&["fmt", "a.dual", "b.dual"]), "");
    assert_eq!(workspace.read("a.dual"), TIDY.as_bytes());
    assert_eq!(std::fs::metadata(workspace.path("b.dual")).unwrap().modified().unwrap(), untouched);
}

#[test]
fn stdin_is_formatted_to_stdout() {
    let workspace = Workspace::new("fmt_stdin");
    let finished = workspace.run_with_stdin(&["fmt", "-"], MESSY.as_bytes());
    assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (Some(0), TIDY, ""));
}

#[test]
fn check_lists_what_is_not_formatted_and_changes_nothing() {
    let workspace = Workspace::new("fmt_check");
    workspace.write("a.dual", MESSY);
    workspace.write("b.dual", TIDY);
    let finished = workspace.run(&["fmt", "--check", "a.dual", "b.dual"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), "a.dual\n"));
    assert_eq!(finished.stderr, "1 file isn't formatted\n");
    assert_eq!(workspace.read("a.dual"), MESSY.as_bytes());
    assert_eq!(workspace.stdout(&["fmt", "--check", "b.dual"]), "");
    let finished = workspace.run_with_stdin(&["fmt", "--check", "-"], MESSY.as_bytes());
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), "<stdin>\n"));
}

#[test]
fn what_is_wrong_with_a_file_is_said_and_the_others_are_formatted() {
    let workspace = Workspace::new("fmt_wrong");
    workspace.write("wrong.dual", "def f = (1\n");
    workspace.write("bytes.dual", b"def f = 1 -- \xff\n");
    workspace.write("code.dvs", "; assembly\ndualvm 1\n");
    workspace.write("a.dual", MESSY);
    let finished = workspace.run(&["fmt", "wrong.dual", "bytes.dual", "code.dvs", "missing.dual", "a.dual"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""));
    for said in ["wrong.dual:1:12", "bytes.dual", "code.dvs: expected a program", "can't read missing.dual"] {
        assert!(finished.stderr.contains(said), "{said}: {}", finished.stderr);
    }
    assert_eq!(workspace.read("wrong.dual"), b"def f = (1\n");
    assert_eq!(workspace.read("a.dual"), TIDY.as_bytes());
}
