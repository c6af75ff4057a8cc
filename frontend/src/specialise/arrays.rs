//! Literals of arrays and matrices, and what comprehensions are.

use super::Elaborator;
use super::form::{Code, Shaped};
use crate::ast::{self, Clause, Comprehension, Generator};
use crate::core::{Atom, ExprId, ExprKind, Program, Var};
use crate::mono::Mono;
use crate::prelude::Implied;
use crate::source::Span;
use crate::types::Kind;
use dualvm_vm::module::ValueType;

impl Elaborator<'_, '_> {
    pub(super) fn array(&mut self, parts: &[ast::ExprId], ty: Mono, span: Span) -> ExprId {
        let parts = parts.iter().map(|&part| self.expr(part)).collect();
        self.make(ExprKind::Pack(self.array_type(ty), parts), ty, span)
    }

    pub(super) fn matrix(&mut self, rows: &[Vec<ast::ExprId>], ty: Mono, span: Span) -> ExprId {
        let parts = rows.iter().flatten().map(|&part| self.expr(part)).collect();
        let elements = self.make_elements(ExprKind::Pack(self.array_type(ty), parts), ty, span);
        let sizes = [rows.len(), rows[0].len()].map(|size| Atom::Int(size as i64));
        self.shaped_array(elements, &sizes, ty, span)
    }

    /// An expression whose value is the elements of an array of several dimensions.
    pub(super) fn make_elements(&mut self, kind: ExprKind, ty: Mono, span: Span) -> ExprId {
        let array = ValueType::Ref(self.array_type(ty).array);
        self.make_typed(kind, &[array], span)
    }

    /// A variable for the elements of an array.
    pub(super) fn elements_var(&mut self, ty: Mono) -> Var {
        let array = self.array_type(ty).array;
        self.body.vars.push(ValueType::Ref(array))
    }

    /// An array of several dimensions.
    pub(super) fn shaped_array(&mut self, elements: ExprId, sizes: &[Atom], ty: Mono, span: Span) -> ExprId {
        let mut parts = vec![elements];
        parts.extend(sizes.iter().map(|&size| self.atom(size, span)));
        self.make(ExprKind::Construct(0, parts.into()), ty, span)
    }

    pub(super) fn comprehension(
        &mut self,
        expr: ast::ExprId,
        comprehension: &Comprehension,
        ty: Mono,
        span: Span,
    ) -> Shaped {
        if comprehension.kind == Kind::Array {
            let made = self.array_of_clauses(comprehension, ty, span);
            return Shaped { expr: made, form: self.plain(ty) };
        }
        let element = self.program.monos.element(ty);
        if let [Clause::For(Generator::Elements { collection, .. })] = comprehension.clauses[..]
            && self.is_list(collection)
        {
            return self.list_of_elements(expr, collection, ty, span);
        }
        let Some(array) = self.array_with(element) else { return self.nothing(ty, span) };
        let made = self.array_of_clauses(comprehension, array, span);
        let made = Shaped { expr: made, form: self.plain(array) };
        let whole = self.function_type(&[array], ty);
        let convert = self.implied(Implied::ToList, &[element], whole, span);
        self.apply(convert, vec![made], ty, span)
    }

    /// `[e for x in xs]` of a list, which is a map.
    fn list_of_elements(&mut self, expr: ast::ExprId, list: ast::ExprId, ty: Mono, span: Span) -> Shaped {
        let list_type = self.type_of(list);
        let [from, to] = [list_type, ty].map(|ty| self.program.monos.element(ty));
        let function = self.function_type(&[from], to);
        let whole = self.function_type(&[function, list_type], ty);
        let code = Code::Lambda(expr);
        self.program.code_names.entry(code).or_insert_with(|| format!("{}.element", self.name));
        let function = self.capturing(code, self.types, function, span);
        let kind = self.program.monos.kind(Kind::List);
        let map = self.implied(Implied::Map, &[from, to, kind], whole, span);
        let list = self.shaped(list);
        self.apply(map, vec![function, list], ty, span)
    }

    /// The type of arrays of these elements, unless it is too large.
    pub(super) fn array_with(&mut self, element: Mono) -> Option<Mono> {
        let Program { lists, module, .. } = &mut self.program.program;
        self.program.monos.array(element, lists, module).ok()
    }
}
