//! What arguments become: registers, and objects that are made of the registers written last.
//!
//! Nothing here knows of values or of types of the host: both ways to hand over arguments write through a [`Store`].

use crate::bytecode::isa::Bank;
use crate::memory::heap::{self, ARRAY_HEADER, FIRST, Fields, Heap, LEN, OWNER, Ref, Roots};
use crate::memory::kept::Kept;
use crate::running::interp::Arguments;
use crate::running::meter::{Account, Watch, out_of_time};
use crate::tape::Tape;
use crate::trap::Limit;

/// The fields of a cell of a list of reals: the element and the rest.
const REAL_CELL: Fields = Fields { reals: 1, ints: 0, refs: 1 };

/// Appends to registers. With a tape, every real gets a slot, in the order in which they are written.
///
/// What becomes the content of an object is appended first and then moved into it, from the end of the registers. While
/// arguments are written nothing names their parts, so that the heap must be paused.
pub struct Store<'a> {
    pub(super) heap: &'a mut Heap,
    pub(super) tape: Option<&'a mut Tape>,
    pub(super) to: &'a mut Arguments,
    /// The owner of what is active: the run's own task.
    owner: u64,
    watch: Watch<'a>,
}

/// A list that is being written, first cell first.
pub(super) struct Cells {
    fields: Fields,
    first: Ref,
    last: Ref,
    /// The last cell that is active by its element.
    active: Ref,
    /// Whether an active cell follows one that isn't: the owner of that one is not final.
    mixed: bool,
}

impl Cells {
    /// No cells yet. `fields` are those of a cell, the rest of the list included.
    pub(super) fn new(fields: Fields) -> Self {
        let null = std::ptr::null_mut();
        Cells { fields, first: null, last: null, active: null, mixed: false }
    }
}

impl<'a> Store<'a> {
    /// Begins with no registers.
    pub(crate) fn new(
        heap: &'a mut Heap,
        tape: Option<&'a mut Tape>,
        to: &'a mut Arguments,
        account: &'a Account,
    ) -> Self {
        to.reals.clear();
        to.words.clear();
        to.ints.clear();
        to.refs.clear();
        let owner = tape.as_ref().map_or(0, |tape| tape.owner());
        Store { heap, tape, to, owner, watch: Watch::later(account) }
    }

    /// Notes a step of work that doesn't take memory of the heap's.
    #[inline]
    pub(super) fn tick(&self) -> Result<(), Limit> {
        self.watch.tick(1).map_err(out_of_time)
    }

    fn owner_if(&self, active: bool) -> u64 {
        if active { self.owner } else { 0 }
    }

    fn slots(&mut self, count: usize) -> Result<u32, Limit> {
        match &mut self.tape {
            Some(tape) if count > 0 => tape.reserve_slots(count as u64),
            _ => Ok(0),
        }
    }

    pub(crate) fn real(&mut self, x: f64) -> Result<(), Limit> {
        let slot = self.slots(1)?;
        self.to.reals.push(x);
        self.to.words.push(u64::from(slot));
        Ok(())
    }

    pub(crate) fn int(&mut self, n: i64) {
        self.to.ints.push(n);
    }

    /// Appends an array of these reals.
    pub(crate) fn real_array(&mut self, xs: &[f64]) -> Result<(), Limit> {
        let elements = self.reals_of_array(xs.len())?;
        // SAFETY: the array has as many elements.
        unsafe { elements.copy_from_nonoverlapping(xs.as_ptr(), xs.len()) };
        Ok(())
    }

    /// Appends an array of reals, which the caller must write.
    pub(super) fn reals_of_array(&mut self, len: usize) -> Result<*mut f64, Limit> {
        let first = self.slots(len)?;
        let array = self.array(Bank::Real, len)?;
        // SAFETY: the array's header and elements are part of it.
        unsafe {
            *array.add(FIRST) = u64::from(first);
            *array.add(OWNER) = self.owner_if(first != 0);
            self.to.refs.push(array);
            Ok(array.add(ARRAY_HEADER).cast())
        }
    }

    /// Appends a list of `len` reals.
    pub(crate) fn real_list<E: From<Limit>>(
        &mut self,
        len: usize,
        mut element: impl FnMut(usize) -> Result<f64, E>,
    ) -> Result<(), E> {
        let first = u64::from(self.slots(len)?);
        let owner = self.owner_if(first != 0);
        let header = heap::object_header(REAL_CELL, 1);
        let mut cells = Cells::new(REAL_CELL);
        for n in 0..len {
            let x = element(n)?;
            let cell = self.heap.allocate(
                header,
                REAL_CELL.size(),
                0,
                Roots { frames: &mut [], kept: &mut Kept::default() },
            )?;
            // SAFETY: the object is a cell of this kind; the one before it waits for its rest.
            unsafe {
                *cell.add(OWNER) = owner;
                *cell.add(REAL_CELL.real_at(0)).cast::<f64>() = x;
                *cell.add(REAL_CELL.word_at(0)) = if first == 0 { 0 } else { first + n as u64 };
                link(&mut cells, cell);
            }
        }
        Ok(self.end(cells)?)
    }

