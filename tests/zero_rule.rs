//! The zero rule: a product with a zero factor is zero in derivatives, whatever the other factor is.
//!
//! So a derivative that is infinite where nobody looks does no harm, and where the engine cuts its segments can't be
//! seen.

mod support;

use dualvm_vm::module::ModuleDef;
use dualvm_vm::value::Value;
use support::{assemble, export_all, flatten, load, same, with_jumps};

fn module(body: &str) -> ModuleDef {
    let mut def = assemble(body);
    export_all(&mut def);
    def
}

fn gradient(def: &ModuleDef, xs: &[f64]) -> Vec<f64> {
    let args: Vec<Value> = xs.iter().map(|&x| Value::Real(x)).collect();
    let f = load(def.clone()).function("f").expect("f is exported");
    flatten(&f.value_and_grad(&args).unwrap_or_else(|error| panic!("{error}")).1)
}

/// Asserts the gradient for every set of places where the code can be cut.
#[track_caller]
fn assert_gradient(def: &ModuleDef, xs: &[f64], expected: &[f64]) {
    let function = def.function("f").expect("there is an `f`").0.index();
    let len = def.functions[function].body.code.len();
    assert!(len <= 14, "2^{len} cuts are too many");
    for cuts in 0..1u32 << len {
        let cut = with_jumps(def, |func, at| func == function && cuts >> at & 1 == 1);
        let found = gradient(&cut, xs);
        let equal = found.len() == expected.len()
            && found.iter().zip(expected).all(|(a, b)| same(*a, *b) || a == b || (a - b).abs() <= 1e-15 * b.abs());
        assert!(equal, "at {xs:?}, cut at {cuts:#b}: found {found:?}, expected {expected:?}");
    }
}

/// A function of `inputs` reals, with eight registers of each bank.
fn straight(inputs: usize, code: &str) -> ModuleDef {
    let params = vec!["real"; inputs].join(", ");
    module(&format!("func f0 \"f\" ({params}) -> (real)\n regs 10 real, 4 int\n{{\n{code}\n}}"))
}

#[test]
fn a_branch_around_sqrt_has_derivative_zero_where_it_is_not_taken() {
    let def = straight(
        1,
        "const r1, 0.0\n lt i0, r1, r0\n branch i0, some, none\n some:\n sqrt r1, r0\n ret (r1)\n none:\n ret (r1)",
    );
    for x in [0.0, -0.0, -1.0, f64::NEG_INFINITY, f64::NAN] {
        assert_gradient(&def, &[x], &[0.0]);
    }
    assert_gradient(&def, &[4.0], &[0.25]);
}

#[test]
fn a_select_over_sqrt_has_derivative_zero_where_it_is_not_taken() {
    let def = straight(1, "const r1, 0.0\n lt i0, r1, r0\n sqrt r2, r0\n select r3, i0, r2, r1\n ret (r3)");
    for x in [0.0, -0.0, -1.0, f64::NEG_INFINITY, f64::NAN] {
        assert_gradient(&def, &[x], &[0.0]);
    }
    assert_gradient(&def, &[4.0], &[0.25]);
}

#[test]
fn nan_in_the_arm_that_is_not_taken_stays_there() {
    let def =
        straight(2, "const r2, 0.0\n lt i0, r2, r0\n log r3, r0\n mul r3, r3, r1\n select r4, i0, r3, r1\n ret (r4)");
    assert_gradient(&def, &[-1.0, 3.0], &[0.0, 1.0]);
    assert_gradient(&def, &[0.0, 3.0], &[0.0, 1.0]);
    assert_gradient(&def, &[f64::NAN, 3.0], &[0.0, 1.0]);
    assert_gradient(&def, &[2.0, 3.0], &[1.5, std::f64::consts::LN_2]);
}

#[test]
fn a_zero_coefficient_silences_an_infinite_derivative() {
    // c √x: by c it is √x, by x it is c times an infinity.
    let def = straight(2, "sqrt r2, r1\n mul r3, r0, r2\n ret (r3)");
    assert_gradient(&def, &[0.0, 0.0], &[0.0, 0.0]);
    assert_gradient(&def, &[1.0, 0.0], &[0.0, f64::INFINITY]);
    assert_gradient(&def, &[0.0, 4.0], &[2.0, 0.0]);
    // The same with more on either side, so that there is more to cut.
    let def = straight(
        2,
        "neg r3, r0\n neg r3, r3\n add r4, r1, r1\n sqrt r2, r4\n mul r3, r3, r2\n add r3, r3, r3\n ret (r3)",
    );
    assert_gradient(&def, &[0.0, 0.0], &[0.0, 0.0]);
    assert_gradient(&def, &[0.0, 2.0], &[4.0, 0.0]);
}

