//! `dualvm bench`, and the hand-written programs that it compares with: those agree with the oracles, and their
//! gradients with finite differences.

#[path = "../benches/gradients/hand.rs"]
mod hand;
#[path = "support/program.rs"]
mod program;

use hand::{Layer, State};
use program::Workspace;
use serde_json::Value as Json;

const CORE: [&str; 7] = ["mult", "dotprod", "summatvec", "rosenbrock", "newton", "newton_sweep", "spring"];

const TABLE_1: [&str; 10] = [
    "mult",
    "mult_typed",
    "mult_flat",
    "dotprod",
    "dotprod_list",
    "summatvec",
    "summatvec_list",
    "rotate_vec_by_quat",
    "neural",
    "particles",
];

const NATIVE: [&str; 10] = [
    "particles",
    "rotations",
    "neural",
    "dotprod_1e6",
    "summatvec_1e6",
    "dotprod_list_1e5",
    "branchy",
    "newton",
    "mult_typed",
    "mult_flat",
];

fn results(suite: &str) -> Vec<Json> {
    results_with(suite, &[], &["interpreter", "native"])
}

/// What a suite finds on these tiers, which the flags ask for.
fn results_with(suite: &str, flags: &[&str], tiers: &[&str]) -> Vec<Json> {
    let w = Workspace::new(&format!("bench_{suite}_{}", flags.len()));
    let text = w.stdout(&[&["bench", "--suite", suite, "--quick", "--format", "json"], flags].concat());
    let report: Json = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(report["suite"], suite);
    assert_eq!(report["tiers"], serde_json::json!(tiers));
    let results = report["results"].as_array().expect("a list of results");
    // One after the other: all tiers of a case.
    for (n, row) in results.iter().enumerate() {
        assert_eq!(row["tier"], tiers[n % tiers.len()], "{row}");
        assert_eq!(row["case"], results[n - n % tiers.len()]["case"], "{row}");
    }
    results.clone()
}

/// The cases of results, each once.
fn cases_of(results: &[Json]) -> Vec<String> {
    let mut found: Vec<String> = results.iter().filter_map(|row| row["case"].as_str()).map(str::to_owned).collect();
    found.dedup();
    found
}

#[track_caller]
fn assert_complete(suite: &str, cases: &[&str]) -> Vec<Json> {
    const TIMES: [&str; 6] =
        ["primal_ns", "gradient_ns", "primal_run_ns", "gradient_run_ns", "hand_primal_ns", "hand_gradient_ns"];
    const COUNTS: [&str; 5] = ["threads", "tape_bytes", "records", "slots", "ops"];
    let results = results(suite);
    assert_eq!(cases_of(&results), cases);
    for row in &results {
        assert!(row.get("elements").is_some(), "{row}");
        assert!(row.get("paper_gradient_ns").is_some(), "{row}");
        for field in TIMES {
            assert!(row[field].as_f64().is_some_and(|ns| ns > 0.0), "{field} in {row}");
        }
        for field in COUNTS {
            assert!(row[field].as_u64().is_some_and(|count| count > 0), "{field} in {row}");
        }
    }
    assert_compiled_natively_alone(&results);
    results
}

/// What an engine compiles by default depends on how often a case runs, which depends on how fast the machine is: that
/// it compiles something is certain of all cases together, and of each only where `always` asks for it.
#[track_caller]
fn assert_compiled_natively_alone(results: &[Json]) {
    let compiled = |row: &Json| row["compiled"].as_u64().expect("a count") > 0;
    for row in results {
        match row["tier"].as_str() {
            Some("interpreter") => assert!(!compiled(row), "{row}"),
            Some("always native") => assert!(compiled(row), "{row}"),
            _ => {}
        }
    }
    let mut native = results.iter().filter(|row| row["tier"] == "native");
    assert!(native.any(compiled), "{results:#?}");
}

#[test]
fn core_has_all_cases_and_fields() {
    assert_complete("core", &CORE);
}

