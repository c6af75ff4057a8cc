//! Decision trees for `match`: which test comes first, and which arms are left after it.
//!
//! Follows Maranget, "Compiling Pattern Matching to Good Decision Trees" (2008): a matrix of rows, specialised by the
//! constructors of a chosen column. Columns that the first row doesn't need are never chosen; among those that it
//! needs the one that most rows need is. Alternatives of an or-pattern become rows when their column is chosen, and
//! equal rows are one, so that or-patterns don't multiply; constructors with equal rows share a subtree. When a tree
//! grows out of proportion the rest is tried row by row.

use super::Elaborator;
use crate::arena::{Table, id_types};
use crate::ast::{Arm, NIL, PatternId, PatternKind};
use crate::ast::{CONS, ConstructorId};
use crate::mono::Mono;
use crate::resolve::LocalId;
use std::collections::HashMap;

/// So many nodes per row, and the rest is tried row by row.
const NODES_PER_ROW_MAX: usize = 16;

id_types! {
    /// A place in the value that is matched.
    Place;
}

/// What a place is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum PlaceNode {
    /// The value.
    Root,
    /// A part of a tuple or record.
    Part(Place, usize),
    /// A field of an object with a tag.
    Field(Place, u16, usize),
}

/// All places of a `match`, with the types of what is there.
#[derive(Default, Debug)]
pub(super) struct Places {
    pub(super) nodes: Table<Place, (PlaceNode, Mono)>,
    ids: HashMap<PlaceNode, Place>,
}

impl Places {
    pub(super) fn intern(&mut self, node: PlaceNode, ty: Mono) -> Place {
        *self.ids.entry(node).or_insert_with(|| self.nodes.push((node, ty)))
    }
}

/// A literal in a pattern, told apart by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Literal {
    Int(i64),
    Real(u64),
}

/// What a pattern tests first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Head {
    /// A tag; the number of its fields in the source is not needed.
    Tag(u16),
    Literal(Literal),
}

/// A variable's place, for each variable of an arm.
pub(super) type Binds = Vec<(LocalId, Place)>;

/// The rows that are left: what must still be tested, what is bound, and the arm.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    tests: Vec<(Place, Pattern)>,
    binds: Binds,
    arm: usize,
}

/// A pattern that is still to be tested. A list's is cut after some elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pattern {
    pattern: PatternId,
    /// How many elements of a list pattern were matched before.
    skipped: usize,
}

/// A decision tree.
#[derive(Debug)]
pub(super) enum Tree {
    /// No arm is left.
    Fail,
    /// An arm is chosen.
    Leaf { arm: usize, binds: Binds },
    /// An arm is chosen if its guard holds.
    Guard { arm: usize, binds: Binds, otherwise: Box<Tree> },
    /// A choice by tag; each list of tags has a subtree.
    Switch { place: Place, cases: Vec<(Vec<u16>, Tree)>, default: Option<Box<Tree>> },
    /// A choice by literal.
    Literals { place: Place, cases: Vec<(Vec<Literal>, Tree)>, default: Box<Tree> },
    /// The second tree where the first fails.
    Else(Box<Tree>, Box<Tree>),
}

/// Makes the decision tree of a `match`.
pub(super) struct Decider<'d, 's, 'p> {
    elaborator: &'d mut Elaborator<'s, 'p>,
    pub(super) places: Places,
    arms: &'d [Arm],
    /// How many nodes may still be made before the rest is tried row by row.
    nodes_left: usize,
}

impl<'d, 's, 'p> Decider<'d, 's, 'p> {
    pub(super) fn new(elaborator: &'d mut Elaborator<'s, 'p>, arms: &'d [Arm]) -> Self {
        Decider { elaborator, places: Places::default(), arms, nodes_left: NODES_PER_ROW_MAX * (arms.len() + 8) }
    }

    /// The tree for a value of a type.
    pub(super) fn decide(&mut self, ty: Mono) -> Tree {
        let root = self.places.intern(PlaceNode::Root, ty);
        let mut rows = Vec::with_capacity(self.arms.len());
        for (arm, &Arm { pattern, .. }) in self.arms.iter().enumerate() {
            let mut row = Row { tests: Vec::new(), binds: Vec::new(), arm };
            self.add(&mut row, root, Pattern { pattern, skipped: 0 });
            rows.push(row);
        }
        self.tree(rows)
    }

