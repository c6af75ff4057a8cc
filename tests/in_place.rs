//! Arrays that are changed in place: what that takes, and what of the machine around programs has to know of it.

use dualvm::{
    CallOptions, Config, Engine, ErrorKind, Function, HessianSparsity, JacobianSparsity, Jit, Limits, Module, Stats,
    TrapKind, Value,
};
use dualvm_vm::trap::Limit;
use std::time::{Duration, Instant};

/// Functions on an array, a number of rounds and a real.
fn function(config: Config, name: &str) -> Function {
    let text = format!(
        "type t0 = array real\ntype t1 = builder real\n
         ; each round replaces an element by a product
         func \"updates\" (t0, int, real) -> (real) export (xs : Array Real @t0, n : Int, x : Real) -> Real
         regs 2 real, 8 int, t0, t1 {{
         {THAW}
         iconst i4, 7\n iconst i5, 0
         next:\n get r1, p1, i1\n mul r1, r1, r0\n put p1, i1, r1\n iadd i1, i1, i4\n irem i1, i1, i3
         iadd i5, i5, i2\n ilt i6, i5, i0\n branch i6, next, end
         end:\n finish p0, p1\n iconst i1, 0\n elem r1, p0, i1\n ret (r1)\n}}
         ; nothing but the copy
         func \"thaw\" (t0, int, real) -> (t0) export (xs : Array Real @t0, n : Int, x : Real) -> Array Real @t0
         regs 1 real, 4 int, t0, t1 {{
         {THAW}
         finish p0, p1\n ret (p0)\n}}
         ; an element is pushed in each round, with room for one made before
         func \"grows\" (t0, int, real) -> (real) export (xs : Array Real @t0, n : Int, x : Real) -> Real
         regs 2 real, 5 int, t0, t1 {{
         iconst i1, 0\n iconst i2, 1\n build p1, i1\n mov r1, r0
         next:\n reserve p1, p1, i2\n push p1, r1\n mul r1, r1, r0\n iadd i1, i1, i2\n ilt i3, i1, i0
         branch i3, next, end
         end:\n finish p0, p1\n isub i1, i0, i2\n elem r1, p0, i1\n ret (r1)\n}}
         ; the whole array is appended in each round, in parts of i0 elements
         func \"copies\" (t0, int, real) -> (real) export (xs : Array Real @t0, n : Int, x : Real) -> Real
         regs 2 real, 6 int, t0, t1 {{
         iconst i1, 0\n len i3, p0\n iconst i2, 1000000000\n iconst i4, 0
         round:\n build p1, i3\n iconst i1, 0
         next:\n iadd i5, i1, i0\n extend p1, p0, i1, i5\n imin i1, i5, i3\n iadd i5, i1, i0\n ile i5, i5, i3
         branch i5, next, end
         end:\n iconst i5, 1\n iadd i4, i4, i5\n ilt i5, i4, i2\n branch i5, round, done
         done:\n ret (r0)\n}}
         ; arrays that grow and grow
         func \"moves\" (t0, int, real) -> (real) export (xs : Array Real @t0, n : Int, x : Real) -> Real
         regs 2 real, 6 int, t0, t1 {{
         iconst i1, 0\n iconst i2, 1000000000\n iconst i4, 0\n iconst i3, 1
         round:\n build p1, i3\n push p1, r0\n jump next
         next:\n reserve p1, p1, i0\n iadd i4, i4, i3\n ilt i5, i4, i2\n branch i5, round, done
         done:\n ret (r0)\n}}
         ; the array with the sum of two neighbours squared in one place, and its sum of cubes
         func \"pattern\" (t0) -> (t0) export (xs : Array Real @t0) -> Array Real @t0
         regs 2 real, 4 int, t0, t1 {{
         {THAW}
         get r0, p1, i1\n get r1, p1, i2\n add r0, r0, r1\n mul r0, r0, r0\n put p1, i2, r0
         finish p0, p1\n ret (p0)\n}}
         func \"cubes\" (t0) -> (real) export (xs : Array Real @t0) -> Real
         regs 2 real, 4 int, t0, t1 {{
         {THAW}
         get r0, p1, i1\n get r1, p1, i2\n mul r0, r0, r1\n put p1, i2, r0\n const r0, 0
         next:\n get r1, p1, i1\n mul r1, r1, r1\n add r0, r0, r1\n iadd i1, i1, i2\n ilt i3, i1, i2
         branch i3, next, last
         last:\n get r1, p1, i1\n mul r1, r1, r1\n add r0, r0, r1\n ret (r0)\n}}
         ; the logarithm of an element that was put as a difference
         func \"logarithm\" (t0) -> (real) export (xs : Array Real @t0) -> Real
         regs 2 real, 4 int, t0, t1 {{
         {THAW}
         get r0, p1, i1\n get r1, p1, i2\n sub r0, r0, r1\n put p1, i2, r0\n get r0, p1, i2\n log r0, r0
         put p1, i1, r0\n get r0, p1, i1\n ret (r0)\n}}"
    );
    let module = Module::from_assembly(&Engine::new(config), "in_place.dvs", &text);
    module.unwrap_or_else(|error| panic!("{error}")).function(name).expect("there is such a function")
}

