//! Functions that give tangents with their values, for operators and hosts that take these, and for calls.

use super::writer::Declined;
use crate::bytecode::module::{FuncId, Function, ModuleDef, TypeDef, TypeId, ValueType};
use crate::bytecode::verify::limits;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What becomes of a module's functions is written in so many functions at most.
const FUNCTIONS_MAX: usize = 1024;

/// A function with tangents: which it takes and which it gives.
///
/// It takes captures, their tangents, other arguments and their tangents, each in the order of the parameters; it gives
/// what the function gives, and then tangents in the order of the results. Where there are several lanes, all tangents
/// of a lane stand together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Signature {
    pub(super) func: FuncId,
    /// The first so many parameters stand before all others with their tangents, since an operator takes them for
    /// captures.
    pub(super) captures: usize,
    /// The parameters that vary. There are tangents of these.
    pub(super) varied: Box<[bool]>,
    /// If they are several, the tangents of an array of reals are one array in all of them: those of its first element,
    /// lane by lane, then those of the next. So what lanes do alike is done to what stands side by side.
    pub(super) lanes: usize,
    /// Whether there are tangents of all that isn't an integer, as operators take and give them. What doesn't vary is
    /// not looked at; an object of no reals is its own tangent. What all lanes have in common is taken and given once
    /// for each.
    pub(super) whole: bool,
}

impl Signature {
    /// What the parameters are.
    pub(super) fn layout(&self, function: &Function, types: &Types) -> Vec<Param> {
        let mut layout = Vec::new();
        for group in [0..self.captures, self.captures..function.params.len()] {
            layout.extend(group.clone().map(Param::Value));
            for lane in 0..self.lanes {
                let taken = |&n: &usize| {
                    let ty = function.params[n];
                    (self.varied[n] || self.whole && ty != ValueType::Int) && self.is_in_lane(lane, ty, types)
                };
                layout.extend(group.clone().filter(taken).map(|parameter| Param::Tangent { parameter, lane }));
            }
        }
        layout
    }

    /// The types of the results.
    pub(super) fn results(&self, function: &Function, types: &Types) -> Vec<ValueType> {
        let mut all = function.results.clone();
        for lane in 0..self.lanes {
            let given = |&ty: &ValueType| self.gives(ty, types) && self.is_in_lane(lane, ty, types);
            all.extend(function.results.iter().copied().filter(given));
        }
        all
    }

    /// Whether a lane has a tangent of this type: one that is for all of them is with those of the first.
    fn is_in_lane(&self, lane: usize, ty: ValueType, types: &Types) -> bool {
        lane == 0 || self.whole || !types.is_array_of_reals(ty)
    }

    /// Whether there are tangents of a result of this type.
    pub(super) fn gives(&self, ty: ValueType, types: &Types) -> bool {
        if self.whole { ty != ValueType::Int } else { types.hold_reals(ty) }
    }
}

/// A parameter of a function with tangents.
#[derive(Clone, Copy)]
pub(super) enum Param {
    /// That of the function with this number.
    Value(usize),
    Tangent {
        parameter: usize,
        lane: usize,
    },
}

impl Param {
    /// The number of the parameter of the function that it belongs to.
    pub(super) fn parameter(self) -> usize {
        match self {
            Param::Value(parameter) | Param::Tangent { parameter, .. } => parameter,
        }
    }
}

/// What types of a module are made of.
pub(super) struct Types {
    /// Those that hold reals, so that there are tangents of them.
    hold_reals: Vec<bool>,
    /// Arrays of reals, and builders of such.
    arrays: HashSet<TypeId>,
}

impl Types {
    pub(super) fn of(module: &ModuleDef) -> Types {
        // Nobody knows what a closure has captured.
        let is_closure = |def: &TypeDef| matches!(def, TypeDef::Closure { .. });
        let holds_real = |def: &TypeDef| is_closure(def) || def.parts().any(|part| part == ValueType::Real);
        let is_array =
            |def: &TypeDef| matches!(def, TypeDef::Array(ValueType::Real) | TypeDef::Builder(ValueType::Real));
        let arrays = module.types.iter().enumerate().filter(|(_, def)| is_array(def));
        Types {
            hold_reals: leading_to(module, holds_real),
            arrays: arrays.map(|(index, _)| TypeId(index as u32)).collect(),
        }
    }

    /// Whether values of this type are reals, or objects that may hold some or lead to some.
    pub(super) fn hold_reals(&self, ty: ValueType) -> bool {
        match ty {
            ValueType::Real => true,
            ValueType::Int => false,
            ValueType::Ref(id) => self.object_holds_reals(id),
        }
    }

    /// Builders that are added hold reals.
    pub(super) fn object_holds_reals(&self, id: TypeId) -> bool {
        self.hold_reals.get(id.index()).copied().unwrap_or(true)
    }

    /// Whether values of this type are arrays of reals, or become one.
    pub(super) fn is_array_of_reals(&self, ty: ValueType) -> bool {
        matches!(ty, ValueType::Ref(id) if self.arrays.contains(&id))
    }
}

