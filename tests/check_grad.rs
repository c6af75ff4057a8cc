//! `Function::check_gradient`: what is right is found right, what is broken on purpose is found wrong, and kinks and
//! rounding are neither.

use dualvm::{
    CallOptions, CancelHandle, CheckOptions, Comparison, Config, Engine, Engines, Error, ErrorKind, Function,
    GradientCheck, Jit, Limits, Module, Quantity, Reason, Side, Value, Verdict,
};
use serde::de::DeserializeSeed;
use std::path::Path;

fn function(text: &str, name: &str) -> Function {
    let module = Module::from_source(&Engine::default(), "test.dual", text).unwrap_or_else(|error| panic!("{error}"));
    module.function(name).unwrap_or_else(|error| panic!("{error}"))
}

fn arguments(function: &Function, json: &str) -> Vec<Value> {
    let mut json = serde_json::Deserializer::from_str(json);
    function.arguments_seed().deserialize(&mut json).unwrap_or_else(|error| panic!("{}: {error}", function.name()))
}

fn check_with(function: &Function, json: &str, set: impl FnOnce(&mut CheckOptions)) -> Result<GradientCheck, Error> {
    let mut options = CheckOptions::default();
    set(&mut options);
    function.check_gradient(&arguments(function, json), &options)
}

/// Checks the function `f` of a program, with all defaults.
fn check(text: &str, json: &str) -> GradientCheck {
    check_with(&function(text, "f"), json, |_| {}).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What the first comparison at the given point came to.
fn first(found: &GradientCheck) -> (Verdict, Reason) {
    let comparison = &found.points[0].comparisons[0];
    (comparison.verdict, comparison.reason)
}

fn named<'a>(found: &'a GradientCheck, point: usize, name: &str) -> &'a Comparison {
    let mut all = found.points[point].comparisons.iter();
    all.find(|comparison| comparison.quantity.to_string() == name).unwrap_or_else(|| panic!("no {name}: {found:#?}"))
}

