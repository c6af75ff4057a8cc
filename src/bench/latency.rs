//! From source text to the first value and the first gradient: what a host waits for when its user changes a program.
//! Each round starts from nothing, with an engine of its own, and splits the time by stage. What was compiled to native
//! code on the way is listed by function and mode. Then the same in a process of its own, where nothing was ever used:
//! no memory, no code, no table.

use super::Selection;
use super::cases::Tier;
use super::measure::{Effort, median};
use super::report::{Head, align, time};
use dualvm::{CallOptions, CodeKind, CompiledCode, Error, ErrorKind, Mode, Module, frontend};
use serde::de::DeserializeSeed;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;
use std::hint::black_box;
use std::process::Command;
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
const PROGRAMS: [Program; 34] = programs! {
    "rosenbrock" "[[1.5, 2, 0.5]]"
    "branchy" "[10, 1.5, 0.2, 0.3, 0.105]"
    "dotprod" "[[1, 2, 3], [3, 5, 7]]"
    "expression" r#"[{"Mul": [{"Leaf": 3}, {"Add": [{"Leaf": 4}, {"Apply": ["Sin", {"Leaf": 1}]}]}]}]"#
    "implicit_root" "[3]"
    "logistic" "[[0.1, -0.2], 0.5, [[[1, 2], true], [[-1, 0.5], false]]]"
    "minimax" "[[1, 1], [1, 1]]"
    "mult" "[3, 4]"
    "neural" "[[[[[0.5, -0.2], [0.1, 0.3]], [0.1, 0.2]]], [1, 2]]"
    "newton" "[2, 1]"
    "newton_hessian" "[[[[1, 2], true], [[-1, 0.5], false]], [0, 0]]"
    "newton_sweep" "[[2, 3], 1]"
    "particle" "[0.1]"
    "physics_informed" "[[[1, 0.5, 0.3], [-2, 0.1, 0.4]], [0, 0.5, 1]]"
    "particles" "[10, [[[0.5, 0.1], [1, 1]]]]"
    "rotate_vec_by_quat" "[[1, 2, 3], [4, 5, 6, 7]]"
    "rotations" "[10, [1, 2, 3], [0.1, 0.5, 0.7, 0.5]]"
    "saddle" "[1.5]"
    "spring" "[10, [0.5, 0.1], [1, 1]]"
    "summatvec" "[[[1, 2], [3, 4]], [3, 5]]"
    "deep_fork" "[10, 0.5]"
    "monte_carlo" "[10, [[100, 0.2], [90, 0.3], [110, 0.25]], [0.03, 1, 98, 0.4]]"
    "particles_par" "[10, [[[0.5, 0.1], [1, 1]]]]"
    "shared_array" "[3, [1, 2, 3, 4, 5]]"
    "tree_sum" "[[1, 2, 3, 4, 5]]"
    "uneven_map" "[4, 20, -2.1, -1.3, 2.6]"
    "camera_pose" "[[[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.5], [0, 0.5, 1]], [[0.02, 0.01], [0.27, 0.03], [0.01, 0.26], [0.24, 0.25], [0, 0.12]]]"
    "gaussian_process" r#"[{"length": 1, "scale": 1.2, "noise": 0.1}, [0, 0.5, 1.5], [0, 0.4, 1]]"#
    "hidden_markov" r#"[{"initial": [0, 0.5], "transitions": [[2, 0], [0, 1]], "means": [-1, 1], "deviations": [1, 0.5]}, [-1.2, 0.9, 1.1]]"#
    "hierarchical" r#"[[[28, 15], [8, 10], [-3, 16]], {"mean": 4, "log_spread": 1, "offsets": [0.5, 0, -0.5]}]"#
    "kalman" r#"[0.1, 0.5, [{"Just": 0.2}, {"Just": 0.9}, "Nothing", {"Just": 3.3}]]"#
    "lstm" r#"[{"forget": {"input": [0.1], "state": [[0.2]], "bias": [1]}, "update": {"input": [-0.3], "state": [[0.5]], "bias": [0]}, "output": {"input": [0.4], "state": [[0.1]], "bias": [0.2]}, "candidate": {"input": [0.7], "state": [[-0.2]], "bias": [0.1]}, "readout": [0.5]}, [0.1, 0.5, 0.9]]"#
    "neural_ode" r#"[{"inner": [[0.5, -0.2], [0.1, 0.7]], "bias": [0.1, -0.1], "outer": [[0.3, -1], [1, 0.2]]}, [0, 0.5, 1], [[1, 0], [0.9, 0.4], [0.6, 0.8]]]"#
    "yield_curve" "[[1, 2, 4], [[1, 2], [2, 2.5], [4, 3]], [100.5, 101.2, 103.9], [3, 2.75]]"
};

/// The stages in their order: the name in the table, and the field in JSON. Native code is generated when something has
/// run often enough, or is about to run, and so is part of the first value and gradient.
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

/// What is measured in a process of its own: the time from nothing to a verified module, and to value and gradient.
const FIRSTS: [(&str, &str); 2] = [("first module", "process_module_ns"), ("first gradient", "process_total_ns")];

