//! Arrays with a shape of their own, tensors and those of ndarray and of nalgebra, as arguments, tangents, cotangents,
//! results and gradients of typed calls: whatever their strides, values and derivatives are those of slices with the
//! same elements, to the last bit, and the same fuel and tape are used; what doesn't fit is refused with its place.

#[path = "support/typed_calls.rs"]
mod typed_calls;

use dualvm::vm::typed::Arguments;
use dualvm::{CallOptions, Config, Engine, Error, ErrorKind, Function, Limits, Matrix, Tensor, TypedFunction, Value};
use nalgebra::{DMatrix, DMatrixView, DVector, Matrix3xX, RowDVector, SMatrix, SVector, Vector3};
use ndarray::{
    ArcArray, Array, Array1, Array2, Array3, Array4, ArrayRef1, ArrayRef2, ArrayView1, ArrayView2, ArrayView3,
    ArrayView4, CowArray, Dimension, Ix1, Ix2, ShapeBuilder, array, aview1, s,
};
use typed_calls::{engines, function_of, used};

const PROGRAM: &str = "
    def wave (xs : Array Real) (k : Real) : Real =
      loop s = 0.0 for i < length xs do s + sin (k * xs[i]) * to_real (i + 1)
    def chain (xs : List Real) (k : Real) : Real = sum (map (\\x -> exp (k * x)) xs)
    def form (m : Matrix Real) (k : Real) : Real =
      loop s = 0.0 for i < rows m do
        loop s = s for j < columns m do s + cos (k * m[i, j]) * to_real (10 * i + j)
    def nested (m : Array (Array Real)) (k : Real) : Real =
      loop s = 0.0 for i < length m do
        loop s = s for j < length m[i] do s + cos (k * m[i][j]) * to_real (10 * i + j)
    def cube (t : Tensor3 Real) (k : Real) : Real =
      let (a, b, c) = shape3 t in
      loop s = 0.0 for h < a do loop s = s for i < b do
        loop s = s for j < c do s + sin (k * t[h, i, j]) * to_real (100 * h + 10 * i + j)
    def cubes (t : Tensor4 Real) (k : Real) : Real =
      let (a, b, c, d) = shape4 t in
      loop s = 0.0 for g < a do loop s = s for h < b do loop s = s for i < c do
        loop s = s for j < d do s + sin (k * t[g, h, i, j]) * to_real (1000 * g + 100 * h + 10 * i + j)
    def counts (ns : Array Int) (m : Matrix Int) (on : Array Bool) (l : List Int) (x : Real) : Real =
      loop s = x for i < length ns do
        s + x * to_real (ns[i] * m[i, 1] + rows m + sum l) * (if on[i] then 2.0 else 0.5)
    def points (ps : Array (Real, Real, Real)) (shift : (Real, Real, Real)) : Real =
      let (a, b, c) = shift in
      loop s = 0.0 for i < length ps do let (x, y, z) = ps[i] in s + sin (x * a) * y * b - z / c
    def outer (xs : Array Real) (ys : Array Real) : Matrix Real = [| x * y for x in xs, y in ys |]
    def parts (xs : Array Real) (n : Int) =
      ([| x * x for x in xs |], ([| [| x * to_real i for x in xs |] for i < n |], [i * i for i < n]),
       [| x * to_real (i + j) for i < n, j < 2, x in xs |], [| i - j for i < n, j < 2 |])
    def ragged_rows (n : Int) = (1.0, [| [| to_real j for j < 3 - i |] for i < n |])
    def huge (n : Int) : Tensor3 Real = [| 1.0 for i < 0, j < n, k < n |]
    def shift ((x, y, z) : (Real, Real, Real)) = ([| (x, y * 2, z) for i < 2 |], (z, x, y * y))";

fn function(engine: &Engine, name: &str) -> Function {
    function_of(PROGRAM, engine, name)
}

/// The reals of a gradient, in the order in which those of the argument stand.
trait Reals {
    fn reals(&self) -> Vec<f64>;
}

impl Reals for f64 {
    fn reals(&self) -> Vec<f64> {
        vec![*self]
    }
}

impl Reals for Vec<f64> {
    fn reals(&self) -> Vec<f64> {
        self.clone()
    }
}

impl<const RANK: usize> Reals for Tensor<f64, RANK> {
    fn reals(&self) -> Vec<f64> {
        self.elements().to_vec()
    }
}