/// A function of an example, and arguments for it.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("mult", "mult", "[3, 4]"),
    ("dotprod", "dotprod", "[[1, -2, 0.5], [3, 4, 0]]"),
    ("dotprod", "dotprod_list", "[[1, -2, 0.5], [3, 4, 0]]"),
    ("summatvec", "summatvec", "[[[1, 2], [0.5, -1]], [3, 5]]"),
    ("summatvec", "summatvec_list", "[[[1, 2], [0.5, -1]], [3, 5]]"),
    ("rotate_vec_by_quat", "rotate_vec_by_quat", "[[1, 2, 3], [0.1, 0.5, 0.7, 0.5]]"),
    ("rotations", "rotations", "[5, [1, 2, 3], [0.1, 0.5, 0.7, 0.5]]"),
    ("particles", "particles", "[20, [[[0.5, 0.1], [1, 1]], [[1, 0.1], [1, 1]]]]"),
    ("particles_par", "particles_par", "[20, [[[0.5, 0.1], [1, 1]], [[1, 0.1], [1, 1]]]]"),
    (
        "particles_par",
        "particles_pairs",
        "[9, [[[0.5, 0], [1, 1]], [[1, 0], [1, 1]], [[0, 1], [1, 0]], [[2, 1], [0, 1]]]]",
    ),
    ("uneven_map", "uneven_map", "[4, 50, -2.1, -1.3, 2.7]"),
    ("tree_sum", "tree_sum", "[[1, -2, 3, -4, 5, 0.5, 7]]"),
    ("monte_carlo", "monte_carlo", "[40, [[100, 0.2], [90, 0.3], [110, 0.25]], [0.03, 1, 98, 0.4]]"),
    ("shared_array", "shared_array", "[7, [1, -2, 3, -4, 5, 0.5, 7]]"),
    ("deep_fork", "deep_fork", "[20, 0.5]"),
    ("rosenbrock", "rosenbrock", "[[-1.2, 1, 0.7, -0.4, 1.3]]"),
    ("newton", "newton", "[2, 1]"),
    ("implicit_root", "equation", "[3, 0.7]"),
    ("implicit_root", "implicit_root", "[3]"),
    ("newton_sweep", "newton_sweep", "[[2, 9, 0.25], 1]"),
    ("branchy", "branchy", "[20, 1.5, 0.2, 0.3, 0.105]"),
    ("saddle", "saddle", "[1.5]"),
    ("particle", "landing", "[0.5]"),
    ("physics_informed", "physics_informed", "[[[1, 0.5, 0.3], [-2, 0.1, 0.4]], [0, 0.25, 0.5]]"),
    ("minimax", "payoff", "[[1, -2], [0.5, 3]]"),
    ("newton_hessian", "loss", "[[[[1, 2], true], [[-1, 0.5], false]], [0.1, -0.2]]"),
    ("spring", "spring", "[20, [0.5, 0.1], [1, 1]]"),
    ("neural", "neural", "[[[[[0.5, -0.2], [0.1, 0.3]], [0.1, 0.2]], [[[0.7, 0.4]], [-0.3]]], [1, 2]]"),
    ("logistic", "logistic", "[[0.1, -0.2], 0.5, [[[1, 2], true], [[-1, 0.5], false]]]"),
    ("expression", "expression", r#"[{"Mul": [{"Leaf": 3}, {"Apply": ["Sin", {"Leaf": 1}]}]}]"#),
    (
        "camera_pose",
        "camera_pose",
        "[[[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.5], [0, 0.5, 1]], [[0.02, 0.01], [0.27, 0.03], [0.01, 0.26], [0.24, 0.25], [0, 0.12]]]",
    ),
    (
        "gaussian_process",
        "gaussian_process",
        r#"[{"length": 1, "scale": 1.2, "noise": 0.1}, [0, 0.5, 1.5], [0, 0.4, 1]]"#,
    ),
    (
        "hidden_markov",
        "hidden_markov",
        r#"[{"initial": [0, 0.5], "transitions": [[2, 0], [0, 1]], "means": [-1, 1], "deviations": [1, 0.5]}, [-1.2, 0.9, 1.1]]"#,
    ),
    (
        "hierarchical",
        "hierarchical",
        r#"[[[28, 15], [8, 10], [-3, 16]], {"mean": 4, "log_spread": 1, "offsets": [0.5, 0, -0.5]}]"#,
    ),
    ("kalman", "kalman", r#"[0.1, 0.5, [{"Just": 0.2}, {"Just": 0.9}, "Nothing", {"Just": 3.3}]]"#),
    (
        "lstm",
        "lstm",
        r#"[{"forget": {"input": [0.1], "state": [[0.2]], "bias": [1]}, "update": {"input": [-0.3], "state": [[0.5]], "bias": [0]}, "output": {"input": [0.4], "state": [[0.1]], "bias": [0.2]}, "candidate": {"input": [0.7], "state": [[-0.2]], "bias": [0.1]}, "readout": [0.5]}, [0.1, 0.5, 0.9]]"#,
    ),
    (
        "neural_ode",
        "neural_ode",
        r#"[{"inner": [[0.5, -0.2], [0.1, 0.7]], "bias": [0.1, -0.1], "outer": [[0.3, -1], [1, 0.2]]}, [0, 0.5, 1], [[1, 0], [0.9, 0.4], [0.6, 0.8]]]"#,
    ),
    ("yield_curve", "yield_curve", "[[1, 2, 4], [[1, 2], [2, 2.5], [4, 3]], [100.5, 101.2, 103.9], [3, 2.75]]"),
    ("horner", "horner", "[[1, -2, 0.5], 0.7]"),
];

fn load_example(file: &str) -> Module {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let path =
        ["dual", "dvs"].map(|kind| folder.join(file).with_extension(kind)).into_iter().find(|path| path.exists());
    let path = path.unwrap_or_else(|| panic!("no example {file}"));
    let bytes = std::fs::read(&path).expect("examples can be read");
    Module::load(&Engine::default(), file, &bytes).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn nothing_is_wrong_with_the_examples() {
    for (file, name, json) in EXAMPLES {
        let function = load_example(file).function(name).unwrap_or_else(|error| panic!("{error}"));
        let found = check_with(&function, json, |options| options.points = 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.verdict(), Verdict::Agrees, "{name}: {found:#?}");
        let counts = found.counts();
        assert!(counts.agree > 9 * (counts.kinks + counts.cannot_tell), "{name}: {found:#?}");
        assert!(found.points.iter().all(|point| point.trap.is_none()), "{name}: {found:#?}");
    }
}

#[test]
fn every_example_is_checked() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(folder).expect("examples can be listed") {
        let path = entry.expect("entries can be read").path();
        let stem = path.file_stem().expect("files have names").to_string_lossy().into_owned();
        let is_program = path.extension().is_some_and(|extension| extension == "dual" || extension == "dvs");
        assert!(!is_program || EXAMPLES.iter().any(|(file, ..)| *file == stem), "{stem}");
    }
}

#[test]
fn second_derivatives_of_examples_are_right() {
    for name in ["rosenbrock", "spring", "monte_carlo", "logistic", "neural", "expression", "deep_fork", "minimax"] {
        let (file, function, json) = EXAMPLES.iter().find(|(file, ..)| *file == name).expect("it is in the list");
        let function = load_example(file).function(function).unwrap_or_else(|error| panic!("{error}"));
        let set = |options: &mut CheckOptions| (options.points, options.second) = (1, true);
        let found = check_with(&function, json, set).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.counts().wrong, 0, "{name}: {found:#?}");
        for point in &found.points {
            let second = point.comparisons.iter().filter(|c| matches!(c.quantity, Quantity::Second { .. }));
            let agreeing = second.clone().filter(|c| c.verdict == Verdict::Agrees).count();
            assert!(agreeing > 0 && second.count() == 2 * found.reals, "{name}: {found:#?}");
            let symmetry = point.comparisons.last().expect("there are comparisons");
            assert_eq!((&symmetry.quantity, symmetry.verdict), (&Quantity::Symmetry, Verdict::Agrees), "{name}");
        }
    }
}

