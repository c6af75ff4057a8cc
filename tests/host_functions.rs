//! Functions of the host's: values and derivatives of all orders and modes, on every engine, whatever they do.

#[path = "support/hosted.rs"]
mod hosted;

use dualvm::flat::LeafKind;
use dualvm::{
    CallOptions, CancelHandle, CompileOptions, ErrorKind, Function, HostError, HostFunction, Jit, Limit, Limits,
    Linker, MemoryImporter, Module, TrapKind, Value,
};
use hosted::{Given, agreed, assert_derivatives, engine, flat, main_of, module, sine, trap_of};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

#[test]
fn derivatives_are_those_of_the_host() {
    let text = "
        import host \"wave\" : Real -> Real
        def main (x : Real) (y : Real) : Real = x * wave (x * y) + wave 0.5";
    let mut linker = Linker::new();
    linker.define("wave", sine(&[LeafKind::Real], 1, Given::Vjps));
    let own = "def main (x : Real) (y : Real) : Real = x * sin (x * y) + sin 0.5";
    let args = [Value::Real(0.7), Value::Real(1.9)];
    let (value, gradient) = agreed(text, &linker, |main| main.value_and_grad(&args).expect("it has a derivative"));
    let (expected, expected_gradient) = main_of(own, &Linker::new(), Jit::Off, 1).value_and_grad(&args).expect("so");
    assert!((value - expected).abs() < 1e-15, "{value} and {expected}");
    for (found, expected) in gradient.iter().zip(&expected_gradient) {
        let (Value::Real(found), Value::Real(expected)) = (found, expected) else { panic!("they are reals") };
        assert!((found - expected).abs() < 1e-14, "{found} and {expected}");
    }
    // Forward derivatives take the other way.
    let tangents = [Value::Real(1.0), Value::Real(-2.0)];
    let jvp = agreed(text, &linker, |main| main.jvp(&args, &tangents).expect("it has a derivative"));
    let expected = main_of(own, &Linker::new(), Jit::Off, 1).jvp(&args, &tangents).expect("so");
    let (Value::Real(found), Value::Real(expected)) = (&jvp.1, &expected.1) else { panic!("they are reals") };
    assert!((found - expected).abs() < 1e-14, "{found} and {expected}");
}

/// Nested derivatives, in all mixes of modes, of a program with a host function, against the same with `sin`.
#[test]
fn derivatives_of_derivatives_are_asked_of_derivatives() {
    let hosted = "import host \"wave\" as f : Real -> Real";
    assert_derivatives(&[LeafKind::Real], hosted, "def f (x : Real) : Real = sin x", 3);
}

/// A product of matrix and vector, with arrays, integers and booleans, by either derivative.
fn products() -> [HostFunction; 3] {
    use LeafKind::{Bool, Ints, Real, Reals};
    let params = [Reals, Reals, Ints, Bool, Real];
    let columns = |ints: &[i64]| ints[0] as usize;
    let value = HostFunction::flat(&params, &[Reals, Real], move |call| {
        let (a, x, k) = (call.reals(0), call.reals(1), columns(call.ints(2)));
        let scale = if call.int(3) != 0 { call.real(4) } else { 1.0 };
        let rows = a.len() / k;
        call.give_reals(rows, |to| {
            for (row, to) in to.iter_mut().enumerate() {
                *to = scale * a[row * k..][..k].iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
            }
        })?;
        call.give(scale)
    });
    let vjp = HostFunction::flat(&[Reals, Reals, Ints, Bool, Real, Reals, Real], &[Reals, Reals, Real], move |call| {
        let (a, x, k) = (call.reals(0), call.reals(1), columns(call.ints(2)));
        let (is_scaled, y_adj) = (call.int(3) != 0, call.reals(5));
        let scale = if is_scaled { call.real(4) } else { 1.0 };
        call.give_reals(a.len(), |to| {
            to.iter_mut().enumerate().for_each(|(n, to)| *to = scale * y_adj[n / k] * x[n % k]);
        })?;
        call.give_reals(x.len(), |to| {
            for (column, to) in to.iter_mut().enumerate() {
                *to = (0..a.len() / k).map(|row| scale * y_adj[row] * a[row * k + column]).sum();
            }
        })?;
        let dot = |row: usize| a[row * k..][..k].iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
        let sum: f64 = (0..a.len() / k).map(|row| y_adj[row] * dot(row)).sum();
        call.give(if is_scaled { sum + call.real(6) } else { 0.0 })
    });
    let jvp = HostFunction::flat(&[Reals, Reals, Ints, Bool, Real, Reals, Reals, Real], &[Reals, Real], move |call| {
        let (a, x, k) = (call.reals(0), call.reals(1), columns(call.ints(2)));
        let is_scaled = call.int(3) != 0;
        let (scale, scale_tan) = if is_scaled { (call.real(4), call.real(7)) } else { (1.0, 0.0) };
        let (a_tan, x_tan) = (call.reals(5), call.reals(6));
        call.give_reals(a.len() / k, |to| {
            for (row, to) in to.iter_mut().enumerate() {
                let dot = |a: &[f64], x: &[f64]| a[row * k..][..k].iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
                *to = scale * (dot(a_tan, x) + dot(a, x_tan)) + scale_tan * dot(a, x);
            }
        })?;
        call.give(scale_tan)
    });
    let by_vjp = value.clone().with_vjp(vjp.clone()).expect("its type is right");
    let by_jvp = value.with_jvp(jvp.clone()).expect("its type is right");
    [by_vjp.clone(), by_jvp, by_vjp.with_jvp(jvp).expect("its type is right")]
}

