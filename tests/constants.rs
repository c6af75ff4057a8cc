//! Constants of a module: computed at most once in a call of the host's, where they are first needed, with the same
//! outcome whatever the engine and the threads.

use dualvm::{CallOptions, CancelHandle, Config, Engine, Error, Function, Jit, Limits, Listener, Module, Stats, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn function_at(text: &str, name: &str, jit: Jit, threads: usize) -> Function {
    let mut config = Config::default();
    (config.jit, config.threads) = (jit, threads);
    let module = Module::from_source(&Engine::new(config), "t.dual", text).unwrap_or_else(|error| panic!("{error}"));
    module.function(name).unwrap_or_else(|error| panic!("{error}"))
}

const ENGINES: [(Jit, usize); 6] =
    [(Jit::Off, 1), (Jit::Always, 1), (Jit::Off, 2), (Jit::Always, 3), (Jit::Off, 8), (Jit::Always, 8)];

/// What a call comes to, to the last bit, and what it has used; or the trap with its backtrace.
fn outcome<T: std::fmt::Debug>(result: Result<(T, Stats), Error>) -> String {
    match result {
        Ok((value, stats)) => format!(
            "{value:?}, {} instructions, span {}, {} records, {} tasks, tape of {}, {} bytes allocated",
            stats.instructions, stats.span, stats.records, stats.tasks, stats.tape_bytes, stats.allocated_bytes
        ),
        Err(error) => error.trap().expect("nothing else goes wrong").to_string(),
    }
}

fn called(function: &Function, args: &[Value], options: &CallOptions) -> String {
    outcome(function.call_with(args, options))
}

fn gradient(function: &Function, args: &[Value], options: &CallOptions) -> String {
    let found = function.value_and_grad_with(args, options);
    outcome(found.map(|found| ((found.value, found.gradient), found.stats)))
}

/// Checks that value, gradient and traps of `main` are the same on all engines, and gives the first two.
#[track_caller]
fn agreed(text: &str, args: &[Value], limits: &Limits) -> [String; 2] {
    let options = CallOptions::with_limits(limits.clone());
    let found = ENGINES.map(|(jit, threads)| {
        let main = function_at(text, "main", jit, threads);
        [called(&main, args, &options), gradient(&main, args, &options)]
    });
    for (other, engine) in found.iter().zip(ENGINES) {
        assert_eq!(*other, found[0], "{engine:?}");
    }
    let [first, ..] = found;
    first
}

fn instructions(text: &str, args: &[Value]) -> u64 {
    let main = function_at(text, "main", Jit::Off, 1);
    main.call_with(args, &CallOptions::default()).expect("nothing stops it").1.instructions
}

/// Takes some thousand instructions.
const COSTLY: &str = "
    def costly : Array Real = [| sin (to_real k) for k < 1000 |]
    def total : Real = sum costly";

#[test]
fn a_constant_is_computed_once_in_a_call() {
    let uses = |uses: &str| format!("{COSTLY}\ndef main (n : Int) (x : Real) : Real = {uses}");
    let args = [Value::Int(50), Value::Real(2.0)];
    let once = instructions(&uses("x * total"), &args);
    assert!(once > 2000, "{once}");
    let often = "loop a = x for i < n do a + x * total";
    let of_another = "let k = costly[n] in x * total * k + total";
    let in_branches = "if x > 0 then x * total else total";
    let by_helpers = "deep n x
        def deep (n : Int) (x : Real) : Real = if n == 0 then total else deep (n - 1) x + total";
    for text in [often, of_another, in_branches, by_helpers] {
        let found = instructions(&uses(text), &args);
        assert!(found < once + 2500, "{text}: {found}, and {once} for one use");
    }
    // One that isn't needed isn't computed.
    assert!(instructions(&uses("if n < 0 then total else x"), &args) < 100);
}

#[test]
fn the_next_call_computes_it_again() {
    let main = function_at(&format!("{COSTLY}\ndef main (x : Real) : Real = x * total"), "main", Jit::Always, 1);
    let run = || called(&main, &[Value::Real(1.0)], &CallOptions::default());
    let first = run();
    assert_eq!(first, run());
    assert_eq!(first, run());
}

#[test]
fn all_engines_and_threads_agree_and_fuel_is_exact() {
    let texts = [
        "def main (n : Int) (x : Real) : Real = sum (pbuild n (\\i -> x * total * costly[i % 1000]))",
        "def ticks : List Real = to_list costly
         def both : (Array Real, List Real) = (costly, ticks)
         def main (n : Int) (x : Real) : Real =
           let (a, b) = (let (xs, ys) = both in xs[n % 9] * x * head ys) |*| (x * total) in
           a + b + sum (pbuild n (\\i -> let (xs, ys) = both in xs[i % 1000] * x + head ys))",
        "def main (n : Int) (x : Real) : Real =
           loop a = 0.0 for i < n do a + derivative (\\y -> y * y * total) (x + costly[i % 1000])",
        "def main (n : Int) (x : Real) : Real =
           sum (pbuild n (\\i -> grad (\\y -> checkpoint (\\z -> z * z * costly[i % 1000] * total) y) x))",
        // Forks in a constant.
        "def wide : Array Real = pbuild 400 (\\i -> total * to_real i)
         def main (n : Int) (x : Real) : Real = wide[n % 400] * x + sum (pbuild n (\\i -> wide[i % 400] * x))",
    ];
    for text in texts {
        let text = format!("{COSTLY}\n{text}");
        for n in [0, 1, 3, 700] {
            let [value, gradient] = agreed(&text, &[Value::Int(n), Value::Real(0.75)], &Limits::default());
            assert!(value.contains("instructions") && gradient.contains("instructions"), "{value}, {gradient}");
        }
        // Where fuel ends depends on the program alone.
        let args = [Value::Int(700), Value::Real(0.75)];
        let most = instructions(&text, &args);
        for fuel in [most, most - 1, most / 2, most / 5, 3000, 1500, 20] {
            let [value, _] = agreed(&text, &args, &Limits { fuel, ..Limits::default() });
            assert_eq!(value.starts_with("out of fuel"), fuel < most, "{fuel} of {most}: {value}");
        }
    }
}

#[test]
fn gradients_are_those_of_the_program_with_the_constant_as_an_argument() {
    let text = format!(
        "{COSTLY}
        def main (n : Int) (x : Real) : Real = loop a = x for i < n do a * 0.5 + costly[i % 1000] * x * total
        def given (costly : Array Real) (total : Real) (n : Int) (x : Real) : Real =
          loop a = x for i < n do a * 0.5 + costly[i % 1000] * x * total"
    );
    let values: Vec<f64> = (0..1000).map(|k| f64::from(k).sin()).collect();
    for (jit, threads) in ENGINES {
        let [main, given] = ["main", "given"].map(|name| function_at(&text, name, jit, threads));
        let sum = function_at(&format!("{COSTLY}\ndef main (x : Real) : Real = total"), "main", jit, threads)
            .call(&[Value::Real(0.0)])
            .unwrap();
        let (x, n) = (Value::Real(1.25), Value::Int(2500));
        let (value, gradient) = main.value_and_grad(&[n.clone(), x.clone()]).unwrap();
        let (expected, of_all) = given.value_and_grad(&[values.clone().into(), sum, n, x]).unwrap();
        assert_eq!((value.to_bits(), &gradient[1]), (expected.to_bits(), &of_all[3]), "{jit:?}, {threads} threads");
        let h = 1e-6;
        let at = |x: f64| match main.call(&[Value::Int(2500), Value::Real(x)]).unwrap() {
            Value::Real(y) => y,
            other => panic!("{other}"),
        };
        let Value::Real(slope) = gradient[1] else { panic!("{gradient:?}") };
        let difference = (at(1.25 + h) - at(1.25 - h)) / (2.0 * h);
        assert!((slope - difference).abs() < 1e-5 * slope.abs(), "{slope} and {difference}");
    }
}

#[test]
fn a_trap_is_that_of_the_first_who_needs_the_constant() {
    let text = "
        def bad : Real = error \"no value of {costly[3]}\"
        def worse : Real = bad + 1.0
        def main (n : Int) (x : Real) : Real = sum (pbuild n (\\i -> if i == 40 || i > 45 then worse else x))";
    let text = format!("{COSTLY}\n{text}");
    let [value, gradient] = agreed(&text, &[Value::Int(400), Value::Real(0.5)], &Limits::default());
    assert!(value.starts_with("no value of 0.1411200080598672"), "{value}");
    for name in ["bad", "worse", "main"] {
        assert!(value.contains(&format!("in {name} at t.dual")), "{value}");
    }
    assert_eq!(value, gradient);
    let [value, _] = agreed(&text, &[Value::Int(40), Value::Real(0.5)], &Limits::default());
    assert!(value.contains("instructions"), "{value}");
}

#[test]
fn what_it_traces_is_shown_where_it_is_needed_first() {
    let text = "
        def inner : Real = trace \"inner\" 2.0
        def outer : Array Real = trace \"outer {inner}\" [| inner * to_real k for k < 300 |]
        def unused : Real = trace \"unused\" 1.0
        def main (n : Int) (x : Real) : Real =
          trace \"begin\" (sum (pbuild n (\\i ->
            if i == 0 then trace \"zero\" x
            else if i > 250 then outer[i % 300] * x
            else if i == 250 then trace \"asks\" (outer[1] * x)
            else x)))";
    for (n, expected) in [
        (100, &["begin", "zero"][..]),
        (900, &["begin", "zero", "asks", "inner", "outer 2.0"][..]),
        (251, &["begin", "zero", "asks", "inner", "outer 2.0"][..]),
    ] {
        for (jit, threads) in ENGINES {
            for _ in 0..5 {
                let lines = Arc::new(Mutex::new(Vec::new()));
                let heard = lines.clone();
                let listener = Listener::new(move |line| heard.lock().unwrap().push(line.text.to_owned()));
                let main = function_at(text, "main", jit, threads);
                let args = [Value::Int(n), Value::Real(0.5)];
                let options = CallOptions::default().traced_to(&listener);
                let unheard = called(&main, &args, &CallOptions::default());
                assert_eq!(called(&main, &args, &options), unheard);
                assert_eq!(*lines.lock().unwrap(), expected, "{n}, {jit:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn what_it_holds_is_live_memory() {
    let text = "
        def large : Array Real = [| to_real k for k < 500000 |]
        def main (x : Real) : Real = x * large[17]";
    for (live_bytes, expected) in [(3 << 20, "the limit on live memory"), (20 << 20, "8.5")] {
        let limits = Limits { live_bytes, ..Limits::default() };
        let [value, gradient] = agreed(text, &[Value::Real(0.5)], &limits);
        assert!(value.contains(expected) && gradient.contains(expected), "{live_bytes}: {value}, {gradient}");
    }
    // Constants together, too, and those that tasks have computed.
    let many: String =
        (0..40).map(|n| format!("def c{n} : Array Real = [| to_real (k + {n}) for k < 50000 |]\n")).collect();
    let sum = |from: usize, to: usize| (from..to).map(|n| format!("c{n}[3]")).collect::<Vec<_>>().join(" + ");
    let text = format!(
        "{many}def main (x : Real) : Real = let (a, b) = (x * ({})) |*| (x * ({})) in a + b",
        sum(0, 20),
        sum(20, 40)
    );
    for (live_bytes, is_enough) in [(10 << 20, false), (24 << 20, true)] {
        let limits = Limits { live_bytes, ..Limits::default() };
        let [value, _] = agreed(&text, &[Value::Real(0.5)], &limits);
        assert_eq!(value.contains("instructions"), is_enough, "{live_bytes}: {value}");
    }
}

#[test]
fn a_chain_of_constants_and_one_that_needs_itself_end() {
    let chain = |count: usize| {
        let mut text = "def c0 : Array Real = [| to_real k for k < 3 |]\n".to_owned();
        for n in 1..count {
            text += &format!("def c{n} : Array Real = [| c{}[k] + 1.0 for k < 3 |]\n", n - 1);
        }
        text + &format!("def main (x : Real) : Real = x * c{}[0]", count - 1)
    };
    let [value, _] = agreed(&chain(1_000), &[Value::Real(1.0)], &Limits::default());
    assert!(value.starts_with("Real(999.0)"), "{value}");

    let circle = "
        def table : Array Real = [| if k == 0 then 1.0 else 2.0 * at (k - 1) for k < 4 |]
        def at (k : Int) : Real = if k == 0 then 1.0 else table[k]
        def main (x : Real) : Real = x * table[0]";
    let [value, _] = agreed(circle, &[Value::Real(1.0)], &Limits { depth: 100, ..Limits::default() });
    assert!(value.starts_with("the recursion is too deep"), "{value}");
}

#[test]
fn a_call_that_computes_one_can_be_stopped() {
    let text = "
        def endless : Real = loop a = 1.0 while a > 0.0 do a + 1.0
        def main (n : Int) (x : Real) : Real = sum (pbuild n (\\i -> x * endless))";
    for (jit, threads) in ENGINES {
        let main = function_at(text, "main", jit, threads);
        let limits = Limits { deadline: Some(Duration::from_millis(60)), ..Limits::default() };
        let args = [Value::Int(200), Value::Real(1.0)];
        let error = main.call_with(&args, &CallOptions::with_limits(limits)).unwrap_err();
        assert!(error.is_limit(), "{error}");
        let handle = CancelHandle::new();
        let mut options = CallOptions::default();
        options.cancel = Some(handle.clone());
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                handle.cancel();
            });
            main.call_with(&args, &options).unwrap_err()
        });
        assert!(error.is_cancelled(), "{error}");
        // The engine is as good as before.
        assert_eq!(
            called(&main, &[Value::Int(0), Value::Real(1.0)], &CallOptions::default()).split(',').next(),
            Some("Real(0.0)")
        );
    }
}
