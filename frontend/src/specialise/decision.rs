//! Decision trees for `match`: which test comes first, and which arms are left after it.
//!
//! Follows Maranget, "Compiling Pattern Matching to Good Decision Trees" (2008): a matrix of rows, specialised by the
//! constructors of a chosen column. Columns that the first row doesn't need are never chosen; among those that it
//! needs the one that most rows need is. Alternatives of an or-pattern become rows when their column is chosen, and
//! equal rows are one, so that or-patterns don't multiply; constructors with equal rows share a subtree.
//!
//! A tree can be exponentially larger than its `match`, because rows that match anything in a column are copied for
//! each of its constructors. When a tree takes more work than a multiple of the size of its patterns, the rest is done
//! without copies: rows that test the same place first are taken together, and where they fail the rows after them are
//! tried (Augustsson 1985). What even so takes too much work is refused.

use super::Elaborator;
use crate::arena::{Table, id_types};
use crate::ast::{Arm, CONS, ConstructorId, NIL, PatternId, PatternKind};
use crate::hash::{HashMap, HashSet};
use crate::mono::Mono;
use crate::resolve::LocalId;
use std::cmp::Ordering;
use std::hash::Hash;

/// How much work may go into copies of rows, per part of a pattern; and for any `match`.
const COPIED_PER_PATTERN: usize = 32;
const COPIED_MIN: usize = 1_000;
/// How much work all matches of a program may take, besides [`WORK_PER_PATTERN`] for each part of a pattern.
pub(super) const WORK_MAX: usize = 4_000_000;
const WORK_PER_PATTERN: usize = 256;

/// How many tests a value may need one after the other: as many as twice the elements of a list pattern.
pub(super) const TESTS_MAX: u32 = 10_000;

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

/// A literal in a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Literal {
    Int(i64),
    /// By its bits; 0.0 stands for both zeros, which are equal.
    Real(u64),
}

impl Literal {
    /// The order of literals of one type.
    pub(super) fn order(&self, other: &Literal) -> Ordering {
        let real = |bits: &u64| f64::from_bits(*bits);
        match (self, other) {
            (Literal::Int(a), Literal::Int(b)) => a.cmp(b),
            (Literal::Real(a), Literal::Real(b)) => real(a).total_cmp(&real(b)),
            (Literal::Int(_), Literal::Real(_)) => Ordering::Less,
            (Literal::Real(_), Literal::Int(_)) => Ordering::Greater,
        }
    }

    fn real(value: f64) -> Literal {
        Literal::Real(if value == 0.0 { 0 } else { value.to_bits() })
    }
}

/// What a pattern tests first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Head {
    /// A tag; the number of its fields in the source is not needed.
    Tag(u16),
    Literal(Literal),
}

/// A variable's place, for each variable of an arm.
pub(super) type Binds = Vec<(LocalId, Place)>;

/// A pattern that is still to be tested at a place. A list's is cut after some elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Test {
    place: Place,
    pattern: PatternId,
    /// How many elements of a list pattern were matched before.
    skipped: usize,
}

/// The end of a list in [`Lists`].
type List = Option<u32>;

/// Lists that share their ends. Equal lists are one.
#[derive(Debug)]
struct Lists<T> {
    cells: Vec<(T, List)>,
    ids: HashMap<(T, List), u32>,
}

impl<T: Copy + Eq + Hash> Lists<T> {
    fn new() -> Self {
        Lists { cells: Vec::new(), ids: HashMap::default() }
    }

    /// The list with one more in front.
    fn push(&mut self, first: T, rest: List) -> List {
        let Lists { cells, ids } = self;
        let id = *ids.entry((first, rest)).or_insert_with(|| {
            cells.push((first, rest));
            u32::try_from(cells.len() - 1).expect("the work is bounded")
        });
        Some(id)
    }

    fn get(&self, list: List) -> Option<(T, List)> {
        list.map(|id| self.cells[id as usize])
    }
}

