//! Expressions.

use super::Elaborator;
use super::form::{Code, Form, FormNode, Shaped, Value};
use crate::ast::{self, BinaryOp, ExprKind as Surface, Generator, Iteration, Let, NIL};
use crate::core::{Atom, Binding, ExprId, ExprKind};
use crate::limits::Count;
use crate::list::List;
use crate::mono::Mono;
use crate::source::Span;

impl Elaborator<'_, '_> {
    /// An expression with the registers of its type.
    pub(super) fn expr(&mut self, expr: ast::ExprId) -> ExprId {
        let made = self.shaped(expr);
        self.materialised(made).expr
    }

    /// An expression in whatever form it has.
    pub(super) fn shaped(&mut self, expr: ast::ExprId) -> Shaped {
        self.count(self.program.ast.exprs[expr].span);
        crate::stack::grown(|| self.shaped_here(expr))
    }

    /// Tells the meter what was made since it was told before.
    pub(super) fn count(&mut self, place: Span) {
        let made = self.body.exprs.len() + self.body.vars.len();
        self.program.meter.step(place);
        self.program.meter.nodes(Count::Code, made - self.counted);
        self.counted = made;
    }

    fn shaped_here(&mut self, expr: ast::ExprId) -> Shaped {
        let ast = self.program.ast;
        let span = ast.exprs[expr].span;
        let ty = self.type_of(expr);
        if self.program.is_stopped() {
            return self.nothing(ty, span);
        }
        match &ast.exprs[expr].kind {
            Surface::Var(_) | Surface::Constructor(_) => self.mention(expr),
            Surface::Tuple(parts) => {
                let parts: Vec<Shaped> = parts.iter().map(|&part| self.shaped(part)).collect();
                self.product(parts, ty, span)
            }
            Surface::Par(parts) => self.par(parts, ty, span),
            Surface::Apply(callee, args) => self.apply_surface(*callee, args, ty, span),
            Surface::Binary(op, ..) if op.is_right_associative() => self.chain_from_last(expr),
            Surface::Binary(..) | Surface::Negate(_) | Surface::Access(..) | Surface::Index(..) => {
                self.chain_from_first(expr)
            }
            Surface::Cons(..) | Surface::Append(_) => self.lists(expr, ty),
            Surface::Operator(op) => match op {
                BinaryOp::Append => self.mention(expr),
                _ => self.known(Code::Operator(*op, ty), ty, span),
            },
            Surface::Section(op, side, operand) => self.section(expr, *op, *side, *operand, ty, span),
            Surface::Lambda(..) => self.lambda(expr, span),
            Surface::If(..) => self.conditional(expr, ty),
            Surface::Match(value, arms) => self.matching(*value, arms, ty, span),
            Surface::Block(lets, body) => {
                let mut bindings = Vec::new();
                self.lets(lets, &mut bindings);
                let value = self.shaped(*body);
                self.block_shaped(bindings, value)
            }
            Surface::Ascribe(inner, _) => self.shaped(*inner),
            Surface::Trace(text, body) => self.trace(text, *body, span),
            Surface::Record(fields) => self.record(fields, ty, span),
            Surface::Update(record, fields) => self.update(*record, fields, ty, span),
            Surface::Replace(array, replacements) => self.replace(*array, replacements, ty, span),
            Surface::Comprehension(comprehension) => self.comprehension(expr, comprehension, ty, span),
            Surface::Loop { init, iteration: Iteration::For(Generator::Elements { collection, .. }), .. }
                if self.is_list(*collection) =>
            {
                self.list_loop(expr, *init, *collection, ty)
            }
            _ => {
                let made = self.plain_expr(expr, ty, span);
                let form = self.plain(ty);
                Shaped { expr: made, form }
            }
        }
    }

    /// Whether an expression's value is a list.
    pub(super) fn is_list(&mut self, expr: ast::ExprId) -> bool {
        let ty = self.type_of(expr);
        self.program.monos.is_list(ty)
    }

    /// Expressions that are always plain.
    fn plain_expr(&mut self, expr: ast::ExprId, ty: Mono, span: Span) -> ExprId {
        let ast = self.program.ast;
        match &ast.exprs[expr].kind {
            Surface::Int(value) => {
                let atom = if self.is_real(ty) { Atom::Real(*value as f64) } else { Atom::Int(*value) };
                self.atom(atom, span)
            }
            Surface::Real(value) => self.atom(Atom::Real(*value), span),
            Surface::Bool(value) => self.atom(Atom::Int(i64::from(*value)), span),
            Surface::Fail(text) => {
                let text = self.text(text, span);
                self.make(ExprKind::Trap(Box::new(text)), ty, span)
            }
            Surface::Loop { pattern, init, iteration, body } => {
                let init = self.expr(*init);
                match *iteration {
                    Iteration::While(cond) => self.while_loop(*pattern, init, cond, *body, ty, span),
                    Iteration::For(generator) => self.for_loop(*pattern, init, generator, *body, ty, span),
                }
            }
            Surface::Array(parts) => self.array(parts, ty, span),
            Surface::Matrix(rows) => self.matrix(rows, ty, span),
            Surface::Table { element, generators } => self.table(*element, generators, ty, span),
            Surface::List(parts) => {
                let nil = self.construct(NIL, Vec::new(), ty, span);
                self.cons(parts, nil, ty, span)
            }
            Surface::Error => self.make(ExprKind::Values(List::default()), ty, span),
            other => unreachable!("not always plain: {other:?}"),
        }
    }

