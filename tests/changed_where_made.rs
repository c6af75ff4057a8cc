//! Arrays that a recorded loop makes, of others or one by one, changes in place and finishes, in each of its rounds.
//! All of it is one record: what it gives is what forward mode gives, and in native code what it gives interpreted, to
//! the last bit.

use dualvm::{CallOptions, Config, Engine, Function, Jit, Module, Value};
use fastrand::Rng;

const PROGRAM: &str = "
    def weigh (c : Array Real) : Real = loop s = 0.25 for i < length c do s * 0.5 + c[i] * to_real (i % 3 - 4)

    -- Gaussian elimination of a tridiagonal system in each step.
    def implicit (a : Array Real) (k : Int) : Real =
      let n = length a in
      weigh (loop u = a for _ < k do
        let c = [| -0.3 + 0.01 * u[i] for i < n |] in
        let (c, d) = loop (c, d) = (c, u) for i < n do
          let (ci, di) = if i == 0 then (0.1, 0.2) else (c[i - 1], d[i - 1]) in
          let m = 2.0 + 0.3 * ci in ({ c with [i] = c[i] / m }, { d with [i] = (d[i] + 0.3 * di) / m }) in
        loop d = d for j < n - 1 do let i = n - 2 - j in { d with [i] = d[i] - c[i] * d[i + 1] })
    -- Prefix sums, of which some are skipped.
    def prefixes (a : Array Real) (k : Int) : Real =
      loop total = 0.0 for t < k do
        let p = loop p = a for i < length a do
          if i % 3 == t % 3 || p[i] < -1.5 then p else { p with [i] = p[i] * 0.7 + p[(i + length a - 1) % length a] } in
        total * 0.5 + weigh p
    -- One element of a copy, which is read at once, beside the original.
    def nudged (a : Array Real) (k : Int) : Real =
      loop total = 0.1 for t < k do
        let i = t % length a in
        let b = { a with [i] = total * a[(i + 1) % length a] } in
        total * 0.3 + b[i] * b[0] - a[i] + sin b[length a - 1]
    def swapped (a : Array Real) (k : Int) : Real =
      let (x, y) = loop (x, y) = (a, map sin a) for t < k do
        let x = loop x = x for i < length a do { x with [i] = x[i] * y[length a - 1 - i] } in
        let y = { y with [t % length a] = x[0], [0] = y[0] * 0.5 } in
        if t % 2 == 0 then (y, x) else (x, y) in
      weigh x + weigh y
    -- Ranges, of which one has no elements at first, and one is made twice of the same array.
    def ranges (a : Array Real) (k : Int) : Real =
      loop total = 0.0 for t < k do
        let n = min t (length a) in
        let b = a[0 .. n] ++ a[0 .. length a] ++ a[0 .. n] in
        let b = loop b = b for i < length b do { b with [i] = b[i] * b[length b - 1 - i] } in
        total + weigh b * 0.1
    -- A matrix that is made in each round, and rows of it.
    def eliminated (a : Array Real) (k : Int) : Real =
      let n = 4 in
      loop total = 0.0 for t < k do
        let m = [| (if i == j then 5.0 else 0.0) + a[(i * n + j + t) % length a] for i < n, j < n |] in
        let m = loop m = m for p < n do
          loop m = m for i in p + 1 .. n do
            let f = m[i, p] / m[p, p] in loop m = m for j in p .. n do { m with [i, j] = m[i, j] - f * m[p, j] } in
        let r = m[t % n, ..] in
        let r = loop r = r for i < n do { r with [i] = r[i] * m[i, i] } in
        total * 0.5 + weigh r
    -- Whether it is changed depends on what it holds, and how often.
    def until_small (a : Array Real) (k : Int) : Real =
      loop total = 0.0 for t < k do
        let (b, _) = loop (b, n) = (a, 0) while n < 5 && b[t % length a] > 0.2 do
          ({ b with [t % length a] = b[t % length a] * 0.6, [0] = b[0] + 0.1 }, n + 1) in
        total + weigh b
    -- Numbers that nothing depends on, changed among others.
    def tables (a : Array Real) (k : Int) : Real =
      loop total = 0.0 for t < k do
        let w = loop w = [| 1.0 for _ < length a |] for i in 1 .. length a do { w with [i] = w[i - 1] * 0.5 } in
        let used = loop used = [| 0 for _ < length a |] for i < length a do
          { used with [(i * t) % length a] = used[(i * t) % length a] + 1 } in
        total + sum [| a[i] * a[i] * w[i] * to_real used[i] for i < length a |]
    -- Another array is taken out of where it stands before the new one is read.
    def beside (a : Array Real) (k : Int) : Real =
      let parts = [| [| a[(i * j + i) % length a] for j < length a + i |] for i < 4 |] in
      loop total = 0.3 for t < k do
        let b = loop b = a for i < length a do { b with [i] = total * b[i] + a[length a - 1 - i] } in
        let part = parts[t % 4] in
        total * 0.3 + tanh (part[0] * b[length a - 1])
    def in_tasks (a : Array Real) (k : Int) : Real =
      sum (pbuild 3 (\\t -> prefixes a (k + t) + nudged (map (* to_real (t + 1)) a) k))
    def tangents (a : Array Real) (k : Int) : Real =
      snd (jvp (\\x -> implicit (map (* x) a) k + swapped (map (+ x) a) k) 0.5 1.0)