#[test]
fn arrays_go_in_and_out_and_either_derivative_does() {
    let text = "
        import host \"product\" : (Array Real, Array Real) -> { columns : Array Int, scaled : Bool } -> Real
            -> (Array Real, Real)
        def loss (a : Array Real) (x : Array Real) (s : Real) (scaled : Bool) : Real =
            let (y, t) = product (a, map (\\v -> v * v) x) { columns = [| 3 |], scaled } (s + 1) in
            sum (map exp y) * t
        def main (a : Array Real) (x : Array Real) (s : Real) (scaled : Bool) : Real = loss a x s scaled";
    let own = "
        def main (a : Array Real) (x : Array Real) (s : Real) (scaled : Bool) : Real =
            let t = if scaled then s + 1 else 1 in
            let y = [| t * sum [| a[3 * i + j] * x[j] * x[j] for j < 3 |] for i < length a / 3 |] in
            sum (map exp y) * t";
    let reals = |xs: &[f64]| Value::Reals(xs.to_vec());
    let (a, x) = (reals(&[0.1, -0.2, 0.3, 0.4, 0.5, -0.6]), reals(&[0.9, -0.8, 0.7]));
    for scaled in [true, false] {
        let args = [a.clone(), x.clone(), Value::Real(0.25), Value::Bool(scaled)];
        let (expected, expected_gradient) =
            main_of(own, &Linker::new(), Jit::Off, 1).value_and_grad(&args).expect("so");
        let tangents =
            [reals(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), reals(&[0.5, -0.5, 1.0]), Value::Real(2.0), Value::Null];
        let forward = main_of(own, &Linker::new(), Jit::Off, 1).jvp(&args, &tangents).expect("so");
        for (way, function) in products().into_iter().enumerate() {
            let mut linker = Linker::new();
            linker.define("product", function);
            let (value, gradient) = agreed(text, &linker, |main| main.value_and_grad(&args).expect("it has one"));
            assert!((value - expected).abs() < 1e-13, "{value} and {expected}");
            for (found, expected) in flat(&gradient).iter().zip(flat(&expected_gradient)) {
                assert!((found - expected).abs() < 1e-13, "way {way}: {gradient:?} and {expected_gradient:?}");
            }
            let tangent = agreed(text, &linker, |main| main.jvp(&args, &tangents).expect("it has one").1);
            let (found, expected) = (flat(&[tangent])[0], flat(std::slice::from_ref(&forward.1))[0]);
            assert!((found - expected).abs() < 1e-13, "way {way}: {found} and {expected}");
        }
    }
}

/// Integers among the results of a jvp are constants, which it doesn't give: it needn't take any like them.
#[test]
fn results_that_are_integers_have_tangents_of_their_own_length() {
    let text = "
        import host \"f\" : Real -> (Array Int, Real, Array Bool)
        def main (x : Real) : Real = let (ns, y, bs) = f x in y * to_real (length ns - length bs)";
    let mut linker = Linker::new();
    let f = HostFunction::of(|x: f64| (vec![1i64, 2, 3], x * x, vec![true]));
    linker.define("f", f.clone().with_jvp(|x: f64, x_tan: f64| ((), 2.0 * x * x_tan, ())));
    let jvp = |main: &Function| main.jvp(&[Value::Real(3.0)], &[Value::Real(1.0)]).expect("it has one");
    assert_eq!(agreed(text, &linker, jvp), (Value::Real(18.0), Value::Real(12.0)));
    linker.define("f", f.with_vjp(|x: f64, (_, y_adj, _): ((), f64, ())| 2.0 * x * y_adj));
    assert_eq!(agreed(text, &linker, jvp), (Value::Real(18.0), Value::Real(12.0)));
}

#[test]
fn without_a_derivative_only_values_are_given() {
    let text = "
        import host \"table\" : Int -> Real -> Real
        def main (n : Int) (x : Real) : Real = x * table n (detach x) + (if n > 5 then table n x else 0)";
    let mut linker = Linker::new();
    linker.define("table", HostFunction::of(|n: i64, x: f64| n as f64 * x));
    let call = |n: i64| move |main: &Function| main.call(&[Value::Int(n), Value::Real(2.0)]).expect("it has values");
    assert_eq!(agreed(text, &linker, call(3)), Value::Real(12.0));
    assert_eq!(agreed(text, &linker, call(6)), Value::Real(36.0));
    let gradient = |n: i64| move |main: &Function| main.value_and_grad(&[Value::Int(n), Value::Real(2.0)]);
    // A call of constants asks for none, nor does one that isn't reached.
    let (_, found) = agreed(text, &linker, |main| gradient(3)(main).expect("nothing asks for one"));
    assert_eq!(found[1], Value::Real(6.0));
    let trap = agreed(text, &linker, |main| trap_of(gradient(6)(main)).to_string());
    assert!(trap.starts_with("the host's function `table` has no derivative, and one is asked for"), "{trap}");
    assert!(trap.contains("in main at t.dual:3:"), "{trap}");

    // Of the second order there is none.
    let text = "
        import host \"wave\" : Real -> Real
        def main (x : Real) : Real = grad (\\u -> wave (u * x)) x";
    let mut linker = Linker::new();
    linker.define("wave", sine(&[LeafKind::Real], 1, Given::Vjps));
    let value = agreed(text, &linker, |main| main.call(&[Value::Real(0.5)]).expect("that is the first order"));
    assert_eq!(value, Value::Real(0.5 * 0.25f64.cos()));
    let trap = agreed(text, &linker, |main| trap_of(main.value_and_grad(&[Value::Real(0.5)])).kind);
    assert_eq!(trap, TrapKind::HostDerivative { function: "wave".into(), order: 2 });
}

