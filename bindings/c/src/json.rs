//! Calls with arguments and results of any type, as texts in JSON.

use crate::bytes::{Bytes, dualvm_bytes};
use crate::error::{Report, dualvm_error};
use crate::frame::dualvm_stats;
use crate::function::{Callable, dualvm_function};
use crate::memory::{Out, OutHandle, name, text};
use crate::options::{dualvm_options, given};
use crate::status::{Failure, dualvm_status, enter, share};
use dualvm::{CallOptions, Error, Json, Stats, Value, ValueSeed};
use serde::de::DeserializeSeed;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ffi::c_char;

/// What a call gives, by names.
struct Answer(Vec<(&'static str, Part)>);

enum Part {
    One(Value),
    /// An entry for each parameter.
    Gradient(Vec<Value>),
    /// A gradient for each real of the result.
    Rows(Vec<Vec<Value>>),
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Listed<'a>(&'a [Value]);
        impl Serialize for Listed<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(Json))
            }
        }
        struct Rows<'a>(&'a [Vec<Value>]);
        impl Serialize for Rows<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(|row| Listed(row)))
            }
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, part) in &self.0 {
            match part {
                Part::One(value) => map.serialize_entry(name, &Json(value))?,
                Part::Gradient(values) => map.serialize_entry(name, &Listed(values))?,
                Part::Rows(rows) => map.serialize_entry(name, &Rows(rows))?,
            }
        }
        map.end()
    }
}

/// A call that is being made.
struct Call<'a> {
    callable: &'a Callable,
    args: Vec<Value>,
    options: CallOptions,
}

impl Call<'_> {
    fn tangents(&self, json: &str) -> Result<Vec<Value>, Failure> {
        let params = self.callable.function.interface().params.iter();
        let seeds = params.map(|(name, ty)| ValueSeed::derivative(name, ty, self.callable.function.data()));
        read(json, "tangents", ListSeed(seeds.collect()))
    }

    fn cotangent(&self, json: &str) -> Result<Value, Failure> {
        let function = &self.callable.function;
        read(json, "cotangent", ValueSeed::derivative("cotangent", &function.interface().result, function.data()))
    }
}

/// A list with a value for each of these.
struct ListSeed<'a>(Vec<ValueSeed<'a>>);

impl<'de> DeserializeSeed<'de> for ListSeed<'_> {
    type Value = Vec<Value>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Value>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> serde::de::Visitor<'de> for ListSeed<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "a list of {} tangent{plural}, one for each parameter", self.0.len())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Value>, A::Error> {
        let (expected, mut values) = (self.0.len(), Vec::with_capacity(self.0.len()));
        for seed in self.0 {
            let Some(value) = items.next_element_seed(seed)? else { break };
            values.push(value);
        }
        let mut found = values.len();
        while items.next_element::<serde::de::IgnoredAny>()?.is_some() {
            found += 1;
        }
        if found == expected {
            return Ok(values);
        }
        let plural = if expected == 1 { "" } else { "s" };
        Err(serde::de::Error::custom(format_args!("expected {expected} tangent{plural}, found {found}")))
    }
}

/// Reads a text in JSON, which its caller calls so.
fn read<'a, S: DeserializeSeed<'a>>(json: &'a str, name: &str, seed: S) -> Result<S::Value, Failure> {
    let mut json = serde_json::Deserializer::from_str(json);
    // Depth is bounded by the types and by the seed.
    json.disable_recursion_limit();
    let read = seed.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    read.map_err(|error| Report::new(dualvm_status::Argument, format!("`{name}`: {error}")))
}

/// A text of the caller's: where it is, and how long.
type Text = (*const c_char, usize);

