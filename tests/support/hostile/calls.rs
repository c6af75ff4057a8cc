//! Calls and tasks.

use super::{MAIN, add_to, count_down, main_builder, with_main};
use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder, RealReg};
use dualvm_vm::isa::{Op, Reg};
use dualvm_vm::module::ValueType::{self, Int, Real, Ref};
use dualvm_vm::module::{FuncId, ModuleDef, TypeDef};

// Calls.

/// `count` functions of `args` reals, as many integers and `n`, each of which calls the next one with all of them.
pub(crate) fn chain_of_calls(count: usize, args: usize) -> ModuleDef {
    let params: Vec<ValueType> = [Real, Int].into_iter().cycle().take(2 * args).collect();
    let mut module = ModuleBuilder::new();
    let links: Vec<FuncId> = (0..count).map(|at| module.declare(&format!("link{at}"), &params, &[Real])).collect();
    for (at, &link) in links.iter().enumerate() {
        let mut f = FunctionBuilder::new(&format!("link{at}"), &params, &[Real]);
        let args: Vec<Reg> = (0..params.len()).map(|at| f.param(at)).collect();
        let (x, y) = (f.real_param(0), f.real_param(params.len() - 2));
        f.emit_regs(Op::Mul, &[x.into(), x.into(), y.into()]);
        if let Some(&next) = links.get(at + 1) {
            f.call(next, &args, &[y.into()]);
            add_to(&mut f, x, y);
        }
        f.ret(&[x.into()]);
        module.set_function(link, f.finish().expect("the code can be packed"));
    }
    let (mut f, x, n) = main_builder();
    let args: Vec<Reg> = params.iter().map(|ty| if *ty == Real { x.into() } else { n.into() }).collect();
    f.call(links[0], &args, &[x.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// A function of `args` reals that calls itself `n` times, not in tail position, with its arguments moved on by one.
pub(crate) fn recursion(args: usize) -> ModuleDef {
    let params: Vec<ValueType> = std::iter::repeat_n(Real, args).chain([Int]).collect();
    let mut module = ModuleBuilder::new();
    let deep = module.declare("deep", &params, &[Real]);
    let mut f = FunctionBuilder::new("deep", &params, &[Real]);
    let (x, left) = (f.real_param(0), f.int_param(args));
    let (more, done, zero) = (f.new_label(), f.new_label(), f.int_const(0));
    let go_on = f.ilt(zero, left);
    f.branch(go_on, more, done);
    f.bind(more);
    count_down(&mut f, left);
    let mut moved: Vec<Reg> = (0..args).map(|at| f.param((at + 1) % args)).collect();
    moved.push(left.into());
    let below = f.new_real();
    f.call(deep, &moved, &[below.into()]);
    add_to(&mut f, x, below);
    f.bind(done);
    f.ret(&[x.into()]);
    module.set_function(deep, f.finish().expect("the code can be packed"));
    let (mut f, x, n) = main_builder();
    let args: Vec<Reg> = std::iter::repeat_n(x.into(), args).chain([n.into()]).collect();
    f.call(deep, &args, &[x.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `count` functions that call each other in tail position, around and around, `n` times.
pub(crate) fn ring_of_tail_calls(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let links: Vec<FuncId> = (0..count).map(|at| module.declare(&format!("link{at}"), MAIN.0, MAIN.1)).collect();
    for (at, &link) in links.iter().enumerate() {
        let mut f = FunctionBuilder::new(&format!("link{at}"), MAIN.0, MAIN.1);
        let (x, left) = (f.real_param(0), f.int_param(1));
        let (more, done, zero) = (f.new_label(), f.new_label(), f.int_const(0));
        f.emit_regs(Op::Sin, &[x.into(), x.into()]);
        let go_on = f.ilt(zero, left);
        f.branch(go_on, more, done);
        f.bind(more);
        count_down(&mut f, left);
        f.tail_call(links[(at + 1) % count], &[x.into(), left.into()]);
        f.bind(done);
        f.ret(&[x.into()]);
        module.set_function(link, f.finish().expect("the code can be packed"));
    }
    let (mut f, x, n) = main_builder();
    f.tail_call(links[0], &[x.into(), n.into()]);
    with_main(module, f)
}

/// `depth` functions each of which calls the next one twice: 2 to the power of `depth` calls.
pub(crate) fn doubling_calls(depth: usize) -> ModuleDef {
    doubling(depth, |f, next, x| {
        let (a, b) = (f.new_real(), f.new_real());
        f.call(next, &[x.into()], &[a.into()]);
        f.call(next, &[a.into()], &[b.into()]);
        f.add(a, b)
    })
}

/// `depth` functions each of which forks into two tasks of the next one.
pub(crate) fn doubling_forks(depth: usize) -> ModuleDef {
    doubling(depth, |f, next, x| {
        let (a, b) = (f.new_real(), f.new_real());
        f.fork(&[(next, &[x.into()], &[a.into()]), (next, &[x.into()], &[b.into()])]);
        f.add(a, b)
    })
}

/// `depth` functions of a real, each of which calls the next one by `call`; the last one takes the sine.
fn doubling(depth: usize, call: impl Fn(&mut FunctionBuilder, FuncId, RealReg) -> RealReg) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut sine = FunctionBuilder::new("sine", &[Real], &[Real]);
    let y = sine.sin(sine.real_param(0));
    sine.ret(&[y.into()]);
    let mut next = module.define(sine.finish().expect("the code can be packed"));
    for at in 0..depth {
        let mut f = FunctionBuilder::new(&format!("level{at}"), &[Real], &[Real]);
        let x = f.real_param(0);
        let y = call(&mut f, next, x);
        f.ret(&[y.into()]);
        next = module.define(f.finish().expect("the code can be packed"));
    }
    let (mut f, x, _) = main_builder();
    f.call(next, &[x.into()], &[x.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `count` functions of one instruction, which `main` calls one after the other.
pub(crate) fn small_functions(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let (mut main, x, _) = main_builder();
    for at in 0..count {
        let mut f = FunctionBuilder::new(&format!("f{at}"), &[Real], &[Real]);
        let y = if at % 2 == 0 { f.sin(f.real_param(0)) } else { f.cos(f.real_param(0)) };
        f.ret(&[y.into()]);
        let small = module.define(f.finish().expect("the code can be packed"));
        main.call(small, &[x.into()], &[x.into()]);
    }
    main.ret(&[x.into()]);
    with_main(module, main)
}

// Tasks.

/// `n` rounds, one at least, of a fork of `count` tasks, 256 at most, of which the first runs long.
pub(crate) fn wide_fork(count: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut work = FunctionBuilder::new("work", &[Real, Int], &[Real]);
    let (x, left) = (work.real_param(0), work.int_param(1));
    let (zero, one) = (work.int_const(0), work.int_const(1));
    let (head, after) = (work.new_label(), work.new_label());
    work.bind(head);
    work.emit_regs(Op::Sin, &[x.into(), x.into()]);
    work.emit_regs(Op::ISub, &[left.into(), left.into(), one.into()]);
    let more = work.ilt(zero, left);
    work.branch(more, head, after);
    work.bind(after);
    work.ret(&[x.into()]);
    let work = module.define(work.finish().expect("the code can be packed"));

    let (mut f, x, n) = main_builder();
    let (zero, long, short) = (f.int_const(0), f.int_const(200), f.int_const(1));
    let results: Vec<[Reg; 1]> = (0..count.min(256)).map(|_| [f.new_real().into()]).collect();
    let args = [[x.into(), long.into()], [x.into(), short.into()]];
    let (head, after) = (f.new_label(), f.new_label());
    f.bind(head);
    let tasks: Vec<(FuncId, &[Reg], &[Reg])> =
        results.iter().enumerate().map(|(at, result)| (work, &args[at.min(1)][..], &result[..])).collect();
    f.fork(&tasks);
    for result in &results {
        f.emit_regs(Op::Add, &[x.into(), x.into(), result[0]]);
    }
    f.emit_regs(Op::ISub, &[n.into(), n.into(), short.into()]);
    let more = f.ilt(zero, n);
    f.branch(more, head, after);
    f.bind(after);
    f.ret(&[x.into()]);
    with_main(module, f)
}

/// `depth` functions, each of which forks into a short task and one of the next function: as deep as there are
/// functions, and nothing to run side by side.
pub(crate) fn chain_of_forks(depth: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let mut sine = FunctionBuilder::new("sine", &[Real], &[Real]);
    let y = sine.sin(sine.real_param(0));
    sine.ret(&[y.into()]);
    let sine = module.define(sine.finish().expect("the code can be packed"));
    let mut next = sine;
    for at in 0..depth {
        let mut f = FunctionBuilder::new(&format!("level{at}"), &[Real], &[Real]);
        let x = f.real_param(0);
        let (a, b) = (f.new_real(), f.new_real());
        f.fork(&[(sine, &[x.into()], &[a.into()]), (next, &[x.into()], &[b.into()])]);
        let y = f.mul(a, b);
        f.ret(&[y.into()]);
        next = module.define(f.finish().expect("the code can be packed"));
    }
    let (mut f, x, _) = main_builder();
    f.tail_call(next, &[x.into()]);
    with_main(module, f)
}

/// Parallel maps in parallel maps, `depth` deep, each over `n` numbers.
pub(crate) fn nested_maps(depth: usize) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let array = module.intern_type(TypeDef::Array(Real));
    let builder = module.intern_type(TypeDef::Builder(Real));
    let params = [Int, Int, Real, Int];
    let mut inner = None;
    for at in 0..depth {
        let mut f = FunctionBuilder::new(&format!("range{at}"), &params, &[Ref(array)]);
        let (low, high, x, n) = (f.int_param(0), f.int_param(1), f.real_param(2), f.int_param(3));
        let (out, done, one, len) = (f.new_ref(builder), f.new_ref(array), f.int_const(1), f.isub(high, low));
        f.emit_regs(Op::Build, &[out.into(), len.into()]);
        let (head, after) = (f.new_label(), f.new_label());
        f.bind(head);
        let y = f.to_real(low);
        f.emit_regs(Op::Mul, &[y.into(), y.into(), x.into()]);
        if let Some(inner) = inner {
            f.pmap(done, inner, n, &[y.into(), n.into()]);
            let zero = f.int_const(0);
            f.emit_regs(Op::Elem, &[y.into(), done.into(), zero.into()]);
        }
        f.emit_regs(Op::Push, &[out.into(), y.into()]);
        f.emit_regs(Op::IAdd, &[low.into(), low.into(), one.into()]);
        let more = f.ilt(low, high);
        f.branch(more, head, after);
        f.bind(after);
        f.emit_regs(Op::Finish, &[done.into(), out.into()]);
        f.ret(&[done.into()]);
        inner = Some(module.define(f.finish().expect("the code can be packed")));
    }
    let (mut f, x, n) = main_builder();
    let one = f.int_const(1);
    f.emit_regs(Op::IMax, &[n.into(), n.into(), one.into()]);
    let elements = f.new_ref(array);
    f.pmap(elements, inner.expect("there is a function"), n, &[x.into(), n.into()]);
    let last = f.isub(n, one);
    f.emit_regs(Op::Elem, &[x.into(), elements.into(), last.into()]);
    f.ret(&[x.into()]);
    with_main(module, f)
}
