//! Functions as values: what programs with them compute, and that nothing of them is left where they are known.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::isa::Op;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::value::Value;

fn definition(text: &str) -> ModuleDef {
    compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn module(text: &str) -> Module {
    Module::new(&Engine::new(Config::default()), definition(text)).unwrap_or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("the verifier refuses:\n{}\n{text}", errors.join("\n"))
    })
}

fn real(text: &str, args: &[f64]) -> f64 {
    let args: Vec<Value> = args.iter().map(|&x| Value::Real(x)).collect();
    let found = module(text).function("f").expect("the program defines it").call(&args);
    found.unwrap_or_else(|error| panic!("{error}\n{text}")).as_real().expect("a real")
}

fn gradient(text: &str, args: &[f64]) -> Vec<f64> {
    let args: Vec<Value> = args.iter().map(|&x| Value::Real(x)).collect();
    let (_, gradient) = module(text).function("f").expect("the program defines it").value_and_grad(&args).unwrap();
    gradient.iter().map(|value| value.as_real().expect("a real")).collect()
}

/// How many instructions of a kind the whole program has.
fn count(text: &str, op: Op) -> usize {
    let module = definition(text);
    module.functions.iter().flat_map(|function| &function.body.code).filter(|inst| inst.op == op).count()
}

fn has_no_closures(text: &str) {
    for op in [Op::ClosureNew, Op::CallClosure, Op::TailCallClosure] {
        assert_eq!(count(text, op), 0, "{op:?} in\n{text}");
    }
}

#[test]
fn lambdas_sections_partial_applications_and_compositions_compute() {
    let programs = [
        ("def f (x : Real) : Real = (\\y -> y * x) 3", 6.0),
        ("def f (x : Real) : Real = let g y = y * x in g 3 + g 4", 14.0),
        ("def add a b = a + b\ndef f (x : Real) : Real = let g = add x in g 1", 3.0),
        ("def f (x : Real) : Real = (+ 1) x + (2 *) x + (/ 2) x + (3 -) x", 3.0 + 4.0 + 1.0 + 1.0),
        ("def f (x : Real) : Real = ((+ 1) >> (* 2)) x - ((+ 1) << (* 2)) x", 6.0 - 5.0),
        ("def f (x : Real) : Real = x |> sin |> (\\s -> s * s) |> (+) 1.0", 1.0 + 2f64.sin() * 2f64.sin()),
        ("def twice g x = g (g x)\ndef f (x : Real) : Real = twice (twice (* 2)) x", 32.0),
        ("def f (x : Real) : Real = let (g, h) = ((+ 1), (* 3)) in h (g x)", 9.0),
        ("def curry g a b = g (a, b)\ndef f (x : Real) : Real = curry (\\(a, b) -> a - b) x 1", 1.0),
        ("def apply g = g\ndef f (x : Real) : Real = apply sin x", 2f64.sin()),
        ("def make k = \\x -> k * x\ndef f (x : Real) : Real = make 2 x + make x 5", 14.0),
        ("def f (x : Real) : Real = let r = { g = (* 2), k = 3.0 } in r.g (r.k) + x", 8.0),
        ("def f (x : Real) : Real = let id y = y in if id true then id x else id 0", 2.0),
        ("def f (x : Real) : Real = let pair a = (a, a) in let (p, _) = pair x in let (q, _) = pair 1 in p ^ q", 2.0),
    ];
    for (text, expected) in programs {
        assert_eq!(real(text, &[2.0]), expected, "{text}");
        has_no_closures(text);
    }
}

