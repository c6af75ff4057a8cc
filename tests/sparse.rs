//! Sparse Jacobians and Hessians: patterns that are known by hand, values against dense ones, and what the pattern of
//! another branch leads to. Random programs of both generators, with data types, closures, tasks and recursion.
//!
//! `DUALVM_SEEDS=n` runs n seeds of each, `DUALVM_FIRST_SEED=s` begins at another one.

mod support;

use dualvm::{
    CallOptions, Config, Engine, ErrorKind, Function, HessianSparsity, JacobianMode, JacobianSparsity, Jit, Limits,
    Module, Pattern, SparsityError, Value,
};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use support::{close, flatten};

fn function(source: &str, name: &str) -> Function {
    with_threads(1, Jit::Auto, source, name)
}

fn with_threads(threads: usize, jit: Jit, source: &str, name: &str) -> Function {
    let mut config = Config::default();
    (config.threads, config.jit) = (threads, jit);
    let module = Module::from_source(&Engine::new(config), "test.dual", source);
    module.unwrap_or_else(|error| panic!("{error}")).function(name).unwrap()
}

/// A dense matrix, by rows that are shaped as gradients.
fn dense(rows: &[Vec<Value>]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| flatten(row)).collect()
}

/// Compares a sparse matrix with a dense one: outside of the pattern there is nothing.
fn compare(pattern: &Pattern, entries: impl Iterator<Item = (usize, usize, f64)>, dense: &[Vec<f64>]) {
    assert_eq!(pattern.rows(), dense.len());
    let size = |row: &Vec<f64>| row.iter().filter(|x| x.is_finite()).fold(0.0f64, |size, x| size.max(x.abs()));
    let size = dense.iter().map(size).fold(0.0, f64::max);
    let mut inside = BTreeSet::new();
    for (row, column, found) in entries {
        let expected = dense[row][column];
        let is_close =
            close(found, expected, 1e-9) || (found - expected).abs() <= (1e-12 * size).max(f64::MIN_POSITIVE);
        assert!(is_close || !expected.is_finite() || !found.is_finite(), "({row}, {column}): {found} for {expected}");
        inside.insert((row, column));
    }
    assert_eq!(inside.len(), pattern.len());
    for (row, reals) in dense.iter().enumerate() {
        assert_eq!(reals.len(), pattern.columns());
        for (column, &real) in reals.iter().enumerate().filter(|(column, _)| !inside.contains(&(row, *column))) {
            assert_eq!(real, 0.0, "({row}, {column}) is outside of the pattern {:?}", pattern.row(row));
        }
    }
}

/// Finds the sparsity of a Jacobian, and compares its values with dense ones, by columns and by rows.
fn check_jacobian(f: &Function, args: &[Value]) -> JacobianSparsity {
    let sparsity = f.jacobian_sparsity(args).unwrap();
    let found = f.sparse_jacobian(args, &sparsity).unwrap();
    let jacobian = f.jacobian(args).unwrap();
    assert_eq!(found.value.to_string(), jacobian.value.to_string());
    compare(sparsity.pattern(), found.matrix.entries(), &dense(&jacobian.rows));
    sparsity
}

fn check_hessian(f: &Function, args: &[Value]) -> HessianSparsity {
    let sparsity = f.hessian_sparsity(args).unwrap();
    let found = f.sparse_hessian(args, &sparsity).unwrap();
    let hessian = f.hessian(args).unwrap();
    assert_eq!((found.value.to_bits(), &found.gradient), (hessian.value.to_bits(), &hessian.gradient));
    compare(sparsity.pattern(), found.matrix.entries(), &dense(&hessian.rows));
    sparsity
}

fn ramp(len: usize) -> Value {
    (0..len).map(|n| 0.3 + (n as f64 * 0.7).sin()).collect::<Vec<_>>().into()
}

