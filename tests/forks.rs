//! Forks of as many tasks as there may be, in programs that are made here. What tasks hand to each other is in
//! `tests/filetests/forks`.

mod support;

use support::tasks::{check, reals};

#[test]
fn a_fork_has_as_many_tasks_as_may_be() {
    for count in [1usize, 2, 3, 255, 256] {
        let tasks: String =
            (0..count).map(|n| format!("task \"product\" (r0, r{}) -> (r{})\n", 1 + n % 2, 3 + n)).collect();
        let sum: String = (0..count).map(|n| format!("fma r0, r{0}, r{0}, r0\n", 3 + n)).collect();
        let code = format!(
            "func \"f\" (real, real, real) -> (real) regs {} real\n{{\nfork {count}\n{tasks}{sum}ret (r0)\n}}",
            count + 3
        );
        let (x, y, z) = (0.7, -1.3, 0.4);
        let (ys, zs) = (count.div_ceil(2) as f64, (count / 2) as f64);
        let squares = ys * y * y + zs * z * z;
        let gradient = [1.0 + 2.0 * x * squares, 2.0 * ys * x * x * y, 2.0 * zs * x * x * z];
        check(&code, &reals(&[x, y, z]), x + x * x * squares, &gradient);
    }
}
