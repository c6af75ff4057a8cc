//! The files that are open in the editor: their texts, which count in place of those on disk, and what is known of
//! them.

use super::answers;
use super::lines::Lines;
use super::uri;
use dualvm::frontend::analysis::Analysis;
use dualvm::{CompileLimits, CompileOptions, FileKind, FolderImporter, ImportRequest, ImportedFile, Importer};
use lsp_types::{Position, PublishDiagnosticsParams, TextDocumentPositionParams, Uri};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// No analysis takes longer: the editor waits for it.
const DEADLINE: Duration = Duration::from_secs(10);

/// The open files.
pub(super) struct Documents {
    open: BTreeMap<String, Document>,
    /// Those that were changed since they were analysed, or that may see others that were.
    stale: BTreeSet<String>,
    importer: Arc<OpenImporter>,
}

/// A file that is open.
pub(super) struct Document {
    pub(super) uri: Uri,
    pub(super) version: i32,
    /// What the compiler calls it.
    pub(super) name: String,
    pub(super) text: Arc<str>,
    pub(super) lines: Lines,
    pub(super) options: CompileOptions,
    analysis: Option<Analysis>,
}

impl Document {
    /// What is known of the file. Whoever asks has seen to it that it is up to date.
    pub(super) fn analysis(&self) -> Option<&Analysis> {
        self.analysis.as_ref()
    }
}

impl Documents {
    pub(super) fn new(folders: Vec<PathBuf>) -> Documents {
        let importer = OpenImporter { texts: Mutex::default(), disk: FolderImporter::new(folders) };
        Documents { open: BTreeMap::new(), stale: BTreeSet::new(), importer: Arc::new(importer) }
    }

    pub(super) fn open(&mut self, uri: Uri, version: i32, text: String) {
        let (name, text): (String, Arc<str>) = (uri::to_name(&uri), text.into());
        self.importer.set(&name, Some(text.clone()));
        let limits = CompileLimits { deadline: Some(DEADLINE), ..CompileLimits::default() };
        let options = CompileOptions::with_limits(limits).importing(self.importer.clone());
        let lines = Lines::of(&text);
        let key = uri.as_str().to_owned();
        self.open.insert(key, Document { uri, version, name, text, lines, options, analysis: None });
        self.all_are_stale();
    }

    pub(super) fn change(&mut self, uri: &Uri, version: i32, text: String) {
        let Some(document) = self.open.get_mut(uri.as_str()) else { return };
        document.version = version;
        document.lines = Lines::of(&text);
        document.text = text.into();
        self.importer.set(&document.name, Some(document.text.clone()));
        self.all_are_stale();
    }

    pub(super) fn close(&mut self, uri: &Uri) {
        if let Some(document) = self.open.remove(uri.as_str()) {
            self.importer.set(&document.name, None);
            self.all_are_stale();
        }
    }

    /// A file may import any other, so a change of one makes all of them stale.
    pub(super) fn all_are_stale(&mut self) {
        self.stale = self.open.keys().cloned().collect();
    }

    pub(super) fn is_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    pub(super) fn first_stale(&self) -> Option<String> {
        self.stale.first().cloned()
    }

    /// Analyses a file if it is stale; what is wrong with it.
    pub(super) fn update(&mut self, uri: &str) -> Option<PublishDiagnosticsParams> {
        if !self.stale.remove(uri) {
            return None;
        }
        let document = self.open.get_mut(uri)?;
        document.analysis = Some(Analysis::new(&document.name, &document.text, &document.options));
        let document = &self.open[uri];
        let diagnostics = answers::diagnostics(document, &|name| self.uri_of(name));
        Some(PublishDiagnosticsParams { uri: document.uri.clone(), diagnostics, version: Some(document.version) })
    }

    pub(super) fn get(&self, uri: &Uri) -> Option<&Document> {
        self.open.get(uri.as_str())
    }

    /// Answers a question about a position in a document.
    pub(super) fn at<R>(
        &self,
        params: &TextDocumentPositionParams,
        find: impl FnOnce(&Document, u32, &dyn Fn(&str) -> Option<Uri>) -> Option<R>,
    ) -> Option<R> {
        let document = self.get(&params.text_document.uri)?;
        let position: Position = params.position;
        let offset = document.lines.offset(&document.text, position);
        find(document, offset, &|name| self.uri_of(name))
    }

    /// The editor's name for a file: as it has given it, if the file is open.
    fn uri_of(&self, name: &str) -> Option<Uri> {
        let open = self.open.values().find(|document| document.name == name);
        open.map(|document| document.uri.clone()).or_else(|| uri::of_name(name))
    }
}

/// Finds files that are open, and those on disk.
#[derive(Debug)]
struct OpenImporter {
    texts: Mutex<BTreeMap<String, Arc<str>>>,
    disk: FolderImporter,
}

impl OpenImporter {
    fn set(&self, name: &str, text: Option<Arc<str>>) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => _ = texts.insert(name.to_owned(), text),
            None => _ = texts.remove(name),
        }
    }
}

impl Importer for OpenImporter {
    fn find(&self, request: ImportRequest<'_>) -> Result<Option<ImportedFile>, String> {
        for path in self.disk.candidates(request) {
            let name = path.display().to_string();
            if FileKind::of_name(&name) != Some(FileKind::Source) {
                continue;
            }
            if let Some(text) = self.texts.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
                return Ok(Some(ImportedFile::text(name, text.clone())));
            }
            // Of a folder before it, a file on disk comes first.
            if path.exists() {
                break;
            }
        }
        self.disk.find(request)
    }
}
