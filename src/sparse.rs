//! Sparse Jacobians and Hessians of functions, and what optimisers ask for besides: Lagrangians, Gauss-Newton products.

use crate::vm::engine::CallOptions;
use crate::vm::sparse::{
    GaussNewton, HessianSparsity, JacobianSparsity, LagrangianHvp, SparseHessian, SparseJacobian, SparseLagrangian,
};
use crate::vm::value::Value;
use crate::{Error, Function};

impl Function {
    /// Which entries of the Jacobian can be other than zero at these arguments, and how few products have all of them:
    /// what [`Function::sparse_jacobian`] needs. One recorded run, whose records are looked at and not swept; it takes
    /// some times as long as a gradient.
    ///
    /// The pattern holds for the branches that the run has taken, and for all arguments that lead to the same ones.
    /// [`Pattern::union`](crate::vm::sparse::Pattern::union) and
    /// [`JacobianSparsity::of_pattern`] make one that holds for several. What a derivative operator inside of the
    /// program gives counts as depending on everything, unless it is a small one, which is written out in place.
    ///
    /// # Errors
    /// As [`Function::call`]. A pattern counts towards the limit on live memory, with 16 bytes for each entry.
    pub fn jacobian_sparsity(&self, args: &[Value]) -> Result<JacobianSparsity, Error> {
        self.0.jacobian_sparsity(args).map_err(|error| self.failed(args, error))
    }

