//! Expressions and patterns.

use super::Elaborator;
use crate::ast::{self, BinaryOp, ExprKind as Surface, Generator, Let, PatternId, PatternKind};
use crate::core::{Atom, Binding, ExprId, ExprKind, Iteration, Loop, Range, Var};
use crate::mono::Mono;
use crate::resolve::Meaning;
use crate::source::Span;

impl Elaborator<'_, '_> {
    pub(super) fn expr(&mut self, expr: ast::ExprId) -> ExprId {
        crate::stack::grown(|| self.expr_here(expr))
    }

    pub(super) fn type_of(&mut self, expr: ast::ExprId) -> Mono {
        self.mono(self.program.inferred.exprs[expr], self.program.ast.exprs[expr].span)
    }

    fn expr_here(&mut self, expr: ast::ExprId) -> ExprId {
        let ast = self.program.ast;
        let span = ast.exprs[expr].span;
        let ty = self.type_of(expr);
        if self.program.gave_up {
            return self.make(ExprKind::Trap("not compiled".into()), ty, span);
        }
        match &ast.exprs[expr].kind {
            Surface::Error => self.make(ExprKind::Values(Box::default()), ty, span),
            Surface::Int(value) => {
                let atom = if self.is_real(ty) { Atom::Real(*value as f64) } else { Atom::Int(*value) };
                self.atom(atom, span)
            }
            Surface::Real(value) => self.atom(Atom::Real(*value), span),
            Surface::Bool(value) => self.atom(Atom::Int(i64::from(*value)), span),
            Surface::Var(_) => self.apply(expr, expr, &[]),
            Surface::Tuple(parts) => {
                let parts = parts.iter().map(|&part| self.expr(part)).collect();
                self.make(ExprKind::Values(parts), ty, span)
            }
            Surface::Apply(callee, args) => self.apply(expr, *callee, args),
            Surface::Negate(operand) => self.negate(*operand, ty, span),
            Surface::Binary(op, left, right) => self.binary(*op, *left, *right, ty, span),
            Surface::If(cond, then, other) => {
                let parts = [*cond, *then, *other].map(|part| self.expr(part));
                self.make(ExprKind::If(parts), ty, span)
            }
            Surface::Block(lets, body) => {
                let mut bindings = Vec::new();
                for binding in lets {
                    match binding {
                        Let::Value { pattern, value } => {
                            let value = self.expr(*value);
                            self.bind(*pattern, value, &mut bindings);
                        }
                        Let::Functions(_) | Let::Alias(_) => self.not_supported("a local function", span),
                    }
                }
                let value = self.expr(*body);
                self.block(bindings, value)
            }
            Surface::Loop { pattern, init, iteration, body } => {
                let init = self.expr(*init);
                match *iteration {
                    ast::Iteration::While(cond) => {
                        let vars = self.loop_vars(*pattern);
                        let iteration = Iteration::While(self.expr(cond));
                        let body = self.expr(*body);
                        self.make(ExprKind::Loop(Box::new(Loop { vars, init, iteration, body })), ty, span)
                    }
                    ast::Iteration::For(generator) => self.for_loop(*pattern, init, generator, *body, ty, span),
                }
            }
            Surface::Array(parts) => self.array(parts, ty, span),
            Surface::Comprehension { element, generator } => self.comprehension(*element, *generator, ty, span),
            Surface::Index(array, index) => {
                let array_type = self.type_of(*array);
                let pair = [*array, *index].map(|part| self.expr(part));
                self.make(ExprKind::Element(self.array_type(array_type), pair), ty, span)
            }
            Surface::Ascribe(inner, _) => self.expr(*inner),
            Surface::Constructor(_)
            | Surface::Cons(..)
            | Surface::Append(_)
            | Surface::Operator(_)
            | Surface::Section(..)
            | Surface::Lambda(..)
            | Surface::Match(..)
            | Surface::Fail(_)
            | Surface::List(_)
            | Surface::Record(_)
            | Surface::Update(..)
            | Surface::Access(..) => {
                self.not_supported("this", span);
                self.make(ExprKind::Trap("not compiled"), ty, span)
            }
        }
    }

