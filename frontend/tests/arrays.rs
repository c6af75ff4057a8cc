//! Comprehensions with several clauses, matrices and tensors, parts of arrays, arithmetic element by element, changed
//! elements.

use dualvm_frontend::compile;
use dualvm_vm::engine::{CallOptions, Engine, Function, Module};
use dualvm_vm::value::Value;

fn function(text: &str) -> Function {
    let def = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    let module = Module::new(&Engine::default(), def).unwrap_or_else(|errors| panic!("{text}\n{}", errors[0]));
    module.function("f").expect("the program defines `f`")
}

/// What a constant expression is.
fn value(expression: &str) -> Value {
    let f = function(&format!("def f = {expression}"));
    f.call(&[]).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// Checks that expressions of type `Bool` are true.
fn all_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(value(expression), Value::Bool(true), "{expression}");
    }
}

/// What stops the evaluation of a constant expression.
fn trap(expression: &str) -> String {
    let f = function(&format!("def f = {expression}"));
    f.call(&[]).expect_err(expression).to_string()
}

#[test]
fn comprehensions_have_conditions() {
    all_true(&[
        "[| x for x in [| 3, 1, 2 |] if x > 1 |] == [| 3, 2 |]",
        "[| i for i < 10 if i % 2 == 0 if i > 3 |] == [| 4, 6, 8 |]",
        "[| i for i < 3 if false |] == [||]",
        "[x * x for x in [1, 2, 3] if x != 2] == [1, 9]",
        "[i for i in 2 .. 5] == [2, 3, 4]",
        "[x + 1 for x in [1, 2]] == [2, 3]",
        "[(x, i) for x in [| 1.5, 2.5 |] for i < 2] == [(1.5, 0), (1.5, 1), (2.5, 0), (2.5, 1)]",
    ]);
}

#[test]
fn later_clauses_see_what_earlier_ones_bind() {
    all_true(&[
        "[| 10 * i + j for i < 3 for j < i |] == [| 10, 20, 21 |]",
        "[| x for xs in [[1, 2], [], [3]] for x in xs |] == [| 1, 2, 3 |]",
        "[| x for xs in [| [| 1, 2, 3 |], [| 4 |] |] if length xs > 1 for x in xs if x != 2 |] == [| 1, 3 |]",
        "[| (i, j, k) for i < 2 for j in i .. 2 for k < j |] == [| (0, 1, 0), (1, 1, 0) |]",
        "length [| [i] for i < 100 for j < i |] == 4950",
    ]);
    let captured =
        "def f (n : Int) : Int = let g k = [| k * i + j for i < k if i != 1 for j < n |] in sum (g n ++ g 2)";
    let by_hand = |n: i64, k: i64| (0..k).filter(|i| *i != 1).flat_map(|i| (0..n).map(move |j| k * i + j)).sum::<i64>();
    assert_eq!(function(captured).call(&[Value::Int(4)]), Ok(Value::Int(by_hand(4, 4) + by_hand(4, 2))));
}

#[test]
fn comprehensions_have_accumulators() {
    all_true(&[
        "[| s loop s = 0 for x in [1, 2, 3] do s + x |] == [| 1, 3, 6 |]",
        "[| x loop x = 1 while x < 100 do 3 * x |] == [| 3, 9, 27, 81, 243 |]",
        "[| a loop (a, b) = (0, 1) for _ < 6 do (b, a + b) |] == [| 1, 1, 2, 3, 5, 8 |]",
        "[| s loop s = 0 for i < 6 do s + i if s % 2 == 0 |] == [| 0, 6, 10 |]",
        "[| (i, s) for i < 2 loop s = i for j < 2 do s + j + 1 |] == [| (0, 1), (0, 3), (1, 2), (1, 4) |]",
        "[| s + j loop s = 0 for i < 3 do s + i for j < s |] == [| 1, 3, 4, 5 |]",
        "[| y loop (x, y) = (0, 0) while x < 3 do let z = x + 1 in (z, z * z) |] == [| 1, 4, 9 |]",
        "[s loop s = [] for i < 3 do i :: s] == [[0], [1, 0], [2, 1, 0]]",
        "length [| x loop x = 0 while x < 100000 do x + 1 |] == 100000",
    ]);
}

