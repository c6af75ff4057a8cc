//! Native code with tasks against the interpreter: bit for bit the same, on any number of threads, where objects,
//! captures and what loops read belong to other tasks than the one that runs.

mod support;

use dualvm_jit::Cranelift;
use dualvm_vm::engine::{CallOptions, Config, Engine, Function, Jit, Limits, Stats};
use dualvm_vm::native::Thresholds;
use dualvm_vm::value::Value;
use std::sync::Arc;
use std::time::Duration;
use support::{assemble, export_all, load_into};

const TYPES: &str = "
type t0 = array real
type t1 = builder real
type t2 = variant { Nil {}, Cons { real, t2 } }
type t3 = closure (real) -> (real)
type t4 = array int
type t5 = struct { real, int, t0, real }
type t6 = array t5
type t7 = builder t5
";

/// Engines that must agree with the first one, which interprets on one thread.
fn engines() -> Vec<(String, Engine)> {
    let after = |calls, back_edges, records| Jit::After(Thresholds { calls, back_edges, records });
    let jits = [
        ("interpreter", Jit::Off, 1),
        ("always", Jit::Always, 1),
        ("always", Jit::Always, 2),
        ("always", Jit::Always, 8),
        // Native code calls the interpreter and is called by it; tasks change over while others run.
        ("mixed", after(2, u32::MAX, 3), 2),
        // Functions stay interpreted, loops are entered in their third round.
        ("loops only", after(u32::MAX - 1, 3, u32::MAX - 1), 1),
        ("loops only", after(u32::MAX - 1, 3, u32::MAX - 1), 2),
    ];
    let engine = |(name, jit, threads)| {
        let mut config = Config::default();
        (config.jit, config.threads, config.generator) = (jit, threads, Some(Arc::new(Cranelift) as _));
        (format!("{name}, {threads} threads"), Engine::new(config))
    };
    jits.into_iter().map(engine).collect()
}

/// What a call gives and uses.
fn outcome(f: &Function, args: &[Value], options: &CallOptions) -> String {
    let used = |stats: &Stats| {
        let Stats { instructions, records, slots, allocated_bytes, tasks, imports, span, .. } = stats;
        format!("{instructions} {records} {slots} {allocated_bytes} {tasks} {imports} {span}")
    };
    let primal = match f.call_with(args, options) {
        Ok((value, stats)) => format!("{value:?} {}", used(&stats)),
        Err(error) => error.to_string(),
    };
    let gradient = match f.value_and_grad_with(args, options) {
        Ok(found) => format!("{:?} {:?} {}", found.value, found.gradient, used(&found.stats)),
        Err(error) => error.to_string(),
    };
    format!("{primal}\n{gradient}")
}

/// Runs `f` on all engines, with all limits. Returns what the interpreter used for the gradient.
#[track_caller]
fn check(code: &str, args: &[Value]) -> Stats {
    let mut def = assemble(&format!("{TYPES}{code}"));
    export_all(&mut def);
    let mut expected: Vec<(CallOptions, String)> = Vec::new();
    let mut stats = Stats::default();
    for (name, engine) in engines() {
        let module = load_into(&engine, def.clone());
        let f = module.function("f").expect("`f` is exported");
        if expected.is_empty() {
            stats =
                f.value_and_grad_with(args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}")).stats;
            let all = Limits::default();
            let (fuel, bytes) = (stats.instructions, stats.allocated_bytes);
            let limits = [
                all.clone(),
                Limits { fuel, ..all.clone() },
                Limits { fuel: fuel - 1, ..all.clone() },
                Limits { fuel: fuel / 3, ..all.clone() },
                Limits { allocated_bytes: bytes / 2, ..all.clone() },
                Limits { depth: 2, ..all.clone() },
                Limits { depth: 1, ..all },
            ];
            for limits in limits {
                let options = CallOptions::with_limits(limits);
                let found = outcome(&f, args, &options);
                expected.push((options, found));
            }
            continue;
        }
        for round in 0..2 {
            for (options, expected) in &expected {
                assert_eq!(&outcome(&f, args, options), expected, "{name}, round {round}, {:?}", options.limits);
            }
        }
        assert_eq!(module.compile_failures(), [""; 0], "{name}");
    }
    stats
}

