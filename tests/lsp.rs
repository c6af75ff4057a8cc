//! `dualvm lsp` as an editor sees it: a client with a script, which sends messages to the binary and compares answers.

#[path = "support/program.rs"]
mod program;

use program::Workspace;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Client {
    server: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Notifications that came before an answer.
    waiting: VecDeque<Value>,
    last_id: i64,
}

impl Client {
    /// A server that is not initialized.
    fn start(args: &[&str]) -> Client {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dualvm"));
        command.arg("lsp").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("the server starts");
        let input = server.stdin.take();
        let mut output = BufReader::new(server.stdout.take().expect("it is piped"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Client { server, input, messages, waiting: VecDeque::new(), last_id: 0 }
    }

    fn initialized() -> Client {
        let mut client = Client::start(&["--stdio"]);
        let answer = client.request("initialize", json!({ "processId": null, "rootUri": null, "capabilities": {} }));
        assert_eq!(answer["capabilities"]["textDocumentSync"]["change"], 1);
        assert_eq!(answer["serverInfo"]["name"], "dualvm");
        client.notify("initialized", json!({}));
        client
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("stdin is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.send_raw(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn receive(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("the server answers in time")
    }

    /// The whole answer to a request.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// What is wrong with a version of a file, once the server says it.
    fn diagnostics(&mut self, uri: &str, version: i64) -> Vec<Value> {
        loop {
            let message = self.waiting.pop_front().unwrap_or_else(|| self.receive());
            let params = &message["params"];
            if message["method"] == "textDocument/publishDiagnostics"
                && params["uri"] == uri
                && params["version"] == version
            {
                return params["diagnostics"].as_array().expect("a list").clone();
            }
        }
    }

    fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "dual", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, uri: &str, version: i64, text: &str) {
        let document = json!({ "uri": uri, "version": version });
        let params = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
        self.notify("textDocument/didChange", params);
    }

    /// Asks about the place of the `#` in a text, which the file has without it.
    fn at(&mut self, method: &str, uri: &str, marked: &str) -> Value {
        let before = &marked[..marked.find('#').expect("the place is marked")];
        let line = before.matches('\n').count();
        let character = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count();
        let position = json!({ "line": line, "character": character });
        self.request(method, json!({ "textDocument": { "uri": uri }, "position": position }))
    }

    /// The names that may be written at the place of the `#` in a text, which becomes the file's without it.
    fn completions(&mut self, uri: &str, version: i64, marked: &str) -> Vec<String> {
        self.change(uri, version, &marked.replace('#', ""));
        let found = self.at("textDocument/completion", uri, marked);
        found.as_array().expect("a list").iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    }

    fn wait(mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            match self.server.try_wait().expect("the server is a child") {
                Some(status) => return status,
                None => assert!(began.elapsed() < PATIENCE, "the server doesn't end"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.server.kill();
        _ = self.server.wait();
    }
}

fn read(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        output.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut bytes = vec![0; length];
    output.read_exact(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// A folder with files, and the URI of each.
fn folder(name: &str, files: &[(&str, &str)]) -> (PathBuf, Vec<String>) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lsp {name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let uri = |(file, text): &(&str, &str)| {
        let path = folder.join(file);
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string().replace('\\', "/").replace(' ', "%20");
        if path.starts_with('/') { format!("file://{path}") } else { format!("file:///{path}") }
    };
    let uris = files.iter().map(uri).collect();
    (folder, uris)
}

fn messages(diagnostics: &[Value]) -> Vec<&str> {
    diagnostics.iter().map(|found| found["message"].as_str().unwrap().lines().next().unwrap()).collect()
}

#[test]
fn errors_and_warnings_appear_and_disappear() {
    let mut client = Client::initialized();
    let uri = "untitled:model.dual";
    client.open(uri, "def f (x : Real) = -- 𝑥\n  {- 𝑥 -} sqt x");
    let found = client.diagnostics(uri, 1);
    assert_eq!(messages(&found), ["unknown name `sqt`"]);
    assert!(found[0]["message"].as_str().unwrap().contains("help: there is a function `sqrt`"), "{found:?}");
    assert_eq!(found[0]["severity"], 1);
    // Columns count units of UTF-16, of which that letter has two.
    let range = json!({ "start": { "line": 1, "character": 11 }, "end": { "line": 1, "character": 14 } });
    assert_eq!(found[0]["range"], range);

    client.change(uri, 2, "def f (x : Real) = let y = 2 in sqrt x\ndef g (h : Real -> Real) = h 1");
    let found = client.diagnostics(uri, 2);
    assert_eq!(found.iter().map(|found| found["severity"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 4]);
    let hint = "`g` takes a function (`h : Real -> Real`), which can't cross the border between host and program; its \
                type is `(Real -> Real) -> Real`";
    assert_eq!(messages(&found), ["the variable `y` is never used", hint]);

    client.change(uri, 3, "def f (x : Real) = sqrt x");
    assert_eq!(client.diagnostics(uri, 3), Vec::<Value>::new());
    client.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(client.diagnostics_without_version(uri), Vec::<Value>::new());
}

impl Client {
    fn diagnostics_without_version(&mut self, uri: &str) -> Vec<Value> {
        loop {
            let message = self.waiting.pop_front().unwrap_or_else(|| self.receive());
            if message["params"]["uri"] == uri && message["params"].get("version").is_none() {
                return message["params"]["diagnostics"].as_array().expect("a list").clone();
            }
        }
    }
}

#[test]
fn types_and_documentation_are_shown() {
    let mut client = Client::initialized();
    let uri = "untitled:model.dual";
    let text = "-- The square.\ndef square x = x * x\ndef f (v : Real) = let y = square v in max y 1";
    client.open(uri, text);
    let mut hover = |marked: &str| {
        let found = client.at("textDocument/hover", uri, marked);
        found["contents"]["value"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(hover("\n\ndef f (v : Real) = let y = square v in max #y 1"), "```dual\ny : Real\n```");
    assert_eq!(hover("\n\ndef f (v : Real) = let #y"), "```dual\ny : Real\n```");
    let of_square = "```dual\nsquare : Real -> Real\n```\n\nThe square.";
    assert_eq!(hover("\n\ndef f (v : Real) = let y = squ#are"), of_square);
    assert!(hover("\ndef squ#are x").ends_with("The square."));
    assert_eq!(hover("\n\ndef f (v : Real) = let y = square v in max y #1"), "```dual\nReal\n```");
    assert_eq!(hover("#"), "");
    // The rest of a file with mistakes has its types.
    client.change(uri, 2, &format!("def broken x = (\n{text}"));
    let found = client.at("textDocument/hover", uri, "\n\n\ndef f (v : Real) = let y = square #v");
    assert_eq!(found["contents"]["value"], "```dual\nv : Real\n```");
}

#[test]
fn declarations_are_found_in_this_file_and_in_others() {
    let shapes = "-- The area.\ndef circle (r : Real) : Real = pi * r ^ 2\ntype Size = Small | Big Real";
    let main = "import shapes (Size)\nimport linalg\ndef f (x : Real) = let y = x in shapes.circle y\n\
                def g (s : Size) = match s with Small -> 0 | Big n -> n + linalg.norm1 [| maximum [n] |]";
    let (_, uris) = folder("two files", &[("shapes.dual", shapes), ("main.dual", main)]);
    let mut client = Client::initialized();
    client.open(&uris[1], main);
    assert_eq!(client.diagnostics(&uris[1], 1), Vec::<Value>::new());
    let mut place = |marked: &str| {
        let found = client.at("textDocument/definition", &uris[1], marked);
        let start = &found["range"]["start"];
        let file = uris.iter().position(|uri| found["uri"] == **uri);
        file.map(|file| (file, start["line"].as_u64().unwrap(), start["character"].as_u64().unwrap()))
    };
    assert_eq!(place("\n\ndef f (x : Real) = let y = x in shapes.circle #y"), Some((1, 2, 23)));
    assert_eq!(place("\n\ndef f (x : Real) = let y = #x"), Some((1, 2, 7)));
    assert_eq!(place("\n\ndef f (x : Real) = let y = x in shapes.cir#cle"), Some((0, 1, 4)));
    assert_eq!(place("import sha#pes"), Some((0, 0, 0)));
    assert_eq!(place("import shapes (S#ize"), Some((0, 2, 5)));
    assert_eq!(place("\n\n\ndef g (s : Si#ze"), Some((0, 2, 5)));
    assert_eq!(place("\n\n\ndef g (s : Size) = match s with Sm#all"), Some((0, 2, 12)));
    // What is in the language's library, and in the prelude, is on no disk.
    let in_library = "\n\n\ndef g (s : Size) = match s with Small -> 0 | Big n -> n + linalg.nor";
    assert_eq!(place(&format!("{in_library}#m1")), None);
    assert_eq!(place(&format!("{in_library}m1 [| max#imum")), None);
    let found = client.at("textDocument/hover", &uris[1], &format!("{in_library}#m1"));
    assert!(
        found["contents"]["value"].as_str().unwrap().starts_with("```dual\nlinalg.norm1 : Array Real -> Real"),
        "{found}"
    );

    // What is open counts in place of what is on disk.
    client.open(&uris[0], "def circle (r : Int) : Int = r");
    let found = client.diagnostics(&uris[1], 1);
    assert!(!found.is_empty());
    client.change(&uris[0], 2, &format!("{shapes}\n"));
    while !client.diagnostics(&uris[1], 1).is_empty() {}
    // A mistake in another file is shown at the import.
    client.change(&uris[0], 3, "type Size = Small | Big Real\ndef circle (r : Real) : Real = r + true");
    loop {
        let found = client.diagnostics(&uris[1], 1);
        let Some(first) = found.first() else { continue };
        assert!(first["message"].as_str().unwrap().contains("shapes.dual:2:36: "), "{found:?}");
        assert_eq!(first["range"]["start"], json!({ "line": 0, "character": 7 }));
        break;
    }
}

#[test]
fn names_and_fields_are_completed() {
    let mut client = Client::initialized();
    let uri = "untitled:model.dual";
    client.open(uri, "");
    let names =
        client.completions(uri, 2, "def area r = r\ndef f (x : Real) = let y = x in let g z = z in a#\ndef h = 1");
    for name in ["x", "y", "g", "area", "f", "h", "sin", "maximum"] {
        assert!(names.iter().any(|found| found == name), "{name} isn't in {names:?}");
    }
    assert!(!names.iter().any(|found| found == "r" || found == "z" || found == "length_list"), "{names:?}");
    assert_eq!(client.completions(uri, 3, "def f (p : { x : Real, y : Int }) = let q = p.# in q"), ["x", "y"]);
    assert_eq!(client.completions(uri, 4, "def f (p : { x : Real, y : Int }) = let q = [p.#\ndef g = 1"), ["x", "y"]);
    let text = "type Ball = Ball { mass : Real, at : (Real, Real) }\ndef f (b : Ball) = if b.ma#ss > 0 then 1 else 0";
    assert_eq!(client.completions(uri, 5, text), ["at", "mass"]);
    let members = client.completions(uri, 6, "import linalg as la\ndef f m = la.# m\n");
    assert!(members.iter().any(|found| found == "solve") && !members.iter().any(|found| found == "f"), "{members:?}");
    let types = client.completions(uri, 7, "type Ball = Ball Real\ndef f (b : #");
    assert!(["Ball", "Real", "Matrix"].iter().all(|name| types.iter().any(|found| found == name)), "{types:?}");
    // In comments and texts nothing is.
    assert_eq!(client.completions(uri, 8, "def f = 1 -- a#"), Vec::<String>::new());
    let found = client.at("textDocument/completion", uri, "def f = #");
    let maximum = found.as_array().unwrap().iter().find(|item| item["label"] == "maximum").unwrap();
    assert!(maximum["detail"].as_str().unwrap().starts_with("maximum (xs : c a) : a"), "{maximum}");
}

#[test]
fn files_are_formatted_and_outlined() {
    let mut client = Client::initialized();
    let uri = "untitled:model.dual";
    client.open(uri, "type T=A|B Real\ndef f x=x+1 -- 𝑥\r\n");
    let options = json!({ "tabSize": 4, "insertSpaces": true });
    let params = json!({ "textDocument": { "uri": uri }, "options": options });
    let edits = client.request("textDocument/formatting", params.clone());
    assert_eq!(edits[0]["range"]["end"], json!({ "line": 2, "character": 0 }));
    let formatted = edits[0]["newText"].as_str().unwrap().to_owned();
    assert_eq!(formatted.replace('\r', ""), "type T = A | B Real\ndef f x = x + 1 -- 𝑥\n");
    let symbols = client.request("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    let names: Vec<&str> = symbols.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["T", "f"]);
    assert_eq!(symbols[0]["children"][1]["name"], "B");
    assert_eq!(symbols[1]["detail"], "a -> a");
    client.change(uri, 2, &formatted);
    assert_eq!(client.request("textDocument/formatting", params.clone()), json!([]));
    client.change(uri, 3, "def f = (");
    assert_eq!(client.request("textDocument/formatting", params), Value::Null);
}

#[test]
fn nothing_that_an_editor_sends_ends_the_server() {
    let mut client = Client::initialized();
    let uri = "untitled:model.dual";
    let here = |line: u32, character: u32| json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": character } });
    let methods = ["hover", "definition", "completion"].map(|method| format!("textDocument/{method}"));
    for method in &methods {
        assert_eq!(client.request(method, here(0, 0)), Value::Null, "no file is open");
        assert_eq!(client.ask(method, json!({ "position": 3 }))["error"]["code"], -32602);
        assert_eq!(client.ask(method, Value::Null)["error"]["code"], -32602);
    }
    assert_eq!(client.ask("textDocument/unknown", json!({}))["error"]["code"], -32601);
    client.notify("textDocument/didOpen", json!({ "textDocument": 1 }));
    client.notify("unknown", json!([]));
    client.change(uri, 9, "a file that isn't open");
    let deep = format!("def f x = {}", "(".repeat(20_000));
    let broken = ["", "def", "def f = m.", "𝑥", "\u{feff}def f = 1", "import \"", "def f = {- ", "def f = \"\\", &deep];
    client.open(uri, "");
    for (number, text) in broken.iter().enumerate() {
        client.change(uri, number as i64 + 2, text);
        for position in [here(0, 0), here(0, 1), here(0, text.len() as u32), here(7, 7), here(u32::MAX >> 1, 0)] {
            methods.iter().for_each(|method| _ = client.request(method, position.clone()));
        }
        let params = json!({ "textDocument": { "uri": uri } });
        client.request("textDocument/documentSymbol", params.clone());
        let options = json!({ "tabSize": 2, "insertSpaces": true });
        client.request("textDocument/formatting", json!({ "textDocument": { "uri": uri }, "options": options }));
    }
    client.change(uri, 99, "def f (x : Real) = x");
    assert_eq!(client.diagnostics(uri, 99), Vec::<Value>::new());
}

#[test]
fn the_server_ends_when_it_is_told_to_and_with_its_input() {
    let mut client = Client::initialized();
    assert_eq!(client.request("shutdown", Value::Null), Value::Null);
    assert_eq!(client.ask("textDocument/hover", json!({}))["error"]["code"], -32600);
    client.notify("exit", Value::Null);
    assert_eq!(client.wait().code(), Some(0));

    let mut client = Client::initialized();
    client.notify("exit", Value::Null);
    assert_eq!(client.wait().code(), Some(1));

    for mut client in [Client::initialized(), Client::start(&[])] {
        client.input = None;
        assert_eq!(client.wait().code(), Some(0));
    }

    let mut client = Client::initialized();
    client.send_raw(b"Content-Length: 9\r\n\r\nno json!!");
    assert_eq!(client.wait().code(), Some(2));
}

#[test]
fn headers_are_bounded() {
    let w = Workspace::new("lsp_headers");
    let long = "x".repeat(100_000);
    for (input, message) in [
        (
            "Content-Length: 99999999999999\r\n\r\n",
            "expected a `Content-Length` up to 67108864, found `99999999999999`",
        ),
        ("Content-Length: 67108865\r\n\r\n", "found `67108865`"),
        ("Content-Length: -1\r\n\r\n", "found `-1`"),
        ("Content-Length: 67108864\r\n\r\n{}", "expected 67108864 bytes behind the header, found 2"),
        ("Content-Type: x\r\n\r\n", "expected a header with `Content-Length`"),
        ("{}\n", "expected a line of a header, found \"{}\\n\""),
        (&long, "expected a line of a header, found \"xxxx"),
    ] {
        let finished = w.run_with_stdin(&["lsp"], input.as_bytes());
        assert_eq!((finished.code, &*finished.stdout), (Some(2), ""), "{finished:#?}");
        assert!(finished.stderr.starts_with("error: can't read a message: "), "{}", finished.stderr);
        assert!(finished.stderr.contains(message) && finished.stderr.len() < 300, "{message}: {}", finished.stderr);
    }
}
