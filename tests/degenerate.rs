//! Programs at the edges: nothing to differentiate, the same thing twice, far too much of everything.

mod support;

use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder, RealReg};
use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role};
use dualvm_vm::module::{HostType, Interface, ModuleDef, TypeDef, ValueType};
use dualvm_vm::value::Value;
use dualvm_vm::verify::limits::REGISTERS_MAX;
use support::reference::{partials, real_value, strong};
use support::{assert_all_close, assert_close, flatten, function, load, same, scalar_function, value_and_grad};

fn reals(xs: &[f64]) -> Value {
    Value::Reals(xs.to_vec())
}

/// A function on one array of reals.
fn on_array(body: &str) -> dualvm_vm::engine::Function {
    function(&format!("type t0 = array real\ntype t1 = builder real\ntype t2 = array t0\n{body}"), "f")
}

// Nothing to differentiate.

#[test]
fn a_constant_has_no_gradient_to_speak_of() {
    let def = scalar_function(0, |f| {
        let x = f.real_const(7.5);
        f.ret(&[x.into()]);
    });
    assert_eq!(value_and_grad(&def, &[]), (7.5, vec![]));
}

#[test]
fn arithmetic_on_constants_writes_no_record() {
    let def = scalar_function(1, |f| {
        let (a, b) = (f.real_const(2.0), f.real_const(3.0));
        let product = f.mul(a, b);
        let sine = f.sin(product);
        f.ret(&[sine.into()]);
    });
    let result = load(def).function("main").unwrap().grad_with(&[Value::Real(1.0)], &Default::default()).unwrap();
    assert_eq!(result.gradient, [Value::Real(0.0)]);
    assert_eq!(result.stats.records, 0);
}

#[test]
fn unused_inputs_have_derivative_zero() {
    let def = scalar_function(3, |f| {
        let y = f.real_param(1);
        let square = f.mul(y, y);
        f.ret(&[square.into()]);
    });
    assert_eq!(value_and_grad(&def, &[f64::NAN, 3.0, f64::INFINITY]), (9.0, vec![0.0, 6.0, 0.0]));
}

#[test]
fn a_result_that_is_an_input_has_derivative_one() {
    for n in 0..3 {
        let def = scalar_function(3, |f| f.ret(&[f.param(n)]));
        let mut expected = vec![0.0; 3];
        expected[n] = 1.0;
        assert_eq!(value_and_grad(&def, &[1.0, 2.0, 3.0]).1, expected);
        let copied = scalar_function(3, |f| {
            let to = f.new_real();
            let x = f.real_param(n);
            f.mov(to, x);
            f.ret(&[to.into()]);
        });
        assert_eq!(value_and_grad(&copied, &[1.0, 2.0, 3.0]).1, expected);
    }
}

#[test]
fn a_result_that_is_a_constant_beside_active_work_has_derivative_zero() {
    let def = scalar_function(1, |f| {
        let x = f.real_param(0);
        f.exp(x);
        let five = f.real_const(5.0);
        f.ret(&[five.into()]);
    });
    assert_eq!(value_and_grad(&def, &[1.0]), (5.0, vec![0.0]));
}

