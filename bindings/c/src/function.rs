//! Functions: what they take and give, and with respect to what they are differentiated.

use crate::error::{Report, dualvm_error};
use crate::handles::handles;
use crate::memory::{Out, OutHandle, c_string, name, slice};
use crate::status::{Failure, dualvm_status, enter, free, get, share};
use crate::types::{Types, dualvm_type, dualvm_type_child};
use dualvm::flat::{Leaf, LeafKind};
use dualvm::{Error, FlatFunction, Function, Module};
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// A function of a module. It may be called by any number of threads at a time: with JSON as it is, with numbers and
/// arrays through frames of their own.
pub struct dualvm_function {
    _opaque: (),
}

/// A function with what C asks of it.
pub(crate) struct Callable {
    pub(crate) module: Module,
    pub(crate) function: Function,
    name: CString,
    signature: CString,
    params: Vec<CString>,
    types: OnceLock<Types>,
    leaves: OnceLock<Option<[Vec<FlatLeaf>; 2]>>,
}

handles! { Callable => dualvm_function, 0x33, "dualvm_function"; }

struct FlatLeaf {
    leaf: Leaf,
    place: CString,
}

impl Callable {
    pub(crate) fn new(module: Module, function: Function) -> Self {
        Callable {
            name: c_string(function.name()),
            signature: c_string(function.signature()),
            params: function.interface().params.iter().map(|(name, _)| c_string(name)).collect(),
            types: OnceLock::new(),
            leaves: OnceLock::new(),
            module,
            function,
        }
    }

    /// What goes wrong in calls of the function.
    #[cold]
    pub(crate) fn failed(&self, error: &Error) -> Failure {
        Report::of(error, Some(self.module.source_texts()))
    }

    pub(crate) fn flat(&self) -> Result<FlatFunction, Failure> {
        self.function.flat().map_err(|error| self.failed(&error))
    }

    fn types(&self) -> &Types {
        self.types.get_or_init(|| Types::of(&self.function))
    }

    /// The leaves of one side.
    fn leaves(&self, side: u32) -> Result<&[FlatLeaf], Failure> {
        let side = match side {
            n if n == dualvm_side::Params as u32 => 0,
            n if n == dualvm_side::Results as u32 => 1,
            n => return Err(Report::invalid(format!("{n} is no dualvm_side"))),
        };
        let make = || {
            let flat = self.function.flat().ok()?;
            let leaves = |leaves: &[Leaf]| {
                let leaf = |leaf: &Leaf| FlatLeaf { place: c_string(flat.place(leaf)), leaf: leaf.clone() };
                leaves.iter().map(leaf).collect()
            };
            Some([leaves(flat.params()), leaves(flat.results())])
        };
        match self.leaves.get_or_init(make) {
            Some(leaves) => Ok(&leaves[side]),
            None => self.flat().map(|_| &[][..]),
        }
    }
}

/// A side of a flat call.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dualvm_side {
    /// What it takes. Tangents and gradients have as many.
    Params = 0,
    /// What it gives. Cotangents are as many.
    Results = 1,
}

/// What a leaf is, which is a part of a parameter or of a result that crosses the border as one `dualvm_value`.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dualvm_leaf_kind {
    /// A real: `DUALVM_VALUE_KIND_REAL`.
    Real = 1,
    /// An integer: `DUALVM_VALUE_KIND_INT`.
    Int = 2,
    /// A boolean: `DUALVM_VALUE_KIND_INT`, 0 or 1.
    Bool = 3,
    /// Any number of reals, of an array, a list, or a tensor row by row: `DUALVM_VALUE_KIND_REALS`.
    Reals = 4,
    /// Any number of integers: `DUALVM_VALUE_KIND_INTS`.
    Ints = 5,
    /// Any number of booleans: `DUALVM_VALUE_KIND_INTS`, each 0 or 1.
    Bools = 6,
    /// The shape of a matrix or of a tensor, whose elements are the next leaf: `DUALVM_VALUE_KIND_INTS`, one for each
    /// dimension.
    Shape = 7,
}

/// In the place of a length that isn't always the same, and of the number of a parameter where there is none.
///
/// cbindgen:ignore
pub const DUALVM_NONE: usize = usize::MAX;

/// A leaf of a function.
#[repr(C)]
pub struct dualvm_leaf {
    /// What it is.
    pub kind: dualvm_leaf_kind,
    /// 1 if gradients have derivatives with respect to it: it is of reals, of a parameter, and the function is
    /// differentiated with respect to that; else 0, and in gradients and tangents stands null.
    pub has_derivative: u32,
    /// The number of the parameter that it is a part of; `DUALVM_NONE` if it is a part of the result.
    pub param: usize,
    /// How many numbers it is: 1, as many as a shape has dimensions, or `DUALVM_NONE` if that is for each call to say.
    pub len: usize,
    /// How many numbers make an element, one after the other: 3 for an array of triples, whose length they divide.
    pub width: usize,
    /// How many dimensions the matrix or tensor has that it is a part of; 0 if it is of none.
    pub rank: usize,
    /// Where it is: the parameter's name or "result", then numbers of parts and names of fields, as in "p.1.mass".
    /// Lives as long as the function.
    pub place: *const c_char,
}

/// Frees a function. Null is fine. Frames that were made of it stay good.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_function_free(function: *mut dualvm_function) {
    free::<Callable>(function);
}

