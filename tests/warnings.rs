//! What programs are warned of, that the repository's own programs aren't, and that commands say it.

#[path = "support/corpus.rs"]
mod corpus;

use dualvm::frontend::compile_with;
use dualvm::{CompileOptions, FolderImporter, MemoryImporter};
use std::path::Path;
use std::sync::Arc;

/// The warnings of a program that may import these files: line, column and message of each.
fn warnings_with(text: &str, files: &[(&str, &str)]) -> Vec<String> {
    let mut importer = MemoryImporter::default();
    files.iter().for_each(|(name, text)| importer.insert(*name, *text));
    let options = CompileOptions::default().importing(Arc::new(importer));
    let compiled = compile_with("w.dual", text, &options).unwrap_or_else(|errors| panic!("{errors}"));
    let found = compiled.warnings.list().iter().map(|warning| {
        let (source, span) = compiled.warnings.file(warning.primary.span);
        let (line, column) = source.line_and_column(span.start);
        format!("{}:{line}:{column}: {}", source.name(), warning.message)
    });
    found.collect()
}

#[track_caller]
fn warns(text: &str, expected: &[&str]) {
    assert_eq!(warnings_with(text, &[]), expected, "{text}");
}

#[test]
fn names_that_nothing_uses_are_told() {
    warns("def f (x : Real) (y : Real) = x", &["w.dual:1:19: the parameter `y` is never used"]);
    warns("def f (x : Real) (_y : Real) = x", &[]);
    warns("def f (x : Real) = let y = x in let _z = y in x", &[]);
    warns("def f (x : Real) = let y = x in x", &["w.dual:1:24: the variable `y` is never used"]);
    // Another variable of the same name is another one.
    warns("def f (x : Real) = let x = 1.0 in x", &["w.dual:1:8: the parameter `x` is never used"]);
    warns("def f (x : Real) = let g y = x + y in x", &["w.dual:1:24: the function `g` is never used"]);
    let recursive = "def f (x : Real) = let g n = if n > 0 then g (n - 1) else x in x";
    warns(recursive, &["w.dual:1:24: the function `g` is never used"]);
    warns("def f (x : Real) = map (\\y -> x) [x]", &["w.dual:1:26: the parameter `y` is never used"]);
    warns("def f (x : Real) = loop s = x for i < 3 do s * x", &["w.dual:1:35: the variable `i` is never used"]);
    warns("def f (x : Real) = loop s = x for _ < 3 do s * x", &[]);
    warns(
        "def f (n : Int) = [| 1.0 for i < n, j < n |]",
        &["w.dual:1:30: the variable `i` is never used", "w.dual:1:37: the variable `j` is never used"],
    );
    warns(
        "def f (p : (Real, Real)) = let whole @ (a, _) = p in a",
        &["w.dual:1:32: the variable `whole` is never used"],
    );
    warns(
        "def f (p : { x : Real, y : Real }) = let { x, y } = p in x",
        &["w.dual:1:47: the variable `y` is never used"],
    );
    warns(
        "type T = A Int | B Int\ndef f t = match t with (A n | B n) -> 1",
        &["w.dual:2:27: the variable `n` is never used"],
    );
}

#[test]
fn private_definitions_and_imports_that_nothing_uses_are_told() {
    warns("private def g x = x + 1.0\ndef f (x : Real) = g x", &[]);
    // That another unused one, or it itself, mentions a definition is no use.
    let text = "private def g x = h x\nprivate def h (x : Real) = if x > 0 then g (x - 1) else x\ndef f (x : Real) = x";
    let unused = |line, name| format!("w.dual:{line}:13: the private definition `{name}` is never used");
    warns(text, &[&unused(1, "g"), &unused(2, "h")]);

    let module = "type Shape = Circle Real | Point\ndef area s = match s with Circle r -> pi * r ^ 2 | Point -> 0\n\
                  private def spare (x : Real) = x\ndef twice (x : Real) = 2 * x";
    let warnings = |text: &str| warnings_with(text, &[("shapes", module)]);
    let spare = "shapes.dual:3:13: the private definition `spare` is never used";
    let with_spare = |text: &str, expected: &[&str]| {
        let all: Vec<&str> = expected.iter().copied().chain([spare]).collect();
        assert_eq!(warnings(text), all, "{text}");
    };
    with_spare("import shapes\ndef f (x : Real) = shapes.twice x", &[]);
    with_spare("import shapes\ndef f (s : shapes.Shape) = 1", &["w.dual:2:8: the parameter `s` is never used"]);
    with_spare("import shapes\ndef f (x : Real) = x", &["w.dual:1:8: the module `shapes` is imported, but never used"]);
    with_spare(
        "import shapes (twice, area)\ndef f (x : Real) = twice x",
        &["w.dual:1:23: `area` is imported, but never used"],
    );
    with_spare(
        "import shapes (twice)\ndef f (x : Real) = let twice = x in twice",
        &["w.dual:1:8: the module `shapes` is imported, but never used"],
    );
    // A type comes with its constructors.
    with_spare("import shapes (Shape)\ndef f (x : Real) = shapes.area (Circle x)", &[]);
    with_spare(
        "import shapes (Shape)\ndef f x = shapes.twice x",
        &["w.dual:1:16: `Shape` is imported, but never used"],
    );
}