/// Nanoseconds of what is measured in a process of its own.
type Firsts = [f64; FIRSTS.len()];

/// Why a program can't be measured.
#[derive(Debug)]
pub(crate) enum Unsound {
    /// It doesn't compile, or a call failed.
    Call(Error),
    /// A process for it can't be started, or says nothing that could be understood.
    Process(String),
}

impl From<Error> for Unsound {
    fn from(error: Error) -> Self {
        Unsound::Call(error)
    }
}

impl From<std::io::Error> for Unsound {
    fn from(error: std::io::Error) -> Self {
        Unsound::Process(error.to_string())
    }
}

/// The results of the suite. Times are medians.
pub(crate) struct Report {
    head: Head,
    rows: Vec<Row>,
}

struct Row {
    program: &'static str,
    tier: Tier,
    /// Characters of the source.
    chars: usize,
    stages: Stages,
    /// What of value and gradient it took to generate native code.
    native_ns: f64,
    /// From nothing to value and gradient.
    total_ns: f64,
    firsts: Firsts,
    compiled: Vec<CompiledPiece>,
}

/// A function in one mode, or an adjoint, that was compiled in a round.
struct CompiledPiece {
    /// As the first round has it.
    code: CompiledCode,
    /// Nanoseconds of compiling in each round.
    samples: Vec<f64>,
}

impl CompiledPiece {
    fn ns(&self) -> f64 {
        median(self.samples.clone())
    }
}

/// What has been measured of a program in a tier.
#[derive(Default)]
struct Samples {
    stages: [Vec<f64>; STAGES.len()],
    native: Vec<f64>,
    totals: Vec<f64>,
    firsts: [Vec<f64>; FIRSTS.len()],
    compiled: Vec<CompiledPiece>,
}

impl Samples {
    fn add(&mut self, start: Start) {
        self.stages.iter_mut().zip(start.stages).for_each(|(samples, stage)| samples.push(stage));
        self.totals.push(start.total_ns);
        self.native.push(start.compiled.iter().fold(0.0, |sum, code| sum + ns(code.time)));
        for code in start.compiled {
            let key = |code: &CompiledCode| (code.name.clone(), code.kind, code.entry);
            match self.compiled.iter_mut().find(|piece| key(&piece.code) == key(&code)) {
                Some(piece) => piece.samples.push(ns(code.time)),
                None => self.compiled.push(CompiledPiece { samples: vec![ns(code.time)], code }),
            }
        }
    }

    fn add_firsts(&mut self, firsts: Firsts) {
        self.firsts.iter_mut().zip(firsts).for_each(|(samples, first)| samples.push(first));
    }

    fn row(self, program: &Program, tier: Tier) -> Row {
        Row {
            program: program.name,
            tier,
            chars: program.source.chars().count(),
            stages: self.stages.map(median),
            native_ns: median(self.native),
            total_ns: median(self.totals),
            firsts: self.firsts.map(median),
            compiled: self.compiled,
        }
    }
}

/// Rounds in a run of the suite.
pub(crate) fn rounds(only: &Selection, effort: &Effort) -> usize {
    only.count(names()) * effort.rounds
}

/// Measures programs on all tiers. `round` hears of each round, with the program's name. An error comes with the
/// program's name.
pub(crate) fn run(
    only: &Selection,
    tiers: &[Tier],
    effort: &Effort,
    mut round: impl FnMut(&'static str),
) -> Result<Report, (&'static str, Unsound)> {
    let mut rows = Vec::new();
    for program in PROGRAMS.iter().filter(|program| only.has(program.name)) {
        let failed = |error| (program.name, error);
        for &tier in tiers {
            start(program, tier).map_err(|error| failed(error.into()))?;
        }
        let mut samples: Vec<Samples> = tiers.iter().map(|_| Samples::default()).collect();
        for _ in 0..effort.rounds {
            for (samples, &tier) in samples.iter_mut().zip(tiers) {
                samples.add(start(program, tier).map_err(|error| failed(error.into()))?);
                samples.add_firsts(in_a_process(program, tier).map_err(failed)?);
            }
            round(program.name);
        }
        rows.extend(samples.into_iter().zip(tiers).map(|(samples, &tier)| samples.row(program, tier)));
    }
    Ok(Report { head: Head { suite: NAME, tiers: tiers.to_vec(), rounds: effort.rounds }, rows })
}

fn ns(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The times of one round.
struct Start {
    stages: Stages,
    module_ns: f64,
    total_ns: f64,
    compiled: Vec<CompiledCode>,
}

/// The names of the programs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.name)
}

/// What a process that measures one program prints: see [`FIRSTS`]. It must have done nothing of the kind before.
pub(crate) fn once(name: &str, tier: Tier) -> Result<String, Error> {
    let program = PROGRAMS.iter().find(|program| program.name == name).expect("the flag takes names of programs only");
    let start = start(program, tier)?;
    Ok(format!("{} {}", start.module_ns, start.total_ns))
}

/// Starts a process that measures a program once.
fn in_a_process(program: &Program, tier: Tier) -> Result<Firsts, Unsound> {
    let exe = std::env::current_exe()?;
    let jit = match tier {
        Tier::Interpreter => "off",
        Tier::Native => "auto",
        Tier::AlwaysNative => "always",
    };
    let args = ["bench", "--suite", NAME, "--once", program.name, "--jit", jit];
    let output = Command::new(exe).args(args).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut numbers = printed.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(module)), Some(Ok(total))) if output.status.success() => Ok([module, total]),
        _ => Err(Unsound::Process(format!("found {printed:?}, {}", String::from_utf8_lossy(&output.stderr)))),
    }
}