#[test]
fn the_order_of_evaluation_is_that_of_the_text() {
    // The condition is asked before the element is evaluated, and each element before the next round.
    all_true(&["[| 6 / x for x in [| 2, 0, 3 |] if x != 0 |] == [| 3, 2 |]"]);
    assert!(
        trap("[| if i == 2 then error \"element\" else i for i < 5 if i < 3 || error \"test\" |]")
            .starts_with("element")
    );
    assert!(trap("[| s loop s = error \"first\" for x in [| error \"second\" |] do s + x |]").starts_with("first"));
}

#[test]
fn matrices_have_rows_and_columns() {
    all_true(&[
        "let m = [| 1, 2, 3; 4, 5, 6 |] in (m[0, 2], m[1, 0], rows m, columns m) == (3, 4, 2, 3)",
        "[| 10 * i + j for i < 2, j < 3 |] == [| 0, 1, 2; 10, 11, 12 |]",
        "[| x * y for x in [1, 2], y in [| 3, 4, 5 |] |] == [| 3, 4, 5; 6, 8, 10 |]",
        "let m = [| 1, 2, 3; 4, 5, 6 |] in (m[1, ..], m[.., 1], m[0, 1 ..]) == ([| 4, 5, 6 |], [| 2, 5 |], [| 2, 3 |])",
        "let m = [| 1, 2, 3; 4, 5, 6 |] in m[.., 1 .. 3] == [| 2, 3; 5, 6 |]",
        "let m = [| 1, 2, 3; 4, 5, 6 |] in m[1 .., .. 1] == [| 4; |]",
        "transpose [| 1, 2, 3; 4, 5, 6 |] == [| 1, 4; 2, 5; 3, 6 |]",
        "[| 1, 2; |] != [| 1; 2 |]",
        "shape [| i for i < 0, j < 3 |] == (0, 3)",
        "shape [| i for i in 3 .. 1, j < 3 |] == (0, 3)",
        "let t = [| 100 * i + 10 * j + k for i < 2, j < 3, k < 4 |] in (t[1, 2, 3], shape3 t) == (123, (2, 3, 4))",
        "let t = [| 100 * i + 10 * j + k for i < 2, j < 3, k < 4 |] in t[1, .., 2] == [| 102, 112, 122 |]",
        "let t = [| 100 * i + 10 * j + k for i < 2, j < 3, k < 4 |] in t[1, 1 .., 2 ..] == [| 112, 113; 122, 123 |]",
        "let t = [| i + j + k + l for i < 2, j < 2, k < 2, l < 3 |] in (t[1, 1, 1, 2], sum t) == (5, 60)",
        "[| (i, to_real j) for i < 2, j < 2 |][1, 1] == (1, 1.0)",
        "[| [i, j] for i < 2, j < 2 |][1, 0] == [1, 0]",
        "[| [| 1; 2 |], [| 3; 4 |] |][1][1, 0] == 4",
    ]);
}

#[test]
fn collection_functions_take_matrices() {
    all_true(&[
        "map (* 2) [| 1, 2; 3, 4 |] == [| 2, 4; 6, 8 |]",
        "sum [| 1, 2; 3, 4 |] == 10 && product [| 1, 2; 3, 4 |] == 24",
        "(maximum [| 1, 2; 7, 4 |], minimum [| 1, 2; 7, 4 |]) == (7, 1)",
        "zip_with (+) [| 1, 2; 3, 4 |] [| 10, 20; 30, 40 |] == [| 11, 22; 33, 44 |]",
        "fold (-) 0 [| 1, 2; 3, 4 |] == -10",
        "all (> 0) [| 1, 2; 3, 4 |] && any (> 3) [| 1, 2; 3, 4 |] && not (any (> 4) [| 1, 2; 3, 4 |])",
        "sum (map (\\t -> t * t) [| i + j + k for i < 2, j < 2, k < 2 |]) == 24",
    ]);
    let cases = [
        ("zip_with (+) [| 1, 2 ; |] [| 1; 2 |]", "zip_with: the arrays have different shapes, [1, 2] and [2, 1]"),
        ("matrix 2 3 [1, 2, 3]", "matrix: 3 elements don't make 2 rows of 3"),
        ("from_rows [| [| 1, 2 |], [| 3 |], [| 4 |] |]", "from_rows: the rows have different lengths, [2, 1, 1]"),
        ("scatter 4 [| 1, 3 |] [| 10 |]", "scatter: the arrays have different lengths, 2 and 1"),
        (
            "[| i for i < 1, j < 2, k < 3 |] + [| i for i < 1, j < 3, k < 2 |]",
            "an operator on arrays of different shapes, [1, 2, 3] and [1, 3, 2]",
        ),
    ];
    for (expression, message) in cases {
        assert_eq!(trap(expression).lines().next(), Some(message), "{expression}");
    }
}

