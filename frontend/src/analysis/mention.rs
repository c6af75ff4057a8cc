//! What stands at a place: its name and type, where it is declared, and what is said about it there.

use super::{Analysis, Tree, start_of};
use crate::arena::Id;
use crate::ast::{
    AliasId, ConstructorId, DataId, DefId, ExprId, ExprKind, LocalFunctionId, PatternId, PatternKind, TypeExprId,
};
use crate::resolve::{LocalId, Meaning, TypeMeaning};
use crate::source::Span;
use crate::types::Ty;

/// What is known of what stands at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Hover {
    /// What it is that stands there.
    pub span: Span,
    /// A name with its type, as in `area : Real -> Real`; the type alone of what has no name.
    pub text: String,
    /// The comment on the lines above the declaration.
    pub documentation: String,
}

/// Something in a text that has a meaning or a type.
#[derive(Clone, Copy, Debug)]
enum Mention {
    Expr(ExprId),
    Field(ExprId),
    Pattern(PatternId),
    Type(TypeExprId),
    Def(DefId),
    Function(LocalFunctionId),
    Constructor(ConstructorId),
    Data(DataId),
    Alias(AliasId),
    /// The import of this number in the main file, and what it selects, by its number.
    Import(usize, Option<usize>),
}

/// Where something is declared.
#[derive(Clone, Copy, Debug)]
enum Declared {
    Local(LocalId),
    Function(LocalFunctionId),
    Def(DefId),
    Constructor(ConstructorId),
    Data(DataId),
    Alias(AliasId),
    File(usize),
}

impl Analysis {
    /// What stands at a byte of the main file, or ends there.
    pub fn hover(&self, offset: u32) -> Option<Hover> {
        let tree = self.tree.as_ref()?;
        let (span, mention) = tree.mention_at(offset)?;
        let declared = tree.declared(mention);
        let text = crate::stack::on_callers_stack(|| self.described(tree, span, mention))?;
        let documentation = declared.and_then(|declared| self.commented(tree, declared));
        let documentation = documentation.map_or(String::new(), |name| super::documentation(&self.sources, name));
        Some(Hover { span, text, documentation })
    }

    /// Where what stands at a byte of the main file is declared, if that is in a file of the program, or of the
    /// language's library.
    pub fn definition(&self, offset: u32) -> Option<Span> {
        let tree = self.tree.as_ref()?;
        let (_, mention) = tree.mention_at(offset)?;
        let place = self.place(tree, tree.declared(mention)?)?;
        self.sources.contains(place).then_some(place)
    }

    fn described(&self, tree: &Tree, span: Span, mention: Mention) -> Option<String> {
        let Tree { ast, names, inferred, .. } = tree;
        let typed = |name, ty: Ty| match inferred.types.is_error(ty) {
            true => names.text(name).to_owned(),
            false => format!("{} : {}", names.text(name), inferred.types.show(ty)),
        };
        let function = |name, def: &crate::infer::DefType| {
            format!("{} : {}", names.text(name), inferred.types.show_function(&def.params, def.result))
        };
        Some(match mention {
            Mention::Expr(id) => match ast.exprs[id].kind {
                ExprKind::Var(name) | ExprKind::Constructor(name) => typed(name, inferred.exprs[id]),
                _ if inferred.types.is_error(inferred.exprs[id]) => return None,
                _ => inferred.types.show(inferred.exprs[id]),
            },
            Mention::Field(id) => {
                let ExprKind::Access(_, name, _) = ast.exprs[id].kind else { return None };
                typed(name, inferred.exprs[id])
            }
            Mention::Pattern(id) => match ast.patterns[id].kind {
                PatternKind::Var(name) | PatternKind::As(name, _) | PatternKind::Constructor(name, _) => {
                    typed(name, inferred.patterns[id])
                }
                _ if inferred.types.is_error(inferred.patterns[id]) => return None,
                _ => inferred.types.show(inferred.patterns[id]),
            },
            Mention::Def(id) => function(ast.defs[id].name, &inferred.defs[id]),
            Mention::Function(id) => function(ast.functions[id].name, &inferred.functions[id]),
            Mention::Constructor(id) => {
                let data = &inferred.datas[ast.constructors[id].data];
                let fields = &inferred.constructors[id];
                let head: Vec<String> = [names.text(ast.datas[ast.constructors[id].data].name).to_owned()]
                    .into_iter()
                    .chain(data.iter().map(|&param| inferred.types.show(param)))
                    .collect();
                let fields = fields.iter().map(|&field| format!("{} -> ", inferred.types.show(field)));
                format!("{} : {}{}", names.text(ast.constructors[id].name), fields.collect::<String>(), head.join(" "))
            }
            Mention::Type(_) | Mention::Data(_) | Mention::Alias(_) => match tree.declared(mention) {
                Some(declared) => self.line(self.place(tree, declared)?)?,
                // `Real` and the others that nobody declares.
                None => {
                    let (text, at) = super::text_at(&self.sources, span)?;
                    text.get(at..at + (span.end - span.start) as usize)?.to_owned()
                }
            },
            Mention::Import(number, None) => {
                let (import, target) = ast.files.first()?.imports.get(number)?;
                let file = self.sources.files().get(*target)?;
                format!("{} : {}", names.text(import.module), file.source.name())
            }
            Mention::Import(..) => match tree.declared(mention)? {
                Declared::Def(id) => function(ast.defs[id].name, &inferred.defs[id]),
                declared => self.line(self.place(tree, declared)?)?,
            },
        })
    }