#[test]
fn errors_and_panics_of_the_host_are_traps() {
    let text = "
        import host \"picky\" : Real -> Real
        def inner (x : Real) : Real = 2 * picky x
        def main (x : Real) : Real = inner x + 1";
    let mut linker = Linker::new();
    let picky = |x: f64| match x {
        x if x < 0.0 => Err(format!("{x} is negative")),
        x if x > 10.0 => panic!("{x} is far too large"),
        x => Ok(x.sqrt()),
    };
    linker.define(
        "picky",
        HostFunction::of(picky).with_vjp(|x: f64, _: f64| -> Result<f64, &str> {
            if x == 1.0 { Err("no derivative at 1") } else { panic!("it is never asked") }
        }),
    );
    let trap = |x: f64| agreed(text, &linker, move |main: &Function| trap_of(main.call(&[Value::Real(x)])).to_string());
    let found = trap(-1.5);
    assert!(found.starts_with("the host's function `picky`: -1.5 is negative\n  in picky at t.dual:2:"), "{found}");
    assert!(found.contains("in main at t.dual:4:"), "{found}");
    let found = trap(11.0);
    assert!(found.starts_with("the host's function `picky`: it panicked: 11 is far too large"), "{found}");
    let found = agreed(text, &linker, |main| trap_of(main.value_and_grad(&[Value::Real(1.0)])).to_string());
    assert!(found.starts_with("the host's function `picky`: no derivative at 1\n  in picky at t.dual:2:"), "{found}");
    assert!(found.contains("in inner at t.dual:3:") && found.contains("in main at t.dual:4:"), "{found}");
}

#[test]
fn imports_are_checked_when_they_are_linked() {
    let error = |text: &str, linker: &Linker| {
        let error = Module::from_source(&engine(linker, Jit::Off, 1), "t.dual", text).unwrap_err();
        error.to_string()
    };
    let mut linker = Linker::new();
    linker.define("gain", HostFunction::of(|x: f64| x)).define("count", HostFunction::of(|n: i64| n));
    let main = "def main (x : Real) : Real =";
    let text =
        format!("import host \"gain\" : Real -> Real\nimport host \"gian\" as f : Real -> Real\n{main} gain (f x)");
    let found = error(&text, &linker);
    assert!(found.starts_with("error: nobody gives") && found.contains("--> t.dual:2:13\n"), "{found}");
    // In bytecode, imports have no place but their number.
    let given =
        Linker::new().define("gain", HostFunction::of(|x: f64| x)).define("gian", HostFunction::of(|x: f64| x)).clone();
    let module =
        Module::from_source(&engine(&given, Jit::Off, 1), "t.dual", &text).unwrap_or_else(|error| panic!("{error}"));
    let bytes = module.to_binary().unwrap_or_else(|error| panic!("{error}"));
    let refused = Module::from_binary(&engine(&linker, Jit::Off, 1), &bytes).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Verify(errors) if errors[0].import == Some(1)), "{refused}");
    assert!(refused.to_string().contains("functions that are given in x1, found \"gian\""), "{refused}");
    assert!(found.contains("nobody gives what the module imports"), "{found}");
    assert!(found.contains("found \"gian\" (there is \"gain\")"), "{found}");
    let found = error(&format!("import host \"count\" : Real -> Real\n{main} count x"), &linker);
    assert!(found.contains("one taking (a real) for \"count\""), "{found}");
    assert!(found.contains("found one taking (an integer)") && found.contains("--> t.dual:1:13\n"), "{found}");
    for (ty, value) in [
        ("List (List Real)", "sum (map sum (gain x))"),
        ("Array (Array Real)", "sum (map sum (gain x))"),
        ("Array (Real, Int)", "sum [| y for (y, _) in gain x |]"),
        ("Maybe Real", "match gain x with | Some y -> y | None -> x"),
    ] {
        let text = format!("type Maybe a = None | Some a\nimport host \"gain\" : Real -> {ty}\n{main} {value}");
        let found = error(&text, &linker);
        assert!(found.contains("a function of the host's can't be of this type"), "{found}");
        assert!(found.contains("a matrix or a tensor of one of these or of tuples of one"), "{found}");
        assert!(found.contains(&format!("found {ty}")), "{found}");
    }
    // What isn't reached isn't imported.
    let text = format!("import host \"nobody has it\" as f : Real -> Real\n{main} x");
    assert!(Module::from_source(&engine(&linker, Jit::Off, 1), "t.dual", &text).is_ok());
}

/// What a vjp was given, and who has dropped it.
struct Kept {
    value: f64,
    alive: Arc<AtomicI64>,
}

