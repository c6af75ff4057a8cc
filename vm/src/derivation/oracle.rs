//! Nested dual numbers, the oracle of the tests: derivatives of any order, forwards only, without the table's rules.
//!
//! A [`Tree`] is a real with 2ᵈ components; its upper half is the derivative of its lower half in the direction of the
//! last infinitesimal. Derivatives are written here once more, from the definitions of the functions, and where there
//! is a choice not as the table has them. As in derived code, a product with a zero factor is zero.

use crate::bytecode::isa::{Op, Scalar, evaluate};
use crate::derivation::graph::Node;
use crate::derivation::modes::{Mode, shape};
use crate::derivation::piece::Piece;
use crate::math::{SIGMOID_SLOPE_BOUND, TANH_SLOPE_BOUND};
use std::f64::consts::{LN_2, LN_10, PI};

/// A real with components: 1, 2, 4, … numbers.
pub(crate) type Tree = Vec<f64>;

fn halves(x: &[f64]) -> (&[f64], &[f64]) {
    x.split_at(x.len() / 2)
}

/// The real whose derivative in the direction of a new infinitesimal is `high`.
pub(crate) fn join(low: &[f64], high: &[f64]) -> Tree {
    [low, high].concat()
}

/// A constant with as many components as `like` has.
fn constant(value: f64, like: &[f64]) -> Tree {
    let mut tree = vec![0.0; like.len()];
    tree[0] = value;
    tree
}

