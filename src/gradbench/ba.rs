//! Bundle adjustment: arguments from the suite's shortened inputs, and the sparse Jacobian.
//!
//! An error of an observation depends on one camera, one point and one weight, so that the Jacobian is sparse. It is
//! compressed: each observation is given a camera and a point of its own, and then errors of different observations can
//! be differentiated in one sweep, as many at a time as there are observations (Griewank and Walther, Evaluating
//! Derivatives, 2008, chapter 8).

use super::input::{Effort, fields};
use super::prepared::{Prepared, Tape, reals};
use super::{NoAnswer, Ready};
use dualvm::{CallFrame, Error, FlatFunction, FlatValue, HostType, Module, Value};
use std::ops::Range;

const CAMERA: usize = 11;
const POINT: usize = 3;
/// Reals that the error of an observation depends on: camera, point and weight.
const COLUMNS: usize = CAMERA + POINT + 1;

/// So many observations are differentiated together: enough for a call to cost nothing, and few enough for the cache.
const CHUNK: usize = 1 << 10;

/// The most cameras, points and observations, so that no message takes all memory. The suite's largest has 29 million.
const COUNT_MAX: i64 = 1 << 26;

/// All of the suite's inputs have the same camera, point, weight and feature again and again.
struct Input {
    cams: Vec<[f64; CAMERA]>,
    x: Vec<[f64; POINT]>,
    w: Vec<f64>,
    /// Camera and point of each observation.
    obs: Vec<(usize, usize)>,
    feats: Vec<[f64; 2]>,
}

impl Input {
    fn read(text: &str) -> Result<(Input, Effort), NoAnswer> {
        let reals_type = |count| HostType::Tuple(vec![HostType::Real; count]);
        let types = [
            ("n", HostType::Int),
            ("m", HostType::Int),
            ("p", HostType::Int),
            ("cam", reals_type(CAMERA)),
            ("x", reals_type(POINT)),
            ("w", HostType::Real),
            ("feat", reals_type(2)),
        ];
        let (values, effort) = fields(&types.map(|(name, ty)| (name.to_owned(), ty)), &[], text)?;
        let count = |at: usize| match values[at] {
            Value::Int(n @ 1..=COUNT_MAX) => Ok(n as usize),
            _ => Err(NoAnswer::Input(format!("n, m and p are from 1 to {COUNT_MAX}"))),
        };
        let (n, m, p) = (count(0)?, count(1)?, count(2)?);
        let numbers = reals(&values[3..]);
        let (cam, rest) = numbers.split_first_chunk().expect("a camera has been read");
        let (x, rest) = rest.split_first_chunk().expect("a point has been read");
        let &[w, u, v] = rest else { unreachable!("a weight and a feature have been read") };
        let obs = (0..p).map(|i| (i % n, i % m)).collect();
        Ok((Input { cams: vec![*cam; n], x: vec![*x; m], w: vec![w; p], obs, feats: vec![[u, v]; p] }, effort))
    }
}

/// The errors of all observations, in one call.
pub(super) fn objective(module: &Module, text: &str) -> Ready {
    let (input, effort) = Input::read(text)?;
    let obs = input.obs.iter().flat_map(|&(cam, point)| [cam as i64, point as i64]).collect();
    Ok((
        Box::new(Objective { input, obs, function: module.function("objective")?.flat()?, frame: CallFrame::new() }),
        effort,
    ))
}

struct Objective {
    input: Input,
    /// The observations as the program has them.
    obs: Vec<i64>,
    function: FlatFunction,
    frame: CallFrame,
}

impl Prepared for Objective {
    fn run(&mut self) -> Result<(), Error> {
        let Objective { input: Input { cams, x, w, feats, .. }, obs, function, frame } = self;
        let args = [cams.as_flattened().into(), x.as_flattened().into(), (&*w).into(), (&*obs).into()];
        let [cams, x, w, obs] = args;
        function.call(frame, &[cams, x, w, obs, feats.as_flattened().into()])?;
        Ok(())
    }

    /// The first errors, and how many there are: the suite's inputs have the same observation again and again.
    fn output(&self) -> Value {
        let leaf = |n| self.frame.results().and_then(|results| results.get(n)).and_then(FlatValue::as_reals);
        let (Some(reproj_error), Some(w_error)) = (leaf(0), leaf(1)) else { return Value::Null };
        let repeated = || ("repeated".to_owned(), Value::Int(w_error.len() as i64));
        let reproj_error = vec![("elements".to_owned(), Value::from(&reproj_error[..2])), repeated()];
        let w_err = vec![("element".to_owned(), Value::Real(w_error[0])), repeated()];
        Value::Record(vec![
            ("reproj_error".to_owned(), Value::Record(reproj_error)),
            ("w_err".to_owned(), Value::Record(w_err)),
        ])
    }

    fn tape(&self) -> Tape {
        Tape::default()
    }
}

/// The sparse Jacobian, row by row.
pub(super) fn jacobian(module: &Module, text: &str) -> Ready {
    let (input, effort) = Input::read(text)?;
    let reproj_errors = (module.function("reproj_errors")?.wrt(&["cams", "x", "w"])?.flat()?, CallFrame::new());
    let w_errors = (module.function("w_errors")?.flat()?, CallFrame::new());
    let (gathered, matrix, tape) = Default::default();
    Ok((Box::new(Jacobian { input, reproj_errors, w_errors, gathered, matrix, tape }), effort))
}

struct Jacobian {
    input: Input,
    reproj_errors: (FlatFunction, CallFrame),
    w_errors: (FlatFunction, CallFrame),
    gathered: Gathered,
    matrix: SparseMatrix,
    tape: Tape,
}

