//! Types during inference: a graph of nodes with union-find, classes of variables, unification and printing.
//!
//! Types are graphs, not trees: a type of exponential size has linear representation here, and every walk visits a
//! shared node once. Sizes are bounded when types become concrete (`mono.rs`).
//!
//! Variables have a *birth*: a number that grows. When a variable is bound, the variables in its type are born no later
//! than it was. So the newest variable that can be in a type is known when the type is made, and walks that look for
//! newer ones leave it out; a polymorphic function's own variables are those that are born after it was opened (these
//! are the levels of Rémy 1992, one for each variable).

mod print;
mod unify;

use crate::arena::{Table, id_types};
use crate::ast::DataId;
use crate::hash::HashMap;
use crate::limits::{Count, Meter};
use crate::names::{Name, Names};
use std::rc::Rc;

pub(crate) use unify::Mismatch;

/// Walks may look at so many nodes, and at so many for each node that there is.
const WALKED_MAX: usize = 20_000_000;
const WALKED_PER_NODE: usize = 256;

id_types! {
    /// A type: a node of [`Types`].
    Ty;
    /// The set of field names of a record type.
    Shape;
}

/// What a type variable may become, from loose to tight: a class includes all that come before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// Anything.
    Any,
    /// Has derivatives: everything without functions in it.
    Data,
    /// Has equality: everything without functions in it.
    Equal,
    /// Has `+ - * /`: `Int`, `Real`, and arrays of any dimensions of such, element by element.
    Arithmetic,
    /// Has an order: `Int`, `Real`.
    Ordered,
    /// Is a number: `Int`, `Real`.
    Number,
    /// Is one of these kinds of collections, which meet nothing but kinds.
    Kind(Kinds),
}

impl Class {
    /// What is in both classes; `None` if nothing is.
    fn meet(self, other: Class) -> Option<Class> {
        match (self, other) {
            (Class::Kind(a), Class::Kind(b)) => a.meet(b).map(Class::Kind),
            _ => Some(self.max(other)),
        }
    }
}

/// A kind of collection. Collections of all kinds have one constructor, [`Con::Collection`], whose first argument says
/// the kind, so that it may be open: a function of collections is polymorphic in their kind as in anything else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// `List`
    List,
    /// `Array`
    Array,
    /// An array of so many dimensions, from 2 to [`Kind::DIMENSIONS_MAX`]: `Matrix`, `Tensor3` and so on.
    Tensor(u8),
}

impl Kind {
    /// The most dimensions that an array has.
    pub(crate) const DIMENSIONS_MAX: usize = 4;
    /// All kinds.
    pub(crate) const ALL: [Kind; 5] = [Kind::List, Kind::Array, Kind::Tensor(2), Kind::Tensor(3), Kind::Tensor(4)];
    /// What an open kind becomes.
    pub(crate) const DEFAULT: Kind = Kind::Array;

    /// The place in [`Kind::ALL`].
    pub(crate) fn index(self) -> usize {
        match self {
            Kind::List => 0,
            Kind::Array => 1,
            Kind::Tensor(dimensions) => usize::from(dimensions),
        }
    }

    /// The name of the type of such collections.
    pub(crate) fn name(self) -> &'static str {
        ["List", "Array", "Matrix", "Tensor3", "Tensor4"][self.index()]
    }

    /// What messages call such a collection.
    pub(crate) fn noun(self) -> &'static str {
        ["a list", "an array", "a matrix", "a tensor of rank 3", "a tensor of rank 4"][self.index()]
    }
}

/// A set of kinds of collections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// All kinds.
    pub(crate) const ALL: Kinds = Kinds(0b11111);
    /// Those whose elements stand in a row: lists, and arrays of one dimension.
    pub(crate) const SEQUENCES: Kinds = Kinds(0b00011);
    /// Arrays of any dimensions.
    pub(crate) const ARRAYS: Kinds = Kinds(0b11110);
    /// Arrays of two dimensions or more.
    pub(crate) const TENSORS: Kinds = Kinds(0b11100);
    /// Lists only.
    pub(crate) const LISTS: Kinds = Kinds(0b00001);
    /// Arrays of one dimension only.
    pub(crate) const VECTORS: Kinds = Kinds(0b00010);

    /// Whether a kind is among them.
    pub(crate) fn has(self, kind: Kind) -> bool {
        self.0 >> kind.index() & 1 == 1
    }

    /// Those of both sets together.
    pub(crate) fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Those that are in both sets, if there are any.
    fn meet(self, other: Kinds) -> Option<Kinds> {
        Some(Kinds(self.0 & other.0)).filter(|kinds| kinds.0 != 0)
    }

    /// What messages call such a collection.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kinds::ALL | Kinds::SEQUENCES => "a list or an array",
            Kinds::ARRAYS => "an array",
            Kinds::TENSORS => "a matrix",
            _ => Kind::ALL.into_iter().find(|&kind| self.has(kind)).map_or("a collection", Kind::noun),
        }
    }
}

