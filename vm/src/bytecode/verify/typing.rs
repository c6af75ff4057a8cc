//! Typing rules of single instructions, beyond what operand roles say.
//!
//! By the time an instruction comes here, its registers are in range and the functions that it names exist. Whoever
//! adds a structural instruction to the table is led here by the compiler: the `match` has no wildcard.

use super::{Fault, Report, Rule, limits, name, once, operators, type_of};
use crate::bytecode::isa::{Op, Operand, Reg, Structural};
use crate::bytecode::module::{Function, TypeDef, TypeId, ValueType, VariantDef};

/// Checks one instruction's operands against each other, the function and the module.
pub(super) fn check(function: &Function, op: Op, operands: &[Operand], report: &Report) -> Result<(), Fault> {
    let Some(structural) = op.structural() else { return Ok(()) };
    let view = View { function, operands, report };
    match structural {
        // Roles say everything.
        Structural::Mov | Structural::IMov | Structural::Const | Structural::IConst => Ok(()),
        // What a fork asks of the instructions after it is in `forks`.
        Structural::Fork => Ok(()),
        Structural::Jump | Structural::Branch | Structural::Switch | Structural::Trap => Ok(()),

        Structural::TrapWith | Structural::Trace => view.shown(),

        Structural::PMov => view.same_type(0, 1),
        Structural::PDetach => view.detached(),
        Structural::PSelect => view.same_type(0, 2).and_then(|()| view.same_type(0, 3)),

        Structural::Call | Structural::Task => {
            let callee = view.callee(0);
            view.list(Rule::Arguments, 1, &callee.params)?;
            view.list(Rule::Results, 2, &callee.results)?;
            if op == Op::Task { view.no_builder(callee) } else { Ok(()) }
        }
        Structural::ParallelMap => view.parallel_map(),
        Structural::Jvp | Structural::Vjp | Structural::Primal => view.operator(op),
        Structural::CustomVjp | Structural::CustomJvp => view.custom(op),
        Structural::Checkpoint => view.checkpoint(),
        Structural::Once => {
            let callee = view.callee(0);
            view.list(Rule::Results, 1, &callee.results)?;
            once::check(callee, report)
        }
        Structural::CallImport => {
            // One with errors of its own was reported.
            let Some([params, results]) = view.import(0) else { return Ok(()) };
            view.list(Rule::Arguments, 1, params)?;
            view.list(Rule::Results, 2, results)
        }
        Structural::TailCall => {
            let callee = view.callee(0);
            view.list(Rule::Arguments, 1, &callee.params)?;
            view.tail_results(&callee.results)
        }
        Structural::CallClosure => {
            let (params, results) = view.closure(0)?;
            view.list(Rule::Arguments, 1, params)?;
            view.list(Rule::Results, 2, results)
        }
        Structural::TailCallClosure => {
            let (params, results) = view.closure(0)?;
            view.list(Rule::Arguments, 1, params)?;
            view.tail_results(results)
        }
        Structural::Ret => view.list(Rule::Results, 0, &function.results),

        Structural::StructNew => view.list(Rule::Parts, 1, view.fields(0)?),
        Structural::Field | Structural::IField | Structural::PField => view.part(0, view.fields(1)?, 2),
        Structural::VariantNew => view.list(Rule::Parts, 2, view.payload(0, 1)?),
        Structural::VariantTag => view.variants(1).map(|_| ()),
        Structural::Payload | Structural::IPayload | Structural::PPayload => view.part(0, view.payload(1, 2)?, 3),
        Structural::ClosureNew => view.closure_new(),

        Structural::Len => view.array(1).map(|_| ()),
        Structural::SameLen => view.array(0).and_then(|_| view.array(1)).map(|_| ()),
        Structural::SameShape => view.shaped(0).and_then(|ty| view.has_type(1, ty)),
        Structural::Elem | Structural::IElem | Structural::PElem => view.has_type(0, view.array(1)?),
        Structural::Row => view.array(1).and_then(|_| view.width(3)),
        Structural::Pack => {
            let element = view.array(0)?;
            let elements = view.regs(1);
            view.list(Rule::Parts, 1, &vec![element; elements.len()])
        }
        Structural::Build => view.builder(0).map(|_| ()),
        Structural::Push | Structural::IPush | Structural::PPush => view.has_type(1, view.builder(0)?),
        Structural::Finish => view.same_elements(0, 1),
        Structural::Extend => view.same_elements(1, 0),
        Structural::Get | Structural::IGet | Structural::PGet => view.has_type(0, view.builder(1)?),
        Structural::Put | Structural::IPut | Structural::PPut => view.has_type(2, view.builder(0)?),
        Structural::Reserve => view.builder(1).and_then(|_| view.same_type(0, 1)),
        Structural::ChainNew => view.chain(0).map(|_| ()),
        Structural::ChainPush => {
            let variant = view.chain(1)?;
            view.same_type(0, 1)?;
            view.list(Rule::Parts, 3, view.open_fields(variant, 2)?)
        }
        Structural::ChainFinish => {
            let variant = ValueType::Ref(view.chain(1)?);
            view.has_type(0, variant)?;
            view.has_type(2, variant)
        }
    }
}

