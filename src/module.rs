//! Modules: source, assembly or binary in, verified code out.

use crate::frontend::{
    self, CompileOptions, Compiled, CopiedArray, Diagnostic, Diagnostics, ImportedLibrary, KeptCall, Signature, Span,
    Unexported,
};
use crate::kind::FileKind;
use crate::link;
use crate::vm::engine::Engine;
use crate::vm::excerpt::SourceTexts;
use crate::vm::explain::Explanation;
use crate::vm::formulas::Formulas;
use crate::vm::linker::{Library, Linker};
use crate::vm::module::{FuncId, ModuleDef};
use crate::vm::native::{CompiledCode, Generator, Listing, Mode, Refusal};
use crate::vm::verify::{Rule, VerifyError};
use crate::vm::{binary, engine, text};
use crate::{Error, ErrorKind, Function};
use std::sync::Arc;

/// Verified code. Cheap to clone, `Send` and `Sync`.
///
/// A `Module` in hand means that the verifier has accepted the code: whatever its bytes came from, running it can't do
/// more than compute, trap or reach a limit.
///
/// ```
/// use dualvm::{Engine, Error, Module};
///
/// let engine = Engine::default();
/// let module = Module::from_source(&engine, "cube.dual", "def cube (x : Real) : Real = x * x * x")?;
/// let names: Vec<String> = module.functions().map(|function| function.name().to_owned()).collect();
/// assert_eq!(names, ["cube"]);
///
/// let bytes = module.to_binary()?;
/// let same = Module::from_binary(&engine, &bytes)?;
/// assert_eq!(same.def(), module.def());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Module {
    verified: engine::Module,
    /// The types of exported functions as they are written; only source tells.
    signatures: Arc<[Signature]>,
    /// What the program defines and hosts can't call; only source tells.
    unexported: Arc<[Unexported]>,
    warnings: Arc<Diagnostics>,
    /// The calls that the compiler has left, and why; only source tells.
    kept_calls: Arc<[KeptCall]>,
    /// The arrays that are copied to change elements of them, and why; only source tells.
    copied_arrays: Arc<[CopiedArray]>,
    /// The texts of the files that it was compiled from.
    source_texts: Arc<SourceTexts>,
    /// The imports that nobody gives.
    missing_imports: Arc<[String]>,
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Module>();
};

impl Module {
    /// Verifies a module that a compiler or [`ModuleBuilder`](crate::vm::builder::ModuleBuilder) made.
    ///
    /// # Errors
    /// [`ErrorKind::Verify`] with everything that the verifier finds wrong, up to 100 errors.
    pub fn new(engine: &Engine, def: ModuleDef) -> Result<Module, Error> {
        Module::verify(engine, Read::only(def), &engine.config().linker)
    }

    /// The same module for another engine. What it was linked with goes along, whoever gave it.
    ///
    /// # Errors
    /// None is expected: the module was verified, and linked with the same.
    pub fn for_engine(&self, engine: &Engine) -> Result<Module, Error> {
        Ok(Module { verified: for_engine(&self.verified, engine)?, ..self.clone() })
    }

