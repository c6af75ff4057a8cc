//! `dualvm gradbench` replays sessions of the suite that were recorded with other tools, and meets their outputs; and
//! the hand-written programs that `dualvm bench` compares with agree with it.

#[allow(dead_code, reason = "how many operations there are is for the benchmark")]
#[path = "../benches/gradbench/hand.rs"]
mod hand;
#[path = "support/program.rs"]
mod program;

use dualvm::{Engine, Module};
use hand::{HandWritten, ba, det, gmm, ht, kmeans, llsq, lse, lstm, ode};
use program::{Finished, Workspace};
use serde::de::DeserializeSeed;
use serde_json::{Value as Json, json};

/// Relative difference, and difference near 0, that are no errors.
const RELATIVE: f64 = 1e-9;
const ABSOLUTE: f64 = 1e-12;

/// The relative difference in evals that end when a step has become small.
const RELATIVE_AFTER_DESCENT: f64 = 1e-6;

/// Gradient descents with nested derivatives, and their mixes of forward and reverse mode.
const DESCENTS: [&str; 2] = ["particle", "saddle"];
const MIXES: [&str; 4] = ["ff", "fr", "rf", "rr"];

macro_rules! log {
    ($name:literal) => {
        ($name, include_str!(concat!("data/gradbench/", $name, ".jsonl")))
    };
}

const LOGS: [(&str, &str); 12] = [
    log!("hello"),
    log!("det"),
    log!("gmm"),
    log!("ba"),
    log!("ht"),
    log!("kmeans"),
    log!("llsq"),
    log!("lse"),
    log!("lstm"),
    log!("ode"),
    log!("particle"),
    log!("saddle"),
];

/// Messages and what another tool answered.
fn pairs(log: &str) -> Vec<(Json, Json)> {
    let parse = |line: &str| serde_json::from_str::<Json>(line).expect("logs are JSON");
    let lines: Vec<Json> = log.lines().map(parse).collect();
    lines.chunks(2).map(|pair| (pair[0]["message"].clone(), pair[1]["response"].clone())).collect()
}

fn run(test: &str, flags: &[&str], messages: &[u8]) -> Finished {
    Workspace::new(&format!("gradbench_{test}")).run_with_stdin(&[&["gradbench"], flags].concat(), messages)
}

/// What the program answers to messages.
#[track_caller]
fn answers(test: &str, flags: &[&str], messages: &[Json]) -> Vec<Json> {
    let lines: Vec<String> = messages.iter().map(|message| format!("{message}\n")).collect();
    let finished = run(test, flags, lines.concat().as_bytes());
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{test}");
    let answers: Vec<Json> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).expect("answers are JSON")).collect();
    assert_eq!(answers.len(), messages.len(), "{test}");
    answers
}

/// Compares numbers within the tolerance, and everything else exactly.
fn difference(place: &str, found: &Json, expected: &Json) -> Option<String> {
    difference_beyond(RELATIVE, place, found, expected)
}

fn difference_beyond(relative: f64, place: &str, found: &Json, expected: &Json) -> Option<String> {
    let all = |names: Vec<String>, parts: Vec<(&Json, &Json)>| {
        names.iter().zip(parts).find_map(|(name, (found, expected))| {
            difference_beyond(relative, &format!("{place}[{name}]"), found, expected)
        })
    };
    match (found, expected) {
        (Json::Array(found), Json::Array(expected)) if found.len() == expected.len() => {
            let names = (0..found.len()).map(|i| i.to_string()).collect();
            all(names, found.iter().zip(expected).collect())
        }
        (Json::Object(found), Json::Object(expected)) if found.keys().eq(expected.keys()) => {
            all(found.keys().cloned().collect(), found.values().zip(expected.values()).collect())
        }
        (Json::Number(x), Json::Number(y)) => {
            let (x, y) = (x.as_f64().expect("a number"), y.as_f64().expect("a number"));
            let near = (x - y).abs() <= (relative * x.abs().max(y.abs())).max(ABSOLUTE);
            (!near).then(|| format!("{place}: found {x:?}, expected {y:?}"))
        }
        _ => (found != expected).then(|| format!("{place}: found {found}, expected {expected}")),
    }
}

