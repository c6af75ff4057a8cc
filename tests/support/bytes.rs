//! What fuzzers do with bytes: take them for a module, or for the choices of a generator, and compare the engines.

use super::dice::{Dice, number};
use super::engines::{Engines, Loaded, Mode, Outcome, limits_within};
use super::forms;
use super::generate::{Style, program_up_to};
use super::mutate::{Mutant, mutant};
use super::sources::sized_source;
use dualvm_vm::binary;
use dualvm_vm::engine::Limits;
use dualvm_vm::module::{DataDef, Function, HostType, ModuleDef};
use dualvm_vm::value::Value;

/// Small enough for thousands of runs per second, and large enough for heaps that are evacuated and tapes of many
/// slabs.
pub(crate) fn limits() -> Limits {
    Limits {
        fuel: 30_000,
        allocated_bytes: 8 << 20,
        live_bytes: 8 << 20,
        tape_bytes: 8 << 20,
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
    let Ok(loaded) = engines.load(&def, number(bytes)) else { return Ok(false) };
    run_exports(&def, &loaded, &mut Dice::with_seed(bytes.len() as u64))
}

/// Runs one or two of the exported functions with arguments of these choices; says whether there is one that could be
/// run.
fn run_exports(def: &ModuleDef, loaded: &Loaded, dice: &mut Dice) -> Result<bool, String> {
    let mut exported: Vec<&Function> = def.functions.iter().filter(|function| function.interface.is_some()).collect();
    let wanted = if dice.one_in(3) { 2 } else { 1 };
    while exported.len() > wanted {
        exported.swap_remove(dice.usize(..exported.len()));
    }
    let mut any = false;
    for function in exported {
        let Some(interface) = &function.interface else { continue };
        let args: Option<Vec<Value>> =
            interface.params.iter().map(|(_, ty)| argument(ty, &def.data, dice, 0)).collect();
        if let Some(args) = args {
            run_function(loaded, &function.name, &args, dice)?;
            any = true;
        }
    }
    Ok(any)
}

/// Runs a function: its value, its gradient, now and then its Jacobian, and often once more at a limit that stops it.
fn run_function(loaded: &Loaded, name: &str, args: &[Value], dice: &mut Dice) -> Result<(), String> {
    let called = loaded.run(name, args, Mode::Call, &limits())?;
    let outcome = loaded.run(name, args, Mode::Gradient, &limits())?;
    if dice.one_in(4) {
        loaded.run(name, args, Mode::Jacobian, &limits())?;
    }
    if dice.bool() {
        let choose = |n: u64| if n == 0 { 0 } else { dice.usize(..n as usize) as u64 };
        let used = [&outcome, &called].into_iter().find_map(|outcome| match outcome {
            Outcome::Done { stats, .. } => Some(stats),
            _ => None,
        });
        let tighter = match used {
            Some(stats) => limits_within(stats, 6, choose),
            None => vec![Limits { fuel: dice.usize(..limits().fuel as usize) as u64, ..limits() }],
        };
        let mode = dice.pick(&[Mode::Call, Mode::Gradient, Mode::Gradient, Mode::Jacobian]);
        loaded.run(name, args, mode, &dice.pick(&tighter))?;
    }
    Ok(())
}

/// A mutant of these choices.
pub(crate) fn mutated(bytes: &[u8], engines: &mut Engines) -> Result<bool, String> {
    let mut dice = Dice::with_bytes(bytes);
    let mutant = mutant(&mut dice);
    check_mutant(&mutant, &mut dice, number(bytes), engines).map_err(|error| format!("{error}\n{}", mutant.shown()))
}

/// A mutant comes back from its forms as it is, whatever the verifier says of it; what it accepts runs alike on all
/// engines. Says whether it could be run.
pub(crate) fn check_mutant(
    mutant: &Mutant,
    dice: &mut Dice,
    number: u64,
    engines: &mut Engines,
) -> Result<bool, String> {
    if dice.one_in(if mutant.verdict.is_err() { 2 } else { 5 }) {
        forms::check(&mutant.def, &mutant.verdict)?;
    }
    if mutant.verdict.is_err() {
        return Ok(false);
    }
    let loaded = engines.load(&mutant.def, number).map_err(|errors| format!("verified twice: {}", errors[0]))?;
    run_exports(&mutant.def, &loaded, dice)
}

/// An argument of a type, if one is found that isn't too deep.
pub(crate) fn argument(ty: &HostType, data: &[DataDef], dice: &mut Dice, depth: u32) -> Option<Value> {
    if depth > 20 {
        return None;
    }
    const REALS: [f64; 6] = [0.0, -0.0, 1.0, f64::INFINITY, f64::NAN, 1e300];
    const INTS: [i64; 6] = [40, 300, i64::MIN, i64::MAX, 1 << 32, -3];
    let (special, len) = (dice.one_in(12), dice.usize(0..5));
    let (real, int) =
        if special { (dice.pick(&REALS), dice.pick(&INTS)) } else { (4.0 * dice.f64() - 2.0, dice.i64(-1..6)) };
    let mut part = |ty: &HostType| argument(ty, data, dice, depth + 1);
    Some(match ty {
        HostType::Real => Value::Real(real),
        HostType::Int => Value::Int(int),
        HostType::Bool => Value::Bool(int % 2 == 0),
        HostType::Tuple(parts) => Value::Tuple(parts.iter().map(part).collect::<Option<_>>()?),
        HostType::Record(parts) => {
            Value::Record(parts.iter().map(|(name, ty)| Some((name.clone(), part(ty)?))).collect::<Option<_>>()?)
        }
        HostType::Array { element, .. } | HostType::List { element, .. } => {
            Value::Array((0..len).map(|_| part(element)).collect::<Option<_>>()?)
        }
        HostType::Tensor { .. } => {
            // Few slices: there may be dozens of dimensions.
            let columns = if ty.rank() == 2 { len % 3 } else { 1 };
            let row = |part: &mut dyn FnMut(&HostType) -> Option<Value>| {
                let element = ty.element()?;
                let row = Value::Array((0..columns).map(|_| part(element)).collect::<Option<_>>()?);
                Some((2..ty.rank()).fold(row, |slice, _| Value::Array(vec![slice])))
            };
            Value::Array((0..len).map(|_| row(&mut part)).collect::<Option<_>>()?)
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
    // Small programs are run so much faster that more is found with them.
    let statements = if dice.one_in(80) { 100 } else { dice.usize(2..14) };
    let program = program_up_to(statements, &mut dice, style);
    by_way_of_bytes(&program.module, &program.args, &mut dice, number(bytes), engines)
        .map_err(|error| format!("{error}\n{}", program.shown()))
}

/// A source of these choices.
pub(crate) fn sources(bytes: &[u8], engines: &mut Engines) -> Result<bool, String> {
    let mut dice = Dice::with_bytes(bytes);
    let percent = if dice.one_in(40) { 100 } else { dice.i64(5..30) };
    let (source, args) = sized_source(percent, dice, None);
    let def = dualvm_frontend::compile("fuzz.dual", &source).map_err(|error| format!("{error}\n{source}"))?;
    by_way_of_bytes(&def, &args, &mut Dice::with_seed(number(bytes)), number(bytes), engines)
        .map_err(|error| format!("{error}\n{source}"))
}

fn by_way_of_bytes(
    def: &ModuleDef,
    args: &[Value],
    dice: &mut Dice,
    number: u64,
    engines: &mut Engines,
) -> Result<bool, String> {
    let bytes = binary::encode(def).map_err(|error| format!("can't be encoded: {error}"))?;
    let def = binary::decode(&bytes).map_err(|error| format!("can't be decoded: {error}"))?;
    let loaded = engines.load(&def, number).map_err(|errors| format!("the verifier refuses: {}", errors[0]))?;
    run_function(&loaded, "main", args, dice)?;
    Ok(true)
}
