//! Arguments that a function has been given for good.
//!
//! Each is converted once, to objects of a heap of its own, which no run changes, moves or frees: like the objects of
//! an outer task, they belong to another heap. A call puts references to them where its own arguments leave room.

use super::error::outside_of_code;
use super::{Function, NoSuchParameter, RunError, Wrt};
use crate::bytecode::module::{HostType, Interface};
use crate::embedding::convert::{self, Cursor, Maker, ReadError, Reader, Store, WriteError};
use crate::embedding::value::Value;
use crate::memory::heap::{Heap, HeapLimits};
use crate::running::meter::Account;
use crate::running::registers::Gathered;
use crate::trap::Limit;
use std::fmt;
use std::sync::{Arc, OnceLock};

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
    ty: HostType,
    objects: Written,
    /// The same with 0 in the place of each real: its tangent.
    zeros: OnceLock<Written>,
}

/// Registers, and the heap that they refer to.
#[derive(Debug)]
struct Written {
    registers: Gathered,
    /// What the references lead to.
    _heap: Heap,
}

// SAFETY: objects that nobody changes any more, and the memory that they are in, which is theirs.
unsafe impl Send for Written {}
// SAFETY: the same.
unsafe impl Sync for Written {}

impl Bound {
    /// What stands in front of the n-th parameter that is left, or behind all of them.
    #[inline]
    pub(crate) fn group(&self, n: usize) -> &[Arc<BoundArgument>] {
        &self.groups[n]
    }

    /// Makes tangents of all that is bound, unless they are there.
    fn make_zeros(&self, function: &Function) -> Result<(), RunError> {
        for argument in self.groups.iter().flatten() {
            if argument.zeros.get().is_none() {
                let zeros = Written::new(function, "", &argument.ty, &argument.value(function)?, true)?;
                _ = argument.zeros.set(zeros);
            }
        }
        Ok(())
    }
}

impl BoundArgument {
    /// Its type as the host sees it.
    pub(crate) fn ty(&self) -> &HostType {
        &self.ty
    }

    /// Its registers.
    pub(crate) fn registers(&self) -> &Gathered {
        &self.objects.registers
    }

    /// Those of its tangent, or else its own, where nobody looks at tangents of what is constant.
    pub(crate) fn tangent(&self) -> &Gathered {
        &self.zeros.get().unwrap_or(&self.objects).registers
    }

    fn value(&self, function: &Function) -> Result<Value, RunError> {
        let Gathered { reals, ints, refs, .. } = self.registers();
        let (limits, mut account) = (function.module.engine.limits(), Account::default());
        account.begin(limits, None);
        // SAFETY: the objects are complete, and stay.
        let registers = unsafe { Cursor::of_registers(reals, ints, refs) };
        let value = Reader::new(function.data(), limits.live_bytes, false, &account).result(&self.ty, registers);
        value.map_err(|error| match error {
            ReadError::Limit(limit) => outside_of_code(account.verdict(limit.into())),
            ReadError::Depth | ReadError::Shape { .. } | ReadError::Misshapen(_) => {
                unreachable!("what was written as a value is one")
            }
        })
    }
}

impl Written {
    /// Writes a value, or its tangent of zeros, to a heap of its own.
    fn new(function: &Function, name: &str, ty: &HostType, value: &Value, zeros: bool) -> Result<Written, RunError> {
        let (engine, def) = (&function.module.engine, &function.module.program.def);
        let (limits, mut account) = (engine.limits(), Account::default());
        account.begin(limits, None);
        let (mut heap, mut registers) = (Heap::new(engine.workers().slabs().clone()), Gathered::default());
        let &super::Limits { allocated_bytes, live_bytes, .. } = limits;
        heap.begin(HeapLimits { allocated_bytes, live_bytes }, &account);
        heap.pause();
        let mut store = Store::new(Maker::new(&mut heap, None, &account), &mut registers);
        if zeros {
            store.set_tangents(&[]);
        }
        let written = convert::write_argument(def, (name, ty), value, &mut store);
        heap.detach();
        written.map_err(|error| match error {
            WriteError::Argument(error) => RunError::Argument(*error),
            WriteError::Limit(limit) => outside_of_code(account.verdict(Limit::into(limit))),
        })?;
        Ok(Written { registers, _heap: heap })
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
    /// to it. It is kept as long as the function that this returns and its clones, and isn't counted in the limits on
    /// what a call has in memory.
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
        let objects = Written::new(self, &name, &ty, argument, false)?;
        let mut groups = match &self.bound {
            Some(bound) => bound.groups.to_vec(),
            None => vec![Vec::new(); interface.params.len() + 2],
        };
        let behind = groups.remove(at + 1);
        groups[at].push(Arc::new(BoundArgument { ty, objects, zeros: OnceLock::new() }));
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

    /// Makes tangents of what is bound, for code that looks at them.
    pub(super) fn make_tangents_of_bound(&self) -> Result<(), RunError> {
        self.bound.as_ref().map_or(Ok(()), |bound| bound.make_zeros(self))
    }
}
