//! Limits on memory in programs with tasks: whether one is met, and where, depends on the program alone, but
//! for the slabs that several threads have begun.

use dualvm::{CallOptions, Config, Engine, Function, Limits, Module, Value};

/// What a call comes to: the gradient's bits and counts, or the trap.
fn comes_to(function: &Function, args: &[Value], limits: Limits) -> String {
    match function.value_and_grad_with(args, &CallOptions::with_limits(limits)) {
        Ok(gradient) => {
            let stats = gradient.stats;
            let counts = (stats.instructions, stats.records, stats.slots);
            format!("{:?} {:?} {counts:?}", gradient.value.to_bits(), gradient.gradient)
        }
        Err(error) => error.to_string(),
    }
}

/// What several threads may hold more or less than one: slabs that are not full.
const SLACK: u64 = 1 << 20;

#[test]
fn limits_on_memory_are_met_at_the_same_place_on_any_number_of_threads_but_for_some_slabs() {
    let source = "
        def deep (n : Int) (x : Real) : Real = if n == 0 then x else 1 + sin (deep (n - 1) x)
        def mapped (n : Int) (x : Real) : Real =
          let ys = pbuild n (\\i -> deep (i % 300) (x * to_real i)) in
          let (a, b) = sum ys |*| deep n x in
          a * b * sum (pmap (\\y -> y * x) ys)";
    let function = |threads| {
        let mut config = Config::default();
        config.threads = threads;
        let module = Module::from_source(&Engine::new(config), "limits.dual", source).unwrap();
        module.function("mapped").unwrap()
    };
    let (alone, several) = (function(1), function(3));
    let args = [Value::Int(5_000), Value::Real(0.7)];
    type Limited = fn(u64) -> Limits;
    let limits: [(&str, Limited); 2] = [
        ("the limit on tape memory", |tape_bytes| Limits { tape_bytes, ..Limits::default() }),
        ("the limit on live memory", |live_bytes| Limits { live_bytes, ..Limits::default() }),
    ];
    let done = comes_to(&alone, &args, Limits::default());
    for (what, limited) in limits {
        // The least that the run needs on one thread.
        let enough = |bytes| alone.value_and_grad_with(&args, &CallOptions::with_limits(limited(bytes))).is_ok();
        let (mut low, mut high) = (0, 1 << 30);
        assert!(enough(high));
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            *if enough(middle) { &mut high } else { &mut low } = middle;
        }
        for bytes in [high, low, high + 8, high + 1000, high + 9_000, high + 40_000, high + SLACK, high * 2, low / 2] {
            let expected = comes_to(&alone, &args, limited(bytes));
            for _ in 0..5 {
                let found = comes_to(&several, &args, limited(bytes));
                let is_close = bytes.abs_diff(high) < SLACK && (found.starts_with(what) || found == done);
                assert!(found == expected || is_close, "{bytes} bytes, {high} suffice: {found}, not {expected}");
            }
        }
    }
}

/// Operators in tasks evacuate the heap before they raise its floor. When tasks are undone because a limit was reached,
/// what they had allocated is forgotten, and so is when that was.
#[test]
fn tasks_with_operators_that_allocate_start_over_where_a_limit_is_reached() {
    let source = "
        def large (x : Real) : Real =
          grad (\\y -> let ys = build 20000 (\\i -> y * to_real i) in loop s = 0.0 for i < 9 do s + ys[i * 1000 % 77]) x
        def mapped (n : Int) (x : Real) : Real =
          sum (pbuild n (\\i -> loop s = x + to_real i for _ < 60 do tanh (large s)))";
    let function = |threads| {
        let mut config = Config::default();
        config.threads = threads;
        let module = Module::from_source(&Engine::new(config), "limits.dual", source).unwrap();
        module.function("mapped").unwrap()
    };
    let (alone, several) = (function(1), function(3));
    let args = [Value::Int(6), Value::Real(0.7)];
    let (_, stats) = alone.call_with(&args, &CallOptions::default()).unwrap();
    // More than the heap waits for.
    assert!(stats.allocated_bytes > 6 * (8 << 20), "{}", stats.allocated_bytes);
    for fuel in [stats.instructions - 1, stats.instructions * 3 / 4] {
        let limits = Limits { fuel, ..Limits::default() };
        let options = CallOptions::with_limits(limits);
        let run = |function: &Function| function.call_with(&args, &options).unwrap_err().to_string();
        let expected = run(&alone);
        assert!(expected.starts_with("out of fuel"), "{expected}");
        for _ in 0..3 {
            assert_eq!(run(&several), expected);
        }
    }
}
