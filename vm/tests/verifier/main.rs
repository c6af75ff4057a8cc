//! The verifier: for each rule what it refuses and what it says, and what is accepted.

mod support;

use dualvm_vm::isa::{Bank, Op, Operand, Reg};
use dualvm_vm::module::{
    Body, DataDef, Function, HostType, Interface, Location, ModuleDef, TypeDef, TypeId, ValueType, VariantDef,
};
use dualvm_vm::verify::{Rule, VerifyError, limits, verify};
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

/// A type whose variants but one lead to an object of the same type by their last field, and its chains.
const CHAIN: &str = "
type t8 = chain t9
type t9 = variant { Nil {}, Cons { real, t9 }, Last { t9, real } }
";

/// Functions that the cases below call; the function under test is `f2`.
const CALLEES: &str = "
func f0 \"callee\" (real, t0) -> (real, int)
  regs 1 real, 1 int, t0
{
  iconst i0, 1
  ret (r0, i0)
}
func f1 \"body\" (t1, real) -> (int)
  regs 1 real, 1 int, t1
{
  len i0, p0
  ret (i0)
}
";

/// A rule, what breaks it, and the end of the message.
type Case = (Rule, &'static str, &'static str);

/// Lines of code for a function `(real, int, t0, t1, t2, t3, t4, t5) -> (real)` with parameters in `r0`, `i0` and `p0`
/// to `p5`, and registers `r1`, `i1`, `p6` to `p11` of the types of `p0` to `p5`, and `p12` and `p13` of `t8` and `t9`.
const CODE_CASES: &[Case] = &[
    (Rule::RegisterBounds, "mov r2, r0\nret (r0)", "expected one of r0 to r1, found r2"),
    (Rule::RegisterBounds, "imov i0, i2\nret (r0)", "expected one of i0 to i1, found i2"),
    (Rule::RegisterBounds, "pmov p99, p0\nret (r0)", "expected one of p0 to p13, found p99"),
    (Rule::RegisterBounds, "ret (r7)", "(`ret (r7)`): there is no such register: expected one of r0 to r1, found r7"),
    (Rule::RegisterBounds, "call f0 (r0, p0) -> (r1, i9)\nret (r0)", "expected one of i0 to i1, found i9"),
    (Rule::TargetBounds, "jump 1", "expected an instruction below 1, found 1"),
    (Rule::TargetBounds, "branch i0, 0, 2\nret (r0)", "expected an instruction below 2, found 2"),
    (
        Rule::TargetBounds,
        "switch i0, [0, 1, 4000000000], 0\nret (r0)",
        "expected an instruction below 2, found 4000000000",
    ),
    (Rule::TargetBounds, "switch i0, [], 2\nret (r0)", "expected an instruction below 2, found 2"),
    (Rule::FunctionBounds, "tail_call f3 ()", "expected one of f0 to f2, found f3"),
    (Rule::FunctionBounds, "closure_new p11, f9 ()\nret (r0)", "expected one of f0 to f2, found f9"),
    (Rule::MessageBounds, "trap m1", "expected one of m0 to m0, found m1"),
    (
        Rule::DuplicateResult,
        "call f0 (r0, p0) -> (r1, r1)\nret (r0)",
        "expected a register of its own for each result, found r1 twice",
    ),
    (
        Rule::FallsOff,
        "mov r1, r0",
        "(`mov r1, r0`): control falls off the end of the code: \
         expected a terminator as the last instruction, found `mov`",
    ),
    (Rule::FallsOff, "ret (r0)\ncall f0 (r0, p0) -> (r1, i0)", "found `call`"),
    (Rule::Locations, "@0:1\nret (r0)", "expected line and column counted from 1, found 0:1"),
    (Rule::Locations, "@1:1\n@1:2\nret (r0)", "expected ascending instructions below 1, found 0"),
    (Rule::Locations, "ret (r0)\n@1:1", "expected ascending instructions below 1, found 1"),
    (Rule::Arguments, "call f0 (r0) -> (r1, i0)\nret (r0)", "expected 2 registers, found 1"),
    (Rule::Arguments, "call f0 (r0, p1) -> (r1, i0)\nret (r0)", "expected t0 at position 1, found t1 in p1"),
    (Rule::Arguments, "tail_call f2 (r0)", "expected 8 registers, found 1"),
    (Rule::Arguments, "call_closure p5 (i0) -> (i0)\nret (r0)", "expected real at position 0, found int in i0"),
    (Rule::Arguments, "tail_call_closure p5 ()", "expected 1 registers, found 0"),
    (Rule::Results, "call f0 (r0, p0) -> (r1)\nret (r0)", "expected 2 registers, found 1"),
    (Rule::Results, "call f0 (r0, p0) -> (i0, r1)\nret (r0)", "expected real at position 0, found int in i0"),
    (Rule::Results, "call_closure p5 (r0) -> (r1)\nret (r0)", "expected int at position 0, found real in r1"),
    (Rule::Results, "ret ()", "expected 1 registers, found 0"),
    (Rule::Results, "ret (i0)", "expected real at position 0, found int in i0"),
    (Rule::TailResults, "tail_call f0 (r0, p0)", "expected 1 results, found 2"),
    (Rule::TailResults, "tail_call_closure p5 (r0)", "expected real at position 0 of results, found int"),
    (Rule::ObjectKind, "struct_new p7 ()\nret (r0)", "expected a struct in p7, found an array (t1)"),
    (Rule::ObjectKind, "field r1, p1, 0\nret (r0)", "expected a struct in p1, found an array (t1)"),
    (Rule::ObjectKind, "variant_new p6, 0 ()\nret (r0)", "expected a variant in p6, found a struct (t0)"),
    (Rule::ObjectKind, "variant_tag i0, p5\nret (r0)", "expected a variant in p5, found a closure (t5)"),
    (Rule::ObjectKind, "payload r1, p3, 0, 0\nret (r0)", "expected a variant in p3, found a builder (t3)"),
    (Rule::ObjectKind, "call_closure p4 (r0) -> (i0)\nret (r0)", "expected a closure in p4, found a variant (t4)"),
    (Rule::ObjectKind, "tail_call_closure p0 (r0)", "expected a closure in p0, found a struct (t0)"),
    (Rule::ObjectKind, "closure_new p6, f1 (p1)\nret (r0)", "expected a closure in p6, found a struct (t0)"),
    (Rule::ObjectKind, "len i0, p3\nret (r0)", "expected an array in p3, found a builder (t3)"),
    (Rule::ObjectKind, "elem r1, p0, i0\nret (r0)", "expected an array in p0, found a struct (t0)"),
    (Rule::ObjectKind, "pack p9 (r0)\nret (r0)", "expected an array in p9, found a builder (t3)"),
    (Rule::ObjectKind, "build p7, i0\nret (r0)", "expected a builder in p7, found an array (t1)"),
    (Rule::ObjectKind, "push p1, r0\nret (r0)", "expected a builder in p1, found an array (t1)"),
    (Rule::ObjectKind, "finish p7, p1\nret (r0)", "expected a builder in p1, found an array (t1)"),
    (Rule::ObjectKind, "finish p9, p3\nret (r0)", "expected an array in p9, found a builder (t3)"),
    (Rule::ObjectKind, "chain_new p9\nret (r0)", "expected a chain in p9, found a builder (t3)"),
    (Rule::ObjectKind, "chain_push p9, p3, 1 (r0)\nret (r0)", "expected a chain in p3, found a builder (t3)"),
    (Rule::ObjectKind, "chain_finish p10, p4, p4\nret (r0)", "expected a chain in p4, found a variant (t4)"),
    (Rule::ObjectKind, "len i1, p12\nret (r0)", "expected an array in p12, found a chain (t8)"),
    (Rule::Parts, "chain_new p12\nchain_push p12, p12, 1 ()\nret (r0)", "expected 1 registers, found 0"),
    (Rule::Parts, "chain_new p12\nchain_push p12, p12, 1 (r0, p13)\nret (r0)", "expected 1 registers, found 2"),
    (
        Rule::ChainLink,
        "chain_new p12\nchain_push p12, p12, 0 ()\nret (r0)",
        "expected a variant whose last field is t9, found one without fields",
    ),
    (
        Rule::ChainLink,
        "chain_new p12\nchain_push p12, p12, 2 (p13)\nret (r0)",
        "expected a variant whose last field is t9, found real",
    ),
    (Rule::TagBounds, "chain_new p12\nchain_push p12, p12, 3 (r0)\nret (r0)", "expected a tag below 3, found 3"),
    (Rule::SameType, "chain_new p12\nchain_push p9, p12, 1 (r0)\nret (r0)", "expected t3 as in p9, found t8 in p12"),
    (Rule::PartType, "chain_new p12\nchain_finish p10, p12, p13\nret (r0)", "expected t9, found t4 in p10"),
    (Rule::PartType, "chain_new p12\nchain_finish p13, p12, p4\nret (r0)", "expected t9, found t4 in p4"),
    (Rule::Assignment, "chain_push p12, p12, 1 (r0)\nret (r0)", "expected a write to p12 on every path"),
    (
        Rule::BuilderPlace,
        "chain_new p12\nclosure_new p11, f1 (p12)\nret (r0)",
        "expected no builder among the captures, found p12 of type t8, a builder",
    ),
    (Rule::Parts, "struct_new p6 (r0)\nret (r0)", "expected 2 registers, found 1"),
    (Rule::Parts, "struct_new p6 (i0, r0)\nret (r0)", "expected real at position 0, found int in i0"),
    (Rule::Parts, "variant_new p10, 0 (r0)\nret (r0)", "expected 0 registers, found 1"),
    (Rule::Parts, "variant_new p10, 1 (r0, p0)\nret (r0)", "expected t1 at position 1, found t0 in p0"),
    (Rule::Parts, "pack p7 (r0, i0)\nret (r0)", "expected real at position 1, found int in i0"),
    (Rule::TagBounds, "variant_new p10, 2 ()\nret (r0)", "expected a tag below 2, found 2"),
    (Rule::TagBounds, "payload r1, p4, 2, 0\nret (r0)", "expected a tag below 2, found 2"),
    (Rule::RowWidth, "row i1, p2, i0, 0\nret (r0)", "expected 1 to 65535 elements in a row, found 0"),
    (Rule::RowWidth, "row i1, p2, i0, 65536\nret (r0)", "expected 1 to 65535 elements in a row, found 65536"),
    (Rule::FieldBounds, "field r1, p0, 2\nret (r0)", "expected a field below 2, found 2"),
    (Rule::FieldBounds, "payload r1, p4, 0, 0\nret (r0)", "expected a field below 0, found 0"),
    (Rule::FieldBounds, "ppayload p7, p4, 1, 2\nret (r0)", "expected a field below 2, found 2"),
    (Rule::PartType, "field r1, p0, 1\nret (r0)", "expected int, found real in r1"),
    (Rule::PartType, "ifield i1, p0, 0\nret (r0)", "expected real, found int in i1"),
    (Rule::PartType, "pfield p7, p0, 0\nret (r0)", "expected real, found t1 in p7"),
    (Rule::PartType, "ipayload i1, p4, 1, 0\nret (r0)", "expected real, found int in i1"),
    (Rule::PartType, "ppayload p6, p4, 1, 1\nret (r0)", "expected t1, found t0 in p6"),
    (Rule::PartType, "ielem i1, p1, i0\nret (r0)", "expected real, found int in i1"),
    (Rule::PartType, "elem r1, p2, i0\nret (r0)", "expected t0, found real in r1"),
    (Rule::PartType, "pelem p7, p2, i0\nret (r0)", "expected t0, found t1 in p7"),
    (Rule::PartType, "ipush p3, i0\nret (r0)", "expected real, found int in i0"),
    (Rule::PartType, "ppush p3, p0\nret (r0)", "expected real, found t0 in p0"),
    (Rule::SameType, "pmov p6, p1\nret (r0)", "expected t0 as in p6, found t1 in p1"),
    (Rule::SameType, "pselect p6, i0, p0, p1\nret (r0)", "expected t0 as in p6, found t1 in p1"),
    (Rule::SameType, "pselect p6, i0, p1, p0\nret (r0)", "expected t0 as in p6, found t1 in p1"),
    (Rule::SameType, "finish p8, p3\nret (r0)", "expected an array of real, found an array of t0"),
    (Rule::ClosureSignature, "closure_new p11, f1 ()\nret (r0)", "expected 1 captures and parameters, found 2"),
    (
        Rule::ClosureSignature,
        "closure_new p11, f1 (p0)\nret (r0)",
        "expected t0 at position 0 of captures and parameters, found t1",
    ),
    (
        Rule::ClosureSignature,
        "closure_new p11, f0 (r0)\nret (r0)",
        "expected real at position 1 of captures and parameters, found t0",
    ),
    (
        Rule::BuilderPlace,
        "closure_new p11, f1 (p3)\nret (r0)",
        "expected no builder among the captures, found p3 of type t3, a builder",
    ),
    (
        Rule::Arguments,
        "fork 1\ntask f0 (r0, p1) -> (r1, i1)\nret (r0)",
        "(`task f0 (r0, p1) -> (r1, i1)`): the arguments don't fit: expected t0 at position 1, found t1 in p1",
    ),
    (Rule::Results, "fork 1\ntask f0 (r0, p0) -> (r1)\nret (r0)", "expected 2 registers, found 1"),
    (Rule::DuplicateResult, "fork 1\ntask f0 (r0, p0) -> (r1, r1)\nret (r0)", "found r1 twice"),
    (
        Rule::ForkCount,
        "fork 0\nret (r0)",
        "(`fork 0`): the number of tasks is out of range: expected 1 to 256 tasks, found 0",
    ),
    (Rule::ForkCount, "fork -1\ntask f1 (p1, r0) -> (i1)\nret (r0)", "expected 1 to 256 tasks, found -1"),
    (Rule::ForkCount, "fork 257\ntask f1 (p1, r0) -> (i1)\nret (r0)", "expected 1 to 256 tasks, found 257"),
    (Rule::ForkCount, "fork 9223372036854775807\nret (r0)", "found 9223372036854775807"),
    (
        Rule::ForkTasks,
        "fork 2\ntask f1 (p1, r0) -> (i1)\nret (r0)",
        "instruction 0 (`fork 2`): a fork has too few tasks: \
         expected 2 `task` instructions right after the fork, found 1",
    ),
    (
        Rule::ForkTasks,
        "fork 2\ntask f1 (p1, r0) -> (i1)\nmov r1, r0\nret (r0)",
        "expected 2 `task` instructions right after the fork, found 1",
    ),
    (Rule::ForkTasks, "fork 1\nfork 1\ntask f1 (p1, r0) -> (i1)\nret (r0)", "instruction 0 (`fork 1`)"),
    (Rule::FallsOff, "fork 1\ntask f1 (p1, r0) -> (i1)", "expected a terminator as the last instruction, found `task`"),
    (Rule::FallsOff, "ret (r0)\nfork 1", "expected a terminator as the last instruction, found `fork`"),
    (
        Rule::TaskPlace,
        "task f1 (p1, r0) -> (i1)\nret (r0)",
        "instruction 0 (`task f1 (p1, r0) -> (i1)`): a task belongs to no fork: \
         expected tasks right after their fork only, found one task more",
    ),
    (
        Rule::TaskPlace,
        "fork 1\ntask f1 (p1, r0) -> (i1)\ntask f1 (p1, r0) -> (i0)\nret (r0)",
        "instruction 2 (`task f1 (p1, r0) -> (i0)`): a task belongs to no fork",
    ),
    (
        Rule::TaskTarget,
        "jump 2\nfork 1\ntask f1 (p1, r0) -> (i1)\nret (r0)",
        "instruction 0 (`jump L2`): a jump leads to a task: \
         expected a target that is not inside of a group, found 2, a task",
    ),
    (Rule::TaskTarget, "branch i0, 1, 2\nfork 1\ntask f1 (p1, r0) -> (i1)\nret (r0)", "found 2, a task"),
    (Rule::TaskTarget, "switch i0, [1, 2], 1\nfork 1\ntask f1 (p1, r0) -> (i1)\nret (r0)", "found 2, a task"),
    (Rule::TaskTarget, "switch i0, [1, 1], 2\nfork 1\ntask f1 (p1, r0) -> (i1)\nret (r0)", "found 2, a task"),
    (Rule::TaskTarget, "fork 1\ntask f1 (p1, r0) -> (i1)\njump 1", "instruction 2 (`jump L1`)"),
    (
        Rule::TaskArguments,
        "fork 2\ntask f0 (r0, p0) -> (r1, i0)\ntask f1 (p1, r1) -> (i1)\nret (r0)",
        "expected arguments that are there before the fork, found r1, a result of a task before it",
    ),
    (
        Rule::TaskResults,
        "fork 3\ntask f1 (p1, r0) -> (i1)\ntask f0 (r0, p0) -> (r1, i0)\ntask f1 (p1, r0) -> (i1)\nret (r0)",
        "instruction 3 (`task f1 (p1, r0) -> (i1)`): a register takes results of two tasks: \
         expected a register of its own for each result of a fork's tasks, found i1, which has one of a task before it",
    ),
    (
        Rule::TaskBuilder,
        "fork 1\ntask f2 (r0, i0, p0, p1, p2, p3, p4, p5) -> (r1)\nret (r0)",
        "a builder goes to a task or comes from one: expected no builder among parameters and results, \
         found t3, a builder",
    ),
    (Rule::ObjectKind, "pmap p6, f0, i0 ()\nret (r0)", "expected an array in p6, found a struct (t0)"),
    (
        Rule::MapSignature,
        "pmap p7, f1, i0 (r0)\nret (r0)",
        "(`pmap p7, f1, i0 (r0)`): the function doesn't fit the parallel map: \
         expected parameters that begin with int, int, found (t1, real)",
    ),
    (Rule::SameType, "pdetach p6, p1\nret (r0)", "expected t0 as in p6, found t1 in p1"),
    (
        Rule::DetachedBuilder,
        "pdetach p9, p3\nret (r0)",
        "a builder is made a constant: expected an object that is complete, found t3, a builder, in p3",
    ),
    (Rule::DetachedBuilder, "chain_new p12\npdetach p12, p12\nret (r0)", "found t8, a builder, in p12"),
    (Rule::CaptureCount, "jvp f0, 3 (r0, p0) -> (r1, i1)\nret (r0)", "expected at most 2 captures, found 3"),
    (Rule::CaptureCount, "vjp f0, 65535 (r0, p0) -> (r1, i1)\nret (r0)", "expected at most 2 captures, found 65535"),
    // Two arguments, and a tangent of each; two results, and a tangent of the real one.
    (Rule::Arguments, "jvp f0, 0 (r0, p0, r0) -> (r1, i1, r0)\nret (r0)", "expected 4 registers, found 3"),
    (
        Rule::Arguments,
        "jvp f0, 0 (r0, p0, p0, r0) -> (r1, i1, r0)\nret (r0)",
        "expected real at position 2, found t0 in p0",
    ),
    (
        Rule::Arguments,
        "jvp f0, 1 (r0, p0, r0) -> (r1, i1, r0)\nret (r0)",
        "expected t0 at position 2, found real in r0",
    ),
    (Rule::Arguments, "jvp f0, 2 (r0, p0, p0) -> (r1, i1, r0)\nret (r0)", "expected 2 registers, found 3"),
    (Rule::Results, "jvp f0, 2 (r0, p0) -> (r1, i1)\nret (r0)", "expected 3 registers, found 2"),
    (Rule::Results, "jvp f0, 2 (r0, p0) -> (r1, i1, i0)\nret (r0)", "expected real at position 2, found int in i0"),
    (Rule::DuplicateResult, "jvp f0, 2 (r0, p0) -> (r1, i1, r1)\nret (r0)", "found r1 twice"),
    // The other way round: a cotangent of the real result comes in, and one of each argument goes out.
    (Rule::Arguments, "vjp f0, 0 (r0, p0) -> (r1, i1, r0, p6)\nret (r0)", "expected 3 registers, found 2"),
    (
        Rule::Arguments,
        "vjp f0, 0 (r0, p0, i0) -> (r1, i1, r0, p6)\nret (r0)",
        "expected real at position 2, found int in i0",
    ),
    (Rule::Results, "vjp f0, 0 (r0, p0, r0) -> (r1, i1, r0)\nret (r0)", "expected 4 registers, found 3"),
    (Rule::Results, "vjp f0, 1 (r0, p0, r0) -> (r1, i1, p7)\nret (r0)", "expected t0 at position 2, found t1 in p7"),
    (Rule::FunctionBounds, "jvp f3, 0 () -> ()\nret (r0)", "expected one of f0 to f2, found f3"),
    (Rule::Assignment, "jvp f0, 2 (r1, p0) -> (r1, i1, r0)\nret (r0)", "expected a write to r1 on every path"),
    (
        Rule::OperatorBuilder,
        "jvp f2, 8 (r0, i0, p0, p1, p2, p3, p4, p5) -> (r1, r0)\nret (r0)",
        "a builder goes to an operator or comes from one: expected no builder among parameters and results, \
         found t3, a builder",
    ),
    (
        Rule::Assignment,
        "ret (r1)",
        "(`ret (r1)`): a register is read that is not assigned on every path: \
         expected a write to r1 on every path to here, found a path without one",
    ),
    (
        Rule::Assignment,
        "iadd i1, i1, i0\nret (r0)",
        "expected a write to i1 on every path to here, found a path without one",
    ),
    (Rule::Assignment, "call f0 (r1, p0) -> (r1, i1)\nret (r1)", "expected a write to r1 on every path"),
    (Rule::Assignment, "push p9, r0\nret (r0)", "expected a write to p9 on every path"),
    (
        Rule::Assignment,
        "branch i0, A, B\nA: mov r1, r0\njump B\nB: ret (r1)",
        "instruction 3 (`ret (r1)`): a register is read",
    ),
    (Rule::Assignment, "L: branch i0, A, B\nA: mov r1, r0\njump L\nB: ret (r1)", "expected a write to r1"),
    (Rule::Assignment, "L: mov r1, r1\nbranch i0, L, E\nE: ret (r0)", "instruction 0 (`mov r1, r1`)"),
    (
        Rule::Assignment,
        "switch i0, [A, B], C\nA: mov r1, r0\njump E\nB: mov r1, r0\njump E\nC: jump E\nE: ret (r1)",
        "expected a write to r1",
    ),
];