/// Calls a function with arguments in JSON.
///
/// # Safety
/// The interface's promise.
unsafe fn call(
    function: *const dualvm_function,
    (args, len): Text,
    options: *const dualvm_options,
    (json, stats): (*mut *mut dualvm_bytes, *mut dualvm_stats),
    error: *mut *mut dualvm_error,
    run: impl FnOnce(&Call<'_>) -> Result<(Answer, Stats), CallFailed>,
) -> dualvm_status {
    // SAFETY: promised by the caller.
    unsafe {
        enter(error, || {
            let (json, stats) = (OutHandle::new(json, "json")?, Out::wanted(stats, "stats")?);
            let args = text(args, len, "args")?;
            let (callable, options) = (share::<Callable>(function)?, given(options)?);
            let options = options.for_call(callable.module.engine().limits());
            let args = read(args, "args", callable.function.arguments_seed())?;
            let (answer, used) = run(&Call { callable: &callable, args, options }).map_err(|failed| match failed {
                CallFailed::Run(error) => callable.failed(&error),
                CallFailed::Given(failure) => failure,
            })?;
            let text = serde_json::to_vec(&answer);
            json.write(Bytes::new(text.map_err(|error| Report::new(dualvm_status::Internal, error.to_string()))?))?;
            if let Some(stats) = stats {
                stats.write(used.into());
            }
            Ok(())
        })
    }
}

/// Why a call has given nothing.
enum CallFailed {
    Run(Error),
    Given(Failure),
}

impl From<Error> for CallFailed {
    fn from(error: Error) -> Self {
        CallFailed::Run(error)
    }
}

impl From<Failure> for CallFailed {
    fn from(failure: Failure) -> Self {
        CallFailed::Given(failure)
    }
}

/// Calls a function with arguments in JSON, of any types: `{"value": …}`.
///
/// `args`: a list of the arguments, or an object with the parameters' names; tuples, arrays and lists are lists,
/// records are objects, a constructor is its name or an object from its name to what it takes. NaN and infinities are
/// the strings "NaN", "Infinity" and "-Infinity". `len`: bytes of the text, or `DUALVM_NUL_TERMINATED`. `options`:
/// limits of the call, and who may cancel it; null: the engine's limits, and nobody. `json`: the answer, to be freed.
/// `stats`: what the call has used; may be null.
///
/// Errors: `ARGUMENT` with the place of what isn't right, `TRAP`, `LIMIT`, `CANCELLED`, `RESULT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_json_call(
    function: *const dualvm_function,
    args: *const c_char,
    len: usize,
    options: *const dualvm_options,
    json: *mut *mut dualvm_bytes,
    stats: *mut dualvm_stats,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let run = |call: &Call<'_>| {
        let (value, stats) = call.callable.function.call_with(&call.args, &call.options)?;
        Ok((Answer(vec![("value", Part::One(value))]), stats))
    };
    // SAFETY: the interface's promise.
    unsafe { self::call(function, (args, len), options, (json, stats), error, run) }
}

/// The function of the other parameters that there is once the parameter of this name has this argument, which is read
/// here and no more in calls. It is a constant: no derivative is with respect to it; of the parameters that derivatives
/// were with respect to, those that are left stay. A new handle, to be freed as well; frames take it if what is left is
/// of numbers and arrays of numbers.
///
/// `argument`: in JSON, as one of those of `dualvm_json_call`; `len`: its bytes, or `DUALVM_NUL_TERMINATED`.
///
/// Errors: `NOT_FOUND` if the function has no parameter of this name, `ARGUMENT` with the place of what isn't right,
/// `LIMIT` if it takes more memory or time than a call may in this engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_json_bind(
    function: *const dualvm_function,
    parameter: *const c_char,
    argument: *const c_char,
    len: usize,
    bound: *mut *mut dualvm_function,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    // SAFETY: the interface's promise.
    unsafe {
        enter(error, || {
            let out = OutHandle::new(bound, "bound")?;
            let (parameter, argument) = (name(parameter, "parameter")?, text(argument, len, "argument")?);
            let callable = share::<Callable>(function)?;
            let function = &callable.function;
            let argument = match function.interface().params.iter().find(|(name, _)| name == parameter) {
                Some((name, ty)) => read(argument, "argument", ValueSeed::new(name, ty, function.data()))?,
                // That there is no such parameter is said where it is bound.
                None => Value::Null,
            };
            let bound = function.bind(parameter, &argument).map_err(|error| callable.failed(&error))?;
            out.write(Callable::new(callable.module.clone(), bound))
        })
    }
}

/// The value of a function that returns one real, and its gradient, in JSON: `{"value": …, "gradient": […]}`. The
/// gradient has an entry for each parameter, of the argument's shape, with null for what is discrete or not asked for.
/// Else as `dualvm_json_call`.
///
/// Errors: as `dualvm_json_call`, and `NOT_SCALAR`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_json_value_and_grad(
    function: *const dualvm_function,
    args: *const c_char,
    len: usize,
    options: *const dualvm_options,
    json: *mut *mut dualvm_bytes,
    stats: *mut dualvm_stats,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let run = |call: &Call<'_>| {
        let found = call.callable.function.value_and_grad_with(&call.args, &call.options)?;
        let value = ("value", Part::One(Value::Real(found.value)));
        Ok((Answer(vec![value, ("gradient", Part::Gradient(found.gradient))]), found.stats))
    };
    // SAFETY: the interface's promise.
    unsafe { call(function, (args, len), options, (json, stats), error, run) }
}

