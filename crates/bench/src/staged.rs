//! Writes the files of a report together: a run that is killed, or a full disk, leaves the files of the
//! run before.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// The folder for files that are not complete.
const PART: &str = ".report.part";

/// Calls `write` with an empty folder inside `dir`, and moves the files that it wrote into `dir`.
///
/// # Errors
/// Those of `write`, and when `dir` can't be made or has a folder with the name of a file.
pub(crate) fn staged(
    dir: &Path,
    write: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let part = dir.join(PART);
    // Of a run that was killed.
    let _ = fs::remove_dir_all(&part);
    fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
    let written = write(&part).and_then(|()| place(&part, dir));
    let removed = fs::remove_dir_all(&part);
    written.and_then(|()| removed.with_context(|| format!("cannot remove {}", part.display())))
}

/// Moves all files of `part` into `dir`, after a look at what is there.
fn place(part: &Path, dir: &Path) -> anyhow::Result<()> {
    let names = fs::read_dir(part)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<OsString> = names.collect::<Result<_, _>>()?;
    let places: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    for place in &places {
        ensure!(!place.is_dir(), "{}: a folder is in the way; remove it", place.display());
    }
    for (name, place) in names.iter().zip(&places) {
        fs::rename(part.join(name), place)
            .with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn text(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    // A report that can't be written leaves the one before as it was, and nothing else.
    #[test]
    fn all_or_nothing() {
        let dir = std::env::temp_dir().join(format!("meridian-staged-{}", std::process::id()));
        let put = |says: &'static str| {
            move |part: &Path| -> anyhow::Result<()> {
                fs::write(part.join("a"), says)?;
                fs::write(part.join("b"), says)?;
                if says == "half" { bail!("the disk is full") } else { Ok(()) }
            }
        };
        staged(&dir, put("first")).unwrap();
        staged(&dir, put("half")).unwrap_err();
        assert_eq!((text(dir.join("a")), text(dir.join("b"))), ("first".into(), "first".into()));
        fs::remove_file(dir.join("b")).unwrap();
        fs::create_dir(dir.join("b")).unwrap();
        let error = staged(&dir, put("second")).unwrap_err().to_string();
        assert!(error.contains("b: a folder is in the way; remove it"), "{error}");
        assert_eq!(text(dir.join("a")), "first");
        assert!(!dir.join(PART).exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
