//! Pattern matching: whether the cases cover every value, with an example of one that is missing, and whether each case
//! can be reached.
//!
//! The algorithm is that of Maranget (2007), "Warnings for pattern matching": the cases are the rows of a matrix, which
//! is specialised by one constructor of its first column after the other. One walk answers both questions for all rows:
//! a row is reached if it is among the first of a matrix without columns, and a matrix without rows misses a value.
//! Exhaustiveness is NP-hard; the work is bounded by [`WORK_MAX`], and what needs more is refused.
//!
//! `exhaustive/` turns patterns into rows and missing values into text.

mod pattern;

use crate::arena::{Table, id_types};
use crate::ast::{Ast, ConstructorId, ExprId, ExprKind, PatternId, PatternKind};
use crate::diagnostics::{Diagnostic, Sink};
use crate::infer::Inferred;
use crate::names::Names;
use crate::resolve::Resolved;
use crate::types::Shape;
use std::collections::{HashMap, HashSet};

/// How many rows of matrices are made for one `match`.
const WORK_MAX: usize = 1_000_000;

id_types! {
    /// A simplified pattern.
    PatId;
    /// A cell of a row.
    CellId;
}

/// Patterns to check once types are known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Check {
    /// The cases of a `match`.
    Match(ExprId),
    /// A pattern that a value is bound to, which must always match.
    Let(PatternId),
    /// A parameter, which must always match.
    Parameter(PatternId),
}

/// What is checked, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'p> {
    /// The syntax.
    pub(crate) ast: &'p Ast,
    /// The names.
    pub(crate) names: &'p Names,
    /// The meaning of names.
    pub(crate) resolved: &'p Resolved,
    /// The types.
    pub(crate) inferred: &'p Inferred,
}

/// What a value starts with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Head {
    Constructor(ConstructorId),
    Bool(bool),
    Int(i64),
    /// The bits of a real; of 0.0 for both zeros.
    Real(u64),
    /// With how many parts.
    Tuple(usize),
    Record(Shape),
}

/// A pattern without names, types and sugar.
#[derive(Clone, Debug)]
enum Pat {
    Wild,
    Head(Head, Box<[PatId]>),
    Or(Box<[PatId]>),
}

/// The columns of a row that are left, the first one first.
type Cells = Option<CellId>;

#[derive(Clone, Copy, Debug)]
struct Row {
    cells: Cells,
    /// Which alternative of which case it is.
    case: usize,
    /// Whether the case has a condition, which may not hold.
    guarded: bool,
}

/// The check needs too much work.
#[derive(Debug)]
struct TooMuch;

struct Matcher<'m> {
    program: Program<'m>,
    pats: Table<PatId, Pat>,
    cells: Table<CellId, (PatId, Cells)>,
    wild: PatId,
    reached: Vec<bool>,
    work: usize,
}

/// Reports patterns that don't cover every value and cases that are never reached.
pub(crate) fn check(program: &Program<'_>, checks: &[Check], sink: &mut Sink) {
    for &check in checks {
        let error = match check {
            Check::Match(expr) => check_match(program, expr, sink),
            Check::Let(pattern) => check_irrefutable(program, pattern, "find out what it is with `match`"),
            Check::Parameter(pattern) => {
                check_irrefutable(program, pattern, "name the parameter and find out what it is with `match`")
            }
        };
        error.into_iter().for_each(|error| sink.push(error));
    }
}

fn check_irrefutable(program: &Program<'_>, pattern: PatternId, help: &str) -> Option<Diagnostic> {
    if matches!(program.ast.patterns[pattern].kind, PatternKind::Var(_) | PatternKind::Wildcard) {
        return None;
    }
    let span = program.ast.patterns[pattern].span;
    let mut matcher = Matcher::new(*program);
    let row = matcher.pattern(pattern)?;
    let row = matcher.row(row, 0, false);
    matcher.reached.push(false);
    match matcher.missing(vec![row], 1) {
        Ok(None) => None,
        Ok(Some(missing)) => {
            let error = Diagnostic::error(span, "this pattern does not match every value");
            let missing = matcher.show(missing[0]);
            Some(error.label(format!("it does not match `{missing}`")).help(help))
        }
        Err(TooMuch) => Some(Diagnostic::error(span, "this pattern is too complicated to be checked")),
    }
}

