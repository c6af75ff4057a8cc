//! What flat calls give beside what calls with values give, compared in every bit.

use super::support::same;
use dualvm::flat::LeafKind;
use dualvm::vm::engine::RunError;
use dualvm::{CallFrame, CallOptions, FlatFunction, FlatValue, Function, HostType, Limits, Stats, Value};
use std::time::Duration;

/// A [`FlatValue`] that owns its elements.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Owned {
    Null,
    Real(f64),
    Int(i64),
    Reals(Vec<f64>),
    Ints(Vec<i64>),
}

impl Owned {
    pub(crate) fn of(value: FlatValue<'_>) -> Owned {
        match value {
            FlatValue::Null => Owned::Null,
            FlatValue::Real(x) => Owned::Real(x),
            FlatValue::Int(n) => Owned::Int(n),
            FlatValue::Reals(xs) => Owned::Reals(xs.to_vec()),
            FlatValue::Ints(ns) => Owned::Ints(ns.to_vec()),
        }
    }

    pub(crate) fn borrow(&self) -> FlatValue<'_> {
        match self {
            Owned::Null => FlatValue::Null,
            Owned::Real(x) => FlatValue::Real(*x),
            Owned::Int(n) => FlatValue::Int(*n),
            Owned::Reals(xs) => FlatValue::Reals(xs),
            Owned::Ints(ns) => FlatValue::Ints(ns),
        }
    }

    fn same(&self, other: &Owned) -> bool {
        match (self, other) {
            (Owned::Real(x), Owned::Real(y)) => same(*x, *y),
            (Owned::Reals(xs), Owned::Reals(ys)) => {
                xs.len() == ys.len() && xs.iter().zip(ys).all(|(&x, &y)| same(x, y))
            }
            _ => self == other,
        }
    }
}

/// What stands at the leaves of a value of a flat type. Of a gradient, too: its discrete parts are null.
pub(crate) fn leaves(ty: &HostType, value: &Value, out: &mut Vec<Owned>) {
    match (ty, value) {
        (HostType::Tuple(types), Value::Tuple(parts)) => {
            types.iter().zip(parts).for_each(|(ty, part)| leaves(ty, part, out));
        }
        (HostType::Record(types), Value::Record(parts)) => {
            types.iter().zip(parts).for_each(|((_, ty), (_, part))| leaves(ty, part, out));
        }
        (HostType::Array { element, .. } | HostType::List { element, .. }, value) => {
            out.push(elements(is_real(element), value));
        }
        (HostType::Tensor { .. }, value) => {
            out.push(Owned::Ints(extents(ty, value)));
            out.push(elements(ty.element().is_some_and(is_real), value));
        }
        (_, Value::Real(x)) => out.push(Owned::Real(*x)),
        (_, Value::Int(n)) => out.push(Owned::Int(*n)),
        (_, Value::Bool(b)) => out.push(Owned::Int(i64::from(*b))),
        _ => out.push(Owned::Null),
    }
}

/// The extents of a tensor. Behind one of 0 a value doesn't tell: 0 as well.
fn extents(ty: &HostType, value: &Value) -> Vec<i64> {
    let (mut extents, mut slice) = (Vec::new(), Some(value));
    while let Some(value) = slice
        && extents.len() < ty.rank()
    {
        let (len, first) = match value {
            Value::Reals(xs) => (xs.len(), None),
            Value::Array(items) => (items.len(), items.first()),
            _ => break,
        };
        extents.push(len as i64);
        slice = first;
    }
    extents.resize(ty.rank(), 0);
    extents
}

/// The numbers of an array, a list or a tensor, of which an element may be several.
pub(crate) fn elements(real: bool, value: &Value) -> Owned {
    fn collect(value: &Value, reals: &mut Vec<f64>, ints: &mut Vec<i64>) {
        match value {
            Value::Null => {}
            Value::Real(x) => reals.push(*x),
            Value::Reals(xs) => reals.extend(xs),
            Value::Int(n) => ints.push(*n),
            Value::Bool(b) => ints.push(i64::from(*b)),
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| collect(part, reals, ints)),
            Value::Record(parts) => parts.iter().for_each(|(_, part)| collect(part, reals, ints)),
            other => panic!("{other} is no number"),
        }
    }
    let (mut reals, mut ints) = (Vec::new(), Vec::new());
    collect(value, &mut reals, &mut ints);
    let is_derivative = |value: &Value| matches!(value, Value::Array(items) if !items.is_empty()) && ints.is_empty();
    match real {
        true => Owned::Reals(reals),
        false if is_derivative(value) => Owned::Null,
        false => Owned::Ints(ints),
    }
}