/// A type constructor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Con {
    /// `Real`
    Real,
    /// `Int`
    Int,
    /// `Bool`
    Bool,
    /// A tuple of its arguments; unit without.
    Tuple,
    /// A collection: its kind, and the type of the elements.
    Collection,
    /// A kind of collection, which has no values.
    Kind(Kind),
    /// From the first argument to the second. A function of several parameters gives a function of the rest.
    Function,
    /// A data type of its arguments, other than a list.
    Data(DataId),
    /// A record; the arguments are the types of the fields in the order of [`Types::fields`].
    Record(Shape),
}

/// A node of the type graph.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A variable.
    Var {
        /// What it may become.
        class: Class,
        /// When it was made, or before.
        birth: u32,
    },
    /// The same as another node.
    Link(Ty),
    /// A constructor with arguments.
    Con {
        /// The constructor.
        con: Con,
        /// Its arguments.
        args: Box<[Ty]>,
        /// No variable in it is born later than this. 0 if there was none when it was made.
        newest: u32,
        /// Whether it is known to have equality, as long as its variables do.
        equal: bool,
    },
    /// The type of what was reported already. Goes with everything.
    Error,
}

/// How a type was written: as an abbreviation of these arguments.
#[derive(Clone, Debug)]
struct Written {
    name: Name,
    args: Box<[Ty]>,
}

/// What must be known of a data type.
#[derive(Clone, Debug)]
pub(crate) struct DataInfo {
    /// The name.
    pub(crate) name: String,
    /// Whether its values can be compared, if its arguments can.
    pub(crate) has_equality: bool,
}

/// The type graph.
#[derive(Debug)]
pub(crate) struct Types {
    nodes: Table<Ty, Node>,
    /// The last walk that visited a node, for the occurs check.
    visited: Vec<u32>,
    walk: u32,
    shapes: Table<Shape, Box<[Name]>>,
    /// The places of the fields of shapes in the order in which they were written first.
    orders: Table<Shape, Box<[usize]>>,
    /// The nodes that were written as abbreviations.
    written: HashMap<Ty, Written>,
    /// The places of fields in shapes.
    places: HashMap<(Shape, Name), usize>,
    shape_ids: HashMap<Box<[Name]>, Shape>,
    datas: Table<DataId, DataInfo>,
    texts: HashMap<Name, String>,
    /// The birth of the next variable.
    next_birth: u32,
    /// What unification changed, to undo it when it fails.
    trail: Vec<unify::Undo>,
    meter: Rc<Meter>,
    /// How many nodes walks have looked at.
    walked: usize,
    /// `Real`
    pub(crate) real: Ty,
    /// `Int`
    pub(crate) int: Ty,
    /// `Bool`
    pub(crate) bool: Ty,
    /// `()`
    pub(crate) unit: Ty,
    /// The error type.
    pub(crate) error: Ty,
    /// The kinds of collections.
    kinds: [Ty; Kind::ALL.len()],
}

impl Types {
    /// A graph of the basic types.
    pub(crate) fn new(meter: Rc<Meter>) -> Self {
        let mut nodes = Table::default();
        let mut basic = |con| nodes.push(Node::Con { con, args: Box::default(), newest: 0, equal: false });
        let (real, int, bool, unit) = (basic(Con::Real), basic(Con::Int), basic(Con::Bool), basic(Con::Tuple));
        let kinds = Kind::ALL.map(|kind| basic(Con::Kind(kind)));
        let error = nodes.push(Node::Error);
        Types {
            nodes,
            visited: Vec::new(),
            walk: 0,
            shapes: Table::default(),
            orders: Table::default(),
            written: HashMap::default(),
            places: HashMap::default(),
            shape_ids: HashMap::default(),
            datas: Table::default(),
            texts: HashMap::default(),
            next_birth: 2,
            trail: Vec::new(),
            meter,
            walked: 0,
            real,
            int,
            bool,
            unit,
            error,
            kinds,
        }
    }