    fn apply(&mut self, expr: ast::ExprId, callee: ast::ExprId, args: &[ast::ExprId]) -> ExprId {
        let span = self.program.ast.exprs[expr].span;
        let ty = self.type_of(expr);
        match self.program.resolved.meanings[callee].expect("a program without errors has no unknown names") {
            Meaning::Local(local) => {
                let atoms = self.locals[&local].clone();
                match *atoms {
                    [single] => self.atom(single, span),
                    _ => {
                        let parts = atoms.iter().map(|&atom| self.atom(atom, span)).collect();
                        self.make(ExprKind::Values(parts), ty, span)
                    }
                }
            }
            Meaning::Function(_) | Meaning::Constructor(_) => {
                self.not_supported("this call", span);
                self.make(ExprKind::Trap("not compiled"), ty, span)
            }
            Meaning::Builtin(builtin) => self.builtin(builtin, args, ty, span),
            Meaning::Def(def) => {
                let inferred = self.program.inferred;
                // Inside of its own group a definition is used at the group's variables.
                let chosen = inferred.instances.get(&callee).unwrap_or(&inferred.defs[def].vars);
                let chosen = chosen.iter().map(|&var| self.mono(var, span)).collect();
                let function = self.program.instance(def, chosen, None);
                let args = args.iter().map(|&arg| self.expr(arg)).collect();
                self.make(ExprKind::Call(function, args), ty, span)
            }
        }
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: ast::ExprId,
        right: ast::ExprId,
        ty: Mono,
        span: Span,
    ) -> ExprId {
        if op == BinaryOp::Pow {
            return self.power(left, right, ty, span);
        }
        let pair = [left, right].map(|operand| self.expr(operand));
        let kind = match op {
            BinaryOp::And => ExprKind::And(pair),
            BinaryOp::Or => ExprKind::Or(pair),
            BinaryOp::Compare(comparison) => ExprKind::Compare(comparison, pair),
            BinaryOp::Cons | BinaryOp::Append | BinaryOp::Pipe | BinaryOp::ComposeRight | BinaryOp::ComposeLeft => {
                self.not_supported("this operator", span);
                ExprKind::Trap("not compiled")
            }
            _ => return self.arithmetic(op, pair, ty, span),
        };
        self.make(kind, ty, span)
    }

    /// A block, unless there is nothing to bind.
    pub(super) fn block(&mut self, bindings: Vec<Binding>, value: ExprId) -> ExprId {
        if bindings.is_empty() {
            return value;
        }
        let (types, span) = (self.body.exprs[value].types, self.body.exprs[value].span);
        self.body.exprs.push(crate::core::Expr { kind: ExprKind::Block(bindings.into(), value), types, span })
    }

    /// Binds a pattern to a value.
    pub(super) fn bind(&mut self, pattern: PatternId, value: ExprId, bindings: &mut Vec<Binding>) {
        let mut atoms = Vec::new();
        self.body.name_values(value, &self.program.program.lists, bindings, &mut atoms);
        self.bind_atoms(pattern, &atoms);
    }

    /// Names a single value.
    pub(super) fn name_value(&mut self, value: ExprId, bindings: &mut Vec<Binding>) -> Atom {
        let mut atoms = Vec::new();
        self.body.name_values(value, &self.program.program.lists, bindings, &mut atoms);
        // Only a value whose type was reported as too large has none.
        atoms.first().copied().unwrap_or(Atom::Int(0))
    }

