//! Derivatives beyond the gradient, with values.

use crate::vm::engine::{CallOptions, Hessian, Hvp, Jacobian, JacobianMode, Jvp, Jvps, JvpsOfReals, Vjp};
use crate::vm::value::Value;
use crate::{Error, Function};

impl Function {
    /// The function's value, of any type, and how it changes as the arguments move in the direction of the tangents:
    /// the product of the Jacobian and these, also called the directional derivative. Forward mode: it takes about as
    /// long as two to three calls, and no tape.
    ///
    /// There is a tangent for each argument, of its shape: a real for each real. [`Value::Null`] may stand for discrete
    /// parts, and has to for arguments that derivatives are not [with respect to](Function::wrt). In the tangent of the
    /// value it stands for what is discrete.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def polar (r : Real) (phi : Real) = (r * cos phi, r * sin phi)";
    /// let polar = Module::from_source(&Engine::default(), "polar.dual", text)?.function("polar")?;
    /// let (value, tangent) = polar.jvp(&[2.0.into(), 0.0.into()], &[1.0.into(), 10.0.into()])?;
    /// assert_eq!(value, Value::Tuple(vec![2.0.into(), 0.0.into()]));
    /// assert_eq!(tangent, Value::Tuple(vec![1.0.into(), 20.0.into()]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`], and [`ErrorKind::Tangent`](crate::ErrorKind::Tangent) if the tangents are not those of
    /// the arguments.
    pub fn jvp(&self, args: &[Value], tangents: &[Value]) -> Result<(Value, Value), Error> {
        self.0.jvp(args, tangents).map_err(|error| self.failed(args, error))
    }

    /// [`Function::jvp`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn jvp_with(&self, args: &[Value], tangents: &[Value], options: &CallOptions) -> Result<Jvp, Error> {
        self.0.jvp_with(args, tangents, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value, and how it changes in each of several directions: for each list of tangents what
    /// [`Function::jvp`] gives, in the same bits. A run goes in four directions at once, so that what doesn't move, and
    /// what all tangents need, is computed once for these. A Jacobian whose columns can be computed together, because
    /// they move different reals of the value, takes few directions.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def squares (xs : Array Real) (k : Real) = [| k * x * x for x in xs |]";
    /// let squares = Module::from_source(&Engine::default(), "squares.dual", text)?.function("squares")?;
    /// let reals = |xs: [f64; 3]| Value::Reals(xs.to_vec());
    /// // All elements of the first argument at once, since each moves its own square, and then the second argument.
    /// let directions = [[reals([1.0, 1.0, 1.0]), 0.0.into()], [reals([0.0, 0.0, 0.0]), 1.0.into()]];
    /// let (value, tangents) = squares.jvps(&[reals([1.0, 2.0, 3.0]), 1.0.into()], &directions)?;
    /// assert_eq!(value, reals([1.0, 4.0, 9.0]));
    /// assert_eq!(tangents, [reals([2.0, 4.0, 6.0]), reals([1.0, 4.0, 9.0])]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn jvps(&self, args: &[Value], directions: &[impl AsRef<[Value]>]) -> Result<(Value, Vec<Value>), Error> {
        self.0.jvps(args, directions).map_err(|error| self.failed(args, error))
    }

    /// [`Function::jvps`] with limits or a cancel handle, which are for all directions together, and a report on what
    /// they used.
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn jvps_with(
        &self,
        args: &[Value],
        directions: &[impl AsRef<[Value]>],
        options: &CallOptions,
    ) -> Result<Jvps, Error> {
        self.0.jvps_with(args, directions, options).map_err(|error| self.failed(args, error))
    }

