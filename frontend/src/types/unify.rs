//! Unification. Iterative and near-linear in the number of nodes: nodes are joined before their arguments are compared,
//! so that shared parts are compared once. A failure leaves the graph as it was.

use super::{Class, Con, Kinds, Node, Ty, Types};
use crate::hash::HashSet;

/// Why two types are not the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch {
    /// Their constructors or classes differ somewhere.
    Different,
    /// A type would contain itself.
    Infinite,
}

/// How to go back.
#[derive(Debug)]
pub(super) enum Undo {
    /// A node was another one.
    Node(Ty, Node),
    /// A constructor was not known to have equality.
    Equal(Ty),
    /// A node was not written as an abbreviation.
    Written(Ty),
}

/// What is still to be done.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Two types must be the same.
    Same(Ty, Ty),
    /// A type must be in a class.
    Require(Ty, Class),
}

impl Types {
    /// Makes two types the same.
    pub(crate) fn unify(&mut self, a: Ty, b: Ty) -> Result<(), Mismatch> {
        self.run(Work::Same(a, b))
    }

    /// Tightens what a type may be.
    pub(crate) fn require(&mut self, ty: Ty, class: Class) -> Result<(), Mismatch> {
        self.run(Work::Require(ty, class))
    }

    fn run(&mut self, work: Work) -> Result<(), Mismatch> {
        self.trail.clear();
        let mut oldest = u32::MAX;
        let result = self.run_all(vec![work], &mut oldest).and_then(|()| self.check_finite(oldest));
        if result.is_err() {
            while let Some(undo) = self.trail.pop() {
                match undo {
                    Undo::Node(ty, node) => self.nodes[ty] = node,
                    Undo::Equal(ty) => self.set_equal(ty, false),
                    Undo::Written(ty) => _ = self.written.remove(&ty),
                }
            }
        }
        result
    }

    /// Whether the types that were just joined are finite. Binding a variable looks for it in its type, but it does not
    /// find it where a link has led around it: in a type that was joined with a part of itself.
    ///
    /// Only types with a variable that was just bound, `oldest` or younger, can be infinite now. What equals a type
    /// without one has the finite parts of that type. An unknown type equals anything: with one, `oldest` is 0.
    fn check_finite(&mut self, oldest: u32) -> Result<(), Mismatch> {
        let joined = self.trail.iter().filter_map(|undo| match undo {
            Undo::Node(ty, Node::Con { .. }) => Some((self.root(*ty), false)),
            _ => None,
        });
        let mut pending: Vec<(Ty, bool)> = joined.collect();
        self.start_walk();
        let mut path = HashSet::default();
        while let Some((ty, left)) = pending.pop() {
            if !self.walk_on() {
                break;
            }
            if left {
                path.remove(&ty);
            } else if path.contains(&ty) {
                return Err(Mismatch::Infinite);
            } else if self.newest(ty) >= oldest
                && self.visit(ty)
                && let Node::Con { args, .. } = &self.nodes[ty]
                && !args.is_empty()
            {
                path.insert(ty);
                pending.push((ty, true));
                pending.extend(args.iter().map(|&arg| (self.root(arg), false)));
            }
        }
        Ok(())
    }

