//! What is said of a number that became NaN or infinite, in a run that looks for such numbers: the instruction that
//! made it, with its operands, and how these came about.

use crate::bytecode::module::SourcePlace;
use crate::excerpt::SourceTexts;
use crate::isa::Scalar;
use std::fmt;

/// What a number is to a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Role {
    /// A value of the program itself.
    Primal,
    /// A derivative that is carried forward with the value.
    Tangent,
    /// What the sweep computes from the adjoint of a result: the adjoint of an operand.
    Adjoint,
    /// The sum of what the sweep has computed for one number, each of which is finite.
    AdjointSum,
}

/// A number that became NaN or infinite, out of numbers that weren't. A run that is [asked to](crate::engine::Config)
/// stops at the first one.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct NonFinite {
    /// What the number is.
    pub role: Role,
    /// The number.
    pub number: f64,
    /// The instruction that has made it. In the sweep: the one whose operands' adjoints are computed.
    pub step: Step,
    /// In the sweep, the adjoint of the result, which is finite and not zero.
    pub adjoint: Option<f64>,
    /// In the sweep, the operand whose adjoint the number is, counted from 0.
    pub operand: Option<usize>,
    /// In which rounds the loops were that the calls which led to the instruction are in, the innermost first.
    pub around: Vec<Round>,
    /// How one of the operands came about, as far as that depends on what derivatives are recorded for: the
    /// instruction that has made it, then that which has made one of its operands, and so on. Which operand that is, is
    /// said by [`Step::followed`] of the step before.
    pub chain: Vec<Step>,
    /// How many more steps there are behind those of the chain.
    pub omitted: usize,
    /// Where the chain ends.
    pub origin: Origin,
    /// What the chain goes on with once control is back in the task that made it.
    pub(crate) pending: Option<Pending>,
}

/// The slot of a task: the next number of a chain. The address is that of the task's node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub(crate) node: usize,
    pub(crate) slot: u32,
    /// Whether no record of the task gives the slot: it was there when the task began.
    pub(crate) from_start: bool,
}

/// An instruction that was executed, or a derivative operator, whose operands are the reals that it was given.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Step {
    /// The instruction's mnemonic.
    pub operation: &'static str,
    /// The name of the function that it is in.
    pub function: String,
    /// Where that is in the source, if the module says.
    pub place: Option<SourcePlace>,
    /// What it was given.
    pub operands: Vec<Operand>,
    /// What it gave; `None` for a derivative operator.
    pub result: Option<f64>,
    /// In which round of each of the function's loops around it, the outermost first.
    pub rounds: Vec<Round>,
    /// Of a step in a chain: which component of the result the step before has read. 0 is the value, others are
    /// tangents.
    pub component: usize,
    /// What the chain goes on with.
    pub followed: Option<Followed>,
}

/// A number that an instruction was given, and with which a chain goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Followed {
    /// The operand, counted from 0.
    pub operand: usize,
    /// Its component: 0 is the value, others are tangents.
    pub component: usize,
}

impl Followed {
    pub(crate) fn new(operand: usize, component: usize) -> Self {
        Followed { operand, component }
    }
}

/// What an instruction was given.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Operand {
    /// The number.
    pub value: Scalar,
    /// Its tangents, if the instruction ran with any: with one infinitesimal one, with d of them 2ᵈ - 1.
    pub tangents: Vec<f64>,
}

/// A round of a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Round {
    /// Where the loop is, if the module says.
    pub place: Option<SourcePlace>,
    /// How many rounds were complete: the first round is 0.
    pub round: u64,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(SourcePlace { line, column, .. }) => {
                write!(f, "round {} of the loop at {line}:{column}", self.round)
            }
            None => write!(f, "round {} of a loop", self.round),
        }
    }
}

/// Where a chain ends.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Origin {
    /// Nothing that is followed: constants, integers, and what no derivatives are recorded for.
    Constant,
    /// An argument of the call.
    Input {
        /// The number of the real among those of the arguments that derivatives are with respect to, counted from 0.
        index: usize,
        /// Whether it is the tangent of that real.
        is_tangent: bool,
        /// Its name, as in `x[3].1`, where the arguments are known as values.
        place: Option<String>,
    },
    /// What an operator has given, or something else that isn't followed.
    Given,
}

/// The tie between mnemonics and the operators of the language.
fn infix(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "add" => "+",
        "sub" => "-",
        "mul" | "smul" => "*",
        "div" => "/",
        "pow" | "powi" => "^",
        _ => return None,
    })
}

