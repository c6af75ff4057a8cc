//! Rules on the tables of types and data types and on host interfaces.

use super::{Report, Rule, limits, name};
use crate::bytecode::module::{
    DataDef, DataId, Function, HostType, Interface, ModuleDef, TypeDef, TypeId, ValueType, VariantDef,
};
use crate::memory::heap::Fields;
use std::collections::HashSet;

/// Checks every type of the module.
pub(super) fn check(report: &mut Report) {
    for (index, def) in report.module.types.iter().enumerate() {
        if report.is_full() {
            return;
        }
        check_counts(index, def, report);
        let place = || format!("t{index}");
        report.check_known(def.parts(), place);
        if let Some(builder) = def.parts().find(|&ty| report.is_builder(ty)) {
            let expected = format!("no builder in t{index}");
            report.fail(Rule::BuilderPlace, expected, format!("{}, a builder", name(builder)));
        }
        if let TypeDef::Chain(of) = def
            && report.type_def(*of).is_some_and(|of| !matches!(of, TypeDef::Variant(_)))
        {
            report.fail(Rule::ChainType, format!("a variant in t{index}"), format!("t{}, another kind of type", of.0));
        }
    }
}

/// For each type of a module whether its values are functions, or lead to one by their fields and elements. Linear in
/// the size of the types.
pub(super) fn leading_to_functions(module: &ModuleDef) -> Vec<bool> {
    let types = &module.types;
    let mut leads = vec![false; types.len()];
    let mut part_of: Vec<Vec<u32>> = vec![Vec::new(); types.len()];
    let mut found = Vec::new();
    for (index, def) in types.iter().enumerate() {
        if matches!(def, TypeDef::Closure { .. }) {
            leads[index] = true;
            found.push(index);
            continue;
        }
        for part in def.parts() {
            // What is no type of the module is reported where the types are checked.
            if let ValueType::Ref(part) = part
                && let Some(wholes) = part_of.get_mut(part.index())
            {
                wholes.push(index as u32);
            }
        }
    }
    while let Some(index) = found.pop() {
        for whole in std::mem::take(&mut part_of[index]) {
            if !std::mem::replace(&mut leads[whole as usize], true) {
                found.push(whole as usize);
            }
        }
    }
    leads
}

fn check_counts(index: usize, def: &TypeDef, report: &mut Report) {
    let mut check = |rule, what: &str, count: usize, max: usize| {
        if count > max {
            report.fail(rule, format!("at most {max} {what} in t{index}"), count.to_string());
        }
    };
    match def {
        TypeDef::Struct(fields) | TypeDef::Shaped(fields) => {
            check(Rule::FieldCount, "fields", fields.len(), limits::FIELDS_MAX)
        }
        TypeDef::Variant(variants) => {
            check(Rule::FieldCount, "variants", variants.len(), limits::VARIANTS_MAX);
            for variant in variants {
                check(Rule::FieldCount, "fields of a variant", variant.fields.len(), limits::FIELDS_MAX);
            }
        }
        TypeDef::Array(_) | TypeDef::Builder(_) | TypeDef::Chain(_) => {}
        TypeDef::Closure { params, results } => {
            check(Rule::ParamCount, "parameters", params.len(), limits::PARAMS_MAX);
            check(Rule::ParamCount, "results", results.len(), limits::PARAMS_MAX);
        }
    }
    if let TypeDef::Variant(variants) = def {
        variants.iter().for_each(|variant| report.check_string(&variant.name));
    }
}

/// Checks every data type of the module.
pub(super) fn check_data(report: &mut Report) {
    for (index, def) in report.module.data.iter().enumerate() {
        if report.is_full() {
            return;
        }
        report.check_string(&def.name);
        check_distinct(def.variants.iter().map(|(name, _)| name.as_str()), Rule::ConstructorName, report);
        let place = || format!("d{index} {:?}", def.name);
        let found = match report.type_def(def.ty) {
            Some(TypeDef::Variant(variants)) => variants,
            Some(_) => {
                let expected = format!("a variant as the heap type of {}", place());
                report.fail(Rule::DataShape, expected, format!("t{}, another kind of type", def.ty.0));
                continue;
            }
            None => {
                report.check_known([ValueType::Ref(def.ty)], place);
                continue;
            }
        };
        if found.len() != def.variants.len() {
            let expected = format!("{} constructors in {}", found.len(), place());
            report.fail(Rule::DataShape, expected, def.variants.len().to_string());
            continue;
        }
        check_payloads(def, found, report);
    }
}

