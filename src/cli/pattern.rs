//! A sparsity pattern as a picture: a matrix of dots, or of shaded squares if it is large.

use super::failure::{Failure, Outcome};
use super::output;
use dualvm::Pattern;
use std::fmt::Write;
use std::path::Path;

/// The longer side of the picture, in pixels, and the most squares on it.
const SIDE: f64 = 480.0;
const SQUARES_MAX: usize = 240;
const MARGIN: f64 = 8.0;
/// The height of the title.
const HEAD: f64 = 30.0;
/// Shades from few entries to all.
const SHADES: usize = 4;

/// The ground is the picture's own, so that it can be read on any page; the title is of a grey that is far enough from
/// black and from white.
const STYLE: &str = "\
text{font:13px sans-serif;fill:#808080}.ground{fill:#fff;stroke:#808080}\
.s0{fill:#b9cff0}.s1{fill:#86aee6}.s2{fill:#4d86d3}.s3{fill:#1f4f96}";

/// Draws the pattern to a file that ends in .svg.
pub(crate) fn draw(path: &Path, pattern: &Pattern, title: &str) -> Outcome {
    if path.extension().and_then(|extension| extension.to_str()) != Some("svg") {
        return Err(Failure::bad_input(
            format_args!("expected a file that ends in .svg, found {}", path.display()),
            "--pattern pattern.svg draws the positions of all entries",
        ));
    }
    output::file(path, svg(pattern, title).as_bytes())
}

/// How many entries there are in each square of so many rows and columns.
struct Squares {
    rows: usize,
    columns: usize,
    counts: Vec<usize>,
    /// How many rows, and columns, a square has.
    of: usize,
}

impl Squares {
    fn of(pattern: &Pattern) -> Squares {
        let of = pattern.rows().max(pattern.columns()).div_ceil(SQUARES_MAX).max(1);
        let (rows, columns) = (pattern.rows().div_ceil(of), pattern.columns().div_ceil(of));
        let mut counts = vec![0; rows * columns];
        pattern.entries().for_each(|(row, column)| counts[row / of * columns + column / of] += 1);
        Squares { rows, columns, counts, of }
    }

    /// The shade of a square, if it has entries.
    fn shade(&self, row: usize, column: usize) -> Option<usize> {
        let count = self.counts[row * self.columns + column];
        (count > 0).then(|| ((count * SHADES).div_ceil(self.of * self.of) - 1).min(SHADES - 1))
    }
}

fn svg(pattern: &Pattern, title: &str) -> String {
    let squares = Squares::of(pattern);
    let side = SIDE / squares.rows.max(squares.columns).max(1) as f64;
    let (width, height) = (side * squares.columns as f64, side * squares.rows as f64);
    let title = format!("{title}: {} × {}, {} entries", pattern.rows(), pattern.columns(), pattern.len());
    let title = super::job_graph::svg::escaped(&title);
    let mut shapes = String::new();
    for row in 0..squares.rows {
        let mut column = 0;
        while column < squares.columns {
            let shade = squares.shade(row, column);
            let end = (column + 1..squares.columns).find(|&next| squares.shade(row, next) != shade);
            let end = end.unwrap_or(squares.columns);
            if let Some(shade) = shade {
                let (x, y) = (MARGIN + side * column as f64, HEAD + side * row as f64);
                let width = side * (end - column) as f64;
                _ = writeln!(
                    shapes,
                    "<rect class=\"s{shade}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{side:.2}\"/>"
                );
            }
            column = end;
        }
    }
    let all = (width.max(7.5 * title.chars().count() as f64) + 2.0 * MARGIN, HEAD + height + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0}\" height=\"{1:.0}\" viewBox=\"0 0 {0:.0} {1:.0}\" \
         role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <text x=\"{MARGIN}\" y=\"20\">{title}</text>\n\
         <rect class=\"ground\" x=\"{MARGIN}\" y=\"{HEAD}\" width=\"{width:.2}\" height=\"{height:.2}\"/>\n{shapes}</svg>\n",
        all.0, all.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_patterns_are_drawn_entry_by_entry() {
        let band = Pattern::from_entries(4, 4, (0..4).flat_map(|i| [(i, i), (i, (i + 1).min(3))]));
        let svg = svg(&band, "chain <f>");
        assert!(svg.contains("chain &lt;f&gt;: 4 × 4, 7 entries"), "{svg}");
        // One for each row, as neighbours are drawn together, with the title's style and the ground.
        assert_eq!(svg.matches("class=\"s3\"").count(), 4);
    }

    #[test]
    fn large_patterns_are_shaded() {
        let size = 10 * SQUARES_MAX;
        let diagonal = svg(&Pattern::from_entries(size, size, (0..size).map(|i| (i, i))), "diagonal");
        assert_eq!(
            (diagonal.matches("<rect class=\"s0\"").count(), diagonal.matches("<rect class=\"s3\"").count()),
            (240, 0)
        );
        let empty = svg(&Pattern::from_entries(0, 0, []), "nothing");
        assert!(empty.contains("0 × 0, 0 entries") && empty.ends_with("</svg>\n"));
    }
}