";

/// Each with the number of records that it has at most.
const NAMES: [(&str, u64); 11] = [
    ("implicit", 2),
    ("prefixes", 1),
    ("nudged", 1),
    ("swapped", 5),
    ("ranges", 1),
    ("eliminated", 1),
    ("until_small", 1),
    ("tables", 1),
    ("beside", 2),
    ("in_tasks", 40),
    ("tangents", 200),
];

/// The same as code: `ROUND` is run in each round of a loop, where i3 counts the rounds, i1 is 1 and i4 is 0, the array
/// p0 has i2 elements, of which i5 is the last one; r0 is what is given, r1 to r3, p1 to p4, builders of reals, and p5
/// and p6, arrays, are free.
const AROUND: &str = "
    message m0 \"no more\"
    type t0 = array real
    type t1 = builder real
    func \"f\" (t0, int) -> (real)
      export (a : Array Real @t0, k : Int) -> Real
      regs 5 real, 12 int, t0, t1, t1, t1, t1, t0, t0
    {
      const r0, 0.5
      iconst i1, 1
      iconst i3, 0
      iconst i4, 0
      len i2, p0
      isub i5, i2, i1
      iadd i6, i2, i2
      ilt i7, i3, i0
      branch i7, around, done
    around:
      ROUND
      tanh r0, r0
      iadd i3, i3, i1
      ilt i7, i3, i0
      branch i7, around, done
    done:
      ret (r0)
    }
";

