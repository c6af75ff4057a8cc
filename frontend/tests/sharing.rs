//! Values that are computed once: how often instructions are in the generated code, and that programs still trap where
//! they did.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::module::Function;
use dualvm_vm::value::Value;

fn function(text: &str, name: &str) -> Function {
    let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(dualvm_vm::verify::verify(&module).is_ok());
    module.function(name).expect("the program defines the function").1.clone()
}

/// How often some instructions are in the code of `f`.
fn counts<const N: usize>(text: &str, ops: [Op; N]) -> [usize; N] {
    let f = function(text, "f");
    ops.map(|op| f.body.code.iter().filter(|inst: &&Inst| inst.op == op).count())
}

/// What `f` of a program gives, or how it traps.
fn run(text: &str, args: &[Value]) -> Result<Value, String> {
    let engine = Engine::new(Config::default());
    let module = Module::new(&engine, compile("test.dual", text).unwrap()).unwrap();
    let f = module.function("f").expect("the program defines `f`");
    f.call(args).map_err(|error| error.to_string())
}

fn reals(values: &[f64]) -> Value {
    Value::Array(values.iter().map(|&value| Value::Real(value)).collect())
}

#[test]
fn equal_expressions_are_computed_once() {
    let text = "def f (x : Real) (y : Real) : Real = exp (x * y) + exp (y * x) * (x * y)";
    assert_eq!(counts(text, [Op::Exp, Op::Mul]), [1, 2]);
    assert_eq!(counts("def f (x : Real) (y : Real) : Real = (x + y) ^ 2 * (x + y)", [Op::Add, Op::Mul]), [1, 2]);
    // A name for the value is as good as another.
    let text = "def f (x : Real) : Real = let a = sin x in let b = sin x in let c = a * b in c + b * a";
    assert_eq!(counts(text, [Op::Sin, Op::Mul, Op::Mov]), [1, 1, 0]);
}

#[test]
fn a_loop_does_not_write_where_a_shared_value_is() {
    // The value that the inner loop begins with is read again when that has ended.
    let text = "def f (x : Real) : (Real, Real) =
        loop (s, t) = (0.0, x) for i < 2 do (loop m = sin t for _ < 3 do m + 1, sin t)";
    let (first, second) = (0.5_f64.sin(), 0.5_f64.sin().sin());
    assert!(first > second);
    assert_eq!(counts(text, [Op::Sin]), [1]);
    let expected = Value::Tuple(vec![Value::Real(second + 3.0), Value::Real(second)]);
    assert_eq!(run(text, &[Value::Real(0.5)]), Ok(expected));
    let text = "def f (ys : Array Real) : (Real, Real) =
        loop (s, t) = (0.0, 0.0) for i < length ys do (loop m = ys[i] for _ < 3 do m + 1, ys[i])";
    assert_eq!(run(text, &[reals(&[4.0, 0.5])]), Ok(Value::Tuple(vec![Value::Real(3.5), Value::Real(0.5)])));
    // A loop with a condition, integers, and arrays.
    let text = "def f (n : Int) : (Int, Int) =
        loop (s, t) = (0, n) for i < 2 do (loop m = t * t while m < 100 do m + t, t * t)";
    assert_eq!(run(text, &[Value::Int(3)]), Ok(Value::Tuple(vec![Value::Int(108), Value::Int(81)])));
    let text = "def f (x : Real) : (Array Real, Array Real) =
        loop (s, t) = ([||], [| x, x |]) for i < 2 do
          (loop m = [| 2 * t[0], t[1] |] for j < 2 do { m with [j] = m[j] + 1 }, [| 2 * t[0], t[1] |])";
    let expected = Value::Tuple(vec![Value::Reals(vec![5.0, 2.0]), Value::Reals(vec![4.0, 1.0])]);
    assert_eq!(run(text, &[Value::Real(1.0)]), Ok(expected));
}

