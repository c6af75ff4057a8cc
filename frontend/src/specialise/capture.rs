//! What functions capture: the variables from outside that their text needs.
//!
//! A function that a `let` defines captures variables only, those that the functions it mentions need among them. So a
//! mention of it finds all that it captures in scope, and a chain of functions that mention each other hands each
//! variable on once.

use super::form::{Code, Value};
use super::{Elaborator, Specialiser};
use crate::ast::{ExprId, ExprKind, Let, LocalFunctionId};
use crate::limits::Count;
use crate::resolve::{LocalId, Meaning};
use std::rc::Rc;

/// So many captures count as one node.
const CAPTURED_PER_NODE: usize = 8;
/// So many captured values do.
const VALUES_PER_NODE: usize = 2;

/// Something from outside that a text mentions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Free {
    /// A variable.
    Local(LocalId),
    /// A local function.
    Function(LocalFunctionId),
}

impl Specialiser<'_> {
    /// The variables and local functions from outside that the text of a code mentions.
    fn mentions(&mut self, code: Code) -> Rc<[Free]> {
        if let Some(found) = self.mentions.get(&code) {
            return found.clone();
        }
        let (ast, resolved, is_traced) = (self.ast, self.resolved, self.is_traced);
        let (start, began) = match code {
            Code::Lambda(expr) => {
                let (_, body) = ast.anonymous(expr).expect("a lambda's code is a function");
                let times = if matches!(ast.exprs[expr].kind, ExprKind::Loop { .. } | ExprKind::Comprehension(_)) {
                    &resolved.loop_times
                } else {
                    &resolved.times
                };
                (body, times[&expr])
            }
            Code::Branch(expr) => (expr, resolved.times[&expr]),
            Code::Local(function) => (ast.functions[function].body, resolved.function_times[function][1]),
            _ => unreachable!("only what is in a text captures anything"),
        };
        let is_outside = |free: &Free| match *free {
            Free::Local(local) => local < began,
            Free::Function(function) => resolved.function_times[function][0] < began,
        };
        let mut found: Vec<Free> = Vec::new();
        let mut pending: Vec<ExprId> = vec![start];
        while let Some(expr) = pending.pop() {
            if !self.meter.step(ast.exprs[expr].span) {
                break;
            }
            match resolved.meanings[expr] {
                Some(Meaning::Local(local)) => found.push(Free::Local(local)),
                Some(Meaning::Function(function)) => found.push(Free::Function(function)),
                _ => {}
            }
            // What is inside of another code is looked at once.
            let mut inner = |code: Code| {
                let mentions = crate::stack::grown(|| self.mentions(code));
                self.meter.steps(mentions.len());
                found.extend(mentions.iter());
            };
            match &ast.exprs[expr].kind {
                ExprKind::Lambda(..) => inner(Code::Lambda(expr)),
                ExprKind::Par(parts) => parts.iter().for_each(|&part| inner(Code::Branch(part))),
                ExprKind::Fail(text) => text.values.into_iter().for_each(|values| inner(Code::Branch(values))),
                ExprKind::Trace(text, body) => {
                    let values = text.values.filter(|_| is_traced);
                    values.into_iter().for_each(|values| inner(Code::Branch(values)));
                    pending.push(*body);
                }
                ExprKind::Block(lets, body) => {
                    for binding in lets {
                        match binding {
                            Let::Value { value, .. } => pending.push(*value),
                            Let::Functions(functions) => functions.iter().for_each(|&f| inner(Code::Local(f))),
                            Let::Alias(function) => inner(Code::Local(*function)),
                        }
                    }
                    pending.push(*body);
                }
                other => ast.for_each_child(other, |child| pending.push(child)),
            }
        }
        found.retain(is_outside);
        found.sort_unstable();
        found.dedup();
        self.meter.nodes(Count::Code, found.len() / CAPTURED_PER_NODE);
        let found: Rc<[Free]> = found.into();
        self.mentions.insert(code, found.clone());
        found
    }

    /// Finds out what the functions of a `let` capture, all of them the same.
    pub(super) fn capture_group(&mut self, functions: &[LocalFunctionId]) {
        if !self.environments.contains_key(&Code::Local(functions[0])) {
            let codes: Vec<Code> = functions.iter().map(|&function| Code::Local(function)).collect();
            let captured = self.environment_of(&codes, functions);
            self.environments.extend(codes.into_iter().map(|code| (code, captured.clone())));
        }
    }

    /// The variables that a code captures.
    fn environment(&mut self, code: Code) -> Rc<[LocalId]> {
        if let Some(known) = self.environments.get(&code) {
            return known.clone();
        }
        let captured = self.environment_of(&[code], &[]);
        self.environments.insert(code, captured.clone());
        captured
    }

    /// What several codes capture together; `own` are the functions among them.
    fn environment_of(&mut self, codes: &[Code], own: &[LocalFunctionId]) -> Rc<[LocalId]> {
        let mut captured: Vec<LocalId> = Vec::new();
        for &code in codes {
            for free in self.mentions(code).iter() {
                match *free {
                    Free::Local(local) => captured.push(local),
                    // The functions of a `let` are numbered in the order of the text.
                    Free::Function(function) if own.binary_search(&function).is_ok() => {}
                    Free::Function(function) => {
                        let needed = &self.environments[&Code::Local(function)];
                        self.meter.steps(needed.len());
                        captured.extend(needed.iter());
                    }
                }
            }
        }
        captured.sort_unstable();
        captured.dedup();
        self.meter.nodes(Count::Code, captured.len() / CAPTURED_PER_NODE);
        captured.into()
    }
}

impl Elaborator<'_, '_> {
    /// The values that a code captures here.
    pub(super) fn captured(&mut self, code: Code) -> Vec<Value> {
        let locals = self.program.environment(code);
        self.program.meter.nodes(Count::Code, locals.len() / VALUES_PER_NODE);
        locals.iter().map(|local| self.locals[local].clone()).collect()
    }
}