/// An instruction with what its operands refer to. Operands are named by position.
struct View<'a> {
    function: &'a Function,
    operands: &'a [Operand],
    report: &'a Report<'a>,
}

impl<'a> View<'a> {
    fn reg(&self, at: usize) -> Reg {
        match self.operands[at] {
            Operand::Def(reg) | Operand::Use(reg) => reg,
            _ => unreachable!("the table says that operand {at} is a register"),
        }
    }

    fn regs(&self, at: usize) -> &'a [Reg] {
        match &self.operands[at] {
            Operand::Defs(list) | Operand::Uses(list) => list,
            _ => unreachable!("the table says that operand {at} is a list of registers"),
        }
    }

    fn number(&self, at: usize) -> usize {
        match self.operands[at] {
            Operand::Field(number) | Operand::Tag(number) | Operand::Count(number) => usize::from(number),
            _ => unreachable!("the table says that operand {at} is a field, a tag or a count"),
        }
    }

    /// Checks how many elements a row has.
    fn width(&self, at: usize) -> Result<(), Fault> {
        match self.operands[at] {
            Operand::Int(width) if (1..=limits::ROW_WIDTH_MAX as i64).contains(&width) => Ok(()),
            Operand::Int(width) => {
                let expected = format!("1 to {} elements in a row", limits::ROW_WIDTH_MAX);
                Err(Fault::new(Rule::RowWidth, expected, width.to_string()))
            }
            _ => unreachable!("the table says that operand {at} is an integer"),
        }
    }

    fn callee(&self, at: usize) -> &'a Function {
        match self.operands[at] {
            Operand::Func(func) => &self.report.module.functions[func as usize],
            _ => unreachable!("the table says that operand {at} is a function"),
        }
    }

    /// What an import takes and gives, unless something is wrong with it.
    fn import(&self, at: usize) -> Option<&'a [Vec<ValueType>; 2]> {
        match self.operands[at] {
            Operand::Import(import) => self.report.imports[import as usize].as_ref(),
            _ => unreachable!("the table says that operand {at} is an import"),
        }
    }

    fn ty(&self, at: usize) -> ValueType {
        type_of(self.function, self.reg(at))
    }

    /// The heap type of a reference operand.
    fn heap_type(&self, at: usize) -> (TypeId, &'a TypeDef) {
        let ValueType::Ref(id) = self.ty(at) else {
            unreachable!("the table says that operand {at} is a reference");
        };
        (id, &self.report.module.types[id.index()])
    }

    fn wrong_kind<T>(&self, at: usize, expected: &str) -> Result<T, Fault> {
        let (id, def) = self.heap_type(at);
        let kind = match def {
            TypeDef::Struct(_) | TypeDef::Shaped(_) => "a struct",
            TypeDef::Variant(_) => "a variant",
            TypeDef::Array(_) => "an array",
            TypeDef::Builder(_) => "a builder",
            TypeDef::Chain(_) => "a chain",
            TypeDef::Closure { .. } => "a closure",
        };
        let found = format!("{kind} (t{})", id.0);
        Err(Fault::new(Rule::ObjectKind, format!("{expected} in {}", self.reg(at)), found))
    }

    fn fields(&self, at: usize) -> Result<&'a [ValueType], Fault> {
        match self.heap_type(at).1 {
            TypeDef::Struct(fields) | TypeDef::Shaped(fields) => Ok(fields),
            _ => self.wrong_kind(at, "a struct"),
        }
    }

    fn variants(&self, at: usize) -> Result<&'a [VariantDef], Fault> {
        match self.heap_type(at).1 {
            TypeDef::Variant(variants) => Ok(variants),
            _ => self.wrong_kind(at, "a variant"),
        }
    }

    /// The fields of a variant of the object in operand `at`; operand `tag` says which.
    fn payload(&self, at: usize, tag: usize) -> Result<&'a [ValueType], Fault> {
        self.fields_of_tag(self.variants(at)?, tag)
    }

    fn fields_of_tag(&self, variants: &'a [VariantDef], tag: usize) -> Result<&'a [ValueType], Fault> {
        let tag = self.number(tag);
        match variants.get(tag) {
            Some(variant) => Ok(&variant.fields),
            None => Err(Fault::new(Rule::TagBounds, format!("a tag below {}", variants.len()), tag.to_string())),
        }
    }

    fn array(&self, at: usize) -> Result<ValueType, Fault> {
        match self.heap_type(at).1 {
            TypeDef::Array(element) => Ok(*element),
            _ => self.wrong_kind(at, "an array"),
        }
    }

    fn shaped(&self, at: usize) -> Result<ValueType, Fault> {
        match self.heap_type(at) {
            (id, TypeDef::Shaped(_)) => Ok(ValueType::Ref(id)),
            _ => self.wrong_kind(at, "a shaped type"),
        }
    }

    fn builder(&self, at: usize) -> Result<ValueType, Fault> {
        match self.heap_type(at).1 {
            TypeDef::Builder(element) => Ok(*element),
            _ => self.wrong_kind(at, "a builder"),
        }
    }

    /// An array and a builder are of the same elements.
    fn same_elements(&self, array: usize, builder: usize) -> Result<(), Fault> {
        let (array, builder) = (self.array(array)?, self.builder(builder)?);
        if array == builder {
            return Ok(());
        }
        let expected = format!("an array of {}", name(builder));
        Err(Fault::new(Rule::SameType, expected, format!("an array of {}", name(array))))
    }

    /// The variant type that a chain is of.
    fn chain(&self, at: usize) -> Result<TypeId, Fault> {
        match self.heap_type(at).1 {
            TypeDef::Chain(variant) => Ok(*variant),
            _ => self.wrong_kind(at, "a chain"),
        }
    }

    /// The fields of an object that a chain is continued by, without the last one, which leads to the next object;
    /// operand `tag` says which variant it is.
    fn open_fields(&self, variant: TypeId, tag: usize) -> Result<&'a [ValueType], Fault> {
        let Some(TypeDef::Variant(variants)) = self.report.type_def(variant) else {
            return Err(Fault::new(Rule::ChainType, "a chain of a variant type", format!("one of t{}", variant.0)));
        };
        let link = ValueType::Ref(variant);
        match self.fields_of_tag(variants, tag)? {
            [fields @ .., last] if *last == link => Ok(fields),
            fields => {
                let expected = format!("a variant whose last field is {}", name(link));
                let found = fields.last().map_or("one without fields".into(), |&last| name(last));
                Err(Fault::new(Rule::ChainLink, expected, found))
            }
        }
    }

    /// Parameters and results of a closure.
    fn closure(&self, at: usize) -> Result<(&'a [ValueType], &'a [ValueType]), Fault> {
        match self.heap_type(at).1 {
            TypeDef::Closure { params, results } => Ok((params, results)),
            _ => self.wrong_kind(at, "a closure"),
        }
    }

    /// The register in operand `at` has this type, which is that of a field or an element.
    fn has_type(&self, at: usize, expected: ValueType) -> Result<(), Fault> {
        let found = self.ty(at);
        if found == expected {
            return Ok(());
        }
        Err(Fault::new(Rule::PartType, name(expected), format!("{} in {}", name(found), self.reg(at))))
    }

    /// The register in operand `at` has the type of the field that operand `index` names.
    fn part(&self, at: usize, fields: &[ValueType], index: usize) -> Result<(), Fault> {
        let index = self.number(index);
        match fields.get(index) {
            Some(&field) => self.has_type(at, field),
            None => Err(Fault::new(Rule::FieldBounds, format!("a field below {}", fields.len()), index.to_string())),
        }
    }

    fn same_type(&self, left: usize, right: usize) -> Result<(), Fault> {
        let (expected, found) = (self.ty(left), self.ty(right));
        if expected == found {
            return Ok(());
        }
        let (left, right) = (self.reg(left), self.reg(right));
        let expected = format!("{} as in {left}", name(expected));
        Err(Fault::new(Rule::SameType, expected, format!("{} in {right}", name(found))))
    }

    /// The registers in the list at operand `at` have these types.
    fn list(&self, rule: Rule, at: usize, expected: &[ValueType]) -> Result<(), Fault> {
        let regs = self.regs(at);
        if regs.len() != expected.len() {
            return Err(Fault::new(rule, format!("{} registers", expected.len()), regs.len().to_string()));
        }
        for (position, (&reg, &expected)) in regs.iter().zip(expected).enumerate() {
            let found = type_of(self.function, reg);
            if found != expected {
                let expected = format!("{} at position {position}", name(expected));
                return Err(Fault::new(rule, expected, format!("{} in {reg}", name(found))));
            }
        }
        Ok(())
    }

    /// The registers that a template takes. One with errors of its own was reported.
    fn shown(&self) -> Result<(), Fault> {
        let Operand::Template(template) = self.operands[0] else { return Ok(()) };
        let taken = self.report.shown.get(template as usize).and_then(Option::as_ref);
        taken.map_or(Ok(()), |taken| self.list(Rule::Shown, 1, taken))
    }

    fn tail_results(&self, results: &[ValueType]) -> Result<(), Fault> {
        self.same_list(Rule::TailResults, "results", &self.function.results, results)
    }

    fn same_list(&self, rule: Rule, what: &str, expected: &[ValueType], found: &[ValueType]) -> Result<(), Fault> {
        if expected.len() != found.len() {
            return Err(Fault::new(rule, format!("{} {what}", expected.len()), found.len().to_string()));
        }
        match (0..expected.len()).find(|&i| expected[i] != found[i]) {
            None => Ok(()),
            Some(i) => {
                let wanted = format!("{} at position {i} of {what}", name(expected[i]));
                Err(Fault::new(rule, wanted, name(found[i])))
            }
        }
    }

    /// The function is called once for each range: with its start, its end and the arguments.
    fn parallel_map(&self) -> Result<(), Fault> {
        let (array, callee) = (self.ty(0), self.callee(1));
        self.array(0)?;
        let [ValueType::Int, ValueType::Int, params @ ..] = &callee.params[..] else {
            let found = callee.params.iter().take(2).map(|&ty| name(ty)).collect::<Vec<_>>().join(", ");
            return Err(Fault::new(Rule::MapSignature, "parameters that begin with int, int", format!("({found})")));
        };
        self.same_list(Rule::MapSignature, "results", &[array], &callee.results)?;
        self.list(Rule::Arguments, 3, params)?;
        self.no_builder(callee)
    }

    /// A function that may run at the same time as others shares no builder with them.
    fn no_builder(&self, callee: &Function) -> Result<(), Fault> {
        let mut types = callee.params.iter().chain(&callee.results);
        match types.find(|&&ty| self.report.is_builder(ty)) {
            None => Ok(()),
            Some(&ty) => {
                let found = format!("{}, a builder", name(ty));
                Err(Fault::new(Rule::TaskBuilder, "no builder among parameters and results", found))
            }
        }
    }

    /// What is under construction can't be cut off from what it is going to be.
    fn detached(&self) -> Result<(), Fault> {
        self.same_type(0, 1)?;
        if self.report.is_builder(self.ty(1)) {
            let found = format!("{}, a builder, in {}", name(self.ty(1)), self.reg(1));
            return Err(Fault::new(Rule::DetachedBuilder, "an object that is complete", found));
        }
        Ok(())
    }

    /// A derivative of a call.
    fn operator(&self, op: Op) -> Result<(), Fault> {
        let callee = self.callee(0);
        let signature = operators::signature(op, callee, self.number(1), self.report)?;
        self.list(Rule::Arguments, 2, &signature.uses)?;
        self.list(Rule::Results, 3, &signature.defs)
    }

    /// A value with a derivative of its own.
    fn custom(&self, op: Op) -> Result<(), Fault> {
        let callee = self.callee(0);
        let types = |regs: &[Reg]| regs.iter().map(|&reg| type_of(self.function, reg)).collect::<Vec<_>>();
        let (uses, value) = (types(self.regs(2)), types(self.regs(3)));
        let (params, results) = operators::rule_signature(op, self.number(1), &uses, &value, self.report)?;
        operators::refuse_builders(callee, self.report)?;
        self.same_list(Rule::Arguments, "the value", &value, &uses[uses.len() - value.len()..])?;
        self.same_list(Rule::RuleSignature, "parameters", &params, &callee.params)?;
        self.same_list(Rule::RuleSignature, "results", &results, &callee.results)
    }

    /// A call that isn't recorded.
    fn checkpoint(&self) -> Result<(), Fault> {
        let callee = self.callee(0);
        operators::check_checkpoint(callee, self.report)?;
        self.list(Rule::Arguments, 1, &callee.params)?;
        self.list(Rule::Results, 2, &callee.results)
    }

    fn closure_new(&self) -> Result<(), Fault> {
        let (params, results) = self.closure(0)?;
        let (callee, captures) = (self.callee(1), self.regs(2));
        let mut expected: Vec<ValueType> = captures.iter().map(|&reg| type_of(self.function, reg)).collect();
        if let Some(at) = expected.iter().position(|&ty| self.report.is_builder(ty)) {
            let found = format!("{} of type {}, a builder", captures[at], name(expected[at]));
            return Err(Fault::new(Rule::BuilderPlace, "no builder among the captures", found));
        }
        if captures.len() > limits::FIELDS_MAX {
            let expected = format!("at most {} captures", limits::FIELDS_MAX);
            return Err(Fault::new(Rule::FieldCount, expected, captures.len().to_string()));
        }
        expected.extend_from_slice(params);
        self.same_list(Rule::ClosureSignature, "captures and parameters", &expected, &callee.params)?;
        self.same_list(Rule::ClosureSignature, "results", results, &callee.results)
    }
}
