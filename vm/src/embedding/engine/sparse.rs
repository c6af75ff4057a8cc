//! Sparse derivatives: patterns from a recorded run, and matrices from a few products.
//!
//! A pattern is that of the branches of its run. Where another run takes others, the products may hold entries that the
//! pattern knows nothing of, and would be taken apart in the wrong way. So each matrix is checked: one more product,
//! with a vector of numbers that have nothing in common, has to be that of the matrix.

use super::derivatives::Direction;
use super::error::outside_of_code;
use super::{CallOptions, Function, Invocation, JacobianMode, Module, RunError};
use crate::code::Mode;
use crate::embedding::convert::ResultSlot;
use crate::embedding::sparse::{
    GaussNewton, HessianSparsity, JacobianSparsity, LagrangianHvp, SparseHessian, SparseJacobian, SparseLagrangian,
    SparseMatrix, SparsityError,
};
use crate::embedding::value::Value;
use crate::running::entry::Entry;
use crate::running::meter::Watch;
use crate::sparsity::pattern::Pattern;
use crate::sparsity::{Room, of_hessian, of_jacobian};
use crate::trap::{Limit, TrapKind};

/// How far a product may be from that of the matrix, relative to its terms: roundings of two runs, and no entry that
/// makes a difference to the row.
const TOLERANCE: f64 = 1e-6;
/// The same relative to the largest of all products, values and gradients, for entries that are the rounded difference
/// of larger numbers.
const TOLERANCE_OF_ALL: f64 = 1e-12;

/// What a pattern is of.
#[derive(Clone, Copy)]
pub(super) enum Matrix {
    Jacobian,
    /// That of the sum of all reals in the value, whatever their weights.
    Hessian,
}

impl Function {
    /// Which entries of the Jacobian can be other than zero at these arguments, and which columns or rows can be
    /// computed together. One recorded run, whose records are looked at and not swept.
    ///
    /// The pattern holds for the branches that the run has taken, and for all arguments that lead to the same ones.
    /// What a derivative operator inside of the program gives counts as depending on everything, unless it is a small
    /// one that is written out in place.
    ///
    /// # Errors
    /// As [`Function::call`]; what is known of the run's records and slots counts towards the limit on live memory, and
    /// the pattern with 16 bytes for each entry.
    pub fn jacobian_sparsity(&self, args: &[Value]) -> Result<JacobianSparsity, RunError> {
        self.jacobian_sparsity_with(args, &CallOptions::default())
    }

    /// [`Function::jacobian_sparsity`], with options.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`].
    pub fn jacobian_sparsity_with(&self, args: &[Value], options: &CallOptions) -> Result<JacobianSparsity, RunError> {
        let (function, mut lease) = (self.structured(), self.lease());
        let mut run = Invocation::begin(&function, options, &mut lease);
        let room = Room::of(run.limits.live_bytes);
        run.with_pattern(args, Matrix::Jacobian, |_| room, JacobianSparsity::new)
    }

    /// The function's value and its Jacobian, with the entries of the sparsity's pattern: those of
    /// [`Function::jacobian`] up to rounding. One run forwards for each colour of columns, four at a time, or one sweep
    /// for each colour of rows; and one more that checks the pattern.
    ///
    /// # Errors
    /// As [`Function::jacobian`], and [`RunError::Sparsity`] if the sparsity isn't that of the function at these
    /// arguments. (An entry outside of the pattern is found if it is more than a millionth of the others in its row, or
    /// column, and than 10⁻¹² of the largest of all entries and reals in the value. Where entries inside of it are
    /// infinite or NaN, nothing is compared in their row, or column.)
    pub fn sparse_jacobian(&self, args: &[Value], sparsity: &JacobianSparsity) -> Result<SparseJacobian, RunError> {
        self.sparse_jacobian_with(args, sparsity, &CallOptions::default())
    }

    /// [`Function::sparse_jacobian`], with options. Limits are for all products together.
    ///
    /// # Errors
    /// As [`Function::sparse_jacobian`].
    pub fn sparse_jacobian_with(
        &self,
        args: &[Value],
        sparsity: &JacobianSparsity,
        options: &CallOptions,
    ) -> Result<SparseJacobian, RunError> {
        let mut lease = self.lease();
        if sparsity.mode() == JacobianMode::Reverse {
            return Invocation::begin(self, options, &mut lease).timed().compressed_rows(args, sparsity);
        }
        let function = self.with_lanes_for(sparsity.products() + 1);
        Invocation::begin(&function, options, &mut lease).timed().compressed_columns(args, sparsity)
    }

