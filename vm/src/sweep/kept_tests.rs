//! Records that refer to objects: what they refer to lives and moves with the heap's evacuations until the sweep.

use super::{Seed, Sweep};
use crate::bytecode::isa::Bank;
use crate::bytecode::module::ModuleDef;
use crate::memory::heap::{ARRAY_HEADER, Heap, HeapLimits, LEN, Ref, Roots, array_header, set_first};
use crate::memory::pool::SlabPool;
use crate::memory::stack::Extent;
use crate::records::scale;
use crate::running::limits::Limits;
use crate::running::meter::Account;
use crate::running::program::Program;
use crate::tape::Tape;
use crate::word::{Owner, Slot};
use std::sync::Arc;

/// A heap and a tape, as a strand has them.
struct Strand {
    heap: Heap,
    tape: Tape,
}

impl Strand {
    fn new(account: &Account) -> Self {
        let pool = Arc::new(SlabPool::default());
        let mut strand = Strand { heap: Heap::new(pool.clone()), tape: Tape::new(pool) };
        strand.heap.begin(HeapLimits { allocated_bytes: u64::MAX, live_bytes: 1 << 30 }, account);
        strand.tape.begin(1 << 30, account);
        strand
    }

    /// An array of one real, to which nothing refers but the record that is made of it.
    fn array(&mut self, element: f64) -> Ref {
        let roots = Roots { frames: &mut [], kept: self.tape.kept() };
        let words = ARRAY_HEADER + 1;
        let array = self.heap.allocate(array_header(Bank::Real), words, 0, roots).expect("there is room");
        // SAFETY: the array has so many words.
        unsafe {
            *array.add(LEN) = 1;
            set_first(array, Slot::NONE);
            *array.add(ARRAY_HEADER).cast::<f64>() = element;
        }
        array
    }

    /// Records a product with an array's element. Returns the product's slot.
    fn scale(&mut self, slot: Slot, array: Ref) -> Slot {
        let cell = self.tape.kept().keep(array);
        let (start, product) = self.tape.record(scale::BYTES, 1, 1).expect("there is room");
        // SAFETY: there is room for the record.
        unsafe { scale::write(start, cell, slot, product) };
        product
    }

    /// Makes arrays that nothing refers to, until the heap has been evacuated several times.
    fn churn(&mut self) {
        for n in 0..1_000_000 {
            self.array(f64::from(n));
        }
        assert!(self.heap.held() < 32 << 20, "garbage is freed");
    }
}

#[test]
fn a_record_keeps_what_it_refers_to_and_follows_it() {
    let mut account = Account::default();
    account.begin(&Limits::default(), None);
    let program = Program::new(ModuleDef::default(), None);
    let mut strand = Strand::new(&account);
    let x = strand.tape.reserve_slots(1).expect("there is room");
    let array = strand.array(2.0);
    let mut y = strand.scale(x, array);
    strand.churn();
    let moved = *strand.tape.kept().young().next().expect("the array is kept");
    assert_ne!(moved, array, "an evacuation moves what is small");
    for factor in [3.0, 0.5, -7.0] {
        let array = strand.array(factor);
        y = strand.scale(y, array);
        strand.churn();
    }
    strand.tape.finish();
    let mut sweep = Sweep::new(Extent::of(0));
    let seed = Seed { owner: Owner::NOBODY, slot: y, adjoint: 1.0 };
    // SAFETY: the run has ended, and its tape is there.
    unsafe { sweep.run(strand.tape.root(), &[seed], &program, &account, None) }.expect("nothing stops it");
    assert_eq!(sweep.adjoints()[x.index()], 2.0 * 3.0 * 0.5 * -7.0);
}

#[test]
fn a_task_moves_its_own_references_only() {
    let mut account = Account::default();
    account.begin(&Limits::default(), None);
    let mut strand = Strand::new(&account);
    let outer = strand.array(2.0);
    strand.tape.kept().keep(outer);
    let (floor, kept) = (strand.heap.raise_floor(), strand.tape.raise_floor());
    let inner = strand.array(3.0);
    strand.tape.kept().keep(inner);
    strand.churn();
    let young: Vec<Ref> = strand.tape.kept().young().map(|cell| *cell).collect();
    assert!(young.len() == 1 && young[0] != inner, "the task's own object has moved");
    strand.heap.restore_floor(floor);
    strand.tape.restore_floor(kept);
    let all: Vec<Ref> = strand.tape.kept().young().map(|cell| *cell).collect();
    assert_eq!(all, [outer, young[0]]);
    strand.churn();
    let elements = strand.tape.kept().young().map(|array| {
        // SAFETY: the cells hold arrays of one real.
        unsafe { *array.add(ARRAY_HEADER).cast::<f64>() }
    });
    assert_eq!(elements.collect::<Vec<_>>(), [2.0, 3.0]);
}