/// For each type of a module, whether it is one of these or leads to one.
fn leading_to(module: &ModuleDef, is_one: impl Fn(&TypeDef) -> bool) -> Vec<bool> {
    let mut leads = vec![false; module.types.len()];
    let mut used_by = vec![Vec::new(); module.types.len()];
    let mut found = Vec::new();
    for (index, def) in module.types.iter().enumerate() {
        for part in def.parts() {
            if let ValueType::Ref(id) = part {
                used_by[id.index()].push(index);
            }
        }
        if is_one(def) {
            leads[index] = true;
            found.push(index);
        }
    }
    while let Some(index) = found.pop() {
        for user in std::mem::take(&mut used_by[index]) {
            if !std::mem::replace(&mut leads[user], true) {
                found.push(user);
            }
        }
    }
    leads
}

/// The types of builders that are written with. Those that a module doesn't have are added to it.
pub(super) struct Builders {
    known: RefCell<HashMap<ValueType, TypeId>>,
    added: RefCell<Vec<TypeDef>>,
    /// The number of types that the module has.
    first: usize,
}

impl Builders {
    pub(super) fn of_module(module: &ModuleDef) -> Builders {
        let mut known = HashMap::new();
        for (index, def) in module.types.iter().enumerate() {
            if let TypeDef::Builder(element) = def {
                known.entry(*element).or_insert(TypeId(index as u32));
            }
        }
        Builders { known: RefCell::new(known), added: RefCell::default(), first: module.types.len() }
    }

    /// The type of a builder of reals, or of objects that hold some.
    pub(super) fn of(&self, element: ValueType) -> Result<TypeId, Declined> {
        let mut known = self.known.borrow_mut();
        if let Some(&id) = known.get(&element) {
            return Ok(id);
        }
        let mut added = self.added.borrow_mut();
        let index = self.first + added.len();
        if index >= limits::TYPES_MAX {
            return Err(Declined);
        }
        added.push(TypeDef::Builder(element));
        let id = TypeId(index as u32);
        known.insert(element, id);
        Ok(id)
    }

    /// Whether this type was added for arrays of reals.
    pub(super) fn are_of_reals(&self, id: TypeId) -> bool {
        self.known.borrow().get(&ValueType::Real) == Some(&id)
    }

    /// What was added, in order.
    pub(super) fn into_added(self) -> Vec<TypeDef> {
        self.added.into_inner()
    }
}

/// A function that was written, and for each of its instructions the one that it is from.
pub(super) struct Written {
    pub(super) function: Rc<Function>,
    pub(super) insts: Vec<u32>,
}

/// The functions with tangents of a module, behind its own. A number is given out when a call of one is written; so a
/// function may call itself. Who asks for one sees to it that all are written, or takes all back.
pub(super) struct TangentFunctions {
    /// The number of functions that the module has.
    first: usize,
    numbers: HashMap<Signature, FuncId>,
    functions: Vec<(Signature, Option<Written>)>,
    /// Those that can't be written. They aren't tried again, which bounds what a module costs.
    declined: HashSet<Signature>,
}

impl TangentFunctions {
    pub(super) fn new(module: &ModuleDef) -> TangentFunctions {
        TangentFunctions {
            first: module.functions.len(),
            numbers: HashMap::new(),
            functions: Vec::new(),
            declined: HashSet::new(),
        }
    }

    /// The number of a function, which may have to be written yet.
    pub(super) fn number(&mut self, signature: Signature) -> Result<FuncId, Declined> {
        if let Some(&number) = self.numbers.get(&signature) {
            return Ok(number);
        }
        if self.functions.len() == FUNCTIONS_MAX || self.declined.contains(&signature) {
            return Err(Declined);
        }
        let number = FuncId((self.first + self.functions.len()) as u32);
        self.numbers.insert(signature.clone(), number);
        self.functions.push((signature, None));
        Ok(number)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.functions.len()
    }

    /// One that was written.
    pub(super) fn written(&self, number: FuncId) -> Option<Rc<Function>> {
        let (_, written) = self.functions.get(number.index().checked_sub(self.first)?)?;
        written.as_ref().map(|written| written.function.clone())
    }

    /// How many results a function of the module has, or one that was written.
    pub(super) fn result_count(&self, module: &ModuleDef, number: FuncId) -> Result<usize, Declined> {
        match module.functions.get(number.index()) {
            Some(function) => Ok(function.results.len()),
            None => self.written(number).map(|function| function.results.len()).ok_or(Declined),
        }
    }

    pub(super) fn signature(&self, index: usize) -> &Signature {
        &self.functions[index].0
    }

    pub(super) fn set(&mut self, index: usize, written: Written) {
        self.functions[index].1 = Some(written);
    }

    /// Notes that one can't be written.
    pub(super) fn decline(&mut self, index: usize) {
        self.declined.insert(self.functions[index].0.clone());
    }

    /// Forgets all but the first so many.
    pub(super) fn truncate(&mut self, len: usize) {
        for (signature, _) in self.functions.drain(len..) {
            self.numbers.remove(&signature);
        }
    }

    /// The functions in order, and whose tangents they give. All are written.
    pub(super) fn into_functions(self) -> impl Iterator<Item = (FuncId, Written)> {
        self.functions.into_iter().map(|(signature, written)| {
            (signature.func, written.expect("who asked for it has seen to it that it is written"))
        })
    }
}
