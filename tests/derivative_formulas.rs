//! `Module::formulas` and `dualvm disasm --derivative`: what is printed, and that its numbers are the derivatives.

#[path = "support/program.rs"]
mod program;

use dualvm::vm::{math, text};
use dualvm::{Engine, Formula, Formulas, Module, Value};
use program::Workspace;
use std::collections::HashMap;

fn formulas(module: &Module) -> Formulas {
    let (func, _) = module.def().function("f").expect("there is one");
    module.formulas(func)
}

fn assembled(source: &str) -> Formulas {
    let def = text::parse(source, "f.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    formulas(&Module::new(&Engine::default(), def).unwrap_or_else(|error| panic!("{error}")))
}

const PARTS: &str = "\
f (p : (Real, Real), y : Real) -> (Real, Real)

  piece 1: instructions 0 to 4
    primal
      t1 = p.0 * p.1
      r3 = sin(t1)
      r2 = (r3 * y - r3) / y
    tangent
      t2 = cos(t1)
      r3_tan = (p_tan.0 · p.1 + p_tan.1 · p.0) · t2
      t3 = 1.0 / y
      r2_tan = (r3_tan · y + y_tan · r3 + -r3_tan) · t3 + y_tan · -(r2 / y)
    adjoint
      t4 = r2_adj · t3
      t5 = (r3_adj + -t4 + t4 · y) · t2
      p_adj.0 += t5 · p.1
      p_adj.1 += t5 · p.0
      y_adj += r2_adj · -(r2 / y) + t4 · r3
";

#[test]
fn parameters_have_their_names_and_shared_subexpressions_one() {
    let found = assembled(
        "func \"f\" (real, real, real) -> (real, real)
         export (p : (Real, Real), y : Real) -> (Real, Real)
         regs 5 real
         {
           mul r3, r0, r1
           sin r3, r3
           mul r4, r3, r2
           sub r1, r4, r3
           div r2, r1, r2
           ret (r2, r3) }",
    );
    assert_eq!(found.to_string(), PARTS);
}

const PLACES: &str = "\
f (xs : Array Real, ys : Array Real, n : Int) -> Real

  piece 1: instructions 3 to 4
    primal
      t1 = xs[n] ^ 3
      r1 = ys[3] * t1
    tangent
      t2 = 3.0 · xs[n] ^ 2
      r1_tan = ys_tan[3] · t1 + xs_tan[n] · t2 · ys[3]
    adjoint
      xs_adj[n] += r1_adj · ys[3] · t2
      ys_adj[3] += r1_adj · t1

  piece 2: instruction 7
    primal
      r3 = p2.1 ^ n
    tangent
      t1 = to_real(n) · p2.1 ^ (n - 1 + ishl(n == -9223372036854775808, 1))
      r3_tan = p2_tan.1 · t1
    adjoint
      p2_adj.1 += r3_adj · t1

  piece 3: instructions 10 to 14
    primal
      t1 = r3 - xs[i0]
      t2 = t1 * xs[i0]
      r3' = t2 * xs[0]
    tangent
      r3'_tan = ((r3_tan + -xs_tan[i0]) · xs[i0] + xs_tan[i0] · t1) · xs[0] + xs_tan[0] · t2
    adjoint
      t3 = r3'_adj · xs[0]
      t4 = t3 · xs[i0]
      r3_adj += t4
      xs_adj[i0] += t3 · t1 + -t4
      xs_adj[0] += r3'_adj · t2
";

/// A parameter is one as long as nothing else is written to its register: `n`, and then `i0`.
#[test]
fn what_is_read_of_an_array_or_an_object_has_the_name_of_its_place() {
    let found = assembled(
        "type t0 = array real
         type t1 = struct { real, real }
         func \"f\" (t0, t0, int) -> (real)
         export (xs : Array Real @t0, ys : Array Real @t0, n : Int) -> Real
         regs 4 real, 3 int, t0, t0, t1
         {
           iconst i1, 3
           elem r0, p0, i0
           elem r1, p1, i1
           powi r2, r0, i1
           mul r1, r1, r2
           struct_new p2 (r0, r1)
           field r3, p2, 1
           powi r3, r3, i0
           iadd i0, i0, i1
           elem r0, p0, i0
           sub r3, r3, r0
           mul r3, r3, r0
           iconst i2, 0
           elem r0, p0, i2
           mul r3, r3, r0
           ret (r3) }",
    );
    assert_eq!(found.to_string(), PLACES);
}

const LOADED: &str = "\
f (xs : Array Real, n : Int) -> Real

  piece 1: instructions 3 to 9
    primal
      t1 = r1@2 * r1@2
      r0' = r0 + t1 * xs[i0] / -2.5
    tangent
      t2 = r1@2_tan · r1@2
      r0'_tan = r0_tan + ((t2 + t2) · xs[i0] + xs_tan[i0] · t1) * -0.4
    adjoint
      t3 = r0'_adj * -0.4
      t4 = t3 · xs[i0] · r1@2
      r1@2_adj += t4 + t4
      xs_adj[i0] += t3 · t1
      r0_adj += r0'_adj
";

/// The first load isn't called by its place, because the index has moved on.
#[test]
fn a_loop_writes_what_it_reads_and_a_register_is_used_again() {
    let found = assembled(
        "type t0 = array real
         func \"f\" (t0, int) -> (real)
         export (xs : Array Real @t0, n : Int) -> Real
         regs 4 real, 2 int, t0
         {
           const r0, 0.0
           const r3, -2.5
         step:
           elem r1, p0, i0
           mul r2, r1, r1
           iconst i1, 1
           isub i0, i0, i1
           elem r1, p0, i0
           mul r2, r2, r1
           div r2, r2, r3
           add r0, r0, r2
           branch i0, step, done
         done:
           ret (r0) }",
    );
    assert_eq!(found.to_string(), LOADED);
}

#[test]
fn a_function_without_reals_has_no_pieces() {
    let found = assembled("func \"f\" (int) -> (int) regs 1 int { iadd i0, i0, i0\n ret (i0) }");
    assert_eq!(found.to_string(), "f (int) -> (int)\n  no real is computed here\n");
}

#[test]
fn the_command_prints_one_function_or_all() {
    let w = Workspace::new("formulas");
    w.write("f.dual", "def f (x : Real) : Real = x * x\ndef g (x : Real) (n : Int) : Real = f x + 1.0\n");
    let f = "f (x : Real) -> Real\n\n  piece 1: instruction 0, line 1, column 27\n    primal\n      r0 = x * x\n    \
             tangent\n      t1 = x_tan · x\n      r0_tan = t1 + t1\n    adjoint\n      t2 = r0_adj · x\n      \
             x_adj += t2 + t2\n";
    assert_eq!(w.stdout(&["disasm", "--derivative", "f.dual", "f"]), f);
    let all = w.stdout(&["disasm", "--derivative", "f.dual"]);
    assert!(all.starts_with(&format!("{f}\ng (x : Real, n : Int) -> Real\n")), "{all}");
    assert!(all.contains("= x * x + 1.0\n"), "{all}");

    let finished = w.run(&["disasm", "--derivative", "f.dual", "h"]);
    assert_eq!((finished.code, &*finished.stdout), (Some(2), ""));
    assert_eq!(finished.stderr, "error: f.dual: there is no function `h`\n  help: the module's functions are f, g\n");
    assert_eq!(w.run(&["disasm", "--derivative", "--native", "f.dual", "f"]).code, Some(2));
    assert!(w.stdout(&["disasm", "--help"]).contains("x_tan is the tangent of x"));
}

/// Evaluates formulas as they are printed.
struct Evaluator<'a> {
    left: Vec<&'a str>,
    values: &'a HashMap<String, f64>,
}

