//! A file of lines that survives crashes, full disks and rotation.
//!
//! The file ends with a complete line at any time but during a write. A crash in the middle of one
//! leaves half a line, which is cut off when the file is opened again. After a failed write, the
//! file is opened again for the next one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use meridian_config::Rotate;
use rustix::fs::{Access, access};

/// Bytes read at a time, from the end, in search of the last complete line.
const STEP: u64 = 64 * 1024;
/// Other users do not read requests.
const MODE: u32 = 0o640;

/// A file of lines.
pub(super) struct LogFile {
    path: PathBuf,
    /// The first line of each file.
    header: String,
    rotate: Option<Rotate>,
    /// None after a failure.
    open: Option<Open>,
    /// Whether the last rotation failed.
    is_stuck: bool,
}

struct Open {
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Opens or creates a file.
    ///
    /// # Errors
    /// If it can't be opened for writing.
    pub(super) fn open(path: &str, header: String, rotate: Option<Rotate>) -> io::Result<LogFile> {
        let path = PathBuf::from(path);
        let mut file = LogFile { path, header, rotate, open: None, is_stuck: false };
        file.reopen()?;
        Ok(file)
    }

    /// Opens the file by its name again: a file that was renamed is left as it is.
    ///
    /// # Errors
    /// If it can't be opened for writing. Then the next call of `append` tries again.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.open = None;
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(MODE);
        let mut file = options.open(&self.path)?;
        let mut bytes = cut(&mut file)?;
        if bytes == 0 {
            file.write_all(self.header.as_bytes())?;
            bytes = self.header.len() as u64;
        }
        self.open = Some(Open { file, bytes });
        Ok(())
    }

    /// Appends whole lines, to a new file if this one is full.
    ///
    /// # Errors
    /// If they can't be written. None of them counts as written then, though some may be.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.open.is_none() {
            self.reopen()?;
        }
        self.rotate_if_full(lines.len() as u64)?;
        let Some(Open { file, bytes }) = &mut self.open else { return Ok(()) };
        if let Err(error) = file.write_all(lines) {
            let _ = cut(file);
            self.open = None;
            return Err(error);
        }
        *bytes += lines.len() as u64;
        Ok(())
    }

    fn rotate_if_full(&mut self, more: u64) -> io::Result<()> {
        let (Some(rotate), Some(open)) = (self.rotate, &self.open) else { return Ok(()) };
        let is_empty = open.bytes <= self.header.len() as u64;
        if is_empty || open.bytes + more <= rotate.size.0 {
            return Ok(());
        }
        match rename_all(&self.path, rotate.keep) {
            Ok(()) => self.is_stuck = false,
            Err(error) => {
                // The file continues to grow, which is better than to lose lines.
                if !std::mem::replace(&mut self.is_stuck, true) {
                    tracing::error!(file = %self.path.display(), %error, "cannot rotate; it grows beyond rotate.size");
                }
                return Ok(());
            }
        }
        self.reopen()
    }
}

/// Cuts off an incomplete last line; returns the remaining length.
fn cut(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    let mut piece = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        piece.clear();
        Read::by_ref(file).take(end - start).read_to_end(&mut piece)?;
        if let Some(newline) = memchr::memrchr(b'\n', &piece) {
            end = start + newline as u64 + 1;
            break;
        }
        end = start;
    }
    assert!(end <= length, "a file that is cut does not grow");
    if end < length {
        file.set_len(end)?;
    }
    Ok(end)
}

