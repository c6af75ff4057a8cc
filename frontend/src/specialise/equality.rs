//! Structural equality: one function per type, with a loop along the last field that is of the type itself, as in
//! lists.

use super::Specialiser;
use crate::arena::Id;
use crate::core::{
    Atom, Binding, Body, Comparison, Expr, ExprId, ExprKind, Field, Function, FunctionId, Inside, Iteration, Loop,
    Origin, Switch, Var,
};
use crate::list::List;
use crate::mono::{Mono, MonoNode};
use dualvm_vm::isa::Op;
use dualvm_vm::module::ValueType;

/// A function under construction.
struct Builder<'b, 's> {
    program: &'b mut Specialiser<'s>,
    body: Body,
}

impl Specialiser<'_> {
    /// The function that compares two values of a type.
    pub(super) fn equality(&mut self, ty: Mono) -> FunctionId {
        if let Some(&function) = self.equalities.get(&ty) {
            return function;
        }
        let int = self.program.lists.intern(&[ValueType::Int]);
        let id = FunctionId::from_index(self.program.functions.len());
        let name = format!("==<{}>", self.type_text(ty));
        let (body, root) = (Body::default(), ExprId::from_index(0));
        let empty = Function {
            id,
            name,
            written: None,
            interface: None,
            twin_of: None,
            params: Vec::new(),
            results: int,
            body,
            root,
        };
        self.program.functions.push(empty);
        self.equalities.insert(ty, id);
        let mut builder = Builder { program: self, body: Body::default() };
        let left = builder.new_vars(ty);
        let right = builder.new_vars(ty);
        let root = crate::stack::grown(|| builder.same(ty, &left, &right));
        let body = builder.body;
        let function = &mut self.program.functions[id];
        function.params = left.into_iter().chain(right).collect();
        function.body = body;
        function.root = root;
        id
    }
}

impl Builder<'_, '_> {
    fn types(&self, ty: Mono) -> Vec<ValueType> {
        self.program.program.lists.get(self.program.monos.flat(ty)).to_vec()
    }

    fn new_vars(&mut self, ty: Mono) -> Vec<Var> {
        self.types(ty).into_iter().map(|ty| self.body.vars.push(ty)).collect()
    }

    fn var(&mut self, var: Var) -> ExprId {
        self.body.atom(Atom::Var(var), Origin::default(), &mut self.program.program.lists)
    }

    fn int(&mut self, value: i64) -> ExprId {
        self.body.atom(Atom::Int(value), Origin::default(), &mut self.program.program.lists)
    }

    fn make(&mut self, kind: ExprKind, types: &[ValueType]) -> ExprId {
        let types = self.program.program.lists.intern(types);
        self.body.exprs.push(Expr { kind, types, origin: Origin::default() })
    }

    fn bool(&mut self, kind: ExprKind) -> ExprId {
        self.make(kind, &[ValueType::Int])
    }

    /// Compares what is in a type's registers, without a call of the type's own function.
    fn same(&mut self, ty: Mono, left: &[Var], right: &[Var]) -> ExprId {
        match self.program.monos.node(ty).clone() {
            MonoNode::Real | MonoNode::Int | MonoNode::Bool => {
                let pair = [left[0], right[0]].map(|var| self.var(var));
                self.bool(ExprKind::Compare(Comparison::Equal, pair))
            }
            MonoNode::Tuple(parts) | MonoNode::Record(_, parts) => {
                let mut at = 0;
                let mut pairs = Vec::new();
                for &part in &parts {
                    let count = self.types(part).len();
                    pairs.push((part, left[at..at + count].to_vec(), right[at..at + count].to_vec()));
                    at += count;
                }
                self.all(pairs)
            }
            MonoNode::Tensor(rank, element) => self.same_tensors(ty, (rank, element), left[0], right[0]),
            MonoNode::Array(element) => self.same_arrays(ty, element, left[0], right[0]),
            MonoNode::Data(..) => self.same_objects(ty, left[0], right[0]),
            MonoNode::Function(..) | MonoNode::Kind(_) => self.int(0),
        }
    }

    /// Whether all pairs are equal; the last comparison is in tail position.
    fn all(&mut self, mut pairs: Vec<(Mono, Vec<Var>, Vec<Var>)>) -> ExprId {
        let Some((ty, left, right)) = pairs.pop() else { return self.int(1) };
        let mut result = self.pair(ty, &left, &right);
        while let Some((ty, left, right)) = pairs.pop() {
            let same = self.pair(ty, &left, &right);
            let different = self.int(0);
            result = self.bool(ExprKind::If([same, result, different]));
        }
        result
    }

    fn pair(&mut self, ty: Mono, left: &[Var], right: &[Var]) -> ExprId {
        if matches!(self.program.monos.node(ty), MonoNode::Data(..) | MonoNode::Array(_)) {
            let function = self.program.equality(ty);
            let args = left.iter().chain(right).copied().collect::<Vec<_>>();
            let args = args.into_iter().map(|var| self.var(var)).collect();
            return self.bool(ExprKind::Call(function, args));
        }
        crate::stack::grown(|| self.same(ty, left, right))
    }

