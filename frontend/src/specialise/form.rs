//! What is known of a value at compile time: its form.
//!
//! A function known at compile time is no object. Its form says which code it is and what forms its captures have; at
//! run time it is its captures' registers, side by side, and if it captures nothing it is nothing. Calls of it are
//! direct calls, and a function that it is passed to is specialised on its form (compare Paige and Henglein's and
//! Jones, Gomard and Sestoft's partially static values; 1993, section 8). Tuples and records of functions have the
//! forms of their parts. Whatever else holds a function (a list, a loop's variable, the branches of an `if`) holds a
//! closure object: the plain form.

use crate::arena::{Table, id_types};
use crate::ast::{BinaryOp, ConstructorId, DefId, ExprId, LocalFunctionId};
use crate::builtins::Builtin;
use crate::core::{Atom, ExprId as CoreExprId, TypeList, TypeLists};
use crate::hash::HashMap;
use crate::mono::{Mono, Monos};
use crate::types::Ty;

id_types! {
    /// The form of values.
    Form;
    /// What type variables stand for.
    TypeArgs;
}

/// Code that is known at compile time. What is not of the program is told apart by the type of the whole function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Code {
    /// A definition.
    Def(DefId),
    /// A function that a `let` defines.
    Local(LocalFunctionId),
    /// A lambda, or a round of a loop over a collection.
    Lambda(ExprId),
    /// A builtin.
    Builtin(Builtin, Mono),
    /// A constructor.
    Constructor(ConstructorId, Mono),
    /// An operator.
    Operator(BinaryOp, Mono),
    /// `\f b a -> f a b`, of this type after `f` and `b`.
    Flip(Mono),
    /// `\f a … -> f a …` for a closure object `f` of this type.
    Closure(Mono),
    /// A part of a `par`, without parameters.
    Branch(ExprId),
    /// `\from to f -> [| f i for i in from .. to |]`, of this array type.
    Part(Mono),
    /// `\a … -> f a …` for a definition f whose value is a function, of all arguments: what hosts call.
    Applied(DefId),
    /// `\f a … -> f a …` with plain arguments and a plain result: the code of the closure object of `f`.
    Entry,
    /// `\f x -> f x` with a plain argument and a plain result: what a derivative of `f` is taken of.
    Differentiated,
    /// `\g x t -> g x t` with plain arguments and a plain result, without the integers of `t` and of the result: a
    /// derivative that `g` gives.
    Rule,
}

/// What a form is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum FormNode {
    /// Any value of a type.
    Plain(Mono),
    /// A tuple or record with parts of other forms.
    Parts(Mono, Box<[Form]>),
    /// A known function.
    Function {
        /// Its type.
        ty: Mono,
        /// Its code.
        code: Code,
        /// What the type variables in the code are.
        types: TypeArgs,
        /// What its code captures, and then the arguments that it was given.
        captures: Box<[Form]>,
    },
}

/// A value whose registers are known.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) form: Form,
    pub(super) atoms: Box<[Atom]>,
}

/// An expression and the form of its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaped {
    pub(super) expr: CoreExprId,
    pub(super) form: Form,
}

#[derive(Debug)]
struct Entry {
    node: FormNode,
    flat: TypeList,
    /// How deep functions are nested in captures.
    depth: u32,
    /// How many forms there are in it.
    nodes: usize,
}

/// All forms of a program.
#[derive(Default, Debug)]
pub(super) struct Forms {
    entries: Table<Form, Entry>,
    ids: HashMap<FormNode, Form>,
}

impl Forms {
    /// The form with this structure.
    pub(super) fn intern(&mut self, node: FormNode, monos: &Monos, lists: &mut TypeLists) -> Form {
        if let Some(&form) = self.ids.get(&node) {
            return form;
        }
        let (flat, depth, nodes) = match &node {
            FormNode::Plain(mono) => (monos.flat(*mono), 0, 1),
            FormNode::Parts(_, parts) => (self.concat(parts, lists), self.depth_of(parts), self.nodes_of(parts)),
            FormNode::Function { captures, .. } => {
                (self.concat(captures, lists), self.depth_of(captures) + 1, self.nodes_of(captures))
            }
        };
        let form = self.entries.push(Entry { node: node.clone(), flat, depth, nodes });
        self.ids.insert(node, form);
        form
    }

    fn concat(&self, parts: &[Form], lists: &mut TypeLists) -> TypeList {
        let mut flat = Vec::new();
        parts.iter().for_each(|&part| flat.extend_from_slice(lists.get(self.flat(part))));
        lists.intern(&flat)
    }

    fn depth_of(&self, parts: &[Form]) -> u32 {
        parts.iter().map(|&part| self.depth(part)).max().unwrap_or(0)
    }

    fn nodes_of(&self, parts: &[Form]) -> usize {
        1 + parts.iter().map(|&part| self.nodes(part)).sum::<usize>()
    }

    /// What a form is.
    pub(super) fn node(&self, form: Form) -> &FormNode {
        &self.entries[form].node
    }

    /// The registers of values of a form.
    pub(super) fn flat(&self, form: Form) -> TypeList {
        self.entries[form].flat
    }

    /// How deep functions are nested in captures.
    pub(super) fn depth(&self, form: Form) -> u32 {
        self.entries[form].depth
    }

    /// How many forms there are in a form.
    pub(super) fn nodes(&self, form: Form) -> usize {
        self.entries[form].nodes
    }

    /// Whether it is the plain form.
    pub(super) fn is_plain(&self, form: Form) -> bool {
        matches!(self.node(form), FormNode::Plain(_))
    }

    /// The type of values of a form.
    pub(super) fn mono(&self, form: Form) -> Mono {
        match *self.node(form) {
            FormNode::Plain(mono) | FormNode::Parts(mono, _) | FormNode::Function { ty: mono, .. } => mono,
        }
    }
}

/// What type variables stand for, one level of polymorphic functions inside of another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct TypeArgsNode {
    /// The levels around.
    pub(super) outer: Option<TypeArgs>,
    /// The innermost level.
    pub(super) vars: Box<[(Ty, Mono)]>,
}

/// All assignments of type variables.
#[derive(Default, Debug)]
pub(super) struct TypeArgsTable {
    entries: Table<TypeArgs, TypeArgsNode>,
    ids: HashMap<TypeArgsNode, TypeArgs>,
}

impl TypeArgsTable {
    /// The assignment with this innermost level.
    pub(super) fn intern(&mut self, outer: Option<TypeArgs>, vars: Box<[(Ty, Mono)]>) -> TypeArgs {
        let node = TypeArgsNode { outer, vars };
        if let Some(&id) = self.ids.get(&node) {
            return id;
        }
        let id = self.entries.push(node.clone());
        self.ids.insert(node, id);
        id
    }

    /// An assignment's innermost level, and what is around it.
    pub(super) fn node(&self, id: TypeArgs) -> &TypeArgsNode {
        &self.entries[id]
    }

    /// The assignment around this one that has so many others around it.
    pub(super) fn around(&self, id: TypeArgs, depth: u32) -> TypeArgs {
        let mut all = vec![id];
        while let Some(outer) = self.entries[all[all.len() - 1]].outer {
            all.push(outer);
        }
        all[all.len() - 1 - depth as usize]
    }
}