#[test]
fn quotients_of_integers_in_place_of_reals_are_told() {
    warns(
        "def f (n : Int) = to_real (n / 3)",
        &["w.dual:1:28: this quotient of integers is rounded before it becomes a `Real`"],
    );
    warns("def f (n : Int) = to_real n / 3", &[]);
    warns("def f (n : Int) = let half = n / 2 in to_real half", &[]);
    warns("def f (x : Real) = x ^ (1 / 2 : Int)", &["w.dual:1:25: `1 / 2` is 0: integers are divided here"]);
    warns(
        "def f (x : Real) (n : Int) = x ^ (n / 2)",
        &["w.dual:1:35: this quotient of integers is rounded before it is an exponent"],
    );
    warns("def f (x : Real) = 1 / 2 * x", &[]);
    warns("def f (n : Int) = 7 / 2 * n", &["w.dual:1:19: `7 / 2` is 3: integers are divided here"]);
    warns("def f (n : Int) = 6 / 2 * n", &[]);
    assert!(compile_with("w.dual", "def f (n : Int) = 1 / 0 * n", &CompileOptions::default()).is_ok());
}

#[test]
fn comparisons_that_look_like_assignments_are_told() {
    let told = "`<-` is a comparison with a negative value";
    warns("def f (a : Array Real) = a[0] <- 1", &[&format!("w.dual:1:31: {told}")]);
    warns("def f (n : Int) = [| 1.0 for _ <- n + 3 |]", &[&format!("w.dual:1:32: {told}")]);
    warns("def f (x : Real) = (x < -1, x <-1, x<- 1, x < - 1, (x <(- 1)))", &[]);
}

#[test]
fn indices_that_count_from_the_end_are_told() {
    let told = |column: u32| format!("w.dual:1:{column}: a negative index is out of bounds");
    warns("def f (xs : Array Real) = xs[-1] + xs[- 2]", &[&told(30), &told(39)]);
    warns("def f (xs : List Real) = xs[-3 .. -1]", &[&told(29), &told(35)]);
    warns("def f (m : Matrix Real) = (m[0, -1], m[-2 .., 0])", &[&told(33), &told(40)]);
    warns("def f (xs : Array Real) = { xs with [-1] = 0 }", &[&told(38)]);
    warns("def f (xs : Array Real) (i : Int) = xs[-i] + xs[-1 + i] + xs[length xs - 1] + xs[-0]", &[]);
    let compiled = compile_with("w.dual", "def f (xs : List Real) = xs[-1]", &CompileOptions::default()).unwrap();
    let help = &compiled.warnings.list()[0].help;
    assert_eq!(help[..], ["the last element is `xs[length xs - 1]` or `last xs`"]);
    let compiled = compile_with("w.dual", "def f (m : Matrix Real) = m[0, -2]", &CompileOptions::default()).unwrap();
    assert_eq!(compiled.warnings.list()[0].help[..], ["counted from the end it is `columns m - 2`"]);
}

#[test]
fn programs_of_the_repository_are_free_of_warnings() {
    let options = CompileOptions::default().importing(Arc::new(FolderImporter::default()));
    let (mut count, mut told) = (0, Vec::new());
    for (path, text) in corpus::files() {
        let shown = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(&path);
        if !shown.starts_with("examples") && !shown.starts_with("benches") {
            continue;
        }
        let compiled = match compile_with(&path.display().to_string(), &text, &options) {
            Ok(compiled) => compiled,
            // Some are completed by others.
            Err(_) if shown.starts_with("benches/gradbench") => continue,
            Err(errors) => panic!("{errors}"),
        };
        count += 1;
        if !compiled.warnings.list().is_empty() {
            told.push(compiled.warnings.to_string());
        }
    }
    assert!(count > 40, "only {count} programs were found");
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn commands_write_warnings_to_stderr_unless_they_are_quiet() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warned.dual");
    std::fs::write(&path, "def f (x : Real) = let unused = x in x * x\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dualvm"));
        let output = command.arg(args[0]).arg(&path).args(&args[1..]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for args in [&["check"][..], &["run", "f", "2"], &["grad", "f", "2"], &["verify"]] {
        let (stdout, stderr) = run(args);
        assert!(stderr.starts_with("warning: the variable `unused` is never used\n"), "{stderr}");
        assert!(stderr.contains("warned.dual:1:24"), "{stderr}");
        let quiet: Vec<&str> = args.iter().copied().chain(["--quiet"]).collect();
        assert_eq!(run(&quiet), (stdout, String::new()));
    }
}
