//! One module of a module and the functions of libraries that it calls.
//!
//! A call from one module to another becomes a call like others: the machine, native code and derivatives know nothing
//! of there having been several. What the module has of its own keeps its numbers. Behind it come the types of each
//! library that is needed, and those of its functions that are reached, without interfaces and with the library's name
//! before their own, as in `shapes.area`.

use super::renumber::Renumber;
use super::types::{Classes, are_alike};
use super::{Fault, Library, Linker, Source};
use crate::bytecode::isa::{Op, Operand, Role};
use crate::bytecode::module::{
    Body, DataId, FuncId, Function, Import, InlinedCall, Interface, ModuleDef, Place, TypeId, ValueType,
};
use crate::bytecode::verify::{Rule, limits};
use crate::host::LinkedHost;
use std::collections::{HashMap, HashSet};

/// A module with what it calls of others, and the functions of the host's that it imports then.
pub(super) struct Merged {
    pub(super) def: ModuleDef,
    pub(super) hosts: Vec<LinkedHost>,
}

/// What is wrong with an import.
pub(super) struct ImportFault {
    /// The library that imports, unless it is the module itself.
    pub(super) library: Option<Box<str>>,
    /// The import's number there.
    pub(super) import: u32,
    pub(super) fault: Fault,
}

struct Merge<'l> {
    linker: &'l Linker,
    def: ModuleDef,
    hosts: Vec<LinkedHost>,
    classes: Classes,
    /// The module itself, and the libraries that it needs.
    parts: Vec<Part>,
    /// The numbers of libraries.
    libraries: HashMap<Box<str>, usize>,
    /// Of functions.
    names: HashSet<String>,
    /// Functions that have a number and no code yet.
    pending: Vec<Pending>,
}

/// A module among those that are merged.
struct Part {
    /// `None` for the one that calls the others.
    name: Option<Box<str>>,
    module: Library,
    base: Base,
    /// The numbers of what was met of it.
    functions: HashMap<FuncId, FuncId>,
    templates: HashMap<u32, u32>,
    targets: HashMap<u32, Target>,
}

/// How many there were of each before a module's own came: what its numbers are counted from.
#[derive(Clone, Copy)]
struct Base {
    types: u32,
    data: u32,
    messages: u32,
    sources: u32,
    calls: u32,
}

/// What is called in the place of an import.
#[derive(Clone, Copy)]
enum Target {
    /// An import of the merged module.
    Import(u32),
    /// A function of it.
    Function(FuncId),
    /// A function of it that takes nothing: its results are constants of the run, as they are for who defines it.
    Constant(FuncId),
}

struct Pending {
    part: usize,
    /// Its number there.
    from: FuncId,
    func: FuncId,
}

/// Merges a module with what it imports from libraries.
pub(super) fn merge(linker: &Linker, module: &Library) -> Result<Merged, Vec<ImportFault>> {
    let mut merge = Merge {
        linker,
        def: ModuleDef::default(),
        hosts: Vec::new(),
        classes: Classes::default(),
        parts: Vec::new(),
        libraries: HashMap::new(),
        names: HashSet::new(),
        pending: Vec::new(),
    };
    merge.add(None, module.clone());
    let def = module.def();
    for index in 0..def.functions.len() as u32 {
        merge.function(0, FuncId(index));
    }
    merge.def.traced.clone_from(&def.traced);
    // All that is wrong with the module's own imports is reported, whether they are called or not.
    let faults = (0..def.imports.len() as u32).filter_map(|import| merge.target(0, import).err());
    let faults: Vec<_> = faults.take(limits::ERRORS_MAX).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    while let Some(Pending { part, from, func }) = merge.pending.pop() {
        let function = merge.copy(part, from).map_err(|fault| vec![fault])?;
        let place = &mut merge.def.functions[func.index()];
        *place = Function { name: std::mem::take(&mut place.name), ..function };
    }
    merge.make_types_equal();
    Ok(Merged { def: merge.def, hosts: merge.hosts })
}

impl Base {
    fn renumber(self) -> Renumber<impl Fn(TypeId) -> TypeId, impl Fn(DataId) -> DataId> {
        Renumber {
            types: move |ty: TypeId| TypeId(self.types + ty.0),
            data: move |data: DataId| DataId(self.data + data.0),
        }
    }

    fn place(self, place: Place) -> Place {
        Place { source: self.sources + place.source, ..place }
    }

    fn call(self, call: Option<u32>) -> Option<u32> {
        call.map(|call| self.calls + call)
    }
}

