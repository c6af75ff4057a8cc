//! Code of a function that breaks a rule.

use super::support::read;
use super::{Case, TYPES};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::verify::Rule;

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

/// Lines of code for a function `(real, int, t0, t1, t2, t3, t4, t5) -> (real)` with parameters in `r0`, `i0` and `p0`
/// to `p5`, and registers `r1`, `i1`, `p6` to `p11` of the types of `p0` to `p5`, and `p12` and `p13` of `t8` and `t9`.
pub(crate) const CODE_CASES: &[Case] = &[
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
        Rule::TemplateBounds,
        "trap_with s0 ()",
        "there is no such template: expected none, for there is no `s`, found s0",
    ),
    (Rule::TemplateBounds, "trace s7 (r0)\nret (r0)", "found s7"),
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
    (Rule::ObjectKind, "extend p1, p1, i0, i0\nret (r0)", "expected a builder in p1, found an array (t1)"),
    (Rule::ObjectKind, "extend p3, p3, i0, i0\nret (r0)", "expected an array in p3, found a builder (t3)"),
    (Rule::ObjectKind, "get r1, p1, i0\nret (r0)", "expected a builder in p1, found an array (t1)"),
    (Rule::ObjectKind, "put p1, i0, r0\nret (r0)", "expected a builder in p1, found an array (t1)"),
    (Rule::ObjectKind, "reserve p7, p1, i0\nret (r0)", "expected a builder in p1, found an array (t1)"),
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
    (Rule::PartType, "iget i1, p3, i0\nret (r0)", "expected real, found int in i1"),
    (Rule::PartType, "pget p7, p3, i0\nret (r0)", "expected real, found t1 in p7"),
    (Rule::PartType, "iput p3, i0, i0\nret (r0)", "expected real, found int in i0"),
    (Rule::PartType, "pput p3, i0, p0\nret (r0)", "expected real, found t0 in p0"),
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
    (Rule::SameType, "extend p3, p2, i0, i0\nret (r0)", "expected an array of real, found an array of t0"),
    (Rule::SameType, "reserve p7, p3, i0\nret (r0)", "expected t1 as in p7, found t3 in p3"),
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
    (Rule::Arguments, "checkpoint f0 (r0) -> (r1, i1)\nret (r0)", "expected 2 registers, found 1"),
    (Rule::Results, "checkpoint f0 (r0, p0) -> (r1)\nret (r0)", "expected 2 registers, found 1"),
    (Rule::CaptureCount, "primal f0, 3 (r0, p0) -> (r1, i1)\nret (r0)", "expected at most 2 captures, found 3"),
    (Rule::Arguments, "primal f0, 0 (r0) -> (r1, i1)\nret (r0)", "expected 2 registers, found 1"),
    (Rule::Results, "primal f0, 0 (r0, p0) -> (r1)\nret (r0)", "expected 2 registers, found 1"),
    // The function takes a real and an object, and gives a real and an integer: a derivative of nothing.
    (
        Rule::RuleSignature,
        "custom_vjp f0, 0 (r0, r0) -> (r1)\nret (r0)",
        "the function doesn't fit the derivative that it gives: expected real at position 1 of parameters, found t0",
    ),
    (Rule::RuleSignature, "custom_vjp f0, 0 (r0, p0) -> (p6)\nret (r0)", "expected 1 results, found 2"),
    (Rule::Arguments, "custom_jvp f0, 0 (r0) -> (r1, i1)\nret (r0)", "expected 2 registers of the value behind"),
    (
        Rule::Arguments,
        "custom_jvp f0, 0 (r0, p0) -> (r1)\nret (r0)",
        "expected real at position 0 of the value, found t0",
    ),
    (Rule::CaptureCount, "custom_vjp f0, 2 (r0, r0) -> (r1)\nret (r0)", "expected at most 1 captures, found 2"),
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

/// The module that a case of `CODE_CASES` stands for.
pub(crate) fn with_code(code: &str) -> ModuleDef {
    let refs = "t0, t1, t2, t3, t4, t5";
    read(&format!(
        "{TYPES}{CHAIN}{CALLEES}func f2 \"f\" (real, int, {refs}) -> (real)
           regs 2 real, 2 int, {refs}, {refs}, t8, t9
         {{\n{code}\n}}"
    ))
}