#[test]
fn a_chain_has_a_tridiagonal_hessian() {
    let rosenbrock = "def f (x : Array Real) : Real =
        loop sum = 0.0 for i < length x - 1 do sum + 100 * (x[i + 1] - x[i] ^ 2) ^ 2 + (1 - x[i]) ^ 2";
    for len in [1, 2, 3, 40] {
        let sparsity = check_hessian(&function(rosenbrock, "f"), &[ramp(len)]);
        // The last coordinate meets others in a product only, but with one of two reals every pair is a product.
        let band = (0..len).flat_map(|i| (i.saturating_sub(1)..(i + 2).min(len)).map(move |j| (i, j)));
        let expected = if len == 1 { Pattern::from_entries(1, 1, []) } else { Pattern::from_entries(len, len, band) };
        assert_eq!(sparsity.pattern(), &expected, "{len}");
        // Three in a row are a star.
        assert_eq!(sparsity.products(), if len > 3 { 3 } else { len.min(2) });
    }
}

#[test]
fn an_arrow_takes_two_products_in_either_mode() {
    let source = "
        def f (x : Array Real) : Real = loop sum = 0.0 for i < length x do sum + x[i] ^ 2 * sin x[0]
        def tall (x : Array Real) = [| x[i] * x[0] for i < length x |]
        def wide (x : Array Real) = [| if i == 0 then sum (map sin x) else x[i] ^ 2 for i < length x |]";
    let hessian = check_hessian(&function(source, "f"), &[ramp(30)]);
    assert_eq!((hessian.pattern().len(), hessian.products()), (30 + 2 * 29, 2));
    let tall = check_jacobian(&function(source, "tall"), &[ramp(30)]);
    assert_eq!((tall.pattern().len(), tall.products(), tall.mode()), (59, 2, JacobianMode::Forward));
    let wide = check_jacobian(&function(source, "wide"), &[ramp(30)]);
    assert_eq!((wide.pattern().len(), wide.products(), wide.mode()), (59, 2, JacobianMode::Reverse));
}

#[test]
fn a_laplacian_has_five_entries_in_a_row() {
    let source = "
        def at (u : Array Real) (n : Int) (i : Int) (j : Int) : Real =
          if i < 0 || j < 0 || i >= n || j >= n then 0.0 else u[i * n + j]
        def residual (n : Int) (u : Array Real) =
          [| let i = k / n in let j = k % n in
             4 * u[k] - at u n (i - 1) j - at u n (i + 1) j - at u n i (j - 1) - at u n i (j + 1) + 0.1 * exp u[k]
             for k < n * n |]";
    let n = 12;
    let f = function(source, "residual");
    let sparsity = check_jacobian(&f, &[(n as i64).into(), ramp(n * n)]);
    let at = |i: usize, j: usize| i * n + j;
    let mut entries = Vec::new();
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let neighbours = [(i.wrapping_sub(1), j), (i + 1, j), (i, j.wrapping_sub(1)), (i, j + 1), (i, j)];
        entries.extend(neighbours.iter().filter(|(a, b)| *a < n && *b < n).map(|&(a, b)| (at(i, j), at(a, b))));
    }
    assert_eq!(sparsity.pattern(), &Pattern::from_entries(n * n, n * n, entries));
    assert!((5..=8).contains(&sparsity.products()), "{}", sparsity.products());
}

#[test]
fn a_layer_of_a_network_knows_its_own_weights() {
    let source = "def layer (w : Array (Array Real)) (b : Array Real) (x : Array Real) =
        [| tanh (b[i] + sum (zip_with (*) w[i] x)) for i < length w |]";
    let (outputs, inputs) = (4, 3);
    let rows = Value::Array((0..outputs).map(|_| ramp(inputs)).collect());
    let f = function(source, "layer");
    let sparsity = check_jacobian(&f, &[rows.clone(), ramp(outputs), ramp(inputs)]);
    let of_row = |i: usize| {
        let (weights, bias) = (outputs * inputs, outputs * inputs + outputs);
        (i * inputs..(i + 1) * inputs).chain([weights + i]).chain(bias..bias + inputs).map(move |j| (i, j))
    };
    let columns = outputs * inputs + outputs + inputs;
    assert_eq!(sparsity.pattern(), &Pattern::from_entries(outputs, columns, (0..outputs).flat_map(of_row)));
    // With respect to weights only, all rows are one sweep, or one column of each row is one run.
    let only = check_jacobian(&f.wrt(&["w", "b"]).unwrap(), &[rows, ramp(outputs), ramp(inputs)]);
    assert_eq!((only.mode(), only.products()), (JacobianMode::Reverse, 1));
}