/// A builder p1 with the elements of p0. Sets i1 to 0, i2 to 1 and i3 to the length.
const THAW: &str = "iconst i1, 0\n iconst i2, 1\n len i3, p0\n build p1, i3\n extend p1, p0, i1, i3";

fn with(jit: Jit) -> Config {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, 1);
    config
}

fn ramp(len: usize) -> Value {
    Value::Reals((0..len).map(|n| 1.0 + n as f64 / len as f64).collect())
}

fn run(function: &Function, args: &[Value], gradient: bool) -> Stats {
    let options = CallOptions::default();
    if gradient {
        function.value_and_grad_with(args, &options).expect("it runs").stats
    } else {
        function.call_with(args, &options).expect("it runs").1
    }
}

/// Bytes of a value in memory.
const REAL: u64 = 8;

#[test]
fn updates_take_linear_time_and_memory() {
    let len = 5_000;
    let updates = function(with(Jit::Off), "updates");
    let args = |rounds| [ramp(len), Value::Int(rounds), Value::Real(0.999)];
    let [few, many] = [10_000, 100_000].map(|rounds| run(&updates, &args(rounds), false));
    // The argument, and a copy of it.
    assert!(many.allocated_bytes < 2 * (len as u64 * REAL + 64), "{many:?}");
    assert_eq!(many.allocated_bytes, few.allocated_bytes);
    let [few, many] = [10_000, 100_000].map(|rounds| run(&updates, &args(rounds), true));
    // A builder has words.
    assert!(many.allocated_bytes < 3 * (len as u64 * REAL + 64), "{many:?}");
    // Of each round what it multiplies, and the index. What the builder has become has consecutive slots.
    assert_eq!((many.records, few.records), (1, 1));
    assert!(many.tape_bytes < 16 * 100_000 + 200, "{few:?} {many:?}");
    assert!(many.tape_bytes < 11 * few.tape_bytes, "{few:?} {many:?}");
}

#[test]
fn a_copy_is_allocated_once_and_recorded_nowhere() {
    let thaw = function(with(Jit::Off), "thaw");
    let args = [ramp(100_000), Value::Int(0), Value::Real(0.0)];
    let primal = run(&thaw, &args, false);
    // The argument is borrowed.
    let one = 100_000 * REAL;
    assert!((one..one + 100).contains(&primal.allocated_bytes), "{primal:?}");
    let jacobian = thaw.jacobian_with(&[ramp(3), args[1].clone(), args[2].clone()], &CallOptions::default());
    assert_eq!(jacobian.expect("it runs").stats.records, 0);
}

#[test]
fn what_grows_one_by_one_takes_linear_time_and_memory() {
    let grows = function(with(Jit::Off), "grows");
    for rounds in [1_000, 100_000] {
        let stats = run(&grows, &[ramp(1), Value::Int(rounds), Value::Real(0.999)], false);
        // 1 + 2 + 4 + … elements, and a header for each.
        assert!(stats.allocated_bytes < 4 * rounds as u64 * REAL + 20 * 40, "{rounds}: {stats:?}");
        let recording = run(&grows, &[ramp(1), Value::Int(rounds), Value::Real(0.999)], true);
        assert!(recording.allocated_bytes < 8 * rounds as u64 * REAL + 20 * 40, "{rounds}: {recording:?}");
    }
}

