//! `det` by hand: columns that are left are bits of a number. The derivative is a reverse sweep over the same
//! recursion, for which the determinants of the minors are kept.

use super::{Dice, HandWritten, Output};
use serde_json::{Value as Json, json};

pub(crate) struct Det {
    /// Row after row.
    a: Vec<f64>,
    ell: usize,
}

/// Bits that are set, the lowest first, with the signs of the columns that they stand for.
fn signed(columns: u32) -> impl DoubleEndedIterator<Item = (usize, f64)> {
    let count = columns.count_ones() as usize;
    let mut left = columns;
    let mut bits = [0; 32];
    for bit in &mut bits[..count] {
        *bit = left.trailing_zeros() as usize;
        left &= left - 1;
    }
    (0..count).map(move |n| (bits[n], if n % 2 == 0 { 1.0 } else { -1.0 }))
}

impl Det {
    pub(crate) fn new(ell: usize) -> Det {
        Det { a: Dice::new(31_337).vector(ell * ell), ell }
    }

    fn all_columns(&self) -> u32 {
        (1 << self.ell) - 1
    }

    /// The determinant of the rows from `row` on and of these columns.
    fn minor(&self, row: usize, columns: u32) -> f64 {
        if row == self.ell - 1 {
            return self.a[row * self.ell + columns.trailing_zeros() as usize];
        }
        let (mut det, mut sign, mut left) = (0.0, 1.0, columns);
        while left != 0 {
            let column = left.trailing_zeros() as usize;
            left &= left - 1;
            det += sign * self.a[row * self.ell + column] * self.minor(row + 1, columns & !(1 << column));
            sign = -sign;
        }
        det
    }

    /// The same; the minors' determinants are kept in the order in which they are known.
    fn kept_minor(&self, row: usize, columns: u32, kept: &mut Vec<f64>) -> f64 {
        if row == self.ell - 1 {
            return self.a[row * self.ell + columns.trailing_zeros() as usize];
        }
        let (mut det, mut sign, mut left) = (0.0, 1.0, columns);
        while left != 0 {
            let column = left.trailing_zeros() as usize;
            left &= left - 1;
            let minor = self.kept_minor(row + 1, columns & !(1 << column), kept);
            kept.push(minor);
            det += sign * self.a[row * self.ell + column] * minor;
            sign = -sign;
        }
        det
    }

    /// Adds what a minor with this adjoint contributes to the derivative.
    fn sweep(&self, row: usize, columns: u32, minor_adj: f64, kept: &mut Vec<f64>, adj: &mut [f64]) {
        if row == self.ell - 1 {
            adj[row * self.ell + columns.trailing_zeros() as usize] += minor_adj;
            return;
        }
        for (column, sign) in signed(columns).rev() {
            let at = row * self.ell + column;
            let minor = kept.pop().expect("every minor has been kept");
            adj[at] += minor_adj * sign * minor;
            self.sweep(row + 1, columns & !(1 << column), minor_adj * sign * self.a[at], kept, adj);
        }
    }
}

impl HandWritten for Det {
    fn input(&self) -> Json {
        json!({ "A": self.a, "ell": self.ell })
    }

    /// For each column of a minor two products, a sum and a change of sign.
    fn ops(&self) -> u64 {
        (2..=self.ell as u64).fold(0, |ops, size| size * (ops + 4))
    }

    fn primal(&self) -> Output {
        Output::One(self.minor(0, self.all_columns()))
    }

    fn derivative(&self) -> Output {
        let (mut kept, mut adj) = (Vec::new(), vec![0.0; self.a.len()]);
        self.kept_minor(0, self.all_columns(), &mut kept);
        self.sweep(0, self.all_columns(), 1.0, &mut kept, &mut adj);
        Output::Many(adj)
    }
}
