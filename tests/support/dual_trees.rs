//! Nested derivatives as an oracle: forward mode only, by trees of dual numbers with tags.
//!
//! An operator gives its variables a tag that nobody has yet. A number is a leaf, or what it is without the greatest of
//! its tags and the derivative with respect to that, which are trees in turn (Siskind and Pearlmutter 2005,
//! "Perturbation confusion and referential transparency"). So second derivatives are derivatives of the formulas for
//! the first ones, evaluated in the same arithmetic; nothing of the engine's components, tapes, levels or reruns is
//! here. A gradient takes a run for each real in the argument.

use super::reference::{Arithmetic, Number, partials, real_value, wide_power};
use dualvm_vm::isa::Op;
use std::rc::Rc;

#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Leaf(f64),
    Dual { tag: u32, primal: Rc<Tree>, tangent: Rc<Tree> },
}

impl Tree {
    /// The result of a function of some numbers, by its value and its partial derivatives where they are free of the
    /// greatest tag.
    fn map(
        args: &[&Tree],
        leaf: impl Fn(&[f64]) -> f64,
        value: impl Fn(&[&Tree]) -> Tree,
        partials: impl Fn(&[Tree], &Tree) -> Vec<Tree>,
    ) -> Tree {
        let tag = args.iter().map(|arg| arg.tag()).max().unwrap_or(0);
        if tag == 0 {
            return Tree::Leaf(leaf(&args.iter().map(|arg| arg.primal()).collect::<Vec<_>>()));
        }
        let (primals, tangents): (Vec<Tree>, Vec<Tree>) = args.iter().map(|arg| arg.split(tag)).unzip();
        let primal = value(&primals.iter().collect::<Vec<_>>());
        let terms = partials(&primals, &primal).into_iter().zip(&tangents);
        let products = terms.map(|(partial, tangent)| partial.op(Op::StrongMul, &[tangent]));
        let tangent = products.reduce(|sum, term| sum.op(Op::Add, &[&term])).unwrap_or(Tree::Leaf(0.0));
        primal.tagged(tag, tangent)
    }
}

impl Arithmetic for Tree {
    fn real(value: f64) -> Self {
        Tree::Leaf(value)
    }
    fn value(&self) -> f64 {
        self.primal()
    }
    fn apply(op: Op, args: &[&Self], ints: &[i64]) -> Self {
        let leaf = |reals: &[f64]| real_value(op, reals, ints);
        if !op.info().differentiable {
            return Tree::Leaf(leaf(&args.iter().map(|arg| arg.primal()).collect::<Vec<_>>()));
        }
        Tree::map(args, leaf, |args| Tree::apply(op, args, ints), |args, r| partials(op, args, ints, r))
    }
    fn power(&self, exponent: i128) -> Self {
        let derivative = |args: &[Tree], _: &Tree| {
            let factor = Tree::Leaf(exponent as f64);
            vec![if exponent == 0 { factor } else { factor.op(Op::StrongMul, &[&args[0].power(exponent - 1)]) }]
        };
        Tree::map(&[self], |reals| wide_power(reals[0], exponent), |args| args[0].power(exponent), derivative)
    }
}

impl Number for Tree {
    const DIFFERENTIATES: bool = true;
    fn constant(primal: f64) -> Self {
        Tree::Leaf(primal)
    }
    fn primal(&self) -> f64 {
        match self {
            Tree::Leaf(primal) => *primal,
            Tree::Dual { primal, .. } => primal.primal(),
        }
    }
    fn combine(_: f64, _: &[(f64, &Self)]) -> Self {
        unreachable!("operations are on trees")
    }
    fn operation(op: Op, args: &[&Self], ints: &[i64]) -> Self {
        Tree::apply(op, args, ints)
    }
    fn tagged(self, tag: u32, tangent: Self) -> Self {
        if matches!(tangent, Tree::Leaf(zero) if zero == 0.0) {
            return self;
        }
        Tree::Dual { tag, primal: Rc::new(self), tangent: Rc::new(tangent) }
    }
    fn tag(&self) -> u32 {
        match self {
            Tree::Leaf(_) => 0,
            Tree::Dual { tag, .. } => *tag,
        }
    }
    fn split(&self, of: u32) -> (Self, Self) {
        match self {
            Tree::Dual { tag, primal, tangent } if *tag == of => ((**primal).clone(), (**tangent).clone()),
            // A tag that was given out later than `of` hides it.
            Tree::Dual { tag, primal, tangent } if *tag > of => {
                let (primal, tangent) = (primal.split(of), tangent.split(of));
                (primal.0.tagged(*tag, tangent.0), primal.1.tagged(*tag, tangent.1))
            }
            _ => (self.clone(), Tree::Leaf(0.0)),
        }
    }
}
