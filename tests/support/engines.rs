//! Engines that must agree: the same program on each of them, and their outcomes compared bit by bit.
//!
//! Compared are values, gradients, traps with their backtraces, what was traced, and what a run used: instructions,
//! records, slots, tape and allocated bytes. All NaN are one value. How much memory is live at a time and how long a
//! run takes are an engine's own. Where slabs of tape end depends on the number of threads, so tape bytes are compared
//! between engines with the same number only.

use super::flatten;
use dualvm_jit::Cranelift;
use dualvm_vm::engine::{
    CallOptions, Config, Engine, Function, JacobianMode, Jit, Limits, Listener, Module, RunError, Stats, TraceLine,
};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::native::Thresholds;
use dualvm_vm::trap::{Limit, Trap, TrapKind};
use dualvm_vm::value::Value;
use dualvm_vm::verify::VerifyError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The heap of the configuration whose heap is evacuated early.
pub(crate) const SMALL_HEAP: u64 = 400_000;

/// A way to run programs.
struct Configuration {
    name: &'static str,
    jit: Jit,
    /// Whether the engine runs one program after the other, or a new one is made for each.
    reused: bool,
    /// How often each call is made: an engine may compile what is called again.
    calls: u32,
    /// The bytes that may be live, if not as many as the call says.
    live_bytes: Option<u64>,
    /// How many threads run tasks.
    threads: usize,
}

/// Interpreted on a new engine.
const INTERPRETER: Configuration =
    Configuration { name: "interpreter", jit: Jit::Off, reused: false, calls: 1, live_bytes: None, threads: 1 };

const fn after(calls: u32, back_edges: u32, records: u32) -> Jit {
    Jit::After(Thresholds { calls, back_edges, records })
}

/// The list of configurations. The first is the one that all others are compared with. An engine that is to agree with
/// the interpreter is a line here.
const CONFIGURATIONS: &[Configuration] = &[
    INTERPRETER,
    Configuration { name: "engine in use", reused: true, calls: 2, ..INTERPRETER },
    Configuration { name: "small heap", reused: true, live_bytes: Some(SMALL_HEAP), ..INTERPRETER },
    Configuration { name: "two threads", threads: 2, reused: true, calls: 2, ..INTERPRETER },
    Configuration { name: "three threads", threads: 3, reused: true, live_bytes: Some(SMALL_HEAP), ..INTERPRETER },
    // More than a machine may have, so that tasks are stopped anywhere.
    Configuration { name: "eight threads", threads: 8, reused: true, ..INTERPRETER },
    Configuration { name: "native", jit: Jit::Always, ..INTERPRETER },
    // What hosts have who say nothing.
    Configuration { name: "auto", jit: Jit::Auto, reused: true, calls: 2, ..INTERPRETER },
    // Native code calls the interpreter and is called by it, and changes between one call and the next.
    Configuration { name: "mixed", jit: after(2, u32::MAX, 3), reused: true, calls: 2, ..INTERPRETER },
    Configuration { name: "native with three threads", jit: Jit::Always, threads: 3, ..INTERPRETER },
    // One thread may find code that another one has asked for.
    Configuration {
        name: "mixed with eight threads",
        jit: after(2, u32::MAX, 3),
        reused: true,
        calls: 2,
        threads: 8,
        ..INTERPRETER
    },
    // Loops are entered in the middle.
    Configuration { name: "native loops", jit: after(u32::MAX - 1, 3, u32::MAX - 1), reused: true, ..INTERPRETER },
    Configuration {
        name: "native with a small heap",
        jit: Jit::Always,
        reused: true,
        live_bytes: Some(SMALL_HEAP),
        ..INTERPRETER
    },
];

