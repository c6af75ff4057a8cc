//! One module of a module and the functions of libraries that it calls.
//!
//! A call from one module to another becomes a call like others: the machine, native code and derivatives know nothing
//! of there having been several. Functions, types and texts of the module's own keep their numbers. Behind them comes
//! what is reached of libraries; its functions have no interfaces, and the library's name before their own,
//! as in `shapes.area`.

use super::renumber::Renumber;
use super::tables::{Origin, Table, Tables};
use super::types::{Alike, Classes};
use super::{Fault, Library, Linker, Source};
use crate::bytecode::isa::{Op, Operand, Role};
use crate::bytecode::module::{
    Body, DataId, FuncId, Function, Import, InlinedCall, Interface, Location, ModuleDef, Place, SourceFile, TypeId,
    ValueType,
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
    /// The module itself, and the libraries that it needs.
    parts: Vec<Part>,
    /// The numbers of libraries.
    libraries: HashMap<*const ModuleDef, usize>,
    tables: Tables,
    /// Imports from libraries, whose types are compared when all of these are there.
    links: Vec<Link>,
    names: Names,
    files: HashMap<String, Option<[u8; 32]>>,
    /// Whether something of a library traces.
    traces: bool,
}

/// A module among those that are merged.
struct Part {
    /// `None` for the one that calls the others.
    name: Option<Box<str>>,
    module: Library,
    /// What stands in the places of imports that were met.
    targets: HashMap<u32, Target>,
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

/// An import of a part, and the function that it is in another one.
struct Link {
    importer: usize,
    import: u32,
    exporter: usize,
    func: FuncId,
}

/// Names that are all different.
#[derive(Default)]
struct Names {
    taken: HashSet<String>,
    /// The last number that was tried for a name.
    tried: HashMap<String, u32>,
}

/// Merges a module with what it imports from libraries.
pub(super) fn merge(linker: &Linker, module: &Library) -> Result<Merged, Vec<ImportFault>> {
    let mut merge = Merge {
        linker,
        def: ModuleDef::default(),
        hosts: Vec::new(),
        parts: Vec::new(),
        libraries: HashMap::new(),
        tables: Tables::default(),
        links: Vec::new(),
        names: Names::default(),
        files: HashMap::new(),
        traces: false,
    };
    merge.add(None, module);
    merge.keep_own();
    // All that is wrong with the module's own imports is reported, whether they are called or not.
    let imports = 0..module.def().imports.len() as u32;
    let faults = imports.filter_map(|import| merge.target(0, import).err());
    let faults: Vec<_> = faults.take(limits::ERRORS_MAX).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    merge.copy_all().map_err(|fault| vec![fault])?;
    let mut classes = merge.compare_types()?;
    merge.name_forwarders();
    merge.make_types_equal(&mut classes);
    merge.add_twins();
    Ok(Merged { def: merge.def, hosts: merge.hosts })
}

impl Names {
    /// The name, or one like it that nobody has.
    fn unique(&mut self, name: String) -> String {
        if self.taken.insert(name.clone()) {
            return name;
        }
        let tried = self.tried.entry(name.clone()).or_insert(1);
        loop {
            *tried += 1;
            let other = format!("{name}'{tried}");
            if self.taken.insert(other.clone()) {
                return other;
            }
        }
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

/// The import that a function which nobody else calls does nothing but call, if it is such a function.
fn forwarded(function: &Function) -> Option<u32> {
    let [call, ret] = function.body.code[..] else { return None };
    if call.op != Op::CallImport || ret.op != Op::Ret || function.interface.is_some() {
        return None;
    }
    let (args, results) = function.body.reg_lists(&call);
    let (returned, _) = function.body.reg_lists(&ret);
    (args == function.param_regs() && results == returned).then_some(call.low())
}

impl Merge<'_> {
    /// The number of a library, or of the module itself.
    fn add(&mut self, name: Option<&str>, module: &Library) -> usize {
        let next = self.parts.len();
        let number = *self.libraries.entry(std::ptr::from_ref(module.def())).or_insert(next);
        if number == next {
            let (name, targets) = (name.map(Into::into), HashMap::new());
            self.parts.push(Part { name, module: module.clone(), targets });
        }
        number
    }

    fn def_of(&self, part: usize) -> &ModuleDef {
        self.parts[part].module.def()
    }

    /// Gives what the module has of its own the numbers that it has.
    fn keep_own(&mut self) {
        let module = self.parts[0].module.clone();
        let (def, tables) = (module.def(), &mut self.tables);
        tables.functions.keep(def.functions.len());
        tables.types.keep(def.types.len());
        tables.data.keep(def.data.len());
        tables.messages.keep(def.messages.len());
        tables.templates.keep(def.templates.len());
        tables.sources.keep(def.debug.sources.len());
        tables.calls.keep(def.debug.calls.len());
        self.def.traced.clone_from(&def.traced);
    }

    /// The number of a function of a part that an instruction names, or of what it only forwards its arguments to.
    fn function(&mut self, part: usize, func: FuncId, op: Op) -> Result<FuncId, ImportFault> {
        if let Some(import) = forwarded(&self.def_of(part).functions[func.index()]) {
            match self.target(part, import)? {
                Target::Function(func) => return Ok(func),
                Target::Constant(func) if op == Op::Once => return Ok(func),
                _ => {}
            }
        }
        Ok(self.tables.function(part, func))
    }

    /// What a part calls in the place of an import.
    fn target(&mut self, part: usize, number: u32) -> Result<Target, ImportFault> {
        if let Some(&known) = self.parts[part].targets.get(&number) {
            return Ok(known);
        }
        let import = self.def_of(part).imports[number as usize].clone();
        let target = self.find(part, number, import).map_err(|fault| self.fault(part, number, fault))?;
        self.parts[part].targets.insert(number, target);
        Ok(target)
    }

    fn fault(&self, part: usize, import: u32, fault: Fault) -> ImportFault {
        ImportFault { library: self.parts[part].name.clone(), import, fault }
    }

    fn find(&mut self, part: usize, number: u32, mut import: Import) -> Result<Target, Fault> {
        match self.linker.source(&import.name) {
            None => Err(self.linker.missing(&import.name)),
            Some(Source::Host(function)) => {
                let host = LinkedHost::new(&import, function)?;
                renumber(&mut self.tables, part, |renumber| renumber.interface(&mut import.interface));
                self.def.imports.push(import);
                self.hosts.push(host);
                Ok(Target::Import(self.hosts.len() as u32 - 1))
            }
            Some(Source::Library { name, library, export }) => {
                let (func, linked) =
                    library.export(export).ok_or_else(|| Fault::not_exported(name, library, export))?;
                let exporter = self.add(Some(name), library);
                self.links.push(Link { importer: part, import: number, exporter, func });
                let func = self.tables.function(exporter, linked);
                Ok(if import.interface.params.is_empty() { Target::Constant(func) } else { Target::Function(func) })
            }
        }
    }

    /// Copies everything that has a number. What is copied refers to more.
    fn copy_all(&mut self) -> Result<(), ImportFault> {
        loop {
            if let Some(origin) = self.tables.functions.next() {
                let function = self.copy_function(origin)?;
                self.def.functions.push(function);
            } else if let Some(origin) = self.tables.templates.next() {
                let mut template = self.def_of(origin.part).templates[origin.number as usize].clone();
                renumber(&mut self.tables, origin.part, |renumber| renumber.template(&mut template));
                template.func = template.func.map(|func| self.tables.function(origin.part, func));
                self.def.templates.push(template);
            } else if let Some(origin) = self.tables.messages.next() {
                let message = self.def_of(origin.part).messages[origin.number as usize].clone();
                self.def.messages.push(message);
            } else if let Some(origin) = self.tables.calls.next() {
                let call = self.def_of(origin.part).debug.calls[origin.number as usize].clone();
                let call = self.renumber_call(origin.part, call);
                self.def.debug.calls.push(call);
            } else if let Some(origin) = self.tables.sources.next() {
                let source = self.copy_source(origin);
                self.def.debug.sources.push(source);
            } else if !self.copy_type() {
                return Ok(());
            }
        }
    }

    /// Copies a type or a data type, if there is one left.
    fn copy_type(&mut self) -> bool {
        if let Some(origin) = self.tables.data.next() {
            let mut data = self.def_of(origin.part).data[origin.number as usize].clone();
            renumber(&mut self.tables, origin.part, |renumber| renumber.data_def(&mut data));
            self.def.data.push(data);
            return true;
        }
        let Some(origin) = self.tables.types.next() else { return false };
        let mut ty = self.def_of(origin.part).types[origin.number as usize].clone();
        renumber(&mut self.tables, origin.part, |renumber| renumber.type_def(&mut ty));
        self.def.types.push(ty);
        true
    }

    fn copy_function(&mut self, Origin { part, number }: Origin) -> Result<Function, ImportFault> {
        let module = self.parts[part].module.clone();
        let mut function = module.def().functions[number as usize].clone();
        if let Some(library) = &self.parts[part].name {
            function.interface = None;
            // The last part of a path.
            let library = library.rsplit('/').next().unwrap_or_default();
            function.name = self.names.unique(format!("{library}.{}", function.name));
        } else if forwarded(&function).is_none() {
            function.name = self.names.unique(function.name);
        }
        renumber(&mut self.tables, part, |renumber| renumber.function(&mut function));
        for Location { place, call, .. } in &mut function.body.locations {
            *place = self.place(part, *place);
            *call = call.map(|call| self.call(part, call));
        }
        for at in 0..function.body.code.len() {
            let inst = function.body.code[at];
            self.traces |= part > 0 && inst.op == Op::Trace;
            if inst.op == Op::CallImport {
                self.target(part, inst.low())?.call(at, &mut function.body);
                continue;
            }
            let mut fault = None;
            Body::replace_numbers(&mut function.body.code[at], |role, number| match role {
                Role::Func => match self.function(part, FuncId(number), inst.op) {
                    Ok(func) => func.0,
                    Err(error) => {
                        fault = Some(error);
                        number
                    }
                },
                Role::Template => self.tables.templates.number(part, number),
                Role::Message => self.tables.messages.number(part, number),
                _ => number,
            });
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
        Ok(function)
    }

    fn place(&mut self, part: usize, place: Place) -> Place {
        Place { source: self.tables.sources.number(part, place.source), ..place }
    }

    /// The number of an inlined call. Those that it stands in the place of come first.
    fn call(&mut self, part: usize, call: u32) -> u32 {
        let mut unknown = Vec::new();
        let mut next = Some(call);
        while let Some(call) = next.filter(|&call| !self.tables.calls.has(part, call)) {
            unknown.push(call);
            next = self.def_of(part).debug.calls[call as usize].within;
        }
        unknown.into_iter().rev().for_each(|call| _ = self.tables.calls.number(part, call));
        self.tables.calls.number(part, call)
    }

    fn renumber_call(&mut self, part: usize, InlinedCall { callee, place, within }: InlinedCall) -> InlinedCall {
        let within = within.map(|call| self.tables.calls.number(part, call));
        InlinedCall { callee, place: self.place(part, place), within }
    }

    /// A file of a library goes by another name than one that is another file.
    fn copy_source(&mut self, Origin { part, number }: Origin) -> SourceFile {
        let mut source = self.def_of(part).debug.sources[number as usize].clone();
        if source.digest.is_none() {
            return source;
        }
        let known = self.files.entry(source.name.clone()).or_insert(source.digest);
        if let (true, Some(library)) = (*known != source.digest, &self.parts[part].name) {
            source.name = format!("{} of {library}", source.name);
        }
        source
    }

    /// Compares the types of imports with those of what they are, and says which types of the merged module are the
    /// same.
    fn compare_types(&mut self) -> Result<Classes, Vec<ImportFault>> {
        let links = std::mem::take(&mut self.links);
        let mut flat = Vec::new();
        for link in &links {
            let importer = self.def_of(link.importer);
            let asked = importer.imports[link.import as usize].interface.flatten(&importer.data);
            let Function { params, results, .. } = &self.def_of(link.exporter).functions[link.func.index()];
            let mut pair = [asked.concat(), params.iter().chain(results).copied().collect::<Vec<ValueType>>()];
            for (part, types) in [link.importer, link.exporter].into_iter().zip(&mut pair) {
                renumber(&mut self.tables, part, |renumber| renumber.value_types(types));
            }
            flat.push(pair);
        }
        while self.copy_type() {}
        let (mut classes, mut alike) = (Classes::of(self.def.types.len()), Alike::default());
        for (link, [asked, given]) in links.iter().zip(&flat) {
            let [importer, exporter] = [link.importer, link.exporter].map(|part| (part, self.def_of(part)));
            let import = &importer.1.imports[link.import as usize];
            let export = exporter.1.functions[link.func.index()].interface.as_ref().expect("it is exported");
            let mut pairs = asked.iter().zip(given);
            if alike.are((importer, &import.interface), (exporter, export))
                && pairs.all(|(&asked, &given)| classes.identify(asked, given, &self.def.types))
            {
                continue;
            }
            let fault = mismatch(import, export);
            return Err(vec![self.fault(link.importer, link.import, fault)]);
        }
        Ok(classes)
    }

    /// Names the functions that were forwarded by the way, which nobody calls any more: what they forward to has the
    /// name.
    fn name_forwarders(&mut self) {
        let own = self.parts[0].module.clone();
        for (number, function) in own.def().functions.iter().enumerate() {
            if forwarded(function).is_some() {
                self.def.functions[number].name = self.names.unique(function.name.clone());
            }
        }
    }

    /// Gives types that are the same in all modules the same number.
    fn make_types_equal(&mut self, classes: &mut Classes) {
        let def = &mut self.def;
        let of: Vec<TypeId> = (0..def.types.len()).map(|ty| classes.representative(TypeId(ty as u32))).collect();
        let mut renumber = Renumber { types: |ty: TypeId| of[ty.index()], data: |data| data };
        def.types.iter_mut().for_each(|ty| renumber.type_def(ty));
        def.data.iter_mut().for_each(|data| renumber.data_def(data));
        def.templates.iter_mut().for_each(|template| renumber.template(template));
        def.imports.iter_mut().for_each(|import| renumber.interface(&mut import.interface));
        def.functions.iter_mut().for_each(|function| renumber.function(function));
    }

    /// If something of a library traces, gives the functions that hosts call a traced twin, as the compiler does where
    /// it sees a trace: then what is traced is what the function does, and not what is done again for a derivative.
    fn add_twins(&mut self) {
        if !self.traces {
            return;
        }
        for func in (0..self.def_of(0).functions.len() as u32).map(FuncId) {
            if self.def.functions[func.index()].interface.is_none() || self.def.traced_twin(func).is_some() {
                continue;
            }
            let mut twin = self.def.functions[func.index()].clone();
            (twin.name, twin.interface) = (self.names.unique(twin.name), None);
            let number = FuncId(self.def.functions.len() as u32);
            self.def.functions.push(twin);
            let at = self.def.traced.partition_point(|&(function, _)| function < func);
            self.def.traced.insert(at, (func, number));
        }
    }
}

/// Gives what something of a part refers to the numbers of the merged module.
fn renumber<R>(
    tables: &mut Tables,
    part: usize,
    change: impl FnOnce(&mut Renumber<&mut dyn FnMut(TypeId) -> TypeId, &mut dyn FnMut(DataId) -> DataId>) -> R,
) -> R {
    let Tables { types, data, .. } = tables;
    let number = |table: &mut Table, number| table.number(part, number);
    let mut types = |ty: TypeId| TypeId(number(types, ty.0));
    let mut data = |id: DataId| DataId(number(data, id.0));
    change(&mut Renumber { types: &mut types, data: &mut data })
}

#[cold]
fn mismatch(import: &Import, given: &Interface) -> Fault {
    let expected = format!("{:?} of the type {}", import.name, import.interface);
    Fault { rule: Rule::ImportMismatch, expected, found: given.to_string() }
}