/// Rules that are broken on purpose: what is broken, the program, its arguments, and a real whose derivative is wrong.
const BROKEN: &[(&str, &str, &str, &str)] = &[
    ("sign", "def f (x : Real) : Real = custom_vjp (\\y -> cos y) (\\y c -> c * sin y) x", "[0.5]", "x"),
    ("factor", "def f (x : Real) : Real = custom_jvp (\\y -> y ^ 3) (\\y t -> 2 * y ^ 2 * t) x", "[0.5]", "x"),
    (
        "small factor",
        "def f (x : Real) : Real = custom_jvp (\\y -> exp y) (\\y t -> 1.00001 * exp y * t) x",
        "[0.5]",
        "x",
    ),
    (
        "missing term",
        "def f (x : Real) : Real = custom_vjp (\\y -> y * exp y) (\\y c -> c * y * exp y) x",
        "[1.5]",
        "x",
    ),
    (
        "swapped arguments",
        "def f (x : Real) (y : Real) : Real = custom_vjp (\\(a, b) -> a * b) (\\(a, b) c -> (c * a, c * b)) (x, y)",
        "[2, 3]",
        "y",
    ),
    (
        "index off by one",
        "def f (xs : Array Real) : Real =
           custom_vjp (\\xs -> xs[0] * xs[1]) (\\xs c -> [| 0.0, c * xs[0], c * xs[1] |]) xs",
        "[[2, 3, 5]]",
        "xs[2]",
    ),
    ("zero case", "def f (x : Real) : Real = if x == 0 then 0 else (exp x - 1)", "[0]", "x"),
    (
        "chain factor",
        "def f (x : Real) : Real = custom_vjp (\\y -> sin (3 * y)) (\\y c -> c * cos (3 * y)) x",
        "[0.2]",
        "x",
    ),
    ("detach", "def f (x : Real) (k : Real) : Real = sin x * detach (exp k)", "[0.2, 0.3]", "k"),
    ("captured", "def f (x : Real) (k : Real) : Real = custom_jvp (\\y -> k * y) (\\y t -> k * t) x", "[2, 3]", "k"),
    ("clipped", "def f (x : Real) : Real = custom_jvp (\\y -> y) (\\y t -> if y > 1 then 0 else t) x", "[3]", "x"),
    ("NaN", "def f (x : Real) : Real = custom_vjp (\\y -> y ^ 2) (\\y c -> c * (0.0 / 0.0)) x", "[3]", "x"),
    ("all outputs", "def f (x : Real) = (x ^ 2, [| custom_vjp (\\y -> y ^ 3) (\\y c -> c * y) x |], 3)", "[2]", "x"),
    (
        "in data",
        "type Shape = Circle Real | Square { side : Real }
         def f (shapes : List Shape) : Real = sum (map (\\shape -> match shape with
           | Circle r -> r * r
           | Square { side } -> custom_vjp (\\s -> s * s) (\\s c -> c * s) side) shapes)",
        r#"[[{"Circle": 2}, {"Square": {"side": 3}}]]"#,
        "shapes[1].side",
    ),
];

