//! Tangents and cotangents: the reals of a value of the host, in the order in which those of what it belongs to stand.
//!
//! A tangent has the shape of its argument, a cotangent that of its result. [`Value::Null`] may stand where there is no
//! real, and so may what has no derivative, which isn't looked at.

use crate::bytecode::module::{DataDef, DataId, HostType};
use crate::embedding::engine::{TangentError, Wrt};
use crate::embedding::flat::CotangentError;
use crate::embedding::value::Value;
use crate::running::meter::{Account, Watch, out_of_time};
use crate::trap::Limit;

/// What stands for the parts of a derivative that is null as a whole.
static NULL: Value = Value::Null;

/// Why there are no reals.
pub enum FlattenError {
    Misshapen(Box<Misshapen>),
    Limit(Limit),
}

/// A part that is not of the shape that it has to have.
pub struct Misshapen {
    pub(crate) place: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl Misshapen {
    /// Another shape was found than was expected.
    #[cold]
    pub(super) fn new(expected: String, found: String) -> Box<Self> {
        Box::new(Misshapen { place: String::new(), expected, found })
    }

    /// The same seen from what it is a part of.
    #[cold]
    pub(super) fn inside(&mut self, step: &str) {
        self.place.insert_str(0, step);
    }
}

impl From<Limit> for FlattenError {
    fn from(limit: Limit) -> Self {
        FlattenError::Limit(limit)
    }
}

impl From<Misshapen> for TangentError {
    fn from(Misshapen { place, expected, found }: Misshapen) -> Self {
        TangentError::Shape { place, expected, found }
    }
}

impl From<Misshapen> for CotangentError {
    fn from(Misshapen { place, expected, found }: Misshapen) -> Self {
        CotangentError::Shape { place, expected, found }
    }
}

impl FlattenError {
    /// Another shape was found than was expected.
    #[cold]
    pub(crate) fn misshapen(expected: String, found: String) -> Self {
        FlattenError::Misshapen(Misshapen::new(expected, found))
    }

    /// The error of a part, seen from what it is a part of.
    #[cold]
    pub(crate) fn inside(mut self, step: &str) -> Self {
        if let FlattenError::Misshapen(misshapen) = &mut self {
            misshapen.inside(step);
        }
        self
    }
}

/// Takes reals one after the other.
pub(crate) struct Flattener<'a> {
    data: &'a [DataDef],
    reals: Vec<f64>,
    account: &'a Account,
    watch: Watch<'a>,
}

impl<'a> Flattener<'a> {
    /// Nothing was taken as yet.
    pub(crate) fn new(data: &'a [DataDef], account: &'a Account) -> Self {
        Flattener { data, reals: Vec::new(), account, watch: Watch::later(account) }
    }

    /// All reals so far.
    pub(crate) fn into_reals(self) -> Vec<f64> {
        self.reals
    }

    /// Takes a real.
    #[inline]
    pub(crate) fn push(&mut self, x: f64) {
        self.reals.push(x);
    }

    /// Takes reals that follow each other, for which there is time.
    pub(crate) fn extend(&mut self, xs: &[f64]) {
        self.reals.extend_from_slice(xs);
    }

