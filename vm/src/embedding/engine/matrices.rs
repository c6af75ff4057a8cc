//! Whole Jacobians and Hessians, in few products where most of their entries are zero.
//!
//! A matrix is computed line by line: by columns, which are products with unit vectors, or by rows. If hardly any entry
//! of some lines isn't zero, one more run tells which entries can be other than zero at these arguments
//! ([`crate::sparsity`]). Then lines that have no place in common are computed together: what flows to an entry of one
//! of them comes from no other, so that it has the bits that it would have alone.

use super::derivatives::{Direction, LANES};
use super::sparse::Matrix;
use super::{Function, Hessian, Invocation, Jacobian, Limits, RunError, Stats};
use crate::code::Mode;
use crate::embedding::convert::ResultSlot;
use crate::embedding::value::Value;
use crate::running::meter::Watch;
use crate::sparsity::Room;
use crate::sparsity::coloring;
use crate::sparsity::pattern::Pattern;
use crate::sweep::Seed;
use crate::trap::{Limit, TrapKind};

/// Lines that are looked at before it is known whether most entries are zero. They are spread over the matrix.
const SAMPLED: usize = 8;
/// Matrices of fewer lines aren't worth another run.
const LINES_MIN: usize = 64;
/// One of so many entries is other than zero, at most.
const SPARSE: usize = 8;
/// There is a product for so many lines, on average and at least.
const SHARED: usize = 4;
/// To find an entry of the pattern takes as long as so many instructions. All of them take no longer than all lines.
const ENTRY_WORK: u64 = 512;
/// A look at rows is worth it if their sweeps take as long as so many runs.
const RUNS_OF_ROWS: u64 = 8;

/// The order of so many runs or sweeps: first some that are spread over them, then the others.
fn in_order(count: usize, spread: usize) -> impl Iterator<Item = usize> {
    let spread = if count > spread { spread.max(1) } else { 0 };
    let nth = move |n: usize| n * (count - 1) / (spread - 1).max(1);
    let is_first = move |line: usize| (0..spread).any(|n| nth(n) == line);
    (0..spread).map(nth).chain((0..count).filter(move |&line| !is_first(line)))
}

/// How many entries of lines are other than zero.
struct Sample {
    lines: usize,
    looked_at: usize,
    entries: usize,
    nonzero: usize,
    was_asked: bool,
}

impl Sample {
    /// Of a matrix of so many lines, none of which has been looked at.
    fn of(lines: usize) -> Sample {
        Sample { lines, looked_at: 0, entries: 0, nonzero: 0, was_asked: false }
    }

    /// Looks at a line.
    fn add(&mut self, line: &[f64]) {
        if self.looked_at < SAMPLED {
            self.looked_at += 1;
            self.entries += line.len();
            self.nonzero += line.iter().filter(|&&entry| entry != 0.0).count();
        }
    }

    /// Whether it is time to look which entries are zero, because most seem to be. That is said once at most, when
    /// there are enough lines.
    fn decide(&mut self) -> bool {
        self.looked_at == SAMPLED
            && !std::mem::replace(&mut self.was_asked, true)
            && self.lines >= LINES_MIN
            && self.entries > 0
            && SPARSE * self.nonzero <= self.entries
    }
}

/// What the lines of a matrix are.
#[derive(Clone, Copy)]
enum Lines {
    Rows,
    Columns,
    /// The same for a symmetric matrix.
    OfHessian,
}

/// Lines by the product that they share, and their places.
struct Groups {
    lines: Pattern,
    groups: Vec<Vec<u32>>,
}

impl Groups {
    /// The groups of the lines with these places, if there are few.
    fn of(lines: Pattern, watch: &Watch<'_>) -> Result<Option<Groups>, TrapKind> {
        watch.tick(2 * lines.len())?;
        let (across, most) = (lines.transposed(), lines.rows() / SHARED);
        // Lines with a place in common are in different groups.
        if (0..across.rows()).any(|place| across.row(place).len() > most) {
            return Ok(None);
        }
        let coloring = coloring::of_columns(&across, &lines, watch)?;
        if coloring.colors > most {
            return Ok(None);
        }
        let mut groups = vec![Vec::new(); coloring.colors];
        for (line, &color) in coloring.of_columns.iter().enumerate() {
            groups[color as usize].push(line as u32);
        }
        Ok(Some(Groups { lines, groups }))
    }

