//! Derivative operators: applied to functions of this place, which capture what is in scope, at points of all types
//! that have derivatives. What they give is a real, so that operators nest, and decide where programs go on.
//!
//! Two right derivatives may differ by rounding. So where there are operators no real is compared with another one, or
//! made absolute, without an offset that nothing else has: whoever is at a jump or at a kink by design isn't then.

use super::Ty::{Array, Bool, Data, Int, List, Maybe, Real, Record, Tuple};
use super::{Ty, Writer, array_of, list_of, show};

/// What stands beside one of two reals that are compared.
pub(super) const OFFSET: &str = "0.0000031";

impl Writer {
    /// Whether the program has operators.
    pub(super) fn has_operators(&self) -> bool {
        self.nesting.is_some()
    }

    /// Whether an operator is to stand here, inside of others.
    pub(super) fn takes_operator(&mut self) -> bool {
        self.nesting.is_some_and(|left| left > 0) && self.dice.one_in(4)
    }

    /// A type that has derivatives.
    fn point_type(&mut self) -> Ty {
        let data: Vec<Ty> = (0..self.data.len()).filter(|&n| self.is_data(n)).map(Data).collect();
        match self.dice.u8(..12) {
            0..4 => Real,
            4 => Tuple(vec![Real, Real]),
            5 => Tuple(vec![Int, Real, Bool]),
            6 => list_of(Real),
            7 => array_of(Real),
            8 => self.dice.pick(&[Maybe(Box::new(Real)), list_of(Tuple(vec![Int, Real]))]),
            9 => Record,
            _ if !data.is_empty() => self.dice.pick(&data),
            _ => array_of(Real),
        }
    }

    /// Whether there are no functions in a data type.
    fn is_data(&self, which: usize) -> bool {
        self.data[which].iter().flatten().all(|field| match field {
            Ty::Fun(..) => false,
            Data(n) => *n == which || self.is_data(*n),
            _ => true,
        })
    }

    /// A function of a point.
    fn function_of(&mut self, point: &Ty, result: &Ty, depth: u32) -> String {
        let body = self.with(point, |writer, name| {
            let body = writer.expr(result, depth);
            format!("\\({name} : {}) -> {body}", show(point))
        });
        format!("({body})")
    }

    /// A tangent of the point that a name stands for.
    fn tangent_of(&mut self, ty: &Ty, name: &str) -> String {
        match ty {
            List(element) if **element == Real => format!("(map (\\_ -> {}) {name})", self.expr(&Real, 1)),
            Array(element) if **element == Real => {
                let x = self.fresh();
                format!("(map (\\{x} -> 0.5 - {x}) {name})")
            }
            Real | Tuple(_) | Record => self.expr(ty, 1),
            // Of its shape, and with reals in the places of reals.
            _ => name.to_owned(),
        }
    }

    /// A real that is made of all reals in a derivative.
    fn total(&mut self, ty: &Ty, value: &str) -> String {
        let (a, b, c) = (self.fresh(), self.fresh(), self.fresh());
        match ty {
            Tuple(parts) if parts.len() == 2 => format!("(let ({a}, {b}) = {value} in {a} + 2.0 * {b})"),
            Tuple(_) => format!("(let ({a}, {b}, {c}) = {value} in if {c} then {b} else {b} + to_real {a})"),
            List(element) if **element == Real => format!("(sum {value})"),
            List(_) => format!("(sum (map snd {value}))"),
            Array(_) => format!("(sum {value})"),
            Maybe(_) => format!("(from_maybe 0.25 {value})"),
            Record => format!("(let {a} : {} = {value} in {a}.x)", show(&Record)),
            Data(n) => format!("(measure{n} one {value})"),
            _ => value.to_owned(),
        }
    }

    /// A real that an operator gives.
    pub(super) fn operator(&mut self, depth: u32) -> String {
        self.costly += 1;
        let outer = self.nesting;
        self.nesting = outer.map(|left| left - 1);
        let text = self.operator_inside(depth);
        self.nesting = outer;
        text
    }

