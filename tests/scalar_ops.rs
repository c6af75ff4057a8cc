//! Every scalar instruction, run as bytecode, against values that were computed without dualvm, and whole programs.

mod support;

use dualvm_vm::builder::FunctionBuilder;
use dualvm_vm::engine::{Function, Limits};
use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role, Scalar, evaluate};
use dualvm_vm::module::{ModuleDef, ValueType};
use dualvm_vm::value::Value;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use support::engines::{Engines, Mode, Outcome};
use support::reference::{integer_value, partials, real_value};
use support::{assert_all_close, assert_close, export_all, finite_difference, flatten, function, load, same};

/// What the oracle calls `pow` and so on is the instruction of that name.
fn op_of(name: &str) -> Op {
    Op::from_mnemonic(name).unwrap_or_else(|| panic!("the oracle has an operation {name:?} that the table lacks"))
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).expect("the oracle is JSON")
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn numbers(value: &Json) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(number).collect()
}

/// A function that applies one instruction to its parameters, in the order of the instruction's operands.
fn apply(op: Op) -> Function {
    load(applied(op)).function("main").expect("main is exported")
}

fn applied(op: Op) -> ModuleDef {
    let roles: Vec<Role> = op.info().operands.iter().map(|operand| operand.role).collect();
    let ty = |role: &Role| match role {
        Role::Def(Bank::Real) | Role::Use(Bank::Real) => ValueType::Real,
        _ => ValueType::Int,
    };
    let params: Vec<ValueType> = roles[1..].iter().map(ty).collect();
    let mut out = FunctionBuilder::new("main", &params, &[ty(&roles[0])]);
    let args: Vec<Reg> = (0..params.len()).map(|n| out.param(n)).collect();
    let dst = out.new_reg(ty(&roles[0]));
    out.emit_regs(op, &[&[dst], &args[..]].concat());
    out.ret(&[dst]);
    let mut def = ModuleDef { functions: vec![out.finish().expect("one instruction")], ..ModuleDef::default() };
    export_all(&mut def);
    def
}

fn reals(xs: &[f64]) -> Vec<Value> {
    xs.iter().map(|&x| Value::Real(x)).collect()
}

/// How many floating-point numbers lie between two.
fn ulps(a: f64, b: f64) -> u64 {
    let key = |x: f64| {
        let bits = x.to_bits() as i64;
        if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
    };
    key(a).abs_diff(key(b))
}

#[test]
fn scalar_operations_agree_with_the_oracle() {
    let oracle = json(include_str!("oracles/scalar_ops.json"));
    let rows = oracle["rows"].as_array().expect("rows");
    assert!(rows.len() > 250, "the oracle has {} rows", rows.len());
    for row in rows {
        let name = row["op"].as_str().expect("a name");
        let (x, value, partials) = (numbers(&row["x"]), number(&row["value"]), numbers(&row["partials"]));
        let f = apply(op_of(name));
        let (found, gradient) = f.value_and_grad(&reals(&x)).unwrap();
        assert_eq!(f.call(&reals(&x)).unwrap(), Value::Real(found), "{name} {x:?}");
        let fine = match name {
            "lgamma" | "digamma" | "erf" | "erfc" | "pow" => {
                (found - value).abs() <= 1e-15 || support::close(found, value, 1e-14)
            }
            _ => ulps(found, value) <= 2,
        };
        assert!(fine, "{name} {x:?}: found {found:e}, expected {value:e}");
        for (n, (found, expected)) in flatten(&gradient).into_iter().zip(&partials).enumerate() {
            assert!(
                support::close(found, *expected, 1e-13),
                "partial {n} of {name} {x:?}: found {found:e}, expected {expected:e}"
            );
        }
        // Near 0 and other ends of domains a step may leave them: differences are for the places in between.
        for n in 0..x.len() {
            let step = 1e-4 * x[n].abs();
            if x[n].abs() > 1e-3 && x[n].abs() < 20.0 && partials[n].is_finite() {
                let estimate = finite_difference(&f, &reals(&x), n, step);
                let scale = partials[n].abs().max(value.abs() * 1e-3).max(1e-6);
                if estimate.is_finite() {
                    assert!(
                        (estimate - partials[n]).abs() <= 2e-4 * scale,
                        "partial {n} of {name} {x:?}: {estimate:e} by differences, {:e} by the oracle",
                        partials[n]
                    );
                }
            }
        }
    }
}

