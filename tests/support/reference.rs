//! A second implementation of the bytecode, as plain as can be, to compare the engine with.
//!
//! It is written from the documentation of the instructions and shares no code with the engine but the elementary
//! functions on `f64`, so that primal values must agree bit for bit. Values are Rust enums, objects are
//! reference-counted trees, and what a real is, is a parameter: see [`Number`] and its instances in
//! [`super::numbers`]. Partial derivatives
//! are formulas of this file's own.

mod builders;
mod operators;
mod texts;

use builders::Builder;
use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role};
use dualvm_vm::math;
use dualvm_vm::module::{ModuleDef, TypeDef};
use dualvm_vm::trap::{OtherShape, TrapKind};
use operators::Rule;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E, LOG10_E};
use std::ops::Range;
use std::rc::Rc;

/// What stands for a real.
pub(crate) trait Number: Clone {
    /// Whether partial derivatives are asked for.
    const DIFFERENTIATES: bool;
    /// A number that depends on nothing.
    fn constant(primal: f64) -> Self;
    /// Its value.
    fn primal(&self) -> f64;
    /// The result of an operation with this value, and with these partial derivatives with respect to these arguments.
    fn combine(primal: f64, terms: &[(f64, &Self)]) -> Self;
    /// The result of a scalar instruction.
    fn operation(op: Op, args: &[&Self], ints: &[i64]) -> Self {
        let reals: Vec<f64> = args.iter().map(|x| x.primal()).collect();
        let value = real_value(op, &reals, ints);
        if !Self::DIFFERENTIATES || !op.info().differentiable {
            return Self::combine(value, &[]);
        }
        let partials = partials(op, &reals, ints, &value);
        assert_eq!(partials.len(), args.len(), "{op:?} needs a partial per real argument");
        let terms: Vec<(f64, &Self)> = partials.into_iter().zip(args.iter().copied()).collect();
        Self::combine(value, &terms)
    }
    /// The number whose derivative with respect to a variable with this tag is `tangent`.
    fn tagged(self, _tag: u32, _tangent: Self) -> Self {
        panic!("derivative operators need trees of dual numbers")
    }
    /// The number without a tag, and its derivative with respect to the variable that has it.
    fn split(&self, _tag: u32) -> (Self, Self) {
        panic!("derivative operators need trees of dual numbers")
    }
    /// The greatest tag; 0 if there is none.
    fn tag(&self) -> u32 {
        panic!("derivative operators need trees of dual numbers")
    }
}

/// What formulas for partial derivatives are evaluated in.
pub(crate) trait Arithmetic: Clone {
    fn real(value: f64) -> Self;
    fn value(&self) -> f64;
    fn apply(op: Op, args: &[&Self], ints: &[i64]) -> Self;
    /// A power whose exponent may be beyond 64 bits.
    fn power(&self, exponent: i128) -> Self;

    /// An instruction with this number as its first argument.
    fn op(&self, op: Op, more: &[&Self]) -> Self {
        let args: Vec<&Self> = std::iter::once(self).chain(more.iter().copied()).collect();
        Self::apply(op, &args, &[])
    }
}

impl Arithmetic for f64 {
    fn real(value: f64) -> Self {
        value
    }
    fn value(&self) -> f64 {
        *self
    }
    fn apply(op: Op, args: &[&Self], ints: &[i64]) -> Self {
        real_value(op, &args.iter().map(|&&arg| arg).collect::<Vec<_>>(), ints)
    }
    fn power(&self, exponent: i128) -> Self {
        wide_power(*self, exponent)
    }
}

/// A register's content.
#[derive(Clone)]
pub(crate) enum Val<N> {
    Real(N),
    Int(i64),
    Ref(Rc<Object<N>>),
}

/// A heap object.
pub(crate) enum Object<N> {
    /// A struct (tag 0) or a variant.
    Fields(u16, Vec<Val<N>>),
    /// A struct whose integers belong to its shape.
    Shaped(Vec<Val<N>>),
    Closure(u32, Vec<Val<N>>),
    Array(Vec<Val<N>>),
    Builder(RefCell<Builder<N>>),
    Chain(RefCell<Chain<N>>),
}

/// Objects that will be each other's last fields: tags and other fields, the first object first. `None` when finished.
pub(crate) type Chain<N> = Option<Vec<(u16, Vec<Val<N>>)>>;

impl<N> Object<N> {
    /// Fields, captures or elements of a complete object.
    fn parts(&self) -> &[Val<N>] {
        match self {
            Object::Fields(_, parts) | Object::Shaped(parts) | Object::Closure(_, parts) | Object::Array(parts) => {
                parts
            }
            Object::Builder(_) | Object::Chain(_) => panic!("a complete object was expected"),
        }
    }
    /// The same object with other parts.
    fn with_parts(&self, parts: Vec<Val<N>>) -> Self {
        match self {
            Object::Fields(tag, _) => Object::Fields(*tag, parts),
            Object::Shaped(_) => Object::Shaped(parts),
            Object::Closure(func, _) => Object::Closure(*func, parts),
            Object::Array(_) => Object::Array(parts),
            Object::Builder(_) | Object::Chain(_) => panic!("a complete object was expected"),
        }
    }
}