#[test]
fn a_step_of_an_ode_widens_the_band() {
    let source = "
        def step (h : Real) (u : Array Real) =
          [| u[i] + h * ((if i > 0 then u[i - 1] else 0.0) * u[i] - (if i + 1 < length u then u[i + 1] else 0.0))
             for i < length u |]
        def solve (steps : Int) (h : Real) (u : Array Real) = loop u = u for k < steps do step h u";
    let f = function(source, "solve").wrt(&["u"]).unwrap();
    let (steps, len) = (3, 20);
    let sparsity = check_jacobian(&f, &[(steps as i64).into(), 0.1.into(), ramp(len)]);
    let band = (0..len).flat_map(|i| (i.saturating_sub(steps)..(i + steps + 1).min(len)).map(move |j| (i, j)));
    assert_eq!(sparsity.pattern(), &Pattern::from_entries(len, len, band));
    assert_eq!(sparsity.products(), 2 * steps + 1);
}

/// What else programs are made of: data types, closures, lists, recursion, tasks that use reals of others.
const SHAPES: &str = "
    type Tree = Leaf Real | Node Tree Tree
    def grow (depth : Int) (at : Int) (x : Array Real) : Tree =
      if depth == 0 then Leaf x[at % length x]
      else let (l, r) = grow (depth - 1) (2 * at) x |*| grow (depth - 1) (2 * at + 1) x in Node l r
    def energy (t : Tree) : Real =
      match t with
      | Leaf x -> x ^ 3
      | Node (Leaf a) (Leaf b) -> a * b + b
      | Node l r -> energy l + energy r
    def shapes (x : Array Real) (scale : Real) =
      let t = grow 3 0 x in
      let squares = pmap (\\n -> x[n] ^ 2 * scale) (range 0 (length x)) in
      let scaled = map (\\y -> y * scale) (to_list x) in
      (energy t, squares, scaled, length x > 3, [| (x[0], x[i] + 1.0) for i < 2 |])
    def total (x : Array Real) (scale : Real) : Real =
      let t = grow 3 0 x in
      let squares = pmap (\\n -> x[n] ^ 2 * scale + (if n > 0 then x[n] * x[n - 1] else 0.0)) (range 0 (length x)) in
      energy t + sum squares + sum (map (\\y -> y * scale) (to_list x))";

#[test]
fn data_lists_recursion_and_tasks() {
    for threads in [1, 3] {
        for jit in [Jit::Off, Jit::Always] {
            let args = [ramp(9), 1.5.into()];
            let jacobian = check_jacobian(&with_threads(threads, jit, SHAPES, "shapes"), &args);
            // energy; squares and the scaled list; pairs.
            assert_eq!(jacobian.pattern().len(), 8 + 2 * (9 * 2) + 2 * 2);
            let hessian = check_hessian(&with_threads(threads, jit, SHAPES, "total"), &args);
            let tree = (0..4).flat_map(|k| [(2 * k, 2 * k + 1)]);
            let squares = (0..9).flat_map(|n: usize| [(n, n), (n, 9), (n.saturating_sub(1), n)]);
            let half: Vec<(usize, usize)> = tree.chain(squares).collect();
            let both = half.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
            assert_eq!(hessian.pattern(), &Pattern::from_entries(10, 10, both), "{threads}");
        }
    }
}

