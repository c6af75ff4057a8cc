//! Every limit: the right error with a backtrace, exact where it can be, and an engine that works afterwards.

mod support;

use dualvm_vm::engine::{CallOptions, CancelHandle, Engine, Function, Limits, RunError};
use dualvm_vm::native::Mode;
use dualvm_vm::trap::{Limit, TrapKind};
use dualvm_vm::value::Value;
use std::time::{Duration, Instant};
use support::{assemble, assert_limit, export_all, load_into, trap};

/// `x` through `n` sines in a loop; `n` levels of recursion; a list of `n` cells, summed; a loop without end.
const PROGRAMS: &str = r#"
type t0 = struct { real }
type t1 = variant { Nil {}, Cons { real, t1 } }
type t2 = array real
type t3 = builder real
type t4 = array int
type t5 = builder int

func f0 "sines" (real, int) -> (real)
  regs 1 real, 4 int
{
  iconst i1, 0
  iconst i2, 1
loop:
  ilt i3, i1, i0
  branch i3, body, done
body:
  sin r0, r0
  iadd i1, i1, i2
  jump loop
done:
  ret (r0)
}

func f1 "deep" (real, int) -> (real)
  regs 2 real, 3 int
{
  branch i0, more, done
more:
  iconst i1, 1
  isub i2, i0, i1
  call f1 (r0, i2) -> (r1)
  add r0, r0, r1
  ret (r0)
done:
  ret (r0)
}

func f2 "boxes" (real, int) -> (real)
  regs 1 real, 4 int, t0
{
  iconst i1, 0
  iconst i2, 1
loop:
  ilt i3, i1, i0
  branch i3, body, done
body:
  struct_new p0 (r0)
  field r0, p0, 0
  iadd i1, i1, i2
  jump loop
done:
  ret (r0)
}

func f3 "list" (real, int) -> (real)
  regs 3 real, 4 int, t1
{
  variant_new p0, 0 ()
  iconst i1, 0
  iconst i2, 1
grow:
  ilt i3, i1, i0
  branch i3, cons, grown
cons:
  variant_new p0, 1 (r0, p0)
  iadd i1, i1, i2
  jump grow
grown:
  const r1, 0.0
walk:
  variant_tag i3, p0
  branch i3, cell, done
cell:
  payload r2, p0, 1, 0
  add r1, r1, r2
  ppayload p0, p0, 1, 1
  jump walk
done:
  ret (r1)
}

func f4 "forever" (real) -> (real)
  regs 1 real
{
loop:
  neg r0, r0
  jump loop
}

func f5 "room" (int) -> (int)
  regs 1 int, t3
{
  build p0, i0
  iconst i0, 1
  ret (i0)
}

func f6 "room_for_integers" (int) -> (int)
  regs 1 int, t5
{
  build p0, i0
  iconst i0, 1
  ret (i0)
}

func f7 "rooms" (int, int) -> (int)
  regs 5 int, t3
{
  iconst i2, 0
  iconst i3, 1
loop:
  ilt i4, i2, i1
  branch i4, body, done
body:
  build p0, i0
  iadd i2, i2, i3
  jump loop
done:
  ret (i2)
}

func f8 "element" (t2, int) -> (real)
  regs 1 real, 1 int, t2
{
  elem r0, p0, i0
  ret (r0)
}

func f9 "grow_in_steps" (real, int) -> (real)
  regs 2 real, 2 int
{
  call f1 (r0, i0) -> (r0)
  call f3 (r0, i0) -> (r1)
  add r0, r0, r1
  ret (r0)
}
"#;

struct Programs(dualvm_vm::engine::Module);

impl Programs {
    fn new() -> Self {
        Self::on(&Engine::default())
    }
    fn on(engine: &Engine) -> Self {
        let mut def = assemble(PROGRAMS);
        export_all(&mut def);
        Programs(load_into(engine, def))
    }
    fn get(&self, name: &str) -> Function {
        self.0.function(name).unwrap_or_else(|| panic!("no function {name}"))
    }
}

fn args(x: f64, n: i64) -> [Value; 2] {
    [Value::Real(x), Value::Int(n)]
}

fn with(limits: Limits) -> CallOptions {
    CallOptions::with_limits(limits)
}

fn fuel(fuel: u64) -> CallOptions {
    with(Limits { fuel, ..Limits::default() })
}

