//! The evals of GradBench, a public suite of benchmarks for automatic differentiation, in dualvm's language.
//!
//! The programs are in `benches/gradbench/`, embedded, so that nothing but the binary is needed. `evals` is the table
//! of what the suite asks for and which definition answers it; `input` reads the suite's JSON, `prepared` runs, and
//! `ba` and `ht` assemble the Jacobians that the suite wants in a shape of its own. How messages come in and answers go
//! out is with the other commands, how fast it is beside hand-written Rust with the other benchmarks.

mod ba;
mod evals;
mod ht;
mod input;
mod prepared;

pub(crate) use prepared::{Prepared, Tape, reals};

use dualvm::{Engine, Error, Module, Value};
use evals::{EVALS, Entry, Eval, How};
use input::Effort;
use std::fmt;
use std::time::{Duration, Instant};

/// Evals as modules of an engine, each compiled when it is first asked for.
pub(crate) struct Evals {
    engine: Engine,
    /// In the order of the table.
    modules: Vec<Option<Module>>,
}

/// A function of an eval with the arguments of an input, and how often the input wants it to run.
pub(crate) type Ready = Result<(Box<dyn Prepared>, Effort), NoAnswer>;

/// Why a function of an eval gives no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// There is no such eval or function.
    Unknown(String),
    /// The input isn't what the function takes.
    Input(String),
    /// The program ended with an error.
    Call(Error),
}

/// A function that has run.
pub(crate) struct Answer {
    /// What the last run gave.
    pub(crate) output: Value,
    /// Reading the input, and a first run, in which what is hot was compiled.
    pub(crate) prepare: Duration,
    /// The runs after it.
    pub(crate) runs: Vec<Duration>,
}

impl Evals {
    /// All evals, none of them compiled yet.
    pub(crate) fn new(engine: Engine) -> Evals {
        Evals { engine, modules: EVALS.iter().map(|_| None).collect() }
    }

    /// Compiles an eval's program.
    pub(crate) fn define(&mut self, name: &str) -> Result<(), NoAnswer> {
        self.module(name).map(|_| ())
    }

    /// Runs a function of an eval as often as its input, which is JSON, asks for.
    pub(crate) fn evaluate(&mut self, name: &str, function: &str, input: &str) -> Result<Answer, NoAnswer> {
        self.define(name)?;
        let began = Instant::now();
        let (mut prepared, effort) = self.prepare(name, function, input)?;
        prepared.run()?;
        let prepare = began.elapsed();
        let runs = repeat(&mut *prepared, effort)?;
        Ok(Answer { output: prepared.output(), prepare, runs })
    }

    /// A function of an eval with the arguments of an input, and how often the input wants it to run.
    pub(crate) fn prepare(&mut self, name: &str, function: &str, input: &str) -> Ready {
        let (eval, module) = self.module(name)?;
        let Some(Entry { definition, how, .. }) = eval.entries.iter().find(|entry| entry.name == function) else {
            return Err(NoAnswer::Unknown(format!("{name}: there is no function `{function}`")));
        };
        match how {
            How::Assembled(prepare) => prepare(module, input),
            How::Value(shape) => prepared::value(module.function(definition)?, input, *shape),
            How::Gradient(wanted) => prepared::gradient(module.function(definition)?, input, wanted),
        }
    }

    /// The gradient of a definition with respect to a parameter, for which the suite has no name.
    pub(crate) fn prepare_gradient(
        &mut self,
        name: &str,
        definition: &str,
        parameter: &'static str,
        input: &str,
    ) -> Result<Box<dyn Prepared>, NoAnswer> {
        let (_, module) = self.module(name)?;
        let wanted = prepared::Wanted::Only(parameter);
        Ok(prepared::gradient(module.function(definition)?, input, &wanted)?.0)
    }

    fn module(&mut self, name: &str) -> Result<(&'static Eval, &Module), NoAnswer> {
        let Some(at) = EVALS.iter().position(|eval| eval.name == name) else {
            return Err(NoAnswer::Unknown(format!("there is no eval `{name}` in dualvm")));
        };
        let (eval, slot) = (&EVALS[at], &mut self.modules[at]);
        let module = match slot.take() {
            Some(module) => module,
            None => Module::from_source(&self.engine, &format!("{name}.dual"), eval.source)?,
        };
        Ok((eval, slot.insert(module)))
    }
}

/// Runs until both bounds are reached, and once at least.
fn repeat(prepared: &mut dyn Prepared, effort: Effort) -> Result<Vec<Duration>, Error> {
    let (mut runs, mut total) = (Vec::new(), Duration::ZERO);
    while (runs.len() as u64) < effort.min_runs.max(1) || total.as_secs_f64() < effort.min_seconds {
        let began = Instant::now();
        prepared.run()?;
        let time = began.elapsed();
        runs.push(time);
        total += time;
    }
    Ok(runs)
}

impl From<Error> for NoAnswer {
    fn from(error: Error) -> Self {
        NoAnswer::Call(error)
    }
}

impl From<serde_json::Error> for NoAnswer {
    fn from(error: serde_json::Error) -> Self {
        NoAnswer::Input(error.to_string())
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Unknown(why) => f.write_str(why),
            NoAnswer::Input(why) => write!(f, "input: {why}"),
            NoAnswer::Call(error) => error.fmt(f),
        }
    }
}