#[test]
fn what_operators_inside_give_depends_on_everything_or_is_ordinary_code() {
    // Small ones are written out in place; a loop of unknown length that is recorded is run again.
    let source = "
        def slopes (x : Array Real) = [| derivative (\\t -> t ^ 3 * x[i]) x[i] for i < length x |]
        def descend (x : Array Real) : Real =
          let f = \\v -> loop s = 0.0 for i < length v do s + v[i] ^ 4 in
          let g = grad f x in x[0] * g[0]
        def moved (x : Array Real) (v : Array Real) : Real =
          let (y, dy) = jvp (\\w -> loop s = w[0] for i < length w do s + w[i] ^ 3) x v in y * 2 + dy";
    let slopes = check_jacobian(&function(source, "slopes"), &[ramp(6)]);
    assert_eq!(slopes.pattern().len(), 6);
    check_jacobian(&function(source, "descend"), &[ramp(4)]);
    check_hessian(&function(source, "descend"), &[ramp(4)]);
    check_hessian(&function(source, "moved"), &[ramp(4), ramp(4)]);
    check_jacobian(&function(source, "moved"), &[ramp(4), ramp(4)]);
}

#[test]
fn the_pattern_of_another_branch_is_refused() {
    let source = "
        def f (x : Array Real) = [| if x[0] > 0.0 then x[i] * 2 else x[i] * x[(i + 1) % length x] for i < length x |]
        def g (x : Array Real) : Real =
          loop s = 0.0 for i < length x - 1 do if x[0] > 0.0 then s + x[i] ^ 2 else s + x[i] * x[i + 1] ^ 2
        def wide (x : Array Real) =
          [| if i == 0 then sum x else if x[0] > 0.0 then x[i] else x[i] * x[1] for i < length x |]";
    let (plus, minus) = (vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![-1.0, 2.0, 3.0, 4.0, 5.0]);
    let (plus, minus): (Value, Value) = (plus.into(), minus.into());
    let wrong_branch = |error: &dualvm::Error| {
        assert!(error.to_string().contains("outside of the pattern"), "{error}");
        matches!(error.kind(), ErrorKind::Sparsity(SparsityError::Entry { .. }))
    };
    for name in ["f", "wide"] {
        let f = function(source, name);
        let of_plus = f.jacobian_sparsity(std::slice::from_ref(&plus)).unwrap();
        assert!(f.sparse_jacobian(std::slice::from_ref(&plus), &of_plus).is_ok());
        assert!(f.sparse_jacobian(std::slice::from_ref(&minus), &of_plus).is_err_and(|error| wrong_branch(&error)));
        let of_minus = f.jacobian_sparsity(std::slice::from_ref(&minus)).unwrap();
        // A pattern that holds for both.
        let both = JacobianSparsity::of_pattern(of_plus.pattern().union(of_minus.pattern()));
        for args in [&plus, &minus].map(std::slice::from_ref) {
            let found = f.sparse_jacobian(args, &both).unwrap();
            compare(both.pattern(), found.matrix.entries(), &dense(&f.jacobian(args).unwrap().rows));
        }
    }
    let g = function(source, "g");
    let of_plus = g.hessian_sparsity(std::slice::from_ref(&plus)).unwrap();
    assert!(g.sparse_hessian(std::slice::from_ref(&minus), &of_plus).is_err_and(|error| wrong_branch(&error)));
    let of_minus = g.hessian_sparsity(std::slice::from_ref(&minus)).unwrap();
    let both = HessianSparsity::of_pattern(of_plus.pattern().union(of_minus.pattern()));
    assert!(g.sparse_hessian(&[plus], &both).is_ok() && g.sparse_hessian(&[minus], &both).is_ok());
}

