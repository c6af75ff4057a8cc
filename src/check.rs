//! Is a program's gradient right? Derivatives found in several ways, compared.
//!
//! [`Function::check_gradient`] runs a program at a point and near it and says where its derivatives disagree: reverse
//! mode, forward mode, differences, interpreter and native code. Most of what it can find comes from derivatives that
//! the program gives itself, by `custom_vjp` and `custom_jvp`, and from what `detach` hides.
//!
//! - `ridders`: differences with error bars; `ladder`: values at both sides of a point, and what slopes they show;
//! - `verdict`: what a comparison comes to, and the tolerances;
//! - `reals`, `probe`: the function as one of a few reals; `point`, `second`: what is compared at a point;
//! - `engines`: the interpreter against native code; `report`: what the host gets.

mod engines;
mod ladder;
mod point;
mod probe;
mod random;
mod reals;
mod report;
mod ridders;
mod second;
mod verdict;

pub use ladder::Side;
pub use report::{Comparison, Counts, Engines, GradientCheck, PointCheck, Quantity};
pub use ridders::Estimate;
pub use verdict::{Reason, Verdict};

use crate::{CallOptions, Error, Function, Value};
use engines::Pair;
use point::Checker;
use probe::{first_line, is_passable};
use random::Random;
use reals::Reals;

/// What [`Function::check_gradient`] is to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckOptions {
    /// How many points near the given one are checked, too; by default 3. There each real is elsewhere by up to a
    /// hundredth of its magnitude, and 0 by up to 0.001, at random. Integers, booleans, constructors and lengths stay
    /// as they are.
    pub points: usize,
    /// What random points, directions, cotangents and samples are made of: the same for the same seed.
    pub seed: u64,
    /// How many reals are checked one by one; of more, so many at random are. By default 200; 0: all. Each takes 20 to
    /// 60 calls at each point. All together are checked along one random direction in any case.
    pub components: usize,
    /// Whether second derivatives are checked, too, along two random directions. The result has to be one real.
    pub second: bool,
    /// Limits and a cancel handle, for each call on its own.
    pub call: CallOptions,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions { points: 3, seed: 0, components: 200, second: false, call: CallOptions::default() }
    }
}

/// What random numbers are for.
mod purpose {
    pub(super) const SAMPLE: u64 = 1;
    pub(super) const COTANGENT: u64 = 2;
    pub(super) const POINT: u64 = 3;
    pub(super) const DIRECTION: u64 = 4;
    pub(super) const SECOND: u64 = 5;
    /// How many there may be.
    pub(super) const COUNT: u64 = 16;
}

