//! Arithmetic of integers after it was put together anew: how many operations are left, and that it gives the same
//! numbers, whatever wraps around.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::isa::Op;
use dualvm_vm::value::Value;
use std::fmt;

/// How many sums, products, quotients and shifts are between the inner loop's head and its end. Counting rounds is one.
fn in_inner_loop(index: &str) -> [usize; 4] {
    let text = format!(
        "def f (a : Array Real) (d : Int) (n : Int) : Real =
           loop s = 0.0 for i < n do loop t = s for j < n do t + {index}"
    );
    let module = compile("test.dual", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let (_, f) = module.function("f").expect("the program defines it");
    let ops: Vec<Op> = f.body.code.iter().map(|inst| inst.op).collect();
    let branches: Vec<usize> = (0..ops.len()).filter(|&at| ops[at] == Op::Branch).collect();
    // The loads are between the branch into the inner loop and the one that ends a round of it.
    let loads = |pair: &&[usize]| ops[pair[0]..pair[1]].iter().filter(|&&op| op == Op::Elem).count();
    let pair = branches.windows(2).max_by_key(loads).expect("there are two loops");
    let count = |wanted: &[Op]| ops[pair[0]..pair[1]].iter().filter(|op| wanted.contains(op)).count();
    [count(&[Op::IAdd, Op::ISub, Op::INeg]), count(&[Op::IMul]), count(&[Op::IDiv]), count(&[Op::IShr])]
}

#[test]
fn indices_take_few_operations_in_the_innermost_loop() {
    // Each has one sum for its round.
    assert_eq!(in_inner_loop("a[i * d + j]"), [2, 0, 0, 0]);
    assert_eq!(in_inner_loop("a[j + d - 1 + i * d - 2]"), [2, 0, 0, 0]);
    assert_eq!(in_inner_loop("a[n - 1 - j]"), [2, 0, 0, 0]);
    assert_eq!(in_inner_loop("a[j * (2 * d - j - 1) / 2 + i - j - 1]"), [4, 1, 0, 1]);
    assert_eq!(in_inner_loop("a[i * (i + 1) / 2 + j]"), [2, 0, 0, 0]);
    // It isn't known that this is even.
    assert_eq!(in_inner_loop("a[j * (d - j) / 2 + i]"), [3, 1, 1, 0]);
    // What differs by a number shares the rest.
    assert_eq!(in_inner_loop("a[i * d + j - 1] * a[i * d + j] * a[i * d + j + 1]"), [4, 0, 0, 0]);
}

#[test]
fn what_is_compared_with_itself_is_not_compared() {
    let ops = |text: &str| -> Vec<Op> {
        let module = compile("test.dual", text).unwrap_or_else(|errors| panic!("{errors}"));
        let (_, f) = module.function("f").expect("the program defines it");
        f.body.code.iter().map(|inst| inst.op).collect()
    };
    assert!(!ops("def f (n : Int) : Int = if n == n then 1 else error \"never\"").contains(&Op::Branch));
    // The lengths of two arrays that are one.
    let comparisons = [Op::IEq, Op::INe];
    let has_none = |text: &str| !ops(text).iter().any(|op| comparisons.contains(op));
    assert!(has_none("def f (a : Array Real) : Real = dot a a"));
    assert!(!has_none("def f (a : Array Real) (b : Array Real) : Real = dot a b"));
    // A real may not be a number.
    assert!(ops("def f (x : Real) : Int = if x == x then 1 else 0").contains(&Op::Eq));
}

#[test]
fn loads_and_traps_stay_in_their_order() {
    let text = "def f (a : Array Int) (b : Array Int) (i : Int) : Int = 0 - a[i] + (b[i] - 3) - (4 - a[i + 1])";
    let engine = Engine::new(Config::default());
    let module = Module::new(&engine, compile("test.dual", text).unwrap()).unwrap();
    let f = module.function("f").expect("the program defines it");
    let ints = |ints: &[i64]| Value::Array(ints.iter().map(|&n| Value::Int(n)).collect());
    assert_eq!(f.call(&[ints(&[5, 7]), ints(&[11]), Value::Int(0)]), Ok(Value::Int(-5 + 8 - (4 - 7))));
    // The first that fails is the one that it is as it is written.
    for (a, b, column) in [(vec![], vec![], 61), (vec![1], vec![], 69), (vec![1], vec![2], 86)] {
        let error = f.call(&[ints(&a), ints(&b), Value::Int(0)]).unwrap_err().to_string();
        assert!(error.contains(&format!("test.dual:1:{column}")), "{error}");
    }
}

#[test]
fn what_a_term_binds_is_read_after_it() {
    // Where the loads are one, the second is what the first is bound to. The array that is taken in has the sums put
    // together once more.
    let text = "def f (a : Array Int) (n : Int) : Int =
        let b = [| -(a[i] * i) + (a[i] * i) + a[i] - i - 1 for i < n |] in
        loop s = 0 for j < n do s * 3 + b[j]";
    let engine = Engine::new(Config::default());
    let module = Module::new(&engine, compile("test.dual", text).unwrap()).unwrap();
    let f = module.function("f").expect("the program defines it");
    let a = [7, -2, i64::MAX, 11];
    let expected = (0..4).fold(0i64, |s, j| s.wrapping_mul(3).wrapping_add(a[j].wrapping_sub(j as i64 + 1)));
    let a = Value::Array(a.map(Value::Int).into());
    assert_eq!(f.call(&[a, Value::Int(4)]), Ok(Value::Int(expected)));
}

/// An expression of the variables of two loops and of two parameters.
enum Expr {
    Var(usize),
    Number(i64),
    Negated(Box<Expr>),
    Binary(char, Box<Expr>, Box<Expr>),
}

const NAMES: [&str; 4] = ["m", "n", "i", "j"];

/// A source of numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

impl Expr {
    fn random(dice: &mut Dice, depth: u32) -> Expr {
        if depth == 0 || dice.below(8) == 0 {
            return match dice.below(2) {
                0 => Expr::Var(dice.below(NAMES.len())),
                _ => Expr::Number(dice.below(7) as i64 - 3),
            };
        }
        let mut part = || Box::new(Expr::random(dice, depth - 1));
        let (a, b) = (part(), part());
        match dice.below(12) {
            0 => Expr::Negated(a),
            1..=4 => Expr::Binary('+', a, b),
            5..=8 => Expr::Binary('-', a, b),
            9 | 10 => Expr::Binary('*', a, b),
            _ => Expr::Binary('/', a, Box::new(Expr::Number(2))),
        }
    }

    fn value(&self, vars: [i64; 4]) -> i64 {
        match self {
            Expr::Var(n) => vars[*n],
            Expr::Number(n) => *n,
            Expr::Negated(a) => a.value(vars).wrapping_neg(),
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.value(vars), b.value(vars));
                match op {
                    '+' => a.wrapping_add(b),
                    '-' => a.wrapping_sub(b),
                    '*' => a.wrapping_mul(b),
                    _ => a / b,
                }
            }
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Var(n) => f.write_str(NAMES[*n]),
            Expr::Number(n) => write!(f, "({n})"),
            Expr::Negated(a) => write!(f, "(-{a})"),
            Expr::Binary(op, a, b) => write!(f, "({a} {op} {b})"),
        }
    }
}

#[test]
fn random_expressions_have_the_value_that_they_are_written_to_have() {
    let engine = Engine::new(Config::default());
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let parts: [Expr; 2] = std::array::from_fn(|_| Expr::random(&mut dice, 5));
        let [first, second] = &parts;
        let text = format!(
            "def f (m : Int) (n : Int) : Int =
               loop s = 0 for i < 3 do loop t = s for j < 4 do (t * 31 + {first}) * 7 + {second}"
        );
        let module = compile("test.dual", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let module = Module::new(&engine, module).unwrap();
        let f = module.function("f").expect("the program defines it");
        for (m, n) in [(0, 1), (5, -8), (i64::MAX, 3), (i64::MIN, i64::MAX), (1 << 62, 1 << 32)] {
            let mut expected = 0i64;
            for vars in (0..3).flat_map(|i| (0..4).map(move |j| [m, n, i, j])) {
                let [first, second] = [first.value(vars), second.value(vars)];
                expected = expected.wrapping_mul(31).wrapping_add(first).wrapping_mul(7).wrapping_add(second);
            }
            assert_eq!(f.call(&[Value::Int(m), Value::Int(n)]), Ok(Value::Int(expected)), "seed {seed}: {text}");
        }
    }
}
