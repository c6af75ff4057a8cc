//! Pattern matching: whether the cases cover every value, with an example of one that is missing, and whether each case
//! can be reached.
//!
//! The algorithm is that of Maranget (2007), "Warnings for pattern matching": the cases are the rows of a matrix, which
//! is specialised by one constructor of its first column after the other. One walk answers both questions for all rows:
//! a row is reached if it is among the first of a matrix without columns, and a matrix without rows misses a value.
//! The walk keeps the matrices that are left on a list of its own, because they are as many as patterns are deep.
//! Exhaustiveness is NP-hard; the work is bounded, and what needs more is refused.
//!
//! `exhaustive/` turns patterns into rows and missing values into text.

mod pattern;

use crate::arena::{Table, id_types};
use crate::ast::{Ast, ConstructorId, ExprId, ExprKind, PatternId, PatternKind};
use crate::diagnostics::{Diagnostic, Sink};
use crate::hash::{HashMap, HashSet};
use crate::infer::Inferred;
use crate::limits::{Count, Meter};
use crate::names::Names;
use crate::resolve::Resolved;
use crate::types::Shape;

/// How many rows of matrices are made for all patterns of a program, besides those that a pattern's size allows.
const WORK_MAX: usize = 2_000_000;
/// How many rows of matrices are made per part of a pattern.
const WORK_PER_PATTERN: usize = 64;

id_types! {
    /// A simplified pattern.
    PatId;
    /// A cell of a row.
    CellId;
    /// What was chosen for columns, the last one first.
    ChoiceId;
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

/// A column of a row and those after it.
#[derive(Clone, Copy, Debug)]
struct Cell {
    pat: PatId,
    rest: Cells,
    /// Whether this and the rest match everything.
    is_wild: bool,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    cells: Cells,
    /// Which alternative of which case it is.
    case: usize,
    /// Whether the case has a condition, which may not hold.
    guarded: bool,
}

/// The rows for the values that start with what was chosen so far.
struct Matrix {
    rows: Vec<Row>,
    /// How many columns are left.
    width: usize,
    chosen: Option<ChoiceId>,
}

/// What the values of a matrix have in a column.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// A head with so many parts, which became columns.
    Head(Head, usize),
    /// This, which is no column any more.
    Value(PatId),
}

/// The check needs too much work.
#[derive(Debug)]
struct TooMuch;

struct Matcher<'m> {
    program: Program<'m>,
    meter: &'m Meter,
    pats: Table<PatId, Pat>,
    cells: Table<CellId, Cell>,
    choices: Table<ChoiceId, (Choice, Option<ChoiceId>)>,
    wild: PatId,
    reached: Vec<bool>,
    /// How many rows may still be made.
    work_left: usize,
}

/// Reports patterns that don't cover every value and cases that are never reached.
pub(crate) fn check(program: &Program<'_>, checks: &[Check], sink: &mut Sink, meter: &Meter) {
    let mut work_left = WORK_MAX;
    for &check in checks {
        if !meter.go_on() {
            return;
        }
        let mut matcher = Matcher::new(*program, work_left, meter);
        let error = match check {
            Check::Match(expr) => check_match(&mut matcher, expr, sink),
            Check::Let(pattern) => check_irrefutable(&mut matcher, pattern, "find out what it is with `match`"),
            Check::Parameter(pattern) => {
                check_irrefutable(&mut matcher, pattern, "name the parameter and find out what it is with `match`")
            }
        };
        work_left = work_left.min(matcher.work_left);
        error.into_iter().for_each(|error| sink.push(error));
    }
}

fn check_irrefutable(matcher: &mut Matcher<'_>, pattern: PatternId, help: &str) -> Option<Diagnostic> {
    let node = &matcher.program.ast.patterns[pattern];
    if matches!(node.kind, PatternKind::Var(_) | PatternKind::Wildcard) {
        return None;
    }
    let span = node.span;
    let row = matcher.pattern(pattern)?;
    let row = matcher.row(row, 0, false);
    match matcher.missing(vec![row], 1) {
        Ok(None) => None,
        Ok(Some(missing)) => {
            let error = Diagnostic::error(span, "this pattern does not match every value");
            let missing = matcher.show(missing);
            Some(error.label(format!("it does not match `{missing}`")).help(help))
        }
        Err(TooMuch) => Some(Diagnostic::error(span, "this pattern is too complicated to be checked")),
    }
}