    fn same_objects(&mut self, ty: Mono, left: Var, right: Var) -> ExprId {
        let fields = self.program.fields(ty);
        let tags = fields.len() as u16;
        let mut arms = Vec::new();
        for (tag, fields) in (0u16..).zip(fields.iter()) {
            let mut bindings = Vec::new();
            let mut pairs = Vec::new();
            let mut index = 0;
            for &field in fields {
                let sides = [left, right].map(|object| {
                    let vars = self.new_vars(field);
                    for (index, &var) in (index..).zip(&vars) {
                        let object = self.var(object);
                        let types = [self.body.vars[var]];
                        let value = self.make(ExprKind::Payload(Field { tag, index }, object), &types);
                        bindings.push(Binding { vars: List::from([var]), value });
                    }
                    vars
                });
                index += sides[0].len() as u16;
                let [left, right] = sides;
                pairs.push((field, left, right));
            }
            let mut same = self.all(pairs);
            if !bindings.is_empty() {
                same = self.bool(ExprKind::Block(bindings.into(), same));
            }
            let object = self.var(right);
            let default = (tags > 1).then(|| self.int(0));
            let switch = Switch { object, tags, arms: Box::new([(tag, same)]), default };
            arms.push((tag, self.bool(ExprKind::Switch(Box::new(switch)))));
        }
        let object = self.var(left);
        self.bool(ExprKind::Switch(Box::new(Switch { object, tags, arms: arms.into(), default: None })))
    }

    /// Arrays of several dimensions: the same sizes, and the same elements.
    fn same_tensors(&mut self, ty: Mono, (rank, element): (u8, Mono), left: Var, right: Var) -> ExprId {
        let int = self.program.monos.int;
        let array = self.program.monos.array_type(ty).expect("the elements have a representation").array;
        let mut bindings = Vec::new();
        let mut pairs = Vec::new();
        let sizes = (0..u16::from(rank)).map(|dimension| (Field::size(dimension), ValueType::Int));
        for (field, ty) in std::iter::once((Field::ELEMENTS, ValueType::Ref(array))).chain(sizes) {
            let sides = [left, right].map(|side| {
                let object = self.var(side);
                let value = self.make(ExprKind::Payload(field, object), &[ty]);
                let var = self.body.vars.push(ty);
                bindings.push(Binding { vars: List::from([var]), value });
                var
            });
            pairs.push(sides);
        }
        let elements = pairs.remove(0);
        let sizes = pairs.into_iter().map(|[left, right]| (int, vec![left], vec![right])).collect();
        let sizes = self.all(sizes);
        let elements = self.same_arrays(ty, element, elements[0], elements[1]);
        let both = self.bool(ExprKind::And([sizes, elements]));
        self.bool(ExprKind::Block(bindings.into(), both))
    }

    fn same_arrays(&mut self, ty: Mono, element: Mono, left: Var, right: Var) -> ExprId {
        let array = self.program.monos.array_type(ty).expect("array types have a representation");
        let lengths = [left, right].map(|side| {
            let side = self.var(side);
            self.bool(ExprKind::Length(array, side))
        });
        let same_length = self.bool(ExprKind::Compare(Comparison::Equal, lengths));
        let (index, same) = (self.body.vars.push(ValueType::Int), self.body.vars.push(ValueType::Int));
        // while same && index < length left
        let bound = self.var(left);
        let bound = self.bool(ExprKind::Length(array, bound));
        let at = self.var(index);
        let inside = self.bool(ExprKind::Compare(Comparison::Less, [at, bound]));
        let going = self.var(same);
        let cond = self.bool(ExprKind::And([going, inside]));
        let types = self.types(element);
        let mut bindings = Vec::new();
        let sides = [left, right].map(|array_var| {
            let vars = self.new_vars(element);
            let pair = [self.var(array_var), self.var(index)];
            let value = self.make(ExprKind::Element(array, pair, Inside::Unknown), &types);
            bindings.push(Binding { vars: vars.clone().into(), value });
            vars
        });
        let equal = self.pair(element, &sides[0], &sides[1]);
        let at = self.var(index);
        let one = self.int(1);
        let next = self.bool(ExprKind::Scalar(Op::IAdd, List::from([at, one])));
        let values = self.make(ExprKind::Values(List::from([next, equal])), &[ValueType::Int; 2]);
        let body = self.make(ExprKind::Block(bindings.into(), values), &[ValueType::Int; 2]);
        let init = [self.int(0), self.int(1)];
        let init = self.make(ExprKind::Values(init.into()), &[ValueType::Int; 2]);
        let repeat = Loop { vars: List::from([index, same]), init, iteration: Iteration::While(cond), body };
        let repeat = self.make(ExprKind::Loop(Box::new(repeat)), &[ValueType::Int; 2]);
        let ends = [self.body.vars.push(ValueType::Int), self.body.vars.push(ValueType::Int)];
        let result = self.var(ends[1]);
        let binding = Binding { vars: ends.into(), value: repeat };
        let result = self.bool(ExprKind::Block(Box::new([binding]), result));
        let different = self.int(0);
        self.bool(ExprKind::If([same_length, result, different]))
    }
}