#[test]
fn fuel_is_exact_and_the_same_every_time() {
    let programs = Programs::new();
    for (name, n) in [("sines", 0), ("sines", 7), ("sines", 100_000), ("deep", 300), ("list", 5000), ("boxes", 70_000)]
    {
        let f = programs.get(name);
        let (value, stats) = f.call_with(&args(0.5, n), &CallOptions::default()).unwrap();
        let used = stats.instructions;
        for _ in 0..2 {
            let (again, stats) = f.call_with(&args(0.5, n), &fuel(used)).unwrap();
            assert_eq!((&again, stats.instructions), (&value, used), "{name}");
            let trap = assert_limit(f.call_with(&args(0.5, n), &fuel(used - 1)), Limit::Fuel);
            assert_eq!(trap.innermost.last().or(trap.outermost.last()).unwrap().function, name);
        }
        assert_limit(f.call_with(&args(0.5, n), &fuel(0)), Limit::Fuel);
    }
}

#[test]
fn fuel_pays_for_the_sweep_too() {
    let programs = Programs::new();
    for (name, n) in [("sines", 1), ("sines", 50_000), ("deep", 300), ("list", 5000)] {
        let f = programs.get(name);
        let forward = f.call_with(&args(0.5, n), &CallOptions::default()).unwrap().1.instructions;
        let whole = f.value_and_grad_with(&args(0.5, n), &CallOptions::default()).unwrap();
        let used = whole.stats.instructions;
        assert!(used > forward, "{name}: {used} with the sweep, {forward} without");
        let again = f.value_and_grad_with(&args(0.5, n), &fuel(used)).unwrap();
        assert_eq!((&again.value, &again.gradient), (&whole.value, &whole.gradient));
        assert_limit(f.value_and_grad_with(&args(0.5, n), &fuel(used - 1)), Limit::Fuel);
        assert_limit(f.value_and_grad_with(&args(0.5, n), &fuel(forward)), Limit::Fuel);
        let trap = assert_limit(f.value_and_grad_with(&args(0.5, n), &fuel(forward - 1)), Limit::Fuel);
        assert!(!trap.innermost.is_empty());
    }
}

#[test]
fn the_largest_limits_are_no_limits() {
    let f = Programs::new().get("sines");
    let limits = Limits {
        fuel: u64::MAX,
        deadline: Some(Duration::MAX),
        allocated_bytes: u64::MAX,
        live_bytes: u64::MAX,
        tape_bytes: u64::MAX,
        depth: usize::MAX,
        compile_time: Duration::MAX,
        code_bytes: u64::MAX,
    };
    assert_eq!(
        f.value_and_grad_with(&args(0.5, 100_000), &with(limits)).unwrap().gradient,
        f.value_and_grad(&args(0.5, 100_000)).unwrap().1
    );
    let all = Limits { fuel: u64::MAX, live_bytes: u64::MAX, allocated_bytes: u64::MAX, ..Limits::default() };
    Programs::new().get("list").value_and_grad_with(&args(0.5, 100_000), &with(all)).unwrap();
}

#[test]
fn a_deadline_ends_a_loop_without_end() {
    let f = Programs::new().get("forever");
    for recording in [false, true] {
        let options = with(Limits { deadline: Some(Duration::from_millis(30)), ..Limits::default() });
        let began = Instant::now();
        let trap = if recording {
            assert_limit(f.value_and_grad_with(&[Value::Real(1.0)], &options), Limit::Deadline)
        } else {
            assert_limit(f.call_with(&[Value::Real(1.0)], &options), Limit::Deadline)
        };
        let took = began.elapsed();
        // A run ends so much before its deadline as giving its memory back takes.
        assert!((Duration::from_millis(29)..Duration::from_secs(5)).contains(&took), "{took:?}");
        assert_eq!(trap.innermost[0].function, "forever");
    }
    let none = with(Limits { deadline: Some(Duration::ZERO), ..Limits::default() });
    assert_limit(f.call_with(&[Value::Real(1.0)], &none), Limit::Deadline);
}

