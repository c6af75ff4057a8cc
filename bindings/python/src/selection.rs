//! With respect to which parameters derivatives are, and what that says about their form.

use crate::error::{Kind, fail};
use crate::parts::items;
use crate::place::Place;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// The parameters that derivatives are with respect to, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Selection {
    /// All. A gradient has an entry for each, or is the only one.
    All,
    /// One, of which a gradient is.
    One(usize),
    /// Several. A gradient has an entry for each, in this order.
    Several(Vec<usize>),
}

impl Selection {
    /// What a caller has written: nothing, a name, or several.
    pub(crate) fn new(given: &Bound<'_, PyAny>, function: &dualvm::Function) -> PyResult<Self> {
        let params = &function.interface().params;
        let find = |name: &Bound<'_, PyAny>| {
            let text: String = name.extract()?;
            let found = params.iter().position(|(param, _)| *param == text);
            found.ok_or_else(|| {
                let known: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!("`{}` has no parameter `{text}`; it has {}", function.name(), known.join(", "));
                fail(given.py(), Kind::NotFound, message)
            })
        };
        if given.is_none() {
            return Ok(Selection::All);
        }
        if given.is_instance_of::<PyString>() {
            return Ok(Selection::One(find(given)?));
        }
        let names = items(given, "a parameter's name, or several", Place::Whole("wrt", ""))?;
        Ok(Selection::Several(names.iter().map(find).collect::<PyResult<_>>()?))
    }

    /// The same for the function without one of its parameters. `None` if nothing is left of what was chosen.
    pub(crate) fn without(&self, parameter: usize) -> Option<Selection> {
        let renumbered = |n: usize| if n > parameter { n - 1 } else { n };
        match self {
            Selection::All => Some(Selection::All),
            Selection::One(n) => (*n != parameter).then(|| Selection::One(renumbered(*n))),
            Selection::Several(numbers) => {
                let left: Vec<usize> = numbers.iter().filter(|&&n| n != parameter).map(|&n| renumbered(n)).collect();
                (numbers.is_empty() || !left.is_empty()).then_some(Selection::Several(left))
            }
        }
    }

    /// The names, as a caller has written them.
    pub(crate) fn given<'py>(&self, py: Python<'py>, function: &dualvm::Function) -> PyResult<Bound<'py, PyAny>> {
        let name = |n: &usize| function.interface().params[*n].0.as_str();
        match self {
            Selection::All => Ok(py.None().into_bound(py)),
            Selection::One(n) => Ok(PyString::new(py, name(n)).into_any()),
            Selection::Several(numbers) => Ok(PyTuple::new(py, numbers.iter().map(name))?.into_any()),
        }
    }

    /// The function with derivatives with respect to these.
    pub(crate) fn of(&self, function: &dualvm::Function) -> Result<dualvm::Function, dualvm::Error> {
        let params = &function.interface().params;
        let name = |n: &usize| params[*n].0.as_str();
        match self {
            Selection::All => function.wrt(&params.iter().map(|(name, _)| name).collect::<Vec<_>>()),
            Selection::One(n) => function.wrt(&[name(n)]),
            Selection::Several(numbers) => function.wrt(&numbers.iter().map(name).collect::<Vec<_>>()),
        }
    }

    /// A gradient of its entries, one for each parameter.
    pub(crate) fn gradient<'py>(
        &self,
        py: Python<'py>,
        mut entries: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Selection::All if entries.len() == 1 => Ok(entries.remove(0)),
            Selection::All => Ok(PyTuple::new(py, entries)?.into_any()),
            Selection::One(n) => Ok(entries.swap_remove(*n)),
            Selection::Several(numbers) => Ok(PyTuple::new(py, numbers.iter().map(|&n| &entries[n]))?.into_any()),
        }
    }

    /// The entries of a tangent of this form: one for each of so many parameters, `None` for those that it isn't about.
    pub(crate) fn entries<'py>(&self, tangent: &Bound<'py, PyAny>, params: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = tangent.py();
        let numbers: Vec<usize> = match self {
            Selection::All if params == 1 => return Ok(vec![tangent.clone()]),
            Selection::All => (0..params).collect(),
            Selection::One(n) => {
                let mut entries = vec![py.None().into_bound(py); params];
                entries[*n] = tangent.clone();
                return Ok(entries);
            }
            Selection::Several(numbers) => numbers.clone(),
        };
        let plural = if numbers.len() == 1 { "y" } else { "ies" };
        let expected = format!("a tuple with {} entr{plural}, one for each parameter", numbers.len());
        let place = Place::Whole("tangent", "");
        let given = items(tangent, &expected, place)?;
        if given.len() != numbers.len() {
            return Err(place.refuse(py, expected, given.len()));
        }
        let mut entries = vec![py.None().into_bound(py); params];
        for (n, entry) in numbers.into_iter().zip(given) {
            entries[n] = entry;
        }
        Ok(entries)
    }
}
