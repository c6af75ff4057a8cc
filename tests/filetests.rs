//! Programs as data: each `.dvs` below `tests/filetests` says what it gives, and gives it on every engine.
//!
//! `DUALVM_BLESS=1` rewrites what the files expect. `DUALVM_FILES=part` runs those with this in their path.

#[path = "support/program.rs"]
mod program;
mod support;

use program::Workspace;
use std::path::{Path, PathBuf};
use support::engines::Engines;
use support::filetest::{Report, check};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Files are dealt out to so many threads, however many cores there are: which engine has run what before is the same
/// on every machine.
const THREADS: usize = 4;

/// All files below a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut left, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("the folder can be read");
            left.extend(entries.map(|entry| entry.expect("entries can be read").path()));
        } else {
            assert!(path.extension().is_some_and(|extension| extension == "dvs"), "{} is no test", path.display());
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Tests a file, and corrects it if that is asked for; then only what can't be corrected is a failure.
fn test(path: &Path, engines: &mut Engines, bless: bool) -> (usize, Vec<String>) {
    let name = path.strip_prefix(ROOT).unwrap_or(path).display().to_string();
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let Report { expectations, wrong, mut failures, corrected } = check(&name, &text, engines);
    if !bless {
        failures.extend(wrong);
    } else if corrected != text {
        std::fs::write(path, corrected).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    (expectations, failures)
}

/// Tests some of the files, on a stack on which the reference recurses as deep as the programs.
fn test_all(files: &[PathBuf], bless: bool) -> (usize, Vec<String>) {
    const STACK_BYTES: usize = 1 << 30;
    let some = |first: usize| {
        let mut engines = Engines::all();
        let (mut count, mut failures) = (0, Vec::new());
        for path in files.iter().skip(first).step_by(THREADS) {
            let (expectations, failed) = test(path, &mut engines, bless);
            count += expectations;
            failures.extend(failed);
        }
        (count, failures)
    };
    std::thread::scope(|scope| {
        let start =
            |first| std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, move || some(first));
        let threads: Vec<_> = (0..THREADS).map(|first| start(first).expect("a thread can be started")).collect();
        threads.into_iter().fold((0, Vec::new()), |(count, mut failures), thread| {
            let (more, failed) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            failures.extend(failed);
            (count + more, failures)
        })
    })
}

#[test]
fn every_file_gives_what_it_says() {
    let mut files = files(&Path::new(ROOT).join("tests/filetests"));
    if let Ok(part) = std::env::var("DUALVM_FILES") {
        files.retain(|path| path.display().to_string().contains(&part));
    }
    assert!(!files.is_empty(), "there are tests");
    let bless = std::env::var_os("DUALVM_BLESS").is_some_and(|value| value == "1");
    let (expectations, mut failures) = test_all(&files, bless);
    failures.sort();
    println!("{} files, {expectations} expectations", files.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn the_example_in_the_readme_is_a_test() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("tests/README.md")).expect("there is a README");
    let example: String = page
        .lines()
        .skip_while(|line| !line.starts_with("    ;"))
        .map_while(|line| line.strip_prefix("    "))
        .flat_map(|line| [line, "\n"])
        .collect();
    let Report { expectations, wrong, failures, .. } = check("README.md", &example, &mut Engines::all());
    assert_eq!((expectations, wrong, failures), (3, vec![], vec![]));
}

// The runner itself.

/// `f` is x · y, and `g` traps.
const PROGRAM: &str = "\
func \"f\" (real, real) -> (real)
  regs 3 real
{
  mul r2, r0, r1 ; no directive; nothing but a comment
  ret (r2)
}
func \"g\" (int) -> (int)
  regs 1 int
{
  trap \"a message; with a semicolon\" ; here
}
";

fn report(text: &str) -> Report {
    check("test.dvs", text, &mut Engines::all())
}

/// What is said of a program with comments behind it.
fn failures(comments: &str) -> Vec<String> {
    let report = report(&format!("{PROGRAM}{comments}"));
    [report.failures, report.wrong].concat()
}

#[test]
fn what_is_right_passes() {
    let right = "\
; run: f(2, -1.5) == -3
; run: f(0, -1) == -0.0
; run: f(nan, inf) == nan
; grad: f(2.0, 3.0) == (6.0, [3.0,
;   2.0])
; jacobian: f(2.0, 3.0) == (6.0, [[3.0, 2.0]])
; tape: f(2.0, 3.0) == records 1, slots 3, bytes 32
; trap: g(1) == a message; with a semicolon
;   in g at instruction 0
";
    assert_eq!(failures(right), [""; 0]);
    assert_eq!(report(&format!("{PROGRAM}{right}")).expectations, 7);
}

#[test]
fn a_wrong_expectation_fails_at_its_line() {
    for (wrong, found) in [
        ("run: f(2.0, 3.0) == 6.000000000000001", "6.0"),
        ("run: f(0.0, -1.0) == 0.0", "-0.0"),
        ("run: f(2.0, 3.0) == (6.0, 6.0)", "6.0"),
        ("run: f(2.0, 3.0) == what is no value", "6.0"),
        ("grad: f(2.0, 3.0) == (6.0, [2.0, 3.0])", "(6.0, [3.0, 2.0])"),
        ("grad: f(2.0, 3.0) == (6.0, [3.0])", "(6.0, [3.0, 2.0])"),
        ("jacobian: f(2.0, 3.0) == (6.0, [])", "(6.0, [[3.0, 2.0]])"),
        ("tape: f(2.0, 3.0) == records 2, slots 3, bytes 32", "records 1, slots 3, bytes 32"),
        ("trap: g(1) == another message", "a message; with a semicolon\n  in g at instruction 0"),
    ] {
        let (_, expected) = wrong.split_once(" == ").expect("an expectation");
        let all = failures(&format!("; run: f(1.0, 1.0) == 1.0\n; {wrong}\n"));
        assert_eq!(all, [format!("test.dvs:13: expected {expected}\n  found {found}")]);
    }
}

#[test]
fn an_error_or_a_trap_that_does_not_come_fails_and_so_does_one_that_comes_unexpected() {
    let cases = [
        ("; trap: f(2.0, 3.0) == a message", "test.dvs:12: expected a trap in mode Call, found 6.0"),
        ("; run: g(1) == 1", "test.dvs:12: it traps: a message; with a semicolon\n  in g at instruction 0"),
        ("; error: a message\n; run: f(2, 3) == 6", "test.dvs:12: expected an error, and it is accepted"),
        ("bad ; run: f(2, 3) == 6", "test.dvs:12: `run` takes a line of its own"),
    ];
    for (comment, expected) in cases {
        assert_eq!(failures(&format!("{comment}\n")), [expected]);
    }
    let refused = |code: &str| report(&format!("func \"f\" (real) -> (real) regs 1 real\n{{\n{code}\n}}\n")).failures;
    let accepted = "  ret (r0) ; error: a message";
    assert_eq!(
        refused(&accepted.replace("ret", "sin r0, r0\n  ret")),
        ["test.dvs:4: expected an error, and it is accepted"]
    );
    assert!(refused("  rett (r0)\n; run: f(1) == 1")[0].starts_with("test.dvs:3: an error: there is no instruction"));
    assert!(refused("  ret (i0)\n; run: f(1) == 1")[0].starts_with("test.dvs:3: an error: there is no such register"));
}

#[test]
fn what_is_no_expectation_fails() {
    for (comments, expected) in [
        ("", "the file expects nothing"),
        ("; ruin: f(1, 2) == 2", "there is no expectation `ruin`"),
        ("; modes: call", "there is no expectation `modes`"),
        ("; run: f(1, 2)", "expected `==`, found the end"),
        ("; run: f(1, 2 == 2", "expected `,`, found `== 2`"),
        ("; run: f(1, x) == 2", "expected a value, found `x) == 2`"),
        ("; run: k(1, 2) == 2", "there is no function `k`"),
        ("; [mirrored] run: f(1, 2) == 2", "the header has no variant `mirrored`"),
        ("func \"h\" (int) -> (int) regs 1 int { ret (i0) }\n; grad: h(1) == (1, [null])", "`h`"),
    ] {
        let all = failures(&format!("{comments}\n"));
        assert!(all.len() == 1 && all[0].contains(expected), "{comments}: {all:?}");
    }
    for (header, expected) in [
        ("nodes: call", "there is no directive `nodes`"),
        ("modes: calls", "there is no mode `calls`"),
        ("modes: gradient", "the header leaves out"),
        ("limits: feul 1", "there is no limit `feul`"),
        ("limits: fuel much", "expected a number, found `much`"),
        ("engines: steam", "there is no engine `steam`"),
        ("reference: none", "expected `reference: none,` and why"),
    ] {
        let report = report(&format!("; {header}\n{PROGRAM}; run: f(1, 2) == 2\n"));
        assert!(report.failures.len() == 1 && report.failures[0].contains(expected), "{header}: {:?}", report.failures);
    }
}

#[test]
fn limits_engines_and_modes_are_those_of_the_header() {
    let text = format!("; limits: fuel 1\n; engines: native\n; modes: call\n{PROGRAM}; trap: f(1, 2) == out of fuel\n");
    let report = report(&text);
    assert_eq!(
        (&*report.failures, &*report.wrong),
        (&[][..], &["test.dvs:15: expected out of fuel\n  found out of fuel\n  in f at instruction 1".to_owned()][..])
    );
}

#[test]
fn every_variant_is_run_and_those_that_differ_fail() {
    let text = |same: &str| {
        format!(
            "; variants: product, sum\nfunc \"f\" (real, real) -> (real) regs 2 real\n{{\n  mul r0, r0, r1 ; [product]\n  \
             add r0, r0, r1 ; [sum]\n  ret (r0)\n}}\n; run: f(2, 2) == {same}\n; [product] run: f(2, 3) == 6\n; [sum] \
             run: f(2, 3) == 5\n"
        )
    };
    let Report { failures, wrong, .. } = report(&text("4"));
    assert_eq!((failures, wrong), (vec![], vec![]));
    let differ = report(&text("4").replace("f(2, 2)", "f(2, 1)"));
    assert_eq!(differ.failures, ["test.dvs:8: [sum] found 3.0\n  other variants 2.0"]);
    assert_eq!(differ.corrected, text("4").replace("f(2, 2)", "f(2, 1)"));
}

/// The reference is asked about what engines agree on: as if they were wrong together, it is asked about another
/// function.
#[test]
fn the_reference_objects_to_another_value_another_derivative_and_another_trap() {
    use dualvm_vm::engine::Limits;
    use support::engines::Mode;
    use support::filetest::{found::Outcomes, literal, second};
    let text = |op: &str| format!("func \"f\" (real, int) -> (real)\n regs 1 real, 1 int\n{{\n {op}\n ret (r0)\n}}\n");
    let objection = |engines: &str, reference: &str, n: i64| {
        let load = |op: &str| {
            let mut def = support::assemble(&text(op));
            support::export_missing(&mut def);
            def
        };
        let (call, _) = literal::call(&format!("f(0.5, {n}) ==")).expect("a call");
        let loaded = Engines::all().load(&load(engines), 0).expect("a module");
        let run = |mode| (mode, loaded.run("f", &call.args, mode, &Limits::default()).expect("the engines agree"));
        let outcomes = Outcomes(vec![run(Mode::Call), run(Mode::Gradient)]);
        let def = load(reference);
        let interface = def.functions[0].interface.as_ref().expect("exported");
        second::check(&def, interface, &call, &outcomes).err().unwrap_or_default()
    };
    assert_eq!(objection("sin r0, r0", "sin r0, r0", 1), "");
    assert!(objection("sin r0, r0", "cos r0, r0", 1).starts_with("Call: the reference gives [0.87"));
    assert!(objection("sin r0, r0", "sin r0, r0\n mov r0, r0", 1).starts_with("the reference takes 3 steps"));
    // Of the same value, but constant.
    let constant = objection("add r0, r0, r0", "const r0, 1.0", 1);
    assert!(constant.starts_with("derivative 0 of real 0: reverse mode gives 0.0, the engines 2.0"), "{constant}");
    assert_eq!(objection("idiv i0, i0, i0", "idiv i0, i0, i0", 0), "");
    let none = objection("idiv i0, i0, i0", "imul i0, i0, i0", 0);
    assert!(none.starts_with("Call: the reference comes to its end, the engines found Trap"), "{none}");
    let other = objection("idiv i0, i0, i0", "const r0, nan\n to_int i0, r0", 0);
    assert!(other.starts_with("the reference stops with NotAnInteger(NaN), the engines found Trap"), "{other}");
    let none = objection("imul i0, i0, i0", "idiv i0, i0, i0", 0);
    assert!(
        none.starts_with("the reference stops with DivisionByZero { dividend: 0, is_remainder: false }, the engines"),
        "{none}"
    );
}

#[test]
fn blessing_rewrites_what_is_expected_and_nothing_else() {
    let before = "\
; A comment == with signs that expectations have: it stays.
; variants: here, there

type  t0 = array real ; spaces   stay
func \"f\" (t0) -> (t0) regs t0
{
  ; run: f([1.5]) == [2.5] and more
  ret (p0)
}
;   prose that is indented
; run: f([1.0,2]) ==   [1, 2]
;run: this is no directive
; run: f([]) == [0.0]
;   , [1.0],
;   [2.0]
; [here] grad: k([1.0, 2.0]) == ?

func \"k\" (t0) -> (real)
  regs 1 real, 3 int, t0
{
  iconst i1, 123456789   ; [there]
  len i1, p0 ; [here]
  iconst i2, 1
  isub i1, i1, i2
  elem r0, p0, i1
  ret (r0)
}
; [there] trap: k([1.0, 2.0]) == ?
; run: f([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]) == []
; [here] run: k([]) == 0.0
";
    let after = "\
; A comment == with signs that expectations have: it stays.
; variants: here, there

type  t0 = array real ; spaces   stay
func \"f\" (t0) -> (t0) regs t0
{
  ; run: f([1.5]) == [1.5]
  ret (p0)
}
;   prose that is indented
; run: f([1.0,2]) ==   [1, 2]
;run: this is no directive
; run: f([]) == []
; [here] grad: k([1.0, 2.0]) == (2.0, [[0.0, 1.0]])

func \"k\" (t0) -> (real)
  regs 1 real, 3 int, t0
{
  iconst i1, 123456789   ; [there]
  len i1, p0 ; [here]
  iconst i2, 1
  isub i1, i1, i2
  elem r0, p0, i1
  ret (r0)
}
; [there] trap: k([1.0, 2.0]) == index 123456788 is out of bounds of an array of length 2
;   in k at instruction 3
; run: f([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]) == [1.0, 2.0, 3.0,
;   4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]
; [here] run: k([]) == 0.0
";
    let workspace = Workspace::new("filetests_bless");
    workspace.write("test.dvs", before);
    let (path, mut engines) = (workspace.path("test.dvs"), Engines::all());
    let mut test = |bless| test(&path, &mut engines, bless);
    assert_eq!(test(false).1.len(), 6);
    assert_eq!(workspace.read("test.dvs"), before.as_bytes(), "only blessing writes");
    // What traps can't be made right.
    let (count, failures) = test(true);
    assert_eq!(count, 7);
    assert!(failures.len() == 1 && failures[0].contains("[here] it traps: index -1"), "{failures:?}");
    assert_eq!(String::from_utf8_lossy(&workspace.read("test.dvs")), after);
    assert_eq!(test(false), test(true));
}

#[test]
fn blessing_rewrites_messages_beside_code() {
    let before = "func \"f\" (real) -> (real)\n{\n  rett (r0)  ; error: ?\n  jump nowhere ; error: another\n  \
                  ;   message\n  mul i0, r0, r0 ; error: expected a real register, such as `r0`, found `i0`\n}\n";
    let after = "func \"f\" (real) -> (real)\n{\n  rett (r0)  ; error: there is no instruction `rett` (did you mean \
                 `ret`?)\n  jump nowhere ; error: label `nowhere` is nowhere in this function\n  mul i0, r0, r0 ; \
                 error: expected a real register, such as `r0`, found `i0`\n}\n";
    let report = report(before);
    assert_eq!((report.failures.len(), report.wrong.len()), (0, 2));
    assert_eq!(report.corrected, after);
}

#[test]
fn values_are_read_as_they_are_written() {
    use support::filetest::literal::{matches, value};
    for text in [
        "null",
        "-3",
        "[1.0, -0.0, inf, -inf, nan, 1e-300]",
        "(1, [], (), (true, false))",
        "{ a = 1.0, b = [null, {}] }",
        "Add (Leaf (-1.5)) (Rect { width = 1.0, height = nan })",
        "[Nothing, Some 2]",
    ] {
        let read = value(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read.to_string(), text);
        assert!(matches(&read, &read), "{text}");
    }
    for text in ["", "[1", "1 2", "(1,", "{ a }", "x", "[1.0 2.0]", "1.0.0"] {
        assert!(value(text).is_err(), "{text}");
    }
    assert!(value(&"[".repeat(1000)).is_err());
}
