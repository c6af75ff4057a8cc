//! Programs compiled, verified and run: what they compute is what the language says.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Config, Engine, Module, RunError};
use dualvm_vm::value::Value;

fn module(text: &str) -> Module {
    let def = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    let engine = Engine::new(Config::default());
    Module::new(&engine, def).unwrap_or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("the verifier refuses:\n{}", errors.join("\n"))
    })
}

fn try_run(text: &str, name: &str, args: &[Value]) -> Result<Value, RunError> {
    module(text).function(name).expect("the program defines the function").call(args)
}

fn run(text: &str, name: &str, args: &[Value]) -> Value {
    try_run(text, name, args).unwrap_or_else(|error| panic!("{error}"))
}

fn int(text: &str, args: &[i64]) -> i64 {
    let args: Vec<Value> = args.iter().map(|&n| Value::Int(n)).collect();
    match run(text, "f", &args) {
        Value::Int(n) => n,
        other => panic!("not an Int: {other:?}"),
    }
}

fn real(text: &str, args: &[f64]) -> f64 {
    let args: Vec<Value> = args.iter().map(|&x| Value::Real(x)).collect();
    run(text, "f", &args).as_real().expect("a real")
}

#[test]
fn rosenbrock_has_its_gradient() {
    let text = "def rosenbrock (x : Array Real) : Real =
      loop acc = 0.0 for i < length x - 1 do
        acc + 100 * (x[i + 1] - x[i] ^ 2) ^ 2 + (1 - x[i]) ^ 2";
    let function = module(text).function("rosenbrock").unwrap();
    let (value, gradient) = function.value_and_grad(&[Value::Reals(vec![-1.2, 1.0])]).unwrap();
    assert!((value - 24.2).abs() < 1e-12);
    let gradient = gradient[0].as_reals().unwrap();
    assert!((gradient[0] + 215.6).abs() < 1e-10 && (gradient[1] + 88.0).abs() < 1e-10, "{gradient:?}");
}

#[test]
fn newton_differentiates_through_its_iterations() {
    let text = "def newton (a : Real) (x0 : Real) : Real =
      loop x = x0 while abs (x * x - a) > 1e-12 do x - (x * x - a) / (2 * x)";
    let function = module(text).function("newton").unwrap();
    let (value, gradient) = function.value_and_grad(&[Value::Real(2.0), Value::Real(1.0)]).unwrap();
    assert!((value - 2.0f64.sqrt()).abs() < 1e-12);
    assert!((gradient[0].as_real().unwrap() - 0.5 / 2.0f64.sqrt()).abs() < 1e-9);
}

#[test]
fn recursion_computes_fibonacci() {
    assert_eq!(int("def f (n : Int) : Int = if n < 2 then n else f (n - 1) + f (n - 2)", &[20]), 6765);
}

#[test]
fn recursion_computes_ackermann() {
    let text = "def f (m : Int) (n : Int) : Int =
      if m == 0 then n + 1 else if n == 0 then f (m - 1) 1 else f (m - 1) (f m (n - 1))";
    assert_eq!(int(text, &[2, 3]), 9);
}

#[test]
fn tail_calls_run_in_constant_space() {
    let text = "def even (n : Int) : Bool = if n == 0 then true else odd (n - 1)
    def odd n = if n == 0 then false else even (n - 1)
    def f (n : Int) : Int = if even n then count n 0 else -1
    def count (n : Int) (k : Int) : Int = if n == 0 then k else count (n - 1) (k + 2)";
    assert_eq!(int(text, &[3_000_000]), 6_000_000);
    assert_eq!(int(text, &[3_000_001]), -1);
}

