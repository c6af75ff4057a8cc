//! Points at which a derivative changes, or the result jumps, are found where a run comes near.

use dualvm::vm::module::SourcePlace;
use dualvm::{CallOptions, CompileOptions, Engine, Function, KINK_EPSILON, Kinks, Module, Value};

fn function(text: &str) -> Function {
    let mut options = CompileOptions::default();
    options.as_written = true;
    let module = Module::from_source_with(&Engine::default(), "t.dual", text, &options).expect("the program is good");
    let mut functions: Vec<Function> = module.functions().collect();
    functions.pop().expect("there is a function")
}

fn kinks(text: &str, args: &[Value]) -> Kinks {
    function(text).kinks(args, KINK_EPSILON, &CallOptions::default()).expect("the program runs")
}

/// Operations with their lines, columns and counts.
fn sites(kinks: &Kinks) -> Vec<(&'static str, u32, u32, u64)> {
    let site = |site: &dualvm::Kink| {
        let SourcePlace { line, column, .. } = site.place.clone().expect("source has places");
        (site.operation, line, column, site.count)
    };
    kinks.sites.iter().map(site).collect()
}

#[test]
fn ties_and_jumps_are_counted_by_place() {
    let text = "
def f (x : Real) (y : Real) : Real =
  let a = max x y + min x 5 in
  let b = abs (x - y) + sign (x - 7) in
  if a < y then a + b else floor (2 * x) + round y + to_real (to_int (x / 3))";
    let found = kinks(text, &[3.0.into(), 3.0.into()]);
    let expected = [("max", 3, 11, 1), ("abs", 4, 11, 1), ("floor", 5, 28, 1), ("to_int", 5, 63, 1)];
    assert_eq!(sites(&found), expected, "{found}");
    assert!(found.sites.iter().all(|site| site.nearest == 0.0));
    let found = kinks(text, &[3.3.into(), 4.4.into()]);
    assert!(found.sites.is_empty(), "{found}");
}

#[test]
fn rounds_of_loops_and_calls_add_up() {
    let text = "
def clip (x : Real) : Real = if x < 1 then x else 1
def f (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + clip x * clip (x + 0.5)";
    let found = kinks(text, &[vec![0.5, 1.0, 1.0 + 1e-12, 3.0].into()]);
    assert_eq!(found.sites.iter().map(|site| site.count).sum::<u64>(), 3, "{found}");
}

#[test]
fn what_depends_on_no_argument_does_not_count() {
    let text = "def f (a : Real) (x : Real) : Real = max a 1 * max (to_real 2) 2 * max x x + max (detach x) 1";
    let f = function(text);
    let found = f.kinks(&[1.0.into(), 1.0.into()], KINK_EPSILON, &CallOptions::default()).expect("it runs");
    assert_eq!(sites(&found).len(), 1, "{found}");
    let by_x = f.wrt(&["x"]).expect("there is x");
    let found = by_x.kinks(&[1.0.into(), 1.0.into()], KINK_EPSILON, &CallOptions::default()).expect("it runs");
    assert!(found.sites.is_empty(), "{found}");
}

#[test]
fn in_tasks_and_nested_derivatives() {
    let text = "
def f (x : Real) : Real =
  let (a, b) = abs (x - 1) |*| (loop s = x for i < 3 do max s 1) in
  a + b + grad (\\y -> abs (y - 1)) x";
    let found = kinks(text, &[1.0.into()]);
    assert_eq!(sites(&found), [("abs", 3, 16, 1), ("max", 3, 57, 3), ("abs", 4, 23, 1)], "{found}");
    assert_eq!(found.stats.sweep.as_nanos(), 0);
}

#[test]
fn near_is_relative_to_large_operands() {
    let text = "def f (x : Real) (y : Real) : Real = max x y";
    assert_eq!(kinks(text, &[1e12.into(), (1e12 + 500.0).into()]).sites.len(), 1);
    assert_eq!(kinks(text, &[1.0.into(), (1.0 + 5e-9).into()]).sites.len(), 0);
    assert_eq!(kinks(text, &[0.0.into(), 5e-10.into()]).sites[0].nearest, 5e-10);
}
