//! Registers and heap objects to what a text shows of them: values of bounded size, whatever is there.
//!
//! A value is shown as hosts print it ([`Value`]), but long arrays and lists, and what is deep in a value, are cut
//! short: `[0.0, 1.0, … 7 more …, 9.0]`, and `…` for a part. What stands there looks like a constructor without a
//! payload. Time and memory are bounded by the limits below, and so is the stack.

use super::read::{Cursor, Elements};
use crate::bytecode::module::{DataDef, HostType, Piece, Template};
use crate::embedding::value::Value;
use crate::memory::heap::{self, Ref};
use std::fmt::Write;

/// Arrays and lists with more elements than this are cut short.
const ELEMENTS_MAX: usize = 32;
/// So many elements are shown then at the beginning, and of arrays at the end.
const FIRST: usize = 8;
const LAST: usize = 3;
/// So many levels of a value are shown; a constructor's payload is one.
const DEPTH_MAX: usize = 48;
/// So many parts of all values of a text are shown.
const PARTS_MAX: usize = 1000;
/// A text with values has at most so many bytes besides what always stands in it.
const VALUES_BYTES_MAX: usize = 8 << 10;
/// Names of constructors and fields count as a part for so many bytes.
const NAME_BYTES: usize = 64;

/// The text that a template is with values from registers.
///
/// # Safety
/// The cursor has the registers of the template's values, which are complete.
pub(crate) unsafe fn text_of(template: &Template, data: &[DataDef], mut from: Cursor<'_>) -> String {
    let mut shower = Shower { data, left: PARTS_MAX, depth: 0 };
    let mut text = String::new();
    let mut bytes_left = VALUES_BYTES_MAX;
    for piece in &template.pieces {
        match piece {
            Piece::Text(fixed) => text.push_str(fixed),
            Piece::Value(ty) => {
                // SAFETY: promised by the caller.
                let value = unsafe { shower.value(ty, &mut from) };
                let start = text.len();
                write!(text, "{value}").expect("writing to a string succeeds");
                if text.len() - start > bytes_left {
                    text.truncate(text.floor_char_boundary(start + bytes_left));
                    text.push('…');
                }
                bytes_left = bytes_left.saturating_sub(text.len() - start);
            }
        }
    }
    text
}

/// What stands for parts that are not shown.
fn left_out(text: impl Into<String>) -> Value {
    Value::variant(text, Value::UNIT)
}

/// The array of these items, those in the middle left out if there are many.
fn cut_short(len: usize, mut item: impl FnMut(usize) -> Value) -> Value {
    if len <= ELEMENTS_MAX {
        return Value::Array((0..len).map(item).collect());
    }
    let mut items: Vec<Value> = (0..FIRST).map(&mut item).collect();
    items.push(left_out(format!("… {} more …", len - FIRST - LAST)));
    items.extend((len - LAST..len).map(item));
    Value::Array(items)
}

struct Shower<'m> {
    data: &'m [DataDef],
    /// Parts that may still be shown.
    left: usize,
    /// How deep in a value.
    depth: usize,
}

