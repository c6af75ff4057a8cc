//! Random programs of the language, well typed and sure to end.
//!
//! An expression is made for a type, out of what is in scope and of smaller expressions. Real values are kept moderate
//! and no operation traps, so that nearly every program has a value and a derivative to compare.
//!
//! A program can be written with a veil: values and functions are sent through conditions and lists that the compiler
//! can't see through, so that it specialises, inlines and folds less. It must compute the same bits, since the
//! language fixes every rounding.

mod collections;
mod operators;

use super::dice::Dice;
use super::generate::Program;
use dualvm_vm::value::Value;
use operators::OFFSET;
use std::fmt::Write;

/// A type.
#[derive(Clone, PartialEq, Debug)]
enum Ty {
    Real,
    Int,
    Bool,
    Tuple(Vec<Ty>),
    List(Box<Ty>),
    Array(Box<Ty>),
    Maybe(Box<Ty>),
    /// `{ x : Real, n : Int }`
    Record,
    /// A data type of the program.
    Data(usize),
    Fun(Vec<Ty>, Box<Ty>),
}
use Ty::{Array, Bool, Data, Fun, Int, List, Maybe, Real, Record, Tuple};

/// What every program has: functions that are used at many types.
const POLYMORPHIC: &str = "\
alias Point = { x : Real, n : Int }
def twice f x = f (f x)
def choose (c : Bool) x y = if c then x else y
def pair_up x y = (x, y)
def swapped (x, y) = (y, x)
def compose f g x = f (g x)
def apply_all fs x = map (\\f -> f x) fs
def count_if p xs = fold (\\n x -> if p x then n + 1 else n) 0 xs
def times (n : Int) f x = loop y = x for _ < n do f y
";

struct Writer {
    dice: Dice,
    veil: Option<Dice>,
    /// Expressions that may still be made before only small ones are.
    budget: i64,
    /// How large expressions are, in percent of the usual.
    percent: i64,
    names: usize,
    scope: Vec<(String, Ty)>,
    definitions: Vec<(String, Vec<Ty>, Ty)>,
    /// The fields of each constructor of each data type; the first constructor is not recursive.
    data: Vec<Vec<Vec<Ty>>>,
    long_loop: bool,
    /// Small expressions that were made, which may be said again where all that was in scope still is.
    said: Vec<Said>,
    /// How many loops, calls and derivative operators were made: nothing small has one.
    costly: usize,
    /// How deep derivative operators may still nest, if the program has any.
    nesting: Option<u32>,
}

/// An expression that was made.
struct Said {
    ty: Ty,
    text: String,
    /// How much was in scope, and the name that came last.
    scope: usize,
    last: String,
}

/// Expressions of so many parts are said again.
const SAID_PARTS: std::ops::RangeInclusive<i64> = 2..=8;

/// The source of this seed and arguments for its `main`.
pub(crate) fn source(seed: u64, veiled: bool) -> (String, Vec<Value>) {
    source_from(Dice::with_seed(seed), veiled.then(|| Dice::with_seed(!seed)))
}

/// The source of these choices.
pub(crate) fn source_from(dice: Dice, veil: Option<Dice>) -> (String, Vec<Value>) {
    sized_source(100, dice, veil)
}

/// The source of these choices, with expressions of this size in percent of the usual.
pub(crate) fn sized_source(percent: i64, dice: Dice, veil: Option<Dice>) -> (String, Vec<Value>) {
    source_with(percent, dice, veil, false)
}

fn source_with(percent: i64, dice: Dice, veil: Option<Dice>, operators: bool) -> (String, Vec<Value>) {
    let mut writer = Writer {
        dice,
        veil,
        budget: 0,
        percent,
        names: 0,
        scope: Vec::new(),
        definitions: Vec::new(),
        data: Vec::new(),
        long_loop: false,
        said: Vec::new(),
        costly: 0,
        nesting: operators.then_some(0),
    };
    let mut out = POLYMORPHIC.to_owned();
    for _ in 0..writer.dice.usize(1..4) {
        writer.data_type(&mut out);
    }
    for n in 0..writer.data.len() {
        writer.measure(n, &mut out);
    }
    // Definitions call each other, and `main` all of them, within operators of its own.
    writer.nesting = operators.then_some(1);
    for _ in 0..writer.dice.usize(0..4) {
        writer.definition(&mut out);
    }
    writer.nesting = operators.then_some(4);
    let args = writer.main(&mut out);
    (out, args)
}

/// The compiled program of this seed.
pub(crate) fn program(seed: u64, veiled: bool) -> Program {
    compiled(seed, veiled, source(seed, veiled))
}