#[track_caller]
fn assert_timed(answer: &Json) {
    let timings = answer["timings"].as_array().expect("timings are a list");
    let names: Vec<&str> = timings.iter().filter_map(|timing| timing["name"].as_str()).collect();
    assert_eq!(names[0], "prepare");
    assert!(names.len() > 1 && names[1..].iter().all(|name| *name == "evaluate"), "{names:?}");
    assert!(timings.iter().all(|timing| timing["nanoseconds"].is_u64()), "{timings:?}");
}

#[track_caller]
fn assert_answered(name: &str, message: &Json, found: &Json, recorded: &Json) {
    assert_eq!(found["id"], message["id"], "{name}");
    let function = message["function"].as_str().unwrap_or_default();
    let relative = if DESCENTS.contains(&name) { RELATIVE_AFTER_DESCENT } else { RELATIVE };
    match message["kind"].as_str().expect("messages have a kind") {
        "start" => assert_eq!(found, &json!({ "id": message["id"], "tool": "dualvm" })),
        "define" => assert_eq!(found, &json!({ "id": message["id"], "success": true })),
        "evaluate" => {
            assert_eq!(found["success"], true, "{name}::{function}: {found}");
            let difference = difference_beyond(relative, "", &found["output"], &recorded["output"]);
            assert_eq!(difference, None, "{name}::{function} ({})", message["description"]);
            assert_timed(found);
        }
        _ => assert_eq!(found, &json!({ "id": message["id"] })),
    }
}

#[test]
fn recorded_outputs_are_met() {
    for (name, log) in LOGS {
        let pairs = pairs(log);
        let messages: Vec<Json> = pairs.iter().map(|(message, _)| message.clone()).collect();
        let answers = answers(name, &[], &messages);
        for (found, (message, recorded)) in answers.iter().zip(&pairs) {
            assert_answered(name, message, found, recorded);
        }
    }
}

/// A message that evaluates a function.
fn evaluate(id: i64, module: &str, function: &str, input: &Json) -> Json {
    json!({ "id": id, "kind": "evaluate", "module": module, "function": function, "input": input })
}

#[test]
fn functions_run_as_often_and_as_long_as_asked() {
    let lse = |id, runs: u64, seconds: f64| {
        evaluate(id, "lse", "gradient", &json!({ "x": [1, 2.5], "min_runs": runs, "min_seconds": seconds }))
    };
    // Of the first run of all, in which code may be compiled, only `prepare` tells.
    let answers = answers("often", &[], &[lse(0, 1, 0.0), lse(1, 7, 0.0), lse(2, 1, 0.05), lse(3, 0, 0.0)]);
    let timings = |n: usize| answers[n]["timings"].as_array().expect("a list").clone();
    assert_eq!([0, 1, 3].map(|n| timings(n).len()), [2, 8, 2]);
    let total: u64 = timings(2)[1..].iter().filter_map(|timing| timing["nanoseconds"].as_u64()).sum();
    assert!(total >= 50_000_000, "{total}");
}

/// From another start than the recorded one, too, where the two coordinates differ.
#[test]
fn mixes_of_modes_agree() {
    let inputs =
        [json!({ "w": 0.0 }), json!({ "w": -0.2 }), json!({ "start": [1.0, 1.0] }), json!({ "start": [0.5, -2] })];
    for (n, input) in inputs.iter().enumerate() {
        let name = DESCENTS[usize::from(input.get("start").is_some())];
        let messages = MIXES.map(|mix| evaluate(0, name, mix, input));
        let answers = answers(&format!("mixes_{n}"), &[], &messages);
        for (found, mix) in answers.iter().zip(MIXES) {
            assert_eq!(found["success"], true, "{name}::{mix}: {found}");
            assert_eq!(difference("", &found["output"], &answers[0]["output"]), None, "{name}::{mix}");
        }
    }
}

