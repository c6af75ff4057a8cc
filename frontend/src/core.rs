//! The core language: what a program means once types are known, and what lowering walks.
//!
//! - Monomorphic: one function per instance, its types are register types.
//! - Flat: there are no tuples. An expression has a *list* of values ([`Expr::types`]), often one; [`ExprKind::Values`]
//!   puts lists one after the other, and is empty for unit. A [`Var`] holds exactly one value. Booleans are integers.
//! - Resolved: each variable is bound once in its function and never changes; the variables of a loop are new in each
//!   iteration. `let y = x` leaves no trace: uses of `y` are uses of `x`.
//! - Each expression node occurs once in its function's tree (constants too), so that a node is a point in the order of
//!   evaluation: children from left to right, then the node.
//! - First-order: a function value is a closure object ([`ExprKind::Closure`]); what is known at compile time never
//!   gets here (`specialise.rs`).
//! - Control: a [`Label`] names a join point or the head of a repetition. [`ExprKind::Jump`] stands only where its
//!   value would be the value of the node that binds the label (through blocks, branches and other labels).
//!
//! Whatever can trap or fail to end is evaluated where the source says, in the source's order.

use crate::arena::{Id, Table, id_types};
use crate::copied::Copied;
use crate::hash::HashMap;
use crate::kept::Kept;
use crate::limits::Meter;
use crate::list::List;
use crate::source::Span;
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::isa::Op;
use dualvm_vm::module::{Interface, Piece, TypeId, ValueType};
use smallvec::{SmallVec, smallvec};
use std::num::NonZeroU32;
use std::sync::Arc;

pub(crate) use crate::ast::Comparison;

/// Walks of most functions have no more nodes before them at a time, and take no memory.
const WALK_PENDING: usize = 32;

id_types! {
    /// An expression of a function.
    ExprId;
    /// A variable of a function.
    Var;
    /// A function of the program.
    FunctionId;
    /// An interned list of register types.
    TypeList;
    /// A place in a function that jumps go to.
    Label;
}

/// A call in whose place the code of what is called stands, in [`Program::calls`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CallSite(NonZeroU32);

impl Id for CallSite {
    fn from_index(index: usize) -> Self {
        let number = u32::try_from(index).ok().and_then(|index| NonZeroU32::MIN.checked_add(index));
        CallSite(number.expect("there are fewer calls than nodes, which are counted"))
    }
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Where an expression comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Origin {
    /// The text; that of the default has no place.
    pub(crate) span: Span,
    /// The call in whose place it stands; `None` if it is the function's own.
    pub(crate) call: Option<CallSite>,
}

impl From<Span> for Origin {
    fn from(span: Span) -> Self {
        Origin { span, call: None }
    }
}

/// A call in whose place the code of what is called stands.
#[derive(Clone, Debug)]
pub(crate) struct InlinedCall {
    /// What is called, as the text names it.
    pub(crate) callee: Arc<str>,
    /// Where it is called.
    pub(crate) origin: Origin,
}

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    /// The functions; those that hosts can call come first, in the order of the text.
    pub(crate) functions: Table<FunctionId, Function>,
    /// The types that expressions have.
    pub(crate) lists: TypeLists,
    /// The module under construction; owns the heap types so far.
    pub(crate) module: ModuleBuilder,
    /// The calls that are left after inlining, with those that have vanished since.
    pub(crate) kept: Vec<Kept>,
    /// Arrays that are copied to change elements of them, found at the end.
    pub(crate) copied: Vec<Copied>,
    /// The calls in whose place the code of what is called stands.
    pub(crate) calls: Table<CallSite, InlinedCall>,
}

/// A function.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// The function's own number.
    pub(crate) id: FunctionId,
    /// The name, unique in the program.
    pub(crate) name: String,
    /// What it is called in messages where its code stands in the place of a call; `None` if nobody has written it, so
    /// that it belongs to what is around it.
    pub(crate) written: Option<Arc<str>>,
    /// How hosts call it.
    pub(crate) interface: Option<Interface>,
    /// The function of which it is the traced twin.
    pub(crate) twin_of: Option<FunctionId>,
    /// The parameters, flattened.
    pub(crate) params: Vec<Var>,
    /// The types of the results.
    pub(crate) results: TypeList,
    /// Expressions and variables.
    pub(crate) body: Body,
    /// The result.
    pub(crate) root: ExprId,
}

