//! Texts with values, as the reference makes them.

use super::{Machine, Number, Object, Stop, Val};
use dualvm_vm::module::{HostType, Piece};
use dualvm_vm::value::Value;

/// The longest arrays and lists that are shown whole.
const WHOLE: usize = 32;
/// What is shown of longer ones: so many elements, and of arrays the last ones.
const FIRST: usize = 8;
const LAST: usize = 3;

impl Machine<'_> {
    /// A template with these values, or with what its function makes of them. What that traces is of no interest.
    pub(super) fn text<N: Number>(&mut self, template: u32, values: Vec<Val<N>>) -> Result<String, Stop> {
        let template = &self.module.templates[template as usize];
        let lines = self.lines.take();
        let values = match template.func {
            Some(func) => self.function(func.index(), values),
            None => Ok(values),
        };
        self.lines = lines;
        let (mut values, mut text) = (values?.into_iter(), String::new());
        for piece in &template.pieces {
            match piece {
                Piece::Text(literal) => text += literal,
                Piece::Value(ty) => text += &shown(ty, &mut values),
            }
        }
        Ok(text)
    }

    pub(super) fn trace<N: Number>(&mut self, template: u32, values: Vec<Val<N>>) -> Result<(), Stop> {
        if self.lines.is_some() {
            let text = self.text(template, values)?;
            self.lines.iter_mut().for_each(|lines| lines.push(text.clone()));
        }
        Ok(())
    }
}

/// A value as hosts print it, shortened.
fn shown<N: Number>(ty: &HostType, values: &mut dyn Iterator<Item = Val<N>>) -> String {
    let mut next = || values.next().expect("a template has the values of its types");
    match ty {
        HostType::Real => Value::Real(next().real().primal()).to_string(),
        HostType::Int => Value::Int(next().int()).to_string(),
        HostType::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| shown(part, values)).collect();
            format!("({})", parts.join(", "))
        }
        HostType::Array { element, .. } => {
            let array = next();
            let elements = array.array();
            let all =
                |range: &[Val<N>]| range.iter().map(|val| shown(element, &mut [val.clone()].into_iter())).collect();
            let parts: Vec<String> = if elements.len() > WHOLE {
                let (first, last) = (&elements[..FIRST], &elements[elements.len() - LAST..]);
                let more = vec![format!("… {} more …", elements.len() - FIRST - LAST)];
                [all(first), more, all(last)].concat()
            } else {
                all(elements)
            };
            format!("[{}]", parts.join(", "))
        }
        HostType::List { element, .. } => {
            let (mut cell, mut parts) = (next(), Vec::new());
            while let Object::Fields(1, fields) = &*cell.object().clone() {
                let (tail, fields) = fields.split_last().expect("a cell has a tail");
                parts.push(shown(element, &mut fields.iter().cloned()));
                cell = tail.clone();
            }
            if parts.len() > WHOLE {
                parts.truncate(FIRST);
                parts.push("…".into());
            }
            format!("[{}]", parts.join(", "))
        }
        other => panic!("a text isn't generated with {other}"),
    }
}
