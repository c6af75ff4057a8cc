//! Programs of several files: what names mean across them, what is refused, and where errors are.

use dualvm::{
    CompileLimits, CompileOptions, Engine, ErrorKind, ImportRequest, ImportedFile, Importer, MemoryImporter, Module,
    Value,
};
use std::sync::Arc;

/// Compiles a main file with other files in memory.
fn load(main: &str, files: &[(&str, &str)]) -> Result<Module, dualvm::Error> {
    let mut importer = MemoryImporter::default();
    files.iter().for_each(|(name, text)| importer.insert(*name, *text));
    let options = CompileOptions::default().importing(Arc::new(importer));
    Module::from_source_with(&Engine::default(), "main.dual", main, &options)
}

fn value(main: &str, files: &[(&str, &str)], args: &[f64]) -> f64 {
    let module = load(main, files).unwrap_or_else(|error| panic!("{error}"));
    let args: Vec<Value> = args.iter().copied().map(Value::Real).collect();
    match module.function("f").unwrap().call(&args).unwrap_or_else(|error| panic!("{error}")) {
        Value::Real(value) => value,
        other => panic!("{other:?}"),
    }
}

fn refused(main: &str, files: &[(&str, &str)], expected: &[&str]) {
    let error = load(main, files).expect_err(main);
    let ErrorKind::Source(errors) = error.kind() else { panic!("{error}") };
    let shown = errors.to_string();
    for part in expected {
        assert!(shown.contains(part), "{part:?} isn't in\n{shown}");
    }
    assert_eq!(errors.list().len(), 1, "{shown}");
}

const SHAPES: &str = "\
type Shape = Circle Real | Rect { width : Real, height : Real }
alias Side = Real
def area (shape : Shape) : Real =
  match shape with
  | Circle r -> pi * r ^ 2
  | Rect { width, height } -> width * height
private def secret (x : Real) : Real = x
private type Hidden = Hidden Real
def square (a : Side) : Shape = Rect { width = secret a, height = a }
";

#[test]
fn names_of_a_module_are_qualified_or_selected() {
    let files = [("shapes", SHAPES)];
    let qualified = "import shapes\ndef f (x : Real) : Real = shapes.area (shapes.square x)";
    assert_eq!(value(qualified, &files, &[3.0]), 9.0);
    let renamed = "import shapes as s\ndef f (x : s.Side) : Real = s.area (s.Rect { width = x, height = 2 })";
    assert_eq!(value(renamed, &files, &[3.0]), 6.0);
    let selected = "import shapes (area, square as quadrat, Shape)
        def g (s : Shape) : Real = match s with | Circle r -> r | shapes.Rect { width, .. } -> width
        def f (x : Real) : Real = area (quadrat x) + g (Circle 1) + g (quadrat 5)";
    assert_eq!(value(selected, &files, &[3.0]), 15.0);
    // As a value, in an operator section, piped, as a field's neighbour.
    let first_class = "import shapes
        def apply (g : Real -> shapes.Shape) (x : Real) : Real = x |> g |> shapes.area
        def f (x : Real) : Real =
          let r = { shapes = 1.0, square = 2.0 } in
          apply shapes.square x + r.shapes + r.square";
    assert_eq!(value(first_class, &files, &[3.0]), 12.0);
}

#[test]
fn files_are_scopes_of_their_own() {
    // Both files have an `area` and a `Shape`, and what a module uses itself isn't hidden by who imports it.
    let main = "import shapes
        type Shape = Dot
        def area (s : Shape) : Real = match s with | Dot -> 0.5
        def pi2 = 2.0
        def f (x : Real) : Real = area Dot + shapes.area (shapes.square x)";
    assert_eq!(value(main, &[("shapes", SHAPES)], &[2.0]), 4.5);
    // What a module imports, its importers don't get; a name of the prelude may be a module's own.
    let files =
        [("a", "import b\ndef sum (x : Real) : Real = b.twice x + 1"), ("b", "def twice (x : Real) : Real = 2 * x")];
    assert_eq!(value("import a\ndef f (x : Real) : Real = a.sum x + sum [1, 2]", &files, &[1.0]), 6.0);
    refused("import a\ndef f (x : Real) : Real = b.twice x", &files, &["main.dual:2:27", "unknown name `b`"]);
    // Two files share a third.
    let files = [
        ("a", "import c\ndef one : c.T = c.T 1"),
        ("b", "import c\ndef get (t : c.T) : Real = match t with | c.T x -> x"),
        ("c", "type T = T Real"),
    ];
    assert_eq!(value("import a\nimport b\ndef f (x : Real) : Real = x + b.get a.one", &files, &[2.0]), 3.0);
}

