//! Where results of the host's go: registers, and objects that are made of what it gives.

use super::OriginalCall;
use crate::bytecode::isa::Bank;
use crate::code::Counts;
use crate::embedding::convert::Maker;
use crate::host::{Form, HostError, LinkedHost, Part, Sink};
use crate::memory::heap::{self, ARRAY_HEADER, LEN, Ref};
use crate::running::registers::Registers;
use crate::trap::OtherShape;
use crate::word::Word;
use smallvec::SmallVec;
use std::hash::Hasher;

/// Registers for results: constants, as yet.
pub(super) struct Results<'a> {
    host: &'a LinkedHost,
    maker: Maker<'a>,
    next: Registers,
    /// In a derivative, what the next reference belongs to.
    belongs_to: Option<*const Ref>,
    depth: u32,
    recording: bool,
    /// The next result.
    part: usize,
    /// The shape that was given of a tensor, whose elements come next.
    shape: Option<(Part, SmallVec<[i64; 4]>)>,
    /// Of the results.
    digest: rustc_hash::FxHasher,
}

impl<'a> Results<'a> {
    /// # Safety
    /// There is room for the function's results from here on, at this depth, with words if it is `recording`. The
    /// original call of a derivative has a reference for each of the derivative's, and nothing moves.
    pub(super) unsafe fn new(
        host: &'a LinkedHost,
        maker: Maker<'a>,
        next: Registers,
        (depth, recording): (u32, bool),
        original: Option<OriginalCall<'_>>,
    ) -> Self {
        let belongs_to = original.map(|call| call.refs);
        let digest = rustc_hash::FxHasher::default();
        Results { host, maker, next, belongs_to, depth, recording, part: 0, shape: None, digest }
    }

    /// Writes the rest of the results that the host doesn't give, and returns the digest of the others.
    pub(super) fn end(mut self) -> Result<u64, HostError> {
        match self.next_part() {
            None => Ok(self.digest.finish()),
            Some(_) => Err(HostError::new("it gives too few results")),
        }
    }

    /// Writes results that the host doesn't give, and returns the one that it gives next.
    fn next_part(&mut self) -> Option<Part> {
        while let Some(&part) = self.host.results.get(self.part) {
            self.part += 1;
            if part.is_shown {
                return Some(part);
            }
            // What says nothing is as what it belongs to, whose integers nobody reads there.
            let original = self.original().expect("only derivatives have parts that the host doesn't give");
            self.object(original);
        }
        None
    }

    /// The object that the next reference belongs to.
    fn original(&self) -> Option<Ref> {
        // SAFETY: the caller of `new` has promised it.
        self.belongs_to.map(|original| unsafe { *original })
    }

    fn object(&mut self, object: Ref) {
        // SAFETY: there is room for it, and in a derivative it belongs to a reference.
        unsafe {
            *self.next.refs = object;
            self.next.refs = self.next.refs.add(1);
            self.belongs_to = self.belongs_to.map(|original| original.add(1));
        }
    }

    /// The result that is to be made of so many numbers.
    fn part_of(&mut self, len: usize) -> Result<Part, HostError> {
        if let Some((part, shape)) = &self.shape {
            // In a derivative, the original has this shape.
            return match part.numbers_of_shape(shape) == Some(len) {
                true => Ok(*part),
                false => Err(no_tensor(*part, shape, len)),
            };
        }
        let part = self.next_part().ok_or_else(too_many)?;
        if !len.is_multiple_of(part.width) {
            let (what, width) = (if part.form == Form::List { "a list" } else { "an array" }, part.width);
            return Err(HostError::new(format_args!("{what} of rows of {width} numbers can't have {len}")));
        }
        if let Some(original) = self.original() {
            // SAFETY: the original of an array is an array, and that of a list a list, of the same elements.
            let expected = unsafe {
                match part.form {
                    Form::List => self.maker.list_len(original, part.row()).map_err(HostError::stop)?,
                    _ => *original.add(LEN) as usize / part.width,
                }
            };
            if expected * part.width != len {
                let what = if part.form == Form::List { "a list" } else { "an array" };
                let of_length = |len: usize| format!("{what} of length {len}");
                return Err(other_shape(of_length(expected), of_length(len / part.width)));
            }
        }
        Ok(part)
    }