#[test]
fn arithmetic_works_element_by_element() {
    all_true(&[
        "[| 1, 2 |] + [| 10, 20 |] == [| 11, 22 |]",
        "[| 1.5, 2.0 |] * [| 2.0, 3.0 |] / [| 3.0, 2.0 |] - [| 1.0, 1.0 |] == [| 0.0, 2.0 |]",
        "-[| 1, -2 |] == [| -1, 2 |] && -[| 1; 2 |] == [| -1; -2 |]",
        "[| 1, 2; 3, 4 |] * [| 1, 2; 3, 4 |] == [| 1, 4; 9, 16 |]",
        "[| [| 1, 2 |], [| 3 |] |] + [| [| 10, 20 |], [| 30 |] |] == [| [| 11, 22 |], [| 33 |] |]",
        "[| 1, 2 |] .* 3 == [| 3, 6 |] && 3 *. [| 1, 2 |] == [| 3, 6 |]",
        "[| 6, 8 |] ./ 2 == [| 3, 4 |] && 24 /. [| 6, 8 |] == [| 4, 3 |]",
        "[| 6, 8 |] .- 2 == [| 4, 6 |] && 10 -. [| 6, 8 |] == [| 4, 2 |]",
        "1 +. [| 1, 2; 3, 4 |] .* 2 == [| 3, 5; 7, 9 |]",
        "map (.* 2) [| [| 1 |], [| 2 |] |] == [| [| 2 |], [| 4 |] |]",
        "map (1 -.) [| [| 1 |], [| 2 |] |] == [| [| 0 |], [| -1 |] |]",
        "fold (+) [| 0, 0 |] [| [| 1, 2 |], [| 3, 4 |] |] == [| 4, 6 |]",
        "(\\xs ys -> xs - ys) [| 3 |] [| 1 |] == [| 2 |]",
    ]);
    assert!(trap("[| 1 |] + [| 1, 2 |]").starts_with("an operator on arrays of different lengths, 1 and 2"));
    assert!(
        trap("[| 1, 2; |] - [| 1; 2 |]").starts_with("an operator on arrays of different shapes, [1, 2] and [2, 1]")
    );
    let generic = "def sum_of_squares x y = x * x + y * y\ndef f (x : Real) (xs : Array Real) = (sum_of_squares x 2, sum_of_squares xs xs)";
    let expected = Value::Tuple(vec![Value::Real(13.0), Value::Reals(vec![2.0, 8.0])]);
    assert_eq!(function(generic).call(&[Value::Real(3.0), Value::Reals(vec![1.0, 2.0])]), Ok(expected));
}

#[test]
fn arithmetic_on_arrays_makes_no_arrays_in_between() {
    let text = "def f (a : Array Real) (b : Array Real) : Real = sum ((a + b) * a .- 1)";
    let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    let builds = |op| module.functions.iter().flat_map(|f| &f.body.code).filter(|inst| inst.op == op).count();
    assert_eq!(builds(dualvm_vm::isa::Op::Build), 0);
}

