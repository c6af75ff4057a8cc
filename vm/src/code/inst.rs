//! The instruction set of prepared code: what the interpreter runs, native code is made of, and derivation gives.
//!
//! [`for_each_inst`] holds the table: the scalar instructions of the bytecode ([`crate::isa`]), which mean the same
//! here, and those that exist in prepared code only. All of them have typed operands. Everything that asks what an
//! instruction does, which registers it writes, where it leads, whether it ends a block, asks the table; everything
//! that runs one matches on [`Inst`] or [`Form`] without a wildcard. So an instruction that is forgotten somewhere
//! doesn't compile.
//!
//! - *Words.* A pure instruction, and one whose name begins with `Primal`, leaves words alone. The others that write a
//!   real write its word, too, while a run records; code for primal runs has none.
//! - *Pure* instructions, scalar ones among them, write one register and nothing else. Derived code consists of these.
//!   All but two read registers only; these read what a record refers to, which doesn't change.
//! - *Operands* that don't fit stand in a [`Site`] of the code.

use super::check::CheckSite;
use super::site::{CallSite, ForkSite, InSite, Leads, MapSite, ObjectSite, OperatorSite, Site, SwitchSite, TextSite};
use super::{Position, Stream};
use crate::bytecode::isa::{Bank, Op, Reg, has_flag};
use crate::records::recorded_loop::LoopSite;
use crate::records::region::{RegionSite, SaveSite};
use crate::records::segment::SegmentSite;

/// A register of reals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RealReg(pub u16);

/// A register of integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IntReg(pub u16);

/// A register of references.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RefReg(pub u16);

macro_rules! register {
    ($name:ident, $bank:expr) => {
        impl $name {
            /// The place in the bank.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<$name> for Reg {
            fn from(register: $name) -> Reg {
                Reg { bank: $bank, index: register.0 }
            }
        }
    };
}
register!(RealReg, Bank::Real);
register!(IntReg, Bank::Int);
register!(RefReg, Bank::Ref);