#[test]
fn engines_give_the_same_bits() {
    for (name, log) in LOGS.iter().filter(|(name, _)| ["gmm", "kmeans", "particle", "saddle"].contains(name)) {
        let messages: Vec<Json> = pairs(log).into_iter().map(|(message, _)| message).collect();
        let [off, always] =
            ["off", "always"].map(|jit| answers(&format!("{name}_jit_{jit}"), &["--jit", jit], &messages));
        for (off, always) in off.iter().zip(&always) {
            assert_eq!(off["output"].to_string(), always["output"].to_string(), "{name}");
        }
    }
}

#[test]
fn numbers_are_read_and_written_without_loss() {
    let square = |id: i64, x: Json| evaluate(id, "hello", "square", &x);
    let messages = [0.1, 1.0 / 3.0, 5e-324, 1e200].map(|x| square(0, json!(x)));
    let outputs: Vec<Json> = answers("numbers", &[], &messages).iter().map(|found| found["output"].clone()).collect();
    let third: f64 = 1.0 / 3.0;
    assert_eq!(outputs, [json!(0.1 * 0.1), json!(third * third), json!(0.0), json!("Infinity")]);
}

#[test]
fn a_hand_without_triangle_coordinates_is_compared_at_its_vertices() {
    let (_, log) = LOGS.iter().find(|(name, _)| *name == "ht").expect("ht has a log");
    let mut input = pairs(log)[1..].iter().find_map(|(message, _)| message.get("input").cloned()).expect("an input");
    let triangle = input["data"]["model"]["triangles"][3].clone();
    // Point 3 at the corners of its triangle: by coordinates, and as vertices.
    let keep = |input: &mut Json, name: &str| input["data"][name] = vec![input["data"][name][3].clone(); 3].into();
    keep(&mut input, "correspondences");
    keep(&mut input, "points");
    input["us"] = json!([[1, 0], [0, 1], [0, 0]]);
    let mut simple = input.clone();
    simple["us"] = json!([]);
    simple["data"]["correspondences"] = triangle;
    let ask = |id, function: &str, input: &Json| evaluate(id, "ht", function, input);
    let messages = [
        ask(0, "objective", &input),
        ask(1, "objective", &simple),
        ask(2, "jacobian", &input),
        ask(3, "jacobian", &simple),
    ];
    let answers = answers("simple", &[], &messages);
    assert_eq!(difference("", &answers[1]["output"], &answers[0]["output"]), None);
    let rows = |n: usize| answers[n]["output"].as_array().expect("rows").clone();
    assert_eq!((rows(2).len(), rows(3).len()), (9, 9));
    for (row, simple) in rows(2).iter().zip(&rows(3)) {
        let (row, simple) = (row.as_array().expect("a row"), simple.as_array().expect("a row"));
        assert_eq!((row.len(), simple.len()), (28, 26));
        assert_eq!(difference("", &json!(simple), &json!(row[2..])), None);
    }
}