#[test]
fn a_literal_zero_silences_an_infinite_derivative() {
    for code in ["sqrt r1, r0", "log r1, r0", "cbrt r1, r0"] {
        let def = straight(1, &format!("const r2, 0.0\n {code}\n mul r3, r1, r2\n ret (r3)"));
        assert_gradient(&def, &[0.0], &[0.0]);
        let def = straight(1, &format!("const r2, 0.0\n {code}\n mul r3, r2, r1\n add r3, r3, r0\n ret (r3)"));
        assert_gradient(&def, &[0.0], &[1.0]);
    }
}

#[test]
fn a_square_of_a_root_has_derivative_zero_at_zero() {
    // The documented price of the rule.
    let def = straight(1, "sqrt r1, r0\n mul r2, r1, r1\n ret (r2)");
    assert_gradient(&def, &[0.0], &[0.0]);
    assert_gradient(&def, &[4.0], &[1.0]);
}

#[test]
fn zero_adjoints_meet_infinite_partials_of_every_kind() {
    // z · g(x) at z = 0, where the partials of g are infinite or NaN.
    let singular: [(&str, f64); 13] = [
        ("sqrt r3, r0", 0.0),
        ("sqrt r3, r0", -1.0),
        ("cbrt r3, r0", 0.0),
        ("log r3, r0", 0.0),
        ("log2 r3, r0", 0.0),
        ("log10 r3, r0", 0.0),
        ("log1p r3, r0", -1.0),
        ("asin r3, r0", 1.0),
        ("acos r3, r0", -1.0),
        ("acosh r3, r0", 1.0),
        ("atanh r3, r0", 1.0),
        ("lgamma r3, r0", 0.0),
        ("digamma r3, r0", 0.0),
    ];
    for (code, x) in singular {
        // Through a register with adjoint zero, and through one that nobody reads.
        let def = straight(2, &format!("{code}\n mul r4, r1, r3\n ret (r4)"));
        assert!(gradient(&def, &[x, 0.0])[0] == 0.0, "{code} at {x}");
        let def = straight(2, &format!("{code}\n mul r4, r1, r1\n ret (r4)"));
        assert_gradient(&def, &[x, 3.0], &[0.0, 6.0]);
    }
}

#[test]
fn division_by_zero_is_silenced_by_a_zero_adjoint() {
    let def = straight(3, "div r3, r0, r1\n mul r4, r2, r3\n ret (r4)");
    let found = gradient(&def, &[1.0, 0.0, 0.0]);
    assert_eq!(found[..2], [0.0, 0.0]);
    let found = gradient(&def, &[0.0, 0.0, 0.0]);
    assert_eq!(found[..2], [0.0, 0.0]);
    let def = straight(2, "div r2, r0, r1\n ret (r2)");
    assert_gradient(&def, &[1.0, 0.0], &[f64::INFINITY, f64::NEG_INFINITY]);
    assert_gradient(&def, &[0.0, 2.0], &[0.5, 0.0]);
}

#[test]
fn powers_at_zero_follow_the_documentation() {
    let def = straight(2, "pow r2, r0, r1\n ret (r2)");
    // By the base it is 0 where the exponent is 0; by the exponent it is 0 where the base is 0 and the exponent is not.
    for x in [0.0, -0.0, 1.0, -3.0, 2.5] {
        assert_eq!(gradient(&def, &[x, 0.0])[0], 0.0, "x = {x}");
    }
    for p in [0.5, 1.0, 2.0, 3.0, 7.5] {
        assert_eq!(gradient(&def, &[0.0, p])[1], 0.0, "p = {p}");
    }
    assert_gradient(&def, &[0.0, 1.0], &[1.0, 0.0]);
    assert_gradient(&def, &[0.0, 2.0], &[0.0, 0.0]);
    assert_gradient(&def, &[0.0, 0.5], &[f64::INFINITY, 0.0]);
    assert_gradient(&def, &[-2.0, 2.0], &[-4.0, f64::NAN]);
    // With a literal exponent nobody asks for the other derivative.
    let def = straight(1, "const r1, 2.0\n pow r2, r0, r1\n ret (r2)");
    assert_gradient(&def, &[-2.0], &[-4.0]);
    let def = straight(1, "const r1, 0.0\n pow r2, r0, r1\n ret (r2)");
    assert_gradient(&def, &[0.0], &[0.0]);
    assert_gradient(&def, &[-3.0], &[0.0]);
    let def =
        module("func f0 \"f\" (real) -> (real)\n regs 2 real, 1 int\n{\n iconst i0, 0\n powi r1, r0, i0\n ret (r1)\n}");
    assert_gradient(&def, &[0.0], &[0.0]);
    assert_gradient(&def, &[f64::INFINITY], &[0.0]);
}

