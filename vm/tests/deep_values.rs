//! Values and types that nest 200,000 levels deep, as a host may build them: everything that can be done with one works
//! on an ordinary stack, or says that it is too deep.

use dualvm_vm::builder::{FunctionBuilder, ModuleBuilder};
use dualvm_vm::engine::{Engine, Function, Module, RunError};
use dualvm_vm::module::{DataDef, DataId, HostType, Interface, ModuleDef, TypeId, ValueType};
use dualvm_vm::value::{ArgumentError, Value};
use dualvm_vm::verify::verify;
use dualvm_vm::{binary, text};
use std::collections::HashSet;

const DEPTH: usize = 200_000;

/// Runs `body` on a stack of 2 MiB, as threads have: a function that recurses needs ten bytes a level at most.
fn on_an_ordinary_stack(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, body);
        thread.expect("a thread starts").join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

type Wrap<T> = fn(T) -> T;

/// Every way in which a value can be a part of another one.
const VALUES: [Wrap<Value>; 5] = [
    |inner| Value::Tuple(vec![inner, Value::Int(1)]),
    |inner| Value::Array(vec![Value::Reals(vec![1.0]), inner]),
    |inner| Value::Record(vec![("a".into(), Value::Null), ("b".into(), inner)]),
    |inner| Value::variant("More", inner),
    |inner| Value::variant("Most", Value::Tuple(vec![inner])),
];

/// Every way in which a type can be a part of another one.
const TYPES: [Wrap<HostType>; 5] = [
    |inner| HostType::Tuple(vec![HostType::Real, inner]),
    |inner| HostType::Record(vec![("x".into(), inner), ("y".into(), HostType::Bool)]),
    |inner| HostType::Array { element: Box::new(inner), array: TypeId(0) },
    |inner| HostType::List { element: Box::new(inner), list: TypeId(1) },
    |inner| HostType::Tensor { slice: Box::new(inner), tensor: TypeId(2) },
];

/// `innermost`, wrapped in all ways in turn.
fn deep<T>(depth: usize, innermost: T, wraps: &[Wrap<T>]) -> T {
    (0..depth).fold(innermost, |inner, n| wraps[n % wraps.len()](inner))
}

fn value(x: f64) -> Value {
    deep(DEPTH, Value::Real(x), &VALUES)
}

fn host_type(innermost: HostType) -> HostType {
    deep(DEPTH, innermost, &TYPES)
}

#[test]
fn a_deep_value_is_copied_compared_and_dropped() {
    on_an_ordinary_stack(|| {
        for wrap in VALUES {
            let value = deep(DEPTH, Value::Real(1.0), &[wrap]);
            let copy = value.clone();
            assert!(value == copy);
            drop(value);
            assert!(copy != deep(DEPTH, Value::Real(2.0), &[wrap]));
            assert!(copy != deep(DEPTH - 1, Value::Real(1.0), &[wrap]));
        }
        let wide = Value::Array(vec![value(1.0), value(2.0), Value::Null, value(1.0)]);
        assert!(wide.clone() == wide);
        // Taken apart by hand from both sides.
        let mut parts = wide.into_parts().expect("it is an array");
        assert!(parts[0] != parts[1] && parts[0] == parts[3]);
        parts.swap_remove(1);
        drop(parts);
        let mut value = value(1.0);
        while let Value::Variant(_, payload) = &mut value {
            value = std::mem::replace(&mut **payload, Value::Null);
        }
        assert!(matches!(value, Value::Tuple(_)));
    });
}

