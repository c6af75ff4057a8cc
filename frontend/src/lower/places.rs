//! Places in terms of the module: files, lines and columns, and the calls in whose place code stands.

use crate::arena::Table;
use crate::core::{CallSite, InlinedCall, Origin};
use crate::hash::HashMap;
use crate::prelude;
use crate::source::{SourceMap, Span};
use dualvm_vm::builder::ModuleBuilder;
use dualvm_vm::module::{self, SourceFile};
use sha2::{Digest, Sha256};

/// A file of the program or of the prelude, by its number there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum File {
    Program(usize),
    Prelude(usize),
}

/// What of a program's text the module knows so far. Files of the library are added when the first place in them is.
pub(super) struct Places<'p> {
    sources: &'p SourceMap,
    calls: &'p Table<CallSite, InlinedCall>,
    /// The numbers of calls in the module.
    numbers: HashMap<CallSite, u32>,
    /// The numbers of files in the module: of the program's, and of the prelude's.
    files: HashMap<File, u32>,
}

impl<'p> Places<'p> {
    pub(super) fn new(
        sources: &'p SourceMap,
        calls: &'p Table<CallSite, InlinedCall>,
        module: &mut ModuleBuilder,
    ) -> Self {
        let mut places = Places { sources, calls, numbers: HashMap::default(), files: HashMap::default() };
        for (number, file) in sources.files().iter().enumerate().filter(|(_, file)| file.is_own()) {
            let digest = Sha256::digest(file.source.text()).into();
            let source = SourceFile { name: file.source.name().into(), is_library: false, digest: Some(digest) };
            places.files.insert(File::Program(number), module.source_file(source));
        }
        places
    }

    /// A place, and the number of the call in whose place it stands; none for what comes from nowhere.
    pub(super) fn located(
        &mut self,
        mut origin: Origin,
        module: &mut ModuleBuilder,
    ) -> Option<(module::Place, Option<u32>)> {
        // Nobody has written that, and the function that it calls has a place of its own.
        while let Some(call) = origin.call.filter(|_| self.sources.is_of_interface(origin.span)) {
            origin = self.calls[call].origin;
        }
        let call = self.number(origin.call, module);
        Some((self.of_span(origin.span, module)?, call))
    }

    /// The number of a call. Those that it stands in the place of come first.
    fn number(&mut self, site: Option<CallSite>, module: &mut ModuleBuilder) -> Option<u32> {
        let mut unknown = Vec::new();
        let mut next = site;
        let known = loop {
            match next {
                None => break None,
                Some(site) if let Some(&number) = self.numbers.get(&site) => break Some(number),
                Some(site) => {
                    unknown.push(site);
                    next = self.calls[site].origin.call;
                }
            }
        };
        unknown.into_iter().rev().fold(known, |within, site| {
            let InlinedCall { callee, origin } = &self.calls[site];
            // A call from nowhere adds nothing to what is around it.
            let Some(place) = self.of_span(origin.span, module) else { return within };
            let number = module.inlined_call(callee.clone(), place, within);
            self.numbers.insert(site, number);
            Some(number)
        })
    }

    fn of_span(&mut self, span: Span, module: &mut ModuleBuilder) -> Option<module::Place> {
        if span == Span::default() {
            return None;
        }
        let (file, name, (line, column)) = match self.sources.contains(span) {
            true => {
                let (source, at) = self.sources.locate(span);
                (File::Program(self.sources.number(span)), source.name(), source.line_and_column(at.start))
            }
            false => {
                let (file, place) = prelude::located(span.start - self.sources.prelude_start());
                (File::Prelude(file), prelude::FILE_NAMES[file], place)
            }
        };
        let add = || module.source_file(SourceFile { name: name.into(), is_library: true, digest: None });
        let source = *self.files.entry(file).or_insert_with(add);
        Some(module::Place { source, line, column })
    }
}
