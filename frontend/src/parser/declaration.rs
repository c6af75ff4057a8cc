//! Declarations: definitions, data types and abbreviations.

use super::{Abandoned, Parse, Parser};
use crate::arena::Id;
use crate::ast::{
    Alias, Constructor, ConstructorId, Data, Def, ExprId, ExprKind, PatternKind, TypeExprId, TypeExprKind,
};
use crate::diagnostics::Diagnostic;
use crate::imports::is_name;
use crate::names::Name;
use crate::source::Span;
use crate::token::TokenKind;

impl Parser<'_> {
    pub(super) fn def(&mut self) {
        self.advance();
        let Ok((name, name_span)) = self.lower_name("the name of the definition") else {
            return self.skip_to_declaration();
        };
        self.check_binding(name, name_span);
        let is_private = self.is_private;
        let (params, body) = (Vec::new(), ExprId::from_index(0));
        let mut def = Def { name, name_span, is_private, params, result: None, body, has_trace: false };
        self.depth = 0;
        self.has_trace = false;
        self.start = self.ast.exprs.len();
        def.body = match self.def_rest(&mut def) {
            Ok(body) => body,
            Err(Abandoned) => {
                self.skip_to_declaration();
                self.ast.expr(ExprKind::Error, name_span)
            }
        };
        def.has_trace = self.has_trace;
        self.ast.defs.push(def);
    }

    fn def_rest(&mut self, def: &mut Def) -> Parse<ExprId> {
        while self.starts_pattern() {
            let param = self.pattern_atom()?;
            def.params.push(param);
        }
        def.result = self.result()?;
        let body = self.expr()?;
        self.end_of_declaration("an operator or the next definition")?;
        if def.params.is_empty()
            && def.result.is_none()
            && let ExprKind::Lambda(params, inner) = &self.ast.exprs[body].kind
        {
            // A definition that is a function may be written either way.
            def.params.clone_from(params);
            return Ok(*inner);
        }
        Ok(body)
    }

    /// `: T =` or `=`, after the parameters of a function.
    pub(super) fn result(&mut self) -> Parse<Option<TypeExprId>> {
        if !self.eat(TokenKind::Colon) {
            self.expect(TokenKind::Equals, "a parameter, `:` or `=`")?;
            return Ok(None);
        }
        if !self.starts_type_atom() && self.peek() != TokenKind::LeftBracket {
            return self.unexpected("the type of the result", None);
        }
        let ty = self.type_expr()?;
        self.expect(TokenKind::Equals, "`->` or `=`")?;
        Ok(Some(ty))
    }

    /// `import host "name" : A -> B`, or `import host "any name" as name : A -> B`: a definition that this file alone
    /// sees, with the body of a function of the host's or of another module.
    pub(super) fn host_import(&mut self) {
        self.advance();
        self.advance();
        self.depth = 0;
        self.start = self.ast.exprs.len();
        match self.host_import_rest() {
            Ok(def) => _ = self.ast.defs.push(def),
            Err(Abandoned) => self.skip_to_declaration(),
        }
    }

    fn host_import_rest(&mut self) -> Parse<Def> {
        let text_span = self.span();
        let TokenKind::Text(text) = self.advance().kind else { unreachable!("it is looked at before") };
        let is_as = matches!(self.peek(), TokenKind::Lower(word) if self.names.text(word) == "as");
        let (name, name_span) = match is_as {
            true => {
                self.advance();
                self.lower_name("the name of the function in the program")?
            }
            false if is_name(self.names.text(text)) => (text, text_span),
            false => {
                let text = self.names.text(text);
                let error = Diagnostic::error(text_span, format!("`{text}` can't be the name of a function"));
                return self.fail(error.help(format!("give it one: `import host \"{text}\" as f : ..`")));
            }
        };
        self.check_binding(name, name_span);
        self.expect(TokenKind::Colon, if is_as { "`:`" } else { "`as` or `:`" })?;
        let ty = self.type_expr()?;
        self.end_of_declaration("`->` or the next declaration")?;
        self.check_fixed(ty)?;
        let (params, result) = match &self.ast.types[ty].kind {
            TypeExprKind::Function(types) => {
                let types = types.clone();
                let (&result, params) = types.split_last().expect("there is a result");
                let params = params.iter().map(|&param| {
                    let span = self.ast.types[param].span;
                    let any = self.make_pattern(PatternKind::Wildcard, span)?;
                    self.make_pattern(PatternKind::Ascribe(any, param), span)
                });
                (params.collect::<Parse<Vec<_>>>()?, result)
            }
            _ => (Vec::new(), ty),
        };
        let body = self.make(ExprKind::Imported(text), text_span)?;
        let is_private = !self.is_interface;
        Ok(Def { name, name_span, is_private, params, result: Some(result), body, has_trace: false })
    }

    /// Checks that a type has no variables.
    fn check_fixed(&mut self, ty: TypeExprId) -> Parse<()> {
        let mut pending = vec![ty];
        while let Some(ty) = pending.pop() {
            let node = &self.ast.types[ty];
            if let TypeExprKind::Var(name) | TypeExprKind::Collection(name, _) = node.kind {
                let name = self.names.text(name);
                let error = Diagnostic::error(node.span, format!("`{name}` stands for any type"));
                let error = error.label("a function of the host's has one type");
                return self.fail(error.help("import it once for each type that it is used at"));
            }
            node.kind.for_each_child(|part| pending.push(part));
        }
        Ok(())
    }

    fn end_of_declaration(&mut self, expected: &str) -> Parse<()> {
        if self.starts_declaration() { Ok(()) } else { self.unexpected(expected, None) }
    }

    /// `type Name a = C A B | D { x : A }`.
    pub(super) fn data(&mut self) {
        self.advance();
        self.depth = 0;
        let known = self.ast.constructors.len();
        if self.data_rest().is_err() {
            // A constructor of a type that is not there would be reported again and again.
            while self.ast.constructors.len() > known {
                self.ast.constructors.pop();
            }
            self.incomplete = true;
            self.skip_to_declaration();
        }
    }

    fn data_rest(&mut self) -> Parse<()> {
        let (name, name_span, params) = self.type_head()?;
        let data = self.ast.datas.next_id();
        let mut constructors = Vec::new();
        self.eat(TokenKind::Bar);
        loop {
            let index = constructors.len() as u32;
            let (name, name_span) = self.upper_name("the name of a constructor", "constructors")?;
            if let TokenKind::Lower(of) = self.peek()
                && self.names.text(of) == "of"
                && params.iter().all(|&(param, _)| param != of)
            {
                let field = match self.peek_next() {
                    TokenKind::Upper(field) => self.names.text(field),
                    _ => "..",
                };
                let help = format!("fields follow their constructor: `{} {field}`", self.names.text(name));
                return self.unexpected("the type of a field, `|` or the next definition", Some(&help));
            }
            let (fields, field_names) = self.constructor_fields()?;
            let constructor = Constructor { name, name_span, data, index, fields, field_names };
            constructors.push(self.ast.constructors.push(constructor));
            if !self.eat(TokenKind::Bar) {
                break;
            }
        }
        self.end_of_declaration("the type of a field, `|` or the next definition")?;
        let is_private = self.is_private;
        self.ast.datas.push(Data { name, name_span, is_private, params, constructors });
        Ok(())
    }

    /// Types side by side, or one record, which gives the fields names.
    #[expect(clippy::type_complexity, reason = "the two parts of a constructor, used once")]
    fn constructor_fields(&mut self) -> Parse<(Vec<TypeExprId>, Option<Vec<(Name, Span)>>)> {
        let mut fields = Vec::new();
        while self.starts_type_atom() {
            fields.push(self.type_atom()?);
        }
        if let [single] = fields[..]
            && let TypeExprKind::Record(named) = &self.ast.types[single].kind
        {
            let names = named.iter().map(|field| (field.name, field.name_span)).collect();
            return Ok((named.iter().map(|field| field.ty).collect(), Some(names)));
        }
        Ok((fields, None))
    }

    /// `alias Name a = T`.
    pub(super) fn alias(&mut self) {
        self.advance();
        self.depth = 0;
        if self.alias_rest().is_err() {
            self.incomplete = true;
            self.skip_to_declaration();
        }
    }

    fn alias_rest(&mut self) -> Parse<()> {
        let (name, name_span, params) = self.type_head()?;
        let ty = self.type_expr()?;
        if self.peek() == TokenKind::Bar {
            let error = self.unexpected_error("the next definition");
            return self.fail(error.help("a type with several constructors is declared with `type`"));
        }
        self.end_of_declaration("the next definition")?;
        let is_private = self.is_private;
        self.ast.aliases.push(Alias { name, name_span, is_private, params, ty });
        Ok(())
    }

    /// `Name a b =`.
    #[expect(clippy::type_complexity, reason = "the parts of a declaration's head, used twice")]
    fn type_head(&mut self) -> Parse<(Name, Span, Vec<(Name, Span)>)> {
        let (name, name_span) = self.upper_name("the name of the type", "types")?;
        let mut params = Vec::new();
        while let TokenKind::Lower(param) = self.peek() {
            params.push((param, self.advance().span));
        }
        self.expect(TokenKind::Equals, "a parameter or `=`")?;
        Ok((name, name_span, params))
    }

    fn upper_name(&mut self, expected: &str, what: &str) -> Parse<(Name, Span)> {
        match self.peek() {
            TokenKind::Upper(name) if !self.names.text(name).contains('.') => Ok((name, self.advance().span)),
            TokenKind::Lower(name) => {
                let help = format!("names of {what} start with a capital letter, unlike `{}`", self.names.text(name));
                self.unexpected(expected, Some(&help))
            }
            _ => self.unexpected(expected, None),
        }
    }

    /// Whether a value needs no evaluation, so that a name for it may be polymorphic.
    pub(super) fn is_ready(&self, value: ExprId) -> bool {
        match &self.ast.exprs[value].kind {
            ExprKind::Lambda(..) | ExprKind::Operator(_) | ExprKind::Constructor(_) => true,
            ExprKind::List(parts) => parts.is_empty(),
            _ => false,
        }
    }

    /// The name that a pattern is, if it is one.
    pub(super) fn plain_name(&self, pattern: crate::ast::PatternId) -> Option<(Name, Span)> {
        let node = &self.ast.patterns[pattern];
        match node.kind {
            PatternKind::Var(name) => Some((name, node.span)),
            _ => None,
        }
    }
}

/// `List a`, which nobody declares: `type List a = [] | a :: List a`.
pub(super) fn declare_lists(ast: &mut crate::ast::Ast, names: &mut crate::names::Names) {
    let nowhere = Span::default();
    let (list, a) = (names.intern("List"), names.intern("a"));
    let head = ast.type_expr(TypeExprKind::Var(a), nowhere);
    let tail = ast.type_expr(TypeExprKind::Named(list, vec![head]), nowhere);
    let data = ast.datas.next_id();
    let mut constructor = |text, index, fields| {
        let name = names.intern(text);
        ast.constructors.push(Constructor { name, name_span: nowhere, data, index, fields, field_names: None })
    };
    let constructors: Vec<ConstructorId> = vec![constructor("[]", 0, vec![]), constructor("::", 1, vec![head, tail])];
    let params = vec![(a, nowhere)];
    ast.datas.push(Data { name: list, name_span: nowhere, is_private: false, params, constructors });
    debug_assert_eq!(data, crate::ast::LIST);
    debug_assert_eq!(ast.datas[data].constructors, [crate::ast::NIL, crate::ast::CONS]);
}
