//! Bundle adjustment: arguments from the suite's shortened inputs, and the sparse Jacobian.
//!
//! An error of an observation depends on one camera, one point and one weight. So a row of the Jacobian is the gradient
//! of that error alone: two sweeps per observation, and one for its weight's own error.

use super::input::{Effort, fields};
use super::prepared::{Prepared, Tape, reals};
use super::{NoAnswer, Ready};
use dualvm::{CallFrame, Error, FlatFunction, FlatValue, Function, HostType, Module, Value};

const CAMERA: usize = 11;
const POINT: usize = 3;
/// Reals that the error of an observation depends on: camera, point and weight.
const COLUMNS: usize = CAMERA + POINT + 1;

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

fn tuple(parts: &[f64]) -> Value {
    Value::Tuple(parts.iter().copied().map(Value::Real).collect())
}

/// A camera as the program has it.
fn camera(&[r1, r2, r3, c1, c2, c3, f, u, v, k1, k2]: &[f64; CAMERA]) -> Value {
    Value::Tuple(vec![tuple(&[r1, r2, r3]), tuple(&[c1, c2, c3]), f.into(), tuple(&[u, v]), tuple(&[k1, k2])])
}

/// The errors of all observations, in one call.
pub(super) fn objective(module: &Module, text: &str) -> Ready {
    let (Input { cams, x, w, obs, feats }, effort) = Input::read(text)?;
    let observation = |&(cam, point): &(usize, usize)| Value::Tuple(vec![(cam as i64).into(), (point as i64).into()]);
    let args = vec![
        Value::Array(cams.iter().map(camera).collect()),
        Value::Array(x.iter().map(|x| tuple(x)).collect()),
        w.into(),
        Value::Array(obs.iter().map(observation).collect()),
        Value::Array(feats.iter().map(|feat| tuple(feat)).collect()),
    ];
    Ok((Box::new(Objective { function: module.function("objective")?, args, value: Value::Null }), effort))
}

struct Objective {
    function: Function,
    args: Vec<Value>,
    value: Value,
}

impl Prepared for Objective {
    fn run(&mut self) -> Result<(), Error> {
        self.value = self.function.call(&self.args)?;
        Ok(())
    }

    /// The first errors, and how many there are: the suite's inputs have the same observation again and again.
    fn output(&self) -> Value {
        let Value::Tuple(parts) = &self.value else { return Value::Null };
        let (reproj_error, w_error) = (reals([&parts[0]]), reals([&parts[1]]));
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
    let frame = CallFrame::new;
    let reproj_error = (module.function("reproj_error")?.wrt(&["cam", "x", "w"])?.flat()?, frame());
    let w_error = (module.function("w_error")?.flat()?, frame());
    Ok((Box::new(Jacobian { input, reproj_error, w_error, matrix: SparseMatrix::default() }), effort))
}

struct Jacobian {
    input: Input,
    reproj_error: (FlatFunction, CallFrame),
    w_error: (FlatFunction, CallFrame),
    matrix: SparseMatrix,
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

    fn push_row(&mut self, cols: impl IntoIterator<Item = usize>, vals: &[f64]) {
        self.cols.extend(cols);
        self.vals.extend_from_slice(vals);
        self.rows.push(self.vals.len());
    }
}

impl Prepared for Jacobian {
    fn run(&mut self) -> Result<(), Error> {
        let Jacobian { input: Input { cams, x, w, obs, feats }, reproj_error, w_error, matrix } = self;
        let (first_point, first_weight) = (CAMERA * cams.len(), CAMERA * cams.len() + POINT * x.len());
        matrix.clear();
        for (i, &(cam, point)) in obs.iter().enumerate() {
            let mut args = [FlatValue::Null; COLUMNS + 2];
            let reals = cams[cam].iter().chain(&x[point]).chain([&w[i]]).chain(&feats[i]);
            args.iter_mut().zip(reals).for_each(|(arg, &x)| *arg = x.into());
            let (function, frame) = &mut *reproj_error;
            let mut recorded = function.record(frame, &args)?;
            for cotangents in [[1.0, 0.0], [0.0, 1.0]] {
                let gradient = recorded.pullback(&cotangents.map(FlatValue::Real))?;
                let cams = CAMERA * cam..CAMERA * (cam + 1);
                let points = first_point + POINT * point..first_point + POINT * (point + 1);
                matrix.push_row(cams.chain(points).chain([first_weight + i]), &gradient.reals()[..COLUMNS]);
            }
        }
        for (i, &w) in w.iter().enumerate() {
            let (function, frame) = &mut *w_error;
            let (_, gradient) = function.value_and_grad(frame, &[w.into()])?;
            matrix.push_row([first_weight + i], gradient.reals());
        }
        Ok(())
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

    /// All observations write as much as the last.
    fn tape(&self) -> Tape {
        let stats = [&self.reproj_error, &self.w_error].into_iter().filter_map(|(_, frame)| frame.stats());
        let times = self.input.obs.len() as u64;
        stats.fold(Tape::default(), |sum, stats| Tape {
            records: sum.records + times * stats.records,
            bytes: sum.bytes + times * stats.tape_bytes,
        })
    }
}
