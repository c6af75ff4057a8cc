//! Lists, arrays, and tasks.

use super::Ty::{Array, Bool, Int, List, Real};
use super::{Ty, Writer, array_of, function, list_of, show};

impl Writer {
    /// Parts of a value that are tasks.
    pub(super) fn tasks(&mut self, ty: &Ty, depth: u32) -> String {
        let (other, mark) = (self.any_type(), self.scope.len());
        let (value, beside) = (self.expr(ty, depth), self.expr(&other, depth));
        match self.dice.u8(..4) {
            0 => format!("(fst ({value} |*| {beside}))"),
            1 => {
                let (a, b) = (self.bind(ty.clone()), self.bind(other));
                let body = self.expr(ty, depth);
                self.scope.truncate(mark);
                format!("(match {value} |*| {beside} with | ({a}, {b}) -> {body})")
            }
            2 => {
                let (a, b, c) = (self.bind(ty.clone()), self.fresh(), self.bind(Real));
                let body = self.expr(ty, depth);
                self.scope.truncate(mark);
                let third = self.expr(&Real, depth);
                format!("(match par ({value}, {beside}, {third}) with | ({a}, {b}, {c}) -> {body})")
            }
            _ => {
                // A tree of tasks.
                let (go, k, x) = (self.fresh(), self.fresh(), self.fresh());
                let (a, b, count) = (self.fresh(), self.fresh(), self.dice.u8(0..5));
                let joined = self.expr(&function(&[ty.clone(), ty.clone()], ty.clone()), depth);
                format!(
                    "(let {go} ({k} : Int) ({x} : {}) = if {k} <= 0 then {x} else \
                     (match {go} ({k} - 1) {x} |*| {go} ({k} - 2) {x} with | ({a}, {b}) -> {joined} {a} {b}) \
                     in {go} {count} {value})",
                    show(ty)
                )
            }
        }
    }

    /// A collection that tasks combine.
    pub(super) fn reduced(&mut self, ty: &Ty, depth: u32) -> String {
        let op = self.expr(&function(&[ty.clone(), ty.clone()], ty.clone()), depth);
        let empty = self.expr(ty, depth);
        let collection = if self.dice.bool() { list_of(ty.clone()) } else { array_of(ty.clone()) };
        // Which collection it is must be known.
        format!("(preduce {op} {empty} ({} : {}))", self.expr(&collection, depth), show(&collection))
    }

    pub(super) fn list(&mut self, element: &Ty, depth: u32) -> String {
        let this = List(Box::new(element.clone()));
        let e = |writer: &mut Self| writer.expr(&this, depth);
        let f = |from: Ty| function(&[from], element.clone());
        match self.dice.u8(..13) {
            0 | 1 => {
                let parts: Vec<String> = (0..self.dice.usize(1..4)).map(|_| self.expr(element, depth)).collect();
                format!("[{}]", parts.join(", "))
            }
            2 => format!("({} :: {})", self.expr(element, depth), e(self)),
            3 => format!("({} ++ {})", e(self), e(self)),
            4 | 5 => {
                let from = self.dice.pick(&[Real, Real, Int]);
                format!("(map {} {})", self.expr(&f(from.clone()), depth), self.expr(&list_of(from), depth))
            }
            6 => {
                let test = self.expr(&function(std::slice::from_ref(element), Bool), depth);
                format!("(filter {test} {})", e(self))
            }
            7 => format!("(take {} {})", self.dice.u8(0..4), e(self)),
            8 => format!("(reverse {})", e(self)),
            9 => format!("(from_array {})", self.expr(&Array(Box::new(element.clone())), depth)),
            10 => {
                let f = self.expr(&function(&[Real, Real], element.clone()), depth);
                format!("(zip_with {f} {} {})", self.expr(&list_of(Real), depth), self.expr(&list_of(Real), depth))
            }
            11 => {
                let from = self.dice.pick(&[Real, Real, Int]);
                let (f, list) = (self.expr(&f(from.clone()), depth), list_of(from));
                format!("(pmap {f} ({} : {}))", self.expr(&list, depth), show(&list))
            }
            _ => {
                let (f, to) = (self.expr(&f(Int), depth), self.dice.u8(0..5));
                format!("(map {f} (range 0 {to}))")
            }
        }
    }

    pub(super) fn array(&mut self, element: &Ty, depth: u32) -> String {
        let f = |from: Ty| function(&[from], element.clone());
        match self.dice.u8(..9) {
            0 => {
                let parts: Vec<String> = (0..self.dice.usize(1..4)).map(|_| self.expr(element, depth)).collect();
                format!("[| {} |]", parts.join(", "))
            }
            1 => {
                let count = self.count(depth);
                self.with(&Int, |writer, i| format!("[| {} for {i} < {count} |]", writer.expr(element, depth)))
            }
            2 => {
                let source = self.expr(&array_of(Real), depth);
                self.with(&Real, |writer, x| format!("[| {} for {x} in {source} |]", writer.expr(element, depth)))
            }
            3 => format!("(map_array {} {})", self.expr(&f(Real), depth), self.expr(&array_of(Real), depth)),
            4 => format!("(pmap {} ({} : Array Real))", self.expr(&f(Real), depth), self.expr(&array_of(Real), depth)),
            5 | 6 => {
                let count = self.count(depth);
                self.with(&Int, |writer, i| format!("(pbuild {count} (\\{i} -> {}))", writer.expr(element, depth)))
            }
            7 => format!("(to_array {})", self.expr(&List(Box::new(element.clone())), depth)),
            _ => format!("(build {} {})", self.dice.u8(0..5), self.expr(&f(Int), depth)),
        }
    }
}
