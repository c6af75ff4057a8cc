//! `ht` by hand: the derivative goes forward, because an angle moves few bones and a hand has few angles.

use super::ht_matrix::{IDENTITY, Matrix, Vec3, about_axis, about_x, about_z, apply, apply3, product};
use super::{Dice, HandWritten, Output};
use serde_json::{Value as Json, json};

const BONES: usize = 22;
const FINGERS: usize = 5;
/// Rotation, translation, four angles for each finger.
const PARAMETERS: usize = 6 + 4 * FINGERS;
const VERTICES: usize = 544;
const TRIANGLES: usize = 1084;

pub(crate) struct Ht {
    theta: [f64; PARAMETERS],
    us: Vec<[f64; 2]>,
    parents: Vec<Option<usize>>,
    base_relatives: Vec<Matrix>,
    inverse_base_absolutes: Vec<Matrix>,
    base_positions: Vec<[f64; 4]>,
    /// For each vertex, how much each bone moves it.
    weights: Vec<Vec<f64>>,
    triangles: Vec<[usize; 3]>,
    correspondences: Vec<usize>,
    points: Vec<Vec3>,
}

/// An angle that moves bones: its finger's number and which of its angles it is.
#[derive(Clone, Copy)]
struct Angle {
    finger: usize,
    number: usize,
}

impl Angle {
    fn all() -> impl Iterator<Item = Angle> {
        (0..4 * FINGERS).map(|n| Angle { finger: n / 4, number: n % 4 })
    }

    /// The bone that it turns: the second of the finger has two angles.
    fn bone(self) -> usize {
        4 * self.finger + [2, 2, 3, 4][self.number]
    }

    /// The bones that it moves.
    fn moved(self) -> std::ops::RangeInclusive<usize> {
        self.bone()..=4 * self.finger + 4
    }
}

impl Ht {
    /// A mesh of random vertices, each moved by some four bones, in the proportions of the suite's.
    pub(crate) fn new(correspondences: usize) -> Ht {
        let mut dice = Dice::new(31_337);
        let movement = |dice: &mut Dice| {
            let mut matrix = product(&about_x(dice.symmetric()).0, &about_z(dice.symmetric()).0);
            (0..3).for_each(|i| matrix[i][3] = 0.1 * dice.symmetric());
            matrix
        };
        let weights = |dice: &mut Dice| {
            let mut weights = vec![0.0; BONES];
            (0..4).for_each(|_| weights[dice.index(BONES)] += 0.25);
            weights
        };
        let parent = |bone: usize| match bone {
            0 => None,
            _ if bone == BONES - 1 || bone % 4 == 1 => Some(0),
            _ => Some(bone - 1),
        };
        let point = |dice: &mut Dice| -> Vec3 { std::array::from_fn(|_| dice.symmetric()) };
        Ht {
            theta: std::array::from_fn(|_| dice.symmetric()),
            us: (0..correspondences).map(|_| [0.5 * dice.uniform(), 0.5 * dice.uniform()]).collect(),
            parents: (0..BONES).map(parent).collect(),
            base_relatives: (0..BONES).map(|_| movement(&mut dice)).collect(),
            inverse_base_absolutes: (0..BONES).map(|_| movement(&mut dice)).collect(),
            base_positions: (0..VERTICES).map(|_| point(&mut dice)).map(|[x, y, z]| [x, y, z, 1.0]).collect(),
            weights: (0..VERTICES).map(|_| weights(&mut dice)).collect(),
            triangles: (0..TRIANGLES).map(|_| std::array::from_fn(|_| dice.index(VERTICES))).collect(),
            correspondences: (0..correspondences).map(|_| dice.index(TRIANGLES)).collect(),
            points: (0..correspondences).map(|_| point(&mut dice)).collect(),
        }
    }

    /// How each bone is turned by its finger's angles.
    fn turns(&self) -> Vec<Matrix> {
        let mut turns = vec![IDENTITY; BONES];
        for angle in Angle::all() {
            let value = self.theta[6 + 4 * angle.finger + angle.number];
            let turn = &mut turns[angle.bone()];
            *turn = if angle.number == 1 { product(&about_z(value).0, turn) } else { about_x(value).0 };
        }
        turns
    }

    fn relatives(&self) -> Vec<Matrix> {
        self.base_relatives.iter().zip(self.turns()).map(|(base, turn)| product(base, &turn)).collect()
    }

    fn absolutes(&self, relatives: &[Matrix]) -> Vec<Matrix> {
        let mut absolutes: Vec<Matrix> = Vec::with_capacity(BONES);
        for (relative, parent) in relatives.iter().zip(&self.parents) {
            absolutes.push(parent.map_or(*relative, |parent| product(&absolutes[parent], relative)));
        }
        absolutes
    }

    /// Where some bones move a vertex that isn't yet moved as a whole.
    fn skinned(&self, vertex: usize, bones: impl Iterator<Item = usize>, transforms: &[Matrix]) -> Vec3 {
        let mut sum = [0.0; 3];
        for bone in bones {
            let position = apply(&transforms[bone], &self.base_positions[vertex]);
            (0..3).for_each(|i| sum[i] += self.weights[vertex][bone] * position[i]);
        }
        sum
    }

    fn all_skinned(&self, absolutes: &[Matrix]) -> Vec<Vec3> {
        let bones = absolutes.iter().zip(&self.inverse_base_absolutes);
        let transforms: Vec<Matrix> = bones.map(|(absolute, inverse)| product(absolute, inverse)).collect();
        (0..VERTICES).map(|vertex| self.skinned(vertex, 0..BONES, &transforms)).collect()
    }