fn check_match(program: &Program<'_>, expr: ExprId, sink: &mut Sink) -> Option<Diagnostic> {
    let ExprKind::Match(value, arms) = &program.ast.exprs[expr].kind else {
        unreachable!("inference asks for matches to be checked")
    };
    let mut matcher = Matcher::new(*program);
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    for arm in arms {
        let alternatives = match &program.ast.patterns[arm.pattern].kind {
            PatternKind::Or(parts) => parts.clone(),
            _ => vec![arm.pattern],
        };
        for alternative in alternatives {
            let pat = matcher.pattern(alternative)?;
            rows.push(matcher.row(pat, cases.len(), arm.guard.is_some()));
            cases.push(alternative);
        }
    }
    matcher.reached = vec![false; cases.len()];
    let value = program.ast.exprs[*value].span;
    let missing = match matcher.missing(rows, 1) {
        Ok(missing) => missing,
        Err(TooMuch) => {
            let error = Diagnostic::error(value, "the cases of this `match` are too complicated to be checked");
            return Some(error.help("match one part after the other, with a `match` inside of a case"));
        }
    };
    for (case, _) in cases.iter().zip(&matcher.reached).filter(|(_, reached)| !**reached) {
        let error = Diagnostic::error(program.ast.patterns[*case].span, "this case is never reached");
        sink.push(error.label("the cases before it match all of this"));
    }
    let missing = matcher.show(missing?[0]);
    let error = Diagnostic::error(value, "not every value is matched").label(format!("missing: `{missing}`"));
    let is_guarded = arms.iter().any(|arm| arm.guard.is_some());
    Some(if is_guarded { error.note("a case with a condition may not apply") } else { error })
}