fn reals(n: usize) -> Value {
    Value::Reals((0..n).map(|i| (0.7 * i as f64).sin() + 0.1).collect())
}

#[test]
fn recursion_in_pairs_reads_elements_of_the_root() {
    let stats = check(
        "func \"f\" (t0, int, int) -> (real)\n regs 2 real, 4 int, t0\n{
            iconst i3, 1\n isub i2, i1, i0\n ile i2, i2, i3\n branch i2, leaf, node
        leaf:\n elem r0, p0, i0\n sin r0, r0\n ret (r0)
        node:\n iadd i2, i0, i1\n ishr i2, i2, i3\n fork 2
            task \"f\" (p0, i0, i2) -> (r0)\n task \"f\" (p0, i2, i1) -> (r1)
            mul r0, r0, r1\n elem r1, p0, i2\n add r0, r0, r1\n ret (r0)\n}",
        &[reals(300), Value::Int(0), Value::Int(300)],
    );
    // Every leaf imports an element, every node but the root another one.
    assert_eq!((stats.tasks, stats.imports), (599, 300 + 298));
}

#[test]
fn three_tasks_take_and_give_values_of_all_banks() {
    check(
        "func \"mix\" (real, int, t0, real) -> (int, real, t0, real)\n regs 3 real, 2 int, t0, t0\n{
            elem r2, p0, i0\n mul r2, r2, r0\n add r1, r1, r2\n pack p1 (r0, r1, r2)
            iadd i0, i0, i0\n ret (i0, r2, p1, r1)\n}
        func \"f\" (real, t0) -> (real)\n regs 8 real, 6 int, t0, t0, t0, t0, t0, t0, t0\n{
            iconst i0, 1\n iconst i1, 2\n const r1, 0.5\n fork 3
            task \"mix\" (r0, i0, p0, r1) -> (i2, r2, p1, r3)
            task \"mix\" (r1, i1, p0, r0) -> (i3, r4, p2, r5)
            task \"mix\" (r0, i0, p0, r0) -> (i4, r6, p3, r7)
            mul r6, r6, r7\n fork 3
            task \"mix\" (r2, i0, p1, r3) -> (i2, r0, p4, r1)
            task \"mix\" (r4, i1, p2, r5) -> (i3, r4, p5, r5)
            task \"mix\" (r6, i0, p3, r3) -> (i5, r6, p6, r7)
            elem r2, p4, i2\n elem r3, p2, i1\n fma r0, r0, r4, r6\n fma r0, r2, r3, r0\n fma r0, r5, r7, r0
            mul r0, r0, r1\n ret (r0)\n}",
        &[Value::Real(0.8), reals(5)],
    );
}

#[test]
fn fields_and_payloads_of_other_tasks_are_imported() {
    check(
        "func \"make\" (real, int, t0) -> (t5)\n regs 3 real, 2 int, t0, t5\n{
            iconst i1, 0\n elem r1, p0, i1\n mul r1, r1, r0\n const r2, 2.0\n struct_new p1 (r1, i0, p0, r2)
            ret (p1)\n}
        func \"use\" (t5, t5) -> (real)\n regs 4 real, 1 int, t5, t5, t0\n{
            field r0, p0, 0\n field r1, p1, 0\n field r2, p0, 3\n ifield i0, p1, 1\n pfield p2, p0, 2
            elem r3, p2, i0\n fma r0, r0, r1, r2\n mul r0, r0, r3\n field r1, p0, 0\n add r0, r0, r1\n ret (r0)\n}
        func \"cons\" (t2, real) -> (t2)\n regs 1 real, t2\n{
            sin r0, r0\n variant_new p0, 1 (r0, p0)\n ret (p0)\n}
        func \"sum\" (t2) -> (real)\n regs 2 real, 1 int, t2\n{
            const r0, 0.0
        next:\n variant_tag i0, p0\n branch i0, cell, end
        cell:\n payload r1, p0, 1, 0\n fma r0, r1, r1, r0\n ppayload p0, p0, 1, 1\n jump next
        end:\n ret (r0)\n}
        func \"f\" (real, real, t0) -> (real)\n regs 5 real, 2 int, t0, t5, t5, t2, t2, t2\n{
            iconst i0, 1\n iconst i1, 2\n fork 2
            task \"make\" (r0, i0, p0) -> (p1)\n task \"make\" (r1, i1, p0) -> (p2)
            variant_new p3, 0 ()\n variant_new p3, 1 (r0, p3)\n fork 4
            task \"use\" (p1, p2) -> (r2)\n task \"use\" (p2, p1) -> (r3)
            task \"cons\" (p3, r0) -> (p5)\n task \"cons\" (p3, r1) -> (p4)
            variant_new p3, 1 (r2, p5)\n fork 2
            task \"sum\" (p3) -> (r0)\n task \"sum\" (p4) -> (r1)
            field r4, p1, 0\n mul r3, r3, r4\n add r0, r0, r1\n add r0, r0, r3\n ret (r0)\n}",
        &[Value::Real(0.8), Value::Real(-1.1), reals(4)],
    );
}