impl Function {
    /// Whether others than the program's functions call it, with the parameters that it has.
    pub(crate) fn is_entry(&self) -> bool {
        self.interface.is_some() || self.twin_of.is_some()
    }

    /// Where its result comes from.
    pub(crate) fn place(&self) -> Span {
        self.body.exprs[self.root].origin.span
    }

    /// The nodes of its tree, parents before children, each of which is a step; fewer if the compilation is stopped.
    pub(crate) fn nodes<'f>(&'f self, meter: &Meter) -> impl Iterator<Item = (ExprId, &'f Expr)> {
        self.body.nodes_of(self.root).take_while(|(_, node)| meter.step(node.origin.span))
    }

    /// The same nodes without what they are, for changing them.
    pub(crate) fn node_ids(&self, meter: &Meter) -> Vec<ExprId> {
        let mut ids = Vec::with_capacity(self.body.exprs.len());
        ids.extend(self.nodes(meter).map(|(expr, _)| expr));
        ids
    }
}

/// The tables of a function.
#[derive(Clone, Default, Debug)]
pub(crate) struct Body {
    /// The expressions.
    pub(crate) exprs: Table<ExprId, Expr>,
    /// The types of the variables.
    pub(crate) vars: Table<Var, ValueType>,
    /// The labels.
    pub(crate) labels: Table<Label, ()>,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// What it is.
    pub(crate) kind: ExprKind,
    /// The types of its values.
    pub(crate) types: TypeList,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// A value that needs no evaluation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Atom {
    /// A variable.
    Var(Var),
    /// A real constant.
    Real(f64),
    /// An integer or boolean constant.
    Int(i64),
}

impl Atom {
    /// The expression that it is.
    pub(crate) fn kind(self) -> ExprKind {
        match self {
            Atom::Var(var) => ExprKind::Var(var),
            Atom::Real(value) => ExprKind::Real(value),
            Atom::Int(value) => ExprKind::Int(value),
        }
    }
}

/// What an expression is.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A variable.
    Var(Var),
    /// A real constant.
    Real(f64),
    /// An integer or boolean constant.
    Int(i64),
    /// The values of some expressions, one after the other.
    Values(List<ExprId>),
    /// A scalar instruction.
    Scalar(Op, List<ExprId>),
    /// A comparison of two integers or two reals, as the operands' types say.
    Compare(Comparison, [ExprId; 2]),
    /// Both; the second is evaluated only if the first is true.
    And([ExprId; 2]),
    /// Either; the second is evaluated only if the first is false.
    Or([ExprId; 2]),
    /// Negation of a boolean.
    Not(ExprId),
    /// Condition, then, else.
    If([ExprId; 3]),
    /// Bindings in order, then the value.
    Block(Box<[Binding]>, ExprId),
    /// Repeats: the values of `vars` at the end.
    Loop(Box<Loop>),
    /// A call; the values of the arguments, one after the other, are the parameters.
    Call(FunctionId, List<ExprId>),
    /// The values of a function without parameters, which runs once in a call of the host's, where they are first asked
    /// for.
    Constant {
        /// The function.
        function: FunctionId,
        /// Whether it is known that it ends, and neither traps nor traces: then it may run earlier, or for nothing.
        is_total: bool,
    },
    /// Calls that may run at the same time: the results of all, one after the other. All arguments are evaluated before
    /// the first call begins.
    Fork(Box<[Task]>),
    /// An array built in parallel: the function gives the array for a part of the indices below the first argument,
    /// from the part's first index, the index after its last, and the values of the other arguments.
    ParallelMap(FunctionId, List<ExprId>),
    /// A call and its derivative: its results, and then tangents of those that are not integers; or cotangents of the
    /// arguments that are not.
    Derivative(Box<Derivative>),
    /// The same object as a constant for derivatives, with all that it leads to.
    Detach(ExprId),
    /// The length of an array, counted in elements.
    Length(ArrayType, ExprId),
    /// The values of an array's element: array, index; and what is known of that.
    Element(ArrayType, [ExprId; 2], Inside),
    /// An array of elements.
    Pack(ArrayType, List<ExprId>),
    /// An array of the body's values for each index.
    Collect(ArrayType, Box<Collect>),
    /// An array with another element: array, index, element. Traps unless the index is in the array.
    Replace(ArrayType, [ExprId; 3]),
    /// A step of making an array with a builder, which has one use after the other: each step that changes it gives
    /// the builder that the next one takes, in a variable of its own. So a step is nothing that can be left out, done
    /// twice, or moved past another one.
    Builder(ArrayType, Step, List<ExprId>),
    /// An object of a data type: tag, and the values of the payload one after the other.
    Construct(u16, List<ExprId>),
    /// A field of an object's payload; the object is known to have the tag.
    Payload(Field, ExprId),
    /// A choice by an object's tag.
    Switch(Box<Switch>),
    /// A function value: code, and the values that come before the arguments.
    Closure(FunctionId, List<ExprId>),
    /// A call of a function value.
    CallClosure(ExprId, List<ExprId>),
    /// A call of an imported function, by its number in the module.
    CallImport(u32, List<ExprId>),
    /// Code that several places share.
    Join(Box<Join>),
    /// Repeats its body as long as that jumps back.
    Repeat(Box<Repeat>),
    /// Goes to a label; the values of the arguments, one after the other, are its parameters.
    Jump(Label, List<ExprId>),
    /// An object of a data type whose last field is what a jump back would give.
    Extend(Box<Extend>),
    /// Stops the program with a text.
    Trap(Box<Text>),
    /// Shows a text to a host that listens. It has no values.
    Trace(Box<Text>),
}

