//! Arrays that are never made: what the generated code looks like, and that values, the order of sums and traps stay
//! what they were.

#[path = "support/compiled.rs"]
mod compiled;

use compiled::compiled;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::value::Value;

/// How many arrays a program builds.
fn built(text: &str) -> usize {
    let module = compiled(text);
    let code = || module.functions.iter().flat_map(|function| &function.body.code);
    code().filter(|inst: &&Inst| inst.op == Op::Build).count()
}

/// What `f` of a program gives, or how it traps.
fn run(text: &str, args: &[Value]) -> Result<Value, String> {
    let engine = Engine::new(Config::default());
    let module = Module::new(&engine, compiled(text)).unwrap();
    let f = module.function("f").expect("the program defines `f`");
    f.call(args).map_err(|error| error.to_string())
}

fn gradient(text: &str, args: &[Value]) -> (Value, Value) {
    let (value, gradients) = gradients(text, args);
    (value, gradients.into_iter().next().expect("an argument"))
}

/// The derivatives by all arguments.
fn gradients(text: &str, args: &[Value]) -> (Value, Vec<Value>) {
    let engine = Engine::new(Config::default());
    let module = Module::new(&engine, compiled(text)).unwrap();
    let f = module.function("f").expect("the program defines `f`");
    let (value, gradients) = f.value_and_grad(args).unwrap();
    (Value::Real(value), gradients)
}

fn reals(values: &[f64]) -> Value {
    Value::Reals(values.to_vec())
}

fn traps_with(text: &str, args: &[Value], message: &str) {
    let error = run(text, args).expect_err(message);
    assert!(error.contains(message), "{error}");
}

#[test]
fn a_sum_of_products_makes_no_array() {
    let text = "def f (a : Array Real) (b : Array Real) : Real = sum (zip_with (*) a b)";
    assert_eq!(built(text), 0);
    let (a, b) = (reals(&[1e16, 1.0, -1e16]), reals(&[1.0, 1.0, 1.0]));
    assert_eq!(run(text, &[a.clone(), b]), Ok(Value::Real((1e16 + 1.0) - 1e16)));
    assert_eq!(run(text, &[reals(&[]), reals(&[])]), Ok(Value::Real(0.0)));
    traps_with(text, &[a, reals(&[1.0])], "different lengths");
}

#[test]
fn chains_of_maps_are_one_loop() {
    for (text, value) in [
        ("def f (a : Array Real) : Real = a |> map (* 2) |> map (+ 1) |> map sqrt |> sum", 4.0),
        ("def f (a : Array Real) : Real = dot (map (+ 1) a) a", 1.5 * 2.5 + 12.0 - 1.0 + 3.0),
        ("def f (a : Array Real) : Real = fold (\\s x -> 2 * s + x) 0 (build (length a) (\\i -> a[i] + 1))", 0.0),
        ("def f (a : Array Real) : Real = loop s = 0.0 for x in [| a[i] * a[i] for i < length a |] do s + x", 0.0),
        ("def f (a : Array Real) : Real = let b = map (* 2) a in sum b / to_real (length b)", 5.5),
    ] {
        assert_eq!(built(text), 0, "{text}");
        let Ok(Value::Real(found)) = run(text, &[reals(&[1.5, 4.0])]) else { panic!("{text}") };
        assert!(value == 0.0 || !found.is_nan(), "{text}");
    }
    // A map of a map is one builder.
    let text = "def f (a : Array Real) : Array Real = map (+ 1) (map (* 2) a)";
    assert_eq!(built(text), 1);
    assert_eq!(run(text, &[reals(&[1.5, 4.0])]), Ok(reals(&[4.0, 9.0])));
    let long: String = (0..40).map(|at| format!(" |> map (\\x -> x + {at}.0 * x)")).collect();
    let text = format!("def f (a : Array Real) : Real = a{long} |> sum");
    assert_eq!(built(&text), 0);
}