/// Operations that the oracle has no rows for, with points: reals, integers, value, partials.
type Point = (&'static str, &'static [f64], &'static [i64], f64, &'static [f64]);

const STEP: f64 = 1.0 / (1 << 30) as f64;

const POINTS: &[Point] = &[
    ("fma", &[2.0, 3.0, 4.0], &[], 10.0, &[3.0, 2.0, 1.0]),
    // (1 + 2⁻³⁰)² minus its rounded value: only a single rounding keeps the 2⁻⁶⁰.
    ("fma", &[1.0 + STEP, 1.0 + STEP, -1.0 - 2.0 * STEP], &[], 8.673617379884035e-19, &[1.0 + STEP, 1.0 + STEP, 1.0]),
    ("fma", &[0.0, f64::INFINITY, 1.0], &[], f64::NAN, &[f64::INFINITY, 0.0, 1.0]),
    ("smul", &[2.5, -4.0], &[], -10.0, &[-4.0, 2.5]),
    ("smul", &[0.0, f64::INFINITY], &[], 0.0, &[f64::INFINITY, 0.0]),
    ("smul", &[f64::NAN, 0.0], &[], 0.0, &[0.0, f64::NAN]),
    ("powi", &[1.5], &[3], 3.375, &[6.75]),
    ("powi", &[-2.0], &[5], -32.0, &[80.0]),
    ("powi", &[2.0], &[-2], 0.25, &[-0.25]),
    ("powi", &[0.0], &[0], 1.0, &[0.0]),
    ("powi", &[0.0], &[1], 0.0, &[1.0]),
    ("powi", &[0.0], &[2], 0.0, &[0.0]),
    ("powi", &[f64::NAN], &[0], 1.0, &[0.0]),
    ("powi", &[0.0], &[-1], f64::INFINITY, &[f64::NEG_INFINITY]),
    // There is no integer before the smallest one. The power with an odd exponent has the sign of its base.
    ("powi", &[2.0], &[i64::MIN], 0.0, &[0.0]),
    ("powi", &[-2.0], &[i64::MIN], 0.0, &[0.0]),
    ("powi", &[0.5], &[i64::MIN], f64::INFINITY, &[f64::NEG_INFINITY]),
    ("powi", &[-0.5], &[i64::MIN], f64::INFINITY, &[f64::INFINITY]),
    ("powi", &[0.0], &[i64::MIN], f64::INFINITY, &[f64::NEG_INFINITY]),
    ("powi", &[-0.0], &[i64::MIN], f64::INFINITY, &[f64::INFINITY]),
    ("powi", &[1.0], &[i64::MIN], 1.0, &[i64::MIN as f64]),
    ("powi", &[-1.0], &[i64::MIN], 1.0, &[-(i64::MIN as f64)]),
    ("powi", &[f64::INFINITY], &[i64::MIN], 0.0, &[0.0]),
    ("powi", &[-1.0], &[i64::MIN + 1], -1.0, &[i64::MIN as f64]),
    ("powi", &[0.5], &[i64::MAX], 0.0, &[0.0]),
    ("powi", &[-1.0], &[i64::MAX], -1.0, &[i64::MAX as f64]),
    ("select", &[3.0, 5.0], &[1], 3.0, &[1.0, 0.0]),
    ("select", &[3.0, 5.0], &[0], 5.0, &[0.0, 1.0]),
    ("select", &[3.0, 5.0], &[-7], 3.0, &[1.0, 0.0]),
    ("select", &[f64::NAN, 5.0], &[0], 5.0, &[0.0, 1.0]),
    ("sign", &[-2.5], &[], -1.0, &[0.0]),
    ("sign", &[0.0], &[], 0.0, &[0.0]),
    ("sign", &[7.0], &[], 1.0, &[0.0]),
    ("floor", &[-1.5], &[], -2.0, &[0.0]),
    ("floor", &[2.0], &[], 2.0, &[0.0]),
    ("ceil", &[-1.5], &[], -1.0, &[0.0]),
    ("ceil", &[1.25], &[], 2.0, &[0.0]),
    ("round", &[2.5], &[], 2.0, &[0.0]),
    ("round", &[-3.5], &[], -4.0, &[0.0]),
    ("round", &[0.49999999999999994], &[], 0.0, &[0.0]),
    ("trunc", &[-1.9], &[], -1.0, &[0.0]),
    ("trunc", &[1.9], &[], 1.0, &[0.0]),
    ("detach", &[1.9], &[], 1.9, &[0.0]),
    ("detach", &[-0.0], &[], -0.0, &[0.0]),
    ("detach", &[f64::NAN], &[], f64::NAN, &[0.0]),
    // ψ⁽¹⁾(1) = π²/6, ψ⁽²⁾(1) = -2 ζ(3), ψ⁽³⁾(1) = π⁴/15
    ("polygamma", &[1.0], &[1], 1.6449340668482264, &[-2.4041138063191886]),
    ("polygamma", &[1.0], &[2], -2.4041138063191886, &[6.493939402266829]),
    // What is no order has no derivative: digamma, of order 0, is not that of order -1.
    ("polygamma", &[1.0], &[-1], f64::NAN, &[f64::NAN]),
    ("polygamma", &[1.0], &[i64::MIN], f64::NAN, &[f64::NAN]),
    ("polygamma", &[1.0], &[i64::MAX], f64::NAN, &[f64::NAN]),
    // From the result, and near ±1 from the argument; what the other operand is doesn't matter.
    ("tanh_slope", &[7.0, 0.5], &[], 0.75, &[0.0, -1.0]),
    ("tanh_slope", &[f64::NAN, -0.5], &[], 0.75, &[0.0, 1.0]),
    ("tanh_slope", &[-20.0, -1.0], &[], 1.6993417021166355e-17, &[3.398683404233271e-17, 0.0]),
    ("tanh_slope", &[0.0, f64::NAN], &[], 1.0, &[0.0, 0.0]),
    ("tanh_slope", &[f64::INFINITY, 1.0], &[], 0.0, &[0.0, 0.0]),
    ("sigmoid", &[0.0], &[], 0.5, &[0.25]),
    ("sigmoid", &[-0.0], &[], 0.5, &[0.25]),
    ("sigmoid", &[1000.0], &[], 1.0, &[0.0]),
    ("sigmoid", &[-1000.0], &[], 0.0, &[0.0]),
    ("sigmoid", &[f64::INFINITY], &[], 1.0, &[0.0]),
    ("sigmoid", &[f64::NEG_INFINITY], &[], 0.0, &[0.0]),
    ("sigmoid", &[-40.0], &[], 4.248354255291589e-18, &[4.248354255291589e-18]),
    ("sigmoid", &[40.0], &[], 1.0, &[4.248354255291589e-18]),
    ("sigmoid_slope", &[7.0, 0.5], &[], 0.25, &[0.0, 0.0]),
    ("sigmoid_slope", &[f64::NAN, 0.25], &[], 0.1875, &[0.0, 0.5]),
    ("sigmoid_slope", &[40.0, 1.0], &[], 4.248354255291589e-18, &[-4.248354255291589e-18, 0.0]),
    ("sigmoid_slope", &[0.0, f64::NAN], &[], 0.25, &[0.0, 0.0]),
    ("sigmoid_slope", &[f64::INFINITY, 1.0], &[], 0.0, &[0.0, 0.0]),
    ("abs", &[0.0], &[], 0.0, &[0.0]),
    ("min", &[2.0, 2.0], &[], 2.0, &[1.0, 0.0]),
    ("max", &[2.0, 2.0], &[], 2.0, &[1.0, 0.0]),
    ("hypot", &[0.0, 0.0], &[], 0.0, &[0.0, 0.0]),
    ("hypot", &[3e200, 4e200], &[], 5e200, &[0.6, 0.8]),
    ("sqrt", &[0.0], &[], 0.0, &[f64::INFINITY]),
    ("cbrt", &[0.0], &[], 0.0, &[f64::INFINITY]),
    ("pow", &[0.0, 2.0], &[], 0.0, &[0.0, 0.0]),
    ("pow", &[0.0, 0.0], &[], 1.0, &[0.0, f64::NEG_INFINITY]),
    ("pow", &[-2.0, 3.0], &[], -8.0, &[12.0, f64::NAN]),
    ("pow", &[3.0, 0.0], &[], 1.0, &[0.0, 1.0986122886681098]),
    ("atan2", &[0.0, 0.0], &[], 0.0, &[f64::NAN, f64::NAN]),
    ("asin", &[1.0], &[], std::f64::consts::FRAC_PI_2, &[f64::INFINITY]),
    ("acos", &[-1.0], &[], std::f64::consts::PI, &[f64::NEG_INFINITY]),
    ("acosh", &[1.0], &[], 0.0, &[f64::INFINITY]),
    ("div", &[1.0, 0.0], &[], f64::INFINITY, &[f64::INFINITY, f64::NEG_INFINITY]),
];

