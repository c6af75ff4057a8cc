//! Small matrices for `ht`.

/// A matrix of a movement in space: rotation, or any linear map, and translation.
pub(crate) type Matrix = [[f64; 4]; 4];

pub(crate) type Vec3 = [f64; 3];

pub(crate) const IDENTITY: Matrix =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];

pub(crate) fn product(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..4).map(|k| a[i][k] * b[k][j]).sum()))
}

/// The first three coordinates of a point that is moved.
pub(crate) fn apply(a: &Matrix, x: &[f64; 4]) -> Vec3 {
    std::array::from_fn(|i| (0..4).map(|k| a[i][k] * x[k]).sum())
}

pub(crate) fn apply3(a: &[Vec3; 3], x: Vec3) -> Vec3 {
    std::array::from_fn(|i| a[i][0] * x[0] + a[i][1] * x[1] + a[i][2] * x[2])
}

/// The rotation about the first axis and its derivative with respect to the angle.
pub(crate) fn about_x(angle: f64) -> (Matrix, Matrix) {
    let (s, c) = angle.sin_cos();
    let (mut r, mut r_tan) = (IDENTITY, [[0.0; 4]; 4]);
    (r[1][1], r[1][2], r[2][1], r[2][2]) = (c, -s, s, c);
    (r_tan[1][1], r_tan[1][2], r_tan[2][1], r_tan[2][2]) = (-s, -c, c, -s);
    (r, r_tan)
}

/// The rotation about the third axis and its derivative with respect to the angle.
pub(crate) fn about_z(angle: f64) -> (Matrix, Matrix) {
    let (s, c) = angle.sin_cos();
    let (mut r, mut r_tan) = (IDENTITY, [[0.0; 4]; 4]);
    (r[0][0], r[0][1], r[1][0], r[1][1]) = (c, -s, s, c);
    (r_tan[0][0], r_tan[0][1], r_tan[1][0], r_tan[1][1]) = (-s, -c, c, -s);
    (r, r_tan)
}

/// The rotation by the norm of a vector about it, and its derivatives with respect to the vector's coordinates.
pub(crate) fn about_axis(v: Vec3) -> ([Vec3; 3], [[Vec3; 3]; 3]) {
    let angle = (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
    let n = v.map(|x| x / angle);
    let (s, c) = angle.sin_cos();
    // cos · 1 + (1 - cos) n nᵀ + sin · [n]×
    let rotation = |n: Vec3, s: f64, c: f64, versine: f64| -> [Vec3; 3] {
        let skew = [[0.0, -n[2], n[1]], [n[2], 0.0, -n[0]], [-n[1], n[0], 0.0]];
        std::array::from_fn(|i| {
            std::array::from_fn(|j| if i == j { c } else { 0.0 } + versine * n[i] * n[j] + s * skew[i][j])
        })
    };
    let derivative = |k: usize| -> [Vec3; 3] {
        let n_tan: Vec3 = std::array::from_fn(|i| (if i == k { 1.0 } else { 0.0 } - n[i] * n[k]) / angle);
        // By the angle, whose derivative is n[k], and by the axis.
        let by_angle = rotation(n, c, -s, s);
        let skew_tan = [[0.0, -n_tan[2], n_tan[1]], [n_tan[2], 0.0, -n_tan[0]], [-n_tan[1], n_tan[0], 0.0]];
        std::array::from_fn(|i| {
            std::array::from_fn(|j| {
                by_angle[i][j] * n[k] + (1.0 - c) * (n_tan[i] * n[j] + n[i] * n_tan[j]) + s * skew_tan[i][j]
            })
        })
    };
    (rotation(n, s, c, 1.0 - c), std::array::from_fn(derivative))
}
