//! Jacobians and Hessians of which most entries are zero: patterns, and matrices that hold the other entries.
//!
//! A [`Pattern`] says where entries may be other than zero. [`Function::jacobian_sparsity`] and
//! [`Function::hessian_sparsity`] find it, and how few products have all entries in them ([`JacobianSparsity`],
//! [`HessianSparsity`]). With these, [`Function::sparse_jacobian`] and [`Function::sparse_hessian`] compute the
//! entries, at any number of points: for a tridiagonal Hessian with a million rows three products.
//!
//! ```
//! # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
//! # let def = text::parse("func \"f\" (real, real, real) -> (real, real)
//! #     export (x : Real, y : Real, z : Real) -> (Real, Real)
//! #     regs 3 real
//! #     { mul r0, r0, r0
//! #     mul r1, r1, r2
//! #     ret (r0, r1) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
//! # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
//! // def f (x : Real) (y : Real) (z : Real) = (x * x, y * z)
//! let f = module.function("f").ok_or("no such function")?;
//! let sparsity = f.jacobian_sparsity(&[1.0.into(), 2.0.into(), 3.0.into()])?;
//! let jacobian = f.sparse_jacobian(&[3.0.into(), 5.0.into(), 7.0.into()], &sparsity)?.matrix;
//! let entries: Vec<_> = jacobian.entries().collect();
//! assert_eq!(entries, [(0, 0, 6.0), (1, 1, 7.0), (1, 2, 5.0)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Function::jacobian_sparsity`]: crate::engine::Function::jacobian_sparsity
//! [`Function::hessian_sparsity`]: crate::engine::Function::hessian_sparsity
//! [`Function::sparse_jacobian`]: crate::engine::Function::sparse_jacobian
//! [`Function::sparse_hessian`]: crate::engine::Function::sparse_hessian

pub use crate::sparsity::pattern::Pattern;

use crate::embedding::engine::{JacobianMode, Stats};
use crate::embedding::value::Value;
use crate::running::meter::Watch;
use crate::sparsity::coloring::{self, Coloring, Compression};
use crate::trap::TrapKind;
use std::fmt;
use std::sync::Arc;

/// How a sparse Jacobian is computed: its pattern, and which columns, or which rows, share a product. Cheap to clone.
///
/// Columns that have no row in common are computed by one run forwards, rows that have no column in common by one
/// sweep; what takes fewer is taken.
#[derive(Clone, Debug)]
pub struct JacobianSparsity(Arc<JacobianPlan>);

#[derive(Debug)]
struct JacobianPlan {
    pattern: Arc<Pattern>,
    mode: JacobianMode,
    /// By columns, or by rows if the mode is reverse.
    compression: Compression,
}

impl JacobianSparsity {
    /// For a pattern that is known: of the equations, or from several points. Rows are the reals of the value, columns
    /// the reals of the arguments that derivatives are with respect to.
    pub fn of_pattern(pattern: Pattern) -> Self {
        JacobianSparsity::new(pattern, &Watch::none()).expect("nobody stops it")
    }

    /// # Errors
    /// What the watch says.
    pub(crate) fn new(pattern: Pattern, watch: &Watch<'_>) -> Result<Self, TrapKind> {
        watch.tick(2 * pattern.len())?;
        let transposed = pattern.transposed();
        let longest = |pattern: &Pattern| (0..pattern.rows()).map(|row| pattern.row(row).len()).max().unwrap_or(0);
        // No colouring has fewer colours.
        let (least_columns, least_rows) = (longest(&pattern), longest(&transposed));
        let by_columns = |watch| coloring::of_columns(&pattern, &transposed, watch);
        let by_rows = |watch| coloring::of_columns(&transposed, &pattern, watch);
        let (mode, coloring) = if least_columns <= least_rows {
            let columns = by_columns(watch)?;
            if columns.colors <= least_rows {
                (JacobianMode::Forward, columns)
            } else {
                fewer(columns, by_rows(watch)?)
            }
        } else {
            let rows = by_rows(watch)?;
            if rows.colors < least_columns { (JacobianMode::Reverse, rows) } else { fewer(by_columns(watch)?, rows) }
        };
        watch.tick(4 * pattern.len())?;
        let source = |(row, column): (usize, usize)| match mode {
            JacobianMode::Reverse => [coloring.of_columns[row], column as u32],
            _ => [coloring.of_columns[column], row as u32],
        };
        let sources: Vec<[u32; 2]> = pattern.entries().map(source).collect();
        let compression = Compression::new(coloring, &sources);
        Ok(JacobianSparsity(Arc::new(JacobianPlan { pattern: Arc::new(pattern), mode, compression })))
    }

