//! Tasks. A branch of a `par`, and what `pbuild` does for a part of its indices, is an instance of its own: what it
//! mentions from outside becomes its parameters. So no later stage sees two branches at once, and none can move
//! anything from one to another or out of a task.

use super::Elaborator;
use super::form::{Code, Form, FormNode, Shaped, Value};
use super::instance::Key;
use crate::ast;
use crate::core::{Atom, Collect, ExprKind, Range, Task};
use crate::list::List;
use crate::mono::{Mono, MonoNode};
use crate::source::Span;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

impl Elaborator<'_, '_> {
    /// `par (a, b, …)`.
    pub(super) fn par(&mut self, parts: &[ast::ExprId], ty: Mono, span: Span) -> Shaped {
        let (tasks, forms): (Vec<Task>, Vec<_>) = parts.iter().map(|&part| self.branch(part)).unzip();
        let form = self.product_form(forms, ty);
        self.make_form(ExprKind::Fork(tasks.into()), form, span)
    }

    /// A branch as a call of a function of what it mentions.
    fn branch(&mut self, branch: ast::ExprId) -> (Task, Form) {
        let span = self.program.ast.exprs[branch].span;
        let code = Code::Branch(branch);
        let values = self.captured(code);
        self.program.code_names.entry(code).or_insert_with(|| format!("{}.task", self.name));
        let key = Key { code, types: self.types, inputs: values.iter().map(|value| value.form).collect() };
        let result = self.type_of(branch);
        let (function, form) = self.program.instance(key, result);
        let args = values.iter().map(|value| self.of_value(value, span).expr).collect();
        (Task { function, args, results: self.program.forms.flat(form), origin: span.into() }, form)
    }

    /// `pbuild count f`.
    pub(super) fn parallel_build(&mut self, count: Shaped, f: Shaped, array: Mono, span: Span) -> Shaped {
        let f = self.limited(f);
        let int = self.plain(self.program.monos.int);
        let code = Code::Part(array);
        let name = match self.program.forms.node(f.form) {
            FormNode::Function { code, .. } => format!("{}.part", self.program.code_name(*code)),
            _ => format!("{}.part", self.name),
        };
        let key = Key { code, types: self.program.no_types, inputs: Box::new([int, int, f.form]) };
        let (function, form) = self.program.named_instance(key, array, Some(name));
        // As for `build`, a negative number of elements is none.
        let zero = self.atom(Atom::Int(0), span);
        let kind = ExprKind::Scalar(Op::IMax, List::from([count.expr, zero]));
        let count = match self.body.exprs[count.expr].kind {
            ExprKind::Length(..) => count.expr,
            _ => self.make(kind, self.program.monos.int, span),
        };
        self.make_form(ExprKind::ParallelMap(function, List::from([count, f.expr])), form, span)
    }

    /// The body of the function that builds a part: from its first index, the index after its last, and the function.
    pub(super) fn part(&mut self, inputs: &[Value], array: Mono, span: Span) -> Shaped {
        let MonoNode::Array(element) = *self.program.monos.node(array) else { return self.nothing(array, span) };
        let [from, to, f] = inputs else { unreachable!("a part has two bounds and a function") };
        let [from, to, f] = [from, to, f].map(|input| self.of_value(input, span));
        let index = self.body.vars.push(ValueType::Int);
        let at = self.atom(Atom::Var(index), span);
        let at = Shaped { expr: at, form: from.form };
        let body = self.apply(f, vec![at], element, span);
        let body = self.materialised(body).expr;
        let range = Range { index, from: from.expr, to: to.expr };
        let collect = Box::new(Collect { range, first: None, body });
        self.make_plain(ExprKind::Collect(self.array_type(array), collect), array, span)
    }
}