    /// The line that a declaration begins with.
    fn line(&self, place: Span) -> Option<String> {
        let (text, at) = super::text_at(&self.sources, place)?;
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        Some(text[start..].lines().next()?.to_owned())
    }

    /// The name at a declaration.
    fn place(&self, tree: &Tree, declared: Declared) -> Option<Span> {
        let ast = &tree.ast;
        Some(match declared {
            Declared::Local(local) => {
                let (id, _) = ast.patterns.iter().find(|(id, _)| tree.resolved.bound[*id] == Some(local))?;
                tree.bound_name(id)
            }
            Declared::Function(id) => ast.functions[id].name_span,
            Declared::Def(id) => ast.defs[id].name_span,
            Declared::Constructor(id) if id == crate::ast::NIL || id == crate::ast::CONS => return None,
            Declared::Constructor(id) => ast.constructors[id].name_span,
            Declared::Data(id) if id == crate::ast::LIST => return None,
            Declared::Data(id) => ast.datas[id].name_span,
            Declared::Alias(id) => ast.aliases[id].name_span,
            Declared::File(number) => start_of(&self.sources, number)?,
        })
    }

    /// The name of the declaration whose comment says something about something.
    fn commented(&self, tree: &Tree, declared: Declared) -> Option<Span> {
        match declared {
            Declared::Local(_) | Declared::Function(_) | Declared::File(_) => None,
            Declared::Constructor(id) => self.place(tree, Declared::Data(tree.ast.constructors[id].data)),
            declared => self.place(tree, declared),
        }
    }
}

impl Tree {
    /// The smallest part of the main file's text with a meaning or a type that a byte is in, or directly after.
    fn mention_at(&self, offset: u32) -> Option<(Span, Mention)> {
        let ast = &self.ast;
        let end = ast.files.first()?.end;
        let mut best: Option<(Span, Mention)> = None;
        let mut look = |span: Span, mention: Mention| {
            let length = |span: Span| span.end - span.start;
            let is_here = span.start <= offset && offset <= span.end && length(span) > 0;
            // Of two side by side it is the one that begins here.
            let is_better = |best: Span| (length(span), best.start) < (length(best), span.start);
            if is_here && best.is_none_or(|(best, _)| is_better(best)) {
                best = Some((span, mention));
            }
        };
        for (id, expr) in ast.exprs.iter() {
            look(expr.span, Mention::Expr(id));
            if let ExprKind::Access(_, _, field) = expr.kind {
                look(field, Mention::Field(id));
            }
        }
        ast.patterns.ids().for_each(|id| look(self.bound_name(id), Mention::Pattern(id)));
        ast.types.iter().for_each(|(id, ty)| look(ty.span, Mention::Type(id)));
        ast.functions.iter().for_each(|(id, function)| look(function.name_span, Mention::Function(id)));
        ast.defs.iter().take(end.defs).for_each(|(id, def)| look(def.name_span, Mention::Def(id)));
        ast.aliases.iter().take(end.aliases).for_each(|(id, alias)| look(alias.name_span, Mention::Alias(id)));
        for (id, data) in ast.datas.iter().take(end.datas).skip(1) {
            look(data.name_span, Mention::Data(id));
            for &constructor in &data.constructors {
                look(ast.constructors[constructor].name_span, Mention::Constructor(constructor));
            }
        }
        for (number, (import, _)) in ast.files.first()?.imports.iter().enumerate() {
            look(import.target.1, Mention::Import(number, None));
            for (place, selected) in import.selected.iter().enumerate() {
                look(selected.span, Mention::Import(number, Some(place)));
            }
        }
        best
    }

