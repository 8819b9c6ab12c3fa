//! The Debian package, installed by dpkg into a folder: a Debian 11 that has only the C library.
//!
//! The package's scripts run outside of the folder and act on it by `DPKG_ROOT`, since it has no
//! shell.

use std::path::Path;

use anyhow::{Context as _, ensure};

use super::{oldest, root};
use crate::cmd::{cmd, stdout_of};
use crate::dist::{Made, debs};
use crate::house::House;

const CONFIGURATION: &str = "etc/meridian/gateway.yaml";
const INSTALLED: &str = "Status: install ok installed\n";
/// This machine's systemd creates the user.
const SYSTEMD: &str = "Package: systemd\nVersion: 247\nArchitecture: amd64\n\
                       Maintainer: Debian\nDescription: the systemd outside\n";

// dpkg finds the dependencies satisfied, the script creates the user, the shipped configuration
// serves, and a purge removes everything.
pub(super) fn is_installed_serves_and_is_removed(house: &House, made: &Made) -> anyhow::Result<()> {
    let place = oldest::debian_11(house, made, "test-deb")?;
    list_as_installed(house, made, &place)?;
    let deb = made.deb.to_str().context("the checkout's path is not text")?;
    dpkg(&place, &["--install", deb])?;
    let changed = dpkg(&place, &["--verify", "meridian"])?;
    ensure!(changed.is_empty(), "dpkg --verify finds {changed}");
    let users = std::fs::read_to_string(place.join("etc/passwd")).context("etc/passwd")?;
    ensure!(users.contains("\nmeridian:") || users.starts_with("meridian:"), "no user: {users}");
    let installed = root::enter(&place, Some("meridian"))?;
    installed.are_version(&made.place.version)?;
    installed.serves(&std::fs::read_to_string(place.join(CONFIGURATION))?)?;
    dpkg(&place, &["--purge", "meridian"])?;
    let unit = "lib/systemd/system/meridian.service";
    for gone in ["usr/bin/meridian", "usr/bin/meridian-lab", "etc/meridian", unit] {
        ensure!(!place.join(gone).exists(), "a purge leaves {gone}");
    }
    Ok(())
}

/// Writes dpkg's list of installed packages for the packages that `debian_11` unpacked.
fn list_as_installed(house: &House, made: &Made, place: &Path) -> anyhow::Result<()> {
    let mut list = format!("{SYSTEMD}{INSTALLED}");
    for deb in debs::fetch(house, &made.place, "DIST_GLIBC_DEBS")? {
        let mut fields = cmd(place, "dpkg-deb", &["--field"]);
        fields.arg(&deb);
        list += &format!("\n{}{INSTALLED}", stdout_of(fields)?);
    }
    for folder in ["info", "updates", "triggers"] {
        std::fs::create_dir_all(place.join("var/lib/dpkg").join(folder))?;
    }
    std::fs::write(place.join("var/lib/dpkg/status"), list).context("var/lib/dpkg/status")
}

fn dpkg(place: &Path, args: &[&str]) -> anyhow::Result<String> {
    let mut dpkg = root::as_root("dpkg")?;
    dpkg.arg("--root").arg(place).arg("--force-script-chrootless").args(args);
    // dpkg wants to find the tools of an administrator.
    dpkg.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    stdout_of(dpkg)
}