#[test]
fn an_output_with_a_zero_partial_leaves_the_other_outputs_alone() {
    // `x · 0` depends on `x` in name only: it must not shift the slot of `y · y`.
    let def = scalar_function(2, |f| {
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

// The same thing twice.

#[test]
fn a_binary_operation_on_one_variable_adds_both_partials() {
    for &op in Op::ALL.iter().filter(|op| op.is_scalar() && op.info().differentiable) {
        let roles: Vec<Role> = op.info().operands[1..].iter().map(|operand| operand.role).collect();
        let def = scalar_function(1, |f| {
            let x = f.param(0);
            let n: Reg = f.int_const(3).into();
            let dst = f.new_real();
            let args: Vec<Reg> = roles.iter().map(|role| if *role == Role::Use(Bank::Real) { x } else { n }).collect();
            f.emit_regs(op, &[&[dst.into()], &args[..]].concat());
            f.ret(&[dst.into()]);
        });
        for x in [0.75, 1.5, -0.5, 0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e-300] {
            let value = real_value(op, &[x; 3], &[3]);
            let count = roles.iter().filter(|role| **role == Role::Use(Bank::Real)).count();
            let expected = partials(op, &[x; 3][..], &[3], value);
            let expected: f64 = expected[..count].iter().map(|&partial| strong(partial, 1.0)).sum();
            let (found, gradient) = value_and_grad(&def, &[x]);
            assert!(same(found, value), "{op:?} at {x}: found {found:e}, expected {value:e}");
            assert!(
                support::close(gradient[0], expected, 1e-12),
                "the derivative of {op:?} at {x}: found {:e}, expected {expected:e}",
                gradient[0]
            );
        }
    }
}

#[test]
fn an_array_passed_twice_is_two_arguments() {
    let f = on_array(
        "func f0 \"f\" (t0, t0) -> (real)\n regs 3 real, 1 int, t0, t0\n{\n iconst i0, 1\n elem r0, p0, i0
         elem r1, p1, i0
         mul r2, r0, r1\n ret (r2)\n}",
    );
    let xs = reals(&[2.0, 3.0]);
    let (value, gradient) = f.value_and_grad(&[xs.clone(), xs]).unwrap();
    assert_eq!((value, flatten(&gradient)), (9.0, vec![0.0, 3.0, 0.0, 3.0]));
}

#[test]
fn arrays_of_one_register_repeated_collect_all_adjoints() {
    let f = on_array(
        "func f0 \"g\" (real) -> (t0)\n regs 2 real, t0\n{\n mul r1, r0, r0\n pack p0 (r1, r1, r0, r1)\n ret (p0)\n}
         func f1 \"f\" (real) -> (real)\n regs 6 real, 4 int, t0\n{\n call f0 (r0) -> (p0)\n iconst i0, 0\n iconst i1, 1
         iconst i2, 2\n iconst i3, 3\n elem r1, p0, i0\n elem r2, p0, i1\n elem r3, p0, i2\n elem r4, p0, i3
         mul r1, r1, r2\n mul r1, r1, r3\n mul r1, r1, r4\n ret (r1)\n}",
    );
    // x² · x² · x · x²
    assert_eq!(f.value_and_grad(&[Value::Real(2.0)]).unwrap(), (128.0, vec![Value::Real(448.0)]));
}

/// Packs some registers and reads them back with weights; packs go by builder if `built`.
fn weighted_pack(len: usize, built: bool, pick: impl Fn(usize, &[RealReg], RealReg) -> RealReg) -> ModuleDef {
    let mut module = ModuleBuilder::new();
    let array = module.intern_type(TypeDef::Array(ValueType::Real));
    let builder = module.intern_type(TypeDef::Builder(ValueType::Real));
    let mut f = FunctionBuilder::new("f", &[ValueType::Real; 8], &[ValueType::Real]);
    let inputs: Vec<RealReg> = (0..8).map(|n| f.real_param(n)).collect();
    let constant = f.real_const(0.25);
    let packed = f.new_ref(array);
    let elements: Vec<RealReg> = (0..len).map(|n| pick(n, &inputs, constant)).collect();
    if built {
        let capacity = f.int_const(len as i64 + 3);
        let b = f.new_ref(builder);
        f.emit(Op::Build, &[Operand::Def(b.into()), Operand::Use(capacity.into())]);
        for &element in &elements {
            f.emit(Op::Push, &[Operand::Use(b.into()), Operand::Use(element.into())]);
        }
        f.emit(Op::Finish, &[Operand::Def(packed.into()), Operand::Use(b.into())]);
    } else {
        let list = elements.iter().map(|&reg| reg.into()).collect();
        f.emit(Op::Pack, &[Operand::Def(packed.into()), Operand::Uses(list)]);
    }
    // sum += (n + 1) · packed[n]
    let (sum, element, weight) = (f.real_const(0.0), f.new_real(), f.new_real());
    let (index, one, count, cond) = (f.int_const(0), f.int_const(1), f.new_int(), f.new_int());
    f.emit(Op::Len, &[Operand::Def(count.into()), Operand::Use(packed.into())]);
    let (head, body, exit) = (f.new_label(), f.new_label(), f.new_label());
    f.bind(head);
    f.emit_regs(Op::ILt, &[cond.into(), index.into(), count.into()]);
    f.branch(cond, body, exit);
    f.bind(body);
    f.emit_regs(Op::Elem, &[element.into(), packed.into(), index.into()]);
    f.emit_regs(Op::IAdd, &[index.into(), index.into(), one.into()]);
    f.emit_regs(Op::ToReal, &[weight.into(), index.into()]);
    f.emit_regs(Op::Fma, &[sum.into(), weight.into(), element.into(), sum.into()]);
    f.jump(head);
    f.bind(exit);
    f.ret(&[sum.into()]);
    module.define(f.finish().unwrap());
    let mut def = module.finish();
    support::export_all(&mut def);
    def
}

#[test]
fn packs_hand_adjoints_back_to_what_was_packed() {
    type Pick = fn(usize, &[RealReg], RealReg) -> Option<usize>;
    let picks: [(&str, Pick); 5] = [
        ("contiguous", |n, _, _| Some(n % 8)),
        ("backwards", |n, _, _| Some(7 - n % 8)),
        ("one register", |_, _, _| Some(3)),
        ("constants between", |n, _, _| (n % 3 != 0).then_some(n % 8)),
        ("constants only", |_, _, _| None),
    ];
    for (what, pick) in picks {
        for len in [0, 1, 7, 8, 9, 4095, 4096, 4097, 9000] {
            for built in [false, true] {
                let def = weighted_pack(len, built, |n, inputs, constant| {
                    pick(n, inputs, constant).map_or(constant, |input| inputs[input])
                });
                let xs: Vec<f64> = (0..8).map(|n| f64::from(n) + 0.5).collect();
                let (mut value, mut gradient) = (0.0, vec![0.0; 8]);
                for n in 0..len {
                    let weight = n as f64 + 1.0;
                    match pick(n, &[], RealReg(0)) {
                        Some(input) => {
                            value += weight * xs[input];
                            gradient[input] += weight;
                        }
                        None => value += weight * 0.25,
                    }
                }
                let args: Vec<Value> = xs.iter().map(|&x| Value::Real(x)).collect();
                let f = load(def).function("f").unwrap();
                let (found, found_gradient) = f.value_and_grad(&args).unwrap();
                assert_eq!((found, flatten(&found_gradient)), (value, gradient), "{what}, {len}, built: {built}");
            }
        }
    }
}

#[test]
fn shared_elements_of_nested_arrays_collect_all_adjoints() {
    // [[x, y], [x, y], [y, x]] where the first two are one object; all products of the parts.
    let f = on_array(
        "func f0 \"f\" (real, real) -> (real)\n regs 5 real, 4 int, t0, t0, t2, t0\n{
         pack p0 (r0, r1)\n pack p1 (r1, r0)\n pack p2 (p0, p0, p1)\n const r2, 1.0\n iconst i0, 0\n iconst i3, 1
         loop:\n pelem p3, p2, i0\n iconst i1, 0\n elem r3, p3, i1\n mul r2, r2, r3\n iadd i0, i0, i3\n len i2, p2
         ilt i2, i0, i2\n branch i2, loop, done\n done:\n ret (r2)\n}",
    );
    // x · x · y
    let (value, gradient) = f.value_and_grad(&[Value::Real(3.0), Value::Real(5.0)]).unwrap();
    assert_eq!((value, flatten(&gradient)), (45.0, vec![30.0, 9.0]));
}