/// Whole modules, or what follows the types above.
const MODULE_CASES: &[Case] = &[
    (
        Rule::FunctionName,
        "func \"a\" () -> ()\n{ ret ()\n}\nfunc \"a\" () -> ()\n{ ret ()\n}",
        "expected a name of its own for each function, found \"a\" for f0 and f1",
    ),
    (Rule::UnknownType, "type t8 = struct { real, t9 }", "expected one of 9 types in t8, found t9"),
    (Rule::UnknownType, "type t8 = variant { A { t9 } }", "expected one of 9 types in t8, found t9"),
    (Rule::UnknownType, "type t8 = array t99", "expected one of 9 types in t8, found t99"),
    (Rule::UnknownType, "type t8 = closure (real) -> (t9)", "expected one of 9 types in t8, found t9"),
    (
        Rule::UnknownType,
        "func \"a\" (t8) -> ()\nregs t8\n{ ret ()\n}",
        "expected one of 8 types in the signature, found t8",
    ),
    (Rule::UnknownType, "func \"a\" () -> (t8)\n{ trap m0\n}", "expected one of 8 types in the signature, found t8"),
    (
        Rule::UnknownType,
        "func \"a\" () -> ()\nregs t0, t8\n{ ret ()\n}",
        "expected one of 8 types in a register, found t8",
    ),
    (
        Rule::UnknownType,
        "func \"a\" (t1) -> ()\nexport (x : Array Real @t8) -> ()\nregs t1\n{ ret ()\n}",
        "expected one of 8 types in the interface, found t8",
    ),
    (Rule::BuilderPlace, "type t8 = struct { real, t3 }", "expected no builder in t8, found t3, a builder"),
    (Rule::BuilderPlace, "type t8 = variant { A {}, B { t7 } }", "expected no builder in t8, found t7, a builder"),
    (Rule::BuilderPlace, "type t8 = array t3", "expected no builder in t8, found t3, a builder"),
    (Rule::BuilderPlace, "type t8 = builder t3", "expected no builder in t8, found t3, a builder"),
    (Rule::BuilderPlace, "type t8 = chain t4\ntype t9 = array t8", "expected no builder in t9, found t8, a builder"),
    (Rule::ChainType, "type t8 = chain t0", "expected a variant in t8, found t0, another kind of type"),
    (Rule::UnknownType, "type t8 = chain t9", "expected one of 9 types in t8, found t9"),
    (
        Rule::TaskBuilder,
        "type t8 = variant { A { t8 } }\ntype t9 = chain t8
         func \"g\" (t9) -> ()\nregs t9\n{ ret ()\n}
         func \"f\" (t9) -> ()\nregs t9\n{\nfork 1\ntask \"g\" (p0) -> ()\nret ()\n}",
        "expected no builder among parameters and results, found t9, a builder",
    ),
    (Rule::BuilderPlace, "type t8 = closure (t3) -> ()", "expected no builder in t8, found t3, a builder"),
    (Rule::BuilderPlace, "type t8 = closure () -> (t3)", "expected no builder in t8, found t3, a builder"),
    (
        Rule::RegisterCount,
        "func \"a\" () -> ()\nregs 65537 real\n{ ret ()\n}",
        "expected at most 65000 registers `r`, found 65537",
    ),
    (
        Rule::RegisterCount,
        "func \"a\" () -> ()\nregs 4294967295 int\n{ ret ()\n}",
        "expected at most 65000 registers `i`, found 4294967295",
    ),
    (
        Rule::ParamRegisters,
        "func \"a\" (real, real) -> ()\nregs 1 real\n{ ret ()\n}",
        "expected 2 registers `r` or more, found 1",
    ),
    (Rule::ParamRegisters, "func \"a\" (t0) -> ()\n{ ret ()\n}", "expected 1 registers `p` or more, found 0"),
    (Rule::ParamType, "func \"a\" (t0, t1) -> ()\nregs t0, t0\n{ ret ()\n}", "expected t1 in p1, found p1 of type t0"),
    (
        Rule::InterfaceName,
        "func \"a\" (real, real) -> ()\nexport (x : Real, x : Real) -> ()\nregs 2 real\n{ ret ()\n}",
        "expected different names, found \"x\" twice",
    ),
    (
        Rule::InterfaceName,
        "func \"a\" (real, real) -> ()\nexport (p : { x : Real, x : Real }) -> ()\nregs 2 real\n{ ret ()\n}",
        "expected different names, found \"x\" twice",
    ),
    (
        Rule::InterfaceArray,
        "func \"a\" (t0) -> ()\nexport (x : Array Real @t0) -> ()\nregs t0\n{ ret ()\n}",
        "expected an array, found t0, another kind of type",
    ),
    (
        Rule::InterfaceArray,
        "func \"a\" (t1) -> ()\nexport (x : Array Int @t1) -> ()\nregs t1\n{ ret ()\n}",
        "expected elements of type int, found t1, an array of real",
    ),
    (
        Rule::InterfaceArray,
        "func \"a\" (t2) -> ()\nexport (x : Array (Real, Real) @t2) -> ()\nregs t2\n{ ret ()\n}",
        "expected rows of 2 elements of type real, found t2, an array of t0",
    ),
    (
        Rule::InterfaceArray,
        "func \"a\" (t2) -> ()\nexport (x : Array (Int, Real) @t2) -> ()\nregs t2\n{ ret ()\n}",
        "expected elements that are structs of (int, real), found t2, an array of t0",
    ),
    (
        Rule::InterfaceArray,
        "func \"a\" (t1) -> ()\nexport (x : Array () @t1) -> ()\nregs t1\n{ ret ()\n}",
        "expected elements that are structs of (), found t1, an array of real",
    ),
    (
        Rule::DataShape,
        "data d0 \"D\" t0 = A ()",
        "expected a variant as the heap type of d0 \"D\", found t0, another kind of type",
    ),
    (Rule::DataShape, "data d0 \"D\" t4 = A ()", "expected 2 constructors in d0 \"D\", found 1"),
    (
        Rule::DataShape,
        "data d0 \"D\" t4 = A () | B (Real)",
        "expected fields (real, t1) in \"B\" of \"D\", found a payload that flattens to (real)",
    ),
    (
        Rule::DataShape,
        "data d0 \"D\" t4 = A (Int) | B (Real, Array Real @t1)",
        "expected fields () in \"A\" of \"D\", found a payload that flattens to (int)",
    ),
    (Rule::UnknownType, "data d0 \"D\" t8 = A ()", "expected one of 8 types in d0 \"D\", found t8"),
    (
        Rule::DataPayload,
        "type t8 = variant { A { real } }\ndata d0 \"D\" t8 = A Real",
        "expected a tuple or a record in \"A\" of \"D\", found Real",
    ),
    (
        Rule::ConstructorName,
        "data d0 \"D\" t4 = A () | A { x : Real, y : Array Real @t1 }",
        "two constructors have one name: expected different names, found \"A\" twice",
    ),
    (
        Rule::InterfaceName,
        "type t8 = variant { A { real, real } }\ndata d0 \"D\" t8 = A { x : Real, x : Real }",
        "expected different names, found \"x\" twice",
    ),
    (
        Rule::DataBounds,
        "type t8 = variant { A { t4 } }\ndata d0 \"D\" t8 = A (Data \"E\" @d1)",
        "there is no such data type: expected one of 1 data types, found d1 \"E\"",
    ),
    (
        Rule::DataBounds,
        "func \"a\" (t4) -> ()\nexport (x : List (Data \"D\" @d0) @t4) -> ()\nregs t4\n{ ret ()\n}",
        "expected one of 0 data types, found d0 \"D\"",
    ),
    (
        Rule::DataName,
        "data d0 \"D\" t4 = A () | B (Real, Array Real @t1)
         func \"a\" (t4) -> ()\nexport (x : Data \"E\" @d0) -> ()\nregs t4\n{ ret ()\n}",
        "expected \"D\" for d0, found \"E\"",
    ),
    (
        Rule::InterfaceList,
        "func \"a\" (t4) -> ()\nexport (x : List Real @t4) -> ()\nregs t4\n{ ret ()\n}",
        "expected a variant of () and (real, t4), found t4, another type",
    ),
    (
        Rule::InterfaceList,
        "func \"a\" (t1) -> ()\nexport (x : List Real @t1) -> ()\nregs t1\n{ ret ()\n}",
        "expected a variant of () and (real, t1), found t1, another type",
    ),
    (
        Rule::InterfaceList,
        "type t8 = variant { Cons { real, t8 }, Nil {} }
         func \"a\" (t8) -> ()\nexport (x : List Real @t8) -> ()\nregs t8\n{ ret ()\n}",
        "expected a variant of () and (real, t8), found t8, another type",
    ),
    (
        Rule::UnknownType,
        "func \"a\" (t1) -> ()\nexport (x : List Real @t9) -> ()\nregs t1\n{ ret ()\n}",
        "expected one of 8 types in the interface, found t9",
    ),
    (
        Rule::InterfaceSignature,
        "func \"a\" (real) -> ()\nexport (x : Int) -> ()\nregs 1 real\n{ ret ()\n}",
        "expected parameters (real), found an interface that flattens to (int)",
    ),
    (
        Rule::InterfaceSignature,
        "func \"a\" () -> ()\nexport () -> (Real, Bool)\n{ ret ()\n}",
        "expected results (), found an interface that flattens to (real, int)",
    ),
    (
        Rule::MapSignature,
        "func \"g\" (int) -> (t1)\nregs 1 int, t1\n{ trap m0\n}
         func \"f\" (int) -> ()\nregs 1 int, t1\n{\npmap p0, \"g\", i0 ()\nret ()\n}",
        "expected parameters that begin with int, int, found (int)",
    ),
    (
        Rule::MapSignature,
        "func \"g\" (int, int) -> (t2)\nregs 2 int\n{ trap m0\n}
         func \"f\" (int) -> ()\nregs 1 int, t1\n{\npmap p0, \"g\", i0 ()\nret ()\n}",
        "expected t1 at position 0 of results, found t2",
    ),
    (
        Rule::MapSignature,
        "func \"g\" (int, int) -> (t1, real)\nregs 2 int\n{ trap m0\n}
         func \"f\" (int) -> ()\nregs 1 int, t1\n{\npmap p0, \"g\", i0 ()\nret ()\n}",
        "expected 1 results, found 2",
    ),
    (
        Rule::Arguments,
        "func \"g\" (int, int, real) -> (t1)\nregs 1 real, 2 int\n{ trap m0\n}
         func \"f\" (int) -> ()\nregs 1 int, t1\n{\npmap p0, \"g\", i0 (i0)\nret ()\n}",
        "expected real at position 0, found int in i0",
    ),
    (
        Rule::TaskBuilder,
        "func \"g\" (int, int, t3) -> (t1)\nregs 2 int, t3\n{ trap m0\n}
         func \"f\" (int, t3) -> ()\nregs 1 int, t3, t1\n{\npmap p1, \"g\", i0 (p0)\nret ()\n}",
        "expected no builder among parameters and results, found t3, a builder",
    ),
    (
        Rule::TaskBuilder,
        "func \"g\" () -> (t3)\n{ trap m0\n}
         func \"f\" () -> ()\nregs t3\n{\nfork 1\ntask \"g\" () -> (p0)\nret ()\n}",
        "expected no builder among parameters and results, found t3, a builder",
    ),
    (
        Rule::OperatorFunction,
        "func \"g\" (t5) -> ()\nregs t5\n{ ret ()\n}
         func \"f\" (t5) -> ()\nregs t5, t5\n{\nvjp \"g\", 0 (p0) -> (p1)\nret ()\n}",
        "a derivative of or with respect to a function: expected no functions among parameters behind the captures, \
         found t5, which is or leads to one",
    ),
    (
        // By way of a recursive type, an array and a struct.
        Rule::OperatorFunction,
        "type t8 = variant { Nil {}, Cons { t10, t8 } }\ntype t9 = struct { real, t5 }\ntype t10 = array t9
         func \"g\" (real) -> (t8)\nregs 1 real, t8\n{ trap m0\n}
         func \"f\" (real) -> ()\nregs 1 real, t8, t8\n{\njvp \"g\", 0 (r0, r0) -> (p0, p1)\nret ()\n}",
        "expected no functions among results, found t8, which is or leads to one",
    ),
    (
        Rule::OperatorBuilder,
        "type t8 = variant { A { t8 } }\ntype t9 = chain t8
         func \"g\" () -> (t9)\n{ trap m0\n}
         func \"f\" () -> ()\nregs t9, t9\n{\nvjp \"g\", 0 (p0) -> (p1)\nret ()\n}",
        "expected no builder among parameters and results, found t9, a builder",
    ),
    (
        Rule::Assignment,
        "func \"g\" (int, int, real) -> (t1)\nregs 1 real, 2 int\n{ trap m0\n}
         func \"f\" (int) -> ()\nregs 1 real, 1 int, t1\n{\npmap p0, \"g\", i0 (r0)\nret ()\n}",
        "expected a write to r0 on every path to here",
    ),
    (
        Rule::CodeLength,
        "func \"a\" () -> ()\n{ }",
        "function f0 \"a\": the number of instructions is out of range: expected 1 to 16777216 instructions, found 0",
    ),
];