#[test]
fn parts_of_arrays_and_lists_are_slices() {
    all_true(&[
        "[| 1, 2, 3, 4 |][1 .. 3] == [| 2, 3 |]",
        "[| 1, 2, 3 |][.. 2] == [| 1, 2 |] && [| 1, 2, 3 |][2 ..] == [| 3 |] && [| 1, 2 |][..] == [| 1, 2 |]",
        "[1, 2, 3, 4][1 .. 3] == [2, 3] && [1, 2][2 ..] == []",
        "[| 1, 2, 3 |][3 .. 3] == [||]",
    ]);
    let cases = [
        ("[| 1, 2 |][1 .. 3]", "the range 1 .. 3 is out of bounds of 2 elements"),
        ("[| 1, 2 |][-1 ..]", "the range -1 .. 2 is out of bounds of 2 elements"),
        ("[1, 2][2 .. 1]", "the range 2 .. 1 is out of bounds of 2 elements"),
        ("[| 1, 2; 3, 4 |][0 .. 3, 0]", "the range 0 .. 3 is out of bounds of 2 elements"),
        ("[| 1, 2; 3, 4; 5, 6 |][3, ..]", "index 3 is out of bounds of a dimension of 3"),
        ("[| 1, 2; 3, 4; 5, 6 |][.., 2]", "index 2 is out of bounds of a dimension of 2"),
        ("[| i for i < 3, j < 0 |][3, ..]", "index 3 is out of bounds of a dimension of 3"),
        ("[| i for i < 1, j < 2, k < 3 |][0, .., 3]", "index 3 is out of bounds of a dimension of 3"),
        ("[| i for i < 1, j < 2, k < 3 |][0, 0 .. 3, 3]", "the range 0 .. 3 is out of bounds of 2 elements"),
        ("[| 1, 2; 3, 4; 5, 6 |][3, 0]", "index [3, 0] is out of bounds of a matrix of 3 rows and 2 columns"),
        ("[| 1, 2; 3, 4 |][0, -1]", "index [0, -1] is out of bounds of a matrix of 2 rows and 2 columns"),
        ("[| i for i < 1, j < 1, k < 2 |][0, 1, 1]", "index [0, 1, 1] is out of the bounds [1, 1, 2] of a tensor"),
        (
            "[| i for i < 1, j < 2, k < 3, l < 4 |][0, 1, 2, 4]",
            "index [0, 1, 2, 4] is out of the bounds [1, 2, 3, 4] of a tensor",
        ),
        ("{ [| 1, 2; 3, 4 |] with [0, 2] = 9 }", "index [0, 2] is out of bounds of a matrix of 2 rows and 2 columns"),
        ("{ [| 1, 2; 3, 4 |] with [2, ..] = [| 5, 6 |] }", "index 2 is out of bounds of a dimension of 2"),
        ("{ [| i for i < 0, j < 2 |] with [.., 2] = [| |] }", "index 2 is out of bounds of a dimension of 2"),
        ("{ [| 1, 2; 3, 4 |] with [0 .. 3, 0] = [| 5, 6 |] }", "the range 0 .. 3 is out of bounds of 2 elements"),
        ("{ [| 1, 2, 3 |] with [2 .. 1] = [| |] }", "the range 2 .. 1 is out of bounds of 3 elements"),
        ("{ [| 1, 2, 3 |] with [4 ..] = [| |] }", "the range 4 .. 3 is out of bounds of 3 elements"),
        ("{ [| 1, 2, 3 |] with [1 ..] = [| 5 |] }", "a part of 2 elements is replaced by one of 1"),
        ("{ [| 1, 2; 3, 4 |] with [.., 1] = [| 5, 6, 7 |] }", "a part of 2 elements is replaced by one of 3"),
        ("{ [| 1, 2; 3, 4 |] with [.., 1 ..] = [| 5, 6; 7, 8 |] }", "a part of 1 elements is replaced by one of 2"),
        ("{ [| 1, 2, 3 |] with [0 .. 2] = [| 5 |], [7] = 1 }", "a part of 2 elements is replaced by one of 1"),
    ];
    for (expression, message) in cases {
        assert_eq!(trap(expression).lines().next(), Some(message), "{expression}");
    }
}

#[test]
fn a_part_that_is_not_there_is_told_by_its_first_index() {
    let arrays = ["Array Real", "Array Int", "Array (Real, Real)", "Array (Real, Int)", "Array (Array Real)"];
    for array in arrays {
        let element = array.strip_prefix("Array ").expect("it is one");
        let text =
            format!("def f (xs : {array}) (m : Int) (n : Int) : Array ({element}) = [| xs[i] for i in m .. n |]");
        let f = function(&text);
        let x = match element {
            "Real" => Value::Real(0.5),
            "Int" => Value::Int(3),
            "(Real, Real)" => Value::Tuple(vec![0.5.into(), 1.5.into()]),
            "(Real, Int)" => Value::Tuple(vec![0.5.into(), Value::Int(3)]),
            _ => Value::Reals(vec![0.5, 1.5]),
        };
        let run = |m: i64, n: i64| {
            let result = f.call(&[Value::Array(vec![x.clone(); 2]), Value::Int(m), Value::Int(n)]);
            result.map_err(|error| error.to_string())
        };
        for (m, n, index) in [(0, 3, 2), (2, 3, 2), (5, 9, 5), (-1, 1, -1), (-3, 9, -3)] {
            let error = run(m, n).expect_err(array);
            let expected = format!("index {index} is out of bounds of an array of length 2\n  in f at test.dual:1:");
            assert!(error.starts_with(&expected), "{array} from {m} to {n}: {error}");
        }
        for (m, n, count) in [(0, 2, 2), (1, 2, 1), (2, 2, 0), (9, 3, 0), (-3, -5, 0)] {
            let found = run(m, n).unwrap_or_else(|error| panic!("{array} from {m} to {n}: {error}"));
            let len = match &found {
                Value::Array(xs) => xs.len(),
                Value::Reals(xs) => xs.len(),
                other => panic!("{other:?}"),
            };
            assert_eq!(len, count, "{array} from {m} to {n}");
        }
    }
}