#[test]
fn indices_of_a_matrix_that_is_made_here_are_not_looked_at() {
    let made = "let m = [| x * to_real (i - j) for i < n, j < 3 |] in";
    let text = |read: &str| format!("def f (n : Int) (x : Real) : Real = {made} loop s = 0.0 for i < n do s + {read}");
    assert_eq!(counts(&text("m[i, 2]"), [Op::TrapWith]), [0]);
    assert_eq!(counts(&text("m[i, 3]"), [Op::TrapWith]), [1]);
    assert_eq!(counts(&text("m[i + 1, 2]"), [Op::TrapWith]), [1]);
    let args = |n: i64| [Value::Int(n), Value::Real(0.5)];
    assert_eq!(run(&text("m[i, 2]"), &args(3)), Ok(Value::Real(-1.5)));
    assert_eq!(run(&text("m[i, 2]"), &args(-1)), Ok(Value::Real(0.0)));
    let error = run(&text("m[i + 1, 2]"), &args(3)).expect_err("the last row");
    assert!(error.contains("index [3, 2] is out of bounds of a matrix of 3 rows"), "{error}");
}

#[test]
fn what_a_condition_computes_goes_with_it() {
    // It is known that `i` is less than the number of columns, which is read for the element again.
    let text = "def f (n : Int) (a : Real) (xs : Array Real) (m : Matrix Real) : Real =
        loop s = a for i < columns m do
          let go (k : Int) t =
            if k <= 0 then t
            else go (k - 1) (if n >= 0 && n < rows m && i >= 0 && i < columns m then t + m[n, i] else 0.125) in
          go 2 (s + preduce (+) 0.0 xs)";
    let matrix = Value::Array(vec![reals(&[1.0, 2.0]), reals(&[3.0, 4.0])]);
    let args = [Value::Int(1), Value::Real(0.5), reals(&[1.0, 2.0]), matrix];
    assert_eq!(run(text, &args), Ok(Value::Real(0.5 + 2.0 * (3.0 + 3.0 + 4.0))));
}

#[test]
fn what_differs_is_not_shared() {
    let text = "def f (x : Real) (y : Real) : Real = (x - y) * (y - x) + min x y * min y x";
    assert_eq!(counts(text, [Op::Sub, Op::Min]), [2, 2]);
    assert_eq!(counts("def f (x : Real) : Real = atan2 x 0.0 + atan2 x (-0.0)", [Op::Atan2]), [2]);
    // Each iteration has its own.
    let text = "def f (n : Int) : Real = loop x = exp 1.5 for i < n do exp (to_real i) + exp (to_real (i + 1)) * x";
    assert_eq!(counts(text, [Op::Exp, Op::ToReal]), [2, 2]);
}

#[test]
fn objects_that_are_only_taken_apart_are_not_made() {
    let complex = "type C = C Real Real
        def mul (C a b) (C c d) = C (a * c - b * d) (a * d + b * c)
        def square (C a b) = a * a + b * b\n";
    let text =
        format!("{complex} def f (x : Real) : Real = let z = C x (sin x) in square (mul (mul z z) (C 2 (exp x)))");
    assert_eq!(counts(&text, [Op::VariantNew, Op::Payload, Op::Sin]), [0, 0, 1]);
    // Where it is made after all, it is made of the same.
    let text = format!("{complex} def f (x : Real) : (C, Real) = let z = C (exp x) (sin x) in (z, square z)");
    assert_eq!(counts(&text, [Op::VariantNew, Op::Payload, Op::Sin, Op::Exp]), [1, 0, 1, 1]);
    // What isn't read may trap, and does so where it did.
    let text = "type P = P Real Int
        def f (x : Real) (n : Int) : Real =
          let P a _ = P (x * x) (7 / n) in if a > 4 then error \"great\" else a";
    assert_eq!(run(text, &[Value::Real(2.0), Value::Int(1)]), Ok(Value::Real(4.0)));
    let error = run(text, &[Value::Real(3.0), Value::Int(0)]).expect_err("it divides by zero");
    assert!(error.contains("division by zero"), "{error}");
    // An inner object, and a choice.
    let text = "type T = Leaf Real | Node T T
        def f (x : Real) : Real =
          match Node (Leaf (exp x)) (Node (Leaf x) (Leaf (sin x))) with
          | Node (Leaf a) (Node (Leaf b) (Leaf c)) -> a + b + c
          | _ -> 0";
    assert_eq!(counts(text, [Op::VariantNew, Op::VariantTag, Op::Payload]), [0, 0, 0]);
}

