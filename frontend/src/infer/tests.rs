//! What types are inferred.

use crate::diagnostics::{Diagnostics, Sink};
use crate::names::Names;
use crate::source::{Source, SourceMap};

/// The types of a program's definitions, or what is wrong with it.
fn types(text: &str) -> Result<Vec<String>, String> {
    let mut sources = SourceMap::of(Source::new("test.dual", text));
    let (mut names, mut sink) = (Names::default(), Sink::default());
    let meter = std::rc::Rc::new(crate::limits::Meter::unlimited());
    let (ast, _) = crate::read(&mut sources, None, &mut names, &mut sink, &meter);
    let resolved = crate::resolve::resolve(&ast, &mut names, &mut sink, &meter);
    let mut inferred = super::infer(&ast, &sources, &names, &resolved, &mut sink, &meter);
    if sink.has_errors() {
        return Err(Diagnostics::new(sources, sink, None).to_string());
    }
    let own = ast.defs.ids().filter(|&def| ast.is_own(def));
    Ok(own
        .map(|def| {
            let ty = inferred.defs[def].clone();
            let ty = inferred.types.functions(&ty.params, ty.result);
            inferred.types.show(ty)
        })
        .collect())
}

/// The type of the last definition.
fn last(text: &str) -> String {
    types(text).unwrap_or_else(|errors| panic!("{errors}")).pop().expect("the program has a definition")
}

#[test]
fn functions_are_values() {
    assert_eq!(last("def compose f g = \\x -> f (g x)"), "(a -> b) -> (d -> a) -> d -> b");
    assert_eq!(last("def f = map (\\x -> x + 1.0)"), "c Real -> c Real");
    assert_eq!(last("def add x y = x + y\ndef f = add 1.0"), "Real -> Real");
    assert_eq!(last("def f x = x |> sqrt |> (\\y -> y > 0)"), "Real -> Bool");
    assert_eq!(last("def f = sqrt >> (\\y -> y > 0)"), "Real -> Bool");
    assert_eq!(last("def f = (\\y -> y > 0) << sqrt << fst"), "(Real, a) -> Bool");
    assert_eq!(last("def f g = g 1 (g 2 3)"), "(a -> b -> b) -> b");
}

#[test]
fn operators_are_functions_and_have_sections() {
    assert_eq!(last("def f (a : List Real) b = sum (zip_with (*) a b)"), "List Real -> List Real -> Real");
    assert_eq!(last("def f = (:: [])"), "a -> List a");
    assert_eq!(last("def f = (1.0 ::)"), "List Real -> List Real");
    assert_eq!(last("def f x = ((2 *) x, (/ 2.0) x, (- 1), (^ 2) x)"), "Real -> (Real, Real, a, Real)");
    assert_eq!(last("def f = ((++), (==), (%))"), "(c a -> c a -> c a, b -> b -> Bool, Int -> Int -> Int)");
    assert_eq!(last("def f x = (x - 1 <)"), "a -> a -> Bool");
}

#[test]
fn local_functions_are_polymorphic() {
    assert_eq!(
        last("def f (x : Real) = let twice y = (y, y) in (twice x, twice true)"),
        "Real -> ((Real, Real), (Bool, Bool))"
    );
    assert_eq!(last("def f x = let pair y = (x, y) in (pair 1.0, pair true)"), "a -> ((a, Real), (a, Bool))");
    assert_eq!(last("def f = let id = \\x -> x in (id 1.0, id true)"), "(Real, Bool)");
    assert_eq!(last("def f = let e = [] in (1.0 :: e, true :: e)"), "(List Real, List Bool)");
    let even = "def f n = let even n = if n == 0 then true else odd (n - 1)
    and odd n = if n == 0 then false else even (n - 1) in
    (even (n : Int), even 2.0)";
    assert_eq!(last(even), "Int -> (Bool, Bool)");
    let groups = "def f = let both x = (id x, id x) and id y = y in (both 1.0, both true)";
    assert_eq!(last(groups), "((Real, Real), (Bool, Bool))");
    assert_eq!(
        last("def f = let k (x : a) (y : b) : a = x and g (z : a) : a = z in (k 1.0 true, k true 1.0)"),
        "(Real, Bool)"
    );
}

#[test]
fn data_types_are_polymorphic_and_recursive() {
    let tree = "type Tree a = Leaf | Node (Tree a) a (Tree a)
    def insert x t = match t with
      | Leaf -> Node Leaf x Leaf
      | Node l y r if x < y -> Node (insert x l) y r
      | Node l y r -> Node l y (insert x r)";
    assert_eq!(last(tree), "a -> Tree a -> Tree a");
    let mutual = "def size (Rose x rest) = 1 + sum (map size rest)
    type Rose a = Rose a (Forest a)
    alias Forest a = List (Rose a)";
    assert_eq!(last(mutual), "Rose a -> b");
    assert_eq!(
        last("type Box a = Box { value : a, count : Int }\ndef f b = Box { count = 1, value = b }"),
        "a -> Box a"
    );
    assert_eq!(last("type Box a = Box { value : a, count : Int }\ndef f (Box { value }) = value"), "Box a -> a");
    assert_eq!(last("type Box a = Box { value : a, count : Int }\ndef f (b : Box a) = b.value"), "Box a -> a");
}

