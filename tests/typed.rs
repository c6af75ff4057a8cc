//! Typed calls with arrays of every kind: value, gradient, fuel and tape are those of calls with values, to the last
//! bit, interpreted and compiled; gradients come as new values, over earlier ones and in the host's slices; and what
//! doesn't fit is refused with its place.

mod support;
#[path = "support/typed_calls.rs"]
mod typed_calls;

use dualvm::vm::typed::{Arguments, Output};
use dualvm::{CallOptions, Config, Engine, Error, ErrorKind, Function, Limits, Matrix, Module, Tensor, Value};
use std::time::Duration;
use support::flatten;
use typed_calls::{engines, function_of, used};

const PROGRAM: &str = "
    def ints (ns : Array Int) (xs : List Real) (ms : List Int) (bs : Array Bool) : Real =
      loop sum = to_real (length bs) for i < length ns do
        sum + to_real ns[i] * (if bs[i] then product xs else 3.0) + to_real (length ms)
    def points (ps : Array (Real, Real, Real)) (k : Real) : Real =
      loop sum = 0.0 for i < length ps do let (x, y, z) = ps[i] in sum + k * x * y - sin z
    def parts (ps : Array (Real, (Int, Real), Bool)) (qs : List ((Real, Real), Int)) : Real =
      let each ((x, y), n) = x * y * to_real n in
      (loop sum = 0.0 for i < length ps do
        let (x, (n, y), on) = ps[i] in sum + to_real n * x * (if on then y else 1.0)) * sum (map each qs)
    def rows (m : Array (Array Real)) (ls : List (Array Real)) (xss : Array (List Real)) : Real =
      let total xs = loop sum = 0.0 for i < length xs do sum + xs[i] * xs[i] in
      (loop sum = 1.0 for i < length m do sum + to_real (i + 1) * total m[i])
        + sum (map total ls) * (loop sum = 0.0 for i < length xss do sum + product xss[i])
    def bodies (bs : Array ((Real, Real), Array Real, List (Real, Int))) : Real =
      let each ((x, y), zs, ps) = x * y * sum zs * sum (map (\\(p, n) -> p * to_real n) ps) in
      loop sum = 0.0 for i < length bs do sum + each bs[i]
    def constants (us : Array ()) (ns : Array (Int, Bool)) (x : Real) : Real = x * to_real (length us + length ns)
    def square (m : Array (Array Real)) : Array (Array Real) = [| [| x * x for x in row |] for row in m |]
    def split (ps : Array (Real, Int, (Real, Bool))) =
      let firsts = [| let (x, _, _) = p in 2 * x for p in ps |] in
      let counts = [| let (_, n, _) = p in n + 1 for p in ps |] in
      let flags = [| let (_, _, (_, on)) = p in not on for p in ps |] in
      let lists = [([firsts[0]], counts[0]), ([], counts[1])] in
      let products = [| let (x, n, (y, on)) = p in (x * y, n, (y, on)) for p in ps |] in
      (firsts, counts, flags, products, lists, [length ps, counts[0]], [true])
    def spin (ps : Array (Real, Real)) : Real =
      loop x = 0.0 for i < 1000000000 do let (a, b) = ps[i % length ps] in x + a * b";

fn function(engine: &Engine, name: &str) -> Function {
    function_of(PROGRAM, engine, name)
}

fn bits(xs: &[f64]) -> Vec<u64> {
    xs.iter().map(|x| x.to_bits()).collect()
}

fn json(text: &str, function: &Function) -> Vec<Value> {
    use serde::de::DeserializeSeed;
    let mut json = serde_json::Deserializer::from_str(text);
    function.arguments_seed().deserialize(&mut json).unwrap_or_else(|error| panic!("{}: {error}", function.name()))
}

