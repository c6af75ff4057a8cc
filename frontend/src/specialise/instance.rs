//! Instances: code at types and forms of its inputs. An instance whose result may hold known functions is made at once,
//! because its caller must know the result's form; all others wait their turn.

use super::form::{Code, Form, FormNode, Shaped, TypeArgs, Value};
use super::{Elaborator, INSTANCES_MAX, Specialiser};
use crate::arena::Id;
use crate::ast::{DefId, ExprId as SurfaceId, ExprKind as SurfaceKind, PatternId};
use crate::core::{Body, ExprId, Function, FunctionId};
use crate::diagnostics::Diagnostic;
use crate::hash::HashMap;
use crate::infer::ByKind;
use crate::mono::{Mono, MonoNode};
use crate::resolve::Meaning;
use crate::source::Span;
use std::sync::Arc;

/// Forms in which functions are nested deeper than this are counted per code.
const DEEP: u32 = 3;
/// This many instances at deep forms, and then values become plain.
const DEEP_INSTANCES_MAX: usize = 200;

/// So many instances may be made while another one waits for the form of its result.
const ELABORATING_MAX: u32 = 500;
/// Names of functions that are longer than this are cut.
const NAME_BYTES_MAX: usize = 200;

/// A name, or the start of a long one.
pub(super) fn cut(mut name: String) -> String {
    if name.len() > NAME_BYTES_MAX {
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        name.push('…');
    }
    name
}

/// What an instance is an instance of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) code: Code,
    pub(super) types: TypeArgs,
    /// The forms of what it captures, then of its arguments.
    pub(super) inputs: Box<[Form]>,
}

/// The function of an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance {
    pub(super) function: FunctionId,
    /// The result's form, once known.
    result: Option<Form>,
    /// Its type.
    ty: Mono,
}

