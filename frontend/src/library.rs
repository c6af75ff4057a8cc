//! The language's library: modules that any program can import by their names. Their sources are part of the compiler.

/// Names and texts.
pub(crate) const MODULES: [(&str, &str); 6] = [
    ("interpolate", include_str!("../library/interpolate.dual")),
    ("linalg", include_str!("../library/linalg.dual")),
    ("ode", include_str!("../library/ode.dual")),
    ("optimise", include_str!("../library/optimise.dual")),
    ("random", include_str!("../library/random.dual")),
    ("stats", include_str!("../library/stats.dual")),
];

/// The text of a module.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    MODULES.iter().find(|module| module.0 == name).map(|module| module.1)
}

/// The names of all modules.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    MODULES.iter().map(|module| module.0)
}

/// A module that has a public definition of this name.
pub(crate) fn module_of(name: &str) -> Option<&'static str> {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '\'');
    let defines = |line: &str| {
        let rest = line.strip_prefix("def ").and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| !goes_on(rest))
    };
    MODULES.iter().find(|(_, text)| text.lines().any(defines)).map(|module| module.0)
}

/// The function of `linalg` that does what another one does, but with a second argument of one dimension more or less.
pub(crate) fn of_other_shape(function: &str) -> Option<&'static str> {
    const PAIRS: [[&str; 2]; 4] = [
        ["matvec", "matmul"],
        ["solve", "solve_matrix"],
        ["solve_lower", "solve_lower_matrix"],
        ["solve_upper", "solve_upper_matrix"],
    ];
    let other = |[a, b]: [&'static str; 2]| match function {
        _ if function == a => Some(b),
        _ if function == b => Some(a),
        _ => None,
    };
    PAIRS.into_iter().find_map(other)
}

/// What messages call the file of a module.
pub(crate) fn file_name(name: &str) -> String {
    format!("library/{name}.dual")
}

/// What to say where a name is that of a module in other languages, whose functions need none here.
pub(crate) fn foreign_hint(name: &str) -> Option<&'static str> {
    matches!(name, "math" | "Math" | "numpy" | "np" | "jax" | "jnp" | "torch" | "scipy")
        .then_some("functions such as `sin`, `sum` and `grad` are in no module: `sin x`")
}
