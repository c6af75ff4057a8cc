//! Typed syntax to core: one function per instance of a definition, found from what hosts can call.
//!
//! Every definition is exported at its inferred type, with what is left open set to its default. A call of a
//! polymorphic definition at other types asks for another instance; a worklist makes them. Definitions of one group
//! call each other at the group's own types, so that there are finitely many.

mod arithmetic;
mod arrays;
mod expr;

use crate::arena::{Id, Table};
use crate::ast::{Ast, DefId, PatternKind};
use crate::core::{ArrayType, Atom, Body, Expr, ExprId, ExprKind, Function, FunctionId, Program, TypeLists, Var};
use crate::diagnostics::{Diagnostic, Sink};
use crate::infer::Inferred;
use crate::mono::{DEPTH_MAX, Mono, MonoNode, Monos, REGISTERS_MAX};
use crate::names::Names;
use crate::resolve::{LocalId, Resolved};
use crate::source::Span;
use crate::types::{Class, Con, Node, Ty};
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::module::{Interface, TypeId, ValueType};
use std::collections::HashMap;

/// More functions than this are not made: instances of instances can grow exponentially.
const INSTANCES_MAX: usize = 100_000;

/// Makes the core of a program without errors.
pub(crate) fn specialise(
    ast: &Ast,
    names: &Names,
    resolved: &Resolved,
    inferred: &Inferred,
    sink: &mut Sink,
) -> Program {
    let mut lists = TypeLists::default();
    let monos = Monos::new(&mut lists);
    let program = Program { functions: Table::default(), lists, module: ModuleBuilder::new() };
    let mut specialiser = Specialiser {
        ast,
        names,
        resolved,
        inferred,
        sink,
        monos,
        program,
        instances: HashMap::new(),
        pending: Vec::new(),
        ground: HashMap::new(),
        int_power: None,
        gave_up: false,
    };
    specialiser.run();
    specialiser.program
}

/// The instance of a definition at some types.
#[derive(Debug)]
struct Instance {
    function: FunctionId,
    def: DefId,
    args: Vec<Mono>,
}

struct Specialiser<'s> {
    ast: &'s Ast,
    names: &'s Names,
    resolved: &'s Resolved,
    inferred: &'s Inferred,
    sink: &'s mut Sink,
    monos: Monos,
    program: Program,
    instances: HashMap<(DefId, Vec<Mono>), FunctionId>,
    pending: Vec<Instance>,
    /// The concrete types of inferred types without variables.
    ground: HashMap<Ty, Mono>,
    int_power: Option<FunctionId>,
    gave_up: bool,
}

/// One instance under construction.
struct Elaborator<'s, 'p> {
    program: &'p mut Specialiser<'s>,
    /// What the definition's type variables are.
    vars: HashMap<Ty, Mono>,
    /// The concrete types met so far.
    known: HashMap<Ty, Mono>,
    body: Body,
    /// The values that variables of the source stand for.
    locals: HashMap<LocalId, Box<[Atom]>>,
}

impl<'s> Specialiser<'s> {
    fn run(&mut self) {
        for (def, _) in self.ast.defs.iter() {
            let vars = &self.inferred.defs[def].vars;
            let args: Vec<Mono> = vars.iter().map(|&var| self.default_of(self.inferred.types.class_of(var))).collect();
            let name = self.names.text(self.ast.defs[def].name).to_owned();
            self.instance(def, args, Some(name));
        }
        let exported = self.pending.len();
        self.pending.reverse();
        let mut done = 0;
        while let Some(instance) = self.pending.pop() {
            self.elaborate(&instance, done < exported);
            done += 1;
        }
    }

    /// What an open type variable becomes.
    fn default_of(&self, class: Class) -> Mono {
        match class {
            Class::Any => self.monos.unit,
            Class::Equal | Class::Ordered | Class::Number => self.monos.real,
        }
    }

    /// The function of a definition at some types.
    fn instance(&mut self, def: DefId, args: Vec<Mono>, name: Option<String>) -> FunctionId {
        let key = (def, args);
        if let Some(&function) = self.instances.get(&key) {
            return function;
        }
        if self.program.functions.len() >= INSTANCES_MAX {
            if !std::mem::replace(&mut self.gave_up, true) {
                let error = Diagnostic::error(self.ast.defs[def].name_span, "the program has too many instances");
                self.sink.push(error.label(format!("more than {INSTANCES_MAX} functions are needed")));
            }
            return FunctionId::from_index(0);
        }
        let name = name.unwrap_or_else(|| self.instance_name(def, &key.1));
        let results = self.program.lists.intern(&[]);
        let empty = Function {
            id: FunctionId::from_index(self.program.functions.len()),
            name,
            interface: None,
            params: Vec::new(),
            results,
            body: Body::default(),
            root: ExprId::from_index(0),
        };
        let function = self.program.functions.push(empty);
        self.pending.push(Instance { function, def, args: key.1.clone() });
        self.instances.insert(key, function);
        function
    }

    fn instance_name(&self, def: DefId, args: &[Mono]) -> String {
        let args: Vec<String> = args.iter().map(|&arg| self.monos.host_type(arg).to_string()).collect();
        format!("{}<{}>", self.names.text(self.ast.defs[def].name), args.join(", "))
    }