/// Whether the numbers of an element are reals.
fn is_real(element: &HostType) -> bool {
    match element {
        HostType::Tuple(parts) => parts.iter().any(is_real),
        HostType::Record(parts) => parts.iter().any(|(_, part)| is_real(part)),
        other => other.is_real(),
    }
}

pub(crate) fn arguments(function: &Function, args: &[Value]) -> Vec<Owned> {
    let mut out = Vec::new();
    function.interface().params.iter().zip(args).for_each(|((_, ty), arg)| leaves(ty, arg, &mut out));
    out
}

pub(crate) fn borrowed(values: &[Owned]) -> Vec<FlatValue<'_>> {
    values.iter().map(Owned::borrow).collect()
}

#[track_caller]
pub(crate) fn assert_same(what: &str, found: &[Owned], expected: &[Owned]) {
    let same = found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a.same(b));
    assert!(same, "{what}: found {found:?}, expected {expected:?}");
}

/// Gradients by leaf, which of what has no derivative say nothing.
pub(crate) fn gradient(function: &Function, gradient: &[Value]) -> Vec<Owned> {
    let discrete = |owned: Owned| if let Owned::Ints(_) = owned { Owned::Null } else { owned };
    let (flat, mut out) = (function.flat().expect("it is flat"), Vec::new());
    for (n, ((_, ty), value)) in function.interface().params.iter().zip(gradient).enumerate() {
        if function.is_wrt(n) {
            let mut of_param = Vec::new();
            leaves(ty, value, &mut of_param);
            out.extend(of_param.into_iter().map(discrete));
        } else {
            let count = flat.params().iter().filter(|leaf| leaf.parameter() == Some(n)).count();
            out.extend(std::iter::repeat_n(Owned::Null, count));
        }
    }
    out
}

/// The statistics that are the same in every run: without times, and without what executions hold side by side.
pub(crate) fn counts(stats: Stats) -> Stats {
    let mut counts = stats;
    (counts.forward, counts.sweep) = (Duration::ZERO, Duration::ZERO);
    if stats.tasks > 1 {
        (counts.heap_peak_bytes, counts.sweep_peak_bytes) = (0, 0);
    }
    counts
}

/// Compares all that flat calls give with what calls with values give: results, derivatives, statistics and errors.
#[track_caller]
pub(crate) fn assert_alike(function: &Function, frame: &mut CallFrame, args: &[Value], limits: &Limits) {
    let options = CallOptions::with_limits(limits.clone());
    *frame.options_mut() = options.clone();
    let (name, flat) = (function.signature(), function.flat().expect("it is flat"));
    let owned = arguments(function, args);
    let flat_args = borrowed(&owned);

    let found = flat.call(frame, &flat_args).map(|results| results.iter().map(Owned::of).collect::<Vec<_>>());
    match (function.call_with(args, &options), found) {
        (Ok((value, stats)), Ok(found)) => {
            let mut expected = Vec::new();
            leaves(&function.interface().result, &value, &mut expected);
            for ((leaf, expected), found) in flat.results().iter().zip(&mut expected).zip(&found) {
                // An empty array or list is the same value, whatever its elements.
                if let (LeafKind::Ints | LeafKind::Bools, Owned::Null | Owned::Reals(_)) = (leaf.kind(), &*expected) {
                    *expected = Owned::Ints(Vec::new());
                }
                // Extents behind one of 0 are not seen in a value.
                if let (LeafKind::Shape, Owned::Ints(expected), Owned::Ints(found)) = (leaf.kind(), expected, found)
                    && let Some(at) = expected.iter().position(|&extent| extent == 0)
                    && expected.len() == found.len()
                {
                    expected[at + 1..].copy_from_slice(&found[at + 1..]);
                }
            }
            assert_same(&name, &found, &expected);
            assert_eq!(frame.stats().map(counts), Some(counts(stats)), "{name}");
        }
        (expected, found) => {
            assert_same_error(&name, expected.err(), found.err());
            assert!(frame.results().is_none() && frame.stats().is_none());
        }
    }
    if function.interface().result.is_real() {
        let found = flat.value_and_grad(frame, &flat_args);
        let found = found.map(|(value, by)| (value, by.iter().map(Owned::of).collect::<Vec<_>>()));
        match (function.value_and_grad_with(args, &options), found) {
            (Ok(expected), Ok((value, by))) => {
                assert!(same(value, expected.value), "{name}");
                assert_same(&name, &by, &gradient(function, &expected.gradient));
                assert_eq!(frame.stats().map(counts), Some(counts(expected.stats)), "{name}");
            }
            (expected, found) => assert_same_error(&name, expected.err(), found.err()),
        }
    }
    let found = rows(&flat, frame, &flat_args);
    match (function.jacobian_with(args, &options), found) {
        (Ok(jacobian), Ok((rows, stats))) => {
            let expected: Vec<_> = jacobian.rows.iter().map(|row| gradient(function, row)).collect();
            assert_eq!(rows.len(), expected.len());
            rows.iter().zip(&expected).for_each(|(row, expected)| assert_same(&name, row, expected));
            assert_eq!(counts(stats), counts(jacobian.stats), "{name}");
            assert_linear(&name, &flat, frame, &rows);
        }
        (expected, found) => assert_same_error(&name, expected.err(), found.err()),
    }
    assert_jacobian_alike(function, frame, args, &options);
    assert_tangents_alike(function, frame, args, &options);
}

