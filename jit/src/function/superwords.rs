//! Arithmetic of a stretch in pairs, on vectors of two (superword-level parallelism, Larsen and Amarasinghe 2000).
//!
//! Tangents in several directions are computed by the same instructions on other registers, and read from arrays in
//! which they stand side by side. Two that do the same become one on a vector. A pair begins where two operands stand
//! side by side in memory, or where one operand is the same in both, and goes on with what is computed from pairs. Lane
//! by lane a vector has the numbers that scalars have.

use super::Function;
use super::constants::Constants;
use crate::emit::UNALIGNED;
use crate::lenient::pure;
use crate::vectors::{MACHINE_HAS_VECTORS, is_for_vectors, splat};
use cranelift_codegen::ir::types::F64X2;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::{Bank, Op, Reg};
use dualvm_vm::native::{Inst, Pure};
use std::collections::{HashMap, HashSet};

/// The second instruction of a pair is so near to the first at most.
const WINDOW: usize = 24;
/// Pairs save at least so many instructions, or there are none.
const SAVED_MIN: usize = 4;

/// Where an operand comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Source {
    /// A register as the stretch finds it.
    Register(u16),
    Constant(u64),
    /// The result of this instruction.
    Result(usize),
}

/// An instruction that may be one of a pair.
#[derive(Debug)]
struct Candidate {
    op: Op,
    args: Vec<Source>,
}

/// Which instructions of a stretch are computed in pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    candidates: Vec<Option<Candidate>>,
    /// For the first of each pair, the second.
    second_of: HashMap<usize, usize>,
    /// What registers hold in the end that were written.
    held: HashMap<u16, Source>,
}

impl Pairs {
    /// The pairs of a stretch's arithmetic; `None` if they wouldn't pay. `lenient` says which products are plain ones,
    /// `live` which registers are read later, `are_adjacent` whether one register's number stands right behind
    /// another's in memory, from where both are still to be loaded.
    pub(super) fn new(
        (arithmetic, lenient): (&[Inst], &[bool]),
        live: &[u16],
        constants: &Constants,
        are_adjacent: impl Fn(u16, u16) -> bool,
    ) -> Option<Pairs> {
        if !MACHINE_HAS_VECTORS {
            return None;
        }
        let written = |inst: &Inst| inst.pure_result().filter(|reg| reg.bank == Bank::Real).map(|reg| reg.index);
        let overwritten: HashSet<u16> = arithmetic.iter().filter_map(written).collect();
        let mut held: HashMap<u16, Source> = HashMap::new();
        let mut candidates = Vec::with_capacity(arithmetic.len());
        for (n, (inst, &lenient)) in arithmetic.iter().zip(lenient).enumerate() {
            let source = |register: u16| match (held.get(&register), constants.real(register)) {
                (_, Some(constant)) => Source::Constant(constant.to_bits()),
                (Some(&source), None) => source,
                (None, None) => Source::Register(register),
            };
            let (candidate, written) = match pure(inst) {
                Pure::Scalar(scalar) if scalar.dst.bank == Bank::Real => {
                    let op = if lenient { Op::Mul } else { scalar.op };
                    let args = || scalar.args().iter().map(|reg| source(reg.index)).collect();
                    let candidate = is_for_vectors(op).then(|| Candidate { op, args: args() });
                    (candidate, Some((scalar.dst.index, Source::Result(n))))
                }
                // What a register held when the stretch began is read from there, as long as nothing else is written to
                // it.
                Pure::PrimalMov { dst, src } => match source(src.0) {
                    Source::Register(src) if overwritten.contains(&src) => (None, Some((dst.0, Source::Result(n)))),
                    source => (None, Some((dst.0, source))),
                },
                Pure::PrimalConst { dst, value } => (None, Some((dst.0, Source::Constant(value)))),
                _ => (None, None),
            };
            held.extend(written);
            candidates.push(candidate);
        }
        let mut pairs = Pairs { candidates, second_of: HashMap::new(), held };
        pairs.find(&are_adjacent);
        (pairs.saved(arithmetic, live, constants, &are_adjacent) >= SAVED_MIN as i64).then_some(pairs)
    }