#[test]
fn zero_length_arrays_go_in_and_out() {
    let f = on_array("func f0 \"f\" (t0) -> (t0)\n regs 0 real, t0\n{\n ret (p0)\n}");
    assert_eq!(f.call(&[reals(&[])]).unwrap(), reals(&[]));
    let f = on_array(
        "func f0 \"f\" (t0, real) -> (real)\n regs 2 real, 1 int, t0\n{\n len i0, p0\n to_real r1, i0
         add r0, r0, r1\n ret (r0)\n}",
    );
    let (value, gradient) = f.value_and_grad(&[reals(&[]), Value::Real(2.0)]).unwrap();
    assert_eq!((value, gradient), (2.0, vec![reals(&[]), Value::Real(1.0)]));
}

#[test]
fn empty_arrays_among_others_keep_gradients_in_place() {
    let interface = Interface {
        params: vec![(
            "rows".into(),
            HostType::Array {
                element: Box::new(HostType::Array {
                    element: Box::new(HostType::Real),
                    array: dualvm_vm::module::TypeId(0),
                }),
                array: dualvm_vm::module::TypeId(2),
            },
        )],
        result: HostType::Real,
    };
    let mut def = support::assemble(
        "type t0 = array real\ntype t1 = builder real\ntype t2 = array t0
         func f0 \"f\" (t2) -> (real)\n regs 2 real, 3 int, t2, t0\n{
         iconst i0, 2\n pelem p1, p0, i0\n iconst i0, 1\n elem r0, p1, i0\n mul r0, r0, r0\n ret (r0)\n}",
    );
    def.functions[0].interface = Some(interface);
    let rows = Value::Array(vec![reals(&[1.0]), reals(&[]), reals(&[2.0, 3.0, 4.0]), reals(&[])]);
    let (value, gradient) = load(def).function("f").unwrap().value_and_grad(&[rows]).unwrap();
    assert_eq!(value, 9.0);
    let expected = Value::Array(vec![reals(&[0.0]), reals(&[]), reals(&[0.0, 6.0, 0.0]), reals(&[])]);
    assert_eq!(gradient, [expected]);
}