/// The compiled program of this seed, with derivative operators.
pub(crate) fn program_with_operators(seed: u64, veiled: bool) -> Program {
    let veil = veiled.then(|| Dice::with_seed(!seed));
    compiled(seed, veiled, source_with(60, Dice::with_seed(seed), veil, true))
}

fn compiled(seed: u64, veiled: bool, (source, args): (String, Vec<Value>)) -> Program {
    let module = dualvm_frontend::compile("random.dual", &source)
        .unwrap_or_else(|errors| panic!("seed {seed}, veiled {veiled}: {errors}\n{source}"));
    Program { module, args, tame: true, notes: Vec::new(), source: Some(source) }
}

fn show(ty: &Ty) -> String {
    let list = |types: &[Ty], between: &str| types.iter().map(show).collect::<Vec<_>>().join(between);
    match ty {
        Real => "Real".into(),
        Int => "Int".into(),
        Bool => "Bool".into(),
        Tuple(parts) => format!("({})", list(parts, ", ")),
        List(element) => format!("(List {})", show(element)),
        Array(element) => format!("(Array {})", show(element)),
        Maybe(value) => format!("(Maybe {})", show(value)),
        Record => "Point".into(),
        Data(n) => format!("T{n}"),
        Fun(params, result) => format!("({} -> {})", list(params, " -> "), show(result)),
    }
}

fn list_of(ty: Ty) -> Ty {
    List(Box::new(ty))
}

fn array_of(ty: Ty) -> Ty {
    Array(Box::new(ty))
}

fn function(params: &[Ty], result: Ty) -> Ty {
    Fun(params.to_vec(), Box::new(result))
}

impl Writer {
    // The program.

    fn data_type(&mut self, out: &mut String) {
        let this = self.data.len();
        let mut simple = vec![Real, Real, Int, Bool, Tuple(vec![Real, Int]), list_of(Real), array_of(Real), Record];
        simple.push(function(&[Real], Real));
        simple.extend((0..this).map(Data));
        let mut constructors = Vec::new();
        for n in 0..self.dice.usize(1..5) {
            let fields = (0..self.dice.usize(0..4))
                .map(|_| if n > 0 && self.dice.one_in(3) { Data(this) } else { self.dice.pick(&simple) });
            constructors.push(fields.collect::<Vec<_>>());
        }
        let written = constructors.iter().enumerate().map(|(n, fields)| {
            let fields: String = fields.iter().map(|field| format!(" {}", show(field))).collect();
            format!("C{this}{n}{fields}")
        });
        writeln!(out, "type T{this} = {}", written.collect::<Vec<_>>().join(" | ")).expect("a string can be written");
        self.data.push(constructors);
    }

    /// A recursive function from a data type to a real.
    fn measure(&mut self, which: usize, out: &mut String) {
        let name = format!("measure{which}");
        let mut arms = String::new();
        for (n, fields) in self.data[which].clone().into_iter().enumerate() {
            self.begin(12);
            let mark = self.scope.len();
            let names: Vec<String> = fields.iter().map(|ty| self.bind(ty.clone())).collect();
            let mut lets = String::new();
            for (field, ty) in names.iter().zip(&fields) {
                if *ty == Data(which) {
                    let inner = self.bind(Real);
                    let _ = write!(lets, "let {inner} = {name} one {field} in ");
                }
            }
            let body = self.expr(&Real, 3);
            let _ = write!(arms, "\n  | C{which}{n} {} -> {lets}{body}", names.join(" "));
            self.scope.truncate(mark);
        }
        let _ = writeln!(out, "def {name} (one : Int) (t : T{which}) : Real =\n  match t with{arms}");
        self.definitions.push((name, vec![Data(which)], Real));
    }

    fn definition(&mut self, out: &mut String) {
        let name = format!("f{}", self.definitions.len());
        let params: Vec<Ty> = (0..self.dice.usize(1..4)).map(|_| self.any_type()).collect();
        let result = self.any_type();
        let names: Vec<String> = params.iter().map(|ty| self.bind(ty.clone())).collect();
        self.begin(30);
        let body = self.expr(&result, 4);
        let written: String = names.iter().zip(&params).map(|(name, ty)| format!(" ({name} : {})", show(ty))).collect();
        let result_written = if self.dice.bool() { format!(" : {}", show(&result)) } else { String::new() };
        let _ = writeln!(out, "def {name} (one : Int){written}{result_written} =\n  {body}");
        self.scope.clear();
        self.definitions.push((name, params, result));
    }

