//! Derivative operators on random programs: forward against reverse, operators against the border, nested in both
//! orders, on all engines.
//!
//! Every program's `main` gets companions that apply operators to it. What reverse mode gives inside of a program is to
//! have the same bits as the gradient at the border, because it records the same tape; forward mode is to agree with it
//! to rounding; and so are all four mixes of the two, for second derivatives. The reference runs the same companions
//! with trees of dual numbers. `DUALVM_SEEDS` and `DUALVM_FIRST_SEED` as for random programs.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::isa::{Op, Operand};
use dualvm_vm::module::{ModuleDef, ValueType};
use dualvm_vm::trap::TrapKind;
use dualvm_vm::value::Value;
use support::check::{arguments, on_a_deep_stack};
use support::companions::{companion, has_tangent};
use support::dual_trees::Tree;
use support::engines::{Engines, Loaded, Mode, Outcome};
use support::generate::{self, Program, Style, program};
use support::reference::run;
use support::sources;
use support::{flatten, from_environment};

/// Names of the companions.
const PUSHED: &str = "pushed";
const PULLED: &str = "pulled";
const TANGENT: &str = "tangent";
const CURVED: &str = "curved";
const TWICE: &str = "twice";
const REVERSED: &str = "reversed";
const ROW: &str = "row";

fn main_of(module: &ModuleDef) -> usize {
    module.function("main").expect("there is one").0.index()
}

/// The module with companions of `main`.
fn with_companions(module: &ModuleDef) -> ModuleDef {
    let mut module = module.clone();
    let main = main_of(&module);
    companion(&mut module, PUSHED, (Op::Jvp, main), |_, _| true);
    let pulled = companion(&mut module, PULLED, (Op::Vjp, main), |_, _| true);
    let tangent = companion(&mut module, TANGENT, (Op::Jvp, main), |n, results| n >= results);
    // Cotangents and their tangents; the tangent of the tangent.
    companion(&mut module, CURVED, (Op::Jvp, pulled), |_, _| true);
    companion(&mut module, TWICE, (Op::Jvp, tangent), |n, results| n >= results);
    companion(&mut module, REVERSED, (Op::Vjp, pulled), |_, _| true);
    // A row of the matrix of second derivatives, for the border's reverse mode over that of the program.
    if module.functions[main].params.iter().find(|ty| has_tangent(ty)) == Some(&ValueType::Real) {
        companion(&mut module, ROW, (Op::Vjp, main), |n, results| n == results);
    }
    module
}

/// A tangent for each argument that has one: moderate numbers in the same shape.
fn directions(args: &[Value], seed: u64) -> Vec<Value> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut real = || rng.f64() * 2.0 - 1.0;
    let direction = |arg: &Value| match arg {
        Value::Real(_) => Some(Value::Real(real())),
        Value::Int(_) => None,
        Value::Reals(xs) => Some(Value::Reals(xs.iter().map(|_| real()).collect())),
        // Integers have none, but keep their place.
        other => Some(other.clone()),
    };
    args.iter().filter_map(direction).collect()
}

/// Arguments and, behind them, a tangent for each: null where there is none.
fn with_directions(args: &[Value], directions: &[Value]) -> Vec<Value> {
    let mut directions = directions.iter().cloned();
    let mut tangent = |arg: &Value| match arg {
        Value::Int(_) => Value::Null,
        _ => directions.next().expect("there is one for each"),
    };
    args.iter().cloned().chain(args.iter().map(&mut tangent)).collect()
}

/// The reals of a result, and those of so many derivatives.
type Derivatives<const N: usize> = (Vec<f64>, [Vec<f64>; N]);

/// What a call gave; `None` if a limit was reached.
fn derivatives<const N: usize>(outcome: Outcome) -> Result<Option<Derivatives<N>>, String> {
    match outcome {
        Outcome::Done { value, gradients, .. } => {
            let all: Vec<Vec<f64>> = gradients.iter().map(|gradient| reals(gradient)).collect();
            Ok(Some((reals(parts(&value)), all.try_into().expect("there are as many"))))
        }
        Outcome::Trap(trap) if is_limit(&trap.kind) => Ok(None),
        other => Err(format!("{other:?}")),
    }
}

fn parts(value: &Value) -> &[Value] {
    match value {
        Value::Tuple(parts) => parts,
        single => std::slice::from_ref(single),
    }
}

/// The reals in a value, in order.
fn reals(values: &[Value]) -> Vec<f64> {
    flatten(values)
}