/// Compares a Jacobian that is taken as a whole.
#[track_caller]
fn assert_jacobian_alike(function: &Function, frame: &mut CallFrame, args: &[Value], options: &CallOptions) {
    let (name, flat) = (function.signature(), function.flat().expect("it is flat"));
    let owned = arguments(function, args);
    let (mut size, mut found) = ([0; 2], Vec::new());
    let outcome = flat.record(frame, &borrowed(&owned)).and_then(|mut recorded| {
        size = recorded.jacobian_size();
        recorded.jacobian(|row| found.push(row.to_vec()))
    });
    match (function.jacobian_with(args, options), outcome) {
        (Ok(jacobian), Ok(())) => {
            let row = |row: &Vec<Value>| reals(&gradient(function, row));
            let expected: Vec<Vec<f64>> = jacobian.rows.iter().map(row).collect();
            assert_eq!(size[0], expected.len(), "{name}");
            assert!(found.iter().all(|row| row.len() == size[1]), "{name}");
            let is_same =
                |(a, b): (&Vec<f64>, &Vec<f64>)| a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| same(a, b));
            assert!(
                found.len() == size[0] && found.iter().zip(&expected).all(is_same),
                "{name}: {found:?}, {expected:?}"
            );
            assert_eq!(frame.stats().map(counts), Some(counts(jacobian.stats)), "{name}");
        }
        (expected, found) => assert_same_error(&name, expected.err(), found.err()),
    }
}

