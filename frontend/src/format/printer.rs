//! Lays out a document in lines. Takes time in proportion to its length: whether a group fits is known after a line's
//! width of it at the latest.

use super::document::{Break, Command, Comment, Document, When};
use crate::limits::Meter;
use crate::source::Span;

/// Lines are not longer than this, where there is a choice.
pub(super) const LINE_WIDTH: usize = 120;
/// Lines begin in no later column, so that what nests deeply doesn't make a text much longer.
const INDENT_MAX: usize = 80;

/// White space that is to come before the next text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Pending {
    Nothing,
    Space,
    Line,
    BlankLine,
}

/// The text of a document, whose groups know whether they can be flat.
pub(super) fn print(source: &str, document: &Document, meter: &Meter) -> String {
    let mut printer = Printer {
        source,
        commands: &document.commands,
        meter,
        out: String::with_capacity(source.len()),
        column: 0,
        indents: Vec::new(),
        flat: Vec::new(),
        pending: Pending::Nothing,
        inner: Vec::new(),
    };
    printer.run();
    printer.out
}

struct Printer<'d> {
    source: &'d str,
    commands: &'d [Command],
    meter: &'d Meter,
    out: String,
    /// Where the next character goes, without the white space that is pending.
    column: usize,
    /// Where lines begin, the innermost last.
    indents: Vec<usize>,
    /// Whether each open group is flat.
    flat: Vec<bool>,
    pending: Pending,
    /// For [`Printer::fits`], the groups that begin after the place in question.
    inner: Vec<bool>,
}

impl Printer<'_> {
    fn run(&mut self) {
        for at in 0..self.commands.len() {
            if !self.meter.steps(1) {
                return;
            }
            match self.commands[at] {
                Command::Text(span) => self.text(span),
                Command::Comment(comment) => self.comment(comment.span),
                Command::Open { is_broken } => {
                    let is_flat = self.is_flat() || !is_broken && self.fits(at + 1, Some(true));
                    self.flat.push(is_flat);
                }
                Command::Close => _ = self.flat.pop(),
                Command::Indent(by) => self.indents.push((self.indent() + usize::from(by)).min(INDENT_MAX)),
                Command::Align => self.indents.push(self.next_column().min(INDENT_MAX)),
                Command::Dedent => _ = self.indents.pop(),
                Command::Space => self.wait(Pending::Space),
                Command::Break(Break { when, is_blank }) => {
                    self.wait(Pending::Space);
                    let ends_line = match when {
                        When::Always => true,
                        When::Group => !self.is_flat(),
                        When::Full => !self.is_flat() && !self.fits(at + 1, None),
                    };
                    if ends_line {
                        self.wait(if is_blank { Pending::BlankLine } else { Pending::Line });
                    }
                }
            }
        }
    }

    fn is_flat(&self) -> bool {
        self.flat.last().copied().unwrap_or(false)
    }

    fn indent(&self) -> usize {
        self.indents.last().copied().unwrap_or(0)
    }

    fn wait(&mut self, pending: Pending) {
        self.pending = self.pending.max(pending);
    }

    /// Where the next text will begin.
    fn next_column(&self) -> usize {
        match self.pending {
            Pending::Nothing => self.column,
            Pending::Space => self.column + 1,
            Pending::Line | Pending::BlankLine => self.indent(),
        }
    }

    fn before_text(&mut self) {
        let column = self.next_column();
        match self.pending {
            // Nothing comes before the first line.
            _ if self.out.is_empty() => {
                self.column = 0;
                self.pending = Pending::Nothing;
                return;
            }
            Pending::Nothing => {}
            Pending::Space => self.out.push(' '),
            Pending::Line | Pending::BlankLine => {
                self.out.push_str(if self.pending == Pending::Line { "\n" } else { "\n\n" });
                self.out.extend(std::iter::repeat_n(' ', column));
            }
        }
        self.column = column;
        self.pending = Pending::Nothing;
    }

    fn text(&mut self, span: Span) {
        self.before_text();
        let text = slice(self.source, span);
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    /// Writes a comment as it is, without white space at the ends of its lines.
    fn comment(&mut self, span: Span) {
        self.before_text();
        for (number, line) in slice(self.source, span).split('\n').enumerate() {
            let line = line.trim_end();
            if number > 0 {
                self.out.push('\n');
                self.column = 0;
            }
            self.out.push_str(line);
            self.column += line.chars().count();
            self.meter.steps(1);
        }
    }

    /// Whether what comes from a command on fits into the rest of the line: in a flat group that begins there, or, if
    /// there is none, up to the next break in the group that is open; and then up to the first break that may end the
    /// line.
    fn fits(&mut self, from: usize, group: Option<bool>) -> bool {
        self.inner.clear();
        self.inner.extend(group);
        // Behind what is to fit, any group may end the line.
        let mut is_behind = false;
        // How many of the groups around it are still open.
        let mut outer = self.flat.len();
        let mut space = self.pending == Pending::Space;
        let mut column = if space { self.column } else { self.next_column() };
        let mut has_text = false;
        for (count, command) in self.commands[from..].iter().enumerate() {
            if count % 64 == 63 {
                self.meter.steps(1);
            }
            let is_flat = || match self.inner.last() {
                Some(&flat) => flat,
                None => outer > 0 && self.flat[outer - 1],
            };
            match *command {
                Command::Comment(Comment { span, ends_line, has_lines }) if ends_line || has_lines => {
                    if has_text {
                        return true;
                    }
                    // A comment before all texts: they begin on a line after it, or on its last one.
                    let last_line = slice(self.source, span).rsplit('\n').next().unwrap_or_default();
                    column = if ends_line { self.indent() } else { last_line.chars().take(LINE_WIDTH + 1).count() };
                    space = !ends_line;
                }
                Command::Text(span) | Command::Comment(Comment { span, .. }) => {
                    has_text |= matches!(command, Command::Text(_));
                    let width = slice(self.source, span).chars().take(LINE_WIDTH + 1).count();
                    column += usize::from(std::mem::take(&mut space)) + width;
                    if column > LINE_WIDTH {
                        return false;
                    }
                }
                Command::Open { is_broken } => {
                    let flat = is_flat() || !is_broken && !is_behind;
                    self.inner.push(flat);
                }
                Command::Close => {
                    if self.inner.pop().is_none() {
                        outer = outer.saturating_sub(1);
                        is_behind = true;
                    }
                    is_behind |= group.is_some() && self.inner.is_empty();
                }
                Command::Indent(_) | Command::Align | Command::Dedent => {}
                Command::Space => space = true,
                Command::Break(Break { when, .. }) => match when {
                    When::Always if has_text => return true,
                    When::Always => space = false,
                    When::Group | When::Full if !is_flat() => return true,
                    When::Group | When::Full => space = true,
                },
            }
        }
        true
    }
}

fn slice(source: &str, span: Span) -> &str {
    source.get(span.start as usize..span.end as usize).unwrap_or_default()
}
