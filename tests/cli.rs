//! The `dualvm` program: every command, formats, exit codes.

#[path = "support/program.rs"]
mod program;

use program::Workspace;
use std::io::Read;

const RECORD: &str = include_str!("data/record.dvs");
const MULT: &str = "-- The product.\ndef mult (x : Real) (y : Real) : Real = x * y\n";
const TWO: &str = "def third (xs : Array Real) : Real = xs[2]\ndef pair (x : Real) (n : Int) = (x, n)\n";

fn workspace(test: &str) -> Workspace {
    let workspace = Workspace::new(test);
    workspace.write("mult.dual", MULT);
    workspace.write("two.dual", TWO);
    workspace.write("record.dvs", RECORD);
    workspace
}

#[test]
fn check_lists_what_can_be_called() {
    let w = workspace("check");
    assert_eq!(w.stdout(&["check", "mult.dual"]), "mult : (x : Real, y : Real) -> Real\n");
    assert_eq!(
        w.stdout(&["check", "two.dual"]),
        "third : (xs : Array Real) -> Real\npair : (x : Real, n : Int) -> (Real, Int)\n"
    );
}

#[test]
fn verify_counts_what_it_has_seen() {
    let w = workspace("verify");
    let expected = "record.dvs: verified: functions 3 (exported 2), instructions 7\n";
    assert_eq!(w.stdout(&["verify", "record.dvs"]), expected);
}

#[test]
fn run_and_grad_print_text() {
    let w = workspace("text");
    assert_eq!(w.stdout(&["run", "mult.dual", "mult", "3", "0.5"]), "value  = 1.5\n");
    assert_eq!(
        w.stdout(&["grad", "mult.dual", "mult", "3", "4"]),
        "value  = 12.0\ngradient:\n  x    = 4.0\n  y    = 3.0\n"
    );
    let model = r#"{"rate": 2, "count": 3, "on": true, "w": [3, 4]}"#;
    assert_eq!(
        w.stdout(&["grad", "record.dvs", "weighted", model, "[5.0, 6.0]"]),
        "value  = 26.0\n\
         gradient:\n  m    = { rate = 3.0, count = null, on = null, w = (2.0, 5.0) }\n  xs   = [4.0, 0.0]\n"
    );
}

#[test]
fn run_and_grad_print_json() {
    let w = workspace("json");
    assert_eq!(w.stdout(&["run", "mult.dual", "3", "4", "--format", "json"]), "{\"value\":12.0}\n");
    assert_eq!(
        w.stdout(&["grad", "--format=json", "mult.dual", "3", "4"]),
        "{\"value\":12.0,\"gradient\":[4.0,3.0]}\n"
    );
    let model = r#"{"on": true, "rate": 2, "w": [3, 4], "count": 3}"#;
    assert_eq!(
        w.stdout(&["grad", "record.dvs", "weighted", model, "[5, 6]", "--format", "json"]),
        "{\"value\":26.0,\"gradient\":[{\"rate\":3.0,\"count\":null,\"on\":null,\"w\":[2.0,5.0]},[4.0,0.0]]}\n"
    );
    assert_eq!(w.stdout(&["run", "two.dual", "pair", "0.1", "-7", "--format", "json"]), "{\"value\":[0.1,-7]}\n");
}

