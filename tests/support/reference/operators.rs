//! Derivative operators in the reference, for numbers that have tags ([`crate::support::dual_trees`]).

use super::{Machine, Number, Stop, Val};
use dualvm_vm::isa::Op;
use std::collections::HashMap;

/// A derivative that the program gives.
pub(super) struct Rule<'a, N> {
    pub(super) op: Op,
    pub(super) func: usize,
    pub(super) captures: &'a [Val<N>],
}

/// Those values that have tangents.
fn differentiable<N: Number>(vals: &[Val<N>]) -> Vec<&Val<N>> {
    vals.iter().filter(|val| !matches!(val, Val::Int(_))).collect()
}

/// Whether derivatives have the shapes of what they belong to: the trap if one hasn't.
#[inline(never)]
fn check_shapes<N: Number>(vals: &[&Val<N>], derivatives: &[Val<N>]) -> Result<(), Stop> {
    vals.iter().zip(derivatives).try_for_each(|(val, derivative)| Ok(val.check_shape(derivative)?))
}

impl Machine<'_> {
    /// Calls a function with tangents for its arguments behind them, except for the captures. Returns its results, and
    /// their tangents.
    pub(super) fn jvp<N: Number>(
        &mut self,
        func: usize,
        captures: usize,
        given: &[Val<N>],
    ) -> Result<Vec<Val<N>>, Stop> {
        let (args, tangents) = given.split_at(self.module.functions[func].params.len());
        let mut tangents = tangents.iter();
        let mut tangent_of = |n: usize, arg: &Val<N>| match arg {
            Val::Int(_) => arg.clone(),
            _ if n < captures => arg.clone(),
            _ => tangents.next().expect("there is one for each").clone(),
        };
        let tangents: Vec<Val<N>> = args.iter().enumerate().map(|(n, arg)| tangent_of(n, arg)).collect();
        check_shapes(&args.iter().collect::<Vec<_>>(), &tangents)?;
        self.tags += 1;
        let tag = self.tags;
        let pair = |(n, (arg, tangent)): (usize, (&Val<N>, &Val<N>))| match n < captures {
            true => arg.clone(),
            false => arg.zip(tangent, &mut |x, t| x.clone().tagged(tag, t.clone())),
        };
        let args = args.iter().zip(&tangents).enumerate().map(pair).collect();
        let results = self.function(func, args)?;
        let values = results.iter().map(|result| result.map(false, &mut |x| x.split(tag).0));
        let with_tangents = results.iter().filter(|result| !matches!(result, Val::Int(_)));
        let tangents = with_tangents.map(|result| result.map(true, &mut |x| x.split(tag).1));
        Ok(values.chain(tangents).collect())
    }

    /// Calls a function with cotangents for its results behind its arguments. Returns its results, and the cotangents
    /// of its arguments, each real of which takes a further call.
    pub(super) fn vjp<N: Number>(
        &mut self,
        func: usize,
        captures: usize,
        given: &[Val<N>],
    ) -> Result<Vec<Val<N>>, Stop> {
        let (args, cotangents) = given.split_at(self.module.functions[func].params.len());
        let results = self.function(func, args.to_vec())?;
        check_shapes(&differentiable(&results), cotangents)?;
        let mut inputs = 0;
        args[captures..].iter().for_each(|arg| drop(arg.map(false, &mut |x| (inputs += 1, x.clone()).1)));
        let mut gradient = Vec::new();
        for input in 0..inputs {
            self.tags += 1;
            let (tag, mut at) = (self.tags, 0);
            let mut seed = |x: &N| {
                at += 1;
                if at - 1 == input { x.clone().tagged(tag, N::constant(1.0)) } else { x.clone() }
            };
            let seeded = args.iter().enumerate().map(|(n, arg)| match n < captures {
                true => arg.clone(),
                false => arg.map(false, &mut seed),
            });
            let seeded = seeded.collect();
            let results = self.function(func, seeded)?;
            let mut sum = N::constant(0.0);
            let of = results.iter().filter(|result| !matches!(result, Val::Int(_)));
            for (result, cotangent) in of.zip(cotangents) {
                result.zip(cotangent, &mut |y, c| {
                    let term = N::operation(Op::StrongMul, &[&y.split(tag).1, c], &[]);
                    sum = N::operation(Op::Add, &[&sum, &term], &[]);
                    y.clone()
                });
            }
            gradient.push(sum);
        }
        let mut gradient = gradient.into_iter();
        let of = args[captures..].iter().filter(|arg| !matches!(arg, Val::Int(_)));
        let given_back = of.map(|arg| arg.map(true, &mut |_| gradient.next().expect("there is one for each")));
        Ok(results.into_iter().chain(given_back).collect())
    }

    /// A value with the derivative that a function gives. Of the variables that the arguments depend on, the one with
    /// the greatest tag asks the function; older ones differentiate what that says.
    pub(super) fn custom<N: Number>(
        &mut self,
        rule: &Rule<'_, N>,
        args: &[Val<N>],
        value: &[Val<N>],
    ) -> Result<Vec<Val<N>>, Stop> {
        let mut tag = 0;
        let mut greatest = |x: &N| {
            tag = tag.max(x.tag());
            x.clone()
        };
        args.iter().for_each(|arg| drop(arg.map(false, &mut greatest)));
        if tag == 0 {
            return Ok(value.iter().map(|value| value.detached(&mut HashMap::new())).collect());
        }
        let cloned = |vals: &[Val<N>]| -> Vec<Val<N>> { differentiable(vals).into_iter().cloned().collect() };
        let primals: Vec<Val<N>> = args.iter().map(|arg| arg.map(false, &mut |x| x.split(tag).0)).collect();
        let tangents: Vec<Val<N>> = args.iter().map(|arg| arg.map(true, &mut |x| x.split(tag).1)).collect();
        let low = self.custom(rule, &primals, value)?;
        let mut apply =
            |given: Vec<Val<N>>| self.function(rule.func, [rule.captures, &primals[..], &given[..]].concat());
        let mut high = Vec::new();
        if rule.op == Op::CustomJvp {
            let given = apply(cloned(&tangents))?;
            check_shapes(&differentiable(value), &given)?;
            given.iter().for_each(|val| drop(val.map(true, &mut |t| (high.push(t.clone()), t.clone()).1)));
        } else {
            // The function is linear: its transpose is known by what it makes of each unit vector.
            let mut outputs = 0;
            value.iter().for_each(|val| drop(val.map(true, &mut |x| (outputs += 1, x.clone()).1)));
            let tangents = cloned(&tangents);
            for output in 0..outputs {
                let mut at = 0;
                let mut unit = |_: &N| {
                    at += 1;
                    N::constant(if at - 1 == output { 1.0 } else { 0.0 })
                };
                let units: Vec<Val<N>> = value.iter().map(|val| val.map(true, &mut unit)).collect();
                let cotangents = apply(cloned(&units))?;
                check_shapes(&tangents.iter().collect::<Vec<_>>(), &cotangents)?;
                let mut sum = N::constant(0.0);
                for (tangent, cotangent) in tangents.iter().zip(&cotangents) {
                    tangent.zip(cotangent, &mut |t, c| {
                        let term = N::operation(Op::StrongMul, &[t, c], &[]);
                        sum = N::operation(Op::Add, &[&sum, &term], &[]);
                        t.clone()
                    });
                }
                high.push(sum);
            }
        }
        // What the function has captured is constant for this variable and for younger ones.
        let mut high = high.into_iter().map(|mut t| {
            while t.tag() >= tag {
                t = t.split(t.tag()).0;
            }
            t
        });
        let mut tagged = |x: &N| x.clone().tagged(tag, high.next().expect("there is one for each"));
        Ok(low.iter().map(|val| val.map(false, &mut tagged)).collect())
    }
}
