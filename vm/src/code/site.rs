//! Operands that don't fit into an instruction: lists of registers, targets, layouts. An instruction has the number of
//! a site, which is typed by what stands there.

use super::{Position, Stream};
use crate::bytecode::isa::{Bank, Reg};
use crate::bytecode::module::{FuncId, Function, ValueType};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::OnceLock;

/// The number of a site in its list.
pub struct Site<T> {
    index: u32,
    site: PhantomData<fn() -> T>,
}

impl<T> Site<T> {
    /// The number of the n-th site.
    pub const fn new(index: u32) -> Self {
        Site { index, site: PhantomData }
    }

    /// The site's place in its list.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.index
    }
}

impl<T> Clone for Site<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Site<T> {}
impl<T> PartialEq for Site<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}
impl<T> Eq for Site<T> {}
impl<T> Hash for Site<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}
impl<T> fmt::Debug for Site<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index)
    }
}

/// The sites of one kind.
#[derive(Debug)]
pub struct Sites<T>(Vec<T>);

impl<T> Default for Sites<T> {
    fn default() -> Self {
        Sites(Vec::new())
    }
}

impl<T> Sites<T> {
    pub(crate) fn push(&mut self, site: T) -> Site<T> {
        self.0.push(site);
        Site::new(self.0.len() as u32 - 1)
    }

    /// The number that the next site will have.
    pub(crate) fn next(&self) -> Site<T> {
        Site::new(self.0.len() as u32)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All sites in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// A site, without a check.
    ///
    /// # Safety
    /// The number is that of a site in this list, as all those are that a stream's own instructions have.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, site: Site<T>) -> &T {
        debug_assert!((site.index as usize) < self.0.len());
        // SAFETY: promised by the caller.
        unsafe { self.0.get_unchecked(site.index as usize) }
    }
}

impl<T> Index<Site<T>> for Sites<T> {
    type Output = T;
    fn index(&self, site: Site<T>) -> &T {
        &self.0[site.index as usize]
    }
}
impl<T> IndexMut<Site<T>> for Sites<T> {
    fn index_mut(&mut self, site: Site<T>) -> &mut T {
        &mut self.0[site.index as usize]
    }
}
impl<'a, T> IntoIterator for &'a Sites<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// What a site may be asked.
pub(crate) trait InSite: Sized {
    /// The sites of this kind of a stream.
    fn sites(stream: &Stream) -> &Sites<Self>;

    /// Shows the registers of the instructions that refer to the site, and whether they write them.
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool));
}

/// A site that says where control goes on.
pub(crate) trait Leads: InSite {
    /// Shows the positions in the stream.
    fn for_each_target(&self, visit: &mut dyn FnMut(Position));
}

impl<T: InSite> Index<Site<T>> for Stream {
    type Output = T;
    fn index(&self, site: Site<T>) -> &T {
        &T::sites(self)[site]
    }
}

/// Registers by bank, each in order.
#[derive(Debug, Default)]
pub struct RegList {
    /// Real registers.
    pub reals: Box<[u16]>,
    /// Integer registers.
    pub ints: Box<[u16]>,
    /// Reference registers.
    pub refs: Box<[u16]>,
}

impl RegList {
    pub(crate) fn new(regs: &[Reg]) -> Self {
        let of = |bank| regs.iter().filter(|reg| reg.bank == bank).map(|reg| reg.index).collect();
        RegList { reals: of(Bank::Real), ints: of(Bank::Int), refs: of(Bank::Ref) }
    }

    /// Registers of bytecode with all components of reals: those of one real follow each other, or, by planes, those of
    /// one component.
    pub(crate) fn at_depth(regs: &[Reg], depth: u32, by_planes: bool) -> Self {
        let mut list = RegList::new(regs);
        let parts = 0..1u16 << depth;
        let reals = &list.reals;
        list.reals = if by_planes {
            parts.flat_map(|part| reals.iter().map(move |reg| (reg << depth) + part)).collect()
        } else {
            reals.iter().flat_map(|reg| parts.clone().map(move |part| (reg << depth) + part)).collect()
        };
        list
    }

    /// How many registers there are.
    pub fn counts(&self) -> Counts {
        Counts { reals: self.reals.len(), ints: self.ints.len(), refs: self.refs.len() }
    }

    fn for_each(&self, def: bool, visit: &mut dyn FnMut(Reg, bool)) {
        self.reals.iter().for_each(|&index| visit(Reg::real(index), def));
        self.ints.iter().for_each(|&index| visit(Reg::int(index), def));
        self.refs.iter().for_each(|&index| visit(Reg::reference(index), def));
    }
}

/// Numbers of registers by bank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Real registers.
    pub reals: usize,
    /// Integer registers.
    pub ints: usize,
    /// Reference registers.
    pub refs: usize,
}

impl Counts {
    /// The numbers of values of some types.
    pub(crate) fn of(types: &[ValueType]) -> Counts {
        let count = |bank| types.iter().filter(|ty| ty.bank() == bank).count();
        Counts { reals: count(Bank::Real), ints: count(Bank::Int), refs: count(Bank::Ref) }
    }

