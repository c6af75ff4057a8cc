//! What a command is given: files, names of functions, arguments.

use super::failure::{Failure, Outcome, exported, shortened};
use super::interrupt::cancellable;
use super::{Call, Diagnosis, Program, Target, constant};
use dualvm::frontend::{Literal, parse_derivative, parse_literal};
use dualvm::{
    ArgumentError, CallOptions, CompileLimits, CompileOptions, Config, DataDef, Engine, Error, ErrorKind, Function,
    HostType, Listener, Module, TangentError, TraceLine, Value, ValueSeed,
};
use serde::de::{DeserializeSeed, IgnoredAny};
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::path::Path;

/// Words that look like names but are values.
const NAMED_VALUES: [&str; 7] = ["true", "false", "nan", "NaN", "inf", "infinity", "null"];

/// Reads a file, or stdin if the path is `-`.
pub(crate) fn read(path: &Path, help: &str) -> Outcome<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        return match std::io::stdin().lock().read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(Failure::io("read", Path::new("stdin"), &error, help)),
        };
    }
    std::fs::read(path).map_err(|error| Failure::io("read", path, &error, help))
}

/// Reads a file that holds a module.
pub(crate) fn read_module(path: &Path) -> Outcome<Vec<u8>> {
    read(path, "expected a file that holds a program (.dual), assembly (.dvs) or bytecode (.dvbc)")
}

/// How messages call a file.
pub(crate) fn shown(path: &Path) -> String {
    if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// Loads a module to look at it, whose imports need not be given: of what hosts give, this program has nothing.
pub(crate) fn load_unlinked(program: &Program) -> Outcome<Module> {
    let bytes = read_module(&program.file)?;
    let module = unlinked(program, &program.file, &bytes)?;
    warn(program, &module);
    Ok(module)
}

/// The same of a file that was read, without warnings.
pub(crate) fn unlinked(program: &Program, file: &Path, bytes: &[u8]) -> Outcome<Module> {
    let (name, options) = (shown(file), program.options(CompileLimits::default()));
    cancellable(|handle| Module::load_unlinked(&Engine::default(), &name, bytes, &options.clone().cancelled_by(handle)))
        .map_err(|error| Failure::load(&name, &error))
}

/// Writes what a program is warned of to stderr.
fn warn(program: &Program, module: &Module) {
    if !program.quiet && !module.warnings().list().is_empty() {
        // Where stderr can't be written there is nobody to tell.
        _ = write!(std::io::stderr().lock(), "{}", module.warnings());
    }
}

pub(crate) fn load_bytes(path: &Path, bytes: &[u8], engine: &Engine, options: CompileOptions) -> Outcome<Module> {
    let name = shown(path);
    cancellable(|handle| Module::load_with(engine, &name, bytes, &options.cancelled_by(handle)))
        .map_err(|error| Failure::load(&name, &error))
}

/// What a target means.
pub(crate) struct Prepared {
    pub(crate) engine: Engine,
    pub(crate) function: Function,
    pub(crate) args: Vec<Value>,
    /// The same function as it was written, and the distance within which its kinks are to be told.
    pub(crate) watched: Option<(Function, f64)>,
}

impl Prepared {
    /// Says on stderr where a run of the function was near a kink, if that is asked for. `choose` says what derivatives
    /// are with respect to.
    pub(crate) fn warn_of_kinks(
        &self,
        file: &Path,
        choose: impl FnOnce(Function) -> Result<Function, Failure>,
    ) -> Outcome {
        let Some((function, epsilon)) = &self.watched else { return Ok(()) };
        let function = choose(function.clone())?;
        let found = cancellable(|handle| function.kinks(&self.args, *epsilon, &unheard().cancelled_by(handle)));
        let kinks = found.map_err(|error| Failure::call(&shown(file), &function, &error))?;
        // Where stderr can't be written there is nobody to tell.
        _ = writeln!(std::io::stderr().lock(), "{kinks}");
        Ok(())
    }
}

/// Loads the module, finds the function in it and reads the arguments.
pub(crate) fn prepare(target: &Target) -> Outcome<Prepared> {
    prepare_with(target, None)
}

/// The same of a call.
pub(crate) fn prepare_call(call: &Call) -> Outcome<Prepared> {
    prepare_with(&call.target, Some(call.diagnosis))
}

/// Options of a call that does once more what another one has done, and has shown.
pub(crate) fn unheard() -> CallOptions {
    CallOptions::default().traced_to(&Listener::new(|_| ()))
}

/// What shows on stderr what programs trace.
fn trace_to_stderr() -> Listener {
    Listener::new(|TraceLine { text, place, .. }| {
        let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
        // Where stderr can't be written there is nobody to tell.
        _ = writeln!(std::io::stderr().lock(), "{place}{text}");
    })
}

/// The function that a target means, and what is left of the target.
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    pub(crate) function: Function,
    module: Module,
    /// The file that it was loaded from.
    bytes: Vec<u8>,
    /// Words that are arguments.
    words: Vec<String>,
}

