//! From verified bytecode to the streams that the interpreter runs: one for primal runs, one for recording runs.
//!
//! A stream is a function's code with operands resolved: register lists split by bank, field numbers turned into
//! offsets, jump targets into stream positions, and the fuel of a stretch of code put on the instruction that ends it.
//! The recording stream also holds the segment ends. Both are made on first use and belong to the module.
//!
//! In a stream, `imm` (and spare 16-bit operands) mean:
//! - `Jump`: target low, cost high. `Branch`: both targets; cost in `b` (low) and `c` (high).
//! - `Switch`, calls, `Ret`, object instructions, `SegmentEnd`: an index into the stream's table of that name.
//! - `Field`: word offset of the primal low, of the derivative word high. `IField`, `PField`: word offset. Payloads: the
//!   same, tag in `c`.
//! - `Build`: element bank in `c`. `PrimalMov`: like `Mov`.

use crate::derive::{StraightCode, derive_adjoint};
use crate::graph::{Node, NodeId};
use crate::heap::{self, Fields};
use crate::isa::{Bank, Inst, Op, Reg};
use crate::liveness::{self, Block};
use crate::module::{Body, Function, ModuleDef, TypeDef, ValueType};
use crate::rename;
use crate::segment::{self, Segment};
use crate::tape;

/// Registers by bank, each in order.
#[derive(Debug, Default)]
pub(crate) struct RegList {
    pub(crate) reals: Box<[u16]>,
    pub(crate) ints: Box<[u16]>,
    pub(crate) refs: Box<[u16]>,
}

impl RegList {
    fn new(regs: &[Reg]) -> Self {
        let of = |bank| regs.iter().filter(|reg| reg.bank == bank).map(|reg| reg.index).collect();
        RegList { reals: of(Bank::Real), ints: of(Bank::Int), refs: of(Bank::Ref) }
    }
}

/// A call, a tail call or a return.
#[derive(Debug)]
pub(crate) struct CallSite {
    pub(crate) func: u32,
    /// Arguments, or the returned registers.
    pub(crate) uses: RegList,
    pub(crate) defs: RegList,
    pub(crate) cost: u32,
}

#[derive(Debug)]
pub(crate) struct SwitchSite {
    pub(crate) targets: Box<[u32]>,
    pub(crate) default: u32,
    pub(crate) cost: u32,
}

/// An instruction that makes an object from registers.
#[derive(Debug)]
pub(crate) struct ObjectSite {
    /// The object's first header word.
    pub(crate) header: u64,
    pub(crate) uses: RegList,
    /// The bank of the elements, for arrays.
    pub(crate) element: Bank,
}

/// Where an output of a segment gets its word from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutputWord {
    /// A new slot if one of the inputs in the mask is active.
    Slot { offset: u32, mask: u64 },
    /// The word that this register had before the segment.
    Copy(u16),
    /// The output is constant.
    Zero,
}

/// The end of a segment in a recording stream.
#[derive(Debug)]
pub(crate) struct SegmentSite {
    /// The number of the segment in the module.
    pub(crate) id: u32,
    /// Registers whose words say what the segment depends on.
    pub(crate) inputs: Box<[u16]>,
    pub(crate) saved_reals: Box<[u16]>,
    pub(crate) saved_ints: Box<[u16]>,
    pub(crate) outputs: Box<[(u16, OutputWord)]>,
    /// Whether an output is a `Copy`: words are then read before any is written.
    pub(crate) copies: bool,
    pub(crate) slots: u32,
    pub(crate) record_bytes: u32,
    /// Instructions that the sweep runs for a record.
    pub(crate) sweep_cost: u32,
}

/// What the sweep knows of a segment.
#[derive(Debug)]
pub(crate) struct SegmentCode {
    pub(crate) saved_reals: u32,
    pub(crate) saved_ints: u32,
    pub(crate) slots: u32,
    /// For each input, the register that holds its contribution.
    pub(crate) contributions: Box<[u16]>,
    pub(crate) adjoint: StraightCode,
}

