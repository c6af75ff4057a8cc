//! What registers are called in formulas: by the source's names where these are known.
//!
//! A register that holds a parameter has the parameter's name, with the place in it if it is a tuple or a record. What
//! a piece reads of an array or of an object right before has the name of that place, as long as the registers that the
//! place is made of still hold what they held. All others are called as assembly calls them.

use crate::bytecode::isa::{Bank, Op, Reg};
use crate::bytecode::module::{Body, Function, HostType, ModuleDef};
use crate::preparation::flow::{Block, FlowGraph};
use crate::preparation::segmentation::Segment;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// What a value is called, and its derivatives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    base: String,
    /// Where the value stands in that, as in `[i0]`.
    place: String,
}

impl Name {
    fn of(base: String) -> Self {
        Name { base, place: String::new() }
    }

    fn part(&self, part: impl Display) -> Self {
        Name { base: self.base.clone(), place: format!("{}.{part}", self.place) }
    }

    pub(super) fn value(&self) -> String {
        format!("{}{}", self.base, self.place)
    }

    pub(super) fn tangent(&self) -> String {
        format!("{}_tan{}", self.base, self.place)
    }

    pub(super) fn adjoint(&self) -> String {
        format!("{}_adj{}", self.base, self.place)
    }
}

/// A register that begins as a parameter.
struct Param {
    name: Name,
    /// The blocks that may find something else in it; none if nothing is ever written to it.
    lost_in: Vec<bool>,
}

