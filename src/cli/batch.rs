//! `--batch`: a call for each line of a file, on all threads, and a line of JSON for each call, in order.
//!
//! Lines are answered in rounds, of those that are there: a file of any length takes as much memory as some lines for
//! each thread and their answers, and whoever writes to a pipe and waits for the answer gets it.

use super::Call;
use super::failure::{Failure, Outcome};
use super::input::{all_arguments, arguments_in_json, open_batch, shown, without_place};
use super::interrupt::cancellable;
use super::json::{Derivative, Report};
use super::output::with_stdout;
use dualvm::{CallOptions, Error, ErrorKind, Function, TraceFrame, Value};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Lines for each thread that are read ahead, and answered together at most. Answers may be long: there are as many of
/// them in memory.
const LINES_PER_THREAD: usize = 64;
/// Bytes of lines behind which no further one is read ahead.
const BYTES_MAX: usize = 1 << 20;

/// Calls with the arguments of a file.
pub(crate) struct Batch<'a> {
    call: &'a Call,
    path: &'a Path,
    function: Function,
    /// Those of the engine.
    threads: usize,
}

/// What became of a line.
enum Answer {
    /// Its answer.
    Given(String),
    /// It isn't arguments: its answer, and the place and the message.
    Bad(String, String),
}

/// What was wrong so far.
#[derive(Default)]
struct Tally {
    lines: u64,
    bad: u64,
    first_bad: Option<String>,
    trapped: u64,
    /// The first trap, and its line.
    first_trap: Option<(u64, String)>,
}

/// How a call ends that gives no result.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Input,
    Trap,
    Limit,
    Result,
}

impl Ending {
    /// That of a call with this error; `None` if all others would end like it.
    fn of(error: &Error) -> Option<Self> {
        match error.kind() {
            _ if error.is_cancelled() => None,
            ErrorKind::NotScalar { .. } => None,
            ErrorKind::Trap(_) if error.is_limit() => Some(Ending::Limit),
            ErrorKind::Trap(_) => Some(Ending::Trap),
            ErrorKind::ResultDepth { .. } | ErrorKind::ResultShape { .. } => Some(Ending::Result),
            _ => Some(Ending::Input),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Ending::Input => "input",
            Ending::Trap => "trap",
            Ending::Limit => "limit",
            Ending::Result => "result",
        }
    }
}

impl<'a> Batch<'a> {
    /// That of a call which has one. `choose` says what derivatives are with respect to.
    pub(crate) fn of(
        call: &'a Call,
        choose: impl FnOnce(Function) -> Result<Function, Failure>,
    ) -> Outcome<Option<Self>> {
        let Some(path) = &call.batch else { return Ok(None) };
        let opened = open_batch(call, path)?;
        Ok(Some(Batch { call, path, function: choose(opened.function)?, threads: opened.engine.threads() }))
    }

    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// Answers all lines with what `each` makes of their arguments.
    pub(crate) fn answer(
        &self,
        each: impl Fn(&Function, &[Value], &CallOptions) -> Result<String, Error> + Send + Sync,
    ) -> Outcome {
        let lines = Lines::of(self.path, self.threads)?;
        let mut tally = Tally::default();
        loop {
            let read = lines.next_few().map_err(|error| unreadable(self.path, &error))?;
            if read.is_empty() {
                return tally.outcome(&self.function);
            }
            let answers = cancellable(|handle| {
                let options = CallOptions::default().cancelled_by(handle);
                self.function.batch_with(&options).map(&read, |function, (number, line), options| {
                    match arguments_in_json(function, line) {
                        Ok(args) => Ok(Answer::Given(each(function, &args, options)?)),
                        Err(error) => Ok(self.bad(*number, line, &error)),
                    }
                })
            });
            self.write(&read, answers, &mut tally)?;
        }
    }