#[test]
fn abbreviations_stay_as_they_were_written() {
    let point = "alias Point = { y : Real, x : Real }\n";
    assert_eq!(last(&format!("{point}def f (p : Point) = (p, p.x)")), "Point -> (Point, Real)");
    assert_eq!(
        last(&format!("{point}def f (p : Point) q = if p == q then p else {{ q with x = 1 }}")),
        "Point -> Point -> Point"
    );
    assert_eq!(last(&format!("{point}def f x = {{ x, y = 1.0 }}")), "a -> { y : Real, x : a }");
    let pair = "alias Pair a = (a, a)\nalias Step = Real -> Real\n";
    assert_eq!(last(&format!("{pair}def f (p : Pair a) x = [p, (x, x)]")), "Pair a -> a -> List (Pair a)");
    assert_eq!(last(&format!("{pair}def f (p : Pair a) = p\ndef g x = f (x, true)")), "Bool -> Pair Bool");
    assert_eq!(last(&format!("{pair}def f (s : Step) x : Step = s")), "Step -> a -> Step");
    // A word stays what it is, and so does what only looks alike.
    assert_eq!(last("alias Length = Real\ndef f (x : Length) y = (x + y, 1.5)"), "Real -> Real -> (Real, Real)");
    assert_eq!(
        last(&format!("{pair}def f (p : Pair a) = p\ndef g (x : Real) = (x, (1.0, x))")),
        "Real -> (Real, (Real, Real))"
    );
}

#[test]
fn long_types_are_shown_without_what_is_deep_inside() {
    let pairs = (0..8).fold("x".to_owned(), |pair, _| format!("({pair}, {pair})"));
    let shown = last(&format!("def f (x : Real) = ({pairs}, [1.5])"));
    assert!(shown.starts_with("Real -> (((((…, …), (…, …))") && shown.ends_with(", List Real)"), "{shown}");
    let fields: Vec<String> = (0..100).map(|n| format!("field_{n} = x")).collect();
    let shown = last(&format!("def f (x : Real) = {{ {} }}", fields.join(", ")));
    assert!(shown.starts_with("Real -> { field_0 : Real, field_1 : Real") && shown.ends_with(", … }"), "{shown}");
}

#[test]
fn records_are_structural_and_found_out_late() {
    assert_eq!(
        last("def f (r : { x : Real, n : Int }) = { r with x = r.x + 1 }"),
        "{ x : Real, n : Int } -> { x : Real, n : Int }"
    );
    let late = "alias P = { x : Real, v : Real }\ndef f (ps : List P) = sum (map (\\p -> p.x * p.v) ps)";
    assert_eq!(last(late), "List P -> Real");
    assert_eq!(last("def f x = let get r = r.x in get { x = x, y = 1.0 }"), "a -> a");
    assert_eq!(last("def f x y = { y, x }.x"), "a -> b -> a");
    assert_eq!(
        last("def f ({ x = (a, _), .. } : { x : (Real, Int), y : Int }) = a"),
        "{ x : (Real, Int), y : Int } -> Real"
    );
}

#[test]
fn equality_is_structural() {
    assert_eq!(
        last("type T a = A a | B (List (T a))\ndef f (x : T Int) y = x == y && [(1, x)] != []"),
        "T Int -> T Int -> Bool"
    );
    assert!(types("type T = A (Int -> Int)\ndef f (x : T) y = x == y").is_err());
    assert!(types("def f x = x == \\y -> y").is_err());
}

#[test]
fn patterns_of_all_kinds() {
    let text = "type Shape = Circle Real | Rect { width : Real, height : Real }
    def f s = match s with
      | (0, Circle r, all @ (x :: _)) if r > x -> (r, all)
      | (1 | 2, (Circle r | Rect { width = r, .. }), all @ [_, _]) -> (r, all)
      | (-1, Rect { width, height }, xs : List Real) -> (width * height, xs)
      | (_, _, xs) -> (0, xs)";
    assert_eq!(last(text), "(a, Shape, List Real) -> (Real, List Real)");
}

#[test]
fn programs_shadow_the_prelude() {
    assert_eq!(last("def sum (x : Real) = x + 1\ndef f xs = [sum xs] ++ []"), "Real -> List Real");
    assert_eq!(last("def append = 1.0\ndef f = [append] ++ []"), "List Real");
    assert_eq!(last("def f map = map 1.0 + 1"), "(Real -> a) -> a");
}

#[test]
fn long_lists_and_chains_do_not_nest() {
    let list = vec!["1.0"; 100_000];
    assert_eq!(last(&format!("def f = [{}]", list.join(", "))), "List Real");
    assert_eq!(last(&format!("def f = {} :: []", list.join(" :: "))), "List Real");
    let chain = last(&format!("def f (x : List Real) = {}", vec!["x"; 100_000].join(" ++ ")));
    assert_eq!(chain, "List Real -> List Real");
    let pattern = vec!["_"; 20_000].join(", ");
    assert_eq!(last(&format!("def f xs = match xs with | [{pattern}] -> 1 | _ -> 3")), "List a -> b");
}
