//! The verifier: for each rule what it refuses and what it says, and what is accepted.

mod built;
mod code;
mod modules;
#[path = "../support/mod.rs"]
mod support;

use built::{a_module, built_cases, function, push, wide_fork};
use code::{CODE_CASES, with_code};
use dualvm_vm::engine::{Config, Engine, Module};
use dualvm_vm::host::HostFunction;
use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{Body, Function, HostType, Interface, ModuleDef, TypeDef, ValueType};
use dualvm_vm::verify::{Rule, VerifyError, limits, verify};
use modules::{LINK_CASES, MODULE_CASES};
use std::time::{Duration, Instant};
use support::{read, verified};

/// Types that the cases below use.
const TYPES: &str = "
type t0 = struct { real, int }
type t1 = array real
type t2 = array t0
type t3 = builder real
type t4 = variant { None {}, Some { real, t1 } }
type t5 = closure (real) -> (int)
type t6 = struct { t1 }
type t7 = builder int
message m0 \"m\"
";

/// A rule, what breaks it, and the end of the message.
type Case = (Rule, &'static str, &'static str);

fn assert_refused(module: &ModuleDef, rule: Rule, message: &str, what: &str) {
    let errors = verify(module).expect_err(what);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(errors.iter().all(|error| error.rule == rule), "{rule:?}: {what}\n{}", found.join("\n"));
    assert!(found[0].contains(rule.message()), "{}", found[0]);
    assert!(found[0].ends_with(message) || found[0].contains(message), "{rule:?}: {what}\n{}", found[0]);
}

#[test]
fn code_that_breaks_a_rule_is_refused() {
    for &(rule, code, message) in CODE_CASES {
        assert_refused(&with_code(code), rule, message, code);
    }
}

#[test]
fn modules_that_break_a_rule_are_refused() {
    for &(rule, text, message) in MODULE_CASES {
        assert_refused(&read(&format!("{TYPES}{text}")), rule, message, text);
    }
}

#[test]
fn modules_whose_imports_are_not_given_are_refused() {
    let mut config = Config::default();
    config.linker.define("f", HostFunction::of(|x: f64| x));
    let engine = Engine::new(config);
    for &(rule, text, message) in LINK_CASES {
        let module = read(&format!("{TYPES}{text}"));
        assert_eq!(verify(&module), Ok(()), "{text}");
        let errors = Module::new(&engine, module).expect_err(text);
        assert!(errors.iter().all(|error| error.rule == rule), "{text}\n{}", errors[0]);
        assert!(errors[0].to_string().ends_with(message), "{}", errors[0]);
    }
}

#[test]
fn modules_that_only_a_program_can_build_are_refused() {
    for (rule, module, message) in built_cases() {
        assert_refused(&module, rule, message, message);
    }
}

#[test]
fn every_rule_has_a_case() {
    let built = built_cases();
    for &rule in Rule::ALL {
        let written = CODE_CASES.iter().chain(MODULE_CASES).chain(LINK_CASES).any(|case| case.0 == rule);
        assert!(written || built.iter().any(|case| case.0 == rule), "no case breaks {rule:?}");
    }
}

#[test]
fn sound_code_is_accepted() {
    let codes = [
        // Assignment on both branches, in a loop's body before its end, and by all targets of a switch.
        "branch i0, A, B\nA: mov r1, r0\njump E\nB: const r1, 1\njump E\nE: ret (r1)",
        "const r1, 0\nL: add r1, r1, r0\nbranch i0, L, E\nE: ret (r1)",
        "L: mov r1, r0\nbranch i0, L, E\nE: ret (r1)",
        "switch i0, [A, B, A], C\nA: mov r1, r0\njump E\nB: mov r1, r0\njump E\nC: trap m0\nE: ret (r1)",
        // Two loops into each other (irreducible).
        "mov r1, r0\nbranch i0, A, B\nA: add r1, r1, r1\nbranch i0, B, E\nB: mul r1, r1, r1\nbranch i0, A, E
         E: ret (r1)",
        // What can't be reached counts as having everything assigned, and takes nothing away from what can.
        "ret (r0)\nret (r1)",
        "mov r1, r0\njump E\njump E\nE: ret (r1)",
        "jump E\nU: jump E\nL: add r1, r1, r1\njump L\nE: mov r1, r0\nret (r1)",
        // A loop back to the first instruction keeps parameters.
        "add r0, r0, r0\nbranch i0, 0, E\nE: ret (r0)",
        // A result may go where an argument came from.
        "call f0 (r0, p0) -> (r0, i0)\nret (r0)",
        "finish p7, p3\nlen i1, p7\nret (r0)",
        "closure_new p11, f1 (p1)\ncall_closure p11 (r0) -> (i1)\nret (r0)",
        "@1:1 mov r1, r0\n@2:7\nret (r1)",
        // Tasks take what others return to: arguments are read before any task begins.
        "fork 2\ntask f1 (p1, r0) -> (i1)\ntask f0 (r0, p0) -> (r0, i0)\nret (r0)",
        "fork 1\ntask f0 (r0, p0) -> (r0, i0)\nfork 1\ntask f0 (r0, p0) -> (r0, i0)\nret (r0)",
        // A loop may lead back to a fork, and locations may stand inside of a group.
        "L: fork 1\n@1:1\ntask f0 (r0, p0) -> (r0, i0)\n@2:1\nbranch i0, L, E\nE: ret (r0)",
    ];
    for code in codes {
        if let Err(errors) = verify(&with_code(code)) {
            panic!("{code}\n{}", errors[0]);
        }
    }
}