/// What is read or changed right behind where it is made or changed, in all orders.
const ROUNDS: [(&str, &str); 13] = [
    (
        "read behind what is appended",
        "build p1, i6\n extend p1, p0, i4, i2\n get r1, p1, i5\n push p1, r1\n get r2, p1, i2\n mul r0, r0, r2
         finish p5, p1\n elem r1, p5, i2\n add r0, r0, r1",
    ),
    (
        "put behind what is appended",
        "build p1, i6\n elem r1, p0, i4\n push p1, r1\n mul r2, r1, r0\n put p1, i4, r2\n extend p1, p0, i4, i2
         put p1, i5, r0\n finish p5, p1\n elem r1, p5, i4\n elem r2, p5, i5\n fma r0, r1, r2, r1",
    ),
    (
        "read behind where it is finished",
        "build p1, i2\n extend p1, p0, i4, i2\n jump put\n put:\n get r1, p1, i4\n mul r1, r1, r0\n put p1, i5, r1
         finish p5, p1\n elem r2, p5, i5\n elem r3, p0, i5\n fma r0, r2, r3, r2",
    ),
    (
        "by two names",
        "build p1, i2\n extend p1, p0, i4, i2\n pmov p2, p1\n jump on\n on:\n get r1, p2, i4\n put p1, i5, r1
         get r2, p2, i5\n put p2, i5, r0\n fma r0, r1, r2, r0\n finish p5, p2
         elem r1, p5, i5\n sin r1, r1\n add r0, r0, r1",
    ),
    (
        "each of what was appended before it",
        "build p1, i6\n elem r1, p0, i4\n push p1, r1\n iconst i8, 0\n jump next\n next:\n get r1, p1, i8\n sin r1, r1
         elem r2, p0, i8\n mul r1, r1, r2\n push p1, r1\n iadd i8, i8, i1\n ilt i7, i8, i2\n branch i7, next, made
         made:\n finish p5, p1\n elem r1, p5, i2\n elem r2, p5, i5\n mul r1, r1, r2\n add r0, r0, r1",
    ),
    (
        "copied from what has just been finished",
        "build p1, i2\n extend p1, p0, i4, i5\n push p1, r0\n finish p5, p1\n iadd i8, i6, i1
         build p1, i8\n elem r1, p0, i5
         sin r1, r1\n push p1, r1\n extend p1, p5, i4, i2
         extend p1, p5, i4, i2\n finish p6, p1\n jump on\n on:\n elem r1, p6, i5\n elem r2, p6, i2\n elem r3, p0, i4
         fma r0, r1, r3, r2",
    ),
    (
        "abandoned before anything is changed",
        "build p1, i2\n extend p1, p0, i4, i2\n elem r1, p0, i4\n lt i7, r0, r1\n branch i7, leave, change\n change:
         get r2, p1, i5\n mul r2, r2, r0\n put p1, i4, r2\n finish p5, p1\n elem r0, p5, i4\n jump leave\n leave:
         cos r1, r0\n add r0, r1, r1",
    ),
    (
        "one after the other, of one name",
        "build p1, i2\n extend p1, p0, i4, i2\n jump first\n first:\n get r1, p1, i4\n put p1, i5, r1\n finish p5, p1
         build p1, i2\n extend p1, p5, i4, i2\n jump second\n second:\n get r2, p1, i5\n fma r2, r2, r0, r2
         put p1, i4, r2\n finish p6, p1\n jump on\n on:\n elem r1, p6, i4\n elem r2, p6, i5
         fma r0, r1, r2, r0\n sin r0, r0",
    ),
    (
        "begun for the next round",
        "build p1, i1\n elem r1, p0, i4\n push p1, r1\n iconst i8, 0\n jump next\n next:\n get r1, p1, i4\n sin r1, r1
         elem r2, p0, i8\n mul r1, r1, r2\n finish p5, p1\n build p1, i1\n push p1, r1\n iadd i8, i8, i1
         ilt i7, i8, i2\n branch i7, next, made\n made:\n finish p5, p1\n jump on\n on:\n elem r1, p5, i4
         add r0, r0, r1",
    ),
    (
        "put behind a test",
        "build p1, i2\n elem r1, p0, i4\n push p1, r1\n push p1, r0\n ilt i7, i4, i2\n branch i7, inside, outside
         outside:\n trap m0\n inside:\n mul r2, r1, r0\n put p1, i1, r2\n finish p5, p1\n jump on\n on:
         elem r1, p5, i4\n elem r2, p5, i1\n fma r0, r1, r2, r1",
    ),
    (
        "finished behind a test, and read",
        "build p1, i2\n extend p1, p0, i4, i2\n ilt i7, i4, i2\n branch i7, inside, outside\n outside:\n trap m0
         inside:\n finish p5, p1\n elem r1, p5, i1\n elem r2, p0, i4\n mul r1, r1, r2\n add r0, r0, r1",
    ),
    (
        "one of two that have just been finished",
        "build p1, i2\n build p2, i2\n extend p1, p0, i4, i2\n push p2, r0\n elem r3, p0, i5\n push p2, r3
         finish p5, p1\n finish p6, p2\n lt i7, r0, r3\n pselect p5, i7, p5, p6\n elem r1, p5, i1
         elem r2, p5, i4\n fma r0, r1, r2, r0",
    ),
    (
        "of constants",
        "build p1, i6\n const r1, 0.5\n push p1, r1\n push p1, r1\n build p2, i6\n extend p2, p0, i4, i2\n jump on\n on:
         get r2, p1, i1\n put p1, i4, r2\n get r1, p2, i4\n mul r1, r1, r2\n put p2, i5, r1\n finish p5, p1
         finish p6, p2\n jump last\n last:\n elem r1, p5, i4\n elem r2, p6, i5\n fma r0, r1, r2, r0",
    ),
];

const SPECIAL: [f64; 8] = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-320, 1e308, -1e200];

