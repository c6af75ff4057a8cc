//! Renumbering: what an expression mentions, in other numbers.

use crate::core::{ExprId, ExprKind, Iteration, Label, Range, Var};

/// New numbers for what an expression mentions.
pub(crate) trait Renumber {
    /// The new number of an expression.
    fn expr(&self, expr: ExprId) -> ExprId;
    /// The new number of a variable.
    fn var(&self, var: Var) -> Var;
    /// The new number of a label.
    fn label(&self, label: Label) -> Label;

    /// Renumbers expressions.
    fn exprs(&self, exprs: &mut [ExprId]) {
        exprs.iter_mut().for_each(|expr| *expr = self.expr(*expr));
    }

    /// Renumbers variables.
    fn vars(&self, vars: &mut [Var]) {
        vars.iter_mut().for_each(|var| *var = self.var(*var));
    }

    /// Renumbers what a range mentions.
    fn range(&self, range: &mut Range) {
        let Range { index, from, to } = range;
        (*index, *from, *to) = (self.var(*index), self.expr(*from), self.expr(*to));
    }

    /// Renumbers what an expression mentions.
    fn kind(&self, kind: &mut ExprKind) {
        match kind {
            ExprKind::Real(_) | ExprKind::Int(_) | ExprKind::Constant { .. } => {}
            ExprKind::Trap(text) | ExprKind::Trace(text) => self.exprs(&mut text.args),
            ExprKind::Var(var) => *var = self.var(*var),
            ExprKind::Values(list)
            | ExprKind::Scalar(_, list)
            | ExprKind::Call(_, list)
            | ExprKind::CallImport(_, list)
            | ExprKind::ParallelMap(_, list)
            | ExprKind::Pack(_, list)
            | ExprKind::Builder(_, _, list)
            | ExprKind::Construct(_, list)
            | ExprKind::Closure(_, list) => self.exprs(list),
            ExprKind::Jump(label, list) => {
                *label = self.label(*label);
                self.exprs(list);
            }
            ExprKind::Extend(extend) => {
                extend.label = self.label(extend.label);
                extend.cells.iter_mut().for_each(|cell| self.exprs(&mut cell.fields));
                self.exprs(&mut extend.args);
            }
            ExprKind::Fork(tasks) => tasks.iter_mut().for_each(|task| self.exprs(&mut task.args)),
            ExprKind::CallClosure(callee, list) => {
                *callee = self.expr(*callee);
                self.exprs(list);
            }
            ExprKind::Compare(_, pair) | ExprKind::And(pair) | ExprKind::Or(pair) | ExprKind::Element(_, pair, _) => {
                self.exprs(pair);
            }
            ExprKind::Not(operand)
            | ExprKind::Length(_, operand)
            | ExprKind::Payload(_, operand)
            | ExprKind::Detach(operand) => *operand = self.expr(*operand),
            ExprKind::Derivative(derivative) => {
                derivative.parts_mut().for_each(|part| *part = self.expr(*part));
            }
            ExprKind::If(parts) | ExprKind::Replace(_, parts) => self.exprs(parts),
            ExprKind::Block(bindings, value) => {
                for binding in bindings {
                    self.vars(&mut binding.vars);
                    binding.value = self.expr(binding.value);
                }
                *value = self.expr(*value);
            }
            ExprKind::Loop(repeat) => {
                self.vars(&mut repeat.vars);
                repeat.init = self.expr(repeat.init);
                match &mut repeat.iteration {
                    Iteration::While(cond) => *cond = self.expr(*cond),
                    Iteration::Range(range) => self.range(range),
                }
                repeat.body = self.expr(repeat.body);
            }
            ExprKind::Collect(_, collect) => {
                self.range(&mut collect.range);
                collect.first = collect.first.map(|first| self.expr(first));
                collect.body = self.expr(collect.body);
            }
            ExprKind::Switch(switch) => {
                switch.object = self.expr(switch.object);
                switch.arms.iter_mut().for_each(|arm| arm.1 = self.expr(arm.1));
                switch.default = switch.default.map(|default| self.expr(default));
            }
            ExprKind::Join(join) => {
                join.value = self.expr(join.value);
                for labelled in &mut join.bodies {
                    labelled.label = self.label(labelled.label);
                    self.vars(&mut labelled.params);
                    labelled.body = self.expr(labelled.body);
                }
            }
            ExprKind::Repeat(repeat) => {
                repeat.label = self.label(repeat.label);
                self.vars(&mut repeat.params);
                repeat.init = self.expr(repeat.init);
                repeat.body = self.expr(repeat.body);
            }
        }
    }
}
