//! Elements of arrays that a block of a region has loaded, and a later block reads. There they can be loaded again as
//! well, as long as registers hold what leads to them: the test of an index ends a block, and what is computed with the
//! element stands behind the next test.

use super::stretch::Stretch;
use crate::bytecode::isa::{Bank, Op, Reg};
use crate::derivation::graph::{Node, NodeId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An index of more nodes is not handed on.
const NODES_MAX: usize = 16;

/// An element, told by what registers hold.
#[derive(Debug)]
pub(crate) struct Handed {
    /// The integer register that holds the cell with the array.
    pub(crate) cell: u16,
    pub(crate) index: Index,
}

/// An integer that is computed from those in registers.
#[derive(Debug)]
pub(crate) enum Index {
    Int(i64),
    Register(u16),
    Op(Op, Vec<Index>),
}

impl Index {
    /// A node of a stretch; `left` nodes it may have.
    fn of(stretch: &Stretch, id: NodeId, left: &mut usize) -> Option<Index> {
        *left = left.checked_sub(1)?;
        match stretch.graph.node(id) {
            Node::Int(n) => Some(Index::Int(n)),
            Node::Op(op, _) if !op.info().traps => {
                let args = stretch.graph.args(id).map(|arg| Index::of(stretch, arg, left));
                Some(Index::Op(op, args.collect::<Option<_>>()?))
            }
            node => match stretch.input_register(node)? {
                Reg { bank: Bank::Int, index } => Some(Index::Register(index)),
                _ => None,
            },
        }
    }

    /// Whether a register that it reads is one of these.
    fn reads_any(&self, written: &dyn Fn(u16) -> bool) -> bool {
        match self {
            Index::Int(_) => false,
            Index::Register(register) => written(*register),
            Index::Op(_, args) => args.iter().any(|arg| arg.reads_any(written)),
        }
    }
}

/// The registers that hold elements where a block begins or ends, whatever way control has taken there.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedOn {
    elements: BTreeMap<Reg, Rc<Handed>>,
}

impl HandedOn {
    /// How many these are.
    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    /// The element that a register holds.
    pub(crate) fn get(&self, reg: Reg) -> Option<&Rc<Handed>> {
        self.elements.get(&reg)
    }

    /// What there is behind a block, if this is before it.
    pub(crate) fn behind(&self, stretch: &Stretch) -> HandedOn {
        let written = |register: u16| stretch.ends.contains_key(&Reg::int(register));
        let lasts = |handed: &Handed| !written(handed.cell) && !handed.index.reads_any(&written);
        let old = self.elements.iter().filter(|(reg, _)| !stretch.ends.contains_key(reg));
        let old = old.map(|(&reg, handed)| (reg, Rc::clone(handed)));
        let new = stretch.ends.iter().filter_map(|(&reg, &node)| {
            let &[cell, index] = stretch.load(stretch.graph.node(node))?;
            let cell = stretch.input_register(stretch.graph.node(cell))?.index;
            Some((reg, Rc::new(Handed { cell, index: Index::of(stretch, index, &mut { NODES_MAX })? })))
        });
        HandedOn { elements: old.chain(new).filter(|(_, handed)| lasts(handed)).collect() }
    }
}
