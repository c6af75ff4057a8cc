//! Running the `dualvm` program in tests: a directory of its own for each, and what came out.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run of the program left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A directory of one test, empty at first and removed at the end.
pub(crate) struct Workspace(PathBuf);

impl Workspace {
    /// A directory for the test of this name.
    pub(crate) fn new(test: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        // Left over from a run of the same process id that was killed, if at all.
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("the directory for test files can be made");
        Workspace(dir)
    }

    /// Where a file of this name is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), content).expect("test files can be written");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dualvm"));
        command.current_dir(&self.0).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program here.
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        self.finished(self.command(args))
    }

    /// Runs any program here.
    pub(crate) fn finished(&self, mut command: Command) -> Finished {
        finish(command.current_dir(&self.0).stdin(Stdio::null()).output().expect("the program starts"))
    }

    /// Runs the program here and writes to its stdin.
    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &[u8]) -> Finished {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("the program starts");
        let mut pipe = child.stdin.take().expect("stdin is a pipe");
        // A program that doesn't read its stdin to the end closes it; its result says whether that is right.
        let _ = pipe.write_all(stdin);
        drop(pipe);
        finish(child.wait_with_output().expect("the program ends"))
    }

    /// Runs the program here, expects success and gives what it printed.
    #[track_caller]
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        let finished = self.run(args);
        assert_eq!(finished.code, Some(0), "{args:?}: {finished:#?}");
        finished.stdout
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn finish(output: std::process::Output) -> Finished {
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    Finished { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
