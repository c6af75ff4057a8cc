//! Messages on stdin and stdout, each behind a header that says how many bytes it has. A thread reads and one writes.
//!
//! `lsp_server` has such threads, too, but takes as much memory as a header asks for before anything of it has come.

use crate::cli::failure::shortened;
use crossbeam_channel::bounded;
use lsp_server::{Connection, Message};
use std::io::{self, BufRead, Read};
use std::thread::{Builder, JoinHandle};

/// The longest message. Editors send whole files, none of which is as long.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The longest line of a header.
const HEADER_LINE_BYTES_MAX: u64 = 1024;

/// The threads of a connection.
pub(super) struct Transport {
    reader: JoinHandle<io::Result<()>>,
    writer: JoinHandle<io::Result<()>>,
}

impl Transport {
    /// Begins to read from stdin. No message waits but the one that is read.
    pub(super) fn start() -> io::Result<(Connection, Transport)> {
        let (read, receiver) = bounded(0);
        let (sender, written) = bounded::<Message>(0);
        let reader = Builder::new().name("lsp reader".to_owned()).spawn(move || {
            let mut stdin = io::stdin().lock();
            while let Some(message) = read_message(&mut stdin)? {
                if read.send(message).is_err() {
                    // The session has ended.
                    break;
                }
            }
            Ok(())
        })?;
        let writer = Builder::new().name("lsp writer".to_owned()).spawn(move || {
            let mut stdout = io::stdout().lock();
            written.into_iter().try_for_each(|message| message.write(&mut stdout))
        })?;
        Ok((Connection { sender, receiver }, Transport { reader, writer }))
    }

    /// Waits for the ends of stdin and of what is written to stdout; the connection is dropped before.
    ///
    /// # Errors
    /// What isn't read as a message, or can't be written.
    pub(super) fn join(self) -> io::Result<()> {
        for thread in [self.reader, self.writer] {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    }
}

/// The next message; `None` at the end of the input.
fn read_message(input: &mut impl BufRead) -> io::Result<Option<Message>> {
    let Some(length) = read_header(input)? else { return Ok(None) };
    // Memory is taken for what comes, not for what is said to come.
    let mut text = Vec::new();
    if input.take(length as u64).read_to_end(&mut text)? < length {
        return Err(invalid(format!("expected {length} bytes behind the header, found {}", text.len())));
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| invalid(error.to_string()))
}

/// How many bytes the next message has; `None` at the end of the input.
fn read_header(input: &mut impl BufRead) -> io::Result<Option<usize>> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        if input.take(HEADER_LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(invalid(format!("expected a line of a header, found {:?}", shortened(&line))));
        };
        if line.is_empty() {
            return length.map(Some).ok_or_else(|| invalid("expected a header with `Content-Length`".to_owned()));
        }
        let Some((name, value)) = line.split_once(": ") else {
            return Err(invalid(format!("expected a line of a header, found {:?}", shortened(line))));
        };
        if name.eq_ignore_ascii_case("Content-Length") {
            let in_bounds = value.parse().ok().filter(|&length| length <= MESSAGE_BYTES_MAX);
            length = Some(in_bounds.ok_or_else(|| {
                invalid(format!("expected a `Content-Length` up to {MESSAGE_BYTES_MAX}, found `{}`", shortened(value)))
            })?);
        }
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
