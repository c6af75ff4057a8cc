//! Flat calls in the direction of tangents, and Jacobians. Runs and sweeps are those of
//! [`Function::jvp`](crate::engine::Function::jvp), [`hvp`](crate::engine::Function::hvp) and
//! [`jacobian`](crate::engine::Function::jacobian).

use super::call_frame::{CallFrame, FlatGradient, FlatResults, FlatTangents, RecordedCall, Residue};
use super::signature::{FlatSignature, Leaf, LeafKind};
use super::value::{self, FlatValue};
use super::{FlatFunction, write};
use crate::code::Mode;
use crate::embedding::convert::counted;
use crate::embedding::engine::{Invocation, RunError, TangentError, without_negative_zeros};

impl FlatFunction {
    /// The results of a call, and how they change as the arguments move in the direction of the tangents: the product
    /// of the Jacobian and these. It takes about as long as two to three calls, and no tape.
    ///
    /// There is one tangent for each of [`FlatFunction::params`], of the argument's kind and length, and
    /// [`FlatValue::Null`] for what [has no derivative](Leaf::has_derivative).
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, flat::{CallFrame, FlatValue}, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real, real)
    /// #     export (x : Real, y : Real) -> (Real, Real)
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     ret (r0, r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) = (x, x * y)
    /// let f = module.function("f").ok_or("no such function")?.flat()?;
    /// let mut frame = CallFrame::new();
    /// let (results, tangents) = f.jvp(&mut frame, &[3.0.into(), 5.0.into()], &[1.0.into(), 10.0.into()])?;
    /// assert_eq!(results.get(1), Some(FlatValue::Real(15.0)));
    /// assert_eq!(tangents.get(1), Some(FlatValue::Real(35.0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`FlatFunction::call`], and [`RunError::Tangent`] if the tangents are not those of the arguments.
    pub fn jvp<'f>(
        &self,
        frame: &'f mut CallFrame,
        args: &[FlatValue<'_>],
        tangents: &[FlatValue<'_>],
    ) -> Result<(FlatResults<'f>, FlatTangents<'f>), RunError> {
        self.with_tangents(frame, args, tangents, Mode::PRIMAL, |_| Ok(()))?;
        frame.leave(Residue::Tangents)?;
        let frame: &'f CallFrame = frame;
        Ok((FlatResults::of(frame), frame.tangents().expect("they were left")))
    }

    /// The function's value, which is one real, its gradient, and the product of its Hessian and the tangents: how the
    /// gradient changes as the arguments move in their direction. One recorded run with tangents and one sweep, however
    /// many arguments there are. Tangents are as for [`FlatFunction::jvp`].
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, flat::CallFrame, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, y : Real) -> Real
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     mul r1, r0, r1
    /// #     ret (r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) : Real = x * x * y
    /// let f = module.function("f").ok_or("no such function")?.flat()?;
    /// let mut frame = CallFrame::new();
    /// let (value, gradient, product) = f.hvp(&mut frame, &[3.0.into(), 5.0.into()], &[1.0.into(), 0.0.into()])?;
    /// assert_eq!((value, gradient.reals(), product.reals()), (45.0, &[30.0, 9.0][..], &[10.0, 6.0][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`FlatFunction::jvp`], and [`RunError::NotScalar`] if the result is not one real.
    pub fn hvp<'f>(
        &self,
        frame: &'f mut CallFrame,
        args: &[FlatValue<'_>],
        tangents: &[FlatValue<'_>],
    ) -> Result<(f64, FlatGradient<'f>, FlatGradient<'f>), RunError> {
        self.check_scalar()?;
        let value = self.with_tangents(frame, args, tangents, Mode::RECORDING, |run| run.sweep_of_tangent())?;
        frame.leave(Residue::Product)?;
        let frame: &'f CallFrame = frame;
        let gradients = frame.gradient().zip(frame.product());
        let (gradient, product) = gradients.expect("they were left");
        Ok((value, gradient, product))
    }

    /// Runs the function with tangents, and then what is to follow.
    fn with_tangents<T>(
        &self,
        frame: &mut CallFrame,
        args: &[FlatValue<'_>],
        tangents: &[FlatValue<'_>],
        mode: Mode,
        next: impl FnOnce(&mut Invocation<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let signature = self.signature();
        let mut reals = std::mem::take(&mut frame.tangents);
        let mut run = frame.begin_as(self, signature.with_tangents.get_or_init(|| self.function().with_tangents()));
        let given: usize = tangents.iter().map(|tangent| tangent.as_reals().map_or(1, <[f64]>::len)).sum();
        let outcome = run
            .time_to_fill(size_of::<f64>() * given)
            .and_then(|()| flatten(signature, args, tangents, &mut reals))
            // SAFETY: all arguments are compared with their leaves, and stay until the call has ended.
            .and_then(|()| unsafe { run.run_with_tangents(mode, &reals, |to| write(signature, args, to)) })
            .and_then(|()| next(&mut run));
        frame.tangents = reals;
        let outcome = outcome?;
        if signature.takes_sequences {
            frame.place(args);
        }
        Ok(outcome)
    }
}

/// The reals of tangents, as far as derivatives are with respect to the arguments.
fn flatten(
    signature: &FlatSignature,
    args: &[FlatValue<'_>],
    tangents: &[FlatValue<'_>],
    reals: &mut Vec<f64>,
) -> Result<(), RunError> {
    reals.clear();
    let params = &signature.params;
    if args.len() != params.len() {
        return Err(RunError::Argument(value::wrong_count(signature, args.len())));
    }
    if tangents.len() != params.len() {
        let expected = params.iter().map(|leaf| signature.place(leaf)).collect();
        return Err(TangentError::Count { expected, found: tangents.len() }.into());
    }
    for ((leaf, &arg), &tangent) in params.iter().zip(args).zip(tangents) {
        match (leaf.has_derivative(), tangent) {
            (false, FlatValue::Null) => {}
            (true, FlatValue::Real(x)) if leaf.kind() == LeafKind::Real => reals.push(x),
            (true, FlatValue::Reals(xs)) if leaf.kind() == LeafKind::Reals => match arg {
                // What isn't of the leaf's kind is refused where it is written.
                FlatValue::Reals(of) if of.len() != xs.len() => return Err(misshapen(signature, leaf, arg, tangent)),
                _ => reals.extend_from_slice(xs),
            },
            _ => return Err(misshapen(signature, leaf, arg, tangent)),
        }
    }
    without_negative_zeros(reals);
    Ok(())
}

#[cold]
fn misshapen(signature: &FlatSignature, leaf: &Leaf, arg: FlatValue<'_>, found: FlatValue<'_>) -> RunError {
    let expected = match (leaf.kind(), arg) {
        (LeafKind::Real, _) if leaf.active => "a real".to_owned(),
        (LeafKind::Reals, FlatValue::Reals(of)) if leaf.active => counted(of.len(), "real"),
        (LeafKind::Reals, _) if leaf.active => "reals".to_owned(),
        (LeafKind::Real | LeafKind::Reals, _) => "null, because it is constant".to_owned(),
        _ => "null, because it is discrete".to_owned(),
    };
    TangentError::Shape { place: signature.place(leaf), expected, found: found.found() }.into()
}

impl RecordedCall<'_> {
    /// How many rows and columns the Jacobian has: reals in the results, and reals in the arguments that derivatives
    /// are with respect to.
    pub fn jacobian_size(&self) -> [usize; 2] {
        let rows = self.results().iter().map(|result| match result {
            FlatValue::Real(_) => 1,
            FlatValue::Reals(xs) => xs.len(),
            _ => 0,
        });
        [rows.sum(), self.frame.derivatives()]
    }

    /// Takes the Jacobian row by row: the gradient of each real in the results, in the order in which they stand there.
    /// One sweep for each. All of them together have the time of a call, and what is left of the run's other limits.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, flat::CallFrame, text};
    /// # let def = text::parse("func \"f\" (real, real) -> (real, real)
    /// #     export (x : Real, y : Real) -> (Real, Real)
    /// #     regs 2 real
    /// #     { mul r1, r0, r1
    /// #     ret (r0, r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (y : Real) = (x, x * y)
    /// let f = module.function("f").ok_or("no such function")?.flat()?;
    /// let mut frame = CallFrame::new();
    /// let mut recorded = f.record(&mut frame, &[3.0.into(), 5.0.into()])?;
    /// assert_eq!(recorded.jacobian_size(), [2, 2]);
    /// let mut matrix: Vec<f64> = Vec::new();
    /// recorded.jacobian(|row| matrix.extend(row))?;
    /// assert_eq!(matrix, [1.0, 0.0, 5.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::Trap`] if a sweep reaches a limit. Rows that were taken before stay taken.
    pub fn jacobian(&mut self, mut row: impl FnMut(&[f64])) -> Result<(), RunError> {
        let [rows, _] = self.jacobian_size();
        // All cotangents one after the other: 1 for the real whose row it is.
        let mut unit = vec![0.0; rows];
        // Of which kind each result is, and its first real.
        let mut kinds = Vec::new();
        let mut next = 0;
        for result in self.results().iter() {
            let from = next;
            next += match result {
                FlatValue::Real(_) => 1,
                FlatValue::Reals(xs) => xs.len(),
                _ => 0,
            };
            kinds.push((matches!(result, FlatValue::Real(_)), matches!(result, FlatValue::Reals(_)), from..next));
        }
        for n in 0..rows {
            unit[n] = 1.0;
            let cotangents: Vec<FlatValue<'_>> = kinds
                .iter()
                .map(|(one, several, range)| match (one, several) {
                    (true, _) => FlatValue::Real(unit[range.start]),
                    (_, true) => FlatValue::Reals(&unit[range.clone()]),
                    _ => FlatValue::Null,
                })
                .collect();
            self.frame.pull_back(&cotangents, n == 0)?;
            row(self.frame.gradient().expect("it was left").reals());
            unit[n] = 0.0;
        }
        Ok(())
    }
}