#[test]
fn rules_that_are_broken_on_purpose_are_found() {
    for (what, text, json, place) in BROKEN {
        let found = check(text, json);
        assert_eq!(found.verdict(), Verdict::Wrong, "{what}: {found:#?}");
        assert_eq!(named(&found, 0, place).verdict, Verdict::Wrong, "{what}: {found:#?}");
        let reason = named(&found, 0, place).reason;
        let expected = if *what == "NaN" { Reason::NotFinite } else { Reason::DifferencesDiffer };
        assert_eq!(reason, expected, "{what}: {found:#?}");
        assert_eq!(found.points[0].engines, engines(), "{what}");
    }
}

/// What engines that agree come to on this machine.
fn engines() -> Engines {
    let found = check("def f (x : Real) : Real = x * x", "[2]");
    if found.native { Engines::Same } else { Engines::NoNativeCode }
}

#[test]
fn only_what_is_broken_is_called_wrong() {
    let (_, text, json, _) = BROKEN[4];
    let found = check(text, json);
    assert_eq!([0, 1, 2].map(|n| found.points[0].comparisons[n].verdict), [Verdict::Wrong; 3], "{found:#?}");
    let (_, text, json, _) = BROKEN[8];
    let found = check(text, json);
    let verdicts = ["x", "k", "all together"].map(|place| named(&found, 0, place).verdict);
    assert_eq!(verdicts, [Verdict::Agrees, Verdict::Wrong, Verdict::Wrong], "{found:#?}");
}

#[test]
fn a_rule_that_is_right_at_the_point_only_is_found_near_it() {
    let text = "def f (x : Real) : Real = custom_vjp (\\y -> y ^ 2) (\\y c -> c * 4) x";
    let found = check(text, "[2]");
    assert_eq!(first(&found), (Verdict::Agrees, Reason::Differences), "{found:#?}");
    for point in &found.points[1..] {
        assert_eq!(point.comparisons[0].verdict, Verdict::Wrong, "{found:#?}");
    }
    let alone = check_with(&function(text, "f"), "[2]", |options| options.points = 0).unwrap();
    assert_eq!((alone.points.len(), alone.verdict()), (1, Verdict::Agrees));
}

#[test]
fn modes_that_differ_are_found() {
    // A rule that isn't linear: reverse mode asks it at 1, forward mode for its slope at 0.
    let found = check("def f (x : Real) : Real = custom_vjp (\\y -> y) (\\_ c -> max (-1) (min 1 c)) (3 * x)", "[2]");
    let of_x = named(&found, 0, "x");
    assert_eq!((of_x.verdict, of_x.reason), (Verdict::Agrees, Reason::Differences), "{found:#?}");
    let text = "def f (x : Real) : Real = 3 * custom_vjp (\\y -> y) (\\_ c -> max (-1) (min 1 c)) x";
    let found = check(text, "[2]");
    assert_eq!(first(&found), (Verdict::Wrong, Reason::ModesDiffer), "{found:#?}");
    let of_x = named(&found, 0, "x");
    assert_eq!((of_x.reverse, of_x.forward), (1.0, Some(3.0)));
}

