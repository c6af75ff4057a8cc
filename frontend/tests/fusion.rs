//! Lists that are never made: what the generated code looks like, and that values, the order of sums and traps stay
//! what they were.

#[path = "support/compiled.rs"]
mod compiled;

use compiled::compiled;
use dualvm_vm::engine::{CallOptions, Config, Engine, Limits, Module, RunError};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;

/// How often some instructions are in a program.
fn counts<const N: usize>(text: &str, ops: [Op; N]) -> [usize; N] {
    let module = compiled(text);
    let code = || module.functions.iter().flat_map(|function| &function.body.code);
    ops.map(|op| code().filter(|inst: &&Inst| inst.op == op).count())
}

/// What `f` of a program gives, or how it traps.
fn run(text: &str, args: &[Value]) -> Result<Value, String> {
    let engine = Engine::new(Config::default());
    let module = Module::new(&engine, compiled(text)).unwrap();
    let f = module.function("f").expect("the program defines `f`");
    f.call(args).map_err(|error| error.to_string())
}

fn list(values: &[f64]) -> Value {
    Value::Array(values.iter().map(|&value| Value::Real(value)).collect())
}

#[test]
fn a_sum_of_products_makes_no_list() {
    let text = "def f (a : List Real) (b : List Real) : Real = sum (zip_with (*) a b)";
    assert_eq!(counts(text, [Op::VariantNew, Op::ChainPush, Op::Call, Op::Mul, Op::Add]), [0, 0, 0, 1, 1]);
    // The first product is added first.
    let (a, b) = (list(&[1e16, 1.0, -1e16]), list(&[1.0, 1.0, 1.0]));
    assert_eq!(run(text, &[a.clone(), b]), Ok(Value::Real(1e16 + 1.0 - 1e16)));
    let shorter = run(text, &[a, list(&[1.0])]).expect_err("the lengths differ");
    assert!(shorter.starts_with("zip_with: the lists have different lengths"), "{shorter}");
    let piped = "def f (a : List Real) (b : List Real) : Real = let products = zip_with (*) a b in products |> sum";
    assert_eq!(counts(piped, [Op::VariantNew, Op::ChainPush]), [0, 0]);
}

#[test]
fn a_left_fold_of_a_map_is_a_loop() {
    let text = "def f (k : Real) (a : List Real) : Real = a |> map (* k) |> map (+ 1) |> fold (\\s x -> 2 * s + x) 0";
    let made = [Op::VariantNew, Op::ChainPush, Op::Call, Op::TailCall, Op::Payload];
    assert_eq!(counts(text, made), [0, 0, 0, 0, 1]);
    assert_eq!(run(text, &[Value::Real(3.0), list(&[1.0, 2.0])]), Ok(Value::Real(15.0)));
    let text = "def f (a : List Real) : Int = length (filter (> 1) (map (* 2) a))";
    assert_eq!(counts(text, made), [0, 0, 0, 0, 1]);
    assert_eq!(run(text, &[list(&[1.0, 0.25, 7.0])]), Ok(Value::Int(2)));
}

#[test]
fn functions_in_between_change_nothing() {
    let made = [Op::VariantNew, Op::ChainPush, Op::Call, Op::TailCall];
    // A consumer that hands its list on, with something to do behind it; and one that has a loop.
    let text = "private def norm (xs : List Real) (least : Real) : Real = max least (sqrt (sum (map (^ 2) xs)))
    def f (a : List Real) (k : Real) : Real = norm (map (* k) a) 1";
    assert_eq!(counts(text, made), [0; 4]);
    assert_eq!(run(text, &[list(&[1.5, 2.0]), Value::Real(2.0)]), Ok(Value::Real(5.0)));
    let text = "private def total (xs : List Real) : Real = loop t = 0.0 for x in xs do 2 * t + x
    def f (a : List Real) : Real = total (map (+ 1) a)";
    assert_eq!(counts(text, made), [0; 4]);
    assert_eq!(run(text, &[list(&[1.0, 2.0])]), Ok(Value::Real(7.0)));
    // A producer that returns the list of another one; and both.
    let text = "private def scaled (k : Real) (xs : List Real) : List Real = let twice = 2 * k in map (* twice) xs
    def f (k : Real) (a : List Real) : Real = fold (\\s x -> s - x) k (scaled k a)
    def g (k : Real) (a : List Real) : Int = length (scaled k (scaled k a))";
    assert_eq!(counts(text, made), [0; 4]);
    assert_eq!(run(text, &[Value::Real(1.0), list(&[1.0, 2.0])]), Ok(Value::Real(-5.0)));
}