    /// Which entries of the Hessian can be other than zero at these arguments, and which columns can be computed
    /// together. One recorded run, whose records are looked at and not swept. The pattern holds as that of
    /// [`Function::jacobian_sparsity`] does.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`], and [`RunError::NotScalar`] if the result is not one real.
    pub fn hessian_sparsity(&self, args: &[Value]) -> Result<HessianSparsity, RunError> {
        self.hessian_sparsity_with(args, &CallOptions::default())
    }

    /// [`Function::hessian_sparsity`], with options.
    ///
    /// # Errors
    /// As [`Function::hessian_sparsity`].
    pub fn hessian_sparsity_with(&self, args: &[Value], options: &CallOptions) -> Result<HessianSparsity, RunError> {
        self.check_scalar()?;
        self.lagrangian_sparsity_with(args, options)
    }

    /// Which entries the Hessian of a sum of the reals in the value can have, whatever their weights; of a Lagrangian,
    /// for example. As [`Function::hessian_sparsity`], for a function with results of any type.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`].
    pub fn lagrangian_sparsity(&self, args: &[Value]) -> Result<HessianSparsity, RunError> {
        self.lagrangian_sparsity_with(args, &CallOptions::default())
    }

    /// [`Function::lagrangian_sparsity`], with options.
    ///
    /// # Errors
    /// As [`Function::jacobian_sparsity`].
    pub fn lagrangian_sparsity_with(&self, args: &[Value], options: &CallOptions) -> Result<HessianSparsity, RunError> {
        let (function, mut lease) = (self.structured(), self.lease());
        let mut run = Invocation::begin(&function, options, &mut lease);
        let room = Room::of(run.limits.live_bytes);
        run.with_pattern(args, Matrix::Hessian, |_| room, HessianSparsity::new)
    }

    /// The function's value, its gradient and its Hessian, with the entries of the sparsity's pattern: those of
    /// [`Function::hessian`] up to rounding. A [`Function::hvp`] for each colour, and one more that checks the pattern.
    ///
    /// # Errors
    /// As [`Function::hessian`], and [`RunError::Sparsity`] if the sparsity isn't that of the function at these
    /// arguments. (An entry outside of the pattern is found if it is more than a millionth of the others in its row,
    /// and than 10⁻¹² of the largest of all entries and reals in the gradient. Where entries inside of it are infinite
    /// or NaN, nothing is compared in their row.)
    pub fn sparse_hessian(&self, args: &[Value], sparsity: &HessianSparsity) -> Result<SparseHessian, RunError> {
        self.sparse_hessian_with(args, sparsity, &CallOptions::default())
    }

    /// [`Function::sparse_hessian`], with options. Limits are for all products together.
    ///
    /// # Errors
    /// As [`Function::sparse_hessian`].
    pub fn sparse_hessian_with(
        &self,
        args: &[Value],
        sparsity: &HessianSparsity,
        options: &CallOptions,
    ) -> Result<SparseHessian, RunError> {
        self.check_scalar()?;
        let found = self.sparse_lagrangian_with(args, &Value::Real(1.0), sparsity, options)?;
        let SparseLagrangian { value, gradient, matrix, stats } = found;
        let value = value.as_real().expect("the result is a real");
        Ok(SparseHessian { value, gradient, matrix, stats })
    }

    /// The function's value, and gradient and Hessian of the sum of the reals in it with these weights, of a
    /// Lagrangian, for example: an objective, and constraints with their multipliers. The weights have the shape of the
    /// value; [`Value::Null`] may stand for discrete parts. A product for each colour, as [`Function::sparse_hessian`].
    ///
    /// # Errors
    /// As [`Function::sparse_hessian`], and [`RunError::Cotangent`] if the weights are not those of the value.
    pub fn sparse_lagrangian(
        &self,
        args: &[Value],
        weights: &Value,
        sparsity: &HessianSparsity,
    ) -> Result<SparseLagrangian, RunError> {
        self.sparse_lagrangian_with(args, weights, sparsity, &CallOptions::default())
    }

    /// [`Function::sparse_lagrangian`], with options. Limits are for all products together.
    ///
    /// # Errors
    /// As [`Function::sparse_lagrangian`].
    pub fn sparse_lagrangian_with(
        &self,
        args: &[Value],
        weights: &Value,
        sparsity: &HessianSparsity,
        options: &CallOptions,
    ) -> Result<SparseLagrangian, RunError> {
        let (function, mut lease) = (self.with_tangents(), self.lease());
        Invocation::begin(&function, options, &mut lease).timed().compressed_lagrangian(args, weights, sparsity)
    }