    /// Where the Jacobian has entries.
    pub fn pattern(&self) -> &Pattern {
        &self.0.pattern
    }

    /// How many products have all entries in them. One more is computed to check the pattern.
    pub fn products(&self) -> usize {
        self.0.compression.products()
    }

    /// Whether products are of columns, runs forwards, or of rows, sweeps.
    pub fn mode(&self) -> JacobianMode {
        self.0.mode
    }

    pub(crate) fn compression(&self) -> &Compression {
        &self.0.compression
    }

    /// The matrix with these entries.
    pub(crate) fn matrix(&self, values: Vec<f64>) -> SparseMatrix {
        SparseMatrix { pattern: self.0.pattern.clone(), values }
    }
}

/// The colouring with fewer colours, of columns or of rows.
fn fewer(columns: Coloring, rows: Coloring) -> (JacobianMode, Coloring) {
    if columns.colors <= rows.colors { (JacobianMode::Forward, columns) } else { (JacobianMode::Reverse, rows) }
}

/// How a sparse Hessian is computed: its pattern, and which columns share a product. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HessianSparsity(Arc<HessianPlan>);

#[derive(Debug)]
struct HessianPlan {
    pattern: Arc<Pattern>,
    compression: Compression,
}

impl HessianSparsity {
    /// For a pattern that is known: of the equations, or from several points. Rows and columns are the reals of the
    /// arguments that derivatives are with respect to. What is missing of the other half of the matrix is added.
    ///
    /// # Panics
    /// If there aren't as many rows as columns.
    pub fn of_pattern(pattern: Pattern) -> Self {
        assert_eq!(pattern.rows(), pattern.columns(), "a Hessian has as many rows as columns");
        let pattern = pattern.union(&pattern.transposed());
        HessianSparsity::new(pattern, &Watch::none()).expect("nobody stops it")
    }

    /// The pattern is symmetric.
    ///
    /// # Errors
    /// What the watch says.
    pub(crate) fn new(pattern: Pattern, watch: &Watch<'_>) -> Result<Self, TrapKind> {
        let coloring = coloring::star(&pattern, watch)?;
        watch.tick(4 * pattern.len())?;
        let color = |column: u32| coloring.of_columns[column as usize];
        // How many columns of each colour the row has which was counted last.
        let mut counts = vec![0u32; coloring.colors];
        let mut sources = Vec::with_capacity(pattern.len());
        for row in 0..pattern.rows() {
            let columns = pattern.row(row);
            columns.iter().for_each(|&column| counts[color(column) as usize] += 1);
            sources.extend(columns.iter().map(|&column| {
                let alone = counts[color(column) as usize] == 1;
                if alone { [color(column), row as u32] } else { [color(row as u32), column] }
            }));
            columns.iter().for_each(|&column| counts[color(column) as usize] = 0);
        }
        let compression = Compression::new(coloring, &sources);
        Ok(HessianSparsity(Arc::new(HessianPlan { pattern: Arc::new(pattern), compression })))
    }

    /// Where the Hessian has entries. It is symmetric.
    pub fn pattern(&self) -> &Pattern {
        &self.0.pattern
    }

    /// How many products with vectors have all entries in them. One more is computed to check the pattern.
    pub fn products(&self) -> usize {
        self.0.compression.products()
    }

    pub(crate) fn compression(&self) -> &Compression {
        &self.0.compression
    }

    /// The matrix with these entries.
    pub(crate) fn matrix(&self, values: Vec<f64>) -> SparseMatrix {
        SparseMatrix { pattern: self.0.pattern.clone(), values }
    }
}

/// A matrix of which the entries of a pattern are held.
#[derive(Clone, PartialEq, Debug)]
pub struct SparseMatrix {
    pattern: Arc<Pattern>,
    values: Vec<f64>,
}

