//! Arguments straight into the registers, or into the fields and elements of objects, that they are the content of.

use crate::bytecode::isa::Bank;
use crate::bytecode::module::HostType;
use crate::embedding::convert::{self, Cells, Maker, Source, Store};
use crate::embedding::engine::{Bound, BoundArgument};
use crate::memory::heap::{self, ARRAY_HEADER, Fields, Ref};
use crate::running::registers::{Gathered, Registers};
use crate::trap::Limit;
use crate::word::{Slot, Word};

/// Writes the arguments of a run, in the order of the parameters.
///
/// They stand at the bottoms of the stacks, before there is any room for a frame: all that an instruction can name fits
/// into the margin above the room. While an object is filled, the next places are its fields or elements.
pub struct ArgumentWriter<'a> {
    maker: Maker<'a>,
    next: Registers,
    /// Whether reals have words.
    recording: bool,
    source: Source<'a>,
    /// What stands among the arguments for good.
    bound: Option<&'a Bound>,
    /// How many groups of it have been written.
    groups: usize,
    /// Whether tangents of constants are looked at.
    looks_at_constants: bool,
}

impl<'a> ArgumentWriter<'a> {
    /// # Safety
    /// There are stacks, `bottom` is where they begin, and nothing is in use there. No more is written than a function
    /// has parameters, and as much again for tangents.
    #[inline]
    pub(crate) unsafe fn new(maker: Maker<'a>, bottom: Registers, recording: bool, bound: Option<&'a Bound>) -> Self {
        let (source, looks_at_constants) = (Source::ARGUMENTS, false);
        ArgumentWriter { maker, next: bottom, recording, source, bound, groups: 0, looks_at_constants }
    }

    /// From now on arguments are taken for their shape, and these are written in the place of active reals. Integers
    /// have no tangents: what is written to their registers then, behind those of the arguments, nobody reads.
    pub(crate) fn set_tangents(&mut self, tangents: &'a [f64], looks_at_constants: bool) {
        self.source.set_tangents(tangents);
        (self.groups, self.looks_at_constants) = (0, looks_at_constants);
    }

    /// Whether these are the arguments, and not their tangents.
    #[inline]
    pub(super) fn writes_arguments(&self) -> bool {
        self.source.is_arguments()
    }

    /// What is written next is part of the n-th argument; whether derivatives are with respect to it.
    #[inline]
    pub(crate) fn begin(&mut self, n: usize, active: bool) -> Result<(), Limit> {
        self.bound_up_to(n)?;
        self.maker.set_active(active);
        self.source.set_active(active);
        Ok(())
    }

    /// So many arguments have been written, all of them.
    #[inline]
    pub(crate) fn end(&mut self, count: usize) -> Result<(), Limit> {
        self.bound_up_to(count)
    }

    /// Writes what stands in front of the n-th argument for good, unless that was done.
    #[inline]
    fn bound_up_to(&mut self, n: usize) -> Result<(), Limit> {
        if let Some(bound) = self.bound {
            while self.groups <= n {
                bound.group(self.groups).iter().try_for_each(|argument| self.bound(argument))?;
                self.groups += 1;
            }
        }
        Ok(())
    }

    fn bound(&mut self, argument: &BoundArgument) -> Result<(), Limit> {
        if self.writes_arguments() || !self.looks_at_constants {
            self.constants(argument.registers());
            return Ok(());
        }
        let mut zeros = Gathered::default();
        let mut store = Store::new(self.maker.lent(), &mut zeros);
        store.set_tangents(&[]);
        argument.write_zeros(&mut store)?;
        self.constants(&zeros);
        Ok(())
    }

    /// Writes registers of constants.
    fn constants(&mut self, Gathered { reals, ints, refs, .. }: &Gathered) {
        for &x in reals {
            // SAFETY: there is a place for each argument, with a word in a recording run.
            unsafe {
                *self.next.reals = x;
                self.next.reals = self.next.reals.add(1);
                if self.recording {
                    *self.next.words = Word::default();
                    self.next.words = self.next.words.add(1);
                }
            }
        }
        ints.iter().for_each(|&n| self.int(n));
        refs.iter().for_each(|&object| self.object(object));
    }

    #[inline]
    pub(crate) fn real(&mut self, x: f64) -> Result<(), Limit> {
        let x = self.source.real(x);
        self.reals([Ok(x)].into_iter())
    }

    /// Reals of arguments that follow each other: nothing but copies, as long as nothing goes wrong.
    #[inline]
    pub(crate) fn reals<E: From<Limit>>(&mut self, xs: impl ExactSizeIterator<Item = Result<f64, E>>) -> Result<(), E> {
        let (mut next, mut slot) = (self.next, Slot::NONE);
        if self.recording {
            slot = self.maker.slots(xs.len())?;
        }
        // Constants stay at slot 0.
        let step = u32::from(!slot.is_none());
        for x in xs {
            // SAFETY: there is a place for each argument, with a word in a recording run.
            unsafe {
                *next.reals = x?;
                next.reals = next.reals.add(1);
                if self.recording {
                    *next.words = slot.into();
                    next.words = next.words.add(1);
                    slot = slot.offset(step);
                }
            }
        }
        self.next = next;
        Ok(())
    }

    #[inline]
    pub(crate) fn int(&mut self, n: i64) {
        // SAFETY: there is a place for each argument.
        unsafe {
            *self.next.ints = n;
            self.next.ints = self.next.ints.add(1);
        }
    }

    /// Writes an array of these reals, which stay where they are if there are many: they are part of an argument of the
    /// call.
    pub(crate) fn real_array(&mut self, xs: &[f64]) -> Result<(), Limit> {
        let array = if self.source.is_arguments() {
            self.maker.borrowed_reals(xs)?
        } else {
            let (array, elements) = self.maker.reals(xs.len())?;
            // SAFETY: the array has as many elements.
            xs.iter().enumerate().for_each(|(n, &x)| unsafe { *elements.add(n) = self.source.real(x) });
            array
        };
        self.object(array);
        Ok(())
    }