#[test]
fn table_1_has_all_cases_and_the_paper_s_times() {
    let rows = assert_complete("table1", &TABLE_1);
    assert!(rows.iter().all(|row| row["paper_gradient_ns"].as_f64().is_some_and(|ns| ns > 0.0)), "{rows:#?}");
}

#[test]
fn all_tiers_record_the_same() {
    let tiers = ["always native", "interpreter", "native"];
    // A tier that is asked for twice is measured once.
    let rows = results_with("core", &["--jit", "always,off", "--jit", "auto,off"], &tiers);
    assert_compiled_natively_alone(&rows);
    for rows in rows.chunks(tiers.len()) {
        for field in ["tape_bytes", "records", "slots", "ops"] {
            assert!(rows.iter().all(|row| row[field] == rows[0][field]), "{field} in {rows:#?}");
        }
    }
}

#[test]
fn native_has_exactly_its_cases_and_none_of_the_paper_s_times_for_other_sizes() {
    let rows = assert_complete("native", &NATIVE);
    for row in &rows {
        let case = row["case"].as_str().expect("a name");
        assert!(!case.contains("_1e") || row["paper_gradient_ns"].is_null(), "{row}");
    }
}

#[test]
fn latency_has_every_example_and_its_stages_add_up() {
    let rows = results_with("latency", &["--jit", "off,always"], &["interpreter", "always native"]);
    let mut found = cases_of(&rows);
    assert_eq!(found[0], "rosenbrock");
    found.sort();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let paths = std::fs::read_dir(folder).expect("examples can be listed").map(|entry| entry.expect("an entry").path());
    let programs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "dual"));
    let mut expected: Vec<String> =
        programs.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    expected.sort();
    assert_eq!(found, expected);
    const STAGES: [&str; 6] =
        ["parse_ns", "check_ns", "compile_ns", "verify_ns", "first_value_ns", "first_gradient_ns"];
    for row in &rows {
        let stages = STAGES.map(|stage| row[stage].as_f64().unwrap_or_else(|| panic!("{stage} in {row}")));
        assert!(stages.iter().all(|&ns| ns > 0.0), "{row}");
        // Medians don't add up exactly.
        let total = row["total_ns"].as_f64().expect("a time");
        assert!(stages.iter().sum::<f64>() < 2.0 * total, "{row}");
        let native = row["native_ns"].as_f64().expect("a time");
        let is_native = row["tier"] == "always native";
        assert_eq!(native > 0.0, is_native, "{row}");
        if is_native {
            assert_says_what_is_compiled(row);
        }
        assert!(native < total, "{row}");
        let [module, gradient] = ["process_module_ns", "process_total_ns"].map(|field| row[field].as_f64());
        assert!(0.0 < module.unwrap() && module < gradient, "{row}");
    }
}

