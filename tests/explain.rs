//! What `explain` says of loops and calls: how each loop is recorded, every reason why one isn't recorded as one, and
//! why calls are left. And what a profile counts: it adds up to what the run reports.

#[path = "support/program.rs"]
mod program;

use dualvm::{
    CallKind, CallOptions, Config, Engine, ErrorKind, Jit, Module, Obstacle, Profile, Recording, Site, Value,
    vm::explain::Refusal,
};
use program::Workspace;

const PROGRAM: &str = "-- Loops of all kinds.
def power (n : Int) (x : Real) : Real = if n == 0 then 1 else x * power (n - 1) x

def straight (xs : Array Real) : Real =
  loop s = 0.0 for x in xs do s + x * x

def nest (rows : Array (Array Real)) : Real =
  loop s = 0.0 for row in rows do
    loop t = s for x in row do t + x * x

def recursive (x : Real) : Real =
  loop s = 0.0 for i < 10 do s + power i x

def chosen (n : Int) (x : Real) : Real =
  let fs = [sin, cos, \\y -> y * x] in
  loop s = x for i < n do
    match fs with
    | [] -> s
    | f :: _ -> f s

def tasks (x : Real) : Real =
  loop s = x for i < 3 do
    let (a, b) = power i s |*| power 2 s in a * b

def count (n : Int) : Int = loop k = 0 for i < n do k + i

def quiet (x : Real) : Real = sin x
";

fn workspace(test: &str) -> Workspace {
    let workspace = Workspace::new(test);
    workspace.write("p.dual", PROGRAM);
    workspace
}

/// What is printed of a function, without the heading.
fn explained(w: &Workspace, name: &str) -> String {
    let printed = w.stdout(&["explain", "p.dual", name]);
    let (heading, rest) = printed.split_once("\n\n").unwrap();
    let expected = format!(
        "Loops and calls of `{name}` as compiled; what was fused, unrolled or copied into its caller is not listed."
    );
    assert_eq!(heading, expected);
    rest.to_owned()
}

const POWER: &str = "
power:
  p.dual:2:67  call of `power`, which may call itself
    2 | def power (n : Int) (x : Real) : Real = if n == 0 then 1 else x * power (n - 1) x
      |                                                                   ^
";

#[test]
fn a_loop_may_be_recorded_whole() {
    let w = workspace("explain_whole");
    assert_eq!(
        explained(&w, "straight"),
        "straight:
  p.dual:5:3  loop: recorded whole, one record
    5 |   loop s = 0.0 for x in xs do s + x * x
      |   ^
"
    );
    assert_eq!(
        explained(&w, "nest"),
        "nest:
  p.dual:8:3  loop: recorded whole with all that is in it, one record
    8 |   loop s = 0.0 for row in rows do
      |   ^
  p.dual:9:5  loop: part of the record of the loop at p.dual:8:3
    9 |     loop t = s for x in row do t + x * x
      |     ^
"
    );
}

#[test]
fn there_may_be_nothing_to_record() {
    let w = workspace("explain_nothing");
    assert_eq!(explained(&w, "quiet"), "quiet:\n  no loops and no calls\n");
    assert_eq!(
        explained(&w, "count"),
        "count:
  p.dual:25:29  loop: no record, because it computes no real that a derivative goes through
    25 | def count (n : Int) : Int = loop k = 0 for i < n do k + i
       |                             ^
"
    );
}

#[test]
fn a_loop_with_a_call_has_records_in_each_round() {
    let w = workspace("explain_calls");
    let recursive = "recursive:
  p.dual:12:3  loop: records in each round, because it calls `power` (p.dual:12:34), which may call itself
    12 |   loop s = 0.0 for i < 10 do s + power i x
       |   ^
  p.dual:12:34  call of `power`, which may call itself
    12 |   loop s = 0.0 for i < 10 do s + power i x
       |                                  ^
";
    assert_eq!(explained(&w, "recursive"), format!("{recursive}{POWER}"));
    let chosen = "chosen:
  p.dual:16:3  loop: records in each round, because it calls a function value (p.dual:19:17)
    16 |   loop s = x for i < n do
       |   ^
  p.dual:19:17  call of a function value, which is known at run time only
    19 |     | f :: _ -> f s
       |                 ^
";
    assert!(explained(&w, "chosen").starts_with(chosen));
    let tasks = "tasks:
  p.dual:22:3  loop: records in each round, because it runs tasks (p.dual:23:18)
    22 |   loop s = x for i < 3 do
       |   ^
  p.dual:23:18  task `power`, with a tape of its own
    23 |     let (a, b) = power i s |*| power 2 s in a * b
       |                  ^
  p.dual:23:32  task `power`, with a tape of its own
    23 |     let (a, b) = power i s |*| power 2 s in a * b
       |                                ^
";
    assert_eq!(explained(&w, "tasks"), format!("{tasks}{POWER}"));
}

#[test]
fn bytecode_has_places_or_numbers_of_instructions() {
    let w = workspace("explain_bytecode");
    w.stdout(&["build", "p.dual", "-o", "p.dvbc"]);
    let expected = "recursive:
  p.dual:12:3  loop: records in each round, because it calls `power` (p.dual:12:34)
  p.dual:12:34  call of `power`
";
    assert!(w.stdout(&["explain", "p.dvbc", "recursive"]).contains(expected));
    let code = format!(
        "{TYPES}func \"g\" (real, int) -> (real) export (x : Real, n : Int) -> Real\n{}",
        body("call \"g\" (r0, i0) -> (r0)")
    );
    w.write("g.dvs", code);
    // The only function needn't be named.
    let expected = "g:
  instruction 1  call of `g`
  instruction 4  loop: records in each round, because it calls `g` (instruction 1)
";
    assert!(w.stdout(&["explain", "g.dvs"]).ends_with(expected));
    let finished = w.run_with_stdin(&["explain", "-", "power"], PROGRAM.as_bytes());
    assert!(
        finished.stdout.contains("<stdin>:2:67  call of `power`, which may call itself\n    2 | def power"),
        "{finished:#?}"
    );
}