#[test]
fn another_thread_cancels_a_run() {
    let programs = Programs::new();
    let f = programs.get("forever");
    for recording in [false, true] {
        let handle = CancelHandle::new();
        let options = CallOptions::default().cancelled_by(&handle);
        let canceller = std::thread::spawn({
            let handle = handle.clone();
            move || {
                std::thread::sleep(Duration::from_millis(20));
                handle.cancel();
            }
        });
        let outcome = if recording {
            f.value_and_grad_with(&[Value::Real(1.0)], &options).map(|_| ())
        } else {
            f.call_with(&[Value::Real(1.0)], &options).map(|_| ())
        };
        let trap = trap(outcome);
        assert_eq!(trap.kind, TrapKind::Cancelled);
        assert_eq!(trap.innermost[0].function, "forever");
        canceller.join().unwrap();
        // A cancelled handle stops later runs at once; others are not concerned.
        let sines = programs.get("sines");
        assert_eq!(support::trap(sines.call_with(&args(0.5, 3), &options)).kind, TrapKind::Cancelled);
        sines.value_and_grad(&args(0.5, 3)).unwrap();
    }
}

#[test]
fn allocated_bytes_are_counted_exactly() {
    let programs = Programs::new();
    for (name, n) in [("boxes", 1), ("boxes", 300_000), ("list", 1000)] {
        let f = programs.get(name);
        let used = f.call_with(&args(0.5, n), &CallOptions::default()).unwrap().1.allocated_bytes;
        let limited = |allocated_bytes| with(Limits { allocated_bytes, ..Limits::default() });
        f.call_with(&args(0.5, n), &limited(used)).unwrap();
        f.value_and_grad_with(&args(0.5, n), &limited(used)).unwrap();
        assert_limit(f.call_with(&args(0.5, n), &limited(used - 1)), Limit::AllocatedBytes);
        let trap = assert_limit(f.value_and_grad_with(&args(0.5, n), &limited(used - 1)), Limit::AllocatedBytes);
        assert_eq!(trap.innermost[0].function, name);
    }
}

#[test]
fn live_bytes_bound_what_is_held_and_not_what_passes() {
    let programs = Programs::new();
    let small = with(Limits { live_bytes: 1 << 20, ..Limits::default() });
    // 100 MB of garbage pass through 1 MiB; a list of 100 MB doesn't.
    programs.get("boxes").call_with(&args(0.5, 3_000_000), &small).unwrap();
    let list = programs.get("list");
    for _ in 0..2 {
        let trap = assert_limit(list.call_with(&args(0.5, 3_000_000), &small), Limit::LiveBytes);
        assert_eq!(trap.innermost[0].function, "list");
        assert_limit(list.value_and_grad_with(&args(0.5, 3_000_000), &small), Limit::LiveBytes);
        assert_limit(programs.get("deep").call_with(&args(0.5, 1_000_000), &small), Limit::LiveBytes);
        assert_eq!(list.call_with(&args(0.5, 1000), &small).unwrap().0, Value::Real(500.0));
    }
}

#[test]
fn tape_bytes_bound_records_and_adjoints() {
    let programs = Programs::new();
    let small = with(Limits { tape_bytes: 1 << 20, ..Limits::default() });
    for name in ["sines", "deep"] {
        let f = programs.get(name);
        let trap = assert_limit(f.value_and_grad_with(&args(0.5, 500_000), &small), Limit::TapeBytes);
        assert_eq!(trap.innermost[0].function, name);
        f.call_with(&args(0.5, 500_000), &small).unwrap();
        let expected = f.value_and_grad(&args(0.5, 1000)).unwrap();
        let found = f.value_and_grad_with(&args(0.5, 1000), &small).unwrap();
        assert_eq!((found.value, found.gradient), expected);
    }
    // Arguments alone can be too much.
    let element = programs.get("element");
    let many = [Value::Reals(vec![1.0; 1 << 20]), Value::Int(3)];
    assert_limit(element.value_and_grad_with(&many, &small), Limit::TapeBytes);
    element.call_with(&many, &small).unwrap();
    element.value_and_grad(&many).unwrap();
}

#[test]
fn depth_counts_frames_exactly() {
    let f = Programs::new().get("deep");
    let depth = |depth| with(Limits { depth, ..Limits::default() });
    // The function itself has a frame.
    assert_limit(f.call_with(&args(1.0, 0), &depth(0)), Limit::Depth);
    assert_limit(f.value_and_grad_with(&args(1.0, 0), &depth(0)), Limit::Depth);
    for n in [0, 1, 2, 11, 12, 13, 23, 24, 25, 1000] {
        let frames = n as usize + 1;
        f.call_with(&args(1.0, n), &depth(frames)).unwrap();
        f.value_and_grad_with(&args(1.0, n), &depth(frames)).unwrap();
        if n > 0 {
            let trap = assert_limit(f.call_with(&args(1.0, n), &depth(frames - 1)), Limit::Depth);
            assert_eq!(trap.innermost.len() + trap.omitted + trap.outermost.len(), frames - 1, "{trap}");
            assert!(trap.innermost.iter().chain(&trap.outermost).all(|frame| frame.function == "deep"));
            let recording = assert_limit(f.value_and_grad_with(&args(1.0, n), &depth(frames - 1)), Limit::Depth);
            assert_eq!(recording.to_string(), trap.to_string());
            assert!(trap.innermost.iter().all(|frame| frame.mode == Mode::PRIMAL));
            assert!(recording.innermost.iter().all(|frame| frame.mode == Mode::RECORDING));
        }
    }
}