#[test]
fn minima_begin_with_the_first_element() {
    let text = "def distance (a : Array Real) (b : Array Real) : Real =
        loop s = 0.0 for i < length a do s + (a[i] - b[i]) ^ 2
    def f (point : Array Real) (points : Array (Array Real)) : Real =
        minimum (map (distance point) points)";
    assert_eq!(built(text), 0);
    let points = |rows: &[&[f64]]| Value::Array(rows.iter().map(|row| reals(row)).collect());
    let point = reals(&[1.0, 2.0]);
    assert_eq!(run(text, &[point.clone(), points(&[&[4.0, 2.0], &[0.0, 1.0]])]), Ok(Value::Real(2.0)));
    assert_eq!(run(text, &[point.clone(), points(&[&[4.0, 2.0]])]), Ok(Value::Real(9.0)));
    traps_with(text, &[point.clone(), points(&[])], "the array is empty");
    // A short row traps, the first one as well as others.
    traps_with(text, &[point.clone(), points(&[&[4.0], &[0.0, 1.0]])], "index");
    traps_with(text, &[point, points(&[&[4.0, 2.0], &[0.0]])], "index");
    let text = "def f (a : Array Real) : Real = maximum (map (\\x -> 0 / x) a)";
    assert_eq!(built(text), 0);
    let Ok(Value::Real(value)) = run(text, &[reals(&[1.0, 0.0])]) else { panic!("a number") };
    assert!(value.is_nan());
    // Without the test, an empty array has no first element.
    let text = "def f (n : Int) : Int = let a = build n (\\i -> i + 1) in
        loop m = a[0] for i in 1 .. length a do max m a[i]";
    assert_eq!(built(text), 1);
    assert_eq!(run(text, &[Value::Int(3)]), Ok(Value::Int(3)));
    traps_with(text, &[Value::Int(0)], "index");
}

#[test]
fn counts_below_zero_are_zero() {
    let text = "def f (n : Int) : Int = let a = build n (\\i -> i * i) in 100 * length a + sum a";
    assert_eq!(built(text), 0);
    for (n, value) in [(4, 414), (1, 100), (0, 0), (-3, 0)] {
        assert_eq!(run(text, &[Value::Int(n)]), Ok(Value::Int(value)));
    }
    let text = "def f (n : Int) : Int = let a = build n (\\i -> i * i) in
        loop s = 0 for i in -2 .. length a do s + 1";
    for (n, value) in [(4, 6), (0, 2), (-2, 2)] {
        assert_eq!(run(text, &[Value::Int(n)]), Ok(Value::Int(value)));
    }
    assert_eq!(built(text), 0);
    let text = "def f (n : Int) : Int = minimum (build n (\\i -> 10 - i))";
    assert_eq!(built(text), 0);
    assert_eq!(run(text, &[Value::Int(4)]), Ok(Value::Int(7)));
    traps_with(text, &[Value::Int(-2)], "empty");
}

#[test]
fn sums_within_sums_have_counts_of_their_own() {
    // The inner count is the outer index, which gets another name in the same round.
    for (text, value) in [
        ("def f (n : Int) : Int = sum [| sum [| i for i < k |] for k < n |]", 10),
        ("def f (n : Int) : Int = product [| 1 + sum [| i for i < k |] for k < n |]", 2 * 4 * 7),
        ("def f (n : Int) : Int = sum [| sum [| sum [| i + j for i < j |] for j < k |] for k < n |]", 25),
        ("def f (n : Int) : Int = sum (build n (\\k -> fold (+) 0 (build k (\\i -> i * k))))", 35),
        ("def f (n : Int) : Int = sum [| sum [| i for i < k + 0 |] + sum [| k for i in 0 .. k |] for k < n |]", 40),
        // The first element is a copy that reads the outer index.
        ("def f (n : Int) : Int = sum [| minimum [| i - k for i < k + 1 |] for k < n |]", -10),
        ("def g (k : Int) : Int = sum [| i for i < k |] def f (n : Int) : Int = sum [| g k for k < n |]", 10),
    ] {
        assert_eq!(built(text), 0, "{text}");
        assert_eq!(run(text, &[Value::Int(5)]), Ok(Value::Int(value)), "{text}");
        assert_eq!(run(text, &[Value::Int(0)]), Ok(Value::Int(i64::from(text.contains("product")))), "{text}");
    }
    let text = "def f (xs : Array Real) : Real =
        sum [| sum [| (xs[i] - xs[k]) ^ 2 for i < k |] for k < length xs |]";
    assert_eq!(built(text), 0);
    assert_eq!(gradient(text, &[reals(&[1.0, 2.0, 4.0])]), (Value::Real(14.0), reals(&[-8.0, -2.0, 10.0])));
}

