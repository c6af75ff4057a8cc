//! Objects that arguments become: arrays, and lists as chains of cells.
//!
//! Nothing here knows of values or of types of the host. Whoever writes arguments makes objects through a [`Maker`],
//! and puts the references where they belong. While that goes on nothing names them, so that the heap must be paused.

use crate::bytecode::isa::Bank;
use crate::memory::heap::{self, ARRAY_HEADER, Fields, Heap, LEN, Ref, Roots, WORDS_MAX};
use crate::running::meter::{Account, Watch, out_of_time};
use crate::running::registers::Registers;
use crate::tape::Tape;
use crate::trap::Limit;
use crate::word::{Owner, Slot, Word};

/// Arrays of fewer numbers are copied: that takes no longer, and what reads them finds them near.
const BORROWED_MIN: usize = 32;

/// The fields of a cell of a list of reals: the element and the rest.
pub(crate) const REAL_CELL: Fields = Fields { reals: 1, ints: 0, refs: 1 };
/// The same of a list of integers.
const INT_CELL: Fields = Fields { reals: 0, ints: 1, refs: 1 };

/// The fields of a cell of a list of rows of numbers of one bank.
fn row_cell(bank: Bank, width: usize) -> Fields {
    match bank {
        Bank::Real => Fields { reals: width, ints: 0, refs: 1 },
        Bank::Int => Fields { reals: 0, ints: width, refs: 1 },
        Bank::Ref => unreachable!("rows are of numbers"),
    }
}

/// Where the numbers of such a cell begin, whatever they are.
fn row_at(fields: Fields) -> usize {
    if fields.reals > 0 { fields.real_at(0) } else { fields.int_at(0) }
}

/// Makes objects. With a tape, every real gets a slot, in the order in which they are written.
pub(crate) struct Maker<'a> {
    pub(super) heap: &'a mut Heap,
    tape: Option<&'a mut Tape>,
    /// Whether reals get slots, if there is a tape.
    active: bool,
    /// Whether arrays of the host's may stay where they are.
    borrows: bool,
    /// The owner of what is active: the run's own task.
    pub(super) owner: Owner,
    watch: Watch<'a>,
}

/// A list that is being written, first cell first.
pub(crate) struct Cells {
    pub(super) fields: Fields,
    first: Ref,
    last: Ref,
    /// The last cell that is active by its element.
    active: Ref,
    /// Whether an active cell follows one that isn't: the owner of that one is not final.
    mixed: bool,
}

impl Cells {
    /// No cells yet. `fields` are those of a cell, the rest of the list included.
    pub(crate) fn new(fields: Fields) -> Self {
        let null = std::ptr::null_mut();
        Cells { fields, first: null, last: null, active: null, mixed: false }
    }

    /// Makes `cell` the rest of the cell before it.
    ///
    /// # Safety
    /// `cell` and the cells before it have the fields of these cells.
    #[inline(always)]
    unsafe fn link(&mut self, cell: Ref) {
        if self.last.is_null() {
            self.first = cell;
        } else {
            // SAFETY: promised by the caller.
            unsafe { *self.last.add(self.fields.ref_at(self.fields.refs - 1)).cast() = cell };
        }
        self.last = cell;
    }

    /// The same for a cell that is active if it has an owner.
    ///
    /// # Safety
    /// As [`Cells::link`].
    pub(crate) unsafe fn link_owned(&mut self, cell: Ref) {
        // SAFETY: promised by the caller.
        unsafe {
            if !heap::owner_of(cell).is_nobody() {
                // Whether the cell before is the last active one, so that all before it are active too.
                self.mixed |= self.active != self.last;
                self.active = cell;
            }
            self.link(cell);
        }
    }
}

impl<'a> Maker<'a> {
    pub(crate) fn new(heap: &'a mut Heap, tape: Option<&'a mut Tape>, account: &'a Account) -> Self {
        let owner = tape.as_ref().map_or(Owner::NOBODY, |tape| tape.owner());
        Maker { heap, tape, active: true, borrows: false, owner, watch: Watch::later(account) }
    }

