//! Core to bytecode: one walk over each function, straight into registers.
//!
//! Code generation is driven by destinations. [`Lowerer::value`] computes a value wherever it likes and
//! [`Lowerer::write`] into given registers: those of a loop's variables, for example, so that an iteration ends without
//! moves. A register that holds a variable is reused after the variable's last use, also for the result of the very
//! instruction that reads it.
//!
//! `lower/` holds registers, constants, parallel assignment, control flow, labels, loops, arrays, data and tasks.

mod arrays;
mod assign;
mod builders;
mod constants;
mod control;
mod data;
mod derivative;
mod labels;
mod loops;
mod parallel;
mod places;
mod registers;

use crate::arena::Id;
use crate::core::{Comparison, ExprId, ExprKind, Function, Origin, Program, Step, Text};
use crate::diagnostics::{Diagnostic, Sink};
use crate::limits::{Count, Meter};
use crate::liveness::Liveness;
use crate::source::SourceMap;
use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{FuncId, ModuleDef, Piece, Template, ValueType};
use dualvm_vm::verify::limits::{FIELDS_MAX, PARAMS_MAX};

use assign::Target;
use constants::Constants;
use control::Flow;
use places::Places;
use registers::{Held, Registers};

/// So many registers in lists of an instruction count as one node more.
const LISTED_PER_NODE: usize = 32;

/// Lowers a program. If the compilation is stopped, what comes of it has no meaning.
pub(crate) fn lower(program: Program, sources: &SourceMap, sink: &mut Sink, meter: &Meter) -> ModuleDef {
    let Program { functions, lists, mut module, calls, .. } = program;
    let mut places = Places::new(sources, &calls, &mut module);
    for (_, function) in functions.iter() {
        match lower_function(function, &lists, &mut module, &mut places, meter) {
            Ok(lowered) => {
                let id = module.define(lowered);
                if let Some(function) = function.twin_of {
                    module.traced_twin(FuncId(function.index() as u32), id);
                }
            }
            Err(_) if !meter.go_on() => break,
            Err(error) => {
                let place = function.place();
                let message = format!("`{}` is too large to be compiled", function.name);
                let help = "split it into smaller functions, or keep many numbers in an array";
                sink.push(Diagnostic::error(place, message).label(error).help(help));
            }
        }
    }
    module.finish()
}

fn lower_function(
    function: &Function,
    lists: &crate::core::TypeLists,
    module: &mut ModuleBuilder,
    places: &mut Places<'_>,
    meter: &Meter,
) -> Result<dualvm_vm::module::Function, String> {
    let params: Vec<ValueType> = function.params.iter().map(|&var| function.body.vars[var]).collect();
    if params.len() > PARAMS_MAX {
        return Err(format!("more than {PARAMS_MAX} numbers and references that it takes, captured ones included"));
    }
    let mut out = FunctionBuilder::new(&function.name, &params, lists.get(function.results));
    if let Some(interface) = &function.interface {
        out.export(interface.clone());
    }
    let mut lowerer = Lowerer {
        function,
        lists,
        module,
        places,
        meter,
        live: Liveness::of(function, meter),
        registers: Registers::new(&function.body.vars),
        constants: Constants::default(),
        flow: Flow::default(),
        refusal: None,
        out,
    };
    lowerer.body();
    if let Some(refusal) = lowerer.refusal {
        return Err(refusal);
    }
    lowerer.out.finish().map_err(|error| error.to_string())
}

struct Lowerer<'l, 'p> {
    function: &'l Function,
    lists: &'l crate::core::TypeLists,
    module: &'l mut ModuleBuilder,
    places: &'l mut Places<'p>,
    meter: &'l Meter,
    live: Liveness,
    registers: Registers<'l>,
    constants: Constants,
    flow: Flow,
    /// Why there is no code that the verifier would accept.
    refusal: Option<String>,
    out: FunctionBuilder,
}