impl Matcher<'_> {
    fn new(program: Program<'_>) -> Matcher<'_> {
        let mut pats = Table::default();
        let wild = pats.push(Pat::Wild);
        Matcher { program, pats, cells: Table::default(), wild, reached: Vec::new(), work: 0 }
    }

    fn row(&mut self, pat: PatId, case: usize, guarded: bool) -> Row {
        Row { cells: Some(self.cells.push((pat, None))), case, guarded }
    }

    /// A value that no row matches, as one pattern for each of `width` columns, the last one first. Marks the rows that
    /// some value reaches.
    fn missing(&mut self, rows: Vec<Row>, width: usize) -> Result<Option<Vec<PatId>>, TooMuch> {
        crate::stack::grown(|| self.missing_here(rows, width))
    }

    fn missing_here(&mut self, rows: Vec<Row>, width: usize) -> Result<Option<Vec<PatId>>, TooMuch> {
        self.work += rows.len() + 1;
        if self.work > WORK_MAX {
            return Err(TooMuch);
        }
        if width == 0 {
            for row in rows {
                self.reached[row.case] = true;
                if !row.guarded {
                    return Ok(None);
                }
            }
            return Ok(Some(Vec::new()));
        }
        let rows = self.expand(rows)?;
        let mut heads = Vec::new();
        let mut seen = HashMap::new();
        for &(pat, _) in &rows {
            if let Pat::Head(head, args) = &self.pats[pat] {
                seen.entry(*head).or_insert_with(|| {
                    heads.push((*head, args.len()));
                    heads.len() - 1
                });
            }
        }
        let mut missing = None;
        let mut parts = self.specialise(&rows, &heads, &seen)?;
        let rest: Vec<Row> = parts.pop().expect("the rows for all other values are last");
        for (&(head, arity), rows) in heads.iter().zip(parts) {
            let found = self.missing(rows, width - 1 + arity)?;
            if let (None, Some(mut found)) = (&missing, found) {
                let args = found.split_off(found.len() - arity).into_iter().rev().collect();
                found.push(self.pats.push(Pat::Head(head, args)));
                missing = Some(found);
            }
        }
        if let Some(other) = self.other_than(&heads)
            && let Some(mut found) = self.missing(rest, width - 1)?
            && missing.is_none()
        {
            found.push(other);
            missing = Some(found);
        }
        Ok(missing)
    }

    /// The first column with the other columns; alternatives become rows of their own.
    fn expand(&mut self, rows: Vec<Row>) -> Result<Vec<(PatId, Row)>, TooMuch> {
        let mut expanded = Vec::with_capacity(rows.len());
        for row in rows {
            let (first, rest) = self.cells[row.cells.expect("a row has as many cells as there are columns")];
            let mut pending = vec![first];
            while let Some(pat) = pending.pop() {
                self.work += 1;
                match &self.pats[pat] {
                    Pat::Or(parts) => pending.extend(parts.iter().rev()),
                    _ => expanded.push((pat, Row { cells: rest, ..row })),
                }
            }
        }
        if self.work > WORK_MAX { Err(TooMuch) } else { Ok(expanded) }
    }

    /// The rows for values that start with each head, with the head's parts as columns; last, those for other values.
    fn specialise(
        &mut self,
        rows: &[(PatId, Row)],
        heads: &[(Head, usize)],
        index: &HashMap<Head, usize>,
    ) -> Result<Vec<Vec<Row>>, TooMuch> {
        let mut parts = vec![Vec::new(); heads.len() + 1];
        for &(pat, row) in rows {
            match self.pats[pat].clone() {
                Pat::Head(head, args) => {
                    let cells = self.prepend(&args, row.cells);
                    parts[index[&head]].push(Row { cells, ..row });
                }
                _ => {
                    self.work += heads.len();
                    if self.work > WORK_MAX {
                        return Err(TooMuch);
                    }
                    for (i, &(_, arity)) in heads.iter().enumerate() {
                        let cells = self.prepend(&vec![self.wild; arity], row.cells);
                        parts[i].push(Row { cells, ..row });
                    }
                    parts[heads.len()].push(row);
                }
            }
        }
        Ok(parts)
    }

    fn prepend(&mut self, pats: &[PatId], cells: Cells) -> Cells {
        self.work += pats.len();
        pats.iter().rev().fold(cells, |rest, &pat| Some(self.cells.push((pat, rest))))
    }

    /// A value that starts with none of the heads, if there is one.
    fn other_than(&mut self, heads: &[(Head, usize)]) -> Option<PatId> {
        let known: HashSet<Head> = heads.iter().map(|&(head, _)| head).collect();
        let Some(&(first, _)) = heads.first() else { return Some(self.wild) };
        let (head, arity) = match first {
            Head::Tuple(_) | Head::Record(_) => return None,
            // Some small number is not mentioned.
            Head::Int(_) => (Head::Int((0..).find(|&value| !known.contains(&Head::Int(value)))?), 0),
            Head::Real(_) => {
                let is_free = |value: &i32| !known.contains(&Head::Real(f64::from(*value).to_bits()));
                (Head::Real(f64::from((0..).find(is_free)?).to_bits()), 0)
            }
            Head::Bool(_) => {
                (Head::Bool([true, false].into_iter().find(|&value| !known.contains(&Head::Bool(value)))?), 0)
            }
            Head::Constructor(constructor) => {
                let ast = self.program.ast;
                let all = &ast.datas[ast.constructors[constructor].data].constructors;
                let other = all.iter().find(|&&other| !known.contains(&Head::Constructor(other)))?;
                (Head::Constructor(*other), ast.constructors[*other].fields.len())
            }
        };
        let args = vec![self.wild; arity].into();
        Some(self.pats.push(Pat::Head(head, args)))
    }
}
