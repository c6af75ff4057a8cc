//! `dualvm lsp`: a language server. It reads messages from stdin and writes them to stdout, as the Language Server
//! Protocol has it; the analysis is the compiler's own, in `dualvm::frontend::analysis`.
//!
//! One thread does everything, message by message. A change of a file only marks what is open as stale; it is analysed
//! when no message waits, or when something is asked about it, so that a burst of changes costs one analysis.

mod answers;
mod documents;
mod lines;
mod transport;
mod uri;

use super::failure::{Failure, Outcome};
use clap::Args;
use documents::Documents;
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Exit,
    Notification as _, PublishDiagnostics,
};
use lsp_types::request::{
    Completion, DocumentSymbolRequest, Formatting, GotoDefinition, HoverRequest, Request as _, Shutdown,
};
use lsp_types::{
    CompletionOptions, HoverProviderCapability, OneOf, PublishDiagnosticsParams, ServerCapabilities,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use transport::Transport;

pub(crate) const HELP: &str = "\
Editors start this by themselves, once they are told of it: docs/editors.md says how. It shows errors and warnings while
one types, types and documentation under the pointer, where a name is declared, which names and fields there are, and
formats. Programs are only compiled, never run. It ends with exit code 0 when the editor says so or closes stdin.";

/// How long no message comes before stale files are analysed.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(crate) struct Lsp {
    /// A folder in which imported files are looked for if they aren't beside the file that imports; may be repeated
    #[arg(long = "path", value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Use stdin and stdout, which is all that there is; editors may give this flag
    #[arg(long)]
    stdio: bool,
}

/// The other side has gone.
struct Closed;

pub(crate) fn lsp(Lsp { folders, stdio: _ }: Lsp) -> Outcome {
    let (connection, transport) = Transport::start().map_err(|error| {
        Failure::bad_input(format_args!("can't start a thread: {error}"), "there is one that reads and one that writes")
    })?;
    let result = serve(&connection, folders);
    drop(connection);
    match result {
        // Nobody reads stdout, so that stdin need not end.
        Err(Closed) => Ok(()),
        Ok(End::Exit { was_asked }) => match was_asked {
            true => Ok(()),
            false => Err(Failure::Trap("error: the editor ended the server without a request to shut down".to_owned())),
        },
        Ok(End::Input) => transport.join().map_err(|error| {
            Failure::bad_input(format_args!("can't read a message: {error}"), "messages are those of the protocol")
        }),
    }
}

/// How a session ends.
enum End {
    /// By a notification; whether a request to shut down came before it.
    Exit { was_asked: bool },
    /// With stdin.
    Input,
}

fn serve(connection: &Connection, folders: Vec<PathBuf>) -> Result<End, Closed> {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::FULL),
        save: Some(true.into()),
        ..TextDocumentSyncOptions::default()
    };
    let capabilities = ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        document_formatting_provider: Some(OneOf::Left(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(vec![".".to_owned()]),
            ..CompletionOptions::default()
        }),
        ..ServerCapabilities::default()
    };
    let answer = serde_json::json!({
        "capabilities": capabilities,
        "serverInfo": { "name": "dualvm", "version": env!("CARGO_PKG_VERSION") },
    });
    // What comes before `initialize`, and is none, is answered there. An end of the input is one of the session.
    let Ok((id, _)) = connection.initialize_start() else { return Ok(End::Input) };
    if connection.initialize_finish(id, answer).is_err() {
        return Ok(End::Input);
    }
    Server { connection, documents: Documents::new(folders), was_asked: false }.run()
}

struct Server<'s> {
    connection: &'s Connection,
    documents: Documents,
    /// Whether the editor has asked the server to shut down.
    was_asked: bool,
}

