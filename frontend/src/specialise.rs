//! Typed syntax to core: one function per instance of a definition, found from what hosts can call.
//!
//! Every definition of the program whose type has no functions in it is exported at its inferred type, with what is
//! left open set to its default. A call of a polymorphic definition at other types asks for another instance, and so
//! does a call with functions that are known (`form.rs`); a worklist makes them. Definitions of one group call each
//! other at the group's own types, and forms have a bounded size, so that there are finitely many.
//!
//! `specialise/` holds forms, instances, what functions capture, types, what hosts see, expressions, chains of them,
//! branches, calls, patterns and matching, operators, equality, arrays, tasks, derivatives, texts.

mod apply;
mod arithmetic;
mod arrays;
mod branches;
mod building;
mod capture;
mod chain;
mod data;
mod decision;
mod derivative;
mod elementwise;
mod equality;
mod expr;
mod form;
mod host;
mod instance;
mod loops;
mod matching;
mod operators;
mod parallel;
mod pattern;
mod replacing;
mod texts;
mod ty;

use crate::arena::Table;
use crate::ast::{Ast, DefId};
use crate::core::{ArrayType, Atom, Body, Expr, ExprId, ExprKind, FunctionId, Layout, Program, TypeLists, Var};
use crate::diagnostics::Sink;
use crate::hash::HashMap;
use crate::infer::Inferred;
use crate::limits::Meter;
use crate::mono::{Mono, MonoNode, Monos};
use crate::names::{Name, Names};
use crate::resolve::{LocalId, Meaning, Resolved};
use crate::signature::Signature;
use crate::source::Span;
use crate::types::Ty;
use crate::unexported::Unexported;
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::module::{self, ValueType};
use std::rc::Rc;

use capture::Free;
use form::{Code, Form, FormNode, Forms, Shaped, TypeArgs, TypeArgsTable, Value};
use instance::{Instance, Key};
use ty::TypeEnv;

/// More functions than this, or than expressions in the program, are not made: instances of instances can grow
/// exponentially.
const INSTANCES_MAX: usize = 100_000;

/// Makes the core of a program without errors; says what of it hosts can't call.
pub(crate) fn specialise(
    ast: &Ast,
    names: &Names,
    resolved: &Resolved,
    inferred: &Inferred,
    sink: &mut Sink,
    meter: &Meter,
) -> (Program, Border) {
    let mut lists = TypeLists::default();
    let monos = Monos::new(&mut lists);
    let mut type_args = TypeArgsTable::default();
    let no_types = type_args.intern(None, Box::default());
    let program = Program {
        functions: Table::default(),
        lists,
        module: ModuleBuilder::new(),
        kept: Vec::new(),
        copied: Vec::new(),
        calls: Table::default(),
    };
    let mut specialiser = Specialiser {
        ast,
        names,
        resolved,
        inferred,
        sink,
        meter,
        monos,
        program,
        forms: Forms::default(),
        type_args,
        no_types,
        instances: HashMap::default(),
        pending: Vec::new(),
        elaborating: 0,
        deep: HashMap::default(),
        function_names: HashMap::default(),
        code_names: HashMap::default(),
        mentions: HashMap::default(),
        environments: HashMap::default(),
        ground: HashMap::default(),
        fields: HashMap::default(),
        new_datas: Vec::new(),
        host_datas: HashMap::default(),
        imports: HashMap::default(),
        crossing: HashMap::default(),
        equalities: HashMap::default(),
        int_power: None,
        of_kinds: HashMap::default(),
        public_names: HashMap::default(),
        border: Border::default(),
        is_traced: false,
        match_work_left: decision::WORK_MAX,
        spare: Body::default(),
        gave_up: false,
    };
    specialiser.run();
    (specialiser.program, specialiser.border)
}

/// What hosts can call, and what they can't.
#[derive(Default)]
pub(crate) struct Border {
    /// Unless a type is too long to be shown as it is written.
    pub(crate) signatures: Vec<Signature>,
    pub(crate) unexported: Vec<Unexported>,
    /// Where the program says what each import of the module is.
    pub(crate) imports: Vec<Span>,
}

/// The types of the fields of a type's constructors.
type Fields = Rc<[Box<[Mono]>]>;