// Overwriting.

#[test]
fn swaps_in_a_loop_exchange_derivatives() {
    let source = "func f0 \"f\" (real, real, int) -> (real)\n regs 4 real, 4 int\n{\n iconst i1, 0\n iconst i2, 1
        loop:\n ilt i3, i1, i0\n branch i3, body, done\n body:\n mov r2, r0\n mov r0, r1\n mov r1, r2
         iadd i1, i1, i2\n jump loop
        done:\n mul r3, r0, r0\n add r3, r3, r1\n ret (r3)\n}";
    let f = function(source, "f");
    for n in 0..5 {
        let (value, gradient) = f.value_and_grad(&[Value::Real(3.0), Value::Real(10.0), Value::Int(n)]).unwrap();
        let expected = if n % 2 == 0 { (19.0, vec![6.0, 1.0]) } else { (103.0, vec![1.0, 20.0]) };
        assert_eq!((value, flatten(&gradient)), expected, "{n} swaps");
    }
}

#[test]
fn a_swap_beside_arithmetic_moves_words_and_not_slots() {
    // One block: products of the old values, then the swap, then products of the new ones.
    let source = "func f0 \"f\" (real, real) -> (real)\n regs 5 real\n{\n mul r2, r0, r0\n mov r3, r0
     mov r0, r1\n mov r1, r3
        mul r4, r0, r1\n mul r4, r4, r0\n jump next\n next:\n add r2, r2, r4\n add r2, r2, r1\n mul r2, r2, r0
         ret (r2)\n}";
    // (x² + x y² + x) y
    let (x, y) = (3.0f64, 5.0f64);
    let (value, gradient) = function(source, "f").value_and_grad(&[Value::Real(x), Value::Real(y)]).unwrap();
    assert_eq!(value, (x * x + x * y * y + x) * y);
    assert_eq!(flatten(&gradient), [(2.0 * x + y * y + 1.0) * y, x * x + 3.0 * x * y * y + x]);
}

#[test]
fn a_register_overwritten_at_every_step_is_differentiated_step_by_step() {
    let def = scalar_function(1, |f| {
        let x = f.param(0);
        for op in [Op::Sin, Op::Exp, Op::Log1p, Op::Sqrt, Op::Tanh, Op::Cos] {
            f.emit_regs(op, &[x, x]);
        }
        f.emit_regs(Op::Mul, &[x, x, x]);
        f.ret(&[x]);
    });
    let (_, gradient) = value_and_grad(&def, &[0.7]);
    let main = load(def).function("main").unwrap();
    assert_close(gradient[0], support::finite_difference(&main, &[Value::Real(0.7)], 0, 1e-3), 1e-9);
}

// Far too much.

#[test]
fn more_than_64_inputs_in_a_straight_line() {
    for inputs in [62, 63, 64, 65, 66, 130, 1000] {
        let def = scalar_function(inputs, |f| {
            let mut sum = f.real_const(0.0);
            for n in 0..inputs {
                let x = f.real_param(n);
                let other = f.real_param((n * 7 + 3) % inputs);
                sum = f.fma(x, other, sum);
            }
            f.ret(&[sum.into()]);
        });
        let xs: Vec<f64> = (0..inputs).map(|n| (n as f64 * 0.37).sin()).collect();
        let mut expected = vec![0.0; inputs];
        for n in 0..inputs {
            let other = (n * 7 + 3) % inputs;
            expected[n] += xs[other];
            expected[other] += xs[n];
        }
        assert_all_close(&value_and_grad(&def, &xs).1, &expected, 1e-12);
    }
}