    pub(super) fn bind_atoms(&mut self, pattern: PatternId, atoms: &[Atom]) {
        let program = &*self.program;
        match &program.ast.patterns[pattern].kind {
            PatternKind::Var(_) => {
                let local = program.resolved.bound[pattern].expect("resolution binds every variable of a pattern");
                self.locals.insert(local, atoms.into());
            }
            PatternKind::Wildcard => {}
            PatternKind::Ascribe(inner, _) => self.bind_atoms(*inner, atoms),
            PatternKind::Error
            | PatternKind::Int(_)
            | PatternKind::Real(_)
            | PatternKind::Bool(_)
            | PatternKind::Constructor(..)
            | PatternKind::Record(_)
            | PatternKind::List(_)
            | PatternKind::Cons(..)
            | PatternKind::As(..)
            | PatternKind::Or(_) => {
                let span = self.program.ast.patterns[pattern].span;
                self.not_supported("this pattern", span);
            }
            PatternKind::Tuple(parts) => {
                let mut rest = atoms;
                for &part in parts {
                    let span = self.program.ast.patterns[part].span;
                    let ty = self.mono(self.program.inferred.patterns[part], span);
                    let count = self.flat(ty).len();
                    let (own, others) = rest.split_at_checked(count).unwrap_or((rest, &[]));
                    crate::stack::grown(|| self.bind_atoms(part, own));
                    rest = others;
                }
            }
        }
    }

    fn loop_vars(&mut self, pattern: PatternId) -> Box<[Var]> {
        let span = self.program.ast.patterns[pattern].span;
        let ty = self.mono(self.program.inferred.patterns[pattern], span);
        let vars = self.new_vars(ty);
        let atoms: Vec<Atom> = vars.iter().map(|&var| Atom::Var(var)).collect();
        self.bind_atoms(pattern, &atoms);
        vars.into()
    }

    fn for_loop(
        &mut self,
        pattern: PatternId,
        init: ExprId,
        generator: Generator,
        body: ast::ExprId,
        ty: Mono,
        span: Span,
    ) -> ExprId {
        let mut before = Vec::new();
        let mut init = init;
        if let Generator::Elements { array, .. } = generator
            && !matches!(self.program.ast.exprs[array].kind, Surface::Var(_))
        {
            // The array is evaluated after the first values and before the loop.
            let mut atoms = Vec::new();
            self.body.name_values(init, &self.program.program.lists, &mut before, &mut atoms);
            let parts = atoms.into_iter().map(|atom| self.atom(atom, span)).collect();
            init = self.make(ExprKind::Values(parts), ty, span);
        }
        let mut inside = Vec::new();
        let range = self.range(generator, &mut before, &mut inside, span);
        let vars = self.loop_vars(pattern);
        let body = self.expr(body);
        let body = self.block(inside, body);
        let repeat = Loop { vars, init, iteration: Iteration::Range(range), body };
        let value = self.make(ExprKind::Loop(Box::new(repeat)), ty, span);
        self.block(before, value)
    }

    /// The range of a generator; what must be bound before it and inside of its body.
    pub(super) fn range(
        &mut self,
        generator: Generator,
        before: &mut Vec<Binding>,
        inside: &mut Vec<Binding>,
        span: Span,
    ) -> Range {
        match generator {
            Generator::Range { index: pattern, from, to } => {
                let from = match from {
                    Some(from) => self.expr(from),
                    None => self.atom(Atom::Int(0), span),
                };
                let to = self.expr(to);
                let index = self.index_var();
                self.bind_atoms(pattern, &[Atom::Var(index)]);
                Range { index, from, to }
            }
            Generator::Elements { element, array } => {
                let array_span = self.program.ast.exprs[array].span;
                let array_type = self.type_of(array);
                let element_type = self.mono(self.program.inferred.patterns[element], array_span);
                let value = self.expr(array);
                let named = self.name_value(value, before);
                let from = self.atom(Atom::Int(0), span);
                let (counted, indexed) = (self.atom(named, array_span), self.atom(named, array_span));
                let int = self.program.monos.int;
                let to = self.make(ExprKind::Length(counted), int, array_span);
                let index = self.index_var();
                if !matches!(self.program.ast.patterns[element].kind, PatternKind::Wildcard) {
                    let at = self.atom(Atom::Var(index), span);
                    let kind = ExprKind::Element(self.array_type(array_type), [indexed, at]);
                    let read = self.make(kind, element_type, array_span);
                    self.bind(element, read, inside);
                }
                Range { index, from, to }
            }
        }
    }

    fn index_var(&mut self) -> Var {
        self.body.vars.push(dualvm_vm::module::ValueType::Int)
    }
}
