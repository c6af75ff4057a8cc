//! A verified program with everything that is derived from it on demand: streams, segments and loops.

use crate::bytecode::isa::Op;
use crate::bytecode::module::{FuncId, ModuleDef, SourcePlace};
use crate::bytecode::verify::verify;
use crate::code::{ByMode, CheckSite, DEPTH_MAX, HostSite, Inst, Mode, OperatorSite, Position, Site, Stream};
use crate::host::LinkedHost;
use crate::in_place::{self, Directions, Expanded, Origins};
use crate::native::Tier;
use crate::preparation::{self, Grain, Prepared};
use crate::records::adjoints::{Adjoint, Adjoints, Distinct};
use crate::records::recorded_loop::LoopCode;
use crate::records::region::RegionCode;
use crate::records::segment::{SegmentCode, SegmentStructure};
use crate::running::meter::{Account, Watch};
use crate::running::trace::Place;
use crate::trap::TrapKind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A module that has passed the verifier, and its streams. Streams are made when a function first runs in a mode, and
/// shared by all threads.
#[derive(Debug)]
pub(crate) struct Program {
    /// The code that runs.
    pub(crate) def: ModuleDef,
    /// Functions of the host's, by the numbers of imports.
    hosts: Arc<[LinkedHost]>,
    /// What the module's maker has given, where that isn't it.
    given: Option<Box<Given>>,
    tangents: Option<TangentFunction>,
    /// Such programs, for functions whose tangents a host has asked for; `None` where there is none.
    with_tangents: Mutex<HashMap<Directions, Option<Arc<Program>>>>,
    /// What its records stand for.
    grain: Grain,
    /// The same program with finer records, if it was asked for.
    structured: OnceLock<Arc<Program>>,
    /// The same program, each instruction of which is looked at, if it was asked for.
    watched: OnceLock<Arc<Program>>,
    /// Whether a number that becomes NaN or infinite is a trap; each instruction is looked at then.
    traps_non_finite: bool,
    streams: ByMode<Box<[OnceLock<Stream>]>>,
    segments: Adjoints<SegmentCode>,
    /// Those of the segments, if the program is made for them.
    structures: boxcar::Vec<SegmentStructure>,
    /// Where the instructions are looked at that the segments are, in a program whose records are as fine as that.
    checks: boxcar::Vec<(FuncId, Mode, Position)>,
    loops: Adjoints<LoopCode>,
    regions: Adjoints<RegionCode>,
    /// Held while records get their numbers.
    registering: Mutex<Registering>,
    /// For each function, whether it or one that it may call runs tasks.
    forks: Box<[bool]>,
    /// For each function, whether it or one that it may call runs functions inside of an instruction.
    nests: Box<[bool]>,
    /// The functions that run once, in ascending order.
    constants: Box<[FuncId]>,
    /// Whether operators stay what they are, to be compared with what is written in their place.
    #[cfg(all(test, not(loom)))]
    keeps_operators: bool,
    /// Native code; `None` if everything is interpreted.
    pub(crate) tier: Option<Tier>,
}

/// Adjoints that differ from each other.
#[derive(Debug, Default)]
struct Registering {
    segments: Distinct,
    loops: Distinct,
    regions: Distinct,
}

/// A module as its maker has given it, where other code runs.
#[derive(Debug)]
struct Given {
    /// `None` in a program that was made for the tangents of a function of another one.
    def: Option<ModuleDef>,
    /// Where functions that are new, or other ones, are from.
    origins: HashMap<FuncId, Origins>,
}

/// So many programs for tangents are kept. Each takes memory in proportion to the number of functions.
const DIRECTIONS_MAX: usize = 64;

/// The function that gives tangents with its values, in a program that was made for these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TangentFunction {
    pub(crate) func: FuncId,
    /// In how many directions.
    pub(crate) lanes: usize,
}