    /// Makes every link one to the end of its chain: later stages follow them often, and chains can be as long as the
    /// program.
    pub(crate) fn shorten_links(&mut self) {
        for ty in self.nodes.ids() {
            let root = self.root(ty);
            let mut next = ty;
            while let Node::Link(target) = self.nodes[next]
                && target != root
            {
                self.nodes[next] = Node::Link(root);
                next = target;
            }
        }
    }

    /// A new variable.
    pub(crate) fn var(&mut self, class: Class) -> Ty {
        self.meter.nodes(Count::Types, 1);
        // One number per node: there are fewer than 2³² of them.
        self.next_birth += 1;
        self.nodes.push(Node::Var { class, birth: self.next_birth - 1 })
    }

    /// The births of all variables that are made from now on are this or later.
    pub(crate) fn now(&self) -> u32 {
        self.next_birth
    }

    /// Counts a node that a walk looks at; whether to go on. Walks through open types can take quadratic time, so that
    /// there is an end to them.
    pub(crate) fn walk_on(&mut self) -> bool {
        self.walked += 1;
        if self.walked > WALKED_MAX + WALKED_PER_NODE * self.nodes.len() {
            self.meter.refuse_types();
        }
        self.meter.steps(1)
    }

    /// Introduces the next data type.
    pub(crate) fn add_data(&mut self, info: DataInfo) {
        self.datas.push(info);
    }

    /// Says that values of a data type can't be compared.
    pub(crate) fn without_equality(&mut self, data: DataId) {
        self.datas[data].has_equality = false;
    }

    /// Whether values of a data type can be compared, if its arguments can.
    pub(crate) fn has_equality(&self, data: DataId) -> bool {
        self.datas[data].has_equality
    }

    /// A constructor applied to arguments.
    pub(crate) fn con(&mut self, con: Con, args: Vec<Ty>) -> Ty {
        let newest = args.iter().map(|&arg| self.newest(arg)).max().unwrap_or(0);
        self.meter.nodes(Count::Types, 1 + args.len());
        self.nodes.push(Node::Con { con, args: args.into(), newest, equal: false })
    }

    /// A tuple type.
    pub(crate) fn tuple(&mut self, parts: Vec<Ty>) -> Ty {
        if parts.is_empty() { self.unit } else { self.con(Con::Tuple, parts) }
    }

    /// The record type with these fields.
    pub(crate) fn record(&mut self, mut fields: Vec<(Name, Ty)>, names: &Names) -> Ty {
        let shape = self.shape(fields.iter().map(|field| field.0).collect(), names);
        fields.sort_by_key(|field| self.places.get(&(shape, field.0)).copied());
        self.con(Con::Record(shape), fields.into_iter().map(|field| field.1).collect())
    }

    /// The set of these names of fields. They are shown in the order in which it was asked for first.
    pub(crate) fn shape(&mut self, order: Vec<Name>, names: &Names) -> Shape {
        let mut shape = order.clone();
        shape.sort_by(|&a, &b| names.text(a).cmp(names.text(b)));
        for &name in &shape {
            self.texts.entry(name).or_insert_with(|| names.text(name).to_owned());
        }
        let shape: Box<[Name]> = shape.into();
        *self.shape_ids.entry(shape.clone()).or_insert_with(|| {
            let id = self.shapes.next_id();
            self.places.extend(shape.iter().enumerate().map(|(place, &name)| ((id, name), place)));
            self.orders.push(order.iter().map(|&name| self.places[&(id, name)]).collect());
            self.shapes.push(shape)
        })
    }

    /// The names of a record type's fields, in the order of its arguments: sorted by their texts.
    pub(crate) fn fields(&self, shape: Shape) -> &[Name] {
        &self.shapes[shape]
    }

    /// The place of a field among those of a record type.
    pub(crate) fn field_place(&self, shape: Shape, name: Name) -> Option<usize> {
        self.places.get(&(shape, name)).copied()
    }

