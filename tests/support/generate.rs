//! Random programs that the verifier accepts and that end soon.
//!
//! Scalar instructions are drawn from the instruction table, so a new one is covered the day it is added. Registers are
//! few and are overwritten all the time: what the engine does with straight-line code depends on who writes which
//! register when. Every function takes a counter as its last integer; a call passes one less, and a function whose
//! counter is used up calls nobody.
//!
//! What a program is made of is noted with its place, so that tests can tell how often each construct was executed.

mod calls;
mod chains;
mod constants;
mod data;
mod forks;
mod in_place;
mod loops;
mod operators;
mod registers;
mod statements;
mod values;

use super::dice::Dice;
use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::{FuncId, HostType, Interface, ModuleDef, TypeDef, TypeId, ValueType, VariantDef};
use dualvm_vm::value::Value;
use registers::RegSet;

/// What programs are like.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Style {
    /// Values stay moderate and generic: what gradients and differences are compared on.
    Tame,
    /// Zeros, infinities and NaN are common, and so are traps: edges of the arithmetic, and places of traps.
    Wild,
    /// Tame, in long straight lines over many registers: where segments are cut.
    Long,
    /// Tame, with so much garbage that a heap of 400 kB is evacuated all the time.
    Wasteful,
    /// Loops of one block above all, as the frontend makes them, some over many slabs of tape and some that trap.
    Loops,
    /// Each function calls once, so that recursion and chains of tail calls are deep.
    Recursive,
    /// Structs, variants, lists, arrays and closures in each other.
    Data,
    /// Forks and parallel maps: values of one task in others, forks in forks, and one fork in another many times.
    Parallel,
}

impl Style {
    pub(crate) const ALL: [Style; 8] = [
        Style::Tame,
        Style::Wild,
        Style::Long,
        Style::Wasteful,
        Style::Loops,
        Style::Recursive,
        Style::Data,
        Style::Parallel,
    ];
}

/// Whether programs are of a few instructions. Under Miri, where an instruction takes some milliseconds until it has
/// been generated, verified and made a stream of, many small programs find more than a few large ones.
const SMALL: bool = cfg!(miri);

