//! Random programs over integers, run by the VM and by a direct evaluator: loops whose accumulators depend on each
//! other in every way, nested blocks, branches and calls.

use dualvm_frontend::compile;
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::value::Value;

/// An expression with a number of values; variables are numbered.
enum Expr {
    Const(i64),
    Var(usize),
    Op(char, Box<Expr>, Box<Expr>),
    Tuple(Vec<Expr>),
    If(bool, [Box<Expr>; 4]),
    Let(Vec<usize>, Box<Expr>, Box<Expr>),
    For { vars: Vec<usize>, init: Box<Expr>, index: usize, count: i64, body: Box<Expr> },
    While { vars: Vec<usize>, init: Box<Expr>, body: Box<Expr> },
    Call(usize, Box<Expr>, Box<Expr>),
}
use Expr::{Call, Const, For, If, Let, Op, Tuple, Var, While};

struct Generator {
    state: u64,
    vars: usize,
    functions: usize,
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % bound
    }

    fn new_vars(&mut self, count: usize) -> Vec<usize> {
        self.vars += count;
        (self.vars - count..self.vars).collect()
    }

    fn expr(&mut self, width: usize, depth: u32, scope: &mut Vec<usize>) -> Expr {
        let boxed =
            |generator: &mut Self, width, scope: &mut Vec<usize>| Box::new(generator.expr(width, depth - 1, scope));
        if depth == 0 {
            return match (width, self.below(4)) {
                (1, 0) => Const(self.below(7) as i64 - 3),
                (1, 1) => Var(scope[self.below(scope.len())]),
                (1, _) => Var(scope[scope.len() - 1 - self.below(scope.len().min(4))]),
                _ => Tuple((0..width).map(|_| self.expr(1, 0, scope)).collect()),
            };
        }
        let mark = scope.len();
        let made = match self.below(9) {
            0..=2 if width == 1 => {
                let op = ['+', '-', '*', '&', '|', '^', '<', '>'][self.below(8)];
                Op(op, boxed(self, 1, scope), boxed(self, 1, scope))
            }
            0..=3 => {
                // Plain variables often, so that accumulators are swapped, copied and kept.
                let part_depth = |generator: &mut Self| if generator.below(2) == 0 { 0 } else { depth - 1 };
                Tuple(
                    (0..width)
                        .map(|_| part_depth(self))
                        .collect::<Vec<_>>()
                        .into_iter()
                        .map(|depth| self.expr(1, depth, scope))
                        .collect(),
                )
            }
            4 => {
                let negated = self.below(2) == 0;
                If(
                    negated,
                    [
                        boxed(self, 1, scope),
                        boxed(self, 1, scope),
                        boxed(self, width, scope),
                        boxed(self, width, scope),
                    ],
                )
            }
            5 if width == 2 && self.functions > 0 => {
                let function = self.below(self.functions);
                Call(function, boxed(self, 1, scope), boxed(self, 1, scope))
            }
            5 | 6 => {
                let count = 1 + self.below(3);
                let value = boxed(self, count, scope);
                let vars = self.new_vars(count);
                scope.extend(&vars);
                Let(vars, value, boxed(self, width, scope))
            }
            kind => {
                let init = boxed(self, width, scope);
                let vars = self.new_vars(width);
                scope.extend(&vars);
                if kind == 7 {
                    return self.leave(mark, scope, |generator, scope| While {
                        vars,
                        init,
                        body: boxed(generator, width, scope),
                    });
                }
                let index = self.new_vars(1)[0];
                scope.push(index);
                let count = self.below(4) as i64;
                For { vars, init, index, count, body: boxed(self, width, scope) }
            }
        };
        scope.truncate(mark);
        made
    }

    fn leave(
        &mut self,
        mark: usize,
        scope: &mut Vec<usize>,
        make: impl FnOnce(&mut Self, &mut Vec<usize>) -> Expr,
    ) -> Expr {
        let made = make(self, scope);
        scope.truncate(mark);
        made
    }
}

fn pattern(vars: &[usize]) -> String {
    let names: Vec<String> = vars.iter().map(|var| format!("v{var}")).collect();
    if let [single] = &names[..] { single.clone() } else { format!("({})", names.join(", ")) }
}