    /// Writes the result that an array of its numbers becomes.
    fn finish(&mut self, part: Part, array: Ref) -> Result<(), HostError> {
        let made = match (part.form, self.shape.take()) {
            // SAFETY: it is an array of whole rows.
            (Form::List, _) => unsafe { self.maker.list_of_array(array, part.row()) },
            (Form::Tensor(_), Some((_, shape))) => self.maker.tensor(&shape, array),
            _ => Ok(array),
        };
        self.object(made.map_err(HostError::stop)?);
        Ok(())
    }
}

impl Sink for Results<'_> {
    fn real(&mut self, x: f64) {
        self.next_part();
        self.digest.write_u64(x.to_bits());
        // SAFETY: there is room for it, with words where code records.
        unsafe {
            for part in 0..1usize << self.depth {
                *self.next.reals.add(part) = if part == 0 { x } else { 0.0 };
                if self.recording {
                    *self.next.words.add(part) = Word::CONSTANT;
                }
            }
        }
        self.next = self.next.after(&Counts { reals: 1 << self.depth, ..Counts::default() });
    }

    fn int(&mut self, n: i64) {
        self.next_part();
        self.digest.write_i64(n);
        // SAFETY: there is room for it.
        unsafe {
            *self.next.ints = n;
            self.next.ints = self.next.ints.add(1);
        }
    }

    fn shape(&mut self, shape: &[i64]) -> Result<(), HostError> {
        let part = self.next_part().ok_or_else(too_many)?;
        match part.form {
            Form::Tensor(rank) if rank == shape.len() => {}
            Form::Tensor(rank) => {
                let shape = heap::shape_text(shape);
                return Err(HostError::new(format_args!("a tensor of {rank} dimensions can't have the shape {shape}")));
            }
            Form::Number | Form::Array | Form::List => return Err(HostError::new("what is no tensor has no shape")),
        }
        if part.numbers_of_shape(shape).is_none() {
            let shape = heap::shape_text(shape);
            return Err(HostError::new(format_args!("there is no tensor of the shape {shape}")));
        }
        if let Some(original) = self.original() {
            // SAFETY: the original of a tensor is one.
            let (expected, _) = unsafe { heap::tensor(original) };
            if expected != shape {
                let of_shape = |shape| format!("of shape {}", heap::shape_text(shape));
                return Err(other_shape(of_shape(expected), of_shape(shape)));
            }
        }
        shape.iter().for_each(|&extent| self.digest.write_i64(extent));
        self.shape = Some((part, shape.into()));
        Ok(())
    }

    fn reals(&mut self, len: usize, fill: &mut dyn FnMut(&mut [f64])) -> Result<(), HostError> {
        let part = self.part_of(len)?;
        self.digest.write_usize(len);
        let array = self.maker.array(Bank::Real, len).map_err(HostError::stop)?;
        // SAFETY: the array has so many elements, which are initialised first.
        unsafe {
            let elements = array.add(ARRAY_HEADER).cast::<f64>();
            elements.write_bytes(0, len);
            let elements = std::slice::from_raw_parts_mut(elements, len);
            fill(elements);
            elements.iter().for_each(|x| self.digest.write_u64(x.to_bits()));
        }
        self.finish(part, array)
    }

    fn ints(&mut self, ns: &[i64]) -> Result<(), HostError> {
        let part = self.part_of(ns.len())?;
        let array = self.maker.int_array(ns).map_err(HostError::stop)?;
        self.digest.write_usize(ns.len());
        ns.iter().for_each(|&n| self.digest.write_i64(n));
        self.finish(part, array)
    }
}

#[cold]
fn too_many() -> HostError {
    HostError::new("it gives too many results")
}

#[cold]
fn no_tensor(part: Part, shape: &[i64], len: usize) -> HostError {
    let rows = if part.width == 1 { String::new() } else { format!(" of rows of {} numbers", part.width) };
    let numbers = if part.width == 1 { "elements" } else { "numbers" };
    let shape = heap::shape_text(shape);
    HostError::new(format_args!("a tensor of shape {shape}{rows} can't have {len} {numbers}"))
}

/// A derivative is not of the shape of what it belongs to.
#[cold]
fn other_shape(expected: String, found: String) -> HostError {
    HostError::new(OtherShape::trap(expected, found))
}