#[test]
fn the_largest_of_everything_is_accepted() {
    let reals = |count| vec![ValueType::Real; count];
    let mut largest = function("x".repeat(65535).as_str(), |body| {
        (body.reals, body.ints) = (65000, 65000);
        push(body, Op::Const, &[Operand::Def(Reg::real(64999)), Operand::Real(0.0)]);
        push(body, Op::Ret, &[Operand::Uses(vec![Reg::real(64999); 4096])]);
    });
    largest.params = reals(4096);
    largest.results = reals(4096);
    let deep = (1..limits::HOST_TYPE_DEPTH_MAX).fold(HostType::Real, |inner, _| HostType::Tuple(vec![inner]));
    let mut identity = read("func \"id\" (real) -> (real)\nregs 1 real\n{\nret (r0)\n}").functions.remove(0);
    identity.interface = Some(Interface { params: vec![("x".into(), deep.clone())], result: deep });
    let module = ModuleDef {
        types: vec![TypeDef::Struct(reals(255))],
        functions: vec![largest, identity],
        ..ModuleDef::default()
    };
    assert_eq!(verify(&module), Ok(()));
    assert_eq!(verify(&wide_fork(limits::FORK_TASKS_MAX, 64, 0)), Ok(()));
    assert_eq!(verify(&wide_fork(4, 4096, 4096)), Ok(()));
}

#[test]
fn several_forks_are_looked_at_in_one_run() {
    let task = "task f1 (p1, r0) -> (i1)";
    let module = with_code(&format!("fork 0\n{task}\nfork 2\n{task}\n{task}\n{task}\nfork 3\n{task}\nret (r0)"));
    let errors = verify(&module).unwrap_err();
    let places: Vec<_> = errors.iter().map(|error| (error.rule, error.inst)).collect();
    let expected = [
        (Rule::ForkCount, Some(0)),
        (Rule::TaskResults, Some(4)),
        (Rule::TaskPlace, Some(5)),
        (Rule::ForkTasks, Some(6)),
    ];
    assert_eq!(places, expected);
}

#[test]
fn interfaces_of_arrays_are_accepted() {
    let text = "
        type t0 = struct {}
        type t1 = array t0
        type t2 = array real
        type t3 = struct { t2, int }
        type t4 = array t3
        type t5 = array t4
        func \"f\" (t1, t5) -> (t2)
          export (units : Array () @t1, rows : Array (Array (Array Real @t2, Bool) @t4) @t5)
            -> { only : Array { x : Real } @t2 }
          regs t1, t5, t2
        {
          trap \"no\"
        }";
    assert_eq!(verify(&read(text)), Ok(()));
}

#[test]
fn matrices_and_tensors_are_accepted() {
    let text = "
        type t0 = array real
        type t1 = shaped { t0, int, int }
        type t2 = shaped { t0, int, int, int }
        type t3 = struct { t0, real }
        type t4 = array t3
        type t5 = shaped { t4, int, int }
        type t6 = variant { Nil {}, Cons { t5, t6 } }
        func \"f\" (t1, t2, t6) -> (t1)
          export (pairs : Tensor (Array (Real, Real) @t0) @t1, cubes : Tensor (Tensor (Array Real @t0) @t1) @t2,
              tables : List (Tensor (Array (Array Real @t0, Real) @t4) @t5) @t6)
            -> { only : Tensor (Array Real @t0) @t1 }
          regs t1, t2, t6
        {
          trap \"no\"
        }";
    assert_eq!(verify(&read(text)), Ok(()));
}