    /// Makes room for so many, which may be many more than there are in memory.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), Limit> {
        self.account.time_to_fill(count.saturating_mul(size_of::<f64>()))?;
        self.reals.try_reserve(count).map_err(|_| Limit::AddressSpace)
    }

    /// Whether there is time to take these.
    pub(crate) fn time_for(&self, xs: &[f64]) -> Result<(), Limit> {
        self.account.time_to_fill(size_of_val(xs))
    }

    /// Notes a step of work.
    #[inline]
    pub(crate) fn tick(&self) -> Result<(), Limit> {
        self.watch.tick(1).map_err(out_of_time)
    }

    /// Takes those of the tangents of arguments, which are of the parameters' types. The tangent of an argument that
    /// derivatives are not with respect to is null.
    pub(crate) fn tangents(
        &mut self,
        (params, wrt): (&[(String, HostType)], &Wrt),
        args: &[Value],
        tangents: &[Value],
    ) -> Result<(), FlattenError> {
        for (n, (((name, ty), arg), tangent)) in params.iter().zip(args).zip(tangents).enumerate() {
            let taken = match (wrt.has(n), tangent) {
                (true, _) => self.take(ty, arg, tangent),
                (false, Value::Null) => Ok(()),
                (false, _) => Err(misshapen("null, because derivatives are not with respect to it", tangent)),
            };
            taken.map_err(|error| error.inside(name))?;
        }
        Ok(())
    }

    /// Takes those of the cotangent of a result.
    pub(crate) fn cotangent(&mut self, ty: &HostType, result: &Value, cotangent: &Value) -> Result<(), FlattenError> {
        self.take(ty, result, cotangent).map_err(|error| error.inside("result"))
    }

    /// Takes those of the arguments themselves that derivatives are with respect to.
    pub(crate) fn arguments(
        &mut self,
        (params, wrt): (&[(String, HostType)], &Wrt),
        args: &[Value],
    ) -> Result<(), FlattenError> {
        let active = params.iter().zip(args).enumerate().filter(|&(n, _)| wrt.has(n));
        active.into_iter().try_for_each(|(_, ((_, ty), arg))| self.take(ty, arg, arg))
    }

    /// Takes the reals of what belongs to a value of this type.
    fn take(&mut self, ty: &HostType, value: &Value, derivative: &Value) -> Result<(), FlattenError> {
        match self.take_parts(ty, value, derivative) {
            // Not the first real in it is what is wrong, but all of it.
            Err(FlattenError::Misshapen(_)) if matches!(derivative, Value::Null) => {
                Err(match (ty.item(), length(value)) {
                    (Some(item), Some(len)) => wrong_length(item, len, derivative),
                    _ => misshapen(ty, derivative),
                })
            }
            taken => taken,
        }
    }

    fn take_parts(&mut self, ty: &HostType, value: &Value, derivative: &Value) -> Result<(), FlattenError> {
        self.tick()?;
        match (ty, value) {
            (HostType::Real, _) => self.real(derivative),
            (HostType::Int | HostType::Bool, _) => match (ty, derivative) {
                (_, Value::Null) | (HostType::Int, Value::Int(_)) | (HostType::Bool, Value::Bool(_)) => Ok(()),
                _ => Err(misshapen("null, because it is discrete", derivative)),
            },
            (HostType::Tuple(types), Value::Tuple(parts)) => self.tuple(ty, types, parts, derivative),
            (HostType::Record(types), Value::Record(parts)) => self.record(ty, types, parts, derivative),
            (HostType::Array { .. } | HostType::List { .. } | HostType::Tensor { .. }, _) => {
                self.elements(ty.item().expect("it has items"), value, derivative)
            }
            (HostType::Data { data, .. }, Value::Variant(name, payload)) => {
                self.variant(*data, name, payload, derivative)
            }
            _ => unreachable!("the value is of the type"),
        }
    }

    fn real(&mut self, derivative: &Value) -> Result<(), FlattenError> {
        let x = match derivative {
            Value::Real(x) => *x,
            Value::Int(n) if (*n as f64) as i128 == i128::from(*n) => *n as f64,
            _ => return Err(misshapen(HostType::Real, derivative)),
        };
        self.push(x);
        Ok(())
    }

    fn tuple(
        &mut self,
        ty: &HostType,
        types: &[HostType],
        parts: &[Value],
        derivative: &Value,
    ) -> Result<(), FlattenError> {
        let derivatives = match derivative {
            Value::Null => None,
            Value::Tuple(derivatives) if derivatives.len() == parts.len() => Some(derivatives),
            _ => return Err(misshapen(ty, derivative)),
        };
        for (n, (ty, part)) in types.iter().zip(parts).enumerate() {
            let derivative = derivatives.map_or(&NULL, |derivatives| &derivatives[n]);
            self.take(ty, part, derivative).map_err(|error| error.inside(&format!(".{n}")))?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        ty: &HostType,
        types: &[(String, HostType)],
        parts: &[(String, Value)],
        derivative: &Value,
    ) -> Result<(), FlattenError> {
        let derivatives = match derivative {
            Value::Null => None,
            Value::Record(derivatives) if derivatives.len() == parts.len() => Some(derivatives),
            _ => return Err(misshapen(ty, derivative)),
        };
        let named = |parts: &'_ [(String, Value)], name: &str| parts.iter().position(|(known, _)| known == name);
        for (name, part_ty) in types {
            let at = named(parts, name).expect("the value is of the type");
            let part = match derivatives {
                None => &NULL,
                Some(derivatives) => match named(derivatives, name) {
                    Some(at) => &derivatives[at].1,
                    None => return Err(misshapen(ty, derivative)),
                },
            };
            self.take(part_ty, &parts[at].1, part).map_err(|error| error.inside(&format!(".{name}")))?;
        }
        Ok(())
    }

    fn elements(&mut self, element: &HostType, value: &Value, derivative: &Value) -> Result<(), FlattenError> {
        let len = length(value).expect("the value is of the type");
        let parts: &[Value] = match derivative {
            Value::Null => &[],
            _ if length(derivative) != Some(len) => return Err(wrong_length(element, len, derivative)),
            Value::Reals(xs) if element.is_real() => {
                self.time_for(xs)?;
                self.extend(xs);
                return Ok(());
            }
            Value::Array(parts) => parts,
            _ if len == 0 => &[],
            _ => return Err(wrong_length(element, len, derivative)),
        };
        for n in 0..len {
            let part = parts.get(n).unwrap_or(&NULL);
            let taken = match value {
                Value::Array(items) => self.take(element, &items[n], part),
                _ => self.real(part),
            };
            taken.map_err(|error| error.inside(&format!("[{n}]")))?;
        }
        Ok(())
    }

    fn variant(&mut self, data: DataId, name: &str, payload: &Value, derivative: &Value) -> Result<(), FlattenError> {
        let derivative = match derivative {
            Value::Null => &NULL,
            Value::Variant(constructor, derivative) if constructor == name => derivative,
            _ => return Err(misshapen(format_args!("constructor `{name}`"), derivative)),
        };
        let constructor = self.data[data.index()].variants.iter().find(|(known, _)| known == name);
        let (_, ty) = constructor.expect("the value is of the type");
        self.take(ty, payload, derivative)
    }
}

/// How many elements an array or a list has.
fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Reals(xs) => Some(xs.len()),
        Value::Array(items) => Some(items.len()),
        _ => None,
    }
}

#[cold]
fn wrong_length(element: &HostType, len: usize, found: &Value) -> FlattenError {
    let elements = if element.is_real() { "real" } else { "element" };
    let mut error = misshapen(counted(len, elements), found);
    if let (FlattenError::Misshapen(misshapen), Some(other)) = (&mut error, length(found)) {
        misshapen.found = if other == len { "reals".to_owned() } else { other.to_string() };
    }
    error
}

/// So many of these.
#[cold]
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cold]
fn misshapen(expected: impl ToString, found: &Value) -> FlattenError {
    FlattenError::misshapen(expected.to_string(), super::write::found(found))
}
