//! The functions that every program knows: their names and types, not what they compute.
//!
//! Functions of reals come from the instruction table under their mnemonics. Only what is overloaded, is called
//! otherwise, or is no single scalar instruction, is listed here.

use dualvm_vm::isa::{Bank, Op, Role};

/// A function that needs no definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Builtin {
    /// A scalar instruction.
    Scalar(Op),
    /// `|a|` of an Int or a Real.
    Abs,
    /// -1, 0 or 1.
    Sign,
    /// The smaller of two numbers.
    Min,
    /// The larger of two numbers.
    Max,
    /// The number of elements of an array. Of the prelude only.
    Length,
    /// An array with another element. Of the prelude only.
    Replace,
    /// The elements of an array of several dimensions, row by row. Of the prelude only.
    Elements,
    /// Other elements in the shape of an array of several dimensions, which has as many. Of the prelude only.
    WithElements,
    /// Whether two arrays of several dimensions have the same shape. Of the prelude only.
    SameShape,
    /// The sizes of an array of several dimensions, as an array. Of the prelude only.
    Sizes,
    /// The size of an array of several dimensions in one of them. Of the prelude only.
    Size(u8),
    /// An array of so many dimensions of elements and sizes, which fit. Of the prelude only.
    Shaped(u8),
    /// What a definition is for each kind of collection. Of the prelude only.
    ByKind,
    /// An array of a function's values, built in parallel.
    ParallelBuild,
    /// The value of a function, and its derivative in a direction.
    Jvp,
    /// The value of a function that gives a Real, and its gradient.
    ValueAndGrad,
    /// The value of a function, and what a cotangent of it is pulled back to.
    Pull,
    /// The same value, as a constant for derivatives.
    Detach,
    /// The value of a function, which isn't recorded.
    Checkpoint,
    /// The value of a function, with a derivative that another one gives in reverse.
    CustomVjp,
    /// The value of a function, with a derivative that another one gives forward.
    CustomJvp,
    /// Negation of a Bool.
    Not,
    /// The constant π.
    Pi,
}

/// A type in a builtin's signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SignatureType {
    /// `Real`
    Real,
    /// `Int`
    Int,
    /// `Bool`
    Bool,
    /// `Int` or `Real`, the same wherever it occurs in the signature.
    Number,
    /// An array of anything, the same wherever it occurs in the signature.
    AnyArray,
    /// An element of that array.
    Element,
    /// A function from an index to an element of that array.
    ElementAt,
    /// An array of any number of dimensions above one with elements of that type.
    AnyTensor,
    /// One of as many dimensions with elements of another type.
    OtherTensor,
    /// An array of such elements.
    OtherArray,
    /// An array of `Int`s.
    IntArray,
    /// An array of so many dimensions with elements of the first type.
    Tensor(u8),
    /// Anything without functions in it, the same wherever it occurs in the signature.
    Data,
    /// A function from that to another type without functions in it.
    DataFunction,
    /// That other type.
    OtherData,
    /// Two values of that other type.
    TwoResults,
    /// A function from data to a `Real`.
    RealFunction,
    /// A `Real` and data.
    RealAndData,
    /// A value of that other type, and data.
    OtherAndData,
    /// A function from data and the other type to that data: from an argument and a cotangent to a cotangent.
    ReverseRule,
    /// A function from data and the same data to the other type: from an argument and a tangent to a tangent.
    ForwardRule,
}

/// Parameter types and result type.
pub(crate) type Signature = (Vec<SignatureType>, SignatureType);

/// Scalar instructions over reals that the language spells as operators, overloads or `if`, or keeps to itself.
const SPELT_OTHERWISE: &[Op] = &[
    Op::Neg,
    Op::Abs,
    Op::Sign,
    Op::Min,
    Op::Max,
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Div,
    Op::StrongMul,
    Op::TanhSlope,
    Op::SigmoidSlope,
    Op::Select,
    Op::Detach,
    Op::Eq,
    Op::Ne,
    Op::Lt,
    Op::Le,
];

const SPECIAL: &[(&str, Builtin)] = &[
    ("abs", Builtin::Abs),
    ("sign", Builtin::Sign),
    ("min", Builtin::Min),
    ("max", Builtin::Max),
    ("length_array", Builtin::Length),
    ("by_kind", Builtin::ByKind),
    ("replaced", Builtin::Replace),
    ("elements_tensor", Builtin::Elements),
    ("with_elements", Builtin::WithElements),
    ("same_shape", Builtin::SameShape),
    ("sizes", Builtin::Sizes),
    ("size_0", Builtin::Size(0)),
    ("size_1", Builtin::Size(1)),
    ("size_2", Builtin::Size(2)),
    ("size_3", Builtin::Size(3)),
    ("shaped_2", Builtin::Shaped(2)),
    ("shaped_3", Builtin::Shaped(3)),
    ("shaped_4", Builtin::Shaped(4)),
    ("pbuild", Builtin::ParallelBuild),
    ("jvp", Builtin::Jvp),
    ("value_and_grad", Builtin::ValueAndGrad),
    ("pull", Builtin::Pull),
    ("detach", Builtin::Detach),
    ("checkpoint", Builtin::Checkpoint),
    ("custom_vjp", Builtin::CustomVjp),
    ("custom_jvp", Builtin::CustomJvp),
    ("not", Builtin::Not),
    ("bit_and", Builtin::Scalar(Op::IAnd)),
    ("bit_or", Builtin::Scalar(Op::IOr)),
    ("bit_xor", Builtin::Scalar(Op::IXor)),
    ("bit_count", Builtin::Scalar(Op::IPopcnt)),
    ("leading_zeros", Builtin::Scalar(Op::IClz)),
    ("shift_left", Builtin::Scalar(Op::IShl)),
    ("shift_right", Builtin::Scalar(Op::IShr)),
    ("pi", Builtin::Pi),
];