    /// The module for others to call: give it to the [`Config::with_library`](crate::Config::with_library) of any
    /// engine, or to an [`Importer`](crate::Importer).
    ///
    /// ```
    /// use dualvm::{Config, Engine, Error, Module};
    ///
    /// let shapes = "def area (r : Real) : Real = pi * r ^ 2";
    /// let shapes = Module::from_source(&Engine::default(), "shapes.dual", shapes)?.library();
    ///
    /// let engine = Engine::new(Config::default().with_library("shapes", shapes));
    /// let text = "
    ///     import host \"shapes.area\" as area : Real -> Real
    ///     def half (r : Real) : Real = area r / 2";
    /// let half = Module::from_source(&engine, "half.dual", text)?.function("half")?;
    /// assert_eq!(half.call(&[1.0.into()])?, (std::f64::consts::PI / 2.0).into());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn library(&self) -> Library {
        self.verified.library()
    }

    /// Compiles a program in dualvm's language. `file` names it in messages and backtraces; nothing is opened.
    ///
    /// ```
    /// use dualvm::{Engine, ErrorKind, Module};
    ///
    /// let error = Module::from_source(&Engine::default(), "f.dual", "def f (x : Real) = sqr x").unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::Source(_)));
    /// assert!(error.to_string().contains("f.dual:1:20"));
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Source`] with all problems found, each with its line, imports that nobody gives among them; and
    /// [`CompileLimits`](crate::CompileLimits), by default.
    pub fn from_source(engine: &Engine, file: &str, text: &str) -> Result<Module, Error> {
        Module::from_source_with(engine, file, text, &CompileOptions::default())
    }

    /// Compiles a program as [`Module::from_source`] does, within limits of its own, and until another thread cancels
    /// it.
    ///
    /// ```
    /// use dualvm::{CompileLimits, CompileOptions, Engine, Module};
    ///
    /// let options = CompileOptions::with_limits(CompileLimits::untrusted());
    /// let text = format!("def f (x : Real) : Real = {}", vec!["x"; 1_000_000].join(" + "));
    /// let error = Module::from_source_with(&Engine::default(), "f.dual", &text, &options).unwrap_err();
    /// assert!(error.is_limit());
    /// assert!(error.to_string().contains("the limit `source_bytes` is 262144"));
    /// ```
    ///
    /// # Errors
    /// As [`Module::from_source`]. Of a limit, and of a cancellation, there is one problem that says where the compiler
    /// was; see [`Error::is_limit`] and [`Error::is_cancelled`].
    pub fn from_source_with(
        engine: &Engine,
        file: &str,
        text: &str,
        options: &CompileOptions,
    ) -> Result<Module, Error> {
        let options = options_for(engine, options);
        Module::link(engine, file, compile(file, text, &options)?, &options)
    }

    /// Assembles and verifies a module in text form; [`dualvm::vm::text`](crate::vm::text) describes it.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = r#"
    /// func "square" (real) -> (real)
    ///   export (x : Real) -> Real
    ///   regs 2 real
    /// {
    ///   mul r1, r0, r0
    ///   ret (r1)
    /// }
    /// "#;
    /// let square = Module::from_assembly(&Engine::default(), "square.dvs", text)?.function("square")?;
    /// assert_eq!(square.value_and_grad(&[3.0.into()])?, (9.0, vec![Value::Real(6.0)]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Assembly`] with all problems found, each with its line, and [`ErrorKind::Verify`].
    pub fn from_assembly(engine: &Engine, file: &str, text: &str) -> Result<Module, Error> {
        let def = text::parse(text, file).map_err(ErrorKind::Assembly)?;
        Module::new(engine, def)
    }

    /// Decodes and verifies a module in binary form. Linear in the number of bytes, whoever wrote them.
    ///
    /// # Errors
    /// [`ErrorKind::Binary`] with the offset of what can't be decoded, and [`ErrorKind::Verify`].
    pub fn from_binary(engine: &Engine, bytes: &[u8]) -> Result<Module, Error> {
        let def = binary::decode(bytes).map_err(ErrorKind::Binary)?;
        Module::new(engine, def)
    }

    /// Loads source, assembly or binary, told apart by [`FileKind::detect`]. `file` names it in messages.
    ///
    /// # Errors
    /// As [`Module::from_source`], [`Module::from_assembly`] or [`Module::from_binary`], and [`ErrorKind::NotText`] if
    /// the bytes are neither text nor binary.
    pub fn load(engine: &Engine, file: &str, bytes: &[u8]) -> Result<Module, Error> {
        Module::load_with(engine, file, bytes, &CompileOptions::default())
    }

    /// Loads a module as [`Module::load`] does; if it is source, as [`Module::from_source_with`]. Assembly and binary
    /// are read in time and memory that are linear in the number of bytes, which the host has in hand.
    ///
    /// # Errors
    /// As [`Module::load`] and [`Module::from_source_with`].
    pub fn load_with(engine: &Engine, file: &str, bytes: &[u8], options: &CompileOptions) -> Result<Module, Error> {
        let options = options_for(engine, options);
        Module::link(engine, file, read(file, bytes, &options)?, &options)
    }

    /// Loads a module as [`Module::load_with`] does, for tools that look at it and run nothing: what it imports and
    /// nobody gives is no error, and calls of it trap. [`Module::missing_imports`] says what that is.
    ///
    /// ```
    /// use dualvm::{CompileOptions, Engine, Error, Module};
    ///
    /// let text = "
    ///     import host \"drag\" : Real -> Real
    ///     def slowed (v : Real) : Real = v - drag v";
    /// let engine = Engine::default();
    /// let module = Module::load_unlinked(&engine, "slowed.dual", text.as_bytes(), &CompileOptions::default())?;
    /// assert_eq!(module.missing_imports(), ["drag"]);
    /// let trap = module.function("slowed")?.call(&[2.0.into()]).unwrap_err();
    /// assert!(trap.to_string().starts_with("the host's function `drag`: nobody gives it"));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Module::load_with`], of all else. An import of a type that a host can't give has to be given.
    pub fn load_unlinked(engine: &Engine, file: &str, bytes: &[u8], options: &CompileOptions) -> Result<Module, Error> {
        let options = options_for(engine, options);
        let mut read = read(file, bytes, &options)?;
        let mut linker = Module::linker(engine, file, &mut read, &options)?;
        let missing = linker.define_missing(&read.def);
        Ok(Module { missing_imports: missing.into(), ..Module::verify(engine, read, &linker)? })
    }

    /// What the module imports and nobody gives: nothing, unless it was loaded by [`Module::load_unlinked`].
    pub fn missing_imports(&self) -> &[String] {
        &self.missing_imports
    }

    /// The exported function of this name.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchFunction`], with names that it may have been meant to be; [`ErrorKind::Unexported`] if the
    /// source defines it with functions in its type.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        self.verified.function(name).map(Function::new).ok_or_else(|| {
            if let Some(unexported) = self.unexported.iter().find(|unexported| unexported.name == name) {
                return ErrorKind::Unexported(unexported.clone()).into();
            }
            self.no_such_function(name)
        })
    }

    fn no_such_function(&self, name: &str) -> Error {
        let private = self.def().function(name).is_some();
        ErrorKind::NoSuchFunction { name: name.to_owned(), suggestions: self.similar(name), private }.into()
    }

    /// What becomes of the loops and calls of a function, and of all functions that it reaches, when its derivatives
    /// are asked for: what is recorded as one, and what isn't and why. `dualvm explain` prints it. The function need
    /// not be exported.
    ///
    /// It is about the code as compiled: loops that were fused, unrolled or removed, and calls of functions that were
    /// copied into their callers, are not there. Of a module that was not compiled from source it isn't known why a
    /// call was left.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Recording};
    ///
    /// let text = "
    /// def power (n : Int) (x : Real) : Real = if n == 0 then 1 else x * power (n - 1) x
    /// def series (x : Real) : Real =
    ///   loop s = 0.0 for i < 10 do s + power i x";
    /// let module = Module::from_source(&Engine::default(), "series.dual", text)?;
    /// let explanation = module.explain("series")?;
    ///
    /// let series = &explanation.functions[0];
    /// let loops = series.loops.as_ref().expect("the function is small");
    /// assert_eq!(loops[0].place.source.as_ref().expect("it is known").to_string(), "series.dual:4:3");
    /// let Recording::Rounds(obstacle) = &loops[0].recording else { panic!("the loop has a call") };
    /// assert_eq!(obstacle.refusal.to_string(), "it calls a function");
    /// assert_eq!(series.calls[0].reason.as_deref(), Some("may call itself"));
    ///
    /// let why = "because it calls `power` (series.dual:4:34), which may call itself";
    /// let expected = format!("series.dual:4:3  loop: records in each round, {why}");
    /// assert!(explanation.to_string().contains(&expected));
    /// // With the source lines and carets.
    /// println!("{}", explanation.with_sources(module.source_texts()));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchFunction`], with names that it may have been meant to be; [`ErrorKind::Unexported`] if the
    /// source defines it with functions in its type: it has no code of its own.
    pub fn explain(&self, name: &str) -> Result<Explanation, Error> {
        let Some(mut explanation) = self.verified.explain(name) else {
            if let Some(unexported) = self.unexported.iter().find(|unexported| unexported.name == name) {
                return Err(ErrorKind::Unexported(unexported.clone()).into());
            }
            return Err(self.no_such_function(name));
        };
        for function in &mut explanation.functions {
            let func = function.func;
            for call in &mut function.calls {
                let Some((callee, _)) = call.callee.as_ref().and_then(|callee| self.def().function(callee)) else {
                    continue;
                };
                let kept = || self.kept_calls.iter().filter(|kept| kept.caller == func && kept.callee == callee);
                // Code of the prelude has no place of its own.
                let here = kept().find(|kept| kept.place == call.place.source).or_else(|| kept().next());
                call.reason = here.map(|kept| kept.reason.to_string());
            }
            for copy in &mut function.copies {
                let is_it = |copied: &&CopiedArray| copied.function == func && copied.place == copy.place.source;
                if let Some(copied) = self.copied_arrays.iter().find(is_it) {
                    (copy.reason, copy.cause) = (Some(copied.reason.to_string()), copied.cause.clone());
                }
            }
        }
        Ok(explanation)
    }

    /// The definitions of the main file that hosts can't call because there are functions in their types; none for a
    /// module in binary form or in assembly, which don't have them.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def twice (f : Real -> Real) (x : Real) : Real = f (f x)";
    /// let module = Module::from_source(&Engine::default(), "twice.dual", text)?;
    /// assert_eq!(module.unexported()[0].reason, "takes a function (`f : Real -> Real`)");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn unexported(&self) -> &[Unexported] {
        &self.unexported
    }

    /// What is probably not what was meant in the program, though it was compiled; nothing for a module in binary form
    /// or in assembly. `Display` writes each with its lines.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module};
    ///
    /// let text = "def area (r : Real) : Real = let half = r / 2 in pi * r ^ 2";
    /// let module = Module::from_source(&Engine::default(), "area.dual", text)?;
    /// assert_eq!(module.warnings().list()[0].message, "the variable `half` is never used");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// The texts of the files that the module was compiled from, for messages that show lines; none for a module in
    /// binary form or in assembly.
    ///
    /// ```
    /// use dualvm::{Engine, Error, Module, Value};
    ///
    /// let text = "def third (a : Array Real) : Real = a[2]";
    /// let module = Module::from_source(&Engine::default(), "third.dual", text)?;
    /// let error = module.function("third")?.call(&[Value::Array(vec![Value::Real(1.0)])]).unwrap_err();
    /// let shown = error.trap().expect("it is one").with_sources(module.source_texts()).to_string();
    /// assert_eq!(shown, "\
    /// index 2 is out of bounds of an array of length 1
    ///   in third at third.dual:1:37
    ///     1 | def third (a : Array Real) : Real = a[2]
    ///       |                                     ^");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn source_texts(&self) -> &SourceTexts {
        &self.source_texts
    }

    /// All exported functions, in the order of the program.
    pub fn functions(&self) -> impl Iterator<Item = Function> + '_ {
        self.verified.functions().map(Function::new)
    }

    /// Names and types of all exported functions, in the order of the program. Where the module was compiled from
    /// source, a type is shown as it is written there, unless it is very long: with its abbreviations, and with fields
    /// of records in the order of their declaration. Otherwise it is that of [`Function::signature`].
    ///
    /// ```
    /// use dualvm::{Engine, Module};
    ///
    /// let text = "alias Point = { y : Real, x : Real }
    /// def norm (p : Point) : Real = hypot p.x p.y
    /// def flipped (p : { y : Real, x : Real }) : Point = { y = p.x, x = p.y }";
    /// let module = Module::from_source(&Engine::default(), "norm.dual", text)?;
    /// let signatures: Vec<String> = module.signatures().collect();
    /// assert_eq!(signatures, ["norm : (p : Point) -> Real", "flipped : (p : { y : Real, x : Real }) -> Point"]);
    /// assert_eq!(module.function("norm")?.signature(), "norm : (p : { x : Real, y : Real }) -> Real");
    /// # Ok::<(), dualvm::Error>(())
    /// ```
    pub fn signatures(&self) -> impl Iterator<Item = String> + '_ {
        let mut written = self.signatures.iter().peekable();
        self.functions().map(move |function| {
            let written = written.next_if(|signature| signature.name == function.name());
            written.map_or_else(|| function.signature(), |signature| signature.text.clone())
        })
    }

    /// The module in binary form, which [`Module::from_binary`] reads. Equal modules have equal bytes. What it calls of
    /// other modules is not in it.
    ///
    /// # Errors
    /// [`ErrorKind::Encode`], which no module reports that was decoded, assembled, compiled or built by this crate.
    pub fn to_binary(&self) -> Result<Vec<u8>, Error> {
        binary::encode(self.def()).map_err(|error| ErrorKind::Encode(error).into())
    }

    /// The module in binary form together with what it calls of other modules: who loads it needs none of these.
    ///
    /// # Errors
    /// As [`Module::to_binary`].
    pub fn to_linked_binary(&self) -> Result<Vec<u8>, Error> {
        binary::encode(self.linked_def()).map_err(|error| ErrorKind::Encode(error).into())
    }

    /// The module in text form, which [`Module::from_assembly`] reads.
    pub fn to_assembly(&self) -> String {
        text::print(self.def())
    }

    /// The code as data: the module's own.
    pub fn def(&self) -> &ModuleDef {
        self.verified.def()
    }

    /// The code together with that of other modules which it calls: it imports nothing but functions of the host's.
    pub fn linked_def(&self) -> &ModuleDef {
        self.verified.linked_def()
    }

    /// The native code that the module has by now, in the order of its compilation.
    pub fn compiled(&self) -> Vec<CompiledCode> {
        self.verified.compiled()
    }

    /// What the generator of native code has failed for, and why: nothing, as far as anyone knows. It stays
    /// interpreted.
    pub fn compile_failures(&self) -> Vec<String> {
        self.verified.compile_failures()
    }

    /// The derivatives of a function's straight-line code as formulas, as `dualvm disasm --derivative` prints them.
    ///
    /// # Panics
    /// If the module has no such function.
    pub fn formulas(&self, func: FuncId) -> Formulas {
        self.verified.formulas(func)
    }

    /// What the native code of a function looks like in a mode. `None` if there is no native
    /// code on this machine, the engine's configuration turns it off, or the module has no such function.
    pub fn native_listing(&self, func: FuncId, mode: Mode) -> Option<Result<Listing, Refusal>> {
        self.verified.native_listing(func, mode)
    }

    /// The engine that the module belongs to.
    pub fn engine(&self) -> &Engine {
        self.verified.engine()
    }

    /// Verifies a module that may import from others.
    fn link(engine: &Engine, file: &str, mut read: Read, options: &CompileOptions) -> Result<Module, Error> {
        let linker = Module::linker(engine, file, &mut read, options)?;
        Module::verify(engine, read, &linker)
    }

    /// What gives the module's imports.
    fn linker(engine: &Engine, file: &str, read: &mut Read, options: &CompileOptions) -> Result<Linker, Error> {
        let (given, imported) = (&engine.config().linker, std::mem::take(&mut read.libraries));
        link::linker(given, (file, &read.def), imported, options.importer.as_deref())
    }

    fn verify(engine: &Engine, read: Read, linker: &Linker) -> Result<Module, Error> {
        let Read {
            def, signatures, unexported, warnings, kept_calls, copied_arrays, source_texts, import_places, ..
        } = read;
        let verified = engine::Module::linked(engine, def, linker, generator()).map_err(|errors| {
            refused_imports(&warnings, &import_places, &errors).unwrap_or(ErrorKind::Verify(errors))
        })?;
        Ok(Module {
            verified,
            signatures: signatures.into(),
            unexported: unexported.into(),
            warnings: Arc::new(warnings),
            kept_calls: kept_calls.into(),
            copied_arrays: copied_arrays.into(),
            source_texts: Arc::new(source_texts),
            missing_imports: Arc::default(),
        })
    }

    /// Exported functions whose names are similar to `name`, the most similar first.
    fn similar(&self, name: &str) -> Vec<String> {
        const SHOWN: usize = 3;
        const SIMILARITY_MIN: f64 = 0.75;
        let scored = self.functions().map(|function| {
            let similarity = strsim::jaro_winkler(&name.to_lowercase(), &function.name().to_lowercase());
            (similarity, function.name().to_owned())
        });
        let mut similar: Vec<(f64, String)> = scored.filter(|(score, _)| *score >= SIMILARITY_MIN).collect();
        similar.sort_by(|a, b| b.0.total_cmp(&a.0));
        similar.into_iter().take(SHOWN).map(|(_, name)| name).collect()
    }
}