    /// What `let`s bind.
    pub(super) fn lets(&mut self, lets: &[Let], bindings: &mut Vec<Binding>) {
        for binding in lets {
            match binding {
                Let::Value { pattern, value } => {
                    let value = self.shaped(*value);
                    self.bind(*pattern, value, bindings);
                }
                Let::Functions(functions) => self.bind_functions(functions),
                Let::Alias(function) => self.bind_functions(&[*function]),
            }
        }
    }

    /// The elements of a list before a tail that needs no evaluation.
    fn cons(&mut self, parts: &[ast::ExprId], tail: Shaped, ty: Mono, span: Span) -> ExprId {
        let (mut bindings, mut named) = (Vec::new(), Vec::new());
        for &part in parts {
            let part = self.expr(part);
            self.body.name_values(part, &self.program.program.lists, &mut bindings, &mut named);
        }
        let list = self.cons_named(&named, parts.len(), tail, &mut bindings, ty, span);
        self.block_shaped(bindings, list).expr
    }

    /// A list of elements, by all their values one after the other, before a tail.
    pub(super) fn cons_named(
        &mut self,
        named: &[Atom],
        count: usize,
        tail: Shaped,
        bindings: &mut Vec<Binding>,
        ty: Mono,
        span: Span,
    ) -> Shaped {
        let mut list = tail;
        let width = named.len().checked_div(count).unwrap_or(0);
        for at in (0..count).rev() {
            let rest = self.name_shaped(list, bindings);
            let mut fields: Vec<ExprId> = Vec::with_capacity(width + 1);
            for &atom in &named[at * width..(at + 1) * width] {
                fields.push(self.atom(atom, span));
            }
            fields.push(self.of_value(&rest, span).expr);
            list = self.make_plain(ExprKind::Construct(1, fields.into()), ty, span);
        }
        list
    }

    fn apply_surface(&mut self, callee: ast::ExprId, args: &[ast::ExprId], ty: Mono, span: Span) -> Shaped {
        if let (Surface::Constructor(_), [arg]) = (&self.program.ast.exprs[callee].kind, args)
            && let Surface::Record(fields) = &self.program.ast.exprs[*arg].kind
            && let Some(made) = self.construct_record(callee, fields, ty, span)
        {
            return made;
        }
        let callee = self.shaped(callee);
        let args = args.iter().map(|&arg| self.shaped(arg)).collect();
        self.apply(callee, args, ty, span)
    }

    /// A tuple or record of parts in the order of its type.
    pub(super) fn product(&mut self, parts: Vec<Shaped>, ty: Mono, span: Span) -> Shaped {
        let form = self.product_form(parts.iter().map(|part| part.form).collect(), ty);
        let parts = parts.iter().map(|part| part.expr).collect();
        self.make_form(ExprKind::Values(parts), form, span)
    }

    /// The form of a tuple or record whose parts have these forms.
    pub(super) fn product_form(&mut self, parts: Vec<Form>, ty: Mono) -> Form {
        if parts.iter().all(|&part| self.program.forms.is_plain(part)) {
            return self.plain(ty);
        }
        self.form(FormNode::Parts(ty, parts.into()))
    }

    /// A part of a named tuple or record.
    pub(super) fn part_of(&mut self, value: &Value, at: usize) -> Value {
        let lists = &self.program.program.lists;
        let (form, first) = match self.program.forms.node(value.form) {
            FormNode::Parts(_, forms) => {
                let before = forms[..at].iter().map(|&form| lists.get(self.program.forms.flat(form)).len());
                (forms[at], before.sum())
            }
            _ => {
                let ty = self.program.forms.mono(value.form);
                let first = self.program.monos.first_register(ty, at);
                let part = self.program.monos.parts(ty)[at];
                (self.plain(part), first)
            }
        };
        let count = self.program.program.lists.get(self.program.forms.flat(form)).len();
        Value { form, atoms: value.atoms[first..first + count].into() }
    }

    /// The parts of a named tuple or record.
    pub(super) fn parts_of(&mut self, value: &Value) -> Vec<Value> {
        let forms: Vec<_> = match self.program.forms.node(value.form).clone() {
            FormNode::Parts(_, forms) => forms.to_vec(),
            FormNode::Plain(ty) => {
                self.program.monos.parts(ty).to_vec().into_iter().map(|part| self.plain(part)).collect()
            }
            FormNode::Function { .. } => Vec::new(),
        };
        self.split(&forms, &value.atoms)
    }

    /// The form that several values of a type can have together: their own if they agree, or else the plain one. What
    /// stops has any form.
    pub(super) fn common_form(&mut self, arms: &[Shaped], ty: Mono) -> super::Form {
        let mut forms = arms.iter().filter(|arm| !self.stops(arm.expr)).map(|arm| arm.form);
        match forms.next() {
            Some(first) if forms.all(|form| form == first) => first,
            _ => self.plain(ty),
        }
    }

    pub(super) fn stops(&self, expr: ExprId) -> bool {
        matches!(self.body.exprs[expr].kind, ExprKind::Trap(_))
    }

    /// A block, unless there is nothing to bind.
    pub(super) fn block(&mut self, bindings: Vec<Binding>, value: ExprId) -> ExprId {
        if bindings.is_empty() {
            return value;
        }
        let (types, span) = (self.body.exprs[value].types, self.body.exprs[value].origin.span);
        self.body.exprs.push(crate::core::Expr {
            kind: ExprKind::Block(bindings.into(), value),
            types,
            origin: span.into(),
        })
    }

    /// Names a single value.
    pub(super) fn name_value(&mut self, value: ExprId, bindings: &mut Vec<Binding>) -> Atom {
        let mut atoms = Vec::new();
        self.body.name_values(value, &self.program.program.lists, bindings, &mut atoms);
        // Only a value whose type was reported as too large has none.
        atoms.first().copied().unwrap_or(Atom::Int(0))
    }
}
