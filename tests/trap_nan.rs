//! `--trap-nan`: the first number that becomes NaN or infinite is named, with its operands and the way back to inputs.

use dualvm::vm::trap::{Origin, Role};
use dualvm::{Config, Engine, Error, ErrorKind, Function, Module, TrapKind, Value};

fn engine(threads: usize) -> Engine {
    let mut config = Config::default();
    config.trap_nan = true;
    config.threads = threads;
    Engine::new(config)
}

fn function(text: &str) -> Function {
    let module = Module::from_source(&engine(4), "t.dual", text).expect("the program is good");
    let mut functions: Vec<Function> = module.functions().collect();
    functions.pop().expect("there is a function")
}

/// The message of a trap.
fn shown<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let error = outcome.expect_err("it traps");
    match error.kind() {
        ErrorKind::Trap(trap) => trap.to_string(),
        other => panic!("expected a trap, found {other}"),
    }
}

fn reals(args: &[f64]) -> Vec<Value> {
    args.iter().map(|&x| Value::Real(x)).collect()
}

/// Calls the last function of a program, and says why that has failed.
fn run(text: &str, args: &[Value]) -> String {
    shown(function(text).call(args))
}

/// The same of its gradient.
fn grad(text: &str, args: &[Value]) -> String {
    shown(function(text).value_and_grad(args))
}

#[test]
fn the_square_root_of_a_negative_number() {
    let text = "def f (x : Real) : Real =\n  let y = x * x in\n  1 + sqrt (y - 1)";
    let expected = "sqrt(-0.75) is NaN
  at t.dual:3:7
  -0.75 = 0.25 - 1.0 at t.dual:3:13
  0.25 = 0.5 * 0.5 at t.dual:2:11
  0.5 = argument x
  in f at t.dual:3:7";
    assert_eq!(run(text, &reals(&[0.5])), expected);
    assert_eq!(grad(text, &reals(&[0.5])), expected);
}

#[test]
fn the_logarithm_of_zero() {
    let text = "def f (x : Real) (y : Real) : Real = x * log (y - 1)";
    let expected = "log(0.0) is -inf
  at t.dual:1:42
  0.0 = 1.0 - 1.0 at t.dual:1:47
  1.0 = argument y
  in f at t.dual:1:42";
    assert_eq!(run(text, &reals(&[2.0, 1.0])), expected);
}

#[test]
fn zero_by_zero_even_of_constants() {
    let text = "def f (x : Real) : Real = x * (0 / 0)";
    assert_eq!(run(text, &reals(&[2.0])), "0.0 / 0.0 is NaN\n  at t.dual:1:32\n  in f at t.dual:1:32");
}

#[test]
fn the_difference_of_infinite_arguments_but_not_these_themselves() {
    let text = "def f (x : Real) : Real = let a = 2 * x in min (a - x) 1";
    let expected = "inf - inf is NaN
  at t.dual:1:49
  inf = 2.0 * inf at t.dual:1:35
  inf = argument x
  in f at t.dual:1:49";
    assert_eq!(run(text, &reals(&[f64::INFINITY])), expected);
    let passes = function("def f (x : Real) (y : Real) : Real = min x y * 2 + exp (-x)");
    assert_eq!(passes.call(&reals(&[f64::INFINITY, 3.0])).expect("it passes"), Value::Real(6.0));
    assert!(passes.call(&reals(&[f64::NAN, 3.0])).is_ok());
    let least = "def infinity = 1.0 / 0.0\ndef f (xs : Array Real) : Real = fold min infinity xs";
    assert_eq!(function(least).call(&[vec![2.0, 1.0].into()]).expect("it is a constant"), Value::Real(1.0));
}

#[test]
fn an_overflow_in_a_round_of_a_loop() {
    let text = "def f (x : Real) : Real =\n  loop y = x for _ < 20 do\n    y * y";
    let huge = 2f64.powi(512);
    let expected = format!(
        "{huge:?} * {huge:?} is inf
  at t.dual:3:5, round 2 of the loop at 2:3
  {huge:?} = {:?} * {:?} at t.dual:3:5, round 1 of the loop at 2:3
  {:?} = {:?} * {:?} at t.dual:3:5, round 0 of the loop at 2:3
  {:?} = argument x
  in f at t.dual:3:5",
        2f64.powi(256),
        2f64.powi(256),
        2f64.powi(256),
        2f64.powi(128),
        2f64.powi(128),
        2f64.powi(128)
    );
    assert_eq!(run(text, &reals(&[2f64.powi(128)])), expected);
}