/// A function's code, ready to run in one mode.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) code: Vec<Inst>,
    /// The bytecode instruction that each entry of `code` comes from.
    pub(crate) origin: Vec<u32>,
    pub(crate) calls: Vec<CallSite>,
    pub(crate) switches: Vec<SwitchSite>,
    pub(crate) objects: Vec<ObjectSite>,
    pub(crate) segments: Vec<SegmentSite>,
    /// Frame sizes.
    pub(crate) reals: usize,
    pub(crate) ints: usize,
    pub(crate) refs: usize,
    /// How many of the reference registers are parameters; the rest start as null.
    pub(crate) ref_params: usize,
}

/// Makes the stream for primal runs.
pub(crate) fn primal(module: &ModuleDef, function: &Function) -> Stream {
    Emitter::new(module, function).run(Vec::new(), &mut |_| 0)
}

/// Makes the stream for recording runs. `register` takes the code of a segment and gives it its number in the module.
pub(crate) fn recording(
    module: &ModuleDef,
    function: &Function,
    register: &mut dyn FnMut(SegmentCode) -> u32,
) -> Stream {
    let mut function = function.clone();
    let blocks = liveness::blocks(&function.body);
    rename::rename_loads(&mut function.body, &blocks);
    let body = &function.body;
    let real_params = function.params.iter().filter(|&&ty| ty == ValueType::Real).count();
    let constants = segment::constant_registers(body, real_params);
    let live = liveness::live_out(body, &blocks);
    let segments =
        blocks.iter().zip(&live).flat_map(|(&block, live)| segment::cut(body, block, live, &constants)).collect();
    Emitter::new(module, &function).run(segments, register)
}

struct Emitter<'a> {
    module: &'a ModuleDef,
    body: &'a Body,
    stream: Stream,
    /// The stream position of each bytecode instruction.
    position: Vec<u32>,
    /// Instructions since fuel was last charged for.
    cost: u32,
}

impl<'a> Emitter<'a> {
    fn new(module: &'a ModuleDef, function: &'a Function) -> Self {
        let body = &function.body;
        let stream = Stream {
            reals: body.reals as usize,
            ints: body.ints as usize,
            refs: body.refs.len(),
            ref_params: function.params.iter().filter(|ty| matches!(ty, ValueType::Ref(_))).count(),
            ..Stream::default()
        };
        Emitter { module, body, stream, position: vec![0; body.code.len()], cost: 0 }
    }

    fn run(mut self, segments: Vec<Segment>, register: &mut dyn FnMut(SegmentCode) -> u32) -> Stream {
        let mut segments = segments.into_iter().peekable();
        for Block { start, end } in liveness::blocks(self.body) {
            self.cost = 0;
            let mut at = start;
            while at < end {
                match segments.next_if(|segment| segment.start == at) {
                    Some(segment) => {
                        at = segment.end;
                        self.segment(segment, register);
                    }
                    None => {
                        self.inst(at);
                        at += 1;
                    }
                }
            }
            if !self.body.code[end as usize - 1].op.is_terminator() {
                // Control falls into the next block, whose cost is its own.
                let imm = u64::from(end) | u64::from(self.cost) << 32;
                self.push(end - 1, Inst { op: Op::Jump, a: 0, b: 0, c: 0, imm });
            }
        }
        self.resolve_targets();
        self.stream
    }

    fn push(&mut self, origin: u32, inst: Inst) {
        self.stream.code.push(inst);
        self.stream.origin.push(origin);
    }

