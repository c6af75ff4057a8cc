//! Modules of bytecode that call each other: the same results as programs of one module, whatever goes from one to the
//! other.

#[path = "support/commands.rs"]
mod commands;

use commands::{commands, numbers, words};
use dualvm::vm::binary;
use dualvm::vm::verify::Rule;
use dualvm::{
    CompileOptions, Config, Engine, Error, ErrorKind, FileKind, FolderImporter, Function, HostFunction, ImportRequest,
    ImportedFile, Importer, Jit, Library, Listener, Module, Trap, Value,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const ENGINES: [(Jit, usize); 4] = [(Jit::Off, 1), (Jit::Always, 1), (Jit::Off, 3), (Jit::Always, 3)];

/// Bytecode in memory, by the names that programs import it by.
#[derive(Clone, Default, Debug)]
struct Shelf(BTreeMap<String, Library>);

impl Importer for Shelf {
    fn find(&self, request: ImportRequest<'_>) -> Result<Option<ImportedFile>, String> {
        let found = self.0.get(request.name);
        Ok(found.map(|library| ImportedFile::bytecode(format!("{}.dvbc", request.name), library.clone())))
    }
}

impl Shelf {
    /// Puts the bytecode of a program there, which may import what is there by now. It has been written and read.
    #[track_caller]
    fn put(&mut self, name: &str, text: &str) {
        let file = format!("{name}.dual");
        let compiled = dualvm::read_def_with(&file, text.as_bytes(), &self.options());
        let bytes = binary::encode(&compiled.unwrap_or_else(|error| panic!("{error}"))).expect("it can be written");
        let read = binary::decode(&bytes).expect("it can be read");
        self.0.insert(name.to_owned(), Library::new(read).unwrap_or_else(|errors| panic!("{}", errors[0])));
    }

    fn options(&self) -> CompileOptions {
        CompileOptions::default().importing(Arc::new(self.clone()))
    }

    fn load(&self, engine: &Engine, text: &str) -> Result<Module, Error> {
        Module::load_with(engine, "main.dual", text.as_bytes(), &self.options())
    }

    #[track_caller]
    fn function(&self, config: Config, text: &str, name: &str) -> Function {
        let module = self.load(&Engine::new(config), text).unwrap_or_else(|error| panic!("{error}"));
        module.function(name).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn config((jit, threads): (Jit, usize)) -> Config {
    Config::default().with_jit(jit).with_threads(threads)
}

/// The same of all engines, whatever is asked.
#[track_caller]
fn agreed<T: PartialEq + std::fmt::Debug>(ask: impl Fn(Config) -> T) -> T {
    let found = ENGINES.map(|engine| ask(config(engine)));
    for (other, engine) in found.iter().zip(ENGINES) {
        assert_eq!(*other, found[0], "{engine:?}");
    }
    let [first, ..] = found;
    first
}

#[track_caller]
fn trap_of<T: std::fmt::Debug>(result: Result<T, Error>) -> Trap {
    result.unwrap_err().trap().expect("the program traps").clone()
}

const SHAPES: &str = "
    type Shape = Circle Real | Square { side : Real } | Many (List Shape)
    alias Point = { x : Real, y : Real }
    def area (s : Shape) : Real = match s with
      | Circle r -> pi * r ^ 2
      | Square { side = x } -> x * x
      | Many all -> sum (map area all)
    def grown (s : Shape) (k : Real) : Shape = match s with
      | Circle r -> Circle (k * r)
      | Square { side = x } -> Square { side = k * x }
      | Many all -> Many (map (\\part -> grown part k) all)
    def first_above (limit : Real) (xs : List Real) : Maybe Real = find (\\x -> x > limit) xs
    def scaled (m : Matrix Real) (k : Real) : Matrix Real = map (\\x -> k * x) m
    def middle (ps : Array Point) : Point =
      let n = to_real (length ps) in { x = sum (map (\\p -> p.x) ps) / n, y = sum (map (\\p -> p.y) ps) / n }
    def count (flags : Array Bool) (pairs : List (Int, Real)) : (Int, Real) =
      (length (filter (\\flag -> flag) flags), sum (map (\\(n, x) -> to_real n * x) pairs))
    def unit : Real = exp 1.0
    def rows (xs : Array (Array Real)) : Real = sum (map (\\row -> product row) xs)";

/// Uses all of it; `%` is the module's name.
const DRAWING: &str = "
    def main (x : Real) (n : Int) : Real =
      let all = %.Many [%.Circle x, %.Square { side = x * x }, %.grown (%.Circle x) (sin x)] in
      let found = match %.first_above 1.0 [x - 10, x, 2 * x] with | Just y -> y | Nothing -> 0.0 in
      let m = %.scaled (matrix 2 2 [| x, 1.0, 2.0, x |]) (cos x) in
      let p = %.middle [| { x = x, y = 1.0 }, { x = 3.0, y = x * x }, { x = 0.0, y = 0.0 } |] in
      let (flags, weighted) = %.count [| true, n > 3, x > 1 |] [(n, x), (2, x * x)] in
      %.area (%.grown all 0.5) + found * %.unit + m[0, 0] * m[1, 1] + p.x * p.y + to_real flags * weighted
        + %.rows [| [| x, x |], [||], [| 2.0, x, x |] |]
    def shape (x : Real) : %.Shape = %.Many [%.Circle x, %.grown (%.Circle 2.0) x]
    def area (s : %.Shape) : Real = %.area s * %.area s";

#[test]
fn what_goes_from_module_to_module_is_what_goes_from_function_to_function() {
    let mut shelf = Shelf::default();
    shelf.put("shapes", SHAPES);
    let linked = format!("import shapes\n{}", DRAWING.replace('%', "shapes"));
    let own = DRAWING.replace("%.", "").replace("def area (s : Shape) : Real = area s * area s", "") + SHAPES;
    let args = [Value::from(1.7), Value::Int(5)];
    let ask = |text: &str| {
        agreed(|config| {
            let main = shelf.function(config, text, "main");
            let (value, gradient) = main.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}"));
            let hessian =
                main.wrt(&["x"]).and_then(|main| main.hessian(&args)).unwrap_or_else(|error| panic!("{error}"));
            (value.to_bits(), format!("{gradient:?}"), format!("{:?}", hessian.rows))
        })
    };
    let ((value, gradient, hessian), (own_value, own_gradient, own_hessian)) = (ask(&linked), ask(&own));
    assert_eq!(value, own_value);
    close(&gradient, &own_gradient);
    close(&hessian, &own_hessian);

    // Values of the library's types at the border.
    let shape = shelf.function(Config::default(), &linked, "shape").call(&[2.0.into()]).expect("it is made");
    let area = shelf.function(Config::default(), &linked, "area").value_and_grad(&[shape]).expect("it is taken");
    let pi = std::f64::consts::PI;
    assert!((area.0 - (4.0 * pi + 16.0 * pi).powi(2)).abs() < 1e-9, "{area:?}");
}

/// Compares the numbers in two texts.
#[track_caller]
fn close(found: &str, expected: &str) {
    let (a, b) = (numbers(found), numbers(expected));
    assert_eq!(a.len(), b.len(), "{found}\n{expected}");
    for (x, y) in a.iter().zip(&b) {
        let is_same = (x - y).abs() <= 1e-11 * y.abs().max(1.0) || x.is_nan() && y.is_nan() || x == y;
        assert!(is_same, "{x} and {y} in\n{found}\n{expected}");
    }
}

#[test]
fn derivatives_are_asked_for_on_either_side() {
    let mut shelf = Shelf::default();
    shelf.put(
        "waves",
        "def wave (k : Real) (x : Real) : Real = sin (k * x) + k * x ^ 3
         def slope (k : Real) (x : Real) : Real = grad (wave k) x
         def all (xs : Array Real) : Array Real = pmap (\\x -> slope 2 x) xs
         def parts (x : Real) : Real = let (a, b) = (wave 2 x |*| wave 3 x) in a * b",
    );
    let text = "
        import waves
        def main (x : Real) : Real =
          grad (waves.slope 2) x * derivative (waves.wave x) x * 1.5 + sum (waves.all [| x, 2 * x |]) + waves.parts x
        def twice (x : Real) : Real = grad (grad (waves.wave 2)) x";
    let found = agreed(|config| {
        let main = shelf.function(config.clone(), text, "main");
        let gradient = main.value_and_grad(&[0.7.into()]).unwrap_or_else(|error| panic!("{error}"));
        (format!("{gradient:?}"), shelf.function(config, text, "twice").call(&[0.7.into()]).ok())
    });
    let x = 0.7f64;
    close(&format!("{:?}", found.1), &format!("{:?}", Some(Value::Real(-4.0 * (2.0 * x).sin() + 12.0 * x))));
    let value = |x: f64| {
        let wave = |k: f64, x: f64| (k * x).sin() + k * x.powi(3);
        let slope = |k: f64, x: f64| k * (k * x).cos() + 3.0 * k * x * x;
        let second = |k: f64, x: f64| -k * k * (k * x).sin() + 6.0 * k * x;
        second(2.0, x) * slope(x, x) * 1.5 + slope(2.0, x) + slope(2.0, 2.0 * x) + wave(2.0, x) * wave(3.0, x)
    };
    let h = 1e-5;
    let difference = (value(x + h) - value(x - h)) / (2.0 * h);
    let main = shelf.function(Config::default(), text, "main");
    let typed = main.typed::<(f64,), f64>().expect("it is of this type");
    let (found, (gradient,)) = typed.value_and_grad((x,)).expect("it has a gradient");
    assert!((found - value(x)).abs() < 1e-12 * found.abs(), "{found} and {}", value(x));
    assert!((gradient - difference).abs() < 1e-6 * gradient.abs(), "{gradient} and {difference}");
}

#[test]
fn traps_name_the_places_of_all_modules() {
    let mut shelf = Shelf::default();
    shelf.put(
        "t",
        "def pick (xs : Array Real) (i : Int) : Real =\n  if i > 100 then error \"{i} is too many\" else xs[i]",
    );
    let text = "import t\ndef main (i : Int) : Real =\n  1 + t.pick [| 1.0 |] i";
    agreed(|config| {
        let main = shelf.function(config, text, "main");
        let trap = trap_of(main.call(&[5.into()])).to_string();
        let expected =
            "index 5 is out of bounds of an array of length 1\n  in t.pick at t.dual:2:48\n  in main at main.dual:3:7";
        assert_eq!(trap, expected);
        let trap = trap_of(main.call(&[101.into()])).to_string();
        assert_eq!(trap, "101 is too many\n  in t.pick at t.dual:2:19\n  in main at main.dual:3:7");
    });
}

#[test]
fn traps_name_what_is_called_however_that_is() {
    let mut shelf = Shelf::default();
    shelf.put(
        "lib",
        "def pick (x : Real) : Real = if x > 1 then error \"{x} is too big\" else x
         def konst : Real = let a = [| 1.0 |] in a[length a + 1]",
    );
    let text = "import lib
        def mapped (x : Real) : Real = sum (map lib.pick [x, 2 * x])
        def chosen (x : Real) : Real = 1 + (if x > 0 then lib.pick else sin) x
        def sloped (x : Real) : Real = grad lib.pick x
        def constant (x : Real) : Real = lib.konst + x";
    agreed(|config| {
        for (name, called) in [("mapped", "pick"), ("chosen", "pick"), ("sloped", "pick"), ("constant", "konst")] {
            let trap = trap_of(shelf.function(config.clone(), text, name).call(&[1.5.into()])).to_string();
            let (start, own) = (format!("\n  in lib.{called} at lib.dual:"), format!("\n  in {name} at main.dual:"));
            assert!(trap.contains(&start) && trap.contains(&own), "{name}: {trap}");
            assert_eq!(trap.matches("lib.").count(), 2, "{name}: {trap}");
        }
    });
}

#[test]
fn files_of_one_name_are_told_apart() {
    let library = "-- A comment.\ndef third (xs : Array Real) : Real =\n  xs[2]";
    let library =
        Module::from_source(&Engine::default(), "main.dual", library).unwrap_or_else(|error| panic!("{error}"));
    let mut shelf = Shelf::default();
    shelf.0.insert("lib".to_owned(), library.library());
    let text = "import lib\ndef main (x : Real) : Real = lib.third [| x |]\ndef other (x : Real) : Real = 12345 * x";
    let module = shelf.load(&Engine::default(), text).unwrap_or_else(|error| panic!("{error}"));
    let trap = trap_of(module.function("main").expect("it is there").call(&[1.0.into()]));
    let shown = trap.with_sources(module.source_texts()).to_string();
    assert!(shown.contains("in lib.third at main.dual of lib:3:3\n  in main at main.dual:2:30\n"), "{shown}");
    assert!(!shown.contains("12345"), "{shown}");
}

#[test]
fn traces_come_in_the_order_of_the_program() {
    let library = "def traced (x : Real) : Real = let y = trace \"lib {x}\" (x * x) in y + 1";
    let text = |module: &str| {
        format!(
            "def main (x : Real) : Real = trace \"own {{x}}\" ({module}traced (x + 1)) + {module}traced x
             def quiet (xs : Array Real) : Real = sum (map {module}traced xs)"
        )
    };
    let mut shelf = Shelf::default();
    shelf.put("t", library);
    let shown = |text: &str, name: &str, args: &[Value]| {
        agreed(|config| {
            let lines = Arc::new(Mutex::new(Vec::new()));
            let to = lines.clone();
            let listener = Listener::new(move |line| to.lock().expect("nobody panics").push(line.text.to_string()));
            let function = shelf.function(config.traced_to(&listener), text, name);
            function.value_and_grad(args).unwrap_or_else(|error| panic!("{error}"));
            std::mem::take(&mut *lines.lock().expect("nobody panics"))
        })
    };
    let (linked, own) = (format!("import t\n{}", text("t.")), format!("{library}\n{}", text("")));
    let found = shown(&linked, "main", &[3.0.into()]);
    assert_eq!(found, ["own 3.0", "lib 4.0", "lib 3.0"]);
    assert_eq!(found, shown(&own, "main", &[3.0.into()]));
    let args = [Value::from(vec![1.0, 2.0])];
    assert_eq!(shown(&linked, "quiet", &args), ["lib 1.0", "lib 2.0"]);
    // What is computed for a derivative only isn't traced.
    let custom = |module: &str| {
        format!(
            "def main (x : Real) : Real = custom_vjp (\\y -> y * y) (\\y c -> c * {module}traced y) x * {module}traced 1"
        )
    };
    let (linked, own) = (format!("import t\n{}", custom("t.")), format!("{library}\n{}", custom("")));
    assert_eq!(shown(&linked, "main", &[3.0.into()]), ["lib 1.0"]);
    assert_eq!(shown(&own, "main", &[3.0.into()]), ["lib 1.0"]);
}

#[test]
fn libraries_call_libraries_and_each_other() {
    let mut shelf = Shelf::default();
    shelf.put("base", "def half (x : Real) : Real = x / 2\ntype Box = Box Real\ndef open (b : Box) : Real = match b with | Box x -> x");
    shelf.put("mid", "import base\ndef quarter (x : Real) : Real = base.half (base.half x)\ndef boxed (x : Real) : Real = base.open (base.Box x)");
    let odd = |own: &str, other: &str, at_zero: &str| {
        format!(
            "import host \"{other}.{other}\" as {other} : Int -> Real -> Real
             def {own} (n : Int) (x : Real) : Real = if n == 0 then {at_zero} else x * {other} (n - 1) x"
        )
    };
    shelf.put("even", &odd("even", "odd", "1"));
    shelf.put("odd", &odd("odd", "even", "0"));
    let text = "
        import mid
        import even
        -- The same names as in libraries.
        def half (x : Real) : Real = 3 * x
        def quarter (x : Real) : Real = mid.quarter (half x) + mid.boxed x
        def main (x : Real) : Real = quarter x + even.even 4 x + even.even 3 x";
    let found = agreed(|config| {
        let main = shelf.function(config, text, "main");
        format!("{:?}", main.value_and_grad(&[2.0.into()]).unwrap_or_else(|error| panic!("{error}")))
    });
    close(&found, &format!("{:?}", (3.0 * 2.0 / 4.0 + 2.0 + 16.0, [0.75 + 1.0 + 32.0])));
}

#[test]
fn a_library_that_is_reached_on_two_ways_is_there_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let slow = HostFunction::of(move |x: f64| {
        counted.fetch_add(1, Ordering::Relaxed);
        2.0 * x
    });
    let mut shelf = Shelf::default();
    shelf.put("base", "import host \"slow\" : Real -> Real\ndef table : Array Real = [| slow (to_real i) for i < 3 |]");
    shelf.put("a", "import base\ndef at (i : Int) : Real = base.table[i]");
    shelf.put("b", "import base\ndef at (i : Int) : Real = base.table[i]");
    let text = "import a\nimport b\nimport base\ndef main (i : Int) : Real = a.at i + b.at i + sum base.table";
    let main = shelf.function(Config::default().with_host_function("slow", slow), text, "main");
    assert_eq!(main.call(&[2.into()]).expect("it runs"), Value::Real(14.0));
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[test]
fn types_are_compared_by_what_they_are_made_of() {
    let mut shelf = Shelf::default();
    shelf.put(
        "m",
        "type T = A Real | B { n : Int, rest : List T }
         def f (t : T) (p : { x : Real, y : Int }) (flag : Bool) (m : Matrix Real) : (Real, List Int) = (1.0, [])
         private def hidden (x : Real) : Real = x
         def twice (x : Real) : Real = 2 * hidden x",
    );
    let config = Config::default().with_library("m", shelf.0["m"].clone());
    let load = |types: &str, import: &str| {
        let text = format!("import host \"m.{import}\ndef main (x : Real) : Real = x\n{types}");
        let names: Vec<&str> = import.split_whitespace().collect();
        // Imports that nothing calls aren't there.
        let text = text + &format!("\ndef used = {}", names[2]);
        Module::from_source(&Engine::new(config.clone()), "main.dual", &text)
    };
    let own = "type U = A Real | B { n : Int, rest : List U }";
    // What the type is called is the program's to say.
    let right = "f\" as f : U -> { x : Real, y : Int } -> Bool -> Matrix Real -> (Real, List Int)";
    load(own, right).unwrap_or_else(|error| panic!("{error}"));
    let wrong = [
        (own, right.replace("Bool", "Int")),
        (own, right.replace("Matrix Real", "Matrix Int")),
        (own, right.replace("Matrix Real", "Array (Array Real)")),
        (own, right.replace("x : Real, y : Int", "x : Real, z : Int")),
        (own, right.replace("{ x : Real, y : Int }", "(Real, Int)")),
        (own, right.replace("List Int", "Array Int")),
        (own, right.replace("(Real, List Int)", "Real -> List Int")),
        (own, right.replace(" -> Matrix Real", "")),
        ("type U = A Real | C { n : Int, rest : List U }", right.to_owned()),
        ("type U = A Real | B { n : Int, rest : Array U }", right.to_owned()),
        (
            "type U = A Real | B { n : Int, rest : List V }\ntype V = A2 Real | B2 { n : Int, rest : List V }",
            right.to_owned(),
        ),
        ("type U = A Real", right.to_owned()),
    ];
    for (types, import) in wrong {
        let error = load(types, &import).expect_err(&import);
        let ErrorKind::Source(errors) = error.kind() else { panic!("{import}: {error}") };
        assert!(errors.to_string().contains("--> main.dual:1:13\n"), "{errors}");
        let message = &errors.list()[0].message;
        assert!(message.contains("is of another type: expected \"m.f\" of the type ("), "{message}");
    }
    let missing = [
        ("twise\" as f : Real -> Real", "expected a function that \"m\" exports, found \"twise\" (there is \"twice\")"),
        ("hidden\" as f : Real -> Real", "found \"hidden\""),
    ];
    for (import, expected) in missing {
        let error = load("", import).expect_err(import);
        let ErrorKind::Source(errors) = error.kind() else { panic!("{import}: {error}") };
        let message = &errors.list()[0].message;
        assert!(message.starts_with("nobody gives what the module imports") && message.contains(expected), "{message}");
    }
}

#[test]
fn what_is_wrong_with_modules_together_is_found() {
    // A constant that leads back to itself by way of another module.
    let mut shelf = Shelf::default();
    shelf
        .put("a", "import host \"b.g\" as g : Int -> Real\ndef c : Real = g 3\ndef f (n : Int) : Real = c * to_real n");
    shelf.put("b", "import host \"a.f\" as f : Int -> Real\ndef g (n : Int) : Real = if n == 0 then 1 else f (n - 1)");
    let text = "import a\ndef main (n : Int) : Real = a.f n";
    let error = shelf.load(&Engine::default(), text).expect_err("it would wait for itself");
    let ErrorKind::Verify(errors) = error.kind() else { panic!("{error}") };
    assert_eq!(errors[0].rule, Rule::OnceCycle, "{error}");

    // What a library imports and nobody gives.
    shelf.put(
        "c",
        "import host \"nobody.f\" as f : Real -> Real\ndef g (x : Real) : Real = f x\ndef h (x : Real) : Real = x",
    );
    let error =
        shelf.load(&Engine::default(), "import c\ndef main (x : Real) : Real = c.g x").expect_err("it is missing");
    assert!(error.to_string().contains("in x0 of the library \"c\""), "{error}");
    // It isn't missed where nothing asks for it.
    shelf.load(&Engine::default(), "import c\ndef main (x : Real) : Real = c.h x").expect("it isn't called");
}

#[test]
fn a_linked_module_is_one_of_its_own_elsewhere() {
    let mut shelf = Shelf::default();
    shelf.put("shapes", "def area (r : Real) : Real = 3 * r * r");
    let text = "import shapes\ndef main (x : Real) : Real = shapes.area x + x";
    let module = shelf.load(&Engine::default(), text).expect("it is linked");
    assert_eq!(module.def().functions.len(), 1, "what it is linked with isn't its own");
    assert_eq!(module.functions().map(|function| function.name().to_owned()).collect::<Vec<_>>(), ["main"]);
    let bytes = module.to_binary().expect("it can be written");
    // As bytes it says what it needs, and who loads it has to have that.
    let error = Module::from_binary(&Engine::default(), &bytes).expect_err("nobody gives it");
    assert!(error.to_string().contains("found \"shapes.area\""), "{error}");
    for loaded in [
        Module::load_with(&Engine::default(), "main.dvbc", &bytes, &shelf.options()).expect("it is found"),
        Module::from_binary(&Engine::new(Config::default().with_library("shapes", shelf.0["shapes"].clone())), &bytes)
            .expect("it is given"),
        module.for_engine(&Engine::new(config((Jit::Off, 1)))).expect("it goes along"),
    ] {
        assert_eq!(loaded.def(), module.def());
        let (value, gradient) =
            loaded.function("main").expect("it is there").value_and_grad(&[2.0.into()]).expect("it runs");
        assert_eq!((value, format!("{gradient:?}")), (14.0, format!("{:?}", [Value::Real(13.0)])));
    }
    // Others may call it, too.
    shelf.0.insert("again".to_owned(), module.library());
    let main = shelf.function(Config::default(), "import again\ndef f (x : Real) : Real = again.main x / 2", "f");
    assert_eq!(main.call(&[2.0.into()]).expect("it runs"), Value::Real(7.0));
    // A function of the host's of such a name comes first.
    let config = Config::default().with_host_function("shapes.area", HostFunction::of(|r: f64| -r));
    assert_eq!(shelf.function(config, text, "main").call(&[2.0.into()]).expect("it runs"), Value::Real(0.0));
}

#[test]
fn what_the_language_has_no_words_for_is_left_out() {
    let mut shelf = Shelf::default();
    let text = "
        func \"two words\" (real) -> (real) export (x : Real) -> Real regs 1 real { ret (r0) }
        func \"single\" (real) -> (real) export (x : { X : Real }) -> Real regs 1 real { ret (r0) }
        func \"fine\" (real) -> (real) export (x : Real) -> Real regs 1 real { ret (r0) }";
    let def = dualvm::read_def("odd.dvs", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    shelf.0.insert("odd".to_owned(), Library::new(def).expect("it is verified"));
    shelf.put(
        "trees",
        "type Tree a = Leaf | Node (Tree a) a (Tree a)
        def reals (t : Tree Real) : Real = match t with | Leaf -> 0.0 | Node l x r -> reals l + x + reals r
        def ints (t : Tree Int) : Int = match t with | Leaf -> 0 | Node l x r -> ints l + x + ints r",
    );
    let text = "
        import odd
        import trees (TreeReal)
        def main (x : Real) : Real = odd.fine x + trees.reals (trees.Node trees.Leaf x trees.Leaf)
        def all (t : TreeReal) : Real = trees.reals t";
    assert_eq!(shelf.function(Config::default(), text, "main").call(&[2.0.into()]).expect("it runs"), Value::Real(4.0));
    for name in ["odd.single", "trees.ints"] {
        let text = format!("import odd\nimport trees\ndef main (x : Real) : Real = 1\ndef g = {name}");
        let error = shelf.load(&Engine::default(), &text).expect_err("there is none").to_string();
        assert!(error.contains(&format!("unknown name `{name}`")), "{error}");
    }
    // By hand it is called all the same.
    let text = "
        import host \"trees.ints\" as ints : Tree -> Int
        import host \"odd.two words\" as two : Real -> Real
        type Tree = Leaf | Node Tree Int Tree
        def main (x : Real) : Real = two x + to_real (ints (Node Leaf 3 Leaf))";
    assert_eq!(shelf.function(Config::default(), text, "main").call(&[2.0.into()]).expect("it runs"), Value::Real(5.0));
}

#[test]
fn files_that_are_no_modules_are_refused() {
    let folder = std::env::temp_dir().join(format!("dualvm-linking-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    std::fs::write(folder.join("bad.dvbc"), b"DVBC no more").expect("a file can be written");
    let options = CompileOptions::default().importing(Arc::new(FolderImporter::new(vec![folder.clone()])));
    let load = |text: &str| Module::from_source_with(&Engine::default(), "main.dual", text, &options);
    let error = load("import bad\ndef main (x : Real) : Real = bad.f x").expect_err("it is damaged").to_string();
    assert!(error.contains("can't read the module `bad`") && error.contains("bad.dvbc"), "{error}");
    let text = "import host \"bad.f\" as f : Real -> Real\ndef main (x : Real) : Real = f x";
    let error = load(text).expect_err("it is damaged");
    assert!(matches!(error.kind(), ErrorKind::Import { name, .. } if name == "bad"), "{error}");
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

#[test]
fn modules_are_found_again_from_where_the_program_is() {
    let folder = std::env::temp_dir().join(format!("dualvm-linked-folders-{}", std::process::id()));
    let write = |path: &str, text: &str, from: &Path| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
        let options = CompileOptions::default().importing(Arc::new(FolderImporter::default()));
        let module = Module::load_with(&Engine::default(), &from.to_string_lossy(), text.as_bytes(), &options);
        let bytes = module.unwrap_or_else(|error| panic!("{error}")).to_binary().expect("it can be written");
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    };
    let load = |path: &Path| {
        let options = CompileOptions::default().importing(Arc::new(FolderImporter::default()));
        let bytes = std::fs::read(path).expect("it was written");
        Module::load_with(&Engine::default(), &path.to_string_lossy(), &bytes, &options)
    };
    let main = folder.join("main.dual");
    write("sub/base.dvbc", "def half (x : Real) : Real = x / 2", &folder.join("sub/base.dual"));
    let quarter = "import base\ndef quarter (x : Real) : Real = base.half (base.half x)";
    write("sub/mid.dvbc", quarter, &folder.join("sub/mid.dual"));
    let text = "import \"sub/mid\"\nimport \"sub/base.dvbc\"\ndef main (x : Real) : Real = mid.quarter x + base.half x";
    let program = write("main.dvbc", text, &main);
    let call = |module: Module| module.function("main").expect("it is there").call(&[8.0.into()]).expect("it runs");
    assert_eq!(call(load(&program).unwrap_or_else(|error| panic!("{error}"))), Value::Real(6.0));
    // A text of that name is for the compiler.
    std::fs::write(folder.join("sub/mid.dual"), "def quarter (x : Real) : Real = 0").expect("a file can be written");
    assert_eq!(call(load(&program).unwrap_or_else(|error| panic!("{error}"))), Value::Real(6.0));
    std::fs::remove_file(folder.join("sub/mid.dual")).expect("it can be removed");
    // Names are for all modules of a program: one of two files is never taken for the other.
    write("base.dvbc", "def half (x : Real) : Real = 1000 * x", &folder.join("base.dual"));
    let both = "import \"sub/mid\"\nimport base\ndef main (x : Real) : Real = mid.quarter x + base.half x";
    let options = CompileOptions::default().importing(Arc::new(FolderImporter::default()));
    let error = Module::load_with(&Engine::default(), &main.to_string_lossy(), both.as_bytes(), &options);
    let error = error.expect_err("two files are called base");
    assert!(matches!(error.kind(), ErrorKind::Import { name, .. } if name == "base"), "{error}");
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

#[test]
fn a_name_is_one_module_for_programs_and_engines() {
    let mut shelf = Shelf::default();
    shelf.put("m", "def f (x : Real) : Real = x");
    let mut others = Shelf::default();
    others.put("m", "def f (x : Real) : Real = 2 * x");
    let text = "import m\ndef main (x : Real) : Real = m.f x";
    let engine = |library: &Library| Engine::new(Config::default().with_library("m", library.clone()));
    shelf.load(&engine(&shelf.0["m"]), text).unwrap_or_else(|error| panic!("{error}"));
    let error = shelf.load(&engine(&others.0["m"]), text).expect_err("they are two");
    assert!(error.to_string().contains("the engine has another module of this name"), "{error}");
}

#[test]
fn interfaces_say_what_types_are_made_of() {
    let mut shelf = Shelf::default();
    // Constructors of one record, in parentheses; records in records; what looks like types that every program knows.
    shelf.put(
        "types",
        "alias Pt = { y : Real, x : Real }
         type R = R Pt
         type Wrap a = Wrap a
         type Option = Option { x : Real } | List
         type Größe = Größe (Maybe (Maybe Real)) ()
         def r (v : R) : Real = match v with | R p -> p.x - p.y
         def wrap (x : Real) : Wrap { x : Real } = Wrap { x = x }
         def unwrap (w : Wrap { x : Real }) : Real = match w with | Wrap p -> p.x
         def option (v : Option) : Real = match v with | Option { x = x } -> x | List -> 0.0
         def größe (v : Größe) : Maybe Real = match v with | Größe (Just m) _ -> m | Größe Nothing _ -> Nothing
         def in_rows (xs : Array ({ b : Real, a : (Int, ()) }, List Bool)) : Int = length xs",
    );
    let text = "import types
        def main (x : Real) : Real =
          let g = match types.größe (types.Größe (Just (Just x)) ()) with | Just y -> y | Nothing -> 0.0 in
          types.r (types.R { x = x, y = 1.0 }) + types.unwrap (types.wrap x) + types.option (types.Option { x = g })
            + to_real (types.in_rows [| ({ a = (1, ()), b = x }, [true]) |])";
    let main = shelf.function(Config::default(), text, "main");
    assert_eq!(main.call(&[3.0.into()]).expect("it runs"), Value::Real(3.0 - 1.0 + 3.0 + 3.0 + 1.0));

    // What other compilers may make, and the language can't say; the rest of the module is there.
    let odd = [
        (
            "data d0 \"Maybe X\" t0 = Nothing () | Just (Data \"Maybe X\" @d0)",
            "variant { N {}, J { t0 } }",
            "Data \"Maybe X\" @d0",
        ),
        ("data d0 \"Never\" t0", "variant {}", "Data \"Never\" @d0"),
        ("data d0 \"T\" t0 = lower () | B ()", "variant { N {}, J {} }", "Data \"T\" @d0"),
        ("", "array real", "({ y : Real, x : Array Real @t0 })"),
    ];
    for (data, ty, param) in odd {
        let is_data = param.starts_with("Data");
        let params = if is_data { "(t0)" } else { "(real, t0)" };
        let regs = if is_data { "regs 1 real, t0 { const r0, 1" } else { "regs 1 real, t0 {" };
        let text = format!(
            "type t0 = {ty}\n{data}
             func \"odd\" {params} -> (real) export (v : {param}) -> Real {regs}\nret (r0) }}
             func \"fine\" (real) -> (real) export (x : Real) -> Real regs 1 real {{ ret (r0) }}"
        );
        let Ok(def) = dualvm::read_def("odd.dvs", text.as_bytes()) else { panic!("{text}") };
        shelf.0.insert("odd".to_owned(), Library::new(def).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0])));
        let fine = shelf.function(Config::default(), "import odd\ndef f (x : Real) : Real = odd.fine x", "f");
        assert_eq!(fine.call(&[2.0.into()]).expect("it runs"), Value::Real(2.0));
        let error =
            shelf.load(&Engine::default(), "import odd\ndef f = odd.odd").expect_err("it is left out").to_string();
        assert!(error.contains("note: the module exports `odd`, but "), "{param}: {error}");
    }
}

#[test]
fn types_that_modules_have_in_common_are_one() {
    let base = "
        type Unit = Metre | Second
        type Box = Box Real Unit | Many (List Box)
        def make (x : Real) : Box = Many [Box x Metre, Box (2 * x) Second]";
    let mid = "import base\ndef open (b : base.Box) : Real = match b with | base.Box x _ -> x | base.Many all -> sum (map open all)
        def fold (u : base.Unit) : Real = match u with | base.Metre -> 1.0 | base.Second -> 60.0";
    // Compiled with the text of the first, which is bytecode only then.
    let mut files = dualvm::MemoryImporter::default();
    files.insert("base", base);
    let compiling = CompileOptions::default().importing(Arc::new(files));
    let module = Module::from_source_with(&Engine::default(), "mid.dual", mid, &compiling);
    let mut shelf = Shelf::default();
    shelf.put("base", base);
    shelf.0.insert("mid".to_owned(), module.unwrap_or_else(|error| panic!("{error}")).library());
    // Of the same name, and something else; and one that mentions it.
    shelf.put(
        "other",
        "type Unit = Metre | Second | Hour
         type Pair = Pair Unit Real
         type Box = Box Real Unit | Many (List Box)
         def pair (x : Real) : Pair = Pair Hour x
         def open (b : Box) : Real = match b with | Box x _ -> 10 * x | Many all -> sum (map open all)",
    );
    shelf.put("third", "type Unit = Metre | Second | Hour\ntype Pair = Pair Unit Real\ndef second (p : Pair) : Real = match p with | Pair _ x -> x");
    let orders = ["import base\nimport mid", "import mid\nimport base", "import other\nimport mid\nimport base"];
    for imports in orders {
        let text = format!(
            "{imports}
             def main (x : Real) : Real = mid.open (base.make x) + mid.open (base.Box x base.Metre)
               + base_sum (mid.Many [mid.Box x mid.Second]) + mid.fold base.Second
             def base_sum (b : base.Box) : Real = mid.open b
             def border (b : mid.Box) : Real = mid.open b"
        );
        let (value, gradient) = agreed(|config| {
            let main = shelf.function(config, &text, "main");
            main.value_and_grad(&[2.0.into()]).unwrap_or_else(|error| panic!("{error}"))
        });
        assert_eq!((value, gradient), (6.0 + 2.0 + 2.0 + 60.0, vec![Value::Real(5.0)]));
    }
    let load = |text: &str| shelf.load(&Engine::default(), text);
    load("import mid (Box, open)\nimport base\ndef f (x : Real) : Real = open (Box x base.Metre)")
        .expect("it is selected");
    load("import base\nimport other\ndef f (x : Real) : Real = other.open (other.Box x other.Hour)")
        .expect("it has its own");
    for wrong in
        ["other.open (base.make x)", "mid.open (other.Box x other.Metre)", "other.open (other.Box x base.Metre)"]
    {
        let text = format!("import base\nimport mid\nimport other\ndef f (x : Real) : Real = {wrong}");
        let error = load(&text).expect_err("they are two types").to_string();
        assert!(error.contains("main.dual:4:"), "{wrong}: {error}");
    }
    // What mentions a type of another name isn't one with what mentions that, until it is.
    load("import other\nimport third\ndef f (x : Real) : Real = third.second (other.pair x)")
        .expect("they are the same");
}

#[test]
fn thousands_of_imports_take_no_time() {
    let began = std::time::Instant::now();
    let types: String =
        (0..4000).map(|n| format!("type T{n} = A{n} Real | B{n} (List T{})\n", (n + 1) % 4000)).collect();
    let functions: String = (0..4000).map(|n| format!("def f{n} (t : T{n}) : Real = 1\n")).collect();
    let mut shelf = Shelf::default();
    shelf.put("many", &(types.clone() + &functions));
    let imports: String = (0..4000).map(|n| format!("import host \"many.f{n}\" as f{n} : T{n} -> Real\n")).collect();
    let calls: String = (0..4000).map(|n| format!("def g{n} (x : Real) : Real = f{n} (A{n} x)\n")).collect();
    let config = Config::default().with_library("many", shelf.0["many"].clone());
    let text = imports + &types + &calls;
    let module =
        Module::from_source(&Engine::new(config), "main.dual", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(module.functions().count(), 4000);
    shelf.load(&Engine::default(), "import many\ndef f (x : Real) : Real = many.f7 (many.A7 x)").expect("it is linked");
    // A minute or more with anything quadratic in it.
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

/// Each example as a library of a program that does nothing but call it.
#[test]
fn examples_give_the_same_as_libraries() {
    const CALLS: [&str; 7] = ["run", "grad", "jvp", "vjp", "hvp", "jacobian", "hessian"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("dualvm-linked-examples-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let run = |words: &[String]| {
        let done = Command::new(env!("CARGO_BIN_EXE_dualvm")).current_dir(root).args(words).output();
        let done = done.expect("the command starts");
        assert!(done.status.success(), "{words:?}\n{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let examples = std::fs::read_dir(root.join("examples")).expect("there are examples");
    let mut examples: Vec<PathBuf> = examples.map(|entry| entry.expect("entries can be read").path()).collect();
    examples.retain(|path| FileKind::of_name(&path.to_string_lossy()) == Some(FileKind::Source));
    examples.sort();
    let mut count = 0;
    for example in examples {
        let text = std::fs::read_to_string(&example).expect("examples can be read");
        let options = CompileOptions::default().importing(Arc::new(FolderImporter::default()));
        let module = Module::load_with(&Engine::default(), &example.to_string_lossy(), text.as_bytes(), &options);
        let module = module.unwrap_or_else(|error| panic!("{error}"));
        std::fs::write(folder.join("called.dvbc"), module.to_binary().expect("it can be written"))
            .expect("a file is written");
        let mut caller = "import called\n".to_owned();
        for function in module.functions() {
            let params: String = function.interface().params.iter().map(|(name, _)| format!(" {name}")).collect();
            let name = function.name();
            caller += &format!("def {name}{params} = called.{name}{params}\n");
        }
        // A function of the file's name need not be named.
        let calling = folder.join(example.file_name().expect("it is a file"));
        std::fs::write(&calling, caller).expect("a file can be written");
        for mut words in commands(&text).iter().map(|command| words(command)) {
            if !CALLS.contains(&&*words[0]) {
                continue;
            }
            let Some(file) = words.iter().position(|word| root.join(word) == example) else { continue };
            let own = run(&words);
            words[file] = calling.to_string_lossy().into_owned();
            close(&run(&words), &own);
            count += 1;
        }
    }
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
    assert!(count > 40, "{count} commands");
}
