//! The verifier: what makes a module safe to run.
//!
//! An engine that runs a verified module reads registers, fields and pools and follows jumps without checks of its
//! own. Each way to break that is a [`Rule`]; the rules, in the order in which they are checked:
//!
//! **Module.** Counts and strings are within [`limits`]; no two functions have one name.
//!
//! **Types.** A type refers to types of the module only. Builders are nowhere but in registers, parameters and
//! results of functions: not in fields, variants, elements, closure types or captures. So an object refers only to
//! objects that were complete before it, and the heap has no cycles.
//!
//! **Data types.** The heap type of a data type is a variant. Its constructors, whose names differ, are as many as the
//! variants; their payloads are tuples or records and flatten to the variants' fields.
//!
//! **Texts.** The values of a template are of host types as in an interface. If a function makes them, it is in the
//! module, neither takes nor returns builders, and its results are what the values flatten to. A function with a traced
//! twin has a host interface, and the twin, another function, has its parameters and results and no interface.
//!
//! **Imports.** Their interfaces are as those of functions. Who gives the functions is asked when the module is linked,
//! by the last of these rules.
//!
//! **Signatures.** Parameters and results are of types of the module. The banks have room for the parameters, and a
//! reference parameter's register has its type. A host interface, flattened, is the signature; its arrays hold what
//! their elements flatten to, as themselves if that is one register and as a struct if not; its lists are variants of
//! nothing and of what an element flattens to and the list itself; its data types are in the module's table under the
//! name that it gives; names in it are distinct.
//!
//! **Instructions.** None is of those that the virtual machine makes for itself. Operand lists lie inside the pools.
//! Bits of an instruction that hold no operand are zero. Registers are below their bank's count, targets below the
//! number of instructions; functions, messages and templates exist. No list of results names a register twice. The last
//! instruction is a terminator, so control can't fall off the end. Locations are sorted and belong to instructions.
//!
//! **Typing.** Each register has one type: its bank, and for references the declared heap type. Types are equal or
//! different, there are no subtypes. Operand roles say all about scalar instructions; rules of the others are in one
//! `match` (`verify/typing.rs`).
//!
//! **Forks.** As many tasks as a fork says, 1 to 256, follow it without anything between them; tasks stand nowhere
//! else, and no jump leads to one. The tasks of a fork return to different registers and take no result of an earlier
//! one of them, so that looking at them one after the other shows what they do together. Their functions, and those of
//! `pmap`, neither take nor return builders: an object that changes is in one task only.
//!
//! **Operators.** A `jvp` takes the arguments of a function, the captures among them first, and then tangents of the
//! others; it returns the results and their tangents. A `vjp` takes cotangents of the results and returns those of the
//! arguments. What is differentiated, and what comes out, is data: no functions, and nothing that leads to one.
//! Captures may be functions. Builders neither go in nor come out, and are not what `pdetach` makes a constant.
//!
//! **Constants.** What `once` runs takes nothing, gives no builders, and doesn't lead back to a function that asks for
//! its results: so a run can wait for them.
//!
//! **Assignment.** On every path from the start of a function to a read of a register, a write to it comes first, or it
//! holds a parameter. Instructions that no path reaches obey all other rules, and for this one they count as
//! having everything assigned.
//!
//! Not checked, because engines check it as they run: array indices, the tag that a payload is read under, capacities
//! and the state of builders, conversions and divisions, recursion, time and memory. An integer that stands for a
//! boolean may hold any value: instructions test for zero, and what a host gets is the host's to read.
//!
//! Time is linear in the module's size but for the rule on assignment: that looks at 64 registers at a time, and only
//! at registers that live from one basic block to another, and gives up with [`Rule::FlowLimit`] after
//! [`limits::FLOW_STEPS_MAX`] steps. Memory is linear. Nothing here recurses but on host types, whose depth is limited;
//! a reference to a data type ends it, and each data type is checked once.

mod assignment;
mod forks;
mod function;
pub mod limits;
mod once;
mod operators;
mod texts;
mod types;
mod typing;

use crate::bytecode::isa::{Bank, Reg};
use crate::bytecode::module::{FuncId, Function, ModuleDef, TypeDef, TypeId, ValueType};
use crate::bytecode::text::print_inst;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;