#[test]
fn loops_assign_their_accumulators_at_once() {
    let fib = "def f (n : Int) : Int = let (a, _) = loop (a, b) = (0, 1) for i < n do (b, a + b) in a";
    assert_eq!(int(fib, &[30]), 832_040);
    let swap = "def f (n : Int) : Int = let (a, b) = loop (a, b) = (3, 5) for _ < n do (b, a) in 10 * a + b";
    assert_eq!((int(swap, &[2]), int(swap, &[3])), (35, 53));
    let rotate = "def f (n : Int) : Int =
      let (a, b, c) = loop (a, b, c) = (1, 2, 3) for i < n do (b, c, a + b + c) in a * 10000 + b * 100 + c";
    assert_eq!(int(rotate, &[3]), 6 * 10000 + 11 * 100 + 20);
    let branches = "def f (n : Int) : Int =
      let (a, b) = loop (a, b) = (1, 0) for i < n do if i % 2 == 0 then (b, a + i) else (a - b, b * 2) in a * 1000 + b";
    let mut state = (1, 0);
    for i in 0..7 {
        state = if i % 2 == 0 { (state.1, state.0 + i) } else { (state.0 - state.1, state.1 * 2) };
    }
    assert_eq!(int(branches, &[7]), state.0 * 1000 + state.1);
}

#[test]
fn nested_loops_keep_outer_variables() {
    let text = "def f (n : Int) : Int =
      loop acc = 0 for i in 1 .. n + 1 do
        loop inner = acc for j < i do inner + acc * 0 + i * j";
    let expected: i64 = (1..=6).map(|i| (0..i).map(|j| i * j).sum::<i64>()).sum();
    assert_eq!(int(text, &[6]), expected);
    let reads_outer = "def f (n : Int) : Int = loop acc = 1 for i < n do loop x = 0 for j < 3 do x + acc";
    assert_eq!(int(reads_outer, &[4]), 81);
    let while_loop = "def f (n : Int) : Int = loop x = n while (loop y = x while y > 10 do y - 7) != 4 do x + 1";
    assert_eq!(int(while_loop, &[8]), 11);
}

#[test]
fn arrays_are_built_indexed_and_iterated_over() {
    let text = "def f (n : Int) : Real =
      let squares = [| to_real (i * i) for i < n |] in
      let pairs = [| (x, i) for i in 1 .. length squares |]
      in loop acc = 0.0 for (y, i) in pairs do acc + y * squares[i]
    def x = 2.0";
    assert_eq!(run(text, "f", &[Value::Int(4)]), Value::Real(28.0));
    let mapped = "def f (xs : Array (Real, Int)) = [| (i, x * 2, ()) for (x, i) in xs |]";
    let pair = |a, b| Value::Tuple(vec![a, b]);
    let input = Value::Array(vec![pair(Value::Real(1.5), Value::Int(7))]);
    let output = Value::Array(vec![Value::Tuple(vec![Value::Int(7), Value::Real(3.0), Value::UNIT])]);
    assert_eq!(run(mapped, "f", &[input]), output);
    assert_eq!(run("def f = [| 1, 2, 3 |]", "f", &[]), Value::Reals(vec![1.0, 2.0, 3.0]));
    assert_eq!(run("def f (n : Int) = [| 1.5 for i in 5 .. n |]", "f", &[Value::Int(2)]), Value::Reals(vec![]));
    let long: Vec<String> = (0..2500).map(|i| format!("{i}.0")).collect();
    let text = format!("def f (n : Int) : Real = [| {} |][n]", long.join(", "));
    assert_eq!(run(&text, "f", &[Value::Int(2499)]), Value::Real(2499.0));
}

#[test]
fn an_index_out_of_range_traps_at_its_place() {
    let error = try_run("def f (xs : Array Real) =\n  xs[2]", "f", &[Value::Reals(vec![1.0])]).unwrap_err();
    assert!(error.to_string().contains('2'), "{error}");
    assert!(try_run("def f (n : Int) = 1 / n", "f", &[Value::Int(0)]).is_err());
    assert!(try_run("def f (n : Int) : Int = 2 ^ n", "f", &[Value::Int(-1)]).is_err());
}

