//! Registers and heap objects to values.

use super::flatten::Misshapen;
use super::registers;
use super::row::Row;
use crate::bytecode::isa::Bank;
use crate::bytecode::module::{DataDef, DataId, HostType};
use crate::embedding::value::{VALUE_DEPTH_MAX, Value};
use crate::memory::heap::{self, Fields, LEN, Ref};
use crate::running::meter::{Account, Watch, out_of_time};
use crate::running::registers::Registers;
use crate::trap::Limit;
use crate::word::{Owner, Slot, Word};

/// A real of a result: the task whose slot it has, and the slot; none for constants.
pub(crate) type ResultSlot = (Owner, Slot);

/// Why a result can't become a value.
pub enum ReadError {
    /// It nests deeper than [`VALUE_DEPTH_MAX`].
    Depth,
    /// A tensor has another number of elements than its shape says.
    Shape { shape: Vec<i64>, elements: usize },
    /// The host's type can't have this shape.
    Misshapen(Box<Misshapen>),
    /// The value takes too much memory.
    Limit(Limit),
}

impl ReadError {
    /// Another shape was found than the host's type has.
    #[cold]
    pub(crate) fn misshapen(expected: String, found: String) -> Self {
        ReadError::Misshapen(Misshapen::new(expected, found))
    }

    /// The error of a part, seen from what it is a part of.
    #[cold]
    pub(crate) fn inside(mut self, step: &str) -> Self {
        if let ReadError::Misshapen(misshapen) = &mut self {
            misshapen.inside(step);
        }
        self
    }
}

impl From<Limit> for ReadError {
    fn from(limit: Limit) -> Self {
        ReadError::Limit(limit)
    }
}

/// The registers, fields or elements that are still to be read.
pub struct Cursor<'a> {
    reals: &'a [f64],
    /// The words of the reals, in a recording run; empty in a primal one, where objects have none, and for elements of
    /// arrays of reals.
    words: &'a [Word],
    /// The slot of the next real that has no word: elements' follow each other.
    next: Slot,
    ints: &'a [i64],
    refs: &'a [Ref],
    /// The task whose slots the words are; nobody: the run's own.
    owner: Owner,
}

impl<'a> Cursor<'a> {
    /// The first registers of a run that has ended: as many as `results` says.
    ///
    /// # Safety
    /// The run has so many results, it was a recording one if so said, and no other one begins while the cursor lives.
    pub(crate) unsafe fn of_results(registers: Registers, results: Fields, recorded: bool) -> Self {
        let Fields { reals, ints, refs } = results;
        // SAFETY: promised by the caller.
        unsafe {
            Cursor {
                reals: std::slice::from_raw_parts(registers.reals, reals),
                words: std::slice::from_raw_parts(registers.words, if recorded { reals } else { 0 }),
                next: Slot::NONE,
                ints: std::slice::from_raw_parts(registers.ints, ints),
                refs: std::slice::from_raw_parts(registers.refs, refs),
                owner: Owner::NOBODY,
            }
        }
    }

    /// Registers of a text.
    ///
    /// # Safety
    /// What the references lead to is complete, and stays where it is while the cursor lives.
    pub(crate) unsafe fn of_registers(reals: &'a [f64], ints: &'a [i64], refs: &'a [Ref]) -> Self {
        Cursor { reals, words: &[], next: Slot::NONE, ints, refs, owner: Owner::NOBODY }
    }

    /// The fields of an object. It has words if it has an owner: else there may be none, and all reals are constants.
    ///
    /// # Safety
    /// `object` is a complete struct or variant, which outlives the cursor, of a recording run if so said.
    pub(super) unsafe fn of(object: Ref, recorded: bool) -> Self {
        // SAFETY: the header says how many fields there are, and they stand one after the other.
        unsafe {
            let (fields, owner) = (heap::fields_of(*object), heap::owner_of(object));
            let has_words = recorded && !owner.is_nobody();
            Cursor {
                reals: std::slice::from_raw_parts(object.add(fields.real_at(0)).cast(), fields.reals),
                words: std::slice::from_raw_parts(
                    object.add(fields.word_at(0)).cast(),
                    if has_words { fields.reals } else { 0 },
                ),
                next: Slot::NONE,
                ints: std::slice::from_raw_parts(object.add(fields.int_at(0)).cast(), fields.ints),
                refs: std::slice::from_raw_parts(object.add(fields.ref_at(0)).cast(), fields.refs),
                owner,
            }
        }
    }

