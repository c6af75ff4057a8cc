//! Arguments that a function has been given for good.
//!
//! Each is converted once, to objects of a heap of its own, which no run changes, moves or frees: like the objects of
//! an outer task, they belong to another heap. A call puts references to them where its own arguments leave room.

use super::error::outside_of_code;
use super::{Function, Limits, Module, NoSuchParameter, RunError, Wrt};
use crate::bytecode::module::{HostType, Interface};
use crate::embedding::convert::{self, Cursor, Maker, Store, WriteError};
use crate::embedding::value::Value;
use crate::memory::heap::{Heap, HeapLimits};
use crate::running::meter::Account;
use crate::running::registers::Gathered;
use crate::trap::{Limit, TrapKind};
use std::fmt;
use std::sync::Arc;

/// Why an argument can't be bound.
#[derive(Clone, PartialEq, Debug)]
pub enum BindError {
    /// The function has no such parameter, or has an argument for it already.
    NoSuchParameter(NoSuchParameter),
    /// The argument is not of the parameter's type, or takes more memory or time than the engine allows.
    Run(RunError),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::NoSuchParameter(error) => error.fmt(f),
            BindError::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BindError {}

impl From<RunError> for BindError {
    fn from(error: RunError) -> Self {
        BindError::Run(error)
    }
}

/// The arguments that a function has, and what is left to be given in a call.
#[derive(Debug)]
pub(crate) struct Bound {
    /// Without the parameters that are bound.
    pub(super) interface: Interface,
    /// What stands in front of each parameter that is left, and behind all of them.
    groups: Box<[Vec<Arc<BoundArgument>>]>,
}

/// An argument that is bound.
#[derive(Debug)]
pub(crate) struct BoundArgument {
    /// What the type refers to.
    module: Module,
    ty: HostType,
    registers: Gathered,
    /// What the registers refer to.
    _heap: Heap,
}

// SAFETY: nobody changes registers or objects any more; the objects' memory is that of the heap, which keeps no account
// (`Heap::detach`).
unsafe impl Send for BoundArgument {}
// SAFETY: the same.
unsafe impl Sync for BoundArgument {}

impl Bound {
    /// What stands in front of the n-th parameter that is left, or behind all of them.
    #[inline]
    pub(crate) fn group(&self, n: usize) -> &[Arc<BoundArgument>] {
        &self.groups[n]
    }
}

impl BoundArgument {
    /// Writes an argument to a heap of its own.
    fn new(module: &Module, (name, ty): (&str, HostType), value: &Value) -> Result<BoundArgument, RunError> {
        let (limits, mut account) = (module.engine.limits(), Account::default());
        account.begin(limits, None);
        let (mut heap, mut registers) = (Heap::new(module.engine.workers().slabs().clone()), Gathered::default());
        let &Limits { allocated_bytes, live_bytes, .. } = limits;
        heap.begin(HeapLimits { allocated_bytes, live_bytes }, &account);
        heap.pause();
        let mut store = Store::new(Maker::new(&mut heap, None, &account), &mut registers);
        let written = convert::write_argument(&module.program.def, (name, &ty), value, &mut store);
        heap.detach();
        written.map_err(|error| match error {
            WriteError::Argument(error) => RunError::Argument(*error),
            WriteError::Limit(limit) => outside_of_code(account.verdict(TrapKind::Limit(limit))),
        })?;
        Ok(BoundArgument { module: module.clone(), ty, registers, _heap: heap })
    }

    /// Its type as the host sees it.
    pub(crate) fn ty(&self) -> &HostType {
        &self.ty
    }

    /// Its registers.
    pub(crate) fn registers(&self) -> &Gathered {
        &self.registers
    }

    /// Writes its tangent to the heap of a run: the same with zeros for reals.
    pub(crate) fn write_zeros(&self, store: &mut Store<'_>) -> Result<(), Limit> {
        let Gathered { reals, ints, refs, .. } = &self.registers;
        // SAFETY: the objects are complete, of this type, and stay.
        unsafe {
            let mut registers = Cursor::of_registers(reals, ints, refs);
            convert::write_zeros(&self.module.program.def, &self.ty, &mut registers, store)
        }
    }
}

impl Wrt {
    /// The same without a parameter.
    fn without(&self, parameter: usize) -> Wrt {
        let Some(parameters) = &self.0 else { return Wrt(None) };
        let left = parameters.iter().enumerate().filter(|&(n, _)| n != parameter);
        Wrt(Some(left.map(|(_, &is_wrt)| is_wrt).collect()))
    }
}

impl Function {
    /// The function of the other parameters that there is once one has this argument.
    ///
    /// The argument is converted here, once, and no more in calls: what all calls have in common, such as the data that
    /// a model is fitted to, needn't cross the border again and again. It is a constant: no derivative is with respect
    /// to it; of the parameters that derivatives were with respect to, those that are left stay. It is kept as long as
    /// the function that this returns and its clones, in memory of its own, of which it takes 64 KiB at least if it is
    /// more than numbers. That isn't counted in the limits on what a call has in memory.
    ///
    /// ```
    /// # use dualvm_vm::{engine::{Engine, Module}, text, value::Value};
    /// # let def = text::parse("func \"f\" (real, real) -> (real)
    /// #     export (x : Real, theta : Real) -> Real
    /// #     regs 2 real
    /// #     { mul r0, r0, r1
    /// #     ret (r0) }", "f.dvs").map_err(|errors| errors[0].to_string())?;
    /// # let module = Module::new(&Engine::default(), def).map_err(|errors| errors[0].to_string())?;
    /// // def f (x : Real) (theta : Real) : Real = x * theta
    /// let f = module.function("f").ok_or("no such function")?.bind("x", &Value::Real(3.0))?;
    /// let (value, gradient) = f.value_and_grad(&[Value::Real(5.0)])?;
    /// assert_eq!((value, &*gradient), (15.0, &[Value::Real(3.0)][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the function has no parameter of this name, if the argument is not of its type, or if it takes more memory
    /// or time than a call may in this engine.
    pub fn bind(&self, parameter: &str, argument: &Value) -> Result<Function, BindError> {
        let at = self.parameter(parameter).map_err(BindError::NoSuchParameter)?;
        let mut interface = self.interface().clone();
        let (name, ty) = interface.params.remove(at);
        let argument = BoundArgument::new(&self.module, (&name, ty), argument)?;
        let mut groups = match &self.bound {
            Some(bound) => bound.groups.to_vec(),
            None => vec![Vec::new(); interface.params.len() + 2],
        };
        let behind = groups.remove(at + 1);
        groups[at].push(Arc::new(argument));
        groups[at].extend(behind);
        let bound = Bound { interface, groups: groups.into() };
        Ok(Function { bound: Some(Arc::new(bound)), wrt: self.wrt.without(at), ..self.clone() })
    }

    /// Whether arguments are bound to the function.
    pub fn has_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// What is in front of the n-th parameter for good, or behind all of them.
    pub(crate) fn bound_at(&self, n: usize) -> &[Arc<BoundArgument>] {
        self.bound.as_ref().map_or(&[], |bound| bound.group(n))
    }
}
