//! The `dualvm` program. What it does is in `cli`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
