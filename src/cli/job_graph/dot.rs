//! Graphs as text for Graphviz.

use super::{Outline, Part};
use std::fmt::Write;

/// The graph in Graphviz's language.
pub(crate) fn draw(outline: &Outline, title: &str) -> String {
    let mut dot = Dot { text: String::new(), nodes: 0 };
    dot.text += "digraph jobs {\n  rankdir=LR;\n  bgcolor=transparent;\n";
    dot.text += &format!("  label=\"{}\";\n  labelloc=t;\n  fontcolor=\"#808080\";\n", escaped(title));
    dot.text += "  node [shape=box, fontname=sans, fontsize=10, style=filled, fillcolor=\"#dbe9fb\"];\n";
    dot.text += "  edge [color=\"#808080\", arrowsize=0.6];\n";
    dot.sequence(&outline.parts);
    dot.text += "}\n";
    dot.text
}

struct Dot {
    text: String,
    nodes: usize,
}

impl Dot {
    /// A node of its own number.
    fn node(&mut self, attributes: &str) -> usize {
        let number = self.nodes;
        self.nodes += 1;
        self.line(format_args!("n{number} [{attributes}];"));
        number
    }

    fn edge(&mut self, from: usize, to: usize) {
        self.line(format_args!("n{from} -> n{to};"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "  {line}").expect("strings can be written to");
    }

    /// The first node and the last one.
    fn part(&mut self, part: &Part) -> (usize, usize) {
        match part {
            Part::Box(labelled) => {
                let lines: Vec<String> = labelled.lines.iter().map(|line| escaped(line)).collect();
                let height = 0.5 + 0.06 * labelled.size();
                let style = if labelled.folded { ", style=\"filled,dashed\", fillcolor=\"#f3ead2\"" } else { "" };
                let node = self.node(&format!("label=\"{}\", height={height:.2}{style}", lines.join("\\n")));
                (node, node)
            }
            Part::Fork(branches) => {
                const POINT: &str =
                    "label=\"\", shape=diamond, width=0.2, height=0.2, fixedsize=true, fillcolor=\"#3b8a5a\"";
                let (fork, join) = (self.node(POINT), self.node(POINT));
                if branches.is_empty() {
                    self.edge(fork, join);
                }
                for branch in branches {
                    if let Some((first, last)) = self.sequence(branch) {
                        self.edge(fork, first);
                        self.edge(last, join);
                    }
                }
                (fork, join)
            }
        }
    }

    /// The first node and the last one, if there is any.
    fn sequence(&mut self, parts: &[Part]) -> Option<(usize, usize)> {
        let mut ends: Option<(usize, usize)> = None;
        for part in parts {
            let (first, last) = self.part(part);
            if let Some((_, before)) = ends {
                self.edge(before, first);
            }
            ends = Some((ends.map_or(first, |(start, _)| start), last));
        }
        ends
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
