//! Whether compiling pays: the first call of a program in an engine of its own, which has seen nothing, interpreted,
//! compiled before it runs, and as engines do by default. The default can't know how long a program will run; it
//! should never take much longer than the better one of the other two.

mod data;
mod programs;

use super::Selection;
use super::cases::Tier;
use super::measure::{Effort, median};
use super::report::{align, time};
use dualvm::vm::module::ModuleDef;
use dualvm::{CallOptions, Error, ErrorKind, Function, Module, Value, frontend};
use programs::{PROGRAMS, Program, Size};
use serde::de::DeserializeSeed;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What `--suite` takes.
pub(crate) const NAME: &str = "tiering";

/// In the order of the columns. The default is the second.
const TIERS: [Tier; 3] = [Tier::Interpreter, Tier::Native, Tier::AlwaysNative];

/// A program that takes longer is called fewer times.
const ROUND_MAX: Duration = Duration::from_millis(100);
/// The size that `--quick` leaves out.
const HOT: &str = "hot";
/// Calls before one that counts as warm.
const WARM_UP: usize = 3;
/// Differences that nobody notices.
const SLACK_NS: f64 = 100_000.0;
/// The project's targets: ratios of the default to the better tier, on every row, on rows where the other is so many
/// times worse, and in the median; and of warm calls to those of code that was compiled at once.
const RATIO_MAX: f64 = 2.0;
const CLEAR: f64 = 5.0;
const CLEAR_RATIO_MAX: f64 = 1.3;
const MEDIAN_MAX: f64 = 1.1;
const WARM_MAX: f64 = 1.03;

/// The results of the suite.
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// A program with arguments of one size. Times are medians in nanoseconds, by tier.
struct Row {
    program: &'static str,
    size: &'static str,
    first: [f64; TIERS.len()],
    /// Of calls that come after several others.
    warm: [f64; TIERS.len()],
}

impl Row {
    fn best(&self) -> f64 {
        self.first[0].min(self.first[2])
    }

    fn ratio(&self) -> f64 {
        self.first[1] / self.best()
    }

    /// Whether the default takes so many times longer than the better tier that somebody would notice.
    fn is_over(&self, most: f64) -> bool {
        self.ratio() > most && self.first[1] - self.best() > SLACK_NS
    }

    fn is_clear(&self) -> bool {
        self.first[0].max(self.first[2]) >= CLEAR * self.best()
    }

    fn warm_ratio(&self) -> f64 {
        self.warm[1] / self.warm[2]
    }
}

/// Rounds in a run of the suite.
pub(crate) fn rounds(only: &Selection) -> usize {
    only.count(names())
}

/// The names of the programs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.name)
}

