//! Code at a depth: every real with its components, which are computed where a segment ends.
//!
//! Register r of the bytecode is 2^d registers here, r · 2^d + S for component S. Instructions that move reals move all
//! components. Segments are those of depth 0: their own instructions compute components {}, in place, and stand where
//! they did, so what reads primals in between finds them. The other components follow at the segment's end, from what
//! is in registers then: components of the inputs, which the segment has not written yet, and primals, of which those
//! that the segment itself overwrites are copied first.

use super::Emitter;
use crate::bytecode::isa::{self, Bank, Op, Reg, Role, Structural};
use crate::code::{Inst, IntReg, ObjectSite, RealReg, RefReg, RegList, Site};
use crate::derivation::assembler::Assembler;
use crate::derivation::components::{adjoint_with_components_within, with_components_within};
use crate::derivation::graph::{Node, NodeId};
use crate::derivation::piece::Piece;
use crate::memory::heap::{self, planes};
use crate::preparation::Grain;
use crate::preparation::segmentation::Segment;
use crate::records::segment::{
    EndRegisters, OutputWord, SegmentAdjoint, SegmentCode, SegmentSite, SegmentStructure, checked_record,
    computed_outputs, slot_words,
};
use crate::trap::TrapKind;
use std::collections::{HashMap, HashSet};

/// Registers of a bank that a function may have at a depth, that may be handed on at once, and that the sweep of a
/// segment may take.
const REGISTERS_MAX: usize = 65_000;
/// Nodes of what a segment becomes: they grow with 3^d.
const NODES_MAX: usize = 1 << 17;
/// Instructions of a function, and registers in its lists, together.
const INSTRUCTIONS_MAX: usize = 1 << 21;
/// What deriving takes per node, in the units of [`Watch::tick`](crate::running::meter::Watch::tick).
const NODE_WORK: usize = 32;
/// Bytes of a record, at most: it stands in one slab.
const RECORD_BYTES_MAX: usize = 16 << 10;

