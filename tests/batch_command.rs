//! `--batch`: an answer for each line, in order, whatever the threads; what fails, fails alone, and exit codes tell it.

#[path = "support/program.rs"]
mod program;

use program::Workspace;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const TEXT: &str = "\
def cube (x : Real) (n : Int) : Real =
  if n == 7 then [| x |][n] else if n == 8 then (loop y = x while y > 0 do y + 1) else x ^ 3 + to_real n
def polar (r : Real) (phi : Real) = (r * cos phi, r * sin phi)
def told (n : Int) : Int = trace \"at {n}\" n
";

fn workspace(test: &str) -> Workspace {
    let workspace = Workspace::new(test);
    workspace.write("f.dual", TEXT);
    workspace
}

#[test]
fn each_line_has_its_answer_in_order() {
    let w = workspace("batch-answers");
    let mut lines = String::new();
    let mut expected = String::new();
    for n in 0..20_000 {
        let (x, m) = (f64::from(n % 10), n % 7);
        lines += &if n % 2 == 0 { format!("[{x}, {m}]\n") } else { format!(" {{\"n\": {m}, \"x\": {x}}}\r\n\n") };
        let x2 = 3.0 * x * x;
        expected += &format!("{{\"value\":{:?},\"gradient\":[{x2:?},null]}}\n", x * x * x + f64::from(m));
    }
    // Without a newline at the end.
    lines += "[1, 2]";
    expected += "{\"value\":3.0,\"gradient\":[3.0,null]}\n";
    w.write("lines.jsonl", &lines);
    for threads in ["1", "3"] {
        let found = w.stdout(&["grad", "f.dual", "cube", "--batch", "lines.jsonl", "--threads", threads]);
        assert!(found == expected, "{}", &found[..1000]);
    }
    // As much as pipes hold, because nobody reads before all is written.
    let [some, answers] = [&lines, &expected].map(|all| all.lines().filter(|line| !line.is_empty()).take(500));
    let (some, answers): (String, String) =
        (some.map(|line| line.to_owned() + "\n").collect(), answers.map(|line| line.to_owned() + "\n").collect());
    let found = w.run_with_stdin(&["grad", "f.dual", "cube", "--batch", "-"], some.as_bytes());
    assert!(found.code == Some(0) && found.stdout == answers, "{}", found.stderr);
    w.write("empty.jsonl", "\n\n");
    assert_eq!(w.stdout(&["run", "f.dual", "cube", "--batch", "empty.jsonl"]), "");
}

