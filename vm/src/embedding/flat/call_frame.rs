//! What a caller keeps between flat calls: the memory of a run, with what the last call has left there.

use super::FlatFunction;
use super::signature::{FlatSignature, Leaf, LeafKind};
use super::value::{CotangentError, FlatValue};
use crate::code::Counts;
use crate::embedding::convert::REAL_CELL;
use crate::embedding::engine::{CallOptions, Function, Invocation, RunError, RunState, Stats};
use crate::memory::heap::{self, Fields, LEN, Ref};
use crate::running::registers::Registers;
use crate::sweep::Seed;
use crate::word::{Owner, Word};
use std::sync::Arc;

/// The memory of flat calls, and what the last one of them has left there.
///
/// A frame may be used by any functions, one after the other, of any engine. It is one thread's at a time: each thread
/// that calls needs one of its own. What a call uses stays with the frame until its next call or until
/// [`CallFrame::clear`]: stacks, and as much of the engine's memory as values and tape of the run take. So a call with
/// a frame that was used before, by the same function, allocates nothing.
///
/// Results and gradients are read where the run has left them, and are gone with the next call. Only arguments that the
/// program gives back as they came are copied.
#[derive(Debug, Default)]
pub struct CallFrame {
    /// Limits and a cancel handle of calls with this frame.
    options: CallOptions,
    timed: bool,
    attached: Option<Attached>,
    residue: Residue,
    /// Whether the last call was [`FlatFunction::record`], which copies its arguments, so that it can be swept when it
    /// has ended.
    is_for_later: bool,
    /// Where the derivatives of the function's parameters begin among those of all their reals, and their end.
    starts: Vec<usize>,
    /// The results that are lists.
    lists: Vec<Elements>,
    /// Their tangents.
    tangent_lists: Vec<Elements>,
    seeds: Vec<Seed>,
    /// The reals of the tangents of a call.
    pub(super) tangents: Vec<f64>,
}

/// The function that was called last, and the memory of a run on its engine.
#[derive(Debug)]
struct Attached {
    function: FlatFunction,
    state: Box<RunState>,
}

/// What the last call has left in a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Residue {
    /// Nothing: there was none, or it has failed.
    #[default]
    Nothing,
    /// Results.
    Results,
    /// Results and their tangents.
    Tangents,
    /// A result, its gradient, and behind that how the gradient changes.
    Product,
    /// Results and a tape.
    Tape,
    /// Results, a tape, and the adjoints of the last sweep.
    Gradient,
}

/// The elements of a list, of one of these kinds.
#[derive(Debug, Default)]
struct Elements {
    reals: Vec<f64>,
    ints: Vec<i64>,
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<CallFrame>();
};

impl CallFrame {
    /// An empty frame.
    pub fn new() -> Self {
        CallFrame::default()
    }

    /// An empty frame for calls with these options.
    pub fn with_options(options: CallOptions) -> Self {
        let mut frame = CallFrame::new();
        frame.options = options;
        frame
    }

    /// The options of calls with this frame.
    pub fn options(&self) -> &CallOptions {
        &self.options
    }

    /// The options of calls with this frame, to be changed. Those of a recorded run are good for its pullbacks, too, so
    /// what is left of the last call goes.
    pub fn options_mut(&mut self) -> &mut CallOptions {
        self.residue = Residue::Nothing;
        &mut self.options
    }

    /// Whether [`CallFrame::stats`] tells times. Off at first: to look at the clock takes as long as a small program.
    pub fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// Gives everything back to the engine that the last call has left.
    pub fn clear(&mut self) {
        self.residue = Residue::Nothing;
        if let Some(Attached { function, state }) = self.attached.take() {
            function.signature().function.engine().put_back(state);
        }
    }