/// A text that is shown.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// What it is made of.
    pub(crate) pieces: Box<[Piece]>,
    /// The function that makes the values, if they aren't those of `args`. It is called where the text is shown.
    pub(crate) function: Option<FunctionId>,
    /// The values of these, one after the other, are what is shown, or the parameters.
    pub(crate) args: List<ExprId>,
}

impl From<&str> for Text {
    /// A text without values.
    fn from(text: &str) -> Self {
        Text { pieces: Box::new([Piece::Text(text.to_owned())]), function: None, args: List::default() }
    }
}

/// What is known of an index into an array, besides what can be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// Nothing.
    Unknown,
    /// What is evaluated before has found that there is such an element.
    Tested,
    /// There is wherever the index stands: a loop goes through the array, or a branch is only taken if there is.
    Always,
}

/// What a [`ExprKind::Builder`] does, and its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Makes one, with room for so many elements.
    Begin,
    /// Makes room for so many more elements: builder, count.
    Reserve,
    /// Appends the values of an element: builder, element.
    Push,
    /// Appends the elements of an array, all of them: builder, array.
    Extend,
    /// The values of an element that was appended before: builder, index.
    Get,
    /// Other values for such an element: builder, index, element.
    Put,
    /// Ends it: builder. The value is the array.
    Finish,
}

/// A call of a [`ExprKind::Fork`].
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// What is called.
    pub(crate) function: FunctionId,
    /// The values of these, one after the other, are the parameters.
    pub(crate) args: List<ExprId>,
    /// The types of its results.
    pub(crate) results: TypeList,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// A call with a derivative operator. Each expression in it has one value.
#[derive(Clone, Debug)]
pub(crate) struct Derivative {
    /// Which way.
    pub(crate) operator: Operator,
    /// What is called.
    pub(crate) function: FunctionId,
    /// The function's first arguments, which are constants for this derivative.
    pub(crate) captures: List<ExprId>,
    /// The other arguments.
    pub(crate) args: List<ExprId>,
    /// Tangents of the arguments that are not integers; or cotangents of the results that are not.
    pub(crate) directions: List<ExprId>,
}

/// Which way derivatives go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    /// Forward: from tangents of the arguments to tangents of the results.
    Jvp,
    /// In reverse: from cotangents of the results to cotangents of the arguments.
    Vjp,
    /// Not yet: the call isn't recorded, and runs again where derivatives are computed. It has no directions.
    Checkpoint,
    /// None: the call's value alone. It has no directions.
    Primal,
    /// A value with a derivative: the call is that of the function that takes cotangents of the value, which stands for
    /// the directions, to those of the arguments.
    CustomVjp,
    /// The same, with a function that takes tangents of the arguments to those of the value.
    CustomJvp,
}

impl Derivative {
    /// The expressions in the order of evaluation.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ExprId> {
        self.captures.iter().chain(&self.args).chain(&self.directions).copied()
    }

    /// The expressions in the order of evaluation, to be replaced.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut ExprId> {
        self.captures.iter_mut().chain(&mut self.args).chain(&mut self.directions)
    }
}

/// A field of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Field {
    /// The tag that the object has.
    pub(crate) tag: u16,
    /// The field's number, counted in registers.
    pub(crate) index: u16,
}

