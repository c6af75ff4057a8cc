//! Names and calls: instances of polymorphic functions, and the number of arguments.

use super::{DefType, Infer, Why};
use crate::ast::{ConstructorId, ExprId, ExprKind};
use crate::builtins::{Builtin, SignatureType};
use crate::diagnostics::Diagnostic;
use crate::hash::HashMap;
use crate::prelude::DERIVATIVES;
use crate::resolve::Meaning;
use crate::source::Span;
use crate::types::{Class, Con, Kind, Kinds, Ty};

/// What is said where a function stands for what a derivative is taken of, or by.
const ONLY_DATA: &str = "derivatives are of data and with respect to data: types without functions in them";
const CAPTURES: &str = "what a function has captured is no argument of it: pass what you want to differentiate by";
const CAPTURED: &str = "make constants of what the functions capture, where they capture it";
const RESULT: &str = "a function of several arguments takes them as a tuple: `\\(x, y) -> x * y`";
const PULLBACK: &str = "it gives a value and its pullback: `let (y, back) = vjp f x in back 1.0`";
const RESULT_OF_ARRAY: &str = "a function of several reals takes them as one array: `\\x -> x[0] * x[1]`";
/// Advice repeats so many arguments at most.
const SHOWN_MAX: usize = 6;

impl Infer<'_> {
    /// The type of a name at one use.
    pub(super) fn name(&mut self, expr: ExprId) -> Ty {
        match self.resolved.meanings[expr] {
            None => self.out.types.error,
            Some(Meaning::Local(local)) => self.locals[local],
            Some(Meaning::Function(function)) => {
                let function = self.out.functions[function].clone();
                self.instance(expr, function)
            }
            Some(Meaning::Def(def)) => {
                let def = self.out.defs[def].clone();
                self.instance(expr, def)
            }
            Some(Meaning::Builtin(builtin)) => self.builtin(builtin),
            Some(Meaning::Constructor(constructor)) => {
                if self.ast.constructors[constructor].field_names.is_some() {
                    self.wrong_constructor_count(constructor, self.ast.exprs[expr].span, 0);
                    return self.out.types.error;
                }
                let (fields, data) = self.constructor_type(constructor);
                self.out.types.functions(&fields, data)
            }
        }
    }

    /// `callee args`.
    pub(super) fn apply(&mut self, callee: ExprId, args: &[ExprId]) -> Ty {
        if let Some(Meaning::Constructor(constructor)) = self.resolved.meanings[callee]
            && self.ast.constructors[constructor].field_names.is_some()
        {
            return self.apply_to_record(callee, constructor, args);
        }
        if self.resolved.meanings[callee] == Some(Meaning::Builtin(Builtin::ByKind)) {
            return self.by_kind(args);
        }
        let mut ty = self.infer(callee);
        if let Some((index, rest)) = self.too_few_parameters(ty, args.len()) {
            self.too_many(callee, rest, args, index);
            return self.arguments_only(args);
        }
        let mut point = None;
        if let (&[function, arg], true) = (args, self.takes_array(callee)) {
            let found = self.infer(arg);
            if self.is_no_array(callee, function, arg, found) {
                self.infer(function);
                return self.out.types.error;
            }
            point = Some(found);
        }
        for (i, &arg) in args.iter().enumerate() {
            let Some((param, result)) = self.as_function(ty) else {
                // What is a result may turn out to be no function only now, by an argument.
                if !self.out.types.is_error(ty) {
                    self.too_many(callee, ty, args, i);
                }
                return self.arguments_only(&args[i..]);
            };
            if self.is_tuple_of_arguments(callee, args, param) {
                return self.tuple_of_arguments(callee, args);
            }
            match point.filter(|_| i == 1) {
                Some(found) => self.unify_expr(arg, param, found, Why::Argument(callee, i)),
                None => self.check(arg, param, Why::Argument(callee, i)),
            }
            ty = result;
        }
        ty
    }

    /// Whether the point where `jacobian` or `hessian` is taken is a number or a tuple, which is reported then.
    fn is_no_array(&mut self, callee: ExprId, function: ExprId, point: ExprId, found: Ty) -> bool {
        let name = self.callee_name(callee);
        let is_real = self.is_number(found) && self.out.types.con_of(found) != Some(Con::Int);
        let help = if is_real {
            let f = self.quoted(function).unwrap_or_else(|| "f".to_owned());
            let x = self.quoted(point).unwrap_or_else(|| "x".to_owned());
            let f = if name == "hessian" { format!("(derivative {f})") } else { f };
            format!("of a function of one real it is `derivative {f} {x}`")
        } else if self.out.types.con_of(found) == Some(Con::Tuple) {
            format!("{RESULT_OF_ARRAY}; `grad` and `jvp` take tuples, too")
        } else {
            return false;
        };
        let found = self.out.types.describe(found);
        let message = format!("`{name}` needs an `Array Real`, found {found}");
        let error = Diagnostic::error(self.ast.exprs[point].span, message).label(format!("this is {found}"));
        self.sink.push(error.help(help));
        true
    }

    /// Whether the only argument is a tuple of all that a function takes, as in `pow(x, 2)`, where it takes no tuple.
    fn is_tuple_of_arguments(&self, callee: ExprId, args: &[ExprId], param: Ty) -> bool {
        let types = &self.out.types;
        let takes_other = types.con_of(param).is_some_and(|con| con != Con::Tuple)
            || matches!(types.class_of(param), Class::Number | Class::Ordered);
        match (args, self.expected_arguments(callee)) {
            (&[arg], Some(expected)) => {
                takes_other
                    && expected > 1
                    && matches!(&self.ast.exprs[arg].kind, ExprKind::Tuple(parts) if parts.len() == expected)
            }
            _ => false,
        }
    }

    fn tuple_of_arguments(&mut self, callee: ExprId, args: &[ExprId]) -> Ty {
        let name = self.callee_name(callee);
        let names = ["a", "b", "c", "d"];
        let expected = self.expected_arguments(callee).unwrap_or_default();
        let shown = if expected <= names.len() { names[..expected].join(" ") } else { "a b ..".to_owned() };
        let error = Diagnostic::error(self.ast.exprs[args[0]].span, "arguments stand side by side, without commas")
            .label("this is one argument, a tuple")
            .help(format!(
                "write `{name} {shown}`; an argument that is more than a name or a number needs parentheses"
            ));
        let error = self.with_signature(error, callee);
        self.sink.push(error);
        self.arguments_only(args)
    }

    /// Where a type that is applied to `count` arguments stops to be a function, and what it is there.
    fn too_few_parameters(&self, mut ty: Ty, count: usize) -> Option<(usize, Ty)> {
        for index in 0..count {
            match self.out.types.function_parts(ty) {
                Some((_, result)) => ty = result,
                None => {
                    // A number is never a function, whatever number it is.
                    let is_open = self.out.types.con_of(ty).is_none() && self.out.types.class_of(ty) == Class::Any;
                    return (!is_open).then_some((index, ty));
                }
            }
        }
        None
    }

    /// The parameter and the result of a type that must be a function's.
    pub(super) fn as_function(&mut self, ty: Ty) -> Option<(Ty, Ty)> {
        if let Some(parts) = self.out.types.function_parts(ty) {
            return Some(parts);
        }
        if self.out.types.con_of(ty).is_some() || self.out.types.is_error(ty) {
            return None;
        }
        let types = &mut self.out.types;
        let (param, result) = (types.var(Class::Any), types.var(Class::Any));
        let function = types.function(param, result);
        types.unify(ty, function).ok().map(|()| (param, result))
    }

    /// A constructor with named fields and its record.
    fn apply_to_record(&mut self, callee: ExprId, constructor: ConstructorId, args: &[ExprId]) -> Ty {
        let ast = self.ast;
        let (fields, data) = self.constructor_type(constructor);
        let Some((&record, rest)) = args.split_first() else { unreachable!("an application has arguments") };
        let (ExprKind::Record(given), []) = (&ast.exprs[record].kind, rest) else {
            self.wrong_constructor_count(constructor, ast.exprs[callee].span, args.len());
            self.arguments_only(args);
            return data;
        };
        self.named_arguments(constructor, &fields, callee, given);
        data
    }

    /// Infers arguments of a call that is wrong. A function's name among them is likely part of the same mistake.
    fn arguments_only(&mut self, args: &[ExprId]) -> Ty {
        for &arg in args {
            if !matches!(self.resolved.meanings[arg], Some(Meaning::Def(_) | Meaning::Builtin(_))) {
                self.infer(arg);
            }
        }
        self.out.types.error
    }

    /// Something is applied to argument `index`, but is no function (any more).
    fn too_many(&mut self, callee: ExprId, ty: Ty, args: &[ExprId], index: usize) {
        let node = &self.ast.exprs[callee];
        let found = self.out.types.describe(ty);
        if let Some(Meaning::Constructor(constructor)) = self.resolved.meanings[callee] {
            return self.wrong_constructor_count(constructor, node.span, args.len());
        }
        if index == 0 {
            if self.is_wrong_already(args[0]) {
                return;
            }
            let error = Diagnostic::error(node.span, "only functions can be applied to arguments");
            let error = error.label(format!("this is {found}"));
            let is_index = matches!(self.ast.exprs[args[0]].kind, ExprKind::List(_));
            let is_data = self.out.types.class_of(ty) == Class::Data;
            // As in `2 x` and `(x + 1)(x - 1)`.
            let is_factor = matches!(node.kind, ExprKind::Int(_) | ExprKind::Real(_) | ExprKind::Binary(..));
            self.sink.push(match self.out.types.kind_of(ty) {
                _ if is_data => error.note(ONLY_DATA).help(CAPTURES),
                _ if is_index => error.help("an index directly follows its array: `a[i]`"),
                Some(Kind::Tensor(_)) => error.help("an element is `m[i, j]`"),
                Some(_) => error.help("an element is `xs[i]`"),
                None if is_factor && self.is_number(ty) => error.help(self.product([callee, args[0]])),
                None => error,
            });
            return;
        }
        let plural = if index == 1 { "" } else { "s" };
        let name = match &self.ast.exprs[callee].kind {
            ExprKind::Var(name) => format!("`{}`", self.names.text(*name)),
            _ => "this function".to_owned(),
        };
        let message = format!("{name} takes {index} argument{plural}, found {}", args.len());
        let error = Diagnostic::error(self.ast.exprs[args[index]].span, message).label("one too many");
        let error = match self.callee_name(callee) {
            _ if let Some(help) = self.meant_by(callee, args) => error.help(help),
            _ if !self.is_derivative(callee) || self.is_detach(callee) => {
                error.help("an argument that is more than a name or a number needs parentheses: `f (g x)`")
            }
            "vjp" => error.help(PULLBACK),
            "jacobian" | "hessian" => error.help(RESULT_OF_ARRAY),
            name => error.help(format!("{RESULT}, and `{name} f (x, y)`")),
        };
        let error = self.with_signature(error, callee);
        self.sink.push(error);
    }

    /// What a call with too many arguments was meant to be: `sin 2x`, `sum f xs`, `max a b c`.
    fn meant_by(&self, callee: ExprId, args: &[ExprId]) -> Option<String> {
        let node = |expr: ExprId| &self.ast.exprs[expr];
        let mut pairs = args.iter().zip(&args[1..]).map(|(&a, &b)| [a, b]);
        let is_product = |&[a, b]: &[ExprId; 2]| {
            matches!(node(a).kind, ExprKind::Int(_) | ExprKind::Real(_)) && node(a).span.end == node(b).span.start
        };
        if let Some(product) = pairs.find(is_product) {
            return Some(self.product(product));
        }
        let quoted: Vec<String> = args.iter().map(|&arg| self.quoted(arg)).collect::<Option<_>>()?;
        let is_builtin = matches!(self.resolved.meanings[callee], Some(Meaning::Builtin(_)));
        let is_extreme = is_builtin && args.len() <= SHOWN_MAX && !args.iter().any(|&arg| self.is_function(arg));
        let of_many = |name: &str| format!("of more than two numbers it is `{name} [| {} |]`", quoted.join(", "));
        match self.callee_name(callee) {
            "max" if is_extreme => Some(of_many("maximum")),
            "min" if is_extreme => Some(of_many("minimum")),
            name => {
                let (param, _) = self.out.types.function_parts(self.out.exprs[callee])?;
                let [f, xs] = &quoted[..] else { return None };
                let takes_collection = self.out.types.con_of(param) == Some(Con::Collection);
                (takes_collection && self.is_function(args[0])).then(|| format!("write `{name} (map {f} {xs})`"))
            }
        }
    }

    /// What is written in place of `2x` or `2 x`.
    fn product(&self, factors: [ExprId; 2]) -> String {
        let shown = match factors.map(|factor| self.quoted(factor)) {
            [Some(a), Some(b)] => format!("{a} * {b}"),
            _ => "2 * x".to_owned(),
        };
        format!("a product is written with `*`: `{shown}`")
    }

    /// Whether an expression is a function as it is written.
    fn is_function(&self, expr: ExprId) -> bool {
        matches!(self.ast.exprs[expr].kind, ExprKind::Lambda(..) | ExprKind::Operator(_) | ExprKind::Section(..))
            || self.expected_arguments(expr).is_some_and(|count| count > 0)
    }

    /// Whether another error is about what stands where an argument would: an unknown name may be meant as an
    /// operator, as in `n mod 2`, and a text belongs to something further left.
    fn is_wrong_already(&self, arg: ExprId) -> bool {
        match self.ast.exprs[arg].kind {
            ExprKind::Var(_) => self.resolved.meanings[arg].is_none(),
            ExprKind::Error => true,
            _ => false,
        }
    }

    /// Adds the type of a function and where it is defined.
    pub(super) fn with_signature(&self, error: Diagnostic, callee: ExprId) -> Diagnostic {
        let Some(meaning) = self.resolved.meanings[callee] else { return error };
        let ty = self.out.types.show(self.out.exprs[callee]);
        let error = error.note(format!("`{} : {ty}`", self.callee_name(callee)));
        match self.definition(meaning) {
            Some(span) => error.also(span, "defined here"),
            None => error,
        }
    }

    /// Where the program defines a function.
    fn definition(&self, meaning: Meaning) -> Option<Span> {
        match meaning {
            Meaning::Def(def) if self.ast.is_own(def) => Some(self.ast.defs[def].name_span),
            Meaning::Function(function) => Some(self.ast.functions[function].name_span),
            _ => None,
        }
    }

    /// How many arguments a call gives, and how many its function was defined with, if these are more.
    pub(super) fn missing_arguments(&self, call: ExprId) -> Option<(ExprId, usize, usize)> {
        let (callee, found) = self.call_parts(call)?;
        let expected = self.expected_arguments(callee)?;
        (found < expected).then_some((callee, found, expected))
    }

    /// The same for a call of a type, which says how many arguments a variable takes.
    pub(super) fn arguments_left(&self, call: ExprId, ty: Ty) -> Option<(ExprId, usize, usize)> {
        let (callee, found) = self.call_parts(call)?;
        match self.resolved.meanings[callee]? {
            Meaning::Local(_) => {
                let next = |&ty: &Ty| self.out.types.function_parts(ty).map(|(_, result)| result);
                let left = std::iter::successors(next(&ty), next).count();
                (left > 0).then_some((callee, found, found + left))
            }
            _ => self.missing_arguments(call),
        }
    }

    /// What is called, and with how many arguments.
    fn call_parts(&self, call: ExprId) -> Option<(ExprId, usize)> {
        match &self.ast.exprs[call].kind {
            ExprKind::Apply(callee, args) => Some((*callee, args.len())),
            ExprKind::Var(_) => Some((call, 0)),
            _ => None,
        }
    }

    /// How many arguments what is called was defined with.
    pub(super) fn expected_arguments(&self, callee: ExprId) -> Option<usize> {
        Some(match self.resolved.meanings[callee]? {
            Meaning::Def(def) => self.ast.defs[def].params.len(),
            Meaning::Function(function) => self.ast.functions[function].params.len(),
            Meaning::Builtin(builtin) => builtin.signature().0.len(),
            Meaning::Constructor(constructor) => self.ast.constructors[constructor].fields.len(),
            Meaning::Local(_) => return None,
        })
    }

    /// A polymorphic type at one use.
    pub(super) fn instance(&mut self, mention: ExprId, function: DefType) -> Ty {
        let types = &mut self.out.types;
        if function.vars.is_empty() {
            return types.functions(&function.params, function.result);
        }
        let mut replaced = HashMap::default();
        let mut chosen = Vec::with_capacity(function.vars.len());
        for var in function.vars {
            let new = types.var(types.class_of(var));
            replaced.insert(var, new);
            chosen.push(new);
        }
        self.out.instances.insert(mention, chosen);
        let params: Vec<Ty> = function.params.iter().map(|&param| types.instantiate(param, &mut replaced)).collect();
        let result = types.instantiate(function.result, &mut replaced);
        types.functions(&params, result)
    }

    /// Whether a definition is used while its own type is being inferred.
    pub(super) fn is_in_group(&self, callee: ExprId) -> bool {
        matches!(self.resolved.meanings[callee], Some(Meaning::Def(def)) if self.group.contains(&def))
    }

    fn builtin(&mut self, builtin: Builtin) -> Ty {
        let (params, result) = builtin.signature();
        let types = &mut self.out.types;
        let number = types.var(Class::Number);
        let [element, other_element] = [types.var(Class::Any), types.var(Class::Any)];
        let tensor = types.var(Class::Kind(Kinds::TENSORS));
        let [data, other] = [types.var(Class::Data), types.var(Class::Data)];
        let mut to_type = |ty: &SignatureType| match ty {
            SignatureType::Real => types.real,
            SignatureType::Int => types.int,
            SignatureType::Bool => types.bool,
            SignatureType::Number => number,
            SignatureType::AnyArray => types.array(element),
            SignatureType::Element => element,
            SignatureType::ElementAt => types.function(types.int, element),
            SignatureType::AnyTensor => types.collection(tensor, element),
            SignatureType::OtherTensor => types.collection(tensor, other_element),
            SignatureType::OtherArray => types.array(other_element),
            SignatureType::IntArray => types.array(types.int),
            SignatureType::Tensor(rank) => types.collection(types.kind(Kind::Tensor(*rank)), element),
            SignatureType::Data => data,
            SignatureType::DataFunction => types.function(data, other),
            SignatureType::OtherData => other,
            SignatureType::TwoResults => types.tuple(vec![other, other]),
            SignatureType::RealFunction => types.function(data, types.real),
            SignatureType::RealAndData => types.tuple(vec![types.real, data]),
            SignatureType::OtherAndData => types.tuple(vec![other, data]),
            SignatureType::ReverseRule => types.functions(&[data, other], data),
            SignatureType::ForwardRule => types.functions(&[data, data], other),
        };
        let params: Vec<Ty> = params.iter().map(&mut to_type).collect();
        let result = to_type(&result);
        self.out.types.functions(&params, result)
    }

    /// Adds why a derivative operator doesn't take something with functions in it.
    pub(super) fn with_only_data(&mut self, error: Diagnostic, why: Why, found: Ty) -> Diagnostic {
        let (callee, of_result) = match why {
            Why::Argument(callee, _) => (callee, false),
            Why::ResultOf(callee, _) => (callee, true),
            _ => return error,
        };
        if !self.is_derivative(callee) {
            return error;
        }
        // The function that is differentiated is one; what it takes and gives is not.
        let is_first = matches!(why, Why::Argument(_, 0)) && !self.is_detach(callee);
        let (params, results) = match self.out.types.function_parts(found) {
            Some((param, result)) if is_first => (vec![param], vec![result]),
            _ if of_result => (vec![], vec![found]),
            _ => (vec![found], vec![]),
        };
        let is_function = |ty: &Ty| self.out.types.con_of(*ty) == Some(Con::Function);
        let takes_several = results.iter().any(is_function);
        if self.has_functions(&params) {
            error.note(ONLY_DATA).help(if self.is_detach(callee) { CAPTURED } else { CAPTURES })
        } else if takes_several {
            error.note(ONLY_DATA).help(if self.takes_array(callee) { RESULT_OF_ARRAY } else { RESULT })
        } else if self.has_functions(&results) {
            error.note(ONLY_DATA)
        } else {
            error
        }
    }

    fn has_functions(&mut self, types: &[Ty]) -> bool {
        self.out.types.cons_in(types).contains(&Con::Function)
    }

    /// Whether a name is that of a function that takes derivatives.
    fn is_derivative(&self, callee: ExprId) -> bool {
        match self.resolved.meanings[callee] {
            Some(Meaning::Builtin(
                Builtin::Jvp
                | Builtin::ValueAndGrad
                | Builtin::Pull
                | Builtin::Detach
                | Builtin::Checkpoint
                | Builtin::CustomVjp
                | Builtin::CustomJvp,
            )) => true,
            Some(Meaning::Def(def)) => !self.ast.is_own(def) && DERIVATIVES.contains(&self.callee_name(callee)),
            _ => false,
        }
    }

    /// Whether a name is that of a derivative of functions of arrays.
    fn takes_array(&self, callee: ExprId) -> bool {
        self.is_derivative(callee) && ["jacobian", "hessian"].contains(&self.callee_name(callee))
    }

    fn is_detach(&self, callee: ExprId) -> bool {
        matches!(self.resolved.meanings[callee], Some(Meaning::Builtin(Builtin::Detach)))
    }

    /// The definition that `++` is.
    pub(super) fn append_instance(&mut self, expr: ExprId) -> Ty {
        let Some(Meaning::Def(def)) = self.resolved.meanings[expr] else {
            unreachable!("resolution gives `++` its meaning")
        };
        let def = self.out.defs[def].clone();
        self.instance(expr, def)
    }

    /// What the called function is named, for messages.
    pub(super) fn callee_name(&self, callee: ExprId) -> &str {
        match &self.ast.exprs[callee].kind {
            ExprKind::Var(name) | ExprKind::Constructor(name) => self.names.text(*name),
            _ => "the function",
        }
    }
}