impl<D: Dimension> Reals for Array<f64, D> {
    fn reals(&self) -> Vec<f64> {
        self.iter().copied().collect()
    }
}

impl<R: nalgebra::Dim, C: nalgebra::Dim> Reals for nalgebra::OMatrix<f64, R, C>
where
    nalgebra::DefaultAllocator: nalgebra::allocator::Allocator<R, C>,
{
    fn reals(&self) -> Vec<f64> {
        self.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<f64>>()).collect()
    }
}

impl<A: Reals, B: Reals> Reals for (A, B) {
    fn reals(&self) -> Vec<f64> {
        [self.0.reals(), self.1.reals()].concat()
    }
}

fn bits(xs: &[f64]) -> Vec<u64> {
    xs.iter().map(|x| x.to_bits()).collect()
}

/// What typed calls of `function` give with an array `x` and a direction `v`: the bits of all reals, and what each call
/// has used.
fn all<A, G>(function: &Function, x: A, v: A) -> (Vec<Vec<u64>>, Vec<[u64; 7]>)
where
    A: Clone + Send,
    G: Reals + Clone + Send,
    (A, f64): for<'g> Arguments<Gradient = (G, f64), Tangent = (A, f64), Slices<'g> = [&'g mut [f64]; 2]> + Clone,
{
    let options = CallOptions::default();
    let typed = function.typed::<(A, f64), f64>().unwrap_or_else(|error| panic!("{error}"));
    let (args, direction) = ((x, 0.75), (v, -0.5));
    let (value, called) = typed.call_with(args.clone(), &options).unwrap();
    let (again, gradient, swept) = typed.value_and_grad_with(args.clone(), &options).unwrap();
    assert_eq!(again.to_bits(), value.to_bits());
    let (_, tangent, pushed) = typed.jvp_with(args.clone(), direction.clone(), &options).unwrap();
    let (_, again, product, second) = typed.hvp_with(args.clone(), direction.clone(), &options).unwrap();
    assert_eq!(bits(&again.reals()), bits(&gradient.reals()));
    let (_, pulled, back) = typed.vjp_with(args.clone(), &3.0, &options).unwrap();

    // Over an earlier gradient: of these extents, and of others.
    let nothing = function.wrt::<&str>(&[]).unwrap().typed::<(A, f64), f64>().unwrap();
    let (_, empty) = nothing.value_and_grad(args.clone()).unwrap();
    for mut over in [gradient.clone(), product.clone(), empty] {
        typed.value_and_grad_into(args.clone(), &mut over).unwrap();
        assert_eq!(bits(&over.reals()), bits(&gradient.reals()));
        nothing.value_and_grad_into(args.clone(), &mut over).unwrap();
        assert!(over.reals().iter().all(|&x| x == 0.0), "nothing was asked for");
    }
    let (mut by_x, mut by_k) = (vec![f64::NAN; gradient.0.reals().len()], f64::NAN);
    typed.value_and_grad_into_slices(args.clone(), [&mut by_x, std::slice::from_mut(&mut by_k)]).unwrap();
    assert_eq!(bits(&[by_x, vec![by_k]].concat()), bits(&gradient.reals()));

    let batch = typed.batch().value_and_grad([args.clone(), args.clone(), args.clone()]);
    for outcome in batch {
        assert_eq!(bits(&outcome.unwrap().1.reals()), bits(&gradient.reals()));
    }
    for outcome in typed.batch().hvp([(args.clone(), direction.clone()), (args, direction)]) {
        assert_eq!(bits(&outcome.unwrap().2.reals()), bits(&product.reals()));
    }
    let reals = [vec![value, tangent], gradient.reals(), product.reals(), pulled.reals()];
    (reals.map(|reals| bits(&reals)).into(), [called, swept, pushed, second, back].map(|stats| used(&stats)).into())
}

/// So many reals, no two of which are alike.
fn reals(count: usize, from: f64) -> Vec<f64> {
    (0..count).map(|n| from + 0.37 * n as f64 - (n % 3) as f64).collect()
}

/// Some array with these elements, whose memory has others, too, or has them in another order.
fn strided<D: Dimension>(x: &Array<f64, D>) -> Array<f64, D> {
    // Axes from last to first, then every second element of each, backwards.
    let mut shape = x.raw_dim();
    shape.slice_mut().iter_mut().for_each(|extent| *extent *= 2);
    let mut all = Array::from_elem(shape.f(), f64::NAN);
    all.slice_each_axis_inplace(|_| ndarray::Slice::new(0, None, -2));
    assert_eq!(all.shape(), x.shape());
    all.assign(x);
    assert!(all.len() <= 1 || !all.is_standard_layout());
    all
}

#[test]
fn vectors_are_slices_whatever_their_strides() {
    for engine in engines() {
        for (name, len) in [("wave", 7), ("chain", 5), ("wave", 1), ("wave", 0), ("chain", 0)] {
            let function = function(&engine, name);
            let (xs, vs) = (reals(len, 0.5), reals(len, -2.0));
            let expected = all::<&[f64], Vec<f64>>(&function, &xs, &vs);
            let (x, v) = (Array1::from(xs.clone()), Array1::from(vs.clone()));
            let (x_strided, v_strided) = (strided(&x), strided(&v));
            type Gradient = Array1<f64>;
            assert_eq!(all::<ArrayView1<f64>, Gradient>(&function, aview1(&xs), v.view()), expected);
            assert_eq!(all::<ArrayView1<f64>, Gradient>(&function, x_strided.view(), v_strided.view()), expected);
            assert_eq!(all::<ArrayView1<f64>, Gradient>(&function, x.view(), v_strided.view()), expected);
            assert_eq!(all::<Array1<f64>, Gradient>(&function, x_strided.clone(), v.clone()), expected);
            assert_eq!(all::<&Array1<f64>, Gradient>(&function, &x, &v_strided), expected);
            assert_eq!(all::<&ArrayView1<f64>, Gradient>(&function, &x.view(), &v.view()), expected);
            assert_eq!(all::<&ArrayRef1<f64>, Gradient>(&function, &x_strided, &v), expected);
            assert_eq!(all::<CowArray<f64, Ix1>, Gradient>(&function, x.view().into(), v.clone().into()), expected);
            assert_eq!(all::<ArcArray<f64, Ix1>, Gradient>(&function, x.into(), v.into()), expected);

            let tensor = |elements: &[f64]| Tensor::new(elements.to_vec(), [len]).unwrap();
            assert_eq!(all::<_, Tensor<f64, 1>>(&function, tensor(&xs), tensor(&vs)), expected);

            let (x, v) = (DVector::from_vec(xs), DVector::from_vec(vs));
            assert_eq!(all::<DVector<f64>, DVector<f64>>(&function, x.clone(), v.clone()), expected);
            assert_eq!(all::<&DVector<f64>, DVector<f64>>(&function, &x, &v), expected);
            let (x_view, v_view) = (x.rows(0, len), v.rows(0, len));
            assert_eq!(all::<_, DVector<f64>>(&function, x_view, v_view), expected);
            // A row of a matrix, whose elements stand apart.
            let wide = DMatrix::from_fn(2, len, |_, n| x[n]);
            let row = wide.row(1).transpose();
            assert_eq!(all::<DVector<f64>, DVector<f64>>(&function, row, v), expected);
        }
        let wave = function(&engine, "wave");
        let (x, v) = ([0.5, 2.0, -1.0], [1.0, 0.25, 3.0]);
        let expected = all::<&[f64], Vec<f64>>(&wave, &x, &v);
        assert_eq!(all::<Vector3<f64>, Vector3<f64>>(&wave, x.into(), v.into()), expected);
        assert_eq!(all::<&SVector<f64, 3>, Vector3<f64>>(&wave, &x.into(), &v.into()), expected);
        // One element, as often as one likes.
        let (same, v) = ([0.5; 4], [1.0, 2.0, 3.0, 4.0]);
        let expected = all::<&[f64], Vec<f64>>(&wave, &same, &v);
        let one = aview1(&same[..1]);
        assert_eq!(all::<_, Array1<f64>>(&wave, one.broadcast(4).unwrap(), aview1(&v)), expected);
    }
}

#[test]
fn matrices_are_row_by_row_whatever_their_strides() {
    for engine in engines() {
        for (name, [rows, columns]) in ["form", "nested"]
            .into_iter()
            .flat_map(|name| [[3, 4], [1, 3], [3, 1], [0, 3], [3, 0]].map(|shape| (name, shape)))
        {
            let function = function(&engine, name);
            let (xs, vs) = (reals(rows * columns, 0.5), reals(rows * columns, -2.0));
            let matrix = |elements| Matrix::new(elements, [rows, columns]).unwrap();
            let expected = all::<Matrix<'_>, Vec<f64>>(&function, matrix(&xs), matrix(&vs));
            let array = |elements: &[f64]| Array2::from_shape_vec([rows, columns], elements.to_vec()).unwrap();
            let (x, v) = (array(&xs), array(&vs));
            let (x_strided, v_strided) = (strided(&x), strided(&v));
            let transposed = x.t().as_standard_layout().into_owned();
            type Gradient = Array2<f64>;
            assert_eq!(all::<ArrayView2<f64>, Gradient>(&function, x.view(), v.view()), expected);
            assert_eq!(all::<ArrayView2<f64>, Gradient>(&function, transposed.t(), v.view()), expected);
            assert_eq!(all::<ArrayView2<f64>, Gradient>(&function, x_strided.view(), v_strided.view()), expected);
            assert_eq!(all::<&Array2<f64>, Gradient>(&function, &x_strided, &v), expected);
            assert_eq!(all::<&ArrayRef2<f64>, Gradient>(&function, &x, &v_strided), expected);
            assert_eq!(all::<CowArray<f64, Ix2>, Gradient>(&function, x.into(), v.view().into()), expected);

            let tensor = |elements: &[f64]| Tensor::new(elements.to_vec(), [rows, columns]).unwrap();
            assert_eq!(all::<_, Tensor<f64, 2>>(&function, tensor(&xs), tensor(&vs)), expected);
            assert_eq!(all::<_, Tensor<f64, 2>>(&function, &tensor(&xs), &tensor(&vs)), expected);

            let array = |elements: &[f64]| DMatrix::from_row_slice(rows, columns, elements);
            let (x, v) = (array(&xs), array(&vs));
            assert_eq!(all::<DMatrix<f64>, DMatrix<f64>>(&function, x.clone(), v.clone()), expected);
            assert_eq!(all::<&DMatrix<f64>, DMatrix<f64>>(&function, &x, &v), expected);
            assert_eq!(all::<DMatrixView<f64>, DMatrix<f64>>(&function, x.as_view(), v.as_view()), expected);
            let larger = x.clone().insert_row(rows, 9.0).insert_column(0, 8.0);
            let view = larger.view((0, 1), (rows, columns));
            assert_eq!(all::<_, DMatrix<f64>>(&function, view, v.view((0, 0), (rows, columns))), expected);
            if [rows, columns] == [3, 4] {
                let [x, v] = [&x, &v].map(|m| SMatrix::<f64, 3, 4>::from_iterator(m.iter().copied()));
                assert_eq!(all::<_, SMatrix<f64, 3, 4>>(&function, x, v), expected);
                let [x, v] = [x, v].map(|m| Matrix3xX::from_iterator(4, m.iter().copied()));
                assert_eq!(all::<_, Matrix3xX<f64>>(&function, &x, &v), expected);
            }
            if rows == 1 {
                let [x, v] = [&xs, &vs].map(|xs| RowDVector::from_row_slice(xs));
                assert_eq!(all::<_, RowDVector<f64>>(&function, x, v), expected);
            }
        }
    }
}

#[test]
fn tensors_are_arrays_of_three_and_four_dimensions() {
    for engine in engines() {
        for shape in [[2, 3, 4], [2, 0, 4], [0, 1, 1]] {
            // Values are the only other way to pass tensors.
            let cube = function(&engine, "cube");
            let len = shape.iter().product();
            let array = |from| Array3::from_shape_vec(shape, reals(len, from)).unwrap();
            let (x, v) = (array(0.5), array(-2.0));
            let found = all::<ArrayView3<f64>, Array3<f64>>(&cube, x.view(), v.view());
            let (x_strided, v_strided) = (strided(&x), strided(&v));
            assert_eq!(all::<ArrayView3<f64>, Array3<f64>>(&cube, x_strided.view(), v_strided.view()), found);
            assert_eq!(all::<Array3<f64>, Array3<f64>>(&cube, x_strided, v.clone()), found);
            assert_eq!(all::<&Array3<f64>, Array3<f64>>(&cube, &x, &v), found);
            let tensor = |from| Tensor::new(reals(len, from), shape).unwrap();
            assert_eq!(all::<_, Tensor<f64, 3>>(&cube, tensor(0.5), tensor(-2.0)), found);

            let value = |t: &Array3<f64>| {
                let slice = |m: ArrayView2<f64>| m.rows().into_iter().map(|row| row.to_vec().into()).collect();
                Value::Array(t.outer_iter().map(|m| Value::Array(slice(m))).collect())
            };
            let expected = cube.hvp(&[value(&x), 0.75.into()], &[value(&v), (-0.5).into()]).unwrap();
            let typed = cube.typed::<(&Array3<f64>, f64), f64>().unwrap();
            let (found, gradient, product) = typed.hvp((&x, 0.75), (&v, -0.5)).unwrap();
            assert_eq!(found.to_bits(), expected.0.to_bits());
            assert_eq!((gradient.0.shape(), product.0.shape()), (&shape[..], &shape[..]));
            let as_values = |(by_t, by_k): (Array3<f64>, f64)| vec![value(&by_t), by_k.into()];
            assert_eq!(as_values(gradient), expected.1);
            assert_eq!(as_values(product), expected.2);
        }
        let cubes = function(&engine, "cubes");
        let array = |from| Array4::from_shape_vec([2, 1, 3, 2], reals(12, from)).unwrap();
        let (x, v) = (array(0.5), array(-2.0));
        let expected = all::<&Array4<f64>, Array4<f64>>(&cubes, &x, &v);
        let (x, v) = (strided(&x), strided(&v));
        assert_eq!(all::<ArrayView4<f64>, Array4<f64>>(&cubes, x.view(), v.view()), expected);
    }
}

#[test]
fn arrays_of_integers_and_booleans_have_no_derivatives() {
    for engine in engines() {
        let counts = function(&engine, "counts");
        let (ns, m, on, l) = ([3, -4], [1, 2, 3, 4], [true, false], [7, 8, 9]);
        type Slices<'a> = (&'a [i64], Matrix<'a, i64>, &'a [bool], &'a [i64], f64);
        let slices = counts.typed::<Slices<'_>, f64>().unwrap();
        let expected = slices.value_and_grad((&ns, Matrix::new(&m, [2, 2]).unwrap(), &on, &l, 1.5)).unwrap();

        type Arrays<'a> = (ArrayView1<'a, i64>, Array2<i64>, &'a Array1<bool>, ArrayView1<'a, i64>, f64);
        let arrays = counts.typed::<Arrays<'_>, f64>().unwrap();
        let backwards = [9, 0, 8, 0, 7];
        let m_columns = Array2::from_shape_vec([2, 2].f(), vec![1, 3, 2, 4]).unwrap();
        let (on_array, stepped) = (array![true, false], ArrayView1::from(&backwards));
        let args = || (aview1(&ns), m_columns.clone(), &on_array, stepped.slice(s![..;-2]), 1.5);
        assert_eq!(arrays.value_and_grad(args()).unwrap(), expected);
        let (value, tangent) = arrays.jvp(args(), ((), (), (), (), 1.0)).unwrap();
        assert_eq!((value, tangent), (expected.0, expected.1.4));

        type Matrices<'a> = (SVector<i64, 2>, &'a DMatrix<i64>, DVector<bool>, DVector<i64>, f64);
        let matrices = counts.typed::<Matrices<'_>, f64>().unwrap();
        let m = DMatrix::from_row_slice(2, 2, &m);
        let args = (ns.into(), &m, on.to_vec().into(), l.to_vec().into(), 1.5);
        assert_eq!(matrices.value_and_grad(args).unwrap(), expected);
    }
}