impl Program {
    /// `def` must have passed the verifier, and `hosts` are its imports. `tier` makes native code for so many
    /// functions.
    pub(crate) fn new(def: ModuleDef, hosts: Box<[LinkedHost]>, tier: impl FnOnce(usize) -> Option<Tier>) -> Self {
        let hosts = hosts.into();
        match in_place::expand(&def) {
            Some(Expanded { def: expanded, origins }) => {
                debug_assert_eq!(verify(&expanded), Ok(()), "what was written in place of operators");
                let tier = tier(expanded.functions.len());
                Program::of((expanded, hosts), Some(Box::new(Given { def: Some(def), origins })), tier)
            }
            None => {
                let tier = tier(def.functions.len());
                Program::of((def, hosts), None, tier)
            }
        }
    }

    /// A program whose operators stay what they are.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn with_operators(def: ModuleDef) -> Self {
        Program { keeps_operators: true, ..Program::of((def, [].into()), None, None) }
    }

    /// A program in which every instruction is looked at. It is interpreted, and its operators stay what they are: so
    /// each instruction is one of the module's own.
    pub(crate) fn looked_at(def: ModuleDef, hosts: Box<[LinkedHost]>) -> Self {
        let program = Program::of((def, hosts.into()), None, None);
        Program { grain: Grain::Instruction, traps_non_finite: true, ..program }
    }

    /// The same program as it was given, in which every instruction is looked at, and nothing traps for that.
    pub(crate) fn watched(&self) -> Arc<Program> {
        let make = || {
            let program = Program::of((self.given().clone(), self.hosts.clone()), None, None);
            Arc::new(Program { grain: Grain::Instruction, ..program })
        };
        self.watched.get_or_init(make).clone()
    }

    /// Whether a number that becomes NaN or infinite is a trap.
    pub(crate) fn traps_non_finite(&self) -> bool {
        self.traps_non_finite
    }

    /// Whether every instruction is looked at.
    pub(crate) fn is_checked(&self) -> bool {
        self.grain == Grain::Instruction
    }

    /// Whether functions of the host's are called.
    pub(crate) fn calls_host(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// A program with the same functions and types that has a function for the values and tangents of one of them:
    /// [`Program::tangents`]. It is made when it is first asked for. `None` if there is no such function.
    pub(crate) fn with_tangents(&self, directions: Directions) -> Option<Arc<Program>> {
        #[cfg(all(test, not(loom)))]
        if self.keeps_operators {
            return None;
        }
        if self.is_checked() {
            return None;
        }
        let programs = || self.with_tangents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = programs().get(&directions) {
            return known.clone();
        }
        // Threads that need it at the same time each make it, and one of them keeps it, as for streams.
        let made = self.make_tangents(&directions);
        let mut programs = programs();
        if programs.len() >= DIRECTIONS_MAX {
            // What runs keeps its own.
            programs.clear();
        }
        programs.entry(directions).or_insert(made).clone()
    }

    #[cold]
    fn make_tangents(&self, directions: &Directions) -> Option<Arc<Program>> {
        let (Expanded { def, mut origins }, func) = in_place::with_tangents(&self.def, directions)?;
        let tangents = Some(TangentFunction { func, lanes: directions.lanes });
        for Origins { func, insts } in origins.values_mut() {
            insts.iter_mut().for_each(|inst| *inst = self.given_place(*func, *inst).1);
            *func = self.given_place(*func, 0).0;
        }
        let before = self.given.as_ref().map(|given| &given.origins);
        let kept = before.into_iter().flatten().map(|(&func, origins)| (func, origins.clone()));
        origins.extend(kept);
        let tier = self.tier.as_ref().map(|tier| tier.of_functions(def.functions.len()));
        let given = Some(Box::new(Given { def: None, origins }));
        Some(Arc::new(Program { tangents, ..Program::of((def, self.hosts.clone()), given, tier) }))
    }

    /// The function that gives tangents with its values, in a program that was made for these.
    pub(crate) fn tangents(&self) -> Option<TangentFunction> {
        self.tangents
    }

    /// The programs that were made of this one, for tangents and for finer records.
    pub(crate) fn all_made(&self) -> Vec<Arc<Program>> {
        let programs = self.with_tangents.lock().unwrap_or_else(PoisonError::into_inner);
        programs.values().flatten().chain(self.structured.get()).cloned().collect()
    }

    /// The same program with records of which is known what depends on what: [`Program::structure`].
    pub(crate) fn structured(&self) -> Arc<Program> {
        let make = || {
            let origins = self.given.as_ref().map(|given| given.origins.clone());
            let given = origins.map(|origins| Box::new(Given { def: None, origins }));
            let tier = self.tier.as_ref().map(|tier| tier.of_functions(self.def.functions.len()));
            Arc::new(Program {
                grain: Grain::Segment,
                ..Program::of((self.def.clone(), self.hosts.clone()), given, tier)
            })
        };
        self.structured.get_or_init(make).clone()
    }

    fn of((def, hosts): (ModuleDef, Arc<[LinkedHost]>), given: Option<Box<Given>>, tier: Option<Tier>) -> Self {
        Program {
            hosts,
            grain: Grain::Region,
            structured: OnceLock::new(),
            watched: OnceLock::new(),
            traps_non_finite: false,
            structures: boxcar::Vec::new(),
            checks: boxcar::Vec::new(),
            streams: ByMode::new(|| no_streams(&def)),
            segments: Adjoints::new(),
            loops: Adjoints::new(),
            regions: Adjoints::new(),
            registering: Mutex::default(),
            forks: functions_with(&def, |op| matches!(op, Op::Fork | Op::ParallelMap)),
            nests: functions_with(&def, |op| {
                op.shows()
                    || matches!(
                        op,
                        Op::Fork
                            | Op::ParallelMap
                            | Op::Jvp
                            | Op::Vjp
                            | Op::Checkpoint
                            | Op::Primal
                            | Op::Once
                            | Op::CustomVjp
                            | Op::CustomJvp
                            | Op::CallImport
                    )
            }),
            constants: constants(&def),
            tier,
            given,
            tangents: None,
            with_tangents: Mutex::default(),
            #[cfg(all(test, not(loom)))]
            keeps_operators: false,
            def,
        }
    }

    /// The code as the module's maker has given it.
    pub(crate) fn given(&self) -> &ModuleDef {
        self.given.as_ref().and_then(|given| given.def.as_ref()).unwrap_or(&self.def)
    }

    /// The function and the instruction there that an instruction of the code that runs is from.
    pub(crate) fn given_place(&self, func: FuncId, inst: u32) -> (FuncId, u32) {
        match self.given.as_ref().and_then(|given| given.origins.get(&func)) {
            Some(Origins { func, insts }) => (*func, insts.get(inst as usize).copied().unwrap_or(0)),
            None => (func, inst),
        }
    }

    /// Where the code at a place was written.
    pub(crate) fn source_place(&self, Place { func, mode, position }: Place) -> Option<SourcePlace> {
        let inst = self.origin(func, mode, position);
        let location = self.def.functions[func.index()].body.location(inst)?;
        Some(self.def.debug.named(location.place))
    }

    /// The stream of a function that was prepared.
    #[inline]
    pub(crate) fn stream(&self, func: FuncId, mode: Mode) -> &Stream {
        self.place(func, mode).get().expect("a function is prepared before it is called")
    }

    /// The bytecode instruction that a place in a stream is from. A function that has not been prepared has not begun.
    pub(crate) fn origin(&self, func: FuncId, mode: Mode, position: Position) -> u32 {
        self.place(func, mode).get().map_or(0, |stream| stream.origin[position.index()])
    }

    #[inline]
    fn place(&self, func: FuncId, mode: Mode) -> &OnceLock<Stream> {
        &self.streams.get(mode, || no_streams(&self.def))[func.index()]
    }

    /// A function's stream, which is made if this is the first time that it is asked for.
    ///
    /// # Errors
    /// What the watch says while it is made. Nothing of it stays.
    #[inline]
    pub(crate) fn prepare(&self, func: FuncId, mode: Mode, account: &Account) -> Result<&Stream, TrapKind> {
        match self.place(func, mode).get() {
            Some(stream) => Ok(stream),
            None => self.prepare_now(func, mode, &Watch::of(account)),
        }
    }

    /// [`Program::prepare`], however long that takes.
    pub(crate) fn prepare_at_leisure(&self, func: FuncId, mode: Mode) -> &Stream {
        self.prepare_now(func, mode, &Watch::none()).expect("nobody stops it")
    }

    /// Threads that need a stream at the same time each make it, and one of them keeps it: none waits for another one,
    /// whose deadline may be another one, too.
    #[cold]
    #[inline(never)]
    fn prepare_now(&self, func: FuncId, mode: Mode, watch: &Watch<'_>) -> Result<&Stream, TrapKind> {
        let place = self.place(func, mode);
        let function = &self.def.functions[func.index()];
        let prepared = preparation::prepare(&self.def, function, (mode, self.grain), watch)?;
        let Prepared { mut stream, segments, structures, checks, loops, regions } = prepared;
        debug_assert!(!self.is_checked() || checks.len() == segments.len());
        let mut registering = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        if place.get().is_none() {
            // Whoever has the lock gives out the numbers, so those of one function follow each other.
            let (first_segment, first_loop) = (self.segments.count(), self.loops.count());
            for site in stream.segments.iter_mut().filter(|site| site.id != u32::MAX) {
                site.id += first_segment;
            }
            for site in stream.loops.iter_mut().filter(|site| site.id != u32::MAX) {
                site.id += first_loop;
            }
            let first_region = self.regions.count();
            for site in stream.regions.iter_mut().filter(|site| site.id != u32::MAX) {
                site.id += first_region;
            }
            let distinct = &mut *registering;
            segments.into_iter().for_each(|code| self.segments.push(code, &mut distinct.segments));
            structures.into_iter().for_each(|structure| _ = self.structures.push(structure));
            checks.into_iter().for_each(|check| _ = self.checks.push((func, mode, check)));
            loops.into_iter().for_each(|code| self.loops.push(code, &mut distinct.loops));
            regions.into_iter().for_each(|code| self.regions.push(code, &mut distinct.regions));
            _ = place.set(stream);
        }
        drop(registering);
        Ok(self.stream(func, mode))
    }

    /// Whether a run of a function may run tasks.
    pub(crate) fn forks(&self, func: FuncId) -> bool {
        self.forks[func.index()]
    }

    /// Whether a host that listens to a run of a function may hear something. Linear in the size of the program.
    pub(crate) fn shows(&self, func: FuncId) -> bool {
        self.def.traced_twin(func).is_some() || functions_with(&self.def, |op| matches!(op, Op::Trace))[func.index()]
    }

    /// Whether a run of a function may run others inside of an instruction: tasks, or what a derivative is taken of.
    pub(crate) fn nests(&self, func: FuncId) -> bool {
        self.nests[func.index()]
    }

    /// The function of the host's that an operator calls.
    #[inline]
    pub(super) fn host(&self, site: &HostSite) -> &LinkedHost {
        site.path.iter().fold(&self.hosts[site.import as usize], |host, &which| {
            &host.derivatives().expect("an operator that calls a derivative is made where there is one")[which]
        })
    }

    /// How many constants it has.
    #[inline]
    pub(crate) fn constants(&self) -> usize {
        self.constants.len()
    }

    /// The number of the constant that a function gives.
    #[inline]
    pub(super) fn constant(&self, func: FuncId) -> usize {
        self.constants.binary_search(&func).expect("all functions that run once are known")
    }

    /// The functions that were prepared for recording runs so far, with their streams.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (FuncId, &Stream)> {
        let known = (0..=DEPTH_MAX).filter_map(|depth| self.streams.known(Mode::RECORDING.at_depth(depth)));
        let numbered = known.flat_map(|streams| streams.iter().enumerate());
        numbered.filter_map(|(index, stream)| stream.get().map(|stream| (FuncId(index as u32), stream)))
    }

    /// Where in the code that records an operator stands. Looks through all of it.
    #[cold]
    pub(super) fn place_of(&self, site: &OperatorSite) -> Option<Place> {
        self.recorded().find_map(|(func, stream)| {
            let number = stream.operators.iter().position(|own| own.leads_to(site))? as u32;
            let stands = |inst: &Inst| matches!(inst, Inst::Operate { site } if site.index() == number);
            let position = Position(stream.code.iter().position(stands)? as u32);
            Some(Place { func, mode: Mode::RECORDING.at_depth(stream.operators[Site::new(number)].depth), position })
        })
    }

    /// A segment's code by the number that its records carry.
    #[inline]
    pub(crate) fn segment(&self, id: u32) -> &Adjoint<SegmentCode> {
        self.segments.get(id)
    }

    /// What is known of a segment by the number that its records carry, in a program that was made for this.
    pub(crate) fn structure(&self, id: u32) -> &SegmentStructure {
        &self.structures[id as usize]
    }

    /// The instruction that a segment is, by the number that its records carry, in a program that is looked at: its
    /// function, the mode of the code, and what is known of it.
    pub(crate) fn checked(&self, id: u32) -> (FuncId, (Mode, Position), &CheckSite) {
        let (func, mode, position) = self.checks[id as usize];
        let stream = self.stream(func, mode);
        match stream.code[position.index()] {
            Inst::Check { site } => (func, (mode, position), &stream.checks[site]),
            ref found => unreachable!("an instruction is looked at there, found {found:?}"),
        }
    }

    /// A loop's code by the number that its records carry.
    #[inline]
    pub(crate) fn recorded_loop(&self, id: u32) -> &Adjoint<LoopCode> {
        self.loops.get(id)
    }

    /// A region's code by the number that its records carry.
    #[inline]
    pub(crate) fn region(&self, id: u32) -> &Adjoint<RegionCode> {
        self.regions.get(id)
    }

    /// A string of the module.
    pub(crate) fn message(&self, number: u32) -> &str {
        &self.def.messages[number as usize]
    }
}

