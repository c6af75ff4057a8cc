//! A loop that carries a row, beside the loop that there was.

use super::super::copies;
use super::super::in_place::Retyping;
use super::{ELEMENTS_PER_ROUND, Found, Index, Load, Row};
use crate::core::{
    Atom, Binding, Body, Comparison, Expr, ExprId, ExprKind, Inside, Iteration, Origin, Range, TypeList, TypeLists, Var,
};
use crate::hash::{HashMap, HashSet};
use crate::list::List;
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// Puts the row in the place of the array.
pub(super) struct Rewriter<'r> {
    pub(super) body: &'r mut Body,
    pub(super) lists: &'r mut TypeLists,
    pub(super) found: &'r Found,
}

impl Rewriter<'_> {
    /// Has a loop carry the row. Returns the nodes of the loop as it was, in the order of evaluation.
    pub(super) fn carry(&mut self, expr: ExprId) -> Vec<ExprId> {
        let Expr { kind, types, origin } = self.body.exprs[expr].clone();
        let ExprKind::Loop(mut repeat) = kind else { unreachable!("only loops carry anything") };
        let Iteration::Range(range) = repeat.iteration else { unreachable!("this one is over a range") };
        let (mut bindings, mut init, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        self.body.name_values(repeat.init, self.lists, &mut bindings, &mut init);
        self.body.name_values(range.from, self.lists, &mut bindings, &mut ends);
        self.body.name_values(range.to, self.lists, &mut bindings, &mut ends);
        let Atom::Var(array) = init[self.found.at] else { unreachable!("an array is no number") };
        let index = self.index(origin, &mut bindings);
        let [from, to] = [ends[0], ends[1]];
        repeat.init = self.values(&init, types, origin);
        repeat.iteration = self.range(range.index, [from, to], origin);
        let repeated = self.body.exprs.push(Expr { kind: ExprKind::Loop(repeat.clone()), types, origin });
        let mut order: Vec<ExprId> = self.body.nodes_of(repeated).map(|(node, _)| node).collect();
        order.reverse();
        let copies = copies::copy(self.body, &order, &HashMap::default());
        let as_it_was = *copies.last().expect("a loop has nodes");

        let row_type = ValueType::Ref(self.found.row.array);
        let row = self.body.vars.push(row_type);
        self.rounds(array, index, &order);
        let mut carried = self.lists.get(types).to_vec();
        carried[self.found.at] = row_type;
        let carried_types = self.lists.intern(&carried);
        init[self.found.at] = Atom::Var(row);
        repeat.init = self.values(&init, carried_types, origin);
        self.body.exprs[repeated] = Expr { kind: ExprKind::Loop(repeat), types: carried_types, origin };

        let results: List<Var> = carried.iter().map(|&ty| self.body.vars.push(ty)).collect();
        let mut parts: Vec<ExprId> = results.iter().map(|&var| self.atom(Atom::Var(var), origin)).collect();
        let [source, place] = [Atom::Var(array), index].map(|atom| self.atom(atom, origin));
        let changed = ExprKind::Replace(self.found.array, [source, place, parts[self.found.at]]);
        parts[self.found.at] = self.make(changed, self.body.vars[array], origin);
        let value = self.body.exprs.push(Expr { kind: ExprKind::Values(parts.into()), types, origin });
        let binding = Binding { vars: results, value: repeated };
        let then = ExprKind::Block(Box::new([binding]), value);
        let then = self.body.exprs.push(Expr { kind: then, types, origin });
        let pays = self.pays((array, index, row), [from, to], origin);
        let value = self.body.exprs.push(Expr { kind: ExprKind::If([pays, then, as_it_was]), types, origin });
        self.body.exprs[expr].kind = ExprKind::Block(bindings.into(), value);
        copies
    }

    /// The index of the row.
    fn index(&mut self, origin: Origin, bindings: &mut Vec<Binding>) -> Atom {
        match self.found.index {
            Index { var: None, offset } => Atom::Int(offset),
            Index { var: Some(var), offset: 0 } => Atom::Var(var),
            Index { var: Some(var), offset } => {
                let args = [Atom::Var(var), Atom::Int(offset)].map(|atom| self.atom(atom, origin));
                let value = self.int(ExprKind::Scalar(Op::IAdd, List::from(args)), origin);
                let sum = self.body.vars.push(ValueType::Int);
                bindings.push(Binding { vars: List::from([sum]), value });
                Atom::Var(sum)
            }
        }
    }

    /// Whether the index is in the array, and the row not much longer than there are rounds. Binds the row.
    fn pays(&mut self, (array, index, row): (Var, Atom, Var), [from, to]: [Atom; 2], origin: Origin) -> ExprId {
        let found = self.found;
        let [zero, at, below] = [Atom::Int(0), index, index].map(|atom| self.atom(atom, origin));
        let source = self.atom(Atom::Var(array), origin);
        let len = self.int(ExprKind::Length(found.array, source), origin);
        let [first, end] = [from, to].map(|atom| self.atom(atom, origin));
        let [source, place] = [Atom::Var(array), index].map(|atom| self.atom(atom, origin));
        let value =
            self.make(ExprKind::Element(found.array, [source, place], Inside::Always), self.body.vars[row], origin);
        let source = self.atom(Atom::Var(row), origin);
        let elements = self.int(ExprKind::Length(found.row, source), origin);
        let few = self.atom(Atom::Int(ELEMENTS_PER_ROUND), origin);
        let needed = self.int(ExprKind::Scalar(Op::IDiv, List::from([elements, few])), origin);
        let [end_of_all, start] = [to, from].map(|atom| self.atom(atom, origin));
        let rounds = self.int(ExprKind::Scalar(Op::ISub, List::from([end_of_all, start])), origin);
        let is_long = self.int(ExprKind::Compare(Comparison::LessEqual, [needed, rounds]), origin);
        let binding = Binding { vars: List::from([row]), value };
        let is_long = self.int(ExprKind::Block(Box::new([binding]), is_long), origin);
        let tests = [
            ExprKind::Compare(Comparison::LessEqual, [zero, at]),
            ExprKind::Compare(Comparison::Less, [below, len]),
            ExprKind::Compare(Comparison::Less, [first, end]),
        ];
        tests.into_iter().rev().fold(is_long, |rest, test| {
            let test = self.int(test, origin);
            self.int(ExprKind::And([test, rest]), origin)
        })
    }

    /// Puts the row in the place of the array in the rounds, whose nodes are given in the order of evaluation. `array`
    /// is what it was before.
    fn rounds(&mut self, array: Var, index: Atom, order: &[ExprId]) {
        let found = self.found;
        let changed: HashSet<ExprId> =
            found.loads.iter().filter(|load| load.row == Row::Changed).map(|load| load.node).collect();
        // Where it is asked which row it is, its index is an atom.
        let asked: HashSet<usize> = found.asks.iter().map(|&(_, number)| number).collect();
        let mut places: HashMap<usize, Atom> = HashMap::default();
        let mut named: HashMap<ExprId, Binding> = HashMap::default();
        for (number, load) in found.loads.iter().enumerate() {
            let ExprKind::Element(_, [source, place], _) = self.body.exprs[load.node].kind else { continue };
            match load.row {
                Row::Changed => self.body.exprs[load.node].kind = ExprKind::Var(load.version),
                Row::Other | Row::Unknown => self.body.exprs[source].kind = ExprKind::Var(array),
            }
            if asked.contains(&number) {
                let Expr { ref kind, origin, .. } = self.body.exprs[place];
                let atom = match *kind {
                    ExprKind::Var(var) => Atom::Var(var),
                    ExprKind::Int(value) => Atom::Int(value),
                    _ => {
                        let var = self.body.vars.push(ValueType::Int);
                        let value = self.body.exprs[place].clone();
                        let value = self.body.exprs.push(value);
                        self.body.exprs[place] =
                            Expr { kind: ExprKind::Var(var), types: self.lists.intern(&[ValueType::Int]), origin };
                        named.insert(load.node, Binding { vars: List::from([var]), value });
                        Atom::Var(var)
                    }
                };
                places.insert(number, atom);
            }
        }
        found.lengths.iter().for_each(|&length| {
            if let ExprKind::Length(_, source) = self.body.exprs[length].kind {
                self.body.exprs[source].kind = ExprKind::Var(array);
            }
        });
        found.uses.iter().for_each(|&(name, version)| self.body.exprs[name].kind = ExprKind::Var(version));
        for &version in &found.versions {
            self.body.vars[version] = ValueType::Ref(found.row.array);
        }
        for &change in &found.changes {
            if let ExprKind::Replace(_, [_, _, row]) = self.body.exprs[change].kind {
                self.body.exprs[change].kind = ExprKind::Block(Box::default(), row);
            }
        }
        for &(reader, number) in &found.asks {
            self.ask(reader, (found.loads[number], places[&number], index));
        }
        // Bindings of the changed row name what has a name, and indices get theirs.
        for &node in order {
            let ExprKind::Block(bindings, _) = &mut self.body.exprs[node].kind else { continue };
            let is_touched = |binding: &Binding| changed.contains(&binding.value) || named.contains_key(&binding.value);
            if bindings.iter().any(is_touched) {
                let old = std::mem::take(bindings).into_vec();
                let mut new = Vec::with_capacity(old.len() + 1);
                for binding in old.into_iter().filter(|binding| !changed.contains(&binding.value)) {
                    new.extend(named.remove(&binding.value));
                    new.push(binding);
                }
                *bindings = new.into();
            }
        }
        debug_assert!(named.is_empty(), "a row of which it is asked which one it is has a name");
        found.of_blocks.iter().for_each(|&reader| self.lift(reader));
        let mut retyping = Retyping::default();
        order.iter().for_each(|&node| retyping.expr(self.body, self.lists, node));
    }

    /// Has the row that is read or changed be a variable: what else stands in its place comes before.
    fn lift(&mut self, reader: ExprId) {
        let Expr { mut kind, types, origin } = self.body.exprs[reader].clone();
        let (mut bindings, mut atoms) = (Vec::new(), Vec::new());
        if let ExprKind::Element(_, [row, _], _) | ExprKind::Length(_, row) | ExprKind::Replace(_, [row, ..]) =
            &mut kind
        {
            self.body.name_values(*row, self.lists, &mut bindings, &mut atoms);
            *row = self.atom(atoms[0], origin);
            let value = self.body.exprs.push(Expr { kind, types, origin });
            self.body.exprs[reader].kind = ExprKind::Block(bindings.into(), value);
        }
    }

    /// Reads an element of the changed row, or of another one.
    fn ask(&mut self, reader: ExprId, (load, place, changed): (Load, Atom, Atom)) {
        let Expr { kind, types, origin } = self.body.exprs[reader].clone();
        let ExprKind::Element(row, [source, element], is_certain) = kind else { return };
        let (mut bindings, mut other) = (Vec::new(), Vec::new());
        self.body.name_values(source, self.lists, &mut bindings, &mut other);
        let mut element_atoms = Vec::new();
        self.body.name_values(element, self.lists, &mut bindings, &mut element_atoms);
        let [ours, theirs] = [Atom::Var(load.version), other[0]].map(|source| {
            let pair = [source, element_atoms[0]].map(|atom| self.atom(atom, origin));
            self.body.exprs.push(Expr { kind: ExprKind::Element(row, pair, is_certain), types, origin })
        });
        let pair = [place, changed].map(|atom| self.atom(atom, origin));
        let is_ours = self.int(ExprKind::Compare(Comparison::Equal, pair), origin);
        let value = self.body.exprs.push(Expr { kind: ExprKind::If([is_ours, ours, theirs]), types, origin });
        self.body.exprs[reader].kind = ExprKind::Block(bindings.into(), value);
    }

    fn range(&mut self, index: Var, ends: [Atom; 2], origin: Origin) -> Iteration {
        let [from, to] = ends.map(|atom| self.atom(atom, origin));
        Iteration::Range(Range { index, from, to })
    }

    fn values(&mut self, atoms: &[Atom], types: TypeList, origin: Origin) -> ExprId {
        let parts = atoms.iter().map(|&atom| self.atom(atom, origin)).collect();
        self.body.exprs.push(Expr { kind: ExprKind::Values(parts), types, origin })
    }

    fn atom(&mut self, atom: Atom, origin: Origin) -> ExprId {
        self.body.atom(atom, origin, self.lists)
    }

    fn int(&mut self, kind: ExprKind, origin: Origin) -> ExprId {
        self.make(kind, ValueType::Int, origin)
    }

    fn make(&mut self, kind: ExprKind, ty: ValueType, origin: Origin) -> ExprId {
        self.body.exprs.push(Expr { kind, types: self.lists.intern(&[ty]), origin })
    }
}