    /// The results of the last call, if it has succeeded.
    pub fn results(&self) -> Option<FlatResults<'_>> {
        (self.residue >= Residue::Results).then_some(FlatResults { frame: self })
    }

    /// The gradient that the last call has left, if that was one.
    pub fn gradient(&self) -> Option<FlatGradient<'_>> {
        let behind = match self.residue {
            Residue::Gradient => 0,
            Residue::Product => self.tangents.len(),
            _ => return None,
        };
        Some(FlatGradient { frame: self, behind })
    }

    /// The product of the Hessian that the last call has left, if that was one.
    pub fn product(&self) -> Option<FlatGradient<'_>> {
        (self.residue == Residue::Product).then_some(FlatGradient { frame: self, behind: 0 })
    }

    /// The tangents of the results that the last call has left, if that was one with tangents.
    pub fn tangents(&self) -> Option<FlatTangents<'_>> {
        (self.residue == Residue::Tangents).then_some(FlatTangents { frame: self })
    }

    /// The run of the last call, if that was [`FlatFunction::record`]. What else takes gradients leaves the arguments
    /// where they are, and so no run that could be swept again.
    pub fn recorded(&mut self) -> Option<RecordedCall<'_>> {
        (self.residue >= Residue::Tape && self.is_for_later).then_some(RecordedCall { frame: self })
    }

    /// What the last call has used, with the pullbacks of a recorded run; `None` if it has failed.
    pub fn stats(&self) -> Option<Stats> {
        (self.residue >= Residue::Results).then(|| self.state().stats())
    }

    /// Makes the frame one of this function, and forgets the last call.
    #[inline]
    pub(super) fn begin<'a>(&'a mut self, function: &'a FlatFunction) -> Invocation<'a> {
        self.begin_as(function, &function.signature().function)
    }

    /// The same, to run this in place of the function.
    #[inline]
    pub(super) fn begin_as<'a>(&'a mut self, function: &FlatFunction, runs: &'a Function) -> Invocation<'a> {
        (self.residue, self.is_for_later) = (Residue::Nothing, false);
        if !self.attached.as_ref().is_some_and(|last| last.function.is(function)) {
            self.adopt(function);
        }
        let CallFrame { options, timed, attached, .. } = self;
        let Attached { state, .. } = attached.as_mut().expect("the frame has adopted the function");
        Invocation::begin(runs, options, state).timed_if(*timed)
    }

    #[cold]
    #[inline(never)]
    fn adopt(&mut self, function: &FlatFunction) {
        let signature = function.signature();
        let engine = signature.function.engine();
        let function = function.clone();
        match &mut self.attached {
            Some(last) if last.function.signature().function.engine().is(engine) => last.function = function,
            _ => {
                self.clear();
                self.attached = Some(Attached { function, state: engine.state() });
            }
        }
        self.lists.resize_with(signature.result_lists, Elements::default);
        self.tangent_lists.resize_with(signature.result_lists, Elements::default);
        self.starts.clear();
        self.starts.push(0);
        let mut next = 0;
        for leaf in &signature.params {
            next += usize::from(leaf.has_derivative());
            self.starts.push(next);
        }
    }

    /// Notes where the derivatives of these arguments will be.
    pub(super) fn place(&mut self, args: &[FlatValue<'_>]) {
        let attached = self.attached.as_ref().expect("a function was called");
        let mut next = 0;
        for ((start, arg), leaf) in self.starts[1..].iter_mut().zip(args).zip(&attached.function.signature().params) {
            next += match arg {
                FlatValue::Real(_) if leaf.active => 1,
                FlatValue::Reals(xs) if leaf.active => xs.len(),
                FlatValue::Real(_) | FlatValue::Reals(_) => 0,
                FlatValue::Null | FlatValue::Int(_) | FlatValue::Ints(_) => 0,
            };
            *start = next;
        }
    }

    /// How many derivatives the last call's arguments have.
    pub(super) fn derivatives(&self) -> usize {
        self.starts.last().map_or(0, |&end| end)
    }

    /// Says whether the call can be swept when it has ended.
    #[inline]
    pub(super) fn set_for_later(&mut self, for_later: bool) {
        self.is_for_later = for_later;
    }

    /// The call has succeeded.
    #[inline]
    pub(super) fn leave(&mut self, residue: Residue) -> Result<(), RunError> {
        if !self.lists.is_empty() {
            self.copy_lists(false)?;
            if residue == Residue::Tangents {
                self.copy_lists(true)?;
            }
        }
        if self.signature().gives_tensors {
            self.check_shapes()?;
        }
        if !self.is_for_later {
            self.own_results(false)?;
            if residue == Residue::Tangents {
                self.own_results(true)?;
            }
        }
        self.residue = residue;
        Ok(())
    }

    /// Copies results, or their tangents, that are arrays of the host's: arguments that the program has handed on.
    fn own_results(&mut self, tangents: bool) -> Result<(), RunError> {
        let CallFrame { options, attached, .. } = self;
        let Attached { function, state } = attached.as_mut().expect("a function was called");
        let (signature, mut bottom) = (function.signature(), state.worker.bottom());
        if tangents {
            bottom = behind_results(signature, bottom);
        }
        for leaf in &signature.results {
            let is_array = match leaf.kind() {
                LeafKind::Reals => leaf.list.is_none(),
                LeafKind::Ints | LeafKind::Bools => leaf.list.is_none() && !tangents,
                LeafKind::Real | LeafKind::Int | LeafKind::Bool | LeafKind::Shape => false,
            };
            if !is_array {
                continue;
            }
            // SAFETY: the run has ended, and the leaf's register leads to an array, or to a tensor, whose only
            // reference does. Those that are borrowed are those of the call, whose arguments are still there.
            unsafe {
                let register = bottom.refs.add(leaf.register);
                let array = sequence_of(leaf, *register);
                if heap::is_borrowed(*array) {
                    let run = Invocation::of(&signature.function, options, state);
                    run.time_to_fill(size_of::<u64>() * *array.add(LEN) as usize)?;
                    let copy = run.state.worker.exec.heap.own(array).map_err(|limit| run.stopped(limit))?;
                    let place = if leaf.rank() > 0 { heap::array_of_tensor(*register) } else { register };
                    *place = copy;
                }
            }
        }
        Ok(())
    }

    /// Copies results that are lists, or their tangents.
    fn copy_lists(&mut self, tangents: bool) -> Result<(), RunError> {
        let CallFrame { options, attached, lists, tangent_lists, .. } = self;
        let Attached { function, state } = attached.as_mut().expect("a function was called");
        let (signature, mut bottom) = (function.signature(), state.worker.bottom());
        let lists = if tangents { tangent_lists } else { lists };
        if tangents {
            bottom = behind_results(signature, bottom);
        }
        let run = Invocation::of(&signature.function, options, state);
        let mut reader = run.reader().without_slots();
        for leaf in &signature.results {
            let Some(list) = leaf.list.filter(|_| !tangents || leaf.kind().is_real()) else { continue };
            let Elements { reals, ints } = &mut lists[list];
            // SAFETY: the run has ended, and the leaf's register leads to a list of the leaf's kind.
            let read = unsafe {
                let list = *bottom.refs.add(leaf.register);
                if leaf.kind() == LeafKind::Reals {
                    reader.real_list_into(list, reals)
                } else {
                    reader.int_list_into(list, ints)
                }
            };
            read.map_err(|error| run.unreadable(error))?;
        }
        Ok(())
    }

    /// Sees that results that are tensors have as many elements as their shapes say.
    fn check_shapes(&self) -> Result<(), RunError> {
        let signature = self.signature();
        for leaf in signature.results.iter().filter(|leaf| leaf.rank() > 0 && leaf.kind() != LeafKind::Shape) {
            // SAFETY: the run has ended; the leaf's register leads to a tensor, and that to its array.
            let (shape, len) = unsafe {
                let (shape, array) = heap::tensor(*self.state().worker.bottom().refs.add(leaf.register));
                (shape, *array.add(LEN) as usize)
            };
            let width = leaf.width();
            if heap::elements_of_shape(shape).and_then(|count| count.checked_mul(width)) != Some(len) {
                let function = signature.function.name().to_owned();
                return Err(RunError::ResultShape { function, shape: shape.to_vec(), elements: len / width });
            }
        }
        Ok(())
    }

    /// Sweeps the tape of the last call from these cotangents; in a call of its own, or in the one that has recorded.
    pub(super) fn pull_back(&mut self, cotangents: &[FlatValue<'_>], own_call: bool) -> Result<(), RunError> {
        self.residue = Residue::Tape;
        let CallFrame { options, timed, attached, seeds, lists, .. } = self;
        let Attached { function, state } = attached.as_mut().expect("a function was called");
        let signature = function.signature();
        let run = if own_call { Invocation::resume } else { Invocation::of };
        let mut run = run(&signature.function, options, state).timed_if(*timed);
        seed(signature, &run, lists, cotangents, seeds)?;
        run.sweep(seeds)?;
        self.residue = Residue::Gradient;
        Ok(())
    }

    /// The same from the cotangent 1 of the only result, a real, which it returns.
    #[inline]
    fn pull_back_scalar(&mut self) -> Result<f64, RunError> {
        let CallFrame { options, timed, attached, .. } = self;
        let Attached { function, state } = attached.as_mut().expect("a function was called");
        let mut run = Invocation::of(&function.signature().function, options, state).timed_if(*timed);
        let value = run.sweep_of_scalar()?;
        self.residue = Residue::Gradient;
        Ok(value)
    }

    /// The memory of the last call.
    #[inline]
    fn state(&self) -> &RunState {
        &self.attached.as_ref().expect("a function was called").state
    }

    #[inline]
    pub(super) fn signature(&self) -> &FlatSignature {
        self.attached.as_ref().expect("a function was called").function.signature()
    }

    /// A result of the last call, which has succeeded.
    #[inline]
    fn result(&self, leaf: &Leaf) -> FlatValue<'_> {
        // SAFETY: the run has ended, and its results stand in their registers until the next one.
        unsafe { self.read(leaf, self.state().worker.bottom(), &self.lists) }
    }

    /// The tangent of such a result.
    fn tangent(&self, leaf: &Leaf) -> FlatValue<'_> {
        if !leaf.kind().is_real() {
            return FlatValue::Null;
        }
        let at = behind_results(self.signature(), self.state().worker.bottom());
        // SAFETY: as for results; the call had tangents.
        unsafe { self.read(leaf, at, &self.tangent_lists) }
    }

    /// What stands at a leaf of the result's type.
    ///
    /// # Safety
    /// A value of that type stands in the registers from here on.
    #[inline]
    unsafe fn read<'f>(&'f self, leaf: &Leaf, bottom: Registers, lists: &'f [Elements]) -> FlatValue<'f> {
        // SAFETY: promised by the caller. An array has as many elements as its header says, and a tensor has an array.
        unsafe {
            match (leaf.kind(), leaf.list) {
                (LeafKind::Real, _) => FlatValue::Real(*bottom.reals.add(leaf.register)),
                (LeafKind::Int | LeafKind::Bool, _) => FlatValue::Int(*bottom.ints.add(leaf.register)),
                (LeafKind::Reals, Some(list)) => FlatValue::Reals(&lists[list].reals),
                (LeafKind::Ints | LeafKind::Bools, Some(list)) => FlatValue::Ints(&lists[list].ints),
                (LeafKind::Shape, _) => FlatValue::Ints(heap::integers(*bottom.refs.add(leaf.register))),
                (kind, None) => {
                    let array = sequence_of(leaf, *bottom.refs.add(leaf.register));
                    let (len, elements) = (*array.add(LEN) as usize, heap::elements(array));
                    if kind == LeafKind::Reals {
                        FlatValue::Reals(std::slice::from_raw_parts(elements.cast(), len))
                    } else {
                        FlatValue::Ints(std::slice::from_raw_parts(elements.cast(), len))
                    }
                }
            }
        }
    }
}

