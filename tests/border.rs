//! Values of every kind cross the border between host and program both ways: as JSON on the command line, and as a
//! host's own types. Functions don't, and a definition that would need it says so.

#[path = "support/program.rs"]
mod program;

use dualvm::{Engine, ErrorKind, Module};
use program::Workspace;
use serde::{Deserialize, Serialize};

const PROGRAM: &str = "\
type Shape = Dot | Circle Real | Arc Real Int | Rect { width : Real, height : Real }
type Tree a = Leaf | Node (Tree a) a (Tree a)
alias Scene = { at : ((Real, Int), (Bool, Real)), name : Int, shapes : List Shape, tree : Tree (Real, Int) }

def size (s : Shape) : Real =
  match s with
  | Dot -> 0
  | Circle r -> r ^ 2
  | Arc r n -> r * to_real n
  | Rect { width, height } -> width * height

def total (tree : Tree (Real, Int)) : Real =
  match tree with
  | Leaf -> 0
  | Node left (x, n) right -> total left + x * to_real n + total right

def echo (scene : Scene) (rows : Array (List Real)) = (scene, rows, [Just ([||]), Nothing, Just rows])

def weigh (scene : Scene) (rows : Array (List Real)) : Real =
  let ((x, _), (on, y)) = scene.at in
  sum (map size scene.shapes) + total scene.tree + (if on then x * y else 0) + sum (map product rows)

def grow (shapes : List Shape) : List Shape =
  let twice shape =
    match shape with
    | Dot -> Circle 1
    | Circle r -> Circle (2 * r)
    | Arc r n -> Arc (2 * r) (n + 1)
    | Rect { .. } -> Rect { width = 2, height = 1 } in
  map twice shapes