#[test]
fn what_cannot_be_had_is_an_answer_and_not_the_end() {
    let ba = json!({
        "n": 1, "m": 1, "p": 0, "cam": [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], "x": [0, 0, 1], "w": 1, "feat": [0, 0]
    });
    let gmm = json!({ "x": [[1.0]], "alpha": [1.0, 2.0], "mu": [[1.0]], "q": [[1.0]], "l": [[]], "gamma": 1, "m": 0 });
    let cases = [
        (evaluate(0, "nope", "primal", &json!({})), "there is no eval `nope`"),
        (evaluate(1, "lse", "nope", &json!({})), "lse: there is no function `nope`"),
        (evaluate(2, "lse", "primal", &json!({ "min_runs": 1 })), "there is no field `x`"),
        (evaluate(3, "lse", "primal", &json!({ "x": [1, true] })), "argument x[1]: expected Real"),
        (evaluate(4, "lse", "primal", &json!({ "x": [1], "min_runs": -1 })), "expected u64"),
        (evaluate(5, "llsq", "primal", &json!([1])), "an object with the fields x, n"),
        (evaluate(6, "lse", "primal", &json!({ "x": [] })), "maximum: the array is empty"),
        (evaluate(7, "ode", "gradient", &json!({ "x": [], "s": 1 })), "index -1 is out of bounds"),
        (evaluate(8, "gmm", "jacobian", &gmm), "in objective at gmm.dual"),
        (
            evaluate(9, "ht", "objective", &json!({ "data": { "model": 3 } })),
            "an object with the fields base_positions",
        ),
        (evaluate(10, "ba", "jacobian", &ba), "n, m and p are from 1"),
        (json!({ "id": 11, "kind": "define", "module": "nope" }), "there is no eval `nope`"),
    ];
    let messages: Vec<Json> = cases.iter().map(|(message, _)| message.clone()).collect();
    for (found, (message, why)) in answers("failures", &[], &messages).iter().zip(&cases) {
        assert_eq!((&found["id"], &found["success"]), (&message["id"], &json!(false)), "{message}");
        let error = found["error"].as_str().expect("a text");
        assert!(error.contains(why), "{message}: {error}");
    }
}

#[test]
fn limits_are_kept() {
    let message = evaluate(0, "llsq", "primal", &json!({ "x": [1.0, 2.0], "n": 1_000_000 }));
    let found = &answers("limits", &["--fuel", "1000"], &[message])[0];
    assert!(found["error"].as_str().is_some_and(|error| error.contains("out of fuel")), "{found}");
}

#[test]
fn other_kinds_are_answered_with_their_id() {
    let messages = [
        json!({ "id": 5, "kind": "analysis", "of": 4, "valid": false, "error": "no" }),
        json!({ "kind": "tea", "module": "gmm", "id": 6 }),
    ];
    assert_eq!(answers("kinds", &[], &messages), [json!({ "id": 5 }), json!({ "id": 6 })]);
}

