//! The reference implementation itself: if it is wrong, agreeing with it means nothing.

mod support;

use dualvm_vm::isa::Op;
use dualvm_vm::module::ModuleDef;
use dualvm_vm::trap::TrapKind;
use dualvm_vm::value::Value;
use support::numbers::{Forward, Naive, Taped};
use support::reference::{Number, Stop, Val, partials, real_value, run, strong};
use support::{assemble, assert_all_close, assert_close, export_all, flatten, load};

fn index(def: &ModuleDef) -> usize {
    def.function("f").expect("there is an `f`").0.index()
}

fn results<N: Number>(def: &ModuleDef, args: Vec<Val<N>>) -> Result<Vec<Val<N>>, Stop> {
    run(def, index(def), args, 1_000_000).map(|(results, _)| results)
}

/// Value and gradient of `f` for reals, the same from all three kinds of dual number and from the engine.
#[track_caller]
fn agreed(source: &str, xs: &[f64]) -> (f64, Vec<f64>) {
    let mut def = assemble(source);
    export_all(&mut def);
    let value = *results::<f64>(&def, xs.iter().map(|&x| Val::Real(x)).collect()).unwrap()[0].real();

    let naive = xs.iter().enumerate().map(|(n, &x)| Val::Real(Naive::input(n, x))).collect();
    let naive = results(&def, naive).unwrap()[0].real().gradient(xs.len(), 1_000_000).expect("a small program");

    Taped::begin();
    let taped = xs.iter().map(|&x| Val::Real(Taped::input(x))).collect();
    let taped = results(&def, taped).unwrap()[0].real().gradient(xs.len()).gradient;

    let forward: Vec<f64> = (0..xs.len())
        .map(|n| {
            let seed = |at: usize| f64::from(u8::from(at == n));
            let args = xs.iter().enumerate().map(|(at, &primal)| Val::Real(Forward { primal, tangent: seed(at) }));
            results(&def, args.collect()).unwrap()[0].real().tangent
        })
        .collect();

    let args: Vec<Value> = xs.iter().map(|&x| Value::Real(x)).collect();
    let (found, gradient) = load(def).function("f").unwrap().value_and_grad(&args).unwrap();
    assert_eq!(found, value);
    assert_all_close(&naive, &taped, 1e-12);
    assert_all_close(&forward, &taped, 1e-12);
    assert_all_close(&flatten(&gradient), &taped, 1e-12);
    (value, naive)
}

#[test]
fn the_papers_example_is_differentiated() {
    // Smeding and Vákár, section 5.3: x (x + y).
    let source =
        "func f0 \"f\" (real, real) -> (real)\n regs 4 real\n{\n add r2, r0, r1\n mul r3, r0, r2\n ret (r3)\n}";
    assert_eq!(agreed(source, &[3.0, 4.0]), (21.0, vec![10.0, 3.0]));
}

#[test]
fn closures_variants_arrays_and_recursion_are_differentiated() {
    // A list of three powers of x, folded with a closure that captures y, by way of an array.
    let source = "
type t0 = variant { Nil {}, Cons { real, t0 } }
type t1 = closure (real, real) -> (real)
type t2 = array real
type t3 = builder real

func f0 \"scaled_sum\" (real, real, real) -> (real)
  regs 3 real
{
  fma r1, r0, r2, r1
  ret (r1)
}

func f1 \"fold\" (t1, real, t0) -> (real)
  regs 2 real, 1 int, t1, t0
{
  variant_tag i0, p1
  switch i0, [nil, cons], nil
nil:
  ret (r0)
cons:
  payload r1, p1, 1, 0
  ppayload p1, p1, 1, 1
  call_closure p0 (r0, r1) -> (r0)
  tail_call f1 (p0, r0, p1)
}

func f2 \"powers\" (real, real, int) -> (t0)
  regs 2 real, 2 int, t0
{
  branch i0, more, done
more:
  mul r1, r1, r0
  iconst i1, 1
  isub i0, i0, i1
  call f2 (r0, r1, i0) -> (p0)
  variant_new p0, 1 (r1, p0)
  ret (p0)
done:
  variant_new p0, 0 ()
  ret (p0)
}

func f3 \"f\" (real, real) -> (real)
  regs 4 real, 2 int, t0, t1, t3, t2
{
  const r2, 1.0
  iconst i0, 3
  call f2 (r0, r2, i0) -> (p0)
  closure_new p1, f0 (r1)
  const r3, 0.0
  call f1 (p1, r3, p0) -> (r3)
  build p2, i0
  push p2, r3
  push p2, r0
  finish p3, p2
  iconst i0, 0
  iconst i1, 1
  elem r2, p3, i0
  elem r3, p3, i1
  mul r2, r2, r3
  ret (r2)
}
";
    // y (x + x² + x³) x
    let (x, y) = (1.5f64, -2.0f64);
    let (value, gradient) = agreed(source, &[x, y]);
    assert_close(value, y * (x * x + x.powi(3) + x.powi(4)), 1e-14);
    let expected = [y * (2.0 * x + 3.0 * x * x + 4.0 * x.powi(3)), x * x + x.powi(3) + x.powi(4)];
    assert_all_close(&gradient, &expected, 1e-14);
}

