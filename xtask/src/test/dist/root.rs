//! Runs programs with a folder as the root of their file system.
//!
//! `chroot` needs root, or a user namespace in which this user is root. Where neither is permitted,
//! the folder's own dynamic loader starts each program with the folder's libraries. There `meridian`
//! cannot start `meridian-lab`, since the process is the loader and has the loader's folder, so the
//! test starts both by itself and says so.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::installed::Installed;
use crate::cmd::stdout_of;
use crate::dist::programs::MERIDIAN;

const BIN: &str = "/usr/bin";

/// The programs in `/usr/bin` of the folder, run as this user of the folder where that is permitted.
pub(super) fn enter(root: &Path, user: Option<&str>) -> anyhow::Result<Installed> {
    let folder = root.join("tmp");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let place = root.to_str().context("the checkout's path is not text")?;
    let mut refused = Vec::new();
    for Way { inside, front, finds_lab } in ways(place, user) {
        let (bin, line) = (format!("{inside}{BIN}"), front.join(" "));
        let (folder, inside) = (folder.clone(), format!("{inside}/tmp").into());
        let installed = Installed { front, bin, finds_lab, folder, inside };
        match stdout_of(installed.call(&MERIDIAN, &["--version"])) {
            Ok(_) => {
                println!("runs by {line}");
                if !finds_lab {
                    println!("{NOT_CHECKED}");
                }
                return Ok(installed);
            }
            Err(error) => refused.push(format!("{error:#}")),
        }
    }
    bail!("the program does not start in {place}:\n{}", refused.join("\n"))
}

/// Printed where the loader starts the programs.
const NOT_CHECKED: &str = "NOT CHECKED here: that `meridian engine` starts meridian-lab. This machine \
                           permits neither chroot nor a user namespace, so the test starts \
                           meridian-lab by itself";

/// A way to run programs with a folder as their root.
struct Way {
    /// The root as the programs see it, without the last slash.
    inside: String,
    /// The command line in front of a program.
    front: Vec<String>,
    finds_lab: bool,
}

/// The nearest to a container first.
fn ways(root: &str, user: Option<&str>) -> [Way; 3] {
    let user = user.map(|user| format!("--userspec={user}:{user}"));
    let chroot = ["chroot"].into_iter().chain(user.as_deref()).chain([root]);
    let namespace = ["unshare", "--map-root-user", "chroot", root];
    let libraries = format!("{root}/lib/x86_64-linux-gnu");
    let loader = format!("{libraries}/ld-linux-x86-64.so.2");
    let loaded = [loader.as_str(), "--library-path", &libraries];
    let as_root = |front| Way { inside: String::new(), front, finds_lab: true };
    let loaded = Way { inside: root.to_owned(), front: owned(loaded), finds_lab: false };
    [as_root(owned(chroot)), as_root(owned(namespace)), loaded]
}

fn owned<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// A command that may act as root on files of this user.
pub(super) fn as_root(program: &str) -> anyhow::Result<Command> {
    let mut id = Command::new("id");
    id.arg("-u");
    if stdout_of(id)?.trim() == "0" {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", program]);
    Ok(command)
}
