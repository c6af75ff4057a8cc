//! Operators.

use super::Side;
use std::cmp::Ordering;

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `^`
    Pow,
    /// `==`, `<` and so on.
    Compare(Comparison),
    /// `&&`
    And,
    /// `||`
    Or,
    /// `::`. Full applications are [`super::ExprKind::Cons`].
    Cons,
    /// `++`. Full applications are [`super::ExprKind::Append`].
    Append,
    /// `x |> f`, which is `f x`.
    Pipe,
    /// `f >> g`: first `f`, then `g`.
    ComposeRight,
    /// `f << g`: first `g`, then `f`.
    ComposeLeft,
    /// `a .+ x` or `x +. a`: an array, where the dot is, and a number for each of its elements.
    Spread(Arithmetic, Side),
}

/// An arithmetic operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

impl BinaryOp {
    /// Whether `a op b op c` is `a op (b op c)`.
    pub(crate) fn is_right_associative(self) -> bool {
        matches!(self, BinaryOp::Cons | BinaryOp::Append | BinaryOp::ComposeLeft | BinaryOp::Pow)
    }

    /// The operator as written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Pow => "^",
            BinaryOp::Compare(comparison) => comparison.symbol(),
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
            BinaryOp::Cons => "::",
            BinaryOp::Append => "++",
            BinaryOp::Pipe => "|>",
            BinaryOp::ComposeRight => ">>",
            BinaryOp::ComposeLeft => "<<",
            BinaryOp::Spread(arithmetic, side) => match (arithmetic, side) {
                (Arithmetic::Add, Side::Left) => ".+",
                (Arithmetic::Sub, Side::Left) => ".-",
                (Arithmetic::Mul, Side::Left) => ".*",
                (Arithmetic::Div, Side::Left) => "./",
                (Arithmetic::Add, Side::Right) => "+.",
                (Arithmetic::Sub, Side::Right) => "-.",
                (Arithmetic::Mul, Side::Right) => "*.",
                (Arithmetic::Div, Side::Right) => "/.",
            },
        }
    }
}

impl Arithmetic {
    /// The operator on two operands of one type.
    pub(crate) fn op(self) -> BinaryOp {
        match self {
            Arithmetic::Add => BinaryOp::Add,
            Arithmetic::Sub => BinaryOp::Sub,
            Arithmetic::Mul => BinaryOp::Mul,
            Arithmetic::Div => BinaryOp::Div,
        }
    }
}

impl Comparison {
    /// The comparison as written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterEqual => ">=",
        }
    }

    /// Whether it holds between operands of which the left one is less than, equal to or greater than the right one.
    pub(crate) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterEqual => ordering.is_ge(),
        }
    }
}
