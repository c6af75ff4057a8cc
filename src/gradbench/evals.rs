//! The table of evals: what the suite asks for, and which definition of which program answers it.

use super::prepared::{Shape, Wanted};
use super::{Ready, ba, ht};
use dualvm::Module;

/// An eval of the suite.
pub(crate) struct Eval {
    /// The suite's name for it, and for the module that a tool defines.
    pub(crate) name: &'static str,
    /// The program.
    pub(crate) source: &'static str,
    /// What the suite calls.
    pub(super) entries: &'static [Entry],
}

/// A function of an eval.
pub(super) struct Entry {
    /// The suite's name for it.
    pub(super) name: &'static str,
    /// The definition that it calls. Its parameters are called like the fields of the input.
    pub(super) definition: &'static str,
    pub(super) how: How,
}

/// How the output comes from the definition.
pub(super) enum How {
    /// It is the value.
    Value(Shape),
    /// It is the gradient with respect to these parameters.
    Gradient(Wanted),
    /// A Jacobian, or arguments, that the host puts together.
    Assembled(fn(&Module, &str) -> Ready),
}

use How::{Assembled, Gradient, Value};
use Wanted::{Concatenated, Only, Record};

const fn entry(name: &'static str, definition: &'static str, how: How) -> Entry {
    Entry { name, definition, how }
}

macro_rules! program {
    ($name:literal) => {
        include_str!(concat!("../../benches/gradbench/", $name, ".dual"))
    };
}

macro_rules! eval {
    ($name:literal $entries:expr) => {
        Eval { name: $name, source: program!($name), entries: &$entries }
    };
    // The other program stands behind it, so that places in messages are those of the eval's file.
    ($name:literal, $other:literal $entries:expr) => {
        Eval { name: $name, source: concat!(program!($name), program!($other)), entries: &$entries }
    };
}

/// Gradient descents with nested derivatives: the outer by forward or reverse mode, and the inner.
const MIXES: [Entry; 4] = [
    entry("ff", "ff", Value(Shape::AsItIs)),
    entry("fr", "fr", Value(Shape::AsItIs)),
    entry("rf", "rf", Value(Shape::AsItIs)),
    entry("rr", "rr", Value(Shape::AsItIs)),
];

/// All evals, in the suite's order.
pub(crate) const EVALS: [Eval; 12] = [
    eval!("hello" [
        entry("square", "square", Value(Shape::AsItIs)),
        entry("double", "square", Gradient(Only("x"))),
    ]),
    eval!("det" [
        entry("primal", "primal", Value(Shape::AsItIs)),
        entry("gradient", "primal", Gradient(Only("a"))),
    ]),
    eval!("gmm" [
        entry("objective", "objective", Value(Shape::AsItIs)),
        entry("jacobian", "objective", Gradient(Record(&["alpha", "mu", "q", "l"]))),
    ]),
    eval!("ba" [
        entry("objective", "objective", Assembled(ba::objective)),
        entry("jacobian", "reproj_error", Assembled(ba::jacobian)),
    ]),
    eval!("ht" [
        entry("objective", "objective", Value(Shape::Concatenated)),
        entry("jacobian", "objective", Assembled(ht::jacobian)),
    ]),
    eval!("kmeans" [
        entry("cost", "cost", Value(Shape::AsItIs)),
        entry("dir", "dir", Value(Shape::AsItIs)),
    ]),
    eval!("llsq" [
        entry("primal", "primal", Value(Shape::AsItIs)),
        entry("gradient", "primal", Gradient(Only("x"))),
    ]),
    eval!("lse" [
        entry("primal", "primal", Value(Shape::AsItIs)),
        entry("gradient", "primal", Gradient(Only("x"))),
    ]),
    eval!("lstm" [
        entry("objective", "objective", Value(Shape::AsItIs)),
        entry("jacobian", "objective", Gradient(Concatenated(&["main_params", "extra_params"]))),
    ]),
    eval!("ode" [
        entry("primal", "primal", Value(Shape::AsItIs)),
        entry("gradient", "last_of_primal", Gradient(Only("x"))),
    ]),
    eval!("particle", "gd" MIXES),
    eval!("saddle", "gd" MIXES),
];