/// What native code an example's row says was compiled.
fn assert_says_what_is_compiled(row: &Json) {
    let compiled = row["compiled"].as_array().expect("a list");
    for mode in ["primal", "recording", "adjoint"] {
        // Of one example, the derivative is a function of the program.
        let is_there = match row["case"].as_str() {
            Some("implicit_root") => mode != "adjoint",
            _ => true,
        };
        assert_eq!(compiled.iter().any(|piece| piece["mode"] == mode), is_there, "{mode} in {row}");
    }
    for piece in compiled {
        assert!(piece["ns"].as_f64().is_some_and(|ns| ns > 0.0), "{piece}");
        assert!(piece["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{piece}");
    }
}

#[test]
fn latency_prints_what_is_compiled_by_mode() {
    let w = Workspace::new("bench_latency_compiled");
    let text = w.stdout(&["bench", "--suite", "latency", "--case", "newton,mult", "--quick", "--jit", "always"]);
    assert!(text.starts_with("suite latency: always native, 1 thread"), "{text}");
    let after = text.split("\nalways native: ").nth(1).unwrap_or_else(|| panic!("{text}"));
    let modes: Vec<&str> = after.lines().skip(2).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(modes, ["primal", "recording", "adjoint"]);
}

#[test]
fn text_has_a_row_for_each_case_and_is_silent_otherwise() {
    let w = Workspace::new("bench_text");
    let finished = w.run(&["bench", "--suite", "core", "--quick"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    let blocks: Vec<Vec<&str>> = finished.stdout.split("\n\n").map(|block| block.lines().collect()).collect();
    assert_eq!(blocks[0], ["suite core: interpreter, native, 1 thread, medians of 5 rounds"]);
    // Calls, then runs: a title, two lines of heads, a row for each case.
    for block in &blocks[1..3] {
        assert!(block[1].contains("by hand") && block[1].contains("interpreter") && block[1].contains("native"));
        let rows = &block[3..];
        let names: Vec<&str> = rows.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, CORE);
        let width = block[2].chars().count();
        assert!(rows.iter().all(|row| row.chars().count() == width), "{block:#?}");
    }
    // Time per element, where the paper has it.
    let names: Vec<&str> = blocks[3][2..].iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["dotprod", "summatvec"]);
    assert!(blocks[3][2..].iter().all(|row| row.matches(" ns").count() == 4), "{blocks:#?}");
}

const PARALLEL: [&str; 7] =
    ["particles_par", "particles_pairs", "uneven_map", "tree_sum", "monte_carlo", "shared_array", "deep_fork"];

#[test]
fn parallel_has_all_programs_on_all_numbers_of_threads_and_the_costs() {
    const NUMBERS: [&str; 13] = [
        "sequential_forward_ns",
        "sequential_gradient_ns",
        "forward_ns",
        "gradient_ns",
        "forward_speed_up",
        "gradient_speed_up",
        "tasks",
        "imports",
        "work",
        "span",
        "work_by_span",
        "sweep_peak_bytes",
        "threads",
    ];
    let w = Workspace::new("bench_parallel");
    let flags = ["--quick", "--format", "json", "--threads", "2,1,2", "--jit", "off,auto"];
    let text = w.stdout(&[&["bench", "--suite", "parallel"], &flags[..]].concat());
    let report: Json = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(report["threads"], serde_json::json!([2, 1]));
    assert_eq!(report["tiers"], serde_json::json!(["interpreter", "native"]));
    let rows = report["results"].as_array().expect("a list");
    assert_eq!(cases_of(rows), PARALLEL);
    assert_eq!(rows.len(), 4 * PARALLEL.len());
    for rows in rows.chunks(4) {
        let kinds: Vec<(&Json, &Json)> = rows.iter().map(|row| (&row["tier"], &row["threads"])).collect();
        let expected = [("interpreter", 2), ("interpreter", 1), ("native", 2), ("native", 1)];
        assert!(kinds.iter().zip(expected).all(|(found, (tier, threads))| found.0 == tier && found.1 == threads));
        for row in rows {
            for field in NUMBERS {
                let is_there =
                    row[field].as_f64().is_some_and(|x| x > 0.0 || ["imports", "sweep_peak_bytes"].contains(&field));
                assert!(is_there, "{field} in {row}");
            }
            for field in ["tasks", "imports", "work", "span"] {
                assert_eq!(row[field], rows[0][field], "{field} in {row}");
            }
        }
    }
    assert_eq!(report["costs_tier"], "native");
    let costs = report["costs"].as_array().expect("a list");
    let mut names: Vec<&str> = costs.iter().filter_map(|cost| cost["cost"].as_str()).collect();
    names.dedup();
    let expected = [
        "fork_join",
        "fork_join_import",
        "deep_fork_doubled",
        "shared_array_doubled",
        "map_by_sequential",
        "adjoints_of_map",
        "adjoints_of_tree",
    ];
    assert_eq!(names, expected);
    for (n, cost) in costs.iter().enumerate() {
        assert_eq!(cost["threads"], [2, 1][n % 2], "{cost}");
        assert!(cost["figure"].as_f64().is_some_and(|x| x >= 0.0), "{cost}");
        // This one is no matter of time.
        if cost["unit"] == "arrays" {
            assert!(cost["figure"].as_f64() <= cost["target"].as_f64(), "{cost}");
        }
    }
}

#[test]
fn parallel_prints_tables() {
    let w = Workspace::new("bench_parallel_text");
    let text = w.stdout(&["bench", "--suite", "parallel", "--quick", "--threads", "1,3"]);
    let blocks: Vec<Vec<&str>> = text.split("\n\n").map(|block| block.lines().collect()).collect();
    assert_eq!(blocks[0], ["suite parallel: native, threads 1, 3, medians of 3 rounds"]);
    let names = |block: &[&str]| -> Vec<String> {
        let mut names: Vec<String> = block[2..].iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        names.dedup();
        names
    };
    assert_eq!(names(&blocks[1]), PARALLEL);
    // Without tasks, on one thread, on three.
    assert_eq!(blocks[1].len(), 2 + 3 * PARALLEL.len());
    assert_eq!(names(&blocks[2]), PARALLEL);
    assert_eq!(blocks[3][0], "costs (native)");
    assert_eq!(blocks[3].len(), 2 + 2 * 7);
}

#[test]
fn threads_are_for_programs_with_tasks() {
    let w = Workspace::new("bench_threads");
    for (suite, threads, message) in [("core", "2", "--suite parallel"), ("parallel", "1,x", "from 0, which stands")] {
        let finished = w.run(&["bench", "--suite", suite, "--quick", "--threads", threads]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished:#?}");
        assert!(finished.stderr.contains(message), "{finished:#?}");
    }
}

const GRADBENCH: [&str; 9] = ["lse", "llsq", "det", "ode", "gmm", "lstm", "kmeans", "ba", "ht"];

#[test]
fn gradbench_has_all_evals_and_fields() {
    let rows = results_with("gradbench", &[], &["native"]);
    assert_eq!(cases_of(&rows), GRADBENCH);
    for row in &rows {
        assert_eq!((&row["size"], &row["threads"]), (&"S".into(), &1.into()), "{row}");
        for field in ["primal_ns", "derivative_ns", "hand_primal_ns", "hand_derivative_ns"] {
            assert!(row[field].as_f64().is_some_and(|ns| ns > 0.0), "{field} in {row}");
        }
        for field in ["rounds", "ops"] {
            assert!(row[field].as_u64().is_some_and(|count| count > 0), "{field} in {row}");
        }
        // Forward mode has no tape.
        let has_tape = row["case"] != "ht";
        for field in ["tape_bytes", "records"] {
            assert_eq!(row[field].as_u64().map(|count| count > 0), Some(has_tape), "{field} in {row}");
        }
    }
}

#[test]
fn gradbench_prints_tables() {
    let w = Workspace::new("bench_gradbench_text");
    let text = w.stdout(&["bench", "--suite", "gradbench", "--quick", "--jit", "auto"]);
    let blocks: Vec<Vec<&str>> = text.split("\n\n").map(|block| block.lines().collect()).collect();
    assert!(blocks[0][0].starts_with("suite gradbench: native, 1 thread, medians of "), "{text}");
    let names: Vec<&str> = blocks[1][3..].iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, GRADBENCH);
    assert_eq!(blocks[2].len(), 3);
}

#[test]
fn derivatives_are_multiples_of_what_they_are_taken_of() {
    const CASES: [&str; 13] = [
        "rosenbrock jvp",
        "rosenbrock hvp",
        "particles jvp",
        "particles hvp",
        "neural jvp",
        "neural hvp",
        "rosenbrock Hessian",
        "reverse over reverse",
        "checkpoints",
        "tridiagonal pattern",
        "tridiagonal Hessian",
        "five-point pattern",
        "five-point Jacobian",
    ];
    let rows = results_with("derivatives", &["--jit", "off,auto"], &["interpreter", "native"]);
    assert_eq!(cases_of(&rows), CASES);
    for row in &rows {
        let [base, derivative, ratio, target] =
            ["base_ns", "derivative_ns", "ratio", "target"].map(|field| row[field].as_f64().expect("a number"));
        assert!(base > 0.0 && derivative > 0.0 && target >= 1.0, "{row}");
        assert!((ratio - derivative / base).abs() < 1e-9 * ratio, "{row}");
        assert!(row["over"].is_string(), "{row}");
    }
    let w = Workspace::new("bench_derivatives_text");
    let [case, other] = [CASES[1], CASES[7]];
    let only = format!("{other},{case}");
    let text = w.stdout(&["bench", "--suite", "derivatives", "--quick", "--jit", "auto", "--case", &only]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("suite derivatives: native, 1 thread, medians of 5 rounds"), "{text}");
    // In the order of the suite.
    assert!(lines[2].starts_with(case) && lines[3].starts_with(other), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
}

#[test]
fn cases_are_chosen_by_name_in_every_suite() {
    let suites = [
        ("table1", "dotprod", 2),
        ("latency", "mult", 2),
        ("parallel", "tree_sum", 1),
        ("tiering", "spline", 2),
        ("gradbench", "lse", 1),
        ("derivatives", "checkpoints", 2),
    ];
    let w = Workspace::new("bench_cases");
    for (suite, case, rows) in suites {
        let flags = ["bench", "--suite", suite, "--quick", "--format", "json", "--case", case];
        let threads = if suite == "parallel" { &["--threads", "1"][..] } else { &[] };
        let report: Json = serde_json::from_str(&w.stdout(&[&flags[..], threads].concat())).expect("one JSON object");
        let results = report["results"].as_array().expect("a list of results");
        assert_eq!(cases_of(results), [case], "{suite}");
        assert_eq!(results.len(), rows, "{suite}");
        if suite == "parallel" {
            assert_eq!(report["costs"], serde_json::json!([]));
        }
        let unknown = w.run(&["bench", "--suite", suite, "--case", &format!("{case},nope")]);
        assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""), "{unknown:#?}");
        let message = format!("the suite {suite} has no case \"nope\"");
        assert!(unknown.stderr.contains(&message) && unknown.stderr.contains(case), "{unknown:#?}");
    }
    // The mean of one ratio isn't shown.
    let text = w.stdout(&["bench", "--suite", "gradbench", "--quick", "--case", "lse"]);
    assert!(text.contains("suite gradbench") && !text.contains("geometric means"), "{text}");
    let text = w.stdout(&["bench", "--suite", "parallel", "--quick", "--threads", "1", "--case", "tree_sum"]);
    assert!(text.contains("work / span") && !text.contains("costs"), "{text}");
}