#[test]
fn builders_may_count_from_elsewhere() {
    let value = |text: &str, args: &[i64]| {
        let args: Vec<Value> = args.iter().map(|&arg| Value::Int(arg)).collect();
        run(text, &args)
    };
    let text = "def f (n : Int) : Int = let a = [| i * i for i in 2 .. n |] in 100 * length a + sum a";
    assert_eq!(built(text), 0);
    for (n, expected) in [(5, 329), (3, 104), (2, 0), (1, 0), (-7, 0), (i64::MIN, 0)] {
        assert_eq!(value(text, &[n]), Ok(Value::Int(expected)), "{n}");
    }
    let text = "def f (n : Int) : Int = sum [| sum [| i * j for j in i + 1 .. n |] for i < n |]";
    assert_eq!(built(text), 0);
    assert_eq!(value(text, &[4]), Ok(Value::Int(11)));
    let text = "def f (n : Int) : Int = minimum [| 10 - i for i in 1 .. n |]";
    assert_eq!(built(text), 0);
    assert_eq!(value(text, &[4]), Ok(Value::Int(7)));
    assert!(value(text, &[1]).expect_err("there is none").contains("empty"));
    // Of what may begin below 0, nobody knows whether an integer can count it.
    let text = "def f (m : Int) (n : Int) : Int = sum [| i for i in m .. n |]";
    assert_eq!(built(text), 1);
    assert_eq!(value(text, &[-3, 3]), Ok(Value::Int(-3)));
    let text = "def f (m : Int) (n : Int) : Int =
        let () = assert (0 <= m) \"negative\" in sum [| i for i in m .. n |]";
    assert_eq!(built(text), 0);
    assert_eq!(value(text, &[2, 5]), Ok(Value::Int(9)));
    assert_eq!(value(text, &[i64::MAX, i64::MIN]), Ok(Value::Int(0)));
    assert!(value(text, &[-1, 5]).expect_err("it asserts").contains("negative"));
    // Slices.
    let text = "def f (a : Array Real) (from : Int) (to : Int) : Real = sum a[from .. to]";
    assert_eq!(built(text), 0);
    let a = reals(&[1.0, 2.0, 4.0, 8.0]);
    assert_eq!(run(text, &[a.clone(), Value::Int(1), Value::Int(3)]), Ok(Value::Real(6.0)));
    traps_with(text, &[a.clone(), Value::Int(2), Value::Int(5)], "the range 2 .. 5 is out of bounds of 4 elements");
    let text = "def f (a : Array Real) : Real = sum [| mean a[i .. i + 2] ^ 2 for i < length a - 2 |]";
    assert_eq!(built(text), 0);
    assert_eq!(gradient(text, &[a]), (Value::Real(2.25 + 9.0), reals(&[1.5, 4.5, 3.0, 0.0])));
    // What is read at the same place in a round is no other contribution to it, if it is the same place.
    for (from, expected) in [("0", 0), ("1", 1)] {
        let text = format!(
            "def f (a : Array Real) : Real = let b = [| exp a[i] for i in {from} .. length a |] in
             loop s = 0.0 for i < length b do s + b[i] * a[i]"
        );
        assert_eq!(built(&text), expected, "{text}");
    }
    let text = "def f (a : Array Real) : Real = let b = [| exp a[i] for i in 1 .. length a |] in
        loop s = 0.0 for i < length b do s + b[i] * a[i + 1]";
    assert_eq!(built(text), 0);
}