impl Expr {
    fn text(&self) -> String {
        match self {
            Const(value) => format!("({value} : Int)"),
            Var(var) => format!("v{var}"),
            Op(op, a, b) => {
                let function = match op {
                    '&' => "bit_and",
                    '|' => "bit_or",
                    '^' => "bit_xor",
                    '<' => "shift_left",
                    '>' => "shift_right",
                    _ => return format!("({} {op} {})", a.text(), b.text()),
                };
                format!("({function} {} {})", a.text(), b.text())
            }
            Tuple(parts) if parts.len() == 1 => parts[0].text(),
            Tuple(parts) => format!("({})", parts.iter().map(Expr::text).collect::<Vec<_>>().join(", ")),
            If(negated, [a, b, then, other]) => {
                let cond = format!("{} < {}", a.text(), b.text());
                let cond = if *negated { format!("not ({cond}) && true") } else { cond };
                format!("(if {cond} then {} else {})", then.text(), other.text())
            }
            Let(vars, value, body) => format!("(let {} = {} in {})", pattern(vars), value.text(), body.text()),
            For { vars, init, index, count, body } => {
                format!("(loop {} = {} for v{index} < {count} do {})", pattern(vars), init.text(), body.text())
            }
            // At most as many iterations as the first variable and a bound allow.
            While { vars, init, body } => {
                let first = vars[0];
                format!(
                    "(let (_, {vars}) = loop (k, {vars}) = (0, {init}) while k < 3 && v{first} < 50 do (k + 1, {body}) in {vars})",
                    vars = pattern(vars),
                    init = init.text(),
                    body = body.text()
                )
            }
            Call(function, a, b) => format!("(g{function} {} {})", a.text(), b.text()),
        }
    }

    fn run(&self, env: &mut Vec<i64>, functions: &[Expr]) -> Vec<i64> {
        match self {
            Const(value) => vec![*value],
            Var(var) => vec![env[*var]],
            Op(op, a, b) => {
                let (a, b) = (a.run(env, functions)[0], b.run(env, functions)[0]);
                vec![match op {
                    '+' => a.wrapping_add(b),
                    '-' => a.wrapping_sub(b),
                    '&' => a & b,
                    '|' => a | b,
                    '^' => a ^ b,
                    '<' => a << b.rem_euclid(64),
                    '>' => a >> b.rem_euclid(64),
                    _ => a.wrapping_mul(b),
                }]
            }
            Tuple(parts) => parts.iter().flat_map(|part| part.run(env, functions)).collect(),
            If(negated, [a, b, then, other]) => {
                let less = a.run(env, functions)[0] < b.run(env, functions)[0];
                if less != *negated { then.run(env, functions) } else { other.run(env, functions) }
            }
            Let(vars, value, body) => {
                let values = value.run(env, functions);
                vars.iter().zip(values).for_each(|(&var, value)| env[var] = value);
                body.run(env, functions)
            }
            For { vars, init, index, count, body } => {
                let mut values = init.run(env, functions);
                for i in 0..*count {
                    vars.iter().zip(values).for_each(|(&var, value)| env[var] = value);
                    env[*index] = i;
                    values = body.run(env, functions);
                }
                values
            }
            While { vars, init, body } => {
                let mut values = init.run(env, functions);
                for _ in 0..3 {
                    if values[0] >= 50 {
                        break;
                    }
                    vars.iter().zip(values).for_each(|(&var, value)| env[var] = value);
                    values = body.run(env, functions);
                }
                values
            }
            Call(function, a, b) => {
                let args = [a.run(env, functions)[0], b.run(env, functions)[0]];
                let mut inner = vec![0; env.len()];
                inner[..2].copy_from_slice(&args);
                functions[*function].run(&mut inner, functions)
            }
        }
    }
}

#[test]
fn random_programs_compute_what_the_language_says() {
    let engine = Engine::new(Config::default());
    for seed in 0..3_000 {
        let mut generator = Generator { state: seed, vars: 2, functions: 0 };
        let mut functions = Vec::new();
        for depth in [2, 3] {
            functions.push(generator.expr(2, depth, &mut vec![0, 1]));
            generator.functions += 1;
        }
        let main = generator.expr(3, 5, &mut vec![0, 1]);
        let mut text = format!("def f (v0 : Int) (v1 : Int) : (Int, Int, Int) = {}\n", main.text());
        for (i, function) in functions.iter().enumerate() {
            text += &format!("def g{i} (v0 : Int) (v1 : Int) : (Int, Int) = {}\n", function.text());
        }
        let def = compile("random.dual", &text).unwrap_or_else(|errors| panic!("seed {seed}:\n{errors}"));
        let module = Module::new(&engine, def).unwrap_or_else(|errors| panic!("seed {seed}: {}\n{text}", errors[0]));
        let mut env = vec![0; generator.vars];
        (env[0], env[1]) = (3, -2);
        let expected = main.run(&mut env, &functions).into_iter().map(Value::Int).collect();
        let found = module.function("f").unwrap().call(&[Value::Int(3), Value::Int(-2)]);
        assert_eq!(
            found.unwrap_or_else(|error| panic!("seed {seed}: {error}")),
            Value::Tuple(expected),
            "seed {seed}\n{text}"
        );
    }
}