impl Configuration {
    fn engine(&self) -> Engine {
        let mut config = Config::default();
        config.jit = self.jit;
        config.threads = self.threads;
        config.generator = Some(Arc::new(Cranelift));
        Engine::new(config)
    }
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Mode {
    Call,
    Gradient,
    Jacobian,
    /// By columns.
    Columns,
    /// Arguments, and then a tangent for each.
    Jvp,
    /// Arguments, and then the cotangent.
    Vjp,
    /// As for a jvp.
    Hvp,
    Hessian,
}

/// What a call gave. A call's value; a gradient's value and derivatives; a Jacobian's value and rows; the tangent of a
/// jvp; gradient and product of an hvp; gradient and rows of a Hessian.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Done { value: Value, gradients: Vec<Vec<Value>>, stats: Stats },
    Trap(Trap),
    Other(RunError),
}

impl Outcome {
    /// The derivatives of the first real.
    pub(crate) fn gradient(&self) -> Vec<f64> {
        match self {
            Outcome::Done { gradients, .. } => gradients.first().map(|row| flatten(row)).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Whether the run came to this limit.
    pub(crate) fn stopped_by(&self, limit: Limit) -> bool {
        matches!(self, Outcome::Trap(trap) if trap.kind == TrapKind::Limit(limit))
    }

    /// Everything that engines must agree on, as text; the bytes of tape if they are to be compared.
    pub(crate) fn exact(&self, tape: bool) -> String {
        match self {
            Outcome::Done { value, gradients, stats } => {
                let mut out = String::new();
                exact(value, &mut out);
                gradients.iter().flatten().for_each(|value| exact(value, &mut out));
                let Stats { instructions, records, slots, tape_bytes, allocated_bytes, .. } = stats;
                out += &format!(
                    "\ninstructions {instructions}, records {records}, slots {slots}, allocated bytes {allocated_bytes}"
                );
                if tape { out + &format!(", tape bytes {tape_bytes}") } else { out }
            }
            Outcome::Trap(trap) => format!("{trap:?}"),
            Outcome::Other(error) => format!("{error:?}"),
        }
    }
}

/// A value with its reals as bits.
fn exact(value: &Value, out: &mut String) {
    let mut real = |x: f64| {
        // Which NaN an operation gives is not for programs to see.
        out.push_str(&if x.is_nan() { "NaN ".into() } else { format!("{:x}={x:?} ", x.to_bits()) });
    };
    match value {
        Value::Real(x) => real(*x),
        Value::Reals(xs) => xs.iter().for_each(|&x| real(x)),
        Value::Tuple(parts) | Value::Array(parts) => {
            out.push('(');
            parts.iter().for_each(|part| exact(part, out));
            out.push(')');
        }
        Value::Record(parts) => parts.iter().for_each(|(name, part)| {
            out.push_str(name);
            exact(part, out);
        }),
        Value::Variant(name, payload) => {
            out.push_str(name);
            exact(payload, out);
        }
        discrete => out.push_str(&format!("{discrete:?} ")),
    }
}

/// Which engines run a program.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Choice {
    /// All of them.
    All,
    /// All that interpret, and one of those that compile: compiling takes much longer than all else.
    Turns,
    /// The first one and one of the others.
    Pairs,
    /// The first one and one of the others that interpret.
    Interpreted,
}

impl Choice {
    /// What `DUALVM_ENGINES` says, if it is set.
    fn from_environment() -> Option<Choice> {
        Some(match std::env::var("DUALVM_ENGINES").ok()?.as_str() {
            "all" => Choice::All,
            "turns" => Choice::Turns,
            "pairs" => Choice::Pairs,
            "interpreted" => Choice::Interpreted,
            other => {
                panic!("DUALVM_ENGINES must be `all`, `turns`, `pairs` or `interpreted`, found {other:?}")
            }
        })
    }