/// Compares what calls give in the direction of tangents.
#[track_caller]
fn assert_tangents_alike(function: &Function, frame: &mut CallFrame, args: &[Value], options: &CallOptions) {
    let (name, flat) = (function.signature(), function.flat().expect("it is flat"));
    let (owned, mut next) = (arguments(function, args), 0);
    let tangents: Vec<Value> = args
        .iter()
        .enumerate()
        .map(|(n, arg)| if function.is_wrt(n) { tangent(arg, &mut next) } else { Value::Null })
        .collect();
    let owned_tangents: Vec<Owned> = gradient(function, &tangents)
        .into_iter()
        .zip(flat.params())
        .map(|(tangent, leaf)| of_kind(tangent, leaf.has_derivative(), leaf.kind()))
        .collect();
    let (flat_args, flat_tangents) = (borrowed(&owned), borrowed(&owned_tangents));
    // Tangents of what doesn't move are objects here, and none in calls with values.
    let all_move = (0..args.len()).all(|n| function.is_wrt(n));
    let counts = |stats| match counts(stats) {
        counts if all_move => counts,
        mut counts => {
            (counts.allocated_bytes, counts.heap_peak_bytes) = (0, 0);
            counts
        }
    };

    let found = flat.jvp(frame, &flat_args, &flat_tangents);
    let found = found.map(|(_, tangents)| tangents.iter().map(Owned::of).collect::<Vec<_>>());
    match (function.jvp_with(args, &tangents, options), found) {
        (Ok(jvp), Ok(found)) => {
            let mut expected = Vec::new();
            leaves(&function.interface().result, &jvp.tangent, &mut expected);
            let by_leaf = expected.into_iter().zip(flat.results());
            let expected: Vec<Owned> =
                by_leaf.map(|(tangent, leaf)| of_kind(tangent, leaf.kind().is_real(), leaf.kind())).collect();
            assert_same(&name, &found, &expected);
            assert_eq!(frame.stats().map(counts), Some(counts(jvp.stats)), "{name}");
            assert!(frame.recorded().is_none() && frame.gradient().is_none(), "{name}");
        }
        (expected, found) => assert_same_error(&name, expected.err(), found.err()),
    }
    if !function.interface().result.is_real() {
        return;
    }
    let found = flat.hvp(frame, &flat_args, &flat_tangents);
    let all = |gradient: dualvm::flat::FlatGradient<'_>| gradient.iter().map(Owned::of).collect::<Vec<_>>();
    let found = found.map(|(value, gradient, product)| (value, all(gradient), all(product)));
    match (function.hvp_with(args, &tangents, options), found) {
        (Ok(hvp), Ok((value, by, product))) => {
            assert!(same(value, hvp.value), "{name}");
            assert_same(&name, &by, &gradient(function, &hvp.gradient));
            assert_same(&name, &product, &gradient(function, &hvp.product));
            assert_eq!(frame.stats().map(counts), Some(counts(hvp.stats)), "{name}");
            assert!(frame.recorded().is_none(), "{name}");
        }
        (expected, found) => assert_same_error(&name, expected.err(), found.err()),
    }
}

/// A tangent of a value: other numbers in the place of its reals.
fn tangent(value: &Value, next: &mut usize) -> Value {
    let mut number = || {
        *next += 1;
        [1.0, -0.5, 0.0, 2.25][*next % 4]
    };
    match value {
        Value::Real(_) => Value::Real(number()),
        Value::Reals(xs) => Value::Reals(xs.iter().map(|_| number()).collect()),
        Value::Array(items) => Value::Array(items.iter().map(|item| tangent(item, next)).collect()),
        Value::Tuple(parts) => Value::Tuple(parts.iter().map(|part| tangent(part, next)).collect()),
        Value::Record(parts) => {
            Value::Record(parts.iter().map(|(name, part)| (name.clone(), tangent(part, next))).collect())
        }
        _ => Value::Null,
    }
}

/// A tangent as its leaf has it: an empty one doesn't show of what it is.
fn of_kind(tangent: Owned, has_derivative: bool, kind: LeafKind) -> Owned {
    match (tangent, kind) {
        (_, _) if !has_derivative => Owned::Null,
        (Owned::Null | Owned::Ints(_), LeafKind::Reals) => Owned::Reals(Vec::new()),
        (tangent, _) => tangent,
    }
}

