//! A jvp made of a vjp, and the other way round: one call for each real that comes out.
//!
//! Both are products of the Jacobian with a vector, from different sides, and know it by its rows or its columns only:
//! the one gives a row for a unit cotangent, the other a column for a unit tangent. So what is made is, for each unit
//! vector e of what comes out, the inner product ⟨l(x, e), v⟩ of what is given, l, with the vector v that goes in. Its
//! derivative along (a, b) is ⟨l(x, e), b⟩ + ⟨∂l(x, e)/∂x·a, v⟩: two such products, of l and of its jvp. So what is
//! made has derivatives of as many orders as what it is made of.

use super::call::Recorded;
use super::{HostCall, HostError, HostFunction, differentiable, tangents};
use crate::flat::{FlatValue, LeafKind};
use crate::memory::heap::shape_text;

/// The jvp of a function that has this vjp.
pub(super) fn jvp_of_vjp(function: &HostFunction, vjp: &HostFunction) -> HostFunction {
    let outcome = Outcome::Results(function.clone());
    Products { linear: vjp.clone(), args: function.params().to_vec(), outcome, order: vjp.order() }.function()
}

/// The vjp of a function that has this jvp.
pub(super) fn vjp_of_jvp(function: &HostFunction, jvp: &HostFunction) -> HostFunction {
    let outcome = Outcome::Args(function.params().len());
    Products { linear: jvp.clone(), args: function.params().to_vec(), outcome, order: jvp.order() }.function()
}

/// Of what shape the result is: that of what has tangents among the first arguments, or among the results of a function
/// of the first arguments.
#[derive(Clone)]
enum Outcome {
    Args(usize),
    Results(HostFunction),
}

/// Inner products of what a function makes of arguments and unit vectors with another vector.
#[derive(Clone)]
struct Products {
    /// It takes the arguments, then a vector of the outcome's shape, in which it is linear.
    linear: HostFunction,
    args: Vec<LeafKind>,
    outcome: Outcome,
    /// How often it may be differentiated.
    order: u32,
}

impl Products {
    /// As a function of the arguments and the other vector.
    fn function(self) -> HostFunction {
        let vector = self.linear.results();
        let params: Vec<LeafKind> = self.args.iter().chain(vector).copied().collect();
        let results: Vec<LeafKind> = self.linear.params()[self.args.len()..].to_vec();
        let of = self.clone();
        let function = HostFunction::flat(&params, &results, move |call| of.multiply(call));
        if self.order == 0 {
            return function;
        }
        function.with_made_jvp(self.order, move || self.jvp(&params))
    }

    /// The jvp: it takes x, v, a and b.
    fn jvp(&self, params: &[LeafKind]) -> HostFunction {
        let Products { linear, args, outcome, order } = self;
        let [_, of_linear] = linear.derivatives().expect("it is differentiable");
        let (x, e) = (args.len(), linear.params().len() - args.len());
        let along: Vec<LeafKind> = tangents(args).collect();
        let (a, v) = (along.len(), params.len() - x);
        // ∂l(x, e)/∂x·a, of x, a and e: the tangent of e is 0.
        let partial = {
            let params: Vec<LeafKind> = args.iter().chain(&along).chain(&linear.params()[x..]).copied().collect();
            let given = |range: std::ops::Range<usize>| range.map(From::Param);
            let zeros = (x + a..x + a + e).map(From::Zero);
            let from = given(0..x).chain(given(x + a..x + a + e)).chain(given(x..x + a)).chain(zeros).collect();
            rearranged(&of_linear, params, from)
        };
        let all: Vec<LeafKind> = params.iter().copied().chain(tangents(params)).collect();
        let [xs, vs] = [0..x, x..x + v];
        let [by_a, by_b] = [x + v..x + v + a, x + v + a..x + v + a + v];
        let given = |ranges: &[&std::ops::Range<usize>]| -> Vec<From> {
            ranges.iter().flat_map(|&range| range.clone()).map(From::Param).collect()
        };
        let order = order - 1;
        let args_along = args.iter().chain(&along).copied().collect();
        let first = Products { linear: partial, args: args_along, outcome: outcome.clone(), order }.function();
        let first = rearranged(&first, all.clone(), given(&[&xs, &by_a, &vs]));
        let second = Products { order, ..self.clone() }.function();
        sum(first, rearranged(&second, all, given(&[&xs, &by_b])))
    }

    fn multiply(&self, call: &mut HostCall<'_>) -> Result<(), HostError> {
        let (args, vector) = call.args().split_at(self.args.len());
        let mut unit: Vec<Recorded> = match &self.outcome {
            Outcome::Args(count) => {
                let of_args = differentiable(&self.args[..*count]);
                of_args.map(|(n, _)| zero_like(args[n])).collect()
            }
            Outcome::Results(function) => {
                let results = call.nested(function, &args[..function.params().len()])?;
                differentiable(function.results()).map(|(n, _)| zero_like(results[n].value())).collect()
            }
        };
        for n in 0..unit.len() {
            let count = match &unit[n] {
                Recorded::Reals(xs) => xs.len(),
                Recorded::Real(_) => 1,
                shape @ (Recorded::Int(_) | Recorded::Ints(_)) => {
                    call.give(shape.value())?;
                    continue;
                }
            };
            let mut products = Vec::with_capacity(count);
            for index in 0..count {
                call.check()?;
                *component(&mut unit[n], index) = 1.0;
                let all: Vec<FlatValue<'_>> = args.iter().copied().chain(unit.iter().map(Recorded::value)).collect();
                let row = call.nested(&self.linear, &all)?;
                products.push(product(&row, vector)?);
                *component(&mut unit[n], index) = 0.0;
            }
            match unit[n] {
                Recorded::Real(_) => call.give(products[0])?,
                _ => call.give(&products[..])?,
            }
        }
        Ok(())
    }
}