    fn elaborate(&mut self, instance: &Instance, exported: bool) {
        if self.gave_up {
            return;
        }
        let (ast, inferred) = (self.ast, self.inferred);
        let def = &ast.defs[instance.def];
        let def_type = &inferred.defs[instance.def];
        let vars = def_type.vars.iter().copied().zip(instance.args.iter().copied()).collect();
        let mut elaborator =
            Elaborator { program: self, vars, known: HashMap::new(), body: Body::default(), locals: HashMap::new() };
        let mut params = Vec::new();
        let mut host_params = Vec::new();
        for (i, &pattern) in def.params.iter().enumerate() {
            let ty = elaborator.mono(inferred.patterns[pattern], ast.patterns[pattern].span);
            let vars = elaborator.new_vars(ty);
            let atoms: Vec<Atom> = vars.iter().map(|&var| Atom::Var(var)).collect();
            params.extend(vars);
            elaborator.bind_atoms(pattern, &atoms);
            host_params.push((elaborator.param_name(pattern, i), elaborator.program.monos.host_type(ty)));
        }
        let result = elaborator.mono(def_type.result, ast.exprs[def.body].span);
        let root = elaborator.expr(def.body);
        let body = std::mem::take(&mut elaborator.body);
        let interface = exported.then(|| Interface { params: host_params, result: self.monos.host_type(result) });
        let function = &mut self.program.functions[instance.function];
        function.params = params;
        function.results = self.monos.flat(result);
        function.body = body;
        function.root = root;
        function.interface = interface;
    }
}

impl Elaborator<'_, '_> {
    fn param_name(&self, pattern: crate::ast::PatternId, index: usize) -> String {
        match self.program.ast.patterns[pattern].kind {
            PatternKind::Var(name) => self.program.names.text(name).to_owned(),
            PatternKind::Ascribe(inner, _) => self.param_name(inner, index),
            _ => format!("arg{}", index + 1),
        }
    }

    /// The concrete type of an inferred type in this instance.
    fn mono(&mut self, ty: Ty, place: Span) -> Mono {
        match self.try_mono(ty) {
            Some(mono) => mono,
            None => {
                if !std::mem::replace(&mut self.program.gave_up, true) {
                    let error = Diagnostic::error(place, "the type of this is too large")
                        .label(format!("more than {REGISTERS_MAX} numbers, or nested deeper than {DEPTH_MAX}"));
                    let help = "tuples of tuples grow exponentially; keep many numbers in an array";
                    self.program.sink.push(error.help(help));
                }
                self.program.monos.unit
            }
        }
    }

    fn try_mono(&mut self, ty: Ty) -> Option<Mono> {
        let inferred = self.program.inferred;
        let root = inferred.types.root(ty);
        if let Some(&mono) = self.vars.get(&root).or(self.known.get(&root)).or(self.program.ground.get(&root)) {
            return Some(mono);
        }
        let mono = match inferred.types.node(root) {
            Node::Var(class) => self.program.default_of(*class),
            Node::Error | Node::Link(_) => self.program.monos.unit,
            Node::Con { con, args, .. } => match con {
                Con::Real => self.program.monos.real,
                Con::Int => self.program.monos.int,
                Con::Bool => self.program.monos.bool,
                Con::Tuple => {
                    let parts: Option<Vec<Mono>> =
                        crate::stack::grown(|| args.iter().map(|&arg| self.try_mono(arg)).collect());
                    self.program.monos.tuple(parts?, &mut self.program.program.lists).ok()?
                }
                Con::Array => {
                    let element = crate::stack::grown(|| self.try_mono(args[0]))?;
                    let Program { lists, module, .. } = &mut self.program.program;
                    self.program.monos.array(element, lists, module).ok()?
                }
                Con::Function => unreachable!("functions are not values yet"),
            },
        };
        let known = if inferred.types.is_ground(root) { &mut self.program.ground } else { &mut self.known };
        known.insert(root, mono);
        Some(mono)
    }

    /// How an array type is represented. After a type was reported as too large, what should be an array may not be one.
    fn array_type(&self, ty: Mono) -> ArrayType {
        let nothing = ArrayType { array: TypeId(0), element: ValueType::Real, boxed: None };
        self.program.monos.array_type(ty).unwrap_or(nothing)
    }

    fn flat(&self, ty: Mono) -> Vec<ValueType> {
        self.program.program.lists.get(self.program.monos.flat(ty)).to_vec()
    }

    fn new_vars(&mut self, ty: Mono) -> Vec<Var> {
        self.flat(ty).into_iter().map(|ty| self.body.vars.push(ty)).collect()
    }

    /// Whether a number of this type is a real.
    fn is_real(&self, ty: Mono) -> bool {
        *self.program.monos.node(ty) == MonoNode::Real
    }

    /// Adds an expression whose values have the registers of a type.
    fn make(&mut self, kind: ExprKind, ty: Mono, span: Span) -> ExprId {
        let types = self.program.monos.flat(ty);
        self.body.exprs.push(Expr { kind, types, span })
    }

    fn atom(&mut self, atom: Atom, span: Span) -> ExprId {
        self.body.atom(atom, span, &mut self.program.program.lists)
    }
}