/// The rows of the Jacobian, one pullback each, and what they have used.
pub(crate) fn rows(
    flat: &FlatFunction,
    frame: &mut CallFrame,
    args: &[FlatValue<'_>],
) -> Result<(Vec<Vec<Owned>>, Stats), RunError> {
    let mut recorded = flat.record(frame, args)?;
    let results: Vec<Owned> = recorded.results().iter().map(Owned::of).collect();
    let count = reals(&results).len();
    let mut rows = Vec::new();
    for n in 0..count {
        let unit: Vec<f64> = (0..count).map(|k| if k == n { 1.0 } else { 0.0 }).collect();
        let gradient = recorded.pullback(&borrowed(&cotangents(&results, flat, &unit)))?;
        rows.push(gradient.iter().map(Owned::of).collect());
    }
    Ok((rows, recorded.stats()))
}

/// Pulls back any cotangents of the run in the frame: that is the sum of the rows, each by its cotangent.
#[track_caller]
pub(crate) fn assert_linear(name: &str, flat: &FlatFunction, frame: &mut CallFrame, rows: &[Vec<Owned>]) {
    let weights: Vec<f64> = (0..rows.len()).map(|n| 0.5 - 1.5 * n as f64).collect();
    let mut recorded = frame.recorded().expect("it was recorded");
    let results: Vec<Owned> = recorded.results().iter().map(Owned::of).collect();
    let Ok(gradient) = recorded.pullback(&borrowed(&cotangents(&results, flat, &weights))) else { return };
    let rows: Vec<Vec<f64>> = rows.iter().map(|row| reals(row)).collect();
    for (n, &found) in gradient.reals().iter().enumerate() {
        let terms: Vec<f64> = rows.iter().zip(&weights).map(|(row, w)| w * row[n]).collect();
        let (expected, size) = (terms.iter().sum::<f64>(), terms.iter().map(|x| x.abs()).sum::<f64>());
        let near = same(found, expected) || !size.is_finite() || (found - expected).abs() <= 1e-9 * size;
        assert!(near, "{name}: derivative {n}: found {found:e}, expected {expected:e}");
    }
}

#[track_caller]
pub(crate) fn assert_same_error(name: &str, expected: Option<dualvm::Error>, found: Option<RunError>) {
    let (expected, found) = (expected.map(|error| error.to_string()), found.map(|error| error.to_string()));
    assert_eq!(found, expected, "{name}");
}

pub(crate) fn reals(values: &[Owned]) -> Vec<f64> {
    let mut out = Vec::new();
    for value in values {
        match value {
            Owned::Real(x) => out.push(*x),
            Owned::Reals(xs) => out.extend(xs),
            Owned::Null | Owned::Int(_) | Owned::Ints(_) => {}
        }
    }
    out
}

/// Cotangents of the shape of these results, with these numbers one after the other.
pub(crate) fn cotangents(results: &[Owned], flat: &FlatFunction, mut numbers: &[f64]) -> Vec<Owned> {
    let mut take = |count: usize| {
        let (taken, left) = numbers.split_at(count);
        numbers = left;
        taken.to_vec()
    };
    let cotangent = |(result, kind): (&Owned, LeafKind)| match (result, kind) {
        (_, LeafKind::Real) => Owned::Real(take(1)[0]),
        (Owned::Reals(xs), _) => Owned::Reals(take(xs.len())),
        _ => Owned::Null,
    };
    results.iter().zip(flat.results().iter().map(|leaf| leaf.kind())).map(cotangent).collect()
}

/// An argument of a flat type; `variant` chooses one of several.
pub(crate) fn argument(ty: &HostType, variant: usize, next: &mut usize) -> Value {
    const REALS: [f64; 7] = [0.5, -1.25, 3.0, 0.1, 2.5, -0.75, 1.0];
    *next += 1;
    let n = 3 * variant + *next;
    let items =
        |ty: &HostType, next: &mut usize| Value::Array((0..n % 5).map(|_| argument(ty, variant, next)).collect());
    match ty {
        HostType::Real => Value::Real(REALS[n % REALS.len()]),
        HostType::Int => Value::Int([3, 0, 2, 5, 1][n % 5]),
        HostType::Bool => Value::Bool(n.is_multiple_of(2)),
        HostType::Tuple(parts) => Value::Tuple(parts.iter().map(|part| argument(part, variant, next)).collect()),
        HostType::Record(parts) => {
            Value::Record(parts.iter().map(|(name, part)| (name.clone(), argument(part, variant, next))).collect())
        }
        HostType::Array { element, .. } | HostType::List { element, .. } if element.is_real() => {
            Value::Reals((0..if variant == 0 { 4 } else { n % 5 }).map(|k| REALS[(n + k) % REALS.len()]).collect())
        }
        HostType::Array { element, .. } | HostType::List { element, .. } => items(element, next),
        HostType::Tensor { .. } => {
            let extents: Vec<usize> = (0..ty.rank()).map(|dimension| (n + dimension) % 4).collect();
            tensor(ty, &extents, &mut |element| argument(element, variant, next))
        }
        other => panic!("{other} is not flat"),
    }
}

/// A tensor, or a slice of one, of these extents.
fn tensor(ty: &HostType, extents: &[usize], element: &mut dyn FnMut(&HostType) -> Value) -> Value {
    let (item, inner) = (ty.item().expect("a tensor has slices"), &extents[1..]);
    let items = (0..extents[0]).map(|_| if inner.is_empty() { element(item) } else { tensor(item, inner, element) });
    Value::Array(items.collect())
}

/// Enough for the examples with small arguments, and not for ever.
pub(crate) fn limits() -> Limits {
    Limits { fuel: 200_000, ..Limits::default() }
}