/// Loads the module and finds the function in it. `flag` is the one whose file has the arguments.
fn open(target: &Target, diagnosis: Option<Diagnosis>, (flag, file): (&str, Option<&Path>)) -> Outcome<Opened> {
    if file == Some(Path::new("-")) && target.program.file == Path::new("-") {
        let message = format!("FILE and {flag} can't both be stdin");
        return Err(Failure::bad_input(message, "put one of them into a file"));
    }
    let mut config = Config::default();
    config.limits = target.limits.limits();
    config.jit = target.jit.into();
    config.threads = target.threads;
    // What isn't diagnosed is called often, or to be looked at otherwise.
    config.trace = diagnosis.filter(|diagnosis| !diagnosis.no_trace).map(|_| trace_to_stderr());
    config.trap_nan = diagnosis.is_some_and(|diagnosis| diagnosis.trap_nan);
    let engine = Engine::new(config);
    let (bytes, limits) = (read_module(&target.program.file)?, target.limits.compile_limits());
    let module = load_bytes(&target.program.file, &bytes, &engine, target.program.options(limits))?;
    warn(&target.program, &module);
    let words = target.words();
    let (function, words) = choose_function(target, &words, &module)?;
    if file.is_some() && !words.is_empty() {
        let message = format!("found arguments on the command line and {flag}: {}", words.join(" "));
        return Err(Failure::bad_input(message, "give the arguments in one of the two ways"));
    }
    let words = words.to_vec();
    Ok(Opened { engine, function, module, bytes, words })
}

/// The function of a call whose arguments are in a batch.
pub(crate) fn open_batch(call: &Call, file: &Path) -> Outcome<Opened> {
    open(&call.target, Some(call.diagnosis), ("--batch", Some(file)))
}

fn prepare_with(target: &Target, diagnosis: Option<Diagnosis>) -> Outcome<Prepared> {
    let opened = open(target, diagnosis, ("--input", target.input.as_deref()))?;
    let Opened { engine, function, module, bytes, words } = opened;
    let args = match &target.input {
        None => arguments(&target.program.file, &function, &words)?,
        Some(path) => read_arguments(path, &function)?,
    };
    let watched = match diagnosis.and_then(|diagnosis| diagnosis.warn_kinks) {
        None => None,
        Some(epsilon) => {
            let mut options = target.program.options(target.limits.compile_limits());
            options.as_written = true;
            let as_written = load_bytes(&target.program.file, &bytes, &engine, options)?.function(function.name());
            Some((as_written.map_err(|error| Failure::name(&shown(&target.program.file), &module, &error))?, epsilon))
        }
    };
    Ok(Prepared { engine, function, args, watched })
}

/// The function, and the words that are left.
fn choose_function<'w>(target: &Target, words: &'w [String], module: &Module) -> Outcome<(Function, &'w [String])> {
    if let Some((first, rest)) = words.split_first() {
        match module.function(first) {
            Ok(function) => return Ok((function, rest)),
            Err(error) if is_name(first) => return Err(Failure::name(&shown(&target.program.file), module, &error)),
            Err(_) => {}
        }
    }
    Ok((default_function(&target.program.file, module)?, words))
}

/// The function that is meant if none is named.
pub(crate) fn default_function(path: &Path, module: &Module) -> Outcome<Function> {
    let file = shown(path);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().replace('-', "_");
    let named_like_file = match module.function(&stem) {
        Ok(function) => return Ok(function),
        Err(error) => error,
    };
    let mut functions = module.functions();
    match (functions.next(), functions.next()) {
        (Some(only), None) => Ok(only),
        _ if matches!(named_like_file.kind(), ErrorKind::Unexported(_)) => {
            Err(Failure::name(&file, module, &named_like_file))
        }
        (None, _) => Err(Failure::bad_input(
            format_args!("{file}: there is no function to call"),
            "define one, with types that a host can give",
        )),
        _ => {
            let message = format!("{file}: expected the name of a function: none is called `{stem}` like the file");
            Err(Failure::bad_input(message, exported(module)))
        }
    }
}

fn is_name(word: &str) -> bool {
    let starts = |c: char| c.is_alphabetic() || c == '_';
    // Constructors are capitalised, functions are not.
    word.starts_with(starts)
        && !word.starts_with(char::is_uppercase)
        && !NAMED_VALUES.contains(&word)
        && !word.contains(char::is_whitespace)
}

