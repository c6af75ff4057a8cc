//! Advice in the program's own words: expressions as messages quote them.

use crate::ast::{Ast, BinaryOp, ExprId, ExprKind};
use crate::source::SourceMap;

/// An expression as an operand or an argument, in parentheses if it needs them. Nothing if it is too long to quote.
pub(crate) fn operand(ast: &Ast, sources: &SourceMap, expr: ExprId) -> Option<String> {
    use ExprKind::{Append, Apply, Ascribe, Binary, Block, Cons, Fail, If, Lambda, Loop, Match, Negate, Par, Trace};
    let node = &ast.exprs[expr];
    let text = sources.excerpt(node.span)?;
    let is_loose =
        matches!(node.kind, Apply(..) | Binary(..) | Negate(_) | Cons(..) | Append(_) | Ascribe(..) | Par(_))
            || matches!(node.kind, Lambda(..) | If(..) | Match(..) | Block(..) | Loop { .. } | Trace(..) | Fail(_));
    Some(if is_loose { format!("({text})") } else { text.to_owned() })
}

/// A quotient of integers as one of reals: `to_real m / to_real n`. A literal beside something else is left as it is.
pub(crate) fn real_quotient(ast: &Ast, sources: &SourceMap, quotient: ExprId) -> Option<String> {
    let ExprKind::Binary(BinaryOp::Div, left, right) = ast.exprs[quotient].kind else { return None };
    let (a, b) = (operand(ast, sources, left)?, operand(ast, sources, right)?);
    let is_literal = |expr: ExprId| matches!(ast.exprs[expr].kind, ExprKind::Int(_));
    Some(match (is_literal(left), is_literal(right)) {
        (_, true) => format!("to_real {a} / {b}"),
        (true, false) => format!("{a} / to_real {b}"),
        (false, false) => format!("to_real {a} / to_real {b}"),
    })
}