    fn main(&mut self, out: &mut String) -> Vec<Value> {
        let mut args = vec![Value::Int(1)];
        let mut params = String::from("(one : Int)");
        for n in 0..self.dice.usize(1..4) {
            let _ = write!(params, " (x{n} : Real)");
            self.scope.push((format!("x{n}"), Real));
            args.push(Value::Real(3.0 * self.dice.f64() - 1.5));
        }
        if self.dice.bool() {
            params += " (xs : Array Real)";
            self.scope.push(("xs".into(), array_of(Real)));
            args.push(Value::Reals((0..self.dice.usize(0..5)).map(|_| 3.0 * self.dice.f64() - 1.5).collect()));
        }
        if self.dice.one_in(3) {
            params += " (ks : Array Int)";
            self.scope.push(("ks".into(), array_of(Int)));
            args.push(Value::Array((0..self.dice.usize(0..5)).map(|_| Value::Int(self.dice.i64(-3..6))).collect()));
        }
        params += " (n : Int)";
        self.scope.push(("n".into(), Int));
        args.push(Value::Int(self.dice.i64(0..6)));
        self.long_loop = self.dice.one_in(10);
        self.begin(80);
        let first = self.expr(&Real, 6);
        self.begin(40);
        let second = self.expr(&Real, 5);
        let _ = writeln!(out, "def main {params} : Real =\n  {first}\n  + sin {second} * x0");
        args
    }

    // Names and types.

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// A new name in scope.
    fn bind(&mut self, ty: Ty) -> String {
        let name = self.fresh();
        self.scope.push((name.clone(), ty));
        name
    }

    /// What `make` makes with a new name of this type in scope.
    fn with<T>(&mut self, ty: &Ty, make: impl FnOnce(&mut Self, &str) -> T) -> T {
        let mark = self.scope.len();
        let name = self.bind(ty.clone());
        let made = make(self, &name);
        self.scope.truncate(mark);
        made
    }

    fn any_type(&mut self) -> Ty {
        match self.dice.u8(..20) {
            0..5 => Real,
            5 | 6 => Int,
            7 => Bool,
            8 => Tuple(vec![Real, Real]),
            9 => Tuple(vec![Int, Real, Bool]),
            10 => list_of(Real),
            11 => array_of(Real),
            12 => Maybe(Box::new(Real)),
            13 | 14 if !self.data.is_empty() => Data(self.dice.usize(..self.data.len())),
            15 | 16 => function(&[Real], Real),
            17 => function(&[Real, Real], Real),
            18 => self.dice.pick(&[list_of(function(&[Real], Real)), list_of(Tuple(vec![Int, Real])), array_of(Int)]),
            _ => Record,
        }
    }

    // Expressions.

    /// Begins an expression of about so many parts in programs of the usual size.
    fn begin(&mut self, parts: i64) {
        self.budget = parts * self.percent / 100;
    }

    /// An expression that stands wherever an operand or an argument may.
    fn expr(&mut self, ty: &Ty, depth: u32) -> String {
        if let Some(text) = self.said_before(ty) {
            return text;
        }
        let (budget, costly) = (self.budget, self.costly);
        self.budget -= 1;
        let text = if depth == 0 || self.budget < 0 {
            self.leaf(ty)
        } else if self.dice.one_in(3) {
            self.general(ty, depth - 1)
        } else {
            self.special(ty, depth - 1)
        };
        let text = self.veiled(ty, text);
        if self.costly == costly
            && SAID_PARTS.contains(&(budget - self.budget))
            && let Some((last, _)) = self.scope.last()
        {
            let (text, last) = (text.clone(), last.clone());
            self.said.push(Said { ty: ty.clone(), text, scope: self.scope.len(), last });
        }
        text
    }

    /// Now and then, an expression of this type that was made before: what compilers compute once.
    fn said_before(&mut self, ty: &Ty) -> Option<String> {
        // A name is bound once, so that all that came before the last one is there if that is.
        let scope = &self.scope;
        self.said.retain(|said| scope.get(said.scope - 1).is_some_and(|(name, _)| *name == said.last));
        let again: Vec<&Said> = self.said.iter().filter(|said| said.ty == *ty).collect();
        if again.is_empty() || !self.dice.one_in(6) {
            return None;
        }
        Some(again[self.dice.usize(..again.len())].text.clone())
    }

    fn veiled(&mut self, ty: &Ty, text: String) -> String {
        let Some(veil) = &mut self.veil else { return text };
        match veil.u8(..30) {
            0 | 1 => format!("(if one == 1 then {text} else {})", self.constant(ty)),
            2 => format!("(match [{text}] with | veiled :: _ -> veiled | [] -> {})", self.constant(ty)),
            3 => format!("(head [{text}, {}])", self.constant(ty)),
            4 => format!("(apply_all [\\(_ : Int) -> {text}] one |> head)"),
            _ => text,
        }
    }

