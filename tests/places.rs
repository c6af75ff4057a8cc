//! Where errors are: in the text as it was written, whatever was copied into its caller.

use dualvm::vm::module::{Body, ModuleDef};
use dualvm::{Config, Engine, Jit, Module, Trap, Value};
use dualvm_vm::isa::Op;
use std::collections::BTreeSet;
use std::path::Path;

/// Whether a run can stop at an instruction, or call what stops.
fn may_stop(op: Op) -> bool {
    let is_harmless = matches!(
        op,
        Op::Ret | Op::Jump | Op::Branch | Op::Switch | Op::VariantTag | Op::Payload | Op::IPayload | Op::PPayload
    );
    op.info().traps || !(op.is_scalar() || op.makes_constant() || is_harmless)
}

fn without_place(def: &ModuleDef) -> Vec<String> {
    let of = |name: &str, body: &Body| {
        let nowhere = |at: &usize| may_stop(body.code[*at].op) && body.location(*at as u32).is_none();
        let found: Vec<usize> = (0..body.code.len()).filter(nowhere).collect();
        found.into_iter().map(|at| format!("{name}: {at} {:?}", body.code[at].op)).collect::<Vec<_>>()
    };
    // What compares data is made by the compiler, and can only run into limits.
    let written = def.functions.iter().filter(|function| !function.name.starts_with("=="));
    written.flat_map(|function| of(&function.name, &function.body)).collect()
}

#[test]
fn whatever_can_stop_has_a_place() {
    let examples = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap();
    let mut texts: Vec<(String, String)> = examples
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "dual"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    let of_prelude = dualvm::frontend::prelude_examples().enumerate();
    let of_prelude = of_prelude.map(|(number, (name, text))| format!("def example{number} = {text} -- {name}\n"));
    let traps = dualvm::frontend::prelude_traps().enumerate();
    let traps = traps.map(|(number, (name, text))| format!("def trap{number} = {text} -- {name}\n"));
    texts.push(("prelude".to_owned(), of_prelude.chain(traps).collect()));
    let modules: BTreeSet<&str> = dualvm::frontend::library_examples().map(|(module, ..)| module).collect();
    let imports: String = modules.iter().map(|module| format!("import {module}\n")).collect();
    let of_library = dualvm::frontend::library_examples().enumerate();
    let of_library = of_library.map(|(number, (.., text))| format!("def example{number} = {text}\n"));
    texts.push(("operators.dual".to_owned(), OPERATORS.to_owned()));
    texts.push(("library".to_owned(), imports + &of_library.collect::<String>()));
    assert!(texts.len() > 20);
    let mut all = Vec::new();
    for (name, text) in texts {
        let def = dualvm::frontend::compile(&name, &text).unwrap_or_else(|errors| panic!("{errors}"));
        all.extend(without_place(&def).into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Functions that nobody has written: what derivatives are taken of.
const OPERATORS: &str = "\
def cube (x : Real) : Real = x * x * x
def again (x : Real) : Real = derivative (checkpoint cube) x
def twice (xs : Array Real) : Array Real = grad (checkpoint (\\ys -> ys[0] * ys[1])) xs
def by_rule (x : Real) : Real = derivative (custom_vjp cube (\\x c -> 3 * x * x * c)) x
def forward (x : Real) : Real = derivative (custom_jvp cube (\\x t -> 3 * x * x * t)) x
def nested (x : Real) : Real = derivative (derivative (checkpoint cube)) x
";

const PROGRAM: &str = "\
def pick (a : Array Real) (i : Int) : Real = a[i]
def dots (xs : Array Real) (n : Int) : Real =
  loop total = 0.0 for i < n do total + pick xs i * 2
def outer (xs : Array Real) : Real = dots xs 5 + 1

def first (xs : List Real) : Real = head (filter (> 0) xs)

def rec (n : Int) (xs : Array Real) : Real =
  if n == 0 then pick xs 9 else 1 + rec (n - 1) xs

def checked (x : Real) : Real = if x < 0 then error \"negative\" else sqrt x
def roots (xs : List Real) : Real = fold (\\acc x -> acc + checked x) 0.0 xs

def both (xs : Array Real) : Real =
  let (a, b) = outer xs |*| sum xs in
  a + b

def inner (xs : Array Real) : Array Real = grad (\\ys -> pick ys 1 * pick ys 2) xs
def slope (xs : Array Real) : Real = sum (inner xs)

def later (x : Real) : Real = custom_vjp (\\x -> x * x) (\\x c -> if x > 1 then error \"too far\" else c) x
def way_back (x : Real) : Real = 3 * later x
";

/// The lines of a trap below its message.
fn frames(trap: &Trap) -> Vec<String> {
    trap.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_chain_of_calls_is_as_it_was_written() {
    let numbers = |numbers: &[f64]| Value::Array(numbers.iter().copied().map(Value::Real).collect());
    let pick = ["in pick at p.dual:1:46", "in dots at p.dual:3:41", "in outer at p.dual:4:38"];
    let cases: [(&str, Vec<Value>, &[&str]); 6] = [
        ("outer", vec![numbers(&[1.0, 2.0])], &pick),
        ("first", vec![numbers(&[-1.0])], &["in head at prelude/collections.dual", "in first at p.dual:6:37"]),
        (
            "rec",
            vec![Value::Int(2), numbers(&[1.0])],
            &["in pick at p.dual:1:46", "in rec at p.dual:9:18", "in rec at p.dual:9:37", "in rec at p.dual:9:37"],
        ),
        (
            "roots",
            vec![numbers(&[1.0, -2.0])],
            &[
                "in checked at p.dual:11:47",
                "in roots.lambda at p.dual:12:59",
                "in fold at prelude/collections.dual",
                "in roots at p.dual:12:37",
            ],
        ),
        ("both", vec![numbers(&[1.0, 2.0])], &[&pick[..], &["in both at p.dual:15:16"]].concat()),
        (
            "slope",
            vec![numbers(&[1.0, 2.0])],
            &[
                "in pick at p.dual:1:46",
                "in inner.lambda at p.dual:18:69",
                "in grad at prelude/derivatives.dual",
                "in inner at p.dual:18:44",
                "in slope at p.dual:19:43",
            ],
        ),
    ];
    for jit in [Jit::Off, Jit::Always] {
        let mut config = Config::default();
        config.jit = jit;
        let module = Module::from_source(&Engine::new(config), "p.dual", PROGRAM).unwrap();
        for (name, args, expected) in &cases {
            let function = module.function(name).unwrap();
            let found = [function.call(args).unwrap_err(), function.value_and_grad(args).unwrap_err()]
                .map(|error| frames(error.trap().unwrap()));
            for found in found {
                let fits = |(found, expected): (&String, &&str)| found.starts_with(expected);
                assert!(found.len() >= expected.len() && found.iter().zip(*expected).all(fits), "{name}: {found:#?}");
            }
        }
    }
}

#[test]
fn a_trap_on_the_way_back_has_a_place() {
    let module = Module::from_source(&Engine::default(), "p.dual", PROGRAM).unwrap();
    let error = module.function("way_back").unwrap().value_and_grad(&[Value::Real(2.0)]).unwrap_err();
    let frames = frames(error.trap().unwrap());
    assert!(frames[0].starts_with("in later.lambda at p.dual:21:"), "{frames:?}");
}
