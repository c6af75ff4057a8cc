//! What messages need to know of the text that a module was made from: files, places, and calls in whose place the code
//! of what is called stands.

use super::Location;
use std::fmt;
use std::sync::Arc;

/// What messages need to know of a program's text. Running needs none of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DebugInfo {
    /// The files. Places without any are in a file without a name.
    pub sources: Vec<SourceFile>,
    /// Calls in whose place the code of what is called stands. A call stands behind those that it is within.
    pub calls: Vec<InlinedCall>,
}

/// A file that a module was made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// Its name.
    pub name: String,
    /// Whether it belongs to the language and not to the program. Messages of one line then name the place of the call.
    pub is_library: bool,
    /// The SHA-256 of its text, to tell whether a file of this name is still the one that the module was made from.
    pub digest: Option<[u8; 32]>,
}

/// A place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The file, by its number among [`DebugInfo::sources`].
    pub source: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// A call in whose place the code of what is called stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InlinedCall {
    /// The name of what is called. The module need not have such a function.
    pub callee: Arc<str>,
    /// Where the call is.
    pub place: Place,
    /// The call in whose place this one stands; it has a smaller number.
    pub within: Option<u32>,
}

/// A place in a file, by name. `Display` gives `file:line:column`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourcePlace {
    /// The file's name; `<module>` if the module doesn't say.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourcePlace { file, line, column } = self;
        write!(f, "{file}:{line}:{column}")
    }
}

impl DebugInfo {
    /// The name of the program's own file: the first one that isn't the language's.
    pub fn own_source(&self) -> Option<&str> {
        self.sources.iter().find(|source| !source.is_library).map(|source| &*source.name)
    }

    /// A place with the name of its file.
    pub fn named(&self, place: Place) -> SourcePlace {
        let file = self.sources.get(place.source as usize).map_or("<module>", |source| &*source.name);
        SourcePlace { file: file.into(), line: place.line, column: place.column }
    }

    /// The place of a location, or of the innermost call around it that the program has written, if it is in a file of
    /// the language. If there is no such call, it is the place itself.
    pub fn own_place(&self, location: Location) -> SourcePlace {
        let is_own = |place: &Place| self.sources.get(place.source as usize).is_none_or(|source| !source.is_library);
        let around = self.calls_around(location).map(|call| call.place);
        let own = std::iter::once(location.place).chain(around).find(is_own);
        self.named(own.unwrap_or(location.place))
    }

    /// The calls in whose place a location's code stands, innermost first.
    pub fn calls_around(&self, location: Location) -> impl Iterator<Item = &InlinedCall> {
        let call = |number: Option<u32>| self.calls.get(number? as usize);
        std::iter::successors(call(location.call), move |inner| call(inner.within))
    }
}