#[test]
fn polymorphic_definitions_have_an_instance_per_type() {
    let text = "def twice x = x + x
    def swap (a, b) = (b, a)
    def f (n : Int) : (Real, Int) = swap (twice n, twice 1.5)";
    assert_eq!(run(text, "f", &[Value::Int(4)]), Value::Tuple(vec![Value::Real(3.0), Value::Int(8)]));
    assert_eq!(run(text, "twice", &[Value::Real(4.0)]), Value::Real(8.0));
}

#[test]
fn powers_follow_the_types() {
    assert_eq!(real("def f (x : Real) : Real = x ^ 3 + x ^ -2 + x ^ 0", &[2.0]), 8.25 + 1.0);
    assert_eq!(real("def f (x : Real) : Real = x ^ 0.5", &[9.0]), 3.0);
    assert_eq!(int("def f (n : Int) (k : Int) : Int = n ^ k + n ^ 2", &[3, 5]), 243 + 9);
    assert_eq!(
        run("def f (x : Real) (n : Int) : Real = x ^ n", "f", &[Value::Real(2.0), Value::Int(10)]),
        Value::Real(1024.0)
    );
    assert_eq!(real("def f (x : Real) : Real = -x ^ 2", &[3.0]), -9.0);
}

#[test]
fn logic_is_short_circuit() {
    let text = "def f (n : Int) : Int = if n != 0 && 10 / n > 2 || n == 0 then 1 else 0";
    assert_eq!([0, 3, 5].map(|n| int(text, &[n])), [1, 1, 0]);
    let value = "def f (n : Int) : Bool = not (n > 0 && 10 / n > 2)";
    assert_eq!(run(value, "f", &[Value::Int(0)]), Value::Bool(true));
    let compared = "def f (x : Real) : Bool = not (x < 1) && (x >= 1) == true";
    assert_eq!(run(compared, "f", &[Value::Real(f64::NAN)]), Value::Bool(false));
}

#[test]
fn names_are_shadowed_by_inner_ones() {
    let text =
        "def f (x : Int) : Int = let x = x + 1 in let y = (let x = x * 10 in x + 1) in x + y + length [| x, y |]";
    assert_eq!(int(text, &[1]), 2 + 21 + 2);
    assert_eq!(int("def f (sin : Int) : Int = sin + 1", &[1]), 2);
}

#[test]
fn overloaded_functions_work_on_both_numbers() {
    let ints = "def f (n : Int) : Int = abs n * 100 + sign n * 10 + max n 2 - min n 2";
    assert_eq!(int(ints, &[-3]), 300 - 10 + 2 + 3);
    let reals = "def f (x : Real) : Real = abs x * 100 + sign x * 10 + max x 2 - min x 2";
    assert_eq!(real(reals, &[-3.0]), 300.0 - 10.0 + 2.0 + 3.0);
    assert_eq!(int("def f (n : Int) : Int = to_int (to_real n / 2) + n % 3", &[7]), 4);
}

#[test]
fn tuples_and_units_pass_through_calls() {
    let text = "def step ((x, v), u) (dt : Real) = ((x + dt * v, v - dt * x), u)
    def f (n : Int) = loop s = ((1.0, 0.0), ()) for i < n do step s 0.5";
    let part = |x, v| Value::Tuple(vec![Value::Tuple(vec![Value::Real(x), Value::Real(v)]), Value::UNIT]);
    assert_eq!(run(text, "f", &[Value::Int(2)]), part(0.75, -1.0));
}

#[test]
fn a_variable_bound_for_the_next_iteration_leaves_the_old_one_readable() {
    let text = "def f (n : Int) : Int =
      let (a, b) = loop (a, b) = (1, 2) for i < n do let u = a + b in (u, a * 10 + u) in a * 1000 + b";
    assert_eq!(int(text, &[1]), 3 * 1000 + 13);
    assert_eq!(int(text, &[2]), 16 * 1000 + 46);
}

