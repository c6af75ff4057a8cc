//! Items of a module: types, data types, messages, templates, functions and their headers.

use super::resolve::{Names, Pending, PendingFunction};
use super::{Parsed, Parser, Stop, quote};
use crate::bytecode::module::{
    Body, DataDef, DataId, FuncId, Function, HostType, Import, InlinedCall, Interface, Location, Piece, Place,
    SourceFile, Template, TypeDef, TypeId, ValueType, VariantDef,
};
use crate::bytecode::text::lex::{Kind, Token};
use crate::bytecode::verify::limits;
use crate::similar::similar;

/// The words that start an item.
const ITEMS: [&str; 10] =
    ["module", "library", "inlined", "type", "data", "message", "template", "import", "traced", "func"];

impl<'t> Parser<'t> {
    /// Reads items up to the end of the text.
    pub(super) fn module(&mut self, pending: &mut Pending<'t>) {
        while self.peek().kind != Kind::End {
            if self.item(pending).is_err() {
                self.skip_to_item();
            }
        }
    }

    /// Skips to a word that starts an item at the start of a line.
    fn skip_to_item(&mut self) {
        while self.peek().kind != Kind::End && !self.at_item() {
            self.next += 1;
        }
    }

    fn at_item(&self) -> bool {
        let token = self.peek();
        token.starts_line && token.kind == Kind::Word && ITEMS.contains(&token.text) && !self.peek_second().is(":")
    }

    fn item(&mut self, pending: &mut Pending<'t>) -> Parsed<()> {
        let token = self.peek();
        match token.text {
            "module" | "library" => {
                self.next += 1;
                self.mark("source")?;
                let (name, is_library) = (self.string()?, token.text == "library");
                let digest = if self.peek().text.starts_with('"') { Some(self.digest()?) } else { None };
                pending.module.debug.sources.push(SourceFile { name, is_library, digest });
            }
            "inlined" => {
                self.next += 1;
                self.in_order('n', "inlined call", pending.module.debug.calls.len())?;
                let callee = self.string()?.into();
                self.mark("@")?;
                let (place, within) = self.place()?;
                pending.module.debug.calls.push(InlinedCall { callee, place, within });
            }
            "type" => {
                self.next += 1;
                self.in_order('t', "type", pending.module.types.len())?;
                self.mark("=")?;
                let def = self.type_def()?;
                pending.module.types.push(def);
            }
            "data" => {
                self.next += 1;
                self.in_order('d', "data type", pending.module.data.len())?;
                let def = self.data_def()?;
                pending.module.data.push(def);
            }
            "message" => {
                self.next += 1;
                self.in_order('m', "message", pending.module.messages.len())?;
                let message = self.string()?;
                pending.module.messages.push(message);
            }
            "template" => {
                self.next += 1;
                self.in_order('s', "template", pending.module.templates.len())?;
                let pieces = self.list("(", ")", Self::piece)?;
                // Functions are known when everything is read.
                let func = match self.take_if("by") {
                    true => Some(FuncId(self.func(&mut pending.names)?)),
                    false => None,
                };
                pending.module.templates.push(Template { pieces, func });
            }
            "import" => {
                self.next += 1;
                self.in_order('x', "import", pending.module.imports.len())?;
                let (name, interface) = (self.string()?, self.interface()?);
                pending.module.imports.push(Import { name, interface });
            }
            "traced" => {
                self.next += 1;
                let function = self.func(&mut pending.names)?;
                self.mark("by")?;
                let twin = self.func(&mut pending.names)?;
                pending.module.traced.push((FuncId(function), FuncId(twin)));
            }
            "func" => {
                self.next += 1;
                if self.peek().kind == Kind::Word {
                    self.in_order('f', "function", pending.functions.len())?;
                }
                self.function(pending)?;
            }
            word => {
                let help = similar(word, ITEMS).filter(|_| token.kind == Kind::Word);
                let message = format!(
                    "expected `module`, `library`, `inlined`, `type`, `data`, `message`, `template`, `import`, \
                     `traced` or `func`, found {}",
                    quote(word)
                );
                let help = help.map(|item| format!("did you mean `{item}`?"));
                return Err(self.source.fail_token(token, message, help));
            }
        }
        Ok(())
    }

    /// `"5feceb66…"`, the 32 bytes of a digest in hexadecimal.
    fn digest(&mut self) -> Parsed<[u8; 32]> {
        let token = self.peek();
        let text = self.string()?;
        let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
        let digest = bytes.filter(|_| text.len() == 64 && !text.contains('+')).and_then(|bytes| bytes.try_into().ok());
        let message = format!("expected a digest, found {}", quote(token.text));
        digest.ok_or_else(|| self.source.fail_token(token, message, Some("it has 64 hexadecimal digits".into())))
    }