fn arguments(file: &Path, function: &Function, words: &[String]) -> Outcome<Vec<Value>> {
    let params = &function.interface().params;
    if params.len() != words.len() {
        let error = Error::from(ArgumentError::Count { expected: params.clone(), found: words.len() });
        return Err(Failure::call(&shown(file), function, &error));
    }
    let argument = |((name, ty), word): (&(String, HostType), &String)| {
        value(function, Wanted { role: Role::Argument, name, ty }, word)
    };
    params.iter().zip(words).map(argument).collect()
}

/// Reads tangents: a word for each parameter that derivatives are with respect to.
pub(crate) fn tangents(file: &Path, function: &Function, wrt: &[String], words: &[String]) -> Outcome<Vec<Value>> {
    let params = &function.interface().params;
    // Each name once, in the order in which they were asked for.
    let mut expected: Vec<&String> = Vec::new();
    let all = params.iter().map(|(name, _)| name);
    for name in if wrt.is_empty() { all.collect::<Vec<_>>() } else { wrt.iter().collect() } {
        if !expected.contains(&name) {
            expected.push(name);
        }
    }
    if expected.len() != words.len() {
        let expected = expected.into_iter().cloned().collect();
        let error = Error::from(ErrorKind::Tangent(TangentError::Count { expected, found: words.len() }));
        return Err(Failure::call(&shown(file), function, &error));
    }
    let tangent = |(name, ty): &(String, HostType)| match expected.iter().position(|&known| known == name) {
        Some(n) => value(function, Wanted { role: Role::Tangent, name, ty }, &words[n]),
        None => Ok(Value::Null),
    };
    params.iter().map(tangent).collect()
}

/// Reads the cotangent of a result.
pub(crate) fn cotangent(function: &Function, word: &str) -> Outcome<Value> {
    value(function, Wanted { role: Role::Cotangent, name: "result", ty: &function.interface().result }, word)
}

/// What a word stands for.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    role: Role,
    name: &'a str,
    ty: &'a HostType,
}

/// What a value is given as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Argument,
    Tangent,
    Cotangent,
}

impl Role {
    /// How messages begin, before a name.
    fn before_name(self) -> &'static str {
        match self {
            Role::Argument => "argument",
            Role::Tangent => "tangent of",
            Role::Cotangent => "cotangent of",
        }
    }
}

/// Reads a value: JSON if it is that, and if not, a literal of the language or an expression.
fn value(function: &Function, wanted: Wanted<'_>, word: &str) -> Outcome<Value> {
    let Wanted { role, name, ty } = wanted;
    let (data, word) = (function.data(), word.trim());
    let signature = || format!("the function is {}", function.signature());
    let refused = || format!("{} {name}: expected {ty}, found `{}`", role.before_name(), shortened(word));
    if let (HostType::Bool, "True" | "False") = (ty, word) {
        return Err(Failure::bad_input(refused(), format_args!("write `{}`", word.to_lowercase())));
    }
    let seed = match role {
        Role::Argument => ValueSeed::new(name, ty, data),
        Role::Tangent | Role::Cotangent => ValueSeed::derivative(name, ty, data),
    };
    let not_json = match json(word, seed) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if let Some(value) = constant::number(word, ty) {
        return Ok(value);
    }
    let not_json = match not_json {
        // What begins as JSON of another type need not be JSON.
        of_another_type if of_another_type.is_data() => match json(word, PhantomData::<IgnoredAny>) {
            Ok(_) => {
                // A seed calls whatever it reads an argument.
                let message = without_place(&of_another_type);
                let rest = message.strip_prefix("argument").map(|rest| format!("{}{rest}", role.before_name()));
                return Err(Failure::bad_input(rest.unwrap_or(message), signature()));
            }
            Err(error) => error,
        },
        error => error,
    };
    let has_text = word.contains('"');
    if !has_text && !constant::has_data(ty) && words_in(word).any(|name| matches!(name, "NaN" | "Infinity")) {
        return Err(Failure::bad_input(refused(), "write `nan`, `inf` or `-inf`"));
    }
    let literal = if role == Role::Argument { parse_literal(word) } else { parse_derivative(word) };
    let not_literal = match literal {
        Ok(literal) => return Ok(value_of(literal, Some(ty), data)),
        Err(diagnostics) => diagnostics,
    };
    let has_null = words_in(word).any(|name| name == "null");
    // Strings are nothing in the language, and null is only in literals of derivatives: the other error is the better
    // one.
    if has_text || has_null && role == Role::Argument {
        let place = place_in(word, &not_json);
        let (name, error) = (format!("{} {name}", role.before_name()), without_place(&not_json));
        return Err(Failure::bad_input(
            format_args!("{name}: {error} at {place} of `{}`", shortened(word)),
            signature(),
        ));
    }
    let why = match has_null {
        true => Err(not_literal.to_string()),
        false => constant::evaluate(word, ty, &not_literal),
    };
    why.map_err(|why| Failure::BadInput(format!("error: {}\n  help: {}\n{why}", refused(), signature())))
}