#[test]
fn elements_are_changed_in_a_copy() {
    all_true(&[
        "let a = [| 1, 2, 3 |] in let b = { a with [1] = 7 } in (a, b) == ([| 1, 2, 3 |], [| 1, 7, 3 |])",
        "{ [| 1, 2, 3 |] with [0] = 5, [2] = 6 } == [| 5, 2, 6 |]",
        "{ [| 1, 2; 3, 4 |] with [1, 0] = 9 } == [| 1, 2; 9, 4 |]",
        "{ [| i + j + k for i < 2, j < 1, k < 2 |] with [1, 0, 1] = 9 }[1, 0, 1] == 9",
        "(loop a = [| 0 for _ < 5 |] for i < 20 do { a with [i % 5] = a[i % 5] + i }) == [| 30, 34, 38, 42, 46 |]",
        "{ [| 1, 2, 3, 4 |] with [1 .. 3] = [| 8, 9 |] } == [| 1, 8, 9, 4 |]",
        "{ [| 1, 2, 3, 4 |] with [.. 2] = [| 8, 9 |], [3 ..] = [| 7 |] } == [| 8, 9, 3, 7 |]",
        "{ [| 1, 2 |] with [..] = [| 8, 9 |] } == [| 8, 9 |]",
        "{ [| 1, 2 |] with [2 ..] = [| |] } == [| 1, 2 |]",
        "let a = [| 1, 2, 3 |] in { a with [0 .. 2] = a[1 ..], [2 ..] = a[.. 1] } == [| 2, 3, 1 |]",
        "let m = [| 1, 2; 3, 4 |] in { m with [0, ..] = m[1, ..], [1, ..] = m[0, ..] } == [| 3, 4; 1, 2 |]",
        "{ [| 1, 2; 3, 4 |] with [.., 1] = [| 8, 9 |], [1, 0] = 7 } == [| 1, 8; 7, 9 |]",
        "{ [| 1, 2; 3, 4 |] with [1, 1 ..] = [| 8 |] } == [| 1, 2; 3, 8 |]",
        "{ [| 1, 2, 3; 4, 5, 6; 7, 8, 9 |] with [1 .., .. 2] = [| 10, 20; 30, 40 |] } == [| 1, 2, 3; 10, 20, 6; 30, 40, 9 |]",
        "let t = [| i * 4 + j * 2 + k for i < 2, j < 2, k < 2 |] in
         elements { t with [.., 1, ..] = [| 8, 9; 10, 11 |] } == [| 0, 1, 8, 9, 4, 5, 10, 11 |]",
        "let t = [| i * 4 + j * 2 + k for i < 2, j < 2, k < 2 |] in
         elements { t with [1, .., 0] = [| 8, 9 |] } == [| 0, 1, 2, 3, 8, 5, 9, 7 |]",
        "let t = [| i for i < 2, j < 1, k < 1, l < 2 |] in
         elements { t with [.., 0 .., 0, .. 1] = [| 8 for i < 2, j < 1, k < 1 |] } == [| 8, 0, 8, 1 |]",
        "{ [| (1, true), (2, false), (3, true) |] with [1 ..] = [| (8, true), (9, false) |] }
         == [| (1, true), (8, true), (9, false) |]",
        "(loop m = [| 0 for _ < 3, _ < 2 |] for i < 3 do { m with [i, ..] = [| i, i + 1 |] }) == [| 0, 1; 1, 2; 2, 3 |]",
        "scatter 4 [| 1, 3, 1 |] [| 10, 20, 30 |] == [| 0, 40, 0, 20 |]",
        "let rows = [| [| 1, 2 |], [| 3, 4 |] |] in { rows with [1] = { rows[1] with [0] = 9 } } == [| [| 1, 2 |], [| 9, 4 |] |]",
    ]);
    assert!(trap("{ [| 1 |] with [1] = 2 }").starts_with("index 1 is out of bounds of an array of length 1"));
    let text = "def f (m : Matrix Real) (xs : Array Real) : Real =
  let n = { m with [0, ..] = 2 *. xs, [1, 1] = xs[0] } in n[0, 0] * n[1, 0] + n[0, 1] * n[1, 1] + m[0, 0]";
    let m = Value::Array(vec![Value::Reals(vec![2.0, 3.0]), Value::Reals(vec![5.0, 7.0])]);
    let (value, gradient) = function(text).value_and_grad(&[m, Value::Reals(vec![11.0, 13.0])]).expect("it is real");
    let of_m = Value::Array(vec![Value::Reals(vec![1.0, 0.0]), Value::Reals(vec![22.0, 0.0])]);
    assert_eq!((value, gradient), (22.0 * 5.0 + 26.0 * 11.0 + 2.0, vec![of_m, Value::Reals(vec![36.0, 22.0])]));
    let text = "def f (xs : Array Real) (x : Real) : Real =
  let ys = { xs with [1] = x * xs[0] } in ys[0] * ys[1] + xs[1] * ys[2]";
    let (value, gradient) =
        function(text).value_and_grad(&[Value::Reals(vec![2.0, 3.0, 5.0]), Value::Real(7.0)]).expect("it is real");
    assert_eq!((value, gradient), (2.0 * 14.0 + 15.0, vec![Value::Reals(vec![28.0, 5.0, 3.0]), Value::Real(4.0)]));
}

