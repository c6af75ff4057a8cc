//! Elements of arrays that a block of a region has loaded, and integers that it has computed, which a later block
//! reads. There they can be loaded and computed again as well, as long as registers hold what leads to them: the test
//! of an index ends a block, and what is read there, and what is computed with it, stands behind the next test.

use super::stretch::Stretch;
use crate::bytecode::isa::{Bank, Op, Reg};
use crate::derivation::graph::{Node, NodeId};
use crate::derivation::plan::is_cheap;
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
            Node::Op(op, _) if is_cheap(&stretch.graph, id) => {
                let args = stretch.graph.args(id).map(|arg| Index::of(stretch, arg, left));
                Some(Index::Op(op, args.collect::<Option<_>>()?))
            }
            node if let Some(&same) = stretch.same(node) => Index::of(stretch, same, left),
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

/// The registers that hold elements and computed integers where a block begins or ends, whatever way control has taken
/// there.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedOn {
    elements: BTreeMap<Reg, Rc<Handed>>,
    ints: BTreeMap<u16, Rc<Index>>,
}

impl HandedOn {
    /// How many these are.
    pub(crate) fn len(&self) -> usize {
        self.elements.len() + self.ints.len()
    }

    /// The element that a register holds.
    pub(crate) fn get(&self, reg: Reg) -> Option<&Rc<Handed>> {
        self.elements.get(&reg)
    }

    /// What the integer in a register was computed from.
    pub(crate) fn int(&self, register: u16) -> Option<&Rc<Index>> {
        self.ints.get(&register)
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
        let elements = old.chain(new).filter(|(_, handed)| lasts(handed)).collect();
        let old = self.ints.iter().filter(|(register, _)| !written(**register));
        let old = old.map(|(&register, index)| (register, Rc::clone(index)));
        let new = stretch.ends.iter().filter(|(reg, _)| reg.bank == Bank::Int).filter_map(|(reg, &node)| {
            let index = Index::of(stretch, node, &mut { NODES_MAX })?;
            matches!(index, Index::Op(..)).then(|| (reg.index, Rc::new(index)))
        });
        HandedOn { elements, ints: old.chain(new).filter(|(_, index)| !index.reads_any(&written)).collect() }
    }
}