impl Builtin {
    /// All builtins that programs know, with their names.
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, Builtin)> {
        let scalars = Op::ALL.iter().filter(|&&op| is_function(op));
        let special = SPECIAL.iter().copied().filter(|(_, builtin)| !builtin.is_hidden());
        scalars.map(|&op| (op.info().mnemonic, Builtin::Scalar(op))).chain(special)
    }

    /// Whether it takes or makes an array of several dimensions.
    pub(crate) fn is_of_tensors(self) -> bool {
        use Builtin::{Elements, SameShape, Shaped, Size, Sizes, WithElements};
        matches!(self, Elements | WithElements | SameShape | Sizes | Size(_) | Shaped(_))
    }

    /// Whether it says how large an array is, of whose elements it needs to know nothing.
    pub(crate) fn is_of_sizes(self) -> bool {
        matches!(self, Builtin::Length | Builtin::Sizes | Builtin::Size(_))
    }

    /// Whether only the prelude knows it.
    pub(crate) fn is_hidden(self) -> bool {
        self.is_of_tensors() || matches!(self, Builtin::Length | Builtin::ByKind | Builtin::Replace)
    }

    /// The builtin of this name.
    pub(crate) fn named(name: &str) -> Option<Builtin> {
        let special = SPECIAL.iter().find(|(text, _)| *text == name).map(|&(_, builtin)| builtin);
        special.or_else(|| Op::from_mnemonic(name).filter(|&op| is_function(op)).map(Builtin::Scalar))
    }

    /// The type.
    pub(crate) fn signature(self) -> Signature {
        use SignatureType::{
            AnyArray, AnyTensor, Bool, Data, DataFunction, Element, ElementAt, ForwardRule, Int, IntArray, Number,
            OtherAndData, OtherArray, OtherData, OtherTensor, Real, RealAndData, RealFunction, ReverseRule, Tensor,
            TwoResults,
        };
        match self {
            Builtin::Scalar(op) => {
                let mut types = op.info().operands.iter().map(|operand| match bank(operand.role) {
                    Some(Bank::Int) => Int,
                    _ => Real,
                });
                let result = types.next().expect("a scalar instruction has a result");
                (types.collect(), result)
            }
            Builtin::Abs | Builtin::Sign => (vec![Number], Number),
            Builtin::Min | Builtin::Max => (vec![Number, Number], Number),
            Builtin::Length => (vec![AnyArray], Int),
            Builtin::Replace => (vec![AnyArray, Int, Element], AnyArray),
            Builtin::Elements => (vec![AnyTensor], AnyArray),
            Builtin::WithElements => (vec![AnyTensor, OtherArray], OtherTensor),
            Builtin::SameShape => (vec![AnyTensor, OtherTensor], Bool),
            Builtin::Sizes => (vec![AnyTensor], IntArray),
            Builtin::Size(_) => (vec![AnyTensor], Int),
            Builtin::Shaped(rank) => {
                let sizes = std::iter::repeat_n(Int, usize::from(rank));
                (std::iter::once(AnyArray).chain(sizes).collect(), Tensor(rank))
            }
            Builtin::ParallelBuild => (vec![Int, ElementAt], AnyArray),
            Builtin::Jvp => (vec![DataFunction, Data, Data], TwoResults),
            Builtin::ValueAndGrad => (vec![RealFunction, Data], RealAndData),
            Builtin::Pull => (vec![DataFunction, Data, OtherData], OtherAndData),
            Builtin::Detach => (vec![Data], Data),
            Builtin::Checkpoint => (vec![DataFunction, Data], OtherData),
            Builtin::CustomVjp => (vec![DataFunction, ReverseRule, Data], OtherData),
            Builtin::CustomJvp => (vec![DataFunction, ForwardRule, Data], OtherData),
            Builtin::Not => (vec![Bool], Bool),
            Builtin::ByKind => unreachable!("inference knows what it is"),
            Builtin::Pi => (vec![], Real),
        }
    }
}

/// Whether an instruction is a function of the language.
fn is_function(op: Op) -> bool {
    let on_reals = op.info().operands.iter().any(|operand| bank(operand.role) == Some(Bank::Real));
    op.is_scalar() && on_reals && !SPELT_OTHERWISE.contains(&op)
}

fn bank(role: Role) -> Option<Bank> {
    match role {
        Role::Def(bank) | Role::Use(bank) => Some(bank),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_functions_come_from_the_instruction_table() {
        let find = Builtin::named;
        assert!(Builtin::all().all(|(name, builtin)| find(name) == Some(builtin)));
        use SignatureType::{Int, Number, Real};
        assert_eq!(find("fma").map(Builtin::signature), Some((vec![Real, Real, Real], Real)));
        assert_eq!(find("powi").map(Builtin::signature), Some((vec![Real, Int], Real)));
        assert_eq!(find("to_int").map(Builtin::signature), Some((vec![Real], Int)));
        assert_eq!(find("max").map(Builtin::signature), Some((vec![Number, Number], Number)));
        assert_eq!(find("shift_left").map(Builtin::signature), Some((vec![Int, Int], Int)));
        assert_eq!(find("bit_count").map(Builtin::signature), Some((vec![Int], Int)));
        assert_eq!(find("smul"), None);
        assert_eq!(find("sigmoid").map(Builtin::signature), Some((vec![Real], Real)));
        assert_eq!(find("tanh_slope"), None);
        assert_eq!(find("iadd"), None);
    }
}