#[test]
fn broken_second_derivatives_are_found_only_where_they_are_asked_for() {
    // The rule has the right gradient, but a detached part in it.
    let text = "def f (x : Real) (y : Real) : Real =
        y * custom_vjp (\\x -> x ^ 3) (\\x c -> 3 * c * x * detach x) x";
    let function = function(text, "f");
    assert_eq!(check_with(&function, "[2, 3]", |_| {}).unwrap().verdict(), Verdict::Agrees);
    let found = check_with(&function, "[2, 3]", |options| options.second = true).unwrap();
    let wrong = |name| named(&found, 0, name).verdict;
    assert_eq!(wrong("x, direction 1"), Verdict::Wrong, "{found:#?}");
    assert_eq!(wrong("y, direction 1"), Verdict::Agrees, "{found:#?}");
    assert_eq!(wrong("x"), Verdict::Agrees, "{found:#?}");
    // What isn't symmetric is found, too.
    let text = "def f (x : Real) (y : Real) : Real = custom_vjp (\\(x, y) -> x ^ 2 * y)
        (\\(x, y) c -> (2 * c * x * detach y, c * x * x)) (x, y)";
    let found = check_with(&self::function(text, "f"), "[2, 3]", |options| options.second = true).unwrap();
    assert_eq!(named(&found, 0, "symmetry").verdict, Verdict::Wrong, "{found:#?}");
}

#[test]
fn kinks_are_no_errors() {
    use Side::{Left, Right};
    let kink = |text: &str, json: &str, reason: Reason| {
        let found = check(text, json);
        assert_eq!(first(&found), (Verdict::Kink, reason), "{text}: {found:#?}");
        assert_eq!(found.counts().wrong, 0, "{text}: {found:#?}");
    };
    kink("def f (x : Real) : Real = abs x", "[0]", Reason::BetweenSlopes);
    kink("def f (x : Real) (y : Real) : Real = max x y", "[1, 1]", Reason::SlopeFrom(Right));
    kink("def f (x : Real) (y : Real) : Real = min x y", "[1, 1]", Reason::SlopeFrom(Left));
    kink("def f (x : Real) : Real = floor x", "[2]", Reason::Jump(Left));
    kink("def f (x : Real) : Real = ceil x + x", "[2]", Reason::Jump(Right));
    kink("def f (x : Real) : Real = if x == 2 then 0 else 1 + x", "[2]", Reason::Isolated);
    kink("def f (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + abs x", "[[0, 0]]", Reason::BetweenSlopes);
    let found = check("def f (x : Real) : Real = abs x", "[0]");
    let [Some(left), Some(right)] = found.points[0].comparisons[0].one_sided else { panic!("{found:#?}") };
    assert!((left.value + 1.0).abs() <= left.error && (right.value - 1.0).abs() <= right.error);
    // Beside the kink there is none, however near.
    for x in ["1e-3", "-0.01", "1.5"] {
        let found = check("def f (x : Real) : Real = max x 0 + x", &format!("[{x}]"));
        assert_eq!(first(&found), (Verdict::Agrees, Reason::Differences), "{x}: {found:#?}");
    }
    // A rule that is neither of the slopes nor between them is wrong, even there.
    let found = check("def f (x : Real) : Real = custom_vjp (\\y -> abs y) (\\_ c -> 7 * c) x", "[0]");
    assert_eq!(first(&found), (Verdict::Wrong, Reason::OutsideOfKink), "{found:#?}");
}

#[test]
fn kinks_of_single_reals_excuse_the_direction() {
    // One of them counts to the right, the other to the left; where both do, or neither, sides have other slopes.
    let function = function("def f (x : Real) (y : Real) : Real = max x 0 - max y 0", "f");
    let mut excused = 0;
    for seed in 0..16 {
        let found = check_with(&function, "[0, 0]", |options| options.seed = seed).unwrap();
        assert!(!found.is_wrong(), "{seed}: {found:#?}");
        excused += usize::from(named(&found, 0, "all together").reason == Reason::KinksOfReals);
    }
    assert!(excused > 0);
}