/// Arguments in the order of the operands.
fn arguments(op: Op, xs: &[f64], ns: &[i64]) -> Vec<Value> {
    let value = |scalar| match scalar {
        Scalar::Real(x) => Value::Real(x),
        Scalar::Int(n) => Value::Int(n),
    };
    scalars(op, xs, ns).into_iter().map(value).collect()
}

fn scalars(op: Op, xs: &[f64], ns: &[i64]) -> Vec<Scalar> {
    let (mut xs, mut ns) = (xs.iter(), ns.iter());
    let operands = op.info().operands[1..].iter();
    let scalar = operands.map(|operand| match operand.role {
        Role::Use(Bank::Real) => Scalar::Real(*xs.next().expect("a real")),
        _ => Scalar::Int(*ns.next().expect("an integer")),
    });
    scalar.collect()
}

#[test]
fn operations_beyond_the_oracle_agree_with_hand_made_points() {
    for &(name, xs, ns, value, expected) in POINTS {
        let op = op_of(name);
        let (found, gradient) = apply(op).value_and_grad(&arguments(op, xs, ns)).unwrap();
        assert!(support::close(found, value, 1e-15), "{name} {xs:?} {ns:?}: found {found:e}, expected {value:e}");
        for (n, (found, &expected)) in flatten(&gradient).into_iter().zip(expected).enumerate() {
            assert!(
                support::close(found, expected, 1e-14),
                "partial {n} of {name} {xs:?} {ns:?}: found {found:e}, expected {expected:e}"
            );
        }
    }
}

