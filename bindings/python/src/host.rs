//! Functions of Python's that programs call.

use crate::flatten::{Leaves, flatten, parts, values};
use crate::numpy;
use crate::place::{Place, describe};
use dualvm::flat::LeafKind;
use dualvm::vm::module::TypeId;
use dualvm::{FlatValue, HostCall, HostError, HostType};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

/// What a call of Python's, and a run that it begins, take of the thread's stack, with room to spare.
const CALL_STACK_BYTES: usize = 256 << 10;

/// A function of Python's that programs import by a name: `import host "name" : type`. Engines are given them.
///
/// It has to be pure, and may be called by any thread. What it raises ends the program, as a `Trap` with the exception
/// as its cause; what isn't an `Exception`, as `KeyboardInterrupt`, is raised as it is.
#[pyclass(frozen, module = "dualvm")]
pub(crate) struct HostFunction {
    pub(crate) function: dualvm::HostFunction,
    ty: String,
}

/// What a function takes and gives, without tuples around it.
type Signature = (Vec<LeafKind>, Vec<LeafKind>);

/// Reads a type: parameters and a result, with `->` between them, each of which may be a tuple.
fn signature(ty: &str) -> Result<Signature, String> {
    let mut sides: Vec<Vec<LeafKind>> = ty.split("->").map(kinds).collect::<Result<_, _>>()?;
    let results = sides.pop().unwrap_or_default();
    if sides.is_empty() {
        return Err("it has no parameters: one without any is `() -> Real`".to_owned());
    }
    Ok((sides.concat(), results))
}

/// The kinds of a type, or of the types in a tuple.
fn kinds(ty: &str) -> Result<Vec<LeafKind>, String> {
    let ty = ty.trim();
    let parts = match ty.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(parts) if parts.trim().is_empty() => return Ok(Vec::new()),
        Some(parts) => parts,
        None => ty,
    };
    parts.split(',').map(kind).collect()
}

fn kind(ty: &str) -> Result<LeafKind, String> {
    Ok(match ty.split_whitespace().collect::<Vec<_>>()[..] {
        ["Real"] => LeafKind::Real,
        ["Int"] => LeafKind::Int,
        ["Bool"] => LeafKind::Bool,
        ["Array", "Real"] => LeafKind::Reals,
        ["Array", "Int"] => LeafKind::Ints,
        ["Array", "Bool"] => LeafKind::Bools,
        _ => {
            let expected = "expected Real, Int, Bool, an Array of one of these, or a tuple of such";
            return Err(format!("{expected}, found `{}`", ty.trim()));
        }
    })
}

fn type_of(kind: LeafKind) -> HostType {
    // The type of its object is the business of a module, of which there is none.
    let array = |element| HostType::Array { element: Box::new(element), array: TypeId(0) };
    match kind {
        LeafKind::Real => HostType::Real,
        LeafKind::Int => HostType::Int,
        LeafKind::Bool => HostType::Bool,
        LeafKind::Reals => array(HostType::Real),
        LeafKind::Ints | LeafKind::Shape => array(HostType::Int),
        LeafKind::Bools => array(HostType::Bool),
    }
}

/// Something of Python's to call, with its signature.
struct Callee {
    function: Py<PyAny>,
    params: Vec<LeafKind>,
    results: HostType,
    count: usize,
}

impl Callee {
    fn host_function(function: &Bound<'_, PyAny>, (params, results): Signature) -> dualvm::HostFunction {
        let mut types: Vec<HostType> = results.iter().copied().map(type_of).collect();
        let count = types.len();
        let ty = if count == 1 { types.remove(0) } else { HostType::Tuple(types) };
        let callee = Callee { function: function.clone().unbind(), params: params.clone(), results: ty, count };
        dualvm::HostFunction::flat(&params, &results, move |call| callee.run(call))
    }

    fn run(&self, call: &mut HostCall<'_>) -> Result<(), HostError> {
        // No Python runs any more in a process that is about to end.
        Python::try_attach(|py| {
            let leaves = self.call(py, call.args())?;
            values(&leaves).into_iter().try_for_each(|value| call.give(value))
        })
        .unwrap_or_else(|| Err(HostError::new("the interpreter has ended")))
    }

