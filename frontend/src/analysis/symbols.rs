//! What a file declares.

use super::{Analysis, Tree};
use crate::arena::Id;
use crate::ast::{AliasId, DataId, DefId};
use crate::source::Span;

/// A declaration.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// What it declares.
    pub kind: SymbolKind,
    /// The type of a definition; else empty.
    pub detail: String,
    /// Where its name stands.
    pub span: Span,
    /// From its name to its end.
    pub extent: Span,
    /// The constructors of a data type.
    pub inner: Vec<Symbol>,
}

/// What a declaration declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SymbolKind {
    /// A definition with parameters.
    Function,
    /// A definition without parameters.
    Constant,
    /// A data type.
    Type,
    /// A constructor of a data type.
    Constructor,
    /// An abbreviation of a type.
    Alias,
}

impl Analysis {
    /// The declarations of the main file, in the order of the text.
    pub fn symbols(&self) -> Vec<Symbol> {
        let Some(tree) = &self.tree else { return Vec::new() };
        crate::stack::on_callers_stack(|| tree.symbols())
    }
}

impl Tree {
    fn symbols(&self) -> Vec<Symbol> {
        let Tree { ast, names, inferred, .. } = self;
        let Some([start, end]) = self.counts(0) else { return Vec::new() };
        let text = |name| names.text(name).to_owned();
        let mut symbols = Vec::new();
        for id in (start.defs..end.defs).map(DefId::from_index) {
            let (def, ty) = (&ast.defs[id], &inferred.defs[id]);
            symbols.push(Symbol {
                name: text(def.name),
                kind: if def.params.is_empty() { SymbolKind::Constant } else { SymbolKind::Function },
                detail: inferred.types.show_function(&ty.params, ty.result),
                span: def.name_span,
                extent: def.name_span.to(ast.exprs[def.body].span),
                inner: Vec::new(),
            });
        }
        for data in (start.datas..end.datas).map(|index| &ast.datas[DataId::from_index(index)]) {
            let constructors = data.constructors.iter().map(|&id| {
                let constructor = &ast.constructors[id];
                let fields = constructor.fields.iter().map(|&field| ast.types[field].span);
                Symbol {
                    name: text(constructor.name),
                    kind: SymbolKind::Constructor,
                    detail: String::new(),
                    span: constructor.name_span,
                    extent: fields.fold(constructor.name_span, Span::to),
                    inner: Vec::new(),
                }
            });
            let inner: Vec<Symbol> = constructors.collect();
            symbols.push(Symbol {
                name: text(data.name),
                kind: SymbolKind::Type,
                detail: String::new(),
                span: data.name_span,
                extent: inner.iter().fold(data.name_span, |extent, symbol| extent.to(symbol.extent)),
                inner,
            });
        }
        for alias in (start.aliases..end.aliases).map(|index| &ast.aliases[AliasId::from_index(index)]) {
            symbols.push(Symbol {
                name: text(alias.name),
                kind: SymbolKind::Alias,
                detail: String::new(),
                span: alias.name_span,
                extent: alias.name_span.to(ast.types[alias.ty].span),
                inner: Vec::new(),
            });
        }
        symbols.sort_by_key(|symbol| symbol.span.start);
        symbols
    }
}
