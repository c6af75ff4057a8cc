//! Arithmetic of a stretch in pairs, on vectors of two (superword-level parallelism, Larsen and Amarasinghe 2000).
//!
//! Tangents in several directions are computed by the same instructions on other registers, and read from arrays in
//! which they stand side by side. Two that do the same become one on a vector. A pair begins where two operands stand
//! side by side in memory, or where one operand is the same in both, and goes on with what is computed from pairs. Lane
//! by lane a vector has the numbers that scalars have.

use super::Function;
use super::constants::Constants;
use super::late::LateLoads;
use super::twins::AllTwins;
use crate::emit::UNALIGNED;
use crate::lenient::pure;
use crate::vectors::{MACHINE_HAS_VECTORS, is_for_vectors, splat};
use cranelift_codegen::ir::types::F64X2;
use cranelift_codegen::ir::{InstBuilder, Value};
use dualvm_vm::isa::{Bank, Op};
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

/// What an instruction computes.
#[derive(Debug)]
struct Node {
    /// Whether it may be one of a pair.
    op: Option<Op>,
    /// The reals that it reads.
    args: Vec<Source>,
}

/// What is known of registers where a stretch begins: which are still to be loaded, and which are vectors.
#[derive(Clone, Copy)]
pub(super) struct Found<'f> {
    pub(super) late: &'f LateLoads,
    pub(super) twins: &'f AllTwins,
}

/// Which instructions of a stretch are computed in pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    nodes: Vec<Node>,
    /// For the first of each pair, the second.
    second_of: HashMap<usize, usize>,
    /// What registers hold in the end that were written.
    held: HashMap<u16, Source>,
}

impl Pairs {
    /// The pairs of a stretch's arithmetic; `None` if they wouldn't pay. `lenient` says which products are plain ones,
    /// `live` which registers are read later.
    pub(super) fn new(
        (arithmetic, lenient): (&[Inst], &[bool]),
        live: &[u16],
        constants: &Constants,
        found: Found<'_>,
    ) -> Option<Pairs> {
        if !MACHINE_HAS_VECTORS {
            return None;
        }
        let written = |inst: &Inst| inst.pure_result().filter(|reg| reg.bank == Bank::Real).map(|reg| reg.index);
        let overwritten: HashSet<u16> = arithmetic.iter().filter_map(written).collect();
        let mut held: HashMap<u16, Source> = HashMap::new();
        let mut nodes = Vec::with_capacity(arithmetic.len());
        for (n, (inst, &lenient)) in arithmetic.iter().zip(lenient).enumerate() {
            let source = |register: u16| match (held.get(&register), constants.real(register)) {
                (_, Some(constant)) => Source::Constant(constant.to_bits()),
                (Some(&source), None) => source,
                (None, None) => Source::Register(register),
            };
            let (mut op, mut args) = (None, Vec::new());
            let written = match pure(inst) {
                Pure::Scalar(scalar) => {
                    let reals = scalar.args().iter().filter(|reg| reg.bank == Bank::Real);
                    args.extend(reals.map(|reg| source(reg.index)));
                    op = Some(if lenient { Op::Mul } else { scalar.op }).filter(|&op| is_for_vectors(op));
                    (scalar.dst.bank == Bank::Real).then_some((scalar.dst.index, Source::Result(n)))
                }
                // What a register held when the stretch began is read from there, unless it is overwritten.
                Pure::PrimalMov { dst, src } => match source(src.0) {
                    Source::Register(src) if overwritten.contains(&src) => Some((dst.0, Source::Result(n))),
                    source => Some((dst.0, source)),
                },
                Pure::PrimalConst { dst, value } => Some((dst.0, Source::Constant(value))),
                _ => None,
            };
            held.extend(written);
            nodes.push(Node { op, args });
        }
        let mut pairs = Pairs { nodes, second_of: HashMap::new(), held };
        pairs.find(found);
        (pairs.saved(live, found) >= SAVED_MIN as i64).then_some(pairs)
    }