#[test]
fn a_division_at_an_index_of_nested_loops() {
    let text = "
def f (n : Int) (x : Real) : Real =
  loop s = 0.0 for i < n do
    loop s = s for j < n do
      s + 1 / (x - to_real (i * n + j))";
    let expected = "1.0 / 0.0 is inf
  at t.dual:5:11, round 1 of the loop at 4:5, round 2 of the loop at 3:3
  0.0 = 7.0 - 7.0 at t.dual:5:16, round 1 of the loop at 4:5, round 2 of the loop at 3:3
  7.0 = argument x
  in f at t.dual:5:11";
    assert_eq!(run(text, &[Value::Int(3), Value::Real(7.0)]), expected);
    assert_eq!(grad(text, &[Value::Int(3), Value::Real(7.0)]), expected);
}

#[test]
fn an_element_of_an_array_through_map_and_fold() {
    let text = "
def f (x : Real) (xs : Array Real) : Real =
  sum [| log (y - x) for y in xs |]";
    let expected = "log(0.0) is -inf
  at t.dual:3:10, round 1 of the loop at 3:7
  0.0 = 2.0 - 2.0 at t.dual:3:15, round 1 of the loop at 3:7
  2.0 = argument xs[1]
  in f at t.dual:3:10";
    assert_eq!(grad(text, &[2.0.into(), vec![3.0, 2.0, 5.0].into()]), expected);
}

#[test]
fn a_part_of_a_data_structure() {
    let text = "
type Tree = Leaf Real | Node Tree Tree
def total (t : Tree) : Real = match t with
  | Leaf v -> log v
  | Node l r -> total l + total r";
    let leaf = |x: f64| Value::variant("Leaf", Value::Tuple(vec![x.into()]));
    let node = |l, r| Value::variant("Node", Value::Tuple(vec![l, r]));
    let tree = node(leaf(2.0), node(leaf(0.0), leaf(1.0)));
    let expected = "log(0.0) is -inf
  at t.dual:4:15
  0.0 = argument t.1.0.0
  in total at t.dual:4:15
  in total at t.dual:5:27";
    let found = run(text, &[tree]);
    assert!(found.starts_with(&expected[..60]), "{found}");
    assert!(found.contains("\n  0.0 = argument t.1.0.0\n"), "{found}");
}