#[test]
fn lists_and_recursive_data_types_are_accepted() {
    let text = "
        type t0 = variant { Leaf { real }, Node { t1, int } }
        type t1 = variant { None {}, Some { t0, t1 } }
        type t2 = variant {}
        type t3 = variant { \"\" {}, \"\" { real, int, t1, t3 } }
        type t4 = variant { A { t3, t4, t0 } }
        data d0 \"Tree\" t0 = Leaf { x : Real } | Node (Data \"Forest\" @d1, Bool)
        data d1 \"Forest\" t1 = Empty () | Trees { first : Data \"Tree\" @d0, rest : Data \"Forest\" @d1 }
        data d2 \"Never\" t2
        data d3 \"Again\" t0 = Leaf (Real) | Node (List (Data \"Again\" @d3) @t1, Int)
        data d4 \"Deep\" t4 = A (List ((Real, Int), List (Data \"Tree\" @d0) @t1) @t3, Data \"Deep\" @d4, Data \"Tree\" @d0)
        func \"f\" (t0, t3, t2) -> (t1)
          export (tree : Data \"Tree\" @d0, rows : List (Real, Bool, Data \"Forest\" @d1) @t3, never : Data \"Never\" @d2)
            -> List (Data \"Tree\" @d0) @t1
          regs t0, t3, t2, t1
        {
          trap \"no\"
        }";
    assert_eq!(verify(&read(text)), Ok(()));
}

#[test]
fn errors_are_collected_with_their_places() {
    let module = with_code("mov r2, r0\nret (i0)");
    let errors = verify(&module).unwrap_err();
    let places: Vec<_> = errors.iter().map(|error| (error.rule, error.inst)).collect();
    assert_eq!(places, [(Rule::RegisterBounds, Some(0)), (Rule::Results, Some(1))]);
    let expected = "function f2 \"f\", instruction 0 (`mov r2, r0`): there is no such register: \
                    expected one of r0 to r1, found r2";
    assert_eq!(errors[0].to_string(), expected);
    let many = with_code(&"mov r2, r0\n".repeat(1000));
    assert_eq!(verify(&many).unwrap_err().len(), limits::ERRORS_MAX);
}

#[test]
fn an_unassigned_register_is_reported_once_where_it_is_read_first() {
    let module = with_code("branch i0, A, B\nA: add r1, r1, r1\njump B\nB: ret (r1)");
    let errors: Vec<VerifyError> = verify(&module).unwrap_err();
    assert_eq!(errors.iter().map(|error| error.inst).collect::<Vec<_>>(), [Some(1)]);
}

/// A function like a compiler's: blocks that skip each other and loop back to the first, and read each other's
/// registers.
fn large(blocks: u32, insts_per_block: u32, registers: u32) -> ModuleDef {
    let mut body = Body { reals: registers, ints: 1, ..Body::default() };
    let reg = |n: u32| Reg { bank: Bank::Real, index: (n % registers) as u16 };
    for n in 0..registers {
        push(&mut body, Op::Const, &[Operand::Def(reg(n)), Operand::Real(1.0)]);
    }
    let first = body.code.len() as u32;
    let mut next = 0;
    let start_of = |block: u32| first + block.min(blocks) * insts_per_block;
    for block in 0..blocks {
        for _ in 0..insts_per_block - 1 {
            let [a, b, c] = [next, next + registers / 2, next + 7].map(reg);
            push(&mut body, Op::Add, &[Operand::Def(a), Operand::Use(b), Operand::Use(c)]);
            next += 1;
        }
        let back = block % 100 == 99;
        let (then, other) = if back { (first, block + 1) } else { (start_of(block + 1), block + 2) };
        let operands = [Operand::Use(Reg::int(0)), Operand::Target(then), Operand::Target(start_of(other))];
        push(&mut body, Op::Branch, &operands);
    }
    push(&mut body, Op::Ret, &[Operand::Uses(vec![reg(0)])]);
    let params = vec![ValueType::Int];
    a_module(Function { name: "large".into(), params, results: vec![ValueType::Real], interface: None, body })
}

#[test]
fn a_large_function_takes_well_under_a_second() {
    let module = large(5000, 20, 20_000);
    assert!(module.functions[0].body.code.len() > 100_000);
    let start = Instant::now();
    assert_eq!(verify(&module), Ok(()));
    let time = start.elapsed();
    println!("verified in {time:?}");
    assert!(time < Duration::from_secs(1), "{time:?}");
}

#[test]
fn every_instruction_is_accepted_somewhere() {
    assert_eq!(verify(&verified()), Ok(()));
}
