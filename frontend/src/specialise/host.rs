//! What hosts see: which definitions they can call, and the types of the parameters and results.

use super::form::{Code, Shaped, Value};
use super::instance::Key;
use super::{Elaborator, Specialiser};
use crate::ast::{DefId, LIST, PatternId, PatternKind};
use crate::core::{ExprKind, FunctionId};
use crate::diagnostics::Diagnostic;
use crate::hash::HashSet;
use crate::mono::{Mono, MonoNode};
use crate::names::Name;
use crate::signature::Signature;
use crate::types::{Class, Ty};
use crate::unexported::Unexported;
use dualvm_vm::module::{DataDef, HostType, Import, Interface};

/// The function of a definition that hosts call, and its types.
pub(super) struct ExportedInstance {
    pub(super) function: FunctionId,
    params: Vec<Mono>,
    result: Mono,
}

/// What a parameter is called that has no name.
fn unnamed(index: usize) -> String {
    format!("arg{}", index + 1)
}

impl Elaborator<'_, '_> {
    /// The body of an imported definition.
    pub(super) fn call_import(&mut self, def: DefId, name: Name, inputs: &[Value], result: Mono) -> Shaped {
        let span = self.program.ast.defs[def].name_span;
        let params: Vec<Mono> = inputs.iter().map(|input| self.program.forms.mono(input.form)).collect();
        let Some(import) = self.program.import(def, name, &params, result) else {
            return self.make_plain(ExprKind::Trap(Box::new("not imported".into())), result, span);
        };
        let mut args = Vec::new();
        for input in inputs {
            let input = self.of_value(input, span);
            args.push(self.materialised(input).expr);
        }
        self.make_plain(ExprKind::CallImport(import, args.into()), result, span)
    }
}