#[test]
fn in_lists_and_records() {
    let text = "def f (xs : List { a : Real, b : Real }) : Real = sum (map (\\p -> p.a / p.b) xs)";
    let record = |a: f64, b: f64| Value::Record(vec![("b".into(), b.into()), ("a".into(), a.into())]);
    let found = grad(text, &[Value::Array(vec![record(1.0, 2.0), record(3.0, 0.0)])]);
    let expected = "3.0 / 0.0 is inf\n  at t.dual:1:67, round 1 of the loop at 1:51\n  0.0 = argument xs[1].b\n";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn in_a_recursion() {
    let text = "
def f (n : Int) (x : Real) : Real =
  if n == 0 then 1 / x else 1 + f (n - 1) (x - 1) * x";
    let found = grad(text, &[Value::Int(3), Value::Real(3.0)]);
    let expected = "1.0 / 0.0 is inf
  at t.dual:3:18
  0.0 = 1.0 - 1.0 at t.dual:3:44
  1.0 = 2.0 - 1.0 at t.dual:3:44
  2.0 = 3.0 - 1.0 at t.dual:3:44
  3.0 = argument x
";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn in_a_task_of_a_task() {
    let text = "
def f (x : Real) : Real =
  let u = x * 2 in
  let (a, b) = sin u |*| (let (p, q) = cos u |*| 1 / (u - 4) in p + q) in
  a * b";
    let expected = "1.0 / 0.0 is inf
  at t.dual:4:50
  0.0 = 4.0 - 4.0 at t.dual:4:55
  4.0 = 2.0 * 2.0 at t.dual:3:11
  2.0 = argument x
";
    for found in [run(text, &reals(&[2.0])), grad(text, &reals(&[2.0]))] {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn the_leftmost_of_several_tasks() {
    let text = "
def f (n : Int) (x : Real) : Real =
  let (a, b) = (loop s = x for _ < n do s + log (s - s)) |*| 1 / (x - x) in a * b";
    let found = grad(text, &[Value::Int(1000), Value::Real(2.0)]);
    assert!(found.starts_with("log(0.0) is -inf\n"), "{found}");
    let swept = "def f (x : Real) : Real = let (a, b) = sqrt x |*| sqrt (x * x) * sqrt (x + 1) in a + b";
    let found = grad(swept, &reals(&[0.0]));
    assert!(found.starts_with("the adjoint of an operand of sqrt(0.0) is inf\n  at t.dual:1:40\n"), "{found}");
}

#[test]
fn what_a_task_has_given_is_followed_into_it() {
    let text = "
def f (n : Int) (x : Real) : Real =
  let (a, b) = x * 3 |*| sin x in
  let ys = pbuild n (\\i -> to_real i * x) in
  log (a - 6) + b + 1 / (ys[1] - 2)";
    let expected = "log(0.0) is -inf
  at t.dual:5:3
  0.0 = 6.0 - 6.0 at t.dual:5:8
  6.0 = 2.0 * 3.0 at t.dual:3:16
  2.0 = argument x
";
    let found = grad(text, &[Value::Int(3), Value::Real(2.0)]);
    assert!(found.starts_with(expected), "{found}");
    let text = "
def f (n : Int) (x : Real) : Real =
  let ys = pbuild n (\\i -> to_real i * x) in
  1 / (ys[1] - 2)";
    let expected = "1.0 / 0.0 is inf
  at t.dual:4:3
  0.0 = 2.0 - 2.0 at t.dual:4:8
  2.0 = 1.0 * 2.0 at t.dual:3:28, round 0 of the loop at 3:22
  2.0 = argument x
";
    let found = run(text, &[Value::Int(3), Value::Real(2.0)]);
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn in_a_checkpoint() {
    let text = "def f (x : Real) : Real = checkpoint (\\ y -> exp (y * 1000)) (x + 1)";
    let expected = "exp(2000.0) is inf
  at t.dual:1:46
  2000.0 = 2.0 * 1000.0 at t.dual:1:51
  2.0 = 1.0 + 1.0 at t.dual:1:63
  1.0 = argument x
";
    for found in [run(text, &reals(&[1.0])), grad(text, &reals(&[1.0]))] {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn in_a_nested_gradient() {
    let text = "
def f (x : Real) : Real =
  let u = x * 2 in
  grad (\\y -> log (y - 2) * y) u + 1";
    let expected = "log(0.0) is -inf
  at t.dual:4:15
  0.0 = 2.0 - 2.0 at t.dual:4:20
  2.0 = 1.0 * 2.0 at t.dual:3:11
  1.0 = argument x
";
    for found in [run(text, &reals(&[1.0])), grad(text, &reals(&[1.0]))] {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn in_the_sweep_of_a_gradient_in_a_gradient() {
    let text = "
def f (x : Real) : Real =
  grad (\\y -> grad (\\z -> sqrt (z * y)) (y * 3)) (x - 1)";
    let found = run(text, &reals(&[1.0]));
    assert!(found.contains("of sqrt(0.0) is"), "{found}");
    assert!(found.contains("\n  1.0 = argument x\n"), "{found}");
}

#[test]
fn of_an_array_that_a_nested_gradient_is_taken_at() {
    let text = "
def f (xs : Array Real) : Real =
  sum (grad (\\ys -> sum [| log y for y in ys |]) xs)";
    let found = run(text, &[vec![1.0, 0.0, 2.0].into()]);
    assert!(found.starts_with("log(0.0) is -inf\n"), "{found}");
    assert!(found.contains("\n  0.0 = argument xs[1]\n"), "{found}");
}

#[test]
fn in_a_jvp() {
    let text = "
def f (x : Real) : Real =
  let (y, t) = jvp (\\z -> sqrt (2 * z)) (x - 1) 1.0 in y + t";
    let expected = "the tangent of sqrt(0.0) is inf
  at t.dual:3:27
  the tangent of 0.0 is 2.0
  0.0 = 2.0 * 0.0 at t.dual:3:33
  0.0 = 1.0 - 1.0 at t.dual:3:42
  1.0 = argument x
";
    for found in [run(text, &reals(&[1.0])), grad(text, &reals(&[1.0]))] {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn in_a_hosts_jvp_and_hvp() {
    let text = "def f (x : Real) (y : Real) : Real = y * x ^ 0.5";
    let expected = "the tangent of 0.0 ^ 0.5 is inf
  at t.dual:1:42
  the tangent of 0.0 is 1.0
  the tangent of 0.5 is 0.0
  0.0 = argument x
  in f at t.dual:1:42";
    let (f, args, tangents) = (function(text), reals(&[0.0, 2.0]), reals(&[1.0, 0.0]));
    assert_eq!(shown(f.jvp(&args, &tangents)), expected);
    assert_eq!(shown(f.hvp(&args, &tangents)), expected);
    assert_eq!(f.jvp(&args, &reals(&[0.0, 1.0])).expect("nobody asks for it"), (0.0.into(), 0.0.into()));
}

#[test]
fn in_a_pullback() {
    let text = "
def f (x : Real) : Real =
  let (y, back) = vjp (\\(a, b) -> sqrt a * b) (x * 2, 3.0) in
  let (da, db) = back 1.0 in
  y + da + db";
    let expected = "the adjoint of an operand of sqrt(0.0) is inf
  at t.dual:3:35
  the adjoint of its result 0.0 is 3.0
  0.0 = 0.0 * 2.0 at t.dual:3:48
  0.0 = argument x
";
    for found in [run(text, &reals(&[0.0])), grad(text, &reals(&[0.0]))] {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn a_partial_that_is_used() {
    let text = "def f (x : Real) (y : Real) : Real = y * sqrt x + 1";
    let expected = "the adjoint of an operand of sqrt(0.0) is inf
  at t.dual:1:42
  the adjoint of its result 0.0 is 2.0
  0.0 = argument x
  in f at t.dual:1:42";
    assert_eq!(grad(text, &reals(&[0.0, 2.0])), expected);
    assert!(run_passes(text, &[0.0, 2.0]));
    // Its adjoint is zero.
    let (_, gradient) = function(text).value_and_grad(&reals(&[0.0, 0.0])).expect("nobody asks for it");
    assert_eq!(gradient, reals(&[0.0, 0.0]));
}

fn run_passes(text: &str, args: &[f64]) -> bool {
    function(text).call(&reals(args)).is_ok()
}

#[test]
fn a_partial_that_is_not_used_passes() {
    let straight = "def f (x : Real) : Real = if x > 0 then sqrt x else 0";
    let in_loop = "def f (x : Real) : Real = loop s = 0.0 for i < 3 do s + (if x > 0 then sqrt x else 0)";
    for text in [straight, in_loop] {
        for x in [0.0, -1.0] {
            let (value, gradient) = function(text).value_and_grad(&reals(&[x])).expect("it passes");
            assert_eq!((value, gradient), (0.0, reals(&[0.0])));
        }
    }
}

#[test]
fn in_a_derivative_that_the_program_gives() {
    let text = "
def f (x : Real) : Real =
  custom_vjp (\\z -> abs z) (\\z c -> c * (z / abs z)) (x * 2)";
    let found = grad(text, &reals(&[0.0]));
    let expected = "0.0 / 0.0 is NaN
  at t.dual:3:42
  in the derivative of custom_vjp(0.0) in f.lambda
  0.0 = 0.0 * 2.0 at t.dual:3:55
  0.0 = argument x
";
    assert!(found.starts_with(expected), "{found}");
    let value = "def f (x : Real) : Real = custom_vjp (\\z -> log z) (\\z c -> c / z) (x * 2)";
    let found = run(value, &reals(&[0.0]));
    assert!(found.starts_with("log(0.0) is -inf\n  at t.dual:1:45\n"), "{found}");
    assert!(found.contains("\n  0.0 = argument x\n"), "{found}");
}

#[test]
fn sums_of_adjoints_that_overflow() {
    let text = "def f (x : Real) : Real = 1.1e308 * x + 1.2e308 * x";
    let found = function(text).value_and_grad(&reals(&[1e-300])).expect_err("the sum overflows");
    let found = found.non_finite().expect("it is a number");
    assert_eq!((found.role, found.number), (Role::AdjointSum, f64::INFINITY));
    assert!(matches!(&found.origin, Origin::Input { index: 0, .. }));
}

#[test]
fn a_function_with_respect_to_one_parameter_names_that_one() {
    let f = function("def f (a : Array Real) (x : Real) : Real = a[0] * log x").wrt(&["x"]).expect("there is x");
    let found = shown(f.value_and_grad(&[vec![1.0, 2.0].into(), 0.0.into()]));
    assert!(found.contains("0.0 = argument x\n"), "{found}");
}

#[test]
fn long_chains_are_cut() {
    let text = "def f (x : Real) : Real = log (loop y = x for _ < 100 do y - 1)";
    let found = run(text, &reals(&[100.0]));
    assert_eq!(found.lines().count(), 2 + 12 + 3, "{found}");
    assert!(found.contains("\n  … 88 more steps …\n  argument x\n"), "{found}");
}

#[test]
fn limits_hold() {
    let text = "def f (n : Int) (x : Real) : Real = loop y = x for _ < n do sin y";
    let mut config = Config::default();
    config.trap_nan = true;
    config.limits.tape_bytes = 1 << 20;
    let module = Module::from_source(&Engine::new(config), "t.dual", text).expect("the program is good");
    let error = module.function("f").expect("there is f").call(&[Value::Int(1 << 30), 1.0.into()]);
    let error = error.expect_err("the tape is small");
    assert!(matches!(error.kind(), ErrorKind::Trap(trap) if matches!(trap.kind, TrapKind::Limit(_))), "{error}");
}

#[test]
fn the_same_on_any_number_of_threads() {
    let text = "
def f (n : Int) (x : Real) : Real =
  sum (pbuild n (\\i -> sqrt (x - to_real i) * sqrt (x - to_real (i / 2))))";
    let found: Vec<String> = [1, 2, 4]
        .map(|threads| {
            let module = Module::from_source(&engine(threads), "t.dual", text).expect("the program is good");
            let f = module.function("f").expect("there is f");
            shown(f.value_and_grad(&[Value::Int(500), 300.0.into()]))
        })
        .into();
    assert!(found[0].starts_with("sqrt(-1.0) is NaN\n"), "{}", found[0]);
    assert!(found.iter().all(|other| *other == found[0]));
}

#[test]
fn results_are_those_of_other_engines() {
    let text = "
def f (xs : Array Real) (k : Real) : Real =
  let inner = grad (\\y -> sum [| sin (y * x) for x in xs |] ^ 2) k in
  let (a, b) = checkpoint (\\z -> exp (-z * z)) inner |*| (loop s = k for x in xs do s * x + cos s) in
  a * b + max k (tanh inner) + custom_vjp (\\z -> z ^ 3) (\\z c -> 3 * c * z ^ 2) k";
    let module = Module::from_source(&Engine::default(), "t.dual", text).expect("the program is good");
    let (args, looked_at) = ([vec![0.5, -0.3, 0.2].into(), 0.7.into()], function(text));
    let (value, gradient) = module.function("f").expect("there is f").value_and_grad(&args).expect("it runs");
    let (same, same_gradient) = looked_at.value_and_grad(&args).expect("nothing is infinite");
    assert_eq!(same, value);
    let numbers = |gradient: &[Value]| match gradient {
        [Value::Reals(xs), Value::Real(k)] => [&xs[..], &[*k]].concat(),
        other => panic!("expected a gradient, found {other:?}"),
    };
    for (a, b) in numbers(&gradient).iter().zip(numbers(&same_gradient)) {
        assert!((a - b).abs() <= 1e-12 * a.abs().max(1.0), "{a} and {b}");
    }
}

#[test]
fn loops_around_calls_and_operators_tell_their_rounds() {
    let text = "
def power (n : Int) (x : Real) : Real = if n == 0 then 1 / x else power (n - 1) x * x + 1
def f (x : Real) : Real =
  loop s = 0.0 for i < 5 do
    loop t = s for j < 3 do
      t + power 2 (x - to_real (3 * i + j))";
    let found = run(text, &reals(&[7.0]));
    let rounds = ", called in round 1 of the loop at 5:5, called in round 2 of the loop at 4:3";
    assert!(found.contains(rounds), "{found}");
    let text = "
def f (x : Real) : Real =
  loop s = 0.0 for i < 5 do s + grad (\\y -> log (y * y)) (x - to_real i)";
    let found = grad(text, &reals(&[3.0]));
    assert!(found.contains(", called in round 3 of the loop at 3:3\n"), "{found}");
}