    /// Reads the number of the item that is being declared: items are numbered as they stand.
    fn in_order(&mut self, letter: char, what: &str, index: usize) -> Parsed<()> {
        let token = self.peek();
        let number = self.numbered(letter, &format!("the number of a {what}"))?;
        if number as usize == index {
            return Ok(());
        }
        let message = format!("expected `{letter}{index}`, found {}", quote(token.text));
        let help = format!("each {what} has the number of its place among them");
        // The declaration itself is read on, so that its own errors show too.
        self.source.fail_token(token, message, Some(help));
        Ok(())
    }

    fn type_def(&mut self) -> Parsed<TypeDef> {
        let token = self.peek();
        self.next += 1;
        Ok(match token.text {
            "struct" => TypeDef::Struct(self.list("{", "}", Self::value_type)?),
            "shaped" => TypeDef::Shaped(self.list("{", "}", Self::value_type)?),
            "variant" => TypeDef::Variant(self.list("{", "}", |parser| {
                let name = parser.name("the name of a variant")?;
                Ok(VariantDef { name, fields: parser.list("{", "}", Self::value_type)? })
            })?),
            "array" => TypeDef::Array(self.value_type()?),
            "builder" => TypeDef::Builder(self.value_type()?),
            "chain" => TypeDef::Chain(TypeId(self.numbered('t', "the type of a chain's objects")?)),
            "closure" => {
                let params = self.list("(", ")", Self::value_type)?;
                self.mark("->")?;
                TypeDef::Closure { params, results: self.list("(", ")", Self::value_type)? }
            }
            _ => {
                self.next -= 1;
                return self.expected("`struct`, `shaped`, `variant`, `array`, `builder`, `chain` or `closure`");
            }
        })
    }

    /// `"Shape" t3 = Circle (Real) | Rect { width : Real, height : Real } | Point ()`
    fn data_def(&mut self) -> Parsed<DataDef> {
        let name = self.string()?;
        let ty = TypeId(self.numbered('t', "the heap type")?);
        let mut variants = Vec::new();
        let mut more = self.take_if("=");
        while more {
            variants.push((self.name("the name of a constructor")?, self.payload()?));
            more = self.take_if("|");
        }
        Ok(DataDef { name, ty, variants })
    }

    /// A host type, but that parentheses always mean a tuple.
    fn payload(&mut self) -> Parsed<HostType> {
        match self.peek().is("(") {
            true => self.list("(", ")", Self::host_type).map(HostType::Tuple),
            false => self.host_type(),
        }
    }

    /// A string, or the type of a value.
    fn piece(&mut self) -> Parsed<Piece> {
        match self.peek().kind {
            Kind::Quoted => self.string().map(Piece::Text),
            _ => self.host_type().map(Piece::Value),
        }
    }

    fn value_type(&mut self) -> Parsed<ValueType> {
        if self.take_if("real") {
            return Ok(ValueType::Real);
        }
        if self.take_if("int") {
            return Ok(ValueType::Int);
        }
        let id = self.numbered('t', "`real`, `int` or a type")?;
        Ok(ValueType::Ref(TypeId(id)))
    }

    fn function(&mut self, pending: &mut Pending<'t>) -> Parsed<()> {
        let name_token = self.peek();
        let name = self.string()?;
        let params = self.list("(", ")", Self::value_type)?;
        self.mark("->")?;
        let results = self.list("(", ")", Self::value_type)?;
        let function = Function { name, params, results, interface: None, body: Body::default() };
        // Known from here on, so that an error below doesn't make calls to it errors.
        let index = pending.functions.len();
        pending.functions.push(PendingFunction { function, ..PendingFunction::new(name_token) });
        let current = &mut pending.functions[index];
        if self.take_if("export") {
            current.function.interface = Some(self.interface()?);
        }
        if self.take_if("regs") {
            self.registers(&mut current.function.body)?;
        }
        self.mark("{")?;
        while !self.take_if("}") {
            if self.peek().kind == Kind::End || self.at_item() {
                return self.expected("`}`");
            }
            let before = self.next;
            if self.line(current).is_err() {
                // A line is skipped from its start, or from where the error is if that is a later one.
                self.next = self.next.max(before + 1);
                self.skip_line();
            }
        }
        Ok(())
    }

    /// `regs 4 real, 2 int, t1, t0`
    fn registers(&mut self, body: &mut Body) -> Parsed<()> {
        loop {
            if self.peek().kind == Kind::Number {
                let count = self.number("a number of registers", u32::MAX)?;
                if self.take_if("real") {
                    body.reals = count;
                } else if self.take_if("int") {
                    body.ints = count;
                } else {
                    return self.expected_in_line("`real` or `int`");
                }
            } else {
                let id = self.numbered('t', "a number of registers, or the type of one")?;
                body.refs.push(TypeId(id));
            }
            if !self.take_if(",") {
                return Ok(());
            }
        }
    }