#[test]
fn rounding_and_edges_of_domains_are_never_called_wrong() {
    let cannot_tell = |text: &str, json: &str, reason: Reason| {
        let found = check(text, json);
        assert_eq!(first(&found), (Verdict::CannotTell, reason), "{text}: {found:#?}");
        assert!(!found.is_wrong(), "{text}: {found:#?}");
    };
    cannot_tell("def f (x : Real) : Real = sqrt x", "[0]", Reason::Unbounded);
    cannot_tell("def f (x : Real) : Real = cbrt x", "[0]", Reason::Unbounded);
    cannot_tell("def f (x : Real) : Real = (x + 1e16) - 1e16", "[1.3]", Reason::Steps);
    cannot_tell("def f (x : Real) (y : Real) : Real = x + y", "[1, 1e16]", Reason::LargeError);
    cannot_tell("def f (x : Real) : Real = exp x", "[800]", Reason::ValueNotFinite);
    cannot_tell("def f (x : Real) : Real = log x", "[0]", Reason::ValueNotFinite);
    cannot_tell("def f (x : Real) : Real = log x", "[-3]", Reason::ValueNotFinite);
    cannot_tell("def f (x : Real) : Real = x * x", "[\"NaN\"]", Reason::ValueNotFinite);
    cannot_tell("def f (x : Real) : Real = x * x", "[\"Infinity\"]", Reason::ValueNotFinite);
    // More and more digits cancel: nothing of that may be called wrong.
    for digits in 0..18 {
        for x in ["1.3", "0.7", "-2.9", "1e-3"] {
            let text = format!("def f (x : Real) : Real = (x + 1e{digits}) - 1e{digits}");
            let found = check(&text, &format!("[{x}]"));
            assert!(!found.is_wrong(), "{digits}: {found:#?}");
            assert!(digits > 9 || found.verdict() == Verdict::Agrees, "{digits}: {found:#?}");
        }
    }
}

#[test]
fn one_side_is_enough_where_the_other_traps() {
    let found = check("def f (x : Real) : Real = if x < 0 then to_real (1 / (0 * to_int x)) else x * x + x", "[0]");
    assert_eq!(first(&found), (Verdict::Agrees, Reason::OneSided(Side::Right)), "{found:#?}");
    let trap = found.points[0].comparisons[0].trap.as_deref().expect("it traps on the left");
    assert!(trap.starts_with("integer division by zero"), "{trap}");
    assert!(!found.is_wrong());
    assert!(found.points[1..].iter().any(|point| point.trap.is_some()), "{found:#?}");
    // A wrong derivative is wrong there, too.
    let text = "def f (x : Real) : Real =
        if x < 0 then to_real (1 / (0 * to_int x)) else custom_vjp (\\y -> y * y + y) (\\y c -> 2 * c) x";
    assert_eq!(first(&check(text, "[0]")), (Verdict::Wrong, Reason::DifferencesDiffer));
}

#[test]
fn a_trap_at_the_point_is_an_error() {
    let function = function("def f (xs : Array Real) : Real = xs[3]", "f");
    let error = check_with(&function, "[[1]]", |_| {}).unwrap_err();
    assert!(error.is_trap() && error.to_string().starts_with("index 3 is out of bounds"), "{error}");
    let error = function.check_gradient(&[Value::Real(1.0)], &CheckOptions::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Argument(_)), "{error}");
}

#[test]
fn steps_across_a_pole_are_no_proof() {
    // Steps that are small enough for the pole agree.
    let (inverse, square) = ("def f (x : Real) = 1 / x", "def f (x : Real) = 1 / (x * x)");
    for (text, x) in
        [inverse, square].into_iter().flat_map(|text| ["1e-10", "-1e-6", "1e-3", "1e-50"].map(|x| (text, x)))
    {
        let found = check(text, &format!("[{x}]"));
        assert_eq!(found.verdict(), Verdict::Agrees, "{text} at {x}: {found:#?}");
        assert_eq!(found.counts().agree, 4, "{text} at {x}: {found:#?}");
    }
    // There are no such steps, or too few.
    for (text, x) in [
        ("def f (x : Real) = 1 / (x + 1e-10)", "0"),
        ("def f (x : Real) = 1 / (x + 1e-13)", "0"),
        ("def f (x : Real) = 1 / (x - 1)", "1.0000000001"),
    ] {
        let found = check_with(&function(text, "f"), &format!("[{x}]"), |options| options.points = 0).unwrap();
        assert_ne!(found.verdict(), Verdict::Wrong, "{text} at {x}: {found:#?}");
    }
    // What is wrong there is still found.
    let broken =
        "def inverse = custom_vjp (\\x -> 1 / x) (\\x c -> -2 * c / (x * x))\ndef f (x : Real) : Real = inverse x";
    for x in ["1e-10", "2"] {
        let found = check(broken, &format!("[{x}]"));
        assert_eq!(first(&found), (Verdict::Wrong, Reason::DifferencesDiffer), "{found:#?}");
    }
}