/// Where an argument of a function comes from that another one calls.
#[derive(Clone, Copy)]
enum From {
    /// An argument of that one.
    Param(usize),
    /// Zeros in the shape of an argument of that one; of what is a shape, that.
    Zero(usize),
}

/// A function with other parameters that calls this one.
fn rearranged(function: &HostFunction, params: Vec<LeafKind>, from: Vec<From>) -> HostFunction {
    let (called, order) = (function.clone(), from.clone());
    let arranged = HostFunction::flat(&params, function.results(), move |call| {
        let zero = |from: &From| match *from {
            From::Param(_) => None,
            From::Zero(n) => Some(zero_like(call.args()[n])),
        };
        let zeros: Vec<Option<Recorded>> = order.iter().map(zero).collect();
        let mut args: Vec<FlatValue<'_>> = Vec::with_capacity(order.len());
        for (from, zero) in order.iter().zip(&zeros) {
            args.push(match (*from, zero) {
                (From::Param(n), _) => call.args()[n],
                (From::Zero(_), zero) => zero.as_ref().expect("it was made").value(),
            });
        }
        let given = call.nested(&called, &args)?;
        given.iter().try_for_each(|value| call.give(value.value()))
    });
    if function.order() == 0 {
        return arranged;
    }
    let function = function.clone();
    arranged.with_made_jvp(function.order(), move || {
        let [_, jvp] = function.derivatives().expect("it is differentiable");
        // The tangents of the parameters, behind these, and which one is whose.
        let tangent = |param: usize| params.len() + differentiable(&params).take_while(|&(n, _)| n < param).count();
        let of_params = differentiable(function.params()).map(|(n, _)| match from[n] {
            From::Param(n) => From::Param(tangent(n)),
            From::Zero(n) => From::Zero(n),
        });
        let from = from.iter().copied().chain(of_params).collect();
        rearranged(&jvp, params.iter().copied().chain(tangents(&params)).collect(), from)
    })
}

/// The sum of two functions with the same parameters and results, all of which are of reals or shapes.
fn sum(first: HostFunction, second: HostFunction) -> HostFunction {
    let parts = [first.clone(), second.clone()];
    let added = HostFunction::flat(first.params(), first.results(), move |call| {
        let mut total = call.nested(&parts[0], call.args())?;
        for (total, more) in total.iter_mut().zip(call.nested(&parts[1], call.args())?) {
            match (total, more) {
                (Recorded::Real(total), Recorded::Real(more)) => *total += more,
                (Recorded::Reals(total), Recorded::Reals(more)) if total.len() == more.len() => {
                    total.iter_mut().zip(more).for_each(|(total, more)| *total += more);
                }
                (Recorded::Ints(shape), Recorded::Ints(other)) if *shape == other => {}
                _ => return Err(HostError::new("derivatives of a derivative are of different shapes")),
            }
        }
        total.iter().try_for_each(|value| call.give(value.value()))
    });
    let order = first.order().min(second.order());
    if order == 0 {
        return added;
    }
    added.with_made_jvp(order, move || {
        let jvp = |function: &HostFunction| {
            let [_, jvp] = function.derivatives().expect("it is differentiable");
            jvp
        };
        sum(jvp(&first), jvp(&second))
    })
}

/// Zeros in the shape of something that has tangents; of a shape, that itself.
fn zero_like(value: FlatValue<'_>) -> Recorded {
    match value {
        FlatValue::Reals(xs) => Recorded::Reals(vec![0.0; xs.len()]),
        FlatValue::Ints(shape) => Recorded::Ints(shape.to_vec()),
        _ => Recorded::Real(0.0),
    }
}

/// One of the reals of a vector.
fn component(vector: &mut Recorded, index: usize) -> &mut f64 {
    match vector {
        Recorded::Real(x) => x,
        Recorded::Reals(xs) => &mut xs[index],
        Recorded::Int(_) | Recorded::Ints(_) => unreachable!("only what is real has derivatives"),
    }
}

/// The inner product of two vectors, from the first pair on. Where one of a pair is zero, so is their product.
fn product(row: &[Recorded], by: &[FlatValue<'_>]) -> Result<f64, HostError> {
    let mut sum = 0.0;
    let mut add = |a: f64, b: f64| {
        if a != 0.0 && b != 0.0 {
            sum += a * b;
        }
    };
    for (n, (a, b)) in row.iter().zip(by).enumerate() {
        match (a, b) {
            (Recorded::Real(a), FlatValue::Real(b)) => add(*a, *b),
            (Recorded::Reals(xs), FlatValue::Reals(ys)) if xs.len() == ys.len() => {
                xs.iter().zip(*ys).for_each(|(&a, &b)| add(a, b));
            }
            (Recorded::Ints(shape), FlatValue::Ints(other)) if shape == other => {}
            (a, b) => {
                let (a, b) = (described(a.value()), described(*b));
                return Err(HostError::new(format_args!("derivative {n} has another shape: expected {b}, found {a}")));
            }
        }
    }
    Ok(sum)
}

/// What a derivative is, for messages: its integers are shapes.
fn described(value: FlatValue<'_>) -> String {
    match value {
        FlatValue::Ints(shape) => format!("the shape {}", shape_text(shape)),
        other => other.found(),
    }
}