    /// Adds a pattern to a row: names are bound, tuples and records taken apart, and what can fail is kept as a test.
    fn add(&mut self, row: &mut Row, place: Place, wanted: Pattern) {
        let (ast, resolved) = (self.elaborator.program.ast, self.elaborator.program.resolved);
        let pattern = wanted.pattern;
        if wanted.skipped == 0
            && let Some(local) = resolved.bound[pattern]
        {
            row.binds.push((local, place));
        }
        let ty = self.places.nodes[place].1;
        match &ast.patterns[pattern].kind {
            PatternKind::Var(_) | PatternKind::Wildcard => {}
            PatternKind::As(_, inner) | PatternKind::Ascribe(inner, _) => {
                crate::stack::grown(|| self.add(row, place, Pattern { pattern: *inner, skipped: 0 }));
            }
            PatternKind::Tuple(parts) => {
                for (at, &pattern) in parts.iter().enumerate() {
                    self.add_part(row, place, at, pattern);
                }
            }
            PatternKind::Record(fields) => {
                let only = self.elaborator.only_constructor(ty).map(|(_, names)| names);
                let names = only.clone().unwrap_or_else(|| self.elaborator.record_fields(ty).to_vec());
                for field in fields {
                    match names.iter().position(|&name| name == field.name) {
                        Some(at) if only.is_some() => self.add_field(row, place, at, field.pattern),
                        Some(at) => self.add_part(row, place, at, field.pattern),
                        None => {}
                    }
                }
            }
            PatternKind::Cons(heads, tail) if wanted.skipped == heads.len() => {
                crate::stack::grown(|| self.add(row, place, Pattern { pattern: *tail, skipped: 0 }));
            }
            _ => row.tests.push((place, wanted)),
        }
    }

    fn add_part(&mut self, row: &mut Row, place: Place, at: usize, pattern: PatternId) {
        let ty = self.elaborator.program.monos.parts(self.places.nodes[place].1)[at];
        let part = self.places.intern(PlaceNode::Part(place, at), ty);
        crate::stack::grown(|| self.add(row, part, Pattern { pattern, skipped: 0 }));
    }

    /// Adds the pattern of a field of a data type with one constructor, which needs no test.
    fn add_field(&mut self, row: &mut Row, place: Place, at: usize, pattern: PatternId) {
        let ty = self.elaborator.program.fields(self.places.nodes[place].1)[0][at];
        let field = self.places.intern(PlaceNode::Field(place, 0, at), ty);
        crate::stack::grown(|| self.add(row, field, Pattern { pattern, skipped: 0 }));
    }

    fn tree(&mut self, rows: Vec<Row>) -> Tree {
        crate::stack::grown(|| self.tree_here(rows))
    }

    fn tree_here(&mut self, mut rows: Vec<Row>) -> Tree {
        let Some(first) = rows.first() else { return Tree::Fail };
        if first.tests.is_empty() {
            let first = rows.remove(0);
            if self.arms[first.arm].guard.is_none() {
                return Tree::Leaf { arm: first.arm, binds: first.binds };
            }
            let otherwise = Box::new(self.tree(rows));
            return Tree::Guard { arm: first.arm, binds: first.binds, otherwise };
        }
        if self.nodes_left == 0 && rows.len() > 1 {
            let rest = rows.split_off(1);
            let first = self.tree(rows);
            return Tree::Else(Box::new(first), Box::new(self.tree(rest)));
        }
        self.nodes_left = self.nodes_left.saturating_sub(1);
        let needs = |place: Place| rows.iter().filter(|row| row.tests.iter().any(|test| test.0 == place)).count();
        // Of equals the first.
        let place = first.tests.iter().map(|test| test.0).rev().max_by_key(|&place| needs(place));
        let place = place.expect("the first row has a test");
        let rows = self.split_alternatives(rows, place);
        let mut heads: Vec<Head> = Vec::new();
        for row in &rows {
            if let Some(&(_, pattern)) = row.tests.iter().find(|test| test.0 == place) {
                let head = self.head(place, pattern);
                if !heads.contains(&head) {
                    heads.push(head);
                }
            }
        }
        let default: Vec<Row> =
            rows.iter().filter(|row| row.tests.iter().all(|test| test.0 != place)).cloned().collect();
        let mut groups: Vec<(Vec<Head>, Vec<Row>)> = Vec::new();
        for head in heads {
            let rows = self.specialised(&rows, place, head);
            match groups.iter_mut().find(|group| group.1 == rows) {
                Some(group) => group.0.push(head),
                None => groups.push((vec![head], rows)),
            }
        }
        self.node(place, groups, default)
    }

    fn node(&mut self, place: Place, groups: Vec<(Vec<Head>, Vec<Row>)>, default: Vec<Row>) -> Tree {
        let tested: usize = groups.iter().map(|group| group.0.len()).sum();
        let (mut tags, mut literals) = (Vec::new(), Vec::new());
        for (heads, rows) in groups {
            let tree = self.tree(rows);
            let mut of_tags = Vec::new();
            let mut of_literals = Vec::new();
            for head in heads {
                match head {
                    Head::Tag(tag) => of_tags.push(tag),
                    Head::Literal(literal) => of_literals.push(literal),
                }
            }
            if of_literals.is_empty() {
                tags.push((of_tags, tree));
            } else {
                literals.push((of_literals, tree));
            }
        }
        let ty = self.places.nodes[place].1;
        if literals.is_empty() {
            let constructors = self.elaborator.program.fields(ty).len();
            let default = (tested < constructors).then(|| Box::new(self.tree(default)));
            return Tree::Switch { place, cases: tags, default };
        }
        if ty == self.elaborator.program.monos.bool && tested == 2 {
            let (_, last) = literals.pop().expect("there are two");
            return match literals.is_empty() {
                // Both lead to the same.
                true => last,
                false => Tree::Literals { place, cases: literals, default: Box::new(last) },
            };
        }
        Tree::Literals { place, cases: literals, default: Box::new(self.tree(default)) }
    }

