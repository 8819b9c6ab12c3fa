//! A secret in a file of its own, such as Kubernetes, Docker and systemd mount.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

/// Largest file, bytes.
const MOST: u64 = 8192;

/// The text of a file, without the newline at its end.
///
/// # Errors
/// What is wrong with the file, and the remedy. The text is not shown.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    if path.as_os_str().is_empty() {
        return Err("file: is empty; name a file, as in {file: /run/secrets/engine_key}".to_owned());
    }
    let unread = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => {
            format!("there is no file {shown}; check the path, or write the secret there")
        }
        ErrorKind::PermissionDenied => {
            format!("this process may not read {shown}; change the file's owner or its mode")
        }
        kind => format!("{shown} cannot be read: {kind}; check the file"),
    };
    // Before it is opened: to open a pipe waits for its writer, and a device has no end.
    if !std::fs::metadata(path).map_err(unread)?.is_file() {
        return Err(format!("{shown} is not a regular file; use a file, or a link to one"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes))
        .map_err(unread)?;
    if bytes.len() as u64 > MOST {
        return Err(format!(
            "{shown} has more than {MOST} bytes; keep the secret alone in the file"
        ));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| format!("{shown} is not UTF-8 text; write the secret as text"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains(['\n', '\r']) {
        return Err(format!("{shown} has several lines; keep the secret alone in the file"));
    }
    Ok(line.to_owned())
}