#[test]
fn a_list_that_is_filtered_is_not_made() {
    let made = [Op::VariantNew, Op::ChainPush, Op::Call, Op::TailCall];
    let text = "def f (a : List Real) : Real = sum (filter (> 1) (filter (< 7) (map (* 2) a)))";
    assert_eq!(counts(text, made), [0; 4]);
    assert_eq!(run(text, &[list(&[3.0, 1.0, 0.25, 7.0, 2.0])]), Ok(Value::Real(12.0)));
    // Where a list is the result, only that is made.
    let made = [Op::ChainPush, Op::Call, Op::TailCall];
    let text = "def f (a : List Real) : List Real = filter (> 1) (filter (< 7) (map (* 2) a))";
    assert_eq!(counts(text, made), [1, 0, 0]);
    let text = "def f (n : Int) (a : Array Real) : List Int = filter (\\i -> a[i] > 1) (range 0 n)";
    assert_eq!(counts(text, made), [1, 0, 0]);
    assert_eq!(run(text, &[Value::Int(2), Value::Reals(vec![0.5, 2.0])]), Ok(Value::Array(vec![Value::Int(1)])));
    assert!(run(text, &[Value::Int(3), Value::Reals(vec![0.5, 2.0])]).is_err());
    // What the map computes from its index is computed once, wherever the filter goes on.
    let text =
        "private def squares (i : Int) (n : Int) : List Int = if i >= n then [] else i * i :: squares (i * 1 + 1) n
    def f (n : Int) : Int = sum (filter (> 3) (squares 0 n))";
    assert_eq!(run(text, &[Value::Int(5)]), Ok(Value::Int(29)));
}

#[test]
fn lists_that_functions_capture_are_taken_apart_there() {
    let made = [Op::VariantNew, Op::ChainPush, Op::Call, Op::TailCall, Op::VariantTag];
    let text = "def f (xs : Array Real) : Real =
        let cs = [1, 10, 100] in sum (map (\\x -> fold (\\s c -> s * x + c) 0 cs) xs)";
    assert_eq!(counts(text, made), [0; 5]);
    assert_eq!(run(text, &[Value::Reals(vec![2.0, 1.0])]), Ok(Value::Real(124.0 + 111.0)));
    // It is made once where it isn't taken apart.
    let text = "def f (k : Int) (xs : Array Real) : Array (List Real) =
        let cs = [1, 10, 100] in map (\\x -> if x > 1 then x :: cs else drop k cs) xs";
    let found = run(text, &[Value::Int(2), Value::Reals(vec![2.0, 1.0])]);
    let expected = [vec![2.0, 1.0, 10.0, 100.0], vec![100.0]].map(Value::Reals);
    assert_eq!(found, Ok(Value::Array(expected.to_vec())));
}

#[test]
fn lists_in_the_program_are_taken_apart_where_they_stand() {
    let made = [Op::VariantNew, Op::ChainPush, Op::Call, Op::TailCall, Op::VariantTag];
    let value = |text: &str, args: &[f64]| {
        assert_eq!(counts(text, made), [0; 5], "{text}");
        match run(text, &args.iter().map(|&arg| Value::Real(arg)).collect::<Vec<_>>()) {
            Ok(Value::Real(value)) => value,
            other => panic!("{text}: {other:?}"),
        }
    };
    assert_eq!(value("def f (x : Real) (y : Real) : Real = sum [x, y, x * y]", &[2.0, 3.0]), 11.0);
    // The order of the elements is that of the list, for loops, left folds and right folds.
    let horner = "def f (x : Real) : Real = foldr (\\c s -> c + x * s) 0 [1, 10, 100]";
    assert_eq!(value(horner, &[2.0]), 421.0);
    let folded = "def f (x : Real) : Real = fold (\\s c -> s * x + c) 0 [1, 10, 100]";
    assert_eq!(value(folded, &[2.0]), 124.0);
    let looped = "def f (x : Real) : Real = let cs = [1, 10, 100] in loop s = x for c in cs do s * x + c";
    assert_eq!(value(looped, &[2.0]), 16.0 + 4.0 + 20.0 + 100.0);
    let constant = "def cs : List Real = [1, 10, 100]
    def f (x : Real) : Real = foldr (\\c s -> c + x * s) 0 cs";
    let text = format!("{constant} + sum cs");
    let module = compiled(&text);
    let f = module.functions.iter().find(|function| function.name == "f").expect("the program defines `f`");
    assert!(f.body.code.iter().all(|inst| !made.contains(&inst.op)), "{text}");
    assert_eq!(run(&text, &[Value::Real(2.0)]), Ok(Value::Real(421.0 + 111.0)));
    let own = "private def poly (cs : List Real) (x : Real) : Real = match cs with | [] -> 0 | c :: rest -> c + x * poly rest x
    def f (x : Real) : Real = poly [1, 10, 100] x";
    assert_eq!(value(own, &[2.0]), 421.0);
    // Producers and functions in between, and elements of several numbers.
    let between = "private def norm (k : Real) (xs : List Real) : Real = sqrt (k * sum (map (^ 2) xs))
    def f (x : Real) : Real = norm 4 [3, x]";
    assert_eq!(value(between, &[4.0]), 10.0);
    let pairs = "def f (x : Real) : Real = sum (map (\\(a, b) -> a * b) [(x, 2), (3, x)])";
    assert_eq!(value(pairs, &[5.0]), 25.0);
    assert_eq!(value("def f (x : Real) : Real = x + sum []", &[5.0]), 5.0);
    // An end before the list's.
    let found = "def f (x : Real) : Real = if any (> 2) [x, 2 * x, 3 * x] then 1 else 0";
    assert_eq!((value(found, &[0.5]), value(found, &[0.7])), (0.0, 1.0));
}

