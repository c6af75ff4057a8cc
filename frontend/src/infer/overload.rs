//! The prelude's definitions that there are for lists and for arrays under one name. Which one a mention is follows
//! from the collections that it is given or gives, and those may be known later than the mention is looked at.

use super::{Infer, Why};
use crate::ast::{DefId, ExprId, LIST};
use crate::diagnostics::Diagnostic;
use crate::types::{Class, Con, Node, Ty, Types};
use std::collections::HashMap;

/// A mention that is not told apart yet.
#[derive(Clone, Debug)]
pub(super) struct Overloaded {
    mention: ExprId,
    /// The definition for lists.
    list: DefId,
    /// The collections in its type, and the types of their elements.
    collections: Vec<(Ty, Ty)>,
}

impl Infer<'_> {
    /// The type of an overloaded name at one use: that of the definition for lists with something open for each list.
    pub(super) fn overloaded(&mut self, mention: ExprId, list: DefId) -> Ty {
        let function = self.out.defs[list].clone();
        let types = &mut self.out.types;
        // Both definitions have the same variables in the same order.
        let chosen: Vec<Ty> = function.vars.iter().map(|&var| types.var(types.class_of(var))).collect();
        let mut replaced: HashMap<Ty, Ty> = function.vars.iter().copied().zip(chosen.iter().copied()).collect();
        let mut collections = Vec::new();
        let mut opened: Vec<Ty> = Vec::new();
        for &part in function.params.iter().chain([&function.result]) {
            let part = types.instantiate(part, &mut replaced);
            opened.push(match types.list_element(part) {
                Some(element) => {
                    let collection = types.var(Class::Any);
                    collections.push((collection, element));
                    collection
                }
                None => part,
            });
        }
        self.out.instances.insert(mention, chosen);
        self.overloads.push(Overloaded { mention, list, collections });
        let result = opened.pop().unwrap_or(self.out.types.error);
        self.out.types.functions(&opened, result)
    }

    /// Looks at mentions again that were not told apart: all but the first few.
    pub(super) fn solve_overloads(&mut self, first: usize) {
        for usage in self.overloads.split_off(first.min(self.overloads.len())) {
            self.meter.steps(1);
            if !self.solve_overload(&usage) {
                self.overloads.push(usage);
            }
        }
    }

    /// Finds out which definition a mention is; false if no collection is known yet.
    fn solve_overload(&mut self, usage: &Overloaded) -> bool {
        let types = &self.out.types;
        let is_known = |&&(collection, _): &&(Ty, Ty)| !is_open(types, collection);
        let Some(&(known, _)) = usage.collections.iter().find(is_known) else { return false };
        let con = match types.con_of(known) {
            Some(con @ Con::Array) => {
                self.out.overloads.insert(usage.mention, self.resolved.overloads[&usage.list]);
                con
            }
            Some(con @ Con::Data(LIST)) => {
                self.out.overloads.insert(usage.mention, usage.list);
                con
            }
            _ => {
                if !types.is_error(known) {
                    let found = types.describe(known);
                    let message = format!("`{}` works on lists and arrays, found {found}", self.overload_name(usage));
                    let error = Diagnostic::error(self.ast.exprs[usage.mention].span, message);
                    self.sink.push(self.with_signature(error, usage.mention));
                }
                self.give_up(usage);
                return true;
            }
        };
        for &(collection, element) in &usage.collections {
            let wanted = self.out.types.con(con, vec![element]);
            let span = self.ast.exprs[usage.mention].span;
            let why = Why::Collection(usage.mention);
            self.unify_at(span, wanted, collection, why);
        }
        true
    }

    fn overload_name(&self, usage: &Overloaded) -> &str {
        self.names.text(self.ast.defs[usage.list].name)
    }

    /// Whatever else is unknown about these collections was said with what was reported.
    fn give_up(&mut self, usage: &Overloaded) {
        let unknown = self.out.types.error;
        for &(collection, element) in &usage.collections {
            for ty in [collection, element] {
                if is_open(&self.out.types, ty) {
                    self.out.types.unify(ty, unknown).expect("the error type goes with everything");
                }
            }
        }
    }

    /// Sees to it that what is not told apart is not generic in the functions, opened at a time, that mention it: all
    /// but the first few mentions.
    pub(super) fn keep_overloads(&mut self, first: usize, opened: u32) {
        let kept: Vec<(Ty, Ty)> =
            self.overloads.iter().skip(first).flat_map(|usage| usage.collections.iter().copied()).collect();
        for (collection, element) in kept {
            self.out.types.make_older(collection, opened);
            self.out.types.make_older(element, opened);
        }
    }

    /// At the end of a definition, every mention must be told apart.
    pub(super) fn refuse_unknown_collections(&mut self) {
        for usage in std::mem::take(&mut self.overloads) {
            let name = self.overload_name(&usage).to_owned();
            let message = format!("`{name}` works on lists and arrays, and which of them is not known here");
            let error = Diagnostic::error(self.ast.exprs[usage.mention].span, message);
            let help = format!("say which type it has, for example `(xs : Array Real)`, or write `{name}_array`");
            self.sink.push(error.help(help));
            self.give_up(&usage);
        }
    }
}

fn is_open(types: &Types, ty: Ty) -> bool {
    matches!(types.node(ty), Node::Var { class: Class::Any | Class::Data | Class::Equal, .. })
}