    /// A value of the type that depends on nothing.
    fn constant(&self, ty: &Ty) -> String {
        match ty {
            Real => "0.25".into(),
            Int => "2".into(),
            Bool => "true".into(),
            Tuple(parts) => {
                format!("({})", parts.iter().map(|part| self.constant(part)).collect::<Vec<_>>().join(", "))
            }
            List(_) => format!("([] : {})", show(ty)),
            Array(element) => format!("[| {} |]", self.constant(element)),
            Maybe(_) => format!("(Nothing : {})", show(ty)),
            Record => "{ x = 0.5, n = 1 }".into(),
            Data(n) => {
                let fields: String =
                    self.data[*n][0].iter().map(|field| format!(" {}", self.constant(field))).collect();
                format!("(C{n}0{fields})")
            }
            Fun(params, result) => {
                format!("(\\{} -> {})", vec!["_"; params.len()].join(" "), self.constant(result))
            }
        }
    }

    fn leaf(&mut self, ty: &Ty) -> String {
        let vars: Vec<String> = self.scope.iter().filter(|(_, of)| of == ty).map(|(name, _)| name.clone()).collect();
        if !vars.is_empty() && !self.dice.one_in(6) {
            // The last ones are more likely to be of use.
            let n = if self.dice.bool() { vars.len().saturating_sub(3) } else { 0 };
            return self.dice.pick(&vars[n..]);
        }
        match ty {
            Real => {
                let value = self.dice.i64(-200..200) as f64 / 100.0;
                if value < 0.0 { format!("({value:?})") } else { format!("{value:?}") }
            }
            Int => {
                let value = self.dice.i64(-4..9);
                if self.dice.bool() || value < 0 { format!("({value} : Int)") } else { value.to_string() }
            }
            Bool => self.dice.pick(&["true", "false"]).into(),
            Tuple(parts) => {
                format!("({})", parts.iter().map(|part| self.leaf(part)).collect::<Vec<_>>().join(", "))
            }
            List(element) if self.dice.bool() => format!("[{}]", self.leaf(element)),
            Array(element) => format!("[| {}, {} |]", self.leaf(element), self.leaf(element)),
            Maybe(value) if self.dice.bool() => format!("(Just {})", self.leaf(value)),
            Record => format!("{{ x = {}, n = {} }}", self.leaf(&Real), self.leaf(&Int)),
            Data(n) => {
                let fields = self.data[*n][0].clone();
                let fields: String = fields.iter().map(|field| format!(" {}", self.leaf(field))).collect();
                format!("(C{n}0{fields})")
            }
            Fun(..) => self.lambda(ty, 0),
            _ => self.constant(ty),
        }
    }

    fn lambda(&mut self, ty: &Ty, depth: u32) -> String {
        let Fun(params, result) = ty else { panic!("{ty:?} is no function") };
        let mark = self.scope.len();
        let names: Vec<String> = params.iter().map(|param| self.bind(param.clone())).collect();
        let body = self.expr(result, depth);
        self.scope.truncate(mark);
        let annotated = self.dice.bool() || params.contains(&Record);
        let patterns = names
            .iter()
            .zip(params)
            .map(|(name, param)| if annotated { format!("({name} : {})", show(param)) } else { name.clone() });
        format!("(\\{} -> {body})", patterns.collect::<Vec<_>>().join(" "))
    }

    /// A number of rounds.
    fn count(&mut self, depth: u32) -> String {
        if self.long_loop {
            self.long_loop = false;
            return self.dice.i64(500..3000).to_string();
        }
        match self.dice.u8(..3) {
            0 => self.dice.i64(0..5).to_string(),
            1 if self.scope.iter().any(|(name, _)| name == "n") => "n".into(),
            _ => format!("({} % 5)", self.expr(&Int, depth.min(1))),
        }
    }