    /// Lowers `oldest` to the birth of the oldest variable that is bound to a constructor's type, and to 0 if an
    /// unknown type stands for one.
    fn run_all(&mut self, mut pending: Vec<Work>, oldest: &mut u32) -> Result<(), Mismatch> {
        while let Some(work) = pending.pop() {
            if !self.walk_on() {
                break;
            }
            let (a, b) = match work {
                Work::Same(a, b) => (self.root(a), self.root(b)),
                Work::Require(ty, class) => {
                    let root = self.root(ty);
                    match self.nodes[root] {
                        Node::Var { class: old, birth } => {
                            let class = old.meet(class).ok_or(Mismatch::Different)?;
                            self.set(root, Node::Var { class, birth });
                        }
                        Node::Con { con, .. } => self.admit(class, root, con, &mut pending)?,
                        Node::Error | Node::Link(_) => {}
                    }
                    continue;
                }
            };
            if a == b {
                continue;
            }
            match (&self.nodes[a], &self.nodes[b]) {
                (Node::Var { .. }, Node::Error) => self.set(a, Node::Link(b)),
                (Node::Error, Node::Var { .. }) => self.set(b, Node::Link(a)),
                (Node::Error, _) | (_, Node::Error) => *oldest = 0,
                (&Node::Var { class: x, birth: i }, &Node::Var { class: y, birth: j }) => {
                    let class = x.meet(y).ok_or(Mismatch::Different)?;
                    self.set(a, Node::Var { class, birth: i.min(j) });
                    self.set(b, Node::Link(a));
                }
                (&Node::Var { class, birth }, &Node::Con { con, .. }) => {
                    self.admit(class, b, con, &mut pending)?;
                    self.bind(a, birth, b)?;
                    *oldest = birth.min(*oldest);
                }
                (&Node::Con { con, .. }, &Node::Var { class, birth }) => {
                    self.admit(class, a, con, &mut pending)?;
                    self.bind(b, birth, a)?;
                    *oldest = birth.min(*oldest);
                }
                (Node::Con { con: c, args: xs, .. }, Node::Con { con: d, args: ys, .. }) => {
                    if c != d || xs.len() != ys.len() {
                        return Err(Mismatch::Different);
                    }
                    pending.extend(xs.iter().zip(ys.iter()).map(|(&x, &y)| Work::Same(x, y)));
                    // The link goes towards the node that knows more of its variables.
                    let (from, to) = if self.newest(a) <= self.newest(b) { (b, a) } else { (a, b) };
                    self.set(from, Node::Link(to));
                    if let Some(written) = self.written.get(&from)
                        && !self.written.contains_key(&to)
                    {
                        self.written.insert(to, written.clone());
                        self.trail.push(Undo::Written(to));
                    }
                }
                (Node::Link(_), _) | (_, Node::Link(_)) => unreachable!("roots are not links"),
            }
        }
        Ok(())
    }

    /// Whether a constructor's types are in a class; what must hold for its arguments then.
    fn admit(&mut self, class: Class, ty: Ty, con: Con, pending: &mut Vec<Work>) -> Result<(), Mismatch> {
        let is_number = matches!(con, Con::Real | Con::Int);
        let admitted = match class {
            Class::Any => return Ok(()),
            Class::Ordered | Class::Number => is_number,
            Class::Kind(kinds) => matches!(con, Con::Kind(kind) if kinds.has(kind)),
            Class::Arithmetic => match (con, &self.nodes[ty]) {
                (Con::Collection, Node::Con { args, .. }) => {
                    let kind = Work::Require(args[0], Class::Kind(Kinds::ARRAYS));
                    pending.extend([kind, Work::Require(args[1], Class::Arithmetic)]);
                    return Ok(());
                }
                _ => is_number,
            },
            // Both are all types without functions.
            Class::Data | Class::Equal => match con {
                Con::Real | Con::Int | Con::Bool => return Ok(()),
                Con::Function | Con::Kind(_) => false,
                Con::Data(data) => self.has_equality(data),
                Con::Tuple | Con::Collection | Con::Record(_) => true,
            },
        };
        if !admitted {
            return Err(Mismatch::Different);
        }
        if let Node::Con { args, equal: false, .. } = &self.nodes[ty]
            && !args.is_empty()
        {
            let parts = if con == Con::Collection { &args[1..] } else { args };
            pending.extend(parts.iter().map(|&arg| Work::Require(arg, class)));
            // Parts may be shared, and a type may be asked for again.
            self.set_equal(ty, true);
            self.trail.push(Undo::Equal(ty));
        }
        Ok(())
    }

    fn set_equal(&mut self, ty: Ty, value: bool) {
        if let Node::Con { equal, .. } = &mut self.nodes[ty] {
            *equal = value;
        }
    }

    fn bind(&mut self, var: Ty, birth: u32, ty: Ty) -> Result<(), Mismatch> {
        if self.occurs(var, birth, ty) {
            return Err(Mismatch::Infinite);
        }
        self.set(var, Node::Link(ty));
        Ok(())
    }

    fn set(&mut self, ty: Ty, node: Node) {
        let old = std::mem::replace(&mut self.nodes[ty], node);
        self.trail.push(Undo::Node(ty, old));
    }

