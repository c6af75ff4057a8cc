//! Source lines in messages.

use crate::bytecode::module::SourcePlace;
use std::collections::HashMap;
use std::sync::Arc;

/// Characters of a source line that are shown on either side of the place.
const CHARS: usize = 80;

/// Texts of source files, for messages that show lines.
///
/// ```
/// use dualvm_vm::excerpt::SourceTexts;
///
/// let mut texts = SourceTexts::default();
/// texts.insert("f.dual", "def f (x : Real) = sqrt x".into());
/// assert!(texts.get("f.dual").is_some());
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SourceTexts(HashMap<String, Text>);

/// A text, and where its lines start.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Text {
    text: Arc<str>,
    starts: Vec<usize>,
}

impl SourceTexts {
    /// Adds a file. Linear in the text.
    pub fn insert(&mut self, file: impl Into<String>, text: Arc<str>) {
        let starts = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.0.insert(file.into(), Text { text, starts });
    }

    /// The text of a file.
    pub fn get(&self, file: &str) -> Option<&Arc<str>> {
        self.0.get(file).map(|text| &text.text)
    }

    /// The line of a place and a caret under it, with line ends; empty if there is no such line.
    pub(crate) fn excerpt(&self, place: &SourcePlace) -> String {
        let &SourcePlace { ref file, line, column } = place;
        let Some(Text { text, starts }) = self.0.get(&**file) else { return String::new() };
        let index = (line as usize).wrapping_sub(1);
        let Some(&start) = starts.get(index) else { return String::new() };
        let found = &text[start..starts.get(index + 1).map_or(text.len(), |next| next - 1)];
        let before = (column as usize).saturating_sub(1);
        let from = before.saturating_sub(CHARS);
        let shown: String =
            found.chars().skip(from).take(2 * CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        format!("    {number} | {}\n    {margin} | {}^\n", shown.trim_end(), " ".repeat(before - from))
    }
}