macro_rules! define_rules {
    ($( $(#[doc = $doc:literal])+ $name:ident $message:literal; )*) => {
        /// A rule of the verifier.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Rule {
            $( $(#[doc = $doc])+ $name, )*
        }

        impl Rule {
            /// Every rule, in the order of the documentation.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// What is wrong where the rule is broken.
            pub const fn message(self) -> &'static str {
                match self { $( Rule::$name => $message, )* }
            }
        }
    };
}
define_rules! {
    /// The module has at most [`limits::FUNCTIONS_MAX`] functions, and so on for types, data types, messages, templates
    /// and imports.
    ModuleSize "the module is too large";
    /// Names and messages have at most [`limits::STRING_BYTES_MAX`] bytes.
    StringLength "a string is too long";
    /// Functions have different names.
    FunctionName "two functions have one name";

    /// Objects have at most [`limits::FIELDS_MAX`] fields or captures, types at most [`limits::VARIANTS_MAX`] variants.
    FieldCount "a type has too many parts";
    /// Types that anything refers to are in the module.
    UnknownType "there is no such type";
    /// Builders are in registers, parameters and results only.
    BuilderPlace "a builder is kept outside of registers";
    /// A chain is one of a variant type.
    ChainType "a chain is not one of a variant type";

    /// The heap type of a data type is a variant whose fields are what the payloads flatten to.
    DataShape "a data type doesn't fit its heap type";
    /// The payload of a constructor is a tuple or a record.
    DataPayload "a constructor has a payload that is neither a tuple nor a record";
    /// The constructors of a data type have different names.
    ConstructorName "two constructors have one name";
    /// Data types that host types refer to are in the module.
    DataBounds "there is no such data type";
    /// A reference to a data type gives its name.
    DataName "a data type goes by another name";

    /// A template has at most [`limits::PIECES_MAX`] pieces and parts of its values' types, and values of at most
    /// [`limits::PARAMS_MAX`] registers.
    TemplateSize "a template is too large";
    /// The function of a template is in the module.
    TemplateFunction "the function of a template is none";
    /// The results of a template's function are its values.
    TemplateResults "the function of a template doesn't give its values";
    /// The functions of templates neither take nor return builders.
    TemplateBuilder "a builder goes to a template's function or comes from one";
    /// The engine's linker gives each function that the module imports.
    ImportMissing "nobody gives what the module imports";
    /// What is given takes and gives what the import says.
    ImportMismatch "what is given for an import is of another type";
    /// Functions of the host's take and give numbers, arrays of numbers, and tuples and records of such.
    ImportHost "a function of the host's can't be of this type";

    /// Functions with traced twins are in ascending order, with others that have their signature and no interface.
    TracedTwin "a traced twin doesn't fit its function";

    /// Functions and closures have at most [`limits::PARAMS_MAX`] parameters and results.
    ParamCount "a signature is too long";
    /// A bank has at most [`limits::REGISTERS_MAX`] registers.
    RegisterCount "there are too many registers";
    /// The banks have a register for each parameter.
    ParamRegisters "there are fewer registers than parameters";
    /// The register of a reference parameter has the parameter's type.
    ParamType "the register of a parameter has another type";
    /// Host types nest at most [`limits::HOST_TYPE_DEPTH_MAX`] deep.
    InterfaceDepth "a type in the interface is nested too deeply";
    /// Parameters, and parts of a record, have different names.
    InterfaceName "two parts of the interface have one name";
    /// The heap type of a host array holds what its elements flatten to.
    InterfaceArray "a host array doesn't fit its heap type";
    /// The heap type of a host list is a variant of nothing and of a cell.
    InterfaceList "a host list doesn't fit its heap type";
    /// The heap type of a host tensor is shaped: the array of the elements and an integer for each dimension.
    InterfaceTensor "a host tensor doesn't fit its heap type";
    /// The interface flattens to parameters and results.
    InterfaceSignature "the interface doesn't fit the function's signature";

    /// There is at least one instruction, and at most [`limits::INSTRUCTIONS_MAX`].
    CodeLength "the number of instructions is out of range";
    /// Operand lists have at most [`limits::LIST_ENTRIES_MAX`] entries in all.
    ListEntries "the operand lists are too long";
    /// Operand lists are inside the pools.
    ListBounds "an operand list is outside of its pool";
    /// Bits without a meaning are zero.
    UnusedBits "bits that hold no operand are set";
    /// Registers are in their banks.
    RegisterBounds "there is no such register";
    /// Targets are instructions.
    TargetBounds "there is no such instruction";
    /// Functions that instructions refer to are in the module.
    FunctionBounds "there is no such function";
    /// Messages that instructions refer to are in the module.
    MessageBounds "there is no such message";
    /// Templates that instructions refer to are in the module.
    TemplateBounds "there is no such template";
    /// Imports that instructions refer to are in the module.
    ImportBounds "there is no such import";
    /// A list of results names a register once.
    DuplicateResult "a register takes two results";
    /// The last instruction is a terminator.
    FallsOff "control falls off the end of the code";
    /// Locations are in ascending order, one per instruction, and count from 1; sources and inlined calls that they
    /// name are there, and a call stands behind those around it.
    Locations "a source location is out of place";

    /// Arguments have the types of parameters.
    Arguments "the arguments don't fit";
    /// Registers for results have the types of results.
    Results "the results don't fit";
    /// Registers for a text are of the types of the template's values, or of the parameters of its function.
    Shown "the registers don't fit the template";
    /// A tail call returns what the caller returns.
    TailResults "a tail call returns something else than its caller";
    /// An operand's heap type is of the kind that the instruction works on.
    ObjectKind "a reference of the wrong kind";
    /// Parts of a new object have the types that its type declares.
    Parts "the parts don't fit the object's type";
    /// The last field of what is appended to a chain is a reference to its variant type.
    ChainLink "what is appended to a chain has no last field to go on with";
    /// Tags are below the number of variants.
    TagBounds "there is no such variant";
    /// Rows of an array have 1 to [`limits::ROW_WIDTH_MAX`] elements.
    RowWidth "a row is too wide, or has no elements";
    /// Field numbers are below the number of fields.
    FieldBounds "there is no such field";
    /// Registers that take or give a field or an element have its type.
    PartType "a field or element has another type";
    /// References that are copied, selected or finished keep their type.
    SameType "the types differ";
    /// A closure's function takes captures and then arguments, and returns what the closure type says.
    ClosureSignature "the function doesn't fit the closure";
    /// The function of a `pmap` takes two integers before the arguments, and returns an array of the result's type.
    MapSignature "the function doesn't fit the parallel map";
    /// The functions of tasks and of `pmap` neither take nor return builders.
    TaskBuilder "a builder goes to a task or comes from one";

    /// The function of a `jvp`, a `vjp` or a `primal` has a parameter for each capture; `custom_vjp` and `custom_jvp`
    /// have a register for each.
    CaptureCount "an operator has more captures than its function has parameters";
    /// The function of a `custom_vjp` or a `custom_jvp` takes captures, arguments and cotangents or tangents, and gives
    /// cotangents or tangents.
    RuleSignature "the function doesn't fit the derivative that it gives";
    /// What a `jvp` or a `vjp` differentiates, and the results, are no functions and lead to none; nor is what a
    /// `primal`, a `custom_vjp` or a `custom_jvp` takes behind the captures and gives, nor are the results of a
    /// `checkpoint`.
    OperatorFunction "a derivative of or with respect to a function";
    /// The functions of `jvp`, `vjp`, `checkpoint`, `primal`, `once`, `custom_vjp` and `custom_jvp` neither take nor
    /// return builders.
    OperatorBuilder "a builder goes to an operator or comes from one";
    /// The function of a `once` has no parameters.
    OnceParams "a constant has parameters";
    /// The function of a `once` doesn't lead to the function that the `once` is in.
    OnceCycle "a constant leads back to itself";
    /// What is cut off from derivatives is no builder.
    DetachedBuilder "a builder is made a constant";

    /// A `fork` has 1 to [`limits::FORK_TASKS_MAX`] tasks.
    ForkCount "the number of tasks is out of range";
    /// As many `task` instructions as a `fork` says follow it.
    ForkTasks "a fork has too few tasks";
    /// A `task` stands among those that follow a `fork`.
    TaskPlace "a task belongs to no fork";
    /// Control enters a fork's tasks by way of the `fork`.
    TaskTarget "a jump leads to a task";
    /// The tasks of a fork have at most [`limits::FORK_REGISTERS_MAX`] arguments in each bank, and results.
    ForkRegisters "the tasks of a fork take or give too many registers";
    /// The tasks of a fork take nothing that an earlier one returns.
    TaskArguments "a task takes a result of its own fork";
    /// The tasks of a fork return to different registers.
    TaskResults "a register takes results of two tasks";

    /// Registers are assigned before they are read.
    Assignment "a register is read that is not assigned on every path";
    /// Checking assignment takes at most [`limits::FLOW_STEPS_MAX`] steps.
    FlowLimit "control flow and registers are too many to be checked";
}

/// A rule that a module breaks, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct VerifyError {
    /// The rule.
    pub rule: Rule,
    /// The function that breaks it, unless the module itself does.
    pub function: Option<(FuncId, String)>,
    /// The instruction that breaks it.
    pub inst: Option<u32>,
    /// That instruction in text.
    pub printed: Option<String>,
    /// The import that breaks it when the module is linked, by its number. One of a library's has none here.
    pub import: Option<u32>,
    /// What the rule asks for.
    pub expected: String,
    /// What is there instead.
    pub found: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((id, name)) = &self.function {
            write!(f, "function f{} {name:?}", id.0)?;
            if let Some(inst) = self.inst {
                write!(f, ", instruction {inst}")?;
            }
            if let Some(printed) = &self.printed {
                write!(f, " (`{printed}`)")?;
            }
            write!(f, ": ")?;
        }
        let VerifyError { rule, expected, found, .. } = self;
        let of_import = self.import.map_or_else(String::new, |import| format!(" in x{import}"));
        write!(f, "{}: expected {expected}{of_import}, found {found}", rule.message())
    }
}