/// Calls `$consumer!` with the tables of the bytecode and with those of prepared code. Pure instructions write one
/// register, `dst`: `Name (operand(role), …) -> bank { value };`. The others: `Name (operand(role), …) [flag …];`.
///
/// Roles are those of the bytecode's operands, and: `cost`, fuel of the stretch of code that ends here; `offset`, words
/// from an object's start; `part`, a number of 16 bits, mostly that of a component; `bits`, a real as bits; `bank`,
/// that of elements; `site T`, the place of further operands; `leads T`, one that says where control goes on.
///
/// Flags: `ends`, control never reaches the next instruction; `calls`, runs other
/// functions; `moves`, may evacuate the heap, so that objects move.
macro_rules! for_each_inst {
    ($consumer:ident) => {
        $crate::bytecode::isa::for_each_instruction! { $consumer
            pure {
                /// Copies a real's primal.
                PrimalMov (src(use real)) -> real { src };
                /// A real constant's primal.
                PrimalConst (value(bits)) -> real { f64::from_bits(value) };
                /// Copies an integer.
                IMov (src(use int)) -> int { src };
                /// An integer constant.
                IConst (value(int)) -> int { value };
                /// The object in a cell that a record refers to, as an address, which holds while nothing moves.
                KeptObject (cell(use int)) -> int { kept::object_in(cell) };
                /// The primal of an element of an array of reals, which is told by its address.
                KeptElem (object(use int), index(use int)) -> real { f64::from_bits(kept::element_at(object, index)) };
                /// The same, of an array of integers.
                KeptIElem (object(use int), index(use int)) -> int { kept::element_at(object, index) as i64 };
            }
            effects {
                /// Copies a real with its word.
                Mov (dst(def real), src(use real)) [];
                /// Copies a reference.
                PMov (dst(def ref), src(use ref)) [];
                /// The same object as a constant.
                PDetach (dst(def ref), src(use ref)) [moves];
                /// A real constant.
                Const (dst(def real), value(bits)) [];
                /// Gives a real that was just written the word of a constant.
                Passive (dst(use real)) [];
                /// Selection of references: `dst = a` if `c ≠ 0`, else `b`.
                PSelect (dst(def ref), c(use int), a(use ref), b(use ref)) [];

                /// Continues at `target`, which is further on. Fuel that runs out is found further on, too.
                Jump (target(target), cost(cost)) [ends];
                /// Continues at `then` if `cond ≠ 0`, else at `other`; both are further on. Fuel is as for a jump.
                Branch (cond(use int), then(target), other(target), cost(cost)) [ends];
                /// A jump that goes back in the bytecode, where fuel is looked at, but not in this stream.
                CheckedJump (target(target), cost(cost)) [ends];
                /// A branch that may go back in the bytecode, where fuel is looked at, but doesn't in this stream.
                CheckedBranch (cond(use int), then(target), other(target), cost(cost)) [ends];
                /// A jump that goes back: it counts as a round of a loop.
                BackJump (target(target), cost(cost)) [ends];
                /// A branch that may go back: where it does, it counts as a round of a loop.
                BackBranch (cond(use int), then(target), other(target), cost(cost)) [ends];
                /// Continues at one of the site's targets.
                Switch (index(use int), site(leads SwitchSite)) [ends];
                /// Calls the site's function.
                Call (site(site CallSite)) [calls moves];
                /// Calls a closure.
                CallClosure (callee(use ref), site(site CallSite)) [calls moves];
                /// Returns what the call of the site's function returns, in constant stack space.
                TailCall (site(site CallSite)) [ends];
                /// Calls a closure in constant stack space.
                TailCallClosure (callee(use ref), site(site CallSite)) [ends];
                /// Returns the site's registers.
                Ret (site(site CallSite)) [ends];
                /// Stops the program with a message of the module.
                Trap (message(message)) [ends];
                /// Stops the program with a text.
                TrapWith (site(site TextSite)) [ends];
                /// Shows a text to a host that listens. Objects stay where they are.
                Trace (site(site TextSite)) [];
                /// Runs the site's tasks.
                Fork (site(site ForkSite)) [calls moves];
                /// Builds an array from ranges of the numbers below `count`, which tasks make.
                ParallelMap (dst(def ref), count(use int), site(site MapSite)) [calls moves];
                /// Takes the derivative of a call.
                Operate (site(site OperatorSite)) [calls moves];

                /// Makes a struct, a variant or a closure.
                New (dst(def ref), site(site ObjectSite)) [moves];
                /// The same at a depth: the site has the registers component by component.
                NewDeep (dst(def ref), site(site ObjectSite)) [moves];
                /// Makes an array.
                Pack (dst(def ref), site(site ObjectSite)) [moves];
                /// The same at a depth: the site has the registers component by component.
                PackDeep (dst(def ref), site(site ObjectSite)) [moves];
                /// Reads a real field.
                Field (dst(def real), object(use ref), primal(offset), word(offset)) [];
                /// Reads a real field's primal.
                PrimalField (dst(def real), object(use ref), primal(offset)) [];
                /// Reads an integer field.
                IField (dst(def int), object(use ref), at(offset)) [];
                /// Reads a reference field.
                PField (dst(def ref), object(use ref), at(offset)) [];
                /// Reads a real field of a variant. Traps if the object has another tag.
                Payload (dst(def real), object(use ref), tag(tag), primal(offset), word(offset)) [];
                /// Reads the primal of a real field of a variant. Traps if the object has another tag.
                PrimalPayload (dst(def real), object(use ref), tag(tag), primal(offset)) [];
                /// Reads a component of a real field, or of a variant's payload whose tag is known. It is 0 if the
                /// object hasn't got it. `depth` is where the depth word would stand.
                FieldPart (dst(def real), object(use ref), depth(part), primal(offset), word(offset)) [];
                /// Reads an integer field of a variant. Traps if the object has another tag.
                IPayload (dst(def int), object(use ref), tag(tag), at(offset)) [];
                /// Reads a reference field of a variant. Traps if the object has another tag.
                PPayload (dst(def ref), object(use ref), tag(tag), at(offset)) [];
                /// The tag of a variant, which is one of `tags`.
                VariantTag (dst(def int), object(use ref), tags(part)) [];
                /// The length of an array.
                Len (dst(def int), array(use ref)) [];
                /// Reads an element of an array of reals. Traps unless `0 ≤ index < len`.
                Elem (dst(def real), array(use ref), index(use int)) [];
                /// Reads a component of an element that the array is known to have. It is 0 if the array hasn't got it.
                ElemPart (dst(def real), array(use ref), index(use int), part(part)) [];
                /// Reads an element's primal. Traps unless `0 ≤ index < len`.
                PrimalElem (dst(def real), array(use ref), index(use int)) [];
                /// Reads an element of an array of integers. Traps unless `0 ≤ index < len`.
                IElem (dst(def int), array(use ref), index(use int)) [];
                /// Reads an element of an array of references. Traps unless `0 ≤ index < len`.
                PElem (dst(def ref), array(use ref), index(use int)) [];
                /// The place of a row's first element: `index · width`. Traps unless `0 ≤ index < len / width`.
                Row (dst(def int), array(use ref), index(use int), width(cost)) [];
                /// Traps unless both arrays have the same length.
                SameLen (array(use ref), other(use ref)) [];
                /// Traps unless so many integers, from a place on, are the same in both objects.
                SameShape (object(use ref), other(use ref), at(offset), count(offset)) [];
                /// Makes an empty builder for a depth, with room for words or without. Traps if `capacity < 0`.
                Build (dst(def ref), capacity(use int), element(bank), words(flag), depth(part)) [moves];
                /// Appends a real to a builder. Traps if the builder is full or finished.
                Push (builder(use ref), value(use real)) [];
                /// Appends a real to a builder without words. Traps if the builder is full or finished.
                PrimalPush (builder(use ref), value(use real)) [];
                /// Gives the last element of a builder a component above the lowest.
                PushPart (builder(use ref), value(use real), part(part)) [];
                /// Appends an integer to a builder. Traps if the builder is full or finished.
                IPush (builder(use ref), value(use int)) [];
                /// Appends a reference to a builder. Traps if the builder is full or finished.
                PPush (builder(use ref), value(use ref)) [];
                /// Turns a builder into an array. Traps if it is finished already.
                Finish (dst(def ref), builder(use ref)) [];
                /// Appends a range of an array to a builder, of reals with words or without. Traps if the builder is
                /// finished, or has no room for it, or if the array doesn't have it.
                Extend (builder(use ref), array(use ref), from(use int), to(use int), words(flag)) [];
                /// Reads an element of a builder of reals. Traps if it is finished or doesn't have the element.
                Get (dst(def real), builder(use ref), index(use int)) [];
                /// Reads the primal of an element of a builder. Traps as `Get`.
                PrimalGet (dst(def real), builder(use ref), index(use int)) [];
                /// Reads a component above the lowest of an element that the builder is known to have.
                GetPart (dst(def real), builder(use ref), index(use int), part(part)) [];
                /// Reads an element of a builder of integers. Traps as `Get`.
                IGet (dst(def int), builder(use ref), index(use int)) [];
                /// Reads an element of a builder of references. Traps as `Get`.
                PGet (dst(def ref), builder(use ref), index(use int)) [];
                /// Replaces an element of a builder of reals. Traps as `Get`.
                Put (builder(use ref), index(use int), value(use real)) [];
                /// Replaces an element of a builder without words. Traps as `Get`.
                PrimalPut (builder(use ref), index(use int), value(use real)) [];
                /// Replaces a component above the lowest of an element that the builder is known to have.
                PutPart (builder(use ref), index(use int), value(use real), part(part)) [];
                /// Replaces an element of a builder of integers. Traps as `Get`.
                IPut (builder(use ref), index(use int), value(use int)) [];
                /// Replaces an element of a builder of references. Traps as `Get`.
                PPut (builder(use ref), index(use int), value(use ref)) [];
                /// The same builder if it has room for so many elements more, else another one that takes its place.
                /// Traps if it is finished or there can't be such room.
                Reserve (dst(def ref), builder(use ref), count(use int)) [moves];

                /// The empty chain.
                ChainNew (dst(def ref)) [];
                /// Appends an object to a chain; its last field stays open. Traps if the chain is finished.
                ChainPush (dst(def ref), chain(use ref), site(site ObjectSite)) [moves];
                /// The same at a depth: the site has the registers component by component.
                ChainPushDeep (dst(def ref), chain(use ref), site(site ObjectSite)) [moves];
                /// Ends a chain with the last object's last field. Traps if it is finished already.
                ChainFinish (dst(def ref), chain(use ref), tail(use ref)) [];

                /// Ends a segment: appends its record and gives its outputs their words.
                SegmentEnd (site(site SegmentSite)) [];
                /// Looks at what the instruction before has computed. Traps if that became NaN or infinite.
                Check (site(site CheckSite)) [];
                /// Begins a loop that is recorded as one: opens its record if anything that it depends on is active.
                LoopBegin (site(site LoopSite)) [];
                /// Ends an iteration of such a loop: saves what its adjoint needs, and goes to the site's body or end.
                LoopStep (cond(use int), site(leads LoopSite)) [ends];
                /// Ends such a loop: completes its record and gives its outputs their words.
                LoopEnd (site(site LoopSite)) [];
                /// Begins a region: opens its record if anything that it depends on is active.
                RegionBegin (site(site RegionSite)) [];
                /// Counts a round of a loop in a region: `dst = before + 1`.
                RegionRound (dst(def int), before(use int)) [];
                /// Appends to the trail of the open region.
                RegionSave (site(site SaveSite)) [];
                /// The first slot of an array of reals, as the trail of the open region tells it.
                ArrayBase (dst(def int), array(use ref)) [];
                /// The slot of a real field, as the trail of the open region tells first slots of arrays.
                FieldSlot (dst(def int), object(use ref), word(offset)) [];
                /// A cell with an array of reals, for the trail of the open region; 0 if that gets no record.
                ArrayCell (dst(def int), array(use ref)) [];
                /// The same with a copy in the trail, unless the array is long.
                ArrayCopy (dst(def int), array(use ref)) [];
                /// Turns a builder that the open region has begun into an array. Traps if it is finished already.
                /// `first` is the first slot of its reals, or 0: `active` says whether they depend on anything.
                RegionFinish (dst(def ref), builder(use ref), first(def int), len(def int), active(flag)) [];
                /// Gives the elements of a builder that a region is going to change consecutive slots, with a record if
                /// they haven't: `before` is the first one, or 0 if they are constants.
                BuilderPack (before(def int), builder(use ref)) [];
                /// Slots for the elements of a builder while the open region changes them: `first` is the first one, or
                /// 0 if the region gets no record.
                BuilderSlots (first(def int), len(def int), builder(use ref)) [];
                /// Ends a region: completes its record and gives its outputs their words.
                RegionEnd (site(site RegionSite)) [];
            }
        }
    };
}
pub(crate) use for_each_inst;