fn lent(
    function: *const dualvm_function,
    text: impl FnOnce(&'static Callable) -> Option<&'static CString>,
) -> *const c_char {
    get(c"".as_ptr(), || {
        let callable = share::<Callable>(function).ok()?;
        // SAFETY: the text is C's until the function is freed, and says so.
        Some(text(unsafe { callable.lend() })?.as_ptr())
    })
}

/// The function's name. Lives as long as the function; empty for null and for what is no function.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_function_name(function: *const dualvm_function) -> *const c_char {
    lent(function, |callable| Some(&callable.name))
}

/// The function with the types of its parameters and of its result: "area : (r : Real) -> Real". Lives as long as the
/// function; empty for null and for what is no function.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_function_signature(function: *const dualvm_function) -> *const c_char {
    lent(function, |callable| Some(&callable.signature))
}

/// How many parameters it has. 0 for null and for what is no function.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_function_param_count(function: *const dualvm_function) -> usize {
    get(0, || Some(share::<Callable>(function).ok()?.params.len()))
}

/// The name of a parameter, by its number from 0. Empty if there are not so many. Lives as long as the function.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_function_param_name(function: *const dualvm_function, n: usize) -> *const c_char {
    lent(function, |callable| callable.params.get(n))
}

/// Whether derivatives are with respect to the parameter of this number. False if there are not so many.
#[unsafe(no_mangle)]
pub extern "C" fn dualvm_function_is_wrt(function: *const dualvm_function, n: usize) -> bool {
    get(false, || {
        let callable = share::<Callable>(function).ok()?;
        Some(n < callable.params.len() && callable.function.is_wrt(n))
    })
}

/// The same function, with derivatives with respect to these parameters only. Reals in the others are constants: what
/// depends on nothing else takes no tape and no time in the sweep, and has no derivative in gradients. A new handle,
/// to be freed as well.
///
/// Errors: `NOT_FOUND` if it has no parameter of one of these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_function_wrt(
    function: *const dualvm_function,
    names: *const *const c_char,
    count: usize,
    restricted: *mut *mut dualvm_function,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let out = OutHandle::new(restricted, "restricted")?;
            let names = slice(names, count, "names")?.iter().map(|&text| name(text, "names"));
            let names = names.collect::<Result<Vec<_>, _>>()?;
            let callable = share::<Callable>(function)?;
            let function = callable.function.wrt(&names).map_err(|error| callable.failed(&error))?;
            out.write(Callable::new(callable.module.clone(), function))
        })
    }
}

/// A type, by its number: first come those of the parameters, from 0 on, and next that of the result, whose number is
/// that of the parameters. All others are children of these.
///
/// Errors: `INVALID_ARGUMENT` if there are not so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_function_type(
    function: *const dualvm_function,
    ty: usize,
    info: *mut dualvm_type,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            Out::new(info, "info")?.write(share::<Callable>(function)?.types().get(ty)?);
            Ok(())
        })
    }
}

/// A child of a type, by its number from 0: a part, a field, the type of elements, or a constructor.
///
/// Errors: `INVALID_ARGUMENT` if there are not so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_function_type_child(
    function: *const dualvm_function,
    ty: usize,
    n: usize,
    child: *mut dualvm_type_child,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            Out::new(child, "child")?.write(share::<Callable>(function)?.types().child(ty, n)?);
            Ok(())
        })
    }
}

/// How many values a flat call takes or gives. `side` is a `dualvm_side`.
///
/// Errors: `NOT_FLAT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_function_leaf_count(
    function: *const dualvm_function,
    side: u32,
    count: *mut usize,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            Out::new(count, "count")?.write(share::<Callable>(function)?.leaves(side)?.len());
            Ok(())
        })
    }
}

/// A value that a flat call takes or gives, by its number from 0. `side` is a `dualvm_side`.
///
/// Errors: `NOT_FLAT`; `INVALID_ARGUMENT` if there are not so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_function_leaf(
    function: *const dualvm_function,
    side: u32,
    n: usize,
    leaf: *mut dualvm_leaf,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let (out, callable) = (Out::new(leaf, "leaf")?, share::<Callable>(function)?);
            let leaves = callable.leaves(side)?;
            let Some(FlatLeaf { leaf, place }) = leaves.get(n) else {
                return Err(Report::invalid(format!("there is no leaf {n}: the function has {} there", leaves.len())));
            };
            let (kind, len) = match leaf.kind() {
                LeafKind::Real => (dualvm_leaf_kind::Real, 1),
                LeafKind::Int => (dualvm_leaf_kind::Int, 1),
                LeafKind::Bool => (dualvm_leaf_kind::Bool, 1),
                LeafKind::Reals => (dualvm_leaf_kind::Reals, DUALVM_NONE),
                LeafKind::Ints => (dualvm_leaf_kind::Ints, DUALVM_NONE),
                LeafKind::Bools => (dualvm_leaf_kind::Bools, DUALVM_NONE),
                LeafKind::Shape => (dualvm_leaf_kind::Shape, leaf.rank()),
            };
            out.write(dualvm_leaf {
                kind,
                has_derivative: u32::from(leaf.has_derivative()),
                param: leaf.parameter().unwrap_or(DUALVM_NONE),
                len,
                width: leaf.width(),
                rank: leaf.rank(),
                place: place.as_ptr(),
            });
            Ok(())
        })
    }
}