/// From nothing to value and gradient, once.
fn start(program: &Program, tier: Tier) -> Result<Start, Error> {
    let began = Instant::now();
    let engine = tier.engine();
    let compiled = frontend::compile_program(program.name, program.source).map_err(ErrorKind::Source)?;
    let times = compiled.times;
    let compiled_at = Instant::now();
    let module = Module::new(&engine, compiled.module)?;
    let verify = compiled_at.elapsed();
    let module_ns = ns(began.elapsed());
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
    if function.interface().result.is_real() {
        black_box(function.value_and_grad_with(&args, &options)?);
    } else {
        black_box(function.jacobian_with(&args, &options)?);
    }
    let gradient = called.elapsed();
    let total = began.elapsed() - read;
    Ok(Start {
        stages: [times.parse, times.check, times.compile, verify, value, gradient].map(ns),
        module_ns,
        total_ns: ns(total),
        compiled: module.compiled(),
    })
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.head.serialize_with(&self.rows, serializer)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 6 + STAGES.len() + FIRSTS.len())?;
        row.serialize_field("case", self.program)?;
        row.serialize_field("tier", self.tier.name())?;
        row.serialize_field("chars", &self.chars)?;
        for ((_, field), ns) in STAGES.iter().zip(&self.stages) {
            row.serialize_field(field, ns)?;
        }
        row.serialize_field("native_ns", &self.native_ns)?;
        row.serialize_field("total_ns", &self.total_ns)?;
        for ((_, field), ns) in FIRSTS.iter().zip(&self.firsts) {
            row.serialize_field(field, ns)?;
        }
        row.serialize_field("compiled", &self.compiled)?;
        row.end()
    }
}

impl Serialize for CompiledPiece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut piece = serializer.serialize_struct("CompiledPiece", 4)?;
        piece.serialize_field("name", &self.code.name)?;
        piece.serialize_field("mode", &self.code.kind.to_string())?;
        piece.serialize_field("bytes", &self.code.bytes)?;
        piece.serialize_field("ns", &self.ns())?;
        piece.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        let heads = ["program", "tier", "chars"].into_iter().chain(STAGES.map(|(name, _)| name));
        let heads = heads.chain(["total", "native code"]).chain(FIRSTS.map(|(name, _)| name));
        let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
        for row in &self.rows {
            let mut line = vec![row.program.to_owned(), row.tier.to_string(), row.chars.to_string()];
            line.extend(row.stages.iter().chain([&row.total_ns]).map(|&ns| time(ns)));
            line.push(if row.compiled.is_empty() { "-".to_owned() } else { time(row.native_ns) });
            line.extend(row.firsts.iter().map(|&ns| time(ns)));
            lines.push(line);
        }
        writeln!(f, "native code: what of value and gradient it took to generate it")?;
        writeln!(
            f,
            "first module, first gradient: in a process of its own, from nothing to the module and to the gradient"
        )?;
        align(f, &lines)?;
        self.head.tiers.iter().try_for_each(|&tier| self.compiled(f, tier))
    }
}

impl Report {
    /// Medians and maxima over all that a tier has compiled.
    fn compiled(&self, f: &mut fmt::Formatter<'_>, tier: Tier) -> fmt::Result {
        let pieces = || self.rows.iter().filter(|row| row.tier == tier).flat_map(|row| &row.compiled);
        if pieces().next().is_none() {
            return Ok(());
        }
        let heads = ["compiled for", "pieces", "bytes", "most", "time", "most"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for kind in [CodeKind::Function(Mode::PRIMAL), CodeKind::Function(Mode::RECORDING), CodeKind::Adjoint] {
            let of_kind = || pieces().filter(|piece| piece.code.kind == kind);
            let count = of_kind().count();
            if count == 0 {
                continue;
            }
            let bytes: Vec<f64> = of_kind().map(|piece| piece.code.bytes as f64).collect();
            let times: Vec<f64> = of_kind().map(CompiledPiece::ns).collect();
            let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
            let (most_bytes, most_time) = (most(&bytes), most(&times));
            let size = |bytes: f64| format!("{bytes:.0}");
            let cells = [size(median(bytes)), size(most_bytes), time(median(times)), time(most_time)];
            lines.push([kind.to_string(), count.to_string()].into_iter().chain(cells).collect());
        }
        writeln!(f, "\n{tier}: a piece is a function in one mode, or the adjoint of a segment or a loop")?;
        align(f, &lines)
    }
}
