//! Functions of the host's that take and give matrices, tensors and lists.

#[path = "support/hosted.rs"]
mod hosted;

use dualvm::flat::LeafKind::{self, Bool, Bools, Int, Ints, Real, Reals, Shape};
use dualvm::{
    CallOptions, Function, HostError, HostFunction, Jit, Limit, Limits, Linker, Module, Tensor, TrapKind, Value,
};
use hosted::{agreed, assert_derivatives, engine, flat, main_of, trap_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const TENSOR: &[LeafKind] = &[Shape, Reals];

fn reals(xs: &[f64]) -> Value {
    Value::Reals(xs.to_vec())
}

fn matrix<const COLUMNS: usize>(rows: &[[f64; COLUMNS]]) -> Value {
    Value::Array(rows.iter().map(|row| reals(row)).collect())
}

#[test]
fn tensors_and_lists_have_derivatives_of_all_orders() {
    let forms = [
        (TENSOR, "Matrix Real", "[| u; u * u |]", "[| sin m[i, j] for i < rows m, j < columns m |]", 2),
        (TENSOR, "Tensor3 Real", "[| to_real (i + k) * u for i < 2, j < 1, k < 2 |]", "map sin m", 1),
        (TENSOR, "Tensor4 Real", "[| to_real (i + l) * u for i < 2, j < 1, k < 1, l < 1 |]", "map sin m", 1),
        (&[Reals], "List Real", "[u, u * u]", "map sin m", 2),
        (&[Reals], "Array Real", "[| u, 0.5, u * u |]", "map sin m", 1),
    ];
    for (form, ty, of, sines, orders) in forms {
        let f = format!("def f (u : Real) : Real = sum (h {of}) * 0.5");
        let hosted = format!("import host \"wave\" as h : {ty} -> {ty}\n{f}");
        let own = format!("def h (m : {ty}) : {ty} = {sines}\n{f}");
        assert_derivatives(form, &hosted, &own, orders);
    }
}

#[test]
fn rows_of_numbers_are_elements_of_lists_and_matrices_too() {
    let forms = [
        (&[Reals][..], "List (Real, Real)", "[(u, 2 * u), (u * u, 0.5)]"),
        (TENSOR, "Matrix (Real, Real)", "[| (u * to_real i, u * u) for i < 2, j < 1 |]"),
    ];
    let sines = "map (\\(a, b) -> (sin a, sin b)) m";
    for (form, ty, of) in forms {
        let f = format!("def f (u : Real) : Real = sum (map (\\(a, b) -> a * b) (h {of}))");
        let hosted = format!("import host \"wave\" as h : {ty} -> {ty}\n{f}");
        let own = format!("def h (m : {ty}) : {ty} = {sines}\n{f}");
        assert_derivatives(form, &hosted, &own, 1);
    }
    // Of integers, in and out.
    let mut linker = Linker::new();
    let turn = HostFunction::flat(&[Ints, Shape, Bools], &[Ints, Shape, Bools], |call| {
        let [ns, shape, bs] = [0, 1, 2].map(|n| call.ints(n));
        call.give(&ns.iter().rev().copied().collect::<Vec<_>>())?;
        call.give(&shape.iter().rev().copied().collect::<Vec<_>>())?;
        call.give(&bs.iter().map(|b| 1 - b).collect::<Vec<_>>())
    });
    linker.define("turn", turn);
    let text = "
        import host \"turn\" : List (Int, Int) -> Matrix (Bool, Bool) -> (List (Int, Int), Matrix (Bool, Bool))
        def main (ns : List (Int, Int)) (bs : Matrix (Bool, Bool)) = turn ns bs";
    let pair = |a: i64, b: i64| Value::Tuple(vec![Value::Int(a), Value::Int(b)]);
    let bits = |a: bool, b: bool| Value::Tuple(vec![Value::Bool(a), Value::Bool(b)]);
    let ns = Value::Array(vec![pair(1, 2), pair(3, 4), pair(5, 6)]);
    let bs = Value::Array(vec![Value::Array(vec![bits(true, false), bits(false, false)])]);
    let found = agreed(text, &linker, |main| main.call(&[ns.clone(), bs.clone()]).expect("it has values"));
    let ns = Value::Array(vec![pair(6, 5), pair(4, 3), pair(2, 1)]);
    let bs = Value::Array([bits(false, true), bits(true, true)].map(|row| Value::Array(vec![row])).to_vec());
    assert_eq!(found, Value::Tuple(vec![ns, bs]));
}

/// A product of matrices.
fn product(a: &Tensor<f64, 2>, b: &Tensor<f64, 2>) -> Result<Tensor<f64, 2>, HostError> {
    let ([rows, inner], [other, columns]) = (a.shape(), b.shape());
    if inner != other {
        return Err(HostError::new(format_args!("{inner} columns and {other} rows")));
    }
    let element = |row: usize, column: usize| -> f64 {
        (0..inner).map(|n| a.elements()[row * inner + n] * b.elements()[n * columns + column]).sum()
    };
    Ok(Tensor::new((0..rows * columns).map(|n| element(n / columns, n % columns)).collect(), [rows, columns])?)
}

fn transposed(m: &Tensor<f64, 2>) -> Tensor<f64, 2> {
    let [rows, columns] = m.shape();
    let element = |n: usize| m.elements()[n % rows * columns + n / rows];
    Tensor::new((0..rows * columns).map(element).collect(), [columns, rows]).expect("as many as before")
}

/// The cotangents of the factors.
fn pulled(
    a: &Tensor<f64, 2>,
    b: &Tensor<f64, 2>,
    c_adj: &Tensor<f64, 2>,
) -> Result<(Tensor<f64, 2>, Tensor<f64, 2>), HostError> {
    Ok((product(c_adj, &transposed(b))?, product(&transposed(a), c_adj)?))
}

/// Products of matrices as closures, with derivatives of all kinds.
fn products() -> [HostFunction; 4] {
    let of = || HostFunction::of(|a: Tensor<f64, 2>, b: Tensor<f64, 2>| product(&a, &b));
    let vjp = |a: Tensor<f64, 2>, b: Tensor<f64, 2>, c_adj: Tensor<f64, 2>| pulled(&a, &b, &c_adj);
    let jvp = |a: Tensor<f64, 2>,
               b: Tensor<f64, 2>,
               a_tan: Tensor<f64, 2>,
               b_tan: Tensor<f64, 2>|
     -> Result<Tensor<f64, 2>, HostError> {
        let (mut sum, more) = (product(&a_tan, &b)?, product(&a, &b_tan)?);
        sum.elements_mut().iter_mut().zip(more.into_elements()).for_each(|(x, y)| *x += y);
        Ok(sum)
    };
    let saving = of().with_saving_vjp(
        |a: Tensor<f64, 2>, b: Tensor<f64, 2>| Ok((product(&a, &b)?, (a, b))),
        |(a, b): &(Tensor<f64, 2>, Tensor<f64, 2>), c_adj| pulled(a, b, &c_adj),
    );
    [of().with_vjp(vjp).into(), of().with_jvp(jvp).into(), of().with_vjp(vjp).with_jvp(jvp).into(), saving.into()]
}

#[test]
fn closures_take_and_give_matrices() {
    let loss = "
        def main (a : Matrix Real) (b : Matrix Real) : Real =
            let c = product a (map (\\x -> x * x) b) in
            sum (map exp c) + (if columns a == rows a then sum (product a a) else 0) + c[0, 1]";
    let hosted = format!("import host \"product\" : Matrix Real -> Matrix Real -> Matrix Real\n{loss}");
    let own = format!("def product (a : Matrix Real) (b : Matrix Real) : Matrix Real = a *** b\n{loss}");
    let entry = "sum [| a[i, k] * b[k, j] for k < columns a |]";
    let own = own.replace("a *** b", &format!("[| {entry} for i < rows a, j < columns b |]"));
    let square = [[0.5, -0.25], [0.125, 1.0]];
    let cases = [
        [matrix(&[[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]]), matrix(&[[0.9, -0.8], [0.7, 0.6], [-0.5, 0.4]])],
        [matrix(&square), matrix(&square)],
    ];
    for args in &cases {
        let reference = main_of(&own, &Linker::new(), Jit::Off, 1);
        let (expected, expected_gradient) = reference.value_and_grad(args).expect("it has one");
        let (_, expected_tangent) = reference.jvp(args, args).expect("it has one");
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12 * expected.abs().max(1.0);
        for (way, function) in products().into_iter().enumerate() {
            let mut linker = Linker::new();
            linker.define("product", function);
            let (value, gradient) = agreed(&hosted, &linker, |main| main.value_and_grad(args).expect("it has one"));
            assert!(near(value, expected), "way {way}: {value} and {expected}");
            for (found, expected) in flat(&gradient).into_iter().zip(flat(&expected_gradient)) {
                assert!(near(found, expected), "way {way}: {gradient:?} and {expected_gradient:?}");
            }
            let tangent = agreed(&hosted, &linker, |main| main.jvp(args, args).expect("it has one").1);
            let (found, expected) = (flat(&[tangent])[0], flat(std::slice::from_ref(&expected_tangent))[0]);
            assert!(near(found, expected), "way {way}: {found} and {expected}");
        }
        assert_near_differences(&hosted, args, &expected_gradient);
    }
    // An error of its own.
    let mut linker = Linker::new();
    linker.define("product", products()[0].clone());
    let args = [matrix(&square), matrix(&[[1.0, 2.0]])];
    let trap = agreed(&hosted, &linker, |main| trap_of(main.call(&args)).to_string());
    assert!(trap.starts_with("the host's function `product`: 2 columns and 1 rows"), "{trap}");
}

/// Compares a gradient with central differences along each matrix as a whole.
fn assert_near_differences(text: &str, args: &[Value], gradient: &[Value]) {
    let mut linker = Linker::new();
    linker.define("product", products()[0].clone());
    let main = main_of(text, &linker, Jit::Off, 1);
    let moved = |value: &Value, by: f64| match value {
        Value::Array(rows) => Value::Array(rows.iter().map(|row| reals(&moved_row(row, by))).collect()),
        other => panic!("it is a matrix: {other:?}"),
    };
    let h = 1e-5;
    let at = |by: f64| {
        let args: Vec<Value> = args.iter().map(|arg| moved(arg, by)).collect();
        flat(&[main.call(&args).expect("it has values")])[0]
    };
    let (difference, sum) = ((at(h) - at(-h)) / (2.0 * h), flat(gradient).iter().sum::<f64>());
    assert!((difference - sum).abs() < 1e-8 * sum.abs().max(1.0), "{difference} and {sum}");
}

fn moved_row(row: &Value, by: f64) -> Vec<f64> {
    flat(std::slice::from_ref(row)).iter().map(|x| x + by).collect()
}

#[test]
fn closures_take_and_give_tensors_of_all_kinds_and_lists() {
    /// Where a tensor is negative, how often, and a part of it.
    type Found = (Tensor<bool, 3>, Tensor<i64, 2>, Vec<f64>);
    let mut linker = Linker::new();
    // Where something is negative, how many that are, and the first slice.
    linker.define(
        "signs",
        HostFunction::of(|t: Tensor<f64, 3>| -> Result<Found, HostError> {
            let [planes, rows, columns] = t.shape();
            let negative: Vec<bool> = t.elements().iter().map(|&x| x < 0.0).collect();
            let plane = rows * columns;
            let count = |n: usize| (0..planes).filter(|plane_n| negative[plane_n * plane + n]).count() as i64;
            let counts = Tensor::new((0..plane).map(count).collect(), [rows, columns])?;
            let slice = t.elements()[..plane].to_vec();
            Ok((Tensor::new(negative, [planes, rows, columns])?, counts, slice))
        })
        .with_vjp(|t: Tensor<f64, 3>, (_, _, slice_adj): ((), (), Vec<f64>)| {
            let mut elements = slice_adj;
            elements.resize(t.elements().len(), 0.0);
            Tensor::new(elements, t.shape())
        }),
    );
    linker.define(
        "pick",
        HostFunction::of(|where_: Tensor<bool, 3>, counts: Tensor<i64, 2>, picks: Vec<bool>| {
            let of = |b: bool| i64::from(b);
            let bits: i64 = where_.elements().iter().enumerate().map(|(n, &b)| of(b) << n).sum();
            let [rows, columns] = counts.shape();
            vec![bits, rows as i64, columns as i64, counts.elements().iter().sum(), picks.iter().map(|&b| of(b)).sum()]
        }),
    );
    let text = "
        import host \"signs\" : Tensor3 Real -> (Tensor3 Bool, Matrix Int, List Real)
        import host \"pick\" : Tensor3 Bool -> Matrix Int -> List Bool -> List Int
        def main (t : Tensor3 Real) (bs : List Bool) : (List Int, Real) =
            let (negative, counts, slice) = signs t in
            (pick negative counts bs, sum slice * sum slice + to_real counts[0, 1])
        def slope (t : Tensor3 Real) : Tensor3 Real = grad (\\t -> let (_, r) = main t [] in r) t";
    let t = Value::Array(vec![matrix(&[[1.0, -2.0]]), matrix(&[[-3.0, -4.0]]), matrix(&[[5.0, 6.0]])]);
    let bs = Value::Array(vec![Value::Bool(true), Value::Bool(false), Value::Bool(true)]);
    let found = agreed(text, &linker, |main| {
        let pulled = main.vjp(&[t.clone(), bs.clone()], &Value::Tuple(vec![Value::Null, Value::Real(1.0)]));
        let (value, gradient) = pulled.unwrap_or_else(|error| panic!("{error}"));
        (value, flat(&gradient))
    });
    let ints = |ns: &[i64]| Value::Array(ns.iter().map(|&n| Value::Int(n)).collect());
    assert_eq!(found.0, Value::Tuple(vec![ints(&[0b1110, 1, 2, 3, 2]), Value::Real(1.0 + 2.0)]));
    assert_eq!(found.1, [-2.0, -2.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn what_is_empty_has_its_shape() {
    let mut linker = Linker::new();
    let seen = HostFunction::of(|m: Tensor<f64, 2>, xs: Vec<f64>| {
        let [rows, columns] = m.shape();
        (Tensor::new(m.into_elements(), [columns, rows]).expect("it is empty"), xs.len() as i64)
    });
    linker.define(
        "turn",
        seen.with_vjp(|m: Tensor<f64, 2>, xs: Vec<f64>, (t_adj, ()): (Tensor<f64, 2>, ())| {
            assert_eq!((m.shape()[0], m.shape()[1]), (t_adj.shape()[1], t_adj.shape()[0]));
            (m, xs)
        }),
    );
    let text = "
        import host \"turn\" : Matrix Real -> List Real -> (Matrix Real, Int)
        def main (n : Int) (k : Int) (x : Real) : (Int, Int, Int, Real) =
            let (t, len) = turn [| x for i < n, j < k |] (if x > 0 then [] else [x]) in
            (rows t, columns t, len, sum t + x)
        def slope (n : Int) (k : Int) (x : Real) : Real = grad (\\x -> let (_, _, _, y) = main n k x in y) x";
    for (n, k) in [(0, 3), (3, 0), (0, 0)] {
        let args = [Value::Int(n), Value::Int(k), Value::Real(2.0)];
        let cotangent = Value::Tuple(vec![Value::Null, Value::Null, Value::Null, Value::Real(1.0)]);
        let found = agreed(text, &linker, |main| main.vjp(&args, &cotangent).unwrap_or_else(|error| panic!("{error}")));
        let expected = [Value::Int(k), Value::Int(n), Value::Int(0), Value::Real(2.0)];
        assert_eq!(found, (Value::Tuple(expected.to_vec()), vec![Value::Null, Value::Null, Value::Real(1.0)]));
    }
}

/// The sum of the square roots of some elements of a list, the derivative of which is infinite at 0.
#[test]
fn zeros_meet_infinities_as_they_do_elsewhere() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let mut linker = Linker::new();
    let roots = HostFunction::of(|xs: Vec<f64>| xs.iter().map(|x| x.sqrt()).collect::<Vec<f64>>());
    linker.define(
        "roots",
        roots.with_vjp(move |xs: Vec<f64>, y_adj: Vec<f64>| -> Vec<f64> {
            counter.fetch_add(1, Ordering::SeqCst);
            let pull = |(x, y_adj): (&f64, &f64)| if *y_adj == 0.0 { 0.0 } else { 0.5 * y_adj / x.sqrt() };
            xs.iter().zip(&y_adj).map(pull).collect()
        }),
    );
    let text = "
        import host \"roots\" : List Real -> List Real
        def main (c : Real) (xs : List Real) : Real = c * head (roots xs)";
    let ask = |c: f64, xs: &[f64]| {
        let args = [Value::Real(c), reals(xs)];
        agreed(text, &linker, |main| format!("{:?}", main.value_and_grad(&args).expect("it has one")))
    };
    // Only the first is used.
    assert_eq!(ask(2.0, &[4.0, 0.0]), "(4.0, [Real(2.0), Reals([0.5, 0.0])])");
    assert_eq!(ask(1.0, &[0.0, 4.0]), "(0.0, [Real(0.0), Reals([inf, 0.0])])");
    assert_eq!(ask(1.0, &[f64::NAN, 4.0]), "(NaN, [Real(NaN), Reals([NaN, 0.0])])");
    assert_eq!(ask(2.0, &[f64::INFINITY, 4.0]), "(inf, [Real(inf), Reals([0.0, 0.0])])");
    // A cotangent of zeros isn't pulled back.
    let before = calls.load(Ordering::SeqCst);
    assert_eq!(ask(0.0, &[0.0, 1.0]), "(0.0, [Real(0.0), Reals([0.0, 0.0])])");
    assert_eq!(calls.load(Ordering::SeqCst), before);
}

#[test]
fn the_same_matrix_twice_and_one_that_is_not_used() {
    let mut linker = Linker::new();
    let first =
        HostFunction::of(|a: Tensor<f64, 2>, b: Tensor<f64, 2>, _: Tensor<f64, 2>| a.elements()[0] * b.elements()[1]);
    let vjp = |a: Tensor<f64, 2>, b: Tensor<f64, 2>, c: Tensor<f64, 2>, y_adj: f64| {
        let unit = |like: &Tensor<f64, 2>, n: usize, x: f64| {
            let mut elements = vec![0.0; like.elements().len()];
            elements[n] = x;
            Tensor::new(elements, like.shape())
        };
        let (a_adj, b_adj) = (unit(&a, 0, y_adj * b.elements()[1])?, unit(&b, 1, y_adj * a.elements()[0])?);
        Ok::<_, HostError>((a_adj, b_adj, unit(&c, 0, 0.0)?))
    };
    linker.define("first", first.with_vjp(vjp));
    let text = "
        import host \"first\" : Matrix Real -> Matrix Real -> Matrix Real -> Real
        def main (m : Matrix Real) (unused : Matrix Real) : Real = first m m unused";
    let args = [matrix(&[[2.0, 3.0], [4.0, 5.0]]), matrix(&[[7.0]])];
    let found = agreed(text, &linker, |main| main.value_and_grad(&args).expect("it has one"));
    assert_eq!(found, (6.0, vec![matrix(&[[3.0, 2.0], [0.0, 0.0]]), matrix(&[[0.0]])]));
}

/// A matrix of integers among the arguments of an operator is copied with them, but nothing depends on it.
#[test]
fn integers_ask_for_no_derivative() {
    let mut linker = Linker::new();
    linker.define("count", HostFunction::of(|m: Tensor<i64, 2>, ns: Vec<i64>| m.elements().len() as i64 * ns[0]));
    let text = "
        import host \"count\" : Matrix Int -> List Int -> Int
        def weighed (x : Real, m : Matrix Int, ns : List Int) : Real = x * x * to_real (count m ns)
        def deriv (g : Real -> Real) (x : Real) : Real = let (_, t) = jvp g x 1.0 in t
        def main (x : Real) : Real =
            let m = [| i + j for i < 2, j < 3 |] in
            let (by_x, _, _) = grad weighed (x, m, [2, 1]) in
            let (_, t) = jvp weighed (x, m, [2, 1]) (1.0, m, [0, 0]) in
            by_x + deriv (\\u -> let (y, _, _) = grad weighed (u * x, m, [2, 1]) in y) x + t";
    let found = agreed(text, &linker, |main| {
        main.value_and_grad(&[Value::Real(1.5)]).unwrap_or_else(|error| panic!("{error}"))
    });
    // The sum of 24 x, 24 x and 24 x.
    assert_eq!(found, (108.0, vec![Value::Real(72.0)]));
}

#[test]
fn tasks_and_operators_share_what_hosts_give() {
    let mut linker = Linker::new();
    linker.define("product", products()[0].clone());
    let squares = HostFunction::of(|xs: Vec<f64>| xs.iter().map(|x| x * x).collect::<Vec<f64>>());
    let vjp = |xs: Vec<f64>, y_adj: Vec<f64>| xs.iter().zip(y_adj).map(|(x, y)| 2.0 * x * y).collect::<Vec<f64>>();
    linker.define("squares", squares.with_vjp(vjp));
    let text = "
        import host \"product\" : Matrix Real -> Matrix Real -> Matrix Real
        import host \"squares\" : List Real -> List Real
        def piece (m : Matrix Real) (xs : List Real) (i : Int) : Real =
            let n = product m m in
            let ys = squares (map (\\x -> x + n[0, i % 2]) xs) in
            checkpoint (\\u -> u * sum (squares ys)) (sum ys)
        def main (m : Matrix Real) (xs : List Real) : Real = sum (pmap (piece m xs) [| i for i < 40 |])";
    let own = text
        .replace("import host \"product\" : Matrix Real -> Matrix Real -> Matrix Real", "")
        .replace("product m m", "[| sum [| m[i, k] * m[k, j] for k < 2 |] for i < 2, j < 2 |]")
        .replace("import host \"squares\" : List Real -> List Real", "")
        .replace("squares (", "map (\\x -> x * x) (")
        .replace("squares ys", "map (\\x -> x * x) ys");
    let args = [matrix(&[[0.2, -0.3], [0.4, 0.5]]), reals(&[0.1, -0.2, 0.3])];
    let ask = |main: &Function| main.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
    let ((value, gradient), (expected, of_own)) =
        (agreed(text, &linker, ask), ask(&main_of(&own, &Linker::new(), Jit::Off, 1)));
    assert!((value - expected).abs() < 1e-12 * expected, "{value} and {expected}");
    for (found, expected) in flat(&gradient).into_iter().zip(flat(&of_own)) {
        assert!((found - expected).abs() < 1e-11 * expected.abs().max(1.0), "{gradient:?} and {of_own:?}");
    }
}

/// Programs of bytecode make tensors as they like.
#[test]
fn tensors_that_are_none_do_not_reach_the_host() {
    let text = "
type t0 = array real
type t1 = shaped { t0, int, int }
import x0 \"total\" (m : Tensor (Array Real @t0) @t1) -> Real
func \"main\" (t0, int, int) -> (real) export (xs : Array Real @t0, rows : Int, columns : Int) -> Real
    regs 1 real, 2 int, t0, t1
    {
    struct_new p1 (p0, i0, i1)
    call_import x0 (p1) -> (r0)
    ret (r0) }";
    let mut linker = Linker::new();
    linker.define("total", HostFunction::of(|m: Tensor<f64, 2>| m.elements().iter().sum::<f64>()));
    for jit in [Jit::Off, Jit::Always] {
        let module = Module::from_assembly(&engine(&linker, jit, 1), "t.dvs", text).unwrap_or_else(|e| panic!("{e}"));
        let main = module.function("main").expect("it is there");
        let ask = |rows: i64, columns: i64| main.call(&[reals(&[1.0, 2.0]), Value::Int(rows), Value::Int(columns)]);
        assert_eq!(ask(2, 1).unwrap_or_else(|error| panic!("{error}")), Value::Real(3.0));
        for (rows, columns) in [(2, 2), (-1, -2), (i64::MAX, 2)] {
            let trap = trap_of(ask(rows, columns)).to_string();
            let expected =
                format!("the host's function `total`: it is given a tensor of shape {rows} × {columns} with 2");
            assert!(trap.starts_with(&expected), "{trap}");
        }
    }
}

#[test]
fn after_an_error_nothing_more_is_given() {
    let mut linker = Linker::new();
    // A list would stand where the array is expected.
    let stubborn = HostFunction::flat(&[Int], &[Reals, Reals, Int], |call| {
        assert!(call.give(&[0.5; 3]).is_err());
        assert!(call.give(&[0.5; 2]).is_err() && call.give(&[0.5]).is_err());
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call.give_reals(2, |_| panic!("no"))));
        assert!(panic.is_ok_and(|given| given.is_err()), "it isn't asked to fill anything");
        _ = call.give(1);
        Ok(())
    });
    linker.define("stubborn", stubborn);
    let text = "
        import host \"stubborn\" : Int -> (Array (Real, Real), List Real, Int)
        def main (n : Int) : Real = let (pairs, xs, _) = stubborn n in sum [| x * y for (x, y) in pairs |] + sum xs";
    let trap = agreed(text, &linker, |main| trap_of(main.call(&[Value::Int(0)])).to_string());
    assert!(trap.starts_with("the host's function `stubborn`: it gives 0 of 3 results"), "{trap}");
}

/// What a function of no arguments but an integer gives, as an error.
#[track_caller]
fn refused(ty: &str, results: &[LeafKind], call: fn(&mut dualvm::HostCall<'_>) -> Result<(), HostError>) -> String {
    let mut linker = Linker::new();
    linker.define("odd", HostFunction::flat(&[Int], results, call));
    let text = format!("import host \"odd\" : Int -> {ty}\ndef main (n : Int) = odd n");
    let trap = agreed(&text, &linker, |main| trap_of(main.call(&[Value::Int(0)])).to_string());
    let rest = trap.strip_prefix("the host's function `odd`: ").unwrap_or_else(|| panic!("it names it: {trap}"));
    rest.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn results_have_the_shape_that_is_said() {
    type Give = fn(&mut dualvm::HostCall<'_>) -> Result<(), HostError>;
    let cases: [(&str, Give, &str); 7] = [
        (
            "Matrix Real",
            |call| call.give(&[2, 3]).and_then(|()| call.give(&[0.5; 5])),
            "a tensor of shape 2 × 3 can't have 5 elements",
        ),
        ("Tensor3 Real", |call| call.give(&[2, 3]), "a tensor of 3 dimensions can't have the shape 2 × 3"),
        ("Matrix Real", |call| call.give(&[2, 3, 1]), "a tensor of 2 dimensions can't have the shape 2 × 3 × 1"),
        ("Matrix Real", |call| call.give(&[2, -3]), "there is no tensor of the shape 2 × -3"),
        ("Matrix Real", |call| call.give(&[i64::MAX, 3]), "there is no tensor of the shape 9223372036854775807 × 3"),
        (
            "Matrix (Real, Real)",
            |call| call.give(&[1, 2]).and_then(|()| call.give(&[0.5; 5])),
            "a tensor of shape 1 × 2 of rows of 2 numbers can't have 5 numbers",
        ),
        ("Matrix Real", |call| call.give(&[0.5]), "result 0: expected a shape, found 1 real"),
    ];
    for (ty, call, expected) in cases {
        assert_eq!(refused(ty, TENSOR, call), expected);
    }
    assert_eq!(refused("Matrix Real", TENSOR, |call| call.give(&[1, 1])), "it gives 1 of 2 results");
    let rows = refused("List (Real, Real)", &[Reals], |call| call.give(&[0.5; 3]));
    assert_eq!(rows, "a list of rows of 2 numbers can't have 3");
    let truths = refused("Matrix Bool", &[Shape, Bools], |call| call.give(&[1, 1]).and_then(|()| call.give(&[2])));
    assert_eq!(truths, "result 1: expected booleans, found 1 integer");
    // A closure's number of dimensions.
    let mut linker = Linker::new();
    linker.define("sum", HostFunction::of(|m: Tensor<f64, 2>| m.elements().iter().sum::<f64>()));
    let text = "
        import host \"sum\" as total : Tensor3 Real -> Real
        def main (x : Real) : Real = total [| x for i < 2, j < 1, k < 3 |]";
    let trap = agreed(text, &linker, |main| trap_of(main.call(&[Value::Real(1.0)])).to_string());
    let expected = "the host's function `sum`: it takes a tensor of 2 dimensions, not one of shape 2 × 1 × 3";
    assert!(trap.starts_with(expected), "{trap}");
    assert!(Tensor::new(vec![0.5; 5], [2, 3]).is_err());
    assert!(Tensor::<f64, 2>::new(Vec::new(), [i64::MAX as usize, 0]).is_ok());
    assert!(Tensor::<f64, 2>::new(Vec::new(), [usize::MAX, 0]).is_err());
    assert!(Tensor::<f64, 2>::new(Vec::new(), [usize::MAX, 2]).is_err());
}

#[test]
fn derivatives_have_the_shape_of_what_they_belong_to() {
    let sum = || HostFunction::of(|m: Tensor<f64, 2>| m.elements().iter().sum::<f64>());
    let ask = |function: HostFunction, ty: &str, of: &str| {
        let mut linker = Linker::new();
        linker.define("total", function);
        let text = format!("import host \"total\" : {ty}\ndef main (x : Real) : Real = {of}");
        let gradient =
            agreed(&text, &linker, |main| main.value_and_grad(&[Value::Real(1.0)]).map_err(|error| error.to_string()));
        let tangent = agreed(&text, &linker, |main| {
            main.jvp(&[Value::Real(1.0)], &[Value::Real(1.0)]).map_err(|error| error.to_string())
        });
        [gradient.map(drop), tangent.map(drop)].map(|found| found.unwrap_err().lines().next().unwrap().to_owned())
    };
    let named = "trap: the host's function `total`: ";
    let other = "a tangent or cotangent must have the shape of what it belongs to: it is ";
    let of = "total [| x for i < 2, j < 3 |]";
    let turned = sum().with_vjp(|m: Tensor<f64, 2>, _: f64| transposed(&m));
    let [vjp, jvp] = ask(turned.into(), "Matrix Real -> Real", of);
    assert!(vjp.ends_with(&format!("{other}of shape 3 × 2, and that is of shape 2 × 3")), "{vjp}");
    assert!(vjp.contains(named.trim_start_matches("trap: ")), "{vjp}");
    assert!(jvp.ends_with("derivative 0 has another shape: expected the shape 2 × 3, found the shape 3 × 2"), "{jvp}");
    // Of a result, whose shape a jvp isn't given.
    let same =
        HostFunction::of(|m: Tensor<f64, 2>| m).with_jvp(|_: Tensor<f64, 2>, m_tan: Tensor<f64, 2>| transposed(&m_tan));
    let [vjp, jvp] = ask(same.into(), "Matrix Real -> Matrix Real", "sum (total [| x for i < 2, j < 3 |])");
    assert!(jvp.ends_with(&format!("{other}of shape 3 × 2, and that is of shape 2 × 3")), "{jvp}");
    assert!(vjp.ends_with("derivative 0 has another shape: expected the shape 2 × 3, found the shape 3 × 2"), "{vjp}");
    // Of lists, and of arrays.
    for (kind, of) in [("list", "total [x, x, 2.0]"), ("array", "total [| x, x, 2.0 |]")] {
        let sum = HostFunction::of(|xs: Vec<f64>| xs.iter().sum::<f64>()).with_vjp(|_: Vec<f64>, y: f64| vec![y; 2]);
        let ty = if kind == "list" { "List Real -> Real" } else { "Array Real -> Real" };
        let [vjp, jvp] = ask(sum.into(), ty, of);
        let article = if kind == "list" { "a list" } else { "an array" };
        assert!(vjp.contains("the host's function `total`: "), "{vjp}");
        assert!(vjp.ends_with(&format!("{other}{article} of length 2, and that is {article} of length 3")), "{vjp}");
        assert!(jvp.ends_with("derivative 0 has another shape: expected 3 reals, found 2 reals"), "{jvp}");
    }
}

#[test]
fn limits_hold_for_what_is_copied() {
    // Nothing of that size is allocated before it is found to be too much.
    let mut linker = Linker::new();
    linker.define("huge", HostFunction::flat(&[Int], &[Reals], |call| call.give_reals(call.int(0) as usize, |_| ())));
    let bits = HostFunction::flat(&[Reals], &[Bool, Real], |call| call.give(true).and_then(|()| call.give(1.0)));
    linker.define("bits", bits);
    let text = "
        import host \"huge\" : Int -> List Real
        import host \"bits\" : List Real -> (Bool, Real)
        def main (n : Int) (k : Int) : Real =
            loop s = 0.0 for i < k do let (_, x) = bits (huge n) in s + x";
    let options = CallOptions::with_limits(Limits { live_bytes: 32 << 20, ..Limits::default() });
    let ask = |n: i64, k: i64| {
        let args = [Value::Int(n), Value::Int(k)];
        agreed(text, &linker, |main| {
            let found = main.call_with(&args, &options);
            found.map(|(value, _)| value).map_err(|error| error.trap().cloned())
        })
    };
    let kind = |found: Result<Value, Option<dualvm::Trap>>| found.unwrap_err().expect("it is a trap").kind;
    assert_eq!(kind(ask(1 << 40, 1)), TrapKind::Limit(Limit::LiveBytes));
    assert_eq!(kind(ask(1 << 20, 1)), TrapKind::Limit(Limit::LiveBytes));
    // What a call has copied is free when it has ended.
    assert_eq!(ask(20_000, 200), Ok(Value::Real(200.0)));
}
