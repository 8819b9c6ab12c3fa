//! The tarball and the file of checksums.

use anyhow::ensure;

use super::installed::Installed;
use crate::cmd::{cmd, stdout_of};
use crate::dist::Made;
use crate::house::House;

/// Files that docs/install.md tells users to copy.
const HOLDS: [&str; 17] = [
    "bin/meridian",
    "bin/meridian-lab",
    "etc/meridian/gateway.yaml",
    "lib/systemd/system/meridian.service",
    "lib/sysusers.d/meridian.conf",
    "share/man/man1/meridian.1",
    "share/man/man1/meridian-gateway.1",
    "share/man/man1/meridian-up.1",
    "share/man/man1/meridian-lab.1",
    "share/bash-completion/completions/meridian",
    "share/bash-completion/completions/meridian-lab",
    "share/zsh/site-functions/_meridian",
    "share/zsh/site-functions/_meridian-lab",
    "share/fish/vendor_completions.d/meridian.fish",
    "share/fish/vendor_completions.d/meridian-lab.fish",
    "LICENSE",
    "INSTALL.md",
];

// The tarball has all its files in one folder, and its programs serve from where they were unpacked.
pub(super) fn is_unpacked_and_serves(_: &House, made: &Made) -> anyhow::Result<()> {
    let folder = made.place.stage("test-tarball")?;
    let mut unpack = cmd(&folder, "tar", &["--extract", "--strip-components=1", "--file"]);
    unpack.arg(&made.tarball);
    stdout_of(unpack)?;
    for file in HOLDS {
        ensure!(folder.join(file).metadata().is_ok_and(|one| one.len() > 0), "{file} is missing");
    }
    let unit = std::fs::read_to_string(folder.join("lib/systemd/system/meridian.service"))?;
    ensure!(unit.contains("ExecStart=/usr/local/bin/meridian "), "the unit names another binary");
    let installed = Installed::here(&folder.join("bin"), &folder)?;
    installed.are_version(&made.place.version)?;
    installed.serves(&std::fs::read_to_string(folder.join("etc/meridian/gateway.yaml"))?)
}

// Every package has its line in SHA256SUMS, and `sha256sum --check` accepts the file.
pub(super) fn checksums_hold(_: &House, made: &Made) -> anyhow::Result<()> {
    let checked = stdout_of(cmd(&made.place.out, "sha256sum", &["--check", "SHA256SUMS"]))?;
    for package in
        [&made.tarball, &made.wheel, &made.flow_wheel, &made.sbom, &made.deb, &made.image]
    {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        ensure!(checked.contains(&format!("{name}: OK\n")), "{name} has no line in SHA256SUMS");
    }
    Ok(())
}
