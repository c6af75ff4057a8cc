//! Typed calls of the machine alone: objects of every kind are made of types of Rust and read again, with and without
//! a tape. The sanitizers and Miri run this.

use dualvm_vm::engine::{Engine, Function, Module};
use dualvm_vm::text;
use dualvm_vm::typed::Matrix;

/// Identity functions, and one that reads all that it is given.
const PROGRAM: &str = r#"
type t0 = array real
type t1 = array t0
type t2 = struct { real, int, real }
type t3 = array t2
type t4 = variant { Nil {}, Cons { real, int, real, t4 } }
type t5 = array int
type t6 = variant { Nil {}, Cons { t0, t6 } }
type t7 = struct { t0, real }
type t8 = array t7

func "same" (t1, t3, t4, t5, t6, t8) -> (t1, t3, t4, t5, t6, t8)
  export (rows : Array (Array Real @t0) @t1, points : Array (Real, (Int, Real)) @t3, list : List (Real, Bool, Real) @t4,
      flags : Array Bool @t5, lists : List (Array Real @t0) @t6, pairs : Array (Array Real @t0, Real) @t8)
    -> (Array (Array Real @t0) @t1, Array (Real, (Int, Real)) @t3, List (Real, Bool, Real) @t4, Array Bool @t5,
        List (Array Real @t0) @t6, Array (Array Real @t0, Real) @t8)
  regs t1, t3, t4, t5, t6, t8
{
  ret (p0, p1, p2, p3, p4, p5)
}
func "some" (t1, t3, t8) -> (real)
  export (rows : Array (Array Real @t0) @t1, points : Array (Real, (Int, Real)) @t3,
      pairs : Array (Array Real @t0, Real) @t8) -> Real
  regs 2 real, 2 int, t1, t3, t8, t0, t2, t7
{
  iconst i0, 1
  iconst i1, 0
  pelem p3, p0, i0
  elem r0, p3, i1
  pelem p4, p1, i0
  field r1, p4, 2
  mul r0, r0, r1
  pelem p5, p2, i1
  pfield p3, p5, 0
  elem r1, p3, i0
  mul r0, r0, r1
  ret (r0)
}
"#;

fn function(name: &str) -> Function {
    let def = text::parse(PROGRAM, "typed.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = Module::new(&Engine::default(), def).unwrap_or_else(|errors| panic!("{}", errors[0]));
    module.function(name).expect("the program has the function")
}

type Point = (f64, (i64, f64));
type Item = (f64, bool, f64);
type Pair = (Vec<f64>, f64);
type Same = (Vec<Vec<f64>>, Vec<Point>, Vec<Item>, Vec<bool>, Vec<Vec<f64>>, Vec<Pair>);

#[test]
fn what_is_written_is_read_again() {
    type Args<'a> = (&'a [&'a [f64]], &'a [Point], Vec<Item>, &'a [bool], &'a [Vec<f64>], &'a [Pair]);
    let same = function("same").typed::<Args<'_>, Same>().expect("its types");
    let (points, items) = ([(1.0, (2, 3.0)), (4.0, (5, 6.0))], vec![(7.0, true, 8.0), (9.0, false, 10.0)]);
    let (lists, pairs) = ([vec![11.0], vec![]], [(vec![12.0, 13.0], 14.0), (vec![], 15.0)]);
    let args: Args<'_> = (&[&[16.0, 17.0], &[], &[18.0]], &points, items.clone(), &[true, false, true], &lists, &pairs);
    let rows = vec![vec![16.0, 17.0], vec![], vec![18.0]];
    let expected: Same = (rows, points.to_vec(), items, vec![true, false, true], lists.to_vec(), pairs.to_vec());
    assert_eq!(same.call(args.clone()).expect("runs"), expected);

    // Each real depends on itself.
    let (value, jacobian) = same.jacobian(args).expect("runs");
    assert_eq!((value, jacobian.len()), (expected, 3 + 4 + 4 + 1 + 4));
    assert_eq!(jacobian[0].0, [vec![1.0, 0.0], vec![], vec![0.0]]);
    assert_eq!(jacobian[6].1, [(0.0, ((), 0.0)), (0.0, ((), 1.0))]);
    assert_eq!(jacobian[7].2, [(1.0, (), 0.0), (0.0, (), 0.0)]);
    assert_eq!(jacobian[11].4, [vec![1.0], vec![]]);
    assert_eq!(jacobian[15].5, [(vec![0.0, 0.0], 0.0), (vec![], 1.0)]);
    let nothing = (&[][..], &[][..], vec![], &[][..], &[][..], &[][..]);
    assert_eq!(same.jacobian(nothing).expect("runs"), (Same::default(), vec![]));
}

#[test]
fn gradients_stand_in_vectors_and_in_slices() {
    let some = function("some");
    let points = [(1.0, (2, 3.0)), (4.0, (5, 6.0))];
    let pairs = [([7.0, 8.0], 9.0)];
    let pairs: Vec<(&[f64], f64)> = pairs.iter().map(|(xs, x)| (&xs[..], *x)).collect();
    let m = Matrix::new(&[10.0, 11.0], [2, 1]).expect("two rows of one");
    type Args<'a> = (Matrix<'a>, &'a [Point], &'a [(&'a [f64], f64)]);
    let typed = some.typed::<Args<'_>, f64>().expect("its types");
    let (value, gradient) = typed.value_and_grad((m, &points, &pairs)).expect("runs");
    let expected = (vec![0.0, 48.0], vec![(0.0, ((), 0.0)), (0.0, ((), 88.0))], vec![(vec![0.0, 66.0], 0.0)]);
    assert_eq!((value, &gradient), (528.0, &expected));
    let mut over = gradient;
    typed.value_and_grad_into((m, &points, &pairs), &mut over).expect("runs");
    assert_eq!(over, expected);

    let (mut by_m, mut by_points, mut by_pairs) = ([1.0; 2], [1.0; 4], [1.0; 3]);
    let slices = [&mut by_m[..], &mut by_points, &mut by_pairs];
    typed.value_and_grad_into_slices((m, &points, &pairs), slices).expect("runs");
    assert_eq!((by_m, by_points, by_pairs), ([0.0, 48.0], [0.0, 0.0, 0.0, 88.0], [0.0, 66.0, 0.0]));

    // Objects of constants, and those that hold both.
    let by_points = some.wrt(&["points"]).expect("a parameter").typed::<Args<'_>, f64>().expect("its types");
    let (_, gradient) = by_points.value_and_grad((m, &points, &pairs)).expect("runs");
    assert_eq!(gradient, (vec![], expected.1, vec![]));
}
