//! Runs in the middle of others: functions of the host's that call the machine, in each other, and the limits of these
//! calls.

#[allow(dead_code, reason = "derivatives are for others")]
#[path = "support/hosted.rs"]
mod hosted;

use dualvm::flat::LeafKind;
use dualvm::{
    CallOptions, CancelHandle, Error, Function, HostFunction, Jit, Limit, Limits, Linker, Listener, TrapKind, Value,
};
use hosted::main_of;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A function that is known once a program that calls it is there.
type Known = Arc<OnceLock<Function>>;

/// What a thread has if nobody says how much.
const STACK_BYTES: usize = 2 << 20;

/// Runs `body` in a thread with a stack of so many bytes.
fn on_stack<T: Send + 'static>(bytes: usize, body: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(bytes).spawn(body).expect("a thread starts");
    thread.join().expect("it ends well")
}

/// `main` of a program that calls `re` of the host's, which calls `main`.
fn recursive(text: &str, jit: Jit, threads: usize, re: impl FnOnce(Known) -> HostFunction) -> Function {
    let known = Known::default();
    let mut linker = Linker::new();
    linker.define("re", re(known.clone()));
    let main = main_of(text, &linker, jit, threads);
    assert!(known.set(main.clone()).is_ok(), "it is set once");
    main
}

fn real(found: Result<Value, Error>) -> Result<f64, Error> {
    found.map(|value| value.as_real().expect("it is a real"))
}

/// How deep `reaches` goes, if it goes down to what it is asked for up to a bound, and that the error beyond is clean.
fn deepest(reaches: impl Fn(i64) -> Result<f64, Error>) -> i64 {
    let (mut most, mut too_many) = (0, 5000);
    let error = reaches(too_many).expect_err("it is too deep");
    assert!(error.to_string().contains("the recursion is too deep"), "{error}");
    while most + 1 < too_many {
        let middle = (most + too_many) / 2;
        *(if reaches(middle).is_ok() { &mut most } else { &mut too_many }) = middle;
    }
    most
}

const DOWN: &str = "
    import host \"re\" : Real -> Real
    def main (x : Real) : Real = if x < 0.5 then 0 else 1 + re (x - 1)";

/// The host's function that calls the program again, with an array on the stack.
fn again<const WORDS: usize>(known: Known) -> HostFunction {
    HostFunction::flat(&[LeafKind::Real], &[LeafKind::Real], move |call| {
        let room = std::hint::black_box([call.real(0); WORDS]);
        let found = known.get().expect("it is known").call(&[Value::Real(room[0])]);
        call.give(real(found)? + std::hint::black_box(&room)[WORDS - 1] - room[0])
    })
}

#[test]
fn a_host_and_a_program_that_call_each_other_end_before_the_stack_of_the_thread() {
    for jit in [Jit::Off, Jit::Always] {
        for threads in [1, 3] {
            let main = recursive(DOWN, jit, threads, again::<1>);
            let down = main.clone();
            let depth = on_stack(STACK_BYTES, move || deepest(|n| real(down.call(&[Value::Real(n as f64)]))));
            assert_eq!(depth, 64, "{jit:?} on {threads}");
            // It was the thread's own affair, and it is over.
            assert_eq!(main.call(&[Value::Real(3.0)]).unwrap_or_else(|error| panic!("{error}")), Value::Real(3.0));
            let error = main.call(&[Value::Real(1000.0)]).unwrap_err();
            assert!(cause_of::<Error>(&error).is_some_and(|inner| inner.trap().is_some()), "{error}");
        }
    }
}

/// Where it can be told how much is left of the stack, what the host has on it counts.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn a_host_that_needs_much_stack_ends_earlier() {
    for jit in [Jit::Off, Jit::Always] {
        for (bytes, expected) in [(STACK_BYTES, 10..64), (16 << 20, 64..65), (256 << 10, 1..5)] {
            let main = recursive(DOWN, jit, 1, again::<{ (32 << 10) / 8 }>);
            let depth = on_stack(bytes, move || deepest(|n| real(main.call(&[Value::Real(n as f64)]))));
            assert!(expected.contains(&depth), "{depth} of {bytes} bytes, {jit:?}");
        }
    }
}