impl Kept {
    fn new(value: f64, alive: &Arc<AtomicI64>) -> Kept {
        alive.fetch_add(1, Ordering::SeqCst);
        Kept { value, alive: alive.clone() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn what_is_saved_for_a_vjp_goes_with_the_tape() {
    let (alive, made) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut linker = Linker::new();
    let (for_call, count) = (alive.clone(), made.clone());
    let exp = HostFunction::of(|x: f64| x.exp()).with_saving_vjp(
        move |x: f64| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok((x.exp(), Kept::new(x.exp(), &for_call)))
        },
        |kept: &Kept, y_adj: f64| Ok(y_adj * kept.value),
    );
    linker.define("exp", exp);
    let text = "
        import host \"exp\" as e : Real -> Real
        def tree (n : Int) (x : Real) : Real =
            if n == 0 then e x else let (a, b) = tree (n - 1) (x + 1) |*| tree (n - 1) (x / 2) in a + b * e x
        def main (n : Int) (x : Real) : Real = if n < 0 then e x / to_real (1 / (n + 1)) else tree n x";
    let args = [Value::Int(6), Value::Real(-1.5)];
    let (_, gradient) = agreed(text, &linker, |main| {
        let found = main.value_and_grad(&args).expect("it has one");
        drop(main.clone());
        found
    });
    let own = text.replace("import host \"exp\" as e : Real -> Real", "def e (x : Real) : Real = exp x");
    let (_, expected) = main_of(&own, &Linker::new(), Jit::Off, 1).value_and_grad(&args).expect("it has one");
    let (found, expected) = (flat(&gradient)[0], flat(&expected)[0]);
    assert!((found - expected).abs() < 1e-12 * expected.abs(), "{found} and {expected}");
    assert!(made.load(Ordering::SeqCst) >= 4 * 127, "each recorded call has saved something");
    // Engines are gone; so is what their tapes had, also after a trap in the middle.
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    let trapped = agreed(text, &linker, |main| trap_of(main.value_and_grad(&[Value::Int(-1), Value::Real(1.0)])).kind);
    assert!(matches!(trapped, TrapKind::DivisionByZero { .. }), "{trapped:?}");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // A limit, too, and a tape that is kept in use by nobody.
    let main = main_of(text, &linker, Jit::Off, 3);
    let limits = Limits { tape_bytes: 200_000, ..Limits::default() };
    let options = CallOptions::with_limits(limits);
    let found = main.value_and_grad_with(&[Value::Int(14), Value::Real(-1.5)], &options);
    assert_eq!(trap_of(found).kind, TrapKind::Limit(Limit::TapeBytes));
    assert_eq!(alive.load(Ordering::SeqCst), 0, "the tape is forgotten when its call ends");
}

/// On which threads values were dropped, and where on their stacks.
type Drops = Arc<Mutex<Vec<(ThreadId, usize)>>>;

/// What panics when it is dropped, with something of its kind.
#[derive(Debug)]
struct Touchy {
    dropped: Drops,
}

impl Drop for Touchy {
    fn drop(&mut self) {
        let here = 0u8;
        let place = (std::thread::current().id(), (&raw const here).addr());
        self.dropped.lock().expect("nobody panics with it").push(place);
        std::panic::panic_any(Touchy { dropped: self.dropped.clone() });
    }
}

impl std::fmt::Display for Touchy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is touchy")
    }
}

impl std::error::Error for Touchy {}

/// Runs `ask` on all engines, and checks that such values were dropped, on the stack of the thread.
fn touched<T: PartialEq + std::fmt::Debug>(
    text: &str,
    define: impl Fn(&mut Linker, &Drops),
    ask: impl Fn(&Function) -> T,
) -> T {
    let dropped = Drops::default();
    let mut linker = Linker::new();
    define(&mut linker, &dropped);
    agreed(text, &linker, |main| {
        let here = 0u8;
        dropped.lock().expect("nobody panics with it").clear();
        let found = ask(main);
        let dropped = dropped.lock().expect("nobody panics with it");
        assert!(!dropped.is_empty(), "something was dropped");
        for (thread, there) in &*dropped {
            let is_near = (&raw const here).addr().abs_diff(*there) < 1 << 20;
            assert!(is_near || *thread != std::thread::current().id(), "it was dropped on the stack of the thread");
        }
        found
    })
}

#[test]
fn what_was_saved_may_panic_when_it_is_dropped_wherever_the_run_ends() {
    let text = "
        import host \"slow\" as f : Real -> Real
        def main (x : Real) : Real = f x";
    let limited = |limits: Limits| {
        let time = limits.deadline.unwrap_or_default() * 3 / 2;
        let define = |linker: &mut Linker, dropped: &Drops| {
            let dropped = dropped.clone();
            let slow = HostFunction::of(|x: f64| x).with_saving_vjp(
                move |x: f64| {
                    std::thread::sleep(time);
                    Ok((x, Touchy { dropped: dropped.clone() }))
                },
                |_: &Touchy, y_adj: f64| Ok(y_adj),
            );
            linker.define("slow", slow);
        };
        touched(text, define, |main| {
            let options = CallOptions::with_limits(limits.clone());
            main.value_and_grad_with(&[Value::Real(1.0)], &options).map(|_| ()).map_err(|error| error.to_string())
        })
    };
    // The tape had it.
    assert_eq!(limited(Limits::default()), Ok(()));
    // Nobody had it yet.
    let late = limited(Limits { deadline: Some(Duration::from_millis(200)), ..Limits::default() });
    assert!(late.as_ref().is_err_and(|error| error.starts_with("the deadline has passed")), "{late:?}");
}