#[test]
fn copies_of_more_than_64_registers_in_a_straight_line() {
    let def = scalar_function(200, |f| {
        let regs: Vec<RealReg> = (0..200).map(|_| f.new_real()).collect();
        let x = f.real_param(0);
        let mut sum = f.mul(x, x);
        for (n, &to) in regs.iter().enumerate() {
            let from = f.real_param(199 - n);
            f.mov(to, from);
        }
        for &reg in &regs {
            sum = f.add(sum, reg);
        }
        f.ret(&[sum.into()]);
    });
    let mut expected = vec![1.0; 200];
    expected[0] = 7.0;
    assert_eq!(value_and_grad(&def, &[3.0; 200]), (9.0 + 600.0, expected));
}

#[test]
fn more_than_256_operations_in_a_straight_line() {
    for operations in [255, 256, 257, 513, 3000] {
        let def = scalar_function(2, |f| {
            let (x, y) = (f.real_param(0), f.real_param(1));
            let mut sum = x;
            for _ in 0..operations {
                sum = f.fma(sum, y, x);
            }
            f.ret(&[sum.into()]);
        });
        let (x, y) = (0.5, 0.75);
        let (mut sum, mut by_x, mut by_y) = (x, 1.0, 0.0);
        for _ in 0..operations {
            (by_x, by_y) = (by_x * y + 1.0, by_y * y + sum);
            sum = f64::mul_add(sum, y, x);
        }
        let (value, gradient) = value_and_grad(&def, &[x, y]);
        assert_eq!(value, sum);
        assert_all_close(&gradient, &[by_x, by_y], 1e-12);
    }
}

#[test]
fn a_function_with_as_many_real_registers_as_there_may_be() {
    // The last registers are overwritten after they were read, so their values must be kept elsewhere.
    let last = REGISTERS_MAX - 1;
    let (a, b, c) = (last, last - 1, last - 2);
    let source = format!(
        "func f0 \"f\" (real, real) -> (real)\n regs {REGISTERS_MAX} real\n{{\n mov r{a}, r1\n mov r{b}, r0
        jump next\n next:\n sin r{c}, r{b}\n mul r{b}, r{b}, r{a}\n exp r{a}, r{a}\n mul r{a}, r{a}, r{b}
        add r{a}, r{a}, r{c}\n add r{a}, r{a}, r0\n ret (r{a})\n}}"
    );
    let (x, y) = (0.5f64, 0.25f64);
    let (value, gradient) = function(&source, "f").value_and_grad(&[Value::Real(x), Value::Real(y)]).unwrap();
    assert_close(value, x * y * y.exp() + x.sin() + x, 1e-14);
    assert_all_close(&flatten(&gradient), &[y * y.exp() + x.cos() + 1.0, x * (1.0 + y) * y.exp()], 1e-14);
}

#[test]
fn a_function_with_as_many_integer_registers_as_there_may_be_calls_itself() {
    let (a, b) = (REGISTERS_MAX - 1, REGISTERS_MAX - 2);
    let source = format!(
        "func f0 \"f\" (real, int) -> (real)\n regs 3 real, {REGISTERS_MAX} int\n{{\n iconst i{a}, 1
        branch i0, more, done\n more:\n isub i{b}, i0, i{a}\n sin r1, r0\n call f0 (r1, i{b}) -> (r2)\n mul r0, r0, r2
        ret (r0)\n done:\n ret (r0)\n}}"
    );
    let f = function(&source, "f");
    let args = [Value::Real(0.5), Value::Int(4)];
    let (_, gradient) = f.value_and_grad(&args).unwrap();
    assert_close(flatten(&gradient)[0], support::finite_difference(&f, &args, 0, 1e-3), 1e-9);
}

#[test]
fn structs_variants_and_closures_of_many_fields() {
    for fields in [1, 85, 127, 128, 200, 255] {
        wide_objects(fields);
    }
}

