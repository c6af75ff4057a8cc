//! Programs at the edges: nothing to differentiate, the same thing twice, far too much of everything.

mod support;

use support::value_and_grad;

#[test]
fn an_output_with_a_zero_partial_leaves_the_other_outputs_alone() {
    // `x · 0` depends on `x` in name only: it has no slot, and must not shift that of `y · y`.
    let def = support::scalar_function(2, |f| {
        let (x, y) = (f.real_param(0), f.real_param(1));
        let zero = f.real_const(0.0);
        let (none, square) = (f.mul(x, zero), f.mul(y, y));
        let next = f.new_label();
        f.jump(next);
        f.bind(next);
        let sum = f.add(none, square);
        f.ret(&[sum.into()]);
    });
    assert_eq!(value_and_grad(&def, &[3.0, 5.0]), (25.0, vec![0.0, 10.0]));
}
