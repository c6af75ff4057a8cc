//! From source text to the first value and the first gradient: what a host waits for when its user changes a program.
//! Each round starts from nothing, with an engine of its own, and splits the time by stage.

use super::TIER;
use super::measure::{Effort, median};
use super::report::{align, time};
use dualvm::{CallOptions, Engine, Error, ErrorKind, HostType, Module, frontend};
use serde::de::DeserializeSeed;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What `--suite` takes.
pub(crate) const NAME: &str = "latency";

/// An example with small arguments, so that the first run is about the code and not about the data.
struct Program {
    name: &'static str,
    source: &'static str,
    /// Arguments as JSON.
    args: &'static str,
}

macro_rules! programs {
    ($($name:literal $args:literal)+) => {
        [$(Program { name: $name, source: include_str!(concat!("../../examples/", $name, ".dual")), args: $args }),+]
    };
}

/// Every example; Rosenbrock's function first, because it is the one that is asked for.
const PROGRAMS: [Program; 14] = programs! {
    "rosenbrock" "[[1.5, 2, 0.5]]"
    "branchy" "[10, 1.5, 0.2, 0.3, 0.105]"
    "dotprod" "[[1, 2, 3], [3, 5, 7]]"
    "expression" r#"[{"Mul": [{"Leaf": 3}, {"Add": [{"Leaf": 4}, {"Apply": ["Sin", {"Leaf": 1}]}]}]}]"#
    "logistic" "[[0.1, -0.2], 0.5, [[[1, 2], true], [[-1, 0.5], false]]]"
    "mult" "[3, 4]"
    "neural" "[[[[[0.5, -0.2], [0.1, 0.3]], [0.1, 0.2]]], [1, 2]]"
    "newton" "[2, 1]"
    "newton_sweep" "[[2, 3], 1]"
    "particles" "[10, [[[0.5, 0.1], [1, 1]]]]"
    "rotate_vec_by_quat" "[[1, 2, 3], [4, 5, 6, 7]]"
    "rotations" "[10, [1, 2, 3], [0.1, 0.5, 0.7, 0.5]]"
    "spring" "[10, [0.5, 0.1], [1, 1]]"
    "summatvec" "[[[1, 2], [3, 4]], [3, 5]]"
};

/// The stages in their order: the name in the table, and the field in JSON. What generates native code comes after the
/// verifier, as a stage of its own.
const STAGES: [(&str, &str); 6] = [
    ("parse", "parse_ns"),
    ("check", "check_ns"),
    ("compile", "compile_ns"),
    ("verify", "verify_ns"),
    ("value", "first_value_ns"),
    ("gradient", "first_gradient_ns"),
];

/// Nanoseconds of each stage.
type Stages = [f64; STAGES.len()];

/// The results of the suite. Times are medians.
pub(crate) struct Report {
    tier: &'static str,
    rounds: usize,
    rows: Vec<Row>,
}

struct Row {
    program: &'static str,
    /// Characters of the source.
    chars: usize,
    stages: Stages,
    /// From nothing to value and gradient.
    total_ns: f64,
}

/// Rounds in a run of the suite.
pub(crate) fn rounds(effort: &Effort) -> usize {
    PROGRAMS.len() * effort.rounds
}

/// Measures all programs. `round` hears of each round, with the program's name. An error comes with the program's name.
pub(crate) fn run(effort: &Effort, mut round: impl FnMut(&'static str)) -> Result<Report, (&'static str, Error)> {
    let measured = PROGRAMS.iter().map(|program| {
        let failed = |error| (program.name, error);
        start(program).map_err(failed)?;
        let mut samples = [const { Vec::new() }; STAGES.len()];
        let mut totals = Vec::new();
        for _ in 0..effort.rounds {
            let (stages, total) = start(program).map_err(failed)?;
            samples.iter_mut().zip(stages).for_each(|(samples, stage)| samples.push(stage));
            totals.push(total);
            round(program.name);
        }
        let (program, chars) = (program.name, program.source.chars().count());
        Ok(Row { program, chars, stages: samples.map(median), total_ns: median(totals) })
    });
    Ok(Report { tier: TIER, rounds: effort.rounds, rows: measured.collect::<Result<_, _>>()? })
}

/// From nothing to value and gradient, once: the time of each stage, and of all.
fn start(program: &Program) -> Result<(Stages, f64), Error> {
    let ns = |time: Duration| time.as_secs_f64() * 1e9;
    let began = Instant::now();
    let engine = Engine::default();
    let compiled = frontend::compile_program(program.name, program.source).map_err(ErrorKind::Source)?;
    let times = compiled.times;
    let compiled_at = Instant::now();
    let module = Module::new(&engine, compiled.module)?;
    let verify = compiled_at.elapsed();
    let function = module.function(program.name)?;

    // Reading JSON is not the engine's.
    let reading = Instant::now();
    let mut json = serde_json::Deserializer::from_str(program.args);
    let args = function.arguments_seed().deserialize(&mut json).expect("the arguments fit the examples");
    let read = reading.elapsed();

    let called = Instant::now();
    black_box(function.call(&args)?);
    let value = called.elapsed();
    let called = Instant::now();
    let options = CallOptions::default();
    if function.interface().result == HostType::Real {
        black_box(function.grad_with(&args, &options)?);
    } else {
        black_box(function.jacobian_with(&args, &options)?);
    }
    let gradient = called.elapsed();
    let total = began.elapsed() - read;
    Ok(([times.parse, times.check, times.compile, verify, value, gradient].map(ns), ns(total)))
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 4)?;
        report.serialize_field("suite", NAME)?;
        report.serialize_field("tier", self.tier)?;
        report.serialize_field("rounds", &self.rounds)?;
        report.serialize_field("results", &self.rows)?;
        report.end()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 3 + STAGES.len())?;
        row.serialize_field("case", self.program)?;
        row.serialize_field("chars", &self.chars)?;
        for ((_, field), ns) in STAGES.iter().zip(&self.stages) {
            row.serialize_field(field, ns)?;
        }
        row.serialize_field("total_ns", &self.total_ns)?;
        row.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "suite {NAME}: {}, 1 thread, medians of {} rounds", self.tier, self.rounds)?;
        let heads = ["program", "chars"].into_iter().chain(STAGES.map(|(name, _)| name)).chain(["total"]);
        let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
        for row in &self.rows {
            let times = row.stages.iter().chain([&row.total_ns]).map(|&ns| time(ns));
            lines.push([row.program.to_owned(), row.chars.to_string()].into_iter().chain(times).collect());
        }
        let lines: Vec<&[String]> = lines.iter().map(Vec::as_slice).collect();
        align(f, &lines)
    }
}