/// Sends `fields` reals through a struct, a variant and a closure, and multiplies neighbours.
fn wide_objects(fields: usize) {
    let types = vec!["real"; fields].join(", ");
    let regs: Vec<String> = (0..fields).map(|n| format!("r{n}")).collect();
    let list = regs.join(", ");
    let read = |what: &str| {
        let mut code = String::new();
        for n in 0..fields {
            code += &match what {
                "struct" => format!(" field r{n}, p0, {n}\n"),
                _ => format!(" payload r{n}, p1, 0, {n}\n"),
            };
        }
        code
    };
    let mut sum = format!(" mul r{fields}, r0, r0\n");
    for n in 1..fields {
        sum += &format!(" fma r{fields}, r{}, r{n}, r{fields}\n", n - 1);
    }
    let source = format!(
        "type t0 = struct {{ {types} }}\ntype t1 = variant {{ A {{ {types} }} }}\ntype t2 = closure () -> (real)
         func f0 \"inner\" ({types}) -> (real)\n regs {} real\n{{\n{sum} ret (r{fields})\n}}
         func f1 \"f\" ({types}) -> (real)\n regs {} real, t0, t1, t2\n{{\n struct_new p0 ({list})\n{}\
         variant_new p1, 0 ({list})\n{} closure_new p2, f0 ({list})\n call_closure p2 () -> (r0)\n ret (r0)\n}}",
        fields + 1,
        fields + 1,
        read("struct"),
        read("variant"),
    );
    let xs: Vec<f64> = (0..fields).map(|n| n as f64 + 1.0).collect();
    let args: Vec<Value> = xs.iter().map(|&x| Value::Real(x)).collect();
    let (value, gradient) = function(&source, "f").value_and_grad(&args).unwrap();
    let mut expected = vec![0.0; fields];
    expected[0] = 2.0 * xs[0];
    for n in 1..fields {
        expected[n - 1] += xs[n];
        expected[n] += xs[n - 1];
    }
    assert_eq!(value, 1.0 + (1..fields).map(|n| xs[n] * xs[n - 1]).sum::<f64>());
    assert_eq!(flatten(&gradient), expected, "{fields} fields");
}

#[test]
fn objects_of_more_fields_than_headers_count_are_refused() {
    use dualvm_vm::engine::{Engine, Module};
    let too_many = vec!["int"; 256].join(", ");
    let regs: Vec<String> = (0..256).map(|n| format!("i{n}")).collect();
    let regs = regs.join(", ");
    let sources = [
        format!("type t0 = struct {{ {too_many} }}\nfunc f0 \"f\" () -> ()\n regs 0 real\n{{\n ret ()\n}}"),
        format!("type t0 = variant {{ A {{ {too_many} }} }}\nfunc f0 \"f\" () -> ()\n regs 0 real\n{{\n ret ()\n}}"),
        format!(
            "type t0 = closure () -> ()\nfunc f0 \"f\" ({too_many}) -> ()\n regs 256 int, t0\n{{
             closure_new p0, f0 ({regs})\n ret ()\n}}"
        ),
    ];
    for source in sources {
        let def = support::assemble(&source);
        assert!(Module::new(&Engine::default(), def).is_err(), "accepted:\n{source}");
    }
}

#[test]
fn deep_chains_of_doubling() {
    for length in [1, 10, 500, 1000] {
        let def = scalar_function(1, |f| {
            let mut x = f.real_param(0);
            for _ in 0..length {
                x = f.add(x, x);
            }
            f.ret(&[x.into()]);
        });
        assert_eq!(value_and_grad(&def, &[1.5]).1, [2f64.powi(length)]);
    }
}

#[test]
fn outputs_that_are_copies_of_inputs_and_of_each_other() {
    let source = "func f0 \"g\" (real, real) -> (real, real, real, real)\n regs 4 real\n{\n mul r2, r0, r1\n mov r3, r2
        ret (r0, r2, r0, r3)\n}
        func f1 \"f\" (real, real) -> (real)\n regs 6 real\n{\n call f0 (r0, r1) -> (r2, r3, r4, r5)
         mul r2, r2, r3\n mul r2, r2, r4
        mul r2, r2, r5\n ret (r2)\n}";
    // x · xy · x · xy
    let (value, gradient) = function(source, "f").value_and_grad(&[Value::Real(2.0), Value::Real(3.0)]).unwrap();
    assert_eq!((value, flatten(&gradient)), (144.0, vec![288.0, 96.0]));
}

