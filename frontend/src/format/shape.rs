//! The structure of a text as the formatter sees it: every token in its place, and which parts belong together. It is
//! coarser than the syntax tree, which has no parentheses and no tokens, and where some forms have become others.
//!
//! Every node lives in a table and names its parts by index, as in the syntax tree. Chains are one node, however long.

use crate::arena::{Table, id_types};

id_types! {
    /// A token of the text.
    TokenId;
    /// A part of the text.
    NodeId;
}

/// A part of the text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) shape: Shape,
    pub(super) first: TokenId,
    pub(super) last: TokenId,
}

/// How a part of the text is made up.
#[derive(Debug)]
pub(super) enum Shape {
    /// A name, a literal, an operator that stands alone.
    Token(TokenId),
    /// `f a b`, `C p q`, `List (Array a)`: what is applied, and to what.
    Row(Vec<NodeId>),
    /// Other parts side by side: `for i in 0 .. n`, `* 2` in a section, an import.
    Words(Vec<NodeId>),
    /// `a + b - c`, `A -> B`, `p | q`: operators that bind equally, and what they stand between.
    Chain(NodeId, Vec<(TokenId, NodeId)>),
    /// `- -a`.
    Minus(Vec<TokenId>, NodeId),
    /// `a[i].x`.
    Postfix(NodeId, Vec<Suffix>),
    /// What stands in brackets.
    Brackets(Brackets),
    /// `x = e` or `e : T`, in brackets.
    Pair(NodeId, TokenId, NodeId),
    /// `e for i < n`: an element, and clauses of which each may have a line.
    Comprehension(NodeId, Vec<NodeId>),
    /// `for i < n, j < m`.
    Dimensions(Vec<Entry>),
    /// `let … in`, `if … then … else`, one after the other, and what comes after the last.
    Steps(Vec<Step>, NodeId),
    /// `loop p = e for … do e`.
    Loop { start: Equation, driver: NodeId, do_token: TokenId, body: NodeId },
    /// `match e with | p -> e`.
    Match { match_token: TokenId, value: NodeId, with_token: TokenId, arms: Vec<Arm> },
    /// `\p q -> e`.
    Lambda { backslash: TokenId, params: Vec<NodeId>, arrow: TokenId, body: NodeId },
}

/// What directly follows a value.
#[derive(Debug)]
pub(super) enum Suffix {
    /// `.x`: the dot and the name.
    Field(TokenId, TokenId),
    /// `[i]`.
    Index(NodeId),
}

/// `( … )`, `[ … ]`, `[| … |]` or `{ … }`.
#[derive(Debug)]
pub(super) struct Brackets {
    pub(super) open: TokenId,
    /// `r with`, before the entries of a record.
    pub(super) head: Option<(NodeId, TokenId)>,
    pub(super) entries: Vec<Entry>,
    pub(super) close: TokenId,
}

/// An entry in brackets, and the comma after it, or the semicolon that ends a row of a matrix.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) node: NodeId,
    pub(super) comma: Option<TokenId>,
}

/// `let f p : T = e`, and likewise for `and`, `loop`, `def` and `alias`.
#[derive(Debug)]
pub(super) struct Equation {
    /// The word before it, and before that `private`, if it is there.
    pub(super) words: Vec<TokenId>,
    /// What is defined, with its parameters.
    pub(super) head: NodeId,
    /// `: T`.
    pub(super) annotation: Option<(TokenId, NodeId)>,
    pub(super) equals: TokenId,
    pub(super) value: NodeId,
}

/// What a value may stand behind.
#[derive(Debug)]
pub(super) enum Step {
    /// `let f x = e and g x = e in`.
    Let(Vec<Equation>, TokenId),
    /// `if c then e else`.
    If { if_token: TokenId, condition: NodeId, then_token: TokenId, value: NodeId, else_token: TokenId },
}

/// `| p if e -> e`.
#[derive(Debug)]
pub(super) struct Arm {
    pub(super) bar: Option<TokenId>,
    pub(super) pattern: NodeId,
    pub(super) guard: Option<(TokenId, NodeId)>,
    pub(super) arrow: TokenId,
    pub(super) body: NodeId,
}

/// A declaration.
#[derive(Debug)]
pub(super) enum Declaration {
    /// `import shapes (area)`.
    Import(NodeId),
    /// `def f x = e`, `alias T = A`.
    Equation(Equation),
    /// `type T = A | B`.
    Data {
        /// `type`, and before that `private`, if it is there.
        words: Vec<TokenId>,
        head: NodeId,
        equals: TokenId,
        /// The constructors, each with the bar before it, which the first may have.
        constructors: Vec<(Option<TokenId>, NodeId)>,
    },
}

/// A text.
#[derive(Default, Debug)]
pub(super) struct Structure {
    pub(super) nodes: Table<NodeId, Node>,
    pub(super) declarations: Vec<Declaration>,
    /// The end of the text.
    pub(super) end: Option<TokenId>,
}