    /// Emits one instruction outside of a segment's body.
    fn inst(&mut self, at: u32) {
        self.position[at as usize] = self.stream.code.len() as u32;
        self.cost += 1;
        let body = self.body;
        let mut inst = body.code[at as usize];
        match inst.op {
            Op::Jump => inst.imm = u64::from(inst.low()) | u64::from(self.cost) << 32,
            Op::Branch => (inst.b, inst.c) = (self.cost as u16, (self.cost >> 16) as u16),
            Op::Switch => {
                let start = inst.low() as usize;
                let targets = body.targets[start..start + usize::from(inst.b)].into();
                self.stream.switches.push(SwitchSite { targets, default: inst.high(), cost: self.cost });
                inst.imm = self.stream.switches.len() as u64 - 1;
            }
            Op::Call | Op::TailCall | Op::CallClosure | Op::TailCallClosure | Op::Ret => {
                let (uses, defs) = body.reg_lists(&inst);
                let site =
                    CallSite { func: inst.low(), uses: RegList::new(uses), defs: RegList::new(defs), cost: self.cost };
                self.stream.calls.push(site);
                self.cost = 0;
                if inst.op == Op::CallClosure || inst.op == Op::TailCallClosure {
                    inst.c = inst.a;
                }
                inst.imm = self.stream.calls.len() as u64 - 1;
            }
            Op::StructNew | Op::VariantNew | Op::ClosureNew | Op::Pack => self.object(&mut inst),
            Op::Field | Op::IField | Op::PField | Op::Payload | Op::IPayload | Op::PPayload => self.field(&mut inst),
            Op::Build => inst.c = self.element(inst.a) as u16,
            _ => {}
        }
        self.push(at, inst);
    }

