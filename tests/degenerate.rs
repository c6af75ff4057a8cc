//! Programs at the edges that are made here, of every instruction or of many sizes: the same thing twice, and far too
//! much of everything. Those of one size are in `tests/filetests/edges`.

mod support;

use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder, RealReg};
use dualvm_vm::isa::{Bank, Op, Operand, Reg, Role};
use dualvm_vm::module::{ModuleDef, TypeDef, ValueType};
use dualvm_vm::value::Value;
use support::reference::{partials, real_value, strong};
use support::{assert_all_close, flatten, function, load, same, scalar_function, value_and_grad};

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
            let expected = partials(op, &[x; 3], &[3], &value);
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

/// How they are taken and given is in the file.
#[test]
fn host_values_of_wrong_shapes_are_refused_with_their_place() {
    const NAME: &str = "host_values_of_every_shape_have_gradients_of_the_same_shape";
    let path = format!("{}/tests/filetests/values/{NAME}.dvs", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let f = load(support::assemble(&text)).function("f").expect("the file has it");
    let wrong = Value::Record(vec![
        ("a".into(), Value::Real(2.0)),
        ("n".into(), Value::Int(3)),
        ("b".into(), Value::Array(vec![Value::Bool(true)])),
    ]);
    let error = f.value_and_grad(&[Value::Array(vec![wrong]), Value::Real(1.0)]).unwrap_err().to_string();
    assert!(error.contains("xs[0].b[0]"), "{error}");
}