    /// The same type, shown as an abbreviation of arguments from now on. Those of a word, such as `Real`, aren't kept.
    pub(crate) fn abbreviated(&mut self, ty: Ty, name: Name, args: Vec<Ty>, names: &Names) -> Ty {
        let Node::Con { con, args: parts, .. } = self.node(ty) else { return ty };
        if parts.is_empty() {
            return ty;
        }
        let (con, parts) = (*con, parts.to_vec());
        let ty = self.con(con, parts);
        self.texts.entry(name).or_insert_with(|| names.text(name).to_owned());
        self.written.insert(ty, Written { name, args: args.into() });
        ty
    }

    /// A kind of collection, as an argument.
    pub(crate) fn kind(&self, kind: Kind) -> Ty {
        self.kinds[kind.index()]
    }

    /// The type of collections of a kind, which may be open.
    pub(crate) fn collection(&mut self, kind: Ty, element: Ty) -> Ty {
        self.con(Con::Collection, vec![kind, element])
    }

    /// The type of functions from one type to another.
    pub(crate) fn function(&mut self, param: Ty, result: Ty) -> Ty {
        self.con(Con::Function, vec![param, result])
    }

    /// The type of functions of several parameters.
    pub(crate) fn functions(&mut self, params: &[Ty], result: Ty) -> Ty {
        params.iter().rev().fold(result, |result, &param| self.function(param, result))
    }

    /// The constructors in some types.
    pub(crate) fn cons_in(&mut self, types: &[Ty]) -> Vec<Con> {
        let mut cons = Vec::new();
        self.start_walk();
        let mut pending = types.to_vec();
        while let Some(ty) = pending.pop() {
            let root = self.root(ty);
            if self.visit(root)
                && let Node::Con { con, args, .. } = &self.nodes[root]
            {
                cons.push(*con);
                pending.extend(args.iter().copied());
            }
        }
        cons
    }

    /// The node that a type is, links followed.
    pub(crate) fn root(&self, mut ty: Ty) -> Ty {
        while let Node::Link(next) = self.nodes[ty] {
            ty = next;
        }
        ty
    }

    /// The root's node.
    pub(crate) fn node(&self, ty: Ty) -> &Node {
        &self.nodes[self.root(ty)]
    }

    /// Whether a type is known to have no variables.
    pub(crate) fn is_ground(&self, ty: Ty) -> bool {
        matches!(self.node(ty), Node::Con { newest: 0, .. } | Node::Error)
    }

    /// No variable in a type is born later than this.
    fn newest(&self, ty: Ty) -> u32 {
        match *self.node(ty) {
            Node::Var { birth, .. } => birth,
            Node::Con { newest, .. } => newest,
            Node::Error | Node::Link(_) => 0,
        }
    }

    /// Whether a type is the error type.
    pub(crate) fn is_error(&self, ty: Ty) -> bool {
        matches!(self.node(ty), Node::Error)
    }

    /// The constructor of a type, if known.
    pub(crate) fn con_of(&self, ty: Ty) -> Option<Con> {
        match self.node(ty) {
            Node::Con { con, .. } => Some(*con),
            _ => None,
        }
    }

    /// What a variable may become.
    pub(crate) fn class_of(&self, ty: Ty) -> Class {
        match self.node(ty) {
            Node::Var { class, .. } => *class,
            _ => Class::Any,
        }
    }

    /// The parameter and the result of a function type.
    pub(crate) fn function_parts(&self, ty: Ty) -> Option<(Ty, Ty)> {
        match self.node(ty) {
            Node::Con { con: Con::Function, args, .. } => Some((args[0], args[1])),
            _ => None,
        }
    }

    /// The kind of a collection, and the type of its elements.
    pub(crate) fn collection_parts(&self, ty: Ty) -> Option<(Ty, Ty)> {
        match self.node(ty) {
            Node::Con { con: Con::Collection, args, .. } => Some((args[0], args[1])),
            _ => None,
        }
    }

    /// The kind of a type of collections, if known.
    pub(crate) fn kind_of(&self, ty: Ty) -> Option<Kind> {
        let (kind, _) = self.collection_parts(ty)?;
        match *self.node(kind) {
            Node::Con { con: Con::Kind(kind), .. } => Some(kind),
            _ => None,
        }
    }