#[test]
fn an_array_that_is_used_otherwise_is_made() {
    let made = |body: &str| {
        let text = format!("def f (a : Array Real) (n : Int) : Real = let b = map exp a in {body}");
        assert_eq!(built(&text), 1, "{body}");
    };
    // Twice, backwards, not at all in order, and not all of it.
    made("sum b + sum b * 2 + maximum b");
    made("loop s = 0.0 for i < length b do s + b[length b - 1 - i]");
    made("loop s = 0.0 for i < length b do s + b[i] * b[0]");
    made("loop s = 0.0 for i < n do s + b[i]");
    made("b[n]");
    // In an inner loop, in a loop that stops early, and in one that goes on for ever.
    made("loop s = 0.0 for i < n do s + sum b");
    made("fst (loop (s, i) = (0.0, 0) while i < length b && s < 3 do (s + b[i], i + 1))");
    made("let go i = if i >= length b then 0.0 else b[i] + go (i + 1) in go 0");
    // In two loops of which one runs.
    made("if n > 0 then sum b else product b");
    let text = "def f (a : Array Real) : Array Real = let b = map exp a in if sum b > 1 then b else a";
    assert_eq!(built(text), 1);
    let text = "def f (a : Array Real) : (Array Real, Real) = let b = map exp a in (b, sum b)";
    assert_eq!(built(text), 1);
    let text = "def f (a : Array Real) (i : Int) : Real =
        loop s = 0.0 for j in 1 .. length a do let b = map exp a in s + b[j]";
    // And an empty one, which stands for it where there is no round.
    assert_eq!(built(text), 2);
}

#[test]
fn elements_that_take_little_are_computed_for_each_read() {
    let (a, b) = (reals(&[1.5, 4.0, -2.0]), reals(&[1.0, 3.0, 0.5]));
    let text = "def f (a : Array Real) (b : Array Real) : Real = let d = a - b in dot d d + sum (map abs d)";
    assert_eq!(built(text), 0);
    assert_eq!(run(text, &[a.clone(), b.clone()]), Ok(Value::Real(0.25 + 1.0 + 6.25 + 4.0)));
    assert_eq!(gradient(text, &[a.clone(), b.clone()]), (Value::Real(11.5), reals(&[2.0, 3.0, -6.0])));
    traps_with(text, &[a.clone(), reals(&[1.0])], "different lengths");
    // Elements of which it is known by a test that they are there.
    let text = "def f (a : Array Real) (b : Array Real) : Real =
        let d = a - b in let k = dot d d in let c = k *. d in
        if length c == 3 then c[0] + c[1] * c[2] else 0";
    assert_eq!(built(text), 0);
    assert_eq!(run(text, &[a.clone(), b.clone()]), Ok(Value::Real(7.5 * 0.5 + 7.5 * 7.5 * -2.5)));
    assert_eq!(run(text, &[reals(&[1.0]), reals(&[3.0])]), Ok(Value::Real(0.0)));
    // Each element is read once, so that it doesn't matter what it takes.
    let text = "def f (a : Array Real) : Real = let c = map exp a in if length c == 2 then c[0] - c[1] else 2";
    assert_eq!(built(text), 0);
    assert_eq!(run(text, &[reals(&[0.0, 0.0])]), Ok(Value::Real(0.0)));
    assert_eq!(run(text, std::slice::from_ref(&a)), Ok(Value::Real(2.0)));
    // One of them twice; one that may not be there; one that takes much; and what may trap.
    for text in [
        "def f (a : Array Real) : Real = let c = map exp a in if length c == 2 then sum c - c[0] else 2",
        "def f (a : Array Real) : Real = let c = map (* 2) a in if length c == 2 then c[0] - c[2] else 2",
        "def f (a : Array Real) : Real =
            let c = map (\\x -> 0.5 * x + 2 * x - 1 / (x + 3)) a in sum c + product c",
        "def f (a : Array Real) (n : Int) : Real =
            let c = [| a[n - i] for i < n |] in sum c + product c",
    ] {
        assert_eq!(built(text), 1, "{text}");
    }
}