impl<'l> Lowerer<'l, '_> {
    fn body(&mut self) {
        let function = self.function;
        for (i, &var) in function.params.iter().enumerate() {
            let reg = self.out.param(i);
            self.registers.define(var, reg, false);
            if self.live.is_unused(var) {
                self.registers.forget(var);
            }
        }
        self.tail(function.root);
    }

    fn kind(&self, expr: ExprId) -> &'l ExprKind {
        &self.function.body.exprs[expr].kind
    }

    fn types(&self, expr: ExprId) -> &'l [ValueType] {
        self.lists.get(self.function.body.exprs[expr].types)
    }

    /// The type of an expression with one value.
    fn type_of(&self, expr: ExprId) -> ValueType {
        self.types(expr)[0]
    }

    /// Appends an instruction that comes from an expression, unless control can't get here.
    fn emit(&mut self, place: ExprId, op: Op, operands: &[Operand]) {
        if !self.flow.reachable {
            return;
        }
        self.count(operands);
        self.set_place(place);
        self.out.emit(op, operands);
        self.flow.reachable = !op.is_terminator();
    }

    /// Counts an instruction, a long list of registers as several.
    fn count(&self, operands: &[Operand]) {
        let lists = operands.iter().map(|operand| match operand {
            Operand::Uses(regs) | Operand::Defs(regs) => regs.len(),
            _ => 0,
        });
        self.meter.nodes(Count::Code, 1 + lists.sum::<usize>() / LISTED_PER_NODE);
    }

    /// Says where the next instruction comes from.
    fn set_place(&mut self, place: ExprId) {
        self.set_source(self.function.body.exprs[place].origin);
    }

    fn set_source(&mut self, origin: Origin) {
        if let Some((place, call)) = self.places.located(origin, self.module) {
            self.out.at_place(place, call);
        }
    }

    fn emit_regs(&mut self, place: ExprId, op: Op, dst: Reg, args: &[Reg]) {
        let mut operands = vec![Operand::Def(dst)];
        operands.extend(args.iter().map(|&arg| Operand::Use(arg)));
        self.emit(place, op, &operands);
    }

    fn emit_mov(&mut self, place: ExprId, dst: Reg, src: Reg) {
        if dst == src {
            return;
        }
        let op = match dst.bank {
            Bank::Real => Op::Mov,
            Bank::Int => Op::IMov,
            Bank::Ref => Op::PMov,
        };
        self.emit_regs(place, op, dst, &[src]);
    }

    /// Whether to go on with an expression. Once the compilation is stopped, nothing is computed any more, and values
    /// are in registers that nobody writes.
    fn step(&mut self, expr: ExprId) -> bool {
        self.meter.step(self.function.body.exprs[expr].origin.span)
    }

    /// A register that nobody reads yet, as a value.
    fn fresh(&mut self, ty: ValueType) -> Held {
        Held::Temp(self.registers.allocate(ty, &mut self.out), ty)
    }

    /// Computes an expression's only value, in any register.
    fn value(&mut self, expr: ExprId) -> Held {
        if !self.step(expr) {
            return self.fresh(self.type_of(expr));
        }
        crate::stack::grown(|| self.value_here(expr))
    }

    fn value_here(&mut self, expr: ExprId) -> Held {
        match self.kind(expr) {
            ExprKind::Var(var) => self.registers.hold(*var, self.live.is_last(*var, expr)),
            ExprKind::Real(value) => self.constant(expr, constants::Constant::real(*value)),
            ExprKind::Int(value) => self.constant(expr, constants::Constant::int(*value)),
            ExprKind::Values(_) | ExprKind::Block(..) => {
                let mut values = self.values(expr);
                values.pop().expect("the caller asks for one value")
            }
            ExprKind::Scalar(..)
            | ExprKind::Compare(..)
            | ExprKind::Length(..)
            | ExprKind::Pack(..)
            | ExprKind::Construct(..)
            | ExprKind::Payload(..)
            | ExprKind::Closure(..)
            | ExprKind::ParallelMap(..)
            | ExprKind::Detach(_)
            | ExprKind::Replace(..)
            | ExprKind::Collect(..) => Held::Temp(self.compute(expr, None), self.type_of(expr)),
            ExprKind::Builder(array, step, parts) if *step != Step::Get => self.building(expr, *array, *step, parts),
            ExprKind::Element(array, ..) if array.is_plain() => {
                Held::Temp(self.compute(expr, None), self.type_of(expr))
            }
            _ => {
                let target = self.fresh_target(self.type_of(expr));
                self.write(expr, &[target]);
                Held::Temp(target.reg, target.ty)
            }
        }
    }

    /// Computes all values of an expression, in any registers.
    fn values(&mut self, expr: ExprId) -> Vec<Held> {
        if !self.step(expr) {
            return self.types(expr).iter().map(|&ty| self.fresh(ty)).collect();
        }
        match self.kind(expr) {
            ExprKind::Values(parts) => {
                crate::stack::grown(|| parts.iter().flat_map(|&part| self.values(part)).collect())
            }
            ExprKind::Block(bindings, value) => {
                self.bindings(&bindings[self.live.entry_count(expr)..]);
                crate::stack::grown(|| self.values(*value))
            }
            _ if self.types(expr).len() == 1 => vec![self.value(expr)],
            _ => {
                let targets: Vec<Target> = self.types(expr).iter().map(|&ty| self.fresh_target(ty)).collect();
                self.write(expr, &targets);
                targets.into_iter().map(|target| Held::Temp(target.reg, target.ty)).collect()
            }
        }
    }

    /// Computes the values of an expression into registers.
    fn write(&mut self, expr: ExprId, targets: &[Target]) {
        if self.step(expr) {
            crate::stack::grown(|| self.write_here(expr, targets));
        }
    }

    fn write_here(&mut self, expr: ExprId, targets: &[Target]) {
        match self.kind(expr) {
            ExprKind::Var(_) => {
                let held = self.value(expr);
                self.emit_mov(expr, targets[0].reg, self.registers.reg(held));
                self.registers.release(held);
            }
            ExprKind::Real(value) => self.load_constant(expr, targets[0].reg, constants::Constant::real(*value)),
            ExprKind::Int(value) => self.load_constant(expr, targets[0].reg, constants::Constant::int(*value)),
            ExprKind::Values(parts) => self.assign(parts, targets),
            ExprKind::Block(bindings, value) => {
                let wanted = self.wanted(*value, targets);
                for binding in &bindings[self.live.entry_count(expr)..] {
                    self.binding(expr, binding, &wanted);
                }
                self.write(*value, targets);
            }
            ExprKind::If(parts) => self.conditional(*parts, |lowerer, branch| lowerer.write(branch, targets)),
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Not(_) => self.truth(expr, targets[0].reg),
            ExprKind::Loop(repeat) => self.repeat(expr, repeat, targets),
            ExprKind::Call(function, args) => {
                let args = self.arguments(args);
                let results = targets.iter().map(|target| target.reg).collect();
                let func = FuncId(function.index() as u32);
                self.emit(expr, Op::Call, &[Operand::Func(func.0), Operand::Uses(args), Operand::Defs(results)]);
            }
            ExprKind::CallImport(import, args) => {
                let args = self.arguments(args);
                let results = targets.iter().map(|target| target.reg).collect();
                let operands = [Operand::Import(*import), Operand::Uses(args), Operand::Defs(results)];
                self.emit(expr, Op::CallImport, &operands);
            }
            ExprKind::Constant { function, .. } => {
                let results = targets.iter().map(|target| target.reg).collect();
                self.emit(expr, Op::Once, &[Operand::Func(function.index() as u32), Operand::Defs(results)]);
            }
            ExprKind::Fork(tasks) => self.fork(expr, tasks, targets),
            ExprKind::Derivative(derivative) => self.derivative(expr, derivative, targets),
            ExprKind::Element(array, pair, _) if !array.is_plain() => {
                let targets: Vec<_> = targets.iter().copied().map(Some).collect();
                self.element_parts(expr, *array, *pair, &targets);
            }
            ExprKind::CallClosure(callee, args) => {
                let (callee, args) = self.closure_operands(*callee, args);
                let results = targets.iter().map(|target| target.reg).collect();
                let operands = [Operand::Use(callee), Operand::Uses(args), Operand::Defs(results)];
                self.emit(expr, Op::CallClosure, &operands);
            }
            ExprKind::Switch(switch) => self.switch(expr, switch, true, |lowerer, arm| lowerer.write(arm, targets)),
            ExprKind::Join(join) => {
                let end = self.out.new_label();
                let last = join.bodies.last().map(|labelled| labelled.body);
                self.join(join, |lowerer, part| {
                    lowerer.write(part, targets);
                    lowerer.jump_unless_next(end, Some(part) == last);
                });
                self.bind(end);
            }
            ExprKind::Repeat(repeat) if repeat.builds => self.repeat_building(expr, repeat, targets[0]),
            ExprKind::Repeat(repeat) => self.repeat_label(expr, repeat, |lowerer| lowerer.write(repeat.body, targets)),
            ExprKind::Jump(label, args) => self.jump_to(*label, args),
            ExprKind::Extend(extend) => self.extend(expr, extend),
            ExprKind::Trap(text) => match &*text.pieces {
                [Piece::Text(message)] => {
                    let message = self.module.message(message);
                    self.emit(expr, Op::Trap, &[Operand::Message(message)]);
                }
                _ => self.text(expr, Op::TrapWith, text),
            },
            ExprKind::Trace(text) => self.text(expr, Op::Trace, text),
            ExprKind::Builder(array, Step::Get, parts) => self.get(expr, *array, parts, targets),
            ExprKind::Builder(..) => {
                // A builder stays in its register.
                let held = self.value(expr);
                self.emit_mov(expr, targets[0].reg, self.registers.reg(held));
                self.registers.release(held);
            }
            _ => {
                self.compute(expr, Some(targets[0].reg));
            }
        }
    }

    fn text(&mut self, expr: ExprId, op: Op, text: &Text) {
        let func = text.function.map(|function| FuncId(function.index() as u32));
        let template = self.module.template(Template { pieces: text.pieces.to_vec(), func });
        let args = self.arguments(&text.args);
        self.emit(expr, op, &[Operand::Template(template), Operand::Uses(args)]);
    }

    /// Evaluates call arguments and gives their registers back, to be read by the next instruction.
    fn arguments(&mut self, args: &[ExprId]) -> Vec<Reg> {
        let held: Vec<Held> = args.iter().flat_map(|&arg| self.values(arg)).collect();
        self.consume(held)
    }

    /// The registers of some values, which may be overwritten by the instruction that reads them.
    fn consume(&mut self, held: Vec<Held>) -> Vec<Reg> {
        let regs = held.iter().map(|&held| self.registers.reg(held)).collect();
        held.into_iter().for_each(|held| self.registers.release(held));
        regs
    }

    fn bindings(&mut self, bindings: &[crate::core::Binding]) {
        for binding in bindings {
            if self.bind_element(binding) {
                continue;
            }
            let held = self.values(binding.value);
            for (&var, held) in binding.vars.iter().zip(held) {
                self.adopt(var, held, binding.value);
            }
        }
    }

    /// Makes a computed value a variable's.
    fn adopt(&mut self, var: crate::core::Var, held: Held, place: ExprId) {
        let ty = self.function.body.vars[var];
        if self.live.is_unused(var) {
            return self.registers.release(held);
        }
        let reg = match self.registers.take(held) {
            Some(reg) => reg,
            None => {
                let reg = self.registers.allocate(ty, &mut self.out);
                self.emit_mov(place, reg, self.registers.reg(held));
                self.registers.release(held);
                reg
            }
        };
        self.registers.define(var, reg, false);
    }

    /// Computes a value by one last instruction, which writes its register after everything was read.
    fn compute(&mut self, expr: ExprId, dst: Option<Reg>) -> Reg {
        let (op, args) = match self.kind(expr) {
            ExprKind::Scalar(op, args) => (*op, self.arguments(args)),
            ExprKind::Length(array, operand) if array.width() > 1 => {
                return self.length_in_rows(expr, array.width(), *operand, dst);
            }
            ExprKind::Length(_, array) => (Op::Len, self.arguments(&[*array])),
            ExprKind::Detach(object) => (Op::PDetach, self.arguments(&[*object])),
            ExprKind::Compare(comparison, pair) => {
                let (op, swapped) = comparison_op(*comparison, self.type_of(pair[0]).bank());
                let mut args = self.arguments(pair);
                if swapped {
                    args.reverse();
                }
                (op, args)
            }
            ExprKind::Element(array, pair, _) => (arrays::load(array.holds.bank()), self.arguments(pair)),
            ExprKind::Payload(field, object) => {
                let object = self.arguments(&[*object])[0];
                let dst = self.destination(expr, dst);
                self.payload(expr, dst, object, *field);
                return dst;
            }
            ExprKind::Construct(tag, fields) => {
                let fields = self.arguments(fields);
                let dst = self.destination(expr, dst);
                let is_shaped = self.is_shaped(expr);
                let (op, tag) = if is_shaped { (Op::StructNew, None) } else { (Op::VariantNew, Some(*tag)) };
                let operands = [Some(Operand::Def(dst)), tag.map(Operand::Tag), Some(Operand::Uses(fields))];
                self.emit(expr, op, &operands.into_iter().flatten().collect::<Vec<_>>());
                return dst;
            }
            ExprKind::Closure(function, captures) => {
                let captures = self.arguments(captures);
                if captures.len() > FIELDS_MAX {
                    self.refusal =
                        Some(format!("more than {FIELDS_MAX} numbers and references that a function captures"));
                }
                let dst = self.destination(expr, dst);
                let func = Operand::Func(function.index() as u32);
                self.emit(expr, Op::ClosureNew, &[Operand::Def(dst), func, Operand::Uses(captures)]);
                return dst;
            }
            ExprKind::ParallelMap(function, args) => {
                let mut args = self.arguments(args);
                let count = args.remove(0);
                let dst = self.destination(expr, dst);
                let func = Operand::Func(function.index() as u32);
                self.emit(expr, Op::ParallelMap, &[Operand::Def(dst), func, Operand::Use(count), Operand::Uses(args)]);
                return dst;
            }
            ExprKind::Pack(array, parts) => return self.pack(expr, *array, parts, dst),
            ExprKind::Collect(array, collect) => return self.collect(expr, *array, collect, dst),
            ExprKind::Replace(..) => return self.replaced(expr, dst),
            other => unreachable!("not computed by one instruction: {other:?}"),
        };
        let dst = self.destination(expr, dst);
        self.emit_regs(expr, op, dst, &args);
        dst
    }

    /// The register for an expression's only value: the given one, or a new one.
    fn destination(&mut self, expr: ExprId, dst: Option<Reg>) -> Reg {
        dst.unwrap_or_else(|| self.registers.allocate(self.type_of(expr), &mut self.out))
    }
}

/// The instruction of a comparison, and whether it takes its operands the other way round.
fn comparison_op(comparison: Comparison, bank: Bank) -> (Op, bool) {
    let (real, int, swapped) = match comparison {
        Comparison::Equal => (Op::Eq, Op::IEq, false),
        Comparison::NotEqual => (Op::Ne, Op::INe, false),
        Comparison::Less => (Op::Lt, Op::ILt, false),
        Comparison::LessEqual => (Op::Le, Op::ILe, false),
        Comparison::Greater => (Op::Lt, Op::ILt, true),
        Comparison::GreaterEqual => (Op::Le, Op::ILe, true),
    };
    (if bank == Bank::Real { real } else { int }, swapped)
}