#[test]
fn what_was_saved_is_dropped_with_care_where_a_result_is_refused() {
    use LeafKind::Real;
    let define = |linker: &mut Linker, dropped: &Drops| {
        let dropped = dropped.clone();
        let few = HostFunction::flat(&[Real], &[Real], |call| call.give(call.real(0)));
        let vjp = HostFunction::flat(&[Real, Real], &[Real], |call| call.give(call.real(1)));
        // It gives nothing.
        let few = few.with_saving_vjp(move |_| Ok(Touchy { dropped: dropped.clone() }), vjp).expect("it fits");
        linker.define("few", few);
    };
    let text = "import host \"few\" as f : Real -> Real\ndef main (x : Real) : Real = f x";
    let found = touched(text, define, |main| trap_of(main.value_and_grad(&[Value::Real(1.0)])).to_string());
    assert!(found.starts_with("the host's function `few`: it gives 0 of 1 results"), "{found}");
}

#[test]
fn a_panic_may_be_with_anything() {
    let define = |linker: &mut Linker, dropped: &Drops| {
        let dropped = dropped.clone();
        let wild = move |_: f64| -> f64 { std::panic::panic_any(Touchy { dropped: dropped.clone() }) };
        linker.define("wild", HostFunction::of(wild));
    };
    let text = "import host \"wild\" as f : Real -> Real\ndef main (x : Real) : Real = f x";
    let found = touched(text, define, |main| trap_of(main.call(&[Value::Real(1.0)])).to_string());
    assert!(found.starts_with("the host's function `wild`: it panicked: it says nothing"), "{found}");
}

/// Of two tasks that trap, the error of the first one in order counts, and the other one is dropped where it is.
#[test]
fn an_error_of_the_host_may_panic_when_it_is_dropped() {
    let define = |linker: &mut Linker, dropped: &Drops| {
        let dropped = dropped.clone();
        let fails = HostFunction::flat(&[LeafKind::Real], &[LeafKind::Real], move |_| {
            Err(Touchy { dropped: dropped.clone() })?;
            Ok(())
        });
        linker.define("fails", fails);
    };
    let text = "
        import host \"fails\" as f : Real -> Real
        def main (x : Real) : Real = let (a, b) = f x |*| f (x + 1) in a + b";
    let found = touched(text, define, |main| {
        let error = main.call(&[Value::Real(1.0)]).unwrap_err();
        let text = error.to_string();
        // Here it is the host's again, but dropped as everywhere.
        drop(error);
        text
    });
    assert!(found.starts_with("the host's function `fails`: it is touchy"), "{found}");
}

#[test]
fn functions_that_are_not_pure_are_found_out_where_they_run_again() {
    let calls = Arc::new(AtomicI64::new(0));
    let counter = calls.clone();
    let mut linker = Linker::new();
    let noise = HostFunction::of(move |x: f64| x + counter.fetch_add(1, Ordering::SeqCst) as f64);
    linker.define("noise", noise.with_vjp(|_: f64, y_adj: f64| y_adj));
    linker.define("pure", HostFunction::of(|x: f64| x + 1.0).with_vjp(|_: f64, y_adj: f64| y_adj));
    let text = |name: &str| {
        format!(
            "import host \"{name}\" as f : Real -> Real
            def main (x : Real) : Real = checkpoint (\\u -> u * f u) x"
        )
    };
    let trap = trap_of(main_of(&text("noise"), &linker, Jit::Off, 1).value_and_grad(&[Value::Real(2.0)]));
    assert_eq!(trap.kind, TrapKind::ImpureHost);
    let (value, gradient) =
        agreed(&text("pure"), &linker, |main| main.value_and_grad(&[Value::Real(2.0)]).expect("so"));
    assert_eq!((value, flat(&gradient)), (6.0, vec![5.0]));
    // So are those inside of operators that are differentiated, with tasks on threads.
    let nested = |name: &str| {
        format!(
            "import host \"{name}\" as f : Real -> Real
            def both (u : Real) : Real = let (a, b) = f u * u |*| f (2 * u) * u in a * b
            def main (x : Real) : Real = grad (\\u -> both (u * x)) x"
        )
    };
    let trap = trap_of(main_of(&nested("noise"), &linker, Jit::Off, 1).value_and_grad(&[Value::Real(2.0)]));
    assert!(matches!(trap.kind, TrapKind::ImpureHost | TrapKind::HostDerivative { .. }), "{:?}", trap.kind);
}

#[test]
fn rules_of_the_program_may_call_the_host_however_often_they_are_applied() {
    // Where the gradient inside runs again, the rule is applied more often than before: that isn't impure.
    let mut linker = Linker::new();
    linker.define("same", HostFunction::of(|x: f64| x).with_vjp(|_: f64, y_adj: f64| y_adj));
    let text = "
        import host \"same\" as h : Real -> Real
        def square (v : Real) : Real = custom_jvp (\\v -> v * h v) (\\v t -> 2 * h v * t) v
        def main (x : Real) : Real = grad (\\u -> square (u * x)) x";
    let found = agreed(text, &linker, |main| main.value_and_grad(&[Value::Real(1.5)]).expect("it has one"));
    assert_eq!(found, (2.0 * 1.5f64.powi(3), vec![Value::Real(6.0 * 1.5f64.powi(2))]));
}

