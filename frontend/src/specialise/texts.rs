//! Texts with values, in errors and traces.
//!
//! What is shown is what variables hold, where the text mentions nothing else but sizes of arrays; else it is made by a
//! function of what the text mentions, as a task is. The machine calls it where the text is shown. So a text costs what
//! keeps its variables until there, and nothing else, whatever stands in its braces.
//!
//! Traces are there in the second of two worlds. The first one makes what hosts call, as if there were no traces. If
//! there are any, the second makes a *twin* of each such function that may come to one, with all that it calls:
//! instances of their own, so that the first world is to the last bit what it would be without. What a twin has to
//! keep, as it was written or in its order, so that traces are right, changes no result and no derivative of what it is
//! the twin of.

use super::form::{Code, Shaped};
use super::instance::Key;
use super::{Elaborator, Specialiser, decision};
use crate::arena::Table;
use crate::ast::{self, DefId, ExprKind as Surface};
use crate::core::{Binding, ExprId, ExprKind, FunctionId, Text};
use crate::list::List;
use crate::mono::Mono;
use crate::resolve::Meaning;
use crate::source::Span;
use dualvm_vm::module::Piece;

impl Elaborator<'_, '_> {
    /// `trace "text" body`.
    pub(super) fn trace(&mut self, text: &ast::Text, body: ast::ExprId, span: Span) -> Shaped {
        if !self.program.is_traced {
            return self.shaped(body);
        }
        let text = self.text(text, span);
        let unit = self.program.monos.unit;
        let value = self.make(ExprKind::Trace(Box::new(text)), unit, span);
        let body = self.shaped(body);
        self.block_shaped(vec![Binding { vars: List::default(), value }], body)
    }

    /// A text with its values.
    pub(super) fn text(&mut self, text: &ast::Text, span: Span) -> Text {
        let (ast, names) = (self.program.ast, self.program.names);
        let fixed = |piece| Some(names.text(piece)).filter(|piece| !piece.is_empty()).map(|text| text.to_owned());
        let Some(values) = text.values else {
            let piece = text.pieces.first().map(|&piece| names.text(piece)).unwrap_or_default();
            return Text::from(piece);
        };
        let ty = self.type_of(values);
        let types = self.program.monos.parts(ty).to_vec();
        let mut pieces: Vec<Piece> = fixed(text.pieces[0]).map(Piece::Text).into_iter().collect();
        let Surface::Tuple(parts) = &ast.exprs[values].kind else { unreachable!("the values of a text are a tuple") };
        for (&piece, ty) in text.pieces[1..].iter().zip(types) {
            pieces.push(Piece::Value(self.program.host_type(ty)));
            pieces.extend(fixed(piece).map(Piece::Text));
        }
        let meanings = &self.program.resolved.meanings;
        let is_local = |part: ast::ExprId| matches!(meanings[part], Some(Meaning::Local(_)));
        let is_there = |&part: &ast::ExprId| match &ast.exprs[part].kind {
            Surface::Int(_) | Surface::Real(_) | Surface::Bool(_) => true,
            Surface::Apply(callee, args) => match meanings[*callee] {
                Some(Meaning::Builtin(builtin)) => builtin.is_of_sizes() && args.iter().all(|&arg| is_local(arg)),
                _ => false,
            },
            _ => is_local(part),
        };
        if parts.iter().all(is_there) {
            let args = parts.iter().map(|&part| self.expr(part)).collect();
            return Text { pieces: pieces.into(), function: None, args };
        }
        let (function, args) = self.values_of(values, ty, span);
        Text { pieces: pieces.into(), function: Some(function), args }
    }

    /// The function that makes the values of a text, and what it is given.
    fn values_of(&mut self, values: ast::ExprId, ty: Mono, span: Span) -> (FunctionId, List<ExprId>) {
        let code = Code::Branch(values);
        let captured = self.captured(code);
        self.program.code_names.entry(code).or_insert_with(|| format!("{}.text", self.name));
        let key = Key { code, types: self.types, inputs: captured.iter().map(|value| value.form).collect() };
        let (function, _) = self.program.instance(key, ty);
        (function, captured.iter().map(|value| self.of_value(value, span).expr).collect())
    }
}

impl Specialiser<'_> {
    /// Makes traced twins of those of these functions that may come to a trace: the second world.
    pub(super) fn make_twins(&mut self, exported: &[(DefId, FunctionId)]) {
        let mut traces = Table::filled(false, self.ast.defs.len());
        for group in crate::graph::groups(&self.resolved.mentions, self.meter) {
            let may_trace = |&def: &DefId| {
                self.ast.defs[def].has_trace || self.resolved.mentions[def].iter().any(|&def| traces[def])
            };
            if group.iter().any(may_trace) {
                group.iter().for_each(|&def| traces[def] = true);
            }
        }
        let traced: Vec<(DefId, FunctionId)> = exported.iter().copied().filter(|&(def, _)| traces[def]).collect();
        if traced.is_empty() || self.is_stopped() || self.sink.has_errors() {
            return;
        }
        // Nothing of the first world is used in the second one.
        self.is_traced = true;
        (self.instances, self.deep, self.equalities) = Default::default();
        (self.mentions, self.environments) = Default::default();
        (self.int_power, self.match_work_left) = (None, decision::WORK_MAX);
        for (def, function) in traced {
            let name = format!("{}.traced", self.names.text(self.ast.defs[def].name));
            if let Some(exported) = self.exported_instance(def, name) {
                self.program.functions[exported.function].twin_of = Some(function);
            }
        }
        self.elaborate_pending();
    }
}