impl<'a> Evaluator<'a> {
    fn of(text: &'a str, values: &'a HashMap<String, f64>) -> f64 {
        let mut words = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let in_word = |c: char| c.is_alphanumeric() || "_.'@[]".contains(c);
            let len = match first {
                ' ' => 1,
                c if in_word(c) => rest.find(|c| !in_word(c)).unwrap_or(rest.len()),
                '=' | '<' | '!' => rest.find(' ').unwrap_or(rest.len()),
                c => c.len_utf8(),
            };
            words.push(rest[..len].trim());
            rest = &rest[len..];
        }
        words.retain(|word| !word.is_empty());
        words.reverse();
        let mut evaluator = Evaluator { left: words, values };
        let value = evaluator.choice();
        assert!(evaluator.left.is_empty(), "{text}: {:?} is left", evaluator.left);
        value
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.left.last() == Some(&word);
        if found {
            self.left.pop();
        }
        found
    }

    fn choice(&mut self) -> f64 {
        if !self.take("if") {
            return self.comparison();
        }
        let condition = self.comparison();
        assert!(self.take("then"));
        let then = self.comparison();
        assert!(self.take("else"));
        let otherwise = self.comparison();
        if condition != 0.0 { then } else { otherwise }
    }

    fn comparison(&mut self) -> f64 {
        let a = self.sum();
        let holds = match self.left.last() {
            Some(&"<") => |a: f64, b: f64| a < b,
            Some(&"<=") => |a: f64, b: f64| a <= b,
            Some(&"==") => |a: f64, b: f64| a == b,
            Some(&"!=") => |a: f64, b: f64| a != b,
            _ => return a,
        };
        self.left.pop();
        f64::from(holds(a, self.sum()))
    }

    fn sum(&mut self) -> f64 {
        let mut sum = self.product();
        loop {
            if self.take("+") {
                sum += self.product();
            } else if self.take("-") {
                sum -= self.product();
            } else {
                return sum;
            }
        }
    }

    fn product(&mut self) -> f64 {
        let mut product = self.signed();
        loop {
            if self.take("*") {
                product *= self.signed();
            } else if self.take("/") {
                product /= self.signed();
            } else if self.take("·") {
                product = math::strong_mul(product, self.signed());
            } else {
                return product;
            }
        }
    }

    fn signed(&mut self) -> f64 {
        if self.take("-") { -self.power() } else { self.power() }
    }

    fn power(&mut self) -> f64 {
        let base = self.atom();
        if self.take("^") { math::pow(base, self.atom()) } else { base }
    }

    fn atom(&mut self) -> f64 {
        if self.take("(") {
            let value = self.choice();
            assert!(self.take(")"));
            return value;
        }
        let word = self.left.pop().expect("there is an operand");
        if !self.take("(") {
            return word.parse().unwrap_or_else(|_| *self.values.get(word).unwrap_or_else(|| panic!("{word}?")));
        }
        let mut args = vec![self.choice()];
        while self.take(",") {
            args.push(self.choice());
        }
        assert!(self.take(")"));
        match (word, &*args) {
            ("sin", [x]) => math::sin(*x),
            ("cos", [x]) => math::cos(*x),
            ("exp", [x]) => math::exp(*x),
            ("log", [x]) => math::log(*x),
            ("sqrt", [x]) => x.sqrt(),
            ("tanh", [x]) => math::tanh(*x),
            ("tanh_slope", [x, t]) => math::tanh_slope(*x, *t),
            ("sigmoid", [x]) => math::sigmoid(*x),
            ("sigmoid_slope", [x, s]) => math::sigmoid_slope(*x, *s),
            ("to_real", [n]) => *n,
            ("abs", [x]) => x.abs(),
            ("sign", [x]) => math::sign(*x),
            ("min", [x, y]) => math::min(*x, *y),
            ("max", [x, y]) => math::max(*x, *y),
            _ => panic!("no function {word} of {}", args.len()),
        }
    }
}

