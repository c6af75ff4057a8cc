//! What straight-line code computes, as a graph: an iteration of a loop that is recorded as one, or a block of a
//! region.
//!
//! It may hold scalar instructions, copies, constants, loads from arrays and pushes of reals, nothing else; in a
//! region, references may be loaded, and arrays made and changed in place. Every value is a node, so that registers may
//! be redefined as one likes.

use crate::bytecode::isa::{Bank, Inst, Op, Reg, Role};
use crate::bytecode::module::Body;
use crate::derivation::graph::{Graph, Node, NodeId, bank_of};
use crate::preparation::handed_on::{HandedOn, Index};
use crate::preparation::liveness::RegSet;
use crate::records::region::ChangedBuilder;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where a real comes from that a stretch doesn't compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RealSource {
    /// A register at the stretch's start.
    Register(u16),
    /// An element of the array in a reference register, or of the builder; or a field of an object, which counts as the
    /// only element of an array that begins at its slot.
    Element { array: u16, index: NodeId },
}

/// Where an integer comes from that a stretch doesn't compute by pure arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IntSource {
    /// A register at the stretch's start.
    Register(u16),
    /// An element of the array in a reference register.
    Element { array: u16, index: NodeId },
    /// A length, a field or a tag, or what an instruction about arrays leaves in a register.
    Load,
}

/// An instruction that writes a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// Its position in the stretch.
    pub(crate) at: u32,
    pub(crate) reg: Reg,
    pub(crate) node: NodeId,
}

/// A value that is appended to a builder, or put in the place of one of its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    /// The reference register of the builder.
    pub(crate) builder: u16,
    pub(crate) node: NodeId,
    /// The place of the element that it replaces.
    pub(crate) place: Option<Place>,
}

/// The place of an element of a builder whose elements have slots throughout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The slot of the first one.
    pub(crate) base: NodeId,
    pub(crate) index: NodeId,
}

/// What a region does with a builder of reals.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BuilderStep {
    /// Begins one in this reference register.
    Begin(u16),
    /// Appends a value or replaces one, the next of [`Stretch::pushes`].
    Push,
    /// Appends a range of an array.
    Extend(Extension),
    /// Makes an array of it.
    Finish(Finish),
}

impl BuilderStep {
    /// The range of an array that it appends, if it does.
    pub(crate) fn extension(&self) -> Option<&Extension> {
        match self {
            BuilderStep::Extend(extension) => Some(extension),
            _ => None,
        }
    }
}

/// A range of an array of reals that a region appends to a builder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    /// The reference registers of the builder and of the array.
    pub(crate) builder: u16,
    pub(crate) array: u16,
    /// The array's first slot.
    pub(crate) base: NodeId,
    /// The first element's number in the array.
    pub(crate) from: NodeId,
    /// How many elements there are.
    pub(crate) count: NodeId,
}

/// An array that a region makes from a builder of reals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish {
    /// The reference register of the builder.
    pub(crate) builder: u16,
    /// The instruction.
    pub(crate) inst: u32,
    /// The array's first slot.
    pub(crate) first: NodeId,
    /// Its length.
    pub(crate) len: NodeId,
    /// Its cell, if anybody may read its elements.
    pub(crate) cell: Option<NodeId>,
}

/// The integer registers that say where arrays of reals are on the tape.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    /// For reference registers whose elements are read or copied, the one that holds the array's first slot. It is
    /// written wherever the reference is; but for a builder that is begun in the region no code writes it, as its
    /// elements have no slots yet: the sweep knows them.
    pub(crate) bases: BTreeMap<u16, u16>,
    /// For these and those of integers, the one that holds the address of a cell with the array, or with a copy. It is
    /// written there, too. Arrays of integers that the region makes have none.
    pub(crate) cells: BTreeMap<u16, u16>,
    /// For builders that are begun, those of the array that it becomes, written where it is finished.
    pub(crate) made: BTreeMap<u16, MadeArray>,
    /// For builders that were begun before and whose elements are read or replaced, what is known of their elements.
    pub(crate) changed: BTreeMap<u16, ChangedBuilder>,
    /// For each instruction that appends a range of an array of reals, the one that holds how many elements there are.
    pub(crate) counts: BTreeMap<u32, u16>,
    /// For each instruction that deals with a builder of reals, the reference register that the builder goes by. It may
    /// be in another one there.
    pub(crate) names: BTreeMap<u32, u16>,
    /// For instructions that read real fields of objects, by their numbers, what is known of the field.
    pub(crate) fields: BTreeMap<u32, FieldRead>,
}