#[test]
fn vectors_of_a_fixed_length_are_tuples() {
    for engine in engines() {
        let (points, shift) = (function(&engine, "points"), function(&engine, "shift"));
        let (ps, by) = ([[1.0, 2.0, 3.0], [4.0, 0.5, 0.25]], [[1.0, 0.0, -1.0], [0.5, 2.0, 3.0]]);
        let (k, by_k) = ([0.5, 2.0, 4.0], [1.0, -1.0, 0.5]);
        let tuples = points.typed::<(&[[f64; 3]], [f64; 3]), f64>().unwrap();
        let vectors = points.typed::<(&[Vector3<f64>], Vector3<f64>), f64>().unwrap();
        let (vs, v_by) = (ps.map(Vector3::from), by.map(Vector3::from));
        let (value, gradient, product) = vectors.hvp((&vs, k.into()), (&v_by, by_k.into())).unwrap();
        let flat = |(by_ps, by_k): (Vec<Vector3<f64>>, Vector3<f64>)| {
            (Vec::from_iter(by_ps.into_iter().map(Into::into)), by_k.into())
        };
        assert_eq!((value, flat(gradient), flat(product)), tuples.hvp((&ps, k), (&by, by_k)).unwrap());

        let tuples = shift.typed::<([f64; 3],), (Vec<[f64; 3]>, [f64; 3])>().unwrap();
        let vectors = shift.typed::<(Vector3<f64>,), (Vec<Vector3<f64>>, Vector3<f64>)>().unwrap();
        let (value, (gradient,)) = vectors.vjp((k.into(),), &(v_by.to_vec(), by_k.into())).unwrap();
        let expected = tuples.vjp((k,), &(by.to_vec(), by_k)).unwrap();
        assert_eq!((flat(value), (gradient.into(),)), expected);

        let error = points.typed::<(&[SVector<f64, 2>], Vector3<f64>), f64>().unwrap_err().to_string();
        assert!(error.ends_with("expected Array (Real, Real, Real), found &[SVector<f64, 2>]"), "{error}");
    }
}