    /// A real, without its word.
    pub(super) fn primal(&mut self) -> f64 {
        let x = self.reals[0];
        self.reals = &self.reals[1..];
        x
    }

    /// Passes the registers of a value.
    pub(super) fn pass(&mut self, ty: &HostType) {
        let Fields { reals, ints, refs } = registers(ty);
        (self.reals, self.ints, self.refs) = (&self.reals[reals..], &self.ints[ints..], &self.refs[refs..]);
    }

    pub(crate) fn int(&mut self) -> i64 {
        let n = self.ints[0];
        self.ints = &self.ints[1..];
        n
    }

    pub(crate) fn object(&mut self) -> Ref {
        let object = self.refs[0];
        self.refs = &self.refs[1..];
        object
    }
}

/// The elements of an array, one of which is read at a time.
pub(super) struct Elements {
    elements: *const u64,
    /// The registers of an element.
    fields: Fields,
    /// How many cells an element takes, if these are the registers themselves and no reference to a struct of them.
    width: Option<usize>,
    owner: Owner,
    first: Slot,
}

impl Elements {
    /// # Safety
    /// `array` is a complete array of elements of this type, which outlives the result.
    pub(super) unsafe fn of(array: Ref, element: &HostType) -> Self {
        let fields = registers(element);
        let width = fields.row().map(|(_, width)| width);
        // SAFETY: promised by the caller.
        let (owner, first, elements) = unsafe { (heap::owner_of(array), heap::first_of(array), heap::elements(array)) };
        Elements { elements, fields, width, owner, first }
    }

    /// How many there are.
    ///
    /// # Safety
    /// `array` is theirs.
    pub(super) unsafe fn len(&self, array: Ref) -> usize {
        // SAFETY: promised by the caller; the length counts cells.
        unsafe { *array.add(LEN) as usize / self.width.unwrap_or(1) }
    }

    /// The n-th one.
    ///
    /// # Safety
    /// There are so many, in a recording run if so said.
    #[inline]
    pub(super) unsafe fn at(&self, n: usize, recorded: bool) -> Cursor<'_> {
        // SAFETY: promised by the caller; elements are stored as `HostType::Array` says.
        unsafe {
            let Some(width) = self.width else {
                return Cursor::of(*self.elements.add(n).cast(), recorded);
            };
            let cell = self.elements.add(n * width);
            let Fields { reals, ints, refs } = self.fields;
            Cursor {
                reals: std::slice::from_raw_parts(cell.cast(), reals),
                words: &[],
                next: self.first.element(n * width),
                ints: std::slice::from_raw_parts(cell.cast(), ints),
                refs: std::slice::from_raw_parts(cell.cast(), refs),
                owner: self.owner,
            }
        }
    }
}

/// Reads values that take about so many bytes at most: objects may share parts, values can't, so a value may be
/// exponentially larger than the heap that it is read from.
pub struct Reader<'m> {
    data: &'m [DataDef],
    /// Bytes of what was read.
    bytes: u64,
    bytes_max: u64,
    account: &'m Account,
    /// Looks at the clock where a list is followed.
    watch: Watch<'m>,
    /// How many parts deep in the result.
    steps: usize,
    /// Whether what is read is a derivative, so that discrete parts are null.
    derivative: bool,
    /// The direction of the tangents that are read, and how many there are: arrays of reals have those of an element in
    /// all directions side by side.
    lane: usize,
    lanes: usize,
    /// The slots of the reals so far, in a recording run.
    slots: Option<Vec<ResultSlot>>,
}

impl<'m> Reader<'m> {
    /// Reads values of about `bytes_max` bytes together; notes the slots of their reals after a recording run.
    pub(crate) fn new(data: &'m [DataDef], bytes_max: u64, recorded: bool, account: &'m Account) -> Self {
        let watch = Watch::later(account);
        Reader {
            data,
            bytes: 0,
            bytes_max,
            account,
            watch,
            steps: 0,
            derivative: false,
            lane: 0,
            lanes: 1,
            slots: recorded.then(Vec::new),
        }
    }

    /// The same reader, which notes no slots.
    pub(crate) fn without_slots(mut self) -> Self {
        self.slots = None;
        self
    }