#[test]
fn json_says_the_same() {
    let w = workspace("explain_json");
    let printed = w.stdout(&["explain", "p.dual", "recursive", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let place = |line: u32, column: u32, of: &serde_json::Value| {
        let mut of = of["place"].clone();
        assert!(of.as_object_mut().unwrap().remove("instruction").unwrap().is_u64());
        assert_eq!(of, serde_json::json!({ "file": "p.dual", "line": line, "column": column }));
    };
    let function = &found["functions"][0];
    assert_eq!((&function["name"], &found["functions"][1]["name"]), (&"recursive".into(), &"power".into()));
    let (repeated, call) = (&function["loops"][0], &function["calls"][0]);
    place(12, 3, repeated);
    assert_eq!((&repeated["recording"], &repeated["parent"]), (&"rounds".into(), &serde_json::Value::Null));
    assert_eq!(repeated["obstacle"]["because"], "it calls a function");
    assert_eq!(repeated["obstacle"]["call"], 0);
    place(12, 34, &repeated["obstacle"]);
    place(12, 34, call);
    assert_eq!((&call["kind"], &call["callee"], &call["parent"]), (&"function".into(), &"power".into(), &0.into()));
    assert_eq!(call["reason"], "may call itself");
    w.write("copy.dual", COPYING[0].0);
    let printed = w.stdout(&["explain", "copy.dual", "f", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let copy = &found["functions"][0]["copies"][0];
    assert_eq!((&copy["place"]["column"], &copy["cause"]["column"]), (&40.into(), &77.into()));
    assert_eq!(copy["because"], "it is read after the change as it was before");
    assert_eq!((&copy["parent"], &copy["before_loop"]), (&0.into(), &false.into()));
    let obstacle = &found["functions"][0]["loops"][0]["obstacle"];
    assert_eq!(obstacle, &serde_json::Value::Null, "that is recorded, too");
    let printed = w.stdout(&["explain", "p.dual", "nest", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let loops = &found["functions"][0]["loops"];
    assert_eq!((&loops[0]["recording"], &loops[1]["recording"]), (&"region".into(), &"in region".into()));
    assert_eq!((&loops[1]["region"], &loops[1]["parent"]), (&0.into(), &0.into()));
}

#[test]
fn names_that_are_not_there_are_bad_input() {
    let w = workspace("explain_names");
    let finished = w.run(&["explain", "p.dual", "recursiv"]);
    assert_eq!((finished.code, &*finished.stdout), (Some(2), ""));
    assert!(finished.stderr.contains("there is no function `recursiv`; did you mean `recursive`"), "{finished:#?}");
    let finished = w.run(&["explain", "p.dual"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("expected the name of a function"), "{finished:#?}");
    assert_eq!(w.run(&["explain", "nowhere.dual", "f"]).code, Some(2));
    // What a host can't call has code all the same, unless it is called with other functions only.
    w.write(
        "q.dual",
        "def twice (f : Real -> Real) (x : Real) : Real = f (f x)\ndef g (x : Real) : Real = twice sin x\n",
    );
    let finished = w.run(&["explain", "q.dual", "twice"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("takes a function"), "{finished:#?}");
}

#[test]
fn calls_are_left_for_reasons_of_size() {
    let engine = Engine::default();
    // Different constants, so that nothing is shared.
    let terms = |count: usize| (0..count).map(|n| format!("sin ({n}.5 * x)")).collect::<Vec<_>>().join(" + ");
    let text = format!(
        "def large (x : Real) : Real = {}\ndef medium (x : Real) : Real = {}
def f (x : Real) : Real = loop s = 0.0 for i < 9 do s + large (x + to_real i)
def g (x : Real) : Real = medium x + medium (2 * x) + (loop s = 0.0 for i < 9 do s + medium (s + x))",
        terms(120),
        terms(20)
    );
    let module = Module::from_source(&engine, "sizes.dual", &text).unwrap();
    let explained = module.explain("f").unwrap();
    let call = &explained.functions[0].calls[0];
    let reason = call.reason.as_deref().unwrap();
    assert!(
        reason.starts_with("is too large to be copied here (") && reason.ends_with(" nodes; at most 400)"),
        "{reason}"
    );
    let shown = explained.to_string();
    let expected = format!(
        "sizes.dual:3:27  loop: records in each round, because it calls `large` (sizes.dual:3:57), which {reason}\n"
    );
    assert!(shown.contains(&expected), "{shown}");
    let explained = module.explain("g").unwrap();
    let [first, second] = &explained.functions[0].calls[..] else { panic!("{explained}") };
    assert!(first.reason == second.reason && first.parent.is_none());
    let reason = first.reason.as_deref().unwrap();
    assert!(reason.starts_with("is too large to be copied where there is no loop ("), "{reason}");
    assert_eq!(explained.functions[0].loops.as_ref().unwrap()[0].recording, Recording::Straight);
    let error = module.explain("h").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSuchFunction { .. }), "{error}");
}

#[test]
fn loops_at_one_place_are_counted() {
    let text = "def f (x : Array Real) : Real =
  let y = loop y = x for _ < 100 do [| y[1], -0.5 * y[0] |] in
  y[0] + y[1]
";
    let engine = Engine::default();
    let module = Module::from_source(&engine, "p.dual", text).unwrap();
    let shown = module.explain("f").unwrap().with_sources(module.source_texts()).to_string();
    let because = "it makes an array from single elements, as in `[| x, y |]` (p.dual:2:37)";
    let expected = format!(
        "\nf:
  p.dual:2:11  loop 1 of 2 here: recorded whole, one record
  p.dual:2:11  loop 2 of 2 here: records in each round, because {because}
    2 |   let y = loop y = x for _ < 100 do [| y[1], -0.5 * y[0] |] in
      |           ^
"
    );
    assert!(shown.ends_with(&expected), "{shown}");
    assert!(shown.contains("\nSeveral loops have one place if "), "{shown}");
}

/// The types of the registers below.
const TYPES: &str =
    "message m0 \"no more\"\ntype t0 = array real\ntype t1 = builder real\ntype t2 = struct { real, real }
type t3 = variant { Nil {}, Cons { real, t3 } }\n";

/// The code of a function on (real, int) with registers to spare that runs this until the integer is 0.
fn body(round: &str) -> String {
    around("", round, "")
}

/// The same with code before and after it. Reals r0 to r79, p0 and p1 are builders of reals, p2 and p6 are arrays.
fn around(before: &str, round: &str, after: &str) -> String {
    format!(
        "regs 80 real, 4 int, t1, t1, t0, t2, t3, t3, t0\n{{\n {before}\n iconst i1, 1\n again:\n {round}\n isub i0, i0, i1
 ilt i2, i1, i0\n branch i2, again, done\n done:\n {after}\n ret (r0)\n}}\n"
    )
}

/// What is printed of functions of a program.
fn explainer(text: &str) -> impl Fn(&str) -> String {
    let module = Module::from_source(&Engine::default(), "p.dual", text).unwrap_or_else(|error| panic!("{error}"));
    move |name| module.explain(name).unwrap().to_string()
}

/// What becomes of the loops of a function with this code.
#[track_caller]
fn recordings(code: &str) -> Vec<Recording> {
    let text = format!(
        "{TYPES}func \"f\" (real, int) -> (real) export (x : Real, n : Int) -> Real\n{code}
func \"g\" (real) -> (real) regs 1 real {{\n ret (r0) }}
func \"h\" (t1) -> (t1) regs t1 {{\n ret (p0) }}\n"
    );
    let module = Module::from_assembly(&Engine::default(), "f.dvs", &text).unwrap_or_else(|error| panic!("{error}"));
    let explanation = module.explain("f").unwrap();
    explanation.functions[0].loops.as_ref().unwrap().iter().map(|found| found.recording.clone()).collect()
}

/// Why a function's first loop isn't recorded as one.
#[track_caller]
fn refusal(code: &str) -> (Refusal, String) {
    match &recordings(code)[0] {
        Recording::Rounds(obstacle) => {
            assert_eq!(obstacle.place.as_ref().map(|place| place.inst), obstacle.refusal.inst());
            (obstacle.refusal, obstacle.refusal.to_string())
        }
        other => panic!("{other:?}"),
    }
}

/// A branch, so that a loop isn't straight-line code.
const BRANCH: &str = "lt i2, r0, r1\n branch i2, yes, no\n yes:\n sin r0, r0\n jump no\n no:";

#[test]
fn instructions_that_no_such_loop_holds_are_named() {
    let because = |round: &str| refusal(&body(&format!("sin r0, r0\n {round}"))).1;
    assert_eq!(because("call \"g\" (r0) -> (r0)"), "it calls a function");
    assert_eq!(because("fork 1\n task \"g\" (r0) -> (r0)"), "it runs tasks");
    assert_eq!(because("variant_new p4, 0 ()"), "it makes a value of a data type, such as a list");
    let in_place = |inst: &str| refusal(&around("build p0, i0\n pack p2 (r0)", &format!("sin r0, r0\n {inst}"), "")).1;
    assert_eq!(in_place("reserve p0, p0, i0"), "it makes an array whose length isn't known when it begins");
    let (found, _) = refusal(&body("sin r0, r0\n variant_new p4, 0 ()"));
    assert_eq!(found.inst(), Some(2));
}

#[test]
fn every_reason_is_given_once_and_calls_come_first() {
    let text = "def power (n : Int) (x : Real) : Real = if n == 0 then 1 else x * power (n - 1) x
def pairs (n : Int) (x : Real) : (Real, List Real) =
  loop (s, l) = (0.0, []) for k < n do (s + power k x + power 3 s, s :: l)
def lists (n : Int) (x : Real) : List (Matrix Real) =
  loop l = [] for k < n do [| x * to_real (i + j + k) for i < 2, j < 2 |] :: l";
    let explain = explainer(text);
    let list = "it makes a value of a data type, such as a list";
    let expected = format!(
        "p.dual:3:3  loop: records in each round, because it calls `power` (p.dual:3:45), which may call itself,
    and because {list} (p.dual:3:68)\n"
    );
    assert!(explain("pairs").contains(&expected), "{}", explain("pairs"));
    let matrix = "it makes a matrix or tensor that stands in an array or list, or that a call takes or gives";
    let expected = format!(
        "p.dual:5:3  loop: records in each round, because {matrix} (p.dual:5:28),\n    and because {list} (p.dual:5:28)\n"
    );
    assert!(explain("lists").contains(&expected), "{}", explain("lists"));
}

#[test]
fn tuples_of_reals_are_not_in_the_way() {
    let text = "def sum_of (ps : Array (Real, Real)) : Real = loop s = 0.0 for (x, y) in ps do s + x * y
def carried (n : Int) (x : Real) : (Real, Int) = loop (s, k) = (x, 0) for i < n do (s * x, k + i)
def best (ps : Array (Real, Real)) : (Real, Real) =
  loop best = ps[0] for p in ps do match (p, best) with ((x, _), (y, _)) -> if x > y then p else best
def nested (pss : Array (Array (Real, Real))) : Real =
  loop s = 0.0 for ps in pss do loop s = s for (x, y) in ps do if x > y then s + x * y else s";
    let explain = explainer(text);
    for name in ["sum_of", "carried", "best", "nested"] {
        assert!(explain(name).contains("recorded whole"), "{}", explain(name));
    }
}

#[test]
fn arrays_that_are_changed_in_place_and_what_objects_hold_are_not_in_the_way() {
    let text = "def squares (a : Array Real) : Array Real = loop a = a for i < length a do { a with [i] = a[i] ^ 2 }
def sums (a : Array Real) : Array Real = loop a = a for i < length a do { a with [i] = sum a }
def table (x : Array Real) : Real =
  let t =
    loop t = [| 1.0 for i < 9, j < 9 |] for i in 1 .. 9 do
      loop t = t for j in 1 .. 9 do { t with [i, j] = min t[i - 1, j] t[i, j - 1] * x[i] } in
  t[8, 8]
def weighed (ws : Array (Int, Real)) (xs : Array Real) : Real = loop s = 0.0 for (k, w) in ws do s + w * xs[k]
def listed (xs : List Real) : Real = loop s = 0.0 for x in xs do if x > 0.5 then s + x * x else s - x
def matrices (ms : List (Matrix Real)) : Real = loop s = 0.0 for m in ms do s + m[0, 0] * m[0, 1]";
    let explain = explainer(text);
    for name in ["squares", "sums", "table", "weighed", "listed", "matrices"] {
        let shown = explain(name);
        assert!(shown.contains("recorded whole") && !shown.contains("records in each round"), "{shown}");
    }
}

#[test]
fn loops_are_found_behind_one_that_reads_what_it_has_changed() {
    let round = "put p0, i3, r0\n get r1, p0, i3\n sin r1, r1\n ".repeat(3);
    let after = "iconst i0, 3\n more:\n call \"g\" (r0) -> (r0)\n isub i0, i0, i1\n branch i0, more, over\n over:";
    let code = around("iconst i3, 0\n build p0, i0\n push p0, r0", &format!("{round} add r0, r0, r1"), after);
    let [Recording::Region, Recording::Rounds(obstacle)] = &recordings(&code)[..] else { panic!() };
    let is_instruction = |line: &&str| !line.trim().is_empty() && !line.ends_with([':', '{', '}']);
    // The first line says what registers there are.
    let before = code.lines().skip(1).take_while(|line| !line.contains("call")).filter(is_instruction);
    assert_eq!(obstacle.place.as_ref().map(|place| place.inst as usize), Some(before.count()));
}

#[test]
fn an_array_that_is_changed_in_place_has_been_begun_within_the_loops_around() {
    let change = "get r1, p0, i3\n sin r1, r1\n put p0, i3, r1";
    let inner = |before: &str, change: &str| {
        format!(
            "{before}\n iconst i3, 0\n jump inner\n inner:\n {change}\n iadd i3, i3, i1\n ilt i2, i3, i0
             branch i2, inner, out\n out:\n call \"g\" (r0) -> (r0)"
        )
    };
    let of_inner = |code: &str| recordings(code).pop().expect("there are two");
    let around_it = of_inner(&around("build p0, i0", &inner("", change), "finish p2, p0"));
    let Recording::Rounds(Obstacle { refusal, .. }) = around_it else { panic!("{around_it:?}") };
    assert!(matches!(refusal, Refusal::ChangedAround { .. }), "{refusal:?}");
    assert_eq!(refusal.to_string(), "it changes an array in place that a loop around it changes as well");
    let within = of_inner(&body(&inner("build p0, i0\n push p0, r0", change)));
    assert!(matches!(within, Recording::Region), "{within:?}");
    // By another name, which may be another array.
    let named = |first: &str| of_inner(&body(&inner(&format!("{first}\n build p0, i0\n push p0, r0"), change)));
    assert!(matches!(named("build p0, i0\n pmov p1, p0"), Recording::Region), "nobody reads it");
    let read = "get r1, p0, i3\n put p1, i3, r1";
    let two = of_inner(&body(&inner("build p0, i0\n pmov p1, p0\n build p0, i0", read)));
    assert!(matches!(two, Recording::Region), "{two:?}");
    let perhaps = "build p0, i0\n pmov p1, p0\n branch i1, another, same\n another:\n build p0, i0\n jump same\n same:";
    let other = of_inner(&body(&inner(perhaps, read)));
    let Recording::Rounds(Obstacle { refusal, .. }) = other else { panic!("{other:?}") };
    assert!(matches!(refusal, Refusal::BuilderUnknown { .. }), "{refusal:?}");
    // What was chosen, called or given room may be the array, and so may what is pushed to in the loop.
    for elsewhere in ["pselect p1, i1, p0, p0", "reserve p1, p0, i0", "call \"h\" (p0) -> (p1)"] {
        let begun = format!("build p0, i0\n push p0, r0\n {elsewhere}");
        let found = of_inner(&body(&inner(&begun, &format!("push p1, r0\n {change}"))));
        let Recording::Rounds(Obstacle { refusal, .. }) = found else { panic!("{elsewhere}: {found:?}") };
        assert!(matches!(refusal, Refusal::ChangedAround { .. }), "{elsewhere}: {refusal:?}");
    }
    let appended = of_inner(&body(&inner("build p0, i0\n push p0, r0", &format!("push p0, r0\n {change}"))));
    let Recording::Rounds(Obstacle { refusal, .. }) = appended else { panic!("{appended:?}") };
    assert_eq!(refusal.to_string(), "it appends to an array that it changes in place and that is begun before it");
}

#[test]
fn an_array_that_is_changed_where_it_is_made_is_finished_always() {
    let change = "get r1, p0, i3\n sin r1, r1\n put p0, i3, r1";
    let begun = "iconst i3, 0\n build p0, i1\n push p0, r0";
    let because = |end: &str| refusal(&body(&format!("{begun}\n {change}\n {end}"))).1;
    let is_region = |code: String| matches!(recordings(&code)[..], [Recording::Region]);
    assert!(is_region(body(&format!("{begun}\n {change}\n finish p2, p0\n elem r0, p2, i3"))));
    // Where it traps, nobody asks.
    let trap = "iadd i2, i0, i1\n branch i2, goes_on, trapped\n trapped:\n trap m0\n goes_on:\n finish p2, p0
 add r0, r0, r1";
    assert!(is_region(body(&format!("{begun}\n {change}\n {trap}"))));
    let unfinished = "it changes an array in place that it may leave unfinished";
    assert_eq!(because("add r0, r0, r1"), unfinished);
    assert_eq!(because("add r0, r0, r1\n branch i3, yes, no\n yes:\n finish p2, p0\n jump no\n no:"), unfinished);
    assert_eq!(because("add r0, r0, r1\n branch i3, done, on\n on:\n finish p2, p0"), unfinished);
    assert_eq!(because("add r0, r0, r1\n build p0, i1\n push p0, r0\n finish p2, p0"), unfinished);
    // Before it is changed it may be left.
    let left =
        format!("{begun}\n branch i3, no, yes\n yes:\n {change}\n finish p2, p0\n add r0, r0, r1\n jump no\n no:");
    assert!(is_region(body(&left)));
}

/// Programs with an update that copies an array of 1,000 numbers in each of 20 rounds: a function on (n, xs), its last
/// line's place of the copy, and what is said of it.
const COPYING: [(&str, &str, &str); 12] = [
    (
        "def f (n : Int) (xs : Array Real) : (Array Real, Array Real) =
  loop (a, b) = (xs, xs) for i < n do ({ a with [i] = 1.0 }, { b with [i] = a[i] })",
        "2:40",
        "it is read after the change as it was before (p.dual:2:77)",
    ),
    (
        "def f (n : Int) (xs : Array Real) : (Array Real, Array Real) =
  loop (a, old) = (xs, xs) for i < n do ({ a with [i] = 1.0 }, a)",
        "2:42",
        "it is read after the change as it was before (p.dual:2:64)",
    ),
    (
        "def g (k : Int) (a : Array Real) : Real = if k == 0 then a[0] else g (k - 1) a * a[k] + 1
def f (n : Int) (xs : Array Real) : Array Real = loop a = xs for i < n do { a with [i] = g i a }",
        "2:75",
        "it is also used as a whole, not only by index and length (p.dual:2:94)",
    ),
    (
        "def f (n : Int) (xs : Array Real) : Array Real =
  loop a = xs for i < n do if a[i] < 0 then xs else { a with [i] = 1.0 }",
        "2:53",
        "a round may go on with another array (p.dual:2:45)",
    ),
    (
        "def f (n : Int) (xs : Array Real) : (Array Real, Array Real) =
  loop (a, b) = (xs, xs) for i < n do
    let (p, q) = if i % 2 == 0 then (a, b) else (b, a) in ({ p with [i] = 1.0 }, q)",
        "3:60",
        "a `let` names several arrays, and it may be any of them (p.dual:3:18)",
    ),
    (
        "def g (k : Int) (a : Array Real) : Real = if k == 0 then a[0] else g (k - 1) a * a[k] + 1
def f (n : Int) (xs : Array Real) : Array Real = [| g 2 { xs with [i] = 2.0 } for i < n |]",
        "2:57",
        "it is no accumulator of this loop: each round changes the same array",
    ),
    (
        "def g (k : Int) (a : Array Real) : Real = if k == 0 then a[0] else g (k - 1) a * a[k] + 1
def f (n : Int) (xs : Array Real) : Array Real =
  [| g 2 { [| x + to_real i for x in xs |] with [i] = 2.0 } for i < n |]",
        "3:10",
        "it is no accumulator of this loop: each round makes another array",
    ),
    (
        "def f (n : Int) (xs : Array Real) : Array (Array Real) =
  loop t = [| xs for _ < n |] for i < n do { t with [i] = { t[i] with [0] = 1.0 } }",
        "2:59",
        "it is an element of another array",
    ),
    (
        "type Counted = Counted (Array Real) Int
def f (n : Int) (xs : Array Real) : Counted =
  loop c = Counted xs 0 for i < n do match c with Counted a k -> Counted { a with [i] = 1.0 } (k + 1)",
        "3:74",
        "it is in a value of a data type, such as a list",
    ),
    (
        "def f (n : Int) (xs : Array Real) : Real = if n == 0 then xs[0] else f (n - 1) { xs with [n] = 2.0 } * 2",
        "1:80",
        "it is an argument of a function that calls itself, and not only in tail position",
    ),
    (
        "def f (n : Int) (xs : Array Real) : Array Real =
  loop a = xs for i < n do
    let b = loop b = a for j < n do { b with [j] = b[j] * 2 } in if b[i] > 3 then a else b",
        "3:22",
        "it is read after the change as it was before (p.dual:3:83)",
    ),
    (
        "def g (n : Int) (m : Matrix Real) : Real = if n == 0 then m[0, 0] else g (n - 1) m * m[0, 1]
def f (n : Int) (xs : Array Real) : Matrix Real =
  loop m = [| xs[i + j] for i < 1, j < 1000 |] for i < n do { m with [0, i] = g i m }",
        "3:61",
        "it is also used as a whole, not only by index and length (p.dual:3:83)",
    ),
];

/// How many bytes a run with 20 rounds on an array of 1,000 numbers allocates.
fn allocated(text: &str) -> u64 {
    let module = Module::from_source(&Engine::default(), "p.dual", text).unwrap_or_else(|error| panic!("{error}"));
    let args = [Value::Int(20), vec![1.0; 1000].into()];
    let (_, stats) = module.function("f").unwrap().call_with(&args, &CallOptions::default()).unwrap();
    stats.allocated_bytes
}

#[test]
fn copies_of_arrays_that_are_changed_are_told_with_the_reason() {
    for (text, place, reason) in COPYING {
        let shown = explainer(text)("f");
        let copy = shown.lines().find(|line| line.contains("copy of an array")).unwrap_or_else(|| panic!("{shown}"));
        assert!(copy.starts_with(&format!("  p.dual:{place}  copy of an array, ")), "{shown}");
        assert!(copy.contains(&format!(", because {reason}")), "{shown}");
        assert!(allocated(text) >= 20 * 8000, "{text}");
    }
}

#[test]
fn nothing_is_told_of_arrays_that_are_changed_in_place() {
    let programs = [
        "def f (n : Int) (xs : Array Real) : (Array Real, Array Real) =
  loop (a, b) = (xs, xs) for i < n do let x = a[i] in ({ a with [i] = 1.0 }, { b with [i] = x })",
        "def f (n : Int) (xs : Array Real) : Array Real = if n == 0 then xs else f (n - 1) { xs with [n] = 2.0 }",
        "def f (n : Int) (xs : Array Real) : Array Real = fold (\\a i -> { a with [i] = a[i] + 1 }) xs (range 0 n)",
        "def f (n : Int) (xs : Array Real) =
  loop r = { a = xs, k = 0 } for i < n do { r with a = { r.a with [i] = 1.0 }, k = r.k + 1 }",
        "def f (n : Int) (xs : Array Real) : Matrix Real =
  loop m = [| xs[i + j] for i < 1, j < 1000 |] for i < n do { m with [0, i] = m[0, i + 1] }",
    ];
    for text in programs {
        let shown = explainer(text)("f");
        assert!(shown.contains("recorded whole"), "{shown}");
        assert!(!shown.contains("copy of an array"), "{shown}");
        assert!(allocated(text) < 4 * 8100, "{text}");
    }
}

#[test]
fn a_copy_is_told_with_the_loop_that_it_is_in() {
    let text = "def f (t : Array (Array Real)) : Array (Array Real) =
  loop t = t for i < length t do
    loop t = t for j in 1 .. length t[i] do { t with [i] = { t[i] with [j] = t[i][j - 1] + t[i][j] } }
def g (xs : Array Real) : Array Real = { xs with [0] = 1.0 }";
    let shown = explainer(text)("f");
    let outer = "p.dual:3:5  copy of an array, in each round of the outer loop, for an inner one to change it in place, \
                 because it is an element of another array\n";
    assert!(shown.contains(outer), "{shown}");
    let few = "p.dual:3:60  copy of an array, in each round, to change an element, because it is an element of another \
               array, and the loop has few rounds\n";
    assert!(shown.contains(few), "{shown}");
    let once = explainer(text)("g");
    assert!(once.ends_with("\ng:\n  p.dual:4:40  copy of an array, to change an element\n"), "{once}");
}

#[test]
fn calls_and_copies_of_which_the_same_is_to_be_said_are_counted() {
    let text = "def fib (n : Int) (x : Real) : Real = if n < 2 then x else fib (n - 1) x + fib (n - 2) x";
    let shown = explainer(text)("fib");
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains("call of")).collect();
    let expected =
        |column: u32| format!("  p.dual:1:{column}  call of `fib`, which may call itself (4 times in the code)");
    assert_eq!(lines, [expected(60), expected(76)]);
}

#[test]
fn a_loop_in_another_one_at_its_place_names_it() {
    let text =
        "def f (n : Int) (m : Matrix Real) : Matrix Real = loop m = m for _ < n do [| m[i, j] * 2 for i < 2, j < 2 |]";
    let shown = explainer(text)("f");
    let around = "p.dual:1:51  loop: recorded whole with all that is in it, one record\n";
    assert!(shown.contains(around), "{shown}");
    let both = ["1 of 2", "2 of 2"]
        .map(|which| format!("  p.dual:1:75  loop {which} here: part of the record of the loop at p.dual:1:51\n"));
    assert!(shown.contains(&both.concat()), "{shown}");
    let alone = explainer("def f (m : Matrix Real) : Matrix Real = [| m[i, j] * 2 for i < 2, j < 2 |]")("f");
    let outer = "p.dual:1:41  loop 1 of 2 here: recorded whole with all that is in it, one record\n";
    let inner = "p.dual:1:41  loop 2 of 2 here: part of the record of loop 1\n";
    assert!(alone.contains(&format!("  {outer}  {inner}")), "{alone}");
}

#[test]
fn what_loops_do_with_builders_may_be_in_the_way() {
    const ZERO: &str = "const r1, 0.5\n";
    let builders = |before: &str, round: &str, after: &str| {
        refusal(&around(&format!("{ZERO} {before}"), &format!("{BRANCH}\n {round}"), after))
    };
    let both = "build p0, i0\n build p1, i0";
    let outer = builders(both, "push p0, r0\n push p1, r0", "finish p2, p0");
    assert_eq!(outer, (Refusal::Builders, "it appends to several arrays that are begun before it".to_owned()));
    let finish = builders(both, "finish p2, p0", "");
    assert_eq!(finish, (Refusal::BuilderFromOutside, "it finishes an array that is begun before it".to_owned()));
    let after = builders("", "build p0, i0\n push p0, r0", "finish p2, p0");
    let text = "an array that it begins is under construction before it or after it";
    assert_eq!(after, (Refusal::BuilderInUse, text.to_owned()));
    let chosen = builders(both, "pselect p1, i1, p0, p1\n push p1, r0", "");
    assert!(matches!(chosen.0, Refusal::BuilderUnknown { .. }), "{chosen:?}");
    assert_eq!(chosen.1, "which of several arrays it makes can't be told");
    let two = "build p0, i0\n pmov p1, p0\n branch i1, another, same\n another:\n build p0, i0\n jump same\n same:
 push p1, r0\n push p0, r0\n finish p2, p1\n finish p2, p0";
    let two = builders("", two, "");
    assert!(matches!(two.0, Refusal::BuilderUnknown { .. }), "{two:?}");
    let named = "build p0, i0\n pmov p1, p0\n push p0, r0\n get r0, p1, i3\n finish p2, p0";
    let read = builders("iconst i3, 0", named, "");
    assert!(matches!(read.0, Refusal::ElementBehindFinish { .. }), "{read:?}");
    assert_eq!(read.1, "it may read an array right where it makes it");
}

#[test]
fn there_are_limits_to_what_is_recorded_as_one() {
    let with = |more: &str| refusal(&around("const r1, 0.5", &format!("{BRANCH}\n {more}"), ""));
    let because =
        |refusal: Refusal, text: &str, found: (Refusal, String)| assert_eq!(found, (refusal, text.to_owned()));
    let instructions = with(&"iadd i3, i1, i1\n".repeat(1100));
    because(Refusal::Instructions { max: 1024 }, "it has more than 1024 instructions", instructions);
    let reals = with(&"sin r0, r0\n".repeat(520));
    because(Refusal::RealOps { max: 512 }, "it has more than 512 operations on reals", reals);
    let blocks: String = (0..210).map(|n| format!("branch i1, a{n}, a{n}\n a{n}:\n")).collect();
    because(Refusal::Blocks { max: 200 }, "it has more than 200 basic blocks", with(&blocks));
    // Each read in the loop and defined before it.
    let sums: String = (2..80).map(|n| format!("add r0, r0, r{n}\n")).collect();
    let defined: String = (1..80).map(|n| format!("add r{n}, r0, r0\n")).collect();
    let inputs = refusal(&around(&defined, &format!("{BRANCH}\n {sums}"), ""));
    because(Refusal::Inputs { max: 64 }, "it reads more than 64 reals and arrays from before it", inputs);
    let forever = "regs 2 real, 3 int, t1\n{\n const r1, 0.5\n build p0, i0\n again:\n lt i2, r0, r1
 branch i2, yes, no\n yes:\n sin r0, r0\n push p0, r0\n jump again\n no:\n cos r0, r0\n jump again\n}\n";
    because(Refusal::NoExit, "it has no way out", refusal(forever));
    let nothing =
        "regs 2 real, 4 int\n{\n mov r1, r0\n iconst i1, 1\n again:\n lt i2, r0, r1\n branch i2, yes, no\n yes:
 sin r1, r1\n jump no\n no:\n isub i0, i0, i1\n ilt i2, i1, i0\n branch i2, again, done\n done:\n ret (r0)\n}\n";
    because(Refusal::NothingRead, "no real that it computes is read after it", refusal(nothing));
}

#[test]
fn loops_that_nest_too_deeply_are_not_one_but_the_inner_ones_are() {
    let mut text = "def f (x : Real) : Real =\n".to_owned();
    for depth in 0..9 {
        text += &format!(
            "  loop s{depth} = {} for i{depth} < 2 do\n",
            if depth == 0 { "x".into() } else { format!("s{}", depth - 1) }
        );
    }
    text += "  sin s8 * to_real (i0 + i1 + i2 + i3 + i4 + i5 + i6 + i7 + i8)\n";
    let module = Module::from_source(&Engine::default(), "deep.dual", &text).unwrap();
    let explanation = module.explain("f").unwrap();
    let loops = explanation.functions[0].loops.as_ref().unwrap();
    let Recording::Rounds(obstacle) = &loops[0].recording else { panic!("{explanation}") };
    assert_eq!(obstacle.refusal, Refusal::Depth { max: 8 });
    assert_eq!(obstacle.refusal.to_string(), "loops nest in it to a depth of more than 8");
    assert_eq!(loops[1].recording, Recording::Region);
    assert!(loops[2..].iter().all(|inner| inner.recording == Recording::InRegion(1)), "{explanation}");
}

#[test]
fn inside_of_what_is_too_much_for_a_record_straight_loops_are_recorded() {
    let sums: String = (2..80).map(|n| format!("add r0, r0, r{n}\n")).collect();
    let defined: String = (1..80).map(|n| format!("add r{n}, r0, r0\n")).collect();
    let inner = "iconst i3, 5\n jump inner\n inner:\n sin r0, r0\n isub i3, i3, i1\n branch i3, inner, out\n out:";
    let branchy =
        format!("iconst i3, 5\n jump rounds\n rounds:\n {BRANCH}\n isub i3, i3, i1\n branch i3, rounds, on\n on:");
    let found = recordings(&around(&defined, &format!("{inner}\n {branchy}\n {sums}"), ""));
    let refusal = |recording: &Recording| match recording {
        Recording::Rounds(obstacle) => Some(obstacle.refusal),
        _ => None,
    };
    assert_eq!(refusal(&found[0]), Some(Refusal::Inputs { max: 64 }));
    assert_eq!(found[1], Recording::Straight);
    assert_eq!(refusal(&found[2]), Some(Refusal::Around));
}

/// A function and its profile, on one thread.
#[track_caller]
fn profile(jit: Jit, text: &str, name: &str, args: &[Value]) -> Profile {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, 1);
    let module = Module::from_source(&Engine::new(config), "p.dual", text).unwrap_or_else(|error| panic!("{error}"));
    let function = module.function(name).unwrap();
    let profile = function.profile(args, &CallOptions::default()).unwrap();
    let stats = function.value_and_grad_with(args, &CallOptions::default()).unwrap().stats;
    assert_eq!((stats.records, stats.tape_bytes), (profile.stats.records, profile.stats.tape_bytes));
    let sum = |of: fn(&dualvm::SiteUsage) -> u64| profile.sites.iter().map(of).sum::<u64>();
    assert_eq!(sum(|site| site.records), stats.records + stats.imports, "{profile:#?}");
    assert_eq!(sum(|site| site.tape_bytes), stats.tape_bytes, "{profile:#?}");
    assert!(profile.sites.is_sorted_by_key(|site| std::cmp::Reverse((site.tape_bytes, site.sweep))), "{profile:#?}");
    profile
}