impl Drop for CallFrame {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Where tangents of results are: integers have none.
fn behind_results(signature: &FlatSignature, bottom: Registers) -> Registers {
    let Fields { reals, refs, .. } = signature.result_registers;
    bottom.after(&Counts { reals, ints: 0, refs })
}

/// What has the elements of a leaf: the object in its register, or the array in that if it is a tensor.
///
/// # Safety
/// `object` is what stands in the leaf's register.
unsafe fn sequence_of(leaf: &Leaf, object: Ref) -> Ref {
    // SAFETY: promised by the caller.
    if leaf.rank() > 0 { unsafe { heap::tensor(object).1 } } else { object }
}

/// The seeds of a sweep from these cotangents. What is constant needs none.
fn seed(
    signature: &FlatSignature,
    run: &Invocation<'_>,
    lists: &[Elements],
    cotangents: &[FlatValue<'_>],
    seeds: &mut Vec<Seed>,
) -> Result<(), RunError> {
    if cotangents.len() != signature.results.len() {
        return Err(CotangentError::count(signature, cotangents.len()).into());
    }
    let bottom = run.state.worker.bottom();
    seeds.clear();
    for (leaf, &cotangent) in signature.results.iter().zip(cotangents) {
        match (leaf.kind(), cotangent) {
            (LeafKind::Real, FlatValue::Real(adjoint)) => {
                // SAFETY: the run was recorded, and has this result.
                let slot = unsafe { *bottom.words.add(leaf.register) }.slot();
                if !slot.is_none() {
                    seeds.push(Seed { owner: Owner::NOBODY, slot, adjoint });
                }
            }
            (LeafKind::Reals, FlatValue::Reals(adjoints)) => {
                // SAFETY: the register leads to an array or a list of reals, or to a tensor of them.
                let object = unsafe { sequence_of(leaf, *bottom.refs.add(leaf.register)) };
                let len = match leaf.list {
                    Some(list) => lists[list].reals.len(),
                    // SAFETY: it is an array.
                    None => unsafe { *object.add(LEN) as usize },
                };
                if adjoints.len() != len {
                    return Err(CotangentError::length(signature, leaf, len, adjoints.len()).into());
                }
                run.time_to_fill(len * size_of::<Seed>())?;
                // SAFETY: the object has as many elements as there are adjoints.
                unsafe {
                    if leaf.list.is_some() {
                        seed_list(object, adjoints, seeds);
                    } else {
                        seed_array(object, adjoints, seeds);
                    }
                }
            }
            (kind, FlatValue::Null) if !kind.is_real() => {}
            _ => return Err(CotangentError::kind(signature, leaf, cotangent).into()),
        }
    }
    Ok(())
}

/// The seeds of an array.
///
/// # Safety
/// It is a complete array of reals of a recorded run, as many as there are adjoints.
unsafe fn seed_array(array: Ref, adjoints: &[f64], seeds: &mut Vec<Seed>) {
    // SAFETY: promised by the caller.
    let (owner, first) = unsafe { (heap::owner_of(array), heap::first_of(array)) };
    if !first.is_none() {
        seeds.extend(adjoints.iter().zip(first.onwards()).map(|(&adjoint, slot)| Seed { owner, slot, adjoint }));
    }
}

/// The seeds of a list.
///
/// # Safety
/// It is a complete list of reals of a recorded run, as many as there are adjoints.
unsafe fn seed_list(mut cell: Ref, adjoints: &[f64], seeds: &mut Vec<Seed>) {
    for &adjoint in adjoints {
        // SAFETY: promised by the caller.
        unsafe {
            debug_assert_eq!(heap::fields_of(*cell), REAL_CELL, "the verifier has checked the type of the list");
            let owner = heap::owner_of(cell);
            // What has no owner may have no words.
            if !owner.is_nobody() {
                let slot = (*cell.add(REAL_CELL.word_at(0)).cast::<Word>()).slot();
                if !slot.is_none() {
                    seeds.push(Seed { owner, slot, adjoint });
                }
            }
            cell = *cell.add(REAL_CELL.ref_at(0)).cast();
        }
    }
}

/// What a call has returned.
#[derive(Clone, Copy, Debug)]
pub struct FlatResults<'f> {
    frame: &'f CallFrame,
}

impl<'f> FlatResults<'f> {
    /// The frame has results.
    #[inline]
    pub(super) fn of(frame: &'f CallFrame) -> Self {
        FlatResults { frame }
    }

