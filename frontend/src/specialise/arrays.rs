//! Array literals and comprehensions.

use super::Elaborator;
use crate::ast::{self, Generator};
use crate::core::{Collect, ExprId, ExprKind};
use crate::mono::Mono;
use crate::source::Span;

impl Elaborator<'_, '_> {
    pub(super) fn array(&mut self, parts: &[ast::ExprId], ty: Mono, span: Span) -> ExprId {
        let parts = parts.iter().map(|&part| self.expr(part)).collect();
        self.make(ExprKind::Pack(self.array_type(ty), parts), ty, span)
    }

    pub(super) fn comprehension(&mut self, element: ast::ExprId, generator: Generator, ty: Mono, span: Span) -> ExprId {
        let (mut before, mut inside) = (Vec::new(), Vec::new());
        let range = self.range(generator, &mut before, &mut inside, span);
        let body = self.expr(element);
        let body = self.block(inside, body);
        let collect = Box::new(Collect { range, first: None, body });
        let value = self.make(ExprKind::Collect(self.array_type(ty), collect), ty, span);
        self.block(before, value)
    }
}