/// The line of a loop.
fn line(site: &Site) -> Option<u32> {
    match site {
        Site::Loop { place, .. } => place.source.as_ref().map(|place| place.line),
        _ => None,
    }
}

#[test]
fn a_profile_counts_by_loops_and_adds_up() {
    for jit in [Jit::Off, Jit::Always] {
        let found = profile(jit, PROGRAM, "recursive", &[2.0.into()]);
        let [power, sum] = &found.sites[..] else { panic!("{found:#?}") };
        assert!(matches!(&power.site, Site::Function { function, .. } if function == "power"), "{found:#?}");
        assert_eq!((power.records, sum.records, line(&sum.site)), (45, 9, Some(12)));
        let found = profile(jit, PROGRAM, "nest", &[Value::Array(vec![vec![1.0, 2.0].into(), vec![3.0].into()])]);
        let [nest] = &found.sites[..] else { panic!("{found:#?}") };
        assert_eq!((nest.records, line(&nest.site)), (1, Some(8)));
        assert!(nest.sweep.as_nanos() > 0);
        // A constant leaves nothing.
        assert!(profile(jit, "def k (x : Real) : Real = 3", "k", &[1.0.into()]).sites.is_empty());
    }
}

#[test]
fn records_of_many_slabs_are_counted() {
    // A loop with entries and a region with a trail of several slabs, packs and segments beside them.
    let text = "def f (n : Int) (x : Real) : Real =
  let a = loop s = x for i < n do sin (s * x) in
  let b = loop s = x for i < n do
    if s > 0.2 then cos s * x else s + x in
  let c = loop s = x for i < n do
    let ys = [| s, x, a |] in ys[i % 3] * b in
  sum [| x, a, b, c |]";
    for jit in [Jit::Off, Jit::Always] {
        let found = profile(jit, text, "f", &[Value::Int(20_000), 0.7.into()]);
        assert!(found.stats.tape_bytes > 4 * (64 << 10), "{found:#?}");
        let records = |wanted: u32| found.sites.iter().find(|site| line(&site.site) == Some(wanted)).unwrap().records;
        assert_eq!((records(2), records(3)), (1, 1));
        assert_eq!(records(5), 20_000);
        assert!(found.sites.iter().any(|site| site.site == Site::Arrays), "{found:#?}");
    }
}