impl Target {
    /// Puts the call of the target in the place of an import's.
    fn call(self, at: usize, body: &mut Body) {
        let inst = &mut body.code[at];
        match self {
            Target::Import(import) => Body::replace_numbers(inst, |_, _| import),
            // Its other operands are those of the import's call.
            Target::Function(func) => {
                Body::replace_numbers(inst, |_, _| func.0);
                inst.op = Op::Call;
            }
            Target::Constant(func) => {
                let inst = *inst;
                let results = body.reg_lists(&inst).1.to_vec();
                let once = body.pack(Op::Once, &[Operand::Func(func.0), Operand::Defs(results)]);
                body.code[at] = once.expect("a list that was packed before");
            }
        }
    }
}

impl Merge<'_> {
    /// Adds a module's types, messages, and what messages need. Of functions, templates and imports it gets those that
    /// are met.
    fn add(&mut self, name: Option<Box<str>>, module: Library) -> usize {
        let (def, to) = (module.def(), &mut self.def);
        let base = Base {
            types: to.types.len() as u32,
            data: to.data.len() as u32,
            messages: to.messages.len() as u32,
            sources: to.debug.sources.len() as u32,
            calls: to.debug.calls.len() as u32,
        };
        let renumber = base.renumber();
        to.types.extend(def.types.iter().cloned().map(|mut ty| {
            renumber.type_def(&mut ty);
            ty
        }));
        to.data.extend(def.data.iter().cloned().map(|mut data| {
            renumber.data_def(&mut data);
            data
        }));
        to.messages.extend_from_slice(&def.messages);
        to.debug.sources.extend_from_slice(&def.debug.sources);
        to.debug.calls.extend(def.debug.calls.iter().map(|call| InlinedCall {
            callee: call.callee.clone(),
            place: base.place(call.place),
            within: base.call(call.within),
        }));
        self.classes.grow(to.types.len());
        let number = self.parts.len();
        if let Some(name) = &name {
            self.libraries.insert(name.clone(), number);
        }
        let (functions, templates, targets) = Default::default();
        self.parts.push(Part { name, module, base, functions, templates, targets });
        number
    }

    /// The number of a function of a part. Its code is copied later.
    fn function(&mut self, part: usize, from: FuncId) -> FuncId {
        let of = &mut self.parts[part];
        if let Some(&known) = of.functions.get(&from) {
            return known;
        }
        let func = FuncId(self.def.functions.len() as u32);
        of.functions.insert(from, func);
        let Function { name, params, results, .. } = &of.module.def().functions[from.index()];
        let mut unique = of.name.as_ref().map_or_else(|| name.clone(), |library| format!("{library}.{name}"));
        while !self.names.insert(unique.clone()) {
            unique.push('\'');
        }
        let (params, results) = (params.clone(), results.clone());
        self.def.functions.push(Function { name: unique, params, results, interface: None, body: Body::default() });
        self.pending.push(Pending { part, from, func });
        func
    }

    /// The number of a template of a part.
    fn template(&mut self, part: usize, from: u32) -> u32 {
        let of = &self.parts[part];
        if let Some(&known) = of.templates.get(&from) {
            return known;
        }
        let mut template = of.module.def().templates[from as usize].clone();
        of.base.renumber().template(&mut template);
        template.func = template.func.map(|func| self.function(part, func));
        let number = self.def.templates.len() as u32;
        self.def.templates.push(template);
        self.parts[part].templates.insert(from, number);
        number
    }

    /// What a part calls in the place of an import.
    fn target(&mut self, part: usize, number: u32) -> Result<Target, ImportFault> {
        let of = &self.parts[part];
        if let Some(&known) = of.targets.get(&number) {
            return Ok(known);
        }
        let import = of.module.def().imports[number as usize].clone();
        let target = self.find(part, import).map_err(|fault| {
            let library = self.parts[part].name.clone();
            ImportFault { library, import: number, fault }
        })?;
        self.parts[part].targets.insert(number, target);
        Ok(target)
    }

    fn find(&mut self, part: usize, mut import: Import) -> Result<Target, Fault> {
        match self.linker.source(&import.name)? {
            Source::Host(function) => {
                let host = LinkedHost::new(&import, function)?;
                self.parts[part].base.renumber().interface(&mut import.interface);
                self.def.imports.push(import);
                self.hosts.push(host);
                Ok(Target::Import(self.hosts.len() as u32 - 1))
            }
            Source::Library { name, library, export } => {
                let exporter = match self.libraries.get(name) {
                    Some(&known) => known,
                    None => self.add(Some(name.into()), library.clone()),
                };
                self.check_size()?;
                let (func, linked) =
                    library.export(export).ok_or_else(|| Fault::not_exported(name, library, export))?;
                self.check_types(part, &import, exporter, func)?;
                let func = self.function(exporter, linked);
                Ok(if import.interface.params.is_empty() { Target::Constant(func) } else { Target::Function(func) })
            }
        }
    }

    /// Checks that a module's numbers don't grow out of bounds while it grows.
    fn check_size(&self) -> Result<(), Fault> {
        let ModuleDef { debug, types, data, messages, functions, .. } = &self.def;
        let sizes = [
            ("types", types.len(), limits::TYPES_MAX),
            ("data types", data.len(), limits::DATA_MAX),
            ("messages", messages.len(), limits::MESSAGES_MAX),
            ("functions", functions.len(), limits::FUNCTIONS_MAX),
            ("source files", debug.sources.len(), limits::SOURCES_MAX),
            ("inlined calls", debug.calls.len(), limits::INLINED_CALLS_MAX),
        ];
        match sizes.into_iter().find(|(_, len, max)| len > max) {
            Some((what, len, max)) => Err(Fault {
                rule: Rule::ModuleSize,
                expected: format!("at most {max} {what} together with those of libraries"),
                found: len.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Checks that a function is of the type that the import says, and makes the types of what it takes and gives the
    /// same in both modules.
    fn check_types(&mut self, importer: usize, import: &Import, exporter: usize, func: FuncId) -> Result<(), Fault> {
        let [importer, exporter] = [importer, exporter].map(|part| &self.parts[part]);
        let Import { name, interface: asked } = import;
        let given = exporter.module.def().functions[func.index()].interface.as_ref().expect("it is exported");
        let [asked_data, given_data] = [importer, exporter].map(|part| part.module.def().data.as_slice());
        let types = |interface: &Interface| -> Vec<_> {
            let Interface { params, result } = interface;
            params.iter().map(|(_, ty)| ty.clone()).chain([result.clone()]).collect()
        };
        let (asked_types, given_types) = (types(asked), types(given));
        let mut pairs = asked_types.iter().zip(&given_types);
        let is_same = asked_types.len() == given_types.len()
            && pairs.all(|(asked, given)| are_alike((asked, asked_data), (given, given_data)));
        let flat = |part: &Part, interface: &Interface, data| -> Vec<ValueType> {
            let renumber = part.base.renumber();
            interface.flatten(data).into_iter().flatten().map(|ty| renumber.value_type(ty)).collect()
        };
        let flat = [flat(importer, asked, asked_data), flat(exporter, given, given_data)];
        let [asked_flat, given_flat] = &flat;
        let mut pairs = asked_flat.iter().zip(given_flat);
        if is_same && pairs.all(|(&asked, &given)| self.classes.identify(asked, given, &self.def.types)) {
            return Ok(());
        }
        Err(Fault {
            rule: Rule::ImportMismatch,
            expected: format!("{name:?} of the type {}", asked.shown()),
            found: given.shown().to_string(),
        })
    }

    /// A function of a part with the numbers of the merged module.
    fn copy(&mut self, part: usize, from: FuncId) -> Result<Function, ImportFault> {
        let of = &self.parts[part];
        let (base, is_library) = (of.base, of.name.is_some());
        let module = of.module.clone();
        let mut function = module.def().functions[from.index()].clone();
        if is_library {
            function.interface = None;
        }
        base.renumber().function(&mut function);
        for location in &mut function.body.locations {
            (location.place, location.call) = (base.place(location.place), base.call(location.call));
        }
        for at in 0..function.body.code.len() {
            let inst = &mut function.body.code[at];
            if inst.op == Op::CallImport {
                let target = self.target(part, inst.low())?;
                target.call(at, &mut function.body);
                continue;
            }
            Body::replace_numbers(inst, |role, number| match role {
                Role::Func => self.function(part, FuncId(number)).0,
                Role::Template => self.template(part, number),
                Role::Message => base.messages + number,
                _ => number,
            });
        }
        Ok(function)
    }

    /// Gives types that are the same in all modules the same number.
    fn make_types_equal(&mut self) {
        let Merge { def, classes, .. } = self;
        let of: Vec<TypeId> = (0..def.types.len()).map(|ty| classes.representative(TypeId(ty as u32))).collect();
        let renumber = Renumber { types: |ty: TypeId| of[ty.index()], data: |data| data };
        def.types.iter_mut().for_each(|ty| renumber.type_def(ty));
        def.data.iter_mut().for_each(|data| renumber.data_def(data));
        def.templates.iter_mut().for_each(|template| renumber.template(template));
        def.imports.iter_mut().for_each(|import| renumber.interface(&mut import.interface));
        def.functions.iter_mut().for_each(|function| renumber.function(function));
    }
}