#[test]
fn what_fails_fails_alone() {
    let w = workspace("batch-failures");
    w.write("lines.jsonl", "[1, 7]\n[2, 0]\n\n[1, 8]\n[3, 0]\n");
    let found = w.run(&["run", "f.dual", "cube", "--batch", "lines.jsonl", "--fuel", "100k"]);
    assert_eq!(found.code, Some(1));
    assert_eq!(
        found.stdout,
        "{\"error\":{\"kind\":\"trap\",\"message\":\"index 7 is out of bounds of an array of length 1\",\"line\":1,\
         \"calls\":[{\"function\":\"cube\",\"file\":\"f.dual\",\"line\":2,\"column\":18}]}}\n\
         {\"value\":8.0}\n\
         {\"error\":{\"kind\":\"limit\",\"message\":\"out of fuel\",\"line\":4,\
         \"calls\":[{\"function\":\"cube\",\"file\":\"f.dual\",\"line\":2,\"column\":67}]}}\n\
         {\"value\":27.0}\n"
    );
    let first = "2 of 4 calls trapped or reached a limit; the first is that of line 1:\ntrap: index 7 is out of bounds";
    assert!(found.stderr.starts_with(first), "{}", found.stderr);

    w.write("lines.jsonl", "[1, 7]\n[2, true]\n[\"é\", 1.5]\n[3, 0]\n[1\n[1, 2] 3\n{\"x\": 1}\n");
    let found = w.run(&["run", "f.dual", "cube", "--batch", "lines.jsonl"]);
    assert_eq!(found.code, Some(2));
    let answers: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(answers.len(), 7, "{}", found.stdout);
    assert!(answers[0].starts_with("{\"error\":{\"kind\":\"trap\""));
    assert_eq!(
        answers[1],
        "{\"error\":{\"kind\":\"input\",\"message\":\"argument n: expected Int, found boolean `true`\",\
         \"line\":2,\"column\":8}}"
    );
    // In characters.
    assert!(answers[2].contains("argument x: expected Real") && answers[2].contains("\"line\":3,\"column\":4"));
    assert_eq!(answers[3], "{\"value\":27.0}");
    for (n, answer) in answers.iter().enumerate().skip(4) {
        assert!(answer.starts_with("{\"error\":{\"kind\":\"input\""), "{answer}");
        assert!(answer.contains(&format!("\"line\":{}", n + 1)), "{answer}");
    }
    // What is missing is missing where the line ends.
    assert!(answers[4].contains("\"line\":5,\"column\":2"), "{}", answers[4]);
    let place = "error: lines.jsonl:2:8: argument n: expected Int, found boolean `true`\n  help: ";
    assert!(found.stderr.contains("1 of 7 calls trapped") && found.stderr.contains(place), "{}", found.stderr);
    assert!(
        found.stderr.contains("cube : (x : Real, n : Int) -> Real; 5 of 7 lines are like that"),
        "{}",
        found.stderr
    );
}

/// The text between a command that is shown on the page on arguments and the next one, or the end of the block.
fn shown(command: &str) -> String {
    let page = include_str!("../docs/input.md");
    let (_, rest) = page.split_once(&format!("$ {command}\n")).unwrap_or_else(|| panic!("docs/input.md: {command}"));
    let lines = rest.lines().take_while(|line| !line.starts_with("$ ") && *line != "```");
    lines.map(|line| line.to_owned() + "\n").collect()
}

#[test]
fn the_page_shows_what_is_answered() {
    let w = Workspace::new("batch-page");
    w.write("model.dual", shown("cat model.dual"));
    w.write("cases.jsonl", shown("cat cases.jsonl"));
    assert_eq!(w.stdout(&["check", "model.dual"]), shown("dualvm check model.dual"));
    let found = w.run(&["grad", "model.dual", "price", "--batch", "cases.jsonl"]);
    assert_eq!(found.code, Some(2), "{}", found.stderr);
    let promised = shown("dualvm grad model.dual price --batch cases.jsonl");
    assert_eq!(found.stdout.lines().count(), promised.lines().count());
    for (found, promised) in found.stdout.lines().zip(promised.lines()) {
        // The calls are left out.
        let (before, after) = promised.split_once('…').unwrap_or((promised, ""));
        assert!(found.starts_with(before) && found.ends_with(after), "{found}\n{promised}");
    }
}