/// A real field that an instruction reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRead {
    /// The reference register that holds the object.
    pub(crate) object: u16,
    /// The integer register that holds the field's slot.
    pub(crate) slot: u16,
}

/// The integer registers that hold an array's first slot and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeArray {
    pub(crate) first: u16,
    pub(crate) len: u16,
}

impl Arrays {
    /// How many registers it takes.
    pub(crate) fn registers(&self) -> usize {
        let told = self.bases.len() + self.cells.len() + self.counts.len() + self.fields.len();
        told + 2 * self.made.len() + 3 * self.changed.len()
    }

    /// The builder that an integer register stands for the first slot of, if it is one that the region begins.
    pub(crate) fn made_at(&self, base: Reg) -> Option<u16> {
        let found =
            self.made.keys().find(|builder| base.bank == Bank::Int && self.bases.get(builder) == Some(&base.index));
        found.copied()
    }
}

/// What straight-line code computes.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    pub(crate) graph: Graph,
    pub(crate) real_inputs: Vec<RealSource>,
    /// For each of these, whether it never depends on anything, whatever the function's arguments are.
    pub(crate) passive: Vec<bool>,
    /// For each of these that is an element, the slot of its array's first one, if the walk knows such registers.
    pub(crate) bases: Vec<Option<NodeId>>,
    /// For each of these that can be loaded again, the cell with its array, and its index. That may be registers, too:
    /// of those that are elements that a block before has loaded.
    pub(crate) loads: Vec<Option<[NodeId; 2]>>,
    pub(crate) int_inputs: Vec<IntSource>,
    /// As `loads`, for integers.
    pub(crate) int_loads: Vec<Option<[NodeId; 2]>>,
    /// For each of these that is in a register where a block before has computed it, the node that computes it again.
    pub(crate) int_sames: Vec<Option<NodeId>>,
    /// All writes in order.
    pub(crate) writes: Vec<Write>,
    /// What each register holds at the end that was written.
    pub(crate) ends: BTreeMap<Reg, NodeId>,
    /// What is appended to builders and put into them, in order.
    pub(crate) pushes: Vec<Push>,
    /// What it does with builders of reals, in order.
    pub(crate) builder_steps: Vec<BuilderStep>,
    /// Scalar instructions with a real result.
    pub(crate) real_ops: usize,
}

impl Stretch {
    /// The register that a node is the value of at the start, if it is one's.
    pub(crate) fn input_register(&self, node: Node) -> Option<Reg> {
        match node {
            Node::RealInput(n) => match self.real_inputs[n as usize] {
                RealSource::Register(reg) => Some(Reg::real(reg)),
                RealSource::Element { .. } => None,
            },
            Node::IntInput(n) => match self.int_inputs[n as usize] {
                IntSource::Register(reg) => Some(Reg::int(reg)),
                IntSource::Element { .. } | IntSource::Load => None,
            },
            _ => None,
        }
    }

    /// The reference register and the index of a node that is an element of an array.
    pub(crate) fn element(&self, node: Node) -> Option<(u16, &NodeId)> {
        match node {
            Node::RealInput(n) => match &self.real_inputs[n as usize] {
                RealSource::Element { array, index } => Some((*array, index)),
                RealSource::Register(_) => None,
            },
            Node::IntInput(n) => match &self.int_inputs[n as usize] {
                IntSource::Element { array, index } => Some((*array, index)),
                IntSource::Register(_) | IntSource::Load => None,
            },
            _ => None,
        }
    }

    /// The node that computes again what a block before has left in a register.
    pub(crate) fn same(&self, node: Node) -> Option<&NodeId> {
        match node {
            Node::IntInput(n) => self.int_sames[n as usize].as_ref(),
            _ => None,
        }
    }

    /// The cell and the index of a node that is an element that can be loaded again.
    pub(crate) fn load(&self, node: Node) -> Option<&[NodeId; 2]> {
        match node {
            Node::RealInput(n) => self.loads[n as usize].as_ref(),
            Node::IntInput(n) => self.int_loads[n as usize].as_ref(),
            _ => None,
        }
    }
}