fn evaluate(lines: &[Formula], values: &mut HashMap<String, f64>) {
    for line in lines {
        let value = Evaluator::of(&line.value, values);
        let before = if line.adds { values.get(&line.name).copied().unwrap_or(0.0) } else { 0.0 };
        values.insert(line.name.clone(), before + value);
    }
}

/// Piece after piece and back again, the printed formulas are forward and reverse mode: here for functions of one
/// piece, whose result is what that leaves.
#[test]
fn the_numbers_of_the_formulas_are_the_derivatives() {
    for body in [
        "x * y / z - sin (x * y) + x ^ 3",
        "let a = exp (x - y) in let b = sqrt (a + z * z) in a * b / (1.0 + b) - (a - (b - z))",
        "tanh (x * y + z) * log z - 0.1 * (x - y) * (x - y)",
        "-x ^ 2 * (-y) / -z",
        "x ^ y - z * (x + (y + z))",
        "max x y * z + min (x * z) y * x - abs (y - z)",
    ] {
        let source = format!("def f (x : Real) (y : Real) (z : Real) : Real = {body}");
        let module = Module::from_source(&Engine::default(), "f.dual", &source).unwrap();
        let (f, formulas) = (module.function("f").unwrap(), formulas(&module));
        let [piece] = &*formulas.pieces else { panic!("{formulas}") };
        let result = &piece.primal.last().expect("something is computed").name;
        for point in [[1.5, 0.75, 2.0], [0.25, 3.0, 0.5]] {
            let names = ["x", "y", "z"];
            let mut values: HashMap<String, f64> = names.map(String::from).into_iter().zip(point).collect();
            let tangents = [1.0, -2.0, 0.5];
            values.extend(names.iter().zip(tangents).map(|(name, tangent)| (format!("{name}_tan"), tangent)));
            values.insert(format!("{result}_adj"), 1.0);
            evaluate(&piece.primal, &mut values);
            evaluate(&piece.tangent, &mut values);
            evaluate(&piece.adjoint, &mut values);

            let args = point.map(Value::from);
            let (value, gradient) = f.value_and_grad(&args).unwrap();
            assert_eq!(values[result], value, "{formulas}");
            for (name, expected) in names.iter().zip(gradient) {
                assert_eq!(Value::Real(values[&format!("{name}_adj")]), expected, "{name}: {formulas}");
            }
            let (_, tangent) = f.jvp(&args, &tangents.map(Value::from)).unwrap();
            assert_eq!(Value::Real(values[&format!("{result}_tan")]), tangent, "{formulas}");
        }
    }
}