    /// What is read next is the tangent in one of so many directions.
    pub(crate) fn set_lane(&mut self, lane: usize, lanes: usize) {
        (self.lane, self.lanes) = (lane, lanes);
    }

    /// Reads the tangent of the result of a run, whose registers those of the cursor are. Slots are noted no more.
    pub(crate) fn tangent(&mut self, ty: &HostType, mut tangents: Cursor<'_>) -> Result<Value, ReadError> {
        (self.derivative, self.slots) = (true, None);
        self.read(ty, &mut tangents)
    }

    /// Reads the reals of the tangent of the result of a run, in their order.
    pub(crate) fn reals_of_tangent(mut self, ty: &HostType, mut tangents: Cursor<'_>) -> Result<Vec<f64>, ReadError> {
        (self.derivative, self.slots) = (true, None);
        let mut reals = Vec::new();
        self.read_reals(ty, &mut tangents, &mut reals)?;
        Ok(reals)
    }

    /// Reads the tangent of the result of a recorded run, and notes the slots of its reals.
    pub(crate) fn tangent_with_slots(&mut self, ty: &HostType, mut tangents: Cursor<'_>) -> Result<Value, ReadError> {
        (self.derivative, self.slots) = (true, Some(Vec::new()));
        self.read(ty, &mut tangents)
    }

    /// Reads the result of a run, whose registers those of the cursor are.
    pub(crate) fn result(&mut self, ty: &HostType, mut results: Cursor<'_>) -> Result<Value, ReadError> {
        self.read(ty, &mut results)
    }

    /// The slots of all reals that were read, in their order.
    pub(crate) fn into_slots(self) -> Vec<ResultSlot> {
        self.slots.unwrap_or_default()
    }

    fn read(&mut self, ty: &HostType, from: &mut Cursor<'_>) -> Result<Value, ReadError> {
        match ty {
            HostType::Real => self.real(from).map(Value::Real),
            HostType::Int | HostType::Bool if self.derivative => Ok(Value::Null),
            HostType::Int => Ok(Value::Int(from.int())),
            HostType::Bool => Ok(Value::Bool(from.int() != 0)),
            HostType::Tuple(types) => self.tuple(types, from),
            HostType::Record(types) => self.record(types, from),
            // SAFETY: the reference leads to a complete array of the heap, which the verified type says.
            HostType::Array { element, .. } => unsafe { self.array(element, from.object()) },
            // SAFETY: the reference leads to a complete tensor of the heap, which the verified type says.
            HostType::Tensor { .. } => unsafe { self.tensor(ty, from.object()) },
            // SAFETY: the reference leads to a complete list of the heap, which the verified type says.
            HostType::List { element, .. } => unsafe { self.list(element, from.object()) },
            // SAFETY: the reference leads to a complete object of the data type's heap type, as the verified type says.
            HostType::Data { data, .. } => unsafe { self.variant(*data, from.object()) },
        }
    }

    /// Appends the reals of a derivative.
    fn read_reals(&mut self, ty: &HostType, from: &mut Cursor<'_>, to: &mut Vec<f64>) -> Result<(), ReadError> {
        if self.steps == VALUE_DEPTH_MAX {
            return Err(ReadError::Depth);
        }
        self.steps += 1;
        match ty {
            HostType::Real => {
                self.take_bytes(1, size_of::<f64>())?;
                to.push(from.primal());
            }
            // A derivative has none.
            HostType::Int | HostType::Bool => {}
            HostType::Tuple(types) => types.iter().try_for_each(|ty| self.read_reals(ty, from, to))?,
            HostType::Record(types) => types.iter().try_for_each(|(_, ty)| self.read_reals(ty, from, to))?,
            // SAFETY: the reference leads to a complete array of the heap, which the verified type says.
            HostType::Array { element, .. } => unsafe { self.reals_of_array(element, from.object(), to) }?,
            HostType::Tensor { .. } => {
                let element = ty.element().expect("a tensor has elements");
                // SAFETY: the reference leads to a complete tensor of the heap, which the verified type says.
                unsafe {
                    let (_, array) = self.tensor_parts(ty, from.object())?;
                    self.reals_of_array(element, array, to)?;
                }
            }
            HostType::List { element, .. } => {
                let mut cell = from.object();
                // SAFETY: the reference leads to a complete list of the heap, which the verified type says. A cell has
                // the element's fields and then, as the last reference, the rest.
                unsafe {
                    while heap::tag_of(*cell) != 0 {
                        self.tick()?;
                        let mut fields = Cursor::of(cell, false);
                        self.read_reals(element, &mut fields, to)?;
                        cell = fields.object();
                    }
                }
            }
            HostType::Data { data, .. } => {
                let object = from.object();
                // SAFETY: the reference leads to a complete object of the data type's heap type, as the verified type
                // says.
                let (tag, mut fields) = unsafe { (heap::tag_of(*object), Cursor::of(object, false)) };
                self.read_reals(&self.data[data.index()].variants[tag as usize].1, &mut fields, to)?;
            }
        }
        self.steps -= 1;
        Ok(())
    }

