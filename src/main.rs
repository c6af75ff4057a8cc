//! The `dualvm` program. What it does is in `cli`, what it measures in `bench`, and what it answers GradBench in
//! `gradbench`.

mod bench;
mod cli;
mod gradbench;

fn main() -> std::process::ExitCode {
    cli::main()
}
