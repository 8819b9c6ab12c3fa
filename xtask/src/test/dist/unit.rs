//! The systemd unit, judged by systemd itself.

use anyhow::ensure;

use crate::cmd::{cmd, stdout_of};
use crate::dist::{Made, archive};
use crate::house::House;

/// The most exposure that `systemd-analyze security` may find: 0 is none, 100 is an unconfined
/// service.
const EXPOSURE: &str = "--threshold=15";
const UNIT: &str = "meridian.service";

// systemd knows every setting of the unit, and finds that the service is confined.
pub(super) fn is_valid_and_confined(_: &House, made: &Made) -> anyhow::Result<()> {
    let root = made.place.stage("test-unit")?;
    let mut unpack = cmd(&root, "dpkg-deb", &["--extract"]);
    unpack.arg(&made.deb).arg(&root);
    stdout_of(unpack)?;
    // The commands of the unit must be below the root. Of those outside of the package it may use
    // the shell alone, which every Debian has.
    std::fs::create_dir_all(root.join("bin"))?;
    std::fs::write(root.join("bin/sh"), "")?;
    archive::set_mode(&root.join("bin/sh"), 0o755)?;
    let root = format!("--root={}", root.display());
    let verify = ["verify", "--man=no", "--recursive-errors=no", &root, UNIT];
    let output = cmd(&made.place.work, "systemd-analyze", &verify).output()?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let good = output.status.success() && !messages.contains(UNIT);
    ensure!(good, "systemd-analyze verify: {} {messages}", output.status);
    let security = ["security", "--offline=true", "--no-pager", EXPOSURE, &root, UNIT];
    let table = stdout_of(cmd(&made.place.work, "systemd-analyze", &security))?;
    println!("{}", table.lines().last().unwrap_or_default());
    Ok(())
}