    /// These and their tangents: integers have none.
    pub(crate) fn with_tangents(self) -> Counts {
        Counts { reals: 2 * self.reals, ints: self.ints, refs: 2 * self.refs }
    }

    pub(crate) fn add(&mut self, other: Counts) {
        self.reals += other.reals;
        self.ints += other.ints;
        self.refs += other.refs;
    }
}

/// A call, a tail call or a return.
#[derive(Debug)]
pub struct CallSite {
    /// The function that is called, if it is known.
    pub func: FuncId,
    /// Arguments, or the returned registers.
    pub uses: RegList,
    /// The registers that take the results.
    pub defs: RegList,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

impl InSite for CallSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.calls
    }
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.uses.for_each(false, visit);
        self.defs.for_each(true, visit);
    }
}

/// A task of a fork.
#[derive(Debug)]
pub struct TaskSite {
    /// The function that is called.
    pub func: FuncId,
    /// Arguments.
    pub uses: RegList,
    /// The registers that take the results.
    pub defs: RegList,
    /// Where the arguments begin among those of all tasks.
    pub args_at: Counts,
    /// Where the results begin among those of all tasks.
    pub results_at: Counts,
}

/// A fork. Arguments of all tasks are handed over side by side, and so are the results, behind them.
#[derive(Debug)]
pub struct ForkSite {
    /// The tasks in order.
    pub tasks: Box<[TaskSite]>,
    /// Arguments of all tasks.
    pub args: Counts,
    /// Results of all tasks.
    pub results: Counts,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

impl InSite for ForkSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.forks
    }
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.tasks.iter().for_each(|task| task.uses.for_each(false, visit));
        self.tasks.iter().for_each(|task| task.defs.for_each(true, visit));
    }
}

/// A parallel map.
#[derive(Debug)]
pub struct MapSite {
    /// The function that is called for each range.
    pub func: FuncId,
    /// Arguments that all calls get after the range.
    pub uses: RegList,
    /// How many there are.
    pub args: Counts,
    /// The bank of the elements.
    pub element: Bank,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

impl InSite for MapSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.maps
    }
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.uses.for_each(false, visit);
    }
}

/// What a derivative operator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// Pushes tangents forward through a call.
    Jvp,
    /// Pulls cotangents back through a call.
    Vjp,
    /// Runs a call without recording it.
    Checkpoint,
    /// Runs a call for its value alone.
    Primal,
    /// The same of a function without parameters, once in a run.
    Once,
    /// Gives a value a derivative: the function takes cotangents of the value to those of the arguments.
    CustomVjp,
    /// The same, with a function that takes tangents of the arguments to those of the value.
    CustomJvp,
    /// Calls a function of the host's, which has the derivatives that the host gives.
    Host,
}

/// A derivative of a call, or a call that isn't recorded. What it takes stands side by side by bank, and behind it what
/// it gives: captures, arguments and tangents of the arguments, or cotangents of the results; then results and their
/// tangents, or cotangents of the arguments. Banks keep their order, so the n-th real tangent is that of the n-th real
/// argument, and integers have none. A value with a derivative is taken behind the arguments, and given.
#[derive(Debug)]
pub struct OperatorSite {
    /// Which derivative.
    pub operator: Operator,
    /// The function that is called.
    pub func: FuncId,
    /// Arguments that are constants for the derivative; they come first. All that a checkpoint takes counts as such.
    pub captures: Counts,
    /// The other arguments.
    pub args: Counts,
    /// The function's results; of a value with a derivative, the value.
    pub results: Counts,
    /// The depth of the code that it stands in.
    pub depth: u32,
    /// What the operator takes.
    pub uses: RegList,
    /// How many registers that is.
    pub uses_count: Counts,
    /// The registers that take what it gives.
    pub defs: RegList,
    /// How many registers that is.
    pub defs_count: Counts,
    /// Of a value with a derivative: the `vjp` of the function with respect to what it is linear in.
    pub transposed: Option<Box<OperatorSite>>,
    /// Which function of the host's is called.
    pub host: Option<Box<HostSite>>,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

/// The function of the host's that an operator calls.
#[derive(Debug)]
pub struct HostSite {
    /// The import.
    pub import: u32,
    /// The way to it from what is imported: 0 for the vjp, 1 for the jvp, derivative by derivative.
    pub path: Box<[usize]>,
    /// The operators that call its derivatives. They stand in no code: where their registers are, this one knows.
    derived: OnceLock<Box<[OperatorSite; 2]>>,
}

impl HostSite {
    pub(crate) fn new(import: u32) -> Self {
        HostSite { import, path: Box::default(), derived: OnceLock::new() }
    }
}

impl OperatorSite {
    /// Whether this is the other one, or that one calls a derivative of what this one does.
    pub(crate) fn leads_to(&self, other: &OperatorSite) -> bool {
        let derived = || self.host.as_ref().and_then(|host| host.derived.get());
        std::ptr::eq(self, other) || derived().is_some_and(|derived| derived.iter().any(|site| site.leads_to(other)))
    }

