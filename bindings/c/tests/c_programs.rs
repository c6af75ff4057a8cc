//! Programs in C and C++ that use the library: the examples print what README.md says, and hostile calls end as errors.
//! They are built with the system's compilers; where there are none, that is said and nothing is tested.
//! `.ci/bindings-c` runs the ones that are ignored here: hostile calls under tools that look for misused memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is linked with the library where it is a static one. `rustc --print native-static-libs` says that.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the libraries are that belong to this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.parent().expect("it is in a folder").to_owned()
}

/// How the library is linked.
#[derive(Clone, Copy, PartialEq)]
enum Library {
    Shared,
    Static,
}

/// A program that was built.
struct Program(PathBuf);

impl Program {
    /// Builds a source file, with more options if there are some. `None` if there is no compiler.
    fn build(source: &str, library: Library, options: &[&str]) -> Option<Program> {
        let is_cpp = source.ends_with(".cpp");
        let (variable, default) = if is_cpp { ("CXX", "c++") } else { ("CC", "cc") };
        let compiler = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
        if Command::new(&compiler).arg("--version").output().is_err() {
            eprintln!("left out: there is no `{compiler}`, which would build {source}");
            return None;
        }
        let kind = if library == Library::Static { "static" } else { "shared" };
        let name = format!("{}-{kind}{}", source.replace(['/', '.'], "_"), options.concat().replace(['=', ','], ""));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (program, libraries) = (folder.join(name), libraries());
        let mut command = Command::new(&compiler);
        command.arg(if is_cpp { "-std=c++17" } else { "-std=gnu11" });
        command.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(options);
        command.arg("-I").arg(root().join("include")).arg(root().join(source));
        match library {
            Library::Shared => {
                command.arg("-L").arg(&libraries).arg("-ldualvm_c");
                command.arg(format!("-Wl,-rpath,{}", libraries.display())).args(["-lpthread", "-lm"]);
            }
            Library::Static => {
                command.arg(libraries.join("libdualvm_c.a")).args(SYSTEM);
            }
        }
        let output = command.arg("-o").arg(&program).output().expect("the compiler starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}\n{said}");
        Some(Program(program))
    }

    #[track_caller]
    fn run_with(&self, command: &mut Command) -> String {
        let Output { status, stdout, stderr } = command.output().expect("the program starts");
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{}: {status}\n{stdout}\n{stderr}", self.0.display());
        stdout.into_owned()
    }

    #[track_caller]
    fn run(&self) -> String {
        self.run_with(&mut Command::new(&self.0))
    }
}

/// What README.md says that an example prints.
fn promised(example: &str) -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
    let start = format!("```console\n$ ./{example}\n");
    let (_, rest) = readme.split_once(&start).unwrap_or_else(|| panic!("README.md doesn't show what {example} prints"));
    rest.split("```").next().expect("blocks end").to_owned()
}

#[test]
fn examples_print_what_the_readme_says() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("examples")).expect("there are examples") {
        let path = entry.expect("it can be read").path();
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let file = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        // Times are others each time.
        if file.ends_with(".h") || name == "bench" {
            continue;
        }
        for library in [Library::Shared, Library::Static] {
            let Some(program) = Program::build(&format!("examples/{file}"), library, &[]) else { return };
            assert_eq!(program.run(), promised(&name), "{file}");
        }
        count += 1;
    }
    assert!(count >= 5, "{count} examples");
}

#[test]
fn the_benchmark_runs() {
    let Some(program) = Program::build("examples/bench.c", Library::Shared, &[]) else { return };
    let said = program.run_with(Command::new(&program.0).arg("quick"));
    for name in ["mult, value", "mult, gradient", "dot product"] {
        assert!(said.contains(name), "{said}");
    }
}

#[test]
fn hostile_calls_are_errors() {
    let Some(program) = Program::build("tests/hostile.c", Library::Shared, &[]) else { return };
    let said = program.run();
    assert!(said.ends_with(" hostile calls, 0 of them with another end than an error\n"), "{said}");
}

/// The header alone is C99 and C++11, with all warnings.
#[test]
fn the_header_is_portable() {
    for (compiler, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++11")] {
        let mut command = Command::new(compiler);
        command.args(["-x", language, standard, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
        let Ok(output) = command.arg(root().join("include/dualvm.h")).output() else {
            eprintln!("left out: there is no `{compiler}`");
            continue;
        };
        // That it is no program but a header, both compilers say.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}\n{said}");
    }
}

#[test]
#[ignore = "takes a minute: .ci/bindings-c runs it"]
fn hostile_calls_under_the_address_sanitizer() {
    let examples = ["fit.c", "shapes.c", "stranger.c", "modules.c", "ode.cpp"].map(|name| format!("examples/{name}"));
    for source in examples.iter().map(String::as_str).chain(["tests/hostile.c"]) {
        // Switching stacks looks like going back to a frame that is gone.
        let options = "detect_stack_use_after_return=0";
        let Some(program) = Program::build(source, Library::Shared, &["-fsanitize=address"]) else { return };
        program.run_with(Command::new(&program.0).env("ASAN_OPTIONS", options));
    }
}

#[test]
#[ignore = "takes a minute: .ci/bindings-c runs it"]
fn hostile_calls_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("left out: there is no `valgrind`");
        return;
    }
    for source in ["tests/hostile.c", "examples/fit.c", "examples/ode.cpp"] {
        let Some(program) = Program::build(source, Library::Shared, &[]) else { return };
        let mut command = Command::new("valgrind");
        // What is lost, handles tell; the generator of native code keeps a few bytes for the life of the process.
        command.args(["-q", "--error-exitcode=9", "--fair-sched=try"]);
        // A host function runs on the thread's own stack below where a run has left it, which valgrind takes for free
        // memory. The address sanitizer knows better.
        command.env("DUALVM_NO_HOST_FUNCTIONS", "1");
        program.run_with(command.arg(&program.0));
    }
}