#[test]
fn captures_of_other_tasks_are_imported_by_calls_and_tail_calls() {
    check(
        "func \"body\" (real, real, real) -> (real)\n regs 3 real\n{
            fma r0, r0, r2, r1\n sin r0, r0\n ret (r0)\n}
        func \"make\" (real, real) -> (t3)\n regs 2 real, t3\n{
            mul r1, r1, r0\n closure_new p0, \"body\" (r0, r1)\n ret (p0)\n}
        func \"call\" (t3, real) -> (real)\n regs 2 real, t3\n{
            call_closure p0 (r0) -> (r1)\n call_closure p0 (r1) -> (r1)\n mul r0, r0, r1\n ret (r0)\n}
        func \"tail\" (t3, real) -> (real)\n regs 1 real, t3\n{
            tail_call_closure p0 (r0)\n}
        func \"f\" (real, real) -> (real)\n regs 5 real, t3, t3\n{
            fork 2\n task \"make\" (r0, r1) -> (p0)\n task \"make\" (r1, r1) -> (p1)
            fork 3\n task \"call\" (p0, r0) -> (r2)\n task \"tail\" (p0, r1) -> (r3)\n task \"tail\" (p1, r0) -> (r4)
            call_closure p1 (r2) -> (r1)\n add r0, r1, r3\n mul r0, r0, r4\n ret (r0)\n}",
        &[Value::Real(0.8), Value::Real(-1.1)],
    );
}

/// Sums of squares of elements: from one number to another one, and those that a table names.
const LOOPS: &str = "
func \"squares\" (t0, int, int) -> (real)\n regs 2 real, 4 int, t0\n{
    const r0, 0.0\n iconst i2, 1\n ilt i3, i0, i1\n branch i3, next, end
next:\n elem r1, p0, i0\n fma r0, r1, r1, r0\n iadd i0, i0, i2\n ilt i3, i0, i1\n branch i3, next, end
end:\n ret (r0)\n}
func \"table\" (t0, t4, int) -> (real)\n regs 2 real, 5 int, t0, t4\n{
    const r0, 1.0\n iconst i1, 0\n iconst i2, 1\n ilt i3, i1, i0\n branch i3, next, end
next:\n ielem i4, p1, i1\n elem r1, p0, i4\n fma r0, r1, r1, r0\n iadd i1, i1, i2\n ilt i3, i1, i0
    branch i3, next, end
end:\n ret (r0)\n}
";

