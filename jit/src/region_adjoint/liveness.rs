//! Which of the registers that last from block to block are read later in a region's sweep: the others are neither kept
//! nor handed to the interpreter.

use crate::bit_set::BitSet;
use dualvm_vm::isa::{Bank, Reg};
use dualvm_vm::native::{BlockAdjoint, BuilderAdjoint, Edge, Inst, RegionCode, Stream};

/// The registers that are live where the adjoint of a block begins. Backward dataflow, in the order of the sweep.
pub(super) struct Liveness {
    /// For each block.
    live: Vec<Vec<Reg>>,
}

impl Liveness {
    pub(super) fn new(code: &RegionCode) -> Liveness {
        let sets = Sets { code };
        let flows: Vec<Flow> = code.blocks.iter().map(|block| sets.flow(block)).collect();
        let ways_back: Vec<Option<Flow>> = code.blocks.iter().map(|block| sets.way_back(block)).collect();
        let mut after = vec![Vec::new(); code.blocks.len()];
        for (number, block) in code.blocks.iter().enumerate() {
            for from in block.before.iter().chain(&block.again).filter_map(|edge| edge.from) {
                after[usize::from(from)].push(number);
            }
        }
        let mut live = vec![sets.empty(); code.blocks.len()];
        let (mut found, mut along) = (sets.empty(), sets.empty());
        // In the order of the code, which is that of the program for the most part: what comes before is known then,
        // and loops take one more pass for each one around them.
        let mut waiting = vec![true; code.blocks.len()];
        while waiting.contains(&true) {
            for number in 0..code.blocks.len() {
                if !std::mem::take(&mut waiting[number]) {
                    continue;
                }
                let block = &code.blocks[number];
                found.clear();
                for edge in block.before.iter().chain(&block.again) {
                    sets.along(edge, &live, &mut along);
                    found.add_all(&along);
                }
                if let Some(way_back) = &ways_back[number] {
                    found.remove_all(&way_back.writes);
                    found.add_all(&way_back.reads);
                }
                found.remove_all(&flows[number].writes);
                found.add_all(&flows[number].reads);
                if found != live[number] {
                    live[number].clone_from(&found);
                    after[number].iter().for_each(|&next| waiting[next] = true);
                }
            }
        }
        Liveness { live: live.iter().map(|set| sets.registers(set)).collect() }
    }

    /// Those that are live where the adjoint of a block begins.
    pub(super) fn at(&self, block: usize) -> &[Reg] {
        &self.live[block]
    }
}

/// What a block reads of what it hasn't written, and what it writes.
struct Flow {
    reads: BitSet,
    writes: BitSet,
}

/// Sets of the registers that last: real ones, then integers.
struct Sets<'c> {
    code: &'c RegionCode,
}

impl Sets<'_> {
    /// The number of a register, if it lasts.
    fn number(&self, reg: Reg) -> Option<usize> {
        let n = usize::from(reg.index);
        match reg.bank {
            Bank::Real => (n < self.code.lasting_reals).then_some(n),
            _ => (n < self.code.lasting_ints).then_some(self.code.lasting_reals + n),
        }
    }

    fn empty(&self) -> BitSet {
        BitSet::new(self.code.lasting_reals + self.code.lasting_ints)
    }

    fn registers(&self, set: &BitSet) -> Vec<Reg> {
        let reals = self.code.lasting_reals;
        set.iter().map(|n| if n < reals { Reg::real(n as u16) } else { Reg::int((n - reals) as u16) }).collect()
    }

    fn insert(&self, set: &mut BitSet, reg: Reg) {
        if let Some(number) = self.number(reg) {
            set.insert(number);
        }
    }

    fn remove(&self, set: &mut BitSet, reg: Reg) {
        if let Some(number) = self.number(reg) {
            set.remove(number);
        }
    }

    /// What is live where an edge is taken, from what is so where the adjoint of each block begins.
    fn along(&self, edge: &Edge, live: &[BitSet], along: &mut BitSet) {
        along.clear();
        match edge.from.map(usize::from) {
            Some(from) => {
                along.add_all(&live[from]);
                let block = &self.code.blocks[from];
                if edge.leaves
                    && let Some(guard) = &block.guard
                {
                    // They are all that a skipped round would write, but for what it reads.
                    guard.adjoints.iter().for_each(|&adjoint| self.insert(along, Reg::real(adjoint)));
                    block.rounds.iter().for_each(|rounds| self.insert(along, Reg::int(rounds.register)));
                }
            }
            None => {
                let contributions = self.code.contributions.iter();
                contributions.for_each(|&register| self.insert(along, Reg::real(register)));
                let changed = self.code.changed.iter().flat_map(|array| [array.before, array.first, array.len]);
                changed.for_each(|register| self.insert(along, Reg::int(register)));
            }
        }
        edge.reals.iter().for_each(|&register| self.remove(along, Reg::real(register)));
        edge.ints.iter().for_each(|&register| self.remove(along, Reg::int(register)));
    }

    fn flow(&self, block: &BlockAdjoint) -> Flow {
        let mut flow = Flow { reads: self.empty(), writes: self.empty() };
        self.run(&mut flow, &block.code[..block.before_steps]);
        for builder in &block.builders {
            let [of_first, of_left] = [builder.builder().first, builder.builder().left].map(Reg::int);
            match builder {
                BuilderAdjoint::Finish { first, len, .. } => {
                    self.step(&mut flow, &[Reg::int(*first), Reg::int(*len)], &[of_first, of_left]);
                }
                BuilderAdjoint::Push { .. } => self.step(&mut flow, &[of_first, of_left], &[of_left]),
                BuilderAdjoint::Extend { base, from, count, .. } => {
                    let told = [base, from, count].map(|&register| Reg::int(register));
                    self.step(&mut flow, &told, &[]);
                    self.step(&mut flow, &[of_first, of_left], &[of_left]);
                }
                BuilderAdjoint::Begin(_) => self.step(&mut flow, &[], &[of_first]),
            }
        }
        for put in &block.puts {
            self.step(&mut flow, &[Reg::int(put.base), Reg::int(put.index)], &[]);
        }
        self.run(&mut flow, &block.code[block.before_steps..]);
        for element in &block.elements {
            let [base, index] = [element.base, element.index].map(Reg::int);
            self.step(&mut flow, &[base, index, Reg::real(element.contribution)], &[]);
        }
        self.run(&mut flow, &block.moves);
        let rounds = block.rounds.iter();
        rounds.for_each(|rounds| self.step(&mut flow, &[Reg::int(rounds.register)], &[]));
        flow
    }

    /// What is done before the way back is known. Blocks of which that is said have no rounds.
    fn way_back(&self, block: &BlockAdjoint) -> Option<Flow> {
        let way = block.way_back.as_ref()?;
        let mut flow = Flow { reads: self.empty(), writes: self.empty() };
        self.run(&mut flow, &way.code);
        Some(flow)
    }

    fn run(&self, flow: &mut Flow, code: &[Inst]) {
        for inst in code {
            let mut registers = [Vec::new(), Vec::new()];
            inst.for_each_reg(&Stream::default(), |reg, def| registers[usize::from(def)].push(reg));
            self.step(flow, &registers[0], &registers[1]);
        }
    }

    fn step(&self, flow: &mut Flow, reads: &[Reg], writes: &[Reg]) {
        for &reg in reads {
            if self.number(reg).is_some_and(|number| !flow.writes.contains(number)) {
                self.insert(&mut flow.reads, reg);
            }
        }
        writes.iter().for_each(|&reg| self.insert(&mut flow.writes, reg));
    }
}