/// The type of an operand.
macro_rules! operand_type {
    (def real) => {
        RealReg
    };
    (def int) => {
        IntReg
    };
    (def ref) => {
        RefReg
    };
    (use real) => {
        RealReg
    };
    (use int) => {
        IntReg
    };
    (use ref) => {
        RefReg
    };
    (target) => {
        Position
    };
    (cost) => {
        u32
    };
    (offset) => {
        u32
    };
    (message) => {
        u32
    };
    (bits) => {
        u64
    };
    (int) => {
        i64
    };
    (tag) => {
        u16
    };
    (part) => {
        u16
    };
    (bank) => {
        Bank
    };
    (flag) => {
        bool
    };
    (site $site:ty) => {
        Site<$site>
    };
    (leads $site:ty) => {
        Site<$site>
    };
}

/// Shows an operand to a visitor if it is a register, and the registers of a site.
macro_rules! visit_register {
    ($visit:ident, $stream:expr, $operand:ident, def $bank:tt) => {
        $visit(Reg::from($operand), true)
    };
    ($visit:ident, $stream:expr, $operand:ident, use $bank:tt) => {
        $visit(Reg::from($operand), false)
    };
    ($visit:ident, $stream:expr, $operand:ident, site $site:ty) => {
        $stream[$operand].for_each_reg(&mut $visit)
    };
    ($visit:ident, $stream:expr, $operand:ident, leads $site:ty) => {
        $stream[$operand].for_each_reg(&mut $visit)
    };
    ($visit:ident, $stream:expr, $operand:ident, $($other:tt)+) => {
        _ = $operand
    };
}