/// `name` becomes `name.1`, that one `name.2`, and so on; those beyond `keep` are deleted.
fn rename_all(path: &Path, keep: u32) -> io::Result<()> {
    let nth = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    // `keep` was larger before, perhaps.
    let beyond = (keep + 1..).map(nth);
    beyond.map_while(|path| fs::remove_file(path).ok()).for_each(drop);
    for n in (1..keep).rev() {
        match fs::rename(nth(n), nth(n + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, nth(1))
}

/// Why lines can't be written to a file of this name, with the remedy.
pub(super) fn problem(path: &str, rotates: bool) -> Option<String> {
    let path = Path::new(path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let shown = folder.display();
    if !folder.is_dir() {
        return Some(format!("the folder `{shown}` does not exist; make it, or name another file"));
    }
    let found = fs::metadata(path);
    if let Ok(found) = &found {
        if !found.is_file() {
            return Some("is not a file; name a file that the gateway may write".to_owned());
        }
        if let Err(error) = OpenOptions::new().read(true).append(true).open(path) {
            return Some(format!(
                "cannot be written ({error}); let the gateway's user read and write it"
            ));
        }
    }
    let makes = found.is_err() || rotates;
    let allowed = access(folder, Access::WRITE_OK | Access::EXEC_OK);
    let error = allowed.err().filter(|_| makes)?;
    Some(format!(
        "files cannot be made in the folder `{shown}` ({error}); let the gateway's user write there"
    ))
}

#[cfg(test)]
mod tests {
    use meridian_protocol::units::Size;

    use super::*;

    /// A folder that is removed at the end of its test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = format!("meridian-record-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        fn path(&self, name: &str) -> String {
            self.0.join(name).to_str().unwrap().to_owned()
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn header() -> String {
        "head\n".to_owned()
    }

    // A full file is renamed, a number of earlier ones are kept, and each begins with the header.
    // Files beyond a smaller `keep` are deleted.
    #[test]
    fn rotation() {
        let folder = Folder::new("rotation");
        let path = folder.path("log");
        let rotate = |keep| Some(Rotate { size: Size(10), keep });
        let mut log = LogFile::open(&path, header(), rotate(3)).unwrap();
        for n in 1..=5 {
            log.append(format!("{n}{n}{n}{n}\n").as_bytes()).unwrap();
        }
        assert_eq!(folder.read("log"), "head\n5555\n");
        assert_eq!(folder.read("log.1"), "head\n4444\n");
        assert_eq!(folder.read("log.3"), "head\n2222\n");
        assert!(!Path::new(&folder.path("log.4")).exists());
        let mut log = LogFile::open(&path, header(), rotate(1)).unwrap();
        log.append(b"6\n").unwrap();
        assert_eq!(
            (folder.read("log"), folder.read("log.1")),
            ("head\n6\n".into(), "head\n5555\n".into())
        );
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    }

    // A batch that is larger than a file is written whole, and the file is never empty.
    #[test]
    fn a_large_batch() {
        let folder = Folder::new("large");
        let rotate = Some(Rotate { size: Size(10), keep: 9 });
        let mut log = LogFile::open(&folder.path("log"), String::new(), rotate).unwrap();
        log.append(b"0123456789abcdef\n").unwrap();
        log.append(b"x\n").unwrap();
        assert_eq!(
            (folder.read("log"), folder.read("log.1")),
            ("x\n".into(), "0123456789abcdef\n".into())
        );
    }

    // A crash in the middle of a write leaves half a line, however long; it is cut off at the next
    // start. Complete lines stay.
    #[test]
    fn half_a_line_is_cut() {
        let folder = Folder::new("half");
        let long = "y".repeat(3 * STEP as usize + 5);
        for (before, after) in [
            ("head\none\ntw", "head\none\n"),
            ("head\none\n", "head\none\n"),
            ("head\none\n0", "head\none\n"),
            ("hea", "head\n"),
            ("", "head\n"),
            (format!("head\none\n{long}").as_str(), "head\none\n"),
            (long.as_str(), "head\n"),
            (format!("{long}\n").as_str(), format!("{long}\n").as_str()),
        ] {
            fs::write(folder.path("log"), before).unwrap();
            let mut log = LogFile::open(&folder.path("log"), header(), None).unwrap();
            log.append(b"new\n").unwrap();
            assert_eq!(folder.read("log"), format!("{after}new\n"));
        }
    }

    // After a rename by another program, lines go to the old file until it is reopened.
    #[test]
    fn reopened() {
        let folder = Folder::new("reopened");
        let mut log = LogFile::open(&folder.path("log"), header(), None).unwrap();
        log.append(b"1\n").unwrap();
        fs::rename(folder.path("log"), folder.path("old")).unwrap();
        log.append(b"2\n").unwrap();
        log.reopen().unwrap();
        log.append(b"3\n").unwrap();
        assert_eq!(
            (folder.read("old"), folder.read("log")),
            ("head\n1\n2\n".into(), "head\n3\n".into())
        );
    }

    // A file that can't be opened now is tried again with the next lines.
    #[test]
    fn tried_again() {
        let folder = Folder::new("again");
        fs::create_dir(folder.path("sub")).unwrap();
        let mut log = LogFile::open(&folder.path("sub/log"), header(), None).unwrap();
        fs::remove_dir_all(folder.path("sub")).unwrap();
        assert!(log.reopen().is_err());
        assert!(log.append(b"1\n").is_err());
        fs::create_dir(folder.path("sub")).unwrap();
        log.append(b"2\n").unwrap();
        assert_eq!(folder.read("sub/log"), "head\n2\n");
    }

    // Each problem names the cause and the remedy.
    #[test]
    fn problems() {
        let folder = Folder::new("problems");
        assert_eq!(problem(&folder.path("log"), true), None);
        let missing = problem(&folder.path("none/log"), false).unwrap();
        assert!(missing.contains("none` does not exist; make it"), "{missing}");
        let not_file = problem(folder.0.to_str().unwrap(), false).unwrap();
        assert!(not_file.contains("is not a file"), "{not_file}");
        assert_eq!(problem("Cargo.toml", false), None);
    }

    // A full disk: Linux has a device that is one. No half line stays, and the error is returned.
    #[test]
    fn a_full_disk() {
        let mut log = LogFile {
            path: "/dev/full".into(),
            header: String::new(),
            rotate: None,
            open: None,
            is_stuck: false,
        };
        let error = log.append(b"1\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(log.open.is_none());
    }
}
