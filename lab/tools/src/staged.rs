//! Writes the files of a report together: all of them are complete before the first one is put in its
//! place. A full disk, or a run that is killed while it writes, leaves the files of the run before.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, process};

use anyhow::{Context, ensure};

/// Calls `write` with an empty folder inside `dir`, and moves the files that it wrote into `dir`. The
/// folder is this process's own, so two runs may end at the same time.
///
/// # Errors
/// Those of `write`, and when `dir` can't be made or has a folder with the name of a file.
pub fn staged(dir: &Path, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let part = dir.join(format!(".report.part-{}", process::id()));
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    fs::create_dir(&part)
        .with_context(|| format!("cannot make {}; remove it if it is there", part.display()))?;
    let written = write(&part).and_then(|()| place(&part, dir));
    let removed = fs::remove_dir_all(&part);
    written.and_then(|()| removed.with_context(|| format!("cannot remove {}", part.display())))
}

/// Writes a file of a report.
///
/// # Errors
/// When it can't be written.
pub fn put(dir: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
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
        let with = |says: &'static str| {
            move |part: &Path| -> anyhow::Result<()> {
                put(part, "a", says)?;
                put(part, "b", says)?;
                if says == "half" { bail!("the disk is full") } else { Ok(()) }
            }
        };
        staged(&dir, with("first")).unwrap();
        staged(&dir, with("half")).unwrap_err();
        assert_eq!((text(dir.join("a")), text(dir.join("b"))), ("first".into(), "first".into()));
        fs::remove_file(dir.join("b")).unwrap();
        fs::create_dir(dir.join("b")).unwrap();
        let error = staged(&dir, with("second")).unwrap_err().to_string();
        assert!(error.contains("b: a folder is in the way; remove it"), "{error}");
        assert_eq!(text(dir.join("a")), "first");
        let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(
            names.collect::<std::collections::BTreeSet<_>>(),
            ["a", "b"].map(Into::into).into()
        );
        fs::remove_dir_all(dir).unwrap();
    }
}
