//! `jvp`, `vjp`, `hvp`, `jacobian` and `hessian`.

use super::batch::{self, Batch};
use super::failure::{Failure, Outcome};
use super::input::{self, Prepared, prepare_call, shown};
use super::interrupt::cancellable;
use super::json::{Derivative, Report};
use super::output::{self, Used};
use super::pattern;
use super::threads::{Busy, Clock};
use super::{Call, With};
use clap::{Args, ValueEnum};
use dualvm::{CallOptions, Error, Function, JacobianMode, Pattern, Stats, Value, places_of_reals};
use std::path::PathBuf;

/// What all of these commands say in the end.
macro_rules! help {
    ($text:literal) => {
        concat!(
            $text,
            "\n\nValues are written as the arguments of `dualvm run`: `dualvm run --help`.\n\n",
            "Exit codes: 0 success, 1 the program trapped or reached a limit, 2 bad input, 130 interrupted."
        )
    };
}

pub(crate) const JVP: &str = help!(
    "\
A tangent has the shape of its argument: a real for each real, and null for what is discrete. There is a --tangent for
each parameter that derivatives are with respect to, in the order of the parameters, or in that of --wrt.

  dualvm jvp polar.dual 2 0 --tangent 1 --tangent 10
  dualvm jvp polar.dual 2 0 --wrt phi --tangent 1"
);

pub(crate) const VJP: &str = help!(
    "\
The cotangent has the shape of the result: a real for each real, and null for what is discrete.

  dualvm vjp polar.dual 2 0 --cotangent '(3, 5)'"
);

pub(crate) const HVP: &str = help!(
    "\
Forward over reverse: one recorded run and one sweep, however many arguments there are. Tangents are as for
`dualvm jvp`; the product has the shape of the gradient.

  dualvm hvp energy.dual '[1, 2]' 0.5 --tangent '[1, 0]' --tangent 0"
);

pub(crate) const JACOBIAN: &str = help!(
    "\
A row for each real in the result, which is named by its place there. By rows (reverse) that is one recorded run and a
sweep for each; by columns (forward) it is a run for each real in the arguments.

With --sparse, entries that are zero whatever the arguments are, as long as these lead to the same branches, are neither
computed nor written. In JSON the others are in coordinates.

  dualvm jacobian polar.dual 2 0
  dualvm jacobian polar.dual 2 0 --mode forward --format json
  dualvm jacobian polar.dual 2 0 --sparse --pattern polar.svg"
);

pub(crate) const HESSIAN: &str = help!(
    "\
A row for each real in the arguments that derivatives are with respect to, which is named by its place there.

With --sparse, entries that are zero whatever the arguments are, as long as these lead to the same branches, are neither
computed nor written. In JSON the others are in coordinates.

  dualvm hessian examples/rosenbrock.dual rosenbrock '[-1.2, 1.0, 0.7]'
  dualvm hessian examples/rosenbrock.dual rosenbrock '[-1.2, 1.0, 0.7]' --sparse --pattern rosenbrock.svg"
);

/// A call with tangents.
#[derive(Args)]
pub(crate) struct Jvp {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    wrt: With,
    /// The tangent of an argument: one for each parameter that derivatives are with respect to
    #[arg(long = "tangent", value_name = "VALUE", allow_hyphen_values = true)]
    tangents: Vec<String>,
}

/// The same, of second order.
pub(crate) type Hvp = Jvp;

/// A call with a cotangent.
#[derive(Args)]
pub(crate) struct Vjp {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    wrt: With,
    /// The cotangent of the result
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    cotangent: String,
    /// Sum the gradient up instead of printing it
    #[arg(long)]
    table: bool,
}

/// A call with a Jacobian.
#[derive(Args)]
pub(crate) struct Jacobian {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    wrt: With,
    /// By columns or by rows
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::Auto, conflicts_with = "sparse")]
    mode: Mode,
    #[command(flatten)]
    sparse: Sparse,
}

/// A call with a Hessian.
#[derive(Args)]
pub(crate) struct Hessian {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    wrt: With,
    #[command(flatten)]
    sparse: Sparse,
}

/// Whether a matrix is sparse.
#[derive(Args)]
struct Sparse {
    /// Leave out what is always zero: columns, or rows, that have nothing in common are computed together
    #[arg(long, conflicts_with = "batch")]
    sparse: bool,
    /// Draw where the matrix has entries: a file that ends in .svg
    #[arg(long, value_name = "FILE", requires = "sparse")]
    pattern: Option<PathBuf>,
}