    /// Forms that give a value of any type.
    fn general(&mut self, ty: &Ty, depth: u32) -> String {
        let e = |writer: &mut Self| writer.expr(ty, depth);
        match self.dice.u8(..18) {
            0 | 1 => format!("(if {} then {} else {})", self.expr(&Bool, depth), e(self), e(self)),
            2 | 3 => {
                let other = self.any_type();
                let value = self.expr(&other, depth);
                self.with(&other, |writer, name| {
                    let body = writer.expr(ty, depth);
                    // Reading a field needs the record's type.
                    if other == Record {
                        format!("(let {name} : {} = {value} in {body})", show(&other))
                    } else {
                        format!("(let {name} = {value} in {body})")
                    }
                })
            }
            4 => self.local_function(ty, depth),
            5 | 6 if !self.data.is_empty() => self.match_data(ty, depth),
            7 => self.loop_of(ty, depth),
            8 => self.recursion(ty, depth),
            9 => self.call(ty, depth),
            10 => {
                let polymorphic = self.dice.pick(&["choose", "twice", "compose", "times", "swapped"]);
                let f = function(std::slice::from_ref(ty), ty.clone());
                match polymorphic {
                    "choose" => format!("(choose {} {} {})", self.expr(&Bool, depth), e(self), e(self)),
                    "twice" => format!("(twice {} {})", self.expr(&f, depth), e(self)),
                    "compose" => {
                        let (f, g) = (function(&[Real], ty.clone()), function(&[Int], Real));
                        let f = self.expr(&f, depth);
                        format!("(compose {f} {} {})", self.expr(&g, depth), self.expr(&Int, depth))
                    }
                    "times" => format!("(times {} {} {})", self.count(depth), self.expr(&f, depth), e(self)),
                    _ => format!("(fst (swapped (pair_up {} {})))", self.expr(&Real, depth), e(self)),
                }
            }
            11 => {
                let pair = Tuple(vec![Int, ty.clone()]);
                let value = self.expr(&pair, depth);
                let (a, b) = (self.bind(Int), self.bind(ty.clone()));
                let body = e(self);
                self.scope.truncate(self.scope.len() - 2);
                format!("(match {value} with | ({}, {b}) -> {b} | ({a}, {b}) -> {body})", self.dice.i64(0..4))
            }
            12 => {
                let (missing, value) = (e(self), self.expr(&Maybe(Box::new(ty.clone())), depth));
                if self.dice.bool() {
                    return format!("(from_maybe {missing} {value})");
                }
                let found = self.with(ty, |writer, name| format!("Just {name} -> {}", writer.expr(ty, depth)));
                format!("(match {value} with | Nothing -> {missing} | {found})")
            }
            13 => {
                let list = self.expr(&list_of(ty.clone()), depth);
                let (none, mark) = (e(self), self.scope.len());
                let (first, second) = (self.bind(ty.clone()), self.bind(ty.clone()));
                let two = e(self);
                self.scope.truncate(mark);
                format!("(match {list} with | {first} :: {second} :: _ -> {two} | [{first}] -> {first} | [] -> {none})")
            }
            14 => {
                let f = self.expr(&function(&[Real], ty.clone()), depth);
                let x = self.expr(&Real, depth);
                if self.dice.bool() { format!("({f} {x})") } else { format!("({x} |> {f})") }
            }
            15 => self.tasks(ty, depth),
            16 => self.reduced(ty, depth),
            _ => {
                let f = self.expr(&function(&[ty.clone(), Real], ty.clone()), depth);
                let init = e(self);
                let collection = self.dice.pick(&[list_of(Real), array_of(Real)]);
                match self.dice.u8(..4) {
                    0 => format!("(fold {f} {init} {})", self.expr(&collection, depth)),
                    1 => {
                        let collection = self.expr(&collection, depth);
                        let mark = self.scope.len();
                        let (acc, x) = (self.bind(ty.clone()), self.bind(Real));
                        let next = e(self);
                        self.scope.truncate(mark);
                        format!("(loop {acc} = {init} for {x} in {collection} do {f} {next} {x})")
                    }
                    2 => format!("(foldr (flip {f}) {init} {})", self.expr(&array_of(Real), depth)),
                    _ => format!("(foldr (flip {f}) {init} {})", self.expr(&list_of(Real), depth)),
                }
            }
        }
    }

    /// A function of the program, or one in scope, applied; or one that is made here.
    fn call(&mut self, ty: &Ty, depth: u32) -> String {
        self.costly += 1;
        let global = self.definitions.iter().filter(|(_, _, result)| result == ty);
        let mut all: Vec<(String, Vec<Ty>)> =
            global.map(|(name, params, _)| (format!("{name} one"), params.clone())).collect();
        for (name, of) in &self.scope {
            if let Fun(params, result) = of
                && **result == *ty
            {
                all.push((name.clone(), params.clone()));
            }
        }
        if all.is_empty() {
            return self.special(ty, depth);
        }
        let (name, params) = self.dice.pick(&all);
        let args: String = params.iter().map(|param| format!(" {}", self.expr(param, depth))).collect();
        format!("({name}{args})")
    }

    /// A function of this place, monomorphic or used at two types.
    fn local_function(&mut self, ty: &Ty, depth: u32) -> String {
        let name = self.fresh();
        match self.dice.u8(..3) {
            0 => {
                let (a, b) = (self.expr(ty, depth), self.expr(&Real, depth));
                let (x, y) = (self.fresh(), self.fresh());
                format!(
                    "(let {name} {x} {y} = if one == 1 then ({y}, {x}) else ({y}, {x}) in \
                         snd ({name} {a} (fst ({name} {b} true))))"
                )
            }
            _ => {
                let param = self.any_type();
                let mark = self.scope.len();
                let (x, k) = (self.bind(param.clone()), self.bind(Real));
                let body = self.expr(ty, depth);
                self.scope.truncate(mark);
                let f = function(&[param.clone(), Real], ty.clone());
                self.scope.push((name.clone(), f));
                let rest = self.expr(ty, depth);
                self.scope.truncate(mark);
                let used = format!("{name} {} {}", self.expr(&param, depth), self.expr(&Real, depth));
                let rest = if self.dice.bool() { rest } else { format!("if one == 1 then {used} else {rest}") };
                format!("(let {name} ({x} : {}) {k} = {body} in {rest})", show(&param))
            }
        }
    }

