//! Unification. Iterative and near-linear in the number of nodes: nodes are joined before their arguments are compared,
//! so that shared parts are compared once. A failure leaves the graph as it was.

use super::{Class, Con, Node, Ty, Types};

/// Why two types are not the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch {
    /// Their constructors or classes differ somewhere.
    Different,
    /// A type would contain itself.
    Infinite,
}

impl Types {
    /// Makes two types the same.
    pub(crate) fn unify(&mut self, a: Ty, b: Ty) -> Result<(), Mismatch> {
        self.trail.clear();
        let result = self.unify_all(vec![(a, b)]);
        if result.is_err() {
            while let Some((ty, node)) = self.trail.pop() {
                self.nodes[ty] = node;
            }
        }
        result
    }

    fn unify_all(&mut self, mut pending: Vec<(Ty, Ty)>) -> Result<(), Mismatch> {
        while let Some((a, b)) = pending.pop() {
            let (a, b) = (self.root(a), self.root(b));
            if a == b {
                continue;
            }
            match (&self.nodes[a], &self.nodes[b]) {
                (Node::Var(_), Node::Error) => self.set(a, Node::Link(b)),
                (Node::Error, Node::Var(_)) => self.set(b, Node::Link(a)),
                (Node::Error, _) | (_, Node::Error) => {}
                (&Node::Var(x), &Node::Var(y)) => {
                    self.set(a, Node::Var(x.max(y)));
                    self.set(b, Node::Link(a));
                }
                (&Node::Var(class), &Node::Con { con, .. }) => self.bind(a, class, b, con)?,
                (&Node::Con { con, .. }, &Node::Var(class)) => self.bind(b, class, a, con)?,
                (Node::Con { con: c, args: xs, .. }, Node::Con { con: d, args: ys, .. }) => {
                    if c != d || xs.len() != ys.len() {
                        return Err(Mismatch::Different);
                    }
                    pending.extend(xs.iter().copied().zip(ys.iter().copied()));
                    // The link must go towards the node that knows that it is ground.
                    let (from, to) = if self.is_ground(a) { (b, a) } else { (a, b) };
                    self.set(from, Node::Link(to));
                }
                (Node::Link(_), _) | (_, Node::Link(_)) => unreachable!("roots are not links"),
            }
        }
        Ok(())
    }

    /// Tightens what a type may be.
    pub(crate) fn require(&mut self, ty: Ty, class: Class) -> Result<(), Mismatch> {
        let root = self.root(ty);
        match self.nodes[root] {
            Node::Var(old) => self.nodes[root] = Node::Var(old.max(class)),
            Node::Con { con, .. } if !class.admits(con) => return Err(Mismatch::Different),
            _ => {}
        }
        Ok(())
    }

    fn bind(&mut self, var: Ty, class: Class, ty: Ty, con: Con) -> Result<(), Mismatch> {
        if !class.admits(con) {
            return Err(Mismatch::Different);
        }
        if self.occurs(var, ty) {
            return Err(Mismatch::Infinite);
        }
        self.set(var, Node::Link(ty));
        Ok(())
    }

    fn set(&mut self, ty: Ty, node: Node) {
        let old = std::mem::replace(&mut self.nodes[ty], node);
        self.trail.push((ty, old));
    }

    fn occurs(&mut self, var: Ty, ty: Ty) -> bool {
        if self.is_ground(ty) {
            return false;
        }
        self.start_walk();
        let mut pending = vec![ty];
        while let Some(ty) = pending.pop() {
            let root = self.root(ty);
            if root == var {
                return true;
            }
            if self.visit(root)
                && let Node::Con { args, ground: false, .. } = &self.nodes[root]
            {
                pending.extend(args.iter().copied());
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_meet_and_exclude() {
        let mut types = Types::new();
        let (a, b) = (types.var(Class::Equal), types.var(Class::Number));
        assert_eq!(types.unify(a, b), Ok(()));
        assert_eq!(types.unify(a, types.bool), Err(Mismatch::Different));
        assert_eq!(types.unify(a, types.int), Ok(()));
        assert_eq!(types.con_of(b), Some(Con::Int));
    }

    #[test]
    fn a_failure_changes_nothing() {
        let mut types = Types::new();
        let var = types.var(Class::Any);
        let left = types.tuple(vec![var, types.int]);
        let right = types.tuple(vec![types.real, types.bool]);
        assert_eq!(types.unify(left, right), Err(Mismatch::Different));
        assert!(matches!(types.node(var), Node::Var(Class::Any)));
        assert_eq!(types.show(left), "(a, Int)");
    }

    #[test]
    fn infinite_types_are_refused() {
        let mut types = Types::new();
        let var = types.var(Class::Any);
        let array = types.con(Con::Array, vec![var]);
        assert_eq!(types.unify(var, array), Err(Mismatch::Infinite));
    }

    #[test]
    fn shared_types_unify_in_linear_time() {
        let mut types = Types::new();
        let grow = |types: &mut Types| {
            let mut ty = types.var(Class::Any);
            for _ in 0..200 {
                ty = types.tuple(vec![ty, ty]);
            }
            ty
        };
        let (a, b) = (grow(&mut types), grow(&mut types));
        assert_eq!(types.unify(a, b), Ok(()));
        assert!(types.show(a).len() < 400);
    }
}