#[test]
fn a_lagrangian_is_the_weighted_sum_of_hessians() {
    let source = "
        def problem (x : Array Real) (y : Real) =
          (loop s = 0.0 for i < length x do s + (x[i] - y) ^ 2 * x[0],
           [| x[i] * x[i + 1] - exp y for i < length x - 1 |], length x, sin x[0])
        def weighted (w : Array Real) (x : Array Real) (y : Real) : Real =
          let (f, g, _, h) = problem x y in
          loop s = w[0] * f + w[1] * h for i < length g do s + w[i + 2] * g[i]";
    let args = [ramp(6), 0.7.into()];
    let weights: Vec<f64> = vec![1.5, -2.0, 0.25, 3.0, 0.0, -1.0, 2.5];
    let weighted = function(source, "weighted").wrt(&["x", "y"]).unwrap();
    let with_weights = [weights.clone().into(), args[0].clone(), args[1].clone()];
    let expected = weighted.hessian(&with_weights).unwrap();
    let constraints = Value::Reals(weights[2..].to_vec());
    let cotangent = Value::Tuple(vec![weights[0].into(), constraints, Value::Null, weights[1].into()]);
    for jit in [Jit::Off, Jit::Always] {
        let problem = with_threads(1, jit, source, "problem");
        let sparsity = problem.lagrangian_sparsity(&args).unwrap();
        let found = problem.sparse_lagrangian(&args, &cotangent, &sparsity).unwrap();
        compare(sparsity.pattern(), found.matrix.entries(), &dense(&expected.rows));
        let gradient = flatten(&expected.gradient[1..]);
        support::assert_all_close(&flatten(&found.gradient), &gradient, 1e-12);
        assert_eq!(found.value, problem.call(&args).unwrap());
        let tangents = [ramp(6), 0.25.into()];
        let product = problem.lagrangian_hvp(&args, &cotangent, &tangents).unwrap();
        let nothing = Value::Reals(vec![0.0; 7]);
        let all = [nothing, tangents[0].clone(), tangents[1].clone()];
        let expected = function(source, "weighted").hvp(&with_weights, &all).unwrap().2;
        support::assert_all_close(&flatten(&product.product), &flatten(&expected[1..]), 1e-12);
        support::assert_all_close(&flatten(&product.gradient), &gradient, 1e-12);
        assert!(matches!(
            problem.sparse_lagrangian(&args, &Value::Real(1.0), &sparsity).unwrap_err().kind(),
            ErrorKind::Cotangent(_)
        ));
    }
}

#[test]
fn gauss_newton_is_a_product_with_the_jacobian_and_one_with_its_transpose() {
    for threads in [1, 3] {
        let f = with_threads(threads, Jit::Auto, SHAPES, "shapes");
        let args = [ramp(9), 1.5.into()];
        let tangents = [ramp(9), 0.5.into()];
        let found = f.gauss_newton(&args, &tangents).unwrap();
        let (value, moved) = f.jvp(&args, &tangents).unwrap();
        assert_eq!(found.value, value);
        let expected = [f.vjp(&args, &moved).unwrap().1, f.vjp(&args, &value).unwrap().1];
        assert_eq!([found.product, found.gradient], expected);
        assert!(f.gauss_newton(&args, &tangents[1..]).is_err());
    }
}

#[test]
fn an_infinite_entry_outside_of_the_pattern_is_refused() {
    let source = "
        def f (x : Array Real) =
          [| if i < 2 || x[0] > 0.0 then x[0] + x[1] * x[i] else x[1] * x[i] + sqrt x[0] for i < length x |]";
    let f = function(source, "f");
    let sparsity = f.jacobian_sparsity(&[vec![1.0, 2.0, 3.0].into()]).unwrap();
    // Each column is computed by itself, so that all entries inside of the pattern are finite.
    let columns = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 2), (0, 2)];
    assert!(sparsity.pattern().entries().all(|entry| entry == (2, 0) || columns.contains(&entry)));
    let sparsity = JacobianSparsity::of_pattern(Pattern::from_entries(3, 3, columns));
    assert_eq!(sparsity.products(), 3);
    let refused = f.sparse_jacobian(&[vec![0.0, 2.0, 3.0].into()], &sparsity).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Sparsity(SparsityError::Entry { place: 2, is_column: false })));
}