#[test]
fn only_the_main_file_is_exported() {
    let main = "import shapes (square)\nprivate def g (x : Real) : Real = x\ndef f (x : Real) = square (g x)";
    let module = load(main, &[("shapes", SHAPES)]).unwrap();
    let names: Vec<String> = module.functions().map(|function| function.name().to_owned()).collect();
    assert_eq!(names, ["f"]);
    // Its types may be those of other files.
    let result = module.function("f").unwrap().call(&[Value::Real(2.0)]).unwrap();
    assert_eq!(module.function("f").unwrap().signature(), "f : (x : Real) -> Shape");
    assert!(format!("{result:?}").contains("Rect"), "{result:?}");
}

#[test]
fn what_is_wrong_is_said_with_the_right_file() {
    let shapes = [("shapes", SHAPES)];
    let f = "\ndef f (x : Real) : Real = x";
    refused(&format!("import shapse{f}"), &shapes, &["main.dual:1:8", "there is no module `shapse`", "--path"]);
    // What would come from there is not reported again.
    let uses = "\ndef f (x : nowhere.T) : Real = nowhere.g (h x) + nowhere.K";
    refused(&format!("import nowhere (h){uses}"), &shapes, &["main.dual:1:8", "there is no module `nowhere`"]);
    refused(&format!("import \"lib/shapes\"{f}"), &shapes, &["no module `lib/shapes`", "folder of the file"]);
    refused(&format!("import shapes (areas){f}"), &shapes, &["has no `areas`", "there is `area`"]);
    refused(&format!("import shapes (secret){f}"), &shapes, &["has no `secret`", "it is private"]);
    refused(&format!("import shapes (Hidden){f}"), &shapes, &["has no `Hidden`", "it is private"]);
    refused("import shapes\ndef f (x : Real) : Real = shapes.secret x", &shapes, &["unknown name `shapes.secret`"]);
    refused("import shapes\ndef f (x : Real) : Real = shapes.aera x", &shapes, &["`shapes.area` with a similar name"]);
    refused(
        "import shapes\ndef f (x : shapes.Shap) : Real = 1",
        &shapes,
        &["unknown type `shapes.Shap`", "`shapes.Shape`"],
    );
    refused("import shapes (area)\ndef area (x : Real) : Real = x", &shapes, &["main.dual:1:16", "defined twice"]);
    refused(
        "import shapes\ndef f (shapes : Real) : Real = 1",
        &shapes,
        &["main.dual:2:8", "name of an imported module"],
    );
    refused(
        "import shapes\ndef shapes.f (x : Real) : Real = 1",
        &shapes,
        &["main.dual:2:5", "expected the name of the definition"],
    );
    refused("def f (x : Real) : Real = x\nimport shapes", &shapes, &["main.dual:2:1", "at the beginning of a file"]);
    refused("import shapes\nimport shapes\ndef f (x : Real) : Real = x", &shapes, &["main.dual:2:8", "imported twice"]);
    refused("import Shapes\ndef f (x : Real) : Real = x", &shapes, &["main.dual:1:8", "expected the name of a module"]);
    refused("import \"2d\"\ndef f (x : Real) : Real = x", &shapes, &["can't be the name of a module", "as models"]);
    refused("private f = 1", &[], &["main.dual:1:9", "`private` stands before a declaration"]);
    // In an imported file.
    let bad = [("bad", "def g (x : Real) : Real = x\ndef h (x : Real) : Real = y")];
    refused(&format!("import bad{f}"), &bad, &["bad.dual:2:27", "unknown name `y`"]);
    let bad = [("bad", "def g (x : Real) : Int = x")];
    refused(&format!("import bad{f}"), &bad, &["bad.dual:1:26"]);
    let bad = [("bad", "def g (x : Real : Real = x")];
    refused(&format!("import bad{f}"), &bad, &["bad.dual:1:17"]);
    // A wrong use of what another file declares points at both.
    let main = "import shapes\ndef f (x : Real) : Real = shapes.area (shapes.square x) 1";
    refused(main, &shapes, &["main.dual:2:", "shapes.dual:3:5"]);
}

