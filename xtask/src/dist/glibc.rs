//! The glibc that a program needs: the highest version among the symbols that it imports.

use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::cmd::{cmd, stdout_of};
use crate::house::House;

type Version = Vec<u32>;

/// An error where the program needs a newer glibc than the documents promise.
pub(crate) fn ensure_runs_on(house: &House, program: &Path) -> anyhow::Result<()> {
    let promised = house.pinned("DIST_GLIBC")?;
    let most = version(promised).context("DIST_GLIBC in versions.env is not a version")?;
    let mut readelf = cmd(&house.root, "readelf", &["--version-info", "--wide"]);
    readelf.arg(program);
    let needed = highest(&stdout_of(readelf)?);
    let needed = needed.with_context(|| format!("{} uses no glibc", program.display()))?;
    ensure!(
        needed <= most,
        "{} needs glibc {}, newer than DIST_GLIBC={promised}: link it against DIST_GLIBC_DEBS, \
         or raise both and docs/install.md",
        program.display(),
        needed.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
    );
    Ok(())
}

/// The highest `GLIBC_2.x` in the output of readelf.
fn highest(printed: &str) -> Option<Version> {
    let words = printed.split(|c: char| c.is_whitespace() || "()@".contains(c));
    words.filter_map(|word| version(word.strip_prefix("GLIBC_")?)).max()
}

/// `2.31` as numbers, so that 2.4 is older than 2.31.
fn version(text: &str) -> Option<Version> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Versions are compared as numbers. Private symbols have no version.
    #[test]
    fn the_highest_version_is_found() {
        let printed = "  0x0010:   Name: GLIBC_2.4  Flags: none  Version: 8\n\
                       004:   2 (GLIBC_2.31)   3 (GLIBC_2.2.5)   4 (GLIBC_PRIVATE)\n";
        assert_eq!(highest(printed), version("2.31"));
        assert_eq!(highest("Name: GCC_3.0"), None);
        assert!(version("2.31") < version("2.34"));
    }
}