    /// Appends the reals of an array.
    ///
    /// # Safety
    /// `array` is a complete array of elements of this type.
    unsafe fn reals_of_array(&mut self, element: &HostType, array: Ref, to: &mut Vec<f64>) -> Result<(), ReadError> {
        // SAFETY: promised by the caller.
        unsafe {
            let elements = Elements::of(array, element);
            let len = elements.len(array);
            // Reals themselves aren't deeper than their array.
            let row = if element.is_real() { Row::of(element) } else { self.row(element) };
            if let Some(row) = row {
                if row.bank == Bank::Real {
                    self.append_reals(array, to)?;
                }
                return Ok(());
            }
            for n in 0..len {
                self.tick()?;
                self.read_reals(element, &mut elements.at(n, false), to)?;
            }
            Ok(())
        }
    }

    /// Appends the elements of an array of reals, or the tangents of these in the direction that is read.
    ///
    /// # Safety
    /// `array` is a complete array of reals, of tangents in all directions if there are several.
    unsafe fn append_reals(&mut self, array: Ref, to: &mut Vec<f64>) -> Result<(), ReadError> {
        // SAFETY: promised by the caller; the length counts the elements.
        let cells: &[f64] =
            unsafe { std::slice::from_raw_parts(heap::elements(array).cast(), *array.add(LEN) as usize) };
        self.take_bytes(cells.len() / self.lanes, size_of::<f64>())?;
        match self.lanes {
            1 => to.extend_from_slice(cells),
            lanes => {
                to.reserve(cells.len() / lanes);
                let mut at = self.lane;
                while let Some(&tangent) = cells.get(at) {
                    to.push(tangent);
                    at += lanes;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn real(&mut self, from: &mut Cursor<'_>) -> Result<f64, ReadError> {
        let x = from.reals[0];
        from.reals = &from.reals[1..];
        if self.slots.is_some() {
            let slot = match from.words.split_first() {
                Some((word, rest)) => {
                    from.words = rest;
                    word.slot()
                }
                None => {
                    let slot = from.next;
                    from.next = slot.element(1);
                    slot
                }
            };
            self.take_slots(from.owner, slot, 1)?;
        }
        Ok(x)
    }

    /// Notes the slots of reals that follow each other; none stands for constants.
    fn take_slots(&mut self, owner: Owner, first: Slot, count: usize) -> Result<(), ReadError> {
        if self.slots.is_some() {
            self.take_bytes(count, size_of::<ResultSlot>())?;
        }
        if let Some(slots) = &mut self.slots {
            slots.extend((0..count).map(|n| (owner, first.element(n))));
        }
        Ok(())
    }

    /// Reads a part of what is being read.
    fn part(&mut self, ty: &HostType, from: &mut Cursor<'_>) -> Result<Value, ReadError> {
        if self.steps == VALUE_DEPTH_MAX {
            return Err(ReadError::Depth);
        }
        self.steps += 1;
        let value = self.read(ty, from);
        self.steps -= 1;
        value
    }

    fn take_bytes(&mut self, count: usize, bytes_each: usize) -> Result<(), ReadError> {
        /// Bytes between two looks at the clock.
        const STRIDE: u64 = 1 << 18;
        let bytes = (count as u64).checked_mul(bytes_each as u64).and_then(|bytes| self.bytes.checked_add(bytes));
        let bytes = bytes.filter(|&bytes| bytes <= self.bytes_max).ok_or(ReadError::Limit(Limit::LiveBytes))?;
        let before = std::mem::replace(&mut self.bytes, bytes);
        if before / STRIDE != bytes / STRIDE {
            // A value that is given up half-way has to be freed, which takes about as long as filling it.
            self.account.time_to_fill(bytes as usize)?;
        }
        Ok(())
    }

    fn tuple(&mut self, types: &[HostType], from: &mut Cursor<'_>) -> Result<Value, ReadError> {
        self.take_bytes(types.len(), size_of::<Value>())?;
        let mut parts = Vec::with_capacity(types.len());
        for ty in types {
            parts.push(self.part(ty, from)?);
        }
        Ok(Value::Tuple(parts))
    }

    fn record(&mut self, types: &[(String, HostType)], from: &mut Cursor<'_>) -> Result<Value, ReadError> {
        self.take_bytes(types.len(), size_of::<(String, Value)>())?;
        let mut parts = Vec::with_capacity(types.len());
        for (name, ty) in types {
            self.take_bytes(name.len(), 1)?;
            parts.push((name.clone(), self.part(ty, from)?));
        }
        Ok(Value::Record(parts))
    }

    /// # Safety
    /// `object` is a complete object of the data type's heap type.
    unsafe fn variant(&mut self, data: DataId, object: Ref) -> Result<Value, ReadError> {
        // SAFETY: promised by the caller.
        let (tag, mut fields) = unsafe { (heap::tag_of(*object), Cursor::of(object, self.slots.is_some())) };
        let (name, payload) = &self.data[data.index()].variants[tag as usize];
        self.take_bytes(name.len() + size_of::<Value>(), 1)?;
        let payload = self.read(payload, &mut fields)?;
        Ok(Value::variant(name.as_str(), payload))
    }

    /// # Safety
    /// `cell` is a complete list of elements of this type.
    unsafe fn list(&mut self, element: &HostType, mut cell: Ref) -> Result<Value, ReadError> {
        // SAFETY: promised by the caller. A cell has the element's fields and then, as the last reference, the rest.
        unsafe {
            if element.is_real() {
                return Ok(Value::Reals(self.real_list(cell)?));
            }
            let len = self.list_len(cell)?;
            self.take_bytes(len, size_of::<Value>())?;
            let mut items = Vec::with_capacity(len);
            while heap::tag_of(*cell) != 0 {
                let mut fields = Cursor::of(cell, self.slots.is_some());
                items.push(self.part(element, &mut fields)?);
                cell = fields.object();
            }
            Ok(Value::Array(items))
        }
    }

    /// # Safety
    /// `cell` is a complete list of reals.
    pub(crate) unsafe fn real_list(&mut self, cell: Ref) -> Result<Vec<f64>, ReadError> {
        let mut reals = Vec::new();
        // SAFETY: promised by the caller.
        unsafe { self.real_list_into(cell, &mut reals) }?;
        Ok(reals)
    }

    /// Reads a list over what was there.
    ///
    /// # Safety
    /// `cell` is a complete list of reals.
    pub(crate) unsafe fn real_list_into(&mut self, mut cell: Ref, to: &mut Vec<f64>) -> Result<(), ReadError> {
        to.clear();
        // SAFETY: promised by the caller. A cell has a real and the rest.
        unsafe {
            let len = self.list_len(cell)?;
            self.take_bytes(len, size_of::<f64>())?;
            to.reserve_exact(len);
            while heap::tag_of(*cell) != 0 {
                self.tick()?;
                let mut fields = Cursor::of(cell, self.slots.is_some());
                to.push(self.real(&mut fields)?);
                cell = fields.object();
            }
            Ok(())
        }
    }

    /// Reads a list over what was there.
    ///
    /// # Safety
    /// `cell` is a complete list of integers or booleans.
    pub(crate) unsafe fn int_list_into(&mut self, mut cell: Ref, to: &mut Vec<i64>) -> Result<(), ReadError> {
        to.clear();
        // SAFETY: promised by the caller. A cell has an integer and the rest.
        unsafe {
            let len = self.list_len(cell)?;
            self.take_bytes(len, size_of::<i64>())?;
            to.reserve_exact(len);
            while heap::tag_of(*cell) != 0 {
                self.tick()?;
                let mut fields = Cursor::of(cell, false);
                to.push(fields.int());
                cell = fields.object();
            }
            Ok(())
        }
    }

    /// # Safety
    /// `array` is a complete array of reals.
    pub(crate) unsafe fn real_array(&mut self, array: Ref) -> Result<Vec<f64>, ReadError> {
        let mut reals = Vec::new();
        // SAFETY: promised by the caller; the length counts the elements.
        unsafe {
            self.take_slots(heap::owner_of(array), heap::first_of(array), *array.add(LEN) as usize)?;
            self.append_reals(array, &mut reals)?;
        }
        Ok(reals)
    }

    /// # Safety
    /// `array` is a complete array of integers or booleans.
    pub(crate) unsafe fn int_array(&mut self, array: Ref) -> Result<Vec<i64>, ReadError> {
        // SAFETY: promised by the caller; the length counts the elements.
        unsafe {
            let len = *array.add(LEN) as usize;
            self.take_bytes(len, size_of::<i64>())?;
            Ok(std::slice::from_raw_parts(heap::elements(array).cast(), len).to_vec())
        }
    }

    /// Reads an array, each element with `read`.
    ///
    /// # Safety
    /// `array` is a complete array of elements of this type.
    pub(crate) unsafe fn array_of<T>(
        &mut self,
        element: &HostType,
        array: Ref,
        mut read: impl FnMut(&mut Cursor<'_>, &mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        // SAFETY: promised by the caller.
        unsafe {
            let elements = Elements::of(array, element);
            let len = elements.len(array);
            self.take_bytes(len, size_of::<T>())?;
            let mut items = Vec::with_capacity(len);
            for n in 0..len {
                // Elements may be of no bytes, and an array may be read again and again.
                self.tick()?;
                let item = read(&mut elements.at(n, self.slots.is_some()), self);
                items.push(item.map_err(|error| error.inside(&format!("[{n}]")))?);
            }
            Ok(items)
        }
    }

    /// Reads a list, each element with `read`.
    ///
    /// # Safety
    /// `cell` is a complete list of elements of the type that `read` reads.
    pub(crate) unsafe fn list_of<T>(
        &mut self,
        mut cell: Ref,
        mut read: impl FnMut(&mut Cursor<'_>, &mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        // SAFETY: promised by the caller. A cell has the element's fields and then, as the last reference, the rest.
        unsafe {
            let len = self.list_len(cell)?;
            self.take_bytes(len, size_of::<T>())?;
            let mut items = Vec::with_capacity(len);
            while heap::tag_of(*cell) != 0 {
                self.tick()?;
                let mut fields = Cursor::of(cell, self.slots.is_some());
                let item = read(&mut fields, self);
                items.push(item.map_err(|error| error.inside(&format!("[{}]", items.len())))?);
                cell = fields.object();
            }
            Ok(items)
        }
    }

    /// The shape of a tensor and the array of its elements, of which there are as many as the shape says.
    ///
    /// # Safety
    /// `tensor` is a complete tensor of this type, and stays where it is while the shape is in use.
    pub(crate) unsafe fn tensor_parts<'t>(&self, ty: &HostType, tensor: Ref) -> Result<(&'t [i64], Ref), ReadError> {
        let element = ty.element().expect("a tensor has elements");
        // SAFETY: promised by the caller: the verifier has compared the fields.
        let (shape, array) = unsafe { heap::tensor(tensor) };
        // SAFETY: the array is one of these elements.
        let len = unsafe { self.count(element, array) };
        if heap::elements_of_shape(shape) != Some(len) {
            return Err(ReadError::Shape { shape: shape.to_vec(), elements: len });
        }
        Ok((shape, array))
    }

    /// Reads a tensor as arrays of its slices.
    ///
    /// # Safety
    /// `tensor` is a complete tensor of this type.
    unsafe fn tensor(&mut self, ty: &HostType, tensor: Ref) -> Result<Value, ReadError> {
        let element = ty.element().expect("a tensor has elements");
        // SAFETY: promised by the caller.
        let (shape, array) = unsafe { self.tensor_parts(ty, tensor) }?;
        // Elements stand as many steps inside as there are dimensions, one of which is the array's.
        let steps = self.steps + ty.rank() - 1;
        if steps > VALUE_DEPTH_MAX {
            return Err(ReadError::Depth);
        }
        let outside = std::mem::replace(&mut self.steps, steps);
        // SAFETY: the same.
        let items = unsafe { self.array(element, array) };
        self.steps = outside;
        let mut items = items?;
        // From the last dimension, whose rows are what stands there, to the first one.
        for (n, &extent) in shape.iter().enumerate().skip(1).rev() {
            let count: usize = shape[..n].iter().map(|&n| n as usize).product();
            self.take_bytes(count, size_of::<Value>())?;
            items = Value::Array(split(items, count, extent as usize));
        }
        Ok(items)
    }

    /// # Safety
    /// `array` is a complete array of elements of this type.
    unsafe fn array(&mut self, element: &HostType, array: Ref) -> Result<Value, ReadError> {
        // SAFETY: promised by the caller.
        unsafe {
            if element.is_real() {
                return Ok(Value::Reals(self.real_array(array)?));
            }
            let elements = Elements::of(array, element);
            let len = self.count(element, array);
            if let Some(row) = self.row(element) {
                return self.rows(&row, array, len);
            }
            self.take_bytes(len, size_of::<Value>())?;
            let mut items = Vec::with_capacity(len);
            for n in 0..len {
                let mut from = elements.at(n, self.slots.is_some());
                items.push(self.part(element, &mut from)?);
            }
            Ok(Value::Array(items))
        }
    }

    /// How many elements of this type an array has.
    ///
    /// # Safety
    /// `array` is a complete array of such.
    unsafe fn count(&self, element: &HostType, array: Ref) -> usize {
        // SAFETY: promised by the caller.
        let len = unsafe { Elements::of(array, element).len(array) };
        if matches!(registers(element).row(), Some((Bank::Real, _))) { len / self.lanes } else { len }
    }

    /// The rows that elements of this type are, unless they are too deep.
    fn row<'t>(&self, element: &'t HostType) -> Option<Row<'t>> {
        Row::of(element).filter(|row| self.steps + row.depth < VALUE_DEPTH_MAX)
    }

    /// # Safety
    /// `array` is a complete array of so many of these rows.
    unsafe fn rows(&mut self, row: &Row<'_>, array: Ref, len: usize) -> Result<Value, ReadError> {
        /// Rows between two looks at the clock.
        const STRIDE: usize = 1 << 10;
        let lanes = if row.bank == Bank::Real { self.lanes } else { 1 };
        let width = row.width * lanes;
        // SAFETY: promised by the caller.
        let cells: &[u64] = unsafe {
            if row.bank == Bank::Real {
                self.take_slots(heap::owner_of(array), heap::first_of(array), len * row.width)?;
            }
            std::slice::from_raw_parts(heap::elements(array), len * width)
        };
        self.take_bytes(len, size_of::<Value>())?;
        let mut items = Vec::with_capacity(len);
        for some in cells.chunks(STRIDE * width) {
            self.take_bytes(some.len() / width, row.bytes)?;
            self.watch.tick(some.len() / lanes).map_err(|kind| ReadError::Limit(out_of_time(kind)))?;
            some.chunks_exact(width).for_each(|cells| {
                let cells = cells.iter().copied();
                items.push(match (self.derivative, lanes) {
                    (true, 1) => row.derivative(cells.map(f64::from_bits)),
                    (true, _) => row.derivative(cells.skip(self.lane).step_by(lanes).map(f64::from_bits)),
                    (false, _) => row.value(cells),
                });
            });
        }
        Ok(Value::Array(items))
    }

    /// The number of elements. Counting first costs less than moving elements when a vector grows.
    ///
    /// # Safety
    /// `cell` is a complete list.
    unsafe fn list_len(&self, mut cell: Ref) -> Result<usize, ReadError> {
        let mut len = 0;
        // SAFETY: promised by the caller. The rest is a cell's last reference.
        unsafe {
            while heap::tag_of(*cell) != 0 {
                self.tick()?;
                let fields = heap::fields_of(*cell);
                cell = *cell.add(fields.ref_at(fields.refs - 1)).cast();
                len += 1;
            }
        }
        Ok(len)
    }

    #[inline]
    fn tick(&self) -> Result<(), ReadError> {
        self.watch.tick(1).map_err(|kind| ReadError::Limit(out_of_time(kind)))
    }
}

/// So many parts of a sequence, of so many items each.
fn split(mut items: Value, count: usize, each: usize) -> Vec<Value> {
    match &mut items {
        Value::Reals(xs) => (0..count).map(|n| Value::Reals(xs[n * each..][..each].to_vec())).collect(),
        Value::Array(items) => {
            let mut items = std::mem::take(items).into_iter();
            (0..count).map(|_| Value::Array(items.by_ref().take(each).collect())).collect()
        }
        _ => unreachable!("a sequence is split"),
    }
}
