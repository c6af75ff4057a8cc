//! `kmeans` by hand.

use super::{Dice, HandWritten, Output};
use serde_json::{Value as Json, json};

pub(crate) struct KMeans {
    points: Vec<Vec<f64>>,
    centroids: Vec<Vec<f64>>,
}

fn euclid_dist_2(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

impl KMeans {
    pub(crate) fn new(k: usize, n: usize, d: usize) -> KMeans {
        let mut dice = Dice::new(31_337);
        KMeans { points: dice.matrix(n, d), centroids: dice.matrix(k, d) }
    }

    /// The number of the centroid nearest to a point, and the squared distance.
    fn closest(&self, point: &[f64]) -> (usize, f64) {
        let mut closest = (0, f64::INFINITY);
        for (n, centroid) in self.centroids.iter().enumerate() {
            let distance = euclid_dist_2(point, centroid);
            if distance < closest.1 {
                closest = (n, distance);
            }
        }
        closest
    }
}

impl HandWritten for KMeans {
    fn input(&self) -> Json {
        json!({ "points": self.points, "centroids": self.centroids })
    }

    /// For each point and centroid a difference, a power and a sum per dimension, and a minimum but for the first; for
    /// each point a sum.
    fn ops(&self) -> u64 {
        (self.points.len() * self.centroids.len() * (3 * self.points[0].len() + 1)) as u64
    }

    fn primal(&self) -> Output {
        Output::One(self.points.iter().map(|point| self.closest(point).1).sum())
    }

    fn derivative(&self) -> Output {
        let d = self.points[0].len();
        let mut adj = vec![0.0; self.centroids.len() * d];
        for point in &self.points {
            let (n, _) = self.closest(point);
            for i in 0..d {
                adj[n * d + i] -= 2.0 * (point[i] - self.centroids[n][i]);
            }
        }
        Output::Many(adj)
    }
}