#[test]
fn second_derivatives_that_cancel_are_symmetric() {
    // At its mode, the slope of the density is 0.
    let function = function("import stats\ndef f (x : Real) : Real = stats.poisson_cdf 20 x", "f");
    let found = check_with(&function, "[20]", |options| (options.second, options.points) = (true, 0)).unwrap();
    assert_ne!(found.verdict(), Verdict::Wrong, "{found:#?}");
    assert_eq!(named(&found, 0, "symmetry").verdict, Verdict::Agrees, "{found:#?}");
}

#[test]
fn there_may_be_nothing_to_compare() {
    for (text, json) in [
        ("def f (n : Int) : Real = to_real n", "[3]"),
        ("def f (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + x * x", "[[]]"),
        ("def f (b : Bool) = (b, 3)", "[true]"),
    ] {
        let found = check(text, json);
        assert_eq!((found.reals, found.verdict()), (0, Verdict::Agrees), "{text}");
        assert!(found.points.iter().all(|point| point.comparisons.is_empty()), "{text}: {found:#?}");
        assert_eq!(found.points.len(), 4, "{text}");
    }
}

#[test]
fn constants_and_what_is_unused_have_derivative_0() {
    for (text, json) in [
        ("def f (x : Real) : Real = 5", "[3]"),
        ("def f (x : Real) (y : Real) : Real = 1e9 + y - y", "[3, 2]"),
        ("def f (xs : Array Real) (n : Int) : Real = xs[n]", "[[1, 2, 3], 1]"),
        ("def f (x : Real) = (to_int x, true)", "[2.5]"),
    ] {
        let found = check(text, json);
        assert_eq!(found.verdict(), Verdict::Agrees, "{text}: {found:#?}");
        let of_first = &found.points[0].comparisons[0];
        assert_eq!((of_first.reverse, of_first.verdict), (0.0, Verdict::Agrees), "{text}: {found:#?}");
    }
}

#[test]
fn results_may_be_anything_and_what_is_not_finite_is_left_out() {
    let text = "def f (x : Real) (n : Int) = ([| x * x, sin x |], (n, { a = x ^ n, b = true }), exp (1000 * x))";
    let found = check(text, "[2, 3]");
    assert_eq!((found.outputs, found.verdict()), (4, Verdict::Agrees), "{found:#?}");
    assert_eq!(found.points[0].not_finite, 1);
    // Where the length depends on reals, there is nothing to compare with where it is another.
    let found = check("def f (x : Real) = [| x * to_real (i + 1) for i < to_int x |]", "[2]");
    assert_eq!(first(&found), (Verdict::Agrees, Reason::OneSided(Side::Right)), "{found:#?}");
}