#[test]
fn reals_that_json_lacks_are_strings_both_ways() {
    let w = workspace("nonfinite");
    let json = |a: &str, b: &str| w.stdout(&["run", "mult.dual", a, b, "--format", "json"]);
    assert_eq!(json("\"Infinity\"", "2"), "{\"value\":\"Infinity\"}\n");
    assert_eq!(json("\"-Infinity\"", "2"), "{\"value\":\"-Infinity\"}\n");
    assert_eq!(json("\"NaN\"", "2"), "{\"value\":\"NaN\"}\n");
    // As the language and the text form write them.
    assert_eq!(json("\"inf\"", "2"), "{\"value\":\"Infinity\"}\n");
    assert_eq!(json("\"-inf\"", "2"), "{\"value\":\"-Infinity\"}\n");
    assert_eq!(json("\"nan\"", "2"), "{\"value\":\"NaN\"}\n");
    w.write("args.json", r#"[["inf", "-inf", "nan", "-Infinity"]]"#);
    assert_eq!(w.stdout(&["run", "two.dual", "third", "--input", "args.json"]), "value  = nan\n");
    w.write("args.json", r#"[1, "inf"]"#);
    let refused = w.run(&["run", "two.dual", "pair", "--input", "args.json"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("argument n: expected Int, found string \"inf\""), "{}", refused.stderr);
    assert_eq!(json("1e-320", "0.1"), "{\"value\":1e-321}\n");
}

#[test]
fn numbers_round_trip() {
    let w = workspace("round_trip");
    for x in ["0.1", "1e300", "5e-324", "1.7976931348623157e308", "9007199254740993", "0.30000000000000004"] {
        let printed = w.stdout(&["run", "mult.dual", x, "1", "--format", "json"]);
        let parsed: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(parsed["value"].as_f64().unwrap().to_bits(), x.parse::<f64>().unwrap().to_bits(), "{x}");
    }
}

#[test]
fn arguments_are_literals_or_json() {
    let w = workspace("literals");
    let run = |model: &str, points: &str| w.stdout(&["run", "record.dvs", "echo", model, points, "--format", "json"]);
    let expected = "{\"value\":[1.5,2,true,[[0.5,1],[\"NaN\",-2]]]}\n";
    assert_eq!(run("{ rate = 1.5, count = 2, on = true }", "[| (0.5, 1), (nan, -2) |]"), expected);
    assert_eq!(run("{ on = true, rate = 1.5, count = 2 }", "[(0.5, 1), (nan, -2)]"), expected);
    assert_eq!(run(r#"{"on": true, "rate": 1.5, "count": 2}"#, r#"[[0.5, 1], ["NaN", -2]]"#), expected);
    assert_eq!(w.stdout(&["run", "mult.dual", "-inf", "nan"]), "value  = nan\n");
    assert_eq!(w.stdout(&["run", "mult.dual", "-inf", "1"]), "value  = -inf\n");
}

#[test]
fn negative_numbers_are_arguments() {
    let w = workspace("negative");
    assert_eq!(w.stdout(&["run", "mult.dual", "mult", "-1.2", "-3"]), "value  = 3.5999999999999996\n");
    assert_eq!(w.stdout(&["run", "mult.dual", "-1e-3", "-2", "--stats"]), "value  = 0.002\n");
    assert_eq!(w.stdout(&["run", "mult.dual", "--fuel", "1000", "mult", "-0.5", "-2"]), "value  = 1.0\n");
    assert_eq!(w.stdout(&["run", "mult.dual", "-.5", "-1/2"]), "value  = 0.25\n");
    assert_eq!(w.stdout(&["run", "mult.dual", "mult", "-(1 + 1)", "(-pi)"]), "value  = 6.283185307179586\n");
}

#[test]
fn function_name_may_be_left_out() {
    let w = workspace("default_function");
    assert_eq!(w.stdout(&["run", "mult.dual", "2", "3"]), "value  = 6.0\n");
    w.write("other-name.dual", MULT);
    assert_eq!(w.stdout(&["run", "other-name.dual", "2", "3"]), "value  = 6.0\n");
    w.write("my-pair.dual", TWO.replace("pair", "my_pair"));
    assert_eq!(w.stdout(&["run", "my-pair.dual", "2", "3"]), "value  = (2.0, 3)\n");
    let finished = w.run(&["run", "two.dual", "2", "3"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("pair : (x : Real, n : Int) -> (Real, Int)"), "{finished:#?}");
}

#[test]
fn arguments_come_from_files_and_stdin() {
    let w = workspace("input");
    w.write("args.json", " [ 3, 4.5 ]\n");
    assert_eq!(w.stdout(&["run", "mult.dual", "--input", "args.json"]), "value  = 13.5\n");
    let finished =
        w.run_with_stdin(&["grad", "mult.dual", "mult", "--input", "-", "--format", "json"], b"[2, \"NaN\"]");
    assert_eq!(finished.stdout, "{\"value\":\"NaN\",\"gradient\":[\"NaN\",2.0]}\n", "{finished:#?}");
    let finished = w.run_with_stdin(&["run", "-", "2", "3"], MULT.as_bytes());
    assert_eq!(finished.stdout, "value  = 6.0\n", "{finished:#?}");
}

#[test]
fn input_may_name_the_arguments() {
    let w = workspace("named");
    w.write("args.json", r#"{ "n": 2, "x": 0.5 }"#);
    assert_eq!(w.stdout(&["run", "two.dual", "pair", "--input", "args.json"]), "value  = (0.5, 2)\n");
    for (json, message) in [
        (r#"{ "n": 2 }"#, "the object has no `x : Real`"),
        ("{}", "the object has no `x : Real`, `n : Int`"),
        (r#"{ "n": 2, "x": 1, "y": 1 }"#, "there is no parameter `y`: expected a list of 2 arguments, or an object"),
        (r#"{ "n": 2, "x": 1, "n": 3 }"#, "the argument `n` is there twice"),
        (r#"{ "n": 2.5, "x": 1 }"#, "argument n: expected Int, found floating point `2.5`"),
    ] {
        w.write("args.json", json);
        let refused = w.run(&["run", "two.dual", "pair", "--input", "args.json"]);
        assert!(refused.code == Some(2) && refused.stderr.contains(message), "{json}: {refused:#?}");
    }
}

#[test]
fn arguments_may_be_computed() {
    let w = workspace("computed");
    w.write("all.dual", "def f (x : Real) (n : Int) (xs : Array Real) (p : (Real, Real)) = (x, n, xs, p)");
    let values = |args: [&str; 4]| w.stdout(&[&["run", "all.dual", "f"], &args[..]].concat());
    let shown = values(["pi / 2", "1e6", "[1 / 2, sqrt 4]", "(2 * pi, -1)"]);
    assert_eq!(shown, "value  = (1.5707963267948966, 1000000, [0.5, 2.0], (6.283185307179586, -1.0))\n");
    let shown = values([".5", "2 ^ 10", "[| exp 0 |]", "let x = 2.0 in (x, x) -- twice"]);
    assert_eq!(shown, "value  = (0.5, 1024, [1.0], (2.0, 2.0))\n");
    for (at, word, message) in [
        (0, "pi /", "argument x: expected Real, found `pi /`"),
        (0, "n", "argument x: expected Real, found `n`"),
        (0, "loop x = 1.0 while true do x", "argument x: expected Real, found `loop"),
        (1, "1.5e0", "argument n: expected Int, found floating point `1.5`"),
        (1, "1 / 0", "argument n: expected Int, found `1 / 0`"),
        (1, "1e300", "argument n: expected Int, found floating point"),
        (2, "[1 / 2, true]", "argument xs: expected Array Real, found `[1 / 2, true]`"),
        // And why.
        (0, "pi /", "error: expected `Real`, found `Real -> Real`"),
        (0, "sqrtt 2", "there is a function `sqrt` with a similar name"),
        (0, "loop x = 1.0 while true do x", "trap: the deadline"),
        (1, "1 / 0", "\ntrap: integer division by zero"),
        (2, "[1 / 2, true]", "error: expected"),
        (2, "[1 / 2, sqrtt 4]", "error: unknown name `sqrtt`"),
        (2, "[| i for i < 3 |]", "`Array Int`"),
        (2, "[| sqrtt 2 |]", "error: unknown name `sqrtt`"),
        (2, "replicate 2000000000 1.0", "\ntrap: "),
    ] {
        let mut args = ["1", "2", "[]", "(1, 2)"];
        args[at] = word;
        let refused = w.run(&[&["run", "all.dual", "f"], &args[..]].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(message), "{word}: {refused:#?}");
    }
}

#[test]
fn what_is_wrong_with_an_argument_is_shown_as_it_was_typed() {
    let w = workspace("as_typed");
    w.write(
        "all.dual",
        "def f (x : Real) (n : Int) (xs : Array Real) (m : Matrix Real) (r : { a : Real, b : Real }) = x",
    );
    for (at, word, excerpt) in [
        (0, "0x1g", "error: `g` is no digit of a number to base 16\n --> argument:1:1\n  |\n1 | 0x1g\n  | ^^^^\n"),
        (0, "pi /", "error: expected `Real`, found `Real -> Real`\n --> argument:1:1\n  |\n1 | pi /\n  | ^^^^ this is"),
        (0, "1) + (2", " --> argument:1:2\n  |\n1 | 1) + (2\n  |  ^ "),
        (0, "let x = 1 in\n  y + x", " --> argument:2:3\n  |\n2 |   y + x\n  |   ^ not defined here\n"),
        (1, "2 - 1 / 0", "\ntrap: integer division by zero: 1 / 0\n  in argument at argument:1:5\n    1 | 2 - 1 / 0\n"),
        (2, "[1 2]", " --> argument:1:2\n  |\n1 | [1 2]\n  |  ^ this is a number\n"),
        (2, "[1, sqrtt 2]", " --> argument:1:5\n  |\n1 | [1, sqrtt 2]\n  |     ^^^^^ not defined here\n"),
        (2, "[| 1 2 |]", " --> argument:1:4\n  |\n1 | [| 1 2 |]\n  |    ^ this is a number\n"),
        (3, "[[1, sqrtt 2]]", " --> argument:1:6\n  |\n1 | [[1, sqrtt 2]]\n  |      ^^^^^ not defined here\n"),
        (4, "{ a = 1 / 2, b = 2 + }", " --> argument:1:22\n"),
    ] {
        let mut args = ["1", "2", "[]", "[]", "{ a = 1, b = 2 }"];
        args[at] = word;
        let refused = w.run(&[&["run", "all.dual", "f"], &args[..]].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(excerpt), "{word}: {}", refused.stderr);
        assert!(!refused.stderr.contains("def argument") && !refused.stderr.contains("to_array"), "{}", refused.stderr);
    }
}

#[test]
fn numbers_that_are_none_are_explained() {
    let w = workspace("no_numbers");
    for (args, message) in [
        (["1e400", "2"], "argument x: expected Real, found `1e400`"),
        (["-1e400", "2"], "argument x: expected Real, found `-1e400`"),
        (["1e400", "2"], "\nerror: this number is too large for a `Real`"),
        (["NaN", "2"], "argument x: expected Real, found `NaN`\n  help: write `nan`, `inf` or `-inf`"),
        (["-Infinity", "2"], "argument x: expected Real, found `-Infinity`\n  help: write `nan`, `inf` or `-inf`"),
        (["1", "1e3.5"], "argument n: expected Int, found `1e3.5`"),
        (["1", "1e400"], "argument n: expected Int, found `1e400`"),
        (["1", "2.5"], "argument n: expected Int, found floating point `2.5`"),
    ] {
        let refused = w.run(&[&["run", "two.dual", "pair"], &args[..]].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(message), "{args:?}: {refused:#?}");
    }
    w.write("named.dual", "type Not = NaN | Infinity Real\ndef f (n : Not) = n");
    assert_eq!(w.stdout(&["run", "named.dual", "f", "NaN"]), "value  = NaN\n");
}

#[test]
fn long_arguments_are_shortened_in_messages() {
    let w = workspace("long");
    let (digits, text) = ("7".repeat(100_000), format!("\"{}\"", "x".repeat(100_000)));
    for args in [["1", &*digits], ["1", &text], [&text, "1"], ["true", &digits], [&text[1..], "1"]] {
        let refused = w.run(&[&["run", "two.dual", "pair"], &args[..]].concat());
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.len() < 2_000, "{}", refused.stderr.len());
    }
    let refused = w.run(&["run", "two.dual", "pair", "1", &digits]);
    let expected = format!("error: argument n: expected Int, found `{}…`\n", &digits[..100]);
    assert!(refused.stderr.starts_with(&expected), "{}", &refused.stderr[..300]);
}

#[test]
fn check_shows_types_as_they_are_written() {
    let w = workspace("as_written");
    let text = "\
alias Point = { y : Real, x : Real }
alias Scale = Real -> Real
type Shape a = Dot a | Disc { radius : Real, centre : a }
def area (shape : Shape Point) ({ z, a } : { z : Real, a : Int }) = to_real a * z
def scale (k : Real) : Scale = \\x -> k * x
def twice x = x + x
def count xs = length xs
";
    let long = vec!["Point"; 60].join(", ");
    w.write("written.dual", format!("{text}def long (t : ({long})) = 1\n"));
    let finished = w.run(&["check", "written.dual", "--quiet"]);
    let shown: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(
        shown[..4],
        [
            "area : (shape : Shape Point, arg2 : { z : Real, a : Int }) -> Real",
            "scale : (k : Real, arg2 : Real) -> Real",
            "twice : (x : Real) -> Real",
            "count : (xs : Array ()) -> Int",
        ],
        "{finished:#?}"
    );
    // What is too long for a line is shown as hosts have it.
    assert!(shown[4].starts_with("long : (t : ({ x : Real, y : Real }, "), "{}", shown[4]);
}

#[test]
fn check_says_what_hosts_cannot_call() {
    let w = workspace("uncallable");
    w.write(
        "twice.dual",
        "def twice (f : Real -> Real) (x : Real) : Real = f (f x)\ndef g (x : Real) : Real = twice sin x",
    );
    let finished = w.run(&["check", "twice.dual"]);
    assert_eq!((finished.code, &*finished.stdout), (Some(0), "g : (x : Real) -> Real\n"));
    assert!(
        finished.stderr.starts_with("note: `twice` takes a function (`f : Real -> Real`), which can't cross"),
        "{finished:#?}"
    );
}

#[test]
fn what_only_looks_at_a_module_needs_no_host() {
    let w = workspace("no_host");
    let text = "import host \"drag\" : Real -> Real
import host \"plant.step\" as step : { x : Array Real, v : Real } -> (Array Real, Bool)
def slowed (v : Real) : Real = let (xs, _) = step { x = [| v |], v = 1 } in drag v - xs[0]
";
    w.write("slowed.dual", text);
    let checked = w.run(&["check", "slowed.dual"]);
    assert_eq!((checked.code, &*checked.stdout), (Some(0), "slowed : (v : Real) -> Real\n"), "{checked:#?}");
    assert_eq!(checked.stderr, "note: a host has to give `drag`\nnote: a host has to give `plant.step`\n");
    assert_eq!(w.run(&["check", "--quiet", "slowed.dual"]).stderr, "");
    for args in [&["build", "slowed.dual"][..], &["build", "--linked", "slowed.dual", "-o", "linked.dvbc"]] {
        let built = w.run(args);
        assert_eq!((built.code, &*built.stderr), (Some(0), ""), "{built:#?}");
    }
    for file in ["slowed.dual", "slowed.dvbc", "linked.dvbc"] {
        assert!(w.stdout(&["verify", file]).contains(": verified: functions 1 "));
        assert!(w.stdout(&["explain", file, "slowed"]).contains("slowed:\n  no loops"));
        let refused = w.run(&["run", file, "1"]);
        assert!(
            refused.code == Some(2) && refused.stderr.contains("nobody gives what the module imports"),
            "{refused:#?}"
        );
    }
    // What a host can't give is still looked for.
    w.write(
        "shape.dual",
        "type Shape = Dot | Disc Real\nimport host \"a\" : Shape -> Real\ndef f (r : Real) = a (Disc r)",
    );
    assert_eq!(w.run(&["check", "shape.dual"]).code, Some(2));
}

#[test]
fn stats_are_beside_the_result() {
    let w = workspace("stats");
    let finished = w.run(&["grad", "mult.dual", "2", "3", "--stats"]);
    assert_eq!(finished.stdout, "value  = 6.0\ngradient:\n  x    = 3.0\n  y    = 2.0\n");
    for key in ["instructions", "records", "slots", "tape bytes", "heap peak bytes", "forward", "sweep"] {
        assert!(finished.stderr.contains(key), "{key}: {finished:#?}");
    }
    let printed = w.stdout(&["grad", "mult.dual", "2", "3", "--stats", "--format", "json"]);
    let parsed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(parsed["stats"]["records"], 1);
    let site = &parsed["stats"]["sites"][0];
    assert_eq!((&site["function"], &site["records"]), (&"mult".into(), &1.into()));
    assert!(parsed["stats"]["instructions"].as_u64().unwrap() > 0);
    assert!(parsed["stats"]["forward_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn native_code_changes_no_result_and_no_count() {
    let w = workspace("jit");
    w.write("sum.dual", "def sum (n : Int) (x : Real) : Real = loop s = 0.0 for i < n do s + sin (s * x)\n");
    let run = |jit: &str| {
        let printed = w.stdout(&["grad", "sum.dual", "400000", "0.5", "--jit", jit, "--stats", "--format", "json"]);
        let mut parsed: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let stats = parsed["stats"].as_object_mut().unwrap();
        // What is an engine's own.
        for site in stats["sites"].as_array_mut().unwrap() {
            site.as_object_mut().unwrap().remove("sweep_seconds").unwrap();
        }
        for key in ["forward_seconds", "sweep_seconds", "call_seconds", "busy_seconds", "heap_peak_bytes"] {
            stats.remove(key).unwrap();
        }
        let (tier, compiled) = (stats.remove("tier").unwrap(), stats.remove("compiled").unwrap());
        (parsed, tier, compiled.as_array().unwrap().clone())
    };
    let (expected, tier, compiled) = run("off");
    assert_eq!((tier, compiled.len()), ("interpreter".into(), 0));
    for jit in ["auto", "always"] {
        let (found, tier, compiled) = run(jit);
        assert_eq!(found, expected, "{jit}");
        assert_eq!(tier, "native", "{jit}");
        // The loop was entered in the middle, unless the function was compiled before it ran.
        let recording = compiled.iter().find(|code| code["mode"] == "recording").unwrap();
        assert_eq!(recording["loop"].is_null(), jit == "always", "{recording}");
        assert!(compiled.iter().any(|code| code["mode"] == "adjoint"), "{compiled:#?}");
    }
    // Too short to be worth it.
    let finished = w.run(&["grad", "sum.dual", "20", "0.5", "--stats"]);
    assert!(finished.stderr.contains("tier            = interpreter\n"), "{finished:#?}");
    let finished = w.run(&["run", "sum.dual", "20", "0.5", "--stats", "--jit", "always"]);
    assert!(finished.stderr.contains("tier            = native\n  compiled sum (primal): "), "{finished:#?}");
    assert_eq!(w.run(&["run", "sum.dual", "20", "0.5", "--jit", "sometimes"]).code, Some(2));
}

const PAIRS: &str = "-- Squares by halves.
def squares (xs : Array Real) (from : Int) (to : Int) : Real =
  if to - from == 1 then xs[from] * xs[from]
  else
    let middle = (from + to) / 2 in
    let (a, b) = squares xs from middle |*| squares xs middle to in
    a + b

def pairs (xs : Array Real) : Real = squares xs 0 (length xs)
";

#[test]
fn threads_change_no_result_and_no_count() {
    let w = workspace("threads");
    w.write("pairs.dual", PAIRS);
    let run = |threads: &str| {
        let args = ["grad", "pairs.dual", "pairs", "[1, 2, 3, 4]", "--stats", "--format", "json", "--threads", threads];
        serde_json::from_str::<serde_json::Value>(&w.stdout(&args)).unwrap()
    };
    let expected = run("1");
    assert_eq!(expected["gradient"], serde_json::json!([[2.0, 4.0, 6.0, 8.0]]));
    assert_eq!(expected["stats"]["tasks"], 7);
    let number = |key: &str| expected["stats"][key].as_f64().unwrap();
    assert_eq!(number("work"), number("instructions"));
    assert!(number("span") < number("work") && number("imports") > 0.0, "{expected}");
    assert_eq!(number("work_by_span"), number("work") / number("span"));
    for threads in ["2", "3", "64"] {
        let found = run(threads);
        for key in ["value", "gradient"] {
            assert_eq!(found[key], expected[key], "{threads}");
        }
        for key in ["tasks", "imports", "work", "span", "records", "slots"] {
            assert_eq!(found["stats"][key], expected["stats"][key], "{threads}: {key}");
        }
        let busy = found["stats"]["busy_seconds"].as_array().unwrap();
        let count = if cfg!(target_os = "linux") { threads.parse().unwrap() } else { 0 };
        assert_eq!(busy.len(), count, "{busy:?}");
        assert!(busy.iter().all(|time| time.as_f64().is_some_and(|time| time >= 0.0)), "{busy:?}");
    }
    assert_eq!(run("0")["gradient"], expected["gradient"]);
}

#[test]
fn stats_of_programs_with_tasks_say_what_could_run_in_parallel() {
    let w = workspace("parallel_stats");
    w.write("pairs.dual", PAIRS);
    let finished = w.run(&["grad", "pairs.dual", "pairs", "[1, 2, 3, 4]", "--stats", "--threads", "2"]);
    for key in ["tasks           = 7\n", "imports", "work            = ", "span            = ", "work / span     = "] {
        assert!(finished.stderr.contains(key), "{key}: {finished:#?}");
    }
    let busy = finished.stderr.lines().filter(|line| line.contains(" ms busy, ")).count();
    assert_eq!(busy, if cfg!(target_os = "linux") { 2 } else { 0 }, "{finished:#?}");
    // There is nothing to say of a program without tasks.
    let finished = w.run(&["grad", "mult.dual", "2", "3", "--stats"]);
    assert!(!finished.stderr.contains("tasks") && !finished.stderr.contains("busy"), "{finished:#?}");
}

#[test]
fn bad_numbers_of_threads_are_bad_input() {
    let w = workspace("bad_threads");
    for threads in ["-1", "1.5", "two", "", "1025", "99999999999999999999"] {
        let finished = w.run(&["run", "mult.dual", "2", "3", "--threads", threads]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{threads}: {finished:#?}");
        assert!(finished.stderr.contains("--threads"), "{threads}: {finished:#?}");
    }
    let finished = w.run(&["run", "mult.dual", "2", "3", "--threads", "1025"]);
    assert!(finished.stderr.contains("from 0, which stands for one per core, to 1024"), "{finished:#?}");
}

#[test]
fn tape_sums_up_the_tasks() {
    let w = workspace("tape");
    w.write("pairs.dual", PAIRS);
    let printed = w.stdout(&["tape", "pairs.dual", "pairs", "[1, 2, 3, 4]"]);
    assert!(printed.starts_with("tasks       = 7\nforks       = 3\ndepth       = 2\nrecords     = "), "{printed}");
    let number = |key: &str| -> f64 {
        let line = printed.lines().find(|line| line.split('=').next().unwrap().trim() == key);
        line.unwrap_or_else(|| panic!("{key} in {printed}")).split('=').nth(1).unwrap().trim().parse().unwrap()
    };
    assert!(number("work") > number("span") && number("slots") >= 4.0 && number("imports") > 0.0, "{printed}");
    assert!((number("work / span") - number("work") / number("span")).abs() < 0.06, "{printed}");
    for more in [&["--job-graph"][..], &["--threads", "3"], &["--jit", "always"]] {
        assert_eq!(w.stdout(&[&["tape", "pairs.dual", "pairs", "[1, 2, 3, 4]"], more].concat()), printed);
    }
    // A program without tasks, and one whose result is no real.
    assert!(w.stdout(&["tape", "mult.dual", "2", "3"]).starts_with("tasks       = 1\nforks       = 0\n"));
    assert!(w.stdout(&["tape", "two.dual", "pair", "2", "3"]).contains("work / span = 1.0\n"));
}

#[test]
fn tape_draws_the_graph_of_jobs() {
    let w = workspace("job_graph");
    w.write("pairs.dual", PAIRS);
    let draw = |xs: &str, file: &str| {
        assert_eq!(w.stdout(&["tape", "--job-graph", "pairs.dual", "pairs", xs, "-o", file]), "");
        String::from_utf8(w.read(file)).unwrap()
    };
    let picture = draw("[1, 2, 3, 4]", "graph.svg");
    assert!(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && picture.ends_with("</svg>\n"));
    // For each task a job, and one more for each fork.
    assert_eq!(picture.matches("<rect ").count(), 7 + 3);
    assert!(picture.contains("<title>pairs: tasks 7, forks 3, depth 2, records "), "{picture}");
    let text = draw("[1, 2, 3, 4]", "graph.dot");
    assert_eq!(text.matches("shape=diamond").count(), 2 * 3);
    assert!(text.starts_with("digraph jobs {\n") && text.contains("label=\"pairs\\n"), "{text}");
    let xs = format!("{:?}", vec![0.5; 4096]);
    let folded = draw(&xs, "large.svg");
    assert!(folded.contains("subtree: ") && folded.matches("<rect ").count() < 200, "{}", folded.len());
}

#[test]
fn what_tape_cannot_do_is_bad_input() {
    let w = workspace("bad_tape");
    let cases: [(&[&str], &str); 8] = [
        (&["tape", "mult.dual", "nothing", "2", "3"], "no function `nothing`"),
        (&["tape", "mult.dual", "mult", "2"], "mult : (x : Real, y : Real) -> Real"),
        (&["tape", "mult.dual", "mult", "2", "true"], "expected Real"),
        (&["tape", "--job-graph", "mult.dual", "2", "3", "-o", "graph.png"], "ends in .svg or .dot, found graph.png"),
        (&["tape", "--job-graph", "mult.dual", "2", "3", "-o", "graph"], "ends in .svg or .dot"),
        (&["tape", "--job-graph", "mult.dual", "2", "3", "-o", "no/such/folder.svg"], "can't write"),
        (&["tape", "mult.dual", "2", "3", "-o", "graph.svg"], "--job-graph"),
        (&["tape", "missing.dual", "2", "3"], "can't read missing.dual"),
    ];
    for (args, message) in cases {
        let finished = w.run(args);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{args:?}: {finished:#?}");
        assert!(finished.stderr.contains(message), "{args:?}: {finished:#?}");
    }
    assert_eq!(w.run(&["tape", "two.dual", "third", "[1.0]"]).code, Some(1));
}

#[test]
fn limits_hold_in_native_code() {
    let w = workspace("jit_limits");
    w.write("long.dual", "def long (x : Real) : Real = loop y = x for i < 1000000 do sin y\n");
    w.write("deep.dual", "def deep (n : Int) : Real = if n == 0 then 0.0 else 1.0 + deep (n - 1)\n");
    let cases: [&[&str]; 5] = [
        &["run", "long.dual", "1", "--fuel", "123456"],
        &["run", "long.dual", "1", "--deadline", "0"],
        &["grad", "long.dual", "1", "--max-tape", "100k"],
        &["run", "deep.dual", "1000000", "--max-depth", "1000"],
        &["run", "deep.dual", "1000000", "--max-heap", "64Ki"],
    ];
    for args in cases {
        let stopped = ["off", "always"].map(|jit| {
            let finished = w.run(&[args, &["--jit", jit]].concat());
            assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""), "{args:?}, {jit}: {finished:#?}");
            assert!(finished.stderr.contains(&format!("{} sets this limit", args[args.len() - 2])), "{finished:#?}");
            finished.stderr
        });
        // How much memory frames take is an engine's own, and so is where time or memory ends.
        if !args.contains(&"--max-heap") && !args.contains(&"--deadline") {
            assert_eq!(stopped[0], stopped[1], "{args:?}");
        }
    }
}

#[test]
fn kinds_are_told_apart_whatever_the_name() {
    let w = workspace("kinds");
    w.stdout(&["build", "record.dvs", "-o", "binary.dual"]);
    w.write("assembly.dual", RECORD);
    w.write("source.dvs", MULT);
    w.write("source.dvbc", MULT);
    let expected = w.stdout(&["check", "record.dvs"]);
    assert_eq!(w.stdout(&["check", "binary.dual"]), expected);
    assert_eq!(w.stdout(&["check", "assembly.dual"]), expected);
    assert_eq!(w.stdout(&["check", "source.dvs"]), w.stdout(&["check", "mult.dual"]));
    assert_eq!(w.stdout(&["check", "source.dvbc"]), w.stdout(&["check", "mult.dual"]));
}

#[test]
fn built_bytecode_runs() {
    let w = workspace("build");
    assert_eq!(w.stdout(&["build", "mult.dual"]), "");
    assert_eq!(&w.read("mult.dvbc")[..4], b"DVBC");
    assert_eq!(w.stdout(&["run", "mult.dvbc", "2", "3"]), "value  = 6.0\n");
    assert_eq!(w.stdout(&["grad", "mult.dvbc", "2", "3"]), w.stdout(&["grad", "mult.dual", "2", "3"]));
    w.stdout(&["build", "mult.dvbc", "--output", "again.dvbc"]);
    assert_eq!(w.read("again.dvbc"), w.read("mult.dvbc"));
    let refused = w.run(&["build", "mult.dvbc"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
}

#[test]
fn assembly_round_trips() {
    let w = workspace("asm");
    w.stdout(&["asm", "record.dvs", "-o", "record.dvbc"]);
    w.write("again.dvs", w.stdout(&["disasm", "record.dvbc"]));
    w.stdout(&["asm", "again.dvs"]);
    assert_eq!(w.read("again.dvbc"), w.read("record.dvbc"));
    assert_eq!(w.stdout(&["disasm", "again.dvbc"]), w.stdout(&["disasm", "again.dvs"]));
}

#[test]
fn disasm_shows_one_function() {
    let w = workspace("disasm");
    assert_eq!(w.stdout(&["disasm", "record.dvs", "hidden"]), "func f2 \"hidden\" () -> ()\n{\n  ret ()\n}\n");
    let finished = w.run(&["disasm", "record.dvs", "nothing"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("weighted, echo, hidden"), "{finished:#?}");
}

#[test]
fn disasm_shows_native_code() {
    let w = workspace("disasm_native");
    let bytecode = w.stdout(&["disasm", "record.dvs", "weighted"]);
    let shown = w.stdout(&["disasm", "--native", "record.dvs", "weighted"]);
    let rest = shown.strip_prefix(&bytecode).unwrap_or_else(|| panic!("{shown}"));
    let titles: Vec<&str> = rest.lines().filter(|line| line.starts_with("; ")).collect();
    assert_eq!(
        titles,
        [
            "; primal runs: Cranelift IR",
            "; primal runs: machine code",
            "; recording runs: Cranelift IR",
            "; recording runs: machine code"
        ]
    );
    assert_eq!(rest.matches("function u0:0(").count(), 2, "{rest}");
    // The same from stdin, which can be read once.
    let finished = w.run_with_stdin(&["disasm", "--native", "-", "weighted"], RECORD.as_bytes());
    assert_eq!(finished.stdout, shown, "{finished:#?}");
    // All functions at once would be long; what can't be run has no native code.
    assert_eq!(w.run(&["disasm", "--native", "record.dvs"]).code, Some(2));
    w.write("bad.dvs", "func f0 \"f\" () -> (real)\n  regs 1 real\n{\n  ret (r0)\n}\n");
    let finished = w.run(&["disasm", "--native", "bad.dvs", "f"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("instruction 0 (`ret (r0)`)"), "{finished:#?}");
}

#[test]
fn unverifiable_modules_can_be_assembled_and_shown_but_not_built() {
    let w = workspace("unverified");
    w.write("bad.dvs", "func f0 \"f\" () -> (real)\n  regs 1 real\n{\n  ret (r0)\n}\n");
    w.stdout(&["asm", "bad.dvs"]);
    assert!(w.stdout(&["disasm", "bad.dvbc"]).contains("ret (r0)"));
    for args in [["verify", "bad.dvbc"], ["check", "bad.dvs"], ["build", "bad.dvs"], ["run", "bad.dvbc"]] {
        let finished = w.run(&args);
        assert_eq!(finished.code, Some(2));
        assert!(finished.stderr.contains("instruction 0 (`ret (r0)`)"), "{args:?}: {finished:#?}");
    }
}

#[test]
fn nothing_is_written_over_what_it_is_made_from() {
    let w = workspace("own_source");
    let absolute = |name: &str| w.path(name).display().to_string();
    let mut others = vec!["./mult.dual".to_owned(), absolute("mult.dual")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("mult.dual", w.path("symbolic.dual")).unwrap();
        std::fs::hard_link(w.path("mult.dual"), w.path("hard.dual")).unwrap();
        others.extend(["symbolic.dual".to_owned(), "hard.dual".to_owned()]);
    }
    for other in &others {
        for (from, to) in [("mult.dual", &**other), (other, "mult.dual")] {
            let refused = w.run(&["build", from, "-o", to]);
            let expected = format!("error: {from} would be overwritten by what is made from it\n");
            assert!(refused.code == Some(2) && refused.stderr.starts_with(&expected), "{from} {to}: {refused:#?}");
        }
    }
    assert_eq!(w.read("mult.dual"), MULT.as_bytes());
    let refused = w.run(&["asm", "record.dvs", "-o", "./record.dvs"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("would be overwritten"), "{refused:#?}");
    // What is there already and something else is written anew.
    for _ in 0..2 {
        assert_eq!(w.stdout(&["build", "mult.dual", "-o", "./mult.dvbc"]), "");
    }
}

#[test]
fn traps_and_limits_exit_with_1() {
    let w = workspace("traps");
    let finished = w.run(&["run", "two.dual", "third", "[1.0]"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""));
    assert!(
        finished
            .stderr
            .starts_with("trap: index 2 is out of bounds of an array of length 1\n  in third at two.dual:1:")
    );
    w.write("deep.dual", "def deep (n : Int) : Real = if n == 0 then 0.0 else 1.0 + deep (n - 1)\n");
    for (flag, value) in [("--fuel", "1k"), ("--max-depth", "10"), ("--max-heap", "4Ki"), ("--deadline", "0")] {
        let finished = w.run(&["run", "deep.dual", "1000000", flag, value]);
        assert_eq!(finished.code, Some(1), "{flag}: {finished:#?}");
        assert!(finished.stderr.contains(&format!("{flag} sets this limit")), "{flag}: {finished:#?}");
    }
    w.write("long.dual", "def long (x : Real) : Real = loop y = x for i < 100000 do sin y\n");
    let finished = w.run(&["grad", "long.dual", "1", "--max-tape", "100k"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("--max-tape sets this limit"), "{finished:#?}");
}

/// Starts the program, sends it an interrupt once it has had some time, and says what came of it. It gets more time if
/// it was not yet ready for one.
#[cfg(unix)]
fn interrupted(w: &Workspace, args: &[&str]) -> std::process::Output {
    for tries in 0..7 {
        let child = w.command(args).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(150 << tries));
        let pid = child.id().to_string();
        std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.code().is_some() {
            return output;
        }
    }
    panic!("{args:?} never installs its handler")
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_run_with_130() {
    let w = workspace("interrupt-run");
    w.write("forever.dual", "def forever (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2\n");
    for command in ["run", "grad"] {
        let output = interrupted(&w, &[command, "forever.dual", "1"]);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(130), &b""[..]));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.starts_with("trap: ") && message.contains("in forever at forever.dual:1:"), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_compilation_with_130() {
    let w = workspace("interrupt-compile");
    let defs: String = (0..150_000)
        .map(|at| format!("def f{} (x : Real) : Real = f{at} (x * 0.5) + f{at} (x + 1.0)\n", at + 1))
        .collect();
    w.write("long.dual", format!("def f0 (x : Real) : Real = sin x\n{defs}"));
    let output = interrupted(&w, &["check", "long.dual"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(130), &b""[..]), "{message}");
    assert!(message.starts_with("error: the compilation was cancelled\n"), "{message}");
    assert!(message.contains("--> long.dual:"), "{message}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_what_waits_for_input_with_130() {
    let w = workspace("interrupt-input");
    for tries in 0..7 {
        let stdin = std::process::Stdio::piped();
        let mut child = w.command(&["run", "mult.dual", "--input", "-"]).stdin(stdin).spawn().unwrap();
        let held_open = child.stdin.take();
        std::thread::sleep(std::time::Duration::from_millis(150 << tries));
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let code = child.wait().unwrap().code();
        drop(held_open);
        if let Some(code) = code {
            return assert_eq!(code, 130);
        }
    }
    panic!("it never installs its handler")
}

#[test]
fn limits_of_the_compiler_exit_with_1() {
    let w = workspace("compile-limits");
    let finished = w.run(&["run", "mult.dual", "1", "2", "--deadline", "0"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""));
    assert!(finished.stderr.starts_with("error: the compilation takes too long"), "{finished:#?}");
    assert!(finished.stderr.ends_with("help: --deadline sets this limit\n"), "{finished:#?}");
    w.write("huge.dual", vec![b' '; (16 << 20) + 1]);
    let finished = w.run(&["check", "huge.dual"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""));
    assert!(finished.stderr.starts_with("error: the program's text is too long"), "{finished:#?}");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let w = workspace("pipe");
    let zeros = vec!["0.25"; 300_000].join(",");
    w.write("args.json", format!("[[{zeros}]]"));
    w.write("big.dual", "def big (xs : Array Real) : Real = loop a = 0.0 for i < length xs do a + xs[i]\n");
    for format in ["text", "json"] {
        let mut child = w.command(&["grad", "big.dual", "--input", "args.json", "--format", format]).spawn().unwrap();
        let mut some = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn a_million_elements_go_in_and_out() {
    let w = workspace("million");
    let numbers: Vec<String> = (0..1_000_000).map(|i| (f64::from(i) / 7.0).to_string()).collect();
    w.write("args.json", format!("[[{}]]", numbers.join(",")));
    w.write("big.dual", "def big (xs : Array Real) : Real = loop a = 0.0 for i < length xs do a + xs[i] * xs[i]\n");
    let printed = w.stdout(&["grad", "big.dual", "--input", "args.json", "--format", "json"]);
    let parsed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let gradient = parsed["gradient"][0].as_array().unwrap();
    assert_eq!(gradient.len(), 1_000_000);
    assert_eq!(gradient[999_999].as_f64().unwrap(), 2.0 * (999_999.0 / 7.0));
}

/// Errors about flags and arguments show how a command is used, whatever of it was given.
#[test]
fn usage_is_well_formed_in_errors() {
    let w = workspace("usage");
    let usage = |args: &[&str]| {
        let finished = w.run(args);
        assert_eq!(finished.code, Some(2), "{args:?}: {}", finished.stderr);
        let usage = finished.stderr.lines().find_map(|line| line.strip_prefix("Usage: dualvm ")).map(str::to_owned);
        usage.unwrap_or_else(|| panic!("{args:?}: {}", finished.stderr))
    };
    assert_eq!(
        usage(&["tape", "two.dual", "third", "[1]", "-o", "graph.svg"]),
        "tape --job-graph --output <OUT> <FILE> <NAME> <ARG>..."
    );
    assert_eq!(usage(&["tape", "two.dual", "third", "--frob"]), "tape <FILE> <NAME> [ARG]...");
    assert_eq!(usage(&["run", "two.dual", "third", "1", "--frob"]), "run <FILE> <NAME> <ARG>...");
    assert_eq!(usage(&["grad"]), "grad <FILE> [NAME] [ARG]...");
    let commands = ["check", "run", "grad", "tape", "build", "disasm", "asm", "verify", "bench"];
    let given: [&[&str]; 5] = [&[], &["two.dual"], &["two.dual", "third"], &["two.dual", "third", "1"], &["-o", "x"]];
    for (command, given) in commands.iter().flat_map(|command| given.map(|given| (*command, given))) {
        let usage = usage(&[&[command][..], given, &["--frob"]].concat());
        // Each word is a flag or a name, in one pair of brackets that may be followed by dots.
        for word in usage.split(' ').map(|word| word.trim_end_matches("...")) {
            let inner = word.strip_prefix('<').and_then(|word| word.strip_suffix('>'));
            let inner = inner.or(word.strip_prefix('[').and_then(|word| word.strip_suffix(']'))).unwrap_or(word);
            assert!(inner.chars().all(|c| c.is_alphanumeric() || c == '-'), "{command} {given:?}: {usage}");
        }
    }
    for bad in [["--fuel", "-1"], ["--threads", "-1"], ["--deadline", "-0.5"]] {
        let finished = w.run(&[&["run", "two.dual"][..], &bad].concat());
        assert!(
            finished.stderr.contains(&format!("invalid value '{}' for '{}", bad[1], bad[0])),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn messages_do_not_write_out_huge_numbers() {
    let w = workspace("huge");
    w.write("cut.dual", "def cut (x : Real) : Int = to_int x");
    let trap = w.run(&["run", "cut.dual", "1e300"]);
    assert_eq!(
        (trap.code, trap.stderr.lines().next()),
        (Some(1), Some("trap: 1e300 can't be converted to an integer"))
    );
    let refused = w.run(&["run", "two.dual", "pair", "1", "1e300"]);
    assert!(refused.stderr.contains("argument n: expected Int, found floating point `1e300`"), "{}", refused.stderr);
}

#[test]
fn help_and_version_succeed() {
    let w = workspace("help");
    for args in [&["--help"][..], &["run", "--help"], &["help", "grad"], &["--version"]] {
        let finished = w.run(args);
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
    assert!(w.stdout(&["grad", "--help"]).contains("--max-tape"));
}

const DATA: &str = include_str!("data/data.dual");

/// What `grad` prints for one argument as a literal and as JSON: text for the first, JSON for both.
#[track_caller]
fn gradients(function: &str, literal: &str, json: &str, text: &str, printed_json: &str) {
    let w = Workspace::new(&format!("data-{function}-{}", literal.len()));
    w.write("data.dual", DATA);
    assert_eq!(w.stdout(&["grad", "data.dual", function, literal]), text);
    for argument in [literal, json] {
        assert_eq!(w.stdout(&["grad", "data.dual", function, argument, "--format", "json"]), printed_json);
    }
    w.write("args.json", format!("[{json}]"));
    let from_file = w.stdout(&["grad", "data.dual", function, "--input", "args.json", "--format", "json"]);
    assert_eq!(from_file, printed_json);
}

#[test]
fn expression_tree_is_argument_and_gradient() {
    gradients(
        "eval",
        "Add (Num 2) (Times 3 (Neg { inner = Num (-1) }))",
        r#"{"Add": [{"Num": 2}, {"Times": [3, {"Neg": {"inner": {"Num": -1}}}]}]}"#,
        "value  = 1.0\ngradient:\n  e    = Add (Num 4.0) (Times null (Neg { inner = Num 6.0 }))\n",
        concat!(
            r#"{"value":1.0,"gradient":[{"Add":[{"Num":4.0},{"Times":[null,{"Neg":{"inner":{"Num":6.0}}}]}]}]}"#,
            "\n"
        ),
    );
}

#[test]
fn lists_of_data_and_records_are_arguments_and_gradients() {
    gradients(
        "total",
        "[Circle 1, Nil, Rect { height = 2, width = 5 }]",
        r#"[{"Circle": 1}, "Nil", {"Rect": {"height": 2, "width": 5}}]"#,
        "value    = 13.0\ngradient:\n  shapes = [Circle 6.0, Nil, Rect { width = 2.0, height = 5.0 }]\n",
        concat!(r#"{"value":13.0,"gradient":[[{"Circle":6.0},"Nil",{"Rect":{"width":2.0,"height":5.0}}]]}"#, "\n"),
    );
    gradients(
        "energy",
        "[{ at = 1, mass = 2 }, { mass = 1, at = -0.5 }]",
        r#"[{"at": 1, "mass": 2}, {"mass": 1, "at": -0.5}]"#,
        "value    = 1.25\ngradient:\n  points = [{ at = 2.0, mass = null }, { at = -1.0, mass = null }]\n",
        "{\"value\":1.25,\"gradient\":[[{\"at\":2.0,\"mass\":null},{\"at\":-1.0,\"mass\":null}]]}\n",
    );
    gradients("total", "[]", "[]", "value    = 0.0\ngradient:\n  shapes = []\n", "{\"value\":0.0,\"gradient\":[[]]}\n");
}

#[test]
fn nested_tuples_are_arguments_and_gradients() {
    gradients(
        "nested",
        "((2, 7), (3, (5, true)))",
        "[[2, 7], [3, [5, true]]]",
        "value  = 30.0\ngradient:\n  p    = ((15.0, null), (10.0, (6.0, null)))\n",
        "{\"value\":30.0,\"gradient\":[[[15.0,null],[10.0,[6.0,null]]]]}\n",
    );
}

#[test]
fn what_is_printed_is_an_argument() {
    let w = Workspace::new("data_round_trip");
    w.write("data.dual", DATA);
    let literals = ["[Circle 1.5, Nil]", "[{ at = 1.0, mass = 2 }]", "((1.0, 2), nan)", "[0.5, -inf]"];
    let printed = w.stdout(&[&["run", "data.dual", "echo"][..], &literals].concat());
    assert_eq!(printed, format!("value  = ({})\n", literals.join(", ")));
    let json = [r#"[{"Circle":1.5},"Nil"]"#, r#"[{"at":1.0,"mass":2}]"#, r#"[[1.0,2],"NaN"]"#, r#"[0.5,"-Infinity"]"#];
    let printed = w.stdout(&[&["run", "data.dual", "--format", "json", "echo"][..], &json].concat());
    assert_eq!(printed, format!("{{\"value\":[{}]}}\n", json.join(",")));
    let negated = w.stdout(&["run", "data.dual", "negate_all", "Neg { inner = Num 1 }"]);
    assert_eq!(negated, "value  = Neg { inner = Num (-1.0) }\n");
    assert_eq!(w.stdout(&["run", "data.dual", "area", "Nil"]), "value  = 0.0\n");
    assert_eq!(w.stdout(&["run", "data.dual", "area", "\"Nil\""]), "value  = 0.0\n");
}

/// Chains of as many steps as may cross the border, and one more.
#[test]
fn depth_is_bounded_by_the_machine_and_not_by_the_format() {
    const STEPS: usize = dualvm::vm::value::VALUE_DEPTH_MAX;
    let w = Workspace::new("data_depth");
    w.write("data.dual", DATA);
    // The number is one step into `Num`.
    let json = |negations: usize| {
        format!("{}{{\"Num\":2.0}}{}", "{\"Neg\":{\"inner\":".repeat(negations), "}}".repeat(negations))
    };
    let literal = |negations: usize| format!("{}Num 2{}", "Neg { inner = ".repeat(negations), " }".repeat(negations));
    let expected = format!("{{\"value\":{}}}\n", json(STEPS - 1).replace("2.0", "-2.0"));
    for argument in [json(STEPS - 1), literal(STEPS - 1)] {
        assert_eq!(w.stdout(&["run", "data.dual", "negate_all", &argument, "--format", "json"]), expected);
    }
    for argument in [json(STEPS), literal(STEPS), json(3_000), literal(3_000)] {
        let finished = w.run(&["run", "data.dual", "negate_all", &argument]);
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(!finished.stderr.contains("panicked") && finished.stderr.contains("nest"), "{}", finished.stderr);
    }
}