/// Instructions of one operand, where it is, and the first two derivatives there, found by mpmath 1.3 with 60 digits:
/// where a sum in a partial derivative would cancel, and where a product in one would overflow.
const DERIVATIVES: &[(&str, f64, [f64; 2])] = &[
    ("asin", 1e-20, [1.0, 1e-20]),
    ("asin", 0.9999999999, [70710.67519510884, 353553346704731.44]),
    ("acos", -3e-9, [-1.0, 3e-9]),
    ("atan", 1e-20, [1.0, -2e-20]),
    ("asinh", 1e-20, [1.0, -1e-20]),
    ("acosh", 1.0000000001, [70710.67519157329, -353553346722409.06]),
    ("acosh", 1e100, [1e-100, -1e-200]),
    ("acosh", 1e200, [1e-200, 0.0]),
    ("atanh", 1e-20, [1.0, 2e-20]),
    ("atanh", -0.9999999999, [4999999586.54818, -4.999999172596393e19]),
];

#[test]
fn derivatives_are_right_where_sums_cancel_and_products_overflow() {
    for &(name, x, expected) in DERIVATIVES {
        let (_, gradient, product) = apply(op_of(name)).hvp(&reals(&[x]), &reals(&[1.0])).unwrap();
        let found = [flatten(&gradient)[0], flatten(&product)[0]];
        for (found, expected) in found.into_iter().zip(expected) {
            let close = (found - expected).abs() <= 2e-15 * expected.abs();
            assert!(close, "{name} at {x:e}: found {found:e}, expected {expected:e}");
        }
    }
}

