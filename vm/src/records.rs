//! Records: what a tape holds of each thing that was recorded as one.
//!
//! A record is written once, forwards, and read backwards, so it ends with what tells its shape:
//!
//! ```text
//! … │ number (4 bytes) │ first slot of what it gives (4)
//! ```
//!
//! The number says of which [`Kind`] the record is, and for the first three of which segment, loop or region. Records
//! are multiples of 4 bytes, are not aligned to more, and never straddle two slabs. Slot 0 belongs to constants:
//! whatever is added to its adjoint is never read.
//!
//! There is a file for each kind, or for kinds that are alike: it owns the layout, with what writes it, what reads it
//! and what its sweep costs. Interpreter, native code and sweep take offsets from there and from nowhere else.

pub(crate) mod adjoints;
pub(crate) mod import;
pub(crate) mod link;
pub(crate) mod pack;
pub(crate) mod recorded_loop;
pub(crate) mod region;
#[cfg(all(test, not(loom)))]
pub(crate) mod scale;
pub(crate) mod segment;
pub(crate) mod strip;

use crate::word::{Owner, Slot};

/// Bytes of a record's number and first slot.
pub const TRAILER_BYTES: usize = 8;

/// Set in the numbers of all kinds but segments.
const NO_SEGMENT: u32 = 1 << 31;
/// Set in the numbers of regions besides.
const REGION: u32 = 1 << 30;
/// The number of the last kind counted from the end. Numbers of loops and regions are below.
const FIRST_PLAIN: u32 = u32::MAX - 15;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $(#[cfg($cfg:meta)])? $name:ident = $code:literal;)*) => {
        /// What a record is.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Kind {
            /// The record of the segment of this number.
            Segment(u32),
            /// The record of the loop of this number.
            Loop(u32),
            /// The record of the region of this number.
            Region(u32),
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $name,)*
        }

        // No code is given twice, and none is that of a loop. Kinds of the tests have the last codes.
        const _: () = {
            let mut taken = 0u16;
            $($(#[cfg($cfg)])? {
                assert!(taken & 1 << $code == 0, concat!(stringify!($name), " has the code of another kind"));
                taken |= 1 << $code;
            })*
            assert!(taken != 0);
        };

        impl Kind {
            /// The number at the end of such a record.
            pub(crate) const fn number(self) -> u32 {
                match self {
                    Kind::Segment(n) => n,
                    Kind::Loop(n) => n | NO_SEGMENT,
                    Kind::Region(n) => n | NO_SEGMENT | REGION,
                    $($(#[cfg($cfg)])? Kind::$name => u32::MAX - $code,)*
                }
            }

            /// The kind of a record with this number, which is not a segment's.
            fn other(number: u32) -> Kind {
                match u32::MAX - number {
                    $($(#[cfg($cfg)])? $code => Kind::$name,)*
                    _ => {
                        assert!(number < FIRST_PLAIN, "no kind of record has the number {number:#x}");
                        let place = number & !(NO_SEGMENT | REGION);
                        if number & REGION == 0 { Kind::Loop(place) } else { Kind::Region(place) }
                    }
                }
            }
        }
    };
}
kinds! {
    /// Consecutive slots for reals that had others.
    Pack = 0;
    /// Entries of a loop whose record stands in a later slab.
    Strip = 1;
    /// The way to the stretch before.
    Link = 2;
    /// The way to the stretch before, and to the tasks that ran in between.
    Fork = 3;
    /// The import of a slot.
    Import = 4;
    /// The import of a range.
    ImportRange = 5;
    /// The import of a range for the loop before it.
    LoopImport = 6;
    /// The loop before reads an array here and there.
    LoopScatter = 7;
    /// The way to the stretch before, and to a derivative operator that ran in between.
    Rerun = 8;
    /// A product with an element of an array.
    #[cfg(all(test, not(loom)))]
    Scale = 15;
}

impl Kind {
    /// The kind of a record with this number.
    #[inline(always)]
    pub(crate) fn of(number: u32) -> Kind {
        if number < NO_SEGMENT { Kind::Segment(number) } else { Kind::other(number) }
    }
}

/// The last 8 bytes of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trailer {
    pub(crate) kind: Kind,
    /// The first slot of what the record gives.
    pub(crate) first: Slot,
    /// Where it stands.
    pub(crate) at: *const u32,
}

impl Trailer {
    /// The trailer of the record that ends here.
    ///
    /// # Safety
    /// A record ends there, which a tape has written.
    #[inline(always)]
    pub(crate) unsafe fn before(end: *const u8) -> Trailer {
        // SAFETY: promised by the caller: a record ends with its number and its first slot.
        unsafe {
            let at: *const u32 = end.sub(TRAILER_BYTES).cast();
            Trailer { kind: Kind::of(at.read_unaligned()), first: at.add(1).cast::<Slot>().read_unaligned(), at }
        }
    }
}

/// Numbers of 8 bytes that stand in a record: reals, then integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Numbers {
    /// How many reals there are.
    pub reals: usize,
    /// How many integers there are.
    pub ints: usize,
}

