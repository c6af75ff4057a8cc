//! Where a matrix has entries that may be other than zero.

use std::fmt;

/// The sparsity pattern of a matrix: the positions at which entries may be other than zero. All others are zero.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    columns: usize,
    /// Where each row begins in the list below, and where the last one ends.
    starts: Vec<usize>,
    /// The columns of the entries, row by row, in order.
    indices: Vec<u32>,
}

impl Pattern {
    /// The pattern with these entries, as pairs of row and column, in any order; what is named twice is there once.
    ///
    /// ```
    /// use dualvm_vm::sparse::Pattern;
    /// let pattern = Pattern::from_entries(2, 3, [(1, 2), (0, 1), (1, 0)]);
    /// assert_eq!(pattern.row(1), [0, 2]);
    /// ```
    ///
    /// # Panics
    /// If an entry is outside of the matrix, or if there are 2³² rows, columns or entries.
    pub fn from_entries(rows: usize, columns: usize, entries: impl IntoIterator<Item = (usize, usize)>) -> Self {
        assert!(rows.max(columns) < 1 << 32, "a pattern has fewer than 2^32 rows and columns");
        let mut by_row = vec![Vec::new(); rows];
        for (row, column) in entries {
            assert!(row < rows && column < columns, "entry ({row}, {column}) of a {rows} × {columns} matrix");
            by_row[row].push(column as u32);
        }
        Pattern::from_rows(columns, by_row)
    }

    /// The pattern with these columns in each row, in any order.
    pub(crate) fn from_rows(columns: usize, rows: impl IntoIterator<Item = Vec<u32>>) -> Self {
        let (mut starts, mut indices) = (vec![0], Vec::new());
        for mut row in rows {
            row.sort_unstable();
            row.dedup();
            indices.append(&mut row);
            starts.push(indices.len());
        }
        assert!(indices.len() < 1 << 32, "a pattern has fewer than 2^32 entries");
        Pattern { columns, starts, indices }
    }

    /// How many rows the matrix has.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many columns the matrix has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether all of the matrix is zero.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The columns of the entries of a row, in order.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.indices[self.starts[row]..self.starts[row + 1]]
    }

    /// Where rows begin in [`Pattern::indices`], and where the last one ends: with it, the arrays of compressed sparse
    /// rows.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The columns of all entries, row by row.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// All entries as pairs of row and column, row by row.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.rows()).flat_map(|row| self.row(row).iter().map(move |&column| (row, column as usize)))
    }

    /// The entries of both patterns: that of a function at two points, for example.
    ///
    /// # Panics
    /// If they aren't of the same size.
    pub fn union(&self, other: &Pattern) -> Pattern {
        assert_eq!((self.rows(), self.columns), (other.rows(), other.columns), "patterns of matrices of one size");
        Pattern::from_rows(self.columns, (0..self.rows()).map(|row| [self.row(row), other.row(row)].concat()))
    }

    /// The pattern of the transposed matrix.
    pub fn transposed(&self) -> Pattern {
        self.transposed_with_places().0
    }

    /// The pattern of the transposed matrix, and for each entry of it its place among the entries of this one.
    pub(crate) fn transposed_with_places(&self) -> (Pattern, Vec<usize>) {
        let mut starts = vec![0; self.columns + 1];
        self.indices.iter().for_each(|&column| starts[column as usize + 1] += 1);
        for column in 0..self.columns {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let (mut indices, mut places) = (vec![0; self.len()], vec![0; self.len()]);
        for (place, (row, column)) in self.entries().enumerate() {
            let to = &mut next[column];
            (indices[*to], places[*to]) = (row as u32, place);
            *to += 1;
        }
        (Pattern { columns: self.rows(), starts, indices }, places)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({} × {}, {} entries)", self.rows(), self.columns, self.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_row_by_row() {
        let pattern = Pattern::from_entries(3, 4, [(2, 3), (0, 1), (2, 0), (0, 1)]);
        assert_eq!(pattern.entries().collect::<Vec<_>>(), [(0, 1), (2, 0), (2, 3)]);
        assert_eq!((pattern.starts(), pattern.indices(), pattern.len()), (&[0, 1, 1, 3][..], &[1, 0, 3][..], 3));
        let (transposed, places) = pattern.transposed_with_places();
        assert_eq!(transposed.entries().collect::<Vec<_>>(), [(0, 2), (1, 0), (3, 2)]);
        assert_eq!(places, [1, 0, 2]);
        assert_eq!(transposed.transposed(), pattern);
        assert_eq!(pattern.union(&Pattern::from_entries(3, 4, [(1, 1), (0, 1)])).len(), 4);
        assert!(Pattern::from_entries(0, 0, []).is_empty());
    }
}