impl Specialiser<'_> {
    /// Asks for the instance of a definition that hosts call, unless its type has functions in it.
    pub(super) fn export(&mut self, def: DefId) -> Option<(FunctionId, Interface)> {
        let name = self.names.text(self.ast.defs[def].name).to_owned();
        let ExportedInstance { function, params, result } = self.exported_instance(def, name)?;
        self.border.signatures.extend(self.signature(def, params.len()));
        let mut host_params = Vec::new();
        for (i, ty) in params.into_iter().enumerate() {
            let name = self.ast.defs[def].params.get(i).map(|&pattern| self.param_name(pattern, i));
            host_params.push((name.unwrap_or_else(|| unnamed(i)), self.host_type(ty)));
        }
        Some((function, Interface { params: host_params, result: self.host_type(result) }))
    }

    /// The instance of a definition at the types at which hosts call it, under a name; `None` if there are functions in
    /// these, which is noted.
    pub(super) fn exported_instance(&mut self, def: DefId, name: String) -> Option<ExportedInstance> {
        let (ast, inferred) = (self.ast, self.inferred);
        let def_type = &inferred.defs[def];
        let vars: Box<[_]> =
            def_type.vars.iter().map(|&var| (var, self.default_of(inferred.types.class_of(var)))).collect();
        let types = self.type_args.intern(None, vars);
        let mut env = self.type_env(types);
        let mut params: Vec<Mono> = def_type
            .params
            .iter()
            .zip(&ast.defs[def].params)
            .map(|(&ty, &pattern)| self.mono(ty, &mut env, ast.patterns[pattern].span))
            .collect();
        let result = self.mono(def_type.result, &mut env, ast.exprs[ast.defs[def].body].span);
        // What gives a function is called with that function's arguments, too.
        let (more, result) = self.monos.uncurried(result);
        let code = if more.is_empty() { Code::Def(def) } else { Code::Applied(def) };
        params.extend(more);
        let inside = params.iter().chain([&result]).position(|&ty| !self.crosses(ty));
        if self.gave_up {
            return None;
        }
        if let Some(at) = inside {
            let is_own = at < def_type.params.len() || at == params.len();
            let ty = *params.get(at).unwrap_or(&result);
            let is_function = !is_own || matches!(self.monos.node(ty), MonoNode::Function(..));
            self.keep_inside(def, at, is_function);
            return None;
        }
        let inputs = params.iter().map(|&ty| self.plain(ty)).collect();
        let (function, _) = self.named_instance(Key { code, types, inputs }, result, Some(name));
        Some(ExportedInstance { function, params, result })
    }

    /// The name and type of a definition with so many parameters for hosts, as they are written. Variables are what
    /// they become for hosts.
    fn signature(&self, def: DefId, count: usize) -> Option<Signature> {
        let (ast, types, def_type) = (self.ast, &self.inferred.types, &self.inferred.defs[def]);
        let default = |class| match class {
            Class::Any => "()",
            Class::Kind(_) => match self.monos.node(self.default_of(class)) {
                MonoNode::Kind(kind) => kind.name(),
                _ => unreachable!("a kind becomes a kind"),
            },
            _ => "Real",
        };
        let vars: Vec<(Ty, &str)> = def_type.vars.iter().map(|&var| (var, default(types.class_of(var)))).collect();
        let mut params = def_type.params.clone();
        let mut result = def_type.result;
        while params.len() < count {
            let (param, rest) = types.function_parts(types.root(result))?;
            params.push(param);
            result = rest;
        }
        let shown = params.iter().enumerate().map(|(i, &ty)| {
            let name = ast.defs[def].params.get(i).map(|&pattern| self.param_name(pattern, i));
            Some(format!("{} : {}", name.unwrap_or_else(|| unnamed(i)), types.show_whole(ty, &vars)?))
        });
        let shown: Option<Vec<String>> = shown.collect();
        let name = self.names.text(ast.defs[def].name).to_owned();
        let text = format!("{name} : ({}) -> {}", shown?.join(", "), types.show_whole(result, &vars)?);
        Some(Signature { name, text })
    }

    /// Notes that hosts can't call a definition, because of its parameter at this position, or if there is none its
    /// result.
    fn keep_inside(&mut self, def: DefId, at: usize, is_function: bool) {
        let (ast, types, def_type) = (self.ast, &self.inferred.types, &self.inferred.defs[def]);
        let what = if is_function { "a function" } else { "a value with a function in it" };
        let reason = match (def_type.params.get(at), ast.defs[def].params.get(at)) {
            (Some(&ty), Some(&pattern)) => {
                format!("takes {what} (`{} : {}`)", self.param_name(pattern, at), types.show(ty))
            }
            _ => format!("returns {what} (`{}`)", types.show(def_type.result)),
        };
        let name = self.names.text(ast.defs[def].name).to_owned();
        let ty = types.show_function(&def_type.params, def_type.result);
        self.border.unexported.push(Unexported { name, ty, reason });
    }

    fn param_name(&self, pattern: PatternId, index: usize) -> String {
        match self.ast.patterns[pattern].kind {
            PatternKind::Var(name) | PatternKind::As(name, _) => self.names.text(name).to_owned(),
            PatternKind::Ascribe(inner, _) => self.param_name(inner, index),
            _ => unnamed(index),
        }
    }

    /// The import that is the body of a definition; `None` if there are functions in its type, which is reported.
    fn import(&mut self, def: DefId, name: Name, params: &[Mono], result: Mono) -> Option<u32> {
        if let Some(&known) = self.imports.get(&def) {
            return known;
        }
        let types = params.iter().chain([&result]);
        let import = match types.clone().position(|&ty| !self.crosses(ty)) {
            Some(at) => {
                let ast = self.ast;
                let span = match ast.defs[def].params.get(at) {
                    Some(&pattern) => ast.patterns[pattern].span,
                    None => ast.defs[def].name_span,
                };
                let error = Diagnostic::error(span, "functions of the host's neither take nor give functions");
                let label = if at < params.len() { "this is or has one" } else { "the result is or has one" };
                self.sink.push(error.label(label).help("let it take what the function is of, and apply that here"));
                None
            }
            None => {
                let mut interface = Interface { params: Vec::new(), result: self.host_type(result) };
                for (index, &ty) in params.iter().enumerate() {
                    interface.params.push((unnamed(index), self.host_type(ty)));
                }
                self.border.imports.push(self.ast.exprs[self.ast.defs[def].body].span);
                Some(self.program.module.import(Import { name: self.names.text(name).to_owned(), interface }))
            }
        };
        self.imports.insert(def, import);
        import
    }

    /// Whether values of a type have no functions in them.
    fn crosses(&mut self, ty: Mono) -> bool {
        let mut seen = HashSet::default();
        let crosses = self.can_cross(ty, &mut seen);
        if crosses {
            self.crossing.extend(seen.into_iter().map(|ty| (ty, true)));
        } else {
            self.crossing.insert(ty, false);
        }
        crosses
    }

    /// Looks for functions in a type, but not in those that were looked at before.
    fn can_cross(&mut self, ty: Mono, seen: &mut HashSet<Mono>) -> bool {
        if let Some(&crosses) = self.crossing.get(&ty) {
            return crosses;
        }
        if !seen.insert(ty) {
            return true;
        }
        let parts: Vec<Mono> = match self.monos.node(ty) {
            MonoNode::Function(..) => return false,
            MonoNode::Real | MonoNode::Int | MonoNode::Bool | MonoNode::Kind(_) => return true,
            MonoNode::Tuple(parts) | MonoNode::Record(_, parts) => parts.to_vec(),
            MonoNode::Array(element) | MonoNode::Tensor(_, element) => vec![*element],
            MonoNode::Data(..) => self.fields(ty).iter().flat_map(|fields| fields.to_vec()).collect(),
        };
        !self.gave_up && crate::stack::grown(|| parts.into_iter().all(|part| self.can_cross(part, seen)))
    }

    /// The type as hosts see it.
    pub(super) fn host_type(&mut self, ty: Mono) -> HostType {
        crate::stack::grown(|| match self.monos.node(ty).clone() {
            MonoNode::Real => HostType::Real,
            MonoNode::Int => HostType::Int,
            MonoNode::Bool => HostType::Bool,
            MonoNode::Tuple(parts) => HostType::Tuple(parts.iter().map(|&part| self.host_type(part)).collect()),
            MonoNode::Record(shape, parts) => {
                let names = self.inferred.types.fields(shape).iter().map(|&name| self.names.text(name).to_owned());
                let names: Vec<String> = names.collect();
                HostType::Record(names.into_iter().zip(parts.iter().map(|&part| self.host_type(part))).collect())
            }
            MonoNode::Tensor(rank, element) => {
                let tensor = self.monos.heap_type(ty, &self.program.lists).expect("a tensor is one reference");
                let (lists, module) = (&mut self.program.lists, &mut self.program.module);
                let slice = match rank {
                    2 => self.monos.array(element, lists, module),
                    _ => self.monos.tensor(rank - 1, element, lists, module),
                };
                let slice = slice.expect("it is smaller than the tensor");
                HostType::Tensor { slice: Box::new(self.host_type(slice)), tensor }
            }
            MonoNode::Array(element) => {
                let array = self.monos.array_type(ty).expect("array types have a representation").array;
                HostType::Array { element: Box::new(self.host_type(element)), array }
            }
            MonoNode::Data(LIST, args) => {
                let list = self.monos.heap_type(ty, &self.program.lists).expect("a list is one reference");
                HostType::List { element: Box::new(self.host_type(args[0])), list }
            }
            MonoNode::Data(..) => self.host_data(ty),
            MonoNode::Function(..) => unreachable!("functions don't cross the border"),
            MonoNode::Kind(_) => unreachable!("a kind has no values"),
        })
    }

    fn host_data(&mut self, ty: Mono) -> HostType {
        let name = self.type_text(ty);
        if let Some(&data) = self.host_datas.get(&ty) {
            return HostType::Data { name, data };
        }
        let MonoNode::Data(id, _) = *self.monos.node(ty) else { unreachable!("of data types only") };
        let heap = self.monos.heap_type(ty, &self.program.lists).expect("a data type is one reference");
        let empty = DataDef { name: name.clone(), ty: heap, variants: Vec::new() };
        let data = self.program.module.declare_data(empty);
        self.host_datas.insert(ty, data);
        let ast = self.ast;
        let mut variants = Vec::new();
        for (&id, fields) in ast.datas[id].constructors.iter().zip(self.fields(ty).iter()) {
            let constructor = &ast.constructors[id];
            let types: Vec<HostType> = fields.iter().map(|&field| self.host_type(field)).collect();
            let payload = match &constructor.field_names {
                Some(names) => {
                    let names = names.iter().map(|&(name, _)| self.names.text(name).to_owned());
                    HostType::Record(names.zip(types).collect())
                }
                None => HostType::Tuple(types),
            };
            variants.push((self.names.text(constructor.name).to_owned(), payload));
        }
        self.program.module.set_data(data, DataDef { name: name.clone(), ty: heap, variants });
        HostType::Data { name, data }
    }
}