    /// The results, one for each of [`FlatFunction::results`].
    pub fn iter(self) -> impl ExactSizeIterator<Item = FlatValue<'f>> {
        self.frame.signature().results.iter().map(move |leaf| self.frame.result(leaf))
    }

    /// The result of this number, counted from 0; `None` if there are not so many.
    #[inline]
    pub fn get(self, n: usize) -> Option<FlatValue<'f>> {
        self.frame.signature().results.get(n).map(|leaf| self.frame.result(leaf))
    }
}

/// How the results of a call change in the direction of tangents.
#[derive(Clone, Copy, Debug)]
pub struct FlatTangents<'f> {
    frame: &'f CallFrame,
}

impl<'f> FlatTangents<'f> {
    /// The tangents, one for each of [`FlatFunction::results`] and of the result's kind and length, or
    /// [`FlatValue::Null`] for what is discrete.
    pub fn iter(self) -> impl ExactSizeIterator<Item = FlatValue<'f>> {
        self.frame.signature().results.iter().map(move |leaf| self.frame.tangent(leaf))
    }

    /// The tangent of the result of this number, counted from 0; `None` if there are not so many.
    pub fn get(self, n: usize) -> Option<FlatValue<'f>> {
        self.frame.signature().results.get(n).map(|leaf| self.frame.tangent(leaf))
    }
}