#[test]
fn every_operation_takes_batches() {
    let w = workspace("batch-operations");
    w.write("lines.jsonl", "[2, 0]\n[3, 0]\n");
    let answers = |args: &[&str]| {
        let (command, rest) = args.split_first().expect("there is a command");
        w.stdout(&[&[command, "f.dual", "polar", "--batch", "lines.jsonl"], rest].concat())
    };
    assert_eq!(answers(&["run"]), "{\"value\":[2.0,0.0]}\n{\"value\":[3.0,0.0]}\n");
    assert_eq!(
        answers(&["jvp", "--wrt", "phi", "--tangent", "1"]),
        "{\"value\":[2.0,0.0],\"tangent\":[0.0,2.0]}\n{\"value\":[3.0,0.0],\"tangent\":[0.0,3.0]}\n"
    );
    assert_eq!(
        answers(&["vjp", "--cotangent", "(1, 10)"]),
        "{\"value\":[2.0,0.0],\"gradient\":[1.0,20.0]}\n{\"value\":[3.0,0.0],\"gradient\":[1.0,30.0]}\n"
    );
    let alone = |command: &str, name: &str, args: &[&str]| {
        w.stdout(&[&[command, "f.dual", name, "--format", "json"], args].concat())
    };
    assert_eq!(
        answers(&["jacobian"]),
        alone("jacobian", "polar", &["2", "0"]) + &alone("jacobian", "polar", &["3", "0"])
    );
    w.write("lines.jsonl", "[2, 5]\n");
    let batch = |command: &str, more: &[&str]| {
        w.stdout(&[&[command, "f.dual", "cube", "--batch", "lines.jsonl"], more].concat())
    };
    assert_eq!(batch("hessian", &[]), alone("hessian", "cube", &["2", "5"]));
    let tangents = ["--tangent", "1", "--tangent", "null"];
    assert_eq!(batch("hvp", &tangents), alone("hvp", "cube", &[&["2", "5"], &tangents[..]].concat()));
    assert_eq!(batch("grad", &["--table"]), alone("grad", "cube", &["2", "5", "--table"]));
    let found = w.run(&["grad", "f.dual", "polar", "--batch", "lines.jsonl"]);
    assert!(found.code == Some(2) && found.stdout.is_empty(), "{}", found.stdout);
    assert!(found.stderr.contains("a gradient needs a function that returns one Real"), "{}", found.stderr);
}

#[test]
fn what_does_not_go_with_a_batch_is_refused() {
    let w = workspace("batch-refused");
    w.write("lines.jsonl", "[2, 0]\n");
    for (more, message) in [
        (&["2", "0"][..], "found arguments on the command line and --batch: 2 0"),
        (&["--input", "lines.jsonl"], "cannot be used with"),
        (&["--stats"], "cannot be used with"),
        (&["--warn-kinks"], "cannot be used with"),
        (&["--format", "text"], "cannot be used with"),
        (&["--precision", "3"], "cannot be used with"),
    ] {
        let found = w.run(&[&["run", "f.dual", "cube", "--batch", "lines.jsonl"], more].concat());
        assert!(found.code == Some(2) && found.stderr.contains(message), "{}", found.stderr);
    }
    let found = w.run(&["run", "f.dual", "cube", "--batch", "nowhere.jsonl"]);
    assert!(found.code == Some(2) && found.stderr.contains("can't read nowhere.jsonl"), "{}", found.stderr);
    let found = w.run_with_stdin(&["run", "-", "cube", "--batch", "-"], TEXT.as_bytes());
    assert!(found.code == Some(2) && found.stderr.contains("can't both be stdin"), "{}", found.stderr);
}

#[test]
fn traces_come_in_order_and_may_be_left_out() {
    let w = workspace("batch-traces");
    let lines: String = (0..100).map(|n| format!("[{n}]\n")).collect();
    let expected: String = (0..100).map(|n| format!("f.dual:4:28: at {n}\n")).collect();
    let args = ["run", "f.dual", "told", "--batch", "-", "--threads", "3"];
    assert_eq!(w.run_with_stdin(&args, lines.as_bytes()).stderr, expected);
    let quiet = w.run_with_stdin(&[&args[..], &["--no-trace"]].concat(), lines.as_bytes());
    assert_eq!((quiet.stderr.as_str(), quiet.stdout.lines().count()), ("", 100));
}

#[test]
fn who_writes_a_line_and_waits_gets_its_answer() {
    let w = workspace("batch-pipe");
    let mut command = w.command(&["run", "f.dual", "cube", "--batch", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut from = BufReader::new(from).lines();
    for n in 0..5 {
        writeln!(to, "[{n}, 1]").unwrap();
        let value = f64::from(n).powi(3) + 1.0;
        assert_eq!(from.next().expect("there is an answer").unwrap(), format!("{{\"value\":{value:?}}}"));
    }
    drop(to);
    assert!(from.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
