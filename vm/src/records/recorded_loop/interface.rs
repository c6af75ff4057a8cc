//! How the adjoint of an iteration meets the world: what goes into it, what comes out, and where that belongs.

use super::flow::Flow;
use crate::derivation::adjoint::{contributions, seeds};
use crate::derivation::dependence::InputSet;
use crate::derivation::graph::NodeId;
use crate::derivation::piece::Piece;
use crate::preparation::loop_detection::Loop;
use crate::preparation::stretch::RealSource;
use crate::records::segment::OutputWord;

/// An input that is a register, with its contribution.
pub(super) struct InputAdjoint {
    pub(super) reg: u16,
    pub(super) contribution: NodeId,
    /// The register of the state that it is the start value of.
    pub(super) carried: Option<usize>,
}

/// A contribution to an element.
pub(super) struct ElementAdjoint {
    pub(super) array: u16,
    pub(super) index: NodeId,
    pub(super) contribution: NodeId,
}

/// How the adjoint of an iteration meets the world.
pub(super) struct Interface {
    pub(super) inputs: Vec<InputAdjoint>,
    pub(super) elements: Vec<ElementAdjoint>,
    /// The arrays that have contributions.
    pub(super) arrays: Vec<u16>,
    /// The inputs of derived code that are the state's adjoints, by register.
    pub(super) seeds: Vec<NodeId>,
    /// For each register of the state, its adjoint's register in derived code.
    pub(super) state_registers: Vec<Option<u16>>,
    /// How many of these there are, that of what is pushed among them.
    pub(super) states: u16,
    /// The register of what is pushed.
    pub(super) pushed: Option<u16>,
    /// The activity of what is pushed.
    pub(super) push_mask: u64,
    /// For each real input the bit that says whether it is active; 0 if it has no contribution.
    activity: Vec<u64>,
}

impl Interface {
    /// `iteration` is a piece whose outputs are the active nodes of the flow, `derived` its adjoint.
    pub(super) fn new(source: &Loop, flow: &Flow, iteration: &Piece, derived: &Piece) -> Self {
        let seeds = seeds(iteration, derived);
        let mut interface = Interface {
            inputs: Vec::new(),
            elements: Vec::new(),
            arrays: Vec::new(),
            state_registers: vec![None; source.state.len()],
            states: seeds.len() as u16,
            seeds,
            pushed: None,
            push_mask: 0,
            activity: vec![0; source.iteration.real_inputs.len()],
        };
        // In the order of the seeds.
        let used = (0..source.state.len()).filter(|&n| flow.used[n]);
        let with_adjoint = used.zip(&flow.sets).filter(|(_, set)| !set.is_empty());
        for (register, (n, _)) in with_adjoint.enumerate() {
            interface.state_registers[n] = Some(register as u16);
        }
        if source.push().is_some() && flow.sets.last().is_some_and(|set| !set.is_empty()) {
            interface.pushed = Some(interface.states - 1);
        }
        for (n, contribution) in contributions(iteration, derived) {
            let n = n as usize;
            if source.iteration.passive[n] {
                continue;
            }
            match source.iteration.real_inputs[n] {
                RealSource::Register(reg) => {
                    let carried = flow.carried[n];
                    if let Some(state) = carried
                        && interface.state_registers[state].is_none()
                    {
                        // Nothing flows into it from the end of an iteration, but something does out of its start.
                        interface.state_registers[state] = Some(interface.states);
                        interface.states += 1;
                    }
                    interface.activity[n] = activity_bit(interface.inputs.len());
                    interface.inputs.push(InputAdjoint { reg, contribution, carried });
                }
                RealSource::Element { array, index } => {
                    if !interface.arrays.contains(&array) {
                        interface.arrays.push(array);
                    }
                    interface.elements.push(ElementAdjoint { array, index, contribution });
                }
            }
        }
        for (n, &input) in source.iteration.real_inputs.iter().enumerate() {
            if let RealSource::Element { array, .. } = input
                && let Some(at) = interface.arrays.iter().position(|&known| known == array)
            {
                interface.activity[n] = activity_bit(interface.inputs.len() + at);
            }
        }
        interface
    }

    /// The words that registers have after the loop, and for those with a slot their adjoints' registers. Notes what
    /// the pushed elements depend on.
    pub(super) fn outputs(&mut self, source: &Loop, flow: &Flow) -> Vec<(u16, OutputWord, Option<u16>)> {
        let used: Vec<usize> = (0..source.state.len()).filter(|&n| flow.used[n]).collect();
        // What each depends on after any number of iterations.
        let mut masks = vec![0u64; source.state.len()];
        loop {
            let before = masks.clone();
            for (&n, set) in used.iter().zip(&flow.sets) {
                for input in set.iter() {
                    masks[n] |= self.activity[input] | flow.carried[input].map_or(0, |state| masks[state]);
                }
            }
            if masks == before {
                break;
            }
        }
        if self.pushed.is_some() {
            let inputs = flow.sets.last().into_iter().flat_map(InputSet::iter);
            let masks = inputs.map(|input| self.activity[input] | flow.carried[input].map_or(0, |state| masks[state]));
            self.push_mask = masks.fold(0, |all, mask| all | mask);
        }
        let mut slots = 0;
        let live = (0..source.state.len()).filter(|&n| source.state[n].live_after);
        live.map(|n| {
            let reg = source.state[n].reg;
            match self.state_registers[n] {
                Some(register) if masks[n] != 0 => {
                    slots += 1;
                    (reg, OutputWord::Slot { offset: slots - 1, mask: masks[n] }, Some(register))
                }
                _ => (reg, OutputWord::Zero, None),
            }
        })
        .collect()
    }
}

/// The n-th bit of an activity mask.
fn activity_bit(n: usize) -> u64 {
    1u64.checked_shl(n as u32).expect("a loop is recorded as one if it has no more inputs than a word has bits")
}
