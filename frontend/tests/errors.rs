//! Wrong programs and what is said about them: each `errors/*.dual` has its messages in the `.expected` beside it.
//!
//! `UPDATE_EXPECTED=1 cargo test -p dualvm-frontend --test errors` rewrites them; read the difference.

use std::fs;
use std::path::Path;

#[test]
fn wrong_programs_get_the_expected_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let mut programs: Vec<_> = fs::read_dir(folder)
        .expect("the folder of wrong programs is beside this test")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "dual"))
        .collect();
    programs.sort();
    assert!(programs.len() >= 20);
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut different = Vec::new();
    for path in programs {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let found = match dualvm_frontend::compile(&name, &text) {
            Ok(_) => "no error\n".to_owned(),
            Err(errors) => errors.to_string(),
        };
        let expected = path.with_extension("expected");
        if update {
            fs::write(&expected, &found).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != found {
            different.push(format!("{name}:\n{found}"));
        }
    }
    assert!(different.is_empty(), "messages differ from what is expected:\n\n{}", different.join("\n"));
}

#[test]
fn deep_programs_are_refused_without_overflow() {
    let deep = 200_000;
    let programs = [
        format!("def f = {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("def f (x : {}Real{}) = x", "Array (".repeat(deep), ")".repeat(deep)),
        format!("def f {}x{} = x", "(".repeat(deep), ")".repeat(deep)),
        format!("def f (x : Real) = {}x{}", "x + (".repeat(deep), ")".repeat(deep)),
        format!("def f (x : Real) = {}x{}", "- (".repeat(deep), ")".repeat(deep)),
        format!("def f (x : Real) = {}x{}", "sin (".repeat(deep), ")".repeat(deep)),
        format!("def f (x : Real) = {}x{}", "(x :: x ++ ".repeat(deep), ")".repeat(deep)),
        format!(
            "def f = {}true then 1 else 2{}",
            "if if true then ".repeat(deep),
            " else false then 1 else 2".repeat(deep)
        ),
        format!("def f = {}1{}", "if true then ".repeat(deep), " else 2".repeat(deep)),
        format!("def f x = {}x{}", "let y = ".repeat(deep), " in y".repeat(deep)),
        format!("def f = {}_{}  -> 1", "match [] with ".to_owned() + &"_ :: (".repeat(deep), ")".repeat(deep)),
        format!("def f = {}0", "\\x -> ".repeat(deep)),
        format!("def f = {}0", "match 1 with _ -> ".repeat(deep)),
        format!("def f (x : {}Real) = x", "Real -> ".repeat(deep)),
        format!("def f (x : {}Real{}) = x", "{ x : ".repeat(deep), "}".repeat(deep)),
        format!("def f = {}1{}", "{ x = ".repeat(deep), "}".repeat(deep)),
        format!("def f = {}1{}", "[".repeat(deep), "]".repeat(deep)),
        format!("def f {}x{} = x", "[".repeat(deep), "]".repeat(deep)),
        format!("def f x = {}x", "let g y = ".repeat(deep)),
        format!("def f x = {}x{}", "(x |*| ".repeat(deep), ")".repeat(deep)),
        format!("def f x = {}x{}", "par (x, ".repeat(deep), ")".repeat(deep)),
    ];
    for program in programs {
        let errors = dualvm_frontend::compile("deep.dual", &program).unwrap_err();
        assert_eq!(errors.list().len(), 1);
        assert_eq!(errors.list()[0].message, "the expression is nested too deeply");
        assert!(errors.to_string().len() < 2_000);
    }
}

#[test]
fn exponential_types_and_instances_are_refused() {
    let mut polymorphic = "def f0 x = (x, x)\n".to_owned();
    let mut instances = "def f0 x = 1\n".to_owned();
    let mut aliases = "alias A0 a = (a, a)\ndef f (x : A9 Real) = x\n".to_owned();
    let mut local = "def f x = let f0 x = (x, x) in ".to_owned();
    for i in 1..40 {
        polymorphic += &format!("def f{i} x = f{} (f{} x)\n", i - 1, i - 1);
        aliases += &format!("alias A{i} a = (A{} a, A{} a)\n", i - 1, i - 1);
        local += &format!("let f{i} x = f{} (f{} x) in ", i - 1, i - 1);
        instances += &format!("def f{i} x = f{} (x, 1.0) + f{} [| x |]\n", i - 1, i - 1);
    }
    local += "f39 x";
    for program in [polymorphic, instances, aliases, local] {
        let errors = dualvm_frontend::compile("large.dual", &program).unwrap_err();
        assert_eq!(errors.list().len(), 1, "{errors}");
    }
}

#[test]
fn only_the_first_of_many_errors_are_collected() {
    let program: String = (0..20_000).map(|i| format!("def f{i} (x : Real) = x + y{i}\n")).collect();
    let errors = dualvm_frontend::compile("many.dual", &program).unwrap_err();
    assert_eq!(errors.list().len(), 50);
}

/// Long programs that are wrong: each is refused in time.
#[test]
fn long_programs_are_refused_quickly() {
    let bits = |n: usize, at: usize| {
        let parts: Vec<&str> = (0..n)
            .map(|i| {
                if i == at {
                    "A"
                } else if i == at + 1 {
                    "B"
                } else {
                    "_"
                }
            })
            .collect();
        format!("({}) -> 1", parts.join(", "))
    };
    let cases: Vec<String> = (0..40).map(|at| bits(40, at)).collect();
    let programs = [
        (format!("def f (x : Real) = [{}]", "x * 2.0 + sin x, ".repeat(600_000)), "the definition is too long"),
        (format!("def f (x : Real) = {}[]", "[x] ++ ".repeat(1_000_000)), "the definition is too long"),
        (format!("type T = A | B | C\ndef f x = match x with {}", cases.join(" | ")), "the cases of this `match`"),
        (format!("def f x = match x with ({}) -> 1", vec!["(1 | 2 | 3)"; 30].join(", ")), "the cases of this `match`"),
        (format!("def f = {}", "x".repeat(10_000_000)), "this name is too long"),
    ];
    for (program, message) in programs {
        let start = std::time::Instant::now();
        let errors = dualvm_frontend::compile("long.dual", &program).unwrap_err();
        assert!(errors.list()[0].message.starts_with(message), "{}", errors.list()[0].message);
        // Without optimisation everything takes many times longer.
        let seconds_max = if cfg!(debug_assertions) { 30 } else { 2 };
        assert!(start.elapsed().as_secs() < seconds_max, "{:?}", start.elapsed());
    }
}
