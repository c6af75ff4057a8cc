//! Stretches of arithmetic with strong products, which native code writes as plain ones: against the interpreter, bit
//! for bit, on random code in which zeros meet infinities, loads stand between products, registers are used again, and
//! loops carry sums.

use dualvm::{Config, Engine, Jit, Module, Value};
use fastrand::Rng;
use std::fmt::Write;

const REALS: usize = 8;
/// Integer registers with numbers that are indices of rows, and so of elements.
const INDICES: usize = 4;
const ELEMENTS: usize = 8;

/// One of some registers.
fn register(rng: &mut Rng, bank: char, count: usize) -> String {
    format!("{bank}{}", rng.usize(..count))
}

/// An instruction that computes or loads something, or cuts what stands around it.
fn instruction(rng: &mut Rng, label: usize) -> String {
    let [d, a, b] = [(); 3].map(|()| register(rng, 'r', REALS));
    let [i, j, k] = [(); 3].map(|()| register(rng, 'i', INDICES));
    match rng.usize(..100) {
        0..35 => format!("smul {d}, {a}, {b}"),
        35..40 => format!("mul {d}, {a}, {b}"),
        40..52 => format!("add {d}, {a}, {b}"),
        52..56 => format!("sub {d}, {a}, {b}"),
        56..58 => format!("neg {d}, {a}"),
        58..60 => format!("max {d}, {a}, {b}"),
        60..63 => format!("mov {d}, {a}"),
        63..65 => format!("const {d}, {}", ["0.0", "1.5", "inf"][rng.usize(..3)]),
        65..69 => format!("select {d}, {i}, {a}, {b}"),
        // Places in rows are overwritten, too.
        69..72 => format!("lt {}, {a}, {b}", register(rng, 'i', INDICES + 2)),
        72..74 => format!("iconst {i}, {}", rng.usize(..4)),
        74..76 => format!("ixor {i}, {j}, {k}"),
        76..84 => format!("elem {d}, p0, {i}"),
        84..86 => format!("row i4, p0, {i}, 2\n elem {d}, p0, i4\n iadd i5, i4, i6\n elem {a}, p0, i5"),
        // Elements of another array that belong to an element of a row, as tangents in several directions do.
        86..88 => {
            let of = rng.choice(["i4", "i5"]).expect("there are some");
            format!(
                "row i8, p1, {i}, 6\n row i4, p0, {i}, 2\n iadd i5, i4, i6\n row i8, p1, {of}, 3
                 elem r5, p1, i8\n iadd i9, i8, i6\n elem r6, p1, i9\n iadd i9, i9, i6\n elem r7, p1, i9
                 smul r5, r5, {b}\n smul r6, r6, {b}\n smul r7, r7, {b}\n add r0, r0, r5\n add r1, r1, r6"
            )
        }
        88..90 => format!("elem {d}, p0, i5"),
        90..93 => format!("field {d}, p2, 0\n ifield {i}, p2, 1"),
        93..94 => format!("len i7, p0\n to_real {d}, i7"),
        94..96 => format!("struct_new p2 ({a}, {i}, p0)"),
        96..98 => format!("jump l{label}\n l{label}:"),
        _ => format!("branch {i}, l{label}, m{label}\n l{label}:\n smul {d}, {a}, {b}\n m{label}:"),
    }
}

/// A loop of one block, a few rounds, which carries sums of some registers side by side.
fn sums(rng: &mut Rng, label: usize) -> String {
    let mut body = Vec::new();
    while body.len() < rng.usize(2..16) {
        if rng.usize(..3) == 0 {
            let [i, a, b] = [register(rng, 'i', INDICES), register(rng, 'r', REALS), register(rng, 'r', REALS)];
            let op = rng.choice(["add", "add", "sub", "max"]).expect("there are some");
            body.push(format!(
                "row i8, p1, {i}, 4\n elem r4, p1, i8\n iadd i9, i8, i6\n elem r5, p1, i9\n iadd i9, i9, i6
                 elem r6, p1, i9\n iadd i9, i9, i6\n elem r7, p1, i9\n smul r4, r4, {a}\n smul r5, r5, {a}
                 smul r6, r6, {b}\n smul r7, r7, {b}\n {op} r0, r0, r4\n {op} r1, r1, r5\n add r2, r2, r6
                 add r3, r3, r7"
            ));
            continue;
        }
        let inst = instruction(rng, label);
        if !["struct_new", "jump", "branch"].iter().any(|other| inst.contains(other)) {
            body.push(inst);
        }
    }
    let (rounds, body) = (rng.usize(1..6), body.join("\n "));
    format!(
        "iconst i10, 0\n iconst i11, {rounds}\n jump h{label}\n h{label}:\n {body}
         iadd i10, i10, i6\n ilt i12, i10, i11\n branch i12, h{label}, e{label}\n e{label}:"
    )
}