    /// The function's value, and the gradient of the sum of the reals in it with these weights, with the product of its
    /// Hessian and the tangents: a [`Function::hvp`] of a Lagrangian, for solvers that need no matrix. Weights are as
    /// for [`Function::sparse_lagrangian`], tangents as for [`Function::jvp`].
    ///
    /// # Errors
    /// As [`Function::hvp`], and [`RunError::Cotangent`] if the weights are not those of the value.
    pub fn lagrangian_hvp(
        &self,
        args: &[Value],
        weights: &Value,
        tangents: &[Value],
    ) -> Result<LagrangianHvp, RunError> {
        self.lagrangian_hvp_with(args, weights, tangents, &CallOptions::default())
    }

    /// [`Function::lagrangian_hvp`], with options.
    ///
    /// # Errors
    /// As [`Function::lagrangian_hvp`].
    pub fn lagrangian_hvp_with(
        &self,
        args: &[Value],
        weights: &Value,
        tangents: &[Value],
        options: &CallOptions,
    ) -> Result<LagrangianHvp, RunError> {
        self.check_tangents(tangents)?;
        let (function, mut lease) = (self.with_tangents(), self.lease());
        let mut run = Invocation::begin(&function, options, &mut lease).timed();
        let (reals, value) = run.weighted_hvp(args, weights, Direction::Tangents(&[tangents]))?;
        let (gradient, product) = (run.gradient_behind(args, reals)?, run.gradient(args)?);
        Ok(LagrangianHvp { value, gradient, product, stats: run.state.stats() })
    }

    /// The function's value, and of half the sum of the squares of the reals in it, which are residuals, the gradient
    /// Jᵀr and the Gauss-Newton product JᵀJ v: that of the Hessian but for what the residuals' own curvature adds. A
    /// run with tangents, a recorded one and two sweeps. Tangents are as for [`Function::jvp`].
    ///
    /// # Errors
    /// As [`Function::jvp`].
    pub fn gauss_newton(&self, args: &[Value], tangents: &[Value]) -> Result<GaussNewton, RunError> {
        self.gauss_newton_with(args, tangents, &CallOptions::default())
    }

    /// [`Function::gauss_newton`], with options. Limits are for all of it together.
    ///
    /// # Errors
    /// As [`Function::gauss_newton`].
    pub fn gauss_newton_with(
        &self,
        args: &[Value],
        tangents: &[Value],
        options: &CallOptions,
    ) -> Result<GaussNewton, RunError> {
        self.check_tangents(tangents)?;
        let (function, mut lease) = (self.with_tangents(), self.lease());
        let result = &self.interface().result;
        let mut run = Invocation::begin(&function, options, &mut lease).timed();
        run.forward_with_tangents(args, Direction::Tangents(&[tangents]), Mode::PRIMAL)?;
        let (value, tangents) = run.value_and_tangents(None, 1)?;
        let moved = run.flat(|flattener| flattener.cotangent(result, &value, &tangents[0]))?;
        run.go_on();
        let mut run = run.of_function(self);
        run.forward(args, Mode::RECORDING)?;
        let mut reader = run.reader();
        let value = reader.result(result, run.results());
        let slots = reader.into_slots();
        let value = value.map_err(|error| run.unreadable(error))?;
        run.sweep_from(&slots, &moved)?;
        let product = run.gradient(args)?;
        let residuals = run.flat(|flattener| flattener.cotangent(result, &value, &value))?;
        run.sweep_from(&slots, &residuals)?;
        let gradient = run.gradient(args)?;
        Ok(GaussNewton { value, gradient, product, stats: run.state.stats() })
    }

    /// The same function, with records of which is known what depends on what.
    pub(super) fn structured(&self) -> Function {
        Function { module: Module { program: self.module.program.structured(), ..self.module.clone() }, ..self.clone() }
    }
}

/// Whether this is the product of the matrix, or of its transpose, and these factors. It was computed along with these
/// reals.
fn check(
    (matrix, transposed): (&SparseMatrix, bool),
    factors: &[f64],
    product: &[f64],
    reals: &[f64],
) -> Result<(), SparsityError> {
    let expected = matrix.product(transposed, factors);
    // Sizes are in the order of their bits.
    let finite = |size: f64| if size.is_finite() { size.to_bits() } else { 0 };
    let of_reals = reals.iter().map(|real| finite(real.abs())).max();
    let largest = expected.iter().map(|&[_, size]| finite(size)).max().max(of_reals);
    let floor = TOLERANCE_OF_ALL * largest.map_or(0.0, f64::from_bits);
    let is_close = |(&[sum, size], &product): (&[f64; 2], &f64)| {
        // Where the matrix has infinite entries, or none that is a number, there is nothing to compare. A product that
        // is infinite without such entries is none of the matrix, and would be within any tolerance of its own size.
        let is_near = product.is_finite() && (sum - product).abs() <= TOLERANCE * (size + product.abs()) + floor;
        !size.is_finite() || is_near
    };
    match expected.iter().zip(product).position(|pair| !is_close(pair)) {
        None => Ok(()),
        Some(place) => Err(SparsityError::Entry { place, is_column: transposed }),
    }
}