#[test]
fn unknown_suites_are_bad_input_and_the_message_lists_the_known_ones() {
    let w = Workspace::new("bench_unknown");
    let finished = w.run(&["bench", "--suite", "nope"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""));
    assert!(
        finished.stderr.contains("'nope'")
            && finished.stderr.contains("table1, core, native, latency, parallel, tiering, gradbench, derivatives"),
        "{}",
        finished.stderr
    );
}

fn oracle(case: &str) -> Json {
    let all: Json = serde_json::from_str(include_str!("oracles/programs.json")).expect("the oracles are JSON");
    let cases = all["cases"].as_array().expect("a list of cases");
    cases.iter().find(|entry| entry["case"] == case).unwrap_or_else(|| panic!("no oracle {case}")).clone()
}

/// All numbers in a JSON value, in order.
fn numbers(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(items) => items.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap_or_else(|| panic!("no number: {number}"))],
    }
}

fn rows(json: &Json) -> Vec<Vec<f64>> {
    json.as_array().expect("a list of rows").iter().map(numbers).collect()
}

/// Compares within a relative tolerance, or within the tolerance near 0.
#[track_caller]
fn assert_near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let allowed = tolerance * expected.abs().max(1e-3);
        assert!((found - expected).abs() <= allowed, "{what} {i}: expected {expected}, found {found}");
    }
}

