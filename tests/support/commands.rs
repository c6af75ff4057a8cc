//! The commands that comments of examples show, and the numbers that they print.

#![allow(dead_code, reason = "every test file uses a part of it")]

/// The commands in the comments of an example, without `dualvm`. One goes on in the next line after a backslash, and in
/// quotes.
pub(crate) fn commands(example: &str) -> Vec<String> {
    let mut lines = example.lines().map(|line| line.trim_start_matches(['-', ';', ' ']));
    let mut commands = Vec::new();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("dualvm ") else { continue };
        let mut command = command.to_owned();
        while command.ends_with('\\') || command.matches('\'').count() % 2 == 1 {
            command = format!("{} {}", command.trim_end_matches('\\'), lines.next().expect("commands end"));
        }
        commands.push(command);
    }
    commands
}

/// Cuts a command into words as a shell does, as far as examples need it: single quotes, and white space.
pub(crate) fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().expect("there is always a word").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The numbers in a text.
pub(crate) fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || "+-.".contains(c)));
    words.filter_map(|word| word.parse().ok()).collect()
}
