//! Where lines may end in each form: an arm of [`Layout::node`], or a function.

use super::{Layout, PARAMETER, PART};
use crate::arena::Id;
use crate::format::document::{Break, Command, When};
use crate::format::shape::{Arm, Brackets, Equation, NodeId, Shape, Step, Suffix, TokenId};
use crate::token::TokenKind;

impl Layout<'_> {
    pub(super) fn node(&mut self, id: NodeId) {
        if !self.meter.step(self.tokens[self.first(id).index()].span) {
            return;
        }
        let structure = self.structure;
        crate::stack::grown(|| match &structure.nodes[id].shape {
            Shape::Token(token) => self.token(*token),
            Shape::Row(parts) => self.row(parts),
            Shape::Words(parts) => self.group(|layout| {
                layout.node(parts[0]);
                layout.indented(PART, |layout| {
                    for part in &parts[1..] {
                        layout.gap(layout.first(*part), When::Full);
                        layout.node(*part);
                    }
                });
            }),
            Shape::Chain(first, rest) => self.chain(*first, rest),
            Shape::Minus(signs, operand) => {
                for (number, sign) in signs.iter().enumerate() {
                    // Two without a space would be a comment.
                    if number > 0 {
                        self.space();
                    }
                    self.token(*sign);
                }
                self.node(*operand);
            }
            Shape::Postfix(value, suffixes) => {
                self.node(*value);
                suffixes.iter().for_each(|suffix| self.suffix(suffix));
            }
            Shape::Brackets(brackets) => self.brackets(brackets),
            Shape::Pair(left, mark, right) => self.group(|layout| {
                layout.node(*left);
                layout.space();
                layout.token(*mark);
                match layout.kind(*mark) {
                    TokenKind::Equals => layout.value(*right),
                    _ => {
                        layout.space();
                        layout.node(*right);
                    }
                }
            }),
            Shape::Comprehension(element, clauses) => {
                self.node(*element);
                for clause in clauses {
                    self.gap(self.first(*clause), When::Group);
                    self.node(*clause);
                }
            }
            Shape::Dimensions(dimensions) => self.group(|layout| {
                for (number, dimension) in dimensions.iter().enumerate() {
                    if number > 0 {
                        layout.gap(layout.first(dimension.node), When::Full);
                    }
                    layout.node(dimension.node);
                    dimension.comma.iter().for_each(|comma| layout.token(*comma));
                }
            }),
            Shape::Steps(steps, last) => self.aligned(|layout| layout.steps(steps, *last)),
            Shape::Loop { start, driver, do_token, body } => self.aligned(|layout| {
                layout.group(|layout| {
                    layout.words(&start.words);
                    layout.indented(PARAMETER, |layout| {
                        layout.head(start);
                        layout.space();
                        layout.node(start.value);
                        layout.gap(layout.first(*driver), When::Full);
                        layout.node(*driver);
                    });
                    layout.space();
                    layout.token(*do_token);
                    layout.part(*body);
                });
            }),
            Shape::Match { match_token, value, with_token, arms } => self.aligned(|layout| {
                layout.group(|layout| {
                    layout.token(*match_token);
                    layout.space();
                    layout.node(*value);
                    layout.space();
                    layout.token(*with_token);
                    arms.iter().for_each(|arm| layout.arm(arm));
                });
            }),
            Shape::Lambda { backslash, params, arrow, body } => self.group(|layout| {
                layout.token(*backslash);
                for (number, param) in params.iter().enumerate() {
                    if number > 0 {
                        layout.space();
                    }
                    layout.node(*param);
                }
                layout.space();
                layout.token(*arrow);
                let when = if layout.has_lines(id) { When::Always } else { When::Group };
                layout.part_after(when, *body);
            }),
        });
    }

    /// Tokens, each with a space behind it.
    pub(super) fn words(&mut self, words: &[TokenId]) {
        for word in words {
            self.token(*word);
            self.space();
        }
    }

    /// A part that stands beside what is before it, or else on the next line, further to the right.
    fn part(&mut self, node: NodeId) {
        self.part_after(When::Group, node);
    }

    fn part_after(&mut self, when: When, node: NodeId) {
        self.indented(PART, |layout| {
            layout.gap(layout.first(node), when);
            layout.node(node);
        });
    }

    /// What comes after `=` or an arrow: a part, or something whose last line stands under the line of the `=`.
    fn value(&mut self, node: NodeId) {
        if !self.starts_on_a_line(node) && self.hangs(node) {
            self.space();
            self.node(node);
        } else {
            self.part(node);
        }
    }

    /// Whether a form begins on any line and ends under it, as its author has it: a function of several lines, brackets
    /// with a line's end after the opening one, and calls with such an argument.
    fn hangs(&self, node: NodeId) -> bool {
        match &self.structure.nodes[node].shape {
            Shape::Row(parts) => self.hanging_argument(parts).is_some(),
            Shape::Brackets(brackets) => self.has_hanging_function(brackets) || self.brackets_hang(brackets),
            Shape::Lambda { .. } => self.has_lines(node),
            _ => false,
        }
    }

    /// Whether a line of the text ended in a function. Then one ends after the arrow.
    fn has_lines(&self, function: NodeId) -> bool {
        let gap = |token: TokenId| &self.trivia.gaps[token.index()];
        let node = &self.structure.nodes[function];
        matches!(node.shape, Shape::Lambda { .. }) && gap(node.first).line_ends < gap(node.last).line_ends
    }

    fn brackets_hang(&self, brackets: &Brackets) -> bool {
        brackets.entries.first().is_some_and(|entry| self.starts_on_a_line(entry.node))
    }

    /// The function that is all that stands in brackets.
    fn only_function(&self, brackets: &Brackets) -> Option<NodeId> {
        let [single] = &brackets.entries[..] else { return None };
        Some(single.node).filter(|node| matches!(self.structure.nodes[*node].shape, Shape::Lambda { .. }))
    }

    fn has_hanging_function(&self, brackets: &Brackets) -> bool {
        self.only_function(brackets).is_some_and(|function| self.has_lines(function))
    }

    /// The first argument that hangs, in a call that has no other line ends.
    fn hanging_argument(&self, parts: &[NodeId]) -> Option<usize> {
        let hangs = |part: &NodeId| match &self.structure.nodes[*part].shape {
            Shape::Brackets(brackets) => self.has_hanging_function(brackets) || self.brackets_hang(brackets),
            _ => false,
        };
        let found = parts.iter().skip(1).position(hangs)? + 1;
        (!parts[1..].iter().any(|part| self.starts_on_a_line(*part))).then_some(found)
    }

    /// Whether parts are so short that they rather fill lines than have a line each.
    fn are_short(&self, mut parts: impl Iterator<Item = NodeId>) -> bool {
        parts.all(|part| match &self.structure.nodes[part].shape {
            Shape::Minus(_, operand) => matches!(self.structure.nodes[*operand].shape, Shape::Token(_)),
            shape => matches!(shape, Shape::Token(_)),
        })
    }

    fn row(&mut self, parts: &[NodeId]) {
        let hanging = self.hanging_argument(parts).unwrap_or(parts.len());
        let fills = hanging < parts.len()
            || parts[1..].iter().any(|part| self.starts_on_a_line(*part))
            || self.are_short(parts.iter().copied());
        let otherwise = if fills { When::Full } else { When::Group };
        self.group(|layout| {
            layout.node(parts[0]);
            layout.indented(PART, |layout| {
                for part in &parts[1..hanging] {
                    layout.gap(layout.first(*part), otherwise);
                    layout.node(*part);
                }
            });
            for part in &parts[hanging..] {
                layout.space();
                layout.node(*part);
            }
        });
    }

    fn chain(&mut self, first: NodeId, rest: &[(TokenId, NodeId)]) {
        let breaks = |layout: &Self, &(operator, operand): &(TokenId, NodeId)| {
            layout.broke(operator) || layout.starts_on_a_line(operand)
        };
        // A line that ends inside of an operand, too, says where the author wants lines to end.
        let line_ends = |token: TokenId| self.trivia.gaps[token.index()].line_ends;
        let last = rest.last().map_or(first, |link| link.1);
        let nodes = &self.structure.nodes;
        let has_lines = line_ends(nodes[first].first) < line_ends(nodes[last].last);
        let fills = has_lines || rest.iter().any(|link| self.hangs(link.1)) || self.hangs(first);
        let otherwise = if fills { When::Full } else { When::Group };
        self.group(|layout| {
            layout.aligned(|layout| {
                layout.node(first);
                layout.indented(PART, |layout| {
                    for link in rest {
                        // A line begins with its operator, wherever the author had put that.
                        let when = if breaks(layout, link) { When::Always } else { otherwise };
                        layout.push(Command::Break(Break { when, is_blank: false }));
                        layout.token(link.0);
                        layout.space();
                        layout.node(link.1);
                    }
                });
            });
        });
    }

    fn suffix(&mut self, suffix: &Suffix) {
        match suffix {
            Suffix::Field(dot, name) => {
                self.token(*dot);
                if !self.tokens[name.index()].glued {
                    self.space();
                }
                self.token(*name);
            }
            Suffix::Index(brackets) => self.node(*brackets),
        }
    }

    fn brackets(&mut self, brackets: &Brackets) {
        let Brackets { open, head, entries, close } = brackets;
        let is_padded = matches!(self.kind(*open), TokenKind::LeftArray | TokenKind::LeftBrace)
            && (head.is_some() || !entries.is_empty());
        let hangs = self.brackets_hang(brackets);
        // A function in parentheses stands as if there were none.
        let inside = if hangs {
            Command::Indent(PART)
        } else if self.only_function(brackets).is_some() {
            Command::Indent(0)
        } else {
            Command::Align
        };
        self.group(|layout| {
            layout.token(*open);
            if is_padded && !(hangs && head.is_none()) {
                layout.space();
            }
            if let Some((record, with)) = head {
                layout.node(*record);
                layout.space();
                layout.token(*with);
                layout.space();
            }
            layout.push(inside);
            layout.entries(brackets, hangs);
            layout.comments_before(*close);
            layout.push(Command::Dedent);
            if hangs {
                layout.push(Command::Break(Break { when: When::Always, is_blank: false }));
            } else if is_padded {
                layout.space();
            }
            layout.token_after_comments(*close);
        });
    }

    fn entries(&mut self, brackets: &Brackets, hangs: bool) {
        let mut comma: Option<TokenId> = None;
        let breaks = |layout: &Self, comma: Option<TokenId>, entry: NodeId| {
            layout.starts_on_a_line(entry) || comma.is_some_and(|comma| layout.broke(comma))
        };
        let some_break = brackets.entries.windows(2).any(|pair| breaks(self, pair[0].comma, pair[1].node));
        let ends_row = |layout: &Self, comma: Option<TokenId>| {
            comma.is_some_and(|comma| layout.kind(comma) == TokenKind::Semicolon)
        };
        let is_matrix = brackets.entries.iter().any(|entry| ends_row(self, entry.comma));
        let fills = hangs || some_break || self.are_short(brackets.entries.iter().map(|entry| entry.node));
        for (number, entry) in brackets.entries.iter().enumerate() {
            if number > 0 || hangs {
                let ends_line = number == 0 || breaks(self, comma, entry.node);
                // Rows of a matrix have a line each, if they need more than one; what is in them fills it.
                let otherwise = match is_matrix {
                    true if ends_row(self, comma) && !some_break && !hangs => When::Group,
                    false if !fills => When::Group,
                    _ => When::Full,
                };
                let when = if ends_line { When::Always } else { otherwise };
                let is_blank = number > 0 && self.had_blank_line(self.first(entry.node));
                self.push(Command::Break(Break { when, is_blank }));
            }
            self.node(entry.node);
            comma = entry.comma;
            if let Some(comma) = comma {
                self.token(comma);
            }
        }
    }

    /// The beginning of an equation, without the words before it, up to its `=`.
    fn head(&mut self, equation: &Equation) {
        match &self.structure.nodes[equation.head].shape {
            Shape::Row(parts) => {
                self.node(parts[0]);
                for part in &parts[1..] {
                    self.gap(self.first(*part), When::Full);
                    self.node(*part);
                }
            }
            _ => self.node(equation.head),
        }
        if let Some((colon, ty)) = equation.annotation {
            self.gap(colon, When::Full);
            self.token(colon);
            self.space();
            self.node(ty);
        }
        self.space();
        self.token(equation.equals);
    }

    pub(super) fn equation(&mut self, equation: &Equation) {
        self.group(|layout| {
            layout.words(&equation.words);
            layout.indented(PARAMETER, |layout| layout.head(equation));
            layout.value(equation.value);
        });
    }

    /// The right side of a data type. The `=` stands before the first constructor as the bars before the others.
    pub(super) fn constructors(&mut self, equals: TokenId, constructors: &[(Option<TokenId>, NodeId)]) {
        if let [(None, single)] = constructors {
            self.space();
            self.token(equals);
            return self.value(*single);
        }
        self.indented(PART, |layout| {
            let starts_with_bar = constructors[0].0.is_some();
            if starts_with_bar {
                layout.space();
            } else {
                let breaks = layout.broke(equals) || layout.starts_on_a_line(constructors[0].1);
                let when = if breaks { When::Always } else { When::Group };
                layout.push(Command::Break(Break { when, is_blank: false }));
            }
            layout.token(equals);
            for (bar, constructor) in constructors {
                match bar {
                    Some(bar) => {
                        layout.gap_between(*bar, When::Group);
                        layout.token(*bar);
                        layout.space();
                    }
                    None => layout.space(),
                }
                layout.node(*constructor);
            }
        });
    }

    /// A chain of `let` and `if`. What is opened for a step stays open to the end, where all is closed.
    fn steps(&mut self, steps: &[Step], last: NodeId) {
        let mut closing: Vec<Command> = Vec::new();
        let firsts = steps[1..].iter().map(|step| match step {
            Step::Let(equations, _) => equations[0].words[0],
            Step::If { if_token, .. } => *if_token,
        });
        let firsts: Vec<TokenId> = firsts.chain([self.first(last)]).collect();
        for (number, step) in steps.iter().enumerate() {
            let follows_if = number > 0 && matches!(steps[number - 1], Step::If { .. });
            let follows_let = number > 0 && !follows_if;
            match step {
                Step::Let(equations, in_token) => {
                    if !follows_let {
                        self.push(Command::Open { is_broken: false });
                        closing.push(Command::Close);
                    }
                    for (number, equation) in equations.iter().enumerate() {
                        if number > 0 {
                            self.gap_between(equation.words[0], When::Group);
                        }
                        self.equation(equation);
                    }
                    self.space();
                    self.token(*in_token);
                    self.gap_between(firsts[number], When::Group);
                }
                Step::If { if_token, condition, then_token, value, else_token } => {
                    if !follows_if {
                        self.push(Command::Open { is_broken: false });
                        closing.push(Command::Close);
                    }
                    self.group(|layout| {
                        layout.token(*if_token);
                        layout.space();
                        layout.node(*condition);
                        layout.push(Command::Break(Break { when: When::Group, is_blank: false }));
                        layout.token(*then_token);
                    });
                    self.group(|layout| layout.part(*value));
                    self.gap(*else_token, When::Group);
                    self.token(*else_token);
                    if matches!(steps.get(number + 1), Some(Step::If { .. })) {
                        self.space();
                    } else {
                        self.push(Command::Open { is_broken: false });
                        self.push(Command::Indent(PART));
                        self.gap(firsts[number], When::Group);
                        closing.extend([Command::Close, Command::Dedent]);
                    }
                }
            }
        }
        self.node(last);
        while let Some(command) = closing.pop() {
            self.push(command);
        }
    }

    fn arm(&mut self, arm: &Arm) {
        let by = if arm.bar.is_some() { 0 } else { PART };
        self.indented(by, |layout| {
            layout.gap_between(arm.bar.unwrap_or(layout.first(arm.pattern)), When::Group);
            layout.group(|layout| {
                layout.words(arm.bar.as_slice());
                layout.node(arm.pattern);
                if let Some((word, guard)) = arm.guard {
                    layout.space();
                    layout.token(word);
                    layout.space();
                    layout.node(guard);
                }
                layout.space();
                layout.token(arm.arrow);
                layout.value(arm.body);
            });
        });
    }
}