    fn write(&self, lines: &[Line], answers: Vec<Result<Answer, Error>>, tally: &mut Tally) -> Outcome {
        // What ends the batch, after the answers before it.
        let mut fatal = None;
        with_stdout(|out| {
            for ((number, _), answer) in lines.iter().zip(answers) {
                let line = match answer {
                    Ok(Answer::Given(line)) => line,
                    Ok(Answer::Bad(line, message)) => {
                        tally.bad += 1;
                        tally.first_bad.get_or_insert(message);
                        line
                    }
                    Err(error) => {
                        let failure = || Failure::call(&shown(&self.call.target.program.file), &self.function, &error);
                        let Some(ending) = Ending::of(&error) else {
                            fatal = Some(failure());
                            break;
                        };
                        if ending == Ending::Input {
                            tally.bad += 1;
                            tally.first_bad.get_or_insert_with(|| format!("{}:{number}: {error}", shown(self.path)));
                        } else {
                            tally.trapped += 1;
                            tally.first_trap.get_or_insert_with(|| (*number, failure().message()));
                        }
                        Failed::answer(ending, &error, *number)
                    }
                };
                tally.lines += 1;
                writeln!(out, "{line}")?;
            }
            Ok(())
        })?;
        fatal.map_or(Ok(()), Err)
    }

    /// A line that isn't arguments.
    fn bad(&self, number: u64, line: &[u8], error: &serde_json::Error) -> Answer {
        let message = without_place(error);
        // Columns are bytes, which nobody counts.
        let before = &line[..error.column().min(line.len())];
        let column = String::from_utf8_lossy(before).chars().count().max(1);
        let failed =
            Failed { ending: Ending::Input, message: &message, line: number, column: Some(column), frames: Vec::new() };
        Answer::Bad(in_json(&failed), format!("{}:{number}:{column}: {message}", shown(self.path)))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let name = if path == Path::new("-") { Path::new("stdin") } else { path };
    Failure::io("read", name, error, "--batch expects a file that holds arguments in JSON, one list of them a line")
}

/// A line that isn't blank, and its number from 1.
type Line = (u64, Vec<u8>);

/// The lines of a file, which a thread reads ahead.
struct Lines(Arc<Ahead>);

/// What was read ahead.
struct Ahead {
    state: Mutex<Waiting>,
    changed: Condvar,
    /// How many lines may be there.
    count_max: usize,
}

/// Lines that nobody has taken yet.
#[derive(Default)]
struct Waiting {
    lines: Vec<Line>,
    bytes: usize,
    /// Whether there are no more, and why.
    end: Option<io::Result<()>>,
}

impl Ahead {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, Waiting>, on: impl Fn(&Waiting) -> bool) -> MutexGuard<'a, Waiting> {
        self.changed.wait_while(state, |state| on(state)).unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all lines, each as soon as there is room.
    fn read_all(&self, from: impl io::Read) {
        let mut from = BufReader::with_capacity(1 << 16, from);
        let mut number = 0;
        let end = loop {
            let mut line = Vec::new();
            match from.read_until(b'\n', &mut line) {
                Ok(0) => break Ok(()),
                Ok(_) => number += 1,
                Err(error) => break Err(error),
            }
            // The place of an error is in the line, not behind its end.
            line.truncate(line.trim_ascii_end().len());
            if line.is_empty() {
                continue;
            }
            let full = |waiting: &Waiting| waiting.lines.len() >= self.count_max || waiting.bytes >= BYTES_MAX;
            let mut state = self.wait(self.state(), full);
            state.bytes += line.len();
            state.lines.push((number, line));
            self.changed.notify_all();
        };
        self.state().end = Some(end);
        self.changed.notify_all();
    }
}