/// The derivatives of a result with respect to the arguments of a call, or what a pullback has made of cotangents.
#[derive(Clone, Copy, Debug)]
pub struct FlatGradient<'f> {
    frame: &'f CallFrame,
    /// How many other derivatives stand before them.
    behind: usize,
}

impl<'f> FlatGradient<'f> {
    /// The derivatives, one for each of [`FlatFunction::params`] and of the argument's kind and length, or
    /// [`FlatValue::Null`] for what is discrete or not asked for.
    pub fn iter(self) -> impl ExactSizeIterator<Item = FlatValue<'f>> {
        (0..self.frame.signature().params.len()).map(move |n| self.get(n).unwrap_or_default())
    }

    /// The derivative with respect to the argument of this number, counted from 0; `None` if there are not so many.
    #[inline]
    pub fn get(self, n: usize) -> Option<FlatValue<'f>> {
        let leaf = self.frame.signature().params.get(n)?;
        let reals = self.frame.state().sweep.adjoints();
        // Slot 0 is that of constants.
        let first = 1 + self.behind;
        let start = first + self.frame.starts[n];
        if !leaf.active {
            return Some(FlatValue::Null);
        }
        Some(match leaf.kind() {
            LeafKind::Real => FlatValue::Real(reals[start]),
            LeafKind::Reals => FlatValue::Reals(&reals[start..first + self.frame.starts[n + 1]]),
            _ => FlatValue::Null,
        })
    }

    /// The derivatives with respect to all reals in the arguments that are asked for, in order: those of an array stand
    /// side by side.
    #[inline]
    pub fn reals(self) -> &'f [f64] {
        let end = self.frame.derivatives();
        // Slot 0 is that of constants.
        let first = 1 + self.behind;
        &self.frame.state().sweep.adjoints()[first..first + end]
    }
}

