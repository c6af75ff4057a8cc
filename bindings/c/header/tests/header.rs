//! `include/dualvm.h` is what the sources of `dualvm-capi` declare. `DUALVM_BLESS=1` writes it anew.

use std::path::Path;

/// Where the interface's sources are.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the interface")
}

/// The files whose declarations go into the header, in the order in which one reads it.
const FILES: [&str; 15] = [
    "version", "memory", "status", "error", "bytes", "options", "engine", "module", "function", "types", "value",
    "frame", "batch", "json", "host",
];

#[test]
fn the_header_is_what_the_sources_declare() {
    let root = root();
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap_or_else(|error| panic!("{error}"));
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in FILES {
        builder = builder.with_src(root.join(format!("src/{file}.rs")));
    }
    let bindings = builder.generate().unwrap_or_else(|error| panic!("{error}"));
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).expect("it is text");
    let made = format!("{}\n", made.trim_end());

    let path = root.join("include/dualvm.h");
    if std::env::var_os("DUALVM_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let first = made.lines().zip(committed.lines()).position(|(made, committed)| made != committed);
    assert!(
        made == committed,
        "{} is not what the sources declare, from line {} on; DUALVM_BLESS=1 writes it anew",
        path.display(),
        first.map_or(made.lines().count().min(committed.lines().count()), |line| line) + 1
    );
    every_function_is_once_in(&committed, root);
}

/// Each function that the sources declare is in the header, and once.
fn every_function_is_once_in(header: &str, root: &Path) {
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("src")).expect("there are sources") {
        let source = std::fs::read_to_string(entry.expect("it can be read").path()).expect("it is text");
        for line in source.lines().filter(|line| line.starts_with("pub") && line.contains("extern \"C\" fn ")) {
            let name = line.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).expect("functions have names");
            count += 1;
            let declaration = |line: &&str| !line.starts_with([' ', '/']) && line.contains(&format!("{name}("));
            let declared = header.lines().filter(declaration).count();
            assert_eq!(declared, 1, "declarations of {name} in the header: is its file in FILES?");
        }
    }
    assert!(count > 60, "{count} functions");
}