    fn match_data(&mut self, ty: &Ty, depth: u32) -> String {
        let which = self.dice.usize(..self.data.len());
        let value = self.expr(&Data(which), depth);
        let constructors = self.data[which].clone();
        let covered = if constructors.len() > 1 && self.dice.one_in(3) {
            self.dice.usize(1..constructors.len())
        } else {
            constructors.len()
        };
        let mut arms = String::new();
        for (n, fields) in constructors.iter().enumerate().take(covered) {
            let mark = self.scope.len();
            let names: Vec<String> = fields.iter().map(|field| self.bind(field.clone())).collect();
            let pattern = format!("C{which}{n} {}", names.join(" "));
            if self.dice.one_in(4) {
                let condition = self.expr(&Bool, depth.min(2));
                let _ = write!(arms, " | {pattern} if {condition} -> {}", self.expr(ty, depth));
            }
            let body = self.expr(ty, depth);
            self.scope.truncate(mark);
            let _ = write!(arms, " | {pattern} -> {body}");
        }
        if covered < constructors.len() {
            let body = self.expr(ty, depth);
            let _ = write!(arms, " | _ -> {body}");
        }
        format!("(match {value} with{arms})")
    }

    fn loop_of(&mut self, ty: &Ty, depth: u32) -> String {
        self.costly += 1;
        // The number first: a long loop has a small body.
        let long = self.long_loop;
        let count = self.count(depth);
        let inner = if long { 1 } else { depth };
        let init = self.expr(ty, inner);
        let annotation = format!(" : {}", show(ty));
        match self.dice.u8(..6) {
            5 => {
                let from = self.dice.i64(-1..2);
                let mark = self.scope.len();
                let (acc, i) = (self.bind(ty.clone()), self.bind(Int));
                let condition = self.of_first_round(&i, from);
                let (then, other) = (self.expr(ty, inner), self.expr(ty, inner));
                self.scope.truncate(mark);
                format!(
                    "(loop {acc}{annotation} = {init} for {i} in {from} .. {count} do \
                     if {condition} then {then} else {other})"
                )
            }
            0 => {
                let other = self.expr(&Real, inner);
                let mark = self.scope.len();
                let (a, b) = (self.bind(ty.clone()), self.bind(Real));
                let i = self.bind(Int);
                let (next, next_other) = (self.expr(ty, inner), self.expr(&Real, inner));
                self.scope.truncate(mark);
                format!(
                    "(let ({a}, {b}) = loop ({a}, {b}) = ({init}, {other}) for {i} < {count} do ({next}, {next_other}) \
                     in {a})"
                )
            }
            1 => {
                let source = self.expr(&array_of(Real), inner);
                let mark = self.scope.len();
                let (acc, x) = (self.bind(ty.clone()), self.bind(Real));
                let next = self.expr(ty, inner);
                self.scope.truncate(mark);
                format!("(loop {acc}{annotation} = {init} for {x} in {source} do {next})")
            }
            2 => {
                let mark = self.scope.len();
                let (k, acc) = (self.bind(Int), self.bind(ty.clone()));
                let (condition, next) = (self.expr(&Bool, inner), self.expr(ty, inner));
                self.scope.truncate(mark);
                format!(
                    "(let (_, {acc}) = loop ({k}, {acc}) = (0, {init}) while {k} < {count} && {condition} \
                     do ({k} + 1, {next}) in {acc})"
                )
            }
            form => {
                let mark = self.scope.len();
                let (acc, i) = (self.bind(ty.clone()), self.bind(Int));
                let next = self.expr(ty, inner);
                self.scope.truncate(mark);
                let rounds = if form == 3 { format!("{i} in 1 .. {count}") } else { format!("{i} < {count}") };
                format!("(loop {acc}{annotation} = {init} for {rounds} do {next})")
            }
        }
    }