/// Registers that hold a constant throughout the function, as bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants<'a> {
    pub(crate) reals: &'a HashMap<u16, u64>,
    pub(crate) ints: &'a HashMap<u16, u64>,
}

/// Whether an instruction leaves an object in a reference register that it has found somewhere.
pub(crate) fn loads_reference(op: Op) -> bool {
    matches!(op, Op::PElem | Op::PField | Op::PPayload | Op::PMov | Op::PSelect)
}

/// Goes through a stretch once.
pub(crate) struct Walk<'a> {
    pub(crate) body: &'a Body,
    pub(crate) constants: &'a Constants<'a>,
    /// The registers that may be active at the start; `None` is all.
    pub(crate) active: Option<&'a RegSet>,
    /// With these, references may be loaded and arrays made.
    pub(crate) arrays: Option<&'a Arrays>,
    /// The registers that hold elements and computed integers at the start.
    handed: Option<&'a HandedOn>,
    found: Stretch,
    /// The builders to which something was appended in this stretch.
    appended: BTreeSet<u16>,
    /// Reference registers that may hold an array which was finished in this stretch, and to which something was
    /// appended in it, or put.
    finished: BTreeSet<u16>,
    /// What each register holds.
    current: HashMap<Reg, NodeId>,
    /// What each register held at the start of which that was asked.
    start: HashMap<Reg, NodeId>,
    /// Elements and lengths that were loaded: a second load finds the same, in a builder as long as nothing is put.
    loads: HashMap<(Op, u16, Option<NodeId>), NodeId>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        body: &'a Body,
        constants: &'a Constants<'a>,
        active: Option<&'a RegSet>,
        arrays: Option<&'a Arrays>,
    ) -> Self {
        let (found, handed) = (Stretch::default(), None);
        let (current, start, loads) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (appended, finished) = (BTreeSet::new(), BTreeSet::new());
        Walk { body, constants, active, arrays, handed, found, appended, finished, current, start, loads }
    }

    /// The same with registers that hold elements and computed integers at the start.
    pub(crate) fn behind(self, handed: &'a HandedOn) -> Self {
        Walk { handed: Some(handed), ..self }
    }

    /// What these instructions compute, or the first one that is none that a stretch holds.
    pub(crate) fn run(mut self, code: impl Iterator<Item = u32>) -> Result<Stretch, u32> {
        for (at, number) in code.enumerate() {
            self.step(at as u32, number).ok_or(number)?;
        }
        Ok(self.found)
    }

    fn step(&mut self, at: u32, number: u32) -> Option<()> {
        let inst = self.body.code[number as usize];
        let result = |bank| Reg { bank, index: inst.a };
        match inst.op {
            Op::Mov => {
                let node = self.read(Reg::real(inst.b));
                self.write(at, result(Bank::Real), node);
            }
            Op::IMov => {
                let node = self.read(Reg::int(inst.b));
                self.write(at, result(Bank::Int), node);
            }
            Op::Const => {
                let node = self.found.graph.add(Node::Real(inst.imm));
                self.write(at, result(Bank::Real), node);
            }
            Op::IConst => {
                let node = self.found.graph.add(Node::Int(inst.imm as i64));
                self.write(at, result(Bank::Int), node);
            }
            Op::Len => {
                let node = self.load(Op::Len, inst.b, None);
                self.write(at, result(Bank::Int), node);
            }
            // The adjoint of the block gives elements theirs after it has taken those of what it has pushed.
            Op::Elem if self.finished.contains(&inst.b) => return None,
            Op::Elem | Op::IElem => {
                let index = self.read(Reg::int(inst.c));
                let node = self.load(inst.op, inst.b, Some(index));
                self.write(at, result(if inst.op == Op::Elem { Bank::Real } else { Bank::Int }), node);
            }
            // Where it hasn't trapped it is a product.
            Op::Row => {
                let width = self.found.graph.add(Node::Int(inst.imm as i64));
                let index = self.read(Reg::int(inst.c));
                let node = self.found.graph.op(Op::IMul, &[index, width]);
                self.write(at, result(Bank::Int), node);
            }
            // Another name of a builder.
            Op::PMov if self.arrays.is_some_and(|arrays| arrays.names.contains_key(&number)) => {}
            op if loads_reference(op)
                && let Some(arrays) = self.arrays =>
            {
                self.new_reference(inst.a);
                let may_be = match inst.op {
                    Op::PMov => self.finished.contains(&inst.b),
                    _ => !self.finished.is_empty(),
                };
                if may_be {
                    self.finished.insert(inst.a);
                } else {
                    self.finished.remove(&inst.a);
                }
                for told in [&arrays.bases, &arrays.cells] {
                    if let Some(&register) = told.get(&inst.a) {
                        let node = self.int_input(IntSource::Load);
                        self.write(at, Reg::int(register), node);
                    }
                }
            }
            Op::Build | Op::Finish if let Some(arrays) = self.arrays => self.make((at, number), inst, arrays),
            Op::IPush | Op::PPush | Op::IPut if self.arrays.is_some() => {}
            Op::Extend if let Some(arrays) = self.arrays => self.extend((at, number), inst, arrays),
            // The adjoint of the block takes those of what it has appended before others.
            Op::Get | Op::Put if self.arrays.is_some_and(|arrays| self.appended.contains(&arrays.names[&number])) => {
                return None;
            }
            Op::Get if let Some(arrays) = self.arrays => {
                let index = self.read(Reg::int(inst.c));
                let node = self.load(Op::Get, arrays.names[&number], Some(index));
                self.write(at, result(Bank::Real), node);
            }
            Op::Put if let Some(arrays) = self.arrays => {
                let builder = arrays.names[&number];
                let base = self.read(Reg::int(arrays.bases[&builder]));
                let index = self.read(Reg::int(inst.b));
                let node = self.read(Reg::real(inst.c));
                self.found.builder_steps.push(BuilderStep::Push);
                self.found.pushes.push(Push { builder, node, place: Some(Place { base, index }) });
                self.loads.retain(|&(op, _, _), _| op != Op::Get);
            }
            Op::Field | Op::Payload if let Some(arrays) = self.arrays => {
                let FieldRead { object, slot } = arrays.fields[&number];
                let base = self.int_input(IntSource::Load);
                self.write(at, Reg::int(slot), base);
                let index = self.found.graph.add(Node::Int(0));
                let node = self.told_input(RealSource::Element { array: object, index }, false, (Some(base), None));
                self.write(at, result(Bank::Real), node);
            }
            // What is found in a builder a second time may be something else.
            Op::IGet | Op::IField | Op::IPayload | Op::VariantTag if self.arrays.is_some() => {
                let node = self.int_input(IntSource::Load);
                self.write(at, result(Bank::Int), node);
            }
            // Where it hasn't trapped it is nothing.
            Op::SameLen | Op::SameShape => {}
            // What is shown is no part of what is computed.
            Op::Trace => {}
            Op::Push => {
                let node = self.read(Reg::real(inst.b));
                self.found.builder_steps.push(BuilderStep::Push);
                let builder = self.arrays.map_or(inst.a, |arrays| arrays.names[&number]);
                self.found.pushes.push(Push { builder, node, place: None });
                self.appended.insert(builder);
            }
            op if op.is_scalar() => self.scalar(at, inst),
            op => return matches!(op, Op::Jump | Op::Branch | Op::Switch).then_some(()),
        }
        Some(())
    }

    /// Another object is in a reference register.
    fn new_reference(&mut self, register: u16) {
        self.loads.retain(|&(_, array, _), _| array != register);
    }

    /// Begins or finishes a builder.
    fn make(&mut self, (at, number): (u32, u32), inst: Inst, arrays: &Arrays) {
        self.new_reference(inst.a);
        let Some(&builder) = arrays.names.get(&number) else { return };
        if inst.op == Op::Build {
            self.new_reference(builder);
            self.appended.remove(&builder);
            self.found.builder_steps.push(BuilderStep::Begin(builder));
            return;
        }
        let made = arrays.made[&builder];
        let (first, len) = (self.int_input(IntSource::Load), self.int_input(IntSource::Load));
        self.write(at, Reg::int(made.first), first);
        self.write(at, Reg::int(made.len), len);
        if let Some(&base) = arrays.bases.get(&inst.a) {
            self.write(at, Reg::int(base), first);
        }
        let cell = arrays.cells.get(&inst.a).map(|&register| {
            let node = self.int_input(IntSource::Load);
            self.write(at, Reg::int(register), node);
            node
        });
        let is_put = self.found.pushes.iter().any(|push| push.builder == builder);
        if is_put || self.appended.contains(&builder) {
            self.finished.insert(inst.a);
        } else {
            self.finished.remove(&inst.a);
        }
        self.found.builder_steps.push(BuilderStep::Finish(Finish { builder, inst: number, first, len, cell }));
    }

    /// Appends a range of an array. Of others than reals nobody asks where they come from.
    fn extend(&mut self, (at, number): (u32, u32), inst: Inst, arrays: &Arrays) {
        let Some(&builder) = arrays.names.get(&number) else { return };
        let [_, array, from, to] = inst.narrow();
        let base = self.read(Reg::int(arrays.bases[&array]));
        let [from, to] = [from, to].map(|register| self.read(Reg::int(register)));
        let count = self.found.graph.op(Op::ISub, &[to, from]);
        self.write(at, Reg::int(arrays.counts[&number]), count);
        self.appended.insert(builder);
        self.found.builder_steps.push(BuilderStep::Extend(Extension { builder, array, base, from, count }));
    }

    fn scalar(&mut self, at: u32, inst: Inst) {
        let mut args = Vec::with_capacity(3);
        self.body.for_each_reg(&inst, |reg, def| {
            if !def {
                args.push(reg);
            }
        });
        let args: Vec<NodeId> = args.into_iter().map(|reg| self.read(reg)).collect();
        let node = self.found.graph.op(inst.op, &args);
        let bank = match inst.op.info().operands[0].role {
            Role::Def(bank) => bank,
            role => unreachable!("a scalar instruction begins with its result, found {role:?}"),
        };
        self.found.real_ops += usize::from(bank == Bank::Real);
        self.write(at, Reg { bank, index: inst.a }, node);
    }

    fn read(&mut self, reg: Reg) -> NodeId {
        if let Some(&node) = self.current.get(&reg) {
            return node;
        }
        let node = self.at_start(reg);
        self.current.insert(reg, node);
        node
    }

    /// What a register holds at the start.
    fn at_start(&mut self, reg: Reg) -> NodeId {
        if let Some(&node) = self.start.get(&reg) {
            return node;
        }
        let constants = if reg.bank == Bank::Real { self.constants.reals } else { self.constants.ints };
        let node = match (constants.get(&reg.index), reg.bank) {
            (Some(&bits), Bank::Real) => self.found.graph.add(Node::Real(bits)),
            (Some(&bits), _) => self.found.graph.add(Node::Int(bits as i64)),
            (None, Bank::Real) => {
                let passive = self.active.is_some_and(|active| !active.contains(reg.index));
                self.real_input(RealSource::Register(reg.index), passive)
            }
            _ => {
                let index = self.handed.and_then(|handed| handed.int(reg.index)).cloned();
                let same = index.map(|index| self.index(&index));
                let node = self.int_input(IntSource::Register(reg.index));
                *self.found.int_sames.last_mut().expect("it is the last one") = same;
                node
            }
        };
        self.start.insert(reg, node);
        node
    }

    /// The cell and the index of the element that a register holds at the start.
    fn handed(&mut self, reg: Reg) -> Option<[NodeId; 2]> {
        let handed = self.handed?.get(reg)?.clone();
        Some([self.at_start(Reg::int(handed.cell)), self.index(&handed.index)])
    }

    fn index(&mut self, index: &Index) -> NodeId {
        match index {
            Index::Int(n) => self.found.graph.add(Node::Int(*n)),
            Index::Register(register) => self.at_start(Reg::int(*register)),
            Index::Op(op, args) => {
                let args: Vec<NodeId> = args.iter().map(|arg| self.index(arg)).collect();
                self.found.graph.op(*op, &args)
            }
        }
    }

    fn real_input(&mut self, source: RealSource, passive: bool) -> NodeId {
        let (base, load) = match source {
            RealSource::Register(register) => (None, self.handed(Reg::real(register))),
            RealSource::Element { array, index } => {
                let register = self.arrays.and_then(|arrays| arrays.bases.get(&array));
                let base = register.map(|&register| self.read(Reg::int(register)));
                (base, self.cell(array).map(|cell| [cell, index]))
            }
        };
        self.told_input(source, passive, (base, load))
    }

    /// A real that the stretch doesn't compute, with the slot of its array's first element and with what leads to it.
    fn told_input(
        &mut self,
        source: RealSource,
        passive: bool,
        (base, load): (Option<NodeId>, Option<[NodeId; 2]>),
    ) -> NodeId {
        let found = &mut self.found;
        found.real_inputs.push(source);
        found.passive.push(passive);
        found.bases.push(base);
        found.loads.push(load);
        found.graph.add(Node::RealInput(found.real_inputs.len() as u32 - 1))
    }

    /// The cell with the array in a reference register, if the walk knows such cells.
    fn cell(&mut self, array: u16) -> Option<NodeId> {
        let register = *self.arrays?.cells.get(&array)?;
        Some(self.read(Reg::int(register)))
    }

    fn int_input(&mut self, source: IntSource) -> NodeId {
        let load = match source {
            IntSource::Register(register) => self.handed(Reg::int(register)),
            IntSource::Element { array, index } => self.cell(array).map(|cell| [cell, index]),
            IntSource::Load => None,
        };
        let found = &mut self.found;
        found.int_inputs.push(source);
        found.int_loads.push(load);
        found.int_sames.push(None);
        found.graph.add(Node::IntInput(found.int_inputs.len() as u32 - 1))
    }

    fn load(&mut self, op: Op, array: u16, index: Option<NodeId>) -> NodeId {
        if let Some(&node) = self.loads.get(&(op, array, index)) {
            return node;
        }
        let node = match index {
            Some(index) if matches!(op, Op::Elem | Op::Get) => {
                self.real_input(RealSource::Element { array, index }, false)
            }
            Some(index) => self.int_input(IntSource::Element { array, index }),
            None => self.int_input(IntSource::Load),
        };
        self.loads.insert((op, array, index), node);
        node
    }

    fn write(&mut self, at: u32, reg: Reg, node: NodeId) {
        self.current.insert(reg, node);
        self.found.ends.insert(reg, node);
        self.found.writes.push(Write { at, reg, node });
    }
}

