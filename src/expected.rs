//! What a value that comes from a host should be: a type, and how deep in an argument it stands. Both ways in, `ser`
//! and `seed`, go by it.

use crate::vm::module::{DataDef, DataId, HostType};
use crate::vm::value::{ArgumentError, VALUE_DEPTH_MAX, Value};

/// Left on the stack when a new piece is taken. More than what lies between two calls of [`grown`]: frames of this
/// crate, of a format and of what `serde` derives, for one level of nesting.
const RED_ZONE_BYTES: usize = 128 * 1024;
const PIECE_BYTES: usize = 2 * 1024 * 1024;

/// Runs `work` with enough stack for one more level of a value.
pub(crate) fn grown<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE_BYTES, PIECE_BYTES, work)
}

/// The type of a value that is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) ty: &'a HostType,
    /// The module's table of data types.
    data: &'a [DataDef],
    /// How many steps lead from the argument to here.
    steps: usize,
    /// Whether null may stand here, and for any part: in a tangent or a cotangent.
    pub(crate) nullable: bool,
}

/// The payload of a constructor as hosts write it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(crate) constructor: &'a str,
    /// A tuple or a record, as declared.
    pub(crate) declared: &'a HostType,
    /// What a host writes: the only field of a tuple, or the whole payload.
    pub(crate) written: Expected<'a>,
    /// Whether it is the only field.
    pub(crate) is_field: bool,
}

impl<'a> Expected<'a> {
    /// An argument of this type.
    pub(crate) fn argument(ty: &'a HostType, data: &'a [DataDef]) -> Self {
        Expected { ty, data, steps: 0, nullable: false }
    }

    /// A tangent or a cotangent of a value of this type.
    pub(crate) fn derivative(ty: &'a HostType, data: &'a [DataDef]) -> Self {
        Expected { nullable: true, ..Expected::argument(ty, data) }
    }

    /// A part of this value; `None` where that is too deep.
    pub(crate) fn part(self, ty: &'a HostType) -> Option<Self> {
        (self.steps < VALUE_DEPTH_MAX).then_some(Expected { ty, steps: self.steps + 1, ..self })
    }

    /// [`Expected::part`] with the error of what is too deep. Who knows the parameter fills it in.
    pub(crate) fn checked_part(self, ty: &'a HostType) -> Result<Self, ArgumentError> {
        self.part(ty).ok_or(ArgumentError::Depth { parameter: String::new() })
    }

    /// Whether the value has no parts.
    pub(crate) fn is_scalar(self) -> bool {
        matches!(self.ty, HostType::Real | HostType::Int | HostType::Bool)
    }

    /// The data type, if a value of one is expected.
    pub(crate) fn data(self) -> Option<DataId> {
        match self.ty {
            HostType::Data { data, .. } => Some(*data),
            _ => None,
        }
    }

    /// The payload of a constructor of a data type.
    ///
    /// # Errors
    /// [`ArgumentError::Constructor`] without a place, and [`ArgumentError::Depth`].
    pub(crate) fn payload(self, data: DataId, constructor: &str) -> Result<Payload<'a>, ArgumentError> {
        let def = &self.data[data.index()];
        let Some((constructor, declared)) = def.variants.iter().find(|(name, _)| name == constructor) else {
            return Err(ArgumentError::Constructor {
                place: String::new(),
                data: def.name.clone(),
                constructors: def.variants.iter().map(|(name, _)| name.clone()).collect(),
                found: constructor.to_owned(),
            });
        };
        let (written, is_field) = match declared {
            HostType::Tuple(fields) if fields.len() == 1 => (self.checked_part(&fields[0])?, true),
            _ => (Expected { ty: declared, ..self }, false),
        };
        Ok(Payload { constructor, declared, written, is_field })
    }
}

impl Payload<'_> {
    /// The value with this constructor and what a host wrote as its payload.
    pub(crate) fn value(self, written: Value) -> Value {
        Value::variant(self.constructor, if self.is_field { Value::Tuple(vec![written]) } else { written })
    }

    /// What `found` in place of the payload is an error of. It has no place yet.
    pub(crate) fn mismatch(self, found: impl Into<String>) -> ArgumentError {
        ArgumentError::Payload {
            place: String::new(),
            constructor: self.constructor.to_owned(),
            expected: self.declared.clone(),
            found: found.into(),
        }
    }

    /// The constant that the constructor is.
    ///
    /// # Errors
    /// [`ArgumentError::Payload`] if it takes something.
    pub(crate) fn constant(self) -> Result<Value, ArgumentError> {
        match self.declared {
            HostType::Tuple(fields) if fields.is_empty() => Ok(Value::variant(self.constructor, Value::UNIT)),
            _ => Err(self.mismatch("nothing")),
        }
    }
}