/// A generated module with arguments for its function `main`.
pub(crate) struct Program {
    pub(crate) module: ModuleDef,
    pub(crate) args: Vec<Value>,
    /// Whether values are generic, so that differences may be taken.
    pub(crate) tame: bool,
    /// The constructs that it has: name, function and instruction.
    pub(crate) notes: Vec<(&'static str, u32, u32)>,
    /// The source, if it was compiled.
    pub(crate) source: Option<String>,
}

impl Program {
    /// The program for people to read.
    pub(crate) fn shown(&self) -> String {
        let code = dualvm_vm::text::print(&self.module);
        self.source.as_ref().map(|source| format!("{source}\n\n{code}")).unwrap_or(code)
    }
}

/// The types that every generated module has.
struct Types {
    pair: TypeId,
    outer: TypeId,
    /// Reals with integers that belong to their shape.
    table: TypeId,
    variant: TypeId,
    reals: TypeId,
    ints: TypeId,
    pairs: TypeId,
    rows: TypeId,
    list: TypeId,
    /// Objects that are linked by their last fields, in three ways.
    links: TypeId,
    closures: [TypeId; 2],
    /// Types that hold closures: a struct, a variant and an array.
    closure_box: TypeId,
    holder: TypeId,
    handlers: TypeId,
    /// Builders by their elements.
    builders: Vec<(ValueType, TypeId)>,
    chains: [chains::Kind; 2],
}

struct Signature {
    params: Vec<ValueType>,
    results: Vec<ValueType>,
}

const CLOSURES: [(&[ValueType], &[ValueType]); 2] = [
    (&[ValueType::Real, ValueType::Int], &[ValueType::Real]),
    (&[ValueType::Real, ValueType::Real, ValueType::Int], &[ValueType::Real, ValueType::Int, ValueType::Real]),
];

/// The program of this seed.
pub(crate) fn program(seed: u64, style: Style) -> Program {
    program_from(&mut Dice::with_seed(seed), style)
}

/// A program of these choices.
pub(crate) fn program_from(dice: &mut Dice, style: Style) -> Program {
    program_up_to(usize::MAX, dice, style)
}

/// The program of this seed, whose functions apply derivative operators to others.
pub(crate) fn program_with_operators(seed: u64, style: Style) -> Program {
    program_of(usize::MAX, &mut Dice::with_seed(seed), style, true)
}

/// A program of these choices that stops to grow after so many statements. Those that make arguments and objects don't
/// count, so that it has a few dozen instructions in any case.
pub(crate) fn program_up_to(statements_max: usize, dice: &mut Dice, style: Style) -> Program {
    program_of(statements_max, dice, style, false)
}

fn program_of(statements_max: usize, dice: &mut Dice, style: Style, operators: bool) -> Program {
    let mut builder = ModuleBuilder::new();
    let types = declare_types(&mut builder);
    let signatures = signatures(&types, style, dice);
    let ranges = match style {
        Style::Parallel => forks::ranges(if statements_max > 50 { 3 } else { 1 }, &types, dice),
        _ => Vec::new(),
    };
    let constants = constants::signatures(&types, dice);
    let deep = style == Style::Recursive || style == Style::Parallel && dice.one_in(4);
    let name = |n: usize| if n == 0 { "main".to_owned() } else { format!("f{n}") };
    let functions: Vec<FuncId> = signatures
        .iter()
        .chain(&ranges)
        .chain(&constants)
        .enumerate()
        .map(|(n, signature)| builder.declare(&name(n), &signature.params, &signature.results))
        .collect();
    let message = builder.message("stopped on purpose");
    let located = dice.one_in(3);
    if located {
        builder.source("random.dual");
    }
    let traps = match style {
        Style::Wild => true,
        Style::Loops | Style::Recursive | Style::Data => dice.one_in(5),
        Style::Parallel => dice.one_in(4),
        Style::Tame | Style::Long | Style::Wasteful => false,
    };
    let mut notes = Vec::new();
    let mut statements_left = statements_max;
    let mut long_loops = match style {
        Style::Loops => u32::from(dice.one_in(3)),
        Style::Parallel => u32::from(dice.one_in(4)),
        _ => 0,
    };
    let first_constant = signatures.len() + ranges.len();
    for (n, signature) in signatures.iter().chain(&ranges).chain(&constants).enumerate() {
        let mut function = Writer {
            out: FunctionBuilder::new(&name(n), &signature.params, &signature.results),
            dice: &mut *dice,
            style,
            traps,
            deep,
            types: &types,
            signatures: &signatures,
            ranges: &ranges,
            constants: &constants,
            first_constant,
            message,
            regs: [Vec::new(), Vec::new(), Vec::new()],
            ref_types: Vec::new(),
            assigned: RegSet::default(),
            protected: RegSet::default(),
            counter: Reg::int(0),
            may_call: true,
            operators,
            results: signature.results.clone(),
            index: n as u32,
            line: located.then_some(1),
            long_loops: &mut long_loops,
            statements_left: &mut statements_left,
            notes: &mut notes,
        };
        if n == 0 {
            function.out.export(interface(signature, &types));
        }
        if n < signatures.len() {
            function.write(&signature.params);
        } else if n >= first_constant {
            function.write_constant();
        } else {
            function.write_range(&signature.params);
        }
        let body = function.out.finish().expect("the generator builds what the builder accepts");
        builder.set_function(functions[n], body);
    }
    let args = arguments(&signatures[0].params, &types, style, deep, dice);
    let tame = style != Style::Wild;
    Program { module: builder.finish(), args, tame, notes, source: None }
}

fn declare_types(builder: &mut ModuleBuilder) -> Types {
    use ValueType::{Int, Real, Ref};
    let variant_def = |cases: Vec<Vec<ValueType>>| {
        let cases = cases.into_iter().enumerate();
        TypeDef::Variant(cases.map(|(n, fields)| VariantDef { name: format!("V{n}"), fields }).collect())
    };
    let pair = builder.intern_type(TypeDef::Struct(vec![Real, Int, Real]));
    let outer = builder.intern_type(TypeDef::Struct(vec![Ref(pair), Real]));
    let reals = builder.intern_type(TypeDef::Array(Real));
    let ints = builder.intern_type(TypeDef::Array(Int));
    let pairs = builder.intern_type(TypeDef::Array(Ref(pair)));
    let table = builder.intern_type(TypeDef::Shaped(TABLE.map(|field| field.of(reals)).to_vec()));
    let rows = builder.intern_type(TypeDef::Array(Ref(reals)));
    let variant = builder.intern_type(variant_def(VARIANT.map(|case| case.fields(pair, reals)).to_vec()));
    let list = builder.declare_type(variant_def(vec![]));
    builder.set_type(list, variant_def(vec![vec![], vec![Real, Int, Ref(list)]]));
    let links = builder.declare_type(variant_def(vec![]));
    let linked = |mut fields: Vec<ValueType>| {
        fields.push(Ref(links));
        fields
    };
    let cells = chains::cells_of_links(pair, reals, links).map(linked);
    builder.set_type(links, variant_def([vec![]].into_iter().chain(cells).collect()));
    let chains = [list, links].map(|of| chains::Kind::new(builder.intern_type(TypeDef::Chain(of)), of));
    let closures = CLOSURES.map(|(params, results)| {
        builder.intern_type(TypeDef::Closure { params: params.to_vec(), results: results.to_vec() })
    });
    let closure_box = builder.intern_type(TypeDef::Struct(vec![Int, Ref(closures[0]), Real]));
    let holder = variant_def(vec![vec![], vec![Ref(closures[0]), Real], vec![Ref(closures[1]), Int, Ref(closures[0])]]);
    let holder = builder.intern_type(holder);
    let handlers = builder.intern_type(TypeDef::Array(Ref(closures[0])));
    let elements = [Real, Int, Ref(pair), Ref(reals), Ref(closures[0])];
    let builders = elements.map(|element| (element, builder.intern_type(TypeDef::Builder(element)))).to_vec();
    Types {
        pair,
        outer,
        table,
        variant,
        reals,
        ints,
        pairs,
        rows,
        list,
        links,
        closures,
        closure_box,
        holder,
        handlers,
        builders,
        chains,
    }
}

/// A field of the shaped type.
#[derive(Clone, Copy)]
enum TableField {
    Elements,
    Size,
    Scale,
}

const TABLE: [TableField; 4] = [TableField::Elements, TableField::Size, TableField::Scale, TableField::Size];

impl TableField {
    fn of(self, reals: TypeId) -> ValueType {
        match self {
            TableField::Elements => ValueType::Ref(reals),
            TableField::Size => ValueType::Int,
            TableField::Scale => ValueType::Real,
        }
    }
}

/// A case of the variant type.
#[derive(Clone, Copy)]
enum Case {
    Number,
    Mixed,
    Numbers,
    Nothing,
}

const VARIANT: [Case; 4] = [Case::Number, Case::Mixed, Case::Numbers, Case::Nothing];

impl Case {
    fn fields(self, pair: TypeId, reals: TypeId) -> Vec<ValueType> {
        use ValueType::{Int, Real, Ref};
        match self {
            Case::Number => vec![Real],
            Case::Mixed => vec![Real, Int, Ref(pair)],
            Case::Numbers => vec![Ref(reals), Real],
            Case::Nothing => vec![],
        }
    }
}

fn signatures(types: &Types, style: Style, dice: &mut Dice) -> Vec<Signature> {
    use ValueType::{Int, Real, Ref};
    let mut main = vec![Real; dice.usize(1..5)];
    if dice.bool() {
        main.push(Ref(types.reals));
    }
    if dice.one_in(4) {
        main.push(Ref(types.ints));
    }
    main.push(Int);
    let mut all = vec![Signature { params: main, results: vec![Real] }];
    let [first, _] = types.closures;
    let any = [
        Real,
        Real,
        Real,
        Real,
        Int,
        Int,
        Ref(types.pair),
        Ref(types.table),
        Ref(types.variant),
        Ref(types.reals),
        Ref(types.ints),
        Ref(types.list),
        // From here on what a closure of the first type can't capture, so that each can be made.
        Ref(first),
        // And what no closure can.
        Ref(types.closure_box),
        Ref(types.holder),
    ];
    for (which, (params, results)) in CLOSURES.into_iter().enumerate() {
        let kinds = any.len() - 3 + which;
        let captures: Vec<_> = (0..dice.usize(0..5)).map(|_| any[dice.usize(..kinds)]).collect();
        all.push(Signature {
            params: captures.into_iter().chain(params.iter().copied()).collect(),
            results: results.to_vec(),
        });
    }
    let more = match (style == Style::Parallel, SMALL) {
        (true, false) => 2..5,
        (false, false) => 0..4,
        (true, true) => 2..3,
        (false, true) => 0..2,
    };
    for _ in 0..dice.usize(more) {
        let count = if dice.one_in(10) { dice.usize(50..90) } else { dice.usize(0..6) };
        // Closures don't hold chains, and tasks don't take them.
        let chain = types.chains[dice.usize(..2)].ty();
        let mut any = any.to_vec();
        any.extend(dice.one_in(3).then_some([chain; 4]).into_iter().flatten());
        let mut params: Vec<ValueType> = (0..count).map(|_| dice.pick(&any)).collect();
        params.push(Int);
        let count = if dice.one_in(10) { dice.usize(8..20) } else { dice.usize(0..4) };
        let results = (0..count).map(|_| dice.pick(&any)).collect();
        // Functions that can stand for `main` are tail-called by it.
        let results = if style == Style::Recursive && dice.bool() { vec![Real] } else { results };
        all.push(Signature { params, results });
    }
    all
}

fn interface(signature: &Signature, types: &Types) -> Interface {
    let array = |element, array| HostType::Array { element: Box::new(element), array };
    let params = signature.params.iter().enumerate().map(|(n, ty)| {
        let host = match ty {
            ValueType::Real => HostType::Real,
            ValueType::Int => HostType::Int,
            ValueType::Ref(id) if *id == types.ints => array(HostType::Int, *id),
            ValueType::Ref(id) => array(HostType::Real, *id),
        };
        (format!("x{n}"), host)
    });
    Interface { params: params.collect(), result: HostType::Real }
}

fn arguments(params: &[ValueType], types: &Types, style: Style, deep: bool, dice: &mut Dice) -> Vec<Value> {
    let loops = matches!(style, Style::Loops | Style::Parallel);
    let len = |dice: &mut Dice| if loops { dice.usize(0..20) } else { dice.usize(0..5) };
    let mut args = Vec::new();
    for &ty in params {
        args.push(match ty {
            ValueType::Real => Value::Real(number(style, dice)),
            ValueType::Int => Value::Int(match style {
                Style::Recursive if dice.one_in(8) => dice.i64(8_000..15_000),
                Style::Parallel if deep && dice.one_in(8) => dice.i64(300..1_500),
                Style::Recursive | Style::Parallel if deep => dice.i64(0..60),
                _ if dice.one_in(8) => 0,
                _ => dice.i64(1..4),
            }),
            ValueType::Ref(id) if id == types.ints => {
                Value::Array((0..len(dice)).map(|_| Value::Int(dice.i64(-3..10))).collect())
            }
            ValueType::Ref(_) => Value::Reals((0..len(dice)).map(|_| number(style, dice)).collect()),
        });
    }
    args
}

fn number(style: Style, dice: &mut Dice) -> f64 {
    const SPECIAL: [f64; 12] =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e-300];
    if style == Style::Wild && dice.one_in(3) { dice.pick(&SPECIAL) } else { 4.0 * dice.f64() - 2.0 }
}

