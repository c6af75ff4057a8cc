//! The command line: flags and subcommands. What each subcommand does is in the files beside this one.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0; 1 if a program trapped or reached a limit, or its
//! derivatives are wrong; 2 for bad input; 130 after Ctrl-C. Nothing here panics: a closed pipe ends the program
//! quietly.

mod allocator;
mod batch;
mod bench;
mod check_grad;
mod check_grad_json;
mod constant;
mod convert;
mod derivatives;
mod explain;
mod failure;
mod fmt;
mod gradbench;
mod input;
mod interrupt;
mod job_graph;
mod json;
mod limits;
mod look;
mod lsp;
mod native;
mod output;
mod pattern;
mod profile;
mod run;
mod tape;
mod threads;

use clap::{Args, Parser, Subcommand, ValueEnum};
use dualvm::{CompileLimits, CompileOptions, FolderImporter, Function};
use failure::{Failure, Outcome};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs programs and differentiates them.
#[derive(Parser)]
#[command(name = "dualvm", version, about, after_help = EXIT_CODES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
FILE is a program (.dual), assembly (.dvs) or bytecode (.dvbc), told apart by what it holds; `-` is stdin.

Exit codes: 0 success, 1 the program trapped or reached a limit, 2 bad input, 130 interrupted.";

const ARGUMENTS: &str = "\
Arguments are values in the language's syntax or in JSON: 3, -1.5e-3, true, (1.0, 2), [1.0, 2.0], { x = 1.0 },
{\"x\": 1}, Circle 1.5, {\"Circle\": 1.5}. Numbers, and tuples and arrays of them, may be computed: pi / 4, 'sqrt 2',
.5, 1e6. The first word after FILE is the function's name if it looks like a name; without a name, the function
that is called like the file is meant, or the only one that there is.

  dualvm run model.dual price 1.5 '[1.0, 2.0]'
  dualvm grad price.dual -1.5 '[1.0, 2.0]'
  echo '[1.5, [1.0, 2.0]]' | dualvm grad price.dual --input -
  dualvm grad price.dual --batch cases.jsonl > answers.jsonl

In JSON, tuples, arrays and lists are lists, records are objects, and \"NaN\", \"Infinity\", \"-Infinity\", \"nan\",
\"inf\" and \"-inf\" are reals. A constructor is its name, or an object from its name to what it takes: one value, a
list of several, or an object of named ones.

Amounts (N, BYTES) may end in k, M, G, T (thousands) or Ki, Mi, Gi, Ti (powers of 1024).

Exit codes: 0 success, 1 the program trapped or reached a limit, 2 bad input, 130 interrupted.";

#[derive(Subcommand)]
enum Command {
    /// Compile and verify, run nothing; lists the functions that can be called
    Check {
        #[command(flatten)]
        program: Program,
    },
    /// Call a function
    #[command(after_help = ARGUMENTS)]
    Run(Call),
    /// The value and the gradient of a function that returns one Real
    #[command(after_help = ARGUMENTS)]
    Grad(Gradient),
    /// The value of a function, and how it changes in the direction of tangents of its arguments
    #[command(after_help = derivatives::JVP)]
    Jvp(derivatives::Jvp),
    /// The value of a function, and a cotangent of it pulled back to the arguments
    #[command(after_help = derivatives::VJP)]
    Vjp(derivatives::Vjp),
    /// Value and gradient of a function that returns one Real, and the product of its Hessian and tangents
    #[command(after_help = derivatives::HVP)]
    Hvp(derivatives::Hvp),
    /// The value of a function, and the gradient of each real in it
    #[command(after_help = derivatives::JACOBIAN)]
    Jacobian(derivatives::Jacobian),
    /// Value and gradient of a function that returns one Real, and the gradient of each partial derivative
    #[command(after_help = derivatives::HESSIAN)]
    Hessian(derivatives::Hessian),
    /// Compare a program's derivatives with each other and with differences
    #[command(name = "check-grad", after_help = check_grad::HELP)]
    CheckGrad(check_grad::CheckGrad),
    /// What is recorded as one of a function's loops and of those that it reaches, and why the rest isn't
    #[command(after_help = explain::HELP)]
    Explain {
        #[command(flatten)]
        program: Program,
        /// The function's name; may be left out if it is called like the file, or the only one
        name: Option<String>,
        /// How the result is written
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Record a run as for a gradient, and say what its tasks wrote to their tapes
    #[command(after_help = tape::HELP)]
    Tape(tape::Tape),
    /// Compile to verified bytecode
    Build {
        #[command(flatten)]
        program: Program,
        /// Where the bytecode goes; `-` is stdout [default: FILE with the extension .dvbc]
        #[arg(short, long, value_name = "OUT")]
        output: Option<PathBuf>,
        /// Put in what is called of other modules of bytecode, so that these aren't needed any more
        #[arg(long)]
        linked: bool,
    },
    /// Print a module, or one function of it, as assembly; it need not be verifiable
    #[command(after_help = convert::DISASM)]
    Disasm {
        #[command(flatten)]
        program: Program,
        /// A function, exported or not
        name: Option<String>,
        /// Print the function's native code, too: Cranelift IR and machine code
        #[arg(long, requires = "name")]
        native: bool,
        /// Print the derivatives of its straight-line code as formulas instead
        #[arg(long, conflicts_with = "native")]
        derivative: bool,
    },
    /// Assemble to bytecode, without verifying it
    Asm {
        /// Assembly
        file: PathBuf,
        /// Where the bytecode goes; `-` is stdout [default: FILE with the extension .dvbc]
        #[arg(short, long, value_name = "OUT")]
        output: Option<PathBuf>,
    },
    /// Check every rule of the verifier and report what is broken
    Verify {
        #[command(flatten)]
        program: Program,
    },
    /// Format programs
    #[command(after_help = fmt::HELP)]
    Fmt(fmt::Fmt),
    /// Serve an editor: the Language Server Protocol on stdin and stdout
    #[command(after_help = lsp::HELP)]
    Lsp(lsp::Lsp),
    /// Measure example programs, beside the same in hand-written Rust
    #[command(after_help = bench::HELP)]
    Bench(bench::Bench),
    /// Answer the messages of GradBench, a suite of benchmarks, on stdin and stdout
    #[command(name = "gradbench", after_help = gradbench::HELP)]
    GradBench(gradbench::GradBench),
}

/// A file that holds a module, and what else it may be made of.
#[derive(Args)]
struct Program {
    /// Source, assembly or bytecode
    file: PathBuf,
    /// A folder in which imported files are looked for if they aren't beside the file that imports; may be repeated
    #[arg(long = "path", value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Leave out warnings and notes about the program
    #[arg(long)]
    quiet: bool,
}

impl Program {
    /// How the program is compiled, within limits.
    fn options(&self, limits: CompileLimits) -> CompileOptions {
        CompileOptions::with_limits(limits).importing(Arc::new(FolderImporter::new(self.folders.clone())))
    }
}

/// A function with arguments, and how it runs.
#[derive(Args)]
struct Target {
    #[command(flatten)]
    program: Program,
    /// The function's name; may be left out, as said below
    #[arg(allow_negative_numbers = true)]
    name: Option<String>,
    /// The function's arguments
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    args: Vec<String>,
    /// Read the arguments from a file that holds a JSON list of them, or an object with the parameters' names; `-` is
    /// stdin
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// When functions are compiled to native code
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    jit: native::When,
    /// How many threads run tasks; 0: one per core. Results are the same
    #[arg(long, value_name = "N", value_parser = threads::count, default_value = "0", allow_negative_numbers = true)]
    threads: usize,
    #[command(flatten)]
    limits: limits::LimitFlags,
}

impl Target {
    /// All words after the file: if the first is no function's name, it is an argument.
    fn words(&self) -> Vec<String> {
        self.name.iter().chain(&self.args).cloned().collect()
    }
}

/// A call of a function.
#[derive(Args)]
struct Call {
    #[command(flatten)]
    target: Target,
    /// Make a call for each line of a file, which holds arguments as for --input, on all threads, and write a line of
    /// JSON for each, in order; `-` is stdin. Limits are those of each call
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["input", "stats", "warn_kinks", "format", "precision", "full"])]
    batch: Option<PathBuf>,
    #[command(flatten)]
    diagnosis: Diagnosis,
    /// How the result is written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Report what the call used: on stderr, or in JSON under the key "stats". Of a gradient, also what each loop and
    /// function has written to the tape, which takes another run
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    look: look::Look,
}