#[test]
fn places_are_those_inside_of_the_arguments() {
    let text = "type Shape = Circle Real | Square { side : Real }
        def f (k : Real) (n : Int) (shapes : List (Shape, Real)) ({ a, b } : { a : Real, b : Array Real }) : Real =
          k * a * b[0] * to_real n * sum (map (\\(shape, w) -> match shape with
            | Circle r -> w * r
            | Square { side } -> w * side * side) shapes)";
    let function = function(text, "f").wrt(&["shapes", "k"]).unwrap();
    // Integers for reals, and fields in another order.
    let args = [
        Value::Int(2),
        Value::Int(3),
        Value::Array(vec![
            Value::Tuple(vec![Value::variant("Circle", Value::Tuple(vec![Value::Int(2)])), Value::Real(0.5)]),
            Value::Tuple(vec![
                Value::variant("Square", Value::Record(vec![("side".into(), Value::Real(1.5))])),
                Value::Int(1),
            ]),
        ]),
        Value::Record(vec![("b".into(), Value::Array(vec![Value::Int(2)])), ("a".into(), Value::Real(0.5))]),
    ];
    let found = function.check_gradient(&args, &CheckOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let places: Vec<String> = found.points[0].comparisons.iter().map(|c| c.quantity.to_string()).collect();
    let expected = ["k", "shapes[0].0.0", "shapes[0].1", "shapes[1].0.side", "shapes[1].1", "all together"];
    assert_eq!(places, expected);
    assert_eq!(found.verdict(), Verdict::Agrees, "{found:#?}");
    assert_eq!(found.counts().agree, 4 * expected.len(), "{found:#?}");
}

#[test]
fn of_many_reals_a_sample_is_checked() {
    let text = "def f (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + x * x * x
        def g (xs : Array Real) : Real = f xs + custom_vjp (\\x -> x * x) (\\x c -> c * x) xs[17]";
    let [right, broken] = ["f", "g"].map(|name| function(text, name));
    let json = format!("[{:?}]", (0..1000).map(|n| 1.0 + f64::from(n) / 1000.0).collect::<Vec<_>>());
    let some = |function, count| {
        let set = |options: &mut CheckOptions| (options.points, options.components) = (0, count);
        check_with(function, &json, set).unwrap_or_else(|error| panic!("{error}"))
    };
    let found = some(&right, 7);
    assert_eq!((found.reals, found.checked, found.points[0].comparisons.len()), (1000, 7, 8));
    assert_eq!(found.counts().agree, 8, "{found:#?}");
    assert_eq!(some(&right, 0).checked, 1000);
    // What the sample hasn't met shows along the direction.
    let found = some(&broken, 7);
    assert!(found.points[0].comparisons.iter().all(|c| c.quantity.to_string() != "xs[17]"));
    assert_eq!(named(&found, 0, "all together").verdict, Verdict::Wrong, "{found:#?}");
}

#[test]
fn a_seed_makes_the_same_check_on_any_number_of_threads() {
    let text = "def f (xs : List Real) = (sum (pmap (\\x -> x * sin x) xs), product xs)";
    let on = |threads: usize, jit: Jit, seed: u64| {
        let mut config = Config::default();
        (config.threads, config.jit) = (threads, jit);
        let function = Module::from_source(&Engine::new(config), "f.dual", text).unwrap().function("f").unwrap();
        format!("{:?}", check_with(&function, "[[1, 2, 0.5, -3]]", |options| options.seed = seed).unwrap())
    };
    let one = on(1, Jit::Off, 7);
    assert_eq!(one, on(1, Jit::Off, 7));
    assert_eq!(one, on(3, Jit::Always, 7));
    assert_ne!(one, on(1, Jit::Off, 8));
}

#[test]
fn limits_and_cancellation_end_a_check() {
    let function = function("def f (x : Real) : Real = loop y = x for _ < 1000 do y * 1.0001", "f");
    let limited = |fuel: u64| {
        let limits = Limits { fuel, ..Limits::default() };
        check_with(&function, "[1]", |options| options.call = CallOptions::with_limits(limits))
    };
    assert!(limited(100).unwrap_err().is_limit());
    assert_eq!(limited(1_000_000).unwrap().verdict(), Verdict::Agrees);
    // The same where only differences come: a little above, the loop is much longer.
    let longer = self::function("def f (x : Real) : Real = loop y = x for _ < to_int (x ^ 60) do y * 1.001", "f");
    let limits = Limits { fuel: 2_000, ..Limits::default() };
    let options = CallOptions::with_limits(limits);
    longer.vjp_with(&[Value::Real(1.0)], &Value::Real(1.0), &options).expect("at the point it is short");
    assert!(check_with(&longer, "[1]", |set| set.call = options).unwrap_err().is_limit());
    let handle = CancelHandle::new();
    handle.cancel();
    let set = |options: &mut CheckOptions| options.call = CallOptions::default().cancelled_by(&handle);
    assert!(check_with(&function, "[1]", set).unwrap_err().is_cancelled());
}

#[test]
fn second_derivatives_need_one_real() {
    let function = function("def f (x : Real) = (x, x)", "f");
    let error = check_with(&function, "[1]", |options| options.second = true).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotScalar { .. }), "{error}");
}