    /// [`Function::jvps`], where directions and tangents are their reals in a row: those of the arguments that
    /// derivatives are [with respect to](Function::wrt), one argument after the other, and those of the value, in the
    /// orders of a [`Jacobian`]'s columns and rows. It is the faster of the two where there are arrays of tuples,
    /// records or data types, for which nothing is made but their numbers.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def polar (at : Array (Real, Real)) = [| (r * cos phi, r * sin phi) for (r, phi) in at |]";
    /// let polar = Module::from_source(&Engine::default(), "polar.dual", text)?.function("polar")?;
    /// let at = [[1.0, 0.0], [2.0, 0.0]].map(|[r, phi]| Value::Tuple(vec![Value::Real(r), Value::Real(phi)]));
    /// // All radii at once, and all angles: each pair moves its own point.
    /// let directions = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]];
    /// let (_, tangents) = polar.jvps_of_reals(&[Value::Array(at.to_vec())], &directions)?;
    /// assert_eq!(tangents, [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 2.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`], and [`ErrorKind::Tangent`](crate::ErrorKind::Tangent) if a direction doesn't have as many
    /// reals as the arguments.
    pub fn jvps_of_reals(
        &self,
        args: &[Value],
        directions: &[impl AsRef<[f64]>],
    ) -> Result<(Value, Vec<Vec<f64>>), Error> {
        self.0.jvps_of_reals(args, directions).map_err(|error| self.failed(args, error))
    }