#[test]
fn hosts_run_on_the_stack_of_their_thread_and_may_use_the_machine() {
    // As much stack as a thread has, which a run's own has not below its frames.
    fn deep(n: u64) -> u64 {
        let room = std::hint::black_box([n; 512]);
        if n == 0 { room[0] } else { deep(n - 1) + room[511] / n }
    }
    let stack = Arc::new(Mutex::new(Vec::new()));
    let addresses = stack.clone();
    let mut linker = Linker::new();
    linker.define(
        "deep",
        HostFunction::of(move |x: f64| {
            let here = 0u8;
            addresses.lock().expect("nobody panics").push((&raw const here).addr());
            x + deep(250) as f64
        }),
    );
    let inner = main_of("def main (x : Real) : Real = x * x", &Linker::new(), Jit::Always, 1);
    linker.define(
        "square",
        HostFunction::of(move |x: f64| match inner.call(&[Value::Real(x)]) {
            Ok(Value::Real(y)) => Ok(y),
            other => Err(format!("{other:?}")),
        }),
    );
    let text = "
        import host \"deep\" : Real -> Real
        import host \"square\" : Real -> Real
        def down (n : Int) (x : Real) : Real = if n == 0 then deep x + square 3 else 1 + down (n - 1) x
        def main (n : Int) (x : Real) : Real = down n x";
    let run = |jit: Jit| {
        let main = main_of(text, &linker, jit, 1);
        std::thread::Builder::new().stack_size(4 << 20).spawn(move || {
            let here = 0u8;
            (main.call(&[Value::Int(20_000), Value::Real(1.0)]), (&raw const here).addr())
        })
    };
    for jit in [Jit::Off, Jit::Always] {
        stack.lock().expect("nobody panics").clear();
        let (found, here) = run(jit).expect("there is a thread").join().expect("it ends");
        let expected = Value::Real(20_000.0 + 1.0 + 250.0 + 9.0);
        assert_eq!(found.unwrap_or_else(|error| panic!("{error}")), expected);
        let there = stack.lock().expect("nobody panics")[0];
        assert!(here.abs_diff(there) < 4 << 20, "{here:x} and {there:x} are on one stack");
    }
}

/// A thread that waits in a function of the host's takes up no task, in which that function would begin again.
#[test]
fn no_host_function_begins_in_the_middle_of_another() {
    let forks = "def main (n : Int) : Real = sum (pmap (\\i -> loop s = 0.0 for k < 500 do s + sin (to_real (i + k))) \
                 [| i for i < n |])";
    let inner = main_of(forks, &Linker::new(), Jit::Off, 2);
    let expected = inner.call(&[Value::Int(8)]).unwrap_or_else(|error| panic!("{error}"));
    let mut linker = Linker::new();
    linker.define(
        "busy",
        HostFunction::of(move |x: f64| {
            thread_local!(static BUSY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
            let found = if BUSY.replace(true) { Err("it has begun already") } else { Ok(inner.call(&[Value::Int(8)])) };
            BUSY.set(false);
            match found? {
                Ok(found) if found == expected => Ok(x),
                _ => Err("the machine gives something else in it"),
            }
        }),
    );
    let text = "
        import host \"busy\" : Real -> Real
        def main (n : Int) : Real = sum (pmap (\\i -> busy (to_real i)) [| i for i < n |])";
    let found = main_of(text, &linker, Jit::Off, 2).call(&[Value::Int(1000)]);
    assert_eq!(found.unwrap_or_else(|error| panic!("{error}")), Value::Real(499_500.0));
}

#[test]
fn hosts_see_the_deadline_and_cancellation() {
    let patient = HostFunction::flat(&[LeafKind::Real], &[LeafKind::Real], |call| {
        loop {
            call.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut linker = Linker::new();
    linker.define("patient", patient);
    linker.define(
        "sleepy",
        HostFunction::of(|x: f64| {
            std::thread::sleep(Duration::from_millis(30));
            x
        }),
    );
    let text = |name: &str| {
        format!(
            "import host \"{name}\" as f : Real -> Real\ndef main (x : Real) : Real = loop s = x for i < 100000 do f s"
        )
    };
    let limits = Limits { deadline: Some(Duration::from_millis(50)), ..Limits::default() };
    for name in ["patient", "sleepy"] {
        let began = Instant::now();
        let options = CallOptions::with_limits(limits.clone());
        let found = main_of(&text(name), &linker, Jit::Off, 1).call_with(&[Value::Real(1.0)], &options);
        assert_eq!(trap_of(found).kind, TrapKind::Limit(Limit::Deadline));
        assert!(began.elapsed() < Duration::from_secs(20), "{name}: {:?}", began.elapsed());
    }
    let cancel = CancelHandle::new();
    let main = main_of(&text("patient"), &linker, Jit::Off, 1);
    let found = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            main.call_with(&[Value::Real(1.0)], &CallOptions::default().cancelled_by(&cancel)).map(|(value, _)| value)
        });
        std::thread::sleep(Duration::from_millis(20));
        cancel.cancel();
        run.join().expect("it ends")
    });
    assert_eq!(trap_of(found).kind, TrapKind::Cancelled);
}

