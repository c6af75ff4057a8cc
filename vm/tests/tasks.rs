//! Forks and parallel maps in the interpreter: values, gradients, and what a run reports of its tasks.

use dualvm_vm::engine::{Config, Engine, Function, Jit, Module};
use dualvm_vm::text;
use dualvm_vm::value::Value;

/// Miri takes up to a minute for each module, most of it to read the text: it follows every reference into that.
const THREADS: &[usize] = if cfg!(miri) { &[3] } else { &[1, 2, 3, 8] };

fn module(source: &str, threads: usize) -> Module {
    let mut config = Config::default();
    (config.jit, config.threads) = (Jit::Off, threads);
    let def = text::parse(source, "tasks.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    Module::new(&Engine::new(config), def).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn function(module: &Module, name: &str) -> Function {
    module.function(name).expect("the function is exported")
}

const PAIR: &str = r#"
func "square" (real) -> (real) regs 1 real { mul r0, r0, r0
 ret (r0) }
func "product" (real, real) -> (real) regs 2 real { mul r0, r0, r1
 ret (r0) }
func "pair" (real, real) -> (real)
 export (x : Real, y : Real) -> Real
 regs 4 real
 {
 fork 2
 task "square" (r0) -> (r2)
 task "product" (r0, r1) -> (r3)
 add r2, r2, r3
 mul r2, r2, r0
 ret (r2) }
"#;

#[test]
fn a_pair_of_tasks_uses_a_real_of_its_parent_twice() {
    for &threads in THREADS {
        let pair = function(&module(PAIR, threads), "pair");
        // (x² + x y) x
        let result = pair.value_and_grad_with(&[Value::Real(3.0), Value::Real(5.0)], &Default::default()).unwrap();
        assert_eq!(result.value, 72.0);
        assert_eq!(result.gradient, [Value::Real(3.0 * 9.0 + 2.0 * 15.0), Value::Real(9.0)]);
        assert_eq!((result.stats.tasks, result.stats.imports), (3, 0));
    }
}

const SUM: &str = r#"
type t0 = array real
func "sum" (t0, int, int) -> (real)
 export (xs : Array Real @t0, lo : Int, hi : Int) -> Real
 regs 3 real, 5 int, t0
 {
 isub i2, i1, i0
 iconst i3, 1
 ile i4, i2, i3
 branch i4, leaf, node
leaf:
 elem r0, p0, i0
 mul r0, r0, r0
 ret (r0)
node:
 iadd i2, i0, i1
 ishr i2, i2, i3
 fork 2
 task "sum" (p0, i0, i2) -> (r0)
 task "sum" (p0, i2, i1) -> (r1)
 add r0, r0, r1
 ret (r0) }
"#;

#[test]
fn a_tree_of_tasks_imports_elements_of_the_root() {
    let (len, times) = if cfg!(miri) { (12, 1) } else { (1000, 20) };
    let xs: Vec<f64> = (0..len).map(|n| f64::from(n) / 7.0).collect();
    let args = [Value::Reals(xs.clone()), Value::Int(0), Value::Int(i64::from(len))];
    let mut first = None;
    for &threads in THREADS {
        let sum = function(&module(SUM, threads), "sum");
        for _ in 0..times {
            let result = sum.value_and_grad_with(&args, &Default::default()).unwrap();
            let expected: Vec<f64> = xs.iter().map(|x| 2.0 * x).collect();
            assert_eq!(result.gradient[0], Value::Reals(expected));
            assert_eq!((result.stats.tasks, result.stats.imports), (2 * len as u64 - 1, len as u64));
            let found = (result.value, result.stats.instructions, result.stats.span, result.stats.records);
            assert_eq!(*first.get_or_insert(found), found);
        }
    }
}

const MAP: &str = r#"
type t0 = array real
type t1 = builder real
func "range" (int, int, t0, real) -> (t0)
 regs 3 real, 4 int, t0, t1, t0
 {
 isub i2, i1, i0
 build p1, i2
 iconst i3, 1
head:
 ilt i2, i0, i1
 branch i2, body, end
body:
 elem r1, p0, i0
 mul r1, r1, r0
 push p1, r1
 iadd i0, i0, i3
 jump head
end:
 finish p2, p1
 ret (p2) }
func "scaled" (t0, real) -> (t0)
 export (xs : Array Real @t0, a : Real) -> Array Real @t0
 regs 1 real, 1 int, t0, t0
 {
 len i0, p0
 pmap p1, "range", i0 (p0, r0)
 ret (p1) }
func "norm" (t0, real) -> (real)
 export (xs : Array Real @t0, a : Real) -> Real
 regs 3 real, 4 int, t0, t0
 {
 len i0, p0
 pmap p1, "range", i0 (p0, r0)
 const r1, 0.0
 iconst i1, 0
 iconst i3, 1
head:
 ilt i2, i1, i0
 branch i2, body, end
body:
 elem r2, p1, i1
 mul r2, r2, r2
 add r1, r1, r2
 iadd i1, i1, i3
 jump head
end:
 ret (r1) }
"#;

#[test]
fn a_parallel_map_imports_slices_and_hands_its_results_over() {
    for &len in if cfg!(miri) { &[3][..] } else { &[0, 1, 2, 255, 256, 257, 1000, 5000] } {
        let xs: Vec<f64> = (0..len).map(|n| f64::from(n % 17)).collect();
        let args = [Value::Reals(xs.clone()), Value::Real(3.0)];
        for &threads in THREADS {
            let module = module(MAP, threads);
            let norm = function(&module, "norm");
            let result = norm.value_and_grad_with(&args, &Default::default()).unwrap();
            let squares: f64 = xs.iter().map(|x| x * x).sum();
            assert_eq!(result.value, 9.0 * squares);
            let expected: Vec<f64> = xs.iter().map(|x| 18.0 * x).collect();
            assert_eq!(result.gradient, [Value::Reals(expected), Value::Real(6.0 * squares)]);
            assert_eq!(result.stats.tasks, 1 + len.min(256) as u64);
            let scaled = function(&module, "scaled");
            let rows = scaled.jacobian(&args).unwrap().rows;
            assert_eq!(rows.len(), xs.len());
            for (n, row) in rows.iter().enumerate() {
                let mut expected = vec![0.0; xs.len()];
                expected[n] = 3.0;
                assert_eq!(*row, [Value::Reals(expected), Value::Real(xs[n])]);
            }
        }
    }
}

const NESTS: &str = r#"
type t0 = array real
type t1 = builder real
func "nest" (t0, int, int) -> (real)
 regs 4 real, 8 int, t0, t1, t0
 {
 const r0, 0.0
 iconst i2, 1
 isub i3, i1, i0
 build p1, i3
outer:
 elem r1, p0, i0
 iconst i4, 0
 iconst i5, 3
 const r2, 0.0
inner:
 elem r3, p0, i4
 fma r2, r1, r3, r2
 iadd i4, i4, i2
 ilt i6, i4, i5
 branch i6, inner, summed
summed:
 max r0, r0, r2
 iand i7, i0, i2
 branch i7, odd, on
odd:
 mul r2, r2, r2
 jump on
on:
 push p1, r2
 iadd i0, i0, i2
 ilt i6, i0, i1
 branch i6, outer, done
done:
 finish p2, p1
 iconst i4, 0
 elem r1, p2, i4
 add r0, r0, r1
 ret (r0) }
func "nests" (t0) -> (real)
 export (xs : Array Real @t0) -> Real
 regs 2 real, 3 int, t0
 {
 iconst i0, 0
 iconst i1, 3
 len i2, p0
 fork 2
 task "nest" (p0, i0, i1) -> (r0)
 task "nest" (p0, i1, i2) -> (r1)
 add r0, r0, r1
 ret (r0) }
"#;

#[test]
fn nests_in_tasks_import_what_they_read() {
    // With s = x₀ + x₁ + x₂, the tasks give the largest xᵢ s of theirs and what they pushed first: x₀ s and (x₃ s)².
    let xs = [1.0, 3.0, 2.0, 0.5, 5.0];
    let (s, largest) = (6.0, [1, 4]);
    let value = (xs[1] + xs[4]) * s + xs[0] * s + (xs[3] * s) * (xs[3] * s);
    let mut gradient = [0.0; 5];
    for n in largest {
        gradient[n] += s;
    }
    gradient[0] += s;
    gradient[3] += 2.0 * xs[3] * s * s;
    // What the sum contributes.
    let by_sum = xs[1] + xs[4] + xs[0] + 2.0 * xs[3] * s * xs[3];
    gradient[..3].iter_mut().for_each(|derivative| *derivative += by_sum);
    for &threads in THREADS {
        let nests = function(&module(NESTS, threads), "nests");
        let result = nests.value_and_grad_with(&[Value::Reals(xs.to_vec())], &Default::default()).unwrap();
        assert_eq!(result.value, value);
        assert_eq!(result.gradient, [Value::Reals(gradient.to_vec())]);
        assert_eq!((result.stats.tasks, result.stats.imports), (3, 2));
    }
}