fn no_streams(def: &ModuleDef) -> Box<[OnceLock<Stream>]> {
    def.functions.iter().map(|_| OnceLock::new()).collect()
}

/// The functions whose results are constants, in ascending order.
fn constants(def: &ModuleDef) -> Box<[FuncId]> {
    let codes = def.functions.iter().flat_map(|function| &function.body.code);
    let mut found: Vec<FuncId> = codes.filter(|inst| inst.op == Op::Once).map(|inst| FuncId(inst.low())).collect();
    found.sort_unstable();
    found.dedup();
    found.into()
}

/// For each function, whether it has such an instruction or names a function that has: a closure is called by code that
/// was called by who made it, or by its maker's callers.
fn functions_with(def: &ModuleDef, wanted: impl Fn(Op) -> bool) -> Box<[bool]> {
    let mut have = vec![false; def.functions.len()];
    let mut named_by = vec![Vec::new(); def.functions.len()];
    let mut found = Vec::new();
    for (index, function) in def.functions.iter().enumerate() {
        for inst in &function.body.code {
            if wanted(inst.op) && !have[index] {
                have[index] = true;
                found.push(index);
            }
            def.functions_of(&function.body, inst).for_each(|func| named_by[func.index()].push(index));
        }
    }
    while let Some(func) = found.pop() {
        for caller in std::mem::take(&mut named_by[func]) {
            if !std::mem::replace(&mut have[caller], true) {
                found.push(caller);
            }
        }
    }
    have.into()
}