    /// Whether the engine of this number runs the program of this number.
    fn includes(self, engine: usize, program: u64) -> bool {
        let compiles = |engine: usize| CONFIGURATIONS[engine].jit != Jit::Off;
        // Whether it is the engine's turn, of those that `among` says.
        let turn = |among: &dyn Fn(usize) -> bool| {
            let others: Vec<usize> = (1..CONFIGURATIONS.len()).filter(|&engine| among(engine)).collect();
            others[(program % others.len() as u64) as usize] == engine
        };
        match self {
            Choice::All => true,
            Choice::Turns => !compiles(engine) || turn(&compiles),
            Choice::Pairs => engine == 0 || turn(&|_| true),
            Choice::Interpreted => engine == 0 || turn(&|engine| !compiles(engine)),
        }
    }
}

/// The engines that programs run on, one after the other.
pub(crate) struct Engines {
    engines: Vec<Engine>,
    choice: Choice,
    /// How many programs run on an engine that is not to be reused before a new one is made after all: making one takes
    /// as long as running a small program a few times.
    renewed_every: u64,
}

impl Engines {
    fn with(choice: Choice) -> Self {
        let engines = CONFIGURATIONS.iter().map(Configuration::engine).collect();
        Engines { engines, choice, renewed_every: 1 }
    }

    /// All of them on every program, whatever the environment says.
    pub(crate) fn all() -> Self {
        Engines::with(Choice::All)
    }

    /// What `DUALVM_ENGINES` says: `all`; `turns`: all that interpret, and one that compiles; `pairs`: the interpreter
    /// and one other; `interpreted`: the same without those that compile. If it isn't set, `all` where `DUALVM_SEEDS`
    /// is, else `turns`.
    pub(crate) fn new() -> Self {
        let otherwise = if std::env::var_os("DUALVM_SEEDS").is_some() { Choice::All } else { Choice::Turns };
        Engines::with(Choice::from_environment().unwrap_or(otherwise))
    }

    /// As [`Engines::new`], but `pairs` if nothing is said, and engines are seldom made anew: a fuzzer sees more by
    /// another program than by another engine.
    pub(crate) fn for_fuzzing() -> Self {
        Engines { renewed_every: 64, ..Engines::with(Choice::from_environment().unwrap_or(Choice::Pairs)) }
    }