#[test]
fn traps_say_what_happened() {
    let trap = |code: &str, n: i64| {
        let types =
            "type t0 = array real\ntype t1 = builder real\ntype t2 = variant { A { real }, B {} }\nmessage m0 \"no\"\n";
        let source = format!(
            "{types}func f0 \"f\" (real, int) -> (real)\n regs 2 real, 2 int, t0, t1, t2\n{{\n{code}\n ret (r0)\n}}"
        );
        let mut def = assemble(&source);
        export_all(&mut def);
        let expected = results::<f64>(&def, vec![Val::Real(1.5), Val::Int(n)]).err();
        let found = load(def).function("f").unwrap().call(&[Value::Real(1.5), Value::Int(n)]);
        match (expected, found) {
            (Some(Stop::Trap(expected)), Err(dualvm_vm::engine::RunError::Trap(found))) => {
                assert_eq!(expected, found.kind);
                expected
            }
            other => panic!("{other:?}"),
        }
    };
    let by_zero = TrapKind::DivisionByZero { dividend: 0, is_remainder: false };
    assert_eq!(trap("idiv i1, i0, i0", 0), by_zero);
    let overflow = TrapKind::DivisionOverflow { is_remainder: true };
    assert_eq!(trap("iconst i1, -1\n irem i1, i0, i1", i64::MIN), overflow);
    assert_eq!(trap("pack p0 (r0)\n elem r1, p0, i0", 1), TrapKind::IndexOutOfBounds { index: 1, len: 1 });
    assert_eq!(trap("build p1, i0", -1), TrapKind::BadCapacity(-1));
    assert_eq!(trap("build p1, i0\n push p1, r0\n push p1, r0", 1), TrapKind::BuilderFull { capacity: 1 });
    assert_eq!(trap("build p1, i0\n finish p0, p1\n push p1, r0", 1), TrapKind::BuilderFinished);
    assert_eq!(trap("build p1, i0\n finish p0, p1\n finish p0, p1", 1), TrapKind::BuilderFinished);
    assert_eq!(trap("variant_new p2, 1 ()\n payload r0, p2, 0, 0", 1), TrapKind::WrongTag { expected: 0, found: 1 });
    assert_eq!(trap("const r0, 1e300\n to_int i0, r0", 1), TrapKind::NotAnInteger(1e300));
    assert_eq!(trap("trap m0\n mov r0, r0", 1), TrapKind::Message("no".into()));
}

#[test]
fn an_aliased_builder_is_one_builder() {
    let source = "type t0 = array real\ntype t1 = builder real\nfunc f0 \"fill\" (t1, real) -> (t1)
     regs 1 real, t1\n{\n push p0, r0\n ret (p0)\n}
func f1 \"f\" (real, real) -> (real)\n regs 4 real, 3 int, t1, t1, t1, t0\n{\n iconst i0, 4\n build p0, i0\n pmov p1, p0
 call f0 (p1, r0) -> (p2)\n push p2, r1\n push p0, r0\n finish p3, p1\n len i1, p3\n to_real r2, i1
  iconst i2, 1\n elem r3, p3, i2
 mul r2, r2, r3\n ret (r2)\n}";
    assert_eq!(agreed(source, &[2.0, 5.0]), (15.0, vec![0.0, 3.0]));
}

#[test]
fn strong_products_are_symmetric_and_kill_infinities() {
    for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3.0, 0.0] {
        assert_eq!(strong(0.0, x), 0.0);
        assert_eq!(strong(x, -0.0), 0.0);
    }
    assert!(strong(f64::NAN, 1.0).is_nan());
}

#[test]
fn formulas_agree_with_differences_for_every_differentiable_instruction() {
    for &op in Op::ALL.iter().filter(|op| op.info().differentiable) {
        for base in [[0.37, 0.61, -0.4], [0.83, 0.29, 1.7], [-0.42, 0.55, 0.9]] {
            // The domain of the logarithm and its kin, and of acosh.
            let shift = match op {
                Op::Acosh => 2.0,
                Op::Sqrt | Op::Log | Op::Log2 | Op::Log10 | Op::Pow | Op::Lgamma | Op::Digamma | Op::Polygamma => 0.8,
                _ => 0.0,
            };
            let xs = [base[0] + shift, base[1], base[2]];
            let arity = op.info().operands[1..]
                .iter()
                .filter(|operand| operand.role == dualvm_vm::isa::Role::Use(dualvm_vm::isa::Bank::Real))
                .count();
            let ints = [2];
            let found = partials(op, &xs[..arity], &ints, &real_value(op, &xs[..arity], &ints));
            for (n, &found) in found.iter().enumerate() {
                let at = |change: f64| {
                    let mut xs = xs;
                    xs[n] += change;
                    real_value(op, &xs[..arity], &ints)
                };
                let slope = |h: f64| (at(h) - at(-h)) / (2.0 * h);
                let estimate = (4.0 * slope(1e-3) - slope(2e-3)) / 3.0;
                let fine = (estimate - found).abs() <= 1e-8 * found.abs().max(1.0);
                assert!(fine, "partial {n} of {op:?} at {xs:?}: formula {found:e}, differences {estimate:e}");
            }
        }
    }
}
