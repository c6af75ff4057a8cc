//! Types that a program writes down: annotations, data types and abbreviations.

use super::{Infer, POLYMORPHIC_NODES_MAX};
use crate::arena::Table;
use crate::ast::{AliasId, DataId, TypeExprId, TypeExprKind};
use crate::diagnostics::Diagnostic;
use crate::hash::HashMap;
use crate::names::Name;
use crate::resolve::TypeMeaning;
use crate::source::Span;
use crate::types::{Class, Con, DataInfo, Kinds, Node, Ty};

impl Infer<'_> {
    /// Finds the types of all constructors, and the order of the fields of abbreviations.
    pub(super) fn declare_datas(&mut self) {
        let ast = self.ast;
        for (_, alias) in ast.aliases.iter() {
            if let TypeExprKind::Record(fields) = &ast.types[alias.ty].kind {
                self.out.types.shape(fields.iter().map(|field| field.name).collect(), self.names);
            }
        }
        for (_, data) in ast.datas.iter() {
            let name = self.names.text(data.name).to_owned();
            self.out.types.add_data(DataInfo { name, has_equality: true });
            let params = data.params.iter().map(|_| self.out.types.var(Class::Any)).collect();
            self.out.datas.push(params);
        }
        for (_, constructor) in ast.constructors.iter() {
            let data = &ast.datas[constructor.data];
            let params = data.params.iter().zip(&self.out.datas[constructor.data]);
            self.type_vars = params.map(|(&(name, span), &ty)| (name, (ty, span))).collect();
            let fields = constructor.fields.iter().map(|&field| self.annotation(field)).collect();
            self.out.constructors.push(fields);
        }
        self.type_vars.clear();
        self.find_equality();
    }

    /// Data types have equality unless there are functions in them.
    fn find_equality(&mut self) {
        let mut uses: Table<DataId, Vec<DataId>> = Table::filled(Vec::new(), self.ast.datas.len());
        let mut has_function = Table::filled(false, self.ast.datas.len());
        for (id, constructor) in self.ast.constructors.iter() {
            let data = constructor.data;
            for con in self.out.types.cons_in(&self.out.constructors[id]) {
                match con {
                    Con::Function => has_function[data] = true,
                    Con::Data(other) => uses[data].push(other),
                    _ => {}
                }
            }
        }
        for group in crate::graph::groups(&uses, self.meter) {
            let is_without = |data: &DataId| has_function[*data] || !self.out.types.has_equality(*data);
            if group.iter().any(|data| is_without(data) || uses[*data].iter().any(is_without)) {
                group.into_iter().for_each(|data| self.out.types.without_equality(data));
            }
        }
    }

    /// The type that an annotation means.
    pub(super) fn annotation(&mut self, annotation: TypeExprId) -> Ty {
        match self.meter.step(self.ast.types[annotation].span) {
            true => crate::stack::grown(|| self.annotation_here(annotation)),
            false => self.out.types.error,
        }
    }

    fn annotation_here(&mut self, annotation: TypeExprId) -> Ty {
        let ast = self.ast;
        match &ast.types[annotation].kind {
            TypeExprKind::Error => self.out.types.error,
            TypeExprKind::Tuple(parts) => {
                let parts = parts.iter().map(|&part| self.annotation(part)).collect();
                self.out.types.tuple(parts)
            }
            TypeExprKind::Var(name) => self.type_var(*name, Class::Any, ast.types[annotation].span),
            TypeExprKind::Collection(..) if self.resolved.types[annotation].is_none() => self.out.types.error,
            TypeExprKind::Collection(name, element) => {
                let kind = self.type_var(*name, Class::Kind(Kinds::ALL), ast.types[annotation].span);
                let element = self.annotation(*element);
                self.out.types.collection(kind, element)
            }
            TypeExprKind::Function(parts) => {
                let parts: Vec<Ty> = parts.iter().map(|&part| self.annotation(part)).collect();
                let (&result, params) = parts.split_last().expect("a function type has a result");
                self.out.types.functions(params, result)
            }
            TypeExprKind::Record(fields) => {
                let fields = fields.iter().map(|field| (field.name, self.annotation(field.ty))).collect();
                self.out.types.record(fields, self.names)
            }
            TypeExprKind::Named(_, args) => {
                let args: Vec<Ty> = args.iter().map(|&arg| self.annotation(arg)).collect();
                let Some(meaning) = self.resolved.types[annotation] else { return self.out.types.error };
                match meaning {
                    TypeMeaning::Real => self.out.types.real,
                    TypeMeaning::Int => self.out.types.int,
                    TypeMeaning::Bool => self.out.types.bool,
                    TypeMeaning::Collection(kind) => {
                        let kind = self.out.types.kind(kind.expect("a name is that of a kind"));
                        self.out.types.collection(kind, args[0])
                    }
                    TypeMeaning::Data(data) => self.out.types.con(Con::Data(data), args),
                    TypeMeaning::Alias(alias) => {
                        let (params, ty) = self.abbreviated(alias);
                        let mut replaced: HashMap<Ty, Ty> = params.into_iter().zip(args.iter().copied()).collect();
                        let ty = self.out.types.instantiate(ty, &mut replaced);
                        self.out.types.abbreviated(ty, self.ast.aliases[alias].name, args, self.names)
                    }
                }
            }
        }
    }

    /// What a type variable stands for: a type, or a kind of collection where that is the class.
    fn type_var(&mut self, name: Name, class: Class, span: Span) -> Ty {
        let types = &mut self.out.types;
        let (var, first) = *self.type_vars.entry(name).or_insert_with(|| (types.var(class), span));
        if types.is_kind(var) == (class != Class::Any) || types.is_error(var) {
            return var;
        }
        let message = format!("`{}` stands for a type and for a kind of collection", self.names.text(name));
        let error = Diagnostic::error(span, message).also(first, "and here it is the other");
        self.sink.push(error.help("give them two names"));
        self.out.types.error
    }

    /// What an abbreviation stands for, in terms of its parameters. What it mentions is expanded before: a chain of
    /// abbreviations may be long.
    fn abbreviated(&mut self, id: AliasId) -> (Vec<Ty>, Ty) {
        let mut pending = vec![id];
        while let Some(&next) = pending.last() {
            let uses = &self.resolved.alias_uses[next];
            let is_open = |id: &&AliasId| self.aliases[**id].is_none() && self.resolved.expandable[**id];
            let before = pending.len();
            if self.aliases[next].is_none() && self.resolved.expandable[next] && self.meter.go_on() {
                pending.extend(uses.iter().filter(is_open));
            }
            if pending.len() == before {
                pending.pop();
                self.expand(next);
            }
        }
        self.expand(id)
    }

    /// What an abbreviation stands for.
    fn expand(&mut self, id: AliasId) -> (Vec<Ty>, Ty) {
        if let Some(known) = &self.aliases[id] {
            return known.clone();
        }
        let alias = &self.ast.aliases[id];
        let mut params: Vec<Ty> = Vec::new();
        let mut inside = HashMap::default();
        for &(name, span) in &alias.params {
            params.push(self.out.types.var(Class::Any));
            inside.insert(name, (params[params.len() - 1], span));
        }
        let mut ty = self.out.types.error;
        if self.resolved.expandable[id] {
            let outside = std::mem::replace(&mut self.type_vars, inside);
            ty = self.annotation(alias.ty);
            self.type_vars = outside;
        }
        if !params.is_empty() && self.out.types.vars_in([ty], 0).1 > POLYMORPHIC_NODES_MAX {
            let message = format!("the type `{}` is too large", self.names.text(alias.name));
            self.sink.push(Diagnostic::error(alias.name_span, message));
            ty = self.out.types.error;
        }
        self.aliases[id] = Some((params.clone(), ty));
        (params, ty)
    }

    /// Sees to it that the type variables of annotations stand for any type, and for different ones. Those that a
    /// polymorphic function has chosen, `vars`, are forgotten: another function may use the name again.
    pub(super) fn check_type_vars(&mut self, vars: &[Ty]) {
        let mut checked: Vec<(Name, Ty, Span)> =
            self.type_vars.iter().map(|(&name, &(ty, span))| (name, self.out.types.root(ty), span)).collect();
        checked.sort_by_key(|&(_, _, span)| span.start);
        let at_end = vars.is_empty();
        let mut seen: HashMap<Ty, Name> = HashMap::default();
        for (name, ty, span) in checked {
            if !at_end && !vars.contains(&ty) {
                continue;
            }
            let text = self.names.text(name);
            let any = if self.out.types.is_kind(ty) { "any kind of collection" } else { "any type" };
            let error = Diagnostic::error(span, format!("the type variable `{text}` stands for {any}"));
            match self.out.types.node(ty) {
                Node::Var { .. } => {
                    if let Some(&other) = seen.get(&ty) {
                        let other = self.names.text(other);
                        self.sink.push(error.label(format!("but here it must be the same as `{other}`")));
                    }
                    seen.insert(ty, name);
                }
                Node::Error => {}
                _ => {
                    let shown = self.out.types.show(ty);
                    let error = error.label(format!("but here it can only be `{shown}`"));
                    self.sink.push(error.help(format!("write `{shown}`, or leave the type out")));
                }
            }
            self.type_vars.remove(&name);
        }
    }
}