/// The rows that are left: what must still be tested, what is bound (the last one first), and the arm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Row {
    tests: List,
    binds: List,
    arm: usize,
}

/// What a pattern adds to a row.
#[derive(Default, Debug)]
struct Added {
    tests: Vec<Test>,
    binds: Vec<(LocalId, Place)>,
}

/// An arm that is chosen, with the places of its variables.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) arm: usize,
    pub(super) binds: Binds,
}

/// A decision tree.
#[derive(Debug)]
pub(super) enum Tree {
    /// No arm is left.
    Fail,
    /// An arm is chosen.
    Leaf(Chosen),
    /// The first arm whose guard holds is chosen.
    Guards { guards: Vec<Chosen>, otherwise: Box<Tree> },
    /// A choice by tag; each list of tags has a subtree.
    Switch { place: Place, cases: Vec<(Vec<u16>, Tree)>, default: Option<Box<Tree>> },
    /// A choice by literal.
    Literals { place: Place, cases: Vec<(Vec<Literal>, Tree)>, default: Box<Tree> },
    /// Each tree where the one before fails.
    Else(Vec<Tree>),
}

/// A tree can't be made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    /// It takes too much work.
    TooComplicated,
    /// A value needs more than [`TESTS_MAX`] tests.
    TooDeep,
}

/// Makes the decision tree of a `match`.
pub(super) struct Decider<'d, 's, 'p> {
    elaborator: &'d mut Elaborator<'s, 'p>,
    pub(super) places: Places,
    arms: &'d [Arm],
    tests: Lists<Test>,
    binds: Lists<(LocalId, Place)>,
    /// How many parts the patterns have.
    size: usize,
    /// The work that may still go into copies of rows.
    copied_left: usize,
    /// The work that may still be done.
    work_left: usize,
}

impl<'d, 's, 'p> Decider<'d, 's, 'p> {
    pub(super) fn new(elaborator: &'d mut Elaborator<'s, 'p>, arms: &'d [Arm]) -> Self {
        let (tests, binds) = (Lists::new(), Lists::new());
        Decider { elaborator, places: Places::default(), arms, tests, binds, size: 0, copied_left: 0, work_left: 0 }
    }

    /// The tree for a value of a type.
    pub(super) fn decide(&mut self, ty: Mono) -> Result<Tree, Refused> {
        let root = self.places.intern(PlaceNode::Root, ty);
        let mut rows = Vec::with_capacity(self.arms.len());
        for (arm, &Arm { pattern, .. }) in self.arms.iter().enumerate() {
            self.size += self.size_of(pattern);
            let mut added = Added::default();
            self.add(&mut added, Test { place: root, pattern, skipped: 0 });
            rows.push(self.extended(Row { tests: None, binds: None, arm }, &[], added, None));
        }
        let of_program = self.elaborator.program.match_work_left;
        self.copied_left = COPIED_MIN + COPIED_PER_PATTERN * self.size;
        self.work_left = of_program + WORK_PER_PATTERN * self.size;
        let tree = self.tree(rows, 0);
        self.elaborator.program.match_work_left = of_program.min(self.work_left);
        tree
    }

    fn size_of(&self, pattern: PatternId) -> usize {
        let ast = self.elaborator.program.ast;
        let mut size = 0;
        let mut pending = vec![pattern];
        while let Some(pattern) = pending.pop() {
            size += 1;
            ast.patterns[pattern].kind.for_each_child(|child| pending.push(child));
        }
        size
    }

