//! Definitions of the prelude whose code depends on the kind of collection: `map` is `map_list` of lists and
//! `map_array` of arrays. They have one type, in which the kind is a variable like any other, and `by_kind` in place of
//! a body.

use super::{DefType, Infer, Why};
use crate::ast::ExprId;
use crate::types::{Class, Kind, Ty};
use std::collections::HashMap;

/// What a definition stands for.
#[derive(Clone, Debug)]
pub(crate) struct ByKind {
    /// The variable of its type that is the kind.
    pub(crate) kind: Ty,
    /// The name of the definition for each kind of which there are values, in the order of [`Kind::ALL`]: a use of it
    /// at that kind.
    pub(crate) uses: Vec<ExprId>,
}

impl Infer<'_> {
    /// `by_kind f_list f_array` as the body of the definition that is being inferred; its type.
    pub(super) fn by_kind(&mut self, uses: &[ExprId]) -> Ty {
        let def = self.group[0];
        let DefType { params, result, .. } = self.out.defs[def].clone();
        let types = &mut self.out.types;
        let whole = types.functions(&params, result);
        let kind = types.vars_in([whole], 0).0.into_iter().find(|&var| types.is_kind(var));
        let kind = kind.expect("the prelude says the types of what depends on a kind");
        types.require(kind, Class::Sequence).expect("it is open");
        for (&place, at) in uses.iter().zip(Kind::ALL) {
            let types = &mut self.out.types;
            let mut replaced = HashMap::from([(types.root(kind), types.kind(at))]);
            let wanted = types.instantiate(whole, &mut replaced);
            let found = self.infer(place);
            self.unify_expr(place, wanted, found, Why::Case);
        }
        self.out.by_kind.insert(def, ByKind { kind, uses: uses.to_vec() });
        result
    }
}