#[test]
fn recorded_loops_import_what_they_read() {
    // All of an array; a part at its end, whose numbers are larger than the slots that it gets; a few elements.
    let stats = check(
        &format!(
            "{LOOPS}
            func \"f\" (t0, t4) -> (real)\n regs 5 real, 6 int, t0, t4\n{{
                iconst i0, 0\n len i1, p0\n iconst i2, 950\n iconst i3, 20\n iconst i4, 960\n fork 4
                task \"squares\" (p0, i0, i1) -> (r0)\n task \"squares\" (p0, i2, i1) -> (r1)
                task \"table\" (p0, p1, i3) -> (r2)\n task \"squares\" (p0, i4, i4) -> (r3)
                call \"squares\" (p0, i2, i4) -> (r4)
                mul r0, r0, r1\n fma r0, r0, r2, r3\n mul r0, r0, r4\n ret (r0)\n}}"
        ),
        &[reals(1000), Value::Array((0..20).map(|n| Value::Int(n * n % 17 * 50)).collect())],
    );
    assert_eq!(stats.imports, 3);
}

#[test]
fn loops_read_arrays_of_tasks_that_have_ended() {
    check(
        &format!(
            "{LOOPS}
            func \"make\" (real, int) -> (t0)\n regs 2 real, 4 int, t0, t1\n{{
                build p1, i0\n iconst i1, 0\n iconst i2, 1\n ilt i3, i1, i0\n branch i3, next, end
            next:\n to_real r1, i1\n fma r0, r0, r1, r0\n sin r0, r0\n push p1, r0\n iadd i1, i1, i2
                ilt i3, i1, i0\n branch i3, next, end
            end:\n finish p0, p1\n ret (p0)\n}}
            func \"f\" (real, real) -> (real)\n regs 4 real, 3 int, t0, t0\n{{
                iconst i0, 100\n iconst i1, 90\n iconst i2, 0\n fork 2
                task \"make\" (r0, i0) -> (p0)\n task \"make\" (r1, i0) -> (p1)
                call \"squares\" (p0, i2, i0) -> (r0)
                fork 2\n task \"squares\" (p1, i1, i0) -> (r1)\n task \"squares\" (p0, i1, i0) -> (r2)
                call \"squares\" (p1, i1, i0) -> (r3)
                mul r0, r0, r1\n mul r2, r2, r3\n add r0, r0, r2\n ret (r0)\n}}"
        ),
        &[Value::Real(0.8), Value::Real(-1.1)],
    );
}

#[test]
fn parallel_maps_read_a_shared_array_and_are_read_by_others() {
    check(
        &format!(
            "{LOOPS}
            func \"range\" (int, int, t0, real) -> (t0)\n regs 2 real, 4 int, t0, t1\n{{
                isub i2, i1, i0\n build p1, i2\n iconst i2, 1\n ilt i3, i0, i1\n branch i3, next, end
            next:\n elem r1, p0, i0\n mul r1, r1, r0\n sin r1, r1\n push p1, r1\n iadd i0, i0, i2
                ilt i3, i0, i1\n branch i3, next, end
            end:\n finish p0, p1\n ret (p0)\n}}
            func \"map\" (t0, real) -> (t0)\n regs 1 real, 1 int, t0\n{{
                len i0, p0\n pmap p0, \"range\", i0 (p0, r0)\n ret (p0)\n}}
            func \"f\" (t0, real) -> (real)\n regs 4 real, 3 int, t0, t0, t0\n{{
                len i0, p0\n iconst i1, 0\n fork 2
                task \"map\" (p0, r0) -> (p1)\n task \"squares\" (p0, i1, i0) -> (r1)
                pmap p2, \"range\", i0 (p1, r1)\n fork 2
                task \"squares\" (p1, i1, i0) -> (r2)\n task \"squares\" (p2, i1, i0) -> (r3)
                iconst i2, 300\n elem r0, p2, i2\n fma r0, r2, r3, r0\n ret (r0)\n}}"
        ),
        &[reals(1000), Value::Real(0.8)],
    );
}

