//! Texts with values: what a trap says, and what is traced, on every engine.

mod support;

use dualvm_vm::engine::Limits;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::text::parse;
use dualvm_vm::value::Value;
use support::engines::{Engines, Mode, Outcome};

fn module(text: &str) -> ModuleDef {
    parse(text, "test.dvs").unwrap_or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}", errors.join("\n\n"))
    })
}

/// The outcome of `main` on all engines, and what it traces.
fn run(def: &ModuleDef, args: &[Value], mode: Mode) -> (Outcome, Vec<String>) {
    let loaded = Engines::all().load(def, 0).unwrap_or_else(|errors| panic!("{}", errors[0]));
    loaded.run_and_listen("main", args, mode, &Limits::default()).unwrap_or_else(|difference| panic!("{difference}"))
}

/// How the run of `main` stops.
fn trap(text: &str, args: &[Value]) -> String {
    let (outcome, _) = run(&module(text), args, Mode::Call);
    let Outcome::Trap(trap) = outcome else { panic!("it stops: {outcome:?}") };
    trap.kind.to_string()
}

#[test]
fn a_trap_shows_values_of_all_types() {
    let text = r#"
        type t0 = array real
        type t1 = variant { Nil {}, Cons { int, t1 } }
        type t2 = variant { Circle { real }, Rect { real, real }, Point {} }
        type t3 = array t0
        data d0 "Shape" t2 = Circle (Real) | Rect { width : Real, height : Real } | Point ()
        template s0 ("x = ", Real, ", n = ", Int, ", on = ", Bool, ", pair = ", (Real, Int), ", p = ",
            { a : Real, b : Bool })
        template s1 ("xs = ", Array Real @t0, ", ns = ", List Int @t1, " ", Data "Shape" @d0, " ",
            Array (Array Real @t0) @t3, ".")
        func "main" (int, real, t0, t1, t2, t3) -> (real)
          export (which : Int, x : Real, xs : Array Real @t0, ns : List Int @t1, shape : Data "Shape" @d0,
              rows : Array (Array Real @t0) @t3) -> Real
          regs 2 real, 4 int, t0, t1, t2, t3
        {
          branch i0, first, second
        first:
          iconst i1, 7
          iconst i2, 1
          neg r1, r0
          trap_with s0 (r0, i1, i2, r1, i0, r0, i2)
        second:
          trap_with s1 (p0, p1, p2, p3)
        }"#;
    let reals = |n: usize| Value::Reals((0..n).map(|i| i as f64).collect());
    let ints = |n: i64| Value::Array((0..n).map(Value::Int).collect());
    let rect = Value::variant(
        "Rect",
        Value::Record(vec![("width".into(), Value::Real(1.5)), ("height".into(), Value::Real(-2.0))]),
    );
    let args = |which: i64, n: usize| {
        let shape = if n > 5 { Value::variant("Circle", Value::Tuple(vec![Value::Real(-0.5)])) } else { rect.clone() };
        [Value::Int(which), Value::Real(0.1), reals(n), ints(n as i64), shape, Value::Array(vec![reals(2); 2])]
    };
    let expected = "x = 0.1, n = 7, on = true, pair = (-0.1, 1), p = { a = 0.1, b = true }";
    assert_eq!(trap(text, &args(1, 0)), expected);
    let expected = "xs = [0.0, 1.0, 2.0], ns = [0, 1, 2] Rect { width = 1.5, height = -2.0 } [[0.0, 1.0], [0.0, 1.0]].";
    assert_eq!(trap(text, &args(0, 3)), expected);
    let expected = "xs = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, … 22 more …, 30.0, 31.0, 32.0], \
        ns = [0, 1, 2, 3, 4, 5, 6, 7, …] Circle (-0.5) [[0.0, 1.0], [0.0, 1.0]].";
    assert_eq!(trap(text, &args(0, 33)), expected);
    assert!(trap(text, &args(0, 32)).contains("30.0, 31.0], ns = [0, "));
}

/// A loop that traces its rounds, by a function where that is longer than what registers hold.
const LOOP: &str = r#"
    type t0 = array real
    template s0 ("round ", Int, ": ", Real)
    template s1 ("twice ", Real, " of ", Array Real @t0) by "twice"
    func "twice" (real, t0) -> (real, t0)
      regs 1 real, t0
    {
      add r0, r0, r0
      ret (r0, p0)
    }
    func "main" (t0, real) -> (real)
      export (xs : Array Real @t0, x : Real) -> Real
      regs 3 real, 5 int, t0
    {
      const r1, 0
      iconst i0, 0
      iconst i1, 1
      len i2, p0
      jump test
    next:
      elem r2, p0, i0
      mul r2, r2, r0
      add r1, r1, r2
      trace s0 (i0, r1)
      mul r1, r1, r0
      trace s1 (r1, p0)
      iadd i0, i0, i1
    test:
      ilt i3, i0, i2
      branch i3, next, end
    end:
      ret (r1)
    }"#;

#[test]
fn a_loop_traces_each_round_once_and_its_records_are_what_they_were() {
    let def = module(LOOP);
    let args = [Value::Reals(vec![1.0, 2.0, 3.0]), Value::Real(0.5)];
    let expected = [
        "round 0: 0.5",
        "twice 0.5 of [1.0, 2.0, 3.0]",
        "round 1: 1.25",
        "twice 1.25 of [1.0, 2.0, 3.0]",
        "round 2: 2.125",
        "twice 2.125 of [1.0, 2.0, 3.0]",
    ];
    for mode in [Mode::Call, Mode::Gradient, Mode::Jacobian, Mode::Columns, Mode::Hessian] {
        let (_, traced) = run(&def, &args, mode);
        assert_eq!(traced, expected, "{mode:?}");
    }
}