#[test]
fn derivatives_that_call_the_machine_end_as_well() {
    let text = "
        import host \"re\" : Real -> Real
        def main (x : Real) : Real = if x < 0.5 then 2 * x else re (x - 1)";
    for jit in [Jit::Off, Jit::Always] {
        let main = recursive(text, jit, 1, |known| {
            let (value, slope) = (known.clone(), known);
            let call = move |x: f64| real(value.get().expect("it is known").call(&[Value::Real(x)]));
            let vjp = move |x: f64, y_adj: f64| {
                let (_, gradient) = slope.get().expect("it is known").value_and_grad(&[Value::Real(x)])?;
                Ok::<_, Error>(y_adj * gradient[0].as_real().expect("it is a real"))
            };
            HostFunction::of(call).with_vjp(vjp).into()
        });
        let slope = move |n: i64| -> Result<f64, Error> {
            let (_, gradient) = main.value_and_grad(&[Value::Real(n as f64)])?;
            Ok(gradient[0].as_real().expect("it is a real"))
        };
        // Each level calls the program again twice: once for the value, down to the end.
        let found =
            on_stack(STACK_BYTES, move || [slope(8), slope(5000)].map(|found| found.map_err(|e| e.to_string())));
        assert_eq!(found[0], Ok(2.0));
        assert!(found[1].as_ref().is_err_and(|error| error.contains("the recursion is too deep")), "{:?}", found[1]);
    }
}

#[test]
fn a_listener_that_calls_what_it_listens_to_ends_as_well() {
    let text = "def main (x : Real) : Real = trace \"{x}\" (x + 1)";
    for jit in [Jit::Off, Jit::Always] {
        let main = main_of(text, &Linker::new(), jit, 1);
        let (count, listener) = (Arc::new(Mutex::new((0, None))), Arc::new(OnceLock::<Listener>::new()));
        let (heard, itself) = (count.clone(), listener.clone());
        let calls = move |main: &Function| {
            let options = CallOptions::default().traced_to(itself.get().expect("it is known"));
            main.call_with(&[Value::Real(1.0)], &options).map(|_| ())
        };
        let (again, inner) = (calls.clone(), main.clone());
        let listens = Listener::new(move |_| {
            heard.lock().expect("nobody panics").0 += 1;
            if let Err(error) = again(&inner) {
                heard.lock().expect("nobody panics").1.get_or_insert(error);
            }
        });
        assert!(listener.set(listens).is_ok(), "it is set once");
        let found = on_stack(STACK_BYTES, move || calls(&main).map_err(|error| error.to_string()));
        assert_eq!(found, Ok(()));
        let (count, error) = &*count.lock().expect("nobody panics");
        assert_eq!(*count, 65);
        let trap = error.as_ref().and_then(Error::trap).expect("the innermost call has trapped");
        assert_eq!(trap.kind, TrapKind::Limit(Limit::Depth));
    }
}

/// A program that ends if it is told to.
const FOREVER: &str = "def main (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2";

const THROUGH: &str = "
    import host \"inner\" : Real -> Real
    def main (x : Real) : Real = inner x";

/// A program as the host's function `inner`, within what is left of the run that calls it.
fn within(inner: Function, charges: bool) -> Linker {
    let inner = HostFunction::flat(&[LeafKind::Real], &[LeafKind::Real], move |call| {
        let (value, stats) = inner.call_with(&[call.real(0).into()], &call.nested_options())?;
        if charges {
            call.charge(stats.instructions);
        }
        call.give(value.as_real().expect("it is a real"))
    });
    let mut linker = Linker::new();
    linker.define("inner", inner);
    linker
}

#[test]
fn time_and_cancellation_of_a_run_are_those_of_what_its_host_calls() {
    let args = [Value::Real(1.0)];
    for jit in [Jit::Off, Jit::Always] {
        let main = main_of(THROUGH, &within(main_of(FOREVER, &Linker::new(), jit, 1), false), jit, 1);
        let began = Instant::now();
        let limits = Limits { deadline: Some(Duration::from_millis(200)), ..Limits::default() };
        let error = main.call_with(&args, &CallOptions::with_limits(limits)).unwrap_err();
        assert!(error.is_limit(), "{error}");
        // A time for the call counts like one for its end.
        let options = CallOptions::default().ending_at(Instant::now() + Duration::from_millis(100));
        let error = main.call_with(&args, &options).unwrap_err();
        assert!(error.is_limit(), "{error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());

        let handle = CancelHandle::new();
        let options = CallOptions::default().cancelled_by(&handle);
        let error = std::thread::scope(|scope| {
            let run = scope.spawn(|| main.call_with(&args, &options).map(|_| ()).unwrap_err());
            std::thread::sleep(Duration::from_millis(50));
            handle.cancel();
            run.join().expect("it ends")
        });
        assert!(error.is_cancelled(), "{error}");
    }
}

/// What a host reports when it stops a run, an interrupt of its own say, reaches who has called.
#[test]
fn a_host_that_cancels_its_run_is_heard() {
    for jit in [Jit::Off, Jit::Always] {
        let handle = CancelHandle::new();
        let cancels = handle.clone();
        let mut linker = Linker::new();
        linker.define(
            "inner",
            HostFunction::flat(&[LeafKind::Real], &[LeafKind::Real], move |_| {
                cancels.cancel();
                Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into())
            }),
        );
        let options = CallOptions::default().cancelled_by(&handle);
        let error = main_of(THROUGH, &linker, jit, 1).call_with(&[Value::Real(1.0)], &options).unwrap_err();
        assert!(cause_of::<std::io::Error>(&error).is_some(), "{error}");
    }
}