impl Server<'_> {
    fn run(mut self) -> Result<End, Closed> {
        loop {
            let message = match self.documents.is_stale() {
                false => self.connection.receiver.recv().ok(),
                true => match self.connection.receiver.recv_timeout(PAUSE) {
                    Ok(message) => Some(message),
                    Err(error) if error.is_timeout() => {
                        if let Some(uri) = self.documents.first_stale() {
                            self.update(&uri)?;
                        }
                        continue;
                    }
                    Err(_) => None,
                },
            };
            match message {
                None => return Ok(End::Input),
                Some(Message::Request(request)) => self.request(request)?,
                Some(Message::Notification(notification)) if notification.method == Exit::METHOD => {
                    return Ok(End::Exit { was_asked: self.was_asked });
                }
                Some(Message::Notification(notification)) => self.notification(notification)?,
                // Nothing is asked of the editor.
                Some(Message::Response(_)) => {}
            }
        }
    }

    fn send(&self, message: impl Into<Message>) -> Result<(), Closed> {
        self.connection.sender.send(message.into()).map_err(|_| Closed)
    }

    fn notification(&mut self, notification: Notification) -> Result<(), Closed> {
        // A notification has no answer: what can't be read is as if it weren't there.
        let Notification { method, params } = notification;
        match method.as_str() {
            DidOpenTextDocument::METHOD => {
                if let Some(params) = read::<lsp_types::DidOpenTextDocumentParams>(params) {
                    let document = params.text_document;
                    self.documents.open(document.uri, document.version, document.text);
                }
            }
            DidChangeTextDocument::METHOD => {
                if let Some(params) = read::<lsp_types::DidChangeTextDocumentParams>(params) {
                    // Each is a whole text.
                    let last = params.content_changes.into_iter().rfind(|change| change.range.is_none());
                    if let Some(change) = last {
                        let document = params.text_document;
                        self.documents.change(&document.uri, document.version, change.text);
                    }
                }
            }
            DidCloseTextDocument::METHOD => {
                if let Some(params) = read::<lsp_types::DidCloseTextDocumentParams>(params) {
                    let uri = params.text_document.uri;
                    self.documents.close(&uri);
                    self.publish(PublishDiagnosticsParams { uri, diagnostics: Vec::new(), version: None })?;
                }
            }
            // Other files than those that are open may have changed.
            DidSaveTextDocument::METHOD | DidChangeWatchedFiles::METHOD => self.documents.all_are_stale(),
            _ => {}
        }
        Ok(())
    }

    fn publish(&self, params: PublishDiagnosticsParams) -> Result<(), Closed> {
        self.send(Notification::new(PublishDiagnostics::METHOD.to_owned(), params))
    }

    /// Analyses a file that is stale, and tells the editor what is wrong with it.
    fn update(&mut self, uri: &str) -> Result<(), Closed> {
        match self.documents.update(uri) {
            Some(found) => self.publish(found),
            None => Ok(()),
        }
    }

    fn request(&mut self, request: Request) -> Result<(), Closed> {
        let Request { id, method, params } = request;
        if self.was_asked {
            return self.refuse(id, ErrorCode::InvalidRequest, "the server is shutting down");
        }
        match method.as_str() {
            Shutdown::METHOD => {
                self.was_asked = true;
                self.send(Response::new_ok(id, ()))
            }
            HoverRequest::METHOD => self.answer(id, params, |documents, params: lsp_types::HoverParams| {
                documents.at(&params.text_document_position_params, answers::hover)
            }),
            GotoDefinition::METHOD => self.answer(id, params, |documents, params: lsp_types::GotoDefinitionParams| {
                documents.at(&params.text_document_position_params, answers::definition)
            }),
            Completion::METHOD => self.answer(id, params, |documents, params: lsp_types::CompletionParams| {
                documents.at(&params.text_document_position, answers::completion)
            }),
            DocumentSymbolRequest::METHOD => {
                self.answer(id, params, |documents, params: lsp_types::DocumentSymbolParams| {
                    documents.get(&params.text_document.uri).map(answers::symbols)
                })
            }
            Formatting::METHOD => self.answer(id, params, |documents, params: lsp_types::DocumentFormattingParams| {
                documents.get(&params.text_document.uri).and_then(answers::formatting)
            }),
            _ => self.refuse(id, ErrorCode::MethodNotFound, &format!("there is no method `{method}`")),
        }
    }

    /// Answers a request about a document, of which the analysis is up to date; `null` if there is nothing to say.
    fn answer<P: DeserializeOwned, R: Serialize>(
        &mut self,
        id: RequestId,
        params: serde_json::Value,
        find: impl FnOnce(&Documents, P) -> Option<R>,
    ) -> Result<(), Closed> {
        let uri = params.pointer("/textDocument/uri").and_then(|uri| uri.as_str()).unwrap_or_default().to_owned();
        match serde_json::from_value(params) {
            Ok(params) => {
                self.update(&uri)?;
                self.send(Response::new_ok(id, find(&self.documents, params)))
            }
            Err(error) => self.refuse(id, ErrorCode::InvalidParams, &error.to_string()),
        }
    }

    fn refuse(&self, id: RequestId, code: ErrorCode, message: &str) -> Result<(), Closed> {
        self.send(Response::new_err(id, code as i32, message.to_owned()))
    }
}

/// The parameters of a notification, if they are as they should be.
fn read<P: DeserializeOwned>(params: serde_json::Value) -> Option<P> {
    serde_json::from_value(params).ok()
}