/// The module that a case of `CODE_CASES` stands for.
fn with_code(code: &str) -> ModuleDef {
    let refs = "t0, t1, t2, t3, t4, t5";
    read(&format!(
        "{TYPES}{CHAIN}{CALLEES}func f2 \"f\" (real, int, {refs}) -> (real)
           regs 2 real, 2 int, {refs}, {refs}, t8, t9
         {{\n{code}\n}}"
    ))
}

/// Rules that only a module of a size or with bits that text doesn't have can break.
fn built_cases() -> Vec<(Rule, ModuleDef, &'static str)> {
    let ret = || function("f", |body| push(body, Op::Ret, &[Operand::Uses(vec![])]));
    let types = |count| ModuleDef { types: vec![TypeDef::Array(ValueType::Real); count], ..ModuleDef::default() };
    let a_type = |def| ModuleDef { types: vec![def], ..ModuleDef::default() };
    let reals = |count| vec![ValueType::Real; count];
    let deep = (0..limits::HOST_TYPE_DEPTH_MAX).fold(HostType::Real, |inner, _| HostType::Tuple(vec![inner]));
    let unused = |edit: fn(&mut Body)| {
        let mut module = with_code("mov r1, r0\nppayload p7, p4, 1, 1\ncall f0 (r0, p0) -> (r1, i1)\nret (r1)");
        edit(&mut module.functions[2].body);
        module
    };
    vec![
        (
            Rule::ModuleSize,
            types(limits::TYPES_MAX + 1),
            "the module is too large: expected at most 1048576 types, found 1048577",
        ),
        (
            Rule::ModuleSize,
            ModuleDef { messages: vec![String::new(); limits::MESSAGES_MAX + 1], ..ModuleDef::default() },
            "expected at most 1048576 messages, found 1048577",
        ),
        (
            Rule::ModuleSize,
            ModuleDef { data: vec![no_data(""); limits::DATA_MAX + 1], ..ModuleDef::default() },
            "expected at most 1048576 data types, found 1048577",
        ),
        (
            Rule::StringLength,
            ModuleDef {
                types: vec![TypeDef::Variant(vec![])],
                data: vec![no_data(&"x".repeat(65536))],
                ..ModuleDef::default()
            },
            "expected at most 65535 bytes, found 65536",
        ),
        (
            Rule::InterfaceDepth,
            ModuleDef {
                types: vec![TypeDef::Variant(vec![VariantDef { name: "A".into(), fields: reals(1) }])],
                data: vec![DataDef { variants: vec![("A".into(), deep.clone())], ..no_data("D") }],
                ..ModuleDef::default()
            },
            "expected at most 64 levels, found more",
        ),
        (
            Rule::StringLength,
            ModuleDef { messages: vec!["x".repeat(65536)], ..ModuleDef::default() },
            "a string is too long: expected at most 65535 bytes, found 65536",
        ),
        (
            Rule::StringLength,
            a_module(Function { name: "x".repeat(65536), ..ret() }),
            "expected at most 65535 bytes, found 65536",
        ),
        (Rule::FieldCount, a_type(TypeDef::Struct(reals(256))), "expected at most 255 fields in t0, found 256"),
        (
            Rule::ParamCount,
            a_type(TypeDef::Closure { params: vec![], results: reals(4097) }),
            "expected at most 4096 results in t0, found 4097",
        ),
        (
            Rule::ParamCount,
            a_module(Function { params: reals(4097), ..ret() }),
            "expected at most 4096 parameters, found 4097",
        ),
        (
            Rule::InterfaceDepth,
            a_module(Function { interface: Some(Interface { params: vec![], result: deep }), ..ret() }),
            "expected at most 64 levels, found more",
        ),
        (
            Rule::ListBounds,
            unused(|body| body.regs.truncate(3)),
            "instruction 2 (`call <outside of the pool>`): an operand list is outside of its pool: \
             expected lists in 3 registers and 0 targets, found a list that reaches outside",
        ),
        (Rule::ListBounds, unused(|body| body.code[3].imm = u64::from(u32::MAX)), "a list that reaches outside"),
        (Rule::UnusedBits, unused(|body| body.code[0].c = 1), "Inst { op: Mov, a: 1, b: 0, c: 1, imm: 0 }"),
        (Rule::UnusedBits, unused(|body| body.code[1].imm |= 1 << 16), "imm: 65537 }"),
        (Rule::UnusedBits, unused(|body| body.code[3].imm |= 1 << 40), "zero in fields without an operand"),
        (Rule::Locations, unused(|body| body.locations.push(Location { inst: 1, line: 1, column: 0 })), "found 1:0"),
        (
            Rule::ForkRegisters,
            wide_fork(5, 4096, 0),
            "expected at most 16384 registers `r` as arguments of a fork's tasks, found more",
        ),
        (
            Rule::ForkRegisters,
            wide_fork(5, 0, 4096),
            "expected at most 16384 registers `r` as results of a fork's tasks, found more",
        ),
        (Rule::ListEntries, shared_lists(), "expected at most 67108864 entries in the function, found more"),
        (
            Rule::FlowLimit,
            long_lives(),
            "expected at most 1073741824 steps to check assignment in the module, found more",
        ),
    ]
}