/// What is wrong with imports, at their places in the program. `None` if that isn't all, or a place isn't known.
fn refused_imports(warnings: &Diagnostics, places: &[Option<Span>], errors: &[VerifyError]) -> Option<ErrorKind> {
    let problem = |error: &VerifyError| {
        let place = (*places.get(error.import? as usize)?)?;
        let VerifyError { rule, expected, found, .. } = error;
        let problem = Diagnostic::error(place, format!("{}: expected {expected}, found {found}", rule.message()));
        Some(match rule {
            Rule::ImportMissing => problem.help(
                "a host gives functions (`Linker::define`), or bytecode of another module does: `shapes.dvbc` for \
                 \"shapes.area\", beside the file or in a folder given by `--path`",
            ),
            Rule::ImportMismatch => problem.help("an import is of the type that the function has where it is defined"),
            _ => problem,
        })
    };
    let problems: Vec<Diagnostic> = errors.iter().map(problem).collect::<Option<_>>()?;
    Some(ErrorKind::Source(warnings.replaced_by(problems)))
}

/// A module for another engine, with what it was linked with.
pub(crate) fn for_engine(module: &engine::Module, engine: &Engine) -> Result<engine::Module, Error> {
    let same = engine::Module::linked(engine, module.def().clone(), module.linker(), generator());
    same.map_err(|errors| ErrorKind::Verify(errors).into())
}