#[test]
fn limits_are_met_in_the_middle_of_a_builder() {
    for jit in [Jit::Off, Jit::Always] {
        let limited = |limits: Limits, name: &str, args: &[Value]| {
            let function = function(with(jit), name);
            match function.call_with(args, &CallOptions::with_limits(limits)).expect_err("it stops").kind() {
                ErrorKind::Trap(trap) => trap.kind.clone(),
                other => panic!("{other}"),
            }
        };
        let grows = [ramp(1), Value::Int(1_000_000), Value::Real(1.0)];
        let allocated = limited(Limits { allocated_bytes: 1 << 20, ..Limits::default() }, "grows", &grows);
        assert_eq!(allocated, TrapKind::Limit(Limit::AllocatedBytes));
        let live = limited(Limits { live_bytes: 8 << 20, ..Limits::default() }, "grows", &grows);
        assert_eq!(live, TrapKind::Limit(Limit::LiveBytes));
        let fuel = limited(Limits { fuel: 100_000, ..Limits::default() }, "grows", &grows);
        assert_eq!(fuel, TrapKind::Limit(Limit::Fuel));
    }
}

#[test]
fn copies_end_at_the_deadline() {
    // Parts of nearly 64 KiB, which ask for no time of their own; all at once; and builders that move.
    let cases = [("copies", 8_000_000, 8_000), ("copies", 8_000_000, 8_000_000), ("moves", 1, 2_000_000)];
    for jit in [Jit::Off, Jit::Always] {
        for (name, len, n) in cases {
            let function = function(with(jit), name);
            let (args, deadline) = ([ramp(len), Value::Int(n), Value::Real(1.0)], Duration::from_millis(200));
            let options = CallOptions::with_limits(Limits { deadline: Some(deadline), ..Limits::default() });
            let late = || {
                let began = Instant::now();
                let error = function.call_with(&args, &options).expect_err("it doesn't end by itself");
                assert!(
                    matches!(error.kind(), ErrorKind::Trap(trap) if trap.kind == TrapKind::Limit(Limit::Deadline)),
                    "{error}"
                );
                began.elapsed().saturating_sub(deadline)
            };
            // Other processes take the processor away now and then.
            let in_time = (0..25).any(|_| late() < Duration::from_millis(20));
            assert!(in_time, "{name} {n}, {jit:?}: it is late time and again");
        }
    }
}

#[test]
fn sparsity_sees_what_was_put() {
    let pattern = function(with(Jit::Off), "pattern");
    let args = [Value::Reals(vec![1.0, 2.0, 3.0, 4.0])];
    let found: JacobianSparsity = pattern.jacobian_sparsity(&args).expect("it runs");
    let entries: Vec<(usize, usize, f64)> = {
        let found = pattern.sparse_jacobian(&args, &found).expect("it is its pattern");
        found.matrix.entries().collect()
    };
    assert_eq!(entries, [(0, 0, 1.0), (1, 0, 6.0), (1, 1, 6.0), (2, 2, 1.0), (3, 3, 1.0)]);
    let cubes = function(with(Jit::Off), "cubes");
    let found: HessianSparsity = cubes.hessian_sparsity(&args).expect("it runs");
    let entries: Vec<(usize, usize, f64)> = {
        let found = cubes.sparse_hessian(&args, &found).expect("it is its pattern");
        found.matrix.entries().collect()
    };
    // x² + (x y)², of the first two elements.
    assert_eq!(entries, [(0, 0, 10.0), (0, 1, 8.0), (1, 0, 8.0), (1, 1, 2.0)]);
}

#[test]
fn a_number_that_is_not_finite_is_followed_through_what_was_put() {
    let mut config = with(Jit::Off);
    config.trap_nan = true;
    let logarithm = function(config, "logarithm");
    let args = [Value::Reals(vec![2.0, 2.0])];
    let shown = |error: dualvm::Error| match error.kind() {
        ErrorKind::Trap(trap) => trap.to_string(),
        other => panic!("expected a trap, found {other}"),
    };
    let expected = "log(0.0) is -inf\n  in logarithm\n  0.0 = 2.0 - 2.0 in logarithm\n  2.0 = argument xs[0]\n  \
                    in logarithm at instruction 10";
    assert_eq!(shown(logarithm.call(&args).expect_err("it stops")), expected);
    assert_eq!(shown(logarithm.value_and_grad(&args).expect_err("it stops")), expected);
}