/// A recorded run: results, and a pullback that takes as many cotangents as one likes, one after the other.
#[derive(Debug)]
pub struct RecordedCall<'f> {
    pub(super) frame: &'f mut CallFrame,
}

impl<'f> RecordedCall<'f> {
    /// The frame has a tape.
    #[inline]
    pub(super) fn of(frame: &'f mut CallFrame) -> Self {
        debug_assert!(frame.residue >= Residue::Tape);
        RecordedCall { frame }
    }

    /// What the run has returned.
    pub fn results(&self) -> FlatResults<'_> {
        FlatResults { frame: self.frame }
    }

    /// What the run and its pullbacks have used.
    pub fn stats(&self) -> Stats {
        self.frame.state().stats()
    }

    /// Pulls cotangents back to the arguments: `wᵀ J`, where `w` are the cotangents of the results' reals and `J` is
    /// the Jacobian. One sweep, however many there are.
    ///
    /// There is one cotangent for each of [`FlatFunction::results`], of the result's kind and length, and
    /// [`FlatValue::Null`] for results that are discrete. It has the time of a call; fuel and all other limits are for
    /// the run and its pullbacks together.
    ///
    /// # Errors
    /// [`RunError::Cotangent`] if these are not the cotangents of the results, [`RunError::Trap`] if the sweep reaches
    /// a limit. The run stays as it is.
    pub fn pullback(&mut self, cotangents: &[FlatValue<'_>]) -> Result<FlatGradient<'_>, RunError> {
        self.frame.pull_back(cotangents, true)?;
        Ok(FlatGradient { frame: self.frame, behind: 0 })
    }

    /// The same, in the time of the call that has recorded the run.
    #[inline]
    pub(super) fn into_gradient(
        self,
        cotangents: &[FlatValue<'_>],
    ) -> Result<(FlatResults<'f>, FlatGradient<'f>), RunError> {
        self.frame.pull_back(cotangents, false)?;
        let frame: &'f CallFrame = self.frame;
        Ok((FlatResults { frame }, FlatGradient { frame, behind: 0 }))
    }

    /// The same for the only result, a real, and the cotangent 1.
    #[inline]
    pub(super) fn into_gradient_of_scalar(self) -> Result<(f64, FlatGradient<'f>), RunError> {
        let value = self.frame.pull_back_scalar()?;
        Ok((value, FlatGradient { frame: self.frame, behind: 0 }))
    }
}

impl FlatFunction {
    /// Whether this is the same handle, or a copy of it.
    fn is(&self, other: &FlatFunction) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[inline]
    pub(super) fn signature(&self) -> &FlatSignature {
        &self.0
    }
}