    fn rotation(&self) -> Vec3 {
        [self.theta[0], self.theta[1], self.theta[2]]
    }

    fn moved(&self, rotation: &[Vec3; 3], x: Vec3) -> Vec3 {
        let turned = apply3(rotation, x);
        std::array::from_fn(|i| turned[i] + self.theta[3 + i])
    }

    /// A point of a correspondence's triangle, of any three vectors at its corners.
    fn in_triangle(&self, correspondence: usize, at: impl Fn(usize) -> Vec3) -> Vec3 {
        let [u, v] = self.us[correspondence];
        let [a, b, c] = self.triangles[self.correspondences[correspondence]].map(at);
        std::array::from_fn(|i| u * a[i] + v * b[i] + (1.0 - u - v) * c[i])
    }

    /// How an angle changes the transforms of the bones that it moves; the others are 0.
    fn transforms_tan(&self, angle: Angle, absolutes: &[Matrix], relatives: &[Matrix]) -> Vec<Matrix> {
        let theta = |number: usize| self.theta[6 + 4 * angle.finger + number];
        let turn_tan = match angle.number {
            0 => product(&about_z(theta(1)).0, &about_x(theta(0)).1),
            1 => product(&about_z(theta(1)).1, &about_x(theta(0)).0),
            number => about_x(theta(number)).1,
        };
        let bone = angle.bone();
        let base = product(&absolutes[bone - 1], &self.base_relatives[bone]);
        let mut absolute_tan = product(&base, &turn_tan);
        let mut transforms_tan = vec![[[0.0; 4]; 4]; BONES];
        for moved in angle.moved() {
            if moved > bone {
                absolute_tan = product(&absolute_tan, &relatives[moved]);
            }
            transforms_tan[moved] = product(&absolute_tan, &self.inverse_base_absolutes[moved]);
        }
        transforms_tan
    }
}

impl HandWritten for Ht {
    fn input(&self) -> Json {
        let parents: Vec<i64> = self.parents.iter().map(|parent| parent.map_or(-1, |bone| bone as i64)).collect();
        json!({
            "theta": self.theta,
            "us": self.us,
            "data": {
                "model": {
                    "bone_count": BONES,
                    "parents": parents,
                    "base_relatives": self.base_relatives,
                    "inverse_base_absolutes": self.inverse_base_absolutes,
                    "base_positions": self.base_positions,
                    "weights": self.weights,
                    "triangles": self.triangles,
                    "is_mirrored": false,
                },
                "correspondences": self.correspondences,
                "points": self.points,
            },
        })
    }

    /// For each vertex and bone three products of rows with the position, which is scaled and added; for each vertex a
    /// rotation and a translation; for each correspondence 20. Six products of matrices for each bone.
    fn ops(&self) -> u64 {
        (VERTICES * (30 * BONES + 18) + BONES * 6 * 128 + 20 * self.correspondences.len()) as u64
    }

    fn primal(&self) -> Output {
        let vertices = self.all_skinned(&self.absolutes(&self.relatives()));
        let (rotation, _) = about_axis(self.rotation());
        let vertices: Vec<Vec3> = vertices.into_iter().map(|x| self.moved(&rotation, x)).collect();
        let error = |i: usize| {
            let point = self.in_triangle(i, |vertex| vertices[vertex]);
            std::array::from_fn::<f64, 3, _>(|j| self.points[i][j] - point[j])
        };
        Output::Many((0..self.points.len()).flat_map(error).collect())
    }

    /// Row by row: the two coordinates of the correspondence itself, then theta.
    fn derivative(&self) -> Output {
        let relatives = self.relatives();
        let absolutes = self.absolutes(&relatives);
        let skinned = self.all_skinned(&absolutes);
        let (rotation, rotation_tan) = about_axis(self.rotation());
        let mut columns: Vec<Vec<Vec3>> = Vec::with_capacity(PARAMETERS);
        for rotation_tan in &rotation_tan {
            columns.push(skinned.iter().map(|&x| apply3(rotation_tan, x)).collect());
        }
        for i in 0..3 {
            let unit = std::array::from_fn(|j| if i == j { 1.0 } else { 0.0 });
            columns.push(vec![unit; VERTICES]);
        }
        for angle in Angle::all() {
            let transforms_tan = self.transforms_tan(angle, &absolutes, &relatives);
            let vertex_tan = |vertex| apply3(&rotation, self.skinned(vertex, angle.moved(), &transforms_tan));
            columns.push((0..VERTICES).map(vertex_tan).collect());
        }
        let vertices: Vec<Vec3> = skinned.into_iter().map(|x| self.moved(&rotation, x)).collect();
        let mut jacobian = vec![0.0; 3 * self.points.len() * (2 + PARAMETERS)];
        for (i, rows) in jacobian.chunks_mut(3 * (2 + PARAMETERS)).enumerate() {
            let [a, b, c] = self.triangles[self.correspondences[i]].map(|vertex| vertices[vertex]);
            for (j, row) in rows.chunks_mut(2 + PARAMETERS).enumerate() {
                (row[0], row[1]) = (c[j] - a[j], c[j] - b[j]);
            }
            for (n, column) in columns.iter().enumerate() {
                let point_tan = self.in_triangle(i, |vertex| column[vertex]);
                (0..3).for_each(|j| rows[j * (2 + PARAMETERS) + 2 + n] = -point_tan[j]);
            }
        }
        Output::Many(jacobian)
    }
}