#[test]
fn equal_loads_are_one() {
    let text = "def f (a : Array Real) (b : Array Real) : Real =
      loop sum = 0.0 for i < length a do sum + (a[i] - b[i]) * (a[i] - b[i])";
    assert_eq!(counts(text, [Op::Elem, Op::Sub]), [2, 1]);
    // Elements that are rows or structs, and the arrays that they are in.
    let text = "def f (a : Array (Array (Real, Real))) (i : Int) : Real =
      let (x, _) = a[i][1] in let (_, y) = a[i][1] in x * y + snd a[i][1]";
    assert_eq!(counts(text, [Op::PElem, Op::Row, Op::Elem]), [1, 1, 2]);
    let text = "def f (a : Array (Array (Real, Int))) (i : Int) : Real =
      let (x, _) = a[i][1] in let (_, y) = a[i][1] in x * to_real (y + snd a[i][1])";
    assert_eq!(counts(text, [Op::PElem, Op::Field, Op::IField]), [2, 1, 1]);
    let text = "type Pair = Pair Real Real
    def first (Pair x _) = x
    def f (p : Pair) : Real = let Pair x y = p in x * y + first p";
    assert_eq!(counts(text, [Op::Payload]), [2]);
}

#[test]
fn what_one_branch_computes_is_not_known_in_the_other_or_afterwards() {
    let text = "def f (x : Real) (a : Array Real) (i : Int) : Real =
      (if x > 0 then a[i] * 2 else if x < -1 then a[i] + x else 0) + (if x > 1 || a[i] > x then a[i] else 1)";
    // The last one stands where it was not loaded for sure.
    assert_eq!(counts(text, [Op::Elem]), [4]);
    let text = "def f (x : Real) (a : Array Real) (i : Int) : Real = if a[i] > 0 then a[i] * x else x - a[i]";
    assert_eq!(counts(text, [Op::Elem]), [1]);
}

#[test]
fn cheap_values_are_not_kept_across_calls_and_branches() {
    let text = "def g (n : Int) : Int = if n < 1 then 1 else n * g (n - 1) + g (n - 2)
    def f (n : Int) (x : Real) : Real = to_real (g (n + 1)) + exp x + to_real (g (n + 1 + n)) * exp x";
    assert_eq!(counts(text, [Op::IAdd, Op::Exp]), [3, 1]);
    // A real that goes from one straight line to another has a record of its own.
    let text = "def f (x : Real) (y : Real) : Real = if x - y > 0 then (x - y) * y else x";
    assert_eq!(counts(text, [Op::Sub]), [2]);
}

#[test]
fn a_choice_by_a_known_tag_is_none() {
    let text = "def get (m : Maybe Real) : Real = match m with | Just x -> x | Nothing -> 0
    def f (m : Maybe Real) : Real = match m with | Just x -> x * get m | Nothing -> get m + 1";
    assert_eq!(counts(text, [Op::VariantTag, Op::Payload]), [1, 1]);
    let text = "def get (m : Maybe Real) : Real = match m with | Just x -> x | Nothing -> 0
    def f (x : Real) : Real = get (if x > 0 then Just x else Nothing) + get (Just x)";
    assert_eq!(counts(text, [Op::VariantTag]), [0]);
}

#[test]
fn loads_that_are_shared_let_branches_be_selections() {
    let text = "def f (a : Array Real) : Real = loop sum = 0.0 for i < length a do
      sum + a[i] * (if a[i] > 0 then a[i] else 0)";
    assert_eq!(counts(text, [Op::Elem, Op::Select]), [1, 1]);
}

#[test]
fn the_first_of_equal_traps_is_the_one_that_happens() {
    let text = "def f (a : Array Real) (i : Int) (n : Int) : Real =
      let x = if n == 0 then error \"no\" else 1.0 in
      let q = 7 / n in
      a[i] * x + a[i] + to_real (q + 7 / n)";
    let args = |i, n| [reals(&[2.0]), Value::Int(i), Value::Int(n)];
    assert_eq!(run(text, &args(0, 7)), Ok(Value::Real(6.0)));
    assert!(run(text, &args(1, 7)).unwrap_err().contains("index"), "{:?}", run(text, &args(1, 7)));
    assert!(run(text, &args(1, 0)).unwrap_err().contains("no"));
}