    /// Rows with an or-pattern at a place become one row for each alternative.
    fn split_alternatives(&mut self, rows: Vec<Row>, place: Place) -> Vec<Row> {
        let ast = self.elaborator.program.ast;
        let mut split: Vec<Row> = Vec::with_capacity(rows.len());
        for row in rows {
            let at = row.tests.iter().position(|test| test.0 == place);
            let alternatives = at.and_then(|at| match &ast.patterns[row.tests[at].1.pattern].kind {
                PatternKind::Or(alternatives) => Some((at, alternatives)),
                _ => None,
            });
            match alternatives {
                None => split.push(row),
                Some((at, alternatives)) => {
                    let mut made = Vec::new();
                    for &pattern in alternatives {
                        let mut row = row.clone();
                        row.tests.remove(at);
                        self.add(&mut row, place, Pattern { pattern, skipped: 0 });
                        made.push(row);
                    }
                    split.extend(crate::stack::grown(|| self.split_alternatives(made, place)));
                }
            }
        }
        split
    }

    fn head(&self, place: Place, wanted: Pattern) -> Head {
        let program = &self.elaborator.program;
        match &program.ast.patterns[wanted.pattern].kind {
            PatternKind::Constructor(..) => {
                let constructor: ConstructorId =
                    program.resolved.constructors[wanted.pattern].expect("resolution knows every constructor");
                Head::Tag(self.elaborator.tag(constructor))
            }
            PatternKind::Cons(..) => Head::Tag(self.elaborator.tag(CONS)),
            PatternKind::List(parts) => {
                Head::Tag(self.elaborator.tag(if wanted.skipped == parts.len() { NIL } else { CONS }))
            }
            PatternKind::Int(value) => Head::Literal(match self.places.nodes[place].1 == program.monos.real {
                true => Literal::Real((*value as f64).to_bits()),
                false => Literal::Int(*value),
            }),
            PatternKind::Real(value) => Head::Literal(Literal::Real(value.to_bits())),
            PatternKind::Bool(value) => Head::Literal(Literal::Int(i64::from(*value))),
            other => unreachable!("this can't fail: {other:?}"),
        }
    }

    /// The rows that are left where a place has a head.
    fn specialised(&mut self, rows: &[Row], place: Place, head: Head) -> Vec<Row> {
        let mut left: Vec<Row> = Vec::new();
        for row in rows {
            let mut new = row.clone();
            if let Some(at) = row.tests.iter().position(|test| test.0 == place) {
                let (_, wanted) = new.tests.remove(at);
                if self.head(place, wanted) != head {
                    continue;
                }
                let others = new.tests.split_off(at);
                self.add_fields(&mut new, place, wanted, head);
                new.tests.extend(others);
            }
            // A row that comes again can't be reached.
            if !left.contains(&new) {
                left.push(new);
            }
        }
        left
    }

    fn add_fields(&mut self, row: &mut Row, place: Place, wanted: Pattern, head: Head) {
        let Head::Tag(tag) = head else { return };
        let ast = self.elaborator.program.ast;
        let fields: Vec<(usize, Pattern)> = match &ast.patterns[wanted.pattern].kind {
            PatternKind::Cons(heads, _) if wanted.skipped < heads.len() => {
                let first = Pattern { pattern: heads[wanted.skipped], skipped: 0 };
                vec![(0, first), (1, Pattern { pattern: wanted.pattern, skipped: wanted.skipped + 1 })]
            }
            PatternKind::List(parts) if wanted.skipped < parts.len() => {
                let first = Pattern { pattern: parts[wanted.skipped], skipped: 0 };
                vec![(0, first), (1, Pattern { pattern: wanted.pattern, skipped: wanted.skipped + 1 })]
            }
            PatternKind::Constructor(..) => {
                let fields = self.elaborator.field_patterns(wanted.pattern).into_iter();
                fields.map(|(at, pattern)| (at, Pattern { pattern, skipped: 0 })).collect()
            }
            _ => Vec::new(),
        };
        let ty = self.places.nodes[place].1;
        let types = self.elaborator.program.fields(ty);
        for (at, wanted) in fields {
            let field = self.places.intern(PlaceNode::Field(place, tag, at), types[usize::from(tag)][at]);
            self.add(row, field, wanted);
        }
    }
}
