//! Data types, records, lists and matching: what programs with them compute.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Config, Engine, Function, Module};
use dualvm_vm::isa::Op;
use dualvm_vm::value::Value;

fn function(text: &str) -> Function {
    let def = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let module = Module::new(&Engine::new(Config::default()), def).unwrap_or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("the verifier refuses:\n{}\n{text}", errors.join("\n"))
    });
    module.function("f").expect("the program defines it")
}

fn run(text: &str, args: &[Value]) -> Value {
    function(text).call(args).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn int(text: &str, n: i64) -> i64 {
    match run(text, &[Value::Int(n)]) {
        Value::Int(n) => n,
        other => panic!("not an Int: {other:?}"),
    }
}

fn data(constructor: &str, fields: &[Value]) -> Value {
    Value::variant(constructor, Value::Tuple(fields.to_vec()))
}

fn reals(values: &[f64]) -> Vec<Value> {
    values.iter().map(|&x| Value::Real(x)).collect()
}

#[test]
fn shapes_have_areas_and_gradients_of_the_same_shape() {
    let text = "type Shape = Circle Real | Rect { width : Real, height : Real } | Empty
    def f (s : Shape) : Real = match s with | Circle r -> pi * r ^ 2 | Rect { width, height } -> width * height | Empty -> 0";
    let rect = |a, b| {
        let fields = vec![("width".to_owned(), Value::Real(a)), ("height".to_owned(), Value::Real(b))];
        Value::variant("Rect", Value::Record(fields))
    };
    let (value, gradient) = function(text).value_and_grad(&[rect(2.0, 3.0)]).unwrap();
    assert_eq!((value, &gradient[0]), (6.0, &rect(3.0, 2.0)));
    assert_eq!(run(text, &[data("Empty", &[])]), Value::Real(0.0));
}

#[test]
fn trees_of_several_mutually_recursive_types_go_in_and_out() {
    // Two types whose lists alternate.
    let text = "type Left = End | ToRight Real Right
    type Right = Stop | ToLeft Real Left
    def left (l : Left) : Left = match l with | End -> End | ToRight x r -> ToRight (x * 2) (right r)
    def right (r : Right) : Right = match r with | Stop -> Stop | ToLeft x l -> ToLeft (x + 1) (left l)
    def f (l : Left) : Left = left l";
    let input = data("ToRight", &[Value::Real(1.0), data("ToLeft", &[Value::Real(2.0), data("End", &[])])]);
    let output = data("ToRight", &[Value::Real(2.0), data("ToLeft", &[Value::Real(3.0), data("End", &[])])]);
    assert_eq!(run(text, &[input]), output);
}

#[test]
fn parameters_of_data_types_take_any_type() {
    let text = "type Tree a = Leaf | Node (Tree a) a (Tree a)
    def insert x t = match t with
      | Leaf -> Node Leaf x Leaf
      | Node l y r -> if x < y then Node (insert x l) y r else Node l y (insert x r)
    def sum_tree t = match t with | Leaf -> 0 | Node l x r -> sum_tree l + x + sum_tree r
    def depth t = match t with | Leaf -> 0 | Node l _ r -> 1 + max (depth l) (depth r)
    def f (x : Real) : Real =
      let t = insert 3.0 (insert x (insert 2.0 Leaf)) in
      let u = insert 3 (insert 1 Leaf) in
      sum_tree t * to_real (sum_tree u + depth t)";
    let (value, gradient) = function(text).value_and_grad(&reals(&[2.5])).unwrap();
    assert_eq!((value, gradient), (7.5 * 7.0, reals(&[7.0])));
}

#[test]
fn quaternions_as_record_as_data_and_as_tuple_agree() {
    let as_record = "alias Quat = { w : Real, x : Real, y : Real, z : Real }
    def mul (a : Quat) (b : Quat) : Quat = { x = a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
      w = a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
      y = a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, z = a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w }
    def f (p : Real) (q : Real) : Real =
      let a = { w = p, x = 1, y = 2, z = 3 } in let b = { a with w = q } in let c = mul a b in c.w + 2 * c.x + 3 * c.y + 4 * c.z";
    let as_data = "type Quat = Quat Real Real Real Real
    def mul (Quat w x y z) (Quat w2 x2 y2 z2) = Quat (w * w2 - x * x2 - y * y2 - z * z2)
      (w * x2 + x * w2 + y * z2 - z * y2) (w * y2 - x * z2 + y * w2 + z * x2) (w * z2 + x * y2 - y * x2 + z * w2)
    def f (p : Real) (q : Real) : Real =
      let Quat w x y z = mul (Quat p 1 2 3) (Quat q 1 2 3) in w + 2 * x + 3 * y + 4 * z";
    let named = "type Quat = Quat { w : Real, v : (Real, Real, Real) }
    def mul (a : Quat) (b : Quat) : Quat = let (x, y, z) = a.v in let (x2, y2, z2) = b.v in
      Quat { v = (a.w * x2 + x * b.w + y * z2 - z * y2, a.w * y2 - x * z2 + y * b.w + z * x2,
                  a.w * z2 + x * y2 - y * x2 + z * b.w),
        w = a.w * b.w - x * x2 - y * y2 - z * z2 }
    def f (p : Real) (q : Real) : Real = let Quat { w, v = (x, y, z) } =
      mul (Quat { w = p, v = (1, 2, 3) }) (Quat { w = q, v = (1, 2, 3) }) in w + 2 * x + 3 * y + 4 * z";
    let results: Vec<_> = [as_record, as_data, named]
        .map(|text| function(text).value_and_grad(&reals(&[0.5, -2.0])).unwrap())
        .into_iter()
        .collect();
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
    assert_eq!(results[0].1, reals(&[18.0, 20.5]));
}

#[test]
fn patterns_match_in_order() {
    let text = "type Color = Red | Green | Blue
    def f (n : Int) : Int =
      let c = if n % 3 == 0 then Red else if n % 3 == 1 then Green else Blue in
      match (c, n, n > 5) with
      | (Red, 0, _) -> 1
      | ((Red | Blue), m, true) if m > 7 -> 100 + m
      | (Blue, (2 | 5), _) -> 2
      | (Green, m @ (1 | 4), false) -> 10 + m
      | (_, m, _) -> 1000 + m";
    let found: Vec<i64> = (0..10).map(|n| int(text, n)).collect();
    assert_eq!(found, [1, 11, 2, 1003, 14, 2, 1006, 1007, 108, 109]);
    let lists = "def f (n : Int) : Int =
      let xs = match n with | 0 -> [] | 1 -> [7] | 2 -> [1, 2] | 3 -> [1, 5, 6] | _ -> [n, n, n, n] in
      match xs with | [] -> 0 | [x] -> x | [1, y] -> 10 * y | x :: y :: z :: [] -> x + y + z
      | a :: (_ :: rest @ (b :: _)) -> a + b + size rest | _ -> -1
    def size xs = match xs with | [] -> 0 | _ :: rest -> 1 + size rest";
    let found: Vec<i64> = (0..5).map(|n| int(lists, n)).collect();
    assert_eq!(found, [0, 7, 20, 12, 10]);
    let numbers =
        "def f (x : Real) : Int = match (x, [x]) with | (0.5, _) -> 1 | (-1, [y]) if y < 0 -> 2 | (2, _) -> 3 | _ -> 4";
    let of = |x| run(numbers, &[Value::Real(x)]);
    assert_eq!([0.5, -1.0, 2.0, 3.0].map(of), [1, 2, 3, 4].map(Value::Int));
}

#[test]
fn each_tag_is_read_once_per_path() {
    let text = "type T = A | B Int | C T T
    def f (t : T) : Int = match t with | C (B n) A -> n | C A (B n) -> n | C (C _ _) _ -> 1 | B n if n > 3 -> n | _ -> 0";
    let module = compile("test.dual", text).unwrap();
    let code = &module.function("f").unwrap().1.body.code;
    let tags = code.iter().filter(|inst| inst.op == Op::VariantTag).count();
    assert_eq!(tags, 4, "the root's, its first field's, and the second field's in two places");
}

#[test]
fn many_or_patterns_make_little_code() {
    let mut text = "type B = X | Y | Z\ndef f (a : B) : Int = match (".to_owned();
    text += &["a"; 12].join(", ");
    text += ") with\n";
    for i in 0..12 {
        let row: Vec<&str> = (0..12).map(|j| if i == j { "Z" } else { "(X | Y)" }).collect();
        text += &format!("  | ({}) -> {i}\n", row.join(", "));
    }
    text += "  | _ -> 99";
    let module = compile("test.dual", &text).unwrap();
    let code: usize = module.functions.iter().map(|function| function.body.code.len()).sum();
    assert!(code < 3_000, "{code} instructions");
    assert_eq!(run(&text, &[data("X", &[])]), Value::Int(99));
    // Hard for decision trees: every row looks at other columns.
    let mut text = "def f (n : Int) : Int = let b k = n % k == 0 in match (".to_owned();
    text += &(0..14).map(|i| format!("b {}", i + 2)).collect::<Vec<_>>().join(", ");
    text += ") with\n";
    for i in 0..13 {
        let row: Vec<&str> = (0..14).map(|j| if j == i || j == i + 1 { "true" } else { "_" }).collect();
        text += &format!("  | ({}) -> {i}\n", row.join(", "));
    }
    text += "  | _ -> 99";
    let module = compile("test.dual", &text).unwrap();
    let code: usize = module.functions.iter().map(|function| function.body.code.len()).sum();
    assert!(code < 6_000, "{code} instructions");
    for n in [6, 12, 20, 7, 1, 210] {
        let expected = (0..13).find(|i| n % (i + 2) == 0 && n % (i + 3) == 0).unwrap_or(99);
        assert_eq!(int(&text, n), expected, "{n}");
    }
}

#[test]
fn equality_is_structural() {
    let text = "type T = A | B Int (List T) | C { p : (Real, Bool) }
    def same (a : T) (b : T) : Bool = a == b
    def f (n : Int) : Int =
      let t = B n [A, C { p = (1.5, true) }, B 2 []] in
      let u = B 3 [A, C { p = (1.5, true) }, B 2 []] in
      let v = B 3 [A, C { p = (1.5, false) }, B 2 []] in
      let count b = if b then 1 else 0 in
      count (t == u) + 10 * count (u != v) + 100 * count ([| (1, [n]) |] == [| (1, [3]) |]) + 1000 * count ((1, n) == (1, 3))";
    assert_eq!((int(text, 3), int(text, 4)), (1111, 10));
    let long = "def build (n : Int) (xs : List Int) : List Int = if n == 0 then xs else build (n - 1) (n :: xs)
    def f (n : Int) : Int = if build n [] == build n [] then 1 else 0";
    assert_eq!(int(long, 1_000_000), 1);
}

#[test]
fn errors_stop_with_their_text() {
    let text = "def f (n : Int) : Int = if n > 0 then n else error \"not positive\"";
    assert_eq!(int(text, 2), 2);
    let error = function(text).call(&[Value::Int(0)]).unwrap_err();
    assert!(error.to_string().contains("not positive"), "{error}");
}

#[test]
fn recursion_through_a_list_may_be_deep() {
    let text = "def my_sum (xs : List Real) : Real = match xs with | [] -> 0 | x :: rest -> x + my_sum rest
    def up (n : Int) : List Real = if n == 0 then [] else 1.5 :: up (n - 1)
    def f (n : Int) : Real = my_sum (up n)";
    assert_eq!(run(text, &[Value::Int(300_000)]), Value::Real(450_000.0));
}

#[test]
fn nested_types_of_growing_size_are_refused() {
    let text = "type Nest a = Done a | More (Nest (List a))\ndef f (n : Nest Real) : Int = match n with | Done _ -> 0 | More _ -> 1";
    let errors = compile("test.dual", text).unwrap_err().to_string();
    assert!(errors.contains("too large"), "{errors}");
}

#[test]
fn fields_of_the_only_constructor_need_no_constructor_in_a_pattern() {
    let text = "type Point = Point { x : Real, at : (Int, Real) }
    def parts ({ x, at = (n, y) } : Point) : Real = x + to_real n * y
    def chosen (p : Point) : Real =
      match p with | { at = (0, y) } -> y | { x } if x > 10 -> 2 * x | { x, at = (_, y) } -> x * y
    def f (a : Real) (b : Real) : Real =
      let p = Point { x = a, at = (2, b) } in
      let { x } = p in
      parts p + 10 * chosen p + 100 * chosen (Point { x = 20 * x, at = (1, b) })
        + 1000 * chosen (Point { x, at = (0, b) })";
    let (value, gradient) = function(text).value_and_grad(&reals(&[1.5, 4.0])).unwrap();
    assert_eq!(value, (1.5 + 8.0) + 10.0 * 6.0 + 100.0 * 60.0 + 1000.0 * 4.0);
    assert_eq!(gradient, reals(&[1.0 + 40.0 + 4000.0, 2.0 + 15.0 + 1000.0]));
}

#[test]
fn constructors_with_more_fields_than_an_object_holds_are_refused_at_their_name() {
    let program = |fields: usize| {
        let fields = vec!["(Real, Int, Real)"; fields].join(" ");
        format!("type Wide = None | Some {fields}\ndef f (w : Wide) : Int = match w with | None -> 0 | _ -> 1")
    };
    let fits = dualvm_frontend::compile("wide.dual", &program(85)).expect("255 numbers fit");
    assert!(dualvm_vm::verify::verify(&fits).is_ok());
    let error = dualvm_frontend::compile("wide.dual", &program(86)).expect_err("258 numbers don't fit").to_string();
    assert!(error.contains("wide.dual:1:20") && error.contains("`Some` holds 258 numbers and references"), "{error}");
    assert!(error.contains("keep many numbers in an array"), "{error}");
}