#[test]
fn messages_keep_nothing_from_being_changed_in_place() {
    // An element of the array in a text, then the array; and a matrix, which the prelude's messages know the sizes of.
    let changes = [
        "def f (xs : Array Real) (n : Int) : Array Real =
  loop a = xs for i < n do
    let j = i % length a in
    if a[j] > 100 then error \"{a} at {j}\" else { a with [j] = a[j] * 2 }",
        "def f (xs : Array Real) (n : Int) : Array Real =
  let m = matrix 1 (length xs) xs in
  elements (loop m = m for i < n do
    if m[0, i % columns m] > 100 then error \"{m[0, 0]} of {m} at {i}\" else
    { m with [0, i % columns m] = m[0, i % columns m] * 2 })",
    ];
    let traps = ["[160.0, 112.0] at 1", "160.0 of [[160.0, 112.0]] at 11"];
    for (text, message) in changes.into_iter().zip(traps) {
        let f = function(text);
        let many = [Value::Reals(vec![0.0; 1000]), Value::Int(1000)];
        let (_, stats) = f.call_with(&many, &CallOptions::default()).expect("nothing is too large");
        assert!(stats.allocated_bytes < 50_000, "{} bytes\n{text}", stats.allocated_bytes);
        let args = |n: i64| [Value::Reals(vec![2.5, 3.5]), Value::Int(n)];
        assert_eq!(f.call(&args(5)), Ok(Value::Reals(vec![20.0, 14.0])), "{text}");
        let error = f.call(&args(20)).expect_err("100 is passed").to_string();
        assert_eq!(error.lines().next(), Some(message), "{text}");
    }
}

#[test]
fn gradients_go_through_matrices() {
    let text = "def f (a : Array Real) (b : Array Real) : Real =
  let (m, n) = (matrix 2 2 a, matrix 2 2 b) in
  let product = [| sum (m[i, ..] * n[.., j]) for i < 2, j < 2 |] in
  sum (product * transpose m) + m[1, 0] * product[0, 1]";
    let args = [vec![1.0, 2.0, -1.0, 0.5], vec![0.25, 3.0, 1.5, -2.0]];
    let f = function(text);
    let given = |args: &[Vec<f64>; 2]| args.clone().map(Value::Reals);
    let (_, gradient) = f.value_and_grad(&given(&args)).expect("it is real");
    for (which, derivatives) in gradient.iter().enumerate() {
        let Value::Reals(derivatives) = derivatives else { panic!("{derivatives:?}") };
        for (at, derivative) in derivatives.iter().enumerate() {
            let moved = |h: f64| {
                let mut args = args.clone();
                args[which][at] += h;
                match f.call(&given(&args)) {
                    Ok(Value::Real(value)) => value,
                    other => panic!("{other:?}"),
                }
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((difference - derivative).abs() < 1e-7, "{which}, {at}: {derivative}, {difference}");
        }
    }
}