/// Cameras and points of a chunk's observations, and cotangents of their errors.
#[derive(Default)]
struct Gathered {
    cams: Vec<[f64; CAMERA]>,
    x: Vec<[f64; POINT]>,
    cotangents: Vec<[f64; 2]>,
    weights: Vec<f64>,
}

/// Rows one after the other.
#[derive(Default)]
struct SparseMatrix {
    /// Where each row begins in the other two, and at last where they end.
    rows: Vec<usize>,
    cols: Vec<usize>,
    vals: Vec<f64>,
}

impl SparseMatrix {
    fn clear(&mut self) {
        self.rows.clear();
        self.cols.clear();
        self.vals.clear();
        self.rows.push(0);
    }

    /// Adds the columns of a row; its values are added later.
    fn begin_row(&mut self, cols: impl IntoIterator<Item = usize>) {
        self.cols.extend(cols);
        self.rows.push(self.cols.len());
    }
}

impl Jacobian {
    /// Adds the rows of a chunk's reprojection errors.
    fn add_reproj_errors(&mut self, chunk: Range<usize>) -> Result<(), Error> {
        let Jacobian { input, reproj_errors: (function, frame), gathered, matrix, .. } = self;
        let Input { cams, x, w, obs, feats } = input;
        let (first_point, first_weight) = (CAMERA * cams.len(), CAMERA * cams.len() + POINT * x.len());
        let obs = &obs[chunk.clone()];
        gathered.cams.clear();
        gathered.cams.extend(obs.iter().map(|&(cam, _)| cams[cam]));
        gathered.x.clear();
        gathered.x.extend(obs.iter().map(|&(_, point)| x[point]));
        let (cams, x) = (gathered.cams.as_flattened().into(), gathered.x.as_flattened().into());
        let (w, feats) = (w[chunk.clone()].into(), feats[chunk.clone()].as_flattened().into());
        let mut recorded = function.record(frame, &[cams, x, w, feats])?;
        let start = matrix.vals.len();
        matrix.vals.resize(start + 2 * COLUMNS * obs.len(), 0.0);
        for (which, cotangent) in [[1.0, 0.0], [0.0, 1.0]].into_iter().enumerate() {
            gathered.cotangents.clear();
            gathered.cotangents.resize(obs.len(), cotangent);
            let gradient = recorded.pullback(&[gathered.cotangents.as_flattened().into()])?;
            let leaf = |n| gradient.get(n).and_then(FlatValue::as_reals).expect("the first three are reals");
            let (by_cams, _) = leaf(0).as_chunks::<CAMERA>();
            let (by_points, _) = leaf(1).as_chunks::<POINT>();
            let (rows, _) = matrix.vals[start..].as_chunks_mut::<COLUMNS>();
            let parts = by_cams.iter().zip(by_points).zip(leaf(2));
            for (row, ((by_cam, by_point), by_weight)) in rows.iter_mut().skip(which).step_by(2).zip(parts) {
                row[..CAMERA].copy_from_slice(by_cam);
                row[CAMERA..CAMERA + POINT].copy_from_slice(by_point);
                row[CAMERA + POINT] = *by_weight;
            }
        }
        for (i, &(cam, point)) in chunk.zip(obs) {
            for _ in 0..2 {
                let cams = CAMERA * cam..CAMERA * (cam + 1);
                let points = first_point + POINT * point..first_point + POINT * (point + 1);
                matrix.begin_row(cams.chain(points).chain([first_weight + i]));
            }
        }
        self.tape.add(self.reproj_errors.1.stats());
        Ok(())
    }

    /// Adds the rows of a chunk's weights.
    fn add_w_errors(&mut self, chunk: Range<usize>) -> Result<(), Error> {
        let Jacobian { input: Input { cams, x, w, .. }, w_errors: (function, frame), gathered, matrix, tape, .. } =
            self;
        let first_weight = CAMERA * cams.len() + POINT * x.len();
        gathered.weights.clear();
        gathered.weights.resize(chunk.len(), 1.0);
        let (_, gradient) = function.vjp(frame, &[w[chunk.clone()].into()], &[(&gathered.weights).into()])?;
        matrix.vals.extend_from_slice(gradient.reals());
        chunk.for_each(|i| matrix.begin_row([first_weight + i]));
        tape.add(frame.stats());
        Ok(())
    }
}

impl Prepared for Jacobian {
    /// Observations that are given cameras and points of their own share nothing. So all first errors are pulled back
    /// at once, and all second ones: what each observation's arguments get is a row.
    fn run(&mut self) -> Result<(), Error> {
        self.matrix.clear();
        self.tape = Tape::default();
        let count = self.input.obs.len();
        let chunks = || (0..count).step_by(CHUNK).map(|start| start..count.min(start + CHUNK));
        chunks().try_for_each(|chunk| self.add_reproj_errors(chunk))?;
        chunks().try_for_each(|chunk| self.add_w_errors(chunk))
    }

    /// The suite looks at the first two rows and at the last, and at as many of the rows' beginnings.
    fn output(&self) -> Value {
        const SHOWN: usize = 2 * COLUMNS;
        let SparseMatrix { rows, cols, vals } = &self.matrix;
        let first_and_last = |all: &[usize]| {
            let all = all.iter().take(SHOWN).chain(all.last());
            Value::Array(all.map(|&n| Value::Int(n as i64)).collect())
        };
        let vals: Vec<f64> = vals.iter().take(SHOWN).chain(vals.last()).copied().collect();
        Value::Record(vec![
            ("rows".to_owned(), first_and_last(rows)),
            ("cols".to_owned(), first_and_last(cols)),
            ("vals".to_owned(), vals.into()),
        ])
    }

    fn tape(&self) -> Tape {
        self.tape
    }
}