/// What makes native code for engines that have no generator of their own.
#[cfg(feature = "native")]
fn generator() -> Option<Arc<dyn Generator>> {
    Some(Arc::new(dualvm_jit::Cranelift))
}

/// Nothing does: everything is interpreted.
#[cfg(not(feature = "native"))]
fn generator() -> Option<Arc<dyn Generator>> {
    None
}

/// Reads a file of any kind, without verifying what it holds.
///
/// For tools that show or convert modules which may not be good; everyone else wants [`Module::load`].
///
/// # Errors
/// As [`Module::load`], but never [`ErrorKind::Verify`].
pub fn read_def(file: &str, bytes: &[u8]) -> Result<ModuleDef, Error> {
    read_def_with(file, bytes, &CompileOptions::default())
}

/// Reads a file as [`read_def`] does; if it is source, as [`Module::from_source_with`].
///
/// # Errors
/// As [`Module::load_with`], but never [`ErrorKind::Verify`].
pub fn read_def_with(file: &str, bytes: &[u8], options: &CompileOptions) -> Result<ModuleDef, Error> {
    read(file, bytes, options).map(|read| read.def)
}

/// A module before verification.
struct Read {
    def: ModuleDef,
    signatures: Vec<Signature>,
    unexported: Vec<Unexported>,
    warnings: Diagnostics,
    kept_calls: Vec<KeptCall>,
    copied_arrays: Vec<CopiedArray>,
    source_texts: SourceTexts,
    import_places: Vec<Option<Span>>,
    libraries: Vec<ImportedLibrary>,
}

