//! What the tests share: a reference implementation, a generator of programs, and short ways to build and run.

#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod bytes;
pub(crate) mod check;
pub(crate) mod companions;
pub(crate) mod dead_code;
pub(crate) mod dice;
pub(crate) mod dual_trees;
pub(crate) mod engines;
pub(crate) mod filetest;
pub(crate) mod forms;
pub(crate) mod generate;
pub(crate) mod hostile;
pub(crate) mod mutate;
pub(crate) mod numbers;
pub(crate) mod panics;
pub(crate) mod reference;
pub(crate) mod sources;
pub(crate) mod tasks;
pub(crate) mod unexpected;
pub(crate) mod watchdog;
pub(crate) mod written;

use dualvm_vm::builder::FunctionBuilder;
use dualvm_vm::engine::{Engine, Function, Module, RunError};
use dualvm_vm::isa::{Inst, Op};
use dualvm_vm::module::{Body, HostType, Interface, ModuleDef, TypeDef, TypeId, ValueType};
use dualvm_vm::text;
use dualvm_vm::trap::{Limit, Trap, TrapKind};
use dualvm_vm::value::Value;

/// Verifies a module for an engine of its own.
pub(crate) fn load(def: ModuleDef) -> Module {
    load_into(&Engine::default(), def)
}

/// Verifies a module for this engine.
pub(crate) fn load_into(engine: &Engine, def: ModuleDef) -> Module {
    let printed = if def.functions.iter().all(|f| f.body.code.len() < 500) { text::print(&def) } else { String::new() };
    Module::new(engine, def).unwrap_or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("the verifier refuses\n{printed}\n{}", errors.join("\n"))
    })
}

/// The only function of a module in text.
pub(crate) fn assemble(source: &str) -> ModuleDef {
    text::parse(source, "test.dvasm").unwrap_or_else(|error| panic!("{error:?}\n{source}"))
}

/// Exports every function of a module: reals, integers and arrays of reals or integers are what they are.
pub(crate) fn export_all(def: &mut ModuleDef) {
    let types = def.types.clone();
    let host = |ty: &ValueType| match ty {
        ValueType::Real => Some(HostType::Real),
        ValueType::Int => Some(HostType::Int),
        ValueType::Ref(id) => host_array(&types, *id),
    };
    for function in &mut def.functions {
        let params: Option<Vec<HostType>> = function.params.iter().map(host).collect();
        let results: Option<Vec<HostType>> = function.results.iter().map(host).collect();
        if let (Some(params), Some(mut results)) = (params, results) {
            let params = params.into_iter().enumerate().map(|(n, ty)| (format!("x{n}"), ty)).collect();
            let result = if results.len() == 1 { results.remove(0) } else { HostType::Tuple(results) };
            function.interface = Some(Interface { params, result });
        }
    }
}

/// Exports every function that is not exported yet, as [`export_all`] does.
pub(crate) fn export_missing(def: &mut ModuleDef) {
    let written: Vec<_> = def.functions.iter().map(|function| function.interface.clone()).collect();
    export_all(def);
    for (function, written) in def.functions.iter_mut().zip(written) {
        function.interface = written.or(function.interface.take());
    }
}

fn host_array(types: &[TypeDef], array: TypeId) -> Option<HostType> {
    let element = match types[array.index()] {
        TypeDef::Array(ValueType::Real) => HostType::Real,
        TypeDef::Array(ValueType::Int) => HostType::Int,
        TypeDef::Array(ValueType::Ref(inner)) => host_array(types, inner)?,
        _ => return None,
    };
    Some(HostType::Array { element: Box::new(element), array })
}

/// The function `name` of a module in text, exported.
pub(crate) fn function(source: &str, name: &str) -> Function {
    let mut def = assemble(source);
    export_all(&mut def);
    load(def).function(name).expect("the module has the function")
}

/// A function of `inputs` reals with one real result, whose code `write` makes.
pub(crate) fn scalar_function(inputs: usize, write: impl FnOnce(&mut FunctionBuilder)) -> ModuleDef {
    let mut out = FunctionBuilder::new("main", &vec![ValueType::Real; inputs], &[ValueType::Real]);
    write(&mut out);
    let mut def = ModuleDef { functions: vec![out.finish().expect("the code can be packed")], ..ModuleDef::default() };
    export_all(&mut def);
    def
}

/// Value and gradient of `main` for real arguments.
pub(crate) fn value_and_grad(def: &ModuleDef, args: &[f64]) -> (f64, Vec<f64>) {
    let main = load(def.clone()).function("main").expect("main is exported");
    let args: Vec<Value> = args.iter().map(|&x| Value::Real(x)).collect();
    let (value, gradient) = main.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
    (value, flatten(&gradient))
}

/// All reals in values, in order.
pub(crate) fn flatten(values: &[Value]) -> Vec<f64> {
    let mut out = Vec::new();
    for value in values {
        match value {
            Value::Real(x) => out.push(*x),
            Value::Reals(xs) => out.extend(xs),
            Value::Tuple(parts) | Value::Array(parts) => out.extend(flatten(parts)),
            Value::Record(parts) => parts.iter().for_each(|(_, part)| out.extend(flatten(std::slice::from_ref(part)))),
            Value::Variant(_, payload) => out.extend(flatten(std::slice::from_ref(payload))),
            _ => {}
        }
    }
    out
}

