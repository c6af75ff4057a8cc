//! `--trap-nan` and `--warn-kinks` of the `dualvm` program: what they print where, and exit codes.

#[path = "support/program.rs"]
mod program;

use program::Workspace;

const SLOPE: &str = "def slope (xs : Array Real) (y : Real) : Real =\n  sum [| log (x - y) for x in xs |]\n";
const HINGE: &str = "def hinge (xs : Array Real) : Real = sum [| max 0 (1 - x) for x in xs |]\n";

#[test]
fn a_number_that_is_not_finite_is_named_with_its_source_line() {
    let w = Workspace::new("trap-nan");
    w.write("slope.dual", SLOPE);
    let expected = "trap: log(0.0) is -inf
  at slope.dual:2:10, round 1 of the loop at 2:7
    2 |   sum [| log (x - y) for x in xs |]
      |          ^
  0.0 = 2.0 - 2.0 at slope.dual:2:15, round 1 of the loop at 2:7
  2.0 = argument xs[1]
  in slope at slope.dual:2:10
";
    let tangents = ["--tangent", "[1, 1, 1]", "--tangent", "0"];
    for (command, more) in [
        ("run", &[][..]),
        ("grad", &[]),
        ("jvp", &tangents),
        ("hvp", &tangents),
        ("vjp", &["--cotangent", "1"]),
        ("jacobian", &[]),
        ("hessian", &[]),
    ] {
        let args = [&[command, "slope.dual", "slope", "[3, 2, 5]", "2", "--trap-nan"], more].concat();
        let finished = w.run(&args);
        assert_eq!((finished.code, &*finished.stdout), (Some(1), ""), "{command}");
        // With tangents, these are told, too.
        let lines = finished.stderr.lines().filter(|line| !line.starts_with("  the tangent of"));
        assert_eq!(lines.collect::<Vec<_>>(), expected.lines().collect::<Vec<_>>(), "{command}: {}", finished.stderr);
        let without = w.run(&args.iter().copied().filter(|word| *word != "--trap-nan").collect::<Vec<_>>());
        assert_eq!(without.code, Some(0), "{command}: {}", without.stderr);
    }
}

#[test]
fn bytecode_is_looked_at_too() {
    let w = Workspace::new("trap-nan-bytecode");
    w.write("slope.dual", SLOPE);
    assert_eq!(w.run(&["build", "slope.dual"]).code, Some(0));
    let finished = w.run(&["grad", "slope.dvbc", "slope", "[3, 2, 5]", "2", "--trap-nan"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.starts_with("trap: log(0.0) is -inf\n"), "{}", finished.stderr);
    assert!(finished.stderr.contains("\n  2.0 = argument xs[1]\n"), "{}", finished.stderr);
}

#[test]
fn what_stays_finite_prints_what_it_always_does() {
    let w = Workspace::new("trap-nan-passes");
    w.write("root.dual", "def root (x : Real) : Real = if x > 0 then sqrt x else 0\n");
    let finished = w.run(&["grad", "root.dual", "0", "--trap-nan", "--warn-kinks=1e-3"]);
    assert_eq!((finished.code, &*finished.stdout), (Some(0), "value  = 0.0\ngradient:\n  x    = 0.0\n"));
    let expected =
        "kinks: 1 place near a point where a derivative changes\n  root.dual:1:33  lt      1 time, nearest 0.0\n";
    assert_eq!(finished.stderr, expected);
}

#[test]
fn kinks_are_listed_on_stderr_and_change_nothing_else() {
    let w = Workspace::new("warn-kinks");
    w.write("hinge.dual", HINGE);
    let plain = w.run(&["grad", "hinge.dual", "[0.5, 1, 2, 1.0000001]"]);
    let warned = w.run(&["grad", "hinge.dual", "[0.5, 1, 2, 1.0000001]", "--warn-kinks"]);
    assert_eq!((warned.code, &warned.stdout), (Some(0), &plain.stdout));
    let table = |count, nearest| {
        let place = "kinks: 1 place near a point where a derivative changes\n  hinge.dual:1:45  max     ";
        format!("{place}{count}, nearest {nearest}\n")
    };
    assert_eq!(warned.stderr, table("1 time", "0.0"));
    let wider = w.run(&["run", "hinge.dual", "[0.5, 1, 2, 1.0000001]", "--warn-kinks=1e-6"]);
    assert_eq!(wider.stderr, table("2 times", "0.0"));
    let none = w.run(&["run", "hinge.dual", "[0.5]", "--warn-kinks"]);
    assert_eq!((none.code, &*none.stderr), (Some(0), "kinks: 0 places near a point where a derivative changes\n"));
    let bad = w.run(&["run", "hinge.dual", "[0.5]", "--warn-kinks=-1"]);
    assert_eq!(bad.code, Some(2));
}