impl Shower<'_> {
    /// Takes a part, or several for a long name, from those that are left. Says whether there were any.
    fn take(&mut self, name: &str) -> bool {
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1 + name.len() / NAME_BYTES);
        any
    }

    /// A value whose registers come next. They are all passed, even if it isn't shown.
    ///
    /// # Safety
    /// The cursor has the registers, and what they refer to is complete.
    unsafe fn value(&mut self, ty: &HostType, from: &mut Cursor<'_>) -> Value {
        if self.depth == DEPTH_MAX || !self.take("") {
            from.pass(ty);
            return left_out("…");
        }
        self.depth += 1;
        // SAFETY: promised by the caller; the types say what the references lead to.
        let value = unsafe {
            match ty {
                HostType::Real => Value::Real(from.primal()),
                HostType::Int => Value::Int(from.int()),
                HostType::Bool => Value::Bool(from.int() != 0),
                HostType::Tuple(parts) => Value::Tuple(parts.iter().map(|part| self.value(part, from)).collect()),
                HostType::Record(parts) => self.record(parts, from),
                HostType::Array { element, .. } => self.array(element, from.object()),
                HostType::Tensor { .. } => self.tensor(ty, from.object()),
                HostType::List { element, .. } => self.list(element, from.object()),
                HostType::Data { data, .. } => {
                    let object = from.object();
                    let (name, payload) = &self.data[data.index()].variants[heap::tag_of(*object) as usize];
                    match self.take(name) {
                        true => Value::variant(name.as_str(), self.value(payload, &mut Cursor::of(object, false))),
                        false => left_out("…"),
                    }
                }
            }
        };
        self.depth -= 1;
        value
    }

    /// # Safety
    /// As [`Shower::value`].
    unsafe fn record(&mut self, parts: &[(String, HostType)], from: &mut Cursor<'_>) -> Value {
        let mut fields = Vec::new();
        for (name, ty) in parts {
            if self.take(name) {
                // SAFETY: promised by the caller.
                fields.push((name.clone(), unsafe { self.value(ty, from) }));
            } else {
                from.pass(ty);
            }
        }
        Value::Record(fields)
    }

    /// # Safety
    /// `array` is a complete array of elements of this type.
    unsafe fn array(&mut self, element: &HostType, array: Ref) -> Value {
        // SAFETY: promised by the caller.
        unsafe {
            let elements = Elements::of(array, element);
            cut_short(elements.len(array), |at| self.value(element, &mut elements.at(at, false)))
        }
    }

    /// # Safety
    /// `tensor` is a complete tensor of this type.
    unsafe fn tensor(&mut self, ty: &HostType, tensor: Ref) -> Value {
        // SAFETY: promised by the caller: the verifier has compared the fields, and the array is one of these elements.
        unsafe {
            let (shape, array) = heap::tensor(tensor);
            let element = ty.element().expect("a tensor has elements");
            let elements = Elements::of(array, element);
            if heap::elements_of_shape(shape) != Some(elements.len(array)) {
                let shape = heap::shape_text(shape);
                return left_out(format!("… of shape {shape} with {} elements …", elements.len(array)));
            }
            self.slice(element, &elements, shape, 0)
        }
    }

    /// Elements from one on, in this shape.
    ///
    /// # Safety
    /// There are so many elements of this type.
    unsafe fn slice(&mut self, element: &HostType, elements: &Elements, shape: &[i64], from: usize) -> Value {
        let Some((&extent, shape)) = shape.split_first() else {
            // SAFETY: promised by the caller.
            return unsafe { self.value(element, &mut elements.at(from, false)) };
        };
        if self.depth == DEPTH_MAX || !self.take("") {
            return left_out("…");
        }
        self.depth += 1;
        // It wraps around only where there are no slices.
        let each = shape.iter().fold(1, |product: usize, &n| product.wrapping_mul(n as usize));
        let extent = extent as usize;
        // SAFETY: each slice has so many of the elements.
        let items = cut_short(extent, |at| unsafe { self.slice(element, elements, shape, from + at * each) });
        self.depth -= 1;
        items
    }

    /// # Safety
    /// `cell` is a complete list of elements of this type.
    unsafe fn list(&mut self, element: &HostType, cell: Ref) -> Value {
        // SAFETY: promised by the caller. A cell has the element's fields and then, as the last reference, the rest.
        unsafe {
            let next = |cell: Ref| {
                let fields = heap::fields_of(*cell);
                *cell.add(fields.ref_at(fields.refs - 1)).cast::<Ref>()
            };
            let mut cells = Vec::new();
            let mut rest = cell;
            // How long it is isn't counted: that may take long.
            while heap::tag_of(*rest) != 0 && cells.len() <= ELEMENTS_MAX {
                cells.push(rest);
                rest = next(rest);
            }
            let is_long = cells.len() > ELEMENTS_MAX;
            cells.truncate(if is_long { FIRST } else { ELEMENTS_MAX });
            let mut items: Vec<Value> =
                cells.into_iter().map(|cell| self.value(element, &mut Cursor::of(cell, false))).collect();
            if is_long {
                items.push(left_out("…"));
            }
            Value::Array(items)
        }
    }
}