/// Writes one function.
struct Writer<'a> {
    out: FunctionBuilder,
    dice: &'a mut Dice,
    style: Style,
    /// Whether instructions may trap.
    traps: bool,
    /// Whether each function calls once, or forks with one task that isn't over soon.
    deep: bool,
    types: &'a Types,
    signatures: &'a [Signature],
    /// Those of the functions of parallel maps, which come after these.
    ranges: &'a [Signature],
    /// Those of constants, which come after all others, and the first one's number.
    constants: &'a [Signature],
    first_constant: usize,
    message: u32,
    /// Registers by bank.
    regs: [Vec<Reg>; 3],
    /// Reference registers with their types.
    ref_types: Vec<(TypeId, Reg)>,
    /// Registers that are assigned on every path to here.
    assigned: RegSet,
    /// Registers that must not be written now: counters, and what a loop was promised.
    protected: RegSet,
    counter: Reg,
    may_call: bool,
    /// Whether calls may be operators' as well.
    operators: bool,
    results: Vec<ValueType>,
    index: u32,
    /// The source line of the next statement, if there are locations.
    line: Option<u32>,
    /// How many loops may still run for thousands of rounds.
    long_loops: &'a mut u32,
    /// How many statements the program may still have.
    statements_left: &'a mut usize,
    notes: &'a mut Vec<(&'static str, u32, u32)>,
}

