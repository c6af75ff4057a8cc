//! `dualvm jvp`, `vjp`, `hvp`, `jacobian` and `hessian`: what they print, and what they refuse.

#[path = "support/program.rs"]
mod program;

use program::Workspace;

const PROGRAM: &str = "\
type Shape = Circle Real | Square { side : Real }
def polar (r : Real) (phi : Real) = (r * cos phi, r * sin phi)
def area (shape : Shape) (k : Real) (n : Int) (xs : Array Real) : Real =
  k * to_real n * sum xs * (match shape with Circle r -> 3 * r * r | Square { side } -> side * side)
def grid (xs : Array Real) (n : Int) = [| { v = x ^ 2, n = n } for x in xs |]
def pick (xs : Array Real) (i : Int) : Real =
  xs[i] * xs[i]
";

fn workspace(test: &str) -> Workspace {
    let workspace = Workspace::new(test);
    workspace.write("f.dual", PROGRAM);
    workspace
}

#[test]
fn products_and_matrices_are_printed() {
    let w = workspace("derivatives");
    let printed = |args: &[&str]| w.stdout(&[&args[..1], &["f.dual"], &args[1..]].concat());
    assert_eq!(
        printed(&["jvp", "polar", "2", "0", "--tangent", "1", "--tangent", "-1e1"]),
        "value   = (2.0, 0.0)\ntangent = (1.0, -20.0)\n"
    );
    // In the order of --wrt.
    assert_eq!(
        printed(&["jvp", "polar", "2", "0", "--wrt", "phi,r", "--tangent", "1", "--tangent", "10"]),
        "value   = (2.0, 0.0)\ntangent = (10.0, 2.0)\n"
    );
    assert_eq!(
        printed(&["jvp", "grid", "[1, 2]", "3", "--tangent", "[1.0, 1.0]", "--tangent=null"]),
        "value   = [{ n = 3, v = 1.0 }, { n = 3, v = 4.0 }]\ntangent = [{ n = null, v = 2.0 }, { n = null, v = 4.0 }]\n"
    );
    assert_eq!(
        printed(&["vjp", "polar", "2", "0", "--cotangent", "(3, 5)"]),
        "value  = (2.0, 0.0)\ngradient:\n  r    = 3.0\n  phi  = 10.0\n"
    );
    let tangents = ["--tangent", "Circle 1", "--tangent", "0", "--tangent", "null", "--tangent", "[0, 1]"];
    assert_eq!(
        printed(&[&["hvp", "area", "Circle 2.0", "3", "2", "[1, 2]"], &tangents[..]].concat()),
        "value   = 216.0\n\
         gradient:\n  shape = Circle 216.0\n  k     = 72.0\n  n     = null\n  xs    = [72.0, 72.0]\n\
         product:\n  shape = Circle 180.0\n  k     = 96.0\n  n     = null\n  xs    = [72.0, 72.0]\n"
    );
    for mode in ["auto", "forward", "reverse"] {
        assert_eq!(
            printed(&["jacobian", "grid", "[1, 2]", "3", "--mode", mode]),
            "value         = [{ n = 3, v = 1.0 }, { n = 3, v = 4.0 }]\n\
             jacobian:\n  result[0].v = { xs = [2.0, 0.0], n = null }\n  result[1].v = { xs = [0.0, 4.0], n = null }\n"
        );
    }
    assert_eq!(
        printed(&["hessian", "area", r#"{"Square": {"side": 2}}"#, "3", "2", "[1, 2]", "--wrt", "shape,k"]),
        "value        = 72.0\n\
         gradient:\n  shape      = Square { side = 72.0 }\n  k          = 24.0\n\
         hessian:\n  shape.side = { shape = Square { side = 36.0 }, k = 24.0 }\n  \
         k          = { shape = Square { side = 24.0 }, k = 0.0 }\n"
    );
}

#[test]
fn what_is_printed_is_a_tangent_and_a_cotangent() {
    let w = Workspace::new("derivatives_round_trip");
    w.write(
        "f.dual",
        "type Both = Pair Real Int
         type Shape = Circle Real | Square { side : Real, n : Int }
         def tuple (p : (Real, Int)) : Real = let (x, n) = p in x ^ n
         def record (r : { n : Int, x : Real }) : Real = r.x ^ r.n
         def data (p : Both) : Real = match p with Pair x n -> x ^ n
         def list (xs : List (Real, Bool)) : Real = sum (map (\\(x, b) -> if b then x * x else x) xs)
         def field (s : Shape) : Real = match s with Circle r -> r | Square { side, n } -> side ^ n
         def same (p : (Real, Int)) = p",
    );
    for (function, argument, gradient) in [
        ("tuple", "(3, 2)", "(6.0, null)"),
        ("record", "{ n = 2, x = 3 }", "{ n = null, x = 6.0 }"),
        ("data", "Pair 3 2", "Pair 6.0 null"),
        ("list", "[(3, true), (1, false)]", "[(6.0, null), (1.0, null)]"),
        ("field", "Square { side = 3, n = 2 }", "Square { side = 6.0, n = null }"),
    ] {
        let printed = w.stdout(&["grad", "f.dual", function, argument]);
        assert!(printed.ends_with(&format!(" = {gradient}\n")), "{printed}");
        let printed = w.stdout(&["jvp", "f.dual", function, argument, "--tangent", gradient]);
        let expected = if function == "list" { "37.0" } else { "36.0" };
        assert!(printed.ends_with(&format!("tangent = {expected}\n")), "{function}: {printed}");
    }
    let printed = w.stdout(&["jvp", "f.dual", "same", "(3, 2)", "--tangent", "(1.0, null)"]);
    assert!(printed.ends_with("tangent = (1.0, null)\n"), "{printed}");
    let printed = w.stdout(&["vjp", "f.dual", "same", "(3, 2)", "--cotangent", "(1.0, null)"]);
    assert!(printed.ends_with(" = (1.0, null)\n"), "{printed}");
    // Only there, and only for what is discrete.
    let refused = w.run(&["grad", "f.dual", "tuple", "(3, null)"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("argument p: "), "{refused:#?}");
    let refused = w.run(&["jvp", "f.dual", "tuple", "(3, 2)", "--tangent", "(null, null)"]);
    assert!(refused.stderr.starts_with("error: tangent of p.0: expected Real, found null\n"), "{refused:#?}");
    let refused = w.run(&["jvp", "f.dual", "tuple", "(3, 2)", "--tangent", "(1.0, null null)"]);
    assert!(refused.stderr.contains("expected `,` or `)`, found a name\n --> argument:1:12\n"), "{refused:#?}");
}

#[test]
fn tangents_and_cotangents_may_begin_with_a_minus() {
    let w = workspace("derivatives_minus");
    for (word, expected) in [("-1/4", "-0.25"), ("-.5", "-0.5"), ("-pi", "-3.141592653589793"), ("-(1 + 1)", "-2.0")] {
        let printed = w.stdout(&["jvp", "f.dual", "polar", "2", "0", "--tangent", word, "--tangent", "0"]);
        assert_eq!(printed, format!("value   = (2.0, 0.0)\ntangent = ({expected}, 0.0)\n"));
    }
    let printed = w.stdout(&["vjp", "f.dual", "pick", "[1, 2]", "1", "--cotangent", "-sqrt 4"]);
    assert!(printed.contains("[-0.0, -8.0]") || printed.contains("[0.0, -8.0]"), "{printed}");
}

#[test]
fn json_has_null_for_what_is_discrete_or_not_asked_for() {
    let w = workspace("derivatives_json");
    w.write("args.json", "[[1, 2], 3]");
    let printed = |args: &[&str]| w.stdout(&[&args[..1], &["--format=json", "f.dual"], &args[1..]].concat());
    assert_eq!(
        printed(&["jvp", "polar", "2", "0", "--wrt", "phi", "--tangent", "10"]),
        "{\"value\":[2.0,0.0],\"tangent\":[0.0,20.0]}\n"
    );
    assert_eq!(
        printed(&["vjp", "grid", "--input", "args.json", "--cotangent", r#"[{"v":1,"n":null},{"n":7,"v":10}]"#]),
        "{\"value\":[{\"n\":3,\"v\":1.0},{\"n\":3,\"v\":4.0}],\"gradient\":[[2.0,40.0],null]}\n"
    );
    assert_eq!(
        printed(&["jacobian", "polar", "2", "0", "--wrt", "r", "--threads", "1", "--jit", "always"]),
        "{\"value\":[2.0,0.0],\"jacobian\":[[1.0,null],[0.0,null]]}\n"
    );
    assert_eq!(
        printed(&["hessian", "pick", "[1, 2]", "1"]),
        "{\"value\":4.0,\"gradient\":[[0.0,4.0],null],\"hessian\":[[[0.0,0.0],null],[[0.0,2.0],null]]}\n"
    );
    let with_stats = printed(&["hvp", "pick", "[1, 2]", "1", "--tangent", "[1, 1]", "--tangent", "null", "--stats"]);
    let parsed: serde_json::Value = serde_json::from_str(&with_stats).unwrap();
    assert_eq!(parsed["product"], serde_json::json!([[0.0, 2.0], null]));
    assert!(parsed["stats"]["records"].as_u64().unwrap() > 0 && parsed["stats"]["tasks"] == 1);
}

#[test]
fn bad_input_is_explained() {
    let w = workspace("derivatives_errors");
    let refused = |args: &[&str], message: &str, help: &str| {
        let finished = w.run(&[&args[..1], &["f.dual"], &args[1..]].concat());
        assert_eq!((finished.code, &*finished.stdout), (Some(2), ""), "{args:?}: {finished:#?}");
        let expected =
            if help.is_empty() { format!("error: {message}") } else { format!("error: {message}\n  help: {help}") };
        assert!(finished.stderr.starts_with(&expected), "{finished:#?}");
    };
    refused(
        &["jvp", "polar", "2", "0", "--tangent", "1"],
        "expected 2 tangents (r, phi), found 1",
        "there is a --tangent for each of these, in order, null for what is discrete; the function is polar : ",
    );
    refused(
        &["jvp", "polar", "2", "0", "--wrt", "r", "--tangent", "1", "--tangent", "2"],
        "expected 1 tangent (r), found 2",
        "there is a --tangent",
    );
    refused(
        &["jvp", "polar", "2", "0", "--tangent", "1", "--tangent", "null"],
        "tangent of phi: expected Real, found null",
        "a tangent has the shape of its argument, with null for what has no real; the function is polar : ",
    );
    refused(
        &["hvp", "pick", "[1, 2]", "1", "--tangent", "[1]", "--tangent", "null"],
        "tangent of xs: expected 2 reals, found 1",
        "a tangent has the shape",
    );
    refused(
        &["jvp", "pick", "[1, 2]", "1", "--tangent", "[1, true]", "--tangent", "null"],
        "tangent of xs[1]: expected Real, found boolean `true`",
        "the function is pick : ",
    );
    refused(
        &["vjp", "grid", "[1, 2]", "1", "--cotangent", "[]"],
        "cotangent of result: expected 2 elements, found 0",
        "the cotangent has the shape of the result, with null for what has no real; the function is grid : ",
    );
    refused(
        &["vjp", "polar", "1", "2", "--cotangent", "(1, ("],
        "cotangent of result: expected (Real, Real), found `(1, (`",
        "the function is polar : ",
    );
    // Null for all of something: not its first real is what is wrong.
    refused(
        &["jvp", "pick", "[1, 2]", "1", "--tangent", "null", "--tangent", "null"],
        "tangent of xs: expected 2 reals, found null",
        "a tangent has the shape",
    );
    refused(
        &["hvp", "area", "Circle 2", "3", "2", "[1]", "--wrt", "shape", "--tangent", "null"],
        "tangent of shape: expected Shape, found null",
        "a tangent has the shape",
    );
    refused(
        &["vjp", "grid", "[1, 2]", "1", "--cotangent", "null"],
        "cotangent of result: expected 2 elements, found null",
        "the cotangent has the shape",
    );
    refused(
        &["vjp", "grid", "[1, 2]", "1", "--cotangent", r#"[{"n": null, "v": 1}, null]"#],
        "cotangent of result[1]: expected { n : Int, v : Real }, found null",
        "the cotangent has the shape",
    );
    refused(
        &["vjp", "grid", "[1, 2]", "1", "--cotangent", r#"[{"v": 1, "n": null}, {"n": 1}]"#],
        "cotangent of result[1]: expected { n : Int, v : Real }, found an object without the field `v`",
        "the function is grid : ",
    );
    refused(
        &["vjp", "grid", "[1, 2]", "1", "--cotangent", r#"[{"v": 1, "n": null}, {"w": 1, "n": 1}]"#],
        "cotangent of result[1]: expected { n : Int, v : Real }, found an object with the field `w`",
        "the function is grid : ",
    );
    for (record, found) in [("{ v = 1 }", "a record of v"), ("{ v = 1, m = 2 }", "a record of v, m")] {
        refused(
            &["vjp", "grid", "[1]", "1", "--cotangent", &format!("[{record}]")],
            &format!("cotangent of result[0]: expected {{ n : Int, v : Real }}, found {found}"),
            "the cotangent has the shape",
        );
    }
    // JSON that isn't any.
    for (word, message) in [
        (r#"{"Square": }"#, r#"expected value at column 12 of `{"Square": }`"#),
        (r#"{"Square": {"side": 1}"#, r#"EOF while parsing an object at column 22 of `{"Square": {"side": 1}`"#),
    ] {
        refused(
            &["jvp", "area", "Circle 2", "3", "2", "[1]", "--wrt", "shape", "--tangent", word],
            &format!("tangent of shape: {message}"),
            "the function is area : ",
        );
    }
    refused(
        &["jvp", "pick", "[1, 2]", "1", "--wrt", "xs", "--tangent", r#"["NaN", 1"#],
        r#"tangent of xs: EOF while parsing a list at column 9 of `["NaN", 1`"#,
        "the function is pick : ",
    );
    refused(
        &["vjp", "grid", "[1, 2]", "1", "--cotangent", "[\n {\"v\": 1,\n \"n\" null}]"],
        "cotangent of result: expected `:` at line 3, column 6 of `[",
        "",
    );
    refused(
        &["hessian", "polar", "2", "0"],
        "f.dual: `polar` returns (Real, Real); a gradient needs a function that returns one Real (define one that picks \
         or sums a part of the result)",
        "`dualvm run`, `jvp`, `vjp` and `jacobian` take a function of any result; the function is polar : ",
    );
    for command in ["jacobian", "hessian"] {
        let finished = w.run(&[command, "f.dual", "pick", "[1, 2]", "1", "--wrt", "ys"]);
        assert_eq!(finished.code, Some(2));
        assert!(finished.stderr.contains("`pick` has no parameter `ys`; it has xs, i"), "{finished:#?}");
    }
    let finished = w.run(&["jacobian", "f.dual", "polar", "2", "0", "--mode", "sideways"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("forward, reverse, auto"), "{finished:#?}");
}

#[test]
fn sparse_matrices_are_printed_entry_by_entry_and_drawn() {
    let w = workspace("derivatives_sparse");
    let printed = |args: &[&str]| w.stdout(&[&args[..1], &["f.dual"], &args[1..]].concat());
    assert_eq!(
        printed(&["jacobian", "grid", "[1, 2]", "3", "--sparse"]),
        "value  = [{ n = 3, v = 1.0 }, { n = 3, v = 4.0 }]\n\
         jacobian: 2 of 4 entries, by 1 product\n  result[0].v  xs[0] = 2.0\n  result[1].v  xs[1] = 4.0\n"
    );
    assert_eq!(
        printed(&["hessian", "pick", "[1, 2]", "1", "--sparse", "--wrt", "xs"]),
        "value  = 4.0\ngradient:\n  xs   = [0.0, 4.0]\nhessian: 1 of 4 entries, by 1 product\n  xs[1]  xs[1] = 2.0\n"
    );
    assert_eq!(
        printed(&["hessian", "pick", "[1, 2]", "1", "--sparse", "--format", "json"]),
        "{\"value\":4.0,\"gradient\":[[0.0,4.0],null],\
         \"hessian\":{\"rows\":2,\"columns\":2,\"products\":1,\"row\":[1],\"column\":[1],\"value\":[2.0]}}\n"
    );
    // Written so that some reals are integers.
    assert_eq!(
        printed(&["jacobian", "grid", "[1, nan]", "3", "--sparse"]),
        "value  = [{ n = 3, v = 1.0 }, { n = 3, v = nan }]\n\
         jacobian: 2 of 4 entries, by 1 product\n  result[0].v  xs[0] = 2.0\n  result[1].v  xs[1] = nan\n"
    );
    let shape = printed(&["hessian", "area", "Square { side = 2 }", "3", "2", "[1, nan]", "--sparse"]);
    assert!(shape.contains("\n  shape.side  xs[1]      = 24.0\n"), "{shape}");
    w.stdout(&["jacobian", "f.dual", "grid", "[1, 2, 3]", "3", "--sparse", "--pattern", "grid.svg"]);
    let drawn = String::from_utf8(w.read("grid.svg")).unwrap();
    assert!(drawn.contains("Jacobian of grid: 3 × 3, 3 entries") && drawn.ends_with("</svg>\n"), "{drawn}");
    for (args, expected) in [
        (&["--pattern", "grid.svg"][..], "--sparse"),
        (&["--sparse", "--mode", "forward"], "cannot be used with"),
        (&["--sparse", "--pattern", "grid.png"], "expected a file that ends in .svg, found grid.png"),
        (&["--sparse", "--pattern", "nowhere/grid.svg"], "nowhere/grid.svg"),
        (&["--sparse", "--format", "yaml"], "json"),
    ] {
        let finished = w.run(&[&["jacobian", "f.dual", "grid", "[1, 2]", "3"], args].concat());
        assert_eq!(finished.code, Some(2), "{finished:#?}");
        assert!(finished.stderr.contains(expected), "{finished:#?}");
    }
    let finished = w.run(&["hessian", "f.dual", "pick", "[1, 2]", "5", "--sparse"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("index 5 is out of bounds"), "{finished:#?}");
    let finished = w.run(&["hessian", "f.dual", "polar", "2", "0", "--sparse"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("needs a function that returns one Real"), "{finished:#?}");
}

#[test]
fn gradients_are_summed_up() {
    let w = workspace("derivatives_table");
    assert_eq!(
        w.stdout(&["grad", "f.dual", "area", "Circle 2.0", "3", "2", "[1, 2]", "--table"]),
        "value  = 216.0\n\
         gradient:\n\
         \x20 parameter  shape     norm                smallest  at       largest  at       zeros  NaN  infinite\n\
         \x20 shape      1 in all  216.0               216.0     shape.0  216.0    shape.0  0      0    0\n\
         \x20 k          real      72.0                72.0      k        72.0     k        0      0    0\n\
         \x20 n          -         0.0                 -                  -                 0      0    0\n\
         \x20 xs         2         101.82337649086286  72.0      xs[0]    72.0     xs[0]    0      0    0\n"
    );
    assert_eq!(
        w.stdout(&["grad", "f.dual", "pick", "[1, 2]", "1", "--table", "--wrt", "xs", "--format", "json"]),
        "{\"value\":4.0,\"gradient\":[{\"parameter\":\"xs\",\"shape\":[2],\"reals\":2,\"norm\":4.0,\
         \"smallest\":[\"xs[0]\",0.0],\"largest\":[\"xs[1]\",4.0],\"zeros\":1,\"nan\":0,\"infinite\":0}]}\n"
    );
    let table = w.stdout(&["vjp", "f.dual", "polar", "2", "0", "--cotangent", "(inf, nan)", "--table"]);
    assert!(table.contains("  r          real   inf   inf       r   inf      r   0      0    1\n"), "{table}");
    assert!(table.contains("  phi        real   0.0   -             -            0      1    0\n"), "{table}");
}

#[test]
fn traps_and_limits_end_with_1_and_a_backtrace() {
    let w = workspace("derivatives_traps");
    let tangents = ["--tangent", "[1, 1]", "--tangent", "null"];
    let calls: [&[&str]; 5] = [
        &[&["jvp", "f.dual", "pick", "[1, 2]", "5"], &tangents[..]].concat(),
        &[&["hvp", "f.dual", "pick", "[1, 2]", "5"], &tangents[..]].concat(),
        &["vjp", "f.dual", "pick", "[1, 2]", "5", "--cotangent", "1"],
        &["jacobian", "f.dual", "pick", "[1, 2]", "5"],
        &["hessian", "f.dual", "pick", "[1, 2]", "5"],
    ];
    for call in calls {
        let finished = w.run(call);
        assert_eq!(finished.code, Some(1), "{finished:#?}");
        let expected = "trap: index 5 is out of bounds of an array of length 2\n  in pick at f.dual:7:3\n    \
                        7 |   xs[i] * xs[i]\n      |   ^\n";
        assert_eq!(finished.stderr, expected, "{call:?}");
    }
    let finished = w.run(&["hessian", "f.dual", "pick", "[1, 2]", "1", "--fuel", "10"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("out of fuel") && finished.stderr.contains("--fuel"), "{finished:#?}");
}

#[test]
fn help_says_what_is_taken() {
    let w = workspace("derivatives_help");
    for (command, flag) in [
        ("jvp", "--tangent"),
        ("vjp", "--cotangent"),
        ("hvp", "--tangent"),
        ("jacobian", "--mode"),
        ("hessian", "--wrt"),
    ] {
        let help = w.stdout(&[command, "--help"]);
        assert!(help.contains(flag) && help.contains("Exit codes: 0 success"), "{help}");
    }
}
