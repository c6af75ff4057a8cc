//! What fuzzers do with bytes: take them for a module, or for the choices of a generator, and compare the engines.

use super::dice::Dice;
use super::engines::{Engines, Loaded, Mode};
use super::generate::{Style, program_from};
use super::sources::source_from;
use dualvm_vm::binary;
use dualvm_vm::engine::Limits;
use dualvm_vm::module::{DataDef, HostType, ModuleDef};
use dualvm_vm::value::Value;

/// Small enough for thousands of runs per second.
pub(crate) fn limits() -> Limits {
    Limits {
        fuel: 200_000,
        allocated_bytes: 64 << 20,
        live_bytes: 64 << 20,
        tape_bytes: 64 << 20,
        depth: 1000,
        ..Limits::default()
    }
}

/// A module in binary form; says whether it could be run.
pub(crate) fn decode(bytes: &[u8], engines: &mut Engines) -> Result<bool, String> {
    let Ok(def) = binary::decode(bytes) else { return Ok(false) };
    let again = binary::encode(&def).map_err(|error| format!("decoded, but can't be encoded: {error}"))?;
    if again != bytes {
        return Err("encodes to other bytes".into());
    }
    let Ok(loaded) = engines.load(&def) else { return Ok(false) };
    let mut dice = Dice::with_seed(bytes.len() as u64);
    let mut any = false;
    for function in &def.functions {
        let Some(interface) = &function.interface else { continue };
        let args: Option<Vec<Value>> =
            interface.params.iter().map(|(_, ty)| argument(ty, &def.data, &mut dice, 0)).collect();
        // The first function of a name is the one that the name means, whatever that is.
        let named = def.function(&function.name).is_some_and(|(_, found)| std::ptr::eq(found, function));
        if let (Some(args), true) = (args, named) {
            in_all_modes(&loaded, &function.name, &args)?;
            any = true;
        }
    }
    Ok(any)
}

fn in_all_modes(loaded: &Loaded, name: &str, args: &[Value]) -> Result<(), String> {
    for mode in [Mode::Call, Mode::Gradient, Mode::Jacobian] {
        loaded.run(name, args, mode, &limits())?;
    }
    Ok(())
}

/// An argument of a type, if one is found that isn't too deep.
pub(crate) fn argument(ty: &HostType, data: &[DataDef], dice: &mut Dice, depth: u32) -> Option<Value> {
    if depth > 20 {
        return None;
    }
    let mut part = |ty: &HostType| argument(ty, data, dice, depth + 1);
    Some(match ty {
        HostType::Real => Value::Real(4.0 * dice.f64() - 2.0),
        HostType::Int => Value::Int(dice.i64(-1..6)),
        HostType::Bool => Value::Bool(dice.bool()),
        HostType::Tuple(parts) => Value::Tuple(parts.iter().map(part).collect::<Option<_>>()?),
        HostType::Record(parts) => {
            Value::Record(parts.iter().map(|(name, ty)| Some((name.clone(), part(ty)?))).collect::<Option<_>>()?)
        }
        HostType::Array { element, .. } | HostType::List { element, .. } => {
            Value::Array((0..3).map(|_| part(element)).collect::<Option<_>>()?)
        }
        HostType::Data { data: id, .. } => {
            let (constructor, payload) = data.get(id.index())?.variants.first()?;
            Value::variant(constructor.clone(), part(payload)?)
        }
        // Types that are yet to be invented.
        _ => return None,
    })
}

/// A program of these choices, its binary form included.
pub(crate) fn structured(bytes: &[u8], engines: &mut Engines) -> Result<bool, String> {
    let mut dice = Dice::with_bytes(bytes);
    let style = dice.pick(&Style::ALL);
    let program = program_from(&mut dice, style);
    by_way_of_bytes(&program.module, &program.args, engines).map_err(|error| format!("{error}\n{}", program.shown()))
}

/// A source of these choices.
pub(crate) fn sources(bytes: &[u8], engines: &mut Engines) -> Result<bool, String> {
    let (source, args) = source_from(Dice::with_bytes(bytes), None);
    let def = dualvm_frontend::compile("fuzz.dual", &source).map_err(|error| format!("{error}\n{source}"))?;
    by_way_of_bytes(&def, &args, engines).map_err(|error| format!("{error}\n{source}"))
}

fn by_way_of_bytes(def: &ModuleDef, args: &[Value], engines: &mut Engines) -> Result<bool, String> {
    let bytes = binary::encode(def).map_err(|error| format!("can't be encoded: {error}"))?;
    let def = binary::decode(&bytes).map_err(|error| format!("can't be decoded: {error}"))?;
    let loaded = engines.load(&def).map_err(|errors| format!("the verifier refuses: {}", errors[0]))?;
    in_all_modes(&loaded, "main", args)?;
    Ok(true)
}