    /// [`Function::jacobian_sparsity`] with limits or a cancel handle of this call's own.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`].
    pub fn jacobian_sparsity_with(&self, args: &[Value], options: &CallOptions) -> Result<JacobianSparsity, Error> {
        self.0.jacobian_sparsity_with(args, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value and its Jacobian, with the entries of the sparsity's pattern: those of
    /// [`Function::jacobian`], up to rounding. Columns that have no row in common are computed by one run forwards, or
    /// rows that have no column in common by one sweep, and four such runs go side by side. One more product checks the
    /// pattern.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def differences (x : Array Real) = [| x[i + 1] ^ 2 - x[i] for i < length x - 1 |]";
    /// let f = Module::from_source(&Engine::default(), "differences.dual", text)?.function("differences")?;
    /// let sparsity = f.jacobian_sparsity(&[vec![0.0; 1000].into()])?;
    /// assert_eq!((sparsity.pattern().len(), sparsity.products()), (1998, 2));
    /// let jacobian = f.sparse_jacobian(&[vec![1.0; 1000].into()], &sparsity)?;
    /// assert_eq!(jacobian.matrix.entries().nth(1), Some((0, 1, 2.0)));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::jacobian`], and [`ErrorKind::Sparsity`](crate::ErrorKind::Sparsity) if the sparsity isn't that of
    /// the function at these arguments: it has another size, or there is an entry outside of the pattern, which is
    /// found if it is more than a millionth of the others in its row, or column, and than 10⁻¹² of the largest of all
    /// entries and reals in the value. Where entries inside of it are infinite or NaN, nothing is compared in their
    /// row, or column.
    pub fn sparse_jacobian(&self, args: &[Value], sparsity: &JacobianSparsity) -> Result<SparseJacobian, Error> {
        self.0.sparse_jacobian(args, sparsity).map_err(|error| self.failed(args, error))
    }

    /// [`Function::sparse_jacobian`] with limits or a cancel handle of this call's own, for all products together.
    ///
    /// # Errors
    /// As [`Function::sparse_jacobian`].
    pub fn sparse_jacobian_with(
        &self,
        args: &[Value],
        sparsity: &JacobianSparsity,
        options: &CallOptions,
    ) -> Result<SparseJacobian, Error> {
        self.0.sparse_jacobian_with(args, sparsity, options).map_err(|error| self.failed(args, error))
    }

    /// Which entries of the Hessian can be other than zero at these arguments, and how few products with vectors have
    /// all of them: what [`Function::sparse_hessian`] needs. The pattern is found as that of
    /// [`Function::jacobian_sparsity`] is, and holds for as much.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`], and [`ErrorKind::NotScalar`](crate::ErrorKind::NotScalar) if the result is
    /// not one real.
    pub fn hessian_sparsity(&self, args: &[Value]) -> Result<HessianSparsity, Error> {
        self.0.hessian_sparsity(args).map_err(|error| self.failed(args, error))
    }

    /// [`Function::hessian_sparsity`] with limits or a cancel handle of this call's own.
    ///
    /// # Errors
    /// As [`Function::hessian_sparsity`].
    pub fn hessian_sparsity_with(&self, args: &[Value], options: &CallOptions) -> Result<HessianSparsity, Error> {
        self.0.hessian_sparsity_with(args, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value, its gradient and its Hessian, with the entries of the sparsity's pattern: those of
    /// [`Function::hessian`], up to rounding. A [`Function::hvp`] for each of a few groups of columns, from which the
    /// entries are read off, and one more that checks the pattern.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def chain (x : Array Real) : Real =
    ///     loop energy = 0.0 for i < length x - 1 do energy + (x[i + 1] - x[i]) ^ 4";
    /// let chain = Module::from_source(&Engine::default(), "chain.dual", text)?.function("chain")?;
    /// let sparsity = chain.hessian_sparsity(&[vec![0.0; 1000].into()])?;
    /// assert_eq!((sparsity.pattern().len(), sparsity.products()), (2998, 3));
    /// let x: Vec<f64> = (0..1000).map(f64::from).collect();
    /// let hessian = chain.sparse_hessian(&[x.into()], &sparsity)?;
    /// assert_eq!((hessian.value, hessian.matrix.entries().next()), (999.0, Some((0, 0, 12.0))));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::hessian`], and [`ErrorKind::Sparsity`](crate::ErrorKind::Sparsity) as
    /// [`Function::sparse_jacobian`].
    pub fn sparse_hessian(&self, args: &[Value], sparsity: &HessianSparsity) -> Result<SparseHessian, Error> {
        self.0.sparse_hessian(args, sparsity).map_err(|error| self.failed(args, error))
    }

    /// [`Function::sparse_hessian`] with limits or a cancel handle of this call's own, for all products together.
    ///
    /// # Errors
    /// As [`Function::sparse_hessian`].
    pub fn sparse_hessian_with(
        &self,
        args: &[Value],
        sparsity: &HessianSparsity,
        options: &CallOptions,
    ) -> Result<SparseHessian, Error> {
        self.0.sparse_hessian_with(args, sparsity, options).map_err(|error| self.failed(args, error))
    }

    /// Which entries the Hessian of a sum of the reals in the value can have, whatever their weights, and how few
    /// products have all of them: what [`Function::sparse_lagrangian`] needs. As [`Function::hessian_sparsity`], for
    /// results of any type.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`].
    pub fn lagrangian_sparsity(&self, args: &[Value]) -> Result<HessianSparsity, Error> {
        self.0.lagrangian_sparsity(args).map_err(|error| self.failed(args, error))
    }

    /// [`Function::lagrangian_sparsity`] with limits or a cancel handle of this call's own.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`].
    pub fn lagrangian_sparsity_with(&self, args: &[Value], options: &CallOptions) -> Result<HessianSparsity, Error> {
        self.0.lagrangian_sparsity_with(args, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value, and gradient and Hessian of the sum of the reals in it with these weights: of a
    /// Lagrangian, if the value is an objective and constraints, and the weights are 1 and the multipliers. Weights
    /// have the shape of the value; [`Value::Null`] may stand for discrete parts. The Hessian is computed as by
    /// [`Function::sparse_hessian`].
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def problem (x : Array Real) =
    ///     (x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], x[0] * x[1] * x[2] * x[3])";
    /// let problem = Module::from_source(&Engine::default(), "problem.dual", text)?.function("problem")?;
    /// let args = [vec![1.0, 5.0, 5.0, 1.0].into()];
    /// let sparsity = problem.lagrangian_sparsity(&args)?;
    /// let weights = Value::Tuple(vec![1.0.into(), (-0.5).into()]);
    /// let found = problem.sparse_lagrangian(&args, &weights, &sparsity)?;
    /// assert_eq!(found.gradient, [vec![-0.5, -1.5, -0.5, -1.5].into()]);
    /// assert_eq!(found.matrix.entries().next(), Some((0, 0, 2.0)));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::sparse_hessian`] for results of any type, and
    /// [`ErrorKind::Cotangent`](crate::ErrorKind::Cotangent) if the weights are not those of the value.
    pub fn sparse_lagrangian(
        &self,
        args: &[Value],
        weights: &Value,
        sparsity: &HessianSparsity,
    ) -> Result<SparseLagrangian, Error> {
        self.0.sparse_lagrangian(args, weights, sparsity).map_err(|error| self.failed(args, error))
    }

    /// [`Function::sparse_lagrangian`] with limits or a cancel handle of this call's own, for all products together.
    ///
    /// # Errors
    /// As [`Function::sparse_lagrangian`].
    pub fn sparse_lagrangian_with(
        &self,
        args: &[Value],
        weights: &Value,
        sparsity: &HessianSparsity,
        options: &CallOptions,
    ) -> Result<SparseLagrangian, Error> {
        self.0.sparse_lagrangian_with(args, weights, sparsity, options).map_err(|error| self.failed(args, error))
    }

    /// The gradient of the sum of the reals in the value with these weights, and the product of its Hessian and the
    /// tangents: a [`Function::hvp`] of a Lagrangian, for solvers that need no matrix. Weights are as for
    /// [`Function::sparse_lagrangian`], tangents as for [`Function::jvp`].
    ///
    /// # Errors
    /// As [`Function::jvp`], and [`ErrorKind::Cotangent`](crate::ErrorKind::Cotangent) if the weights are not those of
    /// the value.
    pub fn lagrangian_hvp(&self, args: &[Value], weights: &Value, tangents: &[Value]) -> Result<LagrangianHvp, Error> {
        self.0.lagrangian_hvp(args, weights, tangents).map_err(|error| self.failed(args, error))
    }

    /// [`Function::lagrangian_hvp`] with limits or a cancel handle of this call's own.
    ///
    /// # Errors
    /// As [`Function::lagrangian_hvp`].
    pub fn lagrangian_hvp_with(
        &self,
        args: &[Value],
        weights: &Value,
        tangents: &[Value],
        options: &CallOptions,
    ) -> Result<LagrangianHvp, Error> {
        self.0.lagrangian_hvp_with(args, weights, tangents, options).map_err(|error| self.failed(args, error))
    }

    /// The function's value, and of half the sum of the squares of the reals in it, which are residuals, the gradient
    /// Jᵀr and the Gauss-Newton product JᵀJ v: that of the Hessian, but for what the residuals' own curvature adds. A
    /// run with tangents, a recorded one and two sweeps. Tangents are as for [`Function::jvp`].
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def residuals (x : Real) (y : Real) = [| x - 1, 10 * (y - x * x) |]";
    /// let residuals = Module::from_source(&Engine::default(), "residuals.dual", text)?.function("residuals")?;
    /// let found = residuals.gauss_newton(&[2.0.into(), 3.0.into()], &[1.0.into(), 0.0.into()])?;
    /// assert_eq!(found.gradient, [401.0.into(), (-100.0).into()]);
    /// assert_eq!(found.product, [1601.0.into(), (-400.0).into()]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn gauss_newton(&self, args: &[Value], tangents: &[Value]) -> Result<GaussNewton, Error> {
        self.0.gauss_newton(args, tangents).map_err(|error| self.failed(args, error))
    }

    /// [`Function::gauss_newton`] with limits or a cancel handle of this call's own, for all of it together.
    ///
    /// # Errors
    /// As [`Function::gauss_newton`].
    pub fn gauss_newton_with(
        &self,
        args: &[Value],
        tangents: &[Value],
        options: &CallOptions,
    ) -> Result<GaussNewton, Error> {
        self.0.gauss_newton_with(args, tangents, options).map_err(|error| self.failed(args, error))
    }
}
