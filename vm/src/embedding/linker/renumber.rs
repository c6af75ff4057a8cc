//! Other numbers for the types that something refers to.

use crate::bytecode::module::{
    DataDef, DataId, Function, HostType, Interface, Piece, Template, TypeDef, TypeId, ValueType,
};

/// What types become, and data types.
pub(super) struct Renumber<T, D> {
    pub(super) types: T,
    pub(super) data: D,
}

impl<T: FnMut(TypeId) -> TypeId, D: FnMut(DataId) -> DataId> Renumber<T, D> {
    pub(super) fn value_types<'v>(&mut self, types: impl IntoIterator<Item = &'v mut ValueType>) {
        for ty in types {
            if let ValueType::Ref(ty) = ty {
                *ty = (self.types)(*ty);
            }
        }
    }

    pub(super) fn type_def(&mut self, def: &mut TypeDef) {
        match def {
            TypeDef::Struct(fields) | TypeDef::Shaped(fields) => self.value_types(fields),
            TypeDef::Variant(variants) => self.value_types(variants.iter_mut().flat_map(|variant| &mut variant.fields)),
            TypeDef::Array(element) | TypeDef::Builder(element) => self.value_types([element]),
            TypeDef::Chain(ty) => *ty = (self.types)(*ty),
            TypeDef::Closure { params, results } => self.value_types(params.iter_mut().chain(results)),
        }
    }

    pub(super) fn data_def(&mut self, def: &mut DataDef) {
        def.ty = (self.types)(def.ty);
        def.variants.iter_mut().for_each(|(_, payload)| self.host_type(payload));
    }

    pub(super) fn template(&mut self, template: &mut Template) {
        for piece in &mut template.pieces {
            if let Piece::Value(ty) = piece {
                self.host_type(ty);
            }
        }
    }

    pub(super) fn interface(&mut self, interface: &mut Interface) {
        interface.params.iter_mut().for_each(|(_, ty)| self.host_type(ty));
        self.host_type(&mut interface.result);
    }

    /// A function's signature, its interface and its registers.
    pub(super) fn function(&mut self, function: &mut Function) {
        self.value_types(function.params.iter_mut().chain(&mut function.results));
        function.interface.iter_mut().for_each(|interface| self.interface(interface));
        function.body.refs.iter_mut().for_each(|ty| *ty = (self.types)(*ty));
    }

    /// As deep as a verified type nests.
    fn host_type(&mut self, ty: &mut HostType) {
        match ty {
            HostType::Real | HostType::Int | HostType::Bool => {}
            HostType::Tuple(parts) => parts.iter_mut().for_each(|part| self.host_type(part)),
            HostType::Record(parts) => parts.iter_mut().for_each(|(_, part)| self.host_type(part)),
            HostType::Array { element, array: ty }
            | HostType::List { element, list: ty }
            | HostType::Tensor { slice: element, tensor: ty } => {
                *ty = (self.types)(*ty);
                self.host_type(element);
            }
            HostType::Data { data, .. } => *data = (self.data)(*data),
        }
    }
}
