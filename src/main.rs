//! The `dualvm` program. What it does is in `cli`, and what it measures in `bench`.

mod bench;
mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