#[test]
fn builders_of_objects_belong_to_the_task_that_pushes() {
    check(
        "func \"make\" (real, t0) -> (t5)\n regs 1 real, 1 int, t0, t5\n{
            sin r0, r0\n iconst i0, 3\n struct_new p1 (r0, i0, p0, r0)\n ret (p1)\n}
        func \"collect\" (t5, t5, t5) -> (t6)\n regs 1 int, t5, t5, t5, t7, t6\n{
            iconst i0, 3\n build p3, i0\n ppush p3, p0\n ppush p3, p1\n ppush p3, p2\n finish p4, p3\n ret (p4)\n}
        func \"sum\" (t6) -> (real)\n regs 3 real, 4 int, t6, t5\n{
            const r0, 0.0\n len i0, p0\n iconst i1, 0\n iconst i2, 1
        next:\n pelem p1, p0, i1\n field r1, p1, 0\n field r2, p1, 3\n fma r0, r1, r2, r0\n iadd i1, i1, i2
            ilt i3, i1, i0\n branch i3, next, end
        end:\n ret (r0)\n}
        func \"f\" (real, real, t0) -> (real)\n regs 4 real, 1 int, t0, t5, t5, t5, t6, t6\n{
            const r2, 4.0\n fork 3
            task \"make\" (r0, p0) -> (p1)\n task \"make\" (r1, p0) -> (p2)\n task \"make\" (r2, p0) -> (p3)
            fork 2\n task \"collect\" (p1, p2, p3) -> (p4)\n task \"collect\" (p3, p3, p3) -> (p5)
            fork 2\n task \"sum\" (p4) -> (r2)\n task \"sum\" (p5) -> (r3)
            call \"sum\" (p4) -> (r0)\n fma r0, r0, r2, r3\n ret (r0)\n}",
        &[Value::Real(0.8), Value::Real(-1.1), reals(4)],
    );
}

#[test]
fn a_constant_that_a_task_steps_may_be_a_result() {
    // The counter's step is an integer register that only forks write besides.
    check(
        "func \"two\" () -> (int)\n regs 1 int\n{\n iconst i0, 2\n ret (i0)\n}
        func \"f\" (t0, real) -> (real)\n regs 2 real, 5 int, t0\n{
            iconst i2, 1\n fork 2\n task \"two\" () -> (i2)\n task \"two\" () -> (i4)
            iconst i1, 0\n len i0, p0\n const r0, 1.0\n ilt i3, i1, i0\n branch i3, next, end
        next:\n elem r1, p0, i1\n fma r0, r1, r0, r1\n iadd i1, i1, i2\n ilt i3, i1, i0\n branch i3, next, end
        end:\n ret (r0)\n}",
        &[reals(50), Value::Real(0.8)],
    );
}

/// A fork of so many tasks that take 60 reals each.
fn wide(tasks: usize) -> String {
    let names: Vec<String> = (0..60).map(|n| format!("r{}", n % 3)).collect();
    let task = format!(" task \"wide\" ({}) -> ", names.join(", "));
    let group: String = (0..tasks).map(|n| format!("{task} (r{})\n", 3 + n)).collect();
    let last = 2 + tasks;
    format!(
        "func \"wide\" ({}) -> (real)\n regs 60 real\n{{\n mul r0, r0, r59\n add r0, r0, r1\n sin r0, r0\n ret (r0)\n}}
        func \"f\" (real, real) -> (real)\n regs 259 real\n{{\n mul r2, r0, r1\n fork {tasks}\n{group}
         add r0, r3, r{last}\n mul r1, r1, r{last}\n add r0, r0, r1\n ret (r0)\n}}",
        vec!["real"; 60].join(", "),
    )
}

#[test]
fn what_hands_over_too_many_registers_stays_interpreted() {
    let args = [Value::Real(0.8), Value::Real(-1.1)];
    for (tasks, compiled) in [(8, true), (256, false)] {
        let code = wide(tasks);
        check(&code, &args);
        let mut config = Config::default();
        (config.jit, config.generator) = (Jit::Always, Some(Arc::new(Cranelift) as _));
        let mut def = assemble(&format!("{TYPES}{code}"));
        export_all(&mut def);
        let module = load_into(&Engine::new(config), def);
        let f = module.function("f").expect("`f` is exported");
        let limits = Limits { compile_time: Duration::from_millis(500), ..Limits::default() };
        let options = CallOptions::with_limits(limits);
        f.value_and_grad_with(&args, &options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(module.compiled().iter().any(|code| code.name == "f"), compiled, "{tasks} tasks");
    }
}