impl Writer<'_> {
    fn write(&mut self, params: &[ValueType]) {
        if params.len() > 50 {
            self.note("many parameters");
        }
        if self.results.len() >= 8 {
            self.note("many results");
        }
        self.parameters(params);
        self.registers();
        let zero = self.out.int_const(0);
        let cond = self.out.new_int();
        self.out.emit_regs(Op::ILt, &[cond.into(), zero.into(), self.counter]);
        let (more, leaf) = (self.out.new_label(), self.out.new_label());
        self.out.branch(cond, more, leaf);

        self.out.bind(more);
        let before = self.assigned.clone();
        if self.deep {
            self.recursion();
        } else {
            let size = self.dice.usize(1..if SMALL { 5 } else { 16 });
            if self.style == Style::Long {
                let count = self.dice.usize(0..500);
                for _ in 0..self.granted(count) {
                    self.straight();
                }
            }
            if self.statements(size, 0) {
                self.leave();
            }
        }
        self.out.bind(leaf);
        self.assigned = before;
        self.may_call = false;
        let size = if self.deep || SMALL { 3 } else { 10 };
        let size = self.dice.usize(0..size);
        if self.statements(size, 0) {
            self.leave();
        }
    }

    /// The registers of parameters. The last integer is the counter.
    fn parameters(&mut self, params: &[ValueType]) {
        for (n, &ty) in params.iter().enumerate() {
            let reg = self.out.param(n);
            self.adopt(ty, reg);
            self.assigned.insert(reg);
            if ty == ValueType::Int {
                self.counter = reg;
            }
        }
        self.protected.insert(self.counter);
    }

    /// The registers that the function begins with: few, or so many that they don't fit a machine's.
    fn registers(&mut self) {
        let pressed = !SMALL && self.dice.one_in(12) && *self.statements_left > 20;
        let reals = if self.style == Style::Long && *self.statements_left > 100 || pressed {
            self.dice.usize(20..160)
        } else {
            self.dice.usize(2..6)
        };
        let ints = if pressed { self.dice.usize(10..60) } else { self.dice.usize(2..4) };
        if reals > 100 {
            self.note("more than 100 real registers");
        }
        for (ty, count) in [(ValueType::Real, reals), (ValueType::Int, ints)] {
            for _ in 0..count {
                let reg = self.out.new_reg(ty);
                self.adopt(ty, reg);
                // Else most of them would never be read.
                if pressed && self.one_in(2) {
                    let value = number(self.style, self.dice);
                    match ty {
                        ValueType::Int => {
                            self.out.emit(Op::IConst, &[Operand::Def(reg), Operand::Int((value * 4.0) as i64)]);
                        }
                        _ => self.out.emit(Op::Const, &[Operand::Def(reg), Operand::Real(value)]),
                    }
                    self.assigned.insert(reg);
                }
            }
        }
        // Literals, from which the engine knows partial derivatives before it runs anything.
        for value in [0.0, 1.0, -1.0, 0.5] {
            if self.one_in(6) {
                let reg = self.out.real_const(value).into();
                self.adopt(ValueType::Real, reg);
                self.protected.insert(reg);
                self.assigned.insert(reg);
            }
        }
    }

    fn adopt(&mut self, ty: ValueType, reg: Reg) {
        self.regs[reg.bank as usize].push(reg);
        if let ValueType::Ref(id) = ty {
            self.ref_types.push((id, reg));
        }
    }

    /// How many of so many statements the program may still have.
    fn granted(&mut self, count: usize) -> usize {
        let count = count.min(*self.statements_left);
        *self.statements_left -= count;
        count
    }

    /// One chance in `n`.
    fn one_in(&mut self, n: u32) -> bool {
        self.dice.one_in(n)
    }

    /// Says that the construct which the next instruction begins is one of these.
    fn note(&mut self, what: &'static str) {
        self.notes.push((what, self.index, self.out.position()));
    }

    /// The type of builders of such elements.
    fn builder_of(&self, element: ValueType) -> TypeId {
        let found = self.types.builders.iter().find(|(of, _)| *of == element);
        found.expect("builders of all elements are declared").1
    }
}