#[test]
fn corners_have_the_documented_derivatives() {
    let abs = straight(1, "abs r1, r0\n ret (r1)");
    assert_gradient(&abs, &[0.0], &[0.0]);
    assert_gradient(&abs, &[-0.0], &[0.0]);
    assert_gradient(&abs, &[-2.0], &[-1.0]);
    let hypot = straight(2, "hypot r2, r0, r1\n ret (r2)");
    assert_gradient(&hypot, &[0.0, 0.0], &[0.0, 0.0]);
    assert_gradient(&hypot, &[3.0, -4.0], &[0.6, -0.8]);
    for op in ["min", "max"] {
        let tie = straight(2, &format!("{op} r2, r0, r1\n ret (r2)"));
        assert_gradient(&tie, &[1.5, 1.5], &[1.0, 0.0]);
        assert_gradient(&tie, &[0.0, -0.0], &[1.0, 0.0]);
        assert_gradient(&tie, &[-0.0, 0.0], &[1.0, 0.0]);
        let (first, second) = if op == "min" { ([1.0, 0.0], [0.0, 1.0]) } else { ([0.0, 1.0], [1.0, 0.0]) };
        assert_gradient(&tie, &[1.0, 2.0], &first);
        assert_gradient(&tie, &[2.0, 1.0], &second);
    }
    let norm = straight(2, "mul r2, r0, r0\n fma r2, r1, r1, r2\n sqrt r2, r2\n ret (r2)");
    assert_gradient(&norm, &[0.0, 0.0], &[0.0, 0.0]);
}

#[test]
fn relu_and_clamps_made_of_selects_and_of_branches_agree() {
    let select = straight(1, "const r1, 0.0\n lt i0, r1, r0\n select r2, i0, r0, r1\n ret (r2)");
    let branch = straight(1, "const r1, 0.0\n lt i0, r1, r0\n branch i0, yes, no\n yes:\n mov r1, r0\n no:\n ret (r1)");
    let max = straight(1, "const r1, 0.0\n max r2, r1, r0\n ret (r2)");
    for (x, slope) in [(2.0, 1.0), (0.0, 0.0), (-2.0, 0.0), (f64::INFINITY, 1.0)] {
        for def in [&select, &branch, &max] {
            assert_gradient(def, &[x], &[slope]);
        }
    }
}

#[test]
fn what_cancels_before_a_singular_operation_leaves_nothing() {
    // √(x - x): the partials cancel, but not before they have met the infinity, wherever the code is cut.
    let def = straight(1, "sub r1, r0, r0\n sqrt r2, r1\n const r3, 0.0\n mul r4, r2, r3\n add r4, r4, r0\n ret (r4)");
    assert_gradient(&def, &[2.0], &[1.0]);
}

#[test]
fn calls_and_objects_carry_the_rule() {
    // c √x as before; the root is taken in a callee and comes back in a struct.
    let def = module(
        "type t0 = struct { real }
func f0 \"root\" (real) -> (t0)\n regs 1 real, t0\n{\n sqrt r0, r0\n struct_new p0 (r0)\n ret (p0)\n}
func f1 \"f\" (real, real) -> (real)\n regs 4 real, t0\n{\n call f0 (r1) -> (p0)\n field r2, p0, 0
         mul r3, r0, r2\n ret (r3)\n}",
    );
    assert_gradient(&def, &[0.0, 0.0], &[0.0, 0.0]);
    assert_gradient(&def, &[0.0, 4.0], &[2.0, 0.0]);
}