#[test]
fn limits_and_statistics_do_not_depend_on_what_ran_before() {
    let limits = || with(Limits { live_bytes: 3 << 20, ..Limits::default() });
    let small = args(0.5, 10_000);
    for recording in [false, true] {
        let run = |f: &Function, args: &[Value], options: &CallOptions| {
            if recording {
                f.value_and_grad_with(args, options).map(|result| result.stats)
            } else {
                f.call_with(args, options).map(|(_, stats)| stats)
            }
        };
        let fresh = run(&Programs::new().get("grow_in_steps"), &small, &limits()).unwrap();
        let programs = Programs::new();
        run(&programs.get("deep"), &args(0.5, 900_000), &CallOptions::default()).unwrap();
        run(&programs.get("list"), &args(0.5, 900_000), &CallOptions::default()).unwrap();
        let later = run(&programs.get("grow_in_steps"), &small, &limits()).unwrap();
        assert_eq!(fresh.heap_peak_bytes, later.heap_peak_bytes);
        assert_eq!(fresh.tape_bytes, later.tape_bytes);
        assert_eq!(fresh.instructions, later.instructions);
        assert_eq!(fresh.allocated_bytes, later.allocated_bytes);
    }
}

#[test]
fn hostile_capacities_are_refused() {
    let programs = Programs::new();
    for name in ["room", "room_for_integers"] {
        let f = programs.get(name);
        for n in [-1, i64::MIN, i64::MAX, i64::MAX / 2, i64::MAX / 8, 1 << 61, 1 << 60, 1 << 48] {
            let trap = trap(f.call(&[Value::Int(n)]));
            assert_eq!(trap.kind, TrapKind::BadCapacity(n));
            assert_eq!(trap.innermost[0].function, name);
        }
        for n in [1 << 29, 1 << 30, 1 << 40, 1 << 46] {
            assert_limit(f.call(&[Value::Int(n)]), Limit::LiveBytes);
        }
        for n in [0, 1, 1000, 100_000] {
            assert_eq!(f.call(&[Value::Int(n)]).unwrap(), Value::Int(1));
        }
    }
    // With no limit on live memory, the system's refusal is one too.
    let unlimited = with(Limits { live_bytes: u64::MAX, allocated_bytes: u64::MAX, ..Limits::default() });
    assert_limit(programs.get("room").call_with(&[Value::Int(1 << 46)], &unlimited), Limit::LiveBytes);
    // Builders that nobody keeps don't add up: 10,000 of 1 MB in 64 MiB.
    let limits = with(Limits { live_bytes: 64 << 20, ..Limits::default() });
    let many = programs.get("rooms").call_with(&[Value::Int(1 << 17), Value::Int(10_000)], &limits).unwrap();
    assert_eq!(many.0, Value::Int(10_000));
}

#[test]
fn hostile_indices_are_refused() {
    let f = Programs::new().get("element");
    for n in [-1, 3, i64::MAX, i64::MIN, 1 << 32, 1 << 61] {
        let trap = trap(f.value_and_grad(&[Value::Reals(vec![1.0; 3]), Value::Int(n)]));
        assert_eq!(trap.kind, TrapKind::IndexOutOfBounds { index: n, len: 3 });
    }
    let empty = trap(f.call(&[Value::Reals(vec![]), Value::Int(0)]));
    assert_eq!(empty.kind, TrapKind::IndexOutOfBounds { index: 0, len: 0 });
}