/// Reals as short as they can be told apart, integers as they are.
struct Shown(Scalar);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Scalar::Real(x) => write!(f, "{x:?}"),
            Scalar::Int(n) => write!(f, "{n}"),
        }
    }
}

impl Step {
    /// The instruction with its operands, as in `1.0 / 0.0` or `log(0.0)`.
    pub fn formula(&self) -> String {
        let negative = |value: Scalar| match value {
            Scalar::Real(x) => x.is_sign_negative(),
            Scalar::Int(n) => n < 0,
        };
        let operand = |operand: &Operand| match negative(operand.value) {
            true => format!("({})", Shown(operand.value)),
            false => Shown(operand.value).to_string(),
        };
        match (infix(self.operation), &*self.operands) {
            (Some(sign), [a, b]) => format!("{} {sign} {}", operand(a), operand(b)),
            (_, operands) => {
                let list: Vec<String> = operands.iter().map(|operand| Shown(operand.value).to_string()).collect();
                format!("{}({})", self.operation, list.join(", "))
            }
        }
    }

    /// Where it is: `at f.dual:3:10, round 2 of the loop at 2:5`.
    fn located(&self) -> String {
        let mut text = match &self.place {
            Some(place) => format!("at {place}"),
            None => format!("in {}", self.function),
        };
        for round in self.rounds.iter().rev() {
            text.push_str(&format!(", {round}"));
        }
        text
    }
}

impl fmt::Display for NonFinite {
    /// One line: what happened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let formula = self.step.formula();
        match self.role {
            Role::Primal => write!(f, "{formula} is {:?}", self.number),
            Role::Tangent => write!(f, "the tangent of {formula} is {:?}", self.number),
            Role::Adjoint => write!(f, "the adjoint of an operand of {formula} is {:?}", self.number),
            Role::AdjointSum => write!(f, "the sum of adjoints of an operand of {formula} is {:?}", self.number),
        }
    }
}

impl NonFinite {
    /// The lines below: the source line if its text is at hand, operands, rounds of loops, and the chain.
    pub(super) fn write_details(&self, f: &mut impl fmt::Write, texts: Option<&SourceTexts>) -> fmt::Result {
        write!(f, "\n  {}", self.step.located())?;
        self.around.iter().try_for_each(|round| write!(f, ", called in {round}"))?;
        if let Some((texts, place)) = texts.zip(self.step.place.as_ref()) {
            let excerpt = texts.excerpt(place);
            if !excerpt.is_empty() {
                write!(f, "\n{}", excerpt.trim_end())?;
            }
        }
        if let (Some(adjoint), Some(result)) = (self.adjoint, self.step.result) {
            write!(f, "\n  the adjoint of its result {result:?} is {adjoint:?}")?;
        }
        let with_tangents = self.step.operands.iter().filter(|operand| !operand.tangents.is_empty());
        for operand in with_tangents {
            let tangents: Vec<String> = operand.tangents.iter().map(|tangent| format!("{tangent:?}")).collect();
            write!(f, "\n  the tangent of {} is {}", Shown(operand.value), tangents.join(", "))?;
        }
        let mut value = self.followed(&self.step);
        for step in &self.chain {
            let (mut made, place) = (step.formula(), step.located());
            if step.component > 0 {
                made.insert_str(0, "tangent of ");
            }
            match value {
                Some(value) => write!(f, "\n  {value} = {made} {place}")?,
                None => write!(f, "\n  in the derivative of {made} {place}")?,
            }
            value = self.followed(step);
        }
        if self.omitted > 0 {
            write!(f, "\n  … {} more steps …", self.omitted)?;
            value = None;
        }
        if let Origin::Input { index, is_tangent, place } = &self.origin {
            let value = value.map_or(String::new(), |value| format!("{value} = "));
            let role = if *is_tangent { "tangent of " } else { "" };
            match place {
                Some(place) => write!(f, "\n  {value}{role}argument {place}")?,
                None => write!(f, "\n  {value}{role}real {index} of the arguments, counted from 0")?,
            }
        }
        Ok(())
    }

    fn followed(&self, step: &Step) -> Option<String> {
        let Followed { operand, component } = step.followed?;
        let operand = step.operands.get(operand)?;
        let number = match component {
            0 => operand.value,
            _ => Scalar::Real(*operand.tangents.get(component - 1)?),
        };
        Some(Shown(number).to_string())
    }
}
