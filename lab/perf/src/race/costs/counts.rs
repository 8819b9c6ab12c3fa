//! Allocations and copies of a program, counted by a small library that is loaded before libc.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

const SOURCE: &str = include_str!("../../../peers/count.c");
/// The library's numbers: calls and bytes of allocations, then of copies.
const NUMBERS: usize = 4;

/// The library, and the file with its counters.
pub(super) struct Counter {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts(pub(super) [u64; NUMBERS]);

impl Counter {
    /// Compiles the library.
    pub(super) fn new(dir: &Path) -> anyhow::Result<Counter> {
        let (source, library) = (dir.join("count.c"), dir.join("libcount.so"));
        std::fs::write(&source, SOURCE)?;
        let output = Command::new("cc")
            .args(["-O2", "-Wall", "-shared", "-fPIC", "-fno-builtin", "-o"])
            .args([&library, &source])
            .output()
            .context("cannot start cc: on Debian, `apt-get install gcc`")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cc failed on {}: {error}", source.display());
        let path = dir.join("counts");
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        file.set_len(8 * NUMBERS as u64)?;
        Ok(Counter { library, path, file })
    }

    /// The environment of a program to count.
    pub(super) fn environment(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("MERIDIAN_COUNTS", &self.path)]
    }

    /// The counters.
    pub(super) fn read(&self) -> anyhow::Result<Counts> {
        let mut bytes = [0; 8 * NUMBERS];
        self.file.read_exact_at(&mut bytes, 0)?;
        let (numbers, _) = bytes.as_chunks::<8>();
        let mut counts = Counts::default();
        counts.0.iter_mut().zip(numbers).for_each(|(to, from)| *to = u64::from_ne_bytes(*from));
        Ok(counts)
    }
}

impl Counts {
    /// Counted since `before`, for each of `requests`.
    pub(super) fn each(self, before: Counts, requests: f64) -> [f64; NUMBERS] {
        let mut each = [0.0; NUMBERS];
        let pairs = self.0.iter().zip(before.0);
        each.iter_mut().zip(pairs).for_each(|(to, (now, old))| *to = (now - old) as f64 / requests);
        each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A program's allocations and copies are counted, and those of its children.
    #[test]
    fn programs_are_counted() {
        let dir = std::env::temp_dir().join(format!("meridian-counts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("it can be made");
        let counter = Counter::new(&dir).expect("there is a compiler");
        assert_eq!(counter.read().unwrap(), Counts::default());
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $(echo of a child)"]).envs(counter.environment());
        assert_eq!(shell.output().unwrap().stdout, b"of a child\n");
        let counts = counter.read().unwrap();
        assert!(counts.0.iter().all(|number| *number > 0), "{counts:?}");
        let [calls, bytes, copies, copied] = counts.each(Counts::default(), 2.0);
        assert_eq!(calls, counts.0[0] as f64 / 2.0);
        assert!(bytes > calls && copied > copies, "{counts:?}");
        std::fs::remove_dir_all(&dir).expect("it was made");
    }
}