    fn find(&mut self, are_adjacent: &impl Fn(u16, u16) -> bool) {
        let len = self.candidates.len();
        let mut is_written = vec![false; len];
        for first in 0..len {
            if std::mem::replace(&mut is_written[first], true) {
                continue;
            }
            let Some(candidate) = &self.candidates[first] else { continue };
            let mut found = None;
            for second in first + 1..len.min(first + 1 + WINDOW) {
                let Some(other) = &self.candidates[second] else { continue };
                let is_known = |source: &Source| !matches!(source, Source::Result(n) if *n == first || !is_written[*n]);
                if is_written[second] || other.op != candidate.op || !other.args.iter().all(is_known) {
                    continue;
                }
                let operands = || candidate.args.iter().zip(&other.args).map(|(&a, &b)| [a, b]);
                if operands().any(|pair| self.is_vector(pair, are_adjacent)) {
                    found = Some(second);
                    break;
                }
                let (same, all) = (operands().filter(|[a, b]| a == b).count(), candidate.args.len());
                if found.is_none() && (1..all).contains(&same) {
                    found = Some(second);
                }
            }
            if let Some(second) = found {
                is_written[second] = true;
                self.second_of.insert(first, second);
            }
        }
    }

    /// Whether two operands are a vector as they are.
    fn is_vector(&self, pair: [Source; 2], are_adjacent: &impl Fn(u16, u16) -> bool) -> bool {
        match pair {
            [Source::Result(a), Source::Result(b)] => self.second_of.get(&a) == Some(&b),
            [Source::Register(a), Source::Register(b)] => are_adjacent(a, b),
            _ => false,
        }
    }

    /// How many instructions pairs save, less those that put vectors together and take them apart.
    fn saved(
        &self,
        arithmetic: &[Inst],
        live: &[u16],
        constants: &Constants,
        are_adjacent: &impl Fn(u16, u16) -> bool,
    ) -> i64 {
        let seconds: HashSet<usize> = self.second_of.values().copied().collect();
        // Read one by one: results, and what is put together.
        let mut read: HashSet<Source> = HashSet::new();
        let (mut loaded, mut put) = (HashSet::new(), HashSet::new());
        for (&first, &second) in &self.second_of {
            let [first, second] =
                [first, second].map(|n| self.candidates[n].as_ref().expect("pairs are of candidates"));
            for pair in first.args.iter().zip(&second.args).map(|(&a, &b)| [a, b]) {
                if !self.is_vector(pair, are_adjacent) {
                    let is_constant = pair[0] == pair[1] && matches!(pair[0], Source::Constant(_));
                    if !is_constant && put.insert(pair) {
                        read.extend(pair);
                    }
                } else if matches!(pair[0], Source::Register(_)) {
                    loaded.insert(pair);
                }
            }
        }
        // What others read has been in a register since the instruction before.
        let mut held: HashMap<u16, Source> = HashMap::new();
        for (n, inst) in arithmetic.iter().enumerate() {
            let is_paired = self.second_of.contains_key(&n) || seconds.contains(&n);
            let mut operands: Vec<Reg> = Vec::new();
            let mut written = None;
            match pure(inst) {
                Pure::Scalar(scalar) => {
                    operands.extend(scalar.args());
                    written = Some((scalar.dst, Source::Result(n)));
                }
                Pure::PrimalMov { dst, src } => {
                    let source = held.get(&src.0).copied().unwrap_or(Source::Register(src.0));
                    written = Some((dst.into(), source));
                }
                _ => {}
            }
            if !is_paired {
                let reals = operands.iter().filter(|reg| reg.bank == Bank::Real && constants.real(reg.index).is_none());
                read.extend(reals.map(|reg| held.get(&reg.index).copied().unwrap_or(Source::Register(reg.index))));
            }
            held.extend(written.filter(|(reg, _)| reg.bank == Bank::Real).map(|(reg, source)| (reg.index, source)));
        }
        read.extend(live.iter().filter_map(|register| self.held.get(register)));
        // The low lane of a vector is a scalar as it is.
        let taken = seconds.iter().filter(|&&n| read.contains(&Source::Result(n))).count();
        let also_loaded = loaded.iter().flatten().filter(|source| read.contains(source)).count();
        (self.second_of.len() + loaded.len()) as i64 - (put.len() + taken + also_loaded) as i64
    }
}

