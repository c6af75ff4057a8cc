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
#[derive(Clone)]
struct Signature {
    params: Vec<HostType>,
    results: Vec<HostType>,
}

impl Signature {
    /// Reads a type: parameters and a result, with `->` between them, each of which may be a tuple.
    fn read(ty: &str) -> Result<Signature, String> {
        let mut sides: Vec<Vec<HostType>> = ty.split("->").map(types).collect::<Result<_, _>>()?;
        let results = sides.pop().unwrap_or_default();
        if sides.is_empty() {
            return Err("it has no parameters: one without any is `() -> Real`".to_owned());
        }
        Ok(Signature { params: sides.concat(), results })
    }

    /// That of the vjp.
    fn of_vjp(&self) -> Signature {
        let cotangents = differentiable(&self.results);
        Signature { params: [&self.params[..], &cotangents].concat(), results: differentiable(&self.params) }
    }

    /// That of the jvp.
    fn of_jvp(&self) -> Signature {
        let tangents = differentiable(&self.params);
        Signature { params: [&self.params[..], &tangents].concat(), results: differentiable(&self.results) }
    }
}

/// Those that have derivatives, which are of the same types.
fn differentiable(types: &[HostType]) -> Vec<HostType> {
    types.iter().filter(|ty| ty.element().unwrap_or(ty).is_real()).cloned().collect()
}

/// The types in a tuple, or the only one.
fn types(ty: &str) -> Result<Vec<HostType>, String> {
    let ty = ty.trim();
    let parts = match ty.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(parts) if parts.trim().is_empty() => return Ok(Vec::new()),
        Some(parts) => parts,
        None => ty,
    };
    parts.split(',').map(type_of).collect()
}

fn type_of(ty: &str) -> Result<HostType, String> {
    let refuse = || {
        let expected = "expected Real, Int, Bool, an Array, a List, a Matrix, a Tensor3 or a Tensor4 of one of these, \
                        or a tuple of such";
        format!("{expected}, found `{}`", ty.trim())
    };
    let number = |name: &str| match name {
        "Real" => Ok(HostType::Real),
        "Int" => Ok(HostType::Int),
        "Bool" => Ok(HostType::Bool),
        _ => Err(refuse()),
    };
    // The types of their objects are the business of a module, of which there is none.
    let array = |element| HostType::Array { element: Box::new(element), array: TypeId(0) };
    let tensor = |slice| HostType::Tensor { slice: Box::new(slice), tensor: TypeId(0) };
    Ok(match ty.split_whitespace().collect::<Vec<_>>()[..] {
        [name] => number(name)?,
        ["Array", element] => array(number(element)?),
        ["List", element] => HostType::List { element: Box::new(number(element)?), list: TypeId(0) },
        ["Matrix", element] => tensor(array(number(element)?)),
        ["Tensor3", element] => tensor(tensor(array(number(element)?))),
        ["Tensor4", element] => tensor(tensor(tensor(array(number(element)?)))),
        _ => return Err(refuse()),
    })
}

/// The leaves of types: of a tensor, its shape and its elements.
fn kinds(types: &[HostType]) -> Vec<LeafKind> {
    let mut kinds = Vec::with_capacity(types.len());
    for ty in types {
        if let HostType::Tensor { .. } = ty {
            kinds.push(LeafKind::Shape);
        }
        kinds.push(match (ty, ty.element()) {
            (HostType::Real, _) => LeafKind::Real,
            (HostType::Bool, _) => LeafKind::Bool,
            (_, Some(HostType::Real)) => LeafKind::Reals,
            (_, Some(HostType::Bool)) => LeafKind::Bools,
            (_, Some(_)) => LeafKind::Ints,
            (_, None) => LeafKind::Int,
        });
    }
    kinds
}

/// Something of Python's to call, with its signature.
struct Callee {
    function: Py<PyAny>,
    params: Vec<HostType>,
    results: HostType,
    count: usize,
}

