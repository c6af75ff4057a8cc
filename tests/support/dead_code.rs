//! Programs with instructions that no path reaches: `f`, a loop over an array.

use dualvm_vm::value::Value;

/// What `f` is called with.
pub(crate) fn args() -> [Value; 3] {
    [Value::Real(1.25), Value::Reals(vec![1.0, -2.0, 0.5, 3.0, 0.25]), Value::Int(5)]
}

/// How the loop of [`program`] may end.
pub(crate) const ALIVE: [&str; 2] = ["branch i3, head, end", "jump end"];

/// What may stand behind the end of the loop and is never reached.
pub(crate) const DEAD: [&str; 12] = [
    "branch i3, head, end",
    "jump head",
    "sin r2, r2\n branch i3, head, end",
    "dead: sin r2, r2\n branch i3, dead, head",
    "dead: jump dead",
    "elem r1, p0, i1\n iadd i1, i1, i2\n ilt i3, i1, i0\n branch i3, head, end",
    "switch i3, [head, end], head",
    "call f0 (r0, p0, i0) -> (r2)\n jump head",
    "fork 1\n task f0 (r0, p0, i0) -> (r2)\n branch i3, head, end",
    // Definitions of what else is a constant, and of what is read in the loop.
    "const r0, 2.0\n iconst i2, 2\n imov i1, i0\n pmov p0, p1\n jump head",
    "trap \"never\"\n jump head",
    "ret (r1)\n tail_call f0 (r0, p0, i0)\n branch i3, head, end",
];

/// What may stand in [`program_behind`].
pub(crate) const DEAD_BEHIND: [&str; 3] =
    ["dead: sin r2, r2\n branch i3, dead, head", "jump head", "ilt i3, i1, i0\n branch i3, head, end"];

/// A loop over an array, whose end may be followed by code.
pub(crate) fn program(last: &str) -> String {
    format!(
        "type t0 = array real
         func f0 \"f\" (real, t0, int) -> (real)
         regs 4 real, 5 int, t0, t0
         {{
          mov r2, r0
          iconst i1, 0
          iconst i2, 1
          jump head
         head:
          elem r1, p0, i1
          fma r2, r1, r0, r2
          iadd i1, i1, i2
          ilt i3, i1, i0
          {last}
         end:
          mul r2, r2, r0
          ret (r2) }}"
    )
}

/// The same with code that nothing leads to before the head of the loop.
pub(crate) fn program_behind(dead: &str) -> String {
    program("branch i3, head, end").replace("jump head\n", &format!("jump head\n {dead}\n"))
}
