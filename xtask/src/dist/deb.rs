//! The Debian package: a tree of files that dpkg-deb packs, with a service and its user.

use std::path::{Path, PathBuf};

use super::archive::{gzip, set_mode, settle_modes};
use super::layout::{Layout, copy, write};
use super::place::Place;
use super::programs::Programs;
use crate::cmd::{cmd, stdout_of};
use crate::house::House;

/// Configuration that dpkg does not overwrite.
const CONFIGURATION: &str = "/etc/meridian/gateway.yaml";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

pub(super) fn path(place: &Place) -> PathBuf {
    place.out.join(format!("meridian_{}_amd64.deb", version(place)))
}

pub(super) fn make(house: &House, place: &Place, programs: &Programs) -> anyhow::Result<()> {
    let root = place.stage("deb")?;
    let share = root.join("usr/share");
    let layout = Layout {
        bin: root.join("usr/bin"),
        man: share.join("man/man1"),
        bash: share.join("bash-completion/completions"),
        zsh: share.join("zsh/vendor-completions"),
        fish: share.join("fish/vendor_completions.d"),
        units: root.join("lib/systemd/system"),
        sysusers: root.join("usr/lib/sysusers.d"),
        installed: "/usr/bin/meridian",
    };
    layout.fill(house, programs)?;
    for page in std::fs::read_dir(&layout.man)? {
        gzip(&page?.path())?;
    }
    copy(&house.root.join("packaging/gateway.yaml"), &root.join(&CONFIGURATION[1..]))?;
    documents(house, place, &share.join("doc/meridian"))?;
    control(house, place, &root)?;
    let args = ["-Zxz", "--root-owner-group", "--build"];
    let mut pack = cmd(&root, "dpkg-deb", &args);
    pack.env("SOURCE_DATE_EPOCH", place.epoch.to_string());
    pack.arg(&root).arg(path(place));
    stdout_of(pack).map(drop)
}

/// The version of the package: the project's, and the number of Debian's revision.
fn version(place: &Place) -> String {
    format!("{}-1", place.version)
}

fn documents(house: &House, place: &Place, folder: &Path) -> anyhow::Result<()> {
    copy(&house.root.join("packaging/deb/copyright"), &folder.join("copyright"))?;
    copy(&house.root.join("CHANGELOG.md"), &folder.join("changelog"))?;
    gzip(&folder.join("changelog"))?;
    let time = format!("--date=@{}", place.epoch);
    let date = stdout_of(cmd(&house.root, "date", &["--utc", "--rfc-email", &time]))?;
    let text = format!(
        "meridian ({}) unstable; urgency=medium\n\n  * /usr/share/doc/meridian/changelog.gz lists \
         the changes.\n\n -- {}  {date}",
        version(place),
        field(house.file("packaging/deb/control")?, "Maintainer")
    );
    write(&folder.join("changelog.Debian"), &text)?;
    gzip(&folder.join("changelog.Debian")).map(drop)
}

/// The folder that makes a tree of files a package.
fn control(house: &House, place: &Place, root: &Path) -> anyhow::Result<()> {
    settle_modes(root)?;
    let kibibytes = stdout_of(cmd(root, "du", &["--summarize", "--apparent-size", "-k", "."]))?;
    let sums = "find etc lib usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = stdout_of(cmd(root, "sh", &["-c", sums]))?;
    let text = house.file("packaging/deb/control")?;
    let text = text
        .replace("@VERSION@", &version(place))
        .replace("@SIZE@", kibibytes.split_whitespace().next().unwrap_or("0"))
        .replace("@GLIBC@", house.pinned("DIST_GLIBC")?);
    let folder = root.join("DEBIAN");
    write(&folder.join("control"), &text)?;
    write(&folder.join("conffiles"), &format!("{CONFIGURATION}\n"))?;
    write(&folder.join("md5sums"), &sums)?;
    for script in SCRIPTS {
        let file = folder.join(script);
        write(&file, house.file(&format!("packaging/deb/{script}"))?)?;
        set_mode(&file, 0o755)?;
    }
    set_mode(&folder, 0o755)
}

fn field<'a>(control: &'a str, name: &str) -> &'a str {
    let mut lines = control.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    lines.next().unwrap_or_default()
}