impl<N: Number> Val<N> {
    pub(crate) fn real(&self) -> &N {
        match self {
            Val::Real(x) => x,
            _ => panic!("a real was expected"),
        }
    }
    fn int(&self) -> i64 {
        match self {
            Val::Int(n) => *n,
            _ => panic!("an integer was expected"),
        }
    }
    fn object(&self) -> &Rc<Object<N>> {
        match self {
            Val::Ref(object) => object,
            _ => panic!("a reference was expected"),
        }
    }
    fn builder(&self) -> &RefCell<Builder<N>> {
        match &**self.object() {
            Object::Builder(builder) => builder,
            _ => panic!("a builder was expected"),
        }
    }
    fn chain(&self) -> &RefCell<Chain<N>> {
        match &**self.object() {
            Object::Chain(chain) => chain,
            _ => panic!("a chain was expected"),
        }
    }
    fn array(&self) -> &[Val<N>] {
        match &**self.object() {
            Object::Array(elements) => elements,
            _ => panic!("an array was expected"),
        }
    }
    /// Tag and fields of a struct or a variant.
    fn fields(&self) -> (u16, &[Val<N>]) {
        match &**self.object() {
            Object::Fields(tag, fields) => (*tag, fields),
            Object::Shaped(fields) => (0, fields),
            _ => panic!("a struct or a variant was expected"),
        }
    }
    /// The same value with constants for reals; what is shared stays so, by what is known of objects.
    fn detached(&self, known: &mut HashMap<*const Object<N>, Self>) -> Self {
        let object = match self {
            Val::Real(x) => return Val::Real(N::constant(x.primal())),
            Val::Int(n) => return Val::Int(*n),
            Val::Ref(object) => object,
        };
        if let Some(known) = known.get(&Rc::as_ptr(object)) {
            return known.clone();
        }
        let parts = object.parts().iter().map(|part| part.detached(known)).collect();
        let detached = Val::Ref(Rc::new(object.with_parts(parts)));
        known.insert(Rc::as_ptr(object), detached.clone());
        detached
    }
    /// The values of all reals in a structure, read as a tree.
    pub(crate) fn all_reals(&self, into: &mut Vec<f64>) {
        self.map(false, &mut |x| {
            into.push(x.primal());
            x.clone()
        });
    }
    /// The same structure, read as a tree, with other reals; and with 0 for integers if it is a derivative, but for
    /// those of a shape.
    fn map(&self, is_derivative: bool, real: &mut dyn FnMut(&N) -> N) -> Self {
        match self {
            Val::Real(x) => Val::Real(real(x)),
            Val::Int(n) => Val::Int(if is_derivative { 0 } else { *n }),
            Val::Ref(object) => {
                let is_shaped = matches!(&**object, Object::Shaped(_));
                let part = |part: &Self| match part {
                    Val::Int(n) if is_shaped => Val::Int(*n),
                    part => part.map(is_derivative, real),
                };
                Val::Ref(Rc::new(object.with_parts(object.parts().iter().map(part).collect())))
            }
        }
    }
    /// Whether another structure has the shape of this one: the trap if it hasn't. Not part of the frames of functions
    /// that recurse as deep as programs.
    #[inline(never)]
    pub(super) fn check_shape(&self, other: &Self) -> Result<(), TrapKind> {
        let mut waiting = vec![(self, other)];
        while let Some((this, other)) = waiting.pop() {
            let (parts, others) = this.parts_alike(other)?;
            waiting.extend(parts.iter().zip(others).rev());
        }
        Ok(())
    }
    /// The parts of two values of one type, if these are as many and alike.
    fn parts_alike<'v>(&'v self, other: &'v Self) -> Result<(&'v [Self], &'v [Self]), TrapKind> {
        let (Val::Ref(object), Val::Ref(found)) = (self, other) else { return Ok((&[], &[])) };
        let (parts, others) = (object.parts(), found.parts());
        let sizes = |parts: &[Self]| -> Vec<i64> {
            parts.iter().filter(|part| matches!(part, Val::Int(_))).map(Self::int).collect()
        };
        let shown =
            |sizes: Vec<i64>| format!("of shape {}", sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(" × "));
        let shapes = match (&**object, &**found) {
            (Object::Fields(tag, _), Object::Fields(other, _)) => [tag, other].map(|tag| format!("of variant {tag}")),
            (Object::Array(_), Object::Array(_)) => {
                [parts, others].map(|parts| format!("an array of length {}", parts.len()))
            }
            (Object::Shaped(_), Object::Shaped(_)) => [parts, others].map(|parts| shown(sizes(parts))),
            // Functions are captured, and stand for themselves there.
            (Object::Closure(..), Object::Closure(..)) => return Ok((&[], &[])),
            _ => panic!("data of one type was expected"),
        };
        let [expected, found] = shapes;
        if expected == found {
            Ok((parts, others))
        } else {
            Err(TrapKind::OtherShape(OtherShape { expected, found }.into()))
        }
    }
    /// Two structures of one shape as one, read as trees.
    fn zip(&self, other: &Self, real: &mut dyn FnMut(&N, &N) -> N) -> Self {
        match (self, other) {
            (Val::Real(x), Val::Real(y)) => Val::Real(real(x, y)),
            (Val::Int(n), _) => Val::Int(*n),
            (Val::Ref(object), Val::Ref(other)) => {
                let (parts, others) = (object.parts(), other.parts());
                assert_eq!(parts.len(), others.len(), "they are of one shape");
                let parts = parts.iter().zip(others).map(|(part, other)| part.zip(other, real)).collect();
                Val::Ref(Rc::new(object.with_parts(parts)))
            }
            _ => panic!("they are of one shape"),
        }
    }
    /// An array of anything.
    pub(crate) fn array_of(elements: impl IntoIterator<Item = Self>) -> Self {
        Val::Ref(Rc::new(Object::Array(elements.into_iter().collect())))
    }
    /// What a host's element is in an array, from its registers: these, if there is one or if they are numbers of one
    /// bank, or else a struct.
    pub(crate) fn element(registers: Vec<Self>) -> Vec<Self> {
        let all = |is: fn(&Self) -> bool| !registers.is_empty() && registers.iter().all(is);
        if registers.len() == 1 || all(|val| matches!(val, Val::Real(_))) || all(|val| matches!(val, Val::Int(_))) {
            return registers;
        }
        vec![Val::Ref(Rc::new(Object::Fields(0, registers)))]
    }
    /// An array of reals.
    pub(crate) fn reals(elements: impl IntoIterator<Item = N>) -> Self {
        Val::Ref(Rc::new(Object::Array(elements.into_iter().map(Val::Real).collect())))
    }
}

