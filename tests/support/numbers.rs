//! What a real can be in the reference: a plain number, or one of three kinds of dual number.

use super::reference::{Number, strong};
use std::cell::RefCell;
use std::rc::Rc;

impl Number for f64 {
    const DIFFERENTIATES: bool = false;
    fn constant(primal: f64) -> Self {
        primal
    }
    fn primal(&self) -> f64 {
        *self
    }
    fn combine(primal: f64, _: &[(f64, &Self)]) -> Self {
        primal
    }
    fn tag(&self) -> u32 {
        0
    }
}

/// Forward mode: a number and its derivative in one direction.
#[derive(Clone, Copy)]
pub(crate) struct Forward {
    pub(crate) primal: f64,
    pub(crate) tangent: f64,
}

impl Number for Forward {
    const DIFFERENTIATES: bool = true;
    fn constant(primal: f64) -> Self {
        Forward { primal, tangent: 0.0 }
    }
    fn primal(&self) -> f64 {
        self.primal
    }
    fn combine(primal: f64, terms: &[(f64, &Self)]) -> Self {
        let tangent = terms.iter().map(|(partial, arg)| strong(*partial, arg.tangent)).sum::<f64>();
        Forward { primal, tangent }
    }
}

/// Where backpropagators put their contributions.
#[derive(Default)]
pub(crate) struct Sink {
    pub(crate) gradient: Vec<f64>,
    /// Calls that may still be made: their number can be exponential in the length of the program.
    pub(crate) calls_left: u64,
}

type Backpropagator = Rc<dyn Fn(f64, &mut Sink)>;

/// Naive dual-numbers reverse AD (Smeding and Vákár 2024, section 5): a number and a linear function that takes the
/// number's cotangent to the gradient of the input. `None` is the function that is zero.
#[derive(Clone)]
pub(crate) struct Naive {
    primal: f64,
    back: Option<Backpropagator>,
}

impl Naive {
    /// The n-th input.
    pub(crate) fn input(n: usize, primal: f64) -> Self {
        Naive { primal, back: Some(Rc::new(move |z, sink: &mut Sink| sink.gradient[n] += z)) }
    }

    /// The gradient with respect to `inputs` inputs, or `None` if it takes too many calls.
    pub(crate) fn gradient(&self, inputs: usize, calls_max: u64) -> Option<Vec<f64>> {
        let mut sink = Sink { gradient: vec![0.0; inputs], calls_left: calls_max };
        if let Some(back) = &self.back {
            back(1.0, &mut sink);
        }
        (sink.calls_left > 0).then_some(sink.gradient)
    }
}

impl Number for Naive {
    const DIFFERENTIATES: bool = true;
    fn constant(primal: f64) -> Self {
        Naive { primal, back: None }
    }
    fn primal(&self) -> f64 {
        self.primal
    }
    fn combine(primal: f64, terms: &[(f64, &Self)]) -> Self {
        let terms: Vec<(f64, Backpropagator)> =
            terms.iter().filter_map(|(partial, arg)| Some((*partial, arg.back.clone()?))).collect();
        if terms.is_empty() {
            return Self::constant(primal);
        }
        let back = move |z: f64, sink: &mut Sink| {
            sink.calls_left = sink.calls_left.saturating_sub(1);
            if sink.calls_left > 0 {
                for (partial, back) in &terms {
                    let contribution = strong(*partial, z);
                    // A linear function of zero is zero: not calling it changes nothing but the time.
                    if contribution != 0.0 {
                        back(contribution, sink);
                    }
                }
            }
        };
        Naive { primal, back: Some(Rc::new(back)) }
    }
}

/// The operations of a run in order, each with its partial derivatives and the operations that its arguments come from.
#[derive(Default)]
struct Operations {
    terms: Vec<Vec<(f64, usize)>>,
    singular: bool,
}

thread_local! {
    static OPERATIONS: RefCell<Operations> = RefCell::default();
}

/// Reverse mode with an entry per operation: linear time, and the order of sums is that of the program.
#[derive(Clone, Copy)]
pub(crate) struct Taped {
    primal: f64,
    at: Option<usize>,
}

/// What the reverse sweep over all operations gives.
pub(crate) struct TapedGradient {
    pub(crate) gradient: Vec<f64>,
    /// For each input the sum of the absolute values of all products of partials: how large the terms are that cancel.
    pub(crate) magnitude: Vec<f64>,
    /// Whether a partial derivative was infinite or NaN.
    pub(crate) singular: bool,
    /// The largest absolute value on the way.
    pub(crate) largest: f64,
}

impl Taped {
    /// Forgets the operations before.
    pub(crate) fn begin() {
        OPERATIONS.with_borrow_mut(|operations| *operations = Operations::default());
    }

    /// An input. Inputs are made before anything else, and are numbered from 0.
    pub(crate) fn input(primal: f64) -> Self {
        Taped { primal, at: Some(Self::append(Vec::new())) }
    }

    fn append(terms: Vec<(f64, usize)>) -> usize {
        OPERATIONS.with_borrow_mut(|operations| {
            operations.singular |= terms.iter().any(|(partial, _)| !partial.is_finite());
            operations.terms.push(terms);
            operations.terms.len() - 1
        })
    }

    /// The gradient with respect to `inputs` inputs.
    pub(crate) fn gradient(&self, inputs: usize) -> TapedGradient {
        OPERATIONS.with_borrow(|operations| {
            let len = operations.terms.len();
            let (mut adjoints, mut magnitudes) = (vec![0.0; len], vec![0.0; len]);
            let mut largest = 0f64;
            if let Some(at) = self.at {
                (adjoints[at], magnitudes[at]) = (1.0, 1.0);
            }
            for (at, terms) in operations.terms.iter().enumerate().rev() {
                for &(partial, from) in terms {
                    adjoints[from] += strong(partial, adjoints[at]);
                    magnitudes[from] += strong(partial.abs(), magnitudes[at]);
                }
                largest = largest.max(f64::max(magnitudes[at], if magnitudes[at].is_nan() { f64::MAX } else { 0.0 }));
            }
            adjoints.truncate(inputs);
            magnitudes.truncate(inputs);
            TapedGradient { gradient: adjoints, magnitude: magnitudes, singular: operations.singular, largest }
        })
    }
}

impl Number for Taped {
    const DIFFERENTIATES: bool = true;
    fn constant(primal: f64) -> Self {
        Taped { primal, at: None }
    }
    fn primal(&self) -> f64 {
        self.primal
    }
    fn combine(primal: f64, terms: &[(f64, &Self)]) -> Self {
        let terms: Vec<(f64, usize)> = terms.iter().filter_map(|(partial, arg)| Some((*partial, arg.at?))).collect();
        let at = if terms.is_empty() { None } else { Some(Self::append(terms)) };
        Taped { primal, at }
    }
}
