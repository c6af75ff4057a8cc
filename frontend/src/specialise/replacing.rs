//! `{ a with [i] = e, [j .. k] = xs }`: arrays with other elements.
//!
//! A part is replaced element by element, in loops as a program would write them, so that an array is changed where it
//! is under the same conditions.

use super::Elaborator;
use super::elementwise::Part;
use super::form::Shaped;
use crate::ast::{self, Replacement, Subscript};
use crate::core::{Atom, Binding, ExprId, ExprKind, Inside, Iteration, Loop, Range};
use crate::list::List;
use crate::mono::{Mono, MonoNode};
use crate::prelude::Implied;
use crate::source::Span;
use dualvm_vm::isa::Op;

/// What takes the place of an element or a part, once that is computed.
enum Ready {
    /// The indices, and the element.
    Element(Vec<Shaped>),
    /// The part, and an array of its shape.
    Part(Vec<Part>, (Atom, Mono)),
}

impl Elaborator<'_, '_> {
    /// What stands in all places is computed before the first one is replaced: an array that is read later can't be
    /// changed where it is.
    pub(super) fn replace(&mut self, array: ast::ExprId, replacements: &[Replacement], ty: Mono, span: Span) -> Shaped {
        let is_part = |replacement: &Replacement| replacement.subscripts.iter().any(|subscript| subscript.is_range());
        let has_parts = replacements.iter().any(is_part);
        let are_named = has_parts || replacements.len() > 1;
        let mut bindings = Vec::new();
        let mut made = self.shaped(array);
        if has_parts {
            made = self.materialised(made);
        }
        if are_named {
            made = self.named_shaped(made, &mut bindings, span);
        }
        let mut ready = Vec::with_capacity(replacements.len());
        for replacement in replacements {
            ready.push(if is_part(replacement) {
                let array = self.name_value(made.expr, &mut bindings);
                self.ready_part((array, ty), replacement, &mut bindings)
            } else {
                let indices = replacement.subscripts.iter().filter_map(|subscript| match *subscript {
                    Subscript::At(index) => Some(index),
                    Subscript::Range(..) => None,
                });
                let parts = indices.chain([replacement.value]).map(|expr| {
                    let value = self.shaped(expr);
                    if are_named { self.named_shaped(value, &mut bindings, span) } else { value }
                });
                Ready::Element(parts.collect())
            });
        }
        for (replacement, ready) in replacements.iter().zip(ready) {
            made = match ready {
                Ready::Element(parts) => self.replace_element(made, parts, ty, span),
                Ready::Part(parts, value) => {
                    let array = self.materialised(made);
                    let array = self.name_value(array.expr, &mut bindings);
                    let made = self.replace_part((array, ty), &parts, value, replacement.span);
                    self.plain_shaped(made, ty)
                }
            };
        }
        self.block_shaped(bindings, made)
    }

    fn replace_element(&mut self, array: Shaped, parts: Vec<Shaped>, ty: Mono, span: Span) -> Shaped {
        let (int, element) = (self.program.monos.int, self.program.monos.element(ty));
        let dimensions = parts.len() - 1;
        let mut params = vec![ty];
        params.resize(1 + dimensions, int);
        params.push(element);
        let whole = self.function_type(&params, ty);
        let of_rank = [Implied::Replace, Implied::Replace2, Implied::Replace3, Implied::Replace4];
        let function = self.implied(of_rank[dimensions - 1], &[element], whole, span);
        let mut args = vec![array];
        args.extend(parts);
        self.apply(function, args, ty, span)
    }

    /// Computes which part of a named array is replaced, and what takes its place, and has both looked at.
    fn ready_part(&mut self, array: (Atom, Mono), replacement: &Replacement, bindings: &mut Vec<Binding>) -> Ready {
        let span = replacement.span;
        let subscripts = (0..).zip(&replacement.subscripts);
        let parts: Vec<Part> = subscripts
            .map(|(dimension, &subscript)| self.subscript(array, dimension, subscript, bindings, span))
            .collect();
        self.check_indices(array, &parts, bindings, span);
        let value = self.shaped(replacement.value);
        let value = self.materialised(value);
        let value = (self.name_value(value.expr, bindings), self.type_of(replacement.value));
        let ranges = parts.iter().filter_map(|part| match part {
            &Part::Range(ends) => Some(ends),
            Part::At(_) => None,
        });
        for (dimension, ends) in (0..).zip(ranges) {
            let (count, given) = (self.distance(ends, span), self.size(value, dimension, span));
            let sizes = [count, given].map(|size| self.name_value(size, bindings));
            self.check(Implied::CheckPart, &sizes, bindings, span);
        }
        Ready::Part(parts, value)
    }

    /// How many indices there are from one to another that isn't less.
    fn distance(&mut self, [from, to]: [Atom; 2], span: Span) -> ExprId {
        let last = self.atom(to, span);
        if from == Atom::Int(0) {
            return last;
        }
        let first = self.atom(from, span);
        self.make(ExprKind::Scalar(Op::ISub, List::from([last, first])), self.program.monos.int, span)
    }

    /// A named array in which another one, of as many dimensions as there are ranges, takes the place of a part.
    fn replace_part(&mut self, array: (Atom, Mono), parts: &[Part], value: (Atom, Mono), span: Span) -> ExprId {
        let int = self.program.monos.int;
        let (array_type, value_type) = (self.array_type(array.1), self.array_type(value.1));
        // The loops, from the outermost one on, each with the elements that it carries.
        let mut loops = Vec::new();
        let mut indices = Vec::with_capacity(parts.len());
        for part in parts {
            indices.push(match *part {
                Part::At(index) => self.atom(index, span),
                Part::Range([from, to]) => {
                    let count = self.distance([from, to], span);
                    let (index, elements) = (self.index_var(), self.elements_var(array.1));
                    loops.push((index, elements, count));
                    let nth = self.atom(Atom::Var(index), span);
                    match from {
                        Atom::Int(0) => nth,
                        _ => {
                            let first = self.atom(from, span);
                            self.make(ExprKind::Scalar(Op::IAdd, List::from([first, nth])), int, span)
                        }
                    }
                }
            });
        }
        let place = self.flat_index(array, indices, span);
        let given = loops.iter().map(|&(index, ..)| self.atom(Atom::Var(index), span)).collect();
        let given = [self.elements(value, span), self.flat_index(value, given, span)];
        let element = self.program.monos.element(value.1);
        let element = self.make(ExprKind::Element(value_type, given, Inside::Tested), element, span);
        let carried = loops.last().map(|&(_, elements, _)| elements).expect("a part has a range");
        let carried = self.atom(Atom::Var(carried), span);
        let mut body = self.make_elements(ExprKind::Replace(array_type, [carried, place, element]), array.1, span);
        for at in (0..loops.len()).rev() {
            let (index, elements, to) = loops[at];
            let init = match at.checked_sub(1) {
                Some(outer) => self.atom(Atom::Var(loops[outer].1), span),
                None => self.elements(array, span),
            };
            let range = Range { index, from: self.atom(Atom::Int(0), span), to };
            let repeat = Loop { vars: List::from([elements]), init, iteration: Iteration::Range(range), body };
            body = self.make_elements(ExprKind::Loop(Box::new(repeat)), array.1, span);
        }
        match self.program.monos.node(array.1) {
            &MonoNode::Tensor(rank, _) => {
                let sizes = (0..rank.into()).map(|dimension| self.size(array, dimension, span)).collect::<Vec<_>>();
                let parts = [body].into_iter().chain(sizes).collect();
                self.make(ExprKind::Construct(0, parts), array.1, span)
            }
            _ => body,
        }
    }
}