/// Why a run gave no result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Stop {
    /// The program trapped.
    Trap(TrapKind),
    /// It was longer than was asked for.
    TooLong,
}

impl From<TrapKind> for Stop {
    fn from(kind: TrapKind) -> Self {
        Stop::Trap(kind)
    }
}

/// Runs function number `func`. Returns its results and how many instructions were executed.
pub(crate) fn run<N: Number>(
    module: &ModuleDef,
    func: usize,
    args: Vec<Val<N>>,
    steps_max: u64,
) -> Result<(Vec<Val<N>>, u64), Stop> {
    let executed = Vec::new();
    let mut machine = Machine { module, steps: 0, steps_max, executed, tags: 0, lines: None, known: HashSet::new() };
    let results = machine.function(func, args)?;
    Ok((results, machine.steps))
}

/// Which instructions of a program were executed, by function.
pub(crate) type Executed = Vec<Vec<bool>>;

/// What a run did, whether it came to its end or not.
pub(crate) struct Covered<N> {
    pub(crate) results: Result<Vec<Val<N>>, Stop>,
    pub(crate) steps: u64,
    pub(crate) executed: Executed,
    /// What was traced.
    pub(crate) lines: Vec<String>,
}

/// [`run`], which also says how far the run came if it stopped, which instructions it executed, and what was traced if
/// `listens`.
pub(crate) fn run_and_cover<N: Number>(
    module: &ModuleDef,
    func: usize,
    args: Vec<Val<N>>,
    steps_max: u64,
    listens: bool,
) -> Covered<N> {
    let executed = module.functions.iter().map(|function| vec![false; function.body.code.len()]).collect();
    let lines = listens.then(Vec::new);
    let mut machine = Machine { module, steps: 0, steps_max, executed, tags: 0, lines, known: HashSet::new() };
    let results = machine.function(func, args);
    let Machine { steps, executed, lines, .. } = machine;
    Covered { results, steps, executed, lines: lines.unwrap_or_default() }
}

struct Machine<'m> {
    module: &'m ModuleDef,
    steps: u64,
    steps_max: u64,
    /// Empty if nobody asks.
    executed: Executed,
    /// Tags that were given out.
    tags: u32,
    /// What was traced, if somebody listens.
    lines: Option<Vec<String>>,
    /// Constants that were computed.
    known: HashSet<usize>,
}

/// Registers by bank; `None` before the first assignment, which the verifier says that nobody reads.
struct Frame<N> {
    banks: [Vec<Option<Val<N>>>; 3],
}

impl<N: Number> Frame<N> {
    fn get(&self, reg: Reg) -> Val<N> {
        let value = &self.banks[reg.bank as usize][usize::from(reg.index)];
        value.clone().unwrap_or_else(|| panic!("{reg} is read before it is assigned"))
    }
    fn set(&mut self, reg: Reg, value: Val<N>) {
        self.banks[reg.bank as usize][usize::from(reg.index)] = Some(value);
    }
    fn list(&self, regs: &[Reg]) -> Vec<Val<N>> {
        regs.iter().map(|&reg| self.get(reg)).collect()
    }
}

/// Where control goes after an instruction.
enum Next<N> {
    Inst,
    Target(u32),
    /// The tasks of the fork that was executed, so many.
    Tasks(u32),
    Tail(usize, Vec<Val<N>>),
    Return(Vec<Val<N>>),
}