impl Function {
    /// Checks the function's derivatives at these arguments and at random points near them.
    ///
    /// Of each real that derivatives are [with respect to](Function::wrt), these are compared: the gradient by reverse
    /// mode, of the result or of its inner product with a random cotangent if it isn't one real; the same by forward
    /// mode; differences. All reals together are compared along a random direction, values and gradients of the
    /// interpreter with those of native code bit by bit, and second derivatives if [`CheckOptions::second`] asks for
    /// them: `hvp` against differences of the gradient, and the symmetry ⟨u, H v⟩ = ⟨v, H u⟩.
    ///
    /// ```
    /// use dualvm::{CheckOptions, Engine, Error, Module, Verdict};
    ///
    /// let text = "
    ///     def right (x : Real) (y : Real) : Real = x * sin y
    ///     def sine = custom_vjp (\\y -> sin y) (\\y c -> -c * cos y)
    ///     def wrong (x : Real) (y : Real) : Real = x * sine y";
    /// let module = Module::from_source(&Engine::default(), "sine.dual", text)?;
    /// let (args, options) = ([2.0.into(), 0.5.into()], CheckOptions::default());
    ///
    /// assert_eq!(module.function("right")?.check_gradient(&args, &options)?.verdict(), Verdict::Agrees);
    ///
    /// let found = module.function("wrong")?.check_gradient(&args, &options)?;
    /// assert!(found.is_wrong());
    /// let by_y = &found.points[0].comparisons[1];
    /// assert_eq!((by_y.quantity.to_string().as_str(), by_y.verdict), ("y", Verdict::Wrong));
    /// assert_eq!(by_y.reverse, -2.0 * 0.5_f64.cos());
    /// assert!((by_y.difference.unwrap().value - 2.0 * 0.5_f64.cos()).abs() < 1e-9);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # How it decides
    /// - *Forward and reverse mode* may differ by 10⁻⁹ of the larger one, plus 10⁻¹² of the largest part of the
    ///   gradient: both are exact but for rounding, which long sums and cancellation add up. NaN in both is the same.
    /// - *Differences* are central, with steps that are halved from an eighth of the real's magnitude on, extrapolated
    ///   by Ridders' method with an error bar (Ridders 1982). They may differ by 8 error bars, plus 10⁻⁶ of the larger
    ///   one. They say something if the bar is no more than a thousandth of the derivative, or nothing beside the
    ///   largest part of the gradient; and they say that it is wrong if the bar is no more than a fiftieth of what it
    ///   is off by.
    /// - *A kink* is where slopes from the left and from the right differ by more than their bars, or where the value
    ///   jumps. It isn't wrong, if the derivative is one of the slopes or between them; [`Reason`] says which. What is
    ///   closer to the point than 2⁻²⁶ of the real counts as at the point.
    /// - *It can't tell* where the value, the derivative or all differences are not finite, where rounding leaves a
    ///   large error bar, and where larger steps agree with the derivative while smaller ones show the stairs that
    ///   reals leave which cancel. Where larger steps reach across a pole, smaller ones alone decide. A program that
    ///   traps beside the point is compared on the other side alone.
    ///
    /// Where random points and steps lead is beyond what the arguments were chosen for: that a program traps there, or
    /// is NaN, is reported and isn't wrong. Results are the same on any number of threads, and for the same seed.
    ///
    /// # Errors
    /// As [`Function::vjp`] at the given point; limits and cancellation at any; with [`CheckOptions::second`]
    /// [`ErrorKind::NotScalar`](crate::ErrorKind::NotScalar) if the result is not one real.
    pub fn check_gradient(&self, args: &[Value], options: &CheckOptions) -> Result<GradientCheck, Error> {
        let random = |purpose, point: usize| {
            let of_point = (point as u64).wrapping_mul(purpose::COUNT);
            Random::new(options.seed, of_point.wrapping_add(purpose))
        };
        let pair = Pair::new(self)?;
        let (reals, outputs) = self.reals(args, &options.call)?;
        let count = reals.xs.len();
        let wanted = if options.components == 0 { count } else { options.components };
        let sample = random(purpose::SAMPLE, 0).sample(wanted, count);
        let checker = Checker::new(self, options, &pair, &reals, &sample);
        let mut points = vec![checker.point(reals.xs.clone(), |purpose| random(purpose, 0))?];
        for n in 1..=options.points {
            let mut near = random(purpose::POINT, n);
            let xs: Vec<f64> = reals.xs.iter().map(|&x| elsewhere(x, near.signed())).collect();
            points.push(match checker.point(xs.clone(), |purpose| random(purpose, n)) {
                Err(error) if is_passable(&error) => PointCheck {
                    args: reals.args_at(&xs),
                    value: None,
                    trap: Some(first_line(&error)),
                    not_finite: 0,
                    engines: Engines::NoNativeCode,
                    comparisons: Vec::new(),
                },
                found => found?,
            });
        }
        Ok(GradientCheck { points, reals: count, checked: sample.len(), outputs, native: pair.has_native_code() })
    }

    /// The reals of arguments, and how many the result has.
    fn reals(&self, args: &[Value], options: &CallOptions) -> Result<(Reals, usize), Error> {
        let (value, _) = self.call_with(args, options)?;
        let gradient = self.vjp_with(args, &value, options)?.gradient;
        let outputs = reals::flattened(std::slice::from_ref(&value)).len();
        Ok((Reals::new(self, args, &gradient), outputs))
    }
}

/// A real near another, for a number from -1 to 1.
fn elsewhere(x: f64, by: f64) -> f64 {
    // Small reals keep their sign, on which it may depend where a function is defined. Nothing is near infinity.
    match x {
        0.0 => 0.001 * by,
        x if x.is_finite() => x + 0.01 * by * x.abs(),
        x => x,
    }
}
