//! Commands that check, build and show modules: `check`, `verify`, `build`, `asm`, `disasm`.

use super::failure::{Failure, Outcome};
use super::input::{load_bytes, load_unlinked, read_module, shown, unlinked};
use super::interrupt::cancellable;
use super::{Program, native, output};
use dualvm::vm::module::FuncId;
use dualvm::vm::{binary, text};
use dualvm::{CompileLimits, Engine, ErrorKind, FileKind, Module, read_def_with};
use std::fs::Metadata;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub(crate) fn check(program: &Program) -> Outcome {
    let module = load_unlinked(program)?;
    output::with_stdout(|out| module.signatures().try_for_each(|signature| writeln!(out, "{signature}")))?;
    let missing = module.missing_imports().iter().map(|name| format!("a host has to give `{name}`"));
    for note in module.unexported().iter().map(ToString::to_string).chain(missing).filter(|_| !program.quiet) {
        // Where stderr can't be written there is nobody to tell.
        _ = writeln!(std::io::stderr().lock(), "note: {note}");
    }
    Ok(())
}

pub(crate) fn verify(program: &Program) -> Outcome {
    let module = load_unlinked(program)?;
    let functions = &module.def().functions;
    let instructions: usize = functions.iter().map(|function| function.body.code.len()).sum();
    let exported = module.functions().count();
    output::with_stdout(|out| {
        writeln!(
            out,
            "{}: verified: functions {} (exported {exported}), instructions {instructions}",
            shown(&program.file),
            functions.len()
        )
    })
}

pub(crate) fn build(program: &Program, output: Option<PathBuf>, is_linked: bool) -> Outcome {
    let to = output_path(&program.file, output)?;
    let module = load_unlinked(program)?;
    let bytes = if is_linked { module.to_linked_binary() } else { module.to_binary() };
    let bytes = bytes.map_err(|error| Failure::load(&shown(&program.file), &error))?;
    output::file(&to, &bytes)?;
    // What modules give here: a host has to give the rest anyway.
    let imports = module.def().imports.iter().map(|import| &import.name);
    let found: Vec<&String> = imports.filter(|name| !module.missing_imports().contains(name)).collect();
    let is_whole = is_linked || found.is_empty();
    let is_there = |module: Module| !found.iter().any(|name| module.missing_imports().contains(name));
    if !is_whole && !unlinked(program, &to, &bytes).is_ok_and(is_there) {
        let mut modules: Vec<&str> = found.iter().filter_map(|name| Some(name.rsplit_once('.')?.0)).collect();
        modules.dedup();
        let note = "where the bytecode is, not all that it imports is found: give its folders with --path when it is run, or \
                    build it with --linked";
        // Where stderr can't be written there is nobody to tell.
        _ = writeln!(std::io::stderr().lock(), "note: {note}; it imports from {}", modules.join(", "));
    }
    Ok(())
}

pub(crate) fn asm(file: &Path, output: Option<PathBuf>) -> Outcome {
    let to = output_path(file, output)?;
    let (name, bytes) = (shown(file), read_module(file)?);
    if FileKind::detect(&name, &bytes) == FileKind::Binary {
        let message = format!("{name}: expected assembly, found bytecode");
        return Err(Failure::bad_input(message, "`dualvm disasm` goes the other way"));
    }
    let source = std::str::from_utf8(&bytes).map_err(|error| {
        Failure::load(&name, &ErrorKind::NotText { file: name.clone(), offset: error.valid_up_to() }.into())
    })?;
    let def = text::parse(source, &name).map_err(|errors| Failure::load(&name, &ErrorKind::Assembly(errors).into()))?;
    let bytes = binary::encode(&def).map_err(|error| Failure::load(&name, &ErrorKind::Encode(error).into()))?;
    output::file(&to, &bytes)
}

pub(crate) const DISASM: &str = "\
With --derivative, each piece of straight-line code is printed with its tangent and its adjoint, as the machine derives
them: what a record of a gradient is swept with. Loops and calls are between the pieces. x_tan is the tangent of x,
x_adj its adjoint, to which a piece adds. Names are those of parameters, and of what is read of them; all else is called
as in assembly: r3 is a register, r3' what the piece leaves in it if it has read it before, r3@5 what instruction 5 has
loaded into it. t1, t2 and so on are what several formulas need. a · b is a product that is 0 where a * b is NaN because
one of the two is 0.

  dualvm disasm --derivative examples/rosenbrock.dual rosenbrock";