impl Machine<'_> {
    fn function<N: Number>(&mut self, mut func: usize, mut args: Vec<Val<N>>) -> Result<Vec<Val<N>>, Stop> {
        let module = self.module;
        loop {
            let function = &module.functions[func];
            let body = &function.body;
            let mut frame = Frame {
                banks: [body.reals as usize, body.ints as usize, body.refs.len()]
                    .map(|count| (0..count).map(|_| None).collect::<Vec<Option<Val<N>>>>()),
            };
            assert_eq!(args.len(), function.params.len());
            for (reg, arg) in function.param_regs().into_iter().zip(args) {
                frame.set(reg, arg);
            }
            let mut at = 0u32;
            loop {
                self.count(func, at)?;
                let inst = &body.code[at as usize];
                let operands = body.operands(inst).expect("lists of verified code are inside the pools");
                let types = |reg: Reg| &module.types[body.refs[usize::from(reg.index)].index()];
                match self.step(&mut frame, inst.op, &operands, types)? {
                    Next::Inst => at += 1,
                    Next::Tasks(count) => {
                        self.tasks(&mut frame, func, at + 1..at + 1 + count)?;
                        at += 1 + count;
                    }
                    Next::Target(target) => at = target,
                    Next::Return(results) => return Ok(results),
                    Next::Tail(next, next_args) => {
                        (func, args) = (next, next_args);
                        break;
                    }
                }
            }
        }
    }

    /// Counts an instruction that is about to be executed.
    fn count(&mut self, func: usize, at: u32) -> Result<(), Stop> {
        // A trace takes none.
        self.steps += u64::from(self.module.functions[func].body.code[at as usize].op != Op::Trace);
        if self.steps > self.steps_max {
            return Err(Stop::TooLong);
        }
        if let Some(executed) = self.executed.get_mut(func) {
            executed[at as usize] = true;
        }
        Ok(())
    }

    /// The results of a constant's function. Numbers may be of another kind when it is asked for again, so it is
    /// computed each time; but it takes its steps, and traces, once only.
    fn constant<N: Number>(&mut self, func: usize) -> Result<Vec<Val<N>>, Stop> {
        if self.known.contains(&func) {
            let (steps, lines) = (self.steps, self.lines.take());
            let values = self.function(func, Vec::new())?;
            (self.steps, self.lines) = (steps, lines);
            return Ok(values);
        }
        let values = self.function(func, Vec::new())?;
        self.known.insert(func);
        Ok(values)
    }

    /// Calls the functions of tasks from left to right. No argument is a result of one of them.
    fn tasks<N: Number>(&mut self, frame: &mut Frame<N>, func: usize, tasks: Range<u32>) -> Result<(), Stop> {
        let body = &self.module.functions[func].body;
        let mut calls = Vec::new();
        for at in tasks {
            let inst = &body.code[at as usize];
            match (inst.op, body.operands(inst).as_deref()) {
                (Op::Task, Some([Operand::Func(callee), Operand::Uses(args), Operand::Defs(results)])) => {
                    calls.push((at, *callee as usize, frame.list(args), results.clone()));
                }
                (op, operands) => panic!("a task was expected, found {op:?} {operands:?}"),
            }
        }
        let mut done = Vec::new();
        for (at, callee, args, results) in calls {
            self.count(func, at)?;
            done.push((results, self.function(callee, args)?));
        }
        for (results, values) in done {
            results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
        }
        Ok(())
    }

    /// The arrays that a function returns for the ranges of the numbers below `count`, as one.
    fn parallel_map<N: Number>(&mut self, func: usize, count: i64, args: &[Val<N>]) -> Result<Val<N>, Stop> {
        if count < 0 {
            return Err(TrapKind::BadCapacity(count).into());
        }
        let tasks = count.min(256);
        let bound = |task: i64| Val::Int((i128::from(task) * i128::from(count) / i128::from(tasks)) as i64);
        let mut elements = Vec::new();
        for task in 0..tasks {
            let args = [bound(task), bound(task + 1)].into_iter().chain(args.iter().cloned()).collect();
            let results = self.function(func, args)?;
            elements.extend_from_slice(results[0].array());
        }
        Ok(Val::array_of(elements))
    }

    fn step<'t, N: Number>(
        &mut self,
        frame: &mut Frame<N>,
        op: Op,
        operands: &[Operand],
        type_of: impl Fn(Reg) -> &'t TypeDef,
    ) -> Result<Next<N>, Stop> {
        if op.is_scalar() {
            let (Operand::Def(dst), args) = (&operands[0], &operands[1..]) else { panic!("{op:?} has no result") };
            let args = args.iter().map(|arg| match arg {
                Operand::Use(reg) => frame.get(*reg),
                other => panic!("{op:?} has an argument {other:?}"),
            });
            let result = scalar(op, &args.collect::<Vec<_>>())?;
            frame.set(*dst, result);
            return Ok(Next::Inst);
        }
        use Operand::{Count, Def, Defs, Field, Func, Int, Message, Real, Tag, Target, Targets, Use, Uses};
        let object = |object| Val::Ref(Rc::new(object));
        match (op, operands) {
            (Op::Mov | Op::IMov | Op::PMov, [Def(dst), Use(src)]) => frame.set(*dst, frame.get(*src)),
            (Op::PDetach, [Def(dst), Use(src)]) => frame.set(*dst, frame.get(*src).detached(&mut HashMap::new())),
            (Op::Const, [Def(dst), Real(x)]) => frame.set(*dst, Val::Real(N::constant(*x))),
            (Op::IConst, [Def(dst), Int(n)]) => frame.set(*dst, Val::Int(*n)),
            (Op::PSelect, [Def(dst), Use(c), Use(a), Use(b)]) => {
                let chosen = if frame.get(*c).int() != 0 { a } else { b };
                frame.set(*dst, frame.get(*chosen));
            }

            (Op::Jump, [Target(target)]) => return Ok(Next::Target(*target)),
            (Op::Branch, [Use(cond), Target(then), Target(other)]) => {
                return Ok(Next::Target(if frame.get(*cond).int() != 0 { *then } else { *other }));
            }
            (Op::Switch, [Use(index), Targets(targets), Target(default)]) => {
                let index = usize::try_from(frame.get(*index).int()).unwrap_or(usize::MAX);
                return Ok(Next::Target(*targets.get(index).unwrap_or(default)));
            }
            (Op::Call, [Func(func), Uses(args), Defs(results)]) => {
                let values = self.function(*func as usize, frame.list(args))?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
            }
            (Op::TailCall, [Func(func), Uses(args)]) => return Ok(Next::Tail(*func as usize, frame.list(args))),
            (Op::CallClosure, [Use(callee), Uses(args), Defs(results)]) => {
                let (func, args) = closure_call(&frame.get(*callee), frame.list(args));
                let values = self.function(func, args)?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
            }
            (Op::TailCallClosure, [Use(callee), Uses(args)]) => {
                let (func, args) = closure_call(&frame.get(*callee), frame.list(args));
                return Ok(Next::Tail(func, args));
            }
            (Op::Jvp, [Func(func), Count(captures), Uses(args), Defs(results)]) => {
                let values = self.jvp(*func as usize, usize::from(*captures), &frame.list(args))?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
            }
            (Op::Vjp, [Func(func), Count(captures), Uses(args), Defs(results)]) => {
                let values = self.vjp(*func as usize, usize::from(*captures), &frame.list(args))?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
            }
            (Op::Primal, [Func(func), Count(_), Uses(args), Defs(results)]) => {
                let mut known = HashMap::new();
                let args = frame.list(args);
                let values = self.function(*func as usize, args)?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value.detached(&mut known)));
            }
            (Op::Once, [Func(func), Defs(results)]) => {
                let values = self.constant(*func as usize)?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
            }
            (Op::CustomVjp | Op::CustomJvp, [Func(func), Count(captures), Uses(args), Defs(results)]) => {
                let args = frame.list(args);
                let (captures, args) = args.split_at(usize::from(*captures));
                let (args, value) = args.split_at(args.len() - results.len());
                let rule = Rule { op, func: *func as usize, captures };
                let values = self.custom(&rule, args, value)?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
            }
            (Op::Checkpoint, [Func(func), Uses(args), Defs(results)]) => {
                let values = self.function(*func as usize, frame.list(args))?;
                results.iter().zip(values).for_each(|(reg, value)| frame.set(*reg, value));
            }
            (Op::Fork, [Int(count)]) => return Ok(Next::Tasks(*count as u32)),
            (Op::ParallelMap, [Def(dst), Func(func), Use(count), Uses(args)]) => {
                let array = self.parallel_map(*func as usize, frame.get(*count).int(), &frame.list(args))?;
                frame.set(*dst, array);
            }
            (Op::Ret, [Uses(results)]) => return Ok(Next::Return(frame.list(results))),
            (Op::Trap, [Message(message)]) => {
                return Err(TrapKind::Message(self.module.messages[*message as usize].clone()).into());
            }
            (Op::TrapWith, [Operand::Template(template), Uses(values)]) => {
                return Err(TrapKind::Message(self.text(*template, frame.list(values))?).into());
            }
            (Op::Trace, [Operand::Template(template), Uses(values)]) => self.trace(*template, frame.list(values))?,

            (Op::StructNew, [Def(dst), Uses(fields)]) => {
                let fields = frame.list(fields);
                frame.set(
                    *dst,
                    object(match type_of(*dst) {
                        TypeDef::Shaped(_) => Object::Shaped(fields),
                        _ => Object::Fields(0, fields),
                    }),
                );
            }
            (Op::VariantNew, [Def(dst), Tag(tag), Uses(fields)]) => {
                frame.set(*dst, object(Object::Fields(*tag, frame.list(fields))));
            }
            (Op::ClosureNew, [Def(dst), Func(func), Uses(captures)]) => {
                frame.set(*dst, object(Object::Closure(*func, frame.list(captures))));
            }
            (Op::Field | Op::IField | Op::PField, [Def(dst), Use(src), Field(n)]) => {
                let value = frame.get(*src).fields().1[usize::from(*n)].clone();
                frame.set(*dst, value);
            }
            (Op::VariantTag, [Def(dst), Use(src)]) => {
                let tag = frame.get(*src).fields().0;
                frame.set(*dst, Val::Int(i64::from(tag)));
            }
            (Op::Payload | Op::IPayload | Op::PPayload, [Def(dst), Use(src), Tag(expected), Field(n)]) => {
                let src = frame.get(*src);
                let (found, fields) = src.fields();
                if found != *expected {
                    return Err(TrapKind::WrongTag { expected: *expected, found }.into());
                }
                frame.set(*dst, fields[usize::from(*n)].clone());
            }

            (Op::Len, [Def(dst), Use(src)]) => {
                let len = frame.get(*src).array().len();
                frame.set(*dst, Val::Int(len as i64));
            }
            (Op::SameLen | Op::SameShape, [Use(object), Use(other)]) => {
                frame.get(*object).parts_alike(&frame.get(*other))?;
            }
            (Op::Elem | Op::IElem | Op::PElem, [Def(dst), Use(src), Use(index)]) => {
                let (src, index) = (frame.get(*src), frame.get(*index).int());
                let elements = src.array();
                let element = usize::try_from(index).ok().and_then(|n| elements.get(n)).cloned();
                let len = elements.len() as u64;
                frame.set(*dst, element.ok_or(TrapKind::IndexOutOfBounds { index, len })?);
            }
            (Op::Row, [Def(dst), Use(src), Use(index), Operand::Int(width)]) => {
                let (len, index) = (frame.get(*src).array().len() as i64, frame.get(*index).int());
                let rows = len / width;
                if !(0..rows).contains(&index) {
                    return Err(TrapKind::IndexOutOfBounds { index, len: rows as u64 }.into());
                }
                frame.set(*dst, Val::Int(index * width));
            }
            (Op::Pack, [Def(dst), Uses(elements)]) => frame.set(*dst, object(Object::Array(frame.list(elements)))),
            (op, operands) if builders::is_about_builders(op) => builders::step(frame, op, operands, type_of)?,
            (Op::ChainNew, [Def(dst)]) => {
                assert!(matches!(type_of(*dst), TypeDef::Chain(_)));
                frame.set(*dst, object(Object::Chain(RefCell::new(Some(Vec::new())))));
            }
            (Op::ChainPush, [Def(dst), Use(chain), Tag(tag), Uses(fields)]) => {
                let (chain, cell) = (frame.get(*chain), (*tag, frame.list(fields)));
                let mut cells = chain.chain().borrow_mut();
                let cells = cells.as_mut().ok_or(TrapKind::BuilderFinished)?;
                if cells.is_empty() {
                    // An empty chain stays as it is.
                    frame.set(*dst, object(Object::Chain(RefCell::new(Some(vec![cell])))));
                } else {
                    cells.push(cell);
                    frame.set(*dst, chain.clone());
                }
            }
            (Op::ChainFinish, [Def(dst), Use(chain), Use(tail)]) => {
                let (chain, tail) = (frame.get(*chain), frame.get(*tail));
                let mut cells = chain.chain().borrow_mut();
                let made = match &*cells {
                    Some(cells) if cells.is_empty() => tail,
                    Some(_) => cells.take().into_iter().flatten().rev().fold(tail, |tail, (tag, mut fields)| {
                        fields.push(tail);
                        object(Object::Fields(tag, fields))
                    }),
                    None => return Err(TrapKind::BuilderFinished.into()),
                };
                frame.set(*dst, made);
            }
            (op, operands) => panic!("no meaning is given for {op:?} {operands:?}"),
        }
        Ok(Next::Inst)
    }
}

