//! Builders: an array under construction, whose elements are read, replaced and appended.

use super::{Frame, Number, Object, Stop, Val};
use dualvm_vm::isa::{Op, Operand, Reg};
use dualvm_vm::module::TypeDef;
use dualvm_vm::trap::TrapKind;
use std::cell::RefCell;
use std::rc::Rc;

/// An array under construction.
pub(crate) struct Builder<N> {
    capacity: u64,
    elements: Vec<Val<N>>,
    finished: bool,
}

impl<N> Builder<N> {
    /// An element that was pushed before.
    fn element(&mut self, index: i64) -> Result<&mut Val<N>, TrapKind> {
        if self.finished {
            return Err(TrapKind::BuilderFinished);
        }
        let len = self.elements.len() as u64;
        let element = usize::try_from(index).ok().and_then(|n| self.elements.get_mut(n));
        element.ok_or(TrapKind::IndexOutOfBounds { index, len })
    }
}

/// Whether [`step`] has a meaning for an instruction.
pub(super) fn is_about_builders(op: Op) -> bool {
    const OPS: [Op; 13] = [
        Op::Build,
        Op::Push,
        Op::IPush,
        Op::PPush,
        Op::Finish,
        Op::Extend,
        Op::Get,
        Op::IGet,
        Op::PGet,
        Op::Put,
        Op::IPut,
        Op::PPut,
        Op::Reserve,
    ];
    OPS.contains(&op)
}

/// Executes such an instruction. A function of its own, so that those that recurse need less of the stack.
#[inline(never)]
pub(super) fn step<'t, N: Number>(
    frame: &mut Frame<N>,
    op: Op,
    operands: &[Operand],
    type_of: impl Fn(Reg) -> &'t TypeDef,
) -> Result<(), Stop> {
    use Operand::{Def, Use};
    let object = |object: Object<N>| Val::Ref(Rc::new(object));
    match (op, operands) {
        (Op::Build, [Def(dst), Use(capacity)]) => {
            assert!(matches!(type_of(*dst), TypeDef::Builder(_)));
            let n = frame.get(*capacity).int();
            let capacity = u64::try_from(n).ok().filter(|&n| n < 1 << 40).ok_or(TrapKind::BadCapacity(n))?;
            let builder = Builder { capacity, elements: Vec::new(), finished: false };
            frame.set(*dst, object(Object::Builder(RefCell::new(builder))));
        }
        (Op::Push | Op::IPush | Op::PPush, [Use(builder), Use(value)]) => {
            let (builder, value) = (frame.get(*builder), frame.get(*value));
            let mut builder = builder.builder().borrow_mut();
            if builder.finished {
                return Err(TrapKind::BuilderFinished.into());
            }
            if builder.elements.len() as u64 >= builder.capacity {
                return Err(TrapKind::BuilderFull { capacity: builder.capacity }.into());
            }
            builder.elements.push(value);
        }
        (Op::Finish, [Def(dst), Use(builder)]) => {
            let builder = frame.get(*builder);
            let mut builder = builder.builder().borrow_mut();
            if std::mem::replace(&mut builder.finished, true) {
                return Err(TrapKind::BuilderFinished.into());
            }
            let elements = std::mem::take(&mut builder.elements);
            frame.set(*dst, object(Object::Array(elements)));
        }
        (Op::Extend, [Use(builder), Use(array), Use(from), Use(to)]) => {
            let (builder, array) = (frame.get(*builder), frame.get(*array));
            let (from, to) = (frame.get(*from).int(), frame.get(*to).int());
            let mut builder = builder.builder().borrow_mut();
            if builder.finished {
                return Err(TrapKind::BuilderFinished.into());
            }
            let len = array.array().len() as u64;
            let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
            let Some(elements) = range.and_then(|(from, to)| array.array().get(from..to)) else {
                return Err(TrapKind::RangeOutOfBounds { from, to, len }.into());
            };
            if (builder.elements.len() + elements.len()) as u64 > builder.capacity {
                return Err(TrapKind::BuilderFull { capacity: builder.capacity }.into());
            }
            builder.elements.extend_from_slice(elements);
        }
        (Op::Get | Op::IGet | Op::PGet, [Def(dst), Use(builder), Use(index)]) => {
            let (builder, index) = (frame.get(*builder), frame.get(*index).int());
            let element = builder.builder().borrow_mut().element(index)?.clone();
            frame.set(*dst, element);
        }
        (Op::Put | Op::IPut | Op::PPut, [Use(builder), Use(index), Use(value)]) => {
            let (builder, index, value) = (frame.get(*builder), frame.get(*index).int(), frame.get(*value));
            *builder.builder().borrow_mut().element(index)? = value;
        }
        (Op::Reserve, [Def(dst), Use(builder), Use(count)]) => {
            let (builder, count) = (frame.get(*builder), frame.get(*count).int());
            let mut old = builder.builder().borrow_mut();
            if old.finished {
                return Err(TrapKind::BuilderFinished.into());
            }
            let more = u64::try_from(count).map_err(|_| TrapKind::BadCapacity(count))?;
            let needed = old.elements.len() as u64 + more;
            if needed <= old.capacity {
                frame.set(*dst, builder.clone());
            } else {
                let capacity = needed.max(2 * old.capacity);
                if capacity >= 1 << 40 {
                    return Err(TrapKind::BadCapacity(i64::try_from(capacity).unwrap_or(i64::MAX)).into());
                }
                old.finished = true;
                let elements = std::mem::take(&mut old.elements);
                let new = Builder { capacity, elements, finished: false };
                frame.set(*dst, object(Object::Builder(RefCell::new(new))));
            }
        }
        (op, operands) => panic!("no meaning is given for {op:?} {operands:?}"),
    }
    Ok(())
}
