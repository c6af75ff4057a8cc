//! `ba` by hand: the projection, and its adjoint for either coordinate, which is a row of the Jacobian.

use super::{HandWritten, Output};
use serde_json::{Value as Json, json};

type Vec3 = [f64; 3];

/// Axis times angle, centre, focal length, principal point, radial distortion.
type Camera = [f64; 11];

/// Reals that an error depends on: camera, point and weight.
const COLUMNS: usize = 15;

pub(crate) struct Ba {
    cams: Vec<Camera>,
    x: Vec<Vec3>,
    w: Vec<f64>,
    /// Camera and point of each observation.
    obs: Vec<(usize, usize)>,
    feats: Vec<[f64; 2]>,
}

fn dot3(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross([a, b, c]: Vec3, [d, e, f]: Vec3) -> Vec3 {
    [b * f - c * e, c * d - a * f, a * e - b * d]
}

fn scale(k: f64, v: Vec3) -> Vec3 {
    v.map(|x| k * x)
}

fn add(a: Vec3, b: Vec3) -> Vec3 {
    std::array::from_fn(|i| a[i] + b[i])
}

fn sub(a: Vec3, b: Vec3) -> Vec3 {
    std::array::from_fn(|i| a[i] - b[i])
}

fn rotate(rot: Vec3, x: Vec3) -> Vec3 {
    let sqtheta = dot3(rot, rot);
    if sqtheta == 0.0 {
        return add(x, cross(rot, x));
    }
    let theta = sqtheta.sqrt();
    let (sin, cos) = theta.sin_cos();
    let axis = scale(1.0 / theta, rot);
    let (across, along) = (cross(axis, x), dot3(axis, x) * (1.0 - cos));
    std::array::from_fn(|i| x[i] * cos + across[i] * sin + axis[i] * along)
}

/// The adjoints of the rotation and of the point.
fn rotate_pullback(rot: Vec3, x: Vec3, adj: Vec3) -> (Vec3, Vec3) {
    let sqtheta = dot3(rot, rot);
    if sqtheta == 0.0 {
        return (cross(x, adj), add(adj, cross(adj, rot)));
    }
    let theta = sqtheta.sqrt();
    let (sin, cos) = theta.sin_cos();
    let axis = scale(1.0 / theta, rot);
    let (along, along_adj) = (dot3(axis, x), dot3(axis, adj));
    let x_adj = add(add(scale(cos, adj), scale(sin, cross(adj, axis))), scale(along_adj * (1.0 - cos), axis));
    let turned = scale(sin, cross(x, adj));
    let axis_adj = add(turned, scale(1.0 - cos, add(scale(along, adj), scale(along_adj, x))));
    let cos_adj = dot3(x, adj) - along * along_adj;
    let theta_adj = cos * dot3(cross(axis, x), adj) - sin * cos_adj;
    let across = sub(axis_adj, scale(dot3(axis, axis_adj), axis));
    (add(scale(1.0 / theta, across), scale(theta_adj, axis)), x_adj)
}

/// What lies between camera and point and the error of an observation.
struct Projection {
    /// Relative to the camera's centre, and turned.
    centered: Vec3,
    turned: Vec3,
    projected: [f64; 2],
    rsq: f64,
    distortion: f64,
    /// The error without its weight.
    difference: [f64; 2],
}

fn project(cam: &Camera, x: Vec3, feat: [f64; 2]) -> Projection {
    let &[r1, r2, r3, c1, c2, c3, f, u, v, k1, k2] = cam;
    let centered = sub(x, [c1, c2, c3]);
    let turned = rotate([r1, r2, r3], centered);
    let projected = [turned[0] / turned[2], turned[1] / turned[2]];
    let rsq = projected[0] * projected[0] + projected[1] * projected[1];
    let distortion = 1.0 + k1 * rsq + k2 * rsq * rsq;
    let image = [projected[0] * distortion * f + u, projected[1] * distortion * f + v];
    Projection { centered, turned, projected, rsq, distortion, difference: [image[0] - feat[0], image[1] - feat[1]] }
}

/// The gradient of one coordinate of an error: with respect to camera, point and weight.
fn row(cam: &Camera, w: f64, seen: &Projection, coordinate: usize) -> [f64; COLUMNS] {
    let &[r1, r2, r3, _, _, _, f, _, _, k1, k2] = cam;
    let Projection { centered, turned, projected, rsq, distortion, difference } = seen;
    let mut image_adj = [0.0; 2];
    image_adj[coordinate] = w;
    let f_adj = projected[coordinate] * distortion * w;
    let distortion_adj = projected[coordinate] * f * w;
    let rsq_adj = (k1 + 2.0 * k2 * rsq) * distortion_adj;
    let projected_adj = [0, 1].map(|i| distortion * f * image_adj[i] + 2.0 * projected[i] * rsq_adj);
    let along = projected_adj[0] * projected[0] + projected_adj[1] * projected[1];
    let turned_adj = [projected_adj[0] / turned[2], projected_adj[1] / turned[2], -along / turned[2]];
    let (rot_adj, x_adj) = rotate_pullback([r1, r2, r3], *centered, turned_adj);
    let mut row = [0.0; COLUMNS];
    row[..3].copy_from_slice(&rot_adj);
    row[3..6].copy_from_slice(&scale(-1.0, x_adj));
    row[6] = f_adj;
    row[7..9].copy_from_slice(&image_adj);
    row[9] = rsq * distortion_adj;
    row[10] = rsq * rsq * distortion_adj;
    row[11..14].copy_from_slice(&x_adj);
    row[14] = difference[coordinate];
    row
}

impl Ba {
    /// The same camera, point and feature again and again, as the suite has it: those of its smallest problem, rounded.
    pub(crate) fn new(n: usize, m: usize, p: usize) -> Ba {
        let cam = [-0.76, -1.11, -0.85, 34.6, 39.7, 53.9, 419.0, 5.86, -8.52, 0.088, 0.0027];
        let obs = (0..p).map(|i| (i % n, i % m)).collect();
        Ba {
            cams: vec![cam; n],
            x: vec![[7.2, 0.0011, 3.02]; m],
            w: vec![0.417; p],
            obs,
            feats: vec![[272.0, 834.0]; p],
        }
    }

    fn observations(&self) -> impl Iterator<Item = (&Camera, Vec3, f64, [f64; 2])> {
        let parts = self.obs.iter().zip(&self.w).zip(&self.feats);
        parts.map(|((&(cam, point), &w), &feat)| (&self.cams[cam], self.x[point], w, feat))
    }
}

impl HandWritten for Ba {
    fn input(&self) -> Json {
        json!({
            "n": self.cams.len(),
            "m": self.x.len(),
            "p": self.obs.len(),
            "cam": self.cams[0],
            "x": self.x[0],
            "w": self.w[0],
            "feat": self.feats[0],
        })
    }

    /// For each observation 46 for the rotation about the centre, 16 for the projection, four for the error and two for
    /// that of the weight.
    fn ops(&self) -> u64 {
        68 * self.obs.len() as u64
    }

    fn primal(&self) -> Output {
        let mut errors = Vec::with_capacity(3 * self.obs.len());
        for (cam, x, w, feat) in self.observations() {
            errors.extend(project(cam, x, feat).difference.map(|difference| w * difference));
        }
        errors.extend(self.w.iter().map(|w| 1.0 - w * w));
        Output::Many(errors)
    }

    /// Beginnings of rows, columns and values of a sparse matrix, of which the values are given.
    fn derivative(&self) -> Output {
        let p = self.obs.len();
        let (first_point, first_weight) = (11 * self.cams.len(), 11 * self.cams.len() + 3 * self.x.len());
        let (mut rows, mut cols) = (Vec::with_capacity(3 * p + 1), Vec::with_capacity(31 * p));
        let mut vals = Vec::with_capacity(31 * p);
        rows.push(0);
        for (i, (cam, x, w, feat)) in self.observations().enumerate() {
            let seen = project(cam, x, feat);
            let (cam_at, point_at) = self.obs[i];
            for coordinate in 0..2 {
                cols.extend(11 * cam_at..11 * (cam_at + 1));
                cols.extend(first_point + 3 * point_at..first_point + 3 * (point_at + 1));
                cols.push(first_weight + i);
                vals.extend(row(cam, w, &seen, coordinate));
                rows.push(vals.len());
            }
        }
        for (i, w) in self.w.iter().enumerate() {
            cols.push(first_weight + i);
            vals.push(-2.0 * w);
            rows.push(vals.len());
        }
        std::hint::black_box((rows, cols));
        Output::Many(vals)
    }

    /// The first and the last of equal ones.
    fn shown(&self, all: Vec<f64>) -> Vec<f64> {
        let first = if all.len() == 3 * self.obs.len() { 2 } else { 2 * COLUMNS };
        all.iter().take(first).chain(all.last()).copied().collect()
    }
}
