//! The text and the binary form: what goes in comes out, and what is wrong is said.

mod support;

use dualvm_vm::binary::{VERSION, decode, encode, is_binary};
use dualvm_vm::isa::Op;
use dualvm_vm::module::{DataDef, DataId, FuncId, HostType, Interface, ModuleDef, TypeId};
use dualvm_vm::text::{parse, print, print_inst};
use dualvm_vm::verify::{limits, verify};
use support::{from_roles, read, verified};

fn assert_survives(module: &ModuleDef) {
    let text = print(module);
    assert_eq!(read(&text), *module);
    assert_eq!(print(&read(&text)), text);
    let bytes = encode(module).expect("lists are in their pools");
    assert!(is_binary(&bytes));
    assert_eq!(decode(&bytes).as_ref(), Ok(module));
}

#[test]
fn every_instruction_survives_both_forms() {
    let module = from_roles();
    for &op in Op::ALL {
        assert!(module.functions[0].body.code.iter().any(|inst| inst.op == op));
    }
    assert_survives(&module);
}

#[test]
fn a_verified_module_has_every_instruction_and_survives_both_forms() {
    let module = verified();
    if let Err(errors) = verify(&module) {
        panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    }
    for &op in Op::ALL {
        let mut code = module.functions.iter().flat_map(|function| &function.body.code);
        assert!(code.any(|inst| inst.op == op), "tests/data/every_instruction.dvs lacks `{}`", op.info().mnemonic);
    }
    assert_survives(&module);
}

#[test]
fn the_printed_form_is_the_data_file() {
    let text = include_str!("data/every_instruction.dvs");
    let (comment, rest) = text.split_once('\n').expect("the file has lines");
    assert!(comment.starts_with(';'));
    assert_eq!(print(&verified()), rest);
}

#[test]
fn an_empty_module_survives_both_forms() {
    assert_survives(&ModuleDef::default());
    assert_eq!(encode(&ModuleDef::default()).expect("there are no lists"), b"DVBC\x01\x00\x00");
}

fn depth(ty: &HostType) -> usize {
    1 + match ty {
        HostType::Tuple(parts) => parts.iter().map(depth).max().unwrap_or(0),
        HostType::Record(parts) => parts.iter().map(|(_, part)| depth(part)).max().unwrap_or(0),
        HostType::Array { element, .. } | HostType::List { element, .. } | HostType::Tensor { slice: element, .. } => {
            depth(element)
        }
        _ => 0,
    }
}

#[test]
fn host_types_survive_both_forms() {
    let array = |element: HostType| HostType::Array { element: Box::new(element), array: TypeId(3) };
    let list = |element: HostType| HostType::List { element: Box::new(element), list: TypeId(7) };
    let tensor = |slice: HostType| HostType::Tensor { slice: Box::new(slice), tensor: TypeId(11) };
    let data = |name: &str| HostType::Data { name: name.into(), data: DataId(4_000_000_000) };
    let unit = HostType::Tuple(vec![]);
    let types = [
        HostType::Tuple(vec![HostType::Real]),
        HostType::Tuple(vec![HostType::Tuple(vec![unit.clone()])]),
        HostType::Record(vec![]),
        HostType::Record(vec![("x".into(), HostType::Bool), ("not a word".into(), HostType::Int)]),
        array(array(array(HostType::Tuple(vec![HostType::Real, unit.clone()])))),
        array(list(array(list(HostType::Real)))),
        list(HostType::Record(vec![("x".into(), list(unit.clone()))])),
        list(data("Tree Real")),
        tensor(array(HostType::Real)),
        tensor(tensor(array(HostType::Tuple(vec![HostType::Real, HostType::Real])))),
        array(tensor(array(list(tensor(array(data("Tree Real"))))))),
        tensor(HostType::Record(vec![("x".into(), tensor(HostType::Int))])),
        HostType::Tuple(vec![data(""), array(data("\"λ\"\n"))]),
        (0..62).fold(array(HostType::Real), |inner, _| array(inner)),
        (0..62).fold(list(HostType::Real), |inner, _| list(inner)),
        (0..62).fold(array(HostType::Real), |inner, _| tensor(inner)),
        (0..63).fold(HostType::Real, |inner, _| HostType::Tuple(vec![inner])),
    ];
    for ty in types {
        let mut module = from_roles();
        module.functions[0].interface = Some(Interface { params: vec![("a".into(), ty.clone())], result: ty.clone() });
        assert_survives(&module);
        // As a payload too, whether the verifier accepts it or not.
        let variants = vec![
            ("A".into(), ty.clone()),
            ("not a word".into(), HostType::Tuple(vec![ty])),
            ("data".into(), unit.clone()),
        ];
        let def = DataDef { name: "Tree Real".into(), ty: TypeId(u32::MAX), variants };
        module.data = vec![DataDef { variants: vec![], ..def.clone() }, def];
        if depth(&module.data[1].variants[1].1) <= limits::HOST_TYPE_DEPTH_MAX {
            assert_survives(&module);
        }
    }
}