    fn type_of(&self, reference: u16) -> &'a TypeDef {
        &self.module.types[self.body.refs[usize::from(reference)].index()]
    }

    /// The bank of the elements of an array or a builder.
    fn element(&self, reference: u16) -> Bank {
        match self.type_of(reference) {
            TypeDef::Array(element) | TypeDef::Builder(element) => element.bank(),
            _ => unreachable!("the verifier checks that array instructions work on arrays"),
        }
    }

    fn object(&mut self, inst: &mut Inst) {
        let (uses, _) = self.body.reg_lists(inst);
        let uses = RegList::new(uses);
        let counts = Fields { reals: uses.reals.len(), ints: uses.ints.len(), refs: uses.refs.len() };
        let (header, element) = match inst.op {
            Op::StructNew => (heap::object_header(counts, 0), Bank::Ref),
            Op::VariantNew => (heap::object_header(counts, u32::from(inst.b)), Bank::Ref),
            Op::ClosureNew => (heap::object_header(counts, inst.low()), Bank::Ref),
            _ => {
                let element = self.element(inst.a);
                (heap::array_header(element), element)
            }
        };
        self.stream.objects.push(ObjectSite { header, uses, element });
        inst.imm = self.stream.objects.len() as u64 - 1;
    }

    fn field(&mut self, inst: &mut Inst) {
        let (fields, number) = match (self.type_of(inst.b), inst.op) {
            (TypeDef::Struct(fields), _) => (fields, usize::from(inst.c)),
            (TypeDef::Variant(variants), _) => (&variants[usize::from(inst.c)].fields, usize::from(inst.imm as u16)),
            _ => unreachable!("the verifier checks that fields are read from structs and variants"),
        };
        let counts = Fields::of(fields);
        let bank = fields[number].bank();
        let nth = fields[..number].iter().filter(|field| field.bank() == bank).count();
        inst.imm = match bank {
            Bank::Real => counts.real_at(nth) as u64 | (counts.word_at(nth) as u64) << 32,
            Bank::Int => counts.int_at(nth) as u64,
            Bank::Ref => counts.ref_at(nth) as u64,
        };
    }

    /// Emits a segment: its instructions as they stand, copies as primal copies, then its end.
    fn segment(&mut self, segment: Segment, register: &mut dyn FnMut(SegmentCode) -> u32) {
        let Segment { start, end, graph, real_inputs, int_inputs, outputs, writes } = segment;
        // A node may be held by several registers; each output node is differentiated once.
        let mut nodes: Vec<NodeId> = Vec::new();
        for &(_, node) in &outputs {
            if matches!(graph.node(node), Node::Op(..)) && !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        let node_of: Vec<Node> = outputs.iter().map(|&(_, node)| graph.node(node)).collect();
        let inputs_of_graph: Vec<Node> = graph.iter().map(|(_, node)| node).collect();
        let adjoint = derive_adjoint(graph, &nodes);
        let mut offset = 0;
        let words: Vec<OutputWord> = adjoint
            .masks
            .iter()
            .map(|&mask| {
                let word = if mask == 0 { OutputWord::Zero } else { OutputWord::Slot { offset, mask } };
                offset += u32::from(mask != 0);
                word
            })
            .collect();
        let outputs: Box<[(u16, OutputWord)]> = outputs
            .iter()
            .zip(node_of)
            .map(|(&(reg, id), node)| match node {
                Node::RealInput(n) => (reg, OutputWord::Copy(real_inputs[n as usize])),
                Node::Op(..) => {
                    let at = nodes.iter().position(|&node| node == id).expect("every output node is in the list");
                    (reg, words[at])
                }
                _ => (reg, OutputWord::Zero),
            })
            .collect();

        // Saved primals must still be in a register at the end: copy those that are overwritten before.
        let mut copies: Vec<(u32, u16, u16)> = Vec::new();
        let mut saved_reals = Vec::new();
        for &id in &adjoint.saved_reals {
            let (from, born) = match inputs_of_graph[id.index()] {
                Node::RealInput(n) => (real_inputs[n as usize], None),
                _ => {
                    let (at, reg, _) = writes.iter().find(|w| w.2 == id).expect("a saved node was computed");
                    (*reg, Some(*at))
                }
            };
            match writes.iter().find(|w| w.1 == from && w.2 != id && born.is_none_or(|born| w.0 > born)) {
                None => saved_reals.push(from),
                Some(&(at, ..)) => {
                    let scratch = (self.body.reals as usize + copies.len()) as u16;
                    copies.push((at, scratch, from));
                    saved_reals.push(scratch);
                }
            }
        }
        self.stream.reals = self.stream.reals.max(self.body.reals as usize + copies.len());
        let saved_ints: Box<[u16]> = adjoint
            .saved_ints
            .iter()
            .map(|id| match inputs_of_graph[id.index()] {
                Node::IntInput(n) => int_inputs[n as usize],
                _ => unreachable!("integers in a graph are inputs or computed from saved ones"),
            })
            .collect();

        for at in start..end {
            let here = self.stream.code.len() as u32;
            for &(_, scratch, from) in copies.iter().filter(|copy| copy.0 == at) {
                self.push(at, Inst { op: Op::PrimalMov, a: scratch, b: from, c: 0, imm: 0 });
            }
            self.inst(at);
            self.position[at as usize] = here;
            let last = self.stream.code.last_mut().expect("an instruction was pushed");
            if last.op == Op::Mov {
                last.op = Op::PrimalMov;
            }
        }

        let inputs: Box<[u16]> = adjoint.inputs.iter().map(|&n| real_inputs[n as usize]).collect();
        let site = SegmentSite {
            inputs,
            record_bytes: tape::record_bytes(saved_reals.len(), saved_ints.len(), adjoint.inputs.len()),
            saved_reals: saved_reals.into(),
            saved_ints,
            copies: outputs.iter().any(|(_, word)| matches!(word, OutputWord::Copy(_))),
            outputs,
            slots: adjoint.slots,
            sweep_cost: adjoint.code.code.len() as u32 + 1,
            id: 0,
        };
        if site.outputs.is_empty() {
            return;
        }
        let id = if site.inputs.is_empty() {
            0
        } else {
            register(SegmentCode {
                saved_reals: site.saved_reals.len() as u32,
                saved_ints: site.saved_ints.len() as u32,
                slots: site.slots,
                contributions: adjoint.contributions.into(),
                adjoint: adjoint.code,
            })
        };
        self.stream.segments.push(SegmentSite { id, ..site });
        let imm = self.stream.segments.len() as u64 - 1;
        self.push(end - 1, Inst { op: Op::SegmentEnd, a: 0, b: 0, c: 0, imm });
    }

    fn resolve_targets(&mut self) {
        let position = &self.position;
        let at = |target: u32| position[target as usize];
        for inst in &mut self.stream.code {
            match inst.op {
                Op::Jump => inst.imm = u64::from(at(inst.low())) | u64::from(inst.high()) << 32,
                Op::Branch => inst.imm = u64::from(at(inst.low())) | u64::from(at(inst.high())) << 32,
                _ => {}
            }
        }
        for site in &mut self.stream.switches {
            site.targets.iter_mut().for_each(|target| *target = at(*target));
            site.default = at(site.default);
        }
    }
}