    /// Writes an array of these integers, which stay where they are if there are many.
    pub(crate) fn int_array(&mut self, ns: &[i64]) -> Result<(), Limit> {
        let array = self.maker.borrowed_ints(ns)?;
        self.object(array);
        Ok(())
    }

    pub(crate) fn real_list(&mut self, xs: &[f64]) -> Result<(), Limit> {
        let source = &mut self.source;
        let list = self.maker.real_list::<Limit>(xs.len(), |n| Ok(source.real(xs[n])))?;
        self.object(list);
        Ok(())
    }

    pub(crate) fn int_list(&mut self, ns: &[i64]) -> Result<(), Limit> {
        let list = self.maker.int_list(ns)?;
        self.object(list);
        Ok(())
    }

    /// Writes an array of so many elements of this type, the n-th of which `write` writes.
    ///
    /// # Safety
    /// `write` writes one value of that type and nothing else.
    pub(crate) unsafe fn array(
        &mut self,
        element: &HostType,
        len: usize,
        mut write: impl FnMut(usize, &mut Self) -> Result<(), Limit>,
    ) -> Result<(), Limit> {
        let fields = convert::registers(element);
        let outer = (self.next, self.recording);
        let array = match fields.row() {
            Some((Bank::Real, width)) => {
                let (array, elements) = self.maker.reals(len * width)?;
                // The array has the slots of all of them, and no words.
                (self.next.reals, self.recording) = (elements, false);
                self.numbers(len, write)?;
                array
            }
            Some((Bank::Int, width)) => {
                let array = self.maker.array(Bank::Int, len * width)?;
                self.next.ints = array.wrapping_add(ARRAY_HEADER).cast();
                self.numbers(len, write)?;
                array
            }
            Some((Bank::Ref, _)) | None => {
                let array = self.maker.array(Bank::Ref, len)?;
                let elements = array.wrapping_add(ARRAY_HEADER).cast::<Ref>();
                if fields.row().is_some() {
                    self.next.refs = elements;
                    (0..len).try_for_each(|n| write(n, self))?;
                } else {
                    let header = heap::object_header(fields, 0);
                    for n in 0..len {
                        // SAFETY: promised by the caller, and the array has so many elements.
                        unsafe { *elements.add(n) = self.filled((header, fields), fields.refs, |to| write(n, to))? };
                    }
                }
                // SAFETY: all elements are written.
                unsafe { self.maker.own_array(array) };
                array
            }
        };
        (self.next, self.recording) = outer;
        self.object(array);
        Ok(())
    }

    /// Writes elements that take no memory of the heap's, which would look at the clock.
    fn numbers(
        &mut self,
        len: usize,
        mut write: impl FnMut(usize, &mut Self) -> Result<(), Limit>,
    ) -> Result<(), Limit> {
        for n in 0..len {
            self.maker.tick()?;
            write(n, self)?;
        }
        Ok(())
    }

    /// Writes a list of so many elements of this type, the n-th of which `write` writes.
    ///
    /// # Safety
    /// `write` writes one value of that type and nothing else.
    pub(crate) unsafe fn list(
        &mut self,
        element: &HostType,
        len: usize,
        mut write: impl FnMut(usize, &mut Self) -> Result<(), Limit>,
    ) -> Result<(), Limit> {
        let element = convert::registers(element);
        let fields = Fields { refs: element.refs + 1, ..element };
        let header = heap::object_header(fields, 1);
        let (outer, mut cells) = (self.next, Cells::new(fields));
        for n in 0..len {
            // SAFETY: promised by the caller; the cell has the element's fields, and its rest is linked to it next.
            unsafe {
                let cell = self.filled((header, fields), element.refs, |to| write(n, to))?;
                cells.link_owned(cell);
            }
        }
        self.next = outer;
        let list = self.maker.list(cells)?;
        self.object(list);
        Ok(())
    }

    /// Writes a tensor of these extents, whose array of elements `write` writes.
    ///
    /// # Safety
    /// `write` writes one array and nothing else.
    pub(crate) unsafe fn tensor(
        &mut self,
        extents: impl ExactSizeIterator<Item = i64>,
        write: impl FnOnce(&mut Self) -> Result<(), Limit>,
    ) -> Result<(), Limit> {
        let fields = Fields { reals: 0, ints: extents.len(), refs: 1 };
        let outer = self.next;
        // SAFETY: promised by the caller; there are as many integers.
        let tensor = unsafe {
            self.filled((heap::shaped_header(fields), fields), 1, |to| {
                extents.for_each(|extent| to.int(extent));
                write(to)
            })?
        };
        self.next = outer;
        self.object(tensor);
        Ok(())
    }

    /// A new object whose fields `write` writes.
    ///
    /// # Safety
    /// `write` writes as many registers of each bank as the object has fields, but `refs` references.
    #[inline(always)]
    unsafe fn filled(
        &mut self,
        (header, fields): (u64, Fields),
        refs: usize,
        write: impl FnOnce(&mut Self) -> Result<(), Limit>,
    ) -> Result<Ref, Limit> {
        let (object, places) = self.maker.object(header, fields)?;
        self.next = places;
        write(self)?;
        // SAFETY: promised by the caller; a recording run writes words, too.
        unsafe { self.maker.own_object(object, fields, refs) };
        Ok(object)
    }

    fn object(&mut self, object: Ref) {
        // SAFETY: there is a place for each argument.
        unsafe {
            *self.next.refs = object;
            self.next.refs = self.next.refs.add(1);
        }
    }
}