impl Field {
    /// The tag of the parts of an array of several dimensions, whose objects have none.
    const SHAPED: u16 = u16::MAX;

    /// The elements of an array of several dimensions.
    pub(crate) const ELEMENTS: Field = Field { tag: Field::SHAPED, index: 0 };

    /// The size of an array of several dimensions in one of them.
    pub(crate) fn size(dimension: u16) -> Field {
        Field { tag: Field::SHAPED, index: 1 + dimension }
    }

    /// Whether it is a part of an array of several dimensions: each such object has it.
    pub(crate) fn is_of_shape(self) -> bool {
        self.tag == Field::SHAPED
    }
}

/// A choice by tag.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// The object.
    pub(crate) object: ExprId,
    /// How many tags its type has.
    pub(crate) tags: u16,
    /// What to evaluate for a tag; each tag at most once.
    pub(crate) arms: Box<[(u16, ExprId)]>,
    /// What to evaluate for all other tags, if there are any.
    pub(crate) default: Option<ExprId>,
}

/// Join points: `value`, whose jumps to labels continue with their bodies.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// What is evaluated first.
    pub(crate) value: ExprId,
    /// What comes after jumps. At least one.
    pub(crate) bodies: Box<[Labelled]>,
}

/// What a label stands for.
#[derive(Clone, Debug)]
pub(crate) struct Labelled {
    /// The label; known in the join's value and in the bodies before this one.
    pub(crate) label: Label,
    /// Its parameters; known in `body`.
    pub(crate) params: List<Var>,
    /// What comes after a jump. Where there is only one, what is bound there is known here, too: so a long chain of
    /// branches can be cut into pieces.
    pub(crate) body: ExprId,
}

impl Join {
    /// The value and the bodies, in the order of evaluation.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ExprId> {
        std::iter::once(self.value).chain(self.bodies.iter().map(|labelled| labelled.body))
    }
}

/// Objects, each the last field of the one before, and what the last field of the last one is: the value of a
/// repetition that builds, in whose place this stands, with other parameters.
#[derive(Clone, Debug)]
pub(crate) struct Extend {
    /// The repetition's label.
    pub(crate) label: Label,
    /// The objects, at least one. All are of the repetition's type.
    pub(crate) cells: Box<[Cell]>,
    /// The values of these, one after the other, are the parameters. They are evaluated after all fields.
    pub(crate) args: List<ExprId>,
}

/// An object but for its last field.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The object's tag.
    pub(crate) tag: u16,
    /// The values of these, one after the other, are the other fields.
    pub(crate) fields: List<ExprId>,
}

impl Extend {
    /// The expressions in the order of evaluation.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ExprId> {
        self.cells.iter().flat_map(|cell| &cell.fields).chain(&self.args).copied()
    }
}

/// A repetition.
#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    /// The label that `body` may jump to.
    pub(crate) label: Label,
    /// Its parameters.
    pub(crate) params: List<Var>,
    /// Their first values.
    pub(crate) init: ExprId,
    /// What is repeated.
    pub(crate) body: ExprId,
    /// Whether the body's value may be the last field of objects so far ([`ExprKind::Extend`]). Then the body jumps to
    /// no label outside: that would forget them.
    pub(crate) builds: bool,
}

/// A binding of a block: one variable for each value.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    /// The variables.
    pub(crate) vars: List<Var>,
    /// Their values.
    pub(crate) value: ExprId,
}

/// A loop.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    /// What is carried from one iteration to the next.
    pub(crate) vars: List<Var>,
    /// The first values.
    pub(crate) init: ExprId,
    /// How often.
    pub(crate) iteration: Iteration,
    /// The next values.
    pub(crate) body: ExprId,
}

/// What ends a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Iteration {
    /// As long as a condition on the variables holds.
    While(ExprId),
    /// For each index of a range.
    Range(Range),
}

/// A half-open range of integers; the bounds are evaluated once, before the first iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The index.
    pub(crate) index: Var,
    /// The first index.
    pub(crate) from: ExprId,
    /// The index after the last.
    pub(crate) to: ExprId,
}

/// An array comprehension.
#[derive(Clone, Debug)]
pub(crate) struct Collect {
    /// The index's range.
    pub(crate) range: Range,
    /// The values of the first element, if `body` gives only those after it. The index isn't known in here, and the
    /// range's start is an atom, less than the greatest integer.
    pub(crate) first: Option<ExprId>,
    /// The element's values.
    pub(crate) body: ExprId,
}