#[test]
fn results_that_are_not_those_of_the_type_are_errors() {
    use LeafKind::{Bool, Int, Real, Reals};
    let bad: [(&str, HostFunction, &str); 5] = [
        ("none", HostFunction::flat(&[Real], &[Real], |_| Ok(())), "it gives 0 of 1 results"),
        (
            "two",
            HostFunction::flat(&[Real], &[Real], |call| call.give(1.0).and_then(|()| call.give(2.0))),
            "more than 1",
        ),
        (
            "kind",
            HostFunction::flat(&[Real], &[Real], |call| call.give(1)),
            "result 0: expected a real, found an integer",
        ),
        ("wrong argument", HostFunction::flat(&[Real], &[Real], |call| call.give(call.int(0))), "is not an integer"),
        ("own", HostFunction::flat(&[Real], &[Real], |_| Err(HostError::new("no"))), "`own`: no"),
    ];
    for (name, function, expected) in bad {
        let mut linker = Linker::new();
        linker.define(name, function);
        let text = format!("import host \"{name}\" as f : Real -> Real\ndef main (x : Real) : Real = f x");
        let trap = agreed(&text, &linker, |main| trap_of(main.call(&[Value::Real(1.0)])).to_string());
        assert!(trap.contains(expected), "{name}: {trap}");
    }
    // A boolean is 0 or 1, and rows are whole.
    let mut linker = Linker::new();
    linker.define("truth", HostFunction::flat(&[Int], &[Bool], |call| call.give(call.int(0))));
    linker.define("rows", HostFunction::flat(&[Int], &[Reals], |call| call.give(&vec![0.5; call.int(0) as usize])));
    let text = "
        import host \"truth\" : Int -> Bool
        import host \"rows\" : Int -> Array (Real, Real)
        def main (n : Int) : Real = if truth (n / 4) then sum [| x + y for (x, y) in rows n |] else 0";
    let call =
        |n: i64| agreed(text, &linker, move |main| main.call(&[Value::Int(n)]).map_err(|error| error.to_string()));
    assert_eq!(call(0), Ok(Value::Real(0.0)));
    assert_eq!(call(4), Ok(Value::Real(2.0)));
    assert!(call(5).unwrap_err().contains("an array of rows of 2 numbers can't have 5"));
    assert!(call(8).unwrap_err().contains("expected a boolean, found an integer (2)"));
    // Derivatives of another shape than what they are of.
    let mut linker = Linker::new();
    let sum = HostFunction::of(|xs: Vec<f64>| xs.iter().sum::<f64>()).with_vjp(|_: Vec<f64>, y: f64| vec![y; 2]);
    linker.define("total", sum);
    let text = "
        import host \"total\" : Array Real -> Real
        def main (xs : Array Real) : Real = total xs";
    let ask = |xs: &[f64]| {
        let args = [Value::Reals(xs.to_vec())];
        agreed(text, &linker, |main| main.value_and_grad(&args).map_err(|error| error.to_string()))
    };
    assert_eq!(ask(&[3.0, 4.0]), Ok((7.0, vec![Value::Reals(vec![1.0; 2])])));
    let error = ask(&[3.0, 4.0, 5.0]).unwrap_err();
    assert!(error.contains("must have the shape of what it belongs to"), "{error}");
    // Nothing is asked of it where there is nothing to be differentiated.
    assert_eq!(ask(&[]), Ok((0.0, vec![Value::Reals(vec![])])));
}

#[test]
fn functions_are_imported_as_functions_are_defined() {
    // In lists, as values, by other names, in pmap and constants, in both branches of what isn't taken.
    let text = "
        import host \"my gain\" as gain : Real -> Real
        import host \"two\" : Real
        def twice (g : Real -> Real) (x : Real) : Real = g (g x)
        def main (n : Int) (x : Real) : Real =
            let fs = [gain, sin, twice gain] in
            sum (map (\\g -> g x) fs) + sum (pmap gain [| x * to_real i for i < n |]) + two * two";
    let own = text
        .replace("import host \"my gain\" as gain : Real -> Real", "def gain (x : Real) : Real = 3 * x * x")
        .replace("import host \"two\" : Real", "def two : Real = 2");
    let mut linker = Linker::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    linker.define("my gain", HostFunction::of(|x: f64| 3.0 * x * x).with_vjp(|x: f64, y_adj: f64| y_adj * 6.0 * x));
    linker.define(
        "two",
        HostFunction::flat(&[], &[LeafKind::Real], move |call| {
            counter.fetch_add(1, Ordering::SeqCst);
            call.give(2.0)
        }),
    );
    let args = [Value::Int(9), Value::Real(0.4)];
    let (value, gradient) = agreed(text, &linker, |main| main.value_and_grad(&args).expect("it has one"));
    assert_eq!(calls.load(Ordering::SeqCst), 4, "a constant is computed once in a call");
    let (expected, expected_gradient) = main_of(&own, &Linker::new(), Jit::Off, 1).value_and_grad(&args).expect("so");
    assert!((value - expected).abs() < 1e-13, "{value} and {expected}");
    assert!((flat(&gradient)[0] - flat(&expected_gradient)[0]).abs() < 1e-12);
    // What is made of source can be written and read.
    let made = module(text, &linker, Jit::Off, 1);
    let bytes = made.to_binary().expect("it is verified");
    let read = Module::from_binary(&engine(&linker, Jit::Off, 1), &bytes).expect("it is the same");
    assert_eq!(read.def(), made.def());
    let read = Module::from_assembly(&engine(&linker, Jit::Off, 1), "t.dvs", &made.to_assembly()).expect("so is this");
    assert_eq!(read.def().imports, made.def().imports);
    let error = Module::from_binary(&engine(&Linker::new(), Jit::Off, 1), &bytes).unwrap_err().to_string();
    assert!(error.contains("expected no imports, since nothing is given in x0"), "{error}");
}

