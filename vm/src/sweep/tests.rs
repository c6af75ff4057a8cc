//! What records may do that none does outside of tests in this form: refer to objects, which live and move with the
//! heap's evacuations until the sweep.

use super::{Seed, Sweep};
use crate::bytecode::isa::Bank;
use crate::bytecode::module::ModuleDef;
use crate::memory::heap::{ARRAY_HEADER, Heap, HeapLimits, LEN, Ref, Roots, array_header, set_first};
use crate::memory::pool::SlabPool;
use crate::memory::stack::Extent;
use crate::records::scale;
use crate::running::constants::Constants;
use crate::running::limits::Limits;
use crate::running::meter::Account;
use crate::running::program::Program;
use crate::running::workers::{RunInfo, Workers};
use crate::tape::Tape;
use crate::word::{Owner, Slot};
use std::sync::Arc;

/// A heap and a tape, as a worker has them.
struct Recorder {
    heap: Heap,
    tape: Tape,
}

impl Recorder {
    fn new(account: &Account) -> Self {
        let pool = Arc::new(SlabPool::default());
        let mut recorder = Recorder { heap: Heap::new(pool.clone()), tape: Tape::new(pool) };
        recorder.heap.begin(HeapLimits { allocated_bytes: u64::MAX, live_bytes: 1 << 30 }, account);
        recorder.tape.begin(1 << 30, account);
        recorder
    }

    /// An array of `len` reals, the first of which is written. Nothing refers to it but a record that is made of it.
    fn array_of(&mut self, element: f64, len: usize) -> Ref {
        let roots = Roots { frames: &mut [], kept: Some(self.tape.kept()) };
        let words = ARRAY_HEADER + len;
        let array = self.heap.allocate(array_header(Bank::Real), words, 0, roots).expect("there is room");
        // SAFETY: the array has so many words.
        unsafe {
            *array.add(LEN) = len as u64;
            set_first(array, Slot::NONE);
            *array.add(ARRAY_HEADER).cast::<f64>() = element;
        }
        array
    }

    fn array(&mut self, element: f64) -> Ref {
        self.array_of(element, 1)
    }

    /// Records a product with an array's element. Returns the product's slot.
    fn scale(&mut self, slot: Slot, array: Ref) -> Slot {
        let cell = self.tape.keep(array).expect("there is room");
        let (start, product) = self.tape.record(scale::BYTES, 1, 1).expect("there is room");
        // SAFETY: there is room for the record.
        unsafe { scale::write(start, cell, slot, product) };
        product
    }

    /// Makes arrays that nothing refers to, until the heap has been evacuated several times.
    fn churn(&mut self) {
        for n in 0..2_000 {
            self.array_of(f64::from(n), 2_000);
        }
        assert!(self.heap.held() < 32 << 20, "garbage is freed");
    }
}

#[test]
fn a_record_keeps_what_it_refers_to_and_follows_it() {
    let mut account = Account::default();
    account.begin(&Limits::default(), None);
    let program = Program::new(ModuleDef::default(), Box::default(), |_| None);
    let mut recorder = Recorder::new(&account);
    let x = recorder.tape.reserve_slots(1).expect("there is room");
    let array = recorder.array(2.0);
    let mut y = recorder.scale(x, array);
    recorder.churn();
    let moved = *recorder.tape.kept().young().next().expect("the array is kept");
    assert_ne!(moved, array, "an evacuation moves what is small");
    for factor in [3.0, 0.5, -7.0] {
        let array = recorder.array(factor);
        y = recorder.scale(y, array);
        recorder.churn();
    }
    recorder.tape.finish();
    let (workers, limits) = (Workers::new(Arc::new(SlabPool::default()), Extent::of(0)), Limits::default());
    let constants = Constants::new(workers.slabs());
    let info = RunInfo::new(&workers, (&account, &constants), &program, &limits, false);
    let mut sweep = Sweep::new(Extent::of(0));
    let seed = Seed { owner: Owner::NOBODY, slot: y, adjoint: 1.0 };
    // SAFETY: the run has ended, and its tape is there.
    unsafe { sweep.run(recorder.tape.root(), &[seed], &info, None) }.expect("nothing stops it");
    assert_eq!(sweep.adjoints()[x.index()], 2.0 * 3.0 * 0.5 * -7.0);
}

#[test]
fn a_task_moves_its_own_references_only() {
    let mut account = Account::default();
    account.begin(&Limits::default(), None);
    let mut recorder = Recorder::new(&account);
    let outer = recorder.array(2.0);
    recorder.tape.keep(outer).expect("there is room");
    let (floor, kept) = (recorder.heap.raise_floor(), recorder.tape.raise_floor());
    let inner = recorder.array(3.0);
    recorder.tape.keep(inner).expect("there is room");
    recorder.churn();
    let young: Vec<Ref> = recorder.tape.kept().young().map(|cell| *cell).collect();
    assert!(young.len() == 1 && young[0] != inner, "the task's own object has moved");
    recorder.heap.restore_floor(floor);
    recorder.tape.restore_floor(kept);
    let all: Vec<Ref> = recorder.tape.kept().young().map(|cell| *cell).collect();
    assert_eq!(all, [outer, young[0]]);
    recorder.churn();
    let elements = recorder.tape.kept().young().map(|array| {
        // SAFETY: the cells hold arrays of one real.
        unsafe { *array.add(ARRAY_HEADER).cast::<f64>() }
    });
    assert_eq!(elements.collect::<Vec<_>>(), [2.0, 3.0]);
}