/// How an array is represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArrayType {
    /// The array's heap type.
    pub(crate) array: TypeId,
    /// What the array holds.
    pub(crate) holds: ValueType,
    /// What an element is there.
    pub(crate) layout: Layout,
}

/// How an array holds its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// So many values in a row, at least one: elements whose values are one, or all reals, or all integers.
    Row(u16),
    /// A struct of the element's values.
    Struct,
}

impl ArrayType {
    /// How much of the array an element takes.
    pub(crate) fn width(self) -> u16 {
        match self.layout {
            Layout::Row(width) => width,
            Layout::Struct => 1,
        }
    }

    /// Whether an element is what the array holds.
    pub(crate) fn is_plain(self) -> bool {
        self.layout == Layout::Row(1)
    }
}

impl Expr {
    /// Visits the direct children in the order of evaluation.
    pub(crate) fn for_each_child(&self, mut visit: impl FnMut(ExprId)) {
        match &self.kind {
            ExprKind::Var(_) | ExprKind::Real(_) | ExprKind::Int(_) | ExprKind::Constant { .. } => {}
            ExprKind::Trap(text) | ExprKind::Trace(text) => text.args.iter().copied().for_each(visit),
            ExprKind::Values(list)
            | ExprKind::Scalar(_, list)
            | ExprKind::Call(_, list)
            | ExprKind::CallImport(_, list)
            | ExprKind::ParallelMap(_, list)
            | ExprKind::Pack(_, list)
            | ExprKind::Construct(_, list)
            | ExprKind::Closure(_, list)
            | ExprKind::Builder(_, _, list)
            | ExprKind::Jump(_, list) => list.iter().copied().for_each(visit),
            ExprKind::Extend(extend) => extend.parts().for_each(visit),
            ExprKind::Derivative(derivative) => derivative.parts().for_each(visit),
            ExprKind::Fork(tasks) => tasks.iter().flat_map(|task| &task.args).copied().for_each(visit),
            ExprKind::CallClosure(callee, list) => {
                visit(*callee);
                list.iter().copied().for_each(visit);
            }
            ExprKind::Compare(_, pair) | ExprKind::And(pair) | ExprKind::Or(pair) | ExprKind::Element(_, pair, _) => {
                pair.iter().copied().for_each(visit);
            }
            ExprKind::Not(operand) | ExprKind::Length(_, operand) => visit(*operand),
            ExprKind::Payload(_, operand) | ExprKind::Detach(operand) => visit(*operand),
            ExprKind::If(parts) | ExprKind::Replace(_, parts) => parts.iter().copied().for_each(visit),
            ExprKind::Block(bindings, value) => {
                bindings.iter().for_each(|binding| visit(binding.value));
                visit(*value);
            }
            ExprKind::Loop(repeat) => {
                visit(repeat.init);
                match repeat.iteration {
                    Iteration::While(cond) => visit(cond),
                    Iteration::Range(range) => [range.from, range.to].into_iter().for_each(&mut visit),
                }
                visit(repeat.body);
            }
            ExprKind::Collect(_, collect) => {
                let Collect { range, first, body } = **collect;
                [range.from, range.to].into_iter().chain(first).chain([body]).for_each(visit);
            }
            ExprKind::Switch(switch) => {
                visit(switch.object);
                switch.arms.iter().map(|arm| arm.1).chain(switch.default).for_each(visit);
            }
            ExprKind::Join(join) => join.parts().for_each(visit),
            ExprKind::Repeat(repeat) => [repeat.init, repeat.body].into_iter().for_each(visit),
        }
    }
}

impl ExprKind {
    /// Visits the variables that it binds itself.
    pub(crate) fn for_each_bound(&self, mut visit: impl FnMut(Var)) {
        match self {
            ExprKind::Block(bindings, _) => {
                bindings.iter().flat_map(|binding| &binding.vars).copied().for_each(visit);
            }
            ExprKind::Loop(repeat) => {
                repeat.vars.iter().copied().for_each(&mut visit);
                if let Iteration::Range(range) = repeat.iteration {
                    visit(range.index);
                }
            }
            ExprKind::Collect(_, collect) => visit(collect.range.index),
            ExprKind::Join(join) => {
                join.bodies.iter().flat_map(|labelled| &labelled.params).copied().for_each(visit);
            }
            ExprKind::Repeat(repeat) => repeat.params.iter().copied().for_each(visit),
            _ => {}
        }
    }
}