#[test]
fn a_deep_value_is_printed() {
    on_an_ordinary_stack(|| {
        let value = value(1.5);
        let text = value.to_string();
        assert!(text.starts_with("Most (More { a = null, b = [[1.0], ("), "{}", &text[..40]);
        assert!(text.ends_with(", 1)] })"));
        let text = format!("{value:?}");
        let begin = r#"Variant("Most", Tuple([Variant("More", Record([("a", Null), ("b", Array([Reals([1.0]), Tuple(["#;
        assert!(text.starts_with(begin), "{}", &text[..100]);
        assert_eq!(text.matches("Real(1.5)").count(), 1);
        let opened = |c| text.matches(c).count();
        assert_eq!((opened('('), opened('[')), (opened(')'), opened(']')));
        let shallow = deep(500, Value::Real(1.5), &VALUES);
        assert!(format!("{shallow:#?}").matches('\n').count() > 500);
    });
}

/// The identity of a data type that is a chain of reals.
fn chain() -> Function {
    let source = r#"
type t0 = variant { Nil {}, Cons { real, t0 } }
data d0 "Chain" t0 = Nil () | Cons (Real, Data "Chain" @d0)
func "same" (t0) -> (t0)
 export (chain : Data "Chain" @d0) -> Data "Chain" @d0
 regs t0
 { ret (p0) }
"#;
    let def = text::parse(source, "chain.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    let module = Module::new(&Engine::default(), def).unwrap_or_else(|errors| panic!("{}", errors[0]));
    module.function("same").expect("the function is exported")
}

#[test]
fn a_deep_argument_is_refused() {
    on_an_ordinary_stack(|| {
        let same = chain();
        let nil = || Value::variant("Nil", Value::UNIT);
        let cons: Wrap<Value> = |inner| Value::variant("Cons", Value::Tuple(vec![Value::Real(1.0), inner]));
        // What fits is few enough levels for this stack, too.
        let fits = deep(100, nil(), &[cons]);
        assert_eq!(same.call(std::slice::from_ref(&fits)), Ok(fits));
        let too_deep = RunError::Argument(ArgumentError::Depth { parameter: "chain".into() });
        let argument = [deep(DEPTH, nil(), &[cons])];
        assert_eq!(same.call(&argument), Err(too_deep.clone()));
        assert_eq!(same.jacobian(&argument), Err(too_deep.clone()));
    });
}

#[test]
fn an_argument_of_another_shape_is_refused_however_deep_it_is() {
    on_an_ordinary_stack(|| {
        let same = chain();
        for value in [value(1.0), deep(DEPTH, Value::Real(1.0), &VALUES[..1]), deep(DEPTH, Value::Null, &VALUES[2..3])]
        {
            let error = same.call(&[value]).expect_err("it is not a chain");
            assert!(error.to_string().len() < 200, "{error}");
        }
    });
}

#[test]
fn a_deep_type_is_copied_compared_hashed_and_dropped() {
    on_an_ordinary_stack(|| {
        for wrap in TYPES {
            let ty = deep(DEPTH, HostType::Real, &[wrap]);
            let copy = ty.clone();
            assert!(ty == copy && ty != deep(DEPTH, HostType::Int, &[wrap]));
            let mut set = HashSet::from([ty]);
            assert!(!set.insert(copy) && set.insert(deep(DEPTH - 1, HostType::Real, &[wrap])));
        }
    });
}

#[test]
fn a_deep_type_is_printed_and_flattened() {
    on_an_ordinary_stack(|| {
        let ty = host_type(HostType::Data { name: "Pair Real".into(), data: DataId(3) });
        assert!(ty.to_string().starts_with("Tensor1 List (Array { x : (Real, Tensor1 List (Array {"));
        let begin = "Tensor { slice: List { element: Array { element: Record([(\"x\", Tuple([Real, Tensor {";
        assert!(format!("{ty:?}").starts_with(begin));
        let pair = deep(DEPTH, HostType::Int, &TYPES[..2]);
        let flat = pair.flatten(&[]);
        assert_eq!((flat.len(), flat[0]), (DEPTH + 1, ValueType::Real));
        assert_eq!(flat.iter().filter(|&&ty| ty == ValueType::Real).count(), DEPTH / 2);
    });
}

/// A module with types of this depth wherever types stand.
fn module(ty: &HostType) -> ModuleDef {
    let mut f = FunctionBuilder::new("f", &[ValueType::Real], &[ValueType::Real]);
    f.ret(&[f.real_param(0).into()]);
    f.export(Interface { params: vec![("x".into(), ty.clone())], result: ty.clone() });
    let mut builder = ModuleBuilder::new();
    builder.define(f.finish().expect("the code can be packed"));
    let mut def = builder.finish();
    def.data.push(DataDef { name: "D".into(), ty: TypeId(0), variants: vec![("C".into(), ty.clone())] });
    def
}

#[test]
fn a_module_with_deep_types_is_refused_and_can_be_printed_and_written() {
    on_an_ordinary_stack(|| {
        let def = module(&host_type(HostType::Real));
        let copy = def.clone();
        assert!(copy == def);
        assert!(verify(&def).is_err());
        assert!(Module::new(&Engine::default(), copy).is_err());
        let printed = text::print(&def);
        assert!(text::parse(&printed, "deep.dvs").is_err());
        let bytes = binary::encode(&def).expect("operand lists are inside their pools");
        assert!(binary::decode(&bytes).is_err());
        assert!(format!("{def:?}").len() > DEPTH);
    });
}

/// The derived forms, which `Debug` is to agree with.
mod derived {
    use dualvm_vm::module::{DataId, TypeId};

    #[derive(Debug)]
    #[allow(dead_code, reason = "they are printed only")]
    pub(super) enum Value {
        Null,
        Real(f64),
        Int(i64),
        Bool(bool),
        Tuple(Vec<Value>),
        Record(Vec<(String, Value)>),
        Reals(Vec<f64>),
        Array(Vec<Value>),
        Variant(String, Box<Value>),
    }

    #[derive(Debug)]
    #[allow(dead_code, reason = "they are printed only")]
    pub(super) enum HostType {
        Real,
        Int,
        Bool,
        Tuple(Vec<HostType>),
        Record(Vec<(String, HostType)>),
        Array { element: Box<HostType>, array: TypeId },
        List { element: Box<HostType>, list: TypeId },
        Data { name: String, data: DataId },
    }
}

/// The same expression, of a type and of the one that derives its `Debug`.
macro_rules! both {
    ($path:ident, $expression:expr) => {{
        let found = {
            use dualvm_vm::{module::HostType as _HostType, value::Value as _Value};
            #[allow(unused_imports, reason = "one of them is used")]
            use {_HostType as HostType, _Value as Value};
            $expression
        };
        let expected = {
            #[allow(unused_imports, reason = "one of them is used")]
            use derived::{HostType, Value};
            $expression
        };
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        assert_eq!(format!("{found:#?}"), format!("{expected:#?}"));
    }};
}

#[test]
fn debug_prints_what_deriving_it_prints() {
    both!(
        value,
        Value::Tuple(vec![
            Value::Null,
            Value::Real(-0.5),
            Value::Int(3),
            Value::Bool(true),
            Value::Reals(vec![1.0, f64::NAN]),
            Value::Reals(vec![]),
            Value::Array(vec![]),
            Value::Record(vec![("a\nb".into(), Value::Null), ("c".into(), Value::Tuple(vec![Value::Int(1)]))]),
            Value::Variant("Some".into(), Box::new(Value::Tuple(vec![Value::Array(vec![Value::Int(1)])]))),
        ])
    );
    both!(value, Value::Null);
    both!(
        host_type,
        HostType::Record(vec![
            ("r".into(), HostType::Real),
            ("i".into(), HostType::Tuple(vec![HostType::Int, HostType::Bool])),
            ("u".into(), HostType::Tuple(vec![])),
            ("a".into(), HostType::Array { element: Box::new(HostType::Real), array: TypeId(4) }),
            (
                "l".into(),
                HostType::List {
                    element: Box::new(HostType::Data { name: "D \"x\"".into(), data: DataId(1) }),
                    list: TypeId(2)
                }
            ),
        ])
    );
    both!(host_type, HostType::Bool);
}