struct Specialiser<'s> {
    ast: &'s Ast,
    names: &'s Names,
    resolved: &'s Resolved,
    inferred: &'s Inferred,
    sink: &'s mut Sink,
    meter: &'s Meter,
    monos: Monos,
    program: Program,
    forms: Forms,
    type_args: TypeArgsTable,
    no_types: TypeArgs,
    instances: HashMap<Key, Instance>,
    pending: Vec<Key>,
    /// How many instances wait for others that are being made.
    elaborating: u32,
    /// How many instances a code has at deeply nested forms.
    deep: HashMap<Code, usize>,
    /// How often the name of a function was taken.
    function_names: HashMap<String, u32>,
    /// What a lambda or local function is called.
    code_names: HashMap<Code, String>,
    /// What from outside the text of a code mentions.
    mentions: HashMap<Code, Rc<[Free]>>,
    /// What a code captures.
    environments: HashMap<Code, Rc<[LocalId]>>,
    /// The concrete types of inferred types without variables.
    ground: HashMap<Ty, Mono>,
    fields: HashMap<Mono, Fields>,
    /// Data types whose heap types are declared only.
    new_datas: Vec<Mono>,
    host_datas: HashMap<Mono, module::DataId>,
    /// Imports of the module, by the definitions that they are the bodies of; `None` if one can't be imported.
    imports: HashMap<DefId, Option<u32>>,
    /// Whether values of a type can cross the border to hosts.
    crossing: HashMap<Mono, bool>,
    equalities: HashMap<Mono, FunctionId>,
    int_power: Option<FunctionId>,
    /// What definitions stand for at the kinds of collections that they are used at.
    of_kinds: HashMap<(DefId, TypeArgs), (Meaning, TypeArgs)>,
    /// What definitions for one kind of collection, such as `map_list`, are called in programs.
    public_names: HashMap<DefId, Name>,
    border: Border,
    /// Whether traces are there: in twins of what hosts call.
    is_traced: bool,
    /// The work that matches may still take, besides what their sizes allow.
    match_work_left: usize,
    /// Empty tables with room for the next function.
    spare: Body,
    gave_up: bool,
}

/// One instance under construction.
struct Elaborator<'s, 'p> {
    program: &'p mut Specialiser<'s>,
    /// What the type variables are.
    types: TypeArgs,
    env: TypeEnv,
    /// What functions made here are named after.
    name: String,
    body: Body,
    /// The values that variables of the source stand for.
    locals: HashMap<LocalId, Value>,
    /// How many nodes of the body were counted by the meter.
    counted: usize,
}

impl Specialiser<'_> {
    /// Whether nothing more is to be made.
    fn is_stopped(&self) -> bool {
        self.gave_up || !self.meter.go_on()
    }

    fn run(&mut self) {
        let own: Vec<DefId> = self.ast.defs.ids().filter(|&def| self.ast.is_exported(def)).collect();
        let (mut exported, mut interfaces) = (Vec::new(), Vec::new());
        for def in own {
            if let Some((function, interface)) = self.export(def) {
                exported.push((def, function));
                interfaces.push(interface);
            }
        }
        self.elaborate_pending();
        for (&(_, function), interface) in exported.iter().zip(interfaces) {
            self.program.functions[function].interface = Some(interface);
        }
        self.make_twins(&exported);
        self.define_datas();
    }

    /// Makes the instances that were asked for, in that order, and those that they ask for.
    fn elaborate_pending(&mut self) {
        self.pending.reverse();
        while let Some(key) = self.pending.pop() {
            self.elaborate(&key);
        }
    }
}

impl Elaborator<'_, '_> {
    fn plain(&mut self, ty: Mono) -> Form {
        self.program.plain(ty)
    }

    fn form(&mut self, node: FormNode) -> Form {
        self.program.form(node)
    }

    /// How an array type is represented. After a type was reported as too large, what should be an array may not be
    /// one.
    fn array_type(&self, ty: Mono) -> ArrayType {
        let nothing = ArrayType { array: module::TypeId(0), holds: ValueType::Real, layout: Layout::Row(1) };
        self.program.monos.array_type(ty).unwrap_or(nothing)
    }

    /// Whether a number of this type is a real.
    fn is_real(&self, ty: Mono) -> bool {
        *self.program.monos.node(ty) == MonoNode::Real
    }

    fn new_vars(&mut self, form: Form) -> Vec<Var> {
        let types = self.program.program.lists.get(self.program.forms.flat(form)).to_vec();
        types.into_iter().map(|ty| self.body.vars.push(ty)).collect()
    }

    /// New variables for a value of a form.
    fn new_value(&mut self, form: Form) -> (Vec<Var>, Value) {
        let vars = self.new_vars(form);
        let atoms = vars.iter().map(|&var| Atom::Var(var)).collect();
        (vars, Value { form, atoms })
    }

    /// Adds an expression whose values have the registers of a type.
    fn make(&mut self, kind: ExprKind, ty: Mono, span: Span) -> ExprId {
        let types = self.program.monos.flat(ty);
        self.body.exprs.push(Expr { kind, types, origin: span.into() })
    }

    /// Adds an expression whose values have the registers of a form.
    fn make_form(&mut self, kind: ExprKind, form: Form, span: Span) -> Shaped {
        let types = self.program.forms.flat(form);
        Shaped { expr: self.body.exprs.push(Expr { kind, types, origin: span.into() }), form }
    }

    fn make_plain(&mut self, kind: ExprKind, ty: Mono, span: Span) -> Shaped {
        Shaped { expr: self.make(kind, ty, span), form: self.plain(ty) }
    }

    fn atom(&mut self, atom: Atom, span: Span) -> ExprId {
        self.body.atom(atom, span.into(), &mut self.program.program.lists)
    }

    /// The expression of a named value.
    fn of_value(&mut self, value: &Value, span: Span) -> Shaped {
        if let [single] = *value.atoms {
            return Shaped { expr: self.atom(single, span), form: value.form };
        }
        let parts = value.atoms.iter().map(|&atom| self.atom(atom, span)).collect();
        self.make_form(ExprKind::Values(parts), value.form, span)
    }
}