/// Compares typed calls with calls that take the same arguments as JSON; returns the gradient.
fn check<Args, const N: usize>(engine: &Engine, name: &str, text: &str, args: Args) -> Args::Gradient
where
    Args: for<'g> Arguments<Slices<'g> = [&'g mut [f64]; N], Gradient: Clone + PartialEq + std::fmt::Debug> + Clone,
{
    let (function, options) = (function(engine, name), CallOptions::default());
    let values = json(text, &function);
    let typed = function.typed::<Args, f64>().unwrap_or_else(|error| panic!("{error}"));

    let (value, stats) = function.call_with(&values, &options).unwrap();
    let (typed_value, typed_stats) = typed.call_with(args.clone(), &options).unwrap();
    assert_eq!(Value::Real(typed_value), value, "{name}");
    assert_eq!(used(&typed_stats), used(&stats), "{name}");

    let expected = function.value_and_grad_with(&values, &options).unwrap();
    let (typed_value, gradient, typed_stats) = typed.value_and_grad_with(args.clone(), &options).unwrap();
    assert_eq!(typed_value.to_bits(), expected.value.to_bits(), "{name}");
    assert_eq!(used(&typed_stats), used(&expected.stats), "{name}");

    let each: Vec<Vec<f64>> = expected.gradient.iter().map(|one| flatten(std::slice::from_ref(one))).collect();
    let mut found: [Vec<f64>; N] = std::array::from_fn(|n| vec![f64::NAN; each[n].len()]);
    let mut slices = found.each_mut();
    let value = typed.value_and_grad_into_slices(args.clone(), slices.each_mut().map(|slice| &mut slice[..])).unwrap();
    assert_eq!(value.to_bits(), expected.value.to_bits(), "{name}");
    each.iter().zip(&found).for_each(|(expected, found)| assert_eq!(bits(found), bits(expected), "{name}"));

    let mut over = gradient.clone();
    for _ in 0..2 {
        typed.value_and_grad_into(args.clone(), &mut over).unwrap();
        assert_eq!(over, gradient, "{name}");
    }
    gradient
}

#[test]
fn arrays_of_integers_and_booleans_are_arguments() {
    for engine in engines() {
        let args = (&[3, -4][..], vec![2.0, 5.0], vec![7, 8, 9], &[true, false][..]);
        let text = "[[3, -4], [2, 5], [7, 8, 9], [true, false]]";
        let gradient = check::<(&[i64], Vec<f64>, Vec<i64>, &[bool]), 4>(&engine, "ints", text, args);
        assert_eq!(gradient, ((), vec![15.0, 6.0], (), ()));
        let none = (&[][..], vec![], vec![], &[][..]);
        let gradient = check::<(&[i64], Vec<f64>, Vec<i64>, &[bool]), 4>(&engine, "ints", "[[], [], [], []]", none);
        assert_eq!(gradient, ((), vec![], (), ()));
    }
}

#[test]
fn arrays_of_tuples_are_arguments() {
    for engine in engines() {
        let (tuples, arrays) = ([(1.0, 2.0, 0.0), (3.0, 4.0, 0.0)], vec![[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]);
        let text = "[[[1, 2, 0], [3, 4, 0]], 10]";
        let by_k = 14.0;
        let gradient = check::<(&[(f64, f64, f64)], f64), 2>(&engine, "points", text, (&tuples, 10.0));
        assert_eq!(gradient, (vec![(20.0, 10.0, -1.0), (40.0, 30.0, -1.0)], by_k));
        let gradient = check::<(&[[f64; 3]], f64), 2>(&engine, "points", text, (&arrays, 10.0));
        assert_eq!(gradient, (vec![[20.0, 10.0, -1.0], [40.0, 30.0, -1.0]], by_k));
        let gradient = check::<(&Vec<[f64; 3]>, f64), 2>(&engine, "points", "[[], 10]", (&vec![], 10.0));
        assert_eq!(gradient, (vec![], 0.0));

        type Part = (f64, (i64, f64), bool);
        let ps: [Part; 2] = [(2.0, (3, 5.0), true), (7.0, (11, 13.0), false)];
        let qs = vec![([1.0, 0.5], 4), ([2.0, 1.0], 1)];
        let text = "[[[2, [3, 5], true], [7, [11, 13], false]], [[[1, 0.5], 4], [[2, 1], 1]]]";
        let gradient = check::<(&[Part], Vec<([f64; 2], i64)>), 2>(&engine, "parts", text, (&ps, qs));
        let by_ps = vec![(60.0, ((), 24.0), ()), (44.0, ((), 0.0), ())];
        assert_eq!(gradient, (by_ps, vec![([214.0, 428.0], ()), ([107.0, 214.0], ())]));
    }
}

#[test]
fn nested_arrays_and_matrices_are_arguments() {
    for engine in engines() {
        let (first, second) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
        let (m, ls, xss) = ([&first[..], &second[..]], vec![vec![1.0], vec![], vec![2.0, 3.0]], [vec![3.0, 5.0]]);
        let text = "[[[1, 2, 3], [4, 5, 6]], [[1], [], [2, 3]], [[3, 5]]]";
        type Rows<'a> = (&'a [&'a [f64]], Vec<Vec<f64>>, &'a [Vec<f64>]);
        let (by_ls, by_xss) = (vec![vec![30.0], vec![], vec![60.0, 90.0]], vec![vec![70.0, 42.0]]);
        let gradient = check::<Rows<'_>, 3>(&engine, "rows", text, (&m, ls.clone(), &xss));
        let by_m = vec![vec![2.0, 4.0, 6.0], vec![16.0, 20.0, 24.0]];
        assert_eq!(gradient, (by_m, by_ls.clone(), by_xss.clone()));

        let elements = [first, second].concat();
        let m = Matrix::new(&elements, [2, 3]).unwrap();
        type Shaped<'a> = (Matrix<'a>, Vec<Vec<f64>>, &'a [Vec<f64>]);
        let gradient = check::<Shaped<'_>, 3>(&engine, "rows", text, (m, ls.clone(), &xss));
        assert_eq!(gradient, (vec![2.0, 4.0, 6.0, 16.0, 20.0, 24.0], by_ls, by_xss));

        for (shape, text) in [([0, 3], "[[], [], []]"), ([2, 0], "[[[], []], [], []]")] {
            let m = Matrix::new(&[], shape).unwrap();
            assert_eq!(check::<Shaped<'_>, 3>(&engine, "rows", text, (m, vec![], &[])), (vec![], vec![], vec![]));
        }
    }
}

#[test]
fn arrays_and_lists_stand_in_tuples_in_arrays() {
    for engine in engines() {
        let (zs, ps) = (vec![1.0, 2.0], vec![(5.0, 2)]);
        let bodies = [([2.0, 3.0], &zs[..], ps), ([1.0, 1.0], &[], vec![])];
        let text = "[[[[2, 3], [1, 2], [[5, 2]]], [[1, 1], [], []]]]";
        type Body<'a> = ([f64; 2], &'a [f64], Vec<(f64, i64)>);
        let (gradient,) = check::<(&[Body<'_>],), 1>(&engine, "bodies", text, (&bodies,));
        let first = ([90.0, 60.0], vec![60.0, 60.0], vec![(36.0, ())]);
        assert_eq!(gradient, [first, ([0.0, 0.0], vec![], vec![])]);
    }
}

#[test]
fn elements_without_reals_have_no_gradient() {
    for engine in engines() {
        let text = "[[[], [], []], [[1, true], [2, false]], 1.5]";
        let args = (&[(), (), ()][..], vec![(1, true), (2, false)], 1.5);
        let gradient = check::<(&[()], Vec<(i64, bool)>, f64), 3>(&engine, "constants", text, args);
        assert_eq!(gradient, (vec![(); 3], vec![((), ()); 2], 5.0));
    }
}

type Row = (f64, i64, (f64, bool));
type Split = (Vec<f64>, Vec<i64>, Vec<bool>, Vec<Row>, Vec<(Vec<f64>, i64)>, Vec<i64>, Vec<bool>);

#[test]
fn results_are_vectors_of_the_same_types() {
    for engine in engines() {
        let square = function(&engine, "square").typed::<(Matrix<'_>,), Vec<Vec<f64>>>().unwrap();
        let m = Matrix::new(&[1.0, 2.0, 3.0, 4.0], [2, 2]).unwrap();
        assert_eq!(square.call((m,)).unwrap(), [[1.0, 4.0], [9.0, 16.0]]);
        let (value, rows) = square.jacobian((m,)).unwrap();
        assert_eq!(value, [[1.0, 4.0], [9.0, 16.0]]);
        let row = |n: usize, x| (Vec::from_iter((0..4).map(|k| if k == n { x } else { 0.0 })),);
        assert_eq!(rows, [row(0, 2.0), row(1, 4.0), row(2, 6.0), row(3, 8.0)]);

        let split = function(&engine, "split");
        let rows = [(1.0, 2, (3.0, true)), (4.0, 5, (6.0, false))];
        let values = json("[[[1, 2, [3, true]], [4, 5, [6, false]]]]", &split);
        let typed = split.typed::<(&[Row],), Split>().unwrap();
        let options = CallOptions::default();
        let (found, stats) = typed.call_with((&rows,), &options).unwrap();
        let products = vec![(3.0, 2, (3.0, true)), (24.0, 5, (6.0, false))];
        let lists = vec![(vec![2.0], 3), (vec![], 6)];
        let bools = (vec![false, true], vec![true]);
        assert_eq!(found, (vec![2.0, 8.0], vec![3, 6], bools.0, products, lists, vec![2, 3], bools.1));
        assert_eq!(used(&stats), used(&split.call_with(&values, &options).unwrap().1));

        let expected = split.jacobian_with(&values, &options).unwrap();
        let (again, rows, stats) = typed.jacobian_with((&rows,), &options).unwrap();
        assert_eq!((again, used(&stats)), (found, used(&expected.stats)));
        assert_eq!(rows.len(), expected.rows.len());
        for ((row,), expected) in rows.iter().zip(&expected.rows) {
            let row: Vec<f64> = row.iter().flat_map(|&(x, (), (y, ()))| [x, y]).collect();
            assert_eq!(bits(&row), bits(&flatten(expected)));
        }
    }
}

#[test]
fn gradients_are_written_to_slices_and_over_what_was_there() {
    let engine = Engine::default();
    let points = function(&engine, "points");
    let typed = points.typed::<(&[(f64, f64, f64)], f64), f64>().unwrap();
    let ps = [(1.0, 2.0, 0.0), (3.0, 4.0, 0.0)];
    let mut gradient = (vec![(9.0, 9.0, 9.0); 5], 9.0);
    assert_eq!(typed.value_and_grad_into((&ps, 10.0), &mut gradient).unwrap(), 140.0);
    assert_eq!(gradient, (vec![(20.0, 10.0, -1.0), (40.0, 30.0, -1.0)], 14.0));
    typed.value_and_grad_into((&ps[..1], 10.0), &mut gradient).unwrap();
    assert_eq!(gradient, (vec![(20.0, 10.0, -1.0)], 2.0));

    // Places for what is not asked for don't exist.
    let by_k = points.wrt(&["k"]).unwrap().typed::<(&[(f64, f64, f64)], f64), f64>().unwrap();
    let mut k = [0.0];
    assert_eq!(by_k.value_and_grad_into_slices((&ps, 10.0), [&mut [], &mut k]).unwrap(), 140.0);
    assert_eq!(k, [14.0]);
    assert_eq!(by_k.value_and_grad((&ps, 10.0)).unwrap().1, (vec![], 14.0));
    by_k.value_and_grad_into((&ps, 10.0), &mut gradient).unwrap();
    assert_eq!(gradient, (vec![], 14.0));

    let (mut six, mut five) = ([7.0; 6], [7.0; 5]);
    let refused = |error: Error, expected: &str| {
        assert!(matches!(error.kind(), ErrorKind::GradientLength { .. }));
        assert_eq!(error.to_string(), expected);
    };
    let error = typed.value_and_grad_into_slices((&ps, 10.0), [&mut five, &mut k]).unwrap_err();
    refused(error, "gradient of ps: expected a slice of 6 reals, found 5");
    let error = typed.value_and_grad_into_slices((&ps, 10.0), [&mut six, &mut []]).unwrap_err();
    refused(error, "gradient of k: expected a slice of 1 real, found 0");
    let error = by_k.value_and_grad_into_slices((&ps, 10.0), [&mut six, &mut k]).unwrap_err();
    refused(error, "gradient of ps: expected a slice of 0 reals, found 6");
    assert_eq!((six, five), ([7.0; 6], [7.0; 5]));
}

#[test]
fn slices_stay_as_they_were_if_the_run_stops() {
    let mut config = Config::default();
    config.limits = Limits { deadline: Some(Duration::from_millis(20)), ..Limits::default() };
    let spin = function(&Engine::new(config), "spin").typed::<(&[(f64, f64)],), f64>().unwrap();
    let mut gradient = [3.0; 4];
    let error = spin.value_and_grad_into_slices((&[(1.0, 2.0), (3.0, 4.0)],), [&mut gradient]).unwrap_err();
    assert!(error.is_limit(), "{error}");
    assert_eq!(gradient, [3.0; 4]);
}

#[test]
fn large_arguments_reach_the_limits_and_not_beyond() {
    let points = function(&Engine::default(), "points").typed::<(&[[f64; 3]], f64), f64>().unwrap();
    let ps = vec![[1.0, 2.0, 3.0]; 50_000];
    let with = |limits| points.call_with((&ps, 1.0), &CallOptions::with_limits(limits));
    let bytes = 8 * (4 + 3 * ps.len() as u64);
    assert_eq!(with(Limits::default()).unwrap().1.allocated_bytes, bytes);
    assert!(with(Limits { allocated_bytes: bytes, ..Limits::default() }).is_ok());
    let error = with(Limits { allocated_bytes: bytes - 1, ..Limits::default() }).unwrap_err();
    assert!(error.is_limit(), "{error}");
    let error = with(Limits { live_bytes: bytes / 2, ..Limits::default() }).unwrap_err();
    assert!(error.is_limit(), "{error}");
}

#[test]
fn more_elements_than_memory_has_words_reach_a_limit() {
    // What has no elements of its own, or takes no memory, may be of any length.
    let square = function(&Engine::default(), "square").typed::<(Matrix<'_>,), Vec<Vec<f64>>>().unwrap();
    let constants = function(&Engine::default(), "constants");
    let constants = constants.typed::<(&[()], Vec<(i64, bool)>, f64), f64>().unwrap();
    for count in [1 << 44, usize::MAX / 16, usize::MAX / 8, usize::MAX - 1, usize::MAX] {
        match Matrix::new(&[], [count, 0]) {
            Ok(m) => assert!(square.call((m,)).unwrap_err().is_limit()),
            // Programs can't count so many.
            Err(_) => assert!(i64::try_from(count).is_err()),
        }
        let nothing = vec![(); count];
        assert!(constants.call((&nothing, vec![], 1.0)).unwrap_err().is_limit());
    }
}

fn refusal<Args: Arguments, Ret: Output>(name: &str) -> String {
    let error = function(&Engine::default(), name).typed::<Args, Ret>().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TypeMismatch(_)));
    error.to_string()
}

#[test]
fn types_that_do_not_fit_are_refused_with_their_place() {
    assert_eq!(
        refusal::<(&[(f64, f64)], f64), f64>("points"),
        "parameter ps of `points`: expected Array (Real, Real, Real), found &[(f64, f64)]"
    );
    assert_eq!(
        refusal::<(Vec<[f64; 2]>, f64), f64>("points"),
        "parameter ps of `points`: expected Array (Real, Real, Real), found Vec<[f64; 2]>"
    );
    assert_eq!(
        refusal::<(&[&[i64]],), Vec<Vec<f64>>>("square"),
        "parameter m of `square`: expected Array (Array Real), found &[&[i64]]"
    );
    assert_eq!(
        refusal::<(Matrix<'_, bool>,), Vec<Vec<f64>>>("square"),
        "parameter m of `square`: expected Array (Array Real), found Matrix<bool>"
    );
    assert_eq!(
        refusal::<(Matrix<'_>,), Vec<[f64; 2]>>("square"),
        "result of `square`: expected Array (Array Real), found Vec<[f64; 2]>"
    );
    assert_eq!(
        refusal::<(&[i64], &[f64], Matrix<'_>, &[bool]), f64>("ints"),
        "parameter ms of `ints`: expected List Int, found Matrix<f64>"
    );
}

#[test]
fn a_matrix_has_as_many_elements_as_its_shape_says() {
    let error = Matrix::new(&[1.0; 5], [2, 3]).unwrap_err();
    assert_eq!((error.shape(), error.found()), (&[2, 3][..], 5));
    assert_eq!(error.to_string(), "a matrix of 2 × 3: expected 6 elements, found 5");
    assert!(Matrix::new(&[1.0], [usize::MAX, 2]).is_err());
    let largest = i64::MAX as usize;
    assert_eq!(Matrix::<f64>::new(&[], [largest, 0]).unwrap().shape(), [largest, 0]);
    for shape in [[largest + 1, 0], [0, usize::MAX]] {
        let refused = [
            Matrix::<f64>::new(&[], shape).unwrap_err().to_string(),
            Tensor::<f64, 2>::new(vec![], shape).unwrap_err().to_string(),
        ];
        for message in refused {
            assert!(message.ends_with(": no extent can be more than 9223372036854775807"), "{message}");
        }
    }
    assert!(matches!(Error::from(error).kind(), ErrorKind::ShapeMismatch(_)));
    let m = Matrix::new(&[1, 2, 3, 4, 5, 6], [2, 3]).unwrap();
    assert_eq!((m.shape(), m.elements().len()), ([2, 3], 6));
}

#[test]
fn tensors_are_results_with_their_shape() {
    let text = "
        def outer (xs : Array Real) (ys : Array Real) : Matrix Real = [| x * y for x in xs, y in ys |]
        def table (n : Int) : Matrix Int = [| i * j for i < n, j < 2 |]
        def cube (n : Int) (x : Real) : Tensor3 Real = [| x * to_real (i + j + k) for i < n, j < 2, k < 3 |]
        def rows (n : Int) : Array (Array Real) = [| [| to_real j for j < n - i |] for i < 2 |]";
    let module =
        Module::from_source(&Engine::default(), "tensors.dual", text).unwrap_or_else(|error| panic!("{error}"));
    let function = |name: &str| module.function(name).unwrap();
    let outer = function("outer").typed::<(&[f64], &[f64]), Tensor<f64, 2>>().unwrap();
    let product = outer.call((&[1.0, 2.0], &[3.0, 4.0, 5.0])).unwrap();
    assert_eq!(product, Tensor::new(vec![3.0, 4.0, 5.0, 6.0, 8.0, 10.0], [2, 3]).unwrap());
    assert_eq!((product[[1, 2]], product.get([0, 1]), product.get([2, 0])), (10.0, Some(&4.0), None));
    // A cotangent and a tangent of it are such tensors, too.
    let ones = Tensor::new(vec![1.0; 6], [2, 3]).unwrap();
    let (_, gradient) = outer.vjp((&[1.0, 2.0], &[3.0, 4.0, 5.0]), &ones).unwrap();
    assert_eq!(gradient, (vec![12.0, 12.0], vec![3.0, 3.0, 3.0]));
    let (_, tangent) = outer.jvp((&[1.0, 2.0], &[3.0, 4.0, 5.0]), (&[1.0, 0.0], &[0.0; 3])).unwrap();
    assert_eq!(tangent.into_elements(), [3.0, 4.0, 5.0, 0.0, 0.0, 0.0]);
    let wrong = Tensor::new(vec![1.0; 6], [3, 2]).unwrap();
    let error = outer.vjp((&[1.0, 2.0], &[3.0, 4.0, 5.0]), &wrong).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cotangent(_)), "{error}");

    let empty = outer.call((&[], &[1.0, 2.0])).unwrap();
    assert_eq!((empty.shape(), empty.elements()), ([0, 2], &[][..]));
    let table = function("table").typed::<(i64,), Tensor<i64, 2>>().unwrap().call((3,)).unwrap();
    assert_eq!((table.shape(), table.elements()), ([3, 2], &[0, 0, 0, 1, 0, 2][..]));
    let mut cube = function("cube").typed::<(i64, f64), Tensor<f64, 3>>().unwrap().call((1, 0.5)).unwrap();
    assert_eq!((cube.shape(), cube[[0, 1, 2]]), ([1, 2, 3], 1.5));
    cube[[0, 1, 2]] = 7.0;
    assert_eq!(cube.elements(), [0.0, 0.5, 1.0, 0.5, 1.0, 7.0]);

    let rows = function("rows").typed::<(i64,), Tensor<f64, 2>>().unwrap();
    let error = rows.call((2,)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ResultMismatch { place, .. } if place == "[1]"), "{error}");
    let error = function("cube").typed::<(i64, f64), Tensor<f64, 2>>().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TypeMismatch(_)), "{error}");
    for (len, shape) in [(5, [2, 3]), (0, [usize::MAX, 2])] {
        let error = Tensor::new(vec![0.0; len], shape).unwrap_err();
        assert_eq!((error.shape(), error.found()), (&shape[..], len), "{error}");
    }
}