#[test]
fn what_an_expression_binds_stays_when_its_value_is_known() {
    // The product is computed once; what stands in the second one still traps.
    let text = "def f (x : Real) (a : Array Real) (i : Int) : Real =
      let p = a[0] * x in let q = a[0] * (let _ = a[i] in x) in p + q";
    assert_eq!(counts(text, [Op::Mul]), [1]);
    assert_eq!(run(text, &[2.0.into(), reals(&[3.0]), 0.into()]), Ok(12.0.into()));
    assert!(run(text, &[2.0.into(), reals(&[3.0]), 5.into()]).unwrap_err().contains("index 5 is out of bounds"));
    // The copies of the loop that the small recursion becomes compare the array's length and then count up to it.
    let text = "def f (xs : List Real) : Real =
      mean (map (\\x -> (let v = build 3 (\\_ -> 0.25) in x * dot v v)) xs)";
    assert_eq!(run(text, &[reals(&[1.0, 2.0, 3.0])]), Ok(0.375.into()));
}

#[test]
fn what_leaves_a_loop_reads_what_its_range_has_computed() {
    let text = "def f (x : Real) (n : Int) : Array Real =
      [| if i == 1 then
           (loop s = x for z in zip_with
             (let g (k : Int) (h : Real -> Real -> Real) : Real -> Real -> Real =
                if k <= 0 then h else g2 (k - 1) (loop v : Real -> Real -> Real = h for _ in [| x |] do v)
              and g2 (k : Int) (h : Real -> Real -> Real) : Real -> Real -> Real =
                if k <= 0 then h else g (k - 1) h
              in g ((n + n) % 5) (\\a b -> a * b + 0.25)) [| x |] [| 2.0 |]
            do s + z)
         else x for i < (n + n) % 5 |]";
    assert_eq!(run(text, &[Value::Real(3.0), Value::Int(4)]), Ok(Value::Reals(vec![3.0, 9.25, 3.0])));
    assert_eq!(run(text, &[Value::Real(3.0), Value::Int(0)]), Ok(Value::Reals(vec![])));
}

#[test]
fn several_changes_of_an_array_take_one_copy() {
    let array = |values: &[f64]| Value::Reals(values.to_vec());
    let copies = |change: &str| {
        let text = format!("def f (xs : Array Real) (a : Real) : Array Real = {change}");
        let changed = run(&text, &[array(&[1.0, 2.0, 3.0]), Value::Real(5.0)]);
        (counts(&text, [Op::Extend]), changed.expect("it changes them"))
    };
    assert_eq!(copies("{ xs with [0] = a, [1] = 2 * a }"), ([1], array(&[5.0, 10.0, 3.0])));
    assert_eq!(copies("{ xs with [0] = a, [0] = 2, [2] = a * a }"), ([1], array(&[2.0, 2.0, 25.0])));
    let later = "let ys = { xs with [0] = a } in let b = a * a in { ys with [1] = b }";
    assert_eq!(copies(later), ([1], array(&[5.0, 25.0, 3.0])));
    // What is between them is read, or may trap.
    let read = "let ys = { xs with [0] = a } in { ys with [1] = ys[0] + ys[2] }";
    assert_eq!(copies(read), ([2], array(&[5.0, 8.0, 3.0])));
    let trapping = "let ys = { xs with [0] = a } in { ys with [1] = xs[to_int a - 3] }";
    assert_eq!(copies(trapping), ([2], array(&[5.0, 3.0, 3.0])));
    let text = "def f (xs : Array Real) (a : Real) : Array Real = { xs with [7] = a, [8] = a }";
    let error = run(text, &[array(&[1.0]), Value::Real(0.0)]).expect_err("there are no such elements");
    assert!(error.contains("index 7"), "{error}");
}

