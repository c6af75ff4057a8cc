//! Inferred types to concrete ones, and the heap types of data types.

use super::form::{Form, FormNode, TypeArgs};
use super::{Elaborator, Fields, Specialiser};
use crate::ast::{ConstructorId, DataId, LIST};
use crate::core::Program;
use crate::diagnostics::Diagnostic;
use crate::hash::HashMap;
use crate::limits::Count;
use crate::mono::{DEPTH_MAX, Mono, MonoNode, REGISTERS_MAX};
use crate::source::Span;
use crate::types::{Class, Con, Kind, Node, Ty};
use dualvm_vm::module::{TypeDef, ValueType, VariantDef};
use dualvm_vm::verify::limits::FIELDS_MAX;

/// So many registers in a type's representation count as one node.
const REGISTERS_PER_NODE: usize = 2;

/// What type variables stand for, with the concrete types met so far.
#[derive(Default, Debug)]
pub(super) struct TypeEnv {
    pub(super) vars: HashMap<Ty, Mono>,
    known: HashMap<Ty, Mono>,
}

impl Specialiser<'_> {
    pub(super) fn plain(&mut self, ty: Mono) -> Form {
        self.form(FormNode::Plain(ty))
    }

    pub(super) fn form(&mut self, node: FormNode) -> Form {
        self.forms.intern(node, &self.monos, &mut self.program.lists)
    }

    /// What an open type variable becomes.
    pub(super) fn default_of(&self, class: Class) -> Mono {
        match class {
            Class::Any => self.monos.unit,
            Class::Data | Class::Equal | Class::Arithmetic | Class::Ordered | Class::Number => self.monos.real,
            Class::Kind(kinds) => {
                let default = Some(Kind::DEFAULT).filter(|&kind| kinds.has(kind));
                let first = || Kind::ALL.into_iter().find(|&kind| kinds.has(kind));
                self.monos.kind(default.or_else(first).unwrap_or(Kind::DEFAULT))
            }
        }
    }

    pub(super) fn type_env(&self, types: TypeArgs) -> TypeEnv {
        let mut env = TypeEnv::default();
        let mut next = Some(types);
        while let Some(types) = next {
            let node = self.type_args.node(types);
            env.vars.extend(node.vars.iter().copied());
            next = node.outer;
        }
        env
    }

    /// The concrete type of an inferred type, or the unit type if it is too large, which is reported.
    pub(super) fn mono(&mut self, ty: Ty, env: &mut TypeEnv, place: Span) -> Mono {
        self.try_mono(ty, env).unwrap_or_else(|| {
            self.too_large(place);
            self.monos.unit
        })
    }

    fn too_large(&mut self, place: Span) {
        if !std::mem::replace(&mut self.gave_up, true) {
            let error = Diagnostic::error(place, "the type of this is too large")
                .label(format!("more than {REGISTERS_MAX} numbers, or nested deeper than {DEPTH_MAX}"));
            let help = "tuples of tuples grow exponentially; keep many numbers in an array";
            self.sink.push(error.help(help));
        }
    }

    fn try_mono(&mut self, ty: Ty, env: &mut TypeEnv) -> Option<Mono> {
        let inferred = self.inferred;
        let root = inferred.types.root(ty);
        if let Some(&mono) = env.vars.get(&root).or(env.known.get(&root)).or(self.ground.get(&root)) {
            return Some(mono);
        }
        let mono = match inferred.types.node(root) {
            Node::Var { class, .. } => self.default_of(*class),
            Node::Error | Node::Link(_) => self.monos.unit,
            Node::Con { con, args, .. } => {
                let args: Option<Vec<Mono>> =
                    crate::stack::grown(|| args.iter().map(|&arg| self.try_mono(arg, env)).collect());
                let args = args?;
                let Program { lists, module, .. } = &mut self.program;
                match *con {
                    Con::Real => self.monos.real,
                    Con::Int => self.monos.int,
                    Con::Bool => self.monos.bool,
                    Con::Tuple => self.monos.tuple(args, lists).ok()?,
                    Con::Record(shape) => self.monos.product(MonoNode::Record(shape, args.into()), lists).ok()?,
                    Con::Kind(kind) => self.monos.kind(kind),
                    Con::Collection => match *self.monos.node(args[0]) {
                        MonoNode::Kind(Kind::List) => self.data(LIST, vec![args[1]])?,
                        MonoNode::Kind(Kind::Tensor(rank)) => self.monos.tensor(rank, args[1], lists, module).ok()?,
                        _ => self.monos.array(args[1], lists, module).ok()?,
                    },
                    Con::Function => self.monos.function(args[0], args[1], lists, module).ok()?,
                    Con::Data(data) => self.data(data, args)?,
                }
            }
        };
        // The representation of a type lists the registers of all its parts.
        let registers = match inferred.types.node(root) {
            Node::Con { con: Con::Function, .. } => self.monos.uncurried(mono).0.len(),
            _ => self.program.lists.get(self.monos.flat(mono)).len(),
        };
        self.meter.nodes(Count::Types, 1 + registers / REGISTERS_PER_NODE);
        let known = if inferred.types.is_ground(root) { &mut self.ground } else { &mut env.known };
        known.insert(root, mono);
        Some(mono)
    }

    fn data(&mut self, data: DataId, args: Vec<Mono>) -> Option<Mono> {
        let Program { lists, module, .. } = &mut self.program;
        let (mono, is_new) = self.monos.data(data, args, lists, module).ok()?;
        if is_new {
            self.new_datas.push(mono);
        }
        Some(mono)
    }

    /// The types of the fields of a data type's constructors.
    pub(super) fn fields(&mut self, ty: Mono) -> Fields {
        if let Some(fields) = self.fields.get(&ty) {
            return fields.clone();
        }
        let MonoNode::Data(data, args) = self.monos.node(ty).clone() else { return Fields::default() };
        let (ast, inferred) = (self.ast, self.inferred);
        let vars = inferred.datas[data].iter().map(|&var| inferred.types.root(var));
        let mut env = TypeEnv { vars: vars.zip(args.iter().copied()).collect(), known: HashMap::default() };
        let place = ast.datas[data].name_span;
        let of_constructor = |&id: &ConstructorId| {
            inferred.constructors[id].iter().map(|&field| self.mono(field, &mut env, place)).collect()
        };
        let fields: Fields = ast.datas[data].constructors.iter().map(of_constructor).collect();
        self.fields.insert(ty, fields.clone());
        fields
    }

    /// The number of a field's first register in the payload, and how many it has.
    pub(super) fn field_registers(&mut self, ty: Mono, tag: usize, field: usize) -> (u16, u16) {
        let fields = self.fields(ty);
        let count = |ty: Mono| self.program.lists.get(self.monos.flat(ty)).len();
        let first: usize = fields[tag][..field].iter().map(|&field| count(field)).sum();
        (first as u16, count(fields[tag][field]) as u16)
    }

    /// Defines the heap types of all data types.
    pub(super) fn define_datas(&mut self) {
        while let Some(ty) = self.new_datas.pop() {
            let MonoNode::Data(data, _) = *self.monos.node(ty) else { continue };
            let fields = self.fields(ty);
            if self.gave_up {
                return;
            }
            let ast = self.ast;
            let mut variants = Vec::with_capacity(fields.len());
            for (&constructor, fields) in ast.datas[data].constructors.iter().zip(fields.iter()) {
                let name = self.names.text(ast.constructors[constructor].name).to_owned();
                let flat = fields.iter().flat_map(|&field| self.program.lists.get(self.monos.flat(field)).to_vec());
                let flat: Vec<ValueType> = flat.collect();
                if flat.len() > FIELDS_MAX {
                    let error = Diagnostic::error(ast.constructors[constructor].name_span, "too many fields")
                        .label(format!(
                            "`{name}` holds {} numbers and references, at most {FIELDS_MAX} fit",
                            flat.len()
                        ))
                        .help("keep many numbers in an array, or parts of them in a data type of their own");
                    self.sink.push(error);
                }
                variants.push(VariantDef { name, fields: flat });
            }
            let heap = self.monos.heap_type(ty, &self.program.lists).expect("a data type is one reference");
            self.program.module.set_type(heap, TypeDef::Variant(variants));
        }
    }

    /// A type as people write it.
    pub(super) fn type_text(&self, ty: Mono) -> String {
        let mut out = String::new();
        self.write_type(ty, false, &mut out);
        out
    }

    fn write_type(&self, ty: Mono, is_argument: bool, out: &mut String) {
        let (ast, names, inferred) = (self.ast, self.names, self.inferred);
        let applied = match self.monos.node(ty) {
            MonoNode::Real => return out.push_str("Real"),
            MonoNode::Int => return out.push_str("Int"),
            MonoNode::Bool => return out.push_str("Bool"),
            MonoNode::Kind(kind) => return out.push_str(kind.name()),
            MonoNode::Tuple(parts) => {
                out.push('(');
                for (i, &part) in parts.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    self.write_type(part, false, out);
                }
                return out.push(')');
            }
            MonoNode::Record(shape, parts) => {
                out.push_str("{ ");
                for (i, (&name, &part)) in inferred.types.fields(*shape).iter().zip(parts.iter()).enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    out.push_str(names.text(name));
                    out.push_str(" : ");
                    self.write_type(part, false, out);
                }
                return out.push_str(" }");
            }
            MonoNode::Data(data, args) if args.is_empty() => return out.push_str(names.text(ast.datas[*data].name)),
            applied => applied,
        };
        out.push_str(if is_argument { "(" } else { "" });
        match applied {
            MonoNode::Function(param, result) => {
                self.write_type(*param, matches!(self.monos.node(*param), MonoNode::Function(..)), out);
                out.push_str(" -> ");
                self.write_type(*result, false, out);
            }
            MonoNode::Array(element) => {
                out.push_str("Array ");
                self.write_type(*element, true, out);
            }
            MonoNode::Tensor(rank, element) => {
                out.push_str(Kind::Tensor(*rank).name());
                out.push(' ');
                self.write_type(*element, true, out);
            }
            MonoNode::Data(data, args) => {
                out.push_str(names.text(ast.datas[*data].name));
                for &arg in args {
                    out.push(' ');
                    self.write_type(arg, true, out);
                }
            }
            _ => unreachable!("the others are not applied"),
        }
        out.push_str(if is_argument { ")" } else { "" });
    }
}

impl Elaborator<'_, '_> {
    /// The concrete type of an inferred type in this instance.
    pub(super) fn mono(&mut self, ty: Ty, place: Span) -> Mono {
        self.program.mono(ty, &mut self.env, place)
    }

    /// The position of a constructor among its type's.
    pub(super) fn tag(&self, constructor: ConstructorId) -> u16 {
        self.program.ast.constructors[constructor].index as u16
    }

    /// The concrete type of an expression.
    pub(super) fn type_of(&mut self, expr: crate::ast::ExprId) -> Mono {
        self.mono(self.program.inferred.exprs[expr], self.program.ast.exprs[expr].span)
    }
}