/// A matrix in coordinates: entry n is `values[n]` in row `rows[n]` and column `columns[n]`.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Coordinates {
    /// The rows of the entries, in order.
    pub rows: Vec<usize>,
    /// The columns of the entries.
    pub columns: Vec<usize>,
    /// The entries.
    pub values: Vec<f64>,
}

/// A matrix in compressed sparse columns: those of column j are the entries from `starts[j]` up to `starts[j + 1]`.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct CompressedColumns {
    /// Where each column begins, and where the last one ends.
    pub starts: Vec<usize>,
    /// The rows of the entries, in order in each column.
    pub rows: Vec<usize>,
    /// The entries.
    pub values: Vec<f64>,
}

impl SparseMatrix {
    /// Where the matrix has entries.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The entries, row by row: those of compressed sparse rows with [`Pattern::starts`] and [`Pattern::indices`].
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The entries as row, column and value, row by row.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        self.pattern.entries().zip(&self.values).map(|((row, column), &value)| (row, column, value))
    }

    /// The entries on the diagonal: of a Hessian, the second derivative by each real.
    pub fn diagonal(&self) -> Vec<f64> {
        let mut diagonal = vec![0.0; self.pattern.rows().min(self.pattern.columns())];
        self.entries().filter(|(row, column, _)| row == column).for_each(|(row, _, value)| diagonal[row] = value);
        diagonal
    }

    /// The matrix in coordinates (COO), row by row.
    pub fn to_coordinates(&self) -> Coordinates {
        let (rows, columns) = self.pattern.entries().unzip();
        Coordinates { rows, columns, values: self.values.clone() }
    }

    /// The matrix in compressed sparse columns (CSC).
    pub fn to_compressed_columns(&self) -> CompressedColumns {
        let (transposed, places) = self.pattern.transposed_with_places();
        CompressedColumns {
            starts: transposed.starts().to_vec(),
            rows: transposed.indices().iter().map(|&row| row as usize).collect(),
            values: places.into_iter().map(|place| self.values[place]).collect(),
        }
    }

    /// The product with a vector; for the transposed matrix if so said. Each comes with the sum of its terms' sizes.
    pub(crate) fn product(&self, transposed: bool, vector: &[f64]) -> Vec<[f64; 2]> {
        let len = if transposed { self.pattern.columns() } else { self.pattern.rows() };
        let mut sums = vec![[0.0; 2]; len];
        let add = |sum: &mut [f64; 2], term: f64| *sum = [sum[0] + term, sum[1] + term.abs()];
        let starts = self.pattern.starts();
        for (row, bounds) in starts.windows(2).enumerate() {
            let entries = self.pattern.row(row).iter().zip(&self.values[bounds[0]..bounds[1]]);
            if transposed {
                entries.for_each(|(&column, value)| add(&mut sums[column as usize], value * vector[row]));
            } else {
                let mut sum = [0.0; 2];
                entries.for_each(|(&column, value)| add(&mut sum, value * vector[column as usize]));
                sums[row] = sum;
            }
        }
        sums
    }
}

/// A sparse Jacobian and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct SparseJacobian {
    /// The function's value.
    pub value: Value,
    /// A row for each real in the value, a column for each real in the arguments that derivatives are with respect to,
    /// both in the order in which they stand there.
    pub matrix: SparseMatrix,
    /// What the call used.
    pub stats: Stats,
}

/// A sparse Hessian and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct SparseHessian {
    /// The function's value.
    pub value: f64,
    /// Its gradient: one entry per argument, of its shape; discrete parts are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// A row and a column for each real in the arguments that derivatives are with respect to, in the order in which
    /// they stand there.
    pub matrix: SparseMatrix,
    /// What the call used.
    pub stats: Stats,
}

/// Gradient and sparse Hessian of a weighted sum of the reals in a function's value, and what they took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct SparseLagrangian {
    /// The function's value.
    pub value: Value,
    /// The gradient of the sum: one entry per argument, of its shape; discrete parts are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// The Hessian of the sum, as [`SparseHessian::matrix`].
    pub matrix: SparseMatrix,
    /// What the call used.
    pub stats: Stats,
}