#[test]
fn after_every_failure_the_engine_gives_the_right_result() {
    let engine = Engine::default();
    let programs = Programs::on(&engine);
    let expected = programs.get("grow_in_steps").value_and_grad(&args(0.5, 200)).unwrap();
    let limits = [
        Limits { fuel: 5000, ..Limits::default() },
        Limits { deadline: Some(Duration::ZERO), ..Limits::default() },
        Limits { allocated_bytes: 1000, ..Limits::default() },
        Limits { live_bytes: 1000, ..Limits::default() },
        Limits { tape_bytes: 1000, ..Limits::default() },
        Limits { depth: 3, ..Limits::default() },
    ];
    for limits in limits {
        for name in ["sines", "deep", "boxes", "list", "grow_in_steps"] {
            let f = programs.get(name);
            let n = if limits.deadline.is_some() { 1 } else { 20_000 };
            for outcome in [
                f.call_with(&args(0.5, n), &with(limits.clone())).map(|_| ()),
                f.value_and_grad_with(&args(0.5, n), &with(limits.clone())).map(|_| ()),
            ] {
                assert!(matches!(&outcome, Ok(()) | Err(RunError::Trap(_))), "{outcome:?}");
            }
            assert_eq!(programs.get("grow_in_steps").value_and_grad(&args(0.5, 200)).unwrap(), expected);
        }
    }
}

#[test]
fn threads_share_an_engine_without_sharing_limits() {
    let programs = Programs::new();
    let expected = programs.get("list").value_and_grad(&args(0.5, 3000)).unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (list, expected) = (programs.get("list"), &expected);
            scope.spawn(move || {
                for round in 0..20 {
                    if (n + round) % 2 == 0 {
                        assert_limit(list.value_and_grad_with(&args(0.5, 3000), &fuel(1000 + round)), Limit::Fuel);
                    } else {
                        assert_eq!(&list.value_and_grad(&args(0.5, 3000)).unwrap(), expected);
                    }
                }
            });
        }
    });
}

/// `blocks` blocks, each of which reads a register of its own and jumps to the block before it in the code.
fn backwards(blocks: u16) -> dualvm_vm::module::ModuleDef {
    use dualvm_vm::builder::FunctionBuilder;
    use dualvm_vm::isa::{Op, Operand};
    use dualvm_vm::module::{ModuleDef, ValueType};
    let mut out = FunctionBuilder::new("f", &[ValueType::Real], &[ValueType::Real]);
    let (x, sum) = (out.param(0), out.new_real());
    let regs: Vec<_> = (0..blocks).map(|_| out.new_real()).collect();
    for &reg in &regs {
        out.emit(Op::Mov, &[Operand::Def(reg.into()), Operand::Use(x)]);
    }
    out.mov(sum, dualvm_vm::isa::Reg::real(0));
    let labels: Vec<_> = regs.iter().map(|_| out.new_label()).collect();
    out.jump(*labels.last().unwrap());
    for (n, &reg) in regs.iter().enumerate() {
        out.bind(labels[n]);
        out.emit_regs(Op::Add, &[sum.into(), sum.into(), reg.into()]);
        if n == 0 {
            out.ret(&[sum.into()]);
        } else {
            out.jump(labels[n - 1]);
        }
    }
    let mut def = ModuleDef { functions: vec![out.finish().unwrap()], ..ModuleDef::default() };
    export_all(&mut def);
    def
}

#[test]
fn code_against_the_grain_is_prepared_in_good_time() {
    let f = load_into(&Engine::default(), backwards(16_000)).function("f").unwrap();
    let began = Instant::now();
    assert_eq!(f.value_and_grad(&[Value::Real(0.5)]).unwrap(), (8000.5, vec![Value::Real(16_001.0)]));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn many_blocks_of_many_registers_are_prepared_in_little_memory() {
    // 2¹⁸ blocks and 2¹⁵ registers: a bit for each pair takes a gigabyte.
    let jumps: String = (0..1 << 18).map(|n| format!(" jump b{n}\nb{n}:\n")).collect();
    let source = format!(
        "func f0 \"f\" (real) -> (real)\n regs 32768 real\n{{\n mov r32767, r0\n{jumps} mul r0, r0, r32767
         ret (r0)\n}}"
    );
    let mut def = assemble(&source);
    export_all(&mut def);
    let f = load_into(&Engine::default(), def).function("f").unwrap();
    let began = Instant::now();
    assert_eq!(f.value_and_grad(&[Value::Real(3.0)]).unwrap(), (9.0, vec![Value::Real(6.0)]));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|text| text.trim().strip_suffix(" kB"));
    if let Some(peak) = peak {
        let peak: u64 = peak.trim().parse().unwrap();
        assert!(peak < 900_000, "{peak} kB were in use at one time");
    }
}