/// What a function of the host's has failed with, if it is of this type.
fn cause_of<E: std::error::Error + 'static>(error: &Error) -> Option<&E> {
    let TrapKind::Host(failure) = &error.trap()?.kind else { return None };
    failure.cause.as_ref()?.downcast_ref()
}

/// The limit of which a call inside of the host's function has told.
fn inner_limit(error: &Error) -> Limit {
    let inner = cause_of::<Error>(error).and_then(Error::trap);
    let Some(TrapKind::Limit(limit)) = inner.map(|trap| &trap.kind) else { panic!("{error}") };
    *limit
}

#[test]
fn fuel_and_depth_of_a_run_are_those_of_what_its_host_calls() {
    let deep = "def main (x : Real) : Real = if x < 0.5 then 0 else 1 + main (x - 1)";
    for jit in [Jit::Off, Jit::Always] {
        let main = main_of(THROUGH, &within(main_of(FOREVER, &Linker::new(), jit, 1), false), jit, 1);
        let limits = Limits { fuel: 1_000_000, ..Limits::default() };
        let error = main.call_with(&[Value::Real(1.0)], &CallOptions::with_limits(limits)).unwrap_err();
        assert_eq!(inner_limit(&error), Limit::Fuel);

        let down = main_of(THROUGH, &within(main_of(deep, &Linker::new(), jit, 1), false), jit, 1);
        let limits = Limits { depth: 100, ..Limits::default() };
        let call = |x: f64| down.call_with(&[Value::Real(x)], &CallOptions::with_limits(limits.clone()));
        assert_eq!(call(90.0).unwrap_or_else(|error| panic!("{error}")).0, Value::Real(90.0));
        assert_eq!(inner_limit(&call(10_000.0).unwrap_err()), Limit::Depth);
    }
}

/// Fuel that the host has charged counts as if the program had used it, on all engines.
#[test]
fn fuel_that_is_charged_is_used() {
    let work = "def main (x : Real) : Real = loop y = x for i < 10000 do y + 1";
    let text = "
        import host \"inner\" : Real -> Real
        def main (n : Int) : Real = loop y = 0.0 for i < n do inner y";
    let args = [Value::Int(100)];
    let fuels = [(Jit::Off, 1), (Jit::Always, 1), (Jit::Off, 3)].map(|(jit, threads)| {
        let inner = main_of(work, &Linker::new(), jit, 1);
        let (_, once) = inner.call_with(&[Value::Real(0.0)], &CallOptions::default()).expect("it ends");
        let [main, charged] = [false, true].map(|charges| main_of(text, &within(inner.clone(), charges), jit, threads));
        let (value, without) = main.call_with(&args, &CallOptions::default()).expect("it ends");
        let (same, with) = charged.call_with(&args, &CallOptions::default()).expect("it ends");
        assert_eq!((value, same), (Value::Real(1e6), Value::Real(1e6)));
        assert_eq!(with.instructions, without.instructions + 100 * once.instructions);
        // With all of it but one, the run or what is called last has too little.
        let limited =
            |fuel: u64| charged.call_with(&args, &CallOptions::with_limits(Limits { fuel, ..Limits::default() }));
        assert!(limited(with.instructions).is_ok());
        let error = limited(with.instructions - 1).unwrap_err();
        assert_eq!(error.trap().expect("it traps").kind, TrapKind::Limit(Limit::Fuel), "{error}");
        let error = limited(with.instructions / 2 + once.instructions / 2).unwrap_err();
        assert_eq!(inner_limit(&error), Limit::Fuel);
        with.instructions
    });
    assert_eq!(fuels[1..], [fuels[0]; 2]);
}

#[test]
fn more_may_be_charged_than_there_is() {
    let greedy = |fuel: u64| {
        HostFunction::flat(&[LeafKind::Real], &[LeafKind::Real], move |call| {
            call.charge(fuel);
            call.charge(fuel);
            let left = call.nested_options().limits.expect("they have limits").fuel;
            assert_eq!(left, 0);
            call.give(1.0)
        })
    };
    for fuel in [u64::MAX, u64::MAX / 2, 1 << 60] {
        for jit in [Jit::Off, Jit::Always] {
            let mut linker = Linker::new();
            linker.define("inner", greedy(fuel));
            let main = main_of(THROUGH, &linker, jit, 1);
            let error = main.call(&[Value::Real(1.0)]).unwrap_err();
            assert_eq!(error.trap().expect("it traps").kind, TrapKind::Limit(Limit::Fuel), "{error}");
        }
    }
}