#[test]
fn circles_are_refused_with_the_chain() {
    let f = "\ndef f (x : Real) : Real = x";
    let files = [("a", "import b"), ("b", "import c"), ("c", "import a")];
    let chain = "a.dual imports b.dual, which imports c.dual, which imports a.dual";
    refused(&format!("import a{f}"), &files, &["c.dual:1:8", "in a circle", chain]);
    refused(&format!("import me{f}"), &[("me", "import me")], &["me.dual imports me.dual"]);
    // A file that is imported twice is no circle.
    let files = [("a", "import b"), ("b", "import c"), ("c", "")];
    load(&format!("import a\nimport b\nimport c{f}"), &files).unwrap();
}

#[test]
fn nothing_is_opened_unless_the_host_says_so() {
    let text = "import rosenbrock\ndef f (x : Real) : Real = x";
    let error = Module::from_source(&Engine::default(), "examples/f.dual", text).unwrap_err();
    assert!(error.to_string().contains("no files are at hand here"), "{error}");
}

#[derive(Debug)]
struct Broken;

impl Importer for Broken {
    fn find(&self, request: ImportRequest<'_>) -> Result<Option<ImportedFile>, String> {
        match request.name {
            "endless" => {
                let number: u32 = request.from.trim_end_matches(".dual").parse().unwrap_or(0);
                Ok(Some(ImportedFile::text(format!("{}.dual", number + 1), "import endless")))
            }
            "long" => Ok(Some(ImportedFile::text("long.dual", " ".repeat(1 << 20)))),
            _ => Err("the disk is gone".into()),
        }
    }
}

#[test]
fn limits_hold_for_all_files_together() {
    let load = |text: &str, limits| {
        let options = CompileOptions::with_limits(limits).importing(Arc::new(Broken));
        Module::from_source_with(&Engine::default(), "main.dual", text, &options).unwrap_err()
    };
    let error = load("import other", CompileLimits::default()).to_string();
    assert!(error.contains("can't read the module `other`: the disk is gone"), "{error}");
    let error = load("import endless", CompileLimits::default()).to_string();
    assert!(error.contains("the program has too many files"), "{error}");
    let error = load("import long", CompileLimits { source_bytes: 1 << 19, ..CompileLimits::default() });
    assert!(error.is_limit() && error.to_string().contains("bytes"), "{error}");
}

#[test]
fn backtraces_name_files() {
    let files = [("lists", "def third (a : Array Real) : Real = a[2]\ndef sums (a : Array Real) : Real = third a + 1")];
    let main = "import lists\ndef f (x : Real) : Real = 2 * lists.sums [| x |]";
    let module = load(main, &files).unwrap();
    let error = module.function("f").unwrap().call(&[Value::Real(1.0)]).unwrap_err();
    let shown = error.trap().unwrap().with_sources(module.source_texts()).to_string();
    assert_eq!(
        shown,
        "index 2 is out of bounds of an array of length 1
  in lists.third at lists.dual:1:37
    1 | def third (a : Array Real) : Real = a[2]
      |                                     ^
  in lists.sums at lists.dual:2:36
  in f at main.dual:2:31"
    );
    // The same from bytecode, which says which texts it was made from.
    let engine = Engine::default();
    let again = Module::from_binary(&engine, &module.to_binary().unwrap()).unwrap();
    let error = again.function("f").unwrap().call(&[Value::Real(1.0)]).unwrap_err();
    assert!(error.to_string().contains("in lists.third at lists.dual:1:37\n  in lists.sums at lists.dual:2:36"));
    let sources: Vec<(&str, bool)> =
        again.def().debug.sources.iter().map(|source| (&*source.name, source.digest.is_some())).collect();
    assert_eq!(sources, [("main.dual", true), ("lists.dual", true)]);
    assert_eq!(Module::from_assembly(&engine, "main.dvs", &module.to_assembly()).unwrap().def(), module.def());
}