#[test]
fn functions_chosen_at_run_time_are_closures() {
    let chosen = "def f (x : Real) (k : Real) : Real = let g = if x > 0 then \\y -> y * k else sin in g x + g 1";
    assert_eq!(real(chosen, &[2.0, 3.0]), 9.0);
    assert_eq!(gradient(chosen, &[2.0, 3.0]), [3.0, 3.0]);
    assert_eq!(count(chosen, Op::ClosureNew), 2);
    let listed = "def compose fs x = match fs with | [] -> x | g :: rest -> compose rest (g x)
    def f (x : Real) (k : Real) : Real = compose [(+ k), (* k), \\y -> y - x] x";
    assert_eq!(real(listed, &[2.0, 3.0]), 13.0);
    assert_eq!(gradient(listed, &[2.0, 3.0]), [2.0, 8.0]);
    let in_data = "type Layer = Linear (Real -> Real) | Twice Layer
    def run l x = match l with | Linear g -> g x | Twice inner -> run inner (run inner x)
    def f (x : Real) (k : Real) : Real = run (Twice (Twice (Linear (* k)))) x";
    assert_eq!(real(in_data, &[2.0, 3.0]), 162.0);
    assert_eq!(gradient(in_data, &[2.0, 3.0]), [81.0, 216.0]);
    let iterated = "def iterate n g = if n == 0 then \\x -> x else let h = iterate (n - 1) g in \\x -> g (h x)
    def f (x : Real) (k : Real) : Real = iterate 5 (* k) x";
    assert_eq!(real(iterated, &[1.0, 2.0]), 32.0);
    let partial = "def choose c = if c then (\\a b -> a - b) else (\\a b -> b - a)
    def f (x : Real) (k : Real) : Real = let g = choose (x > 0) x in g k + g 1";
    assert_eq!(real(partial, &[2.0, 3.0]), 0.0);
}

#[test]
fn unbounded_specialisation_ends_in_closures() {
    let text = "def grow (g : Real -> Real) (n : Int) (x : Real) : Real =
      if n == 0 then g x else if n % 2 == 0 then grow (\\y -> g (y + 1)) (n - 1) x else grow (\\y -> g (y * 2)) (n - 1) x
    def f (x : Real) : Real = grow (\\y -> y) 20 x";
    let mut expected = 1.5;
    for n in 1..=20 {
        expected = if n % 2 == 0 { expected + 1.0 } else { expected * 2.0 };
    }
    assert_eq!(real(text, &[1.5]), expected);
}

const LISTS: &str = "def my_map g xs = match xs with | [] -> [] | x :: rest -> g x :: my_map g rest
def my_fold g init xs = match xs with | [] -> init | x :: rest -> my_fold g (g init x) rest
";

#[test]
fn folds_with_known_functions_are_loops() {
    let text = format!(
        "{LISTS}def f (xs : List (Real, Real)) (k : Real) : Real = my_fold (\\acc (x, w) -> acc + k * x * w) 0.0 xs"
    );
    has_no_closures(&text);
    assert_eq!(count(&text, Op::Call) + count(&text, Op::VariantNew), 0);
    let pair = |a, b| Value::Tuple(vec![Value::Real(a), Value::Real(b)]);
    let list = Value::Array(vec![pair(1.0, 2.0), pair(3.0, 4.0)]);
    let function = module(&text).function("f").unwrap();
    let (value, gradient) = function.value_and_grad(&[list, Value::Real(2.0)]).unwrap();
    assert_eq!(value, 28.0);
    assert_eq!(gradient[0], Value::Array(vec![pair(4.0, 2.0), pair(8.0, 6.0)]));
    assert_eq!(gradient[1], Value::Real(14.0));
}

#[test]
fn maps_with_known_functions_call_no_closures() {
    let text = format!("{LISTS}def f (xs : List Real) (k : Real) : List Real = my_map (\\x -> k * x) (my_map sin xs)");
    has_no_closures(&text);
    let list = |values: &[f64]| Value::Reals(values.to_vec());
    let found = module(&text).function("f").unwrap().call(&[list(&[0.0, 1.0]), Value::Real(2.0)]).unwrap();
    assert_eq!(found, list(&[0.0, 2.0 * 1f64.sin()]));
}