/// A value that is saved when a stretch has ended, but overwritten before: it is copied first.
#[derive(Debug)]
pub(crate) struct StretchCopy {
    /// The position in the stretch of the instruction that overwrites it.
    pub(crate) before: u32,
    pub(crate) bank: Bank,
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// Finds the registers of values when a stretch ends.
pub(crate) struct EndRegisters<'a> {
    pub(crate) stretch: &'a Stretch,
    /// The stretch's graph, or one that begins with it.
    pub(crate) graph: &'a Graph,
    pub(crate) copies: Vec<StretchCopy>,
    /// Registers from these on are for copies.
    pub(crate) free_reals: u16,
    pub(crate) free_ints: u16,
}

impl EndRegisters<'_> {
    /// The register of a node of the stretch.
    pub(crate) fn of(&mut self, id: NodeId) -> u16 {
        let node = self.graph.node(id);
        let bank = bank_of(node);
        let Stretch { ends, writes, .. } = self.stretch;
        if let Some((reg, _)) = ends.iter().find(|(reg, end)| reg.bank == bank && **end == id) {
            return reg.index;
        }
        let (reg, born) = match self.stretch.input_register(node) {
            Some(reg) => (reg, None),
            None => {
                let write = writes.iter().find(|write| write.node == id && write.reg.bank == bank);
                let write = write.expect("a saved value was computed or loaded");
                (write.reg, Some(write.at))
            }
        };
        let overwrites = |at: u32| born.is_none_or(|born| at > born);
        let overwritten = writes.iter().find(|write| write.reg == reg && write.node != id && overwrites(write.at));
        overwritten.map_or(reg.index, |write| {
            let free = if bank == Bank::Real { &mut self.free_reals } else { &mut self.free_ints };
            let to = *free;
            *free += 1;
            self.copies.push(StretchCopy { before: write.at, bank, from: reg.index, to });
            to
        })
    }
}