pub(crate) fn add(a: &[f64], b: &[f64]) -> Tree {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn scale(factor: f64, a: &[f64]) -> Tree {
    a.iter().map(|a| factor * a).collect()
}

/// The product, by the zero rule.
pub(crate) fn mul(a: &[f64], b: &[f64]) -> Tree {
    if a.len() == 1 {
        let product = a[0] * b[0];
        return vec![if a[0] == 0.0 || b[0] == 0.0 { 0.0 } else { product }];
    }
    let ((a, a_tan), (b, b_tan)) = (halves(a), halves(b));
    join(&mul(a, b), &add(&mul(a, b_tan), &mul(a_tan, b)))
}

fn recip(a: &[f64]) -> Tree {
    if a.len() == 1 {
        return vec![1.0 / a[0]];
    }
    let (a, a_tan) = halves(a);
    let r = recip(a);
    let slope = scale(-1.0, &mul(&r, &r));
    join(&r, &mul(&slope, a_tan))
}

/// A function of one real; `n` is its integer argument, if it has one.
fn unary(op: Op, n: Option<i64>, x: &[f64]) -> Tree {
    if x.len() == 1 {
        let args: Vec<Scalar> = [Scalar::Real(x[0])].into_iter().chain(n.map(Scalar::Int)).collect();
        let Some(Scalar::Real(value)) = evaluate(op, &args) else { panic!("{op:?} makes a real") };
        return vec![value];
    }
    let (x, x_tan) = halves(x);
    let r = unary(op, n, x);
    join(&r, &mul(&slope(op, n, x, &r), x_tan))
}

/// The derivative of a function of one real at `x`, where its value is `r`.
fn slope(op: Op, n: Option<i64>, x: &[f64], r: &[f64]) -> Tree {
    let real = |value: f64| constant(value, x);
    let of = |op| unary(op, None, x);
    let square = mul(x, x);
    let one_minus_square = add(&real(1.0), &scale(-1.0, &square));
    match op {
        Op::Neg => real(-1.0),
        Op::Abs => real(if x[0] < 0.0 { -1.0 } else { 1.0 }),
        Op::Sqrt => recip(&scale(2.0, r)),
        Op::Cbrt => mul(r, &recip(&scale(3.0, x))),
        Op::Exp => r.to_vec(),
        Op::Exp2 => scale(LN_2, r),
        Op::Expm1 => add(r, &real(1.0)),
        Op::Log => recip(x),
        Op::Log2 => scale(1.0 / LN_2, &recip(x)),
        Op::Log10 => scale(1.0 / LN_10, &recip(x)),
        Op::Log1p => recip(&add(&real(1.0), x)),
        Op::Powi => {
            let n = n.expect("a power has an exponent");
            if n == 0 { real(0.0) } else { scale(n as f64, &unary(Op::Powi, Some(n - 1), x)) }
        }
        Op::Sin => of(Op::Cos),
        Op::Cos => scale(-1.0, &of(Op::Sin)),
        Op::Tan => recip(&mul(&of(Op::Cos), &of(Op::Cos))),
        Op::Asin => recip(&unary(Op::Sqrt, None, &one_minus_square)),
        Op::Acos => scale(-1.0, &recip(&unary(Op::Sqrt, None, &one_minus_square))),
        Op::Atan => recip(&add(&real(1.0), &square)),
        Op::Sinh => of(Op::Cosh),
        Op::Cosh => of(Op::Sinh),
        Op::Tanh => add(&real(1.0), &scale(-1.0, &mul(r, r))),
        Op::Sigmoid => mul(r, &add(&real(1.0), &scale(-1.0, r))),
        Op::Asinh => recip(&unary(Op::Sqrt, None, &add(&real(1.0), &square))),
        Op::Acosh => recip(&unary(Op::Sqrt, None, &add(&real(-1.0), &square))),
        Op::Atanh => recip(&one_minus_square),
        Op::Erf => scale(2.0 / PI.sqrt(), &unary(Op::Exp, None, &scale(-1.0, &square))),
        Op::Erfc => scale(-2.0 / PI.sqrt(), &unary(Op::Exp, None, &scale(-1.0, &square))),
        Op::Lgamma => of(Op::Digamma),
        Op::Digamma => unary(Op::Polygamma, Some(1), x),
        Op::Polygamma => unary(Op::Polygamma, n.map(|n| n + 1), x),
        // The derivative is 0 everywhere.
        Op::Sign | Op::Floor | Op::Ceil | Op::Round | Op::Trunc | Op::Detach => real(0.0),
        _ => panic!("the oracle doesn't know the derivative of {op:?}"),
    }
}

/// A function of two reals that is no choice between them.
fn binary(op: Op, a: &[f64], b: &[f64]) -> Tree {
    if a.len() == 1 {
        let Some(Scalar::Real(value)) = evaluate(op, &[Scalar::Real(a[0]), Scalar::Real(b[0])]) else {
            panic!("{op:?} makes a real")
        };
        return vec![value];
    }
    let ((a, a_tan), (b, b_tan)) = (halves(a), halves(b));
    let r = binary(op, a, b);
    let r_tan = match op {
        Op::Add => add(a_tan, b_tan),
        Op::Sub => add(a_tan, &scale(-1.0, b_tan)),
        Op::Mul | Op::StrongMul => add(&mul(a, b_tan), &mul(a_tan, b)),
        Op::Div => {
            let numerator = add(&mul(a_tan, b), &scale(-1.0, &mul(a, b_tan)));
            mul(&numerator, &recip(&mul(b, b)))
        }
        Op::Pow => {
            let exponent = add(&mul(b_tan, &unary(Op::Log, None, a)), &mul(b, &mul(a_tan, &recip(a))));
            mul(&r, &exponent)
        }
        Op::Atan2 => {
            let numerator = add(&mul(b, a_tan), &scale(-1.0, &mul(a, b_tan)));
            mul(&numerator, &recip(&add(&mul(a, a), &mul(b, b))))
        }
        Op::TanhSlope if b[0].abs() <= TANH_SLOPE_BOUND => scale(-2.0, &mul(b, b_tan)),
        Op::TanhSlope => scale(-2.0, &mul(a_tan, &mul(&unary(Op::Tanh, None, a), &r))),
        Op::SigmoidSlope if b[0] <= SIGMOID_SLOPE_BOUND => add(b_tan, &scale(-2.0, &mul(b, b_tan))),
        Op::SigmoidSlope => {
            let slope = add(&constant(1.0, a), &scale(-2.0, &unary(Op::Sigmoid, None, a)));
            mul(a_tan, &mul(&slope, &r))
        }
        Op::Hypot => mul(&add(&mul(a, a_tan), &mul(b, b_tan)), &recip(&r)),
        _ => panic!("the oracle doesn't know the derivative of {op:?}"),
    };
    join(&r, &r_tan)
}

#[derive(Clone)]
enum Value {
    Real(Tree),
    Int(i64),
}

/// An instruction on reals with so many components.
fn apply(op: Op, args: &[Value], components: usize) -> Value {
    use Value::{Int, Real};
    match (op, args) {
        (Op::Select, [Int(c), Real(a), Real(b)]) => Real(if *c != 0 { a } else { b }.clone()),
        (Op::Min, [Real(a), Real(b)]) => Real(if a[0] <= b[0] { a } else { b }.clone()),
        (Op::Max, [Real(a), Real(b)]) => Real(if a[0] >= b[0] { a } else { b }.clone()),
        (Op::Fma, [Real(a), Real(b), Real(c)]) => {
            let mut sum = add(&mul(a, b), c);
            sum[0] = a[0].mul_add(b[0], c[0]);
            Real(sum)
        }
        (_, [Real(a), Real(b)]) if op.info().differentiable => Real(binary(op, a, b)),
        (_, [Real(a)]) if op.info().differentiable => Real(unary(op, None, a)),
        (_, [Real(a), Int(n)]) => Real(unary(op, Some(*n), a)),
        _ => {
            // A passive one, whose result has no derivative.
            let primals = args.iter().map(|arg| match arg {
                Real(a) => Scalar::Real(a[0]),
                Int(n) => Scalar::Int(*n),
            });
            match evaluate(op, &primals.collect::<Vec<_>>()) {
                Some(Scalar::Real(x)) => Real(constant(x, &vec![0.0; components])),
                Some(Scalar::Int(n)) => Int(n),
                None => panic!("{op:?} traps, or has a rule that the oracle doesn't know"),
            }
        }
    }
}

/// The outputs of a piece whose inputs have components.
pub(crate) fn values(piece: &Piece, reals: &[Tree], ints: &[i64]) -> Vec<Tree> {
    let components = reals.first().map_or(1, Vec::len);
    let mut values: Vec<Value> = Vec::new();
    for (id, node) in piece.graph.iter() {
        let value = match node {
            Node::RealInput(n) => Value::Real(reals[n as usize].clone()),
            Node::IntInput(n) => Value::Int(ints[n as usize]),
            Node::Real(bits) => Value::Real(constant(f64::from_bits(bits), &vec![0.0; components])),
            Node::Int(n) => Value::Int(n),
            Node::Op(op, _) => {
                let args: Vec<Value> = piece.graph.args(id).map(|arg| values[arg.index()].clone()).collect();
                apply(op, &args, components)
            }
        };
        values.push(value);
    }
    let real = |value: &Value| match value {
        Value::Real(x) => x.clone(),
        Value::Int(_) => panic!("outputs are reals"),
    };
    piece.outputs.iter().map(|id| real(&values[id.index()])).collect()
}

/// What the piece that these derivations make would compute, found without making it: a tangent is a run with one more
/// infinitesimal, an adjoint one such run for each input.
pub(crate) fn derived(piece: &Piece, modes: &[Mode], reals: &[Tree], ints: &[i64]) -> Vec<Tree> {
    let Some((last, modes)) = modes.split_last() else { return values(piece, reals, ints) };
    let (inputs, _) = shape(piece, modes);
    let (x, rest) = reals.split_at(inputs);
    let run = |directions: &[Tree]| {
        let joined: Vec<Tree> = x.iter().zip(directions).map(|(x, x_tan)| join(x, x_tan)).collect();
        derived(piece, modes, &joined, ints)
    };
    match last {
        Mode::Tangent => {
            let found = run(rest);
            let lower = found.iter().map(|y| halves(y).0.to_vec());
            let upper = found.iter().map(|y| halves(y).1.to_vec());
            lower.chain(upper).collect()
        }
        Mode::Adjoint => {
            let unit = |n: usize| -> Vec<Tree> {
                x.iter().enumerate().map(|(k, x)| constant(f64::from(u8::from(k == n)), x)).collect()
            };
            let partial = |n: usize| -> Tree {
                let columns = run(&unit(n));
                let terms = columns.iter().zip(rest).map(|(y, y_adj)| mul(halves(y).1, y_adj));
                terms.reduce(|sum, term| add(&sum, &term)).unwrap_or_else(|| constant(0.0, &x[n]))
            };
            (0..inputs).map(partial).collect()
        }
    }
}
