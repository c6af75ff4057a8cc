//! Random programs with traces at random places: nothing that they compute changes by a bit, whether somebody listens
//! or not, and all engines trace the lines that the reference does, in its order.
//!
//! `DUALVM_SEEDS` and `DUALVM_FIRST_SEED` as for random programs.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::{Limit, TrapKind};
use support::check::{arguments, main_index, on_a_deep_stack};
use support::dice::Dice;
use support::engines::{Engines, Loaded, Mode, Outcome, limits_within};
use support::from_environment;
use support::generate::{Program, Style, program, program_with_operators};
use support::mutate::texts::with_traces;
use support::reference::{Covered, Stop, run_and_cover};

/// Longer runs are stopped.
const STEPS_MAX: u64 = 20_000;

fn limits() -> Limits {
    Limits { fuel: STEPS_MAX, ..Limits::default() }
}

/// What became of a run that traces, as far as it is the same in a program without them, where instructions have other
/// numbers.
fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Trap(trap) => {
            let functions: Vec<&str> = trap.frames().map(|frame| &*frame.function).collect();
            format!("{:?} in {functions:?}", trap.kind)
        }
        other => other.exact(true),
    }
}

fn is_live(outcome: &Outcome) -> bool {
    outcome.stopped_by(Limit::LiveBytes)
}

fn load(engines: &mut Engines, module: &ModuleDef, seed: u64) -> Loaded {
    engines.load(module, seed).unwrap_or_else(|errors| panic!("seed {seed}: the verifier refuses: {}", errors[0]))
}

/// How many lines were traced, and how many programs traced some.
#[derive(Default, Debug)]
struct Counts {
    programs: u64,
    with_lines: u64,
    lines: usize,
    trapped_in_texts: u64,
}

/// Traces of values in registers: nothing else changes, fuel included.
fn check(program: &Program, seed: u64, engines: &mut Engines, counts: &mut Counts) -> Result<(), String> {
    let mut dice = Dice::with_seed(!seed);
    let plain = load(engines, &program.module, seed);
    let every = dice.pick(&[2, 5, 20]);
    let traced_def = with_traces(&program.module, every, false, &mut dice);
    let traced = load(engines, &traced_def, seed);
    counts.programs += 1;
    let mut heard = None;
    for mode in [Mode::Call, Mode::Gradient] {
        let expected = plain.run("main", &program.args, mode, &limits())?;
        let unheard = traced.run_unheard("main", &program.args, mode, &limits())?;
        let (found, lines) = traced.run_and_listen("main", &program.args, mode, &limits())?;
        if [&expected, &unheard, &found].into_iter().any(is_live) {
            return Ok(());
        }
        for (what, found) in [("unheard", &unheard), ("heard", &found)] {
            let (expected, found) = (outcome(&expected), outcome(found));
            if expected != found {
                return Err(format!("{mode:?}, {what}: expected {expected}\nfound {found}\n{}", print(&traced_def)));
            }
        }
        // A gradient's run is a call's, but pays for other stretches of code at a time.
        let first = heard.get_or_insert(lines.clone());
        let is_same = match found.stopped_by(Limit::Fuel) {
            true => first.starts_with(&lines) || lines.starts_with(first),
            false => *first == lines,
        };
        if !is_same {
            return Err(format!("{mode:?}: expected {}\nfound {}", shown(first, &lines), shown(&lines, first)));
        }
        if let Outcome::Done { stats, .. } = &found {
            let all = limits_within(stats, 4, |n| if n == 0 { 0 } else { dice.usize(..n as usize) as u64 });
            for limits in [dice.pick(&all), dice.pick(&all)] {
                let expected = plain.run("main", &program.args, mode, &limits)?;
                let (found, lines) = traced.run_and_listen("main", &program.args, mode, &limits)?;
                if !is_live(&found) && outcome(&expected) != outcome(&found) {
                    return Err(format!("{mode:?}, {limits:?}: expected {expected:?}\nfound {found:?}"));
                }
                if !first.starts_with(&lines) {
                    return Err(format!("{mode:?}, {limits:?}: lines of the whole run are expected, found {lines:#?}"));
                }
            }
        }
    }
    let lines = heard.unwrap_or_default();
    counts.lines += lines.len();
    counts.with_lines += u64::from(!lines.is_empty());
    against_reference(program, &traced_def, &traced, &mut dice, counts)?;
    let with_functions = with_traces(&program.module, every, true, &mut dice);
    let loaded = load(engines, &with_functions, seed);
    let expected = plain.run("main", &program.args, Mode::Gradient, &limits())?;
    let found = loaded.run_unheard("main", &program.args, Mode::Gradient, &limits())?;
    if !is_live(&found) && outcome(&expected) != outcome(&found) {
        return Err(format!("with functions: expected {expected:?}\nfound {found:?}"));
    }
    against_reference(program, &with_functions, &loaded, &mut dice, counts)
}