    /// The rest of a place, and the call that it is within: `12:3`, or `1:12:3 in n4` in another source than the first.
    fn place(&mut self) -> Parsed<(Place, Option<u32>)> {
        let first = self.number("a line", u32::MAX)?;
        self.mark(":")?;
        let second = self.number("a column", u32::MAX)?;
        let (source, line, column) = match self.take_if(":") {
            true => (first, second, self.number("a column", u32::MAX)?),
            false => (0, first, second),
        };
        let call = match self.take_if("in") {
            true => Some(self.numbered('n', "the number of an inlined call")?),
            false => None,
        };
        Ok((Place { source, line, column }, call))
    }

    /// A location, a label or an instruction.
    fn line(&mut self, function: &mut PendingFunction<'t>) -> Parsed<()> {
        let token = self.peek();
        if self.take_if("@") {
            let (place, call) = self.place()?;
            let inst = function.code.len() as u32;
            function.function.body.locations.push(Location { inst, place, call });
            return Ok(());
        }
        if token.kind != Kind::Word {
            return self.expected("an instruction, a label or `}`");
        }
        if self.peek_second().is(":") {
            self.next += 2;
            return function.names.bind(token, function.code.len() as u32, &mut self.source);
        }
        // An instruction with an error keeps its place, so that labels after it are right.
        let inst = self.inst(&mut function.names);
        let result = inst.as_ref().map(|_| ()).map_err(|_| Stop);
        function.code.push(inst.ok());
        result
    }

    /// `(x : Real, n : Int) -> Real`
    fn interface(&mut self) -> Parsed<Interface> {
        let params = self.list("(", ")", |parser| parser.part("the name of a parameter"))?;
        self.mark("->")?;
        Ok(Interface { params, result: self.host_type()? })
    }

    fn part(&mut self, what: &str) -> Parsed<(String, HostType)> {
        let name = self.name(what)?;
        self.mark(":")?;
        Ok((name, self.host_type()?))
    }

    fn host_type(&mut self) -> Parsed<HostType> {
        // Arrays of arrays need a pair of parentheses for each level.
        if self.nesting >= 2 * limits::HOST_TYPE_DEPTH_MAX {
            return self.expected(&format!("a type of at most {} levels", limits::HOST_TYPE_DEPTH_MAX));
        }
        self.nesting += 1;
        let ty = self.host_type_inside();
        self.nesting -= 1;
        ty
    }

    fn host_type_inside(&mut self) -> Parsed<HostType> {
        if self.peek().is("(") {
            let start = self.next;
            let mut parts = self.list("(", ")", Self::host_type)?;
            let comma = self.next - start >= 2 && self.tokens[self.next - 2].is(",");
            return Ok(match parts.pop() {
                Some(only) if parts.is_empty() && !comma => only,
                last => {
                    parts.extend(last);
                    HostType::Tuple(parts)
                }
            });
        }
        if self.peek().is("{") {
            let parts = self.list("{", "}", |parser| parser.part("the name of a part"))?;
            return Ok(HostType::Record(parts));
        }
        if self.take_if("Real") {
            return Ok(HostType::Real);
        }
        if self.take_if("Int") {
            return Ok(HostType::Int);
        }
        if self.take_if("Bool") {
            return Ok(HostType::Bool);
        }
        if self.take_if("Array") {
            let element = Box::new(self.host_type()?);
            self.mark("@")?;
            let array = TypeId(self.numbered('t', "the array's type")?);
            return Ok(HostType::Array { element, array });
        }
        if self.take_if("List") {
            let element = Box::new(self.host_type()?);
            self.mark("@")?;
            let list = TypeId(self.numbered('t', "the list's type")?);
            return Ok(HostType::List { element, list });
        }
        if self.take_if("Tensor") {
            let slice = Box::new(self.host_type()?);
            self.mark("@")?;
            let tensor = TypeId(self.numbered('t', "the tensor's type")?);
            return Ok(HostType::Tensor { slice, tensor });
        }
        if self.take_if("Data") {
            let name = self.string()?;
            self.mark("@")?;
            let data = DataId(self.numbered('d', "the number of the data type")?);
            return Ok(HostType::Data { name, data });
        }
        self.expected("`Real`, `Int`, `Bool`, `Array`, `List`, `Tensor`, `Data`, a tuple or a record")
    }
}

impl<'t> PendingFunction<'t> {
    fn new(name_token: Token<'t>) -> Self {
        let function =
            Function { name: String::new(), params: vec![], results: vec![], interface: None, body: Body::default() };
        PendingFunction { function, name_token, code: Vec::new(), names: Names::default() }
    }
}