#[test]
fn local_functions_may_be_recursive_and_polymorphic() {
    let power = "def f (x : Real) : Real = let go n acc = if n == 0 then acc else go (n - 1) (acc * x) in go 5 1";
    assert_eq!(real(power, &[2.0]), 32.0);
    assert_eq!(count(power, Op::Call) + count(power, Op::TailCall), 0);
    let mutual = "def f (x : Real) : Real =
      let up n acc = if n == 0 then acc else down (n - 1) (acc * x)
      and down n acc = if n == 0 then acc else up (n - 1) (acc + x) in up 5 1";
    assert_eq!(real(mutual, &[2.0]), 20.0);
    let two_types = "def f (x : Real) : Real =
      let rec_length xs = match xs with | [] -> 0 | _ :: rest -> 1 + rec_length rest in
      x * to_real (rec_length [1.0, 2.0] + rec_length [true])";
    assert_eq!(real(two_types, &[2.0]), 6.0);
    let nested = "def f (x : Real) : Real =
      let outer k = let inner n = if n == 0 then k else x + inner (n - 1) in inner 3 in outer 1 + outer x";
    assert_eq!(real(nested, &[2.0]), 7.0 + 8.0);
}

#[test]
fn what_is_shared_is_computed_once() {
    let mut text =
        "def f (x : Real) : Real =\n  let dup g = \\y -> g y + g y in\n  let f0 = \\y -> y * x in\n".to_owned();
    for i in 0..10 {
        text += &format!("  let f{} = dup f{i} in\n", i + 1);
    }
    text += "  f10 1";
    assert_eq!(real(&text, &[3.0]), 3.0 * 1024.0);
    assert_eq!(gradient(&text, &[3.0]), [1024.0]);
    assert!(definition(&text).functions.iter().map(|function| function.body.code.len()).sum::<usize>() < 30_000);
}

#[test]
fn functions_of_bits_are_instructions_are_folded_and_may_be_values() {
    let text = "def f (x : Real) = let n = to_int x in to_real (bit_or (shift_left n 3) (bit_count (bit_and n 10)))";
    assert_eq!(real(text, &[11.0]), f64::from(11 << 3 | 2));
    assert_eq!([Op::IOr, Op::IShl, Op::IPopcnt, Op::IAnd].map(|op| count(text, op)), [1; 4]);
    let text = "def f (x : Real) = to_real (bit_xor (shift_right (-12) 65) (trailing_zeros 40 + leading_zeros 1)) * x";
    assert_eq!(real(text, &[1.0]), f64::from((-6) ^ (3 + 63)));
    assert_eq!([Op::IXor, Op::IShr, Op::IPopcnt, Op::IClz].map(|op| count(text, op)), [0; 4]);
    let text = "def f (x : Real) = to_real (fold bit_xor 0 (map (shift_left 1) [0, 2, 5])) * x";
    assert_eq!(real(text, &[2.0]), f64::from(2 * 0b100101));
    has_no_closures(text);
}

#[test]
fn arms_behind_a_guard_may_be_functions_of_other_captures_than_the_match() {
    let text = "type T = A Real | B T
def chosen (t : T) (x : Real) f g =
  match t with
  | A v if x > 0 -> \\w -> v + w
  | A v -> g << g
  | B v -> f
def f (x : Real) : Real =
  let combined t = preduce (chosen t x) (\\v -> v * x) [cube, square] in
  combined (A 10) 2 + combined (B (A 1)) 3";
    // The first arm gives 10 + w, the second the last element twice, the third the first element.
    assert_eq!(real(text, &[1.0]), 12.0 + 27.0);
    assert_eq!(real(text, &[-1.0]), 16.0 + 27.0);
}

#[test]
fn what_a_closure_captures_has_a_bound() {
    let program = |captured: usize| {
        let lets: String = (0..captured).map(|n| format!("  let x{n} = sin (x * {n}.5) in\n")).collect();
        let sum: Vec<String> = (0..captured).map(|n| format!("x{n}")).collect();
        let sum = sum.join(" + ");
        format!("def f (x : Real) (ys : List Real) : Real =\n{lets}  foldr (\\y s -> y * ({sum}) + s) 0 ys")
    };
    module(&program(255));
    let errors = compile("test.dual", &program(256)).expect_err("an object has 255 fields").to_string();
    assert!(errors.contains("more than 255 numbers and references that a function captures"), "{errors}");
}