#[test]
fn hand_products_agree_with_the_oracles() {
    let expected = oracle("mult");
    let (value, adjs) = hand::mult_grad(3.0, 4.0);
    assert_eq!(hand::mult(3.0, 4.0), value);
    assert_near("mult", &[&[value], &adjs[..]].concat(), &[12.0, 4.0, 3.0], 1e-10);
    assert_eq!(numbers(&expected["gradient"]), adjs);

    let expected = oracle("dotprod");
    let args = rows(&expected["args"]);
    let (value, adjs) = hand::dotprod_grad(&args[0], &args[1]);
    assert_eq!(hand::dotprod(&args[0], &args[1]), value);
    assert_near("dotprod", &[value], &numbers(&expected["value"]), 1e-10);
    assert_near("gradient of dotprod", &adjs.concat(), &numbers(&expected["gradient"]), 1e-10);

    let expected = oracle("summatvec");
    let (m, v) = (rows(&expected["args"][0]), numbers(&expected["args"][1]));
    let (value, m_adj, v_adj) = hand::summatvec_grad(&m, &v);
    assert_eq!(hand::summatvec(&m, &v), value);
    assert_near("summatvec", &[value], &numbers(&expected["value"]), 1e-10);
    let adjs = [m_adj.concat(), v_adj].concat();
    assert_near("gradient of summatvec", &adjs, &numbers(&expected["gradient"]), 1e-10);
}

