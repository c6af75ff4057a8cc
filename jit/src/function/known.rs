//! What is known of objects: the lengths of arrays, and the tags of variants.
//!
//! Objects don't change, so either is found out once: in a block, and in those to which control comes from there alone,
//! such as the arms of a `match`, where the branch itself says which tag there is.

use super::{Function, cell};
use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::types::I64;
use dualvm_vm::native::layout::LEN;
use dualvm_vm::native::{Inst, IntReg, Position, RefReg, Stream};
use std::collections::BTreeMap;

/// No more than this is handed on to other blocks.
const HANDED_ON_MAX: usize = 64;

/// By reference register.
#[derive(Clone, Default)]
pub(super) struct Known {
    lens: BTreeMap<u16, Value>,
    tags: BTreeMap<u16, u16>,
    /// The integer register that holds an object's tag, the object's register, and how many tags there are.
    tag: Option<(IntReg, RefReg, u16)>,
}

impl Known {
    pub(super) fn len(&self, array: u16) -> Option<Value> {
        self.lens.get(&array).copied()
    }

    pub(super) fn set_len(&mut self, array: u16, len: Value) {
        self.lens.insert(array, len);
    }

    pub(super) fn tag(&self, object: u16) -> Option<u16> {
        self.tags.get(&object).copied()
    }

    pub(super) fn set_tag(&mut self, object: u16, tag: u16) {
        self.tags.insert(object, tag);
    }

    /// A reference register is written, with what another one holds if `from` says so.
    pub(super) fn write(&mut self, register: u16, from: Option<u16>) {
        let known = from.map(|from| (self.len(from), self.tag(from))).unwrap_or_default();
        self.lens.remove(&register);
        self.tags.remove(&register);
        self.lens.extend(known.0.map(|len| (register, len)));
        self.tags.extend(known.1.map(|tag| (register, tag)));
        self.tag = self.tag.filter(|&(_, object, _)| object.0 != register);
    }

    /// An integer register is written.
    pub(super) fn write_int(&mut self, register: u16) {
        self.tag = self.tag.filter(|&(holds, ..)| holds.0 != register);
    }

    /// An integer register is written with an object's tag, which is less than `tags`.
    pub(super) fn set_tag_register(&mut self, register: IntReg, object: RefReg, tags: u16) {
        self.tag = Some((register, object, tags));
    }

    /// What an instruction that leads to a block says of an object's tag there, if nothing else leads to it.
    fn tag_by(&self, inst: &Inst, stream: &Stream, block: Position) -> Option<(u16, u16)> {
        let (register, object, tags) = self.tag?;
        let tag = match *inst {
            Inst::Branch { cond, other, .. }
            | Inst::CheckedBranch { cond, other, .. }
            | Inst::BackBranch { cond, other, .. }
                if cond == register =>
            {
                if block == other {
                    Some(0)
                } else {
                    (tags == 2).then_some(1)
                }
            }
            Inst::Switch { index, site } if index == register => {
                let targets = &stream.switches[site].targets;
                targets.iter().position(|&target| target == block).map(|tag| tag as u16)
            }
            _ => None,
        };
        Some((object.0, tag?))
    }
}

impl Function<'_, '_> {
    /// The length of an array. Arrays don't change, so it is loaded once.
    pub(super) fn len(&mut self, register: u16) -> Value {
        if let Some(len) = self.known.len(register) {
            return len;
        }
        let array = self.reference(register);
        let len = self.emit.load(I64, array, cell(LEN));
        self.known.set_len(register, len);
        len
    }

    /// Hands on what is known to a block to which control goes from the instruction here, if it comes from nowhere
    /// else. To what a tight loop leads to it comes from single rounds and from groups.
    pub(super) fn hand_on(&mut self, inst: &Inst, block: Position) {
        let number = self.graph.number(block);
        let from_here_alone = self.graph.before[number].len() == 1 && block > self.at && self.inside.is_none();
        let few = self.known.lens.len() + self.known.tags.len() <= HANDED_ON_MAX;
        if !from_here_alone || !few || self.request.entry == Some(block) {
            return;
        }
        let mut known = self.known.clone();
        known.tags.extend(known.tag_by(inst, self.stream, block));
        self.known_at.insert(number, known);
    }
}