/// A function's value, and the product of a cotangent of it and the Jacobian, in JSON: `{"value": …, "gradient": […]}`.
/// The cotangent has the shape of the value, with null for what is discrete. Else as `dualvm_json_value_and_grad`.
///
/// Errors: as `dualvm_json_call`; `ARGUMENT` also for the cotangent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_json_vjp(
    function: *const dualvm_function,
    args: *const c_char,
    len: usize,
    cotangent: *const c_char,
    cotangent_len: usize,
    options: *const dualvm_options,
    json: *mut *mut dualvm_bytes,
    stats: *mut dualvm_stats,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let run = |call: &Call<'_>| {
        // SAFETY: the interface's promise.
        let cotangent = call.cotangent(unsafe { text(cotangent, cotangent_len, "cotangent") }?)?;
        let found = call.callable.function.vjp_with(&call.args, &cotangent, &call.options)?;
        let value = ("value", Part::One(found.value));
        Ok((Answer(vec![value, ("gradient", Part::Gradient(found.gradient))]), found.stats))
    };
    // SAFETY: the interface's promise.
    unsafe { self::call(function, (args, len), options, (json, stats), error, run) }
}

/// A function's value, and how it changes as the arguments move in the direction of tangents, in JSON:
/// `{"value": …, "tangent": …}`. Tangents are a list, one for each parameter, of the argument's shape, with null for
/// what is discrete or not asked for. Else as `dualvm_json_call`.
///
/// Errors: as `dualvm_json_call`; `ARGUMENT` also for the tangents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_json_jvp(
    function: *const dualvm_function,
    args: *const c_char,
    len: usize,
    tangents: *const c_char,
    tangents_len: usize,
    options: *const dualvm_options,
    json: *mut *mut dualvm_bytes,
    stats: *mut dualvm_stats,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let run = |call: &Call<'_>| {
        // SAFETY: the interface's promise.
        let tangents = call.tangents(unsafe { text(tangents, tangents_len, "tangents") }?)?;
        let found = call.callable.function.jvp_with(&call.args, &tangents, &call.options)?;
        let parts = vec![("value", Part::One(found.value)), ("tangent", Part::One(found.tangent))];
        Ok((Answer(parts), found.stats))
    };
    // SAFETY: the interface's promise.
    unsafe { call(function, (args, len), options, (json, stats), error, run) }
}

/// The value of a function that returns one real, its gradient, and the product of its Hessian and tangents, in JSON:
/// `{"value": …, "gradient": […], "product": […]}`. Tangents are as for `dualvm_json_jvp`.
///
/// Errors: as `dualvm_json_jvp`, and `NOT_SCALAR`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_json_hvp(
    function: *const dualvm_function,
    args: *const c_char,
    len: usize,
    tangents: *const c_char,
    tangents_len: usize,
    options: *const dualvm_options,
    json: *mut *mut dualvm_bytes,
    stats: *mut dualvm_stats,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let run = |call: &Call<'_>| {
        // SAFETY: the interface's promise.
        let tangents = call.tangents(unsafe { text(tangents, tangents_len, "tangents") }?)?;
        let found = call.callable.function.hvp_with(&call.args, &tangents, &call.options)?;
        let parts = vec![
            ("value", Part::One(Value::Real(found.value))),
            ("gradient", Part::Gradient(found.gradient)),
            ("product", Part::Gradient(found.product)),
        ];
        Ok((Answer(parts), found.stats))
    };
    // SAFETY: the interface's promise.
    unsafe { call(function, (args, len), options, (json, stats), error, run) }
}

/// A function's value and its Jacobian, in JSON: `{"value": …, "jacobian": [[…], …]}`, with a gradient for each real in
/// the value, in the order in which they stand there. By rows or by columns, whichever are fewer. Else as
/// `dualvm_json_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dualvm_json_jacobian(
    function: *const dualvm_function,
    args: *const c_char,
    len: usize,
    options: *const dualvm_options,
    json: *mut *mut dualvm_bytes,
    stats: *mut dualvm_stats,
    error: *mut *mut dualvm_error,
) -> dualvm_status {
    let run = |call: &Call<'_>| {
        let found = call.callable.function.jacobian_by(dualvm::JacobianMode::Auto, &call.args, &call.options)?;
        let parts = vec![("value", Part::One(found.value)), ("jacobian", Part::Rows(found.rows))];
        Ok((Answer(parts), found.stats))
    };
    // SAFETY: the interface's promise.
    unsafe { call(function, (args, len), options, (json, stats), error, run) }
}
