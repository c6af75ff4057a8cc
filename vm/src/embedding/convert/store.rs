//! What values become: registers, and objects that are made of the registers written last.

use super::maker::{Cells, Maker};
use super::source::Source;
use crate::bytecode::isa::Bank;
use crate::memory::heap::{self, ARRAY_HEADER, Fields, Mark, Ref, Roots};
use crate::running::registers::Gathered;
use crate::trap::Limit;
use crate::word::Word;
use std::mem::MaybeUninit;

/// Appends to registers.
///
/// What becomes the content of an object is appended first and then moved into it, from the end of the registers.
pub(crate) struct Store<'a> {
    maker: Maker<'a>,
    to: &'a mut Gathered,
    source: Source<'a>,
    /// Arrays of tangents that all directions have in common, in the order in which they were written for the first
    /// one, and how many were written again.
    in_common: Vec<Ref>,
    again: usize,
}

impl<'a> Store<'a> {
    /// Begins with no registers.
    pub(crate) fn new(maker: Maker<'a>, to: &'a mut Gathered) -> Self {
        to.reals.clear();
        to.words.clear();
        to.ints.clear();
        to.refs.clear();
        Store { maker, to, source: Source::ARGUMENTS, in_common: Vec::new(), again: 0 }
    }

    /// Goes on behind the first so many registers.
    pub(crate) fn behind(maker: Maker<'a>, to: &'a mut Gathered, registers: Fields) -> Self {
        to.reals.truncate(registers.reals);
        to.words.truncate(registers.reals);
        to.ints.truncate(registers.ints);
        to.refs.truncate(registers.refs);
        Store { maker, to, source: Source::ARGUMENTS, in_common: Vec::new(), again: 0 }
    }

    /// Keeps what was written at the bottom of the heap. Returns what the heap is then, and how many registers there
    /// are.
    pub(crate) fn keep(&mut self) -> (Mark, Fields) {
        let Gathered { reals, ints, refs, .. } = &*self.to;
        (self.maker.heap.keep(), Fields { reals: reals.len(), ints: ints.len(), refs: refs.len() })
    }

    /// From now on values are taken for their shape, and these are written in the place of active reals.
    pub(crate) fn set_tangents(&mut self, tangents: &'a [f64]) {
        self.source.set_tangents(tangents);
    }

    /// The same for one of several directions, from the first one on. Their arrays of tangents are the same: the
    /// tangents of an element in all directions stand side by side.
    pub(crate) fn set_lane(&mut self, lanes: &'a [Vec<f64>], lane: usize) {
        self.source.set_lane(lanes, lane);
        self.again = 0;
    }

    /// Notes a step of work that doesn't take memory of the heap's.
    #[inline]
    pub(super) fn tick(&self) -> Result<(), Limit> {
        self.maker.tick()
    }

    /// See [`Maker::set_active`].
    pub(super) fn set_active(&mut self, active: bool) {
        self.maker.set_active(active);
        self.source.set_active(active);
    }

    #[inline]
    pub(super) fn real(&mut self, x: f64) -> Result<(), Limit> {
        let slot = self.maker.slots(1)?;
        self.to.reals.push(self.source.real(x));
        self.to.words.push(slot.into());
        Ok(())
    }

    /// Appends the registers of an argument that is there for good. It is a constant. Its objects are of another heap:
    /// objects are made of the registers behind these only.
    pub(super) fn bound(&mut self, Gathered { reals, ints, refs, .. }: &Gathered) {
        self.to.reals.extend_from_slice(reals);
        self.to.words.resize(self.to.reals.len(), Word::default());
        self.to.ints.extend_from_slice(ints);
        self.to.refs.extend_from_slice(refs);
    }

    /// Appends registers again, all but integers: so many, which stand behind so many.
    pub(super) fn again(&mut self, before: Fields, registers: Fields) {
        let Gathered { reals, words, refs, .. } = &mut *self.to;
        let range = before.reals..before.reals + registers.reals;
        reals.extend_from_within(range.clone());
        words.extend_from_within(range);
        refs.extend_from_within(before.refs..before.refs + registers.refs);
    }

    /// Appends reals that follow each other.
    pub(super) fn reals(&mut self, xs: &[f64]) -> Result<(), Limit> {
        let slot = self.maker.slots(xs.len())?;
        let behind = self.to.reals.len() + xs.len();
        self.to.reals.extend_from_slice(if self.source.is_arguments() { xs } else { self.source.tangents(xs.len()) });
        self.to.reals.resize(behind, 0.0);
        self.to.words.extend((0..xs.len()).map(|n| Word::from(slot.element(n))));
        Ok(())
    }

