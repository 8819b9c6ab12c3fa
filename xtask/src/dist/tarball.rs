//! The tarball: one folder to copy to `/usr/local`, or to run the programs from where they are.

use std::path::PathBuf;

use super::archive;
use super::layout::{Layout, copy};
use super::place::Place;
use super::programs::Programs;
use crate::house::House;

pub(super) fn path(place: &Place) -> PathBuf {
    place.out.join(format!("{}.tar.gz", name(place)))
}

pub(super) fn make(house: &House, place: &Place, programs: &Programs) -> anyhow::Result<()> {
    let stage = place.stage("tarball")?;
    let top = stage.join(name(place));
    let share = top.join("share");
    let layout = Layout {
        bin: top.join("bin"),
        man: share.join("man/man1"),
        bash: share.join("bash-completion/completions"),
        zsh: share.join("zsh/site-functions"),
        fish: share.join("fish/vendor_completions.d"),
        units: top.join("lib/systemd/system"),
        sysusers: top.join("lib/sysusers.d"),
        installed: "/usr/local/bin/meridian",
    };
    layout.fill(house, programs)?;
    copy(&house.root.join("packaging/gateway.yaml"), &top.join("etc/meridian/gateway.yaml"))?;
    for page in ["LICENSE", "README.md", "CHANGELOG.md"] {
        copy(&house.root.join(page), &top.join(page))?;
    }
    copy(&house.root.join("docs/install.md"), &top.join("INSTALL.md"))?;
    let tar = place.out.join(format!("{}.tar", name(place)));
    archive::tar(place, &stage, &tar)?;
    archive::gzip(&tar).map(drop)
}

fn name(place: &Place) -> String {
    format!("meridian-{}-x86_64-linux", place.version)
}
