//! The largest module that the verifier accepts.
//!
//! Every number here bounds time or memory of something that comes after verification, or of verification itself. The
//! first group follows from the packing of instructions, the second one is chosen.

/// Registers of one bank in a function. Register numbers have 16 bits; recording takes a few for itself.
pub const REGISTERS_MAX: u32 = 65_000;
/// Fields of a struct or of one variant, and captures of a closure: an object's header counts them in bytes.
pub const FIELDS_MAX: usize = 255;
/// Elements of a row of an array.
pub const ROW_WIDTH_MAX: usize = 65_535;
/// Variants of a type: tags have 16 bits.
pub const VARIANTS_MAX: usize = (1 << 16) - 1;

/// Functions of a module.
pub const FUNCTIONS_MAX: usize = 1 << 20;
/// Types of a module.
pub const TYPES_MAX: usize = 1 << 20;
/// Data types of a module.
pub const DATA_MAX: usize = 1 << 20;
/// Messages of a module.
pub const MESSAGES_MAX: usize = 1 << 20;
/// Templates of a module.
pub const TEMPLATES_MAX: usize = 1 << 20;
/// Imports of a module.
pub const IMPORTS_MAX: usize = 1 << 20;
/// Pieces of a template, and parts of the types of its values.
pub const PIECES_MAX: usize = 1 << 16;
/// Source files of a module.
pub const SOURCES_MAX: usize = 1 << 20;
/// Calls of a module in whose place the code of what is called stands.
pub const INLINED_CALLS_MAX: usize = 1 << 24;
/// Bytes of a name or a message.
pub const STRING_BYTES_MAX: usize = (1 << 16) - 1;
/// Parameters of a function, captures included, and results; registers of the values of a template.
pub const PARAMS_MAX: usize = 4096;
/// Instructions of a function.
pub const INSTRUCTIONS_MAX: usize = 1 << 24;
/// Entries of all operand lists of a function together.
pub const LIST_ENTRIES_MAX: usize = 1 << 26;
/// Tasks of a fork.
pub const FORK_TASKS_MAX: usize = 256;
/// Registers of one bank that the tasks of a fork take together, and that they give. A `pmap` has at most
/// [`PARAMS_MAX`] arguments.
pub const FORK_REGISTERS_MAX: usize = 1 << 14;
/// How deep host types nest; a type without parts has depth 1.
pub const HOST_TYPE_DEPTH_MAX: usize = 64;
/// Steps that following unassigned registers through the module's control flow may take. One step looks at one edge
/// for 64 registers; 100,000 instructions in 5,000 blocks with 20,000 registers take ten million.
pub const FLOW_STEPS_MAX: u64 = 1 << 30;
/// Errors that one run of the verifier reports.
pub const ERRORS_MAX: usize = 100;
