//! Definitions of the prelude whose code depends on the kind of collection: `map` is `map_list` of lists and
//! `map_array` of arrays. They have one type, in which the kind is a variable like any other, and `by_kind` in place of
//! a body.

use super::{DefType, Infer, Why};
use crate::ast::{ExprId, ExprKind};
use crate::hash::HashMap;
use crate::types::{Class, Kind, Kinds, Ty};

/// What a definition stands for.
#[derive(Clone, Debug)]
pub(crate) struct ByKind {
    /// The variable of its type that is the kind.
    pub(crate) kind: Ty,
    /// For some kinds the name of a definition, which is a use of it at these kinds, and the variable that is the kind
    /// there, if there are several.
    pub(crate) uses: Vec<(Kinds, ExprId, Ty)>,
}

impl Infer<'_> {
    /// `by_kind { list = f_list, array = f_array, tensor = f_tensor }` as the body of the definition that is being
    /// inferred; its type. The kinds that are left out are none that it is for.
    pub(super) fn by_kind(&mut self, args: &[ExprId]) -> Ty {
        let (def, ast) = (self.group[0], self.ast);
        let ExprKind::Record(fields) = &ast.exprs[args[0]].kind else { unreachable!("the prelude names kinds") };
        let DefType { params, result, .. } = self.out.defs[def].clone();
        let types = &mut self.out.types;
        let whole = types.functions(&params, result);
        let kind = types.vars_in([whole], 0).0.into_iter().find(|&var| types.is_kind(var));
        let kind = kind.expect("the prelude says the types of what depends on a kind");
        let mut uses = Vec::new();
        for field in fields {
            let kinds = match self.names.text(field.name) {
                "list" => Kinds::LISTS,
                "array" => Kinds::VECTORS,
                "tensor" => Kinds::TENSORS,
                other => unreachable!("no kind is called `{other}`"),
            };
            let types = &mut self.out.types;
            let at = match Kind::ALL.into_iter().find(|&kind| kinds.has(kind)) {
                Some(only) if kinds != Kinds::TENSORS => types.kind(only),
                _ => types.var(Class::Kind(kinds)),
            };
            let wanted = types.instantiate(whole, &mut HashMap::from_iter([(types.root(kind), at)]));
            let found = self.infer(field.value);
            self.unify_expr(field.value, wanted, found, Why::Case);
            uses.push((kinds, field.value, at));
        }
        let all = uses.iter().map(|of_kind| of_kind.0).reduce(Kinds::with).expect("it is for some kind");
        self.out.types.require(kind, Class::Kind(all)).expect("it is open");
        self.out.by_kind.insert(def, ByKind { kind, uses });
        result
    }
}