impl Invocation<'_> {
    /// Records a run, and says how many reals derivatives are with respect to.
    fn record(&mut self, args: &[Value]) -> Result<usize, RunError> {
        self.write(args, Mode::RECORDING)?;
        let inputs = self.state.worker.exec.tape.slots();
        // SAFETY: the arguments were gathered.
        unsafe { self.execute(Entry::Function(self.function.func), Mode::RECORDING, true) }?;
        Ok(inputs)
    }

    /// The same with the value of the run, and the slots of the reals in it.
    pub(super) fn record_with_slots(&mut self, args: &[Value]) -> Result<(usize, Value, Vec<ResultSlot>), RunError> {
        let inputs = self.record(args)?;
        let mut reader = self.reader();
        let value = reader.result(&self.function.interface().result, self.results());
        let slots = reader.into_slots();
        Ok((inputs, value.map_err(|error| self.unreadable(error))?, slots))
    }

    /// Records a run of a [`Function::structured`] function, and does something with the pattern that it tells. `room`
    /// says how much there is for a value of so many reals.
    pub(super) fn with_pattern<T>(
        &mut self,
        args: &[Value],
        of: Matrix,
        room: impl FnOnce(usize) -> Room,
        then: impl FnOnce(Pattern, &Watch<'_>) -> Result<T, TrapKind>,
    ) -> Result<T, RunError> {
        let (inputs, _, results) = self.record_with_slots(args)?;
        let (inputs, room) = (inputs as u32, room(results.len()));
        let (program, root) = (&self.function.module.program, self.state.worker.exec.tape.root());
        let watch = Watch::of(&self.state.account);
        // SAFETY: the run has ended; the results are of it.
        let pattern = unsafe {
            match of {
                Matrix::Jacobian => of_jacobian(program, root, inputs, &results, &room, &watch),
                Matrix::Hessian => of_hessian(program, root, inputs, &results, &room, &watch),
            }
        };
        pattern.and_then(|pattern| then(pattern, &watch)).map_err(|kind| self.ended(kind))
    }

    /// The error of work on a run that has ended.
    fn ended(&self, kind: TrapKind) -> RunError {
        outside_of_code(self.state.account.verdict(kind))
    }

    fn compressed_columns(mut self, args: &[Value], sparsity: &JacobianSparsity) -> Result<SparseJacobian, RunError> {
        let (pattern, compression) = (sparsity.pattern(), sparsity.compression());
        self.check_inputs(args, [pattern.rows(), pattern.columns()])?;
        let mut values = self.entries(pattern)?;
        let (result, lanes, last) = (&self.function.interface().result, self.lanes(), compression.products());
        let (mut value, mut reals) = (None, Vec::new());
        let mut factors = vec![vec![0.0; pattern.columns()]; lanes];
        self.keep_arguments_if(last >= lanes);
        for first in (0..=last).step_by(lanes) {
            if first > 0 {
                self.go_on();
            }
            let products = first..=last.min(first + lanes - 1);
            products.clone().zip(&mut factors).for_each(|(product, factors)| compression.factors(product, factors));
            self.forward_with_tangents(args, Direction::Reals(&factors), Mode::PRIMAL)?;
            value = Some(self.value_or(value)?);
            for (lane, product) in products.enumerate() {
                reals = self.reals_of_tangent(lane, None)?;
                if reals.len() != pattern.rows() {
                    let size = [pattern.rows(), pattern.columns()];
                    return Err(wrong_size(size, [Some(reals.len()), Some(pattern.columns())]));
                }
                if product < last {
                    compression.read(product, &reals, &mut values);
                }
            }
        }
        let (matrix, value) = (sparsity.matrix(values), value.expect("there was a run"));
        let of_value = self.flat(|flattener| flattener.cotangent(result, &value, &value))?;
        check((&matrix, false), &factors[last % lanes], &reals, &of_value)?;
        Ok(SparseJacobian { value, matrix, stats: self.state.stats() })
    }

    fn compressed_rows(mut self, args: &[Value], sparsity: &JacobianSparsity) -> Result<SparseJacobian, RunError> {
        let (pattern, compression) = (sparsity.pattern(), sparsity.compression());
        let (inputs, value, slots) = self.record_with_slots(args)?;
        let result = &self.function.interface().result;
        let (expected, found) = ([pattern.rows(), pattern.columns()], [slots.len(), inputs]);
        if expected != found {
            return Err(wrong_size(expected, found.map(Some)));
        }
        let (mut values, mut factors) = (self.entries(pattern)?, Vec::new());
        for product in 0..=compression.products() {
            compression.factors(product, &mut factors);
            self.sweep_from(&slots, &factors)?;
            if product < compression.products() {
                compression.read(product, &self.state.sweep.adjoints()[1..=inputs], &mut values);
            }
        }
        let matrix = sparsity.matrix(values);
        let reals = self.flat(|flattener| flattener.cotangent(result, &value, &value))?;
        check((&matrix, true), &factors, &self.state.sweep.adjoints()[1..=inputs], &reals)?;
        Ok(SparseJacobian { value, matrix, stats: self.state.stats() })
    }

    fn compressed_lagrangian(
        mut self,
        args: &[Value],
        weights: &Value,
        sparsity: &HessianSparsity,
    ) -> Result<SparseLagrangian, RunError> {
        let (pattern, compression) = (sparsity.pattern(), sparsity.compression());
        let (inputs, last) = (pattern.columns(), compression.products());
        self.check_inputs(args, [inputs; 2])?;
        let (mut values, mut factors, mut value) = (self.entries(pattern)?, [Vec::new()], Value::Null);
        for product in 0..=last {
            if product > 0 {
                self.go_on();
            }
            compression.factors(product, &mut factors[0]);
            (_, value) = self.weighted_hvp(args, weights, Direction::Reals(&factors))?;
            if product < last {
                compression.read(product, &self.state.sweep.adjoints()[1..=inputs], &mut values);
            }
        }
        let matrix = sparsity.matrix(values);
        let (product, gradient) = self.state.sweep.adjoints()[1..=2 * inputs].split_at(inputs);
        check((&matrix, false), &factors[0], product, gradient)?;
        let gradient = self.gradient_behind(args, inputs)?;
        Ok(SparseLagrangian { value, gradient, matrix, stats: self.state.stats() })
    }

    /// Sweeps from the tangents of the reals in the value, with these weights. Returns how many reals the arguments'
    /// tangents have, and the value.
    fn weighted_hvp(
        &mut self,
        args: &[Value],
        weights: &Value,
        direction: Direction<'_>,
    ) -> Result<(usize, Value), RunError> {
        let result = &self.function.interface().result;
        if result.is_real() && *weights == Value::Real(1.0) {
            // What there is for one real: nothing needs to be made of it.
            return self.hvp(args, direction).map(|(reals, value)| (reals, Value::Real(value)));
        }
        let reals = self.forward_with_tangents(args, direction, Mode::RECORDING)?;
        let value = self.reader().without_slots().result(result, self.results());
        let value = value.map_err(|error| self.unreadable(error))?;
        let mut reader = self.reader();
        let tangent = reader.tangent_with_slots(result, self.tangents(0));
        let slots = reader.into_slots();
        tangent.map_err(|error| self.unreadable(error))?;
        let adjoints = self.flat(|flattener| flattener.cotangent(result, &value, weights))?;
        self.sweep_from(&slots, &adjoints)?;
        Ok((reals, value))
    }

    /// Room for the entries of a pattern.
    fn entries(&self, pattern: &Pattern) -> Result<Vec<f64>, RunError> {
        let bytes = 8 * pattern.len();
        if bytes as u64 > self.limits.live_bytes {
            return Err(self.stopped(Limit::LiveBytes));
        }
        self.time_to_fill(bytes)?;
        Ok(vec![0.0; pattern.len()])
    }

    /// Whether derivatives are with respect to as many reals as the pattern has columns.
    fn check_inputs(&self, args: &[Value], size: [usize; 2]) -> Result<(), RunError> {
        let inputs = self.inputs(args)?.unwrap_or(size[1]);
        if inputs == size[1] { Ok(()) } else { Err(wrong_size(size, [None, Some(inputs)])) }
    }
}

fn wrong_size(pattern: [usize; 2], derivative: [Option<usize>; 2]) -> RunError {
    SparsityError::Size { pattern, derivative }.into()
}