/// Random chains of host functions and the same written in the language, forwards and backwards.
#[test]
fn zeros_meet_infinities_as_they_do_elsewhere() {
    let mut linker = Linker::new();
    let root = HostFunction::of(|x: f64| x.sqrt());
    linker.define(
        "root",
        root.clone().with_vjp(|x: f64, y_adj: f64| if y_adj == 0.0 { 0.0 } else { 0.5 * y_adj / x.sqrt() }),
    );
    let text = "
        import host \"root\" : Real -> Real
        def main (c : Real) (x : Real) : Real = c * root x + (if x > 0 then root x else 0)";
    let ask = |c: f64, x: f64| {
        let args = [Value::Real(c), Value::Real(x)];
        agreed(text, &linker, |main| format!("{:?}", main.value_and_grad(&args).expect("it has one")))
    };
    assert_eq!(ask(0.0, 0.0), "(0.0, [Real(0.0), Real(0.0)])");
    assert_eq!(ask(1.0, 0.0), "(0.0, [Real(0.0), Real(inf)])");
    assert_eq!(ask(f64::NAN, 4.0), "(NaN, [Real(2.0), Real(NaN)])");
    // The same variable twice, and one that isn't used.
    linker.define(
        "both",
        HostFunction::of(|x: f64, y: f64, _: f64| x * y).with_vjp(|x: f64, y: f64, _: f64, a: f64| (a * y, a * x, 0.0)),
    );
    let text = "
        import host \"both\" : Real -> Real -> Real -> Real
        def main (x : Real) (z : Real) : Real = both x x z";
    let found =
        agreed(text, &linker, |main| main.value_and_grad(&[Value::Real(3.0), Value::Real(5.0)]).expect("it has one"));
    assert_eq!(found, (9.0, vec![Value::Real(6.0), Value::Real(0.0)]));
}

#[test]
fn imports_have_errors_with_places_and_one_layout() {
    let refused = |text: &str, parts: &[&str]| {
        let text = format!("{text}\ndef main (x : Real) : Real = f x");
        let error = Module::from_source(&engine(&Linker::new(), Jit::Off, 1), "t.dual", &text).unwrap_err().to_string();
        parts.iter().for_each(|part| assert!(error.contains(part), "`{part}` isn't in\n{error}"));
    };
    refused(
        "import host \"2 f\" : Real -> Real",
        &["t.dual:1:13", "`2 f` can't be the name of a function", "as f : .."],
    );
    refused("import host \"f\" Real -> Real", &["t.dual:1:17", "expected `as` or `:`, found"]);
    refused("import host \"f\" as G : Real -> Real", &["t.dual:1:20", "`G` is capitalised"]);
    refused("import host \"f\" as f Real", &["t.dual:1:22", "expected `:`"]);
    refused("import host \"f\" : a -> Real", &["t.dual:1:19", "`a` stands for any type", "one type"]);
    refused("import host \"f\" : c Real -> Real", &["t.dual:1:19", "`c` stands for any type"]);
    refused("import host \"f\" : Real -> Rael", &["t.dual:1:27", "Rael"]);
    refused("import host \"f\" : Real ->", &["t.dual:2:1", "expected"]);
    let own = "functions of the host's neither take nor give functions";
    refused("import host \"g\" : (Real -> Real) -> Real\ndef f (x : Real) : Real = g sin", &["t.dual:1:20", own]);
    refused(
        "import host \"f\" : Real -> Real\nimport host \"f\" : Real -> Real",
        &["t.dual:2:13", "`f` is defined twice"],
    );
    // Among other imports, behind definitions, and a module that is called like the word.
    let mut importer = MemoryImporter::default();
    importer.insert("host", "def one : Real = 1");
    importer.insert("util", "def two : Real = 2");
    let options = CompileOptions::default().importing(Arc::new(importer));
    let text = "import host\nimport host \"f\" : Real -> Real\nimport util (two)\n
        def main (x : Real) : Real = f x + g two + host.one\nimport host \"g\" : Real -> Real";
    let mut linker = Linker::new();
    linker.define("f", HostFunction::of(|x: f64| x)).define("g", HostFunction::of(|x: f64| 10.0 * x));
    let module = Module::from_source_with(&engine(&linker, Jit::Off, 1), "t.dual", text, &options);
    let main = module.unwrap_or_else(|error| panic!("{error}")).function("main").expect("it is there");
    assert_eq!(main.call(&[Value::Real(5.0)]).unwrap_or_else(|error| panic!("{error}")), Value::Real(26.0));
    let crowded =
        "import   host   \"f\"as f:Real->{x:Real}\nimport host \"g\" : (  Real,Int)   -> Array(Real , Real)\n";
    let laid_out = dualvm::frontend::format("t.dual", crowded).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        laid_out,
        "import host \"f\" as f : Real -> { x : Real }\nimport host \"g\" : (Real, Int) -> Array (Real, Real)\n"
    );
}
