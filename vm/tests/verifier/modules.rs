//! Modules that break a rule.

use super::Case;
use dualvm_vm::verify::Rule;

/// Whole modules, or what follows the types above.
pub(crate) const MODULE_CASES: &[Case] = &[
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
        "expected one of 8 types in a host type, found t8",
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
        Rule::InterfaceTensor,
        "type t8 = struct { t1, int, int }
         func \"a\" (t8) -> ()\nexport (x : Tensor (Array Real @t1) @t8) -> ()\nregs t8\n{ ret ()\n}",
        "expected a shaped type of (t1, int, int), found t8, another type",
    ),
    (
        Rule::InterfaceTensor,
        "type t8 = shaped { t1, int, int, int }
         func \"a\" (t8) -> ()\nexport (x : Tensor (Array Real @t1) @t8) -> ()\nregs t8\n{ ret ()\n}",
        "expected a shaped type of (t1, int, int), found t8, another type",
    ),
    (
        Rule::InterfaceTensor,
        "type t8 = array int\ntype t9 = shaped { t8, int, int }
         func \"a\" (t9) -> ()\nexport (x : Tensor (Array Real @t1) @t9) -> ()\nregs t9\n{ ret ()\n}",
        "expected a shaped type of (t1, int, int), found t9, another type",
    ),
    (
        Rule::InterfaceTensor,
        "type t8 = shaped { t1, int, int }\ntype t9 = shaped { t1, int, int, int }
         func \"a\" (t8) -> ()
         export (x : Tensor (Tensor (Array Real @t1) @t9) @t8) -> ()\nregs t8\n{ ret ()\n}",
        "expected a shaped type of (t1, int, int), found t9, another type",
    ),
    (
        Rule::InterfaceTensor,
        "type t8 = shaped { t1, int }
         func \"a\" (t8) -> ()\nexport (x : Tensor Real @t8) -> ()\nregs t8\n{ ret ()\n}",
        "expected slices that are arrays or tensors, found Real",
    ),
    (
        Rule::UnknownType,
        "func \"a\" (t1) -> ()\nexport (x : Tensor (Array Real @t1) @t9) -> ()\nregs t1\n{ ret ()\n}",
        "expected one of 8 types in a host type, found t9",
    ),
    (
        Rule::UnknownType,
        "func \"a\" (t1) -> ()\nexport (x : List Real @t9) -> ()\nregs t1\n{ ret ()\n}",
        "expected one of 8 types in a host type, found t9",
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
        Rule::OperatorBuilder,
        "func \"g\" () -> (t3)\n{ trap m0\n}
         func \"f\" () -> ()\nregs t3\n{\nonce \"g\" -> (p0)\nret ()\n}",
        "expected no builder among parameters and results, found t3, a builder",
    ),
    (
        Rule::OnceParams,
        "func \"g\" (real) -> (real)\nregs 1 real\n{ ret (r0)\n}
         func \"f\" () -> ()\nregs 1 real\n{\nonce \"g\" -> (r0)\nret ()\n}",
        "a constant has parameters: expected a function without parameters, found 1 parameters",
    ),
    (
        Rule::OnceCycle,
        "func \"f\" () -> ()\n{\nonce \"f\" -> ()\nret ()\n}",
        "a constant leads back to itself: expected a constant that doesn't lead here, found f0, which leads to f0",
    ),
    (
        // By way of a call, a closure and another constant.
        Rule::OnceCycle,
        "type t8 = closure () -> ()
         func \"a\" () -> ()\n{\ncall \"b\" () -> ()\nonce \"e\" -> ()\nret ()\n}
         func \"b\" () -> ()\nregs t8\n{\nclosure_new p0, \"c\" ()\nret ()\n}
         func \"c\" () -> ()\n{\nonce \"d\" -> ()\nret ()\n}
         func \"d\" () -> ()\n{\ncall \"a\" () -> ()\nret ()\n}
         func \"e\" () -> ()\n{\nret ()\n}",
        "function f2 \"c\", instruction 0 (`once f3 -> ()`): a constant leads back to itself: \
         expected a constant that doesn't lead here, found f3, which leads to f2",
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
    (
        Rule::TemplateFunction,
        "template s0 (\"x\") by f1
         func \"f\" () -> ()\n{ ret ()\n}",
        "the function of a template is none: expected one of 1 functions in template s0, found f1",
    ),
    (
        Rule::TemplateResults,
        "template s0 (Real, \"x\", Bool) by \"f\"
         func \"f\" (real) -> (real)\nregs 1 real\n{ ret (r0)\n}",
        "the function of a template doesn't give its values: expected results (real, int) in f0, found (real)",
    ),
    (
        Rule::TemplateResults,
        "template s0 (\"x\") by \"f\"
         func \"f\" (real) -> (real)\nregs 1 real\n{ ret (r0)\n}",
        "expected results () in f0, found (real)",
    ),
    (
        Rule::TemplateBuilder,
        "template s0 (Real) by \"f\"
         func \"f\" (real, t3) -> (real)\nregs 1 real, t3\n{ ret (r0)\n}",
        "a builder goes to a template's function or comes from one: \
         expected no builder among parameters and results, found t3, a builder",
    ),
    (Rule::InterfaceArray, "template s0 (Array Int @t1)", "expected elements of type int, found t1, an array of real"),
    (Rule::UnknownType, "template s0 (Array Int @t9)", "expected one of 8 types in a host type, found t9"),
    (Rule::DataBounds, "template s0 (Data \"D\" @d0)", "expected one of 0 data types, found d0 \"D\""),
    (Rule::InterfaceName, "template s0 ({ x : Int, x : Int })", "expected different names, found \"x\" twice"),
    (
        Rule::TracedTwin,
        "traced f1 by f0\ntraced f0 by f1
         func \"f\" () -> ()\n{ ret ()\n}\nfunc \"g\" () -> ()\nexport () -> ()\n{ ret ()\n}",
        "a traced twin doesn't fit its function: expected functions in ascending order, each once, found f0",
    ),
    (
        Rule::TracedTwin,
        "traced f1 by f0\ntraced f1 by f0
         func \"f\" () -> ()\n{ ret ()\n}\nfunc \"g\" () -> ()\nexport () -> ()\n{ ret ()\n}",
        "expected functions in ascending order, each once, found f1",
    ),
    (
        Rule::TracedTwin,
        "traced f0 by f1
         func \"f\" () -> ()\n{ ret ()\n}\nfunc \"g\" () -> ()\n{ ret ()\n}",
        "expected a function with an interface, found f0, which hosts can't call",
    ),
    (
        Rule::TracedTwin,
        "traced f0 by f0
         func \"f\" () -> ()\nexport () -> ()\n{ ret ()\n}",
        "expected a twin without an interface, found f0",
    ),
    (
        Rule::TracedTwin,
        "traced f0 by f2
         func \"f\" () -> ()\nexport () -> ()\n{ ret ()\n}",
        "expected one of 1 functions in a traced twin of f0, found f2",
    ),
    (
        Rule::TracedTwin,
        "traced f3 by f0
         func \"f\" () -> ()\nexport () -> ()\n{ ret ()\n}",
        "expected one of 1 functions in a traced twin of f3, found f3",
    ),
    (
        Rule::TracedTwin,
        "traced f0 by f1
         func \"f\" (real) -> ()\nexport (x : Real) -> ()\nregs 1 real\n{ ret ()\n}
         func \"g\" (real) -> (real)\nregs 1 real\n{ ret (r0)\n}",
        "expected (real) -> () in f1, found (real) -> (real)",
    ),
    (
        Rule::Assignment,
        "template s0 (Real)
         func \"f\" () -> ()\nregs 1 real\n{\ntrace s0 (r0)\nret ()\n}",
        "expected a write to r0 on every path to here",
    ),
    (
        Rule::Assignment,
        "template s0 (Real)
         func \"f\" (int) -> ()\nregs 1 real, 1 int\n{\nbranch i0, A, B\nA: const r0, 1\nB: trap_with s0 (r0)\n}",
        "expected a write to r0 on every path to here",
    ),
    (
        Rule::Shown,
        "template s0 (Real, \" of \", (Int, Array Real @t1))
         func \"f\" (real, int) -> ()\nregs 1 real, 1 int\n{ trap_with s0 (r0, i0)\n}",
        "the registers don't fit the template: expected 3 registers, found 2",
    ),
    (
        Rule::Shown,
        "template s0 (Bool)
         func \"f\" (real) -> ()\nregs 1 real\n{\ntrace s0 (r0)\nret ()\n}",
        "expected int at position 0, found real in r0",
    ),
    (
        Rule::Shown,
        "template s0 (Array Real @t1)
         func \"f\" (t2) -> ()\nregs t2\n{\ntrace s0 (p0)\nret ()\n}",
        "expected t1 at position 0, found t2 in p0",
    ),
    (
        // What the function takes, not what it gives.
        Rule::Shown,
        "template s0 (Real) by \"g\"
         func \"f\" (real) -> ()\nregs 1 real\n{\ntrace s0 (r0)\nret ()\n}
         func \"g\" (int) -> (real)\nregs 1 real, 1 int\n{\nto_real r0, i0\nret (r0)\n}",
        "expected int at position 0, found real in r0",
    ),
    (
        Rule::FallsOff,
        "template s0 ()
         func \"f\" () -> ()\n{\ntrace s0 ()\n}",
        "expected a terminator as the last instruction, found `trace`",
    ),
    (Rule::InterfaceName, "import x0 \"f\" (x : Real, x : Int) -> Real", "expected different names, found \"x\" twice"),
    (
        Rule::UnknownType,
        "import x0 \"f\" (x : Array Real @t9) -> Real",
        "expected one of 8 types in a host type, found t9",
    ),
    (
        Rule::InterfaceArray,
        "import x0 \"f\" () -> Array Int @t1",
        "expected elements of type int, found t1, an array of real",
    ),
    (
        Rule::ImportBounds,
        "import x0 \"f\" () -> Real
         func \"g\" () -> (real)\nregs 1 real\n{\ncall_import x1 () -> (r0)\nret (r0)\n}",
        "there is no such import: expected one of x0 to x0, found x1",
    ),
    (
        Rule::Arguments,
        "import x0 \"f\" (x : (Real, Int), xs : Array Real @t1) -> Real
         func \"g\" (real, t1) -> (real)\nregs 1 real, t1\n{\ncall_import x0 (r0, p0) -> (r0)\nret (r0)\n}",
        "expected 3 registers, found 2",
    ),
    (
        Rule::Results,
        "import x0 \"f\" () -> (Real, Bool)
         func \"g\" () -> (real)\nregs 2 real\n{\ncall_import x0 () -> (r0, r1)\nret (r0)\n}",
        "expected int at position 1, found real in r1",
    ),
];

/// Modules that pass the verifier and aren't linked, by engines that give `f`, of a real.
pub(crate) const LINK_CASES: &[Case] = &[
    (
        Rule::ImportMissing,
        "import x0 \"f\" (x : Real) -> Real\nimport x1 \"F\" (x : Real) -> Real",
        "nobody gives what the module imports: expected one of 1 functions that are given in x1, found \"F\" \
         (there is \"f\")",
    ),
    (
        Rule::ImportMismatch,
        "import x0 \"f\" (xs : Array Real @t1) -> Real",
        "what is given for an import is of another type: expected one taking (reals) for \"f\" in x0, found one taking \
         (a real)",
    ),
    (
        Rule::ImportMismatch,
        "import x0 \"f\" (x : Real) -> Bool",
        "expected one giving (a boolean) for \"f\" in x0, found one giving (a real)",
    ),
    (
        Rule::ImportHost,
        "type t8 = array t1\nimport x0 \"f\" (xs : Array (Array Real @t1) @t8) -> Real",
        "a function of the host's can't be of this type: expected Real, Int, Bool, an array, a list, a matrix or a tensor \
         of one of these or of tuples of one, or a tuple or a record of such, for parameter xs in x0, found Array (Array \
         Real)",
    ),
];