    /// Moves the last registers, those of an element, into a new cell.
    pub(super) fn cell(&mut self, cells: &mut Cells) -> Result<(), Limit> {
        let Fields { reals, ints, refs } = cells.fields;
        let cell = self.fields(1, cells.fields, Fields { reals, ints, refs: refs - 1 })?;
        // SAFETY: the object is a cell; the one before it waits for its rest.
        unsafe {
            if *cell.add(OWNER) != 0 {
                // Whether the cell before is the last active one, so that all before it are active too.
                cells.mixed |= cells.active != cells.last;
                cells.active = cell;
            }
            link(cells, cell);
        }
        Ok(())
    }

    /// Appends the list of these cells.
    pub(super) fn end(&mut self, cells: Cells) -> Result<(), Limit> {
        let empty = self.fields(0, Fields::default(), Fields::default())?;
        if cells.first.is_null() {
            self.to.refs.push(empty);
            return Ok(());
        }
        let rest = cells.fields.ref_at(cells.fields.refs - 1);
        // SAFETY: the cells are complete but for the last one's rest.
        unsafe {
            *cells.last.add(rest).cast() = empty;
            let mut cell = cells.first;
            while cells.mixed && cell != cells.active {
                *cell.add(OWNER) = self.owner;
                cell = *cell.add(rest).cast();
            }
        }
        self.to.refs.push(cells.first);
        Ok(())
    }

    /// Moves the last registers into a new struct or variant, and appends that.
    pub(super) fn object(&mut self, tag: u32, fields: Fields) -> Result<(), Limit> {
        let object = self.fields(tag, fields, fields)?;
        self.to.refs.push(object);
        Ok(())
    }

    /// Moves the last registers, as many as `filled` says, into the first fields of a new struct or variant.
    fn fields(&mut self, tag: u32, fields: Fields, filled: Fields) -> Result<Ref, Limit> {
        let object = self.heap.allocate(
            heap::object_header(fields, tag),
            fields.size(),
            0,
            Roots { frames: &mut [], kept: &mut Kept::default() },
        )?;
        let Arguments { reals, words, ints, refs } = &mut *self.to;
        let (real, int) = (reals.len() - filled.reals, ints.len() - filled.ints);
        let reference = refs.len() - filled.refs;
        // SAFETY: the object has fields for these registers; references lead to objects of this heap.
        unsafe {
            let words_active = words[real..].iter().any(|&word| word != 0);
            let refs_active = refs[reference..].iter().any(|object| *object.add(OWNER) != 0);
            *object.add(OWNER) = if words_active || refs_active { self.owner } else { 0 };
            copy(&reals[real..], object.add(fields.real_at(0)).cast());
            copy(&words[real..], object.add(fields.word_at(0)));
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
        let array = self.array(bank, len)?;
        let Arguments { reals, words, ints, refs } = &mut *self.to;
        // SAFETY: the array has `len` elements of the bank; references lead to objects of this heap.
        unsafe {
            let elements = array.add(ARRAY_HEADER);
            match bank {
                Bank::Real => {
                    let at = reals.len() - len;
                    copy(&reals[at..], elements.cast());
                    // Reals that were written one after the other have consecutive slots.
                    *array.add(FIRST) = words.get(at).copied().unwrap_or(0);
                    *array.add(OWNER) = if *array.add(FIRST) == 0 { 0 } else { self.owner };
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
                    let active = refs[at..].iter().any(|object| *object.add(OWNER) != 0);
                    *array.add(OWNER) = if active { self.owner } else { 0 };
                    copy(&refs[at..], elements.cast());
                    refs.truncate(at);
                }
            }
        }
        self.to.refs.push(array);
        Ok(())
    }

    /// Memory for an array; its elements are to be written.
    fn array(&mut self, element: Bank, len: usize) -> Result<Ref, Limit> {
        let array = self.heap.allocate(
            heap::array_header(element),
            ARRAY_HEADER + len,
            0,
            Roots { frames: &mut [], kept: &mut Kept::default() },
        )?;
        // SAFETY: the array's header is part of it.
        unsafe {
            *array.add(LEN) = len as u64;
            *array.add(FIRST) = 0;
        }
        Ok(array)
    }
}

/// Makes `cell` the rest of the cell before it.
///
/// # Safety
/// `cell` and the cells before it have the fields of `cells`.
#[inline(always)]
unsafe fn link(cells: &mut Cells, cell: Ref) {
    if cells.last.is_null() {
        cells.first = cell;
    } else {
        // SAFETY: promised by the caller.
        unsafe { *cells.last.add(cells.fields.ref_at(cells.fields.refs - 1)).cast() = cell };
    }
    cells.last = cell;
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