    pub(super) fn int(&mut self, n: i64) {
        self.to.ints.push(n);
    }

    /// Appends an array of these reals.
    pub(super) fn real_array(&mut self, xs: &[f64]) -> Result<(), Limit> {
        if self.source.is_arguments() {
            let array = self.maker.borrowed_reals(xs)?;
            self.to.refs.push(array);
            return Ok(());
        }
        self.real_elements::<Limit>(xs.len(), |n| Ok(xs[n]))
    }

    /// Appends an array of `len` reals.
    pub(super) fn real_elements<E: From<Limit>>(
        &mut self,
        len: usize,
        mut element: impl FnMut(usize) -> Result<f64, E>,
    ) -> Result<(), E> {
        self.rows(Bank::Real, (len, 1), |n, cells| {
            cells[0].write(element(n)?.to_bits());
            Ok(())
        })
    }

    /// Appends an array of so many rows of so many numbers of a bank, reals or integers. `write` writes the cells of
    /// the n-th one, unless tangents are written.
    pub(super) fn rows<E: From<Limit>>(
        &mut self,
        bank: Bank,
        (count, width): (usize, usize),
        mut write: impl FnMut(usize, &mut [MaybeUninit<u64>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let len = count * width;
        let tangents = if bank == Bank::Real { self.source.tangents(len) } else { &[] };
        if self.side_by_side(bank, len)? {
            return Ok(());
        }
        let array = match bank {
            Bank::Real => self.maker.reals(len)?.0,
            Bank::Int | Bank::Ref => self.maker.array(bank, len)?,
        };
        self.to.refs.push(array);
        // SAFETY: the array has as many elements, which nothing else refers to.
        let cells: &mut [MaybeUninit<u64>] =
            unsafe { std::slice::from_raw_parts_mut(array.add(ARRAY_HEADER).cast(), len) };
        if bank == Bank::Real && !self.source.is_arguments() {
            let (moved, still) = cells.split_at_mut(tangents.len());
            moved.iter_mut().zip(tangents).for_each(|(cell, tangent)| _ = cell.write(tangent.to_bits()));
            still.fill(MaybeUninit::new(0f64.to_bits()));
            return Ok(());
        }
        for (n, row) in cells.chunks_exact_mut(width).enumerate() {
            self.maker.tick()?;
            write(n, row)?;
        }
        Ok(())
    }

    /// Appends the array that all directions have of the tangents of the last reals, so many, if these are written so.
    fn side_by_side(&mut self, bank: Bank, len: usize) -> Result<bool, Limit> {
        if bank != Bank::Real {
            return Ok(false);
        }
        let Some((lane, tangents)) = self.source.side_by_side(len) else { return Ok(false) };
        if lane > 0 {
            self.to.refs.push(self.in_common[self.again]);
            self.again += 1;
            return Ok(true);
        }
        let cells = len * tangents.len();
        let array = self.maker.reals(cells)?.0;
        self.to.refs.push(array);
        self.in_common.push(array);
        // SAFETY: the array has as many elements, which nothing else refers to.
        let cells: &mut [MaybeUninit<f64>] =
            unsafe { std::slice::from_raw_parts_mut(array.add(ARRAY_HEADER).cast(), cells) };
        match tangents[..] {
            // The usual number of directions.
            [a, b, c, d] if tangents.iter().all(|tangents| tangents.len() == len) => {
                let (elements, _) = cells.as_chunks_mut::<4>();
                for ((((element, &a), &b), &c), &d) in elements.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *element = [MaybeUninit::new(a), MaybeUninit::new(b), MaybeUninit::new(c), MaybeUninit::new(d)];
                }
            }
            _ => {
                for (n, element) in cells.chunks_exact_mut(tangents.len()).enumerate() {
                    for (cell, tangents) in element.iter_mut().zip(&tangents) {
                        cell.write(tangents.get(n).copied().unwrap_or(0.0));
                    }
                }
            }
        }
        Ok(true)
    }

    /// Appends a list of `len` reals.
    pub(super) fn real_list<E: From<Limit>>(
        &mut self,
        len: usize,
        mut element: impl FnMut(usize) -> Result<f64, E>,
    ) -> Result<(), E> {
        let source = &mut self.source;
        let list = match source.is_arguments() {
            true => self.maker.real_list(len, element)?,
            false => self.maker.real_list(len, |n| element(n).map(|x| source.real(x)))?,
        };
        self.to.refs.push(list);
        Ok(())
    }

    /// Moves the last registers, those of an element, into a new cell.
    pub(super) fn cell(&mut self, cells: &mut Cells) -> Result<(), Limit> {
        let Fields { reals, ints, refs } = cells.fields;
        let cell =
            self.fields(heap::object_header(cells.fields, 1), cells.fields, Fields { reals, ints, refs: refs - 1 })?;
        // SAFETY: the object is a cell; the one before it waits for its rest.
        unsafe { cells.link_owned(cell) };
        Ok(())
    }

    /// Appends the list of these cells.
    pub(super) fn end(&mut self, cells: Cells) -> Result<(), Limit> {
        let list = self.maker.list(cells)?;
        self.to.refs.push(list);
        Ok(())
    }

    /// Moves the last registers into a new struct or variant, and appends that.
    pub(super) fn object(&mut self, tag: u32, fields: Fields) -> Result<(), Limit> {
        let object = self.fields(heap::object_header(fields, tag), fields, fields)?;
        self.to.refs.push(object);
        Ok(())
    }

    /// Moves the last registers, extents and the array of the elements, into a new tensor, and appends that.
    pub(super) fn tensor(&mut self, rank: usize) -> Result<(), Limit> {
        let fields = Fields { reals: 0, ints: rank, refs: 1 };
        let tensor = self.fields(heap::shaped_header(fields), fields, fields)?;
        self.to.refs.push(tensor);
        Ok(())
    }

    /// Moves the last registers, as many as `filled` says, into the first fields of a new object.
    fn fields(&mut self, header: u64, fields: Fields, filled: Fields) -> Result<Ref, Limit> {
        let object = self.maker.heap.allocate(header, fields.size(), 0, Roots::none())?;
        let Gathered { reals, words, ints, refs } = &mut *self.to;
        let (real, int) = (reals.len() - filled.reals, ints.len() - filled.ints);
        let reference = refs.len() - filled.refs;
        // SAFETY: the object has fields for these registers; references lead to objects of this heap.
        unsafe {
            let words_active = words[real..].iter().any(|word| !word.is_constant());
            let refs_active = refs[reference..].iter().any(|&object| !heap::owner_of(object).is_nobody());
            heap::set_owner(object, self.maker.owner_if(words_active || refs_active));
            copy(&reals[real..], object.add(fields.real_at(0)).cast());
            copy(&words[real..], object.add(fields.word_at(0)).cast());
            copy(&ints[int..], object.add(fields.int_at(0)).cast());
            copy(&refs[reference..], object.add(fields.ref_at(0)).cast());
        }
        reals.truncate(real);
        words.truncate(real);
        ints.truncate(int);
        refs.truncate(reference);
        Ok(object)
    }

    /// Moves the last registers of a bank into a new array, and appends that.
    pub(super) fn elements(&mut self, bank: Bank, len: usize) -> Result<(), Limit> {
        if self.side_by_side(bank, len)? {
            self.to.reals.truncate(self.to.reals.len() - len);
            self.to.words.truncate(self.to.reals.len());
            return Ok(());
        }
        let array = self.maker.array(bank, len)?;
        let Gathered { reals, words, ints, refs } = &mut *self.to;
        // SAFETY: the array has `len` elements of the bank; references lead to objects of this heap.
        unsafe {
            let elements = array.add(ARRAY_HEADER);
            match bank {
                Bank::Real => {
                    let at = reals.len() - len;
                    copy(&reals[at..], elements.cast());
                    // Reals that were written one after the other have consecutive slots.
                    let first = words.get(at).copied().unwrap_or_default().slot();
                    heap::set_first(array, first);
                    heap::set_owner(array, self.maker.owner_if(!first.is_none()));
                    reals.truncate(at);
                    words.truncate(at);
                }
                Bank::Int => {
                    let at = ints.len() - len;
                    copy(&ints[at..], elements.cast());
                    ints.truncate(at);
                }
                Bank::Ref => {
                    let at = refs.len() - len;
                    let active = refs[at..].iter().any(|&object| !heap::owner_of(object).is_nobody());
                    heap::set_owner(array, self.maker.owner_if(active));
                    copy(&refs[at..], elements.cast());
                    refs.truncate(at);
                }
            }
        }
        self.to.refs.push(array);
        Ok(())
    }
}

/// Copies registers to where an object's fields or elements of their bank begin.
///
/// # Safety
/// There is room for all of them, outside of the slice.
#[inline(always)]
unsafe fn copy<T: Copy>(from: &[T], to: *mut T) {
    // Objects have few fields: a loop is faster than a call.
    for (n, &x) in from.iter().enumerate() {
        // SAFETY: promised by the caller.
        unsafe { *to.add(n) = x };
    }
}