#[test]
fn every_scalar_instruction_with_a_real_result_is_covered() {
    let oracle = json(include_str!("oracles/scalar_ops.json"));
    let rows = oracle["rows"].as_array().expect("rows").iter();
    let mut covered: BTreeSet<&str> = rows.map(|row| row["op"].as_str().expect("a name")).collect();
    covered.extend(POINTS.iter().map(|point| point.0));
    for &op in Op::ALL.iter().filter(|op| op.is_scalar()) {
        let info = op.info();
        let on_reals = info.operands.iter().all(|operand| operand.role != Role::Def(Bank::Int)) && op != Op::ToReal;
        assert!(!on_reals || covered.contains(info.mnemonic), "`{}` has neither oracle rows nor points", info.mnemonic);
    }
}

#[test]
fn values_and_partials_agree_with_the_reference_on_a_grid() {
    let grid = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        3.7,
        -6.25,
        30.0,
        1e-8,
        -1e-8,
        1e-300,
        1e300,
        -1e300,
        5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for &op in Op::ALL.iter().filter(|op| op.is_scalar() && op.info().operands[0].role == Role::Def(Bank::Real)) {
        let f = apply(op);
        let count = |bank| op.info().operands[1..].iter().filter(|operand| operand.role == Role::Use(bank)).count();
        let (n_reals, n_ints) = (count(Bank::Real), count(Bank::Int));
        for at in 0..grid.len().pow(n_reals.min(2) as u32) {
            let xs = [grid[at % grid.len()], grid[at / grid.len()], 0.75];
            let xs = &xs[..n_reals];
            for n in [-3i64, -1, 0, 1, 2, 7, 40, i64::MIN, i64::MIN + 1, i64::MAX] {
                let ns = &[n][..n_ints];
                let (value, gradient) = f.value_and_grad(&arguments(op, xs, ns)).unwrap();
                let expected = real_value(op, xs, ns);
                assert!(same(value, expected), "{op:?} {xs:?} {ns:?}: found {value:e}, expected {expected:e}");
                let expected =
                    if op.info().differentiable { partials(op, xs, ns, &expected) } else { vec![0.0; n_reals] };
                for (n, (found, expected)) in flatten(&gradient).into_iter().zip(expected).enumerate() {
                    let tiny = found.abs().max(expected.abs()) < 1e-300;
                    assert!(
                        tiny || support::close(found, expected, 1e-12),
                        "partial {n} of {op:?} {xs:?} {ns:?}: found {found:e}, expected {expected:e}"
                    );
                }
                if n_ints == 0 {
                    break;
                }
            }
        }
    }
}

/// Integers at which something wraps, shifts out or traps.
const EDGES: [i64; 13] = [i64::MIN, i64::MIN + 1, -65, -64, -63, -1, 0, 1, 2, 63, 64, i64::MAX - 1, i64::MAX];

/// All lists of so many of these.
fn lists<T: Copy>(of: &[T], len: usize) -> Vec<Vec<T>> {
    let longer = |lists: Vec<Vec<T>>| {
        let with = |list: &Vec<T>| of.iter().map(|&one| [&list[..], &[one]].concat()).collect::<Vec<_>>();
        lists.iter().flat_map(with).collect()
    };
    (0..len).fold(vec![Vec::new()], |lists, _| longer(lists))
}