#[test]
fn modules_without_canonical_pools_have_a_canonical_form() {
    let mut module = verified();
    for function in &mut module.functions {
        let mut regs = function.body.regs.clone();
        function.body.regs.append(&mut regs);
    }
    let canonical = verified();
    assert_eq!(read(&print(&module)), canonical);
    assert_eq!(decode(&encode(&module).expect("lists are in their pools")), Ok(canonical));
}

#[test]
fn lists_outside_of_pools_print_and_are_not_encoded() {
    let mut module = verified();
    let callee = module.function("callee").expect("the module has it").0;
    module.functions[callee.index()].body.targets.clear();
    assert_eq!(print_inst(&module, callee, 2), "switch <outside of the pool>");
    let error = encode(&module).unwrap_err();
    assert_eq!(error.to_string(), "function f2, instruction 2: an operand list is outside of its pool");
}

#[test]
fn instructions_print_alone() {
    let module = verified();
    assert_eq!(print_inst(&module, FuncId(2), 2), "switch i1, [L3, L4], L5");
    assert_eq!(print_inst(&module, FuncId(3), 0), "call f2 (i0, r0, i0) -> (r1)");
    let parallel: Vec<String> = (0..5).map(|inst| print_inst(&module, FuncId(8), inst)).collect();
    let expected = [
        "fork 3",
        "task f2 (i0, r0, i0) -> (r1)",
        "task f7 (i0, i0, r0) -> (p1)",
        "task f2 (i0, r0, i0) -> (r2)",
        "pmap p1, f7, i0 (r1)",
    ];
    assert_eq!(parallel, expected);
    assert_eq!(print_inst(&module, FuncId(3), 99), "<no instruction 99 in f3>");
    assert_eq!(print_inst(&module, FuncId(99), 0), "<no instruction 0 in f99>");
}