#[derive(Default, Debug)]
struct Counts {
    programs: u64,
    trapped: u64,
    first: u64,
    nonzero: u64,
    second: u64,
    by_trees: u64,
    different: u64,
    /// Operators in programs that were compared with those at the border, and those with other bits.
    compared: u64,
    reordered: u64,
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// Whether two sums of products agree, if neither has met an infinity or NaN.
fn agree(found: &[f64], expected: &[f64], scale: f64) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| {
            // Products that are not normal numbers any more are rounded to what is left of them.
            (a - b).abs() <= 1e-7 * (scale + a.abs().max(b.abs())) + f64::MIN_POSITIVE
        })
}

/// Whether an operator in a program agrees with one at the border. They have the same bits, unless the one in the
/// program may have been written out in place: then sums may be in another order, and what is singular may be
/// something else.
fn agree_in_place(found: &[f64], expected: &[f64], program: &Program, counts: &mut Counts) -> bool {
    let same = bits(found) == bits(expected);
    counts.compared += 1;
    counts.reordered += u64::from(!same);
    let module = &program.module;
    if same || !may_be_in_place(module, main_of(module), &mut Vec::new()) {
        return same;
    }
    let finite = found.iter().chain(expected).all(|x| x.is_finite());
    let scale = expected.iter().fold(1.0, |size: f64, x| size.max(x.abs()));
    !program.tame || !finite || agree(found, expected, scale)
}

/// Whether an operator that is applied to this function may be written out in place: it calls nothing, but by operators
/// that may be written out themselves. `around` are the functions that ask this; those that are applied to themselves
/// keep their operators.
fn may_be_in_place(module: &ModuleDef, func: usize, around: &mut Vec<usize>) -> bool {
    if around.contains(&func) {
        return false;
    }
    around.push(func);
    let body = &module.functions[func].body;
    let may = body.code.iter().all(|inst| match (inst.op, body.operands(inst).as_deref()) {
        (Op::Jvp | Op::Vjp, Some([Operand::Func(callee), ..])) => may_be_in_place(module, *callee as usize, around),
        (op, _) => !op.calls(),
    });
    around.pop();
    may
}

fn check(seed: u64, program: &Program, engines: &mut Engines, counts: &mut Counts) -> Result<(), String> {
    counts.programs += 1;
    let module = with_companions(&program.module);
    let loaded = engines.load(&module, seed).map_err(|errors| format!("the verifier refuses: {}", errors[0]))?;
    let limits = Limits { fuel: 2_000_000, live_bytes: 1 << 28, ..Limits::default() };
    let run = |name: &str, args: &[Value], mode| loaded.run(name, args, mode, &limits);
    let (args, tangents) = (&program.args, directions(&program.args, seed));
    let both = [args.clone(), tangents.clone()].concat();
    if program.tame {
        for (name, args) in [(PUSHED, &both), (PULLED, args), (CURVED, &both), (REVERSED, &both)] {
            if let Some(expected) = by_dual_trees(&module, name, args)
                && let Some(found) = done(run(name, args, Mode::Call)?)?
            {
                let (found, size) = (reals(&found), expected.iter().fold(1.0, |size: f64, x| size.max(x.abs())));
                // At singular points infinities may cancel, or not, by the order of sums.
                let is_regular = found.iter().all(|x| x.is_finite());
                counts.by_trees += u64::from(is_regular);
                if is_regular && !agree(&found, &expected, size) {
                    return Err(format!("{name}: {found:?}\nby trees of dual numbers {expected:?}"));
                }
            }
        }
    }

    let border = run("main", args, Mode::Gradient)?;
    let (value, gradient) = match &border {
        Outcome::Done { value, gradients, .. } => (reals(parts(value)), reals(&gradients[0])),
        Outcome::Trap(trap) if matches!(trap.kind, TrapKind::Limit(_)) => return Ok(()),
        Outcome::Trap(trap) => {
            counts.trapped += 1;
            // What traps, traps within operators, too, for the same reason.
            let inside = [(PUSHED, &both), (PULLED, args), (CURVED, &both), (REVERSED, &both)];
            let inside = inside.map(|(name, args)| (name, args, Mode::Call));
            let directed = with_directions(args, &tangents);
            let border = [("main", &directed, Mode::Jvp), ("main", &directed, Mode::Hvp)];
            for (name, args, mode) in inside.into_iter().chain(border) {
                match run(name, args, mode)? {
                    Outcome::Trap(found) if same_kind(&found.kind, &trap.kind) || is_limit(&found.kind) => {}
                    other => return Err(format!("{name}: expected {trap:?}, found {other:?}")),
                }
            }
            return Ok(());
        }
        other => return Err(format!("{other:?}")),
    };
    let Some(pulled) = done(run(PULLED, args, Mode::Call)?)? else { return Ok(()) };
    let found = reals(&pulled[1..]);
    if bits(&reals(&pulled[..1])) != bits(&value) || !agree_in_place(&found, &gradient, program, counts) {
        return Err(format!("reverse: expected {value:?}, {gradient:?}\nfound {pulled:?}"));
    }
    let Some(pushed) = done(run(PUSHED, &both, Mode::Call)?)? else { return Ok(()) };
    let pushed = reals(&pushed);
    let Some((given, [gradients])) = derivatives(run("main", &with_directions(args, &tangents), Mode::Jvp)?)? else {
        return Ok(());
    };
    if bits(&pushed) != bits(&[&given[..], &gradients].concat()) {
        return Err(format!("forward: inside {pushed:?}\nat the border {given:?}, {gradients:?}"));
    }
    if bits(&pushed[..1]) != bits(&value) {
        return Err(format!("the value at depth 1: expected {value:?}, found {pushed:?}"));
    }
    if gradient.len() <= 6 {
        columns_and_rows(&loaded, (args, &limits), &gradient, program.tame)?;
    }
    let direction = reals(&tangents);
    let terms: Vec<f64> = gradient.iter().zip(&direction).map(|(g, t)| g * t).collect();
    let scale: f64 = terms.iter().map(|term| term.abs()).sum();
    if value.iter().any(|x| x.is_nan()) {
        // It is differentiable nowhere: each mode says what comes out of its products.
        return Ok(());
    }
    if program.tame && scale.is_finite() {
        counts.first += 1;
        counts.nonzero += u64::from(scale > 0.0);
        if !agree(&pushed[1..], &[terms.iter().sum()], scale) {
            return Err(format!("forward: {pushed:?}, by the gradient {}", terms.iter().sum::<f64>()));
        }
    }
    second_order(program, &loaded, (&both, &limits), (&value, &gradient), counts)
}