/// Gradient and product with the Hessian of a weighted sum of the reals in a function's value, and what they took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct LagrangianHvp {
    /// The function's value.
    pub value: Value,
    /// The gradient of the sum: one entry per argument, of its shape; discrete parts are [`Value::Null`].
    pub gradient: Vec<Value>,
    /// The product of its Hessian and the tangents, of the gradient's shape.
    pub product: Vec<Value>,
    /// What the call used.
    pub stats: Stats,
}

/// What a step of Gauss and Newton needs of residuals, and what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct GaussNewton {
    /// The residuals: the function's value.
    pub value: Value,
    /// The gradient of half the sum of their squares, Jᵀr: one entry per argument, of its shape; discrete parts are
    /// [`Value::Null`].
    pub gradient: Vec<Value>,
    /// The product JᵀJ v, of the gradient's shape.
    pub product: Vec<Value>,
    /// What the call used.
    pub stats: Stats,
}

/// Why a sparsity is not that of a function's derivative.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SparsityError {
    /// The matrix has another size at these arguments.
    Size {
        /// Rows and columns of the pattern.
        pattern: [usize; 2],
        /// Rows and columns of the derivative; of the rows it is not always known how many there are.
        derivative: [Option<usize>; 2],
    },
    /// The derivative has entries outside of the pattern: the arguments lead to other branches than those that the
    /// pattern is from, or what the program gives as a derivative isn't linear.
    Entry {
        /// The row, or else the column, in which the derivative isn't that of the pattern.
        place: usize,
        /// Whether it is a column.
        is_column: bool,
    },
}

impl fmt::Display for SparsityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SparsityError::Size { pattern: [rows, columns], derivative } => {
                write!(
                    f,
                    "the sparsity is that of a {rows} × {columns} matrix, but at these arguments the derivative has "
                )?;
                let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
                match *derivative {
                    [Some(found_rows), Some(found_columns)] => write!(f, "{found_rows} × {found_columns} entries"),
                    [Some(found_rows), None] => write!(f, "{}", counted(found_rows, "row")),
                    [None, Some(found_columns)] => write!(f, "{}", counted(found_columns, "column")),
                    [None, None] => write!(f, "another size"),
                }
            }
            SparsityError::Entry { place, is_column } => write!(
                f,
                "at these arguments {} {place} of the derivative has an entry outside of the pattern: they lead to \
                 other branches than those that the pattern is from (find it at these arguments, and join both)",
                if *is_column { "column" } else { "row" }
            ),
        }
    }
}

impl std::error::Error for SparsityError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_the_same_in_every_form() {
        let pattern = Arc::new(Pattern::from_entries(2, 3, [(0, 1), (1, 0), (1, 1)]));
        let matrix = SparseMatrix { pattern, values: vec![2.0, 3.0, 5.0] };
        let Coordinates { rows, columns, values } = matrix.to_coordinates();
        assert_eq!((rows, columns, values), (vec![0, 1, 1], vec![1, 0, 1], vec![2.0, 3.0, 5.0]));
        let CompressedColumns { starts, rows, values } = matrix.to_compressed_columns();
        assert_eq!((starts, rows, values), (vec![0, 1, 3, 3], vec![1, 0, 1], vec![3.0, 2.0, 5.0]));
        assert_eq!(matrix.diagonal(), [0.0, 5.0]);
        assert_eq!(matrix.product(false, &[-1.0; 3]), [[-2.0, 2.0], [-8.0, 8.0]]);
        assert_eq!(matrix.product(true, &[0.0, 1.0]), [[3.0, 3.0], [5.0, 5.0], [0.0, 0.0]]);
    }

    #[test]
    fn rows_share_products_where_a_column_is_short() {
        // A dense row and a diagonal have a dense column when transposed.
        let arrow = |n: usize| (0..n).flat_map(|i| [(0, i), (i, i)]);
        let wide = JacobianSparsity::of_pattern(Pattern::from_entries(9, 9, arrow(9)));
        assert_eq!((wide.mode(), wide.products()), (JacobianMode::Reverse, 2));
        let tall = JacobianSparsity::of_pattern(Pattern::from_entries(9, 9, arrow(9)).transposed());
        assert_eq!((tall.mode(), tall.products()), (JacobianMode::Forward, 2));
    }
}
