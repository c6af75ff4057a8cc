//! Operators on arrays: arithmetic element by element, and parts. What is done is in the prelude.

use super::Elaborator;
use super::form::{Code, FormNode, Shaped};
use crate::ast::{self, Arithmetic, Side, Subscript};
use crate::builtins::Builtin;
use crate::core::{Atom, Binding, Collect, Comparison, ExprId, ExprKind, Field, Inside, Range, Var};
use crate::list::List;
use crate::mono::{Mono, MonoNode};
use crate::prelude::Implied;
use crate::resolve::Meaning;
use crate::source::Span;
use crate::types::Kind;
use dualvm_vm::isa::Op;

/// What stands for an index in a part of an array of several dimensions.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// The index itself.
    At(Atom),
    /// All from one to another.
    Range([Atom; 2]),
}

impl Elaborator<'_, '_> {
    /// The kind of an array; `None` of what is none.
    pub(super) fn array_kind(&self, ty: Mono) -> Option<Kind> {
        match self.program.monos.node(ty) {
            MonoNode::Array(_) => Some(Kind::Array),
            &MonoNode::Tensor(rank, _) => Some(Kind::Tensor(rank)),
            _ => None,
        }
    }

    /// `xs + ys` of arrays of a type.
    pub(super) fn elementwise(&mut self, op: ast::BinaryOp, pair: [Shaped; 2], ty: Mono, span: Span) -> Shaped {
        let element = self.program.monos.element(ty);
        let function = self.function_type(&[element, element], element);
        let whole = self.function_type(&[function, ty, ty], ty);
        let kind = self.program.monos.kind(self.array_kind(ty).unwrap_or(Kind::DEFAULT));
        let both = self.implied(Implied::Elementwise, &[element, element, element, kind], whole, span);
        let function = self.known(Code::Operator(op, function), function, span);
        let mut bindings = Vec::new();
        let pair = pair.map(|operand| self.named_shaped(operand, &mut bindings, span));
        let made = self.apply(both, vec![function, pair[0], pair[1]], ty, span);
        self.block_shaped(bindings, made)
    }