    /// Whether a variable is in a type. The type's variables become as old as the variable.
    fn occurs(&mut self, var: Ty, birth: u32, ty: Ty) -> bool {
        if self.newest(ty) < birth {
            return false;
        }
        self.start_walk();
        let mut pending = vec![ty];
        while let Some(ty) = pending.pop() {
            let root = self.root(ty);
            if root == var {
                return true;
            }
            // What has only older variables needs no look.
            if self.newest(root) < birth || !self.visit(root) {
                continue;
            }
            if !self.walk_on() {
                break;
            }
            match &self.nodes[root] {
                Node::Con { args, .. } => pending.extend(args.iter().copied()),
                &Node::Var { class, birth: own } if own > birth => self.set(root, Node::Var { class, birth }),
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Meter;
    use std::rc::Rc;

    #[test]
    fn classes_meet_and_exclude() {
        let mut types = Types::new(Rc::new(Meter::unlimited()));
        let (a, b) = (types.var(Class::Equal), types.var(Class::Number));
        assert_eq!(types.unify(a, b), Ok(()));
        assert_eq!(types.unify(a, types.bool), Err(Mismatch::Different));
        assert_eq!(types.unify(a, types.int), Ok(()));
        assert_eq!(types.con_of(b), Some(Con::Int));
    }

    #[test]
    fn a_failure_changes_nothing() {
        let mut types = Types::new(Rc::new(Meter::unlimited()));
        let var = types.var(Class::Any);
        let left = types.tuple(vec![var, types.int]);
        let right = types.tuple(vec![types.real, types.bool]);
        assert_eq!(types.unify(left, right), Err(Mismatch::Different));
        assert!(matches!(types.node(var), Node::Var { class: Class::Any, .. }));
        assert_eq!(types.show(left), "(a, Int)");
    }

    #[test]
    fn equality_goes_into_the_parts() {
        let mut types = Types::new(Rc::new(Meter::unlimited()));
        let (a, var) = (types.var(Class::Equal), types.var(Class::Any));
        let array = types.array(var);
        assert_eq!(types.unify(a, array), Ok(()));
        let function = types.function(types.int, types.int);
        assert_eq!(types.unify(var, function), Err(Mismatch::Different));
        assert_eq!(types.show(function), "Int -> Int");
        let list = types.tuple(vec![function, types.int]);
        assert_eq!(types.require(list, Class::Equal), Err(Mismatch::Different));
    }

    #[test]
    fn infinite_types_are_refused() {
        let mut types = Types::new(Rc::new(Meter::unlimited()));
        let var = types.var(Class::Any);
        let array = types.array(var);
        assert_eq!(types.unify(var, array), Err(Mismatch::Infinite));
    }

    #[test]
    fn a_type_is_no_part_of_itself_though_a_part_is_unknown() {
        let joined = [false, true].map(|swapped| {
            let mut types = Types::new(Rc::new(Meter::unlimited()));
            let unknown = types.array(types.error);
            let around = types.array(unknown);
            let (a, b) = if swapped { (around, unknown) } else { (unknown, around) };
            let joined = types.unify(a, b);
            assert!(types.show(a).len() < 20 && types.show(b).len() < 20);
            joined
        });
        // Which of two types stands for both is open.
        assert!(joined.contains(&Err(Mismatch::Infinite)), "{joined:?}");
    }

    #[test]
    fn a_type_is_no_part_of_itself_though_a_link_leads_around_its_variable() {
        for swapped in [false, true] {
            let mut types = Types::new(Rc::new(Meter::unlimited()));
            let var = types.var(Class::Any);
            let inner = types.array(var);
            let around = types.array(inner);
            let (a, b) = if swapped { (around, inner) } else { (inner, around) };
            assert_eq!(types.unify(a, b), Err(Mismatch::Infinite));
            assert_eq!(types.show(around), "Array (Array a)");
        }
    }

    #[test]
    fn equalities_that_go_round_in_a_circle_are_infinite() {
        let mut types = Types::new(Rc::new(Meter::unlimited()));
        let [p, q] = [types.var(Class::Any), types.var(Class::Any)];
        let [of_p, of_q] = [p, q].map(|var| types.array(var));
        let [around_p, around_q] = [of_p, of_q].map(|ty| types.array(ty));
        // One equality after the other: p is an array of q, and then q is p.
        let left = types.tuple(vec![of_p, around_q]);
        let right = types.tuple(vec![around_q, around_p]);
        assert_eq!(types.unify(left, right), Err(Mismatch::Infinite));
        assert_eq!(types.unify(right, left), Err(Mismatch::Infinite));
        assert_eq!(types.show(left), "(Array a, Array (Array b))");
        assert_eq!(types.unify(of_p, around_q), Ok(()));
        assert_eq!(types.show(left), "(Array (Array a), Array (Array a))");
    }

    #[test]
    fn shared_types_unify_in_linear_time() {
        let mut types = Types::new(Rc::new(Meter::unlimited()));
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