    /// The vector whose product has all lines of the group: 1 for each of them.
    fn factors(&self, group: &[u32]) -> Vec<f64> {
        let mut factors = vec![0.0; self.lines.rows()];
        group.iter().for_each(|&line| factors[line as usize] = 1.0);
        factors
    }

    /// Writes the line's part of a product, among zeros.
    fn read(&self, line: u32, product: &[f64], to: &mut [f64]) {
        to.fill(0.0);
        self.lines.row(line as usize).iter().for_each(|&place| to[place as usize] = product[place as usize]);
    }
}

/// A run that tells which entries can be other than zero.
#[derive(Clone, Copy)]
struct Look {
    /// How many lines there are.
    lines: usize,
    /// About how many instructions one takes alone.
    work: u64,
    /// How many reals derivatives are with respect to.
    inputs: usize,
}

/// Whether another run of the function does the same, and there are records that tell.
fn can_be_looked_at(function: &Function) -> bool {
    let program = &function.module.program;
    !program.is_checked() && !program.calls_host()
}

impl Invocation<'_> {
    /// The Hessian. The run is one of a function with tangents, if there is one; `function` is the one that was asked
    /// for.
    pub(super) fn hessian(mut self, function: &Function, args: &[Value]) -> Result<Hessian, RunError> {
        let (reals, value) = self.hvp(args, Direction::Axis(0))?;
        let gradient = self.gradient_behind(args, reals)?;
        self.room_for_matrix(reals, reals)?;
        let (mut rows, mut sample) = (vec![Vec::new(); reals], Sample::of(reals));
        for (n, axis) in in_order(reals, SAMPLED).enumerate() {
            // The first one is there.
            if n > 0 {
                let look = if sample.decide() { self.look(function, (n, reals)) } else { None };
                self.go_on();
                if let Some(look) = look
                    && let Some(groups) = self.groups(function, args, Lines::OfHessian, look)?
                {
                    rows = self.hessian_by_groups(args, &groups)?;
                    break;
                }
                self.hvp(args, Direction::Axis(axis))?;
            }
            sample.add(&self.state.sweep.adjoints()[1..=reals]);
            rows[axis] = self.gradient(args)?;
        }
        Ok(Hessian { value, gradient, rows, stats: self.state.stats() })
    }

    fn hessian_by_groups(&mut self, args: &[Value], groups: &Groups) -> Result<Vec<Vec<Value>>, RunError> {
        let reals = groups.lines.rows();
        let mut rows = vec![Vec::new(); reals];
        // What stands for constants comes first.
        let mut line = vec![0.0; 1 + reals];
        for (n, group) in groups.groups.iter().enumerate() {
            if n > 0 {
                self.go_on();
            }
            self.hvp(args, Direction::Reals(&[groups.factors(group)]))?;
            for &column in group {
                groups.read(column, &self.state.sweep.adjoints()[1..=reals], &mut line[1..]);
                rows[column as usize] = self.shaped(args, &line)?;
            }
        }
        Ok(rows)
    }

    /// The Jacobian by rows, of the run that has been recorded, and given this value with these slots. Derivatives are
    /// with respect to so many reals.
    pub(super) fn jacobian_by_rows(
        mut self,
        args: &[Value],
        (value, mut results): (Value, Vec<ResultSlot>),
        inputs: usize,
    ) -> Result<Jacobian, RunError> {
        self.room_for_matrix(results.len(), inputs)?;
        let (mut rows, mut sample) = (vec![Vec::new(); results.len()], Sample::of(results.len()));
        let of_run = self.state.stats().instructions;
        for row in in_order(results.len(), SAMPLED) {
            if sample.decide()
                && let Some(look) = self.look_at_rows(of_run, (results.len(), inputs))
            {
                self.go_on();
                let groups = self.groups(self.function, args, Lines::Rows, look)?;
                // The tape is gone, and slots belong to one.
                let count = results.len();
                (_, _, results) = self.record_with_slots(args)?;
                self.check_reals(results.len(), Some(count))?;
                if let Some(groups) = groups {
                    rows = self.rows_by_groups(args, &results, &groups)?;
                    break;
                }
            }
            self.sweep_of(results[row])?;
            sample.add(&self.state.sweep.adjoints()[1..=inputs]);
            rows[row] = self.gradient(args)?;
        }
        Ok(Jacobian { value, rows, stats: self.state.stats() })
    }

    fn rows_by_groups(
        &mut self,
        args: &[Value],
        results: &[ResultSlot],
        groups: &Groups,
    ) -> Result<Vec<Vec<Value>>, RunError> {
        let mut rows = vec![Vec::new(); groups.lines.rows()];
        // What stands for constants comes first.
        let mut line = vec![0.0; 1 + groups.lines.columns()];
        for group in &groups.groups {
            let slots = group.iter().map(|&row| results[row as usize]);
            let seeds: Vec<Seed> = slots.map(|(owner, slot)| Seed { owner, slot, adjoint: 1.0 }).collect();
            self.sweep(&seeds)?;
            for &row in group {
                groups.read(row, &self.state.sweep.adjoints()[1..line.len()], &mut line[1..]);
                rows[row as usize] = self.shaped(args, &line)?;
            }
        }
        Ok(rows)
    }

    /// The Jacobian by columns.
    pub(super) fn jacobian_by_columns(self, args: &[Value]) -> Result<Jacobian, RunError> {
        let (inputs, function) = (self.inputs(args)?.unwrap_or(0), self.function);
        let with_lanes = function.with_lanes(inputs.clamp(1, LANES));
        let mut run = self.of_function(&with_lanes);
        run.keep_arguments_if(inputs > run.lanes());
        run.columns(function, args, inputs)
    }

    /// The same for a run of a function with tangents, if there is one; `function` is the one that was asked for.
    fn columns(mut self, function: &Function, args: &[Value], inputs: usize) -> Result<Jacobian, RunError> {
        let (lanes, mut value, mut outputs) = (self.lanes(), None, None);
        let (mut columns, mut sample) = (Vec::new(), Sample::of(inputs));
        // Without columns there is a value.
        for (n, run) in in_order(inputs.div_ceil(lanes).max(1), SAMPLED / lanes).enumerate() {
            if n > 0 {
                let look = if sample.decide() { self.look(function, (n * lanes, inputs)) } else { None };
                self.go_on();
                if let Some(look) = look
                    && let Some(groups) = self.groups(function, args, Lines::Columns, look)?
                {
                    columns = self.columns_by_groups(args, &groups)?;
                    break;
                }
            }
            self.forward_with_tangents(args, Direction::Axis(lanes * run), Mode::PRIMAL)?;
            value = Some(self.value_or(value)?);
            for lane in 0..lanes {
                let column = self.reals_of_tangent(lane, outputs)?;
                if outputs.is_none() {
                    self.room_for_matrix(column.len(), inputs)?;
                    columns = vec![Vec::new(); inputs];
                    outputs = Some(column.len());
                }
                // Lanes that are left over don't move.
                if let Some(place) = columns.get_mut(lanes * run + lane) {
                    sample.add(&column);
                    *place = column;
                }
            }
        }
        let (value, outputs) = value.zip(outputs).expect("there was a run");
        let mut rows = Vec::with_capacity(outputs);
        // What stands for constants comes first.
        let mut row = vec![0.0; 1 + inputs];
        for output in 0..outputs {
            row[1..].iter_mut().zip(&columns).for_each(|(real, column)| *real = column[output]);
            rows.push(self.shaped(args, &row)?);
        }
        Ok(Jacobian { value, rows, stats: self.state.stats() })
    }

    fn columns_by_groups(&mut self, args: &[Value], groups: &Groups) -> Result<Vec<Vec<f64>>, RunError> {
        let (inputs, outputs, lanes) = (groups.lines.rows(), groups.lines.columns(), self.lanes());
        let mut columns = vec![vec![0.0; outputs]; inputs];
        for (n, of_run) in groups.groups.chunks(lanes).enumerate() {
            if n > 0 {
                self.go_on();
            }
            let mut factors: Vec<Vec<f64>> = of_run.iter().map(|group| groups.factors(group)).collect();
            factors.resize(lanes, vec![0.0; inputs]);
            self.forward_with_tangents(args, Direction::Reals(&factors), Mode::PRIMAL)?;
            for (lane, group) in of_run.iter().enumerate() {
                let product = self.reals_of_tangent(lane, Some(outputs))?;
                group.iter().for_each(|&column| groups.read(column, &product, &mut columns[column as usize]));
            }
        }
        Ok(columns)
    }

    /// What a look may take after so many of these lines, which are one run each: none if the limits have no room for
    /// all lines and a look, so that what can be computed line by line still can.
    fn look(&self, function: &Function, (known, lines): (usize, usize)) -> Option<Look> {
        let used = self.state.stats();
        let fits = |used: u64, limit: u64| {
            let each = u128::from(used.div_ceil(known as u64));
            each * (lines as u128 + 2) <= u128::from(limit)
        };
        let Limits { fuel, allocated_bytes, .. } = *self.limits;
        let may =
            can_be_looked_at(function) && fits(used.instructions, fuel) && fits(used.allocated_bytes, allocated_bytes);
        may.then(|| Look { work: used.instructions / known as u64, lines, inputs: lines })
    }

    /// The same of rows, which are sweeps of one run that takes so many instructions: a look takes two more runs, one
    /// of which is the same again.
    fn look_at_rows(&self, of_run: u64, (lines, inputs): (usize, usize)) -> Option<Look> {
        let Stats { instructions, allocated_bytes, .. } = self.state.stats();
        let work = instructions.saturating_sub(of_run) / SAMPLED as u64;
        let of_sweeps = work.saturating_mul(lines as u64);
        let may = can_be_looked_at(self.function)
            && of_sweeps / RUNS_OF_ROWS >= of_run
            && of_run.saturating_mul(3).saturating_add(of_sweeps) <= self.limits.fuel
            && allocated_bytes.saturating_mul(3) <= self.limits.allocated_bytes;
        may.then_some(Look { work, lines, inputs })
    }

    /// The groups of lines of the Jacobian or the Hessian of this function that share a product, if they are few. There
    /// are none either where the run that tells them takes more memory than it may. That run has ended when this
    /// returns.
    fn groups(
        &mut self,
        function: &Function,
        args: &[Value],
        lines: Lines,
        look: Look,
    ) -> Result<Option<Groups>, RunError> {
        self.kept = None;
        let structured = function.structured();
        let mut run = Invocation {
            function: &structured,
            state: &mut *self.state,
            limits: self.limits,
            timed: self.timed,
            goes_on: true,
            keeps_arguments: false,
            kept: None,
            kinks: None,
            copies_arguments: self.copies_arguments,
            listener: None,
        };
        let found = run.find_groups(args, lines, look);
        self.go_on();
        match found {
            Err(RunError::Trap(trap)) if matches!(trap.kind, TrapKind::Limit(Limit::TapeBytes | Limit::LiveBytes)) => {
                Ok(None)
            }
            found => found,
        }
    }

    fn find_groups(&mut self, args: &[Value], lines: Lines, look: Look) -> Result<Option<Groups>, RunError> {
        let of = if matches!(lines, Lines::OfHessian) { Matrix::Hessian } else { Matrix::Jacobian };
        let live_bytes = self.limits.live_bytes;
        // If there were more entries, or more in a row whose columns are to be in different groups, it would be of no
        // use to know them, or take too long.
        let room = |results: usize| {
            let (rows, columns) = (results.max(look.inputs), look.inputs);
            let worth = (look.lines as u64).saturating_mul(look.work) / ENTRY_WORK;
            let of_matrix = columns.saturating_mul(rows);
            Room {
                bytes: live_bytes.saturating_sub(8 * of_matrix as u64),
                entries: (of_matrix / SPARSE).min(usize::try_from(worth).unwrap_or(usize::MAX)),
                in_row: if matches!(lines, Lines::Rows) { usize::MAX } else { columns / SHARED },
            }
        };
        self.with_pattern(args, of, room, |pattern, watch| {
            Groups::of(if matches!(lines, Lines::Columns) { pattern.transposed() } else { pattern }, watch)
        })
    }
}