#[test]
fn hand_rosenbrock_agrees_with_the_oracle() {
    let expected = oracle("rosenbrock5");
    let x = numbers(&expected["args"]);
    let (value, adj) = hand::rosenbrock_grad(&x);
    assert_eq!(hand::rosenbrock(&x), value);
    assert_near("rosenbrock", &[value], &numbers(&expected["value"]), 1e-10);
    assert_near("gradient of rosenbrock", &adj, &numbers(&expected["gradient"]), 1e-10);
}

#[test]
fn hand_rotation_agrees_with_the_oracle() {
    let expected = oracle("rotate_vec_by_quat");
    let (v, q) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]);
    let (value, jacobian) = hand::rotate_vec_by_quat_jacobian(v, q);
    assert_eq!(hand::rotate_vec_by_quat(v, q), value);
    assert_near("rotation", &value, &numbers(&expected["value"]), 1e-10);
    // In the oracle all rows for the vector come first, then all for the quaternion.
    let by_v: Vec<f64> = jacobian.iter().flat_map(|row| row[..3].to_vec()).collect();
    let by_q: Vec<f64> = jacobian.iter().flat_map(|row| row[3..].to_vec()).collect();
    assert_near("Jacobian by v", &by_v, &numbers(&expected["jacobian"][0]), 1e-10);
    assert_near("Jacobian by q", &by_q, &numbers(&expected["jacobian"][1]), 1e-10);
}

#[test]
fn hand_particles_agree_with_the_oracles() {
    for n in [10, 100, 1000] {
        let expected = oracle(&format!("particles_{n}"));
        let starts: Vec<State> = [1.0, 2.0, 3.0, 4.0].map(|i| [0.5 * i, 0.1, 1.0, 1.0]).to_vec();
        let (value, adjs) = hand::particles_grad(n, &starts);
        assert_eq!(hand::particles(n, &starts), value);
        assert_near("particles", &[value], &numbers(&expected["value"]), 1e-10);
        assert_near("gradient of particles", &adjs.concat(), &numbers(&expected["gradient"]), 1e-10);
    }
}

#[test]
fn hand_newton_is_a_square_root() {
    let (a, x0) = (2.0, 1e6);
    let (value, [a_adj, x_adj]) = hand::newton_grad(a, x0);
    assert_eq!(hand::newton(a, x0), value);
    assert_near("newton", &[value, a_adj, x_adj], &[2_f64.sqrt(), 0.5 / 2_f64.sqrt(), 0.0], 1e-9);
    // Twenty steps halve x, four double the digits.
    assert_eq!(hand::newton_steps(a, x0), 24);
}

#[test]
fn hand_spring_agrees_with_finite_differences() {
    let start = [0.5, 0.1, 1.0, 1.0];
    let (value, adj) = hand::spring_grad(40, start);
    assert_eq!(hand::spring(40, start), value);
    let differences: [f64; 4] = std::array::from_fn(|i| {
        let moved = |h: f64| {
            let mut start = start;
            start[i] += h;
            hand::spring(40, start)
        };
        (moved(1e-5) - moved(-1e-5)) / 2e-5
    });
    assert_near("spring", &adj, &differences, 1e-7);
}