impl Emitter<'_> {
    fn depth(&self) -> u32 {
        self.mode.depth()
    }

    /// The register of a component.
    fn part(&self, reg: u16, part: usize) -> u16 {
        (reg << self.depth()) + part as u16
    }

    /// The components of a real.
    fn parts(&self) -> std::ops::Range<usize> {
        0..1 << self.depth()
    }

    /// Whether what was written can run: registers have 16 bits, and what frames hand to each other has a bound.
    pub(super) fn check_size(&self) -> Result<(), TrapKind> {
        let order = self.depth();
        let registers = self.stream.reals.max(self.stream.ints).max(self.widest).max(self.swept);
        let too_large = order > 0 && (registers > REGISTERS_MAX || self.largest_record > RECORD_BYTES_MAX);
        if too_large { Err(TrapKind::TooLargeToDerive { order }) } else { Ok(()) }
    }

    /// Whether there is too much code already. What moves reals grows with 2^d, and no limit of the run counts it.
    pub(super) fn check_length(&self) -> Result<(), TrapKind> {
        let order = self.depth();
        let too_long = order > 0 && self.stream.code.len() + self.listed > INSTRUCTIONS_MAX;
        if too_long { Err(TrapKind::TooLargeToDerive { order }) } else { Ok(()) }
    }

    /// An instruction of the bytecode, with the components of what it moves. It is none of a segment's own.
    pub(super) fn lower_deep(&mut self, at: u32) {
        let body = self.body;
        let inst = &body.code[at as usize];
        let [a, b, c, d] = inst.narrow();
        let words = self.mode.is_recording();
        let Some(structural) = inst.op.structural() else { return self.scalar_deep(at) };
        match structural {
            Structural::Mov => {
                for part in self.parts() {
                    let (dst, src) = (RealReg(self.part(a, part)), RealReg(self.part(b, part)));
                    self.push(at, if words { Inst::Mov { dst, src } } else { Inst::PrimalMov { dst, src } });
                }
            }
            Structural::Const => {
                self.constant(at, self.part(a, 0), inst.imm);
                self.zeros(at, a);
            }
            Structural::StructNew | Structural::VariantNew | Structural::ClosureNew => {
                let tag = match structural {
                    Structural::StructNew => 0,
                    Structural::VariantNew => u32::from(b),
                    _ => inst.low(),
                };
                let site = self.deep_object_site(inst, tag, 0);
                self.push(at, Inst::NewDeep { dst: RefReg(a), site });
            }
            Structural::ChainPush => {
                let site = self.deep_object_site(inst, u32::from(c), 1);
                self.push(at, Inst::ChainPushDeep { dst: RefReg(a), chain: RefReg(b), site });
            }
            Structural::Pack => {
                let (uses, _) = body.reg_lists(inst);
                let (uses, element) = (self.by_planes(uses), self.element(a));
                let site = ObjectSite { header: heap::array_header(element), uses, element };
                let site = self.stream.objects.push(site);
                self.push(at, Inst::PackDeep { dst: RefReg(a), site });
            }
            Structural::Field | Structural::Payload => {
                let is_payload = structural == Structural::Payload;
                let (tag, number) = if is_payload { (c, d) } else { (0, c) };
                let (layout, nth) = self.field(b, tag, number);
                let (primal, word) = (layout.real_at(nth) as u32, layout.word_at(nth) as u32);
                let (dst, object) = (RealReg(self.part(a, 0)), RefReg(b));
                self.push(
                    at,
                    match structural {
                        Structural::Payload => Inst::Payload { dst, object, tag, primal, word },
                        _ => Inst::Field { dst, object, primal, word },
                    },
                );
                for part in self.parts().skip(1) {
                    let primal = planes::field_at(layout, part, nth);
                    let (word, depth) = ((primal + layout.reals) as u32, layout.size() as u16);
                    let dst = RealReg(self.part(a, part));
                    self.push(at, Inst::FieldPart { dst, object, depth, primal: primal as u32, word });
                }
            }
            Structural::Elem => {
                let (array, index) = (RefReg(b), IntReg(c));
                self.push(at, Inst::PrimalElem { dst: RealReg(self.part(a, 0)), array, index });
                // The first slot of component {} isn't there for the asking as it is at depth 0.
                for part in self.parts().skip(usize::from(!words)) {
                    let dst = RealReg(self.part(a, part));
                    self.push(at, Inst::ElemPart { dst, array, index, part: part as u16 });
                }
            }
            Structural::Push => {
                let (builder, value) = (RefReg(a), RealReg(self.part(b, 0)));
                self.push(at, if words { Inst::Push { builder, value } } else { Inst::PrimalPush { builder, value } });
                for part in self.parts().skip(1) {
                    let value = RealReg(self.part(b, part));
                    self.push(at, Inst::PushPart { builder, value, part: part as u16 });
                }
            }
            Structural::Get => {
                let (builder, index, dst) = (RefReg(b), IntReg(c), RealReg(self.part(a, 0)));
                let lowest =
                    if words { Inst::Get { dst, builder, index } } else { Inst::PrimalGet { dst, builder, index } };
                self.push(at, lowest);
                for part in self.parts().skip(1) {
                    let dst = RealReg(self.part(a, part));
                    self.push(at, Inst::GetPart { dst, builder, index, part: part as u16 });
                }
            }
            Structural::Put => {
                let (builder, index, value) = (RefReg(a), IntReg(b), RealReg(self.part(c, 0)));
                let lowest =
                    if words { Inst::Put { builder, index, value } } else { Inst::PrimalPut { builder, index, value } };
                self.push(at, lowest);
                for part in self.parts().skip(1) {
                    let value = RealReg(self.part(c, part));
                    self.push(at, Inst::PutPart { builder, index, value, part: part as u16 });
                }
            }
            _ => return self.lower(at, words),
        }
        self.cost += 1;
    }

    /// A scalar instruction whose result has no derivative. Components {} are all that it reads.
    fn scalar_deep(&mut self, at: u32) {
        let inst = self.body.code[at as usize];
        self.push_scalar(at);
        if inst.op.info().operands[0].role == Role::Def(Bank::Real) {
            if self.mode.is_recording() {
                self.push(at, Inst::Passive { dst: RealReg(self.part(inst.a, 0)) });
            }
            self.zeros(at, inst.a);
        }
        self.cost += 1;
    }

    /// A scalar instruction on components {}.
    fn push_scalar(&mut self, at: u32) {
        let inst = self.body.code[at as usize];
        let operands = inst.op.info().operands;
        let mut registers = inst.narrow();
        for (register, operand) in registers.iter_mut().zip(operands) {
            if matches!(operand.role, Role::Def(Bank::Real) | Role::Use(Bank::Real)) {
                *register = self.part(*register, 0);
            }
        }
        let scalar = Inst::scalar(inst.op, registers[0], &registers[1..operands.len()]);
        self.push(at, scalar.expect("the instruction is a scalar one, with its operands"));
    }

    fn constant(&mut self, at: u32, dst: u16, value: u64) {
        let dst = RealReg(dst);
        let recording = self.mode.is_recording();
        self.push(at, if recording { Inst::Const { dst, value } } else { Inst::PrimalConst { dst, value } });
    }

    /// The components above the lowest of what doesn't depend on anything.
    fn zeros(&mut self, at: u32, reg: u16) {
        for part in self.parts().skip(1) {
            self.constant(at, self.part(reg, part), 0.0f64.to_bits());
        }
    }

    fn by_planes(&mut self, regs: &[Reg]) -> RegList {
        let list = RegList::at_depth(regs, self.depth(), true);
        self.widest = self.widest.max(list.reals.len());
        self.listed += list.reals.len();
        list
    }

    fn deep_object_site(&mut self, inst: &isa::Inst, tag: u32, open: usize) -> Site<ObjectSite> {
        let (uses, _) = self.body.reg_lists(inst);
        let counts = RegList::new(uses).counts();
        let fields = heap::Fields { reals: counts.reals, ints: counts.ints, refs: counts.refs + open };
        let (header, uses) = (self.header(inst, fields, tag), self.by_planes(uses));
        self.stream.objects.push(ObjectSite { header, uses, element: Bank::Ref })
    }

    /// Emits a segment: its instructions as they stand, then the components of its outputs, then its end.
    ///
    /// # Errors
    /// What the watch says, and if there would be too much code.
    pub(super) fn deep_segment(&mut self, segment: Segment) -> Result<(), TrapKind> {
        let (start, end, depth) = (segment.start, segment.end, self.depth());
        let check = self.check_of(&segment);
        let Segment { graph, real_inputs, int_inputs, outputs, writes, .. } = segment;
        let computed = computed_outputs(&graph, &outputs);
        let count = computed.len();
        let (reals, ints) = (real_inputs.len() as u32, int_inputs.len() as u32);
        let piece = Piece { graph, reals, ints, outputs: computed };
        let too_large = TrapKind::TooLargeToDerive { order: depth };
        let derived = with_components_within(&piece, depth, NODES_MAX).ok_or(too_large.clone())?;
        self.watch.tick(NODE_WORK * derived.graph.len())?;
        let record = if self.mode.is_recording() {
            let adjoint = adjoint_with_components_within(&piece, &derived, depth, NODES_MAX);
            let adjoint = adjoint.ok_or(too_large.clone())?;
            self.watch.tick(NODE_WORK * adjoint.graph.len())?;
            let record = match self.grain {
                Grain::Instruction => SegmentAdjoint::saving_inputs(&derived, &adjoint, reals),
                Grain::Region | Grain::Segment => SegmentAdjoint::of(&derived, &adjoint, reals),
            };
            if self.grain == Grain::Segment && !record.inputs.is_empty() && !outputs.is_empty() {
                self.structures.push(SegmentStructure::new(&derived, &adjoint, &record));
            }
            Some(record)
        } else {
            None
        };

        // What the other components need, and what a record saves.
        let mut needed = vec![false; derived.graph.len()];
        let saved = record.iter().flat_map(|record| record.saved_reals.iter().chain(&record.saved_ints));
        derived.outputs[count..].iter().chain(saved).for_each(|id| needed[id.index()] = true);
        let kept = needed.clone();
        for (id, _) in derived.graph.iter().rev().take(derived.graph.len() - piece.graph.len()) {
            if needed[id.index()] {
                derived.graph.args(id).for_each(|arg| needed[arg.index()] = true);
            }
        }

        let own = (self.body.reals as usize) << depth;
        let ends = EndRegisters::new(&piece.graph, &real_inputs, &writes);
        let mut assembler = Assembler::new(&derived.graph, own, self.body.ints as usize);
        let mut copies = Vec::new();
        for (id, node) in derived.graph.iter().filter(|(id, _)| needed[id.index()]) {
            let is_primal = id.index() < piece.graph.len();
            let register = match node {
                Node::Real(_) | Node::Int(_) => continue,
                Node::IntInput(n) => int_inputs[n as usize],
                Node::RealInput(n) if !is_primal => self.component(&real_inputs, n),
                _ if is_primal => match ends.of(id) {
                    (reg, None) => self.part(reg, 0),
                    (reg, Some(before)) => {
                        let to = assembler.fresh(Bank::Real);
                        copies.push((before, self.part(reg, 0), to));
                        to
                    }
                },
                _ => continue,
            };
            assembler.place_at(id, register);
        }

        for at in start..end {
            self.arrive(at);
            for &(_, from, to) in copies.iter().filter(|&&(before, ..)| before == at) {
                self.push(at, Inst::PrimalMov { dst: RealReg(to), src: RealReg(from) });
            }
            let inst = self.body.code[at as usize];
            let is_own = writes.binary_search_by_key(&at, |&(at, ..)| at).is_ok();
            match inst.op {
                Op::Mov if is_own => {
                    let (dst, src) = (RealReg(self.part(inst.a, 0)), RealReg(self.part(inst.b, 0)));
                    self.push(at, Inst::PrimalMov { dst, src });
                    self.cost += 1;
                }
                _ if is_own => {
                    self.push_scalar(at);
                    self.cost += 1;
                }
                _ => self.lower_deep(at),
            }
        }

        let mut code = Vec::new();
        assembler.compute_all(&needed, &kept, &mut code);
        // Outputs are written when all of them are known: what one of them overwrites, another one may be, or a record
        // may save.
        let parts_of = |&(reg, _): &(u16, NodeId)| self.parts().skip(1).map(move |part| (reg << depth) + part as u16);
        let written: HashSet<u16> = outputs.iter().flat_map(parts_of).collect();
        let mut kept = HashMap::new();
        let mut keep = |src: u16, code: &mut Vec<Inst>, assembler: &mut Assembler<'_>| {
            if !written.contains(&src) {
                return src;
            }
            *kept.entry(src).or_insert_with(|| {
                let dst = assembler.fresh(Bank::Real);
                code.push(Inst::PrimalMov { dst: RealReg(dst), src: RealReg(src) });
                dst
            })
        };
        let mut moves = Vec::new();
        for part in self.parts().skip(1) {
            for &(reg, node) in &outputs {
                let dst = RealReg(self.part(reg, part));
                let src = match piece.graph.node(node) {
                    Node::Op(..) => {
                        let nth = piece.outputs.binary_search(&node).expect("every computed output is listed");
                        assembler.register(derived.outputs[part * count + nth])
                    }
                    Node::RealInput(n) => self.part(real_inputs[n as usize], part),
                    _ => {
                        moves.push(Inst::PrimalConst { dst, value: 0.0f64.to_bits() });
                        continue;
                    }
                };
                if src != dst.0 {
                    let src = RealReg(keep(src, &mut code, &mut assembler));
                    moves.push(Inst::PrimalMov { dst, src });
                }
            }
        }
        let site = record.as_ref().filter(|_| !outputs.is_empty()).map(|record| {
            let mut saved = |id: &NodeId| keep(assembler.register(*id), &mut code, &mut assembler);
            let saved_reals: Box<[u16]> = record.saved_reals.iter().map(&mut saved).collect();
            let saved_ints: Box<[u16]> = record.saved_ints.iter().map(|&id| assembler.register(id)).collect();
            let words = slot_words(record);
            let word = |part: usize, node: NodeId| match piece.graph.node(node) {
                Node::RealInput(n) => OutputWord::Copy(self.part(real_inputs[n as usize], part)),
                Node::Op(..) => {
                    let nth = piece.outputs.binary_search(&node).expect("every computed output is listed");
                    words[part * count + nth]
                }
                _ => OutputWord::Zero,
            };
            let outputs: Box<[(u16, OutputWord)]> = outputs
                .iter()
                .flat_map(|&(reg, node)| self.parts().map(move |part| (reg, node, part)))
                .map(|(reg, node, part)| (self.part(reg, part), word(part, node)))
                .collect();
            let inputs = record.inputs.iter().map(|&n| self.component(&real_inputs, n)).collect();
            SegmentSite::new(record, depth, inputs, (saved_reals, saved_ints), outputs)
        });

        let at = end - 1;
        self.stream.reals = self.stream.reals.max(assembler.reals);
        self.stream.ints = self.stream.ints.max(assembler.ints);
        self.cost += code.len() as u32;
        code.into_iter().chain(moves).for_each(|inst| self.push(at, inst));
        if let Some(check) = check {
            let parts = if outputs.is_empty() { 1 } else { 1 << depth };
            let with_record = record.as_ref().filter(|record| !outputs.is_empty() && !record.inputs.is_empty());
            let with_record = with_record.map(|record| checked_record(&derived, record, reals));
            self.check(check, parts, with_record);
        }
        if let (Some(site), Some(record)) = (site, record) {
            self.segment_record(at, site, record);
        }
        Ok(())
    }

    /// The register of a component of a segment's input.
    fn component(&self, real_inputs: &[u16], n: u32) -> u16 {
        let count = real_inputs.len() as u32;
        self.part(real_inputs[(n % count) as usize], (n / count) as usize)
    }

    /// Ends a segment. One without inputs never writes a record; its end makes its outputs constants.
    fn segment_record(&mut self, at: u32, mut site: SegmentSite, record: SegmentAdjoint) {
        self.largest_record = self.largest_record.max(site.layout.bytes());
        self.swept = self.swept.max(record.code.reals).max(record.code.ints);
        if !site.inputs.is_empty() {
            site.id = self.segments.len() as u32;
            self.segments.push(SegmentCode {
                layout: site.layout,
                slots: site.slots,
                contributions: record.contributions.into(),
                adjoint: record.code,
            });
        }
        let site = self.stream.segments.push(site);
        self.push(at, Inst::SegmentEnd { site });
    }
}