/// The function that a closure calls and its arguments: captures first.
fn closure_call<N: Number>(callee: &Val<N>, args: Vec<Val<N>>) -> (usize, Vec<Val<N>>) {
    match &**callee.object() {
        Object::Closure(func, captures) => (*func as usize, captures.iter().cloned().chain(args).collect()),
        _ => panic!("a closure was expected"),
    }
}

/// A scalar instruction on registers' contents.
fn scalar<N: Number>(op: Op, args: &[Val<N>]) -> Result<Val<N>, TrapKind> {
    let numbers: Vec<&N> = args.iter().filter(|arg| matches!(arg, Val::Real(_))).map(Val::real).collect();
    let ints: Vec<i64> = args.iter().filter(|arg| matches!(arg, Val::Int(_))).map(Val::int).collect();
    if op.info().operands[0].role == Role::Def(Bank::Int) {
        let reals: Vec<f64> = numbers.iter().map(|x| x.primal()).collect();
        return integer_value(op, &reals, &ints).map(Val::Int);
    }
    Ok(Val::Real(N::operation(op, &numbers, &ints)))
}

/// The value of a scalar instruction with a real result.
pub(crate) fn real_value(op: Op, reals: &[f64], ints: &[i64]) -> f64 {
    let a = reals.first().copied().unwrap_or(0.0);
    let b = reals.get(1).copied().unwrap_or(0.0);
    match op {
        Op::Neg => -a,
        Op::Abs => a.abs(),
        Op::Sign if a.is_nan() || a == 0.0 => a + 0.0,
        Op::Sign => 1f64.copysign(a),
        Op::Min if a.is_nan() || b.is_nan() => f64::NAN,
        Op::Min => [b, a][usize::from(a <= b)],
        Op::Max if a.is_nan() || b.is_nan() => f64::NAN,
        Op::Max => [b, a][usize::from(a >= b)],
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::StrongMul => strong(a, b),
        Op::Fma => a.mul_add(b, reals[2]),
        Op::Sqrt => a.sqrt(),
        Op::Cbrt => math::cbrt(a),
        Op::Exp => math::exp(a),
        Op::Exp2 => math::exp2(a),
        Op::Expm1 => math::expm1(a),
        Op::Log => math::log(a),
        Op::Log2 => math::log2(a),
        Op::Log10 => math::log10(a),
        Op::Log1p => math::log1p(a),
        Op::Pow => math::pow(a, b),
        Op::Powi => math::powi(a, ints[0]),
        Op::Sin => math::sin(a),
        Op::Cos => math::cos(a),
        Op::Tan => math::tan(a),
        Op::Asin => math::asin(a),
        Op::Acos => math::acos(a),
        Op::Atan => math::atan(a),
        Op::Atan2 => math::atan2(a, b),
        Op::Sinh => math::sinh(a),
        Op::Cosh => math::cosh(a),
        Op::Tanh => math::tanh(a),
        Op::TanhSlope => math::tanh_slope(a, b),
        Op::Sigmoid => math::sigmoid(a),
        Op::SigmoidSlope => math::sigmoid_slope(a, b),
        Op::Asinh => math::asinh(a),
        Op::Acosh => math::acosh(a),
        Op::Atanh => math::atanh(a),
        Op::Erf => math::erf(a),
        Op::Erfc => math::erfc(a),
        Op::Lgamma => math::lgamma(a),
        Op::Digamma => math::digamma(a),
        Op::Polygamma => math::polygamma(ints[0], a),
        Op::Hypot => math::hypot(a, b),
        Op::Floor => a.floor(),
        Op::Ceil => a.ceil(),
        Op::Round => a.round_ties_even(),
        Op::Trunc => a.trunc(),
        Op::Detach => a,
        Op::Select => [b, a][usize::from(ints[0] != 0)],
        Op::ToReal => ints[0] as f64,
        op => panic!("the reference has no value for {op:?}: add it to `real_value`"),
    }
}