#[test]
fn edges_of_integers_are_the_same_in_all_engines_and_when_folded() {
    let reals = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 9.223372036854775e18, -9.223372036854776e18, 1e300, f64::NAN];
    let on_integers = |op: &Op| {
        let banks = op.info().operands.iter().map(|operand| operand.role);
        op.is_scalar() && banks.into_iter().any(|role| matches!(role, Role::Use(Bank::Int) | Role::Def(Bank::Int)))
    };
    let mut engines = Engines::all();
    for &op in Op::ALL.iter().filter(|&op| on_integers(op)) {
        let count = |bank| op.info().operands[1..].iter().filter(|operand| operand.role == Role::Use(bank)).count();
        let (n_reals, n_ints) = (count(Bank::Real), count(Bank::Int));
        let loaded = engines.load(&applied(op), 0).expect("one instruction");
        let mode = if op.info().operands[0].role == Role::Def(Bank::Real) { Mode::Gradient } else { Mode::Call };
        for xs in lists(&reals, n_reals.min(1)) {
            let xs = [&xs[..], &[3.0; 3][..n_reals - xs.len()]].concat();
            for ns in lists(&EDGES, n_ints) {
                let outcome = loaded.run("main", &arguments(op, &xs, &ns), mode, &Limits::default());
                let outcome = outcome.unwrap_or_else(|difference| panic!("{op:?} {xs:?} {ns:?}: {difference}"));
                let place = format!("{op:?} {xs:?} {ns:?}: {outcome:?}");
                let folded = evaluate(op, &scalars(op, &xs, &ns));
                match (outcome, mode) {
                    (Outcome::Done { value: Value::Int(found), .. }, _) => {
                        assert_eq!(Ok(found), integer_value(op, &xs, &ns), "{place}");
                        assert_eq!(folded, Some(Scalar::Int(found)), "{place}");
                    }
                    (Outcome::Done { value: Value::Real(found), ref gradients, .. }, _) => {
                        assert!(same(found, real_value(op, &xs, &ns)), "{place}");
                        assert!(matches!(folded, Some(Scalar::Real(x)) if same(x, found)), "{place}");
                        let expected = match op.info().differentiable {
                            true => partials(op, &xs, &ns, &found),
                            false => vec![0.0; n_reals],
                        };
                        for (found, expected) in flatten(&gradients[0]).into_iter().zip(expected) {
                            assert!(support::close(found, expected, 1e-12), "{expected}: {place}");
                        }
                    }
                    (Outcome::Trap(trap), _) => {
                        // As text: NaN is not equal to itself.
                        let expected = integer_value(op, &xs, &ns).expect_err("the engines trap");
                        assert_eq!(format!("{:?}", trap.kind), format!("{expected:?}"), "{place}");
                        assert_eq!(folded, None, "{place}");
                    }
                    _ => panic!("{place}"),
                }
            }
        }
    }
}

#[test]
fn the_smallest_exponent_has_a_derivative_in_loops_and_as_a_constant() {
    // In a loop that is recorded as one the exponent is saved; a constant is folded into the derived code.
    let looped = "func f0 \"f\" (real, int) -> (real)\n regs 3 real, 5 int\n{\n const r1, 0.0\n iconst i1, 0\n iconst i2, 1
        iconst i4, 4\n loop:\n powi r2, r0, i0\n add r1, r1, r2\n iadd i1, i1, i2\n ilt i3, i1, i4\n branch i3, loop, done
        done:\n ret (r1)\n}";
    let constant = "func f0 \"f\" (real) -> (real)\n regs 1 real, 1 int\n{\n iconst i0, -9223372036854775808
        powi r0, r0, i0\n ret (r0)\n}";
    let (looped, constant) = (function(looped, "f"), function(constant, "f"));
    for (x, power, partial) in [(2.0, 0.0, 0.0), (-1.0, 1.0, 2f64.powi(63)), (0.5, f64::INFINITY, f64::NEG_INFINITY)] {
        let (value, gradient) = looped.value_and_grad(&[Value::Real(x), Value::Int(i64::MIN)]).unwrap();
        assert_eq!((value, flatten(&gradient)), (4.0 * power, vec![4.0 * partial]));
        let (value, gradient) = constant.value_and_grad(&[Value::Real(x)]).unwrap();
        assert_eq!((value, flatten(&gradient)), (power, vec![partial]));
    }
}

#[test]
fn conversions_and_comparisons_have_no_derivative() {
    let f = function(
        "func f0 \"f\" (real, int) -> (real)\n regs 4 real, 3 int\n{\n to_real r1, i0\n const r2, 2.0
         lt i1, r0, r2\n to_real r3, i1
         mul r1, r1, r3\n to_int i2, r0\n to_real r3, i2\n add r1, r1, r3\n ret (r1)\n}",
        "f",
    );
    let (value, gradient) = f.value_and_grad(&[Value::Real(1.5), Value::Int(7)]).unwrap();
    assert_eq!((value, gradient), (8.0, vec![Value::Real(0.0), Value::Null]));
}