/// The gradient by columns, by the cotangent 1, and that of a Hessian.
fn columns_and_rows(
    loaded: &Loaded,
    (args, limits): (&[Value], &Limits),
    gradient: &[f64],
    tame: bool,
) -> Result<(), String> {
    let size = gradient.iter().fold(1.0, |size: f64, x| size.max(x.abs()));
    let with_cotangent = [args, &[Value::Real(1.0)]].concat();
    let Some((_, [pulled])) = derivatives(loaded.run("main", &with_cotangent, Mode::Vjp, limits)?)? else {
        return Ok(());
    };
    if bits(&pulled) != bits(gradient) {
        return Err(format!("the cotangent 1: expected {gradient:?}, found {pulled:?}"));
    }
    let Some((_, [by_columns])) = derivatives(loaded.run("main", args, Mode::Columns, limits)?)? else {
        return Ok(());
    };
    let Outcome::Done { gradients, .. } = loaded.run("main", args, Mode::Hessian, limits)? else { return Ok(()) };
    let all = |xs: &[f64]| xs.iter().all(|x| x.is_finite());
    let second = reals(&gradients[0]);
    for found in [&by_columns, &second] {
        if tame && all(found) && all(gradient) && !agree(found, gradient, size) {
            return Err(format!("expected {gradient:?}, found {found:?}, by columns {by_columns:?}"));
        }
    }
    if gradients.len() != 1 + gradient.len() {
        return Err(format!("expected {} rows, found {gradients:?}", gradient.len()));
    }
    Ok(())
}

/// Whether a program gives derivatives of its own.
fn has_rules(module: &ModuleDef) -> bool {
    let mut code = module.functions.iter().flat_map(|function| &function.body.code);
    code.any(|inst| matches!(inst.op, Op::CustomVjp | Op::CustomJvp))
}

