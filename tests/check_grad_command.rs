//! `dualvm check-grad`: what it prints, its exit codes, and what it refuses.

#[path = "support/program.rs"]
mod program;

use program::Workspace;

const PROGRAM: &str = "\
def polar (r : Real) (phi : Real) = (r * cos phi, r * sin phi)
def area (w : Real) (h : Real) : Real = w * h
def wrong (x : Real) (y : Real) : Real = x * custom_vjp (\\y -> y * y) (\\y c -> c * y) y
def edge (x : Real) : Real = abs x
def root (x : Real) : Real = sqrt x
def total (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + x * x
def distance (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + abs x
def count (n : Int) : Int = n + 1
def third (xs : Array Real) : Real = xs[2]
def long (x : Real) : Real = loop y = x for _ < 1_000_000_000_000 do y * 0.5
";

fn workspace(test: &str) -> Workspace {
    let workspace = Workspace::new(test);
    workspace.write("f.dual", PROGRAM);
    workspace
}

#[test]
fn what_is_right_has_a_line_per_point_and_the_worst_comparison() {
    let w = workspace("check_grad_right");
    let printed = w.stdout(&["check-grad", "f.dual", "area", "3", "4", "--points", "2"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "at the arguments: 3 agree", "{printed}");
    assert!(lines[1].trim_start().starts_with("reverse"), "{printed}");
    assert!(lines[1].ends_with("verdict") && lines[2].ends_with("agrees"), "{printed}");
    assert!(lines.contains(&"near point 1: 3 agree") && lines.contains(&"near point 2: 3 agree"), "{printed}");
    assert_eq!(lines.last(), Some(&"nothing is wrong: 9 agree"), "{printed}");
    // The same each time, and for all engines.
    for more in [["--jit", "always"], ["--threads", "3"], ["--seed", "0"]] {
        let again = w.stdout(&[&["check-grad", "f.dual", "area", "3", "4", "--points", "2"][..], &more].concat());
        assert_eq!(again, printed);
    }
    assert_ne!(w.stdout(&["check-grad", "f.dual", "area", "3", "4", "--points", "2", "--seed", "1"]), printed);
}

#[test]
fn what_is_wrong_is_shown_and_is_exit_code_1() {
    let w = workspace("check_grad_wrong");
    let finished = w.run(&["check-grad", "f.dual", "wrong", "2", "3", "--points", "0"]);
    assert_eq!((finished.code, &*finished.stderr), (Some(1), "error: derivatives of `wrong` are wrong\n"));
    let lines: Vec<Vec<&str>> = finished.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" "), "at the arguments: 2 wrong, 1 agrees");
    assert_eq!(lines[2][..4], ["y", "6.0", "6.0", "12.0"], "{finished:#?}");
    assert_eq!(lines[2][6..].join(" "), "wrong; differences have another value");
    assert_eq!(lines.last().expect("there are lines").join(" "), "WRONG: 2 wrong, 1 agrees");
    // Of the other parameter it isn't.
    let printed = w.stdout(&["check-grad", "f.dual", "wrong", "2", "3", "--wrt", "x"]);
    assert!(printed.ends_with("nothing is wrong: 4 agree\n"), "{printed}");
}

#[test]
fn kinks_and_what_can_not_be_told_are_no_failures() {
    let w = workspace("check_grad_kink");
    let printed = w.stdout(&["check-grad", "f.dual", "edge", "0", "--points", "0"]);
    assert!(printed.contains("kink; the derivative is between the slopes of the two sides"), "{printed}");
    assert!(printed.ends_with("nothing is wrong: 1 at a kink\n"), "{printed}");
    let printed = w.stdout(&["check-grad", "f.dual", "root", "0", "--points", "0"]);
    assert!(printed.contains("can't tell; the derivative is not finite"), "{printed}");
    let printed = w.stdout(&["check-grad", "f.dual", "count", "3"]);
    assert!(
        printed.contains("there is no real to differentiate by\nnothing is wrong: nothing to compare"),
        "{printed}"
    );
}

#[test]
fn many_reals_are_a_sample() {
    let w = workspace("check_grad_sample");
    w.write("args.json", format!("[{:?}]", vec![1.5; 300]));
    let printed = |more: &[&str]| {
        let command = ["check-grad", "f.dual", "total", "--input", "args.json", "--points", "0"];
        w.stdout(&[&command[..], more].concat())
    };
    let some = printed(&["--components", "5"]);
    assert!(some.starts_with("at the arguments: 6 agree\n"), "{some}");
    let sentence = "of 300 reals 5 were checked one by one, at random, and all along one direction\n";
    assert!(some.contains(sentence), "{some}");
    assert!(printed(&[]).starts_with("at the arguments: 201 agree\n"));
    assert!(printed(&["--components", "0"]).starts_with("at the arguments: 301 agree\n"));
    // Of what doesn't agree, only the first are printed.
    w.write("zeros.json", format!("[{:?}]", vec![0.0; 30]));
    let kinks = w.stdout(&["check-grad", "f.dual", "distance", "--input", "zeros.json", "--points", "0"]);
    assert!(kinks.starts_with("at the arguments: 31 at a kink\n"), "{kinks}");
    assert!(kinks.contains("  and 11 more that don't agree; --format json has all\n"), "{kinks}");
    assert_eq!(kinks.matches("kink; ").count(), 20, "{kinks}");
}

#[test]
fn json_has_everything() {
    let w = workspace("check_grad_json");
    let finished = w.run(&["check-grad", "f.dual", "wrong", "2", "3", "--format", "json", "--second"]);
    assert_eq!(finished.code, Some(1), "{finished:#?}");
    let found: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((&found["verdict"], &found["reals"], &found["outputs"]), (&"wrong".into(), &2.into(), &1.into()));
    assert_eq!(found["points"].as_array().unwrap().len(), 4);
    let point = &found["points"][0];
    assert_eq!((&point["arguments"], &point["value"]), (&serde_json::json!([2.0, 3.0]), &18.0.into()));
    let comparisons = point["comparisons"].as_array().unwrap();
    let of: Vec<&str> = comparisons.iter().map(|comparison| comparison["of"].as_str().unwrap()).collect();
    let second = ["x, direction 1", "y, direction 1", "x, direction 2", "y, direction 2", "symmetry"];
    assert_eq!(of, [&["x", "y", "all together"][..], &second].concat());
    assert_eq!((&comparisons[1]["reverse"], &comparisons[1]["verdict"]), (&6.0.into(), &"wrong".into()));
    let bar = &comparisons[1]["difference"];
    assert!((bar["value"].as_f64().unwrap() - 12.0).abs() < 1e-9 && bar["error"].as_f64().unwrap() < 1e-9, "{bar}");
    let json = w.stdout(&["check-grad", "f.dual", "root", "0", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["points"][0]["comparisons"][0]["reverse"], "Infinity");
    assert_eq!(found["points"][0]["counts"], serde_json::json!({"agree":0,"wrong":0,"kinks":0,"cannot_tell":1}));
}

#[test]
fn bad_input_is_explained() {
    let w = workspace("check_grad_errors");
    let refused = |args: &[&str], code: i32, message: &str| {
        let finished = w.run(&[&["check-grad", "f.dual"][..], args].concat());
        assert_eq!((finished.code, &*finished.stdout), (Some(code), ""), "{args:?}: {finished:#?}");
        assert!(finished.stderr.contains(message), "{args:?}: {finished:#?}");
    };
    refused(&["area", "3"], 2, "error: f.dual: area: expected 2 arguments (w : Real, h : Real), found 1");
    refused(&["area", "3", "true"], 2, "error: argument h: expected Real, found boolean `true`");
    refused(&["area", "3", "4", "--wrt", "z"], 2, "`area` has no parameter `z`; it has w, h");
    refused(&["arae", "3", "4"], 2, "there is no function `arae`; did you mean `area`?");
    refused(&["area", "3", "4", "--points", "-1"], 2, "--points");
    refused(&["area", "3", "4", "--points", "10001"], 2, "expected a whole number from 0 to 10000");
    refused(&["polar", "3", "4", "--second"], 2, "a gradient needs a function that returns one Real");
    refused(&["polar", "3", "4", "--second"], 2, "without it, first derivatives are checked");
    refused(&["third", "[1]"], 1, "trap: index 2 is out of bounds of an array of length 1");
    refused(&["long", "1", "--fuel", "1k"], 1, "--fuel sets this limit");
}
