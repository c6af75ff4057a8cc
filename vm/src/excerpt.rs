//! Source lines in messages.

use std::fmt;

/// Characters of a source line that are shown on either side of the place.
const CHARS: usize = 80;

/// Writes the line of a place, of the lines of its file, and a caret under it; nothing if there is no such line.
pub(crate) fn write(f: &mut impl fmt::Write, lines: &[&str], (line, column): (u32, u32)) -> fmt::Result {
    let Some(found) = lines.get((line as usize).wrapping_sub(1)) else { return Ok(()) };
    let before = (column as usize).saturating_sub(1);
    let from = before.saturating_sub(CHARS);
    let shown: String =
        found.chars().skip(from).take(2 * CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    writeln!(f, "    {number} | {}", shown.trim_end())?;
    writeln!(f, "    {margin} | {}^", " ".repeat(before - from))
}