#[test]
fn elements_that_nobody_asks_for_are_not_computed() {
    for body in [
        "if n > 0 then sum b else 1",
        "loop s = 0.0 for i < length b do if i > n then s + b[i] else s",
        "to_real (length b)",
        "loop s = 0.0 for i in 1 .. length b do s + b[i]",
    ] {
        let plain = format!("def f (a : Array Real) (n : Int) : Real = let b = map exp a in {body}");
        assert_eq!(built(&plain), 0, "{body}");
        // What can trap is computed.
        let traps = format!(
            "def f (a : Array Real) (n : Int) : Real =
                let b = map (\\x -> if x > 5 then error \"map\" else x) a in {body}"
        );
        assert_eq!(built(&traps), 1, "{body}");
        traps_with(&traps, &[reals(&[6.0, 1.0]), Value::Int(0)], "map");
    }
}

#[test]
fn the_trap_that_comes_first_is_the_same() {
    let map = "map (\\x -> if x > 5 then error \"map\" else x) a";
    let text = format!(
        "def f (a : Array Real) : Real =
            fold (\\s x -> if x > 1 then error \"fold\" else s + x) 0 ({map})"
    );
    assert_eq!(built(&text), 1);
    traps_with(&text, &[reals(&[2.0, 6.0])], "map");
    traps_with(&text, &[reals(&[2.0, 4.0])], "fold");
    // Only one of them may trap.
    let text = format!("def f (a : Array Real) : Real = sum ({map})");
    assert_eq!(built(&text), 0);
    traps_with(&text, &[reals(&[2.0, 6.0])], "map");
    let text = "def f (a : Array Real) : Real =
        fold (\\s x -> if x > 1 then error \"fold\" else s + x) 0 (map (/ 2) a)";
    assert_eq!(built(text), 0);
    traps_with(text, &[reals(&[2.0, 6.0])], "fold");
    // Something between the two may trap, or not end.
    let text = format!("def f (a : Array Real) (b : Array Real) : Real = dot ({map}) b");
    assert_eq!(built(&text), 1);
    traps_with(&text, &[reals(&[6.0]), reals(&[])], "map");
    let text = format!(
        "def f (a : Array Real) (b : Array Real) : Real = let c = {map} in
            let d = loop x = b[0] while x > 0 do x - 1 in d + sum c"
    );
    assert_eq!(built(&text), 1);
    traps_with(&text, &[reals(&[6.0]), reals(&[])], "map");
    let text = "def f (a : Array Real) (b : Array Real) : Real = dot (map (* 2) a) b";
    assert_eq!(built(text), 0);
    traps_with(text, &[reals(&[6.0]), reals(&[])], "dot");
    // Elements are within their arrays as far as the test of the lengths says.
    let text = "def f (a : Array Real) (b : Array Real) (c : Array Real) : Real =
        dot (zip_with (*) a b) c + sum [| a[i] * c[i + 1] for i < length a |]";
    assert_eq!(built(text), 0);
    let text =
        "def f (a : Array Real) (b : Array Real) (c : Array Real) : Real = dot [| a[i + 1] for i < length b |] c";
    assert_eq!(built(text), 1);
}

#[test]
fn what_tasks_make_is_made() {
    let text = "def f (a : Array Real) : Real = sum (pmap exp a) + sum (pbuild 3 (\\i -> to_real i))";
    assert!(built(text) >= 2);
}

#[test]
fn contributions_to_a_derivative_come_in_the_same_order() {
    // From the element and from the loop to the same number.
    let text = "def f (w : Real) (a : Array Real) : Real =
        loop s = 0.0 for x in map (* w) a do s + x * w";
    assert_eq!(built(text), 1);
    let text = "def f (w : Real) (a : Array Real) : Real =
        let b = [| x * w for x in a |] in let t = sin w in sum b + t";
    assert_eq!(built(text), 1);
    let text = "def f (w : Real) (a : Array Real) : Real = let b = map (* w) a in sum b + sin w";
    assert_eq!(built(text), 0);
    // To other elements of what may be the same array.
    let text = "def f (a : Array Real) (b : Array Real) : Real =
        let c = map exp a in loop s = 0.0 for i < length c do s + c[i] * b[i / 2]";
    assert_eq!(built(text), 1);
    let text = "def f (a : Array Real) : Real =
        let b = [| 1.0, 2.0 |] in
        let c = map exp a in loop s = 0.0 for i < length c do s + c[i] * b[i / 2]";
    assert_eq!(built(text), 0);
    // A row that is read where the array is isn't the array.
    let text = "def f (a : Array (Array Real)) (n : Int) : Real = sum [| a[i][0] for i < n |]";
    assert_eq!(built(text), 0);
    let text = "def f (a : Array (Array Real)) (b : Array (Array Real)) (n : Int) : Array (Array Real) =
        [| [| sum [| a[i][k] * b[k][j] for k < n |] for j < n |] for i < n |]";
    assert_eq!(built(text), 2);
    // Rows of which nobody knows whether they are the same.
    let text = "def f (rows : Array (Array Real)) : Real =
        let c = map exp rows[0] in loop s = 0.0 for i < length c do s + c[i] * rows[1][0]";
    assert_eq!(built(text), 1);
    let text = "def f (a : Array Real) : Real = sum (map (\\x -> x * x) a)";
    assert_eq!(gradient(text, &[reals(&[1.0, 3.0])]), (Value::Real(10.0), reals(&[2.0, 6.0])));
}

#[test]
fn rows_and_columns_of_a_matrix_are_not_made() {
    // Two rows are the same elements only where they are read together.
    for (row, made) in [
        ("dot m[i, ..] m[j, ..]", 0),
        ("dot m[i, ..] m[i, ..]", 0),
        ("norm2 (m[i, ..] - m[j, ..])", 0),
        ("dot m[.., i] m[.., j]", 1),
        ("dot m[i, ..] m[.., j]", 1),
        ("sum m[i, ..] * sum m[.., j]", 0),
    ] {
        let text = format!("def f (m : Matrix Real) (i : Int) (j : Int) : Real = {row}");
        assert_eq!(built(&text), made, "{row}");
    }
    let matrix = |rows: &[[f64; 2]]| Value::Array(rows.iter().map(|row| reals(row)).collect());
    let m = matrix(&[[1.0, 2.0], [-3.0, 5.0], [0.5, 4.0]]);
    let text = "def f (m : Matrix Real) (i : Int) (j : Int) : Real = dot m[i, ..] m[j, ..]";
    let at = |i, j| [m.clone(), Value::Int(i), Value::Int(j)];
    assert_eq!(run(text, &at(0, 1)), Ok(Value::Real(7.0)));
    assert_eq!(gradient(text, &at(0, 1)), (Value::Real(7.0), matrix(&[[-3.0, 5.0], [1.0, 2.0], [0.0, 0.0]])));
    assert_eq!(gradient(text, &at(2, 2)), (Value::Real(16.25), matrix(&[[0.0, 0.0], [0.0, 0.0], [1.0, 8.0]])));
    // The first index that isn't there is the one that is told, whether there are columns or not.
    traps_with(text, &at(3, -1), "index 3 is out of bounds of a dimension of 3");
    traps_with(text, &at(2, -1), "index -1 is out of bounds of a dimension of 3");
    let none = [matrix(&[]), Value::Int(0), Value::Int(0)];
    traps_with(text, &none, "index 0 is out of bounds of a dimension of 0");
    // What doesn't change in a loop stays behind what has looked for it, and behind what traps before that.
    for (round, message) in [
        ("let () = assert (z > 9) \"mine\" in s + sum m[j, ..]", "mine"),
        ("let w = m[j, ..] in s + dot (transpose m)[j, ..] (transpose m)[1, ..]", "index 7 is out of bounds"),
        ("let w = m[j, z] in s + sum m[j, ..]", "index [7, 0] is out of bounds"),
    ] {
        let text = format!("def f (m : Matrix Real) (j : Int) : Real = loop s = 0.0 for z < 2 do {round}");
        traps_with(&text, &[m.clone(), Value::Int(7)], message);
    }
    // All that is in brackets is computed first.
    let text = "def f (m : Matrix Real) (j : Int) : Array Real = m[j, .. (let () = assert (j < 2) \"mine\" in 1)]";
    traps_with(text, &[m, Value::Int(7)], "mine");
}

#[test]
fn rows_of_two_matrices_are_not_made() {
    // Where they are read together they are as long as each other.
    for (row, made) in [
        ("dot u[i, ..] v[j, ..]", 0),
        ("norm2 (u[i, ..] - v[j, ..])", 0),
        ("dot u[.., i] v[.., j]", 1),
        ("loop s = 0.0 for k < 2 do s + (map exp u[i, ..])[0] * v[j, k]", 1),
    ] {
        let text = format!("def f (u : Matrix Real) (v : Matrix Real) (i : Int) (j : Int) : Real = {row}");
        assert_eq!(built(&text), made, "{row}");
    }
    let matrix = |rows: &[[f64; 2]]| Value::Array(rows.iter().map(|row| reals(row)).collect());
    let text = "def f (u : Matrix Real) (v : Matrix Real) (i : Int) (j : Int) : Real = dot u[i, ..] v[j, ..]";
    let (u, v) = (matrix(&[[1.0, 2.0], [-3.0, 5.0]]), matrix(&[[7.0, 4.0]]));
    let args = [u.clone(), v.clone(), Value::Int(1), Value::Int(0)];
    let gradient_of_both = [matrix(&[[0.0, 0.0], [7.0, 4.0]]), matrix(&[[-3.0, 5.0]])];
    let found = gradients(text, &args);
    assert_eq!((found.0, &found.1[..2]), (Value::Real(-1.0), &gradient_of_both[..]));
    let narrow = Value::Array([[1.0], [2.0]].map(|row| reals(&row)).into());
    traps_with(text, &[u, narrow, Value::Int(0), Value::Int(0)], "lengths");
}

#[test]
fn a_row_is_not_made_to_be_read_together_with_an_array() {
    for (row, made) in [
        ("dot m[i, ..] x", 0),
        ("dot x m[i, ..]", 0),
        ("sum (zip_with (\\a b -> a * sin b) m[i, ..] x)", 0),
        ("norm2 (x - m[i, ..])", 0),
    ] {
        let text = format!("def f (m : Matrix Real) (x : Array Real) (i : Int) : Real = {row}");
        assert_eq!(built(&text), made, "{row}");
    }
    let matrix = |rows: &[[f64; 2]]| Value::Array(rows.iter().map(|row| reals(row)).collect());
    let text = "def f (m : Matrix Real) (x : Array Real) (i : Int) : Real = dot m[i, ..] x";
    let (m, x) = (matrix(&[[1.0, 2.0], [-3.0, 5.0]]), reals(&[7.0, 4.0]));
    let found = gradients(text, &[m.clone(), x.clone(), Value::Int(1)]);
    let gradient_of_both = [matrix(&[[0.0, 0.0], [7.0, 4.0]]), reals(&[-3.0, 5.0])];
    assert_eq!((found.0, &found.1[..2]), (Value::Real(-1.0), &gradient_of_both[..]));
    traps_with(text, &[m.clone(), reals(&[1.0]), Value::Int(1)], "lengths");
    traps_with(text, &[m, reals(&[1.0]), Value::Int(2)], "index 2 is out of bounds of a dimension of 2");
    // The array may be the matrix's own elements: then there is one row, whose places are read together.
    let text = "def f (m : Matrix Real) : Real = loop s = 0.0 for i < rows m do s + dot m[i, ..] (elements m)";
    assert_eq!(gradient(text, &[matrix(&[[3.0, -2.0]])]), (Value::Real(13.0), matrix(&[[6.0, -4.0]])));
}

#[test]
fn elements_of_several_values_need_no_object() {
    let text = "def f (a : Array Real) : Real =
        loop s = 0.0 for (x, y) in [| (a[i], to_real i) for i < length a |] do s + x * y";
    assert_eq!(built(text), 0);
    assert_eq!(run(text, &[reals(&[1.0, 3.0, 5.0])]), Ok(Value::Real(13.0)));
    let text = "def f (a : Array (Real, Real)) : Real = sum (map (\\(x, y) -> x * y)
        (map (\\(x, y) -> (y, x + 1)) a))";
    assert_eq!(built(text), 0);
    let text = "def f (a : Array Real) : Real = sum (map sum (build 3 (\\i -> map (* to_real i) a)))";
    assert_eq!(built(text), 0);
    assert_eq!(run(text, &[reals(&[1.0, 3.0])]), Ok(Value::Real(12.0)));
}

#[test]
fn elements_are_read_before_and_after_the_index() {
    let with = |body: &str| format!("def f (a : Array Real) (n : Int) : Array Real = let b = map exp a in {body}");
    for body in [
        "[| if i == 0 then 2.5 else b[i - 1] for i < length b |]",
        "[| if i < 1 then 2 else b[i - 1] * to_real i for i < length a |]",
        "[| b[i - 1] for i in 1 .. length b |]",
        "[| b[i - 3] for i in 3 .. length b |]",
        "[| b[i + 1] for i < length b - 1 |]",
        "[| b[i + 1] for i < length b - 2 |]",
        "[| b[i] for i < length b - 1 |]",
        "[| if i == 0 then b[0] else b[i] * to_real i for i < length b |]",
    ] {
        let text = with(body);
        assert_eq!(built(&text), 1, "{body}");
        for values in [&[][..], &[0.5], &[0.5, 2.0], &[0.5, 2.0, -1.0, 0.25, 3.0]] {
            // The same with the array, which is read once more.
            let made = with(&format!("if n > 0 && b[n] > 0 then b else {body}"));
            let args = [reals(values), Value::Int(0)];
            assert_eq!(run(&text, &args), run(&made, &args), "{body}");
        }
    }
    for body in [
        // Not all of the elements are there, or nobody knows.
        "[| b[i - 2] for i in 1 .. length b |]",
        "[| b[i + 1] for i < length b |]",
        "[| b[i + 2] for i < length b - 1 |]",
        "[| b[i + 1] for i < n - 1 |]",
        "[| b[i + n] for i < length b |]",
        // Some are computed twice.
        "[| b[i - 1] + b[i] for i in 1 .. length b |]",
    ] {
        assert_eq!(built(&with(body)), 2, "{body}");
    }
    // What may trap is computed, as far as it goes.
    let text = "def f (a : Array Real) : Array Real =
        let b = map (\\x -> if x > 5 then error \"map\" else x) a in
        [| if i == 0 then a[0] else b[i - 1] for i < length b |]";
    assert_eq!(built(text), 2);
    traps_with(text, &[reals(&[1.0, 6.0])], "map");
    // Contributions to an element of `a` would come in another order.
    let text = "def f (a : Array Real) : Array Real =
        let b = map exp a in [| if i == 0 then 1 else a[i] * b[i - 1] for i < length b |]";
    assert_eq!(built(text), 2);
    let text = "def f (a : Array Real) : Array Real =
        let b = map exp a in [| if i == 0 then a[0] else b[i - 1] for i < length b |]";
    assert_eq!(built(text), 2);
    let text = "def f (a : Array Real) : Array Real =
        let b = map exp a in [| if i == 0 then 1 else a[i - 1] * b[i - 1] for i < length b |]";
    assert_eq!(built(text), 1);
}

#[test]
fn arrays_with_a_first_element_of_their_own_are_fused() {
    let differences = "let b = [| if i == 0 then a[0] else a[i] - a[i - 1] for i < length a |] in";
    for (body, arrays) in [
        ("loop s = 0.0 for i < length b do if i == 0 then b[0] * 2 else s * s + b[i]", 0),
        ("loop s = 0.0 for i in 1 .. length b do s * s + b[i]", 0),
        ("loop s = 0.0 for i in 2 .. length b do s * s + b[i - 1]", 0),
        ("loop s = 0.0 for i in 1 .. length b do s * s + b[i - 1]", 1),
    ] {
        let text = format!("def f (a : Array Real) : Real = {differences} {body}");
        assert_eq!(built(&text), arrays, "{body}");
        for values in [&[][..], &[3.0], &[3.0, 5.0], &[3.0, 5.0, 4.0, -1.0]] {
            let made = format!("def f (a : Array Real) : Real = {differences} {body} + 0 * sum b");
            assert_eq!(run(&text, &[reals(values)]), run(&made, &[reals(values)]), "{body}");
        }
    }
}