    /// The same maker, lent, which copies arrays.
    pub(crate) fn lent(&mut self) -> Maker<'_> {
        let Maker { heap, tape, active, owner, watch, .. } = self;
        let tape = tape.as_deref_mut();
        Maker { heap, tape, active: *active, borrows: false, owner: *owner, watch: watch.again() }
    }

    /// Notes a step of work that doesn't take memory of the heap's.
    #[inline]
    pub(crate) fn tick(&self) -> Result<(), Limit> {
        self.watch.tick(1).map_err(out_of_time)
    }

    pub(super) fn owner_if(&self, active: bool) -> Owner {
        if active { self.owner } else { Owner::NOBODY }
    }

    /// Whether reals get slots from now on, if there is a tape; else they are constants.
    #[inline]
    pub(crate) fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    /// From now on long arrays of the host's stay where they are. At first they are copied.
    ///
    /// # Safety
    /// They are there, and nobody writes to them, as long as anything reads what was made of them: the run and sweeps
    /// of its tape.
    #[inline]
    pub(crate) unsafe fn borrow(&mut self) {
        self.borrows = true;
    }

    /// Slots for reals that follow each other: the first; none without a tape, and for constants.
    #[inline]
    pub(crate) fn slots(&mut self, count: usize) -> Result<Slot, Limit> {
        match &mut self.tape {
            Some(tape) if count > 0 && self.active => tape.reserve_slots(count as u64),
            _ => Ok(Slot::NONE),
        }
    }

    /// An array of reals, which the caller must write, and its elements.
    pub(crate) fn reals(&mut self, len: usize) -> Result<(Ref, *mut f64), Limit> {
        let first = self.slots(len)?;
        let array = self.array(Bank::Real, len)?;
        // SAFETY: the array's header and elements are part of it.
        unsafe {
            heap::set_first(array, first);
            heap::set_owner(array, self.owner_if(!first.is_none()));
            Ok((array, array.add(ARRAY_HEADER).cast()))
        }
    }

    /// An array of these reals.
    pub(crate) fn real_array(&mut self, xs: &[f64]) -> Result<Ref, Limit> {
        let (array, elements) = self.reals(xs.len())?;
        // SAFETY: the array has as many elements.
        unsafe { elements.copy_from_nonoverlapping(xs.as_ptr(), xs.len()) };
        Ok(array)
    }

    /// An array of these integers.
    pub(crate) fn int_array(&mut self, ns: &[i64]) -> Result<Ref, Limit> {
        let array = self.array(Bank::Int, ns.len())?;
        // SAFETY: the array has as many elements.
        unsafe { array.add(ARRAY_HEADER).cast::<i64>().copy_from_nonoverlapping(ns.as_ptr(), ns.len()) };
        Ok(array)
    }

    /// An array of these reals, which stay where they are if there are many and borrowing is allowed.
    #[inline]
    pub(crate) fn borrowed_reals(&mut self, xs: &[f64]) -> Result<Ref, Limit> {
        let Some(array) = self.borrowed(Bank::Real, xs)? else { return self.real_array(xs) };
        let first = self.slots(xs.len())?;
        // SAFETY: the array's header is part of it.
        unsafe {
            heap::set_first(array, first);
            heap::set_owner(array, self.owner_if(!first.is_none()));
        }
        Ok(array)
    }

    /// The same of integers.
    #[inline]
    pub(crate) fn borrowed_ints(&mut self, ns: &[i64]) -> Result<Ref, Limit> {
        match self.borrowed(Bank::Int, ns)? {
            Some(array) => Ok(array),
            None => self.int_array(ns),
        }
    }

    /// An array whose elements, numbers of this bank, stay where they are, with the slots of constants, if they may and
    /// it is long enough.
    fn borrowed<T: Copy>(&mut self, element: Bank, elements: &[T]) -> Result<Option<Ref>, Limit> {
        const { assert!(size_of::<T>() == size_of::<u64>() && align_of::<T>() == align_of::<u64>()) };
        let len = elements.len();
        if len < BORROWED_MIN || !self.borrows {
            return Ok(None);
        }
        let array = self.heap.allocate(heap::array_header(element), ARRAY_HEADER, 0, Roots::none())?;
        // SAFETY: the array's header is part of it. Whoever has allowed borrowing has promised the rest.
        unsafe {
            if !heap::borrow(array, elements.as_ptr().cast()) {
                *array.add(LEN) = 0;
                return Ok(None);
            }
            *array.add(LEN) = len as u64;
            heap::set_first(array, Slot::NONE);
        }
        Ok(Some(array))
    }

    /// Memory for an array; its elements are to be written.
    pub(crate) fn array(&mut self, element: Bank, len: usize) -> Result<Ref, Limit> {
        // A slice of what takes no memory, or a matrix without columns, may be longer than the address space.
        if len > WORDS_MAX {
            return Err(Limit::LiveBytes);
        }
        let array = self.heap.allocate(heap::array_header(element), ARRAY_HEADER + len, 0, Roots::none())?;
        // SAFETY: the array's header is part of it.
        unsafe {
            *array.add(LEN) = len as u64;
            heap::set_first(array, Slot::NONE);
        }
        Ok(array)
    }

    /// A list of `len` reals.
    pub(crate) fn real_list<E: From<Limit>>(
        &mut self,
        len: usize,
        mut element: impl FnMut(usize) -> Result<f64, E>,
    ) -> Result<Ref, E> {
        let first = self.slots(len)?;
        let owner = self.owner_if(!first.is_none());
        let header = heap::object_header(REAL_CELL, 1);
        let mut cells = Cells::new(REAL_CELL);
        for n in 0..len {
            let x = element(n)?;
            let cell = self.heap.allocate(header, REAL_CELL.size(), 0, Roots::none())?;
            // SAFETY: the object is a cell of this kind; the one before it waits for its rest.
            unsafe {
                heap::set_owner(cell, owner);
                *cell.add(REAL_CELL.real_at(0)).cast::<f64>() = x;
                *cell.add(REAL_CELL.word_at(0)).cast() = Word::from(first.element(n));
                cells.link(cell);
            }
        }
        Ok(self.list(cells)?)
    }

    /// A list of these integers.
    pub(crate) fn int_list(&mut self, ns: &[i64]) -> Result<Ref, Limit> {
        let header = heap::object_header(INT_CELL, 1);
        let mut cells = Cells::new(INT_CELL);
        for &n in ns {
            let cell = self.heap.allocate(header, INT_CELL.size(), 0, Roots::none())?;
            // SAFETY: the object is a cell of this kind; the one before it waits for its rest.
            unsafe {
                *cell.add(INT_CELL.int_at(0)).cast::<i64>() = n;
                cells.link(cell);
            }
        }
        self.list(cells)
    }

    /// The number of cells of a list whose elements are rows of `width` numbers.
    ///
    /// # Safety
    /// It is a complete list of such.
    pub(crate) unsafe fn list_len(&self, list: Ref, (bank, width): (Bank, usize)) -> Result<usize, Limit> {
        let rest = row_cell(bank, width).ref_at(0);
        let (mut cell, mut len) = (list, 0);
        // SAFETY: promised by the caller.
        unsafe {
            while heap::tag_of(*cell) != 0 {
                self.tick()?;
                len += 1;
                cell = *cell.add(rest).cast();
            }
        }
        Ok(len)
    }

    /// An array of the numbers in a list whose elements are rows of `width` numbers; without slots.
    ///
    /// # Safety
    /// It is a complete list of such.
    pub(crate) unsafe fn array_of_list(&mut self, list: Ref, (bank, width): (Bank, usize)) -> Result<Ref, Limit> {
        let fields = row_cell(bank, width);
        // SAFETY: promised by the caller; the array has room for all rows.
        unsafe {
            let len = self.list_len(list, (bank, width))?;
            let array = self.array(bank, len * width)?;
            let (mut cell, mut to) = (list, array.add(ARRAY_HEADER));
            for _ in 0..len {
                to.copy_from_nonoverlapping(cell.add(row_at(fields)), width);
                to = to.add(width);
                cell = *cell.add(fields.ref_at(0)).cast();
            }
            Ok(array)
        }
    }

    /// A list of the rows of `width` numbers that an array holds; of constants.
    ///
    /// # Safety
    /// It is a complete array of whole rows.
    pub(crate) unsafe fn list_of_array(&mut self, array: Ref, (bank, width): (Bank, usize)) -> Result<Ref, Limit> {
        let fields = row_cell(bank, width);
        let header = heap::object_header(fields, 1);
        let mut cells = Cells::new(fields);
        // SAFETY: promised by the caller. An object without an owner needs no words; the cell before waits for its
        // rest.
        unsafe {
            let (elements, len) = (heap::elements(array), *array.add(LEN) as usize / width);
            for n in 0..len {
                let cell = self.heap.allocate(header, fields.size(), 0, Roots::none())?;
                cell.add(row_at(fields)).copy_from_nonoverlapping(elements.add(n * width), width);
                cells.link(cell);
            }
        }
        self.list(cells)
    }

    /// A tensor of this shape, of constants, with an array of its elements.
    pub(crate) fn tensor(&mut self, shape: &[i64], array: Ref) -> Result<Ref, Limit> {
        let fields = Fields { reals: 0, ints: shape.len(), refs: 1 };
        let (tensor, places) = self.object(heap::shaped_header(fields), fields)?;
        // SAFETY: the object has these fields.
        unsafe {
            places.ints.copy_from_nonoverlapping(shape.as_ptr(), shape.len());
            *places.refs = array;
        }
        Ok(tensor)
    }

    /// Memory for a struct or a variant with this header, and where its fields are, which are to be written.
    #[inline]
    pub(crate) fn object(&mut self, header: u64, fields: Fields) -> Result<(Ref, Registers), Limit> {
        let object = self.heap.allocate(header, fields.size(), 0, Roots::none())?;
        // Fields that there are none of have a place, too, which nobody writes to.
        let places = Registers {
            reals: object.wrapping_add(fields.real_at(0)).cast(),
            words: object.wrapping_add(fields.word_at(0)).cast(),
            ints: object.wrapping_add(fields.int_at(0)).cast(),
            refs: object.wrapping_add(fields.ref_at(0)).cast(),
        };
        Ok((object, places))
    }

    /// Gives a struct or a variant its owner: the run's own task if there is a tape and one of the fields is active.
    ///
    /// # Safety
    /// The object has these fields, and reals, their words and the first `refs` references are written. Without a tape
    /// there may be no words.
    #[inline]
    pub(crate) unsafe fn own_object(&self, object: Ref, fields: Fields, refs: usize) {
        if self.tape.is_none() {
            return;
        }
        // SAFETY: promised by the caller.
        unsafe {
            let words = std::slice::from_raw_parts(object.add(fields.word_at(0)).cast::<Word>(), fields.reals);
            let refs = std::slice::from_raw_parts(object.add(fields.ref_at(0)).cast(), refs);
            let active = words.iter().any(|word| !word.is_constant()) || is_any_active(refs);
            heap::set_owner(object, self.owner_if(active));
        }
    }

    /// Gives an array of references its owner, as [`Maker::own_object`] does.
    ///
    /// # Safety
    /// It is one, and its elements are written.
    pub(crate) unsafe fn own_array(&self, array: Ref) {
        if self.tape.is_none() {
            return;
        }
        // SAFETY: promised by the caller.
        unsafe {
            let elements = std::slice::from_raw_parts(array.add(ARRAY_HEADER).cast(), *array.add(LEN) as usize);
            heap::set_owner(array, self.owner_if(is_any_active(elements)));
        }
    }

    /// The list of these cells.
    pub(crate) fn list(&mut self, cells: Cells) -> Result<Ref, Limit> {
        let empty = Fields::default();
        let empty = self.heap.allocate(heap::object_header(empty, 0), empty.size(), 0, Roots::none())?;
        if cells.first.is_null() {
            return Ok(empty);
        }
        let rest = cells.fields.ref_at(cells.fields.refs - 1);
        // SAFETY: the cells are complete but for the last one's rest.
        unsafe {
            *cells.last.add(rest).cast() = empty;
            let mut cell = cells.first;
            while cells.mixed && cell != cells.active {
                heap::set_owner(cell, self.owner);
                cell = *cell.add(rest).cast();
            }
        }
        Ok(cells.first)
    }
}

/// Whether one of these is not constant.
///
/// # Safety
/// They are objects.
unsafe fn is_any_active(objects: &[Ref]) -> bool {
    // SAFETY: promised by the caller.
    objects.iter().any(|&object| unsafe { !heap::owner_of(object).is_nobody() })
}