/// The value of a scalar instruction with an integer result.
pub(crate) fn integer_value(op: Op, reals: &[f64], ints: &[i64]) -> Result<i64, TrapKind> {
    let x = |n: usize| reals[n];
    let i = |n: usize| ints[n];
    let is_remainder = op == Op::IRem;
    let quotient = |take: fn(i64, i64) -> i64| match (i(0), i(1)) {
        (dividend, 0) => Err(TrapKind::DivisionByZero { dividend, is_remainder }),
        (i64::MIN, -1) => Err(TrapKind::DivisionOverflow { is_remainder }),
        (a, b) => Ok(take(a, b)),
    };
    Ok(match op {
        Op::Eq => i64::from(x(0) == x(1)),
        Op::Ne => i64::from(x(0) != x(1)),
        Op::Lt => i64::from(x(0) < x(1)),
        Op::Le => i64::from(x(0) <= x(1)),
        Op::IEq => i64::from(i(0) == i(1)),
        Op::INe => i64::from(i(0) != i(1)),
        Op::ILt => i64::from(i(0) < i(1)),
        Op::ILe => i64::from(i(0) <= i(1)),
        Op::IAdd => i(0).wrapping_add(i(1)),
        Op::ISub => i(0).wrapping_sub(i(1)),
        Op::IMul => i(0).wrapping_mul(i(1)),
        Op::IDiv => return quotient(|a, b| a / b),
        Op::IRem => return quotient(|a, b| a % b),
        Op::INeg => 0i64.wrapping_sub(i(0)),
        Op::IAnd => i(0) & i(1),
        Op::IOr => i(0) | i(1),
        Op::IXor => i(0) ^ i(1),
        Op::IShl => i(0) << i(1).rem_euclid(64),
        Op::IShr => i(0) >> i(1).rem_euclid(64),
        Op::IPopcnt => (0..64).filter(|bit| i(0) >> bit & 1 == 1).count() as i64,
        Op::IClz => (0..64).take_while(|bit| i(0) << bit >= 0).count() as i64,
        Op::IMin => i(0).min(i(1)),
        Op::IMax => i(0).max(i(1)),
        Op::ISelect => i(if i(0) != 0 { 1 } else { 2 }),
        Op::ToInt => {
            let whole = x(0).trunc();
            if (-(2f64.powi(63))..2f64.powi(63)).contains(&whole) {
                whole as i64
            } else {
                return Err(TrapKind::NotAnInteger(x(0)));
            }
        }
        op => panic!("the reference has no value for {op:?}: add it to `integer_value`"),
    })
}

