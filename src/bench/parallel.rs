//! Programs with tasks, beside the same without, on several numbers of threads; and what tasks cost.
//!
//! Values and gradients are compared before anything is timed: those of the program with tasks are the same bits on any
//! number of threads and in any tier, and those without tasks differ by rounding at most. Times are those of runs, by
//! the engine's own clock: arguments and results cross the host's border on one thread.

mod costs;
mod report;

use super::Selection;
use super::cases::{SMALL, TOLERANCE, Tier, reals};
use super::measure::{self, Effort};
use dualvm::{CallOptions, Engine, Error, Function, Module, Stats, Value};
pub(crate) use report::Report;
use std::fmt;
use std::time::Duration;

/// What `--suite` takes.
pub(crate) const NAME: &str = "parallel";

/// A function of an example. `NAME_sequential` beside it does the same without tasks.
struct Program {
    name: &'static str,
    source: &'static str,
    args: fn(Scale) -> Vec<Value>,
}

/// How large the arguments are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// As in the project's goals.
    Full,
    /// To see that it runs.
    Small,
}

impl Scale {
    fn of<T>(self, full: T, small: T) -> T {
        match self {
            Scale::Full => full,
            Scale::Small => small,
        }
    }
}

const PARTICLES: &str = include_str!("../../examples/particles_par.dual");
const TREE_SUM: &str = include_str!("../../examples/tree_sum.dual");
const SHARED_ARRAY: &str = include_str!("../../examples/shared_array.dual");
const DEEP_FORK: &str = include_str!("../../examples/deep_fork.dual");

const PROGRAMS: [Program; 7] = [
    Program { name: "particles_par", source: PARTICLES, args: particles },
    Program { name: "particles_pairs", source: PARTICLES, args: particles },
    Program { name: "uneven_map", source: include_str!("../../examples/uneven_map.dual"), args: square },
    Program { name: "tree_sum", source: TREE_SUM, args: leaves },
    Program { name: "monte_carlo", source: include_str!("../../examples/monte_carlo.dual"), args: market },
    Program { name: "shared_array", source: SHARED_ARRAY, args: |scale| shared(scale, 1) },
    Program { name: "deep_fork", source: DEEP_FORK, args: |scale| deep(scale, 1) },
];

fn particles(scale: Scale) -> Vec<Value> {
    let pair = |x: f64, y: f64| Value::Tuple(vec![x.into(), y.into()]);
    let particle = |x| Value::Tuple(vec![pair(x, 0.1), pair(1.0, 1.0)]);
    vec![Value::Int(scale.of(100_000, 1_000)), Value::Array([0.5, 1.0, 1.5, 2.0].map(particle).into())]
}

/// A square that is not symmetric: the derivative by its lower border would be rounding errors.
fn square(scale: Scale) -> Vec<Value> {
    let (side, limit) = scale.of((200, 200), (20, 100));
    [Value::Int(side), Value::Int(limit)].into_iter().chain([-2.1, -1.3, 2.7].map(Value::Real)).collect()
}

fn wave(n: usize) -> Value {
    Value::Reals((0..n).map(|i| (0.1 * i as f64).sin()).collect())
}

fn leaves(scale: Scale) -> Vec<Value> {
    vec![wave(scale.of(1 << 16, 1 << 8))]
}

fn market(scale: Scale) -> Vec<Value> {
    let tuple = |parts: &[f64]| Value::Tuple(parts.iter().copied().map(Value::Real).collect());
    let assets = [[100.0, 0.2], [90.0, 0.3], [110.0, 0.25]].map(|asset| tuple(&asset));
    vec![Value::Int(scale.of(1_000_000, 2_000)), Value::Tuple(assets.into()), tuple(&[0.03, 1.0, 98.0, 0.4])]
}

/// With a multiple of the tasks.
fn shared(scale: Scale, times: i64) -> Vec<Value> {
    vec![Value::Int(times * scale.of(1_000, 100)), wave(scale.of(1_000_000, 10_000))]
}

/// With a multiple of the depth.
fn deep(scale: Scale, times: i64) -> Vec<Value> {
    vec![Value::Int(times * scale.of(10_000, 500)), 0.5.into()]
}

/// Why a program can't be measured.
#[derive(Debug)]
pub(crate) enum Unsound {
    Call(Error),
    /// With tasks the program computes something else.
    Differs(String),
}

impl From<Error> for Unsound {
    fn from(error: Error) -> Self {
        Unsound::Call(error)
    }
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsound::Call(error) => error.fmt(f),
            Unsound::Differs(how) => f.write_str(how),
        }
    }
}

/// How the suite is run.
pub(crate) struct Plan {
    only: Selection,
    pub(crate) tiers: Vec<Tier>,
    /// Numbers of threads; not empty, and none is 0.
    pub(crate) threads: Vec<usize>,
    pub(crate) scale: Scale,
    pub(crate) effort: Effort,
}

impl Plan {
    /// A plan of fewer rounds than other suites have: the programs are large.
    pub(crate) fn new(only: Selection, tiers: Vec<Tier>, threads: &[usize], quick: bool) -> Plan {
        let (scale, effort) = if quick { (Scale::Small, Effort::QUICK) } else { (Scale::Full, Effort::FULL) };
        let mut counts = Vec::new();
        for &count in threads {
            let count = Tier::Interpreter.engine_of(count).threads();
            if !counts.contains(&count) {
                counts.push(count);
            }
        }
        let effort = Effort { rounds: effort.rounds.div_ceil(3).max(3), ..effort };
        Plan { only, tiers, threads: counts, scale, effort }
    }

    /// How often [`run`] calls its `round`.
    pub(crate) fn rounds(&self) -> usize {
        let costs = if self.only.is_all() { costs::TIMED } else { 0 };
        (self.only.count(names()) + costs) * self.effort.rounds
    }