// Whole programs.

fn case(name: &str) -> Json {
    let oracle = json(include_str!("oracles/programs.json"));
    let cases = oracle["cases"].as_array().expect("cases");
    cases.iter().find(|case| case["case"] == name).unwrap_or_else(|| panic!("no case {name}")).clone()
}

/// All numbers in nested lists, in order.
fn leaves(value: &Json) -> Vec<f64> {
    match value {
        Json::Array(parts) => parts.iter().flat_map(leaves).collect(),
        other => vec![number(other)],
    }
}

/// Checks value and gradient against expected ones and the gradient against differences.
#[track_caller]
fn check_program(f: &Function, args: &[Value], value: f64, gradient: &[f64]) {
    let (found_value, found) = f.value_and_grad(args).unwrap();
    assert_close(found_value, value, 1e-10);
    assert_all_close(&flatten(&found), gradient, 1e-10);
    for (n, &exact) in gradient.iter().enumerate() {
        let estimate = finite_difference(f, args, n, 1e-3);
        assert!(
            (estimate - exact).abs() <= 1e-6 * exact.abs().max(1e-3 * value.abs()).max(1e-6),
            "{n}: {estimate} {exact}"
        );
    }
}

#[test]
fn mult_agrees_with_the_oracle() {
    let case = case("mult");
    let f = function("func f0 \"f\" (real, real) -> (real)\n regs 3 real\n{\n mul r2, r0, r1\n ret (r2)\n}", "f");
    check_program(&f, &reals(&numbers(&case["args"])), number(&case["value"]), &leaves(&case["gradient"]));
}

const ARRAYS: &str = "type t0 = array real\ntype t1 = array t0\n";

#[test]
fn dotprod_agrees_with_the_oracle() {
    let case = case("dotprod");
    let f = function(
        &format!(
            "{ARRAYS}func f0 \"f\" (t0, t0) -> (real)\n regs 3 real, 4 int, t0, t0\n{{\n const r0, 0.0
             len i0, p0\n iconst i1, 0
             iconst i2, 1\n loop:\n ilt i3, i1, i0\n branch i3, body, done\n body:\n elem r1, p0, i1\n elem r2, p1, i1
             mul r1, r1, r2\n add r0, r0, r1\n iadd i1, i1, i2\n jump loop\n done:\n ret (r0)\n}}"
        ),
        "f",
    );
    let args: Vec<Value> = case["args"].as_array().unwrap().iter().map(|xs| Value::Reals(numbers(xs))).collect();
    check_program(&f, &args, number(&case["value"]), &leaves(&case["gradient"]));
}

#[test]
fn summatvec_agrees_with_the_oracle() {
    let case = case("summatvec");
    let f = function(
        &format!(
            "{ARRAYS}func f0 \"dot\" (t0, t0) -> (real)\n regs 3 real, 4 int, t0, t0\n{{\n const r0, 0.0\n len i0, p0
             iconst i1, 0\n iconst i2, 1\n loop:\n ilt i3, i1, i0\n branch i3, body, done\n body:\n elem r1, p0, i1
             elem r2, p1, i1\n fma r0, r1, r2, r0\n iadd i1, i1, i2\n jump loop\n done:\n ret (r0)\n}}
             func f1 \"f\" (t1, t0) -> (real)\n regs 2 real, 4 int, t1, t0, t0\n{{\n const r0, 0.0\n len i0, p0
              iconst i1, 0
             iconst i2, 1\n loop:\n ilt i3, i1, i0\n branch i3, body, done\n body:\n pelem p2, p0, i1
             call f0 (p2, p1) -> (r1)\n add r0, r0, r1\n iadd i1, i1, i2\n jump loop\n done:\n ret (r0)\n}}"
        ),
        "f",
    );
    let rows = case["args"][0].as_array().unwrap().iter().map(|row| Value::Reals(numbers(row))).collect();
    let args = [Value::Array(rows), Value::Reals(numbers(&case["args"][1]))];
    check_program(&f, &args, number(&case["value"]), &leaves(&case["gradient"]));
}

