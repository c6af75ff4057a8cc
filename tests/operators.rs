//! Programs with derivative operators whose outcome is known, in `tests/operators`, on all engines.
//!
//! A definition without parameters is `true`. A comment `-- grad f 3 => 12.0` is a gradient with respect to one real,
//! `-- fails: f` a call that traps. The reference must find definitions true, too, except for those that are said to be
//! `-- not linear: f`, whose rules for derivatives are only what reverse mode makes of them.

mod support;

use dualvm_vm::engine::{Config, Engine, Jit, Limits, Module};
use dualvm_vm::module::{HostType, ModuleDef};
use dualvm_vm::trap::TrapKind;
use dualvm_vm::value::Value;
use support::dual_trees::Tree;
use support::engines::{Engines, Mode, Outcome};
use support::reference::{Val, run};

/// Checks the programs of a file. Returns how many there were.
fn check(name: &str, number: u64) -> usize {
    let path = format!("{}/tests/operators/{name}", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(&path).expect("the file can be read");
    let def = dualvm_frontend::compile(name, &source).unwrap_or_else(|errors| panic!("{errors}"));
    let loaded = Engines::all().load(&def, number).unwrap_or_else(|errors| panic!("{name}: {}", errors[0]));
    let mut checked = 0;
    for function in &def.functions {
        let Some(interface) = &function.interface else { continue };
        if !interface.params.is_empty() || interface.result != HostType::Bool {
            continue;
        }
        let what = &function.name;
        let found = loaded.run(what, &[], Mode::Call, &Limits::default());
        match found.unwrap_or_else(|error| panic!("{name}: {what}: {error}")) {
            Outcome::Done { value, .. } => assert_eq!(value, Value::Bool(true), "{name}: {what}"),
            other => panic!("{name}: {what}: {other:?}"),
        }
        if !source.contains(&format!("-- not linear: {what}\n")) {
            assert_true_by_dual_trees(&def, what);
        }
        checked += 1;
    }
    for line in source.lines().filter_map(|line| line.strip_prefix("-- grad ")) {
        let Some((call, expected)) = line.split_once(" => ") else { continue };
        let (what, at) = call.split_once(' ').expect("a call has an argument");
        let (at, expected): (f64, f64) = (at.parse().expect("a number"), expected.parse().expect("a number"));
        let found = loaded.run(what, &[Value::Real(at)], Mode::Gradient, &Limits::default());
        let outcome = found.unwrap_or_else(|error| panic!("{name}: {call}: {error}"));
        support::assert_all_close(&outcome.gradient(), &[expected], 1e-12);
        checked += 1;
    }
    for what in source.lines().filter_map(|line| line.strip_prefix("-- fails: ")) {
        let found = loaded.run(what, &[], Mode::Call, &Limits::default());
        let found = found.unwrap_or_else(|error| panic!("{name}: {what}: {error}"));
        assert!(matches!(found, Outcome::Trap(_)), "{name}: {what}: {found:?}");
        checked += 1;
    }
    checked
}

/// Asserts that a definition is true for the reference, too, which computes all derivatives by nested forward mode.
#[track_caller]
fn assert_true_by_dual_trees(def: &ModuleDef, what: &str) {
    const STEPS_MAX: u64 = 10_000_000;
    let func = def.function(what).expect("it is exported").0.index();
    let by_trees = || match run::<Tree>(def, func, Vec::new(), STEPS_MAX) {
        Ok((results, _)) => matches!(results[..], [Val::Int(1)]),
        Err(stop) => panic!("{what}: by trees of dual numbers: {stop:?}"),
    };
    // It recurses as deep as the program.
    let is_true = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(1 << 30).spawn_scoped(scope, by_trees);
        thread.expect("a thread can be started").join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(is_true, "{what}: not by trees of dual numbers");
}

#[test]
fn operators_nest_in_all_mixes() {
    assert!(check("nests.dual", 0) > 15);
}

#[test]
fn operators_work_on_all_kinds_of_data() {
    assert!(check("data.dual", 1) > 15);
}

#[test]
fn what_is_detached_is_constant() {
    assert!(check("detached.dual", 2) > 8);
}

#[test]
fn records_of_all_depths_have_a_place_in_profiles() {
    let source = "def cube (x : Real) : Real = loop y = x for _ < 2 do y * x\n\
                  def f (x : Real) : Real = checkpoint (grad cube) x + derivative cube x\n";
    let def = dualvm_frontend::compile("profile.dual", source).unwrap_or_else(|errors| panic!("{errors}"));
    let function = support::load(def).function("f").expect("it is exported");
    let options = dualvm_vm::engine::CallOptions::default();
    let profile = function.profile(&[Value::Real(2.0)], &options).expect("nothing stops it");
    let reruns = profile.sites.iter().find(|usage| usage.site == dualvm_vm::profile::Site::Reruns);
    assert!(reruns.is_some_and(|usage| usage.records == 1 && usage.tape_bytes > 100), "{profile:?}");
    let sum = |of: fn(&dualvm_vm::profile::SiteUsage) -> u64| profile.sites.iter().map(of).sum::<u64>();
    assert_eq!(sum(|usage| usage.tape_bytes), profile.stats.tape_bytes);
}

#[test]
fn checkpoints_change_nothing() {
    assert!(check("checkpoints.dual", 6) > 28);
}

#[test]
fn pullbacks_are_functions() {
    assert!(check("pullbacks.dual", 9) > 35);
}

#[test]
fn programs_give_derivatives() {
    assert!(check("custom.dual", 10) > 55);
}

#[test]
fn hessians_and_jacobians_are_those_by_hand() {
    assert!(check("hessians.dual", 6) > 45);
}

#[test]
#[cfg_attr(miri, ignore = "a matter of when threads take tasks, which takes many runs")]
fn forks_that_are_not_recorded_leave_the_tape_as_it_is() {
    // While the fork in the checkpoint waits for a task of its own, its thread runs another one on its stacks.
    let source = "def f (x1 : Real) (n : Int) (x0 : Real) : Real =\n  \
                  x0 * softplus (checkpoint (\\(a, b, c) -> checkpoint (\\(d, e, g) -> x0) (par (n, x1, true)))\n    \
                  (n, x1 * x1, fst (true |*| (-0.92))))\n\
                  def slope (x1 : Real) (n : Int) (x0 : Real) : Real = grad (f x1 n) x0\n\
                  def main (x : Real) : Real = grad (slope 0.25 3) x\n";
    let def = dualvm_frontend::compile("forks.dual", source).unwrap_or_else(|errors| panic!("{errors}"));
    let mut config = Config::default();
    (config.threads, config.jit) = (3, Jit::Off);
    let module = Module::new(&Engine::new(config), def).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let main = module.function("main").expect("it is exported");
    for _ in 0..5000 {
        assert_eq!(main.call(&[Value::Real(1.1)]), Ok(Value::Real(1.7066270786925077)));
    }
}

#[test]
fn functions_that_call_others_have_derivatives() {
    assert!(check("calls.dual", 6) > 23);
}

/// Asserts that a call ends with this trap on all engines, soon.
#[track_caller]
fn assert_trap(source: &str, kind: &TrapKind) {
    assert_trap_on(Engines::all(), source, kind);
}

#[track_caller]
fn assert_trap_on(mut engines: Engines, source: &str, kind: &TrapKind) {
    let def = dualvm_frontend::compile("orders.dual", source).unwrap_or_else(|errors| panic!("{errors}"));
    let loaded = engines.load(&def, 3).unwrap_or_else(|errors| panic!("{}", errors[0]));
    match loaded.run("main", &[], Mode::Call, &Limits::default()).unwrap_or_else(|error| panic!("{error}")) {
        Outcome::Trap(trap) => {
            assert_eq!(&trap.kind, kind);
            assert!(trap.to_string().contains("\n  in "), "it has no place: {trap}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_than_eight_derivatives_are_a_trap() {
    nested_derivatives("derivative", 8);
}

#[test]
fn more_than_nine_gradients_are_a_trap() {
    // The innermost one is at depth 0.
    nested_derivatives("grad", 9);
}

/// Nests an operator so often, and once more.
#[track_caller]
fn nested_derivatives(operator: &str, most: usize) {
    let nested = |order: usize| {
        // Derivatives of what runs tasks aren't written as code.
        let mut source = "def power (n : Int) (x : Real) : Real =\n  \
                            if n == 0 then 1 else let (a, b) = par (x, power (n - 1) x) in a * b\n\
                          def d0 (x : Real) : Real = power 9 x\n"
            .to_owned();
        for n in 1..=order {
            source += &format!("def d{n} (x : Real) : Real = {operator} d{} x\n", n - 1);
        }
        // 9! · 2 for the eighth.
        source + &format!("def main = d{order} 2.0 == {}\n", if order == 8 { "725760.0" } else { "362880.0" })
    };
    let def = dualvm_frontend::compile("orders.dual", &nested(most)).unwrap_or_else(|errors| panic!("{errors}"));
    // Code for numbers of hundreds of components takes seconds to compile: once is enough.
    let loaded = Engines::new().load(&def, 4).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let found = loaded.run("main", &[], Mode::Call, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(found, Outcome::Done { value: Value::Bool(true), .. }), "{found:?}");
    assert_trap_on(Engines::new(), &nested(most + 1), &TrapKind::OrderTooHigh);
}

#[test]
fn derivatives_that_are_written_out_may_be_of_any_order() {
    let mut source = "def d0 (x : Real) : Real = exp (2 * x)\n".to_owned();
    for n in 1..=16 {
        let operator = if n % 3 == 0 { "grad" } else { "derivative" };
        source += &format!("def d{n} (x : Real) : Real = {operator} d{} x\n", n - 1);
    }
    source += "def main = d16 0.0 == 65536.0\n";
    let def = dualvm_frontend::compile("orders.dual", &source).unwrap_or_else(|errors| panic!("{errors}"));
    let loaded = Engines::all().load(&def, 4).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let found = loaded.run("main", &[], Mode::Call, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(found, Outcome::Done { value: Value::Bool(true), .. }), "{found:?}");
}

#[test]
fn code_that_would_grow_without_bound_is_a_trap() {
    // 200 products in a row, 3^8 times as many.
    let mut source = "def f (x : Real) : Real =\n  let y0 = x in\n".to_owned();
    for n in 1..200 {
        source += &format!("  let y{n} = sin (y{} * x) * y{} in\n", n - 1, n - 1);
    }
    source += "  y199\n";
    for n in 1..=8 {
        let inner = if n == 1 { "f".to_owned() } else { format!("d{}", n - 1) };
        source += &format!("def d{n} (x : Real) : Real = derivative {inner} x\n");
    }
    source += "def main = d8 0.5 == 0.0\n";
    // Two derivatives are code, and the others are taken of that.
    assert_trap(&source, &TrapKind::TooLargeToDerive { order: 6 });
}

/// Calls a function of one real on one thread, interpreted.
fn call(source: &str, name: &str, x: f64, limits: Limits) -> Result<f64, TrapKind> {
    let def = dualvm_frontend::compile("limits.dual", source).unwrap_or_else(|errors| panic!("{errors}"));
    let function = support::load(def).function(name).expect("it is exported");
    let options = dualvm_vm::engine::CallOptions::with_limits(limits);
    match function.call_with(&[Value::Real(x)], &options) {
        Ok((Value::Real(y), _)) => Ok(y),
        Err(dualvm_vm::engine::RunError::Trap(trap)) => Err(trap.kind),
        other => panic!("{other:?}"),
    }
}

#[test]
fn code_that_only_moves_numbers_has_a_bound_too() {
    // Of each instruction there are 2^8, none of which computes anything.
    let mut source = "func \"d0\" (real) -> (real)\n  regs 2 real\n{\n".to_owned();
    source += &"  const r1, 1.5\n".repeat(10_000);
    source += "  ret (r0)\n}\n";
    for n in 1..=8 {
        source += &format!(
            "func \"d{n}\" (real) -> (real)\n  export (x : Real) -> Real\n  regs 3 real\n{{\n  const r1, 1\n  \
             jvp \"d{}\", 0 (r0, r1) -> (r1, r2)\n  ret (r2)\n}}\n",
            n - 1
        );
    }
    let module = support::assemble(&source);
    let call =
        |name: &str| support::load(module.clone()).function(name).expect("it is exported").call(&[Value::Real(2.0)]);
    assert_eq!(call("d7").expect("there is room"), Value::Real(0.0));
    match call("d8") {
        Err(dualvm_vm::engine::RunError::Trap(trap)) => {
            assert_eq!(trap.kind, TrapKind::TooLargeToDerive { order: 8 });
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn backtraces_say_where_operators_stand() {
    // The operators are in the prelude, some written out in place; the last frame is who uses them.
    let source = "def f (x : Real) : Real = if x < 0 then f (x + 1) + x else [| x |][3]\n\
                  def forward (x : Real) : Real = derivative f x\n\
                  def reverse (x : Real) : Real =\n  grad f x\n\
                  def straight (x : Real) : Real = [| x |][3]\n\
                  def forward_of_straight (x : Real) : Real = derivative straight x\n";
    let def = dualvm_frontend::compile("places.dual", source).unwrap_or_else(|errors| panic!("{errors}"));
    for (name, place) in [("forward", "2:33"), ("reverse", "4:3"), ("forward_of_straight", "6:45")] {
        let error = support::load(def.clone()).function(name).expect("it is exported").call(&[Value::Real(1.0)]);
        let shown = error.expect_err("it traps").to_string();
        assert!(shown.ends_with(&format!("in {name} at places.dual:{place}")), "{shown}");
    }
}

#[test]
fn registers_with_too_large_numbers_at_a_depth_are_a_trap() {
    // r2047 has a component at depth 5 that no register has the number of.
    let body = |rest: &str| format!("regs 2049 real, 3 int {{\n{rest}}}\n");
    let mut source = format!(
        "func \"h0\" (real, int) -> (real) {}",
        body(
            "branch i0, go, stop\nstop:\nret (r0)\ngo:\niconst i1, 1\nisub i0, i0, i1\nmul r2047, r0, r0\n\
             fork 1\ntask \"h0\" (r2047, i0) -> (r2046)\nsin r2046, r2047\nmul r1, r2046, r2047\nret (r1)\n"
        )
    );
    for n in 1..=5 {
        source += &format!(
            "func \"h{n}\" (real, int) -> (real) export (x : Real, n : Int) -> Real regs 4 real, 1 int {{\n\
             const r1, 1.0\njvp \"h{}\", 0 (r0, i0, r1) -> (r2, r3)\nret (r3) }}\n",
            n - 1
        );
    }
    let function = support::load(support::assemble(&source)).function("h5").expect("it is exported");
    match function.call(&[Value::Real(0.3), Value::Int(1)]) {
        Err(dualvm_vm::engine::RunError::Trap(trap)) => {
            assert_eq!(trap.kind, TrapKind::TooLargeToDerive { order: 5 });
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn tangents_have_no_negative_zeros() {
    let source = "def given (xs : Array Real) (ts : Array Real) : Real = let (_, t) = jvp (\\a -> a) xs ts in 1.0 / t[0]\n\
                  def made (xs : Array Real) (ts : Array Real) : Real =\n  \
                  let (_, t) = jvp (\\a -> [| x * 2.0 for x in a |]) xs ts in 1.0 / t[0]\n\
                  def moved (x : Real) (t : Real) : Real = 1.0 / snd (jvp (\\a -> a) x t)\n";
    let def = dualvm_frontend::compile("zeros.dual", source).unwrap_or_else(|errors| panic!("{errors}"));
    let module = support::load(def);
    let call = |name: &str, args: [Value; 2]| module.function(name).expect("it is exported").call(&args);
    let arrays = || [Value::Reals(vec![1.0]), Value::Reals(vec![-0.0])];
    assert_eq!(call("given", arrays()), Ok(Value::Real(f64::INFINITY)));
    assert_eq!(call("made", arrays()), Ok(Value::Real(f64::INFINITY)));
    assert_eq!(call("moved", [Value::Real(1.0), Value::Real(-0.0)]), Ok(Value::Real(f64::INFINITY)));
}

#[test]
fn what_is_written_out_uses_the_same_registers_again() {
    // A frame of a recursion with twelve operators in a branch that isn't taken.
    let derivatives: Vec<String> = (0..12).map(|n| format!("derivative f (y + {n}.0)")).collect();
    let source = format!(
        "def f (x : Real) : Real = sin x * exp x + sin (2 * x) * exp (3 * x) + sin (4 * x) * exp (5 * x)\n\
         def rec (n : Int) (x : Real) : Real =\n  if n == 0 then x\n  \
         else let y = rec (n - 1) (x * 0.5) in if y == 0.123456 then {} else y * 0.5 + 1\n\
         def main (x : Real) : Real = rec 10000 x\n",
        derivatives.join(" + ")
    );
    let limits = Limits { live_bytes: 12 << 20, ..Limits::default() };
    assert_eq!(call(&source, "main", 1.0, limits), Ok(2.0));
}

#[test]
fn instructions_have_the_numbers_of_the_module_that_was_given() {
    let source = "type t0 = array real\n\
                  func \"f\" (t0, int) -> (real)\n  regs 2 real, 2 int, t0\n{\n  iconst i1, 0\n  elem r0, p0, i1\n  \
                  mul r0, r0, r0\n  elem r1, p0, i0\n  mul r0, r0, r1\n  ret (r0)\n}\n\
                  func \"main\" (t0, int) -> (t0)\n  export (xs : Array Real @t0, n : Int) -> Array Real @t0\n  \
                  regs 2 real, 1 int, t0, t0\n{\n  const r0, 1.0\n  vjp \"f\", 0 (p0, i0, r0) -> (r1, p1)\n  ret (p1)\n}\n";
    let module = support::assemble(source);
    let main = support::load(module.clone()).function("main").expect("it is exported");
    let call = |n| main.call(&[Value::Reals(vec![2.0, 3.0]), Value::Int(n)]);
    assert_eq!(call(1), Ok(Value::Reals(vec![12.0, 4.0])));
    match call(5) {
        Err(dualvm_vm::engine::RunError::Trap(trap)) => {
            assert_eq!(trap.kind, TrapKind::IndexOutOfBounds { index: 5, len: 2 });
            let frames: Vec<_> = trap.innermost.iter().map(|frame| (&*frame.function, frame.inst)).collect();
            assert_eq!(frames, [("main", 1)]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn sweeps_of_high_orders_have_enough_registers() {
    // The sweep of a record of 20 products computes more numbers than registers have numbers.
    let mut source = "def d0 (x : Real) : Real =\n  let y0 = x in\n".to_owned();
    for n in 1..=20 {
        source += &format!("  let y{n} = (y{} + {n}.0) * (0.05 * x + 1.0) in\n", n - 1);
    }
    source += "  y20\n";
    for n in 1..=7 {
        source += &format!("def d{n} (x : Real) : Real = derivative d{} x\n", n - 1);
    }
    source += "def reverse (x : Real) : Real = grad d6 x\n";
    let [forward, reverse] = ["d7", "reverse"].map(|name| call(&source, name, 0.3, Limits::default()));
    let (forward, reverse) = (forward.expect("it has a value"), reverse.expect("it has a value"));
    assert!(forward > 1.0);
    support::assert_all_close(&[reverse], &[forward], 1e-12);
}

#[test]
fn what_operators_leave_behind_is_freed() {
    // All that is allocated, 13 MB, is allocated inside of operators but for the gradients themselves.
    let source = "def f (x : Real) : Real =\n  loop x = x for _ < 100000 do \
                  grad (\\y -> sum (map (* y) [1.0, 2.0, 3.0])) x * 0.1\n";
    let limits = Limits { live_bytes: 12 << 20, ..Limits::default() };
    assert_eq!(call(source, "f", 1.0, limits).map(|y| (y * 10.0).round()), Ok(6.0));
}

#[test]
fn levels_have_one_limit_on_tape_together() {
    let source = "def work (n : Int) (x : Real) : Real = loop y = x for _ < n do sin y * x\n\
                  def nest (n : Int) (x : Real) : Real =\n  \
                  if n == 0 then x else grad (\\y -> work 20000 y + nest (n - 1) 1.5) x\n\
                  def f (x : Real) : Real = nest 3 x\ndef g (x : Real) : Real = nest 60 x\n";
    let limits = || Limits { tape_bytes: 4 << 20, ..Limits::default() };
    assert!(call(source, "f", 1.5, limits()).is_ok_and(f64::is_finite));
    assert_eq!(call(source, "g", 1.5, limits()), Err(TrapKind::Limit(dualvm_vm::trap::Limit::TapeBytes)));
}

/// Reverse over reverse in tasks: whose sweeps run again, fork in there, allocate and record.
const RERUNS: &str = "\
def cube (y : Real) : Real = y * y * y
def work (x : Real) : Real = grad (\\y -> sum (map (\\z -> cube z * x) [y, y * y, x])) (sin x)
def tasks (x : Real) : Real =
  let (a, b) = (loop s = x for _ < 20 do s + 0.1 * work s) |*| (loop s = x * x for _ < 30 do s + 0.01 * work s) in
  let (c, d) = work (a * b) |*| sum (pmap (\\z -> grad (\\y -> y * z * x) z) [| a, b, x, 1.0 |]) in
  a + b * c * d
def inner (x : Real) : Real = grad (\\y -> grad (\\z -> tasks (z * y)) (x * y)) x
def main (x : Real) : Real = grad tasks x
def unrecorded (x : Real) : Real = checkpoint (\\y -> grad tasks (y * x)) x
def cubes (x : Real) (ys : List Real) : List Real =
  custom_vjp (map cube) (\\ys cs -> zip_with (\\y c -> 3 * y * y * c * grad cube (c * x)) ys cs) ys
def squares (x : Real) (ys : List Real) : List Real =
  custom_jvp (map (^ 2)) (\\ys ts -> zip_with (\\y t -> 2 * y * t * grad cube x) ys ts) ys
def step (x : Real) (s : Real) : Real = grad (\\y -> sum (cubes x [y, x]) * sum (squares x [x, y])) s
def ruled (x : Real) : Real =
  let (a, b) = (loop s = x for _ < 20 do s + 1e-4 * step x s) |*| (loop s = x * x for _ < 30 do s + 1e-4 * step s x) in
  sum (cubes a [b, a]) * sum (pmap (\\z -> sum (squares b [z, a])) [| a, b, x |])
";

/// The least limit that a call keeps to, on all engines: with one less it ends with `trap`.
fn least(mode: Mode, name: &str, trap: dualvm_vm::trap::Limit, limits: impl Fn(u64) -> Limits) -> u64 {
    let def = dualvm_frontend::compile("reruns.dual", RERUNS).unwrap_or_else(|errors| panic!("{errors}"));
    let loaded = Engines::all().load(&def, 5).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let keeps = |limit: u64| {
        let found =
            loaded.run(name, &[Value::Real(0.7)], mode, &limits(limit)).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(found, Outcome::Done { .. }) || found.stopped_by(trap), "{limit}: {found:?}");
        matches!(found, Outcome::Done { .. })
    };
    let (mut fails, mut enough) = (0, 1u64 << 40);
    assert!(keeps(enough));
    while enough - fails > 1 {
        let middle = fails + (enough - fails) / 2;
        if keeps(middle) { enough = middle } else { fails = middle }
    }
    enough
}

#[test]
fn what_reruns_leave_behind_is_freed() {
    // Each of the reruns allocates and records some 10 KB.
    let source = "def f (x : Real) : Real = grad (\\x -> loop s = x for _ < 20000 do \
                  s + grad (\\y -> sum (map (\\z -> sin (z * y * x)) [1.0, 2.0, 3.0, 4.0, 5.0])) x * 1e-6) x\n";
    let limits = Limits { live_bytes: 24 << 20, tape_bytes: 40 << 20, ..Limits::default() };
    assert!(call(source, "f", 0.3, limits).is_ok_and(f64::is_finite));
}

#[test]
fn checkpoints_in_checkpoints_share_the_limit_on_memory() {
    let source = "def step (x : Real) : Real = x + 0.01 * sin (x * x)\n\
                  def nest (n : Int) (x : Real) : Real =\n  \
                  if n == 0 then x else checkpoint (\\y -> nest (n - 1) (step y)) x\n\
                  def f (x : Real) : Real = grad (nest 1000) x\n";
    let limits = |live_bytes| Limits { live_bytes, ..Limits::default() };
    assert!(call(source, "f", 0.5, limits(100 << 20)).is_ok_and(f64::is_finite));
    let too_much = Err(TrapKind::Limit(dualvm_vm::trap::Limit::LiveBytes));
    assert_eq!(call(source, "f", 0.5, limits(2 << 20)), too_much);
}

#[test]
fn reruns_share_the_limit_on_tape() {
    // The rerun records as much as the run itself, which had given its tape back.
    let source = "def work (n : Int) (x : Real) : Real = loop y = x for i < n do if i == n then y else sin y * x\n\
                  def f (n : Int) (x : Real) : Real = grad (\\x -> (grad (\\ys -> work n (ys[0] * x)) [| 1.0 |])[0] + work n x) x\n\
                  def small (x : Real) : Real = f 20000 x\ndef large (x : Real) : Real = f 1000000 x\n";
    let limits = || Limits { tape_bytes: 12 << 20, ..Limits::default() };
    assert!(call(source, "small", 0.9, limits()).is_ok_and(f64::is_finite));
    let too_much = Err(TrapKind::Limit(dualvm_vm::trap::Limit::TapeBytes));
    assert_eq!(call(source, "large", 0.9, limits()), too_much);
    // With the tape of a level around, of which the sweep knows nothing.
    let source = source.to_owned()
        + "def around (n : Int) (m : Int) (x : Real) : Real = grad (\\x -> let a = work n x in a + f m (detach a)) x\n\
           def beside (x : Real) : Real = around 10 60000 x\ndef above (x : Real) : Real = around 500000 60000 x\n\
           def alone (x : Real) : Real = around 500000 10 x\n";
    assert!(call(&source, "beside", 0.9, limits()).is_ok_and(f64::is_finite));
    assert!(call(&source, "alone", 0.9, limits()).is_ok_and(f64::is_finite));
    assert_eq!(call(&source, "above", 0.9, limits()), too_much);
}

#[test]
fn cotangents_of_shared_structures_count() {
    // 2^40 reals by position, in 41 objects.
    let code = "type t0 = variant { L { real }, N { t0, t0 } }\n\
                func \"dag\" (real) -> (t0)\n  regs 1 real, 4 int, t0\n{\n  variant_new p0, 0 (r0)\n  iconst i1, 0\n  \
                iconst i2, 1\n  iconst i0, 40\n  ilt i3, i1, i0\n  branch i3, next, end\nnext:\n  \
                variant_new p0, 1 (p0, p0)\n  iadd i1, i1, i2\n  ilt i3, i1, i0\n  branch i3, next, end\nend:\n  \
                ret (p0)\n}\nfunc \"main\" (real) -> (real)\n  export (x : Real) -> Real\n  regs 3 real, t0, t0\n{\n  \
                const r1, 1\n  call \"dag\" (r1) -> (p0)\n  vjp \"dag\", 0 (r0, p0) -> (p1, r2)\n  ret (r2)\n}\n";
    let def = dualvm_vm::text::parse(code, "dag.dvs").unwrap_or_else(|errors| panic!("{errors:?}"));
    let loaded = Engines::all().load(&def, 7).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let limits = Limits { tape_bytes: 10 << 20, ..Limits::default() };
    let found = loaded.run("main", &[Value::Real(2.0)], Mode::Call, &limits).unwrap_or_else(|error| panic!("{error}"));
    assert!(found.stopped_by(dualvm_vm::trap::Limit::TapeBytes), "{found:?}");
}

#[test]
fn reruns_use_exact_fuel() {
    let def = dualvm_frontend::compile("reruns.dual", RERUNS).unwrap_or_else(|errors| panic!("{errors}"));
    let loaded = Engines::all().load(&def, 8).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let used = |name: &str| {
        let function = loaded.function(name).expect("it is exported");
        let options = dualvm_vm::engine::CallOptions::default();
        let used = function.profile(&[Value::Real(0.7)], &options).expect("nothing stops it").stats.instructions;
        for (fuel, is_enough) in [(used, true), (used - 1, false), (used - used / 3, false)] {
            let limits = Limits { fuel, ..Limits::default() };
            let found = loaded.run(name, &[Value::Real(0.7)], Mode::Gradient, &limits);
            let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(found.stopped_by(dualvm_vm::trap::Limit::Fuel), !is_enough, "{name}, {fuel}: {found:?}");
        }
        used
    };
    // A rerun in a rerun takes more than the two.
    let (once, twice, unrecorded) = (used("main"), used("inner"), used("unrecorded"));
    assert!(once > 10_000 && twice > 2 * once && unrecorded > once, "{once}, {twice}, {unrecorded}");
    assert!(used("ruled") > 10_000);
}

#[test]
fn what_reruns_allocate_counts_exactly() {
    use dualvm_vm::trap::Limit;
    let bytes = |name: &str, mode| {
        least(mode, name, Limit::AllocatedBytes, |allocated_bytes| Limits { allocated_bytes, ..Limits::default() })
    };
    let (called, swept) = (bytes("main", Mode::Call), bytes("main", Mode::Gradient));
    assert!(called > 200 && swept > 2 * called, "{called}, {swept}");
    // Here the tasks of forks have reruns of their own.
    assert!(bytes("ruled", Mode::Call) > 10_000 && bytes("ruled", Mode::Gradient) > 10_000);
}