impl Sparse {
    /// Draws the pattern of a function's derivative, if that is asked for.
    fn draw(&self, what: &str, function: &Function, pattern: &Pattern) -> Outcome {
        let title = format!("{what} of {}", function.name());
        self.pattern.as_ref().map_or(Ok(()), |path| pattern::draw(path, pattern, &title))
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// By columns: a run for each real in the arguments
    Forward,
    /// By rows: a recorded run, and a sweep for each real in the result
    Reverse,
    /// Forward if there are fewer reals in the arguments than in the result
    Auto,
}

impl From<Mode> for JacobianMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Forward => JacobianMode::Forward,
            Mode::Reverse => JacobianMode::Reverse,
            Mode::Auto => JacobianMode::Auto,
        }
    }
}

pub(crate) fn jvp(Jvp { call, wrt, tangents }: &Jvp) -> Outcome {
    if let Some(batch) = Batch::of(call, |function| wrt.of(&call.target, function))? {
        let tangents = input::tangents(&call.target.program.file, batch.function(), &wrt.parameters, tangents)?;
        return batch.answer(|function, args, options| {
            let found = function.jvp_with(args, &tangents, options)?;
            Ok(batch::line(&found.value, &[("tangent", Derivative::OfValue(&found.tangent))]))
        });
    }
    let ready = Ready::of(call, wrt)?;
    let tangents = input::tangents(&call.target.program.file, &ready.function, &wrt.parameters, tangents)?;
    let (found, busy) = ready.run(|function, args, options| function.jvp_with(args, &tangents, options))?;
    ready.report(&found.value, &[("tangent", Derivative::OfValue(&found.tangent))], &found.stats, busy)
}

pub(crate) fn vjp(Vjp { call, wrt, cotangent, table }: &Vjp) -> Outcome {
    if let Some(batch) = Batch::of(call, |function| wrt.of(&call.target, function))? {
        let cotangent = input::cotangent(batch.function(), cotangent)?;
        return batch.answer(|function, args, options| {
            let found = function.vjp_with(args, &cotangent, options)?;
            Ok(batch::line(&found.value, &[("gradient", output::gradient(function, &found.gradient, *table))]))
        });
    }
    let ready = Ready::of(call, wrt)?;
    let cotangent = input::cotangent(&ready.function, cotangent)?;
    let (found, busy) = ready.run(|function, args, options| function.vjp_with(args, &cotangent, options))?;
    let gradient = output::gradient(&ready.function, &found.gradient, *table);
    ready.report(&found.value, &[("gradient", gradient)], &found.stats, busy)
}

pub(crate) fn hvp(Hvp { call, wrt, tangents }: &Hvp) -> Outcome {
    if let Some(batch) = Batch::of(call, |function| wrt.of(&call.target, function))? {
        let tangents = input::tangents(&call.target.program.file, batch.function(), &wrt.parameters, tangents)?;
        return batch.answer(|function, args, options| {
            let found = function.hvp_with(args, &tangents, options)?;
            Ok(batch::line(&Value::Real(found.value), &products(&found)))
        });
    }
    let ready = Ready::of(call, wrt)?;
    let tangents = input::tangents(&call.target.program.file, &ready.function, &wrt.parameters, tangents)?;
    let (found, busy) = ready.run(|function, args, options| function.hvp_with(args, &tangents, options))?;
    ready.report(&Value::Real(found.value), &products(&found), &found.stats, busy)
}

fn products(found: &dualvm::Hvp) -> [(&'static str, Derivative<'_>); 2] {
    [("gradient", Derivative::ByArguments(&found.gradient)), ("product", Derivative::ByArguments(&found.product))]
}