impl Numbers {
    /// Where the n-th real stands, in bytes from the first.
    pub const fn real(self, n: usize) -> usize {
        8 * n
    }

    /// Where the n-th integer stands, in bytes from the first real.
    pub const fn int(self, n: usize) -> usize {
        8 * (self.reals + n)
    }

    /// Their size.
    pub const fn bytes(self) -> usize {
        8 * (self.reals + self.ints)
    }

    /// Loads all numbers into registers.
    ///
    /// # Safety
    /// So many numbers stand at `from`, not aligned, and the two lists of registers have room for them.
    #[inline(always)]
    pub(crate) unsafe fn load(self, from: *const u8, reals: *mut f64, ints: *mut i64) {
        // SAFETY: promised by the caller.
        unsafe {
            for n in 0..self.reals {
                *reals.add(n) = from.add(self.real(n)).cast::<f64>().read_unaligned();
            }
            for n in 0..self.ints {
                *ints.add(n) = from.add(self.int(n)).cast::<i64>().read_unaligned();
            }
        }
    }
}

/// Writes the parts of a record one after the other.
#[derive(Debug)]
pub(crate) struct Writer(*mut u8);

impl Writer {
    /// Begins a record.
    ///
    /// # Safety
    /// From `start` on there is room for all that is written, and nobody else uses it meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn new(start: *mut u8) -> Writer {
        Writer(start)
    }

    /// A number or an address of 8 bytes.
    #[inline(always)]
    pub(crate) fn wide(&mut self, value: u64) {
        self.put(value);
    }

    /// Numbers, from registers.
    ///
    /// # Safety
    /// The frame has the registers.
    #[inline(always)]
    pub(crate) unsafe fn numbers(&mut self, regs: [&[u16]; 2], reals: *const f64, ints: *const i64) {
        // SAFETY: promised by the caller.
        unsafe {
            regs[0].iter().for_each(|&reg| self.wide((*reals.add(usize::from(reg))).to_bits()));
            regs[1].iter().for_each(|&reg| self.wide(*ints.add(usize::from(reg)) as u64));
        }
    }

    /// A number of 4 bytes.
    #[inline(always)]
    pub(crate) fn narrow(&mut self, value: u32) {
        self.put(value);
    }

    /// A byte.
    #[inline(always)]
    pub(crate) fn byte(&mut self, value: u8) {
        self.put(value);
    }

    /// A slot.
    #[inline(always)]
    pub(crate) fn slot(&mut self, slot: Slot) {
        self.put(slot);
    }

    /// A task whose slots the record names.
    #[inline(always)]
    pub(crate) fn owner(&mut self, owner: Owner) {
        self.put(owner);
    }

    /// The end of the record.
    #[inline(always)]
    pub(crate) fn trailer(&mut self, kind: Kind, first: Slot) {
        self.narrow(kind.number());
        self.slot(first);
    }

    /// Bytes as they stand in memory.
    #[inline(always)]
    fn put<T: Copy>(&mut self, value: T) {
        // SAFETY: `new` was promised the room.
        unsafe {
            self.0.cast::<T>().write_unaligned(value);
            self.0 = self.0.add(size_of::<T>());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_number() {
        let plain = [
            Kind::Pack,
            Kind::Strip,
            Kind::Link,
            Kind::Fork,
            Kind::Import,
            Kind::ImportRange,
            Kind::LoopImport,
            Kind::LoopScatter,
            Kind::Rerun,
            Kind::Scale,
        ];
        for kind in plain
            .into_iter()
            .chain([Kind::Segment(0), Kind::Segment(NO_SEGMENT - 1), Kind::Loop(0), Kind::Loop(7)])
            .chain([Kind::Region(0), Kind::Region(7)])
        {
            assert_eq!(Kind::of(kind.number()), kind);
        }
    }
}
