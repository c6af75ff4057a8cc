//! Giving names their meaning when the whole text is read.

use super::{Parsed, RawInst, Source, Stop, quote, split_numbered};
use crate::bytecode::isa::Operand;
use crate::bytecode::module::{FuncId, Function, ModuleDef};
use crate::bytecode::text::lex::{Kind, Token, unescape};
use crate::similar::similar;
use std::collections::HashMap;

/// A module whose instructions refer to names.
#[derive(Default)]
pub(super) struct Pending<'t> {
    /// Everything but functions. Where others than functions name these, they have indices into `names`.
    pub(super) module: ModuleDef,
    pub(super) functions: Vec<PendingFunction<'t>>,
    pub(super) names: Names<'t>,
}

/// A function before its instructions are packed.
pub(super) struct PendingFunction<'t> {
    /// Everything but code.
    pub(super) function: Function,
    pub(super) name_token: Token<'t>,
    /// Instructions whose targets, functions and messages are indices into `names`; `None` where one has an error.
    pub(super) code: Vec<Option<RawInst>>,
    pub(super) names: Names<'t>,
}

/// The names that a function's code uses.
#[derive(Default)]
pub(super) struct Names<'t> {
    pub(super) targets: Vec<Token<'t>>,
    pub(super) funcs: Vec<Token<'t>>,
    pub(super) messages: Vec<Token<'t>>,
    labels: HashMap<&'t str, u32>,
}

impl<'t> Names<'t> {
    /// Adds a name to one of the lists; gives its index.
    pub(super) fn add(list: &mut Vec<Token<'t>>, token: Token<'t>) -> u32 {
        list.push(token);
        list.len() as u32 - 1
    }

    /// Binds a label to an instruction.
    pub(super) fn bind(&mut self, label: Token<'t>, inst: u32, source: &mut Source) -> Parsed<()> {
        match self.labels.insert(label.text, inst) {
            None => Ok(()),
            Some(_) => {
                let message = format!("label {} stands twice in this function", quote(label.text));
                Err(source.fail_token(label, message, None))
            }
        }
    }
}

impl Pending<'_> {
    /// The module, as far as names have a meaning; the rest is reported.
    pub(super) fn resolve(self, source: &mut Source) -> ModuleDef {
        let Pending { mut module, functions, names } = self;
        let mut numbers = HashMap::new();
        for (index, pending) in functions.iter().enumerate() {
            numbers.entry(pending.function.name.clone()).or_insert(index as u32);
        }
        let mut messages = HashMap::new();
        for (index, message) in module.messages.iter().enumerate() {
            messages.entry(message.clone()).or_insert(index as u32);
        }
        let mut resolver = Resolver { source, numbers: &numbers, messages: &mut messages, module: &mut module };
        let funcs = resolver.all(&names.funcs, |resolver, token| resolver.func(token));
        for pending in functions {
            let function = resolver.function(pending);
            resolver.module.functions.push(function);
        }
        let named = |func: &mut FuncId| *func = FuncId(funcs[func.index()]);
        module.templates.iter_mut().filter_map(|template| template.func.as_mut()).for_each(named);
        module.traced.iter_mut().for_each(|(function, twin)| [function, twin].into_iter().for_each(named));
        module
    }
}

struct Resolver<'a, 't> {
    source: &'a mut Source<'t>,
    /// Functions by name.
    numbers: &'a HashMap<String, u32>,
    /// Messages by text.
    messages: &'a mut HashMap<String, u32>,
    module: &'a mut ModuleDef,
}

impl Resolver<'_, '_> {
    fn function(&mut self, pending: PendingFunction) -> Function {
        let PendingFunction { mut function, name_token, code, names } = pending;
        let targets = self.all(&names.targets, |resolver, token| resolver.target(token, &names));
        let funcs = self.all(&names.funcs, |resolver, token| resolver.func(token));
        let messages = self.all(&names.messages, |resolver, token| resolver.message(token));
        for (op, mut operands) in code.into_iter().flatten() {
            for operand in &mut operands {
                match operand {
                    Operand::Target(target) => *target = targets[*target as usize],
                    Operand::Targets(list) => list.iter_mut().for_each(|target| *target = targets[*target as usize]),
                    Operand::Func(func) => *func = funcs[*func as usize],
                    Operand::Message(message) => *message = messages[*message as usize],
                    _ => {}
                }
            }
            if let Err(error) = function.body.push(op, &operands) {
                self.source.fail_token(name_token, format!("this function can't be packed: {error}"), None);
                break;
            }
        }
        function
    }

    /// What each name means; 0 stands for those that are reported.
    fn all<'t>(
        &mut self,
        tokens: &[Token<'t>],
        mut meaning: impl FnMut(&mut Self, Token<'t>) -> Parsed<u32>,
    ) -> Vec<u32> {
        tokens.iter().map(|&token| meaning(self, token).unwrap_or(0)).collect()
    }

    fn target(&mut self, token: Token, names: &Names) -> Parsed<u32> {
        if let Some(&inst) = names.labels.get(token.text) {
            return Ok(inst);
        }
        if token.kind == Kind::Number {
            return token.text.parse().map_err(|_| Stop);
        }
        if self.source.is_full() {
            return Err(Stop);
        }
        let mut labels: Vec<&str> = names.labels.keys().copied().collect();
        labels.sort_unstable();
        let help = similar(token.text, labels).map(|label| format!("did you mean `{label}`?"));
        let message = format!("label {} is nowhere in this function", quote(token.text));
        Err(self.source.fail_token(token, message, help))
    }

    fn func(&mut self, token: Token) -> Parsed<u32> {
        if let Some(number) = split_numbered(token, 'f') {
            return Ok(number);
        }
        let name = self.string(token)?;
        if let Some(&number) = self.numbers.get(&name) {
            return Ok(number);
        }
        if self.source.is_full() {
            return Err(Stop);
        }
        let mut known: Vec<&str> = self.numbers.keys().map(String::as_str).collect();
        known.sort_unstable();
        let help = similar(&name, known).map(|name| format!("did you mean {name:?}?"));
        let message = format!("there is no function {}", quote(token.text));
        Err(self.source.fail_token(token, message, help))
    }

    fn message(&mut self, token: Token) -> Parsed<u32> {
        if let Some(number) = split_numbered(token, 'm') {
            return Ok(number);
        }
        let text = self.string(token)?;
        let next = self.module.messages.len() as u32;
        let number = *self.messages.entry(text.clone()).or_insert(next);
        if number == next {
            self.module.messages.push(text);
        }
        Ok(number)
    }

    fn string(&mut self, token: Token) -> Parsed<String> {
        unescape(token.text).map_err(|(start, end)| {
            let at = (token.at + start, token.at + end);
            self.source.fail(at, "this escape means nothing".into(), None)
        })
    }
}