#[test]
fn sums_that_begin_alike_are_not_multiplied_out() {
    let source = "def f (x : Array Real) : Real =
        let (s, _) = loop (s, before) = (0.0, 0.0) for i < length x do
          let sum = before + x[i] in (s + sin sum, sum) in s";
    // As many sets as reals, which have half of them: their squares are a third of the cube of the reals in all.
    let (f, len) = (function(source, "f"), 1500);
    let limits = Limits { deadline: Some(std::time::Duration::from_secs(20)), ..Limits::default() };
    let sparsity = f.hessian_sparsity_with(&[ramp(len)], &CallOptions::with_limits(limits)).unwrap();
    assert_eq!((sparsity.pattern().len(), sparsity.products()), (len * len, len));
    check_hessian(&f, &[ramp(40)]);
}

#[test]
fn other_sizes_are_refused() {
    let source = "def f (n : Int) (x : Array Real) = [| x[i] ^ 2 for i < n |]
                  def g (x : Array Real) : Real = sum (map exp x)";
    let (f, g) = (function(source, "f"), function(source, "g"));
    let sparsity = f.jacobian_sparsity(&[3.into(), ramp(5)]).unwrap();
    assert_eq!((sparsity.pattern().rows(), sparsity.pattern().columns()), (3, 5));
    let message = |args: &[Value]| f.sparse_jacobian(args, &sparsity).unwrap_err().to_string();
    let shown = message(&[3.into(), ramp(6)]);
    assert!(shown.contains("3 × 5 matrix") && shown.ends_with("the derivative has 6 columns"), "{shown}");
    assert!(message(&[4.into(), ramp(5)]).contains("4 × 5"), "{}", message(&[4.into(), ramp(5)]));
    assert!(message(&[ramp(5)]).contains("argument"), "{}", message(&[ramp(5)]));
    let sparsity = g.hessian_sparsity(&[ramp(5)]).unwrap();
    assert!(g.sparse_hessian(&[ramp(4)], &sparsity).is_err_and(|error| error.to_string().contains("5 × 5")));
    assert!(f.hessian_sparsity(&[3.into(), ramp(5)]).is_err_and(|error| error.to_string().contains("one Real")));
}

#[test]
fn degenerate_functions() {
    let source = "
        def constant (x : Array Real) = [| 2.0, 3.0 |]
        def nothing (x : Array Real) : Array Real = [||]
        def same (x : Real) (y : Real) = (x, x, x * x, 1.0)
        def unused (x : Real) (y : Real) : Real = x * x * x
        def linear (x : Array Real) : Real = sum x
        def roots (x : Array Real) = [| if x[i] > 0.0 then sqrt x[i] else 0.0 for i < length x |]
        def discrete (n : Int) = n + 1";
    assert!(check_jacobian(&function(source, "constant"), &[ramp(3)]).pattern().is_empty());
    assert_eq!(check_jacobian(&function(source, "nothing"), &[ramp(3)]).pattern().rows(), 0);
    assert_eq!(check_jacobian(&function(source, "nothing"), &[Value::Reals(vec![])]).products(), 0);
    let same = check_jacobian(&function(source, "same"), &[2.0.into(), 3.0.into()]);
    assert_eq!(same.pattern().entries().collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 0)]);
    let unused = check_hessian(&function(source, "unused"), &[2.0.into(), 3.0.into()]);
    assert_eq!(unused.pattern().entries().collect::<Vec<_>>(), [(0, 0)]);
    assert!(check_hessian(&function(source, "linear"), &[ramp(7)]).pattern().is_empty());
    // An infinite partial that is not used, one that is, and arguments that are no numbers.
    check_jacobian(&function(source, "roots"), &[vec![0.0, 4.0, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY].into()]);
    assert_eq!(check_jacobian(&function(source, "discrete"), &[3.into()]).pattern().rows(), 0);
}

