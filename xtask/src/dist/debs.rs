//! Debian packages that `versions.env` pins: fetched once, compared with their SHA-256, unpacked.
//!
//! apt's own helper downloads them, so the machine's proxy settings hold. Nothing is installed.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::archive::sha256;
use super::place::Place;
use crate::cmd::{cmd, stdout_of};
use crate::house::House;

/// One pinned package.
#[derive(Debug, PartialEq)]
struct Pin<'a> {
    /// Its path on the mirror.
    path: &'a str,
    sha256: &'a str,
}

/// Fetches the packages that `key` lists; their files, in order.
pub(crate) fn fetch(house: &House, place: &Place, key: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mirror = house.pinned("DIST_MIRROR")?;
    let folder = place.work.join("debs");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for word in house.pinned(key)?.split(' ') {
        let pin = pin(word).with_context(|| format!("{key} in versions.env"))?;
        let file = folder.join(pin.path.rsplit('/').next().unwrap_or(pin.path));
        if !file.exists() || sha256(&file)? != pin.sha256 {
            download(house, mirror, key, &pin, &file)?;
        }
        files.push(file);
    }
    Ok(files)
}

/// Adds a package's files to a folder. Its scripts do not run.
pub(crate) fn unpack(file: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut command = cmd(folder, "dpkg-deb", &["--extract"]);
    command.arg(file).arg(folder);
    stdout_of(command).map(drop)
}

fn pin(word: &str) -> anyhow::Result<Pin<'_>> {
    let halves = word.split_once("#sha256=").filter(|(_, sum)| sum.len() == 64);
    let (path, sha256) =
        halves.with_context(|| format!("{word} has no sum; write PATH#sha256=SUM"))?;
    Ok(Pin { path, sha256 })
}

fn download(
    house: &House,
    mirror: &str,
    key: &str,
    pin: &Pin<'_>,
    file: &Path,
) -> anyhow::Result<()> {
    let url = format!("{mirror}/{}", pin.path);
    println!("fetching {url}");
    let mut helper = cmd(&house.root, "/usr/lib/apt/apt-helper", &["download-file", &url]);
    helper.arg(file).arg(format!("SHA256:{}", pin.sha256));
    stdout_of(helper).map(drop).with_context(|| {
        format!(
            "cannot fetch {url}: pin the version that the mirror has now as {key} in versions.env, \
             or put the file with SHA-256 {} at {}",
            pin.sha256,
            file.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A package without a sum could be any file.
    #[test]
    fn a_pin_needs_its_sum() {
        let sum = "0".repeat(64);
        let word = format!("debian/pool/a_1_amd64.deb#sha256={sum}");
        let wanted = Pin { path: "debian/pool/a_1_amd64.deb", sha256: &sum };
        assert_eq!(pin(&word).unwrap(), wanted);
        assert!(pin("debian/pool/a_1_amd64.deb").is_err());
        assert!(pin("debian/pool/a_1_amd64.deb#sha256=12").is_err());
    }
}
