//! The modules that mutations begin with: those of the tests and examples, small generated ones, and small hostile
//! ones.

use crate::support::dice::Dice;
use crate::support::generate::{Style, program_up_to};
use crate::support::{assemble, export_all, hostile};
use dualvm_vm::isa::Op;
use dualvm_vm::module::{Function, ModuleDef};
use std::sync::OnceLock;

/// Modules in text.
const TEXTS: [(&str, &str); 4] = [
    ("tests/data/tasks.dvs", include_str!("../../data/tasks.dvs")),
    ("tests/data/record.dvs", include_str!("../../data/record.dvs")),
    ("examples/horner.dvs", include_str!("../../../examples/horner.dvs")),
    ("every_instruction.dvs", include_str!("../../../vm/tests/data/every_instruction.dvs")),
];

/// Programs of the language that compile to a few functions.
const SOURCES: [(&str, &str); 12] = [
    ("data.dual", include_str!("../../data/data.dual")),
    ("branchy.dual", include_str!("../../../examples/branchy.dual")),
    ("deep_fork.dual", include_str!("../../../examples/deep_fork.dual")),
    ("dotprod.dual", include_str!("../../../examples/dotprod.dual")),
    ("expression.dual", include_str!("../../../examples/expression.dual")),
    ("mult.dual", include_str!("../../../examples/mult.dual")),
    ("newton.dual", include_str!("../../../examples/newton.dual")),
    ("particles_par.dual", include_str!("../../../examples/particles_par.dual")),
    ("shared_array.dual", include_str!("../../../examples/shared_array.dual")),
    ("spring.dual", include_str!("../../../examples/spring.dual")),
    ("summatvec.dual", include_str!("../../../examples/summatvec.dual")),
    ("tree_sum.dual", include_str!("../../../examples/tree_sum.dual")),
];

/// Modules that don't depend on choices, with their names.
pub(super) struct Bases {
    fixed: Vec<(String, ModuleDef)>,
}

impl Bases {
    /// The bases; made once, because compiling takes time.
    pub(super) fn get() -> &'static Bases {
        static BASES: OnceLock<Bases> = OnceLock::new();
        BASES.get_or_init(|| {
            let texts = TEXTS.iter().map(|(name, text)| ((*name).to_owned(), assemble(text)));
            let sources = SOURCES.iter().map(|(name, text)| {
                let def = dualvm_frontend::compile(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
                ((*name).to_owned(), def)
            });
            let fixed = texts.chain(sources).map(|(name, mut def)| {
                // The engines have no functions of the host's to give.
                if !def.imports.is_empty() {
                    def.imports.clear();
                    let calls = |function: &Function| function.body.code.iter().any(|inst| inst.op == Op::CallImport);
                    assert!(
                        def.functions.pop().is_some_and(|last| calls(&last)),
                        "the last function calls the imports"
                    );
                    assert!(!def.functions.iter().any(calls), "and no other one does");
                }
                if def.functions.iter().all(|function| function.interface.is_none()) {
                    export_all(&mut def);
                }
                (name, def)
            });
            Bases { fixed: fixed.collect() }
        })
    }

    /// One of those that don't depend on choices.
    pub(super) fn fixed(&self, dice: &mut Dice) -> &ModuleDef {
        &self.fixed[dice.usize(..self.fixed.len())].1
    }

    /// A module and its name.
    pub(super) fn choose(&self, dice: &mut Dice) -> (String, ModuleDef) {
        match dice.u8(..8) {
            0 | 1 => {
                let family = &hostile::ALL[dice.usize(..hostile::ALL.len())];
                let small = family.small;
                let size = if dice.one_in(4) { small } else { dice.usize(1..=small.min(12)) };
                (format!("{} of size {size}", family.name), (family.make)(size))
            }
            2 | 3 => dice.pick(&self.fixed),
            _ => {
                // Few choices say which program it is, so that the others are free for the mutations.
                let (style, statements) = (dice.pick(&Style::ALL), dice.usize(2..16));
                let seed = u64::from(dice.u16(..));
                let program = program_up_to(statements, &mut Dice::with_seed(seed), style);
                (format!("{style:?} program {seed} of {statements} statements"), program.module)
            }
        }
    }
}