/// Interpreted, and native with two threads.
fn both(load: impl Fn(&Engine) -> Module) -> [Module; 2] {
    [(Jit::Off, 1), (Jit::Always, 2)].map(|how| {
        let mut config = Config::default();
        (config.jit, config.threads) = how;
        load(&Engine::new(config))
    })
}

/// Compares the two. If the numbers are finite, with forward mode as well, and the records are counted.
fn check(functions: [Function; 2], name: &str, (a, k): (&[f64], i64), records_max: Option<u64>) {
    let args = [Value::Reals(a.to_vec()), Value::Int(k)];
    let of = |function: &Function| function.value_and_grad_with(&args, &CallOptions::default());
    let [interpreted, native] = functions.each_ref().map(of);
    let shown = |found: &Result<dualvm::Gradient, dualvm::Error>| match found {
        Ok(found) => format!("{:?} {:?} {}", found.value, found.gradient, found.stats.tape_bytes),
        Err(error) => error.to_string(),
    };
    assert_eq!(shown(&interpreted), shown(&native), "{name} of {a:?}, {k}");
    let (Ok(found), Some(max)) = (interpreted, records_max) else { return };
    assert!(found.stats.records <= max, "{name}: {} records", found.stats.records);
    let Value::Reals(gradient) = &found.gradient[0] else { panic!("{name}: {:?}", found.gradient) };
    for (n, of_one) in gradient.iter().enumerate() {
        let direction = (0..a.len()).map(|at| f64::from(u8::from(at == n))).collect();
        let (_, tangent) = functions[0].jvp(&args, &[Value::Reals(direction), Value::Null]).unwrap();
        let Value::Real(tangent) = tangent else { panic!("{name}: {tangent:?}") };
        let close = (of_one - tangent).abs() <= 1e-9 * tangent.abs().max(1.0);
        assert!(close, "{name} of {a:?}, {k}: {of_one} and {tangent} by element {n}");
    }
}

fn cases() -> Vec<(Vec<f64>, i64)> {
    let mut rng = Rng::with_seed(1);
    let sizes = [(1, 1), (2, 3), (4, 0), (5, 2), (8, 4), (9, 1), (17, 9), (33, 3), (3, 20)];
    sizes.map(|(len, k)| ((0..len).map(|_| rng.f64() * 2.0 - 0.8).collect(), k)).into()
}

fn special_cases() -> Vec<(Vec<f64>, i64)> {
    let mut rng = Rng::with_seed(2);
    let mut real = || if rng.u8(..4) == 0 { SPECIAL[rng.usize(..SPECIAL.len())] } else { rng.f64() * 3.0 - 1.5 };
    let mut cases: Vec<(Vec<f64>, i64)> = (0..12).map(|n| ((0..n + 6).map(|_| real()).collect(), 3)).collect();
    // Alone, where it may meet adjoints that are zero.
    cases.extend(SPECIAL.map(|special| ([0.25, -0.75, 1.5, 0.5, -1.25].into_iter().chain([special]).collect(), 3)));
    cases
}

#[test]
fn programs_that_make_arrays_and_change_them() {
    let modules =
        both(|engine| Module::from_source(engine, "made.dual", PROGRAM).unwrap_or_else(|error| panic!("{error}")));
    for (name, records) in NAMES {
        let functions = || modules.each_ref().map(|module| module.function(name).unwrap());
        cases().iter().for_each(|(a, k)| check(functions(), name, (a, *k), Some(records)));
        special_cases().iter().for_each(|(a, k)| check(functions(), name, (a, *k), None));
        check(functions(), name, (&[], 3), None);
    }
}

#[test]
fn orders_in_which_elements_are_made_changed_and_read() {
    for (name, round) in ROUNDS {
        let code = AROUND.replace("ROUND", round);
        let modules = both(|engine| {
            Module::from_assembly(engine, "made.dvs", &code).unwrap_or_else(|error| panic!("{name}: {error}"))
        });
        let functions = || modules.each_ref().map(|module| module.function("f").unwrap());
        cases().iter().filter(|(a, _)| a.len() > 1).for_each(|(a, k)| check(functions(), name, (a, *k), Some(1)));
        special_cases().iter().for_each(|(a, k)| check(functions(), name, (a, *k), None));
    }
}
