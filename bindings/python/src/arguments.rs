//! Arguments of a call, by their places and by their names.

use crate::error::{Failure, Kind, fail};
use dualvm::vm::value::ArgumentError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

/// The arguments of a call, one for each parameter, and what a derivative is given besides.
pub(crate) struct Arguments<'py> {
    pub(crate) args: SmallVec<[Bound<'py, PyAny>; 8]>,
    /// A tangent or a cotangent, and what it is called.
    extra: Option<Bound<'py, PyAny>>,
    extra_name: &'static str,
    /// The parameters that derivatives are with respect to, if it is said.
    pub(crate) wrt: Option<Bound<'py, PyAny>>,
}

impl<'py> Arguments<'py> {
    /// Finds an argument for each parameter. `extra` is what a derivative is given besides: it comes last, or by this
    /// name. `selects`: whether `wrt` is no argument. A parameter of one of these names is itself.
    #[inline]
    pub(crate) fn bind(
        function: &dualvm::Function,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        extra: Option<&'static str>,
        selects: bool,
    ) -> PyResult<Self> {
        let params = function.interface().params.len();
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
        if kwargs.is_none() && args.len() == params + usize::from(extra.is_some()) {
            let mut given: SmallVec<_> = args.iter().collect();
            let extra_value = if extra.is_some() { given.pop() } else { None };
            return Ok(Arguments { args: given, extra: extra_value, extra_name: extra.unwrap_or(""), wrt: None });
        }
        Arguments::bind_by_name(function, args, kwargs, extra, selects)
    }

    fn bind_by_name(
        function: &dualvm::Function,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        extra: Option<&'static str>,
        selects: bool,
    ) -> PyResult<Self> {
        let py = args.py();
        let params = &function.interface().params;
        let mut by_name: Vec<Option<Bound<'py, PyAny>>> = vec![None; params.len()];
        let (mut extra_value, mut wrt) = (None, None);
        for (key, value) in kwargs.into_iter().flatten() {
            let name: String = key.extract()?;
            if let Some(n) = params.iter().position(|(param, _)| *param == name) {
                by_name[n] = Some(value);
            } else if extra == Some(&*name) {
                extra_value = Some(value);
            } else if selects && name == "wrt" {
                wrt = Some(value);
            } else {
                let known: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!("`{}` has no parameter `{name}`; it has {}", function.name(), known.join(", "));
                return Err(fail(py, Kind::Argument, message));
            }
        }
        let named = by_name.iter().flatten().count();
        let mut positional = args.len();
        if extra.is_some() && extra_value.is_none() && positional + named == params.len() + 1 {
            positional -= 1;
            extra_value = Some(args.get_item(positional)?);
        }
        if positional > params.len() {
            let expected = params.clone();
            let error = ArgumentError::Count { expected, found: positional + named };
            return Err(Failure::Of(error.into()).raise(py, None));
        }
        let mut given = SmallVec::new();
        for (n, by_name) in by_name.into_iter().enumerate() {
            let (name, ty) = &params[n];
            match (n < positional, by_name) {
                (true, None) => given.push(args.get_item(n)?),
                (false, Some(value)) => given.push(value),
                (true, Some(_)) => {
                    let message = format!("`{}` is given the argument `{name}` twice", function.name());
                    return Err(fail(py, Kind::Argument, message));
                }
                (false, None) => {
                    let message = format!("`{}` is not given the argument `{name} : {ty}`", function.name());
                    return Err(fail(py, Kind::Argument, message));
                }
            }
        }
        Ok(Arguments { args: given, extra: extra_value, extra_name: extra.unwrap_or(""), wrt })
    }

    /// The tangent or the cotangent.
    pub(crate) fn extra(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        self.extra.as_ref().ok_or_else(|| {
            let name = self.extra_name;
            fail(py, Kind::Argument, format!("there is no {name}: it comes after the arguments, or as {name}="))
        })
    }
}