impl Specialiser<'_> {
    /// The function of an instance, and the form of its result, which is of a type.
    pub(super) fn instance(&mut self, key: Key, result: Mono) -> (FunctionId, Form) {
        self.named_instance(key, result, None)
    }

    pub(super) fn named_instance(&mut self, key: Key, ty: Mono, name: Option<String>) -> (FunctionId, Form) {
        if let Some(instance) = self.instances.get_mut(&key) {
            let (function, result) = (instance.function, instance.result);
            // A recursive use comes before the form is known: then the result is plain.
            let form = result.unwrap_or_else(|| self.plain(ty));
            self.instances.get_mut(&key).expect("found above").result = Some(form);
            return (function, form);
        }
        if self.program.functions.len() >= self.instances_max() {
            self.too_many(key.code);
            return (FunctionId::from_index(0), self.plain(ty));
        }
        let name = name.unwrap_or_else(|| self.instance_name(&key));
        let name = self.unique(name);
        let results = self.program.lists.intern(&[]);
        let empty = Function {
            id: FunctionId::from_index(self.program.functions.len()),
            name,
            written: self.written_name(key.code),
            interface: None,
            twin_of: None,
            params: Vec::new(),
            results,
            body: Body::default(),
            root: ExprId::from_index(0),
        };
        let function = self.program.functions.push(empty);
        // Where they are nested too deeply, results are plain.
        let is_plain = matches!(key.code, Code::Applied(_) | Code::Entry | Code::Differentiated | Code::Rule);
        let is_open = self.monos.is_open(ty) && !is_plain && self.elaborating < ELABORATING_MAX;
        let result = if is_open { None } else { Some(self.plain(ty)) };
        self.instances.insert(key.clone(), Instance { function, result, ty });
        if is_open {
            self.elaborating += 1;
            crate::stack::grown(|| self.elaborate(&key));
            self.elaborating -= 1;
        } else {
            self.pending.push(key.clone());
        }
        let form = self.instances[&key].result.unwrap_or_else(|| self.plain(ty));
        (function, form)
    }

    /// What a definition stands for at some types, with the types of its variables: itself, if it has code of its own.
    pub(super) fn of_kind(&mut self, def: DefId, types: TypeArgs) -> (Meaning, TypeArgs) {
        let inferred = self.inferred;
        let Some(ByKind { kind, uses }) = inferred.by_kind.get(&def) else { return (Meaning::Def(def), types) };
        if let Some(&known) = self.of_kinds.get(&(def, types)) {
            return known;
        }
        let (mut env, nowhere) = (self.type_env(types), Span::default());
        let kind = self.mono(*kind, &mut env, nowhere);
        let MonoNode::Kind(kind) = *self.monos.node(kind) else { unreachable!("the variable stands for kinds") };
        let of_kind = uses.iter().find(|(kinds, ..)| kinds.has(kind)).expect("its class has no other kinds");
        let &(_, used, at) = of_kind;
        env.vars.insert(inferred.types.root(at), self.monos.kind(kind));
        let found = match self.resolved.meanings[used] {
            Some(Meaning::Def(chosen)) => {
                let (name, of_kind) = (self.ast.defs[def].name, self.names.text(self.ast.defs[chosen].name));
                if of_kind.strip_prefix(self.names.text(name)).is_some_and(|kind| kind.starts_with('_')) {
                    self.public_names.insert(chosen, name);
                }
                let vars = &inferred.defs[chosen].vars;
                let at = vars.iter().zip(inferred.instances.get(&used).unwrap_or(vars));
                let at = at.map(|(&var, &ty)| (inferred.types.root(var), self.mono(ty, &mut env, nowhere)));
                let at = at.collect();
                (Meaning::Def(chosen), self.type_args.intern(None, at))
            }
            Some(other) => (other, self.no_types),
            None => unreachable!("the prelude has no unknown names"),
        };
        self.of_kinds.insert((def, types), found);
        found
    }

    fn too_many(&mut self, code: Code) {
        if !std::mem::replace(&mut self.gave_up, true) {
            let place = self.place_of(code);
            let error = Diagnostic::error(place, "the program has too many instances");
            self.sink.push(error.label(format!("more than {} functions are needed", self.instances_max())));
        }
    }

    /// Where code is written; the default for what nobody has written.
    fn place_of(&self, code: Code) -> Span {
        match code {
            Code::Def(def) => self.ast.defs[def].name_span,
            Code::Local(function) => self.ast.functions[function].name_span,
            Code::Lambda(expr) | Code::Branch(expr) => self.ast.exprs[expr].span,
            _ => Span::default(),
        }
    }

    /// Where the first function among some forms is written: the place of code that is made around it. That of a
    /// function which nobody has written, such as `checkpoint f`, is that of a function which it was given.
    fn place_of_function(&self, forms: &[Form]) -> Span {
        let mut pending: Vec<Form> = forms.iter().rev().copied().collect();
        while let Some(form) = pending.pop() {
            if let FormNode::Function { code, captures, .. } = self.forms.node(form) {
                let place = self.place_of(*code);
                if place != Span::default() {
                    return place;
                }
                pending.extend(captures.iter().rev());
            }
        }
        Span::default()
    }

    fn instances_max(&self) -> usize {
        INSTANCES_MAX.max(self.ast.exprs.len())
    }

    /// Whether one more instance of a code at these forms is too much.
    pub(super) fn is_too_deep(&mut self, key: &Key) -> bool {
        if self.instances.contains_key(key) || key.inputs.iter().all(|&form| self.forms.depth(form) < DEEP) {
            return false;
        }
        let count = self.deep.entry(key.code).or_default();
        *count += 1;
        *count > DEEP_INSTANCES_MAX
    }

    fn unique(&mut self, name: String) -> String {
        let count = self.function_names.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name}#{count}") }
    }

    fn instance_name(&self, key: &Key) -> String {
        let base = match key.code {
            Code::Entry => match self.forms.node(key.inputs[0]) {
                FormNode::Function { code, .. } => format!("{}.closure", self.code_name(*code)),
                _ => "closure".to_owned(),
            },
            code => self.code_name(code),
        };
        let args = &self.type_args.node(key.types).vars;
        if args.is_empty() {
            return base;
        }
        let mut name = format!("{base}<");
        for (i, &(_, arg)) in args.iter().enumerate() {
            // Types may be long, and names are for people.
            if name.len() > NAME_BYTES_MAX {
                break;
            }
            name.push_str(if i > 0 { ", " } else { "" });
            name.push_str(&self.type_text(arg));
        }
        cut(name + ">")
    }

    /// What code that somebody has written is called in messages.
    fn written_name(&self, code: Code) -> Option<Arc<str>> {
        matches!(code, Code::Def(_) | Code::Local(_) | Code::Lambda(_)).then(|| self.code_name(code).into())
    }

    pub(super) fn code_name(&self, code: Code) -> String {
        match code {
            Code::Def(def) => {
                let name = self.public_names.get(&def).copied().unwrap_or(self.ast.defs[def].name);
                let name = self.names.text(name);
                match self.ast.file_of(def).and_then(|file| file.module) {
                    Some(module) => format!("{}.{name}", self.names.text(module)),
                    None => name.to_owned(),
                }
            }
            Code::Operator(op, _) => op.symbol().to_owned(),
            _ => self.code_names.get(&code).cloned().unwrap_or_else(|| "function".to_owned()),
        }
    }

    /// The parameters and the body of a code of the program.
    fn text_of(&self, code: Code) -> Option<(Vec<PatternId>, SurfaceId)> {
        let ast = self.ast;
        match code {
            Code::Def(def) => Some((ast.defs[def].params.clone(), ast.defs[def].body)),
            Code::Local(function) => Some((ast.functions[function].params.clone(), ast.functions[function].body)),
            Code::Lambda(expr) => ast.anonymous(expr),
            Code::Branch(expr) => Some((Vec::new(), expr)),
            _ => None,
        }
    }

    /// Makes the function of an instance.
    pub(super) fn elaborate(&mut self, key: &Key) {
        if self.is_stopped() {
            return;
        }
        let Instance { function, ty, .. } = self.instances[key];
        let name = match key.code {
            Code::Applied(_) | Code::Entry | Code::Differentiated | Code::Rule => {
                self.program.functions[function].name.clone()
            }
            code => self.code_name(code),
        };
        let env = self.type_env(key.types);
        let body = std::mem::take(&mut self.spare);
        let mut elaborator =
            Elaborator { program: self, types: key.types, env, name, body, locals: HashMap::default(), counted: 0 };
        let mut params = Vec::new();
        let mut inputs = Vec::new();
        for (n, &form) in key.inputs.iter().enumerate() {
            let (mut vars, mut value) = elaborator.new_value(form);
            if key.code == Code::Rule && n + 1 == key.inputs.len() {
                (vars, value.atoms) = elaborator.without_integers(vars);
            }
            params.extend(vars);
            inputs.push(value);
        }
        let made = elaborator.instance_body(key, &inputs, ty);
        // Known unless this is the first result of this instance that anyone sees.
        let wanted = elaborator.program.instances[key].result;
        let made = match wanted {
            Some(form) if form == made.form => made,
            Some(_) => elaborator.materialised(made),
            None => elaborator.limited(made),
        };
        let root = if key.code == Code::Rule { elaborator.derivatives_of(made) } else { made.expr };
        let mut room = std::mem::take(&mut elaborator.body);
        let body = room.drain();
        self.spare = room;
        self.instances.get_mut(key).expect("it is being made").result = Some(made.form);
        let results = body.exprs[root].types;
        let function = &mut self.program.functions[function];
        function.params = params;
        function.results = results;
        function.body = body;
        function.root = root;
    }
}