#[test]
fn nan_and_infinite_inputs_pass_through_without_harm() {
    let def = scalar_function(3, |f| {
        let (x, y, z) = (f.real_param(0), f.real_param(1), f.real_param(2));
        let sum = f.add(x, y);
        let product = f.mul(sum, z);
        f.ret(&[product.into()]);
    });
    let (value, gradient) = value_and_grad(&def, &[f64::NAN, 1.0, 2.0]);
    assert!(value.is_nan() && gradient[..2] == [2.0, 2.0] && gradient[2].is_nan());
    let (value, gradient) = value_and_grad(&def, &[f64::INFINITY, 1.0, -2.0]);
    assert_eq!((value, gradient), (f64::NEG_INFINITY, vec![-2.0, -2.0, f64::INFINITY]));
}

#[test]
fn host_values_of_every_shape_have_gradients_of_the_same_shape() {
    // xs : Array { a : Real, n : Int, b : Array Real }, p : (Real, (Bool, Real)): Σ a² n b[last] + p.0 p.1.1
    let mut def = support::assemble(
        "type t0 = array real\ntype t1 = struct { real, int, t0 }\ntype t2 = array t1
func f0 \"f\" (t2, real, int, real) -> (real)
  regs 5 real, 7 int, t2, t1, t0
{
  mul r2, r0, r1
  iconst i1, 0
  iconst i2, 1
  len i3, p0
loop:
  ilt i4, i1, i3
  branch i4, body, done
body:
  pelem p1, p0, i1
  field r3, p1, 0
  ifield i5, p1, 1
  pfield p2, p1, 2
  len i6, p2
  isub i6, i6, i2
  elem r4, p2, i6
  mul r3, r3, r3
  mul r3, r3, r4
  to_real r4, i5
  fma r2, r3, r4, r2
  iadd i1, i1, i2
  jump loop
done:
  ret (r2)
}",
    );
    let numbers = HostType::Array { element: Box::new(HostType::Real), array: dualvm_vm::module::TypeId(0) };
    let record =
        HostType::Record(vec![("a".into(), HostType::Real), ("n".into(), HostType::Int), ("b".into(), numbers)]);
    let pair = HostType::Tuple(vec![HostType::Real, HostType::Tuple(vec![HostType::Bool, HostType::Real])]);
    def.functions[0].interface = Some(Interface {
        params: vec![
            ("xs".into(), HostType::Array { element: Box::new(record), array: dualvm_vm::module::TypeId(2) }),
            ("p".into(), pair),
        ],
        result: HostType::Real,
    });
    let f = load(def).function("f").unwrap();
    let record = |a: Value, n: Value, b: Value| Value::Record(vec![("a".into(), a), ("n".into(), n), ("b".into(), b)]);
    let xs = Value::Array(vec![
        record(Value::Real(2.0), Value::Int(3), reals(&[9.0, 5.0])),
        // Fields in another order, and an integer that stands for a real.
        Value::Record(vec![("n".into(), Value::Int(-1)), ("b".into(), reals(&[4.0])), ("a".into(), Value::Int(7))]),
    ]);
    let p = Value::Tuple(vec![Value::Real(10.0), Value::Tuple(vec![Value::Bool(true), Value::Real(0.5)])]);
    let (value, gradient) = f.value_and_grad(&[xs, p.clone()]).unwrap();
    assert_eq!(value, 4.0 * 3.0 * 5.0 - 49.0 * 4.0 + 5.0);
    assert_eq!(
        gradient,
        [
            Value::Array(vec![
                record(Value::Real(60.0), Value::Null, reals(&[0.0, 12.0])),
                record(Value::Real(-56.0), Value::Null, reals(&[-49.0])),
            ]),
            Value::Tuple(vec![Value::Real(0.5), Value::Tuple(vec![Value::Null, Value::Real(10.0)])]),
        ]
    );
    let none = Value::Array(vec![]);
    assert_eq!(f.value_and_grad(&[none.clone(), p]).unwrap().1[0], none);
    // Wrong shapes say where, and leave the engine as it was.
    let wrong = Value::Array(vec![record(Value::Real(2.0), Value::Int(3), Value::Array(vec![Value::Bool(true)]))]);
    let error = f.value_and_grad(&[wrong, Value::Real(1.0)]).unwrap_err().to_string();
    assert!(error.contains("xs[0].b[0]"), "{error}");
}