    /// Where the name stands that a pattern begins with, or else all of it.
    fn bound_name(&self, pattern: PatternId) -> Span {
        let node = &self.ast.patterns[pattern];
        match node.kind {
            PatternKind::As(name, _) | PatternKind::Constructor(name, _) => {
                let length = self.names.text(name).len() as u32;
                Span::new(node.span.start, (node.span.start + length).min(node.span.end))
            }
            _ => node.span,
        }
    }

    fn declared(&self, mention: Mention) -> Option<Declared> {
        let constructor = |id: ConstructorId| Declared::Constructor(id);
        match mention {
            Mention::Expr(id) => match (&self.ast.exprs[id].kind, self.resolved.meanings[id]?) {
                (ExprKind::Var(_), Meaning::Local(local)) => Some(Declared::Local(local)),
                (ExprKind::Var(_), Meaning::Function(function)) => Some(Declared::Function(function)),
                (ExprKind::Var(_), Meaning::Def(def)) => Some(Declared::Def(def)),
                (ExprKind::Constructor(_), Meaning::Constructor(id)) => Some(constructor(id)),
                _ => None,
            },
            Mention::Field(_) => None,
            Mention::Pattern(id) => match self.resolved.bound[id] {
                Some(local) => Some(Declared::Local(local)),
                None => self.resolved.constructors[id].map(constructor),
            },
            Mention::Type(id) => match self.resolved.types[id]? {
                TypeMeaning::Data(data) => Some(Declared::Data(data)),
                TypeMeaning::Alias(alias) => Some(Declared::Alias(alias)),
                _ => None,
            },
            Mention::Def(id) => Some(Declared::Def(id)),
            Mention::Function(id) => Some(Declared::Function(id)),
            Mention::Constructor(id) => Some(constructor(id)),
            Mention::Data(id) => Some(Declared::Data(id)),
            Mention::Alias(id) => Some(Declared::Alias(id)),
            Mention::Import(number, selected) => {
                let (import, target) = self.ast.files.first()?.imports.get(number)?;
                let Some(selected) = selected.and_then(|place| import.selected.get(place)) else {
                    return Some(Declared::File(*target));
                };
                self.selected(*target, selected.name, selected.is_type)
            }
        }
    }

    /// What has a name in a file, as others import it.
    fn selected(&self, file: usize, name: crate::names::Name, is_type: bool) -> Option<Declared> {
        let (ast, [start, end]) = (&self.ast, self.counts(file)?);
        if !is_type {
            let mut defs = (start.defs..end.defs).map(DefId::from_index);
            return defs.find(|&id| ast.defs[id].name == name).map(Declared::Def);
        }
        let mut datas = (start.datas..end.datas).map(DataId::from_index);
        let data = datas.find(|&id| ast.datas[id].name == name).map(Declared::Data);
        let mut aliases = (start.aliases..end.aliases).map(AliasId::from_index);
        data.or_else(|| aliases.find(|&id| ast.aliases[id].name == name).map(Declared::Alias))
    }

    /// How much there is in the tables before and after a file's declarations.
    pub(super) fn counts(&self, file: usize) -> Option<[crate::ast::Counts; 2]> {
        let start = match file.checked_sub(1) {
            Some(before) => self.ast.files.get(before)?.end,
            None => crate::ast::Counts { datas: 1, ..Default::default() },
        };
        Some([start, self.ast.files.get(file)?.end])
    }
}