/// The same values with the n-th real changed by `change`.
pub(crate) fn shifted(values: &[Value], n: usize, change: f64) -> Vec<Value> {
    fn shift(value: &mut Value, left: &mut usize, change: f64) {
        let mut at = |x: &mut f64| {
            if *left == 0 {
                *x += change;
            }
            *left = left.wrapping_sub(1);
        };
        match value {
            Value::Real(x) => at(x),
            Value::Reals(xs) => xs.iter_mut().for_each(at),
            Value::Tuple(parts) | Value::Array(parts) => parts.iter_mut().for_each(|part| shift(part, left, change)),
            Value::Record(parts) => parts.iter_mut().for_each(|(_, part)| shift(part, left, change)),
            Value::Variant(_, payload) => shift(payload, left, change),
            _ => {}
        }
    }
    let (mut values, mut left) = (values.to_vec(), n);
    values.iter_mut().for_each(|value| shift(value, &mut left, change));
    values
}

/// The derivative by the n-th real in the arguments, from central differences of two steps (Richardson).
pub(crate) fn finite_difference(function: &Function, args: &[Value], n: usize, step: f64) -> f64 {
    let at = |change: f64| match function.call(&shifted(args, n, change)) {
        Ok(Value::Real(x)) => x,
        other => panic!("{other:?}"),
    };
    let slope = |h: f64| (at(h) - at(-h)) / (2.0 * h);
    (4.0 * slope(step) - slope(2.0 * step)) / 3.0
}

/// Equal as bits, but all NaN are one.
pub(crate) fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Equal but for a relative error; infinities and NaN must be the same.
pub(crate) fn close(a: f64, b: f64, relative: f64) -> bool {
    same(a, b) || a == b || (a - b).abs() <= relative * a.abs().max(b.abs())
}

#[track_caller]
pub(crate) fn assert_close(found: f64, expected: f64, relative: f64) {
    assert!(close(found, expected, relative), "found {found:e}, expected {expected:e}");
}

#[track_caller]
pub(crate) fn assert_all_close(found: &[f64], expected: &[f64], relative: f64) {
    assert_eq!(found.len(), expected.len());
    for (n, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        assert!(close(found, expected, relative), "component {n}: found {found:e}, expected {expected:e}");
    }
}

/// The trap that a run ended in.
#[track_caller]
pub(crate) fn trap<T: std::fmt::Debug>(outcome: Result<T, RunError>) -> Trap {
    match outcome {
        Err(RunError::Trap(trap)) => *trap,
        other => panic!("expected a trap, found {other:?}"),
    }
}

/// Asserts that a run reached a limit, and gives the trap.
#[track_caller]
pub(crate) fn assert_limit<T: std::fmt::Debug>(outcome: Result<T, RunError>, limit: Limit) -> Trap {
    let trap = trap(outcome);
    assert_eq!(trap.kind, TrapKind::Limit(limit), "{trap}");
    trap
}

/// The module with a jump to the next instruction before each instruction for which `cut` says so, by function and
/// instruction, but for tasks, which stay with their fork. Jumps end blocks, so the engine must cut its segments there.
pub(crate) fn with_jumps(def: &ModuleDef, mut cut: impl FnMut(usize, usize) -> bool) -> ModuleDef {
    let mut def = def.clone();
    for (index, function) in def.functions.iter_mut().enumerate() {
        let Body { code, targets, locations, .. } = &mut function.body;
        let cuts: Vec<bool> = (0..code.len()).map(|at| cut(index, at) && code[at].op != Op::Task).collect();
        // Where the instruction, or the jump before it, goes.
        let mut place = Vec::with_capacity(code.len());
        let mut next = 0u32;
        for &cut in &cuts {
            place.push(next);
            next += 1 + u32::from(cut);
        }
        let mut out = Vec::with_capacity(next as usize);
        for (inst, &cut) in code.iter().zip(&cuts) {
            let mut inst = *inst;
            let moved = |target: u32| u64::from(place[target as usize]);
            match inst.op {
                Op::Jump => inst.imm = moved(inst.low()),
                Op::Branch => inst.imm = moved(inst.low()) | moved(inst.high()) << 32,
                Op::Switch => inst.imm = u64::from(inst.low()) | moved(inst.high()) << 32,
                _ => {}
            }
            if cut {
                let target = out.len() as u64 + 1;
                out.push(Inst { op: Op::Jump, a: 0, b: 0, c: 0, imm: target });
            }
            out.push(inst);
        }
        targets.iter_mut().for_each(|target| *target = place[*target as usize]);
        *code = out;
        locations.clear();
    }
    def
}

/// The module with each fork replaced by calls in turn: a jump to the next instruction, and a call for each task. No
/// task takes a result of another one, so this is what a fork means. Parallel maps stay.
pub(crate) fn with_calls(def: &ModuleDef) -> ModuleDef {
    let mut def = def.clone();
    for function in &mut def.functions {
        for (at, inst) in function.body.code.iter_mut().enumerate() {
            match inst.op {
                Op::Fork => *inst = Inst { op: Op::Jump, a: 0, b: 0, c: 0, imm: at as u64 + 1 },
                // The table packs both alike.
                Op::Task => inst.op = Op::Call,
                _ => {}
            }
        }
    }
    def
}

/// A number from the environment, for longer runs.
pub(crate) fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, found {text:?}")))
}