/// Shows an operand to a visitor if it is a target.
macro_rules! visit_target {
    ($visit:ident, $operand:ident, target) => {
        $visit($operand)
    };
    ($visit:ident, $operand:ident, $($other:tt)+) => {
        _ = $operand
    };
}

/// Shows the targets of an operand's site to a visitor.
macro_rules! visit_site_target {
    ($visit:ident, $stream:expr, $operand:ident, target) => {
        $visit(*$operand)
    };
    ($visit:ident, $stream:expr, $operand:ident, leads $site:ty) => {
        $stream[*$operand].for_each_target(&mut $visit)
    };
    ($visit:ident, $stream:expr, $operand:ident, $($other:tt)+) => {
        _ = $operand
    };
}

/// The bank type of a scalar's operand.
macro_rules! bank_register {
    (real) => {
        RealReg
    };
    (int) => {
        IntReg
    };
}

/// A scalar instruction: a pure function of one to three registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScalarInst {
    /// Which function.
    pub op: Op,
    /// The register that is written.
    pub dst: Reg,
    args: [Reg; 3],
    count: u8,
}

impl ScalarInst {
    fn new(op: Op, dst: Reg, args: &[Reg]) -> Self {
        let mut all = [args[0]; 3];
        all[..args.len()].copy_from_slice(args);
        ScalarInst { op, dst, args: all, count: args.len() as u8 }
    }