impl Callee {
    fn host_function(function: &Bound<'_, PyAny>, signature: Signature) -> dualvm::HostFunction {
        let Signature { params, mut results } = signature;
        let (of_params, of_results, count) = (kinds(&params), kinds(&results), results.len());
        let results = if count == 1 { results.remove(0) } else { HostType::Tuple(results) };
        let callee = Callee { function: function.clone().unbind(), params, results, count };
        dualvm::HostFunction::flat(&of_params, &of_results, move |call| callee.run(call))
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
        let mut args = args.iter();
        let args = self.params.iter().map(|ty| argument(py, ty, &mut args)).collect::<PyResult<Vec<_>>>()?;
        let args = PyTuple::new(py, args)?;
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

/// The next argument, of this type, as an object.
fn argument<'py>(
    py: Python<'py>,
    ty: &HostType,
    leaves: &mut std::slice::Iter<'_, FlatValue<'_>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut next = || leaves.next().copied().unwrap_or_default();
    let shape = match ty {
        HostType::Tensor { .. } => Some(shape(ty, next())?),
        _ => None,
    };
    let value = next();
    let of_bools = ty.element().unwrap_or(ty) == &HostType::Bool;
    let shape = |len: usize| shape.unwrap_or_else(|| vec![len]);
    match value {
        FlatValue::Real(x) => Ok(PyFloat::new(py, x).into_any()),
        FlatValue::Int(n) if of_bools => (n != 0).into_bound_py_any(py),
        FlatValue::Int(n) => Ok(PyInt::new(py, n).into_any()),
        FlatValue::Reals(xs) => numpy::reals(py, &shape(xs.len()), xs),
        FlatValue::Ints(ns) if of_bools => numpy::truths(py, &shape(ns.len()), ns),
        FlatValue::Ints(ns) => numpy::ints(py, &shape(ns.len()), ns),
        FlatValue::Null => Ok(py.None().into_bound(py)),
    }
}

/// The extents of a tensor of this type. A program may import the function for tensors of other dimensions.
fn shape(ty: &HostType, leaf: FlatValue<'_>) -> PyResult<Vec<usize>> {
    let extents = leaf.as_ints().unwrap_or_default();
    let shape: Option<Vec<usize>> = extents.iter().map(|&extent| usize::try_from(extent).ok()).collect();
    shape
        .filter(|shape| shape.len() == ty.rank())
        .ok_or_else(|| PyTypeError::new_err(format!("expected {ty}, found a tensor of {} dimensions", extents.len())))
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
    /// one of these, or a tuple. `type`: its type, as programs write it: `"Real -> Matrix Real -> (Real, List Int)"`.
    /// Numbers, arrays, lists, matrices and tensors of numbers, and tuples of these may be in it. A matrix is an array
    /// of two dimensions, arrays and lists are of one.
    ///
    /// `vjp`: also takes a cotangent for each result that is real, and gives one for each parameter that is, in a tuple
    /// if there are several. `jvp`: also takes a tangent for each parameter that is real, and gives one for each result
    /// that is. Tangents and cotangents have the shape of what they belong to. Both are linear in what they take; one
    /// is enough for all derivatives of first order. A `HostFunction` for one of them may have derivatives of its own,
    /// for derivatives of higher order.
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
        let signature = Signature::read(r#type).map_err(refuse)?;
        let mut host = Callee::host_function(function, signature.clone());
        let misfit =
            |name: &str, error: dualvm::vm::host::NotDerivative| PyTypeError::new_err(format!("{name}: {error}"));
        if let Some(given) = vjp {
            let vjp = derivative("vjp", given, signature.of_vjp())?;
            host = host.with_vjp(vjp).map_err(|error| misfit("vjp", error))?;
        }
        if let Some(given) = jvp {
            let jvp = derivative("jvp", given, signature.of_jvp())?;
            host = host.with_jvp(jvp).map_err(|error| misfit("jvp", error))?;
        }
        Ok(HostFunction { function: host, ty: r#type.to_owned() })
    }

    fn __repr__(&self) -> String {
        format!("<dualvm.HostFunction: {}>", self.ty)
    }
}