#[test]
fn lists_in_the_program_are_made_where_that_is_less() {
    // What goes on at two places would be written out twice for each element.
    let text = "def f (x : Real) : Int = length (filter (> 1) [x, 2 * x, 3 * x, 4 * x, 5 * x, 6 * x, 7 * x, 8 * x])";
    assert_eq!(run(text, &[Value::Real(0.3)]), Ok(Value::Int(5)));
    assert!(compiled(text).functions[0].body.code.len() < 100);
    // A long list.
    let numbers: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let text = format!("def f (x : Real) : Real = x + sum [{}]", numbers.join(", "));
    assert_eq!(counts(&text, [Op::VariantTag]), [1]);
    assert_eq!(run(&text, &[Value::Real(1.0)]), Ok(Value::Real(781.0)));
    // Many lists: code has a bound, however many there are.
    let sums: Vec<String> = (0..500).map(|n| format!("sum [x, {n}, x * {n}, 1, 2, 3, 4, 5, 6, 7]")).collect();
    let text = format!("def f (x : Real) : Real = {}", sums.join(" + "));
    let terms = (0..500).map(|n| 2.0 + f64::from(n) + 2.0 * f64::from(n) + 28.0);
    assert_eq!(run(&text, &[Value::Real(2.0)]), Ok(Value::Real(terms.sum())));
    // Traps of elements come before those of what takes them.
    let text = "def f (n : Int) : Real =
      fold (\\s x -> if x > 3 then error \"taken\" else s + x) 0 [4, to_real (10 / n), if n > 5 then error \"made\" else 1]";
    for (n, message) in [(0, "zero"), (6, "made"), (1, "taken")] {
        assert!(run(text, &[Value::Int(n)]).unwrap_err().contains(message), "{n}");
    }
}

#[test]
fn a_rest_that_is_taken_twice_is_made() {
    // Else, it would be made anew each time.
    let text = "private def double (xs : List Real) : Real =
        match xs with | [] -> 1 | x :: rest -> x + double rest + double rest
    def f (a : List Real) : Real = double (map (* 2) a)";
    assert_eq!(counts(text, [Op::ChainPush]), [1]);
    assert_eq!(run(text, &[list(&[1.0, 2.0])]), Ok(Value::Real(14.0)));
    // In a loop, that is at one place.
    let text = "private def each (xs : List Real) : Real =
        match xs with | [] -> 1 | x :: rest -> loop s = x for i < 2 do s + each rest
    private def after (xs : List Real) : Real = 1 + each xs
    def f (a : List Real) : Real = each (map (* 2) a)
    def g (a : List Real) : Real = after (map (* 2) a)";
    assert_eq!(counts(text, [Op::ChainPush]), [2]);
    assert_eq!(run(text, &[list(&[1.0, 2.0])]), Ok(Value::Real(14.0)));
}

#[test]
fn what_traps_before_the_list_is_taken_apart_does_so() {
    // By then, the list has been made, which has a trap of its own.
    let text = "def first (xs : List Real) (i : Int) : Real = let j = 1 / i in to_real j + sum xs
    def f (a : List Real) (i : Int) : Real = first (map (\\x -> if x > 5 then error \"map\" else x) a) i";
    assert!(run(text, &[list(&[6.0]), Value::Int(0)]).unwrap_err().contains("map"));
    assert!(run(text, &[list(&[4.0]), Value::Int(0)]).unwrap_err().contains("zero"));
    assert_eq!(run(text, &[list(&[4.0, 1.0]), Value::Int(1)]), Ok(Value::Real(6.0)));
}

#[test]
fn maps_of_maps_make_one_list() {
    let text = "def f (a : List Real) : List Real = map exp (map (* 2) (zip_with (-) a a))";
    assert_eq!(counts(text, [Op::ChainPush, Op::Call]), [1, 0]);
    assert_eq!(run(text, &[list(&[1.0, 2.0])]), Ok(Value::Reals(vec![1.0, 1.0])));
    let text = "def f (a : List Real) : Real = sum (append (map (* 2) a) [100]) + sum (map (* 3) (filter (> 1) a))";
    assert_eq!(run(text, &[list(&[1.0, 2.0])]), Ok(Value::Real(112.0)));
}

#[test]
fn a_list_that_is_used_twice_is_made() {
    let text = "def f (a : List Real) : Real = let b = map exp a in sum b / to_real (length b)";
    assert_ne!(counts(text, [Op::ChainPush]), [0]);
}

#[test]
fn the_trap_that_comes_first_is_the_same() {
    // The map has traps in store, and the fold would stop at its first step.
    let text = "def f (a : List Real) : Real =
      fold (\\s x -> if x > 1 then error \"fold\" else s + x) 0 (map (\\x -> if x > 5 then error \"map\" else x) a)";
    assert!(run(text, &[list(&[2.0, 6.0])]).unwrap_err().contains("map"));
    assert!(run(text, &[list(&[2.0, 4.0])]).unwrap_err().contains("fold"));
    // A consumer that stops at once.
    let text = "def f (a : List Real) : Bool = any (> 1) (map (\\x -> if x > 5 then error \"map\" else x) a)";
    assert!(run(text, &[list(&[2.0, 6.0])]).unwrap_err().contains("map"));
    assert_eq!(run(text, &[list(&[2.0, 3.0])]), Ok(Value::Bool(true)));
    let text = "def f (a : List Real) : Bool = any (> 1) (map (* 2) a)";
    assert_eq!(counts(text, [Op::VariantNew, Op::ChainPush, Op::Call]), [0, 0, 0]);
    // What comes after the rest may trap: all of the map's work is done by then.
    let text = "def total xs = match xs with | [] -> 0 | x :: rest -> let s = total rest in
        if s > 3 then error \"total\" else x + s
    def f (a : List Real) : Real = total (map (\\x -> if x > 5 then error \"map\" else x) a)";
    assert!(run(text, &[list(&[6.0, 2.0, 4.0])]).unwrap_err().contains("map"));
    assert!(run(text, &[list(&[1.0, 2.0, 4.0])]).unwrap_err().contains("total"));
}

#[test]
fn a_producer_without_end_runs_out_of_memory() {
    let text = "def from (x : Real) : List Real = x :: from (x + 1)
    def f (x : Real) : Bool = any (> 3) (from x)
    def g (x : Real) : Real = fold (+) 0 (from x)";
    let [pushes] = counts(text, [Op::ChainPush]);
    assert!(pushes >= 3, "{pushes}");
    let module = Module::new(&Engine::new(Config::default()), compiled(text)).unwrap();
    let options = CallOptions::with_limits(Limits { live_bytes: 10_000_000, ..Limits::default() });
    for name in ["f", "g"] {
        let outcome = module.function(name).unwrap().call_with(&[Value::Real(1.0)], &options);
        let Err(RunError::Trap(trap)) = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!(trap.kind, TrapKind::Limit(Limit::LiveBytes), "{name}");
    }
}

#[test]
fn the_other_branch_of_a_tree_is_no_rest() {
    let text = "type Tree = Leaf | Node Tree Tree
    def right (n : Int) : Tree = if n == 0 then Leaf else Node Leaf (right (n - 1))
    def lefts (t : Tree) : Int = match t with | Leaf -> 0 | Node left _ -> 1 + lefts left
    def rights (t : Tree) : Int = match t with | Leaf -> 0 | Node _ right -> 1 + rights right
    def f (n : Int) : Int = 10 * lefts (right n) + rights (right n)";
    assert_eq!(run(text, &[Value::Int(4)]), Ok(Value::Int(14)));
}