    /// [`Function::jvps_of_reals`] with limits or a cancel handle, which are for all directions together, and a report
    /// on what they used.
    ///
    /// # Errors
    /// As [`Function::jvps_of_reals`].
    pub fn jvps_of_reals_with(
        &self,
        args: &[Value],
        directions: &[impl AsRef<[f64]>],
        options: &CallOptions,
    ) -> Result<JvpsOfReals, Error> {
        self.0.jvps_of_reals_with(args, directions, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value, of any type, and the product of a cotangent of it and the Jacobian: the gradient of the
    /// inner product of the two, with one entry per argument. Reverse mode: one recorded run and one sweep, as for
    /// [`Function::value_and_grad`], which is this with the cotangent 1.
    ///
    /// The cotangent has the shape of the value: a real for each real. [`Value::Null`] may stand for discrete parts.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def polar (r : Real) (phi : Real) = (r * cos phi, r * sin phi)";
    /// let polar = Module::from_source(&Engine::default(), "polar.dual", text)?.function("polar")?;
    /// let cotangent = Value::Tuple(vec![3.0.into(), 5.0.into()]);
    /// let (_, gradient) = polar.vjp(&[2.0.into(), 0.0.into()], &cotangent)?;
    /// assert_eq!(gradient, [3.0.into(), 10.0.into()]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`], and [`ErrorKind::Cotangent`](crate::ErrorKind::Cotangent) if the cotangent is not that of
    /// the value.
    pub fn vjp(&self, args: &[Value], cotangent: &Value) -> Result<(Value, Vec<Value>), Error> {
        self.0.vjp(args, cotangent).map_err(|error| self.failed(args, error))
    }

    /// [`Function::vjp`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`Function::vjp`].
    pub fn vjp_with(&self, args: &[Value], cotangent: &Value, options: &CallOptions) -> Result<Vjp, Error> {
        self.0.vjp_with(args, cotangent, options).map_err(|error| self.failed(args, error))
    }

    /// The value of a function that returns one real, its gradient, and the product of its Hessian and the tangents:
    /// how the gradient changes as the arguments move in their direction. Forward over reverse: one recorded run with
    /// tangents and one sweep, some times the cost of a gradient, however many arguments there are. Tangents are as for
    /// [`Function::jvp`].
    ///
    /// The gradient may differ in rounding from that of [`Function::value_and_grad`], where loops are recorded another
    /// way with tangents.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def f (x : Real) (y : Real) : Real = x * x * y";
    /// let f = Module::from_source(&Engine::default(), "f.dual", text)?.function("f")?;
    /// let (value, gradient, product) = f.hvp(&[3.0.into(), 5.0.into()], &[1.0.into(), 0.0.into()])?;
    /// assert_eq!((value, gradient), (45.0, vec![30.0.into(), 9.0.into()]));
    /// assert_eq!(product, [10.0.into(), 6.0.into()]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::jvp`], and [`ErrorKind::NotScalar`](crate::ErrorKind::NotScalar) if the result is not one real.
    pub fn hvp(&self, args: &[Value], tangents: &[Value]) -> Result<(f64, Vec<Value>, Vec<Value>), Error> {
        self.0.hvp(args, tangents).map_err(|error| self.failed(args, error))
    }

    /// [`Function::hvp`] with limits or a cancel handle of this call's own, and a report on what it used.
    ///
    /// # Errors
    /// As [`Function::hvp`].
    pub fn hvp_with(&self, args: &[Value], tangents: &[Value], options: &CallOptions) -> Result<Hvp, Error> {
        self.0.hvp_with(args, tangents, options).map_err(|error| self.failed(args, error))
    }

    /// The value of a function that returns one real, its gradient and its Hessian. That has a row for each real in
    /// the arguments that derivatives are [with respect to](Function::wrt), in the order in which these stand there; a
    /// row has the shape of the gradient, whose derivative it is. Each row takes as long as a [`Function::hvp`], but
    /// where some rows have hardly an entry that isn't zero, one more run is asked which entries can have another
    /// value, and rows that have none in common take one product together, with the same bits. The matrix is symmetric
    /// up to rounding, if the gradient is one. It counts towards the limit on live memory, with 8 bytes for each entry.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def f (xs : Array Real) (k : Real) : Real = k * xs[0] ^ 2 * xs[1]";
    /// let f = Module::from_source(&Engine::default(), "f.dual", text)?.function("f")?;
    /// let hessian = f.hessian(&[vec![3.0, 5.0].into(), 1.0.into()])?;
    /// assert_eq!(hessian.value, 45.0);
    /// assert_eq!(hessian.rows, [
    ///     [vec![10.0, 6.0].into(), 30.0.into()],
    ///     [vec![6.0, 0.0].into(), 9.0.into()],
    ///     [vec![30.0, 9.0].into(), Value::Real(0.0)],
    /// ]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::value_and_grad`].
    pub fn hessian(&self, args: &[Value]) -> Result<Hessian, Error> {
        self.0.hessian(args).map_err(|error| self.failed(args, error))
    }

    /// [`Function::hessian`] with limits or a cancel handle of this call's own, for all rows together.
    ///
    /// # Errors
    /// As [`Function::hessian`].
    pub fn hessian_with(&self, args: &[Value], options: &CallOptions) -> Result<Hessian, Error> {
        self.0.hessian_with(args, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value, of any type, and the gradient of every real in it: a row each, in the order in which they
    /// stand in the value. One forward run, and one sweep per row, or for many rows as for [`Function::hessian`]:
    /// [`JacobianMode::Reverse`].
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def polar (r : Real) (phi : Real) = (r * cos phi, r * sin phi)";
    /// let polar = Module::from_source(&Engine::default(), "polar.dual", text)?.function("polar")?;
    /// let jacobian = polar.jacobian(&[2.0.into(), 0.0.into()])?;
    /// assert_eq!(jacobian.rows, [[1.0.into(), (-0.0).into()], [0.0.into(), 2.0.into()]]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn jacobian(&self, args: &[Value]) -> Result<Jacobian, Error> {
        self.0.jacobian(args).map_err(|error| self.failed(args, error))
    }

    /// [`Function::jacobian`] with limits or a cancel handle of this call's own.
    ///
    /// # Errors
    /// As [`Function::jacobian`].
    pub fn jacobian_with(&self, args: &[Value], options: &CallOptions) -> Result<Jacobian, Error> {
        self.0.jacobian_with(args, options).map_err(|error| self.failed(args, error))
    }

    /// [`Function::jacobian`] by rows or by columns, whichever is fewer, or the one that is asked for. Limits are for
    /// all of them together.
    ///
    /// ```
    /// use dualvm::{CallOptions, Engine, Error, JacobianMode, Module};
    ///
    /// let text = "def powers (x : Real) = [| x ^ n for n < 4 |]";
    /// let powers = Module::from_source(&Engine::default(), "powers.dual", text)?.function("powers")?;
    /// let jacobian = powers.jacobian_by(JacobianMode::Auto, &[2.0.into()], &CallOptions::default())?;
    /// assert_eq!(jacobian.rows, [[0.0.into()], [1.0.into()], [4.0.into()], [12.0.into()]]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::jacobian`].
    pub fn jacobian_by(&self, mode: JacobianMode, args: &[Value], options: &CallOptions) -> Result<Jacobian, Error> {
        self.0.jacobian_by(mode, args, options).map_err(|error| self.failed(args, error))
    }
}