impl std::error::Error for VerifyError {}

/// Checks all rules.
///
/// ```
/// use dualvm_vm::text::parse;
/// use dualvm_vm::verify::{Rule, verify};
///
/// let module = parse("func f0 \"f\" () -> (real)\n regs 1 real\n{\n ret (r0)\n}", "f.dvs").unwrap();
/// let errors = verify(&module).unwrap_err();
/// assert_eq!(errors[0].rule, Rule::Assignment);
/// assert_eq!(
///     errors[0].to_string(),
///     "function f0 \"f\", instruction 0 (`ret (r0)`): a register is read that is not assigned on every path: \
///      expected a write to r0 on every path to here, found a path without one"
/// );
/// ```
///
/// # Errors
/// The broken rules in the order of functions and instructions, [`limits::ERRORS_MAX`] at most. A rule that could
/// only be checked if an earlier one held is not reported.
pub fn verify(module: &ModuleDef) -> Result<(), Vec<VerifyError>> {
    let mut report = Report {
        module,
        function: None,
        errors: Vec::new(),
        flow_steps: 0,
        leads_to_function: OnceCell::new(),
        shown: Vec::new(),
        imports: Vec::new(),
    };
    if check_size(&mut report) {
        check_names(&mut report);
        function::check_debug(&mut report);
        types::check(&mut report);
        types::check_data(&mut report);
        texts::check(&mut report);
        types::check_imports(&mut report);
        for (index, function) in module.functions.iter().enumerate() {
            if report.is_full() {
                break;
            }
            report.function = Some(FuncId(index as u32));
            function::check(function, &mut report);
        }
        if report.errors.is_empty() {
            once::check_cycles(&mut report);
        }
    }
    if report.errors.is_empty() { Ok(()) } else { Err(report.errors) }
}

