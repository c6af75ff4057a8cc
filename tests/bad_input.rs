//! Bad input: each case is refused with an exit code, a place and a hint, and nothing panics.

#[path = "support/program.rs"]
mod program;

use dualvm::{CallOptions, Engine, Limits, Module};
use program::{Finished, Workspace};

/// Files, a command, and what stderr says.
struct Case {
    name: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    args: &'static [&'static str],
    stdin: &'static str,
    code: i32,
    /// Parts of stderr: the place, and what is wrong or what to do.
    says: &'static [&'static str],
}

const MULT: &[u8] = b"def mult (x : Real) (y : Real) : Real = x * y\n";
const DIV: &[u8] = b"def div (a : Int) (b : Int) : Int =\n  a / b\n";
const RECORD: &[u8] = include_bytes!("data/record.dvs");
const DATA: &[u8] = include_bytes!("data/data.dual");
const FORMER: &str = r#"{"rate": 1, "count": 2, "on": true}"#;

const CASE: Case = Case { name: "", files: &[], args: &[], stdin: "", code: 2, says: &[] };

const CASES: &[Case] = &[
    // Source.
    Case {
        name: "a character that starts no token",
        files: &[("f.dual", "def f (x : Real) : Real =\n  x § 2\n".as_bytes())],
        args: &["check", "f.dual"],
        says: &["f.dual:2:5", "§"],
        ..CASE
    },
    Case {
        name: "a definition without a body",
        files: &[("f.dual", b"def f (x : Real) : Real =\n")],
        args: &["run", "f.dual", "f", "1"],
        says: &["error: ", "f.dual:"],
        ..CASE
    },
    Case {
        name: "a parenthesis that is never closed",
        files: &[("f.dual", b"def f (x : Real) : Real = (x + 1\n")],
        args: &["grad", "f.dual", "f", "1"],
        says: &["error: ", "f.dual:"],
        ..CASE
    },
    Case {
        name: "a misspelt function in source",
        files: &[("f.dual", b"def f (x : Real) = sqr x")],
        args: &["check", "f.dual"],
        says: &["f.dual:1:20", "sqr", "sqrt"],
        ..CASE
    },
    Case {
        name: "an integer where a real is needed",
        files: &[("f.dual", b"def f (n : Int) : Real = n")],
        args: &["check", "f.dual"],
        says: &["f.dual:1:", "Real", "Int"],
        ..CASE
    },
    Case {
        name: "a condition that is no boolean",
        files: &[("f.dual", b"def f (x : Real) : Real = if x then 1.0 else 2.0")],
        args: &["build", "f.dual"],
        says: &["f.dual:1:30", "Bool"],
        ..CASE
    },
    Case {
        name: "an empty file",
        files: &[("f.dual", b"")],
        args: &["run", "f.dual"],
        says: &["f.dual: there is no function to call", "define one"],
        ..CASE
    },
    Case {
        name: "a file that is not UTF-8",
        files: &[("f.dual", b"def f \xff\xfe")],
        args: &["check", "f.dual"],
        says: &["f.dual: neither text nor a module in binary form: byte 6", "UTF-8"],
        ..CASE
    },
    Case {
        name: "a file that is not there",
        args: &["run", "nothing.dual"],
        says: &["can't read nothing.dual: No such file or directory", "expected a file that holds a program"],
        ..CASE
    },
    Case {
        name: "a directory",
        args: &["grad", "."],
        says: &["can't read .: Is a directory", "expected a file that holds a program"],
        ..CASE
    },
    // Assembly.
    Case {
        name: "a misspelt instruction",
        files: &[("f.dvs", b"func f0 \"f\" (real) -> (real)\n  regs 1 real\n{\n  mull r0, r0, r0\n  ret (r0)\n}\n")],
        args: &["check", "f.dvs"],
        says: &["f.dvs:4:3", "mull", "did you mean"],
        ..CASE
    },
    Case {
        name: "a register of the wrong bank",
        files: &[("f.dvs", b"func f0 \"f\" (real) -> (real)\n  regs 1 real\n{\n  add i0, r0, r0\n  ret (r0)\n}\n")],
        args: &["asm", "f.dvs"],
        says: &["f.dvs:4:7", "expected a real register, such as `r0`, found `i0`"],
        ..CASE
    },
    Case {
        name: "a label that is not there",
        files: &[("f.dvs", b"func f0 \"f\" () -> ()\n{\n  jump somewhere\n}\n")],
        args: &["disasm", "f.dvs"],
        says: &["f.dvs:3:8", "somewhere"],
        ..CASE
    },
    Case {
        name: "assembly that ends in a function",
        files: &[("f.dvs", b"func f0 \"f\" () -> ()\n{\n")],
        args: &["verify", "f.dvs"],
        says: &["f.dvs:3:1", "expected `}`"],
        ..CASE
    },
    Case {
        name: "a register that is read before it is written",
        files: &[("f.dvs", b"func f0 \"f\" () -> (real)\n  export () -> Real\n  regs 1 real\n{\n  ret (r0)\n}\n")],
        args: &["run", "f.dvs"],
        says: &["f.dvs: the module breaks 1 rule", "instruction 0 (`ret (r0)`)", "expected a write to r0"],
        ..CASE
    },
    Case {
        name: "source given to the assembler",
        files: &[("mult.dual", MULT)],
        args: &["asm", "mult.dual"],
        says: &[
            "mult.dual:1:1",
            "expected `module`, `library`, `inlined`, `type`, `data`, `message`, `template`, `import`, `traced` or `func`",
        ],
        ..CASE
    },
    // Bytecode.
    Case {
        name: "bytecode that is only its magic number",
        files: &[("f.dvbc", b"DVBC")],
        args: &["verify", "f.dvbc"],
        says: &["f.dvbc: ", "4", "build it again"],
        ..CASE
    },
    Case {
        name: "bytecode of a version to come",
        files: &[("f.dvbc", b"DVBC\xff\xff\0\0\0\0\0\0")],
        args: &["run", "f.dvbc"],
        says: &["f.dvbc: ", "version"],
        ..CASE
    },
    Case {
        name: "bytecode that promises more than there is",
        files: &[("f.dvbc", b"DVBC\x01\0\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f")],
        args: &["disasm", "f.dvbc"],
        says: &["f.dvbc: ", "expected", "found"],
        ..CASE
    },
    Case {
        name: "other binary data",
        files: &[("f.dvbc", b"\x7fELF\x02\x01\x01\0\xff\xff")],
        args: &["check", "f.dvbc"],
        says: &["f.dvbc: ", "expected", "build it again"],
        ..CASE
    },
    // Functions.
    Case {
        name: "a misspelt function on the command line",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "mutl", "1", "2"],
        says: &["there is no function `mutl`; did you mean `mult`?", "mult : (x : Real, y : Real) -> Real"],
        ..CASE
    },
    Case {
        name: "a function of the prelude",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "sin", "1"],
        says: &["there is no function `sin`", "inside of programs only: write a `def` that calls it", "mult : "],
        ..CASE
    },
    Case {
        name: "a function that hosts can't call",
        files: &[("record.dvs", RECORD)],
        args: &["run", "record.dvs", "hidden"],
        says: &["function `hidden` can't be called by a host", "echo : "],
        ..CASE
    },
    Case {
        name: "no function's name where there are several",
        files: &[("record.dvs", RECORD)],
        args: &["run", "record.dvs"],
        says: &["expected the name of a function", "weighted : ", "echo : "],
        ..CASE
    },
    Case {
        name: "the gradient of a pair",
        files: &[("f.dual", b"def f (x : Real) = (x, x)")],
        args: &["grad", "f.dual", "1"],
        says: &["`f` returns (Real, Real)", "picks or sums a part", "dualvm run"],
        ..CASE
    },
    // Arguments.
    Case {
        name: "too few arguments",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "1"],
        says: &["mult.dual: mult: expected 2 arguments (x : Real, y : Real), found 1"],
        ..CASE
    },
    Case {
        name: "too many arguments",
        files: &[("mult.dual", MULT)],
        args: &["grad", "mult.dual", "1", "2", "3"],
        says: &["mult.dual: mult: expected 2 arguments (x : Real, y : Real), found 3"],
        ..CASE
    },
    Case {
        name: "a boolean for a real",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "1", "true"],
        says: &["argument y: expected Real, found boolean `true`", "mult : (x : Real, y : Real) -> Real"],
        ..CASE
    },
    Case {
        name: "a real for an integer",
        files: &[("div.dual", DIV)],
        args: &["run", "div.dual", "1", "2.0"],
        says: &["argument b: expected Int, found floating point `2.0`"],
        ..CASE
    },
    Case {
        name: "an integer beyond 64 bits",
        files: &[("div.dual", DIV)],
        args: &["run", "div.dual", "1", "9223372036854775808"],
        says: &["expected Int, found integer `9223372036854775808`: the largest `Int` is 9223372036854775807"],
        ..CASE
    },
    Case {
        name: "a negative integer beyond 64 bits",
        files: &[("div.dual", DIV)],
        args: &["run", "div.dual", "1", "-99999999999999999999"],
        says: &["argument b: expected Int, found floating point `-1e20`: the smallest `Int` is -9223372036854775808"],
        ..CASE
    },
    Case {
        name: "a word that is no value",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "1", "1..2"],
        says: &["argument y: expected Real, found `1..2`"],
        ..CASE
    },
    Case {
        name: "a part of the wrong type, deep inside",
        files: &[("record.dvs", RECORD)],
        args: &["run", "record.dvs", "echo", FORMER, "[[1, 2], [3, 4.5]]"],
        says: &["argument points[1].1: expected Int, found floating point `4.5`"],
        ..CASE
    },
    Case {
        name: "a tuple of the wrong length",
        files: &[("record.dvs", RECORD)],
        args: &["run", "record.dvs", "echo", FORMER, "[[1, 2, 3]]"],
        says: &["argument points[0]: expected (Real, Int), found a list of 3"],
        ..CASE
    },
    Case {
        name: "a record without a field",
        files: &[("record.dvs", RECORD)],
        args: &["run", "record.dvs", "echo", r#"{"rate": 1, "on": true}"#, "[]"],
        says: &[
            "argument m: expected { rate : Real, count : Int, on : Bool }, found an object without the field `count`",
        ],
        ..CASE
    },
    Case {
        name: "a record with a field that isn't its own",
        files: &[("record.dvs", RECORD)],
        args: &["run", "record.dvs", "echo", r#"{"rate": 1, "cuont": 1, "on": true}"#, "[]"],
        says: &["argument m: expected ", "found an object with the field `cuont`"],
        ..CASE
    },
    Case {
        name: "broken JSON",
        files: &[("record.dvs", RECORD)],
        args: &["run", "record.dvs", "echo", r#"{"rate": 1,"#, "[]"],
        says: &["argument m: EOF while parsing", r#"`{"rate": 1,`"#],
        ..CASE
    },
    // Data types, lists and functions.
    Case {
        name: "a constructor that its type doesn't have",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", "Circel 1"],
        says: &[
            "argument shape: no constructor `Circel` in `Shape`",
            "Circle, Rect, Nil",
            "did you mean `Circle`?",
            "area : ",
        ],
        ..CASE
    },
    Case {
        name: "a constructor in JSON that its type doesn't have",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "total", r#"["Nil", {"Rekt": 1}]"#],
        says: &["argument shapes[1]: no constructor `Rekt` in `Shape`", "did you mean `Rect`?"],
        ..CASE
    },
    Case {
        name: "a constructor without its argument",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", r#""Circle""#],
        says: &["argument shape: `Circle` takes (Real), found nothing"],
        ..CASE
    },
    Case {
        name: "a constructor with too few arguments",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "eval", r#"{"Add": [{"Num": 1}]}"#],
        says: &["argument e: `Add` takes (Expr, Expr), found a list of 1"],
        ..CASE
    },
    Case {
        name: "a constructor with too many arguments",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", "Circle 1 2"],
        says: &["argument shape: `Circle` takes (Real), found a tuple of 2 parts"],
        ..CASE
    },
    Case {
        name: "a constructor without one of its fields",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", r#"{"Rect": {"width": 1}}"#],
        says: &[
            "argument shape: `Rect` takes { width : Real, height : Real }, found an object without the field `height`",
        ],
        ..CASE
    },
    Case {
        name: "a constructor with a field that isn't its own",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", "Rect { width = 1, depth = 2 }"],
        says: &["argument shape", "height"],
        ..CASE
    },
    Case {
        name: "a field of a wrong type in a data value",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "total", r#"["Nil", {"Rect": {"width": true}}]"#],
        says: &["argument shapes[1].width: expected Real, found boolean `true`"],
        ..CASE
    },
    Case {
        name: "two constructors in one object",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", r#"{"Circle": 1, "Nil": []}"#],
        says: &["argument shape: expected Shape, found an object with `Circle` and `Nil`"],
        ..CASE
    },
    Case {
        name: "an object without a constructor",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", "{}"],
        says: &["argument shape: expected Shape, found an object without a constructor"],
        ..CASE
    },
    Case {
        name: "a number where a data value is needed",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "area", "3"],
        says: &["argument shape: expected Shape, found integer `3`"],
        ..CASE
    },
    Case {
        name: "a record where a list is needed",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "energy", r#"{"at": 1}"#],
        says: &["argument points: expected List", "found an object"],
        ..CASE
    },
    Case {
        name: "a real where an integer is needed in a list",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "energy", "[{ at = 1, mass = 2.5 }]"],
        says: &["argument points[0].mass: expected Int, found a real (2.5)"],
        ..CASE
    },
    Case {
        name: "a part of the wrong shape in a nested tuple",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "nested", "[[1, 2], [3, [4]]]"],
        says: &["argument p.1.1: expected (Real, Bool), found a list of 1"],
        ..CASE
    },
    Case {
        name: "a function that takes a function",
        files: &[("data.dual", DATA)],
        args: &["grad", "data.dual", "apply", "1", "2"],
        says: &[
            "data.dual: `apply` takes a function (`f : Real -> Real`), which can't cross the border",
            "`(Real -> Real) -> Real -> Real`",
            "define a function that calls `apply`",
            "area : ",
        ],
        ..CASE
    },
    Case {
        name: "a function that returns a function",
        files: &[("data.dual", DATA)],
        args: &["run", "data.dual", "adders", "1"],
        says: &["`adders` returns a value with a function in it", "`Real -> List (Real -> Real -> Real)`"],
        ..CASE
    },
    // --input.
    Case {
        name: "input that is no list",
        files: &[("mult.dual", MULT), ("a.json", b"42\n")],
        args: &["run", "mult.dual", "--input", "a.json"],
        says: &[
            "a.json: ",
            "expected a list of 2 arguments, or an object with their names (x : Real, y : Real)",
            "line 1 column 2",
        ],
        ..CASE
    },
    Case {
        name: "input that is an object with another name",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "--input", "-"],
        stdin: r#"{"x": 1, "a": 2}"#,
        says: &["<stdin>: ", "there is no parameter `a`", "expected a JSON list of the arguments"],
        ..CASE
    },
    Case {
        name: "input with too few arguments",
        files: &[("mult.dual", MULT), ("a.json", b"[\n 1\n]")],
        args: &["grad", "mult.dual", "--input", "a.json"],
        says: &[
            "a.json: expected a list of 2 arguments, or an object with their names (x : Real, y : Real), found 1 at line 3",
        ],
        ..CASE
    },
    Case {
        name: "input with something after the list",
        files: &[("mult.dual", MULT), ("a.json", b"[1, 2] 3")],
        args: &["run", "mult.dual", "--input", "a.json"],
        says: &["a.json: trailing characters at line 1 column 8"],
        ..CASE
    },
    Case {
        name: "input and arguments",
        files: &[("mult.dual", MULT), ("a.json", b"[1, 2]")],
        args: &["run", "mult.dual", "1", "2", "--input", "a.json"],
        says: &["arguments on the command line and --input: 1 2", "one of the two ways"],
        ..CASE
    },
    Case {
        name: "input that is nested without end",
        files: &[("mult.dual", MULT), ("a.json", &[b'['; 100_000])],
        args: &["run", "mult.dual", "--input", "a.json"],
        says: &["a.json: ", "line 1 column"],
        ..CASE
    },
    Case {
        name: "input that is not there",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "--input", "no.json"],
        says: &["can't read no.json: No such file", "holds the arguments in JSON"],
        ..CASE
    },
    // Flags.
    Case {
        name: "a flag that is not there",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "--feul", "3"],
        says: &["--feul", "--fuel"],
        ..CASE
    },
    Case {
        name: "a negative limit",
        files: &[("mult.dual", MULT)],
        args: &["run", "mult.dual", "1", "2", "--fuel", "-3"],
        says: &["--fuel", "expected a whole number"],
        ..CASE
    },
    Case { name: "a command that is not there", args: &["differentiate"], says: &["differentiate", "Usage"], ..CASE },
    Case {
        name: "output to a directory",
        files: &[("mult.dual", MULT)],
        args: &["build", "mult.dual", "-o", "."],
        says: &["can't write .: ", "-o names another file"],
        ..CASE
    },
    // Traps and limits.
    Case {
        name: "division by zero",
        files: &[("div.dual", DIV)],
        args: &["run", "div.dual", "1", "0"],
        code: 1,
        says: &["trap: integer division by zero: 1 / 0\n  in div at div.dual:2:3"],
        ..CASE
    },
    Case {
        name: "division that overflows",
        files: &[("div.dual", DIV)],
        args: &["run", "div.dual", "-9223372036854775808", "-1"],
        code: 1,
        says: &["trap: integer division overflows: -9223372036854775808 / -1", "div.dual:2:3"],
        ..CASE
    },
    Case {
        name: "recursion without end",
        files: &[("f.dual", b"def f (x : Real) : Real = 1.0 + f x\n")],
        args: &["grad", "f.dual", "1"],
        code: 1,
        says: &["trap: ", "in f at f.dual:1:", "more frames", "sets this limit"],
        ..CASE
    },
    Case {
        name: "a loop without end",
        files: &[("f.dual", b"def f (x : Real) : Real = loop y = x while y < 1e9 do y / 2\n")],
        args: &["run", "f.dual", "1", "--deadline", "0.05"],
        code: 1,
        says: &["trap: the deadline has passed\n  in f at f.dual:1:", "--deadline sets this limit"],
        ..CASE
    },
];

