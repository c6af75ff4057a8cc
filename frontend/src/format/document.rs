//! A text with the places where its lines may end, in the manner of Oppen ("Prettyprinting", 1980): a stream of texts,
//! of breaks, and of the beginnings and ends of groups. As in Wadler's algebra ("A prettier printer", 2003) a group
//! that fits into the rest of the line has all of its breaks flat, as spaces; one that doesn't fit has them as line
//! ends. Three things are added, all for the author's sake: breaks that always end a line, and with them the groups
//! they are in; breaks that each fill the line on their own; and comments, behind which a line ends wherever they are.

use crate::source::Span;

/// A part of the stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// A piece of the source without line ends.
    Text(Span),
    /// A comment.
    Comment(Comment),
    /// A group begins, and whether it can't be flat.
    Open { is_broken: bool },
    /// A group ends.
    Close,
    /// Lines from here on begin further to the right.
    Indent(u8),
    /// Lines from here on begin in the column of what comes next.
    Align,
    /// Undoes the last [`Command::Indent`] or [`Command::Align`].
    Dedent,
    /// White space that doesn't end a line.
    Space,
    /// White space that may end a line.
    Break(Break),
}

/// A comment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Comment {
    pub(super) span: Span,
    /// Whether it ends its line. Then a break follows it, and it isn't counted as a part of the line.
    pub(super) ends_line: bool,
    /// Whether it has several lines of its own.
    pub(super) has_lines: bool,
}

/// White space that may end a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Break {
    pub(super) when: When,
    /// Whether there is an empty line then.
    pub(super) is_blank: bool,
}

/// When a line ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// With the other lines of its group.
    Group,
    /// If what follows, up to the next break, would not fit; never in a group that is flat.
    Full,
    /// Always.
    Always,
}

/// The stream.
#[derive(Default, Debug)]
pub(super) struct Document {
    pub(super) commands: Vec<Command>,
}

impl Document {
    pub(super) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Finds the groups that can't be flat: those that have a line end between two of their texts. Comments before the
    /// first text, each on its line, are no part of a group in this sense.
    pub(super) fn break_groups(&mut self) {
        // The groups that are open, and whether each has had a text.
        let mut open: Vec<(usize, bool)> = Vec::new();
        // How many of them have a line end behind their last text.
        let mut ended: usize = 0;
        for at in 0..self.commands.len() {
            match self.commands[at] {
                Command::Open { .. } => open.push((at, false)),
                Command::Close => {
                    let closed = open.pop();
                    ended = ended.min(open.len());
                    let Some((outer, has_text)) = open.last_mut() else { continue };
                    if let Some((group, had_text)) = closed {
                        *has_text |= had_text;
                        // What is around it has the line end, too.
                        if self.is_broken(group) {
                            self.commands[*outer] = Command::Open { is_broken: true };
                        }
                    }
                }
                Command::Text(_) => {
                    if let Some(outermost) = ended.checked_sub(1) {
                        self.commands[open[outermost].0] = Command::Open { is_broken: true };
                    }
                    ended = 0;
                    // The groups around these learn it when these are closed, or have had one before.
                    if let Some((_, has_text)) = open.last_mut() {
                        *has_text = true;
                    }
                }
                Command::Comment(Comment { has_lines: true, .. }) => {
                    if let Some(&(group, true)) = open.last() {
                        self.commands[group] = Command::Open { is_broken: true };
                    }
                }
                Command::Break(Break { when: When::Always, .. }) => {
                    ended = open.iter().rposition(|&(_, has_text)| has_text).map_or(ended, |last| ended.max(last + 1));
                }
                Command::Comment(_) => {}
                Command::Break(_) | Command::Indent(_) | Command::Align | Command::Dedent | Command::Space => {}
            }
        }
    }

    fn is_broken(&self, group: usize) -> bool {
        matches!(self.commands[group], Command::Open { is_broken: true })
    }
}