#[test]
fn records_of_tasks_are_counted() {
    let text = "def squares (xs : Array Real) (from : Int) (to : Int) : Real =
  if to - from == 1 then xs[from] * xs[from]
  else
    let middle = (from + to) / 2 in
    let (a, b) = squares xs from middle |*| squares xs middle to in
    a + b
def f (xs : Array Real) : Real = squares xs 0 (length xs)
def g (xs : Array Real) : Real = sum (pmap (\\x -> loop s = x for y in xs do s + x * y) xs)";
    let args = [vec![1.0, 2.0, 3.0, 4.0].into()];
    for jit in [Jit::Off, Jit::Always] {
        let found = profile(jit, text, "f", &args);
        let imports = found.sites.iter().find(|site| site.site == Site::Imports).unwrap();
        assert_eq!(imports.records, found.stats.imports);
        assert!(found.stats.tasks > 1 && found.sites.iter().any(|site| site.site == Site::Forks), "{found:#?}");
        profile(jit, text, "g", &args);
    }
}

#[test]
fn stats_of_a_gradient_end_with_the_profile() {
    let w = workspace("explain_stats");
    let finished = w.run(&["grad", "p.dual", "recursive", "2.0", "--stats", "--threads", "1"]);
    let (_, table) =
        finished.stderr.split_once("by loop and function; the sweep in one thread, each record timed:\n").unwrap();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["records", "tape", "bytes", "sweep"]);
    assert_eq!((&lines[1][..2], &lines[1][4..]), (&["45", "1440"][..], &["power,", "outside", "of", "loops"][..]));
    assert_eq!(
        (&lines[2][..2], &lines[2][4..]),
        (&["9", "144"][..], &["loop", "at", "p.dual:12:3", "in", "recursive"][..])
    );
    assert_eq!(lines.len(), 3);
    // A run without a gradient has no tape.
    assert!(!w.run(&["run", "p.dual", "recursive", "2.0", "--stats"]).stderr.contains("by loop"));
    let printed = w.stdout(&["grad", "p.dual", "recursive", "2.0", "--stats", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let site = &found["stats"]["sites"][1];
    let name = |key: &str| site[key].clone();
    assert_eq!([name("site"), name("function")], ["loop", "recursive"]);
    assert_eq!([name("line"), name("column"), name("records"), name("tape_bytes")], [12, 3, 9, 144]);
    assert!(site["sweep_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn calls_have_kinds() {
    let module = Module::from_source(&Engine::default(), "p.dual", PROGRAM).unwrap();
    let kinds = |name: &str| -> Vec<CallKind> {
        module.explain(name).unwrap().functions[0].calls.iter().map(|call| call.kind).collect()
    };
    assert_eq!(kinds("recursive"), [CallKind::Function]);
    assert_eq!(kinds("chosen"), [CallKind::Value]);
    assert_eq!(kinds("tasks"), [CallKind::Task, CallKind::Task]);
}

#[test]
fn what_many_choices_may_give_is_looked_at_once() {
    // Each choice is between an update of what the one before gives, and that.
    let choice = |n: usize| format!("let x{n} = if a > {n} then {{ x{0} with [0] = a }} else x{0} in\n", n - 1);
    let choices: String = (1..=60).map(choice).collect();
    let text = format!("def f (x0 : Array Real) (a : Real) : Array Real =\n{choices} {{ x60 with [1] = x60[0] }}");
    let module = Module::from_source(&Engine::default(), "p.dual", &text).unwrap();
    assert!(!module.explain("f").unwrap().functions[0].copies.is_empty());
    let changed = module.function("f").unwrap().call(&[Value::Reals(vec![1.0, 2.0]), Value::Real(3.5)]).unwrap();
    assert_eq!(changed, Value::Reals(vec![3.5, 3.5]));
}
