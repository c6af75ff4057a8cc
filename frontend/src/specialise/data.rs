//! Records and constructors: building, reading, updating.

use super::Elaborator;
use super::form::{Shaped, Value};
use crate::ast::{self, ConstructorId};
use crate::core::{Atom, Binding, ExprId, ExprKind, Field};
use crate::list::List;
use crate::mono::{Mono, MonoNode};
use crate::names::Name;
use crate::resolve::Meaning;
use crate::source::Span;

impl Elaborator<'_, '_> {
    /// A constructor with all its fields.
    pub(super) fn construct(
        &mut self,
        constructor: ConstructorId,
        fields: Vec<Shaped>,
        ty: Mono,
        span: Span,
    ) -> Shaped {
        let fields = fields.into_iter().map(|field| self.materialised(field).expr).collect();
        self.make_plain(ExprKind::Construct(self.tag(constructor), fields), ty, span)
    }

    /// A constructor with named fields, if it is one.
    pub(super) fn construct_record(
        &mut self,
        callee: ast::ExprId,
        fields: &[ast::Field],
        ty: Mono,
        span: Span,
    ) -> Option<Shaped> {
        let Some(Meaning::Constructor(constructor)) = self.program.resolved.meanings[callee] else { return None };
        let names = self.program.ast.constructors[constructor].field_names.as_ref()?;
        let order: Vec<Name> = names.iter().map(|&(name, _)| name).collect();
        let mut bindings = Vec::new();
        let fields = self.ordered(fields, &order, &mut bindings, span);
        let made = self.construct(constructor, fields, ty, span);
        Some(self.block_shaped(bindings, made))
    }

    /// Fields in another order than the one in which they are evaluated.
    fn ordered(
        &mut self,
        fields: &[ast::Field],
        order: &[Name],
        bindings: &mut Vec<Binding>,
        span: Span,
    ) -> Vec<Shaped> {
        let values: Vec<Shaped> = fields.iter().map(|field| self.shaped(field.value)).collect();
        if fields.iter().map(|field| field.name).eq(order.iter().copied()) {
            return values;
        }
        let named: Vec<Value> = values.into_iter().map(|value| self.name_shaped(value, bindings)).collect();
        let place = |name: &Name| fields.iter().position(|field| field.name == *name);
        order.iter().filter_map(place).map(|at| self.of_value(&named[at], span)).collect()
    }

    /// The names of a record type's fields, in order.
    pub(super) fn record_fields(&self, ty: Mono) -> &[Name] {
        match self.program.monos.node(ty) {
            MonoNode::Record(shape, _) => self.program.inferred.types.fields(*shape),
            _ => &[],
        }
    }

    /// The place of a field among those of a record type.
    pub(super) fn record_field(&self, ty: Mono, name: Name) -> Option<usize> {
        match self.program.monos.node(ty) {
            MonoNode::Record(shape, _) => self.program.inferred.types.field_place(*shape, name),
            _ => None,
        }
    }

    pub(super) fn record(&mut self, fields: &[ast::Field], ty: Mono, span: Span) -> Shaped {
        let order = self.record_fields(ty).to_vec();
        let mut bindings = Vec::new();
        let fields = self.ordered(fields, &order, &mut bindings, span);
        let made = self.product(fields, ty, span);
        self.block_shaped(bindings, made)
    }

    /// The only constructor of a data type with named fields.
    pub(super) fn only_constructor(&self, ty: Mono) -> Option<(ConstructorId, Vec<Name>)> {
        let MonoNode::Data(data, _) = *self.program.monos.node(ty) else { return None };
        let ast = self.program.ast;
        let &[only] = &ast.datas[data].constructors[..] else { return None };
        let names = ast.constructors[only].field_names.as_ref()?;
        Some((only, names.iter().map(|&(name, _)| name).collect()))
    }

    pub(super) fn update(&mut self, record: ast::ExprId, fields: &[ast::Field], ty: Mono, span: Span) -> Shaped {
        let value = self.shaped(record);
        let mut bindings = Vec::new();
        let named = self.name_shaped(value, &mut bindings);
        let constructor = self.only_constructor(ty);
        let (names, mut parts) = match &constructor {
            Some((_, names)) => {
                let is_kept = |name: &Name| fields.iter().all(|field| field.name != *name);
                let mut parts = Vec::new();
                for (at, name) in names.iter().enumerate() {
                    let unused = Value { form: named.form, atoms: Box::default() };
                    let kept = is_kept(name).then(|| self.field(&named, ty, 0, at, &mut bindings, span));
                    parts.push(kept.unwrap_or(unused));
                }
                (names.clone(), parts)
            }
            None => (self.record_fields(ty).to_vec(), self.parts_of(&named)),
        };
        for field in fields {
            let value = self.shaped(field.value);
            let value = self.name_shaped(value, &mut bindings);
            if let Some(at) = names.iter().position(|&name| name == field.name) {
                parts[at] = value;
            }
        }
        let parts: Vec<Shaped> = parts.iter().map(|part| self.of_value(part, span)).collect();
        let made = match constructor {
            Some((constructor, _)) => self.construct(constructor, parts, ty, span),
            None => self.product(parts, ty, span),
        };
        self.block_shaped(bindings, made)
    }

    /// Reads a field of an object that is known to have a tag, one binding for each register.
    pub(super) fn field(
        &mut self,
        object: &Value,
        ty: Mono,
        tag: u16,
        at: usize,
        bindings: &mut Vec<Binding>,
        span: Span,
    ) -> Value {
        let field_type = self.program.fields(ty)[usize::from(tag)][at];
        let (first, _) = self.program.field_registers(ty, usize::from(tag), at);
        let form = self.plain(field_type);
        let (vars, value) = self.new_value(form);
        for (index, &var) in (first..).zip(&vars) {
            let object: ExprId = self.atom(object.atoms.first().copied().unwrap_or(Atom::Int(0)), span);
            let types = self.program.program.lists.intern(&[self.body.vars[var]]);
            let kind = ExprKind::Payload(Field { tag, index }, object);
            let read = self.body.exprs.push(crate::core::Expr { kind, types, origin: span.into() });
            bindings.push(Binding { vars: List::from([var]), value: read });
        }
        value
    }
}
