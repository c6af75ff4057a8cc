//! Lengths that a test has found: where `length x == 2` has passed, it is 2.
//!
//! An operator on two arrays asks whether they are as long as each other. If the length of one is known, that of the
//! other one is known where it goes on.

use super::super::arrays::is_trap;
use super::facts::Facts;
use crate::core::{Binding, Body, Comparison, ExprId, ExprKind, Function, Var};
use crate::hash::HashMap;
use crate::limits::Meter;
use dualvm_vm::module::ValueType;
use smallvec::SmallVec;

/// So much is known in one place.
const KNOWN_MAX: usize = 16;

/// Puts numbers in the place of lengths that tests have found; whether there were any.
pub(super) fn put_lengths(function: &mut Function, facts: &Facts, meter: &Meter) -> bool {
    let root = function.root;
    let body = &mut function.body;
    let mut tests = Tests { body, facts, meter, lengths: HashMap::default(), known: Vec::new(), any: false };
    tests.expr(root);
    tests.any
}

struct Tests<'t> {
    body: &'t mut Body,
    facts: &'t Facts,
    meter: &'t Meter,
    /// The arrays whose lengths variables are.
    lengths: HashMap<Var, Var>,
    /// What is known where the walk is: integers, and lengths of arrays.
    known: Vec<(Var, i64)>,
    any: bool,
}

impl Tests<'_> {
    fn expr(&mut self, expr: ExprId) {
        if self.meter.step(self.body.exprs[expr].origin.span) {
            crate::stack::grown(|| self.expr_here(expr));
        }
    }

    fn expr_here(&mut self, expr: ExprId) {
        let outside = self.known.len();
        match self.body.exprs[expr].kind {
            ExprKind::Var(var) if self.body.vars[var] == ValueType::Int => self.put(expr, var),
            ExprKind::Length(_, object) if let ExprKind::Var(var) = self.body.exprs[object].kind => {
                self.put(expr, var);
            }
            ExprKind::If([cond, then, other]) => {
                self.expr(cond);
                for (branch, holds) in [(then, true), (other, false)] {
                    self.passed(cond, holds);
                    self.expr(branch);
                    self.known.truncate(outside);
                }
            }
            ExprKind::Block(ref bindings, value) => {
                let values: Vec<ExprId> = bindings.iter().map(|binding| binding.value).collect();
                for Binding { vars, value } in bindings {
                    let parts = match &self.body.exprs[*value].kind {
                        ExprKind::Values(parts) if parts.len() == vars.len() => &parts[..],
                        _ => std::slice::from_ref(value),
                    };
                    for (&var, &part) in vars.iter().zip(parts) {
                        if let ExprKind::Length(_, object) = self.body.exprs[part].kind
                            && let ExprKind::Var(array) = self.body.exprs[object].kind
                        {
                            self.lengths.insert(var, array);
                        }
                    }
                }
                for value in values {
                    self.expr(value);
                    // What comes after a test that traps is only evaluated if it didn't.
                    if let ExprKind::If([cond, then, other]) = self.body.exprs[self.evaluated(value)].kind {
                        let [then, other] = [then, other].map(|branch| is_trap(self.body, branch));
                        if then != other {
                            self.passed(cond, other);
                        }
                    }
                }
                self.expr(value);
                self.known.truncate(outside);
            }
            _ => {
                let mut children: SmallVec<[ExprId; 4]> = SmallVec::new();
                self.body.exprs[expr].for_each_child(|child| children.push(child));
                children.into_iter().for_each(|child| self.expr(child));
            }
        }
    }

    /// What gives an expression its value, past bindings.
    fn evaluated(&self, mut expr: ExprId) -> ExprId {
        while let ExprKind::Block(_, value) = self.body.exprs[expr].kind {
            expr = value;
        }
        expr
    }

    /// Puts the number that a variable is, or that is the length of the array, in the place of an expression.
    fn put(&mut self, expr: ExprId, var: Var) {
        if let Some(number) = self.found(var) {
            self.body.exprs[expr].kind = ExprKind::Int(number);
            self.any = true;
        }
    }

    /// Notes what is known where a condition holds, or where it doesn't.
    fn passed(&mut self, cond: ExprId, holds: bool) {
        let mut equal: SmallVec<[[ExprId; 2]; 4]> = SmallVec::new();
        let mut pending: SmallVec<[(ExprId, bool); 4]> = SmallVec::from_slice(&[(cond, holds)]);
        while let Some((cond, holds)) = pending.pop()
            && equal.len() < KNOWN_MAX
            && self.meter.steps(1)
        {
            match self.body.exprs[cond].kind {
                ExprKind::Compare(Comparison::Equal, pair) if holds => equal.push(pair),
                ExprKind::Compare(Comparison::NotEqual, pair) if !holds => equal.push(pair),
                ExprKind::Not(operand) => pending.push((operand, !holds)),
                ExprKind::And(pair) if holds => pending.extend(pair.map(|part| (part, true))),
                ExprKind::Or(pair) if !holds => pending.extend(pair.map(|part| (part, false))),
                _ => {}
            }
        }
        // What one of them says may be of use for one before it.
        for _ in 0..2 {
            equal.iter().for_each(|&pair| self.equal(pair));
        }
    }

    fn equal(&mut self, [left, right]: [ExprId; 2]) {
        for (one, other) in [(left, right), (right, left)] {
            let Some(var) = self.counted(one) else { continue };
            let is_known = self.facts.known(var).is_some() || self.found(var).is_some();
            let number = || self.facts.integer(self.body, other).or_else(|| self.found(self.counted(other)?));
            if !is_known
                && self.known.len() < KNOWN_MAX
                && let Some(number) = number()
            {
                self.known.push((var, number));
                self.known.extend(self.lengths.get(&var).map(|&array| (array, number)));
            }
        }
    }

    /// The integer that an expression is, or the array whose length it is.
    fn counted(&self, expr: ExprId) -> Option<Var> {
        let var = match self.body.exprs[expr].kind {
            ExprKind::Length(_, object) => object,
            _ => expr,
        };
        match self.body.exprs[var].kind {
            ExprKind::Var(var) => Some(var),
            _ => None,
        }
    }

    /// What tests have found of a variable.
    fn found(&self, var: Var) -> Option<i64> {
        self.known.iter().rev().find(|(known, _)| *known == var).map(|&(_, number)| number)
    }
}
