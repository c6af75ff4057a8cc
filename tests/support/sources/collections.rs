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
        format!("(preduce {op} {empty} {})", self.expr(&collection, depth))
    }

    pub(super) fn list(&mut self, element: &Ty, depth: u32) -> String {
        let this = List(Box::new(element.clone()));
        let e = |writer: &mut Self| writer.expr(&this, depth);
        let f = |from: Ty| function(&[from], element.clone());
        match self.dice.u8(..14) {
            13 => self.rearranged(&this, element, depth),
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
            9 => format!("(to_list {})", self.expr(&Array(Box::new(element.clone())), depth)),
            10 => {
                // Of the same length, mostly.
                let (f, name) = (self.expr(&function(&[Real, Real], element.clone()), depth), self.fresh());
                let list = self.expr(&list_of(Real), depth);
                let other = match self.dice.u8(..8) {
                    0 => self.expr(&list_of(Real), depth),
                    1 => format!("(reverse {name})"),
                    _ => format!("(map {} {name})", self.expr(&function(&[Real], Real), depth)),
                };
                format!("(let {name} = {list} in zip_with {f} {name} {other})")
            }
            11 => {
                let from = self.dice.pick(&[Real, Real, Int]);
                let (f, list) = (self.expr(&f(from.clone()), depth), list_of(from));
                format!("(pmap {f} {})", self.expr(&list, depth))
            }
            _ => {
                let (f, to) = (self.expr(&f(Int), depth), self.dice.u8(0..5));
                format!("(map {f} (range 0 {to}))")
            }
        }
    }

    /// A collection of which a function of the prelude makes another one of the same kind.
    fn rearranged(&mut self, ty: &Ty, element: &Ty, depth: u32) -> String {
        let e = |writer: &mut Self| writer.expr(ty, depth);
        match self.dice.u8(..7) {
            0 => {
                let test = self.expr(&function(std::slice::from_ref(element), Bool), depth);
                format!("(filter {test} {})", e(self))
            }
            1 => {
                let f = function(&[element.clone(), element.clone()], element.clone());
                format!("(scan {} {} {})", self.expr(&f, depth), self.expr(element, depth), e(self))
            }
            2 => {
                let key = self.dice.pick(&[Real, Int]);
                let key = self.expr(&function(std::slice::from_ref(element), key), depth);
                format!("(sort_by {key} {})", e(self))
            }
            3 => format!("({} ++ {})", e(self), e(self)),
            4 => format!("(reverse {})", e(self)),
            5 => format!("(drop {} (take {} {}))", self.dice.u8(0..2), self.dice.u8(0..4), e(self)),
            _ => format!("(snd (unzip (enumerate {})))", e(self)),
        }
    }

    pub(super) fn array(&mut self, element: &Ty, depth: u32) -> String {
        let f = |from: Ty| function(&[from], element.clone());
        match self.dice.u8(..15) {
            10 => self.rearranged(&array_of(element.clone()), element, depth),
            11 | 12 => self.comprehension(element, depth),
            13 => self.changed(element, depth),
            14 if *element == Real => self.elementwise(depth),
            14 => {
                let (of, columns) = (self.dice.u8(0..2), self.dice.u8(0..4));
                let part = if self.dice.bool() { format!("[{of}, ..]") } else { format!("[.., {of}]") };
                let columns = if part.starts_with("[..") { columns.max(of + 1) } else { columns };
                let body = self.with(&Int, |writer, i| {
                    writer.with(&Int, |writer, j| {
                        let element = writer.expr(element, depth);
                        format!("{element} for {i} < 2, {j} < {columns}")
                    })
                });
                format!("[| {body} |]{part}")
            }
            0 => {
                let parts: Vec<String> = (0..self.dice.usize(1..4)).map(|_| self.expr(element, depth)).collect();
                format!("[| {} |]", parts.join(", "))
            }
            9 => {
                let (from, count) = (self.dice.i64(-1..2), self.count(depth));
                let body = self.with(&Int, |writer, i| {
                    let condition = writer.of_first_round(i, from);
                    let (then, other) = (writer.expr(element, depth), writer.expr(element, depth));
                    format!("if {condition} then {then} else {other} for {i} in {from} .. {count}")
                });
                format!("[| {body} |]")
            }
            1 => {
                let count = self.count(depth);
                self.with(&Int, |writer, i| format!("[| {} for {i} < {count} |]", writer.expr(element, depth)))
            }
            2 => {
                let source = self.expr(&array_of(Real), depth);
                self.with(&Real, |writer, x| format!("[| {} for {x} in {source} |]", writer.expr(element, depth)))
            }
            3 => format!("(map {} {})", self.expr(&f(Real), depth), self.expr(&array_of(Real), depth)),
            4 => format!("(pmap {} {})", self.expr(&f(Real), depth), self.expr(&array_of(Real), depth)),
            5 | 6 => {
                let count = self.count(depth);
                self.with(&Int, |writer, i| format!("(pbuild {count} (\\{i} -> {}))", writer.expr(element, depth)))
            }
            7 => format!("(to_array {})", self.expr(&List(Box::new(element.clone())), depth)),
            _ => format!("(build {} {})", self.dice.u8(0..5), self.expr(&f(Int), depth)),
        }
    }

    /// An array by a comprehension with several clauses.
    fn comprehension(&mut self, element: &Ty, depth: u32) -> String {
        let mark = self.scope.len();
        let mut clauses = String::new();
        for at in 0..self.dice.usize(1..3) {
            let count = self.dice.u8(0..4);
            let clause = match self.dice.u8(..4) {
                0 => format!(" for {} < {count}", self.bind(Int)),
                1 => {
                    let collection = self.dice.pick(&[list_of(Real), array_of(Real)]);
                    let collection = self.expr(&collection, depth);
                    format!(" for {} in {collection}", self.bind(Real))
                }
                2 => {
                    let init = self.expr(element, depth);
                    let (acc, i) = (self.bind(element.clone()), self.bind(Int));
                    let next = self.expr(element, depth);
                    format!(" loop {acc} = {init} for {i} < {count} do {next}")
                }
                _ => {
                    let (init, i) = (self.expr(element, depth), self.fresh());
                    let acc = self.bind(element.clone());
                    let next = self.expr(element, depth);
                    format!(" loop ({acc}, {i}) = ({init}, 0) while {i} < {count} do ({next}, {i} + 1)")
                }
            };
            clauses += &clause;
            if at == 0 || self.dice.bool() {
                clauses += &format!(" if {}", self.expr(&Bool, depth));
            }
        }
        let body = self.expr(element, depth);
        self.scope.truncate(mark);
        format!("[| {body}{clauses} |]")
    }

    /// An array some of whose elements are changed, perhaps where they are.
    fn changed(&mut self, element: &Ty, depth: u32) -> String {
        let (a, i, count) = (self.fresh(), self.fresh(), self.dice.u8(0..4));
        let array = self.expr(&array_of(element.clone()), depth);
        let mark = self.scope.len();
        if self.dice.bool() {
            self.scope.push((a.clone(), array_of(element.clone())));
        }
        let value = self.expr(element, depth);
        let value = match self.dice.u8(..3) {
            0 => format!("(if {i} > 1 then {a}[0] else {value})"),
            1 => format!("{a}[({i} + 1) % length {a}]"),
            _ => value,
        };
        self.scope.truncate(mark);
        let index = format!("{i} % length {a}");
        let next = match self.dice.u8(..3) {
            0 => format!("{{ {a} with [{index}] = {value}, [0] = {a}[{index}] }}"),
            1 => format!("if {i} == 1 then {a} else {{ {a} with [{index}] = {value} }}"),
            _ => format!("{{ {a} with [{index}] = {value} }}"),
        };
        let next = match self.dice.u8(..4) {
            0 => format!("(loop {a} = {a} for {i} < {count} do {next})"),
            _ => next,
        };
        format!("(let {a} = {array} in if length {a} == 0 then {a} else loop {a} = {a} for {i} < {count} do {next})")
    }

    /// Arithmetic on arrays of reals.
    fn elementwise(&mut self, depth: u32) -> String {
        let (a, array) = (self.fresh(), self.expr(&array_of(Real), depth));
        let f = self.expr(&function(&[Real], Real), depth);
        let made = match self.dice.u8(..5) {
            0 => format!("{a} * map {f} {a}"),
            1 => format!("-{a} + reverse {a}"),
            2 => format!("{a} .* {}", self.expr(&Real, depth)),
            3 => format!("{} -. {a}", self.expr(&Real, depth)),
            _ => format!("{a}[length {a} / 2 ..]"),
        };
        format!("(let {a} = {array} in {made})")
    }

    /// An array of reals that is made on the spot, mostly from others.
    fn made_at_once(&mut self, depth: u32) -> String {
        let links = self.dice.usize(..3);
        let mut array = match self.dice.u8(..4) {
            0 => self.expr(&array_of(Real), depth),
            1 => {
                let count = self.dice.u8(0..6);
                self.with(&Int, |writer, i| format!("[| {} for {i} < {count} - 1 |]", writer.expr(&Real, depth)))
            }
            2 => {
                let (a, count) = (self.fresh(), self.dice.u8(1..5));
                let f = self.expr(&function(&[Real, Real], Real), depth);
                let rest = self.expr(&array_of(Real), depth);
                format!("(let {a} = {rest} in zip_with {f} {a} (build (max 0 (length {a})) (\\i -> {count} * {a}[i])))")
            }
            _ => format!("(build {} {})", self.dice.u8(0..6), self.expr(&function(&[Int], Real), depth)),
        };
        for _ in 0..links {
            array = format!("(map {} {array})", self.expr(&function(&[Real], Real), depth));
        }
        array
    }

    /// A condition that mostly has another outcome in a loop's first round than in all others.
    pub(super) fn of_first_round(&mut self, index: &str, from: i64) -> String {
        let (bound, index) = match self.dice.u8(..6) {
            0 => (from + 1, index.to_owned()),
            1 => (from - 1, format!("{index} - 1")),
            2 => (from - 1, index.to_owned()),
            _ => (from, index.to_owned()),
        };
        // Behind the veil nobody knows the bound.
        let bound = if self.veil.is_some() { format!("({bound} * one)") } else { format!("({bound})") };
        let comparison = self.dice.pick(&["==", "!=", "<", "<=", ">", ">="]);
        let test = match self.dice.bool() {
            true => format!("{index} {comparison} {bound}"),
            false => format!("{bound} {comparison} {index}"),
        };
        match self.dice.u8(..7) {
            5 => format!("(let {} = {} in {test})", self.fresh(), self.expr(&Real, 1)),
            6 => {
                let shifted = self.fresh();
                format!("(let {shifted} = {index} in {shifted} {comparison} {bound})")
            }
            0 => format!("({test} && {})", self.expr(&Bool, 1)),
            1 => format!("({test} || {})", self.expr(&Bool, 1)),
            2 => format!("not ({test})"),
            _ => test,
        }
    }

    /// A real that is made of an array that nothing else reads: the compiler may leave the array out.
    pub(super) fn taken_at_once(&mut self, depth: u32) -> String {
        let (array, a) = (self.made_at_once(depth), self.fresh());
        match self.dice.u8(..9) {
            0 => format!("(tanh (sum {array}))"),
            8 => {
                // What reads the elements before or after those of its own index.
                let (shift, end) = self.dice.pick(&[("- 1", ""), ("+ 1", " - 1"), ("+ 1", " - 2")]);
                let condition = self.dice.pick(&["== 0", "< 1", "- 1 < 0"]);
                let body = self.with(&Int, |writer, i| {
                    let (first, factor) = (writer.expr(&Real, depth), writer.expr(&Real, depth));
                    format!(
                        "if {i} {condition} then {first} else {a}[{i} {shift}] * {factor} for {i} < length {a}{end}"
                    )
                });
                format!("(let {a} = {array} in tanh (sum [| {body} |]))")
            }
            1 => {
                let (f, g) = (self.dice.pick(&["minimum", "maximum"]), self.expr(&Real, depth));
                format!("(let {a} = {array} in if length {a} == 0 then {g} else {f} {a})")
            }
            2 => {
                let init = self.expr(&Real, depth);
                let mark = self.scope.len();
                let (s, x) = (self.bind(Real), self.bind(Real));
                let next = self.expr(&Real, depth);
                self.scope.truncate(mark);
                format!("(loop {s} = {init} for {x} in {array} do tanh ({s} + {x}) * {next})")
            }
            3 => {
                let f = self.expr(&function(&[Real, Real], Real), depth);
                format!("(fold {f} {} {array})", self.expr(&Real, depth))
            }
            4 => {
                let f = self.expr(&function(&[Real], Real), depth);
                format!("(let {a} = {array} in tanh (dot (map {f} {a}) {a}))")
            }
            5 => {
                let (b, s, x, y) = (self.fresh(), self.fresh(), self.fresh(), self.fresh());
                let other = self.expr(&Real, depth);
                format!(
                    "(let {b} = {array} in loop {s} = {other} for ({x}, {y}) in \
                     [| ({b}[i], to_real i) for i < length {b} |] do {s} + tanh ({x} * {y}))"
                )
            }
            6 => {
                let (test, other) = (self.expr(&Bool, depth), self.expr(&Real, depth));
                format!("(let {a} = {array} in if {test} then {other} else tanh (sum {a}))")
            }
            _ => {
                // What reads the first one, a part, or all backwards.
                let (s, i, k) = (self.fresh(), self.fresh(), self.dice.u8(0..4));
                let index = match k {
                    0 => format!("length {a} - 1 - {i}"),
                    1 => format!("{i} / 2"),
                    _ => i.clone(),
                };
                format!(
                    "(let {a} = {array} in loop {s} = if length {a} == 0 then 0.5 else {a}[0] \
                     for {i} in {} .. length {a} do tanh ({s} + {a}[{index}]))",
                    k % 2
                )
            }
        }
    }
}