    /// The operator that calls a derivative of a function of the host's: its vjp if this is 0, its jvp if it is 1.
    pub(crate) fn host_derivative(&self, which: usize) -> &OperatorSite {
        let host = self.host.as_ref().expect("it calls a function of the host's");
        let make = || {
            let [of_args, of_results] = [self.args, self.results].map(|counts| Counts { ints: 0, ..counts });
            let derived = |which: usize, more: Counts, results: Counts| {
                let mut args = self.args;
                args.add(more);
                let at_depth = |counts: Counts| Counts { reals: counts.reals << self.depth, ..counts };
                let path = host.path.iter().copied().chain([which]).collect();
                OperatorSite {
                    operator: Operator::Host,
                    func: self.func,
                    captures: Counts::default(),
                    args,
                    results,
                    depth: self.depth,
                    uses: RegList::default(),
                    uses_count: at_depth(args),
                    defs: RegList::default(),
                    defs_count: at_depth(results),
                    transposed: None,
                    host: Some(Box::new(HostSite { import: host.import, path, derived: OnceLock::new() })),
                    cost: 0,
                }
            };
            Box::new([derived(0, of_results, of_args), derived(1, of_args, of_results)])
        };
        &host.derived.get_or_init(make)[which]
    }

    /// What its function is given but for tangents and cotangents: captures and arguments.
    pub(crate) fn handed(&self) -> Counts {
        let mut handed = self.captures;
        handed.add(self.args);
        handed
    }

    /// Of a value with a derivative: the registers of what its function takes tangents or cotangents of, and of what it
    /// gives some of. Integers have none.
    pub(crate) fn linear(&self) -> [Counts; 2] {
        let [args, value] = [self.args, self.results].map(|counts| Counts { ints: 0, ..counts });
        if self.operator == Operator::CustomVjp { [value, args] } else { [args, value] }
    }

    /// The `vjp` of the function of a value with a derivative, with respect to what it is linear in. It stands in no
    /// code: where its registers are, the operator knows.
    pub(crate) fn transposed(&self) -> Self {
        let [args, results] = self.linear();
        let captures = self.handed();
        let at_depth = |counts: &[Counts]| {
            let mut all = Counts::default();
            counts.iter().for_each(|&counts| all.add(counts));
            Counts { reals: all.reals << self.depth, ..all }
        };
        OperatorSite {
            operator: Operator::Vjp,
            func: self.func,
            captures,
            args,
            results,
            depth: self.depth,
            uses: RegList::default(),
            uses_count: at_depth(&[captures, args, results]),
            defs: RegList::default(),
            defs_count: at_depth(&[results, args]),
            transposed: None,
            host: None,
            cost: 0,
        }
    }

    /// The `jvp` that a host asks for: with respect to all arguments, between no registers of any code.
    pub(crate) fn jvp_of(func: FuncId, function: &Function) -> Self {
        let (args, results) = (Counts::of(&function.params), Counts::of(&function.results));
        OperatorSite {
            operator: Operator::Jvp,
            func,
            captures: Counts::default(),
            args,
            results,
            depth: 0,
            uses: RegList::default(),
            uses_count: args.with_tangents(),
            defs: RegList::default(),
            defs_count: results.with_tangents(),
            transposed: None,
            host: None,
            cost: 0,
        }
    }

    /// How many registers there are for what it takes and what it gives.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.uses_count;
        counts.add(self.defs_count);
        counts
    }
}

impl InSite for OperatorSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.operators
    }
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.uses.for_each(false, visit);
        self.defs.for_each(true, visit);
    }
}

/// A text that is shown.
#[derive(Debug)]
pub struct TextSite {
    /// The template, by its number in the module.
    pub template: u32,
    /// The registers that it takes; of reals, the primals.
    pub uses: RegList,
    /// How many registers that is.
    pub count: Counts,
    /// Whether a function makes the values.
    pub calls: bool,
}

impl InSite for TextSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.texts
    }
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.uses.for_each(false, visit);
    }
}

/// A jump by index.
#[derive(Debug)]
pub struct SwitchSite {
    /// Stream positions by index.
    pub targets: Box<[Position]>,
    /// Where any other index leads.
    pub default: Position,
    /// Fuel of the stretch of code that ends here.
    pub cost: u32,
}

impl InSite for SwitchSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.switches
    }
    fn for_each_reg(&self, _: &mut dyn FnMut(Reg, bool)) {}
}

impl Leads for SwitchSite {
    fn for_each_target(&self, visit: &mut dyn FnMut(Position)) {
        self.targets.iter().for_each(|&target| visit(target));
        visit(self.default);
    }
}

/// An instruction that makes an object from registers.
#[derive(Debug)]
pub struct ObjectSite {
    /// The object's first header word. What a chain goes on with has a reference more than `uses`: its last field.
    pub header: u64,
    /// What goes into it.
    pub uses: RegList,
    /// The bank of the elements, for arrays.
    pub element: Bank,
}

impl InSite for ObjectSite {
    fn sites(stream: &Stream) -> &Sites<Self> {
        &stream.objects
    }
    fn for_each_reg(&self, visit: &mut dyn FnMut(Reg, bool)) {
        self.uses.for_each(false, visit);
    }
}