#[test]
fn a_line_that_is_no_message_ends_the_program_with_its_number() {
    let cases = [
        ("what", "expected value at column 1"),
        ("", "EOF while parsing a value"),
        ("[1]", "expected an object with `id` and `kind`"),
        (r#"{"kind": "start"}"#, "missing field `id`"),
        (r#"{"id": 1}"#, "missing field `kind`"),
        (r#"{"id": "x", "kind": "start"}"#, "expected i64"),
        (r#"{"id": 1, "kind": "define"}"#, "missing field `module`"),
        (r#"{"id": 1, "kind": "evaluate", "module": "lse", "function": "primal"}"#, "missing field `input`"),
        (r#"{"id": 1, "kind": "start"} {"#, "trailing characters"),
        ("{\"id\": 1, \"kind\": \"\u{1}\"}", "control character"),
    ];
    for (line, why) in cases {
        let messages = format!("{{\"id\": 0, \"kind\": \"start\"}}\n{line}\n{{\"id\": 2, \"kind\": \"start\"}}\n");
        let finished = run("malformed", &[], messages.as_bytes());
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), "{\"id\":0,\"tool\":\"dualvm\"}\n"), "{line}");
        let message = "error: stdin: line 2 is no message: ";
        assert!(finished.stderr.starts_with(message) && finished.stderr.contains(why), "{line}: {}", finished.stderr);
    }
    let finished = run("malformed", &[], b"\xff\n");
    assert_eq!(finished.code, Some(2), "{finished:#?}");
}

#[test]
fn long_lines_and_deep_ones_are_read() {
    let x: Vec<f64> = (0..300_000).map(|i| f64::from(i).sin()).collect();
    let long = evaluate(0, "lse", "gradient", &json!({ "x": x }));
    let nested = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let unused =
        format!(r#"{{"id":1,"kind":"evaluate","module":"lse","function":"primal","input":{{"y":{nested},"x":[0]}}}}"#);
    let used = format!(r#"{{"id":2,"kind":"evaluate","module":"hello","function":"square","input":{nested}}}"#);
    // The long one last: its answer isn't read before all is written.
    let finished = run("long", &[], format!("{unused}\n{used}\n{long}\n").as_bytes());
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let answers: Vec<Json> = finished.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers[0]["output"], 0.0);
    assert_eq!(answers[1]["success"], false);
    assert_eq!(answers[2]["output"].as_array().map(Vec::len), Some(300_000));
}

/// Evals by hand, with the names of primal and derivative. Small, so that no derivative vanishes.
fn by_hand() -> Vec<(&'static str, [&'static str; 2], Box<dyn HandWritten>)> {
    vec![
        ("lse", ["primal", "gradient"], Box::new(lse::Lse::new(100))),
        ("llsq", ["primal", "gradient"], Box::new(llsq::Llsq::new(30, 17))),
        ("det", ["primal", "gradient"], Box::new(det::Det::new(6))),
        ("ode", ["primal", "gradient"], Box::new(ode::Ode::new(7, 5))),
        ("gmm", ["objective", "jacobian"], Box::new(gmm::Gmm::new(4, 3, 20))),
        ("lstm", ["objective", "jacobian"], Box::new(lstm::Lstm::new(3, 8))),
        ("ba", ["objective", "jacobian"], Box::new(ba::Ba::new(3, 4, 7))),
        ("ht", ["objective", "jacobian"], Box::new(ht::Ht::new(20))),
    ]
}

/// All numbers with a fraction in JSON, in order; those without are counts, or fields of the input.
fn reals(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(items) => items.iter().flat_map(reals).collect(),
        Json::Object(fields) => fields.values().flat_map(reals).collect(),
        Json::Number(number) if number.is_f64() => vec![number.as_f64().expect("a number")],
        _ => Vec::new(),
    }
}

#[test]
fn programs_by_hand_agree() {
    for (name, functions, by_hand) in by_hand() {
        let messages = functions.map(|function| evaluate(0, name, function, &by_hand.input()));
        let answers = answers(&format!("hand_{name}"), &[], &messages);
        for (found, expected) in answers.iter().zip([by_hand.primal(), by_hand.derivative()]) {
            assert_eq!(found["success"], true, "{name}: {found}");
            let expected = by_hand.shown(expected.into_reals());
            assert!(expected.iter().any(|x| *x != 0.0), "{name}");
            // Fields of an object come in the order of their names, which need not be that of the suite.
            let found = match (name, &found["output"]) {
                ("gmm", Json::Object(parts)) => {
                    ["alpha", "mu", "q", "l"].iter().flat_map(|part| reals(&parts[*part])).collect()
                }
                (_, output) => reals(output),
            };
            assert_eq!(difference(name, &json!(found), &json!(expected)), None);
        }
    }
}

/// The suite asks for second derivatives, too, and so the gradient alone has no name there.
#[test]
fn kmeans_by_hand_agrees() {
    let by_hand = kmeans::KMeans::new(5, 40, 3);
    let source = include_str!("../benches/gradbench/kmeans.dual");
    let cost =
        Module::from_source(&Engine::default(), "kmeans.dual", source).and_then(|module| module.function("cost"));
    let cost = cost.expect("the program defines `cost`");
    let input = by_hand.input();
    let args = json!([input["points"], input["centroids"]]);
    let args = cost.arguments_seed().deserialize(args).expect("the input fits");
    let (value, gradient): (f64, _) = cost.value_and_grad(&args).expect("nothing traps");
    let centroids = gradient[1].to_string();
    let found: Json = serde_json::from_str(&centroids).expect("a matrix in the language's syntax is JSON");
    assert_eq!(difference("cost", &json!([value]), &json!(by_hand.primal().into_reals())), None);
    assert_eq!(difference("gradient", &json!(reals(&found)), &json!(by_hand.derivative().into_reals())), None);
}