#[test]
fn names_of_functions_messages_and_labels_stand_for_their_numbers() {
    let by_name = read(
        "message m0 \"no\"
         func \"f\" (int) -> (int)
         regs 1 int
         { branch i0, zero, done
         zero: trap \"no\"
         done: tail_call \"g\" (i0)
         }
         func \"g\" (int) -> (int)
         regs 1 int
         { trap \"never\"\n}",
    );
    let by_number = read(
        "message m0 \"no\"
         message m1 \"never\"
         func f0 \"f\" (int) -> (int)
         regs 1 int
         {
         branch i0, 1, 2
         trap m0
         tail_call f1 (i0)
         }
         func f1 \"g\" (int) -> (int)
         regs 1 int
         {
         trap m1
         }",
    );
    assert_eq!(by_name, by_number);
}

#[test]
fn the_example_in_the_documentation_is_accepted() {
    let page = include_str!("../../docs/bytecode.md");
    let after_heading = page.split("\n## Text\n").nth(1).expect("the page has the section");
    let example = after_heading.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let module = read(&example.collect::<Vec<_>>().join("\n"));
    assert_eq!(module.functions[0].name, "length");
    assert_eq!(verify(&module), Ok(()));
    assert_survives(&module);
}

#[test]
fn the_documentation_is_that_of_the_last_version() {
    let page = include_str!("../../docs/bytecode.md");
    assert!(page.contains(&format!(
        "\nThe version says how to read everything after it. This page describes versions 1 to {VERSION}, "
    )));
    assert!(page.contains(&format!("\n| {VERSION} | ")) && !page.contains(&format!("\n| {} | ", VERSION + 1)));
}

#[test]
fn the_parallel_example_in_the_documentation_is_accepted() {
    let page = include_str!("../../docs/bytecode.md");
    let example = page.split("\nA whole module,").nth(1).expect("the page has the example");
    let lines = example.lines().skip_while(|line| !line.starts_with("    "));
    let module =
        read(&lines.take_while(|line| line.is_empty() || line.starts_with("    ")).collect::<Vec<_>>().join("\n"));
    assert_eq!(module.functions[2].name, "main");
    assert_eq!(verify(&module), Ok(()));
    assert_survives(&module);
}

#[test]
fn the_builder_and_the_chain_in_the_documentation_are_accepted() {
    let page = include_str!("../../docs/bytecode.md");
    for heading in ["\n## Builders\n", "\n## Chains\n"] {
        let example = page.split(heading).nth(1).expect("the page has the example");
        let lines = example.lines().skip_while(|line| !line.starts_with("    "));
        let module =
            read(&lines.take_while(|line| line.is_empty() || line.starts_with("    ")).collect::<Vec<_>>().join("\n"));
        assert_eq!(module.functions[0].name, "squares");
        assert_eq!(verify(&module), Ok(()));
        assert_survives(&module);
    }
}

/// The message, line and column, and help of each error.
fn errors(text: &str) -> Vec<(String, u32, u32, Option<String>)> {
    let errors = parse(text, "test.dvs").expect_err("the text has errors");
    errors.into_iter().map(|error| (error.message, error.line, error.column, error.help)).collect()
}

#[test]
fn syntax_errors_say_what_was_expected_and_where() {
    let code = |line: &str| format!("func \"f\" () -> ()\n{{\n  {line}\n  ret ()\n}}");
    let cases = [
        ("add i0, r1, r2", 7, "expected a real register, such as `r0`, found `i0`", None),
        ("add r0, r1", 13, "expected `,`, found the end of the line", None),
        ("add r0, r1,", 14, "expected operand `b`, found the end of the line", None),
        ("add r0 r1, r2", 10, "expected `,`, found `r1`", None),
        ("add r65536, r1, r2", 7, "expected a register number below 65536, found `r65536`", None),
        ("add r0, r1, r2, r3", 17, "expected the end of the line, found `,`", None),
        ("ad r0, r1, r2", 3, "there is no instruction `ad`", Some("did you mean `add`?")),
        ("closure_nwe p0, f0 ()", 3, "there is no instruction `closure_nwe`", Some("did you mean `closure_new`?")),
        ("quite_another_thing", 3, "there is no instruction `quite_another_thing`", None),
        ("const r0, 1e999", 13, "expected a real in the range of `f64`, `inf`, `-inf` or `nan`, found `1e999`", None),
        ("const r0, nan:0x1", 17, "expected the bits of a NaN, such as `0x7ff8000000000001`, found `0x1`", None),
        ("iconst i0, 9223372036854775808", 14, "expected an integer of 64 bits, found `9223372036854775808`", None),
        ("field r0, p0, 65536", 17, "expected a field number from 0 to 65535, found `65536`", None),
        ("jump lop", 8, "label `lop` is nowhere in this function", None),
        ("call \"g\" () -> ()", 8, "there is no function `\"g\"`", Some("did you mean \"f\"?")),
        (
            "call \"g () -> ()",
            8,
            "expected a function: `f0` or its name in quotes, found a string without an end",
            None,
        ),
        ("trap \"\\q\"", 9, "this escape means nothing", None),
        ("call f0 (r0 r1) -> ()", 15, "expected `,` or `)`, found `r1`", None),
        ("call f0 (r0) (r1)", 16, "expected `->`, found `(`", None),
        ("trace (r0)", 9, "expected a template, such as `s0`, found `(`", None),
        ("trace s0, (r0)", 11, "expected `(`, found `,`", None),
        ("trap_with s0", 15, "expected operand `values`, found the end of the line", None),
        ("fork", 7, "expected operand `count`, found the end of the line", None),
        ("fork r0", 8, "expected an integer of 64 bits, found `r0`", None),
        ("task (r0) -> (r0)", 8, "expected a function: `f0` or its name in quotes, found `(`", None),
        ("task \"g\" () -> ()", 8, "there is no function `\"g\"`", Some("did you mean \"f\"?")),
        ("pmap p0, f0 (r0)", 15, "expected `,`, found `(`", None),
        ("pmap p0, f0, r0 ()", 16, "expected an integer register, such as `i0`, found `r0`", None),
        ("pmap p0, f0, i0", 18, "expected operand `args`, found the end of the line", None),
        ("@1 ret ()", 6, "expected `:`, found `ret`", None),
        ("L1: L1: ret ()", 7, "label `L1` stands twice in this function", None),
        ("$", 3, "expected an instruction, a label or `}`, found `$`", None),
    ];
    for (line, column, message, help) in cases {
        let expected = vec![(message.to_owned(), 3, column, help.map(str::to_owned))];
        assert_eq!(errors(&code(line)), expected, "{line}");
    }
}

#[test]
fn errors_in_items_say_what_was_expected_and_where() {
    let cases = [
        (
            "tpye t0 = array real",
            1,
            "expected `module`, `library`, `inlined`, `type`, `data`, `message`, `template`, `import`, `traced` or `func`, \
             found `tpye`",
        ),
        ("type t1 = array real", 6, "expected `t0`, found `t1`"),
        (
            "type t0 = list real",
            11,
            "expected `struct`, `shaped`, `variant`, `array`, `builder`, `chain` or `closure`, found `list`",
        ),
        ("type t0 = array bool", 17, "expected `real`, `int` or a type, such as `t0`, found `bool`"),
        ("type t0 = struct { real", 24, "expected `,` or `}`, found the end of the text"),
        ("data d0 Shape t0", 9, "expected a string, found `Shape`"),
        ("data d1 \"Shape\" t0", 6, "expected `d0`, found `d1`"),
        ("data d0 \"Shape\" = A ()", 17, "expected the heap type, such as `t0`, found `=`"),
        (
            "data d0 \"Shape\" t0 = A () |",
            28,
            "expected the name of a constructor: a word or a string, found the end of the text",
        ),
        ("message m0 hello", 12, "expected a string, found `hello`"),
        ("template s1 ()", 10, "expected `s0`, found `s1`"),
        (
            "template s0 (x)",
            14,
            "expected `Real`, `Int`, `Bool`, `Array`, `List`, `Tensor`, `Data`, a tuple or a record, found `x`",
        ),
        ("template s0 (\"x\" Real)", 18, "expected `,` or `)`, found `Real`"),
        ("template s0 () by", 18, "expected a function: `f0` or its name in quotes, found the end of the text"),
        ("template s0 () by \"f\"", 19, "there is no function `\"f\"`"),
        ("traced f0 f1", 11, "expected `by`, found `f1`"),
        ("func f0 f () -> ()", 9, "expected a string, found `f`"),
        ("func \"f\" () -> () regs 2 reals {", 26, "expected `real` or `int`, found `reals`"),
        ("func \"f\" () -> () {", 20, "expected `}`, found the end of the text"),
        (
            "func \"f\" () -> () export (x : Rael) -> Real {}",
            31,
            "expected `Real`, `Int`, `Bool`, `Array`, `List`, `Tensor`, `Data`, a tuple or a record, found `Rael`",
        ),
    ];
    for (text, column, message) in cases {
        let found = &errors(text)[0];
        assert_eq!((found.0.as_str(), found.1, found.2), (message, 1, column), "{text}");
    }
}

#[test]
fn several_errors_are_reported_in_one_run() {
    let text = "type t0 = arr real
func \"f\" () -> ()
{
  ad r0, r1, r2
  jump nowhere
L2:
  jump L2
  bad
type t0 = array real
func \"g\" () -> ()
{
  rett ()
}";
    let lines: Vec<u32> = errors(text).into_iter().map(|error| error.1).collect();
    assert_eq!(lines, [1, 4, 5, 8, 9, 12]);
}

#[test]
fn carets_point_at_the_place_in_long_lines_and_after_tabs() {
    let error = &parse("\ttype t0 = λλ real", "a.dvs").unwrap_err()[0];
    let expected = "error: expected `struct`, `shaped`, `variant`, `array`, `builder`, `chain` or `closure`, found `λ`
 --> a.dvs:1:12
  |
1 |  type t0 = λλ real
  |            ^";
    assert_eq!(error.to_string(), expected);
    let long = format!("type t0 = struct {{ {} bad }}", "real, ".repeat(100_000));
    let error = &parse(&long, "a.dvs").unwrap_err()[0];
    assert_eq!((error.line, error.column), (1, 600_021));
    assert!(error.to_string().len() < 400);
}

#[test]
fn decode_errors_say_where_and_what() {
    let bytes = encode(&verified()).expect("lists are in their pools");
    let sections = &bytes[..bytes.len() - 1];
    let cases: [(Vec<u8>, &str); 12] = [
        (b"DVB".to_vec(), "byte 0 (magic number): expected 4 bytes, found 3 before the end"),
        (b"\x7fELF\x01\0".to_vec(), "byte 0 (magic number): expected `DVBC`, found `\\x7fELF`"),
        (b"DVBC\x0b\0".to_vec(), "byte 4 (format version): expected version 1 to 10, found version 11"),
        (b"DVBC\0\0".to_vec(), "byte 4 (format version): expected version 1 to 10, found version 0"),
        (
            b"DVBC\x02\0\0".to_vec(),
            "byte 4 (format version): expected version 1, the first with all instructions of the module, \
             found version 2",
        ),
        (
            [b"DVBC\x01\0", &bytes[6..]].concat(),
            "byte 4 (format version): expected version 10, the first with all instructions of the module, \
             found version 1",
        ),
        (
            [sections, &[6, 0]].concat(),
            &format!("byte {} (section): expected one that comes after imports, found code 6", sections.len()),
        ),
        (
            [&bytes[..], &[6, 0]].concat(),
            &format!("byte {} (end mark): expected the end of the file, found 2 bytes more", bytes.len()),
        ),
        (sections.to_vec(), &format!("byte {} (section): expected 1 bytes, found 0 before the end", sections.len())),
        (b"DVBC\x06\0\x08\x02\0\0\0".to_vec(), "byte 8 (texts): expected at least one entry, found none"),
        (
            b"DVBC\x06\0\x08\x04\x01\x01\x02\0\0\0".to_vec(),
            "byte 10 (piece of a template): expected a code of this version, found 2",
        ),
        (
            b"DVBC\x01\0\x01\x06\xff\xff\xff\xff\x0f\0".to_vec(),
            "byte 8 (types): expected at most 1, for no more bytes are left, found 4294967295",
        ),
    ];
    for (bytes, message) in cases {
        assert_eq!(decode(&bytes).unwrap_err().to_string(), message);
    }
}