/// What is printed beside assembly, or in its place.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    pub(crate) native: bool,
    pub(crate) derivative: bool,
}

pub(crate) fn disasm(program: &Program, function: Option<&str>, Listing { native, derivative }: Listing) -> Outcome {
    let (name, bytes) = (shown(&program.file), read_module(&program.file)?);
    let options = program.options(CompileLimits::default());
    // Assembly is printed of whatever can be read; the rest is of what runs.
    let module = match native || derivative {
        true => Some(load_bytes(&program.file, &bytes, &Engine::default(), options.clone())?),
        false => None,
    };
    let def = match &module {
        Some(module) => module.def().clone(),
        None => cancellable(|handle| read_def_with(&name, &bytes, &options.cancelled_by(handle)))
            .map_err(|error| Failure::load(&name, &error))?,
    };
    let func = match function {
        None => None,
        Some(wanted) => match def.function(wanted) {
            Some((func, _)) => Some(func),
            None => {
                let names: Vec<&str> = def.functions.iter().map(|function| function.name.as_str()).collect();
                let help = format!("the module's functions are {}", names.join(", "));
                return Err(Failure::bad_input(format_args!("{name}: there is no function `{wanted}`"), help));
            }
        },
    };
    if let Some(module) = module.as_ref().filter(|_| derivative) {
        return derivatives(module, func);
    }
    let printed = text::print(&def);
    let Some(func) = func else {
        return output::with_stdout(|out| out.write_all(printed.as_bytes()));
    };
    let shown = function_text(&printed, func).expect("all functions are printed");
    match module {
        Some(module) => native::listing(&module, func, shown),
        None => output::with_stdout(|out| out.write_all(shown.as_bytes())),
    }
}

/// Prints the derivatives of a function, or of all.
fn derivatives(module: &Module, func: Option<FuncId>) -> Outcome {
    let functions = module.def().functions.len() as u32;
    let wanted: Vec<FuncId> = func.map_or_else(|| (0..functions).map(FuncId).collect(), |func| vec![func]);
    let text: Vec<String> = wanted.into_iter().map(|func| module.formulas(func).to_string()).collect();
    output::with_stdout(|out| out.write_all(text.join("\n").as_bytes()))
}

/// The part of a printed module that is one function. Only the start of a function stands at the start of a line with
/// `func`, and only its end is a line with `}`: strings have no line breaks in them.
fn function_text(printed: &str, func: FuncId) -> Option<&str> {
    let head = format!("func f{} ", func.0);
    let start = if printed.starts_with(&head) { 0 } else { printed.find(&format!("\n{head}"))? + 1 };
    let len = printed[start..].find("\n}\n")? + 3;
    Some(&printed[start..start + len])
}

/// Where bytecode goes.
fn output_path(file: &Path, output: Option<PathBuf>) -> Outcome<PathBuf> {
    let to = match output {
        Some(to) => to,
        None if file == Path::new("-") => PathBuf::from("-"),
        None => file.with_extension("dvbc"),
    };
    if to != Path::new("-") && are_same_file(file, &to) {
        let message = format!("{} would be overwritten by what is made from it", file.display());
        return Err(Failure::bad_input(message, "-o names another file"));
    }
    Ok(to)
}

/// Whether two paths are those of one file, in whatever way they lead there.
fn are_same_file(a: &Path, b: &Path) -> bool {
    let (Ok(a_data), Ok(b_data)) = (a.metadata(), b.metadata()) else { return false };
    // What is no file, such as a terminal, can be read and written at a time.
    a_data.is_file() && b_data.is_file() && are_same((a, &a_data), (b, &b_data))
}

/// The same of files that are there. Those with several names have one number.
#[cfg(unix)]
fn are_same((_, a): (&Path, &Metadata), (_, b): (&Path, &Metadata)) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn are_same((a, _): (&Path, &Metadata), (b, _): (&Path, &Metadata)) -> bool {
    a.canonicalize().ok() == b.canonicalize().ok()
}