/// Reads a word as JSON.
fn json<'de, S: DeserializeSeed<'de>>(word: &'de str, seed: S) -> Result<S::Value, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(word);
    // Depth is bounded by the types and by the seed.
    json.disable_recursion_limit();
    seed.deserialize(&mut json).and_then(|value| json.end().map(|()| value))
}

/// The names and numbers in a text.
fn words_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Where in a word that isn't JSON the error is: mostly it has one line.
fn place_in(word: &str, error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    // Columns are bytes, which nobody counts.
    let before = word.lines().nth(line.saturating_sub(1)).and_then(|text| text.get(..column));
    let column = before.map_or(column, |text| text.chars().count());
    if word.lines().count() > 1 { format!("line {line}, column {column}") } else { format!("column {column}") }
}

/// The error without its line and column: of data the place is named, and for syntax [`place_in`] says it.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

/// The value that a literal stands for, as far as it is of the type; whether it is shows when it becomes an argument.
fn value_of(literal: Literal, ty: Option<&HostType>, data: &[DataDef]) -> Value {
    match literal {
        Literal::Int(n) => Value::Int(n),
        Literal::Real(x) => Value::Real(x),
        Literal::Bool(b) => Value::Bool(b),
        Literal::Tuple(parts) => tuple_of(parts, ty, data),
        Literal::Record(fields) => record_of(fields, ty, data),
        Literal::List(items) | Literal::Array(items) => {
            let of_item = ty.and_then(HostType::item);
            Value::Array(items.into_iter().map(|item| value_of(item, of_item, data)).collect())
        }
        Literal::Constructed(name, arguments) => {
            let variants = match ty {
                Some(HostType::Data { data: id, .. }) => &*data[id.index()].variants,
                _ => &[],
            };
            let payload = variants.iter().find(|(known, _)| *known == name).map(|(_, payload)| payload);
            Value::variant(name, payload_of(arguments, payload, data))
        }
        // Null, or a kind of value that hosts can't give yet: no parameter is of a type that takes null.
        _ => Value::Null,
    }
}

fn tuple_of(parts: Vec<Literal>, ty: Option<&HostType>, data: &[DataDef]) -> Value {
    let types: &[HostType] = if let Some(HostType::Tuple(types)) = ty { types } else { &[] };
    let part = |(n, part)| value_of(part, types.get(n), data);
    Value::Tuple(parts.into_iter().enumerate().map(part).collect())
}

fn record_of(fields: Vec<(String, Literal)>, ty: Option<&HostType>, data: &[DataDef]) -> Value {
    let types: &[(String, HostType)] = if let Some(HostType::Record(types)) = ty { types } else { &[] };
    let type_of = |name: &str| types.iter().find(|(known, _)| known == name).map(|(_, ty)| ty);
    let field = |(name, field): (String, Literal)| {
        let value = value_of(field, type_of(&name), data);
        (name, value)
    };
    Value::Record(fields.into_iter().map(field).collect())
}

/// The payload that a constructor's arguments are: a record if its fields have names.
fn payload_of(mut arguments: Vec<Literal>, ty: Option<&HostType>, data: &[DataDef]) -> Value {
    if let (Some(HostType::Record(_)), [Literal::Record(_)]) = (ty, &*arguments)
        && let Some(Literal::Record(fields)) = arguments.pop()
    {
        return record_of(fields, ty, data);
    }
    tuple_of(arguments, ty, data)
}

/// Reads a JSON list of all arguments.
fn read_arguments(path: &Path, function: &Function) -> Outcome<Vec<Value>> {
    let bytes = read(path, "--input expects a file that holds the arguments in JSON")?;
    arguments_in_json(function, &bytes)
        .map_err(|error| Failure::bad_input(format_args!("{}: {error}", shown(path)), all_arguments(function)))
}

/// Reads all arguments, a JSON list or an object.
pub(crate) fn arguments_in_json(function: &Function, bytes: &[u8]) -> Result<Vec<Value>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    // Depth is bounded by the types and by the seed.
    json.disable_recursion_limit();
    function.arguments_seed().deserialize(&mut json).and_then(|args| json.end().map(|()| args))
}

/// Advice: what all arguments look like.
pub(crate) fn all_arguments(function: &Function) -> String {
    let signature = function.signature();
    format!(
        "expected a JSON list of the arguments, or an object with the parameters' names; the function is {signature}"
    )
}