/// One list of 65,535 registers that more than a thousand instructions share.
fn shared_lists() -> ModuleDef {
    let mut module = read("type t0 = array real\nfunc \"f\" (real) -> ()\nregs 1 real, t0\n{\nret ()\n}");
    let body = &mut module.functions[0].body;
    let elems = Operand::Uses(vec![Reg::real(0); 65535]);
    let pack = body.pack(Op::Pack, &[Operand::Def(Reg::reference(0)), elems]).expect("the list is short enough");
    body.code.splice(0..0, vec![pack; 1025]);
    module
}

/// 61,440 registers that live through a million blocks.
fn long_lives() -> ModuleDef {
    let regs = |index: u16| (index..=index + 4095).map(Reg::real).collect::<Vec<_>>();
    let starts = || (0..15).map(|n| n * 4096u16);
    let mut module = read("func \"f\" () -> ()\nregs 61440 real\n{\nret ()\n}");
    let callee = |name: &str, params: usize, results: usize| Function {
        params: vec![ValueType::Real; params],
        results: vec![ValueType::Real; results],
        ..function(name, |body| {
            body.reals = 4096;
            push(body, Op::Jump, &[Operand::Target(0)]);
        })
    };
    module.functions.push(callee("take", 4096, 0));
    module.functions.push(callee("give", 0, 4095));
    let body = &mut module.functions[0].body;
    body.code.clear();
    for start in starts() {
        // `give` has a result too few for the last register of each range, which is assigned alone.
        let results = regs(start)[..4095].to_vec();
        push(body, Op::Call, &[Operand::Func(2), Operand::Uses(vec![]), Operand::Defs(results)]);
        push(body, Op::Const, &[Operand::Def(Reg::real(start + 4095)), Operand::Real(0.0)]);
    }
    for _ in 0..1 << 20 {
        let next = body.code.len() as u32 + 1;
        push(body, Op::Jump, &[Operand::Target(next)]);
    }
    for start in starts() {
        push(body, Op::Call, &[Operand::Func(1), Operand::Uses(regs(start)), Operand::Defs(vec![])]);
    }
    push(body, Op::Ret, &[Operand::Uses(vec![])]);
    module
}

