//! The library: its documentation is up to date, and its examples are true.

use dualvm_frontend::{compile, library_examples, library_markdown};
use dualvm_vm::engine::{Engine, Module};
use dualvm_vm::value::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/library.md");

#[test]
fn the_reference_page_is_up_to_date() {
    if std::env::var_os("DUALVM_BLESS").is_some_and(|value| value == "1") {
        fs::write(PAGE, library_markdown()).expect("the page can be written");
    }
    let page = fs::read_to_string(PAGE).expect("the page is in the repository");
    assert_eq!(page, library_markdown(), "run DUALVM_BLESS=1 cargo test -p dualvm-frontend --test library");
}

#[test]
fn every_public_definition_has_an_example() {
    let with_example: BTreeSet<String> =
        library_examples().map(|(module, name, _)| format!("{module}.{name}")).collect();
    let mut count = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/library")).expect("the library can be listed") {
        let path = entry.expect("entries can be read").path();
        let module = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("the library is UTF-8");
        for rest in text.lines().filter_map(|line| line.strip_prefix("def ")) {
            let name = rest.split(' ').next().expect("there is always a first word");
            assert!(with_example.contains(&format!("{module}.{name}")), "`{module}.{name}` has no example");
            count += 1;
        }
    }
    assert_eq!(count, with_example.len());
}

#[test]
fn examples_are_true() {
    let modules: BTreeSet<&str> = library_examples().map(|(module, ..)| module).collect();
    let mut program: String = modules.iter().map(|module| format!("import {module}\n")).collect();
    for (n, (.., example)) in library_examples().enumerate() {
        writeln!(program, "def example_{n} = {example}").expect("writing to a string succeeds");
    }
    let def = compile("examples.dual", &program).unwrap_or_else(|errors| panic!("{errors}"));
    let module = Module::new(&Engine::default(), def).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let mut wrong = Vec::new();
    for (n, (of, name, example)) in library_examples().enumerate() {
        let value = module.function(&format!("example_{n}")).expect("all examples are exported").call(&[]);
        if value.as_ref().ok() != Some(&Value::Bool(true)) {
            wrong.push(format!("{of}.{name}: {example}: {value:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_of_the_program_comes_before_a_module_of_the_library() {
    use dualvm_frontend::{CompileOptions, MemoryImporter, compile_with};
    let mut files = MemoryImporter::default();
    files.insert("stats", "def normal_logpdf (x : Real) : Real = 42");
    let options = CompileOptions::default().importing(std::sync::Arc::new(files));
    let text = "import stats\ndef f : Real = stats.normal_logpdf 1";
    let own = compile_with("f.dual", text, &options).unwrap_or_else(|errors| panic!("{errors}")).module;
    let module = Module::new(&Engine::default(), own).unwrap_or_else(|errors| panic!("{}", errors[0]));
    assert_eq!(module.function("f").expect("it is exported").call(&[]), Ok(Value::Real(42.0)));
    // A path is never one of the library.
    let errors = compile("f.dual", "import \"stats\"\ndef f : Real = 1").expect_err("there are no files");
    assert!(errors.to_string().contains("there is no module `stats`"), "{errors}");
}
