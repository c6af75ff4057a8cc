//! From the adjoint of an iteration to the code of the sweep.

use super::classes::Classes;
use super::interface::{ElementAdjoint, InputAdjoint, Interface};
use super::saved::{LoadedElement, Saved};
use super::{ElementCode, LoopCode, LoopFrame, LoopLayout};
use crate::bytecode::isa::Bank;
use crate::code::{Inst, IntReg, RealReg};
use crate::derivation::assembler::Assembler;
use crate::derivation::graph::{Graph, NodeId};
use crate::records::Numbers;

/// Turns an iteration's adjoint into the code of the sweep.
pub(super) struct CodeWriter<'a> {
    assembler: Assembler<'a>,
    /// The integer registers with the kept arrays.
    objects: Vec<u16>,
    prologue: Vec<Inst>,
    body: Vec<Inst>,
}

impl<'a> CodeWriter<'a> {
    pub(super) fn write(
        graph: &'a Graph,
        interface: &Interface,
        classes: &Classes,
        saved: &Saved,
        outputs: Vec<u16>,
    ) -> LoopCode {
        let states = usize::from(interface.states);
        let sums = interface.inputs.iter().filter(|input| input.carried.is_none()).count();
        let assembler = Assembler::new(graph, states + sums, 0);
        let mut this = CodeWriter { assembler, objects: Vec::new(), prologue: Vec::new(), body: Vec::new() };
        interface.seeds.iter().enumerate().for_each(|(register, &id)| this.assembler.place_at(id, register as u16));
        let once = saved.once_reals.iter().chain(&saved.entry_reals).chain(&saved.once_ints);
        once.for_each(|&id| _ = this.assembler.place(id));
        let cells: Vec<u16> = saved.kept.iter().map(|_| this.assembler.fresh(Bank::Int)).collect();
        saved.entry_ints.iter().for_each(|&id| _ = this.assembler.place(id));
        this.objects(&cells);
        this.compute(graph, classes, saved);
        let contributions = this.sums(interface, states);
        let elements = this.elements(interface, &classes.linear(graph));
        let moves = this.moves(interface);
        let once = Numbers { reals: saved.once_reals.len(), ints: saved.once_ints.len() + cells.len() };
        let pushed = interface.pushed.filter(|_| interface.push_mask != 0);
        LoopCode {
            reals: this.assembler.reals,
            ints: this.assembler.ints,
            prologue: this.prologue,
            body: this.body,
            elements,
            moves,
            frame: LoopFrame { cleared: states + sums, once },
            outputs: outputs.into(),
            layout: LoopLayout {
                entry: Numbers { reals: saved.entry_reals.len(), ints: saved.entry_ints.len() },
                once,
                inputs: interface.inputs.len(),
                arrays: interface.arrays.len(),
                pushed: pushed.is_some(),
            },
            pushed,
            contributions,
        }
    }

    /// Computes what doesn't change in the prologue, and the rest in the body, which begins with the induction
    /// registers: their steps are unchanged.
    fn compute(&mut self, graph: &Graph, classes: &Classes, saved: &Saved) {
        let needed = |unchanged: bool| {
            let ids = graph.iter().map(|(id, _)| id);
            ids.filter(move |id| saved.needed[id.index()] && classes.unchanged[id.index()] == unchanged)
        };
        needed(true).for_each(|id| self.assembler.compute(id, &mut self.prologue));
        for induction in classes.inductions.iter().filter(|induction| saved.needed[induction.start.index()]) {
            let register = self.register(induction.start);
            for &(op, step) in &induction.steps_back {
                let step = self.register(step);
                self.body.push(Inst::scalar(op, register, &[register, step]).expect("a step back is a sum"));
            }
        }
        let mut loaded = saved.loaded.iter().peekable();
        for id in needed(false) {
            match loaded.next_if(|element| element.node == id) {
                Some(element) => self.load(element),
                None => self.assembler.compute(id, &mut self.body),
            }
        }
    }

    /// Finds the kept arrays in their cells.
    fn objects(&mut self, cells: &[u16]) {
        for &cell in cells {
            let object = self.assembler.fresh(Bank::Int);
            self.prologue.push(Inst::KeptObject { dst: IntReg(object), cell: IntReg(cell) });
            self.objects.push(object);
        }
    }

    fn load(&mut self, element: &LoadedElement) {
        let (object, index) = (self.objects[element.array], self.register(element.index));
        self.body.push(self.assembler.load(element.node, (object, index)));
    }

    /// What is added to elements of arrays. `linear` says which indices change by the same amount.
    fn elements(&self, interface: &Interface, linear: &[bool]) -> Box<[ElementCode]> {
        let place = |array| interface.arrays.iter().position(|&listed| listed == array).expect("every array is listed");
        let code = |element: &ElementAdjoint| ElementCode {
            array: place(element.array) as u16,
            index: self.register(element.index),
            contribution: self.register(element.contribution),
            linear: linear[element.index.index()],
        };
        interface.elements.iter().map(code).collect()
    }

    fn register(&self, id: NodeId) -> u16 {
        self.assembler.register(id)
    }

    /// Adds contributions to unchanged inputs to their sums. Returns the registers of all inputs' contributions.
    fn sums(&mut self, interface: &Interface, states: usize) -> Box<[u16]> {
        let mut sum = states as u16;
        let contribution = |input: &InputAdjoint| match input.carried {
            Some(state) => interface.state_registers[state].expect("a carried input has an adjoint"),
            None => {
                let (register, from) = (RealReg(sum), RealReg(self.register(input.contribution)));
                self.body.push(Inst::Add { dst: register, a: register, b: from });
                sum += 1;
                register.0
            }
        };
        interface.inputs.iter().map(contribution).collect()
    }

    /// The state's adjoints become those before the iteration, all at once.
    fn moves(&mut self, interface: &Interface) -> Vec<Inst> {
        let copy = |to: u16, from: u16| Inst::PrimalMov { dst: RealReg(to), src: RealReg(from) };
        let mut before: Vec<Option<u16>> = vec![None; usize::from(interface.states)];
        for input in &interface.inputs {
            if let Some(state) = input.carried {
                let register = interface.state_registers[state].expect("a carried input has an adjoint");
                before[usize::from(register)] = Some(self.register(input.contribution));
            }
        }
        let mut moves = Vec::new();
        let mut copies = Vec::new();
        for (to, from) in before.into_iter().enumerate() {
            let to = to as u16;
            match from {
                // Loaded in each iteration.
                _ if interface.pushed == Some(to) => {}
                Some(from) if from == to => {}
                // Another adjoint of the state, which may be overwritten first.
                Some(from) if from < interface.states => {
                    let aside = self.assembler.fresh(Bank::Real);
                    moves.push(copy(aside, from));
                    copies.push(copy(to, aside));
                }
                Some(from) => copies.push(copy(to, from)),
                None => copies.push(Inst::PrimalConst { dst: RealReg(to), value: 0 }),
            }
        }
        moves.extend(copies);
        moves
    }
}