/// What is wrong with how a case was refused.
fn problems(case: &Case, finished: &Finished) -> Vec<String> {
    let mut problems = Vec::new();
    if finished.code != Some(case.code) {
        problems.push(format!("expected exit code {}, found {:?}", case.code, finished.code));
    }
    if finished.stderr.contains("panicked") || !finished.stdout.is_empty() {
        problems.push("expected no panic and nothing on stdout".to_owned());
    }
    let missing = case.says.iter().filter(|part| !finished.stderr.contains(**part));
    problems.extend(missing.map(|part| format!("expected {part:?} in stderr")));
    problems
}

#[test]
fn every_case_is_refused_with_a_place_and_a_hint() {
    let mut report = String::new();
    for (index, case) in CASES.iter().enumerate() {
        let workspace = Workspace::new(&format!("bad_input-{index}"));
        case.files.iter().for_each(|(name, content)| workspace.write(name, content));
        let finished = workspace.run_with_stdin(case.args, case.stdin.as_bytes());
        for problem in problems(case, &finished) {
            report += &format!("\n{}: {:?}: {problem}\n{}", case.name, case.args, finished.stderr);
        }
    }
    assert!(report.is_empty(), "{report}");
}

fn binary() -> Vec<u8> {
    let text = std::str::from_utf8(RECORD).unwrap();
    Module::from_assembly(&Engine::default(), "record.dvs", text).unwrap().to_binary().unwrap()
}