#[test]
fn limits_hold() {
    let source = "def dense (x : Array Real) : Real = sum x ^ 2
                  def spin (x : Array Real) : Real = loop s = 1.0 for i < 100000000 do s * x[0]";
    let live = |live_bytes| CallOptions::with_limits(Limits { live_bytes, ..Limits::default() });
    let f = function(source, "dense");
    let args = [ramp(2000)];
    assert!(f.hessian_sparsity_with(&args, &live(8 << 20)).is_err_and(|error| error.is_limit()));
    assert_eq!(f.hessian_sparsity_with(&args, &live(512 << 20)).unwrap().pattern().len(), 4_000_000);
    let tape = CallOptions::with_limits(Limits { tape_bytes: 1 << 20, ..Limits::default() });
    assert!(function(source, "spin").hessian_sparsity_with(&args, &tape).is_err_and(|error| error.is_limit()));
    let deadline = Some(std::time::Duration::from_millis(30));
    let late = CallOptions::with_limits(Limits { deadline, tape_bytes: u64::MAX, ..Limits::default() });
    let began = std::time::Instant::now();
    assert!(function(source, "spin").jacobian_sparsity_with(&args, &late).is_err_and(|error| error.is_limit()));
    assert!(began.elapsed() < std::time::Duration::from_secs(2));
}

/// Programs of the generators that give one real, and reals in their arguments that aren't too many.
fn random_programs(what: &str, make: impl Fn(u64) -> support::generate::Program) {
    let first = support::from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = support::from_environment("DUALVM_SEEDS").unwrap_or(150);
    let options = CallOptions::with_limits(Limits { fuel: 2_000_000, ..Limits::default() });
    let (mut compared, mut sparse) = (0, 0);
    for seed in first..first + seeds {
        let program = make(seed);
        let main = support::load(program.module.clone()).function("main").expect("main is exported");
        let Ok(expected) = main.hessian_with(&program.args, &options) else { continue };
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let sparsity = main.hessian_sparsity_with(&program.args, &CallOptions::default()).expect("the run ends");
            let found = main.sparse_hessian(&program.args, &sparsity);
            let dense = dense(&expected.rows);
            match found {
                Ok(found) => compare(sparsity.pattern(), found.matrix.entries(), &dense),
                // A check that can't be made where there are numbers of no use.
                Err(error) => assert!(dense.iter().flatten().any(|x| !x.is_finite() || x.abs() > 1e100), "{error}"),
            }
            let jacobian = main.jacobian_sparsity(&program.args).expect("the run ends");
            let gradient = flatten(&expected.gradient);
            compare_pattern(jacobian.pattern(), &gradient);
            sparsity.pattern().len() < dense.len() * dense.len()
        }));
        match outcome {
            Ok(is_sparse) => (compared, sparse) = (compared + 1, sparse + u64::from(is_sparse)),
            Err(_) => panic!("{what} {seed}:\n{}\n{:?}", program.shown(), program.args),
        }
    }
    assert!(compared * 3 > seeds && sparse * 4 > compared, "{compared} of {seeds} compared, {sparse} were sparse");
}

/// Of a gradient, what is outside of a row's pattern is zero.
fn compare_pattern(pattern: &Pattern, gradient: &[f64]) {
    for (column, real) in gradient.iter().enumerate() {
        assert!(*real == 0.0 || pattern.row(0).contains(&(column as u32)), "column {column}");
    }
}

#[test]
fn random_sources_have_the_values_of_dense_hessians() {
    random_programs("source", |seed| support::sources::program(seed, false));
}

#[test]
fn random_sources_with_operators_inside() {
    random_programs("source", |seed| support::sources::program_with_operators(seed, false));
}

#[test]
fn random_modules_have_the_values_of_dense_hessians() {
    random_programs("module", |seed| {
        support::generate::program(
            seed,
            support::generate::Style::ALL[seed as usize % support::generate::Style::ALL.len()],
        )
    });
}