/// A function of an array, of what real registers begin with, and of an index.
fn function(rng: &mut Rng) -> String {
    let list = |item: &dyn Fn(usize) -> String| (0..REALS).map(item).collect::<Vec<_>>().join(", ");
    let registers = list(&|n| format!("r{n}"));
    let (bank, types) = (list(&|_| "real".into()), list(&|_| "Real".into()));
    let params = list(&|n| format!("x{n} : Real"));
    let mut code = format!(
        "type t0 = array real
        type t1 = struct {{ real, int, t0 }}
        func f0 \"f\" (t0, {bank}, int, t0) -> ({bank})
         export (xs : Array Real @ t0, {params}, n : Int, ys : Array Real @ t0) -> ({types})
         regs {REALS} real, 13 int, t0, t0, t1 {{
         iconst i1, 1
         iconst i2, 2
         iconst i3, 3
         iconst i6, 1
         row i4, p0, i0, 2
         iadd i5, i4, i6
         iconst i7, 0
         struct_new p2 (r0, i0, p0)\n"
    );
    for label in 0..rng.usize(4..120) {
        let next = if rng.usize(..12) == 0 { sums(rng, label) } else { instruction(rng, label) };
        let _ = writeln!(code, " {next}");
    }
    code + &format!(" ret ({registers}) }}")
}

fn number(rng: &mut Rng, rare: usize) -> f64 {
    match rng.usize(..3 * rare) {
        0 => rng.choice([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300]).expect("there are some"),
        n if n < 2 * rare => rng.choice([0.0, -0.0, 1.0]).expect("there are some"),
        _ => rng.f64() - 0.5,
    }
}

fn each_real(value: &mut Value, visit: &mut impl FnMut(&mut f64)) {
    match value {
        Value::Real(x) => visit(x),
        Value::Reals(xs) => xs.iter_mut().for_each(visit),
        _ => {}
    }
}

fn engine(jit: Jit) -> Engine {
    let mut config = Config::default();
    config.jit = jit;
    Engine::new(config)
}

#[test]
fn random_stretches_give_the_same_bits_in_native_code() {
    let engines = [Jit::Off, Jit::Always].map(engine);
    let mut rng = Rng::with_seed(1);
    let mut finite = 0;
    let count = if cfg!(debug_assertions) { 150 } else { 400 };
    const CALLS: usize = 8;
    for seed in 0..count {
        let code = function(&mut rng);
        let modules = engines.each_ref().map(|engine| {
            Module::load(engine, "stretches.dvs", code.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{code}"))
        });
        for _ in 0..CALLS {
            let rare = rng.usize(1..20);
            let mut args = vec![Value::Reals((0..ELEMENTS).map(|_| number(&mut rng, rare)).collect())];
            args.extend((0..REALS).map(|_| Value::Real(number(&mut rng, rare))));
            args.push(Value::Int(rng.i64(0..4)));
            args.push(Value::Reals((0..3 * ELEMENTS).map(|_| number(&mut rng, rare)).collect()));
            // What derivatives of it are doesn't matter, but that they are the same, alone and side by side.
            let mut other = args.clone();
            other.iter_mut().for_each(|value| each_real(value, &mut |x| *x = number(&mut rng, rare)));
            let directions = [&args, &other, &args, &other, &other].map(|values| {
                values.iter().map(|value| if let Value::Int(_) = value { Value::Null } else { value.clone() }).collect()
            });
            let [interpreted, native] = modules.each_ref().map(|module| {
                let function = module.function("f").expect("it is exported");
                let value = function.call(&args).unwrap_or_else(|error| panic!("{error}\n{code}"));
                let alone = |tangents: &Vec<Value>| {
                    function.jvp(&args, tangents).unwrap_or_else(|error| panic!("{error}\n{code}")).1
                };
                let tangents: Vec<Value> = directions[..2].iter().map(alone).collect();
                let (_, together) = function.jvps(&args, &directions).unwrap_or_else(|error| panic!("{error}\n{code}"));
                for (n, tangent) in [0, 1, 0, 1, 1].into_iter().zip(together) {
                    assert_eq!(format!("{tangent:?}"), format!("{:?}", tangents[n]), "{seed}: {args:?}\n{code}");
                }
                format!("{value:?} {tangents:?}")
            });
            assert_eq!(native, interpreted, "{seed}: {args:?}\n{code}");
            finite += usize::from(!native.contains("NaN"));
        }
        assert_eq!(modules[1].compile_failures(), [""; 0]);
    }
    let all = count * CALLS;
    assert!((all / 10..9 * all / 10).contains(&finite), "{finite} of {all}");
}

#[test]
fn a_stretch_of_few_instructions_on_many_registers_is_compiled() {
    const PARAMS: usize = 400;
    let list = |item: &dyn Fn(usize) -> String| (0..PARAMS).map(item).collect::<Vec<_>>().join(", ");
    let (bank, params) = (list(&|_| "real".into()), list(&|n| format!("x{n} : Real")));
    let code = format!(
        "func f0 \"f\" ({bank}) -> (real) export ({params}) -> Real regs {PARAMS} real {{
         smul r398, r0, r399
         smul r1, r398, r399
         smul r2, r1, r0
         add r0, r2, r399
         ret (r0) }}"
    );
    let module = Module::load(&engine(Jit::Always), "many.dvs", code.as_bytes()).expect("it is a module");
    let function = module.function("f").expect("it is exported");
    let mut args = vec![Value::Real(0.0); PARAMS];
    args[PARAMS - 1] = Value::Real(f64::INFINITY);
    assert_eq!(function.call(&args).expect("it returns"), Value::Real(f64::INFINITY));
    assert_eq!(module.compiled().len(), 1);
}