/// A product that is zero if a factor is, whatever the other is.
pub(crate) fn strong(a: f64, b: f64) -> f64 {
    let product = a * b;
    if (a == 0.0 || b == 0.0) && product.is_nan() { 0.0 } else { product }
}

/// A power whose exponent may be beyond 64 bits, by squaring from the lowest bit on.
pub(crate) fn wide_power(base: f64, exponent: i128) -> f64 {
    let (mut square, mut power) = (base, 1.0);
    for bit in 0..128 - exponent.unsigned_abs().leading_zeros() {
        if exponent.unsigned_abs() >> bit & 1 == 1 {
            power *= square;
        }
        square *= square;
    }
    if exponent < 0 { 1.0 / power } else { power }
}

/// The partial derivatives of a differentiable instruction whose result is `r`, with the choices at non-smooth
/// points that the instructions' documentation states.
pub(crate) fn partials<T: Arithmetic>(op: Op, args: &[T], ints: &[i64], r: &T) -> Vec<T> {
    let num = T::real;
    let zero = num(0.0);
    let a = args.first().unwrap_or(&zero);
    let b = args.get(1).unwrap_or(&zero);
    let either = |first: bool| if first { vec![num(1.0), num(0.0)] } else { vec![num(0.0), num(1.0)] };
    let neg = |x: T| x.op(Op::Neg, &[]);
    let inverse = |x: &T| num(1.0).op(Op::Div, &[x]);
    let times = |factor: f64, x: &T| num(factor).op(Op::Mul, &[x]);
    let one_minus = |x: &T| num(1.0).op(Op::Sub, &[x]);
    let plus_one = |x: &T| x.op(Op::Add, &[&num(1.0)]);
    // 1 / √(1 - a²)
    let rest = || a.op(Op::Fma, &[&neg(a.clone()), &num(1.0)]);
    let arc = || inverse(&rest().op(Op::Sqrt, &[]));
    let bell = || times(FRAC_2_SQRT_PI, &neg(a.clone()).op(Op::Mul, &[a]).op(Op::Exp, &[]));
    match op {
        Op::Neg => vec![num(-1.0)],
        Op::Abs if a.value() == 0.0 => vec![num(0.0)],
        Op::Abs => vec![num(a.value().signum())],
        Op::Min => either(a.value() <= b.value()),
        Op::Max => either(a.value() >= b.value()),
        Op::Add => vec![num(1.0), num(1.0)],
        Op::Sub => vec![num(1.0), num(-1.0)],
        Op::Mul | Op::StrongMul => vec![b.clone(), a.clone()],
        Op::Div => vec![inverse(b), neg(a.op(Op::Div, &[b])).op(Op::Div, &[b])],
        Op::Fma => vec![b.clone(), a.clone(), num(1.0)],
        Op::Sqrt => vec![inverse(&times(2.0, r))],
        Op::Cbrt => vec![inverse(&times(3.0, r).op(Op::Mul, &[r]))],
        Op::Exp => vec![r.clone()],
        Op::Exp2 => vec![times(LN_2, r)],
        Op::Expm1 => vec![a.op(Op::Exp, &[])],
        Op::Log => vec![inverse(a)],
        Op::Log2 => vec![num(LOG2_E).op(Op::Div, &[a])],
        Op::Log10 => vec![num(LOG10_E).op(Op::Div, &[a])],
        Op::Log1p => vec![inverse(&plus_one(a))],
        Op::Pow => {
            let slope = || b.op(Op::StrongMul, &[&a.op(Op::Pow, &[&b.op(Op::Sub, &[&num(1.0)])])]);
            let base = if b.value() == 0.0 { num(0.0) } else { slope() };
            vec![base, if r.value() == 0.0 { num(0.0) } else { a.op(Op::Log, &[]).op(Op::Mul, &[r]) }]
        }
        Op::Powi if ints[0] == 0 => vec![num(0.0)],
        Op::Powi => vec![num(ints[0] as f64).op(Op::StrongMul, &[&a.power(i128::from(ints[0]) - 1)])],
        Op::Sin => vec![a.op(Op::Cos, &[])],
        Op::Cos => vec![neg(a.op(Op::Sin, &[]))],
        Op::Tan => {
            let cos = a.op(Op::Cos, &[]);
            vec![inverse(&cos.op(Op::Mul, &[&cos]))]
        }
        Op::Asin => vec![arc()],
        Op::Acos => vec![neg(arc())],
        Op::Atan => vec![inverse(&a.op(Op::Fma, &[a, &num(1.0)]))],
        Op::Atan2 => {
            let h = a.op(Op::Hypot, &[b]);
            let over = |x: &T| x.op(Op::Div, &[&h]).op(Op::Div, &[&h]);
            vec![over(b), over(&neg(a.clone()))]
        }
        Op::Sinh => vec![a.op(Op::Cosh, &[])],
        Op::Cosh => vec![a.op(Op::Sinh, &[])],
        Op::Tanh => vec![inverse(&a.op(Op::Cosh, &[])).power(2)],
        Op::TanhSlope if b.value().abs() <= math::TANH_SLOPE_BOUND => vec![num(0.0), times(-2.0, b)],
        Op::TanhSlope => vec![times(-2.0, &a.op(Op::Tanh, &[])).op(Op::Mul, &[r]), num(0.0)],
        Op::Sigmoid => vec![a.op(Op::Sigmoid, &[]).op(Op::Mul, &[&neg(a.clone()).op(Op::Sigmoid, &[])])],
        Op::SigmoidSlope if b.value() <= math::SIGMOID_SLOPE_BOUND => vec![num(0.0), one_minus(&times(2.0, b))],
        Op::SigmoidSlope => vec![one_minus(&times(2.0, &a.op(Op::Sigmoid, &[]))).op(Op::Mul, &[r]), num(0.0)],
        Op::Asinh => vec![inverse(&num(1.0).op(Op::Hypot, &[a]))],
        Op::Acosh => {
            let root = |shift: f64| a.op(Op::Add, &[&num(shift)]).op(Op::Sqrt, &[]);
            vec![inverse(&root(1.0)).op(Op::Div, &[&root(-1.0)])]
        }
        Op::Atanh => vec![inverse(&rest())],
        Op::Erf => vec![bell()],
        Op::Erfc => vec![neg(bell())],
        Op::Lgamma => vec![a.op(Op::Digamma, &[])],
        Op::Digamma => vec![T::apply(Op::Polygamma, &[a], &[1])],
        Op::Polygamma if ints[0] < 0 => vec![num(f64::NAN)],
        Op::Polygamma => {
            let next = ints[0].checked_add(1);
            vec![next.map_or(num(f64::NAN), |order| T::apply(Op::Polygamma, &[a], &[order]))]
        }
        Op::Hypot if r.value() == 0.0 => vec![num(0.0), num(0.0)],
        Op::Hypot => vec![a.op(Op::Div, &[r]), b.op(Op::Div, &[r])],
        Op::Select => either(ints[0] != 0),
        op => panic!("the reference has no derivative for {op:?}: add it to `partials`"),
    }
}