";

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Shape {
    Dot,
    Circle(f64),
    Arc(f64, i64),
    Rect { width: f64, height: f64 },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Tree {
    Leaf,
    Node(Box<Tree>, (f64, i64), Box<Tree>),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Scene {
    name: i64,
    shapes: Vec<Shape>,
    at: ((f64, i64), (bool, f64)),
    tree: Tree,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Maybe<T> {
    Nothing,
    Just(T),
}

type Rows = Vec<Vec<f64>>;

fn node(left: Tree, x: f64, n: i64, right: Tree) -> Tree {
    Tree::Node(Box::new(left), (x, n), Box::new(right))
}

fn scene() -> Scene {
    Scene {
        name: 7,
        shapes: vec![Shape::Dot, Shape::Circle(3.0), Shape::Arc(0.5, 4), Shape::Rect { width: 2.0, height: 5.0 }],
        at: ((1.5, -2), (true, 4.0)),
        tree: node(node(Tree::Leaf, 0.25, 2, Tree::Leaf), 10.0, 3, Tree::Leaf),
    }
}

fn rows() -> Rows {
    vec![vec![2.0, 3.0, 4.0], vec![], vec![5.0]]
}

/// The gradient of `weigh` at `scene` and `rows`; discrete parts are zero.
fn gradient() -> (Scene, Rows) {
    let scene = Scene {
        name: 0,
        shapes: vec![Shape::Dot, Shape::Circle(6.0), Shape::Arc(4.0, 0), Shape::Rect { width: 5.0, height: 2.0 }],
        at: ((4.0, 0), (false, 1.5)),
        tree: node(node(Tree::Leaf, 2.0, 0, Tree::Leaf), 3.0, 0, Tree::Leaf),
    };
    (scene, vec![vec![12.0, 8.0, 6.0], vec![], vec![1.0]])
}

fn function(name: &str) -> dualvm::Function {
    let module =
        Module::from_source(&Engine::default(), "border.dual", PROGRAM).unwrap_or_else(|error| panic!("{error}"));
    module.function(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn host_types_are_arguments_results_and_gradients() {
    let echoed: (Scene, Rows, Vec<Maybe<Rows>>) = function("echo").call_as(&(scene(), rows())).unwrap();
    assert_eq!(echoed, (scene(), rows(), vec![Maybe::Just(vec![]), Maybe::Nothing, Maybe::Just(rows())]));

    let (value, found): (f64, (Scene, Rows)) = function("weigh").value_and_grad_as(&(scene(), rows())).unwrap();
    // 0 + 9 + 2 + 10 of the shapes, 0.5 + 30 of the tree, 6 of `at`, 24 + 1 + 5 of the rows.
    assert_eq!(value, 87.5);
    assert_eq!(found, gradient());

    let grown: Vec<Shape> = function("grow").call_as(&(scene().shapes,)).unwrap();
    let expected =
        [Shape::Circle(1.0), Shape::Circle(6.0), Shape::Arc(1.0, 5), Shape::Rect { width: 2.0, height: 1.0 }];
    assert_eq!(grown, expected);
}

#[test]
fn self_describing_types_hold_results() {
    let found: serde_json::Value = function("grow").call_as(&(scene().shapes,)).unwrap();
    let expected = serde_json::json!([{"Circle": 1.0}, {"Circle": 6.0}, {"Arc": [1.0, 5]}, {"Rect": {"width": 2.0, "height": 1.0}}]);
    assert_eq!(found, expected);
    let found: serde_json::Value = function("echo").call_as(&(scene(), rows())).unwrap();
    assert_eq!(found[2], serde_json::json!([{"Just": []}, "Nothing", {"Just": [[2.0, 3.0, 4.0], [], [5.0]]}]));
}

#[test]
fn the_command_reads_and_writes_what_serde_does() {
    let w = Workspace::new("border_json");
    w.write("border.dual", PROGRAM);
    let (scene, rows) = (json(&scene()), json(&rows()));
    let printed = w.stdout(&["run", "border.dual", "echo", &scene, &rows, "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let value: (Scene, Rows, Vec<Maybe<Rows>>) = serde_json::from_value(printed["value"].clone()).unwrap();
    assert_eq!((json(&value.0), json(&value.1)), (scene.clone(), rows.clone()));
    assert_eq!(value.2, [Maybe::Just(vec![]), Maybe::Nothing, Maybe::Just(self::rows())]);

    let printed = w.stdout(&["grad", "border.dual", "weigh", &scene, &rows, "--format", "json"]);
    let expected = "{\"value\":87.5,\"gradient\":[{\"at\":[[4.0,null],[null,1.5]],\"name\":null,\
        \"shapes\":[\"Dot\",{\"Circle\":6.0},{\"Arc\":[4.0,null]},{\"Rect\":{\"width\":5.0,\"height\":2.0}}],\
        \"tree\":{\"Node\":[{\"Node\":[\"Leaf\",[2.0,null],\"Leaf\"]},[3.0,null],\"Leaf\"]}},\
        [[12.0,8.0,6.0],[],[1.0]]]}\n";
    assert_eq!(printed, expected);

    let literals = w.stdout(&["run", "border.dual", "grow", "[Dot, Arc 1 2, Rect { height = 3, width = 4 }]"]);
    assert_eq!(literals, "value  = [Circle 1.0, Arc 2.0 3, Rect { width = 2.0, height = 1.0 }]\n");
    let text = w.stdout(&["grad", "border.dual", "weigh", &scene, &rows]);
    assert!(text.contains("tree = Node (Node Leaf (2.0, null) Leaf) (3.0, null) Leaf"), "{text}");
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the test's values are JSON")
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let w = Workspace::new("border_refused");
    w.write("border.dual", PROGRAM);
    let error = |word: &str| {
        let finished = w.run(&["run", "border.dual", "grow", word]);
        assert_eq!(finished.code, Some(2), "{finished:#?}");
        finished.stderr.lines().next().unwrap_or_default().to_owned()
    };
    for (word, message) in [
        (r#"["Square"]"#, "shapes[0]: no constructor `Square` in `Shape`; it has Dot, Circle, Arc, Rect"),
        (r#"["Circle"]"#, "shapes[0]: `Circle` takes (Real), found nothing"),
        ("[{}]", "shapes[0]: expected Shape, found an object without a constructor"),
        (r#"[{"Circle": 1, "Dot": []}]"#, "shapes[0]: expected Shape, found an object with `Circle` and `Dot`"),
        ("[1]", "shapes[0]: expected Shape, found integer `1`"),
        (r#"[{"Circle": true}]"#, "shapes[0].0: expected Real, found boolean `true`"),
        (r#"[{"Arc": [1, 2, 3]}]"#, "shapes[0]: `Arc` takes (Real, Int), found a list of 3"),
        (
            r#"[{"Rect": {"width": 1}}]"#,
            "shapes[0]: `Rect` takes { width : Real, height : Real }, found an object without the field `height`",
        ),
    ] {
        assert_eq!(error(word), format!("error: argument {message}"));
    }

    #[derive(Serialize)]
    enum Other {
        Square,
        Dot(f64),
        Circle,
        Arc(f64),
        Rect(f64),
    }
    let refused = |other: Other| {
        let error = function("grow").call_as::<Vec<Shape>>(&(vec![other],)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Argument(_)), "{error}");
        error.to_string()
    };
    for (other, place) in [
        (Other::Square, "argument shapes[0]"),
        (Other::Dot(1.0), "argument shapes[0]"),
        (Other::Circle, "argument shapes[0]"),
        (Other::Arc(1.0), "argument shapes[0]"),
        (Other::Rect(1.0), "argument shapes[0]"),
    ] {
        let message = refused(other);
        assert!(message.starts_with(place), "{message}");
    }
}

#[test]
fn a_value_that_is_too_deep_is_refused_before_the_stack_ends() {
    let mut tree = Tree::Leaf;
    for _ in 0..2_000 {
        tree = node(tree, 1.0, 1, Tree::Leaf);
    }
    let error = function("weigh").call_as::<f64>(&(Scene { tree, ..scene() }, rows())).unwrap_err();
    assert_eq!(error.to_string(), "argument scene: expected at most 640 levels of nesting, found more");
}

#[test]
fn definitions_with_functions_in_their_types_are_refused_with_the_reason() {
    let text = "def apply (f : Real -> Real) : Real = f 1
def adders (x : Real) = [\\y -> x + y]
type Handler = Handler (Real -> Real)
def handlers (n : Int) (hs : List Handler) : Int = n + length hs
def use (x : Real) : Real = apply (head (adders x))
";
    let w = Workspace::new("border_functions");
    w.write("functions.dual", text);
    let module = Module::from_source(&Engine::default(), "functions.dual", text).unwrap();
    let cases = [
        ("apply", "takes a function (`f : Real -> Real`)"),
        ("adders", "returns a value with a function in it (`List (Real -> Real)`)"),
        ("handlers", "takes a value with a function in it (`hs : List Handler`)"),
    ];
    for (name, reason) in cases {
        let message = format!("`{name}` {reason}, which can't cross the border between host and program");
        let found = module.function(name).unwrap_err().to_string();
        assert!(found.starts_with(&message), "{found}");
        let finished = w.run(&["run", "functions.dual", name, "1"]);
        assert_eq!(finished.code, Some(2), "{finished:#?}");
        assert!(finished.stderr.starts_with(&format!("error: functions.dual: {message}")), "{finished:#?}");
        assert!(finished.stderr.contains("use : (x : Real) -> Real"), "{finished:#?}");
    }
    assert_eq!(module.function("use").unwrap().call(&[2.0.into()]).unwrap(), dualvm::Value::Real(3.0));
}

#[test]
fn what_gives_a_function_is_called_with_all_arguments() {
    let text = "def scaled (k : Real) : Array Real -> Real = let k = k * k in \\xs -> k * sum xs
def doubled = scaled 2
def total = fold (+) 0.0
def shifted (x : Real) = if x > 0 then (+) x else \\y -> y
";
    let module = Module::from_source(&Engine::default(), "functions.dual", text).unwrap();
    let call = |name: &str, args: &[dualvm::Value]| module.function(name).unwrap().value_and_grad(args).unwrap();
    let xs = dualvm::Value::from(vec![1.0, 2.0]);
    let of_xs = |slope: f64| dualvm::Value::from(vec![slope, slope]);
    let (value, gradient) = call("scaled", &[3.0.into(), xs.clone()]);
    assert_eq!((value, gradient), (27.0, vec![18.0.into(), of_xs(9.0)]));
    assert_eq!(call("doubled", std::slice::from_ref(&xs)), (12.0, vec![of_xs(4.0)]));
    let list = dualvm::Value::Array(vec![1.0.into(), 2.0.into()]);
    assert_eq!(module.function("total").unwrap().call(&[list]).unwrap(), dualvm::Value::Real(3.0));
    assert_eq!(call("shifted", &[1.0.into(), 2.0.into()]), (3.0, vec![1.0.into(), 1.0.into()]));
    assert_eq!(call("shifted", &[(-1.0).into(), 2.0.into()]), (2.0, vec![0.0.into(), 1.0.into()]));
}