#[test]
fn sizes_that_a_loop_hands_on_are_what_they_were_before() {
    let text = "def f (m : Matrix Real) (n : Int) : Matrix Real =
        loop m = m for i in 1 .. rows m do loop m = m for j < n do { m with [i, j] = 2 * m[i, j] + m[i - 1, j] }";
    // The row above is tested, and the column once for three places.
    assert_eq!(counts(text, [Op::TrapWith, Op::IMul]), [2, 2]);
    let matrix = |rows: &[&[f64]]| Value::Array(rows.iter().map(|row| Value::Reals(row.to_vec())).collect());
    let m = matrix(&[&[1.0, 2.0], &[3.0, 4.0], &[5.0, 6.0]]);
    let changed = matrix(&[&[1.0, 2.0], &[7.0, 10.0], &[17.0, 22.0]]);
    assert_eq!(run(text, &[m.clone(), Value::Int(2)]), Ok(changed));
    assert_eq!(run(text, &[m.clone(), Value::Int(0)]), Ok(m.clone()));
    let beyond = run(text, &[m.clone(), Value::Int(3)]).unwrap_err();
    assert!(beyond.contains("index [1, 2] is out of bounds of a matrix of 3 rows and 2 columns"), "{beyond}");
    // What a round exchanges, or takes from elsewhere, isn't handed on.
    let text = "def f (a : Matrix Real) (b : Matrix Real) (n : Int) : (Int, Int, Real) =
        let (x, y) = loop (x, y) = (a, b) for i < n do ({ y with [0, 0] = y[0, 0] + 1 }, x) in
        (rows x, columns y, x[0, columns x - 1])";
    let wide = matrix(&[&[7.0, 8.0, 9.0]]);
    let found = |n| run(text, &[m.clone(), wide.clone(), Value::Int(n)]);
    let tuple = |a, b, x| Ok(Value::Tuple(vec![Value::Int(a), Value::Int(b), Value::Real(x)]));
    assert_eq!([found(0), found(1), found(2)], [tuple(3, 3, 2.0), tuple(1, 2, 9.0), tuple(3, 3, 2.0)]);
    let text = "def f (a : Matrix Real) (b : Matrix Real) (n : Int) : (Int, Real) =
        let x = loop x = a for i < n do if i == 1 then b else { x with [0, 1] = x[0, 1] + x[0, columns x - 1] } in
        (columns x, x[0, 1])";
    let found = |n| run(text, &[m.clone(), wide.clone(), Value::Int(n)]);
    let tuple = |count, x| Ok(Value::Tuple(vec![Value::Int(count), Value::Real(x)]));
    assert_eq!([found(1), found(2), found(3)], [tuple(2, 4.0), tuple(3, 8.0), tuple(3, 17.0)]);
}

#[test]
fn what_has_been_tested_is_not_tested_again() {
    let counted = |body: &str| {
        let text = format!("def f (m : Matrix Real) (i : Int) (j : Int) : Real = {body}");
        counts(&text, [Op::TrapWith])[0]
    };
    assert_eq!(counted("m[i, j] + exp m[i, j] * m[i, 0]"), 2);
    // A test that was made on one way only says nothing behind it.
    assert_eq!(counted("(if m[0, 0] > 0 then m[i, j] else 1) + m[i, j]"), 3);
    assert_eq!(counted("(loop s = 0.0 for _ < i do s + m[i, j]) + m[i, j]"), 2);
    let text = "def f (m : Matrix Real) (i : Int) (j : Int) : Real = (if m[0, 0] > 0 then m[i, j] else 1) + m[i, j]";
    let m = Value::Array([[-1.0, 2.0]].map(|row| reals(&row)).into());
    let found = |j| run(text, &[m.clone(), Value::Int(0), Value::Int(j)]);
    assert_eq!(found(1), Ok(Value::Real(3.0)));
    assert!(found(2).unwrap_err().contains("index [0, 2] is out of bounds"));
    // Nor does one that has failed and gone on.
    let text = "def f (x : Real) (n : Int) : Real =
        let a = if n > 3 then x else 0 in let b = if n > 3 then 2 * x else 1 in if n > 3 then a * b else a - b";
    assert_eq!(run(text, &[Value::Real(3.0), Value::Int(4)]), Ok(Value::Real(18.0)));
    assert_eq!(run(text, &[Value::Real(3.0), Value::Int(3)]), Ok(Value::Real(-1.0)));
}