    /// Verifies a module for every engine whose turn it is. The program's number alone says which these are, so that a
    /// failure can be repeated.
    pub(crate) fn load(&mut self, def: &ModuleDef, program: u64) -> Result<Loaded, Vec<VerifyError>> {
        let renewed = program.is_multiple_of(self.renewed_every);
        let mut modules = Vec::new();
        for (number, configuration) in CONFIGURATIONS.iter().enumerate() {
            if self.choice.includes(number, program) {
                let engine = &mut self.engines[number];
                if !configuration.reused && renewed {
                    *engine = configuration.engine();
                }
                modules.push((configuration, Module::new(engine, def.clone())?));
            }
        }
        Ok(Loaded { modules })
    }
}

/// A module on every engine.
pub(crate) struct Loaded {
    modules: Vec<(&'static Configuration, Module)>,
}

impl Loaded {
    /// Runs on the first engine and on those of these names, and no more on the others. `Err` is a name that none has.
    pub(crate) fn only<'n>(&mut self, names: &[&'n str]) -> Result<(), &'n str> {
        let unknown = names.iter().find(|name| CONFIGURATIONS.iter().all(|known| known.name != **name));
        let first = CONFIGURATIONS[0].name;
        self.modules.retain(|(configuration, _)| configuration.name == first || names.contains(&configuration.name));
        unknown.map_or(Ok(()), |name| Err(name))
    }

    /// The function on the first engine.
    pub(crate) fn function(&self, name: &str) -> Option<Function> {
        self.modules[0].1.function(name)
    }

    /// The engines that compile all that they run, and have compiled nothing. Where memory is short, nothing may run.
    pub(crate) fn uncompiled(&self) -> Vec<&str> {
        let idle = |(configuration, module): &&(&'static Configuration, Module)| {
            let compiles = configuration.jit == Jit::Always && configuration.live_bytes.is_none();
            compiles && module.compiled().is_empty()
        };
        self.modules.iter().filter(idle).map(|(configuration, _)| configuration.name).collect()
    }

    /// Runs a function on all engines. `Err` says how they differ.
    pub(crate) fn run(&self, name: &str, args: &[Value], mode: Mode, limits: &Limits) -> Result<Outcome, String> {
        self.run_and_listen(name, args, mode, limits).map(|(outcome, _)| outcome)
    }

    /// Runs a function on all engines where nobody listens to what it traces.
    pub(crate) fn run_unheard(
        &self,
        name: &str,
        args: &[Value],
        mode: Mode,
        limits: &Limits,
    ) -> Result<Outcome, String> {
        self.run_with(name, args, mode, limits, false).map(|(outcome, _)| outcome)
    }

    /// The same as [`Loaded::run`], with what the function traces, a line each.
    pub(crate) fn run_and_listen(
        &self,
        name: &str,
        args: &[Value],
        mode: Mode,
        limits: &Limits,
    ) -> Result<(Outcome, Vec<String>), String> {
        self.run_with(name, args, mode, limits, true)
    }

    fn run_with(
        &self,
        name: &str,
        args: &[Value],
        mode: Mode,
        limits: &Limits,
        listens: bool,
    ) -> Result<(Outcome, Vec<String>), String> {
        let mut expected: Option<(Outcome, Vec<String>)> = None;
        for (configuration, module) in &self.modules {
            let function = module.function(name).ok_or_else(|| format!("`{name}` is not exported"))?;
            let live_bytes = configuration.live_bytes.map_or(limits.live_bytes, |bytes| bytes.min(limits.live_bytes));
            let heard = Arc::new(Mutex::new(Vec::new()));
            let options = CallOptions::with_limits(Limits { live_bytes, ..limits.clone() });
            let options = if listens { options.traced_to(&hear(&heard)) } else { options };
            for time in 1..=configuration.calls {
                let found = outcome(&function, args, mode, &options);
                let traced = std::mem::take(&mut *heard.lock().expect("nobody panics"));
                // How much is live at one time is not compared.
                let live = found.stopped_by(Limit::LiveBytes) && live_bytes < Limits::default().live_bytes;
                let tape = configuration.threads == CONFIGURATIONS[0].threads;
                match &expected {
                    None => expected = Some((found, traced)),
                    _ if live => break,
                    Some((expected, _)) if expected.stopped_by(Limit::LiveBytes) => break,
                    Some((expected, _))
                        if !tape && [expected, &found].iter().any(|o| o.stopped_by(Limit::TapeBytes)) => {}
                    Some((expected, lines)) if expected.exact(tape) == found.exact(tape) && *lines == traced => {}
                    Some((expected, lines)) => {
                        return Err(format!(
                            "{mode:?} on `{}`, time {time}, {limits:?}:\nexpected {}\n{lines:#?}\nfound {}\n{traced:#?}",
                            configuration.name,
                            expected.exact(tape),
                            found.exact(tape)
                        ));
                    }
                }
            }
            if let Some(failure) = module.compile_failures().first() {
                return Err(format!("no native code was made on `{}`: {failure}", configuration.name));
            }
        }
        Ok(expected.expect("there is a first configuration"))
    }
}

impl Loaded {
    /// How long a call takes on each engine, whatever comes of it, without what the machine does for others meanwhile.
    pub(crate) fn time(&self, name: &str, args: &[Value], mode: Mode, limits: &Limits) -> Vec<(&str, Duration)> {
        let options = CallOptions::with_limits(limits.clone());
        let time = |(configuration, module): &(&'static Configuration, Module)| {
            let clock = Clock::start();
            let function = module.function(name).expect("the function is exported");
            outcome(&function, args, mode, &options);
            (configuration.name, clock.elapsed())
        };
        self.modules.iter().map(time).collect()
    }
}