/// The names of a function's registers.
pub(super) struct Names<'a> {
    /// As it was compiled.
    original: &'a Body,
    /// With the registers that the cut into segments has added.
    body: &'a Body,
    flow: &'a FlowGraph,
    params: HashMap<Reg, Param>,
    /// Integer registers that always hold the same.
    constants: &'a HashMap<u16, u64>,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        module: &ModuleDef,
        function: &'a Function,
        (body, flow): (&'a Body, &'a FlowGraph),
        constants: &'a HashMap<u16, u64>,
    ) -> Self {
        let (mut params, mut next) = (HashMap::new(), HashMap::new());
        for (name, ty) in function.interface.iter().flat_map(|interface| &interface.params) {
            name_parts(module, Name::of(name.clone()), ty, &mut |bank, name| {
                let index = next.entry(bank).or_insert(0);
                params.insert(Reg { bank, index: *index }, Param { name, lost_in: Vec::new() });
                *index += 1;
            });
        }
        let mut written: HashMap<Reg, Vec<usize>> = HashMap::new();
        for (number, block) in flow.blocks().iter().enumerate() {
            for inst in &body.code[block.start as usize..block.end as usize] {
                body.for_each_reg(inst, |reg, def| {
                    if def && params.contains_key(&reg) {
                        written.entry(reg).or_default().push(number);
                    }
                });
            }
        }
        for (reg, blocks) in written {
            let mut lost_in = vec![false; flow.blocks().len()];
            let mut left: Vec<u32> = blocks.iter().flat_map(|&block| flow.successors(block)).copied().collect();
            while let Some(block) = left.pop() {
                if !std::mem::replace(&mut lost_in[block as usize], true) {
                    left.extend(flow.successors(block as usize));
                }
            }
            params.get_mut(&reg).expect("only parameters were noted").lost_in = lost_in;
        }
        Names { original: &function.body, body, flow, params, constants }
    }

    /// The block that an instruction is in.
    fn block_of(&self, at: u32) -> (usize, Block) {
        let number = self.flow.blocks().partition_point(|block| block.start <= at) - 1;
        (number, self.flow.blocks()[number])
    }

    /// What an integer register holds at an instruction.
    pub(super) fn int(&self, index: u16, at: u32) -> String {
        match self.constants.get(&index) {
            Some(&bits) => (bits as i64).to_string(),
            None => self.register(Reg { bank: Bank::Int, index }, at).value(),
        }
    }

    /// What a register holds at an instruction.
    fn register(&self, reg: Reg, at: u32) -> Name {
        let (number, block) = self.block_of(at);
        match self.params.get(&reg) {
            Some(Param { name, lost_in })
                if !lost_in.get(number).is_some_and(|&lost| lost) && !self.is_written(reg, block.start, at) =>
            {
                name.clone()
            }
            _ => Name::of(assembly_name(reg)),
        }
    }

    /// The real registers that a piece reads.
    pub(super) fn read_by(&self, segment: &Segment) -> Vec<Name> {
        let written: HashSet<(u32, u16)> = segment.writes.iter().map(|&(at, reg, _)| (at, reg)).collect();
        let start = self.block_of(segment.start).1.start;
        let name = |&index: &u16| {
            let reg = Reg { bank: Bank::Real, index };
            let loaded_at = (start..segment.end)
                .rev()
                .find(|&at| !written.contains(&(at, index)) && self.is_written(reg, at, at + 1));
            loaded_at.and_then(|at| self.place(at, segment.end)).unwrap_or_else(|| match loaded_at {
                // The cut has given it a register of its own, which isn't in the listing.
                Some(at) if u32::from(index) >= self.original.reals => {
                    Name::of(format!("r{}@{at}", self.original.code[at as usize].a))
                }
                Some(_) => Name::of(assembly_name(reg)),
                None => self.register(reg, segment.start),
            })
        };
        segment.real_inputs.iter().map(name).collect()
    }

    /// The real registers that a piece writes. One that it reads, too, has a prime then.
    pub(super) fn written_by(segment: &Segment, read: &[Name]) -> Vec<Name> {
        let name = |&(index, _): &(u16, _)| {
            let mut name = Name::of(assembly_name(Reg { bank: Bank::Real, index }));
            if read.contains(&name) {
                name.base.push('\'');
            }
            name
        };
        segment.outputs.iter().map(name).collect()
    }

    /// Whether one of the instructions from `start` to before `end` writes to a register.
    fn is_written(&self, reg: Reg, start: u32, end: u32) -> bool {
        let mut written = false;
        for inst in &self.body.code[start as usize..end as usize] {
            self.body.for_each_reg(inst, |other, def| written |= def && other == reg);
        }
        written
    }

    /// The place that an instruction loads a real from, if it is still called so at `end`.
    fn place(&self, at: u32, end: u32) -> Option<Name> {
        let inst = &self.body.code[at as usize];
        let object = Reg { bank: Bank::Ref, index: inst.b };
        let (place, index) = match inst.op {
            Op::Elem => (format!("[{}]", self.int(inst.c, at)), Some(Reg { bank: Bank::Int, index: inst.c })),
            Op::Field => (format!(".{}", inst.c), None),
            _ => return None,
        };
        let is_kept = |reg: Reg| !self.is_written(reg, at, end);
        (is_kept(object) && index.is_none_or(is_kept)).then(|| {
            let Name { base, place: before } = self.register(object, at);
            Name { base, place: before + &place }
        })
    }
}

fn assembly_name(reg: Reg) -> String {
    let prefix = match reg.bank {
        Bank::Real => 'r',
        Bank::Int => 'i',
        Bank::Ref => 'p',
    };
    format!("{prefix}{}", reg.index)
}

/// Calls `each` with bank and name of each register of a parameter.
fn name_parts(module: &ModuleDef, name: Name, ty: &HostType, each: &mut impl FnMut(Bank, Name)) {
    match ty {
        HostType::Tuple(parts) => {
            parts.iter().enumerate().for_each(|(n, part)| name_parts(module, name.part(n), part, each));
        }
        HostType::Record(parts) => {
            parts.iter().for_each(|(field, part)| name_parts(module, name.part(field), part, each));
        }
        _ => ty.flatten(&module.data).into_iter().for_each(|register| each(register.bank(), name.clone())),
    }
}