/// Checks the payloads of a data type's constructors against the variants that they stand for.
fn check_payloads(def: &DataDef, variants: &[VariantDef], report: &mut Report) {
    for ((name, payload), variant) in def.variants.iter().zip(variants) {
        let place = || format!("{name:?} of {:?}", def.name);
        if !check_host_type(payload, limits::HOST_TYPE_DEPTH_MAX, report) {
            continue;
        }
        if !matches!(payload, HostType::Tuple(_) | HostType::Record(_)) {
            report.fail(Rule::DataPayload, format!("a tuple or a record in {}", place()), payload.to_string());
        }
        let flat = payload.flatten(&report.module.data);
        if flat != variant.fields {
            let expected = format!("fields {} in {}", list(&variant.fields), place());
            report.fail(Rule::DataShape, expected, format!("a payload that flattens to {}", list(&flat)));
        }
    }
}

/// Checks every import, and notes what each takes and gives.
pub(super) fn check_imports(report: &mut Report) {
    for (number, import) in report.module.imports.iter().enumerate() {
        let flat = if report.is_full() { None } else { flatten(&import.interface, report) };
        report.check_string(&import.name);
        let lists = flat.filter(|lists| {
            let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
            if longest > limits::PARAMS_MAX {
                let expected = format!("at most {} registers in x{number}", limits::PARAMS_MAX);
                report.fail(Rule::ParamCount, expected, longest.to_string());
            }
            longest <= limits::PARAMS_MAX
        });
        report.imports.push(lists);
    }
}

/// What an interface flattens to, if nothing is wrong with it.
fn flatten(interface: &Interface, report: &mut Report) -> Option<[Vec<ValueType>; 2]> {
    let errors = report.errors.len();
    check_distinct(interface.params.iter().map(|(name, _)| name.as_str()), Rule::InterfaceName, report);
    for ty in interface.params.iter().map(|(_, ty)| ty).chain([&interface.result]) {
        if !check_host_type(ty, limits::HOST_TYPE_DEPTH_MAX, report) {
            return None;
        }
    }
    (report.errors.len() == errors).then(|| interface.flatten(&report.module.data))
}

/// Checks that a host sees in an exported function what is there.
pub(super) fn check_interface(function: &Function, interface: &Interface, report: &mut Report) {
    let Some([params, results]) = flatten(interface, report) else { return };
    for (what, host, own) in [("parameters", params, &function.params), ("results", results, &function.results)] {
        if host != *own {
            report.fail(
                Rule::InterfaceSignature,
                format!("{what} {}", list(own)),
                format!("an interface that flattens to {}", list(&host)),
            );
        }
    }
}

/// Checks a host type, `depth` levels of it; says whether it is safe to flatten.
pub(super) fn check_host_type(ty: &HostType, depth: usize, report: &mut Report) -> bool {
    if depth == 0 {
        let max = limits::HOST_TYPE_DEPTH_MAX;
        report.fail(Rule::InterfaceDepth, format!("at most {max} levels"), "more".into());
        return false;
    }
    match ty {
        HostType::Real | HostType::Int | HostType::Bool => true,
        HostType::Tuple(parts) => parts.iter().all(|part| check_host_type(part, depth - 1, report)),
        HostType::Record(parts) => {
            check_distinct(parts.iter().map(|(name, _)| name.as_str()), Rule::InterfaceName, report);
            parts.iter().all(|(_, part)| check_host_type(part, depth - 1, report))
        }
        HostType::Array { element, array } => {
            let safe = check_host_type(element, depth - 1, report);
            if safe {
                check_host_array(element, *array, report);
            }
            safe
        }
        HostType::List { element, list } => {
            let safe = check_host_type(element, depth - 1, report);
            if safe {
                check_host_list(element, *list, report);
            }
            safe
        }
        HostType::Tensor { slice, tensor } => {
            let safe = check_host_type(slice, depth - 1, report);
            if safe {
                check_host_tensor(ty, slice, *tensor, report);
            }
            safe
        }
        HostType::Data { name, data } => check_reference(name, *data, report),
    }
}