/// The lines, the value and the instructions are those of the reference. The functions of texts count.
fn against_reference(
    program: &Program,
    def: &ModuleDef,
    loaded: &Loaded,
    dice: &mut Dice,
    counts: &mut Counts,
) -> Result<(), String> {
    let derives = |op: Op| matches!(op, Op::Jvp | Op::Vjp | Op::CustomVjp | Op::CustomJvp);
    if def.functions.iter().flat_map(|function| &function.body.code).any(|inst| derives(inst.op)) {
        return Ok(());
    }
    let args = arguments(&program.args, |_, x| x);
    let covered: Covered<f64> = run_and_cover(def, main_index(def), args, STEPS_MAX, true);
    let mode = dice.pick(&[Mode::Call, Mode::Gradient]);
    let (found, lines) = loaded.run_and_listen("main", &program.args, mode, &limits())?;
    // Places are not the reference's.
    let without_place = |line: String| match line.strip_prefix("random.dual:").and_then(|rest| rest.split_once(": ")) {
        Some((_, text)) => text.to_owned(),
        None => line,
    };
    let lines: Vec<String> = lines.into_iter().map(without_place).collect();
    if is_live(&found) {
        return Ok(());
    }
    let differ = |what: &str, expected: &str, found: &str| -> Result<(), String> {
        Err(format!("{what}: expected {expected}\nfound {found}\n{}", print(def)))
    };
    match (&covered.results, &found) {
        (Err(Stop::TooLong), Outcome::Trap(trap)) if trap.kind == TrapKind::Limit(Limit::Fuel) => {
            // An engine charges for a stretch of code at its end.
            let stretch_ends = lines.starts_with(&covered.lines);
            return match stretch_ends || covered.lines.starts_with(&lines) {
                true => Ok(()),
                false => differ("lines", &shown(&covered.lines, &lines), &shown(&lines, &covered.lines)),
            };
        }
        (Err(Stop::Trap(expected)), Outcome::Trap(trap)) if *expected == trap.kind => {
            let by_a_text = trap.frames().next().is_some_and(|frame| frame.function.starts_with("shown "));
            counts.trapped_in_texts += u64::from(by_a_text);
        }
        // A gradient executes more than the function.
        (Ok(_), Outcome::Done { stats, .. }) if mode == Mode::Gradient || stats.instructions == covered.steps => {}
        (Ok(_), found) => return differ("steps", &covered.steps.to_string(), &format!("{found:?}")),
        (Err(stop), found) => return differ("outcome", &format!("{stop:?}"), &format!("{found:?}")),
    }
    if covered.lines != lines {
        return differ("lines", &shown(&covered.lines, &lines), &shown(&lines, &covered.lines));
    }
    Ok(())
}

/// Where lines are no longer the same as others.
fn shown(lines: &[String], others: &[String]) -> String {
    let same = lines.iter().zip(others).take_while(|(line, other)| line == other).count();
    format!("{} lines, from line {same} on {:#?}", lines.len(), &lines[same..(same + 5).min(lines.len())])
}

fn print(def: &ModuleDef) -> String {
    dualvm_vm::text::print(def)
}

fn check_style(style: Style, program: fn(u64, Style) -> Program) -> Counts {
    on_a_deep_stack(|| check_style_here(style, program))
}

fn check_style_here(style: Style, program: fn(u64, Style) -> Program) -> Counts {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(15);
    let (mut engines, mut counts) = (Engines::new(), Counts::default());
    for seed in first..first + seeds {
        let program = program(seed, style);
        if let Err(error) = check(&program, seed, &mut engines, &mut counts) {
            panic!("{style:?}, seed {seed}: {error}");
        }
    }
    println!("{style:?}: {counts:?}");
    assert!(counts.with_lines * 3 > counts.programs, "too few programs trace: {counts:?}");
    counts
}

#[test]
fn traces_change_nothing_in_lines_and_loops() {
    check_style(Style::Tame, program);
    check_style(Style::Wild, program);
    check_style(Style::Loops, program);
}

#[test]
fn traces_change_nothing_where_segments_are_long() {
    check_style(Style::Long, program);
}

#[test]
fn traces_change_nothing_in_recursion_and_data() {
    check_style(Style::Recursive, program);
    check_style(Style::Data, program);
    check_style(Style::Wasteful, program);
}

#[test]
fn traces_of_tasks_come_in_the_order_of_a_run_from_left_to_right() {
    let counts = check_style(Style::Parallel, program);
    assert!(counts.trapped_in_texts > 0, "no text traps: {counts:?}");
}

#[test]
fn traces_change_nothing_under_derivative_operators() {
    check_style(Style::Tame, program_with_operators);
    check_style(Style::Parallel, program_with_operators);
}