/// What keeps the lines that it hears, each with its place.
pub(crate) fn hear(heard: &Arc<Mutex<Vec<String>>>) -> Listener {
    let heard = heard.clone();
    Listener::new(move |TraceLine { text, place, .. }| {
        let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
        heard.lock().expect("nobody panics").push(format!("{place}{text}"));
    })
}

/// Says how long something takes. On a machine that is busy with other things, that is the processor time of all
/// threads here, if the system tells.
pub(crate) struct Clock {
    begin: Instant,
    used: Option<Duration>,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { begin: Instant::now(), used: processor_time() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let took = self.begin.elapsed();
        match (self.used, processor_time()) {
            (Some(before), Some(after)) => took.min(after.saturating_sub(before)),
            _ => took,
        }
    }
}

/// As Linux tells it, in steps of 10 ms.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(Duration::from_millis(10 * (user + system)))
}

fn outcome(function: &Function, args: &[Value], mode: Mode, options: &CallOptions) -> Outcome {
    let outcome = match mode {
        Mode::Call => function.call_with(args, options).map(|(value, stats)| Outcome::Done {
            value,
            gradients: Vec::new(),
            stats,
        }),
        Mode::Gradient => function.value_and_grad_with(args, options).map(|found| Outcome::Done {
            value: Value::Real(found.value),
            gradients: vec![found.gradient],
            stats: found.stats,
        }),
        Mode::Jacobian => function.jacobian_with(args, options).map(|found| Outcome::Done {
            value: found.value,
            gradients: found.rows,
            stats: found.stats,
        }),
        Mode::Columns => function.jacobian_by(JacobianMode::Forward, args, options).map(|found| Outcome::Done {
            value: found.value,
            gradients: found.rows,
            stats: found.stats,
        }),
        Mode::Jvp => {
            let (args, tangents) = args.split_at(args.len() / 2);
            function.jvp_with(args, tangents, options).map(|found| Outcome::Done {
                value: found.value,
                gradients: vec![vec![found.tangent]],
                stats: found.stats,
            })
        }
        Mode::Vjp => {
            let (cotangent, args) = args.split_last().expect("there is a cotangent");
            function.vjp_with(args, cotangent, options).map(|found| Outcome::Done {
                value: found.value,
                gradients: vec![found.gradient],
                stats: found.stats,
            })
        }
        Mode::Hvp => {
            let (args, tangents) = args.split_at(args.len() / 2);
            function.hvp_with(args, tangents, options).map(|found| Outcome::Done {
                value: Value::Real(found.value),
                gradients: vec![found.gradient, found.product],
                stats: found.stats,
            })
        }
        Mode::Hessian => function.hessian_with(args, options).map(|found| Outcome::Done {
            value: Value::Real(found.value),
            gradients: [vec![found.gradient], found.rows].concat(),
            stats: found.stats,
        }),
    };
    match outcome {
        Ok(done) => done,
        Err(RunError::Trap(trap)) => Outcome::Trap(*trap),
        Err(error) => Outcome::Other(error),
    }
}

/// Limits below what a run used, so that it stops somewhere in between: `choose(n)` gives a number below n, 0 for 0.
pub(crate) fn limits_within(stats: &Stats, depth_max: usize, mut choose: impl FnMut(u64) -> u64) -> Vec<Limits> {
    let mut all = vec![Limits { fuel: stats.instructions, ..Limits::default() }];
    for _ in 0..2 {
        all.push(Limits { fuel: choose(stats.instructions), ..Limits::default() });
    }
    if stats.tape_bytes > 0 {
        all.push(Limits { tape_bytes: choose(stats.tape_bytes + 8 * stats.slots), ..Limits::default() });
    }
    if stats.allocated_bytes > 0 {
        all.push(Limits { allocated_bytes: choose(stats.allocated_bytes), ..Limits::default() });
    }
    all.push(Limits { depth: 1 + choose(depth_max as u64) as usize, ..Limits::default() });
    all
}