    fn find(&mut self, registers: Found<'_>) {
        let len = self.nodes.len();
        let mut is_written = vec![false; len];
        for first in 0..len {
            if std::mem::replace(&mut is_written[first], true) {
                continue;
            }
            let node = &self.nodes[first];
            if node.op.is_none() {
                continue;
            }
            let mut found = None;
            for second in first + 1..len.min(first + 1 + WINDOW) {
                let other = &self.nodes[second];
                let is_known = |source: &Source| !matches!(source, Source::Result(n) if *n == first || !is_written[*n]);
                if is_written[second] || other.op != node.op || !other.args.iter().all(is_known) {
                    continue;
                }
                let operands = || self.operands([first, second]);
                if operands().any(|pair| self.is_vector(pair, registers)) {
                    found = Some(second);
                    break;
                }
                let (same, all) = (operands().filter(|[a, b]| a == b).count(), node.args.len());
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

    /// The operands of two instructions, by place.
    fn operands(&self, pair: [usize; 2]) -> impl Iterator<Item = [Source; 2]> {
        let [first, second] = pair.map(|n| &self.nodes[n]);
        first.args.iter().zip(&second.args).map(|(&a, &b)| [a, b])
    }

    /// Whether two operands are a vector as they are.
    fn is_vector(&self, pair: [Source; 2], found: Found<'_>) -> bool {
        match pair {
            [Source::Result(a), Source::Result(b)] => self.second_of.get(&a) == Some(&b),
            [Source::Register(a), Source::Register(b)] => {
                found.late.are_adjacent(a, b) || found.twins.have_vector([a, b])
            }
            _ => false,
        }
    }

    /// The pair whose results two registers hold in the end, by its first instruction.
    pub(super) fn pair_in(&self, registers: [u16; 2]) -> Option<usize> {
        match registers.map(|register| self.held.get(&register)) {
            [Some(Source::Result(first)), Some(Source::Result(second))] => {
                (self.second_of.get(first) == Some(second)).then_some(*first)
            }
            _ => None,
        }
    }

    /// The vectors that are read as the stretch finds them, as registers.
    pub(super) fn vectors_read(&self) -> impl Iterator<Item = [u16; 2]> {
        let operands = self.second_of.iter().flat_map(|(&first, &second)| self.operands([first, second]));
        operands.filter_map(|pair| match pair {
            [Source::Register(a), Source::Register(b)] => Some([a, b]),
            _ => None,
        })
    }

    /// How many instructions pairs save, less those that put vectors together and take them apart.
    fn saved(&self, live: &[u16], found: Found<'_>) -> i64 {
        let seconds: HashSet<usize> = self.second_of.values().copied().collect();
        // Read one by one: results, and what is put together.
        let mut read: HashSet<Source> = HashSet::new();
        let (mut loaded, mut put) = (HashSet::new(), HashSet::new());
        for (&first, &second) in &self.second_of {
            for pair in self.operands([first, second]) {
                if !self.is_vector(pair, found) {
                    let is_constant = pair[0] == pair[1] && matches!(pair[0], Source::Constant(_));
                    if !is_constant && put.insert(pair) {
                        read.extend(pair);
                    }
                } else if let [Source::Register(a), Source::Register(b)] = pair
                    && found.late.are_adjacent(a, b)
                {
                    loaded.insert(pair);
                }
            }
        }
        let is_single = |n: &usize| !self.second_of.contains_key(n) && !seconds.contains(n);
        (0..self.nodes.len()).filter(is_single).for_each(|n| read.extend(&self.nodes[n].args));
        let together: HashSet<u16> =
            found.twins.pairs().filter(|&twins| self.pair_in(twins).is_some()).flatten().collect();
        let apart = live.iter().filter(|register| !together.contains(register));
        read.extend(apart.filter_map(|register| self.held.get(register)));
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
        let args: Vec<Value> = pairs.operands([inst, second]).map(|pair| self.vector_of(pair, written)).collect();
        let vector = self.emit.scalar(pairs.nodes[inst].op.expect("it may be one of a pair"), &args);
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
            [Source::Register(a), Source::Register(b)] if let Some(vector) = self.vector_of_twins([a, b]) => vector,
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

    /// Notes the twins that hold results of a pair in the end.
    pub(super) fn pair_twins(&mut self, pairs: &Pairs, written: &Written) {
        let twins: Vec<[u16; 2]> = self.twins.pairs().collect();
        for twins in twins {
            if let Some(first) = pairs.pair_in(twins) {
                self.set_twins(twins, written.vectors[&[first, pairs.second_of[&first]].map(Source::Result)]);
            }
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