#[test]
fn hand_newton_sweep_sums_square_roots() {
    let numbers = [2.0, 9.0, 0.25];
    let (value, adjs, x_adj) = hand::newton_sweep_grad(&numbers, 1.0);
    assert_eq!(hand::newton_sweep(&numbers, 1.0), value);
    assert_near("newton_sweep", &[value, x_adj], &[2_f64.sqrt() + 3.5, 0.0], 1e-9);
    assert_near("gradient", &adjs, &numbers.map(|a| 0.5 / a.sqrt()), 1e-9);
}

/// Compares a gradient with central differences of a function of as many numbers.
#[track_caller]
fn assert_differences<const N: usize>(what: &str, at: [f64; N], gradient: [f64; N], f: impl Fn([f64; N]) -> f64) {
    let differences: [f64; N] = std::array::from_fn(|i| {
        let moved = |h: f64| {
            let mut at = at;
            at[i] += h;
            f(at)
        };
        (moved(1e-6) - moved(-1e-6)) / 2e-6
    });
    assert_near(what, &gradient, &differences, 1e-6);
}

#[test]
fn hand_branchy_agrees_with_finite_differences_and_takes_both_branches() {
    let start = [1.5, 0.2, 0.3, 0.105];
    for n in [1, 2, 3, 10, 37] {
        let (value, adjs) = hand::branchy_grad(n, start);
        assert_eq!(hand::branchy(n, start), value);
        assert_differences("branchy", start, adjs, |at| hand::branchy(n, at));
    }
    let (_, [a_adj, b_adj, ..]) = hand::branchy_grad(37, start);
    assert!(a_adj != 0.0 && b_adj != 0.0);
}

#[test]
fn hand_rotations_keep_the_length_and_agree_with_finite_differences() {
    let (v, q) = ([1.0, 2.0, 3.0], [0.1, 0.5, 0.7, 0.5]);
    let (value, jacobian) = hand::rotations_jacobian(10, v, q);
    assert_eq!(hand::rotations(10, v, q), value);
    assert_near("length", &[value.iter().map(|x| x * x).sum()], &[14.0], 1e-12);
    let at = std::array::from_fn(|i| if i < 3 { v[i] } else { q[i - 3] });
    for (i, row) in jacobian.into_iter().enumerate() {
        let component = |at: [f64; 7]| hand::rotations(10, [at[0], at[1], at[2]], [at[3], at[4], at[5], at[6]])[i];
        assert_differences("rotations", at, row, component);
    }
    // One rotation is the rotation.
    assert_eq!(hand::rotations(1, v, q), hand::rotate_vec_by_quat(v, q));
    let once = hand::rotate_vec_by_quat_jacobian(v, q).1;
    assert_near("one rotation", hand::rotations_jacobian(1, v, q).1.as_flattened(), once.as_flattened(), 1e-13);
}

fn network() -> (Vec<Layer>, Vec<f64>) {
    let vector = |n: usize| (0..n).map(|i| (0.41 * i as f64).sin()).collect::<Vec<f64>>();
    let matrix = |n: usize, m: usize| (0..n).map(|i| (0..m).map(|j| ((i + j) as f64).sin()).collect()).collect();
    (vec![(matrix(100, 50), vector(100)), (matrix(50, 100), vector(50))], vector(50))
}

/// `-Σ cos i · log y_i`: unlike the sum, it has a derivative.
fn weighted(y: &[f64]) -> f64 {
    y.iter().enumerate().map(|(i, y)| -(i as f64).cos() * y.ln()).sum()
}