/// A fork of tasks with so many arguments and results each.
fn wide_fork(tasks: usize, params: usize, results: usize) -> ModuleDef {
    let regs = |start: usize, count: usize| (start..start + count).map(|n| Reg::real(n as u16)).collect::<Vec<_>>();
    let callee = Function {
        params: vec![ValueType::Real; params],
        results: vec![ValueType::Real; results],
        ..function("callee", |body| {
            body.reals = 4096;
            push(body, Op::Jump, &[Operand::Target(0)]);
        })
    };
    let caller = Function {
        params: vec![ValueType::Real; params],
        ..function("caller", |body| {
            body.reals = (params + tasks * results) as u32;
            push(body, Op::Fork, &[Operand::Int(tasks as i64)]);
            for task in 0..tasks {
                let defs = regs(params + task * results, results);
                push(body, Op::Task, &[Operand::Func(0), Operand::Uses(regs(0, params)), Operand::Defs(defs)]);
            }
            push(body, Op::Ret, &[Operand::Uses(vec![])]);
        })
    };
    ModuleDef { functions: vec![callee, caller], ..ModuleDef::default() }
}

/// A data type without values.
fn no_data(name: &str) -> DataDef {
    DataDef { name: name.into(), ty: TypeId(0), variants: vec![] }
}

fn function(name: &str, code: impl FnOnce(&mut Body)) -> Function {
    let mut body = Body::default();
    code(&mut body);
    Function { name: name.into(), params: vec![], results: vec![], interface: None, body }
}

fn a_module(function: Function) -> ModuleDef {
    ModuleDef { functions: vec![function], ..ModuleDef::default() }
}

fn push(body: &mut Body, op: Op, operands: &[Operand]) {
    body.push(op, operands).expect("the operands have the table's roles");
}

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
fn modules_that_only_a_program_can_build_are_refused() {
    for (rule, module, message) in built_cases() {
        assert_refused(&module, rule, message, message);
    }
}

#[test]
fn every_rule_has_a_case() {
    let built = built_cases();
    for &rule in Rule::ALL {
        let written = CODE_CASES.iter().chain(MODULE_CASES).any(|case| case.0 == rule);
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