fn check_match(matcher: &mut Matcher<'_>, expr: ExprId, sink: &mut Sink) -> Option<Diagnostic> {
    let program = matcher.program;
    let ExprKind::Match(value, arms) = &program.ast.exprs[expr].kind else {
        unreachable!("inference asks for matches to be checked")
    };
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
    let value = program.ast.exprs[*value].span;
    let missing = match matcher.missing(rows, cases.len()) {
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
    let missing = matcher.show(missing?);
    let error = Diagnostic::error(value, "not every value is matched").label(format!("missing: `{missing}`"));
    let is_guarded = arms.iter().any(|arm| arm.guard.is_some());
    let error = if is_guarded { error.note("a case with a condition may not apply") } else { error };
    let last = arms.last().map(|arm| &program.ast.exprs[arm.body].kind);
    Some(match last {
        Some(ExprKind::Match(..)) => {
            error.help("a `match` in a case takes all cases after it, unless it stands in parentheses")
        }
        _ => error,
    })
}

impl Matcher<'_> {
    fn new<'m>(program: Program<'m>, work_left: usize, meter: &'m Meter) -> Matcher<'m> {
        let mut pats = Table::default();
        let wild = pats.push(Pat::Wild);
        let (cells, choices) = (Table::default(), Table::default());
        Matcher { program, meter, pats, cells, choices, wild, reached: Vec::new(), work_left }
    }

    fn row(&mut self, pat: PatId, case: usize, guarded: bool) -> Row {
        Row { cells: self.prepend(&[pat], None), case, guarded }
    }

    /// A value that no row matches. Marks the rows that some value reaches.
    fn missing(&mut self, rows: Vec<Row>, cases: usize) -> Result<Option<PatId>, TooMuch> {
        self.reached = vec![false; cases];
        self.work_left += WORK_PER_PATTERN * self.pats.len();
        let mut missing = None;
        let mut pending = vec![Matrix { rows, width: 1, chosen: None }];
        while let Some(matrix) = pending.pop() {
            self.spend(matrix.rows.len() + 1)?;
            if self.is_covered(&matrix) {
                continue;
            }
            if matrix.rows.is_empty() || matrix.width == 0 {
                missing = missing.or(Some((matrix.chosen, matrix.width)));
                continue;
            }
            self.split(matrix, &mut pending)?;
        }
        Ok(missing.map(|(chosen, width)| self.value_of(chosen, width)))
    }

    fn spend(&mut self, work: usize) -> Result<(), TooMuch> {
        let left = self.work_left.checked_sub(work).filter(|_| self.meter.nodes(Count::Types, work));
        self.work_left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(TooMuch)
    }

    /// Whether all values of a matrix are matched by its first rows that match everything that is left. Marks these
    /// rows as reached.
    fn is_covered(&mut self, matrix: &Matrix) -> bool {
        for row in &matrix.rows {
            if row.cells.is_some_and(|cell| !self.cells[cell].is_wild) {
                return false;
            }
            self.reached[row.case] = true;
            if !row.guarded {
                return true;
            }
        }
        false
    }

    /// Adds the matrices for each head of the first column and for all other values. They are looked at in this order.
    fn split(&mut self, matrix: Matrix, pending: &mut Vec<Matrix>) -> Result<(), TooMuch> {
        let Matrix { rows, width, chosen } = matrix;
        let rows = self.expand(rows)?;
        let mut heads = Vec::new();
        let mut seen = HashMap::default();
        for &(pat, _) in &rows {
            if let Pat::Head(head, args) = &self.pats[pat] {
                seen.entry(*head).or_insert_with(|| {
                    heads.push((*head, args.len()));
                    heads.len() - 1
                });
            }
        }
        let mut parts = self.specialise(&rows, &heads, &seen)?;
        let rest = parts.pop().expect("the rows for all other values are last");
        if let Some(other) = self.other_than(&heads) {
            let chosen = Some(self.choices.push((Choice::Value(other), chosen)));
            pending.push(Matrix { rows: rest, width: width - 1, chosen });
        }
        for (&(head, arity), rows) in heads.iter().zip(parts).rev() {
            let chosen = Some(self.choices.push((Choice::Head(head, arity), chosen)));
            pending.push(Matrix { rows, width: width - 1 + arity, chosen });
        }
        Ok(())
    }

    /// The value that was chosen; its columns that are left may be anything.
    fn value_of(&mut self, mut chosen: Option<ChoiceId>, width: usize) -> PatId {
        // The columns, the last one first.
        let mut columns = vec![self.wild; width];
        while let Some(choice) = chosen {
            let (choice, before) = self.choices[choice];
            chosen = before;
            let column = match choice {
                Choice::Value(pat) => pat,
                Choice::Head(head, arity) => {
                    let args = columns.split_off(columns.len() - arity).into_iter().rev().collect();
                    self.pats.push(Pat::Head(head, args))
                }
            };
            columns.push(column);
        }
        columns[0]
    }

    /// The first column with the other columns; alternatives become rows of their own.
    fn expand(&mut self, rows: Vec<Row>) -> Result<Vec<(PatId, Row)>, TooMuch> {
        let mut expanded = Vec::with_capacity(rows.len());
        for row in rows {
            let Cell { pat, rest, .. } = self.cells[row.cells.expect("a row has as many cells as there are columns")];
            let mut pending = vec![pat];
            while let Some(pat) = pending.pop() {
                self.spend(1)?;
                match &self.pats[pat] {
                    Pat::Or(parts) => pending.extend(parts.iter().rev()),
                    _ => expanded.push((pat, Row { cells: rest, ..row })),
                }
            }
        }
        Ok(expanded)
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
                    self.spend(args.len())?;
                    let cells = self.prepend(&args, row.cells);
                    parts[index[&head]].push(Row { cells, ..row });
                }
                _ => {
                    for (i, &(_, arity)) in heads.iter().enumerate() {
                        self.spend(arity + 1)?;
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
        pats.iter().rev().fold(cells, |rest, &pat| {
            let is_wild = matches!(self.pats[pat], Pat::Wild) && rest.is_none_or(|rest| self.cells[rest].is_wild);
            Some(self.cells.push(Cell { pat, rest, is_wild }))
        })
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