    fn call(&self, py: Python<'_>, args: &[FlatValue<'_>]) -> PyResult<Leaves> {
        if stacker::remaining_stack().is_some_and(|left| left < CALL_STACK_BYTES) {
            return Err(PyRecursionError::new_err("host functions and programs call each other too deep"));
        }
        let args = args.iter().zip(&self.params).map(|(&arg, &kind)| object(py, arg, kind));
        let args = PyTuple::new(py, args.collect::<PyResult<Vec<_>>>()?)?;
        let result = self.function.bind(py).call1(args)?;
        let (mut leaves, place) = (Leaves::new(), Place::Whole("result", ""));
        // A function that gives nothing returns whatever it likes.
        match &self.results {
            HostType::Tuple(types) if self.count == 0 => debug_assert!(types.is_empty()),
            HostType::Tuple(types) => {
                let parts = parts(&result, self.count, &self.results, place)?;
                for (n, (part, ty)) in parts.iter().zip(types).enumerate() {
                    flatten(part, ty, Place::Part(&place, n), false, &mut leaves)?;
                }
            }
            ty => flatten(&result, ty, place, false, &mut leaves)?,
        }
        Ok(leaves)
    }
}

/// An argument as an object.
fn object<'py>(py: Python<'py>, arg: FlatValue<'_>, kind: LeafKind) -> PyResult<Bound<'py, PyAny>> {
    match arg {
        FlatValue::Real(x) => Ok(PyFloat::new(py, x).into_any()),
        FlatValue::Int(n) if kind == LeafKind::Bool => (n != 0).into_bound_py_any(py),
        FlatValue::Int(n) => Ok(PyInt::new(py, n).into_any()),
        FlatValue::Reals(xs) => numpy::reals(py, &[xs.len()], xs),
        FlatValue::Ints(ns) if kind == LeafKind::Bools => numpy::truths(py, &[ns.len()], ns),
        FlatValue::Ints(ns) => numpy::ints(py, &[ns.len()], ns),
        FlatValue::Null => Ok(py.None().into_bound(py)),
    }
}

/// A derivative, as a caller has given it: a `HostFunction`, which may have derivatives of its own, or something to
/// call.
fn derivative(name: &str, given: &Bound<'_, PyAny>, signature: Signature) -> PyResult<dualvm::HostFunction> {
    if let Ok(function) = given.cast::<HostFunction>() {
        return Ok(function.get().function.clone());
    }
    if !given.is_callable() {
        let message = format!("{name}: expected a function, found {}", describe(given));
        return Err(PyTypeError::new_err(message));
    }
    Ok(Callee::host_function(given, signature))
}

#[pymethods]
impl HostFunction {
    /// A function that programs may import.
    ///
    /// `function`: is called with floats, ints, bools and NumPy arrays, a tuple's parts one after the other, and gives
    /// one of these, or a tuple. `type`: its type, as programs write it: `"Real -> Array Real -> (Real, Int)"`.
    /// Numbers, arrays of numbers, and tuples of these may be in it.
    ///
    /// `vjp`: also takes a cotangent for each result that is real, and gives one for each parameter that is, in a tuple
    /// if there are several. `jvp`: also takes a tangent for each parameter that is real, and gives one for each result
    /// that is. Both are linear in what they take; one is enough for all derivatives of first order. A `HostFunction`
    /// for one of them may have derivatives of its own, for derivatives of higher order.
    #[new]
    #[pyo3(signature = (function, r#type, *, vjp=None, jvp=None))]
    fn new(
        function: &Bound<'_, PyAny>,
        r#type: &str,
        vjp: Option<&Bound<'_, PyAny>>,
        jvp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if !function.is_callable() {
            let message = format!("function: expected a function, found {}", describe(function));
            return Err(PyTypeError::new_err(message));
        }
        let refuse = |message: String| PyValueError::new_err(format!("type: {message}"));
        let mut host = Callee::host_function(function, signature(r#type).map_err(refuse)?);
        let misfit =
            |name: &str, error: dualvm::vm::host::NotDerivative| PyTypeError::new_err(format!("{name}: {error}"));
        if let Some(given) = vjp {
            let vjp = derivative("vjp", given, host.vjp_leaves())?;
            host = host.with_vjp(vjp).map_err(|error| misfit("vjp", error))?;
        }
        if let Some(given) = jvp {
            let jvp = derivative("jvp", given, host.jvp_leaves())?;
            host = host.with_jvp(jvp).map_err(|error| misfit("jvp", error))?;
        }
        Ok(HostFunction { function: host, ty: r#type.to_owned() })
    }

    fn __repr__(&self) -> String {
        format!("<dualvm.HostFunction: {}>", self.ty)
    }
}