#[test]
fn hand_network_agrees_with_the_oracle() {
    let (expected, (layers, x)) = (oracle("neural"), network());
    let cotangent = |y: &[f64]| y.iter().enumerate().map(|(i, y)| -(i as f64).cos() / y).collect();
    let (y, adjs, x_adj) = hand::network_vjp(&layers, &x, cotangent);
    assert_near("weighted", &[weighted(&y)], &numbers(&expected["value_weighted"]), 1e-10);
    let gradient = &expected["gradient_weighted"];
    let check = |key: &str, found: &[f64]| assert_near(key, found, &numbers(&gradient[key]), 1e-9);
    let ((w1, b1), (w2, b2)) = (&adjs[0], &adjs[1]);
    check("W1_row0", &w1[0]);
    check("W2_row3", &w2[3]);
    check("b1", b1);
    check("b2", b2);
    check("x", &x_adj);
    let sums = |w: &[Vec<f64>]| {
        let all = w.concat();
        (all.iter().sum::<f64>(), all.iter().map(|x| x.abs()).sum::<f64>())
    };
    for (layer, w) in [("W1", w1), ("W2", w2)] {
        let (sum, abs_sum) = sums(w);
        check(&format!("{layer}_sum"), &[sum]);
        check(&format!("{layer}_abs_sum"), &[abs_sum]);
    }
}

/// Moves a weight, a bias or an input.
type Change<'a> = dyn Fn(&mut Vec<Layer>, &mut Vec<f64>, f64) + 'a;

#[test]
fn hand_network_agrees_with_finite_differences() {
    let (layers, x) = network();
    let cotangent = |y: &[f64]| y.iter().enumerate().map(|(i, y)| -(i as f64).cos() / y).collect();
    let (_, adjs, x_adj) = hand::network_vjp(&layers, &x, cotangent);
    let difference = |change: &Change<'_>| {
        let moved = |h: f64| {
            let (mut layers, mut x) = network();
            change(&mut layers, &mut x, h);
            weighted(&hand::network(&layers, &x))
        };
        (moved(1e-6) - moved(-1e-6)) / 2e-6
    };
    for i in [0, 3, 4, 17, 49] {
        let expected = [
            difference(&|_, x, h| x[i] += h),
            difference(&|layers, _, h| layers[0].0[i][7] += h),
            difference(&|layers, _, h| layers[0].1[i] += h),
            difference(&|layers, _, h| layers[1].0[i][4] += h),
            difference(&|layers, _, h| layers[1].1[i] += h),
        ];
        let found = [x_adj[i], adjs[0].0[i][7], adjs[0].1[i], adjs[1].0[i][4], adjs[1].1[i]];
        // Absolute where the derivative is small: the value is about 431.
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{i}: {found}, {expected}");
        }
    }
}

#[test]
fn hand_neural_is_constant() {
    let (layers, x) = network();
    let (value, adjs, x_adj) = hand::neural_grad(&layers, &x);
    assert_eq!(hand::neural(&layers, &x), value);
    assert_near("neural", &[value], &[1.0], 1e-15);
    let all = adjs.iter().flat_map(|(w, b)| w.concat().into_iter().chain(b.iter().copied())).chain(x_adj);
    assert!(all.map(f64::abs).fold(0.0, f64::max) < 1e-12);
}

#[test]
fn tiering_takes_no_tiers() {
    let finished = Workspace::new("bench_tiering_jit").run(&["bench", "--suite", "tiering", "--jit", "always"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""));
    assert!(finished.stderr.contains("it takes no --jit"), "{}", finished.stderr);
}

#[test]
fn tiering_has_all_tiers_and_sizes() {
    // `tiering_programs` runs all of its programs.
    const CASES: [&str; 4] = ["attitude", "expression_tree", "hmm", "spline"];
    let flags = ["bench", "--suite", "tiering", "--quick", "--format", "json", "--case", &CASES.join(",")];
    let report: Json = serde_json::from_str(&Workspace::new("bench_tiering").stdout(&flags)).unwrap();
    let rows = report["results"].as_array().unwrap();
    assert_eq!((cases_of(rows), rows.len()), (CASES.map(str::to_owned).to_vec(), 2 * CASES.len()));
    for row in rows {
        for field in ["off_ns", "auto_ns", "always_ns", "warm_off_ns", "warm_auto_ns", "warm_always_ns"] {
            assert!(row[field].as_f64().is_some_and(|ns| ns > 0.0), "{field} in {row}");
        }
    }
    assert!(report["median_ratio"].as_f64().unwrap() < 2.0, "{report}");
}