/// Counts of the module's tables; nothing else is looked at if one is too large.
fn check_size(report: &mut Report) -> bool {
    let module = report.module;
    let tables = [
        ("functions", module.functions.len(), limits::FUNCTIONS_MAX),
        ("types", module.types.len(), limits::TYPES_MAX),
        ("data types", module.data.len(), limits::DATA_MAX),
        ("messages", module.messages.len(), limits::MESSAGES_MAX),
        ("templates", module.templates.len(), limits::TEMPLATES_MAX),
        ("imports", module.imports.len(), limits::IMPORTS_MAX),
        ("sources", module.debug.sources.len(), limits::SOURCES_MAX),
        ("inlined calls", module.debug.calls.len(), limits::INLINED_CALLS_MAX),
    ];
    for (what, count, max) in tables {
        if count > max {
            report.fail(Rule::ModuleSize, format!("at most {max} {what}"), count.to_string());
        }
    }
    report.errors.is_empty()
}

fn check_names(report: &mut Report) {
    let module = report.module;
    let sources = module.debug.sources.iter().map(|source| &*source.name);
    let callees = module.debug.calls.iter().map(|call| &*call.callee);
    for text in module.messages.iter().map(String::as_str).chain(sources).chain(callees) {
        report.check_string(text);
    }
    let mut first_with = HashMap::new();
    for (index, function) in module.functions.iter().enumerate() {
        report.check_string(&function.name);
        if let Some(first) = first_with.insert(function.name.as_str(), index) {
            report.fail(
                Rule::FunctionName,
                "a name of its own for each function".into(),
                format!("{:?} for f{first} and f{index}", function.name),
            );
        }
    }
}