    /// An engine for each number of threads.
    fn engines(&self, tier: Tier) -> Vec<Engine> {
        self.threads.iter().map(|&threads| tier.engine_of(threads)).collect()
    }
}

/// What is timed of a program.
#[derive(Clone, Copy)]
enum Part {
    /// A call that records nothing.
    Forward,
    /// Value and gradient: forward run and sweep.
    Gradient,
}

/// A function with arguments.
struct Job<'a> {
    function: Function,
    args: &'a [Value],
}

/// Value and gradient.
struct Answer {
    reals: Vec<f64>,
    stats: Stats,
}

impl<'a> Job<'a> {
    fn new(engine: &Engine, source: &str, function: &str, args: &'a [Value]) -> Job<'a> {
        let module = Module::from_source(engine, function, source).expect("the programs compile");
        Job { function: module.function(function).expect("the programs define what is measured"), args }
    }

    fn answer(&self) -> Result<Answer, Error> {
        let found = self.function.value_and_grad_with(self.args, &CallOptions::default())?;
        let mut answer = Answer { reals: reals(&found.gradient), stats: found.stats };
        answer.reals.insert(0, found.value);
        Ok(answer)
    }

    /// How long a number of runs take together.
    fn time(&self, part: Part, times: u64) -> Result<Duration, Error> {
        let mut sum = Duration::ZERO;
        for _ in 0..times {
            let stats = match part {
                Part::Forward => self.function.call_with(self.args, &CallOptions::default())?.1,
                Part::Gradient => self.function.value_and_grad_with(self.args, &CallOptions::default())?.stats,
            };
            sum += stats.forward + stats.sweep;
        }
        Ok(sum)
    }
}

/// Medians of the time of one run in nanoseconds.
fn medians(jobs: &[(&Job<'_>, Part)], effort: &Effort, round: impl FnMut()) -> Result<Vec<f64>, Error> {
    measure::medians(jobs, effort, |&(job, part), times| job.time(part, times), round)
}

/// Medians in nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    forward: f64,
    gradient: f64,
}

/// The results of a program in a tier.
struct Row {
    case: &'static str,
    tier: Tier,
    sequential: Times,
    /// By number of threads.
    parallel: Vec<(Times, Stats)>,
}

/// The names of the programs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.name)
}

/// Checks and measures programs; the costs as well, if these are all. `round` hears of each round, with the name of
/// what is measured. An error comes with the name.
pub(crate) fn run(plan: &Plan, mut round: impl FnMut(&'static str)) -> Result<Report<'_>, (&'static str, Unsound)> {
    let mut rows = Vec::new();
    for program in PROGRAMS.iter().filter(|program| plan.only.has(program.name)) {
        let measured = measure_program(plan, program, || round(program.name));
        rows.extend(measured.map_err(|error| (program.name, error))?);
    }
    let costs = if plan.only.is_all() { costs::measure(plan, &mut round)? } else { Vec::new() };
    Ok(Report { plan, rows, costs })
}

/// A program on all tiers and numbers of threads, side by side.
fn measure_program(plan: &Plan, program: &Program, round: impl FnMut()) -> Result<Vec<Row>, Unsound> {
    let args = (program.args)(plan.scale);
    let sequential = format!("{}_sequential", program.name);
    let mut jobs = Vec::new();
    for &tier in &plan.tiers {
        jobs.push(Job::new(&tier.engine(), program.source, &sequential, &args));
        let parallel = plan.engines(tier);
        jobs.extend(parallel.iter().map(|engine| Job::new(engine, program.source, program.name, &args)));
    }
    let group = 1 + plan.threads.len();
    let answers = jobs.iter().map(Job::answer).collect::<Result<Vec<_>, _>>()?;
    compare(&answers, group)?;
    let measured: Vec<(&Job<'_>, Part)> =
        jobs.iter().flat_map(|job| [(job, Part::Forward), (job, Part::Gradient)]).collect();
    let medians = medians(&measured, &plan.effort, round)?;
    let times: Vec<Times> = medians.chunks(2).map(|pair| Times { forward: pair[0], gradient: pair[1] }).collect();
    let by_tier = plan.tiers.iter().zip(times.chunks(group)).zip(answers.chunks(group));
    let rows = by_tier.map(|((&tier, times), answers)| Row {
        case: program.name,
        tier,
        sequential: times[0],
        parallel: times[1..].iter().zip(&answers[1..]).map(|(&times, answer)| (times, answer.stats)).collect(),
    });
    Ok(rows.collect())
}

/// Compares answers: the first of each group is that of the program without tasks.
fn compare(answers: &[Answer], group: usize) -> Result<(), Unsound> {
    let (expected, parallel) = (&answers[0].reals, &answers[1].reals);
    let bits = |answer: &Answer| answer.reals.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
    let first = bits(&answers[1]);
    let others = answers.iter().enumerate().filter(|(n, _)| n % group != 0);
    if others.into_iter().any(|(_, answer)| bits(answer) != first) {
        return Err(Unsound::Differs("value and gradient depend on the number of threads or on the tier".to_owned()));
    }
    let near = |x: f64, y: f64| (x - y).abs() <= TOLERANCE * x.abs().max(SMALL);
    match expected.iter().zip(parallel).position(|(&x, &y)| !near(x, y)) {
        Some(0) => Err(Unsound::Differs(format!("value: without tasks {}, with tasks {}", expected[0], parallel[0]))),
        Some(n) => {
            let (x, y) = (expected[n], parallel[n]);
            Err(Unsound::Differs(format!("derivative {}: without tasks {x}, with tasks {y}", n - 1)))
        }
        None => Ok(()),
    }
}