    fn operator_inside(&mut self, depth: u32) -> String {
        let ty = self.point_type();
        let point = self.expr(&ty, depth);
        let (x, y, g) = (self.fresh(), self.fresh(), self.fresh());
        // The name is known to nobody but this operator: functions may capture everything else.
        let at = |rest: String| format!("(let {x} : {} = {point} in {rest})", show(&ty));
        match self.dice.u8(..16) {
            0 | 1 => {
                let (f, at) = (self.function_of(&Real, &Real, depth), self.expr(&Real, depth));
                format!("(derivative {f} {at})")
            }
            2 => {
                let (f, t) = (self.function_of(&ty, &Real, depth), self.tangent_of(&ty, &x));
                at(format!("let ({y}, {g}) = jvp {f} {x} {t} in 0.5 * {y} + {g}"))
            }
            3 | 4 => {
                let (f, gradient) = (self.function_of(&ty, &Real, depth), self.fresh());
                let total = self.total(&ty, &gradient);
                at(format!("let {gradient} : {} = grad {f} {x} in {total}", show(&ty)))
            }
            5 => {
                let (f, total) = (self.function_of(&ty, &Real, depth), self.total(&ty, &g));
                at(format!("let ({y}, {g}) = value_and_grad {f} {x} in {y} - {total}"))
            }
            6 => {
                // A pullback that is called twice, with a cotangent that depends on the value.
                let (f, cotangent) = (self.function_of(&ty, &Real, depth), self.expr(&Real, 1));
                let (first, second) =
                    (self.total(&ty, &format!("({g} {cotangent})")), self.total(&ty, &format!("({g} {y})")));
                at(format!("let ({y}, {g}) = vjp {f} {x} in {first} - 0.25 * {second}"))
            }
            7 => {
                // One that is handed on to tasks.
                let pair = Tuple(vec![Real, Real]);
                let f = self.function_of(&ty, &pair, depth);
                let back = |c: &str| format!("({g} {c})");
                let (first, second) = (self.total(&ty, &back("(1.0, 0.5)")), self.total(&ty, &back("(-0.5, 2.0)")));
                let (a, b) = (self.fresh(), self.fresh());
                at(format!("let (_, {g}) = vjp {f} {x} in match {first} |*| {second} with | ({a}, {b}) -> {a} - {b}"))
            }
            8 => {
                let (f, cotangent) = (self.function_of(&ty, &Real, depth), self.expr(&Real, 1));
                let total = self.total(&ty, &g);
                at(format!("let ({y}, {g}) = pull {f} {x} {cotangent} in {total} + {y}"))
            }
            9 => {
                let (f, t) = (self.function_of(&ty, &Real, depth), self.tangent_of(&ty, &x));
                let total = self.total(&ty, &g);
                at(format!("let {g} : {} = hvp {f} {x} {t} in {total}", show(&ty)))
            }
            10 | 11 => {
                let f = self.function_of(&ty, &Real, depth);
                format!("(checkpoint {f} {point})")
            }
            12 => format!("(detach {})", self.expr(&Real, depth)),
            13 => {
                let reals = array_of(Real);
                let (f, at) = (self.function_of(&reals, &Real, depth), self.expr(&reals, depth));
                format!("(sum (map sum (hessian {f} {at})))")
            }
            14 => {
                let (operator, second) = self.dice.pick(&[("custom_vjp", "c * cos v"), ("custom_jvp", "cos v * c")]);
                format!("({operator} (\\(v : Real) -> sin v) (\\v c -> {second}) {})", self.expr(&Real, depth))
            }
            _ => {
                let (f, at) = (self.function_of(&Real, &Real, depth), self.expr(&Real, depth));
                let bound = self.dice.i64(-50..50) as f64 / 100.0 + 0.003_137;
                let (then, other) = (self.expr(&Real, depth), self.expr(&Real, depth));
                format!("(if derivative {f} {at} < {bound} then {then} else {other})")
            }
        }
    }
}