    /// `xs .+ y` and `y +. xs`: an array of a type and a number, as they are written.
    pub(super) fn spread(&mut self, (op, side): (Arithmetic, Side), pair: [Shaped; 2], ty: Mono, span: Span) -> Shaped {
        let element = self.program.monos.element(ty);
        let mut bindings = Vec::new();
        let pair = pair.map(|operand| self.named_shaped(operand, &mut bindings, span));
        let (array, number) = if side == Side::Left { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
        let binary = self.function_type(&[element, element], element);
        let function = self.function_type(&[element], element);
        let operator = self.known(Code::Operator(op.op(), binary), binary, span);
        let function = match side {
            Side::Right => self.apply(operator, vec![number], function, span),
            Side::Left => {
                let types = self.program.no_types;
                let captures = Box::new([operator.form, number.form]);
                let code = Code::Flip(function);
                let form = self.form(FormNode::Function { ty: function, code, types, captures });
                self.make_form(ExprKind::Values(List::from([operator.expr, number.expr])), form, span)
            }
        };
        let made = self.mapped(function, array, ty, span);
        self.block_shaped(bindings, made)
    }

    /// A function of elements applied to those of an array, of the type that it has.
    fn mapped(&mut self, function: Shaped, array: Shaped, ty: Mono, span: Span) -> Shaped {
        let element = self.program.monos.element(ty);
        let function_type = self.program.forms.mono(function.form);
        let whole = self.function_type(&[function_type, ty], ty);
        let kind = self.program.monos.kind(self.array_kind(ty).unwrap_or(Kind::DEFAULT));
        let map = self.implied(Implied::Map, &[element, element, kind], whole, span);
        self.apply(map, vec![function, array], ty, span)
    }

    /// `-xs` of an array of a type.
    pub(super) fn negated(&mut self, array: Shaped, ty: Mono, span: Span) -> Shaped {
        let element = self.program.monos.element(ty);
        let whole = self.function_type(&[ty], ty);
        let kind = self.program.monos.kind(self.array_kind(ty).unwrap_or(Kind::DEFAULT));
        let negate = self.implied(Implied::Negate, &[kind, element], whole, span);
        self.apply(negate, vec![array], ty, span)
    }

    /// The same value with names for its registers, so that it was evaluated.
    pub(super) fn named_shaped(&mut self, value: Shaped, bindings: &mut Vec<Binding>, span: Span) -> Shaped {
        let value = self.name_shaped(value, bindings);
        self.of_value(&value, span)
    }

    /// An expression that has the plain form.
    pub(super) fn plain_shaped(&mut self, expr: ExprId, ty: Mono) -> Shaped {
        Shaped { expr, form: self.plain(ty) }
    }

    /// `xs[i]`, `m[i, j]` and parts of arrays, after the array.
    pub(super) fn index(
        &mut self,
        (array, first): (ast::ExprId, Shaped),
        subscripts: &[Subscript],
        ty: Mono,
        span: Span,
    ) -> Shaped {
        let array_type = self.type_of(array);
        match *subscripts {
            [Subscript::At(index)] if self.program.monos.is_list(array_type) => {
                let int = self.program.monos.int;
                let whole = self.function_type(&[array_type, int], ty);
                let element = self.implied(Implied::Element, &[ty], whole, span);
                let index = self.shaped(index);
                self.apply(element, vec![first, index], ty, span)
            }
            [Subscript::At(index)] => {
                let pair = [self.materialised(first).expr, self.expr(index)];
                // Only the prelude can name this builtin, and it looks at the indices before.
                let is_checked = matches!(
                    self.program.ast.exprs[array].kind,
                    ast::ExprKind::Apply(callee, _)
                        if self.program.resolved.meanings[callee] == Some(Meaning::Builtin(Builtin::Elements))
                );
                let inside = if is_checked { Inside::Always } else { Inside::Unknown };
                self.make_plain(ExprKind::Element(self.array_type(array_type), pair, inside), ty, span)
            }
            [Subscript::Range(from, to)] => self.slice(first, array_type, [from, to], span),
            _ => {
                let mut bindings = Vec::new();
                let first = self.materialised(first);
                let tensor = self.name_value(first.expr, &mut bindings);
                let tensor = (tensor, array_type);
                let parts: Vec<Part> = (0..)
                    .zip(subscripts)
                    .map(|(dimension, &subscript)| self.subscript(tensor, dimension, subscript, &mut bindings, span))
                    .collect();
                if subscripts.iter().any(|subscript| subscript.is_range()) {
                    self.check_indices(tensor, &parts, &mut bindings, span);
                }
                let made = self.part_of_tensor(tensor, &parts, ty, &mut bindings, span);
                let made = self.plain_shaped(made, ty);
                self.block_shaped(bindings, made)
            }
        }
    }

    /// `xs[from .. to]` of a list or an array.
    fn slice(&mut self, xs: Shaped, ty: Mono, ends: [Option<ast::ExprId>; 2], span: Span) -> Shaped {
        let (int, element) = (self.program.monos.int, self.program.monos.element(ty));
        let kind = if self.program.monos.is_list(ty) { Kind::List } else { Kind::Array };
        let kind = self.program.monos.kind(kind);
        let mut args = vec![xs];
        args.push(match ends[0] {
            Some(from) => self.shaped(from),
            None => {
                let zero = self.atom(Atom::Int(0), span);
                self.plain_shaped(zero, int)
            }
        });
        let implied = match ends[1] {
            Some(to) => {
                args.push(self.shaped(to));
                Implied::Slice
            }
            None => Implied::SliceFrom,
        };
        let mut params = vec![ty];
        params.resize(args.len(), int);
        let whole = self.function_type(&params, ty);
        let slice = self.implied(implied, &[kind, element], whole, span);
        self.apply(slice, args, ty, span)
    }

    /// A subscript of a named array, checked if it is a range.
    pub(super) fn subscript(
        &mut self,
        array: (Atom, Mono),
        dimension: u16,
        subscript: Subscript,
        bindings: &mut Vec<Binding>,
        span: Span,
    ) -> Part {
        let (from, to) = match subscript {
            Subscript::At(index) => {
                let index = self.expr(index);
                return Part::At(self.name_value(index, bindings));
            }
            Subscript::Range(from, to) => (from, to),
        };
        let size = self.size(array, dimension, span);
        let size = self.name_value(size, bindings);
        if from.is_none() && to.is_none() {
            return Part::Range([Atom::Int(0), size]);
        }
        let mut end = |end: Option<ast::ExprId>, otherwise: Atom| match end {
            Some(end) => {
                let end = self.expr(end);
                self.name_value(end, bindings)
            }
            None => otherwise,
        };
        let ends = [end(from, Atom::Int(0)), end(to, size)];
        self.check(Implied::CheckRange, &[ends[0], ends[1], size], bindings, span);
        Part::Range(ends)
    }

    /// Looks at the indices of a part once, before its elements.
    pub(super) fn check_indices(
        &mut self,
        array: (Atom, Mono),
        parts: &[Part],
        bindings: &mut Vec<Binding>,
        span: Span,
    ) {
        for (dimension, part) in (0..).zip(parts) {
            if let &Part::At(index) = part {
                let size = self.size(array, dimension, span);
                let size = self.name_value(size, bindings);
                self.check(Implied::CheckIndex, &[index, size], bindings, span);
            }
        }
    }

    /// Has a function of the prelude look at integers, and trap if they aren't right.
    pub(super) fn check(&mut self, check: Implied, atoms: &[Atom], bindings: &mut Vec<Binding>, span: Span) {
        let (int, unit) = (self.program.monos.int, self.program.monos.unit);
        let whole = self.function_type(&vec![int; atoms.len()], unit);
        let check = self.implied(check, &[], whole, span);
        let args = atoms.iter().map(|&atom| {
            let atom = self.atom(atom, span);
            self.plain_shaped(atom, int)
        });
        let args = args.collect();
        let checked = self.apply(check, args, unit, span);
        bindings.push(Binding { vars: List::default(), value: checked.expr });
    }

    /// The part of a named array of several dimensions that some indices and ranges are: an element, or an array of as
    /// many dimensions as there are ranges.
    fn part_of_tensor(
        &mut self,
        (tensor, tensor_type): (Atom, Mono),
        parts: &[Part],
        ty: Mono,
        bindings: &mut Vec<Binding>,
        span: Span,
    ) -> ExprId {
        let mut ranges: Vec<(Var, [Atom; 2])> = Vec::new();
        let mut indices = Vec::with_capacity(parts.len());
        for &part in parts {
            indices.push(match part {
                Part::At(index) => index,
                Part::Range(ends) => {
                    let index = self.index_var();
                    ranges.push((index, ends));
                    Atom::Var(index)
                }
            });
        }
        match ranges[..] {
            [] => self.element_of_tensor(tensor, tensor_type, &indices, span),
            [(index, ends)] => {
                let [from, to] = ends.map(|end| self.atom(end, span));
                let range = Range { index, from, to };
                let body = self.element_inside(tensor, tensor_type, &indices, span);
                let collect = Box::new(Collect { range, first: None, body });
                self.make(ExprKind::Collect(self.array_type(ty), collect), ty, span)
            }
            _ => {
                let made = self.filled(&ranges, ty, span, |elaborator| {
                    elaborator.element_inside(tensor, tensor_type, &indices, span)
                });
                let mut atoms = Vec::new();
                self.body.name_values(made, &self.program.program.lists, bindings, &mut atoms);
                self.atom(atoms[0], span)
            }
        }
    }

    /// An element of a named array of several dimensions.
    fn element_of_tensor(&mut self, tensor: Atom, ty: Mono, indices: &[Atom], span: Span) -> ExprId {
        let (int, element) = (self.program.monos.int, self.program.monos.element(ty));
        let mut params = vec![ty];
        params.resize(1 + indices.len(), int);
        let whole = self.function_type(&params, element);
        let implied = [Implied::Element2, Implied::Element3, Implied::Element4][indices.len() - 2];
        let read = self.implied(implied, &[element], whole, span);
        let array = self.atom(tensor, span);
        let mut args = vec![self.plain_shaped(array, ty)];
        for &index in indices {
            let index = self.atom(index, span);
            args.push(self.plain_shaped(index, int));
        }
        let made = self.apply(read, args, element, span);
        self.materialised(made).expr
    }

    /// The same where tests before have found that there is one.
    fn element_inside(&mut self, tensor: Atom, ty: Mono, indices: &[Atom], span: Span) -> ExprId {
        let element = self.program.monos.element(ty);
        let elements = self.elements((tensor, ty), span);
        let indices = indices.iter().map(|&index| self.atom(index, span)).collect();
        let place = self.flat_index((tensor, ty), indices, span);
        self.make(ExprKind::Element(self.array_type(ty), [elements, place], Inside::Tested), element, span)
    }

    /// Where the element at some indices stands among all elements of a named array.
    pub(super) fn flat_index(&mut self, array: (Atom, Mono), indices: Vec<ExprId>, span: Span) -> ExprId {
        let int = self.program.monos.int;
        let places = (0..).zip(indices).reduce(|(_, place), (dimension, index)| {
            let size = self.size(array, dimension, span);
            let before = self.make(ExprKind::Scalar(Op::IMul, List::from([place, size])), int, span);
            (dimension, self.make(ExprKind::Scalar(Op::IAdd, List::from([before, index])), int, span))
        });
        places.expect("an array has dimensions").1
    }

    /// A builtin of arrays of several dimensions, which are objects of their elements and their sizes.
    pub(super) fn tensor_builtin(&mut self, builtin: Builtin, inputs: Vec<Shaped>, ty: Mono, span: Span) -> Shaped {
        let rank =
            inputs.first().map_or(0, |first| match self.program.monos.node(self.program.forms.mono(first.form)) {
                &MonoNode::Tensor(rank, _) => u16::from(rank),
                _ => 0,
            });
        let values: Vec<ExprId> = inputs.into_iter().map(|input| self.materialised(input).expr).collect();
        let mut bindings = Vec::new();
        let kind = match builtin {
            Builtin::Elements => ExprKind::Payload(Field::ELEMENTS, values[0]),
            Builtin::Size(dimension) => ExprKind::Payload(Field::size(dimension.into()), values[0]),
            Builtin::Sizes => {
                let tensor = self.name_value(values[0], &mut bindings);
                let sizes = (0..rank).map(|dimension| self.size_of_tensor(tensor, dimension, span)).collect();
                ExprKind::Pack(self.array_type(ty), sizes)
            }
            Builtin::Shaped(_) => ExprKind::Construct(0, values.into()),
            Builtin::WithElements => {
                let [tensor, elements] = [values[0], values[1]].map(|value| self.name_value(value, &mut bindings));
                let sizes = (0..rank).map(|dimension| self.size_of_tensor(tensor, dimension, span));
                let mut parts: Vec<ExprId> = sizes.collect();
                parts.insert(0, self.atom(elements, span));
                ExprKind::Construct(0, parts.into())
            }
            Builtin::SameShape => {
                let tensors = [values[0], values[1]].map(|value| self.name_value(value, &mut bindings));
                let all = (0..rank).map(|dimension| {
                    let sizes = tensors.map(|tensor| self.size_of_tensor(tensor, dimension, span));
                    self.make(ExprKind::Compare(Comparison::Equal, sizes), ty, span)
                });
                let all = all.collect::<Vec<ExprId>>().into_iter();
                let both = |a, b| self.make(ExprKind::And([a, b]), ty, span);
                let same = all.reduce(both).expect("a tensor has dimensions");
                self.body.exprs[same].kind.clone()
            }
            _ => unreachable!("the caller knows which these are"),
        };
        let made = self.make_plain(kind, ty, span);
        self.block_shaped(bindings, made)
    }

    /// The elements of a named array, however many dimensions it has.
    pub(super) fn elements(&mut self, (array, ty): (Atom, Mono), span: Span) -> ExprId {
        let object = self.atom(array, span);
        match self.program.monos.node(ty) {
            MonoNode::Tensor(..) => self.make_elements(ExprKind::Payload(Field::ELEMENTS, object), ty, span),
            _ => object,
        }
    }

    /// The size of a named array in one dimension.
    pub(super) fn size(&mut self, (array, ty): (Atom, Mono), dimension: u16, span: Span) -> ExprId {
        match self.program.monos.node(ty) {
            MonoNode::Tensor(..) => self.size_of_tensor(array, dimension, span),
            _ => {
                let (object, int) = (self.atom(array, span), self.program.monos.int);
                self.make(ExprKind::Length(self.array_type(ty), object), int, span)
            }
        }
    }

    fn size_of_tensor(&mut self, tensor: Atom, dimension: u16, span: Span) -> ExprId {
        let (object, int) = (self.atom(tensor, span), self.program.monos.int);
        self.make(ExprKind::Payload(Field::size(dimension), object), int, span)
    }
}
