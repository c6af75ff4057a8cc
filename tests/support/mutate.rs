//! Modules that are nearly right: valid ones, changed in their structure.
//!
//! A mutation changes an instruction, the flow of control, a call, a type or a table as whoever writes modules by hand
//! or by a wrong compiler might. Most mutations know enough to leave a module valid more often than not. The verifier
//! is asked after each one, and what it refuses is mostly taken back, so that the mutations of a mutant that it accepts
//! add up, and that a mutant which it refuses is wrong in one place and otherwise unusual.

mod bases;
mod calls;
mod code;
mod flow;
mod instructions;
mod tables;
pub(crate) mod texts;

use super::dice::Dice;
use bases::Bases;
use dualvm_vm::isa::Inst;
use dualvm_vm::module::{Function, ModuleDef};
use dualvm_vm::verify::{VerifyError, verify};

/// Mutations of a mutant at most.
const MUTATIONS_MAX: usize = 10;
/// Instructions of a function, beyond which nothing is added to it.
const INSTRUCTIONS_MAX: usize = 2_000;

/// Changes something, or says that there is nothing of the kind to change.
pub(crate) type Mutation = fn(&mut Mutator<'_>) -> Option<()>;

/// All mutations, and how often each is tried.
pub(crate) const MUTATIONS: &[(&str, u32, Mutation)] = &[
    ("another register", 10, instructions::another_register),
    ("any register", 2, instructions::any_register),
    ("two operands swapped", 3, instructions::operands_swapped),
    ("a list of operands longer or shorter", 2, instructions::list_changed),
    ("two registers made one", 5, instructions::registers_merged),
    ("an opcode of the same operands", 8, instructions::opcode_alike),
    ("any opcode", 2, instructions::any_opcode),
    ("another immediate", 6, instructions::another_immediate),
    ("bits of an instruction", 1, instructions::bits_flipped),
    ("instructions deleted", 4, instructions::deleted),
    ("instructions copied", 6, instructions::copied),
    ("instructions swapped", 4, instructions::swapped),
    ("instructions moved", 4, instructions::moved),
    ("instructions of another function", 5, instructions::spliced),
    ("another target", 5, flow::another_target),
    ("a jump made a branch", 4, flow::branch_from_jump),
    ("a branch made a jump", 3, flow::jump_from_branch),
    ("a branch made a switch", 3, flow::switch_from_branch),
    ("a block cut in two", 3, flow::block_cut),
    ("a block copied", 4, flow::block_copied),
    ("a block moved", 3, flow::block_moved),
    ("a block left out", 2, flow::block_left_out),
    ("dead code after a terminator", 5, flow::dead_code),
    ("code that is jumped over", 4, flow::code_jumped_over),
    ("a loop around instructions", 8, flow::loop_around),
    ("a counted way back", 6, flow::way_back),
    ("another function called", 3, calls::another_callee),
    ("a call made a fork", 3, calls::fork_from_call),
    ("calls made a fork", 3, calls::fork_from_calls),
    ("a fork made calls", 2, calls::calls_from_fork),
    ("a task more", 3, calls::task_more),
    ("tasks counted wrong", 2, calls::tasks_miscounted),
    ("a call made a tail call", 3, calls::tail_call_from_call),
    ("a tail call made a call", 2, calls::call_from_tail_call),
    ("instructions made a function", 6, calls::outlined),
    ("a function copied", 2, calls::function_copied),
    ("two functions swapped", 1, calls::functions_swapped),
    ("a parameter more", 2, calls::parameter_more),
    ("a signature changed", 1, calls::signature_changed),
    ("a trace more", 4, texts::trace_more),
    ("a trap with values", 3, texts::trap_with_values),
    ("a template changed", 2, texts::template_changed),
    ("a traced twin", 2, texts::twin_more),
    ("a type changed", 2, tables::type_changed),
    ("a type more", 1, tables::type_more),
    ("a register's type changed", 1, tables::register_type_changed),
    ("registers more or fewer", 2, tables::register_count_changed),
    ("an interface changed", 3, tables::interface_changed),
    ("a data type changed", 2, tables::data_changed),
    ("a name changed", 2, tables::name_changed),
    ("locations changed", 2, tables::locations_changed),
];

/// A changed module.
pub(crate) struct Mutant {
    /// What it was.
    pub(crate) base: String,
    /// What was changed, in order.
    pub(crate) changes: Vec<&'static str>,
    pub(crate) def: ModuleDef,
    pub(crate) verdict: Result<(), Vec<VerifyError>>,
}

impl Mutant {
    /// The mutant for people to read.
    pub(crate) fn shown(&self) -> String {
        format!("{}: {}\n{}", self.base, self.changes.join(", "), dualvm_vm::text::print(&self.def))
    }
}

/// The mutant of these choices.
pub(crate) fn mutant(dice: &mut Dice) -> Mutant {
    let bases = Bases::get();
    let (base, def) = bases.choose(dice);
    let total: u32 = MUTATIONS.iter().map(|(_, weight, _)| weight).sum();
    let mut mutant = Mutant { base, changes: Vec::new(), def, verdict: Ok(()) };
    // Few changes show more clearly what is wrong, many get further away from what compilers write.
    let wanted = if dice.one_in(3) { dice.usize(1..=MUTATIONS_MAX) } else { dice.usize(1..4) };
    for _ in 0..2 * MUTATIONS_MAX {
        if mutant.changes.len() >= wanted {
            break;
        }
        let mut chosen = dice.u32(..total);
        let found = MUTATIONS.iter().find(|(_, weight, _)| {
            let found = chosen < *weight;
            chosen = chosen.wrapping_sub(*weight);
            found
        });
        let (name, _, change) = found.expect("the number is below the sum of the weights");
        let mut mutator = Mutator { def: mutant.def.clone(), bases, dice: &mut *dice };
        if change(&mut mutator).is_none() {
            continue;
        }
        let def = mutator.def;
        let verdict = verify(&def);
        if verdict.is_ok() || dice.one_in(4) {
            mutant.changes.push(name);
            mutant.def = def;
            mutant.verdict = verdict;
        }
        // Mutations rely on modules that hold together.
        if mutant.verdict.is_err() {
            break;
        }
    }
    mutant
}

/// A module that is being changed.
pub(crate) struct Mutator<'a> {
    def: ModuleDef,
    bases: &'a Bases,
    dice: &'a mut Dice,
}

impl Mutator<'_> {
    /// One of these, if there is any.
    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(self.dice.pick(from)) }
    }

    /// A function.
    fn function(&mut self) -> Option<usize> {
        let count = self.def.functions.len();
        (count > 0).then(|| self.dice.usize(..count))
    }

    /// A function to which instructions may be added, and a position in it: an instruction, or the end.
    fn gap(&mut self) -> Option<(usize, usize)> {
        let function = self.function()?;
        let len = self.def.functions[function].body.code.len();
        (len < INSTRUCTIONS_MAX).then(|| (function, self.dice.usize(..=len)))
    }

    /// An instruction that this is true of: function and position.
    fn place_of(&mut self, wanted: impl Fn(&Function, &Inst) -> bool) -> Option<(usize, usize)> {
        let mut places = Vec::new();
        for (index, function) in self.def.functions.iter().enumerate() {
            let code = function.body.code.iter().enumerate();
            places.extend(code.filter(|(_, inst)| wanted(function, inst)).map(|(at, _)| (index, at)));
        }
        self.pick(&places)
    }

    /// Any instruction.
    fn place(&mut self) -> Option<(usize, usize)> {
        self.place_of(|_, _| true)
    }
}
