//! A secret in a file of its own, such as Kubernetes, Docker and systemd mount.

use std::io::ErrorKind;
use std::path::Path;

use meridian_files::NotRead;

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
    let bytes = meridian_files::read(path, MOST).map_err(|error| match error {
        NotRead::Io(error) if error.kind() == ErrorKind::NotFound => {
            format!("there is no file {shown}; check the path, or write the secret there")
        }
        NotRead::Io(error) if error.kind() == ErrorKind::PermissionDenied => {
            format!("this process may not read {shown}; change the file's owner or its mode")
        }
        NotRead::TooLarge(_) => {
            format!("{shown} has more than {MOST} bytes; keep the secret alone in the file")
        }
        NotRead::Io(error) if error.kind() == ErrorKind::IsADirectory => {
            format!("{shown} is not a regular file; use a file, or a link to one")
        }
        error => format!("{shown} {error}"),
    })?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| format!("{shown} is not UTF-8 text; write the secret as text"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains(['\n', '\r']) {
        return Err(format!("{shown} has several lines; keep the secret alone in the file"));
    }
    Ok(line.to_owned())
}