/// What is wrong with something, before it is known where that is.
struct Fault {
    rule: Rule,
    expected: String,
    found: String,
}

impl Fault {
    fn new(rule: Rule, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Fault { rule, expected: expected.into(), found: found.into() }
    }
}

/// The errors so far, and the place that is being looked at.
struct Report<'m> {
    module: &'m ModuleDef,
    function: Option<FuncId>,
    errors: Vec<VerifyError>,
    flow_steps: u64,
    /// For each type whether it is one of functions, or leads to one; known when it is first asked for.
    leads_to_function: OnceCell<Vec<bool>>,
    /// The types of the registers that each template takes; `None` if something is wrong with it.
    shown: Vec<Option<Vec<ValueType>>>,
    /// The types of what each import takes and gives; `None` if something is wrong with it.
    imports: Vec<Option<[Vec<ValueType>; 2]>>,
}

impl<'m> Report<'m> {
    fn is_full(&self) -> bool {
        self.errors.len() >= limits::ERRORS_MAX
    }

    /// Reports an error of the module, or of the function as a whole.
    fn fail(&mut self, rule: Rule, expected: String, found: String) {
        self.add(None, Fault { rule, expected, found });
    }

    fn fail_at(&mut self, inst: usize, fault: Fault) {
        self.add(Some(inst as u32), fault);
    }

    fn add(&mut self, inst: Option<u32>, fault: Fault) {
        if self.is_full() {
            return;
        }
        let module = self.module;
        self.errors.push(VerifyError {
            rule: fault.rule,
            function: self.function.map(|id| (id, module.functions[id.index()].name.clone())),
            inst,
            printed: self.function.zip(inst).map(|(id, inst)| print_inst(module, id, inst)),
            import: None,
            expected: fault.expected,
            found: fault.found,
        });
    }

    fn check_string(&mut self, text: &str) {
        if text.len() > limits::STRING_BYTES_MAX {
            let expected = format!("at most {} bytes", limits::STRING_BYTES_MAX);
            self.fail(Rule::StringLength, expected, text.len().to_string());
        }
    }

    /// Whether all these types are in the module; reports those that are not.
    fn check_known(&mut self, types: impl IntoIterator<Item = ValueType>, place: impl Fn() -> String) -> bool {
        let known = self.module.types.len();
        let mut all = true;
        for ty in types {
            if let ValueType::Ref(id) = ty
                && id.index() >= known
            {
                all = false;
                self.fail(Rule::UnknownType, format!("one of {known} types in {}", place()), format!("t{}", id.0));
            }
        }
        all
    }

    fn type_def(&self, id: TypeId) -> Option<&'m TypeDef> {
        self.module.types.get(id.index())
    }

    /// Whether values of a type are functions, or lead to one.
    fn leads_to_function(&self, ty: ValueType) -> bool {
        let ValueType::Ref(id) = ty else { return false };
        self.leads_to_function.get_or_init(|| types::leading_to_functions(self.module)).get(id.index()) == Some(&true)
    }

    /// Whether values of a type are under construction: builders of arrays, and chains.
    fn is_builder(&self, ty: ValueType) -> bool {
        let ValueType::Ref(id) = ty else { return false };
        matches!(self.type_def(id), Some(TypeDef::Builder(_) | TypeDef::Chain(_)))
    }
}

/// The type of a register whose number is in range.
fn type_of(function: &Function, reg: Reg) -> ValueType {
    match reg.bank {
        Bank::Real => ValueType::Real,
        Bank::Int => ValueType::Int,
        Bank::Ref => ValueType::Ref(function.body.refs[usize::from(reg.index)]),
    }
}

/// A register's type in text.
fn name(ty: ValueType) -> String {
    match ty {
        ValueType::Real => "real".into(),
        ValueType::Int => "int".into(),
        ValueType::Ref(id) => format!("t{}", id.0),
    }
}