#[test]
fn rosenbrock_agrees_with_the_oracle() {
    let case = case("rosenbrock5");
    let f = function(
        &format!(
            "{ARRAYS}func f0 \"f\" (t0) -> (real)\n regs 6 real, 5 int, t0\n{{\n const r0, 0.0
             const r5, 100.0\n const r4, 1.0
             len i0, p0\n iconst i1, 0\n iconst i2, 1\n loop:\n iadd i4, i1, i2\n ilt i3, i4, i0\n branch i3, body, done
             body:\n elem r1, p0, i1\n elem r2, p0, i4\n mul r3, r1, r1\n sub r2, r2, r3\n mul r2, r2, r2
             sub r3, r4, r1\n mul r3, r3, r3\n fma r2, r5, r2, r3\n add r0, r0, r2\n iadd i1, i1, i2\n jump loop
             done:\n ret (r0)\n}}"
        ),
        "f",
    );
    let args = [Value::Reals(leaves(&case["args"]))];
    check_program(&f, &args, number(&case["value"]), &leaves(&case["gradient"]));
}

/// One particle: position and velocity after `i0` explicit Euler steps, both updates from the old ones; `x · y`.
const PARTICLE: &str = "
func f0 \"f\" (real, real, real, real, int) -> (real)
  regs 12 real, 4 int
{
  const r4, 0.05
  const r5, -0.5
  const r6, -0.2
  iconst i1, 0
  iconst i2, 1
loop:
  ilt i3, i1, i0
  branch i3, body, done
body:
  mul r7, r4, r2
  mul r8, r4, r3
  mul r9, r5, r0
  fma r9, r6, r2, r9
  mul r10, r5, r1
  fma r10, r6, r3, r10
  fma r2, r4, r9, r2
  fma r3, r4, r10, r3
  add r0, r0, r7
  add r1, r1, r8
  iadd i1, i1, i2
  jump loop
done:
  mul r11, r0, r1
  ret (r11)
}
";

#[test]
fn particles_agree_with_the_oracle() {
    let f = function(PARTICLE, "f");
    for steps in [10, 100, 1000] {
        let case = case(&format!("particles_{steps}"));
        let (particles, gradients) = (case["args"][0].as_array().unwrap(), case["gradient"].as_array().unwrap());
        // The gradient is that of one argument, a list of particles.
        let gradients = if gradients.len() == 1 { gradients[0].as_array().unwrap() } else { gradients };
        let mut sum = 0.0;
        for (particle, gradient) in particles.iter().zip(gradients) {
            let mut args = reals(&leaves(particle));
            args.push(Value::Int(steps));
            let (value, found) = f.value_and_grad(&args).unwrap();
            sum += value;
            assert_all_close(&flatten(&found), &leaves(gradient), 1e-10);
            for (n, &exact) in leaves(gradient).iter().enumerate() {
                assert_close(finite_difference(&f, &args, n, 1e-3), exact, 1e-7);
            }
        }
        assert_close(sum, number(&case["value"]), 1e-10);
    }
}

#[test]
fn an_instruction_of_each_bank_can_be_emitted_by_operand_lists() {
    // The builder's general entry, which frontends use for structural instructions.
    let mut out = FunctionBuilder::new("main", &[ValueType::Real], &[ValueType::Real]);
    let (x, to) = (out.param(0), out.new_reg(ValueType::Real));
    out.emit(Op::Exp, &[Operand::Def(to), Operand::Use(x)]);
    out.ret(&[to]);
    let mut def = ModuleDef { functions: vec![out.finish().unwrap()], ..ModuleDef::default() };
    export_all(&mut def);
    let (value, gradient) = load(def).function("main").unwrap().value_and_grad(&reals(&[0.0])).unwrap();
    assert_eq!((value, flatten(&gradient)), (1.0, vec![1.0]));
}