impl Read {
    /// Of which nothing but the code is known.
    fn only(def: ModuleDef) -> Read {
        Read {
            def,
            signatures: Vec::new(),
            unexported: Vec::new(),
            warnings: Diagnostics::default(),
            kept_calls: Vec::new(),
            copied_arrays: Vec::new(),
            source_texts: SourceTexts::default(),
            import_places: Vec::new(),
            libraries: Vec::new(),
        }
    }
}

fn read(file: &str, bytes: &[u8], options: &CompileOptions) -> Result<Read, Error> {
    let kind = FileKind::detect(file, bytes);
    if kind == FileKind::Binary {
        return binary::decode(bytes).map(Read::only).map_err(|error| ErrorKind::Binary(error).into());
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ErrorKind::NotText { file: file.to_owned(), offset: error.valid_up_to() })?;
    match kind {
        FileKind::Assembly => {
            text::parse(text, file).map(Read::only).map_err(|errors| ErrorKind::Assembly(errors).into())
        }
        _ => compile(file, text, options),
    }
}

/// Options for a program that the engine is to run: one that looks for the first number that isn't finite runs programs
/// as they were written.
fn options_for(engine: &Engine, options: &CompileOptions) -> CompileOptions {
    let mut options = options.clone();
    options.as_written |= engine.config().trap_nan;
    options
}

/// The one place where the language's compiler is called.
fn compile(file: &str, text: &str, options: &CompileOptions) -> Result<Read, Error> {
    let compiled = frontend::compile_with(file, text, options).map_err(ErrorKind::Source)?;
    let Compiled {
        module,
        signatures,
        unexported,
        warnings,
        kept_calls,
        copied_arrays,
        sources,
        import_places,
        libraries,
        ..
    } = compiled;
    let mut source_texts = SourceTexts::default();
    sources.into_iter().for_each(|(name, text)| source_texts.insert(name, text));
    Ok(Read {
        def: module,
        signatures,
        unexported,
        warnings,
        kept_calls,
        copied_arrays,
        source_texts,
        import_places,
        libraries,
    })
}
