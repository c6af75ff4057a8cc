//! Graphs as pictures. What follows each other stands from left to right, what is side by side from top to bottom: as
//! sequences and forks contain each other as a tree does, sizes are added up from the leaves, and places are given out
//! from the root.

use super::{Labelled, Outline, Part};
use std::fmt::Write;

/// Sizes in pixels: of letters and lines, of margins, of the marks of forks and joins, and of what is between.
const LETTER: f64 = 6.6;
const LINE: f64 = 15.0;
const MARGIN: f64 = 8.0;
const MARK: f64 = 14.0;
const GAP: f64 = 22.0;
const SPREAD: f64 = 36.0;
const ROW_GAP: f64 = 10.0;
/// What a box grows by when its records double.
const DOUBLING: f64 = 4.0;
/// The height of the title.
const HEAD: f64 = 34.0;

/// Boxes bring their own ground, so that their text can be read on any page; lines and the title are of a grey that is
/// far enough from black and from white.
const STYLE: &str = "\
text{font:12px sans-serif;fill:#1c1c1c;text-anchor:middle}.head{fill:#808080;text-anchor:start;font-size:13px}\
.job{fill:#dbe9fb;stroke:#3b6fb6}.folded{fill:#f3ead2;stroke:#a07a1f;stroke-dasharray:4 3}.mark{fill:#3b8a5a}\
.edge{fill:none;stroke:#808080;stroke-width:1.5}";

/// The graph as an SVG file.
pub(crate) fn draw(outline: &Outline, title: &str) -> String {
    let blocks = measured(&outline.parts);
    let (width, height) = (row_width(&blocks), row_height(&blocks));
    let mut svg = Svg(String::new());
    svg.row(&blocks, MARGIN, HEAD + height / 2.0);
    let width = width.max(7.5 * title.chars().count() as f64) + 2.0 * MARGIN;
    let height = HEAD + height + MARGIN;
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <text class=\"head\" x=\"{MARGIN}\" y=\"20\">{title}</text>\n{}</svg>\n",
        svg.0
    )
}

/// A part and the room that it takes.
struct Block<'a> {
    width: f64,
    height: f64,
    content: Content<'a>,
}

enum Content<'a> {
    Box(&'a Labelled),
    Fork(Vec<Vec<Block<'a>>>),
}

fn measured(parts: &[Part]) -> Vec<Block<'_>> {
    parts.iter().map(block).collect()
}

fn block(part: &Part) -> Block<'_> {
    match part {
        Part::Box(labelled) => {
            let letters = labelled.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            Block {
                width: letters as f64 * LETTER + 2.0 * MARGIN,
                height: labelled.lines.len() as f64 * LINE + MARGIN + DOUBLING * labelled.size(),
                content: Content::Box(labelled),
            }
        }
        Part::Fork(branches) => {
            let rows: Vec<Vec<Block<'_>>> = branches.iter().map(|branch| measured(branch)).collect();
            let between = ROW_GAP * rows.len().saturating_sub(1) as f64;
            Block {
                width: rows.iter().map(|row| row_width(row)).fold(0.0, f64::max) + 2.0 * (MARK + SPREAD),
                height: rows.iter().map(|row| row_height(row)).fold(between, |sum, height| sum + height).max(MARK),
                content: Content::Fork(rows),
            }
        }
    }
}

fn row_width(row: &[Block<'_>]) -> f64 {
    row.iter().map(|block| block.width).sum::<f64>() + GAP * row.len().saturating_sub(1) as f64
}

fn row_height(row: &[Block<'_>]) -> f64 {
    row.iter().map(|block| block.height).fold(0.0, f64::max)
}

struct Svg(String);

impl Svg {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{element}").expect("strings can be written to");
    }

    /// Draws blocks from `x` on, on both sides of a line at `y`.
    fn row(&mut self, blocks: &[Block<'_>], mut x: f64, y: f64) {
        for (n, block) in blocks.iter().enumerate() {
            if n > 0 {
                self.edge((x, y), (x + GAP, y));
                x += GAP;
            }
            match &block.content {
                Content::Box(labelled) => self.labelled(labelled, block, x, y),
                Content::Fork(rows) => self.fork(rows, block, x, y),
            }
            x += block.width;
        }
    }

    fn labelled(&mut self, labelled: &Labelled, &Block { width, height, .. }: &Block<'_>, x: f64, y: f64) {
        let class = if labelled.folded { "folded" } else { "job" };
        let top = y - height / 2.0;
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\"/>"
        ));
        let middle = x + width / 2.0;
        // The base line of the first line of text.
        let first = y - LINE * (labelled.lines.len() as f64 / 2.0 - 0.75);
        for (n, line) in labelled.lines.iter().enumerate() {
            let base = first + LINE * n as f64;
            self.add(format_args!("<text x=\"{middle:.1}\" y=\"{base:.1}\">{}</text>", escaped(line)));
        }
    }

    fn fork(&mut self, rows: &[Vec<Block<'_>>], &Block { width, height, .. }: &Block<'_>, x: f64, y: f64) {
        let (fork, join) = ((x + MARK, y), (x + width - MARK, y));
        if rows.is_empty() {
            self.edge(fork, join);
        }
        let mut top = y - height / 2.0;
        for row in rows {
            let middle = top + row_height(row) / 2.0;
            let start = x + MARK + SPREAD;
            self.edge(fork, (start, middle));
            self.row(row, start, middle);
            self.edge((start + row_width(row), middle), join);
            top += row_height(row) + ROW_GAP;
        }
        self.mark(x, y);
        self.mark(join.0, y);
    }

    /// A diamond whose left corner is here.
    fn mark(&mut self, x: f64, y: f64) {
        let half = MARK / 2.0;
        self.add(format_args!(
            "<path class=\"mark\" d=\"M{x:.1} {y:.1}l{half} -{half} {half} {half} -{half} {half}z\"/>"
        ));
    }

    fn edge(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64)) {
        // It leaves and arrives horizontally, with the bend where the tasks start or end together.
        let bend = (to_x - x).min(SPREAD);
        let (near, far) = if to_x - x > SPREAD { (to_x - bend, to_x - bend) } else { (x, x) };
        let middle = near + bend / 2.0;
        self.add(format_args!(
            "<path class=\"edge\" d=\"M{x:.1} {y:.1}H{far:.1}C{middle:.1} {y:.1} {middle:.1} {to_y:.1} {to_x:.1} {to_y:.1}\"/>"
        ));
    }
}

/// The text in XML; what XML doesn't allow doesn't come up in names.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