/// Forward over reverse against all other mixes.
fn second_order(
    program: &Program,
    loaded: &Loaded,
    (both, limits): (&[Value], &Limits),
    (value, gradient): (&[f64], &[f64]),
    counts: &mut Counts,
) -> Result<(), String> {
    let run = |name: &str, args: &[Value], mode| loaded.run(name, args, mode, limits);
    let Some(curved) = done(run(CURVED, both, Mode::Call)?)? else { return Ok(()) };
    let half = curved.len() / 2;
    let (lower, upper) = (reals(&curved[..half]), reals(&curved[half..]));
    if bits(&lower) != bits(&[value, gradient].concat()) && program.tame && lower.iter().all(|x| x.is_finite()) {
        // Loops are recorded as one at depth 0 only: sums are the same but for their order.
        counts.different += 1;
        let size = gradient.iter().fold(1.0, |size: f64, x| size.max(x.abs()));
        if !agree(&lower, &[value, gradient].concat(), size) {
            return Err(format!("the gradient at depth 1: expected {gradient:?}, found {lower:?}"));
        }
    }
    let Outcome::Done { gradients, .. } = run(TANGENT, both, Mode::Gradient)? else { return Ok(()) };
    let steep = reals(&gradients[0]);
    let (args, tangents) = both.split_at(program.args.len());
    let Some((_, [again, product])) = derivatives(run("main", &with_directions(args, tangents), Mode::Hvp)?)? else {
        return Ok(());
    };
    let at_border = [&product[..], &again].concat();
    let size = at_border.iter().fold(1.0, |size: f64, x| size.max(x.abs()));
    // A derivative that the program gives is asked for by the derivative that was introduced last: at the border that
    // is the gradient, and inside the tangent.
    let alike = has_rules(&program.module) && (!size.is_finite() || agree(&at_border, &steep, size));
    if !agree_in_place(&at_border, &steep, program, counts) && !alike {
        return Err(format!("reverse over forward: inside {steep:?}\nat the border {product:?}, {again:?}"));
    }
    let twice = [both, &both[program.args.len()..], &both[program.args.len()..]].concat();
    let Some(twice) = done(run(TWICE, &twice, Mode::Call)?)? else { return Ok(()) };
    let product = &upper[1..];
    let size = product.iter().fold(1.0, |size: f64, x| size.max(x.abs()));
    if !program.tame || !size.is_finite() || steep.iter().any(|x| !x.is_finite()) {
        return Ok(());
    }
    counts.second += 1;
    if !agree(product, &steep[..product.len()], size) {
        return Err(format!("forward over reverse {product:?}\nreverse over forward {steep:?}"));
    }
    reverse_over_reverse(program, loaded, (both, limits), (value, gradient), (product, size), counts)?;
    // The tangent of the tangent along itself: t' H t, and the tangent along the tangents, the directions again.
    let direction = &reals(&both[program.args.len()..]);
    let bilinear: f64 = product.iter().zip(direction).map(|(h, t)| h * t).sum::<f64>();
    let along: f64 = gradient.iter().zip(direction).map(|(g, t)| g * t).sum();
    let scale: f64 = product.iter().zip(direction).map(|(h, t)| (h * t).abs()).sum::<f64>() + along.abs();
    // Where all that cancels, it is what rounding has left of numbers that are gone.
    let scale = scale.max(1e-6);
    let found = reals(&twice);
    if scale.is_finite() && !agree(&found, &[bilinear + along], scale) {
        return Err(format!("forward over forward {found:?}, by the product {}", bilinear + along));
    }
    Ok(())
}

/// Reverse over reverse against the product of the matrix of second derivatives with the directions.
fn reverse_over_reverse(
    program: &Program,
    loaded: &Loaded,
    (both, limits): (&[Value], &Limits),
    (value, gradient): (&[f64], &[f64]),
    (product, size): (&[f64], f64),
    counts: &mut Counts,
) -> Result<(), String> {
    let Some(reversed) = done(loaded.run(REVERSED, both, Mode::Call, limits)?)? else { return Ok(()) };
    let reversed = reals(&reversed);
    let (inner, outer) = reversed.split_at(value.len() + gradient.len());
    if !agree_in_place(inner, &[value, gradient].concat(), program, counts) {
        return Err(format!("the gradient in a gradient: expected {value:?}, {gradient:?}, found {inner:?}"));
    }
    let expected: Vec<f64> = product.iter().zip(gradient).map(|(h, g)| h + g).collect();
    let scale = gradient.iter().fold(size, |size, g| size.max(g.abs()));
    if !agree(outer, &expected, scale) {
        return Err(format!("reverse over reverse {outer:?}, by the other mixes {expected:?}"));
    }
    if loaded.function(ROW).is_some() {
        let args = &both[..program.args.len()];
        let Outcome::Done { gradients, .. } = loaded.run(ROW, args, Mode::Gradient, limits)? else { return Ok(()) };
        let row = reals(&gradients[0]);
        // The matrix is symmetric: the row along the directions is the first of the products.
        let direction = reals(&both[program.args.len()..]);
        let along: f64 = row.iter().zip(&direction).map(|(h, t)| h * t).sum();
        let scale = row.iter().zip(&direction).map(|(h, t)| (h * t).abs()).sum::<f64>();
        if scale.is_finite() && !agree(&[along], &product[..1], scale + size) {
            return Err(format!("a row of second derivatives {row:?}, along {direction:?}; expected {product:?}"));
        }
    }
    Ok(())
}