#[test]
fn results_are_arrays_and_so_are_their_tangents() {
    for engine in engines() {
        let outer = function(&engine, "outer");
        let (xs, ys) = (array![1.0, 2.0], array![3.0, 4.0, 5.0]);
        let (x_tan, y_tan) = (array![1.0, -1.0], array![0.0, 0.5, 2.0]);
        let typed = outer.typed::<(&Array1<f64>, &Array1<f64>), Array2<f64>>().unwrap();
        let (value, tangent) = typed.jvp((&xs, &ys), (&x_tan, &y_tan)).unwrap();
        assert_eq!(value, array![[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]);
        assert_eq!(tangent, array![[3.0, 4.5, 7.0], [-3.0, -3.0, -1.0]]);
        // A cotangent with strides of its own.
        let cotangent = array![[1.0, 0.0], [0.0, 0.0], [0.0, 10.0]].reversed_axes();
        let (_, (by_xs, by_ys)) = typed.vjp((&xs, &ys), &cotangent).unwrap();
        assert_eq!((by_xs, by_ys), (array![3.0, 50.0], array![1.0, 0.0, 20.0]));
        let (_, rows) = typed.jacobian((&xs, &ys)).unwrap();
        assert_eq!(rows[5], (array![0.0, 5.0], array![0.0, 0.0, 2.0]));

        let typed = outer.typed::<(DVector<f64>, Vector3<f64>), DMatrix<f64>>().unwrap();
        let args = || (DVector::from_vec(vec![1.0, 2.0]), Vector3::new(3.0, 4.0, 5.0));
        let tangents = (DVector::from_vec(vec![1.0, -1.0]), Vector3::new(0.0, 0.5, 2.0));
        let (value, tangent) = typed.jvp(args(), tangents).unwrap();
        assert_eq!(value, DMatrix::from_row_slice(2, 3, &[3.0, 4.0, 5.0, 6.0, 8.0, 10.0]));
        assert_eq!(tangent, DMatrix::from_row_slice(2, 3, &[3.0, 4.5, 7.0, -3.0, -3.0, -1.0]));
        let cotangent = DMatrix::from_row_slice(2, 3, &[1.0, 0.0, 0.0, 0.0, 0.0, 10.0]);
        let (_, (by_xs, by_ys)) = typed.vjp(args(), &cotangent).unwrap();
        assert_eq!((by_xs.as_slice(), by_ys), (&[3.0, 50.0][..], Vector3::new(1.0, 0.0, 20.0)));
        let fixed = outer.typed::<(DVector<f64>, Vector3<f64>), SMatrix<f64, 2, 3>>().unwrap();
        assert_eq!(fixed.call(args()).unwrap(), value);

        type Parts = (Array1<f64>, (Array2<f64>, Array1<i64>), Array3<f64>, Array2<i64>);
        let parts = function(&engine, "parts");
        let typed = parts.typed::<(&Array1<f64>, i64), Parts>().unwrap();
        let (squares, (rows, counts), cube, discrete) = typed.call((&ys, 2)).unwrap();
        assert_eq!(squares, array![9.0, 16.0, 25.0]);
        assert_eq!((rows, counts), (array![[0.0, 0.0, 0.0], [3.0, 4.0, 5.0]], array![0, 1]));
        let first = array![[0.0, 0.0, 0.0], [3.0, 4.0, 5.0]];
        assert_eq!(cube, ndarray::stack![ndarray::Axis(0), first, &first + &ys]);
        assert_eq!(discrete, array![[0, -1], [1, 0]]);
        let (_, tangent) = typed.jvp((&ys, 2), (&y_tan, ())).unwrap();
        assert_eq!((tangent.0, tangent.3), (array![0.0, 4.0, 20.0], ()));
        // None of anything.
        let (squares, (rows, counts), cube, discrete) = typed.call((&array![], 0)).unwrap();
        assert_eq!((squares.len(), rows.dim(), counts.len()), (0, (0, 0), 0));
        assert_eq!((cube.dim(), discrete.dim()), ((0, 2, 0), (0, 2)));
    }
}

fn refusal<T>(outcome: Result<T, Error>) -> (Error, String) {
    let error = outcome.err().expect("it doesn't fit");
    let text = error.to_string();
    (error, text)
}

#[test]
fn what_is_of_another_shape_is_refused_with_its_place() {
    let engine = Engine::default();
    let form = function(&engine, "form").typed::<(&Array2<f64>, f64), f64>().unwrap();
    let [m, other] = [[2, 3], [3, 2]].map(Array2::<f64>::zeros);
    let (error, text) = refusal(form.jvp((&m, 1.0), (&other, 0.0)));
    assert!(matches!(error.kind(), ErrorKind::Tangent(_)));
    assert_eq!(text, "tangent of m: expected a matrix of 2 × 3, found one of 3 × 2");
    assert!(form.hvp((&m, 1.0), (&Array2::zeros([0, 0]), 0.0)).is_err());

    let wave = function(&engine, "wave");
    let typed = wave.typed::<(DVector<f64>, f64), f64>().unwrap();
    let (_, text) = refusal(typed.jvp((DVector::zeros(3), 1.0), (DVector::zeros(1), 0.0)));
    assert_eq!(text, "tangent of xs: expected 3 elements, found 1");
    let cube = function(&engine, "cube").typed::<(Array3<f64>, f64), f64>().unwrap();
    let [x, v] = [[1, 2, 3], [3, 2, 1]].map(Array3::zeros);
    let (_, text) = refusal(cube.jvp((x, 1.0), (v, 0.0)));
    assert_eq!(text, "tangent of t: expected a tensor of 1 × 2 × 3, found one of 3 × 2 × 1");

    let still = wave.wrt(&["k"]).unwrap().typed::<(ArrayView1<f64>, f64), f64>().unwrap();
    let xs = [0.5, 1.0, 2.0];
    let moving = [0.0, 9.0, 0.0, 9.0, 1.0];
    for v in [aview1(&[]), aview1(&[0.0; 3]), aview1(&[0.0]).broadcast(3).unwrap()] {
        assert!(still.jvp((aview1(&xs), 1.0), (v, 1.0)).is_ok());
    }
    let (_, text) = refusal(still.jvp((aview1(&xs), 1.0), (aview1(&moving).slice(s![..;2]).reborrow(), 1.0)));
    assert_eq!(text, "tangent of xs[2]: expected 0, because derivatives are not with respect to it, found 1.0");

    let outer = function(&engine, "outer").typed::<(&Array1<f64>, &Array1<f64>), Array2<f64>>().unwrap();
    let (error, text) = refusal(outer.vjp((&array![1.0], &array![1.0, 2.0]), &array![[1.0], [2.0]]));
    assert!(matches!(error.kind(), ErrorKind::Cotangent(_)));
    assert_eq!(text, "cotangent of result: expected a matrix of 1 × 2, found one of 2 × 1");
}

#[test]
fn results_that_the_type_has_no_shape_for_are_refused_with_their_place() {
    let engine = Engine::default();
    let outer = function(&engine, "outer").typed::<(&[f64], &[f64]), SMatrix<f64, 2, 2>>().unwrap();
    let (error, text) = refusal(outer.call((&[1.0], &[2.0, 3.0])));
    assert!(matches!(error.kind(), ErrorKind::ResultMismatch { .. }));
    assert_eq!(text, "result of `outer`: expected a matrix of 2 × 2, found one of 1 × 2");
    assert!(outer.jacobian((&[1.0], &[2.0, 3.0])).is_err());

    let ragged = function(&engine, "ragged_rows");
    let (_, text) = refusal(ragged.typed::<(i64,), (f64, Array2<f64>)>().unwrap().call((2,)));
    assert_eq!(text, "result.1[1] of `ragged_rows`: expected 3 elements, found 2");
    assert_eq!(ragged.typed::<(i64,), (f64, DMatrix<f64>)>().unwrap().call((1,)).unwrap().1.shape(), (1, 3));
    let (_, text) = refusal(ragged.typed::<(i64,), (f64, Vec<SVector<f64, 3>>)>().unwrap().call((2,)));
    assert_eq!(text, "result.1[1] of `ragged_rows`: expected 3 elements, found 2");

    let huge = function(&engine, "huge").typed::<(i64,), Array3<f64>>().unwrap();
    assert_eq!(huge.call((5,)).unwrap().shape(), [0, 5, 5]);
    let text = refusal(huge.call((1 << 32,))).1;
    assert!(text.starts_with("result of `huge`: expected extents other than 0"), "{text}");
}

#[test]
fn types_that_do_not_fit_are_named() {
    let engine = Engine::default();
    fn message<A: Arguments>(engine: &Engine, name: &str) -> String {
        function(engine, name).typed::<A, f64>().map(|_: TypedFunction<A, f64>| ()).unwrap_err().to_string()
    }
    let cases = [
        (message::<(Array2<f64>, f64)>(&engine, "wave"), "xs of `wave`: expected Array Real, found Array2<f64>"),
        (
            message::<(ArrayView1<i64>, f64)>(&engine, "wave"),
            "xs of `wave`: expected Array Real, found ArrayView1<i64>",
        ),
        (message::<(&Array1<f64>, f64)>(&engine, "form"), "m of `form`: expected Matrix Real, found &Array1<f64>"),
        (
            message::<(&ArrayRef2<f64>, f64)>(&engine, "cube"),
            "t of `cube`: expected Tensor3 Real, found &ArrayRef2<f64>",
        ),
        (
            message::<(DVector<f64>, f64)>(&engine, "nested"),
            "m of `nested`: expected Array (Array Real), found DVector<f64>",
        ),
        (message::<(&DMatrix<bool>, f64)>(&engine, "form"), "m of `form`: expected Matrix Real, found &DMatrix<bool>"),
        (
            message::<(Matrix3xX<f64>, f64)>(&engine, "wave"),
            "xs of `wave`: expected Array Real, found OMatrix<f64, 3, Dyn>",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, format!("parameter {expected}"));
    }
}

#[test]
fn views_of_more_than_there_is_memory_for_reach_a_limit() {
    let config = Config::default().with_limits(Limits { live_bytes: 1 << 20, ..Limits::untrusted() });
    let engine = Engine::new(config);
    let one = aview1(&[1.0]);
    for len in [1 << 20, 1 << 40, 1 << 59, isize::MAX as usize] {
        let x = one.broadcast(len).unwrap();
        let wave = function(&engine, "wave").typed::<(ArrayView1<f64>, f64), f64>().unwrap();
        assert!(wave.call((x, 1.0)).unwrap_err().is_limit());
        assert!(wave.value_and_grad((x, 1.0)).unwrap_err().is_limit());
        assert!(wave.jvp((x, 1.0), (x, 1.0)).unwrap_err().is_limit());
        let chain = function(&engine, "chain").typed::<(ArrayView1<f64>, f64), f64>().unwrap();
        assert!(chain.call((x, 1.0)).unwrap_err().is_limit());
        let m = one.broadcast((len, 1)).unwrap();
        for name in ["form", "nested"] {
            let typed = function(&engine, name).typed::<(ArrayView2<f64>, f64), f64>().unwrap();
            assert!(typed.call((m, 1.0)).unwrap_err().is_limit(), "{name}");
            assert!(typed.call((m.t(), 1.0)).unwrap_err().is_limit(), "{name}");
        }
    }
}