/// What a call looks for.
#[derive(Args, Clone, Copy, Default)]
#[command(next_help_heading = "Diagnosis")]
struct Diagnosis {
    /// Stop at the first number that becomes NaN or infinite out of numbers that aren't, in the forward run or in the
    /// sweep, and say how it came about. Runs everything interpreted, on one thread, with a record for each instruction
    #[arg(long)]
    trap_nan: bool,
    /// Say on stderr where the forward run was near a point at which a derivative changes: ties of min and max, abs
    /// near 0, roundings near a jump, comparisons of nearly equal reals, of what depends on the arguments. Takes
    /// another run. EPS is the distance that counts as near, relative to operands that are greater than 1 [default:
    /// 1e-9]
    #[arg(long, value_name = "EPS", num_args = 0..=1, require_equals = true, default_missing_value = "1e-9",
        value_parser = epsilon)]
    warn_kinks: Option<f64>,
    /// Don't show on stderr what the program traces, which takes another run
    #[arg(long)]
    no_trace: bool,
}

fn epsilon(text: &str) -> Result<f64, String> {
    let epsilon = text.trim().parse().ok().filter(|epsilon: &f64| *epsilon >= 0.0 && epsilon.is_finite());
    epsilon.ok_or_else(|| "expected a distance, such as 1e-9".to_owned())
}