impl Lines {
    fn of(path: &Path, threads: usize) -> Outcome<Self> {
        let from: Box<dyn io::Read + Send> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).map_err(|error| unreadable(path, &error))?)
        };
        let count_max = threads * LINES_PER_THREAD;
        let ahead = Arc::new(Ahead { state: Mutex::default(), changed: Condvar::new(), count_max });
        let lines = Lines(ahead.clone());
        // Where the command ends before the file does, it ends with the process.
        let thread = thread::Builder::new().name("dualvm lines".to_owned());
        thread.spawn(move || ahead.read_all(from)).map_err(|error| unreadable(path, &error))?;
        Ok(lines)
    }

    /// The next line, and those behind it that needn't be waited for; none at the end.
    fn next_few(&self) -> io::Result<Vec<Line>> {
        let mut state = self.0.wait(self.0.state(), |waiting| waiting.lines.is_empty() && waiting.end.is_none());
        if state.lines.is_empty() {
            return state.end.replace(Ok(())).unwrap_or(Ok(())).map(|()| Vec::new());
        }
        state.bytes = 0;
        self.0.changed.notify_all();
        Ok(std::mem::take(&mut state.lines))
    }
}

impl Tally {
    /// What the whole comes to.
    fn outcome(self, function: &Function) -> Outcome {
        let Tally { lines, bad, first_bad, trapped, first_trap } = self;
        let trap = first_trap.map(|(number, message)| {
            format!(
                "{trapped} of {lines} calls trapped or reached a limit; the first is that of line {number}:\n{message}"
            )
        });
        let Some(first_bad) = first_bad else {
            return trap.map_or(Ok(()), |message| Err(Failure::Trap(message)));
        };
        if let Some(message) = trap {
            // Where stderr can't be written there is nobody to tell.
            _ = writeln!(io::stderr().lock(), "{message}");
        }
        let more = if bad > 1 { format!("; {bad} of {lines} lines are like that") } else { String::new() };
        Err(Failure::bad_input(first_bad, format_args!("{}{more}", all_arguments(function))))
    }
}

/// A line of the answer.
pub(crate) fn line(value: &Value, derivatives: &[(&'static str, Derivative<'_>)]) -> String {
    in_json(&Report { value, derivatives, used: None })
}

fn in_json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("the keys of objects are texts")
}

/// The answer to a line that has no result.
struct Failed<'a> {
    ending: Ending,
    message: &'a str,
    line: u64,
    column: Option<usize>,
    /// Of a trap: the calls that led to it, the innermost first.
    frames: Vec<&'a TraceFrame>,
}

impl Failed<'_> {
    /// The answer to a call that has failed.
    fn answer(ending: Ending, error: &Error, line: u64) -> String {
        let (message, frames) = match error.trap() {
            Some(trap) => (trap.kind.to_string(), trap.frames().collect()),
            None => (error.to_string(), Vec::new()),
        };
        in_json(&Failed { ending, message: &message, line, column: None, frames })
    }
}

impl Serialize for Failed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut answer = serializer.serialize_map(Some(1))?;
        answer.serialize_entry("error", &FailedParts(self))?;
        answer.end()
    }
}

struct FailedParts<'a>(&'a Failed<'a>);

impl Serialize for FailedParts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Failed { ending, message, line, column, frames } = self.0;
        let mut parts = serializer.serialize_map(None)?;
        parts.serialize_entry("kind", ending.name())?;
        parts.serialize_entry("message", message)?;
        parts.serialize_entry("line", line)?;
        if let Some(column) = column {
            parts.serialize_entry("column", column)?;
        }
        if !frames.is_empty() {
            parts.serialize_entry("calls", &frames.iter().map(|frame| Called(frame)).collect::<Vec<_>>())?;
        }
        parts.end()
    }
}

struct Called<'a>(&'a TraceFrame);

impl Serialize for Called<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TraceFrame { function, place, .. } = self.0;
        let mut called = serializer.serialize_map(None)?;
        called.serialize_entry("function", function)?;
        if let Some(place) = place {
            called.serialize_entry("file", &*place.file)?;
            called.serialize_entry("line", &place.line)?;
            called.serialize_entry("column", &place.column)?;
        }
        called.end()
    }
}