impl Body {
    /// Takes what it holds out of it, in tables without room for more, and keeps its own room: for the next function
    /// that is made.
    pub(crate) fn drain(&mut self) -> Body {
        Body { exprs: self.exprs.drain(), vars: self.vars.drain(), labels: self.labels.drain() }
    }

    /// The nodes of a tree, parents before children.
    pub(crate) fn nodes_of(&self, root: ExprId) -> impl Iterator<Item = (ExprId, &Expr)> {
        let mut pending: SmallVec<[ExprId; WALK_PENDING]> = smallvec![root];
        std::iter::from_fn(move || {
            let expr = pending.pop()?;
            let node = &self.exprs[expr];
            node.for_each_child(|child| pending.push(child));
            Some((expr, node))
        })
    }

    /// The expression of several that has one of their values, and which one of its own that is.
    pub(crate) fn part(&self, lists: &TypeLists, parts: &[ExprId], mut at: usize) -> Option<(ExprId, usize)> {
        for &part in parts {
            let count = lists.get(self.exprs[part].types).len();
            if at < count {
                return Some((part, at));
            }
            at -= count;
        }
        None
    }

    /// Adds an expression that is an atom.
    pub(crate) fn atom(&mut self, atom: Atom, origin: Origin, lists: &mut TypeLists) -> ExprId {
        let ty = match atom {
            Atom::Var(var) => self.vars[var],
            Atom::Real(_) => ValueType::Real,
            Atom::Int(_) => ValueType::Int,
        };
        self.exprs.push(Expr { kind: atom.kind(), types: lists.intern(&[ty]), origin })
    }

    /// An expression of the variables that an expression's values are bound to, and of those that are atoms. The
    /// expression is used up.
    pub(crate) fn named(&mut self, value: ExprId, lists: &mut TypeLists, bindings: &mut Vec<Binding>) -> ExprId {
        let Expr { types, origin, .. } = self.exprs[value];
        let mut atoms: Vec<Atom> = Vec::new();
        self.name_values(value, lists, bindings, &mut atoms);
        let parts: List<ExprId> = atoms.into_iter().map(|atom| self.atom(atom, origin, lists)).collect();
        match parts[..] {
            [only] => only,
            _ => self.exprs.push(Expr { kind: ExprKind::Values(parts), types, origin }),
        }
    }

    /// Turns an expression into bindings and atoms, one for each of its values. The expression is used up.
    pub(crate) fn name_values(
        &mut self,
        value: ExprId,
        lists: &TypeLists,
        bindings: &mut Vec<Binding>,
        atoms: &mut Vec<Atom>,
    ) {
        match &mut self.exprs[value].kind {
            ExprKind::Var(var) => atoms.push(Atom::Var(*var)),
            ExprKind::Real(real) => atoms.push(Atom::Real(*real)),
            ExprKind::Int(int) => atoms.push(Atom::Int(*int)),
            ExprKind::Values(parts) => {
                let parts = std::mem::take(parts);
                crate::stack::grown(|| {
                    parts.iter().for_each(|&part| self.name_values(part, lists, bindings, atoms));
                });
            }
            ExprKind::Block(inner, result) => {
                let result = *result;
                bindings.extend(std::mem::take(inner));
                crate::stack::grown(|| self.name_values(result, lists, bindings, atoms));
            }
            _ => {
                let types = lists.get(self.exprs[value].types);
                let vars: List<Var> = types.iter().map(|&ty| self.vars.push(ty)).collect();
                atoms.extend(vars.iter().map(|&var| Atom::Var(var)));
                bindings.push(Binding { vars, value });
            }
        }
    }
}

/// Interned lists of register types.
#[derive(Default, Debug)]
pub(crate) struct TypeLists {
    lists: Table<TypeList, Box<[ValueType]>>,
    ids: HashMap<Box<[ValueType]>, TypeList>,
}

impl TypeLists {
    /// The list with these types.
    pub(crate) fn intern(&mut self, types: &[ValueType]) -> TypeList {
        if let Some(&list) = self.ids.get(types) {
            return list;
        }
        let list = self.lists.push(types.into());
        self.ids.insert(types.into(), list);
        list
    }

    /// The types of a list.
    pub(crate) fn get(&self, list: TypeList) -> &[ValueType] {
        &self.lists[list]
    }
}