/// A call with a gradient.
#[derive(Args)]
struct Gradient {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    wrt: With,
    /// Sum the gradient up instead of printing it: norm, smallest and largest entry, zeros and what is no number, by
    /// parameter
    #[arg(long)]
    table: bool,
}

/// What derivatives are with respect to.
#[derive(Args)]
struct With {
    /// Parameters that derivatives are with respect to, with commas between them; the others are constants, which cost
    /// no tape [default: all]
    #[arg(long = "wrt", value_name = "NAME", value_delimiter = ',')]
    parameters: Vec<String>,
}

impl With {
    /// The function with respect to these parameters.
    fn of(&self, target: &Target, function: Function) -> Result<Function, Failure> {
        if self.parameters.is_empty() {
            return Ok(function);
        }
        let chosen = function.wrt(&self.parameters);
        chosen.map_err(|error| Failure::call(&input::shown(&target.program.file), &function, &error))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Values in the language's syntax
    Text,
    /// One JSON object on one line
    Json,
}

/// Reads the command line, does what it says, reports what went wrong.
pub(crate) fn main() -> ExitCode {
    allocator::spare_address_space();
    let cli = match Cli::try_parse_from(std::env::args_os().map(shield_negative_number)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" of exit code 0; where they can't be written there is nobody to tell.
            _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match execute(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn execute(command: Command) -> Outcome {
    match command {
        Command::Check { program } => convert::check(&program),
        Command::Run(call) => run::run(&call),
        Command::Grad(flags) => run::grad(&flags),
        Command::Jvp(flags) => derivatives::jvp(&flags),
        Command::Vjp(flags) => derivatives::vjp(&flags),
        Command::Hvp(flags) => derivatives::hvp(&flags),
        Command::Jacobian(flags) => derivatives::jacobian(&flags),
        Command::Hessian(flags) => derivatives::hessian(&flags),
        Command::CheckGrad(flags) => check_grad::check_grad(&flags),
        Command::Explain { program, name, format } => explain::explain(&program, name.as_deref(), format),
        Command::Tape(flags) => tape::tape(&flags),
        Command::Build { program, output, linked } => convert::build(&program, output, linked),
        Command::Disasm { program, name, native, derivative } => {
            convert::disasm(&program, name.as_deref(), convert::Listing { native, derivative })
        }
        Command::Asm { file, output } => convert::asm(&file, output),
        Command::Verify { program } => convert::verify(&program),
        Command::Fmt(flags) => fmt::fmt(&flags),
        Command::Lsp(flags) => lsp::lsp(flags),
        Command::Bench(flags) => bench::bench(&flags),
        Command::GradBench(flags) => gradbench::gradbench(&flags),
    }
}

/// Puts a space before what is negative, so that it isn't read as a flag: clap itself knows `-1.5`, but not `-1e-3`,
/// `-.5`, `-1/3`, `-(1 + 2)` or `-inf`. No flag begins so. Readers of values pass over the space.
fn shield_negative_number(arg: OsString) -> OsString {
    let Some(rest) = arg.to_str().and_then(|text| text.strip_prefix('-')) else { return arg };
    let begins_with_digit = rest.starts_with(|c: char| c.is_ascii_digit());
    let is_plain = begins_with_digit && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_named = || !rest.starts_with(['+', '-']) && rest.parse::<f64>().is_ok();
    let is_negative = begins_with_digit || rest.starts_with(['.', '(']) || is_named();
    if is_negative && !is_plain { format!(" -{rest}").into() } else { arg }
}
