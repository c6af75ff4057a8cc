//! Arrays of any dimensions and lists: indices, slices, and changed elements.

use super::expr::Operand;
use super::{Infer, Why};
use crate::ast::{BinaryOp, ExprId, Replacement, Subscript};
use crate::diagnostics::Diagnostic;
use crate::types::{Class, Con, Kind, Kinds, Ty};

impl Infer<'_> {
    /// The type of arrays of so many dimensions, one or more.
    pub(super) fn tensor(&mut self, dimensions: usize, element: Ty) -> Ty {
        let types = &mut self.out.types;
        match dimensions {
            1 => types.array(element),
            _ => types.collection(types.kind(Kind::Tensor(dimensions as u8)), element),
        }
    }

    /// `xs[i]`, `m[i, j]`, and with ranges in place of some indices.
    pub(super) fn index(&mut self, array: Operand, subscripts: &[Subscript]) -> Ty {
        let result = match *subscripts {
            [Subscript::At(_)] => self.sequence_of(array).1,
            [Subscript::Range(..)] => {
                let (kind, element) = self.sequence_of(array);
                self.out.types.collection(kind, element)
            }
            _ => self.tensor_index(array, subscripts),
        };
        let int = self.out.types.int;
        for subscript in subscripts {
            match *subscript {
                Subscript::At(index) => self.check(index, int, Why::IndexOf(array.expr)),
                Subscript::Range(from, to) => {
                    from.into_iter().chain(to).for_each(|end| self.check(end, int, Why::Index));
                }
            }
        }
        result
    }

    fn tensor_index(&mut self, array: Operand, subscripts: &[Subscript]) -> Ty {
        let dimensions = subscripts.len();
        if dimensions > Kind::DIMENSIONS_MAX {
            return self.too_many_indices(array, dimensions);
        }
        let element = self.out.types.var(Class::Any);
        let wanted = self.tensor(dimensions, element);
        let found = self.operand(array);
        self.expect_dimensions(array.expr, wanted, found, dimensions);
        self.part(element, subscripts)
    }

    /// The type of the element or the part that subscripts stand for.
    fn part(&mut self, element: Ty, subscripts: &[Subscript]) -> Ty {
        match subscripts.iter().filter(|subscript| subscript.is_range()).count() {
            0 => element,
            ranges => self.tensor(ranges, element),
        }
    }

    fn too_many_indices(&mut self, array: Operand, dimensions: usize) -> Ty {
        self.operand(array);
        let span = self.ast.exprs[array.expr].span;
        let message = format!("an array has at most {} dimensions", Kind::DIMENSIONS_MAX);
        self.sink.push(Diagnostic::error(span, message).label(format!("this is given {dimensions} indices")));
        self.out.types.error
    }

    /// Sees to it that something is an array of so many dimensions.
    fn expect_dimensions(&mut self, array: ExprId, wanted: Ty, found: Ty, dimensions: usize) {
        let types = &mut self.out.types;
        if types.unify(wanted, found).is_ok() {
            return;
        }
        let shown = types.describe(found);
        let error = Diagnostic::error(self.ast.exprs[array].span, format!("{dimensions} indices for {shown}"));
        let error = error.label(format!("expected {}, found {shown}", Kind::ALL[dimensions].noun()));
        let is_nested = types.kind_of(found).is_some_and(|kind| Kinds::SEQUENCES.has(kind));
        self.sink.push(match is_nested {
            true => error.help("an element of a list or an array in another one is `a[i][j]`"),
            false => error,
        });
    }

    /// `{ a with [i] = e, [j .. k] = xs }`: the type of the array.
    pub(super) fn replace(&mut self, array: ExprId, replacements: &[Replacement]) -> Ty {
        let found = self.infer(array);
        let dimensions = replacements[0].subscripts.len();
        let element = self.out.types.var(Class::Any);
        if dimensions > Kind::DIMENSIONS_MAX {
            return self.too_many_indices(Operand { expr: array, ty: Some(found) }, dimensions);
        }
        let wanted = self.tensor(dimensions, element);
        match self.out.types.kind_of(found) {
            Some(Kind::Tensor(rank)) if dimensions == 1 => {
                let help = match rank {
                    2 => "an element of a matrix is `[i, j] = x`, a row `[i, ..] = xs`",
                    _ => "an element has an index for each dimension, `[i, j, k] = x`; a part is `[i, .., ..] = m`",
                };
                self.one_index(array, found, rank, help);
                return self.out.types.error;
            }
            _ if dimensions == 1 => self.unify_expr(array, wanted, found, Why::Changed),
            _ => self.expect_dimensions(array, wanted, found, dimensions),
        }
        let int = self.out.types.int;
        for replacement in replacements {
            let subscripts = &replacement.subscripts;
            if subscripts.len() != dimensions {
                let count = |count: usize| if count == 1 { "1 index".to_owned() } else { format!("{count} indices") };
                let message = format!("{} for an array of another rank", count(subscripts.len()));
                let error = Diagnostic::error(replacement.span, message);
                self.sink.push(error.also(replacements[0].span, format!("this has {}", count(dimensions))));
            }
            subscripts.iter().for_each(|subscript| subscript.for_each_expr(|end| self.check(end, int, Why::Index)));
            let is_part = subscripts.iter().any(|subscript| subscript.is_range());
            let part = self.part(element, subscripts);
            self.check(replacement.value, part, if is_part { Why::Part } else { Why::Element });
        }
        found
    }

    /// The kind and the element type of an expression that must be a list or an array of one dimension.
    pub(super) fn sequence_of(&mut self, sequence: Operand) -> (Ty, Ty) {
        let found = self.operand(sequence);
        let types = &mut self.out.types;
        let (kind, element) = (types.var(Class::Kind(Kinds::SEQUENCES)), types.var(Class::Any));
        let wanted = types.collection(kind, element);
        if let Some(Kind::Tensor(dimensions)) = types.kind_of(found) {
            let help = match dimensions {
                2 => {
                    "an element is `m[i, j]`, a row `m[i, ..]`, a column `m[.., j]`; a loop over rows is `for i < rows m`"
                }
                _ => "an element has an index for each dimension: `t[i, j, k]`; a part is `t[i, .., ..]`",
            };
            self.one_index(sequence.expr, found, dimensions, help);
            return (self.out.types.error, self.out.types.error);
        }
        self.unify_expr(sequence.expr, wanted, found, Why::Sequence);
        (kind, element)
    }

    /// Says that an array of several dimensions has one index, and what to write.
    fn one_index(&mut self, array: ExprId, found: Ty, dimensions: u8, help: &str) {
        let message = format!("one index for {}", self.out.types.describe(found));
        let error = Diagnostic::error(self.ast.exprs[array].span, message);
        let error = error.label(format!("this is {}", Kind::Tensor(dimensions).noun()));
        self.sink.push(error.help(help));
    }

    /// Whether a type is that of a number, whatever number it is.
    pub(super) fn is_number(&self, ty: Ty) -> bool {
        match self.out.types.con_of(ty) {
            Some(con) => matches!(con, Con::Real | Con::Int),
            None => self.out.types.class_of(ty) == Class::Number,
        }
    }

    /// Adds what to write where an operator is given an array and a number.
    pub(super) fn with_spread(
        &self,
        error: Diagnostic,
        op: BinaryOp,
        operands: [ExprId; 2],
        types: [Ty; 2],
    ) -> Diagnostic {
        let is_array = |ty: Ty| self.out.types.kind_of(ty).is_some_and(|kind| Kinds::ARRAYS.has(kind));
        let symbol = op.symbol();
        let (symbol, names) = match types {
            _ if !matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div) => return error,
            [array, number] if is_array(array) && self.is_number(number) => (format!(".{symbol}"), ["xs", "y"]),
            [number, array] if is_array(array) && self.is_number(number) => (format!("{symbol}."), ["y", "xs"]),
            _ => return error,
        };
        let [left, right] = match operands.map(|operand| self.quoted(operand)) {
            [Some(left), Some(right)] => [left, right],
            _ => names.map(str::to_owned),
        };
        error.help(format!("with the same number for each element it is `{left} {symbol} {right}`"))
    }

    /// Adds what to write where an operator is given a matrix and an array.
    pub(super) fn with_matrix(
        &self,
        error: Diagnostic,
        op: BinaryOp,
        operands: [ExprId; 2],
        types: [Ty; 2],
    ) -> Diagnostic {
        const MATRIX: Option<Kind> = Some(Kind::Tensor(2));
        let is_first = match types.map(|ty| self.out.types.kind_of(ty)) {
            [MATRIX, Some(Kind::Array)] => true,
            [Some(Kind::Array), MATRIX] => false,
            _ => return error,
        };
        let names = operands.map(|operand| self.quoted(operand));
        let [m, v] = match (names, is_first) {
            ([Some(m), Some(v)], true) | ([Some(v), Some(m)], false) => [m, v],
            _ => ["m", "v"].map(str::to_owned),
        };
        let symbol = op.symbol();
        match op {
            BinaryOp::Mul => {
                let m = if is_first { m } else { format!("(transpose {m})") };
                error.help(format!("their product is `linalg.matvec {m} {v}`, with `import linalg` in the first line"))
            }
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Div => {
                let [of_m, of_v] = [format!("{m}[i, j]"), format!("{v}[j]")];
                let [left, right] = if is_first { [of_m, of_v] } else { [of_v, of_m] };
                error.help(format!(
                    "with each row it is `[| {left} {symbol} {right} for i < rows {m}, j < columns {m} |]`"
                ))
            }
            _ => error,
        }
    }
}