/// What the reference says by nested forward mode, which shares nothing with the engine; if it isn't too long, and all
/// of it is finite.
fn by_dual_trees(module: &ModuleDef, name: &str, args: &[Value]) -> Option<Vec<f64>> {
    const STEPS_MAX: u64 = 200_000;
    let func = module.function(name).expect("it was added").0.index();
    let (results, _) = run(module, func, arguments(args, |_, x| Tree::Leaf(x)), STEPS_MAX).ok()?;
    let mut found = Vec::new();
    results.iter().for_each(|result| result.all_reals(&mut found));
    found.iter().all(|x| x.is_finite()).then_some(found)
}

/// Whether two traps are alike: NaN is NaN.
fn same_kind(a: &TrapKind, b: &TrapKind) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

fn is_limit(kind: &TrapKind) -> bool {
    matches!(kind, TrapKind::Limit(_) | TrapKind::TooLargeToDerive { .. } | TrapKind::OrderTooHigh)
}

/// The parts of a result; `None` if a limit was reached.
fn done(outcome: Outcome) -> Result<Option<Vec<Value>>, String> {
    match outcome {
        Outcome::Done { value, .. } => Ok(Some(parts(&value).to_vec())),
        Outcome::Trap(trap) if is_limit(&trap.kind) => Ok(None),
        other => Err(format!("{other:?}")),
    }
}

fn check_style(style: Style, seeds: u64) -> Counts {
    check_programs(&format!("{style:?}"), seeds, |seed| program(seed, style))
}

fn check_programs(what: &str, seeds: u64, program: impl Fn(u64) -> Program + Sync) -> Counts {
    on_a_deep_stack(|| check_programs_here(what, seeds, &program))
}

fn check_programs_here(what: &str, seeds: u64, program: &dyn Fn(u64) -> Program) -> Counts {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(seeds);
    let mut counts = Counts::default();
    let mut engines = Engines::new();
    for seed in first..first + seeds {
        let program = program(seed);
        let check = || check(seed, &program, &mut engines, &mut counts);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        if let Err(error) = outcome.unwrap_or_else(|_| Err("a panic".into())) {
            let args: Vec<String> = program.args.iter().map(ToString::to_string).collect();
            panic!(
                "seed {seed}, {what}: {error}\narguments: {}\n{}\n{}",
                args.join(", "),
                program.source.as_deref().unwrap_or_default(),
                dualvm_vm::text::print(&with_companions(&program.module))
            );
        }
    }
    println!("{what}, seeds {first}..{}: {counts:?}", first + seeds);
    counts
}

#[test]
fn operators_agree_on_tame_programs() {
    let counts = check_style(Style::Tame, 60);
    assert!(counts.nonzero.min(counts.second).min(counts.by_trees) * 4 > counts.programs, "{counts:?}");
    assert!(counts.reordered * 4 < counts.compared, "{counts:?}");
}

#[test]
fn operators_agree_on_programs_that_trap() {
    let counts = check_style(Style::Wild, 40);
    assert!(counts.trapped * 10 > counts.programs, "{counts:?}");
}

#[test]
fn operators_agree_on_loops() {
    check_style(Style::Loops, 40);
}

#[test]
fn operators_agree_on_recursive_programs() {
    // Operators on functions that call others aren't written out.
    let counts = check_style(Style::Recursive, 20);
    assert!(counts.compared > 0 && counts.reordered == 0, "{counts:?}");
}

#[test]
fn operators_agree_on_data() {
    let counts = check_style(Style::Data, 40);
    assert!(counts.second * 4 > counts.programs, "{counts:?}");
}

#[test]
fn operators_agree_where_the_heap_is_evacuated() {
    check_style(Style::Wasteful, 20);
}

#[test]
fn operators_agree_on_parallel_programs() {
    check_style(Style::Parallel, 40);
}

#[test]
fn operators_agree_on_long_programs() {
    check_style(Style::Long, 10);
}

/// Programs that have operators of their own, nested up to four deep, under those of the companions.
#[test]
fn operators_agree_on_sources_with_operators() {
    let counts = check_programs("sources", 60, |seed| sources::program_with_operators(seed, seed % 4 == 3));
    assert!(counts.nonzero.min(counts.by_trees) * 4 > counts.programs, "{counts:?}");
}

/// Programs whose functions apply operators to each other.
#[test]
fn operators_agree_where_functions_have_operators() {
    for style in [Style::Tame, Style::Wild, Style::Loops, Style::Data, Style::Wasteful, Style::Parallel] {
        let what = format!("{style:?} with operators");
        check_programs(&what, 20, |seed| generate::program_with_operators(seed, style));
    }
}
