//! What is said when two types don't fit: expected and found, why it is expected, and how to mend it.

use super::Infer;
use crate::ast::{ConstructorId, ExprId, ExprKind, PatternKind};
use crate::diagnostics::Diagnostic;
use crate::library;
use crate::names::Name;
use crate::parser::PARTS;
use crate::quote;
use crate::resolve::Meaning;
use crate::source::Span;
use crate::types::{Con, Kind, Mismatch, Shape, Ty};

/// Why a type is expected.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// It is declared here.
    Declared(Span),
    /// The definition is used with this result elsewhere in its group.
    UsedBefore(Name),
    /// It is an argument of a function, counted from 0.
    Argument(ExprId, usize),
    /// It is the result of a function that is an argument.
    ResultOf(ExprId, usize),
    /// It is an element of a list that is an argument.
    ElementOf(ExprId, usize),
    /// It is the condition of an `if` or a `while`.
    Condition(&'static str),
    /// The other branch, or an earlier element, is here.
    SameAs(Span, &'static str),
    /// The accumulator of a loop that starts here.
    Accumulator(Span),
    /// A bound of a loop.
    Bound,
    /// An index into an array, or an end of a range of such.
    Index,
    /// The only index into this list or array.
    IndexOf(ExprId),
    /// Something that is indexed or iterated over.
    Sequence,
    /// An array of which elements are changed.
    Changed,
    /// A new element of an array.
    Element,
    /// What takes the place of a part of an array.
    Part,
    /// An operand of an operator.
    Operand(&'static str),
    /// The pattern that it is matched with.
    Pattern(Span),
    /// The value that a pattern is matched with.
    Matched(Span),
    /// The condition of a case.
    Guard,
    /// The value of a case.
    Case,
    /// The value of a field.
    Field(Name),
    /// An argument of a constructor.
    Constructor(ConstructorId),
    /// The list after these elements.
    Tail(Span),
    /// The function that is composed with this one.
    Composed(Span),
    /// A variable in another alternative of a pattern.
    Alternative,
}

impl Why {
    /// The reason for a parameter of a function that is expected for a reason.
    pub(super) fn for_parameter(self) -> Why {
        match self {
            Why::Argument(..) | Why::Declared(_) => self,
            _ => Why::Case,
        }
    }

    /// The reason for the result of a function that is expected for a reason.
    pub(super) fn for_result(self) -> Why {
        match self {
            Why::Argument(callee, index) => Why::ResultOf(callee, index),
            Why::Declared(_) => self,
            _ => Why::Case,
        }
    }

    /// The reason for an element of a list that is expected for a reason.
    pub(super) fn for_element(self) -> Why {
        match self {
            Why::Argument(callee, index) => Why::ElementOf(callee, index),
            Why::Declared(_) => self,
            _ => Why::Case,
        }
    }
}

/// What is said of a call with fewer arguments than its function was defined with.
fn missing_text(name: &str, found: usize, expected: usize) -> String {
    let plural = if expected == 1 { "" } else { "s" };
    format!("`{name}` takes {expected} argument{plural}, found {found}")
}

impl Infer<'_> {
    /// Makes an expression's type the expected one, or says why not.
    pub(super) fn unify_expr(&mut self, expr: ExprId, expected: Ty, found: Ty, why: Why) {
        if let Err(mismatch) = self.out.types.unify(expected, found) {
            let place = self.innermost(expr);
            let error = self.mismatch(self.ast.exprs[place].span, expected, found, why, mismatch);
            let error = self.with_only_data(error, why, found);
            let error = match mismatch {
                // In its own definition, a function whose arguments were forgotten may be taken for their result.
                Mismatch::Infinite => match self.missing_arguments(place) {
                    Some((callee, found, expected)) => {
                        error.help(missing_text(self.callee_name(callee), found, expected))
                    }
                    None => error,
                },
                _ if matches!(why, Why::Index | Why::IndexOf(_)) && self.is_element(place) => {
                    error.help("this is an element already; indices are `for i < length xs`")
                }
                _ => self.with_conversion(error, place, expected, found),
            };
            let error = self.with_elements(error, why, place, (expected, found));
            let error = self.with_indices(error, why, place, found);
            self.sink.push(error);
        }
    }

    /// Says how to apply a function of numbers to a collection of them.
    fn with_elements(&self, error: Diagnostic, why: Why, arg: ExprId, (expected, found): (Ty, Ty)) -> Diagnostic {
        let types = &self.out.types;
        let is_number = match types.con_of(expected) {
            Some(con) => matches!(con, Con::Real | Con::Int),
            None => types.describe(expected) == "a number",
        };
        let Why::Argument(callee, index) = why else { return error };
        if self.callee_name(callee) == "dot" && types.kind_of(found) == Some(Kind::Tensor(2)) {
            return error.help(
                "with `import linalg` in the first line products of matrices are `linalg.matvec m v` and \
                 `linalg.matmul m n`",
            );
        }
        if let Some(help) = self.of_other_shape(callee, index, [expected, found]) {
            return error.help(help);
        }
        if index != 0 || !is_number || types.collection_parts(found).is_none() {
            return error;
        }
        let arg = match self.ast.exprs[arg].kind {
            ExprKind::Var(name) => self.names.text(name),
            _ => "(..)",
        };
        match self.callee_name(callee) {
            "max" => error.help(format!("the greatest element is `maximum {arg}`")),
            "min" => error.help(format!("the least element is `minimum {arg}`")),
            name if self.expected_arguments(callee) == Some(1) => {
                error.help(format!("of each element: `map {name} {arg}`"))
            }
            _ => error,
        }
    }

    /// What to call in place of a function of `linalg` that is given an array for a matrix, or the other way.
    fn of_other_shape(&self, callee: ExprId, index: usize, types: [Ty; 2]) -> Option<String> {
        let Some(Meaning::Def(def)) = self.resolved.meanings[callee] else { return None };
        let module = self.ast.file_of(def)?.module?;
        if self.names.text(module) != "linalg" || self.sources.is_own(self.ast.defs[def].name_span) {
            return None;
        }
        const MATRIX: Option<Kind> = Some(Kind::Tensor(2));
        let found = match types.map(|ty| self.out.types.kind_of(ty)) {
            [MATRIX, Some(Kind::Array)] => "an array",
            [Some(Kind::Array), MATRIX] => "a matrix",
            _ => return None,
        };
        // As it is called here: `la.matmul` after `import linalg as la`.
        let called = self.callee_name(callee);
        let (module, function) = called.rsplit_once('.').unwrap_or(("linalg", called));
        let other = library::of_other_shape(function)?;
        match (index, function) {
            (1, _) => Some(format!("with {found} it is `{module}.{other}`")),
            (0, "matmul") => Some(format!("of an array and a matrix it is `{module}.{other} (transpose m) x`")),
            _ => None,
        }
    }

    /// Says how to take several elements at once, where a list or an array stands for an index, or a condition.
    fn with_indices(&self, error: Diagnostic, why: Why, index: ExprId, found: Ty) -> Diagnostic {
        let Why::IndexOf(array) = why else { return error };
        let types = &self.out.types;
        let xs = self.quoted(array).unwrap_or_else(|| "xs".to_owned());
        let is_condition = |ty: Ty| types.con_of(ty) == Some(Con::Bool);
        let chosen = || format!("elements are chosen by a condition: `[| x for x in {xs} if x > 0 |]`");
        // As in `xs[xs > 0]`.
        let is_comparison = matches!(self.ast.exprs[index].kind, ExprKind::Binary(..));
        match types.collection_parts(found) {
            None if is_condition(found) && is_comparison => error.help(chosen()),
            Some((_, element)) if is_condition(element) => error.help(chosen()),
            Some((_, element)) if self.is_number(element) && types.con_of(element) != Some(Con::Real) => {
                let indices = self.quoted(index).unwrap_or_else(|| "indices".to_owned());
                error.help(format!("the elements at several indices are `[| {xs}[i] for i in {indices} |]`"))
            }
            _ => error,
        }
    }

    /// An expression as advice quotes it, if it is short.
    pub(super) fn quoted(&self, expr: ExprId) -> Option<String> {
        quote::operand(self.ast, self.sources, expr)
    }

    /// Whether an expression is a variable for elements of what a loop runs over.
    fn is_element(&self, expr: ExprId) -> bool {
        matches!(self.resolved.meanings[expr], Some(Meaning::Local(local)) if self.elements.contains(&local))
    }

    /// The same for what is no expression.
    pub(super) fn unify_at(&mut self, span: Span, expected: Ty, found: Ty, why: Why) {
        if let Err(mismatch) = self.out.types.unify(expected, found) {
            let error = self.mismatch(span, expected, found, why, mismatch);
            self.sink.push(error);
        }
    }

    /// The expression that gives a block its value: that is where to point.
    pub(super) fn innermost(&self, mut expr: ExprId) -> ExprId {
        while let ExprKind::Block(_, body) = self.ast.exprs[expr].kind {
            expr = body;
        }
        expr
    }

    /// Says that a call of a type has fewer arguments than its function takes.
    pub(super) fn with_missing_arguments(&self, error: Diagnostic, call: ExprId, ty: Ty) -> Diagnostic {
        let Some((callee, found, expected)) = self.arguments_left(call, ty) else { return error };
        let error = error.help(missing_text(self.callee_name(callee), found, expected));
        match self.resolved.meanings[callee] {
            // Its type is the one that was found.
            Some(Meaning::Local(_)) if found == 0 => error,
            _ => self.with_signature(error, callee),
        }
    }

    pub(super) fn mismatch(&self, span: Span, expected: Ty, found: Ty, why: Why, mismatch: Mismatch) -> Diagnostic {
        let types = &self.out.types;
        if mismatch == Mismatch::Infinite {
            let label = format!("expected `{}`, found `{}`", types.show(expected), types.show(found));
            let error = Diagnostic::error(span, "this type would contain itself").label(label);
            return match why {
                Why::Argument(callee, _) if self.is_in_group(callee) => {
                    let name = self.callee_name(callee);
                    error.note(format!(
                        "inside of its own definition `{name}` has one type: it can't call itself at another"
                    ))
                }
                _ => error,
            };
        }
        let con = types.con_of(found);
        let meanings = [expected, found].map(|ty| types.meaning(ty));
        let (expected, found) = (types.describe(expected), types.describe(found));
        let error = Diagnostic::error(span, format!("expected {expected}, found {found}"));
        let error = error.label(format!("this is {found}"));
        let error = meanings.into_iter().flatten().fold(error, Diagnostic::note);
        match why {
            Why::Declared(span) => error.also(span, format!("{expected} is declared here")),
            Why::UsedBefore(name) => error
                .note(format!("`{}` is used as {expected} in a definition that it depends on", self.names.text(name))),
            Why::Argument(callee, index) => {
                let name = self.callee_name(callee);
                error.note(format!("argument {} of `{name}` is {expected}", index + 1))
            }
            Why::ResultOf(callee, index) => {
                let name = self.callee_name(callee);
                error.note(format!("argument {} of `{name}` is a function that gives {expected}", index + 1))
            }
            Why::ElementOf(callee, index) => {
                let name = self.callee_name(callee);
                error.note(format!("the elements of argument {} of `{name}` are {expected}", index + 1))
            }
            Why::Matched(span) => error.also(span, format!("this is {expected}")),
            Why::Guard => error.note("the condition of a case is a `Bool`"),
            Why::Case => error,
            Why::Field(name) => error.note(format!("the field `{}` is {expected}", self.names.text(name))),
            Why::Constructor(constructor) => {
                let declared = &self.ast.constructors[constructor];
                error.also(declared.name_span, format!("`{}` is declared here", self.names.text(declared.name)))
            }
            Why::Tail(span) => error.also(span, "this is an element").note("`::` puts an element in front of a list"),
            Why::Composed(span) => error.also(span, "it is composed with this function"),
            Why::Alternative => error.note("a variable has the same type in all alternatives"),
            Why::Condition(keyword) => error.note(format!("the condition of `{keyword}` is a `Bool`")),
            Why::SameAs(span, what) => error.also(span, format!("{what} is {expected}")),
            Why::Accumulator(span) => error
                .also(span, format!("the accumulator starts as {expected}"))
                .note("the body of a loop gives the accumulator's next value"),
            Why::Bound => {
                let error = error.note("a loop counts from one `Int` to another");
                match con {
                    Some(Con::Collection) => {
                        error.help("elements are `for x in xs`, indices of a list or an array `for i < length xs`")
                    }
                    _ => error,
                }
            }
            Why::Index | Why::IndexOf(_) => error.note("an index is an `Int`"),
            Why::Sequence => {
                let error = error.note("only lists and arrays can be indexed and iterated over");
                if con == Some(Con::Tuple) { error.help(PARTS) } else { error }
            }
            Why::Changed => error.note("`{ a with [i] = x }` is an array with another element"),
            Why::Element => error.note(format!("the elements of the array are {expected}")),
            Why::Part => {
                let error = error.note(format!("the place of this part is taken by {expected}"));
                match con {
                    Some(Con::Collection) => error,
                    _ => error
                        .help("an array of the same number is `replicate n x`, a matrix `[| x for _ < m, _ < n |]`"),
                }
            }
            Why::Operand(symbol) => error.note(format!("`{symbol}` works on {expected} here")),
            Why::Pattern(span) => error.also(span, format!("this pattern matches {expected}")),
        }
    }

    /// Adds how to turn an Int into a Real, or the other way.
    pub(super) fn with_conversion(&self, error: Diagnostic, place: ExprId, expected: Ty, found: Ty) -> Diagnostic {
        let types = &self.out.types;
        match (types.con_of(expected), types.con_of(found)) {
            (Some(Con::Real), Some(Con::Int)) => match quote::real_quotient(self.ast, self.sources, place) {
                Some(quotient) => error.help(format!("the quotient of reals is `{quotient}`")),
                None => error.help("an `Int` becomes a `Real` with `to_real`"),
            },
            (Some(Con::Int), Some(Con::Real)) => match self.ast.exprs[place].kind {
                ExprKind::Real(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
                    error.help(format!("without a dot it is an `Int`: `{value}`"))
                }
                _ => error.help("a `Real` becomes an `Int` with `to_int`, which cuts off the fraction"),
            },
            (Some(Con::Bool), Some(Con::Int | Con::Real)) => error.help("compare it with something: `x != 0`"),
            (Some(wanted), Some(Con::Function)) if wanted != Con::Function => {
                self.with_missing_arguments(error, place, found)
            }
            (None, Some(Con::Function)) if self.is_number(expected) => self.with_missing_arguments(error, place, found),
            (Some(Con::Function), _) if matches!(self.ast.exprs[place].kind, ExprKind::Negate(_)) => {
                error.help("`(- 1)` is a negative number; the function is `subtract 1`")
            }
            (wanted, Some(Con::Tuple)) if wanted != Some(Con::Tuple) => {
                self.with_part_of_loop(error, place, expected, found)
            }
            (Some(Con::Collection), Some(Con::Collection)) => match (types.kind_of(expected), types.kind_of(found)) {
                (Some(Kind::List), Some(Kind::Array)) => error.help("an array becomes a list with `to_list`"),
                (Some(Kind::Array), Some(Kind::List)) => {
                    error.help("a list becomes an array with `to_array`; an array is written `[| a, b |]`")
                }
                _ => error,
            },
            (Some(Con::Record(wanted)), Some(Con::Record(found))) => self.with_fields(error, wanted, found),
            _ => error,
        }
    }

    /// Says how to get at a part of a loop's accumulator where the loop stands for that: the first that is what is
    /// expected, or else the first that may be.
    pub(super) fn with_part_of_loop(&self, error: Diagnostic, place: ExprId, expected: Ty, found: Ty) -> Diagnostic {
        const SHOWN_MAX: usize = 6;
        let (ast, types) = (self.ast, &self.out.types);
        let ExprKind::Loop { pattern, .. } = ast.exprs[place].kind else { return error };
        let PatternKind::Tuple(parts) = &ast.patterns[pattern].kind else { return error };
        let wanted = types.con_of(expected);
        let is_wanted = |&ty: &Ty| wanted.is_some() && types.con_of(ty) == wanted;
        let may_be = |&ty: &Ty| {
            self.is_number(expected) && self.is_number(ty) && (wanted.is_none() || types.con_of(ty).is_none())
        };
        let found = types.tuple_parts(found).unwrap_or_default();
        let at = found.iter().position(is_wanted).or_else(|| found.iter().position(may_be));
        let Some(at) = at.filter(|_| parts.len() <= SHOWN_MAX) else { return error };
        let PatternKind::Var(name) = ast.patterns[parts[at]].kind else { return error };
        let name = self.names.text(name);
        let shown: Vec<&str> = (0..parts.len()).map(|part| if part == at { name } else { "_" }).collect();
        error.help(format!(
            "a part of what the loop gives gets a name: `let ({}) = loop .. in {name}`",
            shown.join(", ")
        ))
    }

    /// Adds which fields differ.
    fn with_fields(&self, error: Diagnostic, wanted: Shape, found: Shape) -> Diagnostic {
        let types = &self.out.types;
        let only = |these: Shape, others: Shape| -> Vec<Name> {
            let names = types.fields(these).iter().copied();
            names.filter(|&name| types.field_place(others, name).is_none()).collect()
        };
        let (missing, extra) = (only(wanted, found), only(found, wanted));
        let error = match missing[..] {
            [] => error,
            _ => error.help(format!("missing: {}", self.list_names(&missing))),
        };
        match extra[..] {
            [] => error,
            _ => error.help(format!("not expected: {}", self.list_names(&extra))),
        }
    }
}