/// The vectors and the numbers of a stretch while it is written.
#[derive(Default)]
pub(super) struct Written {
    vectors: HashMap<[Source; 2], Value>,
    results: HashMap<usize, Value>,
}

impl Written {
    /// Notes the result of an instruction that is not one of a pair.
    pub(super) fn result(&mut self, inst: usize, value: Value) {
        self.results.insert(inst, value);
    }
}

impl Function<'_, '_> {
    /// The result of an instruction of a stretch, if it is one of a pair. Both are written at the first.
    pub(super) fn paired(&mut self, pairs: &Pairs, written: &mut Written, inst: usize) -> Option<Value> {
        let Some(&second) = pairs.second_of.get(&inst) else {
            return written.results.get(&inst).copied();
        };
        let [first, other] = [inst, second].map(|n| pairs.candidates[n].as_ref().expect("pairs are of candidates"));
        let mut args = Vec::with_capacity(first.args.len());
        for (&a, &b) in first.args.iter().zip(&other.args) {
            args.push(self.vector_of([a, b], written));
        }
        let vector = self.emit.scalar(first.op, &args);
        written.vectors.insert([inst, second].map(Source::Result), vector);
        for (lane, n) in (0..).zip([inst, second]) {
            let value = self.emit.b.ins().extractlane(vector, lane);
            written.results.insert(n, value);
        }
        written.results.get(&inst).copied()
    }

    /// Two operands as a vector.
    fn vector_of(&mut self, pair: [Source; 2], written: &mut Written) -> Value {
        if let Some(&vector) = written.vectors.get(&pair) {
            return vector;
        }
        let vector = match pair {
            [a, b] if a == b => {
                let value = self.scalar_of(a, written);
                splat(self.emit, value)
            }
            [Source::Register(a), Source::Register(b)] if self.late.are_adjacent(a, b) => {
                let (place, at) = self.late.place(a).expect("a register that is late has a place");
                let vector = self.emit.b.ins().load(F64X2, UNALIGNED, place, at);
                for (lane, register) in (0..).zip([a, b]) {
                    let value = self.emit.b.ins().extractlane(vector, lane);
                    self.set_real(register, value);
                }
                vector
            }
            _ => {
                let values = pair.map(|source| self.scalar_of(source, written));
                self.emit.vector(values)
            }
        };
        written.vectors.insert(pair, vector);
        vector
    }

    fn scalar_of(&mut self, source: Source, written: &Written) -> Value {
        match source {
            Source::Register(register) => self.real(register),
            Source::Constant(bits) => self.emit.b.ins().f64const(f64::from_bits(bits)),
            Source::Result(inst) => written.results[&inst],
        }
    }

    /// What is tested for NaN in the end, vectors and numbers: each vector stands for two registers.
    pub(super) fn tested(&mut self, pairs: Option<&Pairs>, written: &Written, registers: &[u16]) -> [Vec<Value>; 2] {
        let mut left: Vec<u16> = registers.to_vec();
        let mut vectors = Vec::new();
        if let Some(pairs) = pairs {
            let by_result: HashMap<usize, u16> = registers
                .iter()
                .filter_map(|register| match pairs.held.get(register) {
                    Some(&Source::Result(inst)) => Some((inst, *register)),
                    _ => None,
                })
                .collect();
            for &register in registers {
                if let Some(&Source::Result(first)) = pairs.held.get(&register)
                    && let Some(second) = pairs.second_of.get(&first)
                    && by_result.contains_key(second)
                {
                    vectors.push(written.vectors[&[first, *second].map(Source::Result)]);
                    left.retain(|&one| one != register && Some(&one) != by_result.get(second));
                }
            }
        }
        let numbers = left.iter().map(|&register| self.real(register)).collect();
        [vectors, numbers]
    }
}
