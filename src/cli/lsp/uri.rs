//! Names of files for the compiler, and the editor's names for them.

use lsp_types::Uri;
use std::path::Path;
use std::str::FromStr;

/// The path that a URI stands for; for those that stand for none, such as that of a file which was never saved, the
/// URI itself.
pub(super) fn to_name(uri: &Uri) -> String {
    let text = uri.as_str();
    path(text).unwrap_or_else(|| text.to_owned())
}

fn path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    // What stands before the first slash is the machine, which is this one.
    let path = decoded(&rest[rest.find('/')?..])?;
    // `/c:/models` on Windows.
    let is_drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
    Some(if is_drive { path[1..].to_owned() } else { path })
}

/// A text in which `%20` stands for a space.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The URI of a path.
pub(super) fn of_name(name: &str) -> Option<Uri> {
    let path = std::path::absolute(Path::new(name)).ok()?;
    let path = path.to_str()?.replace('\\', if cfg!(windows) { "/" } else { "\\" });
    let mut uri = String::from("file://");
    if !path.starts_with('/') {
        uri.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    Uri::from_str(&uri).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_there_and_back() {
        for name in ["/a/b.dual", "/with space/é%20.dual", "/plus+/(x).dual"] {
            let uri = of_name(name).expect("an absolute path");
            assert_eq!(to_name(&uri), name, "{}", uri.as_str());
        }
        assert_eq!(of_name("/a b").unwrap().as_str(), "file:///a%20b");
        assert_eq!(to_name(&Uri::from_str("untitled:Untitled-1").unwrap()), "untitled:Untitled-1");
        assert_eq!(to_name(&Uri::from_str("file:///%ff").unwrap()), "file:///%ff");
    }
}