/// Measures programs. `round` hears of each, with its name. An error comes with the program's name.
pub(crate) fn run(
    only: &Selection,
    effort: &Effort,
    mut round: impl FnMut(&'static str),
) -> Result<Report, (&'static str, Error)> {
    let mut rows = Vec::new();
    for program in PROGRAMS.iter().filter(|program| only.has(program.name)) {
        let failed = |error| (program.name, error);
        let compiled = frontend::compile_program(program.name, program.source);
        let module = compiled.map_err(|error| failed(ErrorKind::Source(error).into()))?.module;
        for size in program.sizes.iter().filter(|size| effort.rounds > Effort::QUICK.rounds || size.label != HOT) {
            rows.push(row(program, size, &module, effort).map_err(failed)?);
        }
        round(program.name);
    }
    Ok(Report { rows })
}

fn row(program: &'static Program, size: &Size, module: &ModuleDef, effort: &Effort) -> Result<Row, Error> {
    let json = (size.args)();
    let mut first = [const { Vec::new() }; TIERS.len()];
    let mut warm = [const { Vec::new() }; TIERS.len()];
    let mut count = effort.rounds;
    while first[0].len() < count {
        for (tier, (first, warm)) in TIERS.iter().zip(first.iter_mut().zip(&mut warm)) {
            let module = Module::new(&tier.engine(), module.clone())?;
            let function = module.function(program.function)?;
            let mut reader = serde_json::Deserializer::from_str(&json);
            let args = function.arguments_seed().deserialize(&mut reader).expect("the arguments fit the program");
            let cold = gradient(&function, &args)?;
            first.push(cold);
            for _ in 1..WARM_UP {
                gradient(&function, &args)?;
            }
            warm.push(gradient(&function, &args)?);
            if cold > ROUND_MAX.as_nanos() as f64 {
                count = count.min(5);
            }
        }
    }
    Ok(Row { program: program.name, size: size.label, first: first.map(median), warm: warm.map(median) })
}

/// Nanoseconds of a call.
fn gradient(function: &Function, args: &[Value]) -> Result<f64, Error> {
    let began = Instant::now();
    black_box(function.value_and_grad_with(args, &CallOptions::default())?);
    Ok(began.elapsed().as_secs_f64() * 1e9)
}

impl Report {
    fn median_ratio(&self) -> f64 {
        median(self.rows.iter().map(Row::ratio).collect())
    }

    /// Warm calls of programs that run long enough for everything to be compiled.
    fn hot(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.size == HOT)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "suite {NAME}: first value and gradient in a fresh engine, 1 thread, medians")?;
        let heads = ["program", "size", "off", "auto", "always", "auto / best", "", "warm: auto", "always", "ratio"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let most = if row.is_clear() { CLEAR_RATIO_MAX } else { RATIO_MAX };
            let mut line = vec![row.program.to_owned(), row.size.to_owned()];
            line.extend(row.first.map(time));
            line.push(format!("{:.2}", row.ratio()));
            line.push(if row.is_over(most) { format!("> {most}") } else { String::new() });
            line.extend([time(row.warm[1]), time(row.warm[2]), format!("{:.2}", row.warm_ratio())]);
            lines.push(line);
        }
        align(f, &lines)?;
        let count = |over: &dyn Fn(&&Row) -> bool| self.rows.iter().filter(over).count();
        let worst = |rows: &mut dyn Iterator<Item = f64>| rows.fold(0.0, f64::max);
        writeln!(
            f,
            "\nauto / best: median {:.2} (target {MEDIAN_MAX}), worst {:.2}; over {RATIO_MAX}: {} of {} rows; over \
             {CLEAR_RATIO_MAX} where the other tier takes {CLEAR} times as long: {} of {}; differences below 0.1 ms \
             don't count",
            self.median_ratio(),
            worst(&mut self.rows.iter().map(Row::ratio)),
            count(&|row| row.is_over(RATIO_MAX)),
            self.rows.len(),
            count(&|row| row.is_clear() && row.is_over(CLEAR_RATIO_MAX)),
            count(&|row| row.is_clear()),
        )?;
        if self.hot().next().is_none() {
            return Ok(());
        }
        writeln!(
            f,
            "warm calls of hot programs, auto / always: median {:.2}, worst {:.2} (target {WARM_MAX})",
            median(self.hot().map(Row::warm_ratio).collect()),
            worst(&mut self.hot().map(Row::warm_ratio)),
        )
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 3)?;
        report.serialize_field("suite", NAME)?;
        report.serialize_field("median_ratio", &self.median_ratio())?;
        report.serialize_field("results", &self.rows)?;
        report.end()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 8)?;
        row.serialize_field("case", self.program)?;
        row.serialize_field("size", self.size)?;
        for (name, ns) in ["off_ns", "auto_ns", "always_ns"].into_iter().zip(&self.first) {
            row.serialize_field(name, ns)?;
        }
        for (name, ns) in ["warm_off_ns", "warm_auto_ns", "warm_always_ns"].into_iter().zip(&self.warm) {
            row.serialize_field(name, ns)?;
        }
        row.end()
    }
}