    /// The registers that are read, in the order of the function's arguments.
    pub fn args(&self) -> &[Reg] {
        &self.args[..usize::from(self.count)]
    }
}

macro_rules! define_inst {
    (
        scalar { $( $(#[doc = $sdoc:literal])+ $scode:literal $sname:ident $smnem:ident
            ($($arg:ident : $bank:ident),+) -> $rbank:ident $($try:ident)? $body:block
            $(diff |$r:ident| [$($partial:expr),+])? $(passive)? $(@ $mark:ident)* ; )* }
        structural $structural:tt
        pure { $( $(#[doc = $pdoc:literal])+ $pname:ident
            ($($poperand:ident ($($prole:tt)+)),*) -> $pbank:ident $pbody:block ; )* }
        effects { $( $(#[doc = $doc:literal])+ $name:ident
            ($($operand:ident ($($role:tt)+)),*) [$($flag:ident)*] ; )* }
    ) => {
        /// An instruction of prepared code.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs, reason = "the table says what operands are")]
        pub enum Inst {
            $( $(#[doc = $sdoc])+ $sname { dst: bank_register!($rbank), $($arg: bank_register!($bank)),+ }, )*
            $( $(#[doc = $pdoc])+ $pname { dst: bank_register!($pbank), $($poperand: operand_type!($($prole)+)),* }, )*
            $( $(#[doc = $doc])+ $name { $($operand: operand_type!($($role)+)),* }, )*
        }

        /// An instruction that writes one register and nothing else.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the table says what operands are")]
        pub enum Pure {
            /// A scalar instruction.
            Scalar(ScalarInst),
            $( $(#[doc = $pdoc])+ $pname { dst: bank_register!($pbank), $($poperand: operand_type!($($prole)+)),* }, )*
        }

        /// An [`Inst`] for those who treat all scalar instructions alike.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the table says what operands are")]
        pub enum Form {
            /// A pure instruction.
            Pure(Pure),
            $( $(#[doc = $doc])+ $name { $($operand: operand_type!($($role)+)),* }, )*
        }

        impl Inst {
            /// The instruction with its scalar family as one.
            pub fn form(&self) -> Form {
                match *self {
                    $( Inst::$sname { dst, $($arg),+ } => {
                        Form::Pure(Pure::Scalar(ScalarInst::new(Op::$sname, dst.into(), &[$($arg.into()),+])))
                    } )*
                    $( Inst::$pname { dst, $($poperand),* } => Form::Pure(Pure::$pname { dst, $($poperand),* }), )*
                    $( Inst::$name { $($operand),* } => Form::$name { $($operand),* }, )*
                }
            }

            /// The instruction among the pure ones, which all of derived code is.
            pub fn pure(&self) -> Option<Pure> {
                match self.form() {
                    Form::Pure(pure) => Some(pure),
                    $( Form::$name { .. } => None, )*
                }
            }

            /// A scalar instruction of the bytecode on registers. `None` if it is no scalar one, or takes another
            /// number of arguments.
            pub(crate) fn scalar(op: Op, dst: u16, args: &[u16]) -> Option<Inst> {
                Some(match op {
                    $( Op::$sname => {
                        let [$($arg),+] = *args else { return None };
                        Inst::$sname { dst: bank_register!($rbank)(dst), $($arg: bank_register!($bank)($arg)),+ }
                    } )*
                    _ => return None,
                })
            }

            /// Whether control never reaches the next instruction.
            pub const fn ends_block(&self) -> bool {
                match self {
                    $( Inst::$sname { .. } => false, )*
                    $( Inst::$pname { .. } => false, )*
                    $( Inst::$name { .. } => has_flag!(ends, [$($flag)*]), )*
                }
            }

            /// Whether the instruction runs other functions and then goes on with the next instruction.
            pub const fn calls(&self) -> bool {
                match self {
                    $( Inst::$sname { .. } => false, )*
                    $( Inst::$pname { .. } => false, )*
                    $( Inst::$name { .. } => has_flag!(calls, [$($flag)*]), )*
                }
            }

            /// Whether objects may have moved when control reaches the next instruction.
            pub const fn moves_objects(&self) -> bool {
                match self {
                    $( Inst::$sname { .. } => false, )*
                    $( Inst::$pname { .. } => false, )*
                    $( Inst::$name { .. } => has_flag!(moves, [$($flag)*]), )*
                }
            }

            /// The register that a pure instruction writes.
            pub fn pure_result(&self) -> Option<Reg> {
                match *self {
                    $( Inst::$sname { dst, .. } => Some(dst.into()), )*
                    $( Inst::$pname { dst, .. } => Some(dst.into()), )*
                    $( Inst::$name { .. } => None, )*
                }
            }

            /// Shows all registers of an instruction of `stream`, and whether it writes them.
            pub fn for_each_reg(&self, stream: &Stream, mut visit: impl FnMut(Reg, bool)) {
                match *self {
                    $( Inst::$sname { dst, $($arg),+ } => {
                        $( visit($arg.into(), false); )+
                        visit(dst.into(), true);
                    } )*
                    $( Inst::$pname { dst, $($poperand),* } => {
                        $( visit_register!(visit, stream, $poperand, $($prole)+); )*
                        visit(dst.into(), true);
                    } )*
                    $( Inst::$name { $($operand),* } => {
                        $( visit_register!(visit, stream, $operand, $($role)+); )*
                    } )*
                }
            }

            /// Shows the positions that the instruction itself names; those in a site are not among them.
            pub(crate) fn for_each_target_mut(&mut self, mut visit: impl FnMut(&mut Position)) {
                match self {
                    $( Inst::$sname { .. } => (), )*
                    $( Inst::$pname { .. } => (), )*
                    $( Inst::$name { $($operand),* } => { $( visit_target!(visit, $operand, $($role)+); )* } )*
                }
                _ = &mut visit;
            }

            /// Shows all positions that an instruction of `stream` may go to but the next one.
            pub fn for_each_target(&self, stream: &Stream, mut visit: impl FnMut(Position)) {
                match self {
                    $( Inst::$sname { .. } => (), )*
                    $( Inst::$pname { .. } => (), )*
                    $( Inst::$name { $($operand),* } => {
                        $( visit_site_target!(visit, stream, $operand, $($role)+); )*
                    } )*
                }
            }
        }
    };
}
for_each_inst!(define_inst);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_sixteen_bytes() {
        assert_eq!(size_of::<Inst>(), 16);
    }

    #[test]
    fn a_scalar_instruction_has_the_operands_of_the_bytecode() {
        for op in Op::ALL.iter().copied().filter(|op| op.is_scalar()) {
            let operands = &op.info().operands[1..];
            let args: Vec<u16> = (1..=operands.len() as u16).collect();
            let inst = Inst::scalar(op, 0, &args).expect("it is a scalar instruction");
            let Form::Pure(Pure::Scalar(scalar)) = inst.form() else { panic!("{inst:?} is a scalar instruction") };
            assert_eq!((scalar.op, scalar.dst.index, scalar.args().len()), (op, 0, operands.len()));
            let mut written = Vec::new();
            inst.for_each_reg(&Stream::default(), |reg, def| written.extend(def.then_some(reg)));
            assert_eq!(written, [scalar.dst]);
        }
    }
}