    /// A local function that calls itself, or two that call each other.
    fn recursion(&mut self, ty: &Ty, depth: u32) -> String {
        self.costly += 1;
        let (go, other) = (self.fresh(), self.fresh());
        let (count, init) = (self.count(depth), self.expr(ty, depth));
        let mark = self.scope.len();
        let (k, acc) = (self.bind(Int), self.bind(ty.clone()));
        let next = self.expr(ty, depth);
        self.scope.truncate(mark);
        let (params, end) = (format!("({k} : Int) ({acc} : {})", show(ty)), format!("if {k} <= 0 then {acc} else"));
        match self.dice.u8(..3) {
            0 => format!("(let {go} {params} = {end} {go} ({k} - 1) {next} in {go} {count} {init})"),
            1 => format!(
                "(let {go} {params} = {end} (let {acc} = {go} ({k} - 1) {acc} in {next}) in {go} {count} {init})"
            ),
            _ => format!(
                "(let {go} {params} = {end} {other} ({k} - 1) {next} and {other} {params} = {end} {go} ({k} - 1) {acc} \
                 in {go} {count} {init})"
            ),
        }
    }

    /// Forms that give a value of this type only.
    fn special(&mut self, ty: &Ty, depth: u32) -> String {
        match ty {
            Real => self.real(depth),
            Int => self.int(depth),
            Bool => self.bool(depth),
            Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.expr(part, depth)).collect();
                match self.dice.u8(..3) {
                    0 if parts.len() == 2 => format!("({})", parts.join(" |*| ")),
                    1 => format!("(par ({}))", parts.join(", ")),
                    _ => format!("({})", parts.join(", ")),
                }
            }
            List(element) => self.list(element, depth),
            Array(element) => self.array(element, depth),
            Maybe(value) => match self.dice.u8(..3) {
                0 => {
                    let f = self.expr(&function(&[Real], (**value).clone()), depth);
                    format!("(map_maybe {f} {})", self.expr(&Maybe(Box::new(Real)), depth))
                }
                1 => {
                    let test = self.expr(&function(&[(**value).clone()], Bool), depth);
                    format!("(find {test} {})", self.expr(&List(value.clone()), depth))
                }
                _ => format!("(Just {})", self.expr(value, depth)),
            },
            Record => {
                if self.dice.one_in(3) {
                    return format!("{{ {} with x = {} }}", self.expr(&Record, depth), self.expr(&Real, depth));
                }
                format!("{{ n = {}, x = {} }}", self.expr(&Int, depth), self.expr(&Real, depth))
            }
            Data(which) => {
                let n = self.dice.usize(..self.data[*which].len());
                let fields = self.data[*which][n].clone();
                let fields: String = fields.iter().map(|field| format!(" {}", self.expr(field, depth))).collect();
                format!("(C{which}{n}{fields})")
            }
            Fun(params, result) => {
                let unary = *params == [Real] && **result == Real;
                match self.dice.u8(..6) {
                    0 if unary => {
                        let f = function(&[Real], Real);
                        let op = self.dice.pick(&[">>", "<<"]);
                        format!("({} {op} {})", self.expr(&f, depth), self.expr(&f, depth))
                    }
                    1 if unary => {
                        let op = self.dice.pick(&["+", "*", "-"]);
                        if op == "-" {
                            return format!("(subtract {})", self.expr(&Real, depth));
                        }
                        let operand = self.expr(&Real, depth);
                        if self.dice.bool() { format!("({operand} {op})") } else { format!("({op} {operand})") }
                    }
                    2 if unary => self.dice.pick(&["sin", "tanh", "cos", "atan", "square", "negate", "sigmoid"]).into(),
                    3 => {
                        // A partial application.
                        let all = self.definitions.iter().filter_map(|(name, of, to)| {
                            let rest = of.len().checked_sub(params.len())?;
                            (to == &**result && rest > 0 && of[rest..] == params[..])
                                .then(|| (name.clone(), of[..rest].to_vec()))
                        });
                        let all: Vec<_> = all.collect();
                        if all.is_empty() {
                            return self.lambda(ty, depth);
                        }
                        let (name, given) = self.dice.pick(&all);
                        let given: String = given.iter().map(|of| format!(" {}", self.expr(of, depth))).collect();
                        format!("({name} one{given})")
                    }
                    _ => self.lambda(ty, depth),
                }
            }
        }
    }

    fn real(&mut self, depth: u32) -> String {
        if self.takes_operator() {
            return self.operator(depth);
        }
        let e = |writer: &mut Self| writer.expr(&Real, depth);
        match self.dice.u8(..28) {
            0..5 => {
                let op = self.dice.pick(&["+", "-", "*", "*"]);
                format!("({} {op} {})", e(self), e(self))
            }
            5..8 => {
                let f = self.dice.pick(&["sin", "cos", "tanh", "atan", "negate", "abs", "sigmoid", "softplus"]);
                let f = if f == "abs" && self.has_operators() { "(subtract 0.0031 >> abs)" } else { f };
                format!("({f} {})", e(self))
            }
            8 => format!("(sqrt (1.5 + square {}))", e(self)),
            9 => format!("({} / (2.0 + cos {}))", e(self), e(self)),
            10 => format!("(log (1.25 + square (tanh {})))", e(self)),
            11 => {
                let f = self.dice.pick(&["min", "max", "hypot", "atan2"]);
                format!("({f} {} (0.5 + {}))", e(self), e(self))
            }
            12 => format!("(tanh {} ^ {})", e(self), self.dice.u8(0..5)),
            13 => format!("(to_real ({} % 9))", self.expr(&Int, depth)),
            14 => {
                let f = self.dice.pick(&["sum", "mean", "logsumexp", "variance", "length >> to_real"]);
                let list = self.expr(&list_of(Real), depth);
                // Of nothing some of them are infinite.
                format!("(({f}) ({} :: {list}))", e(self))
            }
            15 => {
                let f = self.dice.pick(&["sum", "norm2", "preduce (+) 0"]);
                let f = if f == "norm2" && self.has_operators() { "sum" } else { f };
                format!("(tanh ({f} {}))", self.expr(&array_of(Real), depth))
            }
            16 => {
                let collection = self.dice.pick(&[array_of(Real), array_of(Real), list_of(Real)]);
                let (array, index) = (self.expr(&collection, depth), self.expr(&Int, depth));
                let name = self.fresh();
                format!(
                    "(let {name} = {array} in if length {name} == 0 then 0.5 else {name}[abs ({index} % length {name})])"
                )
            }
            17 => {
                let value = self.expr(&Record, depth);
                let name = self.fresh();
                format!("(let {name} : {} = {value} in {name}.x)", show(&Record))
            }
            18 => format!("(exp (tanh {}))", e(self)),
            19 => {
                let (a, b) = (self.expr(&array_of(Real), depth), self.fresh());
                format!("(let {b} = {a} in tanh (dot {b} {b}))")
            }
            20 => {
                let f = self.expr(&function(&[Real], Real), depth);
                format!("(iterate {} {f} {} |> last)", self.dice.u8(1..4), e(self))
            }
            21..25 => self.taken_at_once(depth),
            _ => self.call(&Real, depth),
        }
    }

    fn int(&mut self, depth: u32) -> String {
        let e = |writer: &mut Self| writer.expr(&Int, depth);
        match self.dice.u8(..12) {
            0..3 => {
                let op = self.dice.pick(&["+", "-", "*"]);
                format!("({} {op} {})", e(self), e(self))
            }
            3 => {
                let op = self.dice.pick(&["/", "%"]);
                format!("({} {op} {})", e(self), self.dice.u8(2..7))
            }
            4 => format!("(length {})", self.expr(&list_of(Real), depth)),
            5 => format!("(length {})", self.expr(&array_of(Real), depth)),
            6 => format!("(to_int (5 * tanh {}))", self.expr(&Real, depth)),
            7 => {
                let f = self.dice.pick(&["min", "max"]);
                format!("({f} {} {})", e(self), e(self))
            }
            8 => {
                let test = self.expr(&function(&[Real], Bool), depth);
                format!("(count_if {test} {})", self.expr(&list_of(Real), depth))
            }
            9 => {
                let f = self.dice.pick(&["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"]);
                format!("({f} {} {})", e(self), e(self))
            }
            10 => {
                let f = self.dice.pick(&["bit_not", "bit_count", "leading_zeros", "trailing_zeros"]);
                format!("({f} {})", e(self))
            }
            _ => format!("(abs {})", e(self)),
        }
    }

    fn bool(&mut self, depth: u32) -> String {
        let order = |writer: &mut Self, ty: &Ty| {
            let op = writer.dice.pick(&["<", "<=", ">", ">="]);
            let offset = if *ty == Real && writer.has_operators() { format!(" + {OFFSET}") } else { String::new() };
            format!("({}{offset} {op} {})", writer.expr(ty, depth), writer.expr(ty, depth))
        };
        match self.dice.u8(..9) {
            0..3 => order(self, &Real),
            3 => order(self, &Int),
            4 => {
                let op = self.dice.pick(&["&&", "||"]);
                format!("({} {op} {})", self.expr(&Bool, depth), self.expr(&Bool, depth))
            }
            5 => format!("(not {})", self.expr(&Bool, depth)),
            6 => {
                let f = self.dice.pick(&["all", "any"]);
                let test = self.expr(&function(&[Real], Bool), depth);
                format!("({f} {test} {})", self.expr(&list_of(Real), depth))
            }
            _ => {
                // Equality by structure, of anything without functions.
                let types =
                    [Int, Bool, Tuple(vec![Int, Bool]), list_of(Int), array_of(Int), Maybe(Box::new(Int)), Record];
                let ty = self.dice.pick(if self.has_operators() { &types[..6] } else { &types });
                let op = self.dice.pick(&["==", "!="]);
                format!("(({} : {}) {op} {})", self.expr(&ty, depth), show(&ty), self.expr(&ty, depth))
            }
        }
    }
}