#[test]
fn an_assertion_holds_or_ends_the_run() {
    let text = "def f (x : Real) : Real =
        let () = assert (x > 0) \"x must be positive\" in
        let _ = assert (x < 10) \"x is too large\" in
        sqrt x
      def each (xs : Array Real) : Real =
        loop s = 0.0 for x in xs do let () = assert (x >= 0) \"negative\" in s + x * x
      def assert_all (assert : Real) : Real = assert + 1";
    assert_eq!(real(text, &[4.0]), 2.0);
    let message = |name: &str, arg: Value| match try_run(text, name, &[arg]) {
        Err(RunError::Trap(trap)) => trap.kind.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(message("f", Value::Real(-1.0)), "x must be positive");
    assert_eq!(message("f", Value::Real(f64::NAN)), "x must be positive");
    assert_eq!(message("f", Value::Real(11.0)), "x is too large");
    assert_eq!(message("each", Value::Reals(vec![1.0, -1.0])), "negative");
    // Elsewhere it is a name like any other.
    assert_eq!(run(text, "assert_all", &[Value::Real(1.0)]), Value::Real(2.0));
    let (value, gradient) = module(text).function("each").unwrap().value_and_grad(&[vec![1.0, 2.0].into()]).unwrap();
    assert_eq!((value, gradient), (5.0, vec![Value::Reals(vec![2.0, 4.0])]));
}

#[test]
fn backtraces_name_functions_as_they_are_written() {
    let text = "private def deep (n : Int) (xs : Array a) (f : a -> a) : a =
      if n == 0 then f xs[3] else f (deep (n - 1) xs f)
    def f (x : Real) (n : Int) = deep n [| x |] (\\x -> x * 2.0) + deep n [| x |] (\\x -> x * 3.0)";
    let error = try_run(text, "f", &[Value::Real(1.0), Value::Int(9)]).expect_err("there is one element");
    let RunError::Trap(trap) = &error else { panic!("{error}") };
    assert!(trap.frames().any(|frame| frame.function.contains('<')), "{trap:?}");
    let shown = error.to_string();
    assert!(shown.contains("in deep at test.dual:2:") && !shown.contains(['<', '#']), "{shown}");
}

#[test]
fn remainders_of_reals_are_exact() {
    let function = module("def f (x : Real) (y : Real) = x % y").function("f").unwrap();
    let mut bits = 1u64;
    let mut random = || {
        // Knuth's generator of linear congruences: all bits of a number are random then, its exponent included.
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from_bits(bits ^ bits >> 32)
    };
    let special = [0.0, -0.0, 1.0, -6.0, 3.0, 0.1, 1e20, 1e300, 1e-300, 5e-324, f64::MAX, f64::INFINITY, f64::NAN];
    let mut cases: Vec<(f64, f64)> = special.iter().flat_map(|&x| special.map(|y| (x, y))).collect();
    cases.extend((0..20_000).map(|_| (random(), random())));
    // Quotients that are near an integer, and of any size.
    cases.extend((1..2_000).map(|i| (f64::from(i) * 0.1, 0.1)));
    cases.extend(
        (0..2_000).map(|i| (-f64::from(i).exp2() * 1.1, f64::from(i % 50) + 0.3)).filter(|case| case.0.is_finite()),
    );
    for (x, y) in cases {
        let (remainder, gradient) = function.value_and_grad(&[Value::Real(x), Value::Real(y)]).unwrap();
        assert!(
            remainder == x % y || remainder.is_nan() && (x % y).is_nan(),
            "{x} % {y} is {}, not {remainder}",
            x % y
        );
        if !remainder.is_nan() {
            let [of_x, of_y] = [0, 1].map(|i| gradient[i].as_real().unwrap());
            let quotient = (x / y).trunc();
            let is_near = (of_y + quotient).abs() <= 1.0 + 1e-12 * quotient.abs() || quotient.is_infinite();
            assert!(of_x == 1.0 && is_near, "{x} % {y}: {of_x}, {of_y}");
        }
    }
}