/// Checks a reference to a data type; says whether there is one.
fn check_reference(name: &str, data: DataId, report: &mut Report) -> bool {
    let known = report.module.data.len();
    let Some(def) = report.module.data.get(data.index()) else {
        report.fail(Rule::DataBounds, format!("one of {known} data types"), format!("d{} {name:?}", data.0));
        return false;
    };
    if def.name != name {
        report.fail(Rule::DataName, format!("{:?} for d{}", def.name, data.0), format!("{name:?}"));
    }
    true
}

fn check_host_list(element: &HostType, ty: TypeId, report: &mut Report) {
    let mut cell = element.flatten(&report.module.data);
    cell.push(ValueType::Ref(ty));
    let is_list = |def: &TypeDef| match def {
        TypeDef::Variant(variants) => match &variants[..] {
            [nil, cons] => nil.fields.is_empty() && cons.fields == cell,
            _ => false,
        },
        _ => false,
    };
    check_heap_type(ty, is_list, (Rule::InterfaceList, &|| format!("a variant of () and {}", list(&cell))), report);
}

/// Checks that the heap type of a part of an interface is there and fits.
fn check_heap_type(
    ty: TypeId,
    fits: impl Fn(&TypeDef) -> bool,
    (rule, expected): (Rule, &dyn Fn() -> String),
    report: &mut Report,
) {
    match report.type_def(ty) {
        Some(def) if fits(def) => {}
        Some(_) => report.fail(rule, expected(), format!("t{}, another type", ty.0)),
        None => _ = report.check_known([ValueType::Ref(ty)], || "a host type".into()),
    }
}

/// Checks that a tensor's object has the array of its elements and then its extents.
fn check_host_tensor(ty: &HostType, slice: &HostType, tensor: TypeId, report: &mut Report) {
    let (mut inner, rank) = (slice, ty.rank());
    while let HostType::Tensor { slice, .. } = inner {
        inner = slice;
    }
    let HostType::Array { array, .. } = inner else {
        report.fail(Rule::InterfaceTensor, "slices that are arrays or tensors".into(), slice.to_string());
        return;
    };
    let mut fields = vec![ValueType::Ref(*array)];
    fields.extend(std::iter::repeat_n(ValueType::Int, rank));
    let is_tensor = |def: &TypeDef| matches!(def, TypeDef::Shaped(found) if *found == fields);
    let expected = || format!("a shaped type of {}", list(&fields));
    check_heap_type(tensor, is_tensor, (Rule::InterfaceTensor, &expected), report);
}

fn check_host_array(element: &HostType, array: TypeId, report: &mut Report) {
    let flat = element.flatten(&report.module.data);
    let found = match report.type_def(array) {
        Some(TypeDef::Array(found)) => *found,
        Some(_) => {
            return report.fail(Rule::InterfaceArray, "an array".into(), format!("t{}, another kind of type", array.0));
        }
        None => {
            report.check_known([ValueType::Ref(array)], || "a host type".into());
            return;
        }
    };
    let (fits, expected) = match flat[..] {
        [first, ..] if Fields::of(&flat).row().is_some() => {
            let narrow = flat.len() <= limits::ROW_WIDTH_MAX;
            let rows = if flat.len() == 1 { String::new() } else { format!("rows of {} ", flat.len()) };
            (narrow && found == first, format!("{rows}elements of type {}", name(first)))
        }
        _ => {
            let fields = match found {
                ValueType::Ref(id) => report.type_def(id),
                _ => None,
            };
            let fits = matches!(fields, Some(TypeDef::Struct(fields)) if *fields == flat);
            (fits, format!("elements that are structs of {}", list(&flat)))
        }
    };
    if !fits {
        report.fail(Rule::InterfaceArray, expected, format!("t{}, an array of {}", array.0, name(found)));
    }
}

fn check_distinct<'a>(names: impl Iterator<Item = &'a str>, rule: Rule, report: &mut Report) {
    let mut seen = HashSet::new();
    for name in names {
        report.check_string(name);
        if !seen.insert(name) {
            report.fail(rule, "different names".into(), format!("{name:?} twice"));
        }
    }
}

/// Types in text, the first few of them.
pub(super) fn list(types: &[ValueType]) -> String {
    const SHOWN: usize = 16;
    let mut names: Vec<String> = types.iter().take(SHOWN).map(|&ty| name(ty)).collect();
    if types.len() > SHOWN {
        names.push(format!("and {} more", types.len() - SHOWN));
    }
    format!("({})", names.join(", "))
}