impl Elaborator<'_, '_> {
    fn instance_body(&mut self, key: &Key, inputs: &[Value], result: Mono) -> Shaped {
        let Some((params, body)) = self.program.text_of(key.code) else {
            let span = self.program.place_of_function(&key.inputs);
            if let Code::Part(array) = key.code {
                return self.part(inputs, array, span);
            }
            let mut inputs: Vec<Shaped> = inputs.iter().map(|input| self.of_value(input, span)).collect();
            if let Code::Applied(def) = key.code {
                let span = self.program.place_of(Code::Def(def));
                let params: Vec<Mono> = key.inputs.iter().map(|&form| self.program.forms.mono(form)).collect();
                let ty = self.function_type(&params, result);
                let callee = self.value_of_def(def, key.types, ty, span);
                return self.apply(callee, inputs, result, span);
            }
            let callee = inputs.remove(0);
            return self.apply(callee, inputs, result, span);
        };
        if let Code::Def(def) = key.code
            && let SurfaceKind::Imported(name) = self.program.ast.exprs[body].kind
        {
            return self.call_import(def, name, inputs, result);
        }
        let (captured, args) = inputs.split_at(inputs.len() - params.len());
        if let Some(locals) = self.program.environments.get(&key.code).cloned() {
            self.locals.extend(locals.iter().copied().zip(captured.iter().cloned()));
        }
        let mut bindings = Vec::new();
        for (&pattern, arg) in params.iter().zip(args) {
            self.bind_value(pattern, arg, &mut bindings);
        }
        let made = self.shaped(body);
        Shaped { expr: self.block(bindings, made.expr), form: made.form }
    }
}