/// A file that is cut between two sections is a module without the later ones; any other cut is an error.
#[test]
fn every_truncation_is_refused_or_lacks_sections() {
    let (engine, bytes) = (Engine::default(), binary());
    let whole = Module::from_binary(&engine, &bytes).unwrap();
    let mut accepted = 0;
    for len in 0..bytes.len() {
        if let Ok(module) = Module::from_binary(&engine, &bytes[..len]) {
            assert_ne!(module.def(), whole.def(), "{len} of {} bytes", bytes.len());
            accepted += 1;
        }
    }
    assert!(accepted <= 5, "{accepted} truncations were accepted, and there are five sections at most");
}

/// What the verifier lets through may be another program, but runs and ends like any other.
#[test]
fn every_changed_byte_is_refused_or_runs() {
    let (engine, bytes) = (Engine::default(), binary());
    let limits = Limits { fuel: 10_000, live_bytes: 1 << 20, tape_bytes: 1 << 20, ..Limits::default() };
    let options = CallOptions::with_limits(limits);
    let mut accepted = 0;
    for at in 0..bytes.len() {
        for change in [0x01, 0x02, 0x10, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let Ok(module) = Module::from_binary(&engine, &changed) else { continue };
            accepted += 1;
            for function in module.functions() {
                let args = serde_json::json!([{ "rate": 1, "count": 2, "on": true, "w": [1, 2] }, [1, 2]]);
                let _ = function.call_as_with::<serde_json::Value>(&args, &options);
                let _ = function.value_and_grad_as_with::<serde_json::Value>(&args, &options);
            }
        }
    }
    assert!(accepted > 0, "some changes are harmless, such as those of constants and locations");
}

#[test]
fn truncated_files_are_refused_by_the_program() {
    let (workspace, bytes) = (Workspace::new("truncated"), binary());
    for len in [0, 3, 5, bytes.len() / 2, bytes.len() - 1] {
        workspace.write("cut.dvbc", &bytes[..len]);
        let finished = workspace.run(&["run", "cut.dvbc", "echo"]);
        assert_eq!(finished.code, Some(2), "{len}: {finished:#?}");
        assert!(finished.stderr.starts_with("error: "), "{len}: {finished:#?}");
        assert!(!finished.stderr.contains("panicked"), "{len}: {finished:#?}");
    }
}