    fn spend(&mut self, work: usize) -> Result<(), Refused> {
        self.copied_left = self.copied_left.saturating_sub(work);
        let left = self.work_left.checked_sub(work);
        self.work_left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Refused::TooComplicated)
    }

    /// What a pattern adds to a row: names are bound, tuples and records taken apart, and what can fail is kept as a
    /// test.
    fn add(&mut self, added: &mut Added, test: Test) {
        let (ast, resolved) = (self.elaborator.program.ast, self.elaborator.program.resolved);
        let Test { place, pattern, skipped } = test;
        if skipped == 0
            && let Some(local) = resolved.bound[pattern]
        {
            added.binds.push((local, place));
        }
        let ty = self.places.nodes[place].1;
        match &ast.patterns[pattern].kind {
            PatternKind::Var(_) | PatternKind::Wildcard => {}
            PatternKind::As(_, inner) | PatternKind::Ascribe(inner, _) => {
                crate::stack::grown(|| self.add(added, Test { place, pattern: *inner, skipped: 0 }));
            }
            PatternKind::Tuple(parts) => {
                for (at, &pattern) in parts.iter().enumerate() {
                    self.add_part(added, place, at, pattern);
                }
            }
            PatternKind::Record(fields) => {
                let only = self.elaborator.only_constructor(ty).map(|(_, names)| names);
                let names = only.clone().unwrap_or_else(|| self.elaborator.record_fields(ty).to_vec());
                for field in fields {
                    match names.iter().position(|&name| name == field.name) {
                        Some(at) if only.is_some() => self.add_field(added, place, at, field.pattern),
                        Some(at) => self.add_part(added, place, at, field.pattern),
                        None => {}
                    }
                }
            }
            PatternKind::Cons(heads, tail) if skipped == heads.len() => {
                crate::stack::grown(|| self.add(added, Test { place, pattern: *tail, skipped: 0 }));
            }
            _ => added.tests.push(test),
        }
    }

    fn add_part(&mut self, added: &mut Added, place: Place, at: usize, pattern: PatternId) {
        let ty = self.elaborator.program.monos.parts(self.places.nodes[place].1)[at];
        let part = self.places.intern(PlaceNode::Part(place, at), ty);
        crate::stack::grown(|| self.add(added, Test { place: part, pattern, skipped: 0 }));
    }

    /// Adds the pattern of a field of a data type with one constructor, which needs no test.
    fn add_field(&mut self, added: &mut Added, place: Place, at: usize, pattern: PatternId) {
        let ty = self.elaborator.program.fields(self.places.nodes[place].1)[0][at];
        let field = self.places.intern(PlaceNode::Field(place, 0, at), ty);
        crate::stack::grown(|| self.add(added, Test { place: field, pattern, skipped: 0 }));
    }

    /// A row with what is added between the tests before and after.
    fn extended(&mut self, row: Row, before: &[Test], added: Added, after: List) -> Row {
        let tests = before.iter().chain(&added.tests).rev();
        let tests = tests.fold(after, |rest, &test| self.tests.push(test, rest));
        let binds = added.binds.into_iter().fold(row.binds, |rest, bind| self.binds.push(bind, rest));
        Row { tests, binds, arm: row.arm }
    }

    /// The test of a row at a place, if there is one, with those before and after it.
    fn find(&mut self, row: Row, place: Place) -> Result<Option<(Vec<Test>, Test, List)>, Refused> {
        let mut before = Vec::new();
        let mut left = row.tests;
        while let Some((test, rest)) = self.tests.get(left) {
            self.spend(1)?;
            if test.place == place {
                return Ok(Some((before, test, rest)));
            }
            before.push(test);
            left = rest;
        }
        Ok(None)
    }

    fn tree(&mut self, rows: Vec<Row>, depth: u32) -> Result<Tree, Refused> {
        if depth > TESTS_MAX {
            return Err(Refused::TooDeep);
        }
        crate::stack::grown(|| self.tree_here(rows, depth))
    }

    fn tree_here(&mut self, mut rows: Vec<Row>, depth: u32) -> Result<Tree, Refused> {
        self.spend(rows.len() + 1)?;
        let (guards, last) = self.without_tests(&rows);
        if let Some(last) = last {
            return Ok(guarded(guards, Tree::Leaf(last)));
        }
        rows.drain(..guards.len());
        let Some(&first) = rows.first() else { return Ok(guarded(guards, Tree::Fail)) };
        let tree = if self.copied_left > 0 {
            let place = self.best_place(first, &rows)?;
            let rows = self.split_alternatives(rows, place)?;
            self.split(place, rows, depth)?
        } else {
            self.without_copies(&rows, depth)?
        };
        Ok(guarded(guards, tree))
    }

    /// The first rows, which need no test any more: those with a guard, and the one without, if there is one.
    fn without_tests(&self, rows: &[Row]) -> (Vec<Chosen>, Option<Chosen>) {
        let mut guards = Vec::new();
        for &row in rows.iter().take_while(|row| row.tests.is_none()) {
            let chosen = self.chosen(row);
            if self.arms[row.arm].guard.is_none() {
                return (guards, Some(chosen));
            }
            guards.push(chosen);
        }
        (guards, None)
    }

    fn chosen(&self, row: Row) -> Chosen {
        let mut binds = Vec::new();
        let mut left = row.binds;
        while let Some((bind, rest)) = self.binds.get(left) {
            binds.push(bind);
            left = rest;
        }
        binds.reverse();
        Chosen { arm: row.arm, binds }
    }

    /// The place that most rows test, of those that the first row tests; of equals the first.
    fn best_place(&mut self, first: Row, rows: &[Row]) -> Result<Place, Refused> {
        let (test, rest) = self.tests.get(first.tests).expect("the first row has a test");
        if rest.is_none() || rows.len() == 1 {
            return Ok(test.place);
        }
        let mut needs: HashMap<Place, usize> = HashMap::default();
        let mut places = Vec::new();
        let mut left = first.tests;
        while let Some((test, rest)) = self.tests.get(left) {
            self.spend(1)?;
            if needs.insert(test.place, 0).is_none() {
                places.push(test.place);
            }
            left = rest;
        }
        for row in rows {
            let mut left = row.tests;
            while let Some((test, rest)) = self.tests.get(left) {
                self.spend(1)?;
                needs.entry(test.place).and_modify(|count| *count += 1);
                left = rest;
            }
        }
        // Of equals `max_by_key` takes the last.
        let best = places.into_iter().rev().max_by_key(|place| needs[place]);
        Ok(best.expect("the first row has a test"))
    }

    /// The tree for rows that are not copied any more. Those that test the same place first stay together; where they
    /// fail, the others are tried.
    fn without_copies(&mut self, rows: &[Row], depth: u32) -> Result<Tree, Refused> {
        let mut parts = Vec::new();
        let mut rows = rows;
        while let Some(&first) = rows.first() {
            let Some((test, _)) = self.tests.get(first.tests) else {
                let (guards, last) = self.without_tests(rows);
                rows = if last.is_some() { &[] } else { &rows[guards.len()..] };
                parts.push(guarded(guards, last.map_or(Tree::Fail, Tree::Leaf)));
                continue;
            };
            let tests_it = |decider: &Self, row: &Row| {
                decider.tests.get(row.tests).is_some_and(|(other, _)| other.place == test.place)
            };
            let (block, others) = rows.split_at(rows.iter().take_while(|row| tests_it(self, row)).count());
            rows = others;
            // An alternative that tests nothing there, such as a name, is a part of its own.
            let mut pieces: Vec<Vec<Row>> = Vec::new();
            for row in self.split_alternatives(block.to_vec(), test.place)? {
                match pieces.last_mut() {
                    Some(piece) if tests_it(self, &row) && tests_it(self, &piece[0]) => piece.push(row),
                    _ => pieces.push(vec![row]),
                }
            }
            for piece in pieces {
                parts.push(match tests_it(self, &piece[0]) {
                    true => self.split(test.place, piece, depth)?,
                    false => self.tree(piece, depth + 1)?,
                });
            }
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Tree::Else(parts),
        })
    }

    /// The tree that tells rows apart by what is at a place.
    fn split(&mut self, place: Place, rows: Vec<Row>, depth: u32) -> Result<Tree, Refused> {
        let mut heads: Vec<Head> = Vec::new();
        let mut index: HashMap<Head, usize> = HashMap::default();
        let mut specialised: Vec<(Option<usize>, Row)> = Vec::with_capacity(rows.len());
        for &row in &rows {
            let Some((before, test, after)) = self.find(row, place)? else {
                specialised.push((None, row));
                continue;
            };
            let head = self.head(test);
            let at = *index.entry(head).or_insert_with(|| {
                heads.push(head);
                heads.len() - 1
            });
            let mut added = Added::default();
            self.add_fields(&mut added, test, head);
            specialised.push((Some(at), self.extended(row, &before, added, after)));
        }
        if heads.is_empty() {
            // All that was tested there were alternatives that match anything.
            return self.tree(rows, depth + 1);
        }
        let mut buckets: Vec<Bucket> = heads.iter().map(|_| Bucket::default()).collect();
        let mut default = Bucket::default();
        let mut open: Vec<usize> = (0..buckets.len()).collect();
        for (at, row) in specialised {
            let is_last = row.tests.is_none() && self.arms[row.arm].guard.is_none();
            match at {
                Some(at) => buckets[at].push(row, is_last),
                None => {
                    open.retain(|&at| !buckets[at].is_closed);
                    open.iter().for_each(|&at| buckets[at].push(row, is_last));
                    default.push(row, is_last);
                    self.spend(open.len())?;
                    if self.copied_left == 0 && !open.is_empty() {
                        return self.without_copies(&rows, depth);
                    }
                }
            }
        }
        let mut groups: Vec<(Vec<Head>, Vec<Row>)> = Vec::new();
        let mut known: HashMap<Vec<Row>, usize> = HashMap::default();
        for (head, Bucket { rows, .. }) in heads.into_iter().zip(buckets) {
            match known.get(&rows) {
                Some(&group) => groups[group].0.push(head),
                None => {
                    known.insert(rows.clone(), groups.len());
                    groups.push((vec![head], rows));
                }
            }
        }
        self.node(place, groups, default.rows, depth)
    }

    fn node(
        &mut self,
        place: Place,
        groups: Vec<(Vec<Head>, Vec<Row>)>,
        default: Vec<Row>,
        depth: u32,
    ) -> Result<Tree, Refused> {
        let tested: usize = groups.iter().map(|group| group.0.len()).sum();
        let (mut tags, mut literals) = (Vec::new(), Vec::new());
        for (heads, rows) in groups {
            let tree = self.tree(rows, depth + 1)?;
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
            let is_complete = tested == constructors;
            let default = if is_complete { None } else { Some(Box::new(self.tree(default, depth + 1)?)) };
            return Ok(Tree::Switch { place, cases: tags, default });
        }
        if ty == self.elaborator.program.monos.bool && tested == 2 {
            let (_, last) = literals.pop().expect("there are two");
            return Ok(match literals.is_empty() {
                // Both lead to the same.
                true => last,
                false => Tree::Literals { place, cases: literals, default: Box::new(last) },
            });
        }
        Ok(Tree::Literals { place, cases: literals, default: Box::new(self.tree(default, depth + 1)?) })
    }

    /// Rows with an or-pattern at a place become one row for each alternative.
    fn split_alternatives(&mut self, rows: Vec<Row>, place: Place) -> Result<Vec<Row>, Refused> {
        let ast = self.elaborator.program.ast;
        let mut split: Vec<Row> = Vec::with_capacity(rows.len());
        // The next one last.
        let mut pending = rows;
        pending.reverse();
        while let Some(row) = pending.pop() {
            self.spend(1)?;
            let found = self.find(row, place)?;
            let alternatives = found.as_ref().and_then(|(_, test, _)| match &ast.patterns[test.pattern].kind {
                PatternKind::Or(parts) => Some(parts),
                _ => None,
            });
            let (Some((before, _, after)), Some(alternatives)) = (&found, alternatives) else {
                split.push(row);
                continue;
            };
            for &pattern in alternatives.iter().rev() {
                let mut added = Added::default();
                self.add(&mut added, Test { place, pattern, skipped: 0 });
                pending.push(self.extended(row, before, added, *after));
            }
        }
        Ok(split)
    }

    fn head(&self, test: Test) -> Head {
        let program = &self.elaborator.program;
        let Test { place, pattern, skipped } = test;
        match &program.ast.patterns[pattern].kind {
            PatternKind::Constructor(..) => {
                let constructor: ConstructorId =
                    program.resolved.constructors[pattern].expect("resolution knows every constructor");
                Head::Tag(self.elaborator.tag(constructor))
            }
            PatternKind::Cons(..) => Head::Tag(self.elaborator.tag(CONS)),
            PatternKind::List(parts) => Head::Tag(self.elaborator.tag(if skipped == parts.len() { NIL } else { CONS })),
            PatternKind::Int(value) => Head::Literal(match self.places.nodes[place].1 == program.monos.real {
                true => Literal::real(*value as f64),
                false => Literal::Int(*value),
            }),
            PatternKind::Real(value) => Head::Literal(Literal::real(*value)),
            PatternKind::Bool(value) => Head::Literal(Literal::Int(i64::from(*value))),
            other => unreachable!("this can't fail: {other:?}"),
        }
    }

    /// What a pattern says of the parts of a value with the head that it wants.
    fn add_fields(&mut self, added: &mut Added, test: Test, head: Head) {
        let Head::Tag(tag) = head else { return };
        let ast = self.elaborator.program.ast;
        let Test { place, pattern, skipped } = test;
        let fields: Vec<(usize, PatternId, usize)> = match &ast.patterns[pattern].kind {
            PatternKind::Cons(heads, _) if skipped < heads.len() => {
                vec![(0, heads[skipped], 0), (1, pattern, skipped + 1)]
            }
            PatternKind::List(parts) if skipped < parts.len() => {
                vec![(0, parts[skipped], 0), (1, pattern, skipped + 1)]
            }
            PatternKind::Constructor(..) => {
                let fields = self.elaborator.field_patterns(pattern).into_iter();
                fields.map(|(at, pattern)| (at, pattern, 0)).collect()
            }
            _ => Vec::new(),
        };
        let ty = self.places.nodes[place].1;
        let types = self.elaborator.program.fields(ty);
        for (at, pattern, skipped) in fields {
            let field = self.places.intern(PlaceNode::Field(place, tag, at), types[usize::from(tag)][at]);
            self.add(added, Test { place: field, pattern, skipped });
        }
    }
}

/// Rows for one head.
#[derive(Default, Debug)]
struct Bucket {
    rows: Vec<Row>,
    /// The rows, if they are many.
    seen: HashSet<Row>,
    /// Whether the last row always matches.
    is_closed: bool,
}

impl Bucket {
    /// Adds a row, unless no value can reach it: a row that comes again, or one after a row that always matches.
    fn push(&mut self, row: Row, always_matches: bool) {
        const FEW: usize = 8;
        if self.is_closed {
            return;
        }
        if self.rows.len() == FEW {
            self.seen.extend(&self.rows);
        }
        let is_new = if self.rows.len() < FEW { !self.rows.contains(&row) } else { self.seen.insert(row) };
        if is_new {
            self.rows.push(row);
            self.is_closed = always_matches;
        }
    }
}

fn guarded(guards: Vec<Chosen>, otherwise: Tree) -> Tree {
    if guards.is_empty() { otherwise } else { Tree::Guards { guards, otherwise: Box::new(otherwise) } }
}