pub(crate) fn jacobian(Jacobian { call, wrt, mode, sparse }: &Jacobian) -> Outcome {
    if let Some(batch) = Batch::of(call, |function| wrt.of(&call.target, function))? {
        let mode = JacobianMode::from(*mode);
        return batch.answer(|function, args, options| {
            let found = function.jacobian_by(mode, args, options)?;
            // Rows have no names in JSON.
            let jacobian = Derivative::Rows { places: Vec::new(), rows: &found.rows };
            Ok(batch::line(&found.value, &[("jacobian", jacobian)]))
        });
    }
    let ready = Ready::of(call, wrt)?;
    if sparse.sparse {
        let ((sparsity, found), busy) = ready.run(|function, args, options| {
            let sparsity = function.jacobian_sparsity_with(args, options)?;
            let found = function.sparse_jacobian_with(args, &sparsity, options)?;
            Ok((sparsity, found))
        })?;
        sparse.draw("Jacobian", &ready.function, sparsity.pattern())?;
        let (rows, columns) =
            (places_of_reals("result", &found.value), ready.function.places_of_reals(&ready.prepared.args));
        let jacobian = Derivative::Sparse { rows, columns, matrix: &found.matrix, products: sparsity.products() };
        return ready.report(&found.value, &[("jacobian", jacobian)], &found.stats, busy);
    }
    let mode = JacobianMode::from(*mode);
    let (found, busy) = ready.run(|function, args, options| function.jacobian_by(mode, args, options))?;
    let places = places_of_reals("result", &found.value);
    let rows = Derivative::Rows { places, rows: &found.rows };
    ready.report(&found.value, &[("jacobian", rows)], &found.stats, busy)
}

pub(crate) fn hessian(Hessian { call, wrt, sparse }: &Hessian) -> Outcome {
    if let Some(batch) = Batch::of(call, |function| wrt.of(&call.target, function))? {
        return batch.answer(|function, args, options| {
            let found = function.hessian_with(args, options)?;
            let derivatives = [
                ("gradient", Derivative::ByArguments(&found.gradient)),
                ("hessian", Derivative::Rows { places: Vec::new(), rows: &found.rows }),
            ];
            Ok(batch::line(&Value::Real(found.value), &derivatives))
        });
    }
    let ready = Ready::of(call, wrt)?;
    let places = ready.function.places_of_reals(&ready.prepared.args);
    if sparse.sparse {
        let ((sparsity, found), busy) = ready.run(|function, args, options| {
            let sparsity = function.hessian_sparsity_with(args, options)?;
            let found = function.sparse_hessian_with(args, &sparsity, options)?;
            Ok((sparsity, found))
        })?;
        sparse.draw("Hessian", &ready.function, sparsity.pattern())?;
        let (matrix, products) = (&found.matrix, sparsity.products());
        let hessian = Derivative::Sparse { rows: places.clone(), columns: places, matrix, products };
        let derivatives = [("gradient", Derivative::ByArguments(&found.gradient)), ("hessian", hessian)];
        return ready.report(&Value::Real(found.value), &derivatives, &found.stats, busy);
    }
    let (found, busy) = ready.run(|function, args, options| function.hessian_with(args, options))?;
    let derivatives = [
        ("gradient", Derivative::ByArguments(&found.gradient)),
        ("hessian", Derivative::Rows { places, rows: &found.rows }),
    ];
    ready.report(&Value::Real(found.value), &derivatives, &found.stats, busy)
}

/// A call that is ready to be made.
struct Ready<'a> {
    call: &'a Call,
    wrt: &'a With,
    prepared: Prepared,
    function: Function,
}

impl<'a> Ready<'a> {
    fn of(call: &'a Call, wrt: &'a With) -> Outcome<Self> {
        let prepared = prepare_call(call)?;
        let function = wrt.of(&call.target, prepared.function.clone())?;
        Ok(Ready { call, wrt, prepared, function })
    }

    /// Makes the call, which Ctrl-C stops. Says what it took, if that is asked for.
    fn run<T>(
        &self,
        call: impl FnOnce(&Function, &[Value], &CallOptions) -> Result<T, Error>,
    ) -> Outcome<(T, Option<Busy>)> {
        let clock = Clock::start(&self.prepared.engine);
        let done = cancellable(|handle| {
            call(&self.function, &self.prepared.args, &CallOptions::default().cancelled_by(handle))
        });
        let busy = self.call.stats.then(|| clock.stop());
        let target = &self.call.target;
        let done = done.map_err(|error| Failure::call(&shown(&target.program.file), &self.function, &error))?;
        self.prepared.warn_of_kinks(&target.program.file, |function| self.wrt.of(target, function))?;
        Ok((done, busy))
    }

    fn report(
        &self,
        value: &Value,
        derivatives: &[(&'static str, Derivative<'_>)],
        stats: &Stats,
        busy: Option<Busy>,
    ) -> Outcome {
        let used = busy.map(|busy| Used { stats, busy, compiled: self.function.compiled(), profile: None });
        output::report(&self.function, &Report { value, derivatives, used }, self.call)
    }
}