    /// Whether something is a kind of collection, open or not.
    pub(crate) fn is_kind(&self, ty: Ty) -> bool {
        match self.node(ty) {
            Node::Var { class, .. } => matches!(class, Class::Kind(_)),
            Node::Con { con, .. } => matches!(con, Con::Kind(_)),
            _ => false,
        }
    }

    /// The type of the elements of lists.
    pub(crate) fn list_element(&self, ty: Ty) -> Option<Ty> {
        let (_, element) = self.collection_parts(ty)?;
        (self.kind_of(ty) == Some(Kind::List)).then_some(element)
    }

    /// The type of lists.
    pub(crate) fn list(&mut self, element: Ty) -> Ty {
        self.collection(self.kind(Kind::List), element)
    }

    /// The type of arrays.
    pub(crate) fn array(&mut self, element: Ty) -> Ty {
        self.collection(self.kind(Kind::Array), element)
    }

    /// Sees to it that the variables of a type are born before a time, so that no function opened then chooses them.
    pub(crate) fn make_older(&mut self, ty: Ty, time: u32) {
        for var in self.vars_in([ty], time).0 {
            if let Node::Var { birth, .. } = &mut self.nodes[var] {
                *birth = time - 1;
            }
        }
    }

    /// The parts of a tuple type.
    pub(crate) fn tuple_parts(&self, ty: Ty) -> Option<Vec<Ty>> {
        match self.node(ty) {
            Node::Con { con: Con::Tuple, args, .. } => Some(args.to_vec()),
            _ => None,
        }
    }

    /// The variables in some types that were born at a time or later, in order of appearance, and how many nodes were
    /// looked at.
    pub(crate) fn vars_in(&mut self, types: impl IntoIterator<Item = Ty>, time: u32) -> (Vec<Ty>, usize) {
        let mut vars = Vec::new();
        let mut nodes = 0;
        self.start_walk();
        let mut pending: Vec<Ty> = types.into_iter().collect();
        pending.reverse();
        while let Some(ty) = pending.pop() {
            let root = self.root(ty);
            if self.newest(root) < time || !self.visit(root) {
                continue;
            }
            if !self.walk_on() {
                break;
            }
            nodes += 1;
            match &self.nodes[root] {
                Node::Var { .. } => vars.push(root),
                Node::Con { args, .. } => pending.extend(args.iter().rev()),
                Node::Error | Node::Link(_) => {}
            }
        }
        (vars, nodes)
    }

    /// A copy of a type in which variables are replaced.
    pub(crate) fn instantiate(&mut self, ty: Ty, replaced: &mut HashMap<Ty, Ty>) -> Ty {
        let oldest = replaced.keys().map(|&var| self.newest(var)).min().unwrap_or(u32::MAX);
        self.instantiate_since(ty, replaced, oldest)
    }

    /// The same; the variables are born at a time or later.
    fn instantiate_since(&mut self, ty: Ty, replaced: &mut HashMap<Ty, Ty>, time: u32) -> Ty {
        let root = self.root(ty);
        if let Some(&new) = replaced.get(&root) {
            return new;
        }
        let new = match &self.nodes[root] {
            Node::Con { con, args, newest, .. } if *newest >= time && self.meter.go_on() => {
                let (con, args) = (*con, args.clone());
                let copy = |&arg: &Ty| self.instantiate_since(arg, replaced, time);
                let args = crate::stack::grown(|| args.iter().map(copy).collect());
                self.con(con, args)
            }
            _ => return root,
        };
        replaced.insert(root, new);
        if let Some(Written { name, args }) = self.written.get(&root).cloned() {
            let copy = |&arg: &Ty| self.instantiate_since(arg, replaced, time);
            let args = crate::stack::grown(|| args.iter().map(copy).collect());
            self.written.insert(new, Written { name, args });
        }
        new
    }

    fn start_walk(&mut self) {
        self.visited.resize(self.nodes.len(), 0);
        self.walk += 1;
    }

    /// Marks a node as visited by the current walk; whether it wasn't yet.
    fn visit(&mut self, root: Ty) -> bool {
        let mark = &mut self.visited[crate::arena::Id::index(root)];
        std::mem::replace(mark, self.walk) != self.walk
    }
}
